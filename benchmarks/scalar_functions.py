"""Every elementwise function of nbgrad beside NumPy's (SciPy's) and torch's, if torch is there, with one thread.

    python benchmarks/scalar_functions.py [PATTERN ...] [--size 100000] [--dtypes float64 float32] [--seconds 0.2]

They are called in turn, so that all see the same machine; the fastest call of each counts. All allocate their results.
Sorted by nbgrad's time over that of the faster other one; above 1 it is marked.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

# Read when the libraries are imported.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["NUMBA_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "asv_bench" / "benchmarks"))

import numpy as np
from cases import Case, elementwise

from nbgrad import nd
from nbgrad.core.registry import operators

try:
    import torch
except ImportError:
    torch = None

#: Where torch has another name or place for it. Others are found by their names.
_IN_TORCH = {
    "power": "pow", "modulo": "remainder", "rint": "round", "lesser": "lt", "lesser_equal": "le",
    "equal": "eq", "not_equal": "ne", "softsign": "nn.functional.softsign", "softrelu": "nn.functional.softplus",
    "gelu": "nn.functional.gelu", "silu": "nn.functional.silu", "log_sigmoid": "nn.functional.logsigmoid",
}  # fmt: skip
_TOLERANCES = {"float64": 1e-9, "float32": 2e-4}


def in_torch(name: str) -> Callable | None:
    """torch's function of this name, or of an alias."""
    if torch is None:
        return None
    for known in (name, *operators[name].aliases):
        for root in (torch, torch.special):
            found = root
            for part in _IN_TORCH.get(known, known).split("."):
                found = getattr(found, part, None)
            if callable(found):
                return found
    return None


def contenders(case: Case, n: int, dtype: str) -> dict[str, Callable[[], object]]:
    """Calls without arguments; torch's only if it gives the same values."""
    arrays = tuple(a.astype(dtype) for a in case.make(n))
    ours = tuple(nd.array(a, dtype=dtype) for a in arrays)
    calls = {"nbgrad": lambda: case.ours(*ours), "NumPy": lambda: case.theirs(*arrays)}
    expected, tolerance = case.theirs(*arrays), _TOLERANCES[dtype]
    np.testing.assert_allclose(case.ours(*ours).asnumpy(), expected, tolerance, tolerance, err_msg=case.name)
    function = in_torch(case.name)
    if function is not None:
        tensors = tuple(torch.tensor(a) for a in arrays)
        try:
            found = function(*tensors).numpy()
        except (TypeError, RuntimeError):  # other arguments
            return calls
        if found.shape == expected.shape and np.allclose(found, expected, tolerance, tolerance, equal_nan=True):
            calls["torch"] = lambda: function(*tensors)
    return calls


def measure(calls: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """The seconds of the fastest call of each."""
    best = dict.fromkeys(calls, float("inf"))
    end = perf_counter() + seconds
    rounds = 0
    while rounds < 10 or perf_counter() < end:
        for name, call in calls.items():
            start = perf_counter()
            call()
            best[name] = min(best[name], perf_counter() - start)
        rounds += 1
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", help="only functions whose name contains one of these")
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--dtypes", nargs="+", default=["float64", "float32"], choices=["float64", "float32"])
    parser.add_argument("--seconds", type=float, default=0.2, help="per function and dtype")
    given = parser.parse_args()
    if torch is not None:
        torch.set_num_threads(1)
    rows = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # functions outside their domain warn, in NumPy alone
        for case in elementwise():
            if not given.patterns or any(p in case.name for p in given.patterns):
                for dtype in given.dtypes:
                    times = measure(contenders(case, given.size, dtype), given.seconds)
                    others = min(t for name, t in times.items() if name != "nbgrad")
                    rows.append((times["nbgrad"] / others, case.name, dtype, times))
    rows.sort(key=lambda row: row[0], reverse=True)
    print(f"{given.size} elements, microseconds{'':9}{'nbgrad':>10}{'NumPy':>10}{'torch':>10}   ratio to the faster")
    for ratio, name, dtype, times in rows:
        cells = "".join(
            f"{1e6 * times[library]:10.1f}" if library in times else f"{'-':>10}"
            for library in ("nbgrad", "NumPy", "torch")
        )
        print(f"{name:24}{dtype:>12}{cells}  {ratio:6.2f}{'  *' if ratio > 1 else ''}")
    print(f"{sum(row[0] > 1 for row in rows)} of {len(rows)} above 1")


if __name__ == "__main__":
    main()
