"""Where statements jump to: break, continue and return."""

from __future__ import annotations

import ast
import copy
from typing import Any

from .names import Names
from .statements import children, subtrees

__all__ = ["LoopElse", "ends", "flagged", "jumps", "located", "own_returns", "runs_off", "setting"]


def jumps(s: ast.stmt, kinds: type | tuple = (ast.Break, ast.Continue, ast.Return)) -> bool:
    """Whether `s` contains a jump out of itself (break and continue of inner loops do not count)."""
    if isinstance(s, kinds):
        return True
    if isinstance(s, ast.For | ast.While):
        return any(jumps(b, ast.Return) for b in s.body) and (kinds is ast.Return)
    if isinstance(s, ast.If):
        return any(jumps(b, kinds) for b in [*s.body, *s.orelse])
    return False


def ends(body: list[ast.stmt]) -> bool:
    """Whether `body` always ends with a jump."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return ends(last.body) and ends(last.orelse)
    return isinstance(last, ast.Break | ast.Continue | ast.Return)


def own_returns(node: ast.FunctionDef) -> list[ast.Return]:
    """The returns of a function, not those of functions inside."""
    found: list[ast.Return] = []
    stack: list[ast.AST] = list(node.body)
    while stack:
        n = stack.pop()
        if isinstance(n, ast.Return):
            found.append(n)
        elif not isinstance(n, ast.FunctionDef):
            stack += children(n)
    return found


def runs_off(body: list[ast.stmt]) -> bool:
    """Whether the end of `body`, that of a function, may be reached."""
    match body[-1] if body else None:
        case ast.Return() | ast.Raise():
            return False
        case ast.If(body=inner, orelse=orelse):
            return runs_off(inner) or runs_off(orelse)
        case ast.While(test=ast.Constant(value=test), body=inner) if test:
            return any(jumps(s, ast.Break) for s in inner)
    return True


def flagged(body: list[ast.stmt], flag: str) -> list[ast.stmt]:
    """`body`, of a loop, where what is called `flag` is set before a break."""
    found: list[ast.stmt] = []
    for s in body:
        if isinstance(s, ast.Break):
            found.append(setting(flag, True, s))
        elif isinstance(s, ast.If):
            s = ast.copy_location(ast.If(s.test, flagged(s.body, flag), flagged(s.orelse, flag)), s)
        elif isinstance(s, ast.For | ast.While):
            s = copy.copy(s)
            s.orelse = flagged(s.orelse, flag)
        found.append(s)
    return found


def setting(flag: str, value: bool, s: ast.stmt) -> ast.stmt:
    """``flag = value``, at the place of `s`."""
    return located(ast.Assign([ast.Name(flag, ast.Store())], ast.Constant(value)), s)


def located(made: Any, s: ast.AST) -> Any:
    """`made`, which is at the place of `s` where it has none."""
    for n in subtrees(made):
        if not hasattr(n, "lineno") and hasattr(n, "_attributes"):
            ast.copy_location(n, s)
    return made


class LoopElse(ast.NodeTransformer):
    """``for ... else`` by a flag."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def visit_For(self, node: ast.For | ast.While) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if not node.orelse:
            return node
        rest, node.orelse = node.orelse, []
        if not any(jumps(s, ast.Break) for s in node.body):
            return [node, *rest]
        flag = self.names.fresh("broken")
        node.body = flagged(node.body, flag)
        test = located(ast.UnaryOp(ast.Not(), ast.Name(flag, ast.Load())), node)
        return [setting(flag, False, node), node, ast.copy_location(ast.If(test, rest, []), node)]

    visit_While = visit_For
