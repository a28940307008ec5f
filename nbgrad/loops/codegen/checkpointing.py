"""Adjoints whose outermost loop keeps snapshots of what its turns change, and runs turns again from them.

The schedule is the binomial one, which runs the fewest turns for a number of snapshots (Griewank and Walther, 2000,
doi:10.1145/347837.347846). With c snapshots and r runs of each turn, b(c, r) = (c + r)!/(c! r!) turns can be gone
through backwards; n turns, b(c, r - 1) < n <= b(c, r), take r n - b(c + 1, r - 1) turns besides the n that record.
"""

from __future__ import annotations

import ast
from copy import copy

from ...core.source_text import comment
from ...errors import AttrError, TraceError
from ..analysis.activity import Plan
from ..frontend.source import Source
from ..ir.names import normal
from ..ir.reverse_ir import elements, flat, loop_head
from ..ir.statements import (
    Assign,
    Block,
    Call,
    Function,
    Grow,
    Loop,
    Store,
    Swap,
    below,
    changed,
    parse,
    reads,
    subtrees,
    unparse,
    uses,
    walk,
    writes,
)
from ..ir.tapes import Tape, trips
from . import bounds_checks
from .printer import Printer, definition, indent
from .reverse_sweep import Reverse

__all__ = ["Checkpointed", "check", "choose", "runs"]


def runs(turns: int, snapshots: int) -> int:
    """How many turns the schedule runs besides those that record."""
    repeats, reach, once = 0, 1, 0
    while reach < turns:
        repeats += 1
        once, reach = reach, reach * (snapshots + repeats) // repeats
    return repeats * turns - once * (snapshots + repeats) // (snapshots + 1)


def check(source: Source, name: str | None) -> None:
    """Refuse at once a loop that is not there, or inside of another one."""
    if name is None:
        return
    loops = [n for n in subtrees(source.node) if isinstance(n, ast.For)]
    found = [n for n in loops if unparse(n.target).strip("()") == normal(name).strip("()")]
    if not found:
        raise AttrError(f"{source.name}: checkpoints: there is no loop of the variable {name}")
    if found[0] not in source.node.body:
        raise source.refuse(found[0], "checkpoints of a loop inside of another one", "name the outermost loop")


def choose(plain: Reverse, name: str | None) -> Loop | None:
    """The loop named, or that with the largest tapes: with most axes, and then most of them."""
    loops = [s for s in plain.f.body if isinstance(s, Loop)]
    if name is not None:
        loops = [s for s in loops if s.index == name or s.target == normal(name).strip("()")][:1]
        if not loops:
            raise AttrError(
                f"{plain.f.name}: checkpoints: there is no loop of the variable {name}, or it is written out"
            )
    sizes = {s: sorted(-len(t.loops) for t in plain.tapes.values() if t.loops and t.loops[0] is s) for s in loops}
    stored = [s for s in loops if sizes[s]]
    return min(stored, key=lambda s: (sizes[s][0], -len(sizes[s])), default=None)


class Checkpointed(Reverse):
    """Writes an adjoint with checkpoints in `loop`; its last parameter is the number of snapshots.

    Attributes
    ----------
    state : list of str
        The names of numbers and arrays that a snapshot holds.
    known : bool
        Whether the number of turns is known when the loop begins. If not, it runs once before, and counts them.
    """

    def __init__(self, f: Function, plan: Plan, wrt: list[str], loop: Loop) -> None:
        self.loop = loop
        self.known = bool(loop.index) and not loop.count
        at = f.body.index(loop)
        self.before, self.after = f.body[:at], f.body[at + 1 :]
        self.state = _state(plan, loop, self.after)
        loop.parallel = False  # its turns run one after the other
        one_turn = copy(plan)
        one_turn.enclosing = {s: p[1:] if p and p[0] is loop else p for s, p in plan.enclosing.items()}
        one_turn.restored = plan.restored | set(self.state) | {n for s in walk(loop.body) for n in writes(s)}
        super().__init__(f, one_turn, wrt)
        moving = {n for s in walk(loop.body) if isinstance(s, Swap) for n in (s.first, s.second)}
        bad = sorted(n for n in moving & set(self.bars) if n in f.parameters)
        bad += [s.name for s in walk(loop.body) if isinstance(s, Grow)]
        if bad:
            raise TraceError(
                f"adjoint: {f.where}: checkpoints of a loop in which {bad[0]} changes places or grows; let copies of "
                "the arguments change places, and copy back after the loop"
            )
        self.recording = False
        self.tapes_before: list[str] = []  # code for tapes of which each turn has the same use
        self.changed = changed(loop)
        self.snapshots = self.fresh("snapshots")
        self.further = [self.snapshots]
        self.budget_entry = self.fresh(f"{f.name}_budget")
        self.kept_of = {n: self.fresh(f"{n}_kept") for n in self.state}
        self.counters_of = {n: self.counters(n) for n in self.state if f.ranks.get(n)}
        self.sizes = [t.nbytes_before() for t in Reverse(f, plan, wrt).tapes.values() if t.loops and t.loops[0] is loop]

    def plain(self, block: Block) -> list[str]:
        """The code of the function itself."""
        return Printer(self.f, self.plan).block(block)

    def begin(self) -> list[str]:
        """Numbers in a snapshot need a value, too."""
        names = [n for n in self.state if not self.f.ranks.get(n) and n not in self.f.parameters]
        return list(dict.fromkeys([*super().begin(), *(self.zero(n) for n in names)]))

    def budget(self) -> str:
        """The source of a function that returns the number of turns, the bytes of a snapshot, and those of the tapes
        without checkpoints, -1 if that is not known."""
        one = {n: "1" if self.f.kinds.get(n) == "bool" else "8" for n in self.state}
        each = [f"{n}.nbytes" if self.f.ranks.get(n) else size for n, size in one.items()]
        tapes = "-1" if None in self.sizes else " + ".join(["0", *filter(None, self.sizes)])
        lines = [*self.begin(), *self.plain(self.before), *([] if self.known else self.plain([self.loop]))]
        turns = trips(self.loop) if self.known else self.loop.count
        lines.append(f"return {turns}, {' + '.join(['0', *each])}, {tapes}")
        return definition(self.budget_entry, self.f.parameters, lines)

    def sweeps(self) -> list[str]:
        f, plan, loop = self.f, self.plan, self.loop
        self.tapes_before.clear()
        self.zeroed = False
        self.in_blocks = {s.name for s, b in plan.defined.items() if b is not f.body and isinstance(s, Assign)}
        turns, turn, left, stop = (self.fresh(n) for n in ("turns", "turn", "left", "stop"))
        first, latest, when = self.fresh("first"), self.fresh("latest"), self.fresh("kept_at")
        at_turn = [f"{loop.index} = {unparse(self.index(turn))}"] if loop.index else []
        before = self.block(self.before)
        self.recording = True
        record = self.block(loop.body)
        self.recording = False
        after, middle, back = self.block(self.after), self.turn_round(), flat(self.undone(self.after))
        reverse = flat(self.backward(loop.body))
        made = [
            *self.begin(),
            *before,
            *(bounds_checks.lines(self.bounds.before.get(loop, [])) if self.known else []),
            *([f"{turns} = {trips(loop)}"] if self.known else []),
            f"{self.snapshots} = max({f'min({self.snapshots}, {turns})' if self.known else self.snapshots}, 1)",
            *(f"{kept} = {self.room(n)}" for n, kept in self.kept_of.items()),
            f"{when} = np.zeros({self.snapshots}, np.int64)  # the turn before which each was taken",
            *self.tapes_before,
            *self.keep("0"),
            *([] if self.known else [*self.plain([loop]), f"{turns} = {loop.count}", *self.keep("0", back=True)]),
            f"{turn}, {left}, {latest}, {first} = 0, {turns}, 0, True",
            f"while {first} or {left} > 0:",
            f"    while {turn} < {left} - 1:",
            f"        {stop} = {turn} + ahead({left} - {turn}, {self.snapshots} - {latest})",
            f"        {comment(loop.line)}",
            f"        {self.head(turn, stop)}",
            *indent(indent(indent(self.plain(loop.body)))),
            f"        {turn} = {stop}",
            f"        if {turn} < {left} - 1:",
            f"            {latest} += 1",
            f"            {when}[{latest}] = {turn}",
            *indent(indent(indent(self.keep(latest)))),
            f"    if {left} > 0:",
            *indent(indent([*at_turn, *record])),
            f"    if {first}:",
            *indent(indent([*after, *middle, *back, f"{first} = False"])),
            f"    if {left} > 0:",
            *indent(indent([*(at_turn if after or back else []), *reverse])),
            f"        {left} -= 1",
            f"        while {latest} > 0 and {when}[{latest}] >= {left}:",
            f"            {latest} -= 1",
            f"        {turn} = {when}[{latest}]",
            *indent(indent(self.keep(latest, back=True))),
            *flat(self.reset(loop)),
            *flat(self.undone(self.before)),
        ]
        return made

    def keep(self, at: str, back: bool = False) -> list[str]:
        """Code for a snapshot, or, with `back`, for the state that one holds."""
        lines: list[str] = []
        for n, kept in self.kept_of.items():
            if not self.f.ranks.get(n):
                lines.append(f"{n} = {kept}[{at}]" if back else f"{kept}[{at}] = {n}")
                continue
            sides = [f"{n}[", f"{kept}[{at}, "]
            lines += flat([elements(n, self.counters_of[n], sides[not back], "=", sides[back])])
        return lines

    def head(self, turn: str, stop: str) -> str:
        """The first line of a loop over some of the turns."""
        if self.loop.index:
            return loop_head(Loop(self.loop.index, self.index(turn), self.index(stop), self.loop.step, None, []))
        return f"for {self.fresh('again')} in range({turn}, {stop}):"

    def index(self, turn: str) -> ast.expr:
        """The loop's variable in a turn."""
        start, step = unparse(self.loop.start), unparse(self.loop.step)
        moved = turn if step == "1" else f"{turn} * ({step})"
        return parse(moved if start == "0" else f"{start} + {moved}")

    def room(self, name: str) -> str:
        """Code for an array of snapshots."""
        if self.f.ranks.get(name):
            return f"np.empty(({self.snapshots},) + {name}.shape, {name}.dtype)"
        dtype = {"float": "np.float64", "int": "np.int64", "bool": "np.bool_"}[self.f.kinds.get(name, "float")]
        return f"np.empty({self.snapshots}, {dtype})"

    def allocate(self, tape: Tape) -> list[str]:
        if not self.recording or tape.sizes is None or any(reads(parse(n)) & self.changed for n in tape.sizes):
            return super().allocate(tape)
        self.tapes_before += super().allocate(tape)
        return []

    def swap_beside(self, s: Swap) -> list[str]:
        return (
            [] if self.recording else super().swap_beside(s)
        )  # names have their cotangents from the turn that follows


def _state(plan: Plan, loop: Loop, after: Block) -> list[str]:
    """What turns read, or store for the sweep back, of what they or the statements after the loop change."""
    inside = list(walk(loop.body))
    read = {n for s in inside for n in uses(s)} | reads(loop.start, loop.stop, loop.step)
    read |= {n for s in inside for n in writes(s) if s in plan.save or isinstance(s, Swap)}
    changed = [n for s in (*inside, *walk(after)) if s not in plan.defined and isinstance(s, Assign | Store | Swap)
               for n in writes(s)]  # fmt: skip
    for block in (loop.body, *(b for s in inside for b in below(s))):
        for s in (s for s in block if isinstance(s, Call) and not s.found):
            if any(uses(t) & set(writes(s)) for t in inside if t not in walk(block)):
                raise TraceError(
                    f"adjoint: {plan.independence.f.where}: checkpoints of a loop in which what '{s.line}' "
                    f"gives may come from an earlier turn; call {s.rule.name} in every turn"
                )
    return [n for n in dict.fromkeys(changed) if n in read]
