"""Sums and means of what a mask selects: as NumPy's, with nothing stored but the mask."""

import numpy as np
import pytest

import nbgrad as nb

X = np.array([0.3, -1.2, 0.8, 2.1, -0.4, 1.7])
W = np.array([1.0, 0.5, 2.0, 0.25, 1.5, 3.0])
EDGES = np.array([-2.0, 0.0, 1.0, 3.0])


def histogram(x, w):
    out = np.zeros(EDGES.size - 1)
    for b in range(EDGES.size - 1):
        m = (x >= EDGES[b]) & (x < EDGES[b + 1])
        if np.any(m):
            out[b] = np.sum(w[m] * x[m]) / np.sum(w[m])
    return np.sum(out * out)


def comparisons(x, w):
    return np.sum(x[x > 0.0] ** 2) + w[w < 2.5].mean() * np.mean(np.sin(x[~(x > 1.0)])) + x[x > 100.0].sum()


def with_numbers(x, w):
    s = 0.0
    for t in range(3):
        shift = w[t] * 2.0
        s += np.sum(np.exp(shift * x[x < shift]) - 1.0)
    return s


def of_integers(x, w):
    k = np.arange(x.size)
    return np.sum(k[x > 0.0]) * x[0] + np.mean(k[k > 2]) * w[1]


def changed_between(x, w):
    s = 0.0
    m = x > 0.0
    for t in range(3):
        s += np.sum(x[m] * w[m]) * x[t]
        m[t] = False
        x[t] *= 0.5
    return s + np.mean(x[m])


def other_masks(x, w):
    m, q = x > 0.0, w > 1.2
    return (
        np.sum(x[m]) * np.sum(w[q])
        + np.sum(x[m] * 2.0 + w[m] * x[m])
        + np.sum(x[m][:2])
        + np.max(x[m])
        + np.sum(x[m] ** w[m])
    )


def of_a_matrix(x, w):
    a = np.outer(x, w)
    return np.sum(a[a > 0.5] * a[a > 0.5]) + a[0][x > 0.0].sum()


@pytest.mark.parametrize(
    "f", [histogram, comparisons, with_numbers, of_integers, changed_between, other_masks, of_a_matrix]
)
def test_values_and_derivatives(f):
    u, v = np.cos(np.arange(6.0)), np.sin(np.arange(6.0))
    adj = nb.adjoint(f)
    value, (dx, dw) = adj.value_and_grad(X.copy(), W.copy())
    assert value == pytest.approx(f(X.copy(), W.copy()), rel=1e-14)
    slope = (f(X + 1e-6 * u, W + 1e-6 * v) - f(X - 1e-6 * u, W - 1e-6 * v)) / 2e-6
    assert dx @ u + dw @ v == pytest.approx(slope, rel=1e-8)
    tangent = nb.tangent(f).jvp((X.copy(), W.copy()), (u, v))[1]
    assert (tangent[0] if isinstance(tangent, tuple) else tangent) == pytest.approx(slope, rel=1e-8)


def test_what_is_stored():
    assert max(nb.adjoint(histogram).report(np.ones(1000), np.ones(1000)).values()) <= 3 * 1000  # a byte per element


def test_a_mask_of_another_length():
    def f(x, w):
        return np.sum(x[w > 1.0])

    with pytest.raises(IndexError, match="mask of another length"):
        nb.adjoint(f).value_and_grad(X, W[:4])


def test_the_mean_of_nothing_is_nan():
    def f(x):
        return np.mean(x[x > 100.0])

    assert np.isnan(nb.adjoint(f).value_and_grad(X)[0])
