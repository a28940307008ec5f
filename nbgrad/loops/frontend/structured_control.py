"""Structured control flow: analysis of break, continue and return, and their rewriting to flags."""

from __future__ import annotations

import ast
import copy
from typing import Any

from ..ir.names import Names
from .syntax import Transformer, bound_name, children, subtrees

__all__ = [
    "ONCE",
    "LoopElse",
    "TupleTargets",
    "always_jumps",
    "assignment",
    "contains_jump",
    "falls_through",
    "flag_assignment",
    "flag_breaks",
    "iterations_in_turn",
    "own_returns",
    "place_of",
    "with_location",
]


class TupleTargets:
    """Tells where ``a, b = v, w`` may be written as ``a = v`` and ``b = w``, in one function."""

    def __init__(self, function: ast.FunctionDef) -> None:
        nodes = subtrees(function)[1:]
        inner = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.Lambda)]
        self.in_functions = {n.id for f in inner for n in subtrees(f) if isinstance(n, ast.Name)}
        self.in_try = {id(n) for t in nodes if isinstance(t, ast.Try) for n in subtrees(t)}

    def one_by_one(self, s: ast.Assign) -> list[ast.stmt]:
        """The assignments; none where a value may read a name that is set before it, also by a call of a function
        inside, and where an error may leave some set and others not."""
        match s:
            case ast.Assign([ast.Tuple(elts=targets)], ast.Tuple(elts=values)) if len(targets) == len(values):
                names = [t.id for t in targets if isinstance(t, ast.Name)]
                plain = len(set(names)) == len(targets) and id(s) not in self.in_try
                if plain and not any(self.may_read(v, set(names[:k])) for k, v in enumerate(values)):
                    return [with_location(ast.Assign([t], v), s) for t, v in zip(targets, values, strict=True)]
        return []

    def may_read(self, value: ast.expr, names: set[str]) -> bool:
        nodes = subtrees(value)
        calls = any(isinstance(n, ast.Call) for n in nodes) and not names.isdisjoint(self.in_functions)
        return calls or any(isinstance(n, ast.Name) and n.id in names for n in nodes)


def contains_jump(s: ast.stmt, kinds: type | tuple = (ast.Break, ast.Continue, ast.Return)) -> bool:
    """Whether `s` contains a jump of one of `kinds` that leaves it; break and continue of loops in it do not count."""
    if isinstance(s, kinds):
        return True
    if isinstance(s, ast.For | ast.While):
        return any(contains_jump(b, ast.Return) for b in s.body) and (kinds is ast.Return)
    if isinstance(s, ast.If):
        return any(contains_jump(b, kinds) for b in [*s.body, *s.orelse])
    if isinstance(s, ast.Try):
        handled = [b for h in s.handlers for b in h.body]
        return any(contains_jump(b, kinds) for b in [*s.body, *handled, *s.orelse, *s.finalbody])
    return False


def always_jumps(body: list[ast.stmt], kinds: type | tuple = (ast.Break, ast.Continue, ast.Return)) -> bool:
    """Whether every path through `body` ends with a jump of one of `kinds`."""
    if not body:
        return False
    last = body[-1]
    if isinstance(last, ast.If):
        return always_jumps(last.body, kinds) and always_jumps(last.orelse, kinds)
    return isinstance(last, kinds)


def own_returns(body: list[ast.stmt]) -> list[ast.Return]:
    """The returns in the body of a function, without those of nested functions."""
    returns: list[ast.Return] = []
    stack: list[ast.AST] = list(body)
    while stack:
        n = stack.pop()
        if isinstance(n, ast.Return):
            returns.append(n)
        elif not isinstance(n, ast.FunctionDef):
            stack += children(n)
    return returns


def falls_through(body: list[ast.stmt]) -> bool:
    """Whether control may reach the end of `body`, the body of a function."""
    match body[-1] if body else None:
        case ast.Return() | ast.Raise():
            return False
        case ast.If(body=inner, orelse=orelse):
            return falls_through(inner) or falls_through(orelse)
        case ast.While(test=ast.Constant(value=test), body=inner) if test:
            return any(contains_jump(s, ast.Break) for s in inner)
    return True


def flag_breaks(body: list[ast.stmt], flag: str, jump: type[ast.stmt] = ast.Break) -> list[ast.stmt]:
    """The body of a loop, with ``flag = True`` before each break, which becomes a `jump`."""

    def flagged(block: list[ast.stmt]) -> list[ast.stmt]:
        return flag_breaks(block, flag, jump)

    statements: list[ast.stmt] = []
    for s in body:
        if isinstance(s, ast.Break):
            statements.append(flag_assignment(flag, True, s))
            s = ast.copy_location(jump(), s)
        elif isinstance(s, ast.If):
            s = ast.copy_location(ast.If(s.test, flagged(s.body), flagged(s.orelse)), s)
        elif isinstance(s, ast.For | ast.While):
            s = copy.copy(s)
            s.orelse = flagged(s.orelse)
        elif isinstance(s, ast.Try):
            s = copy.copy(s)
            s.body, s.orelse, s.finalbody = map(flagged, (s.body, s.orelse, s.finalbody))
            s.handlers = [copy.copy(h) for h in s.handlers]
            for h in s.handlers:
                h.body = flagged(h.body)
        statements.append(s)
    return statements


class _Jumps(Transformer):
    """Writes break for each continue of a loop."""

    def visit_Continue(self, s: ast.Continue) -> ast.stmt:
        return ast.copy_location(ast.Break(), s)

    def visit_For(self, s: ast.stmt) -> ast.stmt:
        return s  # its jumps are its own

    visit_While = visit_FunctionDef = visit_For


def jumps_as_breaks(body: list[ast.stmt], flag: str) -> list[ast.stmt]:
    """The body of a loop with break for each continue, and ``flag = True`` before each break."""
    return [_Jumps().visit(s) for s in flag_breaks(body, flag)]


def assignment(s: ast.stmt | ast.expr, target: ast.expr, value: ast.expr) -> ast.stmt:
    """``target = value``, with the source location of `s`."""
    return with_location(ast.Assign([target], value), s)


def flag_assignment(flag: str, value: bool, s: ast.stmt) -> ast.stmt:
    """``flag = value``, with the source location of `s`."""
    return with_location(ast.Assign([ast.Name(flag, ast.Store())], ast.Constant(value)), s)


def with_location(made: Any, s: ast.AST) -> Any:
    """The tree `made`, whose nodes without a source location get that of `s`."""
    for n in subtrees(made):
        if not hasattr(n, "lineno") and hasattr(n, "_attributes"):
            ast.copy_location(n, s)
    return made


#: The last part of the place of a loop that is an iteration of one that was written out.
ONCE = "once"


def iterations_in_turn(s: ast.For, iterations: list[list[ast.stmt]], names: Names) -> list[ast.stmt]:
    """The iterations of a loop that is written out. Those that may be left early are loops of one iteration each; those
    after a break are under a test."""
    if not any(map(contains_jump, s.body)):
        return [t for body in iterations for t in body]
    left = names.fresh("left") if any(contains_jump(b, ast.Break) for b in s.body) else ""
    done: list[ast.stmt] = []
    for k, body in reversed(list(enumerate(iterations))):
        once = ast.Call(bound_name(range, "range"), [ast.Constant(1)], [])
        loop = ast.For(ast.Name(names.fresh("once"), ast.Store()), once, jumps_as_breaks(body, left), [])
        loop.place = (*place_of(s), k, ONCE)  # type: ignore[attr-defined]
        if left and done:
            done = [ast.If(ast.UnaryOp(ast.Not(), ast.Name(left, ast.Load())), done, [])]
        done = [with_location(t, s) for t in (loop, *done)]
    return [flag_assignment(left, False, s), *done] if left else done


def place_of(s: ast.AST) -> tuple:
    """The place of a loop or test in its function; that of a copy of it says in which iteration of which loop."""
    return getattr(s, "place", (s.lineno, s.col_offset))  # type: ignore[attr-defined]


class LoopElse(Transformer):
    """Rewrites ``for ... else`` and ``while ... else`` with a flag that breaks set."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def visit_For(self, node: ast.For | ast.While) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if not node.orelse:
            return node
        rest, node.orelse = node.orelse, []
        if not any(contains_jump(s, ast.Break) for s in node.body):
            return [node, *rest]
        flag = self.names.fresh("broken")
        node.body = flag_breaks(node.body, flag)
        test = with_location(ast.UnaryOp(ast.Not(), ast.Name(flag, ast.Load())), node)
        return [flag_assignment(flag, False, node), node, ast.copy_location(ast.If(test, rest, []), node)]

    visit_While = visit_For
