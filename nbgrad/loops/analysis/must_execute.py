"""Elements that are evaluated whatever tests say, and what must hold for others to be there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ...ir.expr import ZERO, Expr, both, either, invert
from ..ir.statements import Assign, Store, children, unparse

if TYPE_CHECKING:
    from .activity import Plan

__all__ = ["guarded", "surely"]


def surely(node: ast.AST | None) -> set[str]:
    """The elements that an expression evaluates in any case, as texts."""
    match node:
        case None:
            return set()
        case ast.IfExp():
            return surely(node.test) | (surely(node.body) & surely(node.orelse))
        case ast.BoolOp():
            return surely(node.values[0])
        case ast.Compare():
            return surely(node.left) | surely(node.comparators[0])
    own = {unparse(node)} if isinstance(node, ast.Subscript) else set()
    return own.union(*(surely(n) for n in children(node)))


def guarded(s: Assign | Store, atom: ast.expr, part: Expr, made: Plan) -> tuple[Expr | None, Expr]:
    """What must hold for the element `atom`, whose cotangent gets `part` from `s`, to be there (None if it surely is),
    and what it gets then."""
    if not isinstance(atom, ast.Subscript):
        return None, part
    test = _matters(part)
    if not isinstance(test, Expr) or unparse(atom) in surely(s.value):
        return None, part
    if made.independence.inside(s, unparse(atom.value), atom.slice):
        return None, part
    sides = [a for a in part.args[1:] if a is not ZERO]
    return test, sides[0] if part.fn.name == "select" and len(sides) == 1 else part  # type: ignore[union-attr]


def _matters(part: Expr) -> Expr | bool:
    """Where it is not zero because of a test."""
    if part.fn is None:
        return part.value != 0
    name, args = part.fn.name, part.args
    if name == "select":
        a, b = map(_matters, args[1:])
        return a if a is b else _either(_both(args[0], a), _both(invert(args[0]), b))
    if name in ("add", "sub"):
        return _either(*map(_matters, args))
    if name == "mul":
        return _both(*map(_matters, args))
    return _matters(args[0]) if name in ("neg", "div", "strong") else True


def _both(a: Expr | bool, b: Expr | bool) -> Expr | bool:
    if isinstance(a, Expr) and isinstance(b, Expr):
        return both(a, b)
    return False if a is False or b is False else b if a is True else a


def _either(a: Expr | bool, b: Expr | bool) -> Expr | bool:
    if isinstance(a, Expr) and isinstance(b, Expr):
        return either(a, b)
    return True if a is True or b is True else b if a is False else a
