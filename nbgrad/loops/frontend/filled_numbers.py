"""Numbers that become arrays in loops: ``f = 0.0`` before ``f = f + force(j)`` is an array from the beginning.

It is filled with the number, as broadcasting does. Nothing may read the name while it stands for the number, but the
statement that makes it an array, and a loop that never runs is an error at run time.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.statements import Assign, Check
from ..ir.terms import FALSE, TRUE, Term, Unary, Variable
from .array_expressions import ArrayExpr, Elementwise, FromFunction
from .live_range_splitting import NeedsSplitting
from .syntax import count_mentions, subtrees

if TYPE_CHECKING:
    from .assignments import Assignments
    from .calls import Calls
    from .iteration import Iteration
    from .scope import Scope

__all__ = ["becomes_array", "check_filled", "fill_number", "filled_key", "is_new_from_here", "mark_bound", "shape_of"]


def filled_key(low: Scope, name: str) -> tuple:
    """What tells a name from all others, in each attempt to lower."""
    return *low.source.definition_site, low.number, name


def becomes_array(low: Assignments, s: ast.stmt, name: str, tree: ArrayExpr) -> None:
    """Lower again with an array for the number that `name` stands for, if that is the same: its lengths are those of
    arguments."""
    loop = _loop_of_sum(low.source.node, s, name)
    if loop is None or name in low.source.signature.parameters:
        return
    asked = shape_of(low, s, name, tree, (loop.lineno, loop.col_offset))
    if asked is not None:
        raise asked


def is_new_from_here(low: Assignments, s: ast.stmt, name: str) -> bool:
    """Whether ``u += x`` of a number `u` and an array sets a variable that all later statements mean, and no others."""
    function = low.source.node
    nested = [n for n in subtrees(function) if isinstance(n, ast.FunctionDef | ast.Lambda) and n is not function]
    if not isinstance(s, ast.AugAssign) or name in low.tuples or any(count_mentions(n, {name}) for n in nested):
        return False
    return low.at_function_level or _begins_in_block(function, s, name)


def _begins_in_block(function: ast.FunctionDef, s: ast.stmt, name: str) -> bool:
    """Whether the block of `s` sets a name before, and nothing outside of that block mentions it."""
    branches = (b for n in subtrees(function) for b in (getattr(n, "body", None), getattr(n, "orelse", None)))
    everywhere = count_mentions(function, {name})
    for block in (b for b in branches if isinstance(b, list) and s in b):
        first = next((k for k, t in enumerate(block) if count_mentions(t, {name})), len(block))
        match block[first]:
            case ast.Assign([ast.Name(id=target)], value) if target == name and not count_mentions(value, {name}):
                return sum(count_mentions(t, {name}) for t in block) == everywhere
    return False


def shape_of(low: Calls, s: ast.AST, name: str, tree: ArrayExpr, place: tuple = ()) -> NeedsSplitting | None:
    """To lower again with the shape of an array known where `name` is bound first; None if it is not that of
    arguments."""
    elementwise = Elementwise(low, s)
    sizes = [low.with_known_integers(n) for n in elementwise.lengths(tree)]
    known = {*low.lowered_function.parameters, *low.lowered_function.constants}
    if not all(n.named <= known for n in sizes):
        return None
    op = s.op if isinstance(s, ast.AugAssign) else getattr(getattr(s, "value", None), "op", None)
    kind = low.kind_of_tree(tree) or ("" if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor) else "float")
    made = FromFunction(sizes, None, kind, elementwise.dtype(tree))
    return NeedsSplitting(name, filled=(filled_key(low, name), made, place))


def fill_number(low: Assignments, s: ast.stmt, name: str, value: Term) -> bool:
    """Bind a name to an array filled with a number, where :func:`becomes_array` asked for it; whether it did."""
    found = low.shared.findings.rewrites.filled.get(filled_key(low, name))
    if found is None:
        return False
    made, _ = found
    number = low.name_or_constant(value)
    if name not in low.filled:
        low.filled[name] = low.fresh_scalar(f"{name}_is_array", FALSE, final=False)
    low.bind_array(s, name, FromFunction(made.sizes, lambda *_: number, made.kind, made.dtype), s.value)  # type: ignore[attr-defined]
    low.emit(Assign(low.filled[name], FALSE))
    return True


def mark_bound(low: Assignments, name: str) -> None:
    """A name that stood for a number is an array now."""
    if name in low.filled:
        low.emit(Assign(low.filled[name], TRUE))


def check_filled(low: Iteration, loop: ast.For | ast.While) -> None:
    """After a loop in which numbers become arrays: if it has not run, they are numbers."""
    for name, flag in low.filled.items():
        _, place = low.shared.findings.rewrites.filled[filled_key(low, name)]
        if place == (loop.lineno, loop.col_offset):
            text = f"{low.lowered_function.name}: {name} is a number, as a loop has no iteration; begin with np.zeros"
            low.emit(Check(Unary("not", Variable(flag)), text))


def _loop_of_sum(function: ast.FunctionDef, s: ast.stmt, name: str) -> ast.For | ast.While | None:
    """The loop whose body binds a number to an array by the statement `s`, if nothing else reads the number."""
    loops = [n for n in subtrees(function) if isinstance(n, ast.For | ast.While) and any(_same(t, s) for t in n.body)]
    if len(loops) != 1 or not _is_elementwise(s, name):
        return None
    (loop,) = loops
    k = next(k for k, t in enumerate(loop.body) if _same(t, s))
    later = {id(n) for t in loop.body[k:] for n in subtrees(t)}
    end = loop.end_lineno, loop.end_col_offset
    for n in subtrees(function):
        if isinstance(n, ast.FunctionDef | ast.Lambda) and n is not function and count_mentions(n, {name}):
            return None
        if isinstance(n, ast.Name) and n.id == name and id(n) not in later:
            before = (n.lineno, n.col_offset) < (loop.lineno, loop.col_offset)
            if not (before and isinstance(n.ctx, ast.Store)) and not (n.lineno, n.col_offset) > end:
                return None
    return loop


def _same(a: ast.AST, b: ast.AST) -> bool:
    """Whether two statements are the same one in the source."""
    return type(a) is type(b) and (a.lineno, a.col_offset) == (b.lineno, b.col_offset)  # type: ignore[attr-defined]


def _is_elementwise(s: ast.stmt, name: str) -> bool:
    """Whether a statement adds to a name, or the like: a number and an array filled with it give the same."""
    match s:
        case ast.AugAssign(ast.Name(id=target), _, value):
            return target == name and not count_mentions(value, {name})
        case ast.Assign([ast.Name(id=target)], value):
            node: ast.expr = value
            while isinstance(node, ast.BinOp | ast.UnaryOp):
                if isinstance(node, ast.UnaryOp):
                    node = node.operand
                    continue
                if isinstance(node.op, ast.MatMult):
                    return False
                here, there = (node.left, node.right) if count_mentions(node.left, {name}) else (node.right, node.left)
                if count_mentions(there, {name}):
                    return False
                node = here
            return target == name and isinstance(node, ast.Name) and node.id == name
    return False
