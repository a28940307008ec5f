"""Raw cotangents: how they accumulate and are passed on.

The cotangent of a node or leaf is a flat buffer. A *borrowed* one may be shared with another node or belong to the
caller: it must not be written. A *uniform* one has the same value everywhere, like that of the operand of a sum, and
stores it once: a buffer with stride 0. It must not be passed to a kernel as it is. It is always borrowed, and only
nodes whose rule supports it get one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays.launch import Kind, copy

__all__ = ["add_raw", "add_uniform", "dense_copy", "is_uniform", "own_cotangent", "pass_on_cotangent", "uniform_buffer"]


def is_uniform(g) -> bool:
    """Whether a raw cotangent is uniform. Empty buffers may have any stride, and have no value."""
    return g.strides == (0,) and g.size > 0


def uniform_buffer(number, n: int):
    """The uniform buffer of `n` elements that all alias the single element of `number`."""
    return np.ndarray((n,), number.dtype, number, strides=(0,))


def dense_copy(g, kind: Kind):
    """A copy that is not uniform."""
    buf = kind.empty(g.size, kind.storage)
    copy(g, buf)
    return buf


def add_uniform(p, g, kind: Kind, cotangents: dict, borrowed: set) -> None:
    """Add a uniform buffer to the cotangent of `p`."""
    old = cotangents.get(p)
    if old is not None:
        kind.accumulate(dense_copy(g, kind), own_cotangent(p, kind, cotangents, borrowed) if p in borrowed else old)
    elif p.takes_uniform:
        cotangents[p] = g
        borrowed.add(p)
    else:
        cotangents[p] = dense_copy(g, kind)


def add_raw(p, buf, kind: Kind, cotangents: dict, borrowed: set) -> None:
    """Add a borrowed buffer to the cotangent of `p`."""
    old = cotangents.get(p)
    if old is None:
        cotangents[p] = buf
        borrowed.add(p)
    elif p in borrowed and is_uniform(old):
        kind.accumulate(buf, own_cotangent(p, kind, cotangents, borrowed))
    elif p in borrowed:
        cotangents[p] = fresh = kind.empty(old.size, kind.storage)
        borrowed.discard(p)
        kind.add(old, buf, fresh)
    else:
        kind.accumulate(buf, old)


def pass_on_cotangent(node, parents: Sequence, g, cotangents: dict, borrowed: set) -> None:
    """Add `g`, the cotangent of `node`, which is dead afterwards, to those of `parents` (all different).

    If exactly one of them has none yet, it takes over the buffer `g`.
    """
    kind = node.kind
    if borrowed and node in borrowed and is_uniform(g):
        for p in parents:
            add_uniform(p, g, kind, cotangents, borrowed)
        return
    without = []
    for p in parents:
        if p not in cotangents:
            without.append(p)
        elif p in borrowed:
            add_raw(p, g, kind, cotangents, borrowed)
        else:
            kind.accumulate(g, cotangents[p])
    for p in without:
        cotangents[p] = g
    if len(without) > 1 or node in borrowed:
        borrowed.update(without)


def own_cotangent(p, kind: Kind, cotangents: dict, borrowed: set):
    """Replace the borrowed cotangent of `p` by a copy, which may be written, and return it."""
    borrowed.discard(p)
    cotangents[p] = fresh = dense_copy(cotangents[p], kind)
    return fresh
