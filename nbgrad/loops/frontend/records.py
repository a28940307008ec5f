"""Lowering of records: elements of structured arrays, whose fields are views of arrays.

To lowering a record is a tuple of its fields, with the type of a record. Its numbers are elements of arrays, so a name
for a record, and the parameter of a function that one is passed to, refer to the same elements.
"""

from __future__ import annotations

import ast
from inspect import isdatadescriptor
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.terms import Element, Variable
from .array_expressions import ArrayExpr, Leaf, Lowered, Scalar, Static, TupleExpr, copy_of_values
from .instance_types import InstanceType
from .instances import attribute_of_instance, set_attribute
from .record_types import RecordType, is_record
from .scope import Pack
from .static_values import static_value
from .structured_control import with_location
from .syntax import owner_of, unparse
from .views import View, product

if TYPE_CHECKING:
    from .expressions import Expressions
    from .lowering import Lowering

__all__ = [
    "assign_to_record",
    "attribute_of_record",
    "bind_record",
    "bound_record",
    "copy_of_record",
    "has_instance",
    "instance_of_method",
    "item_of_record",
    "record_argument",
    "record_parameter",
    "refuse_record",
    "result_record",
    "shape_of_record",
    "views_of",
]


def has_instance(tree: ArrayExpr) -> bool:
    """Whether a tree is an instance, or a tuple that has one."""
    return isinstance(tree, TupleExpr) and (
        isinstance(tree.tuple_class, InstanceType) or any(map(has_instance, tree.items))
    )


def record_parameter(record: RecordType, items: list[Any]) -> Pack:
    """A parameter that is a record, from those of its fields."""
    fields = zip(record._fields, items, strict=True)
    parts = [View(i.name, (i.axis(0).start,), ()) if record.is_number(n) else i for n, i in fields]
    return Pack(tuple(parts), record)  # type: ignore[arg-type]


def field(low: Expressions, node: ast.expr, tree: TupleExpr, name: str) -> ArrayExpr:
    """A field of a record."""
    if name not in tree.fields:
        record: RecordType = tree.tuple_class  # type: ignore[assignment]
        known = name in (record.dtype.names or ())
        what = f"the field {name}" + (f", of the dtype {record.dtype[name]}" if known else ", which there is not")
        raise low.source.refuse(node, what, f"use its numbers and arrays of numbers: {', '.join(tree.fields)}")
    return tree.items[tree.fields.index(name)]


def rank_of(tree: TupleExpr) -> int:
    """The number of axes that the fields have in common."""
    record: RecordType = tree.tuple_class  # type: ignore[assignment]
    if isinstance(record, InstanceType):
        return 0
    first = record._fields[0]
    if (inner := tree.items[0]) and isinstance(inner, TupleExpr):
        return rank_of(inner) - len(record.dtype[first].shape)
    return inner.rank - len(record.dtype[first].shape)


def shape_of_record(low: Expressions, node: ast.AST, tree: TupleExpr) -> list[Any]:
    """The lengths of a structured array."""
    rank, first = rank_of(tree), tree.items[0]
    while isinstance(first, TupleExpr):
        first = first.items[0]
    return low.shape(first.view)[:rank] if isinstance(first, Leaf) else []


def attribute_of_record(low: Expressions, node: ast.Attribute, tree: TupleExpr) -> ArrayExpr:
    """``a.x``: a field, or the shape of a structured array."""
    if isinstance(tree.tuple_class, InstanceType):
        return attribute_of_instance(low, node, tree)  # type: ignore[arg-type]
    if node.attr in ("shape", "size") and rank_of(tree):  # as in NumPy, whatever the fields are called
        sizes = shape_of_record(low, node, tree)
        return TupleExpr([Scalar(n) for n in sizes]) if node.attr == "shape" else Scalar(product(sizes))
    return field_as_attribute(low, node, tree)


def field_as_attribute(low: Expressions, node: ast.Attribute, tree: TupleExpr) -> ArrayExpr:
    """``p.x``, a field; in ``p.size`` and its like NumPy takes the attribute that every record has."""
    if node.attr in tree.fields and isdatadescriptor(getattr(np.void, node.attr, None)):
        what = f"the field {node.attr} as {unparse(node)}, which is an attribute of every record and array, too"
        raise low.source.refuse(node, what, f"write {unparse(node.value)}[{node.attr!r}]")
    return field(low, node, tree, node.attr)


def item_of_record(low: Expressions, node: ast.Subscript, tree: TupleExpr) -> ArrayExpr:
    """``a["x"]``: a field; ``a[i]``, ``a[1:]``: the same of each field."""
    if isinstance(tree.tuple_class, InstanceType):
        what = f"{unparse(node)}, an index of an instance of the jitclass {tree.tuple_class.name}"
        raise low.source.refuse(node, what, f"read its fields: {', '.join(tree.fields)}")
    static = static_value(low, node.slice)
    if static is not None and isinstance(static.value, str):
        return field(low, node, tree, static.value)
    parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    used = sum(not (isinstance(p, ast.Constant) and p.value in (None, ...)) for p in parts)
    if used > rank_of(tree):
        what = f"{unparse(node)}, an index of a record"
        raise low.source.refuse(node, what, f"give the name of a field: {', '.join(tree.fields)}")
    # each index is evaluated once
    held = [p if isinstance(p, ast.Slice | ast.Constant) else _held(low, p) for p in parts]
    index = held[0] if len(held) == 1 else with_location(ast.Tuple(held, ast.Load()), node)
    items = []
    for t in tree.items:
        part = with_location(ast.Subscript(with_location(Lowered(t), node), index, ast.Load()), node)
        items.append(item_of_record(low, part, t) if isinstance(t, TupleExpr) else low.subscript(part))
    return TupleExpr(items, tree.tuple_class)


def _held(low: Expressions, node: ast.expr) -> ast.expr:
    tree = low.tree(node)
    if isinstance(tree, Scalar):
        tree = Scalar(low.name_or_constant(tree.term)) if not isinstance(tree.term, Variable) else tree
    elif tree.rank:
        tree = Leaf(low.view_of(tree, node))
    return ast.copy_location(Lowered(tree), node)


def view_of_field(low: Lowering, node: ast.AST, tree: ArrayExpr) -> View:
    """The view of a field of a record that is written."""
    if isinstance(tree, Leaf):
        return tree.view
    if isinstance(tree, Scalar) and isinstance(tree.term, Element):
        return View(tree.term.array, tree.term.index, ())
    raise low.source.refuse(node, "a record that is a copy, and is written", "write the array that it comes from")


def assign_to_record(low: Lowering, s: ast.stmt, target: ast.expr, value: ast.expr) -> bool:
    """Lower an assignment to a field or record; whether the target is one."""
    if not isinstance(target, ast.Attribute | ast.Subscript) or not _is_record_target(low, target):
        return False
    tree = value.lowered_tree if isinstance(value, Lowered) else low.tree(value)
    base = low.tree(target.value)
    if isinstance(base, TupleExpr) and is_record(base):
        if isinstance(target, ast.Attribute) and isinstance(base.tuple_class, InstanceType):
            if (part := set_attribute(low, target, base, tree)) is not None:
                _write(low, target, part, tree)
            return True
        if isinstance(target, ast.Attribute):
            _write(low, target, field_as_attribute(low, target, base), tree)
            return True
        _write(low, target, item_of_record(low, target, base), tree)
        return True
    raise low.source.refuse(s, "an assignment to this", "assign to a name or to elements of an array")


def _is_record_target(low: Lowering, target: ast.Attribute | ast.Subscript) -> bool:
    """Whether a target is a field or record, not an element of a field."""
    if isinstance(target, ast.Attribute):
        return True
    return _type_of(low, target.value) is not None


def instance_of_method(low: Expressions, node: ast.Call) -> InstanceType | None:
    """The type of the instance whose method is called; None for other calls."""
    record = _type_of(low, node.func.value) if isinstance(node.func, ast.Attribute) else None
    return record if isinstance(record, InstanceType) else None


def _type_of(low: Expressions, node: ast.expr) -> RecordType | None:
    """The type of the record that an expression is; None for other expressions."""
    if isinstance(node, ast.Name):
        pack = low.tuple_of(node)
        return pack.of if pack is not None and is_record(pack) else None  # type: ignore[return-value]
    if isinstance(node, Lowered):
        tree = node.lowered_tree
        return tree.tuple_class if is_record(tree) else None  # type: ignore[attr-defined]
    match node:  # an instance in a tuple
        case ast.Subscript(value=ast.Name() as name, slice=ast.Constant(value=int() as k)):
            pack = low.plain_tuple(name)
            if pack is not None and -len(pack.items) <= k < len(pack.items):
                return pack.items[k].of if is_record(pack.items[k]) else None  # type: ignore[union-attr,return-value]
    if not isinstance(node, ast.Attribute | ast.Subscript) or (outer := _type_of(low, node.value)) is None:
        return None
    static = static_value(low, node.slice) if isinstance(node, ast.Subscript) else Static(node.attr)
    if static is None or not isinstance(static.value, str):
        return outer
    return outer.inner(static.value) if static.value in outer._fields else None


def _write(low: Lowering, node: ast.AST, target: ArrayExpr, tree: ArrayExpr) -> None:
    """Write a value into a field, or into all fields of a record."""
    if isinstance(target, TupleExpr):
        if not isinstance(tree, TupleExpr) or len(tree.items) != len(target.items):
            what = "a record that is set to this"
            raise low.source.refuse(node, what, f"give a record or a tuple with {', '.join(target.fields)}")
        items = [low.evaluate_first(node, t) for t in tree.items]  # fields of the record may be among them
        for part, item in zip(target.items, items, strict=True):
            _write(low, node, part, item)
        return
    low.write(node, view_of_field(low, node, target), tree)


def bind_record(low: Lowering, s: ast.stmt, name: str, tree: TupleExpr) -> None:
    """Bind a name to a record: its fields are those of the record, not copies."""
    if name in low.tuples and name not in low.assigned_tuples:
        raise low.source.refuse(s, f"another record under the name {name}, a parameter", "use another name")
    if name in low.tuples and low.tuples[name].of is not tree.tuple_class and low.tuples[name].of != tree.tuple_class:
        raise low.source.refuse(s, f"{name} gets another form", "use another name")
    low.tuples[name] = bound_record(low, s, name, tree)
    low.assigned_tuples.add(name)


def bound_record(low: Lowering, s: ast.stmt, name: str, tree: TupleExpr) -> Pack:
    """What a name for a record, or for an item of a tuple, is bound to."""
    items: list[Any] = []
    for label, item in zip(tree.fields, tree.items, strict=True):
        pseudo = f"{name}.{label}"
        low.tuple_owner[pseudo] = low.user_variable(name)
        if isinstance(item, TupleExpr):
            items.append(bound_record(low, s, pseudo, item))
            continue
        low.locals.add(pseudo)
        low.rename.setdefault(pseudo, low.names.fresh(low.item_variable(pseudo)))
        if item.rank:
            low.bind_array(s, pseudo, item, s)  # type: ignore[arg-type]
        else:
            low.bind(pseudo, low.snapshot_view(view_of_field(low, s, item)))
        items.append(pseudo)
    return Pack(tuple(items), tree.tuple_class)


def record_argument(low: Lowering, node: ast.expr, tree: TupleExpr) -> Pack:
    """A record as an argument of an inlined function."""
    items = [
        record_argument(low, node, t)
        if isinstance(t, TupleExpr)
        else low.snapshot_view(view_of_field(low, node, t))
        if isinstance(t, Leaf) or isinstance(getattr(t, "term", None), Element)
        else low.view_of(t, node)
        for t in tree.items
    ]
    return Pack(tuple(items), tree.tuple_class)


def result_record(low: Lowering, node: ast.expr, tree: TupleExpr) -> TupleExpr:
    """A record that a function returns."""
    if not low.inlined:
        raise low.source.refuse(node, "a record as a result", "return its fields")
    if low.returns > 1:
        raise low.source.refuse(node, "one of several records as a result", "return an index, or its fields")

    def still(t: ArrayExpr) -> ArrayExpr:
        if isinstance(t, TupleExpr):
            return TupleExpr([still(i) for i in t.items], t.tuple_class)
        if isinstance(t, Leaf) and t.fresh:
            return t
        view = low.snapshot_view(view_of_field(low, node, t))
        return Leaf(view) if view.rank else Scalar(view.at([]))

    return still(tree)  # type: ignore[return-value]


def views_of(pack: Pack) -> list[View]:
    """The views of the fields of a record that was passed."""
    return [v for i in pack.items for v in ([i] if isinstance(i, View) else views_of(i) if isinstance(i, Pack) else [])]


def copy_of_record(low: Expressions, node: ast.Call, tree: TupleExpr) -> TupleExpr:
    """``a.copy()`` of a structured array."""
    if not rank_of(tree):
        raise low.source.refuse(node, f"{unparse(node)}, of one record", "copy the array, or read its fields")
    items = [copy_of_record(low, node, t) if isinstance(t, TupleExpr) else copy_of_values(t) for t in tree.items]
    return TupleExpr(items, tree.tuple_class)


def refuse_record(low: Expressions, node: ast.expr, tree: ArrayExpr) -> None:
    """Refuse a record where a tuple would do."""
    if is_record(tree):
        what = f"{unparse(owner_of(node))}, a structured array or record, here"
        raise low.source.refuse(node, what, "use its fields")
