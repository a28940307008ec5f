"""Buffer placement: decide for each value whether it lives in a local variable, in scratch memory or in an array.

The uses of a value decide. A value used in the iteration of the loop that computes it is a local variable. One used in
another loop of the same iteration of an outer loop lives in scratch memory, with just the axes that the shared loops do
not have. A result, or a value that is not read pointwise, is an array.

A value that no other kernel reads has memory for as long as the kernel's top-level loops need it. The compiler sees
that each such array aliases no other, so it can reorder accesses.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dtypes import DType
from ..core.shapes import size, strides_of
from ..ir.graph import Value
from .memory_plan import SharedBuffers
from .parallel_chunks import Chunks, result_layout
from .reductions import REDUCTIONS
from .schedule import Loop, Program, TileAxis, reduction_axes
from .statements import Axis, Statement

__all__ = ["EXACT_LENGTH", "BufferLocation", "BufferPlacement", "defining_scope", "flat_index"]

#: Statements whose value has the axes of their loops, in the order of the array's axes.
_REGULAR = ("map", *REDUCTIONS, "product")
#: Statements that write into an array of zeros, or get whole arrays as arguments: the array has its exact length.
EXACT_LENGTH = ("embed", "scatter", "product", "opaque")


class BufferLocation:
    """The location of a value: the array, and the coefficients that map indices to a position in it."""

    __slots__ = ("array", "coefficients", "dtype")

    def __init__(self, array: str, dtype: DType, coefficients: Sequence[tuple[Axis, int]]) -> None:
        self.array = array
        self.dtype = dtype
        self.coefficients = list(coefficients)


class BufferPlacement:
    """The locations of the values of some statements.

    Attributes
    ----------
    location_of : dict
        Value -> its location, if it is in memory.
    arrays : list of str
        Names of the arrays among them that are arguments of the kernel.
    slots : Slots
        The kernel's own arrays.
    """

    def __init__(
        self,
        items: Sequence[Loop | Statement],
        program: Program,
        names: dict[Value, str],
        chunks: Chunks | None,
    ) -> None:
        self.program = program
        self.chunks = chunks
        self.names = names
        self.location_of: dict[Value, BufferLocation] = {}
        self.arrays: list[str] = []
        self.slots = SharedBuffers("s")
        inside = [
            (k, s) for k, item in enumerate(items) for s in (item.statements() if isinstance(item, Loop) else [item])
        ]
        readers: dict[Value, list[Statement]] = {}
        self._last: dict[Value, int] = {}
        for k, s in inside:
            for access in s.reads:
                self._last[access.value] = k
                if access.pointwise is not None:
                    readers.setdefault(access.value, []).append(s)
        for k, s in inside:
            if s.value in program.materialized_values or s.how not in _REGULAR:
                self.location_of[s.value] = self._array(s, k)
            else:
                self._place_scratch(s, k, readers.get(s.value, []))

    def _allocate_slot(self, s: Statement, n: int, item: int, exact: bool) -> str:
        """An array for `n` elements of what `s` computes, in the top-level loop of this number."""
        return self.slots.allocate_for(s.value.dtype, n, item, self._last.get(s.value, item), exact)

    def _array(self, s: Statement, item: int) -> BufferLocation:
        coefficients = []
        if s.how in _REGULAR and s.axes:
            steps = zip(s.kept, s.value.shape, strides_of(s.value.shape), strict=True)
            coefficients = [(s.axes[k].root(), step) for k, n, step in steps if n != 1]
        if self.chunks is not None and s in self.chunks.partial:
            name = f"q{self.chunks.partial.index(s)}"
            own = [(axis, n) for axis, n, _ in result_layout(s, self.program)]
            return BufferLocation(name, s.value.dtype, [(self.chunks.axis, size(s.value.shape)), *own[::-1]])
        if s.value in self.names:
            name = self.names[s.value]
            self.arrays.append(name)
        else:
            name = self._allocate_slot(s, size(s.value.shape), item, exact=s.how in EXACT_LENGTH)
        return BufferLocation(name, s.value.dtype, coefficients)

    def _place_scratch(self, s: Statement, item: int, readers: list[Statement]) -> None:
        """Scratch memory for a value, if some reader is outside the scope of its local variable."""
        complete, spread = defining_scope(s, self.program)
        others = [r for r in readers if spread or not _begins(self.program.paths[r], complete)]
        if not others and not spread:
            return
        shared = len(complete)
        for r in others:
            path = self.program.paths[r]
            shared = min(shared, next((k for k, (a, b) in enumerate(zip(complete, path)) if a is not b), len(path)))
        outside = {loop.axis for loop in complete[:shared]}
        axes = [
            part
            for k in s.kept
            if s.axes[k].extent != 1
            for part in self.program.parts(s.axes[k].root())
            if part not in outside
        ]
        rank = {a: n for n, a in enumerate(self.program.loops[s])}
        axes.sort(key=lambda a: rank.get(a, -1))
        extents = tuple([a.extent for a in axes])
        self.location_of[s.value] = BufferLocation(
            self._allocate_slot(s, size(extents), item, exact=False),
            s.value.dtype,
            list(zip(axes, strides_of(extents), strict=True)),
        )


def _begins(path: list[Loop], start: list[Loop]) -> bool:
    return len(start) <= len(path) and all(a is b for a, b in zip(start, path))


def defining_scope(s: Statement, program: Program) -> tuple[list[Loop], list[Axis]]:
    """The loops in whose iterations a value is complete, and the axes of the value that run inside these."""
    path = program.paths[s]
    reduction = reduction_axes(s, program)
    for k, loop in enumerate(path):
        if loop.axis in reduction:
            return path[:k], [loop.axis for loop in path[k:] if loop.axis not in reduction]
    return path, []


def flat_index(terms: Sequence[tuple[Axis, int]], offset: int, combo: dict[Axis, int]) -> str:
    """Code for a flat index: the sum of `offset` and of axes times coefficients.

    `combo` are the indices on unrolled axes.
    """
    code = ""
    for axis, c in terms:
        if axis in combo:
            offset += c * combo[axis]
            continue
        n = axis.number
        i = f"j{n}" if isinstance(axis, TileAxis) and axis.inner else f"o{n}" if isinstance(axis, TileAxis) else f"i{n}"
        part = i if abs(c) == 1 else f"{i} * u({abs(c)})"
        code = f"{code} {'-' if c < 0 else '+'} {part}" if code or c < 0 else part
    if code.startswith(" - "):
        code = f"u({offset}){code}" if offset > 0 else f"u(0){code}"
        offset = 0 if offset > 0 else offset
    if not code:
        return f"u({offset})"
    if offset:
        code += f" + u({offset})" if offset > 0 else f" - u({-offset})"
    return code
