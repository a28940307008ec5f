"""Arrays split into several, and joined in blocks: slices and concatenations, as they would be written."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import numpy as np

from ..ir.names import called as call_of
from ..ir.statements import Check
from ..ir.terms import ZERO, Binary, Compare, Constant, Term
from .array_expressions import ArrayExpr, Leaf, Lowered, Scalar, TupleExpr
from .function_table import lowers
from .known_integers import integer_of
from .structured_control import with_location
from .syntax import bound_name, unparse

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["SPLITS"]

#: Functions that return a tuple of parts, with the default axis.
SPLITS: dict[object, int] = {np.split: 0, np.array_split: 0, np.vsplit: 0, np.hsplit: 1, np.dsplit: 2}


@lowers(np.split, np.array_split, arguments=(2, 3), keywords=True, shares=True)
@lowers(np.vsplit, np.hsplit, np.dsplit, arguments=(2, 2), shares=True)
def _split(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    """Views of parts; how many there are must be known, since they are a tuple."""
    given = [*node.args[2:], *(k.value for k in node.keywords if k.arg == "axis")]
    view = low.view(node.args[0])
    axis = SPLITS[called] if not given else integer_of(low, low.value(given[0]))
    if called is np.hsplit and view.rank == 1:
        axis = 0
    if len(given) != len(node.args) + len(node.keywords) - 2 or axis is None or not -view.rank <= axis < view.rank:
        raise low.source.refuse(node, f"the call {unparse(node)}", "give an array, its parts, and one of its axes")
    length = low.name_or_constant(low.shape(view)[axis % view.rank])
    array = ast.copy_location(Lowered(Leaf(view)), node)

    def part(start: Term | None, stop: Term | None) -> ArrayExpr:
        ends = [None if t is None else Lowered(Scalar(t)) for t in (start, stop)]
        key: list[ast.expr] = [*[ast.Slice()] * (axis % view.rank), ast.Slice(*ends)]
        return low.tree(with_location(ast.Subscript(array, ast.Tuple(key, ast.Load()), ast.Load()), node))

    bounds = _bounds(low, node, called, length)
    return TupleExpr([part(a, b) for a, b in zip([None, *bounds], [*bounds, None], strict=True)])


def _bounds(low: Calls, node: ast.Call, called: object, length: Term) -> list[Term]:
    """Where one part ends and the next begins."""
    tree = low.tree(node.args[1])
    if isinstance(tree, TupleExpr):
        return [low.name_or_constant(low.value(ast.copy_location(Lowered(t), node))) for t in tree.items]
    number = integer_of(low, tree.term) if isinstance(tree, Scalar) else None
    if number is None or number < 1:
        if isinstance(tree, Scalar):
            low.shared.may_decide.update(tree.term.named)
        what = f"{unparse(node)}, into a number of parts that is not known"
        raise low.source.refuse(node, what, "give a positive constant, or a tuple of indices, or take slices in a loop")
    size = low.name_or_constant(Binary("//", length, Constant(number)))
    rest: Term = Binary("-", length, Binary("*", size, Constant(number)))
    if called is not np.array_split:
        message = f"{low.lowered_function.name}: an axis in '{unparse(node)}' that has no {number} parts of one length"
        low.out.append(Check(Compare(("!=",), (rest, ZERO)), message))
        return [low.name_or_constant(Binary("*", size, Constant(k))) for k in range(1, number)]
    rest = low.name_or_constant(rest)  # so many parts have one element more
    return [
        low.name_or_constant(Binary("+", Binary("*", size, Constant(k)), call_of(min, rest, Constant(k))))
        for k in range(1, number)
    ]


def _items(low: Calls, node: ast.Call) -> list[ast.expr]:
    tree = low.tree(node.args[0])
    if not isinstance(tree, TupleExpr):
        raise low.source.refuse(node, f"the call {unparse(node)}", "give a tuple of arrays")
    return [ast.copy_location(Lowered(t), node) for t in tree.items]


def _function(function: object, name: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(bound_name(function, f"np.{name}"), list(arguments), [])


def _concatenated(arrays: list[ast.expr], axis: int) -> ast.expr:
    return _function(np.concatenate, "concatenate", ast.Tuple(arrays, ast.Load()), ast.Constant(axis))


@lowers(np.dstack, arguments=(1, 1))
def _dstack(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    deep = [_function(np.atleast_3d, "atleast_3d", a) for a in _items(low, node)]
    return low.tree(with_location(_concatenated(deep, 2), node))


@lowers(np.block, arguments=(1, 1))
def _block(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    """Of rows of matrices, or of one row."""
    rows = [low.tree(i) for i in _items(low, node)]
    nested = [isinstance(r, TupleExpr) for r in rows]
    if any(nested) != all(nested):
        raise low.source.refuse(node, f"the call {unparse(node)}", "give rows of matrices, or one row")

    def joined(row: list[ArrayExpr]) -> ast.expr:
        return _concatenated([_function(np.atleast_2d, "atleast_2d", Lowered(t)) for t in row], 1)

    if all(nested):
        made = _concatenated([joined(r.items) for r in rows], 0)  # type: ignore[attr-defined]
    elif max(r.rank for r in rows) > 1:
        made = joined(rows)
    else:
        made = _concatenated([_function(np.atleast_1d, "atleast_1d", Lowered(r)) for r in rows], 0)
    return low.tree(with_location(made, node))
