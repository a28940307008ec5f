"""The incomplete gamma functions and their inverses: values, edges, and derivatives by both arguments."""

import math

import mpmath
import numba
import numpy as np
import pytest
from loop_checks import check_derivatives
from scipy import special

import nbgrad as nb
from nbgrad.vmath import incomplete_gamma

NAMES = ["gammainc", "gammaincc", "gammaincinv", "gammainccinv"]
INF, NAN = math.inf, math.nan


@numba.njit
def evaluate(which, a, x, out):
    for k in range(a.size):
        if which == 0:
            out[k] = incomplete_gamma.gammainc(a[k], x[k])
        elif which == 1:
            out[k] = incomplete_gamma.gammaincc(a[k], x[k])
        elif which == 2:
            out[k] = incomplete_gamma.gammaincinv(a[k], x[k])
        else:
            out[k] = incomplete_gamma.gammainccinv(a[k], x[k])


def values(name, a, x):
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    out = np.empty(a.size)
    evaluate(NAMES.index(name), a.ravel(), x.ravel(), out)
    return out


def samples(rng, count):
    """Shapes from 0.003 to 4,000, and places around their means and far from them."""
    a = 10 ** rng.uniform(-2.5, 3.6, count)
    x = np.abs(a + np.sqrt(a) * rng.normal(size=count) * 4)
    return a, x * np.where(rng.random(count) < 0.2, 10 ** rng.uniform(-3, 1, count), 1)


@pytest.mark.parametrize("upper", [False, True])
def test_shares(rng, upper):
    """Relative errors of at most 2e-14, and more where the share is tiny: by the rounding of its logarithm."""
    a, x = samples(rng, 150)
    found = values(NAMES[upper], a, x)
    with mpmath.workdps(40):
        ends = [(v, mpmath.inf) if upper else (0, v) for v in x]
        exact = [mpmath.gammainc(s, *e, regularized=True) for s, e in zip(a, ends, strict=True)]
        for y, e in zip(found, exact, strict=True):
            if e > 1e-290:
                assert abs(y - e) <= e * (2e-14 + 4e-16 * abs(float(mpmath.log(e))))


@pytest.mark.parametrize("name", NAMES[2:])
def test_places(rng, name):
    """Their shares are those that were asked for."""
    a = samples(rng, 300)[0]
    p = np.concatenate([rng.random(200), 10 ** rng.uniform(-12, 0, 100)])
    x = values(name, a, p)
    share = values("gammaincc" if name == "gammainccinv" else "gammainc", a, x)
    slope = np.exp(special.xlogy(a, x) - x - special.gammaln(a))  # of the share, by the logarithm of x
    kept = x > 1e-290
    np.testing.assert_array_less(np.abs(share - p)[kept], (3e-14 * p + 1e-15 * slope)[kept])


EDGES = {
    "gammainc": [(1.5, 0, 0), (1.5, INF, 1), (0, 2, 1), (INF, 2, 0), (0, 0, NAN), (INF, INF, NAN), (-1, 2, NAN),
                 (1, -2, NAN), (NAN, 1, NAN), (1, NAN, NAN), (1e-3, 1e-320, 0.478), (5, 800, 1)],
    "gammaincc": [(1.5, 0, 1), (1.5, INF, 0), (0, 2, 0), (INF, 2, 1), (0, 0, NAN), (1, -2, NAN), (1, 700, 9.86e-305)],
    "gammaincinv": [(1.5, 0, 0), (1.5, 1, INF), (1.5, 1.1, NAN), (1.5, -0.1, NAN), (-1, 0.5, NAN), (2, NAN, NAN)],
    "gammainccinv": [(1.5, 1, 0), (1.5, 0, INF), (1.5, 1.1, NAN), (0, 0.5, NAN), (INF, 0.5, NAN)],
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_edges(name):
    a, x, expected = np.array(EDGES[name], np.float64).T
    np.testing.assert_allclose(values(name, a, x), expected, rtol=2e-3)


def shares(a, x):
    return np.sum(special.gammainc(a, x) * x) + np.sum(special.gammaincc(a + 1, x) * a)


def places(a, p):
    return np.sum(special.gammaincinv(a, p) * p) + np.sum(special.gammainccinv(a, 0.3 * p) * a)


def tails(x, p):
    return np.sum(special.erfcx(x) * p) + np.sum(special.ndtri(p) * x) + np.sum(special.erfcinv(p + 0.5))


@pytest.mark.parametrize("f", [shares, places, tails], ids=lambda f: f.__name__)
def test_derivatives(f):
    first = np.array([0.4, 2.5, 21.0]) if f is not tails else np.array([0.4, -1.5, 7.0])
    second = np.array([0.7, 1.1, 30.0]) if f is shares else np.array([0.07, 0.5, 0.93])
    check_derivatives(f, first, second, compiled=False)


def test_the_slope_of_erfcx_keeps_its_digits():
    """Far from 0 its two terms cancel."""

    def scaled(x):
        return special.erfcx(x)

    adjoint = nb.adjoint(scaled)
    for x in (1.0, 20.0, 59.9, 60.1, 1e3, 1e8):
        with mpmath.workdps(60):
            exact = float(mpmath.diff(lambda t: mpmath.exp(t * t) * mpmath.erfc(t), x)) if x < 1e3 else None
        if exact is None:
            exact = -(1 - 1.5 / x**2 + 3.75 / x**4) / (math.sqrt(math.pi) * x**2)
        np.testing.assert_allclose(adjoint.value_and_grad(x)[1][0], exact, rtol=2e-12)


def test_no_share_below_zero_has_derivatives():
    """At x = 0 all of the distribution is above, whatever its shape."""

    def share(a, x):
        return special.gammainc(a, x)

    assert nb.adjoint(share).value_and_grad(2.0, 0.0) == (0.0, (0.0, 0.0))
