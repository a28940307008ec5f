"""The tape: recorded nodes and reverse sweeps over them. It knows no mathematics and no operator.

A recorded result refers to a :class:`Node`, a marked variable to a :class:`Leaf`. A node refers to its parents, never
the other way, and to raw buffers instead of arrays: dropping the last array drops its history, without help from the
cycle collector.

Two sweeps share one plan. The *raw* sweep accumulates flat buffers; ``backward`` runs it. The *recorded* sweep
accumulates arrays by recorded operations, so that its result can be differentiated again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from operator import attrgetter
from typing import Any

from ..arrays.launch import Kind, cast_into, copy, kind_of
from ..arrays.ndarray import NDArray, wrap
from ..backends.buffer_pool import LARGE
from ..core.context import CPU0
from ..core.dtypes import float32
from ..core.shapes import size
from ..errors import InPlaceError, NBGradError
from . import sweeps
from .cotangents import (
    add_raw,
    add_uniform,
    dense_copy,
    is_uniform,
    own_cotangent,
    pass_on_cotangent,
    uniform_buffer,
)
from .differentiability import check_order
from .observers import observers
from .state import put_recording, recording, state
from .sweeps import Leaf

__all__ = ["Leaf", "Node", "Rule", "commit", "sweep_raw", "sweep_recorded"]

# MXNet has one message for these three: its applicable sentences come first, then what to do.
NOT_RECORDED = (
    "Cannot differentiate node because it is not in a computational graph. You need to set is_recording to true "
    "or use autograd.record() to save computational graphs for backward: no operator recorded this array; compute "
    "it inside `with autograd.record():`, from arrays x after x.attach_grad()."
)
NOT_MARKED = (
    "Cannot differentiate node because it is not in a computational graph: it was computed while recording, but no "
    "array that it was computed from is marked; call x.attach_grad() of the variables before recording. (A gradient "
    "that is differentiated in turn is computed by autograd.grad with create_graph=True.)"
)
USED = (
    "Cannot differentiate node because it is not in a computational graph any more: an earlier backward freed it (its "
    "last operator is {op}). If you want to differentiate the same graph twice, you need to pass retain_graph=True to "
    "backward, the earlier one."
)
#: The first version of a value computed while recording from unmarked arrays only: its versions are negative.
UNMARKED = -(1 << 62)
NO_INPUTS = "There are no inputs in computation graph that require gradients."
FREED = (
    NO_INPUTS + " A part of the graph was already freed by an earlier backward (the node of operator {op}): "
    "pass retain_graph=True to that one if the two share history."
)

UNREACHABLE = "Cannot differentiate with respect to the {k}-th variable because it is unreachable from the outputs."
CHANGED = (
    "backward: an array that the gradient of operator {op} reads was changed in place after it was recorded; "
    "change a copy instead, or run backward first"
)

next_seq = count().__next__
_seq = attrgetter("seq")


class Node:
    """One recorded operation with one result.

    Attributes
    ----------
    op : Rule
    parents : tuple
        Per operand: its Node or Leaf; or, for an operand that is not on the tape, its version cell (a
        list), which identifies its memory.
    saved : tuple
        Flat triples (raw buffer, version cell, version when recorded) of the values that the derivative reads.
    attrs : object
        Anything else that `op` needs.
    shape, kind
        Of the result.
    seq : int
        Position in the order of recording; later nodes have higher numbers.
    """

    __slots__ = ("__weakref__", "attrs", "kind", "op", "parents", "saved", "seq", "shape", "variables")

    op: Rule
    parents: tuple
    saved: tuple
    attrs: Any
    shape: tuple[int, ...]
    kind: Kind
    seq: int

    @property
    def takes_uniform(self) -> bool:
        """Whether the cotangent may be uniform; see :mod:`.cotangents`."""
        return self.op.takes_uniform


def node(op: Rule, parents: tuple, saved: tuple, attrs, shape, kind: Kind) -> Node:
    """A new node with the next sequence number."""
    new = Node()
    new.op = op
    new.parents = parents
    new.saved = saved
    new.attrs = attrs
    new.shape = shape
    new.kind = kind
    new.seq = next_seq()
    return new


def parent(x: NDArray):
    """The parent of a node computed from `x`: its node or leaf, or else its version cell."""
    return x._node or x._cell


def save(arrays: Iterable[NDArray]) -> tuple:
    """The ``saved`` of a node whose derivative reads these arrays."""
    triples: list = []
    for x in arrays:
        cell = x._cell
        triples += (x._buf, cell, cell[0])
    return tuple(triples)


def cotangent_wanted(parent_, useful: set | None) -> bool:
    """Whether the cotangent of this parent is needed."""
    return type(parent_) is not list and (useful is None or parent_ in useful)


class Rule:
    """The pullback of one kind of node. Subclasses define `name` and :meth:`grads`, and may override the rest.

    `max_order`, if any, limits how often the result can be differentiated: a number, or a function of the node.
    """

    name = "?"
    max_order: float | Callable | None = None
    #: Whether :meth:`pull_raw` takes a uniform cotangent.
    takes_uniform = False
    #: No gradient passes through such a node.
    constant = False

    def passes(self, k: int) -> bool:
        """Whether the cotangent of operand `k` can be other than zero."""
        return True

    def grads(self, node: Node, g: NDArray, useful: set | None) -> Sequence[NDArray | None]:
        """The cotangent of each parent, computed by recordable operations; None where not wanted."""
        raise NotImplementedError

    def pull_raw(self, node: Node, g, cotangents: dict, borrowed: set, useful: set | None) -> None:
        """Add this node's contributions to the raw `cotangents` of its parents.

        A buffer that may also be another node's cotangent, or is not owned by this sweep, is *borrowed*: it must not
        be written. If `node` is not in `borrowed`, `g` may be overwritten or passed on: it is dead after this call.
        """
        cotangent = wrap_cotangent(node, g)
        results = self.grads(node, cotangent, useful)
        for p, h, sole in zip(node.parents, results, uniquely_owned(results), strict=True):
            if h is not None:
                if sole and p not in cotangents:
                    cotangents[p] = h._buf
                else:
                    add_raw(p, h._buf, h._kind, cotangents, borrowed)

    def pull_recorded(self, node: Node, g: NDArray, cotangents: dict, useful: set | None) -> None:
        """The same with arrays and recorded additions."""
        for p, h in zip(node.parents, self.grads(node, g, useful), strict=True):
            if h is not None:
                old = cotangents.get(p)
                cotangents[p] = h if old is None else old + h


class SameMemory(Rule):
    """The same elements on the same memory, seen in another way. The cotangent is the same buffer, too."""

    takes_uniform = True

    def pull_raw(self, node, g, cotangents, borrowed, useful):
        pass_on_cotangent(node, node.parents, g, cotangents, borrowed)


def uniquely_owned(arrays: Sequence[NDArray | None]) -> list[bool]:
    """For each array, whether this sequence has the only reference to it and its memory has no views."""
    return [_references(x) == _SOLE for x in arrays]


def _references(x: NDArray | None) -> tuple[int, int]:
    """The reference counts of an array and of the version cell that all arrays on its memory share."""
    return (0, 0) if x is None else (sys.getrefcount(x), sys.getrefcount(x._cell))


#: These counts for an array that only a list refers to; they differ between Python versions.
(_SOLE,) = [_references(x) for x in [wrap(None, (), kind_of(float32, CPU0))]]


def wrap_cotangent(node: Node, g):
    """The raw cotangent of a node as an array; for a node with several results, a list with None for absent ones."""
    if isinstance(g, list):
        triples = zip(g, node.shape, node.kind, strict=True)  # type: ignore[call-overload]
        return [None if h is None else wrap(h, shape, kind) for h, shape, kind in triples]
    return wrap(g, node.shape, node.kind)


class _Select(Rule):
    """One result of a node with several: passes its cotangent to its slot in that node's list."""

    name = "select"

    def _slots(self, node: Node, cotangents: dict) -> list:
        big = node.parents[0]
        if big not in cotangents:
            cotangents[big] = [None] * len(big.shape)
        return cotangents[big]

    # There may be several of these for one result: rules that read it create their own.

    def pull_raw(self, node, g, cotangents, borrowed, useful):
        slots = self._slots(node, cotangents)
        old = slots[node.attrs]
        if old is not None:
            total = node.kind.empty(g.size, node.kind.storage)
            copy(old, total)
            node.kind.accumulate(g, total)
            g = total
        slots[node.attrs] = g

    def pull_recorded(self, node, g, cotangents, useful):
        slots = self._slots(node, cotangents)
        old = slots[node.attrs]
        slots[node.attrs] = g if old is None else old + g


SELECT = _Select()


def select(big: Node, index: int) -> Node:
    """The node of result number `index` of `big`, whose shape and kind are tuples."""
    return node(SELECT, (big,), (), index, big.shape[index], big.kind[index])  # type: ignore[index]


class _SweepPlan:
    """The order of a sweep: nodes, latest first; the leaves reached; the nodes that lead to the targets (`useful`).

    Nodes with sequence numbers below `floor` count as leaves: the sweep does not enter them.
    """

    __slots__ = ("began", "frees", "leaves", "nodes", "useful")

    def __init__(self, heads: Sequence[Node | Leaf], targets: dict | None, floor: int = 0) -> None:
        self.frees = False
        self.began = sweeps.freeing_epoch[0]
        seen: set = set(heads)
        worklist: list = list(seen)
        nodes: list[Node] = []
        leaves: list[Leaf] = []
        changed: list[Node] = []
        constants = False
        add, pop, push = seen.add, worklist.pop, worklist.append  # this loop dominates small sweeps
        while worklist:
            item = pop()
            if item.__class__ is Leaf or item.seq < floor:
                leaves.append(item)
                continue
            parents = item.parents
            if parents is None:
                raise NBGradError(FREED.format(op=item.op.name))
            nodes.append(item)
            saved = item.saved
            if saved:
                if saved[1][0] != saved[2] or (
                    len(saved) > 3 and (saved[4][0] != saved[5] or (len(saved) > 6 and _changed(saved)))
                ):
                    changed.append(item)
            elif item.op.constant:
                constants = True
            for p in parents:
                if p.__class__ is not list and p not in seen:
                    add(p)
                    push(p)
        if len(nodes) > 1:
            nodes.sort(key=_seq, reverse=True)
        self.nodes = nodes
        self.leaves = leaves
        self.useful: set | None = None
        if targets is not None:
            for target, k in targets.items():
                if k and target not in seen:
                    raise NBGradError(UNREACHABLE.format(k=k))
        if targets is not None or constants:
            useful = set(leaves if targets is None else targets)
            for item in reversed(nodes):
                if item.op.constant:
                    continue
                for p in item.parents or ():
                    if type(p) is not list and p in useful:
                        useful.add(item)
                        break
            if not useful.issuperset(seen):  # None if all are useful: rules then skip the test
                self.useful = useful
        for item in changed:
            if self.useful is None or item in self.useful:
                raise InPlaceError(CHANGED.format(op=item.op.name))
        for check in sweeps.checks:
            check(nodes)


def _unreached(targets: dict, found: dict) -> list:
    """The targets that received no cotangent although the heads depend on them: theirs is zero."""
    return [t for t, k in targets.items() if k and t not in found]


def _changed(saved: tuple) -> bool:
    for k in range(1, len(saved), 3):  # noqa: SIM110 (a hot loop)
        if saved[k][0] != saved[k + 1]:
            return True
    return False


def _free(item: Node) -> None:
    item.parents = None  # type: ignore[assignment]
    item.saved = ()
    item.attrs = None


def sweep_raw(
    heads: Sequence[tuple[Node | Leaf, Any]], retain: bool, targets: dict | None = None, floor: int = 0
) -> tuple[dict, set]:
    """Cotangents of the targets (default: every marked variable reached) as raw buffers.

    Parameters
    ----------
    heads : sequence of (node or leaf, raw buffer)
        The buffers are consumed.
    retain : bool
        Retain the graph for another sweep.
    targets : dict, optional
        The nodes and leaves whose cotangents are wanted, with their numbers for error messages; 0: omit it from the
        result if it is not reached.
    floor : int
        Nodes with lower sequence numbers are not entered: they are targets, or irrelevant.

    Returns
    -------
    dict
        Node or leaf -> raw buffer.
    set
        The nodes and leaves whose buffer may be shared.

    Raises
    ------
    NBGradError
        If part of the graph was freed, or a target, or anything that requires a gradient, is not reached.
    InPlaceError
        If a value that a derivative reads has been changed since it was recorded.
    """
    plan = _SweepPlan([h for h, _ in heads], targets, floor)
    if targets is None:
        for leaf in plan.leaves:
            if leaf.request != "null":
                break
        else:
            raise NBGradError(NO_INPUTS)
    cotangents: dict = {}
    borrowed: set = set()
    for head, buf in heads:
        if buf.size >= LARGE and is_uniform(buf):
            add_uniform(head, buf, head.kind, cotangents, borrowed)
        elif head in borrowed:
            head.kind.accumulate(buf, own_cotangent(head, head.kind, cotangents, borrowed))
        elif head in cotangents:
            head.kind.accumulate(buf, cotangents[head])
        else:
            cotangents[head] = buf
    found: dict = {}
    useful = plan.useful
    observer = state.observer if observers else None
    recorded, ended = recording(), object()
    take = cotangents.pop
    try:
        sweeps.register_sweep(plan, not retain)
        if recorded:
            put_recording(False)
        for item in plan.nodes:
            g = take(item, None)
            if g is not None and (useful is None or item in useful):
                if targets is not None and item in targets:
                    found[item] = g
                    borrowed.add(item)
                if observer is None:
                    item.op.pull_raw(item, g, cotangents, borrowed, useful)
                else:
                    observer.pull_raw(item, g, cotangents, borrowed, useful)
            if not retain:
                item.parents = None  # type: ignore[assignment]
                item.saved = ()
                item.attrs = None
    finally:
        if recorded:
            put_recording(True)
        sweeps.active_sweeps.pop(plan, None)
        if not retain:
            sweeps.freeing_epoch[0] = ended
    for leaf in plan.leaves:
        if leaf.request != "null" if targets is None else leaf in targets:
            if leaf in cotangents:
                found[leaf] = cotangents[leaf]
            elif targets is None:
                found[leaf] = leaf.kind.zeros(size(leaf.shape))
    if targets is not None and len(found) < len(targets):
        for item in _unreached(targets, found):
            found[item] = item.kind.zeros(size(item.shape))
    if borrowed:
        for item in borrowed.intersection(found):
            if is_uniform(found[item]):
                found[item] = dense_copy(found[item], item.kind)
                borrowed.discard(item)
    return found, borrowed


def sweep_recorded(heads: Sequence[tuple[Node | Leaf, NDArray]], retain: bool, targets: dict, floor: int = 0) -> dict:
    """Cotangents of the targets as arrays that are themselves recorded. Arguments and errors as `sweep_raw`."""
    plan = _SweepPlan([h for h, _ in heads], targets, floor)
    useful = plan.useful
    for item in plan.nodes:
        if item.op.max_order is not None and (useful is None or item in useful):
            # While tracing, every sweep is recorded; a limit raises where it is reached.
            kind = item.kind[0] if isinstance(item.kind, tuple) else item.kind
            check_order(item, 1 if kind.traced else 2)
    observer = state.observer if observers else None
    cotangents: dict = {}
    found: dict = {}
    recorded, ended = recording(), object()
    try:
        sweeps.register_sweep(plan, not retain)
        put_recording(True)
        for head, g in heads:
            old = cotangents.get(head)
            cotangents[head] = g if old is None else old + g
        for item in plan.nodes:
            g = cotangents.pop(item, None)
            if g is not None and (useful is None or item in useful):
                if item in targets:
                    found[item] = g
                if observer is None:
                    item.op.pull_recorded(item, g, cotangents, useful)
                else:
                    observer.pull_recorded(item, g, cotangents, useful)
        if not retain:
            for item in plan.nodes:
                _free(item)
    finally:
        put_recording(recorded)
        sweeps.active_sweeps.pop(plan, None)
        if not retain:
            sweeps.freeing_epoch[0] = ended
    for leaf in plan.leaves:
        if leaf in cotangents and leaf in targets:
            found[leaf] = cotangents[leaf]
    for item in _unreached(targets, found):
        found[item] = wrap(item.kind.zeros(size(item.shape)), item.shape, item.kind)
    return found


def commit(found: dict, borrowed: set) -> None:
    """Publish the cotangents of marked variables as their gradients; see :func:`.sweeps.publish_gradients`."""
    sweeps.publish_gradients(found, borrowed)


def ones_raw(kind: Kind, size: int):
    """A head gradient of ones, uniform if large."""
    large = size >= LARGE and not kind.traced
    buf = kind.small(1 if large else size, kind.storage)
    buf.fill(kind.one)
    return uniform_buffer(buf, size) if large else buf


def head_raw(head: NDArray, given: NDArray | None):
    """A private copy of a head gradient (ones by default), in the head's dtype."""
    kind = head._kind
    if given is None:
        return ones_raw(kind, head._buf.size)
    buf = kind.empty(head._buf.size, kind.storage)
    cast_into(given._buf, given._kind, buf, kind)
    return buf
