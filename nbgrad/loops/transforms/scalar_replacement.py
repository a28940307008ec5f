"""Scalar replacement: array elements that derivatives read are loaded into scalars, if this stores less."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..analysis.dependence import Index
from ..ir.statements import Assign, Block, Function, Loop, Statement, Store, nested_blocks, walk, writes
from ..ir.terms import ONE, ZERO, Element, Term, Variable, reads, substitute
from .common_subexpressions import SubexpressionNaming

if TYPE_CHECKING:
    from ..analysis.reverse_plan import Plan

__all__ = ["replace_elements"]


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
        named = sum(_runs(plan.enclosing[s]) * len({*indices[s]}) for s in readers)
        if named < sum(_runs(plan.enclosing[s]) for s in stores):
            wanted[array] = readers
    return any([_name(f, array, readers, plan) for array, readers in wanted.items()])


def _runs(loops: tuple[Loop, ...]) -> int:
    """How often a statement in these loops runs, if a loop over more than an axis of length 1 has 1000 iterations."""
    return 1000 ** sum(p.start is not ZERO or p.stop is not ONE for p in loops)


def _name(f: Function, array: str, readers: list[Statement], plan: Plan) -> bool:
    """Load the elements of `array` that `readers` read into scalars, if they are unconditionally evaluated.

    What a scalar of the block holds already is not loaded again.
    """
    naming = _Elements(f, array)
    values: dict[Statement, tuple[Term, list[Assign]]] = {}
    for s in readers:
        if not isinstance(s, Assign | Store) or (isinstance(s, Store) and array in reads(*s.index)):
            return False
        values[s] = naming.with_names(s, not isinstance(s.value, Element))
        if array in values[s][0].reads and not isinstance(s.value, Element):
            return False
    for block in list(_blocks(f.body)):
        held: dict[Term, Term] = {}
        for s in list(block):
            if s in values:
                value, loads = values[s]
                known: dict[Term, Term] = {Variable(a.name): held[a.value] for a in loads if a.value in held}
                loads = [a for a in loads if a.value not in held]
                held |= {a.value: Variable(a.name) for a in loads}
                s.value = substitute(value, known)  # type: ignore[attr-defined]
                at = block.index(s)
                block[at:at] = loads
            held = {e: scalar for e, scalar in held.items() if not _changes(s, e, plan)}
    return any(before for _, before in values.values())


def _changes(s: Statement, element: Term, plan: Plan) -> bool:
    """Whether `element` may be another one, or have another value, after `s`."""
    assert isinstance(element, Element)
    if isinstance(s, Store) and s.array == element.array:
        return s.array in reads(*element.index) or not plan.dependence_tests.provably_distinct(s, s, [element.index])
    return any(n in element.reads for t in walk([s]) for n in writes(t))


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
