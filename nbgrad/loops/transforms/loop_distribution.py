"""Loop distribution: move what couples the iterations of a loop in the reverse sweep before or after it.

In ``v[i] = p * v[i] + q * v[i + 1]`` each iteration reads an element that a later one overwrites. The reversed loop
starts from the last iteration: it needs what that later iteration has restored, and adds to a cotangent that the later
iteration has already consumed. So all elements can be restored first, in a loop of their own, and contributions to
neighbours can be stored in a row and added after the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..ir.affine import offset
from ..ir.effects import Bind
from ..ir.names import called
from ..ir.reverse_ir import Item, Step, loop_head, negative
from ..ir.statements import names_written
from ..ir.terms import DType, Element, Length, reads
from .loop_fusion import Accessed

if TYPE_CHECKING:
    from ..analysis.dependence import Index
    from .loop_reversal import LoopReversal

__all__ = ["distribute_loop"]


def distribute_loop(reversal: LoopReversal, names: list[str]) -> tuple[list[Item], list[Item]] | None:
    """Remove the dependences between iterations through the arrays `names`.

    Returns what goes before the loop and what goes after it; None, with nothing changed, if that is not possible.
    """
    step = offset(reversal.loop.step)
    if not reversal.is_innermost or step not in ((None, 1), (None, -1)) or any(p.parallel for p in reversal.loops):
        return None
    restores: list[Step] = []
    delayed: list[Step] = []
    for name in names:
        restore = _hoistable_restores(reversal, name, step[1])
        waiting = [] if restore else _delayable_additions(reversal, name, step[1])
        if not restore and not waiting:
            return None
        restores += restore
        delayed += waiting
    for s in restores:
        reversal.body.remove(s)
    head = loop_head(reversal.loop)
    after: list[Item] = []
    for element in dict.fromkeys(s.target for s in delayed):
        same = [s for s in delayed if s.target is element]
        after.append(head.with_body([_store_in_row(reversal, same)]))
    reversal.recollect_accesses()
    return [head.with_body([*restores])] if restores else [], after


def _hoistable_restores(reversal: LoopReversal, name: str, step: int) -> list[Step]:
    """The step that restores elements of an array, if it may run for all iterations before anything else; else none."""
    direct = [s for s in reversal.body if isinstance(s, Step) and s.name == name]
    every = [s for s, _ in reversal.steps if s.name == name]
    if len(direct) != 1 or direct != every or not _is_tape_read(reversal, direct[0]):
        return []
    (s,) = direct
    assert isinstance(s.target, Element)
    index, before = s.target.index, Accessed(reversal.body[: reversal.body.index(s)]).elements.get(name, ())
    # If several iterations restore an element, the value of the first must win.
    repeated = reversal.plan.dependence_tests.may_conflict(reversal.loop, index, index, True)
    if repeated or not all(reversal.provably_differ(index, other) for other in before):
        return []
    return [] if any(_may_precede(reversal, index, read, step) for read in reversal.read.get(name, ())) else direct


def _is_tape_read(reversal: LoopReversal, s: Step) -> bool:
    """Whether a step reads a value from a tape at a slot that is known before the iteration."""
    tapes = reversal.reverse.arrays_of_tapes
    if s.assign_op != "=" or not isinstance(s.value, Element) or s.value.array not in tapes:
        return False
    varying = {*names_written(reversal.loop), *(t.name for t, _ in reversal.steps)} - {reversal.loop.index}
    return not varying & (reads(*s.evaluated()) - {s.name})


def _delayable_additions(reversal: LoopReversal, name: str, step: int) -> list[Step]:
    """The steps that add to elements which other iterations consumed before; none if one of them cannot be delayed."""
    consumed = {*reversal.stored.get(name, ()), *reversal.read.get(name, ())}
    meet = reversal.plan.dependence_tests.may_conflict
    if any(meet(reversal.loop, a, b, True) for a in reversal.stored.get(name, ()) for b in consumed):
        return []
    delayed: list[Step] = []
    for index, adds in reversal.added.get(name, {}).items():
        if not any(meet(reversal.loop, index, b, True) for b in consumed):
            continue
        rest = index[:-1]
        movable = all(depth == 0 for _, depth in adds) and reversal.is_invariant(*rest)
        if not movable or not reversal.follows_variable(name, index, len(rest), reversal.loop):
            return []
        if not all(reversal.provably_differ(index, b) and not _may_precede(reversal, b, index, step) for b in consumed):
            return []
        delayed += [s for s, _ in adds]
    return delayed


def _may_precede(reversal: LoopReversal, a: Index, b: Index, step: int) -> bool:
    """Whether an iteration of the original loop may access an element `a` that is the `b` of a later one."""
    one, other = (a, b) if step > 0 else (b, a)
    return reversal.plan.dependence_tests.may_conflict_forward(reversal.loop, one, other)


def _store_in_row(reversal: LoopReversal, adds: list[Step]) -> Step:
    """Store what an iteration adds to an element in a row instead; return the step that adds the row."""
    target = adds[0].target
    assert isinstance(target, Element)
    array, last = target.array, len(target.index) - 1
    row = reversal.reverse.named(reversal.loop, f"{array}_late", str(target))
    reversal.reverse.hoist_before_loop(Bind((row,), called(np.empty, Length(array, last), DType(array))))
    element = Element(row, target.index[-1:])
    for k, s in enumerate(adds):
        s.target = element
        if k == 0:
            s.value, s.assign_op = s.value if s.assign_op == "+=" else negative(s.value), "="
    return Step(target, "+=", element)
