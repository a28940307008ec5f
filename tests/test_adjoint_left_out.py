"""Second derivatives through what a branch, a selection or a test for NaN leaves out are those of what is taken."""

import math

import numpy as np
import pytest

import nbgrad as nb


def in_exp(x, a):
    return math.exp(math.sqrt(x) if x > 0 else a)


def in_tanh(x, a):
    return math.tanh(math.sqrt(x) if x > 0 else a) ** 2


def in_erfc(x, a):
    return math.erfc(math.sqrt(x) if x > 0 else a)


def in_a_maximum(x, a):
    return math.exp(-math.sqrt(max(x, 0.0)) + a)


def beside_a_test(x, a):
    if np.isnan(a):
        return 0.0
    return math.sqrt((x if x > 0 else 1.0) * a)


def root_or_square(x, a):
    if np.isnan(x):
        return 0.0
    return (math.sqrt(a) if a > 0.95 else a * a) * (math.acos(x * a) if abs(x * a) < 0.1 else a)


FUNCTIONS = [in_exp, in_tanh, in_erfc, in_a_maximum, beside_a_test, root_or_square]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_sides_that_are_not_taken(f):
    x, a, step = -1.2, 0.9, 1e-6
    adj = nb.adjoint(f)
    for direction in ((0.5, 1.0), (1.0, 0.0), (0.0, 1.0)):
        sides = [adj.value_and_grad(x + s * direction[0], a + s * direction[1])[1] for s in (step, -step)]
        expected = (np.array(sides[0]) - np.array(sides[1])) / (2 * step)
        np.testing.assert_allclose(adj.hvp((x, a), direction), expected, rtol=1e-6, atol=1e-8)


def roots(x, z):
    total = 0.0
    for i in range(x.size):
        if np.isnan(x[i]):
            continue
        total += math.sqrt(max(z[i] * x[i], 0.0))
    return total * total


def masked(x, z):
    return np.sum(np.where(np.isnan(x), 0.0, x * np.exp(z[0] * x)))


def powers(x, z):
    return np.nansum(np.abs(x) ** 1.5 * z) ** 0.5


def roots_of_products(x, z):
    return np.nansum(z * np.sqrt(np.maximum(x, 0.0))) ** 2


def selected(x, z):
    return np.nansum(np.sqrt(np.where(x > 0.0, x, 1.0) * np.exp(z)))


@pytest.mark.parametrize("f", [roots, masked, powers, roots_of_products, selected], ids=lambda f: f.__name__)
def test_missing_values(f):
    x = np.array([0.4, np.nan, 1.3, -0.7, 2.0])
    z, dx, dz = np.array([0.5, 0.8, 1.2, 0.9, 1.1]), np.array([0.3, 0.0, -0.5, 0.9, 0.2]), np.linspace(-0.4, 1.0, 5)
    adj, step = nb.adjoint(f), 1e-6
    products = adj.hvp((x, z), (dx, dz))
    plus, minus = (adj.value_and_grad(x + s * dx, z + s * dz)[1] for s in (step, -step))
    for product, a, b in zip(products, plus, minus, strict=True):
        np.testing.assert_allclose(product, (a - b) / (2 * step), rtol=1e-6, atol=1e-8)
    assert products[0][1] == 0.0
