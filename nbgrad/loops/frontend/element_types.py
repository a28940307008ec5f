"""Types of what a function computes, as values: ``type(x)``, ``x.dtype``, and names that are bound to one of these."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from ..ir.terms import Constant, Element, Variable
from .array_expressions import Leaf, Scalar
from .element_kinds import relied_on_kind
from .syntax import unparse

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["ElementType", "called_function", "element_type"]

_CASTS = {"float": float, "int": int, "bool": bool}


class ElementType(NamedTuple):
    """The type of the elements of `array`, or of a number, where that is None; `cast` is the conversion to it, None if
    it is not known yet."""

    cast: object
    array: str | None


def element_type(low: Expressions, node: ast.expr) -> ElementType | None:
    """The type that an expression stands for; None if it is no such expression."""
    match node:
        case ast.Name():
            scope: Any = low
            while node.id not in scope.locals and node.id not in scope.functions and scope.enclosing_scope is not None:
                scope = scope.enclosing_scope
            bound = scope.functions.get(node.id)
            return bound if isinstance(bound, ElementType) else None
        case ast.Attribute(value=inner, attr="type"):
            return element_type(low, inner)
        case ast.Attribute(value=owner, attr="dtype") if low.resolve(owner) is None and low.tuple_of(owner) is None:
            return _type_of(low, node, owner)
        case ast.Call(func=function, args=[only], keywords=[]) if low.function_of(function) is type:
            return _type_of(low, node, only)
    return None


def _type_of(low: Expressions, node: ast.expr, value: ast.expr) -> ElementType:
    saved, low.out = low.out, []  # only the type is needed
    tree = low.tree(value)
    low.out = saved
    array = tree.view.name if isinstance(tree, Leaf) else None
    if isinstance(node, ast.Call) and tree.rank:
        raise low.source.refuse(node, f"{unparse(node)}, the class of arrays", "take x.dtype.type")
    if isinstance(tree, Scalar) and isinstance(tree.term, Element):
        array = tree.term.array
    kind = relied_on_kind(low, tree, True) if isinstance(tree, Leaf | Scalar) else ""
    if not kind and array is None:
        error = unknown_type(low, node)
        if not isinstance(tree, Scalar) or not isinstance(tree.term, Variable):
            raise error
        low.lowered_function.assumed_kinds.append((tree.term.name, [Constant(0.0)], error))
        kind = "float"
    return ElementType(_CASTS.get(kind), array)


def unknown_type(low: Expressions, node: ast.expr) -> Exception:
    what = f"{unparse(node)}, of what may be integers or floats"
    return low.source.refuse(node, what, "write float(...), int(...) or a dtype")


def called_function(low: Expressions, node: ast.expr) -> object:
    """The conversion that calling a type is; None for other expressions."""
    found = element_type(low, node)
    if found is not None and found.cast is None:
        raise unknown_type(low, node)
    return None if found is None else found.cast
