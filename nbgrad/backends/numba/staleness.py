"""Staleness: whether machine code in memory still agrees with the sources and globals of its function.

Numba reads the values of globals when it compiles a function. Storing a caller on disk stores that code, too, under a
key computed from the values of now: they must be the same. So whenever Numba compiles a function, its fingerprint is
recorded. It is unknown for code compiled before nbgrad was imported, and for code from Numba's own cache, which checks
less.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from .fingerprint import dispatchers, of_value
from .internals import Dispatcher, on_compilation
from .known_names import NoFingerprint

__all__ = ["check", "record_compilation", "watch"]

#: Fingerprints of functions when they were compiled, by argument types; None if unknown.
_recorded_fingerprints: WeakKeyDictionary[Dispatcher, dict[Any, str | None]] = WeakKeyDictionary()
_begun: WeakKeyDictionary[Dispatcher, list[str | None]] = WeakKeyDictionary()


def _now(function: Dispatcher) -> str | None:
    """A function's fingerprint; None if it has none, or is nbgrad's own."""
    try:
        return of_value(function) if dispatchers(function) else None
    except Exception:  # whatever it is, the user's function is compiled
        return None


def record_compilation(function: Dispatcher, reached: str | None) -> None:
    """Record the fingerprint of the code that a function has got since the last call."""
    known = _recorded_fingerprints.setdefault(function, {})
    for kinds in list(function.overloads):
        known.setdefault(kinds, reached)


def check(value: Any) -> None:
    """Raise :class:`NoFingerprint` unless all compiled functions that a value reaches are up to date."""
    for function in dispatchers(value):
        if not function.overloads:
            continue
        known, reached = _recorded_fingerprints.get(function, {}), of_value(function)
        if any(known.get(kinds) != reached for kinds in function.overloads):
            raise NoFingerprint(f"{function.py_func.__qualname__}, of which the compiled code may be an older one")


def _begin(function: Dispatcher) -> None:
    record_compilation(function, None)
    _begun.setdefault(function, []).append(_now(function))


def _end(function: Dispatcher) -> None:
    begun = _begun.get(function)
    before = begun.pop() if begun else None
    record_compilation(function, before if before is not None and before == _now(function) else None)


def watch() -> None:
    """Record what Numba compiles from now on."""
    on_compilation(_begin, _end)
