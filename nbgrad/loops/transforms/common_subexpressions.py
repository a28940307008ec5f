"""Common subexpressions: those that are cheaper to store than to compute again get a name.

These are expensive calls, and factors computed from elements that would otherwise have to be stored. A value that has
a name is computed once, and derivatives read it; the results stay the same.
"""

from __future__ import annotations

from ..analysis.cost_model import is_expensive
from ..ir.algebra import Algebra
from ..ir.statements import (
    Assign,
    Block,
    Function,
    If,
    Loop,
    Statement,
    Store,
    Swap,
    nested_blocks,
    walk,
    writes,
)
from ..ir.terms import Binary, Call, Compare, Element, Logical, Select, Term, Variable, subterms
from ..ir.type_inference import kind_of

__all__ = ["SubexpressionNaming", "name_expensive_values"]

#: Expressions that evaluate some of their operands conditionally.
_CONDITIONAL = (Select, Logical, Compare)


def name_expensive_values(f: Function, algebra: Algebra, whole: set[Statement]) -> bool:
    """Assign expensive calls and factors in loops to names before the statements that contain them.

    Derivatives then use their values, which are computed once or stored. The values of statements in `whole` have names
    already. Returns whether any were named.
    """
    naming = _Calls(f, algebra)
    named = [_name(s.body, naming, whole) for s in walk(f.body) if isinstance(s, Loop)]
    return any(named)


def _name(block: Block, naming: _Calls, whole: set[Statement]) -> bool:
    """The same for a block of a loop."""
    changed = False
    for s in list(block):
        for inner in nested_blocks(s) if isinstance(s, If) else []:
            changed |= _name(inner, naming, whole)
        if not isinstance(s, Assign | Store) or writes(s)[0] not in naming.algebra.active:
            continue
        value, assignments = naming.with_names(s, s not in whole)
        if assignments:
            s.value, changed = value, True
            at = block.index(s)
            block[at:at] = assignments
    return changed


class SubexpressionNaming:
    """Replaces subexpressions by names, where they are unconditionally evaluated."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.new_assignments: dict[Term, Assign] = {}

    def base_name(self, term: Term) -> str:
        """The base of the name for a subexpression; empty for one that stays."""
        raise NotImplementedError

    def with_names(self, s: Assign | Store, itself: bool = True) -> tuple[Term, list[Assign]]:
        """The value of `s` with names, and their assignments, one for each distinct subexpression.

        Without `itself`, the value as a whole is not replaced.
        """
        self.new_assignments = {}
        whole = itself or isinstance(s.value, _CONDITIONAL)
        value = self.named(s.value) if whole else self.named_inside(s.value)
        for assignment in self.new_assignments.values():
            assignment.source_location = s.source_location
        return value, list(self.new_assignments.values())

    def named(self, term: Term) -> Term:
        """`term` with names for it and its subexpressions."""
        base = self.base_name(term)
        if isinstance(term, _CONDITIONAL) or (isinstance(term, Element) and not base):
            return term
        result = self.named_inside(term)
        return self.name(result, base) if base else result

    def named_inside(self, term: Term) -> Term:
        """`term` with names for its subexpressions."""
        return self.name_operands(term.rebuilt(tuple(map(self.named, term.operands))))

    def name_operands(self, term: Term) -> Term:
        """`term`, whose subexpressions have been named, with names for operands that depend on their siblings."""
        return term

    def name(self, term: Term, base: str) -> Variable:
        if term not in self.new_assignments:
            new = self.f.names.fresh(base, plain=False)
            self.f.ranks[new], self.f.kinds[new] = 0, kind_of(term, self.f)
            self.new_assignments[term] = Assign(new, term)
        return Variable(self.new_assignments[term].name)


class _Calls(SubexpressionNaming):
    """Replaces expensive calls, and factors whose elements would have to be stored."""

    def __init__(self, f: Function, algebra: Algebra) -> None:
        super().__init__(f)
        self.algebra = algebra
        self.written = {n for s in walk(f.body) if isinstance(s, Store | Swap) for n in writes(s)}

    def base_name(self, term: Term) -> str:
        if not is_expensive(term):
            return ""
        return term.function.text.rpartition(".")[2] if isinstance(term, Call) else "power"

    def name_operands(self, term: Term) -> Term:
        if isinstance(term, Binary) and term.op == "*":
            return Binary("*", self.factor(term.left, term.right), self.factor(term.right, term.left))
        return term

    def factor(self, term: Term, other: Term) -> Term:
        """`term`, or a name for it if storing its value takes less memory than storing its elements.

        That is so if it is a sum with elements that are overwritten, and `other` reads no such elements.
        """
        if not isinstance(term, Binary) or term.op not in ("+", "-"):
            return term
        elements = any(isinstance(t, Element) and t.array in self.written for t in subterms(term))
        both = self.algebra.depends(term) and self.algebra.depends(other)
        return self.name(term, "sum") if elements and both and self.written.isdisjoint(other.reads) else term

    def name(self, term: Term, base: str) -> Variable:
        result = super().name(term, base)
        if self.algebra.depends(term):
            self.algebra.active.add(result.name)
        return result
