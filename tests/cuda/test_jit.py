"""Compiled functions on a GPU give what they give on the CPU."""

import functools

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.backends.cuda import driver
from nbgrad.errors import ContextError

CPU = nb.cpu(0)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4))
W = RNG.standard_normal((4, 4)) * 0.5


def arrays(found):
    """Those in a result."""
    return [y for part in found for y in arrays(part)] if isinstance(found, list | tuple) else [found]


def leaves(found):
    """The same as NumPy's."""
    return [y.asnumpy() if isinstance(y, nb.NDArray) else np.asarray(y) for y in arrays(found)]


def check(function, *values, tolerance=1e-11):
    """The compiled function gives the same on both devices, where its arguments are."""
    compiled = nb.jit(function)
    wanted = leaves(compiled(*[nd.array(v, ctx=CPU, dtype=v.dtype) for v in values]))
    found = compiled(*[nd.array(v, ctx=nb.gpu(0), dtype=v.dtype) for v in values])
    assert all(y.context == nb.gpu(0) for y in arrays(found))
    for a, b in zip(leaves(found), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    assert len(compiled.programs) == 2
    return compiled


def energy(x, w):
    h = nd.tanh(nd.dot(x, w) + 1)
    return nd.sum(nd.softmax(h) ** 2) + nd.max(nd.LayerNorm(h, w[0], w[1]))


FUNCTIONS = {
    "value": energy,
    "gradient": nb.value_and_grad(energy, argnums=(0, 1)),
    "second": lambda x, w: nb.hvp(lambda v: energy(v, w))(x, w[:3]),
    "hessian": lambda x, w: nb.hessian(lambda v: nd.sum(nd.sin(v) ** 3 * w))(x[0]),
    "jacobian": lambda x, w: nb.jacobian(lambda v: nd.dot(nd.exp(v), w))(x),
    "moves": lambda x, w: nd.concat(x.T, w[::-1, 1:3], dim=1) * 2,
    "padded": lambda x, w: nd.sum(nd.concat(x[:, 1:], nd.zeros((3, 2), dtype="float64"), dim=1) * nd.exp(w[0, 0])),
    "rows": lambda x, w: nd.log_softmax(x * 2) - nd.norm(x, axis=1, keepdims=True),
    "indices": lambda x, w: nd.take(w, nd.argmax(x, axis=1)) + nd.pick(x, nd.array([0, 1, 2])).expand_dims(1),
    "types": lambda x, w: nd.cast(x, "float32") * 2 + nd.cast(w[0] > 0, "float32"),
    "host": lambda x, w: nd.linalg.inverse(nd.dot(w, w.T) + nd.array(np.eye(4), dtype="float64")) * 2,
    "none": lambda x, w: x.reshape((4, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(gpu, name):
    check(FUNCTIONS[name], X, W)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_other_dtypes(gpu, dtype):
    check(
        nb.value_and_grad(lambda x, w: nd.mean(nd.softmax(x) * w[:3])), X.astype(dtype), W.astype(dtype), tolerance=2e-3
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_products(gpu, dtype):
    a, b = RNG.standard_normal((18, 20)).astype(dtype), RNG.standard_normal((20, 19)).astype(dtype)
    check(lambda a, b: nd.dot(a, b) * 2, a, b, tolerance=1e-2 if dtype == "float16" else 1e-5)


class Cube(autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return nd.array(x.asnumpy() ** 3, dtype=x.dtype)

    def backward(self, g):
        (x,) = self.saved_tensors
        return g * 3 * x * x


def test_code_of_the_users(gpu):
    check(nb.value_and_grad(lambda x: nd.sum(Cube()(x) * x)), X)
    with gpu:  # what it makes without saying where is on the CPU, as what it gets
        check(lambda x: Cube()(x) * 2, X)


def test_random_numbers(gpu):
    def noisy(x):
        return x + nd.random.normal(shape=(3, 4), dtype="float64") + nd.Dropout(x, p=0.5, mode="always")

    compiled = nb.jit(noisy)
    found = []
    for ctx in (CPU, gpu):
        x = nd.array(X, ctx=ctx, dtype="float64")
        compiled(x)
        nb.random.seed(5)
        found.append([compiled(x).asnumpy() for _ in range(2)])
    np.testing.assert_array_equal(*found)
    assert not np.array_equal(found[0][0], found[0][1])


def test_captured_arrays(gpu):
    w = nd.array(W, ctx=gpu, dtype="float64")
    x = nd.array(X, ctx=gpu, dtype="float64")
    f = nb.jit(lambda v: nd.dot(v, w))
    first = f(x)
    w *= 2
    np.testing.assert_allclose(f(x).asnumpy(), 2 * first.asnumpy())
    found = f(X)  # from NumPy to NumPy, where the captured array is
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, X @ (2 * W))
    found += 1  # it is the caller's
    assert isinstance(nb.jit(lambda v: nd.sum(w).reshape(()) * v)(2.0), float)
    assert nb.jit(lambda: nd.exp(w) * nd.ones((4,), ctx=gpu, dtype="float64"))().context == gpu


def test_devices_do_not_mix(gpu):
    here, there = nd.array(X, dtype="float64"), nd.array(X, ctx=gpu, dtype="float64")
    called = []

    def add(x, y):
        called.append(1)
        return x + y

    with pytest.raises(ContextError, match=r"add: arguments are on different devices, gpu\(0\) and cpu\(0\)"):
        nb.jit(add)(there, here)
    assert not called
    for x, y in ((here, there), (there, here)):
        with pytest.raises(ContextError, match=r"called for .* reads an array of shape \(3, 4\) on .*as_in_context"):
            nb.jit(functools.partial(lambda y, v: v + y, y))(x)
    with pytest.raises(ContextError, match=r"njit: nopython functions run on the CPU.*gpu\(0\)"):
        nb.jit(nd.exp).njit(there)


def test_on_the_tape(gpu):
    x = nd.array(X, ctx=gpu, dtype="float64")
    w = nd.array(W, ctx=gpu, dtype="float64")
    f = nb.jit(energy)
    found = []
    for function in (energy, f):
        for v in (x, w):
            v.attach_grad()
        with autograd.record():
            y = function(x, w)
            (g,) = autograd.grad(y, [x], create_graph=True)
            z = nd.sum(g * g)
        z.backward()
        found.append([y, x.grad.copy(), w.grad.copy()])
    for a, b in zip(*found, strict=True):
        assert b.context == gpu
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-10, atol=1e-12)


def test_what_a_call_writes(gpu):
    """BatchNorm's running statistics."""
    found = []
    for ctx in (CPU, gpu):
        gamma, beta, mean, var = [
            nd.array(v, ctx=ctx, dtype="float64") for v in (np.ones(4), np.zeros(4), W[0], W[1] ** 2)
        ]
        step = nb.jit(lambda x, g=gamma, b=beta, m=mean, v=var: nd.BatchNorm(x, *(k for k in (g, b, m, v))))
        with autograd.train_mode():
            found.append(leaves([step(nd.array(X, ctx=ctx, dtype="float64"), gamma, beta, mean, var), mean, var]))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_source(gpu):
    f = check(lambda x: nd.sum(nd.sin(x)), X)
    first = f.source()
    assert "cuda.grid" in first and f.source("gpu") == first
    assert "cuda" not in f.source("cpu")
    f(X)
    assert f.source() != f.source("gpu") == first
    assert "gpu(0)" in f.report() or f.report()
    with pytest.raises(nb.NBGradError, match="device must be 'cpu' or 'gpu', got 'tpu'"):
        f.source("tpu")


def test_source_without_a_gpu(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("nothing is to be compiled")

    monkeypatch.setattr(driver, "compiled", refuse)
    f = nb.jit(nb.value_and_grad(energy))
    f(X, W)
    assert "cuda.grid" in f.source("gpu")
