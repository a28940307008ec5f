"""Compiled programs on several threads: the same result, bit for bit, for any number of them."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd
from nbgrad.backends.numba.compile import generate

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def number():
    before = nb.get_num_threads()
    yield
    nb.set_num_threads(before)


def _softmax_rows(x, w):
    return nd.sum(nd.softmax(x * w, axis=1) ** 2)


def _largest(x, w):
    return nd.max(nd.sin(x) * nd.exp(w)), nd.min(nd.tanh(x * w), axis=0), nd.sum(nd.exp(x) * w, axis=0)


def _elements(x, w):
    return nd.exp(nd.sin(x)) * w, nd.log1p(nd.exp(x * w))


def _products(x, w):
    return nd.sum(nd.log_softmax(nd.dot(x, w, transpose_b=True), axis=1) ** 2)


def _opaque(x, w):
    return nd.sum(nd.sort(nd.exp(nd.sin(x)) * w, axis=1) * nd.cos(w))


def _neighbours(x, w):
    inner = x[1:-1] * 2 - x[2:] - x[:-2]
    return nd.sum(nd.exp(nd.sin(inner)) * w[1:-1])


def _looked_up(x, w):
    rows = nd.take(w[:20], nd.array(np.arange(2000) % 20, dtype="int64"))
    return nd.sum(nd.exp(nd.sin(rows * x)) ** 2)


X, W = RNG.standard_normal((2000, 600)), RNG.standard_normal((2000, 600))
PROGRAMS = {
    "rows": nb.value_and_grad(_softmax_rows, argnums=(0, 1)),
    "columns": _largest,
    "elements": _elements,
    "products": nb.value_and_grad(_products, argnums=1),
    "opaque": nb.value_and_grad(_opaque, argnums=(0, 1)),
    "neighbours": nb.value_and_grad(_neighbours, argnums=(0, 1)),
    "looked up": nb.value_and_grad(_looked_up, argnums=(0, 1)),
}


def _leaves(tree):
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, tuple | list) else [tree]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_for_any_number_of_threads(name, dtype):
    x, w = X.astype(dtype), (W[:10] if name == "products" else W).astype(dtype)
    call = nb.jit(PROGRAMS[name])
    nb.set_num_threads(1)
    expected = _leaves(call(x, w))
    assert call.latest.compiled.chunks
    for n in (2, 3, 5, 2):
        nb.set_num_threads(n)
        for a, b in zip(expected, _leaves(call(x, w)), strict=True):
            np.testing.assert_array_equal(a, b)
    eager = PROGRAMS[name](nd.array(x, dtype=dtype), nd.array(w, dtype=dtype))
    for a, b in zip(expected, _leaves(eager), strict=True):
        tolerance = 1e-10 if dtype == "float64" else 1e-4
        np.testing.assert_allclose(a, b.asnumpy(), tolerance, tolerance * np.abs(a).max())


def test_long_vectors_are_cut_too():
    x = RNG.standard_normal(1_000_003)
    call = nb.jit(nb.value_and_grad(lambda x: nd.sum(nd.exp(nd.sin(x[1:]) * x[:-1]))))
    nb.set_num_threads(1)
    expected = call(x)
    nb.set_num_threads(4)
    found = call(x)
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(found[0], np.exp(np.sin(x[1:]) * x[:-1]).sum(), 1e-12)


def test_what_is_small_is_one_call():
    call = nb.jit(nb.value_and_grad(_softmax_rows))
    call(X[:20, :30], W[:20, :30])
    compiled = call.latest.compiled
    assert not compiled.chunks
    assert compiled.steps == ["kernel0(a0, a1, out0, out1)"]


def test_nopython_functions_are_for_one_thread():
    call = nb.jit(PROGRAMS["rows"])
    value, (dx, dw) = call(X, W)
    found = call.njit(X, W)(X, W)
    assert found[0] == value
    np.testing.assert_array_equal(found[1][0], dx)
    np.testing.assert_array_equal(found[1][1], dw)


def test_programs_from_several_threads_at_once():
    call = nb.jit(PROGRAMS["rows"])
    nb.set_num_threads(3)
    expected = _leaves(call(X, W))
    wrong = []

    def work():
        for _ in range(3):
            if not all(np.array_equal(a, b) for a, b in zip(expected, _leaves(call(X, W)), strict=True)):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_an_error_in_a_range_reaches_the_caller(monkeypatch):
    call = nb.jit(PROGRAMS["elements"])
    call(X, W)
    program = call.latest
    names = program.call.__globals__

    def broken(*args):
        raise ValueError(f"range from {args[-2]}")

    entry = next(name for name in names if name.startswith("kernel"))
    monkeypatch.setitem(names, entry, broken)
    nb.set_num_threads(2)
    with pytest.raises(ValueError, match="range from"):
        call(X, W)


def test_threads_that_need_a_kernel_at_once():
    """The second thread comes while the first one compiles."""
    bound, started = generate("f", "def f(x):\n    x[0] = 1\n", {}), threading.Event()

    def make():
        started.set()
        time.sleep(0.2)
        return bound.bind(np.dtype("float64"))

    call = nb.jit(lambda x: nd.sin(x))
    call(X)
    compiled = call.latest.compiled
    del compiled.globals["kernel0"]
    compiled._makers["kernel0"] = make
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(compiled.function, "run", "def call(x):\n    kernel0(x)\n", {})
        started.wait()
        for run in (compiled.function("run", "def call(x):\n    kernel0(x)\n", {}), first.result()):
            x = np.zeros(1)
            run(x)
            assert x[0] == 1
    assert not compiled._makers
