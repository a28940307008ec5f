"""Arrays from values, and from shapes: NumPy's creation functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..core.context import Context, usable
from ..core.conventions import NUMPY
from ..core.dtypes import as_dtype
from ..core.registry import operators
from ..core.shapes import as_shape
from ..errors import ShapeError
from ..operators.cast import cast
from .arrays import as_array, ndarray, stacked, with_common_dtype
from .manipulation import expanded

__all__ = ["arange", "array", "asanyarray", "asarray", "ascontiguousarray", "bartlett", "blackman", "empty",
           "empty_like", "eye", "from_numpy_values", "full", "full_like", "geomspace", "hamming", "hanning", "identity",
           "indices", "kaiser", "linspace", "logspace", "meshgrid", "ones", "ones_like", "tri", "vander", "zeros",
           "zeros_like"]  # fmt: skip


def from_numpy_values(values: np.ndarray, dtype: Any = None, device: Context | None = None) -> ndarray:
    """An array with a copy of the values of a NumPy array."""
    found: Any = from_value(values, dtype=dtype, ctx=usable(device), conventions=NUMPY)
    return found


def array(object, dtype=None, *, copy: bool | None = True, ndmin: int = 0, device: Context | None = None) -> ndarray:
    """An array with the values of numbers, nested sequences, NumPy arrays or arrays of this class.

    Sequences may hold arrays of this class, on which the result depends: ``np.array([x[0] * 2, x[1]])``. Of an array
    the result is a copy, which is recorded; without `copy` only where the dtype or device is another.
    """
    values = stacked(object, "array")
    if copy is False and not (isinstance(values, ndarray) and (dtype is None or values.dtype == as_dtype(dtype).np)):
        raise ValueError("array: a copy is needed, which copy=False forbids; use copy=None, or np.asarray")
    if isinstance(values, ndarray):
        kind = values._kind if dtype is None else values._kind.of(as_dtype(dtype))
        kind = kind if device is None else kind.on(usable(device))
        found: Any = cast(values, kind) if copy or values._kind is not kind else values
    else:
        values = as_array(values, "array") if isinstance(values, NDArray) else values
        if dtype is not None and isinstance(values, int | float | list | tuple):  # which NumPy checks to be in range
            values = np.array(values, as_dtype(dtype).np)
        found = from_value(values, dtype=dtype, ctx=usable(device), conventions=NUMPY)
    return found.reshape((1,) * (ndmin - found.ndim) + found.shape) if found.ndim < ndmin else found


def asanyarray(a, dtype=None, order=None, *, device: Context | None = None, copy: bool | None = None) -> ndarray:
    """As :func:`asarray`."""
    return asarray(a, dtype, copy=copy, device=device)


def ascontiguousarray(a, dtype=None) -> ndarray:
    """As :func:`asarray`, with one axis at least: arrays are contiguous here."""
    x = asarray(a, dtype)
    return x if x.ndim else x.reshape(1)


def asarray(a, dtype=None, *, copy: bool | None = None, device: Context | None = None) -> ndarray:
    """`a` as an array of this class; itself if it is one of that dtype, unless a copy is asked for."""
    return array(a, dtype, copy=copy, device=device)


def full(shape, fill_value, dtype=None, *, device: Context | None = None) -> ndarray:
    """An array of one value; the dtype is that of the value by default."""
    if isinstance(fill_value, NDArray):
        found = expanded(as_array(fill_value, "full"), as_shape(shape))
        return array(found, dtype, copy=True if found._cell is fill_value._cell else None)
    return from_numpy_values(np.full(as_shape(shape), fill_value), dtype, device)


def zeros(shape, dtype=float, *, device: Context | None = None) -> ndarray:
    """An array of zeros, float64 by default."""
    return from_numpy_values(np.zeros(as_shape(shape), as_dtype(dtype or float).np), None, device)


def ones(shape, dtype=float, *, device: Context | None = None) -> ndarray:
    """An array of ones, float64 by default."""
    return from_numpy_values(np.ones(as_shape(shape), as_dtype(dtype or float).np), None, device)


#: Elements that are not set could be anything; here they are zeros.
empty = zeros


def full_like(a, fill_value, dtype=None, *, shape=None, device: Context | None = None) -> ndarray:
    """An array of one value with the shape and dtype of another."""
    a = as_array(a, "full_like")
    return full(a.shape if shape is None else shape, fill_value, dtype or a.dtype, device=device or a.ctx)


def zeros_like(a, dtype=None, *, shape=None, device: Context | None = None) -> ndarray:
    """Zeros with the shape and dtype of another array."""
    return full_like(a, 0, dtype, shape=shape, device=device)


def ones_like(a, dtype=None, *, shape=None, device: Context | None = None) -> ndarray:
    """Ones with the shape and dtype of another array."""
    return full_like(a, 1, dtype, shape=shape, device=device)


empty_like = zeros_like


def arange(start, stop=None, step=1, dtype=None, *, device: Context | None = None) -> ndarray:
    """Numbers from `start` (0 if only one is given) up to but without `stop`, `step` apart."""
    values = np.arange(start, step=step) if stop is None else np.arange(start, stop, step)
    return from_numpy_values(values, dtype, device)


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None) -> Any:
    """Evenly spaced numbers from `start` to `stop`, which may be arrays that are differentiated."""
    if not isinstance(start, NDArray) and not isinstance(stop, NDArray):
        values, step = np.linspace(start, stop, num, endpoint=endpoint, retstep=True, axis=axis)
        found = from_numpy_values(values, dtype, device)
        return (found, float(step)) if retstep else found
    first, last = with_common_dtype("linspace", start, stop)
    step = (last - first) / max(num - bool(endpoint), 1)
    k = arange(num, dtype=step.dtype).reshape((num,) + (1,) * step.ndim)
    found = first + k * step
    found = operators["moveaxis"].call(found, 0, axis) if axis else found
    found = found if dtype is None else found.astype(dtype)
    return (found, step) if retstep else found


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0) -> ndarray:
    """Numbers whose logarithms are evenly spaced, from ``base**start`` to ``base**stop``."""
    found = float(base) ** linspace(start, stop, num, endpoint, axis=axis)
    return found if dtype is None else found.astype(dtype)


def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0) -> ndarray:
    """Numbers from `start` to `stop`, each the same multiple of the one before."""
    if not isinstance(start, NDArray) and not isinstance(stop, NDArray):
        return from_numpy_values(np.geomspace(start, stop, num, endpoint, axis=axis), dtype)
    first, last = with_common_dtype("geomspace", start, stop)
    found = linspace(first.log(), last.log(), num, endpoint, axis=axis).exp()
    return found if dtype is None else found.astype(dtype)


def eye(N, M=None, k=0, dtype=float, *, device: Context | None = None) -> ndarray:
    """A matrix of zeros with ones on diagonal `k`."""
    return from_numpy_values(np.eye(N, M, k, as_dtype(dtype or float).np), None, device)


def identity(n, dtype=float) -> ndarray:
    """The square matrix of zeros with ones on the diagonal."""
    return eye(n, dtype=dtype)


def tri(N, M=None, k=0, dtype=float) -> ndarray:
    """Ones at and below diagonal `k`."""
    return from_numpy_values(np.tri(N, M, k, as_dtype(dtype or float).np))


def indices(dimensions, dtype=int) -> ndarray:
    """The indices of all elements of an array of these lengths, one array per axis."""
    return from_numpy_values(np.indices(dimensions, as_dtype(dtype).np))


def vander(x, N=None, increasing=False) -> ndarray:
    """Powers of each number, one row each, the highest first unless `increasing`."""
    x = as_array(x, "vander")
    if x.ndim != 1:
        raise ShapeError(f"vander: a vector is expected, got the shape {x.shape}")
    x = x.astype(np.promote_types(x.dtype, int))
    n = x.size if N is None else N
    powers = np.arange(n) if increasing else np.arange(n)[::-1]
    columns = [x ** int(p) if p else ones_like(x) for p in powers]
    return operators["stack"].call(*columns, axis=1) if columns else zeros((x.size, 0), x.dtype)


def meshgrid(*xi, copy=True, sparse=False, indexing="xy") -> tuple[ndarray, ...]:
    """Matrices of coordinates from vectors of them."""
    arrays = [as_array(x, "meshgrid").reshape(-1) for x in xi]
    if sparse:
        order = list(range(len(arrays)))
        if indexing == "xy" and len(order) > 1:
            order[:2] = 1, 0
        shapes = [tuple(-1 if m == order[k] else 1 for m in range(len(arrays))) for k in range(len(arrays))]
        return tuple(x.reshape(shape, copy=copy or None) for x, shape in zip(arrays, shapes, strict=True))
    if not copy:
        raise ValueError("meshgrid: copy=False gives views of the arguments, with sparse=True alone; use copy=True")
    return tuple(operators["meshgrid"].call(*arrays, indexing=indexing)) if arrays else ()


def bartlett(M) -> ndarray:
    """The Bartlett window of `M` points: a triangle."""
    return from_numpy_values(np.bartlett(M))


def blackman(M) -> ndarray:
    """The Blackman window of `M` points."""
    return from_numpy_values(np.blackman(M))


def hamming(M) -> ndarray:
    """The Hamming window of `M` points."""
    return from_numpy_values(np.hamming(M))


def hanning(M) -> ndarray:
    """The Hann window of `M` points."""
    return from_numpy_values(np.hanning(M))


def kaiser(M, beta) -> ndarray:
    """The Kaiser window of `M` points, for a number `beta`."""
    return from_numpy_values(np.kaiser(M, beta))
