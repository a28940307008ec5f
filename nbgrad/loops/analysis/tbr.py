"""Which way each value that a derivative reads takes: calculated again, kept, or restored."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..ir.affine import offset, plus
from ..ir.statements import (
    Assign,
    Block,
    Call,
    Function,
    If,
    Loop,
    Made,
    Statement,
    Store,
    Swap,
    below,
    elements_in,
    parsed,
    reads,
    walk,
    writes,
)
from ..ir.tapes import grows_by_one
from .cost_model import costly
from .dependence import Independence
from .scalar_replacement import held

if TYPE_CHECKING:
    from .activity import Plan

__all__ = ["choose_ways", "elements_read", "matters", "resets", "sweep_reads", "worth_storing"]


def sweep_reads(s: Statement, made: Plan) -> set[str]:
    """The names whose values the derivative of a statement reads."""
    if isinstance(s, Assign | Store):
        found = made.pulls[s].reads
        return found | reads(s.index) if isinstance(s, Store) and s.array in made.active else found
    if isinstance(s, Call):
        if not made.active & set(s.results):
            return set()
        if s.found:
            return {*reads(*s.given), *s.results}
        return {n for n in reads(*s.given) if not made.independence.f.ranks.get(n)}  # it keeps arrays itself
    if isinstance(s, If):
        return reads(s.test) if matters(s, made) else set()
    if isinstance(s, Loop):
        found = set(s.resets.values())
        if not matters(s, made):
            return found
        found |= reads(s.start, s.step, *([] if s.count else [s.stop])) if s.index else set()
        return found | {s.count} if s.count else found
    return set()


def elements_read(s: Statement, array: str, made: Plan) -> list[ast.expr]:
    """The indices at which the derivative of `s` reads `array`."""
    nodes: list[ast.expr | None] = []
    match s:
        case Assign() | Store():
            pull = made.pulls[s]
            nodes += [*pull.nodes, *pull.indices]
            nodes += [s.value] if s in made.redo else []
            nodes += [s.index] if isinstance(s, Store) else []
        case If():
            nodes = [s.test]
        case Loop():
            nodes = [s.start, s.stop, s.step]
        case Call() if array in sweep_reads(s, made):
            places = [parsed("any()")] * made.independence.f.ranks[array]  # all of them: like no other index
            return places if len(places) == 1 else [ast.Tuple(places, ast.Load())]
    return [index for node in nodes if node is not None for index in elements_in(node, array)]


def matters(s: Statement, made: Plan) -> bool:
    """Whether the sweep back does anything in the blocks of `s`."""
    return any(
        isinstance(t, Swap | Call)
        or t in made.save
        or (isinstance(t, Assign | Store) and (writes(t)[0] in made.active))
        for inner in below(s)
        for t in walk(inner)
    )


def choose_ways(f: Function, made: Plan) -> None:
    """Choose. Numbers that are made of array elements which would have to be saved are kept instead if that stores no
    more: then nothing is put back, nor calculated again."""
    made.stepped = {s: back for s in walk(f.body) if isinstance(s, Assign) and (back := _stepped(f, s, made))}
    _settle(f, made, set())
    saved = {s.array for s in made.save if isinstance(s, Store)}
    swaps = [set(writes(s)) for s in walk(f.body) if isinstance(s, Swap)]
    for _ in swaps:
        saved |= {n for pair in swaps if pair & saved for n in pair}
    costly: set[Statement] = {s for s in made.redo if isinstance(s, Assign) and reads(s.value) & saved}
    if costly:
        first = made.save, made.keep, made.redo
        size = _size(made)
        made.save, made.keep, made.redo = set(), set(), set()
        _settle(f, made, costly)
        if _size(made) > size:
            made.save, made.keep, made.redo = first
    made.held = held(made)
    made.restored = {writes(s)[0] for s in made.save}
    made.restored |= {n for s in walk(f.body) if isinstance(s, Loop) for n in s.resets}
    made.restored |= {n for s in walk(f.body) if isinstance(s, Call) and made.enclosing[s] and not s.found
                      for n in writes(s)}  # fmt: skip


def _stepped(f: Function, s: Assign, made: Plan) -> ast.expr | None:
    """What an integer was before a constant was added to it."""
    if f.kinds.get(s.name) != "int" or any(loop.parallel for loop in made.enclosing[s]):
        return None
    name, step = offset(s.value)
    return plus(ast.Name(name, ast.Load()), -step) if name == s.name and step else None


def resets(f: Function, made: Plan) -> list[tuple[Loop, set[str]]]:
    """Loops, with numbers that would be saved in each turn, though no derivative in the loop reads them: it is enough
    to save them before it."""
    found = []
    for loop in walk(f.body):
        if not isinstance(loop, Loop) or loop in made.fusion.loops:
            continue
        inside = list(walk([loop]))
        saved = {s.name for s in inside if isinstance(s, Assign) and s in made.save} - set(loop.resets)
        if saved and (names := saved - _read_back(inside, made)):
            found.append((loop, names))
    return found


def _read_back(statements: Iterable[Statement], made: Plan) -> set[str]:
    """The names that the sweep back through `statements` reads."""
    found: set[str] = set()
    for s in statements:
        found |= sweep_reads(s, made)
        if isinstance(s, Store) and s in made.save:
            found |= reads(s.index)
        if isinstance(s, Assign) and s in made.redo:
            found |= reads(s.value)
    return found


def _size(made: Plan) -> int:
    """How much is stored, if each loop has 1000 turns."""
    return sum(
        1000 ** len(made.enclosing[s]) for s in (*made.save - held(made).keys() - made.stepped.keys(), *made.keep)
    )


def _settle(f: Function, made: Plan, kept: set[Statement]) -> None:
    """Iterate: what is saved must be restored, for which loops and tests are needed, whose values may be saved."""
    while True:
        before = len(made.save), len(made.keep), len(made.redo)
        needed = _read_back(walk(f.body), made)
        _definitions_needed(f, made, needed, kept)
        required: dict[str, dict] = {}
        _require(f.body, required, made, made.independence)
        if before == (len(made.save), len(made.keep), len(made.redo)):
            break


def _definitions_needed(f: Function, made: Plan, needed: set[str], kept: set[Statement]) -> None:
    """Decide for the definitions that are read whether they are calculated again or kept; those in `kept` are."""
    grew = True
    while grew:
        grew = False
        for s, block in made.defined.items():
            assert isinstance(s, Assign)
            if s.name not in needed or s in made.keep or s in made.redo or made.fusion.lasts(s, block):
                continue
            grew = True
            if s not in kept and not worth_storing(s, f, made) and _still_there(s, block, made, made.independence):
                made.redo.add(s)
                needed |= reads(s.value)
            else:
                made.keep.add(s)


def worth_storing(s: Statement, f: Function, made: Plan) -> bool:
    """Whether a number is better stored than calculated again: it takes long, and its tape does not grow by one."""
    if not isinstance(s, Assign) or not costly(s.value, made.algebra):
        return False
    loops = made.fusion.rest(made.enclosing[s])
    return bool(loops) and not grows_by_one(loops)


def _still_there(s: Assign, block: Block, made: Plan, independence: Independence) -> bool:
    """Whether what `s` reads has its values also at the end of `block`."""
    read = reads(s.value)
    if s.made is Made.BRANCH and (independence.f.narrow or read & made.moving):
        return False  # a truth value is less to store than what it is made of
    after = block[block.index(s) + 1 :]
    for t in walk(after):
        hit = read & set(writes(t))
        if not hit or (t in made.carried and t in block):  # what is carried is undone first
            continue
        if not isinstance(t, Store) or not independence.differ(t, s, elements_in(s.value, t.array)):
            return False
    return True


def _require(block: Block, required: dict[str, dict], made: Plan, independence: Independence) -> None:
    """Forward through `block`: what of it earlier derivatives read, by name; overwriting that means saving it.

    For an array, the statements that read it are kept, in order, so that its elements can be told apart.
    """

    def need(names: set[str], s: Statement) -> None:
        for n in names:
            required.setdefault(n, {})[s] = None

    for s in block:
        match s:
            case Assign():
                need(sweep_reads(s, made), s)
                if s in made.redo:
                    need(reads(s.value), s)
                if s not in made.defined and required.pop(s.name, {}):
                    made.save.add(s)
                    need({s.name} if s in made.stepped else set(), s)
            case Store():
                need(sweep_reads(s, made), s)
                if s in made.save:
                    need(reads(s.index), s)
                if any(
                    not independence.apart(s, r, elements_read(r, s.array, made)) for r in required.get(s.array, ())
                ):
                    made.save.add(s)
            case Call():
                need(sweep_reads(s, made), s)
            case Swap():
                a, b = required.pop(s.first, {}), required.pop(s.second, {})
                if b:
                    required[s.first] = b
                if a:
                    required[s.second] = a
            case If():
                need(sweep_reads(s, made), s)
                other = {k: dict(v) for k, v in required.items()}
                _require(s.body, required, made, independence)
                _require(s.orelse, other, made, independence)
                _join(required, other)
            case Loop() if s in made.fusion.loops:  # nothing of it is needed later
                _require(s.body, {k: dict(v) for k, v in required.items()}, made, independence)
            case Loop():
                for n in s.resets:
                    required.pop(n, None)
                while True:
                    start = {k: dict(v) for k, v in required.items()}
                    _require(s.body, required, made, independence)
                    _join(required, start)
                    if {k: len(v) for k, v in start.items()} == {k: len(v) for k, v in required.items()}:
                        break
                need(sweep_reads(s, made), s)


def _join(required: dict[str, dict], other: dict[str, dict]) -> None:
    for name, statements in other.items():
        required.setdefault(name, {}).update(statements)
