"""Arrays of which a nest of loops overwrites every element are saved there once, not in each update that follows."""

import math

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb

RNG = np.random.default_rng(31)


def normal(*shape):
    return RNG.normal(size=shape)


def congruence(A, F, n):
    """As covariances are propagated: a product whose left factor is made anew in each step."""
    for _ in range(n):
        A = F @ A @ F.T
    return np.sum(A * A)


def by_hand(A, F, n):
    left = np.empty((F.shape[0], A.shape[1]))
    for _ in range(n):
        for i in range(F.shape[0]):
            for j in range(A.shape[1]):
                left[i, j] = 0.0
                for k in range(F.shape[1]):
                    left[i, j] += F[i, k] * A[k, j]
        for i in range(A.shape[0]):
            for j in range(A.shape[1]):
                A[i, j] = 0.0
                for k in range(A.shape[1]):
                    A[i, j] += left[i, k] * F[j, k] ** 2


def but_the_last(x, c, n):
    """The loop misses an element, whose values are read in later iterations."""
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size - 1):
            w[i] = 0.0
        for i in range(x.size):
            w[i] += 0.1 * c[t] * x[i] * w[i - 1] * w[x.size - 1]
        for i in range(x.size):
            x[i] = math.sin(w[i]) * x[i]


def under_a_test(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size):
            if c[t] * x[i] > 0.0:
                w[i] = 0.5
        for i in range(x.size):
            w[i] += c[t] * x[i] * x[i]
        for i in range(x.size):
            x[i] = w[i] ** 2 * x[i]


def in_a_loop_that_ends(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size):
            if c[t] > 0.3 * i:
                break
            w[i] = 0.5
        for i in range(x.size):
            w[i] += c[t] * x[i] * x[i]
        for i in range(x.size):
            x[i] = w[i] ** 2 * x[i]


def along_the_diagonal(A, c, n):
    w = np.ones(A.shape)
    for t in range(n):
        for i in range(A.shape[0]):
            w[i, i] = 0.0
        for i in range(A.shape[0]):
            for j in range(A.shape[1]):
                w[i, j] += c[t] * A[i, j]
                A[i, j] = w[i, j] ** 2


def backwards(x, c, n):
    """A loop in the other direction, and one that starts at 1."""
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size - 1, -1, -1):
            w[i] = 0.1
        for i in range(x.size):
            w[i] += c[t] * x[i] ** 2
            x[i] = w[i] ** 2
        for i in range(1, x.size):
            w[i] = 0.2
        for i in range(x.size):
            w[i] += c[t] * x[i] ** 2
            x[i] = w[i] ** 3


def swapped(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size):
            w[i] = 0.0
        for i in range(x.size):
            w[i] += c[t] * x[i] * x[i - 1]
        w, x = x, w
    return np.sum(w * x)


def reads_what_it_overwrites(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size):
            w[i] = w[i] * w[x.size - 1 - i] * c[t]
        for i in range(x.size):
            w[i] += x[i] * w[i] * w[i - 1]


PROGRAMS = [
    (congruence, (normal(4, 4), normal(4, 4) / 2, 3)),
    (by_hand, (normal(4, 4), normal(4, 4) / 2, 3)),
    (but_the_last, (normal(5), normal(3), 3)),
    (under_a_test, (normal(5), normal(3), 3)),
    (in_a_loop_that_ends, (normal(5), normal(3), 3)),
    (along_the_diagonal, (normal(4, 4) / 2, normal(3), 3)),
    (backwards, (normal(5) / 2, normal(3), 3)),
    (swapped, (normal(5), normal(3), 3)),
    (reads_what_it_overwrites, (normal(5), normal(3), 3)),
]


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("f, args", PROGRAMS)
def test_agrees(f, args, n):
    with uncompiled():
        agrees(f, (*args[:-1], n))


@pytest.mark.parametrize("f", [congruence, by_hand])
def test_compiled(f):
    args = PROGRAMS[0][1]
    agrees(f, args)
    _, (a, b, _) = nb.adjoint(congruence).value_and_grad(*args)
    _, (c, d, _) = nb.adjoint(congruence, checkpoint=2).value_and_grad(*args)
    np.testing.assert_allclose(a, c, rtol=1e-13)
    np.testing.assert_allclose(b, d, rtol=1e-13)


def test_second_derivatives():
    args, directions, h = PROGRAMS[0][1], (normal(4, 4), normal(4, 4), None), 1e-5
    adj = nb.adjoint(congruence)
    up, down = (
        adj.value_and_grad(args[0] + s * directions[0], args[1] + s * directions[1], args[2])[1] for s in (h, -h)
    )
    for found, a, b in zip(adj.hvp(args, directions)[:2], up, down, strict=False):
        np.testing.assert_allclose(found, (a - b) / (2 * h), rtol=1e-6, atol=1e-6 * np.max(np.abs(found)))


@pytest.mark.parametrize("f", [congruence, by_hand])
def test_no_tape_has_an_entry_for_each_term_of_a_product(f):
    size, steps = 10, 3
    args = normal(size, size), normal(size, size), steps
    report = nb.adjoint(f).report(*args)
    tapes = {name: n for name, n in report.items() if not name.startswith("a copy of")}
    assert set(tapes.values()) == {8 * steps * size**2}
    assert len(tapes) == 2
    if f is congruence:
        assert nb.adjoint(f)._generated(args).text.count("add_product(") == 6  # two forward, four in reverse
