"""Renaming: give each value of a scalar that is assigned again its own name, so that it has a single definition.

Also moves updates to the end of an iteration (:func:`defer_update`), and hoists loop-invariant factors
(:func:`hoist_factors`).
"""

from __future__ import annotations

from ..analysis.def_use import Web, webs
from ..ir.algebra import Algebra
from ..ir.statements import (
    Assign,
    Block,
    Function,
    If,
    Loop,
    ScalarOrigin,
    Statement,
    Store,
    map_terms,
    mentioned,
    mentions,
    nested_blocks,
    union_over_nested,
    uses,
    walk,
    writes,
)
from ..ir.terms import (
    ZERO,
    Binary,
    Compare,
    Element,
    Length,
    Logical,
    Prefix,
    Select,
    Term,
    Variable,
    substitute,
    subterms,
)
from ..ir.terms import Call as CallTerm

__all__ = ["defer_update", "hoist_factors", "rename_reassigned", "rename_scalar"]


def rename_reassigned(f: Function) -> None:
    """Rename the scalars of `f` that are assigned again. Parameters, results, loop-exit flags and what loops count with
    keep their names."""
    every = list(walk(f.body))
    scalars = {s.name for s in every if isinstance(s, Assign)} - {s.index for s in every if isinstance(s, Loop)}
    scalars -= {n for s in every if isinstance(s, Loop) for n in (s.exit_flag, s.trip_counter, *s.values_before_loop)}
    ends = {*f.parameters, *(f.results or [])}
    names = union_over_nested(f.body, mentioned)  # names added below do not move these
    tangled = scalars & ends
    for name in sorted(scalars - ends):
        blocks: list[list[Statement]] = []
        if _cover(name, f.body, blocks, names):
            for touching in blocks:
                _rename(name, touching, f)
        else:
            tangled.add(name)
    for name, parts in webs(f, tangled - {n for s in every if not isinstance(s, Assign) for n in writes(s)}).items():
        for web in parts[1:]:
            _name_web(name, web, f)


def rename_scalar(f: Function, block: Block, name: str) -> None:
    """Give a scalar a new name in `block`."""
    new = _fresh_scalar(name, f)
    for s in walk(block):
        _replace_name(s, name, new)
        if isinstance(s, Assign) and s.name == name:
            s.name = new


def defer_update(f: Function, loop: Loop, s: Assign) -> Assign:
    """Move an update to the end of the iteration.

    ``x = x + k`` becomes ``x_next = x + k``, and the iteration ends with ``x = x_next``, which is returned.
    """
    name, new = s.name, f.names.fresh(f"{s.name}_next", 2)
    f.ranks[new], f.kinds[new] = 0, f.kinds.get(name, "float")
    s.name = new
    for t in walk(loop.body[loop.body.index(s) + 1 :]):
        _replace_name(t, name, new)
    last = Assign(name, Variable(new))
    loop.body.append(last)
    return last


def hoist_factors(f: Function, algebra: Algebra) -> None:
    """Hoist loop-invariant factors such as ``c * dt / dx`` out of loops, and give them names.

    The cotangent of a factor is then accumulated in the loops and multiplied by its partial derivatives once.
    """
    for s in list(f.body):
        if any(isinstance(t, Loop) for t in walk([s])):
            _factor([s], _Factors(f, algebra, s), False)


def _factor(block: Block, factors: _Factors, looped: bool) -> None:
    for s in block:
        for inner in nested_blocks(s):
            _factor(inner, factors, looped or isinstance(s, Loop))
        if looped and isinstance(s, Assign | Store):
            s.value = factors.named(s.value)


class _Factors:
    """Replaces the largest invariant factors of a term by names that are assigned before a statement of `f`."""

    def __init__(self, f: Function, algebra: Algebra, around: Statement) -> None:
        self.f = f
        self.algebra = algebra
        self.top = f.body
        self.at = f.body.index(around)
        self.changed = {n for s in walk([around]) for n in writes(s)}
        executed = [s for s in self.top[: self.at] if not isinstance(s, If | Loop)]
        self.assigned = {*f.parameters, *(n for s in executed for n in writes(s))}

    def named(self, term: Term) -> Term:
        """`term`, with names for its factors."""
        if isinstance(term, Compare | Element | Prefix | Logical):
            return term
        if not isinstance(term, Binary | CallTerm) or not self.fixed(term):
            return term.rebuilt(tuple(map(self.named, term.operands)))
        active = term.named & self.algebra.active
        calls = any(isinstance(t, CallTerm) for t in subterms(term))
        return self.name(term) if len(active) > 1 or (active and calls) else term

    def fixed(self, term: Term) -> bool:
        """Whether an active term has the same value throughout, also where no branch was taken before, and is made of
        scalars only."""
        if not self.algebra.depends(term) or any(map(_has_axes_or_branches, subterms(term))):
            return False
        if not term.reads <= self.assigned:
            return False
        return not term.reads & self.changed and not any(self.f.ranks.get(n) for n in term.reads)

    def name(self, term: Term) -> Variable:
        """A name for a factor."""
        names = term.reads
        setting = [k for k, s in enumerate(self.top[: self.at]) if any(names & set(writes(t)) for t in walk([s]))]
        start = setting[-1] + 1 if setting else 0
        for s in self.top[start : self.at]:
            if isinstance(s, Assign) and s.scalar_origin is ScalarOrigin.FACTOR and s.value is term:
                return Variable(s.name)
        new = self.f.names.fresh("factor", 2)
        self.f.ranks[new], self.f.kinds[new] = 0, "float"
        self.top.insert(start, Assign(new, term, scalar_origin=ScalarOrigin.FACTOR))
        self.at += 1
        self.algebra.active.add(new)
        return Variable(new)


def _has_axes_or_branches(term: Term) -> bool:
    """Whether `term` is an element, a length along an axis, or a selection."""
    return isinstance(term, Element | Prefix | Select) or (isinstance(term, Length) and term.axis is not None)


def _cover(name: str, block: Block, blocks: list[list[Statement]], names: dict[Statement, set[str]]) -> bool:
    """Find blocks that hold all occurrences of `name`, each beginning with an assignment to it."""
    touching = [s for s in block if name in names[s]]
    if not touching:
        return True
    first = touching[0]
    if isinstance(first, Assign) and first.name == name and name not in first.value.reads:
        blocks.append(touching)
        inside = (t for s in touching for inner in nested_blocks(s) for t in walk(inner))
        return not any(isinstance(t, Assign) and t.name == name for t in inside)
    if any(mentions(s, name) for s in touching):
        return False
    return all(_cover(name, inner, blocks, names) for s in touching for inner in nested_blocks(s))


def _rename(name: str, touching: list[Statement], f: Function) -> None:
    current = name
    for s in touching:
        for t in walk([s]):
            _replace_name(t, name, current)
        if isinstance(s, Assign) and s.name == name and s is not touching[0]:
            current = s.name = _fresh_scalar(name, f)


def _name_web(name: str, web: Web, f: Function) -> None:
    new = _fresh_scalar(name, f)
    for s in web.users:
        _replace_name(s, name, new)
    for s in web.setters:
        s.name = new
    first = next(s for s in walk(f.body) if mentions(s, new))
    if new in uses(first):  # an earlier iteration sets it further down: Numba demands an assignment above
        f.body.insert(0, Assign(new, ZERO))


def _fresh_scalar(name: str, f: Function) -> str:
    """A new name for a scalar."""
    new = f.names.fresh(name, 2, plain=False)
    f.ranks[new], f.kinds[new] = 0, f.kinds.get(name, "float")
    return new


def _replace_name(s: Statement, old: str, new: str) -> None:
    """Replace a scalar in the terms of a statement."""
    if old != new:
        map_terms(s, lambda term: substitute(term, {Variable(old): Variable(new)}))
