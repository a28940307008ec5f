"""Raw buffers. Large ones are lent from a pool of memory whose earlier users are gone.

Fresh memory costs a page fault every 4096 bytes, which is as much time as a kernel takes to fill it, and a C library
gives freed memory back to the system too eagerly. A lent buffer returns by itself: it is a view of a :class:`_Lease`,
which every view of it keeps alive too, and whose death the pool looks at when it is asked next.
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
from ..core.context import emptying
from ..core.fork_safety import lock
from ..errors import OutOfMemoryError

__all__ = ["LARGE", "Pool", "empty", "longer", "pool"]

#: Buffers of this many elements or more come from the pool: below, lending takes longer than what it saves.
LARGE = 8192


class _Lease(np.ndarray):
    """All of a piece of memory, lent once."""

    __slots__ = ()


class _Back(weakref.ref):
    """Brings memory back to a pool when its lease dies.

    Its callback is a function in C, ``deque.append``. In one in Python, or a ``__del__``, the handler of a signal may
    run, and Python prints a KeyboardInterrupt there and forgets it.
    """

    __slots__ = ("memory",)
    memory: mmap.mmap


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
        self.hits = self.misses = 0
        self._kept = self._lent = self._peak = 0
        self._free: OrderedDict[int, list[mmap.mmap]] = OrderedDict()  # size -> pieces; the last used size is last
        self._out: dict[int, _Back] = {}  # what brings memory back, by id
        self._returned: deque[_Back] = deque()  # what did, and was not looked at yet
        self._lock = lock("memory")
        self._trimmer: Thread | None = None

    def __repr__(self) -> str:
        kept, limit, lent, peak = (f"{size / 1e6:.1f}" for size in (self.kept, self.limit, self.lent, self.peak))
        return f"{kept} of at most {limit} MB kept, {lent} lent (peak {peak}); {self.hits} hits, {self.misses} misses"

    @property
    def kept(self) -> int:
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
            memory = None
            pieces = self._free.get(size)
            if pieces:
                with suppress(IndexError):  # a handler of a signal took the last
                    memory = pieces.pop()
                    self._kept -= size
                    self.hits += 1
            if memory is None:
                memory = self._map(size, f"{count} elements of {dtype}")
                self.misses += 1
            self._lent += size
            if self._lent > self._peak:
                self._peak = self._lent
        back = None
        try:
            lease = _Lease((size // dtype.itemsize,), dtype, memory)
            back = _Back(lease, self._returned.append)
            back.memory = memory
            self._out[id(back)] = back
            if self._lent > self.limit:
                self._watch()
            return lease.view(np.ndarray)[:count]
        except BaseException:  # an interrupt: nobody has it
            self._out.pop(id(back), None)
            self._lent -= size
            raise

    def _collect(self) -> None:
        """Keep what came back for the next lease; free what is more than the limit."""
        with self._lock, suppress(IndexError):
            while True:
                back = self._returned.popleft()
                if self._out.pop(id(back), None) is None:
                    continue
                memory = back.memory
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

    def _watch(self) -> None:
        """More is lent than may be kept: if all of it comes back, and nobody lends, somebody has to look."""
        if self._trimmer is None or not self._trimmer.is_alive():
            self._trimmer = Thread(target=self._look, name="nbgrad memory", daemon=True)
            with suppress(RuntimeError):  # no more threads, or the interpreter is going
                self._trimmer.start()

    def _look(self) -> None:
        while self.lent > self.limit:
            time.sleep(0.5)

    def _map(self, size: int, what: str) -> mmap.mmap:
        try:
            return _map(size)
        except (OSError, OverflowError):
            self.clear()  # what is kept may be what is lacking
        try:
            return _map(size)
        except (OSError, OverflowError) as err:
            raise OutOfMemoryError(f"no memory for {what} ({size} bytes): {err}") from None

    def clear(self) -> int:
        """Free what is kept; how many bytes that were."""
        with self._lock:
            self._collect()
            self._free, freed, self._kept = OrderedDict(), self._kept, 0
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
