"""Rows of :mod:`nbgrad.vmath.inverse_hyperbolic`."""

import math

import mpmath as mp
import numpy as np

from nbgrad.vmath import inverse_hyperbolic as h

from . import Row
from .trigonometric import line, log, most, within_one

INF, NAN = math.inf, math.nan


def above_one(rng, dtype):
    """From 1 upwards, dense where the formulas change."""
    eps = float(np.finfo(dtype).eps)
    limit = 2.0**30 if dtype == "float64" else 2.0**15
    return np.concatenate([
        rng.uniform(1, 4, 250), 1 + eps * np.arange(30), 1 + log(rng, math.log10(eps), 0, 150, signs=False),
        1.6328125 + log(rng, -6, -2, 60), limit * (1 + eps * np.arange(-4, 5)),
        log(rng, 0, most(dtype), 100, signs=False),
    ])  # fmt: skip


def reals(rng, dtype):
    return np.concatenate([line(rng, dtype), above_one(rng, dtype), 0.5625 + log(rng, -6, -1, 60)])


def open_interval(rng, dtype):
    x = np.asarray(within_one(rng, dtype), dtype)
    return x[abs(x) < 1]


ROWS = [
    Row(
        "arcsinh", h.arcsinh, mp.asinh, lambda *a: (reals(*a),), 1.5, 1.5,
        edges=((0, 0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN)),
    ),
    Row(
        "arccosh", h.arccosh, mp.acosh, lambda *a: (above_one(*a),), 1.5, 1.6, "[1, inf]",
        edges=((1, 0), (INF, INF), (0.5, NAN), (0, NAN), (-1, NAN), (-3, NAN), (-INF, NAN), (NAN, NAN)),
    ),
    Row(
        "arctanh", h.arctanh, mp.atanh, lambda *a: (open_interval(*a),), 1.2, 1.3, "[-1, 1]",
        edges=((0, 0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (-2, NAN), (INF, NAN), (-INF, NAN), (NAN, NAN)),
    ),
]  # fmt: skip
