"""The scalar functions of `nbgrad.kernels.special` against mpmath, and their edges as tables."""

import math

import mpmath as mp
import numpy as np
import pytest

from nbgrad.backends.numba.compile import generate
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


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 14, 20])
def test_sinc_derivatives(n):
    def exact(x):
        with mp.workprec(3000):
            z = mp.pi * x
            y = mp.sin(z) / z
            for j in range(1, n + 1):
                y = (mp.sin(z + j * mp.pi / 2) - j * y) / z
            return y * mp.pi**n

    swing = lambda x: math.pi**n / (1 + n + math.pi * abs(x))  # noqa: E731
    x = join(flat(-1.2, 1.2), flat(-20, 20), log(-20, 5, 50))
    assert worst("sinc_deriv", exact, n, x, at_least=swing) <= (11 if n <= 4 else 2000)
    at_zero = 0.0 if n % 2 else (-1) ** (n // 2) * math.pi**n / (n + 1)
    assert call("sinc_deriv", n, [0.0])[0] == pytest.approx(at_zero, rel=4e-16)


# Argument, value: what scipy.special (or NumPy) gives, signs of zeros included.
EDGES = {
    "rint": [(0.5, 0), (-0.5, -0.0), (1.5, 2), (2.5, 2), (-2.5, -2), (-0.0, -0.0), (INF, INF), (-INF, -INF),
             (1e300, 1e300)],
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
