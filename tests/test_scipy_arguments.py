"""What functions of nbgrad.scipy.signal and ndimage refuse, and the corners in which they are SciPy's."""

import numpy as np
import pytest
import scipy.ndimage
import scipy.signal

import nbgrad as nb
import nbgrad.np as xp
from nbgrad.ir.expr import Fn
from nbgrad.scipy import ndimage, signal, special

X = np.arange(6.0).reshape(2, 3)
V = np.array([1.0, 2.0, 4.0, 8.0, 9.0])
SOS = np.array([[1.0, 0.5, 0.2, 1.0, 0.1, 0.0]])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: signal.fftconvolve(X, X, axes=5), "axis 5 is out of bounds"),
        (lambda: signal.fftconvolve(X, X, axes=[0, 0]), "given several times"),
        (lambda: signal.fftconvolve(X, X, axes=1.5), "an axis is a whole number, got 1.5"),
        (lambda: ndimage.sobel(X, axis=3), "axis 3 is out of bounds"),
        (lambda: ndimage.prewitt(X, axis=-3), "axis -3 is out of bounds"),
        (lambda: ndimage.gaussian_filter(X, 1.0, axes=(0, 0)), "given several times"),
        (lambda: ndimage.gaussian_filter(X, 1.0, axes=(0, -2)), "given several times"),
        (lambda: ndimage.gaussian_filter(X, 1.0, radius=1.5), "the radius is a whole number"),
        (lambda: ndimage.gaussian_filter1d(V, -1.0), "sigma is not negative"),
        (lambda: ndimage.correlate(V, [1.0, 2.0], origin=0.5), "the origin is a whole number"),
        (lambda: ndimage.uniform_filter(V, 0), "the size is 1 or more"),
        (lambda: ndimage.zoom(V, -1), "not negative"),
        (lambda: ndimage.zoom(X, [1.0, 2.0, 3.0]), "one for each of 2 axes"),
        (lambda: ndimage.affine_transform(X, np.diag([1.0, 1.0, 2.0])), "the last row"),
        (lambda: ndimage.affine_transform(X, np.eye(2), offset=[1.0, 2.0, 3.0]), r"an offset of shape \(2,\)"),
        (lambda: ndimage.affine_transform(X, np.eye(2), output_shape=(3, -1)), "0 or more"),
        (lambda: ndimage.affine_transform(X, np.eye(2), output_shape=(3,)), "output_shape has 2 lengths"),
        (lambda: ndimage.map_coordinates(3.0, np.ones((0, 4))), "coordinates of shape"),
        (lambda: signal.filtfilt([1.0], [1.0, -0.5], V, padlen=-1), "padlen is 0 or more"),
        (lambda: signal.sosfiltfilt(SOS, V, padlen=-1), "padlen is 0 or more"),
        (lambda: signal.lfilter([1.0], [0.0, 1.0], V), r"a\[0\] is 0"),
        (lambda: signal.lfilter([1.0], [1.0], V, axis=2), "lfilter: axis 2 is out of bounds"),
        (lambda: signal.lfilter([1.0, 2.0], [1.0], X, zi=1.0), "zi has as many axes as x, 2"),
        (lambda: signal.lfilter_zi([1.0], [1.0, -1.0]), "add up to 0"),
        (lambda: signal.filtfilt([1.0], [1.0, -1.0], np.ones(30)), "add up to 0"),
        (lambda: signal.deconvolve(V, [0.0, 1.0]), "begins with 0"),
        (lambda: signal.sosfilt(0 * SOS, V), r"a\[0\] is 0"),
        (lambda: signal.savgol_filter(V, 3, -1), "polyorder is 0 or more"),
        (lambda: signal.savgol_filter(V, 3.0, 1), "window_length is a whole number"),
        (lambda: signal.savgol_filter(V, 3, 1, deriv=-1), "deriv is 0 or more"),
        (lambda: signal.savgol_filter(V, 3, 1, delta=V), "delta is a number"),
        (lambda: signal.detrend(V, bp=2.5), "a break is a whole number"),
        (lambda: signal.convolve2d(X, X, fillvalue=[1.0, 2.0]), "fillvalue is a number"),
        (lambda: signal.upfirdn([], V), "a vector h with elements"),
        (lambda: signal.upfirdn([1.0], []), "no elements along axis 0"),
        (lambda: signal.upfirdn([1.0], V, up=0), "up is 1 or more"),
    ],
)
def test_refused(call, match):
    with pytest.raises((ValueError, TypeError), match=match):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda s, n: n.shift(V, 0.5, mode="nearest", prefilter=False),
        lambda s, n: n.map_coordinates(V, [[-0.7, 0.2, 3.9, 5.5]], mode="nearest", prefilter=False),
        lambda s, n: n.shift(V[:4], 3, order=1, mode="wrap"),
        lambda s, n: n.shift(V[:4], -3, order=1, mode="wrap"),
        lambda s, n: n.map_coordinates(V, [[-8.0, -4.0, -0.0, 4.0, 8.0, -2.5, 9.5]], order=1, mode="wrap"),
        lambda s, n: s.fftconvolve([True, False, True, True], [True, True]),
        lambda s, n: s.fftconvolve([1, 2, 3], [4, 5]),
        lambda s, n: n.uniform_filter(V.astype("float32"), 3),
        lambda s, n: n.correlate1d(V.astype("float32"), [0.5, 0.25, 0.25]),
        lambda s, n: n.shift(V.astype("float32"), 0.25),
        lambda s, n: s.savgol_filter(V.astype("float32"), 3, 1),
        lambda s, n: n.gaussian_laplace(X, 1.0, mode=["wrap", "nearest"]),
        lambda s, n: n.gaussian_gradient_magnitude(X, 1.0, mode=["wrap", "nearest"]),
        lambda s, n: n.laplace(X, mode=["wrap", "nearest"]),
    ],
)
def test_as_scipy(call):
    found, expected = call(signal, ndimage), call(scipy.signal, scipy.ndimage)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(
        found.asnumpy(), expected, rtol=2e-6 if expected.dtype == "float32" else 1e-10, atol=1e-12
    )


def test_results_without_elements_are_compiled():
    for f in (lambda x: ndimage.zoom(x, 0.3), lambda x: ndimage.map_coordinates(x, np.ones((2, 0)))):
        both = nb.value_and_grad(lambda x: xp.sum(f(x)))  # noqa: B023
        value, gradient = nb.jit(both)(np.ones((4, 1)))
        assert value == both(np.ones((4, 1)))[0] and gradient.shape == (4, 1)


def test_widths_may_be_recorded_in_a_list():
    def loss(a, b):
        return xp.sum(ndimage.gaussian_filter(X, [a, b]) ** 2)

    slopes, h = nb.grad(loss, argnums=(0, 1))(0.8, 1.1), 1e-6
    for k, s in enumerate(slopes):
        d = [h * (k == j) for j in range(2)]
        values = [float(loss(0.8 + t * d[0], 1.1 + t * d[1])) for t in (1, -1)]
        np.testing.assert_allclose(s, (values[0] - values[1]) / (2 * h), rtol=1e-6)


@pytest.mark.parametrize("name", ["i0", "i1", "j0", "j1", "k0", "k1", "y0", "y1", "i0e", "i1e", "exp1"])
def test_names_of_functions_are_none_of_loops(name):
    f, x = getattr(special, name), np.linspace(0.1, 5.0, 20_000)
    both = nb.value_and_grad(lambda x: xp.sum(f(x) * x))
    for a, b in zip(nb.jit(both)(x), both(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_helper_that_is_called_as_a_variable_is_refused():
    with pytest.raises(ValueError, match="j1 is what generated code calls variables"):
        Fn("bessel", "j1({0})", helpers={"j1": abs})


def test_zeta_around_0():
    for s, expected in ((-1e-12, -0.4999999999990811), (-1e-17, -0.5), (-4e-4, -0.499632585)):
        np.testing.assert_allclose(special.zeta(s).asnumpy(), expected, rtol=1e-9)
        np.testing.assert_allclose(nb.grad(special.zeta)(s), -0.9189385332046727, rtol=2e-3)
        np.testing.assert_allclose(nb.grad(nb.grad(special.zeta))(s), -2.00635645590858, rtol=4e-3)
    assert [float(special.zeta(s)) for s in (-2.0, -300.0)] == [0.0, 0.0]
    assert [float(special.kv(v, x)) for v, x in ((2.0, 1e-200), (1.5, 1e-250))] == [np.inf, np.inf]
