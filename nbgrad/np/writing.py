"""Functions that write into an array; while recording, the writes are recorded as ``a[key] = values`` is."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError, ShapeError
from .arrays import as_array, as_stored, ndarray, numbers
from .manipulation import expanded, ravel

__all__ = ["Flat", "copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"]


class Flat:
    """What ``x.flat`` gives: the elements in one row, to iterate over, to index and to write."""

    def __init__(self, x: ndarray) -> None:
        self.base = x
        self._rest: Any = None

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Any:
        return iter(ravel(self.base))

    def __next__(self) -> ndarray:
        self._rest = self._rest or iter(self)
        return next(self._rest)

    def __getitem__(self, key: Any) -> ndarray:
        return ravel(self.base).copy()[key]

    def __setitem__(self, key: Any, values: Any) -> None:
        places = np.arange(self.base.size)[numbers(key) if isinstance(key, ndarray) else key]
        if np.size(places):
            put(self.base, np.reshape(places, -1), values)


def _target(a: Any, op: str) -> ndarray:
    if not isinstance(a, ndarray):
        why = "; in arrays of NumPy gradients would be lost" if isinstance(a, np.ndarray) else ""
        raise DTypeError(f"{op}: what is written must be an array of nbgrad.np, not {type(a)}{why}")
    return a


def _mask(mask: Any, like: ndarray, op: str) -> np.ndarray:
    found = numbers(mask).astype(bool)
    if found.shape != like.shape:
        raise ShapeError(f"{op}: the mask must have the shape of the array, {like.shape}, not {found.shape}")
    return found


def _cycle(values: Any, positions: np.ndarray, like: ndarray, op: str) -> ndarray:
    """The values at these positions of an endless repetition of `values`."""
    flat = ravel(as_stored(values, op, like._kind))
    if positions.size and not flat.size:
        raise ShapeError(f"{op}: there are no values for {positions.size} elements")
    return flat[positions % flat.size] if positions.size else flat[:0]


def copyto(dst, src, casting="same_kind", where=True) -> None:
    """Copy `src`, broadcast to the shape of `dst`, into it; where a mask is true alone, if `where` is one."""
    x = _target(dst, "copyto")
    values = (as_stored if isinstance(src, int) else as_array)(src, "copyto", x._kind)
    if not np.can_cast(values.dtype, x.dtype, casting):
        raise DTypeError(f"copyto: values of dtype {values.dtype} are not cast to {x.dtype} by the rule {casting!r}")
    if where is True:
        x[...] = expanded(values.astype(x.dtype), x.shape)
        return
    mask = np.broadcast_to(numbers(where), x.shape)
    x[mask] = expanded(values.astype(x.dtype), x.shape)[mask]


def put(a, ind, v, mode="raise") -> None:
    """Set the elements at the positions `ind` of the flat array to values, which are repeated if there are fewer."""
    x, places = _target(a, "put"), np.asarray(numbers(ind))
    if places.size and places.dtype.kind not in "iu":
        raise DTypeError(f"put: indices must be integers, not of dtype {places.dtype}")
    outside = places[(places < -x.size) | (places >= x.size)]
    if mode == "raise" and outside.size:
        raise IndexError(f"put: index {outside.flat[0]} is out of range for an array with {x.size} elements")
    if mode not in ("raise", "wrap", "clip"):
        raise ValueError(f"put: mode must be 'raise', 'wrap' or 'clip', not {mode!r}")
    places = np.clip(places, 0, x.size - 1) if mode == "clip" else places % max(x.size, 1)
    if places.size:
        places = places.astype(np.int64).reshape(-1)
        values = _cycle(v, np.arange(places.size), x, "put")
        x[np.unravel_index(places, x.shape) if x.ndim else ...] = values if x.ndim else values[-1]


def place(arr, mask, vals) -> None:
    """Set the elements where a mask is true to the first of the values, which are repeated if there are fewer."""
    x = _target(arr, "place")
    found = _mask(mask, x, "place")
    x[found] = _cycle(vals, np.arange(np.count_nonzero(found)), x, "place")


def putmask(a, mask, values) -> None:
    """Set the elements where a mask is true to those of `values` at the same places of the flat array, repeated."""
    x = _target(a, "putmask")
    found = _mask(mask, x, "putmask")
    x[found] = _cycle(values, np.flatnonzero(found), x, "putmask")


def fill_diagonal(a, val, wrap=False) -> None:
    """Set the elements whose indices are equal to a number, or to values that are repeated if there are fewer."""
    x = _target(a, "fill_diagonal")
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ValueError(f"fill_diagonal: a must have 2 axes, or more of one length, not the shape {x.shape}")
    step = 1 + int(np.sum(np.cumprod((1, *x.shape[:0:-1]))[1:]))
    end = x.shape[1] ** 2 if x.ndim == 2 and not wrap else x.size
    places = np.arange(0, min(end, x.size), step)
    if places.size:
        x[np.unravel_index(places, x.shape)] = _cycle(val, np.arange(places.size), x, "fill_diagonal")


def put_along_axis(arr, indices, values, axis) -> None:
    """Set the elements at `indices` along an axis, for each place on the others."""
    x = _target(arr, "put_along_axis")
    if axis is None:
        raise DTypeError("put_along_axis: axis=None is not supported; write into a.reshape(-1), with axis=0")
    places = numbers(indices)
    if places.ndim != x.ndim:
        raise ShapeError(f"put_along_axis: indices must have {x.ndim} axes as the array, not {places.ndim}")
    grid = [np.arange(n).reshape(-1, *(1,) * (x.ndim - k - 1)) for k, n in enumerate(x.shape)]
    grid[axis] = places
    x[tuple(grid)] = values
