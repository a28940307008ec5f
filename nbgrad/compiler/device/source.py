"""Generate the source of CUDA kernels from groups of statements; :mod:`.groups` says what a group is.

Compiled functions have fixed shapes, so sizes and strides are constants in their sources. Kernels of operators get them
as arguments, so that new shapes need no new kernels.

The sizes alone determine which elements a thread accumulates, and in which order partial sums are combined, so every
run gives the same result. Additions at indices read from an array run in the order of the array, in the one thread that
owns all elements that can coincide.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...arrays.templates import load, store
from ...backends.cuda import driver, vectors
from ...backends.numba import casts
from ...core.dtypes import DType, as_dtype
from ...core.shapes import size, strides_of
from ...ir.expr import Expr, topological_order
from ...ir.expr_source import expression_code
from ...ir.graph import Value
from ..elements import element_compute_type, rounded
from ..reductions import REDUCTIONS
from ..statements import Access
from .groups import Group, Member
from .totals import combine_in_block, combine_statement, initial_total, shared_totals_size, total_type

__all__ = ["Kernel", "KernelWriter"]

_HELPERS = {name: getattr(casts, name) for name in casts.__all__} | vectors.HELPERS | {"np": np}
#: Rows of at least this many elements are processed in vectors.
_MIN_VECTOR_ROW = 256


class Kernel(NamedTuple):
    """The source of a kernel, and what it is launched with.

    Attributes
    ----------
    source : str
        Arguments: the arrays, the integers.
    helpers : dict
    arrays : list of Value
        The arrays written and read; for partial results their number in :attr:`parts`.
    parts : list of (DType, int)
        Scratch arrays for partial results, which one kernel writes and the next one reads: dtypes and lengths.
    integers : list of int
    cleared : list of Value
        What must be zeroed before.
    points, rows : int
        Threads, or blocks, that have something to do.
    threads : int
        Per block.
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


class KernelWriter:
    """Generates a kernel. Lines are for a row, or for an element of one, in the current phase."""

    def __init__(self, g: Group, fixed: bool, shared: bool, splits: int) -> None:
        self.g = g
        self.fixed = fixed
        self.shared = shared
        self.splits = splits
        self.names: list[str] = []
        self.integers: list[int] = []
        self.sizes: dict[tuple[object, int], str] = {}  # role, value -> the argument's name
        self.arrays: list[Value | int] = []
        self.parts: list[tuple[DType, int]] = []
        self.helpers: dict[str, Any] = dict(_HELPERS)
        self.count = 0
        self.index: dict[int, str] = {}  # axis of the group -> its variable
        self.per_row: list[str] = []
        self.per_element: list[str] = []
        self.known: list[dict] = [{}, {}]  # per row, per element: code or value -> its variable
        self.members = list(g.members.values())
        self.phases = 1 + max(m.ready_phase() for m in self.members)
        #: All threads traverse all elements together, as if there were one row.
        self.is_single_row = g.rows is None and bool(g.extents)
        self.outside, self.within = ([], list(range(len(g.extents)))) if self.is_single_row else (g.outside, g.inside)
        self.packing: int | None = None  # the axis along which a thread processes a vector
        self.lanes = 1
        self.lane: int | None = None  # the lane that the current lines are for
        self.fetched: dict[str, str] = {}  # code of a vector -> its variable
        self.written: dict[str, list[str]] = {}  # location of a stored vector -> its elements
        self.packed: set[str] = set()  # arrays accessed in vectors

    # Names.

    def size_code(self, n: int, role: object = None) -> str:
        """The name of an argument with this value, or the value; the same name for all uses in one role."""
        if self.fixed or n in (0, 1):
            return str(n)
        if (role, n) in self.sizes:
            return self.sizes[role, n]
        name = f"n{len(self.names)}"
        self.names.append(name)
        self.integers.append(n)
        if role is not None:
            self.sizes[role, n] = name
        return name

    def array(self, value: Value | int) -> str:
        if value not in self.arrays:
            self.arrays.append(value)
        return f"a{self.arrays.index(value)}"

    def local_for(self, text: str, inside: bool) -> str:
        """The variable that holds the value of `text`."""
        if text.isidentifier():
            return text
        for known in self.known if inside else self.known[:1]:
            if text in known:
                return known[text]
        self.count += 1
        name = self.known[inside][text] = f"x{self.count}"
        (self.per_element if inside else self.per_row).append(f"{name} = {text}")
        return name

    def varies_within_row(self, member: Member) -> bool:
        """Whether a member's value varies within a row."""
        return not member.axes_of_value() <= set(self.outside)

    def is_per_element(self, m: Member) -> bool:
        """Whether it is computed for every element of a row."""
        return m.s.how in REDUCTIONS or (bool(self.within) if m.s.target is not None else self.varies_within_row(m))

    # Flat indices.

    def accesses(self) -> list[tuple[dict[int, int], Member]]:
        """The strides of all reads and writes along the group's axes."""
        strides = []
        for m in self.members:
            every = [*m.s.reads, *([m.s.target] if m.s.target is not None else [])]
            strides += [({m.axes[k]: c for k, c in a.coefficients}, m) for a in every]
            if m.s.value in self.g.stored:
                strides.append((dict(self.array_strides(m)), m))
        return strides

    def array_strides(self, m: Member) -> list[tuple[int, int]]:
        """The strides of a member's own array along the group's axes."""
        strides = strides_of(tuple([m.s.axes[k].extent for k in m.s.kept]))
        return [(m.axes[k], c) for k, c in zip(m.s.kept, strides, strict=True) if m.axes[k] >= 0][::-1]

    def merge_contiguous(self, axes: Sequence[int]) -> list[tuple[list[int], int]]:
        """Merge axes that all accesses traverse contiguously: (axes, extent)."""
        steps = [c for c, _ in self.accesses()]
        guarded = {m.axes[guard.axis] for m in self.members for guard in m.s.guards}
        merged: list[tuple[list[int], int]] = []
        for k in axes:
            n = self.g.extents[k]
            if merged and not guarded & {k, merged[-1][0][-1]}:
                before = merged[-1][0][-1]
                if all(c.get(before, 0) == c.get(k, 0) * n for c in steps):
                    merged[-1] = ([*merged[-1][0], k], merged[-1][1] * n)
                    continue
            merged.append(([k], n))
        return merged

    def index_statements(self, whole: str, axes: Sequence[int], letter: str) -> list[str]:
        """Statements that compute the indices of axes from `whole`, which counts all points."""
        lines = []
        groups = self.merge_contiguous(axes)
        rest = whole
        for j, (axes_of, n) in reversed(list(enumerate(groups))):
            name = f"{letter}{j}"
            if j == 0:
                lines.append(f"{name} = {rest}")
            else:
                extent = self.size_code(n)
                lines += [f"{name} = {rest} % {extent}", f"{letter}_ = {rest} // {extent}"]
                rest = f"{letter}_"
            for k in axes_of[:-1]:
                self.index.pop(k, None)
            self.index[axes_of[-1]] = name
        return lines

    def position(
        self, array: str, steps: Sequence[tuple[int, int]], offset: int = 0, through: Sequence[str] = ()
    ) -> str:
        """The flat index of an element of an array."""
        terms = []
        for k, c in steps:
            if c and k in self.index:
                terms.append(self.index[k] if c == 1 else f"{self.index[k]} * {self.size_code(c, (array, k))}")
        terms += through
        if offset or not terms:
            terms.append(self.size_code(offset, array))
        return " + ".join(terms)

    def vector(self, array: str, steps: Sequence[tuple[int, int]], offset: int) -> str:
        """The number of a vector in an array."""
        terms = ["j"]
        for k, c in steps:
            if k != self.packing and c and k in self.index:
                terms.append(f"{self.index[k]} * {self.size_code(c // self.lanes, (array, k, self.lanes))}")
        if offset:
            terms.append(self.size_code(offset // self.lanes, (array, self.lanes)))
        return " + ".join(terms)

    def choose_vectors(self) -> None:
        """Process vectors of neighbouring elements, if they are contiguous and aligned in all arrays."""
        merged = self.merge_contiguous(self.within)
        n = size([self.g.extents[k] for k in self.within])
        of_any_size = not self.fixed and (self.is_single_row or not self.outside)  # one source serves all
        if len(merged) != 1 or (n < _MIN_VECTOR_ROW and not of_any_size):
            return
        axis = merged[0][0][-1]
        others = [k for k in self.outside if self.g.extents[k] != 1]
        dtypes, ends = [], []
        for m in self.members:
            if m.s.guards or m.s.target is not None or any(a.through for a in m.s.reads):
                return
            strides_of = [] if m.s.value not in self.g.stored else [(m.s.value, dict(self.array_strides(m)), 0)]
            for a in m.s.reads:
                if a.pointwise is None or a.value not in self.g.members:
                    strides_of.append((a.value, {m.axes[k]: c for k, c in a.coefficients}, a.offset))
            for value, steps, offset in strides_of:
                step = steps.get(axis, 0)
                if step not in (0, 1):
                    return
                if step:
                    dtypes.append(value.dtype.storage)
                    ends += [offset, *(steps.get(k, 0) for k in others)]
        lanes = vectors.lanes(dtypes)
        if lanes > 1 and all(end % lanes == 0 for end in ends) and not (of_any_size and any(ends)):
            self.packing, self.lanes = axis, lanes

    # Values.

    def value(self, m: Member) -> str:
        """The variable that holds a member's value, rounded as if read from its array."""
        inside = self.varies_within_row(m)
        variable = self.known[inside].get(m.s.value)
        if variable is None:
            code, compute = self.element(m)
            variable = self.local_for(rounded(m.s.value.dtype, code, compute), inside)
            self.known[inside][m.s.value] = variable
        return variable

    def element(self, m: Member) -> tuple[str, str]:
        """Code for what a statement computes at a point, and the type it is computed in."""
        s = m.s
        dtype = s.value.attrs[1] if s.value.op == "map" else s.value.dtype
        compute = element_compute_type(dtype)
        inside = self.is_per_element(m)
        values: dict[str, str] = {}
        for k, guard in enumerate(s.guards):
            i = self.index.get(m.axes[guard.axis], "0")
            low, high = self.size_code(guard.start), self.size_code(guard.stop)
            values[f"g{k}"] = self.local_for(f"({i} >= {low}) and ({i} < {high})", inside)
        for k in _reads_in_order(m):
            access = s.reads[k]
            own = element_compute_type(access.value.dtype)
            member = self.g.members.get(access.value)
            if member is not None and access.pointwise is not None:
                code = self.value(member)
            else:
                code = self.read(m, access, values, inside)
            is_index = any(k == j for a in [*s.reads, s.target] if a is not None for j, _ in a.through)
            if own != compute and not is_index:
                code = self.local_for(f"np.{compute}({code})", inside)
            values[f"r{k}"] = code
        return self.expression(s.expr, values, compute, inside), compute

    def read(self, m: Member, access: Access, values: dict[str, str], inside: bool) -> str:
        array = self.array(access.value)
        steps = [(m.axes[k], c) for k, c in access.coefficients]
        through = [f"{values[f'r{k}']} * {self.size_code(c)}" for k, c in access.through]
        outside = self.outside
        inside = inside and (bool(access.through) or any(c and k not in outside for k, c in steps))
        if self.lane is not None and inside:
            vector = self._fetched(array, self.vector(array, steps, access.offset))
            return self.local_for(load(access.value.dtype, vector), True)
        at = self.position(array, steps, access.offset, through)
        if m.s.guards:  # values out of range are not used, and must not be read
            at = f"min(max({at}, 0), {array}.size - 1)"
        return self.local_for(load(access.value.dtype, f"{array}[{at}]"), inside)

    def _fetched(self, array: str, at: str) -> str:
        """The current lane of a loaded vector."""
        code = f"fetched{self.lanes}({array}, {at})"
        if code not in self.fetched:
            self.fetched[code] = f"v{len(self.fetched)}"
            self.packed.add(array)
        return f"{self.fetched[code]}[{self.lane}]"

    def expression(self, expr: Expr, values: dict[str, str], compute: str, inside: bool) -> str:
        local = partial(self.local_for, inside=inside)
        return expression_code([expr], values, f"np.{compute}", local, self.helpers)[0]

    # Phases.

    def phase(self, p: int) -> list[str]:
        """The code of a phase, for one row."""
        totals = self.totals(p)
        scalar = self._elements(p, totals)
        lines = [*(f"{total} = {initial_total(m)}" for m, total in totals.items()), *self.per_row]
        if scalar:
            begin = "begin" if self.splits > 1 else "0"
            end = "end" if self.splits > 1 else self.size_code(size([self.g.extents[k] for k in self.within]), "row")
            packed = self._vectors(p, totals)
            if packed:
                lines.append(f"whole = {end} // {self.lanes} if packed else {begin} // {self.lanes}")
                lines.append(f"for j in {self._thread_range(f'{begin} // {self.lanes}', 'whole')}:")
                lines += [f"    {line}" for line in packed]
                begin = f"whole * {self.lanes}"
            lines.append(f"for j in {self._thread_range(begin, end)}:")
            lines += [f"    {line}" for line in scalar]
        lines += combine_in_block(totals) if self.shared else []
        self.per_row = []
        for m, total in totals.items():
            self.result(m, total)
        return lines + self.per_row

    def _thread_range(self, begin: str, end: str) -> str:
        """The range of a thread's share of the numbers from `begin` to `end`."""
        own, step = ("t", "cuda.blockDim.x") if self.shared else ("cuda.grid(1)", "cuda.gridsize(1)")
        if not (self.shared or self.is_single_row):
            return f"range({begin}, {end})"
        return f"range({own if begin in ('0', '0 // ' + str(self.lanes)) else f'{begin} + {own}'}, {end}, {step})"

    def _elements(self, p: int, totals: dict[Member, str]) -> list[str]:
        """The code of a phase, for one element."""
        self.per_row, self.per_element = [], []
        self.known[1] = {}
        head = self.index_statements("j", self.within, "j")
        for m, total in totals.items():
            value = f"np.{total_type(m)}({self.element(m)[0]})"
            self.per_element += [f"value = {value}", combine_statement(m, total, "value")]
        for m in self.members:
            later = self.splits > 1 and not self.is_per_element(m)  # left to the combining kernel
            if m.phase == p and m.s.value in self.g.stored and m not in totals and not later:
                self.store(m)
        return [*(head if self.lane is None else []), *self.per_element] if self.per_element else []

    def _vectors(self, p: int, totals: dict[Member, str]) -> list[str]:
        """The same for a vector of elements; empty if the kernel uses none."""
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
        stores = [f"put{self.lanes}({location}, ({', '.join(values)}))" for location, values in self.written.items()]
        return [*loads, *lines, *stores]

    def totals(self, p: int) -> dict[Member, str]:
        """The reductions of a phase, with their variables."""
        names = {m: f"total{k}" for k, m in enumerate(self.members)}
        return {m: name for m, name in names.items() if m.phase == p and m.s.how in REDUCTIONS}

    def result(self, m: Member, total: str) -> None:
        """Store the total of a row, or its partial result."""
        dtype = m.s.value.dtype
        if self.splits > 1:
            rows = self.g.sizes()[0]
            self.parts.append((as_dtype(total_type(m)), rows * self.splits))
            self.write(f"{self.array(len(self.parts) - 1)}[q]", total, False)
            return
        computed = element_compute_type(dtype)
        code = rounded(dtype, f"np.{computed}({total})", computed)
        self.known[0][m.s.value] = self.local_for(code, False)
        if m.s.value in self.g.stored:
            self.write_value(m, self.known[0][m.s.value], False)

    def store(self, m: Member) -> None:
        """Write a member's value to its array."""
        s = m.s
        if s.target is None:
            self.write_value(m, self.value(m), self.varies_within_row(m))
            return
        inside = self.is_per_element(m)
        code, compute = self.element(m)
        values = {f"r{j}": self.read(m, s.reads[j], {}, inside) for j, _ in s.target.through}
        steps = [(m.axes[k], c) for k, c in s.target.coefficients]
        through = [f"{values[f'r{k}']} * {self.size_code(c)}" for k, c in s.target.through]
        array = self.array(s.value)
        at = f"{array}[{self.position(array, steps, s.target.offset, through)}]"
        if s.how == "scatter":
            code = f"{load(s.value.dtype, at)} + {code}"
        self.write(at, store(s.value.dtype, code, compute), inside)

    def write_value(self, m: Member, code: str, inside: bool) -> None:
        dtype, array, steps = m.s.value.dtype, self.array(m.s.value), self.array_strides(m)
        code = store(dtype, code, element_compute_type(dtype))
        if self.lane is not None and inside:
            location = f"{array}, {self.vector(array, steps, 0)}"
            self.written.setdefault(location, []).append(f"np.{dtype.storage.name}({code})")
            self.packed.add(array)
        else:
            self.write(f"{array}[{self.position(array, steps)}]", code, inside)

    def write(self, at: str, code: str, inside: bool) -> None:
        if inside:
            self.per_element.append(f"{at} = {code}")
        elif self.shared:
            self.per_row += ["if t == 0:", f"    {at} = {code}"]
        else:
            self.per_row.append(f"{at} = {code}")

    # The kernel.

    def kernel(self) -> Kernel:
        g = self.g
        rows, inner = g.sizes()
        last = 1 if self.splits > 1 else self.phases
        head = self.index_statements("o" if self.splits > 1 else "q", self.outside, "i")
        if self.shared or self.is_single_row:
            self.choose_vectors()
        if self.splits > 1:
            # Neighbouring threads have different rows.
            count, chunk = self.size_code(self.splits if self.shared else rows), self.size_code(g.chunk())
            one, other = ("o", "c") if self.shared else ("c", "o")
            head = [
                f"{one} = q // {count}",
                f"{other} = q - {one} * {count}",
                f"begin = c * {chunk}",
                f"end = min(begin + {chunk}, {self.size_code(inner)})",
                *head,
            ]
        return self.assemble([*head, *(line for p in range(last) for line in self.phase(p))], rows, self.splits)

    def assemble(self, body: list[str], rows: int, splits: int) -> Kernel:
        """The kernel that runs `body` for every chunk of a row, or once."""
        total = self.size_code(rows * splits)
        if self.is_single_row:
            lines = []
        elif self.shared:
            shared = [(k, m) for k, m in enumerate(self.members) if m.s.how in REDUCTIONS]
            lines = [
                f"parts_total{k} = cuda.shared.array({shared_totals_size()}, np.{total_type(m)})" for k, m in shared
            ]
            lines += ["t = cuda.threadIdx.x", f"for q in range(cuda.blockIdx.x, {total}, cuda.gridDim.x):"]
            body = [*body, "cuda.syncthreads()"]  # before the next row's totals
        else:
            lines = [f"for q in range(cuda.grid(1), {total}, cuda.gridsize(1)):"]
        lines += body if self.is_single_row else [f"    {line}" for line in body]
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


def _reads_in_order(m: Member) -> list[int]:
    """The reads that a statement needs, indices before the reads that use them."""
    s = m.s
    through = [k for a in [*s.reads, s.target] if a is not None for k, _ in a.through]
    names = {node.name for node in topological_order([s.expr]) if node.name is not None}
    rest = [k for k in range(len(s.reads)) if f"r{k}" in names and k not in through]
    return [*dict.fromkeys(through), *rest]


def _threads(inner: int) -> int:
    """The threads of a block for rows of this many elements: about four elements each."""
    most = driver.block()
    width = 32
    while width < most and 4 * width < inner:
        width *= 2
    return min(width, most)
