"""Unroll-and-jam: run the sums of four iterations side by side, each in its fixed order of additions.

Each addition of such a sum waits for the one before. Where the sums of an iteration depend on nothing that the loop
writes, those of four iterations are computed first, with their additions interleaved; then the iterations run, and find
their sums in a buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..ir.affine import plus
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


class _Sums(NamedTuple):
    """Sums of an iteration that one nest of loops computes."""

    starts: list[Step]
    nest: For
    adds: list[Step]


def unrolled_and_jammed(loop: For, named: Callable[[str], str], kinds: Mapping[str, str]) -> For:
    """The loop in blocks of four iterations; itself if that is not legal or not worthwhile.

    `named` gives fresh names, `kinds` are those of the variables of the function.
    """
    inside = list(walk_items(loop.body))
    written = {item.name for item in inside if isinstance(item, Step)}
    written |= {item.index for item in inside if isinstance(item, For)}
    plain = all(isinstance(item, Step | For | Branch | Comment) for item in inside)
    if not plain or loop.step is not ONE or loop.parallel or loop.product or reads(*loop.bounds) & written:
        return loop
    found = [sums for k in range(len(loop.body)) if (sums := _sums_of(loop, k, written, kinds))]
    if not found:
        return loop
    block, stop, index = Variable(named("block")), Variable(named("block_stop")), Variable(loop.index)
    place: Term = Binary("-", index, block)
    full: list[Item] = []
    one_by_one: list[Item] = []
    sizes: dict[str, Term] = {}
    ready: dict[int, list[Item]] = {}  # what is in the place of items of the loop
    for number, sums in enumerate(found):
        buffers = {s.name: named(f"{s.name}_ahead{number or ''}") for s in sums.starts}
        sizes |= {name: Constant(_WIDTH) for name in buffers.values()}
        copies: list[dict[Term, Term]] = [{index: plus(block, k)} for k in range(_WIDTH)]
        for k, copy in enumerate(copies):
            copy |= {Variable(s.name): Variable(named(f"{s.name}_{k}")) for s in sums.starts}
        full += _computed(sums, copies, buffers, [Constant(k) for k in range(_WIDTH)])
        one_by_one += _computed(sums, [copies[0] | {index: index}], buffers, [place])
        ready |= {id(s): [] for s in sums.starts}
        ready[id(sums.nest)] = [Step(s.target, "=", Element(buffers[s.name], (place,))) for s in sums.starts]
    fits = Compare(("<=",), (plus(block, _WIDTH), loop.stop))
    rest: list[Item] = [new for item in loop.body for new in ready.get(id(item), [item])]
    body: list[Item] = [
        Branch(fits, body=full),
        Branch(fits, otherwise=True, body=[For(loop.index, block, loop.stop, body=one_by_one)]),
        Step(stop, "=", called(min, plus(block, _WIDTH), loop.stop)),
        For(loop.index, block, stop, body=rest),
    ]
    return For(block.name, loop.start, loop.stop, Constant(_WIDTH), body=body, buffers=sizes)


def _sums_of(loop: For, at: int, written: set[str], kinds: Mapping[str, str]) -> _Sums | None:
    """The sums that the nest at this place in a loop computes; None if it does anything else, or reads what changes."""
    nest = loop.body[at]
    if not isinstance(nest, For):
        return None
    around, adds = [nest], nest.body
    while len(adds) == 1 and isinstance(adds[0], For):
        around.append(adds[0])
        adds = adds[0].body
    names = [s.name for s in adds if isinstance(s, Step)]
    if len(names) < len(adds) or len(set(names)) < len(names) or not all(_is_cheap_sum(s, kinds) for s in adds):
        return None
    bounds = reads(*(t for p in around for t in p.bounds))
    changing = written - {p.index for p in around}
    terms = [s.value.right for s in adds]  # type: ignore[union-attr]
    special = any(p.step is not ONE or p.parallel or p.product or p.buffers for p in around)
    if special or isinstance(around[-1].stop, Constant):  # short ones are better left to the compiler
        return None
    if bounds & (changing | {loop.index}) or reads(*terms) & changing:
        return None
    starts = [_start(loop.body[:at], name) for name in names]
    if not all(starts) or any(reads(s.value) & changing for s in starts if s):
        return None
    return _Sums([s for s in starts if s], nest, adds)  # type: ignore[arg-type]


def _is_cheap_sum(s: Item, kinds: Mapping[str, str]) -> bool:
    """Whether a step adds to a float, in a fixed order, what takes less time than to wait for the addition before."""
    match s:
        case Step(Variable(name), "=", Binary("+" | "-", Variable(total), term), False) if total == name:
            costly = any(isinstance(t, Call | Select) for t in subterms(term))
            return name not in term.reads and not costly and kinds.get(name, "float") == "float"
    return False


def _start(before: list[Item], name: str) -> Step | None:
    """The step at the end of `before` that sets a sum to what it begins with, and after which nothing mentions it."""
    for item in reversed(before):
        inside = [item] if not isinstance(item, Nest) else [item, *walk_items(item.body)]
        mentioned = any(name in _named(s) for s in inside)
        if mentioned:
            begins = isinstance(item, Step) and item.target is Variable(name) and item.assign_op == "="
            return item if begins and name not in reads(item.value) else None  # type: ignore[union-attr,return-value]
    return None


def _named(item: Item) -> frozenset[str] | set[str]:
    if isinstance(item, Step):
        return item.target.named | item.value.named
    return set().union(*(t.named for t in item.terms)) if isinstance(item, Nest) else set()


def _computed(sums: _Sums, copies: list[dict[Term, Term]], buffers: dict[str, str], places: list[Term]) -> list[Item]:
    """The items that compute sums of several iterations and put them into the buffers."""
    begin: list[Item] = [_copied(s, c) for c in copies for s in sums.starts]
    inner: list[Item] = [_copied(s, c) for c in copies for s in sums.adds]
    end: list[Item] = [
        Step(Element(buffers[s.name], (place,)), "=", substitute(s.target, c))
        for c, place in zip(copies, places, strict=True)
        for s in sums.starts
    ]
    return [*begin, _around(sums.nest, inner), *end]


def _around(nest: For, inner: list[Item]) -> For:
    """The loops of a nest around other items."""
    (first, *_) = nest.body
    return nest.with_body([_around(first, inner)] if isinstance(first, For) else inner)


def _copied(s: Step, terms: dict[Term, Term]) -> Step:
    target = substitute(s.target, terms)
    assert isinstance(target, Variable)
    return Step(target, s.assign_op, substitute(s.value, terms))
