"""Attributes of arrays and numbers: shape, size, ndim, T, flat, real and imag."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.terms import MINUS_ONE, ONE, ZERO, Constant, Length, integer
from . import number_limits  # noqa: F401
from .array_expressions import ArrayExpr, Leaf, Op, Scalar, TupleExpr
from .reshaping import contiguous, reshaped
from .syntax import unparse
from .views import product

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["array_attribute", "imaginary_part"]

#: Attributes of a number, as of an array without axes.
_OF_NUMBERS: dict[str, ArrayExpr] = {"shape": TupleExpr([]), "ndim": Scalar(ZERO), "size": Scalar(ONE)}


def array_attribute(low: Expressions, node: ast.Attribute) -> ArrayExpr:
    """An attribute of an array; those of a number are those of an array without axes."""
    tree = low.tree(node.value)
    if isinstance(tree, Scalar) and node.attr in _OF_NUMBERS:
        return _OF_NUMBERS[node.attr]
    if node.attr == "imag":
        return imaginary_part(tree)
    if node.attr == "real" and isinstance(tree, Scalar):
        return tree
    view = low.view_of(tree, node.value)
    row = low.shared.of_tuples.get(view.name)
    fields = getattr(row and row.tuple_class, "_fields", ())
    if node.attr in fields and view.rank == 1:  # of a row that is a named tuple
        return Scalar(view.at([integer(fields.index(node.attr))]))
    match node.attr:
        case "real":
            return Leaf(view)
        case "T":
            return Leaf(view.transposed)
        case "shape":
            return TupleExpr([Scalar(n) for n in low.shape(view)])
        case "ndim":
            return Scalar(Constant(view.rank))
        case "size" if low.is_whole(view) and view.name in low.lowered_function.parameters:
            return Scalar(Length(view.name, None))
        case "size":
            return Scalar(product(low.shape(view)))
        case "flat" if contiguous(low, view):
            return Leaf(view if view.rank == 1 else reshaped(low, node, view, [MINUS_ONE]))
    instead = "take ravel() to read" if node.attr == "flat" else "use shape, size, ndim or T, or an argument"
    raise low.source.refuse(node, f"the attribute {unparse(node)}", instead)


def imaginary_part(tree: ArrayExpr) -> ArrayExpr:
    """Zeros: there are real numbers only."""
    return Scalar(Constant(0.0)) if isinstance(tree, Scalar) else Op(lambda _: Constant(0.0), [tree])
