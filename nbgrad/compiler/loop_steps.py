"""Loops as steps of a program: one traced step, run once per row.

A loop has *states*, which a step changes; *rows*, of which a step reads one; *outputs*, of which it writes a row; and
captured arrays, which are constant. The states before each step are a further result, the *history*; the history and
the outputs are computed if something reads them.

The derivative of a loop is a loop from the last step to the first. Its states are the cotangents of the states and the
accumulated cotangents of the captured arrays; its rows are those of the loop, the history and the cotangents of the
outputs; its outputs are the cotangents of the rows. It is an ordinary loop, with a derivative of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from ..arrays.ndarray import NDArray, wrap
from ..autodiff import tape
from ..autodiff.tracing import capture_outside, captured, update
from ..core.conventions import EITHER
from ..core.dtypes import int64
from ..functional.closures import frozen_closure
from ..kernels.binary import not_equal
from ..kernels.random import PART
from ..kernels.shape import reshape
from ..operators.cast import cast, reinterpreted
from .loop_runner import LoopStep
from .subprograms import (
    Arrays,
    Step,
    TracedSubprogram,
    add_step,
    as_tape_leaf,
    aval_of,
    random_parts,
    trace_pullback,
    unread,
    with_updates,
    zeros,
)

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
    """Run ``step(row, states)``, which returns outputs and new states, for `n` rows; return outputs and last states.

    Parameters
    ----------
    name : str
    step : callable
    states : list of NDArray
    rows : list of NDArray
        The rows run along the first axis.
    n : int
    backward : bool
        From the last row to the first.
    count : NDArray, optional
        An int64 scalar: run only this many rows, the first ones. Other outputs are zero.
    more : callable, optional
        ``more(states)`` is a scalar: whether another step follows.
    """
    states, rows = capture_outside(states), capture_outside(rows)
    frozen = frozen_closure(step)
    row_count = len(rows)
    outputs = 0

    def flat(inside: Arrays) -> Arrays:
        nonlocal outputs
        outs, after = step(inside[:row_count], inside[row_count:])
        outputs = len(outs)
        return [*after, *outs] if more is None else [*after, *outs, more(after)]

    traced_step = TracedSubprogram(flat, [*[aval_of(x, axis=1) for x in rows], *map(aval_of, states)])
    met = [
        reinterpreted(x, after.conventions) if x._kind.conventions is EITHER else x
        for x, after in zip(states, traced_step.avals)
    ]
    if any(x is not y for x, y in zip(met, states, strict=True)):  # they met arrays of nd or np in the first step
        return loop(name, step, met, rows, n, backward, count, more)
    if traced_step.updated:
        return _with_updates_as_states(name, step, states, rows, n, backward, count, more, traced_step.updated)
    frozen, rows = _without_unread_rows(frozen, rows, traced_step)
    if traced_step.drawn:
        rows = [*rows, random_parts(traced_step.drawn, n)]
        traced_step.arguments.insert(len(rows) - 1, traced_step.arguments.pop(len(rows) - 1 + len(states)))
    if more is not None:
        first = reshape(more(states), ())
        count = cast(not_equal(first, 0), first._kind.of(int64)) * n
    stops = None if more is None else len(traced_step.results) - 1
    whole = LoopStep(
        name, frozen, traced_step, (len(rows), len(states), outputs), n, backward, count is not None, stops
    )
    operands = [
        *rows,
        *states,
        *capture_outside(traced_step.captured),
        *([] if count is None else capture_outside([count])),
    ]
    results = add_step(whole, operands, lambda results: _Rule(whole, operands, results))
    return results[len(states) : len(states) + outputs], results[: len(states)]


def _without_unread_rows(step: Step, rows: Arrays, traced_step: TracedSubprogram) -> tuple[Step, Arrays]:
    """The step and its rows without those that it does not read: no states are kept for the derivative of a linear
    step, which reads none. Where the step is retraced, an argument that nothing is bound to takes their place."""
    read = traced_step.read()
    kept = [k for k in range(len(rows)) if traced_step.arguments[k] in read]
    if len(kept) == len(rows):
        return step, rows
    traced_step.arguments[: len(rows)] = [traced_step.arguments[k] for k in kept]
    avals = [aval_of(x, axis=1) for x in rows]

    def reading(row: Arrays, states: Arrays) -> tuple[Arrays, Arrays]:
        given = dict(zip(kept, row, strict=True))
        return step([given[k] if k in given else unread(aval) for k, aval in enumerate(avals)], states)

    return reading, [rows[k] for k in kept]


def _with_updates_as_states(name, step, states, rows, n, backward, count, more, written):
    """The same for a step that writes into captured arrays: their contents become states."""
    state_count = len(states)

    def carrying(row: Arrays, before: Arrays) -> tuple[Arrays, Arrays]:
        given: Arrays = []

        def function() -> Arrays:
            nonlocal given
            given, after = step(row, before[:state_count])
            return after

        after = with_updates(function, written, before[state_count:])
        return given, after

    def still(now: Arrays) -> NDArray:
        return more(now[:state_count])

    outs, last = loop(name, carrying, [*states, *written], rows, n, backward, count, more and still)
    for array, new in zip(written, last[state_count:], strict=True):
        update(array, new)
    return outs, last[:state_count]


class _Rule(tape.Rule):
    """The tape's rule for a loop."""

    def __init__(self, whole: LoopStep, operands: Arrays, results: Arrays) -> None:
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
        wanted = [tape.cotangent_wanted(p, useful) and x._kind.dtype.is_float for p, x in zip(node.parents, operands)]
        row_wanted = [k for k in range(rows) if wanted[k]]
        outside = range(rows + states, len(whole.traced.arguments))
        read = whole.traced.captured
        sums = [k for k in outside if wanted[k]]
        present = [k for k in range(states, 2 * states + outputs) if g[k] is not None]

        def step(row: Arrays, before: Arrays) -> tuple[Arrays, Arrays]:
            inside = [as_tape_leaf(x) for x in row[: rows + states]]
            constants = [as_tape_leaf(captured(operands[k])) for k in outside]
            # Under both identities: as the step captured them, and as operands of the loop.
            own = [pair for k, v in enumerate(constants) for pair in ((read[k], v), (operands[outside[k]], v))]
            drawn = [(PART, inside[rows - 1])] if whole.traced.drawn else []
            row_count = rows - len(drawn)
            heads = dict(zip(changing, before))
            heads |= {k: h for k, h in zip(present, row[rows + states :], strict=True) if k < states + outputs}

            def function() -> Arrays:
                outs, after = frozen_closure(whole.step)(inside[:row_count], inside[rows : rows + states])
                return [*after, *outs]

            cotangents = trace_pullback(
                whole.name, whole.traced, function, [*inside, *constants], [*own, *drawn], heads
            )
            extra = {k - states - outputs: h for k, h in zip(present, row[rows + states :]) if k >= states + outputs}
            after = []
            for k in changing:
                h = cotangents.get(id(inside[rows + k]))
                if h is None:
                    h = zeros(aval_of(inside[rows + k]))
                after.append(h + extra[k] if k in extra else h)
            for k, old in zip(sums, before[len(changing) :], strict=True):
                h = cotangents.get(id(constants[k - rows - states]))
                after.append(old if h is None else old + h)
            row_cotangents = []
            for k in row_wanted:
                h = cotangents.get(id(inside[k]))
                row_cotangents.append(zeros(aval_of(inside[k])) if h is None else h)
            return row_cotangents, after

        begin = [zeros(aval_of(operands[rows + k])) if g[k] is None else g[k] for k in changing]
        begin += [zeros(aval_of(operands[k])) for k in sums]
        every_row = [*operands[:rows], *history, *(g[k] for k in present)]
        row_cotangents, last = loop(
            f"{whole.name}_back", step, begin, every_row, whole.n, not whole.backward, self.count
        )
        cotangents: list[NDArray | None] = [None] * len(operands)
        for k, h in zip(row_wanted, row_cotangents, strict=True):
            cotangents[k] = h
        for k, h in zip([*(rows + k for k in changing), *sums], last, strict=True):
            cotangents[k] = h if wanted[k] else None
        return cotangents
