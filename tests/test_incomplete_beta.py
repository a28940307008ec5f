"""The incomplete beta functions, their inverses, and Student's distribution: values, edges, and derivatives by all
arguments."""

import math

import mpmath
import numba
import numpy as np
import pytest
import scipy.special

import nbgrad as nb
import nbgrad.np as nnp
from nbgrad.scipy import special
from nbgrad.vmath import incomplete_beta

INF, NAN = math.inf, math.nan


@numba.njit
def evaluate(which, a, b, x, out):
    for k in range(x.size):
        if which == 0:
            out[k] = incomplete_beta.betainc(a[k], b[k], x[k])
        elif which == 1:
            out[k] = incomplete_beta.betaincc(a[k], b[k], x[k])
        elif which == 2:
            out[k] = incomplete_beta.betaincinv(a[k], b[k], x[k])
        elif which == 3:
            out[k] = incomplete_beta.betainccinv(a[k], b[k], x[k])
        elif which == 4:
            out[k] = incomplete_beta.stdtr(a[k], x[k])
        else:
            out[k] = incomplete_beta.stdtrit(a[k], x[k])


NAMES = ["betainc", "betaincc", "betaincinv", "betainccinv", "stdtr", "stdtrit"]


def values(name, *args):
    arrays = [np.ravel(v) for v in np.broadcast_arrays(*[np.asarray(v, np.float64) for v in args])]
    out = np.empty(arrays[0].size)
    evaluate(NAMES.index(name), arrays[0], arrays[-2], arrays[-1], out)
    return out


def samples(rng, count):
    """Shapes from 0.003 to 4,000, and places around their means and far from them."""
    a, b = 10 ** rng.uniform(-2.5, 3.6, (2, count))
    x = rng.beta(np.maximum(a, 0.3), np.maximum(b, 0.3))
    x = np.where(rng.random(count) < 0.2, rng.random(count), x)
    return a, b, np.clip(x, 1e-9, 1 - 1e-9)


@pytest.mark.parametrize("upper", [False, True])
def test_shares(rng, upper):
    """Relative errors of at most 2e-14, and more where the share is tiny: by the rounding of its logarithm."""
    a, b, x = samples(rng, 120)
    found = values(NAMES[upper], a, b, x)
    with mpmath.workdps(60):
        for y, *args in zip(found, a, b, x, strict=True):
            p, q, t = map(mpmath.mpf, args)
            ends = (t, 1) if upper else (0, t)
            e = mpmath.betainc(p, q, *ends, regularized=True)
            if e > 1e-290:
                assert abs(y - e) <= e * (2e-14 + 4e-16 * abs(float(mpmath.log(e)))), args


@pytest.mark.parametrize("name", NAMES[2:4])
def test_places(rng, name):
    """Their shares are those that were asked for."""
    a, b, _ = samples(rng, 300)
    p = np.concatenate([rng.random(200), 10 ** rng.uniform(-12, 0, 100)])
    x = values(name, a, b, p)
    share = values(name.removesuffix("inv"), a, b, x)
    slope = np.exp(scipy.special.xlogy(a, x) + scipy.special.xlog1py(b, -x) - scipy.special.betaln(a, b))
    kept, rounding = (x > 1e-290) & (x < 1), 2e-16 / np.maximum(1 - x, 1e-17)  # of the share, by the logit of x
    np.testing.assert_array_less(np.abs(share - p)[kept], (5e-14 * p + slope * (4e-15 + rounding))[kept])


def test_student(rng):
    df, t = 10 ** rng.uniform(-0.5, 3, 200), rng.standard_t(2, 200) * 10 ** rng.uniform(-6, 1, 200)
    found = values("stdtr", df, t)
    with mpmath.workdps(40):
        for y, n, v in zip(found, df, t, strict=True):
            x = mpmath.mpf(n) / (mpmath.mpf(n) + mpmath.mpf(v) ** 2)
            tail = mpmath.betainc(mpmath.mpf(n) / 2, 0.5, 0, x, regularized=True) / 2
            e = tail if v < 0 else 1 - tail
            assert abs(y - e) <= 3e-14 * e, (n, v)
    p = np.concatenate([rng.random(100), 10 ** rng.uniform(-12, -1, 50), 0.5 + 1e-9 * rng.normal(size=50)])
    np.testing.assert_allclose(values("stdtr", df, values("stdtrit", df, p)), p, rtol=1e-13)


EDGES = {
    "betainc": [(2, 3, 0, 0), (2, 3, 1, 1), (0, 3, 0.5, 1), (2, 0, 0.5, 0), (INF, 3, 0.5, 0), (2, INF, 0.5, 1),
                (0, 0, 0.5, NAN), (-1, 2, 0.5, NAN), (1, 2, 1.5, NAN), (1, 2, -0.1, NAN), (NAN, 1, 0.5, NAN),
                (1, 1, NAN, NAN), (1e-3, 1e-3, 1e-300, 0.250594), (0.5, 1e-3, 1 - 1e-16, 0.037404)],
    "betaincc": [(2, 3, 0, 1), (2, 3, 1, 0), (0, 3, 0.5, 0), (2, 0, 0.5, 1), (50, 3, 1e-3, 1)],
    "betaincinv": [(2, 3, 0, 0), (2, 3, 1, 1), (2, 3, 1.1, NAN), (-1, 3, 0.5, NAN), (2, INF, 0.5, NAN)],
    "betainccinv": [(2, 3, 0, 1), (2, 3, 1, 0), (2, 3, -0.1, NAN), (0, 3, 0.5, NAN)],
    "stdtr": [(3, 0, 0.5), (3, INF, 1), (3, -INF, 0), (INF, 1, 0.8413447460685429), (0, 1, NAN), (3, NAN, NAN)],
    "stdtrit": [(3, 0.5, 0), (3, 0, -INF), (3, 1, INF), (INF, 0.8413447460685429, 1), (3, 1.1, NAN), (-1, 0.5, NAN)],
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_edges(name):
    *args, expected = np.array(EDGES[name], np.float64).T
    np.testing.assert_allclose(values(name, *args), expected, rtol=2e-5)


ARGUMENTS = {
    "betainc": [(0.7, 1.4, 0.3), (12.0, 5.0, 0.75), (150.0, 90.0, 0.61)],
    "betaincc": [(0.7, 1.4, 0.3), (12.0, 5.0, 0.75)],
    "betaincinv": [(0.7, 1.4, 0.3), (12.0, 5.0, 0.75), (150.0, 90.0, 0.2)],
    "betainccinv": [(0.7, 1.4, 0.3), (12.0, 5.0, 0.75)],
    "stdtr": [(0.8, -2.0), (4.0, 0.3), (30.0, 1.9), (5.0, 1e-7)],
    "stdtrit": [(0.8, 0.05), (4.0, 0.6), (30.0, 0.97)],
}


@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name):
    """The gradient by all arguments is that of differences, and so is the Hessian."""
    f, theirs = getattr(special, name), getattr(scipy.special, name)
    for args in ARGUMENTS[name]:
        gradient = nb.grad(lambda v: f(*v))
        at = np.array(args)
        steps = np.diag(1e-4 * np.maximum(np.abs(at), 1e-3))
        for k, h in enumerate(steps):
            one, two = (theirs(*(at + s)) - theirs(*(at - s)) for s in (h, 2 * h))
            assert gradient(at)[k] == pytest.approx((8 * one - two) / (12 * h[k]), rel=2e-8, abs=1e-12), (args, k)
        hessian = nb.hessian(lambda v: f(*v))(at)
        change = np.stack([(gradient(at + h) - gradient(at - h)) / (2 * h[k]) for k, h in enumerate(steps)])
        np.testing.assert_allclose(hessian, change, rtol=5e-5, atol=1e-9)
        np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-13)


def test_derivatives_where_student_is_symmetric():
    df, at = 3.0, np.array([3.0, 0.0])
    assert np.array_equal(nb.grad(lambda v: special.stdtr(*v))(at)[:1], [0.0])
    mixed = nb.hessian(lambda v: special.stdtr(*v))(at)
    slope = nb.grad(lambda n: np.exp(-special.betaln(0.5 * n, 0.5)) / nnp.sqrt(n))(df)
    np.testing.assert_allclose(mixed[0, 1], slope, rtol=1e-12)
    np.testing.assert_allclose(mixed[1, 0], slope, rtol=1e-12)


def test_derivatives_where_nothing_is_below():
    """At the ends the shares do not depend on the shapes."""
    for x in (0.0, 1.0):
        gradient = nb.grad(special.betainc, argnums=(0, 1))(2.0, 3.0, x)
        assert gradient == (0.0, 0.0)


def test_float32_and_loops():
    a, b, x = (np.array(v, np.float32) for v in ([0.7, 12.0], [1.4, 5.0], [0.3, 0.75]))
    found = special.betainc(nnp.array(a), b, x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.asnumpy(), scipy.special.betainc(a, b, x), rtol=1e-6)

    def total(a, b, x):
        s = 0.0
        for k in range(a.size):
            s += scipy.special.betainc(a[k], b[k], x[k]) * scipy.special.stdtr(b[k], x[k])
        return s

    args = [v.astype(np.float64) for v in (a, b, x)]
    value, by_loops = nb.adjoint(total).value_and_grad(*args)
    eager = nb.grad(lambda a, b, x: nnp.sum(special.betainc(a, b, x) * special.stdtr(b, x)), argnums=(0, 1, 2))(*args)
    assert value == pytest.approx(np.sum(scipy.special.betainc(*args) * scipy.special.stdtr(*args[1:])), rel=1e-13)
    for one, other in zip(by_loops, eager, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11)
