"""Loops and branches on a GPU: their steps are device programs, which the host launches one after the other.

Arrays stay on the device. The host reads back only the condition of a branch, whether a loop continues, and the number
of steps of a loop that can end early.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...arrays.launch import kind_of
from ...backends.cuda.buffers import DeviceBuffer
from ...core.context import Context
from ...core.dtypes import bool_
from ...core.shapes import size
from ..subprograms import TracedSubprogram
from .program import DeviceProgram

__all__ = ["DeviceBranch", "DeviceLoop"]


class DeviceLoop:
    """A compiled loop; see :class:`..loop_runner.LoopStep` and :class:`..loop_runner.LoopRunner`.

    Attributes
    ----------
    run : callable
        Takes the operands, and the list of results: None for those that nothing reads.
    """

    partial = True
    single = False
    native = None

    def __init__(self, whole: Any, read: Collection[int], ctx: Context) -> None:
        inside = whole.traced
        self.whole = whole
        self.name = whole.name
        self.foreign = whole.foreign
        self.given = whole.read_outputs(read)
        self.history = whole.read_history(read)
        self.lengths = whole.lengths
        self.avals = whole.avals(ctx)
        self.results = whole.results_of_step(read)
        self.kinds = [kind_of(y.value.dtype, ctx) for y in self.results]
        self.step = DeviceProgram(f"{whole.name}_step", inside.graph, inside.arguments, self.results, ctx)
        self.code = self.step.code

    def run(self, *arrays) -> None:
        *operands, outs = arrays
        rows, states, outputs = self.whole.counts
        bufs: list[DeviceBuffer] = [x._buf for x in operands]
        m = int(bufs[-1].host()[0]) if self.whole.counted else self.whole.n
        now = bufs[rows : rows + states]
        lasts = [None if outs[k] is None else outs[k]._buf for k in range(states)]
        done = 0
        if m:
            for k in self.history:
                self._row(outs, states + outputs + k, self._at(0, m))[:] = now[k]
        for t in range(m):
            at = self._at(t, m)
            row = [x[at * n : (at + 1) * n] for x, n in zip(bufs[:rows], self.lengths, strict=False)]
            outputs_of_step: list[Any] = []
            for k in range(states):
                if t + 1 < m and k in self.history:
                    outputs_of_step.append(self._row(outs, states + outputs + k, self._at(t + 1, m)))
                else:
                    outputs_of_step.append(lasts[k] if t + 1 == m and lasts[k] is not None else self._empty(k))
            outputs_of_step += [self._row(outs, k, at) for k in self.given]
            if self.whole.stops is not None:
                outputs_of_step.append(self._empty(-1))
            self.step([*row, *now, *bufs[rows + states : len(self.lengths)]], outputs_of_step)
            now = outputs_of_step[:states]
            done += 1
            if self.whole.stops is not None and not outputs_of_step[-1].host()[0]:
                break
        for last, final in zip(lasts, now, strict=True):
            if last is not None and last is not final:
                last[:] = final
        if done < self.whole.n:
            for k in self.given:
                outs[k]._buf[done * size(outs[k]._shape[1:]) :].fill(0)
        if self.whole.stops is not None and outs[-1] is not None:
            outs[-1]._buf.fill(done)

    def _at(self, t: int, m: int) -> int:
        """The row of a step."""
        return m - 1 - t if self.whole.backward else t

    def _row(self, outs: Sequence, k: int, at: int) -> DeviceBuffer:
        n = size(outs[k]._shape[1:])
        return outs[k]._buf[at * n : (at + 1) * n]

    def _empty(self, k: int) -> DeviceBuffer:
        kind = self.kinds[k]
        return kind.empty(size(self.results[k].shape), kind.storage)


class DeviceBranch:
    """A compiled branch; see :class:`..branches.branch`."""

    partial = False
    single = False
    native = None

    def __init__(self, name: str, sides: Sequence[TracedSubprogram], ctx: Context) -> None:
        self.name = name
        self.foreign = any(side.foreign for side in sides)
        self.sides = [
            DeviceProgram(f"{name}_{which}", side.graph, side.arguments, side.results, ctx)
            for side, which in zip(sides, ("then", "else"), strict=True)
        ]
        self.code = [source for side in self.sides for source in side.code]
        arguments = [v for side in self.sides for v in side.arguments]
        self.avals = [((), kind_of(bool_, ctx)), *((v.shape, kind_of(v.dtype, ctx)) for v in arguments)]

    def run(self, *arrays) -> None:
        condition, *operands, results = arrays
        first = 0 if condition._buf.host()[0] else 1
        begin = len(self.sides[0].arguments) * first
        side = self.sides[first]
        arguments = operands[begin : begin + len(side.arguments)]
        side([x._buf for x in arguments], [y._buf for y in results])
