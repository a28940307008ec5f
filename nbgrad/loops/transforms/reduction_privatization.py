"""Numbers and arrays to which all turns of a loop over ``prange`` add, as to the cotangents of weights.

The turns are shared out to a few parts, each of which adds to numbers and arrays of its own. These are added, in order,
when all have run. How many there are depends on the number of turns, not on that of the threads. With arrays, that is
done where each turn adds to about as many elements as there are: else more would be added in the end than in the turns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.affine import offset, parts
from ..ir.reverse_ir import Item, Nest, Step, loop_of, over, steps
from ..ir.statements import Loop, parse, reads, unparse
from ..ir.tapes import trips

if TYPE_CHECKING:
    from ..analysis.parallelization import Sum

__all__ = ["Share", "in_parts", "shared"]

#: Parts at most, and turns for each at least: what is done for a part, to zero and to add its arrays, takes about as
#: long as a turn. For numbers alone there are as many parts as this, always.
_PARTS, _TURNS, _NUMBERS = 16, 4, 64


@dataclass
class Share:
    """An array to which turns add, and the one with what each part has of it.

    Attributes
    ----------
    lengths : list of str
        Those of what a part has: of axes along which there are only constants, as much as these ask for.
    """

    name: str
    array: str
    lengths: list[str]
    axes: list[str]  # names for places in it


def shared(body: list[Item], counter: str) -> dict[str, list[str]]:
    """The arrays that may be shared out, with the lengths for a part; `body`: what a turn of `counter` consists of."""
    found = _Additions(body, counter)
    return {n: found.lengths(n) for n in found.indices if n not in found.other}


class _Additions:
    """The indices of elements that turns add to, and other uses of arrays."""

    def __init__(self, body: list[Item], counter: str) -> None:
        self.indices: dict[str, list[list[ast.expr]]] = {}
        self.other: set[str] = set()
        numbers = {s.name for s, _ in steps(body) if isinstance(s.target, ast.Name)}
        self.changed = {counter, *numbers, *_counters(body)}
        self._look(body, frozenset())

    def _look(self, body: list[Item], counted: frozenset[str]) -> None:
        """`counted`: the variables of loops around that have the same turns each time."""
        for item in body:
            if isinstance(item, Nest):
                head = loop_of(item)
                self.other |= reads(item.first) if head is None else reads(head.iter)
                steady = head is not None and not reads(head.iter) & self.changed
                self._look(item.body, counted | {unparse(head.target)} if head is not None and steady else counted)
            elif isinstance(item, Step):
                self.other |= {n for node in item.read() for n in reads(node)}
                if isinstance(item.target, ast.Subscript):
                    index = parts(item.target.slice)
                    self.indices.setdefault(item.name, []).append(index)
                    if item.how == "=" or not _covers(index, counted):
                        self.other.add(item.name)

    def lengths(self, name: str) -> list[str]:
        made: list[str] = []
        for d, axis in enumerate(zip(*self.indices[name], strict=True)):
            whole = f"{name}.shape[{d}]"
            known = [p.value for p in axis if isinstance(p, ast.Constant)]
            made.append(f"min({max(known) + 1}, {whole})" if len(known) == len(axis) else whole)  # type: ignore
        return made


def _counters(body: Iterable[Item]) -> set[str]:
    found: set[str] = set()
    for item in body:
        if isinstance(item, Nest):
            head = loop_of(item)
            found |= _counters(item.body) | ({unparse(head.target)} if head is not None else set())
    return found


def _covers(index: list[ast.expr], counted: frozenset[str]) -> bool:
    """Whether each axis is gone through by a loop of its own, or has a constant place."""
    moving = [offset(p)[0] for p in index if not isinstance(p, ast.Constant)]
    fixed = [p.value for p in index if isinstance(p, ast.Constant)]
    return set(moving) <= counted and len(set(moving)) == len(moving) and all(k >= 0 for k in fixed)  # type: ignore


def in_parts(
    loop: Loop, body: list[Item], sums: dict[str, Sum], shares: list[Share], part: str, count: str
) -> list[Item]:
    """A parallel loop over parts of the turns, each of which consists of `body`; `count`: a name for how many there
    are, if that depends on the number of turns."""
    count = count if shares else str(_NUMBERS)
    arrays = {s.name: s.array for s in shares}
    for step, _ in steps(body):
        if step.name in arrays and isinstance(step.target, ast.Subscript):
            step.target = _element(arrays[step.name], [part, *map(unparse, parts(step.target.slice))])
    turns, start = trips(loop), "" if unparse(loop.start) == "0" else f"{unparse(loop.start)} + "
    first, last = (f"{start}{turns} * {k} // {count}" for k in (part, f"({part} + 1)"))
    many = Step(ast.Name(count), "=", f"max(min({_PARTS}, {turns} // {_TURNS}), 1)")
    before: list[Item] = [many] if shares else []
    before += [Step(ast.Name(s.array), "=", f"np.empty({count}, {s.dtype})") for s in sums.values()]
    inside: list[Item] = [
        *(Step(ast.Name(s.mine), "=", s.zero) for s in sums.values()),
        Nest(f"for {loop.index} in range({first}, {last}):", body),
        *(Step(_element(s.array, [part]), "=", s.mine) for s in sums.values()),
    ]
    total: list[Item] = [Step(ast.Name(n), "+=", unparse(_element(s.array, [part]))) for n, s in sums.items()]
    after: list[Item] = [Nest(f"for {part} in range({count}):", total)] if sums else []
    for s in shares:
        before.append(Step(ast.Name(s.array), "=", f"np.zeros(({', '.join([count, *s.lengths])}), {s.name}.dtype)"))
        index = [part, *s.axes]
        after.append(over(s.array, index, Step(_element(s.name, s.axes), "+=", unparse(_element(s.array, index)))))
    return [*before, Nest(f"for {part} in prange({count}):", inside), *after]


def _element(array: str, index: list[str]) -> ast.expr:
    return parse(f"{array}[{', '.join(index)}]")
