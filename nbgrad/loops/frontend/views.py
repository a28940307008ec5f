"""Views of arrays: what a subscript selects, and its element at the counters of loops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from ..ir.affine import distance, is_length, minus, offset, plus, total
from ..ir.names import called
from ..ir.terms import MINUS_ONE, ONE, ZERO, Binary, Call, Compare, Constant, Element, Select, Term, Unary, integer

__all__ = ["NUMBERS", "Axis", "View", "add_indices", "axis_length", "compose", "fold_negation", "from_either_end",
           "holds_at_most_one", "multiply_indices", "product", "raw_length"]  # fmt: skip

NUMBERS = (bool, int, float)


@dataclass(frozen=True)
class Axis:
    """The elements ``start:stop:step`` along one axis of an array; negative bounds do not count from the end."""

    start: Term
    stop: Term
    step: Term = ONE


@dataclass(frozen=True)
class View:
    """Elements of the array `name`.

    `parts` has an index or an Axis for each axis of the array. `order` has the axis of the array for each axis of the
    view, None for a new axis of length 1.
    """

    name: str
    parts: tuple[Term | Axis, ...]
    order: tuple[int | None, ...]

    @property
    def rank(self) -> int:
        return len(self.order)

    def axis(self, d: int) -> Axis:
        source = self.order[d]
        part = Axis(ZERO, ONE) if source is None else self.parts[source]
        assert isinstance(part, Axis)
        return part

    def is_whole_array(self, sizes: list[Term]) -> bool:
        """Whether it is all of an array with these sizes, in order."""
        return self.order == tuple(range(len(self.parts))) and self.parts == tuple([Axis(ZERO, n) for n in sizes])

    @property
    def without_new_axes(self) -> View:
        return replace(self, order=tuple([axis for axis in self.order if axis is not None]))

    @property
    def transposed(self) -> View:
        return replace(self, order=self.order[::-1])

    def at(self, indices: list[Term]) -> Element:
        """The element of the array at these indices; those are given per axis of the view, in terms of the array."""
        parts = list(self.parts)
        for axis, index in zip(self.order, indices, strict=True):
            if axis is not None:
                parts[axis] = index
        assert not any(isinstance(p, Axis) for p in parts)
        return Element(self.name, tuple(parts))  # type: ignore[arg-type]


def fold_negation(term: Term) -> Term:
    """Fold the negation of a constant unless the result is negative, which is a negation in terms as well."""
    match term:
        case Unary("-", Constant(value)) if -value >= 0:
            return Constant(-value)
    return term


def from_either_end(index: Term, size: Term) -> Term:
    """An index of `size` elements that counts from the end where it is negative."""
    return Select(Compare((">=",), (index, ZERO)), index, total(index, size))


def raw_length(axis: Axis) -> Term:
    """The number of elements; it may be negative where there are none."""
    if axis.step is ONE:
        known = distance(axis.stop, axis.start)
        return minus(axis.stop, axis.start) if known is None else integer(known)
    base, k = offset(axis.stop)
    if axis.step is MINUS_ONE and base is None:
        return plus(axis.start, -k)
    return called(len, called(range, axis.start, axis.stop, axis.step))


def axis_length(axis: Axis) -> Term:
    """The number of elements, at least 0."""
    length = raw_length(axis)
    from_zero = axis.start is ZERO and not isinstance(axis.stop, Binary)
    nonnegative = from_zero or is_length(length) or isinstance(length, Constant)
    return length if nonnegative else called(max, length, ZERO)


def holds_at_most_one(axis: Axis) -> bool:
    """Whether it is known to have one element, or one or none, as ``k:k + 1``: it broadcasts."""
    match axis.stop:
        case Call(function, (bound, _)) if function.value is min:  # clipped to the array
            return axis.step is ONE and distance(bound, axis.start) == 1
    return raw_length(axis) is ONE


def compose(axis: Axis, start: Term, stop: Term, step: Term) -> Axis:
    """The slice ``start:stop:step`` of the elements along `axis`."""

    def along(n: Term) -> Term:
        return add_indices(axis.start, multiply_indices(n, axis.step))

    if axis.start is ZERO and axis.step is ONE:
        return Axis(start, stop, step)
    return Axis(along(start), along(stop), multiply_indices(step, axis.step))


def add_indices(a: Term, b: Term) -> Term:
    for x, y in ((a, b), (b, a)):
        base, k = offset(x)
        if base is None:
            return plus(y, k)
    if isinstance(b, Unary) and b.op == "-":
        return Binary("-", a, b.operand)
    return Binary("+", a, b)


def multiply_indices(a: Term, b: Term) -> Term:
    for x, y in ((a, b), (b, a)):
        if x is ONE:
            return y
        if x is ZERO:
            return ZERO
        if x is MINUS_ONE:
            return Unary("-", y)
    return Binary("*", a, b)


def product(factors: list[Term]) -> Term:
    """The product of some terms, 1 of none."""
    return reduce(lambda a, b: Binary("*", a, b), factors) if factors else ONE
