"""nbgrad.scipy.linalg: values are SciPy's, derivatives of first and second order those of differences."""

import numpy as np
import pytest
import scipy.linalg

import nbgrad as nb
from nbgrad.errors import AttrError, LinAlgError, ShapeError
from nbgrad.scipy import linalg
from nbgrad.testing import check_grads

rng = np.random.default_rng(7)
A = rng.normal(size=(3, 3)) * 0.6
P = A @ A.T + 2 * np.eye(3)  # positive definite
S = A + A.T
B = rng.normal(size=(3, 2))
V = rng.normal(size=3)
L = np.tril(A) + 2 * np.eye(3)

#: Function, arguments, keywords.
CASES = [
    ("inv", (P,), {}), ("det", (A,), {}), ("pinv", (rng.normal(size=(4, 3)),), {}),
    ("solve", (P, V), {}), ("solve", (P, B), {"assume_a": "pos"}),
    ("solve", (P, B), {"assume_a": "pos", "lower": True}),
    ("solve", (A + 3 * np.eye(3), V), {"transposed": True}), ("solve", (P, V), {"assume_a": "sym", "lower": True}),
    ("cholesky", (P,), {}), ("cholesky", (P,), {"lower": True}),
    ("solve_triangular", (L, V), {"lower": True}), ("solve_triangular", (L.T, B), {}),
    ("solve_triangular", (L, B), {"lower": True, "trans": 1}), ("solve_triangular", (L.T, V), {"trans": "T"}),
    ("solve_triangular", (A, B), {"lower": True, "unit_diagonal": True}),
    ("solve_triangular", (A, V), {"unit_diagonal": True, "check_finite": False}),
    ("expm", (A,), {}), ("expm", (rng.normal(size=(2, 3, 3)),), {}), ("logm", (P,), {}), ("logm", (P + 0.3 * A,), {}),
    ("sqrtm", (P,), {}), ("sqrtm", (P + 0.3 * A,), {}), ("cosm", (A,), {}), ("sinm", (A,), {}), ("coshm", (A,), {}),
    ("sinhm", (A,), {}),
    ("solve_sylvester", (P, A[:2, :2] + 2 * np.eye(2), B), {}), ("solve_continuous_lyapunov", (P, S), {}),
    ("solve_discrete_lyapunov", (0.4 * A, S), {}), ("solve_discrete_lyapunov", (0.4 * A, S), {"method": "bilinear"}),
    ("block_diag", (A, B, V), {}), ("toeplitz", (V,), {}), ("toeplitz", (V, B[:, 0]), {}), ("hankel", (V,), {}),
    ("hankel", (V, B[:, 0]), {}), ("circulant", (V,), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "keywords"), CASES, ids=[f"{k}-{c[0]}" for k, c in enumerate(CASES)])
def test_values_and_derivatives(name, args, keywords):
    ours, theirs = getattr(linalg, name), getattr(scipy.linalg, name)
    before = [a.copy() for a in args]
    found, expected = ours(*args, **keywords), theirs(*args, **keywords)
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-12, atol=1e-13)
    assert found.dtype == expected.dtype
    check_grads(lambda *a: ours(*a, **keywords), args, order=2)
    for a, b in zip(args, before, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("name", "args", "keywords"), CASES, ids=[f"{k}-{c[0]}" for k, c in enumerate(CASES)])
def test_compiled(name, args, keywords):
    """Under jit, value and gradient are the same."""
    weights = np.cos(np.arange(getattr(linalg, name)(*args, **keywords).size))

    def loss(*a):
        return nb.np.sum(getattr(linalg, name)(*a, **keywords).reshape(-1) * weights)

    for f in (loss, nb.grad(loss, argnums=tuple(range(len(args))))):
        found, expected = nb.jit(f)(*args), f(*[nb.np.array(a) for a in args])
        for x, y in zip(tuple_of(found), tuple_of(expected), strict=True):
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-11, atol=1e-12)


def tuple_of(x):
    return x if isinstance(x, tuple) else (x,)


def test_factors():
    """Pairs of factors, by what they must satisfy; and what is computed of them, by differences."""
    (w, v), (theirs, _) = linalg.eigh(S, P), scipy.linalg.eigh(S, P)
    np.testing.assert_allclose(w.asnumpy(), theirs, rtol=1e-12)
    np.testing.assert_allclose((v.T @ P @ v).asnumpy(), np.eye(3), atol=1e-12)
    np.testing.assert_allclose((S @ v - P @ v * w).asnumpy(), 0, atol=1e-12)
    np.testing.assert_allclose(linalg.eigvalsh(np.triu(S), lower=False).asnumpy(), scipy.linalg.eigvalsh(S), rtol=1e-12)
    check_grads(lambda a, b: linalg.eigvalsh(a, b), (S, P), order=2)
    u, s, vt = linalg.svd(B, full_matrices=False)
    np.testing.assert_allclose((u * s @ vt).asnumpy(), B, atol=1e-12)
    q, r = linalg.qr(B, mode="economic")
    np.testing.assert_allclose((q @ r).asnumpy(), B, atol=1e-12)
    (r,) = linalg.qr(B, mode="r")
    np.testing.assert_allclose(np.abs(r.asnumpy()), np.abs(scipy.linalg.qr(B, mode="r")[0]), atol=1e-14)
    x, residuals, rank, values = linalg.lstsq(B, V)
    for mine, other in zip(
        (x, residuals, values), np.array(scipy.linalg.lstsq(B, V), dtype=object)[[0, 1, 3]], strict=True
    ):
        np.testing.assert_allclose(mine.asnumpy().squeeze(), other, rtol=1e-12)
    assert rank == 2
    check_grads(lambda p, b: linalg.cho_solve(linalg.cho_factor(p), b), (P, V), order=2)
    check_grads(lambda p, b: linalg.cho_solve(linalg.cho_factor(p, True), b), (P, B), order=2)
    ab = np.array([[0.0, 1.0, 2.0], [4.0, 5.0, 6.0], [1.0, 2.0, 0.0]])
    np.testing.assert_allclose(linalg.solve_banded((1, 1), ab, V).asnumpy(), scipy.linalg.solve_banded((1, 1), ab, V))
    check_grads(lambda m, b: linalg.solve_banded((1, 1), m, b), (ab, V), order=2)


def test_float32_and_integers():
    assert linalg.expm(A.astype(np.float32)).dtype == np.float32
    assert linalg.sqrtm(P.astype(np.float32)).dtype == np.float32
    assert linalg.solve_sylvester(P.astype(np.float32), P.astype(np.float32), S.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(linalg.expm([[0, 1], [0, 0]]).asnumpy(), [[1, 1], [0, 1]])
    assert linalg.toeplitz([1, 2, 3]).tolist() == scipy.linalg.toeplitz([1, 2, 3]).tolist()
    assert linalg.block_diag([[1]], [2.5]).dtype == np.float64
    assert linalg.expm(np.zeros((0, 0))).shape == (0, 0)


def test_third_derivatives():
    """Of the exponential of a number times a matrix: products with the matrix."""
    f = lambda t: linalg.expm(t * nb.np.array(A))[0, 1]  # noqa: E731
    third = nb.grad(nb.grad(nb.grad(f)))(0.7)
    np.testing.assert_allclose(float(third), (scipy.linalg.expm(0.7 * A) @ A @ A @ A)[0, 1], rtol=1e-12)
    assert float(nb.jit(nb.grad(nb.grad(f)))(0.7)) == pytest.approx(
        (scipy.linalg.expm(0.7 * A) @ A @ A)[0, 1], rel=1e-12
    )


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: linalg.expm(B), LinAlgError, "expm: square matrices are expected, got an array of shape"),
        (lambda: linalg.sqrtm(-P), LinAlgError, "sqrtm: the result is complex"),
        (lambda: linalg.logm([[1.0, 0.0], [0.0, -1.0]]), LinAlgError, "logm: the result is complex"),
        (lambda: linalg.solve_triangular(B, V), LinAlgError, "square matrices are expected"),
        (lambda: linalg.solve_triangular(A, V[:2]), ShapeError, "got the shapes|shapes"),
        (lambda: linalg.solve_triangular(A, V, trans=3), AttrError, "trans is 0, 1, 2"),
        (lambda: linalg.solve(A, V, assume_a="banded"), AttrError, "assume_a is 'gen', 'sym', 'her' or 'pos'"),
        (lambda: linalg.cholesky(-P), LinAlgError, "positive definite"),
        (lambda: linalg.solve_sylvester(A, A, B), LinAlgError, r"q must have the shape \(3, 3\)"),
        (
            lambda: linalg.solve_discrete_lyapunov(A, S, method="x"),
            ValueError,
            "the methods are 'direct' and 'bilinear'",
        ),
        (lambda: nb.grad(lambda b: linalg.qr(b)[1].sum())(B), AttrError, "mode='reduced'"),
        (lambda: linalg.solve_sylvester([[1.0]], [[-1.0]], [[1.0]]), LinAlgError, "there is no single solution"),
        (lambda: linalg.solve_sylvester(P, -P, S), LinAlgError, "there is no single solution"),
        (lambda: linalg.solve_continuous_lyapunov(np.zeros((2, 2)), np.eye(2)), LinAlgError, "no single solution"),
        (lambda: linalg.svd(A, lapack_driver="gesvd"), TypeError, "unexpected keyword argument 'lapack_driver'"),
        (lambda: linalg.block_diag(np.zeros((1, 1, 1))), ShapeError, "got an array of shape"),
        (lambda: linalg.solve_banded((1, 1), A[:2], V), ShapeError, "ab must have 3 rows"),
        (lambda: linalg.pinv(A, atol=1.0), AttrError, "give rtol"),
    ],
)
def test_bad_input(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_functions_that_call_themselves_are_compiled():
    """The derivative of a Function may be the Function again, of a larger array: it is tried once, not for ever."""

    class Doubled(nb.autograd.Function):
        def forward(self, x):
            return nb.np.array(x.asnumpy() * 2)

        def backward(self, g):
            return Doubled()(nb.np.concatenate([g, g]))[: g.shape[0]]

    f = lambda x: nb.np.sum(Doubled()(x) * x)  # noqa: E731
    np.testing.assert_allclose(nb.jit(f)(V), 2 * V @ V)
    np.testing.assert_allclose(np.asarray(nb.jit(nb.grad(f))(V)), 4 * V)
