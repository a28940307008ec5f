"""Loop distribution: reverse loops with dependences in one direction restore elements before and add to them after."""

import random

import numpy as np
import pytest
from loop_programs import agrees, twice, uncompiled
from random_loops import Program, arguments, function

import nbgrad as nb

RNG = np.random.default_rng(31)


def normal(*shape):
    return RNG.normal(size=shape)


def tree(v, p, k):
    """The price of an option on a binomial tree."""
    for t in range(v.size - 2, -1, -1):
        for i in range(t + 1):
            v[i] = max(p * v[i] + (1.0 - p) * v[i + 1], k * v[i] ** 2)
    return v[0]


def neville(x, y, at):
    """The value of an interpolating polynomial at one point."""
    for m in range(1, x.size):
        for i in range(x.size - m):
            y[i] = ((at - x[i + m]) * y[i] + (x[i] - at) * y[i + 1]) / (x[i] - x[i + m])
    return y[0]


def divided(x, y):
    """Divided differences, from the end on."""
    for j in range(1, x.size):
        for i in range(x.size - 1, j - 1, -1):
            y[i] = (y[i] - y[i - 1]) * y[i] / (x[i] - x[i - j])


def recurrence(y, c):
    """Each iteration needs the one before."""
    for _ in range(2):
        for i in range(y.size - 1):
            y[i + 1] = y[i + 1] * c + np.sin(y[i])
        for i in range(y.size - 1, 0, -1):
            y[i - 1] = y[i - 1] - c * np.sin(y[i])


def both_ways(y, c):
    """Neighbours on both sides: one has been overwritten, the other has not."""
    for _ in range(2):
        for i in range(1, y.size - 1):
            y[i] = y[i] + c * (y[i - 1] * y[i] + y[i + 1] ** 2)


def rows(a, c):
    for _ in range(2):
        for i in range(a.shape[0] - 1):
            for j in range(a.shape[1] - 2):
                a[i, j] = a[i, j] * a[i, j + 2] + c * a[i, j + 1] + a[i + 1, j] ** 2 + a[i, j + 2]


def in_a_branch(y, c):
    for _ in range(2):
        for i in range(y.size - 1):
            a = y[i + 1] * c
            if y[i] > 0.0:
                y[i] = a * y[i] + y[i + 1]
            if i > 1:
                y[i] += y[i + 1]


def at_the_end(y):
    """A negative index may be any element."""
    for i in range(y.size - 1):
        y[i] = y[i] * y[i + 1] + y[-1] * y[-i]


SIZES = 1, 2, 3, 4, 7
CASES = [
    *((tree, (normal(n), 0.4, 0.3)) for n in SIZES),
    *((neville, (np.arange(float(n)) ** 1.3, normal(n), 0.7)) for n in SIZES),
    *((divided, (np.arange(float(n)) ** 1.3, normal(n))) for n in SIZES),
    (tree, (normal(14)[::-2], 0.4, 0.3)),
    *((f, (normal(n), 0.4)) for f in (recurrence, both_ways, in_a_branch) for n in SIZES),
    *((rows, (normal(n, m), 0.4)) for n, m in [(1, 1), (2, 3), (3, 2), (2, 4), (4, 7)]),
    *((at_the_end, (normal(n),)) for n in SIZES),
]


@pytest.mark.parametrize("f, args", CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_gradients(f, args):
    with uncompiled():
        agrees(f, args)


@pytest.mark.parametrize("f, args", [(tree, (normal(4), 0.4, 0.3)), (rows, (normal(3, 4), 0.4))])
def test_second_order(f, args):
    with uncompiled(shuffle=False):
        twice(f, args)


def test_compiled():
    agrees(tree, (normal(40), 0.4, 0.3))
    agrees(divided, (np.arange(12.0) ** 1.3, normal(12)))
    agrees(rows, (normal(5, 40), 0.4))


def test_checkpoints():
    v, weights = normal(6), (0.7, np.ones(6))
    found = [nb.adjoint(tree, **how).vjp(v.copy(), 0.4, 0.3)(weights) for how in ({}, {"checkpoint": 2})]
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("f, args, late", [
    (tree, (normal(4), 0.4, 0.3), True), (neville, (normal(4), normal(4), 0.7), True),
    (divided, (normal(4), normal(4)), True), (rows, (normal(3, 4), 0.4), True),
    (recurrence, (normal(4), 0.4), False), (both_ways, (normal(4), 0.4), False), (at_the_end, (normal(4),), False),
])  # fmt: skip
def test_which_loops_are_postponed(f, args, late):
    assert ("_late[" in nb.adjoint(f)._generated(args).text) == late


def test_the_first_of_several_values_of_an_element_remains():
    """In this program an inner loop adds to the same element in all of its iterations."""
    with uncompiled():
        agrees(function(Program(random.Random(9700181)).source()), arguments(40), rtol=1e-5)
