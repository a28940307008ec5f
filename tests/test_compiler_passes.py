"""The passes that stand in the place of Numba's: what they make is the same."""

import io
import re
import textwrap

import numba
import numpy as np
import pytest
from loop_programs import copies
from numba.core.compiler import run_frontend
from numba.core.ssa import reconstruct_ssa
from programs import PROGRAMS

import nbgrad as nb
from nbgrad.codegen import compile as compiling
from nbgrad.codegen.versions import versions


def irreducible(n, x):
    while True:
        if n > 3:
            y = n
            n -= 1
            continue
        if n == 1:
            break
        for k in range(n):
            if k > 2:
                x, y = y, x
            else:
                del x
                x = k
        n = x + 1 if n else 1
    return x, y  # perhaps never set


def adjoint(name):
    f, args = PROGRAMS[name]
    made = nb.adjoint(f)
    return made.compiled(*made._given(copies(args))).py_func


def text(function, how):
    made = run_frontend(function)
    how(made)
    written = io.StringIO()
    made.dump(written)
    return re.sub(r":\d+\)", ")", written.getvalue())  # but for line numbers


@pytest.mark.parametrize("name", ["adaptive", "kalman", "lattice_boltzmann", "march", "qr", "soft_edit"])
def test_versions_of_variables_in_adjoints_are_those_of_numba(name):
    function = adjoint(name)
    assert text(function, lambda made: versions(made.blocks)) == text(function, reconstruct_ssa)


@pytest.mark.parametrize("function", [irreducible, textwrap.TextWrapper._wrap_chunks])
def test_versions_of_variables_are_those_of_numba(function):
    assert text(function, lambda made: versions(made.blocks)) == text(function, reconstruct_ssa)


SOURCE = """
import numpy as np
from numba import njit

@njit(error_model="numpy")
def elements(a, i, j, u, s):
    b = a
    if s:
        b = a[::-1]
    n = 0
    for k in range(a.shape[0]):
        n += k
        b[k - 1, -1] = a[i, -2] + k
        b[-k, j] += 2
        a[u, 1] = True
    flags = np.zeros(3, np.bool_)
    flags[-1] = a[i, j] > 0
    small = np.zeros((2, 1, 3), np.float32)
    small[1, 0, -1] = 0.1
    small[-1, -1, 0] += a[u, j] * small[1, 0, 2]
    words = np.array([250, 3], np.uint8)
    words[0] = words[0] + words[1]
    return n, b[i, u], flags, small, words, words[1] // 2 - small[1, 0, 2] ** 2, u % 2 + n / 4
"""


def layouts(dtype):
    a = np.arange(12).reshape(3, 4).astype(dtype)
    return [a, np.asfortranarray(a), a[:, ::-1], np.arange(24).reshape(3, 8).astype(dtype)[::-1, ::2], a[:2], a[:1]]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "bool"])
def test_elements_are_those_of_numba(dtype):
    made = compiling.module("elements", SOURCE)
    known = numba.njit(error_model="numpy")(made.py_func)
    for given, again in zip(layouts(dtype), layouts(dtype), strict=True):
        for i, j, s in [(0, 0, False), (-1, -1, True), (0, -4, True)]:
            found, expected = made(given, i, j, np.uint8(0), s), known(again, i, j, np.uint8(0), s)
            np.testing.assert_array_equal(given, again)
            for x, y in zip(found, expected, strict=True):
                np.testing.assert_array_equal(x, y)
                assert np.asarray(x).dtype == np.asarray(y).dtype
