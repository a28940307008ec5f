"""Many evaluations of one function: on several processes, in order, and again where a worker was lost."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from typing import Any

from ..backends.threads import set_num_threads
from ..errors import AttrError, DTypeError, NBGradError

__all__ = ["ensemble"]


def ensemble(
    function: Callable,
    points: Iterable[Any],
    executor: Executor | Callable[[], Executor] | None = None,
    *,
    retries: int = 2,
    progress: Callable[[int, int], Any] | None = None,
) -> list[Any]:
    """The values of a function at many points: fits from many starts, sweeps over parameters, samples.

    Parameters
    ----------
    function : callable
        A function of a module, or a transform of one, such as ``nb.jit(nb.value_and_grad(f))`` or
        ``nb.adjoint(loop).value_and_grad``: other processes must be able to import it.
    points : iterable
        A tuple holds the arguments of one call; anything else is the only argument.
    executor : Executor, or callable that returns one, optional
        Of ``concurrent.futures``, ``mpi4py.futures``, loky (``get_reusable_executor()``) or Dask
        (``client.get_executor()``). By default processes are started, one for each core, with one thread each, and
        ended with the call; a script then guards what it does by ``if __name__ == "__main__":``, as for all pools.
    retries : int
        How often what was lost with a worker that died is computed again. An executor whose worker died takes no more
        work: give a callable, which is called for another one.
    progress : callable, optional
        Called as ``progress(done, total)`` after each point.

    Returns
    -------
    list
        The results, in the order of the points.

    Raises
    ------
    DTypeError, AttrError
        If the function cannot be called, or the executor has no ``submit``.
    NBGradError
        If workers died more than `retries` times.
    Exception
        What the function raises, with a note of the point; what has not begun is cancelled.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import nbgrad as nb
    >>> import nbgrad.np as np
    >>> def loss(x, scale):
    ...     return np.sum(np.sin(scale * x))
    >>> with ThreadPoolExecutor(2) as pool:
    ...     nb.ensemble(nb.grad(loss), [(0.0, 1.0), (0.0, 2.0)], pool)
    [1.0, 2.0]
    """
    if not callable(function):
        raise DTypeError(f"ensemble: a function is expected, got {function!r}")
    every = list(points)
    results: list[Any] = [None] * len(every)
    left = dict.fromkeys(range(len(every)))
    renew = _renewing(executor)
    lost = 0
    while left:
        pool = renew()
        try:
            broken = _evaluated(function, every, pool, left, results, progress)
        finally:
            if pool is not executor:
                pool.shutdown(wait=False, cancel_futures=True)
        if broken is None:
            continue
        lost += 1
        if lost > retries or pool is executor:
            again = "" if pool is not executor else "; give a callable that returns executors, and they are tried again"
            raise NBGradError(
                f"ensemble: a worker died, {len(left)} of {len(every)} points are left, the first is number "
                f"{next(iter(left))}{again}"
            ) from broken
    return results


def _renewing(executor: Any) -> Callable[[], Any]:
    """What gives executors: always the same, or new ones."""
    if executor is None:
        return _own_processes
    if hasattr(executor, "submit"):
        return lambda: executor
    if not callable(executor):
        raise AttrError(
            f"ensemble: an executor with a method submit, or what returns one, is expected, got {executor!r}"
        )
    return executor


def _own_processes() -> ProcessPoolExecutor:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(cores, mp_context=context, initializer=set_num_threads, initargs=(1,))


def _evaluated(
    function: Callable, every: list, pool: Any, left: dict, results: list, progress: Callable | None
) -> BrokenExecutor | None:
    """Fill in results, and take their points out of those that are left; what broke the executor, if something did."""
    futures: dict[Future, int] = {}
    broken = None
    try:
        for k in left:
            futures[pool.submit(function, *(every[k] if isinstance(every[k], tuple) else (every[k],)))] = k
    except BrokenExecutor as err:
        broken = err
    try:
        for future in as_completed(futures):
            k = futures[future]
            try:
                results[k] = future.result()
            except BrokenExecutor as err:
                broken = err
                continue
            except Exception as err:
                err.add_note(f"ensemble: at point {k}")
                raise
            del left[k]
            if progress is not None:
                progress(len(every) - len(left), len(every))
    finally:
        for future in futures:
            future.cancel()
    return broken
