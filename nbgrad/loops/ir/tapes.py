"""Where values are stored for the sweep back."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from .affine import minus, plus
from .reverse_ir import Item, Step
from .statements import Assign, Loop, changed, parsed, reads, unparse, walk, writes

__all__ = ["GROWN", "Stack", "Tape", "grows_by_one", "head_back", "trips", "turn_of"]

#: More room for a tape.
GROWN = """def grown(tape, size):
    larger = np.zeros(max(2 * tape.size, size), tape.dtype)
    for k in range(tape.size):
        larger[k] = tape[k]
    return larger
"""


class Stack:
    """The room for tapes of statements in the same loops, of which it is not known how many turns they have when the
    outermost begins. It grows by all turns at once of the innermost loops whose numbers are known when the first of
    these begins, or else by one turn of the innermost loop: `frame` is that loop. If turns depend on nothing but turns
    around them, they are counted before, and there is room for all (`whole` is how many); `bounds` are the numbers that
    must be set for that before each of the loops."""

    def __init__(self, loops: tuple[Loop, ...], known: int) -> None:
        self.top = ""  # what tells how much is used
        self.tapes: list[Tape] = []
        self.whole = ""
        self.loops = loops
        self.around, inner = loops[:known], loops[known:]
        self.by_one = not inner
        self.frame = inner[0] if inner else loops[-1]
        self.bounds = _bounds(loops)
        self.counted = bool(inner) and self.bounds is not None
        sizes = [trips(p) for p in inner]
        self.room = " * ".join(sizes if len(sizes) < 2 else [f"({n})" for n in sizes]) or "1"

    def reserve(self) -> list[str]:
        """Code that makes room, before anything is recorded there."""
        if self.whole:
            return []
        lines = [f"    {t.name} = grown({t.name}, {self.top} + {self.room})" for t in self.tapes]
        return [f"if {self.top} + {self.room} > {self.tapes[0].name}.size:", *lines]

    def push(self) -> list[str]:
        """Code that goes on behind what was recorded."""
        return [f"{self.top} += {self.room}"]

    def pop(self) -> list[str]:
        """Code that goes back to the latest values."""
        return [f"{self.top} -= {self.room}"]


class Tape:
    """One statement's stored values.

    With loops around the statement whose numbers of turns are known when the outermost begins, an array with an axis
    per loop. For one loop whose number of turns is not known, a vector that grows before turns; `turn` is the loop's
    variable in the sweep back, if it has none. Else a part of a stack, one of `stacks`. Without loops, one variable.
    """

    def __init__(
        self, name: str, dtype: str, loops: tuple[Loop, ...], turn: str, stacks: dict[tuple[object, ...], Stack],
        fresh: Callable[[str], str],
    ) -> None:  # fmt: skip
        self.name = name
        self.dtype = dtype
        self.loops = loops
        known = known_from(loops)
        inner = loops[known:]
        sizes, turns = [trips(p) for p in inner], [turn_of(p) for p in inner]
        self.sizes = None if known else sizes
        self.by_turn = known == len(loops) == 1
        self.stack: Stack | None = None
        self.index = ", ".join(turns)
        if self.by_turn:
            self.used = loops[0].count
            self.index = turn_of(loops[0]) if loops[0].index else f"{self.used} - 1"
        elif known:
            stack = Stack(loops, known)
            self.stack = stacks.setdefault((stack.around, stack.frame, stack.room), stack)
            self.stack.top = self.stack.top or fresh(f"{name}_top")
            self.stack.tapes.append(self)
            self.used = self.stack.top
            flat = turns[0] if turns else ""
            for size, place in zip(sizes[1:], turns[1:], strict=True):
                flat = f"({flat}) * ({size}) + {place}"
            self.index = f"{self.used} + {flat}" if flat else self.used
        self.back = turn if self.by_turn and not loops[0].index else self.index  # in the sweep back

    def allocate(self) -> list[str]:
        if self.stack is not None:
            whole = self.stack.whole
            made = [f"{self.name} = np.empty({whole or 512}, {self.dtype})"]
            made += [f"in_large_pages({self.name})"] if whole else []
            return [*made, *([f"{self.stack.top} = 0"] if self is self.stack.tapes[0] else [])]
        if self.sizes is None:
            return [f"{self.name} = np.empty(512, {self.dtype})"]
        shape = self.sizes[0] if len(self.sizes) == 1 else f"({', '.join(self.sizes)})"
        made = [f"{self.name} = np.empty({shape}, {self.dtype})"]
        return [*made, f"in_large_pages({self.name})"] if self.sizes else []

    def grows_in(self, loop: Loop) -> bool:
        """Whether room is made, or used, in the turns of `loop`."""
        frame = self.stack.frame if self.stack is not None and not self.stack.by_one else None
        return self.sizes is None and not (frame in self.loops and loop in self.loops[self.loops.index(frame) :])

    def bounds(self) -> set[str]:
        """The names on which its size depends."""
        return {n for p in self.loops for n in reads(p.start, p.stop, p.step)} if self.sizes else set()

    def nbytes(self) -> str:
        """Code for its bytes, after the loop."""
        return f"{self.name}.nbytes"

    def nbytes_before(self) -> str | None:
        """Code for the bytes of the array, before it is made; None for a stack."""
        dtype = parsed(self.dtype)
        of_array = isinstance(dtype, ast.Attribute) and dtype.attr == "dtype"
        item = f"{unparse(dtype.value)}.itemsize" if of_array else "8"  # type: ignore[attr-defined]
        return None if self.sizes is None else " * ".join([item, *(f"({n})" for n in self.sizes)])

    def record(self, value: str) -> list[str]:
        return [f"{self.name}[{self.index}] = {value}" if self.sizes != [] else f"{self.name} = {value}"]

    def fetch(self, target: ast.expr) -> list[Item]:
        return [Step(target, "=", f"{self.name}[{self.back}]" if self.sizes != [] else self.name)]


def known_from(loops: tuple[Loop, ...]) -> int:
    """The place of the first of the loops whose numbers of turns are known when it begins."""
    known = len(loops)
    while known and _known(loops[known - 1 :]):
        known -= 1
    return known


def grows_by_one(loops: tuple[Loop, ...]) -> bool:
    """Whether what is stored in the last of the loops is on a stack that grows by one turn."""
    return len(loops) > 1 and known_from(loops) == len(loops)


def _known(loops: tuple[Loop, ...]) -> bool:
    """Whether the numbers of turns are known when the first of the loops begins."""
    changing = changed(loops[0])
    return all(p.index and not p.count and not reads(p.start, p.stop, p.step) & changing for p in loops) and len(
        {p.index for p in loops}
    ) == len(loops)


def _bounds(loops: tuple[Loop, ...]) -> dict[Loop, list[Assign]] | None:
    """What sets the numbers in the bounds of each loop, in the turns of loops around; None if the numbers of turns
    depend on anything else that changes."""
    if not all(p.index and not p.count for p in loops):
        return None
    set_once = Counter(n for s in walk([loops[0]]) for n in writes(s))
    changing = set(set_once) - {p.index for p in loops}
    wanted = {n for p in loops for n in reads(p.start, p.stop, p.step)} & changing
    found: dict[Loop, list[Assign]] = {p: [] for p in loops}
    for around, inner in reversed(list(pairwise(loops))):
        at = around.body.index(inner) if inner in around.body else 0
        for s in reversed(around.body[:at]):
            if isinstance(s, Assign) and s.name in wanted and set_once[s.name] == 1:
                found[inner].insert(0, s)
                wanted = (wanted - {s.name}) | (reads(s.value) & changing)
    return None if wanted else found


def trips(loop: Loop) -> str:
    """Code for the number of turns."""
    start, stop, step = unparse(loop.start), unparse(loop.stop), unparse(loop.step)
    if step == "-1":
        return f"max({unparse(minus(loop.start, loop.stop))}, 0)"
    if step != "1":
        return f"len(range({start}, {stop}, {step}))"
    if start == "0" and ".shape[" in stop and isinstance(loop.stop, ast.Subscript):
        return stop
    return f"max({unparse(loop.stop) if start == '0' else unparse(minus(loop.stop, loop.start))}, 0)"


def turn_of(loop: Loop) -> str:
    """Code for the number of the turn at hand."""
    start, step = unparse(loop.start), unparse(loop.step)
    first = loop.index if start == "0" else unparse(minus(ast.Name(loop.index, ast.Load()), loop.start))
    if step == "-1":
        return unparse(minus(loop.start, ast.Name(loop.index, ast.Load())))
    return first if step == "1" else f"({first}) // {unparse(ast.UnaryOp(ast.UAdd(), loop.step))[1:]}"


def head_back(s: Loop, turn: str) -> str:
    """The first line of a loop in the sweep back, over `turn`."""
    if not s.index:
        return f"for {turn} in range({s.count} - 1, -1, -1):"
    start, stop, step = s.start, s.stop, unparse(s.step)
    if s.count and step == "1":
        end: ast.expr = (
            ast.Name(s.count, ast.Load())
            if unparse(start) == "0"
            else ast.BinOp(start, ast.Add(), ast.Name(s.count, ast.Load()))
        )
        return f"for {s.index} in range({unparse(plus(end, -1))}, {unparse(plus(start, -1))}, -1):"
    if s.count:
        last = f"{unparse(start)} + ({s.count} - 1) * ({step})"
        return f"for {s.index} in range({last}, {unparse(start)} - ({step}), -({step})):"
    if step == "1":
        return f"for {s.index} in range({unparse(plus(stop, -1))}, {unparse(plus(start, -1))}, -1):"
    if step == "-1":
        return f"for {s.index} in range({unparse(plus(stop, 1))}, {unparse(plus(start, 1))}):"
    turns = f"len(range({unparse(start)}, {unparse(stop)}, {step}))"
    last = f"{unparse(start)} + ({turns} - 1) * ({step})"
    return f"for {s.index} in range({last}, {unparse(start)} - ({step}), -({step})):"
