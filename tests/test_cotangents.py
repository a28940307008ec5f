"""Cotangents that are one number for all elements: what was summed up, and large heads. They must never be read, or
written, as if all elements were there."""

import numpy as np
import pytest

import nbgrad
from nbgrad import autograd, nd
from nbgrad.autodiff.cotangents import dense_copy, is_uniform, uniform_buffer
from nbgrad.backends import threads
from nbgrad.backends.buffer_pool import LARGE

N = LARGE + 4


def arrays(dtype="float64", shape=(2, N // 2)):
    rng = np.random.default_rng(0)
    found = [nd.array(rng.uniform(0.5, 1.5, shape), dtype=dtype) for _ in range(3)]
    for x in found:
        x.attach_grad()
    return found


def kept(x, y, z):
    """A recorded result that several others read."""
    h = x * y
    return nd.sum(h) + nd.sum(h * h) + nd.sum(z)


#: Functions of three arrays of one shape. What is summed comes last, so that its cotangent is uniform.
FUNCTIONS = {
    "a leaf": lambda x, y, z: nd.sum(x) + nd.sum(y) * nd.sum(z),
    "one leaf twice": lambda x, y, z: nd.sum(x + x) + nd.sum(y - z),
    "sums of leaves": lambda x, y, z: nd.sum(x + y - z),
    "reads its operands": lambda x, y, z: nd.sum(x * y / z),
    "reads its result": lambda x, y, z: nd.sum(nd.exp(x + y)) + nd.sum(nd.sqrt(z)),
    "numbers": lambda x, y, z: nd.sum(2 * (1 - nd.square(x * y)) / 3 - z),
    "mean": lambda x, y, z: nd.mean(nd.square(x - y)) + nd.mean(z, keepdims=True).reshape((1,)),
    "reshaped": lambda x, y, z: nd.sum((x * y).reshape((-1,)) + z.reshape((-1,))),
    "several readers": kept,
    "several sums": lambda x, y, z: (lambda h: nd.sum(h) + 2 * nd.sum(h))(x * y + z),
    "a sum of sums": lambda x, y, z: nd.sum(nd.sum(x * y, axis=1) * nd.sum(z, axis=1)),
    "slices": lambda x, y, z: nd.sum(x[1:] * y[:1] + z[1:]) + nd.sum(x[:1]),
    "broadcast operands": lambda x, y, z: nd.sum(x * y[:1]) + nd.sum(nd.tanh(z) * x[:, :1]),
    "broadcast sums": lambda x, y, z: nd.sum(x + y[:1]) + nd.sum(z[:, :1] - x),
    "narrower than the result": lambda x, y, z: nd.sum(x[:1] * y[:, :1]) + nd.sum(z * z),
    "structured": lambda x, y, z: nd.sum(nd.transpose(x) * nd.transpose(y)) + nd.sum(nd.cumsum(z, axis=1)),
    "cast": lambda x, y, z: nd.sum((x * y).astype("float32")) + nd.sum(z.astype("float32")),
    "clipped": lambda x, y, z: nd.sum(nd.maximum(x, y)) + nd.sum(nd.clip(z, 0.7, 1.2)),
    "no sum": lambda x, y, z: x * y + z,
    "no sum, nothing read": lambda x, y, z: 2 * (x + y) - z,
    "no sum, structured": lambda x, y, z: nd.transpose(x + y * z),
    "no sum, broadcast": lambda x, y, z: x * y[:1] - z[:, :1],
}


def values(found):
    return [g.asnumpy() for g in found]


@pytest.fixture(params=[1, 2])
def shared(request, monkeypatch):
    """With one thread, and with two that share what is that large."""
    before = nbgrad.get_num_threads()
    nbgrad.set_num_threads(request.param)
    monkeypatch.setattr(threads, "GRAIN", 512)
    yield
    nbgrad.set_num_threads(before)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_the_recorded_sweep(name):
    xs = arrays()
    with autograd.record():
        y = FUNCTIONS[name](*xs)
    expected = values(autograd.grad(y, xs, retain_graph=True, create_graph=True))
    found = values(autograd.grad(y, xs, retain_graph=True))
    y.backward(retain_graph=True)
    y.backward()
    for x, g, e in zip(xs, found, expected, strict=True):
        np.testing.assert_allclose(g, e, 1e-6 if name == "cast" else 1e-13)
        np.testing.assert_array_equal(x.grad.asnumpy(), g)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ["reads its operands", "numbers", "several readers", "slices", "no sum"])
def test_other_dtypes(name, dtype):
    xs = arrays(dtype, shape=(2, N // 2))
    with autograd.record():
        y = FUNCTIONS[name](*xs) if name == "no sum" else FUNCTIONS[name](*xs) / 64
    expected = values(autograd.grad(y, xs, retain_graph=True, create_graph=True))
    y.backward()
    for x, e in zip(xs, expected, strict=True):
        np.testing.assert_allclose(x.grad.asnumpy(), e, 4e-3 if dtype == "float16" else 1e-6)


def test_gradients_are_added_where_that_is_asked_for():
    xs = arrays()
    for x in xs:
        x.attach_grad("add")
    for _ in range(2):
        with autograd.record():
            y = nd.sum(xs[0] * xs[1] + xs[2])
        y.backward()
    np.testing.assert_allclose(xs[0].grad.asnumpy(), 2 * xs[1].asnumpy())
    np.testing.assert_array_equal(xs[2].grad.asnumpy(), np.full(xs[2].shape, 2.0))


def test_gradients_of_steps_in_between_are_arrays_of_their_own():
    x, y, z = arrays()
    with autograd.record():
        h = x * y
        k = h + z
        total = nd.sum(k)
    gh, gk, gx = autograd.grad(total, [h, k, x])
    gk[:] = 5
    np.testing.assert_array_equal(gh.asnumpy(), np.ones(h.shape))
    np.testing.assert_array_equal(gk.asnumpy(), np.full(h.shape, 5.0))
    np.testing.assert_array_equal(gx.asnumpy(), y.asnumpy())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_some_arrays_are_those_of_all(name):
    xs = arrays()
    with autograd.record():
        y = FUNCTIONS[name](*xs)
    expected = values(autograd.grad(y, xs, retain_graph=True))
    for x, e in zip(xs, expected, strict=True):
        (g,) = autograd.grad(y, [x], retain_graph=True)
        np.testing.assert_array_equal(g.asnumpy(), e)


def test_one_array_is_several_heads():
    x, y, z = arrays()
    with autograd.record():
        h = x * y + z
    autograd.backward([h, h, h, x], [None, nd.ones_like(h) * 2, None, None])
    np.testing.assert_array_equal(x.grad.asnumpy(), 4 * y.asnumpy() + 1)
    np.testing.assert_array_equal(z.grad.asnumpy(), np.full(z.shape, 4.0))


def test_gradients_by_functions_and_checkpoints():
    x, y, z = arrays()

    def f(x, y, z):
        return nd.sum(autograd.checkpoint(lambda a, b: nd.exp(a) * b)(x, y) + z)

    expected = [np.exp(x.asnumpy()) * y.asnumpy(), np.exp(x.asnumpy()), np.ones(z.shape)]
    for g, e in zip(nbgrad.grad(f, (0, 1, 2))(x, y, z), expected, strict=True):
        np.testing.assert_allclose(g.asnumpy(), e, 1e-14)


def test_gradients_are_looked_at_by_detect_anomaly():
    x, y, z = arrays()
    x[0, 1] = 0
    with autograd.detect_anomaly():
        with autograd.record():
            loss = nd.sum(nd.sqrt(x) + y - 2 * z)
        with pytest.raises(autograd.AnomalyError) as caught:
            loss.backward()
    assert caught.value.op == "sqrt"
    assert caught.value.output.inf == 1


def test_a_uniform_buffer_is_one_number():
    x = nd.array([3.0])
    buf = uniform_buffer(x._buf, N)
    assert is_uniform(buf)
    assert buf.size == N
    whole = dense_copy(buf, x._kind)
    assert not is_uniform(whole)
    assert not is_uniform(x._buf)
    np.testing.assert_array_equal(whole, np.full(N, 3, np.float32))


def test_an_empty_cotangent_is_no_number():
    empty = np.ndarray((0,), np.float64, np.empty(1), strides=(0,))
    assert not is_uniform(empty)
    assert is_uniform(uniform_buffer(np.ones(1), 3))
