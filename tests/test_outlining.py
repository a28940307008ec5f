"""Outlining: parallel loops are compiled as functions of their own, and run every iteration once."""

import ast
import inspect

import numpy as np

from nbgrad.backends.numba import compile as compiling
from nbgrad.backends.numba.outlining import outline_parallel_loops

FILE = """import numpy as np
from numba import njit, prange


@njit(nogil=True, error_model='numpy', parallel=dict.fromkeys(['fusion'], False), fastmath={'nsz'})
def f(x, y, first, n):
    total = 0.0
    for k in range(2):
        # for i in numba.prange(1, n)
        for i in prange(1, n):
            # a comment
            v = x[i] * first
            for j in range(3):
                y[i] += v * k + j
    for k in prange(x.size):
        y[k] += total
    return total


@njit(nogil=True, error_model='numpy')
def g(x):
    return x
"""


def test_the_pieces():
    made = outline_parallel_loops(FILE)
    assert isinstance(made, ast.Module)
    begun = {n.name: n for n in made.body if isinstance(n, ast.FunctionDef)}
    assert list(begun) == ["f", "g", "f_trips10", "f_trips15"]
    assert [n.lineno for n in begun.values()] == [6, 21, 10, 15]
    turns = begun["f_trips10"]
    assert turns.body[0].body[0].lineno == 12
    assert [a.arg for a in turns.args.args] == ["first1", "last", "first", "k", "x", "y"]
    assert ast.unparse(turns.decorator_list[0]) == "njit(nogil=True, error_model='numpy', fastmath={'nsz'})"
    assert "range(max(first1, 1), last)" in ast.unparse(turns)
    plain = FILE.replace("prange", "range")
    assert outline_parallel_loops(plain) == plain


def test_every_turn_runs_once():
    def serial(text):
        text = text.replace("import njit, prange", "import njit").replace("prange(", "range(")
        return "\n".join(line for line in text.split("\n") if not line.startswith("@"))

    for n in (0, 1, 2, 64, 65, 66, 200):
        outcomes = []
        for text in (FILE, ast.unparse(outline_parallel_loops(FILE))):
            space: dict = {}
            exec(serial(text), space)
            y = np.zeros(n)
            space["f"](np.arange(n) + 1.0, y, 0.5, n)
            outcomes.append(y)
        np.testing.assert_array_equal(*outcomes)


def test_sources_are_as_they_were_written():
    """What is read of a function, for derivatives of it, is the text without pieces."""
    made = compiling.module("f", FILE)
    assert inspect.getsource(made.py_func) in FILE
    other = made.py_func.__globals__["g"]
    assert inspect.getsource(other.py_func).startswith("@njit(nogil=True, error_model='numpy')\ndef g(x):")
