"""Expressions with ``a if test else b`` in them, made shorter by what tests say of each other."""

from __future__ import annotations

from ...ir.expr import Expr, const, order, rebuild, select

__all__ = ["is_select", "settled"]


def settled(part: Expr, value: Expr, known: Expr | None) -> Expr:
    """`part`, a derivative of `value`, in which no test is asked within one of its own sides, and `known` stands for
    what it holds the value of: for `value`, and where tests of `value` are asked, for the side that they choose."""
    if not any(is_select(node) for node in order([part])):
        return part
    return _Settled(known).visit(part, value, frozenset())


def is_select(e: Expr) -> bool:
    """Whether it is ``a if test else b``."""
    return e.fn is not None and e.fn.name == "select"


class _Settled:
    def __init__(self, known: Expr | None) -> None:
        self.known = known
        self.made: dict[tuple, Expr] = {}

    def visit(self, node: Expr, value: Expr, facts: frozenset[tuple[Expr, bool]]) -> Expr:
        """`node`, where `facts` says which tests hold; `value` is what is known there."""
        key = node, value, facts
        if key not in self.made:
            self.made[key] = self._visit(node, value, facts)
        return self.made[key]

    def _visit(self, node: Expr, value: Expr, facts: frozenset[tuple[Expr, bool]]) -> Expr:
        for holds in (True, False):
            if (node, holds) in facts:
                return const(holds)
        if node.fn is None:
            return node
        if node is value and self.known is not None:
            return self.known
        if not is_select(node):
            args = tuple(self.visit(a, value, facts) for a in node.args)
            return node if args == node.args else rebuild(node.fn, args)
        test, *sides = node.args
        asked = is_select(value) and value.args[0] is test
        found = [
            self.visit(side, value.args[k] if asked else value, facts | {(test, k == 1)})
            for k, side in enumerate(sides, 1)
        ]
        return select(self.visit(test, value, facts), *found)
