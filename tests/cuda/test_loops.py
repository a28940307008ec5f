"""Loops and branches on a GPU give what they give on the CPU, and arrays stay there."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd
from nbgrad.backends.cuda import driver

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 3))
W = RNG.standard_normal((3, 3)) * 0.5


def recurrent(x, w):
    outs, last = nd.contrib.foreach(lambda row, s: (nd.tanh(nd.dot(s, w) + row), nd.tanh(nd.dot(s, w) * row)), x, w[0])
    return nd.sum(outs * outs) + nd.sum(last)


def states(x, w):
    """Two, of which one stays as it is, and rows whose outputs nobody reads."""

    def step(row, s):
        return [row * s[0], s[0] + row], [s[0] * row + s[1], s[1]]

    outs, last = nd.contrib.foreach(step, x, [w[0], w[1]])
    return nd.sum(outs[0]) + nd.sum(last[0] * w[2])


def until(x, w):
    """It ends by itself."""
    outs, last = nd.contrib.while_loop(
        lambda i, s: nd.sum(s * s) < 8,
        lambda i, s: (s * 2, [i + 1, s * 1.5 + 0.1 * x[0]]),
        [nd.zeros((1,), dtype="float64"), w[0]],
        max_iterations=9,
    )
    return nd.sum(outs) + nd.sum(last[1]) + nd.sum(last[0])


def never(x, w):
    outs, last = nd.contrib.while_loop(lambda s: nd.sum(s) * 0 > 1, lambda s: (s, [s * 2]), [w[0]], max_iterations=3)
    return nd.sum(outs) + nd.sum(last[0] * x[0])


def chosen(x, w):
    inner = nd.contrib.cond(nd.sum(x) > 0, lambda: nd.sum(x * w[0]), lambda: nd.sum(nd.exp(x)))
    return inner * nd.contrib.cond(nd.sum(w) > 99, lambda: nd.sum(w), lambda: nd.max(nd.sin(x)))


def nested(x, w):
    def step(row, s):
        inside, _ = nd.contrib.foreach(lambda a, b: (a * b, a + b), w, row)
        return nd.sum(inside, axis=0), nd.contrib.cond(nd.sum(s) > 0, lambda: s + row, lambda: s * row)

    outs, last = nd.contrib.foreach(step, x, w[0])
    return nd.sum(outs) + nd.sum(last)


@pytest.mark.parametrize("function", [recurrent, states, until, never, chosen, nested], ids=lambda f: f.__name__)
def test_loops(gpu, function):
    found = []
    for ctx in (nb.cpu(0), gpu):
        g = nb.jit(nb.value_and_grad(function, argnums=(0, 1)))
        for sign in (1, -1):
            value, grads = g(*[nd.array(v * sign, ctx=ctx, dtype="float64") for v in (X, W)])
            assert value.context == grads[0].context == ctx
            found.append([y.asnumpy() for y in (value, *grads)])
    half = len(found) // 2
    for a, b in zip(found[:half], found[half:], strict=True):
        for y, z in zip(a, b, strict=True):
            np.testing.assert_allclose(z, y, rtol=1e-10, atol=1e-12)


def test_nothing_is_copied(gpu, monkeypatch):
    """A loop over rows is kernels alone, and becomes one graph; a loop that may end asks for a number per step."""
    x, w = (nd.array(v, ctx=gpu, dtype="float64") for v in (X, W))
    f, g = (nb.jit(nb.value_and_grad(function, argnums=1)) for function in (recurrent, until))
    expected = [float(f(x, w)[0]), float(g(x, w)[0])]
    numbers = []
    download = driver.download

    def counted(number, source):
        numbers.append(source.size)
        return download(number, source)

    monkeypatch.setattr(driver, "download", counted)
    monkeypatch.setattr(driver, "upload", lambda *args: numbers.append(-1))
    for _ in range(8):
        value = f(x, w)[0]
    assert not numbers
    found = g(x, w)[0]
    assert numbers and set(numbers) == {1}
    monkeypatch.undo()
    assert float(value) == expected[0] and float(found) == expected[1]
    assert next(iter(f.programs.values())).compiled.replay.graphs
