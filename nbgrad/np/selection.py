"""Functions that repeat, select, replace and pad elements; diagonals and triangles."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray
from ..core.registry import operators
from ..errors import AttrError, DTypeError, ShapeError
from ..kernels.indexing import in_range, integers
from ..operators.cast import cast
from .arrays import as_array, ndarray, numbers, stored, with_common_dtype
from .creation import array, from_numpy_values
from .manipulation import axis_of, concatenate, expanded, moveaxis, ravel, reshape, swapaxes
from .ufuncs import UFUNCS
from .views import viewing

__all__ = ["angle", "argwhere", "around", "choose", "clip", "compress", "copy", "delete", "diag", "diag_indices",
           "diagflat", "diagonal", "extract", "flatnonzero", "flip", "fliplr", "flipud", "imag", "insert", "ix_",
           "nan_to_num", "nonzero", "pad", "real", "real_if_close", "repeat", "resize", "roll", "rot90", "round",
           "select", "take", "take_along_axis", "tile", "tril", "tril_indices", "trim_zeros", "triu", "triu_indices",
           "where"]  # fmt: skip


# Repeating and turning.


def resize(a, new_shape) -> ndarray:
    """The elements, again and again, in another shape."""
    x = ravel(as_array(a, "resize"))
    n = math.prod(new_shape) if isinstance(new_shape, tuple | list) else new_shape
    times = -(-n // x.size) if x.size else 0
    return reshape(concatenate([x] * times)[:n] if times else from_numpy_values(np.zeros(n, x.dtype)), new_shape)


def tile(A, reps) -> ndarray:
    """An array repeated along each axis."""
    times = np.atleast_1d(np.asarray(reps))
    if times.dtype.kind not in "iu" or times.ndim > 1:
        raise DTypeError(f"tile: reps must be one integer per axis, got {reps!r}")
    return operators["tile"].call(as_array(A, "tile"), tuple(times.tolist()))


def repeat(a, repeats, axis=None) -> ndarray:
    """Each element along an axis so many times."""
    x = as_array(a, "repeat")
    if axis is None:
        x, axis = ravel(x), 0
    k = axis_of(axis, x.ndim, "repeat")
    counts = np.asarray(repeats)
    counts = np.broadcast_to(counts.astype(np.int64) if not counts.size else counts, (x.shape[k],))
    if counts.dtype.kind not in "iub" or (counts < 0).any():
        raise DTypeError(f"repeat: counts must be integers of 0 or more, got {repeats!r}")
    return take(x, np.repeat(np.arange(x.shape[k]), counts), k)


def flip(m, axis=None) -> ndarray:
    """The elements along axes in reverse order; along all by default."""
    x = as_array(m, "flip")
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    places = tuple(axis_of(k, x.ndim, "flip") for k in axes)
    return operators["flip"].call(x, axis=places) if places else x


flip = viewing(flip, np.flip)


def flipud(m) -> ndarray:
    """The rows in reverse order."""
    return flip(m, 0)


def fliplr(m) -> ndarray:
    """The columns in reverse order."""
    return flip(m, 1)


def roll(a, shift, axis=None) -> ndarray:
    """The elements along axes shifted, and those that leave at one end brought in at the other."""
    return operators["roll"].call(as_array(a, "roll"), shift, axis)


def rot90(m, k=1, axes=(0, 1)) -> ndarray:
    """Turned by 90 degrees, `k` times, in the plane of two axes."""
    x, (a, b), k = as_array(m, "rot90"), axes, k % 4
    if k == 2:
        return flip(flip(x, a), b)
    if k == 0:
        return x
    return swapaxes(flip(x, b), a, b) if k == 1 else flip(swapaxes(x, a, b), b)


# Selecting.


def where(condition, x=None, y=None, /) -> Any:
    """Elements of `x` where the condition holds, else of `y`; without these, the indices where it holds."""
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise TypeError("where: both of x and y must be given, or neither")
    mask = as_array(condition, "where")
    a, b = with_common_dtype("where", x, y)
    shape = np.broadcast_shapes(mask.shape, a.shape, b.shape)
    mask, a, b = (v if v.shape == shape else expanded(v, shape) for v in (mask, a, b))
    return operators["where"].call(mask, a, b)


def nonzero(a) -> tuple[ndarray, ...]:
    """The indices of elements that are not zero, one array per axis."""
    return tuple(from_numpy_values(i) for i in np.nonzero(as_array(a, "nonzero").asnumpy()))


def flatnonzero(a) -> ndarray:
    """The indices, in the flattened array, of elements that are not zero."""
    return nonzero(ravel(a))[0]


def argwhere(a) -> ndarray:
    """The indices of elements that are not zero, one row each."""
    return from_numpy_values(np.argwhere(as_array(a, "argwhere").asnumpy()))


def take(a, indices, axis=None, out=None, mode="raise") -> ndarray:
    """The elements at these indices along an axis, or of the flattened array."""
    x = as_array(a, "take")
    if axis is None:
        x, axis = ravel(x), 0
    if isinstance(indices, NDArray) and mode != "raise":
        return stored(operators["take"].call(x, indices, axis=axis, mode=mode), out, "take")
    k = axis_of(axis, x.ndim, "take")
    places = indices if isinstance(indices, ndarray) else np.asarray(indices, np.int64)
    if mode != "raise":
        places = in_range(integers(places, "take"), x.shape[k], mode, "take")
    return stored(x[(*(slice(None),) * k, places)], out, "take")


def take_along_axis(arr, indices, axis=-1) -> ndarray:
    """For each index, the element of its row along an axis."""
    x = as_array(arr, "take_along_axis")
    if axis is None:
        x, axis = ravel(x), 0
    return operators["take_along_axis"].call(x, as_array(indices, "take_along_axis"), axis=axis)


def choose(a, choices, out=None, mode="raise") -> ndarray:
    """The element of the choice that each number of `a` says."""
    which = as_array(a, "choose")
    if which.dtype.kind not in "iub":
        raise DTypeError(f"choose: a must be of integers, got dtype {which.dtype}")
    if not which._kind.traced:
        which = as_array(in_range(integers(which.asnumpy(), "choose"), len(choices), mode, "choose"), "choose")
    parts = [as_array(c, "choose") for c in choices]
    found = parts[0]
    for k, part in enumerate(parts[1:], 1):
        found = where(which == k, part, found)
    found = expanded(found, np.broadcast_shapes(found.shape, which.shape))
    return stored(found.copy() if len(parts) == 1 else found, out, "choose")


def compress(condition, a, axis=None, out=None) -> ndarray:
    """The elements along an axis, or of the flattened array, at which a condition is true; false beyond its end."""
    x = as_array(a, "compress")
    if axis is None:
        x, axis = ravel(x), 0
    chosen = condition.asnumpy() if isinstance(condition, NDArray) else np.asarray(condition)
    if chosen.ndim != 1:
        raise ShapeError(f"compress: condition must have one axis, not the shape {chosen.shape}")
    return take(x, np.flatnonzero(chosen), axis, out)


def ix_(*args) -> tuple[np.ndarray, ...]:
    """Indices, or masks, one for each axis, as indices that select all combinations: ``a[np.ix_([0, 2], [1, 3])]``."""
    return np.ix_(*[x.asnumpy() if isinstance(x, NDArray) else x for x in args])


def trim_zeros(filt, trim="fb") -> ndarray:
    """A vector without the zeros in front (``"f"``) and at its end (``"b"``)."""
    x = as_array(filt, "trim_zeros")
    if x.ndim != 1 or not set(trim.lower()) <= {"f", "b"}:
        raise ShapeError(f"trim_zeros: a vector and 'f', 'b' or 'fb' are expected, got {x.shape} and {trim!r}")
    kept = np.flatnonzero(x.asnumpy())
    if not kept.size:
        return x[:0]
    first = kept[0] if "f" in trim.lower() else 0
    return x[int(first) : int(kept[-1]) + 1 if "b" in trim.lower() else x.size]


def select(condlist, choicelist, default=0) -> ndarray:
    """The element of the first choice whose condition holds."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ShapeError(f"select: {len(condlist)} conditions for {len(choicelist)} choices; at least one is needed")
    *choices, found = with_common_dtype("select", *choicelist, default)
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        found = where(condition, choice, found)
    return found


def delete(arr, obj, axis=None) -> ndarray:
    """An array without some of its elements along an axis."""
    x = as_array(arr, "delete")
    if axis is None:
        x, axis = ravel(x), 0
    gone = numbers(obj) if isinstance(obj, NDArray) else obj
    return take(x, np.delete(np.arange(x.shape[axis]), gone), axis)


def insert(arr, obj, values, axis=None) -> ndarray:
    """Values inserted before indices along an axis."""
    x = as_array(arr, "insert")
    if axis is None:
        x, axis = ravel(x), 0
    k = axis_of(axis, x.ndim, "insert")
    n = x.shape[k]
    places = np.arange(n)[obj] if isinstance(obj, slice) else np.asarray(obj, np.int64)
    v = as_array(values, "insert", x._kind).astype(x.dtype)
    if places.ndim == 0 and v.ndim:
        v = moveaxis(v.reshape((1,) * (x.ndim - v.ndim) + v.shape), 0, k) if v.ndim <= x.ndim else v
    count = places.size if places.ndim else (v.shape[k] if v.ndim == x.ndim else 1)
    shape = list(x.shape)
    shape[k] = count
    v = expanded(v, tuple(shape))
    order = np.insert(np.arange(n), places, -1 - np.arange(count))
    joined = concatenate([x, v], k)
    return take(joined, np.where(order < 0, n - 1 - order, order), k)


def clip(a, min=None, max=None, out=None, *, a_min=None, a_max=None) -> ndarray:
    """Elements limited to an interval."""
    x = as_array(a, "clip")
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    plain = all(v is None or type(v) in (int, float) for v in (low, high))
    if plain and x._kind.dtype.is_float:
        low, high = (-math.inf if low is None else low), (math.inf if high is None else high)
        return stored(operators["clip"].call(x, a_min=low, a_max=high), out, "clip")
    if not x._kind.dtype.is_float and x.dtype != bool:  # bounds beyond the dtype bind nothing
        limits = np.iinfo(x.dtype)
        low, high = (_within(v, limits) for v in (low, high))
    x = x if low is None else UFUNCS["maximum"](x, low)
    return stored(x if high is None else UFUNCS["minimum"](x, high), out, "clip")


def _within(bound: Any, limits: np.iinfo) -> Any:
    return sorted((int(limits.min), bound, int(limits.max)))[1] if type(bound) is int else bound


def round(a, decimals=0, out=None) -> ndarray:
    """The nearest multiples of a power of ten; ties go to even."""
    x, digits = as_array(a, "round"), index(decimals)
    if digits == 0 or not x._kind.dtype.is_float:
        if digits < 0:
            raise AttrError(f"round: integers need decimals of 0 or more, got {decimals}")
        return stored(UFUNCS["rint"](x) if x._kind.dtype.is_float else x.copy(), out, "round")
    power = 10.0 ** abs(digits)
    rint = UFUNCS["rint"]
    return stored(rint(x * power) / power if digits > 0 else rint(x / power) * power, out, "round")


around = round


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None) -> ndarray:
    """NaN and infinities replaced by numbers: 0 and the greatest ones by default."""
    a = as_array(x, "nan_to_num")
    if not copy:
        if a is not x:
            raise DTypeError(f"nan_to_num: copy=False changes x, which must be an array of nbgrad.np, not {type(x)}")
        a[...] = nan_to_num(a, True, nan, posinf, neginf)
        return a
    if not a._kind.dtype.is_float:
        return a.copy()
    limits = np.finfo(a.dtype)
    high, low = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    a = where(UFUNCS["isnan"](a), float(nan), a)
    a = where(a == np.inf, float(high), a)
    return where(a == -np.inf, float(low), a)


def copy(a, order="K", subok=False) -> ndarray:
    """A copy, which is recorded. Arrays are in C order whatever `order` says."""
    return array(a)


def extract(condition, arr) -> ndarray:
    """The elements of the flattened array at which a condition is true."""
    mask = condition.asnumpy() if isinstance(condition, NDArray) else np.asarray(condition)
    return compress(mask.reshape(-1), arr)


_EDGES = ("edge", "reflect", "symmetric", "wrap")


def pad(array, pad_width, mode="constant", *, constant_values=0) -> ndarray:
    """An array with more elements at both ends of its axes: a constant, or those of the array again."""
    x = as_array(array, "pad")
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(k, pad_width.get(k - x.ndim, (0, 0))) for k in range(x.ndim)]
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).astype(int)
    if mode == "constant":
        values = constant_values if isinstance(constant_values, NDArray) else np.asarray(constant_values)
        if values.ndim == 0:
            filled = full_of(x, values, tuple(n + sum(w) for n, w in zip(x.shape, widths.tolist(), strict=True)))
            inside = np.zeros(filled.shape, bool)
            inside[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, widths.tolist(), strict=True))] = True
            body = operators["pad"].call(x, mode="constant", pad_width=tuple(widths.reshape(-1).tolist()))
            return body if not isinstance(values, NDArray) and not values else where(inside, body, filled)
        values = np.broadcast_to(values, (x.ndim, 2))
        for k, (before, after) in enumerate(widths.tolist()):
            ends = []
            for width, value in ((before, values[k, 0]), (after, values[k, 1])):
                shape = list(x.shape)
                shape[k] = width
                ends.append(from_numpy_values(np.full(shape, value, x.dtype)))
            x = concatenate([ends[0], x, ends[1]], k)
        return x
    if mode not in _EDGES:
        raise AttrError(f"pad: mode {mode!r} is not supported; the modes are constant, {', '.join(_EDGES)}")
    for k, (before, after) in enumerate(widths.tolist()):
        if before or after:
            x = take(x, np.pad(np.arange(x.shape[k]), (before, after), mode), k)
    return x


def full_of(x: ndarray, value: Any, shape: tuple[int, ...]) -> ndarray:
    """An array of one value in the dtype of `x`."""
    return expanded(cast(as_array(value, "full", x._kind), x._kind), shape)


# Parts of complex numbers, of real ones.


def real(val) -> ndarray:
    """The real part of real numbers: the array itself."""
    return as_array(val, "real")


def imag(val) -> ndarray:
    """The imaginary part of real numbers: zeros."""
    x = as_array(val, "imag")
    return from_numpy_values(np.zeros(x.shape, x.dtype))


def angle(z, deg=False) -> ndarray:
    """The angle of real numbers in the complex plane: 0, or pi for negative ones."""
    x = as_array(z, "angle")
    half = 180.0 if deg else math.pi
    return where(x < 0, half, where(x == x, 0.0, x * 1.0))


def real_if_close(a, tol=100) -> ndarray:
    """Real numbers, as they are."""
    return as_array(a, "real_if_close")


# Diagonals and triangles.


def diag(v, k=0) -> ndarray:
    """The matrix with a vector on diagonal `k`, or diagonal `k` of a matrix."""
    x = as_array(v, "diag")
    if x.ndim == 1:
        return operators["diag"].call(x, k=k)
    if x.ndim != 2:
        raise ShapeError(f"diag: a vector or a matrix is expected, got the shape {x.shape}")
    return diagonal(x, k)


def diagflat(v, k=0) -> ndarray:
    """The matrix with all elements on diagonal `k`."""
    return diag(ravel(as_array(v, "diagflat")), k)


def diagonal(a, offset=0, axis1=0, axis2=1) -> ndarray:
    """A diagonal of each matrix in two axes, as a new last axis."""
    x = as_array(a, "diagonal")
    if x.ndim < 2:
        raise ShapeError(f"diagonal: at least two axes are needed, got the shape {x.shape}")
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = x.shape[-2:]
    n = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    first = max(offset, 0) + max(-offset, 0) * columns
    flat = reshape(x, (*x.shape[:-2], rows * columns))
    return take(flat, first + np.arange(n) * (columns + 1), -1)


diagonal = viewing(diagonal, np.diagonal, readonly=True)


def _triangle(name: str) -> Callable:
    def function(m, k=0) -> ndarray:
        x = as_array(m, name)
        return operators[name].call(x if x.ndim > 1 else expanded(x, (x.size, x.size)), k=k)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The elements {'below' if name == 'tril' else 'above'} diagonal `k`, and on it; the rest 0."
    return function


tril = _triangle("tril")
triu = _triangle("triu")


def tril_indices(n, k=0, m=None) -> tuple[ndarray, ...]:
    """The indices of the elements at and below diagonal `k`."""
    return tuple(map(from_numpy_values, np.tril_indices(n, k, m)))


def triu_indices(n, k=0, m=None) -> tuple[ndarray, ...]:
    """The indices of the elements at and above diagonal `k`."""
    return tuple(map(from_numpy_values, np.triu_indices(n, k, m)))


def diag_indices(n, ndim=2) -> tuple[ndarray, ...]:
    """The indices of the main diagonal."""
    return tuple(map(from_numpy_values, np.diag_indices(n, ndim)))
