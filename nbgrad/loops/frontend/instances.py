"""Lowering of instances of jitclasses: their fields, properties, and methods, which are inlined like functions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from ...backends.numba.jitclasses import method_of, property_of
from .array_expressions import ArrayExpr, Leaf, Lowered, TupleExpr
from .instance_types import InstanceType
from .source import Source
from .structured_control import with_location
from .subset_check import check
from .syntax import bound_name, unparse

if TYPE_CHECKING:
    from .calls import Calls
    from .lowering import Lowering

__all__ = ["attribute_of_instance", "call_of_method", "method", "read_method", "set_attribute"]


def attribute_of_instance(low: Calls, node: ast.Attribute, tree: TupleExpr) -> ArrayExpr:
    """``p.x``: a field or property."""
    record: InstanceType = tree.tuple_class  # type: ignore[assignment]
    name = record.own_name(node.attr)
    if name in tree.fields:
        return tree.items[tree.fields.index(name)]
    if (getter := property_of(record.kind, name)) is None:
        raise _no_attribute(low, node, record)
    return low.inline_in_expression(_call(low, node, getter, tree))


def _no_attribute(low: Calls, node: ast.Attribute, record: InstanceType) -> Exception:
    what = f"{unparse(node)}, which is no field or property of the jitclass {record.name}"
    return low.source.refuse(node, what, f"its fields are {', '.join(record._fields)}; call its methods")


def _call(low: Calls, node: ast.AST, function: Callable, tree: TupleExpr, *values: ArrayExpr) -> ast.Call:
    """A call of a function of the class for an instance."""
    read_method(low, function)
    args: list[ast.expr] = [with_location(Lowered(t), node) for t in (tree, *values)]
    return with_location(ast.Call(bound_name(function, function.__name__), args, []), node)


def read_method(low: Calls, function: Callable) -> None:
    """Read the source of a method, so that changes of what it captures are seen as those of called functions are."""
    sources = low.source.called_sources
    if function not in sources:
        sources[function] = Source(function, sources)
    if not sources[function].checked:
        check(sources[function], (function,))
    low.shared.sources.setdefault(function, sources[function])


def method(low: Calls, node: ast.Call, record: InstanceType | None) -> Callable | None:
    """The function of the method of an instance that is called; None for other calls."""
    if record is None:
        return None
    assert isinstance(node.func, ast.Attribute)
    found = method_of(record.kind, record.own_name(node.func.attr))
    if found is None:
        what = f"{unparse(node.func)}, which is no method of the jitclass {record.name}"
        raise low.source.refuse(node, what, "call a method that it has")
    read_method(low, found[0])
    return found[0]


def call_of_method(low: Calls, node: ast.Call, record: InstanceType | None) -> ast.Call:
    """The call of a method as that of its function, with the instance first; other calls as they are."""
    if record is None:
        return node
    assert isinstance(node.func, ast.Attribute)
    function, takes_instance = method_of(record.kind, record.own_name(node.func.attr))  # type: ignore[misc]
    args = [node.func.value, *node.args] if takes_instance else node.args
    return ast.copy_location(ast.Call(bound_name(function, unparse(node.func)), args, node.keywords), node)


def set_attribute(low: Lowering, target: ast.Attribute, tree: TupleExpr, value: ArrayExpr) -> ArrayExpr | None:
    """The field that is to be set; None where the setter of a property was called. Only numbers can be set."""
    record: InstanceType = tree.tuple_class  # type: ignore[assignment]
    name = record.own_name(target.attr)
    if name in tree.fields:
        if record.is_number(name):
            return tree.items[tree.fields.index(name)]
        whole = isinstance(tree.items[tree.fields.index(name)], Leaf)
        what = f"{unparse(target)}, {'an array' if whole else 'an instance'} of an instance that is replaced"
        instead = f"write its elements: {unparse(target)}[:] = ..." if whole else "set its fields one by one"
        raise low.source.refuse(target, what, instead)
    if (setter := property_of(record.kind, name, "set")) is None:
        raise _no_attribute(low, target, record)
    low.inline(_call(low, target, setter, tree, value))
    return None
