"""Slices, and blocks in zeros.

The family. ``slice`` (any start and step along each axis) and ``embed`` (into zeros) are each other's adjoint, and
``flip`` is a slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..arrays.launch import Kind
from ..arrays.ndarray import NDArray
from ..core.shapes import Shape, distinct_axes, size, strides_of
from ..core.shapes import axis as resolve_axis
from ..errors import AttrError, ShapeError
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import REQUIRED, Spec, composite, structured
from .move import bound_gather, bound_scatter, bound_surround
from .shape import fixed

__all__ = ["block_of", "block_slices", "embed", "flip", "slice_", "slice_axis", "slices"]


def _embedded(a: np.ndarray, begin, step, shape) -> np.ndarray:
    out = np.zeros(shape, a.dtype)
    at = [b + s * np.arange(n) for b, s, n in zip(begin, step, a.shape, strict=True)]
    out[np.ix_(*at)] = a
    return out


@structured(
    "_slice",
    moves_only=True,
    method=False,
    samples=sample_table(
        lambda a, begin, step, shape: a[
            tuple(
                slice(b, b + s * n if b + s * n >= 0 else None, s) for b, s, n in zip(begin, step, shape, strict=True)
            )
        ],
        [(4, 5), {"begin": (1, 4), "step": (1, -2), "shape": (2, 3)}],
        [(4,), {"begin": (0,), "step": (3,), "shape": (2,)}],
    ),
)
def slice_(data, begin=REQUIRED, step=REQUIRED, shape=REQUIRED):
    """Elements begin + i*step along each axis, i below `shape`; arguments already checked."""
    return Spec(shape, data._kind.dtype, begin=begin, step=step, shape=shape)


def _walk(begin, step, shape) -> tuple[tuple[int, ...], int]:
    strides = strides_of(shape)
    return tuple(s * t for s, t in zip(strides, step, strict=True)), sum(
        b * s for b, s in zip(begin, strides, strict=True)
    )


@slice_.bind
def _(operands, results, *, begin, step, shape):
    read = bound_gather(shape, *_walk(begin, step, operands[0][0]))
    return lambda data, out: read(data._buf, out._buf)


@structured(
    "_embed",
    moves_only=True,
    method=False,
    samples=sample_table(
        _embedded,
        [(2, 3), {"begin": (1, 4), "step": (1, -2), "shape": (4, 5)}],
        [(2,), {"begin": (0,), "step": (3,), "shape": (4,)}],
    ),
)
def embed(data, begin=REQUIRED, step=REQUIRED, shape=REQUIRED):
    """Zeros of `shape` with `data` at begin + i*step along each axis; arguments already checked."""
    return Spec(shape, data._kind.dtype, begin=begin, step=step, shape=shape)


def _embedding(small: Shape, kind: Kind, begin, step, shape) -> Callable:
    """A function (buf, out) that writes a block, and zeros around it."""
    zero = kind.zeros(1)
    if all(s == 1 for s in step):
        write = bound_surround(small, shape, begin)
        return lambda buf, out: write(buf, out, zero)
    scatter = bound_scatter(small, *_walk(begin, step, shape))

    def run(buf, out):
        out.fill(0)
        scatter(buf, out)

    return run


@embed.bind
def _(operands, results, *, begin, step, shape):
    small, kind = operands[0]
    write = _embedding(small, kind, begin, step, shape)
    return lambda data, out: write(data._buf, out._buf)


slice_.vjp(data=lambda g, data_shape, begin, step: embed(g, begin=begin, step=step, shape=data_shape))


@slice_.raw
def _(operands, results, *, begin, step, shape):
    ((whole, kind),) = operands
    if not kind.dtype.is_float or kind.dtype.name == "float16":
        return None
    n, write = size(whole), _embedding(shape, kind, begin, step, whole)
    add = bound_scatter(shape, *_walk(begin, step, whole), add=True)

    def pull(g, old):
        if old is None:
            old = kind.empty(n, kind.storage)
            write(g, old)
        else:
            add(g, old)
        return old

    return (pull,)


embed.vjp(data=lambda g, data_shape, begin, step: slice_(g, begin=begin, step=step, shape=data_shape))


@slice_.lower
def _(graph, x, *, begin, step, shape):
    return graph.add_view(x, tuple([(k, s, b) for k, (b, s) in enumerate(zip(begin, step, strict=True))]), shape)


@embed.lower
def _(graph, x, *, begin, step, shape):
    return graph.embed(x, begin, step, shape)


def slices(data: NDArray, parts: Sequence[slice]) -> NDArray:
    """``data[parts]`` for one slice per axis."""
    return slice_(data, **block_of(data.shape, parts))


def block_of(shape: Shape, parts: Sequence[slice]) -> dict[str, tuple[int, ...]]:
    """Where the block that these slices, one per axis, select begins, its steps and its shape."""
    ranges = [range(*part.indices(n)) for part, n in zip(parts, shape, strict=True)]
    return {
        "begin": tuple(r.start if len(r) else 0 for r in ranges),
        "step": tuple(r.step for r in ranges),
        "shape": tuple(map(len, ranges)),
    }


def block_slices(shape: Shape, begin, end, step, op: str) -> list[slice]:
    """One slice per axis of `shape`, from ``begin``, ``end`` and ``step`` as users give them."""
    begin, end, step = (
        (v,) if v is None or hasattr(v, "__index__") else tuple(v) for v in (begin, end, () if step is None else step)
    )
    if len(begin) != len(end) or len(step) not in (0, len(begin)) or len(begin) > len(shape):
        raise ShapeError(f"{op}: begin {begin}, end {end} and step {step} do not fit shape {shape}")
    if any(s == 0 for s in step):
        raise AttrError(f"{op}: step must not be 0, got {step}")
    parts = [slice(*p) for p in zip(begin, end, step or (None,) * len(begin), strict=True)]
    return parts + [slice(None)] * (len(shape) - len(parts))


@composite(
    "slice",
    aliases=("crop",),
    method=True,
    samples=sample_table(
        lambda a, begin, end, step=(): a[
            tuple(slice(*s) for s in zip(begin, end, *([step] if step else []), strict=True))
        ],
        [(4, 3), {"begin": (1, 0), "end": (3, 2)}],
        [(4, 3), {"begin": (None,), "end": (None,), "step": (-2,)}],
        [(5,), {"begin": (-3,), "end": (9,)}],
        [(5,), {"begin": (3,), "end": (3,)}],
    ),
    gradient="g in its place, 0 elsewhere",
)
def slice_op(data, begin, end, step=None):
    """A block of the array: ``data[begin[0]:end[0]:step[0], begin[1]:end[1]:step[1], ...]``.

    Parameters
    ----------
    data : NDArray
    begin, end, step : tuple of (int or None)
        One entry per leading axis; None means the whole range.
    """
    data = as_array(data, "slice")
    return slices(data, block_slices(data.shape, begin, end, step, "slice"))


@composite(
    method=True,
    samples=sample_table(
        lambda a, axis, begin, end: np.moveaxis(np.moveaxis(a, axis, 0)[begin:end], 0, axis),
        [(2, 4), {"axis": 1, "begin": 1, "end": 3}],
        [(2, 4), {"axis": -1, "begin": -2, "end": None}],
        [(4, 2), {"axis": 0, "begin": 0, "end": 0}],
    ),
)
def slice_axis(data, axis, begin, end):
    """``data`` from `begin` up to `end` (None: to the end) along one axis. Gradient: g in its place, 0 elsewhere."""
    data = as_array(data, "slice_axis")
    parts = [slice(None)] * data.ndim
    parts[resolve_axis(axis, data.ndim, "slice_axis")] = slice(begin, end)
    return slices(data, parts)


@composite(
    method=True,
    samples=sample_table(
        lambda a, b, axes=(): a[
            tuple(slice(b.shape[k]) if k in axes or not axes else slice(None) for k in range(a.ndim))
        ],
        [(3, 4), fixed(2, 2)],
        [(3, 4), fixed(2, 2), {"axes": (1,)}],
    ),
    gradient="g in its place, 0 elsewhere",
)
def slice_like(data, shape_like, axes=()):
    """The leading part of `data` as long as `shape_like`, along the given axes (all by default)."""
    data, other = as_array(data, "slice_like"), as_array(shape_like, "slice_like", "shape_like")
    chosen = distinct_axes(axes, data.ndim, "slice_like") or range(min(data.ndim, other.ndim))
    parts = [slice(None)] * data.ndim
    for k in chosen:
        if k >= other.ndim or other.shape[k] > data.shape[k]:
            raise ShapeError(f"slice_like: axis {k} of shape {data.shape} cannot be cut as in shape {other.shape}")
        parts[k] = slice(0, other.shape[k])
    return slices(data, parts)


@composite(
    aliases=("reverse",),
    method=True,
    samples=sample_table(
        np.flip, [(2, 3), {"axis": 0}], [(2, 3), {"axis": -1}], [(2, 3), {"axis": (0, 1)}], [(0,), {"axis": 0}]
    ),
)
def flip(data, axis):
    """The array in reverse order along an axis, or several. Shape of `data`. Gradient: g in reverse order."""
    data = as_array(data, "flip")
    axes = distinct_axes(axis, data.ndim, "flip")
    return slices(data, [slice(None, None, -1 if k in axes else 1) for k in range(data.ndim)])
