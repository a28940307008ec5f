"""Must-execute analysis: elements that are evaluated unconditionally, and when others are known to be in range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.expr import ZERO, Expr, both, either, invert
from ..ir.statements import Assign, Store
from ..ir.terms import Compare, Element, Logical, Select, Term

if TYPE_CHECKING:
    from .reverse_plan import Plan

__all__ = ["guarded_contribution", "must_evaluate"]


def must_evaluate(term: Term) -> set[Element]:
    """The elements that an expression evaluates unconditionally."""
    certain = term.operands
    match term:
        case Select(test, body, orelse):
            return must_evaluate(test) | (must_evaluate(body) & must_evaluate(orelse))
        case Logical():
            certain = certain[:1]
        case Compare():
            certain = certain[:2]
    own: set[Element] = {term} if isinstance(term, Element) else set()
    return own.union(*map(must_evaluate, certain))


def guarded_contribution(s: Assign | Store, atom: Term, part: Expr, plan: Plan) -> tuple[Expr | None, Expr]:
    """The condition under which the element `atom` is in range, and the contribution to its cotangent in that case.

    `part` is the contribution from `s`. The condition is None if the element is provably in range.
    """
    if not isinstance(atom, Element):
        return None, part
    test = _nonzero_condition(part)
    if not isinstance(test, Expr) or atom in must_evaluate(s.value):
        return None, part
    if plan.dependence_tests.index_in_range(s, atom.array, atom.index):
        return None, part
    sides = [a for a in part.args[1:] if a is not ZERO]
    return test, sides[0] if part.fn.name == "select" and len(sides) == 1 else part  # type: ignore[union-attr]


def _nonzero_condition(part: Expr) -> Expr | bool:
    """The condition under which a contribution may be nonzero."""
    if part.fn is None:
        return part.value != 0
    name, args = part.fn.name, part.args
    if name == "select":
        a, b = map(_nonzero_condition, args[1:])
        return a if a is b else _either(_both(args[0], a), _both(invert(args[0]), b))
    if name in ("add", "sub"):
        return _either(*map(_nonzero_condition, args))
    if name == "mul":
        return _both(*map(_nonzero_condition, args))
    return _nonzero_condition(args[0]) if name in ("neg", "div", "strong") else True


def _both(a: Expr | bool, b: Expr | bool) -> Expr | bool:
    if isinstance(a, Expr) and isinstance(b, Expr):
        return both(a, b)
    return False if a is False or b is False else b if a is True else a


def _either(a: Expr | bool, b: Expr | bool) -> Expr | bool:
    if isinstance(a, Expr) and isinstance(b, Expr):
        return either(a, b)
    return True if a is True or b is True else b if a is False else a
