"""The remainder of a division of floats: NumPy's, bit for bit, however far apart the two are."""

import math

import accuracy
import numpy as np
import pytest
from test_vectorised import calls, machine_code, packed_loops
from test_vectorised import pytestmark as on_x86

from nbgrad.vmath import rare
from nbgrad.vmath.remainder import floor_mod

INF, NAN = math.inf, math.nan
EDGES = [
    *((5.5, 2, 1.5), (-5.5, 2, 0.5), (5.5, -2, -0.5), (-4, 2, 0), (4, -2, -0.0), (1, 0, NAN), (-1, -0.0, NAN)),
    *((0, 0, NAN), (INF, 2, NAN), (1, INF, 1), (-1, INF, INF), (1, -INF, -INF), (-0.0, 3, 0), (0, -3, -0.0)),
    *((NAN, 1, NAN), (1, NAN, NAN), (INF, INF, NAN)),
]


def same(got, expected):
    return (got == expected) & (np.signbit(got) == np.signbit(expected)) | np.isnan(got) & np.isnan(expected)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges(dtype):
    a, b, expected = (np.array(column, dtype) for column in zip(*EDGES, strict=True))
    assert same(accuracy.call(floor_mod, a, b, dtype=dtype), expected).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_is_numpys(dtype):
    rng, info = np.random.default_rng(5), np.finfo(dtype)
    low, high, limit = info.minexp - info.nmant, info.maxexp - 1, rare.QUOTIENTS["f32" if dtype == "float32" else "f64"]
    n = 20000
    near = rng.uniform(1, 2, n) * rng.choice([-1, 1], n)
    b = np.concatenate([near, near, near, rng.uniform(1, 2, n) * 2.0 ** rng.integers(low, high, n), near]).astype(dtype)
    times = np.concatenate([rng.uniform(0, 10, n), rng.integers(0, 1000, n), 2.0 ** rng.uniform(0, 60, n)])
    a = np.concatenate([(b[: 3 * n] * times), rng.uniform(1, 2, n) * 2.0 ** rng.integers(low, high, n), near * limit])
    a = a.astype(dtype)
    a[: 2 * n] = np.nextafter(a[: 2 * n], rng.choice([-1, 1], 2 * n).astype(dtype) * info.max)  # next to a multiple
    assert same(accuracy.call(floor_mod, a, b, dtype=dtype), np.mod(a, b)).all()


@on_x86[0]
@on_x86[1]
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_its_loop_is_packed(dtype):
    code = machine_code(floor_mod, 2, dtype)
    assert packed_loops(code, dtype) and set(calls(code)) <= {"fmod", "fmodf"}
