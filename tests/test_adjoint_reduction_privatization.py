"""Reduction privatization: arrays to which all iterations of a parallel loop add get one copy per chunk."""

import math
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from loop_programs import agrees, copies, uncompiled

import nbgrad as nb

RNG = np.random.default_rng(31)


def loss(x, y, w, b):
    """The loss of a batch, in which each iteration reads all weights."""
    total = 0.0
    for i in numba.prange(x.shape[0]):
        for j in range(w.shape[0]):
            s = b[j]
            for k in range(w.shape[1]):
                s += w[j, k] * x[i, k]
            total += (math.tanh(s) - y[i, j]) ** 2
    return 0.1 * total


def orbits(p, noise, n):
    """Parameters at constant indices, in inner loops; iterations do not start at zero."""
    out = np.zeros(noise.size)
    for i in numba.prange(2, noise.size):
        x = p[3] * noise[i]
        for _ in range(n):
            x += p[0] * math.sin(x) - p[1] * x
        out[i] = x
    return out


def columns(table, v, low):
    """Reads some of the columns, and one row."""
    y = np.zeros((v.size, 2))
    for i in numba.prange(v.size):
        for k in range(low, table.shape[1] - 1):
            y[i, 0] += table[2, k + 1] * v[i]
            y[i, 1] += math.sin(v[i]) * table[0, k]
    return y


def scattered(w, index, x):
    y = np.zeros(x.size)
    for i in numba.prange(x.size):
        for _ in range(2):
            y[i] += w[index[i]] * x[i]
    return y


def triangle(w, x):
    y = np.zeros(x.size)
    for i in numba.prange(x.size):
        for j in range(w.shape[0]):
            for k in range(j):
                y[i] += w[j, k] * x[i]
    return y


def diagonal(w, x):
    y = np.zeros(x.size)
    for i in numba.prange(x.size):
        for j in range(w.shape[0]):
            y[i] += w[j, j] * x[i]
    return y


def read_there(w, x):
    """The cotangent of `w` is read in each iteration of the outer loop."""
    y = np.zeros(x.size)
    for _ in range(2):
        for j in range(w.size):
            w[j] = math.sin(w[j])
        for i in numba.prange(x.size):
            for j in range(w.size):
                y[i] += w[j] * x[i]
    return y


def arguments(n, m=3):
    normal = RNG.normal
    return {
        loss: (normal(size=(n, m)), normal(size=(n, 2)), normal(size=(2, m)), normal(size=2)),
        orbits: (np.array([0.3, 0.1, 5.0, 0.7, 9.0]), normal(size=n), m),
        columns: (normal(size=(4, m + 2)), normal(size=n), 1),
        read_there: (normal(size=m), normal(size=n)),
    }


@pytest.mark.parametrize("f", arguments(0), ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [0, 1, 3, 8, 67])
def test_gradients(f, n):
    with uncompiled():
        agrees(f, arguments(n)[f])


@pytest.mark.parametrize("f", arguments(0), ids=lambda f: f.__name__)
def test_no_weights(f):
    if f is not orbits:
        with uncompiled():
            agrees(f, arguments(5, 0)[f])


def how(f, *args):
    with uncompiled():
        (found,) = (said for loop, said in nb.adjoint(f).parallel(*args).items() if "in reverse" in loop)
    return found


def test_what_is_shared():
    assert how(loss, *arguments(9)[loss]) == "parallel, with parts of w_bar, b_bar"
    assert how(orbits, *arguments(9)[orbits]) == "parallel, with parts of p_bar"
    assert how(columns, *arguments(9)[columns]) == "parallel, with parts of table_bar"
    assert how(read_there, *arguments(9)[read_there]) == "parallel, with parts of w_bar"
    made = nb.adjoint(orbits)._generated(arguments(9)[orbits]).text
    assert "p_bar_parts = np.zeros((shares, min(4, p_bar.shape[0])), p_bar.dtype)" in made


def test_what_is_not():
    """Iterations that may access only a small part of an array, or more of it the later they are."""
    w, x = RNG.normal(size=(3, 3)), RNG.normal(size=5)
    assert how(scattered, w[0], np.array([0, 2, 1, 1, 0]), x).startswith("serial: ")
    assert how(triangle, w, x).startswith("serial: ")
    assert how(diagonal, w, x).startswith("serial: ")
    with uncompiled():
        agrees(scattered, (w[0], np.array([0, 2, 1, 1, 0]), x))
        agrees(triangle, (w, x))
        agrees(diagonal, (w, x))


def test_constants_beyond_the_end_are_not_met():
    def first(p, x, long):
        y = np.zeros(x.size)
        for i in numba.prange(x.size):
            for _ in range(2):
                y[i] += p[0] * x[i]
                if long:
                    y[i] += p[7] * x[i]
        return y

    with uncompiled():
        agrees(first, (np.ones(2), RNG.normal(size=6), False))
        agrees(first, (np.ones(8), RNG.normal(size=6), True))


def test_single_precision_and_other_layouts():
    x, y, w, b = arguments(33)[loss]
    with uncompiled():
        expected = nb.adjoint(loss).value_and_grad(x, y, w, b)[1]
        strided = [np.repeat(a, 2, axis=0)[::2] for a in (x, y, w, b)]
        single = [a.astype(np.float32) for a in (x, y, w, b)]
        for given, rtol in ((strided, 1e-13), (single, 1e-4)):
            for a, e in zip(nb.adjoint(loss).value_and_grad(*given)[1], expected, strict=True):
                np.testing.assert_allclose(a, e, rtol=rtol, atol=rtol)


def test_second_order():
    x, y, w, b = arguments(9)[loss]
    d = [RNG.normal(size=a.shape) for a in (x, y, w, b)]
    with uncompiled(shuffle=False):
        found = nb.adjoint(loss).hvp((x, y, w, b), tuple(d))
        h = 1e-6
        sides = [
            nb.adjoint(loss).value_and_grad(*(a + s * h * e for a, e in zip((x, y, w, b), d, strict=True)))[1]
            for s in (1, -1)
        ]
    for f, up, down in zip(found, *sides, strict=True):
        np.testing.assert_allclose(f, (up - down) / (2 * h), rtol=1e-6, atol=1e-7)


def bits():
    """The bits of the compiled gradient, with more iterations than chunks."""
    args = [np.random.default_rng(2).normal(size=s) for s in ((67, 5), (67, 4), (4, 5), (4,))]
    value, gradients = nb.adjoint(loss).value_and_grad(*copies(args))
    return value.hex() + "".join(g.tobytes().hex() for g in gradients)


def test_bits_do_not_depend_on_threads():
    run = [sys.executable, "-c", "import test_adjoint_reduction_privatization as t; print(t.bits())"]
    found = [
        subprocess.run(run, cwd=Path(__file__).parent, env={**os.environ, "NUMBA_NUM_THREADS": threads},
                       capture_output=True, text=True, check=True).stdout
        for threads in ("1", "3")
    ]  # fmt: skip
    assert found[0] == found[1] != ""
