"""What of an expression is evaluated once, in any case, so that it may be put before the statement."""

from __future__ import annotations

import ast
from typing import Any

from .syntax import Transformer

__all__ = ["EvaluatedOnce"]


class EvaluatedOnce(Transformer):
    """A transformer that knows whether what it visits is evaluated once, in any case: `certain`. What is done before
    the statement is in `before`."""

    certain = False
    before: list[ast.stmt]

    def uncertain(self, nodes: list[Any]) -> list[Any]:
        """Visit what is evaluated later, several times, or not at all."""
        above, self.certain = self.certain, False
        done = [self.visit(n) for n in nodes]
        self.certain = above
        return done

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        node.test = self.visit(node.test)
        node.body, node.orelse = self.uncertain([node.body, node.orelse])
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        node.values = [self.visit(node.values[0]), *self.uncertain(node.values[1:])]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        (node.body,) = self.uncertain([node.body])
        return node
