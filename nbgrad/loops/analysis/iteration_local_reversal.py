"""Iteration-local reversal: reverse each iteration of a loop as soon as it has run (Tapenade's II-loops).

A loop that only accumulates into totals, or fills elements of its own in each iteration, needs no cotangents from its
other iterations. If the adjoints of what follows it need none of its values either, as in ``return total / n``, the
cotangents of the totals are known before the loop, and each iteration is reversed at its end: nothing is computed
twice, and tapes hold one iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...ir.expr import ONE, ZERO, free_variables
from ..ir.affine import offset
from ..ir.algebra import COTANGENT, VALUE
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
    mentions,
    nested_blocks,
    walk,
    writes,
)
from ..ir.terms import Call, Element, Variable, named, reads, subterms
from .dependence import Index

if TYPE_CHECKING:
    from .reverse_plan import Plan

__all__ = ["IterationLocalReversal", "cotangent_name"]


@dataclass
class _ReversalEffects:
    """The active names that reversing the iterations of a loop involves.

    `atoms` are the names read, `totals` the accumulators, `filled` the other targets.
    """

    atoms: set[str] = field(default_factory=set)
    totals: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)


class IterationLocalReversal:
    """Finds the loops of a function whose iterations can be reversed at once.

    Attributes
    ----------
    loops : set of Loop
        The loops.
    hoisted_adjoints : dict of Loop to list of Statement
        The statements that are reversed before the first such loop of a block.
    hoisted_cotangents : dict of Statement to set of str
        For an early statement of which the rest is reversed later: the names whose cotangents it contributes to early.
    """

    def __init__(self, f: Function, plan: Plan, sweep_reads: Callable, refused: set[Loop]) -> None:
        self.f = f
        self.setters_by_loop: dict[Loop, dict[str, list[Assign]]] = {}
        self.plan = plan
        self.sweep_reads = sweep_reads  # the names that the adjoint of a statement reads
        self.excluded_loops = refused
        self.loops: set[Loop] = set()
        self.hoisted_adjoints: dict[Loop, Block] = {}
        self.hoisted_cotangents: dict[Statement, set[str]] = {}
        self.executed_once: list[Block] = []  # blocks that run at most once before they are reversed
        self.writers = Counter(n for s in walk(f.body) for n in set(writes(s)))
        self.block(f.body)

    @property
    def already_reversed(self) -> set[Statement]:
        """The statements that are completely reversed before the reverse sweep reaches them."""
        return {*self.loops, *(s for block in self.hoisted_adjoints.values() for s in block)} - set(
            self.hoisted_cotangents
        )

    def without_local_reversal(self, loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        """`loops` without those that are reversed iteration by iteration."""
        return tuple(p for p in loops if p not in self.loops)

    def keeps_value(self, s: Assign, block: Block) -> bool:
        """Whether a scalar that is assigned once in `block` still has its value when `block` is reversed."""
        if block is self.f.body or any(block is p.body for p in self.loops):
            return True
        return self.writers[s.name] == 1 and any(block is b for b in self.executed_once)

    def illegal_loops(self) -> set[Loop]:
        """Loops that must not be reversed iteration by iteration.

        More than scalars private to an iteration would have to be restored.
        """
        invalid = {loop for loop, suffix in self.hoisted_adjoints.items() if self.plan.saved_overwrites & set(suffix)}
        for loop in self.loops:
            restored = {n for t in walk([loop]) if isinstance(t, Loop) for n in t.values_before_loop}
            invalid |= {loop for n in restored if not self.private(n, loop)}
        for s in self.plan.saved_overwrites:
            around = [p for p in self.plan.enclosing[s] if p in self.loops]
            if around and not all(self.private(n, around[-1]) for n in writes(s)):
                invalid.add(around[-1])
        return invalid

    def block(self, block: Block) -> None:
        """Find the loops at the end of a block, with the statements after them."""
        self.executed_once += _with_branches(block)
        at = len(block)
        suffix: Block = []
        while at and not nested_blocks(block[at - 1]):
            s = block[at - 1]
            if isinstance(s, Swap) or (isinstance(s, Alloc | Grow) and s.name in self.plan.active):
                return
            if isinstance(s, Assign | Store) and self.active(s):
                suffix.insert(0, s)
            at -= 1
        candidates: dict[Loop, _ReversalEffects] = {}
        while at:
            s = block[at - 1]
            if self.passive(s) or self.initializes_total(s, block[: at - 1]):
                at -= 1
                continue
            effects = self.reversal_effects(s) if isinstance(s, Loop) and s not in self.excluded_loops else None
            if effects is None or not all(_commute(effects, other) for other in candidates.values()):
                break
            assert isinstance(s, Loop)
            candidates[s] = effects
            at -= 1
        totals = {n for effects in candidates.values() for n in effects.totals | effects.filled}
        partly = (
            self.early_cotangents(suffix, block[block.index(list(candidates)[-1]) :], totals) if candidates else None
        )
        if partly is None:
            return
        self.hoisted_cotangents |= partly
        self.loops |= set(candidates)
        self.hoisted_adjoints[list(candidates)[-1]] = suffix
        for loop in candidates:
            self.block(loop.body)

    def active(self, s: Assign | Store) -> bool:
        return (s.name if isinstance(s, Assign) else s.array) in self.plan.active

    def passive(self, s: Statement) -> bool:
        """Whether `s` contains nothing that is differentiated."""
        return not any(
            isinstance(t, Swap)
            or (isinstance(t, Alloc | Grow) and t.name in self.plan.active)
            or (isinstance(t, Assign | Store) and self.active(t))
            for t in walk([s])
        )

    def initializes_total(self, s: Statement, before: Block) -> bool:
        """Whether `s` initializes a total with a constant."""
        if not isinstance(s, Assign) or self.plan.algebra.depends(s.value) or s.name in self.f.parameters:
            return False
        return not any(mentions(t, s.name) for t in walk(before))

    def early_cotangents(self, suffix: Block, between: Block, totals: set[str]) -> dict[Statement, set[str]] | None:
        """The names whose cotangents each statement of `suffix` contributes to before the loops run.

        None if the cotangents of `totals` cannot be known by then. The other contributions are left to the reverse
        sweep, if the scalar is assigned once.
        """
        written = {n for s in walk(between) for n in writes(s)}
        early: dict[Statement, set[str]] = {}
        wanted = totals | {n for s in suffix for n in writes(s)}
        # the lengths of these are not known before the loops either
        allocated = {s.name for s in walk(between) if isinstance(s, Alloc)}
        for s in suffix:
            pull = self.plan.statement_adjoints[s]
            if allocated & named(*pull.nodes):
                return None
            if not pull.value and not self.sweep_reads(s, self.plan) & written:
                continue  # its whole adjoint can run early
            single = isinstance(s, Assign) and self.writers[s.name] == 1
            if not single or pull.target_factor is not ZERO:
                return None
            early[s] = {cotangent_name(atom) for atom, _ in pull.parts} & wanted
            for atom, part in pull.parts:
                if cotangent_name(atom) in wanted:
                    used = set(free_variables(part)) - {COTANGENT.name}
                    if isinstance(atom, Element) or VALUE.name in used:
                        return None
                    if written & reads(*used):
                        return None
        return early

    def reversal_effects(self, loop: Loop) -> _ReversalEffects | None:
        """What reversing the iterations of `loop` involves; None if they cannot be reversed one by one."""
        if not loop.index or loop.trip_counter or loop.exit_flag:
            return None
        inside = list(walk(loop.body))
        if any(isinstance(t, Swap | Alloc | Grow) or (isinstance(t, Loop) and t.exit_flag) for t in inside):
            return None
        stored = [t for t in inside if isinstance(t, Assign | Store) and self.active(t)]
        if not any(isinstance(t, Loop) for t in inside) and not _is_profitable(stored, self.plan):
            return None
        effects = _ReversalEffects()
        elements: dict[str, list[Index]] = {}
        for t in stored:
            for atom, _ in self.plan.statement_adjoints[t].parts:
                effects.atoms.add(cotangent_name(atom))
                if isinstance(atom, Element):
                    elements.setdefault(atom.array, []).append(atom.index)
        by_name: dict[str, list[Assign | Store]] = {}
        for t in stored:
            by_name.setdefault(t.name if isinstance(t, Assign) else t.array, []).append(t)
        for name, own in by_name.items():
            if name not in effects.atoms and all(self.plan.statement_adjoints[t].target_factor is ONE for t in own):
                effects.totals.add(name)
            elif self.private(name, loop):
                effects.atoms.discard(name)
            elif self.f.ranks.get(name):
                indices = [*elements.get(name, []), *(t.index for t in own if isinstance(t, Store))]
                if not self.distinct_per_iteration(indices, loop):
                    return None
                effects.filled.add(name)
            else:
                return None
        return effects

    def distinct_per_iteration(self, indices: list[Index], loop: Loop) -> bool:
        """Whether the elements at `indices` belong to one iteration of `loop`."""
        loops, counter = (*self.plan.enclosing[loop], loop), Variable(loop.index)
        offsets = [
            {(k, offset(p)) for k, p in enumerate(index)
             if offset(p)[0] is counter and self.plan.dependence_tests.provably_nonnegative(p, loops)}
            for index in indices
        ]  # fmt: skip
        return bool(set.intersection(*offsets))

    def setters(self, loop: Loop) -> dict[str, list[Assign]]:
        """The assignments to each scalar in a loop."""
        if loop not in self.setters_by_loop:
            setters: dict[str, list[Assign]] = {}
            for t in walk(loop.body):
                if isinstance(t, Assign):
                    setters.setdefault(t.name, []).append(t)
            self.setters_by_loop[loop] = setters
        return self.setters_by_loop[loop]

    def private(self, name: str, loop: Loop) -> bool:
        """Whether a scalar or an array is private to the iterations of a loop."""
        setters = self.setters(loop).get(name, ())
        defined = bool(setters) and all(t in self.plan.defined for t in setters)
        return defined or self.plan.private_names.is_private(name, loop)


def cotangent_name(atom: Variable | Element) -> str:
    """The scalar or array whose cotangent `atom` refers to."""
    return atom.array if isinstance(atom, Element) else atom.name


def _with_branches(block: Block) -> list[Block]:
    """`block`, and the branches in it."""
    return [
        block,
        *(b for s in block if isinstance(s, If) for inner in nested_blocks(s) for b in _with_branches(inner)),
    ]


def _commute(first: _ReversalEffects, later: _ReversalEffects) -> bool:
    """Whether two loops can be reversed in the order in which they run."""
    targets = first.totals | first.filled
    if targets & later.atoms or first.atoms & (later.totals | later.filled):
        return False
    return not (targets & later.filled or first.filled & later.totals)


def _is_profitable(stored: list, plan: Plan) -> bool:
    """Whether an innermost loop gains from iteration-local reversal.

    It does if it accumulates into a scalar or calls functions.
    """
    return any(
        (isinstance(t, Assign) and t not in plan.defined)
        or (t in plan.defined and any(isinstance(n, Call) for n in subterms(t.value)))
        for t in stored
    )
