"""Whether machine code in memory is what its source says now.

Numba takes the values of global names when it compiles a function, and keeps the code. Who stores a function that calls
it stores that code, too, under a name that is made of the values now: they must be the same. So it is noted, whenever
Numba compiles a function, what the function reaches; what was compiled before nbgrad was imported, and what comes from
Numba's own cache, which asks less, is unknown.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from numba.core import event
from numba.core.dispatcher import Dispatcher

from .fingerprint import dispatchers, of_value
from .known_names import Unfit

__all__ = ["check", "note", "watch"]

#: What functions reached when they were compiled, by their arguments' types; None if that is unknown.
_noted: WeakKeyDictionary[Dispatcher, dict[Any, str | None]] = WeakKeyDictionary()
_begun: WeakKeyDictionary[Dispatcher, list[str | None]] = WeakKeyDictionary()


def _now(function: Dispatcher) -> str | None:
    """What it reaches; None if that cannot be said, or it is nbgrad's own."""
    try:
        return of_value(function) if dispatchers(function) else None
    except Exception:  # whatever it is, the user's function is compiled
        return None


def note(function: Dispatcher, reached: str | None) -> None:
    """What the code reaches that a function has got since it was last looked at."""
    known = _noted.setdefault(function, {})
    for kinds in list(function.overloads):
        known.setdefault(kinds, reached)


def check(value: Any) -> None:
    """Raises :class:`Unfit` unless all compiled functions that the value reaches are what their sources say."""
    for function in dispatchers(value):
        if not function.overloads:
            continue
        known, reached = _noted.get(function, {}), of_value(function)
        if any(known.get(kinds) != reached for kinds in function.overloads):
            raise Unfit(f"{function.py_func.__qualname__}, of which the compiled code may be an older one")


class _Listener(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"]
        note(function, None)
        _begun.setdefault(function, []).append(_now(function))

    def on_end(self, event):
        function = event.data["dispatcher"]
        begun = _begun.get(function)
        before = begun.pop() if begun else None
        note(function, before if before is not None and before == _now(function) else None)


def watch() -> None:
    """Note from now on what is compiled."""
    event.register("numba:compile", _Listener())
