"""Bessel functions, exponential integrals, and the zeta function."""

import math

import mpmath as mp
import numpy as np

from accuracy import Row
from accuracy.error import flat, join, log
from accuracy.gamma import near, rising
from nbgrad.vmath import bessel, bessel_orders, exponential_integral, modified_bessel, modified_orders, zeta

INF, NAN = math.inf, math.nan
ZERO_OF_EI = 0.37250741078136663


def swing(x):
    """``sqrt(2/(pi*x))``, or 1 where that is more."""
    return min(mp.mpf(1), mp.sqrt(2 / (mp.pi * abs(x)))) if x else mp.mpf(1)


def for_positive(f):
    return lambda x: f(x) if x > 0 else None


def scaled(f, sign):
    """`f` of an order and x, times ``exp(sign*|x|)``."""
    return lambda v, x: f(v, x) * mp.exp(sign * abs(x))


def of_order(v, f):
    return lambda x: f(v, x)


BOTH_SIGNS = join(
    flat(-5, 5), flat(-40, 40), flat(-1e4, 1e4), log(-300, 1), log(1, 15), single=(flat(-40, 40), log(-30, 9))
)
POSITIVE = join(
    flat(0, 5), flat(0, 40), flat(0, 1e4), rising(-300, 1), rising(1, 15), single=(flat(0, 40), rising(-30, 9))
)
GROWING = join(flat(-8, 8), flat(-709, 709), log(-300, 1), single=(flat(-8, 8), flat(-88, 88), log(-30, 1)))
FALLING = join(
    *(flat(0, 1), flat(1, 10), flat(10, 700), flat(700, 740, 60), rising(-300, 0)),
    single=(flat(0, 10), flat(0, 100), rising(-30, 0)),
)
EXPONENTIAL_INTEGRAL = join(
    *(flat(-2, 8), flat(6, 30), flat(-735, 709), near(ZERO_OF_EI), log(-300, 0)),
    single=(flat(-2, 8), flat(6, 30), flat(-87, 88), log(-30, 0)),
)


def orders(*boxes):
    """Orders and arguments: uniform in boxes (low, high, low, high), in which the functions are finite."""

    def arguments(rng, dtype):
        v = np.concatenate([rng.uniform(a, b, 80) for a, b, _, _ in boxes])
        x = np.concatenate([rng.uniform(a, b, 80) for _, _, a, b in boxes])
        whole = rng.integers(0, 3, v.size) == 0
        return np.where(whole, np.round(v), v).astype(dtype), x.astype(dtype)

    return arguments


REAL = orders(
    (-0.5, 0.5, 0, 2), (-0.5, 0.5, 2, 25), (0, 10, 0, 30), (-10, 0, 0.5, 30), (0, 25, 5, 80), (-5, 5, 20, 1e3)
)
MODIFIED = orders((-0.5, 0.5, 0, 2), (-0.5, 0.5, 1, 25), (0, 10, 0, 30), (-10, 0, 0.5, 30), (0, 25, 5, 80))
IN_TURN = "orders up to 25"


def swing_of_order(v, x):
    """Also what cancels where a negative order is reflected."""
    if v < 0 and v != mp.floor(v):
        return max(swing_of_order(-v, x), abs(mp.bessely(-v, x)))
    return swing(x) if abs(v) < max(x, 1) else mp.mpf(0)


def reflected(f):
    """Of I of a negative order, the part of K."""
    return lambda v, x: f(-v, x) if v < 0 and v != mp.floor(v) else mp.mpf(0)


def whole_orders(rng, dtype):
    n = rng.integers(-8, 30, 200)
    return n.astype(dtype), np.concatenate([rng.uniform(0, 1, 100), rng.uniform(1, 30, 100)]).astype(dtype)


def hurwitz_arguments(rng, dtype):
    s = np.concatenate([rng.uniform(1, 20, 100), 1 + 10 ** rng.uniform(-6, 0, 60), rng.uniform(1, 60, 60)])
    q = np.concatenate([rng.uniform(0, 30, 100), 10 ** rng.uniform(-2, 2, 60), np.ones(60)])
    return s.astype(dtype), q.astype(dtype)


def exact_zeta(s, q):
    """mpmath loses digits where the sum is small."""
    if s == 1 or q == 0 or q**-s > mp.mpf(10) ** 38:
        return None
    with mp.workprec(500):
        return mp.zeta(s, q)


FIRST = dict(enumerate((bessel.bessel_j0, bessel.bessel_j1)))
ROWS = [
    *(
        Row(
            f"j{v}",
            FIRST[v],
            of_order(v, mp.besselj),
            BOTH_SIGNS,
            2.8,
            0.52,
            "all, in ulp of sqrt(2/(pi x)) where that is larger, from 2/pi on",
            edges=((0, 1 - v), (-0.0, -0.0 if v else 1), (INF, 0), (-INF, -0.0 if v else 0), (NAN, NAN)),
            scale=lambda x: swing(x) if abs(x) > 1 else mp.mpf(0),
        )
        for v in (0, 1)
    ),
    *(
        Row(
            f"y{v}",
            (bessel.bessel_y0, bessel.bessel_y1)[v],
            for_positive(of_order(v, mp.bessely)),
            POSITIVE,
            2.9,
            0.52,
            "x > 0, in ulp of sqrt(2/(pi x)) where that is larger, from 2/pi on",
            edges=((0, -INF), (-0.0, -INF), (-1, NAN), (-30, NAN), (INF, 0), (-INF, NAN), (NAN, NAN)),
            scale=swing,
        )
        for v in (0, 1)
    ),
    *(
        Row(
            f"i{v}",
            (modified_bessel.bessel_i0, modified_bessel.bessel_i1)[v],
            of_order(v, mp.besseli),
            GROWING,
            3.5,
            0.51,
            edges=(
                (0, 1 - v),
                (-0.0, -0.0 if v else 1),
                (720, INF),
                (INF, INF),
                (-INF, -INF if v else INF),
                (NAN, NAN),
            ),
        )
        for v in (0, 1)
    ),
    *(
        Row(
            f"i{v}e",
            (modified_bessel.bessel_i0e, modified_bessel.bessel_i1e)[v],
            of_order(v, scaled(mp.besseli, -1)),
            GROWING,
            3,
            0.51,
            edges=((0, 1 - v), (-0.0, -0.0 if v else 1), (INF, 0), (-INF, -0.0 if v else 0), (NAN, NAN)),
        )
        for v in (0, 1)
    ),
    *(
        Row(
            f"k{v}",
            (modified_bessel.bessel_k0, modified_bessel.bessel_k1)[v],
            for_positive(of_order(v, mp.besselk)),
            FALLING,
            3,
            0.51,
            "x > 0",
            edges=((0, INF), (-0.0, INF), (-1, NAN), (-30, NAN), (750, 0), (INF, 0), (-INF, NAN), (NAN, NAN)),
        )
        for v in (0, 1)
    ),
    *(
        Row(
            f"k{v}e",
            (modified_bessel.bessel_k0e, modified_bessel.bessel_k1e)[v],
            for_positive(of_order(v, scaled(mp.besselk, 1))),
            FALLING,
            3,
            0.51,
            "x > 0",
            edges=((0, INF), (-0.0, INF), (-1, NAN), (-30, NAN), (INF, 0), (-INF, NAN), (NAN, NAN)),
        )
        for v in (0, 1)
    ),
    Row(
        "exp1",
        exponential_integral.exp1,
        for_positive(mp.e1),
        FALLING,
        2.2,
        0.51,
        "x > 0",
        edges=((0, INF), (-0.0, INF), (-1, NAN), (-30, NAN), (750, 0), (INF, 0), (-INF, NAN), (NAN, NAN)),
    ),
    Row(
        "expi",
        exponential_integral.expi,
        lambda x: mp.ei(x) if x else None,
        EXPONENTIAL_INTEGRAL,
        3,
        0.51,
        edges=((0, -INF), (-0.0, -INF), (720, INF), (INF, INF), (-750, -0.0), (-INF, -0.0), (NAN, NAN)),
    ),
    Row(
        "expn",
        exponential_integral.expn,
        lambda n, x: mp.expint(n, x) if x > 0 else None,
        whole_orders,
        5,
        0.51,
        "n from -8 to 30, x > 0",
        edges=(
            *(
                ((0, 0), INF),
                ((1, 0), INF),
                ((2, 0), 1),
                ((5, 0), 0.25),
                ((2, INF), 0),
                ((0.5, 1), NAN),
                ((2, -1), NAN),
            ),
            *(((1e6, 800), 0), ((NAN, 1), NAN), ((2, NAN), NAN), ((INF, 1), NAN)),
        ),
        vector=False,
    ),
    Row(
        "jv",
        bessel_orders.jv,
        mp.besselj,
        REAL,
        11,
        0.51,
        IN_TURN + ", in ulp of sqrt(2/(pi x)) where that is larger and x > v",
        scale=swing_of_order,
        edges=(
            *(((0, 0), 1), ((1, 0), 0), ((-1, 0), -0.0), ((0.5, 0), 0), ((-0.5, 0), INF), ((-1.5, 0), -INF)),
            *(((50, 1e-10), 0), ((100, 1e-5), 0), ((2.5, -1), NAN), ((2, INF), 0), ((NAN, 1), NAN), ((2, NAN), NAN)),
            *(((INF, 1), NAN), ((1e6, 100), 0)),
        ),
        vector=False,
    ),
    Row(
        "yv",
        bessel_orders.yv,
        lambda v, x: mp.bessely(v, x) if x > 0 else None,
        REAL,
        11,
        0.51,
        IN_TURN + ", x > 0, in ulp of sqrt(2/(pi x)) where that is larger and x > v",
        scale=swing_of_order,
        edges=(
            *(((0, 0), -INF), ((1, 0), -INF), ((-1, 0), INF), ((0.5, 0), -INF), ((-0.5, 0), 0), ((-2, 0), -INF)),
            *(
                ((50, 1e-10), -INF),
                ((2.5, -1), NAN),
                ((2, INF), 0),
                ((NAN, 1), NAN),
                ((2, NAN), NAN),
                ((1e6, 100), -INF),
            ),
        ),
        vector=False,
    ),
    *(
        Row(
            name,
            f,
            exact,
            MODIFIED,
            10,
            0.51,
            IN_TURN + ", x > 0",
            scale=reflected(rest),
            edges=(
                *(((0, 0), 1), ((1, 0), 0), ((-2, 0), 0), ((0.5, 0), 0), ((-0.5, 0), INF), ((-1.5, 0), -INF)),
                *(
                    ((100, 1e-5), 0),
                    ((2.5, -1), NAN),
                    ((NAN, 1), NAN),
                    ((2, NAN), NAN),
                    ((2, INF), end),
                    ((3, -INF), -end),
                ),
            ),
            vector=False,
        )
        for name, f, exact, rest, end in (
            ("iv", modified_orders.iv, mp.besseli, mp.besselk, INF),
            ("ive", modified_orders.ive, scaled(mp.besseli, -1), scaled(mp.besselk, -1), 0.0),
        )
    ),
    *(
        Row(
            name,
            f,
            lambda v, x, exact=exact: exact(v, x) if x > 0 else None,
            MODIFIED,
            10,
            0.51,
            IN_TURN + ", x > 0",
            edges=(
                *(((0, 0), INF), ((1.5, 0), INF), ((-2, 0), INF), ((100, 1e-5), INF), ((2, INF), 0), ((2.5, -1), NAN)),
                *(((NAN, 1), NAN), ((2, NAN), NAN)),
            ),
            vector=False,
        )
        for name, f, exact in (
            ("kv", modified_orders.kv, mp.besselk),
            ("kve", modified_orders.kve, scaled(mp.besselk, 1)),
        )
    ),
    Row(
        "zeta",
        zeta.zeta,
        exact_zeta,
        hurwitz_arguments,
        2,
        0.51,
        "x > 1, q > 0",
        edges=(
            *(((1, 1), INF), ((2, 0), INF), ((2, -3), INF), ((2.5, -0.5), NAN), ((INF, 1), 1), ((INF, 2), 0)),
            *(((2, INF), 0), ((NAN, 1), NAN), ((2, NAN), NAN)),
        ),
        vector=False,
    ),
]
