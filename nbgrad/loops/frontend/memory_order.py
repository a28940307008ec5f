"""The order of elements in memory, which decides whether a reshaped array shares the elements of another one.

Here every array is in C order. In NumPy and Numba, results are in the order of their operands: ``np.sin(a.T)`` and
``np.zeros_like(a.T)`` are in Fortran order, and their ``ravel()`` is a copy. That shows only where elements are written
through one of both arrays and read through the other. There, the order must be known to be C; where it is that of
parameters, calls check these.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.statements import Function, Store, Swap, walk
from .array_expressions import Order, order_of_array
from .syntax import unparse
from .views import View

if TYPE_CHECKING:
    from .lowering_state import LoweringState
    from .scope import Scope
    from .source import Source

__all__ = ["check_orders", "record_sharing"]


@dataclass(frozen=True)
class Sharing:
    """An array that shares the elements of another one in C order only, or in another order only."""

    node: ast.AST
    source: Source
    of: str  # the array that is reshaped
    result: str
    order: Order
    written_before: int  # the number of stores until then; 0 in a loop


def record_sharing(low: Scope, node: ast.AST, view: View, result: str) -> None:
    """Record that the array `result` shares or copies the elements of `view`, as it is in C order."""
    if view.rank > 1:
        before = len(low.lowered_function.element_writes) if low.runs_once and low.at_function_level else 0
        order = order_of_array(low, view.name)
        low.shared.sharings.append(Sharing(node, low.source, view.name, result, order, before))


def check_orders(f: Function, shared: LoweringState) -> None:
    """Refuse sharing where the order of elements matters and is not known, and note the parameters whose order does."""
    if not shared.sharings:
        return

    def root(name: str) -> str:
        while name in shared.reshaped:
            name = shared.reshaped[name].name
        return name

    swapped = {root(n) for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second)}
    written = {root(s.array) for s in walk(f.body) if isinstance(s, Store) and s in f.element_writes}
    for s in shared.sharings:
        arrays = {root(s.of), root(s.result)}
        if len(f.element_writes) == s.written_before or arrays.isdisjoint(written | swapped):
            continue
        if s.order is None:
            raise s.source.refuse(
                s.node,
                f"{unparse(s.node)}, of elements that may be in Fortran order, one of which is written later",
                "copy them before (.copy()), which gives C order",
            )
        f.c_ordered |= s.order
