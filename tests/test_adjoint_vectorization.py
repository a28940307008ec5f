"""Vectorization: loops that call exp, sin and the like are vectorized, with the function's values and gradients."""

import ast
import math

import numpy as np
import pytest
from loop_programs import agrees, twice, uncompiled
from numba import njit

import nbgrad as nb

RNG = np.random.default_rng(29)


def normal(*shape):
    return RNG.normal(size=shape)


def calls(f, *args):
    """The names of the functions that the generated source calls, and of the modules it imports from."""
    nodes = list(ast.walk(ast.parse(nb.adjoint(f)._generated(args).text)))
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    return {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}, modules


def every(x, y):
    for i in range(x.size):
        a = math.exp(-x[i]) + np.sin(x[i]) * math.cos(y[i])
        b = np.tanh(a) + math.log(2.0 + x[i] * x[i]) + np.arctan(y[i]) + math.erf(x[i])
        y[i] = b * math.sqrt(1.0 + a * a) + np.tan(0.1 * y[i]) + np.log1p(x[i] ** 2) + math.sinh(0.1 * a)


def inverses(x, y):
    for i in range(x.size):
        p = 0.9 * math.tanh(x[i])
        a = math.asin(p) * math.acos(p) + math.acosh(2.5 + p) - math.atanh(p)
        y[i] = a * math.erfc(x[i]) + y[i]


def nested(x, y, steps):
    for t in range(steps):
        for i in range(1, x.shape[0]):
            for j in range(x.shape[1] - 1):
                y[i, j + 1] = np.exp(-y[i, j + 1]) * x[i - 1, j] + math.cos(x[i, j]) * t
    return y.sum()


def whole_arrays(x, w):
    return np.sum(np.tanh(x * w) + np.exp(-(x**2)))


def recurrence(x):
    for i in range(1, x.size):
        x[i] = math.exp(-x[i - 1]) + x[i]


def chosen(x, y):
    for i in range(x.size):
        y[i] = math.exp(x[i]) if x[i] > 0.0 else y[i]


def few_turns(x, y):
    for i in range(3):
        y[i] = math.exp(x[i]) * y[i]


def others(x, y):
    for i in range(x.size):
        y[i] = math.exp(x[i]) * math.lgamma(2.0 + y[i] ** 2)


def of_integers(x, k):
    for i in range(x.size):
        x[i] = x[i] * math.exp(k)


def names_of_its_own(x, y):
    exp = 0.5
    for i in range(x.size):
        y[i] = math.exp(x[i]) * exp


def columns(x, y):
    for i in range(x.shape[0]):
        y[i, 0] = math.exp(x[i, 0]) * y[i, 0]


PACKED = [
    *((every, (normal(n), normal(n))) for n in (0, 1, 7)),
    (every, (normal(14)[::-2], normal(7))),
    (nested, (normal(3, 5), normal(3, 5), 2)),
    (nested, (normal(1, 1), normal(1, 1), 2)),
    (whole_arrays, (normal(6), normal(6))),
    (names_of_its_own, (normal(5), normal(5))),
    (inverses, (normal(7), normal(7))),
]
NOT = [
    (recurrence, (normal(5),)),
    (chosen, (normal(5), normal(5))),
    (few_turns, (normal(3), normal(3))),
    (others, (normal(5), normal(5))),
    (of_integers, (normal(5), 2)),
    (columns, (normal(5, 2), normal(5, 2))),
]


@pytest.mark.parametrize("f, args", [*PACKED, *NOT], ids=lambda v: getattr(v, "__name__", ""))
def test_gradients(f, args):
    with uncompiled():
        agrees(f, args)


@pytest.mark.parametrize("f, args", [PACKED[2], PACKED[4]])
def test_second_order(f, args):
    with uncompiled(shuffle=False):
        twice(f, args)


def test_which_loops():
    called, modules = calls(every, *PACKED[2][1])
    assert called >= {"exp", "sin", "cos"} and "nbgrad.vmath.exponential" in modules
    assert not called & {"math.exp", "np.sin", "math.cos"}  # nor in the derivative of the sine
    assert "math.cos" not in calls(nested, *PACKED[4][1])[0]


@pytest.mark.parametrize("f, args", NOT, ids=lambda v: getattr(v, "__name__", ""))
def test_which_not(f, args):
    assert "nbgrad.vmath.exponential" not in calls(f, *args)[1]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_compiled_values_are_those_of_the_function(dtype):
    x, y = normal(2, 1001).astype(dtype)
    expected, found, tangent = y.copy(), y.copy(), y.copy()
    njit(error_model="numpy")(every)(x, expected)
    pull = nb.adjoint(every).vjp(x, found)
    nb.tangent(every).jvp((x, tangent), (np.ones_like(x), np.ones_like(y)))
    tolerance = 20 * np.finfo(dtype).eps
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    for gradient in pull((np.ones_like(y),)):
        assert gradient.dtype == dtype and np.isfinite(gradient).all()


def test_compiled():
    agrees(*PACKED[2])
    agrees(*PACKED[4])
