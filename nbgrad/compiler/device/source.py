"""Groups of statements as CUDA kernels; :mod:`.groups` says what a group is.

Sizes and positions are written into the source of compiled functions, which have one shape; the sources of operators
get them as arguments, so that operators called with ever new shapes do not compile ever new kernels.

Which elements a thread adds up, and in which order partial sums are combined, follows from the sizes, so the result is
the same in every run. Additions at places that are read from an array are made in the order of the array, by the one
thread that has all elements that can meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...arrays.templates import load, store
from ...backends.cuda import driver, vectors
from ...backends.numba import casts
from ...core.dtypes import DType, as_dtype
from ...core.shapes import size
from ...ir.expr import Expr, order
from ...ir.expr_source import literal
from ...ir.graph import Value
from ..elements import calculated_in, rounded
from ..statements import Access
from .groups import REDUCTIONS, Group, Member
from .totals import added, first, room, together, wide

__all__ = ["Kernel", "Writer"]

_HELPERS = {name: getattr(casts, name) for name in casts.__all__} | vectors.HELPERS | {"np": np}
#: Elements of a row from which on threads take several at once.
_PACKED = 256


class Kernel(NamedTuple):
    """A kernel's source and what it is to be called with.

    Attributes
    ----------
    source : str
        Arguments: the arrays, the integers.
    helpers : dict
    arrays : list of Value
        What is written, and what is read; for partial results their number in :attr:`parts`.
    parts : list of (DType, int)
        Memory for partial results, which one kernel writes and the next one reads: what it is made of.
    integers : list of int
    cleared : list of Value
        What must be zero before.
    points, rows : int
        Threads, or blocks, that have something to do.
    threads : int
        Of a block.
    """

    source: str
    helpers: dict[str, Any]
    arrays: list[Value | int]
    parts: list[tuple[DType, int]]
    integers: list[int]
    cleared: list[Value]
    points: int
    rows: int
    threads: int


class Writer:
    """Writes a kernel. Lines are for a row, or for an element of one, in the present phase."""

    def __init__(self, g: Group, fixed: bool, shared: bool, splits: int) -> None:
        self.g = g
        self.fixed = fixed
        self.shared = shared
        self.splits = splits
        self.names: list[str] = []
        self.integers: list[int] = []
        self.arrays: list[Value | int] = []
        self.parts: list[tuple[DType, int]] = []
        self.helpers: dict[str, Any] = dict(_HELPERS)
        self.count = 0
        self.index: dict[int, str] = {}  # axis of the group -> its variable
        self.per_row: list[str] = []
        self.per_element: list[str] = []
        self.known: list[dict] = [{}, {}]  # what is known of a row, of an element: code or value -> its variable
        self.members = list(g.members.values())
        self.phases = 1 + max(m.known() for m in self.members)
        #: All threads go through all elements together, as if there were one row.
        self.flat = g.rows is None and bool(g.extents)
        self.outside, self.within = ([], list(range(len(g.extents)))) if self.flat else (g.outside, g.inside)
        self.packing: int | None = None  # the axis of which a thread takes several elements at once
        self.lanes = 1
        self.lane: int | None = None  # which of them the present lines are for
        self.fetched: dict[str, str] = {}  # code of a vector -> its variable
        self.written: dict[str, list[str]] = {}  # where a vector is put -> its elements
        self.packed: set[str] = set()  # arrays of vectors

    # Names.

    def number(self, n: int) -> str:
        """An argument of this value, or the value."""
        if self.fixed or n in (0, 1):
            return str(n)
        self.names.append(f"n{len(self.names)}")
        self.integers.append(n)
        return self.names[-1]

    def array(self, value: Value | int) -> str:
        if value not in self.arrays:
            self.arrays.append(value)
        return f"a{self.arrays.index(value)}"

    def named(self, text: str, inside: bool) -> str:
        """The variable that has this value."""
        if text.isidentifier():
            return text
        for known in self.known if inside else self.known[:1]:
            if text in known:
                return known[text]
        self.count += 1
        name = self.known[inside][text] = f"x{self.count}"
        (self.per_element if inside else self.per_row).append(f"{name} = {text}")
        return name

    def inside(self, member: Member) -> bool:
        """Whether a member's value differs within a row."""
        return not member.kept() <= set(self.outside)

    def placed(self, m: Member) -> bool:
        """Whether it is computed for every element of a row."""
        return m.s.how in REDUCTIONS or (bool(self.within) if m.s.target is not None else self.inside(m))

    # Positions.

    def accesses(self) -> list[tuple[dict[int, int], Member]]:
        """Steps along the group's axes of all that is read and written."""
        found = []
        for m in self.members:
            every = [*m.s.reads, *([m.s.target] if m.s.target is not None else [])]
            found += [({m.axes[k]: c for k, c in a.coefficients}, m) for a in every]
            if m.s.value in self.g.stored:
                found.append((dict(self.places(m)), m))
        return found

    def places(self, m: Member) -> list[tuple[int, int]]:
        """Where a member's value is in its array: steps along the group's axes."""
        found, stride = [], 1
        for k in reversed(m.s.kept):
            found.append((m.axes[k], stride))
            stride *= m.s.axes[k].extent
        return [(k, c) for k, c in found if k >= 0]

    def joined(self, axes: Sequence[int]) -> list[tuple[list[int], int]]:
        """Axes that everything walks alike, together: (axes, extent)."""
        steps = [c for c, _ in self.accesses()]
        guarded = {m.axes[guard.axis] for m in self.members for guard in m.s.guards}
        found: list[tuple[list[int], int]] = []
        for k in axes:
            n = self.g.extents[k]
            if found and not guarded & {k, found[-1][0][-1]}:
                before = found[-1][0][-1]
                if all(c.get(before, 0) == c.get(k, 0) * n for c in steps):
                    found[-1] = ([*found[-1][0], k], found[-1][1] * n)
                    continue
            found.append(([k], n))
        return found

    def split(self, whole: str, axes: Sequence[int], letter: str) -> list[str]:
        """Statements that find the indices of axes, of which `whole` counts all points."""
        lines = []
        groups = self.joined(axes)
        rest = whole
        for j, (axes_of, n) in reversed(list(enumerate(groups))):
            name = f"{letter}{j}"
            if j == 0:
                lines.append(f"{name} = {rest}")
            else:
                extent = self.number(n)
                lines += [f"{name} = {rest} % {extent}", f"{letter}_ = {rest} // {extent}"]
                rest = f"{letter}_"
            for k in axes_of[:-1]:
                self.index.pop(k, None)
            self.index[axes_of[-1]] = name
        return lines

    def position(self, steps: Sequence[tuple[int, int]], offset: int = 0, through: Sequence[str] = ()) -> str:
        terms = []
        for k, c in steps:
            if c and k in self.index:
                terms.append(self.index[k] if c == 1 else f"{self.index[k]} * {self.number(c)}")
        terms += through
        if offset or not terms:
            terms.append(self.number(offset))
        return " + ".join(terms)

    def vector(self, steps: Sequence[tuple[int, int]], offset: int) -> str:
        """The number of a vector in an array."""
        terms = ["j"]
        for k, c in steps:
            if k != self.packing and c and k in self.index:
                terms.append(f"{self.index[k]} * {c // self.lanes}")
        return " + ".join([*terms, *([str(offset // self.lanes)] if offset else [])])

    def pack(self) -> None:
        """Let a thread take several neighbours at once, if all arrays have them where vectors may be."""
        found = self.joined(self.within)
        n = size([self.g.extents[k] for k in self.within])
        if len(found) != 1 or (self.fixed and n < _PACKED) or not (self.fixed or self.flat or not self.outside):
            return
        axis = found[0][0][-1]
        others = [k for k in self.outside if self.g.extents[k] != 1]
        dtypes, ends = [], []
        for m in self.members:
            if m.s.guards or m.s.target is not None or any(a.through for a in m.s.reads):
                return
            places = [] if m.s.value not in self.g.stored else [(m.s.value, dict(self.places(m)), 0)]
            for a in m.s.reads:
                if a.pointwise is None or a.value not in self.g.members:
                    places.append((a.value, {m.axes[k]: c for k, c in a.coefficients}, a.offset))
            for value, steps, offset in places:
                step = steps.get(axis, 0)
                if step not in (0, 1):
                    return
                if step:
                    dtypes.append(value.dtype.storage)
                    ends += [offset, *(steps.get(k, 0) for k in others)]
        lanes = vectors.lanes(dtypes)
        if lanes > 1 and all(end % lanes == 0 for end in ends) and (self.fixed or not any(ends)):
            self.packing, self.lanes = axis, lanes

    # Values.

    def value(self, m: Member) -> str:
        """The variable that has a member's value, as it would be read from its array."""
        inside = self.inside(m)
        found = self.known[inside].get(m.s.value)
        if found is None:
            code, compute = self.element(m)
            found = self.named(rounded(m.s.value.dtype, code, compute), inside)
            self.known[inside][m.s.value] = found
        return found

    def element(self, m: Member) -> tuple[str, str]:
        """Code for what a statement computes at a point, and what it is computed in."""
        s = m.s
        dtype = s.value.attrs[1] if s.value.op == "map" else s.value.dtype
        compute = calculated_in(dtype)
        inside = self.placed(m)
        values: dict[str, str] = {}
        for k, guard in enumerate(s.guards):
            i = self.index.get(m.axes[guard.axis], "0")
            low, high = self.number(guard.start), self.number(guard.stop)
            values[f"g{k}"] = self.named(f"({i} >= {low}) and ({i} < {high})", inside)
        for k in _needed(m):
            access = s.reads[k]
            own = calculated_in(access.value.dtype)
            member = self.g.members.get(access.value)
            if member is not None and access.pointwise is not None:
                code = self.value(member)
            else:
                code = self.read(m, access, values, inside)
            place = any(k == j for a in [*s.reads, s.target] if a is not None for j, _ in a.through)
            if own != compute and not place:
                code = self.named(f"np.{compute}({code})", inside)
            values[f"r{k}"] = code
        return self.expression(s.expr, values, compute, inside), compute

    def read(self, m: Member, access: Access, values: dict[str, str], inside: bool) -> str:
        array = self.array(access.value)
        steps = [(m.axes[k], c) for k, c in access.coefficients]
        through = [f"{values[f'r{k}']} * {self.number(c)}" for k, c in access.through]
        outside = self.outside
        inside = inside and (bool(access.through) or any(c and k not in outside for k, c in steps))
        at = self.position(steps, access.offset, through)
        if self.lane is not None and inside:
            return self.named(load(access.value.dtype, self._fetched(array, self.vector(steps, access.offset))), True)
        if m.s.guards:  # what is outside is not used, and must not be read
            at = f"min(max({at}, 0), {array}.size - 1)"
        return self.named(load(access.value.dtype, f"{array}[{at}]"), inside)

    def _fetched(self, array: str, at: str) -> str:
        """The present lane of a vector."""
        code = f"fetched{self.lanes}({array}, {at})"
        if code not in self.fetched:
            self.fetched[code] = f"v{len(self.fetched)}"
            self.packed.add(array)
        return f"{self.fetched[code]}[{self.lane}]"

    def expression(self, expr: Expr, values: dict[str, str], compute: str, inside: bool) -> str:
        code: dict[Expr, str] = {}
        for node in order([expr]):
            if node.name is not None:
                code[node] = values[node.name]
            elif node.fn is None:
                assert node.value is not None
                code[node] = literal(node.value, f"np.{compute}")
            else:
                template = node.fn.integer if compute == "int64" else node.fn.template
                self.helpers.update(node.fn.helpers)
                code[node] = self.named(template.format(*(code[a] for a in node.args)), inside)
        return code[expr]

    # Phases.

    def phase(self, p: int) -> list[str]:
        """What is done of a row in a phase."""
        totals = self.totals(p)
        scalar = self._elements(p, totals)
        lines = [*(f"{total} = {first(m)}" for m, total in totals.items()), *self.per_row]
        if scalar:
            begin = "begin" if self.splits > 1 else "0"
            end = "end" if self.splits > 1 else self.number(size([self.g.extents[k] for k in self.within]))
            packed = self._vectors(p, totals)
            if packed:
                lines.append(f"whole = {end} // {self.lanes} if packed else {begin} // {self.lanes}")
                lines.append(f"for j in {self._turns(f'{begin} // {self.lanes}', 'whole')}:")
                lines += [f"    {line}" for line in packed]
                begin = f"whole * {self.lanes}"
            lines.append(f"for j in {self._turns(begin, end)}:")
            lines += [f"    {line}" for line in scalar]
        lines += together(totals) if self.shared else []
        self.per_row = []
        for m, total in totals.items():
            self.result(m, total)
        return lines + self.per_row

    def _turns(self, begin: str, end: str) -> str:
        """A thread's numbers of those from `begin` to `end`."""
        own, step = ("t", "cuda.blockDim.x") if self.shared else ("cuda.grid(1)", "cuda.gridsize(1)")
        if not (self.shared or self.flat):
            return f"range({begin}, {end})"
        return f"range({own if begin in ('0', '0 // ' + str(self.lanes)) else f'{begin} + {own}'}, {end}, {step})"

    def _elements(self, p: int, totals: dict[Member, str]) -> list[str]:
        """What is done of one element in a phase."""
        self.per_row, self.per_element = [], []
        self.known[1] = {}
        head = self.split("j", self.within, "j")
        for m, total in totals.items():
            value = f"np.{wide(m)}({self.element(m)[0]})"
            self.per_element += [f"value = {value}", added(m, total, "value")]
        for m in self.members:
            later = self.splits > 1 and not self.placed(m)  # the kernel that combines does it
            if m.phase == p and m.s.value in self.g.stored and m not in totals and not later:
                self.store(m)
        return [*(head if self.lane is None else []), *self.per_element] if self.per_element else []

    def _vectors(self, p: int, totals: dict[Member, str]) -> list[str]:
        """The same for as many neighbours as a vector has; empty if they are none."""
        if self.packing is None:
            return []
        self.fetched, self.written = {}, {}
        rows = self.per_row
        lines = []
        for lane in range(self.lanes):
            self.lane = lane
            lines += self._elements(p, totals)
        self.lane = None
        self.per_row = rows
        loads = [f"{name} = {code}" for code, name in self.fetched.items()]
        stores = [f"put{self.lanes}({place}, ({', '.join(values)}))" for place, values in self.written.items()]
        return [*loads, *lines, *stores]

    def totals(self, p: int) -> dict[Member, str]:
        """The reductions of a phase, and their variables."""
        names = {m: f"total{k}" for k, m in enumerate(self.members)}
        return {m: name for m, name in names.items() if m.phase == p and m.s.how in REDUCTIONS}

    def result(self, m: Member, total: str) -> None:
        """What becomes of a row's total."""
        dtype = m.s.value.dtype
        if self.splits > 1:
            rows = self.g.sizes()[0]
            self.parts.append((as_dtype(wide(m)), rows * self.splits))
            self.write(f"{self.array(len(self.parts) - 1)}[q]", total, False)
            return
        calculated = calculated_in(dtype)
        code = rounded(dtype, f"np.{calculated}({total})", calculated)
        self.known[0][m.s.value] = self.named(code, False)
        if m.s.value in self.g.stored:
            self.write_value(m, self.known[0][m.s.value], False)

    def store(self, m: Member) -> None:
        """Write a member's value where it belongs."""
        s = m.s
        if s.target is None:
            self.write_value(m, self.value(m), self.inside(m))
            return
        inside = self.placed(m)
        code, compute = self.element(m)
        values = {f"r{j}": self.read(m, s.reads[j], {}, inside) for j, _ in s.target.through}
        steps = [(m.axes[k], c) for k, c in s.target.coefficients]
        through = [f"{values[f'r{k}']} * {self.number(c)}" for k, c in s.target.through]
        at = f"{self.array(s.value)}[{self.position(steps, s.target.offset, through)}]"
        if s.how == "scatter":
            code = f"{load(s.value.dtype, at)} + {code}"
        self.write(at, store(s.value.dtype, code, compute), inside)

    def write_value(self, m: Member, code: str, inside: bool) -> None:
        dtype, array, steps = m.s.value.dtype, self.array(m.s.value), self.places(m)
        code = store(dtype, code, calculated_in(dtype))
        if self.lane is not None and inside:
            place = f"{array}, {self.vector(steps, 0)}"
            self.written.setdefault(place, []).append(f"np.{dtype.storage.name}({code})")
            self.packed.add(array)
        else:
            self.write(f"{array}[{self.position(steps)}]", code, inside)

    def write(self, at: str, code: str, inside: bool) -> None:
        if inside:
            self.per_element.append(f"{at} = {code}")
        elif self.shared:
            self.per_row += ["if t == 0:", f"    {at} = {code}"]
        else:
            self.per_row.append(f"{at} = {code}")

    # The whole.

    def kernel(self) -> Kernel:
        g = self.g
        rows, inner = g.sizes()
        last = 1 if self.splits > 1 else self.phases
        head = self.split("o" if self.splits > 1 else "q", self.outside, "i")
        if self.shared or self.flat:
            self.pack()
        if self.splits > 1:
            # Of neighbouring threads, each has another row.
            count, chunk = self.number(self.splits if self.shared else rows), self.number(g.chunk())
            one, other = ("o", "c") if self.shared else ("c", "o")
            head = [
                f"{one} = q // {count}",
                f"{other} = q - {one} * {count}",
                f"begin = c * {chunk}",
                f"end = min(begin + {chunk}, {self.number(inner)})",
                *head,
            ]
        return self.finished([*head, *(line for p in range(last) for line in self.phase(p))], rows, self.splits)

    def finished(self, body: list[str], rows: int, splits: int) -> Kernel:
        """The kernel that does this for every part of a row, or once."""
        total = self.number(rows * splits)
        if self.flat:
            lines = []
        elif self.shared:
            shared = [(k, m) for k, m in enumerate(self.members) if m.s.how in REDUCTIONS]
            lines = [f"parts_total{k} = cuda.shared.array({room()}, np.{wide(m)})" for k, m in shared]
            lines += ["t = cuda.threadIdx.x", f"for q in range(cuda.blockIdx.x, {total}, cuda.gridDim.x):"]
            body = [*body, "cuda.syncthreads()"]  # before the next row's totals
        else:
            lines = [f"for q in range(cuda.grid(1), {total}, cuda.gridsize(1)):"]
        lines += body if self.flat else [f"    {line}" for line in body]
        if self.packed:
            lines = [f"packed = {' and '.join(f'aligned({array})' for array in sorted(self.packed))}", *lines]
        arrays = [f"a{k}" for k in range(len(self.arrays))]
        name = "_".join(dict.fromkeys(m.s.how for m in self.members))
        source = "\n".join([f"def {name}({', '.join([*arrays, *self.names])}):", *(f"    {x}" for x in lines)]) + "\n"
        used = {k: v for k, v in self.helpers.items() if f"{k}(" in source or f"{k}." in source}
        cleared = [m.s.value for m in self.members if m.s.how in ("embed", "scatter")]
        n = rows * splits
        threads = _threads(self.g.sizes()[1] // splits) if self.shared else driver.block()
        points, blocks = (0, n) if self.shared else (-(-n // self.lanes), 0)
        return Kernel(source, used, self.arrays, self.parts, self.integers, cleared, points, blocks, threads)


def _needed(m: Member) -> list[int]:
    """A statement's reads, in an order in which places are known before they are used."""
    s = m.s
    through = [k for a in [*s.reads, s.target] if a is not None for k, _ in a.through]
    names = {node.name for node in order([s.expr]) if node.name is not None}
    rest = [k for k in range(len(s.reads)) if f"r{k}" in names and k not in through]
    return [*dict.fromkeys(through), *rest]


def _threads(inner: int) -> int:
    """Threads of a block that has rows of so many elements: about four elements each."""
    most = driver.block()
    found = 32
    while found < most and 4 * found < inner:
        found *= 2
    return min(found, most)
