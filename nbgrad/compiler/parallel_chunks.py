"""Loops at the top that are long enough for several threads.

Such a loop is a kernel of its own, which runs a range of *chunks*: some turns of the loop each, as many as sizes alone
say. What is added up over all turns is added up for each chunk apart, and a kernel that follows combines that in order.
So the result is the same, bit for bit, however many threads there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..arrays.templates import load, store
from ..backends.threads import GRAIN
from ..core.shapes import size
from ..ir.expr import order
from ..ir.graph import Value
from .schedule import Loop, Program, reduced
from .statements import Axis, Statement

__all__ = ["COMBINE", "Chunks", "chunked", "layout", "together"]

COMBINE = {"sum": "add({0}, {1})", "max": "greater({0}, {1})", "min": "smaller({0}, {1})"}
#: Chunks of a loop at most.
_MOST = 64
#: What is combined is at most such a part of the work.
_SHARE = 100


@dataclass(frozen=True)
class Chunks:
    """How a loop is cut.

    Attributes
    ----------
    axis : Axis
        Counts the chunks.
    length : int
        Turns in one of them.
    weight : int
        The work in one of them, as threads count it.
    partial : list of Statement
        What is added up over all turns.
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
        """Where the chunk's own results of a statement begin."""
        return f"np.int64(i{self.axis.number}) * {size(s.value.shape)}"


def chunked(item: Loop | Statement, program: Program) -> Chunks | None:
    """The chunks of a loop, if threads can share it and it is worth it."""
    if isinstance(item, Statement):
        return None
    inside = list(item.statements())
    if any(s.how == "embed" for s in inside):  # into zeros that must be there before
        return None
    partial = [s for s in inside if s.how == "scatter" or item.axis in reduced(s, program)]
    whole = sum(map(_cost, inside))
    turns = item.axis.extent
    combined = sum(size(s.value.shape) for s in partial)
    count = min(turns, whole // GRAIN, _MOST, whole // (_SHARE * max(combined, 1)))
    if count < 2:
        return None
    length = -(-turns // count)
    count = -(-turns // length)
    number = 1 + max(axis.root().number for s in inside for axis in s.axes)
    return Chunks(item, Axis(count, number), length, whole // count, partial)


def _cost(s: Statement) -> int:
    """The work that a statement is, as threads count it: an operation in a vector register is a sixteenth."""
    points = size([axis.extent for axis in s.axes])
    if s.how == "product":
        return points // 8
    operations = sum(32 if node.fn.helpers else 1 for node in order([s.expr]) if node.fn is not None)
    return points * (1 + operations) // 16


def layout(s: Statement, program: Program) -> list[tuple[Axis, int, int]]:
    """The axes of a result, innermost first, with the steps along them in a chunk's result and in the whole one.

    In a chunk's, those that are written out are outermost: so the elements that are added to in a loop are neighbours.
    """
    found, stride = [], 1
    for k in reversed(s.kept):
        axis = s.axes[k].root()
        if axis.extent != 1:
            found.append((axis, stride))
        stride *= axis.extent
    result, n = [], 1
    for axis, step in sorted(found, key=lambda pair: pair[0] in program.unrolled[s]):
        result.append((axis, n, step))
        n *= axis.extent
    return result


def together(name: str, chunks: Chunks, program: Program, names: dict[Value, str]) -> tuple[str, list[str]]:
    """The function that combines what was added up, and the results' names, its first arguments."""
    lines: list[str] = []
    for k, s in enumerate(chunks.partial):
        dtype, n = s.value.dtype, size(s.value.shape)
        how = s.how if s.how in COMBINE else "sum"
        compute = "int64" if not dtype.is_float else "float64" if how == "sum" else dtype.compute
        axes = [(axis.extent, a, b) for axis, a, b in layout(s, program)] if s.how in COMBINE else [(n, 1, 1)]
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
            f"{pad}    x = {'x + y' if how == 'sum' else COMBINE[how].format('x', 'y')}",
            f"{pad}{names[s.value]}[{at}] = {store(dtype, 'x', compute)}",
        ]
    outs = [names[s.value] for s in chunks.partial]
    arguments = ", ".join([*outs, *(f"q{k}" for k in range(len(outs)))])
    return "\n".join([f"def {name}({arguments}):", *lines]) + "\n", outs
