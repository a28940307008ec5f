"""Shapes, products along axes, and methods of NumPy's functions of two numbers in loops: ``np.add.outer(x, y)``."""

import numpy as np
import pytest
from loop_programs import agrees, twice, uncompiled
from programs.data import normal

import nbgrad as nb
from nbgrad.errors import TraceError

X, Y, A, B, C = normal(5), normal(3), normal(4, 3), normal(3, 4), normal(2, 3, 4)
TIES = np.array([1.0, 3.0, 2.0, 3.0, 5.0])


def squeezed(x, a):
    y = np.squeeze(x[None, :, None]) * x
    z = a[:, None].squeeze(axis=1) * np.squeeze(a[1:2], axis=0)
    w = np.squeeze(np.sum(a, axis=0, keepdims=True)) * np.squeeze(a[None, :, None], (0, -2))[1]
    one = np.squeeze(x[:, None, None][2]) * np.squeeze(x[1:2], 0)
    return y, z, w, one


def written(x, a):
    """It shares the elements."""
    row = np.squeeze(a[None, 1])
    row[0] = x[0] * x[1]
    np.atleast_2d(x)[0, 1] = x[2] ** 2
    return np.sum(a[1] ** 2) * x


def at_least(x, a, s):
    one, two = np.atleast_1d(s * s, x)
    three = np.atleast_3d(x)[0, :, 0] + np.atleast_3d(a)[1, :, 0][0] + np.atleast_3d(s)[0, 0, 0]
    return one * np.atleast_1d(s), two, np.atleast_2d(x) * x, np.atleast_2d(s) * a, three * np.atleast_2d(a)[0, 1]


def tensor_products(a, b, c):
    return (np.tensordot(a, b, 1), np.tensordot(a, b.T), np.tensordot(c, b, axes=([1, 2], [0, 1])),
            np.tensordot(a, c, axes=(1, 1)), np.tensordot(c, c, axes=((0, -1), (0, 2))),
            np.tensordot(a[0], b[:, 0], 0), np.tensordot(c, c, axes=3), np.tensordot(a[0], b, axes=[0, 0]))  # fmt: skip


def diagonals(a, b, n):
    i, j = np.diag_indices(3)
    d = a[i, j] * b[np.diag_indices(3)]
    b[np.diag_indices(n)] = 2.0 * d
    return d, b * b, np.sum(a[np.triu_indices(3)] ** 2)


def running(x, a):
    y = np.maximum.accumulate(x) * x + np.minimum.accumulate(x * x)[::-1]
    z = np.maximum.accumulate(a, axis=1) * np.minimum.accumulate(a[::-1]) + np.maximum.accumulate(a, 0)
    return y, z, np.add.accumulate(x * x), np.multiply.accumulate(x), np.add.accumulate(a) * np.cumsum(a, axis=0)


def reduced(x, a):
    s = np.add.reduce(x * x) * np.multiply.reduce(x) + np.maximum.reduce(x) * np.minimum.reduce(x)
    t = np.add.reduce(a) * np.maximum.reduce(a, axis=0) + np.multiply.reduce(a, 0)
    flags = np.logical_and.reduce(a > -5.0), np.logical_or.reduce(x > 0)
    u = np.add.reduce(a, axis=1, keepdims=True) * np.minimum.reduce(a, axis=None) * flags[0][0] * flags[1]
    return s, t, u * a


def outer(x, y, a):
    z = np.add.outer(x, y) * np.subtract.outer(x, y) / np.add.outer(np.abs(x), np.exp(y))
    w = np.multiply.outer(a, y) + np.maximum.outer(a[:, 0], y)[1] * np.hypot.outer(x, a)[0, 0]
    return z, w, np.multiply.outer(y[0], x) * np.power.outer(np.abs(x), 2.5), np.less.outer(x, y) * y


ROWS = {
    squeezed: (X, A),
    written: (X, A),
    at_least: (X, A, 0.7),
    tensor_products: (A, B, C),
    diagonals: (A, B, 3),
    running: (X, A),
    reduced: (X, A),
    outer: (X, Y, A),
}


@pytest.mark.parametrize("f", ROWS, ids=lambda f: f.__name__)
def test_functions(f):
    with uncompiled():
        agrees(f, ROWS[f])
        twice(f, ROWS[f])


@pytest.mark.parametrize("f", [running, outer], ids=lambda f: f.__name__)
def test_compiled(f):
    agrees(f, ROWS[f])


def test_running_extrema_as_numpy():
    """Ties, NaN, integers, flags, infinities and empty arrays; the derivative goes to the place of the extremum."""

    def f(x):
        return np.maximum.accumulate(x), np.minimum.accumulate(x), np.maximum.accumulate(x[::-1])

    hard = np.array([-np.inf, 2.0, np.nan, 5.0, np.nan]), np.array([-3, -1, -2]), np.array([False, True, False])
    with uncompiled():
        adj = nb.adjoint(f)
        for x in (TIES, *hard, -TIES, TIES[:1], TIES[:0]):
            for found, expected in zip(adj.vjp(x).value, f(x), strict=True):
                np.testing.assert_array_equal(found, expected)
                assert found.dtype == expected.dtype
        gradient = adj.vjp(TIES)((np.array([1.0, 10.0, 100.0, 1000.0, 10000.0]), None, None))[0]
        np.testing.assert_array_equal(gradient, [1, 1110, 0, 0, 10000])  # the first of equal ones, as of np.max


def test_axes_of_arguments_that_have_length_one():
    """Code of its own for them; an axis that is only known while it runs has to be given."""

    def f(a, b):
        return np.sum(np.squeeze(a) * b)

    def within(a, n):
        return np.sum(np.squeeze(a[:n]))

    def given(a, n):
        return np.sum(np.squeeze(a[:n], axis=0) ** 2)

    with uncompiled():
        for shape in ((1, 4), (4, 1), (4,), (1, 4, 1)):
            value, (a, b) = nb.adjoint(f).value_and_grad(np.arange(4.0).reshape(shape), X[:4])
            assert value == pytest.approx(np.arange(4) @ X[:4])
            np.testing.assert_allclose(a, X[:4].reshape(shape))
            np.testing.assert_allclose(b, np.arange(4))
        agrees(f, (normal(1, 4), X[:4]))
        twice(f, (normal(1, 4), X[:4]))
        agrees(within, (A, 2))
        agrees(given, (A, 1))
        with pytest.raises(ValueError, match=r"an axis of length 1 in 'np.squeeze\(a\[:n\]\)' .*: give axis="):
            nb.adjoint(within).value_and_grad(A, 1)
        with pytest.raises(ValueError, match=r"axis 0 in .* has not length 1"):
            nb.adjoint(given).value_and_grad(A, 2)


def test_lengths_of_products_and_places():
    def f(a, b):
        return np.sum(np.tensordot(a, b, axes=([0], [1])))

    def g(a, n):
        return np.sum(a[np.diag_indices(n)])

    with uncompiled():
        agrees(f, (A, B))
        agrees(g, (A, 3))
        with pytest.raises(ValueError, match="different lengths"):
            nb.adjoint(f).value_and_grad(A, A)
        with pytest.raises(ValueError, match="different lengths"):
            nb.adjoint(f).value_and_grad(A, normal(3, 1))
        with pytest.raises(IndexError, match="out of"):
            nb.adjoint(g).value_and_grad(A, 4)


def _refused():
    return {
        "axes of the": lambda a: np.squeeze(a, axis=2),
        "an array, and perhaps an axis": lambda a: np.squeeze(a, 0, axis=1),
        "as many axes of both": lambda a: np.tensordot(a, a, axes=([0, 1], [0])),
        "a number, or two lists of numbers": lambda a: np.tensordot(a, a, axes=([a[0, 0]], [1])),
        "as many axes of both, each once": lambda a: np.tensordot(a, a, 3),
        "two arrays, and perhaps axes": lambda a: np.tensordot(a, a, 1, axes=1),
        "of this many axes: give 1, 2 or 3": lambda a: a[np.diag_indices(2, 4)],
        "where in np.add.reduce": lambda a: np.add.reduce(a, where=a > 0),
        "give constants, each axis once": lambda a: np.maximum.accumulate(a, axis=2),
        "np.subtract.reduce has no derivative here": lambda a: np.subtract.reduce(a),
        "np.hypot.accumulate has no derivative here": lambda a: np.hypot.accumulate(a),
        "of a number": lambda a: np.add.reduce(a[0, 0]),
    }


@pytest.mark.parametrize("message", _refused())
def test_refused(message):
    with pytest.raises(TraceError, match=message.replace("where in", "where= in").replace("(", r"\(")):
        nb.adjoint(_refused()[message]).vjp(A)


def _unused_elements(x, k):
    y = np.full(x.size - k, x[0])
    return y.sum() + x[0]


def _matrix(x, k):
    y = np.zeros((x.size - k, 3))
    for i in range(y.shape[0]):
        for j in range(3):
            y[i, j] = x[i] * j
    return np.sum(y) + np.sum(x)


def _identity(x, k):
    return np.sum(np.eye(x.size - k)) * x[0]


def _reshaped_in_try(x, k):
    try:
        return np.sum(x.reshape(-1)) * k
    except ValueError:
        return -1.0 * k


def test_lengths_that_are_left_open_are_not_negative():
    x = np.array([1.0, 2.0])
    assert nb.adjoint(_reshaped_in_try).value_and_grad(x, 2)[0] == 6.0


@pytest.mark.parametrize("function", [_unused_elements, _matrix, _identity])
def test_lengths_that_are_negative(function):
    x = np.array([1.0, 2.0])
    adjoint = nb.adjoint(function)
    for k in (0, 1, 2):
        assert adjoint.value_and_grad(x, k)[0] == function(x, k)
    for call in (
        lambda: adjoint.value_and_grad(x, 3),
        lambda: nb.tangent(function).jvp((x, 3), (x, None)),
        lambda: function(x, 3),
    ):
        with pytest.raises(ValueError, match="negative dimensions are not allowed"):
            call()
