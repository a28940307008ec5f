"""Rows of :mod:`nbgrad.vmath.trigonometric`."""

import math

import mpmath as mp
import numpy as np

from nbgrad.vmath import trigonometric as t
from nbgrad.vmath.rare import LIMITS

from . import Row

INF, NAN, PI = math.inf, math.nan, math.pi
HALF, QUARTER = PI / 2, PI / 4


def log(rng, low, high, size, signs=True):
    """Evenly distributed exponents of ten."""
    sign = rng.choice([-1.0, 1.0], size) if signs else 1.0
    return sign * 10.0 ** rng.uniform(low, high, size)


def tiny(dtype):
    """Around the smallest normal numbers, and the subnormal ones."""
    info = np.finfo(dtype)
    return np.concatenate([float(info.smallest_subnormal) * np.arange(1, 9), float(info.tiny) * np.linspace(0.1, 2, 9)])


def most(dtype):
    return math.floor(math.log10(float(np.finfo(dtype).max)))


#: Closer to a multiple of pi/2 than almost all numbers.
NASTY = (11.0, 45.553093477052, 410195257422896.8, 7.72917899e28, 1.8498600944686992e196, 5.319372648326541e255)


def angles(rng, dtype):
    """Ordinary angles, multiples of pi/2 as near as can be, the limit of reduction in the loop, huge ones."""
    limit = LIMITS["f64" if dtype == "float64" else "f32"]
    near = (np.concatenate([np.arange(1, 60), rng.integers(60, int(limit / HALF), 100)]) * HALF).astype(dtype)
    step = 2 * float(np.finfo(dtype).eps)
    nasty = [x for x in NASTY if x < float(np.finfo(dtype).max)]
    return np.concatenate([
        rng.uniform(-1, 1, 100), rng.uniform(-30, 30, 150), rng.uniform(-limit, limit, 50), near, -near * (1 + step),
        limit * (1 + step * np.arange(-4, 5)), log(rng, math.log10(limit), most(dtype), 60), tiny(dtype),
        2.0 ** np.arange(-20, 120), nasty,
    ])  # fmt: skip


def within_one(rng, dtype):
    eps = float(np.finfo(dtype).eps)
    return np.concatenate([
        rng.uniform(-1, 1, 250), 0.5 + log(rng, -6, -1, 60), -0.5 + log(rng, -6, -1, 60),
        1 - eps * np.arange(1, 30), eps * np.arange(1, 30) - 1, log(rng, -12, 0, 60), tiny(dtype),
    ])  # fmt: skip


def line(rng, dtype):
    return np.concatenate([
        rng.uniform(-4, 4, 250), 1 + log(rng, -6, -1, 100), log(rng, -12, most(dtype), 150), tiny(dtype),
    ])  # fmt: skip


def plane(rng, dtype):
    x, y = rng.normal(size=(2, 250))
    around = log(rng, -most(dtype) // 2, most(dtype) // 2, 100)
    diagonal = np.concatenate([x[:100] * (1 + log(rng, -6, -1, 100)), around])
    return (
        np.concatenate([y, diagonal, log(rng, -most(dtype), most(dtype), 60), tiny(dtype)]),
        np.concatenate([x, x[:100], around * rng.uniform(-2, 2, 100), log(rng, -5, 5, 60), 1 + tiny(dtype)]),
    )


def waves(rng, dtype):
    whole = np.concatenate([np.arange(1, 20), 2.0 ** np.arange(4, 60)])
    return np.concatenate([
        rng.uniform(-1, 1, 150), rng.uniform(-30, 30, 200), whole, whole * (1 + float(np.finfo(dtype).eps)),
        np.arange(-9.5, 10), log(rng, -12, most(dtype), 100), tiny(dtype),
    ])  # fmt: skip


def wave(x):
    """sin(pi*x)/(pi*x) without loss next to whole numbers."""
    return mp.sinpi(x) / (mp.pi * x) if x else mp.mpf(1)


def within(function):
    return lambda x: function(x) if abs(x) <= 1 else None


ODD = ((0, 0), (-0.0, -0.0), (NAN, NAN))
ENDLESS = ((INF, NAN), (-INF, NAN))

ROWS = [
    Row("sin", t.sin, mp.sin, lambda *a: (angles(*a),), 1.2, 1.3, edges=ODD + ENDLESS),
    Row("cos", t.cos, mp.cos, lambda *a: (angles(*a),), 1.2, 1.3, edges=((0, 1), (-0.0, 1), (NAN, NAN), *ENDLESS)),
    Row("tan", t.tan, mp.tan, lambda *a: (angles(*a),), 1.9, 2.0, edges=ODD + ENDLESS),
    Row(
        "arcsin", t.arcsin, within(mp.asin), lambda *a: (within_one(*a),), 1.3, 1.3, "[-1, 1]",
        edges=(*ODD, *ENDLESS, (1, HALF), (-1, -HALF), (1.5, NAN), (-1.5, NAN)),
    ),
    Row(
        "arccos", t.arccos, within(mp.acos), lambda *a: (within_one(*a),), 1.3, 1.4, "[-1, 1]",
        edges=((1, 0), (-1, PI), (0, HALF), (-0.0, HALF), (1.5, NAN), (-1.5, NAN), (NAN, NAN), *ENDLESS),
    ),
    Row(
        "arctan", t.arctan, mp.atan, lambda *a: (line(*a),), 1.9, 1.6,
        edges=(*ODD, (INF, HALF), (-INF, -HALF)),
    ),
    Row(
        "arctan2", t.arctan2, mp.atan2, plane, 1.9, 1.7,
        edges=(
            ((0, 0), 0), ((-0.0, 0), -0.0), ((0, -0.0), PI), ((-0.0, -0.0), -PI), ((0, 1), 0), ((-0.0, 1), -0.0),
            ((0, -1), PI), ((-0.0, -1), -PI), ((1, 0), HALF), ((1, -0.0), HALF), ((-1, 0), -HALF), ((INF, 3), HALF),
            ((-INF, 3), -HALF), ((2, INF), 0), ((-2, INF), -0.0), ((2, -INF), PI), ((-2, -INF), -PI),
            ((INF, INF), QUARTER), ((-INF, INF), -QUARTER), ((INF, -INF), 3 * QUARTER), ((-INF, -INF), -3 * QUARTER),
            ((NAN, 1), NAN), ((1, NAN), NAN), ((INF, NAN), NAN), ((NAN, INF), NAN),
        ),
    ),
    Row(
        "sinc", t.sinc, wave, lambda *a: (waves(*a),), 1.9, 0.51,
        edges=((0, 1), (-0.0, 1), (1, -0.0), (-1, -0.0), (2, 0), (NAN, NAN), *ENDLESS),
    ),
]  # fmt: skip
