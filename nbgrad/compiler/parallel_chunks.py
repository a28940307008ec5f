"""Parallel chunks: split long top-level loops over several threads.

Such a loop is a kernel of its own, which runs a range of *chunks*: a number of iterations each that depends on sizes
only. What is reduced over all iterations is reduced within each chunk, and a second kernel combines the partial results
in order. So results are the same, bit for bit, for any number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays.templates import load, store
from ..backends.threads import GRAIN
from ..core.shapes import size, strides_of
from ..ir.expr import topological_order
from ..ir.graph import Value
from .reductions import REDUCTIONS, accumulation_type, combined
from .schedule import Loop, Program, reduction_axes
from .statements import Axis, Statement

__all__ = ["Chunks", "choose_chunks", "combine_chunks", "result_layout"]

#: The maximum number of chunks of a loop.
_MAX_CHUNKS = 64
#: Combining partial results may take 1 / _SHARE of the work at most.
_SHARE = 100


@dataclass(frozen=True)
class Chunks:
    """How a loop is split.

    Attributes
    ----------
    axis : Axis
        Counts the chunks.
    length : int
        Iterations in a chunk.
    weight : int
        The work of a chunk, in the units of the thread scheduler.
    partial : list of Statement
        The reductions over all iterations.
    """

    loop: Loop
    axis: Axis
    length: int
    weight: int
    partial: list[Statement]

    @property
    def count(self) -> int:
        return self.axis.extent

    def begin(self, s: Statement) -> str:
        """Where the chunk's partial results of a statement begin."""
        return f"np.int64(i{self.axis.number}) * {size(s.value.shape)}"


def choose_chunks(item: Loop | Statement, program: Program) -> Chunks | None:
    """The chunks of a loop, if threads can run it and that pays."""
    if isinstance(item, Statement):
        return None
    inside = list(item.statements())
    if any(s.how == "embed" for s in inside):  # it needs zeros before
        return None
    partial = [s for s in inside if s.how == "scatter" or item.axis in reduction_axes(s, program)]
    whole = sum(map(_cost, inside))
    trip_count = item.axis.extent
    combined = sum(size(s.value.shape) for s in partial)
    count = min(trip_count, whole // GRAIN, _MAX_CHUNKS, whole // (_SHARE * max(combined, 1)))
    if count < 2:
        return None
    length = -(-trip_count // count)
    count = -(-trip_count // length)
    number = 1 + max(axis.root().number for s in inside for axis in s.axes)
    return Chunks(item, Axis(count, number), length, whole // count, partial)


def _cost(s: Statement) -> int:
    """The work of a statement, in the units of the thread scheduler: a vectorized operation counts a sixteenth."""
    points = size([axis.extent for axis in s.axes])
    if s.how == "product":
        return points // 8
    operations = sum(32 if node.fn.helpers else 1 for node in topological_order([s.expr]) if node.fn is not None)
    return points * (1 + operations) // 16


def result_layout(s: Statement, program: Program) -> list[tuple[Axis, int, int]]:
    """The axes of a result, innermost first, with the strides in a chunk's result and in the whole one.

    In a chunk's result, unrolled axes are outermost, so that the elements accumulated into within a loop are
    contiguous.
    """
    axes = [s.axes[k].root() for k in s.kept]
    strides = zip(axes, strides_of(tuple([axis.extent for axis in axes])), strict=True)
    moving = [(axis, step) for axis, step in strides if axis.extent != 1]
    moving.sort(key=lambda pair: pair[0] not in program.unrolled[s])
    own = strides_of(tuple([axis.extent for axis, _ in moving]))
    return [(axis, n, step) for (axis, step), n in zip(moving, own, strict=True)][::-1]


def combine_chunks(name: str, chunks: Chunks, program: Program, names: dict[Value, str]) -> tuple[str, list[str]]:
    """The function that combines partial results, and the names of the results, its first arguments."""
    lines: list[str] = []
    for k, s in enumerate(chunks.partial):
        dtype, n = s.value.dtype, size(s.value.shape)
        how = s.how if s.how in REDUCTIONS else "sum"
        compute = accumulation_type(how, dtype)
        axes = [(axis.extent, a, b) for axis, a, b in result_layout(s, program)] if s.how in REDUCTIONS else [(n, 1, 1)]
        pad = "    "
        for d, (extent, _, _) in enumerate(reversed(axes)):
            lines.append(f"{pad}for i{len(axes) - 1 - d} in range(u({extent})):")
            pad += "    "
        own = " + ".join([f"i{d} * u({a})" for d, (_, a, _) in enumerate(axes)]) or "u(0)"
        at = " + ".join([f"i{d} * u({b})" for d, (_, _, b) in enumerate(axes)]) or "u(0)"
        lines += [
            f"{pad}x = np.{compute}({load(dtype, f'q{k}[{own}]')})",
            f"{pad}for c in range(u(1), u({chunks.count})):",
            f"{pad}    y = np.{compute}({load(dtype, f'q{k}[c * u({n}) + {own}]')})",
            f"{pad}    x = {combined(how, 'x', 'y')}",
            f"{pad}{names[s.value]}[{at}] = {store(dtype, 'x', compute)}",
        ]
    outs = [names[s.value] for s in chunks.partial]
    arguments = ", ".join([*outs, *(f"q{k}" for k in range(len(outs)))])
    return "\n".join([f"def {name}({arguments}):", *lines]) + "\n", outs
