"""Unroll-and-jam: run four sums with a fixed order of additions side by side.

Each addition of such a sum waits for the one before. Where the iterations of a loop only compute sums of their own,
four iterations run at once: their additions are interleaved, and the order within each sum is preserved.
"""

from __future__ import annotations

from collections.abc import Callable

from ..analysis.reverse_plan import Plan
from ..analysis.tbr import adjoint_reads
from ..ir.affine import plus
from ..ir.statements import (
    Assign,
    Block,
    Function,
    Loop,
    Statement,
    Store,
    mentions,
    names_written,
    uses,
    walk,
)
from ..ir.tapes import trip_count
from ..ir.terms import ONE, ZERO, Binary, Constant, Term, Variable, reads, substitute

__all__ = ["unrolled_and_jammed"]

#: The number of iterations that run at once.
_WIDTH = 4


def unrolled_and_jammed(
    loop: Loop, f: Function, plan: Plan, fresh: Callable[[str, int], str]
) -> tuple[Loop, Loop] | None:
    """The loop unrolled and jammed by four, and the remainder loop; None if that is not legal or not worthwhile."""
    scalars = [s for s in walk(loop.body) if isinstance(s, Assign)]
    if not _plain(loop) or loop.step is not ONE or not _inner_loops_are_sums(loop) or loop in plan.local_reversal.loops:
        return None
    if (
        (plan.saved_overwrites | plan.stored_definitions) & set(walk(loop.body))
        or not _stores_independent(loop)
        or not _private(loop, f, plan)
    ):
        return None
    names = list(dict.fromkeys(s.name for s in scalars))
    body: Block = []
    copies = [{n: fresh(n, k) for n in names} for k in range(1, _WIDTH)]
    index = Variable(loop.index)
    substitutions: list[dict[Term, Term]] = [{}]
    for k, other in enumerate(copies, 1):
        renamed: dict[Term, Term] = {Variable(n): Variable(new) for n, new in other.items()}
        substitutions.append({**renamed, index: Binary("+", index, Constant(k))})
    for s in loop.body:
        if isinstance(s, Loop):
            inner = [_copy(s.body[0], r) for r in substitutions]
            body.append(Loop(s.index, s.start, s.stop, s.step, None, inner))
        else:
            body += [_copy(s, r) for r in substitutions]
    step = Constant(_WIDTH)
    first = Binary("*", Binary("//", trip_count(loop), step), step)
    start = first if loop.start is ZERO else Binary("+", loop.start, first)
    wide = Loop(loop.index, loop.start, plus(loop.stop, 1 - _WIDTH), step, None, body)
    return wide, Loop(loop.index, start, loop.stop, loop.step, None, loop.body)


def _plain(loop: Loop) -> bool:
    return bool(loop.index) and not (loop.trip_counter or loop.exit_flag or loop.values_before_loop)


def _inner_loops_are_sums(loop: Loop) -> bool:
    """Whether inner loops only accumulate into scalars, and everything else is assignments."""
    inner = [s for s in loop.body if isinstance(s, Loop)]
    moving = names_written(loop)
    for s in inner:
        if not _plain(s) or reads(s.start, s.stop, s.step) & moving or len(s.body) != 1:
            return False
        (add,) = s.body
        if not isinstance(add, Assign) or add.reassociable:
            return False
        match add.value:
            case Binary("+" | "-", Variable(total), term) if total == add.name and total not in term.reads:
                continue
        return False
    long = [s for s in inner if not isinstance(s.stop, Constant)]  # others are better left to the compiler
    return bool(long) and all(isinstance(s, Assign | Store | Loop) for s in loop.body)


def _stores_independent(loop: Loop) -> bool:
    """Whether no iteration reads elements of stored arrays, and each array is stored to by one statement."""
    stored = [s.array for s in walk(loop.body) if isinstance(s, Store)]
    return len(set(stored)) == len(stored) and not any(uses(s) & set(stored) for s in walk([loop]))


def _private(loop: Loop, f: Function, plan: Plan) -> bool:
    """Whether all scalars assigned are floats that each iteration defines first and nothing outside the loop needs."""
    inside = set(walk(loop.body))
    outside = [s for s in walk(f.body) if s not in inside]
    for name in {s.name for s in inside if isinstance(s, Assign)}:
        first = next(s for s in loop.body if any(mentions(t, name) for t in walk([s])))
        defined = isinstance(first, Assign) and first.name == name and name not in first.value.reads
        if not defined or name in (*f.parameters, *(f.results or [])) or f.kinds.get(name) != "float":
            return False
        if any(mentions(s, name) for s in outside) or any(name in adjoint_reads(s, plan) for s in walk(f.body)):
            return False
    return True


def _copy(s: Statement, terms: dict[Term, Term]) -> Statement:
    """`s` with variables replaced by terms."""
    assert isinstance(s, Store | Assign)
    value = substitute(s.value, terms)
    if isinstance(s, Store):
        return Store(s.array, tuple([substitute(t, terms) for t in s.index]), value)
    target = substitute(Variable(s.name), terms)
    assert isinstance(target, Variable)
    return Assign(target.name, value)
