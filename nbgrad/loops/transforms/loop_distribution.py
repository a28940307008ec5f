"""Loops of the sweep back whose turns become free of each other when something is done before them, or after them.

In ``v[i] = p * v[i] + q * v[i + 1]`` each turn reads an element that a later one overwrites. Undone from the last turn
on, it needs what that later turn has put back, and adds to a cotangent that the later turn has taken already. So all
elements can as well be put back first, and what is added to neighbours can wait in a row until all turns are undone.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ..ir.affine import joined, offset, parts
from ..ir.reverse_ir import Item, Nest, Step, loop_head, negative
from ..ir.statements import changed, parsed, reads, unparse
from .loop_fusion import Used

if TYPE_CHECKING:
    from .loop_reversal import Turns

__all__ = ["postponed"]


def postponed(turns: Turns, names: list[str]) -> tuple[list[Item], list[Item]] | None:
    """Free the turns of a loop of what they have to do with each other, which is in the arrays `names`; what goes
    before the loop and after it, or None if that is not possible, and nothing has been changed."""
    step = offset(turns.loop.step)
    if not turns.inner or step not in (("", 1), ("", -1)) or any(p.parallel for p in turns.loops):
        return None
    back: list[Step] = []
    late: list[Step] = []
    for name in names:
        first = _put_back(turns, name, step[1])
        waiting = [] if first else _added(turns, name, step[1])
        if not first and not waiting:
            return None
        back += first
        late += waiting
    for s in back:
        turns.body.remove(s)
    head = loop_head(turns.loop)
    after: list[Item] = []
    for element in dict.fromkeys(unparse(s.target) for s in late):
        found = [s for s in late if unparse(s.target) == element]
        after.append(Nest(head, [_wait(turns, found)]))
    turns.look()
    return [Nest(head, list(back))] if back else [], after


def _put_back(turns: Turns, name: str, step: int) -> list[Step]:
    """The step that puts elements of an array back, if all turns could take it before anything else is undone."""
    found = [s for s in turns.body if isinstance(s, Step) and s.name == name]
    every = [s for s, _ in turns.steps if s.name == name]
    if len(found) != 1 or found != every or not _fetched(turns, found[0]):
        return []
    (s,) = found
    assert isinstance(s.target, ast.Subscript)
    index, early = s.target.slice, Used(turns.body[: turns.body.index(s)]).elements.get(name, ())
    again = turns.plan.independence.meet(turns.loop, index, index, True)  # the first of several is to remain
    if again or not all(turns.differ(index, joined(places)) for places in early):
        return []
    return [] if any(_first(turns, index, parsed(read), step) for read in turns.read.get(name, ())) else found


def _fetched(turns: Turns, s: Step) -> bool:
    """Whether a step takes a value from a tape, at a place that is known before the turn."""
    value = parsed(s.value)
    tapes = turns.reverse.arrays_of_tapes
    if s.how != "=" or not isinstance(value, ast.Subscript) or unparse(value.value) not in tapes:
        return False
    moving = {*changed(turns.loop), *(t.name for t, _ in turns.steps)} - {turns.loop.index}
    return not moving & (reads(*s.read()) - {s.name})


def _added(turns: Turns, name: str, step: int) -> list[Step]:
    """The steps that add to elements of an array, which other turns have taken before; none if one cannot wait."""
    taken = {*turns.stored.get(name, ()), *turns.read.get(name, ())}
    meet = turns.plan.independence.meet
    if any(meet(turns.loop, parsed(a), parsed(b), True) for a in turns.stored.get(name, ()) for b in taken):
        return []
    late: list[Step] = []
    for index, found in turns.added.get(name, {}).items():
        node = parsed(index)
        if not any(meet(turns.loop, node, parsed(b), True) for b in taken):
            continue
        rest = parts(node)[:-1]
        alone = all(depth == 0 for _, depth in found) and turns.constant(*rest)
        if not alone or not turns.along(name, index, len(rest), turns.loop):
            return []
        if not all(turns.differ(node, parsed(b)) and not _first(turns, parsed(b), node, step) for b in taken):
            return []
        late += [s for s, _ in found]
    return late


def _first(turns: Turns, a: ast.expr, b: ast.expr, step: int) -> bool:
    """Whether a turn of the function may meet an element `a` that is the `b` of a turn after it."""
    one, other = (a, b) if step > 0 else (b, a)
    return turns.plan.independence.precedes(turns.loop, one, other)


def _wait(turns: Turns, found: list[Step]) -> Step:
    """Let a turn put what it adds to an element into a row; what adds it."""
    target = found[0].target
    assert isinstance(target, ast.Subscript)
    *rest, last = parts(target.slice)
    row = turns.reverse.named(turns.loop, f"{found[0].name}_late", unparse(target.slice))
    turns.reverse.before_all(f"{row} = np.empty({found[0].name}.shape[{len(rest)}], {found[0].name}.dtype)")
    element = ast.Subscript(ast.Name(row), last, ast.Load())
    for k, s in enumerate(found):
        s.target = element
        if k == 0:
            s.value, s.how = s.value if s.how == "+=" else negative(s.value), "="
    return Step(target, "+=", unparse(element))
