"""Code cache: store and load machine code on disk, keyed by a hash of everything it depends on."""

from __future__ import annotations

import hashlib
import os
import pickle
import secrets
import sys
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

from ...core import config
from . import disk_cache, package_sources, routines, staleness
from .fingerprint import of_function, of_options, of_value
from .internals import (
    VERSIONS,
    CompileResult,
    NullCache,
    dynamic_globals,
    function_compiler,
    function_numbers,
    host_processor,
    links_at_runtime,
    native_library,
    number_functions_from,
    packed,
    packed_library,
    unpacked,
    unpacked_library,
)
from .known_names import NoFingerprint, of_type

__all__ = ["DispatcherCache", "ExternalCache", "history", "key", "load", "log", "store", "trampoline"]

#: How this process got each kernel, by key in the cache: "loaded" or "compiled".
history: dict[str, str] = {}
_environment = ""
#: Settings of Numba that machine code depends on and that programs may change.
_NUMBA_SETTINGS = (
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


#: Above every number that Numba gave to functions before :func:`_randomize_unique_ids` ran.
_FIRST_UNIQUE_ID = 1 << 60


def _randomize_unique_ids() -> None:
    """Make the numbers by which Numba distinguishes functions unique across processes.

    The symbol of a compiled function contains its number, and so do those of its callees, whose code is stored with it.
    Where two modules define the same symbol, the linker keeps the first. If every process counted from 1, two of them
    could give one symbol to different functions, and a third that loads both would call the wrong one.
    """
    number_functions_from(_FIRST_UNIQUE_ID + secrets.randbits(60))


_randomize_unique_ids()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_randomize_unique_ids)


class ExternalCache(NullCache):
    """A replacement for Numba's disk cache that does nothing: this module loads and stores."""

    def load_overload(self, sig, target_context):
        return None


class DispatcherCache(ExternalCache):
    """A disk cache for a function that Numba dispatches, in the store of kernels."""

    def __init__(self, name: str, source: str, function) -> None:
        self.name = name
        self.parts = source, function
        self.where = ""
        self.start = 0.0

    def key(self, signature: tuple) -> str:
        """The key for one signature; "" if the function cannot be stored."""
        source, function = self.parts
        options = {**function.targetoptions, "pipeline_class": function_compiler(function).pipeline_class}

        def fingerprint() -> str:
            staleness.check(function.py_func)
            tapes = sorted(getattr(function.py_func, "tapes", ()))  # lowering reads these
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
        if self.where == self.key(sig):  # else a dependence changed while it was compiled
            store(self.where, self.name, cres)
        log("compiled", self.where, self.name, sig, self.start)


def key(fingerprint: Callable[[], str], options: dict, signature: tuple) -> str:
    """The key of machine code; "" if it cannot be stored, because something it depends on has no fingerprint."""
    try:
        own = package_sources.digest()
        if not own:
            raise NoFingerprint("nbgrad itself, whose files changed since they were imported")
        parts = (_environment_fingerprint(), own, fingerprint(), of_options(options), *map(of_type, signature))
    except NoFingerprint as err:
        if "compile" in config.LOG:
            print(f"nbgrad: not kept on disk: {err}", file=sys.stderr)
        return ""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def log(how: str, key: str, name: str, signature: tuple, start: float) -> None:
    """Record how a kernel was obtained; print it if ``NBGRAD_LOG`` asks for it."""
    history[key or f"{name}{signature}"] = how
    if "compile" in config.LOG:
        milliseconds = 1e3 * (time.perf_counter() - start)
        shown = ", ".join(f"{t.dtype}[]" if isinstance(t, types.Array) else str(t) for t in signature)
        print(f"nbgrad: {how} {name}({shown}) in {milliseconds:.1f} ms", file=sys.stderr)


def store(key: str, name: str, result: CompileResult, suffix: str = disk_cache.KERNEL) -> None:
    """Store code on disk, if it can run in another process."""
    if not key:
        return
    if why := _process_bound(result):
        if "compile" in config.LOG:
            print(f"nbgrad: {name} is not kept on disk: it holds {why}", file=sys.stderr)
        return
    try:
        disk_cache.store(key, pickle.dumps((routines.required(result), packed(result))), suffix)
    except (
        AttributeError,
        TypeError,
        ValueError,
        pickle.PicklingError,
    ) as err:  # a Numba version with other internals
        if "compile" in config.LOG:
            print(f"nbgrad: {name} cannot be stored: {err}", file=sys.stderr)


def _process_bound(result: CompileResult) -> str:
    """Why code can run in this process only; "" if it can run in others."""
    if result.lifted or result.objectmode or any(map(routines.is_foreign, dynamic_globals(result))):
        return "addresses of this process"
    if any(not r.is_stored for r in routines.required(result)):
        return "calls of routines that cannot be stored"
    if links_at_runtime(result):
        return "functions that call each other, which Numba links in this process alone"
    if any(number < _FIRST_UNIQUE_ID for number in function_numbers(result)):
        return "functions that were compiled before nbgrad was imported, under names that others may have"
    return ""


def load(key: str, suffix: str = disk_cache.KERNEL) -> CompileResult | None:
    """The stored code under a key, or None."""
    return _unpacked(key, suffix, _unpacked_with_routines)


def _unpacked_with_routines(payload: bytes) -> CompileResult:
    requirements, code = pickle.loads(payload)
    routines.provide(requirements)
    return unpacked(code)


def trampoline(name: str, emit: Callable[[Any, Any], None]) -> Any:
    """The machine code of what ``emit(context, module)`` emits, stored under its name."""
    where = key(lambda: name, {}, ())
    library = _unpacked(where, disk_cache.PART, unpacked_library)
    if library is None:
        library = native_library(name, emit)
        if where:
            disk_cache.store(where, packed_library(library), disk_cache.PART)
    return library


def _unpacked(key: str, suffix: str, unpack: Callable[[bytes], Any]) -> Any:
    payload = disk_cache.load(key, suffix) if key else None
    if payload is None:
        return None
    try:
        return unpack(payload)
    except Exception:  # whatever is wrong with a stored kernel, recompiling repairs it
        return None


def _environment_fingerprint() -> str:
    """The versions, processor and settings that machine code depends on besides its source."""
    global _environment
    if not _environment:
        _environment = "|".join(
            [config.__version__, *VERSIONS, np.__version__, sys.version, sys.platform, *host_processor()]
        )  # fmt: skip
    return "|".join([_environment, *[f"{knob}={getattr(numba.config, knob, None)}" for knob in _NUMBA_SETTINGS]])
