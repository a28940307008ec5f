"""Loops as steps of a program: one traced step, run as often as there are rows.

A loop has *states*, which a step changes; *rows*, of which a step reads one; *outputs*, of which it writes a row; and
what the step captures, which stays. The states before each step are a further result, the *history*; it and outputs
are computed if somebody reads them.

The derivative of a loop is a loop from the last step to the first. Its states are the cotangents of the states, and
the sums of the cotangents of what is captured; its rows, those of the loop, the history and the cotangents of the
outputs; its outputs the cotangents of the rows. It is a loop like any other, with a derivative of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from .. import tape
from ..codegen.compile import generate, python
from ..codegen.graph import current
from ..codegen.launch import kind_of
from ..cast import cast
from ..context import CPU0
from ..dtypes import int64
from ..kernels.random import PART
from ..kernels.shape import reshape
from ..ndarray import NDArray, wrap
from ..shapes import size
from ..state import state
from ..tracing import captured, lifted, seen, traced
from .compiled import Compiled
from .steps import Aval, Traced, aval, parts_of, pulled, settled, variable, zeros

__all__ = ["loop"]

Arrays = list[NDArray]
Step = Callable[[Arrays, Arrays], tuple[Arrays, Arrays]]


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
    if traced_step.drawn:
        rows = [*rows, parts_of(traced_step.drawn, n)]
        traced_step.arguments.insert(taken, traced_step.arguments.pop(taken + len(states)))
    if more is not None:
        first = more(states)
        count = cast(reshape(first != 0, ()), kind_of(int64, first._kind.ctx)) * n
    stops = None if more is None else len(traced_step.results) - 1
    whole = _Loop(name, again, traced_step, (len(rows), len(states), outputs), n, backward, count is not None, stops)
    operands = [*rows, *states, *lifted(traced_step.captured), *([] if count is None else lifted([count]))]
    graph = current.graph
    assert graph is not None
    if not whole.results:
        return [], []
    values = graph.opaque(whole, [seen(x) for x in operands], whole.results)
    results = [traced(v, *a) for v, a in zip(values, whole.results, strict=True)]
    if state.recording and any(x._node is not None for x in operands):
        kinds = tuple([y._kind for y in results])
        shapes = tuple([y._shape for y in results])
        rule = _Rule(whole, operands, results)
        node = tape.node(rule, tuple(map(tape.parent, operands)), (), None, shapes, kinds)  # type: ignore[arg-type]
        for k, y in enumerate(results):
            if y._kind.dtype.is_float:
                y._node = tape.select(node, k)
    return results[len(states) : len(states) + outputs], results[: len(states)]


class _Loop:
    """A loop, as a step of a program.

    Attributes
    ----------
    counts : tuple
        How many rows, states and outputs a step has.
    counted : bool
        The last operand says how many steps there are at most.
    stops : int or None
        Which result of a step says whether there is another one.
    results : list
        Shapes and dtypes: of the last states, the outputs and the history; and the number of steps, if they may end.
    """

    #: Results that nobody reads are not computed.
    partial = True
    single = False

    def __init__(
        self,
        name: str,
        step: Step,
        traced_step: Traced,
        counts: tuple[int, int, int],
        n: int,
        backward: bool,
        counted: bool,
        stops: int | None,
    ) -> None:
        self.name = name
        self.step = step
        self.traced = traced_step
        self.counts = counts
        self.n = n
        self.backward = backward
        self.counted = counted
        self.stops = stops
        after, given = traced_step.avals[: counts[1]], traced_step.avals[counts[1] : counts[1] + counts[2]]
        self.results: list[Aval] = [*after, *(((n, *shape), dtype) for shape, dtype in [*given, *after])]
        if stops is not None:
            self.results.append(((), int64))

    def concrete(self, read: Collection[int]) -> _Runner:
        return _Runner(self, read)


class _Runner:
    """A loop to run: compiled as a whole, if the step is one kernel; else the step is, and Python does the loop.

    Attributes
    ----------
    run : callable
        ``run(*operands, results)``; None in place of results that are not read.
    """

    partial = True
    single = False

    def __init__(self, whole: _Loop, read: Collection[int]) -> None:
        rows, states, outputs = whole.counts
        traced_step = whole.traced
        arguments = traced_step.arguments
        self.whole = whole
        kept = [k for k in range(outputs) if states + k in read]
        self.history = {k for k in range(states) if states + outputs + k in read}
        results = [*traced_step.results[:states], *(traced_step.results[states + k] for k in kept)]
        if whole.stops is not None:
            results.append(traced_step.results[whole.stops])
        compiled = Compiled(f"{whole.name}_step", traced_step.graph, arguments, results, inside=True)
        self.compiled = compiled
        self.avals = [
            ((whole.n, *v.shape) if k < rows else v.shape, kind_of(v.dtype, CPU0)) for k, v in enumerate(arguments)
        ]
        if whole.counted:
            self.avals.append(((), kind_of(int64, CPU0)))
        self.given = [states + k for k in kept]
        written = {v: k for k, v in compiled.names.items()}
        self.space = {name: code for name, code in compiled.space.items() if not name.startswith("out")}
        names = [f"x{k}" for k in range(rows)]
        names += [f"{letter}{k}" for k in range(states) for letter in "sfb"]
        names += [f"a{k}" for k in range(rows + states, len(arguments))]
        names += [f"y{k}" for k in range(len(kept))] + ["go", "done"] * (whole.stops is not None) + list(self.space)
        self.names = names
        text = f"def {whole.name}({', '.join(['n', *names])}):\n" + "\n".join(self._lines(arguments, compiled))
        if compiled.pure:
            kinds = self._kinds(names, written, compiled)
            kernels = {name: v for name, v in compiled.globals.items() if name.startswith("kernel")}
            self.call = generate(whole.name, text, kernels, apart=True).bind(int, *kinds)
        else:
            text = text.replace(f"def {whole.name}(", "def call(", 1)
            self.call = python(whole.name, text, compiled.globals)
        self.run = self._runner(arguments)

    def _lines(self, arguments, compiled: Compiled) -> list[str]:
        rows, states, _ = self.whole.counts
        lines = ["    for t in range(n):"]
        lines.append("        r = n - 1 - t" if self.whole.backward else "        r = t")

        def row(array: str, at: str, n: int) -> str:
            return f"{array}[({at}) * {n} : ({at}) * {n} + {n}]"

        def add(line: str) -> None:
            lines.append("        " + line)

        for k in range(rows):
            add(f"a{k} = {row(f'x{k}', 'r', size(arguments[k].shape))}")
        for k in range(states):
            n, a = size(arguments[rows + k].shape), f"a{rows + k}"
            if k in self.history:
                add(f"{a} = {row(f'b{k}', 'r', n)}")
                following = "r - 1" if self.whole.backward else "r + 1"
                # A row that is not there is not looked at.
                add(f"out{k} = f{k} if t == n - 1 else {row(f'b{k}', following, n)}")
            else:
                add(f"{a} = s{k} if t == 0 else (f{k} if (n - t) % 2 == 0 else b{k})")
                add(f"out{k} = f{k} if (n - t) % 2 == 1 else b{k}")
        for k, number in enumerate(self.given):
            add(f"out{states + k} = {row(f'y{k}', 'r', size(self.whole.traced.results[number].shape))}")
        if self.whole.stops is None:
            return lines + ["        " + line for line in compiled.steps]
        for line in (f"out{states + len(self.given)} = go", *compiled.steps, "if go[0] == 0:"):
            add(line)
        add("    done[0] = t + 1")
        add("    break")
        return lines

    def _kinds(self, names: Sequence[str], written: dict, compiled: Compiled) -> list[np.dtype]:
        """The dtype of each array of the loop."""
        rows, _, _ = self.whole.counts
        arguments = self.whole.traced.arguments
        found = []
        for name in names:
            letter, number = name[0], name[1:]
            if name in self.space and not (letter == "t" and name in written):
                dtype = next(d for s in compiled.sources for k, (d, _) in s.scratch.items() if k == name)
            elif name in self.space:
                dtype = written[name].dtype
            elif name == "go":
                assert self.whole.stops is not None
                dtype = self.whole.traced.results[self.whole.stops].value.dtype
            elif name == "done":
                dtype = int64
            elif letter in "xa":
                dtype = arguments[int(number)].dtype
            elif letter == "y":
                dtype = self.whole.results[self.given[int(number)]][1]
            else:
                dtype = arguments[rows + int(number)].dtype
            found.append(dtype.storage)
        return found

    def _runner(self, arguments) -> Callable:
        rows, states, outputs = self.whole.counts
        n, backward, history, call = self.whole.n, self.whole.backward, self.history, self.call
        given, counted = self.given, self.whole.counted
        captured_count = len(arguments) - rows - states
        lengths = [size(shape[1:]) for shape, _ in self.whole.results]
        stops = None
        if self.whole.stops is not None:
            stops = kind_of(self.whole.traced.results[self.whole.stops].value.dtype, CPU0).storage
        avals = [(size(shape), kind_of(dtype, CPU0)) for shape, dtype in self.whole.results[:states]]
        allocate = python(
            f"{self.whole.name}_space",
            f"def call():\n    return [{', '.join(self.space.values())}]",
            self.compiled.globals,
        )

        def run(*arrays) -> None:
            *operands, outs = arrays
            bufs = [x._buf for x in operands]
            constants = bufs[rows + states : rows + states + captured_count]
            m = int(bufs[-1][0]) if counted else n
            first = m - 1 if backward else 0
            places: list[Any] = bufs[:rows]
            for k, (length, kind) in enumerate(avals):
                start = bufs[rows + k]
                last = kind.empty(length, kind.storage) if outs[k] is None else outs[k]._buf
                if k in history:
                    other = outs[states + outputs + k]._buf
                    other[first * length : (first + 1) * length] = start if m else 0
                else:
                    other = kind.empty(length, kind.storage)
                places += [start, last, other]
            places += [*constants, *(outs[k]._buf for k in given)]
            done = np.full(1, m, np.int64)
            if stops is not None:
                places += [np.empty(1, stops), done]
            call(m, *places, *allocate())
            if stops is not None and outs[-1] is not None:
                outs[-1]._buf[:] = done
            if done[0] < n:
                finish(m, int(done[0]), places, outs)

        def finish(m: int, taken: int, places: list, outs: list) -> None:
            """After fewer steps than there are rows: the last states, from where they are, and zeros."""
            for k, (length, _) in enumerate(avals):
                start, last, other = places[rows + 3 * k : rows + 3 * k + 3]
                if not taken:
                    last[:] = start
                elif taken < m and k in history:
                    last[:] = other[taken * length : (taken + 1) * length]
                elif (m - taken) % 2 and k not in history:
                    last[:] = other
            for k in given:
                outs[k]._buf[taken * lengths[k] :] = 0

        return run


class _Rule(tape.Rule):
    """The tape's rule for a loop."""

    def __init__(self, whole: _Loop, operands: Arrays, results: Arrays) -> None:
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
        outside = list(range(rows + states, len(whole.traced.arguments)))
        sums = [k for k in outside if wanted[k]]
        present = [k for k in range(states, 2 * states + outputs) if g[k] is not None]

        def step(row: Arrays, before: Arrays) -> tuple[Arrays, Arrays]:
            inside = [variable(x) for x in row[: rows + states]]
            stay = [(operands[k], variable(captured(operands[k]))) for k in outside]
            own = [(x, v) for (x, v) in zip(whole.traced.captured, (v for _, v in stay), strict=True)]
            drawn = [(PART, inside[rows - 1])] if whole.traced.drawn else []
            taken = rows - len(drawn)
            heads = dict(zip(changing, before))
            heads |= {k: h for k, h in zip(present, row[rows + states :], strict=True) if k < states + outputs}

            def function() -> Arrays:
                given, after = whole.step(inside[:taken], inside[rows : rows + states])
                return [*after, *given]

            every = [*inside, *(v for _, v in stay)]
            found = pulled(function, every, [*own, *stay, *drawn], heads)
            extra = {k - states - outputs: h for k, h in zip(present, row[rows + states :]) if k >= states + outputs}
            after = []
            for k in changing:
                h = found.get(id(inside[rows + k]))
                more = extra.get(k)
                both = [y for y in (h, more) if y is not None]
                after.append(both[0] if len(both) == 1 else both[0] + both[1] if both else zeros(*aval(inside[rows + k])))
            for k, old in zip(sums, before[len(changing) :], strict=True):
                h = found.get(id(stay[k - rows - states][1]))
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
