"""Array accesses of a function in program order, with the loops and tests that lead to each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.statements import (
    Alloc,
    Assign,
    Block,
    Call,
    Check,
    Function,
    Grow,
    If,
    InRange,
    Loop,
    Statement,
    Store,
    walk,
    writes,
)
from ..ir.terms import Compare, Element, Length, Logical, Select, Term, named

if TYPE_CHECKING:
    from .reverse_plan import Plan

__all__ = ["Access", "Accesses", "Path", "PathCondition"]


@dataclass(frozen=True)
class PathCondition:
    """The outcome of a test on the way to an access; `at` is the statement that contains the test."""

    test: Term
    holds: bool
    at: Statement


Path = tuple[Loop | PathCondition, ...]


@dataclass(eq=False)
class Access:
    """One index along one axis.

    `low` and `high` say whether it may be too small or too large; `what` and `where` are for the error message.
    """

    index: Term
    size: Term
    statement: Statement
    path: Path
    what: str
    where: str
    low: bool = True
    high: bool = True


class Accesses:
    """Collects the accesses of a function, and the loops and blocks around each statement."""

    def __init__(self, f: Function, plan: Plan) -> None:
        self.f, self.plan = f, plan
        every = list(walk(f.body))
        self.enclosing: dict[Statement, tuple[Loop, ...]] = {}
        self.blocks: dict[Statement, tuple[Block, ...]] = {}
        self.written: dict[Loop, Counter[str]] = {}
        self.definitions: dict[str, list[Assign]] = {}
        for s in self.plan.defined:
            if isinstance(s, Assign):
                self.definitions.setdefault(s.name, []).append(s)
        written = {n for s in every for n in writes(s)}
        self.unwritten_arrays = {n for n, rank in f.ranks.items() if rank and n not in written}
        self.checks = [s for s in every if isinstance(s, Check)]
        #: Arrays whose length changes.
        self.resized_arrays = {n for s in every if isinstance(s, Grow | Call) for n in writes(s)} | {
            s.name for s in every if isinstance(s, Grow)
        }
        self.hoisted_before = {}
        if self.plan.local_reversal is not None:
            self.hoisted_before = {
                t: loop for loop, block in self.plan.local_reversal.hoisted_adjoints.items() for t in block
            }
        self.accesses: list[Access] = []
        self._visit(f.body, (), (), "", ())

    # Collecting the accesses, in program order.

    def _visit(self, block: Block, path: Path, loops: tuple[Loop, ...], where: str, blocks: tuple[Block, ...]) -> None:
        blocks = (*blocks, block)
        for s in block:
            self.enclosing[s], self.blocks[s] = loops, blocks
            where = s.source_location or where
            if isinstance(s, Loop):
                self.written[s] = Counter(n for t in walk([s]) for n in writes(t))
            if isinstance(s, Loop) and s.test is not None:
                self._expression(s.test, s, (*path, s), where)
            for term in _evaluated(s):
                self._expression(term, s, path, where)
            if isinstance(s, InRange):
                self.accesses.append(Access(s.index, s.size, s, path, s.what, where))
            elif isinstance(s, Store):
                self._add_accesses(s.array, s.index, s, path, where)
            elif isinstance(s, If):
                self._visit(s.body, (*path, PathCondition(s.test, True, s)), loops, where, blocks)
                self._visit(s.orelse, (*path, PathCondition(s.test, False, s)), loops, where, blocks)
            elif isinstance(s, Loop):
                self._visit(s.body, (*path, s), (*loops, s), where, blocks)

    def _expression(self, term: Term, s: Statement, path: Path, where: str) -> None:
        """Collect the accesses in an expression; querying an array's shape is none."""
        match term:
            case Select(test, body, orelse):
                of_branch = s.test_location if term in _evaluated(s) else ""
                self._expression(test, s, path, of_branch or where)
                self._expression(body, s, (*path, PathCondition(test, True, s)), where)
                self._expression(orelse, s, (*path, PathCondition(test, False, s)), where)
            case Logical(op, operands):
                for operand in operands:
                    self._expression(operand, s, path, where)
                    path = (*path, PathCondition(operand, op == "and", s))
            case Compare(ops, operands):
                for k, operand in enumerate(operands):
                    self._expression(operand, s, path, where)
                    if k:
                        path = (*path, PathCondition(Compare(ops[:k], operands[: k + 1]), True, s))
            case _:
                for operand in term.operands:
                    self._expression(operand, s, path, where)
                if isinstance(term, Element) and self.f.ranks.get(term.array):
                    self._add_accesses(term.array, term.index, s, path, where)

    def _add_accesses(self, array: str, index: tuple[Term, ...], s: Statement, path: Path, where: str) -> None:
        for axis, part in enumerate(index):
            at, way = self._evaluated_before_loops(part, s, path)
            what = f"axis {axis} of {self.f.copied_from.get(array, array)}"
            self.accesses.append(Access(part, Length(array, axis), at, way, what, where))

    def _evaluated_before_loops(self, index: Term, s: Statement, path: Path) -> tuple[Statement, Path]:
        """Where Python evaluates an index: once, before the loops over the elements of an array expression, which may
        have none, if nothing in it changes there."""
        while (
            path
            and isinstance(loop := path[-1], Loop)
            and loop.over_elements
            and not (index.named & self.written[loop].keys())
        ):
            s, path = loop, path[:-1]
        return s, path

    def _resized_in(self, *terms: Term) -> set[str]:
        """The arrays in an expression whose length changes."""
        return self.resized_arrays & named(*terms)


def _evaluated(s: Statement) -> Iterator[Term]:
    """The expressions that a statement evaluates once."""
    match s:
        case Store():
            yield s.value
            yield from s.index
        case Assign():
            yield s.value
        case If() | Check():
            yield s.test
        case InRange():
            yield s.index
        case Loop() if s.index:
            yield from (s.start, s.stop, s.step)
        case Call():
            yield from s.operands
        case Alloc():
            yield from s.shape
