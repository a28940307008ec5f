"""jit(f).njit: the compiled program as a function for users' own compiled code."""

import gc

import numba
import numpy as np
import pytest
import scipy

import nbgrad as nb
from nbgrad import autograd, nd

X = np.linspace(-1.0, 1.5, 12)


def energy(x, a=2.0):
    return nd.sum(nd.tanh(x * a) * x)


def test_value_and_gradient_in_a_compiled_loop():
    f = nb.jit(nb.value_and_grad(energy))
    native = f.njit(X)

    @numba.njit
    def descend(x, steps):
        value = 0.0
        for _ in range(steps):
            value, slope = native(x)
            x = x - 0.1 * slope
        return value, x

    x = X
    for _ in range(5):
        value, slope = f(x)
        x = x - 0.1 * slope
    found, at = descend(X, 5)
    np.testing.assert_allclose(found, value, rtol=1e-12)
    np.testing.assert_allclose(at, x, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_shapes_and_products(dtype):
    a, b = np.ones((3, 4), dtype), np.arange(8, dtype=dtype).reshape(4, 2)
    f = nb.jit(lambda a, b: (nd.dot(a, b), nd.softmax(b)))
    for found, expected in zip(f.njit(a, b)(a, b), f(a, b), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_numbers():
    newton = nb.jit(nb.value_and_grad(lambda x: x * x - 2.0)).njit(1.0)

    @numba.njit
    def root(x):
        for _ in range(20):
            value, slope = newton(x)
            x -= value / slope
        return x

    assert abs(root(1.0) - np.sqrt(2)) < 1e-15


def test_a_long_program_whose_kernels_repeat():
    def unrolled(x):
        for _ in range(60):
            x = nd.tanh(nd.sum(nd.sin(x) * x) + x[::-1])
        return x

    f = nb.jit(unrolled)
    expected = f(X)
    assert len(f.latest.compiled.sources) < len(f.latest.compiled.steps)
    np.testing.assert_array_equal(f.njit(X)(X), expected)


def test_errors():
    native = nb.jit(energy).njit(X)
    with pytest.raises(ValueError, match="argument 0 must have shape"):
        native(X[:5].copy())
    with pytest.raises(TypeError, match=r"made for the arguments .*float64, 1d, C.*called with array.float32"):
        native(X.astype("float32"))
    with pytest.raises(nb.base.TraceError, match="draws random numbers"):
        nb.jit(lambda x: x * nd.random.uniform(shape=12)).njit(X)
    with pytest.raises(nb.base.TraceError, match="writes into an array"), autograd.train_mode():
        nb.jit(lambda x, *stats: nd.BatchNorm(x, *stats)).njit(X.reshape(3, 4), *[nd.ones(4, dtype="float64")] * 4)
    with pytest.raises(nb.base.TraceError, match="runs from Python"):
        nb.jit(nd.linalg.potrf).njit(np.eye(3))
    with pytest.raises(nb.base.DTypeError, match="float16"):
        nb.jit(lambda x: x * 2).njit(X.astype("float16"))
    with pytest.raises(nb.base.DTypeError, match="returns a dict"):
        nb.jit(lambda x: {"y": x * 2}).njit(X)


def test_a_program_of_many_pieces():
    def long(x):
        for _ in range(30):
            x = nd.softmax(x) * 2 + nd.sin(x) * nd.mean(x)
        return x

    f = nb.jit(long)
    np.testing.assert_allclose(f.njit(X)(X), f(X), rtol=1e-12)
    assert len(f._latest().compiled.steps) > len(f._latest().compiled.sources)


def test_results_into_given_arrays():
    f = nb.jit(nb.value_and_grad(lambda x, y: nd.sum(nd.sin(x) * y).reshape(()), argnums=(0, 1)))
    native = f.njit(X, X, out=True)
    a, b = np.empty(12), np.empty(12)
    value, (da, db) = native(X, X, a, b)
    assert da is a and db is b
    expected = f(X, X)
    assert value == expected[0]
    np.testing.assert_array_equal([a, b], expected[1])
    with pytest.raises(ValueError, match="shares memory with an argument or with another result"):
        native(X, X, a, a)
    x = X.copy()
    with pytest.raises(ValueError, match="shares memory"):
        native(x, X, x, b)
    np.testing.assert_array_equal(x, X)
    both = np.empty(24)
    native(X, X, both[:12], both[12:])
    np.testing.assert_array_equal(both, [*a, *b])
    with pytest.raises(ValueError, match="the array for result 1 must have shape"):
        native(X, X, a, b[:5].copy())


def test_arrays_from_outside_are_read_where_they_are():
    def made(w):
        return w, nb.jit(nb.value_and_grad(lambda x: nd.sum(x * x * w))).njit(X)

    w, native = made(nd.array(X))

    @numba.njit
    def twice(x):
        return native(x)[1] * 2

    np.testing.assert_array_equal(twice(X), 4 * X * X)
    w[:] = 3
    np.testing.assert_array_equal(twice(X), 12 * X)
    w *= 2
    np.testing.assert_array_equal(native(X)[1], 12 * X)
    del w
    gc.collect()
    fresh = [np.full(12, np.nan) for _ in range(20)]
    np.testing.assert_array_equal(native(X)[1], 12 * X)
    assert len(fresh) == 20


def test_a_gradient_from_outside_keeps_its_memory():
    w = nd.array(X)
    w.attach_grad()
    native = nb.jit(lambda x: x + w.grad).njit(X)
    for k in (3, 5):
        w[:] = k
        with autograd.record():
            y = nd.sum(w * w)
        y.backward()
        np.testing.assert_array_equal(native(X), X + 2 * k)


def test_low_level():
    f = nb.jit(lambda x: nd.exp(-x * x))
    found, _ = scipy.integrate.quad(scipy.LowLevelCallable(f.low_level().ctypes), 0, 1)
    expected, _ = scipy.integrate.quad(lambda x: np.exp(-x * x), 0, 1)
    assert abs(found - expected) < 1e-14
    with pytest.raises(nb.base.DTypeError, match="must return one number"):
        nb.jit(nb.value_and_grad(lambda x: x * x)).low_level()
    with pytest.raises(nb.base.DTypeError, match="must be floats and arrays of float64"):
        nb.jit(nd.sum).low_level(np.ones(3, "float32"))


def test_low_level_of_several_numbers():
    w = nd.array([1.0, 2.0], dtype="float64")
    f = nb.jit(lambda x, v, y: nd.exp(-x * x) * nd.sum(v * w).reshape(()) * y)
    made = f.low_level(1.0, np.ones(2), 1.0)
    call = made.ctypes
    x = (np.ctypeslib.ctypes.c_double * 5)(0.5, 3.0, 4.0, 2.0, 9.0)
    assert call(5, x, None) == pytest.approx(np.exp(-0.25) * 11 * 2)
    assert np.isnan(call(3, x, None))
    area = nb.jit(lambda x, y: x * y * y)
    found, _ = scipy.integrate.nquad(scipy.LowLevelCallable(area.low_level(1.0, 1.0).ctypes), [[0, 1], [0, 3]])
    assert found == pytest.approx(4.5)
    with_parameter = scipy.LowLevelCallable(area.low_level(1.0, 1.0).ctypes)
    assert scipy.integrate.quad(with_parameter, 0, 1, args=(3.0,))[0] == pytest.approx(4.5)


@nb.primitive
@numba.njit
def sine(x):
    return np.sin(x)


@sine.defvjp
@numba.njit
def sine_vjp(g, y, x):
    return g * np.cos(x)


def scanned(sin):
    def f(x):
        def step(row, s):
            return sin(row) * s, s + sin(sin(row))

        return nd.sum(nd.contrib.foreach(step, nd.reshape(x, (-1, 1)), nd.ones(1, dtype="float64"))[0])

    return f


def repeated(sin):
    def f(x):
        def func(i, y):
            return y * y, [i + 1, sin(y) * 2]

        outputs, (_, y) = nd.contrib.while_loop(lambda i, y: nd.sum(y) > 1, func, [nd.zeros(1), x], 7)
        return nd.sum(outputs * outputs) + nd.sum(y)

    return f


def chosen(sin):
    return lambda x: nd.contrib.cond(nd.sum(x) > 1, lambda: nd.sum(sin(x) * x), lambda: nd.sum(x))


def nested(sin):
    """A loop in a loop, whose body is in pieces."""

    def f(x):
        def step(row, s):
            _, inner = nd.contrib.foreach(lambda r, t: (r, sin(r * t) + t), nd.reshape(x, (-1, 1)), s)
            return sin(row) * inner, s + inner

        return nd.sum(nd.contrib.foreach(step, nd.reshape(x, (-1, 1)), nd.ones(1, dtype="float64"))[0])

    return f


@pytest.mark.parametrize("sin", [nd.sin, sine], ids=["operators", "primitive"])
@pytest.mark.parametrize("made", [scanned, repeated, chosen, nested])
def test_loops_and_branches(made, sin):
    f = nb.jit(nb.value_and_grad(made(sin)))
    native = f.njit(X)
    for x in (X, np.abs(X), np.full(12, 0.09)):
        expected = nb.value_and_grad(made(nd.sin))(x)
        for found in (f(x), native(x)):
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-11, atol=1e-13)
    with pytest.raises(nb.base.TraceError, match=r"the operator (foreach|while_loop|cond).* runs from Python"):
        plain = nb.primitive(np.sin, lambda g, y, x: g * np.cos(x))
        nb.jit(made(plain)).njit(X)
