"""Numbers that are sums of squares: their roots are lengths, with the derivative 0 where they are 0."""

from __future__ import annotations

import ast

from ..ir.algebra import Algebra
from ..ir.singularities import of_squares
from ..ir.statements import Assign, Function, walk, writes

__all__ = ["sums_of_squares"]


def sums_of_squares(f: Function, algebra: Algebra) -> set[str]:
    """The active names to which nothing but sums of squares is assigned, and of such names."""
    values: dict[str, list[ast.expr]] = {}
    others = set(f.parameters)
    for s in walk(f.body):
        if isinstance(s, Assign):
            values.setdefault(s.name, []).append(s.value)
        else:
            others.update(writes(s))
    found = {n for n in values if n in algebra.active and n not in others}
    while True:
        kept = {n for n in found if all(of_squares(algebra.expression(v), found) for v in values[n])}
        if kept == found:
            return found
        found = kept
