"""Loop nests that are products of matrices: ``c[i, j] += factor * a[i, k] * b[k, j]``, with further indices that do not
change in the nest. Where they are printed, large ones become calls of BLAS."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

from .affine import minus, plus
from .statements import Loop, Store
from .terms import ONE, ZERO, Binary, Constant, Element, Length, Term, Unary, Variable, reads

__all__ = [
    "Factors",
    "Product",
    "Range",
    "Triangle",
    "accumulated",
    "added",
    "as_product",
    "box",
    "factors",
    "length",
    "matrix",
    "product_term",
    "shift",
    "triangle",
    "with_roles",
]


class Range(NamedTuple):
    """A loop variable with its bounds."""

    name: str
    start: Term
    stop: Term


class Factors(NamedTuple):
    """``factor * left * right``, and the other factors."""

    factor: float
    left: Element
    right: Element
    others: tuple[Term, ...] = ()


def accumulated(target: Term, value: Term) -> tuple[int, Term] | None:
    """The sign and the term if `value` is ``target + term`` or ``target - term``."""
    match value:
        case Binary("+" | "-" as op, left, term) if left is target:
            return (1 if op == "+" else -1), term
        case Binary("+", term, right) if right is target:
            return 1, term
    return None


def factors(term: Term, inner: set[str]) -> Factors | None:
    """The factors of a product with exactly two that read variables in `inner`, which are elements."""
    number = 1.0
    elements: list[Element] = []
    others: list[Term] = []
    stack = [term]
    while stack:
        match stack.pop():
            case Binary("*", left, right):
                stack += [right, left]
            case Unary("-", operand):
                number, stack = -number, [*stack, operand]
            case Constant(value):
                number *= value
            case part if not part.reads & inner:
                others.append(part)
            case Element() as part:
                elements.append(part)
            case _:
                return None
    if len(elements) != 2:
        return None
    left, right = elements
    return Factors(number, left, right, tuple(others))


def shift(index: Term, name: str) -> Term | None:
    """What is added to a variable in an index, which must not contain it otherwise."""
    match index:
        case Variable(other) if other == name:
            return ZERO
        case Binary("+", left, right) if name not in right.reads:
            rest = shift(left, name)
            return None if rest is None else added(rest, right)
        case Binary("+", left, right) if name not in left.reads:
            rest = shift(right, name)
            return None if rest is None else added(left, rest)
        case Binary("-", left, right) if name not in right.reads:
            rest = shift(left, name)
            if rest is None:
                return None
            return added(rest, Unary("-", right)) if rest is ZERO else Binary("-", rest, right)
    return None


def added(a: Term, b: Term) -> Term:
    """``a + b``, with constants folded."""
    if a is ZERO or b is ZERO:
        return b if a is ZERO else a
    if isinstance(b, Constant):
        return plus(a, b.value)  # type: ignore[arg-type]
    return plus(b, a.value) if isinstance(a, Constant) else Binary("+", a, b)  # type: ignore[arg-type]


class Triangle(NamedTuple):
    """Of two loops, the inner one goes up to ``outer + shift``, exclusively, or from there if it is not `below`."""

    outer: Range
    inner: Range
    below: bool
    shift: Term


class Product(NamedTuple):
    """A nest that computes ``target += factor * left * right``: loops over the rows of `left` and of the target, over
    what is summed, and over the columns of `right` and of the target. A bound of one loop may depend on one other."""

    rows: Range
    inner: Range
    columns: Range
    target: Element
    parts: Factors

    @property
    def ranges(self) -> tuple[Range, Range, Range]:
        return self.rows, self.inner, self.columns

    @property
    def triangle(self) -> Triangle | None:
        return triangle(self.ranges)

    @property
    def box(self) -> list[Range]:
        """The ranges, without dependence."""
        return box(self.ranges)

    @property
    def diagonal(self) -> tuple[Constant, Term]:
        """Which elements of the matrix with a triangle count: those in row i and columns up to ``i + k``, exclusively,
        or from there, as (True or False, k). The rows of the product are the rows of that matrix."""
        found = self.triangle
        assert found is not None and self.rows in (found.outer, found.inner)
        start = next(r for r in self.box if r.name == found.inner.name).start
        ahead = added(found.shift, minus(found.outer.start, start)) if found.below else ZERO
        if found.outer is self.rows:
            return Constant(found.below), ahead
        return Constant(not found.below), minus(ONE, ahead)

    def transposed(self) -> Product:
        left, right = self.parts.left, self.parts.right
        return Product(self.columns, self.inner, self.rows, self.target, self.parts._replace(left=right, right=left))

    @property
    def in_order(self) -> tuple[Range, Range, Range]:
        """The loops from the outer to the inner one: rows, inner, columns, unless bounds want another order."""
        found = self.triangle
        if found is None:
            return self.ranges
        elements = self.target, self.parts.left, self.parts.right
        return max(
            (order for order in permutations(self.ranges, 3) if order.index(found.outer) < order.index(found.inner)),
            key=lambda order: sum(shift(e.index[-1], order[2].name) is not None for e in elements),
        )

    def left_cotangent(self, target: Element, cotangent: Element) -> Product:
        """The product that adds to the cotangent of `left`."""
        return Product(self.rows, self.columns, self.inner, target, self.parts._replace(left=cotangent))

    def right_cotangent(self, target: Element, cotangent: Element) -> Product:
        """The product that adds to the cotangent of `right`."""
        return Product(self.inner, self.rows, self.columns, target, self.parts._replace(right=cotangent))


def triangle(ranges: Sequence[Range]) -> Triangle | None:
    """The two loops of which one has a bound that depends on the other, if there are such loops."""
    names = {r.name for r in ranges}
    for inner in ranges:
        for bound, below in ((inner.stop, True), (inner.start, False)):
            for outer in ranges:
                if outer.name in bound.reads & names and (distance := shift(bound, outer.name)) is not None:
                    return Triangle(outer, inner, below, distance)
    return None


def box(ranges: Sequence[Range]) -> list[Range]:
    """The loops, without dependence: the one whose bound depends on another goes over all that it ever goes over."""
    found = triangle(ranges)
    if found is None:
        return list(ranges)
    outer, inner, below, distance = found
    start = inner.start if below else added(outer.start, distance)
    stop = added(plus(outer.stop, -1), distance) if below else inner.stop
    return [Range(inner.name, start, stop) if r is inner else r for r in ranges]


def length(r: Range) -> Term:
    """The trip count of a loop, if it is not negative."""
    return r.stop if r.start is ZERO else Binary("-", r.stop, r.start)


def as_product(loop: Loop) -> Product | None:
    """The product of matrices that a nest is, if it is nothing else."""
    loops: list[Loop] = [loop]
    while len(loops[-1].body) == 1 and isinstance(loops[-1].body[0], Loop):
        loops.append(loops[-1].body[0])
    (core,) = loops[-1].body if len(loops[-1].body) == 1 else (None,)
    if len(loops) != 3 or not isinstance(core, Store) or not all(p.counts_up for p in loops):
        return None
    found = accumulated(core.target, core.value)
    parts = found and factors(found[1], {p.index for p in loops})
    if not found or not parts or parts.others:
        return None
    ranges = [Range(p.index, p.start, p.stop) for p in loops]
    return with_roles(ranges, core.target, parts._replace(factor=found[0] * parts.factor))


def with_roles(ranges: Sequence[Range], target: Element, parts: Factors) -> Product | None:
    """The product that three loops compute: which of them are over rows and columns follows from the elements."""
    free = reads(*target.index)
    left, right = (reads(*e.index) for e in (parts.left, parts.right))
    rows = next((r for r in ranges if r.name in free), None)
    if rows is not None and rows.name not in left:
        parts, left, right = parts._replace(left=parts.right, right=parts.left), right, left
    columns = next((r for r in ranges if r.name in free & right and r is not rows), None)
    inner = next((r for r in ranges if r.name in left & right and r.name not in free), None)
    if rows is None or columns is None or inner is None or rows.name not in left:
        return None
    return Product(rows, inner, columns, target, parts)


def matrix(element: Element, row: Range, column: Range) -> str | None:
    """The text of the matrix of all elements over two loops; None if they are not the elements of one."""
    parts: list[str] = []
    order: list[Range] = []
    for axis, index in enumerate(element.index):
        here = [r for r in (row, column) if r.name in index.reads]
        if not here:
            parts.append(str(index))
            continue
        distance = shift(index, here[0].name)
        if len(here) == 2 or distance is None:
            return None
        start, stop = added(here[0].start, distance), added(here[0].stop, distance)
        whole = start is ZERO and stop is Length(element.array, axis)
        parts.append(f"{'' if start is ZERO else start}:{'' if whole else stop}")
        order += here
    if sorted(order, key=id) != sorted((row, column), key=id):
        return None
    return f"{element.array}[{', '.join(parts)}]{'' if order == [row, column] else '.T'}"


def product_term(parts: Factors) -> Term:
    """``factor * left * right``, without the sign of the factor."""
    size = abs(parts.factor)
    return Binary("*", parts.left if size == 1 else Binary("*", Constant(size), parts.left), parts.right)
