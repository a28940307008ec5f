"""The scalar functions of `nbgrad.kernels.special` against mpmath, and their edges as tables."""

import math

import mpmath as mp
import numpy as np
import pytest

from nbgrad.codegen.compile import generate
from nbgrad.kernels import special

INF, NAN = math.inf, math.nan
_SOURCES = {
    1: "def apply(x, out):\n    for i in range(x.size):\n        out[i] = f(x[i])",
    2: "def apply(x, y, out):\n    for i in range(x.size):\n        out[i] = f(x[i], y[i])",
    3: "def apply(n, x, out):\n    for i in range(x.size):\n        out[i] = f(n, x[i])",
}
_made = {}


def call(name, *args, dtype="f8"):
    """`name` over arrays of `dtype`; an int first means a function of an order and an array."""
    shape = 3 if isinstance(args[0], int) else len(args)
    if name not in _made:
        _made[name] = generate("apply", _SOURCES[shape], {"f": getattr(special, name)})
    args = [a if isinstance(a, int) else np.asarray(a, dtype) for a in args]
    out = np.empty(args[-1].shape, dtype)
    _made[name](*args, out)
    return out


def ulps(got, exact, at_least=0.0):
    """The distance in ulp of the exact value, or of `at_least` where that is more."""
    return float(abs(mp.mpf(float(got)) - exact)) / math.ulp(max(abs(float(exact)), at_least))


def worst(name, exact, *args, at_least=None):
    with mp.workprec(160):
        got = call(name, *args)
        arrays = [a for a in args if not isinstance(a, int)]
        rows = list(zip(*(np.asarray(a).tolist() for a in arrays), strict=True))
        errors = [
            ulps(y, exact(*map(mp.mpf, row)), at_least(*row) if at_least else 0.0)
            for y, row in zip(got, rows, strict=True)
        ]
    return max(errors)


rng = np.random.default_rng(11)


def flat(low, high, n=200):
    return rng.uniform(low, high, n)


def log(low, high, n=60):
    return 10 ** rng.uniform(low, high, n)


def join(*parts):
    return np.concatenate(parts)


def ncdf(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def quantile(p):
    """By Halley's method, from the tail's first term or the middle's."""
    if p > 0.5:
        return -quantile(1 - p)
    y = -mp.sqrt(-2 * mp.log(2 * p)) if p < 0.3 else (p - mp.mpf(0.5)) * mp.sqrt(2 * mp.pi)
    for _ in range(9):
        t = (ncdf(y) - p) / mp.npdf(y)
        y -= t / (1 + y * t / 2)
    return y


ERFCX = join(flat(0, 6), flat(0, 100, 100), log(-20, 2))
NORMAL = join(flat(-37.4, 5), flat(-5, 1), flat(5, 36, 50), -log(-20, 1), log(-20, 1))
LEFT = flat(-1e4, -37, 40)

ONE = [
    ("cbrt", lambda x: mp.sign(x) * mp.cbrt(abs(x)), join(log(-307, 308, 300), -log(-323, -300)), 0.68),
    (
        "log1pexp",
        lambda x: mp.log1p(mp.exp(x)),
        join(flat(-700, 40), flat(-3, 3), log(-20, 2), -log(-20, 2)),
        2,
    ),
    ("log_sigmoid", lambda x: -mp.log1p(mp.exp(-x)), join(flat(-40, 700), flat(-3, 3)), 2),
    ("sigmoid", lambda x: 1 / (1 + mp.exp(-x)), join(flat(-700, 40), flat(-3, 3)), 2.5),
    ("erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), join(ERFCX, -flat(0, 26.6), -log(-20, 0)), 4),
    ("ndtr", ncdf, NORMAL, 5),
    ("log_ndtr", lambda x: mp.log(ncdf(x)) if x < 0 else mp.log1p(-ncdf(-x)), join(NORMAL, LEFT), 5.5),
    ("ndtr_ratio", lambda x: mp.npdf(x) / ncdf(x), join(NORMAL, LEFT), 5.5),
    ("erfinv", mp.erfinv, join(flat(-1, 1), flat(0.8, 0.9), 1 - log(-15.9, -1), log(-300, -1, 50)), 6),
    ("ndtri", quantile, join(flat(0, 1), log(-307, -1), 1 - log(-15.9, -1), 0.5 + 0.4 * log(-15, 0)), 6),
    (
        "erfcinv",
        lambda x: -quantile(x / 2) / mp.sqrt(2),
        join(flat(0, 2), log(-307, -1), 2 - log(-15, -1)),
        6,
    ),
    ("gamma", mp.gamma, join(flat(-30, 0), flat(0, 171), log(-300, 1)), 6),
    ("gammaln", lambda x: mp.log(abs(mp.gamma(x))), join(flat(-30, 0), flat(-4, 4), log(-300, 4)), 6),
    ("digamma", mp.digamma, join(flat(0, 12), flat(1.3, 1.6), log(-300, 15)), 4),
    ("digamma", mp.digamma, 1.4616321449683622 + join(log(-15, -2), -log(-15, -2)), 3),
    ("sinc", lambda x: mp.sin(mp.pi * x) / (mp.pi * x), join(flat(-1, 1), flat(-20, 20), log(-20, 8)), 3.2),
]


@pytest.mark.parametrize(("name", "exact", "x", "bound"), ONE, ids=[row[0] for row in ONE])
def test_is_within_a_few_ulp(name, exact, x, bound):
    assert worst(name, exact, x) <= bound


@pytest.mark.parametrize("row", ONE, ids=[row[0] for row in ONE])
def test_float32_is_rounded_once(row):
    name, exact, x, _ = row
    x = x[(abs(x) < 30) & (abs(x) > 1e-30)][:30].astype("f4")
    got = call(name, x, dtype="f4")
    assert got.dtype == np.float32
    with mp.workprec(160):
        for v, y in zip(x.tolist(), got, strict=True):
            if exact(mp.mpf(v)) and 1e-37 < abs(exact(mp.mpf(v))) < 3e38:
                assert abs(float(y) - exact(mp.mpf(v))) <= 0.501 * float(np.spacing(abs(y)))


def test_digamma_below_zero_is_exact_to_its_larger_term():
    x = join(flat(-20, 0), flat(-1e4, -20, 50), -log(-300, -1))
    terms = lambda v: abs(float(mp.pi * mp.cot(mp.pi * v))) + math.log(2 - v)  # noqa: E731
    assert worst("digamma", mp.digamma, x, at_least=terms) <= 4


@pytest.mark.parametrize("n", range(1, 7))
def test_polygamma(n):
    def exact(x):
        return (-1) ** (n + 1) * mp.factorial(n) * mp.zeta(n + 1, x)

    def reflected(x):
        return (-1) ** n * exact(1 - x) - mp.pi ** (n + 1) * cot[n](mp.cot(mp.pi * x))

    cot = [lambda c: c]  # the derivatives of cot(pi*x) as polynomials in it
    coefficients = [0, 1]
    for _ in range(n):
        d = [k * a for k, a in enumerate(coefficients)][1:]
        coefficients = [-a for a in d] + [0, 0]
        for k, a in enumerate(d):
            coefficients[k + 2] -= a
        cot.append(lambda c, p=tuple(coefficients): sum(a * c**k for k, a in enumerate(p)))
    assert worst("polygamma", exact, n, join(flat(0, 30, 150), log(-40, 8, 50))) <= n + 5
    x = join(flat(-12, 0, 150), flat(-1000, -12, 30), -log(-20, -1, 30))
    term = lambda v: float(abs(exact(1 - mp.mpf(v))))  # noqa: E731
    assert worst("polygamma", reflected, n, x, at_least=term) <= n + 5


def test_polygamma_takes_its_order_as_a_float_too():
    source = "def apply(n, x, out):\n    for i in range(x.size):\n        out[i] = f(n[i], x[i])"
    made = generate("apply", source, {"f": special.polygamma})
    out = np.empty(6)
    made(np.array([0.0, 1, 2, 0.5, -1, NAN]), np.full(6, 2.5), out)
    assert out[:3].tolist() == [call("polygamma", n, [2.5])[0] for n in range(3)]
    assert np.isnan(out[3:]).all()


BETALN = [
    ("both below 10", flat(0, 10), flat(0, 10), 12),
    ("both above 10", flat(10, 1e3), flat(10, 1e3), 3),
    ("one much greater", log(-10, 1, 200), log(1, 20, 200), 3),
    ("both large", log(1, 300), log(1, 300), 3),
    ("both tiny", log(-307, 1), log(-307, 1), 3),
]


@pytest.mark.parametrize(("_name", "a", "b", "bound"), BETALN, ids=[row[0] for row in BETALN])
def test_betaln(_name, a, b, bound):
    def exact(p, q):
        with mp.workprec(1300):
            return mp.loggamma(p) + mp.loggamma(q) - mp.loggamma(p + q)

    assert worst("betaln", exact, a, b, at_least=lambda p, q: 1.0) <= bound
    assert (call("betaln", a, b) == call("betaln", b, a)).all()


@pytest.mark.parametrize("n", range(5))
def test_sinc_derivatives(n):
    def exact(x):
        with mp.workprec(900):
            z = mp.pi * x
            y = mp.sin(z) / z
            for j in range(1, n + 1):
                y = (mp.sin(z + j * mp.pi / 2) - j * y) / z
            return y * mp.pi**n

    swing = (lambda x: math.pi**n / (1 + n + math.pi * abs(x))) if n else None
    x = join(flat(-1.2, 1.2), flat(-20, 20), log(-20, 5, 50))
    assert worst("sinc_deriv", exact, n, x, at_least=swing) <= 11
    at_zero = [1.0, 0.0, -(math.pi**2) / 3, 0.0, math.pi**4 / 5][n]
    assert call("sinc_deriv", n, [0.0])[0] == pytest.approx(at_zero, rel=4e-16)


def test_logaddexp():
    a, b = flat(-50, 50), flat(-50, 50)
    error = worst("logaddexp", lambda p, q: mp.log(mp.exp(p) + mp.exp(q)), a, b, at_least=lambda p, q: max(p, q))
    assert error <= 1


# Argument, value: what scipy.special (or NumPy) gives, signs of zeros included.
EDGES = {
    "rint": [(0.5, 0), (-0.5, -0.0), (1.5, 2), (2.5, 2), (-2.5, -2), (-0.0, -0.0), (INF, INF), (-INF, -INF),
             (1e300, 1e300)],
    "fix": [(0.9, 0), (-0.9, -0.0), (1.5, 1), (-2.5, -2), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "cbrt": [(0, 0), (-0.0, -0.0), (27, 3), (-8, -2), (INF, INF), (-INF, -INF)],
    "log1pexp": [(INF, INF), (-INF, 0), (-0.0, math.log(2)), (1e300, 1e300)],
    "sigmoid": [(INF, 1), (-INF, 0), (0, 0.5), (-1e300, 0)],
    "log_sigmoid": [(INF, -0.0), (-INF, -INF), (-1e300, -1e300)],
    "erfcx": [(0, 1), (-0.0, 1), (INF, 0), (-INF, INF), (-30, INF), (-1e300, INF)],
    "ndtr": [(0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (-40, 0), (-1e300, 0), (1e300, 1)],
    "log_ndtr": [(INF, -0.0), (-INF, -INF), (0, math.log(0.5)), (-1e10, -5e19), (-1e300, -INF)],
    "ndtr_ratio": [(INF, 0), (-INF, INF), (1e300, 0)],
    "erfinv": [(0, 0), (-0.0, -0.0), (1, INF), (-1, -INF), (1.5, NAN), (-1.5, NAN), (INF, NAN), (-INF, NAN)],
    "erfcinv": [(0, INF), (-0.0, INF), (1, 0), (2, -INF), (-0.1, NAN), (2.1, NAN), (INF, NAN), (-INF, NAN)],
    "ndtri": [(0, -INF), (-0.0, -INF), (0.5, 0), (1, INF), (-0.1, NAN), (1.1, NAN), (INF, NAN), (-INF, NAN)],
    "gamma": [(0, INF), (-0.0, -INF), (-1, NAN), (-2, NAN), (1, 1), (5, 24), (172, INF), (INF, INF),
              (-INF, NAN)],
    "gammaln": [(0, INF), (-0.0, INF), (-1, INF), (1, 0), (2, 0), (INF, INF), (-INF, -INF)],
    "digamma": [(0, -INF), (-0.0, INF), (-1, NAN), (-2, NAN), (INF, INF), (-INF, NAN)],
    "sinc": [(0, 1), (-0.0, 1), (0.5, 2 / math.pi), (1, -0.0), (-1, 0), (INF, NAN), (-INF, NAN)],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", EDGES)
def test_edges(name, dtype):
    x, expected = (list(column) for column in zip(*EDGES[name], (NAN, NAN), strict=True))
    with np.errstate(over="ignore"):
        expected = np.asarray(expected, dtype)
        same(call(name, x, dtype=dtype), expected, x)


def same(got, expected, where):
    ok = (got == expected) & (np.signbit(got) == np.signbit(expected)) | np.isnan(got) & np.isnan(expected)
    assert ok.all(), [(w, g, e) for w, g, e, fine in zip(where, got, expected, ok, strict=True) if not fine]


EDGES_OF_TWO = {
    "floor_mod": [(5.5, 2, 1.5), (-5.5, 2, 0.5), (5.5, -2, -0.5), (-4, 2, 0), (4, -2, -0.0), (1, 0, NAN),
                  (0, 0, NAN), (INF, 2, NAN), (1, INF, 1), (-1, INF, INF), (-0.0, 3, 0)],
    "logaddexp": [(INF, INF, INF), (-INF, -INF, -INF), (INF, -INF, INF), (-INF, 3, 3), (INF, 3, INF),
                  (NAN, 1, NAN)],
    "xlogy": [(0, 0, 0), (0, INF, 0), (0, NAN, NAN), (-0.0, 2, 0), (1, 0, -INF), (1, -1, NAN),
              (0, -1, 0), (NAN, 1, NAN)],
    "xlog1py": [(0, -1, 0), (0, INF, 0), (0, NAN, NAN), (1, -1, -INF), (1, -2, NAN), (0, -2, 0),
                (NAN, 1, NAN)],
    "hypot": [(3, 4, 5), (INF, NAN, INF), (NAN, -INF, INF), (NAN, 1, NAN), (-0.0, 0, 0), (3e30, 4e30, 5e30)],
    "betaln": [(1, 1, 0), (0, 1, INF), (INF, 1, -INF), (-1, 2, INF), (-1, 0.5, INF), (NAN, 1, NAN),
               (-3, 4, INF), (INF, INF, -INF), (0, 0, INF)],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", EDGES_OF_TWO)
def test_edges_of_two_arguments(name, dtype):
    rows = EDGES_OF_TWO[name]
    a, b, expected = (np.array(column, dtype) for column in zip(*rows, strict=True))
    same(call(name, a, b, dtype=dtype), expected, rows)


def test_poles_of_polygamma():
    x = [0.0, -0.0, -1.0, -7.0, INF, -INF, NAN]
    same(call("polygamma", 1, x), np.array([INF, INF, INF, INF, 0, INF, NAN]), x)
    same(call("polygamma", 2, x), np.array([-INF, -INF, -INF, -INF, -0.0, -INF, NAN]), x)


def test_betaln_of_a_pole_over_a_pole():
    assert call("betaln", [-2.0, -3, 1], [1.0, 2, -2]).tolist() == pytest.approx(
        [-math.log(2), -math.log(6), -math.log(2)], rel=1e-15
    )


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8", "u8"])
@pytest.mark.parametrize(("name", "numpy"), [("int_floor_div", np.floor_divide), ("int_mod", np.mod)])
def test_integer_division_is_numpys(name, numpy, dtype):
    info = np.iinfo(dtype)
    few = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min] + [-1, -2, -7] * (info.min < 0)
    a, b = (g.ravel() for g in np.meshgrid(np.array(few, dtype), np.array(few, dtype)))
    with np.errstate(all="ignore"):
        expected = numpy(a, b)
    assert (call(name, a, b, dtype=dtype) == expected).all()


def test_rounding_is_numpys():
    x = join(
        flat(-10, 10),
        np.arange(-20, 20) / 2,
        log(0, 20),
        -log(14, 17),
        [2**52 - 0.5, 2**53 - 1, 0.5 - 2**-54],
    )
    assert (call("rint", x) == np.rint(x)).all()
    assert (call("fix", x) == np.trunc(x)).all()
    y = join(flat(-3, 3, 200), log(-3, 3, x.size - 200))
    assert (call("floor_mod", x, y) == np.mod(x, y)).all()
