"""RNN: values from MXNet, gradients of the kernels against the rules, derivatives, what is refused."""

import numpy as np
import pytest

from nbgrad import autograd, nd
from nbgrad.kernels.recurrent import _GATES, _packed
from nbgrad.testing import check_grads

MODES = ["rnn_relu", "rnn_tanh", "lstm", "gru"]


def drawn(mode, t=3, n=2, inputs=2, m=2, layers=1, directions=1, dtype="float64", seed=0):
    random = np.random.default_rng(seed)
    count = sum(int(np.prod(s)) for s in _packed(inputs, m, layers, directions, _GATES[mode]))
    state = (layers * directions, n, m)
    shapes = [(t, n, inputs), (count,), state] + ([state] if mode == "lstm" else [])
    return [nd.array(random.uniform(-1, 1, s), dtype=dtype) for s in shapes]


def gradients(f, arrays, recorded):
    for x in arrays:
        x.attach_grad()
    with autograd.record():
        ys = f(*arrays)
        total = sum((nd.sin(y + 0.3 * k).sum() for k, y in enumerate(ys)), nd.zeros(1, dtype=ys[0].dtype))
    return [g.asnumpy() for g in autograd.grad(total, arrays, create_graph=recorded)]


def ramp(k, shape):
    a = np.arange(int(np.prod(shape)), dtype=np.float64)
    return (0.1 * a - 0.5, np.sin(a), np.cos(a), np.cos(2 * a))[k].reshape(shape)


#: Two layers, both directions, from MXNet 1.9.1 (float32): each result and each gradient of the sum of the results'
#: squares, as the sum of its elements times cos(0), cos(1), cos(2), ...
FROM_MXNET = {
    "rnn_relu": ([-6.1483, 7.1348], [-18.3331, -625.5436, 137.4621]),
    "rnn_tanh": ([1.0807, 0.1592], [1.9251, -3.2857, -2.7488]),
    "lstm": ([-0.4157, 0.7775, 2.0437], [-0.2962, -9.3793, 0.1348, 1.8719]),
    "gru": ([0.963, 4.8444], [1.263, -6.4433, 24.9561]),
}


@pytest.mark.parametrize("mode", MODES)
def test_values_and_gradients_are_those_of_mxnet(mode):
    like = drawn(mode, t=3, n=2, inputs=3, m=2, layers=2, directions=2)
    arrays = [nd.array(ramp(k, x.shape)) for k, x in enumerate(like)]

    def folded(x):
        return float(x.asnumpy().reshape(-1) @ np.cos(np.arange(x.size)))

    for x in arrays:
        x.attach_grad()
    with autograd.record():
        ys = nd.RNN(*arrays, state_size=2, num_layers=2, mode=mode, bidirectional=True, state_outputs=True)
        total = sum(((y * y).sum() for y in ys), nd.zeros(1, dtype="float64"))
    total.backward()
    results, grads = FROM_MXNET[mode]
    np.testing.assert_allclose([folded(y) for y in ys], results, atol=2e-4)
    np.testing.assert_allclose([folded(x.grad) for x in arrays], grads, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_kernels_and_rules_agree(mode, dtype):
    arrays = drawn(mode, t=4, n=3, inputs=3, m=5, layers=2, directions=2, dtype=dtype)

    def f(*a):
        return nd.RNN(*a, state_size=5, num_layers=2, bidirectional=True, mode=mode, state_outputs=True)

    tolerance = {"float64": 1e-12, "float32": 1e-4, "float16": 5e-2}[dtype]
    for fused, ruled in zip(gradients(f, arrays, False), gradients(f, arrays, True), strict=True):
        assert fused.dtype == ruled.dtype == dtype
        np.testing.assert_allclose(fused, ruled, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", MODES)
def test_second_derivatives(mode):
    """With both last states among the results, so that every cotangent of the sequence operators is there."""
    arrays = drawn(mode, t=2, n=1, inputs=1, m=2)
    check_grads(lambda *a: nd.RNN(*a, state_size=2, mode=mode, state_outputs=True), arrays, order=2)


@pytest.mark.parametrize("mode", MODES)
def test_sequence_length(mode):
    """Each sequence by itself, cut to its length, gives the same."""
    arrays = drawn(mode, t=4, n=3, inputs=2, m=2, layers=2, directions=2)
    options = {"state_size": 2, "num_layers": 2, "bidirectional": True, "mode": mode, "state_outputs": True}
    lengths = [4, 1, 3]
    ys = nd.RNN(*arrays, sequence_length=nd.array(lengths), use_sequence_length=True, **options)
    for b, length in enumerate(lengths):
        data, parameters, *states = arrays
        alone = nd.RNN(data[:length, b : b + 1], parameters, *[s[:, b : b + 1] for s in states], **options)
        np.testing.assert_allclose(ys[0].asnumpy()[:length, b], alone[0].asnumpy()[:, 0], rtol=1e-13, atol=1e-14)
        assert not ys[0].asnumpy()[length:, b].any()
        for together, single in zip(ys[1:], alone[1:], strict=True):
            np.testing.assert_allclose(together.asnumpy()[:, b], single.asnumpy()[:, 0], rtol=1e-13, atol=1e-14)


def test_sequence_length_has_gradients():
    def f(*a):
        return nd.RNN(
            *a, sequence_length=nd.array([1, 2]), use_sequence_length=True, state_size=1, mode="gru", bidirectional=True
        )

    check_grads(f, drawn("gru", t=2, n=2, inputs=1, m=1, directions=2), order=2)


def test_dropout_between_layers_while_training():
    arrays = drawn("rnn_tanh", m=3, layers=2)
    options = {"state_size": 3, "num_layers": 2, "mode": "rnn_tanh", "state_outputs": True}
    plain = nd.RNN(*arrays, **options)
    for p, same in ((0.0, True), (1.0, False)):
        with autograd.train_mode():
            y, h = nd.RNN(*arrays, p=p, **options)
        np.testing.assert_array_equal(h[0].asnumpy(), plain[1][0].asnumpy())  # the first layer is whole
        assert (y.asnumpy() == plain[0].asnumpy()).all() == same
    np.testing.assert_array_equal(nd.RNN(*arrays, p=0.5, **options)[0].asnumpy(), plain[0].asnumpy())


def test_large_preactivations_do_not_overflow():
    for mode in ("lstm", "gru", "rnn_tanh"):
        arrays = [1e4 * x for x in drawn(mode)]
        for recorded in (False, True):
            for g in gradients(lambda *a, mode=mode: [nd.RNN(*a, state_size=2, mode=mode)], arrays, recorded):
                assert np.isfinite(g).all()


@pytest.mark.parametrize("mode", MODES)
def test_empty_batch(mode):
    arrays = drawn(mode, n=0)
    for recorded in (False, True):
        ys = nd.RNN(*arrays, state_size=2, mode=mode, state_outputs=True)
        assert [y.shape for y in ys] == [(3, 0, 2), *[(1, 0, 2)] * (len(ys) - 1)]
        found = gradients(lambda *a: [nd.RNN(*a, state_size=2, mode=mode)], arrays, recorded)
        assert not found[1].any()


def test_refused():
    data, parameters, state = drawn("gru")
    cases = [
        ({"mode": "GRU"}, "mode must be one of 'rnn_relu'"),
        ({"mode": "lstm"}, "state_cell goes with mode 'lstm'"),
        ({"state_cell": state}, "state_cell goes with mode 'lstm'"),
        ({"mode": "rnn_tanh"}, r"parameters must have shape \(12,\) .* got \(36,\)"),
        ({"num_layers": 0}, "num_layers must be an integer of at least 1"),
        ({"state_size": None}, "state_size must be"),
        ({"state_size": 3}, r"parameters must have shape \(63,\)"),
        ({"projection_size": 2}, "projection_size is not supported"),
        ({"lstm_state_clip_min": -1.0}, "clipping"),
        ({"p": 2}, r"p must be in \[0, 1\]"),
        ({"data": data[0]}, r"data must have shape \(time, batch, inputs\)"),
        ({"data": data[:0]}, "at least one step"),
        ({"state": state[:, :1]}, r"state must have shape .* = \(1, 2, 2\), got \(1, 1, 2\)"),
        ({"sequence_length": nd.array([1, 1])}, "go together"),
    ]
    for change, message in cases:
        options = {"data": data, "parameters": parameters, "state": state, "state_size": 2, "mode": "gru"} | change
        with pytest.raises(ValueError, match=message):
            nd.RNN(**options)
    with pytest.raises(IndexError, match="length 5"):
        nd.RNN(
            *(data, parameters, state),
            sequence_length=nd.array([5, 1]),
            use_sequence_length=True,
            state_outputs=True,
            state_size=2,
            mode="gru",
        )
