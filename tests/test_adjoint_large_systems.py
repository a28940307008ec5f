"""np.linalg in loops: by LAPACK where matrices are large, in loops where they are small."""

import numpy as np
import pytest

import nbgrad as nb


def likelihood(x, y, length, noise):
    """That of a Gaussian process; the matrix is made of vectors."""
    n = x.size
    K = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            K[i, j] = np.exp(-((x[i] - x[j]) ** 2) / (2 * length**2))
        K[i, i] += noise
    factor = np.linalg.cholesky(K)
    weights = np.linalg.solve(K, y)
    total = 0.0
    for i in range(n):
        total += np.log(factor[i, i])
    return 0.5 * np.sum(y * weights) + total


def determinants(A, t):
    _sign, logarithm = np.linalg.slogdet(A + t * np.eye(A.shape[0]))
    return logarithm + np.linalg.det(A * 0.1) + np.sum(np.linalg.inv(A) * A.T) * t


def in_loops_and_branches(A, B, t, n):
    total, X = 0.0, B.copy()
    for k in range(n):
        X = np.linalg.solve(A, X) + t * B
        if k % 2 == 0:
            total += np.sum(np.linalg.inv(A + k * np.eye(A.shape[0])) ** 2)
    return np.sum(X**2) + total


def recurrence(A, b, n):
    x = b.copy()
    for _ in range(n):
        x = np.sin(np.linalg.solve(A, x)) + b
    return np.sum(x**2)


RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(20, 20)) / 5 + 3 * np.eye(20), RNG.normal(size=(20, 3))
X, Y = np.linspace(0.0, 4.0, 20), RNG.normal(size=20)
PROGRAMS = [
    (likelihood, (X, Y, 0.3, 0.1)),
    (determinants, (A, 0.7)),
    (in_loops_and_branches, (A, B, 0.3, 3)),
    (recurrence, (A, B[:, 0].copy(), 4)),
]


def small(args):
    return tuple(a[:4, :4].copy() if np.ndim(a) == 2 else a[:4].copy() if np.ndim(a) else a for a in args)


@pytest.mark.parametrize("large", [True, False])
@pytest.mark.parametrize(("f", "args"), PROGRAMS)
def test_derivatives(f, args, large):
    args = args if large else small(args)
    adj = nb.adjoint(f)
    value, gradients = adj.value_and_grad(*args)
    assert ("lapack_" in adj.source) == large
    assert value == pytest.approx(f(*args), rel=1e-12)
    floats = [a for a in args if not isinstance(a, int)]
    directions = [np.cos(np.arange(np.size(a)) + k).reshape(np.shape(a))[()] for k, a in enumerate(floats)]

    def moved(h):
        return (*(a + h * d for a, d in zip(floats, directions, strict=True)), *args[len(floats) :])

    slope = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=False))
    assert slope == pytest.approx((f(*moved(1e-6)) - f(*moved(-1e-6))) / 2e-6, rel=1e-6)
    given = (*directions, *(None,) * (len(args) - len(floats)))
    assert nb.tangent(f).jvp(args, given)[1] == pytest.approx(slope, rel=1e-10)
    np.testing.assert_allclose(adj.vjp(*args)(1.0)[0], gradients[0], rtol=1e-10, atol=1e-12)
    up, down = (adj.value_and_grad(*moved(h))[1] for h in (1e-5, -1e-5))
    for product, high, low in zip(adj.hvp(args, given), up, down, strict=True):
        if product is not None:
            scale = np.max(np.abs(product))
            np.testing.assert_allclose(product, (high - low) / 2e-5, rtol=1e-5, atol=1e-6 * scale)


def test_the_code_is_chosen_at_each_call():
    adj, args = nb.adjoint(recurrence), PROGRAMS[3][1]
    first = adj.value_and_grad(*args)
    for given, by_lapack in ((small(args), False), (args, True), (small(args), False), (args, True)):
        value, gradients = adj.value_and_grad(*given)
        assert value == pytest.approx(recurrence(*given), rel=1e-12)
        assert ("lapack_" in adj.source) == by_lapack
    np.testing.assert_array_equal(gradients[0], first[1][0])


def test_functions_without_linear_algebra_have_one_variant():
    def product(A, x):
        return np.sum(A @ x)

    adj = nb.adjoint(product)
    adj.value_and_grad(A, X)
    adj.value_and_grad(A[:3, :3].copy(), X[:3])
    assert len(set(map(id, adj._programs.values()))) == 1


def test_singular_matrices():
    adj = nb.adjoint(recurrence)
    for n in (4, 20):
        with pytest.raises(ValueError, match="singular"):
            adj.value_and_grad(np.ones((n, n)), np.ones(n), 2)


def determinant(A):
    return np.linalg.det(A)


def logarithm(A):
    sign, value = np.linalg.slogdet(A)
    return sign if value == -np.inf else value


@pytest.mark.parametrize("n", [2, 4, 20])
def test_determinants_of_singular_matrices(n):
    singular = np.ones((n, n))
    for f in (determinant, logarithm)[: 1 + (n < 16)]:  # LAPACK's logarithm refuses singular matrices
        assert f(singular) == 0.0
        assert nb.tangent(f).jvp((singular,), (None,))[0] == 0.0
    _, (gradient,) = nb.adjoint(determinant).value_and_grad(np.diag([3.0, 2.0, 0.0]))
    np.testing.assert_allclose(gradient, np.diag([0.0, 0.0, 6.0]), atol=1e-14)
    first_column_zero = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 3.0], [0.0, 4.0, 1.0]])
    _, (gradient,) = nb.adjoint(determinant).value_and_grad(first_column_zero)
    np.testing.assert_allclose(gradient, [[-11.0, 0.0, 0.0], [7.0, 0.0, 0.0], [1.0, 0.0, 0.0]], atol=1e-14)
    for rank in range(n if n < 16 else 0):
        a = np.random.default_rng(rank).normal(size=(2, n, rank))
        singular = a[0] @ a[1].T
        _, (gradient,) = nb.adjoint(determinant).value_and_grad(singular)
        u, s, vt = np.linalg.svd(singular)
        others = [np.prod(np.delete(s, k)) for k in range(n)]
        cofactors = np.linalg.det(u) * np.linalg.det(vt) * (u * others) @ vt
        np.testing.assert_allclose(gradient, cofactors, rtol=1e-9, atol=1e-13)
    _, (gradient,) = nb.adjoint(determinant).value_and_grad(np.ones((4, 4)))
    np.testing.assert_array_equal(gradient, 0.0)


def test_float32_and_checkpoints_take_loops():
    args = PROGRAMS[3][1]
    _, exact = nb.adjoint(recurrence).value_and_grad(*args)
    adj = nb.adjoint(recurrence)
    _, gradients = adj.value_and_grad(args[0].astype("float32"), args[1].astype("float32"), 4)
    assert gradients[0].dtype == np.float32
    assert "lapack_" not in adj.source
    np.testing.assert_allclose(gradients[0], exact[0], rtol=1e-2, atol=1e-4)
    _, gradients = nb.adjoint(recurrence, checkpoint=2).value_and_grad(*args)
    np.testing.assert_allclose(gradients[0], exact[0], rtol=1e-10, atol=1e-13)
