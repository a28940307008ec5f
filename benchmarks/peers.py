"""nbgrad beside other libraries with gradients: torch, HIPS autograd, MXNet and jax, whichever are there.

    python benchmarks/peers.py [PATTERN ...] [--python mxnet=/path/to/python] [--threads 1] [--seconds 2]
                               [--compiled] [--json FILE] [--plot FILE.png]

Every library works in a process of its own (of this Python, unless told otherwise). They run the same workload in
turn, round by round, so that all see the same machine; medians count. In parentheses is nbgrad's time as a fraction
of the library's: below 1, nbgrad is faster.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
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

    def __init__(self, library: str, python: str, threads: int) -> None:
        self.library = library
        self.process = subprocess.Popen(
            [python, str(HERE / "worker.py"), library, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def ask(self, **question) -> dict:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        reply = self.process.stdout.readline()
        return json.loads(reply) if reply else {"error": "the process ended"}


def usable(python: str, module: str) -> bool:
    code = f"import importlib.util, sys; sys.path.insert(0, {str(HERE.parent)!r}); import {module}"
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


def draw(found: dict[str, dict[str, float]], path: str) -> None:
    """A bar chart: every library's time over nbgrad's."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    libraries = [name for name in LIBRARIES if name != "nbgrad" and any(name in times for times in found.values())]
    figure, axes = plt.subplots(figsize=(9, 1 + 0.55 * len(found)), layout="constrained")
    height = 0.8 / max(1, len(libraries))
    for k, library in enumerate(libraries):
        rows = [(i, times[library] / times["nbgrad"]) for i, times in enumerate(found.values()) if library in times]
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
    lines = [f"{'milliseconds (nbgrad / it)':30}" + "".join(f"{name:>18}" for name in libraries)]
    for workload in WORKLOADS:
        if workload.name in found:
            times = found[workload.name]
            cells = [
                f"{1e3 * times[n]:.4g} ({times['nbgrad'] / times[n]:.2f})" if n in times else "-" for n in libraries
            ]
            lines.append(f"{workload.name:30}" + "".join(f"{c:>18}" for c in cells))
            if workload.operators:
                each = [f"{1e6 * times[n] / workload.operators:.2f} us" if n in times else "-" for n in libraries]
                lines.append(f"{'    an operator':30}" + "".join(f"{c:>18}" for c in each))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pattern", nargs="*", help="workloads whose name contains one of these")
    parser.add_argument("--python", action="append", default=[], metavar="LIBRARY=PATH", help="another interpreter")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="per workload and library")
    parser.add_argument("--compiled", action="store_true", help="torch.compile too (slow to start)")
    parser.add_argument("--libraries", nargs="+", default=list(LIBRARIES), choices=list(LIBRARIES))
    parser.add_argument("--json", metavar="FILE", help="write seconds there")
    parser.add_argument("--plot", metavar="FILE", help="draw a bar chart there")
    given = parser.parse_args()
    pythons = dict(pair.split("=", 1) for pair in given.python)
    names = ["nbgrad"] + [n for n in given.libraries if n != "nbgrad" and (given.compiled or n != "torch.compile")]
    names = [n for n in names if usable(pythons.get(n, sys.executable), LIBRARIES[n][0])]
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
