"""Long expressions in several statements: the passes over terms are recursive, and Python's stack is not deep."""

from __future__ import annotations

import ast

from ..ir.names import Names
from .structured_control import assignment, with_location
from .syntax import Transformer

__all__ = ["LongExpressions"]

#: How many operators may be within each other on the left, as in a sum of so many terms.
DEEPEST = 48


class LongExpressions(Transformer):
    """Rewrites ``y = a + b + c + ...`` of very many terms as ``part = a + b + ...`` and ``y = part + ...``: Python
    computes the left operand first, too."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def visit_Assign(self, node: ast.Assign | ast.AugAssign | ast.Return) -> ast.AST | list[ast.stmt]:
        parts: list[ast.stmt] = []
        while node.value is not None and (operation := _first_part(node.value)) is not None:
            name, value = self.names.fresh("part"), operation.left
            operation.left = ast.copy_location(ast.Name(name, ast.Load()), value)
            parts.append(with_location(assignment(node, ast.Name(name, ast.Store()), value), node))
        return [*parts, node] if parts else node

    visit_AugAssign = visit_Return = visit_Assign


def _first_part(value: ast.expr) -> ast.BinOp | None:
    """The operation whose left operand is to be a statement of its own: it is what Python computes first."""
    spine = [value]
    while isinstance(spine[-1], ast.BinOp):
        spine.append(spine[-1].left)
    return spine[-2 - DEEPEST] if len(spine) > 2 * DEEPEST else None  # type: ignore[return-value]
