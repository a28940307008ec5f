"""Questions about the syntax trees of users' functions, which need no scope to be answered."""

from __future__ import annotations

import ast

from ..ir.statements import children, subtrees

__all__ = ["assigns", "base_name", "count_mentions", "is_new_axis", "owner_of", "stored_names"]


def stored_names(body: list[ast.stmt], added: bool = True) -> list[str]:
    """The names that statements set, once per assignment, without those inside nested functions. `added`: augmented
    assignments count as well, although an array stays the same one there."""
    names: list[str] = []
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.AugAssign) and not added:
            continue
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.comprehension):  # its variables are its own
            stack += [node.iter, *node.ifs]
        elif not isinstance(node, ast.Lambda):
            stack += children(node)
    return names


def base_name(node: ast.expr) -> str:
    """The name of the array that an expression is a view of."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def count_mentions(s: ast.AST, names: set[str]) -> int:
    """How often `s` mentions one of the names."""
    return sum(isinstance(n, ast.Name) and n.id in names for n in subtrees(s))


def assigns(s: ast.Assign, name: str) -> bool:
    """Whether an assignment sets `name`."""
    targets = [e for t in s.targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return any(isinstance(t, ast.Name) and t.id == name for t in targets)


def owner_of(node: ast.expr) -> ast.expr:
    """``p`` of ``p.a[0]``."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def is_new_axis(node: ast.expr) -> bool:
    """Whether an index is ``None`` or ``np.newaxis``."""
    named = isinstance(node, ast.Attribute) and node.attr == "newaxis"
    return named or (isinstance(node, ast.Constant) and node.value is None)
