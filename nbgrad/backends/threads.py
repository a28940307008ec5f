"""Large loops on several threads, without any threading layer of Numba's.

Kernels release the interpreter's lock. So a loop is cut into ranges, and Python threads run the same compiled entry
point on slices of the same buffers. The thread that calls takes ranges too, and never waits for a helper that has not
begun: with no helper free it simply does all the work. So nothing can deadlock, whoever calls from where.

Where a loop is cut must not be seen in its result. Loops whose elements are independent may be cut anywhere (at
multiples of :data:`ALIGN`, so that the same elements are in the vector loop and in its scalar rest); reductions work in
blocks that depend on sizes alone, and then those are the elements.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

import numpy as np

from ..core import config, shapes
from ..core.fork_safety import among_helpers, lock
from ..errors import AttrError

__all__ = ["ALIGN", "broadcast", "each", "flat", "get_num_threads", "ready", "set_num_threads", "slices"]

#: Elements that cheap loops take some hundred microseconds for, ten times a thread's waking: the least of a range.
GRAIN = 1 << 18
#: Flat loops are cut at multiples of this.
ALIGN = 1024
#: Ranges per thread: the first to finish takes another, so a thread that is held up holds up nobody else.
_SHARES = 4

_limit = config.THREADS


def get_num_threads() -> int:
    """How many threads work on one large operation at most.

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

    Results do not depend on it, bit for bit. The default is the number of usable cores, or ``OMP_NUM_THREADS`` or
    ``NUMBA_NUM_THREADS`` if less. Products of matrices are left to BLAS, which has threads of its own.

    Parameters
    ----------
    n : int
        At least 1, which means that no other thread is ever used.

    Raises
    ------
    AttrError
        If `n` is not such a number.
    """
    global _limit
    if isinstance(n, bool) or not hasattr(n, "__index__") or n.__index__() < 1:
        raise AttrError(f"set_num_threads: n must be an integer of at least 1, got {n!r}")
    _limit = n.__index__()


class _Thread(threading.local):
    helps = False  # this thread is one of the pool's


_this = _Thread()


class _Job:
    """Ranges to be worked on by whoever comes, until the one who made it has seen the last of them end."""

    __slots__ = ("call", "changed", "error", "helpers", "open", "ranges")

    def __init__(self, call: Callable[[int, int], object], ranges: Sequence[tuple[int, int]]) -> None:
        self.call: Callable | None = call
        self.ranges = deque(ranges)
        self.changed = among_helpers()
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
        """What has not begun is dropped."""
        self.ranges.clear()
        self.error = self.error or error

    def help(self) -> None:
        """Called by the pool's threads."""
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
        """Called by the one who made it: returns, or raises, when nobody works on it any more."""
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
        self.call = None  # the queue may hold this for a while, which must not keep buffers
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame


class _Pool:
    """Daemon threads, started when first wanted, that help with the jobs in a queue."""

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
                except RuntimeError:  # no more threads, or the interpreter is going: fewer will do
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
    """A forked child has none of the threads, and locks as they happened to be."""
    global _pool
    _pool = _Pool()
    _this.helps = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def ready(work: int) -> bool:
    """Whether so much work, in elements of a cheap loop, will be shared if it can be cut."""
    return work >= 2 * GRAIN and _limit > 1 and not _this.helps


def each(call: Callable[[int, int], object], count: int, weight: int = 1, align: int = 1) -> None:
    """``call(0, count)``, or the same in several ranges ``call(start, stop)`` at once.

    Parameters
    ----------
    call : callable
        Independent for different ranges.
    count : int
    weight : int
        The work that one of them is, in elements of a cheap loop.
    align : int
        Ranges start at multiples of this.
    """
    units = -(-count // align)
    if not ready(count * weight) or units < 2:
        call(0, count)
        return
    size = align * max(-(-GRAIN // (weight * align)), -(-units // (_SHARES * _limit)))
    ranges = [(start, min(start + size, count)) for start in range(0, count, size)]
    if len(ranges) == 1:
        call(0, count)
        return
    job = _Job(call, ranges)
    _pool.offer(job, min(_limit, len(ranges)) - 1)
    job.run()


def flat(entry: Callable, buffers: Sequence, scalars: Sequence = (), weight: int = 1) -> None:
    """``entry(*buffers, *scalars)`` of an elementwise kernel, whose buffers are as long as the last or one element."""
    n = buffers[-1].size
    if ready(n * weight) and buffers[-1].__class__ is np.ndarray:
        steps = [x.size // n for x in buffers]
        each(lambda start, stop: entry(*slices(buffers, steps, start, stop), *scalars), n, weight, ALIGN)
    else:
        entry(*buffers, *scalars)


def broadcast(
    entry: Callable,
    inputs: Sequence,
    outputs: Sequence,
    scalars: Sequence,
    walk: shapes.Broadcast,
    weight: int = 1,
) -> None:
    """An elementwise kernel whose `inputs` walk as `walk` says: cut along the first of the collapsed axes."""
    rank, arguments = walk.rank, walk.arguments
    if not ready(walk.size * weight) or outputs[0].__class__ is not np.ndarray:
        entry(*inputs, *outputs, *scalars, *arguments)
        return
    # Elements per step of that axis: rank 1 is the flat loop, where an operand has all elements or one.
    strides = [int(moves) for moves in walk.moves] if rank == 1 else arguments[rank :: rank - 1]
    row = 1 if rank == 1 else walk.size // arguments[0]

    def call(start: int, stop: int) -> None:
        read = slices(inputs, strides, start, stop)
        written = slices(outputs, [row] * len(outputs), start, stop)
        entry(*read, *written, *scalars, *((stop - start, *arguments[1:]) if rank > 1 else ()))

    each(call, walk.size // row, row * weight, ALIGN if rank == 1 else 1)


def slices(buffers: Sequence, strides: Sequence[int], start: int, stop: int) -> list:
    """Of each buffer what rows `start` to `stop` are in; a stride is the elements of a row, or 0 for all rows alike."""
    return [x[start * n : stop * n] if n else x for x, n in zip(buffers, strides, strict=True)]
