"""Scalar replacement: array elements that scalars hold as well, or should hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..ir.statements import Assign, Block, Function, If, Statement, Store, nested_blocks, walk, writes
from ..ir.terms import Element, Term, reads
from .cost_model import SubexpressionNaming
from .dependence import Index

if TYPE_CHECKING:
    from .activity import Plan

__all__ = ["replace_elements", "scalar_copies_of"]


def scalar_copies_of(plan: Plan) -> dict[Statement, str]:
    """Statements that overwrite an element which a stored scalar holds, and that scalar.

    The scalar is stored anyway, so the element need not be saved.
    """
    overwrites: dict[Statement, str] = {}
    for s, block in plan.defined.items():
        if s in plan.stored_definitions and isinstance(s, Assign) and isinstance(s.value, Element):
            _find_overwrites(s, s.value, block[block.index(s) + 1 :], plan, overwrites)
    return overwrites


def _find_overwrites(s: Assign, element: Element, block: Block, plan: Plan, overwrites: dict[Statement, str]) -> bool:
    """Find the first overwrites of the element that `s` reads.

    Returns whether `block` provably leaves the element and its index unchanged.
    """
    array, index = element.array, element.index
    for t in block:
        if isinstance(t, If):
            if not all([_find_overwrites(s, element, inner, plan, overwrites) for inner in nested_blocks(t)]):
                return False
        elif isinstance(t, Store) and t.array == array and array not in reads(*index):
            if t.index == index:
                overwrites[t] = s.name
                return False
            if not plan.dependence_tests.provably_distinct(t, s, [index]):
                return False
        elif {n for u in walk([t]) for n in writes(u)} & element.reads:
            return False
    return True


def replace_elements(f: Function, plan: Plan, elements_read: Callable[[Statement, str, Plan], list[Index]]) -> bool:
    """Load elements into scalars where derivatives read them, if this stores less than saving overwritten elements.

    Returns whether any were.
    """
    saved: dict[str, list[Store]] = {}
    for s in plan.saved_overwrites:
        if isinstance(s, Store) and s not in plan.scalar_copies:
            saved.setdefault(s.array, []).append(s)
    wanted: dict[str, list[Statement]] = {}
    for array, stores in sorted(saved.items()):
        indices = {s: elements_read(s, array, plan) for s in walk(f.body)}
        readers = [
            s
            for s, i in indices.items()
            if i and not all(plan.dependence_tests.no_anti_dependence(t, s, i) for t in stores)
        ]
        named = sum(1000 ** len(plan.enclosing[s]) * len({*indices[s]}) for s in readers)
        if named < sum(1000 ** len(plan.enclosing[s]) for s in stores):
            wanted[array] = readers
    return any([_name(f, array, readers) for array, readers in wanted.items()])


def _name(f: Function, array: str, readers: list[Statement]) -> bool:
    """Load the elements of `array` that `readers` read into scalars, if they are unconditionally evaluated."""
    naming = _Elements(f, array)
    values: dict[Statement, tuple[Term, list[Assign]]] = {}
    for s in readers:
        if not isinstance(s, Assign | Store) or (isinstance(s, Store) and array in reads(*s.index)):
            return False
        values[s] = naming.with_names(s.value, not isinstance(s.value, Element))
        if array in values[s][0].reads and not isinstance(s.value, Element):
            return False
    for block in list(_blocks(f.body)):
        for s in [s for s in block if s in values]:
            at = block.index(s)
            s.value, block[at:at] = values[s]  # type: ignore[attr-defined]
    return any(before for _, before in values.values())


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for s in block:
        for inner in nested_blocks(s):
            yield from _blocks(inner)


class _Elements(SubexpressionNaming):
    """Replaces the elements of one array."""

    def __init__(self, f: Function, array: str) -> None:
        super().__init__(f)
        self.array = array

    def base_name(self, term: Term) -> str:
        return f"{self.array}_read" if isinstance(term, Element) and term.array == self.array else ""
