"""Swaps of names, as ``a, b = b, a``: which names change places, and what is written between swaps."""

from __future__ import annotations

import ast
from collections.abc import Callable

from .syntax import Transformer, copy_tree, stored_names, subtrees, unparse

__all__ = ["is_swap", "swap_groups", "without_swaps", "written_when_new"]


def is_swap(s: ast.stmt) -> bool:
    """Whether `s` swaps names, like ``a, b = b, a``."""
    if not isinstance(s, ast.Assign) or not isinstance(s.targets[0], ast.Tuple) or not isinstance(s.value, ast.Tuple):
        return False
    parts = [*s.targets[0].elts, *s.value.elts]
    if not all(isinstance(p, ast.Name) for p in parts):
        return False
    return {unparse(p) for p in s.targets[0].elts} == {unparse(p) for p in s.value.elts}


def without_swaps(node: ast.FunctionDef) -> ast.FunctionDef:
    """The function without its swaps."""
    return _WithoutSwaps().visit(copy_tree(node))


class _WithoutSwaps(Transformer):
    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node) if is_swap(node) else node


def written_when_new(
    node: ast.FunctionDef, name: str, modified: set[str], writes: Callable[[ast.stmt, str], bool]
) -> bool:
    """Whether all writes to the array of a name come after a statement of their block that binds the name to a new
    array, with no swap in between.

    `modified` are the names of arrays that the function writes, and `writes` says whether a statement writes an array
    of a name. To give a part of it another such name counts as well.
    """

    def shares(n: ast.AST) -> bool:
        match n:
            case ast.Assign(targets=[ast.Name(id=other)], value=value):
                return other != name and other in modified and _root(value) == name
        return False

    def holds(block: list[ast.stmt], is_new: bool) -> bool:
        for s in block:
            inner = [b for part in ("body", "orelse") if isinstance(b := getattr(s, part, None), list)]
            heads = [ast.copy_location(ast.Expr(e), s) for part in ("test", "iter") if (e := getattr(s, part, None))]
            swapped = any(is_swap(t) and name in stored_names([t]) for t in subtrees(s) if isinstance(t, ast.stmt))
            new_inside = is_new and not swapped
            if not new_inside and any(writes(t, name) or shares(t) for t in (heads if inner else [s])):
                return False
            if not all(holds(b, new_inside) for b in inner):
                return False
            binds = isinstance(s, ast.Assign) and [unparse(t) for t in s.targets] == [name]
            is_new = not _root(s.value) if binds else new_inside  # type: ignore[attr-defined]
        return True

    return holds(node.body, False)


def _root(node: ast.expr) -> str:
    """The name of the array that an expression is or is a part of; "" for others."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def swap_groups(node: ast.AST) -> list[set[str]]:
    """Groups of names that are swapped with one another."""
    groups: list[set[str]] = []
    for s in subtrees(node):
        if isinstance(s, ast.stmt) and is_swap(s):
            names = set(stored_names([s]))
            names = names.union(*(g for g in groups if g & names))
            groups = [*(g for g in groups if not g & names), names]
    return groups
