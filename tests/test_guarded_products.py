"""Guarded products in generated code, ``g * partial if g != 0 else 0``: which become selects, and what they compute."""

import math
import textwrap

import numba
import numpy as np
import pytest
from loop_programs import agrees
from numba.core import ir
from numba.core.compiler import run_frontend

from nbgrad.backends.numba import compile as compiling
from nbgrad.backends.numba.guarded_products import select_guarded

FILE = "import math\nimport numpy as np\nfrom numba import njit\n\nSCALE = 3.0\n\n@njit(error_model='numpy')\n"


def function(body, result="y"):
    """A function of an array and numbers; `body` runs for each element g."""
    head = "def f(x, a, b, n):\n    y = 0.0\n    total = 0.0\n    for i in range(x.size):\n        g = x[i]\n"
    return FILE + head + textwrap.indent(body, "        ") + f"\n    return {result}\n"


def counts(text):
    """The selects that are made, and the branches that stay besides that of the loop."""
    names = {}
    exec(text.replace("@njit(error_model='numpy')", ""), names)
    made = run_frontend(names["f"])
    before = len(made.blocks)
    changed = select_guarded(made)
    calls = [
        s for block in made.blocks.values() for s in block.find_insts(ir.Assign)
        if isinstance(s.value, ir.Global) and s.value.name == "guarded"
    ]  # fmt: skip
    assert changed == bool(calls) and len(made.blocks) == before - 3 * len(calls)
    branches = sum(isinstance(block.terminator, ir.Branch) for block in made.blocks.values())
    return len(calls), branches - 1


SELECTED = {
    "y += g * (a + 1) if g != 0 else 0": 1,
    "y += g * SCALE / a if g != 0 else 0.0": 1,
    "y = (g * a if g != 0 else 0) + (g * b * (a > b) if g != 0 else 0) - (-g if g != 0 else 0)": 3,
    "p = 1 / g\ny += g * (p * p) if g != 0 else 0\ntotal += g * p if g != 0 else 0": 2,
    "h = g * b\ny += g * (h * a if h != 0 else 0) if g != 0 else 0": 2,
    "y = math.sin(g * a if g != 0 else 0)": 1,
    "while y < g * a:\n    h = a * g\n    y += h * h if h != 0 else 0\n    y += 1.0": 1,
}
STAYING = [
    "y += a * g if a != 0 else 0",  # the same in all iterations
    "y += g * x[n - 1] if g != 0 else 0",  # no element may be there
    "y += g * math.exp(a) if g != 0 else 0",  # takes long
    "y += g // b if g != 0 else 0",
    "y += g % b if g != 0 else 0",
    "y += g ** a if g != 0 else 0",
    "y += g * a if g != 1 else 0",
    "y += g * a if g == 0 else 0",
    "y += g * a if g > 0 else 0",
    "y += g * a if g != 0 else 1",
    "y += g * a if g != 0 else b",
    "y += (g, a)[0] if g != 0 else 0",
    "y += g * a if g != 0 and b else 0",
    "if g != 0:\n    y = a * b\nelse:\n    y = 0.0",
    "if g != 0:\n    y += a * b",
]


def ran(text, x, a, b, n):
    made = compiling.module("f", text)
    plain = numba.njit(error_model="numpy")(made.py_func)
    result = made(x.copy(), a, b, n)
    np.testing.assert_equal(result, plain(x.copy(), a, b, n))
    return result


@pytest.mark.parametrize("body", SELECTED)
def test_selected(body):
    text = function(body, "y, total")
    assert counts(text) == (SELECTED[body], 2 * body.count("while"))
    for a in (2.0, 0.0, math.inf, math.nan, 3):
        ran(text, np.array([1.0, 0.0, -2.0, math.inf, 0.5]), a, 0.7, 5)


@pytest.mark.parametrize("body", STAYING)
def test_staying(body):
    text = function(body)
    selected, branches = counts(text)
    assert selected == 0 and branches > 0
    ran(text, np.array([1.0, 0.0, -2.0, 0.5]), 2.0, 0.7, 4)


def test_elements_that_are_not_there_are_not_read():
    text = function("k = n * 1000000\ny += x[k] if k != 0 else 0")
    assert counts(text) == (0, 1)
    assert ran(text, np.ones(3), 1.0, 1.0, 0) == 0.0


def test_integers_and_floats():
    for zero, kind in (("0", int), ("0.0", float)):
        text = function(f"k = n * i\ny = k * n if k != 0 else {zero}")
        assert counts(text) == (1, 0)
        result = ran(text, np.ones(3), 1.0, 1.0, 2)
        assert result == 8 and isinstance(result, kind | float)


def upwind(u, new, c, nu):
    for i in range(1, u.size - 1):
        a = u[i]
        slope = (a - u[i - 1] if a > 0.0 else u[i + 1] - a) / c
        new[i] = a - nu / c * a * slope + (u[i + 1] - 2.0 * a + u[i - 1]) / (c * c)
    return np.sum(new * new)


def test_loops_with_sums_of_guarded_products():
    agrees(upwind, (np.sin(np.arange(9.0)) + 0.1, np.zeros(9), 1.3, 0.2))
