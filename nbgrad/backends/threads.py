"""Thread pool: run large loops on several threads, without Numba's threading layers.

Kernels release the GIL, so a loop is split into ranges, and Python threads run the same compiled entry point on slices
of the same buffers. The calling thread takes ranges too and never waits for a helper that has not begun: if no helper
is free, it does all the work. So nothing can deadlock, whichever thread calls.

Results do not depend on the split. Loops with independent elements may be split anywhere (at multiples of
:data:`ALIGN`, so that the vector loop and its scalar remainder see the same elements); reductions work in blocks that
depend on sizes alone, and are split between blocks.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

import numpy as np

from ..core import config, shapes
from ..core.fork_safety import helper_condition, lock
from ..errors import AttrError

__all__ = [
    "ALIGN",
    "get_num_threads",
    "parallel_ranges",
    "row_slices",
    "run_broadcast",
    "run_flat",
    "set_num_threads",
    "worth_splitting",
]

#: The smallest range, in elements of a cheap loop: some hundred microseconds, ten times what waking a thread takes.
GRAIN = 1 << 18
#: Flat loops are split at multiples of this.
ALIGN = 1024
#: Ranges per thread: whoever finishes first takes another, so one slow thread does not delay the rest.
_RANGES_PER_THREAD = 4

_limit = config.THREADS


def get_num_threads() -> int:
    """The largest number of threads that work on one operation.

    Returns
    -------
    int

    Examples
    --------
    >>> import nbgrad as nb
    >>> before = nb.get_num_threads()
    >>> nb.set_num_threads(1)
    >>> nb.get_num_threads()
    1
    >>> nb.set_num_threads(before)
    """
    return _limit


def set_num_threads(n: int) -> None:
    """Let at most `n` threads work on one large operation, in this process from now on.

    Results are bitwise the same for any `n`. The default is the number of usable cores, or ``OMP_NUM_THREADS`` or
    ``NUMBA_NUM_THREADS`` if less. Matrix products are left to BLAS, which has threads of its own.

    Parameters
    ----------
    n : int
        At least 1, which means that only the calling thread works.

    Raises
    ------
    AttrError
        If `n` is not an integer of at least 1.
    """
    global _limit
    if isinstance(n, bool) or not hasattr(n, "__index__") or n.__index__() < 1:
        raise AttrError(f"set_num_threads: n must be an integer of at least 1, got {n!r}")
    _limit = n.__index__()


class _Thread(threading.local):
    helps = False  # this thread is one of the pool's


_this = _Thread()


class _Job:
    """The ranges of one loop, taken by the caller and by helpers; closed when the last range has ended."""

    __slots__ = ("call", "changed", "error", "helpers", "open", "ranges")

    def __init__(self, call: Callable[[int, int], object], ranges: Sequence[tuple[int, int]]) -> None:
        self.call: Callable | None = call
        self.ranges = deque(ranges)
        self.changed = helper_condition()
        self.open = True
        self.helpers = 0
        self.error: BaseException | None = None

    def work(self) -> None:
        call, ranges = self.call, self.ranges
        while True:
            try:
                start, stop = ranges.popleft()
            except IndexError:
                return
            call(start, stop)  # type: ignore[misc]

    def fail(self, error: BaseException) -> None:
        """Record an error and drop the ranges that have not begun."""
        self.ranges.clear()
        self.error = self.error or error

    def help(self) -> None:
        """Work on the ranges, in a thread of the pool."""
        with self.changed:
            if not self.open:
                return
            self.helpers += 1
        try:
            self.work()
        except BaseException as err:  # raised by `run`
            self.fail(err)
        with self.changed:
            self.helpers -= 1
            self.changed.notify()

    def run(self) -> None:
        """Work on the ranges, in the calling thread; returns or raises when no thread works on them any more."""
        while True:
            try:
                self.work()
                with self.changed:
                    self.open = False
                    while self.helpers:
                        self.changed.wait()
                break
            except BaseException as err:  # KeyboardInterrupt, also while waiting: helpers still use the buffers
                self.fail(err)
        self.call = None  # the queue may hold this job for a while, which must not keep buffers alive
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame


class _Pool:
    """Daemon threads, started on demand, that help with the jobs in a queue."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self.size = 0
        self.lock = lock("threads")

    def offer(self, job: _Job, helpers: int) -> None:
        if self.size < helpers:
            self._grow(helpers)
        if self.jobs.qsize() > 4 * self.size:  # helpers are late: most of these have ended
            self._forget_closed()
        for _ in range(min(helpers, self.size)):
            self.jobs.put(job)

    def _forget_closed(self) -> None:
        for _ in range(self.jobs.qsize()):
            try:
                job = self.jobs.get_nowait()
            except Empty:
                return
            if job.open:
                self.jobs.put(job)

    def _grow(self, size: int) -> None:
        with self.lock:
            while self.size < size:
                try:
                    threading.Thread(target=_serve, args=(self.jobs,), name="nbgrad", daemon=True).start()
                except RuntimeError:  # no more threads, or the interpreter is shutting down: fewer will do
                    return
                self.size += 1


def _serve(jobs: SimpleQueue[_Job]) -> None:
    _this.helps = True
    while True:
        job = jobs.get()
        job.help()
        del job


_pool = _Pool()


def _after_fork() -> None:
    """Start afresh in a forked child: it has none of the threads, and locks in an arbitrary state."""
    global _pool
    _pool = _Pool()
    _this.helps = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def worth_splitting(work: int) -> bool:
    """Whether a loop of this much work, in elements of a cheap loop, is split if it can be."""
    return work >= 2 * GRAIN and _limit > 1 and not _this.helps


def parallel_ranges(call: Callable[[int, int], object], count: int, weight: int = 1, align: int = 1) -> None:
    """Run ``call(0, count)``, or the same as concurrent ranges ``call(start, stop)``.

    Parameters
    ----------
    call : callable
        Independent for different ranges.
    count : int
    weight : int
        The work of one iteration, in elements of a cheap loop.
    align : int
        Ranges start at multiples of this.
    """
    units = -(-count // align)
    if not worth_splitting(count * weight) or units < 2:
        call(0, count)
        return
    size = align * max(-(-GRAIN // (weight * align)), -(-units // (_RANGES_PER_THREAD * _limit)))
    ranges = [(start, min(start + size, count)) for start in range(0, count, size)]
    if len(ranges) == 1:
        call(0, count)
        return
    job = _Job(call, ranges)
    _pool.offer(job, min(_limit, len(ranges)) - 1)
    job.run()


def run_flat(entry: Callable, buffers: Sequence, scalars: Sequence = (), weight: int = 1) -> None:
    """Run ``entry(*buffers, *scalars)`` of an elementwise kernel; buffers have the last one's length or one element."""
    n = buffers[-1].size
    if worth_splitting(n * weight) and buffers[-1].__class__ is np.ndarray:
        steps = [x.size // n for x in buffers]
        parallel_ranges(lambda start, stop: entry(*row_slices(buffers, steps, start, stop), *scalars), n, weight, ALIGN)
    else:
        entry(*buffers, *scalars)


def run_broadcast(
    entry: Callable,
    inputs: Sequence,
    outputs: Sequence,
    scalars: Sequence,
    walk: shapes.Broadcast,
    weight: int = 1,
) -> None:
    """Run an elementwise kernel whose `inputs` broadcast as in `walk`, split along the first collapsed axis."""
    rank, arguments = walk.rank, walk.arguments
    if not worth_splitting(walk.size * weight) or outputs[0].__class__ is not np.ndarray:
        entry(*inputs, *outputs, *scalars, *arguments)
        return
    # Elements per step of that axis. Rank 1 is the flat loop, where an operand has all elements or one.
    strides = [int(moves) for moves in walk.moves] if rank == 1 else arguments[rank :: rank - 1]
    row = 1 if rank == 1 else walk.size // arguments[0]

    def call(start: int, stop: int) -> None:
        read = row_slices(inputs, strides, start, stop)
        written = row_slices(outputs, [row] * len(outputs), start, stop)
        entry(*read, *written, *scalars, *((stop - start, *arguments[1:]) if rank > 1 else ()))

    parallel_ranges(call, walk.size // row, row * weight, ALIGN if rank == 1 else 1)


def row_slices(buffers: Sequence, strides: Sequence[int], start: int, stop: int) -> list:
    """Rows `start` to `stop` of each buffer; a stride is the elements of a row, or 0 if all rows share the buffer."""
    return [x[start * n : stop * n] if n else x for x, n in zip(buffers, strides, strict=True)]
