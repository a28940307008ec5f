"""One of two values: ``a if test else b``, and ``and`` and ``or``. What is needed for a value is in a branch."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.statements import Assign, Block, If, unparse
from .array_expressions import Chosen, Leaf, Op, Scalar, Several, Tree, combine, leaves
from .mod_ref import written
from .partial_evaluation import decided
from .views import View

if TYPE_CHECKING:
    from .expressions import Expressions

__all__ = ["choice", "truth"]


def _perhaps(low: Expressions, node: ast.expr) -> tuple[Tree, Block]:
    """What is not calculated every time, and what is needed before."""
    saved, low.out = low.out, []
    with low.inside():
        made = low.tree(node)
    before, low.out = low.out, saved
    return made, before


def _certain(low: Expressions, node: ast.expr, tree: Tree) -> ast.expr:
    if not isinstance(tree, Scalar):
        raise low.source.refuse(node, "'and' and 'or' with arrays", "write & and |, or statements")
    return tree.node


def truth(low: Expressions, node: ast.BoolOp) -> Tree:
    """``a and b``; where `b` needs statements, they are in a branch."""
    found = _certain(low, node.values[0], low.tree(node.values[0]))
    for part in node.values[1:]:
        tree, before = _perhaps(low, part)
        value = _certain(low, part, tree)
        if before:
            name = low.number("truth", found, final=False)
            test: ast.expr = ast.Name(name, ast.Load())
            test = test if isinstance(node.op, ast.And) else ast.UnaryOp(ast.Not(), test)
            low.out.append(If(test, [*before, Assign(name, value)], []))
            found = ast.Name(name, ast.Load())
        else:
            more = found.values if isinstance(found, ast.BoolOp) and type(found.op) is type(node.op) else [found]
            found = ast.BoolOp(node.op, [*more, value])
    return Scalar(found)


def choice(low: Expressions, node: ast.IfExp) -> Tree:
    """``a if test else b``; where these need statements, they are in branches."""
    holds = decided(low, node.test)
    if holds is not None:
        return low.tree(node.body if holds else node.orelse)
    test = low.value(node.test)
    (first, before), (second, other) = _perhaps(low, node.body), _perhaps(low, node.orelse)
    if isinstance(first, Scalar) and isinstance(second, Scalar) and (before or other):
        name = low.names.fresh("choice")
        low.made.ranks[name] = 0
        low.out.append(If(test, [*before, Assign(name, first.node)], [*other, Assign(name, second.node)]))
        return Scalar(ast.Name(name, ast.Load()))
    if not isinstance(first, Scalar):
        test = low.simple(test)
    if before or other:
        low.out.append(If(test, before, other))
    return _one_of(low, node, test, first, second)


def _one_of(low: Expressions, node: ast.IfExp, test: ast.expr, first: Tree, second: Tree) -> Tree:
    """The values of one tree or the other. To name those of arrays is to copy them, so nobody may write them then."""
    if isinstance(first, Several) and isinstance(second, Several) and len(first.items) == len(second.items):
        pairs = zip(first.items, second.items, strict=True)
        return Several([_one_of(low, node, test, a, b) for a, b in pairs], first.of)
    spread = any(isinstance(t, Leaf) and None in t.view.order for tree in (first, second) for t in leaves(tree))
    if isinstance(first, Several) or isinstance(second, Several) or first.rank != second.rank or spread:
        raise low.source.refuse(
            node, f"one form or another in {unparse(node)}", "give numbers, or arrays with as many axes, in both"
        )
    made = combine(lambda a, b: ast.IfExp(test, a, b), [first, second])
    if not isinstance(made, Op):
        return made
    given = [t.view for t in (first, second) if isinstance(t, Leaf) and not t.fresh]
    what = "a name for one array or another, where one may be written in place,"
    refusal = low.source.refuse(node, what, "copy them: a.copy() if c else b.copy()")
    return Chosen(made.build, made.args, refusal=None if all(_unwritten(low, v) for v in given) else refusal)


def _unwritten(low: Expressions, view: View) -> bool:
    """Whether the elements of `view` stay what they are while this function runs, and in what it returns."""
    root = low.root(view.name)
    names = {n for n, v in low.arrays.items() if low.root(v.name) == root}
    mine = not low.inlined or root in low.owners.values()
    return mine and not names & written(low.source, low.source.node)
