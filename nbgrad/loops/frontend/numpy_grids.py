"""NumPy functions of grids, indices of matrices and single numbers, as in :mod:`.numpy_library`."""

from __future__ import annotations

import math

import numpy as np

from .function_table import Array, definition, refuse_call

__all__: list[str] = []  # they are found through the table


# Grids.


@definition(np)
def meshgrid(x: Array, y: Array, indexing="xy"):
    if np.ndim(x) != 1 or np.ndim(y) != 1:
        refuse_call("np.meshgrid of this: give two vectors")
    if indexing == "ij":
        first, second = np.empty((x.size, y.size), x.dtype), np.empty((x.size, y.size), y.dtype)
        for i in range(x.size):
            for j in range(y.size):
                first[i, j] = x[i]
                second[i, j] = y[j]
    elif indexing == "xy":
        first, second = np.empty((y.size, x.size), x.dtype), np.empty((y.size, x.size), y.dtype)
        for i in range(y.size):
            for j in range(x.size):
                first[i, j] = x[j]
                second[i, j] = y[i]
    else:
        refuse_call("np.meshgrid with this indexing: give 'xy' or 'ij'")
    return first, second


@definition(np)
def gradient(f: Array, h=1.0):
    if np.ndim(f) != 1 or np.ndim(h) != 0:
        refuse_call("np.gradient of this: give a vector and a distance, or take differences of slices")
    n = f.size
    if n < 2:
        raise ValueError("np.gradient of fewer than two elements")
    slope = np.empty(n)
    slope[0] = (f[1] - f[0]) / h
    for k in range(1, n - 1):
        slope[k] = (f[k + 1] - f[k - 1]) / (2.0 * h)
    slope[n - 1] = (f[n - 1] - f[n - 2]) / h
    return slope


# Indices.


@definition(np)
def triu_indices(n, k=0):
    count = 0
    for i in range(n):
        count += max(n - max(i + k, 0), 0)
    rows, columns = np.empty(min(count, n * n), np.int64), np.empty(min(count, n * n), np.int64)
    at = 0
    for i in range(n):
        for j in range(max(i + k, 0), n):
            rows[at] = i
            columns[at] = j
            at += 1
    return rows, columns


@definition(np)
def tril_indices(n, k=0):
    count = 0
    for i in range(n):
        count += min(max(i + k + 1, 0), n)
    rows, columns = np.empty(min(count, n * n), np.int64), np.empty(min(count, n * n), np.int64)
    at = 0
    for i in range(n):
        for j in range(min(max(i + k + 1, 0), n)):
            rows[at] = i
            columns[at] = j
            at += 1
    return rows, columns


@definition(np)
def diag_indices(n, ndim=2):
    places = np.arange(n)
    if ndim == 1:
        found = (places,)
    elif ndim == 2:
        found = (places, places)  # type: ignore[assignment]
    elif ndim == 3:
        found = (places, places, places)  # type: ignore[assignment]
    else:
        refuse_call("np.diag_indices of this many axes: give 1, 2 or 3")
    return found


@definition(np)
def unravel_index(indices, shape):
    if np.ndim(indices) != 0 or len(shape) != 2:
        refuse_call("np.unravel_index of this: give an integer and two lengths, or divide by the lengths")
    if indices < 0 or indices >= shape[0] * shape[1]:
        raise ValueError("np.unravel_index of an index that is out of bounds")
    return indices // shape[1], indices % shape[1]


# Numbers.


@definition(np)
def fix(x):
    return np.trunc(x)


@definition(np)
def heaviside(x1, x2):
    return np.where(x1 != x1, x1, np.where(x1 < 0, 0.0, np.where(x1 > 0, 1.0, x2)))


@definition(math)
def exp2(x):
    return np.exp2(x)


@definition(math)
def cbrt(x):
    return np.cbrt(x)
