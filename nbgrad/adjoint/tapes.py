"""Where values are stored for the sweep back."""

from __future__ import annotations

import ast

from .indices import minus
from .ir import Loop, changed, reads, unparse
from .steps import Item, Step

__all__ = ["Tape", "tape_for", "trips", "turn_of"]


class Tape:
    """One statement's stored values.

    With loops around the statement whose numbers of turns are known when the outermost begins, an array with an axis
    per loop. For one loop whose number of turns is not known, a vector that grows before turns; `turn` is the loop's
    variable in the sweep back, if it has none. Else a stack, which grows by all turns at once of the innermost loops
    whose numbers are known when the first of these, `frame`, begins. Without loops, one variable.
    """

    def __init__(self, name: str, dtype: str, loops: tuple[Loop, ...], known: int, turn: str) -> None:
        self.name = name
        self.top = f"{name}_top"
        self.used = self.top
        self.dtype = dtype
        self.loops = loops
        inner = loops[known:]
        sizes, turns = [trips(p) for p in inner], [turn_of(p) for p in inner]
        self.sizes = None if known else sizes
        self.frame = inner[0] if known and inner else None
        self.by_turn = known == len(loops) == 1
        self.single = bool(known) and not inner and not self.by_turn  # whether a stack grows by one value
        self.room = " * ".join(sizes if len(sizes) < 2 else [f"({n})" for n in sizes]) or "1"
        self.index = ", ".join(turns)
        if self.by_turn:
            self.used = loops[0].count
            self.index = turn_of(loops[0]) if loops[0].index else f"{self.used} - 1"
        elif known:
            flat = turns[0] if turns else ""
            for size, place in zip(sizes[1:], turns[1:], strict=True):
                flat = f"({flat}) * ({size}) + {place}"
            self.index = f"{self.top} + {flat}" if flat else self.top
        self.back = turn if self.by_turn and not loops[0].index else self.index  # in the sweep back

    def allocate(self) -> list[str]:
        if self.sizes is None:
            return [f"{self.name} = np.empty(512, {self.dtype})", *([] if self.by_turn else [f"{self.top} = 0"])]
        shape = self.sizes[0] if len(self.sizes) == 1 else f"({', '.join(self.sizes)})"
        made = f"{self.name} = np.empty({shape}, {self.dtype})"
        return [made, f"in_large_pages({self.name})"] if self.sizes else []

    def grows_in(self, loop: Loop) -> bool:
        """Whether room is made in the turns of `loop`."""
        return self.sizes is None and not (
            self.frame in self.loops and loop in self.loops[self.loops.index(self.frame) :]
        )

    def bounds(self) -> set[str]:
        """The names on which its size depends."""
        return {n for p in self.loops for n in reads(p.start, p.stop, p.step)} if self.sizes else set()

    def nbytes(self) -> str:
        """Code for the bytes in use, after the loop."""
        return f"{self.used} * {self.name}.itemsize" if self.sizes is None else f"{self.name}.nbytes"

    def nbytes_before(self) -> str | None:
        """Code for the bytes of the array, before it is made; None for a stack."""
        item = f"{self.dtype.removesuffix('.dtype')}.itemsize" if self.dtype.endswith(".dtype") else "8"
        return None if self.sizes is None else " * ".join([item, *(f"({n})" for n in self.sizes)])

    def reserve(self) -> list[str]:
        """Code that makes room in a stack, before what is recorded there."""
        return [
            f"if {self.top} + {self.room} > {self.name}.size:",
            f"    {self.name} = grown({self.name}, {self.top} + {self.room})",
        ]

    def push(self) -> list[str]:
        """Code that goes on behind what was recorded in a stack."""
        return [f"{self.top} += {self.room}"]

    def pop(self) -> list[str]:
        """Code that goes back to the latest values in a stack."""
        return [f"{self.top} -= {self.room}"]

    def record(self, value: str) -> list[str]:
        if self.sizes == []:
            return [f"{self.name} = {value}"]
        lines = [f"{self.name}[{self.index}] = {value}"]
        return [*self.reserve(), *lines, *self.push()] if self.single else lines

    def fetch(self, target: ast.expr) -> list[Item]:
        before: list[Item] = [*self.pop()] if self.single else []
        return [*before, Step(target, "=", f"{self.name}[{self.back}]" if self.sizes != [] else self.name)]


def tape_for(name: str, dtype: str, loops: tuple[Loop, ...], turn: str = "") -> Tape:
    known = len(loops)
    while known and _known(loops[known - 1 :]):
        known -= 1
    return Tape(name, dtype, loops, known, turn)


def _known(loops: tuple[Loop, ...]) -> bool:
    """Whether the numbers of turns are known when the first of the loops begins."""
    changing = changed(loops[0])
    return all(p.index and not p.count and not reads(p.start, p.stop, p.step) & changing for p in loops) and len(
        {p.index for p in loops}
    ) == len(loops)


def trips(loop: Loop) -> str:
    """Code for the number of turns."""
    start, stop, step = unparse(loop.start), unparse(loop.stop), unparse(loop.step)
    if step != "1":
        return f"len(range({start}, {stop}, {step}))"
    if start == "0" and ".shape[" in stop and isinstance(loop.stop, ast.Subscript):
        return stop
    return f"max({unparse(loop.stop) if start == '0' else unparse(minus(loop.stop, loop.start))}, 0)"


def turn_of(loop: Loop) -> str:
    """Code for the number of the turn at hand."""
    start, step = unparse(loop.start), unparse(loop.step)
    first = loop.index if start == "0" else unparse(minus(ast.Name(loop.index, ast.Load()), loop.start))
    return first if step == "1" else f"({first}) // {unparse(ast.UnaryOp(ast.UAdd(), loop.step))[1:]}"
