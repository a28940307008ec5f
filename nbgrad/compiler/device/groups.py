"""Which statements are one CUDA kernel.

A kernel goes over the points of some axes. Some of these axes are *rows*, the others are *inside* a row. What its
statements compute is a number per row, or a number per element of a row; a reduction over the inside is a number per
row. A thread has a row, or a block of threads has one and goes over its inside together, once per *phase*: what needs a
reduction of one phase is computed in the next (softmax: the maximum; the sum of exponentials; the quotients). Where
there are few and long rows, several blocks have a part of each, and what follows from the sums waits for a second
kernel.

A statement joins a kernel if what it reads of that kernel's values is read point by point, and everything else was
computed before. Values that are read only where they are computed are never arrays; one that is cheap is computed again
in another kernel that reads it. A reduction of rows and of their insides, which is not for one kernel, is one of each
row there, and then one of the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...backends.cuda.cublas import Product
from ...core.shapes import size
from ...ir.expr import order, var
from ...ir.graph import Value
from ..statements import Access, Statement

__all__ = ["FEW", "REDUCTIONS", "Group", "Member", "grouped"]

#: Reductions of up to so many elements have a thread per result.
FEW = 32
#: So many rows keep a device busy with a block each. If there are less, a part of a row has so many elements at least,
#: and there are so many parts at most.
_ROWS, _CHUNK, _BLOCKS = 128, 1 << 12, 1024
#: Threads that keep a device busy, and elements that each of them adds up at least.
_THREADS, _RUN = 1 << 16, 64
#: What a kernel computes and reads at most: its arguments, of 4 kB, have room for so many arrays.
_MEMBERS, _ARRAYS = 40, 32
#: How many of the latest kernels a statement may join, besides that of what it reads.
_LATEST = 16
#: What computing a value again may cost, in operations, of which a scalar function is five.
_CHEAP = 12

REDUCTIONS = ("sum", "max", "min")


class Member(NamedTuple):
    """A statement in a group.

    Attributes
    ----------
    axes : tuple of int
        Per axis of the statement, the group's; -1 for those of length 1.
    phase : int
        In which it is computed.
    again : bool
        It is computed elsewhere, too; this one is for readers here.
    """

    s: Statement
    axes: tuple[int, ...]
    phase: int
    again: bool = False

    def kept(self) -> frozenset[int]:
        """The group's axes that the value has."""
        return frozenset(self.axes[k] for k in self.s.kept if self.axes[k] >= 0)

    def known(self) -> int:
        """The first phase that may read the value."""
        return self.phase + (self.s.how in REDUCTIONS)


class Group:
    """Statements that are one kernel, or a product, or an opaque step.

    Attributes
    ----------
    extents : list of int
        Of the axes.
    rows : frozenset of int or None
        The axes that are rows; None: all, if no reduction says otherwise.
    members : dict
        Value -> :class:`Member`.
    stored : set of Value
        What somebody else reads.
    product : Statement or None
        The product of matrices whose elements go through this; see :mod:`.epilogues`.
    linear : tuple or None
        What a library computes to have the same: a :class:`.cublas.Product`, and the arrays that it is given.
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
        """All that is computed here."""
        product = [] if self.product is None else [self.product]
        return [*product, *(m.s for m in self.members.values())]

    @property
    def alone(self) -> bool:
        """Whether nothing joins it."""
        return self.how in ("product", "opaque", "scatter")

    @property
    def outside(self) -> list[int]:
        """The rows' axes."""
        return [k for k in range(len(self.extents)) if self.rows is None or k in self.rows]

    @property
    def inside(self) -> list[int]:
        """The axes of a row."""
        return [k for k in range(len(self.extents)) if self.rows is not None and k not in self.rows]

    def sizes(self) -> tuple[int, int]:
        """How many rows there are, and elements in each."""
        return size([self.extents[k] for k in self.outside]), size([self.extents[k] for k in self.inside])

    def hold(self) -> None:
        """Keep the layout, whatever joins."""
        self._layout = self.layout()

    def along(self) -> bool:
        """Whether neighbours in memory are in one row, rather than in neighbouring rows."""
        steps = [(m.axes[k], c) for m in self.members.values() for a in m.s.reads for k, c in a.coefficients]
        last = max((k for k, c in steps if c == 1 and k >= 0), default=-1)
        return last in self.inside

    def layout(self) -> tuple[bool, int]:
        """Whether a block of threads has a row, and in how many parts each is."""
        if self._layout is not None:
            return self._layout
        rows, inner = self.sizes()
        if self.rows is None or self.how == "scatter" or inner <= FEW:
            return False, 1
        along, rows = self.along(), max(rows, 1)
        if along:
            parts = 1 if rows >= _ROWS else min(-(-inner // _CHUNK), _BLOCKS // rows)
        else:
            parts = min(-(-inner // _RUN), _THREADS // rows)
        return along, -(-inner // _chunk(inner, max(parts, 1)))

    def chunk(self) -> int:
        """Elements in a part of a row."""
        return _chunk(self.sizes()[1], self.layout()[1])


def grouped(statements: Sequence[Statement], full: Iterable[Value], outputs: Iterable[Value]) -> list[Group]:
    """The kernels that compute these statements, in order."""
    return _Grouping(statements, full, outputs).run()


class _Grouping:
    def __init__(self, statements: Sequence[Statement], full: Iterable[Value], outputs: Iterable[Value]) -> None:
        self.statements = statements
        self.makers = {s.value: s for s in statements}
        #: What is an array in any case.
        self.wanted: set[Value] = set(full) | set(outputs)
        self.outputs = list(outputs)
        self.groups: list[Group] = []
        self.home: dict[Value, int] = {}

    def run(self) -> list[Group]:
        for s in self.statements:
            self._place(s)
        read = set(self.outputs)
        found = []
        for g in reversed(self.groups):
            g.stored = {v for v, m in g.members.items() if v in read and not m.again}
            if g.stored or g.how == "opaque":
                found.append(g)
                _drop_idle(g)
                read |= {a.value for m in g.members.values() for a in self._from_memory(g, m)}
        return found[::-1]

    def _from_memory(self, g: Group, m: Member) -> list[Access]:
        return [a for a in m.s.reads if a.pointwise is None or a.value not in g.members]

    def _place(self, s: Statement) -> None:
        if s.how not in ("product", "opaque", "scatter"):
            homes = [self.home.get(_made(a.value), -1) for a in s.reads]
            first = max(homes, default=-1)
            near = [first] if first >= 0 else []
            for k in [*near, *reversed(range(max(first + 1, len(self.groups) - _LATEST, 0), len(self.groups)))]:
                found = self._fits(s, k)
                if found is not None:
                    self._join(s, k, *found)
                    return
            rest = self._by_rows(s, first) if s.how in REDUCTIONS and first >= 0 else None
            if rest is not None:
                self._place(rest)
                return
        g = Group(s)
        self.groups.append(g)
        axes = iter(range(len(g.extents)))
        own = tuple([next(axes) if a.extent != 1 else -1 for a in s.axes])
        again = self._again(s, own, len(self.groups) - 1)
        if s.how in REDUCTIONS:
            g.rows = Member(s, own, 0).kept()
        elif s.how == "scatter":
            assert s.target is not None
            places = {k for j, _ in s.target.through for k, _ in s.reads[j].coefficients}
            g.rows = frozenset(own[k] for k in range(len(own)) if k not in places and own[k] >= 0)
        self._join(s, len(self.groups) - 1, Member(s, own, 0), again)

    def _by_rows(self, s: Statement, k: int) -> Statement | None:
        """Let group `k` reduce each of its rows; what is left of a reduction of several, or None if that cannot be."""
        g = self.groups[k]
        axes = None if s.value.dtype.name == "float16" else _axes_in(g, s)
        if size(g.extents) <= _CHUNK or g.rows is None or axes is None:
            return None
        if not any(a.value in g.members and a.pointwise is not None for a in s.reads):
            return None
        kept = [j for j, axis in enumerate(axes) if axis in g.rows or j in s.kept]
        if {axes[j] for j in kept} - {-1} != g.rows or len(kept) == len(axes):
            return None
        shape = tuple([s.axes[j].extent for j in kept])
        value = Value("reduce", s.value.inputs, s.value.attrs, shape, s.value.dtype, s.value.number)
        part = Statement(value, s.how, [axis.extent for axis in s.axes], kept)
        part.expr, part.reads, part.guards = s.expr, s.reads, s.guards
        found = self._fits(part, k)
        if found is None:
            return None
        self._join(part, k, *found)
        rest = Statement(s.value, s.how, shape, [kept.index(j) for j in s.kept])
        every = range(len(shape))
        rest.reads = [Access(value, tuple([(j, size(shape[j + 1 :])) for j in every]), 0, tuple(every))]
        rest.expr = var("r0")
        return rest

    def _join(self, s: Statement, k: int, member: Member, again: list[Member]) -> None:
        g = self.groups[k]
        if s.how in REDUCTIONS:
            g.rows = member.kept()
        if member.phase and g.rows != frozenset(a for a in member.axes if a >= 0):
            g.hold()
        for m in [*again, member]:
            g.members.setdefault(m.s.value, m)
            for a in self._from_memory(g, m):
                g.arrays.add(a.value)
                self.wanted.add(a.value)
        self.home[s.value] = k

    def _fits(self, s: Statement, k: int) -> tuple[Member, list[Member]] | None:
        """`s` as a member of a group, and what is computed again for it; None if it cannot be one."""
        g = self.groups[k]
        if g.alone or len(g.members) >= _MEMBERS or len(g.arrays) + len(s.reads) > _ARRAYS:
            return None
        axes = _axes_in(g, s)
        if axes is None:
            return None
        phase = max((g.members[a.value].known() for a in s.reads if a.value in g.members), default=0)
        member = Member(s, axes, phase)
        every = {a for a in axes if a >= 0}
        per_row = g.rows is not None and s.how == "map" and every == g.rows
        if not per_row and every != set(range(len(g.extents))):
            return None
        if s.how in REDUCTIONS and g.rows is not None and member.kept() != g.rows:
            return None
        if not per_row and phase and g.layout()[1] > 1:  # a row is not in one place
            return None
        again = self._again(s, axes, k)
        for a in s.reads:
            made = _made(a.value)
            here = self.home.get(made) == k
            if here and (a.pointwise is None or made is not a.value):
                return None
            if self.home.get(made, -1) > k:
                return None
        return member, again

    def _again(self, s: Statement, axes: tuple[int, ...], k: int) -> list[Member]:
        """What is computed again in group `k` rather than read, for a statement with these axes there."""
        found: list[Member] = []
        for a in s.reads:
            made = self.makers.get(a.value)
            if made is None or a.pointwise is None or a.value in self.groups[k].members or a.value in self.wanted:
                continue
            once = sum(other.value is a.value for other in s.reads) == 1  # not at two points
            if once and self._cheap(made, k):
                found.append(Member(made, tuple(_axes_of(made, a, axes)), 0, again=True))
        return found

    def _cheap(self, s: Statement, k: int) -> bool:
        """Whether it costs no more to compute `s` in group `k` than to read it."""
        arrays = [a.value for a in s.reads]
        there = all(v.op == "argument" or (v in self.wanted and self.home.get(_made(v), k) < k) for v in arrays)
        work = sum((5 if node.fn.helpers else 1) for node in order([s.expr]) if node.fn is not None)
        return s.how == "map" and there and len(set(arrays)) <= 1 and not s.guards and work <= _CHEAP


def _chunk(inner: int, parts: int) -> int:
    """Elements in each of about so many parts: whole vectors."""
    return 16 * -(-inner // (16 * parts))


def _made(value: Value) -> Value:
    """What makes it."""
    return value.inputs[0].value if value.op == "part" else value


def _axes_of(made: Statement, access: Access, axes: Sequence[int]) -> list[int]:
    """The group's axes of a statement that is read point by point by one with these."""
    assert access.pointwise is not None
    found = [-1] * len(made.axes)
    for k, own in zip(made.kept, access.pointwise, strict=True):
        if own >= 0 and made.axes[k].extent != 1:
            found[k] = axes[own]
    return found


def _axes_in(g: Group, s: Statement) -> tuple[int, ...] | None:
    """Which of the group's axes those of a statement are: as what it reads there says, others in order."""
    found: dict[int, int] = {}
    for a in s.reads:
        m = g.members.get(a.value)
        if m is None or a.pointwise is None:
            continue
        for k, own in zip(m.s.kept, a.pointwise, strict=True):
            if own >= 0 and m.axes[k] >= 0 and found.setdefault(own, m.axes[k]) != m.axes[k]:
                return None
    for own, axis in enumerate(s.axes):
        if axis.extent == 1:
            found[own] = -1
        elif own not in found:
            free = [k for k, n in enumerate(g.extents) if n == axis.extent and k not in found.values()]
            if not free:
                return None
            found[own] = free[0]
    axes = tuple([found[own] for own in range(len(s.axes))])
    used = [k for k in axes if k >= 0]
    return axes if len(set(used)) == len(used) else None


def _drop_idle(g: Group) -> None:
    """Leave out what nobody reads."""
    if g.alone:
        return
    needed = set(g.stored)
    stack = list(needed)
    while stack:
        for a in g.members[stack.pop()].s.reads:
            if a.pointwise is not None and a.value in g.members and a.value not in needed:
                needed.add(a.value)
                stack.append(a.value)
    g.members = {v: m for v, m in g.members.items() if v in needed}
