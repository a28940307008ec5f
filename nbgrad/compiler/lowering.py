"""Lowering of graphs to statements: from the results backwards, each value that is no view becomes a statement."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.shapes import Shape, strides_of
from ..ir.expr import substitute, var
from ..ir.graph import Graph, ShapedValue, Value, is_large_product
from .element_reads import ElementReader, broadcast_index
from .statements import Access, Statement

__all__ = ["lower_to_statements"]


class _Builder(ElementReader):
    def __init__(self, graph: Graph, outputs: Sequence[Value], read_tables: bool) -> None:
        super().__init__(graph, outputs, read_tables)
        self.statement_of: dict[Value, Statement] = {}

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


def lower_to_statements(
    graph: Graph, outputs: Sequence[Value], read_tables: bool = False
) -> tuple[list[Statement], set[Value]]:
    """The statements that compute `outputs`, in an executable order, and the values to materialize.

    `read_tables`: rows of small tables are read where they are, not gathered into an array first.
    """
    builder = _Builder(graph, outputs, read_tables)
    lowered = builder.build()
    return lowered, builder.must_materialize


def _statement(builder: _Builder, value: Value) -> Statement:
    every = range(len(value.shape))
    own = [(k, 1, 0) for k in every]
    if value.op == "map":
        lowered = Statement(value, "map", value.shape, every)
        expr, _ = value.attrs
        known = {
            var(f"x{k}"): builder.read(lowered, x, broadcast_index(x.shape, value.shape, own))
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
