"""Reductions (sums, extrema, norms), scans and products of arrays."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..ir.statements import Assign, Block, If, Store
from ..ir.type_inference import kind_of
from .affine_syntax import distance
from .array_expressions import ArrayExpr, AxisLoop, Elementwise, Leaf, Op, Scalar
from .numpy_library import vector_norm
from .syntax import parse, unparse
from .views import ONE, ZERO, Axis, View, axis_length, compose

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["METHODS", "PRODUCTS", "REDUCTIONS", "Reductions"]

REDUCTIONS = {np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.amax, np.amin, np.argmax, np.argmin, np.any,
              np.all, np.linalg.norm, np.trace, np.cumsum, np.cumprod, np.diff, builtins.sum}  # fmt: skip
PRODUCTS = {np.dot, np.outer, np.vdot}
#: Methods of arrays, with the functions that they are equivalent to.
METHODS = {f.__name__: f for f in (np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.argmax, np.argmin,
                                   np.any, np.all, np.trace, np.cumsum, np.cumprod)}  # fmt: skip

_AXIS_REDUCTIONS = {np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.amax, np.amin, np.argmax, np.argmin,
                    np.any, np.all}  # fmt: skip


class Reductions:
    """Lowers one call of a reduction or product."""

    def __init__(self, lowering: Expressions, node: ast.expr) -> None:
        self.low = lowering
        self.node = node
        self.loops = Elementwise(lowering, node)

    def refuse(self, what: str, instead: str) -> Exception:
        return self.low.source.refuse(self.node, what, instead)

    def reduce(self, called: object, args: list[ast.expr], keywords: list[ast.keyword], hint: str) -> ArrayExpr:
        tree = self.low.tree(args[0])
        if tree.rank == 0:
            raise self.refuse(f"{unparse(self.node)} of a number", "pass an array")
        if called is np.linalg.norm and (orders := [*args[1:], *(k.value for k in keywords if k.arg == "ord")]):
            return self.low.library(vector_norm, self.node, tree, self.low.tree(orders[0]))
        axis = args[1] if len(args) > 1 else None
        for k in keywords:
            if k.arg != "axis":
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

    def reduce_axis(self, tree: ArrayExpr, called: object, axis: ast.expr, hint: str) -> ArrayExpr:
        d = distance(self.low.value(axis), ZERO)
        if called not in _AXIS_REDUCTIONS or d is None or not -tree.rank <= d < tree.rank:
            raise self.refuse("a reduction along this axis", "use np.sum, np.mean, np.max or np.min, or write a loop")
        if tree.rank == 1:
            return self.reduce(called, [self.node.args[0]], [], hint)  # type: ignore[attr-defined]
        self.loops.loop_over(tree)
        self.loops.element(tree)  # emits the checks of lengths before the loops
        turns = self.loops.axis_loops
        d %= tree.rank
        return self.array_of(tree, [t for t in turns if t is not turns[d]], hint,
                          lambda: self.reduce_over(tree, called, [turns[d]], turns))  # fmt: skip

    def array_of(self, tree: ArrayExpr, turns: list[AxisLoop], hint: str, element: Callable[[], ast.expr]) -> Leaf:
        """A new array with one axis per loop, whose elements are computed from those of `tree`."""
        low = self.low
        name = hint or low.names.fresh("table")
        line, low.line = low.line, ""
        low.allocate(name, self.node, [axis_length(t.axis) for t in turns], "", self.loops.dtype(tree), "", line)
        saved, low.out = low.out, []
        value = element()
        indices = [t.position() for t in turns]
        low.emit(Store(name, tuple(map(low.term, indices)), low.term(value)))
        inner, low.out = low.out, saved
        self.loops.emit_loops(inner, "", turns)
        return Leaf(low.whole_view(name), True)

    # Scalars.

    def reduce_over(self, tree: ArrayExpr, called: object, turns: list[AxisLoop], every: list[AxisLoop]) -> ast.expr:
        """The reduction over `turns` of the elements at the counters of `every`."""
        if called in (np.max, np.min, np.amax, np.amin, np.argmax, np.argmin):
            return self.lower_extremum(tree, called, turns, every)
        if called in (np.any, np.all):
            return self.any_or_all(tree, called is np.any, turns, every)
        if called is np.prod:
            return self.fold("product", 1, ast.Mult(), self.loops.element(tree, every), turns)
        if called in (np.std, np.var):
            return self.variance_or_std(tree, called, turns, every)
        if called is np.linalg.norm:
            tree = Op(lambda e: ast.BinOp(e, ast.Pow(), ast.Constant(2)), [tree])
        total = self.fold("total", 0, ast.Add(), self.loops.element(tree, every), turns)
        if called is np.linalg.norm:
            return ast.Call(parse("math.sqrt"), [total], [])
        return ast.BinOp(total, ast.Div(), self.size(turns)) if called is np.mean else total

    def size(self, turns: list[AxisLoop]) -> ast.expr:
        return parse(" * ".join(f"({unparse(axis_length(t.axis))})" for t in turns))

    def fold(
        self, name: str, start: int, op: ast.operator, element: ast.expr, turns: list[AxisLoop], free: bool = False
    ) -> ast.expr:
        integer = kind_of(self.low.term(element), self.low.lowered_function) != "float"
        result = self.new_accumulator(name, ast.Constant(start if integer else float(start)))
        self.emit_loop(self.assign(result, ast.BinOp(result, op, element), free and not integer), turns)
        return result

    def dot(self, element: ast.expr, turns: list[AxisLoop]) -> ast.expr:
        """A sum of products; it may be reassociated, as in the BLAS that NumPy calls."""
        return self.fold("total", 0, ast.Add(), element, turns, free=True)

    def new_accumulator(self, name: str, value: ast.expr) -> ast.Name:
        return ast.Name(self.low.fresh_scalar(name, value, final=False), ast.Load())

    def assign(self, target: ast.Name, value: ast.expr, reassociable: bool = False) -> Assign:
        return Assign(target.id, self.low.term(value), reassociable)

    def emit_loop(self, s: Assign | If, turns: list[AxisLoop]) -> None:
        self.loops.emit_loops([s], "", turns)

    def variance_or_std(
        self, tree: ArrayExpr, called: object, turns: list[AxisLoop], every: list[AxisLoop]
    ) -> ast.expr:
        mean = self.new_accumulator("mean", self.reduce_over(tree, np.mean, turns, every))
        second_pass = {t.counter: AxisLoop(self.low.names.fresh("k"), t.axis, t.size) for t in turns}
        turns, every = list(second_pass.values()), [second_pass.get(t.counter, t) for t in every]
        deviation = ast.BinOp(ast.BinOp(self.loops.element(tree, every), ast.Sub(), mean), ast.Pow(), ast.Constant(2))
        total = self.fold("total", 0, ast.Add(), deviation, turns)
        variance = ast.BinOp(total, ast.Div(), self.size(turns))
        return ast.Call(parse("math.sqrt"), [variance], []) if called is np.std else variance

    def any_or_all(self, tree: ArrayExpr, some: bool, turns: list[AxisLoop], every: list[AxisLoop]) -> ast.expr:
        element = self.loops.element(tree, every)
        result = self.new_accumulator("found", ast.Constant(not some))
        test = element if some else ast.UnaryOp(ast.Not(), element)
        self.emit_loop(If(self.low.term(test), [self.assign(result, ast.Constant(some))], []), turns)
        return result

    def lower_extremum(self, tree: ArrayExpr, called: object, turns: list[AxisLoop], every: list[AxisLoop]) -> ast.expr:
        """The extremum or its index: a search for the index, then a read there, which has the derivative."""
        best_index = {t.counter: self.new_accumulator("place", t.axis.start) for t in turns}
        at_best = [AxisLoop(best_index[t.counter].id, t.axis, t.size) if t.counter in best_index else t for t in every]
        best = self.new_accumulator("best", self.loops.element(tree, at_best))
        element = self.loops.element(tree, every)
        op = ast.Gt() if called in (np.max, np.amax, np.argmax) else ast.Lt()
        test: ast.expr = ast.Compare(element, [op], [best])
        if kind_of(self.low.term(element), self.low.lowered_function) == "float":
            nan = ast.Compare(element, [ast.NotEq()], [element])
            test = ast.BoolOp(ast.Or(), [test, ast.BoolOp(ast.And(), [nan, ast.Compare(best, [ast.Eq()], [best])])])
        update: Block = [self.assign(best_index[t.counter], ast.Name(t.counter, ast.Load())) for t in turns]
        self.emit_loop(If(self.low.term(test), [self.assign(best, element), *update], []), turns)
        if called not in (np.argmax, np.argmin):
            return self.loops.element(tree, at_best)
        index: ast.expr | None = None
        for t in (n for n in at_best if n.counter in {p.id for p in best_index.values()}):
            position = t.position()
            index = (
                position
                if index is None
                else ast.BinOp(ast.BinOp(index, ast.Mult(), parse(t.size)), ast.Add(), position)
            )
        assert index is not None
        return index

    def trace(self, node: ast.expr) -> ArrayExpr:
        view = self.low.view(node)
        if view.rank != 2:
            raise self.refuse("a trace", "pass a matrix")
        sizes = dict.fromkeys(unparse(n) for n in self.low.shape(view))
        turn = self.loops.axis_loop(
            Axis(ZERO, parse(f"min({', '.join(sizes)})" if len(sizes) > 1 else next(iter(sizes))))
        )
        element = view.at([turn.index_along(view.axis(0)), turn.index_along(view.axis(1))])
        return Scalar(self.fold("total", 0, ast.Add(), element, [turn]))

    def cumulative(self, tree: ArrayExpr, sums: bool, hint: str) -> ArrayExpr:
        self.loops.loop_over(tree)
        element = self.loops.element(tree)
        total = self.new_accumulator(
            "running",
            ast.Constant(
                float(not sums)
                if kind_of(self.low.term(element), self.low.lowered_function) == "float"
                else int(not sums)
            ),
        )

        def step() -> ast.expr:
            self.low.assign_scalar(total.id, ast.BinOp(total, ast.Add() if sums else ast.Mult(), element))
            return total

        return self.array_of(tree, self.loops.axis_loops, hint, step)

    def difference(self, node: ast.expr) -> ArrayExpr:
        view = self.low.view(node)
        axis, size = view.axis(0), axis_length(view.axis(0))
        (source,) = (p for p in view.order if p is not None)

        def part(start: ast.expr, stop: ast.expr) -> Leaf:
            parts = list(view.parts)
            parts[source] = compose(axis, start, stop, ONE)
            return Leaf(View(view.name, tuple(parts), view.order))

        later = part(ONE, size)
        return Op(lambda a, b: ast.BinOp(a, ast.Sub(), b), [later, part(ZERO, parse(f"({unparse(size)}) - 1"))])

    # Products.

    def product(self, called: object, a: ast.expr, b: ast.expr, hint: str) -> ArrayExpr:
        left, right = self.low.tree(a), self.low.tree(b)
        if called is np.outer:
            column, row = self.vector(left, a), self.vector(right, b)
            expanded = Leaf(View(column.name, column.parts, (*column.order, None)))
            return Op(lambda x, y: ast.BinOp(x, ast.Mult(), y), [expanded, Leaf(row)])
        if not 1 <= min(left.rank, right.rank) <= max(left.rank, right.rank) <= 2:
            raise self.refuse(f"the product {unparse(self.node)}", "use vectors and matrices")
        if left.rank == right.rank == 1:
            tree = Op(lambda x, y: ast.BinOp(x, ast.Mult(), y), [left, right])
            self.loops.loop_over(tree)
            return Scalar(self.dot(self.loops.element(tree), self.loops.axis_loops))
        left, right = Leaf(self.low.view_of(left, a)), Leaf(self.low.view_of(right, b))
        inner = self.loops.axis_loop(left.view.axis(left.rank - 1))
        rows = [self.loops.axis_loop(left.view.axis(0))] if left.rank == 2 else []
        columns = [self.loops.axis_loop(right.view.axis(1))] if right.rank == 2 else []

        x, y = self.loops.element(left, [*rows, inner]), self.loops.element(right, [inner, *columns])

        def element() -> ast.expr:
            return self.dot(ast.BinOp(x, ast.Mult(), y), [inner])

        return self.array_of(Op(lambda *e: e[0], [left, right]), [*rows, *columns], hint, element)

    def vector(self, tree: ArrayExpr, node: ast.expr) -> View:
        view = self.low.view_of(tree, node)
        if view.rank != 1:
            raise self.refuse(f"the product {unparse(self.node)}", "pass vectors")
        return view
