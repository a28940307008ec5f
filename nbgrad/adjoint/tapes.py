"""Where values are stored for the sweep back."""

from __future__ import annotations

import ast

from .indices import minus
from .ir import Function, Loop, changed, reads, unparse
from .steps import Item, Step

__all__ = ["Tape", "tape_for", "trips"]


class Tape:
    """One statement's stored values.

    With loops around the statement whose numbers of turns are known when the outermost begins, an array with an axis
    per loop; else a stack that grows; without loops, one variable.
    """

    def __init__(
        self, name: str, dtype: str, sizes: list[str] | None, index: list[str], loops: tuple[Loop, ...]
    ) -> None:
        self.name = name
        self.top = f"{name}_top"
        self.dtype = dtype
        self.sizes = sizes
        self.index = ", ".join(index)
        self.loops = loops

    def allocate(self) -> list[str]:
        if self.sizes is None:
            return [f"{self.name} = np.empty(64, {self.dtype})", f"{self.top} = 0"]
        shape = self.sizes[0] if len(self.sizes) == 1 else f"({', '.join(self.sizes)})"
        return [f"{self.name} = large_empty({shape}, {self.dtype})"] if self.sizes else []

    def bounds(self) -> set[str]:
        """The names on which its size depends."""
        return {n for p in self.loops for n in reads(p.start, p.stop, p.step)} if self.sizes else set()

    def nbytes(self) -> str:
        """Code for the bytes in use, after the loop."""
        return f"{self.top} * {self.name}.itemsize" if self.sizes is None else f"{self.name}.nbytes"

    def nbytes_before(self) -> str | None:
        """Code for the bytes of the array, before it is made; None for a stack."""
        item = f"{self.dtype.removesuffix('.dtype')}.itemsize" if self.dtype.endswith(".dtype") else "8"
        return None if self.sizes is None else " * ".join([item, *(f"({n})" for n in self.sizes)])

    def record(self, value: str) -> list[str]:
        if self.sizes is None:
            return [
                f"if {self.top} == {self.name}.size:",
                f"    {self.name} = grown({self.name})",
                f"{self.name}[{self.top}] = {value}",
                f"{self.top} += 1",
            ]
        return [f"{self.name}[{self.index}] = {value}" if self.sizes else f"{self.name} = {value}"]

    def fetch(self, target: ast.expr) -> list[Item]:
        if self.sizes is None:
            return [f"{self.top} -= 1", Step(target, "=", f"{self.name}[{self.top}]")]
        return [Step(target, "=", f"{self.name}[{self.index}]" if self.sizes else self.name)]


def tape_for(name: str, dtype: str, loops: tuple[Loop, ...], f: Function) -> Tape:
    if not loops:
        return Tape(name, dtype, [], [], loops)
    changing = changed(loops[0])
    known = all(p.index and not p.count for p in loops)
    known = known and not any(reads(p.start, p.stop, p.step) & changing for p in loops)
    known = known and len({p.index for p in loops}) == len(loops)
    if not known:
        return Tape(name, dtype, None, [], loops)
    return Tape(name, dtype, [trips(p) for p in loops], [_turn(p) for p in loops], loops)


def trips(loop: Loop) -> str:
    """Code for the number of turns."""
    start, stop, step = unparse(loop.start), unparse(loop.stop), unparse(loop.step)
    if step != "1":
        return f"len(range({start}, {stop}, {step}))"
    if start == "0" and ".shape[" in stop and isinstance(loop.stop, ast.Subscript):
        return stop
    return f"max({unparse(loop.stop) if start == '0' else unparse(minus(loop.stop, loop.start))}, 0)"


def _turn(loop: Loop) -> str:
    start, step = unparse(loop.start), unparse(loop.step)
    first = loop.index if start == "0" else unparse(minus(ast.Name(loop.index, ast.Load()), loop.start))
    return first if step == "1" else f"({first}) // {unparse(ast.UnaryOp(ast.UAdd(), loop.step))[1:]}"
