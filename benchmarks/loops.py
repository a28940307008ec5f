"""Generated adjoints beside adjoints written by hand and the functions themselves, in one run.

    python benchmarks/loops.py [name ...]

Each row: the time of the compiled function, and of function and gradient, generated and written by hand, as multiples.
"""

import sys
import time

import loops_by_hand
import numpy as np
from numba import njit

import nbgrad as nb
from nbgrad.demo import loops


def cases():
    rng = np.random.default_rng(1)
    normal, positive = rng.normal, lambda *shape: 1.0 + rng.random(shape)
    n = 100_000
    starts = np.arange(0, 5 * n // 10 + 1, 5)
    matrix = normal(size=(120, 120))
    return {
        "heat": (normal(size=(48, 48, 48)), positive(48, 48, 48), 0.02, 20),
        "lynx_hare": (np.array([0.5, 0.03, 0.02, 0.8]), np.array([30.0, 4.0]), 0.01, np.zeros(n), np.zeros(n)),
        "thomas": (normal(size=n), 5 + positive(n), normal(size=n), normal(size=n), np.zeros(n)),
        "cholesky": (matrix @ matrix.T + 120 * np.eye(120),),
        "sor": (normal(size=(128, 128)), normal(size=(128, 128)), 1.4, 20),
        "soft_dtw": (normal(size=300), normal(size=300), 0.7),
        "lstm": (normal(size=(100, 16)), normal(size=(128, 16)) / 4, normal(size=(128, 32)) / 6, normal(size=128),
                 normal(size=(101, 32))),
        "pairwise": (8.0 * normal(size=(1000, 3)), 3.0),
        "csr_product": (normal(size=5 * n // 10), rng.integers(0, n, 5 * n // 10), starts, normal(size=n),
                        np.zeros(n // 10)),
    }  # fmt: skip


def fastest(call, args, repeat=7):
    """The shortest time of `repeat` calls, each with fresh copies of the arrays."""
    times = []
    for _ in range(repeat + 1):
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        start = time.perf_counter()
        call(*given)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def main(names):
    print(f"{'':12} {'primal ms':>10} {'adjoint / primal':>17} {'by hand / primal':>17} {'adjoint / by hand':>18}")
    for name, args in cases().items():
        if names and name not in names:
            continue
        primal = njit(nogil=True, error_model="numpy")(getattr(loops, name))
        made = nb.adjoint(getattr(loops, name))._generated(args)
        given = dict(zip(made.f.parameters, args, strict=True))
        bars = [
            np.ones_like(given[n]) if n in given else 1.0
            for n in dict.fromkeys([*made.reverse.seeds, *made.reverse.arrays])
        ]
        base = fastest(primal, args)
        ours = fastest(made.entry, [*args, *bars])
        by_hand = getattr(loops_by_hand, name, None)
        theirs = fastest(by_hand, [*args, *bars]) if by_hand else float("nan")
        print(
            f"{name:12} {1e3 * base:10.2f} {ours / base:17.2f} {theirs / base:17.2f} {ours / theirs:18.2f}", flush=True
        )


if __name__ == "__main__":
    main(sys.argv[1:])
