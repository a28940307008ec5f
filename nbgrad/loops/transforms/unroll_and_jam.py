"""Unroll-and-jam: run the sums of four iterations side by side, each in its fixed order of additions.

Each addition of such a sum waits for the one before. Where the sums of an iteration read nothing that the loop writes,
those of four iterations are computed first, with their additions interleaved; then the iterations run, and find their
sums in a buffer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from ..ir.affine import offset, plus
from ..ir.names import called
from ..ir.reverse_ir import Branch, Comment, For, Item, Nest, Step, walk_items
from ..ir.terms import (
    ONE,
    Binary,
    Call,
    Compare,
    Constant,
    Element,
    Select,
    Term,
    Variable,
    reads,
    substitute,
    subterms,
)

__all__ = ["unrolled_and_jammed"]

#: The number of iterations whose sums run side by side.
_WIDTH = 4


class _Sum(NamedTuple):
    """A sum of an iteration, into a scalar or an element."""

    add: Step
    start: Step | None  #: what sets it to its first value, before the loops that add; None: it has one

    @property
    def target(self) -> Variable | Element:
        return self.add.target


class _Sums(NamedTuple):
    """Sums of an iteration that one nest of loops computes, and whatever else is in the nest."""

    nest: For
    sums: list[_Sum]
    others: list[Item]


def unrolled_and_jammed(
    loop: For, named: Callable[[str], str], kinds: Mapping[str, str], dtypes: Mapping[str, Term]
) -> For:
    """The loop in blocks of four iterations; itself if that is not legal or not worthwhile.

    `named` gives fresh names, `kinds` are those of the variables of the function, `dtypes` those of arrays that are
    known where it begins.
    """
    inside = list(walk_items(loop.body))
    written = Counter(item.name for item in inside if isinstance(item, Step))
    written.update(item.index for item in inside if isinstance(item, For))
    plain = all(isinstance(item, Step | For | Branch | Comment) for item in inside)
    if not plain or loop.step is not ONE or loop.parallel or loop.product or reads(*loop.bounds) & written.keys():
        return loop
    search = _Search(loop, written, kinds, dtypes)
    found = [nest for nest in map(search.at, range(len(loop.body))) if nest]
    if not found:
        return loop
    block, stop, index = Variable(named("block")), Variable(named("block_stop")), Variable(loop.index)
    full: list[Item] = []
    one_by_one: list[Item] = []
    made: dict[str, Term] = {}
    ready: dict[int, list[Item]] = {}  # what is in the place of items of the loop
    for number, (nest, sums, others) in enumerate(found):
        buffers = {s.target: named(f"{s.add.name}_ahead{number or ''}") for s in sums}
        for s in sums:
            dtype = [dtypes[s.add.name]] if isinstance(s.target, Element) else []
            made[buffers[s.target]] = called(np.empty, Constant(_WIDTH), *dtype)
        rows = [_Row({index: plus(block, k)}, _elements(buffers, Constant(k)), k) for k in range(_WIDTH)]
        full += _computed(nest, sums, rows, named)
        taken = _elements(buffers, Binary("-", index, block))
        one_by_one += _computed(nest, sums, [_Row({}, taken, 0)], named)
        ready |= {id(s.start): [] for s in sums if s.start}
        ready[id(nest)] = [Step(t, "=", element) for t, element in taken.items()]
        ready[id(nest)] += [_around(nest, others)] if others else []
    fits = Compare(("<=",), (plus(block, _WIDTH), loop.stop))
    body: list[Item] = [
        Branch(fits, body=full),
        Branch(fits, otherwise=True, body=[For(loop.index, block, loop.stop, body=one_by_one)]),
        Step(stop, "=", called(min, plus(block, _WIDTH), loop.stop)),
        For(loop.index, block, stop, body=[new for item in loop.body for new in ready.get(id(item), [item])]),
    ]
    return For(block.name, loop.start, loop.stop, Constant(_WIDTH), body=body, buffers=made)


class _Search:
    """Finds the sums of a loop that can be computed before its iterations run.

    `written` says how often each name is written in the loop.
    """

    def __init__(self, loop: For, written: Counter[str], kinds: Mapping[str, str], dtypes: Mapping[str, Term]) -> None:
        self.loop = loop
        self.written = written
        self.kinds = kinds
        self.dtypes = dtypes

    def at(self, number: int) -> _Sums | None:
        """The sums in the nest of loops that is this item of the loop."""
        nest = self.loop.body[number]
        if not isinstance(nest, For):
            return None
        around, inner = [nest], nest.body
        while len(inner) == 1 and isinstance(inner[0], For):
            around.append(inner[0])
            inner = inner[0].body
        changing = self.written.keys() - {p.index for p in around}
        bounds = reads(*(t for p in around for t in p.bounds))
        special = any(p.step is not ONE or p.parallel or p.product or p.buffers for p in around)
        if special or isinstance(around[-1].stop, Constant):  # short ones are better left to the compiler
            return None
        if bounds & (changing | {self.loop.index}) or not all(isinstance(s, Step) and _is_cheap(s) for s in inner):
            return None
        before = self.loop.body[:number]
        sums = [s for item in inner if (s := self.sum_of(item, before, changing, {p.index for p in around}))]  # type: ignore[arg-type]
        others = [s for s in inner if not any(t.add is s for t in sums)]
        names = {t.add.name for t in sums}
        if len(names) < len(sums) or any(_named(s) & names for s in others):
            return None
        return _Sums(nest, sums, others) if sums else None

    def sum_of(self, s: Step, before: list[Item], changing: set[str], inner: set[str]) -> _Sum | None:
        """A step in loops over `inner` that adds to one target, in a fixed order, what does not change in the loop; the
        loops come after `before`."""
        match s:
            case Step(target, "=", Binary("+" | "-", total, term), False) if total is target:
                several = reads(*target.operands) & (changing | inner)
                if several or reads(term) & changing or self.kinds.get(s.name, "float") != "float":
                    return None
            case _:
                return None
        start = next((item for item in reversed(before) if _mentions(item, s.name)), None)
        if isinstance(target, Element):
            if s.name not in self.dtypes:
                return None
            if start is None:  # each iteration has an element of its own, from which it goes on
                base, first = offset(self.loop.start)
                own = Variable(self.loop.index) in target.index and base is None and first >= 0
                return _Sum(s, None) if own and self.written[s.name] == 1 else None
        begins = isinstance(start, Step) and start.target is target and start.assign_op == "="
        if not begins or reads(start.value) & (changing | inner | {s.name}):  # type: ignore[union-attr]
            return None
        return _Sum(s, start)  # type: ignore[arg-type]


def _is_cheap(s: Step) -> bool:
    """Whether a step takes less time than to wait for an addition."""
    return not any(isinstance(t, Call | Select) for t in subterms(s.value))


def _mentions(item: Item, name: str) -> bool:
    return any(name in _named(s) for s in walk_items([item]))


def _named(item: Item) -> frozenset[str]:
    """The names in an item, those in its body left out."""
    terms = (item.target, item.value) if isinstance(item, Step) else item.terms if isinstance(item, Nest) else ()
    return frozenset().union(*(t.named for t in terms))


class _Row(NamedTuple):
    """An iteration whose sums are computed: what is in the place of the variable of the loop, the elements of buffers
    for the sums, and its number."""

    place: dict[Term, Term]
    buffered: dict[Variable | Element, Element]
    number: int


def _elements(buffers: dict[Variable | Element, str], place: Term) -> dict[Variable | Element, Element]:
    return {target: Element(name, (place,)) for target, name in buffers.items()}


def _computed(nest: For, sums: list[_Sum], rows: list[_Row], named: Callable[[str], str]) -> list[Item]:
    """The items that compute the sums of several iterations.

    Those of scalars are summed in scalars, those of elements in the buffer, which has the dtype of their array.
    """
    begin: list[Item] = []
    inner: list[Item] = []
    end: list[Item] = []
    for place, buffered, k in rows:
        totals: dict[Term, Variable | Element] = {
            t: Variable(named(f"{t.name}_{k}")) if isinstance(t, Variable) else buffered[t] for t in buffered
        }
        for s in sums:
            total = totals[s.target]
            begin.append(Step(total, "=", substitute(s.start.value if s.start else s.target, place)))
            inner.append(Step(total, "=", substitute(s.add.value, {**place, **totals})))
            end += [Step(buffered[s.target], "=", total)] if isinstance(total, Variable) else []
    return [*begin, _around(nest, inner), *end]


def _around(nest: For, inner: list[Item]) -> For:
    """The loops of a nest around other items."""
    first = nest.body[0]
    return nest.with_body([_around(first, inner)] if isinstance(first, For) else inner)
