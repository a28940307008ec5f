"""Slices of arrays, with NumPy's meaning."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.affine import distance, plus
from ..ir.names import called
from ..ir.statements import Check
from ..ir.terms import MINUS_ONE, ONE, ZERO, Compare, Constant, Term, Unary, integer
from .array_expressions import ArrayExpr, Lowered, Scalar, Static, TupleExpr
from .captured_constants import CapturedConstants
from .function_table import lowers
from .implicit_errors import in_range
from .scope import Pack
from .syntax import unparse
from .views import Axis, add_indices, axis_length, compose, fold_negation, from_either_end

if TYPE_CHECKING:
    from .calls import Calls
    from .expressions import Expressions

__all__ = ["Slices", "indices_of"]


@lowers(slice, arguments=(1, 3))
def _slice(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    """A slice, as a tuple of that class with its start, stop and step."""
    written = [ast.Constant(None), *node.args] if len(node.args) == 1 else node.args
    given = [Static(None) if isinstance(a, ast.Constant) and a.value is None else low.tree(a) for a in written]
    return TupleExpr([*given, Static(None)][:3], slice)


def _written_indices(low: Expressions, index: ast.expr) -> list[ast.expr]:
    """The indices of a subscript, with slices that have names, or are made by calls, as they are written in one."""
    return [_as_written(low, i) for i in (index.elts if isinstance(index, ast.Tuple) else [index])]


def indices_of(low: Expressions, node: ast.Subscript) -> list[ast.expr]:
    """The indices of a subscript; those of a tuple that has a name or is made by a call are lowered."""
    outside = _from_outside(low, node.slice)
    if isinstance(outside, tuple) and any(isinstance(i, slice) for i in outside):
        return [_captured(low, i, node.slice) for i in outside]
    indices = _written_indices(low, node.slice)
    if node.slice not in indices:
        return indices
    pack = low.tuple_of(node.slice)
    makers = (ast.Call, ast.Subscript) if low.shared.of_tuples else ast.Call  # of tuples
    tree = low.tree(node.slice) if pack is None and isinstance(node.slice, makers) else None
    if (pack is not None and pack.of is list) or (isinstance(tree, TupleExpr) and tree.tuple_class is list):
        raise low.source.refuse(node, f"the list {unparse(node.slice)} as an index", "use np.array of it")
    if pack is not None:  # a[index] with a tuple of integers and slices
        return [_slice_of(low, i, node) if isinstance(i, Pack) and i.of is slice else Lowered(low.item(i))
                for i in pack.items]  # fmt: skip
    if tree is None:
        return indices
    return [Lowered(t) for t in (tree.items if isinstance(tree, TupleExpr) else [tree])]


def _as_written(low: Expressions, index: ast.expr) -> ast.expr:
    pack = low.tuple_of(index)
    if pack is not None and pack.of is slice:
        return _slice_of(low, pack, index)
    if isinstance(outside := _from_outside(low, index), slice):
        return _captured(low, outside, index)
    if isinstance(index, ast.Call) and low.function_of(index.func) is slice:
        return _written(low.tree(index).items, index)  # type: ignore[attr-defined]
    return index


def _from_outside(low: Expressions, index: ast.expr) -> object:
    """The value of a name of the module or closure."""
    local = not isinstance(index, ast.Name | ast.Attribute) or low.array(index) is not None
    return None if local else low.resolve(index)


def _captured(low: Expressions, value: object, index: ast.expr) -> ast.expr:
    """An index from outside."""
    tree = low.captured_item(index, unparse(index), value)
    return _written(tree.items, index) if isinstance(tree, TupleExpr) else Lowered(tree)


def _slice_of(low: Expressions, pack: Pack, index: ast.expr) -> ast.Slice:
    return _written([low.item(i) for i in pack.items], index)


def _written(ends: list[ArrayExpr], index: ast.expr) -> ast.Slice:
    return ast.Slice(*[None if _is_none(t) else ast.copy_location(Lowered(t), index) for t in ends])


def _is_none(tree: ArrayExpr) -> bool:
    return isinstance(tree, Static) and tree.value is None


class Slices(CapturedConstants):
    """Lowers slices."""

    def value(self, node: ast.expr) -> Term:
        raise NotImplementedError

    def name_or_constant(self, term: Term) -> Term:
        raise NotImplementedError

    def single_element(self, node: ast.Subscript, axis: Axis, part: ast.Slice) -> Axis | None:
        """A slice like ``0:1`` or ``-1:``, which keeps an axis of length 1; None for others. The array must have that
        element: only then is the length known, so that it broadcasts."""
        written = unparse(part)
        if written == "-1:":
            least, first = 1, plus(axis_length(axis), -1)
        elif isinstance(part.upper, ast.Constant) and isinstance(part.upper.value, int) and part.upper.value > 0:
            least = part.upper.value
            first = integer(least - 1)
            if written != f"{least - 1}:{least}" and written != ":1":
                return None
        else:
            return None
        if (size := axis_length(axis)) is not ONE:
            message = f"{self.lowered_function.name}: an axis without the element that is kept in '{unparse(node)}'"
            self.out.append(Check(Compare(("<",), (size, integer(least))), message))
        return compose(axis, first, plus(first, 1), ONE)

    def sliced(self, node: ast.Subscript, axis: Axis, part: ast.Slice) -> Axis:
        """A slice with NumPy's meaning: negative ends count from the end, and ends are clipped to the array. (A start
        past the end or an end before the start needs no clipping: the loop has no iterations.)"""
        size = axis_length(axis)
        step = ONE if part.step is None else self.with_known_integers(fold_negation(self.value(part.step)))
        number = distance(step, ZERO)
        if number is None:
            step = self.positive_step(node, step)
        elif number == 0:
            raise self.source.refuse(node, "a slice with step 0", "give another one")
        if part.lower is None and part.upper is None and number == 1:
            return axis
        if number is not None and number < 0:
            last = plus(size, -1)
            start = last if part.lower is None else self.slice_end(part.lower, size, -1, last)
            stop = MINUS_ONE if part.upper is None else self.slice_end(part.upper, size, -1, None)
        else:
            start = ZERO if part.lower is None else self.slice_end(part.lower, size, 0, None)
            stop = size if part.upper is None else self.slice_end(part.upper, size, 0, size)
        return compose(axis, start, stop, step)

    def check_slice_of_new_axis(self, node: ast.Subscript, part: ast.Slice, what: str) -> None:
        """A slice of an axis that ``x[None]`` or ``keepdims`` added must have its element: no view is empty there."""
        if (length := axis_length(self.sliced(node, Axis(ZERO, ONE), part))) is ONE:
            return
        message = f"{unparse(node)}, a slice without the element of {what}, which was added"
        if isinstance(length, Constant):
            raise self.source.refuse(node, message, "write np.empty of the shape")
        self.out.append(Check(Compare(("!=",), (length, ONE)), f"{self.lowered_function.name}: {message}"))

    def check_index_of_new_axis(self, node: ast.Subscript, index: ArrayExpr, what: str) -> None:
        """An index of such an axis, which is 0 or -1."""
        if not isinstance(index, Scalar):
            message = f"{unparse(node)}, an array as an index of {what}, which was added"
            raise self.source.refuse(node, message, "index the array without this axis, or write np.repeat")
        self.out.append(in_range(self, node, fold_negation(index.term), ONE, what))  # type: ignore[arg-type]

    def positive_step(self, node: ast.Subscript, step: Term) -> Term:
        """A step that is known at run time, where it must be positive: where a slice begins and ends depends on its
        sign."""
        step = self.name_or_constant(self.signed(step))
        message = (
            f"{self.lowered_function.name}: a step in '{unparse(node)}' that is not positive; write -1 where it is"
        )
        self.out.append(Check(Compare(("<",), (step, ONE)), message))
        return step

    def slice_end(self, node: ast.expr, size: Term, low: int, high: Term | None) -> Term:
        """One end of a slice of `size` elements, clipped to `low` and, where needed, `high`."""
        value = self.signed(fold_negation(self.value(node)))
        if isinstance(value, Unary) and isinstance(value.operand, Constant):
            bound = add_indices(size, value)
            # an end that is too small needs no clipping either
            return bound if high is not None and low == 0 else called(max, bound, integer(low))
        if isinstance(value, Constant) or self.nonnegative(value):
            return value if high is None or value is high else called(min, value, high)
        counted = called(max, from_either_end(value, size), integer(low))
        return called(min, counted, size if high is None else high)
