"""Raw buffers. Large ones are lent from a pool of memory whose earlier users are gone.

Fresh memory costs a page fault every 4096 bytes, which is as much time as a kernel takes to fill it, and a C library
gives freed memory back to the system too eagerly. A lent buffer returns by itself: it is a view of a :class:`_Lease`,
which every view of it keeps alive too, and whose finalizer hands the memory back.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections import OrderedDict
from contextlib import suppress
from functools import lru_cache
from threading import RLock

import numpy as np

from .. import config
from ..context import emptying
from ..forks import free_in_child

__all__ = ["LARGE", "Pool", "empty", "longer", "pool"]

#: Buffers of this many elements or more come from the pool: below, lending takes longer than what it saves.
LARGE = 8192


class _Lease(np.ndarray):
    """All of a piece of memory, lent once."""

    __slots__ = ("lender",)
    lender: Pool

    def __del__(self, piece=mmap.mmap) -> None:  # a default: this module may be gone when the process ends
        memory = self.base
        if isinstance(memory, piece):
            self.lender.give_back(memory)


def _map(size: int) -> mmap.mmap:
    if os.name == "nt":
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # private: a forked child has its own
    if size >= 1 << 21 and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


@lru_cache(1024)
def rounded(size: int) -> int:
    """The size of the memory that a buffer of `size` bytes is lent: eight sizes per power of two."""
    step = 1 << max(12, size.bit_length() - 4)
    return -(-size // step) * step


class Pool:
    """Memory that nobody uses at the moment, by size, up to `limit` bytes in all (the longest unused go first).

    Attributes
    ----------
    limit : int
        Bytes kept at most.
    kept : int
        Bytes kept now.
    lent, peak : int
        Bytes lent now, and at most so far (settable).
    hits, misses : int
        Buffers lent from what was kept, and from the system.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.kept = self.lent = self.peak = self.hits = self.misses = 0
        self._free: OrderedDict[int, list[mmap.mmap]] = OrderedDict()  # size -> pieces; the last used size is last
        self._lock = free_in_child(RLock())  # a finalizer may run at any place of the thread that holds it

    def __repr__(self) -> str:
        kept, limit, lent, peak = (f"{size / 1e6:.1f}" for size in (self.kept, self.limit, self.lent, self.peak))
        return f"{kept} of at most {limit} MB kept, {lent} lent (peak {peak}); {self.hits} hits, {self.misses} misses"

    def lend(self, count: int, dtype: np.dtype) -> np.ndarray:
        """A buffer of `count` elements, aligned to a page, with undefined contents."""
        size = rounded(count * dtype.itemsize)
        with self._lock:
            pieces = self._free.get(size)
            if pieces:
                memory = pieces.pop()
                self.kept -= size
                self.hits += 1
            else:
                memory = self._map(size, f"{count} elements of {dtype}")
                self.misses += 1
            self.lent += size
            if self.lent > self.peak:
                self.peak = self.lent
        lease = _Lease((size // dtype.itemsize,), dtype, memory)
        lease.lender = self
        return lease.view(np.ndarray)[:count]

    def _map(self, size: int, what: str) -> mmap.mmap:
        try:
            return _map(size)
        except (OSError, OverflowError):
            self.clear()  # what is kept may be what is lacking
        try:
            return _map(size)
        except (OSError, OverflowError) as err:
            raise MemoryError(f"no memory for {what} ({size} bytes): {err}") from None

    def give_back(self, memory: mmap.mmap) -> None:
        """Keep a piece of memory for the next lease, or free it."""
        size = len(memory)
        with self._lock:
            self.lent -= size
            pieces = self._free.get(size)
            if pieces is None:
                self._free[size] = [memory]
            else:
                pieces.append(memory)
                self._free.move_to_end(size)
            self.kept += size
            while self.kept > self.limit:
                oldest, unused = next(iter(self._free.items()))
                if unused:
                    unused.pop(0)
                    self.kept -= oldest
                if not unused:
                    del self._free[oldest]

    def clear(self) -> int:
        """Free what is kept; how many bytes that were."""
        with self._lock:
            self._free, freed, self.kept = OrderedDict(), self.kept, 0
        return freed


pool = Pool(config.POOL)
emptying["cpu"] = lambda number: pool.clear()


def longer(buffer: np.ndarray, count: int) -> np.ndarray | None:
    """The memory of a lent buffer as one of `count` elements, if it has room for them and nobody else has any of it."""
    if _references(buffer) != _SOLE:
        return None
    whole = buffer.base
    if whole is None or not isinstance(whole.base, _Lease) or whole.dtype is not buffer.dtype or whole.size < count:
        return None
    return whole[:count] if whole.ctypes.data == buffer.ctypes.data else None


def _references(view: np.ndarray) -> int:
    """How often Python refers to the array that has the memory."""
    return sys.getrefcount(view.base)


#: What that is for the only view; Python versions count differently.
_SOLE = _references(np.empty(2)[:1])


def empty(count: int, dtype: np.dtype) -> np.ndarray:
    """A raw buffer of `count` elements with undefined contents."""
    return np.empty(count, dtype) if count < LARGE else pool.lend(count, dtype)
