"""How a statement reads an element: where it is, or how to recompute it.

A view (a slice, a transpose, a broadcast; op ``"look"``) is resolved to the value that it views, and becomes an index:
position ``offset + Σ coefficient * axis`` in the flat elements of that value, perhaps valid within a range of an axis
only (what was embedded in zeros). Arrays that were joined are read where they come from, each in its range, and rows
of a small table through the numbers of the rows.

A statement that reads a value pointwise, along the same axes, can share a loop with the statement that computes it.
Every other read needs the materialized value first, unless the value is so cheap that it is recomputed by its reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..core.shapes import Shape, size, strides_of
from ..ir.expr import Expr, const, select, substitute, topological_order, var
from ..ir.graph import MAX_JOINED, Graph, ShapedValue, Value
from .statements import Access, Guard, Statement

__all__ = ["ElementReader", "broadcast_index"]

#: The maximum cost of recomputing a value, in the units of :func:`_work`.
_MAX_RECOMPUTE_COST = 12
#: The same for a value with a single reader, which computes it instead.
_MAX_SINGLE_READER_COST = 80
#: The maximum number of readers that recompute at this cost; more may in all, if it costs them no more.
_MAX_RECOMPUTE_READERS = 3
#: The maximum number of guards in a statement; each may be another loop.
_MAX_GUARDS = 2 * (MAX_JOINED - 1)
#: The maximum number of elements of an array from which the readers of a gather read: it should stay in the cache.
_MAX_TABLE = 1 << 15
#: The maximum length of an axis of columns, each of which may be a loop of its own.
_MAX_COLUMNS = 16
#: How deep values are recomputed, or joined, in one another.
_MAX_DEPTH = 64
_ZERO = const(0)
_SUM = var("x0") + var("x1")


class ElementReader:
    """Reads elements in statements, and decides which values must be materialized for that.

    Attributes
    ----------
    must_materialize : set of Value
        Grows while statements are built.
    outputs : dict of Value to None
        The results; ordered, since what is materialized depends on the order.
    readers : Counter
        How many statements read a value.
    points : dict of int to range
        Of axes of the statement being built: the points for which the part that is being read counts.
    """

    def __init__(self, graph: Graph, outputs: Sequence[Value], read_tables: bool) -> None:
        self.must_materialize: set[Value] = set(outputs)
        self.outputs = dict.fromkeys(outputs)
        self.readers: Counter[Value] = Counter()
        self.points: dict[int, range] = {}
        self._read_tables = read_tables
        self._depth = 0
        self._readable: set[Value] = set()  # a value that is readable remains so
        for value in reversed(graph.values):
            # Whoever reads a view, or parts that were joined, reads what these come from.
            count = self.readers[value] if value.op in ("look", "join") else 1
            for x, _ in value.inputs:
                self.readers[x] += count

    def read(self, into: Statement, seen: ShapedValue, m: list, guards: tuple = ()) -> Expr:
        """An expression for an element of `seen`, located by `m`: per axis, (axis of `into` or -1, step, offset)."""
        while True:
            value, shape = seen
            regrouped = _match_axes(m, shape, value.shape)
            if value.op == "constant":
                return self._guarded(into, value.attrs, guards)
            if value.op == "take" and regrouped and self._is_table_to_read(value):
                gathered = self._gathered(into, value, regrouped)
                if gathered is not None:
                    return self._guarded(into, gathered, guards)
            if value.op not in ("look", "embed", "join") or value in self.must_materialize:
                return self._base(into, value, shape, m, regrouped, guards)
            if regrouped is None:
                self.must_materialize.add(value)
                continue
            if value.op == "join":
                joined = self.joined(into, value, regrouped)
                if joined is not None:
                    return self._guarded(into, joined, guards)
                self.must_materialize.add(value)
                continue
            if value.op == "look":
                (seen,) = value.inputs
                m = [(-1, 0, o) if k < 0 else _composed(regrouped[k], s, o) for k, s, o in value.attrs]
                continue
            begin, step = value.attrs
            inverted = _invert_embedding(regrouped, begin, step, value, guards)
            if inverted is None or _too_many({*inverted[1], *into.guards}, into):
                self.must_materialize.add(value)
                continue
            m, guards = inverted
            (seen,) = value.inputs
            if any(g.start >= g.stop for g in guards):
                return const(0)

    def _gathered(self, into: Statement, value: Value, m: list) -> Expr | None:
        """An element of a gather, located by `m`, read from where it comes; None if its index is in no array."""
        x, index = value.inputs
        axis, rank = value.attrs, len(index.shape)
        position = self.read(into, index, m[axis : axis + rank])
        if position.name is None:  # it is recomputed: where a row is must be in an array or a variable
            self.must_materialize.add(index.value)
            position = self.read(into, index, m[axis : axis + rank])
        if position.name is None:
            return None
        if x.value.op != "argument":
            self.must_materialize.add(x.value)
        strides = strides_of(x.shape)
        coefficients: dict[int, int] = {}
        offset = 0
        others = strides[:axis] + strides[axis + 1 :]
        for (k, step, start), stride in zip(m[:axis] + m[axis + rank :], others, strict=True):
            offset += stride * start
            if k >= 0 and step:
                coefficients[k] = coefficients.get(k, 0) + stride * step
        through = ((int(position.name[1:]), strides[axis]),)
        access = Access(x.value, tuple(sorted(coefficients.items())), offset, None, through)
        if access not in into.reads:
            into.reads.append(access)
        return var(f"r{into.reads.index(access)}")

    def joined(self, into: Statement, value: Value, m: list) -> Expr | None:
        """An expression for an element of joined parts, located by `m`; None if it would have too many guards."""
        axis, step, offset = m[value.attrs]
        if abs(step) > 1 or self._depth >= _MAX_DEPTH:
            return None
        everywhere = self.points
        points = everywhere.get(axis, range(into.axes[axis].extent)) if axis >= 0 and step else range(1)
        parts: list[tuple[Guard, ShapedValue, int]] = []
        begin = 0
        for x in value.inputs:
            n = x.shape[value.attrs]
            # The points i of the axis with begin <= offset + step * i < begin + n.
            start = begin - offset if step >= 0 else offset - begin - n + 1
            guard = Guard(axis, max(start, points.start), min(start + n, points.stop))
            if guard.start < guard.stop:
                parts.append((guard, x, begin))
            begin += n
        guards = dict.fromkeys([*into.guards, *(guard for guard, _, _ in parts[1:])])
        if len(guards) > _MAX_GUARDS:
            return None
        into.guards[:] = guards
        e = _ZERO
        self._depth += 1
        for k, (guard, x, begin) in enumerate(parts):
            own = [*m[: value.attrs], (axis, step, offset - begin), *m[value.attrs + 1 :]]
            self.points = everywhere | {axis: range(guard.start, guard.stop)}
            part = self.read(into, x, own)
            self.points = everywhere
            e = part if k == 0 else self._guarded(into, part, (guard,), e)
        self._depth -= 1
        return e

    def _base(self, into, value, shape, m, regrouped, guards) -> Expr:
        loop = value.op in ("map", "reduce", "look", "join", "constant", "product")
        pointwise_read = loop and regrouped is not None and not guards and _pointwise(into, value, regrouped)
        recomputable = (
            (not pointwise_read or self._is_sum_of_columns(into, value))
            and value.op == "map"
            and value.attrs[1] is value.dtype
            and value not in self.must_materialize
            and self._depth < _MAX_DEPTH
        )
        if recomputable and regrouped is not None and (pointwise_read or self._cheap_to_recompute(value)):
            return self._recompute(into, value, regrouped, guards)
        if not pointwise_read and value.op != "argument":
            self.must_materialize.add(value)
        coefficients: dict[int, int] = {}
        offset = 0
        for (axis, step, start), stride in zip(m, strides_of(shape), strict=True):
            offset += stride * start
            if axis >= 0 and step:
                coefficients[axis] = coefficients.get(axis, 0) + stride * step
        pointwise = tuple([axis for axis, _, _ in regrouped]) if pointwise_read else None
        access = Access(value, tuple(sorted(coefficients.items())), offset, pointwise)
        if access not in into.reads:
            into.reads.append(access)
        return self._guarded(into, var(f"r{into.reads.index(access)}"), guards)

    def _is_sum_of_columns(self, into: Statement, value: Value) -> bool:
        """Whether `value`, which only `into` reads, adds values that are zero but for a part of one short axis; then
        `into` adds them itself, in one loop for each part."""
        axes: set[int] = set()
        stack = [value] if _moves_or_adds(into) else []
        while stack:
            v = stack.pop()
            if v.op == "map" and v.attrs[0] is _SUM and self.readers[v] == 1 and v not in self.must_materialize:
                stack += [x.value for x in v.inputs]
            elif v.op == "embed" and v not in self.must_materialize:
                shape = v.inputs[0].shape
                axes |= {k for k, n in enumerate(v.shape) if shape[k] != n}
            else:
                return False
        return len(axes) == 1 and all(value.shape[k] <= _MAX_COLUMNS for k in axes)

    def _guarded(self, into: Statement, e: Expr, guards: tuple, otherwise: Expr = _ZERO) -> Expr:
        """`e` where all guards hold, elsewhere `otherwise`."""
        for guard in guards:
            if guard.start <= 0 and guard.stop >= into.axes[guard.axis].extent:
                continue
            if guard not in into.guards:
                into.guards.append(guard)
            e = select(var(f"g{into.guards.index(guard)}"), e, otherwise)
        return e

    def _cheap_to_recompute(self, value: Value) -> bool:
        """Whether recomputing an element of `value` where it is read costs little, including what it reads."""
        stack, cost = [value], 0
        readers = self.readers[value]
        budget = _MAX_SINGLE_READER_COST if readers == 1 else _MAX_RECOMPUTE_COST
        if readers > _MAX_RECOMPUTE_READERS:
            budget //= readers
        while stack:
            v = stack.pop()
            if v.op == "map" and v not in self.outputs:
                cost += _work(v.attrs[0])
            elif v.op in ("look", "join") and v not in self.must_materialize:  # its source needs no recomputing, too
                if not all(self._is_readable(x.value) for x in v.inputs):
                    return False
                continue
            elif not self._is_readable(v):
                return False
            if cost > budget:
                return False
            if v.op == "map" and v not in self.must_materialize:
                stack += [x.value for x in v.inputs]
        return True

    def _is_readable(self, value: Value, depth: int = 0) -> bool:
        """Whether the elements of a value can be read without computing them."""
        while value.op == "look" and value not in self.must_materialize:
            value = value.inputs[0].value
        if value in self._readable or value in self.must_materialize or value.op in ("argument", "constant"):
            return True
        if value.op != "join" or depth > _MAX_DEPTH:
            return False
        if not all(self._is_readable(x.value, depth + 1) for x in value.inputs):
            return False
        self._readable.add(value)
        return True

    def _recompute(self, into: Statement, value: Value, m: list, guards: tuple) -> Expr:
        expr, _ = value.attrs
        self._depth += 1
        known = {
            var(f"x{k}"): self.read(into, x, broadcast_index(x.shape, value.shape, m))
            for k, x in enumerate(value.inputs)
        }
        self._depth -= 1
        # Elements out of range must not be read, so the guard encloses the reads.
        return self._guarded(into, substitute(expr, known), guards)

    def _is_table_to_read(self, gather: Value) -> bool:
        """Whether readers of a gather read what it reads: a small array, many elements of it."""
        n = size(gather.inputs[0].shape)
        return self._read_tables and gather not in self.must_materialize and n <= _MAX_TABLE and n < size(gather.shape)


def _moves_or_adds(s: Statement) -> bool:
    return s.how in ("scatter", "embed") or (s.how == "map" and s.value.op == "map" and s.value.attrs[0] is _SUM)


def _too_many(guards: set[Guard], into: Statement) -> bool:
    """Whether these are more guards than a statement may have: it may have one for each column that it adds."""
    if len(guards) <= _MAX_GUARDS:
        return False
    axes = {g.axis for g in guards}
    columns = len(axes) == 1 and all(into.axes[k].extent <= _MAX_COLUMNS for k in axes)
    return not (columns and _moves_or_adds(into) and len(guards) <= _MAX_COLUMNS)


def _work(e: Expr) -> int:
    return sum((5 if node.fn.helpers else 1) for node in topological_order([e]) if node.fn is not None)


# Indices.


def broadcast_index(shape: Shape, wide: Shape, m: Sequence) -> list:
    """`m` (per axis of `wide`) restricted to the axes of a `shape` that is broadcast to it."""
    extra = len(wide) - len(shape)
    return [(-1, 0, 0) if n == 1 else m[k] for k, n in enumerate(shape, extra)]


def _composed(outer: tuple[int, int, int], step: int, offset: int) -> tuple[int, int, int]:
    axis, s, o = outer
    return axis, s * step, o * step + offset


def _match_axes(m: Sequence, shape: Shape, other: Shape) -> list | None:
    """`m` (per axis of `shape`) per axis of `other`, if they differ in axes of length 1 only; else None."""
    if shape == other:
        return list(m)
    kept = [m[k] for k, n in enumerate(shape) if n != 1]
    if [n for n in shape if n != 1] != [n for n in other if n != 1]:
        return None
    source = iter(kept)
    return [(-1, 0, 0) if n == 1 else next(source) for n in other]


def _invert_embedding(m: Sequence, begin: Shape, step: Shape, value: Value, guards: tuple) -> tuple[list, tuple] | None:
    """The indices into the operand of an embedding, and the guards where they are valid; None if not expressible."""
    indices = []
    for (axis, s, o), b, t, n, wide in zip(m, begin, step, value.inputs[0].shape, value.shape, strict=True):
        if n == wide and b == 0 and t == 1:
            indices.append((axis, s, o))
        elif axis < 0 or s != 1 or abs(t) != 1:
            return None
        else:
            indices.append((axis, t, (o - b) * t))
            start = b - o if t == 1 else b - o - n + 1
            guards = (*guards, Guard(axis, start, start + n))
    return indices, guards


def _pointwise(into: Statement, value: Value, m: Sequence) -> bool:
    """Whether each axis of `value` is a different axis of the reader, in full."""
    used = set()
    for (axis, step, offset), n in zip(m, value.shape, strict=True):
        if n == 1:
            continue
        if axis < 0 or step != 1 or offset or axis in used or into.axes[axis].extent != n:
            return False
        used.add(axis)
    return True
