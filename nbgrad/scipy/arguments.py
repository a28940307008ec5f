"""Checks of arguments that functions of SciPy share."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from ..errors import AttrError
from ..ir.graph import current
from ..np import manipulation
from ..np.arrays import ndarray

__all__ = ["axes_of", "axis_of", "values_of", "whole"]


def values_of(x: ndarray) -> np.ndarray | None:
    """The numbers of an array; None while a function is traced, which has none."""
    return None if current.graph is not None else x.asnumpy()


def whole(name: str, value: Any, what: str, least: int | None = None) -> int:
    """A whole number, `least` or more."""
    try:
        found = index(value)
    except TypeError:
        raise AttrError(f"{name}: {what} is a whole number, got {value!r}") from None
    if least is not None and found < least:
        raise AttrError(f"{name}: {what} is {least} or more, got {found}")
    return found


def axis_of(name: str, axis: Any, rank: int) -> int:
    """The number of an axis, which may be counted from the end."""
    return manipulation.axis_of(whole(name, axis, "an axis"), rank, name)


def axes_of(name: str, axes: Any, rank: int) -> list[int]:
    """The numbers of one axis or several, all of them for None; none twice."""
    if axes is None:
        return list(range(rank))
    many = list(axes) if hasattr(axes, "__iter__") else [axes]
    found = [axis_of(name, k, rank) for k in many]
    if len(set(found)) < len(found):
        raise AttrError(f"{name}: an axis is given several times in {axes!r}")
    return found
