"""Dictionaries whose items are set: ``d = {"a": x}`` and ``d["a"] = y`` become ``d_a = x`` and ``d_a = y``.

That is where a function makes the dictionary in one place and only reads and sets items by keys that are written there.
Others do not change (:mod:`.dictionaries`).
"""

from __future__ import annotations

import ast
import re

from ..ir.names import Names
from .structured_control import assignment
from .syntax import Transformer, all_names, own_nodes, stored_names, subtrees

__all__ = ["FilledDictionaries"]


class FilledDictionaries(Transformer):
    """Rewrites each function."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        made: dict[str, list[tuple[str, ast.expr]]] = {}
        items: dict[str, list[ast.Subscript]] = {}
        changed: set[str] = set()
        for n in own_nodes(node):
            match n:
                case ast.Assign([ast.Name(id=name)], value) if (pairs := _items(value)) is not None:
                    made[name] = pairs
                case ast.Subscript(ast.Name(id=name), ast.Constant(str())):
                    items.setdefault(name, []).append(n)
                    changed |= {name} if isinstance(n.ctx, ast.Store) else set()
        names, free = {n.id for n in subtrees(node) if isinstance(n, ast.Name)}, Names(all_names(node))
        for name in sorted(changed & made.keys() & names):
            mentions = sum(isinstance(n, ast.Name) and n.id == name for n in subtrees(node))
            parameters = {n.arg for n in subtrees(node) if isinstance(n, ast.arg)}
            if stored_names(node.body).count(name) == 1 and mentions == len(items[name]) + 1 and name not in parameters:
                keys = [*(k for k, _ in made[name]), *(n.slice.value for n in items[name])]  # type: ignore[attr-defined]
                variables = {k: free.fresh(re.sub(r"\W", "_", f"{name}_{k}")) for k in dict.fromkeys(keys)}
                _Items(name, made[name], variables).visit(node)
        return node


def _items(value: ast.expr) -> list[tuple[str, ast.expr]] | None:
    """The items of ``{"a": x}`` or ``dict(a=x)``; None for other expressions."""
    match value:
        case ast.Dict(keys=keys, values=values):
            if all(isinstance(k, ast.Constant) and isinstance(k.value, str) for k in keys):
                return list(zip([k.value for k in keys], values, strict=True))  # type: ignore[union-attr]
        case ast.Call(ast.Name("dict"), [], keywords) if all(k.arg is not None for k in keywords):
            return [(str(k.arg), k.value) for k in keywords]
    return None


class _Items(Transformer):
    """Puts variables in the places of the items of one dictionary."""

    def __init__(self, name: str, made: list[tuple[str, ast.expr]], variables: dict[str, str]) -> None:
        self.name, self.made, self.variables = name, made, variables

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        match node.targets:
            case [ast.Name(id=name)] if name == self.name:
                done = [assignment(node, ast.Name(self.variables[k], ast.Store()), v) for k, v in self.made]
                return done or ast.copy_location(ast.Pass(), node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(ast.Name(id=name), ast.Constant(str(key)), ctx) if name == self.name:
                return ast.copy_location(ast.Name(self.variables[key], ctx), node)
        return self.generic_visit(node)
