"""NumPy functions for missing data (NaN), quantiles, comparison, counting and covariance, as in
:mod:`.numpy_library`."""

from __future__ import annotations

import numpy as np

from .function_table import Array, definition, refuse_call
from .numpy_library import argsort

__all__: list[str] = []  # they are found through the table


LARGEST = float(np.finfo(np.float64).max)


@definition(np)
def nansum(a, axis=None):
    return np.sum(np.where(a == a, a, 0.0), axis=axis)


@definition(np)
def nanprod(a, axis=None):
    return np.prod(np.where(a == a, a, 1.0), axis=axis)


@definition(np)
def nancumsum(a):
    return np.cumsum(np.where(a == a, a, 0))


@definition(np)
def nancumprod(a):
    return np.cumprod(np.where(a == a, a, 1))


@definition(np)
def nanmean(a, axis=None):
    return np.sum(np.where(a == a, a, 0.0), axis=axis) / np.sum(a == a, axis=axis)


@definition(np)
def nanvar(a, axis=None, ddof=0):
    count = np.sum(a == a, axis=axis, keepdims=True)
    mean = np.sum(np.where(a == a, a, 0.0), axis=axis, keepdims=True) / count
    squares = np.sum(np.where(a == a, (a - mean) ** 2, 0.0), axis=axis)
    degrees = np.sum(a == a, axis=axis) - ddof
    return squares / np.where(degrees > 0, degrees, np.nan)


@definition(np)
def nanstd(a, axis=None, ddof=0):
    return np.sqrt(nanvar(a, axis, ddof))


@definition(np)
def nanmax(a, axis=None):
    return np.where(np.any(a == a, axis=axis), np.max(np.where(a == a, a, -np.inf), axis=axis), np.nan)


@definition(np)
def nanmin(a, axis=None):
    return np.where(np.any(a == a, axis=axis), np.min(np.where(a == a, a, np.inf), axis=axis), np.nan)


def require_all(found):
    if np.ndim(found) == 0:
        every = found
    else:
        every = np.all(found)
    if not every:
        raise ValueError("All-NaN slice encountered")


@definition(np)
def nanargmax(a, axis=None):
    require_all(np.any(a == a, axis=axis))
    return np.argmax(np.where(a == a, a, -np.inf), axis=axis)


@definition(np)
def nanargmin(a, axis=None):
    require_all(np.any(a == a, axis=axis))
    return np.argmin(np.where(a == a, a, np.inf), axis=axis)


@definition(np)
def nan_to_num(x, copy=None, nan=0.0, posinf=None, neginf=None):
    if copy is not None:
        refuse_call("copy= of np.nan_to_num: leave it out, and to write in place, x[:] = np.nan_to_num(x)")
    high = LARGEST if posinf is None else posinf
    low = -LARGEST if neginf is None else neginf
    return np.where(x != x, nan, np.where(x == np.inf, high, np.where(x == -np.inf, low, x)))


# Quantiles.


@definition(np)
def median(a):
    order, n = argsort(a), a.size
    last = a[order[n - 1]]  # NaN, if there is any
    return last if last != last else _middle(a, order, n)


@definition(np)
def nanmedian(a):
    order, n = argsort(a), np.sum(a == a)  # NaN is at the end
    return _middle(a, order, n) if n > 0 else np.nan


def _middle(a, order, n):
    return 0.5 * a[order[(n - 1) // 2]] + 0.5 * a[order[n // 2]]  # the sum may overflow, and that of bools is a bool


@definition(np)
def quantile(a, q: Array):
    order = argsort(a)
    if np.ndim(q) == 0:
        found = quantile_of_sorted(a, order, q)
    else:
        found = np.empty(q.shape)
        for index in np.ndindex(q.shape):
            found[index] = quantile_of_sorted(a, order, q[index])
    return found


def quantile_of_sorted(a, order, q):
    if not 0.0 <= q <= 1.0:
        raise ValueError("quantiles must be in the range [0, 1], percentiles in [0, 100]")
    at = q * (a.size - 1)
    k = min(int(at), max(a.size - 2, 0))
    low, high, last = a[order[k]], a[order[min(k + 1, a.size - 1)]], a[order[a.size - 1]]
    return last if last != last else low + (high - low) * (at - k)


@definition(np)
def percentile(a, q: Array):
    return quantile(a, q / 100.0)


# Comparison.


@definition(np)
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    near = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b)
    return near | (a == b) | (equal_nan & (a != a) & (b != b))


@definition(np)
def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    if np.ndim(a) == 0 and np.ndim(b) == 0:
        found = isclose(a, b, rtol, atol, equal_nan)
    else:
        found = np.all(isclose(a, b, rtol, atol, equal_nan))
    return found


@definition(np)
def array_equal(a, b):
    if np.ndim(a) != np.ndim(b):
        found = False
    else:
        found = False
        if a.shape == b.shape:
            found = np.all(a == b)  # type: ignore[assignment]
    return found


@definition(np)
def ptp(a):
    return np.max(a) - np.min(a)


@definition(np)
def average(a, axis=None, weights=None):
    if axis is not None and weights is not None:
        refuse_call("np.average with weights along an axis: write np.sum(a * w, axis=...) / np.sum(w)")
    if axis is not None:
        found = np.mean(a, axis)
    elif weights is None:
        found = np.mean(a)
    else:
        if np.ndim(a) != np.ndim(weights):
            refuse_call("weights of another number of axes: write np.sum(a * w, axis=...) / np.sum(w)")
        if a.shape != weights.shape:
            raise ValueError("np.average with weights of another shape")
        found = np.sum(a * weights) / np.sum(weights)
    return found


@definition(np)
def bincount(x, weights=None, minlength=0):
    n = minlength
    for k in range(x.size):
        if x[k] < 0:
            raise ValueError("np.bincount of a negative number")
        n = max(n, x[k] + 1)
    if weights is None:
        found = np.zeros(n, np.int64)
        for k in range(x.size):
            found[x[k]] += 1
    else:
        if weights.size != x.size:
            raise ValueError("np.bincount with weights of another length")
        found = np.zeros(n)
        for k in range(x.size):
            found[x[k]] += weights[k]
    return found


@definition(np)
def count_nonzero(a):
    count = 0
    for index in np.ndindex(a.shape):
        if a[index]:
            count += 1
    return count


@definition(np)
def cov(m, y=None, rowvar=True):
    if y is None:
        if rowvar:
            found = cov_of_rows(m)
        else:
            found = cov_of_rows(m.T)
    else:
        found = cov_of_two(m, y)
    return found


def cov_of_rows(m):
    if np.ndim(m) != 2:
        refuse_call("np.cov of one vector: write np.var(x, ddof=1)")
    x = m - np.mean(m, axis=1, keepdims=True)
    return x @ x.T / (m.shape[1] - 1)


def cov_of_two(m, y):
    if np.ndim(m) != 1 or np.ndim(y) != 1:
        refuse_call("np.cov of this: give two vectors, or sum in loops")
    if m.size != y.size:
        raise ValueError("np.cov and np.corrcoef of vectors of different lengths")
    x, z = m - np.mean(m), y - np.mean(y)
    between = np.sum(x * z) / (m.size - 1)
    return np.array([[np.sum(x * x) / (m.size - 1), between], [between, np.sum(z * z) / (m.size - 1)]])


@definition(np)
def corrcoef(x, y=None, rowvar=True):
    if y is None:
        if rowvar:
            c = cov_of_rows(x)
        else:
            c = cov_of_rows(x.T)
        size = np.sqrt(np.diag(c))
        found = c / (size[:, None] * size)
        for i in range(size.size):
            found[i, i] = 1.0
    else:
        c = cov_of_two(x, y)
        r = c[0, 1] / np.sqrt(c[0, 0] * c[1, 1])
        found = np.array([[1.0, r], [r, 1.0]])
    return found


@definition(np)
def histogram(a, bins=10, range=None, weights=None):
    values = np.asarray(a).ravel()
    if np.ndim(bins) != 0:
        return _counted(values, np.asarray(bins), weights, 0.0), np.asarray(bins)
    if bins < 1:
        raise ValueError("np.histogram with fewer than one bin")
    if range is None:
        first, last = (values.min(), values.max()) if values.size > 0 else (0.0, 1.0)
    else:
        first, last = range
    if not -LARGEST <= first <= last <= LARGEST:
        raise ValueError("np.histogram over a range that ends before it begins, or is not finite")
    if first == last:
        first, last = first - 0.5, last + 0.5
    edges = np.linspace(first, last, bins + 1)
    return _counted(values, edges, weights, bins / (last - first)), edges


def _counted(values, edges, weights, density):
    """The number of values between edges, or the sum of their weights; `density`: of equidistant edges, else 0."""
    n = edges.size - 1
    for k in range(n):
        if not edges[k] <= edges[k + 1]:
            raise ValueError("np.histogram with edges that decrease, or a NaN")
    counts = np.zeros(n, np.int64) if weights is None else np.zeros(n)
    shares = values if weights is None else np.asarray(weights).ravel()
    if shares.size != values.size:
        raise ValueError("np.histogram with weights of another shape than the values")
    for k in range(values.size):
        x = values[k]
        if n > 0 and x >= edges[0] and x <= edges[n]:
            if density > 0.0:
                j = min(int((x - edges[0]) * density), n - 1)
                j -= x < edges[j]
                j += j < n - 1 and x >= edges[j + 1]
            else:
                j = min(np.searchsorted(edges, x, side="right") - 1, n - 1)
            counts[j] += 1 if weights is None else shares[k]
    return counts
