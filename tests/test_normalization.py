"""Batch, layer, instance and group normalization; fused backward kernels against the rules."""

import numpy as np
import pytest
from networks import DTYPES, close

from nbgrad import autograd, nd
from nbgrad.testing import check_grads

# Normalization.


def normalized(x, gamma, beta, axes, shape, eps):
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * gamma.reshape(shape) + beta.reshape(shape), mean, var


BATCH_SHAPES = [((4, 3, 5), 1), ((6, 3), 1), ((2, 3, 2, 4), -1), ((3, 4, 2), 0)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axis"), BATCH_SHAPES)
def test_batch_norm_training(rng, shape, axis, dtype):
    x = (rng.standard_normal(shape) + 1).astype(dtype)
    n = shape[axis]
    inner = "float32" if dtype == "float16" else dtype
    gamma, beta = rng.standard_normal(n).astype(inner), rng.standard_normal(n).astype(inner)
    mean, var = (rng.uniform(1, 2, n).astype(inner) for _ in range(2))
    running = [nd.array(mean), nd.array(var)]
    attrs = {"eps": 0.01, "momentum": 0.8, "fix_gamma": False, "axis": axis}
    with autograd.train_mode():
        y, m, rstd = nd.BatchNorm(nd.array(x), nd.array(gamma), nd.array(beta), *running, output_mean_var=True, **attrs)
    axes = tuple(k for k in range(x.ndim) if k != axis % x.ndim)
    along = [n if k == axis % x.ndim else 1 for k in range(x.ndim)]
    expected, batch_mean, batch_var = normalized(x.astype("float64"), gamma, beta, axes, along, 0.01)
    close(y, expected, dtype)
    close(m, batch_mean.ravel(), inner)
    close(rstd, 1 / np.sqrt(batch_var.ravel() + 0.01), inner)
    close(running[0], 0.8 * mean + 0.2 * batch_mean.ravel(), inner)
    close(running[1], 0.8 * var + 0.2 * batch_var.ravel(), inner)


@pytest.mark.parametrize("attrs", [{}, {"use_global_stats": True}])
def test_batch_norm_predicting_or_with_global_statistics(rng, attrs):
    x, gamma, beta, mean, var = rng.standard_normal((4, 3)), *rng.uniform(1, 2, (4, 3))
    running = [nd.array(mean), nd.array(var)]
    with autograd.train_mode() if attrs else autograd.predict_mode():
        y = nd.BatchNorm(nd.array(x), nd.array(gamma), nd.array(beta), *running, fix_gamma=False, eps=0.1, **attrs)
    close(y, (x - mean) / np.sqrt(var + 0.1) * gamma + beta)
    assert running[0].asnumpy().tolist() == mean.tolist() and running[1].asnumpy().tolist() == var.tolist()


def test_running_statistics_move_once_in_the_forward(rng):
    x = nd.array(rng.standard_normal((8, 2)))
    x.attach_grad()
    mean, var = nd.zeros(2, dtype="float64"), nd.ones(2, dtype="float64")
    gamma = nd.array([2.0, 3.0], dtype="float64")
    gamma.attach_grad()
    with autograd.record():
        y = nd.BatchNorm(x, gamma, nd.zeros(2, dtype="float64"), mean, var)
    moved = mean.asnumpy()
    np.testing.assert_allclose(moved, 0.1 * x.asnumpy().mean(0))
    y.backward(retain_graph=True)
    y.backward()
    assert (mean.asnumpy() == moved).all()
    assert gamma.tolist() == [2, 3] and gamma.grad.tolist() == [0, 0]  # fix_gamma, the default
    np.testing.assert_allclose(y.asnumpy().std(0), 1, rtol=1e-2)


@pytest.mark.parametrize("mode", ["fixed", "predict"])
def test_fixed_gamma_and_running_statistics_have_zero_gradient(mode):
    arrays = [nd.array([[1.0, 2.0], [3.0, 5.0]]), *(nd.ones(2) for _ in range(4))]
    for a in arrays[:3]:
        a.attach_grad()
    arrays[1].grad[:] = 7
    with autograd.record(train_mode=mode == "fixed"):
        y = nd.BatchNorm(*arrays)
    y.backward()
    assert arrays[1].grad.tolist() == [0, 0] and arrays[2].grad.tolist() == [2, 2]


def training(f):
    def call(*args):
        with autograd.train_mode():
            return f(*args)

    return call


@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 2), 1), ((4, 2), 1), ((2, 2, 2), -1)])
@pytest.mark.parametrize("outputs", [False, True])
def test_batch_norm_gradients(rng, shape, axis, outputs):
    n = shape[axis]
    running = nd.zeros(n, dtype="float64"), nd.ones(n, dtype="float64")
    f = training(lambda x, g, b: nd.BatchNorm(x, g, b, *running, fix_gamma=False, axis=axis, output_mean_var=outputs))
    check_grads(f, [rng.standard_normal(s) for s in (shape, n, n)], order=2 if outputs else 3)


def test_batch_norm_gradients_predicting(rng):
    running = nd.array(rng.standard_normal(3)), nd.array(rng.uniform(1, 2, 3))
    f = lambda x, g, b: nd.BatchNorm(x, g, b, *running, fix_gamma=False)  # noqa: E731
    with autograd.predict_mode():
        x, g, b = (nd.array(rng.standard_normal(s)) for s in ((2, 3), 3, 3))
        for a in (x, g, b):
            a.attach_grad()
        with autograd.record(train_mode=False):
            y = f(x, g, b)
        y.backward()
    scale = 1 / np.sqrt(running[1].asnumpy() + 1e-3)
    close(x.grad, np.tile(g.asnumpy() * scale, (2, 1)))
    close(g.grad, ((x.asnumpy() - running[0].asnumpy()) * scale).sum(0))
    close(b.grad, [2, 2, 2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_norm(rng, axis, dtype):
    x = rng.standard_normal((4, 3, 6)).astype(dtype)
    n = x.shape[axis]
    gamma, beta = (rng.standard_normal(n).astype(dtype) for _ in range(2))
    y, mean, std = nd.LayerNorm(nd.array(x), nd.array(gamma), nd.array(beta), axis=axis, eps=0.01, output_mean_var=True)
    along = [n if k == axis % 3 else 1 for k in range(3)]
    wide = [a.astype("float64") for a in (x, gamma, beta)]
    expected, m, v = normalized(*wide, axis, along, 0.01)
    inner = "float32" if dtype == "float16" else dtype
    close(y, expected, dtype)
    close(mean, m, inner)
    close(std, np.sqrt(v + 0.01), inner)


@pytest.mark.parametrize(("shape", "axis"), [((2, 3), -1), ((2, 3, 2), 1)])
def test_layer_norm_gradients(rng, shape, axis):
    operands = [rng.standard_normal(s) for s in (shape, shape[axis], shape[axis])]
    check_grads(lambda x, g, b: nd.LayerNorm(x, g, b, axis=axis), operands, order=3)
    check_grads(lambda x, g, b: nd.LayerNorm(x, g, b, axis=axis, output_mean_var=True), operands, order=2)


def test_instance_and_group_norm(rng):
    x, gamma, beta = rng.standard_normal((2, 4, 3, 2)), *rng.standard_normal((2, 4))
    arrays = nd.array(x), nd.array(gamma), nd.array(beta)
    expected, _, _ = normalized(x, gamma, beta, (2, 3), (4, 1, 1), 1e-3)
    close(nd.InstanceNorm(*arrays), expected)
    blocks = x.reshape(2, 2, 2, 3, 2)
    h, mean, var = normalized(blocks, np.ones(1), np.zeros(1), (2, 3, 4), (1,), 1e-5)
    y, m, std = nd.GroupNorm(*arrays, num_groups=2, output_mean_var=True)
    close(y, h.reshape(x.shape) * gamma.reshape(4, 1, 1) + beta.reshape(4, 1, 1))
    close(m, mean.reshape(2, 2))
    close(std, np.sqrt(var + 1e-5).reshape(2, 2))
    by_group = nd.GroupNorm(arrays[0], nd.array(gamma[:2]), nd.array(beta[:2]), num_groups=2)
    close(by_group, (h * gamma[:2].reshape(2, 1, 1, 1) + beta[:2].reshape(2, 1, 1, 1)).reshape(x.shape))
    small = [x[:1, :2, :2, 0], gamma[:2], beta[:2]]
    check_grads(nd.InstanceNorm, small, order=2)
    check_grads(lambda x, g, b: nd.GroupNorm(x, g, b, num_groups=2), small, order=2)


# Fused backward kernels against the rules in operators.

FUSED = {
    "BatchNorm": (training(lambda *a: nd.BatchNorm(*a, nd.zeros(3), nd.ones(3), fix_gamma=False)), ((4, 3, 5), 3, 3)),
    "BatchNorm (n, c)": (
        training(lambda *a: nd.BatchNorm(*a, nd.zeros(3), nd.ones(3), fix_gamma=False)),
        ((7, 3), 3, 3),
    ),
    "LayerNorm": (nd.LayerNorm, ((4, 3), 3, 3)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUSED)
def test_fused_backward_is_the_rule(rng, name, dtype):
    f, shapes = FUSED[name]
    arrays = [nd.array(rng.standard_normal(s).astype(dtype)) for s in shapes]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        y = f(*arrays)
    head = nd.array(rng.standard_normal(y.shape).astype(dtype))
    y.backward(head, retain_graph=True)
    recorded = autograd.grad(y, arrays, head_grads=head, create_graph=True)
    for a, want in zip(arrays, recorded, strict=True):
        close(a.grad, want.asnumpy().astype("float64"), dtype)
