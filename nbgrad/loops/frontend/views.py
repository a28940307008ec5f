"""Views of arrays: what a subscript selects, and its element at the counters of loops."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from .affine_syntax import is_array_length, minus, offset, plus
from .syntax import parse, unparse

__all__ = ["NUMBERS", "Axis", "View", "axis_length", "fold_negation", "index_of", "length_code"]

ZERO, ONE = ast.Constant(0), ast.Constant(1)
NUMBERS = (bool, int, float)


@dataclass(frozen=True)
class Axis:
    """The elements ``start:stop:step`` along one axis of an array; negative bounds do not count from the end."""

    start: ast.expr
    stop: ast.expr
    step: ast.expr = ONE


@dataclass(frozen=True)
class View:
    """Elements of the array `name`.

    `parts` has an index or an Axis for each axis of the array. `order` has the axis of the array for each axis of the
    view, None for a new axis of length 1.
    """

    name: str
    parts: tuple[ast.expr | Axis, ...]
    order: tuple[int | None, ...]

    @property
    def rank(self) -> int:
        return len(self.order)

    def axis(self, d: int) -> Axis:
        source = self.order[d]
        part = Axis(ZERO, ONE) if source is None else self.parts[source]
        assert isinstance(part, Axis)
        return part

    def is_whole_array(self, sizes: list[ast.expr]) -> bool:
        """Whether it is all of an array with these sizes, in order."""
        return self.order == tuple(range(len(self.parts))) and all(
            isinstance(p, Axis) and unparse(p.start) == "0" and unparse(p.step) == "1" and unparse(p.stop) == unparse(n)
            for p, n in zip(self.parts, sizes, strict=True)
        )

    @property
    def transposed(self) -> View:
        return replace(self, order=self.order[::-1])

    def at(self, indices: list[ast.expr]) -> ast.Subscript:
        """The element of the array at these indices; those are given per axis of the view, in terms of the array."""
        parts = list(self.parts)
        for axis, index in zip(self.order, indices, strict=True):
            if axis is not None:
                parts[axis] = index
        assert not any(isinstance(p, Axis) for p in parts)
        return ast.Subscript(ast.Name(self.name, ast.Load()), index_of(parts), ast.Load())


def index_of(parts: list) -> ast.expr:
    return ast.Tuple(parts, ast.Load()) if len(parts) > 1 else parts[0]


def fold_negation(node: ast.expr) -> ast.expr:
    """Fold the negation of a constant unless the result is negative, which the parser writes as a negation."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = -node.operand.value  # type: ignore[operator]
        return ast.Constant(value) if not isinstance(value, complex) and value >= 0 else node
    return node


def length_code(axis: Axis) -> str:
    """Code for the number of elements; it may be negative where there are none."""
    if unparse(axis.step) == "1":
        return unparse(minus(axis.stop, axis.start))
    if unparse(axis.step) == "-1" and not offset(axis.stop)[0]:
        return unparse(plus(axis.start, -offset(axis.stop)[1]))
    return f"len(range({unparse(axis.start)}, {unparse(axis.stop)}, {unparse(axis.step)}))"


def axis_length(axis: Axis) -> ast.expr:
    """The number of elements, at least 0."""
    code = length_code(axis)
    node = parse(code)
    nonnegative = is_array_length(node) or isinstance(node, ast.Constant) or (
        unparse(axis.start) == "0" and not isinstance(axis.stop, ast.BinOp)
    )  # fmt: skip
    return node if nonnegative else parse(f"max({code}, 0)")


def compose(axis: Axis, start: ast.expr, stop: ast.expr, step: ast.expr) -> Axis:
    """The slice ``start:stop:step`` of the elements along `axis`."""
    if unparse(axis.step) == "1":
        base = axis.start
        if unparse(base) == "0":
            return Axis(start, stop, step)
        return Axis(add_indices(base, start), add_indices(base, stop), step)
    stride = axis.step

    def along(n: ast.expr) -> ast.expr:
        return add_indices(axis.start, multiply_indices(n, stride))

    return Axis(along(start), along(stop), multiply_indices(step, stride))


def add_indices(a: ast.expr, b: ast.expr) -> ast.expr:
    for x, y in ((a, b), (b, a)):
        name, k = offset(x)
        if not name:
            return plus(y, k)
    if isinstance(b, ast.UnaryOp) and isinstance(b.op, ast.USub):
        return ast.BinOp(a, ast.Sub(), b.operand)
    return ast.BinOp(a, ast.Add(), b)


def multiply_indices(a: ast.expr, b: ast.expr) -> ast.expr:
    for x, y in ((a, b), (b, a)):
        match unparse(x):
            case "1":
                return y
            case "0":
                return ZERO
            case "-1":
                return ast.UnaryOp(ast.USub(), y)
    return ast.BinOp(a, ast.Mult(), b)
