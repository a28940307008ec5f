"""Rows of :mod:`nbgrad.vmath.roots`."""

import math

import mpmath as mp
import numpy as np

from nbgrad.vmath import roots

from . import Row
from .trigonometric import log, most, tiny

INF, NAN = math.inf, math.nan


def numbers(rng, dtype):
    return np.concatenate([
        rng.uniform(-8, 8, 300), log(rng, -most(dtype), most(dtype), 200), -tiny(dtype), tiny(dtype),
        2.0 ** np.arange(-126, 128), np.arange(1.0, 20) ** 3,
    ])  # fmt: skip


def legs(rng, dtype):
    x, y = rng.normal(size=(2, 250))
    size = log(rng, -most(dtype), most(dtype) - 1, 150)
    far = log(rng, -most(dtype), most(dtype), 100)
    return (
        np.concatenate([x, size, far, tiny(dtype)]),
        np.concatenate([y, size * log(rng, -2, 0.5, 150), far[::-1], tiny(dtype)[::-1]]),
    )


ROWS = [
    Row(
        "cbrt", roots.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x)), lambda *a: (numbers(*a),), 0.67, 1.2,
        edges=((0, 0), (-0.0, -0.0), (27, 3), (-8, -2), (INF, INF), (-INF, -INF), (NAN, NAN)),
    ),
    Row(
        "hypot", roots.hypot, mp.hypot, legs, 1.2, 0.51,
        edges=(
            ((3, 4), 5), ((-0.0, 0), 0), ((0, -0.0), 0), ((-3e30, 4e30), 5e30), ((INF, 1), INF), ((1, -INF), INF),
            ((INF, NAN), INF), ((NAN, -INF), INF), ((NAN, 1), NAN), ((1, NAN), NAN),
        ),
    ),
]  # fmt: skip
