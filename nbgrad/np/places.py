"""Places of elements: orders, positions by axes, and parts of matrices. They are integers, without a gradient."""

from __future__ import annotations

import numpy as np

from .arrays import as_array, ndarray, numbers
from .creation import from_numpy_values

__all__ = ["argpartition", "diag_indices_from", "lexsort", "ravel_multi_index", "tril_indices_from",
           "triu_indices_from", "unravel_index"]  # fmt: skip


def _arrays(found: tuple) -> tuple[ndarray, ...]:
    return tuple([from_numpy_values(np.asarray(k)) for k in found])


def argpartition(a, kth, axis=-1, kind="introselect", order=None) -> ndarray:
    """The places of elements so that the one that would be at `kth` in order is there, smaller ones before it."""
    return from_numpy_values(np.argpartition(as_array(a, "argpartition").asnumpy(), kth, axis, kind, order))


def lexsort(keys, axis=-1) -> ndarray:
    """The order of elements by several keys, the last one first."""
    values = numbers(keys) if isinstance(keys, ndarray) else [numbers(k) for k in keys]
    return from_numpy_values(np.asarray(np.lexsort(values, axis)))


def unravel_index(indices, shape, order="C") -> tuple[ndarray, ...]:
    """Places in an array of a shape, along each axis, of numbers of elements."""
    return _arrays(np.unravel_index(numbers(indices), shape, order))


def ravel_multi_index(multi_index, dims, mode="raise", order="C") -> ndarray:
    """The numbers of elements by their places along each axis."""
    places = tuple([numbers(k) for k in multi_index])
    return from_numpy_values(np.asarray(np.ravel_multi_index(places, dims, mode, order)))


def diag_indices_from(arr) -> tuple[ndarray, ...]:
    """The places of the elements on the diagonal of an array, along each axis."""
    return _arrays(np.diag_indices_from(as_array(arr, "diag_indices_from").asnumpy()))


def tril_indices_from(arr, k=0) -> tuple[ndarray, ...]:
    """The places of the elements of a matrix on its `k`-th diagonal and below."""
    return _arrays(np.tril_indices_from(as_array(arr, "tril_indices_from").asnumpy(), k))


def triu_indices_from(arr, k=0) -> tuple[ndarray, ...]:
    """The places of the elements of a matrix on its `k`-th diagonal and above."""
    return _arrays(np.triu_indices_from(as_array(arr, "triu_indices_from").asnumpy(), k))
