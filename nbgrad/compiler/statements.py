"""From the values of a graph to statements: what is computed for each point of which axes, from where.

A look (a slice, a transpose, a broadcast) is no statement. It is followed back to the value it looks at, and becomes an
index: position ``offset + Σ coefficient * axis`` in the flat elements of that value, perhaps inside a range of an axis
only (what was embedded in zeros).

A statement that reads a value point by point, in the same axes, can be in one loop with the statement that
computes it. Every other way of reading needs the value in full, before; unless it is so cheap that it is computed again
where it is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ..core.shapes import Shape
from ..ir.expr import Expr, const, order, select, substitute, var
from ..ir.graph import Graph, Seen, Value, large

__all__ = ["Access", "Axis", "Guard", "Statement", "statements"]

#: What computing a value again may cost at most, in the units of :func:`_work`.
_CHEAP = 12
#: And for a value that is read by one step alone: it is computed there instead.
_ONCE = 80
#: By how many steps a value that is computed again may be read.
_READERS = 3
#: Ranges of axes that one statement may tell apart; each may double the code.
_GUARDS = 4


class Axis:
    """A loop variable: an axis of one or several statements. `number` orders them for people."""

    __slots__ = ("extent", "number", "parent")

    def __init__(self, extent: int, number: int = 0) -> None:
        self.extent = extent
        self.number = number
        self.parent: Axis | None = None  # the axis that this one was found to be

    def root(self) -> Axis:
        axis = self
        while axis.parent is not None:
            axis = axis.parent
        return axis

    def __repr__(self) -> str:
        return f"i{self.number}"


class Access(NamedTuple):
    """A read of `value`: where among its flat elements, per axis of the reader.

    `pointwise` gives, per axis of `value`, the reader's axis that it is, if it is read in no other way.
    """

    value: Value
    coefficients: tuple[tuple[int, int], ...]  # (reader's axis number, coefficient)
    offset: int
    pointwise: tuple[int, ...] | None
    through: tuple[tuple[int, int], ...] = ()  # (number of the read that is an index, coefficient)


class Guard(NamedTuple):
    """True where a reader's axis is in this range."""

    axis: int
    start: int
    stop: int


class Statement:
    """`value`, computed for every point of `axes`, from reads r0, r1, ... and guards g0, g1, ...

    Attributes
    ----------
    how : str
        "map", "sum", "max", "min"; "embed" and "scatter" (written, added at `target`); "product" or "opaque" (as a
        whole).
    axes : list of Axis
        In the order of the arrays' axes; those of length 1 are left out by :meth:`places`.
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
        self.full: set[Value] = set(outputs)
        self.outputs = dict.fromkeys(outputs)  # in order: what is needed in full depends on it
        self.made: dict[Value, Statement] = {}
        self.readers: Counter[Value] = Counter()
        for value in graph.values:
            for x, _ in value.inputs:
                while x.op == "look":
                    x = x.inputs[0].value
                self.readers[x] += value.op != "look"

    def build(self) -> list[Statement]:
        """All statements that the outputs need; again, if one turns out to be needed in full after it was read."""
        while True:
            before = len(self.full)
            self.made = {}
            for value in self.outputs:
                self._make(value)
            if len(self.full) == before:
                return [self.made[v] for v in sorted(self.made, key=lambda v: v.number)]

    def _make(self, wanted: Value) -> None:
        stack = [wanted]
        while stack:
            value = stack[-1]
            if value in self.made or value.op in ("argument", "part"):
                if value.op == "part" and value.inputs[0].value not in self.made:
                    stack.append(value.inputs[0].value)
                    continue
                stack.pop()
                continue
            made = _statement(self, value)
            missing = [a.value for a in made.reads if a.value not in self.made and a.value.op != "argument"]
            missing = [v.inputs[0].value if v.op == "part" else v for v in missing]
            missing = [v for v in missing if v not in self.made]
            if missing:
                stack += missing
            else:
                self.made[value] = made
                stack.pop()

    # Reading.

    def read(self, into: Statement, seen: Seen, m: list, guards: tuple = ()) -> Expr:
        """An expression for an element of `seen`; `m` says where: per axis (axis of `into` or -1, step, offset)."""
        while True:
            value, shape = seen
            regrouped = _regroup(m, shape, value.shape)
            if value.op == "constant":
                return self._guarded(into, value.attrs, guards)
            if value.op not in ("look", "embed") or value in self.full:
                return self._base(into, value, shape, m, regrouped, guards)
            if regrouped is None:
                self.full.add(value)
                continue
            if value.op == "look":
                (seen,) = value.inputs
                m = [(-1, 0, o) if k < 0 else _composed(regrouped[k], s, o) for k, s, o in value.attrs]
                continue
            begin, step = value.attrs
            found = _unembedded(regrouped, begin, step, value, guards)
            if found is None or len({*found[1], *into.guards}) > _GUARDS:
                self.full.add(value)
                continue
            m, guards = found
            (seen,) = value.inputs
            if any(g.start >= g.stop for g in guards):
                return const(0)

    def _base(self, into, value, shape, m, regrouped, guards) -> Expr:
        loop = value.op in ("map", "reduce", "look", "constant", "product")
        same = loop and regrouped is not None and not guards and _pointwise(into, value, regrouped)
        again = not same and value.op == "map" and value.attrs[1] is value.dtype and value not in self.full
        if again and regrouped is not None and self.readers[value] <= _READERS and self._cheap(value):
            return self._again(into, value, regrouped, guards)
        if not same and value.op != "argument":
            self.full.add(value)
        coefficients: dict[int, int] = {}
        offset = 0
        for (axis, step, start), stride in zip(m, _strides(shape), strict=True):
            offset += stride * start
            if axis >= 0 and step:
                coefficients[axis] = coefficients.get(axis, 0) + stride * step
        pointwise = tuple([axis for axis, _, _ in regrouped]) if same else None
        access = Access(value, tuple(sorted(coefficients.items())), offset, pointwise)
        if access not in into.reads:
            into.reads.append(access)
        return self._guarded(into, var(f"r{into.reads.index(access)}"), guards)

    def _guarded(self, into: Statement, e: Expr, guards: tuple) -> Expr:
        for guard in guards:
            if guard.start <= 0 and guard.stop >= into.axes[guard.axis].extent:
                continue
            if guard not in into.guards:
                into.guards.append(guard)
            e = select(var(f"g{into.guards.index(guard)}"), e, const(0))
        return e

    def _cheap(self, value: Value) -> bool:
        """Whether computing an element of `value` where it is read costs little, whatever it is computed from."""
        stack, cost = [value], 0
        budget = _ONCE if self.readers[value] == 1 else _CHEAP
        while stack:
            v = stack.pop()
            if v.op == "map" and v not in self.outputs:
                cost += _work(v.attrs[0])
            elif v.op == "look" and v not in self.full:  # of a value that must be computed again there, too: no
                if not self._there(v.inputs[0].value):
                    return False
                continue
            elif not self._there(v):
                return False
            if cost > budget:
                return False
            if v.op == "map" and v not in self.full:
                stack += [x.value for x in v.inputs]
        return True

    def _there(self, value: Value) -> bool:
        """Whether the elements of a value need not be computed to be read."""
        while value.op == "look" and value not in self.full:
            value = value.inputs[0].value
        return value.op in ("argument", "constant") or value in self.full

    def _again(self, into: Statement, value: Value, m: list, guards: tuple) -> Expr:
        expr, _ = value.attrs
        known = {
            var(f"x{k}"): self.read(into, x, _aligned(x.shape, value.shape, m)) for k, x in enumerate(value.inputs)
        }
        # What is outside its range must not be read: reads take part in the guard.
        return self._guarded(into, substitute(expr, known), guards)


def _work(e: Expr) -> int:
    return sum((5 if node.fn.helpers else 1) for node in order([e]) if node.fn is not None)


def statements(graph: Graph, outputs: Sequence[Value]) -> tuple[list[Statement], set[Value]]:
    """The statements that compute `outputs`, in an order that works, and the values that are needed in full."""
    builder = _Builder(graph, outputs)
    found = builder.build()
    return found, builder.full


def _statement(builder: _Builder, value: Value) -> Statement:
    every = range(len(value.shape))
    own = [(k, 1, 0) for k in every]
    if value.op == "map":
        made = Statement(value, "map", value.shape, every)
        expr, _ = value.attrs
        known = {
            var(f"x{k}"): builder.read(made, x, _aligned(x.shape, value.shape, own)) for k, x in enumerate(value.inputs)
        }
        made.expr = substitute(expr, known)
    elif value.op == "constant":
        made = Statement(value, "map", value.shape, every)
        made.expr = value.attrs
    elif value.op == "look":
        made = Statement(value, "map", value.shape, every)
        m = [(k, s, o) for k, s, o in value.attrs]
        made.expr = builder.read(made, value.inputs[0], m)
    elif value.op == "embed":
        (x,) = value.inputs
        made = Statement(value, "embed", x.shape, range(len(x.shape)))
        made.expr = builder.read(made, x, [(k, 1, 0) for k in range(len(x.shape))])
        begin, step = value.attrs
        strides = _strides(value.shape)
        coefficients = tuple([(k, s * n) for k, (s, n) in enumerate(zip(strides, step, strict=True))])
        made.target = Access(value, coefficients, sum(s * b for s, b in zip(strides, begin, strict=True)), None)
        builder.full.add(value)
    elif value.op == "reduce":
        how, axes = value.attrs
        (x,) = value.inputs
        kept = [k for k in range(len(x.shape)) if k not in axes]
        if len(value.shape) != len(kept):  # axes of length 1 that were reduced
            kept = _matching(x.shape, axes, value.shape)
        made = Statement(value, how, x.shape, kept)
        made.expr = builder.read(made, x, [(k, 1, 0) for k in range(len(x.shape))])
    elif value.op == "product":
        made = _product(builder, value)
    elif value.op in ("take", "scatter"):
        made = _indexed(builder, value)
    else:
        assert value.op == "opaque", value.op
        made = Statement(value, "opaque", (), ())
        for x in value.inputs:
            _whole(builder, made, x)
    return made


def _matching(shape: Shape, axes: tuple[int, ...], left: Shape) -> list[int]:
    """The axes of `shape` that remain as `left`, where axes of length 1 may have gone, too."""
    found = []
    k = 0
    for n in left:
        while k in axes or shape[k] != n:
            k += 1
        found.append(k)
        k += 1
    return found


def _whole(builder: _Builder, made: Statement, x: Seen, rows: tuple[int, ...] | None = None) -> None:
    """Read `x` as an array of its own. `rows`: its axes that are axes of `made`, -1 for others."""
    value = x.value
    if value.op != "argument":
        builder.full.add(value)
    made.reads.append(Access(value, (), 0, rows if value.shape == x.shape and rows and max(rows) >= 0 else None))


def _indexed(builder: _Builder, value: Value) -> Statement:
    """Reading, or adding to, elements whose place is read from an array."""
    x, index = value.inputs
    axis = value.attrs
    wide, rank = (value.shape if value.op == "take" else x.shape), len(index.shape)
    target = x.shape if value.op == "take" else value.shape
    made = Statement(value, "map" if value.op == "take" else "scatter", wide, range(len(wide)))
    place = builder.read(made, index, [(axis + k, 1, 0) for k in range(rank)])
    assert place.name is not None  # an index is never guarded
    strides = _strides(target)
    others = [(k, strides[k]) for k in range(axis)]
    others += [(k + rank - 1, strides[k]) for k in range(axis + 1, len(target))]
    through = ((int(place.name[1:]), strides[axis]),)
    if value.op == "take":
        if x.value.op != "argument":
            builder.full.add(x.value)
        made.reads.append(Access(x.value, tuple(others), 0, None, through))
        made.expr = var(f"r{len(made.reads) - 1}")
    else:
        made.expr = builder.read(made, x, [(k, 1, 0) for k in range(len(wide))])
        made.target = Access(value, tuple(others), 0, None, through)
        builder.full.add(value)
    return made


def _product(builder: _Builder, value: Value) -> Statement:
    a, b = value.inputs
    transpose_a, transpose_b = value.attrs
    *stack, m, n = value.shape
    k = a.shape[-2] if transpose_a else a.shape[-1]
    if large(m, k, n):
        builder.full.add(value)
        if stack:
            made = Statement(value, "product", (), ())
            _whole(builder, made, a)
            _whole(builder, made, b)
            return made
        # Rows of the result, and rows that both operands are summed over, may be taken in blocks.
        made = Statement(value, "product", (m, n, k), (0, 1))
        _whole(builder, made, a, (2 if transpose_a else 0, -1))
        _whole(builder, made, b, (-1 if transpose_b or not transpose_a else 2, -1))
        return made
    made = Statement(value, "sum", (*stack, m, k, n), (*range(len(stack)), len(stack), len(stack) + 2))
    s = len(stack)
    own = [(j, 1, 0) for j in range(s)]
    row, inner, column = (s, 1, 0), (s + 1, 1, 0), (s + 2, 1, 0)
    left = builder.read(made, a, own + ([inner, row] if transpose_a else [row, inner]))
    right = builder.read(made, b, own + ([column, inner] if transpose_b else [inner, column]))
    made.expr = left * right
    return made


# Indices.


def _strides(shape: Shape) -> list[int]:
    strides, n = [], 1
    for length in reversed(shape):
        strides.append(n)
        n *= length
    return strides[::-1]


def _aligned(shape: Shape, wide: Shape, m: Sequence) -> list:
    """What `m` (per axis of `wide`) says about the axes of a `shape` that is broadcast to it."""
    extra = len(wide) - len(shape)
    return [(-1, 0, 0) if n == 1 else m[k] for k, n in enumerate(shape, extra)]


def _composed(outer: tuple[int, int, int], step: int, offset: int) -> tuple[int, int, int]:
    axis, s, o = outer
    return axis, s * step, o * step + offset


def _regroup(m: Sequence, shape: Shape, other: Shape) -> list | None:
    """`m` (per axis of `shape`) per axis of `other`, if the two differ in axes of length 1 alone."""
    if shape == other:
        return list(m)
    places = [m[k] for k, n in enumerate(shape) if n != 1]
    if [n for n in shape if n != 1] != [n for n in other if n != 1]:
        return None
    source = iter(places)
    return [(-1, 0, 0) if n == 1 else next(source) for n in other]


def _unembedded(m: Sequence, begin: Shape, step: Shape, value: Value, guards: tuple) -> tuple[list, tuple] | None:
    """Where an element of an embedding is in what was embedded, and for which points it is there."""
    found = []
    for (axis, s, o), b, t, n, wide in zip(m, begin, step, value.inputs[0].shape, value.shape, strict=True):
        if n == wide and b == 0 and t == 1:
            found.append((axis, s, o))
        elif axis < 0 or s != 1 or abs(t) != 1:
            return None
        else:
            found.append((axis, t, (o - b) * t))
            start = b - o if t == 1 else b - o - n + 1
            guards = (*guards, Guard(axis, start, start + n))
    return found, guards


def _pointwise(into: Statement, value: Value, m: Sequence) -> bool:
    """Whether each axis of `value` is one of the reader's, all different, from end to end."""
    used = set()
    for (axis, step, offset), n in zip(m, value.shape, strict=True):
        if n == 1:
            continue
        if axis < 0 or step != 1 or offset or axis in used or into.axes[axis].extent != n:
            return False
        used.add(axis)
    return True
