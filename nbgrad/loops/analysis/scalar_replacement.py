"""Elements of arrays which numbers hold as well, or had better hold."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..ir.statements import Assign, Block, Function, If, Statement, Store, below, reads, unparse, walk, writes
from .cost_model import Naming

if TYPE_CHECKING:
    from .activity import Plan

__all__ = ["held", "name_elements"]


def held(made: Plan) -> dict[Statement, str]:
    """Statements that overwrite an element which a number has held since before, and that number. It is kept anyway,
    and the element need not be saved."""
    found: dict[Statement, str] = {}
    for s, block in made.defined.items():
        if s in made.keep and isinstance(s, Assign) and isinstance(s.value, ast.Subscript):
            _follow(s, s.value, block[block.index(s) + 1 :], made, found)
    return found


def _follow(s: Assign, element: ast.Subscript, block: Block, made: Plan, found: dict[Statement, str]) -> bool:
    """Find what overwrites the element that `s` reads first. Whether `block` surely leaves it, and its index, alone."""
    array, index = unparse(element.value), element.slice
    for t in block:
        if isinstance(t, If):
            if not all([_follow(s, element, inner, made, found) for inner in below(t)]):
                return False
        elif isinstance(t, Store) and t.array == array and array not in reads(index):
            if unparse(t.index) == unparse(index):
                found[t] = s.name
                return False
            if not made.independence.differ(t, s, [index]):
                return False
        elif {n for u in walk([t]) for n in writes(u)} & {array, *reads(index)}:
            return False
    return True


def name_elements(f: Function, made: Plan, elements_read: Callable[[Statement, str, Plan], list[ast.expr]]) -> bool:
    """Give elements names where derivatives read them, if otherwise more elements would have to be saved, in inner
    loops. Whether any were named."""
    saved: dict[str, list[Store]] = {}
    for s in made.save:
        if isinstance(s, Store) and s not in made.held:
            saved.setdefault(s.array, []).append(s)
    wanted: dict[str, list[Statement]] = {}
    for array, stores in sorted(saved.items()):
        indices = {s: elements_read(s, array, made) for s in walk(f.body)}
        readers = [s for s, i in indices.items() if i and not all(made.independence.apart(t, s, i) for t in stores)]
        named = sum(1000 ** len(made.enclosing[s]) * len({*map(unparse, indices[s])}) for s in readers)
        if named < sum(1000 ** len(made.enclosing[s]) for s in stores):
            wanted[array] = readers
    return any([_name(f, array, readers) for array, readers in wanted.items()])


def _name(f: Function, array: str, readers: list[Statement]) -> bool:
    """Name the elements of `array` that `readers` read, if these surely do."""
    naming = _Elements(f, array)
    values: dict[Statement, tuple[ast.expr, list[Assign]]] = {}
    for s in readers:
        if not isinstance(s, Assign | Store) or (isinstance(s, Store) and array in reads(s.index)):
            return False
        values[s] = naming.named(s.value, not isinstance(s.value, ast.Subscript))
        if array in reads(values[s][0]) and not isinstance(s.value, ast.Subscript):
            return False
    for block in list(_blocks(f.body)):
        for s in [s for s in block if s in values]:
            at = block.index(s)
            s.value, block[at:at] = values[s]  # type: ignore[attr-defined]
    return any(before for _, before in values.values())


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for s in block:
        for inner in below(s):
            yield from _blocks(inner)


class _Elements(Naming):
    """Replaces the elements of one array."""

    def __init__(self, f: Function, array: str) -> None:
        super().__init__(f)
        self.array = array

    def wanted(self, node: ast.expr) -> str:
        return f"{self.array}_read" if isinstance(node, ast.Subscript) and unparse(node.value) == self.array else ""
