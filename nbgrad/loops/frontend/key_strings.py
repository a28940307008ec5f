"""Keys of dictionaries that are one of several strings, chosen when the function runs."""

from __future__ import annotations

import ast

from .syntax import Replaced, copy_tree, own_nodes, subtrees

__all__ = ["chosen", "is_get", "string_bindings", "with_constant"]


def chosen(key: ast.expr, strings: list[str], items: list[ast.expr]) -> ast.expr:
    """The item for the string that a key is, one of these."""
    *others, made = items
    for string, item in reversed(list(zip(strings, others, strict=False))):
        made = ast.IfExp(ast.Compare(copy_tree(key), [ast.Eq()], [ast.Constant(string)]), item, made)
    return made


def string_bindings(function: ast.FunctionDef) -> dict[str, dict[str, None]]:
    """The names that are bound to strings alone, chosen by conditions or as keys of a dictionary, and those strings."""
    found: dict[str, dict[str, None]] = {}
    bound: list[str] = []
    nodes = own_nodes(function)
    for n in nodes:
        match n:
            case ast.Assign([ast.Name(id=name)], value) if (strings := _strings(value)) is not None:
                bound.append(name)
                found.setdefault(name, {}).update(strings)
    stored = [n.id for n in subtrees(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)]
    stored += [a.arg for a in subtrees(function.args) if isinstance(a, ast.arg)]
    return {name: strings for name, strings in found.items() if stored.count(name) == bound.count(name)}


def _strings(value: ast.expr) -> dict[str, None] | None:
    """The strings that an expression may be; none for a key of a dictionary, which is found later, None for others."""
    match value:
        case ast.Constant(str(text)):
            return {text: None}
        case ast.IfExp(body=a, orelse=b):
            first, second = _strings(a), _strings(b)
            return None if first is None or second is None else first | second
        case ast.Call(ast.Name("min" | "max"), [ast.Name(id=name)], [ast.keyword("key", key)]) if is_get(key, name):
            return {}
    return None


def is_get(node: ast.expr, name: str) -> bool:
    """Whether it is ``d.get``, the method."""
    match node:
        case ast.Attribute(ast.Name(id=other), "get"):
            return other == name
    return False


def with_constant(s: ast.stmt, name: str, value: str) -> ast.stmt:
    """A copy of a statement with a string in place of a name."""
    return Replaced({name: ast.Constant(value)}).visit(copy_tree(s))
