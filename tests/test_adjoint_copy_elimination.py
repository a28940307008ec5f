"""Copy elimination: new values that would wait in an array are computed where they are copied, from stored operands."""

import re

import numba
import numpy as np
import pytest
from loop_programs import agrees, twice, uncompiled
from random_loops import function

import nbgrad as nb

RNG = np.random.default_rng(41)


def normal(*shape):
    return RNG.normal(size=shape)


def steps(u, c, d, n):
    """Copies by elements."""
    new = u.copy()
    for _ in range(n):
        for i in range(1, u.size - 1):
            flow = u[i - 1] - 2.0 * u[i] + u[i + 1]
            new[i] = u[i] + c * d[i] * flow
        for i in range(1, u.size - 1):
            u[i] = new[i]


def slices(u, c, n):
    """Copies by slices."""
    new = np.zeros_like(u)
    for _ in range(n):
        new[1:-1, 1:-1] = u[1:-1, 1:-1] + c * (u[2:, 1:-1] + u[:-2, 1:-1] - 2.0 * u[1:-1, 1:-1])
        u[1:-1, 1:-1] = new[1:-1, 1:-1]
    return np.sum(u**2)


def other_names(u, c, n):
    """Loops with different variable names, and a new array in each iteration."""
    for _ in range(n):
        new = np.empty(u.size)
        for i in range(1, u.size - 1):
            scale = 0.5 * c
            flow = u[i - 1] - u[i + 1]
            new[i] = u[i] * 0.9 + scale * flow
        total = 2.0
        for k in range(1, u.size - 1):
            u[k] = new[k]
        c = c * total / 2.1


def in_parallel(u, c, n):
    new = np.empty_like(u)
    for _ in range(n):
        for i in numba.prange(1, u.shape[0] - 1):
            for j in range(u.shape[1]):
                flow = u[i - 1, j] - u[i + 1, j]
                new[i, j] = u[i, j] + c * flow
        for i in numba.prange(1, u.shape[0] - 1):
            for j in range(u.shape[1]):
                u[i, j] = new[i, j]


def one_row(u, c, n):
    """An index that the first loop sets."""
    new = u.copy()
    for _ in range(n):
        m = 0
        for i in range(1, u.shape[1] - 1):
            m = i % 2
            flow = u[0, i - 1] - u[1, i + 1]
            new[m, i] = u[m, i] + c * flow
        for i in range(1, u.shape[1] - 1):
            u[m, i] = new[m, i]


def variant(name, **changes):
    """A function whose copies can be eliminated, with changes that may prevent it."""
    parts = {
        "new": "u.copy()",
        "turns": "range(1, u.size - 1)",
        "store": "new[i] = u[i] + c * flow",
        "between": "pass",
        "later": "range(1, u.size - 1)",
        "copy": "u[i] = new[i]",
        "result": "None",
        **changes,
    }
    text = """
def {name}(u, c, n):
    last = u.size - 1
    new = {new}
    for t in range(n):
        for i in {turns}:
            flow = u[i - 1] - u[i + 1]
            {store}
        {between}
        for i in {later}:
            {copy}
    return {result}
"""
    return function(text.format(name=name, **parts), name=name)


KEPT = [
    variant("read_later", result="new[u.size // 2] * u[0]"),
    variant("returned", result="new"),
    variant("made_in_an_earlier_turn", turns="range(1 + t, u.size - 1)"),
    variant("bound_between", turns="range(1, last)", between="last = max(last - 1, 1)", later="range(1, last)"),
    variant("factor_between", between="c = c * 0.7"),
    variant("edge_between", between="u[1] = 0.5 * u[2]"),
    variant("another_place", copy="u[i + 1] = new[i]"),
    variant("of_an_old_neighbour", store="new[i] = u[i - 1] + c * flow"),
    variant("in_a_branch", store="new[i] = u[i] + c * flow if flow > 0.0 else new[i]"),
    variant("only_in_a_branch", store="if flow > 0.0: new[i] = u[i] + c * flow"),
    variant("left_early", store="if flow > 1.5: break\n            new[i] = u[i] + c * flow"),
]
rounded = variant("rounded", new="np.zeros(u.size, np.float32)", result="u[1] * u[2]")


TAKEN = [
    *((steps, (normal(n), 0.3, normal(n), 3)) for n in (1, 2, 3, 4, 9)),
    (steps, (normal(18)[::-2], 0.3, normal(9), 2)),
    *((slices, (normal(n, m), 0.3, 2)) for n, m in [(2, 3), (3, 2), (3, 3), (5, 4)]),
    *((other_names, (normal(n), 0.3, 2)) for n in (2, 3, 8)),
    (in_parallel, (normal(6, 3), 0.3, 2)),
    (variant("unchanged"), (normal(8), 0.3, 3)),
]
LEFT = [*((f, (normal(8), 0.3, 3)) for f in KEPT), (one_row, (normal(2, 8), 0.3, 3))]


def copies(adj):
    """The copying statements of the generated source."""
    return re.findall(r"^ +u\[.*\] = new\[.*\]$", adj.source, re.MULTILINE)


@pytest.mark.parametrize("f, args", TAKEN, ids=lambda v: getattr(v, "__name__", ""))
def test_made_where_they_are_copied(f, args):
    with uncompiled():
        assert not copies(agrees(f, args))


@pytest.mark.parametrize("f, args", LEFT, ids=lambda v: getattr(v, "__name__", ""))
def test_copied(f, args):
    with uncompiled():
        assert copies(agrees(f, args))


def test_arrays_that_round():
    u = normal(6)
    value, grads = nb.adjoint(rounded).value_and_grad(u.copy(), 0.3, 2)
    assert value == numba.njit(rounded)(u.copy(), 0.3, 2)
    assert grads[0].shape == u.shape


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arguments_that_round(dtype):
    """Stored operands are float64; the function computes in float32."""
    u, d = normal(40).astype(dtype), normal(40).astype(np.float32)
    expected = u.copy()
    numba.njit(steps)(expected, np.float32(0.3), d, 5)
    nb.adjoint(steps).vjp(u, np.float32(0.3), d, 5)
    np.testing.assert_array_equal(u, expected)


def test_compiled():
    for f, args in (TAKEN[4], (slices, (normal(9, 9), 0.3, 4)), (in_parallel, (normal(9, 9), 0.3, 2))):
        agrees(f, args)


@pytest.mark.parametrize("f, args", [(steps, (normal(5), 0.3, normal(5), 2)), (slices, (normal(4, 4), 0.3, 2))])
def test_second_order(f, args):
    with uncompiled(shuffle=False):
        twice(f, args)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_checkpoints(n):
    u, d, weights = normal(7), normal(7), np.ones(7)
    with uncompiled(shuffle=False):
        ways = [nb.adjoint(steps, **how).vjp(u.copy(), 0.3, d, n)((weights,)) for how in ({}, {"checkpoint": 2})]
    for a, b in zip(*ways, strict=True):
        np.testing.assert_array_equal(a, b)


def copied_once(x, y):
    y = y * 1.0
    s = np.sum(np.sin(y))
    z = np.empty(x.size)
    for i in range(x.size):
        z[i] = x[i] * x[i]
    for i in range(x.size):
        y[i] = z[i]
    return s * np.sum(np.sin(y) * x)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_loops_that_are_run_again_copy(count):
    """The copies themselves are in the loop with checkpoints."""
    x, y = normal(4), normal(4)
    with uncompiled(shuffle=False):
        value, gradients = nb.adjoint(copied_once, checkpoint=count).value_and_grad(x, y)
        expected, others = nb.adjoint(copied_once).value_and_grad(x, y)
    for a, b in [(value, copied_once(x, y)), (value, expected), *zip(gradients, others, strict=True)]:
        np.testing.assert_allclose(a, b, rtol=1e-13)
