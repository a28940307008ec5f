"""nbgrad beside other libraries with gradients: torch, HIPS autograd, MXNet and jax, whichever are there.

    python benchmarks/peers.py [PATTERN ...] [--python mxnet=/path/to/python] [--threads 1] [--seconds 2]
                               [--compiled | --libraries NAME ...] [--json FILE] [--plot FILE.png]

Every library works in a process of its own (of this Python, unless told otherwise). They run the same workload in
turn, round by round, so that all see the same machine; medians count. With `--compiled` there are also those that
compile a function and its gradient first, nbgrad.jit among them, and kernels written by hand (handwritten.py). The last
columns of the table are the time of the faster of nbgrad and nbgrad.jit as a fraction of that of the fastest other
library, and of that by hand: below 1, nbgrad is faster.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "asv_bench" / "benchmarks"))

from libraries import LIBRARIES
from workloads import WORKLOADS

HERE = Path(__file__).resolve().parent

#: MXNet computes some derivatives (erf's) in float32, whatever the dtype.
TOLERANCES = {"mxnet": 1e-5}


class Worker:
    """The process of one library."""

    def __init__(self, library: str, python: str, threads: int, script: str = "worker.py") -> None:
        self.library = library
        self.process = subprocess.Popen(
            [python, str(HERE / script), library, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def ask(self, **question) -> dict:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        reply = self.process.stdout.readline()
        return json.loads(reply) if reply else {"error": "the process ended"}


def usable(python: str, needs: str) -> bool:
    code = f"import sys; sys.path.insert(0, {str(HERE.parent)!r}); {needs}"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


def measure(index: int, workers: list[Worker], seconds: float) -> dict[str, float]:
    """Median seconds a call for each library that has this workload."""
    workload = WORKLOADS[index]
    batch: dict[Worker, int] = {}
    expected = None
    for worker in workers:
        reply = worker.ask(prepare=index)
        if "error" in reply:
            print(f"  {worker.library} has no '{workload.name}': {reply['error']}", file=sys.stderr)
            continue
        if expected is None:
            expected = reply["gradients"]
        tolerance = max(workload.tolerance, TOLERANCES.get(worker.library, 0.0))
        label = f"{worker.library}: {workload.name}"
        np.testing.assert_allclose(reply["gradients"], expected, tolerance, tolerance * max(map(abs, expected)), label)
        batch[worker] = max(1, int(0.005 / worker.ask(rounds=1)["seconds"]))  # what is short is timed several times
    times: dict[str, list[float]] = {worker.library: [] for worker in batch}
    stop = perf_counter() + seconds * len(batch)
    while perf_counter() < stop or len(times["nbgrad"]) < 5:
        for worker, count in batch.items():
            times[worker.library].append(worker.ask(rounds=count)["seconds"] / count)
    return {name: median(found) for name, found in times.items()}


def fastest(times: dict[str, float], wanted: Callable[[str], bool]) -> float:
    return min((seconds for name, seconds in times.items() if wanted(name)), default=math.nan)


def of_nbgrad(name: str) -> bool:
    return name.startswith("nbgrad")


def draw(found: dict[str, dict[str, float]], path: str) -> None:
    """A bar chart: every library's time over that of the faster of nbgrad and nbgrad.jit."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    libraries = [n for n in LIBRARIES if not of_nbgrad(n) and any(n in times for times in found.values())]
    figure, axes = plt.subplots(figsize=(9, 1 + 0.55 * len(found)), layout="constrained")
    height = 0.8 / max(1, len(libraries))
    for k, library in enumerate(libraries):
        every = enumerate(found.values())
        rows = [(i, times[library] / fastest(times, of_nbgrad)) for i, times in every if library in times]
        places = [i + (k + 0.5) * height - 0.4 for i, _ in rows]
        bars = axes.barh(places, [r - 1 for _, r in rows], height, left=1, label=library)  # from 1 to the ratio
        axes.bar_label(bars, [f"{r:.2g}" for _, r in rows], fontsize=7, padding=2)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(found)), list(found))
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("time of the library / time of nbgrad (above 1: nbgrad is faster)")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def table(found: dict[str, dict[str, float]], libraries: list[str]) -> str:
    lines = ["milliseconds".ljust(30) + "".join(f"{n:>15}" for n in [*libraries, "/ best peer", "/ numba"])]
    for name, times in found.items():
        ours = fastest(times, of_nbgrad)
        ratios = ours / fastest(times, lambda n: not of_nbgrad(n) and n != "numba"), ours / times.get("numba", math.nan)
        cells = [f"{1e3 * times[n]:.4g}" if n in times else "-" for n in libraries]
        cells += [f"{r:.2f}" if r == r else "-" for r in ratios]
        lines.append(name.ljust(30) + "".join(f"{c:>15}" for c in cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pattern", nargs="*", help="workloads whose name contains one of these")
    parser.add_argument("--python", action="append", default=[], metavar="LIBRARY=PATH", help="another interpreter")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="per workload and library")
    parser.add_argument("--compiled", action="store_true", help="also those that compile functions (slow to start)")
    parser.add_argument("--libraries", nargs="+", default=[], choices=list(LIBRARIES), help="these, and nbgrad")
    parser.add_argument("--json", metavar="FILE", help="write seconds there")
    parser.add_argument("--plot", metavar="FILE", help="draw a bar chart there")
    given = parser.parse_args()
    pythons = dict(pair.split("=", 1) for pair in given.python)
    chosen = given.libraries or [n for n, library in LIBRARIES.items() if given.compiled or not library.compiled]
    names = ["nbgrad", *(n for n in chosen if n != "nbgrad")]
    names = [n for n in names if usable(pythons.get(n, sys.executable), LIBRARIES[n].needs)]
    if "nbgrad" not in names:
        parser.error("this Python cannot import nbgrad")
    workers = [Worker(name, pythons.get(name, sys.executable), given.threads) for name in names]
    found = {}
    for index, workload in enumerate(WORKLOADS):
        if not given.pattern or any(p.lower() in workload.name.lower() for p in given.pattern):
            found[workload.name] = measure(index, workers, given.seconds)
    print(table(found, names))
    for path, write in ((given.json, lambda p: Path(p).write_text(json.dumps(found, indent=2))), (given.plot, None)):
        if path:
            write(path) if write else draw(found, path)


if __name__ == "__main__":
    main()
