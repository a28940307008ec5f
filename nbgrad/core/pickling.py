"""Pickling of objects derived from functions: compiled functions, derivatives, adjoints, primitives.

A pickle contains no compiled code: it names the object, or says how to derive it from functions that are importable by
name. Objects derived from the same functions in the same way are created once per process (:data:`_derived_objects`),
so that a worker that gets a function with every task compiles it once.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from copy import deepcopy
from importlib import import_module
from operator import attrgetter
from typing import Any

__all__ = ["Derived", "Transformed"]

_OPTIONS = (bool, int, float, str, type(None))

#: Unpickled objects, by their derivation. Only for importable functions: there are finitely many of these.
_derived_objects: dict[tuple, Derived] = {}


class Derived:
    """An object derived from a function: copies and pickles derive it again from the same parts."""

    def _origin(self) -> tuple[Callable, tuple]:
        """The callable that creates such an object, and its arguments, the function first."""
        raise NotImplementedError

    def _at(self) -> tuple[str, str] | None:
        """The module and name it is importable by, if it replaces its function there, as with decorators."""
        place = _place(self._origin()[1][0])
        return place if _is_importable(place, self) else None

    def _current(self) -> bool:
        """Whether deriving it now would give the same object."""
        return True

    def __reduce__(self) -> tuple[Callable, tuple]:
        place = self._at()
        if place is not None:
            return _import_object, place
        make, args = self._origin()
        return _derive_once, (make, *args)

    def __copy__(self) -> Any:
        make, args = self._origin()
        return make(*args) if self._at() is None else self

    def __deepcopy__(self, memo: dict) -> Any:
        make, args = self._origin()
        return make(*deepcopy(args, memo)) if self._at() is None else self


class Transformed(Derived):
    """The result of a transform of a function, ``make(function, *options)``, which calls `run`.

    It is called, documented and bound to instances like a function.
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


def _import_object(module: str, name: str) -> Any:
    return attrgetter(name)(import_module(module))


def _is_importable(place: tuple[str, str], thing: object = None) -> bool:
    """Whether `thing` (any object, by default) is importable by this module and name."""
    try:
        at_place = _import_object(*place)
    except (AttributeError, ImportError, ValueError):
        return False
    return thing is None or at_place is thing


def _key(make: Callable, args: tuple) -> tuple:
    return make, args, tuple([type(a) for a in args])  # 1 and True are equal


def _derive_once(make: Callable, *args: Any) -> Any:
    """``make(*args)``, or the object that was created so before."""
    key = _key(make, args)
    try:
        known = _derived_objects.get(key)
    except TypeError:  # an unhashable argument
        return make(*args)
    # Since then a primitive may have got another derivative, and global constants other values.
    if known is not None and known._current() and _key(*known._origin()) == key:
        return known
    created = make(*args)
    if all(map(_is_stable, args)):
        _derived_objects[key] = created
    return created


def _is_stable(part: Any) -> bool:
    """Whether a part unpickles to the same object every time."""
    if isinstance(part, tuple):
        return all(map(_is_stable, part))
    if isinstance(part, Derived):
        return part._at() is not None or _derived_objects.get(_key(*part._origin())) is part
    if hasattr(part, "py_func"):  # Numba caches the functions that it unpickles
        return _is_importable(_place(part.py_func))
    return isinstance(part, _OPTIONS) or _is_importable(_place(part), part)
