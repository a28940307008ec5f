"""Loops as something to run: the step's kernel, in a loop that is compiled with it.

The loop's code is the same for machine code and for Python, which runs it if the step is more than one kernel: it says
where, in the arrays of the whole loop, a step reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays.launch import kind_of
from ..backends.numba.compile import Kernel, generate, nopython, python
from ..core.context import CPU0, Context
from ..core.dtypes import DType, int64
from ..core.shapes import size
from .compiled_program import Compiled, allocated
from .device.iteration import DeviceLoop
from .subprograms import Aval, Step, Traced

__all__ = ["Loop", "Runner"]


class Loop:
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

    @property
    def foreign(self) -> bool:
        """Whether users' code runs in it."""
        return self.traced.foreign

    def concrete(self, read: Collection[int], ctx: Context = CPU0) -> Runner | DeviceLoop:
        return DeviceLoop(self, read, ctx) if ctx.device_type == "gpu" else Runner(self, read)


class Runner:
    """A loop to run: compiled as a whole, if the step is one kernel; else the step is, and Python does the loop.

    A state is read at one place and written at another. If there is a history, these are neighbouring rows of it; if
    not, two buffers in turn, so that the last step writes the result.
    """

    #: Results that nobody reads are not computed.
    partial = True
    single = False

    def __init__(self, whole: Loop, read: Collection[int]) -> None:
        rows, states, outputs = whole.counts
        inside = whole.traced
        self.whole = whole
        self.name = whole.name
        self.given = [states + k for k in range(outputs) if states + k in read]
        self.history = {k for k in range(states) if states + outputs + k in read}
        self.lengths = [size(v.shape) for v in inside.arguments]
        self.avals = [
            ((whole.n, *v.shape) if k < rows else v.shape, kind_of(v.dtype, CPU0))
            for k, v in enumerate(inside.arguments)
        ]
        if whole.counted:
            self.avals.append(((), kind_of(int64, CPU0)))
        taken = [*range(states), *self.given, *([] if whole.stops is None else [whole.stops])]
        results = [inside.results[k] for k in taken]
        self.compiled = compiled = Compiled(f"{whole.name}_step", inside.graph, inside.arguments, results, inside=True)
        space = {name: code for name, code in compiled.space.items() if not name.startswith("out")}
        code = f"def call():\n    return [{', '.join(space.values())}]"
        self.space = python(f"{whole.name}_space", code, compiled.globals)
        self.arrays = self._arrays(space)
        self.foreign = any(runner.foreign for runner, _, _ in compiled.opaque.values())
        self.native = self._native if compiled.nopython else None
        self.texts = [*compiled.texts, self._text(whole.name, compiled.steps)]

    # Both are compiled when they are first called for, and seldom both.

    @cached_property
    def call(self) -> Callable:
        """``call(n, *arrays)``: so many turns."""
        compiled = self.compiled
        if compiled.pure:
            return self._kernel.bind(int, *(dtype.storage for dtype in self.arrays.values()))
        if self.foreign and compiled.nopython:  # not kept on disk: where Python would be called in every turn
            return self._inside
        return compiled.function(self.name, self._text("call", compiled.steps), {})

    @cached_property
    def _inside(self) -> Callable:
        """The same for compiled code."""
        if self.compiled.pure:
            return self._kernel.within()
        lines, names = self.compiled.native()
        kinds = [(None, np.dtype(np.int64)), *((1, dtype.storage) for dtype in self.arrays.values())]
        return nopython(self.name, self._text(self.name, lines), names, kinds)

    @cached_property
    def _kernel(self) -> Kernel:
        kernels = {name: v for name, v in self.compiled.globals.items() if name.startswith("kernel")}
        return generate(self.name, self._text(self.name, self.compiled.steps), kernels, apart=True)

    def _text(self, name: str, steps: list[str]) -> str:
        """The loop's code, which does these steps."""
        lines = [f"def {name}({', '.join(['n', *self.arrays])}):", "    for t in range(n):"]
        return "\n".join([*lines, *(f"        {line}" for line in self._lines(steps))]) + "\n"

    def _arrays(self, space: Iterable[str]) -> dict[str, DType]:
        """What the loop's code is given, in order, and its dtypes."""
        rows, states, _ = self.whole.counts
        inside = self.whole.traced
        found = {}
        for k, v in enumerate(inside.arguments):
            if k < rows:
                found[f"x{k}"] = v.dtype
            elif k < rows + states:  # where it starts, where it ends, and where it is in between
                found |= {f"{letter}{k - rows}": v.dtype for letter in "sfb"}
            else:
                found[f"a{k}"] = v.dtype
        found |= {f"y{k}": inside.results[number].value.dtype for k, number in enumerate(self.given)}
        if self.whole.stops is not None:
            found |= {"go": inside.results[self.whole.stops].value.dtype, "done": int64}
        return found | {name: self.compiled.buffers[name][0] for name in space}

    def _lines(self, steps: list[str]) -> list[str]:
        """The code of one turn, which does these steps."""
        rows, states, _ = self.whole.counts

        def row(array: str, at: str, n: int) -> str:
            return f"{array}[({at}) * {n} : ({at}) * {n} + {n}]"

        lines = ["r = n - 1 - t" if self.whole.backward else "r = t"]
        lines += [f"a{k} = {row(f'x{k}', 'r', self.lengths[k])}" for k in range(rows)]
        following = "r - 1" if self.whole.backward else "r + 1"
        for k in range(states):
            a, n = f"a{rows + k}", self.lengths[rows + k]
            if k in self.history:
                lines.append(f"{a} = {row(f'b{k}', 'r', n)}")
                lines.append(f"out{k} = f{k} if t == n - 1 else {row(f'b{k}', following, n)}")
            else:
                lines.append(f"{a} = s{k} if t == 0 else (f{k} if (n - t) % 2 == 0 else b{k})")
                lines.append(f"out{k} = f{k} if (n - t) % 2 == 1 else b{k}")
        for k, number in enumerate(self.given):
            n = size(self.whole.traced.results[number].shape)
            lines.append(f"out{states + k} = {row(f'y{k}', 'r', n)}")
        if self.whole.stops is None:
            return lines + steps
        lines += [f"out{states + len(self.given)} = go", *steps]
        return [*lines, "if go[0] == 0:", "    done[0] = t + 1", "    break"]

    def run(self, *arrays) -> None:
        """The operands, and the list of results: None for those that nobody reads."""
        *operands, outs = arrays
        rows, states, outputs = self.whole.counts
        bufs = [x._buf for x in operands]
        m = int(bufs[-1][0]) if self.whole.counted else self.whole.n
        first = m - 1 if self.whole.backward and m else 0
        places: list[Any] = bufs[:rows]
        for k in range(rows, rows + states):
            n, kind = self.lengths[k], self.avals[k][1]
            last = kind.empty(n, kind.storage) if outs[k - rows] is None else outs[k - rows]._buf
            if k - rows in self.history:
                other = outs[states + outputs + k - rows]._buf
                other[first * n : (first + 1) * n] = bufs[k]
            else:
                other = kind.empty(n, kind.storage)
            places += [bufs[k], last, other]
        places += [*bufs[rows + states : len(self.lengths)], *(outs[k]._buf for k in self.given)]
        taken = m
        if self.whole.stops is None:
            self.call(m, *places, *self.space())
        else:
            go = np.empty(1, self.whole.traced.results[self.whole.stops].value.dtype.storage)
            done = np.full(1, m, np.int64)
            self.call(m, *places, go, done, *self.space())
            taken = int(done[0])
            if outs[-1] is not None:
                outs[-1]._buf[:] = done
        if taken < self.whole.n:
            self._finish(m, taken, places, outs)

    def _finish(self, m: int, taken: int, places: list, outs: list) -> None:
        """After fewer steps than there are rows: the last states, from where they are, and zeros."""
        rows, states, _ = self.whole.counts
        for k in range(states):
            start, last, other = places[rows + 3 * k : rows + 3 * k + 3]
            n = self.lengths[rows + k]
            if not taken:
                last[:] = start
            elif k in self.history and taken < m:
                last[:] = other[taken * n : (taken + 1) * n]
            elif k not in self.history and (m - taken) % 2:
                last[:] = other
        for k in self.given:
            n = size(self.whole.traced.results[k].shape)
            outs[k]._buf[taken * n :] = 0

    def _native(self, operands: list[str], results: list[str | None], prefix: str) -> tuple[list[str], dict[str, Any]]:
        """What :meth:`run` does, as lines of a nopython function, and what these use."""
        rows, states, outputs = self.whole.counts
        m, taken = f"{prefix}_m", f"{prefix}_taken"
        lines = [f"{m} = {f'{operands[-1]}[0]' if self.whole.counted else self.whole.n}"]
        first = f"max({m} - 1, 0)" if self.whole.backward else "0"
        places, after = operands[:rows], []
        for k in range(states):
            n, start, dtype = self.lengths[rows + k], operands[rows + k], self.avals[rows + k][1].dtype
            last = results[k]
            if last is None:
                last = f"{prefix}_f{k}"
                lines.append(allocated(last, dtype, n))
            other = results[states + outputs + k]
            if k in self.history:
                lines.append(f"{other}[{first} * {n} : {first} * {n} + {n}] = {start}")
                after += [
                    f"    elif {taken} < {m}:",
                    f"        {last}[:] = {other}[{taken} * {n} : {taken} * {n} + {n}]",
                ]
            else:
                other = f"{prefix}_b{k}"
                lines.append(allocated(other, dtype, n))
                after += [f"    elif ({m} - {taken}) % 2:", f"        {last}[:] = {other}"]
            after[-2:-2] = [f"    if {taken} == 0:", f"        {last}[:] = {start}"]
            places += [start, last, str(other)]
        given = [str(results[k]) for k in self.given]
        places += [*operands[rows + states : len(self.lengths)], *given]
        if self.whole.stops is not None:
            places += [f"{prefix}_go", f"{prefix}_done"]
            lines.append(allocated(f"{prefix}_go", self.whole.traced.results[self.whole.stops].value.dtype, 1))
            lines += [allocated(f"{prefix}_done", int64, 1), f"{prefix}_done[0] = {m}"]
        for name, (dtype, n) in self.compiled.buffers.items():
            if not name.startswith("out"):
                places.append(f"{prefix}_{name}")
                lines.append(allocated(places[-1], dtype, n))
        lines.append(f"{prefix}_call({', '.join([m, *places])})")
        lines.append(f"{taken} = {m if self.whole.stops is None else f'{prefix}_done[0]'}")
        if self.whole.stops is not None and results[-1] is not None:
            lines.append(f"{results[-1]}[0] = {taken}")
        for k, name in zip(self.given, given, strict=True):
            after.append(f"    {name}[{taken} * {size(self.whole.traced.results[k].shape)} :] = 0")
        if after and (self.whole.counted or self.whole.stops is not None):
            lines += [f"if {taken} < {self.whole.n}:", *after]
        return lines, {f"{prefix}_call": self._inside}
