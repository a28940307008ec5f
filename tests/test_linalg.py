"""Linear algebra: what the tables of samples cannot say.

Values and gradients of MXNet 1.9.1, taken from it; derivatives of functions of symmetric matrices; singular and
degenerate matrices; empty stacks; errors that say which matrix.
"""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.core.registry import operators
from nbgrad.testing import check_grads

L = nd.linalg
S = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
UNREAD = np.array([[4.0, 99.0, 99.0], [1.0, 3.0, 99.0], [0.5, 0.2, 2.0]])
STACK = np.stack([S, np.array([[2.0, -0.3, 0.4], [-0.3, 1.0, 0.1], [0.4, 0.1, 5.0]])])


def symmetric(a):
    return (a + nd.swapaxes(a, dim1=-1, dim2=-2)) * 0.5


def value_and_grad(f, x, heads=None):
    x = nd.array(np.asarray(x, dtype="float64"))
    x.attach_grad()
    with autograd.record():
        ys = f(x)
    ys = ys if isinstance(ys, list) else [ys]
    autograd.backward(ys, heads and [nd.array(h) for h in heads])
    return [y.asnumpy() for y in ys], x.grad.asnumpy()


def test_namespace_and_flat_names():
    for name, call in vars(L).items():
        assert operators[f"linalg_{name}"].call is call
        assert getattr(nd, f"linalg_{name}") is call
        assert getattr(nd, f"_linalg_{name}") is call
    of_mxnet = """gemm gemm2 potrf potri trmm trsm syrk gelqf syevd sumlogdiag makediag extractdiag maketrian
        extracttrian det slogdet inverse"""
    assert {*of_mxnet.split(), "solve", "svd", "eigh", "qr", "cholesky", "pinv", "expm"} == set(vars(L))


# What MXNet gives. Head gradients are 1/7, 2/7, ... in each result.


def heads(*shapes):
    return [np.arange(1.0, 1 + np.prod(s)).reshape(s) / 7 % 1.3 for s in shapes]


@pytest.mark.parametrize("a", [S, UNREAD])
def test_potrf_is_that_of_mxnet(a):
    (y,), g = value_and_grad(L.potrf, a, heads((3, 3)))
    expected = [[2, 0, 0], [0.5, 1.6583123951777, 0], [0.25, 0.04522670168666455, 1.391206147720224]]
    np.testing.assert_allclose(y, expected, rtol=1e-14)
    gradient = [
        [0.009613423762250254, 0.049781589847612016, 0.10924371592105962],
        [0.04978158984761201, 0.20631119040133078, 0.3319820432735851],
        [0.10924371592105965, 0.3319820432735851, 0.4620861860843527],
    ]
    np.testing.assert_allclose(g, gradient, rtol=1e-12)


def test_upper_potrf_is_that_of_mxnet():
    (y,), g = value_and_grad(lambda a: L.potrf(a, lower=False), S, heads((3, 3)))
    assert (y == L.potrf(nd.array(S)).asnumpy().T).all()
    np.testing.assert_allclose(g[0], [0.04009041826390274, -0.011466079036775203, -0.01207690232338584], rtol=1e-12)


@pytest.mark.parametrize("a", [S, UNREAD])
def test_syevd_is_that_of_mxnet(a):
    (u, w), g = value_and_grad(L.syevd, a, heads((3, 3), (3,)))
    rows = [
        [-0.25304236163525423, 0.05343872082877554, 0.9659781914382112],
        [-0.4819496604261803, 0.8587971746720291, -0.17375827344454664],
        [0.8388647614682253, 0.5095210652088139, 0.1915572918876564],
    ]
    np.testing.assert_allclose(u, rows, rtol=1e-12)
    np.testing.assert_allclose(w, [1.8800869029150526, 2.398343019336998, 4.721570077747948], rtol=1e-14)
    gradient = [
        [0.5976667443003512, -0.1674230729568174, -0.0624486716069528],
        [-0.1674230729568174, 0.24623424048958015, 0.5469902835160816],
        [-0.0624486716069528, 0.5469902835160816, 0.013241872352925631],
    ]
    np.testing.assert_allclose(g, gradient, rtol=1e-11)
    np.testing.assert_allclose(u.T @ np.diag(w) @ u, S, rtol=1e-13)


def test_gelqf_is_that_of_mxnet():
    a = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]])
    (q, low), g = value_and_grad(L.gelqf, a, heads((2, 3), (2, 2)))
    np.testing.assert_allclose(low, [[-3.7416573867739413, 0], [-8.953251604066217, 1.757636399909185]], rtol=1e-13)
    np.testing.assert_allclose(low @ q, a, rtol=1e-14)
    gradient = [
        [-1.7576159872917163, -0.3445157836392959, 0.6373750235818192],
        [0.4023230130261339, -0.14391032836428913, -0.5726899359240337],
    ]
    np.testing.assert_allclose(g, gradient, rtol=1e-11)


def test_triangles_that_are_read():
    a = np.array([[2.0, 9.0, 8.0], [0.5, 1.5, 7.0], [0.3, -0.4, 1.2]])  # the upper triangle is not
    b = np.arange(6.0).reshape(3, 2) / 3 + 0.2
    for f in (lambda x: L.trsm(x, nd.array(b)), lambda x: L.trmm(x, nd.array(b)), L.potri):
        (y,), g = value_and_grad(f, a)
        assert (np.triu(g, 1) == 0).all()
        assert (y == f(nd.array(np.tril(a))).asnumpy()).all()
    (y,), g = value_and_grad(L.potri, a, heads((3, 3)))
    np.testing.assert_allclose(y[2], [-0.150462962962963, 0.1851851851851852, 0.6944444444444445], rtol=1e-13)
    np.testing.assert_allclose(g[2], [-0.5539021164021165, -0.8316798941798942, -1.7563657407407411], rtol=1e-13)


def test_offsets_as_in_mxnet():
    x = nd.array([1.0, 2.0, 3.0])
    assert L.maketrian(x, offset=-1).tolist() == [[0, 0, 0], [1, 0, 0], [2, 3, 0]]
    assert L.maketrian(x, offset=1).tolist() == [[0, 1, 2], [0, 0, 3], [0, 0, 0]]
    assert L.maketrian(x, lower=False).tolist() == [[1, 2], [0, 3]]
    assert L.makediag(x[:2], offset=1).tolist() == [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    a = nd.array([[1.0, 2.0], [3.0, 4.0]])
    assert L.extracttrian(a).tolist() == [1, 3, 4]
    assert L.extracttrian(a, offset=1).tolist() == [2]
    assert L.extracttrian(a, offset=-1, lower=False).tolist() == [3]
    assert L.extractdiag(a, 1).tolist() == [2]
    assert L.extractdiag(a, 5).shape == (0,)
    assert L.det(a).shape == L.sumlogdiag(a).shape == L.slogdet(a)[0].shape == (1,)


# Symmetric matrices.


@pytest.mark.parametrize("name", ["potrf", "cholesky"])
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky_derivatives(name, lower):
    f = getattr(L, name)
    check_grads(lambda a: nd.sin(f(symmetric(a), lower=lower)), [STACK[:, :2, :2]], order=3)
    check_grads(lambda a: nd.sin(f(symmetric(a), lower=lower)), [STACK], order=2)


@pytest.mark.parametrize("name", ["syevd", "eigh"])
def test_eigen_derivatives(name):
    f = getattr(L, name)
    check_grads(lambda a: [nd.sin(y) for y in f(symmetric(a))], [STACK[:, :2, :2]], order=3)
    check_grads(lambda a: [nd.sin(y) for y in f(symmetric(a))], [STACK], order=2)


def test_log_determinant_three_ways():
    x = nd.array(STACK)
    ways = [L.slogdet(x)[1], nd.log(L.det(x)), 2 * L.sumlogdiag(L.potrf(x)), nd.sum(nd.log(L.eigh(x)[0]), axis=1)]
    for y in ways:
        np.testing.assert_allclose(y.asnumpy(), np.log(np.linalg.det(STACK)), rtol=1e-13)


def test_exponential_of_a_symmetric_matrix_through_its_eigenvalues():
    w, v = L.eigh(nd.array(STACK))
    through = nd.batch_dot(v * nd.expand_dims(nd.exp(w), axis=1), v, transpose_b=True)
    np.testing.assert_allclose(through.asnumpy(), L.expm(nd.array(STACK)).asnumpy(), rtol=1e-12, atol=1e-12)


# Where eigenvalues or singular values coincide.


def through_eigenvalues(a):
    w, v = L.eigh(symmetric(a))
    return nd.dot(v * nd.exp(w), v.T)


@pytest.mark.parametrize("n", [2, 3])
def test_gradient_at_coinciding_eigenvalues(n):
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(n, n)))[0]
    for a in (np.eye(n), q @ np.diag([1.0, 1.0, 3.0][:n]) @ q.T):
        _, g = value_and_grad(lambda x: nd.sum(L.eigh(symmetric(x))[0] ** 2), a)
        np.testing.assert_allclose(g, 2 * a, atol=1e-14)  # of the eigenvalues alone
        _, g = value_and_grad(lambda x: nd.sin(through_eigenvalues(x)), a)
        assert np.isnan(g).any()  # the derivative is there, but not to be had from one choice of vectors
    projector = q[:, -1:] @ q[:, -1:].T
    a = np.eye(n) + 2 * projector  # all but one coincide; the function is of that one
    check_grads(lambda x: nd.sin(L.eigh(symmetric(x))[1][:, -1:] ** 2), [a], order=1, modes=["backward"])


def test_second_derivative_at_coinciding_eigenvalues_is_nan():
    x = nd.array(np.eye(2))
    x.attach_grad()
    with autograd.record():
        y = nd.sum(L.eigh(x)[0] ** 2)
        g = autograd.grad(y, x, create_graph=True)
    assert g.asnumpy().tolist() == [[2, 0], [0, 2]]
    g.backward()
    assert np.isnan(x.grad.asnumpy()).any()


def test_gradient_at_coinciding_singular_values():
    a = np.vstack([np.eye(2), np.zeros((1, 2))])
    (y,), g = value_and_grad(lambda x: nd.sum(L.svd(x)[1]), a)
    assert y.tolist() == [2.0]
    np.testing.assert_allclose(g, a, atol=1e-15)
    _, g = value_and_grad(lambda x: nd.sum(L.svd(x)[1] ** 2), np.zeros((3, 2)))
    assert (g == 0).all()
    _, g = value_and_grad(lambda x: L.svd(x)[0], np.zeros((3, 2)))
    assert np.isnan(g).any()


def test_svd_derivatives():
    random = np.random.default_rng(3)
    for shape in [(3, 3), (2, 3, 2), (2, 4)]:
        a = random.normal(size=shape)
        u, s, vt = L.svd(nd.array(a))
        np.testing.assert_allclose((u.asnumpy() * s.asnumpy()[..., None, :]) @ vt.asnumpy(), a, rtol=1e-12)
        check_grads(lambda x: [nd.sin(y) for y in L.svd(x)], [a], order=2)


def test_derivatives_of_wide_and_tall_factors():
    random = np.random.default_rng(4)
    for shape in [(2, 4), (4, 2), (3, 3)]:
        check_grads(lambda x: [nd.sin(y) for y in L.qr(x)], [random.normal(size=shape)], order=2)


def test_pseudo_inverse_of_low_rank():
    a = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    np.testing.assert_allclose(L.pinv(nd.array(a)).asnumpy(), np.linalg.pinv(a), rtol=1e-14)
    check_grads(lambda x, y: nd.sin(L.pinv(nd.outer(x, y))), [[1.0, 2.0, 3.0], [1.0, -1.0]], order=2)
    assert L.pinv(nd.zeros((2, 3))).asnumpy().tolist() == [[0, 0]] * 3
    x = nd.array([[2.0, 0.0], [0.0, 0.1]])
    np.testing.assert_allclose(L.pinv(x, rcond=0.1).asnumpy(), [[0.5, 0], [0, 0]], atol=1e-7)


# Singular matrices.


def test_determinant_of_singular_matrices():
    a = np.array([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [0.0, 4.0]]])
    (y,), g = value_and_grad(L.det, a)
    np.testing.assert_allclose(y, [0, 0, 4], atol=1e-15)
    cofactors = [[[4, -2], [-2, 1]], [[0, 0], [0, 0]], [[4, 0], [-2, 1]]]
    np.testing.assert_allclose(g, cofactors, atol=1e-14)
    x = nd.array(a[0])
    x.attach_grad()
    with autograd.record():
        y = L.det(x)
        g = autograd.grad(y, x, create_graph=True)
    with pytest.raises(nb.NBGradError, match="linalg_det, second derivative: matrix 0 of 1 is singular"):
        g.backward()


def test_slogdet_of_singular_and_negative_matrices():
    a = np.array([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]]])
    (sign, log), g = value_and_grad(L.slogdet, a)
    assert sign.tolist() == [0, -1]
    assert log.tolist() == [-np.inf, 0]
    assert g.tolist() == [[[0, 0], [0, 0]], [[0, 1], [1, 0]]]
    assert L.det(nd.array(a)).asnumpy()[1] == -1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_determinants_that_overflow(dtype):
    x = nd.array(np.eye(200) * 1e3, dtype=dtype)
    assert L.det(x).asnumpy()[0] == np.inf or dtype == "float64"
    sign, log = L.slogdet(x)
    assert sign.asnumpy()[0] == 1
    np.testing.assert_allclose(log.asnumpy(), 200 * np.log(1e3), rtol=1e-6)


# Sizes.


def test_stacks_and_large_matrices():
    random = np.random.default_rng(5)
    for shape in [(2, 3, 4, 4), (70, 70)]:
        a = random.normal(size=shape)
        n = shape[-1]
        b = random.normal(size=(*shape[:-1], 3))
        s = a @ a.swapaxes(-1, -2) + n * np.eye(n)
        for found, expected in [
            (L.inverse(nd.array(s)), np.linalg.inv(s)),
            (L.solve(nd.array(a), nd.array(b)), np.linalg.solve(a, b)),
            (L.potrf(nd.array(s)), np.linalg.cholesky(s)),
            (L.syevd(nd.array(s))[1], np.linalg.eigvalsh(s)),
            (L.slogdet(nd.array(a))[1], np.atleast_1d(np.linalg.slogdet(a)[1])),
            (L.trsm(L.potrf(nd.array(s)), nd.array(b)), np.linalg.solve(np.linalg.cholesky(s), b)),
        ]:
            np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-9, atol=1e-12)


SQUARE = [
    "potrf",
    "cholesky",
    "potri",
    "syevd",
    "eigh",
    "inverse",
    "det",
    "slogdet",
    "expm",
    "svd",
    "qr",
    "gelqf",
    "pinv",
]


@pytest.mark.parametrize("shape", [(0, 2, 2), (3, 0, 2, 2), (0, 0), (2, 0, 0)])
@pytest.mark.parametrize("name", SQUARE)
def test_nothing_to_do(name, shape):
    x = nd.zeros(shape)
    x.attach_grad()
    with autograd.record():
        ys = getattr(L, name)(x)
        ys = ys if isinstance(ys, list) else [ys]
    autograd.backward(ys)
    assert x.grad.shape == shape
    if name == "det":
        assert (ys[0].asnumpy() == 1).all()


@pytest.mark.parametrize("name", SQUARE)
def test_one_by_one(name):
    f = getattr(L, name)
    check_grads(lambda x: f(x), [[[1.7]]], order=2)


def test_dtypes():
    a = S.astype("float32")
    assert L.inverse(nd.array(a)).dtype == np.float32
    assert L.inverse(nd.array(a.astype("float16"))).dtype == np.float16
    assert L.inverse(nd.array([[2, 0], [0, 4]], dtype="int32")).dtype == np.float32
    assert L.trsm(nd.array(a), nd.array(S)).dtype == np.float64


def test_solve_broadcasts():
    b = np.arange(6.0).reshape(2, 3, 1)
    np.testing.assert_allclose(L.solve(nd.array(S), nd.array(b)).asnumpy(), np.linalg.solve(S, b), rtol=1e-13)
    check_grads(lambda a, b: nd.sin(L.solve(a, b)), [S, b], order=2)


# Errors.


@pytest.mark.parametrize("name", ["potrf", "cholesky", "inverse", "potri"])
def test_which_matrix_it_is(name):
    a = np.stack([np.eye(2)] * 10)
    a[3] = a[7] = [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(nb.NBGradError, match=rf"linalg_{name}: matrix 3 of 10 .*1 more"):
        getattr(L, name)(nd.array(a))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["potrf", "syevd", "eigh", "svd", "pinv"])
def test_elements_that_are_not_finite(name, value):
    a = np.stack([np.eye(3), np.eye(3)])
    a[1, 2, 1] = value
    with pytest.raises(nb.NBGradError, match=rf"linalg_{name}: matrix 1 of 2 has elements that are not finite"):
        getattr(L, name)(nd.array(a))


@pytest.mark.parametrize("name", ["inverse", "det", "expm"])
def test_nan_gives_nan(name):
    assert np.isnan(getattr(L, name)(nd.array([[np.nan, 1.0], [2.0, 3.0]])).asnumpy()).any()


@pytest.mark.parametrize(
    "name", ["potrf", "potri", "syevd", "inverse", "det", "slogdet", "expm", "extractdiag", "sumlogdiag"]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 2)])
def test_what_is_not_square(name, shape):
    with pytest.raises(ValueError, match=rf"linalg_{name}: needs square matrices"):
        getattr(L, name)(nd.ones(shape))


@pytest.mark.parametrize(
    ("name", "shapes", "attrs"),
    [
        ("gemm", [(2, 3), (3, 2), (3, 3)], {}),
        ("gemm", [(2, 3), (2, 3), (2, 2)], {}),
        ("gemm2", [(2, 3), (2, 3)], {}),
        ("gemm2", [(2, 2, 3), (3, 2)], {}),
        ("gemm2", [(2, 2), (2, 2)], {"axis": 1}),
        ("gemm2", [(2, 2), (2, 2)], {"axis": 5}),
        ("gemm2", [(), ()], {}),
        ("gemm2", [(3,), (3,)], {}),
        ("trmm", [(2, 2), (3, 2)], {}),
        ("trsm", [(2, 2), (2, 3)], {"rightside": True}),
        ("trsm", [(2, 2), (1, 2, 3)], {}),
        ("trsm", [(2, 3), (2, 3)], {}),
        ("solve", [(2, 2), (3,)], {}),
        ("solve", [(2, 2), ()], {}),
        ("solve", [(4, 2, 2), (3, 2, 2)], {}),
        ("syrk", [(2,)], {}),
        ("gelqf", [(3, 2)], {}),
        ("svd", [(3,)], {}),
        ("qr", [()], {}),
        ("makediag", [()], {}),
        ("maketrian", [(4,)], {}),
        ("pinv", [(2, 2)], {"rcond": -1}),
        ("pinv", [(2, 2)], {"rcond": "small"}),
        ("gemm2", [(2, 2), (2, 2)], {"alpha": "half"}),
        ("trsm", [(2, 2), (2, 2)], {"alpha": None}),
        ("makediag", [(2,)], {"offset": 0.5}),
        ("extractdiag", [(2, 2)], {"offset": "1"}),
        ("maketrian", [(3,)], {"offset": 0.5}),
    ],
)
def test_what_does_not_fit(name, shapes, attrs):
    with pytest.raises((ValueError, IndexError), match=f"linalg_{name}: "):
        getattr(L, name)(*[nd.ones(s) for s in shapes], **attrs)


def test_singular_in_a_derivative():
    x = nd.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    x.attach_grad()
    with autograd.record():
        low = L.gelqf(nd.zeros((2, 3)) * x)[1]
    with pytest.raises(nb.NBGradError, match="linalg_gelqf, derivative: matrix 0 of 1 has a zero on its diagonal"):
        low.backward()
