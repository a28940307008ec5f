"""Checkpointing: adjoints that save snapshots of the state of loops and rerun iterations from them.

The schedule is the binomial one, which reruns the fewest iterations for a number of snapshots (Griewank and Walther,
2000, doi:10.1145/347837.347846). With c snapshots and r runs of each iteration, b(c, r) = (c + r)!/(c! r!) iterations
can be reversed; n iterations, b(c, r - 1) < n <= b(c, r), take r n - b(c + 1, r - 1) runs besides the n that record.

Loops in one another have a schedule each: where an iteration of the outer loop is recorded and reversed, what comes
before the inner loop is recorded, the schedule of the inner loop runs, and what comes before it is reversed. What comes
after the inner loop is recorded and reversed once its last iteration has been recorded, and with it, the first time,
what comes after the outer loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property, reduce
from itertools import pairwise

import numpy as np

from ...errors import TraceError
from ..analysis.reverse_plan import Plan
from ..ir.effects import Bind, Return
from ..ir.names import called
from ..ir.passes import checked_sweep
from ..ir.printer import Definition, Routine, definition
from ..ir.reverse_ir import Branch, Comment, For, Item, Step, While, bound_by, loops_over
from ..ir.statements import (
    Assign,
    Block,
    Function,
    Grow,
    Loop,
    Swap,
    names_written,
    walk,
    writes,
)
from ..ir.tapes import Tape
from ..ir.terms import (
    FALSE,
    MINUS_ONE,
    ONE,
    TRUE,
    ZERO,
    Binary,
    Compare,
    Constant,
    DType,
    Element,
    Logical,
    Property,
    Shape,
    Term,
    Tuple,
    Variable,
    reads,
    variables,
)
from ..ir.type_inference import DTYPES
from . import bounds_checks
from .checkpoint_levels import Level
from .reverse_sweep import AdjointBuilder
from .sweep_builder import SweepBuilder

__all__ = ["Checkpointed"]

_WHEN = "the iteration before which each was taken"


class Checkpointed(AdjointBuilder):
    """Makes an adjoint with checkpoints in `loops`, each directly in the body of the one before; its last parameters
    are the numbers of snapshots, one for each loop."""

    def __init__(self, f: Function, plan: Plan, wrt: list[str], loops: list[Loop]) -> None:
        self.levels: list[Level] = []
        outer, block = loops[0], f.body
        for loop in loops:
            self.levels.append(Level(loop, block, self.levels, plan))
            block = loop.body
            loop.parallel = False  # its iterations run in order
        if len({loop.index for loop in loops if loop.index}) < sum(bool(loop.index) for loop in loops):
            raise TraceError(
                f"adjoint: {f.where}: checkpoints of loops over the same variable {outer.index}, one in the other; "
                "rename one"
            )
        one_turn = copy(plan)
        one_turn.enclosing = {s: self._without_levels(p) for s, p in plan.enclosing.items()}
        written = {n for s in walk(outer.body) for n in writes(s)}
        one_turn.restored = plan.restored | {n for level in self.levels for n in level.state} | written
        super().__init__(f, one_turn, wrt)
        moving = {n for s in walk(outer.body) if isinstance(s, Swap) for n in (s.first, s.second)}
        if bad := sorted(n for n in moving & set(self.bars) if n in f.parameters):
            raise TraceError(
                f"adjoint: {f.where}: checkpoints of a loop in which the argument {bad[0]} is swapped; swap copies "
                "of the arguments, and copy back after the loop"
            )
        if growing := [s.name for s in walk(outer.body) if isinstance(s, Grow)]:
            raise TraceError(
                f"adjoint: {f.where}: checkpoints of a loop in which the list {growing[0]} grows; store into an "
                "array of full length"
            )
        self.recording = False
        self.hoisted_tapes: list[Item] = []  # allocations of tapes of a size that is the same in each iteration
        self.changed = names_written(outer)
        for level in self.levels:
            level.take_names(self.fresh)
        self.extra_parameters = [level.snapshots for level in self.levels]
        self.budget_entry = self.fresh(f"{f.name}_budget")
        self.counters_of = {n: self.counters(n) for level in self.levels for n in level.state if f.ranks.get(n)}
        self.sizes = [
            t.nbytes_before() for t in AdjointBuilder(f, plan, wrt).tapes.values() if t.loops and t.loops[0] is outer
        ]

    def _without_levels(self, enclosing: tuple[Loop, ...]) -> tuple[Loop, ...]:
        """The loops around a statement that have no checkpoints."""
        depth = 0
        while depth < min(len(enclosing), len(self.levels)) and enclosing[depth] is self.levels[depth].loop:
            depth += 1
        return enclosing[depth:]

    def plain(self, block: Block) -> list[Item]:
        """The function itself, without stores."""
        return SweepBuilder(self.f, self.plan).block(block)

    def initial_values(self) -> list[Item]:
        """Scalars in a snapshot need an initial value, too."""
        items = super().initial_values()
        known = {*self.f.parameters, *(n for item in items for n in bound_by(item))}
        state = dict.fromkeys(n for level in self.levels for n in level.state)
        return [*items, *(self.zero(n) for n in state if not self.f.ranks.get(n) and n not in known)]

    def budget(self) -> Definition:
        """A function that returns the trip count of the outermost loop, the bytes of the tapes without checkpoints (-1
        if unknown), and the bytes of a snapshot of each loop."""
        outer = self.levels[0]
        tapes = [size for size in self.sizes if size is not None]
        items = [
            *self.initial_values(),
            *self.plain(outer.before),
            *([] if outer.trip_count_known else self.plain([outer.loop])),
            Return((
                outer.trip_count,
                _sum(tapes) if len(tapes) == len(self.sizes) else MINUS_ONE,
                *(_sum([self.snapshot_bytes(n) for n in level.state]) for level in self.levels),
            )),
        ]  # fmt: skip
        return definition(self.budget_entry, self.f.parameters, items)

    def snapshot_bytes(self, name: str) -> Term:
        """The bytes that a variable takes in a snapshot."""
        if self.f.ranks.get(name):
            return Property(Variable(name), "nbytes")
        return Constant(1 if self.f.kinds.get(name) == "bool" else 8)

    @cached_property
    def saves_every_iteration(self) -> bool:
        """Whether each iteration of the outermost loop has a snapshot: it is small beside the loop inside."""
        outer = self.levels[0]
        return outer.trip_count_known and len(self.levels) > 1 and not any(map(self.f.ranks.get, outer.state))

    def sweeps(self) -> list[Item]:
        """Both sweeps, interleaved by the checkpointing schedules of the loops."""
        f, plan, outer, last = self.f, self.plan, self.levels[0], self.levels[-1]
        self.hoisted_tapes.clear()
        self.zeroed = False
        self.in_blocks = {s.name for s, b in plan.defined.items() if b is not f.body and isinstance(s, Assign)}
        before = self.block(outer.before)
        self.recording = True
        heads = {inner: self.block(inner.before) for inner in self.levels[1:]}
        record = self.block(last.loop.body)
        tails = {inner: self.block(inner.after) for inner in reversed(self.levels[1:])}
        self.recording = False
        at_end = [*self.block(outer.after), *self.between_sweeps(), *self.reverse_statements(outer.after)]
        ends = {outer: at_end}
        for around, inner in pairwise(self.levels):
            begin, end = self.begin_reverse(around.loop.body)
            after = around.loop.body[len(inner.before) + 1 : end]
            back = [*around.at_iteration, *begin, *self.reverse_statements(after)]
            ends[inner] = [
                *_if(around.remaining, tails[inner]), *self.once(around, ends[around]), *_if(around.remaining, back),
            ]  # fmt: skip
        items = self.schedule(
            last,
            [*_if(last.remaining, [*last.at_iteration, *record]), *self.once(last, ends[last])],
            [*(last.at_iteration if ends[last] else []), *self.reverse_block(last.loop.body)],
        )
        for around, inner in reversed(list(pairwise(self.levels))):
            entry = [*around.at_iteration, *heads[inner], *self.enter(inner)]
            back = self.reverse_statements(inner.before, continued=True)
            items = self.schedule(
                around,
                [Step(inner.trips, "=", ZERO), *_if(around.remaining, entry), *items],
                [*self.reset(inner.loop), *back],
            )
        items = [
            *self.initial_values(),
            *before,
            *self.enter(outer),
            *items,
            *self.reset(outer.loop),
            *self.reverse_statements(outer.before),
        ]
        self.check(checked_sweep(items, f.name, "checkpointing"))
        return items

    def enter(self, level: Level) -> list[Item]:
        """What comes before the schedule of a loop: its trip count, and the first snapshot."""
        known = level.trip_count_known
        items: list[Item] = bounds_checks.guards(self.bounds.before.get(level.loop, [])) if known else []
        items += [Step(level.trips, "=", level.trip_count)] if known else []
        if level is self.levels[0]:
            items += [*self.snapshot_arrays(), *self.hoisted_tapes]
        items += self.copy_state(level, ZERO)
        if not known:
            items += self.plain([level.loop])
            items += [Step(level.trips, "=", level.trip_count), *self.copy_state(level, ZERO, back=True)]
        return items

    def schedule(self, level: Level, record: list[Item], reverse: list[Item]) -> list[Item]:
        """The schedule of a loop. `record` runs an iteration with its stores, and once, after the last iteration,
        everything that comes after the loop; `reverse` reverses the iteration."""
        iteration, left, stop, latest = level.iteration, level.left, level.stop, level.latest
        last, snapshots = Binary("-", left, ONE), Variable(level.snapshots)
        ahead = Routine.AHEAD.called(Binary("-", left, iteration), Binary("-", snapshots, latest))
        save = [Step(latest, "+=", ONE), Step(level.saved_at, "=", iteration), *self.copy_state(level, latest)]
        run: list[Item] = [
            Step(stop, "=", ahead),
            Step(stop, "+=", iteration),
            Comment(level.loop.line),
            self.rerun(level),
            Step(iteration, "=", stop),
            Branch(Compare(("<",), (iteration, last)), body=save),
        ]
        done = Logical("and", (Compare((">",), (latest, ZERO)), Compare((">=",), (level.saved_at, left))))
        step_back = [
            Step(left, "-=", ONE),
            While(done, body=[Step(latest, "-=", ONE)]),
            Step(iteration, "=", level.saved_at),
            *self.copy_state(level, latest, back=True),
        ]
        begun = (iteration.name, left.name, latest.name, level.first.name)
        turn: list[Item] = [
            While(Compare(("<",), (iteration, last)), body=run),
            *record,
            Branch(level.remaining, body=[*reverse, *step_back]),
        ]
        return [
            Bind(begun, Tuple((ZERO, level.trips, ZERO, TRUE)), unpacks=True),
            While(Logical("or", (level.first, level.remaining)), body=turn),
        ]

    @staticmethod
    def once(level: Level, items: list[Item]) -> list[Item]:
        """`items` after the last iteration of a loop, when it runs for the first time."""
        return _if(level.first, [*items, Step(level.first, "=", FALSE)])

    def copy_state(self, level: Level, at: Term, back: bool = False) -> list[Item]:
        """Save the state of a loop in snapshot `at`, or, with `back`, restore it."""
        items: list[Item] = []
        for n, kept in level.snapshots_of.items():
            counters = self.counters_of.get(n, [])
            index = variables(counters)
            own, saved = Element(n, index) if index else Variable(n), Element(kept, (at, *index))
            items.append(loops_over(n, counters, Step(own, "=", saved) if back else Step(saved, "=", own)))
        return items

    def rerun(self, level: Level) -> For:
        """A loop over the iterations up to where the schedule stops, without stores."""
        body = self.plain(level.loop.body)
        start, stop = level.iteration, level.stop
        if level.loop.index:
            return For(level.loop.index, level.index(start), level.index(stop), level.loop.step, body=body)
        return For(self.fresh("again"), start, stop, body=body)

    def snapshot_arrays(self) -> list[Item]:
        """Allocate the arrays for the snapshots of all loops."""
        items: list[Item] = []
        for level in self.levels:
            snapshots = Variable(level.snapshots)
            most: Term = snapshots
            if level is self.levels[0] and level.trip_count_known:
                most = level.trips if self.saves_every_iteration else called(min, snapshots, level.trips)
            items.append(Step(snapshots, "=", called(max, most, ONE)))
            for n, kept in level.snapshots_of.items():
                if self.f.ranks.get(n):
                    new = called(np.empty, Binary("+", Tuple((snapshots,)), Shape(n)), DType(n))
                else:
                    new = called(np.empty, snapshots, DTYPES[self.f.kinds.get(n, "float")])
                items.append(Bind((kept,), new))
            items.append(Bind((level.when,), called(np.zeros, snapshots, DTYPES["int"]), comment=_WHEN))
        return items

    def allocate(self, tape: Tape) -> list[Item]:
        if not self.recording or tape.sizes is None or reads(*tape.sizes) & self.changed:
            return super().allocate(tape)
        self.hoisted_tapes += super().allocate(tape)
        return []

    def swap_derivatives(self, s: Swap) -> list[Item]:
        # While recording, names are already bound to their cotangents from the following iteration.
        return [] if self.recording else super().swap_derivatives(s)


def _if(test: Term, items: list[Item]) -> list[Item]:
    """`items` where `test` holds."""
    return [Branch(test, body=items)] if items else []


def _sum(terms: Sequence[Term]) -> Term:
    return reduce(lambda a, b: Binary("+", a, b), [ZERO, *terms])
