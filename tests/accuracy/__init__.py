"""How accurate the scalar functions are: one row each, measured against mpmath in units in the last place."""

import math
from collections.abc import Callable
from typing import NamedTuple

import mpmath as mp
import numpy as np

from nbgrad.backends.numba.compile import generate

__all__ = ["Row", "call", "measure"]

PRECISION = 200  # bits of the exact values


class Row(NamedTuple):
    """A function, and where it was measured.

    Parameters
    ----------
    name : str
    function : callable
        The helper for kernels.
    exact : callable
        The same with mpmath numbers; None stands for "not defined here".
    arguments : callable
        ``arguments(rng, dtype)``: one array per argument, dense over the domain and nasty at its edges
        (subnormals, where results over- and underflow, halves of units, huge values). Edges with infinite or
        NaN results belong to `edges`.
    ulp64, ulp32 : float
        What the largest error must not exceed.
    domain : str
        In words, for the page.
    edges : tuple
        Literal pairs of (arguments, result); signs of zeros count.
    scale : callable, optional
        ``scale(*args)`` as mpmath: where terms cancel (next to a zero that is not 0 itself), the magnitude
        that errors are ulps of, if larger than the result.
    vector : bool
        Whether a loop over it must be packed code on x86-64.
    """

    name: str
    function: Callable
    exact: Callable
    arguments: Callable
    ulp64: float
    ulp32: float
    domain: str = "all"
    edges: tuple = ()
    scale: Callable | None = None
    vector: bool = True


_kernels: dict = {}


def kernel_of(function, count):
    """A loop over `function` of `count` arguments."""
    if function not in _kernels:
        names = "abc"[:count]
        loop = (
            f"def apply({', '.join(names)}, out):\n"
            f"    for i in range(np.uint64(out.size)):\n"
            f"        out[i] = f({', '.join(f'{n}[i]' for n in names)})\n"
        )
        _kernels[function] = generate("apply", loop, {"f": function, "np": np})
    return _kernels[function]


def call(function, *args, dtype="float64"):
    """`function` over arrays (or numbers) of `dtype`."""
    arrays = [np.ascontiguousarray(np.atleast_1d(a), dtype) for a in args]
    out = np.empty_like(arrays[0])
    kernel_of(function, len(arrays))(*arrays, out)
    return out


def ulp(value, dtype):
    """The unit in the last place of an exact `value`, as `dtype` has it (subnormals have that of the smallest)."""
    bits, least = (53, -1074) if dtype == "float64" else (24, -149)
    if value == 0:
        return mp.ldexp(1, least)
    _, exponent = mp.frexp(value)
    return mp.ldexp(1, max(exponent - bits, least))


def measure(row, dtype, seed=7):
    """The largest error of a row over its arguments, in ulp, and the arguments it is at."""
    arrays = [np.asarray(a, dtype) for a in row.arguments(np.random.default_rng(seed), dtype)]
    got = call(row.function, *arrays, dtype=dtype)
    largest = float(np.finfo(dtype).max)
    worst, where = 0.0, None
    with mp.workprec(PRECISION):
        for value, *point in zip(got.tolist(), *(a.tolist() for a in arrays), strict=True):
            args = [mp.mpf(p) for p in point]
            exact = row.exact(*args)
            if exact is None:
                continue
            size = max(abs(exact), abs(row.scale(*args))) if row.scale else exact
            if abs(exact) > largest * (1 + mp.ldexp(1, -25 if dtype == "float32" else -54)):
                error = 0.0 if value == math.copysign(math.inf, exact) else math.inf
            elif not math.isfinite(value):
                error = math.inf if abs(exact) < largest else 1.0
            else:
                error = float(abs(mp.mpf(value) - exact) / ulp(size, dtype))
            if error > worst:
                worst, where = error, tuple(point)
    return worst, where
