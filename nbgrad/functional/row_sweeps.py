"""A function of traced arrays for many arrays at once: sweeps for all rows of a Jacobian are one sweep of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arrays.ndarray import NDArray
from ..autodiff import tape
from ..autodiff.constants import constant
from ..autodiff.tracing import lifted, seen, traced
from ..core.registry import operators
from ..errors import TraceError
from ..ir.graph import current
from ..kernels.shape import reshape
from .batching import every_row
from .checkpoint import ends_of

__all__ = ["over_rows"]

Arrays = list[NDArray]
Function = Callable[[Arrays], Sequence[NDArray | None]]
#: The number of an array whose rows are given; or a place on the tape, the same for all rows, and which result of it.
_End = int | tuple[tape.Node | tape.Leaf, int | None]

OUTSIDE = (
    "the pullback of a function with a Jacobian or Hessian in it is called inside the body of a compiled loop or "
    "branch, and was made outside of it; call vjp inside the body, too"
)


def over_rows(function: Function, given: Sequence[NDArray], recorded: bool) -> list[NDArray | None]:
    """``function(row)`` for all rows of `given`, in the program that is traced.

    Parameters
    ----------
    function : callable
        Takes a list with a row of each array, and gives arrays; None for zeros.
    given : sequence of NDArray
        With equal lengths of their first axes.
    recorded : bool
        Put the results on the tape, as one node.

    Returns
    -------
    list
        As `function` gives them, with a first axis.
    """
    graph = current.graph
    assert graph is not None
    n = given[0]._shape[0]
    inside: Arrays = []
    known = {}
    for outside, x in zip(given, lifted(given), strict=True):
        shape, dtype = x._shape[1:], x._kind.dtype
        value = graph.argument(shape, dtype)
        known[value] = seen(x).value
        row = traced(value, shape, dtype)
        inside.append(constant(row, ()) if recorded and outside._node is not None else row)
    floor = tape.next_seq()
    graph.per_row += 1
    try:
        results = function(inside)
    finally:
        graph.per_row -= 1
    present = {k: y for k, y in enumerate(results) if y is not None}
    values = every_row(graph, [seen(y).value for y in lifted(list(present.values()))], known, n)
    found = {k: traced(v, (n, *y._shape), y._kind.dtype) for (k, y), v in zip(present.items(), values, strict=True)}
    nodes = {k: y._node for k, y in present.items() if y._node is not None} if recorded else {}
    if nodes:
        own = {row._node: k for k, row in enumerate(inside)}
        ends: list[_End] = []
        parents: list = []
        for e in ends_of(nodes.values(), floor)[0]:
            if isinstance(e.kind, tuple):  # an operation with several results
                ends += [(e, number) for number in range(len(e.kind))]
                parents += [tape.select(e, number) for number in range(len(e.kind))]
            else:
                ends.append(own.get(e, (e, None)))
                parents.append(given[own[e]]._node if e in own else e)
        shapes: Any = tuple([found[k]._shape for k in nodes])
        kinds: Any = tuple([found[k]._kind for k in nodes])
        whole = tape.node(_Rule(function, given, list(nodes), ends), tuple(parents), (), None, shapes, kinds)
        for number, k in enumerate(nodes):
            found[k]._node = tape.select(whole, number)
    return [found.get(k) for k in range(len(results))]


class _Rule(tape.Rule):
    """The tape's rule for a function of rows: its pullback, again for all rows.

    Parameters
    ----------
    function, given
        As for :func:`over_rows`.
    numbers : list of int
        The function's results that are on the tape.
    ends : list
        What the results were computed from, in the order of the node's parents.
    """

    name = "rows"

    def __init__(self, function: Function, given: Sequence[NDArray], numbers: list[int], ends: list[_End]) -> None:
        self.function = function
        self.given = given
        self.numbers = numbers
        self.ends = ends
        self.graph = current.graph

    def grads(self, node, g, useful):
        if current.graph is not self.graph:  # what the function reads of that graph is on no tape in this one
            raise TraceError(OUTSIDE)
        wanted = [k for k, p in enumerate(node.parents) if tape.wanted(p, useful)]
        present = [(number, h) for number, h in zip(self.numbers, g, strict=True) if h is not None]
        count = len(self.given)

        def pulled(row: Arrays) -> list[NDArray | None]:
            inside = [x if x._node is None else reshape(x, x._shape) for x in row[:count]]
            floor = tape.next_seq()
            results: Any = self.function(inside)
            heads = [(results[number]._node, h) for (number, _), h in zip(present, row[count:], strict=True)]
            targets = [(inside[e]._node, None) if isinstance(e, int) else e for e in map(self.ends.__getitem__, wanted)]
            found = tape.sweep_recorded(heads, True, {place: 0 for place, _ in targets}, floor)
            parts = [(found.get(place), number) for place, number in targets]
            return [h if h is None or number is None else h[number] for h, number in parts]

        found: list[NDArray | None] = [None] * len(node.parents)
        rows = over_rows(pulled, [*self.given, *(h for _, h in present)], True)
        for k, h in zip(wanted, rows, strict=True):
            found[k] = h if h is None or isinstance(self.ends[k], int) else operators["sum"].call(h, axis=0)
        return found
