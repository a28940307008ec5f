"""Operators that rearrange elements.

The families. ``reshape`` shares memory and is its own adjoint; ``transpose`` is undone by the inverse
permutation; ``slice`` (any start and step along each axis) and ``embed`` (into zeros) are each other's
adjoint, and ``flip`` is a slice; ``concat`` is undone by slices; ``broadcast_to`` by a sum
(:mod:`.reduce`). Everything else here is composed of these.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import tape
from ..dtypes import promote
from ..entry import Entry, as_array, store_out
from ..errors import AttrError, ShapeError
from ..ndarray import NDArray, alias, from_value
from ..shapes import Shape, as_shape, size
from ..shapes import axis as resolve_axis
from ..state import state
from ..structured import REQUIRED, Spec, composite, structured
from .move import gather, scatter, strides_of
from .reshape_codes import resolve

__all__ = [
    "broadcast_to",
    "concat",
    "embed",
    "expand_dims",
    "flip",
    "reshape",
    "slice_",
    "slice_axis",
    "squeeze",
    "stack",
    "transpose",
]


class _Reshape(tape.Rule):
    """Another shape on the same memory. Its cotangent is the same buffer, too."""

    name = "reshape"

    def grads(self, node, g, useful):
        return [reshape(g, node.attrs)]

    def pull_raw(self, node, g, cotangents, borrowed, useful):
        tape.add_raw(node.parents[0], g, node.kind, cotangents, borrowed)


_RESHAPE = _Reshape()


def reshape(data: NDArray, shape: Shape) -> NDArray:
    """`data` in another shape of the same size, on the same memory; recorded."""
    if size(shape) != data._buf.size:
        raise ShapeError(f"Cannot reshape array of size {data._buf.size} into shape {shape}")
    p = data._node
    out = alias(data, data._buf, shape)
    if p is not None and state.recording:
        out._node = tape.node(_RESHAPE, (p,), (), data._shape, shape, data._kind)
    return out


def _reshape_call(data, *shape, reverse=False, out=None, name=None, **kwargs):
    """The array in another shape, on the same memory.

    Parameters
    ----------
    data : NDArray
    shape : int or tuple of int
        The new shape, or codes: -1 is whatever is left; 0 copies a length; -2 copies all remaining lengths;
        -3 multiplies two lengths; -4 splits a length into the two that follow it.
    reverse : bool
        Match `shape` from the right.

    Returns
    -------
    NDArray

    Raises
    ------
    ShapeError
        If the sizes do not agree.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.arange(6).reshape((2, -1)).shape, nd.zeros((2, 3, 4)).reshape((0, -3)).shape
    ((2, 3), (2, 12))
    """
    data = as_array(data, "reshape")
    if unknown := set(kwargs) - {"shape"}:
        raise TypeError(f"reshape: keyword {unknown.pop()!r} is unknown; its arguments are data, shape, reverse, out, name")
    given = kwargs["shape"] if "shape" in kwargs and not shape else shape
    assert given != (), "reshape: the new shape must be given"
    if len(given) == 1 and not hasattr(given[0], "__index__"):
        given = tuple(given[0])
    codes = tuple(int(n) for n in given)
    return store_out(reshape(data, resolve(data.shape, codes, bool(reverse))), out, "reshape")


_reshape_call.__name__ = _reshape_call.__qualname__ = "reshape"
Entry("reshape", ("Reshape",), _reshape_call, method=True, rule=_RESHAPE, samples=({"kind": "reshape"},))


@composite(method=True, samples=({"kind": "reshape_like"},))
def reshape_like(lhs, rhs):
    """`lhs` in the shape of `rhs`."""
    return reshape(as_array(lhs, "reshape_like", "lhs"), as_array(rhs, "reshape_like", "rhs").shape)


@composite(aliases=("Flatten",), method=True, samples=({"kind": "flatten"},))
def flatten(data):
    """All axes but the first as one: shape (n, ...) becomes (n, product of the rest)."""
    data = as_array(data, "flatten")
    return reshape(data, (data.shape[0] if data.ndim else 1, size(data.shape[1:])))


@composite(method=True, samples=({"kind": "expand_dims"},))
def expand_dims(data, axis):
    """A new axis of length 1 at position `axis` of the result."""
    data = as_array(data, "expand_dims")
    k = resolve_axis(axis, data.ndim + 1, "expand_dims")
    return reshape(data, data.shape[:k] + (1,) + data.shape[k:])


@composite(method=True, samples=({"kind": "squeeze"},))
def squeeze(data, axis=None):
    """The array without the axes of length 1, or those of them that `axis` names."""
    data = as_array(data, "squeeze")
    given = [k for k, n in enumerate(data.shape) if n == 1] if axis is None else axis
    given = given if isinstance(given, list | tuple) else [given]
    axes = [resolve_axis(k, data.ndim, "squeeze") for k in given]
    for k in axes:
        if data.shape[k] != 1:
            raise ShapeError(f"squeeze: axis {k} of shape {data.shape} has length {data.shape[k]}, not 1")
    shape = tuple(n for k, n in enumerate(data.shape) if k not in axes)
    return reshape(data, shape or (() if data.ndim and axis is not None else (1,)))


# Transposition.


@structured(moves_only=True, samples=({"kind": "transpose"},))
def transpose(data, axes=None):
    """The array with its axes permuted; reversed by default.

    Parameters
    ----------
    data : NDArray
    axes : tuple of int, optional
        Axis k of the result is axis ``axes[k]`` of `data`.
    """
    if axes is None or axes == ():
        order = tuple(reversed(range(data.ndim)))
    else:
        order = tuple(resolve_axis(k, data.ndim, "transpose") for k in axes)
        if sorted(order) != list(range(data.ndim)):
            raise ShapeError(f"transpose: axes {axes} is not a permutation of the {data.ndim} axes")
    return Spec(tuple(data._shape[k] for k in order), data._kind.dtype, axes=order)


@transpose.run
def _(data, out, *, axes):
    strides = strides_of(data._shape)
    gather(data._buf, out._buf, out._shape, tuple(strides[k] for k in axes))


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(k) for k in np.argsort(order))


transpose.vjp(data=lambda g, axes: transpose(g, axes=_inverse(axes)))


@composite(aliases=("SwapAxis",), method=True, samples=({"kind": "swapaxes"},))
def swapaxes(data, dim1=0, dim2=0):
    """The array with two axes exchanged."""
    data = as_array(data, "swapaxes")
    order = list(range(data.ndim))
    a, b = resolve_axis(dim1, data.ndim, "swapaxes"), resolve_axis(dim2, data.ndim, "swapaxes")
    order[a], order[b] = order[b], order[a]
    return transpose(data, axes=tuple(order))


@composite(method=True, samples=({"kind": "moveaxis"},))
def moveaxis(tensor, source, destination):
    """The array with axes `source` (int or sequence) moved to positions `destination`."""
    data = as_array(tensor, "moveaxis", "tensor")
    pair = [[v] if hasattr(v, "__index__") else list(v) for v in (source, destination)]
    if len(pair[0]) != len(pair[1]):
        raise ShapeError(f"moveaxis: {len(pair[0])} source and {len(pair[1])} destination axes; the numbers must agree")
    sources, targets = ([resolve_axis(k, data.ndim, "moveaxis") for k in side] for side in pair)
    order = [k for k in range(data.ndim) if k not in sources]
    for target, source_ in sorted(zip(targets, sources, strict=True)):
        order.insert(target, source_)
    return transpose(data, axes=tuple(order))


# Slices.


@structured("_slice", moves_only=True, method=False, samples=({"kind": "slice"},))
def slice_(data, begin=REQUIRED, step=REQUIRED, shape=REQUIRED):
    """Elements begin + i*step along each axis, i below `shape`; arguments already checked."""
    return Spec(shape, data._kind.dtype, begin=begin, step=step, shape=shape)


def _walk(begin, step, shape) -> tuple[tuple[int, ...], int]:
    strides = strides_of(shape)
    return tuple(s * t for s, t in zip(strides, step, strict=True)), sum(b * s for b, s in zip(begin, strides, strict=True))


@slice_.run
def _(data, out, *, begin, step, shape):
    gather(data._buf, out._buf, shape, *_walk(begin, step, data._shape))


@structured("_embed", moves_only=True, method=False, samples=({"kind": "embed"},))
def embed(data, begin=REQUIRED, step=REQUIRED, shape=REQUIRED):
    """Zeros of `shape` with `data` at begin + i*step along each axis; arguments already checked."""
    return Spec(shape, data._kind.dtype, begin=begin, step=step, shape=shape)


@embed.run
def _(data, out, *, begin, step, shape):
    out._buf.fill(0)
    scatter(data._buf, out._buf, data._shape, *_walk(begin, step, shape))


slice_.vjp(data=lambda g, data_shape, begin, step: embed(g, begin=begin, step=step, shape=data_shape))
embed.vjp(data=lambda g, data_shape, begin, step: slice_(g, begin=begin, step=step, shape=data_shape))


def slices(data: NDArray, parts: Sequence[slice]) -> NDArray:
    """``data[parts]`` for one slice per axis."""
    ranges = [range(*part.indices(n)) for part, n in zip(parts, data.shape, strict=True)]
    return slice_(
        data,
        begin=tuple(r.start if len(r) else 0 for r in ranges),
        step=tuple(r.step for r in ranges),
        shape=tuple(map(len, ranges)),
    )


@composite("slice", aliases=("crop",), method=True, samples=({"kind": "slice_op"},))
def slice_op(data, begin, end, step=None):
    """A block of the array: ``data[begin[0]:end[0]:step[0], begin[1]:end[1]:step[1], ...]``.

    Parameters
    ----------
    data : NDArray
    begin, end, step : tuple of (int or None)
        One entry per leading axis; None means the whole range.
    """
    data = as_array(data, "slice")
    begin, end, step = (
        (v,) if v is None or hasattr(v, "__index__") else tuple(v) for v in (begin, end, () if step is None else step)
    )
    if len(begin) != len(end) or len(step) not in (0, len(begin)) or len(begin) > data.ndim:
        raise ShapeError(f"slice: begin {begin}, end {end} and step {step} do not fit shape {data.shape}")
    if any(s == 0 for s in step):
        raise AttrError(f"slice: step must not be 0, got {step}")
    parts = [slice(*p) for p in zip(begin, end, step or (None,) * len(begin), strict=True)]
    return slices(data, parts + [slice(None)] * (data.ndim - len(parts)))


@composite(method=True, samples=({"kind": "slice_axis"},))
def slice_axis(data, axis, begin, end):
    """``data`` from `begin` up to `end` (None: to the end) along one axis."""
    data = as_array(data, "slice_axis")
    parts = [slice(None)] * data.ndim
    parts[resolve_axis(axis, data.ndim, "slice_axis")] = slice(begin, end)
    return slices(data, parts)


@composite(method=True, samples=({"kind": "slice_like"},))
def slice_like(data, shape_like, axes=()):
    """The leading part of `data` as long as `shape_like`, along the given axes (all by default)."""
    data, other = as_array(data, "slice_like"), as_array(shape_like, "slice_like", "shape_like")
    given = axes if isinstance(axes, list | tuple) else (axes,)
    chosen = [resolve_axis(k, data.ndim, "slice_like") for k in given] or range(min(data.ndim, other.ndim))
    parts = [slice(None)] * data.ndim
    for k in chosen:
        if k >= other.ndim or other.shape[k] > data.shape[k]:
            raise ShapeError(f"slice_like: axis {k} of shape {data.shape} cannot be cut as in shape {other.shape}")
        parts[k] = slice(0, other.shape[k])
    return slices(data, parts)


@composite(aliases=("reverse",), method=True, samples=({"kind": "flip"},))
def flip(data, axis):
    """The array in reverse order along an axis, or several."""
    data = as_array(data, "flip")
    axes = [resolve_axis(k, data.ndim, "flip") for k in (axis if isinstance(axis, list | tuple) else [axis])]
    return slices(data, [slice(None, None, -1 if k in axes else 1) for k in range(data.ndim)])


# Broadcasting.


@structured("_broadcast_to", moves_only=True, method=False, samples=({"kind": "broadcast"},))
def broadcast_to(data, shape=REQUIRED):
    """The array repeated along axes of length 1 (and new leading axes) to `shape`."""
    extra = len(shape) - data.ndim
    if extra < 0 or any(n not in (1, shape[k]) for k, n in enumerate(data._shape, extra)):
        raise ShapeError(f"broadcast_to: shape {data._shape} cannot be broadcast to {shape}")
    return Spec(shape, data._kind.dtype, shape=shape)


@broadcast_to.run
def _(data, out, *, shape):
    extra = len(shape) - data.ndim
    strides = strides_of(data._shape)
    walk = tuple(0 if k < extra or data._shape[k - extra] == 1 else strides[k - extra] for k in range(len(shape)))
    gather(data._buf, out._buf, shape, walk)


@composite("broadcast_to", method=True, samples=({"kind": "broadcast_to"},))
def broadcast_to_op(data, shape):
    """The array repeated along axes of length 1 (and new leading axes) to `shape`; 0 keeps a length.

    Raises
    ------
    ShapeError
        If another length would have to change.
    """
    data, target = as_array(data, "broadcast_to"), as_shape(shape, "broadcast_to: shape")
    extra = len(target) - data.ndim
    target = tuple(data.shape[k - extra] if n == 0 and k >= extra else n for k, n in enumerate(target))
    return broadcast_to(data, shape=target)


@composite(aliases=("broadcast_axes",), method=True, samples=({"kind": "broadcast_axis"},))
def broadcast_axis(data, axis=(), size=()):
    """The array repeated along the given axes, of length 1, to the given lengths."""
    data = as_array(data, "broadcast_axis")
    axes, sizes = ((v,) if hasattr(v, "__index__") else tuple(v) for v in (axis, size))
    if len(axes) != len(sizes):
        raise ShapeError(f"broadcast_axis: {len(axes)} axes and {len(sizes)} sizes given; the numbers must agree")
    shape = list(data.shape)
    for k, n in zip(axes, sizes, strict=True):
        at = resolve_axis(k, data.ndim, "broadcast_axis")
        if shape[at] != 1:
            raise ShapeError(f"broadcast_axis: axis {k} has length {shape[at]}, not 1")
        shape[at] = n
    return broadcast_to(data, shape=tuple(shape))


@composite(method=True, samples=({"kind": "broadcast_like"},))
def broadcast_like(lhs, rhs, lhs_axes=None, rhs_axes=None):
    """`lhs` repeated to the shape of `rhs`, or to its lengths along `rhs_axes`."""
    lhs, rhs = as_array(lhs, "broadcast_like", "lhs"), as_array(rhs, "broadcast_like", "rhs")
    if lhs_axes is None and rhs_axes is None:
        return broadcast_to(lhs, shape=rhs.shape)
    return broadcast_axis(lhs, axis=lhs_axes, size=tuple(rhs.shape[k] for k in rhs_axes))


# Joining.


@structured(aliases=("Concat", "concatenate"), moves_only=True, method=False, samples=({"kind": "concat"},))
def concat(*data, dim=None, axis=None):
    """Arrays joined along an axis.

    Parameters
    ----------
    *data : NDArray
        Equal shapes but for that axis; or one list of them.
    dim, axis : int
        Two names of the same argument; default 1 (0 for ``concatenate``'s users: pass ``axis=0``).

    Raises
    ------
    ShapeError
        If other lengths differ.
    """
    if not data:
        raise ShapeError("concat: at least one array is needed")
    k = resolve_axis(next((v for v in (dim, axis) if v is not None), 1), data[0].ndim, "concat")
    first = data[0]
    for n, x in enumerate(data):
        if x.ndim != first.ndim or x._shape[:k] + x._shape[k + 1 :] != first._shape[:k] + first._shape[k + 1 :]:
            raise ShapeError(f"concat: array {n} has shape {x._shape}, the first {first._shape}; only axis {k} may differ")
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


@composite(samples=({"kind": "stack"},))
def stack(*data, axis=0):
    """Arrays of one shape joined along a new axis."""
    data = tuple(data[0]) if len(data) == 1 and isinstance(data[0], list | tuple) else data
    if not data:
        raise ShapeError("stack: at least one array is needed")
    for k, x in enumerate(data):
        if as_array(x, "stack", f"{k}").shape != data[0].shape:
            raise ShapeError(f"stack: array {k} has shape {x.shape}, the first {data[0].shape}; they must be equal")
    k = resolve_axis(axis, data[0].ndim + 1, "stack")
    return concat(*[expand_dims(x, axis=k) for x in data], dim=k)
