"""NumPy's padding."""

from __future__ import annotations

import numpy as np

from ..function_table import definition, refuse_call

__all__: list[str] = []  # they are found through the table


@definition(np)
def pad(array, pad_width, mode="constant", constant_values=0):
    if np.ndim(array) == 1:
        first, last = widths(pad_width)
        padded = rows_padded(array, first, last, mode, constant_values)
    elif np.ndim(array) == 2:
        (top, bottom), (left, right) = widths_of_matrix(pad_width)
        rows = rows_padded(array, top, bottom, mode, constant_values)
        padded = rows_padded(rows.T, left, right, mode, constant_values).T
    else:
        refuse_call("np.pad of more than two axes: write into slices of a larger array")
    return padded


def widths(pad_width):
    """How many elements are added before and behind."""
    if not isinstance(pad_width, (list, tuple)):
        return pad_width, pad_width
    first = pad_width[0]
    if isinstance(first, (list, tuple)):
        return both(first)
    return both(pad_width)


def both(numbers):
    if len(numbers) == 1:
        return numbers[0], numbers[0]
    return numbers[0], numbers[1]


def widths_of_matrix(pad_width):
    if isinstance(pad_width, (list, tuple)):
        first = pad_width[0]
        if len(pad_width) == 2 and isinstance(first, (list, tuple)):
            return both(first), both(pad_width[1])
    return widths(pad_width), widths(pad_width)


def rows_padded(a, before, behind, mode, fill):
    if before < 0 or behind < 0:
        raise ValueError("np.pad by a negative number")
    n = a.shape[0]
    padded = np.empty((before + n + behind, *a.shape[1:]), a.dtype)
    if mode == "constant":
        padded[:before] = fill
        padded[before + n :] = fill
        for k in range(n):
            padded[before + k] = a[k]
    else:
        if n == 0 and before + behind > 0:
            raise ValueError("np.pad of an axis without elements")
        for k in range(before + n + behind):
            padded[k] = a[place_of(k - before, n, mode)]
    return padded


def place_of(k, n, mode):
    """The element that stands at place `k` of `n` elements that go on in both directions."""
    if mode == "edge":
        found = min(max(k, 0), n - 1)
    elif mode == "wrap":
        found = k % n
    elif mode == "reflect":
        found = (n - 1) - abs((n - 1) - k % max(2 * (n - 1), 1))
    elif mode == "symmetric":
        found = min(k % (2 * n), 2 * n - 1 - k % (2 * n))
    else:
        refuse_call("np.pad with this mode: give 'constant', 'edge', 'wrap', 'reflect' or 'symmetric'")
    return found
