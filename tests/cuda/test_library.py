"""Products by a library in CUDA graphs, with stubs of the driver and of cublasLt, which computes."""

import ctypes
import os

import numpy as np
import pytest

if "NBGRAD_STUB" not in os.environ:
    pytest.skip("tests/test_cuda.py builds the stubs", allow_module_level=True)

from stub import STUB, asked, count

import nbgrad as nb
from nbgrad import nd
from nbgrad.backends.cuda import cublas, product
from nbgrad.compiler import lowering
from nbgrad.ir import graph

LIBRARY = ctypes.CDLL(os.environ["NBGRAD_STUB_LIBRARY"])
X, W, B, V = (np.random.default_rng(0).standard_normal(s) for s in ((6, 4), (4, 5), (5,), (5, 4)))


@pytest.fixture(autouse=True)
def library(monkeypatch):
    """It does all products, also small ones."""
    monkeypatch.setattr(product, "_SMALL", 0)
    monkeypatch.setattr(cublas, "load", lambda: LIBRARY)
    monkeypatch.setattr(graph, "is_large_product", lambda m, k, n: True)
    monkeypatch.setattr(lowering, "is_large_product", lambda m, k, n: True)
    cublas._plan.cache_clear()
    cublas._opened.cache_clear()
    yield
    STUB.stub_refuse(0)
    LIBRARY.stub_fail(0)


def layers(x, w, b, v):
    """Products alone: a bias, a sum, a multiple are parts of them."""
    return nd.dot(nd.dot(x, w) + b, v) * 0.5 + x


def with_kernels(x, w, b, v):
    return nd.dot(nd.tanh(nd.dot(x, w) + b), v)


def on_gpu(*values, dtype="float64"):
    return [nd.array(v, ctx=nb.gpu(0), dtype=dtype) for v in values]


def replay_of(function):
    return next(iter(function.programs.values())).compiled.replay


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_of_graphs(dtype):
    """A call is one of the driver, and gives what it should, wherever the arrays are."""
    f = nb.jit(layers)
    w, b, v = on_gpu(W, B, V, dtype=dtype)
    for k in range(20):
        (x,) = on_gpu(X + k, dtype=dtype)
        np.testing.assert_allclose(f(x, w, b, v).asnumpy(), ((X + k) @ W + B) @ V * 0.5 + X + k, rtol=1e-5)
    replay = replay_of(f)
    assert replay.graphs and not replay.disabled and len(replay.pattern.launches) == 2
    total, found = asked(lambda: f(x, w, b, v))
    assert total == 1 and len(found) == 2


def test_graphs_of_float16():
    """Whose products are the operator's own launcher's."""
    f = nb.jit(lambda x, w, v: nd.dot(nd.dot(x, w), v))
    w, v = on_gpu(W, V, dtype="float16")
    for k in range(20):
        (x,) = on_gpu(X + k, dtype="float16")
        np.testing.assert_allclose(f(x, w, v).asnumpy(), (X + k) @ W @ V, rtol=0.02, atol=0.1)
    assert replay_of(f).graphs and asked(lambda: f(x, w, v))[0] == 1


def test_kernels_and_products_in_order():
    f = nb.jit(with_kernels)
    arrays = on_gpu(X, W, B, V)
    for _ in range(10):
        f(*arrays)
    total, found = asked(lambda: f(*arrays))
    launches = replay_of(f).pattern.launches
    assert total == 1 and len(found) == len(launches) == 3
    assert [isinstance(what, cublas.Product) for what, *_ in launches] == [True, False, True]
    first, kernel, last = found
    assert first == last and len(first) == 3 < len(kernel)  # calls of the library have no words
    replay_of(f).disabled = True
    f(*arrays)
    assert [x[0] for x in asked(lambda: f(*arrays))[1]] == [x[0] for x in found]


def test_what_graphs_leave():
    """No stream. Products that are called eagerly are one call each, too."""
    x, w = on_gpu(X, W)

    def eagerly():
        for _ in range(5):
            nd.dot(x, w)

    eagerly()
    total, found = asked(eagerly)
    assert total == len(found) == 5
    before = count("cuStreamCreate") - count("cuStreamDestroy_v2")
    f = nb.jit(layers)
    arrays = on_gpu(X, W, B, V)
    for _ in range(10):
        f(*arrays)
    assert replay_of(f).graphs and count("cuStreamBeginCapture_v2") == count("cuStreamEndCapture") > 0
    assert count("cuStreamCreate") - count("cuStreamDestroy_v2") == before


@pytest.mark.parametrize("refusing", [3, 4, 5])
def test_a_driver_that_refuses(refusing):
    """It does not take a graph in a graph; does not begin, or end, to capture."""
    f = nb.jit(layers)
    arrays = on_gpu(X, W, B, V)
    STUB.stub_refuse(refusing)
    streams = count("cuStreamCreate") - count("cuStreamDestroy_v2")
    for _ in range(8):
        np.testing.assert_allclose(f(*arrays).asnumpy(), (X @ W + B) @ V * 0.5 + X, rtol=1e-12)
    assert replay_of(f).disabled and not replay_of(f).graphs
    assert count("cuStreamCreate") - count("cuStreamDestroy_v2") == streams


def test_a_library_that_fails_while_it_is_captured():
    f = nb.jit(layers)
    arrays = on_gpu(X, W, B, V)
    while f.programs == {} or replay_of(f).pattern is None:
        f(*arrays)
    LIBRARY.stub_fail(5)
    begun, ended = count("cuStreamBeginCapture_v2"), count("cuStreamEndCapture")
    for _ in range(4):
        f(*arrays)
    assert replay_of(f).disabled
    assert count("cuStreamBeginCapture_v2") - begun == count("cuStreamEndCapture") - ended == 1
    total, found = asked(lambda: f(*arrays))
    assert total == len(found) == 2 and all(len(x) > 3 for x in found)  # kernels of our own
