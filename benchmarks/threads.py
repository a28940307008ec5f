"""Compiled gradients on one thread and on all, in one run.

    OPENBLAS_NUM_THREADS=1 python benchmarks/threads.py [name ...] [--seconds 2] [--json FILE]

Each row: the time of value and gradient by ``nb.jit`` on one thread in milliseconds, and which part of it they take on
as many threads as there are usable cores. They run in turn; the shortest times count, by the clock. What takes
less than about half a millisecond is not split.
"""

import math
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "asv_bench" / "benchmarks"))

import numpy as np
from libraries import with_nbgrad_jit
from rows import print_rows
from workloads import WORKLOADS

import nbgrad as nb
from nbgrad import nd


def jacobi() -> Callable[[], object]:
    """Iterations of a Poisson equation, by whole slices."""

    def residual(u, f):
        def step(_, u):
            inner = (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - f[1:-1, 1:-1]) / 4
            return [], nd.pad(inner, "constant", (1, 1, 1, 1))

        return nd.sum(nd.contrib.foreach(step, nd.zeros(50), u)[1] ** 2)

    rng = np.random.default_rng(0)
    u, f = rng.normal(size=(2, 700, 700))
    return partial(nb.jit(nb.value_and_grad(residual, argnums=(0, 1))), u, f)


def workload(name: str) -> Callable[[], object]:
    found = next(w for w in WORKLOADS if w.name.startswith(name))
    return with_nbgrad_jit()(found, found.arrays(np.random.default_rng(0)))


def measure(build: Callable[[], Callable[[], object]], limit: float) -> dict[str, float]:
    """The shortest times."""
    call = build()
    counts = {"one thread": 1, f"{CORES} threads": CORES}
    times = dict.fromkeys(counts, math.inf)
    call()
    stop, rounds = perf_counter() + limit, 0
    while perf_counter() < stop or rounds < 7:
        for kind, threads in counts.items():
            nb.set_num_threads(threads)
            for _ in range(3):  # the first ones find other memory in the caches
                start = perf_counter()
                call()
                times[kind] = min(times[kind], perf_counter() - start)
        rounds += 1
    return times


def line(times: dict[str, float]) -> str:
    first, several = times.values()
    return f"{1e3 * first:8.2f}{several / first:8.2f}"


CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
CASES = {
    "operators": partial(workload, "5 operators"),
    "chain": partial(workload, "chain"),
    "black-scholes": partial(workload, "Black-Scholes"),
    "layer-norm": partial(workload, "layer norm"),
    "mixture": partial(workload, "mixture"),
    "lenet": partial(workload, "LeNet"),
    "rosenbrock": partial(workload, "Rosenbrock 1e6"),
    "lennard-jones": partial(workload, "Lennard-Jones"),
    "reprojection": partial(workload, "reprojection"),
    "softmax-regression": partial(workload, "softmax"),
    "jacobi": jacobi,
}

if __name__ == "__main__":
    print_rows(__doc__, {name: partial(measure, build) for name, build in CASES.items()}, line, seconds=2.0)
