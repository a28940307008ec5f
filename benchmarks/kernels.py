"""Adjoints of fifty kernels of several fields beside the kernels themselves, jax, and adjoints written by hand.

    python benchmarks/kernels.py [--only NAME ...] [--jax /path/to/python] [--seconds 1] [--json FILE]
                                 [--chart FILE.png]

Thirty are those of PolyBench, from their definitions; twenty are of the dynamics of fluids, finance, weather, signals
and machine learning (`fields`). Each row: the time of the function compiled by Numba; that of `value_and_grad`, and of
the adjoint written by hand where there is one, in multiples of it; jax's (jax.jit of jax.value_and_grad, float64, one
thread), where this or the given Python has it, in multiples of that of `value_and_grad`; the seconds of first calls,
with nothing on disk; and the greatest error of derivatives along random directions, against central differences.

nbgrad and jax work in a process of their own each, one call in turn; medians of CPU times count. Gradients are compared
first.
"""

import argparse
import json
import os
import sys
import tempfile
from math import nan
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter

import numpy as np
from fields import Kernel, kernels
from peers import Worker, usable

#: The kinds of calls, and the columns of the table.
KINDS = ["primal", "adjoint", "by hand", "jax"]
COLUMNS = ["primal ms", "adjoint / primal", "by hand / primal", "jax / adjoint", "first s", "of jax", "error"]


def alike(name: str, kind: str, summary: list[float], expected: list[float]) -> bool:
    """Whether summaries of gradients agree."""
    close = np.allclose(summary, expected, rtol=1e-6, atol=1e-8 * max(map(abs, expected)))
    if not close:
        print(f"FAILED: {name}, {kind} differs from the generated adjoint")
    return close


def prepare(name: str, ours: Worker, jax: Worker | None) -> tuple[dict, bool]:
    """The first calls, and whether all agree."""
    reply = ours.ask(prepare=name)
    if "error" in reply:
        print(f"FAILED: {name}: {reply['error']}")
        return {}, False
    expected = reply["summaries"].pop("adjoint")
    fine = all([alike(name, kind, summary, expected) for kind, summary in reply["summaries"].items()])
    if jax:
        answer = jax.ask(prepare=name)
        if "error" in answer:
            print(f"FAILED: {name}, jax: {answer['error']}")
            return reply, False
        reply["first"]["jax"] = answer["first"]
        fine = alike(name, "jax", answer["summary"], expected) and fine
    return reply, fine


def measure(name: str, ours: Worker, jax: Worker | None, seconds: float) -> tuple[dict, bool]:
    """Median seconds a call by kind, seconds of first calls, and the error; and whether all agree."""
    reply, fine = prepare(name, ours, jax)
    if not reply:
        return {}, False

    def run(kind: str, rounds: int) -> float:
        asked = jax.ask(rounds=rounds) if kind == "jax" and jax else ours.ask(kind=kind, rounds=rounds)
        return asked["seconds"] / rounds

    rounds = {kind: max(1, int(0.002 / max(run(kind, 1), 1e-6))) for kind in KINDS if kind in reply["first"]}
    times: dict[str, list[float]] = {kind: [] for kind in rounds}
    stop = perf_counter() + seconds
    while perf_counter() < stop or len(times["primal"]) < 7:
        for kind, count in rounds.items():
            times[kind].append(run(kind, count))
    found = {"seconds": {kind: median(t) for kind, t in times.items()}, "first": reply["first"]}
    return {**found, "deviation": reply["deviation"]}, fine


def ratios(times: dict[str, float]) -> list[float]:
    """The times of the adjoint and of that by hand by the function's, and jax's by the adjoint's."""
    primal, ours, hand, jax = (times.get(kind, nan) for kind in KINDS)
    return [ours / primal, hand / primal, jax / ours]


def row(name: str, cells: list[float], error: str = "") -> str:
    strings = ["-" if c != c else f"{c:.2f}" for c in cells] + [error]
    return f"{name:22}" + "".join(f"{t:>18}" for t in strings)


def line(name: str, found: dict) -> str:
    times, first = found["seconds"], found["first"]
    cells = [1e3 * times["primal"], *ratios(times), first["adjoint"], first.get("jax", nan)]
    return row(name, cells, f"{found['deviation']:.0e}")


def means(every: dict[str, dict], known: dict[str, Kernel]) -> list[str]:
    """Geometric means of the ratios, of all kernels and apart for those with products of matrices."""
    lines = []
    for label, chosen in (("all", (True, False)), ("without products", (False,)), ("products of matrices", (True,))):
        columns = zip(*[ratios(f["seconds"]) for n, f in every.items() if known[n].products in chosen], strict=True)
        cells = [geometric_mean(there) if (there := [c for c in column if c == c]) else nan for column in columns]
        if cells:
            lines.append(row(label, [nan, *cells, nan, nan]))
    return lines


def draw(every: dict[str, dict], path: str) -> None:
    """A bar for each kernel's adjoint, in multiples of the kernel's own time, and marks for the others."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    times = [found["seconds"] for found in every.values()]
    figure, axes = plt.subplots(figsize=(8, 1.5 + 0.2 * len(every)), layout="constrained")
    over = {kind: [t.get(kind, nan) / t["primal"] for t in times] for kind in KINDS}
    places = range(len(every))
    axes.barh(places, [r - 1 for r in over["adjoint"]], 0.7, 1, color="tab:blue", alpha=0.6, label="nb.adjoint")
    for k, r in enumerate(over["adjoint"]):
        axes.text(1.01, k, f"{r:.1f}", transform=axes.get_yaxis_transform(), va="center", fontsize=8)
    for kind, mark, colour in (("jax", "|", "tab:red"), ("by hand", "D", "black")):
        axes.scatter(over[kind], places, 60 if mark == "|" else 14, colour, marker=mark, label=kind, zorder=3)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_yticks(places, list(every), fontsize=8)
    axes.set_ylim(len(every) - 0.4, -0.6)
    axes.set_xlabel("time of value and gradient / time of the function compiled by Numba")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these kernels")
    parser.add_argument("--jax", default=sys.executable, metavar="PYTHON", help="the Python that has jax")
    parser.add_argument("--seconds", type=float, default=1.0, help="per kernel")
    parser.add_argument("--json", metavar="FILE", help="write seconds there")
    parser.add_argument("--chart", metavar="FILE", help="draw a bar chart there")
    given = parser.parse_args()
    known = kernels()
    if unknown := set(given.only or []) - set(known):
        parser.error(f"no kernels: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    print(" " * 22 + "".join(f"{c:>18}" for c in COLUMNS))
    every, all_fine = {}, True
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NBGRAD_CACHE_DIR"] = folder  # so that first calls compile
        jax = Worker("jax", given.jax, 1, "kernels_jax.py") if usable(given.jax, "import jax") else None
        ours = Worker("nbgrad", sys.executable, 1, "kernels_numba.py")
        for name in given.only or known:
            found, fine = measure(name, ours, jax, given.seconds)
            all_fine = all_fine and fine
            if found:
                every[name] = found
                print(line(name, found), flush=True)
        for worker in (ours, jax):
            if worker:
                worker.process.stdin.close()
                worker.process.wait()
    print("\n".join(["geometric means", *means(every, known)]))
    if given.json:
        Path(given.json).write_text(json.dumps(every, indent=2))
    if given.chart:
        draw(every, given.chart)
    sys.exit(not all_fine)


if __name__ == "__main__":
    main()
