"""What of an expression is evaluated once, in any case, so that it may be put before the statement."""

from __future__ import annotations

import ast
from collections.abc import Sequence
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
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            return [n for n in ast.iter_child_nodes(node) if n is not node.generators[0]]
        case ast.comprehension(ifs=tests):
            return list(tests)
    return []


class EvaluatedOnce(Transformer):
    """A transformer that knows whether what it visits is evaluated once, in any case: `certain`. What is done before
    the statement is in `before`."""

    certain = False
    perhaps: Sequence[ast.AST] = ()  # the uncertain parts of the node whose children are visited
    before: list[ast.stmt]

    def uncertain(self, nodes: list[Any]) -> list[Any]:
        """Visit what is evaluated later, several times, or not at all."""
        above, self.certain = self.certain, False
        done = [self.visit(n) for n in nodes]
        self.certain = above
        return done

    def generic_visit(self, node: Any) -> Any:
        above, self.perhaps = self.perhaps, uncertain_parts(node)
        done = super().generic_visit(node)
        self.perhaps = above
        return done

    def _visited(self, node: Any) -> Any:
        above = self.certain
        self.certain = above and not any(node is n for n in self.perhaps)
        done = super()._visited(node)
        self.certain = above
        return done
