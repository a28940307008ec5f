"""Rows of :mod:`nbgrad.vmath.hyperbolic`."""

import math

import mpmath as mp

from nbgrad.vmath import hyperbolic as h

from . import Row
from .exponential import around_zero, exponents, join, one

INF, NAN = math.inf, math.nan


def both_signs(rng, dtype):
    x = exponents(rng, dtype)
    return join(x, rng.uniform(-1.5, 1.5, 300))


ROWS = [
    Row("tanh", h.tanh, mp.tanh, one(around_zero), 1.4, 1.4,
        edges=((INF, 1), (-INF, -1), (NAN, NAN), (0, 0), (-0.0, -0.0), (1e30, 1))),
    Row("sinh", h.sinh, mp.sinh, one(both_signs), 1.7, 1.7,
        edges=((INF, INF), (-INF, -INF), (NAN, NAN), (0, 0), (-0.0, -0.0), (1e30, INF), (-1e30, -INF))),
    Row("cosh", h.cosh, mp.cosh, one(both_signs), 1.5, 1.5,
        edges=((INF, INF), (-INF, INF), (NAN, NAN), (0, 1), (1e30, INF))),
]  # fmt: skip
