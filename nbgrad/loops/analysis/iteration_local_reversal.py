"""Loops whose turns can be undone as soon as they have run.

A loop that only adds to totals, or fills elements of its own in each turn, needs no cotangents that come from its other
turns. If what follows it needs none of its values to be differentiated either, as in ``return total / n``, then the
cotangents of the totals are known before the loop, and each turn is undone at its end: nothing is calculated twice, and
tapes hold one turn.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...ir.expr import ONE, ZERO, free
from ..ir.affine import offset, parts
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
    below,
    mentions,
    parsed,
    reads,
    subtrees,
    walk,
    writes,
)

if TYPE_CHECKING:
    from .activity import Plan

__all__ = ["Fusion", "name_of"]


@dataclass
class _Effects:
    """What undoing a loop's turns reads and writes: the active names that are read; the totals; other targets."""

    atoms: set[str] = field(default_factory=set)
    totals: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)


class Fusion:
    """Finds such loops in a function.

    Attributes
    ----------
    loops : set of Loop
        The loops.
    early : dict of Loop to list of Statement
        What is undone before the first such loop of a block.
    partly : dict of Statement to set of str
        The cotangents that such a statement gives then, where others have to wait.
    """

    def __init__(self, f: Function, made: Plan, sweep_reads: Callable, refused: set[Loop]) -> None:
        self.f = f
        self.set_in: dict[Loop, dict[str, list[Assign]]] = {}
        self.made = made
        self.sweep_reads = sweep_reads  # what the derivative of a statement reads
        self.refused = refused
        self.loops: set[Loop] = set()
        self.early: dict[Loop, Block] = {}
        self.partly: dict[Statement, set[str]] = {}
        self.once: list[Block] = []  # blocks that run at most once before they are undone
        self.writers = Counter(n for s in walk(f.body) for n in set(writes(s)))
        self.block(f.body)

    @property
    def done(self) -> set[Statement]:
        """The statements that are undone before the sweep back gets to them."""
        return {*self.loops, *(s for block in self.early.values() for s in block)} - set(self.partly)

    def rest(self, loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        """`loops` without the outer ones that are fused."""
        return tuple(p for p in loops if p not in self.loops)

    def lasts(self, s: Assign, block: Block) -> bool:
        """Whether a number that is set once in `block` still has its value when it is undone."""
        if block is self.f.body or any(block is p.body for p in self.loops):
            return True
        return self.writers[s.name] == 1 and any(block is b for b in self.once)

    def wrong(self) -> set[Loop]:
        """Loops which may not be fused, since more than the numbers of a turn would be restored."""
        found = {loop for loop, suffix in self.early.items() if self.made.save & set(suffix)}
        for loop in self.loops:
            put_back = {n for t in walk([loop]) if isinstance(t, Loop) for n in t.resets}
            found |= {loop for n in put_back if not self.private(n, loop)}
        for s in self.made.save:
            around = [p for p in self.made.enclosing[s] if p in self.loops]
            if around and not (isinstance(s, Assign) and self.private(s.name, around[-1])):
                found.add(around[-1])
        return found

    def block(self, block: Block) -> None:
        """Find the loops at the end of a block, with what follows them."""
        self.once += _once(block)
        at = len(block)
        suffix: Block = []
        while at and not below(block[at - 1]):
            s = block[at - 1]
            if isinstance(s, Swap) or (isinstance(s, Alloc | Grow) and s.name in self.made.active):
                return
            if isinstance(s, Assign | Store) and self.active(s):
                suffix.insert(0, s)
            at -= 1
        found: dict[Loop, _Effects] = {}
        while at:
            s = block[at - 1]
            if self.passive(s) or self.begins(s, block[: at - 1]):
                at -= 1
                continue
            effects = self.effects(s) if isinstance(s, Loop) and s not in self.refused else None
            if effects is None or not all(_commute(effects, other) for other in found.values()):
                break
            assert isinstance(s, Loop)
            found[s] = effects
            at -= 1
        totals = {n for effects in found.values() for n in effects.totals | effects.filled}
        partly = self.known(suffix, block[block.index(list(found)[-1]) :], totals) if found else None
        if partly is None:
            return
        self.partly |= partly
        self.loops |= set(found)
        self.early[list(found)[-1]] = suffix
        for loop in found:
            self.block(loop.body)

    def active(self, s: Assign | Store) -> bool:
        return (s.name if isinstance(s, Assign) else s.array) in self.made.active

    def passive(self, s: Statement) -> bool:
        """Whether nothing in `s` is differentiated."""
        return not any(
            isinstance(t, Swap)
            or (isinstance(t, Alloc | Grow) and t.name in self.made.active)
            or (isinstance(t, Assign | Store) and self.active(t))
            for t in walk([s])
        )

    def begins(self, s: Statement, before: Block) -> bool:
        """Whether `s` gives a total its first value, a constant."""
        if not isinstance(s, Assign) or self.made.algebra.depends(s.value) or s.name in self.f.parameters:
            return False
        return not any(mentions(t, s.name) for t in walk(before))

    def known(self, suffix: Block, between: Block, totals: set[str]) -> dict[Statement, set[str]] | None:
        """Which cotangents each statement of `suffix` gives before the loops run, by the names that get them; None if
        those of `totals` cannot be known then. The others are given in the sweep back, if a number is set once."""
        written = {n for s in walk(between) for n in writes(s)}
        found: dict[Statement, set[str]] = {}
        wanted = totals | {n for s in suffix for n in writes(s)}
        made = {s.name for s in walk(between) if isinstance(s, Alloc)}  # their lengths are not known before, either
        for s in suffix:
            pull = self.made.pulls[s]
            if made & {n.id for node in pull.nodes for n in subtrees(node) if isinstance(n, ast.Name)}:
                return None
            if not pull.value and not self.sweep_reads(s, self.made) & written:
                continue  # all of it can be undone
            alone = isinstance(s, Assign) and self.writers[s.name] == 1
            if not alone or pull.own is not ZERO:
                return None
            found[s] = {name_of(atom) for atom, _ in pull.parts} & wanted
            for atom, part in pull.parts:
                if name_of(atom) in wanted:
                    used = set(free(part)) - {COTANGENT.name}
                    if isinstance(atom, ast.Subscript) or VALUE.name in used:
                        return None
                    if written & {n for t in used for n in reads(parsed(t))}:
                        return None
        return found

    def effects(self, loop: Loop) -> _Effects | None:
        """What undoing the turns of `loop` does; None if it is not possible one by one."""
        if not loop.index or loop.count or loop.until:
            return None
        inside = list(walk(loop.body))
        if any(isinstance(t, Swap | Alloc | Grow) or (isinstance(t, Loop) and t.until) for t in inside):
            return None
        stored = [t for t in inside if isinstance(t, Assign | Store) and self.active(t)]
        if not any(isinstance(t, Loop) for t in inside) and not _worth(stored, self.made):
            return None
        made = _Effects()
        elements: dict[str, list[ast.expr]] = {}
        for t in stored:
            for atom, _ in self.made.pulls[t].parts:
                made.atoms.add(name_of(atom))
                if isinstance(atom, ast.Subscript):
                    elements.setdefault(name_of(atom), []).append(atom.slice)
        by_name: dict[str, list[Assign | Store]] = {}
        for t in stored:
            by_name.setdefault(t.name if isinstance(t, Assign) else t.array, []).append(t)
        for name, own in by_name.items():
            if name not in made.atoms and all(self.made.pulls[t].own is ONE for t in own):
                made.totals.add(name)
            elif self.f.ranks.get(name):
                indices = [*elements.get(name, []), *(t.index for t in own if isinstance(t, Store))]
                if not self.own(indices, loop):
                    return None
                made.filled.add(name)
            elif not self.private(name, loop):
                return None
            else:
                made.atoms.discard(name)
        return made

    def own(self, indices: list[ast.expr], loop: Loop) -> bool:
        """Whether elements at `indices` belong to one turn of `loop`."""
        loops = (*self.made.enclosing[loop], loop)
        found = [
            {(k, offset(p)) for k, p in enumerate(parts(index))
             if offset(p)[0] == loop.index and self.made.independence.counted(p, loops)}
            for index in indices
        ]  # fmt: skip
        return bool(set.intersection(*found))

    def setters(self, loop: Loop) -> dict[str, list[Assign]]:
        """What sets each number in a loop."""
        if loop not in self.set_in:
            found: dict[str, list[Assign]] = {}
            for t in walk(loop.body):
                if isinstance(t, Assign):
                    found.setdefault(t.name, []).append(t)
            self.set_in[loop] = found
        return self.set_in[loop]

    def private(self, name: str, loop: Loop) -> bool:
        """Whether a number is set in each turn before it is used, and nowhere else."""
        if name in self.f.parameters or name in (self.f.results or []):
            return False
        if all(t in self.made.defined for t in self.setters(loop).get(name, ())):
            return True
        inside = set(walk(loop.body))
        if any(mentions(t, name) for t in walk(self.f.body) if t not in inside):
            return False
        first = next(s for s in loop.body if any(mentions(t, name) for t in walk([s])))
        return isinstance(first, Assign) and first.name == name and name not in reads(first.value)


def name_of(atom: ast.expr) -> str:
    """The number or array that gets a cotangent."""
    return (atom.value if isinstance(atom, ast.Subscript) else atom).id  # type: ignore[attr-defined]


def _once(block: Block) -> list[Block]:
    """`block`, and the branches in it."""
    return [block, *(b for s in block if isinstance(s, If) for inner in below(s) for b in _once(inner))]


def _commute(first: _Effects, later: _Effects) -> bool:
    """Whether two loops can be undone in the order in which they run."""
    targets = first.totals | first.filled
    if targets & later.atoms or first.atoms & (later.totals | later.filled):
        return False
    return not (targets & later.filled or first.filled & later.totals)


def _worth(stored: list, made: Plan) -> bool:
    """Whether an innermost loop is better undone turn by turn: where it adds up a number, or calls functions."""
    return any(
        (isinstance(t, Assign) and t not in made.defined)
        or (t in made.defined and any(isinstance(n, ast.Call) for n in subtrees(t.value)))
        for t in stored
    )
