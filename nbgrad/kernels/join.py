"""Joining arrays. The derivative of ``concat`` with respect to one of them is a slice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..dtypes import promote
from ..entry import as_array
from ..errors import ShapeError
from ..ndarray import NDArray, from_value
from ..samples import table
from ..shapes import axis as resolve_axis
from ..structured import Spec, composite, structured
from .move import scatter, strides_of
from .shape import expand_dims, slice_axis

__all__ = ["concat", "stack"]


@structured(
    aliases=("Concat",),
    moves_only=True,
    method=False,
    samples=table(
        lambda *a, dim=1, axis=None: np.concatenate(a, dim if axis is None else axis),
        [(2, 3), (2, 1)],
        [(2, 3), (1, 3), (2, 3), {"dim": 0}],
        [(2,), (0,), {"axis": -1}],
        [(2, 2)],
    ),
)
def concat(*data, dim=None, axis=None):
    """Arrays joined along an axis.

    Parameters
    ----------
    *data : NDArray
        Equal shapes but for that axis; or one list of them.
    dim, axis : int
        Two names of the same argument; default 1.

    Returns
    -------
    NDArray
        Of the common shape, with the sum of the lengths along the axis.

    Raises
    ------
    ShapeError
        If other lengths differ.

    Notes
    -----
    Gradient: the slices of g.
    """
    if not data:
        raise ShapeError("concat: at least one array is needed")
    k = resolve_axis(next((v for v in (dim, axis) if v is not None), 1), data[0].ndim, "concat")
    first = data[0]
    for n, x in enumerate(data):
        if x.ndim != first.ndim or x._shape[:k] + x._shape[k + 1 :] != first._shape[:k] + first._shape[k + 1 :]:
            raise ShapeError(
                f"concat: array {n} has shape {x._shape}, the first {first._shape}; only axis {k} may differ"
            )
    shape = first._shape[:k] + (sum(x._shape[k] for x in data),) + first._shape[k + 1 :]
    return Spec(shape, _widest(data), axis=k)


def _widest(arrays: Sequence[NDArray]):
    dtype = arrays[0]._kind.dtype
    for x in arrays[1:]:
        dtype = promote(dtype, x._kind.dtype)
    return dtype


@concat.run
def _(*args, axis):
    *data, out = args
    strides = strides_of(out._shape)
    start = 0
    for x in data:
        buf = x._buf if x._kind is out._kind else from_value(x, dtype=out._kind.dtype)._buf
        scatter(buf, out._buf, x._shape, strides, start * strides[axis])
        start += x._shape[axis]


def _concat_vjp(g, index, shapes, axis):
    start = sum(shape[axis] for shape in shapes[:index])
    return slice_axis(g, axis=axis, begin=start, end=start + shapes[index][axis])


concat.vjp(data=_concat_vjp)


@composite(samples=table(lambda *a, axis=0: np.stack(a, axis), [(2, 3), (2, 3)], [(2,), (2,), {"axis": -1}], [(), ()]))
def stack(*data, axis=0):
    """Arrays of one shape joined along a new axis.

    Returns
    -------
    NDArray
        Of the common shape, with a new axis as long as there are arrays.

    Notes
    -----
    Gradient: the slices of g.
    """
    data = tuple(data[0]) if len(data) == 1 and isinstance(data[0], list | tuple) else data
    if not data:
        raise ShapeError("stack: at least one array is needed")
    for k, x in enumerate(data):
        if as_array(x, "stack", f"{k}").shape != data[0].shape:
            raise ShapeError(f"stack: array {k} has shape {x.shape}, the first {data[0].shape}; they must be equal")
    k = resolve_axis(axis, data[0].ndim + 1, "stack")
    return concat(*[expand_dims(x, axis=k) for x in data], dim=k)
