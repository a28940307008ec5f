"""A name that is a float and then, rounded, an integer: ``k = int(k)``."""

import math

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

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


PROGRAMS = {
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
