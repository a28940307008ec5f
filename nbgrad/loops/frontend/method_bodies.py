"""Bodies of methods as statements of the function that calls them."""

from __future__ import annotations

import ast

from .structured_control import always_jumps, contains_jump, own_returns, with_location
from .syntax import Transformer, copy_tree

__all__ = ["OtherUse", "WithOuterNames", "with_result"]

_ENDS = (ast.Return, ast.Raise)


class OtherUse(Exception):
    """An instance, or one of its methods, has a form that is left as it is; `line` is that of the statement, if any."""

    def __init__(self, line: int | None = None) -> None:
        super().__init__()
        self.line = line


class WithOuterNames(Transformer):
    """Puts what names from outside stand for in their places."""

    def __init__(self, names: dict[str, ast.expr]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.names or not isinstance(node.ctx, ast.Load):
            return node
        return ast.copy_location(copy_tree(self.names[node.id]), node)


def with_result(body: list[ast.stmt], result: str) -> list[ast.stmt]:
    """A body that binds a name to what it would return: what follows a branch that returns is in the other one."""
    done: list[ast.stmt] = []
    for k, s in enumerate(body):
        rest = body[k + 1 :]
        if isinstance(s, ast.Return):
            value = s.value or ast.Constant(None)
            return [*done, with_location(ast.Assign([ast.Name(result, ast.Store())], value), s)]
        if isinstance(s, ast.If) and contains_jump(s, ast.Return):
            first, second = always_jumps(s.body, _ENDS), always_jumps(s.orelse, _ENDS)
            if not (first or second):
                raise OtherUse
            s.body = with_result(s.body if first else [*s.body, *rest], result)
            s.orelse = with_result(s.orelse if second else [*s.orelse, *rest], result)
            return [*done, s]
        if own_returns([s]):
            raise OtherUse  # in a loop
        done.append(s)
    if not done or not always_jumps(done, _ENDS):
        done.append(ast.Assign([ast.Name(result, ast.Store())], ast.Constant(None)))
    return done
