"""Operators that end a network: gradients as MXNet 1.9.1 gives them, and their derivatives."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.testing import check_grads

DATA = np.array([[1.0, 2, 3], [0, 1, 0]])
SOFT = np.array([[0.2, 0.3, 0.5], [1, 0, 0]])
CUBE = np.arange(12.0).reshape(2, 3, 2) % 5


def gradient(op, data, label, head=2.0, **options):
    x, y = nd.array(data), nd.array(label)
    x.attach_grad()
    y.attach_grad()
    with autograd.record():
        out = op(x, y, **options)
    out.backward(nd.ones_like(out) * head)
    assert (y.grad.asnumpy() == 0).all()
    return x.grad.asnumpy()


P = [[0.0900, 0.2447, 0.6652], [0.2119, 0.5761, 0.2119]]
PLAIN = np.array([[0.0900, 0.2447, -0.3348], [-0.7881, 0.5761, 0.2119]])


@pytest.mark.parametrize(
    ("label", "options", "expected"),
    [
        ([2, 0], {}, PLAIN),
        ([2, 0], {"grad_scale": 3}, 3 * PLAIN),
        ([2, 0], {"normalization": "batch"}, PLAIN / 2),
        ([2, 0], {"normalization": "valid"}, PLAIN / 2),
        ([2, 0], {"use_ignore": True, "ignore_label": 0}, PLAIN * [[1], [0]]),
        ([2, 0], {"use_ignore": True, "ignore_label": 0, "normalization": "valid"}, PLAIN * [[1], [0]]),
        ([2, 0], {"smooth_alpha": 0.3}, [[-0.06, 0.0947, -0.0348], [-0.4881, 0.4261, 0.0619]]),
        ([2, 0], {"out_grad": True}, 2 * PLAIN),
        ([7, -1], {}, P),
        (SOFT, {}, [[-0.1100, -0.0553, 0.1652], [-0.7881, 0.5761, 0.2119]]),
        (SOFT, {"normalization": "batch"}, [[-0.1100, -0.0553, 0.1652], [-0.7881, 0.5761, 0.2119]]),
    ],
)
def test_softmax_output(label, options, expected):
    np.testing.assert_allclose(gradient(nd.SoftmaxOutput, DATA, label, **options), expected, atol=2e-4)


MULTI = np.array(
    [
        [[-0.4921, 0.0571], [0.0587, -0.0781], [0.4334, 0.0210]],
        [[0.0571, 0.0571], [0.4219, 0.4219], [-0.4790, -0.4790]],
    ]
)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, MULTI),
        ({"normalization": "batch"}, MULTI / 2),
        ({"normalization": "valid"}, MULTI / 2),
        ({"normalization": "valid", "use_ignore": True, "ignore_label": 2}, MULTI * [[[1]], [[0]]]),
    ],
)
def test_softmax_output_with_classes_along_axis_1(options, expected):
    found = gradient(nd.SoftmaxOutput, CUBE, [[0, 1], [2, 2]], multi_output=True, **options)
    np.testing.assert_allclose(found, expected, atol=6e-5)


@pytest.mark.parametrize(("normalization", "count"), [("null", 1), ("batch", 6), ("valid", 6)])
def test_softmax_output_with_classes_along_the_last_axis(normalization, count):
    found = gradient(nd.SoftmaxOutput, CUBE, [[0, 1, 0], [1, 1, 0]], preserve_shape=True, normalization=normalization)
    expected = [
        [[-0.7311, 0.7311], [0.2689, -0.2689], [-0.018, 0.018]],
        [[0.2689, -0.2689], [0.2689, -0.2689], [-0.7311, 0.7311]],
    ]
    np.testing.assert_allclose(found, np.array(expected) / count, atol=6e-5)


REGRESSION = np.array([[0.2, 0.3, 3], [1, 0, 0]])


@pytest.mark.parametrize(
    ("op", "slope"),
    [
        (nd.LinearRegressionOutput, lambda x, label: x - label),
        (nd.LogisticRegressionOutput, lambda x, label: 1 / (1 + np.exp(-x)) - label),
        (nd.MAERegressionOutput, lambda x, label: np.where(x > label, 1, -1)),
    ],
)
def test_regression(op, slope):
    label = REGRESSION  # with ties, where MXNet gives -1 for the absolute error
    np.testing.assert_allclose(gradient(op, DATA, label), slope(DATA, label) / 3)
    np.testing.assert_allclose(gradient(op, DATA, label, grad_scale=3), slope(DATA, label))
    np.testing.assert_allclose(gradient(op, DATA[0], label[0]), slope(DATA[0], label[0]))
    np.testing.assert_allclose(gradient(op, DATA[:, :1], label[:, 0]), slope(DATA[:, :1], label[:, :1]))


@pytest.mark.parametrize(
    "op",
    [
        lambda x: nd.SoftmaxOutput(x, nd.array([2, 0])),
        lambda x: nd.SoftmaxOutput(x, nd.array([2, 0]), out_grad=True),
        lambda x: nd.LogisticRegressionOutput(x, nd.array(REGRESSION)),
        lambda x: nd.LinearRegressionOutput(x, nd.array(REGRESSION)),
    ],
)
def test_the_gradient_is_differentiable(op):
    def first(x):
        with autograd.record():
            y = op(x)
        return autograd.grad(y, x, create_graph=True)

    x = nd.array(DATA / 3)
    x.attach_grad()
    check_grads(lambda x: nd.sin(first(x)) if x._node is not None else _detached(first, x), [x], order=2)


def _detached(first, x):
    x = x.copy()
    x.attach_grad()
    return nd.sin(first(x))


def test_float16_and_what_is_not_recorded():
    x = nd.array([[1, 2]], dtype="float16")
    assert nd.SoftmaxOutput(x, nd.array([0])).dtype == np.float16
    assert gradient(nd.SoftmaxOutput, np.float16([[0, 0]]), [0]).tolist() == [[-0.5, 0.5]]
    assert nd.LogisticRegressionOutput(x, x).dtype == np.float16


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: nd.SoftmaxOutput(x, nd.zeros(3)), nb.errors.ShapeError, r"label must have shape \(2,\)"),
        (lambda x: nd.SoftmaxOutput(x[0], nd.zeros(3)), nb.errors.ShapeError, r"data \(n, k\)"),
        (lambda x: nd.SoftmaxOutput(x, nd.zeros(2), normalization="all"), nb.errors.AttrError, "normalization"),
        (lambda x: nd.SoftmaxOutput(x, nd.zeros(2), smooth_alpha=2), nb.errors.AttrError, "smooth_alpha"),
        (lambda x: nd.SoftmaxOutput(x.astype(int), nd.zeros(2)), nb.errors.DTypeError, "floating"),
        (lambda x: nd.MAERegressionOutput(x, nd.zeros(2)), nb.errors.ShapeError, r"shape of data, \(2, 3\)"),
        (lambda x: nd.LinearRegressionOutput(x.astype(int), x), nb.errors.DTypeError, "floating"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(nd.array(DATA))
