"""Tracing: operators on traced arrays append to the graph that this thread traces instead of running.

Outside arrays that a traced function uses are *captured*: like arguments, their memory is read at every call of the
compiled function.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from ..arrays.launch import Kind, kind_of
from ..arrays.ndarray import NDArray, wrap
from ..arrays.sharing import alias
from ..core.context import untraced_context
from ..core.conventions import MXNET, Conventions
from ..core.dtypes import DType
from ..core.shapes import size
from ..errors import TraceError
from ..ir.expr import Expr, const, substitute, var
from ..ir.graph import IN_PLACE, LEAKED, Graph, ShapedValue, TracedBuffer, Value, current
from .observers import observers
from .state import state

__all__ = [
    "RetraceObserver",
    "capture_outside",
    "captured",
    "check_write",
    "current",
    "has_outside_arrays",
    "is_weak",
    "mark_weak",
    "operator_values",
    "outside_kind",
    "trace_elementwise",
    "trace_structured",
    "traced",
    "traced_value",
    "tracing_into",
    "update",
]  # fmt: skip

WEAK = "weak"  # the label of a traced Python number: it takes the dtype of the arrays it meets


def _graph() -> Graph:
    if current.graph is None:
        raise TraceError(LEAKED)
    return current.graph


@contextlib.contextmanager
def tracing_into(graph: Graph, numbers: bool = False) -> Iterator[None]:
    """A scope in which operators on traced arrays append to `graph`; `numbers` as in :data:`..ir.graph.current`."""
    before = current.graph, current.numbers, state.recording
    current.graph, current.numbers, state.recording = graph, numbers, False
    try:
        yield
    finally:
        current.graph, current.numbers, state.recording = before


def check_write(what: str) -> None:
    """Raise a :class:`TraceError` while tracing: `what` would write into an array once, instead of at every call."""
    if current.graph is not None:
        raise TraceError(f"{what}: {IN_PLACE}")


def update(array: NDArray, new: NDArray) -> None:
    """Make every call of the compiled function end by writing `new`, a traced array, into `array`.

    Later reads of `array` while tracing read `new`.
    """
    graph = _graph()
    graph.updates.append((array, new))
    if array._kind.ctx == graph.ctx:
        array._buf = new._buf


def traced(value, shape, dtype: DType, conventions: Conventions = MXNET) -> NDArray:
    """A traced array of this shape for a value of the graph."""
    graph = _graph()
    buffer: Any = TracedBuffer(graph, size(shape), dtype, value, value.op == "argument")
    return wrap(buffer, shape, kind_of(dtype, graph.ctx, conventions))


def traced_value(x: NDArray) -> ShapedValue:
    """The graph value of a traced array, in its shape."""
    buffer: Any = x._buf  # a Flat
    return buffer.seen(x._shape)


def is_weak(x: NDArray) -> bool:
    """Whether `x` is a traced Python number, which takes the dtype of the arrays it meets."""
    return x._kind.traced and getattr(x, "_label", None) == WEAK


def mark_weak(x: NDArray) -> NDArray:
    """`x`, marked as a traced Python number."""
    y = alias(x, x._buf, x._shape)
    y._label = WEAK
    return y


def captured(x: NDArray) -> NDArray:
    """The traced array for an outside one: with values, or traced in an enclosing graph."""
    graph = _graph()
    buffer: Any = x._buf
    if x._kind.traced and buffer.graph is graph:  # created in this graph with the kind of an outside array
        return wrap(buffer, x._shape, x._kind.on(graph.ctx), x._node)
    if x._kind.traced and x._kind.ctx.device_id >= graph.level:
        raise TraceError(LEAKED)
    made = graph.made.get(id(x)) is x  # and may be written: what it is on is no argument's memory
    for outside, inside in (*reversed(graph.updates), *graph.captured):
        if outside._buf is x._buf and outside._shape == x._shape and outside._kind is x._kind:
            return wrap(inside._buf.copy(), inside._shape, inside._kind) if made else inside
    inside = traced(graph.argument(x._shape, x._kind.dtype), x._shape, x._kind.dtype, x._kind.conventions)
    if is_weak(x):
        inside._label = WEAK
    graph.captured.append((x, inside))
    return wrap(inside._buf.copy(), inside._shape, inside._kind) if made else inside


def outside_kind(kind: Kind, dtype: DType) -> Kind:
    """The kind of arrays like those of `kind` with another dtype that are created outside of all traced functions."""
    return kind_of(dtype, untraced_context(kind.ctx), kind.conventions)


def has_outside_arrays(arrays: Sequence[NDArray]) -> bool:
    """Whether some of the arrays are traced, but not all in this graph."""
    graph = current.graph
    if graph is None:
        return False
    return any(x._kind.traced for x in arrays) and any(x._kind.ctx != graph.ctx for x in arrays)


def capture_outside(arrays: Sequence[NDArray]) -> list[NDArray]:
    """The arrays, with outside ones captured."""
    ctx = _graph().ctx
    return [x if x._kind.ctx == ctx else captured(x) for x in arrays]


def trace_elementwise(expr: Expr, scalars: tuple, arrays: Sequence[NDArray], shape, result: DType) -> Any:
    """The buffer of an elementwise operator's result."""
    graph = _graph()
    dtype = arrays[0]._kind.dtype
    if scalars:
        number = float if dtype.is_float else int
        expr = substitute(expr, {var(f"s{k}"): const(number(s)) for k, s in enumerate(scalars)})
    value = graph.map(expr, [traced_value(x) for x in arrays], shape, result, dtype)
    return TracedBuffer(graph, size(shape), result, value)


def operator_values(op, graph: Graph, arrays: Sequence[NDArray], attrs: dict) -> list[Value] | None:
    """Append the graph of a structured operator, by its ``lower`` or ``expand`` rule; None if it has none."""
    values = None
    if op.lowering is not None:
        values = op.lowering(graph, *[traced_value(x) for x in arrays], **attrs)
        if values is not None and not isinstance(values, list):
            values = [values]
    if values is None and op.expansion is not None:
        recording, state.recording = state.recording, False
        try:
            results = op.expansion(*arrays, **attrs)
        finally:
            state.recording = recording
        results = results if isinstance(results, list | tuple) else [results]
        values = [traced_value(y).value for y in results]
        if op.finite and all(traced_value(x).value.finite for x in arrays):
            for value in values:
                value.finite = True
    return values


def trace_structured(plan, *arguments) -> None:
    """The launcher of structured operators for traced arrays: append the operator to the graph."""
    *arrays, result = arguments
    outs = [result] if plan.single else result
    graph = _graph()
    if any(size(y._shape) for y in outs):
        values = operator_values(plan.op, graph, arrays, plan.attrs)
    else:  # expansions need not know of arrays without elements
        values = [graph.constant(0, y._shape, y._kind.dtype) for y in outs]
    if values is None:
        inputs = [traced_value(x) for x in arrays]
        values = graph.opaque(plan, inputs, [(y._shape, y._kind.dtype) for y in outs])
    for out, value in zip(outs, values, strict=True):
        out._buf.bind(value)


class RetraceObserver:
    """The observer during tracing: makes operators on outside arrays only part of the graph, too.

    Otherwise they would be computed once and not follow changes of these arrays.
    """

    def __enter__(self) -> None:
        self._before = state.observer
        state.observer = self
        observers.append(self)

    def __exit__(self, *exc: object) -> None:
        observers.pop()  # entries are only counted, so it does not matter whose this is
        state.observer = self._before

    def one_step(self):
        return contextlib.nullcontext()

    def computed(self, name: str, operands: Sequence, results: Sequence[NDArray], again) -> None:
        graph = current.graph
        if again is None or graph is None or any(x._kind.ctx == graph.ctx for x in (*operands, *results)):
            return
        for x, y in zip(results, again(capture_outside(operands)), strict=True):
            x._buf, x._kind, x._cell, x._node = y._buf, y._kind, y._cell, y._node

    def pull_recorded(self, node, g, cotangents, useful) -> None:
        node.op.pull_recorded(node, g, cotangents, useful)

    def pull_raw(self, node, g, cotangents, borrowed, useful) -> None:
        node.op.pull_raw(node, g, cotangents, borrowed, useful)
