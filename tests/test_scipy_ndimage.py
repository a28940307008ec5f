"""nbgrad.scipy.ndimage: values are SciPy's, derivatives of first and second order those of differences."""

import itertools

import numpy as np
import pytest
import scipy.ndimage
from scipy_calls import compiled_is_eager, of_floats

import nbgrad as nb
from nbgrad import np as nbnp
from nbgrad.errors import AttrError, ShapeError
from nbgrad.scipy import ndimage
from nbgrad.testing import check_grads

rng = np.random.default_rng(6)
X, IMAGE = rng.normal(size=7), rng.normal(size=(4, 5))
W = rng.normal(size=(2, 3))
LABELS = np.arange(20).reshape(4, 5) % 3
PLACES = rng.uniform(0.2, 2.8, size=(2, 6))
MATRIX = np.array([[0.9, 0.1], [0.2, 1.1]])

#: Function, arguments, keywords.
CASES = [
    ("correlate", (IMAGE, W), {}), ("convolve", (IMAGE, W), {"mode": "wrap", "origin": (0, -1)}),
    ("correlate1d", (IMAGE, X[:3]), {"axis": 0, "mode": "constant", "cval": 2.0}),
    ("convolve1d", (X, X[:2]), {"mode": "nearest"}), ("gaussian_filter1d", (X, 0.8), {"order": 2}),
    ("gaussian_filter", (IMAGE, 0.7), {}), ("gaussian_filter", (IMAGE, (0.5, 0.9)), {"order": (0, 1), "truncate": 3.0}),
    ("uniform_filter1d", (IMAGE, 3), {"axis": 0}), ("uniform_filter", (IMAGE, (2, 3)), {}), ("sobel", (IMAGE,), {}),
    ("prewitt", (IMAGE,), {"axis": 0, "mode": "mirror"}), ("laplace", (IMAGE,), {}),
    ("gaussian_laplace", (IMAGE, 0.7), {}), ("gaussian_gradient_magnitude", (IMAGE, 0.9), {}),
    ("maximum_filter", (IMAGE, (2, 3)), {}), ("minimum_filter", (IMAGE,), {"footprint": [[0, 1], [1, 1]]}),
    ("median_filter", (IMAGE, 3), {"mode": "nearest"}), ("map_coordinates", (IMAGE, PLACES), {}),
    ("map_coordinates", (IMAGE, PLACES * 2 - 1.5), {"order": 1, "mode": "grid-wrap"}),
    ("shift", (X, 0.37), {"mode": "nearest"}), ("shift", (IMAGE, np.array([0.31, -0.43])), {"order": 1}),
    ("zoom", (IMAGE, 1.7), {"order": 1}), ("affine_transform", (IMAGE, MATRIX, 0.31), {"mode": "mirror", "order": 1}),
    ("sum_labels", (IMAGE, LABELS), {}), ("mean", (IMAGE, LABELS, [0, 2]), {}), ("sum_labels", (IMAGE,), {}),
]  # fmt: skip
NAMES = [f"{k}-{c[0]}" for k, c in enumerate(CASES)]


@pytest.mark.parametrize(("name", "args", "keywords"), CASES, ids=NAMES)
def test_values_and_derivatives(name, args, keywords):
    ours, theirs = getattr(ndimage, name), getattr(scipy.ndimage, name)
    np.testing.assert_allclose(ours(*args, **keywords).asnumpy(), theirs(*args, **keywords), rtol=1e-8, atol=1e-9)
    values, f = of_floats(args, lambda *a: ours(*a, **keywords))
    check_grads(f, values, order=2)


@pytest.mark.parametrize(("name", "args", "keywords"), CASES[::3], ids=NAMES[::3])
def test_compiled(name, args, keywords):
    """Under jit, value and gradient are the same."""
    compiled_is_eager(*reversed(of_floats(args, lambda *a: getattr(ndimage, name)(*a, **keywords))))


def test_widths_of_gaussians():
    def smoothed(x, sigma):
        return ndimage.gaussian_filter(x, sigma, radius=3)

    check_grads(smoothed, (IMAGE, np.array([0.8, 1.1])), order=2)
    gradient = nb.grad(lambda x, s: nbnp.sum(smoothed(x, s) ** 2), argnums=(0, 1))
    for a, b in zip(nb.jit(gradient)(IMAGE, np.array(0.9)), gradient(IMAGE, np.array(0.9)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)
    with pytest.raises(AttrError, match="a radius is needed"):
        nb.jit(lambda x, s: ndimage.gaussian_filter1d(x, s))(X, np.array(0.9))


@pytest.mark.parametrize("shape", [(7,), (5, 6), (3, 4, 5), (2, 3, 2, 3)])
@pytest.mark.parametrize("mode", ["reflect", "mirror", "nearest", "wrap", "constant"])
def test_modes(shape, mode):
    x = rng.normal(size=shape)
    for size in ((2,) * len(shape), (3,) * len(shape), tuple(rng.integers(1, 4, len(shape)).tolist())):
        origin = [int(rng.integers(-(m // 2), (m - 1) // 2 + 1)) for m in size]
        w, keywords = rng.normal(size=size), {"mode": mode, "cval": 0.7, "origin": origin}
        for name, args in (("correlate", (x, w)), ("convolve", (x, w)), ("maximum_filter", (x, size)),
                           ("minimum_filter", (x, size)), ("median_filter", (x, size))):  # fmt: skip
            found, expected = getattr(ndimage, name)(*args, **keywords), getattr(scipy.ndimage, name)(*args, **keywords)
            np.testing.assert_allclose(found.asnumpy(), expected, atol=1e-12)
    for axis, n in itertools.product(range(-len(shape), len(shape)), (1, 2, 3)):
        for name, value in (("correlate1d", rng.normal(size=n)), ("convolve1d", rng.normal(size=n)),
                            ("uniform_filter1d", n), ("gaussian_filter1d", 0.4 * n)):  # fmt: skip
            found = getattr(ndimage, name)(x, value, axis=axis, mode=mode)
            np.testing.assert_allclose(
                found.asnumpy(), getattr(scipy.ndimage, name)(x, value, axis=axis, mode=mode), atol=1e-12
            )


MODES = ["constant", "nearest", "reflect", "mirror", "wrap", "grid-constant", "grid-mirror", "grid-wrap"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [0, 1, 3])
def test_interpolation(order, mode):
    """Splines with reflected ends go through the elements here; SciPy's are up to 4e-4 beside them."""
    tolerance = 1e-3 if order == 3 and mode in ("reflect", "grid-mirror") else 1e-7 if order == 3 else 1e-11
    for shape in ((7,), (5, 6), (3, 4, 5), (1, 5)):
        x = rng.normal(size=shape)
        inside = rng.uniform(size=(len(shape), 20)) * np.array(shape)[:, None]
        for places in (inside, 3 * inside - 4):
            keywords = {"order": order, "mode": mode, "cval": 0.3}
            found = ndimage.map_coordinates(x, places, **keywords).asnumpy()
            np.testing.assert_allclose(found, scipy.ndimage.map_coordinates(x, places, **keywords), atol=tolerance)
        for name, value in (("shift", 0.4), ("zoom", 1.7)):
            found, expected = (getattr(m, name)(x, value, order=order, mode=mode) for m in (ndimage, scipy.ndimage))
            np.testing.assert_allclose(found.asnumpy(), expected, atol=tolerance)
        grid = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij")).astype(float)
        through = ndimage.map_coordinates(x, grid, order=order, mode=mode)
        np.testing.assert_allclose(through.asnumpy(), x, atol=1e-13 if mode != "nearest" else 1e-7)


def test_measurements():
    with np.errstate(all="ignore"):
        for index in (None, 2, [1, 3], [3, 1, 1, 7], np.array([[1, 2], [0, 3]])):
            for name in ("sum_labels", "mean"):
                if name == "sum_labels" or index is None or 7 not in np.ravel(index):
                    labels = np.arange(20).reshape(4, 5) % 4
                    expected = getattr(scipy.ndimage, name)(IMAGE, labels, index)
                    np.testing.assert_allclose(getattr(ndimage, name)(IMAGE, labels, index).asnumpy(), expected)
    assert np.isnan(ndimage.mean(IMAGE, LABELS, [9]).asnumpy()).all()
    weights = np.abs(IMAGE) + 0.1
    found, expected = ndimage.center_of_mass(weights), scipy.ndimage.center_of_mass(weights)
    np.testing.assert_allclose([float(v) for v in found], expected)
    found = ndimage.center_of_mass(weights, LABELS, [0, 2])
    np.testing.assert_allclose([[float(v) for v in row] for row in found],
                               scipy.ndimage.center_of_mass(weights, LABELS, [0, 2]))  # fmt: skip
    check_grads(lambda x: nbnp.stack(ndimage.center_of_mass(x)), (weights,), order=2)


@pytest.mark.parametrize("f, error, message", [
    (lambda: ndimage.correlate(IMAGE, X), ShapeError, "weights of the rank of the image"),
    (lambda: ndimage.correlate(IMAGE, W, mode="torus"), AttrError, "the modes are"),
    (lambda: ndimage.correlate(IMAGE, W, origin=5), AttrError, "the origin moves weights of length 2 by -1 to 0"),
    (lambda: ndimage.correlate(IMAGE, W, output=np.float32), AttrError, "output is not supported"),
    (lambda: ndimage.correlate1d(IMAGE, X[:3], axis=2), np.exceptions.AxisError, "axis 2 is out of bounds"),
    (lambda: ndimage.correlate1d(IMAGE, IMAGE), ShapeError, "a vector of weights"),
    (lambda: ndimage.gaussian_filter(IMAGE, [1, 2, 3]), ShapeError, "sigma has one entry, or one for each of 2"),
    (lambda: ndimage.gaussian_filter1d(X, 1.0, order=-1), AttrError, "is 0 or more"),
    (lambda: ndimage.uniform_filter1d(X, 0), AttrError, "the size is 1 or more"),
    (lambda: ndimage.median_filter(X), AttrError, "a size or a footprint"),
    (lambda: ndimage.median_filter(X, footprint=[[1]]), ShapeError, "a footprint of the rank"),
    (lambda: ndimage.median_filter(X, 3, origin=2), AttrError, "beyond the element"),
    (lambda: ndimage.map_coordinates(X, [[1.0]], order=2), AttrError, "the orders are 0, 1 and 3"),
    (lambda: ndimage.map_coordinates(X, [[1.0]], mode="torus"), AttrError, "the modes are"),
    (lambda: ndimage.map_coordinates(IMAGE, [[1.0]]), ShapeError, r"coordinates of shape \(2, ...\)"),
    (lambda: ndimage.shift(IMAGE, [1.0, 2.0, 3.0]), ShapeError, "one for each of 2 axes"),
    (lambda: ndimage.affine_transform(IMAGE, np.eye(5)), ShapeError, "a matrix of shape"),
    (lambda: ndimage.sum_labels(IMAGE, None, 1), AttrError, "give labels, too"),
    (lambda: ndimage.sum_labels(IMAGE, LABELS[:2]), ShapeError, "labels have the shape of the image"),
])  # fmt: skip
def test_errors(f, error, message):
    with pytest.raises(error, match=message):
        f()
