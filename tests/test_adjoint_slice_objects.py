"""Slices that have names, types of Numba's that are called, and limits of types."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from numba import float32, float64, int64, intp, uint32

import nbgrad as nb
from nbgrad.errors import TraceError

RNG = np.random.default_rng(12)
ENTRIES, ROWS, COLUMNS = RNG.normal(size=6), np.array([0, 2, 3, 6]), np.array([0, 2, 1, 0, 1, 2])
WEIGHTS = RNG.normal(size=3)


def sparse_rows(x, rows, columns, w):
    """The sum over the rows of a sparse matrix, as in a statistic of spatial correlation."""
    total = 0.0
    for i in range(rows.size - 1):
        s = slice(rows[i], rows[i + 1])
        values, near = x[s], columns[s]
        total += np.sum(values * (w[i] - w[near]) ** 2)
    return total


def differences(x, a):
    later, earlier, even = slice(1, None), slice(None, -1), slice(0, 4, 2)
    d = x[later] - x[earlier]
    a[slice(2), 1] = 2.0 * a[later, 0][:2]
    a[0][slice(0, 2)] += x[even]
    return np.sum(d * d) + np.sum(a[even, 1:] ** 2) + np.sum(a[slice(1, 3), earlier])


def by_branch(x, k):
    if k > 1:
        s = slice(0, k)
    else:
        s = slice(k, x.size)
    return np.sum(x[s] ** 2) * (s.stop - s.start)


def called_types(x, n):
    total = float32(0.0)
    for i in range(uint32(n)):
        total += x[i] * float64(i + 1)
    z = np.ones(2, dtype=float32)
    return total * x[int64(2.7)] + x[intp(n)] * z[0]


def limits(x, n):
    info = np.finfo(np.float64)
    close = 1.0 if abs(x[0] - x[1]) < info.eps else np.finfo(np.float32).eps
    return x[0] * close + x[1] * np.iinfo(np.int16).max + min(x[2], info.max) * np.finfo(np.float32).bits


PROGRAMS = [
    (sparse_rows, (ENTRIES, ROWS, COLUMNS, WEIGHTS)),
    (differences, (RNG.normal(size=5), RNG.normal(size=(5, 3)))),
    (by_branch, (WEIGHTS, 2)),
    (by_branch, (WEIGHTS, 1)),
    (limits, (WEIGHTS, 3)),
]


@pytest.mark.parametrize(("f", "args"), PROGRAMS)
def test_values_and_derivatives(f, args):
    with uncompiled():
        assert agrees(f, args)


def test_types_that_are_called():
    x = ENTRIES
    value, (x_bar, _) = nb.adjoint(called_types).value_and_grad(x, 3)
    total = x[0] + 2.0 * x[1] + 3.0 * x[2]
    assert value == pytest.approx(total * x[2] + x[3], rel=1e-6)
    expected = [x[2], 2.0 * x[2], 3.0 * x[2] + total, 1.0, 0.0, 0.0]
    np.testing.assert_allclose(x_bar, expected, rtol=1e-6)


def test_an_index_out_of_range_beside_a_slice():
    def f(a, k):
        s = slice(0, 0)
        return np.sum(a[k, s])

    assert nb.adjoint(f).value_and_grad(np.ones((2, 2)), 1)[0] == 0.0
    with pytest.raises(IndexError, match="axis 0 of a"):
        nb.adjoint(f).value_and_grad(np.ones((2, 2)), 2)


def test_limits_of_what_is_no_type():
    def f(x):
        return np.iinfo(np.float64).max * x[0]

    with pytest.raises(TraceError, match=r"name a type, as in np\.finfo"):
        nb.adjoint(f).value_and_grad(WEIGHTS)
