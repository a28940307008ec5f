"""Dependence tests: whether a statement can overwrite an array element that another one has read before it.

Indices are compared as a symbol plus a constant. A loop around both statements orders them: an element that is written
in iteration w and read in iteration r, with r - w constant, has not been read yet if r comes after w. Where that is
inconclusive, linear inequalities between the loops' variables and bounds decide whether iterations can exist in which
the read comes first and the indices are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..ir.affine import distance, is_length, offset, plus
from ..ir.linear_inequalities import Form, System, is_infeasible, less_or_equal, linear, system, test_forms
from ..ir.statements import (
    Alloc,
    Assign,
    Block,
    Function,
    Grow,
    If,
    Loop,
    Statement,
    Store,
    Swap,
    terms_of,
    walk,
    writes,
)
from ..ir.terms import Element, Length, Term, Variable, subterms
from ..ir.type_inference import kind_of

__all__ = ["DependenceTests", "ElementAccess", "element_accesses"]

#: The index of an element, with a term for each axis.
Index = tuple[Term, ...]


@dataclass(frozen=True)
class ElementAccess:
    """An element that a statement accesses, and whether it writes there."""

    statement: Statement
    array: str
    index: Index
    writes: bool


def element_accesses(s: Statement) -> list[ElementAccess]:
    """The elements that a statement accesses, without the blocks in it."""
    written = [ElementAccess(s, s.array, s.index, True)] if isinstance(s, Store) else []
    read = [e for e in subterms(*terms_of(s)) if isinstance(e, Element)]
    return [*written, *(ElementAccess(s, e.array, e.index, False) for e in read)]


_ORDERS = ("first", "later"), ("later", "first")


class DependenceTests:
    """Answers dependence queries for one function.

    Arrays in `swapped` exchange their memory and are never proven independent.
    """

    def __init__(self, f: Function, enclosing: dict[Statement, tuple[Loop, ...]]) -> None:
        self.enclosing = enclosing
        self.swapped = {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second)}
        self.program_order = {s: k for k, s in enumerate(walk(f.body))}
        scalar_writes = [(n, s) for s in walk(f.body) for n in writes(s) if not f.ranks.get(n)]
        written = Counter([n for n, _ in scalar_writes] + f.parameters)
        #: Scalars that take several values.
        self.varying = {n for n, s in scalar_writes if enclosing[s] or isinstance(s, Loop) or written[n] > 1}
        self.no_overwrite_cache: dict[tuple, bool] = {}
        self.f = f
        #: The tests around a statement, with their outcomes.
        self.tests: dict[Statement, tuple[tuple[Term, bool], ...]] = {}
        self._note_tests(f.body, ())

    def _note_tests(self, block: Block, tests: tuple[tuple[Term, bool], ...]) -> None:
        for s in block:
            self.tests[s] = tests
            if isinstance(s, If):
                self._note_tests(s.body, (*tests, (s.test, True)))
                self._note_tests(s.orelse, (*tests, (s.test, False)))
            elif isinstance(s, Loop):
                self._note_tests(s.body, tests)

    def no_anti_dependence(self, write: Store, reader: Statement, indices: Iterable[Index]) -> bool:
        """Whether `write` provably overwrites none of the elements at `indices` that `reader` has read before."""
        return write.array not in self.swapped and all(
            self._not_yet_read(write, reader, index) or self.never_overwrites(write, reader, index) for index in indices
        )

    def no_output_dependence(self, s: Store, stores: Iterable[Store]) -> bool:
        """Whether none of `stores` overwrites what `s` has written."""
        return s.array not in self.swapped and all(self.never_overwrites(t, s, s.index, False) for t in stores)

    def never_overwrites(self, write: Store, reader: Statement, index: Index, itself: bool = True) -> bool:
        """Whether no iterations exist in which `reader` accesses `index` and `write` then writes the same element.

        If `itself` is true, a statement that reads what it overwrites counts as reading first.
        """
        key = write, reader, index, itself
        if key not in self.no_overwrite_cache:
            self.no_overwrite_cache[key] = self._prove_no_overwrite(write, reader, index, itself)
        return self.no_overwrite_cache[key]

    def _prove_no_overwrite(self, write: Store, reader: Statement, index: Index, itself: bool) -> bool:
        return self.never_precedes(reader, index, write, write.index, reader is write and itself)

    def never_precedes(
        self,
        first: Statement,
        index: Index,
        later: Statement,
        later_index: Index,
        itself: bool = False,
        outer: tuple[Loop, ...] = (),
    ) -> bool:
        """Whether no iterations exist in which `first` accesses the element at `index`, and `later` then accesses the
        same one, at `later_index`.

        If `itself` is true, a statement precedes itself in the same iteration. For the loops in `outer`, which are
        around both, it is the same iteration.
        """
        known = self._common_element(first, index, later, later_index, outer)
        if known is None:
            return False
        if is_infeasible(known):
            return True
        common = [a for a, b in zip(self.enclosing[first], self.enclosing[later], strict=False) if a is b]
        for loop in common[len(outer) :]:
            step = _constant_step(loop)
            if not step:
                return False
            a, b = _first(loop), _later(loop)
            before, after = (a, b) if step > 0 else (b, a)
            if not is_infeasible(known, less_or_equal(before, after, 1)):
                return False
            known |= system([less_or_equal(a, b), less_or_equal(b, a)])
        ordered = self.program_order[first] < self.program_order[later] or itself
        return not ordered or is_infeasible(known)

    def never_meet(
        self,
        first: Statement,
        index: Index,
        later: Statement,
        later_index: Index,
        outer: tuple[Loop, ...],
        less: Iterable[tuple[Loop, Loop]],
        greater: Iterable[tuple[Loop, Loop]],
    ) -> bool:
        """Whether no iterations exist in which `first` accesses the same element at `index` as `later` at
        `later_index`, the same ones of the loops in `outer`, where for all pairs in `less` the variable of the first
        loop around `first` is less than that of the second one around `later`, and greater for those in `greater`.
        """
        known = self._common_element(first, index, later, later_index, outer)
        forms = [less_or_equal(_first(a), _later(b), 1) for a, b in less]
        forms += [less_or_equal(_later(b), _first(a), 1) for a, b in greater]
        return known is not None and is_infeasible(known, *forms)

    def _common_element(
        self, first: Statement, index: Index, later: Statement, later_index: Index, outer: tuple[Loop, ...]
    ) -> System | None:
        """What is known of iterations in which two statements access one element; None if that is nothing."""
        around, around_later = self.enclosing[first], self.enclosing[later]
        one, other = _prefixed_variables(around, "first "), _prefixed_variables(around_later, "later ")
        same = {p.index: p.index for p in outer if p.index}
        one, other = one | same, other | same
        from_tests = [form for s, names in ((first, one), (later, other)) for test, holds in self.tests[s]
                for form in self._test_constraints(test, holds, names)]  # fmt: skip
        return self._equality_constraints(index, around, one, later_index, around_later, other, from_tests)

    def index_in_range(self, s: Statement, array: str, index: Index) -> bool:
        """Whether an index is provably in range at `s`."""
        return self.is_below(s, index, [Length(array, k) for k in range(len(index))])

    def is_below(self, s: Statement, index: Index, stops: Sequence[Term], fixed: Iterable[str] = ()) -> bool:
        """Whether an index is, at `s`, provably not negative and below `stops`; scalars in `fixed` have one value.

        What loops and tests around `s` say of these holds at `s`, since their terms read nothing that they change.
        """
        loops = self.enclosing[s]
        names = {n: n for n in (*fixed, *(p.index for p in loops if p.index))}
        tests = [form for test, holds in self.tests[s] for form in self._test_constraints(test, holds, names)]
        known = system([*tests, *self._loop_constraints(loops, names), *self.length_equalities])
        ends: dict[Term, Term] = {Variable(p.index): p.stop for p in loops if _constant_step(p) > 0}
        for part, stop in zip(index, stops, strict=True):
            if ends.get(part) is stop and self.provably_nonnegative(part, loops):
                continue
            x, end = self._linear_form(part, names), self._linear_form(stop, names)
            if x is None or end is None or not is_infeasible(known, less_or_equal(x, {}, 1)):
                return False
            if not is_infeasible(known, less_or_equal(end, x)):
                return False
        return True

    def nonnegative_under(self, part: Term, loops: tuple[Loop, ...], tests: Iterable[tuple[Term, bool]]) -> bool:
        """Whether an index is provably non-negative under the outcomes in `tests`."""
        names = {p.index: p.index for p in loops if p.index}
        x, from_tests = (
            self._linear_form(part, names),
            [form for test in tests for form in self._test_constraints(*test, names)],
        )
        return x is not None and is_infeasible(
            system([*self._loop_constraints(loops, names), *from_tests]), less_or_equal(x, {}, 1)
        )

    @cached_property
    def filled_ranges(self) -> dict[Store, tuple[Loop, tuple[Term, ...]]]:
        """Stores that run through all indices from 0 on: their nest of loops, one for each axis, and its ends."""
        ranges = {}
        for s in self.program_order:
            if not isinstance(s, Store) or not len(self.enclosing[s]) >= len(s.index) > 0:
                continue
            loops = self.enclosing[s][-len(s.index) :]
            by_variable: dict[Term, Loop] = {Variable(p.index): p for p in loops if p.index and not p.exit_flag}
            from_zero = all(offset(p.start) == (None, 0) and _constant_step(p) == 1 for p in loops)
            if by_variable.keys() == set(s.index) and from_zero and self.tests[s] == self.tests[loops[0]]:
                ranges[s] = loops[0], tuple([by_variable[variable].stop for variable in s.index])
        return ranges

    @cached_property
    def overwriting_nests(self) -> dict[Store, Loop]:
        """Stores that provably write every element of their array in the nest of loops given, one for each axis."""
        return {
            s: nest
            for s, (nest, stops) in self.filled_ranges.items()
            if s.array not in self.swapped and self._reach_lengths(s.array, stops)
        }

    def nest_that_overwrites_first(self, s: Store) -> Loop | None:
        """A nest of loops around `s` in which another store overwrites each element of the array before `s` does."""
        loops, order = self.enclosing[s], self.program_order
        for t, nest in self.overwriting_nests.items():
            around = self.enclosing[t]
            if t.target == s.target and order[t] < order[s] and loops[: len(around)] == around:
                return nest
        return None

    def _reach_lengths(self, array: str, stops: tuple[Term, ...]) -> bool:
        """Whether `stops` are provably the lengths of an array, or more."""
        known = system(self.length_equalities)
        forms = [self._linear_form(stop, {}) for stop in stops]
        return all(
            form is not None and is_infeasible(known, less_or_equal(form, {_length(array, k): 1}, 1))
            for k, form in enumerate(forms)
        )

    @cached_property
    def length_equalities(self) -> list[Form]:
        """Equalities for the lengths of arrays, from names bound to them and from allocations."""
        pairs: list[tuple[Form, Form | None]] = []
        for array in (n for n, rank in self.f.ranks.items() if rank == 1):
            pairs.append(({f"{array}.size": 1}, {_length(array, 0): 1}))
        grown = {s.name for s in walk(self.f.body) if isinstance(s, Grow)}
        for s in self.f.body:
            if isinstance(s, Assign) and s.name not in self.varying and self.f.kinds.get(s.name) == "int":
                pairs.append(({s.name: 1}, self._linear_form(s.value, {})))
            elif isinstance(s, Alloc) and s.name not in grown:
                pairs += [({_length(s.name, k): 1}, self._linear_form(n, {})) for k, n in enumerate(s.shape)]
        return [form for a, b in pairs if b is not None for form in (less_or_equal(a, b), less_or_equal(b, a))]

    def may_conflict(
        self, loop: Loop, a: Index, b: Index, differ: bool, ways: Iterable[tuple[str, str]] = _ORDERS
    ) -> bool:
        """Whether iterations of `loop` may access the same element, one of them as `a` and one as `b`.

        If `differ` is true, two different iterations, in one of the orders in `ways`. Names that the loop writes
        besides its variable are unknown.
        """
        outer = self.enclosing[loop]
        loops = (*outer, loop)
        first, later = ({**{p.index: p.index for p in outer}, loop.index: which} for which in ("first", "later"))
        known = self._equality_constraints(a, loops, first, b, loops, later)
        if known is None:
            return True
        if not differ:
            return not is_infeasible(known)
        return not all(is_infeasible(known, less_or_equal({p: 1}, {q: 1}, 1)) for p, q in ways)

    def may_conflict_forward(self, loop: Loop, a: Index, b: Index) -> bool:
        """Whether an iteration may access the element `a` that one with a larger variable accesses as `b`."""
        return self.may_conflict(loop, a, b, True, _ORDERS[:1])

    def _equality_constraints(
        self, a: Index, first: tuple[Loop, ...], one: dict[str, str],
        b: Index, later: tuple[Loop, ...], other: dict[str, str], extra: Sequence[Form] = (),
    ) -> System | None:  # fmt: skip
        """Inequalities that hold where two indices are equal; None if there is nothing to compare.

        `one` and `other` name the variables of the loops around each index; `extra` are further inequalities.
        """
        known = system([*self._loop_constraints(first, one), *self._loop_constraints(later, other), *extra])
        equal = False
        for p, q in zip(a, b, strict=True):
            x, y = self._linear_form(p, one), self._linear_form(q, other)
            if x is None or y is None:
                continue
            if not all(self.provably_nonnegative(n, loops) or is_infeasible(known, less_or_equal(z, {}, 1))
                       for n, loops, z in ((p, first, x), (q, later, y))):  # fmt: skip
                continue  # it may be negative and count from the end
            known |= system([less_or_equal(x, y), less_or_equal(y, x)])
            equal = True
        return known if equal else None

    def _loop_constraints(self, loops: tuple[Loop, ...], names: dict[str, str]) -> list[Form]:
        """Inequalities between the loops' variables and their bounds."""
        forms = []
        for depth, loop in enumerate(loops):
            step = _constant_step(loop)
            if not step:
                continue
            inner = {p.index for p in loops[depth:]}
            outer = {n: symbol for n, symbol in names.items() if n not in inner}
            start, stop = (self._linear_form(n, outer) for n in (loop.start, loop.stop))
            here = {names[loop.index]: 1}
            up = step > 0
            if start is not None:
                forms.append(less_or_equal(start, here) if up else less_or_equal(here, start))
            if stop is not None:
                forms.append(less_or_equal(here, stop, 1) if up else less_or_equal(stop, here, 1))
        return forms

    def _test_constraints(self, test: Term, holds: bool, names: dict[str, str]) -> list[Form]:
        """Inequalities implied by the outcome of an integer test."""
        return test_forms(test, holds, lambda t: self._linear_form(t, names), lambda t: kind_of(t, self.f) == "int")

    def _linear_form(self, term: Term, names: dict[str, str]) -> Form | None:
        """An index or bound as a linear form; `names` are for loop variables, others must have a single value."""

        def symbol(t: Term) -> str | None:
            if isinstance(t, Variable):
                return names.get(t.name, None if t.name in self.varying else t.name)
            return str(t) if is_length(t) else None

        return linear(term, symbol)

    def provably_distinct(self, write: Store, reader: Statement, indices: list[Index]) -> bool:
        """Whether `indices`, at `reader`, provably differ from that of `write` in the same iteration."""
        loops = self.enclosing[reader]
        return bool(indices) and all(
            any(
                distance(a, b)
                and self.provably_nonnegative(a, self.enclosing[write])
                and self.provably_nonnegative(b, loops)
                for a, b in zip(write.index, index, strict=True)
            )
            for index in indices
        )

    def _not_yet_read(self, write: Store, reader: Statement, index: Index) -> bool:
        pairs = [
            (a, b)
            for a, b in zip(write.index, index, strict=True)
            if self.provably_nonnegative(a, self.enclosing[write])
            and self.provably_nonnegative(b, self.enclosing[reader])
        ]
        if any(distance(a, b) for a, b in pairs if offset(a)[0] is None):
            return True
        common = [a for a, b in zip(self.enclosing[write], self.enclosing[reader], strict=False) if a is b]
        for loop in common:
            ahead = _dependence_distance(loop, pairs)
            if ahead is None or ahead < 0:
                return False
            if ahead > 0:
                return True
        return bool(common) and self.program_order[reader] > self.program_order[write]

    def provably_nonnegative(self, term: Term, loops: tuple[Loop, ...]) -> bool:
        """Whether an index is provably non-negative (-1 is the last element, and not the one before 0)."""
        low = lower_bound(term, loops)
        return low is not None and low >= 0


def _length(array: str, axis: int) -> str:
    """The name of a length in linear forms."""
    return str(Length(array, axis))


def _constant_step(loop: Loop) -> int:
    """The step of a loop; 0 if it is unknown, or the loop has no variable."""
    base, k = offset(loop.step)
    return k if base is None and loop.index else 0


def lower_bound(term: Term, loops: tuple[Loop, ...], lengths: Collection[str] = ()) -> int | None:
    """A lower bound of an integer expression, or None; scalars in `lengths` are lengths."""
    base, k = offset(term)
    if base is None or is_length(base) or (isinstance(base, Variable) and base.name in lengths):
        return k
    for depth, loop in enumerate(loops):
        if isinstance(base, Variable) and loop.index == base.name:
            step = _constant_step(loop)
            ends = [loop.start] * (step >= 0) + [plus(loop.stop, 1)] * (step <= 0)  # both, if it is unknown
            found = [low for end in ends if (low := lower_bound(end, loops[:depth], lengths)) is not None]
            return min(found) + k if len(found) == len(ends) else None
    return None


def _dependence_distance(loop: Loop, pairs: list[tuple[Term, Term]]) -> int | None:
    """The dependence distance: how many iterations after its write an element is read; None if unknown."""
    step = _constant_step(loop)
    if not step:
        return None
    for a, b in pairs:
        (base, p), (other, q) = offset(a), offset(b)
        if base is other is Variable(loop.index):
            return (p - q) * (1 if step > 0 else -1)
    return None


def _first(loop: Loop) -> Form:
    """The variable of a loop around the first of two statements."""
    return {f"first {loop.index}": 1}


def _later(loop: Loop) -> Form:
    """The variable of a loop around the later one."""
    return {f"later {loop.index}": 1}


def _prefixed_variables(loops: tuple[Loop, ...], which: str) -> dict[str, str]:
    return {p.index: f"{which}{p.index}" for p in loops if p.index}
