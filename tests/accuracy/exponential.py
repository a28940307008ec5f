"""Rows of :mod:`nbgrad.vmath.exponential`."""

import math

import mpmath as mp
import numpy as np

from nbgrad.vmath import exponential as e

from . import Row

INF, NAN, LN2 = math.inf, math.nan, math.log(2)


def join(*parts):
    return np.concatenate(parts)


def tiny(dtype):
    """Around the smallest normal numbers, the subnormal ones, and either zero."""
    info = np.finfo(dtype)
    few = join(float(info.smallest_subnormal) * np.arange(0, 9), float(info.tiny) * np.linspace(0.1, 2, 9))
    return join(few, -few)


def range_of(dtype):
    """The logarithms of the smallest and of the largest number."""
    info = np.finfo(dtype)
    return math.log(float(info.smallest_subnormal)), math.log(float(info.max))


def exponents(rng, dtype):
    """Where exp is neither 0 nor infinite, its ends, and halfway between the points it is reduced to."""
    low, high = range_of(dtype)
    return join(
        rng.uniform(low, high, 250), rng.uniform(-1, 1, 150), rng.uniform(-6, 6, 100), (np.arange(-20, 20) + 0.5) * LN2,
        low + rng.uniform(-0.7, 40, 60), high - rng.uniform(0, 1, 30), 2.0 ** -np.arange(1.0, 60), tiny(dtype),
    )  # fmt: skip


def positives(rng, dtype):
    low, high = range_of(dtype)
    near = 2.0 ** np.arange(-5, 5) * math.sqrt(2)
    return join(
        np.exp(rng.uniform(low, high, 200)), rng.uniform(0.4, 2.5, 250), 1 + rng.uniform(-1e-3, 1e-3, 60),
        (near[:, None] * (1 + np.finfo(dtype).eps * np.arange(-3, 4))).ravel(), 2.0 ** np.arange(-100, 100, 7),
        10.0 ** np.arange(-30, 30, 5), 1 + np.finfo(dtype).eps * np.arange(-5, 6), tiny(dtype)[1:18],
        [float(np.finfo(dtype).max)],
    )  # fmt: skip


def above_minus_one(rng, dtype):
    x = join(positives(rng, dtype), -rng.uniform(0, 1, 200), rng.uniform(-0.5, 0.5, 100), tiny(dtype))
    return join(x, np.finfo(dtype).eps * np.arange(1, 20) - 1)


def around_zero(rng, dtype):
    low, _ = range_of(dtype)
    return join(
        rng.uniform(-3, 3, 250), rng.uniform(-40, 40, 150), rng.uniform(low, -low, 100), tiny(dtype),
        2.0 ** -np.arange(1.0, 60), -(2.0 ** -np.arange(1.0, 60)), low + rng.uniform(0, 30, 30),
    )  # fmt: skip


def pairs(rng, dtype):
    a, b = rng.uniform(-40, 40, (2, 200))
    c = rng.uniform(-1, 1, 200)
    z = -np.exp(rng.uniform(-30, 4, 200))
    zero = np.log(-np.expm1(z))  # exp(z) + exp(zero) = 1, or nearly so
    zero *= 1 + rng.choice([0, 1], 200) * rng.uniform(-1, 1, 200) * 10 ** rng.uniform(-9, 0, 200)
    a, b = join(a, c, c, z, zero), join(b, c + rng.uniform(-1, 1, 200), -c, zero, z)
    return join(a, [0.0, 1e30, -1e30]), join(b, [0.0, 1e30, 2.0])


def one(arguments):
    return lambda rng, dtype: [arguments(rng, dtype)]


def factors(arguments):
    def both(rng, dtype):
        y = arguments(rng, dtype)
        return join(rng.normal(size=y.size), rng.uniform(1, 2, y.size)), join(y, y)

    return both


def powers(rng, dtype):
    """Results all over the range, from bases near 1 and far from it."""
    low, high = range_of(dtype)
    x = join(np.exp(rng.uniform(low, high, 200)), rng.uniform(0.5, 2, 200), rng.uniform(0.7, 1.42, 100))
    x = x.astype(dtype).astype("f8")
    y = rng.uniform(low, high, 500) / np.log(x)
    y[-90:] = high * rng.uniform(0.98, 0.9999, 90) / np.log(x[-90:])
    whole = rng.integers(-20, 20, 60)
    negative = -np.exp(rng.uniform(-4, 4, 60))
    small = tiny(dtype)[1:18]
    return join(x, negative, small, 1 + small, [-1.0, 2.0]), join(y, whole, rng.uniform(-1, 2, 17), small, [1e9, 0.5])


def softplus(x):
    return mp.log1p(mp.exp(x))


ROWS = [
    Row("exp", e.exp, mp.exp, one(exponents), 1.05, 1.05,
        edges=((INF, INF), (-INF, 0), (NAN, NAN), (-1e4, 0), (1e4, INF))),
    Row("exp_minus", e.exp_minus, mp.exp, one(lambda rng, dtype: -abs(exponents(rng, dtype))), 1.05, 1.05, "x <= 0",
        edges=((-INF, 0), (NAN, NAN), (-1e4, 0))),
    Row("exp2", e.exp2, lambda x: mp.mpf(2) ** x, one(exponents), 1, 1,
        edges=((INF, INF), (-INF, 0), (NAN, NAN), (-2, 0.25))),
    Row("expm1", e.expm1, mp.expm1, one(exponents), 1.4, 1.4,
        edges=((INF, INF), (-INF, -1), (NAN, NAN), (0, 0), (-0.0, -0.0), (1e4, INF), (-1e4, -1))),
    Row("log", e.log, mp.log, one(positives), 1, 1, "x > 0",
        edges=((INF, INF), (0, -INF), (-0.0, -INF), (-1, NAN), (-INF, NAN), (NAN, NAN), (1, 0))),
    Row("log2", e.log2, lambda x: mp.log(x, 2), one(positives), 1.4, 1.4, "x > 0",
        edges=((INF, INF), (0, -INF), (-1, NAN), (NAN, NAN), (1, 0), (8, 3), (2.0**-149, -149))),
    Row("log10", e.log10, mp.log10, one(positives), 1.2, 1.2, "x > 0",
        edges=((INF, INF), (0, -INF), (-1, NAN), (NAN, NAN), (1, 0), (1000, 3))),
    Row("log1p", e.log1p, mp.log1p, one(above_minus_one), 1, 1, "x > -1",
        edges=((INF, INF), (-1, -INF), (-2, NAN), (-INF, NAN), (NAN, NAN), (0, 0), (-0.0, -0.0))),
    Row("sigmoid", e.sigmoid, lambda x: 1 / (1 + mp.exp(-x)), one(around_zero), 1.8, 1.8,
        edges=((INF, 1), (-INF, 0), (NAN, NAN), (0, 0.5), (-1e30, 0), (1e30, 1))),
    Row("silu", e.silu, lambda x: x / (1 + mp.exp(-x)), one(around_zero), 1.9, 1.9,
        edges=((INF, INF), (-INF, -0.0), (NAN, NAN), (0, 0), (-0.0, -0.0), (-1e30, -0.0), (1e30, 1e30))),
    Row("softplus", e.softplus, softplus, one(around_zero), 1.9, 1.9,
        edges=((INF, INF), (-INF, 0), (NAN, NAN), (1e30, 1e30))),
    Row("log_sigmoid", e.log_sigmoid, lambda x: -softplus(-x), one(around_zero), 1.9, 1.9,
        edges=((INF, -0.0), (-INF, -INF), (NAN, NAN), (-1e30, -1e30))),
    Row("logaddexp", e.logaddexp, lambda a, b: max(a, b) + softplus(-abs(a - b)), pairs, 1.9, 1.9,
        edges=(((INF, INF), INF), ((-INF, -INF), -INF), ((INF, -INF), INF), ((-INF, 3), 3), ((INF, 3), INF),
               ((NAN, 1), NAN), ((1, NAN), NAN)),
        scale=lambda a, b: max(abs(max(a, b)), softplus(-abs(a - b)))),  # the terms that cancel where the result is 0
    Row("xlogy", e.xlogy, lambda x, y: x * mp.log(y), factors(positives), 1.9, 1.9, "y > 0",
        edges=(((0, 0), 0), ((0, INF), 0), ((0, NAN), NAN), ((-0.0, 2), 0), ((1, 0), -INF), ((1, -1), NAN),
               ((0, -1), 0), ((NAN, 1), NAN))),
    Row("xlog1py", e.xlog1py, lambda x, y: x * mp.log1p(y), factors(above_minus_one), 1.9, 1.9, "y > -1",
        edges=(((0, -1), 0), ((0, INF), 0), ((0, NAN), NAN), ((1, -1), -INF), ((1, -2), NAN), ((0, -2), 0),
               ((NAN, 1), NAN))),
    Row("power", e.power, lambda x, y: x**y, powers, 1.9, 1.5,
        edges=(((0, 0), 1), ((NAN, 0), 1), ((INF, 0), 1), ((1, NAN), 1), ((1, INF), 1), ((1, -INF), 1), ((-1, INF), 1),
               ((-1, -INF), 1), ((NAN, 1), NAN), ((2, NAN), NAN), ((0, NAN), NAN), ((INF, NAN), NAN), ((-8, 0.5), NAN),
               ((-2, 3), -8), ((-2, 2), 4), ((0, 3), 0), ((-0.0, 3), -0.0), ((-0.0, 2), 0), ((-0.0, 0.5), 0),
               ((0, -1), INF), ((-0.0, -1), -INF), ((-0.0, -2), INF), ((-0.0, -0.5), INF), ((INF, 2), INF),
               ((INF, -2), 0), ((-INF, 3), -INF), ((-INF, 2), INF), ((-INF, 0.5), INF), ((-INF, -3), -0.0),
               ((-INF, -2), 0), ((0.5, INF), 0), ((2, INF), INF), ((0.5, -INF), INF), ((2, -INF), 0), ((0, INF), 0),
               ((0, -INF), INF), ((-0.5, INF), 0), ((3, 1e30), INF), ((3, -1e30), 0))),
]  # fmt: skip
