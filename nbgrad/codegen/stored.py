"""Machine code on disk, under the hash of all that it depends on."""

from __future__ import annotations

import hashlib
import pickle
import sys
import time

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
from . import cache
from .fingerprint import of_function, of_options

__all__ = ["Keep", "OnDisk", "history", "key", "load", "log", "store"]

#: The kernels this process has, by key in the cache: "loaded" or "compiled".
history: dict[str, str] = {}
_environment = ""


class Keep(NullCache):
    """Stands where Numba's own disk cache would, and does nothing: loading and storing is done here."""

    def load_overload(self, sig, target_context):
        return None


class OnDisk(Keep):
    """Where a function that Numba dispatches is kept on disk: as kernels are."""

    def __init__(self, name: str, source: str, function) -> None:
        self.name = name
        self.parts = source, function
        self.start = 0.0

    def key(self, signature: tuple) -> str:
        """Where it is stored; "" for code that calls closures, whose values cannot be named."""
        source, function = self.parts
        options = {**function.targetoptions, "pipeline_class": function._compiler.pipeline_class}
        try:
            return key(source + of_function(function.py_func), options, signature)
        except TypeError:
            return ""

    def load_overload(self, sig, target_context):
        self.start = time.perf_counter()
        where = self.key(sig)
        result = load(where) if where else None
        if result is not None:
            log("loaded", where, self.name, sig, self.start)
        return result

    def save_overload(self, sig, cres):
        where = self.key(sig)
        if where:
            store(where, self.name, cres)
        log("compiled", where, self.name, sig, self.start)


def key(fingerprint: str, options: dict, signature: tuple) -> str:
    parts = (_environment_fingerprint(), fingerprint, of_options(options), str(signature))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def log(how: str, key: str, name: str, signature: tuple, start: float) -> None:
    history[key] = how
    if "compile" in config.LOG:
        took = 1e3 * (time.perf_counter() - start)
        shown = ", ".join(f"{t.dtype}[]" if isinstance(t, types.Array) else str(t) for t in signature)
        print(f"nbgrad: {how} {name}({shown}) in {took:.1f} ms", file=sys.stderr)


def store(key: str, name: str, result: CompileResult) -> None:
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
    payload = cache.load(key)
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
        knobs = (
            "OPT",
            "BOUNDSCHECK",
            "DISABLE_JIT",
            "LOOP_VECTORIZE",
            "SLP_VECTORIZE",
            "ENABLE_AVX",
            "CPU_NAME",
        )
        settings = [f"{knob}={getattr(numba.config, knob, None)}" for knob in knobs]
        _environment = "|".join(
            [config.__version__, numba.__version__, llvmlite.__version__, np.__version__, sys.version,
             sys.platform, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(),
             str(numba.config.CPU_FEATURES), *settings]
        )  # fmt: skip
    return _environment
