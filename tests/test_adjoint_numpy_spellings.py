"""What NumPy has several spellings for: options of reductions, ``np.r_`` and ``np.c_``, rows that are joined."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.8, -0.3, 1.4, 0.2, 2.1])
M = np.array([[0.8, -0.3, 1.4], [0.2, 2.1, -1.2]])
C = 0.4


def sums_where(x, c):
    return x.sum(where=x > c) * c + np.sum(x, where=x > 0.0) + np.prod(x, where=x > c)


def means_where(x, c):
    return x.mean(where=x > c) * np.mean(x * c, where=x < 1.0)


def rows_where(m, c):
    return np.sum(np.sum(m, axis=1, where=m > 0.0) ** 2) + np.sum(np.mean(m, axis=0, where=m > -1.3) * c)


def extrema_from(x, c):
    return np.max(x, initial=c) * np.min(x, initial=c * 0.1) + x.max(initial=5.0) * c


def extrema_where(m, c):
    return np.sum(np.max(m, axis=1, initial=c, where=m < 1.0) * m[:, 0]) + np.min(m, initial=c, where=m > 0.3)


def sums_from(x, c):
    return np.sum(x, initial=c) + np.prod(x, initial=c) * c


def dtypes(x, c):
    counted = np.sum(x > c, dtype=float)
    return counted * c * x[0] + np.mean(x, dtype=np.float64) + np.cumsum(x, dtype=float)[2] ** 2 + x.sum(dtype=None)


def any_where(x, c):
    return x[0] * np.any(x > 1.0, where=x > c) + x[1] * np.all(x > 0.0, where=x > c)


def joined_by_r(x, c):
    r = np.r_[0:3, x[1:3], c, x * c]
    return np.sum(r**2 * np.arange(r.size))


def rows_joined_by_r(m, c):
    r = np.r_[m, m * c]
    q = np.c_[m, m[:, 0] * c]
    return np.sum(r**2) * q[0, 3] + r.shape[0] + q.shape[1]


def columns_by_c(x, c):
    return np.sum(np.c_[x, x * c] ** 2 @ np.array([1.0, c]))


def rows_as_lists(x, c):
    r = np.vstack([x, [[1.0, c, 3, 4, 5]]])
    q = np.append([[1.0, 2.0]], [[x[0], c]], axis=0)
    return np.sum(r * r) * q[1, 0]


def numbers_joined(x, c):
    return np.sum(np.hstack([x[k] * k for k in range(3)]) ** 2) * c


def empty_at_first(x, c):
    r = np.array([])
    for v in x:
        if v > c:
            r = np.append(r, v * v)
    return np.sum(r) + np.sum(np.append([], x * c))


def powers_of_ten(x, c):
    return np.sum(x * 10 ** (-2)) + 10**-1 * c


def without_effect(x, c):
    y = np.sum(x) * c
    (
        +3.0 * c + x[0]
    )  # fmt: skip
    return y


def among_elements(x, c):
    return c * x[1] if 1.4 in x and 7.0 not in x[:2] else x[0]


@pytest.mark.parametrize(
    ("f", "a"),
    [
        *[(f, X) for f in (sums_where, means_where, extrema_from, sums_from, dtypes, any_where, joined_by_r,
                           columns_by_c, rows_as_lists, numbers_joined, empty_at_first, powers_of_ten, without_effect)],
        *[(f, M) for f in (rows_where, extrema_where, rows_joined_by_r)],
    ],
    ids=lambda p: getattr(p, "__name__", ""),
)  # fmt: skip
def test_agrees(f, a):
    with uncompiled():
        agrees(f, (a, C))


def test_membership_of_arrays():
    value, (gradient, _) = nb.adjoint(among_elements).value_and_grad(X, C)
    assert value == C * X[1]
    np.testing.assert_array_equal(gradient, [0.0, C, 0.0, 0.0, 0.0])


def test_the_largest_element_of_none_is_the_initial_one():
    def f(x, c):
        return np.max(x[x > 10.0], initial=c) + np.min(x[5:], initial=c)

    value, (gradient, slope) = nb.adjoint(f).value_and_grad(X, C)
    assert (value, slope) == (2 * C, 2.0)
    np.testing.assert_array_equal(gradient, np.zeros(5))


def spread_where(x):
    return np.std(x, where=x > 0.0)


def product_from(x):
    return np.mean(x, initial=2.0)


def by_text(x):
    return np.sum(np.r_["-1", x])


@pytest.mark.parametrize("f", [spread_where, product_from, by_text])
def test_refused(f):
    with pytest.raises(TraceError, match=r"test_adjoint_numpy_spellings\.py, line"):
        nb.adjoint(f).value_and_grad(X)
