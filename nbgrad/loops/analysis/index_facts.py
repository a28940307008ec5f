"""Index facts: linear inequalities that hold where an index is used, to prove it in range."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from ..ir.affine import offset
from ..ir.linear_inequalities import Form, contradict, is_infeasible, less_or_equal, linear, system, test_forms
from ..ir.statements import Alloc, Assign, If, Loop, Statement, walk, writes
from ..ir.terms import (
    ZERO,
    Binary,
    Call,
    Constant,
    Element,
    Global,
    Length,
    Term,
    Variable,
    reads,
    subterms,
)
from ..ir.type_inference import kind_of
from .accesses import Access, Accesses, PathCondition

if TYPE_CHECKING:
    from ..ir.statements import Function
    from .reverse_plan import Plan

__all__ = ["IndexFacts", "end_bounds", "minmax_operands"]


class IndexFacts(Accesses):
    """Proves indices of a function in range."""

    def __init__(self, f: Function, plan: Plan) -> None:
        super().__init__(f, plan)
        self.symbol_terms: dict[str, Term] = {}  # the terms that symbols of linear forms represent
        self.symbol_expressions: dict[str, Term] = {}  # of these, the minima, maxima, quotients and remainders
        self.branches_write: dict[Statement | None, set[str]] = {}
        self.path_facts: dict[tuple, list[Form]] = {}
        self.passed_checks = set(self.checks)  # the checks that have already passed

    # What can be proven.

    def _varies_in_block(self, a: Access) -> bool:
        """Whether an index may have another value at the next statement of a block."""
        around = [p for p in a.path if isinstance(p, Loop)]
        if not around:
            return True
        own = {p.index for p in around if p.index}
        return any(self.written[around[-1]][n] > (n in own) for n in reads(a.index, a.size))

    def _prove_in_range(self, a: Access) -> bool:
        """Record which ends of an index are proven in range; whether both are."""
        x, size = self._linear_form(a.index), self._linear_form(a.size)
        if x is None or size is None:
            return False
        constant = x.get("", 0) if set(x) <= {""} else None
        if constant is not None:
            a.low, a.high = constant < 0, constant >= 0
        negative, large = less_or_equal(x, {}, 1), less_or_equal(size, x)
        at_hand = self._facts_on_path(a)
        a.low, a.high = a.low and not contradict(at_hand, negative), a.high and not contradict(at_hand, large)
        if not (a.low or a.high):
            return True
        facts = at_hand + self._definition_equalities({n for f in at_hand for n in f} | reads(a.index, a.size), a)
        facts = self._connected_facts({*x, *size}, facts)
        facts += self._symbol_constraints({n for form in (*facts, x, size) for n in form}, facts)
        known = system(facts)
        if a.low:
            too_small = less_or_equal(x, less_or_equal(size, {}), 1)
            a.low = not (is_infeasible(known, negative) or is_infeasible(known, too_small))
        if a.high:
            a.high = not is_infeasible(known, large)
        return not (a.low or a.high)

    def _connected_facts(self, names: set[str], forms: list[Form]) -> list[Form]:
        """The inequalities connected to `names`, directly or through shared names."""
        connected: list[Form] = []
        rest, new = forms, {""}
        while new:
            names = names - {""}
            for name in names & self.symbol_expressions.keys():
                atoms = [
                    t for t in subterms(self.symbol_expressions[name]) if isinstance(t, Variable | Length | Element)
                ]
                names = names | {s for t in atoms if (s := self._symbol(t))}
            near = [form for form in rest if not names.isdisjoint(form)]
            rest = [form for form in rest if names.isdisjoint(form)]
            new = {n for form in near for n in form} - names - {""}
            names, connected = names | new, connected + near
        return connected

    def _facts_on_path(self, a: Access) -> list[Form]:
        """What the loops, tests and checks around an access say."""
        key = a.path, id(self.blocks[a.statement][-1]), len(self.passed_checks)
        if key not in self.path_facts:
            self.path_facts[key] = self._path_constraints(a)
        return self.path_facts[key]

    def _path_constraints(self, a: Access) -> list[Form]:
        forms: list[Form] = [*self.length_constraints]
        for p in a.path:
            if isinstance(p, PathCondition):
                if not (p.test.reads | self._resized_in(p.test)) & self._written_in(p.at):
                    forms += self._test_constraints(p.test, p.holds, self._linear_form)
                continue
            base, step = offset(p.step)
            if not p.index or base is not None or not step or self.written[p][p.index] > 1:
                continue
            if self._resized_in(p.start, p.stop) & set(self.written[p]):
                continue
            here, up = {p.index: 1}, step > 0
            start, ends = self._linear_form(p.start), map(self._linear_form, end_bounds(p))
            if start is not None:
                forms.append(less_or_equal(start, here) if up else less_or_equal(here, start))
            forms += [
                less_or_equal(here, stop, 1) if up else less_or_equal(stop, here, 1)
                for stop in ends
                if stop is not None
            ]
        for s in self.checks:
            if (
                any(self.blocks[s][-1] is b for b in self.blocks[a.statement])
                and s in self.passed_checks
                and not (s.test.reads & self.plan.dependence_tests.varying or self._resized_in(s.test))
            ):
                forms += self._test_constraints(s.test, False, self._linear_form)
        return forms

    def _written_in(self, s: Statement | None) -> set[str]:
        """The names that the branches of a statement write."""
        if s not in self.branches_write:
            self.branches_write[s] = {n for t in walk([s]) for n in writes(t)} if isinstance(s, If) else set()
        return self.branches_write[s]

    def _definition_equalities(self, names: set[str], a: Access) -> list[Form]:
        """Equalities from the definitions of integers that are assigned once per iteration."""
        forms: list[Form] = []
        pending = sorted(names & self.definitions.keys())
        for name in pending:
            definition = self._definition(name, a.statement)
            if definition is None or kind_of(definition.value, self.f) != "int":
                continue
            around = [p for p in a.path if isinstance(p, Loop)]
            read = definition.value.reads
            fixed = {n for n in read if all(
                not self.written[p][n] or (p.index == n and self.written[p][n] == 1 and p in self.enclosing[definition])
                or self._definition(n, a.statement) is not None for p in around[:1])}  # fmt: skip
            value = self._linear_form(definition.value)
            if fixed == read and value is not None and (around or not read & self.plan.dependence_tests.varying):
                forms += [less_or_equal(value, {name: 1}), less_or_equal({name: 1}, value)]
                pending += sorted((read & self.definitions.keys()) - {*pending})
        return forms

    def _definition(self, name: str, s: Statement) -> Assign | None:
        """The statement that assigns `name`, once in each iteration, before `s`."""
        definitions = [
            d for d in self.definitions.get(name, ()) if any(self.plan.defined[d] is b for b in self.blocks[s])
        ]
        return definitions[0] if len(definitions) == 1 and definitions[0] is not s else None

    @cached_property
    def length_constraints(self) -> list[Form]:
        least = [
            less_or_equal(form, {str(Length(s.name, k)): 1})
            for s in self.f.body if isinstance(s, Alloc)
            for k, n in enumerate(s.shape)
            for m in minmax_operands(n, max)
            if not m.reads & self.plan.dependence_tests.varying and (form := self._linear_form(m)) is not None
        ]  # fmt: skip
        positive = [{str(Length(n, k)): 1} for n, rank in self.f.ranks.items() for k in range(rank)]
        return [*least, *self.plan.dependence_tests.length_equalities, *positive]

    def _linear_form(self, term: Term) -> Form | None:
        """An index or bound as a linear form in the current values of its names."""
        return linear(term, self._symbol)

    def _symbol(self, term: Term) -> str | None:
        """The symbol of a term that is no sum, difference or multiple; None if linear forms cannot contain it."""
        match term:
            case Length(array, None) if self.f.ranks.get(array) == 1:
                return self._symbol(Length(array, 0))
            case Element(array) if array not in self.unwritten_arrays:
                return None
            case Variable() | Length() | Element() | Call(Global(value=builtins.len)):  # of a range
                symbol = str(term)
            case Call(Global(value=builtins.min | builtins.max), (_, _, *_)) | Binary("//" | "%"):
                symbol = f"({term})"
                self.symbol_expressions[symbol] = term
            case _:
                return None
        self.symbol_terms[symbol] = term
        return symbol

    def _symbol_constraints(self, names: set[str], facts: list[Form]) -> list[Form]:
        """Inequalities for symbols that represent minima, maxima, quotients and remainders."""
        inequalities: list[Form] = []
        pending = sorted(names & self.symbol_expressions.keys())
        for name in pending:
            me, new = {name: 1}, list[Form]()
            match self.symbol_expressions.get(name):
                case Call(Global(value=function), operands):
                    bounds = [form for form in map(self._linear_form, operands) if form is not None]
                    new = [less_or_equal(b, me) if function is max else less_or_equal(me, b) for b in bounds]
                case Binary("//", left, Constant(int() as k)) if k > 0:
                    form = self._linear_form(left)
                    if form is not None:
                        new = [less_or_equal({name: k}, form), less_or_equal(form, {name: k, "": k - 1})]
                case Binary("%", _, right):
                    form = self._linear_form(right)
                    if form is not None and is_infeasible(system(facts), less_or_equal(form, {})):  # a positive divisor
                        new = [me, less_or_equal(me, form, 1)]
            inequalities += new
            pending += sorted({n for form in new for n in form} & self.symbol_expressions.keys() - {*pending})
        return inequalities

    def _test_constraints(self, test: Term, holds: bool, form: Callable[[Term], Form | None]) -> list[Form]:
        """Inequalities implied by the outcome of an integer test."""
        return test_forms(test, holds, form, lambda t: kind_of(t, self.f) == "int")


def end_bounds(loop: Loop) -> list[Term]:
    """Expressions, each of which bounds the end of a loop that has iterations."""
    up = offset(loop.step)[1] > 0
    ends = minmax_operands(loop.stop, min if up else max)
    if up and loop.start is ZERO:  # if the stop max(n, 0) is reached, it is n
        pairs = [minmax_operands(t, max) for t in ends]
        ends += [t for pair in pairs if len(pair) == 2 and ZERO in pair for t in pair if t is not ZERO]
    return ends


def minmax_operands(term: Term, function: Callable) -> list[Term]:
    """Of ``min(a, b)`` both arguments, since each is an upper bound; any other expression itself.

    `function` is ``min`` or ``max``.
    """
    return [*term.operands] if isinstance(term, Call) and term.function.value is function else [term]
