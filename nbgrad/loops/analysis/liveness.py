"""Liveness: what the reverse sweep needs of the forward sweep, where they are two functions (split mode)."""

from __future__ import annotations

from ..ir.effects import Break
from ..ir.reverse_ir import Branch, For, ForIndices, Item, Nest, Step, While, bound_by, evaluated_by, walk_items
from ..ir.statements import Check
from ..ir.terms import Element, Prefix, Select, Term, named, reads, subterms

__all__ = ["control_names", "definitely_bound", "live_before"]


def live_before(items: list[Item], after: frozenset[str], exits: frozenset[str] = frozenset()) -> frozenset[str]:
    """The names that are live before `items`. `after` are those live after them, `exits` those live after a break."""
    live = after
    otherwise: frozenset[str] | None = None  # those live before the other side of the branch
    for item in reversed(items):
        own = named(*evaluated_by(item))
        match item:
            case Branch(otherwise=True):
                otherwise = live_before(item.body, live, exits)
            case Branch():
                skipped = live if otherwise is None else otherwise
                live, otherwise = live_before(item.body, live, exits) | skipped | own, None
            case For() | ForIndices():
                live |= (live_before(item.body, live, live) - {item.index}) | own
            case While():
                live |= live_before(item.body, live | own, live) | own
            case Break():
                live = exits
            case _:
                live = live.difference(bound_by(item)) | own
    return live


def definitely_bound(items: list[Item]) -> set[str]:
    """The names that are definitely bound after `items`."""
    names: set[str] = set()
    taken: set[str] = set()  # those bound by the branch before
    for item in items:
        if isinstance(item, Branch):
            inside = definitely_bound(item.body)
            names |= inside & taken if item.otherwise else set()
            taken = inside
        elif not isinstance(item, Nest):
            names.update(bound_by(item))
    return names


def control_names(items: list[Item]) -> set[str]:
    """The names that the control flow or the indices of `items` depend on: those in tests, loop bounds and indices, and
    those that these are computed from."""
    controls: set[str] = set()
    assigned: dict[str, list[Term]] = {}
    for item in walk_items(items):
        terms = evaluated_by(item)
        if isinstance(item, Nest | Check):
            controls |= reads(*terms)
        for t in subterms(*terms):
            match t:
                case Element() | Prefix():
                    controls |= reads(*t.operands)
                case Select(test, body, orelse) if any(isinstance(p, Element) for p in subterms(body, orelse)):
                    controls |= test.reads
        for name in (item.name,) if isinstance(item, Step) else bound_by(item):
            assigned.setdefault(name, []).extend((item.value,) if isinstance(item, Step) else terms)
    found: set[str] = set()
    while controls:
        found |= controls
        controls = reads(*(t for name in controls for t in assigned.get(name, ()))) - found
    return found
