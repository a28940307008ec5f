"""Axes of length 1 that are added or kept, views that have no axes, and masks as indices of what is written."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from random_loops import function

import nbgrad as nb
from nbgrad.errors import TraceError

X, W = np.array([0.3, 0.7, 1.1]), np.random.default_rng(2).random((3, 2))

ADDED = {
    "x[None]": 0,
    "x[:, None]": 1,
    "np.expand_dims(x, 0)": 0,
    "np.atleast_2d(x)": 0,
    "np.sin(x)[None]": 0,
    "np.sum(np.outer(x, x), axis=0, keepdims=True)": 0,
    "np.sum(np.outer(x, x), axis=1, keepdims=True)": 1,
}
KEYS = [
    "0",
    "-1",
    "1",
    "-2",
    "k",
    "k - 2",
    ":",
    "0:1",
    ":5",
    "-1:",
    "::-1",
    "::2",
    "1:",
    ":0",
    ":-1",
    "1:2",
    "k:",
    "k + 1:",
]


@pytest.mark.parametrize("made", ADDED)
def test_every_index_of_an_axis_that_was_added_counts(made):
    """A value is Python's, or there is an error: of an index out of range, or of a slice that has no element."""
    right = 0
    for key in KEYS:
        full = (key, ":") if ADDED[made] == 0 else (":", key)
        f = function(
            f"def f(x, k):\n    y = {made}\n    y[{', '.join(full)}] *= 2.0\n"
            f"    return np.sum(y[{full[0]}, {full[1]}]) + np.sum(x)\n"
        )
        for k in (0, 1, -1):
            mine, theirs = X.copy(), X.copy()
            with uncompiled():
                try:
                    expected = f(theirs, k)
                except IndexError:
                    with pytest.raises(IndexError):
                        nb.adjoint(f).value_and_grad(mine, k)
                    continue
                try:
                    value = nb.adjoint(f).value_and_grad(mine, k)[0]
                except (TraceError, ValueError) as err:
                    assert "without the element of axis" in str(err) and f(X.copy(), k) == np.sum(X)
                    continue
            np.testing.assert_allclose(value, expected, rtol=1e-14)
            np.testing.assert_array_equal(mine, theirs)
            right += 1
    assert right >= 28


def test_an_index_array_along_such_an_axis_is_refused():
    f = function("def f(x):\n    return np.sum(x[None][np.array([0, 0])])\n")
    with pytest.raises(TraceError, match="an array as an index of axis 0"):
        nb.adjoint(f).value_and_grad(X)


WITHOUT_AXES = {
    "y = x[..., 0]; y *= a": False,
    "y = x[0, ...]; y = y * a": True,
    "y = np.squeeze(x[:1], 0); y += a": False,
    "y = x[:1].squeeze(axis=0) * a": True,
    "y = (x[:1] * a).squeeze(axis=0); y *= a": True,
    "z = x[..., 0]; y = z; y -= a": False,
    "y = x[..., 0]; x[0] = a": False,
    "x[..., 0] *= a; y = x[0]": True,
    "y = x[..., 0] if a > 0 else 1.0; y *= a": False,
    "y = x[0]; y *= a; y = y + x[..., 1]": True,
    "z = np.atleast_1d(x[..., 0]); z *= a; y = z[0]": False,
    "z = np.expand_dims(x[..., 0], 0); z[0] *= a; y = z[0]": False,
    "v = x[..., 1]; z = np.atleast_1d(v); z *= a; y = z[0]": False,
    "z = np.atleast_1d(x[..., 0]) * a; z *= a; y = z[0]": True,
    "z = x[0, None]; z *= a; y = z[0]": True,
    "z = np.zeros(2); z[0] = x[..., 1]; z[1] += x[..., 0]; y = z[0] * z[1]": True,
}


@pytest.mark.parametrize("body", WITHOUT_AXES)
def test_views_without_axes_are_not_written(body):
    f = function(f"def f(x, a):\n    {body}\n    return np.sum(x) + y\n")
    with uncompiled():
        if WITHOUT_AXES[body]:
            agrees(f, (X, 0.8))
        else:
            with pytest.raises(TraceError, match="an array without axes, that is written in place, or whose array is"):
                nb.adjoint(f).value_and_grad(X.copy(), 0.8)


def scaled(v, a):
    v *= a
    return v


def test_nor_by_functions_that_are_called():
    f = function("def f(x, a):\n    return scaled(x[..., 0], a) + np.sum(x)\n", {"scaled": scaled})
    with pytest.raises(TraceError, match="an array without axes"):
        nb.adjoint(f).value_and_grad(X.copy(), 0.8)


def squeezed(x, w):
    y = np.squeeze(x)
    z = np.zeros(3)
    for i in range(3):
        z[i] = y[i] * w[i]
    w[:] = x.squeeze() * w
    return np.sum(z**2)


def test_axes_that_squeeze_drops_are_known_at_the_call():
    with uncompiled():
        agrees(squeezed, (X.reshape(3, 1), X[::-1].copy()))
        agrees(squeezed, (X.reshape(1, 3), X[::-1].copy()))
        with pytest.raises(TraceError, match="more axes than what is assigned to"):
            nb.adjoint(squeezed).vjp(np.ones((3, 3)), X)


def masked(m, k, a):
    m[np.isnan(m)] = a
    m[np.logical_and(m > 0, m < 0.3)] = 2.0 * a
    m[np.abs(m) > 0.6] *= a
    m[k.reshape(3, 2)] += a
    m.T[k.reshape(3, 2).T] *= 1.5
    m[np.nonzero(m > 2.0)] = a**2
    m[np.isin(np.arange(3), [0, 2])] *= 2.0


def test_masks_that_calls_make_are_indices_of_what_is_written():
    m = W.copy()
    m[1, 1] = np.nan
    k = np.array([1, 0, 0, 1, 1, 0], bool)
    with uncompiled():
        mine, theirs = m.copy(), m.copy()
        masked(theirs, k, 0.7)
        pull = nb.adjoint(masked).vjp(mine, k, 0.7)
        np.testing.assert_allclose(mine, theirs, rtol=1e-14)
        by_m, _, by_a = pull(np.ones((3, 2)))
        ends = []
        for h in (1e-6, -1e-6):
            end = m.copy()
            masked(end, k, 0.7 + h)
            ends.append(np.sum(end))
    np.testing.assert_allclose(by_a, (ends[0] - ends[1]) / 2e-6, rtol=1e-7)
    assert by_m[1, 1] == 0.0 and by_m.shape == m.shape


@pytest.mark.parametrize(("n", "size"), [(0, 6), (0, 0)])
def test_a_length_that_cannot_be_inferred(n, size):
    f = function("def f(x, n):\n    return np.sum(x.reshape(n, -1) ** 2)\n")
    with uncompiled(), pytest.raises(ValueError, match="has a length that is 0, so that -1 is not known"):
        nb.adjoint(f).value_and_grad(np.ones(size), n)
