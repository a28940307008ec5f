"""Branches that only choose numbers, as ``x = a if test else b``, or what an element is set to.

So each is set at one place, and calculated again where a derivative reads it: nothing is stored, turns of loops do not
depend on those before, and the compiler can calculate several at once.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import combinations

from ..ir.algebra import PASSIVE
from ..ir.statements import (
    Assign,
    Block,
    Function,
    If,
    Loop,
    Statement,
    Store,
    below,
    mentions,
    parse,
    reads,
    subtrees,
    unparse,
    uses,
    walk,
    writes,
)
from ..ir.type_inference import ZEROS, kind_of
from .cost_model import CHEAP, small

__all__ = ["choose"]

#: Branches that set more stay what they are.
_MANY = 6
_Side = dict[str, Assign | Store]


def choose(f: Function) -> None:
    """Rewrite such branches in the loops of `f`."""
    for s in walk(f.body):
        if isinstance(s, Loop):
            _choose(f, s.body)


def _choose(f: Function, block: Block) -> None:
    for s in list(block):
        if isinstance(s, If):
            for inner in below(s):
                _choose(f, inner)
            at = block.index(s)
            block[at : at + 1] = _chosen(f, s, block[:at]) or [s]


def _chosen(f: Function, s: If, before: Block) -> list[Statement]:
    """What `s` is without branches, if it can be."""
    first, other = _targets(s.body, f), _targets(s.orelse, f)
    if not first or other is None:
        return []
    there = {t.name for t in before if isinstance(t, Assign)}
    if not _of_values(f, s.test) and not _one_number(f, {*first, *other}, there):
        return []
    sides, order = (first, other), _order(first, other)
    if any(f.kinds.get(n) == "bool" for n in order):
        return []  # what ends loops
    written = {n for t in walk([s]) for n in writes(t)}
    if len(order) > _MANY or (len(order) > 1 and reads(s.test) & written) or not all(_fits(d, order) for d in sides):
        return []
    made: list[Statement] = []
    for n in order:
        values = [d[n].value if n in d else _otherwise(f, s, n, e[n], there) for d, e in (sides, sides[::-1])]
        if None in values:
            return []
        t = first.get(n) or other[n]
        made.append(replace(t, value=ast.IfExp(s.test, *values), line=""))  # type: ignore[arg-type]
    made[0].line = s.line
    return made


def _targets(block: Block, f: Function) -> _Side | None:
    """Its statements by what they set, if these are arithmetic that is written to different places."""
    found: _Side = {}
    for s in block:
        if not isinstance(s, Assign | Store) or (isinstance(s, Assign) and s.free) or not _cheap(s.value, f):
            return None
        found[s.name if isinstance(s, Assign) else unparse(s.target)] = s
    numbers = {s.name for s in block if isinstance(s, Assign)}
    moved = any(isinstance(s, Store) and reads(s.index) & numbers for s in block)
    return found if len(found) == len(block) and not moved else None


def _order(first: _Side, other: _Side) -> list[str]:
    """The places that are set: what one side alone sets comes before what both set after it."""
    found: list[str] = []
    for n in first:
        if n in other:
            found += [m for m in list(other)[: list(other).index(n)] if m not in first and m not in found]
        found.append(n)
    return found + [m for m in other if m not in found]


def _fits(side: _Side, order: list[str]) -> bool:
    """Whether what a side sets may be set in `order`."""
    moved = ((side[a], side[b]) for a, b in combinations(side, 2) if order.index(a) > order.index(b))
    return not any(uses(s) & {*writes(t)} or uses(t) & {*writes(s)} for s, t in moved)


def _otherwise(f: Function, s: If, name: str, t: Assign | Store, there: set[str]) -> ast.expr | None:
    """What a place is that the other side sets, by `t`: a number has its value, or is used on that side alone."""
    if isinstance(t, Store):
        return None
    side = s.body if t in s.body else s.orelse
    early = any(name in uses(u) for u in side[: side.index(t) + 1])
    outside = any(mentions(u, name) for u in walk(f.body) if u not in side) or name in (f.results or [])
    if not early and not outside:
        return parse(ZEROS[f.kinds.get(name, "float")])
    return ast.Name(name, ast.Load()) if name in there else None


def _one_number(f: Function, places: set[str], there: set[str]) -> bool:
    """Whether all that is set is a number that has been set before in the turn, as sums over neighbours are."""
    return len(places) == 1 and places <= there and f.kinds.get(min(places), "float") == "float"


def _of_values(f: Function, test: ast.expr) -> bool:
    """Whether a test is one of values: what those of integers say is known of indices in the branches."""
    compared = [n for n in subtrees(test) if isinstance(n, ast.Compare)]
    return bool(compared) and all(
        any(kind_of(side, f) == "float" for side in (n.left, *n.comparators)) for n in compared
    )


def _cheap(value: ast.expr, f: Function) -> bool:
    """Whether `value` is arithmetic."""
    return all(
        f.names.resolve(n.func) in (CHEAP | PASSIVE)
        if isinstance(n, ast.Call)
        else not (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow)) or small(n.right)
        for n in subtrees(value)
    )
