"""How lists of numbers that grow are lowered: a vector with spare capacity, allocated at the top of the function."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ..ir.statements import Alloc, Grow, If, Like, Store
from ..ir.terms import ZERO, Compare, Length, Term, Variable
from ..ir.type_inference import DTYPES
from .array_expressions import ArrayExpr, Leaf, Scalar
from .function_table import lowers
from .lists_of_rows import CAPACITY, copied_list, items_of_rows, make_room, put_row, rows_of
from .syntax import bound_to, unparse
from .views import Axis, View

if TYPE_CHECKING:
    from .calls import Calls
    from .scope import Scope

__all__ = ["append_item", "empty_list", "grow_to_size", "is_list", "list_copy", "list_items", "new_list"]


def new_list() -> Any:
    """A vector with spare capacity."""


def list_items(vector: Any, count: int) -> Any:
    """The view of the elements in use."""


def list_copy(items: Any) -> Any:
    """A new list of the same items."""


def append_item(vector: Any, count: int, value: Any) -> None:
    """Store behind the elements in use."""


def is_list(node: ast.expr) -> bool:
    """Whether an expression is the elements of a list that changes."""
    return isinstance(node, ast.Call) and bound_to(node.func) is list_items


@lowers(new_list, arguments=(0, 0))
def _new_list(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    if low.shared.parallel:
        raise low.source.refuse(node, "a list that grows in a parallel loop", "fill an array made before the loop")
    return Leaf(empty_list(low, node, hint or low.names.fresh("list")), True)


def empty_list(low: Calls, node: ast.AST, name: str) -> View:
    """A new vector for a list, at the top of the function."""
    low.allocate(name, node, [CAPACITY], "", DTYPES["float"])
    low.shared.growing.add(name)
    low.lowered_function.lists.add(name)
    low.shared.sizes[name] = [Length(name, 0)]
    return low.whole_view(name)


def grow_to_size(low: Scope, name: str, sizes: list[Term], kind: str | Like, dtype: Term, like: str) -> None:
    """A new array in a loop or branch, whose first size is not known before it: one array, which grows where needed."""
    shared, f = low.shared, low.lowered_function
    assert shared.top is not None
    shared.top.append(Alloc(name, (CAPACITY, *sizes[1:]), dtype, like, kind))
    f.ranks[name] = len(sizes)
    f.kinds[name] = f.kinds[kind.name] if isinstance(kind, Like) else kind or "float"
    shared.sizes[name] = sizes
    shared.over_allocated.add(name)
    low.out.append(If(Compare((">",), (sizes[0], Length(name, 0))), [Grow(name, sizes[0])], []))


@lowers(list_items, arguments=(2, 2), shares=True)
def _list_items(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    count = low.value(node.args[1])
    if (rows := rows_of(low, node.args[0])) is not None:
        return items_of_rows(low, node, rows, count)
    vector = low.view(node.args[0])
    if isinstance(count, Variable):
        low.shared.known_kinds.setdefault(count.name, "int")
    return Leaf(View(vector.name, (Axis(ZERO, count),), (0,)))


@lowers(list_copy, arguments=(1, 1), shares=True)
def _list_copy(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    return copied_list(low, node, low.view(node.args[0]), 1)


@lowers(append_item, arguments=(3, 3), writes=True)
def _append_item(low: Calls, node: ast.Call, called: object, hint: str) -> ArrayExpr:
    rows, tree = rows_of(low, node.args[0]), low.tree_or_static(node.args[2])
    if rows is not None:
        put_row(low, node, rows, [low.value(node.args[1])], tree)
        return Scalar(ZERO)
    vector = low.view(node.args[0])
    if not isinstance(tree, Scalar):
        if isinstance(node.args[0], ast.Name):
            low.list_of_arrays(node.args[0].id)
        what = f"{unparse(node.args[2])} as an item of a list"
        refused = low.source.refuse(node, what, "append numbers, or fill an array")
        low.comprehension_of_rows(node, refused)
        raise refused
    count = low.value(node.args[1])
    name, value = vector.name, low.name_or_constant(tree.term)
    make_room(low, name, count)
    low.out.append(Store(name, (count,), value))
    return tree
