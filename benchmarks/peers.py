"""nbgrad beside other libraries with gradients, on one thread: whichever of torch, autograd and jax this Python has.

    python benchmarks/peers.py [--json] [--seconds 1]

All of them run the same workload in turn, round by round, so that all see the same machine; medians count. In
parentheses is nbgrad's time as a fraction of the library's: below 1, nbgrad is faster.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from types import SimpleNamespace

# Read when the libraries are imported.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
if hasattr(os, "sched_setaffinity"):  # not every library keeps to one thread otherwise
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "asv_bench" / "benchmarks"))

import numpy as np
from tiny import OPERATORS, chain, operands

RNG = np.random.default_rng(0)


def tiny(xp, a, b):
    return chain(a, b, xp.tanh)


def elementwise(xp, a, b):
    return (a * b + a) * b - a / b


def matmul(xp, a, b):
    return xp.dot(a, b)


def perceptron(xp, x, w, v):
    y = xp.dot(xp.tanh(xp.dot(x, w)), v)
    return xp.sum(y * y)


#: Name -> (function of a library and arrays, the arrays, number of operators or None).
WORKLOADS: dict[str, tuple[Callable, tuple[np.ndarray, ...], int | None]] = {
    "20 operators on 10 elements": (tiny, operands(), OPERATORS),
    "5 operators on 1e6 elements": (elementwise, tuple(RNG.uniform(0.5, 1.5, (2, 1_000_000))), None),
    "matrix product 512": (matmul, tuple(RNG.standard_normal((2, 512, 512))), None),
    "perceptron 64x32, 64, 10": (
        perceptron,
        (RNG.standard_normal((64, 32)), RNG.standard_normal((32, 64)) / 8, RNG.standard_normal((64, 10)) / 8),
        None,
    ),
}

# A library: given a workload's function and arrays, what is timed. It runs the function, gets the gradients of all
# arrays for a head gradient of ones, and returns them.


def with_nbgrad(function: Callable, arrays: Sequence[np.ndarray]) -> Callable:
    from nbgrad import autograd, nd

    xs = [nd.array(a) for a in arrays]
    for x in xs:
        x.attach_grad()

    def run():
        with autograd.record():
            y = function(nd, *xs)
        y.backward()
        return [x.grad for x in xs]

    return run


def with_torch(function: Callable, arrays: Sequence[np.ndarray]) -> Callable:
    import torch

    torch.set_num_threads(1)
    xp = SimpleNamespace(tanh=torch.tanh, dot=torch.matmul, sum=torch.sum)
    xs = [torch.tensor(a, requires_grad=True) for a in arrays]
    ones = torch.ones_like(function(xp, *xs))

    def run():
        return torch.autograd.grad(function(xp, *xs), xs, ones)

    return run


def with_autograd(function: Callable, arrays: Sequence[np.ndarray]) -> Callable:
    import autograd.numpy as anp
    from autograd import make_vjp

    ones = np.ones_like(function(anp, *arrays))
    record = make_vjp(lambda xs: function(anp, *xs))

    def run():
        pull, _ = record(tuple(arrays))
        return pull(ones)

    return run


def with_jax(function: Callable, arrays: Sequence[np.ndarray], compiled: bool = False) -> Callable:
    import jax
    import jax.numpy as jnp

    xs = [jnp.asarray(a) for a in arrays]
    ones = jnp.ones_like(function(jnp, *xs))

    def gradients(*xs):
        return jax.vjp(lambda *xs: function(jnp, *xs), *xs)[1](ones)

    call = jax.jit(gradients) if compiled else gradients
    return lambda: jax.block_until_ready(call(*xs))


LIBRARIES: dict[str, tuple[str, Callable]] = {
    "nbgrad": ("nbgrad", with_nbgrad),
    "torch": ("torch", with_torch),
    "autograd": ("autograd", with_autograd),
    "jax": ("jax", with_jax),
    "jax.jit": ("jax", partial(with_jax, compiled=True)),
}


def measure(runs: dict[str, Callable], seconds: float) -> dict[str, float]:
    """Median seconds a call, the libraries in turn."""
    expected = [np.asarray(g) for g in runs["nbgrad"]()]
    batch = {}
    for name, run in runs.items():
        for got, want in zip(run(), expected, strict=True):
            np.testing.assert_allclose(np.asarray(got), want, 1e-9, 1e-12, err_msg=name)
        start = perf_counter()
        run()
        batch[name] = max(1, int(0.002 / (perf_counter() - start)))  # what is short is timed several times over
    times: dict[str, list[float]] = {name: [] for name in runs}
    stop = perf_counter() + seconds * len(runs)
    while perf_counter() < stop or len(times["nbgrad"]) < 5:
        for name, run in runs.items():
            start = perf_counter()
            for _ in range(batch[name]):
                run()
            times[name].append((perf_counter() - start) / batch[name])
    return {name: median(found) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print seconds as JSON instead of a table")
    parser.add_argument("--seconds", type=float, default=1.0, help="per workload and library")
    given = parser.parse_args()
    present = {n: make for n, (module, make) in LIBRARIES.items() if importlib.util.find_spec(module)}
    found = {}
    for name, (function, arrays, _) in WORKLOADS.items():
        found[name] = measure({n: make(function, arrays) for n, make in present.items()}, given.seconds)
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'microseconds (nbgrad / it)':30}" + "".join(f"{n:>20}" for n in present))
    for name, times in found.items():
        rows = [(name, 1)]
        if operators := WORKLOADS[name][2]:
            rows.append(("    per operator", operators))
        for label, share in rows:
            cells = [f"{1e6 * t / share:.2f} ({times['nbgrad'] / t:.2f})" for t in times.values()]
            print(f"{label:30}" + "".join(f"{c:>20}" for c in cells))


if __name__ == "__main__":
    main()
