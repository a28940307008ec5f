"""The step of a loop, or a branch: a function of arrays, traced into a graph of its own; and its pullback.

What it reads of the graph around it, or of arrays with numbers, is captured, and becomes an operand of the loop. Random
numbers are drawn from a part of the stream that is such an operand, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType, FunctionType
from typing import Any

import numpy as np

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, from_value, wrap
from ..autodiff import tape
from ..autodiff.constants import constant
from ..autodiff.state import state
from ..autodiff.tracing import captured, lifted, seen, traced
from ..core.dtypes import DType
from ..core.shapes import Shape, size
from ..errors import TraceError
from ..ir.graph import LEAKED, Graph, Seen, Value, current
from ..kernels.random import PART, part
from ..kernels.shape import reshape

__all__ = [
    "Arrays",
    "Aval",
    "Step",
    "Traced",
    "added",
    "aval",
    "carried",
    "parts_of",
    "pulled",
    "settled",
    "variable",
    "zeros",
]

Aval = tuple[Shape, DType]
Arrays = list[NDArray]
#: What a loop does for one row of its data, with its states: outputs and new states.
Step = Callable[[Arrays, Arrays], tuple[Arrays, Arrays]]


def aval(x: NDArray) -> Aval:
    """Shape and dtype."""
    return x._shape, x._kind.dtype


class Traced:
    """``function(arrays)``, a list of arrays, traced for arrays of these shapes and dtypes.

    Attributes
    ----------
    graph : Graph
    arguments : list of Value
        For the arrays, the part of the random stream if `drawn`, and what is captured.
    results : list of Seen
    captured : list of NDArray
        From outside.
    drawn : int
        Blocks of random numbers; 0 if there are none.
    updated : list of NDArray
        From outside, what it writes into.
    """

    def __init__(self, function: Callable, avals: Sequence[Aval]) -> None:
        outer, recording = current.graph, state.recording
        assert outer is not None
        self.graph = graph = Graph(outer)
        current.graph, state.recording = graph, False
        try:
            inside = [traced(graph.argument(*a), *a) for a in avals]
            self.results: list[Seen] = [seen(y) for y in lifted(function(inside))]
            parts = [x for outside, x in graph.captured if outside is PART]
            others = [pair for pair in graph.captured if pair[0] is not PART]
            self.arguments: list[Value] = [seen(x).value for x in [*inside, *parts, *(x for _, x in others)]]
        finally:
            current.graph, state.recording = outer, recording
        self.updated = list({id(x): x for x, _ in graph.updates}.values())
        self.drawn = graph.drawn if parts else 0
        self.captured = [outside for outside, _ in others]
        _check([y.value for y in self.results], set(self.arguments))

    @property
    def avals(self) -> list[Aval]:
        return [(y.shape, y.value.dtype) for y in self.results]

    @property
    def foreign(self) -> bool:
        """Whether users' code runs in it."""
        return any(v.op == "opaque" and v.attrs[0].foreign for v in self.graph.values)


def _check(values: list[Value], known: set[Value]) -> None:
    """That everything is computed from these arguments, and not from those of another step."""
    while values:
        value = values.pop()
        if value not in known:
            known.add(value)
            if value.op == "argument":
                raise TraceError(LEAKED)
            values += [x.value for x in value.inputs]


def settled(function: Any, known: dict | None = None) -> Any:
    """`function` as it is now: what it reads of functions around it keeps its value.

    It runs again for derivatives, when ``h = cond(p, lambda: h, ...)`` has given `h` another one.
    """
    known = {} if known is None else known
    if not isinstance(function, FunctionType) or not function.__closure__:
        return function
    if function not in known:
        cells = [CellType() for _ in function.__closure__]
        made = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells)
        )
        made.__kwdefaults__ = function.__kwdefaults__
        known[function] = made
        for cell, old in zip(cells, function.__closure__, strict=True):
            try:
                cell.cell_contents = settled(old.cell_contents, known)
            except ValueError:  # nothing is in it yet
                continue
    return known[function]


def added(whole: Any, operands: Arrays, rule: Callable[[Arrays], tape.Rule]) -> Arrays:
    """The results of a step of the program that is traced; on the tape, if an operand is."""
    graph = current.graph
    assert graph is not None
    if not whole.results:
        return []
    values = graph.opaque(whole, [seen(x) for x in operands], whole.results)
    results = [traced(v, *a) for v, a in zip(values, whole.results, strict=True)]
    if state.recording and any(x._node is not None for x in operands):
        shapes: Any = tuple([y._shape for y in results])
        kinds: Any = tuple([y._kind for y in results])
        node = tape.node(rule(results), tuple(map(tape.parent, operands)), (), None, shapes, kinds)
        for k, y in enumerate(results):
            if y._kind.dtype.is_float:
                y._node = tape.select(node, k)
    return results


def zeros(shape: Shape, dtype: DType) -> NDArray:
    """Zeros in the graph that is traced."""
    assert current.graph is not None
    kind = kind_of(dtype, current.graph.ctx)
    return wrap(kind.zeros(size(shape)), shape, kind)


def carried(function: Callable[[], Arrays], written: Arrays, before: Arrays) -> Arrays:
    """The results of a function that writes into arrays from outside, and after them what is in those then.

    Parameters
    ----------
    function : callable
    written : list of NDArray
    before : list of NDArray
        What is in them before.
    """
    graph = current.graph
    assert graph is not None
    own = list(zip(written, before, strict=True))
    count = len(graph.updates)
    graph.captured = [*own, *graph.captured]
    results = function()
    after = lifted(written)
    graph.captured = graph.captured[len(own) :]
    del graph.updates[count:]
    return [*results, *after]


def variable(x: NDArray) -> NDArray:
    """`x` at a place of its own on the tape."""
    if not x._kind.dtype.is_float:
        return x
    return reshape(x, x._shape) if state.recording and x._node is not None else constant(x, ())


def pulled(
    function: Callable, variables: Sequence[NDArray], outside: Sequence[tuple[NDArray, NDArray]], heads: dict
) -> dict:
    """Cotangents of variables, of a function that is called with some of them, and captures the others.

    Parameters
    ----------
    function : callable
        Without arguments; gives a list of arrays.
    variables : sequence of NDArray
    outside : sequence of pairs
        Arrays that it captures, and what it is to find in their place.
    heads : dict
        Number of a result -> its cotangent.

    Returns
    -------
    dict
        id of a variable -> its cotangent; without those that are zero.
    """
    graph = current.graph
    assert graph is not None
    before, drawn = graph.captured, graph.drawn
    graph.captured, graph.drawn = [*outside, *before], 0
    floor = tape.next_seq()
    recording, state.recording = state.recording, True
    try:
        results = lifted(function())
    finally:
        state.recording = recording
        graph.captured, graph.drawn = graph.captured[len(outside) :], drawn
    seeds = [(y._node, heads[k]) for k, y in enumerate(results) if k in heads and y._node is not None]
    targets = {x._node: 0 for x in variables if x._node is not None}
    found = tape.sweep_recorded(seeds, True, targets, floor) if seeds and targets else {}
    return {id(x): found[x._node] for x in variables if x._node is not None and x._node in found}


def parts_of(drawn: int, n: int) -> NDArray:
    """Per step, the part of the random stream that it draws."""
    starts = np.zeros((n, 2), np.int64)
    starts[:, 1] = part(drawn * n)._view()[1] + drawn * np.arange(n)
    return reshape(captured(PART), (1, 2)) + captured(from_value(starts))
