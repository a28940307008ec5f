"""Device memory pool: raw buffers on a GPU, reused so that the driver allocates nothing in steady state.

A :class:`DeviceBuffer` takes the place of the flat NumPy array of arrays on the CPU. Everything on one device runs on
one stream, in order, so memory without references can be reused at once, whatever is still running.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any
from weakref import WeakSet

import numpy as np

from ...core.context import Context, cache_clearers
from ...core.fork_safety import lock
from ...errors import OutOfMemoryError, TraceError
from . import driver
from .launches import address_and_size, local

__all__ = ["DeviceBuffer", "OnDevice", "allocator", "on_device", "pools"]


class OnDevice:
    """The storage of an array kind on a GPU; one instance per (dtype, device).

    :meth:`Kernel.bind` takes it for a flat array there."""

    __slots__ = ("ctx", "itemsize", "np")

    def __init__(self, dtype: np.dtype, ctx: Context) -> None:
        self.np = dtype
        self.ctx = ctx
        self.itemsize = dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.np}@{self.ctx}"


@cache
def on_device(dtype: np.dtype, ctx: Context) -> OnDevice:
    """The :class:`OnDevice` of a dtype and a device."""
    return OnDevice(dtype, ctx)


@lru_cache(1 << 12)
def rounded(size: int) -> int:
    """The size of the block for a buffer of `size` bytes: four size classes per power of two, at least 512."""
    step = max(512, 1 << max(0, size.bit_length() - 3))
    return max(512, -(-size // step) * step)


class DevicePool:
    """Free blocks of memory of one device, by size.

    Attributes
    ----------
    cached_bytes, lent : int
        Bytes in free blocks, and in blocks in use.
    driver_requests : int
        How often memory was requested from the driver.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.cached_bytes = self.lent = self.driver_requests = 0
        self._free: dict[int, list[tuple[Any, dict]]] = {}
        #: All blocks, lent or not. When Python collects a cycle, Numba would free the memory in it before its lease
        #: returns it; this reference prevents that.
        self._pieces: dict[int, tuple[Any, dict]] = {}
        self._droppers: WeakSet[Any] = WeakSet()
        self._lock = lock("gpu memory")

    def lend(self, size: int) -> _Lease:
        """At least `size` bytes.

        Raises
        ------
        MemoryError
            If there are fewer, even after free blocks were returned to the driver.
        """
        size = rounded(size)
        with self._lock:
            pieces = self._free.get(size)
            if pieces:
                memory, views = pieces.pop()
                self.cached_bytes -= size
            else:
                memory, views = self._allocate(size), {}
                self._pieces[id(memory)] = memory, views
            self.lent += size
        if local.notes is not None:
            local.notes.lent.append((driver.address(memory), size))
        return _Lease(self, memory, size, views)

    def _allocate(self, size: int) -> Any:
        self.driver_requests += 1
        try:
            return driver.allocate(self.number, size)
        except MemoryError:
            self.clear()
        try:
            return driver.allocate(self.number, size)
        except MemoryError as err:
            free, total = driver.memory_info(self.number)
            raise OutOfMemoryError(
                f"gpu({self.number}): no memory for {size} bytes: {free} of {total} are free, and nbgrad's arrays use "
                f"{self.lent}; drop arrays that are not needed, or use autograd.checkpoint ({err})"
            ) from None

    def watch(self, dropper: Any) -> None:
        """Call ``dropper.drop()``, while that object lives, when memory runs short."""
        with self._lock:
            self._droppers.add(dropper)

    def return_block(self, memory: Any, size: int, views: dict) -> None:
        """Put a block back on the free list."""
        with self._lock:
            self._free.setdefault(size, []).append((memory, views))
            self.lent -= size
            self.cached_bytes += size

    def clear(self) -> int:
        """Return free blocks to the driver; returns their size in bytes."""
        with self._lock:
            for dropper in list(self._droppers):
                dropper.drop()
            if self.cached_bytes:
                driver.synchronize(self.number)  # kernels that have not run yet may use it
            for pieces in self._free.values():
                for memory, _ in pieces:
                    del self._pieces[id(memory)]
            self._free, freed, self.cached_bytes = {}, self.cached_bytes, 0
        return freed


class _Lease:
    """A block of device memory, lent once; returns to the pool when nothing refers to it.

    Device arrays on slices of it are cached with it (`views`): creating one takes longer than launching a kernel.
    """

    __slots__ = ("memory", "pool", "size", "views")

    def __init__(self, pool: DevicePool, memory: Any, size: int, views: dict) -> None:
        self.pool = pool
        self.memory = memory
        self.size = size
        self.views = views

    def __del__(self) -> None:
        self.pool.return_block(self.memory, self.size, self.views)


#: Most device arrays that are cached per block.
_VIEWS = 64


@cache
def pools(number: int) -> DevicePool:
    """The pool of a device."""
    return DevicePool(number)


cache_clearers["gpu"] = lambda number: pools(number).clear()


class DeviceBuffer:
    """A flat run of elements in device memory.

    Has the part of a flat NumPy array's interface that the library uses: ``size``, ``dtype``, contiguous slices that
    share memory, ``fill``, ``copy``, assignment from buffers and host arrays. Whatever needs the values (``reshape``,
    an index, ``np.asarray``) gets a read-only host copy.
    """

    __slots__ = ("_array", "dtype", "lease", "number", "size", "start")

    def __init__(self, number: int, lease: _Lease, start: int, size: int, dtype: np.dtype) -> None:
        self.number = number
        self.lease = lease
        self.start = start
        self.size = size
        self.dtype = dtype
        self._array: Any = None

    @property
    def array(self) -> Any:
        """The device array to pass to kernels; it has one element if the buffer is empty."""
        if self._array is None:
            views, key = self.lease.views, (self.start, self.size, self.dtype)
            view = views.get(key)
            if view is None:
                view = driver.view(self.lease.memory, self.start, max(self.size, 1), self.dtype)
                if len(views) >= _VIEWS:
                    views.clear()
                views[key] = view
            self._array = view
        return self._array

    @property
    def address(self) -> int:
        return address_and_size(self.array.words)[0]

    @property
    def strides(self) -> tuple[int]:
        return (self.dtype.itemsize,)

    def __len__(self) -> int:
        return self.size

    def copy(self) -> DeviceBuffer:
        lease = pools(self.number).lend(self.size * self.dtype.itemsize)
        other = DeviceBuffer(self.number, lease, 0, self.size, self.dtype)
        if self.size:
            driver.copy(self.number, self.array, other.array)
        return other

    def view(self, dtype: np.dtype) -> DeviceBuffer:
        """The same memory as elements of another dtype of the same size."""
        dtype = np.dtype(dtype)
        assert dtype.itemsize == self.dtype.itemsize, (dtype, self.dtype)
        return DeviceBuffer(self.number, self.lease, self.start, self.size, dtype)

    def download(self) -> np.ndarray:
        """A host copy."""
        return driver.download(self.number, self.array) if self.size else np.empty(0, self.dtype)

    def host(self) -> np.ndarray:
        """A read-only host copy: writes into it would be lost."""
        values = self.download()
        values.flags.writeable = False
        return values

    def wait(self) -> None:
        """Wait until the elements are computed."""
        driver.synchronize(self.number)

    def reshape(self, *shape) -> np.ndarray:
        return self.host().reshape(*shape)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.array(self.host(), dtype)

    def __getitem__(self, part):
        if isinstance(part, slice):
            start, stop, step = part.indices(self.size)
            if step != 1:
                raise IndexError("device buffers have contiguous slices alone")
            at = self.start + start * self.dtype.itemsize
            return DeviceBuffer(self.number, self.lease, at, max(stop - start, 0), self.dtype)
        return self.host()[part]

    def __setitem__(self, part: slice, source) -> None:
        target = self[part]
        if target.size == 0:
            return
        if isinstance(source, DeviceBuffer):
            if source.number == self.number:
                driver.copy(self.number, source.array, target.array)
                return
            source = source.host()
        if isinstance(source, np.ndarray):
            with np.errstate(invalid="ignore", over="ignore"):
                values = np.ascontiguousarray(np.broadcast_to(source.reshape(-1), (target.size,)), self.dtype)
            driver.upload(self.number, target.array, values)
        elif isinstance(source, int | float | np.generic):
            target.fill(source)
        else:  # a traced array
            raise TraceError(f"an array on gpu({self.number}) cannot be written from {type(source).__name__}")

    def fill(self, value) -> None:
        """Set every element."""
        if self.size:
            driver.fill(self.number, self.array, self.size, value)


def allocator(ctx: Context) -> Callable:
    """``empty(n, storage)`` for arrays of this device."""
    number = ctx.device_id

    def empty(n: int, storage: OnDevice) -> DeviceBuffer:
        return DeviceBuffer(number, pools(number).lend(n * storage.itemsize), 0, n, storage.np)

    return empty
