"""Unpacking: targets with a star, and values that are held while names are set one after another."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import numpy as np

from ..ir.statements import Check
from ..ir.terms import Compare, Element, Length, Term, Variable, integer, subterms
from .array_expressions import ArrayExpr, Elementwise, Leaf, Lowered, Op, Scalar, TupleExpr
from .record_types import is_record
from .structured_control import with_location
from .syntax import bound_name, number_node, stored_names, unparse

if TYPE_CHECKING:
    from .tuple_assignments import TupleAssignments

__all__ = ["hold_items", "without_star"]


def without_star(
    low: TupleAssignments, s: ast.stmt, target: ast.Tuple | ast.List, value: ast.expr
) -> tuple[ast.Tuple | ast.List, ast.expr]:
    """``first, *rest = (a, b, c)`` as ``first, rest = a, (b, c)``, where the number of items is known."""
    stars = [k for k, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
    if not stars:
        return target, value
    sizes = low.shape_of(value)
    tree = TupleExpr([Scalar(n) for n in sizes]) if sizes is not None else low.tree(value)
    if tree.rank and not isinstance(tree, TupleExpr):
        return _of_array(low, s, target, tree, value)
    if not isinstance(tree, TupleExpr) or is_record(tree):
        what = f"the targets {unparse(target)} of {unparse(value)}, whose number of items is not known"
        raise low.source.refuse(s, what, "take slices, as x[0] and x[1:]")
    (k,), count = stars, len(target.elts)
    if len(tree.items) < count - 1:
        what = f"unpacking {len(tree.items)} items into {count - 1} names or more"
        raise low.source.refuse(s, what, "assign the values one by one")
    end = len(tree.items) - (count - 1 - k)
    items = [*tree.items[:k], TupleExpr(tree.items[k:end]), *tree.items[end:]]
    starred = target.elts[k]
    assert isinstance(starred, ast.Starred)
    plain = ast.Tuple([*target.elts[:k], starred.value, *target.elts[k + 1 :]], ast.Store())
    nodes: list[ast.expr] = [ast.copy_location(Lowered(t), value) for t in items]
    return ast.copy_location(plain, target), ast.copy_location(ast.Tuple(nodes, ast.Load()), value)


def _of_array(
    low: TupleAssignments, s: ast.stmt, target: ast.Tuple | ast.List, tree: ArrayExpr, value: ast.expr
) -> tuple[ast.Tuple | ast.List, ast.expr]:
    """``first, *rest = x`` of an array or list of numbers: the first elements, and a copy of the others."""
    view = low.view_of(tree, value, "held")
    whole, size = Lowered(Leaf(view)), low.shape(view)[0]
    (k,) = (k for k, t in enumerate(target.elts) if isinstance(t, ast.Starred))
    after = len(target.elts) - 1 - k
    fewest = integer(len(target.elts) - 1)
    text = f"{low.source.name}: not enough elements in '{low.source.lines[s.lineno - 1].strip()}'"
    low.out.append(Check(Compare(("<",), (size, fewest)), text))
    behind = ast.UnaryOp(ast.USub(), ast.Constant(after)) if after else None
    part = ast.Subscript(whole, ast.Slice(ast.Constant(k), behind), ast.Load())
    items: list[ast.expr] = [ast.Subscript(whole, ast.Constant(j), ast.Load()) for j in range(k)]
    items.append(ast.Call(bound_name(np.array, "np.array"), [part], []))
    items += [ast.Subscript(whole, number_node(j - after), ast.Load()) for j in range(after)]
    plain = [t.value if isinstance(t, ast.Starred) else t for t in target.elts]
    display = with_location(ast.Tuple(items, ast.Load()), value)
    return ast.copy_location(ast.Tuple(plain, ast.Store()), target), display


def hold_items(
    low: TupleAssignments, s: ast.stmt, target: ast.Tuple | ast.List, items: list[ArrayExpr], nodes: list[ast.expr]
) -> list[ArrayExpr]:
    """The items that are unpacked, with what setting the targets may change evaluated before."""
    if len(items) == 1 and not isinstance(items[0], Leaf | TupleExpr):
        return items
    names = stored_names([ast.copy_location(ast.Expr(target), s)])
    parts = set().union(*[low.tuples[n].names for n in names if n in low.tuples])
    mine = {low.local(ast.Name(n, ast.Load())) for n in names if n not in low.tuples} | parts
    subscripts = any(isinstance(t, ast.Subscript) for t in target.elts)

    def held(item: ArrayExpr, t: ast.expr, node: ast.expr, several: bool) -> ArrayExpr:
        if isinstance(item, TupleExpr) and not is_record(item):
            nodes, targets = (_items(n, len(item.items)) for n in (node, t))
            inner = zip(item.items, targets, nodes, strict=True)
            return TupleExpr([held(i, each, n, several) for i, each, n in inner], item.tuple_class)
        if isinstance(item, Op) and several:
            item = Leaf(Elementwise(low, s).materialise(item, low.names.fresh("held")), True)
        if isinstance(item, Scalar) and several and _may_change(item.term, subscripts, mine):
            item = Scalar(Variable(low.fresh_scalar("held", item.term)))
        once = t.id if isinstance(t, ast.Name) and names.count(t.id) == 1 else ""
        if isinstance(item, Leaf) and low.arrays.get(once) == item.view and low.owners.get(once) == item.view.name:
            return item  # the name's own array, as a called function returned it
        if isinstance(item, Leaf) and not item.fresh and any(
            low.owners.get(n) == low.storage_of(item.view.name) and n in low.arrays for n in (*names, *parts)
        ):  # fmt: skip
            if not isinstance(t, ast.Name) or not low.read_only(t.id, node):
                raise low.source.refuse(s, "arrays assigned to other names", "write a, b = b, a, or copy elements")
            item = Leaf(low.copy_of(item.view, s, ""), True)
        return item

    return [held(i, t, n, len(items) > 1) for i, t, n in zip(items, target.elts, nodes, strict=True)]


def _items(node: ast.expr, count: int) -> list[ast.expr]:
    """The items of a tuple that is written out, or the expression itself for each of its items."""
    plain = isinstance(node, ast.Tuple | ast.List) and len(node.elts) == count
    return node.elts if plain else [node] * count  # type: ignore[attr-defined]


def _may_change(term: Term, elements: bool, names: set[str]) -> bool:
    """Whether setting some `names`, or `elements` of arrays, may change a scalar."""
    return bool(term.named if elements else term.named & names) or any(
        isinstance(t, Element) or (isinstance(t, Length) and t.axis is not None) for t in subterms(term)
    )
