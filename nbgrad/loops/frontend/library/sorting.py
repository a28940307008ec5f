"""NumPy functions that search and sort.

They find indices, which are integers: derivatives read the elements there, and nothing of the search is stored.
"""

from __future__ import annotations

import numpy as np

from ..function_table import Array, definition, refuse_call

__all__ = ["place", "sorting_order"]


def less(a, b):
    """NumPy's sort order: NaN comes last."""
    return a < b or (a == a and b != b)


@definition(np)
def searchsorted(a: Array, v: Array, side="left"):
    if np.ndim(v) == 0:
        found = place(a, v, side)
    else:
        found = np.empty(v.shape, np.int64)
        for index in np.ndindex(v.shape):
            found[index] = place(a, v[index], side)
    return found


def place(a, v, side):
    low, high = 0, a.size
    while low < high:
        middle = (low + high) // 2
        if side == "right":
            before = not less(v, a[middle])
        else:
            before = less(a[middle], v)
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@definition(np)
def digitize(x: Array, bins: Array, right=False):
    falls = bins.size > 1 and bins[0] > bins[bins.size - 1]
    if right:
        up, down = searchsorted(bins, x), bins.size - searchsorted(bins[::-1], x, "right")
    else:
        up, down = searchsorted(bins, x, "right"), bins.size - searchsorted(bins[::-1], x)
    return np.where(falls, down, up)


@definition(np)
def argsort(a, axis=-1, kind="quicksort"):
    if axis is None:
        found = sorting_order(a.ravel())
    elif np.ndim(a) == 2:
        found = along(a, axis, sorting_order, np.empty(a.shape, np.int64))
    else:
        found = sorting_order(a, axis)
    return found


def sorting_order(a, axis=-1):
    """Bottom-up merge sort of indices; it is stable."""
    if np.ndim(a) != 1 or (axis != -1 and axis != 0):
        refuse_call("sorting along one of several axes: write a loop over rows")
    n = a.size
    runs, merged, found = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    for k in range(n):
        runs[k] = k
    width = 1
    while width < n:
        for start in range(0, n, 2 * width):
            middle, end = min(start + width, n), min(start + 2 * width, n)
            i, j = start, middle
            for k in range(start, end):
                if i < middle and (j >= end or not less(a[runs[j]], a[runs[i]])):
                    merged[k] = runs[i]
                    i += 1
                else:
                    merged[k] = runs[j]
                    j += 1
        for k in range(n):
            runs[k] = merged[k]
        width *= 2
    for k in range(n):
        found[k] = runs[k]
    return found


@definition(np)
def sort(a, axis=-1, kind="quicksort"):
    if axis is None:
        found = in_order(a.ravel())
    elif np.ndim(a) == 2:
        found = along(a, axis, in_order, np.empty_like(a))
    else:
        found = in_order(a, axis)
    return found


def along(a, axis, function, found):
    """Fill a matrix with what a function makes of the rows of another one, or of its columns."""
    if axis == 1 or axis == -1:
        for k in range(a.shape[0]):
            found[k] = function(a[k])
    elif axis == 0 or axis == -2:
        for k in range(a.shape[1]):
            found[:, k] = function(a[:, k])
    else:
        refuse_call("sorting along this axis: give a constant, 0 or 1, or write a loop")
    return found


def in_order(a, axis=-1):
    order = sorting_order(a, axis)
    found = np.empty_like(a)
    for k in range(a.size):
        found[k] = a[order[k]]
    return found


@definition(np)
def partition(a, kth):
    check_place(a, kth)
    return in_order(a)  # every order of the others will do


@definition(np)
def argpartition(a, kth):
    check_place(a, kth)
    return sorting_order(a)


def check_place(a, kth):
    if np.min(kth) < -a.shape[-1] or np.max(kth) >= a.shape[-1]:
        raise ValueError("np.partition at an index out of range")
