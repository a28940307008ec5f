"""Products by cublasLt: NVIDIA's on a GPU, a stub (cublas.c) in the simulator."""

import ctypes
import gc
import os

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd
from nbgrad.backends.cuda import cublas, driver, product
from nbgrad.backends.cuda.buffers import pools
from nbgrad.backends.cuda.product import product as multiply
from nbgrad.compiler import lowering
from nbgrad.core import config
from nbgrad.ir import graph

STUB = ctypes.CDLL(os.environ["NBGRAD_STUB_LIBRARY"]) if "NBGRAD_STUB_LIBRARY" in os.environ else None
if STUB is None and (driver.simulated() or cublas.library(0) is None):
    pytest.skip("no cublasLt, nor the stub that tests/test_cuda.py builds", allow_module_level=True)

with_stub = pytest.mark.skipif(STUB is None, reason="NVIDIA's library does not fail, or tell, when it is asked to")
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3}
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def library(monkeypatch):
    """It does all products, also small ones."""
    monkeypatch.setattr(product, "_SMALL", 0)
    monkeypatch.setattr(graph, "is_large_product", lambda m, k, n: True)
    monkeypatch.setattr(lowering, "is_large_product", lambda m, k, n: True)
    forget()
    if STUB is not None:
        monkeypatch.setattr(cublas, "load", lambda: STUB)
        monkeypatch.setattr(cublas, "_ALIGNED", 16)  # as the simulator's memory is for certain
    assert "cublasLt" in cublas.status(0)
    yield
    if STUB is not None:
        STUB.stub_fail(0)
    forget()


def forget():
    cublas._plan.cache_clear()
    cublas._opened.cache_clear()


def made(shape, dtype):
    return RNG.standard_normal(shape).astype(dtype)


def on_gpu(x):
    return nd.array(x, ctx=nb.gpu(0), dtype=x.dtype)


def by_library(call):
    """How many products the stub computes meanwhile."""
    before = STUB.stub_multiplied()
    call()
    return STUB.stub_multiplied() - before


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_values(transpose_a, transpose_b, dtype):
    for stack, m, k, n in (((), 3, 4, 5), ((), 1, 7, 1), ((), 5, 1, 3), ((3,), 2, 6, 4), ((2,), 1, 1, 1)):
        a = made((*stack, k, m) if transpose_a else (*stack, m, k), dtype)
        b = made((*stack, n, k) if transpose_b else (*stack, k, n), dtype)
        wanted = (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)
        times = nd.batch_dot if stack else nd.dot

        def call(x, y, times=times):
            return times(x, y, transpose_a=transpose_a, transpose_b=transpose_b)

        for function in (call, nb.jit(call)):
            found = function(on_gpu(a), on_gpu(b)).asnumpy()
            np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * k)


@pytest.mark.parametrize("counts", [(1, 6), (6, 1), (1, 1), (2, 6)])
def test_repeated_matrices(counts):
    """One of them for all, which the library steps over by 0; some in turn are the kernel's."""
    a, b = made((counts[0], 3, 4), "float32"), made((counts[1], 4, 5), "float32")
    out = nd.zeros((6, 3, 5), ctx=nb.gpu(0))

    def call():
        multiply(on_gpu(a)._buf, on_gpu(b)._buf, out._buf, 6, (3, 4, 5), repeated=counts)

    if STUB is not None:
        assert by_library(call) == (2 not in counts)
    call()
    wanted = np.stack([a[k % counts[0]] @ b[k % counts[1]] for k in range(6)])
    np.testing.assert_allclose(out.asnumpy(), wanted, rtol=1e-5, atol=1e-5)


def test_no_elements():
    empty = nb.jit(lambda x, w, b: nd.dot(x, w) + b)(*map(on_gpu, (np.zeros((0, 4)), W, B)))
    assert empty.asnumpy().shape == (0, 5)
    for a, b in (((0, 3), (3, 2)), ((2, 3), (3, 0))):
        assert nd.dot(on_gpu(made(a, "float32")), on_gpu(made(b, "float32"))).shape == (a[0], b[1])
    found = nd.dot(on_gpu(made((2, 0), "float32")), on_gpu(made((0, 3), "float32")))
    np.testing.assert_array_equal(found.asnumpy(), np.zeros((2, 3)))


@pytest.mark.parametrize("offset", [1, 2, 4])
def test_alignment(offset):
    """Parts of arrays begin anywhere; the library is asked for an algorithm that can have it."""
    a, b = made((offset + 3, 1, 5), "float64"), made((offset + 3, 5, 4), "float64")
    found = nd.batch_dot(on_gpu(a)[offset:], on_gpu(b)[offset:])
    np.testing.assert_allclose(found.asnumpy(), a[offset:] @ b[offset:], rtol=1e-12)


X, W, B, V, R = (made(s, "float64") for s in ((6, 4), (4, 5), (5,), (5, 3), (6, 5)))
#: What follows a product, and whether the library computes it.
FOLLOWING = {
    "bias": (lambda x, w, b, r: nd.dot(x, w) + b, True),
    "multiple": (lambda x, w, b, r: nd.dot(x, w) * 0.5, True),
    "negative": (lambda x, w, b, r: -nd.dot(x, w), True),
    "sum": (lambda x, w, b, r: nd.dot(x, w) + r, True),
    "all": (lambda x, w, b, r: r / 4 - (nd.dot(x, w) * 3 - b * -1) * -1, True),
    "step": (lambda x, w, b, r: w - 0.1 * nd.dot(x, r, transpose_a=True), True),
    "stacks": (lambda x, w, b, r: nd.batch_dot(nd.stack(x, -x), nd.stack(w, w * 2)) + b, True),
    "twice": (lambda x, w, b, r: nd.dot(x, w) * 2 + nd.dot(x, w), True),
    "scaled bias": (lambda x, w, b, r: nd.dot(x, w) + 2 * b, False),
    "two arrays": (lambda x, w, b, r: nd.dot(x, w) + r + nd.exp(r), False),
    "constant": (lambda x, w, b, r: nd.dot(x, w) + 1, False),
    "down": (lambda x, w, b, r: nd.dot(x, w) + nd.reshape(x[:, 0], (6, 1)), False),
    "relu": (lambda x, w, b, r: nd.relu(nd.dot(x, w) + b), False),
    "nothing left": (lambda x, w, b, r: nd.dot(x, w) * 0 + r, False),
    "huge": (lambda x, w, b, r: nd.dot(x, w) * 1e20 * 1e20, False),
    "floor": (lambda x, w, b, r: nd.dot(x, w) + nd.floor(r), False),
    "product": (lambda x, w, b, r: nd.dot(x, w) * r, False),
    "other elements": (lambda x, w, b, r: nd.dot(x, w)[::-1] + r, False),
    "kept": (lambda x, w, b, r: (nd.dot(x, w), nd.dot(x, w) + r), False),
    "in two parts": (lambda x, w, b, r: [z := nd.dot(x, w) + b, nd.tanh(z) * r, nd.exp(z) + x[0, 0]], True),
    "of two parts": (lambda x, w, b, r: (nd.dot(x, w) * 2, nd.tanh(nd.dot(x, w)) + r), False),
    "part of a sum": (lambda x, w, b, r: [z := nd.dot(x, w) - nd.dot(2 * x, w), nd.tanh(z)], True),
    "other types": (
        lambda x, w, b, r: nd.cast(nd.cast(nd.dot(x, w), "float32") + 1.0 * nd.cast(r, "float32"), "float64"),
        False,
    ),
    "a result": (lambda x, w, b, r: nd.dot(x, nd.dot(x, r, transpose_a=True) + w), True),
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_what_follows(name):
    function, fused = FOLLOWING[name]
    arrays = X, W, B, R
    wanted = nb.jit(function)(*[nd.array(v, dtype="float64") for v in arrays])
    compiled = nb.jit(function)
    found = compiled(*map(on_gpu, arrays))
    for a, b in zip(*[y if isinstance(y, tuple | list) else (y,) for y in (found, wanted)], strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-12, atol=1e-12)
    assert any(g.linear is not None for g in compiled.latest.compiled.groups) == fused


def random_results(seed, xp, x, w, b, r):
    """Some values of a random program around two products."""
    rng = np.random.default_rng(seed)
    values = [xp.dot(x, w), xp.dot(x * 0.5, w), b, r, r[:, :1]]
    for k in range(3):
        u, v = values[-1] if k else values[0], values[rng.integers(1, len(values))]
        made = [lambda u, v: u + v, lambda u, v: u - v, lambda u, v: u * -0.5, lambda u, v: v / 4 - u,
                lambda u, v: -u, lambda u, v: xp.tanh(u), lambda u, v: u * v]  # fmt: skip
        values.append(made[rng.choice(7, p=[0.25, 0.2, 0.2, 0.2, 0.05, 0.05, 0.05])](u, v))
    return [values[-1], *[values[k] for k in rng.integers(5, 8, int(rng.integers(0, 3)))]]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed):
    compiled = nb.jit(lambda *arrays: random_results(seed, nd, *arrays))
    found = compiled(*map(on_gpu, (X, W, B, R)))
    for y, wanted in zip(found, random_results(seed, np, X, W, B, R), strict=True):
        np.testing.assert_allclose(y.asnumpy(), wanted, rtol=1e-11, atol=1e-11)


def test_one_row_and_one_column():
    """A vector along rows, where rows or columns have one element."""
    for x, w, b in (((1, 4), (4, 5), (5,)), ((6, 4), (4, 1), (1,)), ((6, 4), (4, 1), (6, 1))):
        arrays = [made(s, "float64") for s in (x, w, b)]
        found = nb.jit(lambda x, w, b: nd.dot(x, w) + b)(*map(on_gpu, arrays))
        np.testing.assert_allclose(found.asnumpy(), arrays[0] @ arrays[1] + arrays[2], rtol=1e-12)


def test_not_a_number():
    """Nothing hides it: relu(nan) is NaN."""
    x, w = np.array([[np.nan, 1.0], [2.0, -3.0]]), np.eye(2)
    found = nb.jit(lambda x, w: nd.relu(nd.dot(x, w)))(on_gpu(x), on_gpu(w)).asnumpy()
    np.testing.assert_array_equal(np.isnan(found), [[True, True], [False, False]])


def loss(x, w, b, v):
    return nd.sum(nd.dot(nd.relu(nd.dot(x, w) + b), v) ** 2)


def step(x, w, b, v):
    value, found = nb.value_and_grad(loss, argnums=(1, 2, 3))(x, w, b, v)
    return value, *[p - 0.01 * g for p, g in zip((w, b, v), found, strict=True)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_training(dtype):
    """As calls of the library and kernels, and as graphs of both."""
    compiled = nb.jit(step)
    arrays = [v.astype(dtype) for v in (X, W, B, V)]
    x, *state = map(on_gpu, arrays)
    y, *wanted = [nd.array(v, dtype=dtype) for v in arrays]
    for _ in range(12):
        value, *state = compiled(x, *state)
        other, *wanted = nb.jit(step)(y, *wanted)
        tolerance = 100 * TOLERANCE[dtype]
        for a, b in zip((value, *state), (other, *wanted), strict=True):
            np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=tolerance, atol=tolerance)
    replay = next(iter(compiled.programs.values())).compiled.replay
    assert replay.graphs and not replay.disabled
    assert any(isinstance(what, cublas.Product) for what, *_ in replay.pattern.launches)


@with_stub
def test_the_library_is_asked_once():
    x, y = on_gpu(made((3, 4), "float32")), on_gpu(made((4, 5), "float32"))
    gc.collect()
    nd.dot(x, y)
    asked, living = STUB.stub_asked(), STUB.stub_living()
    memory = pools(0).driver_requests
    assert by_library(lambda: [nd.dot(x, y) for _ in range(5)]) == 5
    assert STUB.stub_asked() == asked and STUB.stub_living() == living and pools(0).driver_requests <= memory + 1
    forget()
    gc.collect()
    assert STUB.stub_living() == living - 5  # the handle stays


@with_stub
@pytest.mark.parametrize("failing", [1, 2, 3, 4, 5])
def test_a_library_that_fails(failing):
    """When it is started, told, asked for an algorithm (of which there is none), or multiplies: a kernel does it."""
    forget()
    STUB.stub_fail(failing)

    def call(x, w, b):
        return nd.dot(x, w) + b

    for function in (call, nb.jit(call)):
        for _ in range(5):
            found = function(on_gpu(X), on_gpu(W), on_gpu(B))
            np.testing.assert_allclose(found.asnumpy(), X @ W + B, rtol=1e-12)
    assert (failing == 1) == ("nbgrad's kernel (cublasLtCreate failed" in cublas.status(0))
    STUB.stub_fail(0)
    x = on_gpu(X)
    assert by_library(lambda: nd.dot(x, on_gpu(W))) == 0  # it is not tried again


@with_stub
def test_a_library_without_a_bias():
    """The product is the library's, the sum a kernel's."""
    STUB.stub_fail(6)
    compiled = nb.jit(lambda x, w, b: nd.dot(x, w) + b)
    assert by_library(lambda: compiled(on_gpu(X), on_gpu(W), on_gpu(B))) == 1
    assert [g.how for g in compiled.latest.compiled.groups] == ["product", "map"]


@with_stub
def test_the_switch(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(driver, "simulated", lambda: False)
    monkeypatch.setattr(config, "CUBLAS", False)
    with pytest.raises(cublas.CublasError, match="NBGRAD_CUBLAS is 0"):
        cublas.load()


def test_no_library(monkeypatch):
    def load():
        raise cublas.CublasError("not here")

    monkeypatch.setattr(cublas, "load", load)
    forget()
    assert cublas.library(0) is None and cublas.status(0) == "nbgrad's kernel (not here)"
    found = nd.dot(on_gpu(X), on_gpu(W))
    np.testing.assert_allclose(found.asnumpy(), X @ W, rtol=1e-12)
