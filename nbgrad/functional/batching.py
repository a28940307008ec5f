"""Batching (vmap): part of a traced program for many values of an argument at once.

Every step that depends on that argument gets a leading batch axis. Elementwise steps, reductions and views get one more
loop; a matrix product whose other operand is not batched becomes one larger product. Opaque steps run row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..arrays.ndarray import NDArray, wrap
from ..core.context import CPU0, Context
from ..core.shapes import size
from ..errors import TraceError
from ..ir.graph import Graph, OpaqueStep, ShapedValue, Value, is_large_product

__all__ = ["batch_steps"]


def batch_steps(graph: Graph, values: Sequence[Value], known: dict[Value, Value], n: int) -> list[Value]:
    """`values` for each of `n` rows, with a leading batch axis.

    Parameters
    ----------
    graph : Graph
    values : sequence of Value
    known : dict
        Value for one row -> batched value.
    n : int
    """
    known = dict(known)
    rows = _BatchedSteps(graph, known, n)
    for value in _below(values, known):
        if any(x.value in known for x in value.inputs):
            known[value] = rows.of(value)
    return [known.get(v) or graph.broadcast_to_shape(ShapedValue(v, v.shape), (n, *v.shape)) for v in values]


def _below(values: Sequence[Value], known: Collection[Value]) -> list[Value]:
    """The steps that `values` depend on, in order, and that are newer than all arguments in `known`."""
    first = min(v.number for v in known)
    steps: set[Value] = set()
    worklist = list(values)
    while worklist:
        value = worklist.pop()
        if value not in steps and value not in known and value.number > first:
            steps.add(value)
            worklist += [x.value for x in value.inputs]
    return sorted(steps, key=lambda v: v.number)


INDEX = (
    "a compiled Jacobian or Hessian goes through a gradient that uses its cotangent as an index, which differs from "
    "row to row; call it outside of jit"
)


class _BatchedSteps:
    """Batched steps from those for one row."""

    def __init__(self, graph: Graph, known: dict[Value, Value], n: int) -> None:
        self.graph = graph
        self.known = known
        self.n = n

    def seen(self, x: ShapedValue, rank: int = 0) -> ShapedValue:
        """The batched operand, with axes of length 1 for a result of this rank; unchanged if it is not batched."""
        value = self.known.get(x.value)
        if value is None:
            return x
        return ShapedValue(value, (self.n, *(1,) * (rank - len(x.shape)), *x.shape))

    def of(self, value: Value) -> Value:
        """The batched `value`."""
        attrs: Any = value.attrs
        rank = len(value.shape) if value.op == "map" else 0
        inputs = [self.seen(x, rank) for x in value.inputs]
        if value.op == "product":
            return self._product(value)
        if value.op == "opaque":
            whole, results = attrs
            every = tuple([x.value in self.known for x in value.inputs])
            results = tuple([((self.n, *shape), dtype) for shape, dtype in results])
            rows: OpaqueStep = _RowByRow(whole, every, self.n)
            return self.graph.add("opaque", inputs, (rows, results), (), value.dtype)
        if value.op == "part":
            inputs = [ShapedValue(inputs[0].value, ())]
        elif value.op == "look":
            attrs = ((0, 1, 0), *((k if k < 0 else k + 1, step, offset) for k, step, offset in attrs))
        elif value.op == "embed":
            begin, step = attrs
            attrs = ((0, *begin), (1, *step))
        elif value.op == "join":
            shapes = [(self.n, *x.shape) for x in value.inputs]
            inputs = [ShapedValue(self.graph.broadcast_to_shape(x, shape), shape) for x, shape in zip(inputs, shapes)]
            attrs += 1
        elif value.op == "reduce":
            how, axes = attrs
            attrs = (how, tuple([k + 1 for k in axes]))
        elif value.op in ("take", "scatter"):
            if value.inputs[1].value in self.known:
                raise TraceError(INDEX)
            attrs += 1
        return self.graph.add(value.op, inputs, attrs, (self.n, *value.shape), value.dtype)

    def _product(self, value: Value) -> Value:
        a, b = value.inputs
        transpose_a, transpose_b = value.attrs
        *stack, m, columns = value.shape
        inner = a.shape[-2] if transpose_a else a.shape[-1]
        sides = [x.value in self.known for x in (a, b)]
        if (
            all(sides)
            or size(stack) != 1
            or not is_large_product(self.n * (m if sides[0] else columns), inner, columns)
        ):
            return self._stacked(a, b, value)
        if sides[0]:
            left = self._matrices(a, m, inner, transpose_a)
            return self.graph.product(left, b, False, transpose_b, (self.n * m, columns), value.dtype)
        # A batched right operand is the left one of the transposed product.
        right = self._matrices(b, columns, inner, not transpose_b)
        plain = ShapedValue(a.value, a.shape[-2:])
        product = self.graph.product(right, plain, False, not transpose_a, (self.n * columns, m), value.dtype)
        return self._turned(ShapedValue(product, (self.n, columns, m)))

    def _matrices(self, x: ShapedValue, height: int, width: int, turned: bool) -> ShapedValue:
        """All matrices of a batch stacked vertically; transposed first if `turned`."""
        value = self.known[x.value]
        if turned:
            value = self._turned(ShapedValue(value, (self.n, width, height)))
        return ShapedValue(value, (self.n * height, width))

    def _turned(self, x: ShapedValue) -> Value:
        """The batch of transposed matrices."""
        n, height, width = x.shape
        if height == 1 or width == 1:
            return x.value
        return self.graph.add_view(x, ((0, 1, 0), (2, 1, 0), (1, 1, 0)), (n, width, height))

    def _stacked(self, a: ShapedValue, b: ShapedValue, value: Value) -> Value:
        """One product per row; an operand that is not batched is broadcast."""
        left, right = [ShapedValue(self.known.get(x.value) or self._spread(x), (self.n, *x.shape)) for x in (a, b)]
        transpose_a, transpose_b = value.attrs
        return self.graph.product(left, right, transpose_a, transpose_b, (self.n, *value.shape), value.dtype)

    def _spread(self, x: ShapedValue) -> Value:
        return self.graph.broadcast_to_shape(x, (self.n, *x.shape))


@dataclass(frozen=True)
class _RowByRow:
    """An opaque step that runs row by row. `every`: which operands are batched."""

    whole: OpaqueStep
    every: tuple[bool, ...]
    n: int

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def foreign(self) -> bool:
        return self.whole.foreign

    @property
    def subprograms(self) -> Sequence:
        return self.whole.subprograms

    @property
    def form(self) -> tuple:
        return self.every, self.n, self.whole.form

    def concrete(self, read: Collection[int], ctx: Context = CPU0, is_nested: bool = False) -> _Runner:
        return _Runner(self.whole.concrete(read, ctx, is_nested), self.every, self.n)


class _Runner:
    """The runner of such a step; `inner` computes one row."""

    native = None
    inside = None

    def __init__(self, inner: Any, every: Sequence[bool], n: int) -> None:
        self.inner = inner
        self.every = every
        self.n = n
        self.partial = inner.partial
        self.single = inner.single
        self.code = inner.code
        self.name, self.foreign = inner.name, inner.foreign
        self.avals = [((n, *shape) if rows else shape, kind) for rows, (shape, kind) in zip(every, inner.avals)]

    def run(self, *arrays) -> None:
        *operands, output = arrays
        outs = [output] if self.single else output
        run: Callable = self.inner.run
        for r in range(self.n):
            row = [_row(x, r) if rows else x for rows, x in zip(self.every, operands, strict=True)]
            results = [None if y is None else _row(y, r) for y in outs]
            run(*row, results[0] if self.single else results)


def _row(x: NDArray, r: int) -> NDArray:
    shape = x._shape[1:]
    n = size(shape)
    return wrap(x._buf[r * n : (r + 1) * n], shape, x._kind)
