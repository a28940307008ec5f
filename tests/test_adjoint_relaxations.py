"""Relaxations, ``d[v] = min(d[v], d[u] + w)``, which become branches where iterations may meet."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.loops.ir.passes import Pass, without

RNG = np.random.default_rng(6)
EDGES = RNG.integers(0, 5, 12), RNG.integers(0, 5, 12), RNG.uniform(0.5, 2.0, 12)


def all_pairs(d):
    for k in range(d.shape[0]):
        for i in range(d.shape[0]):
            for j in range(d.shape[0]):
                d[i, j] = min(d[i, j], d[i, k] + d[k, j])
    return np.sum(d**2)


def from_one(u, v, w):
    d = np.full(5, 9.0)
    d[0] = 0.0
    for _ in range(4):
        for e in range(u.size):
            d[v[e]] = min(d[u[e]] + w[e], d[v[e]])
    return np.sum(d**2)


def widest(u, v, w):
    d = np.zeros(5)
    d[0] = 9.0
    for _ in range(4):
        for e in range(u.size):
            through = min(d[u[e]], w[e])
            d[v[e]] = max(d[v[e]], through)
    return np.sum(d**3)


def by_selection(u, v, w):
    d = np.full(5, 3.0)
    for e in range(u.size):
        if u[e] != v[e]:
            d[v[e]] = d[u[e]] * w[e] if d[u[e]] * w[e] < d[v[e]] else d[v[e]]
    return np.sum(d**2)


@pytest.mark.parametrize(
    ("f", "args"),
    [(all_pairs, (RNG.uniform(0.5, 2.0, (4, 4)),)), (from_one, EDGES), (widest, EDGES), (by_selection, EDGES)],
)
def test_iterations_that_meet(f, args):
    with uncompiled():
        assert "np.bool_" in nb.adjoint(f).explain(*args)  # tests are recorded, elements are not
        with without(Pass.RELAXATIONS):
            assert "np.bool_" not in nb.adjoint(f).explain(*args)
        assert agrees(f, args)
    if f is not all_pairs:
        check_derivatives(f, *args)


def knapsack(value, size):
    best = np.zeros(9)
    for i in range(value.size):
        for c in range(8, size[i] - 1, -1):
            best[c] = max(best[c], best[c - size[i]] + value[i])
    return best[8]


def clipped(x, low):
    for _ in range(2):
        for i in range(x.size):
            x[i] = max(x[i], low)
            x[i] *= x[i]
    return np.sum(x)


def upper(a):
    for k in range(a.shape[0]):
        for j in range(k + 1, a.shape[0]):
            a[k, j] = min(a[k, j], a[k, k] * 0.5)
    return np.sum(a**2)


def test_iterations_that_keep_apart_have_no_branch():
    value, size = RNG.uniform(1.0, 2.0, 4), np.array([2, 3, 1, 4])
    for f, args in ((knapsack, (value, size)), (clipped, (value, 1.5)), (upper, (RNG.uniform(1.0, 2.0, (4, 4)),))):
        with uncompiled():
            assert "Changed by branches of relaxations" not in nb.adjoint(f).explain(*args)
            assert agrees(f, args)


def unless_small(x, u, k):
    for i in range(u.size):
        x[u[i] + k] = x[u[i]] if x[u[i]] > 0.7 else x[u[i] + k]
    return np.sum(x)


def test_an_element_that_only_the_selection_reads_is_checked():
    with uncompiled():
        assert agrees(unless_small, (np.array([0.2, 0.9, 0.4]), np.array([0, 1]), 1))
        with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 of x"):
            nb.adjoint(unless_small).vjp(np.array([0.2, 0.4, 0.4]), np.array([0, 1]), 2)
