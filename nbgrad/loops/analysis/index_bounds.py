"""Bounds checks: prove indices in range, and hoist the checks of the others out of loops.

An index is *proven* if loop bounds, the tests that lead to it and known array lengths imply that it is in range. Any
other is checked before the outermost loop at which everything that determines it is known, by a nest of the same loops
and tests that contains only the comparison (a :class:`Guard`). Where the index is linear in the loop variables, its
extremes are compared first: the nest runs only if they are out of range, and then finds out whether an iteration really
gets there. So nothing valid is refused: no iteration of an empty loop, no branch that is not taken. An index that is
only known within the iteration (a counter, an array that the loop changes, what follows a ``break``) is checked there,
right before the statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..ir.affine import offset
from ..ir.linear_inequalities import Form, less_or_equal, linear
from ..ir.names import called
from ..ir.statements import Assign, Check, Function, Loop, Statement, walk, writes
from ..ir.terms import (
    ZERO,
    Binary,
    Call,
    Compare,
    Element,
    Term,
    Unary,
    Variable,
    integer,
    reads,
    substitute,
    subterms,
)
from ..ir.type_inference import kind_of
from .accesses import Access, Path, PathCondition
from .index_facts import IndexFacts, end_bounds, minmax_operands

if TYPE_CHECKING:
    from .reverse_plan import Plan

__all__ = ["Guard", "IndexBounds"]

#: An expression with longer code is not hoisted; the index is checked within the iteration instead.
_MAX_CODE_LENGTH = 1000
#: Use at most this many linear bounds for one end of an index.
_MAX_BOUNDS = 4


@dataclass(eq=False)
class Guard:
    """Bounds checks that run before a statement.

    `path` has the loops, with new names for their variables and with their bounds, and the tests around the comparisons
    of `accesses`, each with its index and length at that point. If the conditions in `sufficient_conditions` hold, all
    accesses are in range; None if there are no such conditions.
    """

    path: tuple[tuple[Loop, str, list[Term]] | tuple[Term, bool], ...]
    accesses: list[tuple[Access, Term, Term]]
    sufficient_conditions: list[Term] | None


class IndexBounds(IndexFacts):
    """The bounds checks of a function.

    `before` has those before a statement, `after_iteration` those at the end of each iteration of a loop; `inside` are
    the loops with checks within their iterations.
    """

    def __init__(self, f: Function, plan: Plan) -> None:
        self.before: dict[Statement, list[Guard]] = {}
        self.after_iteration: dict[Loop, list[Guard]] = {}
        self.loops_with_checks: set[Loop] = set()
        if not f.checked:
            return
        super().__init__(f, plan)
        self.variables: dict[Loop, str] = {}
        self.may_read_elements = False  # whether array elements may be read to bound an index
        every = list(walk(f.body))
        order = {s: k for k, s in enumerate(every)}
        seen: set[tuple] = set()
        for a in self.accesses:
            key: tuple = a.size, a.index, a.path, None if a.path or a.statement in f.body else a.statement
            if (
                (a.path and isinstance(a.path[-1], PathCondition))
                or self._varies_in_block(a)
                or self._resized_in(a.size)
            ):
                key = (*key, a.statement)
            if key in seen:
                continue
            seen.add(key)
            at = self.hoisted_before.get(a.statement, a.statement)
            self.passed_checks = {s for s in self.checks if order[s] < order[at]}
            if self._prove_in_range(a):
                continue
            self._place_check(a)

    @property
    def has_no_checks(self) -> bool:
        """Whether there are no checks."""
        return not self.before and not self.after_iteration

    # Where the other indices are checked.

    def _place_check(self, a: Access) -> None:
        guards: list[tuple[Loop, Guard]] = []
        for k, p in enumerate(a.path):
            if isinstance(p, Loop) and (guard := self._hoisted_guard(a, a.path[k:], p)) is not None:
                guards.append((p, guard))
                if guard.sufficient_conditions is not None:
                    guards = [(p, guard)]
                    break
        ahead = any(isinstance(p, Loop) and p.parallel for p in a.path) or self._determines_trip_count(a)
        if guards and (ahead or guards[0][1].sufficient_conditions is not None):
            loop, guard = guards[0]
            self._add(self.before.setdefault(loop, []), guard)
            return
        s = a.statement
        own = tuple([(p.test, p.holds) for p in a.path if isinstance(p, PathCondition) and p.at is s])
        enough: list[Term] | None = None
        if not own and not _reads_elements(a.index):  # such checks are merged
            enough = [_above(a.index, a.size)] * a.low + [_below(a.index, a.size)] * a.high
        guard = Guard(own, [(a, a.index, a.size)], enough)
        self.loops_with_checks |= {p for p in a.path if isinstance(p, Loop)}
        if isinstance(s, Loop) and s.test is not None:
            self._add(self.after_iteration.setdefault(s, []), guard)
        self._add(self.before.setdefault(self._check_point(a), []), guard)

    def _determines_trip_count(self, a: Access) -> bool:
        """Whether a trip count depends on an access: iterations may be counted before the loops."""
        match a.statement:
            case Loop(_, start, stop, step, test):
                bounds = [t for t in (start, stop, step, test) if t is not None]
                return any(isinstance(t, Element) and a.index in t.index for t in subterms(*bounds))
            case Assign(name):
                return name in self.trip_count_scalars
        return False

    @cached_property
    def trip_count_scalars(self) -> set[str]:
        """The scalars from which loop bounds are computed."""
        names: set[str] = set()
        new = {n for p in self.written for n in reads(p.start, p.stop, p.step)}
        while new - names:
            names |= new
            new = {n for name in names for d in self.definitions.get(name, ()) for n in d.value.reads}
        return names

    def _check_point(self, a: Access) -> Statement:
        """The statement before which an access is checked: a loop if the statement is reversed before it."""
        s = a.statement
        loop = self.hoisted_before.get(s)
        if loop is None:
            return s
        block = self.blocks[s][-1]
        between = block[block.index(loop) : block.index(s)]
        changed = {n for t in walk(between) for n in writes(t)}
        read = reads(a.index, a.size, *(p.test for p in a.path if isinstance(p, PathCondition) and p.at is s))
        return s if (read | self._resized_in(a.index, a.size)) & changed else loop

    @staticmethod
    def _add(guards: list[Guard], new: Guard) -> None:
        """Add a guard, merged with one of the same path where that makes no difference."""
        for old in guards:
            same = [part[:2] for part in old.path] == [part[:2] for part in new.path]
            if same and (old.sufficient_conditions is None) == (new.sufficient_conditions is None):
                old.accesses += new.accesses
                if old.sufficient_conditions is not None and new.sufficient_conditions is not None:
                    old.sufficient_conditions += [
                        t for t in new.sufficient_conditions if t not in old.sufficient_conditions
                    ]
                return
        guards.append(new)

    def _hoisted_guard(self, a: Access, path: Path, first: Loop) -> Guard | None:
        """A guard before the loop `first` that tells whether an access will be in range; None if there is none."""
        inside = list(walk(first.body))
        loops = [p for p in path if isinstance(p, Loop)]
        if any(not p.index or p.exit_flag or p.trip_counter for p in loops):
            return None
        if any(isinstance(s, Check) for s in inside):
            return None
        guard_path: list = []
        tests: list[Form] = []
        for p in path:
            if isinstance(p, PathCondition):
                test = self._value_inside(p.test, p.at, first)
                if test is None:
                    return None
                guard_path.append((test, p.holds))
                tests += self._test_constraints(test, p.holds, self._linear_form)
            else:
                bounds = [self._value_inside(n, p, first) for n in (p.start, p.stop, p.step)] if p is not first else [
                    p.start, p.stop, p.step]  # fmt: skip
                if None in bounds:
                    return None
                guard_path.append((p, self._check_variable(p), bounds))
        index, size = (self._value_inside(n, a.statement, first) for n in (a.index, a.size))
        if index is None or size is None:
            return None
        return Guard(tuple(guard_path), [(a, index, size)], self._range_conditions(a, index, size, guard_path, tests))

    def _check_variable(self, loop: Loop) -> str:
        """The name of a loop's variable in checks."""
        if loop not in self.variables:
            name = self.variables[loop] = self.f.names.fresh(loop.index)
            self.f.ranks[name], self.f.kinds[name] = 0, "int"
        return self.variables[loop]

    def _value_inside(self, term: Term, at: Statement, first: Loop) -> Term | None:
        """The value of `term` at a statement in the loop `first`, in terms of what is known before that loop."""
        values: dict[Term, Term] = {}
        if self._resized_in(term) & set(self.written[first]):
            return None
        for n in sorted(term.reads):
            if not self.written[first][n]:
                continue
            value = self._name_inside(n, at, first)
            if value is None:
                return None
            values[Variable(n)] = value
        if any(isinstance(t, Call) and t.function.text in self.f.names.imports for t in subterms(term)):
            return None
        result = substitute(term, values)
        return result if len(str(result)) < _MAX_CODE_LENGTH else None

    def _name_inside(self, name: str, at: Statement, first: Loop) -> Term | None:
        """The same for a name that the loop `first` writes."""
        if self.f.ranks.get(name):
            return None
        inner = at if isinstance(at, Loop) else None
        around = [p for p in self.enclosing[at] if p is not inner]
        loop = next((p for p in reversed(around) if p.index == name), None)
        if loop is not None:
            known = first in (*self.enclosing[loop], loop) and self.written[loop][name] == 1
            return Variable(self._check_variable(loop)) if known else None
        definition = self._definition(name, at)
        return None if definition is None else self._value_inside(definition.value, definition, first)

    # The range of an index.

    def _range_conditions(self, a: Access, index: Term, size: Term, path: list, tests: list[Form]) -> list[Term] | None:
        """Conditions that put an index in range in all iterations; None if there are none."""
        self.may_read_elements = not any(isinstance(p, PathCondition) for p in a.path)
        x = linear(index, self._invariant_symbol)
        if x is None or not self._is_invariant(size):
            return None
        conditions: list[Term] = []
        for side, up in ((a.low, False), (a.high, True)):
            if not side:
                continue
            around = self._replace_remainders(x, up)
            ends = [] if around is None else self._index_extremes(around[0], path, tests, up)
            if not ends or around is None:
                return None
            conditions += [test for test in around[1] if test not in conditions]
            terms = dict.fromkeys(map(self._term_of_form, ends))
            end = next(iter(terms)) if len(terms) == 1 else called(min if up else max, *terms)
            conditions.append((_below if up else _above)(end, size))
        # a bound may depend on an enclosing loop
        return conditions if all(map(self._is_invariant, conditions)) else None

    def _replace_remainders(self, x: Form, up: bool) -> tuple[Form, list[Term]] | None:
        """`x` with the extremes of iteration-dependent remainders substituted, and the conditions for these.

        None if anything else depends on the iteration.
        """
        form: Form = {}
        tests: list[Term] = []
        for name, c in x.items():
            term = self.symbol_expressions.get(name)
            end: Form | None = {name: 1}
            if term is not None and not self._is_invariant(term):
                end = None
                if isinstance(term, Binary) and term.op == "%" and self._is_invariant(term.right):
                    right = self._linear_form(term.right)
                    end = right if right is None else less_or_equal({"": 1}, right) if (c > 0) == up else {}
                    tests.append(Compare((">",), (term.right, ZERO)))
            if end is None:
                return None
            form = less_or_equal({n: -c * k for n, k in end.items()}, form)
        return form, tests

    def _is_invariant(self, term: Term) -> bool:
        """Whether `term` is invariant in the loops and can be evaluated before them."""
        return term.named.isdisjoint(self.variables.values()) and (self.may_read_elements or not _reads_elements(term))

    def _index_extremes(self, x: Form, path: list, tests: list[Form], up: bool) -> list[Form]:
        """Linear bounds of an index, upper ones if `up`, free of loop variables."""
        forms = [x]
        loops = [p for p in path if len(p) == 3]
        for k in range(len(loops) - 1, -1, -1):
            name = loops[k][1]
            inner = {p[1] for p in loops[k:]}
            bounded: list[Form] = []
            for form in forms:
                c = form.get(name, 0)
                if not c:
                    bounded.append(form)
                    continue
                for end in self._variable_extremes(loops[k], tests, inner, (c > 0) == up):
                    rest = {n: v for n, v in form.items() if n != name}
                    bounded.append(less_or_equal({n: -c * v for n, v in end.items()}, rest))
            forms = bounded[:_MAX_BOUNDS]
        return forms

    def _variable_extremes(
        self, p: tuple[Loop, str, list[Term]], tests: list[Form], inner: set[str], up: bool
    ) -> list[Form]:
        """The same for a loop's variable, in terms of the variables of enclosing loops."""
        _, name, (start, stop, step) = p
        base, by = offset(step)
        bounds: list[Form] = []
        if base is None and by:
            last = (by > 0) == up
            bounding = min if up else max
            ends = end_bounds(Loop("", start, stop, step, None, [])) if last else minmax_operands(start, bounding)
            known = self.symbol_expressions
            for form in (linear(t, self._invariant_symbol) for t in ends):
                if form is not None and all(self._is_invariant(known[n]) for n in form if n in known):
                    bounds.append(less_or_equal({"": 1 if up else -1}, form) if last else form)
        for test in tests:
            c = test.get(name, 0)
            if c == (-1 if up else 1):
                rest = {n: v for n, v in test.items() if n != name}
                bounds.append(rest if up else less_or_equal(rest, {}))
        return [form for form in bounds if not inner & set(form)]

    def _invariant_symbol(self, term: Term) -> str | None:
        """The symbol of a term; None for elements that vary, whose own indices would have to be checked first."""
        invariant = self._is_invariant(term)
        if isinstance(term, Element) and not invariant:
            return None
        symbol = self._symbol(term)
        if symbol is None and invariant and not isinstance(term, Element) and kind_of(term, self.f) == "int":
            symbol = f"({term})"
            self.symbol_terms[symbol] = term
        return symbol

    def _term_of_form(self, form: Form) -> Term:
        """A linear form as a term, its constant last."""
        total: Term | None = None
        for name, c in sorted(form.items(), key=lambda item: (not item[0], item[0])):
            k = c if total is None else abs(c)
            part = self.symbol_terms[name] if name else integer(k)
            if name and abs(k) != 1:
                part = Binary("*", integer(k), part)
            elif name and k < 0:
                part = Unary("-", part)
            total = part if total is None else Binary("-" if c < 0 else "+", total, part)
        return ZERO if total is None else total


def _reads_elements(term: Term) -> bool:
    return any(isinstance(t, Element) for t in subterms(term))


def _below(index: Term, size: Term) -> Term:
    """The test that an index is not too large."""
    return Compare(("<",), (index, size))


def _above(index: Term, size: Term) -> Term:
    """The test that an index is not too small."""
    return Compare((">=",), (index, Unary("-", size)))
