"""Functions of bits in nbgrad.np: as NumPy's, of integers and bools; and what array API libraries ask besides."""

import inspect

import numpy
import pytest

import nbgrad as nb
import nbgrad.np as np
from nbgrad.errors import AttrError, DTypeError, ShapeError

FUNCTIONS = ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_integers(name, dtype):
    a = numpy.array([5, 200, 7, 0, 127, 3]).astype(dtype)
    b = numpy.array([1, 2, 9, 70, 3, 31]).astype(dtype)
    found, expected = getattr(np, name)(np.array(a), np.array(b)), getattr(numpy, name)(a, b)
    assert found.dtype == expected.dtype
    numpy.testing.assert_array_equal(found.asnumpy(), expected)
    numpy.testing.assert_array_equal(getattr(np, name)(np.array(a), 2).asnumpy(), getattr(numpy, name)(a, 2))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64"])
def test_operators(dtype):
    a, b = (numpy.array(v).astype(dtype) for v in ([5, 0, 7, 1], [3, 1, 0, 0]))
    x, y = np.array(a), np.array(b)
    for found, expected in ((x & y, a & b), (x | y, a | b), (x ^ y, a ^ b), (~x, ~a), (x & True, a & True)):
        assert found.dtype == expected.dtype
        numpy.testing.assert_array_equal(found.asnumpy(), expected)
    if dtype != "bool":
        numpy.testing.assert_array_equal((1 << x).asnumpy(), 1 << a)
        numpy.testing.assert_array_equal((x >> y).asnumpy(), a >> b)
    x &= y
    x ^= 1 if dtype != "bool" else True
    numpy.testing.assert_array_equal(x.asnumpy(), (a & b) ^ (1 if dtype != "bool" else True))


def test_shifts_by_more_than_the_width():
    a = numpy.array([5, -5], numpy.int32)
    for n in (32, 63, 64, 100):
        numpy.testing.assert_array_equal((np.array(a) << n).asnumpy(), a << n)
        numpy.testing.assert_array_equal((np.array(a) >> n).asnumpy(), a >> n)


def test_compiled_and_beside_masks():
    a, b = numpy.arange(8), numpy.arange(8)[::-1].copy()
    numpy.testing.assert_array_equal(nb.jit(lambda x, y: (x & y) ^ (x << 1) | ~y)(a, b), (a & b) ^ (a << 1) | ~b)
    gradient = nb.grad(lambda x: np.sum(np.where((np.array(a) & 1) == 0, x * x, 0.0)))(a * 1.0)
    numpy.testing.assert_array_equal(gradient, numpy.where(a & 1, 0.0, 2.0 * a))


def test_representation_of_floats():
    x = numpy.array([1.0, -0.0, 0.0, -numpy.inf, numpy.nan, -2.0])
    numpy.testing.assert_array_equal(np.signbit(np.array(x)).asnumpy(), numpy.signbit(x))
    for dtype in (numpy.float32, numpy.float64):
        u, v = x.astype(dtype), x[::-1].astype(dtype)
        found = np.nextafter(np.array(u), np.array(v))
        assert found.dtype == dtype
        numpy.testing.assert_array_equal(found.asnumpy(), numpy.nextafter(u, v))


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: np.array([1.0]) & 1, DTypeError, "integers and bools have bits here, got float64"),
        (lambda: ~np.array([1.0]), DTypeError, "use x.astype"),
        (lambda: np.left_shift(np.array([True]), np.array([True])), DTypeError, "arrays of integers are expected"),
        (lambda: np.vecdot(np.ones(3), np.ones(1)), ShapeError, "the lengths along the axis differ: 3 and 1"),
        (lambda: nb.grad(lambda x: np.sum(np.nextafter(x, 2.0)))(numpy.ones(2)), nb.NBGradError, "max_order is 0"),
        (
            lambda: nb.grad(lambda x: np.linalg.svd(x)[0].sum())(numpy.ones((2, 3))),
            AttrError,
            "use full_matrices=False",
        ),
    ],
)
def test_bad_input(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_empty_masks_select_nothing():
    x = np.array(numpy.arange(6.0).reshape(2, 3))
    for shape in ((0,), (2, 0), (0, 3), (0, 0)):
        mask = numpy.zeros(shape, bool)
        assert x[mask].shape == x.asnumpy()[mask].shape
    x[numpy.zeros((0,), bool)] = 5
    assert x.sum() == 15


def test_all_columns_of_what_is_not_recorded():
    a = numpy.random.default_rng(0).normal(size=(2, 3))
    u, s, vt = np.linalg.svd(np.array(a))
    numpy.testing.assert_allclose((u @ np.concatenate([np.diag(s), np.zeros((2, 1))], 1) @ vt).asnumpy(), a, atol=1e-14)


def test_complete_factors_of_what_is_not_recorded():
    a = numpy.random.default_rng(0).normal(size=(3, 2))
    q, r = np.linalg.qr(np.array(a), "complete")
    assert q.shape == (3, 3)
    assert r.shape == (3, 2)
    numpy.testing.assert_allclose((q @ r).asnumpy(), a, atol=1e-14)
    assert np.linalg.qr(np.array(a.T), "complete")[0].shape == (2, 2)
    with pytest.raises(AttrError, match="the further columns of mode='complete' have no derivative"):
        nb.grad(lambda x: np.linalg.qr(x, "complete")[1].sum())(a)


def test_a_tolerance_for_each_matrix():
    a = numpy.stack([numpy.diag([1.0, 0.1]), numpy.diag([1.0, 0.1])])
    rtol = numpy.array([0.5, 0.01])
    numpy.testing.assert_allclose(np.linalg.pinv(np.array(a), rtol=rtol).asnumpy(), numpy.linalg.pinv(a, rtol=rtol))
    found = np.linalg.matrix_rank(np.array(a), rtol=rtol)
    numpy.testing.assert_array_equal(found.asnumpy(), numpy.linalg.matrix_rank(a, rtol=rtol))
    nb.testing.check_grads(lambda m: np.linalg.pinv(m, rtol=rtol), (a + 0.01,), order=1)


def test_signatures():
    assert np.__array_api_version__ >= "2025.12"
    assert isinstance(np.__array_namespace_info__().devices(), tuple)
    assert list(inspect.signature(np.clip).parameters)[1:3] == ["min", "max"]
    x = np.array([1.0, 5.0])
    for clipped in (np.clip(x, 2, 3), np.clip(x, a_min=2, a_max=3), np.clip(x, min=2, max=3)):
        assert clipped.tolist() == [2, 3]
