"""Convolution and pooling against loops, and their gradients."""

import threading

import numpy as np
import pytest
from networks import DTYPES, close

from nbgrad import autograd, nd
from nbgrad.kernels import convolution
from nbgrad.testing import check_grads

# Convolution.


def convolved(x, w, stride, pad, dilate, groups):
    """Sums over shifted views."""
    nd_ = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
    outs = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilate, strict=True)]
    f, a = w.shape[:2]
    y = np.zeros((x.shape[0], f, *outs))
    for q in range(f):
        c = q // (f // groups) * a
        for k in np.ndindex(*w.shape[2:]):
            view = tuple(
                slice(k[i] * dilate[i], k[i] * dilate[i] + (outs[i] - 1) * stride[i] + 1, stride[i]) for i in range(nd_)
            )
            y[:, q] += np.einsum("nc...,c->n...", x[(slice(None), slice(c, c + a), *view)], w[(q, slice(None), *k)])
    return y


CONVOLUTIONS = {  # data, weight, stride, pad, dilate, groups
    "1-d": ((2, 3, 9), (4, 3, 3), (2,), (1,), (1,), 1),
    "2-d": ((2, 2, 6, 5), (3, 2, 3, 2), (1, 2), (1, 0), (2, 1), 1),
    "2-d groups": ((2, 4, 4, 5), (6, 2, 3, 3), (1, 1), (1, 1), (1, 1), 2),
    "3-d": ((1, 2, 3, 4, 4), (2, 2, 2, 2, 3), (1, 1, 2), (0, 1, 1), (1, 1, 1), 1),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(rng, name, dtype):
    xs, ws, stride, pad, dilate, groups = CONVOLUTIONS[name]
    x, w, b = (rng.standard_normal(s).astype(dtype) for s in (xs, ws, ws[:1]))
    attrs = {"kernel": ws[2:], "stride": stride, "pad": pad, "dilate": dilate}
    found = nd.Convolution(nd.array(x), nd.array(w), nd.array(b), num_filter=ws[0], num_group=groups, **attrs)
    expected = convolved(x.astype("float64"), w.astype("float64"), stride, pad, dilate, groups)
    close(found, expected + b.reshape(-1, *(1,) * (x.ndim - 2)), dtype)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_deconvolution_is_the_adjoint(rng, name):
    xs, ws, stride, pad, dilate, groups = CONVOLUTIONS[name]
    x, w = nd.array(rng.standard_normal(xs)), nd.array(rng.standard_normal(ws))
    attrs = {"kernel": ws[2:], "stride": stride, "pad": pad, "dilate": dilate, "num_group": groups, "no_bias": True}
    y = nd.Convolution(x, w, **attrs)
    h = nd.array(rng.standard_normal(y.shape))
    sizes = zip(xs[2:], y.shape[2:], ws[2:], stride, pad, dilate, strict=True)
    adj = tuple(n - (s * (m - 1) + d * (k - 1) + 1 - 2 * p) for n, m, k, s, p, d in sizes)
    back = nd.Deconvolution(h, w, adj=adj, **attrs)
    assert (y * h).sum().item() == pytest.approx((x * back).sum().item(), rel=1e-10)


def test_deconvolution_shapes():
    x, w = nd.ones((1, 2, 5, 5)), nd.ones((2, 3, 3, 3))
    attrs = {"kernel": (3, 3), "num_filter": 3, "stride": (2, 2)}
    found = nd.Deconvolution(x, w, pad=(1, 1), adj=(1, 1), **attrs)
    assert found.shape == (1, 3, 10, 10) and found.reshape(-1)[:3].tolist() == [2, 4, 2]
    assert nd.Deconvolution(x, w, target_shape=(10, 10), **attrs).shape == (1, 3, 10, 10)
    assert nd.Deconvolution(x, w, nd.ones(3), no_bias=False, **attrs).shape == (1, 3, 11, 11)


def test_convolution_gradients(rng):
    x, w, b = (rng.standard_normal(s) for s in ((2, 2, 4, 3), (4, 1, 2, 2), (4,)))
    attrs = {"kernel": (2, 2), "stride": (2, 1), "pad": (1, 0), "num_group": 2}
    check_grads(lambda x, w, b: nd.Convolution(x, w, b, num_filter=4, **attrs), [x, w, b], order=3)
    operands = [rng.standard_normal(s) for s in ((1, 2, 4), (2, 2, 3))]
    check_grads(lambda x, w: nd.tanh(nd.Convolution(x, w, kernel=3, no_bias=True)), operands, order=2)
    check_grads(lambda x, w: nd.Deconvolution(x, w, kernel=(2, 2), stride=(2, 2), adj=(1, 0)), [x[:1], w[:2]], order=3)


def test_channels_last(rng):
    x, w = rng.standard_normal((2, 3, 5, 4)), rng.standard_normal((4, 3, 2, 2))
    last = lambda a: nd.array(np.moveaxis(a, 1, -1).copy())  # noqa: E731
    attrs = {"kernel": (2, 2), "num_filter": 4, "no_bias": True}
    first = nd.Convolution(nd.array(x), nd.array(w), **attrs).asnumpy()
    close(nd.Convolution(last(x), last(w), layout="NHWC", **attrs), np.moveaxis(first, 1, -1))
    pooled = nd.Pooling(nd.array(x), kernel=(2, 2)).asnumpy()
    close(nd.Pooling(last(x), kernel=(2, 2), layout="NHWC"), np.moveaxis(pooled, 1, -1))


def test_convolution_without_samples():
    y = nd.Convolution(nd.zeros((0, 2, 4, 4)), nd.zeros((3, 2, 3, 3)), no_bias=True)
    assert y.shape == (0, 3, 2, 2)


def test_workspaces_are_kept_and_each_thread_has_its_own(rng):
    x, w = nd.array(rng.standard_normal((2, 2, 8, 8))), nd.array(rng.standard_normal((3, 2, 3, 3)))
    expected = nd.Convolution(x, w, no_bias=True).asnumpy()
    mine = convolution._workspaces.d
    nd.Convolution(x, w, no_bias=True)
    assert convolution._workspaces.d is mine
    wrong, theirs = [], []

    def work():
        for _ in range(50):
            if not np.array_equal(nd.Convolution(x, w, no_bias=True).asnumpy(), expected):
                wrong.append(True)
        theirs.append(convolution._workspaces.d)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and len({id(v) for v in [mine, *theirs]}) == 5


# Pooling.


def pooled(x, kernel, stride, pad, kind, convention, count_pad, p=2):
    spatial = x.shape[2:]
    up = [s - 1 if convention == "full" else 0 for s in stride]
    outs = [
        -(-n // s) if convention == "same" else (n + 2 * q - k + u) // s + 1
        for n, k, s, q, u in zip(spatial, kernel, stride, pad, up, strict=True)
    ]
    y = np.empty((*x.shape[:2], *outs))
    for o in np.ndindex(*outs):
        starts = [i * s - q for i, s, q in zip(o, stride, pad, strict=True)]
        window = tuple(slice(max(0, a), a + k) for a, k in zip(starts, kernel, strict=True))
        v = x[(..., *window)].reshape(*x.shape[:2], -1)
        cells = np.prod([min(a + k, n + q) - a for a, k, n, q in zip(starts, kernel, spatial, pad, strict=True)])
        divisor = cells if count_pad else v.shape[-1]
        y[(..., *o)] = {
            "max": lambda v=v: v.max(-1),
            "avg": lambda v=v, d=divisor: v.sum(-1) / d,
            "sum": lambda v=v: v.sum(-1),
            "lp": lambda v=v: (np.abs(v) ** p).sum(-1) ** (1 / p),
        }[kind]()
    return y


@pytest.mark.parametrize("kind", ["max", "avg", "sum", "lp"])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "pad", "convention", "count_pad"),
    [
        ((2, 2, 9), (3,), (2,), (1,), "valid", True),
        ((2, 2, 12), (3,), (2,), (1,), "full", False),
        ((1, 2, 12), (3,), (5,), (0,), "same", True),
        ((2, 1, 6, 5), (2, 3), (2, 1), (1, 1), "valid", False),
        ((2, 1, 6, 5), (3, 2), (2, 2), (1, 0), "full", True),
        ((1, 2, 4, 3, 5), (2, 2, 3), (1, 1, 2), (0, 1, 1), "valid", True),
    ],
)
def test_pooling(rng, kind, shape, kernel, stride, pad, convention, count_pad):
    x = rng.standard_normal(shape)
    for dtype in DTYPES:
        narrow = x.astype(dtype)
        found = nd.Pooling(
            nd.array(narrow),
            kernel=kernel,
            stride=stride,
            pad=pad,
            pool_type=kind,
            pooling_convention=convention,
            count_include_pad=count_pad,
            p_value=3,
        )
        expected = pooled(narrow.astype("float64"), kernel, stride, pad, kind, convention, count_pad, 3)
        close(found, expected, dtype)


def test_global_pooling(rng):
    x = rng.standard_normal((2, 3, 4, 5))
    close(nd.Pooling(nd.array(x), global_pool=True), x.max((2, 3), keepdims=True))
    close(
        nd.Pooling(nd.array(x), global_pool=True, pool_type="avg", kernel=(2, 2), pad=(1, 1)),
        x.mean((2, 3), keepdims=True),
    )


@pytest.mark.parametrize("kind", ["max", "avg", "sum", "lp"])
def test_pooling_gradients(rng, kind):
    x = rng.standard_normal((1, 2, 4, 4))
    f = lambda a: nd.sin(nd.Pooling(a, kernel=(2, 3), stride=(2, 1), pad=(1, 0), pool_type=kind, p_value=3))  # noqa: E731
    check_grads(f, [x], order=3)


def test_max_pooling_gradient_at_a_tie_goes_to_the_first():
    x = nd.array([[[1.0, 1.0, 1.0, 0.0]]])
    x.attach_grad()
    with autograd.record():
        y = nd.Pooling(x, kernel=(2,), stride=(2,))
    y.backward()
    assert x.grad.tolist() == [[[1, 0, 1, 0]]]


def test_lp_pooling_gradient_at_zero_is_zero():
    x = nd.zeros((1, 1, 4))
    x.attach_grad()
    with autograd.record():
        y = nd.Pooling(x, kernel=(2,), pool_type="lp")
    y.backward()
    assert x.grad.tolist() == [[[0, 0, 0, 0]]]


def test_target_shape_replaces_pad_and_adj():
    x, w = nd.ones((2, 3, 4)), nd.ones((3, 5, 3))
    y = nd.Deconvolution(x, w, kernel=(3,), stride=(2,), target_shape=(8,), pad=(99,), adj=(101,))
    assert y.shape == (2, 5, 8)


def test_attributes_for_more_dimensions_than_there_are_must_be_the_default():
    x = nd.ones((1, 1, 10))
    assert nd.Pooling(x, kernel=2, stride=2, pad=(0, 0, 0), pooling_convention="same").shape == (1, 1, 5)
    with pytest.raises(ValueError, match="pad needs 1 integer"):
        nd.Pooling(x, kernel=2, stride=2, pad=(0, 1))
