"""nbgrad on a GPU, eager and compiled, beside torch (also compiled, and as CUDA graphs), jax and cupy, where installed.

    python benchmarks/gpu.py [PATTERN ...] [--device 0] [--rounds 20] [--only LIBRARY ...] [--json FILE] [--tiny]

Each workload is compiled, compared with the same in float64 on the CPU, warmed up, and timed by the device's events:
medians of rounds. What the card can do is measured first: bytes per second of a copy, operations per second of a matrix
product. The table comes last: milliseconds per call, the fraction of that ceiling that the faster of nbgrad's two
reaches, and its time as a fraction of that of the fastest other library. `nbgrad.own` are products by nbgrad's kernel,
where `nbgrad` has cublasLt. Nobody uses TF32. The file has what was measured so far, after each workload. `--tiny` runs
small sizes once, in Numba's simulator too (``NUMBA_ENABLE_CUDASIM=1``), to see that everything works; its figures mean
nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "asv_bench" / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import libraries
import workloads

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.backends.cuda import cublas, driver, product

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the others need memory, too


class Task(NamedTuple):
    """``function(xp, *arrays)``; `wanted`: of which arrays gradients are asked for, too (then it gives one number).

    `rate`: it is a step of training, after which these arrays are less by so many gradients. `moved` and `operations`:
    bytes and operations at the least, where one of them is what bounds the time.
    """

    name: str
    function: Callable
    arrays: tuple[np.ndarray, ...]
    wanted: tuple[int, ...] | None = None
    rate: float | None = None
    moved: int = 0
    operations: int = 0
    tolerance: float = 1e-3


def tasks(tiny: bool) -> list[Task]:
    """The workloads, of the sizes that are of interest, or tiny ones."""
    rng = np.random.default_rng(0)
    n, side, matrix, batch = (40, 6, 5, 2) if tiny else (10**8, 4096, 4096, 256)

    def normal(*shape, dtype=np.float32):
        return rng.standard_normal(shape, dtype=np.float32).astype(dtype)

    a, b = np.abs(normal(n)) + 0.5, np.abs(normal(n)) + 0.5
    x, gain, bias = normal(side, side), normal(side), normal(side)
    labels = rng.integers(0, 10, batch)
    widths = (6, 5, 4, 3) if tiny else (784, 256, 128, 10)
    if tiny:
        labels = labels % 3
    layers = [p for i, o in pairwise(widths) for p in (normal(o, i) / math.sqrt(i), normal(o))]
    found = [
        Task("one small operator", lambda xp, a, b: a + b, (a[:1000], b[:1000])),  # what it takes to start one
        Task("add", lambda xp, a, b: a + b, (a, b), moved=12 * n),
        Task("chain of 20 operators", workloads.tiny, (a, b), moved=12 * n),
        Task("sum", lambda xp, a: xp.sum(a), (a,), moved=4 * n),
        Task("softmax", lambda xp, x: xp.softmax(x), (x,), moved=8 * x.size),
        Task("layer norm", lambda xp, *xs: xp.layer_norm(*xs), (x, gain, bias), moved=8 * x.size),
        Task("chain, gradient", workloads.long_chain, (a, b, a), (0, 1, 2), moved=24 * n),
        Task("layer norm, gradient", workloads.layer_norm, (x, x[::-1].copy(), gain, bias), (0, 2, 3)),
        Task("MLP, training step", workloads.mlp, (normal(batch, widths[0]), labels, *layers), tuple(range(2, 8)), 0.1),
    ]
    for dtype in (np.float32, np.float16):
        p, q = (normal(matrix, matrix, dtype=dtype) / matrix**0.5 for _ in range(2))
        name = f"matrix product {np.dtype(dtype).name}"
        found.append(Task(name, lambda xp, p, q: xp.dot(p, q), (p, q), operations=2 * matrix**3, tolerance=1e-2))
    p, q = (normal(matrix, matrix) / matrix**0.5 for _ in range(2))
    found.append(Task("p - 0.1 * p @ q", lambda xp, p, q: p - 0.1 * xp.dot(p, q), (p, q)))
    if not tiny:
        shapes = ((20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (500, 800), (500,), (10, 500), (10,))
        weights = [normal(*s) / math.sqrt(max(math.prod(s[1:]), 1)) for s in shapes]
        images = normal(batch, 1, 28, 28)
        arrays = (images, labels, *weights)
        found.append(Task("LeNet, training step", workloads.lenet, arrays, tuple(range(2, 10)), 0.1))
    return found


# Libraries: make(task) -> run, which gives the value and gradients, or what training leaves of the arrays;
# time(run, times) -> seconds per call; numpy(array); clear(), which gives memory back.


class Nbgrad:
    """Eager, or compiled."""

    def __init__(self, ctx: nb.Context, compiled: bool) -> None:
        self.ctx = ctx
        self.compiled = compiled
        self.xp = libraries.mxnet_names(nd)

    def make(self, task: Task) -> Callable:
        xs = [nd.array(v, ctx=self.ctx, dtype=v.dtype) for v in task.arrays]
        function = partial(task.function, self.xp)
        wanted, rate = task.wanted, task.rate
        if self.compiled and rate is not None:
            gradients = nb.value_and_grad(function, argnums=wanted)

            def step(*xs: Any) -> list:
                y, found = gradients(*xs)
                return [y, *(xs[k] - rate * g for k, g in zip(wanted, found, strict=True))]

            call = nb.jit(step)

            def train() -> list:
                found = call(*xs)
                for k, x in zip(wanted, found[1:], strict=True):
                    xs[k] = x
                return found

            return train
        if self.compiled:
            call = nb.jit(function if wanted is None else nb.value_and_grad(function, argnums=wanted))
            return lambda: listed(call(*xs))
        if wanted is None:
            return lambda: [function(*xs)]
        targets = [xs[k] for k in wanted]
        for x in targets:
            x.attach_grad()

        def run() -> list:
            with autograd.record():
                y = function(*xs)
            y.backward()
            if rate is None:
                return [y, *(x.grad for x in targets)]
            for x in targets:
                nd.sgd_update(x, x.grad, lr=rate, out=x)
            return [y, *targets]

        return run

    def clear(self) -> None:
        if self.ctx.device_type == "gpu":
            self.ctx.empty_cache()

    def time(self, run: Callable, times: int) -> float:
        if self.ctx.device_type == "cpu" or driver.simulated():
            return wall(run, times)
        stream = cuda.external_stream(driver.stream(self.ctx.device_id))
        begin, end = cuda.event(), cuda.event()
        begin.record(stream)
        for _ in range(times):
            run()
        end.record(stream)
        end.synchronize()
        return begin.elapsed_time(end) / times / 1e3

    def numpy(self, x: Any) -> np.ndarray:
        return x.asnumpy()


class Own(Nbgrad):
    """Products by nbgrad's own kernel."""

    def make(self, task: Task) -> Callable:
        if not task.operations or cublas.library(self.ctx.device_id) is None:
            raise NotImplementedError("nothing else than nbgrad has")
        call = super().make(task)

        def run() -> list:
            large, product.use_library = product.use_library, lambda *_: False
            try:
                return call()
            finally:
                product.use_library = large

        return run


class Torch:
    """Eager, compiled, or as a CUDA graph."""

    def __init__(self, ctx: nb.Context, compiled: bool = False, graph: bool = False) -> None:
        import torch

        if not torch.cuda.is_available():
            raise ImportError("torch sees no GPU")
        torch.cuda.set_device(ctx.device_id)
        torch.backends.cudnn.allow_tf32 = False  # as in its matrix products
        self.torch = torch
        self.compiled = compiled
        self.graph = graph
        self.device = torch.device("cuda", ctx.device_id)

    def make(self, task: Task) -> Callable:
        torch, xp = self.torch, libraries.torch_names()
        xs = [torch.tensor(v, device=self.device) for v in task.arrays]
        function = partial(task.function, xp)
        if self.compiled:
            torch.compiler.reset()
            function = torch.compile(function)
        if task.wanted is None:
            return self.captured(lambda: [function(*xs)], []) if self.graph else lambda: [function(*xs)]
        targets = [xs[k].requires_grad_() for k in task.wanted]

        def run() -> list:
            y = function(*xs)
            found = torch.autograd.grad(y, targets)
            if task.rate is None:
                return [y, *found]
            with torch.no_grad():
                for x, g in zip(targets, found, strict=True):
                    x.sub_(g, alpha=task.rate)
            return [y, *targets]

        return self.captured(run, targets) if self.graph else run

    def captured(self, run: Callable, changed: list) -> Callable:
        """The same as a graph, with these arrays as they were before it was captured."""
        torch = self.torch
        before = [x.detach().clone() for x in changed]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = run()
        with torch.no_grad():
            for x, old in zip(changed, before, strict=True):
                x.copy_(old)

        def replay() -> list:
            graph.replay()
            return found

        return replay

    def clear(self) -> None:
        self.torch.cuda.empty_cache()

    def time(self, run: Callable, times: int) -> float:
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / times / 1e3

    def numpy(self, x: Any) -> np.ndarray:
        return x.detach().cpu().numpy()


class Jax:
    """Compiled; timed by the clock, for it shows no events."""

    def __init__(self, ctx: nb.Context, compiled: bool) -> None:
        import jax

        if not any(d.platform == "gpu" for d in jax.devices()):
            raise ImportError("jax sees no GPU")
        jax.config.update("jax_default_matmul_precision", "highest")
        self.jax = jax
        self.device = jax.devices("gpu")[ctx.device_id]

    def make(self, task: Task) -> Callable:
        jax = self.jax
        xs = [jax.device_put(v, self.device) for v in task.arrays]
        function = partial(task.function, libraries.jax_names())
        if task.wanted is not None:
            function = jax.value_and_grad(function, argnums=task.wanted)
        if task.rate is None:
            call = jax.jit(function)
            return lambda: listed(call(*xs))

        def step(*xs: Any) -> list:
            y, found = function(*xs)
            return [y, *(xs[k] - task.rate * g for k, g in zip(task.wanted, found, strict=True))]

        call = jax.jit(step)

        def train() -> list:
            found = call(*xs)
            for k, x in zip(task.wanted, found[1:], strict=True):
                xs[k] = x
            return found

        return train

    def clear(self) -> None:
        pass

    def time(self, run: Callable, times: int) -> float:
        def last() -> None:
            for _ in range(times - 1):
                run()
            self.jax.block_until_ready(run())

        return wall(last, 1) / times

    def numpy(self, x: Any) -> np.ndarray:
        return np.asarray(x)


class Cupy:
    """What needs no derivatives."""

    def __init__(self, ctx: nb.Context, compiled: bool) -> None:
        import cupy

        self.cupy = cupy
        self.device = cupy.cuda.Device(ctx.device_id)

    def make(self, task: Task) -> Callable:
        if task.wanted is not None:
            raise NotImplementedError("no derivatives")
        with self.device:
            xs = [self.cupy.asarray(v) for v in task.arrays]
        return lambda: [task.function(self.cupy, *xs)]

    def clear(self) -> None:
        self.cupy.get_default_memory_pool().free_all_blocks()

    def time(self, run: Callable, times: int) -> float:
        begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        begin.record()
        for _ in range(times):
            run()
        end.record()
        end.synchronize()
        return self.cupy.cuda.get_elapsed_time(begin, end) / times / 1e3

    def numpy(self, x: Any) -> np.ndarray:
        return self.cupy.asnumpy(x)


LIBRARIES: dict[str, Callable] = {
    "nbgrad": partial(Nbgrad, compiled=False),
    "nbgrad.jit": partial(Nbgrad, compiled=True),
    "nbgrad.own": partial(Own, compiled=False),
    "torch": partial(Torch),
    "torch.compile": partial(Torch, compiled=True),
    "torch.graph": partial(Torch, graph=True),
    "jax": partial(Jax, compiled=True),
    "cupy": partial(Cupy, compiled=False),
}


def listed(found: Any) -> list:
    """All arrays of a result."""
    return [y for part in found for y in listed(part)] if isinstance(found, list | tuple) else [found]


def wall(run: Callable, times: int) -> float:
    """Seconds per call by the clock."""
    start = perf_counter()
    for _ in range(times):
        run()
    return (perf_counter() - start) / times


def expected(task: Task) -> list[np.ndarray]:
    """What comes out, computed in float64 on the CPU."""
    library = Nbgrad(nb.cpu(), compiled=False)
    wide = [v.astype(np.float64) if v.dtype.kind == "f" else v for v in task.arrays]
    return [library.numpy(y) for y in library.make(task._replace(arrays=tuple(wide)))()]


def measured(library: Any, task: Task, wanted: list[np.ndarray], rounds: int) -> float:
    """Median seconds per call, after the results were compared."""
    run = library.make(task)
    for y, z in zip(run(), wanted, strict=True):
        found = library.numpy(y).astype(np.float64).reshape(z.shape)
        worst = float(np.abs(found - z).max() / max(np.abs(z).max(), 1e-30))
        if not worst <= task.tolerance:
            raise ValueError(f"differs from float64 by {worst:.2g}")
    library.time(run, 12 if rounds > 1 else 2)  # warm: nbgrad notes what is called often, and makes graphs of it
    once = library.time(run, 1)
    times = max(1, min(50, int(0.02 / max(once, 1e-6)))) if rounds > 1 else 1
    return median(library.time(run, times) for _ in range(rounds))


def ceilings(ctx: nb.Context, every: list[Task], rounds: int) -> dict[str, float]:
    """Bytes per second of a copy, and operations per second of torch's matrix product, or else nbgrad's, by dtype."""
    library = Nbgrad(ctx, compiled=False)
    x = nd.array(max((task.arrays[0] for task in every), key=np.size), ctx=ctx, dtype="float32")
    found = {"copy": 8 * x.size / median(library.time(x.copy, 1) for _ in range(rounds + 2))}
    products = [task for task in every if task.operations]
    try:
        best: Any = Torch(ctx)
    except ImportError:
        best = library
    for task in products:
        run = best.make(task)
        run()
        found[task.name] = task.operations / median(best.time(run, 1) for _ in range(rounds))
    return found


def fraction(task: Task, seconds: float, ceiling: dict[str, float]) -> float | None:
    """Of what the card can do."""
    if task.moved:
        return task.moved / seconds / ceiling["copy"]
    return task.operations / seconds / ceiling[task.name] if task.operations else None


def table(results: dict[str, dict[str, Any]], columns: list[str]) -> str:
    lines = [f"{'ms per call':<24}" + "".join(f"{c:>14}" for c in columns) + f"{'of ceiling':>12}{'to best':>9}"]
    for name, row in results.items():
        cells = "".join(f"{row['seconds'][c] * 1e3:14.4g}" if c in row["seconds"] else f"{'-':>14}" for c in columns)
        of = f"{row['fraction']:12.0%}" if row["fraction"] is not None else f"{'':>12}"
        to = f"{row['to best']:9.2f}" if row["to best"] is not None else f"{'':>9}"
        lines.append(f"{name:<24}{cells}{of}{to}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*", help="parts of the names of the workloads that are wanted")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=LIBRARIES, default=list(LIBRARIES), metavar="LIBRARY")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--tiny", action="store_true")
    asked = parser.parse_args()
    ctx = nb.gpu(asked.device)
    if driver.simulated():
        sys.setswitchinterval(1e-5)  # its threads wait for one another
    rounds = 1 if asked.tiny else asked.rounds
    columns = {}
    for name in asked.only:
        try:
            columns[name] = LIBRARIES[name](ctx)
        except Exception as err:  # whatever keeps a library from this device
            print(f"without {name}: {err}", file=sys.stderr)
    every = tasks(asked.tiny)
    ceiling = ceilings(ctx, every, rounds)
    results: dict[str, dict[str, Any]] = {}
    record = {
        "device": driver.name(asked.device),
        "products": cublas.status(asked.device),
        "tiny": asked.tiny,
        "ceilings": ceiling,
        "results": results,
    }
    for task in every:
        if asked.patterns and not any(p in task.name for p in asked.patterns):
            continue
        wanted, seconds = expected(task), {}
        for name, library in columns.items():
            try:
                seconds[name] = measured(library, task, wanted, rounds)
                library.clear()
            except NotImplementedError:
                pass
            except Exception as err:  # the others are of interest all the same
                print(f"{name} has no '{task.name}': {type(err).__name__}: {err}", file=sys.stderr)
        own = min((s for c, s in seconds.items() if c.startswith("nbgrad")), default=None)
        best = min((s for c, s in seconds.items() if not c.startswith("nbgrad")), default=None)
        results[task.name] = {
            "seconds": seconds,
            "fraction": own and fraction(task, own, ceiling),
            "to best": own / best if own and best else None,
        }
        print(table({task.name: results[task.name]}, list(columns)).splitlines()[1], file=sys.stderr)
        if asked.json is not None:
            asked.json.write_text(json.dumps(record, indent=1), encoding="utf-8")
    rates = [f"{name} {rate / 1e12:.4g} TFLOP/s" for name, rate in ceiling.items() if name != "copy"]
    print(f"{record['device']}, large products by {record['products']}")
    print(", ".join([f"copy {ceiling['copy'] / 1e9:.4g} GB/s", *rates]))
    print(table(results, list(columns)))


if __name__ == "__main__":
    main()
