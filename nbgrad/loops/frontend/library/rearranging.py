"""NumPy's functions that find, select and rearrange elements."""

from __future__ import annotations

import numpy as np

from ..function_table import Array, definition, elements_of, holds_bools, refuse_call
from .sorting import sorting_order

__all__: list[str] = []  # they are found through the table

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
    if np.ndim(a) == 1:
        places = flatnonzero(a)[:, None]
    else:
        places = np.column_stack(nonzero(a))
    return places


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
def roll(a, shift, axis=None):
    if isinstance(shift, (list, tuple)):
        if len(shift) != 2:
            refuse_call("np.roll by this many numbers: give one, or two and their axes")
        return rolled(rolled(a, shift[0], axis[0]), shift[1], axis[1])
    if axis is None and np.ndim(a) != 1:
        return rolled(a.ravel(), shift, 0).reshape(a.shape)
    return rolled(a, shift, axis)


def rolled(a, shift, axis):
    found = np.empty_like(a)
    if np.ndim(a) == 1 or axis == 0 or axis == -np.ndim(a):
        n = a.shape[0]
        s = shift % max(n, 1)
        for k in range(n - s):
            found[k + s] = a[k]
        for k in range(s):
            found[k] = a[n - s + k]
    elif axis == 1 or axis == 1 - np.ndim(a):
        n = a.shape[1]
        s = shift % max(n, 1)
        for k in range(n - s):
            found[:, k + s] = a[:, k]
        for k in range(s):
            found[:, k] = a[:, n - s + k]
    elif np.ndim(a) > 2 and (axis == 2 or axis == 2 - np.ndim(a)):
        n = a.shape[2]
        s = shift % max(n, 1)
        for k in range(n - s):
            found[:, :, k + s] = a[:, :, k]
        for k in range(s):
            found[:, :, k] = a[:, :, n - s + k]
    else:
        refuse_call("np.roll along this axis: give a constant from 0 to 2, or write a loop")
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
def compress(condition: Array, a, axis=None):
    if np.ndim(a) != 1 and axis is None:
        refuse_call("np.compress of several axes: give it axis=, or index with a mask")
    if np.ndim(a) == 1 or axis == 0 or axis == -np.ndim(a):
        chosen = a[flatnonzero(condition)]
    elif axis == 1 or axis == 1 - np.ndim(a):
        chosen = a[:, flatnonzero(condition)]
    else:
        refuse_call("np.compress along this axis: give 0 or 1")
    return chosen


@definition(np)
def delete(arr: Array, obj, axis=None):
    if np.ndim(arr) != 1 and (axis is None or np.ndim(arr) > 2):
        refuse_call("np.delete of this: give a vector, or a matrix and axis=, or take a mask")
    if np.ndim(arr) == 2 and (axis == 1 or axis == -1):
        kept = arr[:, others(arr.shape[1], obj)]
    else:
        kept = arr[others(arr.shape[0], obj)]
    return kept


def others(n, gone):
    """The indices of `n` elements without those that are `gone`."""
    keep = np.ones(n, np.bool_)
    if isinstance(gone, slice):
        keep[gone] = False
    elif isinstance(gone, (list, tuple)):
        for index in gone:
            keep[checked(index, n)] = False
    elif np.ndim(gone) == 0:
        keep[checked(gone, n)] = False
    else:
        for k in range(gone.size):
            keep[checked(gone[k], n)] = False
    return flatnonzero(keep)


def checked(index, n):
    if index < -n or index >= n:
        raise IndexError("np.delete of an element that the array does not have")
    return index % n


@definition(np)
def insert(arr: Array, obj, values: Array, axis=None):
    if np.ndim(arr) != 1 or np.ndim(obj) != 0 or np.ndim(values) > 1:
        refuse_call("np.insert of this: give a vector, one index, and a number or a vector, or concatenate slices")
    if obj < -arr.size or obj > arr.size:
        raise IndexError("np.insert at an index out of bounds")
    at = obj + arr.size if obj < 0 else obj
    inserted = np.atleast_1d(values)
    found = np.empty(arr.size + inserted.size, arr.dtype)
    found[:at] = arr[:at]
    found[at : at + inserted.size] = inserted
    found[at + inserted.size :] = arr[at:]
    return found


@definition(np)
def trim_zeros(filt: Array, trim="fb"):
    first, last = 0, filt.size
    if trim.lower() != "b":
        while first < filt.size and filt[first] == 0:
            first += 1
    if trim.lower() != "f":
        while last > first and filt[last - 1] == 0:
            last -= 1
    return filt[first:last]


@definition(np)
def take(a: Array, indices: Array, axis=None, mode="raise"):
    if np.ndim(indices) > 0 and holds_bools(indices):  # which are no mask here
        indices = indices.astype(np.int64)
    if np.ndim(a) == 1 or axis is None:
        flat = a.ravel()
        chosen = flat[within(indices, flat.size, mode)]
    elif axis == 0 or axis == -np.ndim(a):
        chosen = a[within(indices, a.shape[0], mode)]
    elif np.ndim(a) > 1 and (axis == 1 or axis == 1 - np.ndim(a)):
        chosen = a[:, within(indices, a.shape[1], mode)]
    elif np.ndim(a) > 2 and (axis == 2 or axis == 2 - np.ndim(a)):
        chosen = a[:, :, within(indices, a.shape[2], mode)]
    else:
        refuse_call("np.take along this axis: give a constant from 0 to 2, or write a loop")
    return chosen


def within(indices, n, mode):
    if mode == "clip":
        found = np.minimum(np.maximum(indices, 0), n - 1)
    elif mode == "wrap":
        found = indices % n
    elif mode == "raise":
        found = indices
    else:
        refuse_call("np.take with this mode: give 'raise', 'wrap' or 'clip'")
    return found


@definition(np)
def take_along_axis(arr, indices, axis=-1):
    if np.ndim(arr) != np.ndim(indices) or np.ndim(arr) > 2 or axis is None:
        refuse_call("np.take_along_axis of this: give two vectors or two matrices, or write loops")
    if np.ndim(arr) == 1:
        return arr[indices]
    found = np.empty(indices.shape, arr.dtype)
    if axis == 0 or axis == -2:
        if arr.shape[1] != indices.shape[1]:
            raise IndexError("np.take_along_axis of matrices with different numbers of columns")
        for i in range(indices.shape[0]):
            for j in range(indices.shape[1]):
                found[i, j] = arr[indices[i, j], j]
    else:
        if arr.shape[0] != indices.shape[0]:
            raise IndexError("np.take_along_axis of matrices with different numbers of rows")
        for i in range(indices.shape[0]):
            for j in range(indices.shape[1]):
                found[i, j] = arr[i, indices[i, j]]
    return found


@definition(np)
def lexsort(keys):
    order = sorting_order(keys[0])
    for key in keys[1:]:
        order = order[sorting_order(key[order])]
    return order


@definition(np)
def flip(m, axis=None):
    if np.ndim(m) == 1:
        found = m[::-1]
    elif axis is None:
        if np.ndim(m) > 2:
            refuse_call("np.flip along more than two axes: write a[::-1]")
        found = m[::-1, ::-1]
    elif axis == 0 or axis == -np.ndim(m):
        found = m[::-1]
    elif axis == 1 or axis == 1 - np.ndim(m):
        found = m[:, ::-1]
    elif np.ndim(m) > 2 and (axis == 2 or axis == 2 - np.ndim(m)):
        found = m[:, :, ::-1]
    else:
        refuse_call("np.flip along this axis: give a constant from 0 to 2")
    return found


@definition(np)
def flipud(a):
    return a[::-1]


@definition(np)
def fliplr(a):
    return a[:, ::-1]


@definition(np)
def repeat(a: Array, repeats: Array, axis=None):
    if np.ndim(a) == 0:
        return np.full(repeats, a)
    if axis is None or np.ndim(a) == 1:
        flat = a.ravel()
        found = flat[copies(flat.size, repeats)]
    elif axis == 0 or axis == -np.ndim(a):
        found = a[copies(a.shape[0], repeats)]
    elif axis == 1 or axis == 1 - np.ndim(a):
        found = a[:, copies(a.shape[1], repeats)]
    else:
        refuse_call("np.repeat along this axis: give 0 or 1, or write a loop")
    return found


def copies(n, repeats):
    """The indices of `n` elements, each as often as it is repeated."""
    if np.ndim(repeats) == 0:
        if repeats < 0:
            raise ValueError("np.repeat of a negative number of repeats")
        found = np.empty(n * repeats, np.int64)
        for k in range(n):
            for j in range(repeats):
                found[k * repeats + j] = k
    else:
        if repeats.size != n:
            raise ValueError("np.repeat with another number of repeats than of elements")
        found = np.empty(np.sum(repeats), np.int64)
        at = 0
        for k in range(n):
            for _ in range(repeats[k]):
                found[at] = k
                at += 1
    return found


@definition(np)
def tile(A: Array, reps):
    if isinstance(reps, (list, tuple)):
        if len(reps) != 2 or np.ndim(A) > 2:
            refuse_call("np.tile of this: give a vector or a matrix, and one or two numbers, or write a loop")
        found = tiles(np.atleast_2d(A), reps[0], reps[1])
    elif np.ndim(A) == 2:
        found = tiles(A, 1, reps)
    elif np.ndim(A) == 1:
        found = np.empty(A.size * reps, A.dtype)
        for j in range(reps):
            for k in range(A.size):
                found[j * A.size + k] = A[k]
    else:
        refuse_call("np.tile of several axes: write a loop")
    return found


def tiles(a, down, right):
    n, m = a.shape
    found = np.empty((n * down, m * right), a.dtype)
    for i in range(n * down):
        for j in range(right):
            for k in range(m):
                found[i, j * m + k] = a[i % n, k]
    return found


@definition(np)
def resize(a: Array, new_shape):
    if isinstance(new_shape, (list, tuple)):
        refuse_call("np.resize to several lengths: give one, and reshape")
    flat = a.ravel()
    if flat.size == 0 and new_shape > 0:
        raise ValueError("np.resize of an array without elements")
    found = np.empty(new_shape, a.dtype)
    for k in range(new_shape):
        found[k] = flat[k % flat.size]
    return found


@definition(np)
def broadcast_to(array: Array, shape):
    found = np.empty(shape, np.asarray(array).dtype)
    found[...] = array
    return found


@definition(np.lib.stride_tricks)
def sliding_window_view(x, window_shape, axis=None):
    if np.ndim(x) != 1 or isinstance(window_shape, (list, tuple)):
        refuse_call("windows of this: give a vector and the number of elements in a window, or write loops")
    if window_shape < 0 or window_shape > x.size:
        raise ValueError("windows that are longer than the array, or negative")
    found = np.empty((x.size - window_shape + 1, window_shape), x.dtype)
    for k in range(found.shape[0]):
        for j in range(window_shape):
            found[k, j] = x[k + j]
    return found


@definition(np, writes=True)
def apply_along_axis(func1d, axis, arr):
    if np.ndim(arr) != 2:
        refuse_call("np.apply_along_axis of this: give a matrix, or write a loop")
    if axis == 1 or axis == -1:
        return of_rows(func1d, arr)
    found = of_rows(func1d, arr.T)
    return found.T


def of_rows(function, rows):
    if rows.shape[0] == 0:
        raise ValueError("np.apply_along_axis of no rows or columns")
    first = function(rows[0])
    if np.ndim(first) == 0:
        found = np.empty(rows.shape[0], elements_of(first, rows))
    else:
        found = np.empty((rows.shape[0], first.size), elements_of(first, rows))
    for k in range(rows.shape[0]):
        found[k] = function(rows[k])
    return found


@definition(np)
def diag(v: Array, k=0):
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
def diagonal(a, offset=0):
    if np.ndim(a) != 2:
        refuse_call("np.diagonal of this: give a matrix")
    return diag(a, offset)


@definition(np)
def diagflat(v: Array, k=0):
    return diag(v.ravel(), k)


@definition(np)
def tri(N, M=-1, k=0):
    return tril(np.ones((N, N if M < 0 else M)), k)


@definition(np, writes=True)
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
