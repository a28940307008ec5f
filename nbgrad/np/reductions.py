"""Functions along axes: sums and products, extremes, means, cumulative sums, counts and quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtypes import as_dtype
from ..core.registry import operators
from ..errors import AttrError, DTypeError
from .arrays import as_array, ndarray, stored
from .creation import from_numpy_values
from .elementwise import METHODS
from .manipulation import axis_of, expanded
from .ufuncs import UFUNCS

__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "argsort", "average", "count_nonzero", "cumprod",
           "cumsum", "cumulative_prod", "cumulative_sum", "max", "mean", "median", "min", "nanargmax", "nanargmin",
           "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile", "nanprod",
           "nanquantile", "nanstd", "nansum", "nanvar", "partition",
           "percentile", "prod", "ptp", "quantile", "sort", "std", "sum", "var"]  # fmt: skip

_builtin_min, _builtin_max = min, max
_INT64, _UINT64 = as_dtype("int64"), as_dtype("uint64")


def _operand(name: str, a, dtype=None, where: Any = True, neutral: Any = None) -> ndarray:
    """The operand of a reduction in the dtype in which it is reduced, with what is left out replaced."""
    x = a if a.__class__ is ndarray else as_array(a, name)
    if dtype is not None:
        x = x.astype(dtype)
    if where is not True:
        mask = as_array(where, name)
        x = operators["where"].call(_aligned(mask, x.ndim), *_both(x, neutral))
    return x


def _aligned(mask: ndarray, ndim: int) -> ndarray:
    return mask.reshape((1,) * (ndim - mask.ndim) + mask.shape) if mask.ndim < ndim else mask


def _both(x: ndarray, value) -> tuple[ndarray, ndarray]:
    return x, as_array(np.asarray(value, x.dtype), "where", x._kind)


def _reduced(operator: str, x: ndarray, axis, keepdims, **options) -> ndarray:
    """A reduction of the registry, with NumPy's meaning of no axes: each element alone; arrays of shape () have any."""
    if axis is not None and not x.ndim and axis in (0, -1, (0,), (-1,)):
        axis, keepdims = None, False
    if isinstance(axis, tuple) and not axis:
        lone = x.reshape((*x.shape, 1))
        return operators[operator].call(lone, axis=lone.ndim - 1, **options)
    entry = operators[operator]
    if entry.rule is None:
        return entry.call(x, axis=axis, keepdims=bool(keepdims), **options)
    return entry.rule.invoke(
        (x,),
        {"axis": axis, "keepdims": bool(keepdims), **options}
        if keepdims or options
        else {"axis": axis}
        if axis is not None
        else {},
    )


def _wide(x: ndarray, dtype) -> ndarray:
    """Integers and bools in the dtype in which NumPy adds them."""
    kind = x._kind.dtype
    wide = _UINT64 if kind.np.kind == "u" else _INT64
    return x if kind.is_float or dtype is not None or kind is wide else x.astype(wide.np)


def sum(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True) -> ndarray:
    """Sum of elements along axes; integers are added in int64, those without a sign in uint64."""
    x = _reduced("sum", _wide(_operand("sum", a, dtype, where, 0), dtype), axis, keepdims)
    return stored(x if initial is None else x + initial, out, "sum")


def prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=True) -> ndarray:
    """Product of elements along axes; integers are multiplied in int64, those without a sign in uint64."""
    x = _reduced("prod", _wide(_operand("prod", a, dtype, where, 1), dtype), axis, keepdims)
    return stored(x if initial is None else x * initial, out, "prod")


def _extreme(name: str, pick: str) -> Callable:
    def reduction(a, axis=None, out=None, keepdims=False, initial=None, where=True) -> ndarray:
        x = as_array(a, name)
        if where is not True and initial is None:
            raise AttrError(f"{name}: where needs initial, the value if there is nothing to choose from")
        x = _operand(name, x, None, where, initial)
        if initial is not None:
            initial = as_array(initial, name, x._kind).astype(x.dtype)
            if not x.size:
                shape = sum(x, axis=axis, keepdims=keepdims).shape
                return stored(expanded(initial, shape), out, name)
        x = _reduced(name, x, axis, keepdims)
        return stored(x if initial is None else UFUNCS[pick](x, initial), out, name)

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = (
        f"The {'greatest' if name == 'max' else 'smallest'} element along axes; NaN if there is one. Equal ones share "
        "no gradient: each gets all of it."
    )
    return reduction


max = amax = _extreme("max", "maximum")
min = amin = _extreme("min", "minimum")


def ptp(a, axis=None, out=None, keepdims=False) -> ndarray:
    """The range of elements along axes, from the smallest to the greatest."""
    return stored(max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims), out, "ptp")


def _position(name: str) -> Callable:
    def reduction(a, axis=None, out=None, *, keepdims=False) -> ndarray:
        return stored(_reduced(name, as_array(a, name), axis, keepdims), out, name)

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"Index of the {'greatest' if name == 'argmax' else 'smallest'} element, the first of equals."
    return reduction


argmax = _position("argmax")
argmin = _position("argmin")


def _count(x: ndarray, axis) -> int:
    axes = range(x.ndim) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    return math.prod(x.shape[axis_of(k, x.ndim, "var")] for k in axes)


def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=True) -> ndarray:
    """Mean of elements along axes; float64 for integers."""
    if where is not True:
        mask = as_array(where, "mean")
        x = as_array(a, "mean")
        whole = expanded(mask, x.shape).astype(np.float64)
        return stored(
            sum(x, axis, dtype, keepdims=keepdims, where=where) / sum(whole, axis, keepdims=keepdims), out, "mean"
        )
    x = _operand("mean", a, dtype)
    if dtype is not None and not x._kind.dtype.is_float:
        return stored(_reduced("mean", x, axis, keepdims).astype(dtype), out, "mean")
    if x.dtype == np.float16:  # the sum may be too great for it
        return stored(_reduced("mean", x.astype(np.float32), axis, keepdims).astype(np.float16), out, "mean")
    return stored(_reduced("mean", x, axis, keepdims), out, "mean")


def _floats(name: str, a, dtype) -> ndarray:
    """The operand of a variance in floats, those of `dtype` if it is given."""
    if dtype is not None and np.dtype(dtype).kind != "f":
        raise DTypeError(f"{name}: dtype must be one of floats, in which it is computed, got {np.dtype(dtype)}")
    x = _operand(name, a, dtype)
    return x if x._kind.dtype.is_float else x.astype(np.float64)


def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, correction=None) -> ndarray:
    """Variance along axes: squares of deviations from the mean, added and divided by their number less `ddof`."""
    x = _floats("var", a, dtype)
    return stored(_variance(x, axis, ddof if correction is None else correction, keepdims), out, "var")


def _variance(x: ndarray, axis, ddof, keepdims) -> ndarray:
    if isinstance(axis, tuple) and not axis:
        return x * 0.0 / float(_builtin_max(1 - ddof, 0))
    if isinstance(ddof, int) and ddof >= 0 and _count(x, axis) > ddof:
        return operators["var"].call(x, axis=axis, keepdims=bool(keepdims), ddof=ddof)
    deviation = x - mean(x, axis, keepdims=True)
    return sum(deviation * deviation, axis, keepdims=keepdims) / float(_builtin_max(_count(x, axis) - ddof, 0))


def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, correction=None) -> ndarray:
    """Standard deviation along axes; the root of :func:`var`."""
    x = _floats("std", a, dtype)
    ddof = ddof if correction is None else correction
    if isinstance(ddof, int) and ddof >= 0 and axis != () and _count(x, axis) > ddof:
        return stored(operators["std"].call(x, axis=axis, keepdims=bool(keepdims), ddof=ddof), out, "std")
    return stored(UFUNCS["sqrt"](_variance(x, axis, ddof, keepdims)), out, "std")


def all(a, axis=None, out=None, keepdims=False) -> ndarray:
    """Whether all elements along axes are true."""
    x = as_array(a, "all")
    return stored(_reduced("all", x, axis, keepdims).astype(bool), out, "all")


def any(a, axis=None, out=None, keepdims=False) -> ndarray:
    """Whether any element along axes is true."""
    x = as_array(a, "any")
    return stored(_reduced("any", x, axis, keepdims).astype(bool), out, "any")


def count_nonzero(a, axis=None, *, keepdims=False) -> ndarray:
    """How many elements along axes are not zero."""
    return sum(as_array(a, "count_nonzero") != 0, axis, keepdims=keepdims)


def median(a, axis=None, out=None, overwrite_input=False, keepdims=False) -> ndarray:
    """The middle of the sorted elements along axes, or the mean of the two in the middle."""
    return stored(_reduced("median", as_array(a, "median"), axis, keepdims), out, "median")


def _scan(name: str) -> Callable:
    def scan(a, axis=None, dtype=None, out=None) -> ndarray:
        x = _wide(_operand(name, a, dtype), dtype)
        if not x.ndim:
            x = x.reshape((1,))
        return stored(operators[name].call(x, axis=axis), out, name)

    scan.__name__ = scan.__qualname__ = name
    scan.__doc__ = f"{'Sums' if name == 'cumsum' else 'Products'} of elements up to each, along an axis or of all."
    return scan


cumsum = _scan("cumsum")
cumprod = _scan("cumprod")


def _cumulative(name: str, scan: Callable, first: float) -> Callable:
    def cumulative(x, /, *, axis=None, dtype=None, out=None, include_initial=False) -> ndarray:
        x = as_array(x, name)
        if axis is None:
            if x.ndim > 1:
                raise AttrError(f"{name}: axis must be given for an array of {x.ndim} axes")
            axis = 0
        found = scan(x, axis, dtype)
        if include_initial:
            shape = list(found.shape)
            shape[axis] = 1
            found = operators["concat"].call(from_numpy_values(np.full(shape, first, found.dtype)), found, dim=axis)
        return stored(found, out, name)

    cumulative.__name__ = cumulative.__qualname__ = name
    cumulative.__doc__ = f"As :func:`{scan.__name__}`, along one axis, optionally with the value of no elements first."
    return cumulative


cumulative_sum = _cumulative("cumulative_sum", cumsum, 0)
cumulative_prod = _cumulative("cumulative_prod", cumprod, 1)


def average(a, axis=None, weights=None, returned=False, *, keepdims=False) -> Any:
    """Weighted mean along axes."""
    x = as_array(a, "average")
    if weights is None:
        found = mean(x, axis, keepdims=keepdims)
        total = found * 0 + float(_count(x, axis))
        return (found, total) if returned else found
    w = as_array(weights, "average", x._kind)
    if w.shape != x.shape:
        if w.ndim != 1 or not isinstance(axis, int):
            raise AttrError("average: weights of another shape must be a vector along axis")
        shape = [1] * x.ndim
        shape[axis] = w.size
        w = expanded(w.reshape(tuple(shape)), x.shape)
    total = sum(w, axis, keepdims=keepdims)
    if not total._kind.traced and (total._view() == 0).any():
        raise ZeroDivisionError("average: the weights add up to zero")
    found = sum(x * w, axis, keepdims=keepdims) / total
    return (found, total) if returned else found


# Without NaN.


def _without_nan(x: ndarray, value: float) -> ndarray:
    return operators["where"].call(UFUNCS["isnan"](x), *reversed(_both(x, value))) if x._kind.dtype.is_float else x


def nansum(a, axis=None, dtype=None, out=None, keepdims=False) -> ndarray:
    """Sum of the elements along axes that are not NaN."""
    return sum(_without_nan(as_array(a, "nansum"), 0.0), axis, dtype, out, keepdims)


def nanprod(a, axis=None, dtype=None, out=None, keepdims=False) -> ndarray:
    """Product of the elements along axes that are not NaN."""
    return prod(_without_nan(as_array(a, "nanprod"), 1.0), axis, dtype, out, keepdims)


def nanmax(a, axis=None, out=None, keepdims=False) -> ndarray:
    """The greatest element along axes that is not NaN."""
    x = as_array(a, "nanmax")
    return _where_any(max(_without_nan(x, -np.inf), axis, keepdims=keepdims), x, axis, keepdims)


def nanmin(a, axis=None, out=None, keepdims=False) -> ndarray:
    """The smallest element along axes that is not NaN."""
    x = as_array(a, "nanmin")
    return _where_any(min(_without_nan(x, np.inf), axis, keepdims=keepdims), x, axis, keepdims)


def _where_any(found: ndarray, x: ndarray, axis, keepdims) -> ndarray:
    """`found`, or NaN where all elements are."""
    if not x._kind.dtype.is_float:
        return found
    return operators["where"].call(all(UFUNCS["isnan"](x), axis, keepdims=keepdims), *reversed(_both(found, np.nan)))


def _check_not_all_nan(a, axis, name: str) -> None:
    x = as_array(a, name)
    if x._kind.dtype.is_float and not x._kind.traced and np.isnan(x._view()).all(axis).any():
        raise ValueError(f"{name}: all elements along an axis are NaN")


def nanargmax(a, axis=None, *, keepdims=False) -> ndarray:
    """Index of the greatest element that is not NaN."""
    _check_not_all_nan(a, axis, "nanargmax")
    return argmax(_without_nan(as_array(a, "nanargmax"), -np.inf), axis, keepdims=keepdims)


def nanargmin(a, axis=None, *, keepdims=False) -> ndarray:
    """Index of the smallest element that is not NaN."""
    _check_not_all_nan(a, axis, "nanargmin")
    return argmin(_without_nan(as_array(a, "nanargmin"), np.inf), axis, keepdims=keepdims)


def _numbers(x: ndarray, axis, keepdims) -> ndarray:
    """How many elements along axes are not NaN, as floats."""
    return sum((x == x).astype(x.dtype), axis, keepdims=keepdims)


def nanmean(a, axis=None, dtype=None, out=None, keepdims=False) -> ndarray:
    """Mean of the elements along axes that are not NaN."""
    x = _operand("nanmean", a, dtype)
    if not x._kind.dtype.is_float:
        return mean(x, axis, keepdims=keepdims)
    return stored(nansum(x, axis, keepdims=keepdims) / _numbers(x, axis, keepdims), out, "nanmean")


def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False) -> ndarray:
    """Variance of the elements along axes that are not NaN."""
    x = _operand("nanvar", a, dtype)
    if not x._kind.dtype.is_float:
        return var(x, axis, ddof=ddof, keepdims=keepdims)
    deviation = x - nanmean(x, axis, keepdims=True)
    degrees = _numbers(x, axis, keepdims) - ddof
    found = nansum(deviation * deviation, axis, keepdims=keepdims) / degrees
    choices = _both(found, np.nan)
    return stored(operators["where"].call(degrees > 0, *choices), out, "nanvar")


def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False) -> ndarray:
    """Standard deviation of the elements along axes that are not NaN."""
    squared = nanvar(a, axis, dtype, None, ddof, keepdims)
    one, zero = squared.detach() * 0 + 1, squared.detach() * 0
    root = UFUNCS["sqrt"](operators["where"].call(squared == 0, one, squared))  # whose derivative at 0 is infinite
    return stored(operators["where"].call(squared == 0, zero, root), out, "nanstd")


# Order.


def _check_kind(kind, order, name: str) -> None:
    if kind not in (None, "quicksort", "mergesort", "heapsort", "stable") or order is not None:
        raise AttrError(f"{name}: kind must be 'quicksort', 'mergesort', 'heapsort' or 'stable', and order None")


def sort(a, axis=-1, kind=None, order=None, *, stable=None, descending=False) -> ndarray:
    """The elements in ascending order along an axis, or of the flattened array for None."""
    x = as_array(a, "sort")
    _check_kind(kind, order, "sort")
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return operators["sort"].call(x, axis=axis, is_ascend=not descending)


def argsort(a, axis=-1, kind=None, order=None, *, stable=None, descending=False) -> ndarray:
    """The indices that sort an array along an axis, int64."""
    x = as_array(a, "argsort")
    _check_kind(kind, order, "argsort")
    x, axis = (x.reshape(-1), 0) if axis is None or (not x.ndim and axis in (0, -1)) else (x, axis)
    return operators["argsort"].call(x, axis=axis, is_ascend=not descending, dtype="int64")


def partition(a, kth, axis=-1, kind="introselect", order=None) -> ndarray:
    """An array with the `kth` element along an axis where sorting puts it, smaller ones before it, others after."""
    x = as_array(a, "partition")
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    places = np.argpartition(x.asnumpy(), kth, axis)
    return operators["take_along_axis"].call(x, from_numpy_values(places), axis=axis)


def quantile(a, q, axis=None, *, method="linear", keepdims=False) -> ndarray:
    """The `q`-quantiles of the elements along an axis, 0 <= q <= 1, interpolated linearly between neighbours."""
    if method != "linear":
        raise AttrError(f"quantile: method 'linear' alone is supported, got {method!r}")
    x = as_array(a, "quantile")
    x = x if x._kind.dtype.is_float else x.astype(np.float64)
    shape = x.shape
    if axis is None:
        axes = tuple(range(x.ndim))
    else:
        axes = tuple(k % x.ndim for k in (axis if isinstance(axis, tuple) else (axis,)))
    kept = tuple(k for k in range(x.ndim) if k not in axes)
    x = operators["transpose"].call(x, axes=(*axes, *kept)).reshape((-1, *[shape[k] for k in kept]))
    x = sort(x, 0)
    levels = np.asarray(q, np.float64)
    if type(q) not in (int, float):
        given = np.asarray(q).dtype
        x = x.astype(np.promote_types(x.dtype, given if given.kind == "f" else np.float64))
    if levels.size and not (levels.min() >= 0 and levels.max() <= 1):
        raise AttrError("quantile: q must be between 0 and 1")
    place = levels.reshape(-1) * (x.shape[0] - 1)
    low = np.floor(place).astype(int)
    high = np.minimum(low + 1, x.shape[0] - 1)
    weight = as_array((place - low).reshape((-1,) + (1,) * len(kept)).astype(x.dtype), "quantile", x._kind)
    found = x[low] + weight * (x[high] - x[low])
    if x.shape[0]:  # NaN, which is last, makes all quantiles NaN
        found = operators["where"].call(UFUNCS["isnan"](x[-1:]), *reversed(_both(found, np.nan)))
    rest = tuple(1 if k in axes else n for k, n in enumerate(shape)) if keepdims else tuple(shape[k] for k in kept)
    return found.reshape(levels.shape + rest)


def percentile(a, q, axis=None, *, method="linear", keepdims=False) -> ndarray:
    """As :func:`quantile`, of `q` in percent."""
    return quantile(a, np.asarray(q, np.float64) / 100, axis, method=method, keepdims=keepdims)


def _of_ordered(name: str, a, levels: np.ndarray, axis, keepdims: bool) -> ndarray:
    """Quantiles of what is not NaN along one axis, or of all; those of several levels along a new first axis."""
    x = as_array(a, name)
    if isinstance(axis, tuple):
        raise DTypeError(f"{name}: one axis, or None, is supported")
    x = x if x._kind.dtype.is_float else x.astype(np.float64)
    flat = x.reshape(-1) if axis is None else operators["moveaxis"].call(x, axis, -1)
    ordered = sort(flat, -1)  # NaN comes last
    last = np.asarray(_numbers(flat, -1, True)._view()) - 1.0
    pick = operators["take_along_axis"].call
    found = []
    for level in levels.reshape(-1):
        place = np.maximum(level * last, 0.0)
        low = np.floor(place)
        ends = [from_numpy_values(np.maximum(k, 0).astype(np.int64)) for k in (low, np.minimum(low + 1, last))]
        below, above = (pick(ordered, k, axis=-1) for k in ends)
        between = below + from_numpy_values((place - low).astype(x.dtype)) * (above - below)
        if axis is None:
            found.append(between.reshape((1,) * x.ndim if keepdims else ()))
        else:
            found.append(
                operators["moveaxis"].call(between, -1, axis) if keepdims else between.reshape(between.shape[:-1])
            )
    return operators["stack"].call(*found, axis=0).reshape(levels.shape + found[0].shape) if levels.ndim else found[0]


def nanmedian(a, axis=None, *, keepdims=False) -> ndarray:
    """The median of the elements along one axis, or of all, that are not NaN."""
    return _of_ordered("nanmedian", a, np.array(0.5), axis, keepdims)


def nanquantile(a, q, axis=None, *, method="linear", keepdims=False) -> ndarray:
    """The `q`-quantiles of the elements along one axis, or of all, that are not NaN, 0 <= q <= 1."""
    if method != "linear":
        raise AttrError(f"nanquantile: method 'linear' alone is supported, got {method!r}")
    levels = np.asarray(q, np.float64)
    if not ((levels >= 0) & (levels <= 1)).all():
        raise ValueError("nanquantile: q must be between 0 and 1 (percentiles: 0 and 100)")
    return _of_ordered("nanquantile", a, levels, axis, keepdims)


def nanpercentile(a, q, axis=None, *, method="linear", keepdims=False) -> ndarray:
    """As :func:`nanquantile`, of `q` in percent."""
    return nanquantile(a, np.asarray(q, np.float64) / 100, axis, method=method, keepdims=keepdims)


def nancumsum(a, axis=None, dtype=None, out=None) -> ndarray:
    """Sums of elements up to each, NaN taken for 0."""
    return cumsum(_without_nan(as_array(a, "nancumsum"), 0.0), axis, dtype, out)


def nancumprod(a, axis=None, dtype=None, out=None) -> ndarray:
    """Products of elements up to each, NaN taken for 1."""
    return cumprod(_without_nan(as_array(a, "nancumprod"), 1.0), axis, dtype, out)


METHODS["reduce"] |= {
    "add": sum, "multiply": prod, "maximum": max, "minimum": min, "logical_and": all, "logical_or": any
}  # fmt: skip
METHODS["accumulate"] |= {"add": cumsum, "multiply": cumprod}
