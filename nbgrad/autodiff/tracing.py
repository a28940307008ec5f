"""Operators on traced arrays: instead of running, they append to the graph that this thread traces.

Arrays from outside a traced function that meet traced ones are *captured*: their memory is read at every call of
the compiled function, as that of its arguments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, alias, wrap
from ..core.dtypes import DType
from ..core.shapes import size
from ..errors import TraceError
from ..ir.expr import Expr, const, substitute, var
from ..ir.graph import IN_PLACE, LEAKED, Flat, Graph, Seen, current
from .observers import observers
from .state import state

__all__ = ["Again", "captured", "check_write", "current", "is_weak", "lifted", "mapped", "mixed", "ran", "seen",
           "traced", "update", "weak"]  # fmt: skip

WEAK = "weak"  # the label of a traced Python number: it takes the dtype of the arrays it meets


def _graph() -> Graph:
    if current.graph is None:
        raise TraceError(LEAKED)
    return current.graph


def check_write(what: str) -> None:
    """A :class:`TraceError` while tracing: `what` would write into an array, once instead of at every call."""
    if current.graph is not None:
        raise TraceError(f"{what}: {IN_PLACE}")


def update(array: NDArray, new: NDArray) -> None:
    """Have every call of the compiled function write `new`, a traced array, into `array`, when all else is done.

    What reads `array` from now on, while tracing, reads `new`.
    """
    graph = _graph()
    graph.updates.append((array, new))
    if array._kind.ctx == graph.ctx:
        array._buf = new._buf


def traced(value, shape, dtype: DType) -> NDArray:
    """The array of this shape that stands for a value."""
    graph = _graph()
    buffer: Any = Flat(graph, size(shape), dtype, value)
    return wrap(buffer, shape, kind_of(dtype, graph.ctx))


def seen(x: NDArray) -> Seen:
    """What a traced array stands for, in its shape."""
    buffer: Any = x._buf  # a Flat
    return buffer.seen(x._shape)


def is_weak(x: NDArray) -> bool:
    """Whether `x` is a Python number's stand-in."""
    return x._kind.traced and getattr(x, "_label", None) == WEAK


def weak(x: NDArray) -> NDArray:
    """`x`, as the stand-in of a Python number: what is given for one is one."""
    y = alias(x, x._buf, x._shape)
    y._label = WEAK
    return y


def captured(x: NDArray) -> NDArray:
    """The traced array that stands for one from outside: with numbers, or traced in a graph around this one."""
    graph = _graph()
    buffer: Any = x._buf
    if x._kind.traced and buffer.graph is graph:  # made here, like an array from outside
        return wrap(buffer, x._shape, kind_of(x._kind.dtype, graph.ctx), x._node)
    if x._kind.traced and x._kind.ctx.device_id >= graph.level:
        raise TraceError(LEAKED)
    for outside, inside in (*reversed(graph.updates), *graph.captured):
        if outside._buf is x._buf and outside._shape == x._shape and outside._kind is x._kind:
            return inside
    inside = traced(graph.argument(x._shape, x._kind.dtype), x._shape, x._kind.dtype)
    if is_weak(x):
        inside._label = WEAK
    graph.captured.append((x, inside))
    return inside


def mixed(arrays: Sequence[NDArray]) -> bool:
    """Whether there are traced arrays, and not all of them in this graph."""
    graph = current.graph
    if graph is None:
        return False
    return any(x._kind.traced for x in arrays) and any(x._kind.ctx != graph.ctx for x in arrays)


def lifted(arrays: Sequence[NDArray]) -> list[NDArray]:
    """The arrays, those from outside captured."""
    ctx = _graph().ctx
    return [x if x._kind.ctx == ctx else captured(x) for x in arrays]


def mapped(expr: Expr, scalars: tuple, arrays: Sequence[NDArray], shape) -> Any:
    """The buffer of an elementwise operator's result."""
    graph = _graph()
    dtype = arrays[0]._kind.dtype
    if scalars:
        number = float if dtype.is_float else int
        expr = substitute(expr, {var(f"s{k}"): const(number(s)) for k, s in enumerate(scalars)})
    value = graph.map(expr, [seen(x) for x in arrays], shape, dtype, dtype)
    return Flat(graph, size(shape), dtype, value)


def ran(plan, *arguments) -> None:
    """What a structured operator's launcher is for traced arrays."""
    *arrays, given = arguments
    outs = [given] if plan.single else given
    graph = _graph()
    op = plan.op
    found = None
    if op.lowering is not None:
        found = op.lowering(graph, *[seen(x) for x in arrays], **plan.attrs)
        if found is not None and not isinstance(found, list):
            found = [found]
    if found is None and op.expansion is not None:
        recording, state.recording = state.recording, False
        try:
            results = op.expansion(*arrays, **plan.attrs)
        finally:
            state.recording = recording
        results = results if isinstance(results, list | tuple) else [results]
        found = [seen(y).value for y in results]
        if op.finite and all(seen(x).value.finite for x in arrays):
            for value in found:
                value.finite = True
    if found is None:
        inputs = [seen(x) for x in arrays]
        found = graph.opaque(plan, inputs, [(y._shape, y._kind.dtype) for y in outs])
    for out, value in zip(outs, found, strict=True):
        out._buf.bind(value)


class Again:
    """The observer while a function is traced: what an operator made of arrays from outside alone becomes a step, too.

    Otherwise it would be computed once, and not change when those arrays do.
    """

    def __enter__(self) -> None:
        self._before = state.observer
        state.observer = self
        observers.append(self)

    def __exit__(self, *exc: object) -> None:
        observers.pop()  # whose entry it is makes no difference: they are counted
        state.observer = self._before

    def one_step(self):
        return contextlib.nullcontext()

    def computed(self, name: str, operands: Sequence, results: Sequence[NDArray], again) -> None:
        graph = current.graph
        if again is None or graph is None or any(x._kind.ctx == graph.ctx for x in (*operands, *results)):
            return
        for x, y in zip(results, again(lifted(operands)), strict=True):
            x._buf, x._kind, x._cell, x._node = y._buf, y._kind, y._cell, y._node

    def pull_recorded(self, node, g, cotangents, useful) -> None:
        node.op.pull_recorded(node, g, cotangents, useful)

    def pull_raw(self, node, g, cotangents, borrowed, useful) -> None:
        node.op.pull_raw(node, g, cotangents, borrowed, useful)
