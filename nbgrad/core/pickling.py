"""Pickles of what is made of a function: compiled functions, derivatives, adjoints, primitives.

Nothing compiled is in a pickle: it says where the object is found, or how it is made of functions that are found by
name. What is made of the same functions in the same way is made once per process (:data:`_kept`), so that a worker that
gets a function with every task compiles it once.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from copy import deepcopy
from importlib import import_module
from operator import attrgetter
from typing import Any

__all__ = ["Made", "Transformed"]

_OPTIONS = (bool, int, float, str, type(None))

#: What was unpickled, by how it is made. Only of functions that are found by name: there are finitely many of these.
_kept: dict[tuple, Made] = {}


class Made:
    """Something made of a function, which stands for it: copies and pickles make it again of the same parts."""

    def _origin(self) -> tuple[Callable, tuple]:
        """What makes such an object, and its arguments, the function first."""
        raise NotImplementedError

    def _at(self) -> tuple[str, str] | None:
        """The place where it is found, if it stands in the place of its function there, as with decorators."""
        place = _place(self._origin()[1][0])
        return place if _stands_at(place, self) else None

    def _current(self) -> bool:
        """Whether it would be made like this now."""
        return True

    def __reduce__(self) -> tuple[Callable, tuple]:
        place = self._at()
        if place is not None:
            return _found, place
        make, args = self._origin()
        return _once, (make, *args)

    def __copy__(self) -> Any:
        make, args = self._origin()
        return make(*args) if self._at() is None else self

    def __deepcopy__(self, memo: dict) -> Any:
        make, args = self._origin()
        return make(*deepcopy(args, memo)) if self._at() is None else self


class Transformed(Made):
    """A function that a transform made of another: ``make(function, *options)``, which runs `run`.

    Called, documented and bound to instances as functions are.
    """

    def __init__(self, run: Callable, make: Callable, function: Callable, *options: Any) -> None:
        functools.update_wrapper(self, function, updated=())
        self._run = run
        self._made_by = make, (function, *options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._run(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        make, (function, *_) = self._made_by
        return f"<{make.__name__} of {getattr(function, '__name__', None) or repr(function)}>"

    def _origin(self) -> tuple[Callable, tuple]:
        return self._made_by


def _place(function: Any) -> tuple[str, str]:
    return str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", ""))


def _found(module: str, name: str) -> Any:
    return attrgetter(name)(import_module(module))


def _stands_at(place: tuple[str, str], thing: object = None) -> bool:
    """Whether `thing` (anything, by default) is found there."""
    try:
        found = _found(*place)
    except (AttributeError, ImportError, ValueError):
        return False
    return thing is None or found is thing


def _key(make: Callable, args: tuple) -> tuple:
    return make, args, tuple([type(a) for a in args])  # 1 and True are equal


def _once(make: Callable, *args: Any) -> Any:
    """``make(*args)``, or what was made so before."""
    key = _key(make, args)
    try:
        known = _kept.get(key)
    except TypeError:  # something in it has no hash
        return make(*args)
    # A primitive may have got another derivative since, and constants of modules other values.
    if known is not None and known._current() and _key(*known._origin()) == key:
        return known
    made = make(*args)
    if all(map(_lasts, args)):
        _kept[key] = made
    return made


def _lasts(part: Any) -> bool:
    """Whether a part is the same object whenever it is unpickled."""
    if isinstance(part, tuple):
        return all(map(_lasts, part))
    if isinstance(part, Made):
        return part._at() is not None or _kept.get(_key(*part._origin())) is part
    if hasattr(part, "py_func"):  # Numba unpickles a function of its own once
        return _stands_at(_place(part.py_func))
    return isinstance(part, _OPTIONS) or _stands_at(_place(part), part)
