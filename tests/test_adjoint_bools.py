"""Arrays of bools: operators, products, joins and reductions of them are NumPy's, whatever made the arrays."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from random_loops import function

import nbgrad as nb

X = np.array([0.3, -0.5, 0.7, -0.2, 0.9])
Y = np.array([-0.3, 0.5, 0.6, 0.2, -0.1])
Z = np.arange(9.0).reshape(3, 3) * 0.3 - 1.05
B, C, M = X > 0, Y > 0.1, Z > 0

EXPRESSIONS = [
    # made without a name
    "z[~np.eye(3, dtype=bool)] * 2.0", "np.where(~np.eye(3, dtype=bool), z, 0.0)", "~np.ones((3, 3), dtype=bool) * z",
    "(~np.eye(3, dtype=np.bool_)) * z", "np.sum(~np.zeros(5, dtype=bool)) * x", "x[np.ones(5, dtype=bool) & b] ** 2",
    "~(np.zeros(5, dtype=bool) | b) * x", "x * (np.zeros(5, dtype=bool) + np.ones(5, dtype=bool) + b)",
    "~np.zeros_like(b) * x", "~np.full(5, True) * x",
    # differences and functions that are operators
    "np.sum(np.diff(x > 0)) * x", "x[1:][np.diff(b)] ** 2", "~np.outer(b, c) * x", "~np.invert(b) * x",
    "np.outer(b, c) * x", "np.add.outer(b, c) * x", "np.logical_and(x, x > 0) * x", "np.logical_or(b, x) * x",
    # products
    "((x > 0) @ (y > 0)) * x", "np.dot(x > 0, y > 0) * x", "np.vdot(b, c) * x", "np.inner(b, c) * x", "(m @ m) * z",
    "(m @ m[0]) * z", "np.einsum('ij,jk->ik', m, m) * z", "np.tensordot(m, m, 1) * z", "np.convolve(b, c)[:5] * x",
    "np.correlate(b, c)[0] * x",
    # joined
    "(np.concatenate((b[:2], c[2:])) + b) * x", "(np.append(b[:2], c[2:]) + b) * x", "(np.stack((b, c)) + b) * x",
    "(np.vstack((b, c)) + b) * x", "(np.array([b, c]) + b) * x", "(np.array([v > 0 for v in x]) + b) * x",
    # reduced along an axis
    "(np.any(m, axis=1) + m[0]) * z", "(np.all(m, axis=0) + m[0]) * z", "(np.max(m, axis=0) + m[0]) * z",
    "(np.maximum.accumulate(m, axis=1) + m) * z", "np.logical_or.reduce(np.stack((b, c))) * x",
    # as indices and factors
    "z[np.any(m, axis=1)] * 2.0", "z[np.arange(3), np.argmax(z, axis=1)] ** 2",
    "z[np.arange(3), np.count_nonzero(m, axis=1) - 1] ** 2", "z[np.arange(3), np.sum(m, axis=1) - 1] ** 2",
    "x[np.cumsum(b) - 1] ** 2", "x[np.concatenate((b[:2], c[2:]))] ** 2", "np.cumsum(m, axis=1) * z",
    "np.bincount(b, weights=x) ** 2", "np.mean(b) * x", "(b + b).astype(np.float64) * x", "np.sum(b + b) * x",
    "np.where(b + b, x, 0.0)", "(1.0 - b) * x", "(2 * b - 1) * x",
]  # fmt: skip


@pytest.mark.parametrize("statement", ["return {}", "r = {}\n    return r"])
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_values_and_derivatives(expression, statement):
    f = function(f"def f(x, y, z, b, c, m):\n    {statement.format(expression)}\n")
    with uncompiled():
        agrees(f, (X, Y, Z, B, C, M))


@pytest.mark.parametrize(
    "expression", ["~np.eye(3, dtype=bool)", "np.diff(b)", "b @ c > 0", "np.concatenate((b, c))", "np.any(m, axis=1)"]
)
def test_results_that_are_bools(expression):
    f = function(f"def f(b, c, m):\n    return {expression}\n")
    with uncompiled():
        value = nb.adjoint(f).vjp(B, C, M).value
    expected = eval(expression, {"np": np, "b": B, "c": C, "m": M})
    assert np.asarray(value).dtype == np.asarray(expected).dtype and np.array_equal(value, expected)


def added_to_itself(x, n):
    m = np.array([v > 0.0 for v in x])
    for _ in range(n):
        m = m + m
    return m * x


def counted(x, n):
    m = np.array([k for k in range(5)])
    for _ in range(n):
        m = m + m
    return m * x


def filled(x, n):
    m = np.array([v > 0.0 for v in x])
    k = np.array([i for i in range(5)])
    for _ in range(n):
        k = k + m * 1
        m = m * (k > 2)
    return m * x + k * k


@pytest.mark.parametrize("f", [added_to_itself, counted, filled])
def test_where_inference_alone_tells(f):
    """Of an array only its elements tell what it holds, after operators on it were lowered."""
    with uncompiled():
        agrees(f, (X, 2))


SINGLE = X.astype(np.float32)
MATRIX = np.arange(9, dtype=np.float32).reshape(3, 3) + 5 * np.eye(3, dtype=np.float32)
INTEGERS = np.arange(1, 6)
DTYPES = [
    "x.astype(np.float64) * 0.1", "np.ones(5) * x", "np.arange(5) * x", "np.linspace(0, 1, 5) * x", "x * i",
    "x + (i > 2)",
    "np.concatenate((x, np.zeros(2)))", "np.where(x > 0, x, np.zeros(5))", "np.cov(x, x)", "x * 2.5", "x / 3",
    "np.convolve(x, x)", "np.correlate(x, x)", "np.gradient(x)", "np.median(z, axis=0)", "np.unwrap(x)",
    "np.polyval(x, x)",
    "np.trapezoid(z, axis=0)", "np.percentile(x, np.array([10.0, 20.0]))", "np.kron(z, z)", "np.convolve(i, i)",
    "np.correlate(i, i)", "np.polyval(i, i)", "np.polymul(i, i)", "np.full(5, 2.0, np.float32) * x",
    "np.zeros_like(x) + x", "np.polyfit(x, x * x, 1) * np.ones(2)", "np.cumsum(x)", "z @ x[:3]", "np.outer(x, x)",
    "np.pad(x, 1, mode='edge')",
]  # fmt: skip


@pytest.mark.parametrize("expression", DTYPES)
def test_dtypes_of_results(expression):
    f = function(f"def f(x, z, i):\n    return {expression}\n")
    with uncompiled():
        value = nb.adjoint(f).vjp(SINGLE, MATRIX, INTEGERS).value
    expected = eval(expression, {"np": np, "x": SINGLE, "z": MATRIX, "i": INTEGERS})
    assert value.dtype == expected.dtype
    np.testing.assert_allclose(value, expected, rtol=1e-4)


def added(p, q):
    return p + q


def product_of_unnamed_kinds(x, n):
    m = np.array([v > 0.0 for v in x])
    return (m @ m) * x


def sums_beside_one_another(x, n):
    m = np.array([v > 0.0 for v in x])
    k = np.array([int(3 * v) for v in x])
    return (m + m) * x + ((m + m) + k) * x[0]


def called_for_bools_and_numbers(x, n):
    m = np.array([v > 0.0 for v in x])
    w = np.array([2.0 * v for v in x])
    return added(m, m) * x + added(w, w)


@pytest.mark.parametrize("f", [product_of_unnamed_kinds, sums_beside_one_another, called_for_bools_and_numbers])
def test_what_inference_tells_of_one_place_alone(f):
    with uncompiled():
        agrees(f, (X, 2))
