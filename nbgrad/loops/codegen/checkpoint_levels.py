"""Loops with checkpoints: which are chosen, what a snapshot of each holds, and the variables of their schedules."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from ...errors import AttrError, TraceError
from ..analysis.reverse_plan import Plan
from ..frontend.source import Source
from ..frontend.syntax import subtrees, unparse
from ..ir.names import nfkc_name
from ..ir.reverse_ir import Item, Step
from ..ir.statements import Assign, Block, If, Loop, Store, Swap, nested_blocks, uses, walk, writes
from ..ir.statements import Call as CallStatement
from ..ir.tapes import trip_count
from ..ir.terms import ONE, ZERO, Binary, Compare, Element, Term, Variable, reads
from .reverse_sweep import AdjointBuilder

__all__ = ["Level", "check", "choose_loops", "rerun_iterations"]


def rerun_iterations(trips: int, snapshots: int) -> int:
    """The number of iterations that the schedule runs besides those that record."""
    repeats, reach, once = 0, 1, 0
    while reach < trips:
        repeats += 1
        once, reach = reach, reach * (snapshots + repeats) // repeats
    return repeats * trips - once * (snapshots + repeats) // (snapshots + 1)


def check(source: Source, names: tuple[str | None, ...]) -> None:
    """Refuse early a first loop that does not exist, or that is inside another one."""
    name = names[0]
    if name is None:
        return
    loops = [n for n in subtrees(source.node) if isinstance(n, ast.For)]
    matches = [n for n in loops if _is_over(name, unparse(n.target))]
    if not matches:
        raise AttrError(f"{source.name}: checkpoints: there is no loop over the variable {name}")
    if matches[0] not in source.node.body:
        around = next((unparse(n.target).strip("()") for n in loops if matches[0] in n.body), "t")
        raise source.refuse(
            matches[0],
            "checkpoints of a loop inside another one alone",
            f"name the loops around it, too, from the outermost: loop=({around!r}, {name!r})",
        )


def choose_loops(plain: AdjointBuilder, names: tuple[str | None, ...] = (None,)) -> list[Loop]:
    """The loops with checkpoints, each directly in the body of the one before: those over `names`, or else those with
    the largest tapes. None where nothing is stored for the outermost; inner ones for which nothing is stored are left
    out."""
    chosen: list[Loop] = []
    block = plain.f.body
    for k in range(len(names)):
        loop = _choose_loop(plain, block, names[k:], chosen)
        if loop is None:
            break
        chosen.append(loop)
        block = loop.body
    return chosen


def _choose_loop(plain: AdjointBuilder, block: Block, names: tuple[str | None, ...], around: list[Loop]) -> Loop | None:
    """The first loop of `block` over the first of `names`, with loops over the others in it, or else the one with the
    largest tapes: those with most axes, then the most."""
    name, depth = names[0], len(around)
    loops = _loops_over(name, block)
    if name is not None:
        loops = [s for s in loops if len(names) == 1 or _loops_over(names[1], s.body)][:1] or loops[:1]
        if not loops:
            inside = f" directly in the loop over {around[-1].target or around[-1].index}" if around else ""
            branches = [s for s in block if isinstance(s, If)]
            if any(_loops_over(name, b) for s in branches for b in (s.body, s.orelse)):
                raise AttrError(
                    f"{plain.f.name}: checkpoints: the loop over the variable {name} is in a branch, as all is that "
                    "follows a return, break or continue under an if; put what follows it in a function of its own, "
                    "and give that checkpoints"
                )
            raise AttrError(
                f"{plain.f.name}: checkpoints: there is no loop over the variable {name}{inside}, or it is unrolled"
            )
    sizes = {
        s: sorted(-len(t.loops) for t in plain.tapes.values() if len(t.loops) > depth and t.loops[depth] is s)
        for s in loops
    }
    stored = [s for s in loops if sizes[s]]
    return min(stored, key=lambda s: (sizes[s][0], -len(sizes[s])), default=None)


def _loops_over(name: str | None, block: Block) -> list[Loop]:
    """The loops of `block` over `name`, or all if that is None."""
    loops = [s for s in block if isinstance(s, Loop)]
    return [s for s in loops if name in (None, s.index) or _is_over(str(name), s.target)]


def _is_over(name: str, target: str) -> bool:
    """Whether a loop with this target is over `name`: one of its variables, or all of them."""
    name, target = nfkc_name(name).strip("()"), target.strip("()")
    return name in (target, *(part.strip("()") for part in target.split(", ")))


class Level:
    """One of the loops with checkpoints, and the variables of its schedule.

    Attributes
    ----------
    before, after : list of Statement
        The statements around the loop in its block.
    state : list of str
        The names of the scalars and arrays that a snapshot holds.
    trip_count_known : bool
        Whether the trip count is known on entry to the loop. If not, the loop runs once beforehand to count.
    """

    def __init__(self, loop: Loop, block: Block, around: Sequence[Level], plan: Plan) -> None:
        self.loop = loop
        at = block.index(loop)
        self.before, self.after = block[:at], block[at + 1 :]
        self.trip_count_known = bool(loop.index) and not loop.trip_counter
        # With the last iteration, what comes after the loops around it runs, too.
        self.state = _loop_state(plan, loop, [*self.after, *(s for outer in around for s in outer.after)])

    def take_names(self, fresh: Callable[[str], str]) -> None:
        """Name the variables of the schedule."""
        self.snapshots = fresh("snapshots")
        self.snapshots_of = {n: fresh(f"{n}_kept") for n in self.state}
        self.trips, self.iteration, self.left, self.stop, self.first, self.latest = (
            Variable(fresh(n)) for n in ("trips", "iteration", "left", "stop", "first", "latest")
        )
        self.when = fresh("saved_at")

    @property
    def trip_count(self) -> Term:
        """The trip count: on entry to the loop if it is known there, otherwise when the loop has run."""
        return trip_count(self.loop) if self.trip_count_known else Variable(self.loop.trip_counter)

    @property
    def remaining(self) -> Term:
        """Whether iterations are left to reverse."""
        return Compare((">",), (self.left, ZERO))

    @property
    def saved_at(self) -> Element:
        """The iteration before which the latest snapshot was taken."""
        return Element(self.when, (self.latest,))

    def index(self, iteration: Term) -> Term:
        """The value of the loop variable in iteration `iteration`."""
        start, step = self.loop.start, self.loop.step
        moved = iteration if step is ONE else Binary("*", iteration, step)
        return moved if start is ZERO else Binary("+", start, moved)

    @property
    def at_iteration(self) -> list[Item]:
        """Set the loop variable to the current iteration."""
        return [Step(Variable(self.loop.index), "=", self.index(self.iteration))] if self.loop.index else []


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
    return [n for n in dict.fromkeys(changed) if n in read and not plan.private_names.carries_nothing(n, loop)]
