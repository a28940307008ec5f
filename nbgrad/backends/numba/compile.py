"""Python functions over raw buffers -> machine code. The only module that spells ``njit`` and ``cfunc``.

A *kernel* takes flat C-contiguous arrays, integers (sizes, strides, flags) and floats, writes into
arrays it is given, and neither allocates, raises nor returns. It is compiled on the first call per
combination of dtypes, kept on disk (:mod:`.disk_cache`), and from then on entered through the compiled
function's own wrapper: Numba's dispatcher, which would look at every argument's type again, is used
to compile and never to call.
"""

from __future__ import annotations

import copy
import hashlib
import linecache
import sys
import time
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import ClassVar

import numba
import numpy as np
from numba import types
from numba.core.compiler import Compiler, CompileResult
from numba.core.compiler_machinery import register_pass
from numba.core.dispatcher import Dispatcher
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import (
    NativeLowering,
    NativeParforLowering,
    NopythonRewrites,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import DeadBranchPrune, InlineClosureLikes, IRProcessing, ReconstructSSA, WithLifting
from numba.extending import intrinsic, overload

from ...core import config
from ...core.fork_safety import COMPILING
from ...core.source_text import file_lines
from ..cuda.buffers import OnDevice
from . import code_store
from .alias_analysis import ApartLowering, FindRoots
from .compile_guard import compiles, uninterrupted
from .direct_calls import Direct
from .exported import Generated, Handed
from .fingerprint import identity, of_function, of_source
from .generated_module import GeneratedModule
from .linking import ParallelLowering
from .outlining import in_pieces
from .ssa import Versions, WithoutPhis
from .type_inference import TypeInference

__all__ = [
    "STILL",
    "Kernel",
    "built",
    "by_precision",
    "for_c",
    "generate",
    "inline",
    "intrinsic",
    "is_nopython",
    "kernel",
    "module",
    "nested",
    "nopython",
    "python",
    "result_type",
    "returned",
]

_OPTIONS = {
    "nogil": True,  # other Python threads run while a kernel does
    "error_model": "numpy",  # x/0 is inf or nan; Python's model would add a branch and an exception to each division
    "no_cfunc_wrapper": True,  # nobody calls a kernel from C; the wrapper takes an eighth of compiling one
    "boundscheck": None,  # off unless NUMBA_BOUNDSCHECK=1, which the tests use once
}
#: A helper is not called from Python, and does without what would let it be: that takes a third of compiling one.
_WITHIN = {"no_cpython_wrapper": True, "_nrt": False}
#: a*b+c may become one fused multiply-add. Nothing that could lose a NaN, an infinity or a signed zero.
_EXACT = {"contract"}
#: Additions may also be reordered, which lets a reduction use vector registers. For sums over fixed blocks only.
_REORDER = {"contract", "reassoc", "nsz"}

#: LLVM's word for a function that does not move its stack, which llvmlite does not know.
STILL = '"no-realign-stack"'


if numba.config.DISABLE_JIT:
    raise ImportError("nbgrad: NUMBA_DISABLE_JIT is set, but kernels are what Numba compiles; unset it")


def inline(function=None, *, reorder: bool = False, runtime: bool = False):
    """Decorator: a scalar helper for kernels, inlined wherever it is used.

    Inlining is forced: a helper used twice in one kernel can pass LLVM's threshold, and a call left in
    a loop keeps that loop from being vectorised. With `runtime` it may make arrays, and be called from Python.
    """
    if function is None:
        return lambda f: inline(f, reorder=reorder, runtime=runtime)
    fastmath = _REORDER if reorder else _EXACT
    made = numba.njit(function, forceinline=True, fastmath=fastmath, **({} if runtime else _WITHIN), **_OPTIONS)
    if not runtime:
        made.__class__ = _Helper
    return made


class _Helper(CPUDispatcher):
    """What Numba makes of a helper. Python cannot call it (:data:`_WITHIN`), but something that calls it."""

    def __call__(self, *args):
        return _for_python(self)(*args)


@lru_cache(None)
def _for_python(helper: Callable) -> Callable:
    """A function that calls a helper of numbers, compiled for the arguments that it gets: for generated files that
    Python runs."""
    return numba.njit(lambda *args: helper(*args), **_OPTIONS)


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

    @overload(choose, jit_options={**_OPTIONS, **_WITHIN, "forceinline": True, "fastmath": _EXACT}, strict=False)
    def body(*args):
        return single if all(a == types.float32 for a in args) else double

    choose.__name__ = double.__name__
    choose.bodies = (single, double)  # type: ignore[attr-defined]  # what the fingerprint looks at
    return choose


def kernel(function=None, *, reorder: bool = False, runtime: bool = False):
    """Decorator: makes a :class:`Kernel` of a function over raw buffers.

    Parameters
    ----------
    function : callable
    reorder : bool
        Let the compiler reorder additions (and so vectorise sums).
    runtime : bool
        Let it use Numba's runtime, which ``np.dot`` asks for. Counting references takes 20 ns per array of a call,
        and kernels without it are entered in half the time.
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
        What the function should be called; made unique by a hash, for Numba can mix up generated
        functions of the same name.
    source : str
        A ``def {name}(...)`` statement.
    helpers : dict
        The global names that `source` uses.
    reorder : bool
        As for :func:`kernel`.
    apart : bool
        No two array arguments share memory, if one of them is written: the compiler need not check.
    """

    build = lambda: built(name, source, helpers, identity(source, helpers))  # noqa: E731
    made = Kernel(name, build, lambda: of_source(source, helpers), reorder, apart=apart)
    made.source = source
    return made


def nested(name: str, source: str, helpers: dict[str, object]):
    """A function from generated source, as for :func:`generate` with `apart`, for calls inside of generated kernels."""
    function = built(name, source, helpers, identity(source, helpers))
    made = numba.njit(function, fastmath=_EXACT, pipeline_class=_KernelsApart, **_WITHIN, **_OPTIONS)
    made.__class__ = _Helper
    return made


def built(name: str, source: str, helpers: dict[str, object], fingerprint: str) -> Callable:
    """The Python function of generated source, under a name of its own."""
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
    """A function that users call from compiled code of their own: it may allocate, raise and return.

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
    made = uninterrupted(numba.njit(signature, nogil=True, error_model="numpy"), namespace[name])
    made.__class__ = Handed
    return made


def for_c(name: str, source: str, helpers: dict[str, object], signature: str):
    """A function for C code from generated source; `signature` as Numba writes it: ``"float64(float64)"``."""
    namespace = {**helpers, "__name__": __name__}
    exec(compile(source, f"<nbgrad {name}>", "exec"), namespace)
    return uninterrupted(numba.cfunc(signature), namespace[name])


def is_nopython(function: object) -> bool:
    """Whether it is a function that Numba compiles."""
    return isinstance(function, Dispatcher)


def returned(function, args: tuple) -> object:
    """What such a function gives for arguments like these: "array", "number", None, tuples of these, or a type."""
    return _form(result_type(function, args))


def result_type(function, args: tuple) -> types.Type:
    """Numba's type of what such a function gives for arguments like these."""
    signature = tuple([numba.typeof(x) for x in args])
    uninterrupted(function.compile, signature)
    return function.overloads[signature].signature.return_type


def _form(kind: types.Type) -> object:
    if isinstance(kind, types.BaseTuple):
        return tuple([_form(part) for part in kind.types])
    known = {types.Array: "array", types.Number: "number", types.Boolean: "number", types.NoneType: None}
    return next((form for parent, form in known.items() if isinstance(kind, parent)), kind)


def module(name: str, source: str, tapes: Collection[str] = ()) -> Callable:
    """The function `name` of a generated file, whose decorators and imports are in its text; on disk, like kernels.
    No index of the arrays in `tapes` is below zero."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    filename = f"<nbgrad {name} {digest}>"
    linecache.cache[filename] = (len(source), None, file_lines(source), filename)
    made = GeneratedModule(f"nbgrad_{name}_{digest}")
    sys.modules[made.__name__] = made  # where code that was stored looks for the names that it uses
    exec(compile(in_pieces(source), filename, "exec"), vars(made))
    function = vars(made)[name]
    for f in vars(made).values():
        if is_nopython(f) and f.py_func.__globals__ is vars(made):  # and not from elsewhere
            f._compiler.pipeline_class = _Plain
            f.py_func.tapes = frozenset(tapes)  # for lowering
    if is_nopython(function):
        function._cache = code_store.OnDisk(name, source, function)
        function._compiler.compile = _compiling(function._compiler, name)
        function.__class__ = Generated
    return function


def _compiling(compiler, name: str) -> Callable:
    """What `compiler` does, with options of its own at each call: Numba takes those of ``parallel`` out of theirs."""
    options, made = copy.deepcopy(compiler.targetoptions), compiler.compile

    def compiled(*args):
        compiler.targetoptions = copy.deepcopy(options)
        with compiles(name):
            return made(*args)

    return compiled


class Kernel:
    """A function over raw buffers, compiled per combination of argument types.

    Call it with NumPy arrays (flat, C-contiguous), ints and floats, or ask :meth:`bind` for the entry
    point of one combination and call that: it trusts its caller and is as cheap as a call can be.
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
        #: Makes the entry point for arguments on a GPU, if there is such a kernel.
        self.device: Callable[..., Callable] | None = None
        self._build = build
        self._fingerprint = fingerprint
        self._options = {**_OPTIONS, "fastmath": _REORDER if reorder else _EXACT, "_nrt": runtime}
        self._options["pipeline_class"] = _KernelsApart if apart else _Kernels
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
            entry = uninterrupted(self._bind, kinds)
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
        return result.entry_point

    def _compile_now(self, key: str, signature: tuple) -> CompileResult:
        dispatcher = numba.njit(self._build(), **self._options)
        dispatcher._cache = code_store.Keep()  # only a function with a cache keeps the object code we want to store
        with compiles(self.name):
            dispatcher.compile(signature)
        result = dispatcher.overloads[signature]
        code_store.store(key, self.name, result)
        return result

    @property
    def arguments(self) -> tuple[str, ...]:
        """Their names."""
        code = self._build().__code__
        return code.co_varnames[: code.co_argcount]

    def within(self) -> Callable:
        """The function for use in other compiled code (:func:`nopython`)."""
        return numba.njit(self._build(), **self._options)

    def inlined(self) -> Callable:
        """The function as a helper of other kernels, which give it parts of their arrays."""
        return inline(self._build())

    def llvm(self, *kinds, asm: bool = False) -> str:
        """LLVM IR (or machine code) for one combination of argument kinds, for looking at."""
        signature = tuple(_numba_type(kind, self.name) for kind in kinds)
        dispatcher = numba.njit(self._build(), **self._options)
        dispatcher.compile(signature)
        return (dispatcher.inspect_asm if asm else dispatcher.inspect_llvm)(signature)


class _Lower(Lower):
    """Numba's translation to LLVM's language, of functions that leave their stack where it is.

    Where a function moves its stack to a multiple of 32 or 64 bytes, for registers that it puts there, it needs one to
    find the way back. Functions of vectors do not keep that one (:mod:`...vmath.rare`), and what LLVM does then is
    wrong if it puts a result on the stack right after such a call.
    """

    def setup_function(self, fndesc):
        super().setup_function(fndesc)
        set.add(self.function.attributes, STILL)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):
    _name = "nbgrad_lowering"
    lowering_class = _Lower


class _Compiler(Compiler):
    """Numba's compiler; `instead` has passes to run in the place of its own, or None."""

    instead: ClassVar[dict] = {
        ReconstructSSA: Versions,
        NopythonTypeInference: TypeInference,
        PreLowerStripPhis: WithoutPhis,
    }

    def define_pipelines(self):
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            passes = [(self.instead.get(p, p), why) for p, why in pipeline.passes]
            pipeline.passes = [(p, why) for p, why in passes if p is not None]
            pipeline.finalize()
        return pipelines


class _Kernels(_Compiler):
    """The compiler for kernels."""

    instead: ClassVar[dict] = {**_Compiler.instead, NativeLowering: _Lowering}


class _Plain(_Compiler):
    """The compiler for generated files. They have no closures, no expressions of whole arrays, no generators and no
    ``with``, and it does not look for them; nor for branches that are never taken, without which what they set, and
    others read, would have no type."""

    instead: ClassVar[dict] = {
        **_Compiler.instead,
        PreLowerStripPhis: FindRoots,
        NativeLowering: ApartLowering,
        NativeParforLowering: ParallelLowering,
        IRProcessing: Direct,
        **dict.fromkeys([DeadBranchPrune, InlineClosureLikes, NopythonRewrites, WithLifting]),
    }


class _KernelsApart(_Kernels):
    """The same, told that arguments do not share memory; Numba's decorators have no option for that."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        flags.noalias = True
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)


def _numba_type(kind, name: str):
    if kind is int:
        return types.int64
    if kind is float:
        return types.float64
    if isinstance(kind, np.dtype):
        return types.Array(numba.from_dtype(kind), 1, "C")
    raise TypeError(f"{name}: a kernel takes flat arrays, int and float, not {kind!r}")


def _checking(entry: Callable, kinds: tuple, name: str) -> Callable:
    def call(*args):
        if len(args) != len(kinds):
            raise AssertionError(f"{name}: {len(kinds)} arguments expected, {len(args)} given")
        for position, (kind, arg) in enumerate(zip(kinds, args, strict=True)):
            if isinstance(kind, np.dtype):
                fits = isinstance(arg, np.ndarray) and arg.dtype == kind and arg.ndim == 1 and arg.flags.c_contiguous
            else:
                fits = type(arg) is kind or (kind is float and type(arg) is int)
            if not fits:
                raise AssertionError(f"{name}: argument {position} should be {kind}, got {arg!r}")
        entry(*args)

    return call
