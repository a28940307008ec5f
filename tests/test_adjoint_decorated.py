"""Functions behind other decorators: parallel ones that are called, cached ones, callbacks; what cannot be read."""

import functools

import numba
import numpy as np
import pytest
from numba import njit, prange
from numba.experimental import jitclass

import nbgrad as nb
from nbgrad.errors import DTypeError, TraceError


@njit(parallel=True)
def squares(x):
    total = 0.0
    for i in prange(x.size):
        total += x[i] ** 2
    return total


@njit(parallel=True, fastmath=True)
def of_parallel(x):
    y = np.empty_like(x)
    for i in prange(x.size):
        y[i] = squares(x[: i + 1]) * x[i]
    return y.sum()


@functools.cache
def binomial(n, k):
    result = 1.0
    for i in range(k):
        result *= (n - i) / (i + 1)
    return result


def bernstein(c, t):
    n, total = len(c) - 1, 0.0
    for k in range(len(c)):
        total += c[k] * binomial(n, k) * t**k * (1.0 - t) ** (n - k)
    return total


@functools.cache
def cubed(x):
    return x**3


@numba.cfunc("float64(float64)")
def integrand(x):
    return x * x + 1.0 / x


def trapezoid(a, b):
    h, total = (b - a) / 8, 0.5 * (integrand(a) + integrand(b))
    for i in range(1, 8):
        total += integrand(a + i * h)
    return h * total


X = np.array([0.5, -1.2, 2.0])


@pytest.mark.parametrize(
    ("f", "args"),
    [(squares, (X,)), (of_parallel, (X,)), (bernstein, (X, 0.3)), (cubed, (1.7,)), (trapezoid, (1.0, 2.0))],
)
def test_values_and_derivatives(f, args):
    value, gradients = nb.adjoint(f).value_and_grad(*args)
    assert value == pytest.approx(f(*args), rel=1e-13)
    directions = [np.cos(np.arange(np.size(a))).reshape(np.shape(a))[()] for a in args]
    up, down = (f(*[a + h * d for a, d in zip(args, directions, strict=True)]) for h in (1e-6, -1e-6))
    slope = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True))
    assert slope == pytest.approx((up - down) / 2e-6, rel=1e-7)
    assert nb.tangent(f).jvp(args, tuple(directions))[1] == pytest.approx(slope, rel=1e-12)


@functools.lru_cache
def drawn(scale):
    return scale * np.random.normal()  # noqa: NPY002


@jitclass([("gain", numba.float64)])
class Filter:
    def __init__(self, gain):
        self.gain = gain


def of_draws(x):
    return drawn(2.0) * x


def of_an_object(x):
    return Filter(2.0).gain * x


def of_vectorize(x):
    return np.sum(SQUARED(x))


SQUARED = np.vectorize(lambda x: x * x)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (of_draws, "drawn has no derivative here.*give it a rule by nb.primitive"),
        (of_an_object, "Filter has no derivative here.*pass its fields in a named tuple"),
        (of_vectorize, "SQUARED has no derivative here.*make it by numba.vectorize"),
    ],
)
def test_what_is_refused(f, message):
    with pytest.raises(TraceError, match=f"test_adjoint_decorated.py, line.*{message}"):
        nb.adjoint(f)


def test_jitclasses_themselves_are_refused():
    def f(filter_, x):
        return x * 2.0

    with pytest.raises(DTypeError, match=r"argument filter_ is a jitclass JitClassType \(pass an instance\)"):
        nb.adjoint(f).value_and_grad(Filter, 1.0)
