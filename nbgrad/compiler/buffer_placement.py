"""Where values are kept.

That follows from where they are used. What is used in the turn of the loop that computes it is a local variable; what
is used in another loop of the same turn of an outer one is kept in the scratch memory, with just the axes that the
shared loops do not have; what is given back, or read in some other way than point by point, is an array.

What no other kernel reads has memory for as long as the kernel's loops at the top need it. Each such array is apart
from all others, for the compiler to see: so it can reorder what it does with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dtypes import DType
from ..core.shapes import size
from ..ir.graph import Value
from .memory_plan import Slots
from .parallel_chunks import Chunks, layout
from .schedule import Block, Loop, Program, reduced
from .statements import Axis, Statement

__all__ = ["WHOLE", "Place", "Places", "home", "position"]

#: Statements whose value has the axes of their loops, in the order of an array.
_REGULAR = ("map", "sum", "max", "min", "product")
#: Statements that write into an array of zeros, or are given arrays as they are: these have no element too many.
WHOLE = ("embed", "scatter", "product", "opaque")


class Place:
    """Where the elements of a value are: in which array, and at which position for which indices."""

    __slots__ = ("array", "coefficients", "dtype")

    def __init__(self, array: str, dtype: DType, coefficients: Sequence[tuple[Axis, int]]) -> None:
        self.array = array
        self.dtype = dtype
        self.coefficients = list(coefficients)


class Places:
    """The places of the values of some statements.

    Attributes
    ----------
    kept : dict
        Value -> its place, if it has one in memory.
    arrays : list of str
        Names of the arrays among them that the kernel is given.
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
        self.kept: dict[Value, Place] = {}
        self.arrays: list[str] = []
        self.slots = Slots("s")
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
            if s.value in program.full or s.how not in _REGULAR:
                self.kept[s.value] = self._array(s, k)
            else:
                self._keep(s, k, readers.get(s.value, []))

    def _own(self, s: Statement, n: int, item: int, exact: bool) -> str:
        """An array for `n` elements of what `s` computes, in the loop of this number at the top."""
        return self.slots.take(s.value.dtype, n, item, self._last.get(s.value, item), exact)

    def _array(self, s: Statement, item: int) -> Place:
        coefficients = []
        stride = 1
        if s.how in _REGULAR and s.axes:
            for k, n in zip(reversed(s.kept), reversed(s.value.shape), strict=True):
                if n != 1:
                    coefficients.append((s.axes[k].root(), stride))
                stride *= n
        if self.chunks is not None and s in self.chunks.partial:
            name = f"q{self.chunks.partial.index(s)}"
            own = [(axis, n) for axis, n, _ in layout(s, self.program)]
            return Place(name, s.value.dtype, [(self.chunks.axis, size(s.value.shape)), *own[::-1]])
        if s.value in self.names:
            name = self.names[s.value]
            self.arrays.append(name)
        else:
            name = self._own(s, size(s.value.shape), item, exact=s.how in WHOLE)
        return Place(name, s.value.dtype, coefficients[::-1])

    def _keep(self, s: Statement, item: int, readers: list[Statement]) -> None:
        """Scratch memory for a value, if some reader is not where it is a local variable."""
        complete, spread = home(s, self.program)
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
        coefficients, n = [], 1
        for a in reversed(axes):
            coefficients.append((a, n))
            n *= a.extent
        self.kept[s.value] = Place(self._own(s, n, item, exact=False), s.value.dtype, coefficients[::-1])


def _begins(path: list[Loop], start: list[Loop]) -> bool:
    return len(start) <= len(path) and all(a is b for a, b in zip(start, path))


def home(s: Statement, program: Program) -> tuple[list[Loop], list[Axis]]:
    """The loops in a turn of which a value is complete, and the axes of it that run inside of that."""
    path = program.paths[s]
    gone = reduced(s, program)
    for k, loop in enumerate(path):
        if loop.axis in gone:
            return path[:k], [loop.axis for loop in path[k:] if loop.axis not in gone]
    return path, []


def position(terms: Sequence[tuple[Axis, int]], offset: int, combo: dict[Axis, int]) -> str:
    """Code for a position: the sum of `offset` and of axes by coefficients; `combo`: places on written-out axes."""
    code = ""
    for axis, c in terms:
        if axis in combo:
            offset += c * combo[axis]
            continue
        n = axis.number
        i = f"j{n}" if isinstance(axis, Block) and axis.inner else f"o{n}" if isinstance(axis, Block) else f"i{n}"
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
