"""Replay: turn the launches of a compiled function into CUDA graphs.

The first call runs normally. The next ones record which kernels they launch and where the arrays of these are: in an
argument, in a result, or in memory lent in between. When two successive calls launch the same and do nothing else,
calls become graphs, one per set of addresses, which a graph contains. The pool lends the same addresses repeatedly, so
few graphs serve a loop. New addresses, concurrent calls and arguments that alias run normally, and so does everything
if the driver refuses a graph.

A graph writes into the results of its call and into its own memory, and nowhere else: results of earlier calls stay
valid. All graphs of a function share that memory, because they run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...core.fork_safety import busy_flag
from . import driver
from .buffers import DeviceBuffer, pools
from .launches import RecordedWork, address_and_size, local, recording_work

__all__ = ["Replay"]

#: Most calls that are recorded until two in a row agree; most graphs; most sets of addresses seen once; most launches
#: of a graph.
_TRIES, _GRAPHS, _SEEN_ADDRESSES, _LAUNCHES = 6, 8, 64, 4096


class _ArrayLocation(NamedTuple):
    """An array operand: its block of memory, its offset in bytes, its size and dtype."""

    piece: int
    offset: int
    size: int
    dtype: np.dtype


class _Pattern(NamedTuple):
    """The launches of a call, with :class:`_ArrayLocation` for arrays, and the bytes of its own memory blocks."""

    launches: list[tuple[Any, list, tuple]]
    own: list[int]


class Replay:
    """Run ``call(arguments, results)``, for buffers of arguments and results on one device, as a graph where possible.

    Parameters
    ----------
    number : int
        Of the device.
    call : callable
        Does the same at every call, if it only launches kernels.
    """

    def __init__(self, number: int, call: Callable[[Sequence[DeviceBuffer], Sequence[DeviceBuffer]], None]) -> None:
        self.number = number
        self.call = call
        self.disabled = False
        self._calls = 0
        self._before: _Pattern | None = None  # of the last recorded call
        self.pattern: _Pattern | None = None
        self._lock = busy_flag()  # never waited for
        self.drop()
        pools(number).watch(self)

    def drop(self) -> None:
        """Drop the graphs and release their memory."""
        self.graphs: dict[tuple[bytes, ...], _Graph] = {}
        self._met: set[tuple[bytes, ...]] = set()
        self._own: list | None = None

    def __call__(self, arguments: Sequence[DeviceBuffer], results: Sequence[DeviceBuffer]) -> None:
        """Run the call."""
        if self.disabled or local.notes is not None or not self._lock.acquire(blocking=False):
            self.call(arguments, results)
            return
        try:
            key = tuple([x.array.words for x in (*arguments, *results)])
            graph = self.graphs.get(key) or self._graph(key)
            if graph is not None:
                try:
                    graph.start()
                    return
                except Exception:  # the normal call works, or raises a clear error
                    self._disable()
            if self.pattern is None:
                self._record_call(key, arguments, results)
            else:
                self.call(arguments, results)
        finally:
            self._lock.release()

    def _disable(self) -> None:
        self.disabled = True
        self.drop()

    def _record_call(
        self, key: tuple[bytes, ...], arguments: Sequence[DeviceBuffer], results: Sequence[DeviceBuffer]
    ) -> None:
        """Run the call normally and record its launches."""
        blocks = [address_and_size(words) for words in key]
        if not self._calls or not _disjoint(blocks):
            self.call(arguments, results)
            self._calls = self._calls or 1
            return
        self._calls += 1
        with recording_work() as notes:
            self.call(arguments, results)
        pattern = _pattern(notes, blocks)
        if pattern is not None and pattern == self._before:
            self.pattern = pattern
        self._before = pattern
        self.disabled = self.pattern is None and self._calls > _TRIES

    def _graph(self, key: tuple[bytes, ...]) -> _Graph | None:
        """A graph for these addresses, if they were seen before."""
        if self.pattern is None:
            return None
        if key not in self._met:
            if len(self._met) == _SEEN_ADDRESSES:
                self._met.clear()
            self._met.add(key)
            return None
        try:
            own = self._own
            if own is None:
                own = self._own = [pools(self.number).lend(n) for n in self.pattern.own]
            graph = _Graph(self.number, self.pattern, [address_and_size(words)[0] for words in key], own)
        except Exception:  # no memory, or the driver refuses
            self._disable()
            return None
        if len(self.graphs) == _GRAPHS:
            del self.graphs[next(iter(self.graphs))]
        self.graphs[key] = graph
        return graph


class _Graph:
    """The graph of a pattern at given addresses, with its own memory."""

    def __init__(self, number: int, pattern: _Pattern, addresses: list[int], own: list) -> None:
        addresses = [*addresses, *(driver.address(lease.memory) for lease in own)]
        nodes = []
        for launch, arguments, configuration in pattern.launches:
            operands = [
                driver.argument_at(number, addresses[a.piece] + a.offset, a.size, a.dtype)
                if isinstance(a, _ArrayLocation)
                else a
                for a in arguments
            ]
            nodes.append(launch.later(number, operands, *configuration))
        self.start = driver.build_graph(number, nodes)
        self.own = own


def _disjoint(blocks: Sequence[tuple[int, int]]) -> bool:
    """Whether memory ranges (address, bytes) are disjoint."""
    ordered = sorted(blocks)
    return all(a + n <= b for (a, n), (b, _) in pairwise(ordered))


def _pattern(notes: RecordedWork, blocks: list[tuple[int, int]]) -> _Pattern | None:
    """The recorded launches in terms of memory blocks: those of arguments and results, then those lent.

    None if the call did anything but launch kernels on these blocks."""
    outside = len(blocks)
    blocks = [*blocks, *dict.fromkeys(notes.lent)]
    if not notes.only_launches or len(notes.enqueued_work) > _LAUNCHES or not _disjoint(blocks):
        return None
    names: dict[int, int] = dict(enumerate(range(outside)))  # block number -> its number in the pattern
    recorded = []
    for launch, arguments, configuration in notes.enqueued_work:
        operands: list = []
        for x in arguments:
            if not hasattr(x, "words"):
                operands.append(x)
                continue
            where, size = address_and_size(x.words)
            k = next((k for k, (start, n) in enumerate(blocks) if start <= where and where + size <= start + n), None)
            if k is None:  # foreign memory
                return None
            operands.append(_ArrayLocation(names.setdefault(k, len(names)), where - blocks[k][0], x.size, x.dtype))
        recorded.append((launch, operands, configuration))
    return _Pattern(recorded, [blocks[k][1] for k in names if k >= outside])
