"""Fingerprints: hashes of everything that compiled code depends on, for the keys of stored kernels.

Everything that code can reach is hashed by content, not by name or location: constants, globals, attributes of modules,
closures, defaults, called functions, and what these reach. Python, NumPy, SciPy, Numba and llvmlite are represented by
their versions. Anything else raises :class:`NoFingerprint` and is not stored, because objects in general cannot be
hashed by content.

Each function is visited once; further references to it are numbers, so functions may call each other.
"""

from __future__ import annotations

import builtins
import dis
import enum
import functools
import hashlib
import itertools
import struct
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numba import types as numba_types

from .internals import Dispatcher, DUFunc, Intrinsic, can_compile, definition_of, dispatcher_of, function_compiler
from .known_names import (
    NoFingerprint,
    is_own_function,
    is_versioned,
    library_name,
    of_type,
    own_class,
    resolve_name,
    scipy_versions,
)

__all__ = ["NoFingerprint", "dispatchers", "identity", "of_function", "of_options", "of_source", "of_type", "of_value"]

#: Largest arrays, in bytes, that Numba embeds in code; of larger ones it embeds the address.
_LARGEST_ARRAY = 10**6
#: Fingerprints of nbgrad's own functions and of library modules: all kernels share some helpers.
_known: WeakKeyDictionary[Any, bytes] = WeakKeyDictionary()
_unique_counter = itertools.count()
_in_progress: set[types.FunctionType] = set()  # functions whose hash is being computed


def of_value(value: Any) -> str:
    """A hash that changes when the value changes, or anything that it reaches."""
    return _FingerprintWalk().hash(value).hex()


def of_function(function: Any) -> str:
    """The same for a function, which need not be callable from compiled code."""
    return (
        _FingerprintWalk().own_function(function)
        if is_own_function(function) and not function.__closure__
        else _all_of(function)
    ).hex()


def of_source(source: str, helpers: dict[str, Any]) -> str:
    """The same for generated source and the helpers that it uses."""
    return of_value((source, tuple(sorted(helpers)), *(helpers[name] for name in sorted(helpers))))


def identity(source: str, helpers: dict[str, Any]) -> str:
    """A key for generated source in this process: its hash, or a unique number if it has none."""
    try:
        return of_source(source, helpers)
    except NoFingerprint:
        return str(next(_unique_counter))


def of_options(options: dict[str, Any]) -> str:
    """The same for the options that a function is compiled with."""
    items = tuple([(name, frozenset(x) if isinstance(x, set) else x) for name, x in sorted(options.items())])
    try:
        return _of_options(items)
    except TypeError:  # not hashable
        return of_value(items)


_of_options = functools.lru_cache(1000)(of_value)


def dispatchers(value: Any) -> list[Dispatcher]:
    """The dispatchers that a value reaches, without nbgrad's own."""
    walk = _FingerprintWalk()
    walk.hash(value, root=True)
    return walk.dispatchers


def _all_of(function: Any) -> bytes:
    return _FingerprintWalk().hash(function, root=True)


def _packed(*parts: bytes) -> bytes:
    return b"".join([x for part in parts for x in (struct.pack("<q", len(part)), part)])


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class _FingerprintWalk:
    """A traversal of everything that a value reaches."""

    def __init__(self) -> None:
        self.numbers: dict[tuple, int] = {}  # of functions and modules, in the order of first reference
        self.pending_functions: list[tuple[Callable[..., bytes], tuple]] = []  # still to be visited
        self.dispatchers: list[Dispatcher] = []
        self.inside: set[int] = set()  # ids of containers being visited

    def hash(self, value: Any, root: bool = False) -> bytes:
        """The digest of a value; with `root`, a plain function is hashed by its contents."""
        digest = hashlib.sha256()
        try:
            digest.update(self.function(value) if root and type(value) is types.FunctionType else self.token(value))
            visited = 0
            while visited < len(self.pending_functions):
                visit, args = self.pending_functions[visited]
                digest.update(visit(*args))
                visited += 1
        except RecursionError:
            raise NoFingerprint("a value that contains too many others") from None
        return digest.digest()

    def numbered_reference(self, visit: Callable[..., bytes], *args: Any) -> bytes:
        """A numbered reference to something that is visited later."""
        key = (visit.__name__, *map(id, args[:1]), *args[1:])
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.pending_functions.append((visit, args))
        return b"#%d" % self.numbers[key]

    def token(self, value: Any) -> bytes:
        """A value's type and content, with numbered references to functions and modules."""
        kinds: Iterator[Callable] = (_BY_TYPE[kind] for kind in type(value).__mro__ if kind in _BY_TYPE)
        how: Callable[..., bytes] = next(kinds, _FingerprintWalk.other)
        return _packed(_text(type(value).__qualname__), how(self, value))

    def tokens(self, values: Iterable) -> bytes:
        return _packed(*map(self.token, values))

    # Values.

    def plain(self, value: Any) -> bytes:
        if type(value) not in _PLAIN:  # a subclass, such as an enum or a NumPy scalar
            if isinstance(value, enum.Enum):
                return self.member(value)
            return self.scalar(value) if isinstance(value, np.generic) else self.other(value)
        return _PLAIN[type(value)](value)

    def items(self, value: Any) -> bytes:
        """Tuples, lists, dicts and namedtuples."""
        parts: Any = value
        if type(value) is dict:
            parts = [x for pair in value.items() for x in pair]
        elif type(value) not in (tuple, list):
            if not hasattr(value, "_fields"):
                return self.other(value)
            parts = type(value), *value
        if id(value) in self.inside:
            raise NoFingerprint(f"a {type(value).__name__} that contains itself")
        self.inside.add(id(value))
        try:
            return hashlib.sha256(self.tokens(parts)).digest()
        finally:
            self.inside.discard(id(value))

    def set(self, value: Any) -> bytes:
        if type(value) not in (set, frozenset):
            return self.other(value)
        return _packed(*sorted(_FingerprintWalk().hash(x) for x in value))

    def range(self, value: Any) -> bytes:
        return self.tokens((value.start, value.stop, value.step))

    def array(self, value: np.ndarray) -> bytes:
        if type(value) is not np.ndarray or value.dtype.hasobject:
            return self.other(value)
        if value.nbytes > _LARGEST_ARRAY or not (value.flags.c_contiguous or value.flags.f_contiguous):
            raise NoFingerprint(
                "an array of which Numba puts the address into code: of over a megabyte, or not contiguous"
            )
        flags = value.flags
        order = bytes([flags.c_contiguous, flags.f_contiguous, flags.aligned, flags.writeable])
        content = hashlib.sha256(value.tobytes()).digest()
        return _packed(self.dtype(value.dtype), repr(value.shape).encode(), order, content)

    def scalar(self, value: np.generic) -> bytes:
        if value.dtype.hasobject or type(value) is not value.dtype.type:
            return self.other(value)
        return _packed(self.dtype(value.dtype), value.tobytes())

    def dtype(self, value: np.dtype) -> bytes:
        if value.hasobject or value.metadata:
            raise NoFingerprint(f"the dtype {value!r}")
        layout = np.lib.format.dtype_to_descr(value)
        return _text(repr((layout, value.itemsize, value.alignment, value.isalignedstruct)))

    def member(self, value: enum.Enum) -> bytes:
        return _packed(self.token(type(value)), _text(value.name))

    def partial(self, value: functools.partial) -> bytes:
        if type(value) is not functools.partial:
            return self.other(value)
        return self.tokens((value.func, value.args, value.keywords))

    def type(self, value: Any) -> bytes:
        """Classes: of libraries; exceptions, which are looked up by name when raised; enums and namedtuples, by all
        that compiled code can use of them."""
        if (known := library_name(value)) is not None or (known := own_class(value)) is not None:
            return _text(known)
        name = _text(f"{value.__module__}.{value.__qualname__}")
        if issubclass(value, BaseException) and resolve_name(value.__module__, value.__qualname__) is value:
            return name
        if issubclass(value, enum.Enum):
            members = [x for pair in value.__members__.items() for x in (pair[0], pair[1].value)]
            return _packed(name, self.tokens(members))
        if value.__bases__ == (tuple,) and hasattr(value, "_fields"):
            return _packed(name, self.tokens((value._fields, value._field_defaults)))
        return self.other(value)

    def numba_type(self, value: numba_types.Type) -> bytes:
        return _text(of_type(value))

    # Functions and modules.

    def code(self, code: types.CodeType) -> bytes:
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        return _packed(
            _text(code.co_name), code.co_code, code.co_exceptiontable, repr((names, counts)).encode("utf-8", "replace"),
            self.tokens(code.co_consts),
        )  # fmt: skip

    def function(self, value: Any) -> bytes:
        return self.numbered_reference(self.function_contents, value)

    def called(self, value: Any) -> bytes:
        """A Python function that compiled code refers to."""
        if (known := library_name(value)) is not None:
            return _text(known)
        if not is_own_function(value):
            raise NoFingerprint(f"{value.__qualname__}, a function of Python that compiled code calls by an overload")
        if hasattr(value, "bodies"):
            return self.tokens(value.bodies)
        return self.own_function(value)

    def own_function(self, value: Any) -> bytes:
        """A function of nbgrad, which is hashed once per process: its files do not change."""
        if value.__closure__:
            return self.function(value)
        if value in _in_progress:  # it is recursive; its contents are in the source digest
            return _text(f"{value.__module__}.{value.__qualname__}")
        if value not in _known:
            _in_progress.add(value)
            try:
                _known[value] = _all_of(value)
            except NoFingerprint:
                _known[value] = hashlib.sha256(_text(f"{value.__module__}.{value.__qualname__}")).digest()
            finally:
                _in_progress.discard(value)
        return _known[value]

    def function_contents(self, value: types.FunctionType) -> bytes:
        """The contents of a function: code, defaults, closure and the globals that it reads."""
        parts = [_text(value.__name__), self.code(value.__code__)]
        parts += [self.token(value.__defaults__), self.token(value.__kwdefaults__)]
        for cell in value.__closure__ or ():
            try:
                parts.append(self.token(cell.cell_contents))
            except ValueError:
                parts.append(b"empty")
        mine = is_own_function(value)
        # For our own functions a superset of the names suffices, which is faster to find.
        reads = ((name,) for name in _strings(value.__code__)) if mine else _reads(value.__code__)
        for chain in dict.fromkeys(reads):
            parts.append(_text(".".join(chain)))
            try:
                parts.append(self.name(value, chain))
            except NoFingerprint:
                if not mine:
                    raise
                parts.append(b"as the sources say")
        return _packed(*parts)

    def name(self, function: types.FunctionType, chain: tuple[str, ...]) -> bytes:
        """The object that a global name is bound to, followed through attributes of modules."""
        first, *rest = chain
        if first in function.__globals__:
            value = function.__globals__[first]
        elif hasattr(builtins, first):
            return b"builtin"
        else:
            return b""
        origin = ""
        while type(value) is types.ModuleType and rest:
            origin = origin or (f"of a library {scipy_versions(value.__name__)}" if is_versioned(value) else "")
            value = getattr(value, rest.pop(0), _MISSING)
        if origin and not isinstance(value, _CONTENT):
            return _text(origin)
        if value is _MISSING:
            return b"missing"
        if type(value) is types.ModuleType:
            return self.module(value, tuple(sorted(set(_strings(function.__code__)))))
        return self.token(value)

    def module(self, value: types.ModuleType, names: tuple[str, ...] | None = None) -> bytes:
        if value in _known:
            return _known[value]
        if is_versioned(value):
            _known[value] = _text(f"{value.__name__} {scipy_versions(value.__name__)}")
            return _known[value]
        if names is None:
            raise NoFingerprint(f"the module {value.__name__} as a value")
        return self.numbered_reference(self.attributes, value, names)

    def attributes(self, value: types.ModuleType, names: tuple[str, ...]) -> bytes:
        """For a module that is used as a value, all its attributes that the code could read."""
        parts = [_text(value.__name__)]
        for name in names:
            if name in vars(value):
                part = vars(value)[name]
                inner = type(part) is types.ModuleType
                parts += [_text(name), self.module(part, names) if inner else self.token(part)]
        return _packed(*parts)

    def dispatcher(self, value: Dispatcher) -> bytes:
        if (known := library_name(value)) is not None:
            return _text(known)
        if not is_own_function(value.py_func):
            return self.numbered_reference(self.compiled, value)
        if value not in _known:
            _known[value] = _packed(self.options(value), self.own_function(value.py_func))
        return _known[value]

    def compiled(self, value: Dispatcher) -> bytes:
        self.dispatchers.append(value)
        return _packed(self.options(value), self.function(value.py_func))

    def options(self, value: Any) -> bytes:
        target_options = {name: value.targetoptions[name] for name in sorted(value.targetoptions)}
        signatures = () if can_compile(value) else tuple(value.overloads)
        kinds = {name: value.locals[name] for name in sorted(getattr(value, "locals", None) or {})}
        return self.tokens((type(value), target_options, signatures, kinds, function_compiler(value).pipeline_class))

    def ufunc(self, value: Any) -> bytes:
        """A ufunc created by ``numba.vectorize``."""
        inner = dispatcher_of(value)
        target_options = {name: inner.targetoptions[name] for name in sorted(inner.targetoptions)}
        return self.tokens((target_options, tuple(value.types), str(value.identity))) + self.function(inner.py_func)

    def intrinsic(self, value: Intrinsic) -> bytes:
        if value not in _known:
            definition = definition_of(value)
            if not is_own_function(definition):
                raise NoFingerprint(f"{value!r}, of which Python makes the code")
            _known[value] = _all_of(definition)
        return _known[value]

    def other(self, value: Any) -> bytes:
        if (known := library_name(value)) is not None:
            return _text(known)
        raise NoFingerprint(f"a {type(value).__module__}.{type(value).__qualname__}")


_PLAIN: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda x: b"",
    type(...): lambda x: b"",
    type(NotImplemented): lambda x: b"",
    bool: lambda x: b"%d" % x,
    int: lambda x: b"%x" % x,
    float: lambda x: struct.pack("<d", x),
    complex: lambda x: struct.pack("<dd", x.real, x.imag),
    str: _text,
    bytes: bytes,
}
_BY_TYPE: dict[type, Callable[..., bytes]] = {
    **dict.fromkeys(_PLAIN, _FingerprintWalk.plain),
    enum.Enum: _FingerprintWalk.member,
    **dict.fromkeys((tuple, list, dict), _FingerprintWalk.items),
    **dict.fromkeys((set, frozenset), _FingerprintWalk.set),
    **dict.fromkeys((range, slice), _FingerprintWalk.range),
    np.ndarray: _FingerprintWalk.array,
    np.generic: _FingerprintWalk.scalar,
    np.dtype: _FingerprintWalk.dtype,
    functools.partial: _FingerprintWalk.partial,
    numba_types.Type: _FingerprintWalk.numba_type,
    type: _FingerprintWalk.type,
    types.CodeType: _FingerprintWalk.code,
    types.FunctionType: _FingerprintWalk.called,
    types.ModuleType: _FingerprintWalk.module,
    Dispatcher: _FingerprintWalk.dispatcher,
    DUFunc: _FingerprintWalk.ufunc,
    Intrinsic: _FingerprintWalk.intrinsic,
}
_MISSING = object()
#: Attributes of libraries that are hashed by content nevertheless: users may have set them, and it costs as little.
_CONTENT = (bool, int, float, complex, str, bytes, tuple, list, np.generic, np.ndarray, Dispatcher, DUFunc, Intrinsic)


def _reads(code: types.CodeType) -> Iterator[tuple[str, ...]]:
    """The global names that code reads, each with the chain of attributes that follows."""
    chain: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        opcode = instruction.opname
        if chain and opcode in ("LOAD_ATTR", "LOAD_METHOD"):
            chain = (*chain, instruction.argval)
        elif opcode not in ("EXTENDED_ARG", "CACHE"):
            if chain:
                yield chain
            chain = (instruction.argval,) if opcode in ("LOAD_GLOBAL", "LOAD_NAME") else ()
    if chain:
        yield chain
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _reads(const)


def _strings(code: types.CodeType) -> Iterator[str]:
    """All names and strings by which code could read attributes of a module."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _strings(const)
        elif isinstance(const, str):
            yield const
