"""``f(*p)``: the items of a tuple, or of an array, of which a function takes as many as it has parameters."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from .array_expressions import ArrayExpr, Leaf, Lowered, Scalar
from .dictionaries import keyword_items
from .source import Source
from .syntax import unparse

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["with_items"]


def with_items(low: Calls, node: ast.Call) -> ast.Call:
    """The call with items in place of ``*p``, and keywords in place of ``**p``."""
    spread = any(k.arg is None for k in node.keywords)
    if not spread and not any(isinstance(a, ast.Starred) for a in node.args):
        return node
    args: list[ast.expr] = []
    for a in node.args:
        if not isinstance(a, ast.Starred):
            args.append(a)
            continue
        items = _items(low, node, a, len(args))
        if items is None:
            raise low.source.refuse(node, f"{unparse(a)} in a call", "pass a tuple, or the items one by one")
        args += [ast.copy_location(Lowered(t), a) for t in items]
    keywords = keyword_items(low, node) if spread else node.keywords
    return ast.copy_location(ast.Call(node.func, args, keywords), node)


def _items(low: Any, node: ast.Call, starred: ast.Starred, before: int) -> list[ArrayExpr] | None:
    """The items of a tuple; those of an array at the end, behind `before` others, if it is known how many the function
    takes."""
    tree = low.tree(starred.value)
    callee = low.callee(node) if tree.rank and starred is node.args[-1] and not node.keywords else None
    if callee is None:
        return low.tuple_items(tree)
    source = callee if isinstance(callee, Source) else low.source.source_of_called(callee, callee)
    parameters = list(source.signature.parameters.values())[before:]
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD or p.default is not p.empty for p in parameters):
        return None
    views = low.rows(low.view_of(tree, starred.value), node, len(parameters))
    return [Leaf(v) if v.rank else Scalar(v.at([])) for v in views]
