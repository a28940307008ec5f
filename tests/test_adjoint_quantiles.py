"""Medians and quantiles along axes."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb

X = np.random.default_rng(2).normal(size=(3, 4))
Z = np.random.default_rng(3).normal(size=(2, 3, 4))


def medians(x):
    deviations = np.abs(x - np.median(x, axis=0))
    return np.median(deviations) + np.sum(np.median(x, axis=-1, keepdims=True) * x) + np.median(x, keepdims=True)[0, 0]


def quantiles(x):
    return np.sum(np.quantile(x, 0.3, axis=1) ** 2) + np.quantile(x, 0.2) * np.sum(np.percentile(x, 70, axis=0))


def several(x):
    ends = np.percentile(x, [10, 90], axis=0)
    kept = np.quantile(x, (0.25, 0.5, 0.75), axis=1, keepdims=True)
    return (
        np.sum(np.clip(x, ends[0], ends[1]) ** 2) + np.sum(kept[2] * x - kept[0] * kept[1]) + np.quantile(x, [0.4])[0]
    )


def ranges(x):
    return np.sum(x / np.ptp(x, axis=0, keepdims=True)) + np.ptp(x) * np.sum(np.ptp(x, axis=1))


def the_axis_is_an_argument(x, axis):
    return np.sum(np.median(x, axis=axis) ** 2) + np.sum(np.quantile(np.moveaxis(x, 0, axis), 0.3, axis=axis))


@pytest.mark.parametrize("f", [medians, quantiles, several, ranges], ids=lambda f: f.__name__)
def test_derivatives(f):
    with uncompiled():
        check_derivatives(f, X, compiled=False)


def of_three_axes(x):
    return np.sum(np.median(x, axis=1) ** 2) + np.sum(np.quantile(x, [0.2, 0.7], axis=2) ** 2) + np.median(x)


def test_three_axes():
    with uncompiled():
        check_derivatives(of_three_axes, Z, compiled=False)


def test_the_axis_is_an_argument():
    adj = nb.adjoint(the_axis_is_an_argument)
    with uncompiled():
        for axis in (0, 1, -1):
            value, (x_bar, _) = adj.value_and_grad(X, axis)
            assert value == pytest.approx(the_axis_is_an_argument(X, axis))
            step = 1e-6 * np.arange(12.0).reshape(X.shape)
            difference = the_axis_is_an_argument(X + step, axis) - the_axis_is_an_argument(X - step, axis)
            assert np.sum(x_bar * step) * 2 == pytest.approx(difference, rel=1e-7)


def test_missing_values_are_found():
    x = X.copy()
    x[1, 2] = np.nan
    with uncompiled():
        for f in (lambda x: np.median(x, axis=0), lambda x: np.quantile(x, 0.3, axis=1), lambda x: np.median(x)):
            np.testing.assert_allclose(nb.adjoint(f).vjp(x).value, f(x), rtol=1e-14)
