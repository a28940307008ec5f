"""Checkpointing: adjoints that save snapshots of the state of an outermost loop and rerun iterations from them.

The schedule is the binomial one, which reruns the fewest iterations for a number of snapshots (Griewank and Walther,
2000, doi:10.1145/347837.347846). With c snapshots and r runs of each iteration, b(c, r) = (c + r)!/(c! r!) iterations
can be reversed; n iterations, b(c, r - 1) < n <= b(c, r), take r n - b(c + 1, r - 1) runs besides the n that record.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import copy
from functools import reduce

import numpy as np

from ...errors import AttrError, TraceError
from ..analysis.reverse_plan import Plan
from ..frontend.source import Source
from ..frontend.syntax import subtrees, unparse
from ..ir.effects import Bind, Return
from ..ir.names import called, nfkc_name
from ..ir.printer import Definition, Routine, definition
from ..ir.reverse_ir import Branch, Comment, For, Item, Step, While, bound_by, loops_over
from ..ir.statements import (
    Assign,
    Block,
    Function,
    Grow,
    Loop,
    Store,
    Swap,
    names_written,
    nested_blocks,
    uses,
    walk,
    writes,
)
from ..ir.statements import Call as CallStatement
from ..ir.tapes import Tape, trip_count
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
from .reverse_sweep import AdjointBuilder
from .sweep_builder import SweepBuilder

__all__ = ["Checkpointed", "check", "choose_loop", "rerun_iterations"]

_WHEN = "the iteration before which each was taken"


def rerun_iterations(trips: int, snapshots: int) -> int:
    """The number of iterations that the schedule runs besides those that record."""
    repeats, reach, once = 0, 1, 0
    while reach < trips:
        repeats += 1
        once, reach = reach, reach * (snapshots + repeats) // repeats
    return repeats * trips - once * (snapshots + repeats) // (snapshots + 1)


def check(source: Source, name: str | None) -> None:
    """Refuse early a loop that does not exist, or that is inside another one."""
    if name is None:
        return
    loops = [n for n in subtrees(source.node) if isinstance(n, ast.For)]
    matches = [n for n in loops if unparse(n.target).strip("()") == nfkc_name(name).strip("()")]
    if not matches:
        raise AttrError(f"{source.name}: checkpoints: there is no loop over the variable {name}")
    if matches[0] not in source.node.body:
        raise source.refuse(matches[0], "checkpoints of a loop inside another one", "name the outermost loop")


def choose_loop(plain: AdjointBuilder, name: str | None) -> Loop | None:
    """The loop over `name`, or else the one with the largest tapes: those with most axes, then the most tapes."""
    loops = [s for s in plain.f.body if isinstance(s, Loop)]
    if name is not None:
        loops = [s for s in loops if s.index == name or s.target == nfkc_name(name).strip("()")][:1]
        if not loops:
            raise AttrError(
                f"{plain.f.name}: checkpoints: there is no loop over the variable {name}, or it is unrolled"
            )
    sizes = {s: sorted(-len(t.loops) for t in plain.tapes.values() if t.loops and t.loops[0] is s) for s in loops}
    stored = [s for s in loops if sizes[s]]
    return min(stored, key=lambda s: (sizes[s][0], -len(sizes[s])), default=None)


class Checkpointed(AdjointBuilder):
    """Makes an adjoint with checkpoints in `loop`; its last parameter is the number of snapshots.

    Attributes
    ----------
    state : list of str
        The names of the scalars and arrays that a snapshot holds.
    trip_count_known : bool
        Whether the trip count is known on entry to the loop. If not, the loop runs once beforehand to count.
    """

    def __init__(self, f: Function, plan: Plan, wrt: list[str], loop: Loop) -> None:
        self.loop = loop
        self.trip_count_known = bool(loop.index) and not loop.trip_counter
        at = f.body.index(loop)
        self.before, self.after = f.body[:at], f.body[at + 1 :]
        self.state = _loop_state(plan, loop, self.after)
        loop.parallel = False  # its iterations run in order
        one_turn = copy(plan)
        one_turn.enclosing = {s: p[1:] if p and p[0] is loop else p for s, p in plan.enclosing.items()}
        one_turn.restored = plan.restored | set(self.state) | {n for s in walk(loop.body) for n in writes(s)}
        super().__init__(f, one_turn, wrt)
        moving = {n for s in walk(loop.body) if isinstance(s, Swap) for n in (s.first, s.second)}
        bad = sorted(n for n in moving & set(self.bars) if n in f.parameters)
        bad += [s.name for s in walk(loop.body) if isinstance(s, Grow)]
        if bad:
            raise TraceError(
                f"adjoint: {f.where}: checkpoints of a loop in which {bad[0]} is swapped or grows; swap copies of "
                "the arguments, and copy back after the loop"
            )
        self.recording = False
        self.hoisted_tapes: list[Item] = []  # allocations of tapes of a size that is the same in each iteration
        self.changed = names_written(loop)
        self.snapshots = self.fresh("snapshots")
        self.extra_parameters = [self.snapshots]
        self.budget_entry = self.fresh(f"{f.name}_budget")
        self.snapshots_of = {n: self.fresh(f"{n}_kept") for n in self.state}
        self.counters_of = {n: self.counters(n) for n in self.state if f.ranks.get(n)}
        self.sizes = [
            t.nbytes_before() for t in AdjointBuilder(f, plan, wrt).tapes.values() if t.loops and t.loops[0] is loop
        ]

    def plain(self, block: Block) -> list[Item]:
        """The function itself, without stores."""
        return SweepBuilder(self.f, self.plan).block(block)

    def initial_values(self) -> list[Item]:
        """Scalars in a snapshot need an initial value, too."""
        items = super().initial_values()
        known = {*self.f.parameters, *(n for item in items for n in bound_by(item))}
        return [*items, *(self.zero(n) for n in self.state if not self.f.ranks.get(n) and n not in known)]

    def budget(self) -> Definition:
        """A function that returns the trip count, the bytes of a snapshot, and the bytes of the tapes
        without checkpoints (-1 if unknown)."""
        kinds, ranks = self.f.kinds, self.f.ranks
        each = [
            Property(Variable(n), "nbytes") if ranks.get(n) else Constant(1 if kinds.get(n) == "bool" else 8)
            for n in self.state
        ]
        tapes = [size for size in self.sizes if size is not None]
        items = [
            *self.initial_values(),
            *self.plain(self.before),
            *([] if self.trip_count_known else self.plain([self.loop])),
            Return((self.trips, _sum(each), _sum(tapes) if len(tapes) == len(self.sizes) else MINUS_ONE)),
        ]
        return definition(self.budget_entry, self.f.parameters, items)

    @property
    def trips(self) -> Term:
        """The trip count: on entry to the loop if it is known there, otherwise when the loop has run."""
        return trip_count(self.loop) if self.trip_count_known else Variable(self.loop.trip_counter)

    def sweeps(self) -> list[Item]:
        """Both sweeps, interleaved by the checkpointing schedule of the loop."""
        f, plan, loop, known = self.f, self.plan, self.loop, self.trip_count_known
        self.hoisted_tapes.clear()
        self.zeroed = False
        self.in_blocks = {s.name for s, b in plan.defined.items() if b is not f.body and isinstance(s, Assign)}
        trips, iteration, left, stop = (Variable(self.fresh(n)) for n in ("trips", "iteration", "left", "stop"))
        first, latest, when = Variable(self.fresh("first")), Variable(self.fresh("latest")), self.fresh("saved_at")
        at_iteration = [Step(Variable(loop.index), "=", self.index(iteration))] if loop.index else []
        before = self.block(self.before)
        self.recording = True
        record = self.block(loop.body)
        self.recording = False
        after, middle = self.block(self.after), self.between_sweeps()
        back = self.reverse_statements(self.after)
        reverse = self.reverse_block(loop.body)
        snapshots, saved_at = Variable(self.snapshots), Element(when, (latest,))
        most = called(min, snapshots, trips) if known else snapshots
        counting = [*self.plain([loop]), Step(trips, "=", self.trips), *self.copy_state(ZERO, back=True)]
        last = Binary("-", left, ONE)
        ahead = Routine.AHEAD.called(Binary("-", left, iteration), Binary("-", snapshots, latest))
        save = [Step(latest, "+=", ONE), Step(saved_at, "=", iteration), *self.copy_state(latest)]
        run: list[Item] = [
            Step(stop, "=", ahead),
            Step(stop, "+=", iteration),
            Comment(loop.line),
            self.rerun(iteration, stop),
            Step(iteration, "=", stop),
            Branch(Compare(("<",), (iteration, last)), body=save),
        ]
        remaining = Compare((">",), (left, ZERO))
        done = Logical("and", (Compare((">",), (latest, ZERO)), Compare((">=",), (saved_at, left))))
        turn: list[Item] = [
            While(Compare(("<",), (iteration, last)), body=run),
            Branch(remaining, body=[*at_iteration, *record]),
            Branch(first, body=[*after, *middle, *back, Step(first, "=", FALSE)]),
            Branch(
                remaining,
                body=[
                    *(at_iteration if after or back else []),
                    *reverse,
                    Step(left, "-=", ONE),
                    While(done, body=[Step(latest, "-=", ONE)]),
                    Step(iteration, "=", saved_at),
                    *self.copy_state(latest, back=True),
                ],
            ),
        ]
        begun = (iteration.name, left.name, latest.name, first.name)
        return [
            *self.initial_values(),
            *before,
            *(bounds_checks.guards(self.bounds.before.get(loop, [])) if known else []),
            *([Step(trips, "=", self.trips)] if known else []),
            Step(snapshots, "=", called(max, most, ONE)),
            *(Bind((kept,), self.snapshot_alloc(n)) for n, kept in self.snapshots_of.items()),
            Bind((when,), called(np.zeros, snapshots, DTYPES["int"]), comment=_WHEN),
            *self.hoisted_tapes,
            *self.copy_state(ZERO),
            *([] if known else counting),
            Bind(begun, Tuple((ZERO, trips, ZERO, TRUE)), unpacks=True),
            While(Logical("or", (first, remaining)), body=turn),
            *self.reset(loop),
            *self.reverse_statements(self.before),
        ]

    def copy_state(self, at: Term, back: bool = False) -> list[Item]:
        """Save the state in snapshot `at`, or, with `back`, restore it."""
        items: list[Item] = []
        for n, kept in self.snapshots_of.items():
            counters = self.counters_of.get(n, [])
            index = variables(counters)
            own, saved = Element(n, index) if index else Variable(n), Element(kept, (at, *index))
            items.append(loops_over(n, counters, Step(own, "=", saved) if back else Step(saved, "=", own)))
        return items

    def rerun(self, iteration: Term, stop: Term) -> For:
        """A loop over the iterations from `iteration` to `stop`, without stores."""
        body = self.plain(self.loop.body)
        if self.loop.index:
            return For(self.loop.index, self.index(iteration), self.index(stop), self.loop.step, body=body)
        return For(self.fresh("again"), iteration, stop, body=body)

    def index(self, iteration: Term) -> Term:
        """The value of the loop variable in iteration `iteration`."""
        start, step = self.loop.start, self.loop.step
        moved = iteration if step is ONE else Binary("*", iteration, step)
        return moved if start is ZERO else Binary("+", start, moved)

    def snapshot_alloc(self, name: str) -> Term:
        """The array for the snapshots of a variable."""
        snapshots = Variable(self.snapshots)
        if self.f.ranks.get(name):
            return called(np.empty, Binary("+", Tuple((snapshots,)), Shape(name)), DType(name))
        return called(np.empty, snapshots, DTYPES[self.f.kinds.get(name, "float")])

    def allocate(self, tape: Tape) -> list[Item]:
        if not self.recording or tape.sizes is None or reads(*tape.sizes) & self.changed:
            return super().allocate(tape)
        self.hoisted_tapes += super().allocate(tape)
        return []

    def swap_derivatives(self, s: Swap) -> list[Item]:
        # While recording, names are already bound to their cotangents from the following iteration.
        return [] if self.recording else super().swap_derivatives(s)


def _sum(terms: Sequence[Term]) -> Term:
    return reduce(lambda a, b: Binary("+", a, b), [ZERO, *terms])


def _loop_state(plan: Plan, loop: Loop, after: Block) -> list[str]:
    """The state of a loop: what iterations read or store, and they or the statements after the loop change."""
    inside = list(walk(loop.body))
    read = {n for s in inside for n in uses(s)} | reads(loop.start, loop.stop, loop.step)
    read |= {n for s in inside for n in writes(s) if s in plan.saved_overwrites or isinstance(s, Swap)}
    changed = [n for s in (*inside, *walk(after)) if s not in plan.defined and isinstance(s, Assign | Store | Swap)
               for n in writes(s)]  # fmt: skip
    for block in (loop.body, *(b for s in inside for b in nested_blocks(s))):
        for s in (s for s in block if isinstance(s, CallStatement) and not s.value_name):
            if any(uses(t) & set(writes(s)) for t in inside if t not in walk(block)):
                raise TraceError(
                    f"adjoint: {plan.dependence_tests.f.where}: checkpoints of a loop in which what '{s.line}' "
                    f"returns may come from an earlier iteration; call {s.rule.name} in every iteration"
                )
    return [n for n in dict.fromkeys(changed) if n in read]
