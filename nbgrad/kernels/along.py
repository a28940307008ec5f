"""Reading along an axis in an order of its own for every row.

The family. With an array seen as (outer, n, inner), ``_along`` reads place ``index[o, k, j]`` of row (o, j), and
``_along_add`` adds into zeros there: they are each other's adjoint.
"""

from __future__ import annotations

import numpy as np

from ..arrays.ndarray import NDArray, from_host_values
from ..autodiff import tracing
from ..backends.cuda.kernels import cuda, device
from ..backends.numba.compile import kernel
from ..core.dtypes import int64
from ..core.shapes import size
from ..operators.samples import Input, sample_table
from ..operators.structured import REQUIRED, Spec, structured
from .reduce import split

__all__ = ["DEEP", "PLACES", "add_along", "read_along"]

# Kernels: x (outer, n, inner), index (outer, m, inner) -> out (outer, m, inner).


@kernel
def _along_kernel(x, index, out, outer, n, m, inner):
    width, count, many = np.uint64(inner), np.uint64(n), np.uint64(m)
    for o in range(np.uint64(outer)):
        for k in range(many):
            target = (o * many + k) * width
            for j in range(width):
                out[target + j] = x[(o * count + np.uint64(index[target + j])) * width + j]


@kernel
def _along_add_kernel(g, index, out, outer, n, m, inner):
    width, count, many = np.uint64(inner), np.uint64(n), np.uint64(m)
    for i in range(np.uint64(out.size)):
        out[i] = 0
    for o in range(np.uint64(outer)):
        for k in range(many):
            source = (o * many + k) * width
            for j in range(width):
                out[(o * count + np.uint64(index[source + j])) * width + j] += g[source + j]


def _added(g: np.ndarray, index: np.ndarray, axis: int, n: int) -> np.ndarray:
    out = np.zeros(g.shape[:axis] + (n,) + g.shape[axis + 1 :], g.dtype)
    places: list[np.ndarray] = list(np.indices(g.shape))
    places[axis] = index
    np.add.at(out, tuple(places), g)
    return out


#: Indices for samples.
PLACES = Input(values=[[2, 0], [1, 1]], dtype="int64")
DEEP = Input(values=[[[1], [0]], [[1], [1]], [[0], [0]]], dtype="int64")


@structured("_along", moves_only=True, method=False, samples=sample_table(
    np.take_along_axis,
    [(2, 3), PLACES, {"axis": 1}], [(3, 2, 1), DEEP, {"axis": 1}],
    [(2, 3), Input((2, 0), dtype="int64"), {"axis": 1}],
))  # fmt: skip
def _along(data, index, axis=REQUIRED):
    """``data`` read along one axis at `index` (int64, checked), which has its shape but for that axis."""
    return Spec(index._shape, data._kind.dtype, axis=axis)


@_along.run
def _(data, index, out, *, axis):
    outer, n, inner = split(data._shape, axis)
    _along_kernel(data._buf, index._buf, out._buf, outer, n, index._shape[axis], inner)


@device
def _device_along(x, index, out, n, m, inner):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = x[(i // (m * inner) * n + index[i]) * inner + i % inner]


@_along.device
def _(operands, results, *, axis):
    _, n, inner = split(operands[0][0], axis)
    shape = results[0][0]
    return _device_along.run(size(shape), n, shape[axis], inner)


@structured("_along_add", method=False, samples=sample_table(
    _added, [(2, 2), PLACES, {"axis": 1, "n": 4}], [(3, 2, 1), DEEP, {"axis": 1, "n": 2}], ulp=1
))  # fmt: skip
def _along_add(data, index, axis=REQUIRED, n=REQUIRED):
    """Zeros of length `n` along one axis, with the elements of `data` added at `index`."""
    shape = data._shape[:axis] + (n,) + data._shape[axis + 1 :]
    return Spec(shape, data._kind.dtype, axis=axis, n=n)


@_along_add.run
def _(data, index, out, *, axis, n):
    outer, m, inner = split(data._shape, axis)
    _along_add_kernel(data._buf, index._buf, out._buf, outer, n, m, inner)


@device
def _device_along_add(g, index, out, outer, n, m, inner):
    for i in range(cuda.grid(1), outer * inner, cuda.gridsize(1)):
        o, j = i // inner, i % inner
        for k in range(n):
            out[(o * n + k) * inner + j] = 0
        for k in range(m):  # in order: places may come twice
            source = (o * m + k) * inner + j
            out[(o * n + index[source]) * inner + j] += g[source]


@_along_add.device
def _(operands, results, *, axis, n):
    outer, m, inner = split(operands[0][0], axis)
    return _device_along_add.run(outer * inner, outer, n, m, inner)


_along.vjp(data=lambda g, index, data_shape, axis: _along_add(g, index, axis=axis, n=data_shape[axis]))
_along_add.vjp(data=lambda g, index, axis: _along(g, index, axis=axis))


def read_along(data: NDArray, index: np.ndarray | NDArray, axis: int) -> NDArray:
    """``numpy.take_along_axis`` for indices that are known to be in range."""
    if isinstance(index, NDArray):
        return _along(data, index, axis=axis)
    return _along(data, from_host_values(index, tracing.outside_kind(data._kind, int64)), axis=axis)


def add_along(data: NDArray, index: NDArray, axis: int, n: int) -> NDArray:
    """Zeros of length `n` along an axis, with the elements of `data` added at indices that are known to be in range."""
    return _along_add(data, index, axis=axis, n=n)
