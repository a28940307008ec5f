"""Pickles of what is made of a function: compiled functions, adjoints, primitives."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from operator import attrgetter

__all__ = ["reduced"]


def reduced(whole: object, function: object, make: Callable, *args) -> tuple[Callable, tuple]:
    """What ``whole.__reduce__()`` gives: where it is found, if it stands in the place of `function` in its module, as
    with decorators; else how to make it again. Nothing that was compiled is in the pickle."""
    place = str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", ""))
    try:
        named = _found(*place) is whole
    except (AttributeError, ImportError, ValueError):
        named = False
    return (_found, place) if named else (make, args)


def _found(module: str, name: str) -> object:
    return attrgetter(name)(import_module(module))
