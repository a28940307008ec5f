"""Joining arrays and cutting them: ``concat`` and ``pieces``, each other's derivative, and what is made of both."""

from __future__ import annotations

import functools

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..core.dtypes import promote
from ..core.shapes import axis as resolve_axis
from ..core.shapes import size, strides_of
from ..errors import AttrError, ShapeError
from ..ir.graph import MAX_JOINED
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import REQUIRED, Spec, composite, structured
from .move import gather, move, scatter
from .shape import expand_dims, reshape

__all__ = ["concat", "pieces", "stack", "unstacked"]

#: Elements of a result up to which a compiled program joins many arrays in groups, which copies them more than once.
_MAX_JOINED_IN_GROUPS = 1 << 14


@structured(
    anywhere=True,
    aliases=("Concat",),
    moves_only=True,
    method=False,
    samples=sample_table(
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
    if dim is not None and axis is not None and dim is not axis:
        raise AttrError(f"concat: dim and axis are names of one argument, got {dim!r} and {axis!r}; give one of them")
    k = resolve_axis(next((v for v in (dim, axis) if v is not None), 1), data[0].ndim, "concat")
    first = data[0]
    for n, x in enumerate(data):
        if x.ndim != first.ndim or x._shape[:k] + x._shape[k + 1 :] != first._shape[:k] + first._shape[k + 1 :]:
            raise ShapeError(
                f"concat: array {n} has shape {x._shape}, the first {first._shape}; only axis {k} may differ"
            )
    shape = first._shape[:k] + (sum(x._shape[k] for x in data),) + first._shape[k + 1 :]
    return Spec(shape, functools.reduce(promote, [x._kind.dtype for x in data]), axis=k)


@concat.run
def _(*args, axis):
    *data, out = args
    neighbours = size(out._shape[:axis]) == 1  # an operand's elements are, in the result
    strides = strides_of(out._shape)
    start = 0
    for x in data:
        buf = x._buf if x._kind is out._kind else from_value(x, like=out._kind, dtype=out._kind.dtype)._buf
        if neighbours:
            out._buf[start : start + buf.size] = buf
        else:
            scatter(buf, out._buf, x._shape, strides, start)
        start += x._shape[axis] * strides[axis]


@structured("_pieces", anywhere=True, method=False, moves_only=True, samples=sample_table(
    lambda a, sizes, axis=0: np.split(a, np.cumsum(sizes)[:-1], axis),
    [(6,), {"sizes": (1, 3, 2)}], [(2,), {"sizes": (2,)}], [(2, 4), {"sizes": (3, 0, 1), "axis": 1}],
))  # fmt: skip
def pieces(data, sizes=REQUIRED, axis=0):
    """Consecutive parts, of these lengths along an axis, which add up to its own."""
    before, after = data._shape[:axis], data._shape[axis + 1 :]
    return Spec([before + (n,) + after for n in sizes], [data._kind.dtype] * len(sizes), sizes=sizes, axis=axis)


@pieces.run
def _(data, outs, *, sizes, axis):
    neighbours = size(data._shape[:axis]) == 1
    strides = strides_of(data._shape)
    start = 0
    for out, n in zip(outs, sizes, strict=True):
        if neighbours:
            out._buf[:] = data._buf[start : start + out._buf.size]
        else:
            gather(data._buf, out._buf, out._shape, strides, start)
        start += n * strides[axis]


@concat.lower
def _(graph, *data, axis):
    if len(data) > MAX_JOINED and graph.outer is None and sum(size(x.shape) for x in data) > _MAX_JOINED_IN_GROUPS:
        return None
    dtype = functools.reduce(promote, [x.value.dtype for x in data])
    return graph.join([graph.convert(x, dtype) for x in data], axis)


@pieces.lower
def _(graph, data, *, sizes, axis):
    shape = data.shape
    values, start = [], 0
    for n in sizes:
        index = tuple([(k, 1, start if k == axis else 0) for k in range(len(shape))])
        values.append(graph.add_view(data, index, (*shape[:axis], n, *shape[axis + 1 :])))
        start += n
    return values


# All at once: the sum of as many slices, or of zeros with a slice in them, takes time that grows with their square.
concat.pullback(lambda g, axis, shapes: pieces(g, sizes=tuple([s[axis] for s in shapes]), axis=axis))
pieces.vjp(data=lambda g, axis: concat(*g, dim=axis))


@composite(
    samples=sample_table(lambda *a, axis=0: np.stack(a, axis), [(2, 3), (2, 3)], [(2,), (2,), {"axis": -1}], [(), ()])
)
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
    shape = data[0].shape
    k = resolve_axis(axis, len(shape) + 1, "stack")
    if k == len(shape):
        return concat(*[expand_dims(x, axis=k) for x in data], dim=k)
    return reshape(concat(*data, dim=k), shape[:k] + (len(data),) + shape[k:])


def unstacked(x: NDArray) -> list[NDArray]:
    """The rows of an array, each as ``x[i]`` has it."""
    n, *rest = x.shape
    first, *others = rest or [1]
    found = pieces(reshape(x, (n * first, *others)), sizes=(first,) * n)
    return found if rest or x._kind.conventions.scalar else [reshape(y, ()) for y in found]


@structured(
    "_roll",
    anywhere=True,
    moves_only=True,
    method=False,
    samples=sample_table(np.roll, [(2, 3), {"shift": 2, "axis": 1}], [(4,), {"shift": 0, "axis": 0}]),
)
def _roll(data, shift=REQUIRED, axis=REQUIRED):
    """The array shifted cyclically along one axis, by less than its length."""
    return Spec(data._shape, data._kind.dtype, shift=shift, axis=axis)


@_roll.run
def _(data, out, *, shift, axis):
    shape, strides = data._shape, strides_of(data._shape)
    cut, step = shape[axis] - shift, strides[axis]
    for begin, n, target in ((0, cut, shift), (cut, shift, 0)):
        block = (*shape[:axis], n, *shape[axis + 1 :])
        move(data._buf, out._buf, block, strides, strides, begin * step, target * step)


@_roll.expand
def _(data, shift, axis):
    return concat(*pieces(data, sizes=(data.shape[axis] - shift, shift), axis=axis)[::-1], dim=axis)


_roll.vjp(data=lambda g, shift, axis, data_shape: _roll(g, shift=-shift % max(data_shape[axis], 1), axis=axis))


@composite(
    method=True,
    samples=sample_table(
        np.roll,
        [(5,), {"shift": 2}],
        [(2, 3), {"shift": -1, "axis": 1}],
        [(2, 3), {"shift": (1, 4), "axis": (0, -1)}],
        [(2, 3), {"shift": 7}],
        [(0,), {"shift": 1}],
    ),
    gradient="g shifted back",
)
def roll(data, shift, axis=None):
    """The array with elements shifted cyclically along an axis (of the flattened array if None), or several."""
    data = as_array(data, "roll")
    if axis is None:
        return reshape(roll(reshape(data, (data.size,)), shift, axis=0), data.shape)
    shifts, along = (tuple(v) if isinstance(v, list | tuple) else (v,) for v in (shift, axis))
    if len(shifts) != len(along) or not all(hasattr(by, "__index__") for by in shifts):
        raise AttrError(f"roll: a shift, an integer, is needed for each of the axes {along}, got {shift!r}")
    for by, k in zip(shifts, [resolve_axis(k, data.ndim, "roll") for k in along], strict=True):
        data = _roll(data, shift=by.__index__() % max(data.shape[k], 1), axis=k)
    return data
