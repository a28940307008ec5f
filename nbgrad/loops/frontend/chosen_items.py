"""Items of dictionaries that are chosen by a known string: ``{"a": f, "b": g}[mode]``, ``TABLE[mode]``.

A dictionary that is written where its item is taken is never made: the expression of the item stands for it, and the
others must not do anything. A dictionary of the module has the items from when `adjoint` was called.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import numpy as np

from .array_expressions import Lowered
from .dictionaries import Key, chosen_by_number, dictionary_from_outside, display_items, known_key
from .function_table import row_of
from .syntax import children, unparse

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["chosen_item"]

_PURE = (ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.UnaryOp, ast.BinOp, ast.Compare,
         ast.BoolOp, ast.IfExp, ast.Tuple, ast.keyword)  # fmt: skip


def chosen_item(low: Expressions, node: ast.expr) -> ast.expr | None:
    """The expression that ``{...}[key]``, ``{...}.get(key, default)``, or one of a dictionary of the module, stands
    for; None for other expressions."""
    default: ast.expr | None = None
    match node:
        case ast.Subscript(value=owner, slice=key):
            pass
        case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[key, *more], keywords=[]) if len(more) < 2:
            default = more[0] if more else ast.copy_location(ast.Constant(None), node)
        case _:
            return None
    pairs = display_items(low, owner)
    if any(key is None for key, _ in pairs or ()):
        raise low.source.refuse(node, f"** in {unparse(owner)}", "give the dictionary a name before")
    items: dict[Key, object] | None = dict(pairs) if pairs else dictionary_from_outside(low, owner)  # type: ignore[arg-type]
    if items is None:
        return None
    if default is None and (numbered := chosen_by_number(low, node, key, items)) is not None:
        return numbered
    chosen = known_key(low, key)
    if chosen is None:
        what = f"the key {unparse(key)} in {unparse(node)}, which is no string or integer that is known"
        raise low.source.refuse(node, what, "pass it as an argument, or choose by if and elif")
    if chosen not in items and default is None:
        instead = f"it has {', '.join(map(str, items)) or 'none'}; add it to the dictionary"
        raise low.source.refuse(node, f"the key {chosen!r}, which the dictionary does not have", instead)
    others = [*(v for k, v in items.items() if k != chosen), *([default] if chosen in items and default else [])]
    for other in others:
        if isinstance(other, ast.expr) and not _is_pure(low, other):
            what = f"{unparse(other)}, which is computed in a dictionary though another item is taken"
            raise low.source.refuse(node, what, "give the dictionary a name before, or choose by if and elif")
    item = items.get(chosen, default)
    if isinstance(item, ast.expr):
        return item
    tree = low.captured_item(node, f"{unparse(owner)}_{chosen}", item)
    return ast.copy_location(Lowered(tree), node)


def _is_pure(low: Expressions, node: ast.AST) -> bool:
    """Whether nothing but its value comes of an expression, so that it may be left out (as its errors may)."""
    parts = children(node)
    if isinstance(node, ast.Lambda):
        parts = [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
    elif isinstance(node, ast.Call):
        row = row_of(low.function_of(node.func))
        if isinstance(node.func, ast.Attribute) and low.resolve(node.func) is None:
            row = row_of(getattr(np.ndarray, node.func.attr, None))
        if row is None or row.writes:
            return False
    elif not isinstance(node, _PURE):
        return False
    return all(_is_pure(low, part) for part in parts)
