"""Machine code on disk, under the hash of all that it depends on."""

from __future__ import annotations

import hashlib
import pickle
import sys
import time
from collections.abc import Callable

import llvmlite
import numba
import numpy as np
from llvmlite import binding as llvm
from numba import types
from numba.core import serialize
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from .. import config
from . import cache, sources, witness
from .fingerprint import of_function, of_options, of_value
from .known import Unfit, of_type

__all__ = ["Keep", "OnDisk", "history", "key", "load", "log", "store"]

#: The kernels this process has, by key in the cache: "loaded" or "compiled".
history: dict[str, str] = {}
_environment = ""
#: Numba's settings that code depends on, which programs may change.
_KNOBS = (
    "OPT",
    "BOUNDSCHECK",
    "DISABLE_JIT",
    "LOOP_VECTORIZE",
    "SLP_VECTORIZE",
    "ENABLE_AVX",
    "CPU_NAME",
    "CPU_FEATURES",
    "DEBUGINFO_DEFAULT",
    "DISABLE_INTEL_SVML",
    "EXTEND_VARIABLE_LIFETIMES",
    "LLVM_REFPRUNE_PASS",
    "LLVM_REFPRUNE_FLAGS",
    "USE_RVSDG_FRONTEND",
)

witness.watch()


class Keep(NullCache):
    """Stands where Numba's own disk cache would, and does nothing: loading and storing is done here."""

    def load_overload(self, sig, target_context):
        return None


class OnDisk(Keep):
    """Where a function that Numba dispatches is kept on disk: as kernels are."""

    def __init__(self, name: str, source: str, function) -> None:
        self.name = name
        self.parts = source, function
        self.where = ""
        self.start = 0.0

    def key(self, signature: tuple) -> str:
        """Where it is stored, if it can be."""
        source, function = self.parts
        options = {**function.targetoptions, "pipeline_class": function._compiler.pipeline_class}

        def fingerprint() -> str:
            witness.check(function.py_func)
            tapes = sorted(getattr(function.py_func, "tapes", ()))  # what lowering asks for
            return of_value((source, tapes)) + of_function(function.py_func)

        return key(fingerprint, options, signature)

    def load_overload(self, sig, target_context):
        self.start = time.perf_counter()
        self.where = self.key(sig)
        result = load(self.where)
        if result is not None:
            log("loaded", self.where, self.name, sig, self.start)
        return result

    def save_overload(self, sig, cres):
        if self.where == self.key(sig):  # else something changed while it was compiled
            store(self.where, self.name, cres)
        log("compiled", self.where, self.name, sig, self.start)


def key(fingerprint: Callable[[], str], options: dict, signature: tuple) -> str:
    """Where code is stored; "" if it cannot be, since what it depends on has no name that says what it is."""
    try:
        own = sources.digest()
        if not own:
            raise Unfit("nbgrad itself, whose files changed since they were imported")
        parts = (_environment_fingerprint(), own, fingerprint(), of_options(options), *map(of_type, signature))
    except Unfit as err:
        if "compile" in config.LOG:
            print(f"nbgrad: not kept on disk: {err}", file=sys.stderr)
        return ""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def log(how: str, key: str, name: str, signature: tuple, start: float) -> None:
    history[key or f"{name}{signature}"] = how
    if "compile" in config.LOG:
        took = 1e3 * (time.perf_counter() - start)
        shown = ", ".join(f"{t.dtype}[]" if isinstance(t, types.Array) else str(t) for t in signature)
        print(f"nbgrad: {how} {name}({shown}) in {took:.1f} ms", file=sys.stderr)


def store(key: str, name: str, result: CompileResult) -> None:
    """Keep code, if it can run in another process: there are no addresses of this one in it."""
    if not key:
        return
    if result.library.has_dynamic_globals or result.lifted or result.objectmode:
        if "compile" in config.LOG:
            print(f"nbgrad: {name} is not kept on disk: it holds addresses of this process", file=sys.stderr)
        return
    try:
        cache.store(key, serialize.dumps(result._reduce()))
    except (
        AttributeError,
        TypeError,
        ValueError,
        pickle.PicklingError,
    ) as err:  # another Numba's internals
        if "compile" in config.LOG:
            print(f"nbgrad: {name} cannot be stored: {err}", file=sys.stderr)


def load(key: str) -> CompileResult | None:
    payload = cache.load(key) if key else None
    if payload is None:
        return None
    try:
        # All that loaded code can need of Numba is its runtime's symbols. A first *dispatch* would load every
        # typing and lowering registry as well, which takes 0.3 to 0.5 s.
        context = cpu_target.target_context
        if b"NRT_" in payload:
            rtsys.initialize(context)
        return CompileResult._rebuild(context, *pickle.loads(payload))
    except Exception:  # whatever is wrong with a stored kernel, compiling it again mends it
        return None


def _environment_fingerprint() -> str:
    """Everything outside a kernel's own source that its machine code depends on."""
    global _environment
    if not _environment:
        _environment = "|".join(
            [config.__version__, numba.__version__, llvmlite.__version__, np.__version__, sys.version,
             sys.platform, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()]
        )  # fmt: skip
    return "|".join([_environment, *[f"{knob}={getattr(numba.config, knob, None)}" for knob in _KNOBS]])
