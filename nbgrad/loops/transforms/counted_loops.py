"""Counted loops: ``while i < n: ...; i += 1`` becomes a loop over a range.

Its trip count is then known before it runs: tapes have their size, index checks their bounds, and what holds for loops
over ranges (:mod:`.selection_sinking`, vectorization, reversal without a counter) holds for it.
"""

from __future__ import annotations

from functools import partial

from ..ir.affine import plus
from ..ir.names import called
from ..ir.statements import (
    Assign,
    Block,
    Function,
    Grow,
    Loop,
    Swap,
    map_terms,
    nested_blocks,
    uses,
    walk,
    writes,
)
from ..ir.terms import Binary, Compare, Constant, Term, Unary, Variable, named, substitute
from ..ir.type_inference import kind_of

__all__ = ["count_loops"]

#: Comparisons that a counter passes upwards, and downwards, with what is added to the bound to make it exclusive.
_UP, _DOWN = {"<": 0, "<=": 1}, {">": 0, ">=": -1}


def count_loops(f: Function) -> None:
    """Rewrite the counted loops of `f`."""
    _count(f, f.body)


def _count(f: Function, block: Block) -> None:
    for s in list(block):
        for inner in nested_blocks(s):
            _count(f, inner)
        if isinstance(s, Loop) and (bounds := _range(f, s)) is not None:
            at = block.index(s)
            block[at : at + 1] = _counted(f, s, *bounds, block[:at])


def _range(f: Function, loop: Loop) -> tuple[str, Term, int] | None:
    """The counter, the bound and the step of a counted loop; None for others."""
    if loop.index or loop.exit_flag or not loop.body:
        return None
    last = loop.body[-1]
    match loop.test, last.value if isinstance(last, Assign) else None:
        case Compare((op,), (Variable(name), stop)), Binary("+" | "-" as sign, Variable(old), Constant(int() as n)):
            step = int(n) if sign == "+" else -int(n)
        case _:
            return None
    if not (isinstance(last, Assign) and last.name == name == old):
        return None
    ends = _UP if step > 0 else _DOWN
    if op not in ends or step == 0 or f.kinds.get(name) != "int" or kind_of(stop, f) != "int":
        return None
    inside = list(walk(loop.body))
    written = [n for s in inside for n in writes(s)]
    if written.count(name) != 1 or named(stop) & {*written} or any(isinstance(s, Grow | Swap) for s in inside):
        return None
    return name, plus(stop, ends[op]), step


def _counted(f: Function, loop: Loop, name: str, stop: Term, step: int, before: Block) -> Block:
    """The loop over a range, and what the counter is after it."""
    index = f.names.fresh(f"{name}_turn", plain=False)
    f.ranks[index], f.kinds[index] = 0, "int"
    start = _value_before(name, before)
    step_term = Constant(step) if step > 0 else Unary("-", Constant(-step))
    loop.body.pop()
    if loop.trip_counter:
        loop.body = [s for s in loop.body if not (isinstance(s, Assign) and s.name == loop.trip_counter)]
    for s in walk(loop.body):
        map_terms(s, partial(substitute, terms={Variable(name): Variable(index)}))
    loop.index, loop.start, loop.stop, loop.step, loop.test = index, start, stop, step_term, None
    loop.trip_counter = ""
    inside = {loop, *walk(loop.body)}
    later = any(name in uses(s) for s in walk(f.body) if s not in inside) or name in (f.results or [])
    if isinstance(start, Constant) and not later:
        return [loop]
    trips = called(len, called(range, start, stop, step_term))
    moved = trips if step == 1 else Binary("*", trips, step_term)
    return [loop, Assign(name, Binary("+", start, moved))]


def _value_before(name: str, before: Block) -> Term:
    """The value of a counter where a loop begins: the constant that it was just set to, or the counter itself."""
    for s in reversed(before):
        if isinstance(s, Assign) and s.name == name:
            return s.value if isinstance(s.value, Constant) else Variable(name)
        if any(name in writes(t) for t in walk([s])):
            break
    return Variable(name)
