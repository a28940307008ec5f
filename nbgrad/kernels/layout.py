"""Operators that rearrange elements, composed of those in :mod:`.shape`."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ..arrays.launch import fill
from ..arrays.ndarray import NDArray, from_value
from ..core.dtypes import int64
from ..core.shapes import as_shape, broadcast_shape, distinct_axes, size
from ..core.shapes import axis as resolve_axis
from ..errors import AttrError, ShapeError
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import REQUIRED, Spec, composite, structured
from .broadcasting import broadcast_to
from .indexing import take_axis
from .join import pieces
from .move import band, bound_surround
from .shape import expand_dims, fixed, reshape, squeeze, transpose
from .slices import embed, slice_axis, slices

__all__ = ["split", "tile"]


def _ints(given, what: str) -> tuple[int, ...]:
    return as_shape(given, what)


@composite(
    aliases=("broadcast_axes",),
    method=True,
    samples=sample_table(
        lambda a, axis, size: np.broadcast_to(a, (3, 2, 4) if isinstance(axis, tuple) else (1, 2, 3)),
        [(1, 2, 1), {"axis": (0, 2), "size": (3, 4)}],
        [(1, 2, 1), {"axis": -1, "size": 3}],
    ),
    gradient="sums of g over the axes that were repeated",
)
def broadcast_axis(data, axis=(), size=()):
    """The array repeated along the given axes, of length 1, to the given lengths."""
    data = as_array(data, "broadcast_axis")
    axes = distinct_axes(axis, data.ndim, "broadcast_axis")
    sizes = _ints(size, "broadcast_axis: size")
    if len(axes) != len(sizes):
        raise ShapeError(f"broadcast_axis: {len(axes)} axes and {len(sizes)} sizes given; the numbers must agree")
    shape = list(data.shape)
    for k, n in zip(axes, sizes, strict=True):
        if shape[k] != 1:
            raise ShapeError(f"broadcast_axis: axis {k} has length {shape[k]}, not 1")
        shape[k] = n
    return broadcast_to(data, shape=tuple(shape))


@composite(
    method=True,
    samples=sample_table(
        lambda a, b, lhs_axes=None, rhs_axes=None: np.broadcast_to(a, (2, 3)),
        [(1, 3), fixed(2, 3)],
        [(2, 1), fixed(5, 3), {"lhs_axes": (1,), "rhs_axes": (-1,)}],
    ),
)
def broadcast_like(lhs, rhs, lhs_axes=None, rhs_axes=None):
    """`lhs` repeated to the shape of `rhs`, or to its lengths along `rhs_axes`. Gradient: sums of g."""
    lhs, rhs = as_array(lhs, "broadcast_like", "lhs"), as_array(rhs, "broadcast_like", "rhs")
    if lhs_axes is None and rhs_axes is None:
        return broadcast_to(lhs, shape=rhs.shape)
    if not lhs_axes or not rhs_axes:
        raise AttrError(f"broadcast_like: give lhs_axes and rhs_axes, or neither; got {lhs_axes} and {rhs_axes}")
    sizes = tuple(rhs.shape[k] for k in distinct_axes(rhs_axes, rhs.ndim, "broadcast_like"))
    return broadcast_axis(lhs, axis=lhs_axes, size=sizes)


@composite(
    method=True,
    samples=sample_table(
        np.tile,
        [(2, 3), {"reps": (2, 1)}],
        [(2,), {"reps": (2, 2)}],
        [(2, 1), {"reps": 2}],
        [(), {"reps": (2,)}],
        [(2,), {"reps": (0,)}],
    ),
)
def tile(data, reps):
    """The array repeated as a whole, ``reps[k]`` times along axis k. Gradient: sums of g over the repetitions."""
    data, reps = as_array(data, "tile"), _ints(reps, "tile: reps")
    ndim = max(len(reps), data.ndim)
    reps = (1,) * (ndim - len(reps)) + reps
    shape = (1,) * (ndim - data.ndim) + data.shape
    split_shape = tuple(n for k in range(ndim) for n in (1, shape[k]))
    wide = tuple(n for k in range(ndim) for n in (reps[k], shape[k]))
    return reshape(
        broadcast_to(reshape(data, split_shape), shape=wide), tuple(r * n for r, n in zip(reps, shape, strict=True))
    )


@composite(
    method=True,
    samples=sample_table(
        np.repeat,
        [(2, 3), {"repeats": 2}],
        [(2, 3), {"repeats": 2, "axis": 1}],
        [(2, 3), {"repeats": 3, "axis": -2}],
        [(), {"repeats": 2}],
        [(2,), {"repeats": 0}],
    ),
)
def repeat(data, repeats, axis=None):
    """Every element repeated `repeats` times along `axis` (of the flattened array if None). Gradient: sums of g."""
    data = as_array(data, "repeat")
    if axis is None:
        data, axis = reshape(data, (data.size,)), 0
    k = resolve_axis(axis, data.ndim, "repeat")
    (times,) = _ints((repeats,), "repeat: repeats")
    wide = (*data.shape[: k + 1], times, *data.shape[k + 1 :])
    shape = (*data.shape[:k], data.shape[k] * times, *data.shape[k + 1 :])
    return reshape(broadcast_to(expand_dims(data, axis=k + 1), shape=wide), shape)


@structured("_pad_constant", anywhere=True, moves_only=True, method=False, samples=sample_table(
    lambda a, before, after, value: np.pad(a, tuple(zip(before, after, strict=True)), constant_values=value),
    [(2, 3), {"before": (1, 0), "after": (0, 2), "value": 3.0}],
    [(0,), {"before": (1,), "after": (1,), "value": 1.0}],
))  # fmt: skip
def _pad_constant(data, before=REQUIRED, after=REQUIRED, value=0.0):
    """The array with `value` around it."""
    shape = tuple(b + n + a for b, n, a in zip(before, data._shape, after, strict=True))
    return Spec(shape, data._kind.dtype, before=before, after=after, value=value)


@_pad_constant.bind
def _(operands, results, *, before, after, value):
    ((counts, _),), ((shape, kind),) = operands, results
    around = kind.empty(1, kind.storage)
    fill(around, kind.dtype, value)
    write = bound_surround(counts, shape, before)
    return lambda data, out: write(data._buf, out._buf, around)


@_pad_constant.lower
def _(graph, x, *, before, after, value):
    if value:
        return None
    shape = tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))
    return graph.embed(x, tuple(before), (1,) * len(shape), shape)


_pad_constant.vjp(
    data=lambda g, data_shape, before: slices(g, [slice(b, b + n) for b, n in zip(before, data_shape, strict=True)])
)


@composite(
    aliases=("Pad",),
    method=True,
    samples=sample_table(
        lambda a, pad_width, mode="constant", constant_value=0.0: np.pad(
            a,
            np.reshape(pad_width, (-1, 2)),
            mode,
            **({"constant_values": constant_value} if mode == "constant" else {}),
        ),
        [(2, 3), {"pad_width": (1, 0, 0, 2), "constant_value": 2.0}],
        [(2, 3), {"pad_width": (1, 2, 0, 1), "mode": "edge"}],
        [(2, 3), {"pad_width": (1, 0, 2, 2), "mode": "reflect"}],
    ),
)
def pad(data, mode="constant", pad_width=(), constant_value=0.0):
    """The array with a border.

    Shape of `data`, longer by the pads. Gradient: g without the border; what the border repeats adds to what it
    repeats.

    Parameters
    ----------
    data : NDArray
    mode : {'constant', 'edge', 'reflect'}
        What the border holds: `constant_value`, the outermost element, or the array mirrored at that.
    pad_width : tuple of int
        (before, after) for every axis, one after the other.
    constant_value : float
    """
    data, widths = as_array(data, "pad"), _ints(pad_width, "pad: pad_width")
    if len(widths) != 2 * data.ndim:
        raise ShapeError(f"pad: pad_width needs {2 * data.ndim} entries for shape {data.shape}, got {len(widths)}")
    before, after = widths[::2], widths[1::2]
    if mode == "constant":
        return _pad_constant(data, before=before, after=after, value=float(constant_value))
    if mode not in ("edge", "reflect"):
        raise AttrError(f"pad: mode must be 'constant', 'edge' or 'reflect', got {mode!r}")
    for k, n in enumerate(data.shape):
        if before[k] or after[k]:
            if n == 0 or (mode == "reflect" and max(before[k], after[k]) >= n):
                raise ShapeError(
                    f"pad: mode {mode!r} cannot pad axis {k} of shape {data.shape} by {before[k], after[k]}"
                )
            data = take_axis(data, np.pad(np.arange(n), (before[k], after[k]), mode=mode), k)
    return data


def _returned(parts: list[NDArray], axis: int, squeeze_axis: bool):
    parts = [squeeze(p, axis=axis) for p in parts] if squeeze_axis else parts
    return parts if len(parts) > 1 else parts[0]


@composite(
    aliases=("SliceChannel",),
    method=True,
    samples=sample_table(
        lambda a, num_outputs, axis=1, squeeze_axis=False: [
            p.squeeze(axis) if squeeze_axis else p for p in np.split(a, num_outputs, axis)
        ],
        [(2, 4), {"num_outputs": 2}],
        [(3, 2), {"num_outputs": 3, "axis": 0, "squeeze_axis": True}],
        [(2, 3), {"num_outputs": 1, "axis": -1}],
    ),
)
def split(data, num_outputs, axis=1, squeeze_axis=False):
    """The array cut into equal parts along an axis.

    Gradient: those of the parts, joined.

    Returns
    -------
    list of NDArray
        Or one NDArray for one part.

    Raises
    ------
    ShapeError
        If the length is not a multiple of `num_outputs`.
    """
    data = as_array(data, "split")
    k = resolve_axis(axis, data.ndim, "split")
    n = data.shape[k]
    if num_outputs < 1 or n % num_outputs:
        raise ShapeError(f"split: axis {k} of length {n} cannot be cut into {num_outputs} equal parts")
    step = int(n // num_outputs)
    if squeeze_axis and step != 1:
        raise ShapeError(f"split: squeeze_axis needs parts of length 1, got {step}")
    return _returned(pieces(data, sizes=(step,) * num_outputs, axis=k), k, bool(squeeze_axis))


@composite(
    method=True,
    samples=sample_table(
        lambda a, indices_or_sections, axis=0: np.split(a, indices_or_sections, axis),
        [(5, 2), {"indices_or_sections": (1, 3)}],
        [(2, 4), {"indices_or_sections": 2, "axis": -1}],
        [(3,), {"indices_or_sections": (0, 9)}],
    ),
)
def split_v2(ary, indices_or_sections, axis=0, squeeze_axis=False):
    """The array cut along an axis: into that many equal parts, or at the given positions.

    Gradient: those of the parts, joined.

    Returns
    -------
    list of NDArray
        One per part.
    """
    data = as_array(ary, "split_v2", "ary")
    k = resolve_axis(axis, data.ndim, "split_v2")
    if hasattr(indices_or_sections, "__index__"):
        return split(data, indices_or_sections, axis=k, squeeze_axis=squeeze_axis)
    n = data.shape[k]
    bounds = pairwise([0, *(min(int(i), n) for i in indices_or_sections), n])
    return _returned([slice_axis(data, axis=k, begin=a, end=b) for a, b in bounds], k, bool(squeeze_axis))


def _to_space(a: np.ndarray, block_size: int) -> np.ndarray:
    n, c, h, w = a.shape
    b = block_size
    return np.einsum("nijchw->nchiwj", a.reshape(n, b, b, c // b**2, h, w)).reshape(n, c // b**2, h * b, w * b)


def _to_depth(a: np.ndarray, block_size: int) -> np.ndarray:
    n, c, h, w = a.shape
    b = block_size
    return np.einsum("nchiwj->nijchw", a.reshape(n, c, h // b, b, w // b, b)).reshape(n, -1, h // b, w // b)


@composite(
    method=True, samples=sample_table(_to_space, [(1, 8, 1, 2), {"block_size": 2}], [(2, 4, 1, 1), {"block_size": 1}])
)
def depth_to_space(data, block_size):
    """Channels to blocks of pixels: (N, C*b*b, H, W) -> (N, C, H*b, W*b). Gradient: ``space_to_depth`` of g."""
    data, b = as_array(data, "depth_to_space"), int(block_size)
    if data.ndim != 4 or b < 1 or data.shape[1] % (b * b):
        raise ShapeError(f"depth_to_space: shape {data.shape} does not fit (N, C*{b}*{b}, H, W)")
    n, c, h, w = data.shape
    moved = transpose(reshape(data, (n, b, b, c // (b * b), h, w)), axes=(0, 3, 4, 1, 5, 2))
    return reshape(moved, (n, c // (b * b), h * b, w * b))


@composite(
    method=True, samples=sample_table(_to_depth, [(1, 2, 2, 4), {"block_size": 2}], [(2, 1, 4, 2), {"block_size": 2}])
)
def space_to_depth(data, block_size):
    """Blocks of pixels to channels: (N, C, H*b, W*b) -> (N, C*b*b, H, W). Gradient: ``depth_to_space`` of g."""
    data, b = as_array(data, "space_to_depth"), int(block_size)
    if data.ndim != 4 or b < 1 or data.shape[2] % b or data.shape[3] % b:
        raise ShapeError(f"space_to_depth: shape {data.shape} does not fit (N, C, H*{b}, W*{b})")
    n, c, h, w = data.shape
    moved = transpose(reshape(data, (n, c, h // b, b, w // b, b)), axes=(0, 3, 5, 1, 2, 4))
    return reshape(moved, (n, c * b * b, h // b, w // b))


@composite(
    method=True,
    samples=sample_table(
        lambda a, k=0, axis1=0, axis2=1: np.diag(a, k) if a.ndim < 3 else np.diagonal(a, k, axis1, axis2),
        [(3,)],
        [(2,), {"k": -1}],
        [(3, 4)],
        [(3, 4), {"k": 1}],
        [(3, 4), {"k": -2}],
        [(2, 2), {"k": 5}],
        [(2, 3, 2), {"axis1": 0, "axis2": 2}],
        [(2, 3, 2), {"k": 1, "axis1": -1, "axis2": 1}],
    ),
    gradient="g on the same diagonal, 0 elsewhere",
)
def diag(data, k=0, axis1=0, axis2=1):
    """Diagonal `k` of an array (its last axis then), or a matrix with a 1-d array on it."""
    data = as_array(data, "diag")
    if data.ndim == 1:
        n = data.shape[0] + abs(k)
        start = k if k >= 0 else -k * n
        return reshape(embed(data, begin=(start,), step=(n + 1,), shape=(n * n,)), (n, n))
    a, b = resolve_axis(axis1, data.ndim, "diag"), resolve_axis(axis2, data.ndim, "diag")
    if a == b:
        raise ShapeError(f"diag: axis1 and axis2 must differ, got {axis1} and {axis2}")
    rest = tuple(m for m in range(data.ndim) if m not in (a, b))
    moved = transpose(data, axes=(*rest, a, b))
    rows, columns = moved.shape[-2:]
    count = max(0, min(rows, columns - k) if k >= 0 else min(rows + k, columns))
    flat = reshape(moved, (*moved.shape[:-2], rows * columns))
    start = k if k >= 0 else -k * columns
    stop = start + count * (columns + 1)
    part = slice(start, stop if count else start, columns + 1)
    ranges = range(*part.indices(rows * columns))[:count]
    return slices(flat, [slice(None)] * (flat.ndim - 1) + [slice(ranges.start, ranges.stop, columns + 1)])


def _triangle(name: str, side: str, diagonals):
    def infer(data, k=0):
        if data.ndim < 2:
            raise ShapeError(f"{name}: at least two axes are needed, got shape {data.shape}")
        return Spec(data._shape, data._kind.dtype, k=int(k))

    infer.__doc__ = f"The matrix (or each of a stack of them) with zeros except on diagonal `k` and {side} it."
    samples = sample_table(f"numpy.{name}", [(3, 3)], [(2, 4), {"k": 1}], [(2, 3, 2), {"k": -1}], [(0, 2)])
    op = structured(name, anywhere=True, moves_only=True, samples=samples, gradient="g with the same zeros")(infer)

    @op.run
    def _(data, out, *, k):
        band(data._buf, out._buf, data._shape, *diagonals(k))

    op.vjp(data=lambda g, k: op(g, k=k))
    return op


_FAR = 2**31
tril = _triangle("tril", "below", lambda k: (-_FAR, k))
triu = _triangle("triu", "above", lambda k: (k, _FAR))


@composite(
    samples=sample_table(
        lambda *a, indexing="xy": list(np.meshgrid(*a, indexing=indexing)),
        [(2,), (3,)],
        [(2,), (3,), (1,), {"indexing": "ij"}],
    )
)
def meshgrid(*arrays, indexing="xy"):
    """Coordinate arrays of a grid from 1-d arrays, as NumPy's.

    Gradient: sums of g over the other axes.

    Returns
    -------
    list of NDArray
        One per array, all of the shape of the grid.
    """
    arrays = tuple(as_array(a, "meshgrid", f"{k}") for k, a in enumerate(arrays))
    if indexing not in ("xy", "ij") or any(a.ndim > 1 for a in arrays):
        raise AttrError("meshgrid: 1-d arrays and indexing 'xy' or 'ij' are needed")
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[:2] = 1, 0
    placed = []
    for k, a in enumerate(arrays):
        shape = [1] * len(arrays)
        shape[order[k]] = a.size
        placed.append(reshape(a, tuple(shape)))
    target = broadcast_shape([a.shape for a in placed], "meshgrid")
    return [broadcast_to(a, shape=target) for a in placed]


@composite(
    method=True,
    samples=sample_table(lambda a: np.array(a.shape), [(2, 3)], [()], [(0,)], result="int64"),
    differentiable=False,
)
def shape_array(data):
    """The shape as a 1-d int64 array."""
    data = as_array(data, "shape_array")
    return from_value(np.array(data.shape, np.int64), like=data._kind.of(int64))


@composite(
    method=True,
    samples=sample_table(lambda a: np.array([a.size]), [(2, 3)], [()], [(0,)], result="int64"),
    differentiable=False,
)
def size_array(data):
    """The number of elements as an int64 array of shape (1,)."""
    data = as_array(data, "size_array")
    return from_value(np.array([data.size], np.int64), like=data._kind.of(int64))


def _arange(shape, start, step, repeat) -> np.ndarray:
    return (start + step * (np.arange(size(shape)) // repeat)).reshape(shape)


@composite(
    "arange_like",
    method=False,
    samples=sample_table(
        lambda a, start=0.0, step=1.0, repeat=1, axis=None: _arange(
            a.shape if axis is None else (a.shape[axis],), start, step, repeat
        ),
        [(2, 3)],
        [(2, 3), {"axis": -1, "start": 2.0}],
        [(5,), {"step": 0.5, "repeat": 2}],
        [()],
        ints=False,
    ),
    differentiable=False,
)
def arange_like(data, start=0.0, step=1.0, repeat=1, axis=None):
    """start, start + step, ...: as many as `data` has elements (in its shape), or as its length along `axis`."""
    x = as_array(data, "arange_like")
    shape = x.shape if axis is None else (x.shape[resolve_axis(axis, x.ndim, "arange_like")],)
    count = math.ceil(size(shape) / repeat)
    values = np.repeat(start + step * np.arange(count), repeat)[: size(shape)].reshape(shape)
    return from_value(values, like=x._kind, dtype=x._kind.dtype)
