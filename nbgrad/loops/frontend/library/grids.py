"""NumPy functions of grids and of indices of matrices."""

from __future__ import annotations

import numpy as np

from ..function_table import Array, definition, refuse_call

__all__: list[str] = []  # they are found through the table


# Grids.


@definition(np)
def meshgrid(x: Array, y: Array, *more, indexing="xy"):
    if len(more) > 0:
        refuse_call("np.meshgrid of more than two vectors: add axes to them, x[:, None, None], which broadcast")
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
def logspace(start, stop, num=50, endpoint=True, base=10.0):
    if endpoint:
        powers = np.linspace(start, stop, num)
    else:
        powers = np.linspace(start, stop, num, endpoint=False)
    return base**powers


@definition(np)
def geomspace(start, stop, num=50, endpoint=True):
    if start * stop <= 0:
        raise ValueError("np.geomspace between numbers that are 0 or have different signs")
    sign = np.sign(start)
    found = sign * logspace(np.log10(sign * start), np.log10(sign * stop), num, endpoint)
    if num > 0:
        found[0] = start
        if num > 1 and endpoint:
            found[num - 1] = stop
    return found


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
def triu_indices_from(arr, k=0):
    require_square(arr)
    return triu_indices(arr.shape[0], k)


@definition(np)
def tril_indices_from(arr, k=0):
    require_square(arr)
    return tril_indices(arr.shape[0], k)


def require_square(a):
    if a.shape[0] != a.shape[1]:
        raise ValueError("indices of a matrix that is not square")


@definition(np)
def diag_indices_from(arr):
    require_square(arr)
    return diag_indices(arr.shape[0], np.ndim(arr))


@definition(np)
def indices(dimensions):
    if len(dimensions) == 1:
        found = np.empty((1, dimensions[0]), np.int64)
        found[0] = np.arange(dimensions[0])
    elif len(dimensions) == 2:
        found = np.empty((2, dimensions[0], dimensions[1]), np.int64)
        for i in range(dimensions[0]):
            for j in range(dimensions[1]):
                found[0, i, j] = i
                found[1, i, j] = j
    else:
        refuse_call("np.indices of more than two lengths: write loops")
    return found


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
