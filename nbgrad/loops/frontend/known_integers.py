"""Integers whose values are known while a function is lowered."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING

import numpy as np

from ..ir.terms import Binary, Constant, Term, Unary, Variable
from .array_expressions import ArrayExpr, Lowered, Scalar, TupleExpr

if TYPE_CHECKING:
    from .calls import Calls
    from .scope import Scope

__all__ = ["integer_of", "known_form"]

_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}


def integer_of(low: Scope, term: Term) -> int | None:
    """The value of an integer, if it is known."""
    match low.with_known_integers(term):
        case Constant(bool()):
            return None
        case Constant(int() as value):
            return value
        case Unary("-", operand):
            inner = integer_of(low, operand)
            return None if inner is None else -inner
        case Binary(op, left, right) if op in _OPERATORS:
            a = integer_of(low, left)
            b = None if a is None else a if left is right else integer_of(low, right)
            if a is None or b is None or (op in ("//", "%") and b == 0):
                return None
            return _OPERATORS[op](a, b)
        case Variable(name):
            known = low.lowered_function.constants.get(name)
            return int(known) if isinstance(known, int | np.integer) and not isinstance(known, bool) else None
    return None


def known_form(low: Calls, node: ast.expr) -> object:
    """What is known of an argument before it is lowered: an integer, or the forms of the items of a tuple."""
    if isinstance(node, ast.Tuple | ast.List):
        return tuple([known_form(low, e) for e in node.elts])
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and low.plain_tuple(node.value):
        return _form(low, low.tree(node))
    if isinstance(node, Lowered | ast.Constant) or low.plain_tuple(node) is not None:
        return _form(low, low.tree_or_static(node))
    known = isinstance(node, ast.Name) and low.rename.get(node.id)
    return integer_of(low, Variable(known)) if known else None


def _form(low: Calls, tree: ArrayExpr) -> object:
    """The forms of the items of a tuple; an integer that is known; None for anything else."""
    if isinstance(tree, TupleExpr):
        return tuple([_form(low, t) for t in tree.items])
    return integer_of(low, tree.term) if isinstance(tree, Scalar) else None
