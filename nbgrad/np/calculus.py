"""Differences, integrals, interpolation and statistics of samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.registry import operators
from ..errors import AttrError, DTypeError, ShapeError
from .arrays import as_array, ndarray
from .creation import from_numpy_values, zeros_like
from .manipulation import axis_of, concatenate, ravel, reshape, together
from .products import matmul
from .reductions import average, sum
from .selection import where
from .ufuncs import UFUNCS

__all__ = ["allclose", "array_equal", "bincount", "corrcoef", "cov", "diff", "digitize",
           "ediff1d", "gradient", "histogram", "interp", "isclose", "searchsorted", "trapezoid", "unwrap"]  # fmt: skip


def _part(x: ndarray, axis: int, *limits) -> ndarray:
    return x[(*(slice(None),) * axis, slice(*limits))]


def diff(a, n=1, axis=-1, prepend=None, append=None) -> ndarray:
    """Differences of neighbours along an axis, `n` times."""
    x = as_array(a, "diff")
    k = axis_of(axis, x.ndim, "diff")
    if n <= 0:
        if n < 0:
            raise AttrError(f"diff: n must not be negative, got {n}")
        return x
    parts = []
    for value in (prepend, x, append):
        if value is not None:
            part = as_array(value, "diff", x._kind)
            parts.append(part if part.ndim else part + zeros_like(_part(x, k, 0, 1), part.dtype))
    if len(parts) > 1:
        x = concatenate(parts, k)
    for _ in range(n):
        after, before = _part(x, k, 1, None), _part(x, k, None, -1)
        x = after != before if x.dtype == bool else after - before
    return x


def ediff1d(ary, to_end=None, to_begin=None) -> ndarray:
    """Differences of neighbours in the flattened array."""
    x = ravel(as_array(ary, "ediff1d"))
    ends = [None if e is None else _end(ravel(as_array(e, "ediff1d", x._kind)), x.dtype) for e in (to_begin, to_end)]
    return concatenate([e for e in (ends[0], diff(x), ends[1]) if e is not None])


def _end(value: ndarray, dtype: np.dtype) -> ndarray:
    if not np.can_cast(value.dtype, dtype, "same_kind"):
        raise DTypeError(f"ediff1d: ends of dtype {value.dtype} cannot be joined to differences of dtype {dtype}")
    return value.astype(dtype)


def gradient(f, *varargs, axis=None, edge_order=1) -> Any:
    """Central differences along axes, one-sided ones at the ends; for evenly spaced samples, or coordinates."""
    x = as_array(f, "gradient")
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    places = [axis_of(k, x.ndim, "gradient") for k in axes]
    spacings = varargs or (1.0,)
    spacings = spacings * len(places) if len(spacings) == 1 else spacings
    if len(spacings) != len(places):
        raise AttrError(f"gradient: {len(varargs)} spacings for {len(places)} axes")
    if edge_order not in (1, 2):
        raise AttrError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    x = x if x._kind.dtype.is_float else x.astype(np.float64)
    found = [_slope(x, k, h, edge_order) for k, h in zip(places, spacings, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _slope(x: ndarray, k: int, spacing, edge_order: int) -> ndarray:
    n = x.shape[k]
    if n < edge_order + 1:
        raise ShapeError(f"gradient: at least {edge_order + 1} elements are needed along axis {k}, got {n}")
    step = spacing if type(spacing) in (int, float) else as_array(spacing, "gradient", x._kind)
    if isinstance(step, ndarray) and step.ndim:
        if step.shape != (n,):
            raise ShapeError(f"gradient: {n} coordinates along axis {k} are expected, got the shape {step.shape}")
        h = reshape(diff(step), (-1,) + (1,) * (x.ndim - k - 1))
        rise = diff(x, axis=k) / h
        hb, ha = h[:-1], h[1:]
        middle = (_part(rise, k, None, -1) * ha + _part(rise, k, 1, None) * hb) / (ha + hb)
        extra: Any = (h[0] / (h[0] + h[1]), h[-1] / (h[-1] + h[-2])) if edge_order == 2 else ()
    else:
        rise = diff(x, axis=k) / step
        middle = (_part(x, k, 2, None) - _part(x, k, None, -2)) / (2 * step)
        extra = (0.5, 0.5)
    first, last = _part(rise, k, 0, 1), _part(rise, k, n - 2, n - 1)
    if edge_order == 2:
        first = first + (first - _part(rise, k, 1, 2)) * extra[0]
        last = last + (last - _part(rise, k, n - 3, n - 2)) * extra[1]
    return concatenate([first, middle, last], k)


def trapezoid(y, x=None, dx=1.0, axis=-1) -> ndarray:
    """The integral of samples along an axis, by the trapezoidal rule."""
    f = as_array(y, "trapezoid")
    k = axis_of(axis, f.ndim, "trapezoid")
    heights = _part(f, k, 1, None) + _part(f, k, None, -1)
    if x is None:
        return sum(heights * (0.5 * dx), k)
    places = as_array(x, "trapezoid", f._kind)
    width = reshape(diff(places), (-1,) + (1,) * (f.ndim - k - 1)) if places.ndim == 1 else diff(places, axis=k)
    return sum(0.5 * width * heights, k)


def interp(x, xp, fp, left=None, right=None, period=None) -> ndarray:
    """Linear interpolation between the points (xp, fp), xp ascending; the values at the ends beyond them."""
    if period is not None:
        raise AttrError("interp: period is not supported; take x modulo the period, and extend xp and fp")
    at, places, values = as_array(x, "interp"), as_array(xp, "interp"), as_array(fp, "interp")
    at, places, values = (v if v._kind.dtype.is_float else v.astype(np.float64) for v in (at, places, values))
    if places.ndim != 1 or places.shape != values.shape or not places.size:
        raise ShapeError(f"interp: xp and fp must be vectors of one length, got {places.shape} and {values.shape}")
    if places.size == 1:
        found = values[0] + 0 * at
    else:
        k = np.clip(np.searchsorted(places.asnumpy(), at.asnumpy(), "right") - 1, 0, places.size - 2)
        low, high = places[k], places[k + 1]
        slope = (values[k + 1] - values[k]) / (high - low)
        found = values[k] + (at - low) * slope
        # An infinite slope times 0: the other end has the value, as in NumPy.
        found = where(UFUNCS["isnan"](found), values[k + 1] + (at - high) * slope, found)
    found = where(at < places[0], values[0] if left is None else left, found)
    return where(at > places[-1], values[-1] if right is None else right, found)


def unwrap(p, discont=None, axis=-1, *, period=2 * np.pi) -> ndarray:
    """Angles with whole periods added where neighbours differ by more than half of one."""
    x = as_array(p, "unwrap")
    k = axis_of(axis, x.ndim, "unwrap")
    values = x.asnumpy()
    if isinstance(period, ndarray):
        raise DTypeError("unwrap: period must be a number, it is not differentiated")
    found = np.unwrap(values, discont, axis, period=period)
    whole = from_numpy_values((np.round((found - values) / period) * period).astype(found.dtype))
    return x.astype(found.dtype) + whole if x.size and k >= 0 else x


# Statistics of samples.


def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None) -> ndarray:
    """The covariance matrix of variables, the rows of `m` unless `rowvar` is false."""
    x = as_array(m, "cov")
    x = x.astype(np.float64) if x.dtype != np.float64 else x
    if x.ndim > 2:
        raise ShapeError(f"cov: a vector or a matrix is expected, got the shape {x.shape}")

    def rows(a: ndarray) -> ndarray:
        a = reshape(a, (1, -1)) if a.ndim < 2 else a
        return a.T if not rowvar and a.shape[0] != 1 else a

    x = rows(x)
    if y is not None:
        x = concatenate([x, rows(as_array(y, "cov", x._kind).astype(x.dtype))], 0)
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            w = as_array(given, "cov", x._kind).astype(x.dtype)
            weights = w if weights is None else weights * w
    centre, total = average(x, 1, weights, returned=True)
    if weights is None:
        factor: Any = x.shape[1] - ddof
    elif ddof == 0:
        factor = total[0]
    elif aweights is None:
        factor = total[0] - ddof
    else:
        factor = total[0] - ddof * sum(weights * as_array(aweights, "cov", x._kind)) / total[0]
    deviation = x - centre[:, None]
    weighted = deviation if weights is None else deviation * weights
    found = matmul(weighted, deviation.T) / factor
    return reshape(found, ()) if found.size == 1 else found


def corrcoef(x, y=None, rowvar=True) -> ndarray:
    """The correlation matrix of variables."""
    c = cov(x, y, rowvar)
    if c.ndim == 0:
        return c / c
    d = UFUNCS["sqrt"](operators["diag"].call(c))
    return c / (d[:, None] * d)


def histogram(a, bins=10, range=None, density=None, weights=None) -> tuple[ndarray, ndarray]:
    """How many elements are in each bin, and the edges of the bins; weights and edges are differentiated."""
    x = ravel(as_array(a, "histogram"))
    edges = np.histogram_bin_edges(x.asnumpy(), bins.asnumpy() if isinstance(bins, ndarray) else bins, range)
    k = np.searchsorted(edges, x.asnumpy(), "right") - 1
    k = np.where(x.asnumpy() == edges[-1], len(edges) - 2, k)
    inside = (k >= 0) & (k < len(edges) - 1)
    if weights is None:
        found = from_numpy_values(np.bincount(k[inside], minlength=len(edges) - 1))
    else:
        found = bincount(k[inside], ravel(as_array(weights, "histogram"))[inside], len(edges) - 1)
    ends = from_numpy_values(edges)
    if isinstance(bins, ndarray):
        ends = bins.astype(ends.dtype)
    elif isinstance(bins, int) and range is None and x.size and x._kind.dtype.is_float:
        low, high = x.min(), x.max()
        if bool(low < high):  # the edges follow the smallest and the greatest element
            places = np.linspace(0.0, 1.0, bins + 1)
            follows = low * (1 - places) + high * places
            ends = ends + (follows - follows.detach())
    return (found / (diff(ends) * sum(found)) if density else found), ends


def bincount(x, weights=None, minlength=0) -> ndarray:
    """How often each number occurs; or the sum of the weights of its occurrences."""
    numbers = np.asarray(x if not isinstance(x, ndarray) else x.asnumpy())
    if weights is None:
        return from_numpy_values(np.bincount(numbers, minlength=minlength))
    w = as_array(weights, "bincount")
    n = max(int(minlength), int(numbers.max()) + 1 if numbers.size else 0)
    found = operators["bincount"].call(from_numpy_values(numbers.astype(np.int64)), w, n)
    return found if found.dtype == w.dtype else found.astype(w.dtype)


def digitize(x, bins, right=False) -> ndarray:
    """The bin of each number."""
    at = x.asnumpy() if isinstance(x, ndarray) else x
    return from_numpy_values(np.digitize(at, bins.asnumpy() if isinstance(bins, ndarray) else bins, right))


def searchsorted(a, v, side="left", sorter=None) -> ndarray:
    """Where numbers would have to be inserted in a sorted vector."""
    plain = [p.asnumpy() if isinstance(p, ndarray) else p for p in (a, v, sorter)]
    return from_numpy_values(np.asarray(np.searchsorted(plain[0], plain[1], side, plain[2])))


def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False) -> ndarray:
    """Whether elements are equal within a tolerance."""
    x, y = (v.asnumpy() for v in together("isclose", (a, b)))
    return from_numpy_values(np.asarray(np.isclose(x, y, rtol, atol, equal_nan)))


def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False) -> bool:
    """Whether all elements are equal within a tolerance."""
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


def array_equal(a1, a2, equal_nan=False) -> bool:
    """Whether shapes and all elements are equal."""
    x, y = as_array(a1, "array_equal"), as_array(a2, "array_equal")
    return bool(np.array_equal(x.asnumpy(), y.asnumpy(), equal_nan))
