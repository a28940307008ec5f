"""Reduction privatization: let iterations of a parallel loop accumulate into shared scalars and arrays.

Cotangents of weights are such reductions. The iterations are divided into a few chunks, each with scalars and arrays of
its own, which are added up in order when all have run. The number of chunks depends on the number of iterations, not of
threads, so results are reproducible. Arrays are privatized only where each iteration adds to about as many elements as
they have: otherwise the final summation would cost more than the iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..ir.affine import offset
from ..ir.names import called
from ..ir.reverse_ir import For, Item, Nest, Step, loops_over, steps
from ..ir.statements import Loop
from ..ir.tapes import trip_count
from ..ir.terms import (
    ONE,
    ZERO,
    Binary,
    Constant,
    DType,
    Element,
    Length,
    Term,
    Tuple,
    Variable,
    integer,
    reads,
    variables,
)

if TYPE_CHECKING:
    from ..analysis.dependence import Index
    from ..analysis.parallelization import LoopReduction

__all__ = ["PrivatizedArray", "chunked_loop", "privatizable_arrays", "zeros"]

#: The maximum number of chunks, and the minimum number of iterations in each: zeroing and adding the arrays of a chunk
#: takes about as long as an iteration. The last is the number of chunks where only scalars are reduced.
_MAX_REDUCTION_CHUNKS, _MIN_ITERATIONS, _SCALAR_CHUNKS = 16, 4, 64


@dataclass
class PrivatizedArray:
    """An array that iterations accumulate into, and the array with the private copies of all chunks.

    Attributes
    ----------
    lengths : list of Term
        The shape of a private copy: along axes with constant indices only, no longer than these require.
    """

    name: str
    array: str
    lengths: list[Term]
    axes: list[str]  # loop variables over its axes


def privatizable_arrays(body: list[Item], counter: str) -> dict[str, list[Term]]:
    """The arrays that may be privatized, with the lengths of a private copy; `body` is an iteration of `counter`."""
    additions = _Additions(body, counter)
    return {n: additions.lengths(n) for n in additions.indices if n not in additions.other}


class _Additions:
    """The indices of elements that iterations add to, and the arrays that are used in other ways."""

    def __init__(self, body: list[Item], counter: str) -> None:
        self.indices: dict[str, list[Index]] = {}
        self.other: set[str] = set()
        numbers = {s.name for s, _ in steps(body) if isinstance(s.target, Variable)}
        self.changed = {counter, *numbers, *_loop_variables(body)}
        self._collect_additions(body, frozenset())

    def _collect_additions(self, body: list[Item], counted: frozenset[Term]) -> None:
        """Collect them; `counted`: the variables of enclosing loops that have the same iterations each time."""
        for item in body:
            if isinstance(item, Nest):
                serial, inner = isinstance(item, For) and not item.parallel, counted
                read = reads(*(item.bounds if isinstance(item, For) and serial else item.terms))
                self.other |= read
                if isinstance(item, For) and serial and not read & self.changed:
                    inner |= {Variable(item.index)}
                self._collect_additions(item.body, inner)
            elif isinstance(item, Step):
                self.other |= reads(*item.evaluated())
                if isinstance(item.target, Element):
                    index = item.target.index
                    self.indices.setdefault(item.name, []).append(index)
                    if item.assign_op == "=" or not _covers_array(index, counted):
                        self.other.add(item.name)

    def lengths(self, name: str) -> list[Term]:
        shape: list[Term] = []
        for d, axis in enumerate(zip(*self.indices[name], strict=True)):
            full = Length(name, d)
            constants = [p.value for p in axis if isinstance(p, Constant)]
            needed = len(constants) == len(axis)
            shape.append(called(min, integer(max(constants) + 1), full) if needed else full)  # type: ignore[arg-type]
        return shape


def _loop_variables(body: Iterable[Item]) -> set[str]:
    counters: set[str] = set()
    for item in body:
        if isinstance(item, Nest):
            counters |= _loop_variables(item.body)
            counters |= {item.index} if isinstance(item, For) and not item.parallel else set()
    return counters


def _covers_array(index: Index, counted: frozenset[Term]) -> bool:
    """Whether each axis of an index is traversed by a loop of its own, or has a constant index."""
    loops = [offset(p)[0] for p in index if not isinstance(p, Constant)]
    fixed = [p.value for p in index if isinstance(p, Constant)]
    return set(loops) <= counted and len(set(loops)) == len(loops) and all(k >= 0 for k in fixed)


def chunked_loop(
    loop: Loop, body: list[Item], sums: dict[str, LoopReduction], shares: list[PrivatizedArray], part: str, count: str
) -> list[Item]:
    """A parallel loop over chunks of the iterations, each of which consists of `body`.

    `count` is a name for the number of chunks, if that depends on the number of iterations.
    """
    chunk, chunks = Variable(part), Variable(count) if shares else Constant(_SCALAR_CHUNKS)
    arrays = {s.name: s.array for s in shares}
    for step, _ in steps(body):
        if step.name in arrays and isinstance(step.target, Element):
            step.target = Element(arrays[step.name], (chunk, *step.target.index))
    trips = trip_count(loop)

    def first_of(k: Term) -> Term:
        """The first iteration of the `k`-th chunk."""
        before = Binary("//", Binary("*", trips, k), chunks)
        return before if loop.start is ZERO else Binary("+", loop.start, before)

    fewest = Binary("//", trips, Constant(_MIN_ITERATIONS))
    most = called(max, called(min, Constant(_MAX_REDUCTION_CHUNKS), fewest), ONE)
    before: list[Item] = [Step(Variable(count), "=", most)] if shares else []
    before += [Step(Variable(s.array), "=", called(np.empty, chunks, s.dtype)) for s in sums.values()]
    inside: list[Item] = [
        *(Step(Variable(s.partial_sum), "=", s.zero) for s in sums.values()),
        For(loop.index, first_of(chunk), first_of(Binary("+", chunk, ONE)), body=body),
        *(Step(Element(s.array, (chunk,)), "=", Variable(s.partial_sum)) for s in sums.values()),
    ]
    total: list[Item] = [Step(Variable(n), "+=", Element(s.array, (chunk,))) for n, s in sums.items()]
    after: list[Item] = [For(part, ZERO, chunks, body=total)] if sums else []
    for s in shares:
        before.append(Step(Variable(s.array), "=", zeros([chunks, *s.lengths], s.name)))
        axes = variables(s.axes)
        add = Step(Element(s.name, axes), "+=", Element(s.array, (chunk, *axes)))
        after.append(loops_over(s.array, [part, *s.axes], add))
    return [*before, For(part, ZERO, chunks, parallel=True, body=inside), *after]


def zeros(lengths: Sequence[Term], like: str) -> Term:
    """A new array of zeros, with the dtype of the array `like`."""
    shape = lengths[0] if len(lengths) == 1 else Tuple(tuple(lengths))
    return called(np.zeros, shape, DType(like))
