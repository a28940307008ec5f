"""Sweeps that share a graph, and what they leave: gradients, all of them or none.

Threads, and the handler of a signal in the middle of a thread, may sweep over one graph at the same time. Sweeps that
keep it only read it. One that frees it has it for itself: of two, the one that began first goes on, and the other is
told so before it has done anything.

Gradients change in one step that nothing can come between: a loop that runs in C, inside which Python neither runs a
signal's handler nor raises KeyboardInterrupt. So whoever looks sees all gradients of before, or all of after. (Those
on a GPU are ordered by its own queue, and change one after the other.)
"""

from __future__ import annotations

import os
from collections import deque
from itertools import chain, repeat, starmap
from operator import add, itemgetter, setitem
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays.launch import copy
from ..arrays.ndarray import NDArray, lent, wrap
from ..core.fork_safety import lock
from ..errors import NBGradError

if TYPE_CHECKING:
    from .tape import Node, _Plan

__all__ = ["Leaf", "begin", "freed", "going", "publish"]

TAKEN = (
    "backward: another backward goes over this graph at this moment (the node of operator {op}), in another thread or "
    "under a signal's handler, and one of the two frees it: pass retain_graph=True to both, or let one end first"
)
FREED = (
    "backward: the graph was differentiated already: another thread's backward freed a part of it (the node of "
    "operator {op}) in the meantime; pass retain_graph=True to both"
)


class Leaf:
    """A marked variable: its gradient buffer, what backward does with it, whether it is fresh, its version cell.

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


#: Sweeps that are going on, in the order in which they began. Who adds itself (:func:`begin`) takes itself out with
#: ``going.pop(plan, None)`` in a ``finally``: a function of ours could be interrupted before it does.
going: dict[_Plan, None] = {}
#: Something else whenever a sweep that frees has begun or ended.
freed: list[object] = [None]

_publishing = lock("gradients")  # NumPy adds large arrays without the GIL: two threads may add to one gradient
_read = itemgetter(0)
_put_buffer: Any = vars(NDArray)["_buf"].__set__
_put_fresh: Any = vars(Leaf)["fresh"].__set__


def _references() -> int:
    grad = wrap(None, (), None)  # type: ignore[arg-type]
    cell = grad._cell
    return getrefcount(cell)


#: How often Python refers to the version cell of an array without views, and a name; Python versions count differently.
_SOLE = _references()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=going.clear)  # what other threads did ends with them


def begin(plan: _Plan, frees: bool) -> None:
    """A sweep begins.

    Raises
    ------
    NBGradError
        If another one has the graph.
    """
    plan.frees = frees
    going[plan] = None
    if len(going) > 1 or plan.began is not freed[0]:
        _check(plan)
    if frees:
        freed[0] = object()


def _check(plan: _Plan) -> None:
    mine: set[Node] | None = None
    for other in list(going):
        if other is plan:
            break
        if plan.frees or other.frees:
            mine = set(plan.nodes) if mine is None else mine
            for item in other.nodes:
                if item in mine:
                    raise NBGradError(TAKEN.format(op=item.op.name))
    for item in plan.nodes:
        if item.parents is None:
            raise NBGradError(FREED.format(op=item.op.name))


def publish(found: dict[Leaf, Any], borrowed: set) -> None:
    """Put the cotangents of marked variables into their gradients, as each one's request says.

    A gradient whose version cell nobody else holds has no views: then the cotangent becomes its memory, unless that
    was lent (`borrowed`).
    """
    with _publishing:
        if len(found) == 1:
            ((leaf, buf),) = found.items()
            grad = leaf.grad
            cell = grad._cell
            cell[0] += 1  # before and after: whoever looks in between keeps neither version
            if leaf.request == "add":
                grad._kind.accumulate(buf, grad._buf)
            elif leaf.replaceable and leaf not in borrowed and getrefcount(cell) == _SOLE and not lent(grad):
                grad._buf = buf
            else:
                copy(buf, grad._buf)
            cell[0] += 1
            leaf.fresh = True
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
                and not lent(grad)
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


def _publish(others: list[tuple[Leaf, Any]], step: chain) -> None:
    """Write into memory that stays, and take `step`."""
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
        else:  # NumPy cannot add what is stored
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
