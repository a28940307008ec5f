"""Batched sweeps: while tracing, the sweeps for all rows of a Jacobian become one batched sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arrays.ndarray import NDArray
from ..autodiff import tape
from ..autodiff.constants import constant
from ..autodiff.tracing import capture_outside, traced, traced_value
from ..core.registry import operators
from ..errors import TraceError
from ..ir.graph import current
from ..kernels.shape import reshape
from .batching import batch_steps
from .checkpoint import recording_inputs

__all__ = ["batch_over_rows"]

Arrays = list[NDArray]
Function = Callable[[Arrays], Sequence[NDArray | None]]
#: The index of a batched array; or a node or leaf that is the same for all rows, and which result of it.
_End = int | tuple[tape.Node | tape.Leaf, int | None]

OUTSIDE = (
    "the pullback of a function with a Jacobian or Hessian in it is called inside the body of a compiled loop or "
    "branch, and was made outside of it; call vjp inside the body, too"
)


def batch_over_rows(function: Function, given: Sequence[NDArray], recorded: bool) -> list[NDArray | None]:
    """``function(row)`` for all rows of `given`, in the traced program.

    Parameters
    ----------
    function : callable
        Takes a list with a row of each array, and returns arrays; None for zeros.
    given : sequence of NDArray
        Their first axes have equal lengths.
    recorded : bool
        Record the results, as one node.

    Returns
    -------
    list
        The results of `function`, with a leading batch axis.
    """
    graph = current.graph
    assert graph is not None
    n = given[0]._shape[0]
    inside: Arrays = []
    known = {}
    for outside, x in zip(given, capture_outside(given), strict=True):
        shape, dtype = x._shape[1:], x._kind.dtype
        value = graph.argument(shape, dtype)
        known[value] = traced_value(x).value
        row = traced(value, shape, dtype, x._kind.conventions)
        inside.append(constant(row, ()) if recorded and outside._node is not None else row)
    floor = tape.next_seq()
    graph.per_row += 1
    try:
        results = function(inside)
    finally:
        graph.per_row -= 1
    present = {k: y for k, y in enumerate(results) if y is not None}
    values = batch_steps(graph, [traced_value(y).value for y in capture_outside(list(present.values()))], known, n)
    batched = {
        k: traced(v, (n, *y._shape), y._kind.dtype, y._kind.conventions)
        for (k, y), v in zip(present.items(), values, strict=True)
    }
    nodes = {k: y._node for k, y in present.items() if y._node is not None} if recorded else {}
    if nodes:
        row_index = {row._node: k for k, row in enumerate(inside)}
        ends: list[_End] = []
        parents: list = []
        for e in recording_inputs(nodes.values(), floor)[0]:
            if isinstance(e.kind, tuple):  # a node with several results
                ends += [(e, number) for number in range(len(e.kind))]
                parents += [tape.select(e, number) for number in range(len(e.kind))]
            else:
                ends.append(row_index.get(e, (e, None)))
                parents.append(given[row_index[e]]._node if e in row_index else e)
        shapes: Any = tuple([batched[k]._shape for k in nodes])
        kinds: Any = tuple([batched[k]._kind for k in nodes])
        whole = tape.node(_Rule(function, given, list(nodes), ends), tuple(parents), (), None, shapes, kinds)
        for number, k in enumerate(nodes):
            batched[k]._node = tape.select(whole, number)
    return [batched.get(k) for k in range(len(results))]


class _Rule(tape.Rule):
    """The tape's rule for a batched function: its pullback, batched again.

    Parameters
    ----------
    function, given
        As for :func:`batch_over_rows`.
    numbers : list of int
        The indices of the results that are recorded.
    ends : list
        The inputs that the results were computed from, in the order of the node's parents.
    """

    name = "rows"

    def __init__(self, function: Function, given: Sequence[NDArray], numbers: list[int], ends: list[_End]) -> None:
        self.function = function
        self.given = given
        self.numbers = numbers
        self.ends = ends
        self.graph = current.graph

    def grads(self, node, g, useful):
        if (
            current.graph is not self.graph
        ):  # the values of that graph that the function reads are not on a tape in this one
            raise TraceError(OUTSIDE)
        wanted = [k for k, p in enumerate(node.parents) if tape.cotangent_wanted(p, useful)]
        present = [(number, h) for number, h in zip(self.numbers, g, strict=True) if h is not None]
        count = len(self.given)

        def pulled(row: Arrays) -> list[NDArray | None]:
            inside = [x if x._node is None else reshape(x, x._shape) for x in row[:count]]
            floor = tape.next_seq()
            results: Any = self.function(inside)
            heads = [(results[number]._node, h) for (number, _), h in zip(present, row[count:], strict=True)]
            targets = [(inside[e]._node, None) if isinstance(e, int) else e for e in map(self.ends.__getitem__, wanted)]
            cotangents = tape.sweep_recorded(heads, True, {end: 0 for end, _ in targets}, floor)
            parts = [(cotangents.get(end), number) for end, number in targets]
            return [h if h is None or number is None else h[number] for h, number in parts]

        cotangents: list[NDArray | None] = [None] * len(node.parents)
        rows = batch_over_rows(pulled, [*self.given, *(h for _, h in present)], True)
        for k, h in zip(wanted, rows, strict=True):
            cotangents[k] = h if h is None or isinstance(self.ends[k], int) else operators["sum"].call(h, axis=0)
        return cotangents
