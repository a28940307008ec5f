"""Loops over tuples of arrays of different sizes: a name may get an array of another size in each iteration."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape)


LAYERS = ((normal(4, 3), normal(4)), (normal(2, 4), normal(2)), (normal(5, 2), normal(5)))


def enumerated(layers, x):
    h = x
    for i, (w, b) in enumerate(layers):
        h = w @ h + b
        if i < len(layers) - 1:
            h = np.tanh(h)
    return h.sum()


def zipped(ws, bs, x):
    h = x * 2
    total = 0.0
    for w, b in zip(ws, bs):
        n = w.shape[0]
        h = np.tanh(w @ h + b)
        for k in range(n):
            total += h[k] * k
    return total


def sliced(layers, x):
    h = x
    for w, b in layers[:-1]:
        z = w @ h + b
        h = np.maximum(z, 0.1 * z)
    w, b = layers[-1]
    return (w @ h + b)[0]


def batches(layers, X):
    H = X
    for w, b in layers:
        H = np.tanh(H @ w.T + b)
    return (H**2).sum()


def samples(layers, X):
    s = 0.0
    for i in range(X.shape[0]):
        h = X[i]
        for w, b in layers:
            h = np.tanh(w @ h + b)
        s += h.sum()
    return s


def net(layers, x):
    for w, b in layers:
        x = np.tanh(w @ x + b)
    return x


def samples_of_a_function(layers, X):
    s = 0.0
    for i in range(X.shape[0]):
        s += net(layers, X[i]).sum()
    return s


def written(layers):
    a = np.zeros(2)
    s = 0.0
    for w in layers:
        a = np.zeros(w.size)
        for k in range(w.size):
            a[k] = w[k] * w[k] * (k + 1)
        s += a.sum() * a[0]
    return s


def display(a, b, c):
    s = 0.0
    for v in (a, b, c):
        y = v * v
        s += y.sum() * y[0]
    return s


def ranks(layers, x):
    h = x
    for w, b in layers:
        h = h @ w
        h = h + b
    return h.sum()


def backwards(layers, x):
    h = x
    for w, b in reversed(layers):
        h = np.tanh(w @ h + b)
    return h.sum()


def there_and_back(layers, x):
    h = x
    for w, b in layers:
        h = np.tanh(w @ h + b)
    for k, (w, b) in enumerate(layers[::-1]):
        h = (h - k * b) @ w
    return h.sum()


def backwards_beside(ws, bs, x):
    h = x
    for w, b in zip(reversed(ws), bs[::-1]):
        h = np.sin(w @ h + b)
    return h.sum()


def rebound(layers, x):
    total = 0.0
    for w, b in layers:
        layers = layers[:1]
        x = np.tanh(w @ x + b)
        total += np.sum(x)
    return total


def in_a_branch(layers, x):
    h = x * 1.0
    for w, b in layers:
        if x[0] > 0.0:
            h = w @ h + b
    return np.sum(h)


CASES = [
    (enumerated, (LAYERS, normal(3))), (sliced, (LAYERS, normal(3))), (batches, (LAYERS, normal(6, 3))),
    (zipped, (tuple(w for w, _ in LAYERS), tuple(b for _, b in LAYERS), normal(3))),
    (samples, (LAYERS, normal(6, 3))), (samples_of_a_function, (LAYERS, normal(6, 3))),
    (written, ((normal(3), normal(2), normal(4)),)), (display, (normal(2), normal(3), normal(1))),
    (ranks, (((normal(3, 4), normal(4)), (normal(4, 2), normal(2))), normal(5, 3))),
    (backwards, (LAYERS[::-1], normal(3))), (there_and_back, (LAYERS, normal(3))),
    (backwards_beside, (tuple(w for w, _ in LAYERS[::-1]), tuple(b for _, b in LAYERS[::-1]), normal(3))),
]  # fmt: skip


@pytest.mark.parametrize("f, args", CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_sizes_that_differ(f, args):
    with uncompiled():
        check_derivatives(f, *args, compiled=False)


def test_compiled_for_several_depths():
    adj = nb.adjoint(samples)
    inputs = normal(6, 3)
    for layers in (LAYERS, LAYERS[:1], LAYERS[:2], LAYERS):
        value, (gradients, to_inputs) = adj.value_and_grad(layers, inputs)
        assert value == pytest.approx(samples(layers, inputs))
        assert [tuple(g.shape for g in pair) for pair in gradients] == [tuple(a.shape for a in p) for p in layers]
        direction, step = normal(6, 3), 1e-6
        difference = (
            (samples(layers, inputs + step * direction) - samples(layers, inputs - step * direction)) / step / 2
        )
        assert np.sum(to_inputs * direction) == pytest.approx(difference, rel=1e-6)


def test_arguments_are_left_as_they_are():
    layers, x = tuple((w.copy(), b.copy()) for w, b in LAYERS), normal(3)
    before = x.copy()
    nb.adjoint(net).vjp(layers, x)(np.ones(5))
    np.testing.assert_array_equal(x, before)
    for (w, b), (v, c) in zip(layers, LAYERS, strict=True):
        np.testing.assert_array_equal(w, v)
        np.testing.assert_array_equal(b, c)


REFUSED = [(rebound, TraceError, "layers gets another form"), (in_a_branch, ValueError, "a name keeps its shape")]


@pytest.mark.parametrize("f, error, message", REFUSED, ids=lambda x: getattr(x, "__name__", ""))
def test_what_stays_as_it_was(f, error, message):
    with pytest.raises(error, match=message):
        nb.adjoint(f).value_and_grad(LAYERS, np.ones(3))
