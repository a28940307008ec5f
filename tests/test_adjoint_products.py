"""Products of matrices in loops: recognized, multiplied by BLAS where they are large, and right in all sizes."""

import itertools

import numba
import numpy as np
import pytest
from loop_programs import copies, uncompiled

import nbgrad as nb
from nbgrad.loops.ir.passes import Pass, without
from nbgrad.loops.runtime.products import add_product

SIZES = [(4, 3, 5), (23, 17, 19)]


def perceptron(x, w, b, v):
    h = np.tanh(x @ w + b)
    y = np.dot(h, v)
    return np.sum(y * y)


def in_loops(a, b, c, alpha):
    n, m = c.shape
    for i in range(n):
        for j in range(m):
            c[i, j] *= 0.5
        for k in range(b.shape[0]):
            for j in range(m):
                c[i, j] += alpha * a[i, k] * b[k, j]
    return np.sum(c * c)


def of_sums(a, b, c, alpha):
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            s = 0.0
            for k in range(b.shape[0]):
                s += a[i, k] * b[k, j]
            c[i, j] = np.sin(s) + c[i, j] * alpha
    return np.sum(c)


def subtracted_from(a, b, c, alpha):
    for k in range(1, b.shape[0] - 1):
        for i in range(1, c.shape[0]):
            for j in range(2, c.shape[1]):
                c[i, j] -= a[i - 1, k + 1] * b[k - 1, j] * 0.25
    return np.sum(c * c) * alpha


def recurrent(a, b, n):
    x = b.copy()
    for _ in range(n):
        x = np.tanh(a @ x)
    return np.sum(x)


def of_a_stack(a, b):
    s = 0.0
    for t in range(a.shape[0]):
        c = a[t] @ b[:, 1:]
        s += np.sum(c * c)
    return s


def in_parallel(a, b):
    s = np.zeros(a.shape[0])
    for t in numba.prange(a.shape[0]):
        c = a[t] @ b
        s[t] = np.sum(c * c)
    return np.sum(s)


def with_itself(a):
    g = a.T @ a
    return np.sum(g * g * g)


def chain(a, b, x):
    return np.sum(np.exp(0.1 * (a.T @ (a @ (x @ b)))))


def convolution(x, w, y):
    for i in range(y.shape[0]):
        for f in range(y.shape[1]):
            for a in range(y.shape[2]):
                for b in range(y.shape[3]):
                    s = 0.0
                    for d in range(x.shape[1]):
                        for p in range(w.shape[2]):
                            for q in range(w.shape[3]):
                                s += x[i, d, a + p, b + q] * w[f, d, p, q]
                    y[i, f, a, b] = max(s, 0.0)
    return np.sum(y * y)


def with_one_name(a, b, c, alpha):
    n, m = c.shape
    d = np.empty((n, n))
    for i in range(n):
        for j in range(m):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s
    for i in range(n):
        for j in range(n):
            s = 0.0
            for k in range(m):
                s -= c[i, k] * c[j, k]
            d[i, j] = s
    s = alpha * np.sum(d)
    return s * np.sum(c * c)


def in_blocks(a, b, q):
    h, (n, m) = 5 * q, (a.shape[0], b.shape[1])
    c = np.zeros((n, m))
    for i in range(0, n, h):
        for j in range(0, m, h):
            for k in range(0, a.shape[1], h):
                for ii in range(i, min(i + h, n)):
                    for jj in range(j, min(j + h, m)):
                        for kk in range(k, min(k + h, a.shape[1])):
                            c[ii, jj] += a[ii, kk] * b[kk, jj]
    return np.sum(c * c)


def in_sliced_blocks(a, b, h):
    c = np.zeros((a.shape[0], b.shape[1]))
    for i in range(0, a.shape[0], h):
        for k in range(0, a.shape[1], h):
            c[i : i + h] += a[i : i + h, k : k + h] @ b[k : k + h]
    return np.sum(c * c)


def add_part(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def on_views(a, b, c, alpha):
    h = 4
    for i in range(0, a.shape[0], h):
        for j in range(0, b.shape[1], h):
            for k in range(0, a.shape[1], h):
                add_part(a[i : i + h, k : k + h], b[k : k + h, j : j + h], c[i : i + h, j : j + h])
    return alpha * np.sum(c * c)


def program(name, sizes):
    """A function and its arguments."""
    n, k, m = sizes
    shapes = {
        perceptron: [(n, k), (k, m), (m,), (m, n)],
        recurrent: [(n, n), (n, m), None],
        of_a_stack: [(3, n, k), (k, m)],
        in_parallel: [(3, n, k), (k, m)],
        in_blocks: [(n, k), (k, m), None],
        in_sliced_blocks: [(n, k), (k, m), None],
        with_itself: [(n, k)],
        chain: [(n, k), (m, n), (k, m)],
        convolution: [(2, k, 7, m + 2), (n, k, 2, 3), (2, n, 6, m)],
    }
    rng = np.random.default_rng(5)
    matrices = [(n, k), (k, m), (n, m), ()]
    if name is subtracted_from:
        matrices = [(n + 1, k + 2), (k + 1, m), (n, m), ()]
    return name, tuple(3 if s is None else 0.3 * rng.normal(size=s) if s else 0.7 for s in shapes.get(name, matrices))


PROGRAMS = [
    perceptron,
    in_loops,
    of_sums,
    subtracted_from,
    recurrent,
    of_a_stack,
    in_parallel,
    with_itself,
    chain,
    convolution,
    with_one_name,
    in_blocks,
    in_sliced_blocks,
    on_views,
]


def flat(found):
    parts = [p for part in found for p in (part if isinstance(part, tuple | list) else [part]) if p is not None]
    return np.concatenate([np.ravel(p) for p in parts])


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("f", PROGRAMS)
def test_values_and_derivatives(f, sizes):
    f, args = program(f, sizes)
    direction = tuple(None if isinstance(a, int) else np.cos(np.arange(np.size(a))).reshape(np.shape(a)) for a in args)

    def moved(h):
        return f(*(a if d is None else a + h * d for a, d in zip(copies(args), direction, strict=True)))

    adj = nb.adjoint(f)
    value, gradients = adj.value_and_grad(*copies(args))
    assert "add_product(" in adj.source
    assert value == pytest.approx(f(*copies(args)), rel=1e-12)
    slope = flat(gradients) @ flat([np.asarray(d) for d in direction if d is not None])
    assert slope == pytest.approx((moved(1e-6) - moved(-1e-6)) / 2e-6, rel=1e-6)
    tangent = nb.tangent(f).jvp(copies(args), direction)[1]
    assert (tangent[0] if isinstance(tangent, tuple) else tangent) == pytest.approx(slope, rel=1e-11)
    second = flat(adj.hvp(copies(args), direction))
    with without(Pass.MATRIX_PRODUCTS), uncompiled(shuffle=False):
        plain = nb.adjoint(f)
        np.testing.assert_allclose(
            flat(plain.value_and_grad(*copies(args))[1]), flat(gradients), rtol=1e-10, atol=1e-13
        )
        np.testing.assert_allclose(flat(plain.hvp(copies(args), direction)), second, rtol=1e-9, atol=1e-11)
        assert "add_product(" not in plain.source


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0))], ids=str)
def test_empty_matrices(shapes):
    def f(a, b):
        return np.sum(a @ b) + 1.0

    a, b = (np.ones(s) for s in shapes)
    value, (da, db) = nb.adjoint(f).value_and_grad(a, b)
    assert value == 1.0
    assert not da.any()
    assert not db.any()


def not_all_is_a_product(a, c):
    n = c.shape[0]
    for i in range(n):
        for j in range(i // 2):  # a part of a matrix
            for k in range(n):
                c[i, j] += a[i, k] * a[j, k]
    for i in range(n):
        for j in range(n):
            s = 0.0
            for k in range(n):
                s += c[i, k] * a[k, j]  # of elements that change in the loop
            c[i, j] = s
    for i in range(1, n):
        for j in range(n):
            s = c[i - 1, j]
            for k in range(n):
                s += a[i, k] * a[k, j]
            c[i, j] = s
    for i in range(n):
        for j in range(n):
            for k in range(n):
                c[i, j] += a[i, n - 1 - k] * a[k, j]
    return np.sum(c * c)


def test_other_loops_stay():
    rng = np.random.default_rng(6)
    a, c = 0.3 * rng.normal(size=(2, 12, 12))
    adj = nb.adjoint(not_all_is_a_product)
    value, (da, dc) = adj.value_and_grad(a, c.copy())
    assert "add_product(" not in adj.source
    assert value == pytest.approx(not_all_is_a_product(a, c.copy()), rel=1e-12)
    u, v = rng.normal(size=(2, 12, 12))
    ahead, behind = (not_all_is_a_product(a + h * u, c + h * v) for h in (1e-6, -1e-6))
    assert np.sum(da * u) + np.sum(dc * v) == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)


def rotated(angle, x):
    r = np.zeros((3, 3))
    r[0, 0] = r[1, 1] = np.cos(angle)
    r[0, 1], r[1, 0], r[2, 2] = -np.sin(angle), np.sin(angle), 1.0
    twice = r @ r
    return np.sum((x @ twice) ** 2 * x)


def test_small_constant_sizes_stay_loops():
    x = np.arange(12.0).reshape(4, 3)
    adj = nb.adjoint(rotated)
    _, (slope, _) = adj.value_and_grad(0.3, x)
    assert "add_product(twice[" not in adj.source
    assert slope == pytest.approx((rotated(0.3 + 1e-6, x) - rotated(0.3 - 1e-6, x)) / 2e-6, rel=1e-7)


def layouts(shape, rng):
    """Matrices of one shape: of contiguous rows, of contiguous columns, a part of each, and neither."""
    whole = rng.normal(size=(2 * shape[0], 2 * shape[1]))
    part = whole[: shape[0], : shape[1]]
    return [
        part.copy(),
        np.asfortranarray(part),
        part,
        np.asfortranarray(whole)[: shape[0], : shape[1]],
        whole[::2, ::2],
    ]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("shape", [(3, 4, 5), (40, 30, 20), (64, 1, 30), (1, 40, 50)], ids=str)
def test_the_routine_takes_any_layout(shape, dtype):
    m, n, k = shape
    rng = np.random.default_rng(7)
    kinds = [layouts(s, rng) for s in ((m, n), (m, k), (k, n))]
    for c, a, b in itertools.product(*kinds):
        c, a, b = (x if dtype is np.float64 else (4 * x).astype(dtype) for x in (c, a, b))
        expected = c + 3 * (a @ b)
        add_product(c, a, b, 3.0)
        np.testing.assert_allclose(
            c, expected, rtol=1e-4 if dtype is np.float32 else 1e-12, atol=1e-3 if dtype is np.float32 else 1e-12
        )


def test_parallel_and_serial_code_in_one_process():
    # LLVM's loader would give the second one the routine of the first, whose parameters are others.
    args = program(in_parallel, SIZES[1])[1]
    nb.adjoint(in_parallel).value_and_grad(*args)
    assert nb.adjoint(with_itself).value_and_grad(args[1])[0] == pytest.approx(with_itself(args[1]))
    assert nb.tangent(in_parallel).jvp(args, args)[0] == pytest.approx(in_parallel(*args))


def of_views(a, b, c, n):
    x, y, z = a[:n], b[:, :n], c[:n, :n]
    for i in range(n):
        for j in range(n):
            for k in range(a.shape[1]):
                z[i, j] += x[i, k] * y[k, j]
    return np.sum(c)


def test_checks_of_views_come_before_the_product():
    a, b = np.ones((4, 3)), np.ones((3, 5))
    with uncompiled():
        adj = nb.adjoint(of_views)
        assert adj.value_and_grad(a, b, np.zeros((4, 4)), 4)[0] == 48.0
        assert "add_product(" in adj.source and "pass" not in adj.source
        c = np.zeros((4, 4))
        with pytest.raises(IndexError, match="index 4 is out of bounds for axis 1 of z"):
            adj.value_and_grad(a, b, c, 5)
        np.testing.assert_array_equal(c, 0.0)  # the products come after all checks
        assert adj.value_and_grad(a, b, c, -2)[0] == 0.0
        assert adj.value_and_grad(np.ones((4, 0)), np.ones((0, 5)), np.zeros((4, 4)), 9)[0] == 0.0
