"""Lists of arrays that have one shape: the items are the rows of an array with an axis more.

Such a list may grow in any loop, as nothing has to be unrolled. Lowering asks for it where lists cannot be tuples
(:mod:`.lists_of_arrays`), and for comprehensions whose elements are arrays. The first item that is put in says what
shape they have.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..ir.statements import Block, Check, Grow, If, Store, walk
from ..ir.terms import ONE, ZERO, Binary, Compare, Length, Term, integer
from .array_expressions import (
    ArrayExpr,
    Elementwise,
    FromFunction,
    Leaf,
    Lowered,
    NoItems,
    Op,
    RowType,
    Scalar,
    Static,
    TupleExpr,
    copy_of_values,
)
from .element_kinds import element_kind
from .filled_numbers import filled_key, shape_of
from .function_table import MANY, lowers
from .views import Axis, View, axis_length

if TYPE_CHECKING:
    from .calls import Calls
    from .copy_insertion import CopyInsertion
    from .expressions import Expressions
    from .iteration import Iteration

__all__ = [
    "CAPACITY",
    "RowList",
    "exchanged_item",
    "held_item",
    "hold_item",
    "items_of_rows",
    "make_room",
    "moved_item",
    "new_rows",
    "no_items",
    "put_row",
    "row_list",
    "rows_of",
    "set_item",
    "store_item",
    "taken_item",
    "type_of_row",
]

#: Of the arrays of lists, at first.
CAPACITY = integer(8)


@dataclass(eq=False)
class RowList:
    """A list whose items are the rows of `array`, once there is one; `counts` are its lengths along the axes that the
    items do not have, none for a list that grows. They are known in `block`, which may have no iteration that makes an
    item."""

    name: str
    counts: tuple[Term, ...] = ()
    block: Block = field(default_factory=list)
    array: str = ""


def new_rows(name: str) -> None:
    """A list that grows, by the name that it is bound to."""


@lowers(new_rows, arguments=(1, 1))
def _new_rows(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    if low.shared.parallel:
        raise low.source.refuse(node, "a list that grows in a parallel loop", "fill an array made before the loop")
    rows = RowList(node.args[0].value)  # type: ignore[attr-defined]
    found = low.shared.findings.rewrites.filled.get(filled_key(low, rows.name))
    if found is not None:
        _allocate(low, node, rows, found[0])
    return Static(rows)


def rows_of(low: Calls, node: ast.expr) -> RowList | None:
    """The list of rows that a name is bound to; None for anything else."""
    static = low.string_of(node.id) if isinstance(node, ast.Name) else getattr(node, "lowered_tree", None)
    return static.value if isinstance(static, Static) and isinstance(static.value, RowList) else None


def items_of_rows(low: Calls, node: ast.AST, rows: RowList, count: Term) -> ArrayExpr:
    """The items of a list that grows: as many as there are.

    Where nothing was put in yet, lowering goes on to what will be, and begins again with that.
    """
    if rows.array:
        return Leaf(_view(low, rows, count))
    what = f"the list of arrays {rows.name}, which is read before something is appended to it"
    instead = "begin with its first item, or fill an array with one axis more"
    low.shared.read_before.setdefault(rows.name, low.source.refuse(node, what, instead))
    return NoItems([])


def _view(low: Calls, rows: RowList, count: Term) -> View:
    whole = low.whole_view(rows.array)
    return View(rows.array, (Axis(ZERO, count), *whole.parts[1:]), whole.order)


def put_row(low: Calls, node: ast.AST, rows: RowList, indices: list[Term], item: ArrayExpr) -> None:
    """Store an item at these indices, as the elements that it has now.

    In Python the item is the array itself. So whatever may be that array under another name stays as it is from now
    on, and so do the items, as of every read-only copy; nothing has the row itself yet.
    """
    made_of = type_of_row(low, node, item)
    if made_of:
        item = Leaf(low.tuple_as_array(node, item), True)  # type: ignore[arg-type]
    different = isinstance(item, TupleExpr | Static) or not item.rank
    if different or (rows.array and made_of != low.shared.of_tuples.get(rows.array)):
        raise low.source.refuse(node, f"different things in the list {rows.name}", "put arrays of one shape into it")
    if not rows.array:
        if rows.name in low.shared.read_before:
            raise shape_of(low, node, rows.name, item) or low.shared.read_before[rows.name]
        _allocate(low, node, rows, item)
        low.shared.note_rows(rows.array, made_of)
    if not rows.counts:
        (count,) = indices
        make_room(low, rows.array, count)
    whole = low.whole_view(rows.array)
    row = View(rows.array, (*indices, *whole.parts[len(indices) :]), tuple(range(len(indices), whole.rank)))
    _store(low, node, row, item, rows.name)


def type_of_row(low: Iteration | Calls, node: ast.AST, item: ArrayExpr) -> RowType | None:
    """The type of a list, tuple or named tuple of numbers, which is a row of an array here; None for other items."""
    if not isinstance(item, TupleExpr) or not item.items or not all(isinstance(v, Scalar) for v in item.items):
        return None
    if clash := sorted(set(item.fields) & set(dir(np.ndarray))):
        what = f"the field {clash[0]} of a named tuple in a list, which arrays have as well"
        raise low.source.refuse(node, what, "give it another name")
    named = item.tuple_class in (tuple, list) or bool(item.fields)
    return RowType(item.tuple_class, len(item.items)) if named else None


def make_room(low: Calls, array: str, count: Term) -> None:
    """Grow an array where `count` items fill it."""
    grown = Grow(array, Binary("+", count, ONE))
    low.out.append(If(Compare((">=",), (count, Length(array, 0))), [grown], []))


def set_item(low: Calls, node: ast.AST, row: View, item: ArrayExpr) -> None:
    """``y[k] = v`` of a list whose items are arrays or lists: another item in that place, not other elements."""
    low.release_items(node, row.name)
    if isinstance(item, TupleExpr):  # of numbers
        item = Leaf(low.tuple_as_array(node, item), True)
    _store(low, node, row, item, low.named_by_user(row.name))


def _store(low: Calls, node: ast.AST, row: View, item: ArrayExpr, name: str) -> None:
    """Store an item of the list `name`; it stands for whatever else may be the same array."""
    originals = low.stands_for(item)
    if isinstance(item, Leaf) and not item.fresh:
        originals |= {low.storage_of(item.view.name)}
    _check_shape(low, node, row, item, name)
    before = len(low.out)
    Elementwise(low, node).store(row, item)
    error = low.source.refuse(node, f"items of the list {name} of several kinds", "make them all of floats")
    stores = [t for t in walk(low.out[before:]) if isinstance(t, Store) and t.array == row.name]
    low.lowered_function.refilled_arrays += [(row.name, t.value, error) for t in stores]
    low.lowered_function.rebinding_stores += [(t, error) for t in stores]
    low.note_standing(row.name, originals | low.shared.read_only_copies.get(row.name, frozenset()))


def _allocate(low: Calls, node: ast.AST, rows: RowList, item: ArrayExpr) -> None:
    """Make the array, with the shape and kind of an item."""
    elementwise = Elementwise(low, node)
    sizes = elementwise.lengths(item)
    if not all(low.known_before_block(low.with_known_integers(n)) for n in sizes):
        what = f"items of the list {rows.name}, whose shapes are not known before the loop"
        raise low.source.refuse(node, what, "make them of arrays that are made before it, or fill an array")
    rows.array = low.names.fresh(rows.name)
    low.lowered_function.copied_from[rows.array] = rows.name
    low.shared.holders.add(rows.array)
    kind, dtype = (item.kind, item.dtype) if isinstance(item, FromFunction | Op) else ("", None)
    if not kind:
        low.shared.element_kinds[rows.array] = element_kind(low, item)
    counts = [*rows.counts] or [CAPACITY]
    saved = low.out
    if not all(map(low.known_before_block, rows.counts)):
        low.out = rows.block
    low.allocate(rows.array, node, [*counts, *sizes], kind, dtype or elementwise.dtype(item))
    low.out = saved
    if rows.counts:
        low.shared.lists[rows.array] = len(counts)
    else:
        low.shared.growing.add(rows.array)
        low.lowered_function.lists.add(rows.array)
        low.shared.sizes[rows.array][0] = Length(rows.array, 0)
        low.shared.constant_lengths.pop(Length(rows.array, 0), None)


def item_or_slice(low: Expressions, node: ast.AST, view: View) -> ArrayExpr:
    """What a subscript of a list is: an item that is a tuple or a list, or a slice, which is a copy."""
    rank = low.lowered_function.ranks[view.name]
    if view.rank == 1 and view.name in low.shared.of_tuples:
        made_of, count = low.shared.of_tuples[view.name]
        return TupleExpr([Scalar(view.at([integer(k)])) for k in range(count)], made_of)
    return copied_list(low, node, view, view.rank - rank + low.shared.lists[view.name])


def copied_list(low: Expressions, node: ast.AST, view: View, axes: int) -> Leaf:
    """A new list of the same items; those that are arrays or lists stand for those of the first one."""
    copy = Elementwise(low, node).materialise(copy_of_values(Leaf(view)), low.names.fresh("items"))
    low.shared.lists[copy.name] = axes
    low.shared.note_rows(copy.name, low.shared.of_tuples.get(view.name))
    if copy.rank > 1:
        low.shared.holders.add(copy.name)
        originals = low.shared.read_only_copies.get(view.name, frozenset())
        low.shared.read_only_copies[copy.name] = originals | {view.name}
    return Leaf(copy, True)


def _check_shape(low: Calls, node: ast.AST, row: View, item: ArrayExpr, name: str) -> None:
    """An item has the shape of the others."""
    if item.rank != row.rank:
        what = f"items of the list {name} with another number of axes"
        raise low.source.refuse(node, what, "put arrays of one shape into it")
    wanted = [axis_length(row.axis(d)) for d in range(row.rank)]
    for here, there in zip(Elementwise(low, node).lengths(item), wanted, strict=True):
        if here != there:
            message = f"{low.lowered_function.name}: items of the list {name} have different shapes"
            low.emit(Check(Compare(("!=",), (here, there)), message, "ValueError"))


def taken_item(rows: RowList, count: int) -> None:
    """The last item, which leaves the list."""


@lowers(taken_item, arguments=(2, 2), writes=True, shares=True)
def _taken_item(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    rows, count = rows_of(low, node.args[0]), low.name_or_constant(low.value(node.args[1]))
    assert rows is not None
    tree = items_of_rows(low, node, rows, count)
    if isinstance(tree, NoItems):
        return Scalar(ZERO)
    items = ast.copy_location(Lowered(tree), node)
    row = low.subscript_view(ast.copy_location(ast.Subscript(items, ast.Constant(-1), ast.Load()), node))
    taken = low.copy_of(row, node, hint)
    low.note_standing(taken.name, low.shared.read_only_copies.get(rows.array, frozenset()) | {rows.array})
    low.release_items(node, rows.array)
    return Leaf(taken, True)


def held_item(value: object) -> None:
    """A value that an item of a list is to be, before its place gets another one."""


def exchanged_item(value: object) -> None:
    """An item that only changes its place with others."""


@lowers(held_item, exchanged_item, arguments=(1, 1), shares=True)
def _held_item(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return hold_item(low, node, low.tree_or_static(node.args[0]), called is exchanged_item, hint)


def hold_item(low: Calls | CopyInsertion, node: ast.AST, tree: ArrayExpr, exchanged: bool, hint: str = "") -> ArrayExpr:
    """A copy of an item of a list, to be put into another place; anything else as it is."""
    array = tree.view.name if isinstance(tree, Leaf) and not tree.fresh else ""
    if array not in low.shared.holders:
        return tree
    held = low.copy_of(tree.view, node, hint)  # type: ignore[attr-defined]
    originals = low.shared.read_only_copies.get(array, frozenset())
    low.note_standing(held.name, originals if exchanged else originals | {array})
    low.shared.held.add(held.name)
    return Leaf(held, True)


def moved_item(value: object) -> None:
    """What was held, by a name that is not read again."""


@lowers(moved_item, arguments=(1, 1), shares=True)
def _moved_item(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    tree = low.tree_or_static(node.args[0])
    held = isinstance(tree, Leaf) and tree.view.name in low.shared.held
    return Leaf(tree.view, True) if held else tree  # type: ignore[attr-defined]


def no_items(rows: RowList) -> None:
    """The list begins anew."""


@lowers(no_items, arguments=(1, 1), writes=True)
def _no_items(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    rows = rows_of(low, node.args[0])
    if rows is not None and rows.array:
        low.release_items(node, rows.array)
    return Scalar(ZERO)


def store_item(rows: RowList, *indices_and_item: object) -> None:
    """Store an element of a comprehension."""


@lowers(store_item, arguments=(3, MANY), writes=True)
def _store_item(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    rows = rows_of(low, node.args[0])
    assert rows is not None
    tree = low.tree_or_static(node.args[-1])
    put_row(low, node, rows, [low.value(i) for i in node.args[1:-1]], tree)
    return Scalar(ZERO)


def row_list(rows: RowList) -> ast.expr:
    """A node for a list."""
    return Lowered(Static(rows))
