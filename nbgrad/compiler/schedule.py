"""Scheduling: lower statements to loops.

Statements that read each other pointwise share axes. All axes get one global order, and each statement its loops in
that order. The statements are then inserted, one after the other, into the deepest existing loops that are legal: a
loop may be shared if every element read inside was computed in the same or an earlier iteration of it.

The innermost loop is the one to vectorize. If its axis is short (three coordinates, ten classes) and there is a long
one, the long axis is tiled, and the loop within a tile becomes the innermost: everything in between then works on small
blocks, which stay in the first-level cache. Axes of a few elements are unrolled.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

from ..core.shapes import size
from ..ir.expr import Expr
from ..ir.graph import Value
from ..kernels.narrow_products import product_routine
from .statements import Access, Axis, Statement

__all__ = ["Loop", "Program", "TileAxis", "has_short_ends", "reduction_axes", "schedule_statements"]

#: Axes up to this length are unrolled, or up to a shorter one if that made a kernel so many statements longer: compile
#: time grows faster than their number.
_UNROLLED, _ADDED = 4, 400
#: Where there are several kernels, no statement becomes more than that many.
_COPIES = 9
#: Rows up to this length are moved without a loop.
_UNROLLED_ROW = 16
#: A last axis shorter than this is not vectorized if there is another.
_SHORT = 24
#: Matrices with at least this many elements exceed the second-level cache.
_LONG = 1 << 17
#: The maximum number of guard boundaries in a loop, unless all but the longest range between them are short; each costs
#: another copy of its body.
_ENDS = 3
#: A loop of more statements is divided into pieces: its compile time grows faster than their number, and equal pieces
#: are compiled once. Every value may then need an array, at most this many bytes in all.
_WHOLE, _PIECE, _PASSED_ON = 1000, 40, 1 << 28
#: Tile sizes: of a long axis that becomes the innermost loop; of a long sum.
_LANES, _RUN = 64, 4096


class TileAxis(Axis):
    """An axis that counts the tiles of another, or the elements of one tile."""

    __slots__ = ("inner", "length", "whole")

    def __init__(self, whole: Axis, length: int, inner: bool) -> None:
        super().__init__(length if inner else -(-whole.extent // length), whole.number)
        self.whole = whole
        self.length = length
        self.inner = inner


class Loop:
    """A loop over one axis. `body`: loops and statements; `computed`: the values that these compute; `expr`: the
    expression of the first; `ends`: the points of the axis at which one of their guards changes."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.body: list[Loop | Statement] = []
        self.computed: set[Value] = set()
        self.expr: Expr | None = None
        self.ends: set[int] = set()

    def statements(self) -> Iterable[Statement]:
        for item in self.body:
            if isinstance(item, Loop):
                yield from item.statements()
            else:
                yield item


class Program:
    """The loops, and the decisions behind them.

    Attributes
    ----------
    body : list
        Top-level loops and statements.
    paths : dict
        Statement -> the loops around it.
    loops, unrolled : dict
        Statement -> its axes that are loops, and those that are unrolled.
    blocks : dict
        Axis -> the two axes it was tiled into.
    materialized_values : set of Value
    divided : set of Axis
        The axes whose loops are divided into pieces.
    """

    def __init__(self, full: set[Value]) -> None:
        self.body: list[Loop | Statement] = []
        self.paths: dict[Statement, list[Loop]] = {}
        self.loops: dict[Statement, list[Axis]] = {}
        self.unrolled: dict[Statement, list[Axis]] = {}
        self.blocks: dict[Axis, tuple[TileAxis, TileAxis]] = {}
        self.materialized_values = full
        self.divided: set[Axis] = set()
        self.makers: dict[Value, Statement] = {}

    def parts(self, axis: Axis) -> Sequence[Axis]:
        """The axes it was tiled into, or the axis itself."""
        return self.blocks.get(axis, (axis,))


def schedule_statements(
    statements: list[Statement], full: set[Value], lanes: int = _LANES, one_kernel: bool = False
) -> Program:
    """Schedule the statements of a program.

    Parameters
    ----------
    statements : list of Statement
        In an executable order.
    full : set of Value
        The values that must be materialized as arrays; more may be added.
    lanes : int
        The tile size of an innermost loop.
    one_kernel : bool
        All becomes one kernel.
    """
    program = Program(full)
    program.makers = {s.value: s for s in statements}
    _merge_axes(statements, program)
    order = _axis_order(statements)
    unrolled = _unrolled_axes(statements, one_kernel)
    _tile_axes(statements, program, order, lanes, unrolled)
    rank = {axis: k for k, axis in enumerate(order)}
    for s in statements:
        axes = [part for a in s.axes if a.extent != 1 for part in program.parts(a.root())]
        axes.sort(key=lambda a: rank[a])
        program.loops[s] = [a for a in axes if a not in unrolled or isinstance(a, TileAxis)]
        if s.how == "product":
            program.loops[s] = _blocks_of_rows(s, program)
        program.unrolled[s] = [a for a in axes if a not in program.loops[s]]
    _insert_statements(program, statements)
    program.divided = {item.axis for item in program.body if isinstance(item, Loop) and _too_long(item)}
    if program.divided:
        _insert_statements(program, statements)
    return program


def _unrolled_axes(statements: list[Statement], one_kernel: bool) -> set[Axis]:
    """The axes that are unrolled: short ones, and those along which rows are moved whose numbers are in an array."""
    roots = Counter(a.root() for s in statements for a in s.axes)

    def added(length: int) -> int:
        return sum(_points(a for a in s.axes if a.extent <= length) - 1 for s in statements)

    longest = _UNROLLED
    if one_kernel:
        longest = next((n for n in range(_UNROLLED, 1, -1) if added(n) <= _ADDED), 1)
    found = {a for a in roots if a.extent <= longest}
    for s in [] if one_kernel else statements:
        short = [a.root() for a in s.axes if a.root() in found]
        while _points(short) > _COPIES:  # the outer ones become loops
            found.discard(short.pop(0))
    for s in statements:
        if s.value.op in ("take", "scatter"):
            index = s.value.attrs, s.value.attrs + len(s.value.inputs[1].shape)
            found |= {
                a.root()
                for k, a in enumerate(s.axes)
                if not index[0] <= k < index[1] and a.extent <= _UNROLLED_ROW and roots[a.root()] == 1
            }
    return found


def _insert_statements(program: Program, statements: list[Statement]) -> None:
    program.body, program.paths = [], {}
    for s in statements:
        _insert(program, program.body, s, program.loops[s], [])


def _too_long(loop: Loop) -> bool:
    """Whether compiling a loop takes much longer than compiling its pieces, and what the pieces pass on is small."""
    passed_on = sum(size(v.shape) * v.dtype.storage.itemsize for v in loop.computed)
    return len(loop.computed) > _WHOLE and passed_on <= _PASSED_ON


def _blocks_of_rows(s: Statement, program: Program) -> list[Axis]:
    """The loop around a large matrix product: over tiles of rows, of its result or of the axis it sums over.

    That avoids reading a long operand twice. BLAS gets whole matrices.
    """
    if not s.axes:
        return []
    m, n, k = (axis.root() for axis in s.axes)
    transpose_a, transpose_b = s.value.attrs
    if max(m.extent * k.extent, k.extent * n.extent) < _LONG:
        return []
    if product_routine(transpose_a, transpose_b, m.extent, k.extent, n.extent) == "gemm":
        return []
    if m in program.blocks and not transpose_a:
        return [program.blocks[m][0]]
    if k in program.blocks and transpose_a and not transpose_b:
        return [program.blocks[k][0]]
    return []


def _points(axes: Iterable[Axis]) -> int:
    n = 1
    for a in axes:
        n *= a.extent
    return n


def _merge_axes(statements: list[Statement], program: Program) -> None:
    """Merge the axes along which statements read each other pointwise."""
    members: dict[Axis, set[Statement]] = {}
    for s in statements:
        for axis in s.axes:
            members.setdefault(axis, set()).add(s)
    for s in statements:
        for k, access in enumerate(s.reads):
            maker = program.makers.get(access.value)
            if maker is None or access.pointwise is None:
                continue
            if maker.how in ("opaque", "embed", "scatter") or (maker.how == "product" and not maker.axes):
                s.reads[k] = access._replace(pointwise=None)
                continue
            pairs = [
                (maker.axes[kept].root(), s.axes[own].root())
                for kept, own, n in zip(maker.kept, access.pointwise, access.value.shape, strict=True)
                if n != 1 and own >= 0
            ]
            if _would_self_merge(pairs, members):
                program.materialized_values.add(access.value)
                s.reads[k] = access._replace(pointwise=None)
                continue
            for a, b in pairs:
                a, b = a.root(), b.root()
                if a is not b:
                    b.parent = a
                    members[a] |= members.pop(b)
    number = 0
    for s in statements:
        for axis in s.axes:
            root = axis.root()
            if root.number == 0 and root.extent != 1:
                number += 1
                root.number = number


def _would_self_merge(pairs: list, members: dict) -> bool:
    """Whether merging these axes would merge two axes of one statement."""
    merged: dict[Axis, set[Axis]] = {}
    for a, b in pairs:
        group = merged.get(a, {a}) | merged.get(b, {b})
        for axis in group:
            merged[axis] = group
    for group in {id(g): g for g in merged.values()}.values():
        seen: set[Statement] = set()
        for axis in group:
            if seen & members[axis]:
                return True
            seen |= members[axis]
    return False


def _axis_order(statements: list[Statement]) -> list[Axis]:
    """All axes; those of each statement in its own order if possible, with priority for the largest statements."""
    order: list[Axis] = []
    for s in sorted(statements, key=lambda s: -_points(s.axes)):
        own = [a.root() for a in s.axes if a.extent != 1]
        position = 0
        for axis in own:
            if axis in order:
                position = max(position, order.index(axis) + 1)
            else:
                following = [order.index(a) for a in own[own.index(axis) + 1 :] if a in order]
                at = min([position, *following]) if following and min(following) < position else position
                order.insert(at, axis)
                position = at + 1
    return order


def _tile_axes(
    statements: list[Statement], program: Program, order: list[Axis], lanes: int, unrolled: set[Axis]
) -> None:
    """Tile axes where that pays; `order` gets the new axes."""
    for s in sorted([s for s in statements if s.how != "product"], key=lambda s: -_points(s.axes)):
        own = sorted([a.root() for a in s.axes if a.extent != 1], key=order.index) if s.axes else []
        if any(a in program.blocks for a in own) or _points(own) < 256:
            continue
        loops = [a for a in own if a not in unrolled]
        if not loops:
            continue
        last = loops[-1]
        longest = max(loops, key=lambda a: a.extent)
        if last.extent < _SHORT and longest.extent >= 2 * _SHORT:
            _tile_axis(program, order, longest, lanes, to_inside=True)
        elif last.extent > 2 * _RUN:
            _tile_axis(program, order, last, _RUN, to_inside=False)
    # `order` still holds the tiled axes, which nothing uses any more.


def _tile_axis(program: Program, order: list[Axis], axis: Axis, length: int, to_inside: bool) -> None:
    outer, inner = TileAxis(axis, length, False), TileAxis(axis, length, True)
    program.blocks[axis] = (outer, inner)
    at = order.index(axis)
    if to_inside:
        order.insert(0, outer)
        order.append(inner)
    else:
        order[at : at + 1] = [axis, outer, inner]


def _insert(program: Program, body: list, s: Statement, axes: list[Axis], path: list[Loop]) -> None:
    """Insert `s`, with the loops `axes` still to enter, into `body` or into a loop there."""
    if axes:
        loop = _loop_to_share(program, body, s, axes[0])
        if loop is None:
            loop = Loop(axes[0])
            body.append(loop)
        loop.expr = loop.expr or s.expr
        loop.computed.add(s.value)
        loop.ends |= _guard_ends(s, loop.axis)
        _insert(program, loop.body, s, axes[1:], [*path, loop])
    else:
        body.append(s)
        program.paths[s] = path


def _loop_to_share(program: Program, body: list, s: Statement, axis: Axis) -> Loop | None:
    """The last loop of `body` over `axis` that `s` may be inserted into."""
    for item in reversed(body):
        fits = isinstance(item, Loop) and item.axis is axis and not _ends_piece(program, item, s)
        if fits and _few_ranges(item.ends | _guard_ends(s, axis), axis) and _shareable(program, item, s):
            return item
        if _needs(s, item):
            break
    return None


def _ends_piece(program: Program, loop: Loop, s: Statement) -> bool:
    """Whether a loop is long enough without `s`. It ends rather where it would begin again, so that what repeats itself
    in the program is divided into equal pieces."""
    n, repeats = len(loop.computed), s.expr is loop.expr
    return loop.axis in program.divided and (n >= 2 * _PIECE or (n >= _PIECE and repeats))


def _guard_ends(s: Statement, axis: Axis) -> set[int]:
    """The points of an axis at which a guard of a statement changes."""
    whole = axis.whole if isinstance(axis, TileAxis) else axis
    points = {end for g in s.guards if s.axes[g.axis].root() is whole for end in (g.start, g.stop)}
    return points - {0, whole.extent}


def _few_ranges(ends: set[int], axis: Axis) -> bool:
    """Whether a loop with these guard boundaries does not become too many loops."""
    if len(ends) <= _ENDS:
        return True
    n = (axis.whole if isinstance(axis, TileAxis) else axis).extent
    longest = max(stop - start for start, stop in itertools.pairwise(sorted({0, n, *ends})))
    return has_short_ends(n, longest)


def has_short_ends(n: int, longest: int) -> bool:
    """Whether the ranges of a loop of `n` iterations, but for the longest, have at most a quarter of them."""
    return n - longest <= n // 4


def _values(access: Access) -> Value:
    return access.value.inputs[0].value if access.value.op == "part" else access.value


def _needs(s: Statement, item: Loop | Statement) -> bool:
    """Whether `s` reads something that `item` computes."""
    computed = item.computed if isinstance(item, Loop) else {item.value}
    return any(_values(a) in computed for a in s.reads)


def _shareable(program: Program, loop: Loop, s: Statement) -> bool:
    """Whether an iteration of `loop` has computed all that `s` reads in that iteration."""
    for access in s.reads:
        maker = program.makers.get(access.value)
        if maker is None or loop not in program.paths.get(maker, ()):
            continue
        if access.pointwise is None or loop.axis not in _value_axes(program, maker):
            return False
    return True


def reduction_axes(s: Statement, program: Program) -> list[Axis]:
    """The axes that a statement reduces; tiled ones as their parts."""
    return [part for k in s.reduced for part in program.parts(s.axes[k].root())]


def _value_axes(program: Program, s: Statement) -> list[Axis]:
    """The axes of a statement's value; tiled ones as their parts."""
    return [part for k in s.kept if s.axes[k].extent != 1 for part in program.parts(s.axes[k].root())]
