"""Division of floats with remainder: NumPy's values, bit for bit, however far apart the two are."""

import math

import accuracy
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_vectorised import calls, machine_code, packed_loops
from test_vectorised import pytestmark as on_x86

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.vmath import rare
from nbgrad.vmath.remainder import floor_divide, floor_mod

INF, NAN = math.inf, math.nan
EDGES = [  # dividend, divisor, remainder, quotient
    *((5.5, 2, 1.5, 2), (-5.5, 2, 0.5, -3), (5.5, -2, -0.5, -3), (-4, 2, 0, -2), (4, -2, -0.0, -2)),
    *((1, 0, NAN, INF), (-1, -0.0, NAN, INF), (-1, 0, NAN, -INF), (0, 0, NAN, NAN), (INF, 0, NAN, INF)),
    *((INF, 2, NAN, NAN), (INF, INF, NAN, NAN), (NAN, 1, NAN, NAN), (1, NAN, NAN, NAN)),
    *((1, INF, 1, 0), (-1, INF, INF, -1), (1, -INF, -INF, -1), (-0.0, INF, 0, -0.0)),
    *((-0.0, 3, 0, -0.0), (0, -3, -0.0, -0.0), (-0.0, -3, -0.0, 0)),
]
FUNCTIONS = {"modulo": (floor_mod, np.mod), "floor_divide": (floor_divide, np.floor_divide)}
each = pytest.mark.parametrize("name", FUNCTIONS)


def same(got, expected):
    return (got == expected) & (np.signbit(got) == np.signbit(expected)) | np.isnan(got) & np.isnan(expected)


@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges(name, dtype):
    a, b, *expected = (np.array(column, dtype) for column in zip(*EDGES, strict=True))
    ours, numpys = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        assert same(numpys(a, b), expected[name == "floor_divide"]).all()
    assert same(accuracy.call(ours, a, b, dtype=dtype), expected[name == "floor_divide"]).all()


def test_the_quotient_is_that_of_the_remainder():
    assert accuracy.call(floor_divide, 1.0, 0.1) == 9 and (nd.array([1.0], dtype="float64") // 0.1).asnumpy() == 9


def hard(dtype):
    """Pairs that are near multiples of one another, far apart, and around the limits of what is rare."""
    rng, info = np.random.default_rng(5), np.finfo(dtype)
    kind = "f32" if dtype == "float32" else "f64"
    low, high = info.minexp - info.nmant, info.maxexp - 1
    n = 20000
    near = rng.uniform(1, 2, n) * rng.choice([-1, 1], n)
    b = np.concatenate([near, near, near, rng.uniform(1, 2, n) * 2.0 ** rng.integers(low, high, n), near, near])
    b = b.astype(dtype)
    times = np.concatenate([rng.uniform(0, 10, n), rng.integers(0, 1000, n), 2.0 ** rng.uniform(0, 60, n)])
    limits = [near * rare.QUOTIENTS[kind] * rng.uniform(0.5, 2, n), near * rare.FLOORS[kind] * rng.uniform(0.5, 2, n)]
    a = np.concatenate([b[: 3 * n] * times, rng.uniform(1, 2, n) * 2.0 ** rng.integers(low, high, n), *limits])
    a = a.astype(dtype)
    a[: 2 * n] = np.nextafter(a[: 2 * n], rng.choice([-1, 1], 2 * n).astype(dtype) * info.max)  # next to a multiple
    return a, b


@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_is_numpys(name, dtype):
    ours, numpys = FUNCTIONS[name]
    a, b = hard(dtype)
    with np.errstate(all="ignore"):
        assert same(accuracy.call(ours, a, b, dtype=dtype), numpys(a, b)).all()


@on_x86[0]
@on_x86[1]
@each
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_its_loop_is_packed(name, dtype):
    code = machine_code(FUNCTIONS[name][0], 2, dtype)
    assert packed_loops(code, dtype) and set(calls(code)) <= {"fmod", "fmodf"}


floats = st.floats(width=64) | st.sampled_from([0.0, -0.0, INF, -INF, NAN, 0.1, 1.0, 5e-324, 1e308])


@pytest.fixture(scope="module")
def compiled():
    return nb.jit(lambda a, b: (a // b, a % b))


def quotient(a, b):
    return a // b


def remainder(a, b):
    return a % b


LOOPS = [(nb.adjoint(f), nb.tangent(f)) for f in (quotient, remainder)]


@given(st.sampled_from(["float16", "float32", "float64"]), st.lists(st.tuples(floats, floats), min_size=1, max_size=9))
@example("float64", [(1.0, 0.1), (INF, 0.0), (1e300, 1e-300)])
def test_every_way_is_numpys(compiled, dtype, pairs):
    with np.errstate(all="ignore"):
        a, b = (np.array(column).astype(dtype) for column in zip(*pairs, strict=True))
        expected = np.floor_divide(a, b), np.mod(a, b)
    x, y = nd.array(a), nd.array(b)
    whole, rest = x.copy(), x.copy()
    whole //= y
    rest %= y
    ways = {
        "operators": (x // y, x % y),
        "divmod": divmod(x, y),
        "functions": (nd.floor_divide(x, y), nd.modulo(x, y)),
        "reflected": (a // y, a % y),
        "out": (nd.floor_divide(x, y, out=x.copy()), nd.modulo(x, y, out=y.copy())),
        "in place": (whole, rest),
        "numpy": (np.floor_divide(x, y), np.mod(x, y)),
        "broadcast": (x.reshape((-1, 1)) // y.reshape((-1, 1)), x.reshape((-1, 1)) % y.reshape((-1, 1))),
        "compiled": compiled(x, y),
    }
    for way, got in ways.items():
        for mine, numpys in zip(got, expected, strict=True):
            assert mine.asnumpy().dtype == numpys.dtype
            assert same(mine.asnumpy().reshape(-1), numpys).all(), (way, pairs)
    a0, b0 = a[0].item(), b[0].item()  # with a number on either side
    for mine, numpys in zip((x // b0, x % b0, a0 // y, a0 % y), numbers(a, b, a0, b0), strict=True):
        assert same(mine.asnumpy(), numpys).all(), pairs
    if dtype == "float64":
        for (adjoint, tangent), numpys in zip(LOOPS, expected, strict=True):
            assert same(adjoint.value_and_grad(a0, b0)[0], numpys[0])
            assert same(tangent.jvp((a0, b0), (1.0, 1.0))[0], numpys[0])


def numbers(a, b, a0, b0):
    with np.errstate(all="ignore"):
        return np.floor_divide(a, b0), np.mod(a, b0), np.floor_divide(a0, b), np.mod(a0, b)


def test_derivatives_have_the_same_quotient():
    x, y = nd.array([1.0, -1.0, 5.5], dtype="float64"), nd.array([0.1, 0.1, -2.0], dtype="float64")
    numpys = np.floor_divide(x.asnumpy(), y.asnumpy())

    def total(a, b):
        return (a % b + a // b).sum()

    for grad in (nb.grad(total, argnums=(0, 1)), nb.jit(nb.grad(total, argnums=(0, 1)))):
        by_x, by_y = grad(x, y)
        assert by_x.asnumpy().tolist() == [1, 1, 1] and (by_y.asnumpy() == -numpys).all()
    for v in (x, y):
        v.attach_grad()
    with autograd.record():
        z = x % y
    z.backward()
    assert (y.grad.asnumpy() == -numpys).all()


def remainder_in_a_loop(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] % b[i] + a[i] // b[i]
    return total


def test_derivatives_of_loops_have_the_same_quotient():
    a, b = np.array([1.0, -1.0, 5.5]), np.array([0.1, 0.1, -2.0])
    _, (by_a, by_b) = nb.adjoint(remainder_in_a_loop).value_and_grad(a, b)
    assert by_a.tolist() == [1, 1, 1] and (by_b == -np.floor_divide(a, b)).all()
    tangent = nb.tangent(remainder_in_a_loop)
    for k in range(3):
        one = np.eye(3)[k]
        assert tangent.jvp((a, b), (np.zeros(3), one))[1] == -np.floor_divide(a, b)[k]
