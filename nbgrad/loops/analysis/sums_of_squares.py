"""Sums of squares: scalars and arrays whose square roots are norms, with the derivative 0 where they are 0."""

from __future__ import annotations

from ..ir.algebra import Algebra
from ..ir.singularities import is_sum_of_squares
from ..ir.statements import Alloc, Assign, Function, Store, walk, writes
from ..ir.terms import Term, Variable

__all__ = ["sums_of_squares"]


def sums_of_squares(f: Function, algebra: Algebra) -> set[Term]:
    """The active scalars and local arrays that only hold sums of squares and of each other."""
    values: dict[str, list[Term]] = {}
    others = set(f.parameters)
    for s in walk(f.body):
        if isinstance(s, Assign):
            values.setdefault(s.name, []).append(s.value)
        elif isinstance(s, Store):
            values.setdefault(s.array, []).append(s.value)
        elif not isinstance(s, Alloc):
            others.update(writes(s))
    candidates: set[Term] = {Variable(n) for n in values if n in algebra.active and n not in others}
    while True:
        remaining = {
            t for t in candidates if all(is_sum_of_squares(algebra.expression(v), candidates) for v in values[str(t)])
        }
        if remaining == candidates:
            return candidates
        candidates = remaining
