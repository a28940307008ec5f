"""Loop nests that are products of matrices: ``c[i, j] += factor * a[i, k] * b[k, j]``, with further indices that do not
change in the nest. Where they are printed, large ones become calls of BLAS."""

from __future__ import annotations

from typing import NamedTuple

from .affine import plus
from .statements import Loop, Store
from .terms import ONE, ZERO, Binary, Constant, Element, Length, Term, Unary, Variable

__all__ = ["Factors", "Range", "accumulated", "as_product", "factors", "length", "matrix", "product_term", "shift"]


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


def length(r: Range) -> Term:
    """The trip count of a loop, if it is not negative."""
    return r.stop if r.start is ZERO else Binary("-", r.stop, r.start)


def as_product(loop: Loop) -> tuple[tuple[Range, Range, Range], Store, Factors] | None:
    """The loops, the statement and the factors of a nest that is a product of matrices, and nothing else."""
    loops: list[Loop] = [loop]
    while len(loops[-1].body) == 1 and isinstance(loops[-1].body[0], Loop):
        loops.append(loops[-1].body[0])
    (core,) = loops[-1].body if len(loops[-1].body) == 1 else (None,)
    if len(loops) != 3 or not isinstance(core, Store) or not all(map(_counts_up, loops)):
        return None
    found = accumulated(core.target, core.value)
    parts = found and factors(found[1], {p.index for p in loops})
    if not found or not parts or parts.others:
        return None
    i, k, j = (Range(p.index, p.start, p.stop) for p in loops)
    return (i, k, j), core, parts._replace(factor=found[0] * parts.factor)


def _counts_up(loop: Loop) -> bool:
    special = loop.parallel or loop.exit_flag or loop.trip_counter or loop.values_before_loop
    return bool(loop.index) and loop.step is ONE and not special


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
