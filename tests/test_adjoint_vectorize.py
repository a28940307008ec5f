"""Functions of numba.vectorize in loops, of numbers and of arrays."""

import math

import numba
import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError


@numba.vectorize
def soft(x, t):
    if abs(x) <= t:
        return 0.0
    return math.copysign(abs(x) - t, x)


@numba.vectorize([numba.float64(numba.float64)])
def bump(x):
    return x * x * math.exp(-x)


@numba.vectorize
def combined(a, b, c):
    return a * b + c * c


def lasso(A, b, weight, steps):
    """Iterative soft thresholding."""
    x = np.zeros(A.shape[1])
    for _ in range(steps):
        x = soft(x - 0.1 * A.T @ (A @ x - b), 0.1 * weight)
    return np.sum(bump(x)) + soft(b[0], weight) + np.sum(combined(x, weight, x[0]))


def of_matrices(A, w):
    return np.sum(combined(A, A, w) * bump(A)) + combined(w, w, w)


RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(5, 3)), RNG.normal(size=5)


@pytest.mark.parametrize(("f", "args"), [(lasso, (A, B, 0.1, 7)), (of_matrices, (A, 0.3))])
def test_values_and_gradients(f, args):
    adj = nb.adjoint(f)
    value, gradients = adj.value_and_grad(*args)
    assert value == pytest.approx(f(*args), rel=1e-13)
    floats = [k for k, a in enumerate(args) if not isinstance(a, int)]
    directions = [np.cos(np.arange(np.size(args[k]))).reshape(np.shape(args[k]))[()] for k in floats]

    def moved(h):
        shifted = [args[k] + h * d for k, d in zip(floats, directions, strict=True)]
        return (*shifted, *args[len(floats) :])

    slope = sum(np.sum(gradients[k] * d) for k, d in zip(floats, directions, strict=True))
    assert slope == pytest.approx((f(*moved(1e-6)) - f(*moved(-1e-6))) / 2e-6, rel=1e-7)
    given = (*directions, *(None,) * (len(args) - len(floats)))
    assert nb.tangent(f).jvp(args, given)[1] == pytest.approx(slope, rel=1e-11)
    up, down = (adj.value_and_grad(*moved(h))[1] for h in (1e-6, -1e-6))
    for k, product in zip(floats, adj.hvp(args, given), strict=False):
        np.testing.assert_allclose(product, (up[k] - down[k]) / 2e-6, rtol=1e-5, atol=1e-7)


def test_float32_stays_float32():
    _, gradients = nb.adjoint(of_matrices).value_and_grad(A.astype("float32"), 0.3)
    assert gradients[0].dtype == np.float32


@numba.vectorize
def of_four(a, b, c, d):
    return a * b + c * d


@numba.vectorize
def of_five(a, b, c, d, e):
    return a * b + c * d * e


@numba.vectorize
def of_six(a, b, c, d, e, f):
    return a + b + c + d + e + f


def too_many(x):
    return np.sum(of_six(x, x, x, x, x, x))


def other_axes(x):
    return np.sum(soft(np.outer(x, x), x))


def other_lengths(x):
    return np.sum(soft(x, x[1:]))


@pytest.mark.parametrize(
    ("f", "message"),
    [(too_many, "of more than 5 arguments with arrays"), (other_axes, "arrays with different numbers of axes")],
)
def test_what_is_refused(f, message):
    with pytest.raises(TraceError, match=message):
        nb.adjoint(f).value_and_grad(np.ones(3))


def test_other_lengths_are_errors():
    with pytest.raises(ValueError, match=r"different (shapes|lengths)"):
        nb.adjoint(other_lengths).value_and_grad(np.ones(3))


@numba.vectorize
def toward_zero(x):
    if x < 0:
        return math.ceil(x)
    return math.floor(x)


def nodes(a, n):
    m = int(toward_zero((n + 1) / 2.0))
    i = np.arange(m)
    return np.cos(np.pi * (i + 0.75) / n * a)


def read_sizes(x, a):
    total = 0.0
    for k in range(3):
        m = int(x[k])
        total += np.sum(np.arange(m) * x[k] ** a)
    return total


def test_lengths_of_calculated_integers():
    with uncompiled():
        agrees(nodes, (0.7, 7))
        agrees(read_sizes, (np.array([3.2, 1.4, 2.6]), 0.7))


def of_several(x, a):
    return of_four(x, a, 2.0, x * x) * of_five(x, x, a, x, 0.5)


def test_several_arguments():
    with uncompiled():
        agrees(of_several, (np.linspace(0.2, 0.9, 4), 0.7))
