"""Products of vectors and matrices."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..ir.terms import ONE, ZERO, Binary, Compare
from .array_expressions import ArrayExpr, Leaf, Lowered, Op, Scalar, TupleExpr, combine
from .function_table import lowers
from .library.factors import product_of_three
from .lists_of_arrays import changed_lists
from .operator_functions import are_bools, operation
from .reductions import Reductions
from .syntax import unparse
from .views import View, raw_length

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["Products", "or_of_ands"]


def or_of_ands(low: Calls, node: ast.AST, result: ArrayExpr, *factors: ArrayExpr) -> ArrayExpr:
    """A product of arrays: of bools whether any pair is true, as in NumPy, instead of how many are."""
    if not are_bools(low, node, "@", factors):
        return result
    return combine(lambda count: Compare(("!=",), (count, ZERO)), [result])


class Products(Reductions):
    """Lowers one product."""

    def product(self, called: object, a: ast.expr, b: ast.expr, hint: str) -> ArrayExpr:
        """The product of two vectors or matrices."""
        left, right = self.low.array_like(a), self.low.array_like(b)
        if called is np.outer:
            column, row = self.vector(left, a), self.vector(right, b)
            expanded = Leaf(View(column.name, column.parts, (*column.order, None)))
            return operation(self.low, self.node, partial(Binary, "*"), [expanded, Leaf(row)])
        product = self.sum_of_products(called, left, right, a, b, hint)
        return or_of_ands(self.low, self.node, product, left, right)

    def sum_of_products(
        self, called: object, left: ArrayExpr, right: ArrayExpr, a: ast.expr, b: ast.expr, hint: str
    ) -> ArrayExpr:
        if called is np.vdot and max(left.rank, right.rank) > 1:
            raise self.refuse(f"the product {unparse(self.node)}", "write np.sum(a * b)")
        if not 1 <= min(left.rank, right.rank) <= max(left.rank, right.rank) <= 2:
            for name in changed_lists(self.low.source):  # which may hold them
                self.low.list_of_arrays(name)
            raise self.refuse(f"the product {unparse(self.node)}", "use vectors and matrices")
        if left.rank == right.rank == 1:
            self.require_equal_axes(left, 0, right)
            tree = Op(partial(Binary, "*"), [left, right])
            self.loops.loop_over(tree)
            return Scalar(self.dot(self.loops.element(tree), self.loops.axis_loops))
        left, right = Leaf(self.low.view_of(left, a)), Leaf(self.low.view_of(right, b))
        self.require_equal_axes(left, left.rank - 1, right)
        inner = self.loops.axis_loop(left.view.axis(left.rank - 1))
        rows = [self.loops.axis_loop(left.view.axis(0))] if left.rank == 2 else []
        columns = [self.loops.axis_loop(right.view.axis(1))] if right.rank == 2 else []
        term = Binary("*", self.loops.element(left, [*rows, inner]), self.loops.element(right, [inner, *columns]))
        both = Op(partial(Binary, "*"), [left, right])
        return self.array_of(both, [*rows, *columns], hint, lambda: self.dot(term, [inner]))

    def require_equal_axes(self, left: ArrayExpr, d: int, right: ArrayExpr, e: int = 0) -> None:
        """Require that axis `d` is as long as axis `e` of `right`: a length of 1 does not broadcast in products.

        Other lengths are compared where elements are read.
        """
        lengths = raw_length(self.loops.result_axes(left)[d]), raw_length(self.loops.result_axes(right)[e])
        if ONE in lengths:
            self.loops.require_equal_lengths(*lengths)

    def vector(self, tree: ArrayExpr, node: ast.expr) -> View:
        view = self.low.view_of(tree, node)
        if view.rank != 1:
            raise self.refuse(f"the product {unparse(self.node)}", "pass vectors")
        return view


@lowers(np.matmul, arguments=(2, 2))
def _matmul(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return low.product(node, node.args[0], node.args[1], hint)


@lowers(np.linalg.multi_dot, arguments=(1, 1))
def _product_of_several(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    """Of three matrices in the order that is known at the call to be the cheaper one; from the side of a vector."""
    factors = low.tree(node.args[0])
    trees = list(factors.items) if isinstance(factors, TupleExpr) else []
    ranks = [t.rank for t in trees]
    if len(trees) < 2 or min(ranks) < 1 or max(ranks) > 2 or 1 in ranks[1:-1]:
        what = f"the product {unparse(node)}"
        raise low.source.refuse(node, what, "give a list of two or more matrices, or vectors at its ends")
    if ranks == [2, 2, 2]:
        return low.library(product_of_three, node, *trees)
    backwards = ranks[-1] == 1 and ranks[0] == 2
    while len(trees) > 1:
        k = len(trees) - 2 if backwards else 0
        left, right = (ast.copy_location(Lowered(t), node) for t in trees[k : k + 2])
        trees[k : k + 2] = [low.product(node, left, right, "")]
    return trees[0]


@lowers(np.dot, arguments=(2, 2), methods=True)
@lowers(np.outer, np.vdot, arguments=(2, 2))
def _product(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return Products(low, node).product(called, node.args[0], node.args[1], hint)
