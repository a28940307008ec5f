"""Buffer pool: raw buffers for arrays on the CPU; large ones reuse memory that has been freed.

Fresh memory costs a page fault every 4096 bytes, as much time as a kernel takes to fill it, and the C library returns
freed memory to the system too eagerly. A lent buffer returns by itself: it is a view of a :class:`_Lease`, which all
its views keep alive. When the lease dies, its memory is queued, and the next call of the pool collects it.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
import weakref
from collections import OrderedDict, deque
from contextlib import suppress
from functools import lru_cache
from threading import Thread

import numpy as np

from ..core import config
from ..core.context import cache_clearers
from ..core.fork_safety import lock
from ..errors import OutOfMemoryError

__all__ = ["LARGE", "Pool", "empty", "extend_in_place", "pool"]

#: Buffers of this many elements or more come from the pool: below, lending takes longer than what it saves.
LARGE = 8192


class _Lease(np.ndarray):
    """A whole block of memory, lent once."""

    __slots__ = ()


class _LeaseReturn(weakref.ref):
    """Returns memory to a pool when its lease dies.

    Its callback is the C function ``deque.append``. In a Python callback or a ``__del__`` a signal handler may run, and
    Python prints and discards a KeyboardInterrupt raised there.
    """

    __slots__ = ("memory",)
    memory: mmap.mmap


def _map(size: int) -> mmap.mmap:
    if os.name == "nt":
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # private: copied in a forked child
    if size >= 1 << 21 and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


@lru_cache(1024)
def rounded(size: int) -> int:
    """The size of the block for a buffer of `size` bytes: eight size classes per power of two."""
    step = 1 << max(12, size.bit_length() - 4)
    return -(-size // step) * step


class Pool:
    """Free blocks of memory, by size, up to `limit` bytes in all (the least recently used are freed first).

    Attributes
    ----------
    limit : int
        Most bytes that free blocks may hold.
    cached_bytes : int
        Bytes in free blocks now.
    lent, peak : int
        Bytes lent now, and their maximum so far (settable).
    hits, misses : int
        Buffers served from free blocks, and from the system.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.hits = self.misses = 0
        self._kept = self._lent = self._peak = 0
        self._free: OrderedDict[int, list[mmap.mmap]] = OrderedDict()  # size -> blocks; the size used last is last
        self._out: dict[int, _LeaseReturn] = {}  # weak references to live leases, by id
        self._returned: deque[_LeaseReturn] = deque()  # of dead leases, not yet collected
        self._lock = lock("memory")
        self._trimmer: Thread | None = None

    def __repr__(self) -> str:
        kept, limit, lent, peak = (
            f"{size / 1e6:.1f}" for size in (self.cached_bytes, self.limit, self.lent, self.peak)
        )
        return f"{kept} of at most {limit} MB kept, {lent} lent (peak {peak}); {self.hits} hits, {self.misses} misses"

    @property
    def cached_bytes(self) -> int:
        self._collect()
        return self._kept

    @property
    def lent(self) -> int:
        self._collect()
        return self._lent

    @property
    def peak(self) -> int:
        return self._peak

    @peak.setter
    def peak(self, size: int) -> None:
        self._peak = size

    def lend(self, count: int, dtype: np.dtype) -> np.ndarray:
        """A buffer of `count` elements, aligned to a page, with undefined contents."""
        size = rounded(count * dtype.itemsize)
        with self._lock:
            if self._returned:
                self._collect()
            try:
                memory = self._free[size].pop()
                self._kept -= size
                self.hits += 1
            except (KeyError, IndexError):
                memory = self._map(size, f"{count} elements of {dtype}")
                self.misses += 1
            self._lent = lent = self._lent + size
            if lent > self._peak:
                self._peak = lent
        returning = None
        try:
            lease = _Lease((size // dtype.itemsize,), dtype, memory)
            returning = _LeaseReturn(lease, self._returned.append)
            returning.memory = memory
            self._out[id(returning)] = returning
            if lent > self.limit:
                self._start_collector()
            return lease.view(np.ndarray)[:count]
        except BaseException:  # an interrupt: the buffer reached nobody
            self._out.pop(id(returning), None)
            self._lent -= size
            raise

    def _collect(self) -> None:
        """Put returned blocks on the free lists; free what exceeds the limit."""
        with self._lock:
            while True:
                try:
                    returning = self._returned.popleft()
                except IndexError:
                    return
                if self._out.pop(id(returning), None) is None:
                    continue
                memory = returning.memory
                size = len(memory)
                self._lent -= size
                self._free.setdefault(size, []).append(memory)
                self._free.move_to_end(size)
                self._kept += size
                if self._kept > self.limit:
                    self._trim()

    def _trim(self) -> None:
        for oldest in list(self._free):
            unused = self._free.get(oldest, [])
            while unused and self._kept > self.limit:
                unused.pop(0)
                self._kept -= oldest
            if self._kept <= self.limit:
                break
            self._free.pop(oldest, None)

    def _start_collector(self) -> None:
        """Start a thread that collects blocks while more than the limit is lent, in case nothing is lent again."""
        if self._trimmer is None or not self._trimmer.is_alive():
            self._trimmer = Thread(target=self._collect_excess, name="nbgrad memory", daemon=True)
            with suppress(RuntimeError):  # no more threads, or the interpreter is shutting down
                self._trimmer.start()

    def _collect_excess(self) -> None:
        while self.lent > self.limit:
            time.sleep(0.5)

    def _map(self, size: int, what: str) -> mmap.mmap:
        try:
            return _map(size)
        except (OSError, OverflowError):
            self.clear()  # free blocks may hold what is missing
        try:
            return _map(size)
        except (OSError, OverflowError) as err:
            raise OutOfMemoryError(f"no memory for {what} ({size} bytes): {err}") from None

    def clear(self) -> int:
        """Release the free blocks to the system; returns their size in bytes."""
        with self._lock:
            self._collect()
            self._free, freed, self._kept = OrderedDict(), self._kept, 0
        return freed


pool = Pool(config.POOL)
cache_clearers["cpu"] = lambda number: pool.clear()


def extend_in_place(buffer: np.ndarray, count: int) -> np.ndarray | None:
    """A lent buffer extended in place, if its block has the capacity and is uniquely owned; else None."""
    if buffer.__class__ is not np.ndarray or _references(buffer) != _SOLE:
        return None
    whole = buffer.base
    if whole is None or not isinstance(whole.base, _Lease) or whole.dtype is not buffer.dtype or whole.size < count:
        return None
    return whole[:count] if whole.ctypes.data == buffer.ctypes.data else None


def _references(view: np.ndarray) -> int:
    """The reference count of the array that owns the memory."""
    return sys.getrefcount(view.base)


#: That count if the view is the only one; it differs between Python versions.
_SOLE = _references(np.empty(2)[:1])


def empty(count: int, dtype: np.dtype) -> np.ndarray:
    """A raw buffer of `count` elements with undefined contents."""
    return np.empty(count, dtype) if count < LARGE else pool.lend(count, dtype)
