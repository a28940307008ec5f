"""The kernels of ``fields`` by Numba, their adjoints by nbgrad, and some written by hand; a worker of kernels.py.

{"prepare": name}: compiled; the reply has the seconds that took, by kind, a summary of the gradients for comparison,
and the greatest error of derivatives along directions. {"rounds": n, "kind": kind}: as in worker.py.
"""

from time import perf_counter, process_time

import worker  # limits the threads of what is imported after it

# isort: split
import numpy as np
from fields import Kernel, kernels
from fields.by_hand import BY_HAND
from small_programs import compiled

import nbgrad as nb


def copies(args: tuple) -> tuple:
    return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)


def power(x, y):
    return np.sum(x**y)


def calls(kernel: Kernel) -> dict:
    """How the kernel is called: as it is, and with its gradients."""
    found = {"primal": compiled(kernel.function), "adjoint": nb.adjoint(kernel.function).value_and_grad}
    if kernel.label() in BY_HAND:
        found["by hand"] = BY_HAND[kernel.label()]
    return found


def deviation_along_directions(function, args: tuple, gradients: list) -> float:
    """The error of derivatives along random directions, in units of the size that these have on average."""
    active = [k for k, a in enumerate(args) if isinstance(a, float) or getattr(a, "dtype", None) == np.float64]
    worst = 0.0
    for seed in range(3):
        normal = np.random.default_rng(seed).normal
        directions = [normal(size=np.shape(args[k])) * np.mean(np.abs(args[k])) for k in active]
        ends = []
        for step in (1e-6, -1e-6):
            moved = list(copies(args))
            for k, d in zip(active, directions, strict=True):
                moved[k] = moved[k] + step * d
            ends.append(function(*moved))
        terms = [g * d for g, d in zip(gradients, directions, strict=True)]
        size = np.sqrt(sum(np.sum(t * t) for t in terms))
        worst = max(worst, abs((ends[0] - ends[1]) / 2e-6 - sum(map(np.sum, terms))) / size)
    return float(worst)


def prepared(kernel: Kernel, args: tuple) -> tuple[dict, dict]:
    """The calls, and what is to be said of the first ones."""
    found, first, summaries = calls(kernel), {}, {}
    for kind, call in found.items():
        start = perf_counter()
        outcome = call(*copies(args))
        first[kind] = perf_counter() - start
        if kind != "primal":
            value, gradients = outcome
            gradients = [g for g in gradients if g is not None]
            summaries[kind] = worker.summary(value, gradients)
            if kind == "adjoint":
                deviation = deviation_along_directions(found["primal"], args, gradients)
    return found, {"first": first, "summaries": summaries, "deviation": deviation}


def main() -> None:
    found, args = {}, ()
    nb.adjoint(power).value_and_grad(np.ones(2), 2.0)  # what the very first call loads is no kernel's

    def answer(asked: dict) -> dict:
        nonlocal found, args
        if "rounds" in asked:
            fresh = iter([copies(args) for _ in range(asked["rounds"])])
            return worker.seconds(lambda: found[asked["kind"]](*next(fresh)), asked["rounds"], process_time)
        kernel = kernels()[asked["prepare"]]
        args = kernel.draw(kernel.size)
        found, reply = prepared(kernel, args)
        return reply

    worker.serve(answer)


if __name__ == "__main__":
    main()
