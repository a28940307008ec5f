"""Objects from outside: instances of Python's own classes, as of data classes, that a function reads.

``STATION.lat``, ``for s in STATIONS: s.lat``, ``TREE.left.predict(x)``: their attributes are constants, from when
`adjoint` was called, and their methods are functions with the object first.
"""

from __future__ import annotations

import ast
import types
from typing import TYPE_CHECKING

from .array_expressions import ArrayExpr, Lowered, Static
from .captured_values import CapturedObject, as_it_is, is_plain_object
from .instances import read_method
from .structured_control import with_location
from .syntax import bound_name, bound_to, unparse

if TYPE_CHECKING:
    from .calls import Calls
    from .expressions import Expressions
    from .scope import Scope

__all__ = ["attribute_of_captured", "captured_attribute", "captured_object", "method_of_captured"]


def captured_object(low: Scope, node: ast.expr) -> CapturedObject | None:
    """The object from outside that an expression is; None for others."""
    value: object = None
    if isinstance(node, Lowered):
        value = getattr(node.lowered_tree, "value", None)
    elif isinstance(node, ast.Name) and bound_to(node) is None:
        if (static := low.string_of(node.id)) is not None:
            value = static.value
        elif not low.is_local_name(node.id):
            outside = low.source.outer_values.get(node.id)
            value = CapturedObject(node.id, outside) if is_plain_object(outside) else None
    elif isinstance(node, ast.Attribute) and (owner := captured_object(low, node.value)) is not None:
        found = captured_attribute(owner, node.attr)
        value = CapturedObject(f"{owner.name}_{node.attr}", found) if is_plain_object(found) else None
    return value if isinstance(value, CapturedObject) else None


def captured_attribute(held: CapturedObject, name: str) -> object:
    """An attribute of an object, which a class or the object itself has as a value."""
    names = vars(held.value)
    if name in names:
        return as_it_is(names[name])
    found = next((vars(c)[name] for c in type(held.value).__mro__ if name in vars(c)), None)
    return None if callable(found) or hasattr(found, "__get__") else as_it_is(found)


def attribute_of_captured(low: Expressions, node: ast.Attribute) -> ArrayExpr | None:
    """``p.x`` of an object from outside; None for other attributes."""
    if (held := captured_object(low, node.value)) is None:
        return None
    known = node.attr in vars(held.value) or any(node.attr in vars(c) for c in type(held.value).__mro__)
    found = captured_attribute(held, node.attr)
    if not known or (found is None and node.attr not in vars(held.value)):
        what = f"{unparse(node)}, which is no value that the {type(held.value).__name__} has"
        raise low.source.refuse(node, what, "read its attributes, or call its methods")
    return low.captured_item(node, f"{held.name}_{node.attr}", found)


def method_of_captured(low: Calls, node: ast.Call) -> ast.Call:
    """``p.f(x)`` of an object from outside as a call of the function; other calls as they are."""
    function = node.func
    if not isinstance(function, ast.Attribute) or (held := captured_object(low, function.value)) is None:
        return node
    found = getattr(type(held.value), function.attr, None)
    if not isinstance(found, types.FunctionType) or function.attr in vars(held.value):
        what = f"{unparse(function)}, which is no method that the {type(held.value).__name__} has"
        raise low.source.refuse(node, what, "call a function with the object as its argument")
    static = isinstance(vars(type(held.value)).get(function.attr), staticmethod)
    read_method(low, found)
    first = [] if static else [with_location(Lowered(Static(held)), node)]
    name = bound_name(found, unparse(function))
    return with_location(ast.Call(name, [*first, *node.args], node.keywords), node)
