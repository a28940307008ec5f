"""What compiled code depends on, as hashes: the key of a stored kernel is made of them.

Everything that code can reach is looked at by content, whatever it is called and wherever it is: constants, global
names, attributes of modules, closures, defaults, functions that are called, and what these reach. Python, NumPy, SciPy,
Numba and llvmlite are in it by their versions. Anything else raises :class:`Unfit`, and is not stored: there is no
text for an object in general that says what it is.

A function is a number where it is met again, so that each is looked at once, and functions may call each other.
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
from numba.core import types as numba_types
from numba.core.dispatcher import Dispatcher
from numba.extending import _Intrinsic
from numba.np.ufunc.dufunc import DUFunc

from .known_names import Unfit, found, library, more, of_type, own, own_class, versioned

__all__ = ["Unfit", "dispatchers", "identity", "of_function", "of_options", "of_source", "of_type", "of_value"]

#: Bytes up to which Numba puts arrays into code; of larger ones it puts in the address.
_LARGEST_ARRAY = 10**6
#: What nbgrad's own functions and modules of libraries are: every kernel uses some of the same helpers.
_known: WeakKeyDictionary[Any, bytes] = WeakKeyDictionary()
_unlike = itertools.count()
_asked: set[types.FunctionType] = set()  # of which the hash is being made


def of_value(value: Any) -> str:
    """A hash that changes when the value changes, or anything that it reaches."""
    return _Walk().hash(value).hex()


def of_function(function: Any) -> str:
    """The same for a function, which need not be one that compiled code can call."""
    return (_Walk().ours(function) if own(function) and not function.__closure__ else _all_of(function)).hex()


def of_source(source: str, helpers: dict[str, Any]) -> str:
    """The same for generated source and the names that it uses."""
    return of_value((source, tuple(sorted(helpers)), *(helpers[name] for name in sorted(helpers))))


def identity(source: str, helpers: dict[str, Any]) -> str:
    """What makes generated source a function of its own, in this process."""
    try:
        return of_source(source, helpers)
    except Unfit:
        return str(next(_unlike))


def of_options(options: dict[str, Any]) -> str:
    """The same for what a function was compiled with."""
    given = tuple([(name, frozenset(x) if isinstance(x, set) else x) for name, x in sorted(options.items())])
    try:
        return _of_options(given)
    except TypeError:  # not hashable
        return of_value(given)


_of_options = functools.lru_cache(1000)(of_value)


def dispatchers(value: Any) -> list[Dispatcher]:
    """The functions that Numba compiles among what the value reaches, without nbgrad's own."""
    walk = _Walk()
    walk.hash(value, root=True)
    return walk.dispatchers


def _all_of(function: Any) -> bytes:
    return _Walk().hash(function, root=True)


def _packed(*parts: bytes) -> bytes:
    return b"".join([x for part in parts for x in (struct.pack("<q", len(part)), part)])


def _text(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class _Walk:
    """A way through everything that a value reaches."""

    def __init__(self) -> None:
        self.numbers: dict[tuple, int] = {}  # of functions and modules, in the order in which they are met
        self.waiting: list[tuple[Callable[..., bytes], tuple]] = []  # what is to be looked at
        self.dispatchers: list[Dispatcher] = []
        self.inside: set[int] = set()  # containers that are being looked at

    def hash(self, value: Any, root: bool = False) -> bytes:
        made = hashlib.sha256()
        try:
            made.update(self.function(value) if root and type(value) is types.FunctionType else self.token(value))
            done = 0
            while done < len(self.waiting):
                look, given = self.waiting[done]
                made.update(look(*given))
                done += 1
        except RecursionError:
            raise Unfit("a value that contains too many others") from None
        return made.digest()

    def number(self, look: Callable[..., bytes], *given: Any) -> bytes:
        """Stands for what has a number, and is looked at later."""
        key = (look.__name__, *map(id, given[:1]), *given[1:])
        if key not in self.numbers:
            self.numbers[key] = len(self.numbers)
            self.waiting.append((look, given))
        return b"#%d" % self.numbers[key]

    def token(self, value: Any) -> bytes:
        """What a value is, with the numbers of functions and modules in it."""
        kinds: Iterator[Callable] = (_BY_TYPE[kind] for kind in type(value).__mro__ if kind in _BY_TYPE)
        how: Callable[..., bytes] = next(kinds, _Walk.other)
        return _packed(_text(type(value).__qualname__), how(self, value))

    def tokens(self, values: Iterable) -> bytes:
        return _packed(*map(self.token, values))

    # Values.

    def plain(self, value: Any) -> bytes:
        if type(value) not in _PLAIN:  # which they were made of, among other things
            if isinstance(value, enum.Enum):
                return self.member(value)
            return self.scalar(value) if isinstance(value, np.generic) else self.other(value)
        return _PLAIN[type(value)](value)

    def items(self, value: Any) -> bytes:
        """Tuples, lists, dicts; and tuples with names."""
        parts: Any = value
        if type(value) is dict:
            parts = [x for pair in value.items() for x in pair]
        elif type(value) not in (tuple, list):
            if not hasattr(value, "_fields"):
                return self.other(value)
            parts = type(value), *value
        if id(value) in self.inside:
            raise Unfit(f"a {type(value).__name__} that contains itself")
        self.inside.add(id(value))
        try:
            return hashlib.sha256(self.tokens(parts)).digest()
        finally:
            self.inside.discard(id(value))

    def set(self, value: Any) -> bytes:
        if type(value) not in (set, frozenset):
            return self.other(value)
        return _packed(*sorted(_Walk().hash(x) for x in value))

    def range(self, value: Any) -> bytes:
        return self.tokens((value.start, value.stop, value.step))

    def array(self, value: np.ndarray) -> bytes:
        if type(value) is not np.ndarray or value.dtype.hasobject:
            return self.other(value)
        if value.nbytes > _LARGEST_ARRAY or not (value.flags.c_contiguous or value.flags.f_contiguous):
            raise Unfit("an array of which Numba puts the address into code: of over a megabyte, or not contiguous")
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
            raise Unfit(f"the dtype {value!r}")
        layout = np.lib.format.dtype_to_descr(value)
        return _text(repr((layout, value.itemsize, value.alignment, value.isalignedstruct)))

    def member(self, value: enum.Enum) -> bytes:
        return _packed(self.token(type(value)), _text(value.name))

    def partial(self, value: functools.partial) -> bytes:
        if type(value) is not functools.partial:
            return self.other(value)
        return self.tokens((value.func, value.args, value.keywords))

    def type(self, value: Any) -> bytes:
        """Classes: of libraries; of exceptions, which are found by name when they are raised; of enums and tuples with
        names, by all that can be asked of them in compiled code."""
        if (known := library(value)) is not None or (known := own_class(value)) is not None:
            return _text(known)
        name = _text(f"{value.__module__}.{value.__qualname__}")
        if issubclass(value, BaseException) and found(value.__module__, value.__qualname__) is value:
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
        return self.number(self.whole, value)

    def called(self, value: Any) -> bytes:
        """A function that code which Numba compiles calls."""
        if (known := library(value)) is not None:
            return _text(known)
        if not own(value):
            raise Unfit(f"{value.__qualname__}, a function of Python that compiled code calls by an overload")
        if hasattr(value, "bodies"):
            return self.tokens(value.bodies)
        return self.ours(value)

    def ours(self, value: Any) -> bytes:
        """A function of nbgrad's, which is looked at once in each process: its files do not change."""
        if value.__closure__:
            return self.function(value)
        if value in _asked:  # it calls itself; and what it is made of is in the sources
            return _text(f"{value.__module__}.{value.__qualname__}")
        if value not in _known:
            _asked.add(value)
            try:
                _known[value] = _all_of(value)
            except Unfit:
                _known[value] = hashlib.sha256(_text(f"{value.__module__}.{value.__qualname__}")).digest()
            finally:
                _asked.discard(value)
        return _known[value]

    def whole(self, value: types.FunctionType) -> bytes:
        """All of a function."""
        parts = [_text(value.__name__), self.code(value.__code__)]
        parts += [self.token(value.__defaults__), self.token(value.__kwdefaults__)]
        for cell in value.__closure__ or ():
            try:
                parts.append(self.token(cell.cell_contents))
            except ValueError:
                parts.append(b"empty")
        mine = own(value)
        # Of our own, everything that might be meant will do, which is quicker to find.
        reads = ((name,) for name in _strings(value.__code__)) if mine else _reads(value.__code__)
        for chain in dict.fromkeys(reads):
            parts.append(_text(".".join(chain)))
            try:
                parts.append(self.name(value, chain))
            except Unfit:
                if not mine:
                    raise
                parts.append(b"as the sources say")
        return _packed(*parts)

    def name(self, function: types.FunctionType, chain: tuple[str, ...]) -> bytes:
        """What a global name stands for, with attributes as far as it is a module."""
        first, *rest = chain
        if first in function.__globals__:
            value = function.__globals__[first]
        elif hasattr(builtins, first):
            return b"builtin"
        else:
            return b""
        origin = ""
        while type(value) is types.ModuleType and rest:
            origin = origin or (f"of a library {more(value.__name__)}" if versioned(value) else "")
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
        if versioned(value):
            _known[value] = _text(f"{value.__name__} {more(value.__name__)}")
            return _known[value]
        if names is None:
            raise Unfit(f"the module {value.__name__} as a value")
        return self.number(self.attributes, value, names)

    def attributes(self, value: types.ModuleType, names: tuple[str, ...]) -> bytes:
        """Of a module that is used otherwise than by attributes, all that could be asked for."""
        parts = [_text(value.__name__)]
        for name in names:
            if name in vars(value):
                part = vars(value)[name]
                inner = type(part) is types.ModuleType
                parts += [_text(name), self.module(part, names) if inner else self.token(part)]
        return _packed(*parts)

    def dispatcher(self, value: Dispatcher) -> bytes:
        if (known := library(value)) is not None:
            return _text(known)
        if not own(value.py_func):
            return self.number(self.compiled, value)
        if value not in _known:
            _known[value] = _packed(self.options(value), self.ours(value.py_func))
        return _known[value]

    def compiled(self, value: Dispatcher) -> bytes:
        self.dispatchers.append(value)
        return _packed(self.options(value), self.function(value.py_func))

    def options(self, value: Any) -> bytes:
        given = {name: value.targetoptions[name] for name in sorted(value.targetoptions)}
        chosen = () if value._can_compile else tuple(value.overloads)
        kinds = {name: value.locals[name] for name in sorted(getattr(value, "locals", None) or {})}
        return self.tokens((type(value), given, chosen, kinds, value._compiler.pipeline_class))

    def ufunc(self, value: Any) -> bytes:
        """One that ``numba.vectorize`` made."""
        inner = value._dispatcher
        given = {name: inner.targetoptions[name] for name in sorted(inner.targetoptions)}
        return self.tokens((given, tuple(value.types), str(value.identity))) + self.function(inner.py_func)

    def intrinsic(self, value: _Intrinsic) -> bytes:
        if value in _known:
            return _known[value]
        if not own(value._defn):
            raise Unfit(f"{value!r}, of which Python makes the code")
        made = self.ours(value._defn)
        if not value._defn.__closure__:
            _known[value] = made
        return made

    def other(self, value: Any) -> bytes:
        if (known := library(value)) is not None:
            return _text(known)
        raise Unfit(f"a {type(value).__module__}.{type(value).__qualname__}")


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
    **dict.fromkeys(_PLAIN, _Walk.plain),
    enum.Enum: _Walk.member,
    **dict.fromkeys((tuple, list, dict), _Walk.items),
    **dict.fromkeys((set, frozenset), _Walk.set),
    **dict.fromkeys((range, slice), _Walk.range),
    np.ndarray: _Walk.array,
    np.generic: _Walk.scalar,
    np.dtype: _Walk.dtype,
    functools.partial: _Walk.partial,
    numba_types.Type: _Walk.numba_type,
    type: _Walk.type,
    types.CodeType: _Walk.code,
    types.FunctionType: _Walk.called,
    types.ModuleType: _Walk.module,
    Dispatcher: _Walk.dispatcher,
    DUFunc: _Walk.ufunc,
    _Intrinsic: _Walk.intrinsic,
}
_MISSING = object()
#: What is looked at even if it is an attribute of a library: somebody else put it there, or it says as much as a name.
_CONTENT = (bool, int, float, complex, str, bytes, tuple, list, np.generic, np.ndarray, Dispatcher, DUFunc, _Intrinsic)


def _reads(code: types.CodeType) -> Iterator[tuple[str, ...]]:
    """The global names that code reads, each with the attributes that it is asked for at once."""
    chain: tuple[str, ...] = ()
    for instruction in dis.get_instructions(code):
        how = instruction.opname
        if chain and how in ("LOAD_ATTR", "LOAD_METHOD"):
            chain = (*chain, instruction.argval)
        elif how not in ("EXTENDED_ARG", "CACHE"):
            if chain:
                yield chain
            chain = (instruction.argval,) if how in ("LOAD_GLOBAL", "LOAD_NAME") else ()
    if chain:
        yield chain
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _reads(const)


def _strings(code: types.CodeType) -> Iterator[str]:
    """Whatever code could ask a module for."""
    yield from code.co_names
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _strings(const)
        elif isinstance(const, str):
            yield const
