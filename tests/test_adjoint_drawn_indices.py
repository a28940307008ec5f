"""Indices that are drawn or computed by calls: once, in Python's order."""

# ruff: noqa: NPY002  # it is the legacy functions that Numba has without a generator

import numba
import numpy as np
import pytest

import nbgrad as nb


@numba.njit
def _seeded(seed):
    np.random.seed(seed)


def drawn_element(x):
    s = 0.0
    for i in range(4):
        s += x[np.random.randint(0, 5)] * (i + 1)
    return s + x[np.random.randint(0, 5), ...] * np.random.rand()


def drawn_target(x):
    x[np.random.randint(0, 5)] = np.random.rand()
    return np.sum(x * np.arange(5)) + np.random.rand()


def drawn_update(x):
    x[np.random.randint(0, 5)] += np.random.rand()
    m = np.outer(x, x)
    m[np.random.randint(0, 5), np.random.randint(0, 5)] *= 2.0
    m[int(x[1]), 0] -= np.random.rand()
    m[len(x) - 1] += x
    return np.sum(m * np.arange(25).reshape(5, 5)) + np.random.rand()


@pytest.mark.parametrize("f", [drawn_element, drawn_target, drawn_update])
def test_indices_are_drawn_once(f):
    compiled, x = numba.njit(f), np.arange(5.0) + 0.5
    for seed in range(6):
        _seeded(seed)
        expected = compiled(x.copy())
        _seeded(seed)
        assert nb.adjoint(f).value_and_grad(x.copy())[0] == pytest.approx(expected, rel=1e-13)


def drawn_indices(x):
    x[np.random.randint(0, 5, 3)] += 1.0
    return np.sum(x * np.arange(5)) + np.random.rand()


def the_same_by_hand(x):
    index, before = np.random.randint(0, 5, 3), x.copy()
    for k in range(3):
        x[index[k]] = before[index[k]] + 1.0
    return np.sum(x * np.arange(5)) + np.random.rand()


def test_arrays_of_indices_are_drawn_once():
    x = np.arange(5.0) + 0.5
    for seed in range(6):
        _seeded(seed)
        expected = numba.njit(the_same_by_hand)(x.copy())
        _seeded(seed)
        assert nb.adjoint(drawn_indices).value_and_grad(x.copy())[0] == pytest.approx(expected, rel=1e-13)
