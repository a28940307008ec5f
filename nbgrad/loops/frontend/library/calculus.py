"""NumPy's differences, integrals and interpolation."""

from __future__ import annotations

import numpy as np

from ..function_table import Array, definition, floats_of, holds_bools, refuse_call
from .sorting import place

__all__: list[str] = []  # they are found through the table


@definition(np)
def gradient(f: Array, first: Array = 1.0, second: Array = None, axis=None, edge_order=1):
    if edge_order != 1:
        refuse_call("np.gradient with edge_order=2: write the differences at the ends as slices")
    if np.ndim(f) == 1:
        slope = along_first(f, first)
    elif axis is not None:
        slope = np.moveaxis(along_first(np.moveaxis(f, axis, 0), first), 0, axis)
    elif np.ndim(f) == 2:
        if second is None:
            other = first
        else:
            other = second
        slope = along_first(f, first), along_first(f.T, other).T
    else:
        refuse_call("np.gradient along three axes or more: give it axis=")
    return slope


def along_first(f, h):
    """Differences along the first axis, second-order ones inside; `h` is a distance, or the vector of places."""
    n = f.shape[0]
    if n < 2:
        raise ValueError("np.gradient along an axis of fewer than two elements")
    slope = np.empty(f.shape, floats_of(f))
    if np.ndim(h) == 0:
        slope[0] = (f[1] - f[0]) / h
        for k in range(1, n - 1):
            slope[k] = (f[k + 1] - f[k - 1]) / (2.0 * h)
        slope[n - 1] = (f[n - 1] - f[n - 2]) / h
    else:
        if h.size != n:
            raise ValueError("np.gradient with another number of places than elements along the axis")
        slope[0] = (f[1] - f[0]) / (h[1] - h[0])
        for k in range(1, n - 1):
            left, right = h[k] - h[k - 1], h[k + 1] - h[k]
            outer = left * f[k + 1] / (right * (left + right)) - right * f[k - 1] / (left * (left + right))
            slope[k] = outer + (right - left) * f[k] / (left * right)
        slope[n - 1] = (f[n - 1] - f[n - 2]) / (h[n - 1] - h[n - 2])
    return slope


@definition(np)
def trapezoid(y: Array, x: Array = 0, dx=1.0, axis=-1):
    if np.ndim(y) == 1:
        area = area_of_rows(y, x, dx, 0.0)
    else:
        if np.ndim(x) > 1:
            refuse_call("np.trapezoid over places of several axes: give a vector of them")
        rows = np.moveaxis(y, axis, 0)
        area = area_of_rows(rows, x, dx, np.zeros(rows.shape[1:], floats_of(rows)))
    return area


def area_of_rows(y, x, dx, area):
    if np.ndim(x) == 1 and x.size != y.shape[0]:
        raise ValueError("np.trapezoid of arrays of different lengths")
    for k in range(1, y.shape[0]):
        if np.ndim(x) == 0:
            width = dx
        else:
            width = x[k] - x[k - 1]
        if holds_bools(y):  # for which NumPy's + is "or"
            area += 0.5 * width * (y[k] | y[k - 1])
        else:
            area += 0.5 * width * (y[k] + y[k - 1])
    return area


@definition(np)
def ediff1d(ary: Array):
    flat = ary.ravel()
    return flat[1:] - flat[:-1]


@definition(np)
def unwrap(p: Array, discont=None, axis=-1, *, period=2 * np.pi):
    if np.ndim(p) != 1:
        refuse_call("np.unwrap of several axes: write a loop over rows")
    half = 0.5 * period
    least = half if discont is None else max(discont, half)
    unwrapped = np.empty(p.size, floats_of(p))
    periods = 0.0
    for k in range(p.size):
        if k > 0:
            step = p[k] - p[k - 1]
            rest = (step + half) % period - half
            if rest == -half and step > 0:
                rest = half
            if abs(step) >= least:
                periods += np.round((rest - step) / period)
        unwrapped[k] = p[k] + periods * period
    return unwrapped


@definition(np)
def interp(x: Array, xp: Array, fp: Array, left=None, right=None):
    if xp.size == 0:
        raise ValueError("array of sample points is empty")
    if xp.size != fp.size:
        raise ValueError("fp and xp are not of the same length")
    if np.ndim(x) == 0:
        found = between(x, xp, fp, left, right)
    else:
        found = np.empty(x.shape)
        for index in np.ndindex(x.shape):
            found[index] = between(x[index], xp, fp, left, right)
    return found


def between(x, xp, fp, left, right):
    j = place(xp, x, "right")
    n = xp.size
    if x != x:
        y = x
    elif j == 0:
        y = fp[0] if left is None else left
    elif j == n:
        y = fp[n - 1] if right is None or x == xp[n - 1] else right
    else:
        y = fp[j - 1] + (fp[j] - fp[j - 1]) / (xp[j] - xp[j - 1]) * (x - xp[j - 1])
    return y
