"""Private names: the scalars and arrays that each iteration of a loop has to itself.

A name is private to the iterations of a loop if nothing outside of the loop reads or writes it, and if an iteration
reads of it only what the same iteration has written before. Of an array, the proof follows what has certainly been
written: elements, and the ranges that nests of loops fill from 0 on.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from ..ir.statements import (
    Alloc,
    Assign,
    Block,
    Call,
    Function,
    Grow,
    If,
    Loop,
    Statement,
    Store,
    Swap,
    mentioned,
    terms_of,
    union_over_nested,
    uses,
    walk,
    writes,
)
from ..ir.terms import Constant, Element, Term, integer, reads, subterms
from .dependence import DependenceTests, Index

__all__ = ["PrivateNames"]


@dataclass(frozen=True)
class _Filled:
    """The elements whose indices are below `stops`, one for each axis."""

    stops: tuple[Term, ...]


#: All of a scalar, or of an array.
_WHOLE = _Filled(())
#: What has been written, as ranges and as indices of elements.
_Written = frozenset[_Filled | Index]
#: Arrays with more elements than this are not followed element by element.
_MOST_ELEMENTS = 64


class _Exposed(Exception):
    """What is read may have been written by an earlier iteration."""


class PrivateNames:
    """Tells which names are private to the iterations of a loop."""

    def __init__(self, f: Function, tests: DependenceTests) -> None:
        self.f = f
        self.tests = tests
        self.known: dict[tuple[str, Loop], bool] = {}
        self.shared = {*f.parameters, *(f.results or []), *tests.swapped}
        self.shapes: dict[str, tuple[Term, ...]] = {}  # of the arrays that the function makes
        self.mentioned_at: dict[str, list[Statement]] = {}  # where a name is read or written
        for s in walk(f.body):
            match s:
                case Alloc():
                    self.shapes[s.name] = s.shape
                    continue  # which reads and writes no element
                case Grow():
                    self.shared.add(s.name)
                case Call():
                    self.shared |= set(writes(s))
            for name in mentioned(s):
                self.mentioned_at.setdefault(name, []).append(s)

    @cached_property
    def mentions(self) -> dict[Statement, set[str]]:
        """The names that each statement, or a statement in it, reads or writes."""
        return union_over_nested(self.f.body, mentioned)

    def is_private(self, name: str, loop: Loop) -> bool:
        """Whether each iteration of `loop` has `name` to itself."""
        key = name, loop
        if key not in self.known:
            inside = all(loop in self.tests.enclosing[s] for s in self.mentioned_at.get(name, ()))
            self.known[key] = name not in self.shared and inside and self._covered(name, loop)
        return self.known[key]

    def carries_nothing(self, name: str, loop: Loop) -> bool:
        """Whether iterations of `loop` read of `name` only what they have written, and nothing outside reads it."""
        readers = [s for s in self.mentioned_at.get(name, ()) if name in uses(s)]
        inside = all(loop in self.tests.enclosing[s] for s in readers)
        return name not in self.shared and inside and self._covered(name, loop)

    def _covered(self, name: str, loop: Loop) -> bool:
        try:
            _Coverage(self, name, loop).block(loop.body, frozenset())
        except _Exposed:
            return False
        return True


class _Coverage:
    """Follows what an iteration of a loop has written of one name."""

    def __init__(self, names: PrivateNames, name: str, loop: Loop) -> None:
        self.tests, self.name, self.loop = names.tests, name, loop
        self.mentions, self.shape = names.mentions, names.shapes.get(name, ())
        self.rank = names.f.ranks.get(name, 0)
        self.assigned = {s.name for s in walk(loop.body) if isinstance(s, Assign)}
        self.setters = Counter(n for s in walk(loop.body) for n in writes(s))
        self.position = {n: self.tests.program_order[s] for s in walk(loop.body) for n in writes(s)}

    def block(self, block: Block, written: _Written) -> _Written:
        """What has been written after `block`, if `written` was before it."""
        for s in block:
            if self.name in self.mentions[s]:
                written = self.statement(s, written)
        return written

    def statement(self, s: Statement, written: _Written) -> _Written:
        match s:
            case Assign() if not self.rank:
                self.check(s, written)
                return written | {_WHOLE} if s.name == self.name else written
            case Store():
                self.check(s, written)
                own = s.array == self.name and self.stable(s, *s.index)
                return self.completed(written | {s.index}) if own else written
            case If():
                self.check(s, written)
                return self.block(s.body, written) & self.block(s.orelse, written)
            case Loop() if self.name not in (s.index, s.exit_flag, s.trip_counter):
                self.check(s, written)
                self.block(s.body, written)
                return written | self.filled_by(s)
            case Swap() | Loop():
                raise _Exposed
        self.check(s, written)
        return written

    def check(self, s: Statement, written: _Written) -> None:
        """Raise unless what `s` reads, without the blocks in it, has been written."""
        if self.name not in uses(s) or _WHOLE in written:
            return
        if not self.rank:
            raise _Exposed
        terms = [t for t in subterms(*terms_of(s)) if self.name in t.reads]
        for t in terms:
            if isinstance(t, Element) and t.array == self.name:
                filled = (w for w in written if isinstance(w, _Filled))
                if t.index not in written and not any(self.reads_filled(s, t.index, w) for w in filled):
                    raise _Exposed
            elif not any(self.name in operand.reads for operand in t.operands):
                raise _Exposed  # the whole array

    def reads_filled(self, s: Statement, index: Index, filled: _Filled) -> bool:
        """Whether `s`, which reads an element, provably reads one of those that are filled."""
        return self.tests.is_below(s, index, filled.stops, reads(*filled.stops) & self.setters.keys())

    def filled_by(self, nest: Loop) -> _Written:
        """What a nest of loops fills."""
        ranges: set[_Filled | Index] = set()
        for s, (filling, stops) in self.tests.filled_ranges.items():
            if filling is nest and s.array == self.name:
                if s in self.tests.overwriting_nests:
                    ranges.add(_WHOLE)
                elif self.stable(nest, *stops):
                    ranges.add(_Filled(stops))
        return frozenset(ranges)

    def stable(self, s: Statement, *terms: Term) -> bool:
        """Whether terms keep the value that they have at `s` until the names in them are out of scope.

        Names are set once in an iteration, before `s`; the variables of loops are those of loops around `s`.
        """
        variables = {p.index for p in self.tests.enclosing[s]} - self.assigned
        here = self.tests.program_order[s]
        return all(
            n in variables or not self.setters[n] or (self.setters[n] == 1 and self.position[n] < here)
            for t in terms
            for n in t.reads
        )

    def completed(self, written: _Written) -> _Written:
        """`written`, as the whole of an array of few elements if every one of them is there."""
        sizes = [n.value for n in self.shape if isinstance(n, Constant) and isinstance(n.value, int)]
        if len(sizes) < self.rank or math.prod(sizes) > _MOST_ELEMENTS:
            return written
        elements = product(*[[integer(k) for k in range(n)] for n in sizes])
        return written | {_WHOLE} if written.issuperset(elements) else written
