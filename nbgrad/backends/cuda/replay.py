"""What is started at every call of a compiled function, started at once.

The first call runs as written. The next ones note which kernels they start, and where the arrays of these are: in an
argument, in a result, or in memory that was lent in between. When two calls in a row do the same, and nothing but
starting kernels, calls become graphs: one per set of addresses, for the addresses are in it. The pool lends the same
ones again and again, so few graphs serve a loop. Addresses that come for the first time, two calls at once, and
arguments that share memory are served as written, and so is everything else if the driver does not want a graph.

A graph writes into the results that a call gives it and into memory of its own, and nowhere else: what a caller kept
of an earlier call stays. All graphs of a function share that memory, because they run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...core.fork_safety import flag
from . import driver
from .buffers import DeviceBuffer, pools
from .launches import Notes, local, noted, place

__all__ = ["Replay"]

#: Calls that may be noted until two in a row are the same; graphs, and addresses that were met once, at most; launches
#: of a graph.
_TRIES, _GRAPHS, _MET, _LAUNCHES = 6, 8, 64, 4096


class _Place(NamedTuple):
    """An array: in which piece of memory, from which byte on, how many elements of what."""

    piece: int
    offset: int
    size: int
    dtype: np.dtype


class _Pattern(NamedTuple):
    """What calls do: what they start, with places for arrays; bytes of the memory of their own."""

    launches: list[tuple[Any, list, tuple]]
    own: list[int]


class Replay:
    """``call(given, made)``, for buffers of arguments and results on one device.

    Parameters
    ----------
    number : int
        Of the device.
    call : callable
        Does the same whenever it is called, as far as it starts kernels alone.
    """

    def __init__(self, number: int, call: Callable[[Sequence[DeviceBuffer], Sequence[DeviceBuffer]], None]) -> None:
        self.number = number
        self.call = call
        self.off = False
        self._calls = 0
        self._before: _Pattern | None = None  # what the last noted call did
        self.pattern: _Pattern | None = None
        self._lock = flag()  # nobody waits for it
        self.drop()
        pools(number).watch(self)

    def drop(self) -> None:
        """Forget the graphs, and give their memory back."""
        self.graphs: dict[tuple[bytes, ...], _Graph] = {}
        self._met: set[tuple[bytes, ...]] = set()
        self._own: list | None = None

    def __call__(self, given: Sequence[DeviceBuffer], made: Sequence[DeviceBuffer]) -> None:
        """Run it."""
        if self.off or local.notes is not None or not self._lock.acquire(blocking=False):
            self.call(given, made)
            return
        try:
            key = tuple([x.array.words for x in (*given, *made)])
            graph = self.graphs.get(key) or self._graph(key)
            if graph is not None:
                try:
                    graph.start()
                    return
                except Exception:  # as written, it works, or says what is wrong
                    self._stop()
            if self.pattern is None:
                self._learn(key, given, made)
            else:
                self.call(given, made)
        finally:
            self._lock.release()

    def _stop(self) -> None:
        self.off = True
        self.drop()

    def _learn(self, key: tuple[bytes, ...], given: Sequence[DeviceBuffer], made: Sequence[DeviceBuffer]) -> None:
        """Run it as written, and see what it does."""
        pieces = [place(words) for words in key]
        if not self._calls or not _apart(pieces):
            self.call(given, made)
            self._calls = self._calls or 1
            return
        self._calls += 1
        with noted() as notes:
            self.call(given, made)
        found = _pattern(notes, pieces)
        if found is not None and found == self._before:
            self.pattern = found
        self._before = found
        self.off = self.pattern is None and self._calls > _TRIES

    def _graph(self, key: tuple[bytes, ...]) -> _Graph | None:
        """A graph for these addresses, if they come again."""
        if self.pattern is None:
            return None
        if key not in self._met:
            if len(self._met) == _MET:
                self._met.clear()
            self._met.add(key)
            return None
        try:
            own = self._own
            if own is None:
                own = self._own = [pools(self.number).lend(n) for n in self.pattern.own]
            found = _Graph(self.number, self.pattern, [place(words)[0] for words in key], own)
        except Exception:  # no memory, or whatever the driver has against it
            self._stop()
            return None
        if len(self.graphs) == _GRAPHS:
            del self.graphs[next(iter(self.graphs))]
        self.graphs[key] = found
        return found


class _Graph:
    """A pattern at some addresses, and its own memory."""

    def __init__(self, number: int, pattern: _Pattern, addresses: list[int], own: list) -> None:
        addresses = [*addresses, *(driver.address(lease.memory) for lease in own)]
        nodes = []
        for what, arguments, how in pattern.launches:
            found = [
                driver.placed(number, addresses[a.piece] + a.offset, a.size, a.dtype) if isinstance(a, _Place) else a
                for a in arguments
            ]
            nodes.append(what.later(number, found, *how))
        self.start = driver.together(number, nodes)
        self.own = own


def _apart(pieces: Sequence[tuple[int, int]]) -> bool:
    """Whether these (address, bytes) have nothing in common."""
    ordered = sorted(pieces)
    return all(a + n <= b for (a, n), (b, _) in pairwise(ordered))


def _pattern(notes: Notes, pieces: list[tuple[int, int]]) -> _Pattern | None:
    """What was noted, in terms of pieces of memory: those of arguments and results, and others that were lent; None if
    it was something else than to start kernels there."""
    outside = len(pieces)
    pieces = [*pieces, *dict.fromkeys(notes.lent)]
    if not notes.whole or len(notes.found) > _LAUNCHES or not _apart(pieces):
        return None
    names: dict[int, int] = dict(enumerate(range(outside)))  # of a piece: its place in the pattern
    found = []
    for what, arguments, how in notes.found:
        places: list = []
        for x in arguments:
            if not hasattr(x, "words"):
                places.append(x)
                continue
            where, size = place(x.words)
            k = next((k for k, (start, n) in enumerate(pieces) if start <= where and where + size <= start + n), None)
            if k is None:  # memory of somebody else
                return None
            places.append(_Place(names.setdefault(k, len(names)), where - pieces[k][0], x.size, x.dtype))
        found.append((what, places, how))
    return _Pattern(found, [pieces[k][1] for k in names if k >= outside])
