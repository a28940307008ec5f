"""Run loops: the kernel of the step, in a loop that is compiled with it.

The loop's code is the same for machine code and for Python, which runs the loop if the step is more than one kernel. It
selects the rows of the loop's arrays that an iteration reads and writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays.launch import kind_of
from ..backends.numba.compile import Kernel, generate, nested, nopython, python
from ..core.context import CPU0, Context
from ..core.conventions import MXNET
from ..core.dtypes import DType, int64
from ..core.shapes import size
from ..ir.graph import ShapedValue
from .compiled_program import Buffers, Compiled, allocation_code
from .device.iteration import DeviceLoop
from .runtime_helpers import assign, section
from .subprograms import Aval, Step, TracedSubprogram

__all__ = ["LoopRunner", "LoopStep"]


#: What the code of a loop calls, besides its step.
_HELPERS: dict[str, Any] = {"assign": assign, "section": section}


class LoopStep:
    """A loop, as a step of a program.

    Attributes
    ----------
    counts : tuple
        The numbers of rows, states and outputs of a step.
    counted : bool
        The last operand is the maximum number of steps.
    stops : int or None
        Which result of a step says whether there is another one.
    results : list
        Shapes and dtypes: of the last states, the outputs and the history; and the number of steps, if the loop can end
        early.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        traced_step: TracedSubprogram,
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
        after, outs = traced_step.avals[: counts[1]], traced_step.avals[counts[1] : counts[1] + counts[2]]
        self.results: list[Aval] = [*after, *(aval._replace(shape=(n, *aval.shape)) for aval in [*outs, *after])]
        if stops is not None:
            self.results.append(Aval((), int64, MXNET))

    @property
    def subprograms(self) -> list[TracedSubprogram]:
        return [self.traced]

    @property
    def form(self) -> tuple:
        """What else a loop differs in."""
        return self.counts, self.n, self.backward, self.counted, self.stops

    @property
    def foreign(self) -> bool:
        """Whether it runs user code."""
        return self.traced.foreign

    @property
    def lengths(self) -> list[int]:
        """The sizes of the arguments of a step."""
        return [size(v.shape) for v in self.traced.arguments]

    def avals(self, ctx: Context) -> list:
        """Shapes and kinds of the operands."""
        arguments = enumerate(self.traced.arguments)
        avals = [((self.n, *v.shape) if k < self.counts[0] else v.shape, kind_of(v.dtype, ctx)) for k, v in arguments]
        return [*avals, ((), kind_of(int64, ctx))] if self.counted else avals

    def read_outputs(self, read: Collection[int]) -> list[int]:
        """Which outputs are among the results in `read`, by their number there."""
        _, states, outputs = self.counts
        return [k for k in range(states, states + outputs) if k in read]

    def read_history(self, read: Collection[int]) -> set[int]:
        """The states whose history is among the results in `read`."""
        _, states, outputs = self.counts
        return {k for k in range(states) if states + outputs + k in read}

    def results_of_step(self, read: Collection[int]) -> list[ShapedValue]:
        """What a step must compute: the states, the outputs that are read, and whether it is the last step."""
        last = [] if self.stops is None else [self.stops]
        return [self.traced.results[k] for k in (*range(self.counts[1]), *self.read_outputs(read), *last)]

    def concrete(self, read: Collection[int], ctx: Context = CPU0, is_nested: bool = False) -> LoopRunner | DeviceLoop:
        return DeviceLoop(self, read, ctx) if ctx.device_type == "gpu" else LoopRunner(self, read)


class LoopRunner:
    """A compiled loop: compiled as a whole if nothing in its step runs from Python; else Python runs the loop.

    A state is read from one location and written to another: neighbouring rows of the history if there is one; else two
    buffers, alternating so that the last step writes the result.
    """

    #: Results that nothing reads are not computed.
    partial = True
    single = False

    def __init__(self, whole: LoopStep, read: Collection[int]) -> None:
        inside = whole.traced
        self.loop_step = whole
        self.name = whole.name
        self.read = frozenset(read)
        self.read_outputs = whole.read_outputs(read)
        self.history = whole.read_history(read)
        self.lengths = whole.lengths
        self.avals = whole.avals(CPU0)
        results = whole.results_of_step(read)
        self.compiled = compiled = Compiled(
            f"{whole.name}_step", inside.graph, inside.arguments, results, is_nested=True
        )
        self.steps, self.names = compiled.inside() if compiled.is_kernel else (compiled.steps, {})
        self.scratch = compiled.scratch  # after that: it has the arrays of inner loops as well
        self.arrays = self._arrays()
        self.foreign = any(runner.foreign for runner, _, _ in compiled.opaque.values())
        self.native = self._native if compiled.nopython else None
        self.inside = self._inside if compiled.is_kernel else None
        self.code = [*compiled.code, self._text(whole.name, self.steps)]

    # Both are compiled lazily, as few programs need both.

    @cached_property
    def call(self) -> Callable:
        """``call(n, *arrays)``: run `n` iterations."""
        compiled = self.compiled
        if compiled.is_kernel:
            return self._kernel.bind(int, *(dtype.storage for dtype in self.arrays.values()))
        if self.foreign and compiled.nopython:  # not cached on disk, but no iteration calls Python
            return self._nopython_call
        return compiled.function(self.name, self._text("call", self.steps), _HELPERS)

    @cached_property
    def _nopython_call(self) -> Callable:
        """The loop for calls from compiled code."""
        if self.compiled.is_kernel:
            return self._kernel.as_function()
        lines, names = self.compiled.native()
        kinds = [(None, np.dtype(np.int64)), *((1, dtype.storage) for dtype in self.arrays.values())]
        return nopython(self.name, self._text(self.name, lines), names | _HELPERS, kinds)

    @cached_property
    def _kernel(self) -> Kernel:
        return generate(self.name, self._text(self.name, self.steps), self.names | _HELPERS, apart=True)

    def _text(self, name: str, steps: list[str]) -> str:
        """The code of the loop around these steps."""
        lines = [f"def {name}({', '.join(['n', *self.arrays])}):", "    for t in range(n):"]
        return "\n".join([*lines, *(f"        {line}" for line in self._lines(steps))]) + "\n"

    def _arrays(self) -> dict[str, DType]:
        """The arguments of the loop's code, in order, with their dtypes."""
        rows, states, _ = self.loop_step.counts
        inside = self.loop_step.traced
        dtypes = {}
        for k, v in enumerate(inside.arguments):
            if k < rows:
                dtypes[f"x{k}"] = v.dtype
            elif k < rows + states:  # its start, its final value, and the buffer in between
                dtypes |= {f"{letter}{k - rows}": v.dtype for letter in "sfb"}
            else:
                dtypes[f"a{k}"] = v.dtype
        dtypes |= {f"y{k}": inside.results[number].value.dtype for k, number in enumerate(self.read_outputs)}
        if self.loop_step.stops is not None:
            dtypes |= {"go": inside.results[self.loop_step.stops].value.dtype, "done": int64}
        return dtypes | {name: dtype for name, (dtype, _) in self.scratch.items()}

    def _lines(self, steps: list[str]) -> list[str]:
        """The code of one iteration around these steps."""
        rows, states, _ = self.loop_step.counts

        def row(array: str, at: str, n: int) -> str:
            return f"section({array}, ({at}) * {n}, {n})"

        lines = ["r = n - 1 - t" if self.loop_step.backward else "r = t"]
        lines += [f"a{k} = {row(f'x{k}', 'r', self.lengths[k])}" for k in range(rows)]
        following = "r - 1" if self.loop_step.backward else "r + 1"
        for k in range(states):
            a, n = f"a{rows + k}", self.lengths[rows + k]
            if k in self.history:
                lines.append(f"{a} = {row(f'b{k}', 'r', n)}")
                lines.append(f"out{k} = f{k} if t == n - 1 else {row(f'b{k}', following, n)}")
            else:
                lines.append(f"{a} = s{k} if t == 0 else (f{k} if (n - t) % 2 == 0 else b{k})")
                lines.append(f"out{k} = f{k} if (n - t) % 2 == 1 else b{k}")
        for k, number in enumerate(self.read_outputs):
            n = size(self.loop_step.traced.results[number].shape)
            lines.append(f"out{states + k} = {row(f'y{k}', 'r', n)}")
        if self.loop_step.stops is None:
            return lines + steps
        lines += [f"out{states + len(self.read_outputs)} = go", *steps]
        return [*lines, "if go[0] == 0:", "    done[0] = t + 1", "    break"]

    def run(self, *arrays) -> None:
        """Run on the operands, and the list of results: None for those that nothing reads."""
        *operands, outs = arrays
        self._around(*(x._buf for x in operands), *(y._buf for y in outs if y is not None))

    @cached_property
    def _around(self) -> Callable:
        """:meth:`run` on buffers."""
        operands = [f"x{k}" for k in range(len(self.avals))]
        results = [f"y{k}" if k in self.read else None for k in range(len(self.loop_step.results))]
        lines, buffers = self._lines_around(operands, results, "loop")
        own = [f"{name} = {self.compiled.empty_code(*buffer)}" for name, buffer in buffers.items()]
        code = "\n    ".join([f"def call({', '.join([*operands, *filter(None, results)])}):", *own, *lines])
        names = self.compiled.globals | _HELPERS | {"assign": np.copyto, "loop_call": self.call}
        return python(self.name, code, names)

    def _native(self, operands: list[str], results: list[str | None], prefix: str) -> tuple[list[str], dict[str, Any]]:
        """:meth:`run` as lines of a nopython function, and their global names."""
        lines, buffers = self._lines_around(operands, results, prefix)
        own = [allocation_code(name, *buffer) for name, buffer in buffers.items()]
        return [*own, *lines], _HELPERS | {f"{prefix}_call": self._nopython_call}

    def _inside(
        self, operands: list[str], results: list[str | None], prefix: str
    ) -> tuple[list[str], dict[str, Any], Buffers]:
        """:meth:`run` as lines of a kernel, their global names, and the arrays that they need besides."""
        lines, buffers = self._lines_around(operands, results, prefix)
        loop = nested(self.name, self._text(self.name, self.steps), self.names | _HELPERS)
        return lines, _HELPERS | {f"{prefix}_call": loop}, buffers

    def _lines_around(self, operands: list[str], results: list[str | None], prefix: str) -> tuple[list[str], Buffers]:
        """Code that runs the loop, and the arrays that it needs besides the operands and results.

        After fewer steps than there are rows, the last states are copied to the results, and other outputs are zeroed.
        """
        rows, states, outputs = self.loop_step.counts
        m, done_steps = f"{prefix}_m", f"{prefix}_taken"
        lines = [f"{m} = {f'int({operands[-1]}[0])' if self.loop_step.counted else self.loop_step.n}"]
        first = f"max({m} - 1, 0)" if self.loop_step.backward else "0"
        arguments, after = operands[:rows], []
        buffers: Buffers = {}
        for k in range(states):
            n, start, dtype = self.lengths[rows + k], operands[rows + k], self.avals[rows + k][1].dtype
            last = results[k]
            if last is None:
                last = f"{prefix}_f{k}"
                buffers[last] = dtype, n
            other = results[states + outputs + k]
            if k in self.history:
                lines.append(f"assign(section({other}, {first} * {n}, {n}), {start})")
                after += [
                    f"    elif {done_steps} < {m}:",
                    f"        assign({last}, section({other}, {done_steps} * {n}, {n}))",
                ]
            else:
                other = f"{prefix}_b{k}"
                buffers[other] = dtype, n
                after += [f"    elif ({m} - {done_steps}) % 2:", f"        assign({last}, {other})"]
            after[-2:-2] = [f"    if {done_steps} == 0:", f"        assign({last}, {start})"]
            arguments += [start, last, str(other)]
        outputs_read = [str(results[k]) for k in self.read_outputs]
        arguments += [*operands[rows + states : len(self.lengths)], *outputs_read]
        if self.loop_step.stops is not None:
            arguments += [f"{prefix}_go", f"{prefix}_done"]
            buffers[f"{prefix}_go"] = self.loop_step.traced.results[self.loop_step.stops].value.dtype, 1
            buffers[f"{prefix}_done"] = int64, 1
            lines.append(f"{prefix}_done[0] = {m}")
        for name, buffer in self.scratch.items():
            arguments.append(f"{prefix}_{name}")
            buffers[arguments[-1]] = buffer
        lines.append(f"{prefix}_call({', '.join([m, *arguments])})")
        lines.append(f"{done_steps} = {m if self.loop_step.stops is None else f'int({prefix}_done[0])'}")
        if self.loop_step.stops is not None and results[-1] is not None:
            lines.append(f"{results[-1]}[0] = {done_steps}")
        for k, name in zip(self.read_outputs, outputs_read, strict=True):
            after.append(f"    {name}[{done_steps} * {size(self.loop_step.traced.results[k].shape)} :] = 0")
        if after and (self.loop_step.counted or self.loop_step.stops is not None):
            lines += [f"if {done_steps} < {self.loop_step.n}:", *after]
        return lines, buffers
