"""Reductions (sums, extrema, norms), scans and products of arrays."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..ir.affine import distance
from ..ir.names import called as call_of
from ..ir.statements import Assign, Block, If, Store
from ..ir.terms import ONE, ZERO, Binary, Compare, Constant, Logical, Term, Unary, Variable
from ..ir.type_inference import kind_of
from .advanced_indexing import common_mask, require_kind
from .array_expressions import ArrayExpr, AxisLoop, Elementwise, Leaf, Op, Scalar
from .function_table import lowers
from .numpy_library import vector_norm
from .syntax import unparse
from .views import Axis, View, axis_length, compose, product

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["Reductions"]

#: Reductions over all axes, or over one.
_OVER_AXES = (np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.argmax, np.argmin, np.any, np.all)


class Reductions:
    """Lowers one call of a reduction or product."""

    def __init__(self, lowering: Calls, node: ast.expr) -> None:
        self.low = lowering
        self.node = node
        self.loops = Elementwise(lowering, node)

    def refuse(self, what: str, instead: str) -> Exception:
        return self.low.source.refuse(self.node, what, instead)

    def reduce(self, called: object, args: list[ast.expr], keywords: list[ast.keyword], hint: str) -> ArrayExpr:
        masked = (
            common_mask(self.low, args[0]) if called in (np.sum, np.mean) and len(args) + len(keywords) == 1 else None
        )
        if masked is not None:
            return self.reduce_masked(called is np.mean, *masked)
        tree = self.low.tree(args[0])
        if tree.rank == 0:
            raise self.refuse(f"{unparse(self.node)} of a number", "pass an array")
        given = {k.arg for k in keywords}
        if called is np.linalg.norm and len(args) + len(given) == 2 and given <= {"ord"}:
            orders = [*args[1:], *(k.value for k in keywords)]
            return self.low.library(vector_norm, self.node, tree, self.low.tree(orders[0]))
        axis = args[1] if len(args) > 1 else None
        for k in keywords:
            if k.arg != "axis" or axis is not None or called is np.trace:
                raise self.refuse(f"{k.arg}= in {unparse(self.node)}", "write a loop")
            axis = k.value
        if called in (np.cumsum, np.cumprod, np.diff):
            if axis is not None or tree.rank != 1:
                raise self.refuse(f"{unparse(self.node)} along an axis", "write a loop")
            return self.difference(args[0]) if called is np.diff else self.cumulative(tree, called is np.cumsum, hint)
        if called is np.trace:
            return self.trace(args[0])
        if axis is not None and not (isinstance(axis, ast.Constant) and axis.value is None):
            return self.reduce_axis(tree, called, axis, hint)
        if called is builtins.sum and tree.rank != 1:
            raise self.refuse("sum of an array with several axes", "write np.sum")
        self.loops.loop_over(tree)
        return Scalar(self.reduce_over(tree, called, self.loops.axis_loops, self.loops.axis_loops))

    def reduce_masked(self, mean: bool, mask: ArrayExpr, node: ast.expr) -> ArrayExpr:
        """The sum or mean of the elements where a mask holds: no list of them is made."""
        tree = self.low.tree(node)
        if isinstance(mask, Leaf):
            require_kind(self.low, self.node, mask.view, "bool")
        self.loops.loop_over(tree)
        self.loops.comparing_mask = True
        holds = self.loops.element(mask)
        self.loops.comparing_mask = False
        element = self.loops.element(tree)
        zero = 0.0 if self.is_float(element) else 0
        total = self.new_accumulator("total", Constant(zero))
        add: Block = [Assign(total.name, Binary("+", total, element))]
        if mean:
            count = self.new_accumulator("count", ZERO)
            add.append(Assign(count.name, Binary("+", count, ONE)))
        self.loops.emit_loops([If(holds, add, [])], "")
        return Scalar(Binary("/", total, count) if mean else total)

    def reduce_axis(self, tree: ArrayExpr, called: object, axis: ast.expr, hint: str) -> ArrayExpr:
        d = distance(self.low.value(axis), ZERO)
        if called not in (*_OVER_AXES, np.amax, np.amin) or d is None or not -tree.rank <= d < tree.rank:
            raise self.refuse("a reduction along this axis", "use np.sum, np.mean, np.max or np.min, or write a loop")
        if tree.rank == 1:
            return self.reduce(called, [self.node.args[0]], [], hint)  # type: ignore[attr-defined]
        self.loops.loop_over(tree)
        self.loops.element(tree)  # emits the checks of lengths before the loops
        axis_loops = self.loops.axis_loops
        d %= tree.rank
        return self.array_of(tree, [t for t in axis_loops if t is not axis_loops[d]], hint,
                          lambda: self.reduce_over(tree, called, [axis_loops[d]], axis_loops))  # fmt: skip

    def array_of(self, tree: ArrayExpr, axis_loops: list[AxisLoop], hint: str, element: Callable[[], Term]) -> Leaf:
        """A new array with one axis per loop, whose elements are computed from those of `tree`."""
        low = self.low
        name = hint or low.names.fresh("table")
        line, low.line = low.line, ""
        low.allocate(name, self.node, [axis_length(t.axis) for t in axis_loops], "", self.loops.dtype(tree), "", line)
        saved, low.out = low.out, []
        value = element()
        low.emit(Store(name, tuple([t.position() for t in axis_loops]), value))
        inner, low.out = low.out, saved
        self.loops.emit_loops(inner, "", axis_loops)
        return Leaf(low.whole_view(name), True)

    # Scalars.

    def reduce_over(self, tree: ArrayExpr, called: object, axis_loops: list[AxisLoop], every: list[AxisLoop]) -> Term:
        """The reduction over `axis_loops` of the elements at the counters of `every`."""
        if called in (np.max, np.min, np.amax, np.amin, np.argmax, np.argmin):
            return self.lower_extremum(tree, called, axis_loops, every)
        if called in (np.any, np.all):
            return self.any_or_all(tree, called is np.any, axis_loops, every)
        if called is np.prod:
            return self.fold("product", 1, "*", self.loops.element(tree, every), axis_loops)
        if called in (np.std, np.var):
            return self.variance_or_std(tree, called, axis_loops, every)
        if called is np.linalg.norm:
            tree = Op(_square, [tree])
        total = self.fold("total", 0, "+", self.loops.element(tree, every), axis_loops)
        if called is np.linalg.norm:
            return call_of(math.sqrt, total)
        return Binary("/", total, self.size(axis_loops)) if called is np.mean else total

    def size(self, axis_loops: list[AxisLoop]) -> Term:
        return product([axis_length(t.axis) for t in axis_loops])

    def is_float(self, element: Term) -> bool:
        return kind_of(element, self.low.lowered_function) == "float"

    def fold(
        self, name: str, start: int, op: str, element: Term, axis_loops: list[AxisLoop], reassociable: bool = False
    ) -> Term:
        """Combine the elements of `axis_loops`, from `start` on; only sums of floats are `reassociable`."""
        floats = self.is_float(element)
        result = self.new_accumulator(name, Constant(float(start) if floats else start))
        self.emit_loop(Assign(result.name, Binary(op, result, element), reassociable and floats), axis_loops)
        return result

    def dot(self, element: Term, axis_loops: list[AxisLoop]) -> Term:
        """A sum of products; it may be reassociated, as in the BLAS that NumPy calls."""
        return self.fold("total", 0, "+", element, axis_loops, True)

    def new_accumulator(self, name: str, value: Term) -> Variable:
        return Variable(self.low.fresh_scalar(name, value, final=False))

    def emit_loop(self, s: Assign | If, axis_loops: list[AxisLoop]) -> None:
        self.loops.emit_loops([s], "", axis_loops)

    def variance_or_std(
        self, tree: ArrayExpr, called: object, axis_loops: list[AxisLoop], every: list[AxisLoop]
    ) -> Term:
        mean = self.new_accumulator("mean", self.reduce_over(tree, np.mean, axis_loops, every))
        second_pass = {t.counter: AxisLoop(self.low.names.fresh("k"), t.axis, t.size) for t in axis_loops}
        axis_loops, every = list(second_pass.values()), [second_pass.get(t.counter, t) for t in every]
        deviation = Binary("-", self.loops.element(tree, every), mean)
        variance = Binary("/", self.fold("total", 0, "+", _square(deviation), axis_loops), self.size(axis_loops))
        return call_of(math.sqrt, variance) if called is np.std else variance

    def any_or_all(self, tree: ArrayExpr, some: bool, axis_loops: list[AxisLoop], every: list[AxisLoop]) -> Term:
        element = self.loops.element(tree, every)
        result = self.new_accumulator("found", Constant(not some))
        test = element if some else Unary("not", element)
        self.emit_loop(If(test, [Assign(result.name, Constant(some))], []), axis_loops)
        return result

    def lower_extremum(
        self, tree: ArrayExpr, called: object, axis_loops: list[AxisLoop], every: list[AxisLoop]
    ) -> Term:
        """The extremum or its index: a search for the index, then a read there, which has the derivative."""
        best_index = {t.counter: self.new_accumulator("place", t.axis.start).name for t in axis_loops}
        at_best = [AxisLoop(best_index[t.counter], t.axis, t.size) if t.counter in best_index else t for t in every]
        best = self.new_accumulator("best", self.loops.element(tree, at_best))
        element = self.loops.element(tree, every)
        test: Term = Compare((">" if called in (np.max, np.amax, np.argmax) else "<",), (element, best))
        if self.is_float(element):
            first_nan = Logical("and", (Compare(("!=",), (element, element)), Compare(("==",), (best, best))))
            test = Logical("or", (test, first_nan))
        update: Block = [Assign(place, Variable(counter)) for counter, place in best_index.items()]
        self.emit_loop(If(test, [Assign(best.name, element), *update], []), axis_loops)
        if called not in (np.argmax, np.argmin):
            return self.loops.element(tree, at_best)
        first, *others = [t for t in at_best if t.counter in best_index.values()]
        index = first.position()
        for t in others:
            index = Binary("+", Binary("*", index, t.size), t.position())
        return index

    def trace(self, node: ast.expr) -> ArrayExpr:
        view = self.low.view(node)
        if view.rank != 2:
            raise self.refuse("a trace", "pass a matrix")
        rows, columns = self.low.shape(view)
        axis_loop = self.loops.axis_loop(Axis(ZERO, rows if rows is columns else call_of(min, rows, columns)))
        element = view.at([axis_loop.index_along(view.axis(0)), axis_loop.index_along(view.axis(1))])
        return Scalar(self.fold("total", 0, "+", element, [axis_loop]))

    def cumulative(self, tree: ArrayExpr, sums: bool, hint: str) -> ArrayExpr:
        self.loops.loop_over(tree)
        element = self.loops.element(tree)
        start = int(not sums)
        total = self.new_accumulator("running", Constant(float(start) if self.is_float(element) else start))

        def step() -> Term:
            self.low.assign_scalar(total.name, Binary("+" if sums else "*", total, element))
            return total

        return self.array_of(tree, self.loops.axis_loops, hint, step)

    def difference(self, node: ast.expr) -> ArrayExpr:
        view = self.low.view(node)
        axis, size = view.axis(0), axis_length(view.axis(0))
        (source,) = (p for p in view.order if p is not None)

        def part(start: Term, stop: Term) -> Leaf:
            parts = list(view.parts)
            parts[source] = compose(axis, start, stop, ONE)
            return Leaf(View(view.name, tuple(parts), view.order))

        return Op(partial(Binary, "-"), [part(ONE, size), part(ZERO, Binary("-", size, ONE))])

    # Products.

    def product(self, called: object, a: ast.expr, b: ast.expr, hint: str) -> ArrayExpr:
        left, right = self.low.tree(a), self.low.tree(b)
        if called is np.outer:
            column, row = self.vector(left, a), self.vector(right, b)
            expanded = Leaf(View(column.name, column.parts, (*column.order, None)))
            return Op(partial(Binary, "*"), [expanded, Leaf(row)])
        if not 1 <= min(left.rank, right.rank) <= max(left.rank, right.rank) <= 2:
            raise self.refuse(f"the product {unparse(self.node)}", "use vectors and matrices")
        if left.rank == right.rank == 1:
            tree = Op(partial(Binary, "*"), [left, right])
            self.loops.loop_over(tree)
            return Scalar(self.dot(self.loops.element(tree), self.loops.axis_loops))
        left, right = Leaf(self.low.view_of(left, a)), Leaf(self.low.view_of(right, b))
        inner = self.loops.axis_loop(left.view.axis(left.rank - 1))
        rows = [self.loops.axis_loop(left.view.axis(0))] if left.rank == 2 else []
        columns = [self.loops.axis_loop(right.view.axis(1))] if right.rank == 2 else []
        term = Binary("*", self.loops.element(left, [*rows, inner]), self.loops.element(right, [inner, *columns]))
        both = Op(lambda *e: e[0], [left, right])
        return self.array_of(both, [*rows, *columns], hint, lambda: self.dot(term, [inner]))

    def vector(self, tree: ArrayExpr, node: ast.expr) -> View:
        view = self.low.view_of(tree, node)
        if view.rank != 1:
            raise self.refuse(f"the product {unparse(self.node)}", "pass vectors")
        return view


def _square(e: Term) -> Term:
    return Binary("**", e, Constant(2))


@lowers(*_OVER_AXES, np.cumsum, np.cumprod, arguments=(1, 2), methods=True, keywords=True)
@lowers(np.trace, arguments=(1, 1), methods=True, keywords=True)
@lowers(np.amax, np.amin, np.linalg.norm, arguments=(1, 2), keywords=True)
@lowers(np.diff, builtins.sum, arguments=(1, 1), keywords=True)
def _reduce(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return Reductions(low, node).reduce(called, node.args, node.keywords, hint)


@lowers(np.matmul, arguments=(2, 2))
def _matmul(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return low.product(node, node.args[0], node.args[1], hint)


@lowers(np.dot, arguments=(2, 2), methods=True)
@lowers(np.outer, np.vdot, arguments=(2, 2))
def _product(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return Reductions(low, node).product(called, node.args[0], node.args[1], hint)
