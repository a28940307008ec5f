"""Grids, indices of matrices, covariances, and functions of numbers."""

import math

import numpy as np
import pytest
from loop_programs import agrees, twice, uncompiled
from programs.data import normal

import nbgrad as nb

pytestmark = pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # by NumPy 2.5

X, Y, A, S = normal(5), normal(4), normal(3, 4), normal(4, 4)


def grids(x, y, h):
    u, v = np.meshgrid(x, y)
    p, q = np.meshgrid(x * h, y, indexing="ij")
    return u * v, p * q**2, np.gradient(x * x), np.gradient(x, h), np.gradient(np.exp(y), 0.3)


def index_pairs(s):
    i, j = np.triu_indices(4, 1)
    k, m = np.tril_indices(4)
    a, b = np.unravel_index(np.argmax(s), s.shape)
    return s[i, j] ** 2, s[k, m] * s[0, 0], s[a, b] ** 2


def covariances(a, x, n):
    c = np.zeros((3, 3))
    for _ in range(n):
        c += np.cov(a) * x[0] + np.corrcoef(a) + np.cov(a.T, rowvar=False) * np.corrcoef(a.T, rowvar=False)
        a *= 1.1 + x[1] * a
    return c, np.average(a, axis=0), np.average(a, 1), np.average(x, None, x * x), np.matmul(a, a.T)


def numbers(x, s):
    y = np.fix(3.0 * x) * x + np.heaviside(x, 0.5) * x + np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-2.0)
    return y * np.asarray(s) + np.array(s), math.exp2(s) + math.cbrt(s) * np.fix(5 * s) * np.heaviside(s, 0.0)


ROWS = {grids: (X, Y, 0.4), index_pairs: (S,), covariances: (A, X, 2), numbers: (X, 0.7)}


@pytest.mark.parametrize("f", ROWS)
def test_functions(f):
    with uncompiled():
        agrees(f, ROWS[f])
        twice(f, ROWS[f])


def test_compiled():
    agrees(numbers, ROWS[numbers])
    agrees(grids, ROWS[grids])


def test_values_that_are_no_numbers():
    def f(x):
        return np.nan_to_num(x), np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-2.0), np.heaviside(x, 0.5)

    x = np.array([np.nan, np.inf, -np.inf, 0.0, -1.5, 2.0])
    with uncompiled():
        for found, expected in zip(nb.adjoint(f).vjp(x).value, f(x), strict=True):
            np.testing.assert_array_equal(found, expected)
