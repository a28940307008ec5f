"""Kernel fusion for GPUs: decide which statements share a CUDA kernel.

A kernel runs over the points of some axes. Some of these axes are *rows*, the others are *inside* a row. A statement
computes a scalar per row, or one per element of a row; a reduction over the inside gives a scalar per row. Each row has
a thread; or a block of threads, which traverses its inside together, once per *phase*: what needs a reduction of one
phase is computed in the next (softmax: the maximum; the sum of exponentials; the quotients). Where rows are few and
long, several blocks have a chunk of each, and what depends on the reductions is left to a second kernel.

A statement joins a kernel if it reads the kernel's own values pointwise, and all others were computed before. Values
that are read only in their own kernel are never arrays; a cheap value is recomputed in other kernels that read it. A
reduction of rows and of their insides does not fit one kernel: it is split into one per row in that kernel, and one of
the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...backends.cuda.cublas import Product
from ...core.shapes import size
from ...ir.expr import topological_order, var
from ...ir.graph import Value
from ..reductions import REDUCTIONS
from ..statements import Access, Statement

__all__ = ["MAX_SERIAL_REDUCTION", "Group", "Member", "group_statements"]

#: Reductions of up to this many elements have a thread per result.
MAX_SERIAL_REDUCTION = 32
#: This many rows, a block each, keep a device busy. With fewer rows, these are split: the minimum number of elements in
#: a chunk of a row, and the maximum number of chunks.
_ROWS, _CHUNK, _BLOCKS = 128, 1 << 12, 1024
#: Threads that keep a device busy, and the minimum number of elements that each of them reduces.
_THREADS, _RUN = 1 << 16, 64
#: The maximum number of statements in a kernel, and of arrays, for which its 4 kB of arguments suffice.
_MEMBERS, _ARRAYS = 40, 32
#: How many of the latest kernels a statement may join, besides those of its operands.
_MAX_CANDIDATES = 16
#: The maximum cost of recomputing a value, in operations; a scalar function counts five.
_MAX_KERNEL_RECOMPUTE = 12


class Member(NamedTuple):
    """A statement in a group.

    Attributes
    ----------
    axes : tuple of int
        Per axis of the statement, the group's; -1 for those of length 1.
    phase : int
        The phase that computes it.
    is_recomputed : bool
        It is recomputed here for readers in this group.
    """

    s: Statement
    axes: tuple[int, ...]
    phase: int
    is_recomputed: bool = False

    def axes_of_value(self) -> frozenset[int]:
        """The group's axes that the value has."""
        return frozenset(self.axes[k] for k in self.s.kept if self.axes[k] >= 0)

    def ready_phase(self) -> int:
        """The first phase that may read the value."""
        return self.phase + (self.s.how in REDUCTIONS)


class Group:
    """Statements that share one kernel, or a product, or an opaque step.

    Attributes
    ----------
    extents : list of int
        Of the axes.
    rows : frozenset of int or None
        The axes that are rows; None: all, unless a reduction joins.
    members : dict
        Value -> :class:`Member`.
    stored : set of Value
        The values that others read.
    product : Statement or None
        The matrix product that this is an epilogue of; see :mod:`.epilogues`.
    linear : tuple or None
        An equivalent library call: a :class:`...backends.cuda.cublas.Product`, and its arrays.
    """

    def __init__(self, s: Statement) -> None:
        self.how = s.how
        self.extents = [a.extent for a in s.axes if a.extent != 1]
        self.rows: frozenset[int] | None = None
        self.members: dict[Value, Member] = {}
        self.stored: set[Value] = set()
        self.arrays: set[Value] = set()
        self.product: Statement | None = None
        self.linear: tuple[Product, list[Value]] | None = None
        self._layout: tuple[bool, int] | None = None

    def statements(self) -> list[Statement]:
        """All statements computed here."""
        product = [] if self.product is None else [self.product]
        return [*product, *(m.s for m in self.members.values())]

    @property
    def is_closed(self) -> bool:
        """Whether no statement may join it."""
        return self.how in ("product", "opaque", "scatter")

    @property
    def outside(self) -> list[int]:
        """The axes that are rows."""
        return [k for k in range(len(self.extents)) if self.rows is None or k in self.rows]

    @property
    def inside(self) -> list[int]:
        """The axes of a row."""
        return [k for k in range(len(self.extents)) if self.rows is not None and k not in self.rows]

    def sizes(self) -> tuple[int, int]:
        """The number of rows, and of elements in each."""
        return size([self.extents[k] for k in self.outside]), size([self.extents[k] for k in self.inside])

    def freeze_layout(self) -> None:
        """Fix the layout, whatever joins later."""
        self._layout = self.layout()

    def rows_are_contiguous(self) -> bool:
        """Whether neighbours in memory are in one row, rather than in neighbouring rows."""
        steps = [(m.axes[k], c) for m in self.members.values() for a in m.s.reads for k, c in a.coefficients]
        last = max((k for k, c in steps if c == 1 and k >= 0), default=-1)
        return last in self.inside

    def layout(self) -> tuple[bool, int]:
        """Whether a row has a block of threads, and in how many chunks it is split."""
        if self._layout is not None:
            return self._layout
        rows, inner = self.sizes()
        if self.rows is None or self.how == "scatter" or inner <= MAX_SERIAL_REDUCTION:
            return False, 1
        along, rows = self.rows_are_contiguous(), max(rows, 1)
        if along:
            parts = 1 if rows >= _ROWS else min(-(-inner // _CHUNK), _BLOCKS // rows)
        else:
            parts = min(-(-inner // _RUN), _THREADS // rows)
        return along, -(-inner // _chunk(inner, max(parts, 1)))

    def chunk(self) -> int:
        """The number of elements in a chunk of a row."""
        return _chunk(self.sizes()[1], self.layout()[1])


def group_statements(statements: Sequence[Statement], full: Iterable[Value], outputs: Iterable[Value]) -> list[Group]:
    """The kernels that compute these statements, in order."""
    return _Grouping(statements, full, outputs).run()


class _Grouping:
    def __init__(self, statements: Sequence[Statement], full: Iterable[Value], outputs: Iterable[Value]) -> None:
        self.statements = statements
        self.makers = {s.value: s for s in statements}
        #: Values that are materialized in any case.
        self.array_values: set[Value] = set(full) | set(outputs)
        self.outputs = list(outputs)
        self.groups: list[Group] = []
        self.home: dict[Value, int] = {}

    def run(self) -> list[Group]:
        for s in self.statements:
            self._assign_to_group(s)
        read = set(self.outputs)
        live = []
        for g in reversed(self.groups):
            g.stored = {v for v, m in g.members.items() if v in read and not m.is_recomputed}
            if g.stored or g.how == "opaque":
                live.append(g)
                _remove_dead_members(g)
                read |= {a.value for m in g.members.values() for a in self._from_memory(g, m)}
        return live[::-1]

    def _from_memory(self, g: Group, m: Member) -> list[Access]:
        return [a for a in m.s.reads if a.pointwise is None or a.value not in g.members]

    def _assign_to_group(self, s: Statement) -> None:
        if s.how not in ("product", "opaque", "scatter"):
            homes = [self.home.get(_defining_value(a.value), -1) for a in s.reads]
            first = max(homes, default=-1)
            near = [first] if first >= 0 else []
            for k in [*near, *reversed(range(max(first + 1, len(self.groups) - _MAX_CANDIDATES, 0), len(self.groups)))]:
                fit = self._fits(s, k)
                if fit is not None:
                    self._join(s, k, *fit)
                    return
            rest = self._split_reduction(s, first) if s.how in REDUCTIONS and first >= 0 else None
            if rest is not None:
                self._assign_to_group(rest)
                return
        g = Group(s)
        self.groups.append(g)
        axes = iter(range(len(g.extents)))
        own = tuple([next(axes) if a.extent != 1 else -1 for a in s.axes])
        again = self._recomputed_operands(s, own, len(self.groups) - 1)
        if s.how in REDUCTIONS:
            g.rows = Member(s, own, 0).axes_of_value()
        elif s.how == "scatter":
            assert s.target is not None
            indexed = {k for j, _ in s.target.through for k, _ in s.reads[j].coefficients}
            g.rows = frozenset(own[k] for k in range(len(own)) if k not in indexed and own[k] >= 0)
        self._join(s, len(self.groups) - 1, Member(s, own, 0), again)

    def _split_reduction(self, s: Statement, k: int) -> Statement | None:
        """Reduce each row in group `k`; the remaining reduction over rows, or None if that is not possible."""
        g = self.groups[k]
        axes = None if s.value.dtype.name == "float16" else _axes_in(g, s)
        if size(g.extents) <= _CHUNK or g.rows is None or axes is None:
            return None
        if not any(a.value in g.members and a.pointwise is not None for a in s.reads):
            return None
        remaining = [j for j, axis in enumerate(axes) if axis in g.rows or j in s.kept]
        if {axes[j] for j in remaining} - {-1} != g.rows or len(remaining) == len(axes):
            return None
        shape = tuple([s.axes[j].extent for j in remaining])
        value = Value("reduce", s.value.inputs, s.value.attrs, shape, s.value.dtype, s.value.number)
        part = Statement(value, s.how, [axis.extent for axis in s.axes], remaining)
        part.expr, part.reads, part.guards = s.expr, s.reads, s.guards
        fit = self._fits(part, k)
        if fit is None:
            return None
        self._join(part, k, *fit)
        rest = Statement(s.value, s.how, shape, [remaining.index(j) for j in s.kept])
        every = range(len(shape))
        rest.reads = [Access(value, tuple([(j, size(shape[j + 1 :])) for j in every]), 0, tuple(every))]
        rest.expr = var("r0")
        return rest

    def _join(self, s: Statement, k: int, member: Member, again: list[Member]) -> None:
        g = self.groups[k]
        if s.how in REDUCTIONS:
            g.rows = member.axes_of_value()
        if member.phase and g.rows != frozenset(a for a in member.axes if a >= 0):
            g.freeze_layout()
        for m in [*again, member]:
            g.members.setdefault(m.s.value, m)
            for a in self._from_memory(g, m):
                g.arrays.add(a.value)
                self.array_values.add(a.value)
        self.home[s.value] = k

    def _fits(self, s: Statement, k: int) -> tuple[Member, list[Member]] | None:
        """`s` as a member of a group, and what is recomputed for it; None if it does not fit."""
        g = self.groups[k]
        if g.is_closed or len(g.members) >= _MEMBERS or len(g.arrays) + len(s.reads) > _ARRAYS:
            return None
        axes = _axes_in(g, s)
        if axes is None:
            return None
        phase = max((g.members[a.value].ready_phase() for a in s.reads if a.value in g.members), default=0)
        member = Member(s, axes, phase)
        every = {a for a in axes if a >= 0}
        per_row = g.rows is not None and s.how == "map" and every == g.rows
        if not per_row and every != set(range(len(g.extents))):
            return None
        if s.how in REDUCTIONS and g.rows is not None and member.axes_of_value() != g.rows:
            return None
        if not per_row and phase and g.layout()[1] > 1:  # rows are split over blocks
            return None
        again = self._recomputed_operands(s, axes, k)
        for a in s.reads:
            source = _defining_value(a.value)
            here = self.home.get(source) == k
            if here and (a.pointwise is None or source is not a.value):
                return None
            if self.home.get(source, -1) > k:
                return None
        return member, again

    def _recomputed_operands(self, s: Statement, axes: tuple[int, ...], k: int) -> list[Member]:
        """What is recomputed in group `k` rather than read, for a statement with these axes there."""
        recomputed: list[Member] = []
        for a in s.reads:
            maker = self.makers.get(a.value)
            if (
                maker is None
                or a.pointwise is None
                or a.value in self.groups[k].members
                or a.value in self.array_values
            ):
                continue
            once = sum(other.value is a.value for other in s.reads) == 1  # at one point only
            if once and self._cheaper_than_read(maker, k):
                recomputed.append(Member(maker, tuple(_axes_of(maker, a, axes)), 0, is_recomputed=True))
        return recomputed

    def _cheaper_than_read(self, s: Statement, k: int) -> bool:
        """Whether recomputing `s` in group `k` costs no more than reading it."""
        arrays = [a.value for a in s.reads]
        available = all(
            v.op == "argument" or (v in self.array_values and self.home.get(_defining_value(v), k) < k) for v in arrays
        )
        work = sum((5 if node.fn.helpers else 1) for node in topological_order([s.expr]) if node.fn is not None)
        return s.how == "map" and available and len(set(arrays)) <= 1 and not s.guards and work <= _MAX_KERNEL_RECOMPUTE


def _chunk(inner: int, parts: int) -> int:
    """The number of elements in each of about this many chunks, rounded up to whole vectors."""
    return 16 * -(-inner // (16 * parts))


def _defining_value(value: Value) -> Value:
    """The value of the step that computes `value`."""
    return value.inputs[0].value if value.op == "part" else value


def _axes_of(maker: Statement, access: Access, axes: Sequence[int]) -> list[int]:
    """The group's axes of a statement that a statement with these axes reads pointwise."""
    assert access.pointwise is not None
    mapped = [-1] * len(maker.axes)
    for k, own in zip(maker.kept, access.pointwise, strict=True):
        if own >= 0 and maker.axes[k].extent != 1:
            mapped[k] = axes[own]
    return mapped


def _axes_in(g: Group, s: Statement) -> tuple[int, ...] | None:
    """The group's axes for those of a statement, as its pointwise reads require; None if there are none."""
    mapped: dict[int, int] = {}
    for a in s.reads:
        m = g.members.get(a.value)
        if m is None or a.pointwise is None:
            continue
        for k, own in zip(m.s.kept, a.pointwise, strict=True):
            if own >= 0 and m.axes[k] >= 0 and mapped.setdefault(own, m.axes[k]) != m.axes[k]:
                return None
    for own, axis in enumerate(s.axes):
        if axis.extent == 1:
            mapped[own] = -1
        elif own not in mapped:
            free = [k for k, n in enumerate(g.extents) if n == axis.extent and k not in mapped.values()]
            if not free:
                return None
            mapped[own] = free[0]
    axes = tuple([mapped[own] for own in range(len(s.axes))])
    used = [k for k in axes if k >= 0]
    return axes if len(set(used)) == len(used) else None


def _remove_dead_members(g: Group) -> None:
    """Remove members that nothing reads."""
    if g.is_closed:
        return
    needed = set(g.stored)
    stack = list(needed)
    while stack:
        for a in g.members[stack.pop()].s.reads:
            if a.pointwise is not None and a.value in g.members and a.value not in needed:
                needed.add(a.value)
                stack.append(a.value)
    g.members = {v: m for v, m in g.members.items() if v in needed}
