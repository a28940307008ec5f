"""Broadcasting as an operator: repeating along axes. Its derivative is a sum (declared in :mod:`.reduce`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from ..arrays import templates
from ..arrays.launch import Kind
from ..autodiff.cotangents import uniform_buffer
from ..backends import threads
from ..backends.buffer_pool import LARGE
from ..core.dtypes import DType
from ..core.shapes import Broadcast, Shape, as_shape, broadcast, size
from ..errors import ShapeError
from ..ir.expr import var
from ..operators.entry import as_array
from ..operators.samples import sample_table
from ..operators.structured import REQUIRED, Spec, composite, structured

__all__ = ["broadcast_to", "spreading"]


@structured(
    "_broadcast_to",
    moves_only=True,
    method=False,
    samples=sample_table(
        np.broadcast_to, [(2, 1), {"shape": (2, 3)}], [(3,), {"shape": (2, 2, 3)}], [(), {"shape": (2,)}]
    ),
)
def broadcast_to(data, shape=REQUIRED):
    """The array repeated along axes of length 1 (and new leading axes) to `shape`."""
    extra = len(shape) - data.ndim
    if extra < 0 or any(n not in (1, shape[k]) for k, n in enumerate(data._shape, extra)):
        raise ShapeError(f"broadcast_to: shape {data._shape} cannot be broadcast to {shape}")
    return Spec(shape, data._kind.dtype, shape=shape)


@cache
def _spread(dtype: DType, rank: int, move: bool, mode: str) -> Callable:
    """The copying loop of this rank; `move`: along the last axis too."""
    inputs = [templates.Input("x", dtype, templates.STEP if move else templates.HOLD)]
    kernel = templates.elementwise(f"spread_{dtype}", inputs, [], [templates.Output(var("x"), dtype, mode)], rank)
    return kernel.bind(dtype.storage, dtype.storage, *[int] * (2 * rank - 1 if rank > 1 else 0))


def _walk_of(dtype: DType, before: Shape, shape: Shape, mode: str) -> tuple[Callable, Broadcast]:
    """The loop that spreads `before` over `shape`, and how it walks."""
    walk = broadcast((before, shape), "broadcast_to").for_operands(1)
    return _spread(dtype, walk.rank, walk.moves[0], mode), walk


@broadcast_to.bind
def _(operands, results, *, shape):
    ((before, kind),) = operands
    entry, walk = _walk_of(kind.dtype, before, shape, templates.WRITE)
    return lambda data, out: threads.run_broadcast(entry, [data._buf], [out._buf], (), walk)


def spreading(kind: Kind, before: Shape, shape: Shape) -> Callable:
    """``pull(g, old)`` that spreads `g` of shape `before` over `shape`, added to `old` if there is one.

    What comes from one element is uniform.
    """
    write, walk = _walk_of(kind.dtype, before, shape, templates.WRITE)
    n = size(shape)

    def pull(g, old):
        if old is None:
            if n < LARGE:
                old = kind.small(n, kind.storage)
                write(g, old, *walk.arguments)
                return old
            if g.size == 1:
                return uniform_buffer(g, n)
            old = kind.empty(n, kind.storage)
            threads.run_broadcast(write, [g], [old], (), walk)
        else:
            add, _ = _walk_of(kind.dtype, before, shape, templates.ADD)
            threads.run_broadcast(add, [g], [old], (), walk)
        return old

    return pull


@composite(
    "broadcast_to",
    method=True,
    samples=sample_table(
        lambda a, shape: np.broadcast_to(a, shape if 0 not in shape else (2, 3)),
        [(2, 1), {"shape": (2, 3)}],
        [(1, 2, 1), {"shape": (2, 2, 2)}],
        [(), {"shape": (2, 2)}],
        [(2, 1), {"shape": (0, 3)}],
    ),
    gradient="sums of g over the axes that were repeated",
)
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
