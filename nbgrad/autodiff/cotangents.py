"""Raw cotangents: how they are added up and passed on.

The cotangent of a node or leaf is a flat buffer. One that is *borrowed* may be another's too, or belong to somebody
else: it must not be written. One that is *uniform* is the same number everywhere, as that of what was summed up, and
is that one number in memory: a buffer whose stride is 0. No kernel may get it as it is. It is always borrowed, and only
nodes whose rule knows of it have it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arrays.launch import Kind, copy

__all__ = ["add_raw", "add_uniform", "dense", "hand_on", "own", "repeated", "uniform"]


def uniform(g) -> bool:
    """Whether this raw cotangent is one number for all elements. Empty buffers may have no strides, and no number."""
    return g.strides == (0,) and g.size > 0


def repeated(number, n: int):
    """The uniform buffer of `n` elements that are all that of `number`, a buffer of one."""
    return np.ndarray((n,), number.dtype, number, strides=(0,))


def dense(g, kind: Kind):
    """A copy, which is not uniform."""
    buf = kind.empty(g.size, kind.storage)
    copy(g, buf)
    return buf


def add_uniform(p, g, kind: Kind, cotangents: dict, borrowed: set) -> None:
    """Add a uniform buffer to the cotangent of `p`."""
    old = cotangents.get(p)
    if old is not None:
        kind.accumulate(dense(g, kind), own(p, kind, cotangents, borrowed) if p in borrowed else old)
    elif p.takes_uniform:
        cotangents[p] = g
        borrowed.add(p)
    else:
        cotangents[p] = dense(g, kind)


def add_raw(p, buf, kind: Kind, cotangents: dict, borrowed: set) -> None:
    """Add a borrowed buffer to the cotangent of `p`."""
    old = cotangents.get(p)
    if old is None:
        cotangents[p] = buf
        borrowed.add(p)
    elif p in borrowed and uniform(old):
        kind.accumulate(buf, own(p, kind, cotangents, borrowed))
    elif p in borrowed:
        cotangents[p] = fresh = kind.empty(old.size, kind.storage)
        borrowed.discard(p)
        kind.add(old, buf, fresh)
    else:
        kind.accumulate(buf, old)


def hand_on(node, parents: Sequence, g, cotangents: dict, borrowed: set) -> None:
    """Add `g`, the cotangent of `node` and used for nothing else any more, to those of `parents` (all different).

    If just one of them has none yet, that one can have `g` for itself.
    """
    kind = node.kind
    if borrowed and node in borrowed and uniform(g):
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


def own(p, kind: Kind, cotangents: dict, borrowed: set):
    """A copy of the borrowed cotangent of `p`, in its place: a buffer that may be written."""
    borrowed.discard(p)
    cotangents[p] = fresh = dense(cotangents[p], kind)
    return fresh
