"""The IR of the sweeps: assignments, loops and branches with a body, effects, and comments.

Both sweeps are made of these items, and everything else that is generated. Passes over the reverse sweep rewrite
assignments, loops and branches. They leave an effect where it is (an allocation, a push, a call, a swap), but know what
it reads and binds. :mod:`.printer` alone makes text of items.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ...core.source_text import comment_source
from .effects import BlankLine, Effect
from .matrix_products import Product, product_term
from .statements import Grow, Loop, Statement, Swap, terms_of
from .terms import (
    ONE,
    ZERO,
    Constant,
    Element,
    Length,
    Shape,
    Term,
    Unary,
    Variable,
    named,
    substitute,
    variables,
)

__all__ = [
    "FLOAT_ZERO",
    "Branch",
    "Comment",
    "For",
    "ForIndices",
    "Item",
    "Nest",
    "Opaque",
    "Step",
    "While",
    "bound_by",
    "evaluated_by",
    "hoist_common_steps",
    "loop_head",
    "loops_over",
    "mentions",
    "merge_zero_steps",
    "negative",
    "product_nest",
    "replace_by_scalars",
    "same_iterations",
    "steps",
    "walk_items",
]  # fmt: skip

#: What cotangents begin with.
FLOAT_ZERO = Constant(0.0)
_N = TypeVar("_N", bound="Nest")


@dataclass(eq=False)
class Step:
    """``target = value``, or with ``+=`` or ``-=``; `reassociable`: the additions of all iterations may be
    reordered."""

    target: Variable | Element
    assign_op: str
    value: Term
    reassociable: bool = False

    def __str__(self) -> str:
        if self.reassociable:
            return f"{self.name} = plus({self.name}, {self.value if self.assign_op == '+=' else negative(self.value)})"
        return f"{self.target} {self.assign_op} {self.value}"

    @property
    def name(self) -> str:
        """The scalar or array that it writes."""
        return self.target.array if isinstance(self.target, Element) else self.target.name

    @property
    def zeroes(self) -> bool:
        """Whether it sets its target to zero."""
        return self.assign_op == "=" and not self.reassociable and self.value is FLOAT_ZERO

    @property
    def key(self) -> tuple[Term, str, Term, bool]:
        """What makes two steps equal."""
        return self.target, self.assign_op, self.value, self.reassociable

    def evaluated(self) -> list[Term]:
        """The terms that it evaluates, besides the old value of the target."""
        return [self.value, *self.target.operands]


@dataclass(frozen=True)
class Comment:
    """A comment in the generated code."""

    text: str

    def __str__(self) -> str:
        return comment_source(self.text)


@dataclass(eq=False, kw_only=True)
class Nest:
    """A loop or a branch, with its body."""

    body: list[Item] = field(default_factory=list)

    @property
    def head(self) -> str:
        """Its first line."""
        raise NotImplementedError

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms in its first line."""
        raise NotImplementedError

    def with_body(self: _N, body: list[Item]) -> _N:
        """The same loop or branch around other items."""
        return replace(self, body=body)


@dataclass(eq=False)
class For(Nest):
    """``for index in range(start, stop, step)``, or over ``prange`` if it is `parallel`.

    `product` marks the outer of three loops that are a product of matrices; if they still are, a call is printed.
    `buffers` are vectors that it needs, with what makes them; they are allocated at the beginning of the function.
    """

    index: str
    start: Term
    stop: Term
    step: Term = ONE
    parallel: bool = False
    product: bool = False
    buffers: dict[str, Term] = field(default_factory=dict)

    @property
    def head(self) -> str:
        first = () if self.start is ZERO and self.step is ONE else (self.start,)
        bounds = (*first, self.stop, *(() if self.step is ONE else (self.step,)))
        return f"for {self.index} in {'prange' if self.parallel else 'range'}({', '.join(map(str, bounds))}):"

    @property
    def bounds(self) -> tuple[Term, Term, Term]:
        return self.start, self.stop, self.step

    @property
    def terms(self) -> tuple[Term, ...]:
        return Variable(self.index), *self.bounds


@dataclass(eq=False)
class While(Nest):
    """``while test``."""

    test: Term

    @property
    def head(self) -> str:
        return f"while {self.test}:"

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.test,)


@dataclass(eq=False)
class Branch(Nest):
    """``if test``; or, if it is the `otherwise`, the other side of the branch right before it."""

    test: Term
    otherwise: bool = False

    @property
    def head(self) -> str:
        return "else:" if self.otherwise else f"if {self.test}:"

    @property
    def terms(self) -> tuple[Term, ...]:
        return (self.test,)


@dataclass(eq=False)
class ForIndices(Nest):
    """``for index in np.ndindex(array.shape)``."""

    index: str
    array: str

    @property
    def head(self) -> str:
        return f"for {self.index} in np.ndindex({self.array}.shape):"

    @property
    def terms(self) -> tuple[Term, ...]:
        return Variable(self.index), Shape(self.array)


#: What passes do not look into, besides asking for its names: an effect, or a statement of the function as it is
#: (:class:`.Grow`, :class:`.Swap`, :class:`.Check`).
Opaque = Effect | Statement
Item = Comment | BlankLine | Step | Nest | Effect | Statement


def loop_head(s: Loop, parallel: bool = False) -> For | While:
    """A loop that runs forward, without a body."""
    if not s.index:
        assert s.test is not None
        return While(s.test)
    return For(s.index, s.start, s.stop, s.step, parallel)


def same_iterations(a: Nest, b: Nest) -> bool:
    """Whether two loops run over the same values of the same variable, and both serially or both in parallel."""
    if not isinstance(a, For) or not isinstance(b, For) or a.product or b.product:
        return False
    return (a.index, a.bounds, a.parallel) == (b.index, b.bounds, b.parallel)


def loops_over(of: str, names: list[str], item: Item) -> Item:
    """Loops that run `item` for each element of the array `of`; `names` are the loop variables, one per axis."""
    for d in reversed(range(len(names))):
        item = For(names[d], ZERO, Length(of, d), body=[item])
    return item


def negative(value: Term) -> Term:
    """``-value``."""
    return Unary("-", value)


def merge_zero_steps(items: list[Item]) -> list[Item]:
    """A block in which each ``v = 0.0; v += e`` is merged into ``v = e``."""
    merged: list[Item | None] = [*items]
    positions: dict[str, list[int]] = {}  # positions of the items that mention each name
    for k, item in enumerate(items):
        for name in _mentioned(item):
            positions.setdefault(name, []).append(k)
    for k, zero in enumerate(items):
        if not (isinstance(zero, Step) and isinstance(zero.target, Variable) and zero.value is FLOAT_ZERO):
            continue
        after = positions[zero.name]
        at = bisect_right(after, k)
        later = merged[after[at]] if at < len(after) else None
        if not isinstance(later, Step) or later.name != zero.name or later.assign_op == "=" or later.reassociable:
            continue
        if zero.name not in later.value.named:
            merged[k] = None
            later.value = later.value if later.assign_op == "+=" else negative(later.value)
            later.assign_op = "="
    return [item for item in merged if item is not None]


def walk_items(items: list[Item]) -> Iterator[Item]:
    """All items, each before those in it."""
    for item in items:
        yield item
        if isinstance(item, Nest):
            yield from walk_items(item.body)


def evaluated_by(item: Item) -> tuple[Term, ...]:
    """The terms that an item evaluates or modifies, without the items in it."""
    match item:
        case Step():
            whole = isinstance(item.target, Element) or item.assign_op != "=" or item.reassociable
            return (item.value, item.target) if whole else (item.value,)
        case For():
            return item.bounds
        case ForIndices(_, array):
            return (Shape(array),)
        case Nest():
            return item.terms
        case Effect():
            return item.evaluated
        case Swap(a, b):
            return variables((a, b))
        case Grow(name, size):
            return Variable(name), size
        case Statement():
            return terms_of(item)
    return ()


def bound_by(item: Item) -> tuple[str, ...]:
    """The names that an item binds, without the items in it: not those of arrays whose elements it writes."""
    match item:
        case Step(target=Variable(name)) | Grow(name) | ForIndices(name):
            return (name,)
        case For(name):
            return name, *item.buffers
        case Effect():
            return item.bound
        case Swap(a, b):
            return a, b
    return ()


def _mentioned(item: Item) -> set[str]:
    """All names in `item`."""
    names = named(*evaluated_by(item)).union(bound_by(item))
    return names.union(*map(_mentioned, item.body)) if isinstance(item, Nest) else names


def mentions(item: Item, name: str) -> bool:
    """Whether `item` contains `name`."""
    return any(name in bound_by(s) or any(name in t.named for t in evaluated_by(s)) for s in walk_items([item]))


def hoist_common_steps(body: list[Item], orelse: list[Item], test: Term) -> tuple[list[Item], list[Item]]:
    """Hoist the steps common to two branches out of them; the steps to run before the branches, and after."""
    keys = [{s.key for s in items if isinstance(s, Step)} for items in (body, orelse)]
    if not keys[0] & keys[1]:
        return [], []
    before = _common(body, orelse, test.named)
    for items in (body, orelse):
        items.reverse()
    after = _common(body, orelse, frozenset())[::-1]
    for items in (body, orelse):
        items.reverse()
        if all(isinstance(item, Comment) for item in items):
            items.clear()
    return before, after


def _common(body: list[Item], orelse: list[Item], known: frozenset[str]) -> list[Item]:
    """Remove from both branches the steps that both could begin with and that write no name in `known`; these steps."""
    hoisted: list[Item] = []
    while True:
        others = {s.key: s for s in reversed(_movable(orelse))}
        s = next((s for s in _movable(body) if s.key in others and s.name not in known), None)
        if s is None:
            return hoisted
        hoisted.append(s)
        body.remove(s)
        orelse.remove(others[s.key])


def _movable(items: list[Item]) -> list[Step]:
    """The steps that can be moved to the beginning of `items`."""
    movable: list[Step] = []
    passed: list[Step] = []
    for item in items:
        if isinstance(item, Step):
            if all(s.name not in _names(item) and item.name not in _names(s) for s in passed):
                movable.append(item)
            passed.append(item)
        elif not isinstance(item, Comment):
            break
    return movable


def _names(s: Step) -> frozenset[str]:
    return s.target.named | s.value.named


def product_nest(product: Product) -> For:
    """The loops of a product of matrices."""
    nest: Item = Step(product.target, "+=" if product.parts.factor > 0 else "-=", product_term(product.parts))
    outer, *inner = product.in_order
    for loop in reversed(inner):
        nest = For(*loop, body=[nest])
    return For(*outer, product=True, body=[nest])


def steps(items: list[Item], depth: int = 0) -> Iterator[tuple[Step, int]]:
    """The assignments in `items`, each with the number of loops and branches around it."""
    for item in items:
        if isinstance(item, Step):
            yield item, depth
        elif isinstance(item, Nest):
            yield from steps(item.body, depth + 1)


def replace_by_scalars(item: Item, scalars: Mapping[Term, Term]) -> None:
    """Replace array elements, or variables, by scalars."""
    if isinstance(item, Step):
        target = substitute(item.target, scalars)
        assert isinstance(target, Variable | Element)
        item.target, item.value = target, substitute(item.value, scalars)
    elif isinstance(item, Nest):
        for inner in item.body:
            replace_by_scalars(inner, scalars)
