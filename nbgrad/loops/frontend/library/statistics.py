"""NumPy functions for missing data (NaN), quantiles, comparison, counting and covariance."""

from __future__ import annotations

import numpy as np

from ..function_table import Array, definition, floats_of, holds_bools, holds_floats, refuse_call
from .sorting import sorting_order

__all__: list[str] = []  # they are found through the table


LARGEST = float(np.finfo(np.float64).max)


@definition(np)
def nansum(a, axis=None, *, keepdims=False):
    return np.sum(np.where(a == a, a, 0), axis=axis, keepdims=keepdims)


@definition(np)
def nanprod(a, axis=None, *, keepdims=False):
    return np.prod(np.where(a == a, a, 1), axis=axis, keepdims=keepdims)


@definition(np)
def nancumsum(a, axis=None):
    return np.cumsum(np.where(a == a, a, 0), axis)


@definition(np)
def nancumprod(a, axis=None):
    return np.cumprod(np.where(a == a, a, 1), axis)


@definition(np)
def nanmean(a, axis=None, *, keepdims=False):
    return nansum(a, axis, keepdims=keepdims) / np.sum(a == a, axis=axis, keepdims=keepdims)


@definition(np)
def nanvar(a, axis=None, ddof=0, *, keepdims=False):
    count = np.sum(a == a, axis=axis, keepdims=True)
    mean = np.sum(np.where(a == a, a, 0.0), axis=axis, keepdims=True) / count
    squares = np.sum(np.where(a == a, (a - mean) ** 2, 0.0), axis=axis, keepdims=keepdims)
    degrees = np.sum(a == a, axis=axis, keepdims=keepdims) - ddof
    return squares / np.where(degrees > 0, degrees, np.nan)


@definition(np)
def nanstd(a, axis=None, ddof=0, *, keepdims=False):
    return np.sqrt(nanvar(a, axis, ddof, keepdims=keepdims))


@definition(np)
def nanmax(a, axis=None, *, keepdims=False):
    if not holds_floats(a):
        return np.max(a, axis=axis, keepdims=keepdims)
    found = np.max(np.where(a == a, a, -np.inf), axis=axis, keepdims=keepdims)
    return np.where(np.any(a == a, axis=axis, keepdims=keepdims), found, np.nan)


@definition(np)
def nanmin(a, axis=None, *, keepdims=False):
    if not holds_floats(a):
        return np.min(a, axis=axis, keepdims=keepdims)
    found = np.min(np.where(a == a, a, np.inf), axis=axis, keepdims=keepdims)
    return np.where(np.any(a == a, axis=axis, keepdims=keepdims), found, np.nan)


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
    if not holds_floats(x):
        return x
    high = LARGEST if posinf is None else posinf
    low = -LARGEST if neginf is None else neginf
    return np.where(x != x, nan, np.where(x == np.inf, high, np.where(x == -np.inf, low, x)))


# Quantiles.


@definition(np)
def median(a, axis=None, *, keepdims=False):
    return _along(_median, a, 0.5, axis, keepdims)


@definition(np)
def nanmedian(a, axis=None, *, keepdims=False):
    return _along(_nanmedian, a, 0.5, axis, keepdims)


def _along(of_vector, a, q, axis, keepdims):
    """What `of_vector` finds of all elements, or of the vectors along an axis."""
    if isinstance(axis, tuple):
        refuse_call("medians and quantiles along several axes: reshape the array, so that they are one")
    if np.ndim(a) == 1:
        found = of_vector(a, q)
    elif axis is None:
        found = of_vector(a.ravel(), q)
    else:
        found = _of_vectors(of_vector, np.moveaxis(a, axis, -1), q)
    if not keepdims:
        kept = found
    elif axis is None or np.ndim(a) == 1:
        kept = np.full_like(np.sum(a, keepdims=True), found)
    else:
        kept = np.expand_dims(found, axis)
    return kept


def _of_vectors(of_vector, a, q):
    found = np.empty(a.shape[:-1], floats_of(a))
    for index in np.ndindex(a.shape[:-1]):
        found[index] = of_vector(a[index], q)
    return found


def _median(a, q):
    order, n = sorting_order(a), a.size
    last = a[order[n - 1]]  # NaN, if there is any
    return last if last != last else _middle(a, order, n)


def _nanmedian(a, q):
    order, n = sorting_order(a), np.sum(a == a)  # NaN is at the end
    return _middle(a, order, n) if n > 0 else np.nan


def _middle(a, order, n):
    return 0.5 * a[order[(n - 1) // 2]] + 0.5 * a[order[n // 2]]  # the sum may overflow, and that of bools is a bool


@definition(np)
def quantile(a, q: Array, axis=None, *, keepdims=False):
    return _quantiles(_quantile, a, q, axis, keepdims)


@definition(np)
def percentile(a, q: Array, axis=None, *, keepdims=False):
    return _quantiles(_quantile, a, q / 100.0, axis, keepdims)


@definition(np)
def nanquantile(a, q: Array, axis=None, *, keepdims=False):
    return _quantiles(_nanquantile, a, q, axis, keepdims)


@definition(np)
def nanpercentile(a, q: Array, axis=None, *, keepdims=False):
    return _quantiles(_nanquantile, a, q / 100.0, axis, keepdims)


def _quantiles(of_vector, a, q, axis, keepdims):
    """One quantile or several, whose axes come first."""
    if np.ndim(q) == 0:
        found = _along(of_vector, a, q, axis, keepdims)
    elif np.ndim(a) == 1 and not keepdims:
        found = np.empty(q.shape, floats_of(a, q))
        for index in np.ndindex(q.shape):
            found[index] = of_vector(a, q[index])
    elif axis is None and not keepdims:
        found = _quantiles(of_vector, a.ravel(), q, axis, keepdims)
    else:
        if np.ndim(q) != 1:
            refuse_call("quantiles along an axis for an array of several axes: pass a vector of them")
        first = _along(of_vector, a, q[0], axis, keepdims)
        found = np.empty((q.size, *first.shape), floats_of(a, q))
        for k in range(q.size):
            found[k] = _along(of_vector, a, q[k], axis, keepdims)
    return found


def _quantile(a, q):
    order = sorting_order(a)
    last = a[order[a.size - 1]]  # NaN, if there is any
    return last if last != last else quantile_of_sorted(a, order, a.size, q)


def _nanquantile(a, q):
    n = np.sum(a == a)
    return quantile_of_sorted(a, sorting_order(a), n, q) if n > 0 else np.nan


def quantile_of_sorted(a, order, n, q):
    if not 0.0 <= q <= 1.0:
        raise ValueError("quantiles must be in the range [0, 1], percentiles in [0, 100]")
    at = q * (n - 1)
    k = min(int(at), max(n - 2, 0))
    low, high = a[order[k]], a[order[min(k + 1, n - 1)]]
    return low + (high - low) * (at - k)


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
def ptp(a, axis=None, *, keepdims=False):
    return np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)


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
        total = np.sum(weights)
        if total == 0:
            raise ZeroDivisionError("np.average with weights whose sum is 0")
        found = np.sum(a * weights) / total
    return found


@definition(np)
def bincount(x, weights=None, minlength=0):
    if holds_bools(x):
        x = x.astype(np.int64)
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
def count_nonzero(a, axis=None, *, keepdims=False):
    if axis is not None or keepdims:
        return np.sum(a != 0, axis=axis, keepdims=keepdims)
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
