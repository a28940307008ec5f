"""Sums, products of matrices, and the like."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..ir.affine import distance
from ..ir.statements import Assign, Block, If, Store, parse, unparse
from ..ir.type_inference import kind_of
from .array_expressions import Elementwise, Leaf, Op, Scalar, Tree, Turn
from .numpy_library import vector_norm
from .views import ONE, ZERO, Axis, View, compose, size_of

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["METHODS", "PRODUCTS", "REDUCTIONS", "Reductions"]

REDUCTIONS = {np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.amax, np.amin, np.argmax, np.argmin, np.any,
              np.all, np.linalg.norm, np.trace, np.cumsum, np.cumprod, np.diff, builtins.sum}  # fmt: skip
PRODUCTS = {np.dot, np.outer, np.vdot}
#: Methods of arrays, with the functions they stand for.
METHODS = {f.__name__: f for f in (np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.argmax, np.argmin,
                                   np.any, np.all, np.trace, np.cumsum, np.cumprod)}  # fmt: skip

_ALONG = {np.sum, np.prod, np.mean, np.std, np.var, np.max, np.min, np.amax, np.amin, np.argmax, np.argmin, np.any,
          np.all}  # fmt: skip


class Reductions:
    """Lowers one call."""

    def __init__(self, lowering: Expressions, node: ast.expr) -> None:
        self.low = lowering
        self.node = node
        self.loops = Elementwise(lowering, node)

    def refuse(self, what: str, instead: str) -> Exception:
        return self.low.source.refuse(self.node, what, instead)

    def reduce(self, called: object, given: list[ast.expr], keywords: list[ast.keyword], hint: str) -> Tree:
        tree = self.low.tree(given[0])
        if tree.rank == 0:
            raise self.refuse(f"{unparse(self.node)} of a number", "pass an array")
        if called is np.linalg.norm and (orders := [*given[1:], *(k.value for k in keywords if k.arg == "ord")]):
            return self.low.library(vector_norm, self.node, tree, self.low.tree(orders[0]))
        axis = given[1] if len(given) > 1 else None
        for k in keywords:
            if k.arg != "axis":
                raise self.refuse(f"{k.arg}= in {unparse(self.node)}", "write a loop")
            axis = k.value
        if called in (np.cumsum, np.cumprod, np.diff):
            if axis is not None or tree.rank != 1:
                raise self.refuse(f"{unparse(self.node)} along an axis", "write a loop")
            return self.difference(given[0]) if called is np.diff else self.running(tree, called is np.cumsum, hint)
        if called is np.trace:
            return self.trace(given[0])
        if axis is not None and not (isinstance(axis, ast.Constant) and axis.value is None):
            return self.along(tree, called, axis, hint)
        if called is builtins.sum and tree.rank != 1:
            raise self.refuse("sum of an array with several axes", "write np.sum")
        self.loops.over(tree)
        return Scalar(self.number(tree, called, self.loops.turns, self.loops.turns))

    def along(self, tree: Tree, called: object, axis: ast.expr, hint: str) -> Tree:
        d = distance(self.low.value(axis), ZERO)
        if called not in _ALONG or d is None or not -tree.rank <= d < tree.rank:
            raise self.refuse("a reduction along this axis", "use np.sum, np.mean, np.max or np.min, or write a loop")
        if tree.rank == 1:
            return self.reduce(called, [self.node.args[0]], [], hint)  # type: ignore[attr-defined]
        self.loops.over(tree)
        self.loops.element(tree)  # lengths are compared before the loops
        turns = self.loops.turns
        d %= tree.rank
        return self.table(tree, [t for t in turns if t is not turns[d]], hint,
                          lambda: self.number(tree, called, [turns[d]], turns))  # fmt: skip

    def table(self, tree: Tree, turns: list[Turn], hint: str, element: Callable[[], ast.expr]) -> Leaf:
        """A new array with one axis per turn, of elements that are made of those of `tree`."""
        low = self.low
        name = hint or low.names.fresh("table")
        line, low.line = low.line, ""
        low.allocate(name, self.node, [size_of(t.axis) for t in turns], "", self.loops.dtype(tree), "", line)
        saved, low.out = low.out, []
        value = element()
        places = [t.position() for t in turns]
        low.emit(Store(name, ast.Tuple(places, ast.Load()) if len(places) > 1 else places[0], value))
        inner, low.out = low.out, saved
        self.loops.loops(inner, "", turns)
        return Leaf(low.all_of(name), True)

    # Numbers.

    def number(self, tree: Tree, called: object, turns: list[Turn], every: list[Turn]) -> ast.expr:
        """The sum or the like over `turns`, of the elements at the counters of `every`."""
        if called in (np.max, np.min, np.amax, np.amin, np.argmax, np.argmin):
            return self.extreme(tree, called, turns, every)
        if called in (np.any, np.all):
            return self.truth(tree, called is np.any, turns, every)
        if called is np.prod:
            return self.fold("product", 1, ast.Mult(), self.loops.element(tree, every), turns)
        if called in (np.std, np.var):
            return self.spread(tree, called, turns, every)
        if called is np.linalg.norm:
            tree = Op(lambda e: ast.BinOp(e, ast.Pow(), ast.Constant(2)), [tree])
        total = self.fold("total", 0, ast.Add(), self.loops.element(tree, every), turns)
        if called is np.linalg.norm:
            return ast.Call(parse("math.sqrt"), [total], [])
        return ast.BinOp(total, ast.Div(), self.size(turns)) if called is np.mean else total

    def size(self, turns: list[Turn]) -> ast.expr:
        return parse(" * ".join(f"({unparse(size_of(t.axis))})" for t in turns))

    def fold(
        self, name: str, start: int, op: ast.operator, element: ast.expr, turns: list[Turn], free: bool = False
    ) -> ast.expr:
        integer = kind_of(element, self.low.made) != "float"
        result = self.start(name, ast.Constant(start if integer else float(start)))
        self.run(Assign(result.id, ast.BinOp(result, op, element), free and not integer), turns)
        return result

    def dot(self, element: ast.expr, turns: list[Turn]) -> ast.expr:
        """The sum of products; BLAS, which NumPy leaves it to, has an order of its own, too."""
        return self.fold("total", 0, ast.Add(), element, turns, free=True)

    def start(self, name: str, value: ast.expr) -> ast.Name:
        return ast.Name(self.low.number(name, value, final=False), ast.Load())

    def run(self, s: Assign | If, turns: list[Turn]) -> None:
        self.loops.loops([s], "", turns)

    def spread(self, tree: Tree, called: object, turns: list[Turn], every: list[Turn]) -> ast.expr:
        mean = self.start("mean", self.number(tree, np.mean, turns, every))
        fresh = {t.counter: Turn(self.low.names.fresh("k"), t.axis, t.size) for t in turns}
        turns, every = list(fresh.values()), [fresh.get(t.counter, t) for t in every]
        away = ast.BinOp(ast.BinOp(self.loops.element(tree, every), ast.Sub(), mean), ast.Pow(), ast.Constant(2))
        total = self.fold("total", 0, ast.Add(), away, turns)
        variance = ast.BinOp(total, ast.Div(), self.size(turns))
        return ast.Call(parse("math.sqrt"), [variance], []) if called is np.std else variance

    def truth(self, tree: Tree, some: bool, turns: list[Turn], every: list[Turn]) -> ast.expr:
        element = self.loops.element(tree, every)
        found = self.start("found", ast.Constant(not some))
        test = element if some else ast.UnaryOp(ast.Not(), element)
        self.run(If(test, [Assign(found.id, ast.Constant(some))], []), turns)
        return found

    def extreme(self, tree: Tree, called: object, turns: list[Turn], every: list[Turn]) -> ast.expr:
        """The place of the largest or smallest element is found first; the element there is what has a derivative."""
        places = {t.counter: self.start("place", t.axis.start) for t in turns}
        there = [Turn(places[t.counter].id, t.axis, t.size) if t.counter in places else t for t in every]
        best = self.start("best", self.loops.element(tree, there))
        element = self.loops.element(tree, every)
        op = ast.Gt() if called in (np.max, np.amax, np.argmax) else ast.Lt()
        test: ast.expr = ast.Compare(element, [op], [best])
        if kind_of(element, self.low.made) == "float":
            nan = ast.Compare(element, [ast.NotEq()], [element])
            test = ast.BoolOp(ast.Or(), [test, ast.BoolOp(ast.And(), [nan, ast.Compare(best, [ast.Eq()], [best])])])
        moved: Block = [Assign(places[t.counter].id, ast.Name(t.counter, ast.Load())) for t in turns]
        self.run(If(test, [Assign(best.id, element), *moved], []), turns)
        if called not in (np.argmax, np.argmin):
            return self.loops.element(tree, there)
        index: ast.expr | None = None
        for t in (n for n in there if n.counter in {p.id for p in places.values()}):
            position = t.position()
            index = (
                position
                if index is None
                else ast.BinOp(ast.BinOp(index, ast.Mult(), parse(t.size)), ast.Add(), position)
            )
        assert index is not None
        return index

    def trace(self, given: ast.expr) -> Tree:
        view = self.low.view(given)
        if view.rank != 2:
            raise self.refuse("a trace", "pass a matrix")
        sizes = dict.fromkeys(unparse(n) for n in self.low.shape(view))
        turn = self.loops.turn(Axis(ZERO, parse(f"min({', '.join(sizes)})" if len(sizes) > 1 else next(iter(sizes)))))
        element = view.at([turn.along(view.axis(0)), turn.along(view.axis(1))])
        return Scalar(self.fold("total", 0, ast.Add(), element, [turn]))

    def running(self, tree: Tree, sums: bool, hint: str) -> Tree:
        self.loops.over(tree)
        element = self.loops.element(tree)
        total = self.start(
            "running", ast.Constant(float(not sums) if kind_of(element, self.low.made) == "float" else int(not sums))
        )

        def step() -> ast.expr:
            self.low.emit(Assign(total.id, ast.BinOp(total, ast.Add() if sums else ast.Mult(), element)))
            return total

        return self.table(tree, self.loops.turns, hint, step)

    def difference(self, given: ast.expr) -> Tree:
        view = self.low.view(given)
        axis, size = view.axis(0), size_of(view.axis(0))
        (place,) = (p for p in view.order if p is not None)

        def part(start: ast.expr, stop: ast.expr) -> Leaf:
            parts = list(view.parts)
            parts[place] = compose(axis, start, stop, ONE)
            return Leaf(View(view.name, tuple(parts), view.order))

        later = part(ONE, size)
        return Op(lambda a, b: ast.BinOp(a, ast.Sub(), b), [later, part(ZERO, parse(f"({unparse(size)}) - 1"))])

    # Products.

    def product(self, called: object, a: ast.expr, b: ast.expr, hint: str) -> Tree:
        left, right = self.low.tree(a), self.low.tree(b)
        if called is np.outer:
            column, row = self.vector(left, a), self.vector(right, b)
            stood = Leaf(View(column.name, column.parts, (*column.order, None)))
            return Op(lambda x, y: ast.BinOp(x, ast.Mult(), y), [stood, Leaf(row)])
        if not 1 <= min(left.rank, right.rank) <= max(left.rank, right.rank) <= 2:
            raise self.refuse(f"the product {unparse(self.node)}", "use vectors and matrices")
        if left.rank == right.rank == 1:
            tree = Op(lambda x, y: ast.BinOp(x, ast.Mult(), y), [left, right])
            self.loops.over(tree)
            return Scalar(self.dot(self.loops.element(tree), self.loops.turns))
        left, right = Leaf(self.low.view_of(left, a)), Leaf(self.low.view_of(right, b))
        inner = self.loops.turn(left.view.axis(left.rank - 1))
        rows = [self.loops.turn(left.view.axis(0))] if left.rank == 2 else []
        columns = [self.loops.turn(right.view.axis(1))] if right.rank == 2 else []

        x, y = self.loops.element(left, [*rows, inner]), self.loops.element(right, [inner, *columns])

        def element() -> ast.expr:
            return self.dot(ast.BinOp(x, ast.Mult(), y), [inner])

        return self.table(Op(lambda *e: e[0], [left, right]), [*rows, *columns], hint, element)

    def vector(self, tree: Tree, node: ast.expr) -> View:
        view = self.low.view_of(tree, node)
        if view.rank != 1:
            raise self.refuse(f"the product {unparse(self.node)}", "pass vectors")
        return view
