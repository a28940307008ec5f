"""Shape arithmetic: broadcasting, axes, and the collapsing of axes for generated loops."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..errors import ShapeError

__all__ = [
    "Broadcast",
    "as_shape",
    "axes",
    "axis",
    "broadcast",
    "broadcast_shape",
    "distinct_axes",
    "size",
    "strides_of",
]

Shape = tuple[int, ...]


def size(shape: Sequence[int]) -> int:
    """The number of elements."""
    n = 1
    for length in shape:
        n *= length
    return n


@lru_cache(4096)
def strides_of(shape: Shape) -> tuple[int, ...]:
    """Strides, in elements, of a contiguous array."""
    strides = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        strides[k] = strides[k + 1] * shape[k + 1]
    return tuple(strides)


def as_shape(given, what: str = "shape") -> Shape:
    """A shape from an int or a sequence of ints, all >= 0."""
    try:
        sequence = (
            hasattr(given, "__len__") and getattr(given, "shape", None) != ()
        )  # arrays of one element have __index__, too
        shape = tuple(n.__index__() for n in given) if sequence else (given.__index__(),)
    except (TypeError, AttributeError):
        raise ShapeError(f"{what}: an integer or a tuple of integers is needed, got {given!r}") from None
    if any(n < 0 for n in shape):
        raise ShapeError(f"{what}: lengths must be >= 0, got {shape}")
    return shape


def axis(given, ndim: int, op: str) -> int:
    """`given` as an axis number from 0 to ``ndim - 1``; negative numbers count from the end."""
    try:
        k = operator.index(given)
    except TypeError:
        k = None
    if k is None or isinstance(given, bool | np.bool_):
        raise ShapeError(f"{op}: axis must be an integer, got {given!r}")
    if not -ndim <= k < ndim:
        raise ShapeError(f"{op}: axis {k} is out of range for an array with {ndim} dimension(s)")
    return k % ndim


def distinct_axes(given, ndim: int, op: str) -> list[int]:
    """Axis numbers from an int or a sequence, in order, without repetition."""
    several = isinstance(given, tuple | list | range) or (isinstance(given, np.ndarray) and given.ndim == 1)
    numbers = [axis(k, ndim, op) for k in given] if several else [axis(given, ndim, op)]
    if len(set(numbers)) != len(numbers):
        raise ShapeError(f"{op}: axis {given!r} names one of {ndim} axes twice")
    return numbers


def axes(given, ndim: int, op: str, exclude: bool = False) -> tuple[int, ...]:
    """Sorted axis numbers from ``None`` or ``()`` (all), an int, or a sequence; or all the others with `exclude`."""
    if given is None or (isinstance(given, tuple | list) and len(given) == 0):
        return tuple(range(ndim))
    named = distinct_axes(given, ndim, op)
    return tuple(k for k in range(ndim) if (k in named) != exclude)


def broadcast_shape(shapes: Sequence[Shape], op: str) -> Shape:
    """The broadcast shape, by NumPy's rule: aligned at the right, lengths equal or 1."""
    ndim = max(map(len, shapes))
    out = [1] * ndim
    for shape in shapes:
        for k, n in enumerate(shape, ndim - len(shape)):
            if n != 1:
                if out[k] not in (1, n):
                    listed = " ".join(str(list(s)).replace(" ", "") for s in shapes)
                    raise ShapeError(f"{op}: operands could not be broadcast together with shapes {listed}")
                out[k] = n
    return tuple(out)


def kept(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """The shape after reducing along axes, which stay with length 1."""
    return tuple([1 if k in axes else n for k, n in enumerate(shape)])


class Broadcast(NamedTuple):
    """The traversal of operands of `shapes` when the output of shape `out` is traversed in order.

    Axes are collapsed to `rank` ones. `moves[k]` says whether operand k advances along the last of them (by one
    element) or is invariant; `arguments` are the lengths of the collapsed axes, then each operand's strides along
    all but the last: the arguments of a kernel of that rank. Rank 1 needs none.
    """

    shapes: tuple[Shape, ...]
    out: Shape
    size: int
    rank: int
    moves: tuple[bool, ...]
    arguments: tuple[int, ...]

    def for_operands(self, count: int) -> Broadcast:
        """The same traversal for the first `count` operands only."""
        leading = self.arguments[: self.rank + count * (self.rank - 1)]
        return self._replace(shapes=self.shapes[:count], moves=self.moves[:count], arguments=leading)


_known: dict[tuple, Broadcast] = {}


def broadcast(shapes: tuple[Shape, ...], op: str) -> Broadcast:
    """The :class:`Broadcast` of operands with these shapes.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast together; names `op`.
    """
    plan = _known.get(shapes)
    if plan is None:
        plan = _broadcast(shapes, op)
        if len(_known) > 4096:
            _known.clear()
        _known[shapes] = plan
    return plan


def _broadcast(shapes: tuple[Shape, ...], op: str) -> Broadcast:
    out = broadcast_shape(shapes, op)
    ndim = len(out)
    padded = [(1,) * (ndim - len(s)) + s for s in shapes]
    # An axis along which the same operands advance as along the previous one is merged with it.
    sizes: list[int] = []
    patterns: list[tuple[bool, ...]] = []
    for k, n in enumerate(out):
        if n == 1:
            continue
        pattern = tuple(s[k] != 1 for s in padded)
        if patterns and patterns[-1] == pattern:
            sizes[-1] *= n
        else:
            sizes.append(n)
            patterns.append(pattern)
    if not sizes:
        sizes, patterns = [1], [(True,) * len(shapes)]
    moves = patterns[-1]
    arguments = list(sizes)
    for operand in range(len(shapes)):
        stride, strides = 1, []
        for n, pattern in zip(reversed(sizes), reversed(patterns), strict=True):
            strides.append(stride if pattern[operand] else 0)
            stride *= n if pattern[operand] else 1
        arguments += reversed(strides[1:])
    rank = len(sizes)
    return Broadcast(shapes, out, size(out), rank, moves, tuple(arguments) if rank > 1 else ())
