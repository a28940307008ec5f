"""Reduction privatization: let iterations of a parallel loop accumulate into shared scalars and arrays.

Cotangents of weights are such reductions. The iterations are divided into a few chunks, each with scalars and arrays of
its own, which are added up in order when all have run. The number of chunks depends on the number of iterations, not of
threads, so results are reproducible. Arrays are privatized only where each iteration adds to about as many elements as
they have: otherwise the final summation would cost more than the iterations.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ir.affine import axis_indices, offset
from ..ir.reverse_ir import Item, Nest, Step, as_range_loop, loops_over, steps
from ..ir.statements import Loop, parse, reads, unparse
from ..ir.tapes import trip_count

if TYPE_CHECKING:
    from ..analysis.parallelization import LoopReduction

__all__ = ["PrivatizedArray", "chunked_loop", "privatizable_arrays"]

#: The maximum number of chunks, and the minimum number of iterations in each: zeroing and adding the arrays of a chunk
#: takes about as long as an iteration. The last is the number of chunks where only scalars are reduced.
_MAX_REDUCTION_CHUNKS, _MIN_ITERATIONS, _SCALAR_CHUNKS = 16, 4, 64


@dataclass
class PrivatizedArray:
    """An array that iterations accumulate into, and the array with the private copies of all chunks.

    Attributes
    ----------
    lengths : list of str
        The shape of a private copy: along axes with constant indices only, no longer than these require.
    """

    name: str
    array: str
    lengths: list[str]
    axes: list[str]  # loop variables over its axes


def privatizable_arrays(body: list[Item], counter: str) -> dict[str, list[str]]:
    """The arrays that may be privatized, with the lengths of a private copy; `body` is an iteration of `counter`."""
    additions = _Additions(body, counter)
    return {n: additions.lengths(n) for n in additions.indices if n not in additions.other}


class _Additions:
    """The indices of elements that iterations add to, and the arrays that are used in other ways."""

    def __init__(self, body: list[Item], counter: str) -> None:
        self.indices: dict[str, list[list[ast.expr]]] = {}
        self.other: set[str] = set()
        numbers = {s.name for s, _ in steps(body) if isinstance(s.target, ast.Name)}
        self.changed = {counter, *numbers, *_loop_variables(body)}
        self._collect_additions(body, frozenset())

    def _collect_additions(self, body: list[Item], counted: frozenset[str]) -> None:
        """Collect them; `counted`: the variables of enclosing loops that have the same iterations each time."""
        for item in body:
            if isinstance(item, Nest):
                head = as_range_loop(item)
                self.other |= reads(item.head_tree) if head is None else reads(head.iter)
                invariant = head is not None and not reads(head.iter) & self.changed
                self._collect_additions(
                    item.body, counted | {unparse(head.target)} if head is not None and invariant else counted
                )
            elif isinstance(item, Step):
                self.other |= {n for node in item.evaluated_nodes() for n in reads(node)}
                if isinstance(item.target, ast.Subscript):
                    index = axis_indices(item.target.slice)
                    self.indices.setdefault(item.name, []).append(index)
                    if item.assign_op == "=" or not _covers_array(index, counted):
                        self.other.add(item.name)

    def lengths(self, name: str) -> list[str]:
        shape: list[str] = []
        for d, axis in enumerate(zip(*self.indices[name], strict=True)):
            full = f"{name}.shape[{d}]"
            constants = [p.value for p in axis if isinstance(p, ast.Constant)]
            shape.append(f"min({max(constants) + 1}, {full})" if len(constants) == len(axis) else full)  # type: ignore
        return shape


def _loop_variables(body: Iterable[Item]) -> set[str]:
    counters: set[str] = set()
    for item in body:
        if isinstance(item, Nest):
            head = as_range_loop(item)
            counters |= _loop_variables(item.body) | ({unparse(head.target)} if head is not None else set())
    return counters


def _covers_array(index: list[ast.expr], counted: frozenset[str]) -> bool:
    """Whether each axis of an index is traversed by a loop of its own, or has a constant index."""
    loops = [offset(p)[0] for p in index if not isinstance(p, ast.Constant)]
    fixed = [p.value for p in index if isinstance(p, ast.Constant)]
    return set(loops) <= counted and len(set(loops)) == len(loops) and all(k >= 0 for k in fixed)  # type: ignore


def chunked_loop(
    loop: Loop, body: list[Item], sums: dict[str, LoopReduction], shares: list[PrivatizedArray], part: str, count: str
) -> list[Item]:
    """A parallel loop over chunks of the iterations, each of which consists of `body`.

    `count` is a name for the number of chunks, if that depends on the number of iterations.
    """
    count = count if shares else str(_SCALAR_CHUNKS)
    arrays = {s.name: s.array for s in shares}
    for step, _ in steps(body):
        if step.name in arrays and isinstance(step.target, ast.Subscript):
            step.target = _element(arrays[step.name], [part, *map(unparse, axis_indices(step.target.slice))])
    trips, start = trip_count(loop), "" if unparse(loop.start) == "0" else f"{unparse(loop.start)} + "
    first, last = (f"{start}{trips} * {k} // {count}" for k in (part, f"({part} + 1)"))
    count_chunks = Step(ast.Name(count), "=", f"max(min({_MAX_REDUCTION_CHUNKS}, {trips} // {_MIN_ITERATIONS}), 1)")
    before: list[Item] = [count_chunks] if shares else []
    before += [Step(ast.Name(s.array), "=", f"np.empty({count}, {s.dtype})") for s in sums.values()]
    inside: list[Item] = [
        *(Step(ast.Name(s.partial_sum), "=", s.zero) for s in sums.values()),
        Nest(f"for {loop.index} in range({first}, {last}):", body),
        *(Step(_element(s.array, [part]), "=", s.partial_sum) for s in sums.values()),
    ]
    total: list[Item] = [Step(ast.Name(n), "+=", unparse(_element(s.array, [part]))) for n, s in sums.items()]
    after: list[Item] = [Nest(f"for {part} in range({count}):", total)] if sums else []
    for s in shares:
        before.append(Step(ast.Name(s.array), "=", f"np.zeros(({', '.join([count, *s.lengths])}), {s.name}.dtype)"))
        index = [part, *s.axes]
        after.append(
            loops_over(s.array, index, Step(_element(s.name, s.axes), "+=", unparse(_element(s.array, index))))
        )
    return [*before, Nest(f"for {part} in prange({count}):", inside), *after]


def _element(array: str, index: list[str]) -> ast.expr:
    return parse(f"{array}[{', '.join(index)}]")
