"""A name that is a float and then an integer, ``k = int(k)``, or the other way round."""

import math

import numba
import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

RNG = np.random.default_rng(31)


def normal(*shape):
    return RNG.normal(size=shape)


def interval_stack(x, w):
    """What tuples of a list hold is a float; in what follows it is an integer."""
    stack = [(0, x.size, 1.0)]
    s = 0.0
    while stack:
        lo, hi, weight = stack.pop()
        lo, hi = int(lo), int(hi)
        if hi - lo == 1:
            s += weight * x[lo] * w
        elif hi > lo:
            mid = (lo + hi) // 2
            stack.append((lo, mid, weight * 0.5 * w))
            stack.append((mid, hi, weight * 0.7))
    return s


def rounded_below(x, w):
    s = 0.0
    for i in range(3):
        k = w * (i + 1) * 0.5
        s += k * k
        k = math.floor(k)
        s += x[k] * w
        k = round(s * 0.01)
        s += x[k] ** 2
    return s


def halved(x, w):
    """One variable, in all iterations."""
    k = x.size - 1
    s = 0.0
    while k > 0:
        s += x[k] * w
        k = int(k / 2)
    return s


def sometimes_rounded(x, w):
    k = w * 1.5
    if x[0] > 0:
        k = int(k)
    return k * w * x[1]


def in_expressions(x, w):
    s = 0.0
    for i in range(3):
        j = w * x[i] * 3.0
        s += j * j
        j = int(abs(j)) % 3
        s += x[j] * w
        j = w * 2.5
        j = min(int(j), 2)
        s += x[j]
    n = w * 2.0
    n = math.trunc(n)
    for _ in range(n):
        s += x[-n]
    n = s / n
    return n * x[1]


def number_first(x, w):
    p = 0
    p = x[p] * w
    q = 1
    for _ in range(2):
        q = -q + 1
        s = x[q] * p
        q = int(s * 0) + 1
    return s * p


def bisected(x, y):
    """`mid` is a float where `lo` and `hi` are taken for the floats that they were."""
    lo, total = x[0], 0.0
    hi = x[x.size - 1]
    span = hi - lo
    for t in range(y.size):
        lo = 0
        hi = x.size - 1
        while hi - lo > 1:
            mid = (lo + hi) // 2
            if x[mid] <= y[t]:
                lo = mid
            else:
                hi = mid
        total += (y[t] - x[lo]) / (x[hi] - x[lo]) * span
    return total


PROGRAMS = {
    "bisected": (bisected, np.array([0.1, 0.4, 0.7, 1.3, 2.0]), np.array([0.5, 1.4])),
    "in_expressions": (in_expressions, np.array([0.9, 1.5, 1.7, 2.1]), 1.3),
    "number_first": (number_first, np.array([0.9, 1.5, 1.7]), 1.3),
    "interval_stack": (interval_stack, normal(5), 0.8),
    "interval_stack, empty": (interval_stack, normal(0), 0.8),
    "rounded_below": (rounded_below, normal(4), 1.3),
    "halved": (halved, normal(9), 1.3),
    "sometimes_rounded": (sometimes_rounded, np.array([1.0, 2.0]), 1.3),
    "sometimes_rounded, not": (sometimes_rounded, np.array([-1.0, 2.0]), 1.3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, *args = PROGRAMS[name]
    with uncompiled():
        agrees(f, tuple(args), rtol=1e-5)


def test_a_float_that_is_an_index_is_refused():
    def rest(x):
        k = 0
        for i in range(3):
            k = k + x[i]
        j = k * 2.0
        j = j + 1.0
        return x[j]

    line = rest.__code__.co_firstlineno + 6
    with pytest.raises(TraceError, match=rf"line {line}: the float j where an integer is expected in 'return x\[j\]'"):
        nb.adjoint(rest).value_and_grad(np.ones(4))


@numba.njit
def in_blocks(x, threads):
    if threads == 1:
        n = 1
    else:
        n = np.ceil(x.size / threads)
    total = 0.0
    for b in range(0, n):
        total += x[b] ** 2
    return total


def test_ranges_of_numba_take_floats():
    with uncompiled():
        assert agrees(in_blocks, (np.arange(1.0, 8.0), 3))
        assert agrees(in_blocks, (np.arange(1.0, 8.0), 1))
        with pytest.raises(TraceError, match="the float n where an integer is expected"):
            nb.adjoint(in_blocks.py_func).value_and_grad(np.arange(1.0, 8.0), 3)
