"""Simplification of selects (``a if test else b``): inside a side of a select, the outcome of its test is known."""

from __future__ import annotations

from ...ir.expr import Expr, const, rebuild, select, topological_order

__all__ = ["is_select", "simplify_selects"]


def simplify_selects(part: Expr, value: Expr, known: Expr | None) -> Expr:
    """`part`, a derivative of `value`, without tests inside the sides of a select on the same test.

    `known`, where given, holds the value of `value`. It replaces `value` in `part`, and, inside a side of a select on
    the test of `value`, the side of `value` that this test chooses.
    """
    if not any(is_select(node) for node in topological_order([part])):
        return part
    return _SelectSimplifier(known).visit(part, value, frozenset())


def is_select(e: Expr) -> bool:
    """Whether `e` is ``a if test else b``."""
    return e.fn is not None and e.fn.name == "select"


class _SelectSimplifier:
    """The simplification, memoized by node, value and facts."""

    def __init__(self, known: Expr | None) -> None:
        self.known = known
        self.made: dict[tuple, Expr] = {}

    def visit(self, node: Expr, value: Expr, facts: frozenset[tuple[Expr, bool]], is_test: bool = False) -> Expr:
        """`node` simplified where `facts` gives the outcomes of tests, and `known` holds `value`; `is_test`: whether
        only its truth matters."""
        key = node, value, facts, is_test
        if key not in self.made:
            self.made[key] = self._visit(node, value, facts, is_test)
        return self.made[key]

    def _visit(self, node: Expr, value: Expr, facts: frozenset[tuple[Expr, bool]], is_test: bool) -> Expr:
        if (node, False) in facts:
            return const(False)
        # A number that is no 0 holds, but is not 1.
        if (node, True) in facts and (is_test or (node.fn is not None and node.fn.boolean)):
            return const(True)
        if node.fn is None:
            return node
        if node is value and self.known is not None:
            return self.known
        if not is_select(node):
            of_tests = node.fn.name in ("and", "or", "not")
            args = tuple(self.visit(a, value, facts, of_tests) for a in node.args)
            return node if args == node.args else rebuild(node.fn, args)
        test, *sides = node.args
        same_test = is_select(value) and value.args[0] is test
        simplified = [
            self.visit(side, value.args[k] if same_test else value, facts | {(test, k == 1)})
            for k, side in enumerate(sides, 1)
        ]
        return select(self.visit(test, value, facts, True), *simplified)
