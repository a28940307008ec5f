"""What CUDA's driver is asked for, with a stub in its place (driver.c): kernels do nothing, everything else is real."""

import gc
import os

import numpy as np
import pytest

if "NBGRAD_STUB" not in os.environ:
    pytest.skip("tests/test_cuda.py builds the stub", allow_module_level=True)

from stub import STUB, asked, count

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.backends.cuda import driver
from nbgrad.backends.cuda.buffers import pools


def array(*shape, dtype="float32"):
    return nd.array(np.ones(shape), ctx=nb.gpu(0), dtype=dtype)


def loss(x, w, b):
    return nd.sum(nd.tanh(nd.dot(x, w) + b) ** 2)


def step(x, w, b):
    value, (g, h) = nb.value_and_grad(loss, argnums=(1, 2))(x, w, b)
    return value, w - 0.1 * g, b - 0.1 * h


def test_words():
    """Launches without Numba have the words of those by Numba."""
    x, y = array(64, 48), array(64, 48, dtype="float64")
    calls = [
        lambda: nd.tanh(x) * 2.5,
        lambda: nd.sum(y, axis=1),
        lambda: nd.dot(x, x, transpose_a=True),
        lambda: nd.full((5,), 3, ctx=nb.gpu(0)),
        lambda: nd.random.uniform(shape=(100,), ctx=nb.gpu(0)),
    ]
    for call in calls:
        before = count("cuLaunchKernelEx")  # by which Numba starts kernels
        _, first = asked(call)
        assert count("cuLaunchKernelEx") > before
        before = count("cuLaunchKernelEx")
        call()
        _, again = asked(call)
        assert count("cuLaunchKernelEx") == before
        assert [k[:3] for k in first] == [k[:3] for k in again] and len(first) > 0
        for a, b in zip(first, again, strict=True):  # the same but for places
            assert all(u == v or (k - 3) % 7 == 4 for k, (u, v) in enumerate(zip(a, b, strict=True)))


def test_an_operator_is_one_call():
    x = array(64, 48)
    for _ in range(3):
        y = nd.tanh(x)
    total, found = asked(lambda: nd.tanh(x))
    assert total == len(found) == 1 and y.context == nb.gpu(0)


def test_a_step_is_one_call():
    """What its graph launches is what it launches as written, but for the memory in between."""
    f = nb.jit(step)
    x, w, b = array(200, 100), array(100, 100), array(100)
    for _ in range(10):
        f(x, w, b)
    replay = next(iter(f.programs.values())).compiled.replay
    assert not replay.disabled and replay.graphs
    total, graph = asked(lambda: f(x, w, b))
    assert total == 1 and len(graph) == len(replay.pattern.launches) > 3
    replay.disabled = True
    f(x, w, b)  # which needs memory
    total, plain = asked(lambda: f(x, w, b))
    assert total == len(plain) == len(graph)
    other = {}
    for a, b in zip(plain, graph, strict=True):
        assert a[:3] == b[:3] and len(a) == len(b)
        for u, v in zip(a, b, strict=True):
            assert u == v or other.setdefault(u, v) == v
    assert len(set(other.values())) == len(other) <= len(replay.pattern.own)


def test_training_is_steady():
    """New arrays in every step: graphs alone, no memory and no waiting."""
    f = nb.jit(step)
    x, state = array(200, 100), [None, array(100, 100), array(100)]

    def train():
        for _ in range(10):
            state[:] = f(x, *state[1:])

    train()
    train()
    before, memory = count("cuGraphLaunch"), pools(0).driver_requests
    total, _ = asked(train)
    assert total == 10 == count("cuGraphLaunch") - before and pools(0).driver_requests == memory


def test_eager_training_is_steady():
    """Each operator is its launches: no memory, no copies, no waiting."""
    x, w = array(64, 48), array(48, 48)
    w.attach_grad()

    def train():
        with autograd.record():
            y = nd.sum(nd.tanh(nd.dot(x, w)))
        y.backward()
        nd.sgd_update(w, w.grad, lr=0.1, out=w)

    for _ in range(4):
        train()
    memory = pools(0).driver_requests
    total, found = asked(train)
    assert total == len(found) and pools(0).driver_requests == memory


@pytest.mark.parametrize("refusing", [1, 2])
def test_a_driver_without_graphs(refusing):
    """It does not have them, or does not start them."""
    f = nb.jit(step)
    x, w, b = array(200, 100), array(100, 100), array(100)
    for _ in range(3):
        f(x, w, b)
    STUB.stub_refuse(refusing)
    try:
        for _ in range(4):
            _, found = asked(lambda: f(x, w, b))
            assert len(found) > 3
        assert next(iter(f.programs.values())).compiled.replay.disabled
    finally:
        STUB.stub_refuse(0)


def test_graphs_that_are_gone():
    before = count("cuGraphExecDestroy")
    f = nb.jit(step)
    x, w, b = array(200, 100), array(100, 100), array(100)
    for _ in range(8):
        f(x, w, b)
    del f
    gc.collect()
    assert count("cuGraphExecDestroy") > before


def test_arrays_in_cycles():
    """Their memory goes back to the pool; Numba, which frees what is in cycles first, must not have it there."""
    for _ in range(40):
        x = array(50, 50)
        cycle = [x, nd.exp(x)[3]]
        cycle.append(cycle)
    del x, cycle
    lent, before = pools(0).lent, count("cuMemFree_v2")
    gc.collect()
    assert pools(0).lent < lent and count("cuMemFree_v2") == before
    nb.gpu(0).empty_cache()
    array(3)  # Numba frees some at once
    assert count("cuMemFree_v2") > before


def test_the_stream():
    assert driver.stream(0) > 0


def test_copies():
    """Large ones go through pinned memory, and an upload waits for nothing."""
    values = np.arange(3_000_000, dtype=np.float32)
    nd.array(values, ctx=nb.gpu(0)).asnumpy()  # pieces are made
    before = [count(name) for name in ("cuStreamSynchronize", "cuMemHostAlloc")]
    x = nd.array(values, ctx=nb.gpu(0))
    values[:] = 0
    assert [count(name) for name in ("cuStreamSynchronize", "cuMemHostAlloc")] == before
    found = x.asnumpy()
    np.testing.assert_array_equal(found, np.arange(3_000_000))
    assert count("cuMemHostAlloc") == before[1] <= 4
