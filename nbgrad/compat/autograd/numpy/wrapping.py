"""NumPy's namespaces, with functions that choose between NumPy's and ours."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from .... import np as _np
from ..boxes import getval, holds_box, without_iterators

__all__ = ["Chosen", "fill", "wrapped_module"]


class Chosen:
    """A function that is `own` if an argument is recorded, and else `plain`.

    Attributes
    ----------
    rule : callable or None
        What it is for recorded arguments if there is no `own`: see :func:`..extend.defvjp`.
    """

    def __init__(self, like: Callable, own: Callable | None, plain: Callable | None = None) -> None:
        functools.update_wrapper(self, like, updated=())
        self.plain, self.own = plain or like, own
        self.rule: Callable | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = without_iterators(args)
        if holds_box(args) or (kwargs and holds_box(kwargs)):
            return (self.own or self.rule or self.plain)(*args, **kwargs)
        return self.plain(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self.plain.__name__} of {__package__}>"


def wrapped_module(plain: ModuleType, own: Any) -> dict[str, Any]:
    """The names of a module of NumPy or SciPy, with those of `own` for recorded arguments.

    Ufuncs, and functions that `own` lacks, choose by NumPy's protocols: those are errors, and no constants.
    """
    names: dict[str, Any] = {}
    for name in dir(plain):
        value = getattr(plain, name)
        if name.startswith("_") or inspect.ismodule(value):
            continue
        replacement = getattr(own, name, None)
        is_function = callable(value) and not isinstance(value, type | np.ufunc)
        names[name] = Chosen(value, replacement if callable(replacement) else None) if is_function else value
    return names


def _of_values(kind: type) -> type:
    """A type of integers, which takes the values of what is recorded: they have no derivative."""

    class Meta(type):
        def __instancecheck__(cls, x: Any) -> bool:
            return isinstance(x, kind)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, kind)

    class Integer(kind, metaclass=Meta):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return kind(*getval(args), **kwargs)

    Integer.__name__ = Integer.__qualname__ = kind.__name__
    return Integer


_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def fill(names: dict[str, Any]) -> None:
    """Add NumPy's names to a namespace."""
    with np.errstate(all="ignore"):
        names.update({k: v for k, v in wrapped_module(np, _np).items() if k not in names})
    names.update({name: _of_values(getattr(np, name)) for name in _INTEGERS})
    names["__version__"] = np.__version__
