"""Names that are first bound to a part or a transpose of a new array, and then, in a loop, to other arrays."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.3, 0.5, 0.7])


def transposed(x):
    return np.outer(x, x**2).T


def part(x):
    y = x * 2
    return y[:2]


def pair(x):
    return transposed(x), x * 1.0


def in_a_loop(x):
    h = transposed(x)
    for _ in range(3):
        h = h * x
    return np.sum(h[0])


def in_a_branch(x):
    h = transposed(x)
    if x[0] > 0:
        h = h * x
    return np.sum(h[0])


def in_nested_loops(x):
    t = 0.0
    for k in range(2):
        h = transposed(x)
        for _ in range(2):
            h = h * x + k
        t += np.sum(h[0])
    return t


def written(x):
    h = transposed(x)
    for _ in range(2):
        h *= x
        h = h + x
    return np.sum(h[0])


def of_several(x):
    h, k = pair(x)
    g, s = transposed(x), part(x)
    for _ in range(2):
        h, k = h * x, k * 2
        g = g @ h
        s = s * x[1:]
    return np.sum(h[0] * k) + np.sum(g[1]) * s[0]


def items_of_tuples(x):
    p = (transposed(x), x)
    hs = [transposed(x)]
    for _ in range(2):
        p = (p[0] * x, p[1] * 2)
        hs[0] = hs[0] * x
    return np.sum(p[0][0] * hs[0][1])


def kept_axes(x):
    m = np.outer(x, x) + np.eye(3)
    c, d = np.mean(m, axis=0, keepdims=True), np.median(m, axis=1, keepdims=True)
    for _ in range(3):
        c = np.mean(m * c, axis=0, keepdims=True)
        d = np.max(m * d, axis=1, keepdims=True)
    return np.sum(c * m * d)


@pytest.mark.parametrize(
    "f",
    [in_a_loop, in_a_branch, in_nested_loops, written, of_several, items_of_tuples, kept_axes],
    ids=lambda f: f.__name__,
)
def test_derivatives(f):
    with uncompiled():
        check_derivatives(f, X, compiled=False)


def reversed_rows(x):
    h = transposed(x)
    for _ in range(3):
        h = h[::-1]
    return np.sum(h[0])


def fewer_axes(x):
    m = np.outer(x, x)
    c = np.median(m, axis=1, keepdims=True)
    for _ in range(2):
        c = np.sum(m * c, axis=0)
    return np.sum(m[0] * c)


@pytest.mark.parametrize("f, what", [
    (reversed_rows, "another array under the name h"), (fewer_axes, "c gets another number of axes"),
])  # fmt: skip
def test_refused(f, what):
    with pytest.raises(TraceError, match=what):
        nb.adjoint(f).value_and_grad(X)
