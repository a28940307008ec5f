"""Running sums, products and log-sums where their derivatives are delicate."""

import numpy as np
import pytest

from nbgrad import autograd, nd
from nbgrad.testing import check_grads


def gradient(f, values, head=None):
    x = nd.array(np.array(values, np.float64))
    x.attach_grad()
    with autograd.record():
        y = f(x)
    y.backward(None if head is None else nd.array(np.array(head, np.float64)))
    return x.grad.asnumpy()


def test_product_with_zeros():
    values = np.array([2.0, 0.0, 3.0, 0.0, 0.5])
    expected = [
        sum(np.prod([v for i, v in enumerate(values[: k + 1]) if i != j]) for k in range(j, 5)) for j in range(5)
    ]
    np.testing.assert_array_equal(gradient(nd.cumprod, values), expected)
    check_grads(nd.cumprod, [values], order=3)


def test_log_sums_far_apart_and_of_nothing():
    values = np.array([-1000.0, 0.0, 1000.0, -1000.0])
    x = nd.array(values)
    np.testing.assert_array_equal(nd.logcumsumexp(x).asnumpy(), np.logaddexp.accumulate(values))
    np.testing.assert_array_equal(gradient(nd.logcumsumexp, values), [1.0, 1.0, 2.0, 0.0])
    none = [-np.inf, -np.inf, 0.0]
    np.testing.assert_array_equal(nd.logcumsumexp(nd.array(np.array(none))).asnumpy(), none)
    np.testing.assert_array_equal(gradient(nd.logcumsumexp, none), [0.0, 0.0, 1.0])


@pytest.mark.parametrize("dtype", ["int8", "int32", "bool"])
def test_integers(dtype):
    values = np.array([1, 0, 1, 1], dtype)
    out = nd.cumsum(nd.array(values))
    assert out.dtype is (np.int64 if dtype == "bool" else np.dtype(dtype).type)
    assert out.tolist() == [1, 1, 2, 3]


def test_nan_in_a_median():
    x = nd.array(np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]]))
    np.testing.assert_array_equal(nd.median(x, axis=1).asnumpy(), [np.nan, 2.0])
    np.testing.assert_array_equal(gradient(lambda a: nd.median(a, axis=1), [[1.0, 4.0, 3.0, 2.0]]), [[0, 0, 0.5, 0.5]])
