"""Functions that apply functions to arrays: to rows, to pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..errors import ShapeError
from .arrays import as_array, ndarray
from .creation import from_numpy_values, zeros
from .manipulation import axis_of, moveaxis, reshape, stack

__all__ = ["apply_along_axis", "apply_over_axes", "fromfunction", "piecewise"]


def apply_along_axis(func1d: Callable, axis, arr, *args: Any, **kwargs: Any) -> ndarray:
    """The results of ``func1d(row, *args, **kwargs)`` of all vectors along an axis, in the place of these."""
    x = as_array(arr, "apply_along_axis")
    k = axis_of(axis, x.ndim, "apply_along_axis")
    last = moveaxis(x, k, -1)
    outer = last.shape[:-1]
    if not x.size:
        raise ShapeError(f"apply_along_axis: there are no vectors along axis {axis} of an array of shape {x.shape}")
    rows = reshape(last, (-1, x.shape[k]))
    found = stack([as_array(func1d(row, *args, **kwargs), "apply_along_axis") for row in rows])
    inner = found.shape[1:]
    found = reshape(found, (*outer, *inner))
    return moveaxis(found, list(range(len(outer), found.ndim)), list(range(k, k + len(inner))))


def apply_over_axes(func: Callable, a, axes) -> ndarray:
    """The results of ``func(a, axis)`` for one axis after the other, which keep the number of axes."""
    found = as_array(a, "apply_over_axes")
    for axis in np.atleast_1d(axes):
        k = axis_of(int(axis), found.ndim, "apply_over_axes")
        less = as_array(func(found, k), "apply_over_axes")
        found = less if less.ndim == found.ndim else reshape(less, (*less.shape[:k], 1, *less.shape[k:]))
    return found


def fromfunction(function: Callable, shape, *, dtype=float, **kwargs: Any) -> Any:
    """What a function gives for the coordinates of all elements, an array for each axis."""
    return function(*[from_numpy_values(k) for k in np.indices(shape, dtype=dtype)], **kwargs)


def piecewise(x, condlist, funclist, *args: Any, **kw: Any) -> ndarray:
    """The function or number of the last condition that holds, of each element; of the one more, where none does."""
    x = as_array(x, "piecewise")
    given = condlist if isinstance(condlist, list | tuple) and np.ndim(condlist[0]) == x.ndim else [condlist]
    conditions = [np.asarray(c.asnumpy() if isinstance(c, NDArray) else c, bool) for c in given]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ValueError(
            f"piecewise: {len(conditions)} conditions need as many functions, or one more, got {len(funclist)}"
        )
    if len(funclist) > len(conditions):
        conditions.append(~np.any(conditions, axis=0))
    found = zeros(x.shape, x.dtype)
    for condition, function in zip(conditions, funclist, strict=True):
        if condition.any():
            found = found.at[condition].set(function(x[condition], *args, **kw) if callable(function) else function)
    return found
