"""jit(f).njit: the compiled program as a function for users' own compiled code."""

import numba
import numpy as np
import pytest
import scipy

import nbgrad as nb
from nbgrad import nd

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
    with pytest.raises(TypeError, match="No matching definition"):
        native(X.astype("float32"))
    outside = nd.array(X)
    with pytest.raises(nb.base.TraceError, match="pass them as arguments"):
        nb.jit(lambda x: x * outside).njit(X)
    with pytest.raises(nb.base.TraceError, match="runs from Python"):
        nb.jit(nd.linalg.potrf).njit(np.eye(3))
    with pytest.raises(nb.base.DTypeError, match="float16"):
        nb.jit(lambda x: x * 2).njit(X.astype("float16"))
    with pytest.raises(nb.base.DTypeError, match="gives a dict"):
        nb.jit(lambda x: {"y": x * 2}).njit(X)


def test_low_level():
    f = nb.jit(lambda x: nd.exp(-x * x))
    found, _ = scipy.integrate.quad(scipy.LowLevelCallable(f.low_level().ctypes), 0, 1)
    expected, _ = scipy.integrate.quad(lambda x: np.exp(-x * x), 0, 1)
    assert abs(found - expected) < 1e-14
    with pytest.raises(nb.base.DTypeError, match="must give one number"):
        nb.jit(nb.value_and_grad(lambda x: x * x)).low_level()
