"""Ahead-of-time compilation: ``python -m nbgrad warmup`` runs operators as programs do, so that kernels are stored.

It runs the samples of the registry, forward and backward, and calls that the samples do not cover: differentiating by
one operand only, accumulating into existing cotangents, broadcasting, and scalars as operands.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import combinations
from multiprocessing import get_context
from typing import NamedTuple, TextIO

from . import autograd
from .arrays.ndarray import NDArray
from .backends.numba import code_store
from .core.dtypes import as_dtype
from .core.registry import operators
from .errors import AttrError
from .kernels.creation import array
from .operators.elementwise import Elementwise
from .operators.entry import Entry, lookup
from .operators.samples import Input, Sample

__all__ = ["Outcome", "warmup"]

#: Shapes of two operands, besides equal ones: a row, a column, one element; each also with operands exchanged.
_SHAPES = (((3, 4), (4,)), ((3, 4), (3, 1)), ((3, 4), (1,)))
#: Scalars as operands; operators have special formulas for some of them.
_NUMBERS = (2.5, 2, 3, 0.5, -1)


class Outcome(NamedTuple):
    """The numbers of kernels that were compiled and that were ready, the seconds, and the failures."""

    compiled: int
    ready: int
    seconds: float
    failures: tuple[str, ...]


def warmup(
    names: Sequence[str] = (), dtypes: Sequence[str] = ("float32", "float64"), jobs: int = 0, order: int = 1
) -> Outcome:
    """Compile the kernels of operators into the cache, in parallel processes.

    Parameters
    ----------
    names : sequence of str
        Operators, by name or alias; default: all.
    dtypes : sequence of str
    jobs : int
        Processes; 0 means one per processor.
    order : int
        The highest order of derivatives.

    Returns
    -------
    Outcome

    Raises
    ------
    AttrError
        If a name is unknown, or a number is too small.
    DTypeError
        If there is no such dtype.
    """
    dtypes = [as_dtype(dtype).name for dtype in dtypes]
    if jobs < 0 or order < 1:
        raise AttrError(f"warmup: jobs is at least 1 (0: one per processor), and order too; got {jobs=}, {order=}")
    entries = list(dict.fromkeys(map(_found, names))) if names else list(operators.values())
    start = time.perf_counter()
    jobs = min(jobs or _processors(), len(entries))
    kernels: dict[str, str] = {}
    failures: list[str] = []
    show = _progress(len(entries), sys.stderr)
    # Spawned, not forked: the calling process may have threads.
    with ProcessPoolExecutor(jobs, get_context("spawn")) as processes:
        running = [processes.submit(_run, entry.name, dtypes, order) for entry in entries]
        for done, task in enumerate(as_completed(running), 1):
            history, failed = task.result()
            kernels |= {key: how for key, how in history.items() if kernels.get(key) != "compiled"}
            failures += failed
            show(done, sum(how == "compiled" for how in kernels.values()))
    compiled = sum(how == "compiled" for how in kernels.values())
    return Outcome(compiled, len(kernels) - compiled, time.perf_counter() - start, tuple(failures))


def _found(name: str) -> Entry:
    try:
        return lookup(name)
    except KeyError:
        raise AttrError(f"warmup: no operator is called {name!r}; docs/operators.md lists them") from None


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _progress(total: int, stream: TextIO) -> Callable[[int, int], None]:
    """A progress bar that is redrawn in one line of a terminal; nothing elsewhere."""
    start = time.perf_counter()

    def show(done: int, compiled: int) -> None:
        bar = "#" * (30 * done // total)
        took = time.perf_counter() - start
        stream.write(f"\r[{bar:30}] {done}/{total} operators, {compiled} kernels compiled, {took:.0f} s")
        stream.write("\n" if done == total else "")
        stream.flush()

    return show if stream.isatty() else lambda done, compiled: None


# In the processes.


def _run(name: str, dtypes: Sequence[str], order: int) -> tuple[dict[str, str], list[str]]:
    """Run all calls of one operator; returns the kernels that are new in this process, and failures."""
    before = set(code_store.history)
    failures = []
    for dtype in dtypes:
        for call in _call_variants(operators[name], dtype):
            try:
                _differentiate(*call, order)
            except Exception as err:  # a failure does not stop other operators
                failures.append(f"{name} on {dtype}: {type(err).__name__}: {err}")
    return {key: how for key, how in code_store.history.items() if key not in before}, list(dict.fromkeys(failures))


#: A function of operands, the operands, the indices of those to differentiate by, and whether to vary the call.
_CallVariant = tuple[Callable, list[NDArray], list[int], bool]


def _call_variants(entry: Entry, dtype: str) -> Iterator[_CallVariant]:
    floats = as_dtype(dtype).is_float
    for sample in entry.samples:
        if floats or sample.ints:
            yield *_as_sampled(entry, sample, dtype, sample.inputs), True
    rule = entry.rule
    if isinstance(rule, Elementwise) and len(rule.operands) == 2 and (floats or entry.samples[0].ints):
        sample = entry.samples[0]
        first, second = sample.inputs
        for shapes in _SHAPES:
            for pair in (shapes, shapes[::-1]):
                inputs = [_shaped(first, pair[0]), _shaped(second, pair[1])]
                yield *_as_sampled(entry, sample, dtype, inputs), False
        x = array(first.draw(0, dtype), dtype=dtype)
        marks = [0] if entry.differentiable and floats else []
        yield lambda a: entry.call(a, a), [x], marks, False
        for number in _NUMBERS:
            yield lambda a, n=number: entry.call(a, n), [x], marks, False
            yield lambda a, n=number: entry.call(n, a), [x], marks, False


def _shaped(given: Input, shape: tuple[int, ...]) -> Input:
    return Input(shape, given.low, given.high, dtype=given.dtype, grad=given.grad)


def _as_sampled(entry: Entry, sample: Sample, dtype: str, inputs: Iterable[Input]):
    drawn = [given.draw(index, dtype) for index, given in enumerate(inputs)]

    def call(*arrays):
        with autograd.train_mode() if sample.training else autograd.predict_mode():
            return entry.call(*arrays, **sample.attrs)

    differentiable = entry.differentiable and sample.order and not sample.changes and as_dtype(dtype).is_float
    marks = [k for k, given in enumerate(sample.inputs) if given.grad] if differentiable else []
    return call, [array(v, dtype=v.dtype) for v in drawn], marks


def _differentiate(call: Callable, arrays: list[NDArray], marks: list[int], several: bool, order: int) -> None:
    """Call and differentiate by all marked operands; if `several`, also by each alone, and with existing cotangents."""
    call(*arrays)
    for count in ({1, len(marks)} if several else {len(marks)}) if marks else ():
        for chosen in combinations(marks, count):
            given = [x.detach() for x in arrays]
            xs = [given[k] for k in chosen]
            for x in xs:
                x.attach_grad()

            def results(given=given):
                return _floats(call(*given))

            _backward(results)
            if several:
                for others in {(x,) for x in xs} | {tuple(xs)}:  # heads have a cotangent before the operator
                    _backward(results, others)
                _backward(lambda: [a + b for a, b in zip(results(), results())])
            if order > 1:
                _higher(results, xs, order)


def _backward(function: Callable[[], list[NDArray]], others: Sequence[NDArray] = ()) -> None:
    with autograd.record():
        heads = function()
    if heads:
        autograd.backward([*heads, *others])


def _higher(results: Callable[[], list[NDArray]], xs: list[NDArray], order: int) -> None:
    with autograd.record():
        level = results()
        for _ in range(order - 1):
            level = autograd.grad([*level, *xs], xs, create_graph=True)
    autograd.backward(level)


def _floats(result) -> list[NDArray]:
    """The results that can be differentiated."""
    listed = result if isinstance(result, list | tuple) else [result]
    return [y for y in listed if y._kind.dtype.is_float and y._node is not None]
