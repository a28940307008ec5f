"""What of an expression is evaluated once, in any case, so that it may be put before the statement."""

from __future__ import annotations

import ast
from typing import Any

from .syntax import Transformer

__all__ = ["EvaluatedOnce", "uncertain_parts"]


def uncertain_parts(node: ast.AST) -> list[ast.AST]:
    """What of a node is evaluated later than the rest, several times, or perhaps not at all."""
    match node:
        case ast.IfExp(_, body, orelse):
            return [body, orelse]
        case ast.BoolOp(_, [_, *others]) | ast.Compare(comparators=[_, *others]):
            return list(others)
        case ast.Lambda(_, body):
            return [body]
        case ast.Assert(_, message) if message is not None:
            return [message]
        case (
            ast.ListComp(generators=[first, *_])
            | ast.SetComp(generators=[first, *_])
            | (ast.GeneratorExp(generators=[first, *_]) | ast.DictComp(generators=[first, *_]))
        ):
            return [n for n in ast.iter_child_nodes(node) if n is not first]
    return []


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

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        node.left = self.visit(node.left)
        node.comparators = [self.visit(node.comparators[0]), *self.uncertain(node.comparators[1:])]
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.test = self.visit(node.test)
        (node.msg,) = self.uncertain([node.msg]) if node.msg is not None else [None]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        (node.body,) = self.uncertain([node.body])
        return node
