"""Distinct elements of arrays, and membership. Which elements are equal is not differentiated; their values are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .arrays import as_array, ndarray
from .creation import from_numpy_values
from .manipulation import concatenate, ravel
from .selection import take

__all__ = ["intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts",
           "unique_inverse", "unique_values"]  # fmt: skip


class UniqueAllResult(NamedTuple):
    values: ndarray
    indices: ndarray
    inverse_indices: ndarray
    counts: ndarray


class UniqueCountsResult(NamedTuple):
    values: ndarray
    counts: ndarray


class UniqueInverseResult(NamedTuple):
    values: ndarray
    inverse_indices: ndarray


def unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True) -> Any:
    """The distinct elements, or slices along an axis, in ascending order.

    Parameters
    ----------
    ar : array_like
    return_index, return_inverse, return_counts : bool
        Return where each is first, for each element which one it is, and how often each occurs, too.
    axis : int, optional
    equal_nan : bool
        Whether NaN equals NaN.

    Returns
    -------
    ndarray, or a tuple of it and of arrays of int64
        The elements are recorded.
    """
    x = as_array(ar, "unique")
    _, first, *more = np.unique(x.asnumpy(), True, return_inverse, return_counts, axis, equal_nan=equal_nan)
    values = take(ravel(x) if axis is None else x, first, 0 if axis is None else axis)
    found = [values, *([from_numpy_values(first)] if return_index else []), *map(from_numpy_values, more)]
    return found[0] if len(found) == 1 else tuple(found)


def unique_all(x, /) -> UniqueAllResult:
    """The distinct elements, where each is first, which one each element is, and how often each occurs."""
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False))


def unique_counts(x, /) -> UniqueCountsResult:
    """The distinct elements, and how often each occurs."""
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


def unique_inverse(x, /) -> UniqueInverseResult:
    """The distinct elements, and which one each element is."""
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False))


def unique_values(x, /) -> ndarray:
    """The distinct elements."""
    return unique(x, equal_nan=False)


def isin(element, test_elements, assume_unique=False, invert=False, *, kind=None) -> ndarray:
    """Whether each element is among others."""
    x, others = as_array(element, "isin"), as_array(test_elements, "isin")
    return from_numpy_values(np.isin(x.asnumpy(), others.asnumpy(), assume_unique, invert, kind=kind))


def union1d(ar1, ar2) -> ndarray:
    """The distinct elements of two arrays."""
    return unique(concatenate([ravel(ar1), ravel(ar2)]))


def intersect1d(ar1, ar2) -> ndarray:
    """The distinct elements that two arrays share, of the first."""
    x = unique(ravel(ar1))
    return x[isin(x, ar2)]


def setdiff1d(ar1, ar2) -> ndarray:
    """The distinct elements of the first array that the second has not."""
    x = unique(ravel(ar1))
    return x[isin(x, ar2, invert=True)]


def setxor1d(ar1, ar2) -> ndarray:
    """The distinct elements that are in one of two arrays alone."""
    return unique(concatenate([setdiff1d(ar1, ar2), setdiff1d(ar2, ar1)]))
