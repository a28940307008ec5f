"""Bounds of integers, such as lengths of arrays and indices, as far as the scope knows them while it lowers."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from ..ir.affine import is_length, offset, plus
from ..ir.terms import Binary, Call, Global, Term, Variable, substitute

if TYPE_CHECKING:
    from .lowering_state import LoweringState

__all__ = ["IntegerBounds", "name_of"]


class IntegerBounds:
    """What is known of integers."""

    shared: LoweringState

    def is_constant_scalar(self, name: str) -> bool:
        raise NotImplementedError

    def with_known_integers(self, term: Term) -> Term:
        """`term` with the values of known integers for their names."""
        known = self.shared.known_integers
        return substitute(term, {Variable(n): known[n] for n in term.reads & known.keys()})

    def nonnegative(self, term: Term) -> bool:
        """Whether an integer is provably non-negative."""
        base, k = offset(term)
        if base is None:
            return k >= 0
        name = name_of(base)
        if name in self.shared.length_upper_bounds:  # a length
            return k >= 0
        if name in self.shared.positive:
            return k >= -1
        if name in self.shared.ranges:
            return self.nonnegative(plus(self.shared.ranges[name][0], k))
        known = self.shared.known_integers.get(name, base)
        if known is not base:
            return self.nonnegative(plus(known, k))
        match base:
            case Call(Global(_, function), operands) if function in (max, min):
                return k >= 0 and (any if function is max else all)(map(self.nonnegative, operands))
            case Binary("+" | "*" | "//", left, right):
                return k >= 0 and self.nonnegative(left) and self.nonnegative(right)
            case Binary("%", _, divisor):
                return k >= 0 and self.nonnegative(divisor)
        return k >= 0 and is_length(base)

    def provably_greater(self, a: Term, b: Term) -> bool:
        """Whether a > b provably."""
        (base, k), (other, j) = offset(a), offset(b)
        if base is other:
            return k > j
        least, most = self.shared.ranges.get(name_of(base)), self.shared.ranges.get(name_of(other))
        if least is not None:
            return self.provably_greater(plus(least[0], k), b)
        return most is not None and self.provably_greater(a, plus(most[1], j))

    def constant_upper_bound(self, term: Term) -> Term | None:
        """An upper bound of `term` in terms of constants; None if there is none."""
        term = self.with_known_integers(term)
        if term.named & self.shared.growing:
            return None
        if all(map(self.is_constant_scalar, term.reads)):
            return term
        whole = self.shared.view_lengths.get(term, term)
        if whole is not term:
            return self.constant_upper_bound(whole)
        base, k = offset(term)
        name = name_of(base)
        if name in self.shared.length_upper_bounds:
            return plus(self.shared.length_upper_bounds[name], k)
        if name in self.shared.ranges:
            return self.constant_upper_bound(plus(self.shared.ranges[name][1], k))
        match term:
            case Binary("-", left, right) if self.nonnegative(right):
                return self.constant_upper_bound(left)
            case Call(Global(_, f), (Call(_, (start, stop, _)),)) if f is len and self.nonnegative(start):
                return self.constant_upper_bound(stop)
            case Call(Global(_, f), operands) if f is min:
                return next((t for t in map(self.constant_upper_bound, operands) if t is not None), None)
            case Binary("*", left, right) if not (self.nonnegative(left) and self.nonnegative(right)):
                return None
            case Binary("+" | "*") | Call(Global(_, builtins.max)):
                bounds = [b for b in map(self.constant_upper_bound, term.operands) if b is not None]
                return term.rebuilt(tuple(bounds)) if len(bounds) == len(term.operands) else None
        return None


def name_of(term: Term | None) -> str:
    """The name of a variable; "" for other terms."""
    return term.name if isinstance(term, Variable) else ""
