"""Functions that saturate where an exponential in their divisor overflows, and roots of arrays of squares."""

import math

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb


def one_line(z):
    return 1.0 / (1.0 + math.exp(-z))


def named(z):
    e = math.exp(-z)
    d = 1.0 + e
    return 1.0 / d


def squared(z):
    return 1.0 / (1.0 + math.exp(-z)) ** 2


def power(z):
    return (1.0 + math.exp(-z)) ** -1.5


def hyperbolic(z):
    return 1.0 / math.cosh(z) + 1.0 / math.sinh(z)


def weighted(z):
    w = 2.0 + z * z
    return 3.0 / (1.0 + w * math.exp(-z)) + w * 0.0


def in_branches(z):
    e = 0.0
    if z < 0:
        e = math.exp(-z)
    return 2.0 / (1.0 + e)


SATURATED = [one_line, named, squared, power, hyperbolic, weighted, in_branches]


@pytest.mark.parametrize("f", SATURATED)
def test_saturated_functions(f):
    with uncompiled():
        agrees(f, (-1.3,))
    adj, tangent = nb.adjoint(f), nb.tangent(f)
    with np.errstate(all="ignore"):
        value, (gradient,) = adj.value_and_grad(-800.0)
        assert (value, gradient) == (0.0, 0.0)
        assert tangent.jvp((-800.0,), (1.0,))[1] == 0.0
        assert adj.hvp((-800.0,), (1.0,))[0] == 0.0


def of_arrays(z):
    return np.sum(1 / (1 + np.exp(-z)))


def in_loops(z):
    total = 0.0
    for i in range(z.size):
        total += 1.0 / (1.0 + math.exp(-z[i]))
    return total


def stored(z):
    e = np.empty_like(z)
    for i in range(z.size):
        e[i] = np.exp(-z[i])
    total = 0.0
    for i in range(z.size):
        total += 1.0 / (1.0 + e[i])
        e[i] = 0.0
    return total


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("f", [of_arrays, in_loops, stored])
def test_saturated_elements(f, dtype):
    z = np.array([-800.0, 0.5, -1.0], dtype)
    s = 1 / (1 + np.exp(-z[1:].astype(float)))
    adj = nb.adjoint(f)
    value, (gradient,) = adj.value_and_grad(z)
    assert value == pytest.approx(s.sum(), rel=1e-6)
    np.testing.assert_allclose(gradient, [0, *(s * (1 - s))], rtol=1e-5)
    np.testing.assert_allclose(adj.hvp((z,), (np.ones_like(z),))[0], [0, *(s * (1 - s) * (1 - 2 * s))], rtol=1e-5)


def test_logistic_regression_stays_finite():
    def loss(x, w, y):
        total = 0.0
        for i in range(x.shape[0]):
            z = 0.0
            for j in range(x.shape[1]):
                z += x[i, j] * w[j]
            total += (1.0 / (1.0 + math.exp(-z)) - y[i]) ** 2
        return total

    x = np.array([[1.0, 2.0], [-900.0, 1.0], [0.5, -0.3]])
    args = x, np.array([1.2, -0.4]), np.array([1.0, 0.0, 1.0])
    gradients = nb.adjoint(loss).value_and_grad(*args)[1]
    finite = nb.adjoint(loss).value_and_grad(x[[0, 2]], args[1], args[2][[0, 2]])[1]
    np.testing.assert_allclose(gradients[0], [finite[0][0], [0, 0], finite[0][1]])
    np.testing.assert_allclose(gradients[1], finite[1])


def test_overflows_that_reach_no_divisor_are_infinite():
    def f(z):
        return math.exp(z)

    assert nb.adjoint(f).value_and_grad(800.0) == (np.inf, (np.inf,))


def by_scalars(p):
    n = p.shape[0]
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            s = 0.0
            for k in range(p.shape[1]):
                s += (p[i, k] - p[j, k]) ** 2
            out[i, j] = np.sqrt(s)
    return out


def by_arrays(p):
    s = np.zeros((p.shape[0], p.shape[0]))
    for k in range(p.shape[1]):
        s += (p[:, k][:, None] - p[:, k]) ** 2
    return np.sqrt(s)


def by_elements(p):
    n = p.shape[0]
    s = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            for k in range(p.shape[1]):
                s[i, j] += (p[i, k] - p[j, k]) ** 2
    return np.sqrt(s)


@pytest.mark.parametrize("f", [by_scalars, by_arrays, by_elements])
def test_distances_of_0_have_the_derivative_0(f):
    p = np.random.default_rng(4).normal(size=(4, 2))
    with np.errstate(all="raise"), uncompiled():
        (gradient,) = nb.adjoint(f).vjp(p)(np.ones((4, 4)))
        tangent = nb.tangent(f).jvp((p,), (p,))[1]
    apart = p[:, None] - p
    distance = np.sqrt((apart**2).sum(2)) + np.eye(4)
    np.testing.assert_allclose(gradient, 2 * (apart / distance[..., None]).sum(1))
    np.testing.assert_allclose(tangent, distance - np.eye(4))


def test_other_arrays_are_no_sums_of_squares():
    def f(x, y):
        s = x * x
        s[0] = y[0]
        return np.sqrt(s)

    (_, to_y) = nb.adjoint(f).vjp(np.ones(2), np.zeros(2))(np.ones(2))
    assert to_y[0] == np.inf
