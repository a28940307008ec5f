"""The error function, the normal distribution, and their inverses."""

import math

import mpmath as mp
import numpy as np

from accuracy import Row
from nbgrad.vmath import error, quantile

INF, NAN = math.inf, math.nan


def flat(low, high, count=200):
    return lambda rng: rng.uniform(low, high, count)


def log(low, high, count=60):
    """Both signs."""
    return lambda rng: np.concatenate([10 ** rng.uniform(low, high, count), -(10 ** rng.uniform(low, high, count))])


def join(*double, single=()):
    """Arguments: `double` for float64; and for float32 the same, or those in `single`. What overflows is left out."""

    def arguments(rng, dtype):
        with np.errstate(over="ignore"):
            x = np.concatenate([make(rng) for make in (single if single and dtype == "float32" else double)])
            x = x.astype(dtype)
        return (x[np.isfinite(x)],)

    return arguments


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_normal(x):
    return mp.log(normal(x)) if x < 0 else mp.log1p(-normal(-x))


def newton(step, y):
    """Where the function whose ``f/f'`` is `step` is zero."""
    for _ in range(60):
        d = step(y)
        y -= d
        if abs(d) <= abs(y) * mp.mpf(2) ** -70:
            return y
    raise ArithmeticError(f"Newton's method does not settle at {y}")


def slope(y):
    return 2 / mp.sqrt(mp.pi) * mp.exp(-y * y)


def inverse_erf(x):
    if abs(x) > 0.5:
        return mp.sign(x) * inverse_erfc(1 - abs(x))
    return newton(lambda y: (mp.erf(y) - x) / slope(y), x)


def inverse_erfc(x):
    if not 0 < x < 2:
        return None
    if abs(x - 1) <= 0.5:
        return inverse_erf(1 - x)
    if x > 1:
        return -inverse_erfc(2 - x)
    return newton(lambda y: -mp.log(mp.erfc(y) / x) * mp.erfc(y) / slope(y), mp.sqrt(-mp.log(x)))


BULK = (flat(-1, 1), flat(-6.5, 6.5))

ROWS = [
    Row(
        "erf",
        error.erf,
        mp.erf,
        join(*BULK, log(-320, 1)),
        1.8,
        1.8,
        edges=((0, 0), (-0.0, -0.0), (INF, 1), (-INF, -1), (1e30, 1), (NAN, NAN)),
    ),
    Row(
        "erfc",
        error.erfc,
        mp.erfc,
        join(*BULK, flat(0, 26), flat(26, 27.5), log(-320, 1), single=(*BULK, flat(0, 9.2), flat(9.2, 10.2))),
        1.4,
        1.4,
        edges=((0, 1), (-0.0, 1), (INF, 0), (-INF, 2), (1e30, 0), (-1e30, 2), (28, 0), (NAN, NAN)),
    ),
    Row(
        "erfcx",
        error.erfcx,
        lambda x: mp.exp(x * x) * mp.erfc(x),
        join(*BULK, flat(-26.6, 0), flat(0, 100), log(-320, 0), lambda rng: 10 ** rng.uniform(0, 12, 60)),
        1.5,
        0.51,
        edges=((0, 1), (-0.0, 1), (INF, 0), (-INF, INF), (-30, INF), (-1e30, INF), (NAN, NAN)),
    ),
    Row(
        "gelu",
        error.gelu,
        lambda x: x * normal(x),
        join(*BULK, flat(-37.5, -6), flat(-38.6, -37.5), log(-300, 1), single=(*BULK, flat(-13, 0), flat(-14.4, -13))),
        1.9,
        1.9,
        edges=((INF, INF), (-INF, -0.0), (NAN, NAN), (0, 0), (-0.0, -0.0), (-1e30, -0.0), (1e30, 1e30)),
    ),
    Row(
        "ndtr",
        error.ndtr,
        normal,
        join(
            *BULK,
            flat(-37.5, -6),
            flat(-38.6, -37.5),
            log(-320, 1),
            single=(*BULK, flat(-13, 0), flat(-14.4, -13)),
        ),
        1.4,
        1.5,
        edges=((0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (-40, 0), (-1e30, 0), (1e30, 1), (NAN, NAN)),
    ),
    Row(
        "log_ndtr",
        error.log_ndtr,
        log_normal,
        join(*BULK, flat(-60, 0), flat(0, 38), log(-300, 1), lambda rng: -(10 ** rng.uniform(1, 15, 60))),
        1.5,
        0.51,
        edges=(
            *((INF, -0.0), (-INF, -INF), (0, math.log(0.5)), (-1e10, -5e19), (NAN, NAN)),
            *((1e30, -0.0), (40, -0.0)),
        ),
    ),
    Row(
        "ndtr_ratio",
        error.ndtr_ratio,
        lambda x: mp.npdf(x) / normal(x),
        join(*BULK, flat(-60, 0), flat(0, 38), log(-300, 1), lambda rng: -(10 ** rng.uniform(1, 12, 60))),
        1.4,
        0.51,
        edges=((INF, 0), (-INF, INF), (-1e30, 1e30), (1e30, 0), (NAN, NAN)),
    ),
    Row(
        "erfinv",
        quantile.erfinv,
        lambda x: inverse_erf(x) if abs(x) < 1 else None,
        join(
            *BULK[:1],
            *(flat(0.98, 1), lambda rng: 1 - 10 ** rng.uniform(-15.9, -1, 100), log(-20, -1, 50)),
            single=(flat(-1, 1), flat(0.99, 1), log(-10, -1)),
        ),
        2,
        1.7,
        "(-1, 1)",
        edges=((0, 0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (-1.5, NAN), (INF, NAN), (-INF, NAN)),
    ),
    Row(
        "erfcinv",
        quantile.erfcinv,
        inverse_erfc,
        join(flat(0, 2), *(lambda rng: 10 ** rng.uniform(-323, 0, 60), lambda rng: 2 - 10 ** rng.uniform(-15, -1, 60))),
        1.9,
        0.51,
        "(0, 2)",
        edges=(
            *((0, INF), (-0.0, INF), (1, 0), (2, -INF), (-0.1, NAN), (2.1, NAN), (INF, NAN), (-INF, NAN)),
            (NAN, NAN),
        ),
    ),
    Row(
        "ndtri",
        quantile.ndtri,
        lambda p: -inverse_erfc(2 * p) * mp.sqrt(2) if 0 < p < 1 else None,
        join(flat(0, 1), *(lambda rng: 10 ** rng.uniform(-323, 0, 60), lambda rng: 1 - 10 ** rng.uniform(-15, -1, 60))),
        1.9,
        0.51,
        "(0, 1)",
        edges=(
            *((0, -INF), (-0.0, -INF), (0.5, 0), (1, INF), (-0.1, NAN), (1.1, NAN), (INF, NAN), (-INF, NAN)),
            (NAN, NAN),
        ),
    ),
]
