"""Arrays that each iteration has to itself do not stop a loop from being reversed iteration by iteration."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb

RNG = np.random.default_rng(37)


def normal(*shape):
    return RNG.normal(size=shape)


def network(W, b, V, x, label):
    """A network on one sample after the other."""
    loss = 0.0
    for i in range(x.shape[0]):
        h = np.tanh(W @ x[i] + b)
        z = V @ h
        z = z - z.max()
        loss += np.log(np.exp(z).sum()) - z[label[i]]
    return loss / x.shape[0]


def initial_values(p, y0, seen):
    """A differential equation from several initial values."""
    total = 0.0
    for i in range(y0.shape[0]):
        u = y0[i].copy()
        for _ in range(4):
            k = np.empty(2)
            k[0] = p[0] * u[0] - p[1] * u[0] * u[1]
            k[1] = -p[2] * u[1] + p[3] * u[0] * u[1]
            u = u + 0.1 * k
        total += np.sum((u - seen[i]) ** 2)
    return total


def variances(x, w, edges):
    """Selections of different lengths, in memory for the longest one."""
    total = 0.0
    for b in range(edges.size - 1):
        v = x[(x >= edges[b]) & (x < edges[b + 1])]
        total += np.sum((v - v.mean()) ** 2) * w[b]
    return total


def triangles(x, c):
    """Zeros that are written in part."""
    total = 0.0
    for i in range(x.shape[0]):
        a = np.zeros((3, 3))
        for p in range(3):
            for q in range(p + 1):
                a[p, q] = c[p] * x[i, q]
        total += np.sum(np.sin(a @ a.T))
    return total


def in_branches(x, c):
    total = 0.0
    for i in range(x.shape[0]):
        if x[i, 0] > 0:
            v = x[i] * c
        else:
            v = x[i] ** 2
        w = np.exp(-v)
        w *= v
        total += np.sum(w) ** 2
    return total


def filled_in_the_nest(x, c):
    """Elements are updated where they were set, and by a loop that runs backwards."""
    w = np.empty(c.size)
    total = 0.0
    for i in range(x.shape[0]):
        for k in range(c.size):
            w[k] = x[i, k]
            w[k] *= w[k] * c[k]
        for k in range(c.size - 1, 0, -1):
            w[k] *= w[k - 1]
        total += w[c.size - 1]
    return total


def a_prefix(x, c):
    """What is read is filled, though the array is longer."""
    w = np.ones(7)
    total = 0.0
    for i in range(x.shape[0]):
        n = 1 + i % 3
        for k in range(n):
            w[k] = np.sin(x[i, k] * c[k])
        for k in range(n - 1):
            total += w[k] * w[k + 1]
    return total


REVERSED_AT_ONCE = [
    (network, (normal(4, 3), normal(4), normal(2, 4), normal(6, 3), RNG.integers(0, 2, 6))),
    (initial_values, (normal(4) / 2, normal(3, 2), normal(3, 2))),
    (variances, (RNG.random(20), normal(3), np.linspace(0.0, 1.0, 4))),
    (triangles, (normal(4, 3), normal(3))),
    (in_branches, (normal(5, 3), normal(3))),
    (filled_in_the_nest, (normal(4, 3), normal(3))),
    (a_prefix, (normal(5, 4), normal(4))),
]

# In the next programs an iteration reads what an earlier one has written. Nothing else mentions the array.


def begin(w, c, i):
    if i == 0:
        for k in range(w.size):
            w[k] = c[k % c.size]


def fill(w, row, c, n):
    for k in range(n):
        w[k] = np.sin(row[k] * c[k])


def from_the_iteration_before(x, c):
    w = np.empty(c.size)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        total += np.sum(w * x[i]) ** 2
        fill(w, x[i], c, c.size)
    return total


def where_a_test_fails(x, c):
    w = np.empty(c.size)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        if x[i, 0] > 0.0:
            for k in range(c.size):
                w[k] = x[i, k] * c[k]
        total += np.sum(np.sin(w) * x[i])
    return total


def some_elements(x, c):
    w = np.empty(c.size)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        for k in range(c.size):
            if x[i, k] > 0.0:
                w[k] = x[i, k] * c[k]
        total += np.sum(np.sin(w) * x[i])
    return total


def but_the_last(x, c):
    w = np.empty(c.size)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        fill(w, x[i], c, c.size - 1)
        for k in range(c.size):
            w[k] *= w[k - 1]
        total += np.sum(w)
    return total


def beyond_the_prefix(x, c):
    w = np.empty(7)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        n = 3 - i % 3
        fill(w, x[i], c, n)
        for k in range(n + 1):
            total += w[k] * c[k] * w[0]
    return total


def another_length(x, c):
    """The length is set again between filling and reading."""
    w = np.empty(7)
    total = 0.0
    n = 2
    for i in range(x.shape[0]):
        begin(w, c, i)
        fill(w, x[i], c, n)
        n = 3 - i % 3
        for k in range(n):
            total += w[k] * w[k]
    return total


def while_it_is_read(x, c):
    """The loop that reads has begun before the length was set."""
    w = np.empty(7)
    total = 0.0
    n = 4
    for i in range(x.shape[0]):
        begin(w, c, i)
        for k in range(n):
            n = 1 + i % 2
            for j in range(n):
                w[j] = np.sin(x[i, j] * c[j])
            total += w[k] * w[0]
        n = 4
    return total


def a_loop_that_may_not_run(x, c):
    w = np.empty(c.size)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        for _ in range(i % 2):
            fill(w, x[i], c, c.size)
        total += np.sum(w * x[i]) ** 2
    return total


def that_ends_early(x, c):
    w = np.empty(c.size)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        for k in range(c.size):
            w[k] = np.sin(x[i, k] * c[k])
            if x[i, k] > 0.4:
                break
        total += np.sum(w * x[i]) ** 2
    return total


def from_the_end(x, c):
    """A negative index is beyond what is filled."""
    w = np.empty(7)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        fill(w, x[i], c, 3)
        for k in range(3):
            w[k - 1] *= w[k] * c[k]
            total += w[k - 1]
    return total


def by_another_index(x, c):
    w = np.empty(c.size)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        j = 0
        w[j] = x[i, 0] * c[0]
        j = (i + 1) % c.size
        total += np.sin(w[j]) * c[1]
    return total


def one_of_two_axes(x, c):
    w = np.empty((3, 3))
    total = 0.0
    for i in range(x.shape[0]):
        if i == 0:
            for k in range(3):
                for j in range(3):
                    w[k, j] = c[k] * c[j]
        for k in range(3):
            w[k, k] = x[i, k] * c[k]
        total += np.sum(np.sin(w * w[0, 0]))
    return total


def a_scalar(x, c):
    total = 0.0
    for i in range(x.shape[0]):
        if i == 0:
            before = c[1]
        total += np.sin(before * x[i, 0]) * c[0]
        before = x[i, 1] * before
    return total


def a_length_that_changes_twice(x, c):
    w = np.empty(7)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        n = 1 + i % 2
        fill(w, x[i], c, n)
        if x[i, 0] > 0.0:
            n = 4 - i % 3
        for k in range(n):
            total += w[k] * w[k]
    return total


def from_below_zero(x, c):
    w = np.empty(7)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        fill(w, x[i], c, 3)
        for k in range(-2, 3):
            w[k] *= 0.5
            total += w[k] ** 2
    return total


def under_an_old_test(x, c):
    """The length that is tested is not the one up to which the array is filled."""
    w = np.empty(7)
    total = 0.0
    n = 4
    for i in range(x.shape[0]):
        begin(w, c, i)
        if n > 3:
            n = 1 + i % 2 * 3
            fill(w, x[i], c, n)
            total += w[3] * c[0]
    return total


def a_triangle(x, c):
    w = np.empty((3, 3))
    total = 0.0
    for i in range(x.shape[0]):
        if i == 0:
            for k in range(3):
                for j in range(3):
                    w[k, j] = c[k] * c[j]
        for k in range(3):
            for j in range(k):
                w[k, j] = x[i, k] * c[j]
        total += np.sum(np.sin(w))
    return total


def rows_of_a_triangle(x, c):
    """A loop with the variables of the loop that fills a triangle reads other elements."""
    w = np.empty((3, 3))
    total = 0.0
    for i in range(x.shape[0]):
        if i == 0:
            for k in range(3):
                for j in range(3):
                    w[k, j] = c[k] * c[j]
        for k in range(3):
            for j in range(k):
                w[k, j] = x[i, k] * c[j]
        for k in range(3):
            for j in range(k):
                total += np.sin(w[0, j] * c[k])
    return total


def an_element_less(x, c):
    w = np.empty(3)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        w[0] = x[i, 0] * c[0]
        w[-1] = x[i, 1] * c[1]
        w[2] = x[i, 2] * c[2] + w[1]
        total += np.sum(np.sin(w))
    return total


def of_one_branch(x, c):
    w = np.empty(3)
    total = 0.0
    for i in range(x.shape[0]):
        begin(w, c, i)
        if x[i, 0] > 0.0:
            for k in range(3):
                w[k] = x[i, k] * c[k]
        else:
            w[0] *= c[1]
        total += np.sum(np.sin(w))
    return total


# In these something outside of the loop reads or writes the array.


def read_after_the_loop(x, c):
    w = np.ones(c.size)
    total = 0.0
    for i in range(x.shape[0]):
        fill(w, x[i], c, c.size)
        total += np.sum(w) ** 2
    return total * w[1]


def read_before_the_loop(x, c):
    w = c * c
    total = np.sum(np.sin(w) * w)
    for i in range(x.shape[0]):
        fill(w, x[i], c, c.size)
        total += np.sum(w) ** 2
    return total


def returned(x, c):
    w = np.empty(c.size)
    total = 0.0
    for i in range(x.shape[0]):
        fill(w, x[i], c, w.size)
        total += np.sum(w) ** 2
    return total, w


def of_the_caller(x, w, c):
    total = 0.0
    for i in range(x.shape[0]):
        fill(w, x[i], c, w.size)
        total += np.sum(w) ** 2
    return total


def in_a_loop_around(x, c):
    w = np.ones(c.size)
    total = 0.0
    for j in range(2):
        total += np.sum(np.sin(w * c[j]))
        for i in range(x.shape[0]):
            fill(w, x[i], c, c.size)
            total += np.sum(w) ** 2
    return total


SHARED = [
    (f, (normal(5, 4), normal(4)))
    for f in (
        from_the_iteration_before, where_a_test_fails, some_elements, but_the_last, beyond_the_prefix, another_length,
        while_it_is_read, a_loop_that_may_not_run, that_ends_early, from_the_end, by_another_index, one_of_two_axes,
        a_scalar, a_length_that_changes_twice, from_below_zero, rows_of_a_triangle,
        under_an_old_test, a_triangle, an_element_less, of_one_branch,
        read_after_the_loop, read_before_the_loop, returned, in_a_loop_around,
    )
]  # fmt: skip
SHARED.append((of_the_caller, (normal(5, 4), normal(4), normal(4))))


@pytest.mark.parametrize("f, args", REVERSED_AT_ONCE + SHARED)
def test_agrees(f, args):
    with uncompiled():
        agrees(f, args)


@pytest.mark.parametrize("f, args", REVERSED_AT_ONCE)
def test_no_tape_grows_with_the_iterations(f, args):
    with uncompiled():
        adj = nb.adjoint(f)
        adj.value_and_grad(*args)
    outermost = next(line for line in adj.source.splitlines() if line.startswith("    for "))
    variable = outermost.split()[1]
    assert not [name for name in adj.report(*args) if f"over {variable}" in name], adj.source


@pytest.mark.parametrize("f, args", [(f, args) for f, args in SHARED if f not in (of_the_caller, returned)])
def test_a_shared_array_is_not_reversed_at_once(f, args):
    """The derivative of each needs the cotangents of later iterations, so its loop runs twice."""
    with uncompiled():
        adj = nb.adjoint(f)
        adj.value_and_grad(*args)
    loops = [line.split()[1] for line in adj.source.splitlines() if line.startswith(("    for i", "    for j"))]
    assert len(loops) > 1, adj.source


def test_compiled():
    f, args = REVERSED_AT_ONCE[0]
    agrees(f, args)
    f, args = REVERSED_AT_ONCE[2]
    agrees(f, args)


def test_second_derivatives():
    f, args = REVERSED_AT_ONCE[0]
    adj, h = nb.adjoint(f), 1e-5
    directions = tuple(normal(*a.shape) if a.dtype == np.float64 else None for a in args)
    up, down = (
        adj.value_and_grad(*(a if d is None else a + s * d for a, d in zip(args, directions, strict=True)))[1]
        for s in (h, -h)
    )
    for found, a, b in zip(adj.hvp(args, directions)[:4], up, down, strict=False):
        np.testing.assert_allclose(found, (a - b) / (2 * h), rtol=1e-6, atol=1e-6 * np.max(np.abs(found)))
