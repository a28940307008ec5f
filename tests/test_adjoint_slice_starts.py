"""Slices that begin at minima, maxima and other expressions, read and written beside one another."""

import itertools

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from random_loops import function

STARTS = [
    "max(0, i - 2)", "max(i - 2, 0)", "min(2, i)", "min(i, 2)", "max(1, i - 1)", "max(0, i - 2, i - 3)", "abs(-1)",
    "max(2, 1)", "i // 2", "i - i // 2", "i",
]  # fmt: skip

#: Statements that set `t`, with the slice that begins at START.
FORMS = [
    "y = x[START:i + 1] - 0.5; t = np.sum(y * y)",
    "y = x[START:i + 1].copy(); t = np.sum(y * y)",
    "t = np.sum(x[START:i + 1] * x[START:i + 1] - 0.5)",
    "m = x.reshape(1, -1); t = np.sum(np.sin(m[:, START:i + 1] * x[START:i + 1]))",
    "z = x.copy(); z[START:] = x[START:] * 2.0; t = np.sum(z * x)",
    "z = x.copy(); z[:x.size - (START)] = x[START:] * x[START:]; t = np.sum(z * x)",
    "t = np.sum(x[START::2] * x[START::2])",
    "t = np.sum(x[START::-1] ** 2 * x[START::-1])",
    "z = x.copy(); z[START::-1] = x[:START + 1]; t = np.sum(z * x)",
    "v = x[START:]; w = v[min(1, i):] - 0.5; t = np.sum(w * w)",
    "z = np.zeros(3); n = max(min(3, x.size - (START)), 0); z[:n] = x[START:][:n]; t = np.sum(z * z)",
]


@pytest.mark.parametrize("start, form", list(itertools.product(STARTS, FORMS)))
def test_agrees(start, form):
    """A start was taken for the constant in it: ``x[max(0, i - 2):]`` was copied from ``x[0:]``."""
    body = form.replace("START", start)
    f = function(
        f"def f(x):\n    s = 0.0\n    for i in range(x.size):\n        {body}\n        s += t * (i + 1)\n    return s\n"
    )
    with uncompiled():
        agrees(f, (np.random.default_rng(3).normal(size=6),))


def rolling(x, n):
    out = np.zeros(x.size)
    for i in range(x.size):
        window = x[max(0, i + 1 - n) : i + 1] - 0.5
        out[i] = np.mean(window) / (np.std(window) + 1.0)
    return out


def test_compiled():
    agrees(rolling, (np.random.default_rng(3).normal(size=8), 3))


def clipped(x, y):
    """Both slices are of two elements, where one begins beyond the end."""
    z = np.zeros(2)
    z[:] = x[3::-1] - y[1::-1]
    return np.sum(z * z * x)


def test_starts_beyond_the_end():
    with uncompiled():
        agrees(clipped, (np.array([0.3, 0.7]), np.array([0.5, 1.1])))
