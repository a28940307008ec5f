"""Loops as steps of a program: one traced step, run as often as there are rows.

A loop has *states*, which a step changes; *rows*, of which a step reads one; *outputs*, of which it writes a row; and
what the step captures, which stays. The states before each step are a further result, the *history*; it and outputs
are computed if somebody reads them.

The derivative of a loop is a loop from the last step to the first. Its states are the cotangents of the states, and
the sums of the cotangents of what is captured; its rows, those of the loop, the history and the cotangents of the
outputs; its outputs the cotangents of the rows. It is a loop like any other, with a derivative of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from ..arrays.launch import kind_of
from ..arrays.ndarray import NDArray, wrap
from ..autodiff import tape
from ..autodiff.tracing import captured, lifted, update
from ..core.dtypes import int64
from ..kernels.binary import not_equal
from ..kernels.random import PART
from ..kernels.shape import reshape
from ..operators.cast import cast
from .loop_runner import Loop
from .subprograms import Arrays, Step, Traced, added, aval, carried, parts_of, pulled, settled, variable, zeros

__all__ = ["loop"]


def loop(
    name: str,
    step: Step,
    states: Arrays,
    rows: Arrays,
    n: int,
    backward: bool = False,
    count: NDArray | None = None,
    more: Callable[[Arrays], NDArray] | None = None,
) -> tuple[Arrays, Arrays]:
    """``step(row, states)``, which gives outputs and new states, for `n` rows; the outputs of all, the last states.

    Parameters
    ----------
    name : str
    step : callable
    states : list of NDArray
    rows : list of NDArray
        A row has the shape without the first axis.
    n : int
    backward : bool
        From the last row to the first.
    count : NDArray, optional
        One int64: only the first so many rows. Other outputs are zero.
    more : callable, optional
        Whether there is another step after one that gave these states; one number.
    """
    states, rows = lifted(states), lifted(rows)
    again = settled(step)
    taken = len(rows)
    outputs = 0

    def flat(inside: Arrays) -> Arrays:
        nonlocal outputs
        given, after = step(inside[:taken], inside[taken:])
        outputs = len(given)
        return [*after, *given] if more is None else [*after, *given, more(after)]

    traced_step = Traced(flat, [*((x._shape[1:], x._kind.dtype) for x in rows), *map(aval, states)])
    if traced_step.updated:
        return _carrying(name, step, states, rows, n, backward, count, more, traced_step.updated)
    if traced_step.drawn:
        rows = [*rows, parts_of(traced_step.drawn, n)]
        traced_step.arguments.insert(taken, traced_step.arguments.pop(taken + len(states)))
    if more is not None:
        first = reshape(more(states), ())
        count = cast(not_equal(first, 0), kind_of(int64, first._kind.ctx)) * n
    stops = None if more is None else len(traced_step.results) - 1
    whole = Loop(name, again, traced_step, (len(rows), len(states), outputs), n, backward, count is not None, stops)
    operands = [*rows, *states, *lifted(traced_step.captured), *([] if count is None else lifted([count]))]
    results = added(whole, operands, lambda results: _Rule(whole, operands, results))
    return results[len(states) : len(states) + outputs], results[: len(states)]


def _carrying(name, step, states, rows, n, backward, count, more, written):
    """The same for a step that writes into arrays from outside: what is in them is a state, too."""
    taken = len(states)

    def carrying(row: Arrays, before: Arrays) -> tuple[Arrays, Arrays]:
        given: Arrays = []

        def function() -> Arrays:
            nonlocal given
            given, after = step(row, before[:taken])
            return after

        after = carried(function, written, before[taken:])
        return given, after

    def still(now: Arrays) -> NDArray:
        return more(now[:taken])

    outs, last = loop(name, carrying, [*states, *written], rows, n, backward, count, more and still)
    for array, new in zip(written, last[taken:], strict=True):
        update(array, new)
    return outs, last[:taken]


class _Rule(tape.Rule):
    """The tape's rule for a loop."""

    def __init__(self, whole: Loop, operands: Arrays, results: Arrays) -> None:
        self.whole = whole
        self.name = whole.name
        self.operands = operands
        _, states, outputs = whole.counts
        self.history = [(y._buf, y._shape, y._kind) for y in results[states + outputs : 2 * states + outputs]]
        self.count: NDArray | None = None
        if whole.stops is not None:
            self.count = results[-1]
        elif whole.counted:
            self.count = operands[-1]

    def grads(self, node, g, useful):
        whole = self.whole
        rows, states, outputs = whole.counts
        operands = self.operands
        history = [
            wrap(*parts, tape.select(node, states + outputs + k) if parts[2].dtype.is_float else None)
            for k, parts in enumerate(self.history)
        ]
        changing = [k for k in range(states) if operands[rows + k]._kind.dtype.is_float]
        wanted = [tape.wanted(p, useful) and x._kind.dtype.is_float for p, x in zip(node.parents, operands)]
        row_wanted = [k for k in range(rows) if wanted[k]]
        outside = range(rows + states, len(whole.traced.arguments))
        read = whole.traced.captured
        sums = [k for k in outside if wanted[k]]
        present = [k for k in range(states, 2 * states + outputs) if g[k] is not None]

        def step(row: Arrays, before: Arrays) -> tuple[Arrays, Arrays]:
            inside = [variable(x) for x in row[: rows + states]]
            stay = [variable(captured(operands[k])) for k in outside]
            # Under both names: as the step read them, and as the loop has them.
            own = [pair for k, v in enumerate(stay) for pair in ((read[k], v), (operands[outside[k]], v))]
            drawn = [(PART, inside[rows - 1])] if whole.traced.drawn else []
            taken = rows - len(drawn)
            heads = dict(zip(changing, before))
            heads |= {k: h for k, h in zip(present, row[rows + states :], strict=True) if k < states + outputs}

            def function() -> Arrays:
                given, after = whole.step(inside[:taken], inside[rows : rows + states])
                return [*after, *given]

            found = pulled(function, [*inside, *stay], [*own, *drawn], heads)
            extra = {k - states - outputs: h for k, h in zip(present, row[rows + states :]) if k >= states + outputs}
            after = []
            for k in changing:
                h = found.get(id(inside[rows + k]))
                if h is None:
                    h = zeros(*aval(inside[rows + k]))
                after.append(h + extra[k] if k in extra else h)
            for k, old in zip(sums, before[len(changing) :], strict=True):
                h = found.get(id(stay[k - rows - states]))
                after.append(old if h is None else old + h)
            given = []
            for k in row_wanted:
                h = found.get(id(inside[k]))
                given.append(zeros(*aval(inside[k])) if h is None else h)
            return given, after

        begin = [zeros(*aval(operands[rows + k])) if g[k] is None else g[k] for k in changing]
        begin += [zeros(*aval(operands[k])) for k in sums]
        every_row = [*operands[:rows], *history, *(g[k] for k in present)]
        given, last = loop(f"{whole.name}_back", step, begin, every_row, whole.n, not whole.backward, self.count)
        found: list[NDArray | None] = [None] * len(operands)
        for k, h in zip(row_wanted, given, strict=True):
            found[k] = h
        for k, h in zip([*(rows + k for k in changing), *sums], last, strict=True):
            found[k] = h if wanted[k] else None
        return found
