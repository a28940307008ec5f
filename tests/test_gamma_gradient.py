"""Gradient of gamma draws with respect to alpha, against the implicit function that mpmath solves."""

import mpmath as mp
import numpy as np
import pytest
from scipy import special

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.kernels.sampling import _held

ROWS = [(a, float(special.gammaincinv(a, q))) for a in (0.05, 0.7, 3, 50.0, 2000) for q in (1e-9, 0.2, 0.45, 0.6)]
ROWS += [(a, float(special.gammainccinv(a, 1e-9))) for a in (0.001, 0.7, 50.0, 1e5)]


def implicit(alpha, draw):
    """The first three derivatives of the draw, by differences of the z with F(alpha, z) = F(alpha_0, draw)."""
    a, x = mp.mpf(alpha), mp.mpf(draw)
    lower = mp.log(x) < mp.digamma(a)

    def chance(b, z):
        below = mp.exp(b * mp.log(z) - z - mp.loggamma(b + 1)) * mp.hyp1f1(1, b + 1, z, maxterms=10**6)
        return mp.log(below if lower else 1 - below)

    held = chance(a, x)

    def follow(b):
        return mp.exp(mp.findroot(lambda v: chance(b, mp.exp(v)) - held, mp.log(x), tol=mp.mpf(10) ** -110))

    h = mp.mpf(10) ** -12 * min(a, 1)
    z = {k: follow(a + k * h) for k in range(-2, 3)}
    return (
        (z[1] - z[-1]) / (2 * h),
        (z[1] - 2 * z[0] + z[-1]) / h**2,
        (z[2] - 2 * z[1] + 2 * z[-1] - z[-2]) / (2 * h**3),
    )


def derivatives(alpha, draws, dtype="float64", orders=3):
    a = nd.array(alpha, dtype=dtype)
    a.attach_grad()
    found = []
    with autograd.record():
        y = _held.apply((a, nd.array(draws, dtype=dtype)))
        for _ in range(orders):
            y = autograd.grad(y, a, create_graph=True)
            found.append(y.asnumpy())
    return found


def test_three_orders_at_a_fixed_place_in_the_distribution():
    found = derivatives(*map(list, zip(*ROWS, strict=True)))
    with mp.workdps(80):
        for k, (alpha, x) in enumerate(ROWS):
            # The higher derivatives are what is left of terms alpha and alpha^2 times as large.
            limits = (1e-12, 1e-9, 1e-6) if alpha < 1e4 else (1e-12, 1e-7, 1e-5)
            for y, exact, limit in zip(found, implicit(alpha, x), limits, strict=True):
                assert abs(y[k] - exact) <= limit * abs(exact), (alpha, x)


@pytest.mark.parametrize(("dtype", "limit"), [("float32", 3e-7), ("float16", 1e-3)])
def test_narrow_dtypes(dtype, limit):
    alpha, draws = np.array([0.3, 2.0, 50.0]).astype(dtype), np.array([0.05, 3.0, 44.0]).astype(dtype)
    (found,) = derivatives(alpha, draws, dtype, 1)
    assert found.dtype == np.dtype(dtype)
    (exact,) = derivatives(alpha.astype("float64"), draws.astype("float64"), orders=1)
    np.testing.assert_allclose(found.astype("float64"), exact, rtol=limit)


def test_draws_that_underflow_do_not_move():
    assert [d.tolist() for d in derivatives([0.001], [0.0])] == [[0.0]] * 3
    assert np.isfinite(derivatives([0.001, 0.01, 0.5], [1e-308, 5e-324, 1e-200], orders=2)).all()


def test_a_whole_sampler_is_its_own_finite_difference_on_average():
    """E[x] = alpha*beta and E[x^2] = alpha*(alpha + 1)*beta^2, and so their derivatives."""
    values = np.array([0.4, 1.0, 6.0])
    alpha, beta = nd.array(values, dtype="float64"), nd.array([2.0, 0.5, 1.5], dtype="float64")
    alpha.attach_grad()
    count = 20000
    for power, expected in (
        (1, beta.asnumpy()),
        (2, (2 * values + 1) * beta.asnumpy() ** 2),
    ):
        nb.random.seed(5)
        with autograd.record():
            x = nd.random.gamma(alpha, beta, shape=count, dtype="float64")
            y = (x**power).mean(axis=1)
        y.backward()
        np.testing.assert_allclose(alpha.grad.asnumpy(), expected, rtol=0.05)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["random_gamma", "sample_gamma"])
def test_recorded_draws_are_the_plain_ones(name, dtype):
    call = getattr(nd, name)
    alpha, beta = nd.array([[0.5], [3.0]], dtype="float64"), nd.array([[1.0], [2.0]], dtype="float64")
    alpha.attach_grad()
    beta.attach_grad()
    nb.random.seed(2)
    plain = call(alpha, beta, shape=(4, 3), dtype=dtype)
    nb.random.seed(2)
    with autograd.record():
        x = call(alpha, beta, shape=(4, 3), dtype=dtype)
        by_alpha, by_beta = autograd.grad(x, [alpha, beta], create_graph=True)
        both = autograd.grad(by_alpha, [alpha, beta])
    assert x.dtype == plain.dtype == np.dtype(dtype)
    assert x.shape == (2, 1, 4, 3)
    narrow = {"float16": 2e-3, "float32": 3e-7, "float64": 1e-15}[dtype]
    np.testing.assert_allclose(x.asnumpy(), plain.asnumpy(), rtol=narrow)
    total = x.asnumpy().astype("float64").sum(axis=(2, 3))
    np.testing.assert_allclose(by_beta.asnumpy(), total / beta.asnumpy(), rtol=10 * narrow)
    np.testing.assert_allclose(both[1].asnumpy(), (by_alpha / beta).asnumpy(), rtol=10 * narrow)
    assert by_alpha.shape == both[0].shape == (2, 1)
    assert by_alpha.dtype == np.float64


def test_checkpoints_draw_the_same_again():
    def f(a):
        return nd.random.gamma(a, nd.ones_like(a), shape=3)

    a = nd.array([2.0, 0.5])
    a.attach_grad()
    grads = []
    for call in (f, autograd.checkpoint(f)):
        nb.random.seed(9)
        with autograd.record():
            y = call(a)
        y.backward()
        grads.append(a.grad.tolist())
    assert grads[0] == grads[1]
