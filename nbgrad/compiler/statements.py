"""Lowering of graphs to statements: what is computed at each point of which axes, from which elements.

A view (a slice, a transpose, a broadcast; op ``"look"``) is no statement. It is resolved to the value that it views,
and becomes an index: position ``offset + Σ coefficient * axis`` in the flat elements of that value, perhaps valid
within a range of an axis only (what was embedded in zeros). Arrays that were joined are read where they come from, each
in its range.

A statement that reads a value pointwise, along the same axes, can share a loop with the statement that computes it.
Every other read needs the materialized value first, unless the value is so cheap that it is recomputed by its reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..core.shapes import Shape, strides_of
from ..ir.expr import Expr, const, select, substitute, topological_order, var
from ..ir.graph import MAX_JOINED, Graph, ShapedValue, Value, is_large_product

__all__ = ["Access", "Axis", "Guard", "Statement", "lower_to_statements"]

#: The maximum cost of recomputing a value, in the units of :func:`_work`.
_MAX_RECOMPUTE_COST = 12
#: The same for a value with a single reader, which computes it instead.
_MAX_SINGLE_READER_COST = 80
#: The maximum number of readers that recompute at this cost; more may in all, if it costs them no more.
_MAX_RECOMPUTE_READERS = 3
#: The maximum number of guards in a statement; each may be another loop.
_MAX_GUARDS = 2 * (MAX_JOINED - 1)
_ZERO = const(0)


class Axis:
    """A loop variable: an axis of one or several statements. `number` only orders them for readers."""

    __slots__ = ("extent", "number", "parent")

    def __init__(self, extent: int, number: int = 0) -> None:
        self.extent = extent
        self.number = number
        self.parent: Axis | None = None  # the axis that this one was merged into

    def root(self) -> Axis:
        axis = self
        while axis.parent is not None:
            axis = axis.parent
        return axis

    def __repr__(self) -> str:
        return f"i{self.number}"


class Access(NamedTuple):
    """A read of `value`: the index in its flat elements, as a function of the reader's axes.

    For a pointwise read, `pointwise` maps each axis of `value` to an axis of the reader; else it is None.
    """

    value: Value
    coefficients: tuple[tuple[int, int], ...]  # (reader's axis number, coefficient)
    offset: int
    pointwise: tuple[int, ...] | None
    through: tuple[tuple[int, int], ...] = ()  # (number of the read that gives an index, coefficient)


class Guard(NamedTuple):
    """A condition: an axis of the reader is in this range."""

    axis: int
    start: int
    stop: int


class Statement:
    """`value`, computed for every point of `axes`, from reads r0, r1, ... and guards g0, g1, ...

    Attributes
    ----------
    how : str
        "map", "sum", "max", "min"; "embed" and "scatter" (assigned, or accumulated, at `target`); "product" or
        "opaque" (as a whole).
    axes : list of Axis
        In the order of the arrays' axes; those of length 1 are ignored.
    kept : tuple of int
        Per axis of the value, which of `axes` it is.
    """

    def __init__(self, value: Value, how: str, extents: Sequence[int], kept: Sequence[int]) -> None:
        self.value = value
        self.how = how
        self.axes = [Axis(n) for n in extents]
        self.kept = tuple(kept)
        self.expr: Expr = const(0)
        self.reads: list[Access] = []
        self.guards: list[Guard] = []
        self.target: Access | None = None

    @property
    def reduced(self) -> list[int]:
        return [k for k, axis in enumerate(self.axes) if k not in self.kept and axis.extent != 1]

    def __repr__(self) -> str:
        return f"{self.value!r}[{', '.join(map(repr, self.axes))}] = {self.how} {self.expr!r}"


class _Builder:
    def __init__(self, graph: Graph, outputs: Sequence[Value]) -> None:
        self.graph = graph
        self.must_materialize: set[Value] = set(outputs)
        self.outputs = dict.fromkeys(outputs)  # ordered: what is materialized depends on the order
        self.statement_of: dict[Value, Statement] = {}
        self.readers: Counter[Value] = Counter()
        #: Of axes of the statement being built: the points for which the part that is being read counts.
        self.points: dict[int, range] = {}
        self._readable: set[Value] = set()  # a value that is readable remains so
        for value in reversed(graph.values):
            # Whoever reads a view, or parts that were joined, reads what these come from.
            count = self.readers[value] if value.op in ("look", "join") else 1
            for x, _ in value.inputs:
                self.readers[x] += count

    def build(self) -> list[Statement]:
        """All statements that the outputs need; repeated if a value turns out to need materializing after a read."""
        while True:
            before = len(self.must_materialize)
            self.statement_of = {}
            for value in self.outputs:
                self._lower(value)
            if len(self.must_materialize) == before:
                return [self.statement_of[v] for v in sorted(self.statement_of, key=lambda v: v.number)]

    def _lower(self, wanted: Value) -> None:
        stack = [wanted]
        while stack:
            value = stack[-1]
            if value in self.statement_of or value.op in ("argument", "part"):
                if value.op == "part" and value.inputs[0].value not in self.statement_of:
                    stack.append(value.inputs[0].value)
                    continue
                stack.pop()
                continue
            lowered = _statement(self, value)
            missing = [a.value for a in lowered.reads if a.value not in self.statement_of and a.value.op != "argument"]
            missing = [v.inputs[0].value if v.op == "part" else v for v in missing]
            missing = [v for v in missing if v not in self.statement_of]
            if missing:
                stack += missing
            else:
                self.statement_of[value] = lowered
                stack.pop()

    # Reading.

    def read(self, into: Statement, seen: ShapedValue, m: list, guards: tuple = ()) -> Expr:
        """An expression for an element of `seen`, located by `m`: per axis, (axis of `into` or -1, step, offset)."""
        while True:
            value, shape = seen
            regrouped = _match_axes(m, shape, value.shape)
            if value.op == "constant":
                return self._guarded(into, value.attrs, guards)
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
            if inverted is None or len({*inverted[1], *into.guards}) > _MAX_GUARDS:
                self.must_materialize.add(value)
                continue
            m, guards = inverted
            (seen,) = value.inputs
            if any(g.start >= g.stop for g in guards):
                return const(0)

    def joined(self, into: Statement, value: Value, m: list) -> Expr | None:
        """An expression for an element of joined parts, located by `m`; None if it would have too many guards."""
        axis, step, offset = m[value.attrs]
        if abs(step) > 1:
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
        for k, (guard, x, begin) in enumerate(parts):
            own = [*m[: value.attrs], (axis, step, offset - begin), *m[value.attrs + 1 :]]
            self.points = everywhere | {axis: range(guard.start, guard.stop)}
            part = self.read(into, x, own)
            self.points = everywhere
            e = part if k == 0 else self._guarded(into, part, (guard,), e)
        return e

    def _base(self, into, value, shape, m, regrouped, guards) -> Expr:
        loop = value.op in ("map", "reduce", "look", "join", "constant", "product")
        pointwise_read = loop and regrouped is not None and not guards and _pointwise(into, value, regrouped)
        recomputable = (
            not pointwise_read
            and value.op == "map"
            and value.attrs[1] is value.dtype
            and value not in self.must_materialize
        )
        if recomputable and regrouped is not None and self._cheap_to_recompute(value):
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

    def _is_readable(self, value: Value) -> bool:
        """Whether the elements of a value can be read without computing them."""
        while value.op == "look" and value not in self.must_materialize:
            value = value.inputs[0].value
        if value in self._readable or value in self.must_materialize or value.op in ("argument", "constant"):
            return True
        if value.op != "join" or not all(self._is_readable(x.value) for x in value.inputs):
            return False
        self._readable.add(value)
        return True

    def _recompute(self, into: Statement, value: Value, m: list, guards: tuple) -> Expr:
        expr, _ = value.attrs
        known = {
            var(f"x{k}"): self.read(into, x, _broadcast_index(x.shape, value.shape, m))
            for k, x in enumerate(value.inputs)
        }
        # Elements out of range must not be read, so the guard encloses the reads.
        return self._guarded(into, substitute(expr, known), guards)


def _work(e: Expr) -> int:
    return sum((5 if node.fn.helpers else 1) for node in topological_order([e]) if node.fn is not None)


def lower_to_statements(graph: Graph, outputs: Sequence[Value]) -> tuple[list[Statement], set[Value]]:
    """The statements that compute `outputs`, in an executable order, and the values to materialize."""
    builder = _Builder(graph, outputs)
    lowered = builder.build()
    return lowered, builder.must_materialize


def _statement(builder: _Builder, value: Value) -> Statement:
    every = range(len(value.shape))
    own = [(k, 1, 0) for k in every]
    if value.op == "map":
        lowered = Statement(value, "map", value.shape, every)
        expr, _ = value.attrs
        known = {
            var(f"x{k}"): builder.read(lowered, x, _broadcast_index(x.shape, value.shape, own))
            for k, x in enumerate(value.inputs)
        }
        lowered.expr = substitute(expr, known)
    elif value.op == "constant":
        lowered = Statement(value, "map", value.shape, every)
        lowered.expr = value.attrs
    elif value.op == "look":
        lowered = Statement(value, "map", value.shape, every)
        m = [(k, s, o) for k, s, o in value.attrs]
        lowered.expr = builder.read(lowered, value.inputs[0], m)
    elif value.op == "join":
        lowered = Statement(value, "map", value.shape, every)
        e = builder.joined(lowered, value, own)
        assert e is not None, "operators join few parts"
        lowered.expr = e
    elif value.op == "embed":
        (x,) = value.inputs
        lowered = Statement(value, "embed", x.shape, range(len(x.shape)))
        lowered.expr = builder.read(lowered, x, [(k, 1, 0) for k in range(len(x.shape))])
        begin, step = value.attrs
        strides = strides_of(value.shape)
        coefficients = tuple([(k, s * n) for k, (s, n) in enumerate(zip(strides, step, strict=True))])
        lowered.target = Access(value, coefficients, sum(s * b for s, b in zip(strides, begin, strict=True)), None)
        builder.must_materialize.add(value)
    elif value.op == "reduce":
        how, axes = value.attrs
        (x,) = value.inputs
        kept = [k for k in range(len(x.shape)) if k not in axes]
        if len(value.shape) != len(kept):  # reduced axes of length 1 were dropped
            kept = _remaining_axes(x.shape, axes, value.shape)
        lowered = Statement(value, how, x.shape, kept)
        lowered.expr = builder.read(lowered, x, [(k, 1, 0) for k in range(len(x.shape))])
    elif value.op == "product":
        lowered = _product(builder, value)
    elif value.op in ("take", "scatter"):
        lowered = _indexed(builder, value)
    else:
        assert value.op == "opaque", value.op
        lowered = Statement(value, "opaque", (), ())
        for x in value.inputs:
            _read_materialized(builder, lowered, x)
    return lowered


def _remaining_axes(shape: Shape, axes: tuple[int, ...], left: Shape) -> list[int]:
    """The axes of `shape` that remain in `left`, where axes of length 1 may have been dropped, too."""
    remaining = []
    k = 0
    for n in left:
        while k in axes or shape[k] != n:
            k += 1
        remaining.append(k)
        k += 1
    return remaining


def _read_materialized(
    builder: _Builder, reader: Statement, x: ShapedValue, rows: tuple[int, ...] | None = None
) -> None:
    """Read `x` as a materialized array. `rows`: its axes that are axes of `reader`, -1 for others."""
    value = x.value
    if value.op != "argument":
        builder.must_materialize.add(value)
    reader.reads.append(Access(value, (), 0, rows if value.shape == x.shape and rows and max(rows) >= 0 else None))


def _indexed(builder: _Builder, value: Value) -> Statement:
    """A gather or scatter: elements whose index is read from an array."""
    x, index = value.inputs
    axis = value.attrs
    wide, rank = (value.shape if value.op == "take" else x.shape), len(index.shape)
    target = x.shape if value.op == "take" else value.shape
    lowered = Statement(value, "map" if value.op == "take" else "scatter", wide, range(len(wide)))
    position = builder.read(lowered, index, [(axis + k, 1, 0) for k in range(rank)])
    assert position.name is not None  # an index is never guarded
    strides = strides_of(target)
    others = [(k, strides[k]) for k in range(axis)]
    others += [(k + rank - 1, strides[k]) for k in range(axis + 1, len(target))]
    through = ((int(position.name[1:]), strides[axis]),)
    if value.op == "take":
        if x.value.op != "argument":
            builder.must_materialize.add(x.value)
        lowered.reads.append(Access(x.value, tuple(others), 0, None, through))
        lowered.expr = var(f"r{len(lowered.reads) - 1}")
    else:
        lowered.expr = builder.read(lowered, x, [(k, 1, 0) for k in range(len(wide))])
        lowered.target = Access(value, tuple(others), 0, None, through)
        builder.must_materialize.add(value)
    return lowered


def _product(builder: _Builder, value: Value) -> Statement:
    a, b = value.inputs
    transpose_a, transpose_b = value.attrs
    *stack, m, n = value.shape
    k = a.shape[-2] if transpose_a else a.shape[-1]
    if is_large_product(m, k, n):
        builder.must_materialize.add(value)
        if stack:
            lowered = Statement(value, "product", (), ())
            _read_materialized(builder, lowered, a)
            _read_materialized(builder, lowered, b)
            return lowered
        # Rows of the result, or of the axis that is summed over, may be tiled.
        lowered = Statement(value, "product", (m, n, k), (0, 1))
        _read_materialized(builder, lowered, a, (2 if transpose_a else 0, -1))
        _read_materialized(builder, lowered, b, (-1 if transpose_b or not transpose_a else 2, -1))
        return lowered
    lowered = Statement(value, "sum", (*stack, m, k, n), (*range(len(stack)), len(stack), len(stack) + 2))
    s = len(stack)
    own = [(j, 1, 0) for j in range(s)]
    row, inner, column = (s, 1, 0), (s + 1, 1, 0), (s + 2, 1, 0)
    left = builder.read(lowered, a, own + ([inner, row] if transpose_a else [row, inner]))
    right = builder.read(lowered, b, own + ([column, inner] if transpose_b else [inner, column]))
    lowered.expr = left * right
    return lowered


# Indices.


def _broadcast_index(shape: Shape, wide: Shape, m: Sequence) -> list:
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
