"""Guarded products, ``g * partial if g != 0 else 0``, as LLVM selects instead of branches.

LLVM makes one branch of several on the same test, and does not vectorize a loop where sums pass through it.
"""

from __future__ import annotations

import operator
from collections import Counter
from typing import Any

from numba import types

from .internals import intrinsic, ir, rebuild_definitions

__all__ = ["select_guarded"]

#: Arithmetic that neither raises nor reads memory.
_PURE = {
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, operator.pos),
    *(operator.iadd, operator.isub, operator.imul, operator.itruediv),
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
}


@intrinsic
def guarded(context, test, product, zero):
    """``product if test else zero``, where both are computed."""
    kind = context.unify_types(product, zero)
    if test != types.boolean or not isinstance(kind, types.Number):
        return None

    def code(context, builder, signature, args):
        values = [context.cast(builder, v, t, kind) for v, t in zip(args[1:], signature.args[1:], strict=True)]
        return builder.select(args[0], *values)

    return kind(test, product, zero), code


def select_guarded(func_ir: Any) -> bool:
    """Replace the branches of guarded products, before a function is in SSA form; whether there are any.

    A branch becomes a call of :func:`guarded` after the statements of both sides, and its block goes on with those
    after it. Tests of what is set elsewhere stay, because LLVM takes them out of loops.
    """
    blocks = func_ir.blocks
    predecessors = Counter(label for block in blocks.values() for label in block.terminator.get_targets())
    count = len(blocks)
    for label in sorted(blocks):
        if label in blocks:
            _select_in(blocks, label, predecessors, {})
    if len(blocks) < count:
        rebuild_definitions(func_ir)
    return len(blocks) < count


def _select_in(blocks: dict[int, ir.Block], label: int, predecessors: Counter, before: dict[str, Any]) -> None:
    """Replace branches at the end of a block as long as they are those of guarded products; `before` has the
    assignments of the blocks that it belongs to."""
    body = blocks[label].body
    assigned = before | {s.target.name: s for s in body if isinstance(s, ir.Assign)}
    while isinstance(branch := body[-1], ir.Branch):
        sides = branch.truebr, branch.falsebr
        test = _tested(branch.cond.name, assigned)
        if test is None or any(predecessors[side] != 1 for side in sides):
            return
        if isinstance(blocks[branch.truebr].body[-1], ir.Branch):
            _select_in(blocks, branch.truebr, predecessors, assigned)
        yes, no = (blocks[side].body for side in sides)
        if not (_is_arithmetic(yes) and _is_zero(no)):
            return
        *product, result, jump = yes
        zero, nothing, other_jump = no
        if (result.target.name, jump.target) != (nothing.target.name, other_jump.target):
            return
        if predecessors[jump.target] != 2:
            return
        truth = assigned[branch.cond.name]
        function = assigned[truth.value.func.name]  # it was bool
        function.value = ir.Global(guarded._name, guarded, function.loc)
        call = ir.Expr.call(truth.value.func, (test, result.value, nothing.value), (), branch.loc)
        added = [*product, zero, ir.Assign(call, result.target, result.loc), *blocks[jump.target].body]
        kept = next(k for k in reversed(range(len(body))) if body[k] is truth)
        body[kept:] = [*body[kept + 1 : -1], *added]
        assigned.update((s.target.name, s) for s in added if isinstance(s, ir.Assign))
        for gone in (*sides, jump.target):
            del blocks[gone]


def _tested(name: str, assigned: dict[str, Any]) -> ir.Var | None:
    """The comparison of a number that is `assigned` with 0 whose truth a variable is; None for other variables."""

    def value(of: str, op: str) -> Any:
        found = assigned[of].value if of in assigned else None
        return found if isinstance(found, ir.Expr) and found.op == op else None

    def constant(of: str, kind: type) -> Any:
        return assigned[of].value.value if of in assigned and isinstance(assigned[of].value, kind) else None

    truth = value(name, "call")
    if truth is None or len(truth.args) != 1 or constant(truth.func.name, ir.Global) is not bool:
        return None
    test = value(truth.args[0].name, "binop")
    if test is None or test.fn is not operator.ne or test.lhs.name not in assigned:
        return None
    return truth.args[0] if constant(test.rhs.name, ir.Const) == 0 else None


def _is_arithmetic(side: list[ir.Stmt]) -> bool:
    """Whether the statements of a side compute one number, by arithmetic of numbers alone, and jump."""
    *computed, end = side
    selects: set[str] = set()  # names of :func:`guarded`
    for s in computed:
        if not isinstance(s, ir.Assign) or not s.target.name.startswith("$") or not _is_number(s.value, selects):
            return False
        if isinstance(s.value, ir.Global) and s.value.value is guarded:
            selects.add(s.target.name)
    return isinstance(end, ir.Jump) and bool(computed) and isinstance(computed[-1].value, ir.Var)


def _is_number(value: Any, selects: set[str]) -> bool:
    match value:
        case ir.Expr(op="call"):
            return value.func.name in selects
        case ir.Expr():
            return value.op in ("binop", "inplace_binop", "unary") and value.fn in _PURE
        case ir.Const() | ir.Global():
            return isinstance(value.value, int | float) or value.value is guarded
    return isinstance(value, ir.Var)


def _is_zero(side: list[ir.Stmt]) -> bool:
    """Whether a side is the constant 0."""
    first = side[0]
    return len(side) == 3 and _is_arithmetic(side) and isinstance(first.value, ir.Const) and first.value.value == 0
