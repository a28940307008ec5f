"""Code generation for tangents (forward mode): each statement is accompanied by its directional derivative."""

from __future__ import annotations

from ...ir.expr import ONE, ZERO, Expr, scaled_partial, select, substitute, topological_order, var
from ..analysis.must_execute import guarded_contribution
from ..analysis.reverse_plan import Plan
from ..frontend.primitive_calls import tangent_call
from ..ir.algebra import COTANGENT, term_of
from ..ir.effects import Return
from ..ir.printer import Definition, definition
from ..ir.reverse_ir import FLOAT_ZERO, Item, Step, product_nest
from ..ir.selections import is_select
from ..ir.singularities import as_strong_product, normalize_strong
from ..ir.statements import Assign, Call, Function, Loop, Store, walk, writes
from ..ir.strong_chains import divides_by, may_vanish, zero_where
from ..ir.terms import Element, Term, Variable, variables
from . import bounds_checks
from .sweep_builder import SweepBuilder

__all__ = ["TangentBuilder"]


class TangentBuilder(SweepBuilder):
    """Makes the tangent of a function.

    Attributes
    ----------
    tangent_parameters : list of str
        The parameters whose tangents are arguments; the tangent of an array is modified along with it.
    """

    def __init__(self, f: Function, plan: Plan, wrt: list[str]) -> None:
        super().__init__(f, plan)
        self.wrt = wrt
        names = [n for n in f.parameters if n in plan.active]
        names += [n for s in walk(f.body) for n in writes(s) if n in plan.active]
        self.dots = self.derivatives_of = {n: self.fresh(f"{n}_dot") for n in dict.fromkeys(names)}
        self.tangent_parameters = [p for p in f.parameters if p in plan.active]
        self.entry = self.fresh(f"{f.name}_tangent")

    def source(self) -> Definition:
        results = self.f.results or []
        dots = [Variable(self.dots[r]) if r in self.dots else FLOAT_ZERO for r in results if self.wrt]
        begun = [n for n in self.dots if n not in self.tangent_parameters and not self.f.ranks.get(n)]
        head = [Step(Variable(self.dots[n]), "=", FLOAT_ZERO) for n in begun]
        tail = [Return((*variables(results), *dots))] if results else []
        given = [*self.f.parameters, *(self.dots[n] for n in self.tangent_parameters)]
        alike = bounds_checks.shape_checks(
            {n: self.dots[n] for n in self.tangent_parameters if self.f.ranks[n]}, self.f
        )
        return definition(self.entry, given, [*alike, *head, *self.block(self.f.body), *tail])

    def is_printed_variable(self, name: str) -> bool:
        return name in self.f.ranks or name in self.dots.values()

    def assign(self, s: Assign) -> list[Item]:
        if s.name not in self.dots:
            return super().assign(s)
        once = s in self.plan.defined
        derivative = self.derivative(s, var(Variable(s.name)) if once else None)
        own = Step(self.private_sum(Variable(self.dots[s.name])), "=", self.with_private_sums(derivative))
        return [*super().assign(s), own] if once else [own, *super().assign(s)]

    def call(self, s: Call) -> list[Item]:
        return tangent_call(s, self.dots, self.f, self.fresh)

    def store(self, s: Store) -> list[Item]:
        own = [Step(self.dot(s.target), "=", self.derivative(s))] if s.array in self.dots else []
        return [*own, *super().store(s)]

    def loop_items(self, s: Loop) -> list[Item]:
        items, found = super().loop_items(s), self.matrix_product(s)
        if found is None or found.target.array not in self.dots:
            return items
        parts, dot = found.parts, self.dot_of(found.target)
        both = [parts._replace(left=self.dot_of(parts.left))] if parts.left.array in self.dots else []
        both += [parts._replace(right=self.dot_of(parts.right))] if parts.right.array in self.dots else []
        return [*(product_nest(found._replace(target=dot, parts=each)) for each in both), *items]

    def derivative(self, s: Assign | Store, known: Expr | None = None) -> Term:
        """The tangent of what `s` writes; `known` holds the value, if it is written before the tangent."""
        total: Expr | None = None
        inside = topological_order([self.plan.algebra.expression(s.value)])
        strong = {node.args[1] for node in inside if node.fn is not None and node.fn.name == "strong"}
        seed = COTANGENT if strong else ONE
        for atom, part in self.plan.algebra.pull(s.value, seed, known, dot=lambda a: var(self.dot(a))):
            there, part = guarded_contribution(s, atom, part, self.plan)
            dot = var(self.dot(atom))
            if strong:
                term = substitute(part, {COTANGENT: dot})
            else:  # a select that chooses 0 gives 0, even if the tangent is infinite
                term = scaled_partial(dot, part) if is_select(part) else part * dot
            if dot not in topological_order([part]):
                infinite = var(atom) in strong or self.plan.algebra.may_be_infinite(part)
                term = as_strong_product(term, dot, infinite=infinite)
            factor = substitute(part, {COTANGENT: ONE})  # it may vanish where the tangent is infinite
            overflows = not self.plan.algebra.overflowing.isdisjoint(atom.reads) and divides_by(factor, var(atom))
            if overflows or (self.plan.algebra.may_be_infinite(var(atom)) and may_vanish(factor, known)):
                # its tangent is infinite, too
                term = zero_where(factor, term)
            term = term if there is None else select(there, term, ZERO)
            total = term if total is None else total + term
        if total is None:
            return FLOAT_ZERO
        return term_of(normalize_strong(total), self.free, s in self.plan.vectorized_statements)

    def dot(self, atom: Variable | Element) -> Variable | Element:
        """The tangent of a variable or an element."""
        return Variable(self.dots[atom.name]) if isinstance(atom, Variable) else self.dot_of(atom)

    def dot_of(self, e: Element) -> Element:
        return Element(self.dots[e.array], e.index)
