"""Products of matrices over triangles, in place, and several in one nest: told apart, and right in all sizes."""

import itertools

import numpy as np
import pytest
from loop_programs import copies, uncompiled

import nbgrad as nb
from nbgrad.loops.ir.passes import Pass, without
from nbgrad.loops.runtime.products import add_to_triangle, add_triangular_product


def rank_k_update(a, b, c, alpha):
    n, m = a.shape
    for i in range(n):
        for j in range(i + 1):
            c[i, j] *= 0.5
        for k in range(m):
            for j in range(i + 1):
                c[i, j] += alpha * a[i, k] * a[j, k]
    return np.sum(c * c)


def rank_2k_update(a, b, c, alpha):
    n, m = a.shape
    for i in range(n):
        for k in range(m):
            for j in range(i + 1):
                c[i, j] += alpha * a[j, k] * b[i, k] - b[j, k] * a[i, k]
    return np.sum(c * c)


def triangular_in_place(a, b, c, alpha):
    n, m = b.shape
    for i in range(n):
        for j in range(m):
            for k in range(i + 1, n):
                b[i, j] += a[k, i] * b[k, j]
            b[i, j] *= alpha
    return np.sum(b * b)


def scalar_in_place(a, b, c, alpha):
    n, m = b.shape
    for i in range(n - 1):
        for j in range(m):
            s = b[i, j]
            for k in range(i + 1, n):
                s -= a[i, k] * b[k, j]
            b[i, j] = np.sin(s) * alpha
    return np.sum(b * b)


def both_in_place(a, b, c, alpha):
    n = c.shape[0]
    for i in range(n):
        for j in range(n):
            for k in range(i + 1, n):
                c[i, j] += 0.3 * c[k, i] * c[k, j]
    return np.sum(c * a) * alpha + np.sum(b)


def symmetric(a, b, c, alpha):
    n, m = c.shape
    for i in range(n):
        for j in range(m):
            s = 0.0
            for k in range(i):
                c[k, j] += alpha * b[i, j] * a[i, k]
                s += b[k, j] * a[i, k]
            c[i, j] = 0.3 * c[i, j] + alpha * b[i, j] * a[i, i] + alpha * s
    return np.sum(c * c)


def covariance(a, b, c, alpha):
    n, m = a.shape
    for i in range(m):
        for j in range(i, m):
            c[i, j] = 0.0
            for k in range(n):
                c[i, j] += a[k, i] * a[k, j]
            c[i, j] /= n
            c[j, i] = c[i, j]
    return np.sum(c * np.cos(c)) * alpha


def covariance_of_scalars(a, b, c, alpha):
    n, m = a.shape
    for i in range(m):
        for j in range(i + 1):
            s = 0.0
            for k in range(n):
                s += a[k, i] * a[k, j]
            c[i, j] = s * alpha
            c[j, i] = s
    return np.sum(np.sin(c))


def mirrored(a, b, c, alpha):
    n, m = a.shape
    for i in range(m):
        for j in range(i, m):
            s = c[i, j]
            for k in range(n):
                s += a[k, i] * a[k, j]
            c[i, j] = s
            c[j, i] = s
    for i in range(m):
        for j in range(i):
            s = 0.0
            for k in range(n):
                s -= a[i, k] * b[j, k]
            b[i, j] += 0.2 * i * j
            c[i, j] += s
            c[j, i] = alpha * c[i, j]
    return np.sum(np.sin(c) * b)


def lower_times_vectors(a, b, c, alpha):
    n, m = b.shape
    for i in range(n):
        for j in range(m):
            s = 0.0
            for k in range(2, i + 2):
                s += a[i, k - 2] * b[k - 2, j]
            c[i, j] -= s
    return np.sum(c * c) * alpha


PROGRAMS = [
    rank_k_update,
    rank_2k_update,
    triangular_in_place,
    scalar_in_place,
    both_in_place,
    symmetric,
    covariance,
    covariance_of_scalars,
    mirrored,
    lower_times_vectors,
]


def arguments(n, dtype=np.float64):
    rng = np.random.default_rng(n)
    return (*(0.4 * rng.normal(size=(3, n, n))).astype(dtype), 0.7)


def calls_routine(source):
    return "add_to_triangle(" in source or "add_triangular_product(" in source


def flat(gradients):
    return np.concatenate([np.ravel(g) for g in gradients])


@pytest.mark.parametrize("n", [2, 40])
@pytest.mark.parametrize("f", PROGRAMS)
def test_values_and_derivatives(f, n):
    args = arguments(n)
    rng = np.random.default_rng(1)
    direction = tuple(rng.normal(size=np.shape(a)) for a in args)
    mine, plain_python = copies(args), copies(args)
    adj = nb.adjoint(f)
    value, gradients = adj.value_and_grad(*mine)
    assert calls_routine(adj.source)
    assert value == pytest.approx(f(*plain_python), rel=1e-12)
    for x, y in zip(mine, plain_python, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)
    ahead, behind = (f(*(a + h * d for a, d in zip(copies(args), direction, strict=True))) for h in (1e-6, -1e-6))
    slope = flat(gradients) @ flat(direction)
    assert slope == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)
    assert nb.tangent(f).jvp(copies(args), direction)[1][0] == pytest.approx(slope, rel=1e-11)
    second = flat(adj.hvp(copies(args), direction))
    with without(Pass.MATRIX_PRODUCTS), uncompiled(shuffle=False):
        plain = nb.adjoint(f)
        np.testing.assert_allclose(
            flat(plain.value_and_grad(*copies(args))[1]), flat(gradients), rtol=1e-10, atol=1e-12
        )
        np.testing.assert_allclose(flat(plain.hvp(copies(args), direction)), second, rtol=1e-9, atol=1e-11)
        assert not calls_routine(plain.source)


@pytest.mark.parametrize("f", [rank_k_update, rank_2k_update, covariance])
def test_single_precision(f):
    value, gradients = nb.adjoint(f).value_and_grad(*arguments(40, np.float32))
    expected, others = nb.adjoint(f).value_and_grad(*arguments(40))
    assert value == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(gradients[0], others[0], rtol=1e-3, atol=1e-3)


def beyond_the_matrix(a, c, n):
    for i in range(n):  # rows that the triangle does not reach are not in the matrix
        for j in range(i + 1, c.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * a[j, k]
    for i in range(n):
        for k in range(i - 3):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * a[k, j]
    return np.sum(c * c)


def test_rows_that_no_iteration_reaches():
    rng = np.random.default_rng(2)
    for shape, n in (((30, 30), 30), ((39, 40), 39), ((2, 40), 2), ((29, 30), 29)):
        a, c = rng.normal(size=(40, 40)), rng.normal(size=shape)
        theirs = c.copy()
        value, _ = nb.adjoint(beyond_the_matrix).value_and_grad(a, c, n)
        assert value == pytest.approx(beyond_the_matrix(a, theirs, n), rel=1e-12)
        np.testing.assert_allclose(c, theirs, rtol=1e-12)
    with pytest.raises(IndexError):
        nb.adjoint(beyond_the_matrix).value_and_grad(rng.normal(size=(40, 40)), rng.normal(size=(30, 40)), 35)


def with_dependences(a, c, d):
    n = a.shape[0]
    for i in range(n):  # rows above have changed already
        for j in range(n):
            for k in range(i):
                c[i, j] += a[i, k] * c[k, j]
    for i in range(n):  # the second sum needs what the first one has added in this row, and in others
        for j in range(n):
            for k in range(n):
                c[i, j] += a[i, k] * d[k, j]
                d[j, i] -= a[i, k] * c[k, j]
    for i in range(n):  # each bound depends on another loop
        for j in range(i, n):
            for k in range(i, j):
                d[i, j] += a[i, k] * a[k, j]
    for i in range(n):
        for j in range(i, n):
            for k in range(n):
                c[i, j] += a[i, k] * a[j, k]
            c[j, i] = c[i, n - 1]  # not on the other side of the diagonal alone
    return np.sum(c * c) + np.sum(d * d)


def test_what_depends_stays():
    rng = np.random.default_rng(3)
    args = 0.2 * rng.normal(size=(3, 25, 25))
    adj = nb.adjoint(with_dependences)
    value, gradients = adj.value_and_grad(*copies(args))
    assert not calls_routine(adj.source)
    assert value == pytest.approx(with_dependences(*copies(args)), rel=1e-12)
    direction = rng.normal(size=args.shape)
    ahead, behind = (with_dependences(*(args + h * direction)) for h in (1e-6, -1e-6))
    assert flat(gradients) @ np.ravel(direction) == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)


def gram_schmidt(a, q, r):
    n, m = a.shape
    for k in range(m):
        for i in range(n):
            q[i, k] = a[i, k] / r[k, k]
        for j in range(k + 1, m):
            for i in range(n):
                r[k, j] += q[i, k] * a[i, j]
            for i in range(n):
                a[i, j] -= q[i, k] * r[k, j]
    return np.sum(q) + np.sum(r)


def test_two_sums_become_two_nests_along_rows():
    rng = np.random.default_rng(4)
    args = rng.normal(size=(6, 4)), np.zeros((6, 4)), 2.0 + np.eye(4)
    adj = nb.adjoint(gram_schmidt)
    value, (da, _, _) = adj.value_and_grad(*copies(args))
    assert value == pytest.approx(gram_schmidt(*copies(args)), rel=1e-12)
    lines = [line.strip() for line in adj.source.splitlines()]
    at = lines.index("r[k, j] = r[k, j] + q[i, k] * a[i, j]")
    assert lines[at - 2 : at] == ["for i in range(n):", "for j in range(k + 1, m):"]
    with without(Pass.MATRIX_PRODUCTS):
        np.testing.assert_allclose(nb.adjoint(gram_schmidt).value_and_grad(*copies(args))[1][0], da, rtol=1e-11)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize(("below", "shift"), [*itertools.product([True, False], [-30, -2, 0, 1, 7, 60])])
def test_the_routines(below, shift, dtype):
    rng = np.random.default_rng(5)
    m, n, k = 53, 40, 31
    shapes = (m, n), (m, k), (k, n)
    of_target, of_left = (
        np.add.outer(-np.arange(rows), np.arange(columns)) < shift for rows, columns in ((m, n), (m, k))
    )
    if not below:
        of_target, of_left = ~of_target, ~of_left
    for order in ("C", "F"):
        c, a, b = (np.asarray(4 * rng.normal(size=s), dtype, order) for s in shapes)
        tolerance = {"rtol": 1e-4, "atol": 1e-3} if dtype is np.float32 else {"rtol": 1e-11, "atol": 1e-11}
        expected = c + np.where(of_target, 2 * (a @ b), 0)
        with_triangle, with_left = c.copy(order), c.copy(order)
        add_to_triangle(with_triangle, a, b, 2.0, below, shift)
        np.testing.assert_allclose(with_triangle, expected, **tolerance)
        add_triangular_product(with_left, a, b, 2.0, below, shift)
        np.testing.assert_allclose(with_left, c + 2 * (np.where(of_left, a, 0) @ b), **tolerance)


def test_what_is_outside_of_a_triangle_is_not_used():
    n = 60
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=(2, n, n))
    expected = np.tril(a) @ b
    a[np.triu_indices(n, 1)] = np.nan
    c = np.zeros((n, n))
    add_triangular_product(c, a, b, 1.0, True, 1)
    np.testing.assert_allclose(c, expected, rtol=1e-11, atol=1e-12)
    b[10] = np.inf  # rows above do not read it: zero times infinity is not to be added
    c = np.zeros((n, n))
    add_triangular_product(c, a, b, 1.0, True, 1)
    np.testing.assert_allclose(c[:10], expected[:10], rtol=1e-11, atol=1e-12)
    assert not np.isfinite(c[10:]).any()


def of_given_size(a, b):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            for k in range(i + 1, a.shape[0]):
                b[i, j] += a[k, i] * b[k, j]
    return np.sum(b * b)


def test_an_index_out_of_range_is_told_of_the_array_of_the_user():
    with uncompiled(), pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 of b with size 5"):
        nb.adjoint(of_given_size).value_and_grad(np.ones((6, 6)), np.ones((5, 4)))
