"""NumPy's functions of sets."""

from __future__ import annotations

import numpy as np

from ..function_table import Array, definition, refuse_call
from .sorting import place, sorting_order

__all__: list[str] = []  # they are found through the table


@definition(np)
def unique(ar: Array):
    """The distinct elements, from the smallest on; a gradient goes to the first of those that are equal."""
    flat = np.ravel(ar)
    order, found = sorting_order(flat), []
    for k in range(flat.size):
        value, last = flat[order[k]], flat[order[max(k - 1, 0)]]
        if k == 0 or (value != last and (value == value or last == last)):  # one NaN
            found.append(value)
    return np.array(found)


@definition(np)
def isin(element: Array, test_elements: Array, assume_unique=False, invert=False):
    among = np.sort(np.ravel(test_elements))
    if np.ndim(element) == 0:
        return contains(among, element) != invert
    found = np.empty(element.shape, np.bool_)
    for index in np.ndindex(element.shape):
        found[index] = contains(among, element[index]) != invert
    return found


def contains(among, value):
    """Whether a value is among sorted ones."""
    k = place(among, value, "left")
    return k < among.size and among[min(k, among.size - 1)] == value


@definition(np)
def intersect1d(ar1: Array, ar2: Array, assume_unique=False):
    distinct = unique(ar1)
    return distinct[isin(distinct, ar2)]


@definition(np)
def union1d(ar1: Array, ar2: Array):
    return unique(np.concatenate((np.ravel(ar1), np.ravel(ar2))))


@definition(np)
def setdiff1d(ar1: Array, ar2: Array, assume_unique=False):
    if assume_unique:
        refuse_call("np.setdiff1d with assume_unique=True: it keeps the order; write ar1[~np.isin(ar1, ar2)]")
    distinct = unique(ar1)
    return distinct[isin(distinct, ar2, invert=True)]


@definition(np)
def setxor1d(ar1: Array, ar2: Array, assume_unique=False):
    first, second = unique(ar1), unique(ar2)
    return np.sort(np.concatenate((first[isin(first, second, invert=True)], second[isin(second, first, invert=True)])))
