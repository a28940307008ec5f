"""Calls that became graphs give what calls as written give, whatever happens to arrays in between."""

import gc

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd
from nbgrad.backends.cuda import driver, launches
from nbgrad.backends.cuda.buffers import pools
from nbgrad.core import config

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4))
W = RNG.standard_normal((4, 4)) * 0.5


def loss(x, w):
    return nd.sum(nd.softmax(nd.tanh(nd.dot(x, w))) ** 2)


def step(x, w):
    value, g = nb.value_and_grad(loss, argnums=1)(x, w)
    return value, w - 0.1 * g


def on_gpu(values, ctx):
    return nd.array(values, ctx=ctx, dtype=values.dtype)


def replay_of(function):
    """Of a compiled function that was called for one signature."""
    (program,) = function.programs.values()
    return program.compiled.replay


@pytest.fixture(scope="module")
def trained():
    """A compiled step of training, after enough calls."""
    ctx = nb.gpu(0)
    f = nb.jit(step)
    x, w = on_gpu(X, ctx), on_gpu(W, ctx)
    for _ in range(12):
        _, w = f(x, w)
    return f


@pytest.fixture
def started(monkeypatch):
    """How often a graph was started."""
    found = []
    together = driver.build_graph

    def counted(number, nodes):
        start = together(number, nodes)
        return lambda: found.append(len(nodes)) or start()

    monkeypatch.setattr(driver, "build_graph", counted)
    return found


def wanted(x, w):
    with nb.cpu():
        return [y.asnumpy() for y in step(nd.array(x, dtype="float64"), nd.array(w, dtype="float64"))]


def check(f, x, w, ctx):
    found = f(on_gpu(x, ctx), on_gpu(w, ctx))
    for a, b in zip(found, wanted(x, w), strict=True):
        np.testing.assert_allclose(a.asnumpy(), b, rtol=1e-11)
    return found


def test_training(gpu, trained, started):
    replay = replay_of(trained)
    replay.drop()
    w, kept = W, []
    for k in range(8):
        x = X + k
        value, new = check(trained, x, w, gpu)
        kept.append((x, w, value, new))
        w = new.asnumpy()
        if k > 4:  # what was kept is dropped now, and its memory is used again
            kept = kept[-2:]
    for x, w, *found in kept:  # later calls wrote elsewhere
        for a, b in zip(found, wanted(x, w), strict=True):
            np.testing.assert_allclose(a.asnumpy(), b, rtol=1e-11)
    assert replay.pattern is not None and not replay.disabled
    assert all(n == len(replay.pattern.launches) > 3 for n in started)


def test_steady(gpu, trained, started, monkeypatch):
    """A loop asks the driver for nothing but graphs: no memory, no copies, no waiting."""
    x, w = on_gpu(X, gpu), on_gpu(W, gpu)
    for _ in range(10):
        _, w = trained(x, w)
    asked = []
    for name in ("allocate", "upload", "download", "copy", "fill", "synchronize", "wait_until_idle"):
        monkeypatch.setattr(driver, name, lambda *args, name=name: asked.append(name))
    monkeypatch.setattr(driver.Launch, "__call__", lambda *args: asked.append("launch"))
    before = pools(0).driver_requests
    del started[:]
    for _ in range(10):
        _, w = trained(x, w)
    monkeypatch.undo()
    assert not asked and pools(0).driver_requests == before and 0 < len(replay_of(trained).graphs) <= 8
    expected = W
    for _ in range(20):
        expected = wanted(X, expected)[1]
    np.testing.assert_allclose(w.asnumpy(), expected, rtol=1e-10)


def test_many_addresses(gpu, trained, started):
    """Arrays that are elsewhere in every call, and some that come back."""
    replay = replay_of(trained)
    replay.drop()
    held = [(on_gpu(X + k, gpu), on_gpu(W, gpu)) for k in range(10)]
    for _ in range(3):
        for k, (x, w) in enumerate(held):
            np.testing.assert_allclose(trained(x, w)[1].asnumpy(), wanted(X + k, W)[1], rtol=1e-11)
    assert len(replay.graphs) == 8 and started


def test_shared_memory(gpu, trained):
    """One array as two arguments, and overlapping ones."""
    f = nb.jit(lambda x, y: nd.dot(nd.exp(x), y) + nd.sum(y))
    both = on_gpu(np.concatenate([W, W]), gpu)
    first, second = both[:4], both[2:6]
    for x, y in [(first, first), (first, second), (first, both[4:])] * 6:
        a, b = x.asnumpy(), y.asnumpy()
        np.testing.assert_allclose(f(x, y).asnumpy(), np.exp(a) @ b + b.sum(), rtol=1e-11)
    assert replay_of(f).graphs


def test_what_is_no_graph(gpu, monkeypatch):
    """What copies to the host; random numbers; a setting."""
    x = on_gpu(W @ W.T + np.eye(4), gpu)
    f = nb.jit(lambda x: nd.linalg.inverse(nd.exp(x) * 2) + nd.sum(x))
    values = [f(x).asnumpy() for _ in range(9)]
    assert all(np.array_equal(values[0], v) for v in values)
    assert replay_of(f).disabled and not replay_of(f).graphs
    noisy = nb.jit(lambda x: nd.sum(nd.Dropout(nd.dot(x, x), p=0.5, mode="always") + nd.random.normal(shape=(4, 4))))
    assert len({float(noisy(x)) for _ in range(12)}) > 8
    monkeypatch.setattr(config, "GRAPHS", False)
    g = nb.jit(lambda x: nd.sum(nd.dot(x, x)) * 2)
    g(x)
    assert not next(iter(g.programs.values())).compiled.replayed


@pytest.mark.parametrize("when", ["made", "started"])
def test_without_the_drivers_help(gpu, when, monkeypatch):
    def refuse(*args):
        raise launches.DriverError("no graphs here")

    f = nb.jit(lambda x: nd.sum(nd.dot(x, x)) * 2)
    monkeypatch.setattr(driver, "build_graph", refuse if when == "made" else lambda *args: refuse)
    x = on_gpu(W, gpu)
    for _ in range(8):
        np.testing.assert_allclose(f(x).item(), (W @ W).sum() * 2)
    assert replay_of(f).disabled


def test_memory(gpu, trained):
    """Graphs keep memory until somebody needs it; functions that are gone keep none."""
    x, w = on_gpu(X, gpu), on_gpu(W, gpu)
    replay = replay_of(trained)
    for _ in range(6):
        w = trained(x, w)[1]
    assert replay.graphs
    before = pools(0).lent
    gpu.empty_cache()
    assert not replay.graphs and pools(0).lent < before
    found = trained(x, w)[1]
    np.testing.assert_allclose(found.asnumpy(), wanted(X, w.asnumpy())[1], rtol=1e-11)
    f = nb.jit(lambda x: nd.sum(nd.dot(nd.exp(x), x)) * 2)
    gc.collect()
    before = pools(0).lent
    for _ in range(8):
        f(w)
    assert replay_of(f).graphs and pools(0).lent > before
    del f
    gc.collect()
    assert pools(0).lent == before


def test_two_calls_at_once(gpu, trained, started):
    """The graphs' memory is for one of them; the other runs as written."""
    replay = replay_of(trained)
    x, w = on_gpu(X, gpu), on_gpu(W, gpu)
    for busy in (False, True):
        if busy:
            del started[:]
            assert replay._lock.acquire(blocking=False)
        for _ in range(6):
            np.testing.assert_allclose(trained(x, w)[1].asnumpy(), wanted(X, W)[1], rtol=1e-11)
        assert bool(started) != busy
    replay._lock.release()
