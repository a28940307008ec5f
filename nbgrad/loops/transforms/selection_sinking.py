"""Sinking of selections: a scalar that a loop selects, such as a minimum, is computed once more after the loop.

``for j in range(n): if d < best: best = d`` only finds where the value is, in values that no derivative reads, and
after the loop, ``if best_at != -1:`` computes `d` and `best` of that iteration. Then nothing is recorded in the
iterations, and one of them is reversed instead of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from ..analysis.activity import useful_names, varied_names
from ..ir.affine import plus
from ..ir.algebra import Algebra
from ..ir.statements import (
    Assign,
    Block,
    Check,
    Function,
    If,
    InRange,
    Loop,
    Statement,
    Store,
    map_terms,
    nested_blocks,
    terms_of,
    uses,
    walk,
    writes,
)
from ..ir.terms import Binary, Call, Compare, Constant, Logical, Select, Term, Variable, named, reads, substitute

__all__ = ["sink_selections"]

#: What compares the other operand with the scalar that these functions of Python are to change.
_COMPARISONS = {min: "<", max: ">"}


@dataclass(eq=False)
class _Selection:
    """`statement`, in `block`, sets a scalar to `value` where `test` holds, or where it is reached if that is None;
    `slice` are the statements before it in the iteration that `value` is computed by."""

    block: Block
    statement: Assign
    test: Term | None
    value: Term
    slice: Block
    is_read: bool  # by tests in the loop


def sink_selections(f: Function, wrt: set[str]) -> None:
    """Sink the selections of the loops of `f` whose values vary with the parameters `wrt`."""
    if not any(_candidates(loop) for loop in walk(f.body) if isinstance(loop, Loop)):
        return
    algebra = Algebra(set())
    outputs = {*(f.results or []), *f.modified_parameters}
    active = useful_names(f, algebra, outputs) & varied_names(f, algebra, wrt)
    _sink(f, f.body, active, set(f.parameters))


def _sink(f: Function, block: Block, active: set[str], defined: set[str]) -> None:
    """Sink the selections of the loops of a block, before which names are `defined`; those that it defines join."""
    for s in list(block):
        sides = [set(defined) for _ in nested_blocks(s)]
        for inner, side in zip(nested_blocks(s), sides, strict=True):
            _sink(f, inner, active, side)
        found = _selections(f, s, active, defined) if isinstance(s, Loop) else []
        if found:
            assert isinstance(s, Loop)
            at = block.index(s)
            block[at : at + 1] = _sunk(f, s, found)
        if isinstance(s, If):
            defined |= sides[0] & sides[1]
        elif not isinstance(s, Loop):
            defined |= {*writes(s)}


def _candidates(loop: Loop) -> list[tuple[Block, Assign, Term | None, Term, Block]]:
    """What may be a selection, by its form: its block, the statement, its test, its value, and what is before it."""
    return list(_sites(loop.body, [], False)) if loop.index and not loop.parallel else []


def _sites(block: Block, before: Block, conditional: bool) -> Iterator[tuple[Block, Assign, Term | None, Term, Block]]:
    for k, s in enumerate(block):
        if isinstance(s, If):
            for inner in (s.body, s.orelse):
                yield from _sites(inner, before + block[:k], True)
        elif isinstance(s, Assign) and s.scalar_origin is None:
            choice = _choice(s)
            if choice is not None or conditional:
                yield block, s, *(choice or (None, s.value)), before + block[:k]


def _choice(s: Assign) -> tuple[Term, Term] | None:
    """The test, and the value that is chosen where it holds, of an assignment that else leaves the scalar as it is."""
    own = Variable(s.name)
    match s.value:
        case Select(test, value, other) if other is own:
            return test, value
        case Call(function, (first, second)) if function.value in _COMPARISONS:
            op = _COMPARISONS[function.value]
            if first is own:
                return Compare((op,), (second, own)), second
    return None


def _selections(f: Function, loop: Loop, active: set[str], defined: set[str]) -> list[_Selection]:
    """The selections of a loop, before which names are `defined`, that can be sunk."""
    inside = list(walk(loop.body))
    times = Counter(n for s in inside for n in writes(s))
    written = {loop.index, *times}
    found = []
    for block, s, test, value, before in _candidates(loop):
        name = s.name
        alone = times[name] == 1 and name not in reads(value) and name != loop.exit_flag
        if not alone or name not in active or f.kinds.get(name, "float") != "float":
            continue
        is_read = any(name in uses(t) for t in inside)
        if (name in defined or not is_read) and all(t is s or _is_passive_use(f, t, name) for t in inside):
            part = _slice(before, value, written, loop.index)
            if part is not None:
                found.append(_Selection(block, s, test, value, part, is_read))
    return found


def _is_passive_use(f: Function, s: Statement, name: str) -> bool:
    """Whether a statement reads a scalar, if at all, without a derivative."""
    if name not in uses(s):
        return True
    match s:
        case Assign(value=value):
            return f.kinds.get(s.name, "float") in ("int", "bool") or name not in _outside_of_tests(value)
        case Store(value=value):
            return name not in _outside_of_tests(value)
    return isinstance(s, If | Loop | Check | InRange)


def _outside_of_tests(term: Term) -> set[str]:
    """The names that a term reads outside of comparisons."""
    if isinstance(term, Compare | Logical):
        return set()
    return {term.name} if isinstance(term, Variable) else {n for t in term.operands for n in _outside_of_tests(t)}


def _slice(before: Block, value: Term, written: set[str], index: str) -> Block | None:
    """The statements that compute what `value` reads of the iteration; None if that is not all that it takes."""
    needed, kept = named(value) & written, list[Statement]()
    for s in reversed(before):
        if {n for t in walk([s]) for n in writes(t)} & needed:
            kept.insert(0, s)
            needed |= {n for t in walk([s]) for n in named(*terms_of(t))} & written
    defined = {index}
    return kept if _defines(kept, defined, written) and named(value) & written <= defined else None


def _defines(block: Block, defined: set[str], written: set[str]) -> bool:
    """Whether a block computes scalars from those that are `defined`, which those that it sets join, and from what the
    loop does not write."""
    for s in block:
        if isinstance(s, Check | InRange):  # it was passed before
            continue
        flags = {s.exit_flag, s.trip_counter} - {""} if isinstance(s, Loop) else set()
        if not (named(*terms_of(s)) & written) | flags <= defined:
            return False
        if isinstance(s, Assign):
            defined.add(s.name)
        elif isinstance(s, If):
            sides = set(defined), set(defined)
            if not _defines(s.body, sides[0], written) or not _defines(s.orelse, sides[1], written):
                return False
            defined |= sides[0] & sides[1]
        elif not isinstance(s, Loop) or not _defines(s.body, {*defined, s.index}, written):
            return False
    return True


def _sunk(f: Function, loop: Loop, found: list[_Selection]) -> Block:
    """A loop that searches, and what is before and after it."""
    start: Block = []
    unset = _before_first(f, loop, start)
    searched: dict[Term, Term] = {}
    for name in [x.statement.name for x in found if x.is_read]:
        searched[Variable(name)] = search = _fresh(f, f"{name}_so_far", name)
        start.append(Assign(search.name, Variable(name)))
    for s in walk(loop.body):
        map_terms(s, partial(substitute, terms=searched))
    end: Block = []
    marks: dict[int, Variable] = {}  # by block
    for x in found:
        s, inner = x.statement, x.block
        if x.test is not None:
            inner = [Assign(s.name, substitute(x.value, searched))]
            test = substitute(x.test, searched)
            x.block[x.block.index(s)] = If(test, inner, [], line=s.line, source_location=s.source_location)
        if id(inner) not in marks:
            mark = marks[id(inner)] = _fresh(f, f"{s.name}_at", None)
            start.append(Assign(mark.name, unset))
            inner.append(Assign(mark.name, Variable(loop.index)))
        terms: dict[Term, Term] = {Variable(loop.index): marks[id(inner)]}
        again = _copied(f, x.slice, terms)
        again.append(Assign(s.name, substitute(x.value, terms), line=s.line, source_location=s.source_location))
        end.append(If(Compare(("!=",), (marks[id(inner)], unset)), again, []))
    for s in walk(loop.body):
        if isinstance(s, Assign) and Variable(s.name) in searched:
            s.name = str(searched[Variable(s.name)])
    for x in found:
        if not x.is_read:
            x.block.remove(x.statement)
    return [*start, loop, *end]


def _before_first(f: Function, loop: Loop, block: Block) -> Term:
    """The index of no iteration: one step before the first. It is computed in `block` if it is no constant."""
    step = loop.step.value if isinstance(loop.step, Constant) else None
    index = plus(loop.start, -step) if isinstance(step, int) else Binary("-", loop.start, loop.step)
    if not reads(index):
        return index
    name = _fresh(f, f"before_{loop.index}", None)
    block.append(Assign(name.name, index))
    return name


def _fresh(f: Function, hint: str, like: str | None) -> Variable:
    """A new scalar: an integer, or of the kind of another one."""
    name = f.names.fresh(hint, plain=False)
    f.ranks[name], f.kinds[name] = 0, "int" if like is None else f.kinds.get(like, "float")
    return Variable(name)


def _copied(f: Function, block: Block, terms: dict[Term, Term]) -> Block:
    """A copy of statements, in which scalars that they set have new names; these join `terms`."""
    for n in {n for s in walk(block) for n in (*writes(s), getattr(s, "trip_counter", ""))} - {""}:
        terms.setdefault(Variable(n), _fresh(f, n, n))
    return [_copy(s, terms) for s in block if not isinstance(s, Check | InRange)]


def _copy(s: Statement, terms: dict[Term, Term]) -> Statement:
    def new(name: str) -> str:
        return str(terms.get(Variable(name), name))

    def blocks(block: Block) -> Block:
        return [_copy(t, terms) for t in block if not isinstance(t, Check | InRange)]

    match s:
        case Assign():
            copy: Statement = replace(s, name=new(s.name))
        case If():
            copy = replace(s, body=blocks(s.body), orelse=blocks(s.orelse))
        case Loop():
            names = {k: new(getattr(s, k)) for k in ("index", "exit_flag", "trip_counter")}
            copy = replace(s, body=blocks(s.body), **names)  # type: ignore[arg-type]
    map_terms(copy, lambda term: substitute(term, terms))
    return copy
