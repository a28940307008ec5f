"""If-conversion: replace branches that only assign scalars or elements by ``x = a if test else b``.

Each target then has one definition, which is recomputed where a derivative reads it: nothing is stored, iterations do
not depend on earlier ones, and the compiler can vectorize the loop.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from ..analysis.cost_model import is_cheap_power
from ..ir.functions import is_cheap, is_passive
from ..ir.names import called
from ..ir.statements import (
    Assign,
    Block,
    Function,
    If,
    Loop,
    Statement,
    Store,
    mentions,
    nested_blocks,
    uses,
    walk,
    writes,
)
from ..ir.terms import Binary, Call, Compare, Element, Select, Term, Variable, reads, subterms
from ..ir.type_inference import ZEROS, kind_of

__all__ = ["convert_branches"]

#: Branches with more targets are left as they are.
_MAX_TARGETS = 6
#: What ``if k < low: k = low`` and the like are, by their comparison.
_CLAMPS = {"<": max, "<=": max, ">": min, ">=": min}
_Target = Variable | Element
_Side = dict[_Target, Assign | Store]


def convert_branches(f: Function) -> None:
    """Convert the eligible branches in the loops of `f`."""
    for s in walk(f.body):
        if isinstance(s, Loop):
            _convert_block(f, s.body)


def _convert_block(f: Function, block: Block) -> None:
    for s in list(block):
        if isinstance(s, If):
            for inner in nested_blocks(s):
                _convert_block(f, inner)
            at = block.index(s)
            block[at : at + 1] = _clamped(f, s) or _converted(f, s, block[:at]) or [s]


def _clamped(f: Function, s: If) -> list[Statement]:
    """``k = max(k, low)`` for ``if k < low: k = low`` of integers, by which indices have a bound; [] for others."""
    match s.test, s.body, s.orelse:
        case Compare((op,), (Variable(name) as scalar, bound)), [Assign() as assign], [] if op in _CLAMPS:
            integers = {f.kinds.get(name), kind_of(bound, f)} == {"int"}
            if integers and (assign.name, assign.value) == (name, bound):
                return [replace(assign, value=called(_CLAMPS[op], scalar, bound), line=s.line)]
    return []


def _converted(f: Function, s: If, before: Block) -> list[Statement]:
    """The assignments that replace `s`; none if it cannot be converted."""
    first, other = _targets(s.body), _targets(s.orelse)
    if not first or other is None:
        return []
    assigned = {t.name for t in before if isinstance(t, Assign)}
    if not _compares_floats(f, s.test) and not _is_reduction_target(f, {*first, *other}, assigned):
        return []
    sides, order = (first, other), _order(first, other)
    if any(isinstance(n, Variable) and f.kinds.get(n.name) == "bool" for n in order):
        return []  # loop-exit flags
    written = {n for t in walk([s]) for n in writes(t)}
    if (
        len(order) > _MAX_TARGETS
        or (len(order) > 1 and s.test.reads & written)
        or not all(_may_reorder(d, order) for d in sides)
    ):
        return []
    assignments: list[Statement] = []
    for n in order:
        values = [d[n].value if n in d else _value_if_not_taken(f, s, e[n], assigned) for d, e in (sides, sides[::-1])]
        if None in values:
            return []
        t = first.get(n) or other[n]
        value = Select(s.test, *values)  # type: ignore[arg-type]
        assignments.append(replace(t, value=value, line="", test_location=s.source_location))
    assignments[0].line = s.line
    return assignments


def _targets(block: Block) -> _Side | None:
    """The statements of a block by target, if they are cheap arithmetic with distinct targets; else None."""
    targets: _Side = {}
    for s in block:
        if not isinstance(s, Assign | Store) or (isinstance(s, Assign) and s.reassociable) or not _cheap(s.value):
            return None
        targets[Variable(s.name) if isinstance(s, Assign) else s.target] = s
    scalars = {s.name for s in block if isinstance(s, Assign)}
    moved = any(isinstance(s, Store) and reads(*s.index) & scalars for s in block)
    return targets if len(targets) == len(block) and not moved else None


def _order(first: _Side, other: _Side) -> list[_Target]:
    """The targets in order: those of one side alone come before a common target that follows them."""
    order: list[_Target] = []
    for n in first:
        if n in other:
            order += [m for m in list(other)[: list(other).index(n)] if m not in first and m not in order]
        order.append(n)
    return order + [m for m in other if m not in order]


def _may_reorder(side: _Side, order: list[_Target]) -> bool:
    """Whether the targets of a side may be assigned in `order`."""
    moved = ((side[a], side[b]) for a, b in combinations(side, 2) if order.index(a) > order.index(b))
    return not any(uses(s) & {*writes(t)} or uses(t) & {*writes(s)} for s, t in moved)


def _value_if_not_taken(f: Function, s: If, t: Assign | Store, assigned: set[str]) -> Term | None:
    """The value of the target of `t`, which is in one branch, if the other branch is taken; None if there is none.

    A scalar keeps its value; if it is used in its branch alone, zero will do.
    """
    if isinstance(t, Store):
        return None
    side = s.body if t in s.body else s.orelse
    name = t.name
    early = any(name in uses(u) for u in side[: side.index(t) + 1])
    outside = any(mentions(u, name) for u in walk(f.body) if u not in side) or name in (f.results or [])
    if not early and not outside:
        return ZEROS[f.kinds.get(name, "float")]
    return Variable(name) if name in assigned else None


def _is_reduction_target(f: Function, targets: set[_Target], assigned: set[str]) -> bool:
    """Whether the only target is a scalar that the iteration has assigned before, as in sums over neighbours."""
    return len(targets) == 1 and all(
        isinstance(t, Variable) and t.name in assigned and f.kinds.get(t.name, "float") == "float" for t in targets
    )


def _compares_floats(f: Function, test: Term) -> bool:
    """Whether a test compares floats. Tests of integers are kept: they bound indices in the branches."""
    compared = [t for t in subterms(test) if isinstance(t, Compare)]
    return bool(compared) and all(any(kind_of(side, f) == "float" for side in t.operands) for t in compared)


def _cheap(value: Term) -> bool:
    """Whether `value` is cheap arithmetic."""
    return all(
        is_cheap(t.function.value) or is_passive(t.function.value)
        if isinstance(t, Call)
        else not (isinstance(t, Binary) and t.op == "**") or is_cheap_power(t.right)
        for t in subterms(value)
    )
