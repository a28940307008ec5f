"""Functions of this library in loops that LLVM can turn into packed code.

A call of the C library keeps a loop scalar. Where turns have nothing to do with each other, and do nothing but
arithmetic and calls of functions that :mod:`nbgrad.vmath` has as arithmetic, they call these: several turns are
calculated at once.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.affine import distance, offset, parts
from ..ir.algebra import FUNCTIONS, PACKED
from ..ir.statements import (
    Assign,
    Function,
    Loop,
    Statement,
    Store,
    duplicate,
    elements_in,
    subtrees,
    unparse,
    walk,
)
from ..ir.type_inference import kind_of
from .cost_model import CHEAP, costly

if TYPE_CHECKING:
    from .activity import Plan

__all__ = ["pack"]

#: Loops that are known to have no more turns than this stay as they are.
_SHORT = 8


def pack(f: Function, made: Plan) -> set[Statement]:
    """Let such loops call our functions. The statements in them."""
    found: set[Statement] = set()
    for loop in [s for s in walk(f.body) if isinstance(s, Loop)]:
        names = _functions(loop, f, made) if _apart(loop, made) else {}
        if names:
            ours = _Ours(made, {called: _imported(called, name, f) for called, name in names.items()})
            for s in loop.body:
                s.value = ours.visit(duplicate(s.value))  # type: ignore[attr-defined]
                found.add(s)
    return found


def _imported(called: object, name: str, f: Function) -> str:
    """What ours is called."""
    function = FUNCTIONS[called].helpers[name]  # type: ignore[attr-defined]
    return f.names.imported(name, function, function)


def _apart(loop: Loop, made: Plan) -> bool:
    """Whether turns set numbers and elements of their own, neighbours in neighbouring turns."""
    if not loop.index or loop.count or loop.until or unparse(loop.step) != "1":
        return False
    if (turns := distance(loop.stop, loop.start)) is not None and turns <= _SHORT:
        return False
    if not all(isinstance(s, Store) or (isinstance(s, Assign) and s in made.defined) for s in loop.body):
        return False
    loops = (*made.enclosing[loop], loop)
    for s in (s for s in loop.body if isinstance(s, Store)):
        last = parts(s.index)[-1]
        if offset(last)[0] != loop.index or not made.independence.counted(last, loops):
            return False
        met = [t.index for t in loop.body if isinstance(t, Store) and t.array == s.array]
        met += [index for t in loop.body for index in elements_in(t.value, s.array)]  # type: ignore[attr-defined]
        if any(made.independence.meet(loop, s.index, index, True) for index in met):
            return False
    return True


def _functions(loop: Loop, f: Function, made: Plan) -> dict[object, str]:
    """The functions that are called, with the names of ours; none if that would not be enough."""
    found: dict[object, str] = {}
    for node in (n for s in loop.body for n in subtrees(s.value)):  # type: ignore[attr-defined]
        if isinstance(node, ast.IfExp | ast.BoolOp | ast.Compare):
            return {}
        if isinstance(node, ast.Call) and made.algebra.resolve(node.func) not in CHEAP:
            called = made.algebra.resolve(node.func)
            name = getattr(FUNCTIONS.get(called), "name", "")
            if name not in PACKED or any(kind_of(a, f) != "float" for a in node.args):
                return {}
            found[called] = name
        elif isinstance(node, ast.BinOp) and costly(node, made.algebra):
            return {}
    return found


class _Ours(ast.NodeTransformer):
    """Puts names of our functions in the place of others."""

    def __init__(self, made: Plan, names: dict[object, str]) -> None:
        self.made = made
        self.names = names

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        name = self.names.get(self.made.algebra.resolve(node.func))
        return ast.Call(ast.Name(name, ast.Load()), node.args, []) if name else node
