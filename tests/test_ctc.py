"""CTCLoss: values and gradients from MXNet, kernels against rules, derivatives, corners, what is refused."""

import numpy as np
import pytest

from nbgrad import autograd, nd
from nbgrad.testing import check_grads

LABELS = {"first": [[1, 2, 0], [3, 3, 0], [0, 0, 0]], "last": [[0, 1, -1], [2, 2, -1], [-1, -1, -1]]}
LENGTHS = {
    "data_lengths": nd.array([5, 3, 2]),
    "label_lengths": nd.array([2, 2, 0]),
    "use_data_lengths": True,
    "use_label_lengths": True,
}


def scores(*shape):
    return nd.array(np.sin(1.7 * np.arange(int(np.prod(shape)), dtype=np.float64)).reshape(shape))


def gradient(data, label, recorded=False, head=None, **options):
    data.attach_grad()
    with autograd.record():
        y = nd.CTCLoss(data, label, **options)
    return y.asnumpy(), autograd.grad(y, data, head, create_graph=recorded).asnumpy()


def folded(x):
    return x.reshape(-1) @ np.cos(np.arange(x.size))


#: From MXNet 1.9.1 (float32): losses, and the gradient as the sum of its elements times cos(0), cos(1), cos(2), ...
FROM_MXNET = {
    ("first", False): ([3.10864, 5.58669, 7.30175], -5.57213),
    ("first", True): ([3.10864, 4.00099, 1.94859], -2.50762),
    ("last", False): ([3.38389, 5.46418, 8.285], 0.17152),
    ("last", True): ([3.38389, 4.16806, 2.50023], -1.8821),
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(("blank", "lengths"), FROM_MXNET)
def test_values_and_gradients_are_those_of_mxnet(blank, lengths, recorded):
    options = LENGTHS if lengths else {}
    loss, grad = gradient(scores(5, 3, 4), nd.array(LABELS[blank]), recorded, blank_label=blank, **options)
    expected, total = FROM_MXNET[blank, lengths]
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(folded(grad), total, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_kernel_and_rule_agree(dtype):
    random = np.random.default_rng(0)
    data = nd.array(random.normal(size=(12, 4, 5)), dtype=dtype)
    label = nd.array(random.integers(1, 5, (4, 4)))
    options = {"data_lengths": nd.array([12, 8, 9, 10]), "use_data_lengths": True}
    head = nd.array([1, -2, 0.5, 0], dtype=dtype)
    fused = gradient(data, label, False, head, **options)[1]
    ruled = gradient(data, label, True, head, **options)[1]
    assert fused.dtype == ruled.dtype == dtype
    tolerance = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3}[dtype]
    np.testing.assert_allclose(fused, ruled, rtol=tolerance, atol=tolerance)
    assert not fused[8:, 1].any()


@pytest.mark.parametrize("blank", ["first", "last"])
def test_second_derivatives(blank):
    """Two equal labels, an empty one, different lengths of data."""
    label = nd.array({"first": [[1, 1], [2, 0], [0, 0]], "last": [[0, 0], [1, -1], [-1, -1]]}[blank])
    options = {"data_lengths": nd.array([4, 2, 3]), "use_data_lengths": True, "blank_label": blank}
    check_grads(lambda x: nd.CTCLoss(x, label, **options), [scores(4, 3, 3)], order=2)


def test_third_derivative():
    check_grads(lambda x: nd.CTCLoss(x, nd.array([[1]])), [scores(2, 1, 2)], order=3)


@pytest.mark.parametrize("recorded", [False, True])
def test_label_too_long_for_its_data(recorded):
    """No alignment: an infinite loss, without a gradient; the others of the batch are not touched."""
    label = nd.array([[1, 1, 0], [1, 2, 3], [1, 2, 0]])
    loss, grad = gradient(scores(2, 3, 4), label, recorded)
    np.testing.assert_array_equal(np.isinf(loss), [True, True, False])
    assert not grad[:, :2].any()
    alone, alone_grad = gradient(scores(2, 3, 4)[:, 2:].copy(), label[2:], recorded)
    np.testing.assert_allclose(loss[2:], alone, rtol=1e-15)
    np.testing.assert_allclose(grad[:, 2:], alone_grad, rtol=1e-12)


@pytest.mark.parametrize("recorded", [False, True])
def test_label_without_elements(recorded):
    """Blanks all the way: the losses of the steps add up."""
    data = scores(3, 2, 3)
    loss, grad = gradient(data, nd.zeros((2, 0)), recorded)
    log_p = nd.log_softmax(data).asnumpy()
    np.testing.assert_allclose(loss, -log_p[:, :, 0].sum(0), rtol=1e-14)
    np.testing.assert_allclose(grad, np.exp(log_p) - np.eye(3)[0], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("recorded", [False, True])
def test_scores_far_apart(recorded):
    """Probabilities that underflow: logarithms do not."""
    data = nd.array([[[0.0, 2000.0, 0.0]], [[2000.0, 0.0, 0.0]], [[0.0, 2000.0, 0.0]]], dtype="float64")
    loss, grad = gradient(data, nd.array([[2]]), recorded)
    np.testing.assert_allclose(loss, [4000.0], atol=5)
    assert np.isfinite(grad).all()


def test_impossible_class():
    data = scores(2, 1, 3)
    data[:, 0, 1] = -np.inf
    assert nd.CTCLoss(data, nd.array([[1]])).tolist() == [np.inf]
    assert np.isfinite(nd.CTCLoss(data, nd.array([[2]])).asscalar())


def test_empty_batch_and_names():
    assert nd.CTCLoss(nd.zeros((3, 0, 4)), nd.zeros((0, 2))).shape == (0,)
    assert nd.ctc_loss is nd.CTCLoss is nd.contrib.ctc_loss is nd.contrib.CTCLoss


def test_refused():
    data, label = scores(3, 2, 3), nd.array([[1, 2], [1, 0]])
    cases = [
        ({"blank_label": "middle"}, ValueError, "blank_label must be 'first' or 'last'"),
        ({"data": data[0]}, ValueError, r"data must have shape \(time, batch, classes\)"),
        ({"data": data[:0]}, ValueError, "with some of each"),
        ({"data": data.astype("int32")}, TypeError, "floating dtype"),
        ({"label": label[0]}, ValueError, r"label must have shape \(2, longest label\)"),
        ({"label": nd.array([[1, 3], [1, 0]])}, IndexError, "labels must be in 1 to 2 .* got 3"),
        ({"label": nd.array([[1, -1], [1, 0]])}, IndexError, "got -1"),
        ({"blank_label": "last"}, IndexError, "labels must be in 0 to 1 .* got 2"),
        ({"label_lengths": nd.array([1, 1])}, ValueError, "go together"),
        ({"use_data_lengths": True}, ValueError, "go together"),
        ({"data_lengths": nd.array([4, 1]), "use_data_lengths": True}, IndexError, "data_lengths must be in 1 to 3"),
        ({"data_lengths": nd.array([0, 1]), "use_data_lengths": True}, IndexError, "got 0"),
        ({"data_lengths": nd.array([1]), "use_data_lengths": True}, ValueError, r"must have shape \(2,\)"),
        ({"label_lengths": nd.array([3, 1]), "use_label_lengths": True}, IndexError, "label_lengths must be in 0 to 2"),
        ({"label_lengths": nd.array([1, 2]), "use_label_lengths": True}, IndexError, "got 0"),
    ]
    for change, error, message in cases:
        with pytest.raises(error, match=message):
            nd.CTCLoss(**{"data": data, "label": label} | change)


def test_what_is_behind_the_lengths_does_not_matter():
    data = np.random.default_rng(1).normal(size=(5, 2, 4))
    padded = np.concatenate([data, np.full((2, 2, 4), np.nan)])
    label, ends = nd.array([[1, 2], [3, 1]]), {"data_lengths": nd.array([5, 5]), "use_data_lengths": True}
    found = []
    for values, attrs in ((data, {}), (padded, ends)):
        x = nd.array(values)
        x.attach_grad()
        with autograd.record():
            y = nd.CTCLoss(x, label, **attrs)
        y.backward()
        found.append((y.asnumpy(), x.grad.asnumpy()))
    np.testing.assert_array_equal(found[1][0], found[0][0])
    np.testing.assert_array_equal(found[1][1], np.concatenate([found[0][1], np.zeros((2, 2, 4))]))
