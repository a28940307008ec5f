"""Loops of the sweep back that follow each other as one.

What one loop leaves in the cache, or in a register, the next one finds there: two loops over the same turns become one
where each turn of the second needs nothing of what later turns of the first change, but for elements that are put back:
these can have a loop of their own before. An element that is added to in a turn, and taken back to zero, is a number
then. What gathers from neighbours goes along with the loop that it follows, a row behind, or with that which takes what
is gathered.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..analysis.iteration_local_reversal import name_of
from ..analysis.must_execute import surely
from ..analysis.parallelization import first, sums_of
from ..ir.affine import joined, offset, parts
from ..ir.reverse_ir import Comment, Item, Nest, Step, exchange, loop_of, negative
from ..ir.statements import Alloc, Call, Function, Statement, Swap, children, reads, unparse, uses, walk, writes

if TYPE_CHECKING:
    from ..analysis.activity import Plan

__all__ = ["Gather", "Used", "hand_over", "merged", "read_once", "set_once"]


@dataclass(eq=False)
class Gather(Nest):
    """A branch that adds what turns of the loop before it have for their neighbours.

    As much can be done at the end of each turn (`inside`), so that less remains (`rest`), if later turns do not meet
    what was added to: rows of `targets`, by the axis, and the shift against the turn.
    """

    loop: str = ""
    inside: list[Item] = field(default_factory=list)
    rest: list[Item] = field(default_factory=list)
    targets: dict[str, tuple[int, int]] = field(default_factory=dict)


def read_once(f: Function, made: Plan) -> dict[str, Statement]:
    """The local arrays that are read for derivatives at one place, in a loop, and the statement there."""
    places = [(name_of(atom), s) for s, pull in made.pulls.items() for atom, _ in pull.parts]
    count = Counter(name for name, _ in places)
    moving = {n for s in walk(f.body) if isinstance(s, Swap | Call) for n in (*writes(s), *uses(s))}
    own = {s.name for s in walk(f.body) if isinstance(s, Alloc)} - moving - {*f.parameters, *(f.results or [])}
    return {n: s for n, s in places if n in own and count[n] == 1 and made.enclosing[s]}


def merged(items: list[Item], passing: dict[str, str]) -> list[Item]:
    """`items`, a block, with fewer loops. They are changed. Arrays in `passing` are zero, but for what one statement
    adds before another one takes it; with the name that a number can have instead."""
    made: list[Item] = []
    for item in items:
        if isinstance(item, Gather):
            item = _gathered(made, item)
        elif isinstance(item, Nest) and loop_of(item):
            if _joined(made, item, passing):
                continue
            _begin_with_gathered(made, item)
        made.append(item)
    for array in sorted(passing.keys() & {item.name for item in made if isinstance(item, Step)}):
        hand_over(made, array, passing[array])
    _leave(made)
    set_once(made, lambda a, b: False)
    return made


def _joined(made: list[Item], loop: Nest, passing: dict[str, str]) -> bool:
    """Whether `loop` became a part of the last one in `made`."""
    at, steps, notes = _since_last(made)
    before = made[at] if at >= 0 else None
    if not isinstance(before, Nest) or before.head != loop.head:
        return False
    first, last = _around(steps, before, loop)
    if len(first) + len(last) < len(steps):
        return False
    early: list[Item] = []
    rest = before
    if not _may_join(before, loop):
        early, rest = _parted(before, Used([loop]).names)
        if not early or not _may_join(rest, loop):
            return False
    notes = [note for note in notes if note not in made[max(at - 1, 0) : at]]
    rest.body = merged([*rest.body, *notes, *loop.body], passing)
    made[at:] = [*first, *early, rest, *last]
    return True


def _since_last(made: list[Item]) -> tuple[int, list[Step], list[Comment]]:
    """The place of the last loop or branch, and the steps and notes after it; -1 if there is more than these."""
    at = len(made) - 1
    while at >= 0 and not isinstance(made[at], Nest):
        at -= 1
    steps = [item for item in made[at + 1 :] if isinstance(item, Step)]
    notes = [item for item in made[at + 1 :] if isinstance(item, Comment)]
    return at if len(steps) + len(notes) == len(made) - at - 1 else -1, steps, notes


def _around(steps: list[Step], before: Nest, after: Nest) -> tuple[list[Step], list[Step]]:
    """Of the steps between two loops, those that could as well be before the first, and those that could be after the
    second."""
    first: list[Step] = []
    last: list[Step] = []
    for s in steps:
        waits = any({s.name, *_reads(s)} & {t.name, *_reads(t)} for t in last)
        if not waits and _may_pass(s, before):
            first.append(s)
        elif _may_pass(s, after):
            last.append(s)
    return first, last


def _parted(loop: Nest, names: set[str]) -> tuple[list[Item], Nest]:
    """`loop` as two: what only sets elements of arrays in `names`, to what no turn changes, and the rest."""
    used = Used([loop])
    alone = {n for n in used.changed & names - used.whole if len(used.elements[n]) == 1}
    first, rest = _divided(loop, alone, used.written)
    return [first] if first.body and used.plain else [], rest


def _divided(loop: Nest, alone: set[str], written: set[str]) -> tuple[Nest, Nest]:
    first, rest = Nest(loop.head), Nest(loop.head)
    for item in loop.body:
        head = loop_of(item) if isinstance(item, Nest) else None
        if isinstance(item, Nest) and head is not None and not reads(head.iter) & written:
            inner, late = _divided(item, alone, written)
            first.body += [inner] if inner.body else []
            rest.body += [late] if not all(isinstance(i, Comment) for i in late.body) else []
        elif isinstance(item, Step) and item.how == "=" and item.name in alone and not _reads(item) & written:
            first.body.append(item)
        else:
            rest.body.append(item)
    return first, rest


def _reads(s: Step) -> set[str]:
    return {n for node in s.read() for n in reads(node)}


def hand_over(body: list[Item], array: str, number: str) -> None:
    """Let a number have what is added to an element and taken in the same turn."""
    met = [k for k, item in enumerate(body) if array in Used([item]).elements]
    add, take = body[met[0]], body[met[-1]]
    if not isinstance(add, Step) or not isinstance(take, Step) or add.how == "=" or add.name != array or add is take:
        return
    element = unparse(add.target)
    used = Used(body[met[0] : met[-1] + 1])
    if (
        not (take.zeroes and unparse(take.target) == element)
        or {unparse(ast.Subscript(ast.Name(array), joined(e))) for e in used.elements[array]} != {element}
        or array in used.whole | reads(*add.read())
        or reads(*used.elements[array][0]) & used.written
    ):
        return
    for k in met:
        exchange(body[k], {element: number})
    if add.how == "-=":
        add.value = negative(add.value)
    add.how = "="
    body.remove(take)


def _zeroed(body: list[Item]) -> list[Step]:
    """What sets elements to zero."""
    return [s for s in body if isinstance(s, Step) and isinstance(s.target, ast.Subscript) and s.zeroes]


def _places(s: Step) -> set[str]:
    """What the index of an element consists of: numbers, and arrays of integers."""
    assert isinstance(s.target, ast.Subscript)
    return reads(s.target.slice)


def _leave(body: list[Item]) -> None:
    """Leave elements alone that are taken, set to zero, and get back just what they were."""
    for zero in _zeroed(body):
        later = body[body.index(zero) + 1 :]
        back = next((s for s in later if zero.name in Used([s]).names), None)
        if isinstance(back, Step) and back.how == "+=" and _gets_back(body, zero, back):
            between = later[: later.index(back)]
            if Used(between).plain and not Used(between).written & _places(zero):
                body.remove(zero)
                body.remove(back)


def _gets_back(body: list[Item], zero: Step, back: Step) -> bool:
    """Whether what is added to an element, which was set to zero, is what had been taken right before."""
    at, element = body.index(zero), unparse(zero.target)
    taken = body[at - 1] if at else None
    return (
        isinstance(taken, Step)
        and isinstance(taken.target, ast.Name)
        and taken.how == "="
        and taken.value == element
        and unparse(back.target) == element
        and back.value in _copies(taken.name, body[at + 1 : body.index(back)])
    )


def set_once(body: list[Item], differ: Callable[[ast.expr, ast.expr], bool]) -> None:
    """Set elements once that are set to zero, and then added to; those that are met in between surely `differ`."""
    for zero in _zeroed(body):
        assert isinstance(zero.target, ast.Subscript)
        at, index = body.index(zero), zero.target.slice
        back = next((s for s in body[at + 1 :] if _meets(s, zero.name, index, differ)), None)
        if (
            isinstance(back, Step)
            and back.how != "="
            and unparse(back.target) == unparse(zero.target)
            and zero.name not in reads(*back.read())
            and not Used(body[at + 1 : body.index(back)]).written & _places(zero)
            and not _gets_back(body, zero, back)
        ):
            back.value, back.how = back.value if back.how == "+=" else negative(back.value), "="
            body.remove(zero)


def _meets(item: Item, name: str, index: ast.expr, differ: Callable[[ast.expr, ast.expr], bool]) -> bool:
    """Whether an item may meet the element of an array at `index`."""
    used = Used([item])
    return (
        not used.plain or name in used.whole or not all(differ(index, joined(e)) for e in used.elements.get(name, ()))
    )


def _copies(name: str, items: list[Item]) -> set[str]:
    """The numbers that are the same as `name` before `items`."""
    same = {name}
    for item in items:
        if isinstance(item, Step) and item.how == "=" and item.value in same:
            same.add(item.name)
        elif isinstance(item, Step | Nest):
            same -= Used([item]).numbers
    return same


def _may_pass(s: Step, loop: Nest) -> bool:
    """Whether a step after `loop` could as well be before it, or one before it after it."""
    used = Used([loop])
    return s.name not in used.names and not _reads(s) & used.written


class Used:
    """What `items` read and write: `elements` by the array, `whole` names that are not those of elements; `plain` if
    there are only assignments, branches and loops."""

    def __init__(self, items: list[Item]) -> None:
        self.elements: dict[str, list[list[ast.expr]]] = {}
        self.whole: set[str] = set()
        self.numbers: set[str] = set()
        self.changed: set[str] = set()
        self.plain = True
        stack = list(items)
        while stack:
            item = stack.pop()
            if isinstance(item, Nest):
                self._look(item.first)
                stack += item.body
            elif isinstance(item, Step):
                for node in (item.target, *item.read()):
                    self._look(node)
                (self.numbers if isinstance(item.target, ast.Name) else self.changed).add(item.name)
            else:
                self.plain = self.plain and isinstance(item, Comment)

    def _look(self, tree: ast.AST) -> None:
        stack = [tree]
        while stack:
            node = stack.pop()
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                self.elements.setdefault(node.value.id, []).append(parts(node.slice))
                stack.append(node.slice)
            elif isinstance(node, ast.Name):
                self.whole.add(node.id)
            elif not isinstance(node, ast.Attribute):  # an array's shape, or a module
                stack += children(node)

    @property
    def names(self) -> set[str]:
        return self.whole | self.elements.keys()

    @property
    def written(self) -> set[str]:
        return self.numbers | self.changed


def _may_join(a: Nest, b: Nest) -> bool:
    """Whether each turn of `b` may come right after that of `a`."""
    one, other = Used(a.body), Used(b.body)
    head = loop_of(a)
    written = one.written | other.written
    if not (one.plain and other.plain) or head is None or reads(head.iter) & written:
        return False
    for array in one.changed | other.changed:
        here, there = one.elements.get(array, []), other.elements.get(array, [])
        if array in one.whole | other.whole or (here and there and not _apart(head, [*here, *there])):
            return False
    sums = sums_of(a.body) & sums_of(b.body)
    both = (one.numbers | other.numbers) & one.names & other.names - sums
    return all("read" not in (first(a.body, n), first(b.body, n)) for n in both)


def _apart(head: ast.For, elements: list[list[ast.expr]]) -> bool:
    """Whether each turn meets elements of its own: along one axis, all are at the same place."""
    for k in range(len(elements[0])):
        if len({unparse(e[k]) for e in elements}) == 1:
            name, shift = offset(elements[0][k])
            if name == unparse(head.target) and (least := _least(head)) is not None and least + shift >= 0:
                return True
    return False


def _least(head: ast.For) -> int | None:
    """The least that a loop's variable can be, if that is a constant."""
    assert isinstance(head.iter, ast.Call)
    bounds = [offset(n) for n in head.iter.args]
    start, step = bounds[0] if len(bounds) > 1 else ("", 0), bounds[2] if len(bounds) > 2 else ("", 1)
    if step[0]:
        return None
    name, least = start if step[1] > 0 else (bounds[1][0], bounds[1][1] + 1)
    return None if name else least


def _gathered(made: list[Item], gather: Gather) -> Nest:
    """What remains of `gather` where the last of `made` is its loop and does its part."""
    loop = made[-1] if made else None
    if not isinstance(loop, Nest) or loop.head != gather.loop or not gather.inside:
        return gather
    head, used = loop_of(loop), Used(loop.body)
    if head is None or not used.plain:
        return gather
    index = unparse(head.target)
    for array, (axis, shift) in gather.targets.items():
        places = [offset(e[axis]) for e in used.elements.get(array, ())]
        if array in used.whole or not all(name == index and k >= shift for name, k in places):
            return gather
    loop.body += gather.inside
    return Nest(gather.head, gather.rest, gather.test)


def _begin_with_gathered(made: list[Item], loop: Nest) -> None:
    """Let each turn of `loop` begin with what a gather right before it adds to an element that the turn meets."""
    at, steps, _ = _since_last(made)
    gather = made[at] if at >= 0 else None
    if not isinstance(gather, Gather):
        return
    parts = [n for n in gather.body if isinstance(n, Nest) and all(_may_pass(s, n) for s in steps) and _begins(n, loop)]
    if parts:
        gather.body = [n for n in gather.body if n not in parts]
        loop.body[:0] = [step for n in parts for step in n.body]
        made[at : at + 1] = [gather] if gather.body else []


def _begins(part: Nest, loop: Nest) -> bool:
    """Whether turns of `loop` may begin with those of a part of a gather. They meet the elements that it adds to in any
    case, so these are there though nothing may be gathered; it adds zeros then."""
    head, step = loop_of(loop), part.body[0]
    if part.head != loop.head or head is None or len(part.body) > 1 or not isinstance(step, Step):
        return False
    least = _least(head)
    if least is None or least < 0:
        return False
    element, steps = unparse(step.target), [item for item in loop.body if isinstance(item, Step)]
    met = any(unparse(s.target) == element or any(element in surely(n) for n in s.read()) for s in steps)
    return met and _may_join(part, loop)
