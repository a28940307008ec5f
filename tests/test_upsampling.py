"""UpSampling, LRN and SyncBatchNorm: numbers of MXNet 1.9.1, and errors."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.testing import check_grads

IMAGE = nd.array(np.arange(4.0).reshape(1, 1, 2, 2))
WEIGHT = nd.array(np.arange(16.0).reshape(1, 1, 4, 4))


def test_bilinear():
    y = nd.UpSampling(IMAGE / 7, WEIGHT, scale=2, sample_type="bilinear", num_args=2, num_filter=1)
    expected = [
        [0.0, 0.5714, 0.7143, 0.8571],
        [0.2857, 1.7143, 2.5714, 2.2857],
        [1.4286, 5.1429, 6.0, 4.5714],
        [2.5714, 6.2857, 7.0, 4.2857],
    ]
    np.testing.assert_allclose(y.asnumpy()[0, 0], expected, atol=5e-5)
    weight = nd.array(np.arange(25.0).reshape(1, 1, 5, 5))
    assert nd.UpSampling(IMAGE, weight, scale=3, sample_type="bilinear").shape == (1, 1, 6, 6)
    check_grads(
        lambda x, w: nd.sin(nd.UpSampling(x, w, scale=2, sample_type="bilinear")),
        [IMAGE.astype("float64") / 7, WEIGHT.astype("float64") / 9],
        order=2,
    )


def test_several_stacks():
    small = nd.ones((1, 1, 1, 1)) * 4
    y = nd.UpSampling(IMAGE, small, scale=2, sample_type="nearest", num_args=2)
    assert y.shape == (1, 2, 4, 4)
    assert y[0, 0, 0].tolist() == [0, 0, 1, 1]
    assert (y[0, 1].asnumpy() == 4).all()
    y = nd.UpSampling(IMAGE, small, scale=2, sample_type="nearest", multi_input_mode="sum")
    assert y[0, 0, 0].tolist() == [4, 4, 5, 5]


@pytest.mark.parametrize(
    ("arrays", "options", "error", "text"),
    [
        ([IMAGE], {"sample_type": "nearest"}, nb.errors.AttrError, "scale must be"),
        ([IMAGE], {"scale": 0, "sample_type": "nearest"}, nb.errors.AttrError, "scale must be"),
        ([IMAGE], {"scale": 2}, nb.errors.AttrError, "sample_type must be"),
        ([IMAGE], {"scale": 2, "sample_type": "nearest", "num_args": 2}, nb.errors.AttrError, "num_args is 2"),
        ([IMAGE[0]], {"scale": 2, "sample_type": "nearest"}, nb.errors.ShapeError, "4 axes"),
        ([IMAGE], {"scale": 2, "sample_type": "bilinear"}, nb.errors.AttrError, "images and a weight"),
        ([IMAGE, IMAGE], {"scale": 2, "sample_type": "bilinear"}, nb.errors.ShapeError, r"\(1, 1, 4, 4\)"),
        ([IMAGE, WEIGHT], {"scale": 2, "sample_type": "bilinear", "num_filter": 3}, nb.errors.AttrError, "num_filter"),
        ([IMAGE, nd.ones((1, 1, 3, 3))], {"scale": 2, "sample_type": "nearest"}, nb.errors.ShapeError, "whole number"),
        ([IMAGE], {"scale": 2, "sample_type": "nearest", "multi_input_mode": "x"}, nb.errors.AttrError, "'concat' or"),
        (
            [IMAGE, nd.ones((1, 2, 1, 1))],
            {"scale": 2, "sample_type": "nearest", "multi_input_mode": "sum"},
            nb.errors.ShapeError,
            "channels",
        ),
    ],
)
def test_upsampling_errors(arrays, options, error, text):
    with pytest.raises(error, match=text):
        nd.UpSampling(*arrays, **options)


def test_lrn_as_mxnet():
    x = nd.array(np.arange(16.0).reshape(1, 4, 2, 2) / 7)
    x.attach_grad()
    with autograd.record():
        y = nd.LRN(x, nsize=3, alpha=0.5, beta=0.75, knorm=2)
    y.backward()
    np.testing.assert_allclose(
        y.asnumpy()[0].reshape(4, 4),
        [
            [0.0, 0.0822, 0.1617, 0.2375],
            [0.3088, 0.3747, 0.4342, 0.4872],
            [0.5334, 0.5733, 0.6072, 0.6355],
            [0.8122, 0.8466, 0.8759, 0.9005],
        ],
        atol=6e-5,
    )
    np.testing.assert_allclose(2 * x.grad.asnumpy()[0, 0].reshape(4), [1.1655, 1.1371, 1.0961, 1.0450], atol=1e-4)


@pytest.mark.parametrize("nsize", [None, 0, 2, 1.5])
def test_lrn_errors(nsize):
    with pytest.raises(nb.errors.AttrError, match="nsize must be an odd integer"):
        nd.LRN(IMAGE, nsize=nsize)


def test_lrn_of_what_it_does_not_take():
    with pytest.raises(nb.errors.ShapeError, match="channels"):
        nd.LRN(nd.ones(3), nsize=3)
    with pytest.raises(nb.errors.DTypeError, match="floating"):
        nd.LRN(IMAGE.astype("int32"), nsize=3)


@pytest.mark.parametrize("training", [True, False])
def test_sync_batch_norm(training):
    x = nd.array(np.arange(32.0).reshape(2, 4, 2, 2) / 7)
    x.attach_grad()

    def run(op, **options):
        mean, var = nd.zeros(4), nd.ones(4)
        with autograd.record(train_mode=training):
            y = op(x, nd.ones(4), nd.zeros(4), mean, var, output_mean_var=True, **options)
        y[0].backward(x)
        return y, mean, var, x.grad.copy()

    found, expected = run(nd.contrib.SyncBatchNorm, key="k", ndev=1), run(nd.BatchNorm)
    for a, b in zip((*found[0][:2], *found[1:]), (*expected[0][:2], *expected[1:]), strict=True):
        assert np.array_equal(a.asnumpy(), b.asnumpy())
    variance = found[0][2].asnumpy()
    np.testing.assert_allclose(variance, [1.33163] * 4 if training else [1] * 4, rtol=1e-5)
    with pytest.raises(nb.errors.NBGradError, match="BatchNorm"):
        nd.contrib.SyncBatchNorm(x, nd.ones(3), nd.zeros(4), nd.zeros(4), nd.ones(4))
    alone = nd.contrib.SyncBatchNorm(x, nd.ones(4), nd.zeros(4), nd.zeros(4), nd.ones(4), key="k")
    assert alone.shape == x.shape
