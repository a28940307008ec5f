"""Static values: strings, None, functions and types, which are known when code is generated and are no part of it.

They are bound to names, passed, returned and put into tuples like other values. Strings and None decide branches,
functions are called, and strings are the messages of errors.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.source_text import constant_source
from .array_expressions import Lowered, Static
from .captured_objects import attribute_of_captured, captured_object
from .captured_values import CapturedObject
from .chosen_items import chosen_item
from .dictionaries import Dictionary, dictionary_display, dictionary_of, item_of, item_of_loop, known_key
from .element_types import ElementType, element_type
from .lists_of_rows import RowList
from .messages import STRING_METHODS, Message, method_of_string
from .number_types import is_number_type, named_dtype
from .scope import UNCERTAIN
from .syntax import stored_names, subtrees

if TYPE_CHECKING:
    from .calls import Calls
    from .expressions import Expressions
    from .scope import Scope

__all__ = [
    "GeneratorArgument",
    "bind_static",
    "described",
    "is_text",
    "makes_functions",
    "static_item",
    "static_text",
    "static_value",
    "string_method",
]


class GeneratorArgument(NamedTuple):
    """A parameter that is a ``np.random.Generator``: only its methods may be called, and it may be passed on."""

    name: str


_TEXTS = str | GeneratorArgument | Dictionary | RowList | CapturedObject


def static_value(low: Expressions, node: ast.expr) -> Static | None:
    """The string, None, function or type that an expression is; None for anything else."""
    if isinstance(text := string_method(low, node), str):
        return Static(text)
    if (item := item_of_loop(low, node)) is not None:
        return item if isinstance(item, Static) else None
    displays = ast.Dict | ast.DictComp | ast.Call
    if isinstance(node, displays) and (dictionary := dictionary_display(low, node)) is not None:
        return dictionary
    if isinstance(node, Lowered):
        return node.lowered_tree if isinstance(node.lowered_tree, Static) else None
    if isinstance(node, ast.Constant) and isinstance(node.value, str | None):
        return Static(node.value)
    if isinstance(node, ast.Subscript) and (held := dictionary_of(low, node.value)) is not None:
        item = item_of(low, node, held)
        return item if isinstance(item, Static) else None
    if isinstance(node, ast.Subscript) and (held := dictionary_of(low, node)) is not None:  # of a tuple
        return Static(held)
    if (chosen := chosen_item(low, node)) is not None:
        return static_value(low, chosen)
    if isinstance(node, ast.Name):
        static = low.string_of(node.id)
        if static is not None:
            return static
        text = low.source.outer_values.get(node.id)
        if isinstance(text, str) and not low.is_local_name(node.id):
            return Static(text)
    if (outside := captured_object(low, node)) is not None:
        return Static(outside)
    if isinstance(node, ast.Attribute) and (captured := attribute_of_captured(low, node)) is not None:
        return captured if isinstance(captured, Static) else None
    if isinstance(node, ast.Attribute) and isinstance(value := low.resolve(node), str):  # of an enumeration
        return Static(value)
    found = element_type(low, node) or low.function_argument(node) or _written_dtype(low, node)
    return None if found is None else Static(found)


def string_method(low: Expressions | Scope, node: ast.expr) -> str | bool | None:
    """What a method of a known string gives for known arguments; None for other expressions."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=[]) if name in STRING_METHODS:
            known = [a.value if isinstance(a, ast.Constant) else static_value(low, a) for a in (owner, *args)]  # type: ignore[arg-type]
            return method_of_string(name, *[v.value if isinstance(v, Static) else v for v in known])
    return None


def _written_dtype(low: Expressions, node: ast.expr) -> np.dtype | None:
    """What ``np.dtype("f8")`` is; None for other expressions."""
    match node:
        case ast.Call(func=function, args=[only], keywords=[]) if low.resolve(function) is np.dtype:
            named = static_value(low, only)
            return None if named is None else named_dtype(named.value)
    return None


def static_item(low: Scope, node: ast.Attribute | ast.Subscript) -> Static | None:
    """The string, None or function that an item of a tuple is, as ``options.method`` or ``options[0]``."""
    if isinstance(node, ast.Subscript) and (held := dictionary_of(low, node.value)) is not None:
        key = known_key(low, node.slice)
        found = None if key is None else held.items.get(key)
        return found if isinstance(found, Static) else None
    pack = low.tuple_of(node.value)
    items, fields = ((), ()) if pack is None else (pack.items, pack.fields)
    if isinstance(node.value, ast.Name) and not low.is_local_name(node.value.id):
        outside = low.source.outer_values.get(node.value.id)
        if isinstance(outside, tuple):
            items = tuple([Static(v) if isinstance(v, str | None) or callable(v) else "" for v in outside])
            fields = getattr(outside, "_fields", ())
    item: object = None
    match node:
        case ast.Attribute(attr=name) if name in fields:
            item = items[fields.index(name)]
        case ast.Subscript(slice=ast.Constant(value=int() as k)) if -len(items) <= k < len(items):
            item = items[k]
    return item if isinstance(item, Static) else None


def static_text(low: Expressions, node: ast.expr | None) -> str:
    """The string of a message, "" for anything else."""
    static = None if node is None or isinstance(node, ast.Call) else static_value(low, node)
    return static.value if static is not None and isinstance(static.value, str) else ""


def described(static: Static, text: str) -> str:
    """What is wrong with a static value, written as `text`, where a number or array is expected."""
    value = static.value
    if value is UNCERTAIN:
        return f"{text}, which is perhaps None, or one of several strings"
    if isinstance(value, Message):
        return f"a string with values in it, {constant_source(value)}"
    if isinstance(value, str):
        said = constant_source(value)
        return said if said == text else f"{text}, which is the string {said}"
    if is_number_type(value):
        return f"{text}, which is a type"
    kinds = {
        ElementType: "a type",
        GeneratorArgument: "a random generator",
        Dictionary: "a dictionary",
        RowList: "a list",
    }
    return f"{text}, which is {'None' if value is None else kinds.get(type(value), 'a function')}"


def bind_static(low: Calls, s: ast.AST, name: str, static: Static) -> None:
    """Bind a name to a static value."""
    if static.value in (None, UNCERTAIN) and name in getattr(low.source.node, "optional", ()):
        for other in (n.id for n in subtrees(s) if isinstance(n, ast.Name) and n.id != name):
            if low.string_of(other) is not None:
                low.hold_none_in_flag(other)
        what = f"{name}, which gets None here by another name, beside values elsewhere"
        raise low.source.refuse(s, what, f"write {name} = None in a branch")
    if name in low.arrays or name in low.uncertain_arrays or name in low.tuples:
        low.split_if_reused(name)
        if static.value is None:
            low.hold_none_in_flag(name)
        raise low.source.refuse(s, f"{name} becomes a string or function and was an array or tuple", "use another name")
    low.unbind_static(name)
    static_names = low.string_bindings if is_text(static) else low.functions
    static_names[name] = static.value


def is_text(static: Static) -> bool:
    """Whether a static value is a string, None or a generator, perhaps one of several."""
    return static.value is UNCERTAIN or isinstance(static.value, _TEXTS | None)


def makes_functions(node: ast.FunctionDef) -> bool:
    """Whether a function may return functions that are defined inside of it."""
    nodes = [n for s in node.body for n in subtrees(s)]
    called = {id(n.func) for n in nodes if isinstance(n, ast.Call)}
    made = {n.name for n in nodes if isinstance(n, ast.FunctionDef)}

    def holds(value: ast.AST) -> bool:
        """Whether a function is among the values of an expression."""
        return any(
            isinstance(n, ast.Lambda) or (isinstance(n, ast.Name) and n.id in made and id(n) not in called)
            for n in subtrees(value)
        )

    assigned = [n for n in nodes if isinstance(n, ast.Assign)] if made or any(map(holds, nodes)) else []
    for _ in assigned:  # until no name is added
        made |= set(stored_names([n for n in assigned if holds(n.value)]))
    return any(isinstance(n, ast.Return) and n.value is not None and holds(n.value) for n in nodes)
