"""NumPy functions written in the subset itself; calls of them are lowered like calls of user functions.

Tests of ``np.ndim``, and of arguments that are constant at the call, are decided at compile time. So that nothing needs
to be stored on tapes, elements that derivatives read are written once.
"""

from __future__ import annotations

import numpy as np

from .function_table import definition, refuse_call

__all__ = ["column_norm", "flattened", "masked", "row_norm", "vector_norm"]

# Elements that are not zero.


@definition(np)
def flatnonzero(a):
    count = 0
    for k in range(a.size):
        if a[k]:
            count += 1
    found = np.empty(min(count, a.size), np.int64)
    j = 0
    for k in range(a.size):
        if a[k]:
            found[j] = k
            j += 1
    return found


@definition(np)
def argwhere(a):
    if np.ndim(a) != 1:
        refuse_call("the places in several axes: write loops over them")
    return flatnonzero(a)[:, None]


@definition(np)
def nonzero(a):
    if np.ndim(a) > 2:
        refuse_call("the places in more than two axes: write loops over them")
    if np.ndim(a) == 1:
        where_true = (flatnonzero(a),)
    else:
        at = flatnonzero(a.ravel())
        where_true = (at // a.shape[1], at % a.shape[1])  # type: ignore[assignment]
    return where_true


# Rearranging elements.


@definition(np)
def roll(a, shift, axis=-9):
    found = np.empty_like(a)
    if np.ndim(a) == 1 or axis == 0 or axis == -np.ndim(a):
        n = a.shape[0]
        s = shift % max(n, 1)
        for k in range(n - s):
            found[k + s] = a[k]
        for k in range(s):
            found[k] = a[n - s + k]
    elif axis == 1 or (axis == -1 and np.ndim(a) == 2):
        n = a.shape[1]
        s = shift % max(n, 1)
        for k in range(n - s):
            found[:, k + s] = a[:, k]
        for k in range(s):
            found[:, k] = a[:, n - s + k]
    else:
        refuse_call("np.roll along this axis: give axis=0 or axis=1, or write a loop")
    return found


@definition(np)
def rot90(m, k=1):
    if np.ndim(m) != 2:
        refuse_call("np.rot90 of several axes: give a matrix")
    if k == 1:
        found = m[:, ::-1].T
    elif k == 2:
        found = m[::-1, ::-1]
    elif k == 3 or k == -1:
        found = m[::-1].T
    else:
        refuse_call("np.rot90 by this: give 1, 2, 3 or -1")
    return found


@definition(np)
def extract(condition, arr):
    return arr[condition]


@definition(np)
def delete(arr, obj):
    if np.ndim(arr) != 1 or np.ndim(obj) != 0:
        refuse_call("np.delete of this: give a vector and one index, or take a mask")
    if obj < -arr.size or obj >= arr.size:
        raise IndexError("np.delete of an element that the array does not have")
    found = np.empty(arr.size - 1, arr.dtype)
    gone = obj % arr.size
    for k in range(arr.size - 1):
        found[k] = arr[k if k < gone else k + 1]
    return found


@definition(np)
def take(a, indices):
    if np.ndim(a) != 1:
        refuse_call("np.take from several axes: write a[indices] or a[:, indices]")
    return a[indices]


@definition(np)
def flip(a):
    if np.ndim(a) > 2:
        refuse_call("np.flip of more than two axes: write a[::-1]")
    if np.ndim(a) == 1:
        found = a[::-1]
    else:
        found = a[::-1, ::-1]
    return found


@definition(np)
def flipud(a):
    return a[::-1]


@definition(np)
def fliplr(a):
    return a[:, ::-1]


@definition(np)
def repeat(a, repeats):
    if np.ndim(a) == 0:
        return np.full(repeats, a)
    if np.ndim(repeats) != 0 or np.ndim(a) != 1:
        refuse_call("np.repeat of this: repeat a vector, a number of times")
    found = np.empty(a.size * repeats, a.dtype)
    for k in range(a.size):
        for j in range(repeats):
            found[k * repeats + j] = a[k]
    return found


@definition(np)
def tile(a, reps):
    if np.ndim(a) != 1:
        refuse_call("np.tile of several axes: write a loop")
    found = np.empty(a.size * reps, a.dtype)
    for j in range(reps):
        for k in range(a.size):
            found[j * a.size + k] = a[k]
    return found


@definition(np)
def diag(v, k=0):
    if np.ndim(v) == 1:
        found = np.zeros((v.size + abs(k), v.size + abs(k)), v.dtype)
        for i in range(v.size):
            found[i + max(-k, 0), i + max(k, 0)] = v[i]
    else:
        down, right = max(-k, 0), max(k, 0)
        found = np.empty(max(min(v.shape[0] - down, v.shape[1] - right), 0), v.dtype)
        for i in range(found.size):
            found[i] = v[i + down, i + right]
    return found


@definition(np)
def diagflat(v, k=0):
    return diag(v.ravel(), k)


@definition(np)
def tri(N, M=-1, k=0):
    return tril(np.ones((N, N if M < 0 else M)), k)


@definition(np)
def vander(x, N=-1, increasing=False):
    n = x.size if N < 0 else N
    found = np.ones((x.size, n))
    for i in range(x.size):
        if increasing:
            for j in range(1, n):
                found[i, j] = found[i, j - 1] * x[i]
        else:
            for j in range(n - 2, -1, -1):
                found[i, j] = found[i, j + 1] * x[i]
    return found


@definition(np)
def fill_diagonal(a, val):
    if np.ndim(a) != 2 or np.ndim(val) != 0:
        refuse_call("np.fill_diagonal of this: give a matrix and a number")
    for i in range(min(a.shape[0], a.shape[1])):
        a[i, i] = val


@definition(np)
def tril(m, k=0):
    found = np.zeros_like(m)
    for i in range(m.shape[0]):
        for j in range(min(max(i + k + 1, 0), m.shape[1])):
            found[i, j] = m[i, j]
    return found


@definition(np)
def triu(m, k=0):
    found = np.zeros_like(m)
    for i in range(m.shape[0]):
        for j in range(max(i + k, 0), m.shape[1]):
            found[i, j] = m[i, j]
    return found


# Sums and products.


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
def trapezoid(y, x=0, dx=1.0):
    if np.ndim(y) != 1:
        refuse_call("np.trapezoid of several axes: write a loop over rows")
    if np.ndim(x) == 1 and x.size != y.size:
        raise ValueError("np.trapezoid of arrays of different lengths")
    total = 0.0
    for k in range(1, y.size):
        if np.ndim(x) == 0:
            width = dx
        else:
            width = x[k] - x[k - 1]
        total += 0.5 * width * (y[k] + y[k - 1])
    return total


@definition(np)
def logaddexp(x1, x2):
    high, low = np.where(x1 > x2, x1, x2), np.where(x1 > x2, x2, x1)
    return high + np.log1p(np.exp(np.where(np.isinf(high) & ~np.isnan(low), 0.0, low - high)))


@definition(np)
def polyval(p, x):
    if np.ndim(x) == 0:
        found = polynomial(p, x)
    else:
        found = np.empty(x.shape)
        for index in np.ndindex(x.shape):
            found[index] = polynomial(p, x[index])
    return found


def polynomial(p, x):
    y = 0.0
    for k in range(p.size):
        y = y * x + p[k]
    return y


@definition(np)
def convolve(a, v, mode="full"):
    if a.size == 0 or v.size == 0:
        raise ValueError("np.convolve of an array without elements")
    found = np.zeros(a.size + v.size - 1)
    for i in range(a.size):
        for j in range(v.size):
            found[i + j] += a[i] * v[j]
    few, many = min(a.size, v.size), max(a.size, v.size)
    if mode == "valid":
        found = found[few - 1 : many]
    elif mode == "same":
        found = found[(few - 1) // 2 : (few - 1) // 2 + many]
    return found


@definition(np)
def correlate(a, v, mode="valid"):
    found = convolve(a, v[::-1])
    few, many = min(a.size, v.size), max(a.size, v.size)
    if mode == "valid":
        found = found[few - 1 : many]
    elif mode == "same":  # NumPy changes places where the second is longer
        start = (few - 1) // 2 if a.size >= v.size else few // 2
        found = found[start : start + many]
    return found


@definition(np)
def ediff1d(ary):
    flat = ary.ravel()
    return flat[1:] - flat[:-1]


@definition(np)
def cross(a, b):
    a, b = np.asarray(a), np.asarray(b)
    if np.ndim(a) != 1 or np.ndim(b) != 1:
        refuse_call("np.cross of several vectors: write a loop over rows")
    if a.size != 3 or b.size != 3:
        raise ValueError("np.cross of vectors that have not three elements")
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


@definition(np)
def kron(a, b):
    if np.ndim(a) == 1 and np.ndim(b) == 1:
        return np.outer(a, b).ravel()
    if np.ndim(a) != 2 or np.ndim(b) != 2:
        refuse_call("np.kron of others than two vectors or two matrices: give both as many axes")
    n, m = b.shape
    found = np.empty((a.shape[0] * n, a.shape[1] * m))
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for k in range(n):
                for l in range(m):  # noqa: E741
                    found[i * n + k, j * m + l] = a[i, j] * b[k, l]
    return found
