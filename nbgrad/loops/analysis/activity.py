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
from functools import cached_property
from itertools import chain

from ...ir.expr import ONE, ZERO, Expr, free, var
from ..ir.algebra import COTANGENT, VALUE, Algebra
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
    parsed,
    reads,
    touched,
    unparse,
    uses,
    walk,
    writes,
)
from .cost_model import name_calls
from .dependence import Independence
from .if_conversion import choose
from .index_bounds import IndexBounds
from .iteration_local_reversal import Fusion
from .privatization import turns_apart
from .scalar_replacement import name_elements
from .ssa import carry, factor, split
from .sums_of_squares import sums_of_squares
from .tbr import choose_ways, elements_read, resets, sweep_reads, worth_storing
from .vectorization import pack

__all__ = ["Plan", "Pull", "plan", "survey"]


@dataclass
class Pull:
    """The derivative of one statement: `own` is the factor that the cotangent of what is overwritten keeps (ZERO: none;
    ONE: it is not touched), `parts` what the others get."""

    own: Expr
    parts: list[tuple[ast.expr, Expr]]

    @cached_property
    def texts(self) -> list[str]:
        """The variables in it."""
        return free(self.own, *(p for _, p in self.parts))

    @property
    def value(self) -> bool:
        """Whether it reads what the statement wrote."""
        return VALUE.name in self.texts

    @cached_property
    def nodes(self) -> list[ast.expr]:
        """What it evaluates of the program, to be looked at."""
        return [parsed(t) for t in self.texts if t not in (COTANGENT.name, VALUE.name)]

    @cached_property
    def indices(self) -> list[ast.expr]:
        """Those of the elements whose cotangents it adds to."""
        return [atom.slice for atom, _ in self.parts if isinstance(atom, ast.Subscript)]

    @cached_property
    def reads(self) -> set[str]:
        """The names whose values it reads."""
        return reads(*self.nodes, *self.indices)


@dataclass
class Plan:
    """The outcome. `enclosing` gives the loops around each statement, from the outermost; `held` the number that has
    what a statement in `save` overwrites, and `stepped` what that was, for steps of integers."""

    algebra: Algebra
    active: set[str]
    pulls: dict[Statement, Pull] = field(default_factory=dict)
    save: set[Statement] = field(default_factory=set)
    keep: set[Statement] = field(default_factory=set)
    redo: set[Statement] = field(default_factory=set)
    held: dict[Statement, str] = field(default_factory=dict)
    stepped: dict[Statement, ast.expr] = field(default_factory=dict)
    defined: dict[Statement, Block] = field(default_factory=dict)
    enclosing: dict[Statement, tuple[Loop, ...]] = field(default_factory=dict)
    restored: set[str] = field(default_factory=set)
    moving: set[str] = field(default_factory=set)
    stores: list[Store] = field(default_factory=list)
    written_at: dict[tuple[str, str], list[Store]] = field(default_factory=dict)
    carried: set[Statement] = field(default_factory=set)
    packed: set[Statement] = field(default_factory=set)
    independence: Independence = None  # type: ignore[assignment]  # set when the rest is known
    fusion: Fusion = None  # type: ignore[assignment]
    bounds: IndexBounds | None = None  # set when all else is decided

    def looks(self, f: Function) -> IndexBounds:
        """What is looked at of indices."""
        if self.bounds is None:
            self.bounds = IndexBounds(f, self)
        return self.bounds


def survey(f: Function, wrt: set[str], carried: tuple[Statement, ...] = ()) -> Plan:
    """What is in `f`, to be differentiated with respect to the parameters `wrt`: all that tangents need. Inserts
    definitions for tests and bounds of loops that change in what they control, and for calls that take long."""
    algebra = Algebra(f.names.resolve, set())
    turns_apart(f)
    if not f.narrow:
        choose(f)
    split(f)
    outputs = {*(f.results or []), *(s.array for s in walk(f.body) if isinstance(s, Store) and s.array in f.parameters)}
    outputs |= {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second) if n in f.parameters}
    algebra.active = active_names(f, algebra, wrt, outputs)
    factor(f, algebra)
    made = Plan(algebra, algebra.active, carried=set(carried))
    _fix_controls(f, f.body, changing(f))
    _look(f, made)
    if not carried and name_calls(f, algebra, _named(f, made)):
        _look(f, made)
    made.packed = pack(f, made)
    algebra.squares = sums_of_squares(f, algebra)
    return made


def plan(f: Function, wrt: set[str], carried: tuple[Statement, ...] = (), fused: bool = True) -> Plan:
    """Decide what the sweep back does. Inserts further definitions: `carried` ones, and values before loops. Without
    `fused`, no loop is undone before all have run."""
    made = survey(f, wrt, carried)
    for s in walk(f.body):
        if isinstance(s, Assign | Store):
            made.pulls[s] = _pull(s, made)
    fused = fused and not any(isinstance(s, Call) for s in walk(f.body))
    refused = {s for s in walk(f.body) if isinstance(s, Loop) and (s.parallel or not fused)}
    while True:
        made.fusion = Fusion(f, made, sweep_reads, refused)
        made.save, made.keep, made.redo = set(), set(), set()
        choose_ways(f, made)
        if not (wrong := made.fusion.wrong()):
            break
        refused |= wrong
    found = [] if carried else _carries(f, made)
    if found:
        return plan(f, wrt, tuple(carry(f, loop, s) for loop, s in found), fused)
    whole = resets(f, made)
    for loop, names in whole:
        _reset(f, f.body, loop, names)
    if whole or name_elements(f, made, elements_read):
        return plan(f, wrt, carried, fused)
    return made


def _named(f: Function, made: Plan) -> set[Statement]:
    """The statements whose values derivatives find under a name, or in an element."""
    return {s for s in walk(f.body) if s in made.defined or _once(s, made)}


def _look(f: Function, made: Plan) -> None:
    """What there is, and where."""
    _enclose(f.body, (), made)
    find_definitions(f, made)
    made.moving = changing(f) - {s.name for s in made.defined if isinstance(s, Assign)}
    swapped = {n for s in walk(f.body) if isinstance(s, Swap) for n in (s.first, s.second)}
    made.stores = [s for s in walk(f.body) if isinstance(s, Store)]
    made.written_at = {}
    for s in made.stores:
        made.written_at.setdefault((s.array, unparse(s.index)), []).append(s)
    made.independence = Independence(f, made.enclosing, swapped)


def _carries(f: Function, made: Plan) -> list[tuple[Loop, Assign]]:
    """The numbers that change in the middle of turns, for which numbers made of them would be kept. If they changed at
    the end, these could be calculated again."""
    found = []
    for loop in walk(f.body):
        if not isinstance(loop, Loop) or all(worth_storing(s, f, made) for s in made.keep & set(loop.body)):
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
    while grew:  # in the direction in which each goes, so that few rounds are enough
        before = len(varied) + len(useful)
        for s in statements:
            _vary(s, varied, f, algebra)
        for s in reversed(statements):
            _use(s, useful, algebra)
        grew = len(varied) + len(useful) > before
    return varied & useful


def _vary(s: Statement, varied: set[str], f: Function, algebra: Algebra) -> None:
    """Add what a statement makes of what is `varied`."""
    match s:
        case Swap() if {s.first, s.second} & varied:
            varied |= {s.first, s.second}
        case Call() if reads(*s.given) & varied:
            varied |= {r for r in s.results if f.kinds[r] == "float"}
        case Assign() | Store():
            target = s.name if isinstance(s, Assign) else s.array
            if target not in varied and f.kinds.get(target, "float") == "float" and algebra.depends(s.value, varied):
                varied.add(target)


def _use(s: Statement, useful: set[str], algebra: Algebra) -> None:
    """Add what a statement makes something `useful` of."""
    match s:
        case Swap() if {s.first, s.second} & useful:
            useful |= {s.first, s.second}
        case Call() if useful & set(s.results):
            useful |= reads(*s.given)
        case Assign() | Store() if (s.name if isinstance(s, Assign) else s.array) in useful:
            useful |= {n for n in reads(s.value) if n not in useful and algebra.depends(s.value, {n})}


def _fix_controls(f: Function, block: Block, moving: set[str]) -> None:
    """Give tests and bounds whose names are written in what they control a definition of their own."""
    for k in range(len(block) - 1, -1, -1):
        s = block[k]
        for inner in below(s):
            _fix_controls(f, inner, moving)
        written = {n for inner in below(s) for t in walk(inner) for n in writes(t)}
        if isinstance(s, If) and (f.narrow or reads(s.test) & (written | moving)):
            s.test = _define(f, block, k, "branch", s.test, s, Made.BRANCH)
        if isinstance(s, Loop) and s.index:
            for part in ("start", "stop", "step"):
                if reads(getattr(s, part)) & written:
                    setattr(s, part, _define(f, block, k, part, getattr(s, part), s, Made.BOUND))


def changing(f: Function) -> set[str]:
    """The names of numbers that are set in several places, and of arrays that are written."""
    seen: set[str] = set()
    found: set[str] = set()
    for s in walk(f.body):
        for n in writes(s) if isinstance(s, Assign | Store | Swap | Call) else ():
            if n in seen or f.ranks.get(n) or n in f.parameters:
                found.add(n)
            seen.add(n)
    return found


def _define(f: Function, block: Block, k: int, name: str, value: ast.expr, s: Statement, made: Made) -> ast.expr:
    name = f.names.fresh(name, plain=False)
    f.ranks[name], f.kinds[name] = 0, "bool" if made is Made.BRANCH else "int"
    block.insert(k, Assign(name, value, line=s.line, made=made))
    s.line = ""
    return ast.Name(name, ast.Load())


def _reset(f: Function, block: Block, loop: Loop, names: set[str]) -> None:
    """Give the values that numbers have before `loop` names."""
    if loop not in block:
        for s in block:
            for inner in below(s):
                _reset(f, inner, loop, names)
        return
    for name in sorted(names):
        before = f.names.fresh(f"{name}_before", 2)
        f.ranks[before], f.kinds[before] = 0, f.kinds.get(name, "float")
        loop.resets[name] = before
        block.insert(block.index(loop), Assign(before, ast.Name(name, ast.Load())))


def _enclose(block: Block, loops: tuple[Loop, ...], made: Plan) -> None:
    for s in block:
        made.enclosing[s] = loops
        for inner in below(s):
            _enclose(inner, (*loops, s) if isinstance(s, Loop) else loops, made)


# Definitions.

#: The statements of a block that read or write a name, by the name.
_Occurrences = dict[str, list[Statement]]


def find_definitions(f: Function, made: Plan) -> None:
    fixed = {*f.parameters, *(f.results or []), *(s.index for s in walk(f.body) if isinstance(s, Loop)), *f.constants}
    names = touched(f.body, lambda s: {*writes(s), *uses(s)})
    touching: dict[int, _Occurrences] = {}  # by block
    for block in (f.body, *(inner for s in walk(f.body) for inner in below(s))):
        of = touching[id(block)] = {}
        for s in block:
            for name in names[s]:
                of.setdefault(name, []).append(s)
    for name in sorted({s.name for s in walk(f.body) if isinstance(s, Assign)} - fixed):
        found: dict[Statement, Block] = {}
        if _cover(name, f.body, found, touching):
            made.defined |= found


def _cover(name: str, block: Block, found: dict[Statement, Block], where: dict[int, _Occurrences]) -> bool:
    """Find blocks in which `name` is set once before it is used, with all occurrences in them; `where` it occurs."""
    touching = where[id(block)].get(name)
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
    return all(_cover(name, inner, found, where) for s in touching for inner in below(s))


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


def _once(s: Statement, made: Plan) -> bool:
    """Whether what `s` writes surely stays there."""
    if not isinstance(s, Store):
        return False
    likely = made.written_at.get((s.array, unparse(s.index)), [])  # those which most probably overwrite it come first
    stores = (t for t in made.stores if t.array == s.array)
    return made.independence.stays(s, chain(reversed(likely), stores))
