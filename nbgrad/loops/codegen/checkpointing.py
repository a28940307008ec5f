"""Checkpointing: adjoints that save snapshots of the state of an outermost loop and rerun iterations from them.

The schedule is the binomial one, which reruns the fewest iterations for a number of snapshots (Griewank and Walther,
2000, doi:10.1145/347837.347846). With c snapshots and r runs of each iteration, b(c, r) = (c + r)!/(c! r!) iterations
can be reversed; n iterations, b(c, r - 1) < n <= b(c, r), take r n - b(c + 1, r - 1) runs besides the n that record.
"""

from __future__ import annotations

import ast
from copy import copy

from ...core.source_text import comment_source
from ...errors import AttrError, TraceError
from ..analysis.reverse_plan import Plan
from ..frontend.source import Source
from ..frontend.syntax import subtrees, unparse
from ..ir.names import nfkc_name
from ..ir.printer import definition, indent
from ..ir.reverse_ir import For, Step, flatten_items, loops_over
from ..ir.statements import (
    Assign,
    Block,
    Call,
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
from ..ir.tapes import Tape, trip_count
from ..ir.terms import ONE, ZERO, Binary, Element, Term, Variable, reads, variables
from ..ir.type_inference import DTYPES
from . import bounds_checks
from .printer import Printer
from .reverse_sweep import AdjointPrinter

__all__ = ["Checkpointed", "check", "choose_loop", "rerun_iterations"]


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


def choose_loop(plain: AdjointPrinter, name: str | None) -> Loop | None:
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


class Checkpointed(AdjointPrinter):
    """Prints an adjoint with checkpoints in `loop`; its last parameter is the number of snapshots.

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
        self.hoisted_tapes: list[str] = []  # code for tapes of a size that is the same in each iteration
        self.changed = names_written(loop)
        self.snapshots = self.fresh("snapshots")
        self.extra_parameters = [self.snapshots]
        self.budget_entry = self.fresh(f"{f.name}_budget")
        self.snapshots_of = {n: self.fresh(f"{n}_kept") for n in self.state}
        self.counters_of = {n: self.counters(n) for n in self.state if f.ranks.get(n)}
        self.sizes = [
            t.nbytes_before() for t in AdjointPrinter(f, plan, wrt).tapes.values() if t.loops and t.loops[0] is loop
        ]

    def plain(self, block: Block) -> list[str]:
        """The code of the function itself, without stores."""
        return Printer(self.f, self.plan).block(block)

    def initial_values(self) -> list[str]:
        """Scalars in a snapshot need an initial value, too."""
        names = [n for n in self.state if not self.f.ranks.get(n) and n not in self.f.parameters]
        return list(dict.fromkeys([*super().initial_values(), *(self.zero(n) for n in names)]))

    def budget(self) -> str:
        """The source of a function that returns the trip count, the bytes of a snapshot, and the bytes of the tapes
        without checkpoints (-1 if unknown)."""
        one = {n: "1" if self.f.kinds.get(n) == "bool" else "8" for n in self.state}
        each = [f"{n}.nbytes" if self.f.ranks.get(n) else size for n, size in one.items()]
        tapes = "-1" if None in self.sizes else " + ".join(["0", *filter(None, self.sizes)])
        lines = [
            *self.initial_values(),
            *self.plain(self.before),
            *([] if self.trip_count_known else self.plain([self.loop])),
        ]
        trips = trip_count(self.loop) if self.trip_count_known else self.loop.trip_counter
        lines.append(f"return {trips}, {' + '.join(['0', *each])}, {tapes}")
        return definition(self.budget_entry, self.f.parameters, lines)

    def sweeps(self) -> list[str]:
        """The code of both sweeps, interleaved by the checkpointing schedule of the loop."""
        f, plan, loop = self.f, self.plan, self.loop
        self.hoisted_tapes.clear()
        self.zeroed = False
        self.in_blocks = {s.name for s, b in plan.defined.items() if b is not f.body and isinstance(s, Assign)}
        trips, iteration, left, stop = (self.fresh(n) for n in ("trips", "iteration", "left", "stop"))
        first, latest, when = self.fresh("first"), self.fresh("latest"), self.fresh("saved_at")
        at_iteration = [f"{loop.index} = {self.index(iteration)}"] if loop.index else []
        before = self.block(self.before)
        self.recording = True
        record = self.block(loop.body)
        self.recording = False
        after, middle, back = (
            self.block(self.after),
            self.between_sweeps(),
            flatten_items(self.reverse_statements(self.after)),
        )
        reverse = flatten_items(self.reverse_block(loop.body))
        most = f"min({self.snapshots}, {trips})" if self.trip_count_known else self.snapshots
        made = [
            *self.initial_values(),
            *before,
            *(bounds_checks.guard_lines(self.bounds.before.get(loop, [])) if self.trip_count_known else []),
            *([f"{trips} = {trip_count(loop)}"] if self.trip_count_known else []),
            f"{self.snapshots} = max({most}, 1)",
            *(f"{kept} = {self.snapshot_alloc(n)}" for n, kept in self.snapshots_of.items()),
            f"{when} = np.zeros({self.snapshots}, np.int64)  # the iteration before which each was taken",
            *self.hoisted_tapes,
            *self.copy_state(ZERO),
            *(
                []
                if self.trip_count_known
                else [*self.plain([loop]), f"{trips} = {loop.trip_counter}", *self.copy_state(ZERO, back=True)]
            ),
            f"{iteration}, {left}, {latest}, {first} = 0, {trips}, 0, True",
            f"while {first} or {left} > 0:",
            f"    while {iteration} < {left} - 1:",
            f"        {stop} = {iteration} + ahead({left} - {iteration}, {self.snapshots} - {latest})",
            f"        {comment_source(loop.line)}",
            f"        {self.head(iteration, stop)}",
            *indent(indent(indent(self.plain(loop.body)))),
            f"        {iteration} = {stop}",
            f"        if {iteration} < {left} - 1:",
            f"            {latest} += 1",
            f"            {when}[{latest}] = {iteration}",
            *indent(indent(indent(self.copy_state(Variable(latest))))),
            f"    if {left} > 0:",
            *indent(indent([*at_iteration, *record])),
            f"    if {first}:",
            *indent(indent([*after, *middle, *back, f"{first} = False"])),
            f"    if {left} > 0:",
            *indent(indent([*(at_iteration if after or back else []), *reverse])),
            f"        {left} -= 1",
            f"        while {latest} > 0 and {when}[{latest}] >= {left}:",
            f"            {latest} -= 1",
            f"        {iteration} = {when}[{latest}]",
            *indent(indent(self.copy_state(Variable(latest), back=True))),
            *flatten_items(self.reset(loop)),
            *flatten_items(self.reverse_statements(self.before)),
        ]
        return made

    def copy_state(self, at: Term, back: bool = False) -> list[str]:
        """Code that saves the state in snapshot `at`, or, with `back`, restores it."""
        lines: list[str] = []
        for n, kept in self.snapshots_of.items():
            counters = self.counters_of.get(n, [])
            index = variables(counters)
            own, saved = Element(n, index) if index else Variable(n), Element(kept, (at, *index))
            step = Step(own, "=", saved) if back else Step(saved, "=", own)
            lines += flatten_items([loops_over(n, counters, step)])
        return lines

    def head(self, iteration: str, stop: str) -> str:
        """The first line of a loop over the iterations from `iteration` to `stop`."""
        if self.loop.index:
            return For(self.loop.index, self.index(iteration), self.index(stop), self.loop.step).head
        return For(self.fresh("again"), Variable(iteration), Variable(stop)).head

    def index(self, iteration: str) -> Term:
        """The value of the loop variable in iteration `iteration`."""
        start, step = self.loop.start, self.loop.step
        moved = Variable(iteration) if step is ONE else Binary("*", Variable(iteration), step)
        return moved if start is ZERO else Binary("+", start, moved)

    def snapshot_alloc(self, name: str) -> str:
        """Code that allocates the snapshots of a variable."""
        if self.f.ranks.get(name):
            return f"np.empty(({self.snapshots},) + {name}.shape, {name}.dtype)"
        return f"np.empty({self.snapshots}, {DTYPES[self.f.kinds.get(name, 'float')]})"

    def allocate(self, tape: Tape) -> list[str]:
        if not self.recording or tape.sizes is None or reads(*tape.sizes) & self.changed:
            return super().allocate(tape)
        self.hoisted_tapes += super().allocate(tape)
        return []

    def swap_derivatives(self, s: Swap) -> list[str]:
        # While recording, names are already bound to their cotangents from the following iteration.
        return [] if self.recording else super().swap_derivatives(s)


def _loop_state(plan: Plan, loop: Loop, after: Block) -> list[str]:
    """The state of a loop: what iterations read or store, and they or the statements after the loop change."""
    inside = list(walk(loop.body))
    read = {n for s in inside for n in uses(s)} | reads(loop.start, loop.stop, loop.step)
    read |= {n for s in inside for n in writes(s) if s in plan.saved_overwrites or isinstance(s, Swap)}
    changed = [n for s in (*inside, *walk(after)) if s not in plan.defined and isinstance(s, Assign | Store | Swap)
               for n in writes(s)]  # fmt: skip
    for block in (loop.body, *(b for s in inside for b in nested_blocks(s))):
        for s in (s for s in block if isinstance(s, Call) and not s.value_name):
            if any(uses(t) & set(writes(s)) for t in inside if t not in walk(block)):
                raise TraceError(
                    f"adjoint: {plan.dependence_tests.f.where}: checkpoints of a loop in which what '{s.line}' "
                    f"returns may come from an earlier iteration; call {s.rule.name} in every iteration"
                )
    return [n for n in dict.fromkeys(changed) if n in read]
