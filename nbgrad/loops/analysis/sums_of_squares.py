"""Sums of squares: scalars whose square roots are norms, with the derivative 0 where they are 0."""

from __future__ import annotations

import ast

from ..ir.algebra import Algebra
from ..ir.singularities import is_sum_of_squares
from ..ir.statements import Assign, Function, walk, writes

__all__ = ["sums_of_squares"]


def sums_of_squares(f: Function, algebra: Algebra) -> set[str]:
    """The active names that are only assigned sums of squares and of such names."""
    values: dict[str, list[ast.expr]] = {}
    others = set(f.parameters)
    for s in walk(f.body):
        if isinstance(s, Assign):
            values.setdefault(s.name, []).append(s.value)
        else:
            others.update(writes(s))
    candidates = {n for n in values if n in algebra.active and n not in others}
    while True:
        remaining = {
            n for n in candidates if all(is_sum_of_squares(algebra.expression(v), candidates) for v in values[n])
        }
        if remaining == candidates:
            return candidates
        candidates = remaining
