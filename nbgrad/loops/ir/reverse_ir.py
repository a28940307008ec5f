"""The IR of the reverse sweep: assignments, loops and branches with a body, comments, and opaque lines of code.

Passes over the reverse sweep rewrite these items; :func:`flatten_items` prints them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TypeVar

from ...core.source_text import comment_source, constant_source
from .matrix_products import Factors, Range, factors, length, matrix, product_term
from .statements import Loop
from .terms import ONE, ZERO, Constant, Element, Length, Term, Unary, Variable, named, substitute

__all__ = [
    "FLOAT_ZERO",
    "Branch",
    "Comment",
    "For",
    "Item",
    "Nest",
    "Step",
    "While",
    "flatten_items",
    "hoist_common_steps",
    "loop_head",
    "loops_over",
    "mentions",
    "merge_zero_steps",
    "names_in_line",
    "negative",
    "product_nest",
    "replace_by_scalars",
    "same_iterations",
    "steps",
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
    """

    index: str
    start: Term
    stop: Term
    step: Term = ONE
    parallel: bool = False
    product: bool = False

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


#: A string is a line of code that passes do not analyse.
Item = str | Comment | Step | Nest


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
    merged = list(items)
    positions: dict[str, list[int]] = {}  # positions of the items that mention each name
    for k, item in enumerate(merged):
        for name in _mentioned(item):
            positions.setdefault(name, []).append(k)
    for k, zero in enumerate(merged):
        if not (isinstance(zero, Step) and isinstance(zero.target, Variable) and zero.value is FLOAT_ZERO):
            continue
        after = positions[zero.name]
        at = bisect_right(after, k)
        later = merged[after[at]] if at < len(after) else None
        if not isinstance(later, Step) or later.name != zero.name or later.assign_op == "=" or later.reassociable:
            continue
        if zero.name not in later.value.named:
            merged[k] = ""
            later.value = later.value if later.assign_op == "+=" else negative(later.value)
            later.assign_op = "="
    return [item for item in merged if item != ""]


def _mentioned(item: Item) -> set[str]:
    """All names in `item`."""
    if isinstance(item, Nest):
        return named(*item.terms).union(*map(_mentioned, item.body))
    if isinstance(item, Step):
        return named(item.value, item.target)
    return set(names_in_line(item)) if isinstance(item, str) else set()


def mentions(item: Item, name: str) -> bool:
    """Whether `item` contains `name`."""
    if isinstance(item, Nest):
        return name in named(*item.terms) or any(mentions(s, name) for s in item.body)
    if isinstance(item, Step):
        return name in item.value.named or name in item.target.named
    return isinstance(item, str) and name in names_in_line(item)


@lru_cache(4096)
def names_in_line(line: str) -> frozenset[str]:
    """The identifiers in a line of code, outside strings and comments."""
    identifiers: set[str] = set()
    word, quote = "", ""
    for k, c in enumerate(f"{line}#"):
        if quote:
            quote = "" if c == quote and line[k - 1] != "\\" else quote
        elif f"_{c}".isidentifier():
            word += c
        else:
            identifiers.add(word)
            word, quote = "", c if c in "'\"" else ""
            if c == "#":
                break
    return frozenset(identifiers)


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


def flatten_items(items: list[Item]) -> list[str]:
    """`items` as lines of code."""
    lines: list[str] = []
    for item in items:
        if isinstance(item, Nest):
            nest = [item.head, *(f"    {line}" for line in flatten_items(item.body) or ["pass"])]
            call = product_call(item) if isinstance(item, For) and item.product else []
            lines += [*call, *(f"    {line}" for line in nest)] if call else nest
        else:
            lines.append(str(item))
    return lines


def product_nest(rows: Range, inner: Range, columns: Range, target: Element, parts: Factors) -> For:
    """``target += factor * left * right`` for all elements of a product of matrices."""
    nest: Item = Step(target, "+=" if parts.factor > 0 else "-=", product_term(parts))
    for loop in (columns, inner, rows):
        nest = For(*loop, product=loop is rows, body=[nest])
    assert isinstance(nest, For)
    return nest


def product_call(nest: For) -> list[str]:
    """The call of BLAS for a product of matrices, up to the ``else`` of loops for a small one; [] if it is none."""
    loops: list[For] = [nest]
    while len(loops[-1].body) == 1 and isinstance(loops[-1].body[0], For):
        loops.append(loops[-1].body[0])
    (core,) = loops[-1].body if len(loops[-1].body) == 1 else (None,)
    if len(loops) != 3 or not isinstance(core, Step) or not isinstance(core.target, Element) or core.assign_op == "=":
        return []
    rows, inner, columns = (Range(p.index, p.start, p.stop) for p in loops)
    parts = factors(core.value, {rows.name, inner.name, columns.name})
    if parts is None or parts.others or any(p.parallel or p.step is not ONE for p in loops):
        return []
    if rows.name not in parts.left.reads:
        parts = parts._replace(left=parts.right, right=parts.left)
    of = ((core.target, rows, columns), (parts.left, rows, inner), (parts.right, inner, columns))
    matrices = [matrix(*each) for each in of]
    if None in matrices:
        return []
    number = parts.factor if core.assign_op == "+=" else -parts.factor
    return [
        f"if large_product({', '.join(str(length(r)) for r in (rows, columns, inner))}):",
        f"    add_product({', '.join(map(str, matrices))}, {constant_source(number)})",
        "else:",
    ]


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
