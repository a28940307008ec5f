"""Part of a program for many values of some argument at once: every step that depends on it gets a first axis.

Elementwise steps, reductions and looks stay what they are, with one loop more around them; a product whose other
operand is the same for all rows is one larger product. What is opaque runs for one row after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..arrays.ndarray import NDArray, wrap
from ..core.context import CPU0, Context
from ..core.shapes import size
from ..errors import TraceError
from ..ir.graph import Graph, Seen, Value, large

__all__ = ["every_row"]


def every_row(graph: Graph, values: Sequence[Value], known: dict[Value, Value], n: int) -> list[Value]:
    """`values` for each of `n` rows, as values with a first axis.

    Parameters
    ----------
    graph : Graph
    values : sequence of Value
    known : dict
        Value of one row -> its rows.
    n : int
    """
    known = dict(known)
    rows = _Rows(graph, known, n)
    for value in _below(values, known):
        if any(x.value in known for x in value.inputs):
            known[value] = rows.of(value)
    return [known.get(v) or graph.spread(Seen(v, v.shape), (n, *v.shape)) for v in values]


def _below(values: Sequence[Value], known: Collection[Value]) -> list[Value]:
    """What these are computed from, in order, that is younger than all arguments in `known`."""
    first = min(v.number for v in known)
    found: set[Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if value not in found and value not in known and value.number > first:
            found.add(value)
            stack += [x.value for x in value.inputs]
    return sorted(found, key=lambda v: v.number)


INDEX = (
    "a compiled Jacobian or Hessian goes through a gradient that uses its cotangent as an index, which differs from "
    "row to row; call it outside of jit"
)


class _Rows:
    """Steps for all rows, from those for one."""

    def __init__(self, graph: Graph, known: dict[Value, Value], n: int) -> None:
        self.graph = graph
        self.known = known
        self.n = n

    def seen(self, x: Seen, rank: int = 0) -> Seen:
        """The same look at all rows; with as many axes for each as a result of this rank has."""
        value = self.known.get(x.value)
        if value is None:
            return x
        return Seen(value, (self.n, *(1,) * (rank - len(x.shape)), *x.shape))

    def of(self, value: Value) -> Value:
        """`value` for all rows."""
        attrs: Any = value.attrs
        rank = len(value.shape) if value.op == "map" else 0
        inputs = [self.seen(x, rank) for x in value.inputs]
        if value.op == "product":
            return self._product(value)
        if value.op == "opaque":
            whole, results = attrs
            every = tuple([x.value in self.known for x in value.inputs])
            results = tuple([((self.n, *shape), dtype) for shape, dtype in results])
            return self.graph.add("opaque", inputs, (_EveryRow(whole, every, self.n), results), (), value.dtype)
        if value.op == "part":
            inputs = [Seen(inputs[0].value, ())]
        elif value.op == "look":
            attrs = ((0, 1, 0), *((k if k < 0 else k + 1, step, offset) for k, step, offset in attrs))
        elif value.op == "embed":
            begin, step = attrs
            attrs = ((0, *begin), (1, *step))
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
        if all(sides) or size(stack) != 1 or not large(self.n * (m if sides[0] else columns), inner, columns):
            return self._stacked(a, b, value)
        if sides[0]:
            left = self._matrices(a, m, inner, transpose_a)
            return self.graph.product(left, b, False, transpose_b, (self.n * m, columns), value.dtype)
        # The rows of what is on the right are on the left of the transposed product.
        right = self._matrices(b, columns, inner, not transpose_b)
        plain = Seen(a.value, a.shape[-2:])
        found = self.graph.product(right, plain, False, not transpose_a, (self.n * columns, m), value.dtype)
        return self._turned(Seen(found, (self.n, columns, m)))

    def _matrices(self, x: Seen, height: int, width: int, turned: bool) -> Seen:
        """All matrices one below the other; the transposed ones, if they are stored that way."""
        value = self.known[x.value]
        if turned:
            value = self._turned(Seen(value, (self.n, width, height)))
        return Seen(value, (self.n * height, width))

    def _turned(self, x: Seen) -> Value:
        """All matrices, transposed."""
        n, height, width = x.shape
        if height == 1 or width == 1:
            return x.value
        return self.graph.look(x, ((0, 1, 0), (2, 1, 0), (1, 1, 0)), (n, width, height))

    def _stacked(self, a: Seen, b: Seen, value: Value) -> Value:
        """A product for each row, the same operand for all of them if need be."""
        left, right = [Seen(self.known.get(x.value) or self._spread(x), (self.n, *x.shape)) for x in (a, b)]
        transpose_a, transpose_b = value.attrs
        return self.graph.product(left, right, transpose_a, transpose_b, (self.n, *value.shape), value.dtype)

    def _spread(self, x: Seen) -> Value:
        return self.graph.spread(x, (self.n, *x.shape))


@dataclass(frozen=True)
class _EveryRow:
    """An opaque step, for one row after the other. `every`: which operands have rows."""

    whole: Any
    every: tuple[bool, ...]
    n: int

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def foreign(self) -> bool:
        return self.whole.foreign

    def concrete(self, read: Collection[int], ctx: Context = CPU0) -> _Runner:
        return _Runner(self.whole.concrete(read, ctx), self.every, self.n)


class _Runner:
    """The same to run; `inner` does one row."""

    native = None

    def __init__(self, inner: Any, every: Sequence[bool], n: int) -> None:
        self.inner = inner
        self.every = every
        self.n = n
        self.partial = inner.partial
        self.single = inner.single
        self.texts = inner.texts
        self.name, self.foreign = inner.name, inner.foreign
        self.avals = [((n, *shape) if rows else shape, kind) for rows, (shape, kind) in zip(every, inner.avals)]

    def run(self, *arrays) -> None:
        *operands, given = arrays
        outs = [given] if self.single else given
        run: Callable = self.inner.run
        for r in range(self.n):
            row = [_row(x, r) if rows else x for rows, x in zip(self.every, operands, strict=True)]
            results = [None if y is None else _row(y, r) for y in outs]
            run(*row, results[0] if self.single else results)


def _row(x: NDArray, r: int) -> NDArray:
    shape = x._shape[1:]
    n = size(shape)
    return wrap(x._buf[r * n : (r + 1) * n], shape, x._kind)
