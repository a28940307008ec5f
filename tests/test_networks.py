"""Softmax, activations, dense layers, dropout; errors of all network operators."""

import numpy as np
import pytest
import scipy.special
from networks import DTYPES, close

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.testing import check_grads

# Softmax.


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axis"), [((5, 200), 1), ((5, 200), 0), ((2, 3, 70), 1), ((7,), 0), ((3, 1), -1)])
def test_softmax_family(rng, dtype, shape, axis):
    x = (3 * rng.standard_normal(shape)).astype(dtype)
    wide = x.astype("float64")
    close(nd.softmax(nd.array(x), axis=axis), softmax(wide, axis), dtype)
    close(nd.softmax(nd.array(x), axis=axis, temperature=2.5), softmax(wide / 2.5, axis), dtype)
    close(nd.softmin(nd.array(x), axis=axis), softmax(-wide, axis), dtype)
    close(nd.array(x).log_softmax(axis=axis), np.log(softmax(wide, axis)), dtype)


@pytest.mark.parametrize("op", [nd.softmax, nd.log_softmax], ids=["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_at_the_edges(op, axis):
    inf, nan = np.inf, np.nan
    rows = np.array([[0, 1e4, -1e4], [nan, 1, 2], [inf, 1, 2], [-inf, 1, 2], [-inf, -inf, -inf]])
    found = op(nd.array(rows if axis else rows.T.copy()), axis=axis).asnumpy()
    with np.errstate(all="ignore"):
        expected = softmax(rows) if op is nd.softmax else scipy.special.log_softmax(rows, -1)
    expected[2] = nan  # SciPy's answers differ between versions
    np.testing.assert_allclose(found if axis else found.T, expected, rtol=1e-13)


def test_softmax_of_nothing():
    assert nd.softmax(nd.zeros((2, 0))).shape == (2, 0)
    assert nd.log_softmax(nd.zeros((0, 3)), axis=0).shape == (0, 3)


def test_softmax_with_lengths(rng):
    x = rng.standard_normal((2, 4, 3))
    length = np.array([[1, 0, 3], [2, 2, 4]])
    found = nd.softmax(nd.array(x), nd.array(length), axis=1, use_length=True).asnumpy()
    for i, j in np.ndindex(2, 3):
        n = length[i, j]
        np.testing.assert_allclose(found[i, :n, j], softmax(x[i, :n, j]) if n else [], rtol=1e-12)
        assert (found[i, n:, j] == 0).all()
    check_grads(lambda a: nd.softmax(a, nd.array(length), axis=1, use_length=True), [x], order=2)


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_gradients(rng, axis):
    x = rng.standard_normal((3, 2))
    check_grads(lambda a: nd.softmax(a, axis=axis), [x], order=3)
    check_grads(lambda a: nd.log_softmax(a, axis=axis), [x], order=3)
    check_grads(lambda a: nd.softmin(a, axis=axis, temperature=0.7), [x], order=2)


def test_softmax_cross_entropy(rng):
    x, label = rng.standard_normal((4, 3)), np.array([2, 0, 1, 1])
    found = nd.softmax_cross_entropy(nd.array(x), nd.array(label))
    assert found.shape == (1,)
    close(found, [-np.log(softmax(x))[range(4), label].sum()])
    check_grads(lambda a: nd.softmax_cross_entropy(a, nd.array(label)), [x], order=3)


# Activations.


@pytest.mark.parametrize("dtype", DTYPES)
def test_activations(rng, dtype):
    a = rng.standard_normal((3, 4)).astype(dtype)
    x, wide = nd.array(a), a.astype("float64")
    expected = {
        "relu": np.maximum(wide, 0),
        "sigmoid": scipy.special.expit(wide),
        "tanh": np.tanh(wide),
        "softrelu": np.log1p(np.exp(wide)),
        "softsign": wide / (1 + np.abs(wide)),
    }
    for name, want in expected.items():
        close(nd.Activation(x, act_type=name), want, dtype)
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    modes = {
        "leaky": np.where(wide > 0, wide, 0.1 * wide),
        "elu": np.where(wide > 0, wide, 0.1 * np.expm1(wide)),
        "selu": scale * np.where(wide > 0, wide, alpha * np.expm1(wide)),
        "gelu": wide * scipy.special.ndtr(wide),
        "rrelu": np.where(wide > 0, wide, (0.125 + 0.334) / 2 * wide),
    }
    for name, want in modes.items():
        close(nd.LeakyReLU(x, act_type=name, slope=0.1), want, dtype)


def test_prelu(rng):
    a, gamma = rng.standard_normal((2, 3, 4)), rng.standard_normal(3)
    f = lambda x, g: nd.LeakyReLU(x, g, act_type="prelu")  # noqa: E731
    close(f(nd.array(a), nd.array(gamma)), np.where(a > 0, a, gamma[:, None] * a))
    close(f(nd.array(a), nd.array(gamma[:1])), np.where(a > 0, a, gamma[0] * a))
    check_grads(f, [a, gamma], order=3)
    with pytest.raises(nb.errors.ShapeError, match=r"gamma must have shape \(1,\) or \(3,\), or .*; got \(4,\)"):
        f(nd.array(a), nd.zeros(4))


def test_rrelu_while_training():
    nb.random.seed(5)
    x = nd.full((50, 60), -2.0)
    x.attach_grad()
    with autograd.record():
        y = nd.LeakyReLU(x, act_type="rrelu", lower_bound=0.2, upper_bound=0.3)
    y.backward()
    slopes = y.asnumpy() / -2
    assert 0.2 <= slopes.min() < 0.201 and 0.299 < slopes.max() <= 0.3 and abs(slopes.mean() - 0.25) < 0.003
    np.testing.assert_allclose(x.grad.asnumpy(), slopes, rtol=1e-6)


def test_leaky_gradient_at_zero_is_the_slope():
    for mode in ("leaky", "elu"):
        x = nd.zeros(1)
        x.attach_grad()
        with autograd.record():
            y = nd.LeakyReLU(x, act_type=mode, slope=0.3)
        y.backward()
        assert x.grad.item() == pytest.approx(0.3)


# Dense layers.


@pytest.mark.parametrize("dtype", DTYPES)
def test_fully_connected(rng, dtype):
    x, w, b = (rng.standard_normal(s).astype(dtype) for s in ((2, 3, 4), (5, 12), (5,)))
    found = nd.FullyConnected(nd.array(x), nd.array(w), nd.array(b), num_hidden=5)
    close(found, x.reshape(2, 12).astype("float64") @ w.T.astype("float64") + b, dtype)
    found = nd.FullyConnected(nd.array(x), nd.array(w[:, :4].copy()), num_hidden=5, no_bias=True, flatten=False)
    close(found, x.astype("float64") @ w[:, :4].T.astype("float64"), dtype)


def test_fully_connected_gradients(rng):
    operands = [rng.standard_normal(s) for s in ((2, 2, 2), (3, 4), (3,))]
    check_grads(lambda x, w, b: nd.sin(nd.FullyConnected(x, w, b, num_hidden=3)), operands, order=3)


# Dropout.


def test_dropout_mask_and_gradient():
    nb.random.seed(1)
    x = nd.full((200, 300), 3.0)
    x.attach_grad()
    with autograd.record():
        y = nd.Dropout(x, p=0.3)
    y.backward(train_mode=False)
    values = y.asnumpy()
    kept = values != 0
    assert abs(kept.mean() - 0.7) < 0.01
    np.testing.assert_allclose(values[kept], 3 / 0.7, rtol=1e-6)
    np.testing.assert_allclose(x.grad.asnumpy() * 3, values, rtol=1e-6)


def test_dropout_follows_the_seed():
    def once():
        return nd.Dropout(nd.ones(50), mode="always").tolist()

    nb.random.seed(7)
    first, second = once(), once()
    nb.random.seed(7)
    assert once() == first != second


def test_dropout_modes():
    x = nd.ones((20, 30))
    assert (nd.Dropout(x) == x).asnumpy().all()
    assert (nd.Dropout(x, mode="always") == 0).asnumpy().any()
    with autograd.train_mode():
        assert (nd.Dropout(x) == 0).asnumpy().any()
        assert (nd.Dropout(x, p=0) == x).asnumpy().all()
        assert not nd.Dropout(x, p=1).asnumpy().any()
    shared = nd.Dropout(x, mode="always", axes=(1,)).asnumpy()
    assert (shared == shared[:, :1]).all() and 0 < (shared == 0).mean() < 1
    for dtype in DTYPES:
        assert set(nd.Dropout(nd.ones(99, dtype=dtype), p=0.75, mode="always").tolist()) == {0, 4}


def test_dropout_higher_order(rng):
    def f(x):
        nb.random.seed(3)
        return nd.Dropout(nd.square(x), p=0.4, mode="always") * x

    check_grads(f, [rng.standard_normal((3, 4))], order=3)


# Errors: the operator, what was given, what is expected.

X = nd.ones((2, 3, 5, 5))
INTS = nd.ones((2, 3), dtype="int32")
ERRORS = [
    (lambda: nd.softmax(INTS), "softmax: data must be of a floating dtype, got int32"),
    (lambda: nd.softmax(X, axis=4), "softmax: axis 4 is out of range"),
    (lambda: nd.softmax(X, temperature=0), "softmax: temperature must be positive, got 0"),
    (lambda: nd.softmax(X, nd.ones(2), use_length=True), r"length must have shape \(2, 3, 5\) .* got \(2,\)"),
    (lambda: nd.softmax_cross_entropy(nd.ones((2, 3)), nd.ones(3)), r"data \(n, k\) and label \(n,\) are needed"),
    (lambda: nd.Activation(X, act_type="rolu"), "Activation: act_type must be one of relu, .* got 'rolu'"),
    (lambda: nd.LeakyReLU(X, act_type="rolu"), "LeakyReLU: act_type must be one of leaky, .* got 'rolu'"),
    (lambda: nd.LeakyReLU(X, act_type="prelu"), "LeakyReLU: Argument gamma must have NDArray type"),
    (lambda: nd.LeakyReLU(X, act_type="rrelu", lower_bound=1), "lower_bound 1 is greater than upper_bound"),
    (lambda: nd.FullyConnected(X, nd.ones((4, 75)), nd.ones(4), num_hidden=5), "num_hidden 5, got"),
    (lambda: nd.FullyConnected(X, nd.ones((4, 7)), nd.ones(4)), r"has 75 inputs, weight of shape \(4, 7\) takes 7"),
    (lambda: nd.FullyConnected(X, nd.ones((4, 75)), nd.ones(5)), r"bias must have shape \(4,\), got \(5,\)"),
    (lambda: nd.FullyConnected(X, nd.ones((4, 75))), "FullyConnected: Argument bias is missing"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3))), "Convolution: Argument bias"),
    (
        lambda: nd.Convolution(X, nd.ones((4, 2, 3, 3)), no_bias=True),
        r"weight must have shape \(num_filter, 3/num_group",
    ),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), no_bias=True, kernel=(3, 2)), "kernel says"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), no_bias=True, num_filter=5), "num_filter says 5"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), nd.ones(3)), r"bias must have shape \(4,\)"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 6, 3)), no_bias=True), "exceeds data"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), no_bias=True, stride=(0, 1)), "stride needs 2 integer"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), no_bias=True, pad=(1,)), "pad needs 2 integer"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), no_bias=True, layout="NCW"), "layout must be one of NCHW, NHWC"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), strid=(1, 1)), "keyword 'strid' is unknown"),
    (lambda: nd.Deconvolution(X, nd.ones((4, 3, 3, 3))), r"weight must have shape \(3, num_filter/num_group"),
    (lambda: nd.Deconvolution(X, nd.ones((3, 3, 3, 3)), adj=(1, 1)), r"adj \(1, 1\) must be less than stride"),
    (lambda: nd.Pooling(X), "kernel must be given"),
    (lambda: nd.Pooling(X, kernel=(2, 2), pool_type="min"), "pool_type must be .* got 'min'"),
    (lambda: nd.Pooling(X, kernel=(2, 2), pad=(2, 0)), r"pad \(2, 0\) must be less than kernel"),
    (lambda: nd.Pooling(X, kernel=(6, 2)), r"kernel \(6, 2\) exceeds data"),
    (lambda: nd.Pooling(X, kernel=(2, 2), pooling_convention="some"), "pooling_convention must be one of"),
    (lambda: nd.Pooling(X, kernel=(2, 2), pad=(1, 1), pooling_convention="same"), "takes no pad"),
    (lambda: nd.Pooling(INTS.reshape((1, 2, 3)), kernel=(2,)), "Pooling: data must be of a floating dtype"),
    (lambda: nd.BatchNorm(X, *[nd.ones(2)] * 4), r"gamma must have shape \(3,\), as data has channels; got \(2,\)"),
    (lambda: nd.BatchNorm(INTS, *[nd.ones(3)] * 4), "BatchNorm: data must be of a floating dtype"),
    (lambda: nd.LayerNorm(X, nd.ones(3), nd.ones(3)), r"gamma must have shape \(5,\)"),
    (lambda: nd.GroupNorm(X, nd.ones(3), nd.ones(3), num_groups=2), "num_groups must divide the 3 channels, got 2"),
    (lambda: nd.InstanceNorm(nd.ones((2, 3)), nd.ones(3), nd.ones(3)), r"data \(n, c, ...\) with elements is needed"),
    (lambda: nd.L2Normalization(X, mode="row"), "mode must be one of instance, channel, spatial"),
    (lambda: nd.Dropout(X, p=1.5), r"Dropout: p must be in \[0, 1\], got 1.5"),
    (lambda: nd.Dropout(INTS), "Dropout: data must be of a floating dtype, got int32"),
    (lambda: nd.Dropout(X, mode="never"), "mode must be 'training' or 'always', got 'never'"),
    (lambda: nd.sgd_update(nd.ones(2), nd.ones(2)), "sgd_update: lr must be given"),
    (lambda: nd.sgd_update(nd.ones(2), nd.ones(3), lr=1), r"grad must have weight's shape \(2,\), got \(3,\)"),
    (
        lambda: nd.sgd_mom_update(nd.ones(2), nd.ones(2), nd.ones(2, dtype="float64"), lr=1),
        "mom must have weight's dtype",
    ),
    (lambda: nd.sgd_update(nd.ones(2), nd.ones(2), rate=1), "keyword 'rate' is unknown"),
    (lambda: nd.adam_update(nd.ones(2), nd.ones(2), lr=1), "adam_update: Argument mean must have NDArray type"),
]


@pytest.mark.parametrize(("call", "message"), [pytest.param(*row, id=f"{k}") for k, row in enumerate(ERRORS)])
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises((nb.errors.NBGradError, TypeError), match=message):
        call()


def test_make_loss_starts_the_gradient_from_ones():
    x = nd.array([1.0, 2.0], dtype="float64")
    x.attach_grad()
    with autograd.record():
        y = nd.make_loss(x * x)
    y.backward(nd.array([10.0, 20.0]))
    assert y.tolist() == [1.0, 4.0]
    assert x.grad.tolist() == [2.0, 4.0]


def test_prelu_with_a_slope_for_every_place():
    x = nd.array([[[1.0, -2.0], [-3.0, -4.0]]])
    assert nd.LeakyReLU(x, nd.array([[0.5, 2.0]]), act_type="prelu").tolist() == [[[1, -1], [-6, -8]]]
    assert nd.LeakyReLU(x, x, act_type="prelu").tolist() == [[[1, 4], [9, 16]]]
    with pytest.raises(ValueError, match="gamma must have shape"):
        nd.LeakyReLU(x, nd.ones((2, 1)), act_type="prelu")


def test_the_weights_of_a_layer_are_no_shared_history():
    x, w = nd.ones((2, 3)), nd.array([[1.0, 2.0, 3.0]])
    x.attach_grad()
    w.attach_grad()
    with autograd.record():
        y = nd.FullyConnected(x, w, no_bias=True)
    gx = autograd.grad(y, x, create_graph=True, retain_graph=True)
    gx.backward()
    assert w.grad.tolist() == [[2, 2, 2]]
    assert autograd.grad(y, w).tolist() == [[2, 2, 2]]
