"""Machine code on disk, under the hash of all that it depends on."""

from __future__ import annotations

import hashlib
import itertools
import os
import pickle
import re
import secrets
import sys
import time
from collections.abc import Callable

import llvmlite
import numba
import numpy as np
from llvmlite import binding as llvm
from numba import types
from numba.core import serialize
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import NullCache
from numba.core.codegen import RuntimeLinker
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

from ...core import config
from . import disk_cache, package_sources, staleness
from .fingerprint import of_function, of_options, of_value
from .known_names import Unfit, of_type

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

staleness.watch()


#: Above all numbers that Numba has given to functions before it was told where to begin.
_OURS = 1 << 60
_NUMBER = re.compile(r"B\d+v(\d+)")


def _number_functions() -> None:
    """Let Numba's numbers of functions be those of this process alone.

    A compiled function is called ``module.name`` with its number, and so are the functions that it calls, whose code is
    stored with it. Where two pieces of code have a function of one name, the linker keeps the first. Counted from 1,
    two processes give one name to what is not one function, and a third that loads the code of both calls one of them
    for the other.
    """
    FunctionIdentity._unique_ids = itertools.count(_OURS + secrets.randbits(60))


_number_functions()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_number_functions)


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
            staleness.check(function.py_func)
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
        own = package_sources.digest()
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
    """Keep code, if it can run in another process."""
    if not key:
        return
    if why := _tied(result):
        if "compile" in config.LOG:
            print(f"nbgrad: {name} is not kept on disk: it holds {why}", file=sys.stderr)
        return
    try:
        disk_cache.store(key, serialize.dumps(result._reduce()))
    except (
        AttributeError,
        TypeError,
        ValueError,
        pickle.PicklingError,
    ) as err:  # another Numba's internals
        if "compile" in config.LOG:
            print(f"nbgrad: {name} cannot be stored: {err}", file=sys.stderr)


def _tied(result: CompileResult) -> str:
    """What ties code to this process; "" if nothing does."""
    library = result.library
    if library.has_dynamic_globals or result.lifted or result.objectmode:
        return "addresses of this process"
    if any(g.name.startswith(RuntimeLinker.PREFIX) for g in library._final_module.global_variables):
        return "functions that call each other, which Numba links in this process alone"
    if any(int(n) < _OURS for f in library.get_defined_functions() for n in _NUMBER.findall(f.name)):
        return "functions that were compiled before nbgrad was imported, under names that others may have"
    return ""


def load(key: str) -> CompileResult | None:
    payload = disk_cache.load(key) if key else None
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
