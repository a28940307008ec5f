"""What the reverse sweep needs: which names are differentiated, and which values must be there again.

The sweep back goes through the statements in reverse and needs, at each of them, the values that its derivative reads.
There are three ways to have them. *Definitions*: a number that is set once per turn of a block, before all its uses, is
calculated again when the sweep enters the block (`redo`), or, where what it is made of has changed by the end of the
block, kept (`keep`). Everything else is *restored*: a statement that overwrites a value which an earlier statement's
derivative reads saves it first (`save`), and the sweep back puts it back. A loop whose derivatives read nothing that is
overwritten stores nothing.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from ..expr import ONE, ZERO, Expr, free, var
from .algebra import COTANGENT, VALUE, Algebra
from .fusion import Fusion
from .independence import Independence
from .ir import (
    Assign,
    Block,
    Function,
    If,
    Loop,
    Statement,
    Store,
    Swap,
    below,
    elements_in,
    parse,
    reads,
    unparse,
    uses,
    walk,
    writes,
)
from .names import resolve
from .parallel import turns_apart
from .split import carry, factor, split

__all__ = ["Plan", "Pull", "plan"]


@dataclass
class Pull:
    """The derivative of one statement: `own` is the factor that the cotangent of what is overwritten keeps (ZERO: none;
    ONE: it is not touched), `parts` what the others get."""

    own: Expr
    parts: list[tuple[ast.expr, Expr]]

    @property
    def value(self) -> bool:
        """Whether it reads what the statement wrote."""
        return any(VALUE.name in free(e) for e in (self.own, *(p for _, p in self.parts)))


@dataclass
class Plan:
    """The outcome. `enclosing` gives the loops around each statement, from the outermost."""

    algebra: Algebra
    active: set[str]
    pulls: dict[Statement, Pull] = field(default_factory=dict)
    save: set[Statement] = field(default_factory=set)
    keep: set[Statement] = field(default_factory=set)
    redo: set[Statement] = field(default_factory=set)
    defined: dict[Statement, Block] = field(default_factory=dict)
    enclosing: dict[Statement, tuple[Loop, ...]] = field(default_factory=dict)
    restored: set[str] = field(default_factory=set)
    moving: set[str] = field(default_factory=set)
    stores: list[Store] = field(default_factory=list)
    carried: set[Statement] = field(default_factory=set)
    independence: Independence = None  # type: ignore[assignment]  # set when the rest is known
    fusion: Fusion = None  # type: ignore[assignment]


def plan(f: Function, wrt: set[str], carried: tuple[Statement, ...] = ()) -> Plan:
    """Analyse `f`, to be differentiated with respect to the parameters `wrt`. Inserts definitions for tests and bounds
    of loops that change in what they control, and `carried` ones."""
    algebra = Algebra(resolve, set())
    turns_apart(f)
    split(
        f,
        {
            *f.parameters,
            *(f.results or []),
            *(n for s in walk(f.body) if isinstance(s, Loop) for n in (s.until, s.count)),
        },
    )
    outputs = {*(f.results or []), *(s.array for s in walk(f.body) if isinstance(s, Store) and s.array in f.parameters)}
    outputs |= {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second) if n in f.parameters}
    algebra.active = active_names(f, algebra, wrt, outputs)
    factor(f, algebra)
    made = Plan(algebra, algebra.active, carried=set(carried))
    _fix_controls(f, f.body, changing(f))
    _enclose(f.body, (), made)
    find_definitions(f, made)
    made.moving = changing(f) - {s.name for s in made.defined if isinstance(s, Assign)}
    swapped = {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second)}
    made.independence = Independence(f, made.enclosing, swapped)
    made.stores = [s for s in walk(f.body) if isinstance(s, Store)]
    for s in walk(f.body):
        if isinstance(s, Assign | Store):
            made.pulls[s] = _pull(s, made)
    refused = {s for s in walk(f.body) if isinstance(s, Loop) and s.parallel}
    while True:
        made.fusion = Fusion(f, made, sweep_reads, refused)
        made.save, made.keep, made.redo = set(), set(), set()
        _ways(f, made)
        if not (wrong := made.fusion.wrong()):
            break
        refused |= wrong
    found = [] if carried else _carries(f, made)
    if found:
        return plan(f, wrt, tuple(carry(f, loop, s) for loop, s in found))
    return made


def _carries(f: Function, made: Plan) -> list[tuple[Loop, Assign]]:
    """The numbers that change in the middle of turns, for which numbers made of them would be kept. If they changed at
    the end, these could be calculated again."""
    found = []
    for loop in walk(f.body):
        if not isinstance(loop, Loop) or not made.keep & set(loop.body):
            continue
        written = [n for s in walk(loop.body) for n in writes(s)]
        saved = [s for s in loop.body if isinstance(s, Assign) and s in made.save and s.name in made.active]
        found += [(loop, s) for s in saved if written.count(s.name) == 1]
    return found


def active_names(f: Function, algebra: Algebra, wrt: set[str], outputs: set[str]) -> set[str]:
    """Names that depend on `wrt` and that `outputs` depend on."""
    varied, useful = set(wrt), set(outputs)
    statements = list(walk(f.body))
    grew = True
    while grew:
        before = len(varied) + len(useful)
        for s in statements:
            if isinstance(s, Swap):
                for names in (varied, useful):
                    if {s.first, s.second} & names:
                        names |= {s.first, s.second}
                continue
            if not isinstance(s, Assign | Store):
                continue
            target = s.name if isinstance(s, Assign) else s.array
            if f.kinds.get(target, "float") == "float" and algebra.depends(s.value, varied):
                varied.add(target)
            if target in useful:
                useful |= {n for n in reads(s.value) if n not in useful and algebra.depends(s.value, {n})}
        grew = len(varied) + len(useful) > before
    return varied & useful


def _fix_controls(f: Function, block: Block, moving: set[str]) -> None:
    """Give tests and bounds whose names are written in what they control a definition of their own."""
    for k in range(len(block) - 1, -1, -1):
        s = block[k]
        for inner in below(s):
            _fix_controls(f, inner, moving)
        written = {n for inner in below(s) for t in walk(inner) for n in writes(t)}
        if isinstance(s, If) and reads(s.test) & (written | moving):
            s.test = _define(f, block, k, "branch", s.test, s)
        if isinstance(s, Loop) and s.index:
            for part in ("start", "stop", "step"):
                if reads(getattr(s, part)) & written:
                    setattr(s, part, _define(f, block, k, part, getattr(s, part), s))


def changing(f: Function) -> set[str]:
    """The names of numbers that are set in several places, and of arrays that are written."""
    seen: set[str] = set()
    found: set[str] = set()
    for s in walk(f.body):
        for n in writes(s) if isinstance(s, Assign | Store | Swap) else ():
            if n in seen or f.ranks.get(n) or n in f.parameters:
                found.add(n)
            seen.add(n)
    return found


def _define(f: Function, block: Block, k: int, name: str, value: ast.expr, s: Statement) -> ast.expr:
    number = 1
    while f"{name}{number}" in f.ranks:
        number += 1
    name = f"{name}{number}"
    f.ranks[name], f.kinds[name] = 0, "bool" if name.startswith("branch") else "int"
    block.insert(k, Assign(name, value, line=s.line))
    s.line = ""
    return ast.Name(name, ast.Load())


def _enclose(block: Block, loops: tuple[Loop, ...], made: Plan) -> None:
    for s in block:
        made.enclosing[s] = loops
        for inner in below(s):
            _enclose(inner, (*loops, s) if isinstance(s, Loop) else loops, made)


# Definitions.


def find_definitions(f: Function, made: Plan) -> None:
    fixed = {*f.parameters, *(f.results or []), *(s.index for s in walk(f.body) if isinstance(s, Loop)), *f.constants}
    for name in sorted({s.name for s in walk(f.body) if isinstance(s, Assign)} - fixed):
        found: dict[Statement, Block] = {}
        if _cover(name, f.body, found):
            made.defined |= found


def _cover(name: str, block: Block, found: dict[Statement, Block]) -> bool:
    """Find blocks in which `name` is set once before it is used, with all occurrences in them."""
    touching = [s for s in block if _occurs(name, s)]
    if not touching:
        return True
    first = touching[0]
    if isinstance(first, Assign) and first.name == name and name not in reads(first.value):
        again = sum(name in writes(t) for s in touching for t in walk([s]))
        if again == 1:
            found[first] = block
            return True
        return False
    if any(name in writes(s) or name in uses(s) for s in touching):
        return False
    return all(_cover(name, inner, found) for s in touching for inner in below(s))


def _occurs(name: str, s: Statement) -> bool:
    return any(name in writes(t) or name in uses(t) for t in walk([s]))


# Derivatives.


def _pull(s: Assign | Store, made: Plan) -> Pull:
    name = s.name if isinstance(s, Assign) else s.array
    if name not in made.active or not made.algebra.depends(s.value):
        return Pull(ZERO, [])
    target: ast.expr = ast.Name(name, ast.Load()) if isinstance(s, Assign) else s.target
    own, parts = ZERO, []
    known = var(name) if s in made.defined else VALUE if _once(s, made) else None
    for atom, part in made.algebra.pull(s.value, COTANGENT, known):
        if unparse(atom) == unparse(target):
            own = ONE if part is COTANGENT else part
        else:
            parts.append((atom, part))
    return Pull(own, parts)


def _once(s: Assign | Store, made: Plan) -> bool:
    """Whether what `s` writes surely stays there."""
    return isinstance(s, Store) and made.independence.stays(s, [t for t in made.stores if t.array == s.array])


def sweep_reads(s: Statement, made: Plan) -> set[str]:
    """The names whose values the derivative of a statement reads."""
    if isinstance(s, Assign | Store):
        pull = made.pulls[s]
        target = s.name if isinstance(s, Assign) else s.array
        found = {
            n
            for e in [pull.own, *(p for _, p in pull.parts)]
            for t in free(e)
            if not t.startswith("@")
            for n in reads(parse(t))
        }
        for atom, _ in pull.parts:
            if isinstance(atom, ast.Subscript):
                found |= reads(atom.slice)
        if isinstance(s, Store) and target in made.active:
            found |= reads(s.index)
        return found
    if isinstance(s, If):
        return reads(s.test) if _matters(s, made) else set()
    if isinstance(s, Loop):
        if not _matters(s, made):
            return set()
        return {s.count} | (reads(s.start, s.step) if s.index else set()) if s.count else reads(s.start, s.stop, s.step)
    return set()


def elements_read(s: Statement, array: str, made: Plan) -> list[ast.expr]:
    """The indices at which the derivative of `s` reads `array`."""
    nodes: list[ast.expr | None] = []
    match s:
        case Assign() | Store():
            pull = made.pulls[s]
            nodes += [
                parse(t) for e in (pull.own, *(p for _, p in pull.parts)) for t in free(e) if not t.startswith("@")
            ]
            nodes += [a.slice for a, _ in pull.parts if isinstance(a, ast.Subscript)]
            nodes += [s.value] if s in made.redo else []
            nodes += [s.index] if isinstance(s, Store) else []
        case If():
            nodes = [s.test]
        case Loop():
            nodes = [s.start, s.stop, s.step]
    return [index for node in nodes if node is not None for index in elements_in(node, array)]


def _matters(s: Statement, made: Plan) -> bool:
    """Whether the sweep back does anything in the blocks of `s`."""
    return any(
        isinstance(t, Swap) or t in made.save or (isinstance(t, Assign | Store) and (writes(t)[0] in made.active))
        for inner in below(s)
        for t in walk(inner)
    )


# Which way each value takes.


def _ways(f: Function, made: Plan) -> None:
    """Choose. Numbers that are made of array elements which would have to be saved are kept instead if that stores no
    more: then nothing is put back, nor calculated again."""
    _settle(f, made, set())
    saved = {s.array for s in made.save if isinstance(s, Store)}
    costly: set[Statement] = {s for s in made.redo if isinstance(s, Assign) and reads(s.value) & saved}
    if costly:
        first = made.save, made.keep, made.redo
        size = _size(made)
        made.save, made.keep, made.redo = set(), set(), set()
        _settle(f, made, costly)
        if _size(made) > size:
            made.save, made.keep, made.redo = first
    made.restored = {writes(s)[0] for s in made.save}


def _size(made: Plan) -> int:
    """How much is stored, if each loop has 1000 turns."""
    return sum(1000 ** len(made.enclosing[s]) for s in (*made.save, *made.keep))


def _settle(f: Function, made: Plan, kept: set[Statement]) -> None:
    """Iterate: what is saved must be restored, for which loops and tests are needed, whose values may be saved."""
    while True:
        before = len(made.save), len(made.keep), len(made.redo)
        needed: set[str] = set()
        for s in walk(f.body):
            needed |= sweep_reads(s, made)
            if s in made.save and isinstance(s, Store):
                needed |= reads(s.index)
        _definitions_needed(f, made, needed, kept)
        required: dict[str, list] = {}
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
            if s not in kept and _still_there(s, block, made, made.independence):
                made.redo.add(s)
                needed |= reads(s.value)
            else:
                made.keep.add(s)


def _still_there(s: Assign, block: Block, made: Plan, independence: Independence) -> bool:
    """Whether what `s` reads has its values also at the end of `block`."""
    read = reads(s.value)
    if s.name.startswith("branch") and read & made.moving:
        return False  # a truth value is less to store than what it is made of
    after = block[block.index(s) + 1 :]
    for t in walk(after):
        hit = read & set(writes(t))
        if not hit or (t in made.carried and t in block):  # what is carried is undone first
            continue
        if not isinstance(t, Store) or not independence.differ(t, s, elements_in(s.value, t.array)):
            return False
    return True


def _require(block: Block, required: dict[str, list], made: Plan, independence: Independence) -> None:
    """Forward through `block`: what of it earlier derivatives read, by name; overwriting that means saving it.

    For an array, the list of statements that read it is kept, so that its elements can be told apart.
    """

    def need(names: set[str], s: Statement) -> None:
        for n in names:
            known = required.setdefault(n, [])
            if s not in known:
                known.append(s)

    for s in block:
        match s:
            case Assign():
                need(sweep_reads(s, made), s)
                if s in made.redo:
                    need(reads(s.value), s)
                if s not in made.defined and required.pop(s.name, []):
                    made.save.add(s)
            case Store():
                need(sweep_reads(s, made), s)
                if s in made.save:
                    need(reads(s.index), s)
                if any(
                    not independence.apart(s, r, elements_read(r, s.array, made)) for r in required.get(s.array, ())
                ):
                    made.save.add(s)
            case Swap():
                a, b = required.pop(s.first, []), required.pop(s.second, [])
                if b:
                    required[s.first] = b
                if a:
                    required[s.second] = a
            case If():
                need(sweep_reads(s, made), s)
                other = {k: list(v) for k, v in required.items()}
                _require(s.body, required, made, independence)
                _require(s.orelse, other, made, independence)
                _join(required, other)
            case Loop() if s in made.fusion.loops:  # nothing of it is needed later
                _require(s.body, {k: list(v) for k, v in required.items()}, made, independence)
            case Loop():
                while True:
                    start = {k: list(v) for k, v in required.items()}
                    _require(s.body, required, made, independence)
                    _join(required, start)
                    if {k: len(v) for k, v in start.items()} == {k: len(v) for k, v in required.items()}:
                        break
                need(sweep_reads(s, made), s)


def _join(required: dict[str, list], other: dict[str, list]) -> None:
    for name, statements in other.items():
        known = required.setdefault(name, [])
        known += [s for s in statements if s not in known]
