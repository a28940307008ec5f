"""Numba's simulator, made quicker, and right where threads ask for shared memory at the same time.

Numba starts a Python thread per thread of a block, asks again and again whether all of them wait, and finds the memory
that they share by a look through the stack, without a lock: two of them may get different memory. Here, threads that
do not wait for one another run one by one, the last one first; others run in Python's threads, which are kept, and meet
at a barrier.
"""

import importlib
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

__all__ = ["install"]

_local = threading.local()
_lock = threading.Lock()
_workers = ThreadPoolExecutor(64)
#: Seconds that a thread waits for the others of its block; it is wrong if one of them does not come.
_PATIENCE = 60


class _Thread:
    """A thread of a block, as kernels see it."""

    def __init__(self, block, place, barrier) -> None:
        self.blockIdx = block
        self.threadIdx = place
        self.barrier = barrier


class _Block:
    """Runs the threads of a block; in the place of Numba's manager."""

    def __init__(self, function, grid_dim, block_dim, debug) -> None:
        self.function = function
        self.places = list(np.ndindex(*block_dim))[::-1]

    def run(self, grid_point, *args) -> None:
        dim3 = importlib.import_module("numba.cuda.simulator.kernelapi").Dim3
        block = dim3(*grid_point)
        together = "syncthreads" in self.function.__code__.co_names
        barrier = threading.Barrier(len(self.places)) if together else None

        def call(place) -> None:
            _local.thread = _Thread(block, dim3(*place), barrier)
            try:
                self.function(*args)
            except BaseException:
                if together:
                    barrier.abort()
                raise

        if not together:
            for place in self.places:
                call(place)
            return
        begun = [_workers.submit(call, place) for place in self.places]
        errors = [error for error in (b.exception() for b in begun) if error is not None]
        if errors:
            raise next((e for e in errors if not isinstance(e, threading.BrokenBarrierError)), errors[0])


def _shared(self, shape, dtype):
    frame = sys._getframe(1)
    place = frame.f_code.co_filename, frame.f_lineno
    with _lock:
        if place not in self._allocations:
            self._allocations[place] = np.empty(shape, dtype)
        return self._allocations[place]


def install() -> None:
    """Put it in the place of Numba's, for all kernels of this process."""
    api = importlib.import_module("numba.cuda.simulator.kernelapi")
    importlib.import_module("numba.cuda.simulator.kernel").BlockManager = _Block
    api.FakeCUDAShared.array = _shared
    api.FakeCUDAModule.threadIdx = property(lambda self: _local.thread.threadIdx)
    api.FakeCUDAModule.blockIdx = property(lambda self: _local.thread.blockIdx)
    api.FakeCUDAModule.syncthreads = lambda self: _local.thread.barrier.wait(_PATIENCE)
    api.vector_types = {}  # nobody uses them, and every launch makes them anew
