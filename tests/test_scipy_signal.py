"""nbgrad.scipy.signal: values are SciPy's, derivatives of first and second order those of differences."""

import itertools

import numpy as np
import pytest
import scipy.signal
from scipy_calls import compiled_is_eager, of_floats

from nbgrad import np as nbnp
from nbgrad.errors import AttrError, ShapeError
from nbgrad.scipy import signal
from nbgrad.testing import check_grads

rng = np.random.default_rng(5)
X, LONG, IMAGE = rng.normal(size=7), rng.normal(size=16), rng.normal(size=(4, 5))
B, A = rng.normal(size=3), np.array([1.3, 0.2, -0.3])
SOS = scipy.signal.butter(3, 0.3, output="sos")
SMALL = rng.normal(size=(2, 3))

#: Function, arguments, keywords.
CASES = [
    ("convolve", (X, B), {}), ("convolve", (IMAGE, SMALL), {"mode": "same"}),
    ("convolve", (SMALL, IMAGE), {"mode": "valid"}), ("correlate", (X, B), {"mode": "same"}),
    ("correlate", (IMAGE, SMALL), {}), ("correlate", (SMALL, IMAGE), {"mode": "valid"}),
    ("fftconvolve", (IMAGE, IMAGE[:, :2]), {"axes": 1}), ("oaconvolve", (X, B), {}),
    ("convolve2d", (IMAGE, SMALL), {"boundary": "symm"}),
    ("convolve2d", (IMAGE, SMALL), {"mode": "same", "fillvalue": 1.5}),
    ("correlate2d", (IMAGE, SMALL), {"boundary": "wrap", "mode": "same"}),
    ("upfirdn", (B, X, 2, 3), {}), ("upfirdn", (B, IMAGE), {"up": 3, "axis": 0}),
    ("lfilter", (B, A, X), {}), ("lfilter", (B, A, IMAGE), {"axis": 0}), ("lfilter", (B, [2.0], X), {}),
    ("lfilter", (B, A, X), {"zi": np.array([0.3, -0.5])}), ("lfilter", (B, A, X[:1]), {"zi": np.array([0.3, -0.5])}),
    ("lfilter_zi", (B, A), {}), ("sosfilt", (SOS, X), {}), ("sosfilt", (SOS, X), {"zi": rng.normal(size=(2, 2))}),
    ("sosfilt_zi", (SOS,), {}), ("filtfilt", (B, A, LONG), {}), ("filtfilt", (B, A, LONG), {"padtype": "even"}),
    ("filtfilt", (B, A, X), {"padtype": "constant", "padlen": 3}), ("sosfiltfilt", (SOS, LONG), {"padlen": 9}),
    ("deconvolve", (X, B), {}), ("savgol_filter", (X, 5, 2), {}), ("savgol_filter", (IMAGE, 3, 1), {"axis": 0}),
    ("savgol_filter", (X, 5, 2), {"mode": "mirror", "deriv": 1, "delta": 0.5}), ("detrend", (IMAGE,), {}),
    ("detrend", (X,), {"type": "constant"}), ("detrend", (X,), {"bp": [3]}),
]  # fmt: skip
NAMES = [f"{k}-{c[0]}" for k, c in enumerate(CASES)]


def several(results):
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize(("name", "args", "keywords"), CASES, ids=NAMES)
def test_values_and_derivatives(name, args, keywords):
    ours, theirs = getattr(signal, name), getattr(scipy.signal, name)
    for a, b in zip(several(ours(*args, **keywords)), several(theirs(*args, **keywords)), strict=True):
        np.testing.assert_allclose(a.asnumpy(), b, rtol=1e-11, atol=1e-13)
        assert a.dtype == b.dtype
    values, f = of_floats(args, lambda *a: ours(*a, **keywords))
    for k in range(len(several(f(*values)))):
        check_grads(lambda *a, k=k: several(f(*a))[k], values, order=2)


@pytest.mark.parametrize(("name", "args", "keywords"), CASES[::3], ids=NAMES[::3])
def test_compiled(name, args, keywords):
    """Under jit, value and gradient are the same."""
    values, f = of_floats(args, lambda *a: several(getattr(signal, name)(*a, **keywords))[0])
    compiled_is_eager(f, values, rtol=1e-13)


@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_all_shapes_and_modes(name):
    """Also of integers, which stay integers, and of float32."""
    shapes = [(1,), (4,), (7,), (3, 4), (5, 2), (2, 3, 4), (2, 1, 2, 3)]
    for n, m in itertools.product(shapes, [*shapes[:2], (2, 2), (6, 7), (2, 2, 3), (1, 1, 2, 2)]):
        for mode in ("full", "same", "valid") if len(n) == len(m) else ():
            for dtype in ("f8", "f4", "i8"):
                x, w = (rng.integers(-9, 9, size=s).astype(dtype) for s in (n, m))
                if mode == "valid" and not (np.all(np.less_equal(n, m)) or np.all(np.less_equal(m, n))):
                    with pytest.raises(ShapeError, match="at least as long as the other along all axes"):
                        getattr(signal, name)(x, w, mode)
                    continue
                expected = getattr(scipy.signal, name)(x, w, mode, method="direct")
                found = getattr(signal, name)(x, w, mode)
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found.asnumpy(), expected)


@pytest.mark.parametrize("shape", [(4, 5), (3, 3), (6, 2)])
def test_two_dimensions(shape):
    x = rng.normal(size=shape)
    for size, mode, boundary in itertools.product(
        [(3, 3), (2, 2), (4, 1), (1, 1)], ["full", "same"], ["fill", "symm", "wrap"]
    ):
        w = rng.normal(size=size)
        for name in ("convolve2d", "correlate2d"):
            expected = getattr(scipy.signal, name)(x, w, mode, boundary)
            np.testing.assert_allclose(getattr(signal, name)(x, w, mode, boundary).asnumpy(), expected, atol=1e-13)


def test_sections_forwards_and_backwards():
    for order in (1, 2, 3, 4):
        sos = scipy.signal.butter(order, 0.3, output="sos")
        x = rng.normal(size=(2, 40))
        for padtype in ("odd", "even", "constant", None):
            expected = scipy.signal.sosfiltfilt(sos, x, padtype=padtype)
            np.testing.assert_allclose(signal.sosfiltfilt(sos, x, padtype=padtype).asnumpy(), expected, atol=1e-12)


def test_filters_of_all_lengths():
    for m, p in itertools.product((1, 2, 4), (1, 2, 3)):
        b, a = rng.normal(size=m), np.array([1.3, *rng.normal(size=p - 1) * 0.3])
        for shape, axis in (((9,), -1), ((3, 7), 1), ((7, 3), 0), ((2, 2, 5), 1), ((2,), -1)):
            x = rng.normal(size=shape)
            np.testing.assert_allclose(
                signal.lfilter(b, a, x, axis).asnumpy(), scipy.signal.lfilter(b, a, x, axis), atol=1e-13
            )
            states = list(shape)
            states[axis] = max(m, p) - 1
            if states[axis]:
                zi = rng.normal(size=states)
                found, expected = signal.lfilter(b, a, x, axis, zi), scipy.signal.lfilter(b, a, x, axis, zi)
                for v, w in zip(found, expected, strict=True):
                    np.testing.assert_allclose(v.asnumpy(), w, atol=1e-13)


def test_long_signals_need_little_memory():
    """Sums are not tables of windows: those of these would take 16 GB."""
    x, w = np.ones(1_000_000), np.ones(2_000)
    assert signal.convolve(x, w, "valid").asnumpy().max() == 2_000
    assert nbnp.convolve(x, w, "same")[500_000] == 2_000
    assert abs(signal.detrend(x).asnumpy()).max() < 1e-9


@pytest.mark.parametrize("f, error, message", [
    (lambda: signal.convolve(X, IMAGE), ShapeError, "of one rank are expected"),
    (lambda: signal.convolve(X, B, "all"), AttrError, "the modes are"),
    (lambda: signal.convolve(X, B, method="quick"), AttrError, "the methods are"),
    (lambda: signal.correlate(X, B, method="quick"), AttrError, "the methods are"),
    (lambda: signal.convolve2d(X, B), ShapeError, "matrices are expected"),
    (lambda: signal.convolve2d(IMAGE, SMALL, boundary="torus"), AttrError, "the boundaries are"),
    (lambda: signal.upfirdn(B, X, 0), AttrError, "up is 1 or more"),
    (lambda: signal.lfilter(IMAGE, A, X), ShapeError, "b and a are vectors"),
    (lambda: signal.lfilter(B, A, 1.0), np.exceptions.AxisError, "axis -1 is out of bounds"),
    (lambda: signal.lfilter(B, A, X, zi=X), ShapeError, "zi has 2 elements along the axis"),
    (lambda: signal.sosfilt(X, X), ShapeError, "sections of shape"),
    (lambda: signal.filtfilt(B, A, X), ShapeError, "more than padlen elements"),
    (lambda: signal.filtfilt(B, A, LONG, method="gust"), AttrError, "the method is 'pad'"),
    (lambda: signal.filtfilt(B, A, LONG, padtype="zero"), AttrError, "padtype is"),
    (lambda: signal.deconvolve(IMAGE, B), ShapeError, "vectors are expected"),
    (lambda: signal.savgol_filter(B, 5, 2), ShapeError, "5 elements are needed"),
    (lambda: signal.detrend(X, type="cubic"), AttrError, "the types are"),
    (lambda: signal.detrend(X, bp=99), ShapeError, "breaks are between 0 and 7"),
])  # fmt: skip
def test_errors(f, error, message):
    with pytest.raises(error, match=message):
        f()
