"""Subprograms: the step of a loop, or a side of a branch, traced into a graph of its own; and its pullback.

What it reads of the enclosing graph, or of concrete arrays, is captured, and becomes an operand of the loop. Random
numbers are drawn from a part of the random stream that is such an operand, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, from_value, wrap
from ..autodiff import tape
from ..autodiff.constants import constant
from ..autodiff.state import state
from ..autodiff.tracing import capture_outside, captured, traced, traced_value, tracing_into
from ..core.conventions import Conventions
from ..core.dtypes import DType
from ..core.shapes import Shape, size
from ..errors import TraceError
from ..ir.graph import LEAKED, Graph, OpaqueStep, ShapedValue, Value, current
from ..kernels.random import PART, part
from ..kernels.shape import reshape
from .retracing import check_same

__all__ = [
    "Arrays",
    "Aval",
    "Step",
    "TracedSubprogram",
    "add_step",
    "added",
    "as_tape_leaf",
    "aval_of",
    "random_parts",
    "trace_pullback",
    "unread",
    "with_updates",
    "zeros",
]


class Aval(NamedTuple):
    """What is known of an array while it is traced."""

    shape: Shape
    dtype: DType
    conventions: Conventions


Arrays = list[NDArray]
#: One step of a loop: (row, states) -> (outputs, new states).
Step = Callable[[Arrays, Arrays], tuple[Arrays, Arrays]]


def aval_of(x: NDArray, axis: int = 0) -> Aval:
    """What is known of an array, from this axis on."""
    return Aval(x._shape[axis:], x._kind.dtype, x._kind.conventions)


class StepWithSubprograms(OpaqueStep, Protocol):
    """A loop or a branch."""

    results: list[Aval]


class TracedSubprogram:
    """``function(arrays)``, on a list of arrays, traced for these shapes and dtypes.

    Attributes
    ----------
    graph : Graph
    arguments : list of Value
        The arrays, the part of the random stream if `drawn`, and the captured arrays.
    results : list of ShapedValue
    avals : list of Aval
        Of the results.
    captured : list of NDArray
        Arrays from outside that it reads.
    drawn : int
        Blocks of random numbers that it draws.
    updated : list of NDArray
        Arrays from outside that it writes into.
    training : bool
        The flag under which it was traced.
    """

    def __init__(self, function: Callable, avals: Sequence[Aval]) -> None:
        assert current.graph is not None
        self.graph = graph = Graph(current.graph)
        with tracing_into(graph, current.numbers):
            inside = [traced(graph.argument(a.shape, a.dtype), *a) for a in avals]
            results = capture_outside(function(inside))
            self.results: list[ShapedValue] = [traced_value(y) for y in results]
            self.avals: list[Aval] = [aval_of(y) for y in results]
            parts = [x for outside, x in graph.captured if outside is PART]
            others = [pair for pair in graph.captured if pair[0] is not PART]
            self.arguments: list[Value] = [traced_value(x).value for x in [*inside, *parts, *(x for _, x in others)]]
        self.training = state.training
        self.updated = list({id(x): x for x, _ in graph.updates}.values())
        self.drawn = graph.drawn if parts else 0
        self.captured = [outside for outside, _ in others]
        _check([y.value for y in self.results], set(self.arguments))

    def bound(self) -> dict[Value, NDArray]:
        """The arguments that captured arrays are bound to, and these arrays."""
        return dict(zip(reversed(self.arguments), reversed(self.captured), strict=False))

    @property
    def foreign(self) -> bool:
        """Whether it runs user code."""
        return any(v.op == "opaque" and v.attrs[0].foreign for v in self.graph.values)

    def read(self) -> set[Value]:
        """The values that the results are computed from, and those that user code gets."""
        found: set[Value] = set()
        worklist = [y.value for y in self.results]
        worklist += [v for v in self.graph.values if v.op == "opaque" and v.attrs[0].foreign]
        while worklist:
            value = worklist.pop()
            if value not in found:
                found.add(value)
                worklist += [x.value for x in value.inputs]
        return found


def _check(values: list[Value], known: set[Value]) -> None:
    """Check that everything is computed from these arguments, not from those of another step."""
    while values:
        value = values.pop()
        if value not in known:
            known.add(value)
            if value.op == "argument":
                raise TraceError(LEAKED)
            values += [x.value for x in value.inputs]


def added(graph: Graph, run: OpaqueStep, operands: Arrays, results: Sequence[Aval]) -> Arrays:
    """The results of a step that is added to the graph."""
    values = graph.opaque(run, [traced_value(x) for x in operands], [(a.shape, a.dtype) for a in results])
    return [traced(value, *a) for value, a in zip(values, results, strict=True)]


def add_step(whole: StepWithSubprograms, operands: Arrays, rule: Callable[[Arrays], tape.Rule]) -> Arrays:
    """Add a step to the program being traced, and return its results; recorded on the tape if an operand is."""
    graph = current.graph
    assert graph is not None
    if not whole.results:
        return []
    results = added(graph, whole, operands, whole.results)
    if state.recording and any(x._node is not None for x in operands):
        shapes: Any = tuple([y._shape for y in results])
        kinds: Any = tuple([y._kind for y in results])
        node = tape.node(rule(results), tuple(map(tape.parent, operands)), (), None, shapes, kinds)
        for k, y in enumerate(results):
            if y._kind.dtype.is_float:
                y._node = tape.select(node, k)
    return results


def zeros(aval: Aval) -> NDArray:
    """Zeros in the graph being traced."""
    assert current.graph is not None
    kind = kind_of(aval.dtype, current.graph.ctx, aval.conventions)
    return wrap(kind.zeros(size(aval.shape)), aval.shape, kind)


def unread(aval: Aval) -> NDArray:
    """An array in the graph being traced that nothing may be computed from."""
    assert current.graph is not None
    return traced(current.graph.argument(aval.shape, aval.dtype), *aval)


def with_updates(function: Callable[[], Arrays], written: Arrays, before: Arrays) -> Arrays:
    """The results of a function that writes into arrays from outside, followed by the new contents of these.

    Parameters
    ----------
    function : callable
    written : list of NDArray
    before : list of NDArray
        Their contents before.
    """
    graph = current.graph
    assert graph is not None
    own = list(zip(written, before, strict=True))
    count = len(graph.updates)
    graph.captured = [*own, *graph.captured]
    results = function()
    after = capture_outside(written)
    graph.captured = graph.captured[len(own) :]
    del graph.updates[count:]
    return [*results, *after]


def as_tape_leaf(x: NDArray) -> NDArray:
    """`x` as a leaf of its own on the tape."""
    if not x._kind.dtype.is_float:
        return x
    return reshape(x, x._shape) if state.recording and x._node is not None else constant(x, ())


def trace_pullback(
    name: str,
    original: TracedSubprogram,
    function: Callable[[], Arrays],
    variables: Sequence[NDArray],
    outside: Sequence[tuple[NDArray, NDArray]],
    heads: dict[int, NDArray],
) -> dict[int, NDArray]:
    """Trace the pullback of a subprogram, whose function is traced again.

    Parameters
    ----------
    name : str
        Names the step in error messages.
    original : TracedSubprogram
    function : callable
        Takes no arguments; returns the results of the subprogram.
    variables : sequence of NDArray
        The arguments of the subprogram: the function reads some of them directly and captures others.
    outside : sequence of pairs
        Arrays that it captures, with their replacements among the variables.
    heads : dict
        Number of a result -> its cotangent.

    Returns
    -------
    dict
        id of a variable -> its cotangent; without those that are zero.

    Raises
    ------
    TraceError
        If the function has other steps than before.
    """
    graph = current.graph
    assert graph is not None
    before, drawn = graph.captured, graph.drawn
    graph.captured, graph.drawn = [*outside, *before], 0
    floor = tape.next_seq()
    flags = state.recording, state.training
    state.recording, state.training = True, original.training
    try:
        results = capture_outside(function())
    finally:
        state.recording, state.training = flags
        graph.captured, graph.drawn = graph.captured[len(outside) :], drawn
    arguments = [traced_value(x).value for x in variables]
    count = min(len(results), len(original.results))  # a loop's condition is not retraced
    check_same(
        name,
        "traced for its value",
        "copy what changes into a local variable, or pass it as an argument",
        original.results[:count],
        [traced_value(y) for y in results[:count]],
        dict(zip(original.arguments, arguments, strict=True)),
        (original.bound(), {traced_value(x).value: outside for outside, x in graph.captured}),
    )
    seeds = [(y._node, heads[k]) for k, y in enumerate(results) if k in heads and y._node is not None]
    targets = {x._node: 0 for x in variables if x._node is not None}
    cotangents = tape.sweep_recorded(seeds, True, targets, floor) if seeds and targets else {}
    return {id(x): cotangents[x._node] for x in variables if x._node is not None and x._node in cotangents}


def random_parts(drawn: int, n: int) -> NDArray:
    """The part of the random stream that each of `n` steps draws."""
    starts = np.zeros((n, 2), np.int64)
    starts[:, 1] = part(drawn * n)._view()[1] + drawn * np.arange(n)
    return reshape(captured(PART), (1, 2)) + captured(from_value(starts))
