"""Concurrent reverse sweeps over one graph, and the atomic publication of gradients.

Threads, and signal handlers, may sweep over one graph at the same time. Sweeps that retain it only read it. A sweep
that frees it needs it exclusively: of two, the first goes on, and the other raises before it has done anything.

Gradients are published atomically, by a loop that runs in C, inside which Python neither runs a signal handler nor
raises KeyboardInterrupt. So an observer sees either all old or all new gradients. (Those on a GPU are ordered by its
stream, and change one after the other.)
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from itertools import chain, repeat, starmap
from operator import add, itemgetter, setitem
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.launch import copy, kind_of
from ..arrays.ndarray import NDArray, wrap
from ..arrays.sharing import is_exported
from ..core.context import CPU0
from ..core.dtypes import float32
from ..core.fork_safety import lock
from ..errors import NBGradError

if TYPE_CHECKING:
    from .tape import Node, _SweepPlan

__all__ = ["Leaf", "active_sweeps", "checks", "freeing_epoch", "publish_gradients", "register_sweep"]

CONCURRENT_SWEEP = (
    "backward: another backward goes over this graph at this moment (the node of operator {op}), in another thread or "
    "under a signal's handler, and one of the two frees it: pass retain_graph=True to both, or let one end first"
)
FREED = (
    "backward: the graph was differentiated already: another thread's backward freed a part of it (the node of "
    "operator {op}) in the meantime; pass retain_graph=True to both"
)


class Leaf:
    """A marked variable: its gradient, its ``grad_req``, whether the gradient is fresh, its version cell.

    `replaceable` says that the gradient may get other memory, if no view of it exists.
    """

    __slots__ = ("__weakref__", "cell", "fresh", "grad", "kind", "replaceable", "request", "shape")
    takes_uniform = False

    def __init__(self, grad: NDArray, request: str, cell: list, replaceable: bool = False) -> None:
        self.grad = grad
        self.request = request
        self.cell = cell
        self.replaceable = replaceable
        self.fresh = False
        self.shape = grad._shape
        self.kind = grad._kind


#: What looks at the nodes of each sweep, latest first, before it begins, and may raise; modules append to it.
checks: list[Callable[[list[Node]], None]] = []
#: Active sweeps, in the order in which they began. A sweep adds itself by :func:`register_sweep` and removes itself by
#: ``going.pop(plan, None)`` in a ``finally``: a Python function for that could be interrupted before it does so.
active_sweeps: dict[_SweepPlan, None] = {}
#: A new object whenever a freeing sweep has begun or ended.
freeing_epoch: list[object] = [None]

_publishing = lock("gradients")  # NumPy adds large arrays without the GIL: two threads may add to one gradient
_read = itemgetter(0)
_put_buffer: Any = vars(NDArray)["_buf"].__set__
_put_fresh: Any = vars(Leaf)["fresh"].__set__


def _references() -> int:
    grad = wrap(None, (), kind_of(float32, CPU0))
    cell = grad._cell
    return getrefcount(cell)


#: The reference count of the version cell of an array without views; it differs between Python versions.
_SOLE = _references()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=active_sweeps.clear)  # the other threads do not exist in the child


def register_sweep(plan: _SweepPlan, frees: bool) -> None:
    """Register a sweep.

    Raises
    ------
    NBGradError
        If it conflicts with an active one.
    """
    plan.frees = frees
    active_sweeps[plan] = None
    if len(active_sweeps) > 1 or plan.began is not freeing_epoch[0]:
        _check(plan)
    if frees:
        freeing_epoch[0] = object()


def _check(plan: _SweepPlan) -> None:
    """Raise if an earlier sweep conflicts with this one or has freed its nodes."""
    mine: set[Node] | None = None
    for other in list(active_sweeps):
        if other is plan:
            break
        if plan.frees or other.frees:
            mine = set(plan.nodes) if mine is None else mine
            for item in other.nodes:
                if item in mine:
                    raise NBGradError(CONCURRENT_SWEEP.format(op=item.op.name))
    for item in plan.nodes:
        if item.parents is None:
            raise NBGradError(FREED.format(op=item.op.name))


def publish_gradients(found: dict[Leaf, Any], borrowed: set) -> None:
    """Store the cotangents of marked variables in their gradients, or add them, as each one's request says.

    A gradient whose version cell has no other reference has no views: then the cotangent becomes its memory, unless it
    is `borrowed`.
    """
    with _publishing:
        if len(found) == 1:
            ((leaf, buf),) = found.items()
            grad = leaf.grad
            cell = grad._cell
            cell[0] += 1  # before and after: a version read in between is never current
            if leaf.request == "add":
                grad._kind.accumulate(buf, grad._buf)
            elif leaf.replaceable and leaf not in borrowed and getrefcount(cell) == _SOLE and not is_exported(grad):
                grad._buf = buf
            else:
                copy(buf, grad._buf)
            cell[0] += 1
            leaf.fresh = True
            grad._update_views()
            return
        cells: list[list] = []
        replaced: list[tuple] = []
        others: list[tuple[Leaf, Any]] = []
        for leaf, buf in found.items():
            grad = leaf.grad
            cell = grad._cell
            if (
                leaf.replaceable
                and leaf.request != "add"
                and leaf not in borrowed
                and getrefcount(cell) == _SOLE
                and not is_exported(grad)
            ):
                replaced.append((grad, buf))
            else:
                others.append((leaf, buf))
            cells.append(cell)
        step = chain(
            starmap(_put_buffer, replaced),
            map(setitem, cells, repeat(0), map(add, map(_read, cells), repeat(1))),
            map(_put_fresh, found, repeat(True)),
        )
        if others:
            _publish(others, step)
        else:
            deque(step, 0)
        for leaf in found:
            leaf.grad._update_views()


def _publish(others: list[tuple[Leaf, Any]], step: chain) -> None:
    """Write into gradients that keep their memory, then run `step`."""
    added: list[tuple] = []
    stored: list[tuple] = []
    later: list[tuple] = []
    for leaf, buf in others:
        grad = leaf.grad
        if buf.__class__ is not np.ndarray:
            later.append((leaf.request == "add", grad, buf))
        elif leaf.request != "add":
            stored.append((grad._buf, ..., buf))
        elif grad._kind.dtype.np == grad._kind.storage:
            added.append((grad._buf, buf, grad._buf))
        else:  # NumPy cannot add values in this storage format
            total = grad._buf.copy()
            grad._kind.accumulate(buf, total)
            stored.append((grad._buf, ..., total))
    with np.errstate(all="ignore"):
        deque(chain(starmap(setitem, stored), starmap(np.add, added), step), 0)
    for adds, grad, buf in later:
        if adds:
            grad._kind.accumulate(buf, grad._buf)
        else:
            copy(buf, grad._buf)
