"""Fluxes: what the two cells beside a flux add to its cotangent is gathered where the reverse sweep reads it."""

import math

import numpy as np
import pytest
from loop_programs import agrees, twice, uncompiled

import nbgrad as nb

RNG = np.random.default_rng(29)
SIZES = [1, 2, 3, 4, 5, 8]


def two_fluxes(q, v, c, steps):
    f, g = np.zeros(q.size), np.zeros(q.size)
    for _ in range(steps):
        for i in range(1, q.size):
            f[i] = c * q[i - 1] * v[i]
            g[i] = math.sin(q[i] - q[i - 1])
        for i in range(1, q.size - 1):
            q[i] -= 0.1 * (f[i + 1] - f[i])
            v[i] += c * g[i] * v[i] - 0.3 * g[i + 1]
    return np.sum(q * v)


def limited(q, v, c, steps):
    """The limiter, in a loop of its own, chooses between neighbours."""
    slope, f = np.zeros(q.size), np.zeros(q.size)
    for _ in range(steps):
        for i in range(1, q.size - 1):
            a, b = q[i] - q[i - 1], q[i + 1] - q[i]
            slope[i] = min(a, b) if a * b > 0.0 else 0.0
        for i in range(1, q.size - 2):
            f[i] = v[i] * (q[i] + 0.5 * (1.0 - c) * slope[i])
        for i in range(2, q.size - 2):
            q[i] -= f[i] - f[i - 1]
    return q.sum()


def in_a_plane(q, v, c, steps):
    f = np.zeros_like(q)
    for _ in range(steps):
        for i in range(q.shape[0]):
            for j in range(1, q.shape[1]):
                f[i, j] = c * q[i, j] * q[i, j - 1] + v[i, j]
        for i in range(q.shape[0]):
            for j in range(1, q.shape[1] - 1):
                q[i, j] += f[i, j + 1] - 2.0 * f[i, j]


def read_afterwards(q, v, c, steps):
    """The result reads the fluxes, too."""
    f, total = np.zeros(q.size), 0.0
    for _ in range(steps):
        for i in range(1, q.size):
            f[i] = q[i] * q[i - 1]
        for i in range(1, q.size - 1):
            q[i] += c * (f[i + 1] - f[i])
        for i in range(q.size):
            total += f[i] * v[i]
    return total


def adding_up(q, v, c, steps):
    """Fluxes accumulate and are never reset to zero."""
    f = np.zeros(q.size)
    for _ in range(steps):
        for i in range(1, q.size):
            f[i] += v[i] * q[i - 1]
        for i in range(1, q.size - 1):
            q[i] += c * (f[i + 1] - f[i])
    return q.sum()


def sometimes(q, v, c, steps):
    """Some iterations leave the flux unchanged."""
    f = np.zeros(q.size)
    for _ in range(steps):
        for i in range(1, q.size):
            if v[i] > 0.0:
                f[i] = c * q[i] * q[i - 1]
        for i in range(1, q.size - 1):
            q[i] += f[i + 1] - f[i]
    return q.sum()


def at_the_ends(q, v, c, steps):
    """Some fluxes are set outside of the loop."""
    f = np.zeros(q.size + 1)
    for _ in range(steps):
        f[0], f[q.size] = c, v[0]
        for i in range(1, q.size):
            f[i] = q[i] * q[i - 1]
        for i in range(q.size):
            q[i] += 0.2 * (f[i + 1] - f[i])
    return q.sum()


def with_its_own(q, v, c, steps):
    """One contribution to a flux is no multiple of its neighbour's, and is added before."""
    f = np.zeros(q.size)
    for _ in range(steps):
        for i in range(1, q.size):
            f[i] = c * q[i] * q[i - 1]
        for i in range(1, q.size - 1):
            q[i] += v[i] * f[i + 1] - f[i] * f[i]
    return q.sum()


def of_the_next(q, v, c, steps):
    """A flux depends on the next one, whose cotangent gets this contribution just before it is read."""
    f = np.zeros(q.size + 1)
    for _ in range(steps):
        for i in range(q.size - 1, 0, -1):
            f[i] = c * q[i] * q[i - 1] + 0.5 * f[i + 1]
        for i in range(1, q.size - 1):
            q[i] += v[i] * (f[i + 1] - f[i])
    return q.sum()


PROGRAMS = [
    of_the_next,
    two_fluxes,
    limited,
    in_a_plane,
    read_afterwards,
    adding_up,
    sometimes,
    at_the_ends,
    with_its_own,
]


def arguments(f, size, steps):
    shape = (3, size) if f is in_a_plane else size
    return RNG.normal(size=shape), RNG.normal(size=shape), 0.4, steps


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients(f):
    with uncompiled():
        for size in SIZES:
            for steps in (0, 1, 3):
                agrees(f, arguments(f, size, steps), rtol=1e-5)


@pytest.mark.parametrize("f", [two_fluxes, in_a_plane, with_its_own], ids=lambda f: f.__name__)
def test_second_order(f):
    with uncompiled():
        twice(f, arguments(f, 5, 2))


@pytest.mark.parametrize("f", [two_fluxes, in_a_plane], ids=lambda f: f.__name__)
def test_compiled(f):
    agrees(f, arguments(f, 40, 3), rtol=1e-5)


def text(f):
    return nb.adjoint(f)._generated(arguments(f, 5, 2)).text


@pytest.mark.parametrize("f", [two_fluxes, limited, in_a_plane], ids=lambda f: f.__name__)
def test_fluxes_that_are_only_handed_over_have_no_arrays(f):
    assert "f_bar = np." not in text(f)
    assert "f_bar_here = " in text(f)


def test_what_else_there_is_keeps_its_array():
    assert "g_bar = np.zeros_like(g)" in text(two_fluxes)
    for f in (read_afterwards, adding_up, sometimes, at_the_ends, with_its_own):
        assert "f_bar = np.zeros_like(f)" in text(f)
        assert "f_bar_here" not in text(f)
    begins = "        for i in range(1, q.size):\n            f_bar[i] += f_bar_row[i] - f_bar_row[i + 1]\n"
    assert begins in text(read_afterwards)
    assert "        if q.size - 1 > 1:\n            for i in range(1, q.size):\n" in text(sometimes)


def patch(at, c, x):
    """Each iteration reads 35 rows."""
    out = np.zeros(c.shape[1])
    for k in range(c.shape[1]):
        out[k] = (
            x[0] * (c[at, k] + c[at + 1, k] + c[at + 2, k] + c[at + 3, k] + c[at + 4, k])
            + x[1] * (c[at + 5, k] + c[at + 6, k] + c[at + 7, k] + c[at + 8, k] + c[at + 9, k])
            + x[2] * (c[at + 10, k] + c[at + 11, k] + c[at + 12, k] + c[at + 13, k] + c[at + 14, k])
            + x[3] * (c[at + 15, k] + c[at + 16, k] + c[at + 17, k] + c[at + 18, k] + c[at + 19, k])
            + x[4] * (c[at + 20, k] + c[at + 21, k] + c[at + 22, k] + c[at + 23, k] + c[at + 24, k])
            + x[5] * (c[at + 25, k] + c[at + 26, k] + c[at + 27, k] + c[at + 28, k] + c[at + 29, k])
            + x[6] * (c[at + 30, k] + c[at + 31, k] + c[at + 32, k] + c[at + 33, k] + c[at + 34, k])
        )
    return out


def few(at, c, x):
    out = np.zeros(c.shape[1])
    for k in range(c.shape[1]):
        out[k] = x[0] * (c[at, k] + c[at + 1, k]) + x[1] * (c[at + 2, k] + c[at + 3, k])
    return out


def test_only_a_few_neighbours_get_rows():
    args = 2, np.random.default_rng(3).normal(size=(40, 3)), np.linspace(0.2, 1.1, 7)
    for f, rows in ((patch, False), (few, True)):
        with uncompiled():
            agrees(f, args)
            adj = nb.adjoint(f)
            adj.vjp(*args)
        assert ("c_bar_row" in adj.source) == rows
