"""The gamma function and its kin."""

import math

import mpmath as mp
import numpy as np

from accuracy import Row
from accuracy.error import flat, join, log
from nbgrad.vmath import beta, gamma_function, psi

INF, NAN = math.inf, math.nan
ZERO = 1.4616321449683622  # of digamma


def rising(low, high, count=60):
    return lambda rng: 10 ** rng.uniform(low, high, count)


def near(point, count=60):
    return lambda rng: point * (1 + rng.choice([-1, 1], count) * 10 ** rng.uniform(-15, -1, count))


def near_poles(rng):
    return -rng.integers(1, 170, 100) * (1 + rng.choice([-1, 1], 100) * 10 ** rng.uniform(-15, -3, 100))


def off_poles(f):
    """`f`, and None at 0, -1, -2, ..."""
    return lambda x: None if x <= 0 and x == mp.floor(x) else f(x)


def below_zero(f):
    """What cancels below 0: nothing elsewhere."""
    return lambda x: f(x) if x < 0 and x != mp.floor(x) else mp.mpf(0)


def log_gamma(x):
    with mp.workprec(400):  # next to its zeros
        return mp.log(abs(mp.gamma(x))) if x < 1000 else mp.loggamma(x)


def zeta(n, x):
    return (-1) ** (n + 1) * mp.factorial(n) * mp.zeta(n + 1, x)


def slopes_of_cot(n):
    """The n-th derivative of cot(pi*x) over (-pi)^n, as a polynomial of the cotangent: its coefficients."""
    found = [0, 1]
    for _ in range(n):
        d = [k * a for k, a in enumerate(found)][1:]
        found = [*d, 0, 0]
        for k, a in enumerate(d):
            found[k + 2] += a
    return found


def exact_polygamma(n, x):
    n = int(n)
    if x > 0:
        return zeta(n, x)
    cot = mp.cot(mp.pi * x)
    return (-1) ** n * (zeta(n, 1 - x) - mp.pi ** (n + 1) * mp.polyval(slopes_of_cot(n), cot, asc=True))


def orders(*parts):
    """Arguments of polygamma: n from 1 to 6, and x."""

    def arguments(rng, dtype):
        (x,) = join(*parts)(rng, dtype)
        return rng.integers(1, 7, x.size), x

    return arguments


def pairs(*boxes):
    """Two arguments: uniform, or with a uniform logarithm, in boxes (make, low, high, low, high)."""

    def arguments(rng, dtype):
        a, b = ([make(low, high)(rng) for make, low, high in side] for side in zip(*boxes, strict=True))
        with np.errstate(over="ignore", under="ignore"):
            a, b = np.concatenate(a).astype(dtype), np.concatenate(b).astype(dtype)
        kept = np.isfinite(a) & np.isfinite(b) & (a > 0) & (b > 0)
        poles = np.array([[-2, -3, 1], [1, 2, -2]], dtype)  # one over the other: finite
        return np.concatenate([a[kept], poles[0]]), np.concatenate([b[kept], poles[1]])

    return arguments


def log_beta(a, b):
    a, b = (1 - a - b, max(a, b)) if min(a, b) < 0 else (a, b)
    with mp.workprec(1300):
        return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


ROWS = [
    Row(
        "gamma",
        gamma_function.gamma,
        off_poles(mp.gamma),
        join(
            *(flat(-0.5, 8), flat(7, 171.7), flat(-20, -0.4), flat(-184, -20), log(-320, 0), near_poles),
            single=(flat(-0.5, 8), flat(7, 35.1), flat(-20, -0.4), flat(-42, -20), log(-45, 0)),
        ),
        1.6,
        0.51,
        edges=(
            *((0, INF), (-0.0, -INF), (-1, NAN), (-2, NAN), (1, 1), (5, 24), (172, INF), (INF, INF), (-INF, NAN)),
            *((NAN, NAN), (-1e30, NAN), (-200.5, -0.0), (-201.5, 0)),
        ),
    ),
    Row(
        "gammaln",
        gamma_function.gammaln,
        off_poles(log_gamma),
        join(
            *(flat(-0.5, 8), near(1), near(2), flat(7, 200), rising(1, 36), rising(36, 300), log(-307, 0)),
            *(flat(-20, -0.4), flat(-1e4, -20)),
        ),
        1.8,
        0.51,
        scale=below_zero(lambda x: max(abs(log_gamma(-x)), abs(mp.log(abs(x * mp.sinpi(x) / mp.pi))))),
        edges=(
            *((0, INF), (-0.0, INF), (-1, INF), (1, 0), (2, 0), (INF, INF), (-INF, -INF), (NAN, NAN)),
            (-1e30, INF),
        ),
    ),
    Row(
        "digamma",
        psi.digamma,
        off_poles(mp.digamma),
        join(flat(0, 12), flat(1, 2), near(ZERO), log(-300, -1), rising(1, 30), flat(-20, 0), flat(-1e4, -20)),
        2,
        0.51,
        scale=below_zero(lambda x: max(abs(mp.pi * mp.cot(mp.pi * x)), abs(mp.digamma(1 - x)))),
        edges=(*((0, -INF), (-0.0, INF), (-1, NAN), (-2, NAN), (INF, INF), (-INF, NAN), (NAN, NAN), (-1e30, NAN)),),
    ),
    Row(
        "trigamma",
        psi.trigamma,
        off_poles(lambda x: exact_polygamma(1, x)),
        join(
            flat(0, 12), log(-150, -1), rising(1, 30), flat(-20, 0), flat(-1e4, -20), single=(flat(0, 12), flat(-20, 0))
        ),
        2,
        0.51,
        edges=((0, INF), (-0.0, INF), (-1, INF), (-7, INF), (INF, 0), (-INF, INF), (NAN, NAN)),
    ),
    Row(
        "polygamma",
        psi.polygamma,
        lambda n, x: None if x <= 0 and x == mp.floor(x) else exact_polygamma(n, x),
        orders(flat(0, 30), rising(-30, 8), flat(-12, 0), flat(-1000, -12, 40)),
        1.5,
        0.51,
        "n from 1 to 6",
        scale=lambda n, x: abs(zeta(int(n), 1 - x)) if x < 0 else mp.mpf(0),
        edges=(
            *(((1, x), INF) for x in (0, -0.0, -1, -7, -INF)),
            *(((2, x), -INF) for x in (0, -0.0, -1, -7, -INF)),
            *(((1, INF), 0), ((2, INF), -0.0), ((1, NAN), NAN), ((0.5, 2.5), NAN), ((-1, 2.5), NAN), ((NAN, 2.5), NAN)),
        ),
        vector=False,
    ),
    Row(
        "betaln",
        beta.betaln,
        log_beta,
        pairs(
            ((flat, 0, 10), (flat, 0, 10)),
            ((flat, 10, 1e3), (flat, 10, 1e3)),
            ((flat, 0, 10), (flat, 10, 100)),
            ((flat, 0.3, 1), (flat, 1, 30)),  # where it is 0
            ((rising, -10, 1), (rising, 1, 20)),
            ((rising, 1, 300), (rising, 1, 300)),
            ((rising, -307, 1), (rising, -307, 1)),
        ),
        1.2,
        0.51,
        "positive, in ulp of 1/8 where the result is smaller",
        scale=lambda a, b: mp.mpf(1) / 8,
        edges=(
            *(((1, 1), 0), ((0, 1), INF), ((INF, 1), -INF), ((-1, 2), INF), ((-1, 0.5), INF), ((NAN, 1), NAN)),
            *(((-3, 4), INF), ((INF, INF), -INF), ((0, 0), INF)),
        ),
        vector=False,
    ),
]
