"""Functions that products, masks and norms are lowered to, and NumPy's products of several arrays."""

from __future__ import annotations

import numpy as np

from ..function_table import Array, definition, holds_bools, numbers_of, refuse_call

__all__ = ["column_norm", "flattened", "masked", "row_norm", "vector_norm"]


def flattened(a):
    return a.ravel()


def masked(a, mask):
    if a.shape != mask.shape:
        raise IndexError("a mask of another shape than the array")
    count = 0
    for index in np.ndindex(a.shape):
        if mask[index]:
            count += 1
    chosen = np.empty(min(count, a.size), a.dtype)
    k = 0
    for index in np.ndindex(a.shape):
        if mask[index]:
            chosen[k] = a[index]
            k += 1
    return chosen


def vector_norm(x, ord):
    if np.ndim(x) != 1:
        refuse_call("a norm of a matrix of this order: give 1, np.inf or 'fro', or sum and compare in loops")
    if ord == np.inf:
        found = np.max(np.abs(x))
    elif ord == -np.inf:
        found = np.min(np.abs(x))
    elif ord == 0:
        found = 1.0 * np.count_nonzero(x)
    elif ord == 1:
        found = np.sum(np.abs(x))
    elif ord == 2:
        found = np.sqrt(np.sum(x**2))
    else:
        found = np.sum(np.abs(x) ** ord) ** (1.0 / ord)
    return found


def column_norm(x):
    return np.max(np.sum(np.abs(x), axis=0))


def row_norm(x):
    return np.max(np.sum(np.abs(x), axis=1))


@definition(np)
def convolve(a: Array, v: Array, mode="full"):
    if a.size == 0 or v.size == 0:
        raise ValueError("np.convolve of an array without elements")
    if holds_bools(a) and holds_bools(v):  # whether any pair is true
        return np.convolve(a.astype(np.int64), v.astype(np.int64), mode) > 0
    found = np.zeros(a.size + v.size - 1, numbers_of(a, v))
    for i in range(a.size):
        for j in range(v.size):
            found[i + j] += a[i] * v[j]
    few, many = min(a.size, v.size), max(a.size, v.size)
    if mode == "valid":
        return found[few - 1 : many]
    if mode == "same":
        return found[(few - 1) // 2 : (few - 1) // 2 + many]
    return found


@definition(np)
def correlate(a: Array, v: Array, mode="valid"):
    found = convolve(a, v[::-1])
    few, many = min(a.size, v.size), max(a.size, v.size)
    if mode == "valid":
        return found[few - 1 : many]
    if mode == "same":  # NumPy changes places where the second is longer
        start = (few - 1) // 2 if a.size >= v.size else few // 2
        return found[start : start + many]
    return found


@definition(np)
def cross(a: Array, b: Array):
    if np.ndim(a) > 2 or np.ndim(b) > 2:
        refuse_call("np.cross of more than two axes: write a loop over rows")
    if a.shape[np.ndim(a) - 1] != 3 or b.shape[np.ndim(b) - 1] != 3:
        raise ValueError("np.cross of vectors that have not three elements")
    if np.ndim(a) == 1 and np.ndim(b) == 1:
        return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])
    a0, a1, a2 = a[..., 0], a[..., 1], a[..., 2]
    b0, b1, b2 = b[..., 0], b[..., 1], b[..., 2]
    return np.stack((a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0), axis=1)


@definition(np)
def kron(a, b):
    if np.ndim(a) == 1 and np.ndim(b) == 1:
        return np.outer(a, b).ravel()
    if np.ndim(a) != 2 or np.ndim(b) != 2:
        refuse_call("np.kron of others than two vectors or two matrices: give both as many axes")
    n, m = b.shape
    found = np.empty((a.shape[0] * n, a.shape[1] * m), numbers_of(a, b))
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for k in range(n):
                for l in range(m):  # noqa: E741
                    found[i * n + k, j * m + l] = a[i, j] * b[k, l]
    return found


@definition(np.add, "reduceat")
def sums_between(array: Array, indices: Array):
    """Sums from each index to the next; an element where the next one is not larger."""
    if np.ndim(array) != 1:
        refuse_call("np.add.reduceat of several axes: write a loop over rows")
    found = np.zeros(indices.size)
    for k in range(indices.size):
        if indices[k] < 0 or indices[k] >= array.size:
            raise IndexError("np.add.reduceat with an index out of bounds")
        end = array.size if k + 1 == indices.size else indices[k + 1]
        for i in range(indices[k], max(end, indices[k] + 1)):
            found[k] += array[i]
    return found
