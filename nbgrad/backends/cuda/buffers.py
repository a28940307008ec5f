"""Raw buffers in device memory, lent from a pool so that the driver is not asked in steady state.

A :class:`DeviceBuffer` stands where a flat NumPy array is for arrays on the CPU. Everything on one device happens on
one stream, in order: memory that nobody refers to any more can be lent again at once, whatever is still running.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any
from weakref import WeakSet

import numpy as np

from ...core.context import Context, emptying
from ...core.fork_safety import lock
from ...errors import OutOfMemoryError, TraceError
from . import driver
from .launches import local, place

__all__ = ["DeviceBuffer", "OnDevice", "allocator", "on_device", "pools"]


class OnDevice:
    """The storage of an array kind on a GPU; one instance per (dtype, device). :meth:`Kernel.bind` takes it for a flat
    array there."""

    __slots__ = ("ctx", "itemsize", "np")

    def __init__(self, dtype: np.dtype, ctx: Context) -> None:
        self.np = dtype
        self.ctx = ctx
        self.itemsize = dtype.itemsize

    def __repr__(self) -> str:
        return f"{self.np}@{self.ctx}"


@cache
def on_device(dtype: np.dtype, ctx: Context) -> OnDevice:
    """The one :class:`OnDevice` of these two."""
    return OnDevice(dtype, ctx)


@lru_cache(1 << 12)
def rounded(size: int) -> int:
    """The size of the memory that a buffer of `size` bytes is lent: four sizes per power of two, at least 512."""
    step = max(512, 1 << max(0, size.bit_length() - 3))
    return max(512, -(-size // step) * step)


class DevicePool:
    """Memory of one device that nobody uses at the moment, by size.

    Attributes
    ----------
    kept, lent : int
        Bytes.
    asked : int
        How often the driver was asked for memory.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.kept = self.lent = self.asked = 0
        self._free: dict[int, list[tuple[Any, dict]]] = {}
        #: All pieces, lent or not. When Python collects a cycle, Numba frees the memory of what is in it before a lease
        #: there can bring it back; so no memory may be in cycles alone.
        self._pieces: dict[int, tuple[Any, dict]] = {}
        self._droppers: WeakSet[Any] = WeakSet()
        self._lock = lock("gpu memory")

    def lend(self, size: int) -> _Lease:
        """At least `size` bytes.

        Raises
        ------
        MemoryError
            If there are not so many, also after what is kept was given back to the driver.
        """
        size = rounded(size)
        with self._lock:
            pieces = self._free.get(size)
            if pieces:
                memory, views = pieces.pop()
                self.kept -= size
            else:
                memory, views = self._ask(size), {}
                self._pieces[id(memory)] = memory, views
            self.lent += size
        if local.notes is not None:
            local.notes.lent.append((driver.address(memory), size))
        return _Lease(self, memory, size, views)

    def _ask(self, size: int) -> Any:
        self.asked += 1
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
        """Call ``dropper.drop()``, as long as there is such an object, when memory is wanted back that it can spare."""
        with self._lock:
            self._droppers.add(dropper)

    def take_back(self, memory: Any, size: int, views: dict) -> None:
        with self._lock:
            self._free.setdefault(size, []).append((memory, views))
            self.lent -= size
            self.kept += size

    def clear(self) -> int:
        """Give what is kept back to the driver; how many bytes that were."""
        with self._lock:
            for dropper in list(self._droppers):
                dropper.drop()
            if self.kept:
                driver.synchronize(self.number)  # kernels that have not run yet may use it
            for pieces in self._free.values():
                for memory, _ in pieces:
                    del self._pieces[id(memory)]
            self._free, freed, self.kept = {}, self.kept, 0
        return freed


class _Lease:
    """A piece of device memory, lent once; returns when nothing refers to it.

    Device arrays on parts of it stay with it (`views`): making one takes longer than starting a kernel.
    """

    __slots__ = ("memory", "pool", "size", "views")

    def __init__(self, pool: DevicePool, memory: Any, size: int, views: dict) -> None:
        self.pool = pool
        self.memory = memory
        self.size = size
        self.views = views

    def __del__(self) -> None:
        self.pool.take_back(self.memory, self.size, self.views)


#: Device arrays on parts of one piece of memory that are kept at most.
_VIEWS = 64


@cache
def pools(number: int) -> DevicePool:
    """The pool of a device."""
    return DevicePool(number)


emptying["gpu"] = lambda number: pools(number).clear()


class DeviceBuffer:
    """A flat run of elements in device memory.

    Has what the rest of the library uses of flat NumPy arrays: ``size``, ``dtype``, contiguous slices that share
    memory, ``fill``, ``copy``, assignment from buffers and host arrays. What needs the numbers (``reshape``, an index,
    ``np.asarray``) gets them in a read-only host copy.
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
        """The device array that kernels get; of one element if there is none."""
        if self._array is None:
            views, key = self.lease.views, (self.start, self.size, self.dtype)
            found = views.get(key)
            if found is None:
                found = driver.view(self.lease.memory, self.start, max(self.size, 1), self.dtype)
                if len(views) >= _VIEWS:
                    views.clear()
                views[key] = found
            self._array = found
        return self._array

    @property
    def address(self) -> int:
        return place(self.array.words)[0]

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
        """A host copy, read-only: what is written into it would be lost."""
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
