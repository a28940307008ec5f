"""One library of ``peers.py`` in a process of its own: answers, line by line, what it is asked on standard input.

    python benchmarks/worker.py LIBRARY THREADS

{"prepare": i}: workload i is made and run once; the reply has the value's sum, the gradients' sums of squares and their
projections on a fixed direction, for comparison. {"rounds": n}: n calls; the reply is the seconds they took.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from time import perf_counter

# Read when the libraries are imported.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = sys.argv[2]
os.environ["NUMBA_NUM_THREADS"] = sys.argv[2]
os.environ["JAX_ENABLE_X64"] = "1"
if sys.argv[2] == "1":
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    if hasattr(os, "sched_setaffinity"):  # not every library keeps to one thread otherwise
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "asv_bench" / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from libraries import LIBRARIES
from workloads import WORKLOADS

TALK = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # what libraries print is no reply


def as_numpy(x) -> np.ndarray:
    x = x.detach() if hasattr(x, "detach") else x
    return np.asarray(x.asnumpy() if hasattr(x, "asnumpy") else x)


def summary(value, gradients) -> list[float]:
    found = [0.0 if value is None else float(np.sum(as_numpy(value), dtype=np.float64))]
    for g in map(as_numpy, gradients):
        flat = np.asarray(g, np.float64).ravel()
        found += [float(flat @ flat), float(flat @ np.cos(np.arange(flat.size) % 997))]
    return found


def serve(answer) -> None:
    """Reply to each line with what `answer` makes of it."""
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as err:
            reply = {"error": f"{type(err).__name__}: {err}"[:200]}
        print(json.dumps(reply), file=TALK)


def seconds(run, rounds: int, clock=perf_counter) -> dict:
    start = clock()
    for _ in range(rounds):
        run()
    return {"seconds": clock() - start}


def main() -> None:
    make = LIBRARIES[sys.argv[1]].start()
    run = None

    def answer(asked: dict) -> dict:
        nonlocal run
        if "rounds" in asked:
            return seconds(run, asked["rounds"])
        run = None
        workload = WORKLOADS[asked["prepare"]]
        run = make(workload, workload.arrays(np.random.default_rng(0)))
        return {"gradients": summary(*run())}

    serve(answer)


if __name__ == "__main__":
    main()
