"""Functions of ``numba.vectorize`` on arrays, in the subset: loops around the function of numbers."""

from __future__ import annotations

import numpy as np

from .function_table import MODULES, refuse_call

__all__ = ["LOOPS"]

MODULES.add(__name__)  # errors show the line of the call


def of_one(f, x):
    z = np.empty_like(1.0 * x)
    for index in np.ndindex(z.shape):
        z[index] = f(x[index])
    return z


def of_two(f, x, y):
    z = np.empty_like(1.0 * (x + y))
    fits(x, z)
    fits(y, z)
    for index in np.ndindex(z.shape):
        z[index] = f(at(x, index), at(y, index))
    return z


def of_three(f, x, y, w):
    z = np.empty_like(1.0 * (x + y + w))
    fits(x, z)
    fits(y, z)
    fits(w, z)
    for index in np.ndindex(z.shape):
        z[index] = f(at(x, index), at(y, index), at(w, index))
    return z


def of_four(f, x, y, w, v):
    z = np.empty_like(1.0 * (x + y + w + v))
    fits(x, z)
    fits(y, z)
    fits(w, z)
    fits(v, z)
    for index in np.ndindex(z.shape):
        z[index] = f(at(x, index), at(y, index), at(w, index), at(v, index))
    return z


def of_five(f, x, y, w, v, u):
    z = np.empty_like(1.0 * (x + y + w + v + u))
    fits(x, z)
    fits(y, z)
    fits(w, z)
    fits(v, z)
    fits(u, z)
    for index in np.ndindex(z.shape):
        z[index] = f(at(x, index), at(y, index), at(w, index), at(v, index), at(u, index))
    return z


def fits(x, z):
    if np.ndim(x) != 0:
        if np.ndim(x) != np.ndim(z):
            refuse_call("arrays with different numbers of axes in a function of numba.vectorize: write a loop")
        if x.size != z.size:
            raise ValueError("arrays of different shapes in a function of numba.vectorize")


def at(x, index):
    return x if np.ndim(x) == 0 else x[index]


#: By the number of arguments less one.
LOOPS = of_one, of_two, of_three, of_four, of_five
