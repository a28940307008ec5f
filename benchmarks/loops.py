"""Generated adjoints beside adjoints written by hand, jax, and the functions themselves, in one run.

    python benchmarks/loops.py [name ...] [--jax /path/to/python] [--seconds 2] [--json FILE]

Each row: the time of the compiled function, and those of function and gradient, as multiples: generated, written by
hand (loops_by_hand.py), and by jax (loops_jax.py; compiled, float64, one thread), where this or the given Python has
it. They run in turn, round by round; the shortest times count, of the CPU, because a call of several milliseconds is
interrupted wherever other programs run. Values and gradients are compared first.
"""

import argparse
import json
import sys
import tempfile
from math import nan
from pathlib import Path
from time import perf_counter, process_time

import loops_by_hand
import numpy as np
from numba import njit
from peers import Worker, usable

import nbgrad as nb
from nbgrad.demo import loops
from nbgrad.loops.arguments import output_names


def cases(n=100_000, grid=48, square=128, order=120, series=300, steps=100, bodies=1000):
    """Arguments for each function."""
    rng = np.random.default_rng(1)
    normal, positive = rng.normal, lambda *shape: 1.0 + rng.random(shape)
    matrix = normal(size=(order, order))
    return {
        "heat": (normal(size=(grid,) * 3), positive(grid, grid, grid), 0.02, 20),
        "lynx_hare": (np.array([0.5, 0.03, 0.02, 0.8]), np.array([30.0, 4.0]), 0.01, np.zeros(n), np.zeros(n)),
        "thomas": (normal(size=n), 5 + positive(n), normal(size=n), normal(size=n), np.zeros(n)),
        "cholesky": (matrix @ matrix.T + order * np.eye(order),),
        "sor": (normal(size=(square, square)), normal(size=(square, square)), 1.4, 20),
        "soft_dtw": (normal(size=series), normal(size=series), 0.7),
        "lstm": (normal(size=(steps, 16)), normal(size=(128, 16)) / 4, normal(size=(128, 32)) / 6, normal(size=128),
                 normal(size=(steps + 1, 32))),
        "pairwise": (8.0 * normal(size=(bodies, 3)), 3.0),
        "csr_product": (normal(size=n // 2), rng.integers(0, n, n // 2), np.arange(0, n // 2 + 1, 5), normal(size=n),
                        np.zeros(n // 10)),
    }  # fmt: skip


class Case:
    """One example, its arguments, and cotangents for what it writes and returns."""

    def __init__(self, name: str, args: tuple) -> None:
        self.name = name
        self.function = getattr(loops, name)
        made = nb.adjoint(self.function)._generated(args)
        self.calls = {
            "primal": njit(nogil=True, error_model="numpy")(self.function),
            "adjoint": made.entry,
            "by hand": getattr(loops_by_hand, name),
        }
        rng = np.random.default_rng(2)
        self.given = dict(zip(made.f.parameters, args, strict=True))
        self.names = [*(made.f.results or []), *(f"{n}_bar" for n in made.reverse.scalar_wrt)]
        for n in dict.fromkeys([*made.reverse.seeds, *made.reverse.arrays]):
            shape = np.shape(self.given.get(n, 0.0))
            self.given[f"{n}_bar"] = rng.normal(size=shape or None) if n in output_names(made.f) else np.zeros(shape)
        self.arguments = list(made.f.parameters)

    def copies(self, kind: str) -> dict:
        names = self.arguments if kind == "primal" else self.given
        return {n: a.copy() if isinstance(a, np.ndarray) else a for n, a in self.given.items() if n in names}

    def outcome(self, kind: str) -> dict:
        """Everything that it returns and writes, by name."""
        given = self.copies(kind)
        found = self.calls[kind](*given.values()) or ()
        arrays = {n: a for n, a in given.items() if isinstance(a, np.ndarray)}
        return {**arrays, **dict(zip(self.names, found, strict=True))}

    def seconds(self, kind: str) -> float:
        given = self.copies(kind).values()
        start = process_time()
        self.calls[kind](*given)
        return process_time() - start

    def compare(self, found: dict, expected: dict, kind: str) -> bool:
        """Whether they agree; the differences are printed."""
        wrong = []
        for n, a in found.items():
            scale = max(np.abs(expected[n]).max(), 1e-300)
            error = np.abs(a - expected[n]).max() / scale
            if not error < 1e-10:
                wrong.append(f"{n} by {error:.1e}")
        if wrong:
            print(f"FAILED: {self.name}, {kind} differs from the generated adjoint: {', '.join(wrong)}")
        return not wrong


def with_jax(case: Case, worker: Worker, expected: dict, folder: str) -> bool:
    """Whether jax has the example and agrees."""
    file = f"{folder}/{case.name}.npz"
    np.savez(file, **case.given)
    reply = worker.ask(prepare=case.name, file=file)
    if "error" in reply:
        print(f"FAILED: {case.name}, jax: {reply['error']}")
        return False
    return case.compare(dict(np.load(file)), expected, "jax")


def measure(case: Case, worker: Worker | None, seconds: float, folder: str) -> tuple[dict[str, float], bool]:
    """The shortest time of each, and whether all agree."""
    expected = case.outcome("adjoint")
    fine = case.compare(case.outcome("by hand"), expected, "the adjoint by hand")
    case.seconds("primal")
    runs = {kind: (lambda kind=kind: case.seconds(kind)) for kind in case.calls}
    if worker:
        if with_jax(case, worker, expected, folder):
            runs["jax"] = lambda: worker.ask(rounds=1)["seconds"]
        else:
            fine = False
    times = dict.fromkeys(runs, float("inf"))
    stop, rounds = perf_counter() + seconds, 0
    while perf_counter() < stop or rounds < 7:
        for kind, run in runs.items():
            times[kind] = min(times[kind], run())
        rounds += 1
    return times, fine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="*", help="examples")
    parser.add_argument("--jax", default=sys.executable, metavar="PYTHON", help="the Python that has jax")
    parser.add_argument("--seconds", type=float, default=2.0, help="per example")
    parser.add_argument("--json", metavar="FILE", help="write seconds there")
    given = parser.parse_args()
    worker = Worker("jax", given.jax, 1, "loops_jax.py") if usable(given.jax, "import jax") else None
    columns = ["primal ms", "adjoint / primal", "by hand / primal", "adjoint / by hand", "jax / adjoint"]
    print(" " * 12 + "".join(f"{c:>19}" for c in columns))
    found, fine = {}, True
    with tempfile.TemporaryDirectory() as folder:
        for name, args in cases().items():
            if given.name and name not in given.name:
                continue
            times, agrees = measure(Case(name, args), worker, given.seconds, folder)
            primal, ours, hand, jax = (times.get(k, nan) for k in ("primal", "adjoint", "by hand", "jax"))
            cells = [1e3 * primal, ours / primal, hand / primal, ours / hand, jax / ours]
            print(f"{name:12}" + "".join(f"{c:19.2f}" if c == c else f"{'-':>19}" for c in cells), flush=True)
            found[name], fine = times, fine and agrees
    if given.json:
        Path(given.json).write_text(json.dumps(found, indent=2))
    sys.exit(not fine)


if __name__ == "__main__":
    main()
