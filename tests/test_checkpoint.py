"""autograd.checkpoint: the same values and gradients as the plain function, with less kept."""

import threading
import weakref
from typing import NamedTuple

import numpy as np
import pytest
from recording import marked, recorded

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.autodiff.state import state
from nbgrad.errors import DTypeError, InPlaceError


def arrays():
    rng = np.random.default_rng(5)
    return marked(rng.uniform(0.5, 1.5, (3, 4))), marked(rng.uniform(-1, 1, (4, 2)))


def gradients(loss, variables, order):
    """Gradients of order 1 to `order`, of sums of squares."""
    found = []
    with autograd.record():
        y = loss()
        for _ in range(order):
            gs = autograd.grad(y, variables, create_graph=True)
            found += [g.asnumpy() for g in gs]
            y = sum((g * g).sum() for g in gs)
    return found


def same(plain, checkpointed):
    for a, b in zip(plain, checkpointed, strict=True):  # sums may be added in another order
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13 * np.abs(a).max())


def layer(x, w, power=2, *, scale=1.0):
    return nd.tanh(nd.dot(x, w)) ** power * scale


@pytest.mark.parametrize("wrap", [autograd.checkpoint, lambda f: autograd.checkpoint(autograd.checkpoint(f))])
def test_gradients_of_order_1_to_4(wrap):
    x, w = arrays()
    expected = gradients(lambda: layer(x, w, 3, scale=0.5).sum(), [x, w], 4)
    same(expected, gradients(lambda: wrap(layer)(x, w, 3, scale=0.5).sum(), [x, w], 4))


def test_backward_writes_the_same_and_grad_of_one_variable():
    x, w = arrays()
    recorded(layer, x, w).backward()
    expected = [x.grad.asnumpy(), w.grad.asnumpy()]
    y = recorded(autograd.checkpoint(layer), x, w)
    y.backward(retain_graph=True)
    same(expected, [x.grad.asnumpy(), w.grad.asnumpy()])
    y.backward(retain_graph=True)
    same(expected, [x.grad.asnumpy(), w.grad.asnumpy()])
    np.testing.assert_array_equal(autograd.grad(y, w).asnumpy(), expected[1])
    with pytest.raises(nb.NBGradError, match=r"freed|not in a computational graph"):
        y.backward()


def test_arrays_found_by_closure():
    x, w = arrays()
    data = x.detach()
    with autograd.record():
        h = nd.exp(w)  # a recorded intermediate result, used from inside as well

    def closed(data):
        return nd.dot(data, w) * nd.dot(data, h)

    expected = gradients(lambda: closed(data).sum(), [w], 3)
    same(expected, gradients(lambda: autograd.checkpoint(closed)(data).sum(), [w], 3))
    recorded(autograd.checkpoint(lambda: layer(x, w))).backward()
    recorded_grad = w.grad.asnumpy()
    recorded(layer, x, w).backward()
    np.testing.assert_array_equal(recorded_grad, w.grad.asnumpy())


def test_in_the_middle_of_a_graph():
    x, w = arrays()

    def loss(wrap):
        h = nd.sin(x)
        for _ in range(3):
            h = wrap(lambda h: nd.dot(layer(h, w), w.T) + h)(h) + h
        return (h * x).mean()

    same(gradients(lambda: loss(lambda f: f), [x, w], 3), gradients(lambda: loss(autograd.checkpoint), [x, w], 3))


class Pair(NamedTuple):
    first: nb.NDArray
    second: nb.NDArray


def test_several_results():
    x, w = arrays()

    @autograd.checkpoint
    def several(arguments, flag):
        y = nd.dot(arguments["x"], arguments["w"])
        return {"pair": Pair(y * y, nd.sin(y)), "list": [y, y, y.argmax(axis=0)], "flag": flag, "in": arguments["x"]}

    def plain(arguments, flag):
        return several.__wrapped__(arguments, flag)

    def loss(f):
        out = f({"x": x, "w": w}, True)
        assert isinstance(out["pair"], Pair)
        assert out["flag"] is True
        assert out["list"][0] is out["list"][1]
        return (
            (out["pair"].first * out["list"][0]).sum() + (out["pair"].second * out["list"][1]).sum() + out["in"].sum()
        )

    same(gradients(lambda: loss(plain), [x, w], 2), gradients(lambda: loss(several), [x, w], 2))
    out = recorded(several, {"x": x, "w": w}, None)
    out["pair"].second.backward()  # the others have no gradient
    np.testing.assert_array_equal(x.grad.asnumpy(), autograd.grad(recorded(lambda: nd.sin(nd.dot(x, w))), x).asnumpy())
    assert x._node is not out["in"]._node
    assert type(x._node).__name__ == "Leaf"


def test_without_recording_it_is_a_plain_call():
    x, w = arrays()
    seen = []
    y = autograd.checkpoint(lambda a: seen.append(autograd.is_recording()) or layer(a, w))(x)
    assert seen == [False]
    assert y._node is None
    np.testing.assert_array_equal(y.asnumpy(), layer(x, w).asnumpy())


def test_the_derivative_of_a_result_that_depends_on_nothing_marked():
    y = recorded(autograd.checkpoint(nd.sin), nd.ones(2))
    with pytest.raises(nb.NBGradError, match="not in a computational graph"):
        y.backward()


def test_gradient_inside():
    """A checkpointed function may differentiate."""
    x, w = arrays()

    def penalty(x):
        y = layer(x, w).sum()
        return y + (autograd.grad(y, x, create_graph=True) ** 2).sum()

    same(gradients(lambda: penalty(x), [x, w], 2), gradients(lambda: autograd.checkpoint(penalty)(x), [x, w], 2))


# Random numbers.


def noisy(x, w):
    h = nd.Dropout(nd.dot(x, w), p=0.4)
    return h * nd.random.uniform(shape=h.shape, dtype="float64") + nd.random.normal(shape=h.shape, dtype="float64") * h


@pytest.mark.parametrize("order", [1, 3])
def test_random_operators_draw_the_same_and_the_stream_goes_on(order):
    x, w = arrays()
    nested = autograd.checkpoint(lambda x, w: autograd.checkpoint(noisy)(nd.Dropout(x, p=0.2), w) + noisy(x, w))
    plain = lambda x, w: noisy(nd.Dropout(x, p=0.2), w) + noisy(x, w)  # noqa: E731
    after = []
    for function in (plain, nested):
        nb.random.seed(3)
        found = gradients(lambda f=function: f(x, w).sum(), [x, w], order)
        after.append([*found, nd.random.uniform(shape=3).asnumpy()])
    same(*after)


def test_a_thread_that_draws_at_the_same_time_changes_nothing():
    x, w = arrays()
    stop = threading.Event()
    ready = threading.Event()

    def draw():
        while not stop.is_set():
            nd.random.uniform(shape=7)
            ready.set()

    thread = threading.Thread(target=draw)
    thread.start()
    ready.wait(10)
    try:
        for _ in range(20):
            with autograd.record():
                y = autograd.checkpoint(noisy)(x, w)
                z = (y / nd.dot(x, w)).detach()  # the factors of every element
            y.backward()
            with autograd.record():
                linear = nd.dot(x, w) * z
            g = x.grad.asnumpy()
            linear.backward()
            np.testing.assert_allclose(g, x.grad.asnumpy(), rtol=1e-9, atol=1e-12)
    finally:
        stop.set()
        thread.join()


def test_seed_inside():
    x, _ = arrays()

    @autograd.checkpoint
    def seeded(x):
        nb.random.seed(11)
        return x * nd.random.uniform(shape=x.shape, dtype="float64")

    y = recorded(seeded, x)
    before = nd.random.uniform(shape=2).asnumpy()
    y.backward()
    np.testing.assert_allclose((x.grad * x).asnumpy(), y.asnumpy(), rtol=1e-12)
    nb.random.seed(11)
    nd.random.uniform(shape=x.shape, dtype="float64")
    np.testing.assert_array_equal(nd.random.uniform(shape=2).asnumpy(), before)


# Flags and running statistics.


def test_flags_are_those_of_the_call():
    x, w = arrays()
    seen = []

    @autograd.checkpoint
    def look(x):
        seen.append((autograd.is_recording(), autograd.is_training(), state.recomputing))
        return layer(x, w)

    with autograd.record(train_mode=False):
        y = look(x)
    y.backward(train_mode=True)
    assert seen == [(True, False, False), (True, False, True)]
    assert (autograd.is_recording(), autograd.is_training(), state.recomputing) == (False, False, False)


def test_batch_norm_moves_once():
    x, _ = arrays()
    gamma, beta = marked(np.ones(4)), marked(np.zeros(4))

    def run(wrap):
        mean, var = nd.zeros(4, dtype="float64"), nd.ones(4, dtype="float64")
        block = wrap(lambda x: nd.BatchNorm(x, gamma, beta, mean, var, fix_gamma=False) ** 3)
        with autograd.record():
            y = block(x) + wrap(lambda *a: nd.BatchNorm(*a, fix_gamma=False))(2 * x, gamma, beta, mean, var) ** 3
        y.backward()
        return [v.asnumpy() for v in (x.grad, gamma.grad, beta.grad, mean, var)]

    same(run(lambda f: f), run(autograd.checkpoint))


# Memory.


def test_what_is_computed_on_the_way_is_not_kept():
    x, _w = arrays()
    buffers = []

    @autograd.checkpoint
    def deep(x):
        for _ in range(5):
            x = nd.tanh(x)
            buffers.append(weakref.ref(x._buf))
        return x

    y = recorded(deep, x)
    assert [ref() is not None for ref in buffers] == [False] * 4 + [True]
    buffers.clear()
    y.backward()
    assert all(ref() is None for ref in buffers)
    assert y._node.attrs is None


def test_arguments_are_let_go_by_backward():
    x, w = arrays()
    h = recorded(nd.sin, x)
    buffer = weakref.ref(h._buf)
    y = recorded(autograd.checkpoint(layer), h, w)
    del h
    assert buffer() is not None
    y.backward()
    assert buffer() is None


# Errors.


def test_an_error_inside_restores_everything():
    x, w = arrays()
    calls = []

    @autograd.checkpoint
    def fails(x):
        calls.append(1)
        y = noisy(x, w)
        if len(calls) == 2:
            raise ValueError("mine")
        return y

    y = recorded(fails, x)
    before = x.grad.asnumpy().copy()
    with pytest.raises(ValueError, match="mine"):
        y.backward(retain_graph=True)
    assert (state.recording, state.training, state.recomputing) == (False, False, False)
    np.testing.assert_array_equal(x.grad.asnumpy(), before)
    y.backward()  # the third run succeeds
    assert np.abs(x.grad.asnumpy()).sum() > 0
    calls[:] = [1]
    with autograd.record(), pytest.raises(ValueError, match="mine"):
        fails(x)
    nb.random.seed(1)
    a = nd.random.uniform(shape=2).asnumpy()
    nb.random.seed(1)
    np.testing.assert_array_equal(a, nd.random.uniform(shape=2).asnumpy())


def test_not_a_function():
    with pytest.raises(DTypeError, match=r"(?s)checkpoint: a function is needed.*checkpoint\(f\)\(x\)"):
        autograd.checkpoint(nd.ones(2))


@pytest.mark.parametrize("which", ["argument", "closure", "constant"])
def test_something_it_reads_was_changed(which):
    x, w = arrays()
    c = nd.ones((3, 2), dtype="float64")
    y = recorded(autograd.checkpoint(lambda x: nd.dot(x, w) + c), x)
    changed = {"argument": x, "closure": w, "constant": c}[which]
    changed[:] = 2
    with pytest.raises(InPlaceError, match=r"checkpoint\(<lambda>\).*changed in place"):
        y.backward()


def test_the_second_run_does_something_else():
    x, _w = arrays()
    calls = []

    def run(function):
        calls.clear()
        return recorded(autograd.checkpoint(function), x)

    def shape(x):
        calls.append(1)
        return x if len(calls) == 1 else x.sum()

    with pytest.raises(nb.NBGradError, match=r"checkpoint\(shape\): the second run gave"):
        run(shape).backward()

    def number(x):
        calls.append(1)
        return x * 2 if len(calls) == 1 else 3

    with pytest.raises(nb.NBGradError, match="the second run gave no array"):
        run(number).backward()

    def draws(x):
        calls.append(1)
        return x * nd.random.uniform(shape=len(calls) * 400, dtype="float64").sum()

    with pytest.raises(nb.NBGradError, match="draws other random numbers"):
        run(draws).backward()

    def fewer(x):
        calls.append(1)
        return x * (nd.random.uniform(shape=4, dtype="float64") if len(calls) == 1 else 2)

    with pytest.raises(nb.NBGradError, match="draws other random numbers"):
        run(fewer).backward()

    other = marked(np.ones((3, 4)))

    def reads(x):
        calls.append(1)
        return x * 1.0 if len(calls) == 1 else x * other

    with pytest.raises(nb.NBGradError, match="the second run read marked or recorded arrays that the first did not"):
        run(reads).backward()


def test_marked_anew_in_between():
    x, w = arrays()
    y = recorded(autograd.checkpoint(layer), x, w)
    recorded(layer, x, w).backward()
    expected = x.grad
    z = recorded(lambda: layer(x, w))
    x.attach_grad()  # an argument keeps the place it had
    y.backward()
    z.backward()
    assert x.grad.asnumpy().sum() == 0
    assert expected.asnumpy().sum() != 0
    y = recorded(autograd.checkpoint(lambda: layer(x, w)))
    w.attach_grad()
    with pytest.raises(nb.NBGradError, match="neither replaced nor marked anew"):
        y.backward()


def test_the_symbol_of_it():
    x, w = arrays()
    symbol = autograd.get_symbol(recorded(autograd.checkpoint(layer), x, w))
    assert len(symbol.list_arguments()) == 2


def test_threads_have_their_own():
    """Training steps with checkpoints in four threads at once, half of them watched."""

    def train(seed, wrap):
        x = marked(np.random.default_rng(seed).random((5, 5)))
        block = wrap(lambda x: nd.tanh(nd.dot(x, x)))
        for _ in range(10):
            with autograd.record():
                g = autograd.grad(block(block(x)).sum(), x, create_graph=True)
                z = (g * g).sum()
            z.backward()
            x[:] = x - 1e-3 * x.grad
        return x.asnumpy()

    found = {}

    def work(seed):
        with autograd.detect_anomaly(seed % 2 == 0):
            found[seed] = train(seed, autograd.checkpoint)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        np.testing.assert_allclose(found[seed], train(seed, lambda f: f), rtol=1e-12)


def test_arguments_that_get_one_cotangent_do_not_share_its_memory():
    """Addition hands its cotangent to both operands; outside, each is changed in place."""
    x, y = marked(np.linspace(0.0, 1.0, 5)), marked(np.linspace(1.0, 2.0, 5))
    with autograd.record():
        z = autograd.checkpoint(lambda a, b: a + b)(nd.exp(x), nd.sin(y))
    z.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), np.exp(x.asnumpy()))
    np.testing.assert_allclose(y.grad.asnumpy(), np.cos(y.asnumpy()))
