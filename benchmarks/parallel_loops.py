"""Gradients of functions with loops over ``prange``, on several threads, in one run.

    python benchmarks/parallel_loops.py [name ...] [--seconds 3] [--json FILE]

Each row: the time of function and gradient with ``range`` in milliseconds, and how many times faster they are with
``prange``, on one thread and on as many as Numba has. They run in turn; the shortest times count, by the clock.
"""

import math
from functools import partial
from time import perf_counter
from types import FunctionType

import numba
import numpy as np
from numba import prange
from rows import print_rows

import nbgrad as nb


def heat(u, alpha, steps):
    """A field in two dimensions; neighbours are gathered."""
    new = u.copy()
    for _ in range(steps):
        for i in prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                flow = u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1] - 4.0 * u[i, j]
                new[i, j] = u[i, j] + alpha[i, j] * flow
        for i in prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = new[i, j]
    return np.sum(u)


def layer(x, w, b):
    """Weights that all iterations read."""
    total = 0.0
    for i in prange(x.shape[0]):
        for j in range(w.shape[0]):
            s = b[j]
            for k in range(w.shape[1]):
                s += w[j, k] * x[i, k]
            total += math.tanh(s) ** 2
    return total


def wave(u, c, steps):
    """A number that all iterations read, and short loops."""
    v = u.copy()
    for _ in range(steps):
        for i in prange(1, u.size - 1):
            v[i] = u[i] + c * (u[i - 1] - 2.0 * u[i] + u[i + 1]) * u[i]
        for i in prange(1, u.size - 1):
            u[i] = v[i] + c * (v[i - 1] - 2.0 * v[i] + v[i + 1]) * v[i]
    return np.sum(u * v)


def orbits(p, starts, steps):
    """Parameters at constant places; each iteration is a loop of its own."""
    total = 0.0
    for i in prange(starts.size):
        x, v = starts[i], 0.0
        for _ in range(steps):
            v -= p[2] * (p[0] * math.sin(x) + p[1] * v)
            x += p[2] * v
        total += x * x
    return total / starts.size


def arguments() -> dict:
    rng = np.random.default_rng(1)
    return {
        heat: (rng.normal(size=(300, 300)), 0.1 * rng.random((300, 300)), 20),
        layer: (rng.normal(size=(2000, 64)), 0.1 * rng.normal(size=(64, 64)), rng.normal(size=64)),
        wave: (rng.normal(size=50_000), 0.1, 20),
        orbits: (np.array([1.0, 0.1, 0.01]), rng.normal(size=500), 400),
    }


def serial(f: FunctionType) -> FunctionType:
    return FunctionType(f.__code__, {**f.__globals__, "prange": range}, f.__name__)


def measure(f: FunctionType, args: tuple, limit: float) -> dict[str, float]:
    """The shortest times."""
    most = numba.config.NUMBA_NUM_THREADS
    plain, threaded = nb.adjoint(serial(f)).value_and_grad, nb.adjoint(f).value_and_grad
    calls = {"range": (plain, 1), "one thread": (threaded, 1), f"{most} threads": (threaded, most)}
    times = dict.fromkeys(calls, math.inf)
    stop, rounds = perf_counter() + limit, 0
    while perf_counter() < stop or rounds < 7:
        for kind, (call, threads) in calls.items():
            numba.set_num_threads(threads)
            given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
            start = perf_counter()
            call(*given)
            times[kind] = min(times[kind], perf_counter() - start)
        rounds += 1
    return times


def line(times: dict[str, float]) -> str:
    first, *rest = times.values()
    return f"{1e3 * first:8.2f}" + "".join(f"{first / t:8.2f}" for t in rest)


if __name__ == "__main__":
    measures = {f.__name__: partial(measure, f, args) for f, args in arguments().items()}
    print_rows(__doc__, measures, line, seconds=3.0)
