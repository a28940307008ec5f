"""Eigenvalues, singular values, QR factors, least squares and the like in loops: by LAPACK, with rules of their own."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

RNG = np.random.default_rng(0)


def eigenvalues(A, B):
    """The vectors occur in products that do not depend on their signs."""
    w, v = np.linalg.eigh(A)
    return np.sum(w**3) + np.sum((v @ np.diag(np.sin(w)) @ v.T) * B) + np.linalg.eigvalsh(B, "U")[0]


def singular_values(A, B):
    u, s, vt = np.linalg.svd(A, full_matrices=False)
    return np.sum(s**3) + np.sum((u @ np.diag(np.sin(s)) @ vt) * B)


def norms(A, B):
    only = np.linalg.svd(B, compute_uv=False)
    return np.linalg.norm(A, "nuc") + np.linalg.norm(A, 2) ** 2 - np.linalg.norm(B, -2) + np.linalg.cond(A) + only[1]


def inverse(A, B):
    return np.sum(np.linalg.pinv(A) * B.T)


def least_squares(A, B):
    x, residuals, rank, s = np.linalg.lstsq(A, B[:, 0], rcond=None)
    several = np.linalg.lstsq(A, B)[0]
    return np.sum(np.sin(x)) + np.sum(residuals**2) + rank + np.log(s[0]) + np.sum(several**3)


def orthogonal(A, B):
    q, r = np.linalg.qr(A)
    return np.sum(np.sin(q) @ r * B) + np.sum(r**3) + np.linalg.qr(B, mode="r")[0, 0]


def determinant(A, B):
    return np.linalg.det(A) ** 2 * np.sum(B)


def several_products(A, B):
    C = np.linalg.multi_dot([A, B.T, A])
    D = np.linalg.multi_dot((A, B.T, A, B[0]))
    return np.sum(C**2) + np.sum(D * A[:, 0]) + np.linalg.multi_dot([A[:, 0], B, A[0]])


def power_of_two_steps(A, B):
    """In a loop, where results are stored."""
    total, X = 0.0, A.copy()
    for k in range(3):
        w, v = np.linalg.eigh(X)
        X = 0.1 * k * B + (v * np.sin(w)) @ v.T
        total += w[0]
    return total + np.sum(X**2)


def matrices(*shape, scale=1.0):
    rng = np.random.default_rng(1)
    return tuple(rng.normal(size=shape) * scale for _ in range(2))


CASES = [
    (eigenvalues, matrices(4, 4)),
    (singular_values, matrices(4, 3)),
    (singular_values, matrices(3, 5)),
    (norms, matrices(4, 3)),
    (inverse, matrices(4, 3)),
    (inverse, matrices(3, 4)),
    (least_squares, matrices(5, 3)),
    (least_squares, matrices(3, 5)),
    (orthogonal, matrices(19, 17)),
    (orthogonal, matrices(17, 19)),
    (orthogonal, matrices(4, 3)),
    (determinant, matrices(17, 17, scale=0.3)),
    (several_products, matrices(4, 3)),
    (power_of_two_steps, matrices(4, 4)),
]


def directions_of(args):
    return tuple(np.cos(np.arange(a.size) + k).reshape(a.shape) for k, a in enumerate(args))


@pytest.mark.parametrize(("f", "args"), CASES)
def test_derivatives(f, args):
    directions = directions_of(args)

    def moved(h):
        return tuple(a + h * d for a, d in zip(args, directions, strict=True))

    with uncompiled():
        adj = nb.adjoint(f)
        value, gradients = adj.value_and_grad(*args)
        assert value == pytest.approx(f(*args), rel=1e-11)
        slope = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True))
        assert slope == pytest.approx((f(*moved(1e-6)) - f(*moved(-1e-6))) / 2e-6, rel=1e-6)
        assert nb.tangent(f).jvp(args, directions)[1] == pytest.approx(slope, rel=1e-10)
        up, down = (adj.value_and_grad(*moved(h))[1] for h in (1e-5, -1e-5))
        for product, high, low in zip(adj.hvp(args, directions), up, down, strict=True):
            np.testing.assert_allclose(product, (high - low) / 2e-5, rtol=1e-5, atol=1e-6 * np.max(np.abs(product)))


@pytest.mark.parametrize("k", [0, 1, 3, 4, 6, 8, 11, 12, 13], ids=lambda k: CASES[k][0].__name__)
def test_compiled(k):
    """Each function once; the second derivatives of all of them take minutes to compile."""
    f, args = CASES[k]
    directions = directions_of(args)

    def derivatives():
        adj = nb.adjoint(f)
        first = *adj.value_and_grad(*args)[1], nb.tangent(f).jvp(args, directions)[1]
        return (*first, *adj.hvp(args, directions)) if f in (inverse, determinant) else first

    with uncompiled():
        expected = derivatives()
    for a, b in zip(derivatives(), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10 * np.max(np.abs(b)))


def lower_triangle(A):
    w, v = np.linalg.eigh(A)
    return np.sum(np.exp(w)) + v[0, 0] ** 2


def upper_triangle(A):
    w, v = np.linalg.eigh(A, UPLO="U")
    return np.sum(np.exp(w)) + v[0, 0] ** 2


def test_one_triangle_is_read():
    A = RNG.normal(size=(4, 4))
    _, (lower,) = nb.adjoint(lower_triangle).value_and_grad(A)
    np.testing.assert_array_equal(np.triu(lower, 1), 0.0)
    _, (upper,) = nb.adjoint(upper_triangle).value_and_grad(np.ascontiguousarray(A.T))
    np.testing.assert_allclose(upper, lower.T, rtol=1e-13)
    for i, j in ((2, 1), (3, 3)):
        h = np.zeros((4, 4))
        h[i, j] = 1e-6
        assert lower[i, j] == pytest.approx((lower_triangle(A + h) - lower_triangle(A - h)) / 2e-6, rel=1e-6)


def values_alone(A):
    return np.sum(np.linalg.eigvalsh(A) ** 3)


def vectors(A):
    _, v = np.linalg.eigh(A)
    return v[0, 1]


def nuclear(A):
    return np.sum(np.linalg.svd(A, full_matrices=False)[1])


def first_vectors(A):
    u, _, vt = np.linalg.svd(A, full_matrices=False)
    return u[0, 0] * vt[0, 1]


def test_equal_values():
    """Functions of the values alone have derivatives; those of vectors do not, which NaN says, as on the tape."""
    A = np.eye(3)
    np.testing.assert_allclose(nb.adjoint(values_alone).value_and_grad(A)[1][0], 3 * A, atol=1e-14)
    np.testing.assert_allclose(nb.adjoint(nuclear).value_and_grad(A)[1][0], A, atol=1e-14)
    assert np.isnan(nb.adjoint(vectors).value_and_grad(A)[1][0]).any()
    assert np.isnan(nb.adjoint(first_vectors).value_and_grad(A)[1][0]).any()


def test_inverse_with_equal_values():
    """That of a pseudo-inverse exists: minus the cotangent's transpose at the unit matrix."""
    adj, B = nb.adjoint(inverse), RNG.normal(size=(3, 3))
    np.testing.assert_allclose(adj.value_and_grad(np.eye(3), B)[1][0], -B.T, atol=1e-13)


def product_of_values(A):
    return np.linalg.det(A)


def test_determinant_of_large_singular_matrices():
    n, rng = 18, np.random.default_rng(2)
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    values = np.linspace(0.5, 2.0, n)
    values[0] = 0.0
    A = (left * values) @ right
    _, (gradient,) = nb.adjoint(product_of_values).value_and_grad(A)
    expected = np.linalg.det(left) * np.linalg.det(right) * np.prod(values[1:]) * np.outer(left[:, 0], right[0])
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12)
    assert nb.tangent(product_of_values).jvp((A,), (left,))[1] == pytest.approx(np.sum(expected * left), rel=1e-9)
    values[1] = 0.0
    _, (gradient,) = nb.adjoint(product_of_values).value_and_grad((left * values) @ right)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-13)


def rank(A, x):
    return np.linalg.matrix_rank(A) * x


def rank_above(A, x):
    return np.linalg.matrix_rank(A, tol=0.5) * x


def test_ranks():
    A = np.diag([2.0, 1.0, 0.1, 0.0])
    for f, expected in ((rank, 3), (rank_above, 2)):
        value, (passive, x_bar) = nb.adjoint(f).value_and_grad(A, 2.0)
        assert (value, x_bar) == (2.0 * expected, expected)
        np.testing.assert_array_equal(passive, 0.0)


def test_checkpoints():
    args = CASES[-1][1]
    _, expected = nb.adjoint(power_of_two_steps).value_and_grad(*args)
    _, found = nb.adjoint(power_of_two_steps, checkpoint=2).value_and_grad(*args)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11)


@pytest.mark.parametrize("f", [values_alone, nuclear, inverse, least_squares], ids=lambda f: f.__name__)
def test_float32(f):
    shape = (3, 3) if f is values_alone else (4, 3)
    args = matrices(*shape)[: f.__code__.co_argcount]
    _, exact = nb.adjoint(f).value_and_grad(*args)
    _, single = nb.adjoint(f).value_and_grad(*(a.astype("float32") for a in args))
    for a, b in zip(single, exact, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * np.max(np.abs(b)))


def all_vectors(A):
    u, _, _ = np.linalg.svd(A)
    return np.sum(u)


def test_all_vectors():
    """There are as many as the shorter side is long where a matrix is square."""
    A = matrices(3, 3)[0]
    check_derivatives(all_vectors, A)
    with pytest.raises(ValueError, match="full_matrices=False"):
        nb.adjoint(all_vectors).value_and_grad(A[:2])


def of_a_stack(A):
    return np.sum(np.linalg.eigvalsh(A))


def complete(A):
    q, _ = np.linalg.qr(A, mode="complete")
    return np.sum(q)


def of_one_factor(A):
    return np.sum(np.linalg.multi_dot([A]))


def other_condition(A):
    return np.linalg.cond(A, 1)


@pytest.mark.parametrize(
    ("f", "axes", "message"),
    [
        (of_a_stack, 3, "write a loop"),
        (complete, 2, "'reduced' and 'r'"),
        (of_one_factor, 2, "two or more"),
        (other_condition, 2, "condition number"),
    ],
)
def test_refused(f, axes, message):
    with pytest.raises(TraceError, match=message):
        nb.adjoint(f).value_and_grad(np.ones((2,) * axes))


def test_wrong_matrices():
    for A, message in ((np.ones((2, 3)), "not square"), (np.ones((0, 0)), "without elements"),
                       (np.full((2, 2), np.nan), "infs or NaNs")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            nb.adjoint(values_alone).value_and_grad(A)
    for A, message in ((np.ones((0, 3)), "without elements"), (np.full((2, 2), np.inf), "infs or NaNs")):
        with pytest.raises(ValueError, match=message):
            nb.adjoint(nuclear).value_and_grad(A)
    with pytest.raises(ValueError, match="another length"):
        nb.adjoint(least_squares).value_and_grad(np.ones((4, 2)), np.ones((3, 2)))
