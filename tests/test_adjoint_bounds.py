"""Loop bounds, slice bounds and indices that are arbitrary expressions, or that change."""

import math

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from numba import prange

RNG = np.random.default_rng(41)


def backwards(x, a, m):
    s = 0.0
    for i in reversed(range(1 if m > 2 else 0, x.size)):
        s = s * x[i] + a
    return s


def two_at_once(x, a, m):
    s = 0.0
    for v, j in zip(x, range(1 if m > 0 else 2, 99)):
        s = s * v + a * j
    return s


def parallel(x, a, m):
    s = 0.0
    for i in prange(m | 1, x.size - 1 if m > 2 else x.size):
        s += math.sin(x[i] * a)
    return s


def steps(x, a, m):
    s = a
    for i in range(x.size - 1 if m > 2 else 2, m & 1, -1 if m > 1 else -2):
        s = s * x[i] + math.sin(x[i])
    for i in range(m & 1, x.size - 1 if m > 2 else 2, 2 if m > 1 else 1):
        s = s * x[i] + math.sin(x[i])
        if s > 3.0:
            break
    for i in range(m | 1, x.size - 1 if m > 2 else 2):
        s = s * x[i] + math.sin(x[i])
        if s > 3.0:
            break
    return s


def new_arrays(x, a, m):
    w = np.arange(m | 1, m | 5) * a
    v = np.arange(a - 1.0, 3.0, a + 0.1)
    u = np.zeros(4 if m > 2 else 3)
    for i in prange(0 if m > 1 else 1, u.size):
        u[i] = x[i] * x[i + 1] + x[0] * x[-1] * a
    q = np.array([x[i] * a for i in range(m & 1, 4 if m > 1 else 3)])
    return np.sum(w * w) + u.sum() * q.sum() * v.sum()


def parts(x, a, m):
    y = x[(-3 if m > 2 else 1) :]
    z = x[: (-2 if m > 2 else 4)]
    e = x[1:]
    return np.sum(y * y) + np.sum(np.sin(z)) * e[(1 if m > 2 else -1)] + e[(0 if m > 2 else -2)] * a


def set_in_loops(x, a, m):
    s = a
    for t in range(2):
        low, high = 1 if m > 2 else 0, (m | 5) - 2
        for i in range(high - 1, low - 1, -1):
            s = s * x[i] + math.sin(s + x[i + t])
        for i in range(low, high, 2 if m > 2 else 3):
            s = s * x[i] + math.sin(s + x[i + t - 1])
    return s


@pytest.mark.parametrize("m", range(1, 5))
@pytest.mark.parametrize("f", [backwards, two_at_once, parallel, steps, new_arrays, parts, set_in_loops])
def test_bounds_that_are_choices_or_made_of_bits(f, m):
    with uncompiled():
        agrees(f, (RNG.normal(size=7), 0.7, m))


@pytest.mark.parametrize("m", [2, 4])
def test_such_bounds_of_parallel_loops_compiled(m):
    agrees(parallel, (RNG.normal(size=7), 0.7, m))


def one_further(x, places, a):
    s = a
    for _ in range(3):
        s += x[places[0]]
        places[0] = places[0] + 1
        x[places[0]] = 0.5 * s * s
    return s


def around(x, places, a):
    s = a
    for _ in range(3):
        s = s * x[places[0]]
        places[0] = (places[0] + 2) % 5
        x[places[0]] = math.sin(s)
    return s


def through_others(x, places, a):
    w = np.zeros(x.size)
    for i in range(places.size):
        w[places[i]] = x[places[i]] * a
        places[i] = places[i] + 1
        x[places[i]] = w[places[i]] * a
    return w


@pytest.mark.parametrize("places", [[0, 0, 1], [1, 2, 3]])
@pytest.mark.parametrize("f", [one_further, around, through_others])
def test_indices_from_arrays_that_change(f, places):
    with uncompiled():
        agrees(f, (RNG.normal(size=6), np.array(places), 0.7))


def differences_of_lengths(x, y, z):
    """Negative indices that depend on lengths: they count from the end, and stay in range."""
    b = z[1:4]
    k = max(x.size - 5, 0) - max(y.size - 1, 0)
    s = b[len(x) - len(y)] * z[len(x) - len(y)] + b[max(x.size - 5, 0) - max(y.size - 1, 0)] * z[k]
    z[1 + x.size - y.size] = math.sin(s)
    return s * b[x.size - y.size] + b[x.shape[0] - y.shape[0] + 2]


def remainders_by_lengths(x, y, z):
    """Remainders and quotients by a length, which vary from iteration to iteration."""
    s = 0.0
    for i in range(8):
        s = math.sin(s + x[i % y.size] * z[i // y.size])
        x[i % y.size + 1] = s * 0.3 + x[i % y.size] ** 2 / (1.0 + x[i % y.size] ** 2)
        z[i // y.size + 1] = math.sin(s)
    return s


def parts_of_any_length(x, y, z):
    """New arrays in loops, with the lengths of slices."""
    starts = np.array([0, 2, 3, 5])
    s, found = 0.0, np.empty(x.size)
    for k in range(3):
        part = x[starts[k] : starts[k + 1]] * y[starts[k] : starts[k + 1]]
        e = np.exp(part - part.max())
        s += part @ e / e.sum() + part[-1]
    n = 0
    for i in range(z.size):
        window = np.sort(z[max(0, i - 1) : i + 2])
        s += window[len(window) // 2] * window[-1]
        if z[i] > 0.0:
            found[n] = z[i] * s
            n += 1
    if n == 0:
        return s
    return s + np.median(found[:n]) + np.cumsum(found[:n])[-1]


@pytest.mark.parametrize(
    ("f", "sizes"),
    [(differences_of_lengths, (2, 3, 5)), (remainders_by_lengths, (5, 4, 5)), (parts_of_any_length, (5, 5, 5))],
)
def test_lengths(f, sizes):
    for _ in range(3):
        with uncompiled():
            agrees(f, tuple(RNG.normal(size=n) for n in sizes), rtol=1e-5)
