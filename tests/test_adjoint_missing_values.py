"""Missing values: what a program leaves out or replaces because it is NaN has the derivative 0, and spoils no other."""

import math

import numpy as np
import pytest
from loop_programs import uncompiled

import nbgrad as nb

X = np.array([0.4, 1.0, 1.3, 2.0, 0.7])
Y = np.array([1.5, np.nan, 2.5, np.nan, 0.3])


def sum_of_squares(x, y, a):
    return np.nansum((y - a * x) ** 2)


def replaced(x, y, a):
    r = y - a * x
    r = r * r
    r[np.isnan(r)] = 0.0
    return r.sum()


def left_out(x, y, a):
    total = 0.0
    for i in range(x.size):
        r = math.sin(y[i] - a * x[i])
        if not np.isnan(r):
            total += r * r * a
    return total


def skipped(x, y, a):
    total = 0.0
    for i in range(x.size):
        r = y[i] * math.exp(a * x[i])
        if math.isnan(r):
            continue
        total += r
    return total


def unequal_to_itself(x, y, a):
    total = 0.0
    for i in range(x.size):
        r = y[i] * a * x[i]
        if r != r:
            r = 0.0
        total += r * x[i]
    return total


def finite(x, y, a):
    p = y * x * a
    return np.sum(np.where(np.isfinite(p), p * p, 0.0))


def to_number(x, y, a):
    return np.nan_to_num(x * y * a).sum() * a


def mean(x, y, a):
    return np.nanmean(np.exp(a * x) * y)


def deviation(x, y, a):
    return np.nanstd(y * a * x)


def in_a_function(x, y, a):
    def or_zero(v):
        return 0.0 if math.isnan(v) else v

    total = 0.0
    for i in range(x.size):
        total += or_zero(a * y[i]) * x[i]
    return total


PROGRAMS = [sum_of_squares, replaced, left_out, skipped, unequal_to_itself, finite, to_number, mean, deviation,
            in_a_function]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_derivatives_are_those_without_missing_values(f):
    there = ~np.isnan(Y)
    with uncompiled():
        value, (x_bar, y_bar, a_bar) = nb.adjoint(f).value_and_grad(X.copy(), Y.copy(), 0.7)
        slope = nb.tangent(f).jvp((X.copy(), Y.copy(), 0.7), (None, None, 1.0))[1]
        product = nb.adjoint(f).hvp((X.copy(), Y.copy(), 0.7), (None, None, 1.0))
        known = X[there], Y[there], 0.7
        expected, (x_known, y_known, a_known) = nb.adjoint(f).value_and_grad(*(np.copy(known[0]), known[1].copy(), 0.7))
        curvature = nb.adjoint(f).hvp((known[0].copy(), known[1].copy(), 0.7), (None, None, 1.0))
    assert value == pytest.approx(expected, rel=1e-14) == pytest.approx(f(X.copy(), Y.copy(), 0.7), rel=1e-14)
    assert a_bar == pytest.approx(a_known, rel=1e-13) and slope == pytest.approx(a_known, rel=1e-13)
    for bar, part in ((x_bar, x_known), (y_bar, y_known), (product[0], curvature[0]), (product[1], curvature[1])):
        np.testing.assert_allclose(bar[there], part, rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(bar[~there], 0.0)
    assert product[2] == pytest.approx(curvature[2], rel=1e-12, abs=1e-14)
    h = 1e-6
    difference = (f(X.copy(), Y.copy(), 0.7 + h) - f(X.copy(), Y.copy(), 0.7 - h)) / (2 * h)
    assert a_bar == pytest.approx(difference, rel=1e-8)


def test_a_value_that_is_made_nan():
    def f(x):
        a = (x[0] - x[0]) / (x[1] - x[1])
        w = a * x[2]
        if np.isnan(w):
            w = 0.0
        return w + x[2]

    x = np.array([1.0, 2.0, 3.0])
    value, (gradient,) = nb.adjoint(f).value_and_grad(x)
    assert value == 3.0 and gradient.tolist() == [0.0, 0.0, 1.0]
    assert nb.tangent(f).jvp((x,), (np.ones(3),)) == (3.0, 1.0)


def test_what_is_not_left_out_stays_nan():
    def f(x, a):
        return np.nansum(x * a) + np.sum(x * a)

    value, (_, a_bar) = nb.adjoint(f).value_and_grad(Y.copy(), 2.0)
    assert math.isnan(value) and math.isnan(a_bar)


def test_programs_that_do_not_look_for_nan_have_no_more_tests():
    def f(x, a):
        return np.sum((x * a) ** 2)

    adj = nb.adjoint(f)
    adj.value_and_grad(X.copy(), 0.7)
    assert "!= 0" not in adj.source


TABLE = np.random.default_rng(1).normal(size=(4, 5))
TABLE[[0, 2, 2], [1, 3, 0]] = np.nan


def along_columns(x):
    return np.sum(np.nansum(x, axis=0) * np.nanmean(x, 0) + np.nanprod(x, axis=0) * np.nanmax(x, axis=0))


def along_rows(x):
    return np.sum(np.nanvar(x, axis=1) * np.nanmin(x, axis=1) + np.nanstd(x, axis=1, ddof=1) ** 3)


def of_all(x):
    return np.nanvar(x, ddof=1) * np.nanmax(x) + np.nanmean(x[0]) * np.nanmin(x[2])


def where_they_are(x):
    rows = np.nanargmax(x, axis=1) + np.nanargmin(x, axis=1)
    return x[0, np.nanargmax(x[0])] * x[1, np.nanargmin(x[1])] * np.sum(rows) + np.sum(x[3].round(1) * x[3])


def axes_that_stay(x):
    deviations = (x - np.nanmean(x, axis=1, keepdims=True)) / np.nanstd(x, axis=0, keepdims=True)
    scale = np.nanmax(x, axis=0, keepdims=True) - np.nanmin(x, axis=-1, keepdims=True)
    squares = np.nansum(deviations**2, axis=0, keepdims=True) * np.nanvar(x, keepdims=True)
    return np.nansum(squares * scale) + np.sum(np.nanprod(x, axis=1, keepdims=True))


def middles(x):
    deviations = x - np.nanmedian(x, axis=1, keepdims=True) * np.nanmedian(x, keepdims=True)
    shares = np.nanquantile(x, 0.3, axis=0) * np.nanpercentile(x, [20, 60], axis=0)
    return np.nansum(deviations**2) + np.nanmedian(x) + np.sum(shares**2) + np.nanquantile(x, 0.7)


def sums_so_far(x):
    return np.sum(np.nancumsum(x, axis=0) ** 2 * np.nancumprod(x, axis=1)) + np.sum(np.nancumsum(x) ** 2)


@pytest.mark.parametrize("f", [along_columns, along_rows, of_all, where_they_are, axes_that_stay, middles, sums_so_far],
                         ids=lambda f: f.__name__)  # fmt: skip
def test_along_axes(f):
    with uncompiled():
        value, (gradient,) = nb.adjoint(f).value_and_grad(TABLE)
    assert value == pytest.approx(f(TABLE))
    for at in np.ndindex(TABLE.shape):
        step = 1e-6 * (np.arange(TABLE.size).reshape(TABLE.shape) == np.ravel_multi_index(at, TABLE.shape))
        expected = 0.0 if np.isnan(TABLE[at]) else (f(TABLE + step) - f(TABLE - step)) / 2e-6
        assert gradient[at] == pytest.approx(expected, rel=1e-6, abs=1e-8)


def largest(x):
    return x[np.nanargmax(x)]


def test_nothing_but_missing_values():
    with pytest.raises(ValueError, match="All-NaN slice encountered"):
        nb.adjoint(largest).value_and_grad(np.full(3, np.nan))
    with uncompiled():
        value, (gradient,) = nb.adjoint(lambda x: np.nanmax(x) + np.nanmin(x)).value_and_grad(np.full(3, np.nan))
    assert np.isnan(value) and gradient.tolist() == [0.0, 0.0, 0.0]


FEW = np.array([[1.0, np.nan, 3.0, 4.5], [np.nan] * 4, [np.nan, 2.0, np.nan, np.nan]])
FULL = np.nan_to_num(FEW, nan=0.5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's
@pytest.mark.parametrize("f, x", [(np.nanvar, FEW), (np.nanstd, FEW), (np.var, FULL), (np.std, FULL)])
def test_variances_of_too_few_values(f, x):
    """What NumPy gives: NaN without values, a division by 0 where there are no more than degrees of freedom."""
    for total in (
        lambda x, ddof: f(x, ddof=ddof),
        lambda x, ddof: f(x, axis=0, ddof=ddof),
        lambda x, ddof: f(x, axis=1, ddof=ddof),
    ):
        with uncompiled():
            adj = nb.adjoint(total)
            for ddof in (0, 1, 3, 4, 5, 12, 13):
                np.testing.assert_allclose(adj.vjp(x, ddof).value, total(x, ddof), rtol=1e-13)
