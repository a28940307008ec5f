"""Comparisons: of scalars, arrays and tuples, and ``x in (a, b)``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import numpy as np

from ..ir.from_syntax import COMPARE
from ..ir.terms import Compare, Constant, Logical, Unary
from .array_expressions import ArrayExpr, Lowered, Scalar, Static, TupleExpr, combine
from .library.lists import contains_item
from .live_range_splitting import NeedsSplitting
from .numbered_strings import error_of_other_use
from .partial_evaluation import static_truth
from .scope import UNCERTAIN
from .static_values import static_value
from .structured_control import with_location
from .syntax import bound_name, unparse

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["lower_comparison", "require_known"]


def lower_comparison(low: Expressions, node: ast.Compare) -> ArrayExpr:
    """Lower a comparison, or a chain of them."""
    holds = static_truth(low, node)
    if holds is not None:
        return Scalar(Constant(holds))
    for name in [x.id for x in (node.left, *node.comparators) if isinstance(x, ast.Name)]:
        require_known(low, node, name, not any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops))
    if len(node.ops) == 1 and isinstance(node.ops[0], ast.In | ast.NotIn):
        return _membership(low, node)
    match node:
        case ast.Compare(ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(bool() as wanted)]):
            return _is_bool(low, node, wanted, isinstance(op, ast.Is))
    if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops):
        if any(isinstance(x, ast.Constant) and x.value is None for x in (node.left, *node.comparators)):
            what = f"{unparse(node)}, which depends on what has run before"
            raise low.source.refuse(node, what, "hold it in a bool beside the value, as started = False")
        raise low.source.refuse(node, "'is' and 'in'", "use ==")
    if (unequal := _number_beside_string(low, node)) is not None:
        return unequal
    parts = [low.tree(node.left), *(low.tree(c) for c in node.comparators)]
    if any(isinstance(p, TupleExpr) for p in parts):
        return _of_tuples(low, node, parts)
    ops = tuple([COMPARE[type(op)] for op in node.ops])
    return combine(lambda *operands: Compare(ops, operands), low.as_operands(node, parts))


def _is_bool(low: Expressions, node: ast.Compare, wanted: bool, inside: bool) -> Scalar:
    """``x is True``: of a bool, whether it holds; other numbers are another object."""
    tree = low.tree(node.left)
    if not isinstance(tree, Scalar) or low.kind_of_tree(tree) == "":
        raise low.source.refuse(node, f"{unparse(node)}", "use ==, or the value itself as a test")
    if low.kind_of_tree(tree) != "bool":
        return Scalar(Constant(not inside))
    return Scalar(tree.term if wanted is inside else Unary("not", tree.term))


def require_known(low: Expressions, node: ast.expr, name: str, refuse: bool = True) -> None:
    """Begin again with numbers for strings if a name stands for one of several; `refuse` it where that cannot be."""
    if low.string_of(name) == Static(UNCERTAIN):
        error = error_of_other_use(low.source, node, low.source, name)
        if error is None:
            raise NeedsSplitting(name, numbered=True)
        low.hold_none_in_flag(name)
        if refuse:
            raise error


def _number_beside_string(low: Expressions, node: ast.Compare) -> Scalar | None:
    """``k == "a"`` of a number: False, and its opposite; None for other comparisons."""
    if len(node.ops) > 1 or not isinstance(node.ops[0], ast.Eq | ast.NotEq):
        return None
    for text, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left)):
        known = static_value(low, text)
        if known is not None and isinstance(known.value, str) and isinstance(low.tree_or_static(other), Scalar):
            return Scalar(Constant(isinstance(node.ops[0], ast.NotEq)))
    return None


def _of_tuples(low: Expressions, node: ast.Compare, parts: list[ArrayExpr]) -> ArrayExpr:
    """Comparison of tuples of scalars, such as shapes, for equality."""
    a, b = (p.items if isinstance(p, TupleExpr) else [] for p in parts[:2])
    op = COMPARE[type(node.ops[0])]
    if len(parts) > 2 or len(a) != len(b) or op not in ("==", "!="):
        raise low.source.refuse(node, f"{unparse(node)}, of tuples", "compare their items")
    if not all(isinstance(t, Scalar) for t in (*a, *b)):
        raise low.source.refuse(node, f"{unparse(node)}, of tuples of other items than numbers", "compare these")
    pairs = [Compare((op,), (x.term, y.term)) for x, y in zip(a, b, strict=True)]  # type: ignore[attr-defined]
    return Scalar(pairs[0] if len(pairs) == 1 else Logical("and" if op == "==" else "or", tuple(pairs)))


def _membership(low: Expressions, node: ast.Compare) -> Scalar:
    """``x in (a, b)`` and ``x not in (a, b)``."""
    tree = low.tree(node.comparators[0])
    if tree.rank == 1 and low.is_list(tree):
        found = low.library(contains_item, node, tree, low.tree(node.left))
    elif tree.rank:
        equal = ast.Compare(node.left, [ast.Eq()], [ast.copy_location(Lowered(tree), node)])
        found = low.tree(with_location(ast.Call(bound_name(np.any, "np.any"), [equal], []), node))
    if tree.rank:
        assert isinstance(found, Scalar)
        return found if isinstance(node.ops[0], ast.In) else Scalar(Unary("not", found.term))
    items = low.tuple_items(tree)
    if items is None or not all(isinstance(t, Scalar) for t in items):
        raise low.source.refuse(node, "'in' of something other than a tuple of numbers", "write a loop")
    inside = isinstance(node.ops[0], ast.In)
    op = "==" if inside else "!="
    tests = [Compare((op,), (low.value(node.left), t.term)) for t in items]  # type: ignore[attr-defined]
    return Scalar(Logical("or" if inside else "and", (Constant(not inside), *tests)))
