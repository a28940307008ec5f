"""Lists of lists: tables that are written by two indices, displays that are only read, and lists that are handed on."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from random_loops import function

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.3, 0.9, 1.2, 0.7])
C = 0.7


def alignment(x, c):
    n, m = len(x), 3
    t = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            s = np.exp(-((x[i - 1] - c * j) ** 2))
            t[i][j] = max(t[i - 1][j - 1] + s, t[i - 1][j], t[i][j - 1])
    return t[n][m] / len(t) + t[-1][1] * len(t[0])


def masked(x, c):
    d = [[-np.inf for _ in range(3)] for _ in range(4)]
    for i in range(4):
        for j in range(3):
            d[i][j] = x[i] * j * c
    d[0][0] += 2
    return d[3][2] + d[0][0]


def products(x, c):
    a = [[1, 2], [3, 4]]
    b = [[c, x[0]], [x[1], 1]]
    out = [[0.0, 0.0], [0.0, 0.0]]
    for i in range(2):
        for j in range(2):
            for k in range(2):
                out[i][j] += a[i][k] * b[k][j]
    return out[0][1] + out[1][0] * c


def rotation(x, c):
    a = [[np.cos(c), -np.sin(c)], [np.sin(c), x[0]]]
    s = 0.0
    for i in range(2):
        for j in range(2):
            s += a[i][j] * x[j]
    return s + a[1][0] + np.linalg.det(a) + len(a[0])


def handed_on(x, c):
    old = [v * 1.0 for v in x]
    for _ in range(3):
        new = []
        for i in range(len(old) - 1):
            new.append(old[i] * old[i + 1] + c)
        old = new
    return sum(old)


def filtered(x, c):
    q = [v for v in x]
    q.append(c)
    for k in range(2):
        q = [v * c for v in q if v > 0.2]
        q.append(x[k])
    return sum(q) * len(q)


def gaussian(t, a, mu, s):
    return a * np.exp(-(((t - mu) / s) ** 2))


def rows_as_arguments(x, c):
    peaks = np.array([[1.0, c, 0.5], [x[0], 1.0, 2.0]])
    return sum(gaussian(0.3, *p) for p in peaks) + gaussian(*x[:4])


def dot_of_three(a, b, c):
    return (a - b) @ (c - b)


def rows_of_a_matrix_as_arguments(x, c):
    xyz = np.outer(x, [1.0, c, 2.0])
    return dot_of_three(*xyz[0:3]) + dot_of_three(*xyz[1:4])


@pytest.mark.parametrize(
    "f",
    [alignment, masked, products, rotation, handed_on, filtered, rows_as_arguments, rows_of_a_matrix_as_arguments],
    ids=lambda f: f.__name__,
)
def test_agrees(f):
    with uncompiled():
        agrees(f, (X, C))


def test_a_vector_of_another_length_is_no_list_of_arguments():
    def f(x, c):
        return gaussian(*x) * c

    assert nb.adjoint(f).value_and_grad(X, C)[0] == f(X, C)
    with pytest.raises(ValueError, match="f"):
        nb.adjoint(f).value_and_grad(X[:3], C)


TWO_NAMES = """
def f(x, c):
    old = []
    for v in x:
        old.append(v)
    for _ in range(2):
        new = []
        for v in old:
            new.append(v * c)
        old = new
        {changed}.append(2.0)
    return sum(old)
"""


def test_lists_with_two_names():
    with uncompiled():
        agrees(function(TWO_NAMES.format(changed="old")), (X, C))


def test_lists_with_two_names_are_refused_where_it_matters():
    with pytest.raises(TraceError, match="a list that changes in 'old = new'"):
        nb.adjoint(function(TWO_NAMES.format(changed="new"))).value_and_grad(X, C)


CALLS = [
    "np.sort(q)[1]", "np.median(q)", "np.argsort(q)[0] * c", "np.partition(q, 1)[1]", "np.roll(q, 1)[0]",
    "np.flip(q)[0]", "np.nanmax(q)", "np.average(q, weights=[1, 2, 1])", "np.count_nonzero(q) * c",
    "np.cov([[1.0, 2, c], q])[0, 1]", "np.corrcoef(q, [1.0, 2.0, 4.0])[0, 1]", "np.kron(q, [1.0, 2.0]).sum()",
    "np.histogram(q, bins=[0, 1, 2])[0][0] * c", "np.linalg.det([[c, 1.0], [2.0, q[0]]])",
    "np.linalg.solve([[c, 1.0], [2.0, 5.0]], [1.0, q[0]])[0]", "np.linalg.inv([[c, 1.0], [2.0, 5.0]])[0, 0]",
    "np.quantile(q, [0.1, 0.5])[1]", "np.bincount([0, 1, 1])[1] * c", "np.tril([[c, 1.0], [2.0, 3.0]])[0, 0]",
    "np.linalg.eigh([[c, 0.5], [0.5, 2.0]])[0][0]", "np.linalg.cholesky([[2.0, c], [c, 2.0]])[1, 0]",
    "np.pad(q, 1)[1]", "np.isclose(q, c).sum() * c", "np.nonzero(q)[0][1] * c", "np.einsum('i,i->', q, q)",
    "np.linalg.lstsq([[1.0, c], [2.0, 1.0], [0.0, 1.0]], q)[0][0]", "np.trace([[c, 1.0], [2.0, q[0]]])",
    "np.squeeze([q])[1]", "np.ravel([q, q])[3]", "np.reshape(q, (3, 1))[2, 0]", "np.transpose([q, q])[1, 0]",
    "x[:3] @ np.diag([1, -1, -1]) @ x[:3]", "np.linalg.pinv([[2, 1], [1, 3]])[0] @ x[:2] + c",
    "np.linalg.svd([[2, 1], [1, 3]])[1][0] * c",
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_numpy_takes_lists(call):

    f = function(f"def f(x, c):\n    q = [x[0], c, x[1] * 1.3]\n    return {call}\n")
    with uncompiled():
        agrees(f, (X, C))


BRACKETS = [(0.5, 0.1), (1.0, 0.2), (float("inf"), 0.3)]
WEIGHTS = [0.5, 1.5, 2.5]
MATRIX = [[1.0, 2.0], [3.0, 4.0]]


def lists_of_the_module(x, c):
    t, low = 0.0, 0.0
    for up, rate in BRACKETS:
        t += rate * max(0.0, min(x[2], up) - low)
        low = up
    s = sum(w * c**k for k, w in enumerate(WEIGHTS)) + len(WEIGHTS) + WEIGHTS[-1] * x[0]
    return t + s + np.sum(np.array(WEIGHTS) * x[:3]) + MATRIX[1][0] * c + np.sum(np.array(MATRIX) @ x[:2])


def test_lists_of_the_module_are_constants():
    with uncompiled():
        agrees(lists_of_the_module, (X, C))


def test_they_are_as_when_adjoint_was_called():
    adj = nb.adjoint(lists_of_the_module)
    before = adj.value_and_grad(X, C)[0]
    WEIGHTS[1] = 7.0
    try:
        assert adj.value_and_grad(X, C)[0] == before
        assert nb.adjoint(lists_of_the_module).value_and_grad(X, C)[0] == pytest.approx(lists_of_the_module(X, C))
    finally:
        WEIGHTS[1] = 1.5


def test_functions_inside_of_functions_that_are_called():
    def speed(u):
        def ratio(w):
            return w[0] / w[1]

        return ratio(u) * np.sqrt(u[1])

    def f(m):
        return sum(speed(m[k]) * speed(m[k + 1]) for k in range(len(m) - 1))

    with uncompiled():
        agrees(f, (np.array([[0.3, 0.9], [1.2, 0.7], [0.4, 1.1]]),))


def test_fixed_point_iterations_that_leave_when_they_converge():
    def f(x, c):
        y = np.zeros(4)
        y[0] = c
        for _ in range(6):
            new = np.tanh(y * c + x)
            if np.max(np.abs(new - y)) < 1e-2:
                y = new
                break
            y = new
        return np.sum(y)

    with uncompiled():
        agrees(f, (X, C))


def test_an_axis_that_a_loop_counts():
    def f(m):
        s = -4 * m
        for axis in range(2):
            s += np.roll(m, 1, axis) + np.roll(m, -1, axis)
        return np.sum(s**2)

    with uncompiled():
        agrees(f, (np.arange(9.0).reshape(3, 3) ** 2,))
