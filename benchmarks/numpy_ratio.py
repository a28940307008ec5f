"""nbgrad's time over NumPy's (SciPy's), for every elementwise operator, reduction and movement of elements.

    python benchmarks/numpy_ratio.py [--size 1000000] [--seconds 0.2] [PATTERN ...]

The two are timed in turn, call by call, so that both see the same machine; the minimum of each counts. Results are
allocated by both. Sorted by ratio; a ratio above 1.5 is marked.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from itertools import chain
from pathlib import Path
from time import perf_counter

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "asv_bench" / "benchmarks"))

from cases import Case, elementwise, movements, reductions

from nbgrad import nd

LIMIT = 1.5


def measure(case: Case, n: int, seconds: float) -> tuple[float, float]:
    """Fastest call of nbgrad and of NumPy, in seconds."""
    arrays = case.make(n)
    ours = tuple(nd.array(a) for a in arrays)
    ours_best = theirs_best = float("inf")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # functions outside their domain warn, in NumPy alone
        result, expected = case.ours(*ours), case.theirs(*arrays)
        found = result.asnumpy().reshape(np.shape(expected))
        np.testing.assert_allclose(found, expected, 1e-9, 1e-12, err_msg=case.name)
        del result, expected, found
        end = perf_counter() + seconds
        rounds = 0
        while rounds < 5 or perf_counter() < end:
            start = perf_counter()
            case.ours(*ours)
            middle = perf_counter()
            case.theirs(*arrays)
            stop = perf_counter()
            ours_best = min(ours_best, middle - start)
            theirs_best = min(theirs_best, stop - middle)
            rounds += 1
    return ours_best, theirs_best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", help="only operators whose name contains one of these")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=0.2, help="per operator")
    given = parser.parse_args()
    rows = []
    for case in chain(elementwise(), reductions(), movements()):
        if not given.patterns or any(p in case.name for p in given.patterns):
            ours, theirs = measure(case, given.size, given.seconds)
            rows.append((ours / theirs, case.name, ours, theirs))
    rows.sort(reverse=True)
    print(f"{given.size} float64 elements{'':8} nbgrad ms    NumPy ms   ratio")
    for ratio, name, ours, theirs in rows:
        print(f"{name:30} {1e3 * ours:10.3f}  {1e3 * theirs:10.3f}  {ratio:6.2f}{'  *' if ratio > LIMIT else ''}")
    print(f"{sum(r[0] > LIMIT for r in rows)} of {len(rows)} above {LIMIT}")


if __name__ == "__main__":
    main()
