"""Compilation: Python functions over raw buffers to machine code. The only module that uses ``njit`` and ``cfunc``.

A *kernel* takes flat C-contiguous arrays, integers (sizes, strides, flags) and floats, writes into its array arguments,
and does not allocate, raise or return a value. It is compiled on the first call per combination of dtypes, stored on
disk (:mod:`.disk_cache`), and then entered through the compiled function's own wrapper: Numba's dispatcher, which would
type every argument again, is used to compile and never to call.
"""

from __future__ import annotations

import copy
import hashlib
import linecache
import sys
import time
import weakref
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numba import types

from ...core import config
from ...core.source_text import file_lines
from ..cuda.buffers import OnDevice
from . import code_store
from .compile_guard import COMPILING, compilation_scope, run_uninterrupted
from .entry_points import entry_point
from .exported import CheckedDispatcher, GeneratedDispatcher
from .fingerprint import identity, of_function, of_source
from .generated_module import GeneratedModule
from .internals import (
    CompileResult,
    CPUDispatcher,
    Dispatcher,
    DUFunc,
    free_pass_managers,
    function_compiler,
    overload,
    use_cache,
)
from .outlining import outline_parallel_loops
from .pipelines import GeneratedCompiler, HelperCompiler, KernelCompiler, NoAliasKernelCompiler, RoutineCompiler
from .routines import Routine

__all__ = [
    "Kernel",
    "by_precision",
    "device_form",
    "exec_unique",
    "for_c",
    "generate",
    "helper",
    "inline",
    "is_nopython",
    "kernel",
    "module",
    "nested",
    "nopython",
    "python",
    "routine",
]

_OPTIONS = {
    "nogil": True,  # other Python threads run while a kernel does
    "error_model": "numpy",  # x/0 is inf or nan; Python's model would add a branch and an exception to each division
    "no_cfunc_wrapper": True,  # nobody calls a kernel from C; the wrapper takes an eighth of compiling one
    "boundscheck": None,  # off unless NUMBA_BOUNDSCHECK=1, which the tests use once
}
#: A helper is not called from Python and gets no wrapper for that, which would take a third of its compile time.
_HELPER_OPTIONS = {"no_cpython_wrapper": True, "_nrt": False, "pipeline_class": HelperCompiler}
#: a*b+c may become one fused multiply-add. Nothing that could lose a NaN, an infinity or a signed zero.
_EXACT = {"contract"}
#: Additions may also be reordered, which lets a reduction use vector registers. For sums over fixed blocks only.
_REORDER = {"contract", "reassoc", "nsz"}

if numba.config.DISABLE_JIT:
    raise ImportError("nbgrad: NUMBA_DISABLE_JIT is set, but kernels are what Numba compiles; unset it")

free_pass_managers()


def inline(function=None, *, reorder: bool = False, runtime: bool = False):
    """Decorator: a scalar helper for kernels, inlined wherever it is used.

    Inlining is forced: a helper used twice in one kernel can pass LLVM's threshold, and a call left in
    a loop prevents its vectorisation. With `runtime` the helper may allocate arrays and be called from Python.
    """
    if function is None:
        return lambda f: inline(f, reorder=reorder, runtime=runtime)
    fastmath = _REORDER if reorder else _EXACT
    options = {} if runtime else _HELPER_OPTIONS
    dispatcher = numba.njit(function, forceinline=True, fastmath=fastmath, **options, **_OPTIONS)
    if not runtime:
        dispatcher.__class__ = _Helper
    return dispatcher


def helper(function=None, *, reorder: bool = False):
    """Decorator: a helper for kernels that is called, not inlined: a long one, or one that needs much of the stack."""
    if function is None:
        return lambda f: helper(f, reorder=reorder)
    fastmath = _REORDER if reorder else _EXACT
    options = {**_HELPER_OPTIONS, "pipeline_class": RoutineCompiler}
    dispatcher = numba.njit(function, forceinline=False, fastmath=fastmath, **options, **_OPTIONS)
    dispatcher.__class__ = _RoutineHelper
    use_cache(dispatcher, code_store.DispatcherCache(function.__name__, "", dispatcher))
    return dispatcher


def routine(function):
    """Decorator: a function that generated files call, compiled once for all of them. It may allocate arrays."""
    dispatcher = numba.njit(function, **_OPTIONS)
    dispatcher.__class__ = Routine
    use_cache(dispatcher, code_store.DispatcherCache(function.__name__, "", dispatcher))
    return dispatcher


class _Helper(CPUDispatcher):
    """The dispatcher of a helper. It has no wrapper for Python (:data:`_HELPER_OPTIONS`); Python calls it through
    another."""

    def __call__(self, *args):
        return _for_python(self)(*args)


class _RoutineHelper(_Helper, Routine):
    """The dispatcher of a helper whose code is not in its callers."""


@lru_cache(None)
def _for_python(helper: Callable) -> Callable:
    """A compiled function that calls a scalar helper, for generated files that run as Python."""
    return numba.njit(lambda *args: helper(*args), **_OPTIONS)


def device_form(function: Callable) -> Callable[[Callable], Callable]:
    """Decorator: on a GPU, kernels call `function`, of the math module, which NVIDIA's libdevice has, instead."""

    def mark(helper: Callable) -> Callable:
        helper.device_form = function  # type: ignore[attr-defined]  # read where kernels are bound
        return helper

    return mark


def by_precision(single: Callable, double: Callable) -> Callable:
    """A scalar helper with one body for float32 and one for everything else, chosen when a kernel is compiled.

    Parameters
    ----------
    single, double : callable
        Plain functions of the same positional arguments: the body if all arguments are float32, and the body
        for float64 (integers, and float32 mixed with them, too). Inlined like :func:`inline`'s.

    Returns
    -------
    callable
        For use in kernels.
    """

    def choose(*args):
        return _for_python(choose)(*args)

    @overload(
        choose, jit_options={**_OPTIONS, **_HELPER_OPTIONS, "forceinline": True, "fastmath": _EXACT}, strict=False
    )
    def body(*args):
        return single if all(a == types.float32 for a in args) else double

    choose.__name__ = double.__name__
    choose.bodies = (single, double)  # type: ignore[attr-defined]  # read by the fingerprint
    return choose


def kernel(function=None, *, reorder: bool = False, runtime: bool = False):
    """Decorator: turn a function over raw buffers into a :class:`Kernel`.

    Parameters
    ----------
    function : callable
    reorder : bool
        Let the compiler reorder additions (and so vectorise sums).
    runtime : bool
        Let it use Numba's runtime, which ``np.dot`` needs. Reference counting takes 20 ns per array argument;
        kernels without it are entered in half the time.
    """
    if function is None:
        return lambda f: kernel(f, reorder=reorder, runtime=runtime)
    return Kernel(function.__name__, lambda: function, lambda: of_function(function), reorder, runtime)


def generate(
    name: str, source: str, helpers: dict[str, object], *, reorder: bool = False, apart: bool = False
) -> Kernel:
    """A :class:`Kernel` from generated source.

    Parameters
    ----------
    name : str
        The function's name; a hash makes it unique, because Numba can confuse generated functions of the same
        name.
    source : str
        A ``def {name}(...)`` statement.
    helpers : dict
        The global names that `source` uses.
    reorder : bool
        As for :func:`kernel`.
    apart : bool
        No array argument that is written aliases another: the compiler need not check.
    """

    build = lambda: exec_unique(name, source, helpers, identity(source, helpers))  # noqa: E731
    program = Kernel(name, build, lambda: of_source(source, helpers), reorder, apart=apart)
    program.source = source
    return program


def nested(name: str, source: str, helpers: dict[str, object]):
    """A function from generated source, as for :func:`generate` with `apart`, that generated kernels call.

    Equal ones are one: the derivative of a loop runs the steps of the loop, too.
    """
    fingerprint = identity(source, helpers)
    dispatcher = _nested.get((name, fingerprint))
    if dispatcher is None:
        function = exec_unique(name, source, helpers, fingerprint)
        options = {**_OPTIONS, **_HELPER_OPTIONS, "pipeline_class": NoAliasKernelCompiler}
        dispatcher = numba.njit(function, fastmath=_EXACT, **options)
        dispatcher.__class__ = _Helper
        _nested[name, fingerprint] = dispatcher
    return dispatcher


_nested: weakref.WeakValueDictionary[tuple[str, str], Callable] = weakref.WeakValueDictionary()


def exec_unique(name: str, source: str, helpers: dict[str, object], fingerprint: str) -> Callable:
    """The Python function of generated source, under a unique name."""
    unique = f"{name}_{hashlib.sha256(fingerprint.encode()).hexdigest()[:12]}"
    text = source.replace(f"def {name}(", f"def {unique}(", 1)
    filename = f"<nbgrad {unique}>"
    linecache.cache[filename] = (len(text), None, file_lines(text), filename)
    namespace = {**helpers, "__name__": __name__}
    exec(compile(text, filename, "exec"), namespace)
    return namespace[unique]  # type: ignore[return-value]


def python(name: str, source: str, names: dict[str, object]) -> Callable:
    """A Python function from its source, ``def call(...): ...``, and the global names that it uses."""
    namespace = dict(names)
    exec(compile(source, f"<nbgrad {name}>", "exec"), namespace)
    return namespace["call"]  # type: ignore[return-value]


def nopython(name: str, source: str, helpers: dict[str, object], kinds: list) -> Callable:
    """A function that users call from their own compiled code: it may allocate, raise and return.

    Parameters
    ----------
    name, source, helpers
        As for :func:`generate`.
    kinds : list of (int or None, numpy.dtype)
        Rank and dtype of each argument, a C-contiguous array; None instead of a rank: a scalar.
    """
    namespace = {**helpers, "__name__": __name__}
    exec(compile(source, f"<nbgrad {name}>", "exec"), namespace)
    signature = tuple(
        [numba.from_dtype(d) if rank is None else types.Array(numba.from_dtype(d), rank, "C") for rank, d in kinds]
    )
    dispatcher = run_uninterrupted(numba.njit(signature, nogil=True, error_model="numpy"), namespace[name])
    dispatcher.__class__ = CheckedDispatcher
    return dispatcher


def for_c(name: str, source: str, helpers: dict[str, object], signature: str):
    """A function for C code from generated source; `signature` as Numba writes it: ``"float64(float64)"``."""
    namespace = {**helpers, "__name__": __name__}
    exec(compile(source, f"<nbgrad {name}>", "exec"), namespace)
    return run_uninterrupted(numba.cfunc(signature), namespace[name])


def is_nopython(function: object) -> bool:
    """Whether an object is a function that Numba compiles."""
    return isinstance(function, Dispatcher)


def vectorized_function(function: object) -> Callable | None:
    """The function of numbers that ``numba.vectorize`` was given; None for other functions."""
    return function.__wrapped__ if isinstance(function, DUFunc) else None


def nopython_function(function: Callable) -> Any:
    """A function of the user's, compiled by Numba if it is not yet."""
    return function if is_nopython(function) else numba.njit(function)


def module(name: str, source: str, tapes: Collection[str] = ()) -> Callable:
    """The function `name` of a generated file with its own decorators and imports; stored on disk, like kernels.

    The arrays in `tapes` are never indexed from the end."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    filename = f"<nbgrad {name} {digest}>"
    linecache.cache[filename] = (len(source), None, file_lines(source), filename)
    generated = GeneratedModule(f"nbgrad_{name}_{digest}")
    sys.modules[generated.__name__] = generated  # stored code looks its global names up there
    exec(compile(outline_parallel_loops(source), filename, "exec"), vars(generated))
    function = vars(generated)[name]
    for f in vars(generated).values():
        if is_nopython(f) and f.py_func.__globals__ is vars(generated):  # not an imported one
            function_compiler(f).pipeline_class = GeneratedCompiler
            f.py_func.tapes = frozenset(tapes)  # for lowering
    if is_nopython(function):
        use_cache(function, code_store.DispatcherCache(name, source, function))
        function_compiler(function).compile = _with_fresh_options(function_compiler(function), name)
        function.__class__ = GeneratedDispatcher
    return function


def _with_fresh_options(compiler, name: str) -> Callable:
    """`compiler.compile` with a copy of its options at each call, since Numba removes the ``parallel`` options."""
    options, compile_original = copy.deepcopy(compiler.targetoptions), compiler.compile

    def compiled(*args):
        compiler.targetoptions = copy.deepcopy(options)
        with compilation_scope(name):
            return compile_original(*args)

    return compiled


class Kernel:
    """A function over raw buffers, compiled per combination of argument types.

    Call it with NumPy arrays (flat, C-contiguous), ints and floats; or get the entry point of one combination
    from :meth:`bind` and call that: it checks nothing and costs as little as possible.
    """

    __slots__ = ("_build", "_entries", "_fingerprint", "_options", "device", "name", "source")

    def __init__(
        self,
        name: str,
        build: Callable,
        fingerprint: Callable[[], str],
        reorder: bool,
        runtime: bool = False,
        apart: bool = False,
    ) -> None:
        self.name = name
        self.source: str | None = None
        #: Creates the entry point for arguments on a GPU, if there is such a kernel.
        self.device: Callable[..., Callable] | None = None
        self._build = build
        self._fingerprint = fingerprint
        self._options = {**_OPTIONS, "no_cpython_wrapper": True, "fastmath": _REORDER if reorder else _EXACT}
        self._options["_nrt"] = runtime
        self._options["pipeline_class"] = NoAliasKernelCompiler if apart else KernelCompiler
        self._entries: dict[tuple, Callable] = {}

    def __repr__(self) -> str:
        return f"<Kernel {self.name}, compiled for {len(self._entries)} combination(s)>"

    def __call__(self, *args) -> None:
        key = tuple([a.dtype if a.__class__ is np.ndarray else a.__class__ for a in args])
        entry = self._entries.get(key)
        if entry is None:
            entry = self.bind(*key)
        entry(*args)

    def bind(self, *kinds) -> Callable:
        """The entry point for arguments of these `kinds`: a NumPy dtype means a flat array of it (an
        :class:`~nbgrad.backends.cuda.buffers.OnDevice` one on a GPU), ``int`` and ``float`` a 64-bit scalar."""
        entry = self._entries.get(kinds)
        if entry is None and kinds[0].__class__ is OnDevice:
            with COMPILING:
                assert self.device is not None, f"{self.name} has no kernel for GPUs"
                entry = self._entries.get(kinds) or self._entries.setdefault(kinds, self.device(*kinds))
        elif entry is None:
            entry = run_uninterrupted(self._bind, kinds)
        return entry

    def _bind(self, kinds: tuple) -> Callable:
        with COMPILING:
            entry = self._entries.get(kinds)
            if entry is None:
                entry = self._compile(tuple(_numba_type(kind, self.name) for kind in kinds))
                if config.CHECKED:
                    entry = _checking(entry, kinds, self.name)
                self._entries[kinds] = entry
            return entry

    def _compile(self, signature: tuple) -> Callable:
        key = code_store.key(self._fingerprint, self._options, signature)
        start = time.perf_counter()
        result, how = code_store.load(key), "loaded"
        if result is None:
            result, how = self._compile_now(key, signature), "compiled"
        code_store.log(how, key, self.name, signature, start)
        return entry_point(result, signature)

    def _compile_now(self, key: str, signature: tuple) -> CompileResult:
        dispatcher = numba.njit(self._build(), **self._options)
        use_cache(dispatcher, code_store.ExternalCache())  # only so it keeps the object code we want to store
        with compilation_scope(self.name):
            dispatcher.compile(signature)
        result = dispatcher.overloads[signature]
        code_store.store(key, self.name, result)
        return result

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the arguments."""
        code = self._build().__code__
        return code.co_varnames[: code.co_argcount]

    def as_function(self) -> Callable:
        """The function for use in other compiled code (:func:`nopython`)."""
        return numba.njit(self._build(), **self._options)

    def as_helper(self) -> Callable:
        """The function as a helper of other kernels, which call it with slices of their arrays."""
        return inline(self._build())

    def llvm(self, *kinds, asm: bool = False) -> str:
        """LLVM IR (or assembly) for one combination of argument kinds, for inspection."""
        signature = tuple(_numba_type(kind, self.name) for kind in kinds)
        dispatcher = numba.njit(self._build(), **{**self._options, "no_cpython_wrapper": False})  # it ends the kernel
        dispatcher.compile(signature)
        return (dispatcher.inspect_asm if asm else dispatcher.inspect_llvm)(signature)


def _numba_type(kind, name: str):
    if kind is int:
        return types.int64
    if kind is float:
        return types.float64
    if isinstance(kind, np.dtype):
        return types.Array(numba.from_dtype(kind), 1, "C")
    raise TypeError(f"{name}: a kernel takes flat arrays, int and float, not {kind!r}")


def _has_dtype(x: np.ndarray, kind: np.dtype) -> bool:
    """Whether an array is one of a kernel's `kind`; unsigned integers may be the bits of any dtype of their size."""
    return x.dtype == kind or (kind.kind == "u" and x.dtype.itemsize == kind.itemsize)


def _checking(entry: Callable, kinds: tuple, name: str) -> Callable:
    """An entry point that checks its arguments, for ``NBGRAD_CHECKED=1``."""

    def call(*args):
        if len(args) != len(kinds):
            raise AssertionError(f"{name}: {len(kinds)} arguments expected, {len(args)} given")
        for position, (kind, arg) in enumerate(zip(kinds, args, strict=True)):
            if isinstance(kind, np.dtype):
                fits = (
                    isinstance(arg, np.ndarray) and _has_dtype(arg, kind) and arg.ndim == 1 and arg.flags.c_contiguous
                )
            else:
                fits = type(arg) is kind or (kind is float and type(arg) is int)
            if not fits:
                raise AssertionError(f"{name}: argument {position} should be {kind}, got {arg!r}")
        entry(*args)

    return call
