"""Kernels that work in blocks: lengths around the block, NaN and ties wherever they fall; and moves at their edges."""

import numpy as np
import pytest

from nbgrad import nd

LENGTHS = (1, 2, 3, 7, 64, 65, 1023, 1024, 1025, 3000)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "int8", "uint8"])
def test_extremes_of_any_length(name, dtype):
    rng = np.random.default_rng(0)
    for n in LENGTHS:
        x = rng.integers(0, 100, (3, n)).astype(dtype)  # with ties
        found = getattr(nd, name)(nd.array(x), axis=1).asnumpy()
        np.testing.assert_array_equal(found, getattr(np, name)(x, 1))
        found = getattr(nd, name)(nd.array(x), axis=0).asnumpy()
        np.testing.assert_array_equal(found, getattr(np, name)(x, 0))


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_nan_is_the_extreme_wherever_it_is(name):
    rng = np.random.default_rng(1)
    for n in LENGTHS:
        for place in {0, n // 2, n - 1}:
            x = rng.normal(size=(n, 1))
            x[place] = np.nan
            for layout in (x, x.T, np.hstack([x, x])):
                axis = 1 if layout.shape[0] == 1 else 0
                found = getattr(nd, name)(nd.array(layout), axis=axis).asnumpy()
                np.testing.assert_array_equal(found, getattr(np, name)(layout, axis))


@pytest.mark.parametrize("value", [-np.inf, np.inf])
def test_extremes_of_infinities(value):
    x = nd.array(np.full(2000, value))
    assert nd.max(x).item() == nd.min(x).item() == value
    assert nd.argmax(x).item() == nd.argmin(x).item() == 0


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "uint8"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 9), (8, 8), (65, 130), (3, 17, 40)])
def test_transposed_matrices(dtype, shape):
    x = np.random.default_rng(2).integers(0, 100, shape).astype(dtype)
    axes = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    np.testing.assert_array_equal(nd.transpose(nd.array(x), axes=axes).asnumpy(), x.transpose(axes))


@pytest.mark.parametrize("k", [-(2**40), -9, -1, 0, 2, 9, 2**40])
def test_triangles_with_diagonals_outside_the_matrix(k):
    x = np.arange(1.0, 13.0).reshape(3, 4)
    near = max(-20, min(20, k))
    np.testing.assert_array_equal(nd.tril(nd.array(x), k=k).asnumpy(), np.tril(x, near))
    np.testing.assert_array_equal(nd.triu(nd.array(x), k=k).asnumpy(), np.triu(x, near))


def test_masks_over_several_axes():
    x = np.arange(24.0).reshape(2, 3, 4)
    y = nd.array(x)
    for mask in (x % 3 == 0, (x % 3 == 0)[:, :, 0], (x % 2 == 0)[:, 0, 0], np.zeros((2, 3), bool)):
        np.testing.assert_array_equal(y[mask].asnumpy(), x[mask])
    rows = np.array([True, False])
    np.testing.assert_array_equal(y[rows, np.array([-1])].asnumpy(), x[rows, np.array([-1])])


def test_one_hot_ignores_what_is_out_of_range():
    index = nd.array(np.array([[2, -1], [3, 0]]))
    expected = [[[0, 0, 1], [0, 0, 0]], [[0, 0, 0], [1, 0, 0]]]
    for dtype in ("float16", "float32", "int32"):
        found = nd.one_hot(index, 3, dtype=dtype)
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found.asnumpy(), expected)
    assert nd.one_hot(nd.array([]), 3).shape == (0, 3)
