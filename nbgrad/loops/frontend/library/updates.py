"""NumPy functions that write an argument in place."""

from __future__ import annotations

import numpy as np

from ..function_table import Array, definition, refuse_call

__all__: list[str] = []  # they are found through the table


@definition(np.add, "at", writes=True)
def add_at(a, indices, b: Array):
    if isinstance(indices, tuple):
        i, j = pair_of(a, indices, b)
        for k in range(i.size):
            a[i[k], j[k]] += item(b, k)
    else:
        check_at(a, indices, b)
        for k in range(indices.size):
            a[indices[k]] += item(b, k)


@definition(np.subtract, "at", writes=True)
def subtract_at(a, indices, b: Array):
    add_at(a, indices, -b)


@definition(np.multiply, "at", writes=True)
def multiply_at(a, indices, b: Array):
    check_at(a, indices, b)
    for k in range(indices.size):
        a[indices[k]] *= item(b, k)


@definition(np.maximum, "at", writes=True)
def maximum_at(a, indices, b: Array):
    check_at(a, indices, b)
    for k in range(indices.size):
        a[indices[k]] = np.maximum(a[indices[k]], item(b, k))


@definition(np.minimum, "at", writes=True)
def minimum_at(a, indices, b: Array):
    check_at(a, indices, b)
    for k in range(indices.size):
        a[indices[k]] = np.minimum(a[indices[k]], item(b, k))


def check_at(a, indices, b):
    if isinstance(indices, tuple) or np.ndim(indices) != 1 or (np.ndim(b) != 0 and np.ndim(b) != np.ndim(a)):
        refuse_call("this update at indices: give a vector of indices, and a number or a row for each, or loop")
    if np.ndim(b) != 0 and len(b) != indices.size:
        raise ValueError("another number of values than of indices")


def pair_of(a, indices, b):
    if len(indices) != 2 or np.ndim(a) != 2 or np.ndim(b) > 1:
        refuse_call("np.add.at with these indices: give a matrix and two vectors of indices, or loop")
    i, j = indices
    if i.size != j.size or (np.ndim(b) == 1 and len(b) != i.size):
        raise ValueError("np.add.at with indices or values of different lengths")
    return i, j


def item(b, k):
    return b if np.ndim(b) == 0 else b[k]


@definition(np, writes=True)
def put(a, ind: Array, v: Array):
    if np.ndim(a) != 1 or np.ndim(ind) > 1 or np.ndim(v) > 1:
        refuse_call("np.put of this: give a vector, its indices, and a number or a vector, or loop")
    if np.ndim(ind) == 0:
        a[ind] = item(v, 0)
    elif np.ndim(v) == 0:
        for k in range(ind.size):
            a[ind[k]] = v
    elif v.size > 0:
        for k in range(ind.size):
            a[ind[k]] = v[k % v.size]


@definition(np, writes=True)
def copyto(dst, src: Array, where=True):
    if np.ndim(where) == 0:
        if where:
            dst[...] = src
    else:
        dst[...] = np.where(where, src, dst)


@definition(np, writes=True)
def putmask(a, mask, values: Array):
    if np.ndim(mask) != np.ndim(a) or (np.ndim(values) != 0 and np.ndim(values) != np.ndim(a)):
        refuse_call("np.putmask of this: give a mask, and a number or values, of the same shape, or loop")
    if a.shape != mask.shape:
        raise ValueError("np.putmask: mask and data must be the same size")
    if np.ndim(values) != 0 and a.shape != values.shape:
        raise ValueError("np.putmask with values of another shape")
    a[...] = np.where(mask, values, a)


@definition(np, writes=True)
def place(arr, mask, vals: Array):
    if np.ndim(arr) != 1 or np.ndim(mask) != 1 or np.ndim(vals) != 1:
        refuse_call("np.place of this: give a vector, a mask and a vector of values, or loop")
    if arr.size != mask.size:
        raise ValueError("np.place: mask and data must be the same size")
    if vals.size == 0:
        raise ValueError("np.place without values")
    n = 0
    for k in range(arr.size):
        if mask[k]:
            arr[k] = vals[n % vals.size]
            n += 1
