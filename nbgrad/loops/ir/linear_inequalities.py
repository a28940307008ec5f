"""Linear inequalities over the integers: prove by Fourier-Motzkin elimination that a system has no solution.

A form maps names to coefficients, with the constant under the empty name; it denotes ``form >= 0``. Variables are
eliminated one by one; each inequality is tightened by rounding its constant down to an integer. The proof is sound but
not complete: large systems are given up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

from .terms import Binary, Compare, Constant, Logical, Term, Unary

__all__ = ["Form", "System", "contradict", "is_infeasible", "less_or_equal", "linear", "system", "test_forms"]

Form = dict[str, int]
#: The items of a form without zeros.
_Key = frozenset[tuple[str, int]]
#: Inequalities, ready for tests.
System = frozenset[_Key]
#: Systems with more inequalities than this are given up.
_MAX_INEQUALITIES = 150


def linear(term: Term, symbol: Callable[[Term], str | None]) -> Form | None:
    """`term` as a form, or None if it is not linear.

    `symbol` names a term that is no sum, difference or multiple; it gives None for a term that has no name.
    """
    match term:
        case Constant(int() as n):
            return {"": n}
        case Unary("-", operand):
            inner = linear(operand, symbol)
            return None if inner is None else _scaled(inner, -1)
        case Binary("+" | "-" as op, left, right):
            a, b = linear(left, symbol), linear(right, symbol)
            if a is None or b is None:
                return None
            return less_or_equal(_scaled(b, -1), a) if op == "+" else less_or_equal(b, a)
        case Binary("*", left, right):
            a, b = linear(left, symbol), linear(right, symbol)
            for p, q in ((a, b), (b, a)):
                if p is not None and q is not None and set(p) <= {""}:
                    return _scaled(q, p.get("", 0))
            return None
    name = symbol(term)
    return None if name is None else {name: 1}


def less_or_equal(a: Form, b: Form, gap: int = 0) -> Form:
    """The form for ``a + gap <= b``."""
    form = dict(b)
    for name, k in a.items():
        form[name] = form.get(name, 0) - k
    form[""] = form.get("", 0) - gap
    return {n: k for n, k in form.items() if k}


def test_forms(
    test: Term, holds: bool, form: Callable[[Term], Form | None], is_integer: Callable[[Term], bool]
) -> list[Form]:
    """The forms that follow from the outcome of a test.

    `form` gives that of an operand, or None; comparisons of operands that are not `is_integer` say nothing.
    """
    match test:
        case Unary("not", operand):
            return test_forms(operand, not holds, form, is_integer)
        case Logical(op, operands) if (op == "and") == holds:
            return [f for t in operands for f in test_forms(t, holds, form, is_integer)]
        case Compare(ops, operands) if (holds or len(ops) == 1) and all(map(is_integer, operands)):
            sides = [form(t) for t in operands]
            return [
                f
                for a, op, b in zip(sides, ops, sides[1:], strict=False)
                if a is not None and b is not None
                for f in _comparison_forms(a, op, b, holds)
            ]
    return []


def _comparison_forms(a: Form, op: str, b: Form, holds: bool = True) -> list[Form]:
    """The forms that follow from ``a op b`` if it holds, or from its negation; none if that is no conjunction."""
    if op in (">", ">="):
        return _comparison_forms(b, "<" if op == ">" else "<=", a, holds)
    if op in ("<", "<="):
        return [less_or_equal(a, b, int(op == "<"))] if holds else [less_or_equal(b, a, int(op == "<="))]
    return [less_or_equal(a, b), less_or_equal(b, a)] if (op == "==") == holds and op in ("==", "!=") else []


def _scaled(form: Form, k: int) -> Form:
    return {name: c * k for name, c in form.items()}


def system(forms: Iterable[Form]) -> System:
    """The inequalities of `forms`, to be tested together with others."""
    return frozenset([_tightened(form.items()) for form in forms])


def contradict(forms: Iterable[Form], form: Form) -> bool:
    """Whether one of `forms` alone contradicts `form`: their sum is a negative number. Found without elimination."""
    opposite = {n: -k for n, k in form.items() if n}
    least = -form.get("", 0)
    return any(
        len(f) == len(opposite) + ("" in f) and f.get("", 0) < least and opposite.items() <= f.items() for f in forms
    )


def is_infeasible(known: System, *forms: Form) -> bool:
    """Whether no integers satisfy all that is `known` and all `forms`; False where that cannot be proven."""
    return _impossible(known.union([_tightened(form.items()) for form in forms]))


@lru_cache(4096)
def _impossible(current: System | set[_Key]) -> bool:
    while True:
        if any([len(f) == 1 and not n and k < 0 for f in current for n, k in f]):
            return True
        above: dict[str, int] = {}
        below: dict[str, int] = {}
        for f in current:
            for n, k in f:
                if n:
                    signs = above if k > 0 else below
                    signs[n] = signs.get(n, 0) + 1
        if not (above or below) or len(current) > _MAX_INEQUALITIES:
            return False
        unbounded = above.keys() ^ below.keys()
        if unbounded:  # these have values that satisfy all that they are in
            current = {f for f in current if unbounded.isdisjoint([n for n, _ in f])}
            continue
        name = min(sorted(above), key=lambda n: above[n] * below[n])
        low: list[Form] = []
        high: list[Form] = []
        rest: set[_Key] = set()
        for f in current:
            form = dict(f)
            k = form.get(name, 0)
            if k:
                (low if k > 0 else high).append(form)
            else:
                rest.add(f)
        for a in low:
            for b in high:
                p, q = -b[name], a[name]
                combined = {n: q * k for n, k in b.items()}
                for n, k in a.items():
                    combined[n] = combined.get(n, 0) + p * k
                rest.add(_tightened(combined.items()))
        current = rest


def _tightened(items: Iterable[tuple[str, int]]) -> _Key:
    """The items of a form, divided by the common divisor of the coefficients, with the constant rounded down."""
    nonzero = [(n, k) for n, k in items if k]
    common = math.gcd(*[k for n, k in nonzero if n])
    return frozenset([(n, k // common) for n, k in nonzero if k // common] if common > 1 else nonzero)
