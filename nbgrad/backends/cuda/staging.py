"""Staging: copies between host and device through pinned memory, from which the device copies asynchronously.

An upload returns at once, and the host array may be changed: its elements are in pinned memory, from which the device
fetches them in stream order. A block of pinned memory is reused when an event says that its last copy is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from ...core.fork_safety import lock

__all__ = ["Piece", "Staging"]


class Piece(Protocol):
    """A block of pinned memory and an event."""

    memory: np.ndarray  # of bytes

    def mark(self) -> None:
        """Record the event after the copy that was started last."""

    def done(self) -> bool:
        """Whether the device has reached the event."""

    def wait(self) -> None:
        """Wait for the event."""


#: Starts to copy the elements from start to stop between the device's array and a host array of that size.
Copy = Callable[[int, int, np.ndarray], None]


class Staging:
    """Blocks of pinned memory that copies use in rotation.

    Parameters
    ----------
    make : callable
        A new :class:`Piece`.
    size : int
        Bytes of a block: a multiple of 16.
    keep : int
        How many blocks are allocated before a copy waits for one.
    """

    def __init__(self, make: Callable[[], Piece], size: int, keep: int) -> None:
        self.made = 0
        self._make = make
        self._size = size
        self._keep = keep
        self._free: deque[Piece] = deque()  # the most recently used is last
        self._lock = lock("gpu")

    def upload(self, values: np.ndarray, send: Copy) -> None:
        """Copy a contiguous array to the device; it may be changed when this returns."""
        for start, stop in self._parts(values):
            piece = self._lend()
            memory = self._view(piece, values.dtype, stop - start)
            memory[:] = values[start:stop]
            send(start, stop, memory)
            piece.mark()
            self._give_back(piece)

    def download(self, values: np.ndarray, receive: Copy) -> None:
        """Copy from the device into a contiguous array; the device copies a block while the previous one is read."""
        before = None
        for start, stop in self._parts(values):
            piece = self._lend()
            receive(start, stop, self._view(piece, values.dtype, stop - start))
            piece.mark()
            if before is not None:
                self._read(*before, values)
            before = piece, start, stop
        if before is not None:
            self._read(*before, values)

    def _read(self, piece: Piece, start: int, stop: int, values: np.ndarray) -> None:
        piece.wait()
        values[start:stop] = self._view(piece, values.dtype, stop - start)
        self._give_back(piece)

    def _parts(self, values: np.ndarray) -> Iterator[tuple[int, int]]:
        many = self._size // values.itemsize
        return ((start, min(start + many, values.size)) for start in range(0, values.size, many))

    def _view(self, piece: Piece, dtype: np.dtype, n: int) -> np.ndarray:
        return piece.memory[: n * dtype.itemsize].view(dtype)

    def _lend(self) -> Piece:
        with self._lock:
            if self._free and (self.made >= self._keep or self._free[0].done()):
                piece = self._free.popleft()
            else:
                piece = self._make()
                self.made += 1
        piece.wait()
        return piece

    def _give_back(self, piece: Piece) -> None:
        with self._lock:
            self._free.append(piece)
