"""Operators that rearrange elements.

The families. ``reshape`` shares memory and is its own adjoint; ``transpose`` is undone by the inverse
permutation. Everything else here is composed of these.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays.ndarray import NDArray
from ..arrays.sharing import alias
from ..autodiff import tape, tracing
from ..autodiff.observers import observers
from ..autodiff.state import recording
from ..core.shapes import Shape, distinct_axes, size, strides_of
from ..core.shapes import axis as resolve_axis
from ..errors import ShapeError
from ..operators.entry import Entry, as_array, store_out
from ..operators.samples import Input, sample_table
from ..operators.structured import Spec, composite, structured
from .move import bound_gather
from .reshape_codes import resolve

__all__ = ["expand_dims", "fixed", "reshape", "squeeze", "transpose"]


def fixed(*shape: int) -> Input:
    """For tests: an operand of which only the shape matters."""
    return Input(shape, dtype="float32")


class _Reshape(tape.SameMemory):
    """Another shape."""

    name = "reshape"

    def grads(self, node, g, useful):
        return [reshape(g, node.attrs)]


_RESHAPE = _Reshape()


def reshape(data: NDArray, shape: Shape) -> NDArray:
    """`data` in another shape of the same size, on the same memory; recorded."""
    if size(shape) != data._buf.size:
        raise ShapeError(f"Cannot reshape array of size {data._buf.size} into shape {shape}")
    if observers and tracing.current.graph is not None:
        data = tracing.capture_outside([data])[0]
    p = data._node
    out = alias(data, data._buf, shape)
    if p is not None and recording():
        out._node = tape.node(_RESHAPE, (p,), (), data._shape, shape, data._kind)
    return out


def _reshape_call(data, *shape, reverse=False, target_shape=None, keep_highest=False, out=None, name=None, **kwargs):
    """The array in another shape, on the same memory.

    Parameters
    ----------
    data : NDArray
    shape : int or tuple of int
        The new shape, or codes: -1 is whatever is left; 0 copies a length; -2 copies all remaining lengths;
        -3 multiplies two lengths; -4 splits a length into the two that follow it.
    reverse : bool
        Match `shape` from the right.
    target_shape : tuple of int
        The older way to say it, read where `shape` is not given: one 0 is whatever is left.
    keep_highest : bool
        With `target_shape`: its first length is that of `data`, whatever is given.

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
        raise TypeError(
            f"reshape: keyword {unknown.pop()!r} is unknown; its arguments are data, shape, reverse, target_shape, "
            "keep_highest, out, name"
        )
    if "shape" in kwargs:
        if shape:
            raise TypeError("reshape: the new shape is given twice")
        shape = (kwargs["shape"],)
    if not shape and target_shape is not None:
        rest = [n or -1 for n in target_shape]
        shape = ([*data.shape[:1], *rest[1:]] if keep_highest else rest,)
    if shape == ():
        raise AssertionError("reshape: the new shape must be given")
    given = shape[0] if len(shape) == 1 else shape
    try:
        codes = tuple(n.__index__() for n in (given if hasattr(given, "__len__") else (given,)))
    except (AttributeError, TypeError):
        raise ShapeError(f"reshape: the new shape must be integers, got {given!r}") from None
    return store_out(reshape(data, resolve(data.shape, codes, bool(reverse))), out, "reshape")


_reshape_call.__name__ = _reshape_call.__qualname__ = "reshape"
_RESHAPED = {(3, -1): (3, 2), (0, -3): (2, 12), (-4, 4, -1, 0): (4, 2, 3), (-1, 0): (6, 4), (): (), (-2,): (0, 2)}
Entry(
    "reshape",
    ("Reshape",),
    _reshape_call,
    method=True,
    gradient="g in the shape of `data`",
    rule=_RESHAPE,
    samples=sample_table(
        lambda a, shape, reverse=False: a.reshape(_RESHAPED[shape]),
        [(2, 3), {"shape": (3, -1)}],
        [(2, 3, 4), {"shape": (0, -3)}],
        [(8, 3), {"shape": (-4, 4, -1, 0)}],
        [(2, 3, 4), {"shape": (-1, 0), "reverse": True}],
        [(1, 1), {"shape": ()}],
        [(0, 2), {"shape": (-2,)}],
    ),
)


@composite(
    method=True,
    samples=sample_table(lambda a, b: a.reshape(b.shape), [(2, 3), fixed(3, 2)], [(1, 1), fixed()], [(0, 2), fixed(0)]),
    gradient="g in the shape of `lhs`",
)
def reshape_like(lhs, rhs, lhs_begin=None, lhs_end=None, rhs_begin=None, rhs_end=None):
    """`lhs` in the shape of `rhs`; with begins and ends, only these axes of `lhs` in the lengths of those of `rhs`."""
    lhs, rhs = as_array(lhs, "reshape_like", "lhs"), as_array(rhs, "reshape_like", "rhs")
    inner = rhs.shape[slice(rhs_begin, rhs_end)]
    first, last, _ = slice(lhs_begin, lhs_end).indices(lhs.ndim)
    return reshape(lhs, lhs.shape[:first] + inner + lhs.shape[last:])


@composite(
    aliases=("Flatten",),
    method=True,
    samples=sample_table(lambda a: a.reshape(len(a), -1), [(2, 3, 2)], [(3,)], [(2, 1, 1, 2)]),
    gradient="g in the shape of `data`",
)
def flatten(data, inplace=False):
    """All axes but the first as one: shape (n, ...) becomes (n, product of the rest); `inplace` changes nothing."""
    data = as_array(data, "flatten")
    return reshape(data, (data.shape[0] if data.ndim else 1, size(data.shape[1:])))


@composite(
    method=True,
    samples=sample_table(
        np.expand_dims, [(2, 3), {"axis": 1}], [(2, 3), {"axis": -1}], [(), {"axis": 0}], [(0,), {"axis": 0}]
    ),
    gradient="g in the shape of `data`",
)
def expand_dims(data, axis, inplace=False):
    """A new axis of length 1 at position `axis` of the result, on the same memory whether `inplace` or not."""
    data = as_array(data, "expand_dims")
    k = resolve_axis(axis, data.ndim + 1, "expand_dims")
    return reshape(data, data.shape[:k] + (1,) + data.shape[k:])


@composite(
    method=True,
    samples=sample_table(
        np.squeeze, [(2, 1, 3, 1)], [(2, 1, 3, 1), {"axis": 1}], [(1, 2, 1), {"axis": (0, -1)}], [(1, 0)]
    )
    + sample_table(lambda a: a.reshape(1), [(1, 1)]),
    gradient="g in the shape of `data`",
)
def squeeze(data, axis=None, inplace=False):
    """The array without the axes of length 1, or those of them that `axis` names, on the same memory."""
    data = as_array(data, "squeeze")
    given = [k for k, n in enumerate(data.shape) if n == 1] if axis is None else axis
    axes = distinct_axes(given, data.ndim, "squeeze")
    for k in axes:
        if data.shape[k] != 1:
            raise ShapeError(f"squeeze: axis {k} of shape {data.shape} has length {data.shape[k]}, not 1")
    shape = tuple(n for k, n in enumerate(data.shape) if k not in axes)
    return reshape(data, shape or (() if data.ndim and axis is not None else (1,)))


# Transposition.


@structured(
    moves_only=True,
    samples=sample_table(
        np.transpose, [(2, 3)], [(2, 3, 4), {"axes": (1, 2, 0)}], [(3, 2), {"axes": (0, -1)}], [()], [(0, 3)]
    ),
)
def transpose(data, axes=None):
    """The array with its axes permuted; reversed by default. Gradient: g with its axes permuted back.

    Parameters
    ----------
    data : NDArray
    axes : tuple of int, optional
        Axis k of the result is axis ``axes[k]`` of `data`.
    """
    if axes is None or (isinstance(axes, tuple | list) and not axes):
        order = tuple(reversed(range(data.ndim)))
    else:
        order = tuple(distinct_axes(axes, data.ndim, "transpose"))
        if len(order) != data.ndim:
            raise ShapeError(f"transpose: axes {axes} is not a permutation of the {data.ndim} axes")
    return Spec(tuple(data._shape[k] for k in order), data._kind.dtype, axes=order)


@transpose.bind
def _(operands, results, *, axes):
    strides = strides_of(operands[0][0])
    read = bound_gather(results[0][0], tuple([strides[k] for k in axes]))
    return lambda data, out: read(data._buf, out._buf)


@transpose.lower
def _(graph, x, *, axes):
    return graph.add_view(x, tuple([(k, 1, 0) for k in _inverse(axes)]), tuple([x.shape[k] for k in axes]))


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(k) for k in np.argsort(order))


transpose.vjp(data=lambda g, axes: transpose(g, axes=_inverse(axes)))


@composite(
    aliases=("SwapAxis",),
    method=True,
    samples=sample_table(
        lambda a, dim1=0, dim2=0: np.swapaxes(a, dim1, dim2),
        [(2, 3, 2), {"dim1": 0, "dim2": 2}],
        [(2, 3), {"dim1": -1, "dim2": 0}],
        [(2, 3)],
    ),
)
def swapaxes(data, dim1=0, dim2=0):
    """The array with two axes exchanged. Gradient: g with the axes exchanged back."""
    data = as_array(data, "swapaxes")
    order = list(range(data.ndim))
    a, b = resolve_axis(dim1, data.ndim, "swapaxes"), resolve_axis(dim2, data.ndim, "swapaxes")
    order[a], order[b] = order[b], order[a]
    return transpose(data, axes=tuple(order))


@composite(
    method=True,
    samples=sample_table(
        np.moveaxis,
        [(2, 3, 2), {"source": 0, "destination": 2}],
        [(2, 3, 1), {"source": (0, 1), "destination": (-1, 0)}],
    ),
    gradient="g with the axes moved back",
)
def moveaxis(tensor, source, destination):
    """The array with axes `source` (int or sequence) moved to positions `destination`."""
    data = as_array(tensor, "moveaxis", "tensor")
    pair = [[v] if hasattr(v, "__index__") else list(v) for v in (source, destination)]
    if len(pair[0]) != len(pair[1]):
        raise ShapeError(f"moveaxis: {len(pair[0])} source and {len(pair[1])} destination axes; the numbers must agree")
    sources, targets = ([resolve_axis(k, data.ndim, "moveaxis") for k in side] for side in pair)
    for what, side in (("source", sources), ("destination", targets)):
        if len(set(side)) < len(side):
            raise ShapeError(f"moveaxis: {what} {pair[what == 'destination']!r} names an axis twice")
    order = [k for k in range(data.ndim) if k not in sources]
    for target, source_ in sorted(zip(targets, sources, strict=True)):
        order.insert(target, source_)
    return transpose(data, axes=tuple(order))
