"""The smallest, greatest and middle elements around each one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import np as xp
from ...errors import AttrError, ShapeError
from ...np.arrays import as_array, ndarray
from .filters import bordered, per_axis

__all__ = ["maximum_filter", "median_filter", "minimum_filter"]


def _around(name: str, choose: Callable[[ndarray], ndarray], input: Any, size: Any, footprint: Any, output: Any,
            mode: Any, cval: float, origin: Any) -> ndarray:  # fmt: skip
    if output is not None:
        raise AttrError(f"{name}: output is not supported; assign the result, and convert it with astype")
    x = as_array(input, name)
    if footprint is not None:
        inside = np.asarray(footprint, bool)
    elif size is not None:
        inside = np.ones(per_axis(name, size, x.ndim, "size"), bool)
    else:
        raise AttrError(f"{name}: a size or a footprint is needed")
    if inside.ndim != x.ndim or not inside.any():
        raise ShapeError(f"{name}: a footprint of the rank of the image is expected, got {inside.shape} for {x.shape}")
    widths = []
    for m, place in zip(inside.shape, per_axis(name, origin, x.ndim, "origin"), strict=True):
        widths.append((m // 2 + place, m - 1 - m // 2 - place))
        if min(widths[-1]) < 0:
            raise AttrError(f"{name}: the origin moves a footprint of length {m} beyond the element, got {place}")
    longer = bordered(name, x, widths, mode, cval)
    parts = [longer[tuple(slice(k, k + n) for k, n in zip(at, x.shape, strict=True))] for at in np.argwhere(inside)]
    return choose(xp.stack(parts))


def _one(x: ndarray, k: ndarray) -> ndarray:
    """One element of each column; a border repeats elements, so that not all of those that are equal may count."""
    return xp.take_along_axis(x, k[None], 0)[0]


def _middle(x: ndarray) -> ndarray:
    return xp.sort(x, 0)[x.shape[0] // 2]


def maximum_filter(input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
                   cval: float = 0.0, origin: Any = 0) -> ndarray:  # fmt: skip
    """The greatest of the elements around each one, as ``scipy.ndimage.maximum_filter``.

    Parameters
    ----------
    input : array_like
    size : int or sequence of int
        How many elements along each axis.
    footprint : array_like of bool, optional
        Which of the elements around count, instead.
    output, mode, cval, origin
        As of :func:`.filters.correlate`.

    Notes
    -----
    Of elements that are equal, the first one has the derivative.
    """
    return _around(
        "maximum_filter", lambda v: _one(v, xp.argmax(v, 0)), input, size, footprint, output, mode, cval, origin
    )


def minimum_filter(input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
                   cval: float = 0.0, origin: Any = 0) -> ndarray:  # fmt: skip
    """The smallest of the elements around each one, as ``scipy.ndimage.minimum_filter``; as :func:`maximum_filter`."""
    return _around(
        "minimum_filter", lambda v: _one(v, xp.argmin(v, 0)), input, size, footprint, output, mode, cval, origin
    )


def median_filter(input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
                  cval: float = 0.0, origin: Any = 0) -> ndarray:  # fmt: skip
    """The middle one of the elements around each one, as ``scipy.ndimage.median_filter``: of an even number the
    greater of the two in the middle. Arguments as of :func:`maximum_filter`."""
    return _around("median_filter", _middle, input, size, footprint, output, mode, cval, origin)
