"""Placement: whether a recorded value is the same on all ranks, or each rank's own; and the check that they do not mix.

A derivative by a *replicated* value counts once, though all ranks hold it; one by a *varying* value is each rank's own.
Where the two meet, the sum over ranks that the replicated value's derivative needs would be missing, unless the value
went through ``spread``, whose transpose is that sum. Variables count as replicated.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any
from weakref import WeakKeyDictionary

from ..autodiff.constants import COTANGENT
from ..autodiff.tape import Leaf, Node
from ..custom.function import Function, OpaqueCall
from ..custom.function_rules import FunctionRule
from ..errors import NBGradError

__all__ = ["Placement", "PlacementError", "check_operand", "check_sweep"]


class Placement(Enum):
    REPLICATED = "the same on all ranks"
    VARYING = "each rank's own"


class PlacementError(NBGradError):
    """A value that is the same on all ranks met one that is each rank's own, without ``spread``."""


def _function_of(node: Node) -> Function | None:
    """The Function whose call a node is; None for other nodes."""
    if isinstance(node.op, FunctionRule):
        return node.attrs[0] if node.attrs else None
    return node.op.function if isinstance(node.op, OpaqueCall) else None


def _given_by(item: Any) -> Placement | None:
    """The placement of a variable and of what a collective gives; None for other nodes."""
    if isinstance(item, Leaf) or (item.parents == () and item.op is not COTANGENT):
        return Placement.REPLICATED
    return getattr(_function_of(item), "gives", None)


def _sources(item: Node) -> list[Any]:
    """The nodes whose placements a node's follows from: those of its operands, or for a cotangent that of its value."""
    if item.op is COTANGENT:
        return [item.attrs]
    return [p for p in item.parents or () if type(p) is not list]


#: The placements of nodes that were asked for: time loops ask for the same ones again and again.
_known: WeakKeyDictionary[Any, Placement | None] = WeakKeyDictionary()


def _find_placements(items: Iterable[Any]) -> None:
    """Find the placements of nodes, and of those they are computed from, as far as the last collectives."""
    known, worklist = _known, list(items)
    while worklist:
        item = worklist[-1]
        if item in known:
            worklist.pop()
            continue
        given = _given_by(item)
        parents = [] if given else _sources(item)
        missing = [p for p in parents if p not in known]
        if missing:
            worklist += missing
            continue
        known[item] = given or _met(item, {known[p] for p in parents} - {None})
        worklist.pop()


def _met(node: Node, placements: set) -> Placement | None:
    if len(placements) > 1:
        raise PlacementError(
            f"{node.op.name}, with a result of shape {node.shape}, has an operand that is the same on all ranks "
            "(computed from variables, or by allreduce and the like) and one that is each rank's own (by spread, halo "
            "and the like). Its gradient would lack the other ranks' parts: pass the first through nb.mpi.spread(x), "
            "which adds them up"
        )
    return next(iter(placements), None)


def check_operand(name: str, x: Any, wanted: Placement) -> None:
    """Raise if the operand `x` of a collective is not placed as it must be."""
    if x._node is None:
        return
    _find_placements([x._node])
    if _known[x._node] in (None, wanted):
        return
    if wanted is Placement.VARYING:
        raise PlacementError(
            f"{name}: the operand is computed from variables, or results of collectives, that are the same on all "
            "ranks. Pass these through nb.mpi.spread(x) before they meet what is this rank's own; a variable that is "
            "this rank's own goes through nb.mpi.local(x)"
        )
    raise PlacementError(
        f"{name}: the operand is this rank's own already; only what is the same on all ranks, such as a variable or a "
        "result of allreduce, is spread"
    )


def check_sweep(nodes: list[Node]) -> None:
    """Raise if values of both placements meet anywhere in what is differentiated; `nodes` are the latest first."""
    if any(getattr(_function_of(n), "gives", None) for n in nodes):
        _find_placements(reversed(nodes))
