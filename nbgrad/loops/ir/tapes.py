"""Tapes: storage for the values that the forward sweep records and the reverse sweep reads.

Where trip counts are known on entry to the outermost loop, a tape is an array with one axis per loop. Otherwise it is a
growing vector or stack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import reduce
from itertools import pairwise

import numpy as np

from ..runtime.tape_memory import in_large_pages
from .affine import minus, plus, total
from .effects import Bind, Evaluate, PopFrame, PushFrame
from .names import called
from .reverse_ir import Branch, For, Item, Step
from .statements import Assign, Grow, Loop, names_written, walk, writes
from .terms import (
    MINUS_ONE,
    ONE,
    ZERO,
    Binary,
    Call,
    Compare,
    Constant,
    DType,
    Element,
    Global,
    Length,
    Property,
    Term,
    Tuple,
    Unary,
    Variable,
    reads,
)

__all__ = [
    "GROWN",
    "Stack",
    "Tape",
    "ensure_capacity",
    "iteration_number",
    "pushes_per_iteration",
    "reversed_loop_head",
    "share_arrays",
    "trip_count",
]

_IN_LARGE_PAGES = Global("in_large_pages", in_large_pages)
#: From this number on, tapes that are allocated together share an array.
_MANY = 8
#: Extends a tape or list along its first axis, at least to twice its capacity.
GROWN = """def grown(tape, size):
    larger = np.zeros((max(2 * len(tape), size),) + tape.shape[1:], tape.dtype)
    for k in range(len(tape)):
        larger[k] = tape[k]
    return larger
"""


class Stack:
    """The stack shared by the tapes of statements in the same loops, where not all trip counts are known on entry to
    the outermost.

    It grows by frames: all iterations of the innermost loops whose trip counts are known on entry to the first of them,
    or else one iteration of the innermost loop. `frame` is the loop that a frame is for. If trip counts depend only on
    the variables of loops around, the iterations are counted beforehand and the full capacity, `whole`, is allocated at
    once; `bound_setters` are the scalars that counting must compute before each of the loops.
    """

    def __init__(self, loops: tuple[Loop, ...], known: int) -> None:
        self.top = ""  # the variable with the number of slots in use
        self.tapes: list[Tape] = []
        self.total_slots = ""
        self.loops = loops
        self.outer_loops, inner = loops[:known], loops[known:]
        self.frame_per_iteration = not inner
        self.frame = inner[0] if inner else loops[-1]
        self.bound_setters = _bound_setters(loops)
        self.presizable = bool(inner) and self.bound_setters is not None
        sizes = [trip_count(p) for p in inner]
        self.frame_size = reduce(lambda a, b: Binary("*", a, b), sizes) if sizes else ONE

    def reserve(self) -> list[Item]:
        """Ensure capacity for a frame, before anything is recorded in it."""
        needed = Binary("+", Variable(self.top), self.frame_size)
        return [] if self.total_slots else [ensure_capacity(self.tapes, ">", needed, needed)]

    def push(self) -> Item:
        """Advance past the frame recorded."""
        return PushFrame(self.top, self.frame_size)

    def pop(self) -> Item:
        """Go back to the latest frame."""
        return PopFrame(self.top, self.frame_size)


class Tape:
    """The stored values of one statement.

    Without loops around the statement, it is one variable. If the trip counts of the loops are known on entry to the
    outermost, it is an array with an axis per loop. For a single loop of unknown trip count, it is a vector that grows
    before iterations; `iteration` is the variable of a while loop in the reverse sweep. Otherwise it belongs to one of
    `stacks`, which are keyed by their loops and frame size. `array` is what holds it, and maybe others, `beside` it.
    """

    def __init__(
        self, name: str, dtype: Term, loops: tuple[Loop, ...], iteration: str, stacks: dict[tuple[object, ...], Stack],
        fresh: Callable[[str], str],
    ) -> None:  # fmt: skip
        self.name = self.array = name
        self.beside: list[Tape] = [self]
        self.dtype = dtype
        self.loops = loops
        known = first_counted_loop(loops)
        inner = loops[known:]
        sizes, iterations = [trip_count(p) for p in inner], [iteration_number(p) for p in inner]
        self.sizes = None if known else sizes
        self.grows_by_iteration = known == len(loops) == 1
        self.stack: Stack | None = None
        self.index: tuple[Term, ...] = tuple(iterations)
        if self.grows_by_iteration:
            self.used_slots = loops[0].trip_counter
            slot = iteration_number(loops[0]) if loops[0].index else Binary("-", Variable(self.used_slots), ONE)
            self.index = (slot,)
        elif known:
            stack = Stack(loops, known)
            self.stack = stacks.setdefault((stack.outer_loops, stack.frame, stack.frame_size), stack)
            self.stack.top = self.stack.top or fresh(f"{name}_top")
            self.stack.tapes.append(self)
            self.used_slots = self.stack.top
            slot = Variable(self.used_slots)
            if iterations:
                linear = iterations[0]
                for size, position in zip(sizes[1:], iterations[1:], strict=True):
                    linear = total(Binary("*", linear, size), position)
                slot = total(slot, linear)
            self.index = (slot,)
        # in the reverse sweep
        self.reverse_index = (Variable(iteration),) if self.grows_by_iteration and not loops[0].index else self.index

    def allocate(self) -> list[Item]:
        """Allocate the tape, and set the top of its stack to 0 if it is the first on it."""
        if self is not self.beside[0]:
            return []
        whole = self.stack.total_slots if self.stack is not None else ""
        size: Term = Variable(whole) if whole else Constant(512)
        if self.sizes is not None:
            sizes = (*self.sizes, *([Constant(len(self.beside))] if self.is_shared else []))
            size = sizes[0] if len(sizes) == 1 else Tuple(sizes)
        items: list[Item] = [Bind((self.array,), called(np.empty, size, self.dtype))]
        items += [Evaluate(Call(_IN_LARGE_PAGES, (Variable(self.array),)))] if whole or self.sizes else []
        first = self.stack is not None and self is self.stack.tapes[0]
        return [*items, *([Bind((self.stack.top,), ZERO)] if first else [])]  # type: ignore[union-attr]

    @property
    def is_shared(self) -> bool:
        """Whether its array holds other tapes, too; the last axis of that is over tapes."""
        return len(self.beside) > 1

    def grows_in(self, loop: Loop) -> bool:
        """Whether the tape grows, or the top of its stack moves, in iterations of `loop`."""
        frame = self.stack.frame if self.stack is not None and not self.stack.frame_per_iteration else None
        return self.sizes is None and not (frame in self.loops and loop in self.loops[self.loops.index(frame) :])

    def bounds(self) -> set[str]:
        """The names that its allocated size depends on."""
        return {n for p in self.loops for n in reads(p.start, p.stop, p.step)} if self.sizes else set()

    def nbytes(self) -> Term:
        """Its size in bytes, after the loop."""
        size = Property(Variable(self.array), "nbytes")
        return Binary("//", size, Constant(len(self.beside))) if self.is_shared else size

    def nbytes_before(self) -> Term | None:
        """Its size in bytes before allocation; None if it grows."""
        dtype = self.dtype
        item: Term = Property(Variable(dtype.array), "itemsize") if isinstance(dtype, DType) else Constant(8)
        return None if self.sizes is None else reduce(lambda a, b: Binary("*", a, b), self.sizes, item)

    def record(self, value: Term) -> list[Item]:
        """Store `value` in the current slot."""
        return [Step(self.slot(self.index), "=", value)]

    def fetch(self, target: Variable | Element) -> list[Item]:
        """Load the current slot into `target`, in the reverse sweep."""
        return [Step(target, "=", self.slot(self.reverse_index))]

    def slot(self, index: tuple[Term, ...]) -> Variable | Element:
        """The element at `index`, or the variable that the tape consists of."""
        if self.sizes == []:
            return Variable(self.name)
        return Element(self.array, (*index, Constant(self.beside.index(self))) if self.is_shared else index)


def share_arrays(tapes: Iterable[Tape], may_share: Callable[[Loop], bool], fresh: Callable[[str], str]) -> None:
    """Hold the tapes of a loop, if it may, in one array, side by side, where they are many and their sizes known.

    An array costs time to compile, above all one that is returned to the caller.
    """
    together: dict[tuple[object, ...], list[Tape]] = {}
    for t in tapes:
        if t.sizes:
            together.setdefault((*t.loops, t.dtype), []).append(t)
    for group in together.values():
        if len(group) >= _MANY and may_share(group[0].loops[-1]):
            array = fresh("tapes")
            for t in group:
                t.array, t.beside = array, group


def ensure_capacity(tapes: list[Tape], op: str, slot: Term, size: Term) -> Item:
    """Let `tapes`, which have one size, grow to `size` where `slot` compares so with it."""
    full = Compare((op,), (slot, Length(tapes[0].name, None)))
    return Branch(full, body=[Grow(t.name, size) for t in tapes])


def first_counted_loop(loops: tuple[Loop, ...]) -> int:
    """The position of the first loop on entry to which the trip counts of it and all inner ones are known."""
    first = len(loops)
    while first and _trip_counts_known(loops[first - 1 :]):
        first -= 1
    return first


def pushes_per_iteration(loops: tuple[Loop, ...]) -> bool:
    """Whether a value stored in the last of the loops goes onto a stack that grows by one iteration at a time."""
    return len(loops) > 1 and first_counted_loop(loops) == len(loops)


def _trip_counts_known(loops: tuple[Loop, ...]) -> bool:
    """Whether all trip counts are known on entry to the first of the loops."""
    changing = names_written(loops[0])
    return all(p.index and not p.trip_counter and not reads(p.start, p.stop, p.step) & changing for p in loops) and len(
        {p.index for p in loops}
    ) == len(loops)


def _bound_setters(loops: tuple[Loop, ...]) -> dict[Loop, list[Assign]] | None:
    """For each loop, the assignments in the loop around it that its bounds depend on.

    None if trip counts depend on anything else that changes in the loops.
    """
    if not all(p.index and not p.trip_counter for p in loops):
        return None
    writers = Counter(n for s in walk([loops[0]]) for n in writes(s))
    changing = set(writers) - {p.index for p in loops}
    wanted = {n for p in loops for n in reads(p.start, p.stop, p.step)} & changing
    setters: dict[Loop, list[Assign]] = {p: [] for p in loops}
    for around, inner in reversed(list(pairwise(loops))):
        at = around.body.index(inner) if inner in around.body else 0
        for s in reversed(around.body[:at]):
            if isinstance(s, Assign) and s.name in wanted and writers[s.name] == 1:
                setters[inner].insert(0, s)
                wanted = (wanted - {s.name}) | (reads(s.value) & changing)
    return None if wanted else setters


def trip_count(loop: Loop) -> Term:
    """The trip count."""
    if loop.step is MINUS_ONE:
        return called(max, minus(loop.start, loop.stop), ZERO)
    if loop.step is not ONE:
        return called(len, called(range, loop.start, loop.stop, loop.step))
    if loop.start is ZERO and isinstance(loop.stop, Length) and loop.stop.axis is not None:
        return loop.stop
    return called(max, loop.stop if loop.start is ZERO else minus(loop.stop, loop.start), ZERO)


def iteration_number(loop: Loop) -> Term:
    """The number of the current iteration, from 0."""
    index = Variable(loop.index)
    if loop.step is MINUS_ONE:
        return minus(loop.start, index)
    first = index if loop.start is ZERO else minus(index, loop.start)
    return first if loop.step is ONE else Binary("//", first, loop.step)


def reversed_loop_head(s: Loop, iteration: str) -> For:
    """The reversed loop, without a body; `iteration` is the variable for a while loop."""
    count = Variable(s.trip_counter)
    if not s.index:
        return For(iteration, Binary("-", count, ONE), MINUS_ONE, MINUS_ONE)
    start, stop, step = s.start, s.stop, s.step
    if step is ONE:
        end = stop if not s.trip_counter else count if start is ZERO else Binary("+", start, count)
        return For(s.index, plus(end, -1), plus(start, -1), MINUS_ONE)
    if step is MINUS_ONE and not s.trip_counter:
        return For(s.index, plus(stop, 1), plus(start, 1))
    trips = count if s.trip_counter else called(len, called(range, start, stop, step))
    last = Binary("+", start, Binary("*", Binary("-", trips, ONE), step))
    return For(s.index, last, Binary("-", start, step), Unary("-", step))
