"""Loops that are lowered iteration by iteration: ranges that index tuples of arrays, jumps in loops over such tuples,
comprehensions over them, and one function that is called for tuples of several lengths."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape)


X = np.array([0.3, 0.5])
WS = (normal(3, 2), normal(2, 3), normal(4, 2))
LAYERS = tuple((w, normal(w.shape[0])) for w in WS)


# Indices.


def by_index(x, ws):
    h = x
    for i in range(len(ws)):
        h = np.tanh(ws[i] @ h)
    return np.sum(h)


def depth_is_an_argument(x, ws, n):
    h = x
    for i in range(n):
        h = np.tanh(ws[i] @ h)
    return np.sum(h)


def computed_index(x, layers):
    h = x
    for i in range(1, len(layers)):
        j = i - 1
        w, b = layers[j]
        h = np.tanh(w @ h + b)
        if i < len(layers) - 1:
            h = h * x[0]
    return np.sum(h)


def downwards(x, layers):
    t = 0.0
    for i in range(len(layers) - 1, -1, -1):
        w, b = layers[i]
        t = t * 0.5 + np.sum(w) ** 2 + np.sum(b) * x[0]
    return t


def downwards_reversed(x, layers):
    t = 0.0
    for i in reversed(range(len(layers))):
        t = t * 0.5 + np.sum(layers[i][0]) ** 2 + layers[i][1][0] * x[0]
    for i, (w, _) in reversed(list(enumerate(layers))):
        t = t * 0.5 + np.sum(w) ** 2 * i
    return t


def in_a_closure(x, layers):
    def layer(i, h):
        w, b = layers[i]
        return np.tanh(w @ h + b)

    h = x
    for i in range(len(layers)):
        h = layer(i, h)
    return np.sum(h)


def inner_range(x, ws):
    t = 0.0
    for i in range(2):
        for j in range(3):
            t += np.sum(ws[j]) ** 2 * x[i]
    return t


def counter_afterwards(x, ws):
    for i in range(len(ws)):
        s = np.sum(ws[i]) ** 2
    return i * s * x[0]


def counter_that_is_set(x, ws):
    t = 0.0
    for i, w in enumerate(ws, 1):
        i = i * 2
        t += np.sum(w) * x[0] * i
    return t


def names_of_their_own(x, ws):
    t = 0.0
    for i in range(3):
        f = lambda i: i * x[0]  # noqa: E731
        t += np.sum(ws[i]) * f(2) * sum(x[i] * i for i in range(2))
    return t


# Jumps.


def continues(x, ws):
    t = 0.0
    for i, w in enumerate(ws):
        if i == 1:
            continue
        t += np.sum(w) ** 2 * x[0]
    return t


def breaks(x, ws):
    t = 0.0
    for w in ws:
        s = np.sum(w**2) * x[1]
        if t > 1.0:
            if s < 3.0:
                break
            t *= 2
            continue
        t += s * x[0] * 10
    else:
        t *= 3
    return t


def ends_by_a_constant(x, ws):
    t = x[0]
    for i in range(len(ws)):
        t = t * np.sum(ws[i])
        if i == len(ws) - 2:
            break
        t = t * t
    return t


def returns(x, ws):
    t = 0.0
    for w in ws:
        t += np.sum(w**2) * x[1]
        if t > 2.5:
            return t * x[0]
    return x[1] * t


def returns_from_an_inner_loop(x, ws):
    t = 0.0
    for w in ws:
        for i in range(w.shape[0]):
            t += w[i, 0] ** 2 * x[1]
            if t > 1.0:
                return t * t
        if t > 0.7:
            break
    return x[0] * t


# Comprehensions.


def sums(x, ws):
    return sum(np.sum(w**2) for w in ws) * x[0] + sum([np.sum(ws[i] ** 2) * x[i] for i in range(2)])


def of_arrays(x, ws):
    s = [np.tanh(w) for w in ws]
    t = [a * b for a, b in zip(ws, s)]
    return sum(np.sum(a) for a in t) * x[0] + np.sum(t[1])


def extremes(x, ws):
    return max(np.sum(w**2) * x[0] for w in ws) + np.sum(np.array([np.sum(w) * x[1] for w in list(ws)]) ** 2)


def with_tests(x, ws):
    chosen = sum(np.sum(w) for w in ws if w.shape[0] > 2) + sum(np.sum(w) for w in ws if w[0, 0] > x[0])
    pairs = sum(np.sum(a) * np.sum(b) for a in ws for b in ws) + sum(np.sum(r) ** 2 for w in ws for r in w)
    return (chosen + pairs + sum(ws[j][0, 0] for j in range(3) if j != 1)) * x[1] + max(
        np.sum(w) for w in ws if w.size < 8
    )


# Tuples that are computed: once, before the loop.


def pair(x):
    return np.outer(x, x), x


SQUARES = tuple(normal(2, 2) for _ in range(3))


def of_functions(x, ws):
    t = 0.0
    for w in pair(x):
        t += np.sum(w**2)
    for i, (a, b) in enumerate(zip(pair(x)[1:] + pair(x)[:1], ws)):
        t += np.sum(a) * np.sum(b) * i
    return t + sum(np.sum(a) for a in pair(x)) * sum([np.sum(a) for a in ws + (x,)])


def of_sums_and_multiples(x, ws):
    h = x
    for i, w in enumerate(ws[:2] * 2):
        h = np.tanh(w @ h) * (i + x[0])
    items = x
    for w in pair(x) + (x,):
        for u in (x * 2, x[0] * w):
            v = u * 2
            items = items + np.sum(v) * np.sum(w)
    return np.sum(h) + np.sum(items)


def from_outside(x, ws):
    t = 0.0
    for i in range(len(SQUARES)):
        t += np.sum(SQUARES[i] @ x)
    for v in pair(x)[::-1]:
        t = t * x[0] + np.sum(v)
    return t + from_outside_in_lists(x)


def from_outside_in_lists(x):
    hs = [x, x * 2]
    for i, w in enumerate(SQUARES[:1] + SQUARES):
        hs[i % 2] = np.tanh(w @ hs[-1])
    for i, w in enumerate(SQUARES):
        hs[i % 2] = hs[i % 2] + w @ hs[1]
    return np.sum(hs[0] * hs[1])


def written_afterwards(x, ws):
    t, y = 0.0, x.copy()
    for v in (y * 2, y[:1] * 3, y):
        y[0] += x[1]
        h = v * 2
        t += np.sum(h) * y[0]
    return t


# Several lengths.


def net(ws, h):
    for w in ws:
        h = np.tanh(w @ h)
    return h


def shorter_first(x, ws):
    return np.sum(net(ws[:2], x)) + np.sum(net(ws, x)) * 2


def longer_first(x, ws):
    return np.sum(net(ws, x)) * 2 + np.sum(net(ws[:2], x))


def groups(x, ws):
    t = 0.0
    for g in (ws[:2], ws, ws[:1]):
        h = x
        for w in g:
            h = np.tanh(w @ h)
        t += np.sum(h)
    return t


def first(ws, n, h):
    for i in range(n):
        h = np.sin(ws[i] @ h)
    return h


def depths(x, ws):
    return np.sum(first(ws, 1, x)) + np.sum(first(ws, 3, x)) * np.sum(first(ws, 2, x))


OF_LAYERS = [computed_index, downwards, downwards_reversed, in_a_closure]
OF_MATRICES = [
    by_index, inner_range, counter_afterwards, counter_that_is_set, names_of_their_own, continues, breaks,
    ends_by_a_constant, returns, returns_from_an_inner_loop, sums, of_arrays, extremes, with_tests, of_functions,
    of_sums_and_multiples, from_outside, written_afterwards, shorter_first, longer_first,
    groups, depths,
]  # fmt: skip


@pytest.mark.parametrize("f", [*OF_LAYERS, *OF_MATRICES], ids=lambda f: f.__name__)
def test_derivatives(f):
    with uncompiled():
        check_derivatives(f, X, LAYERS if f in OF_LAYERS else WS, compiled=False)


@pytest.mark.parametrize("f", [breaks, returns, returns_from_an_inner_loop], ids=lambda f: f.__name__)
def test_jumps_elsewhere(f):
    """Each iteration may be the one that jumps."""
    adj = nb.adjoint(f)
    values = []
    with uncompiled():
        for scale in (0.1, 0.3, 0.5, 0.7, 1.0, 2.0):
            args = X, tuple(scale * w for w in WS)
            value, (x_bar, _) = adj.value_and_grad(*args)
            assert value == pytest.approx(f(*args), rel=1e-14)
            step = np.array([1e-6, -2e-6])
            difference = f(X + step, args[1]) - f(X - step, args[1])
            assert x_bar @ step * 2 == pytest.approx(difference, rel=1e-6)
            values.append(value)
    assert len(set(values)) == 6


def test_the_number_of_iterations_may_be_an_argument():
    adj = nb.adjoint(depth_is_an_argument)
    with uncompiled():
        for n in (3, 1, 2, 0):
            value, (_, ws_bar, n_bar) = adj.value_and_grad(X, WS, n)
            assert value == pytest.approx(depth_is_an_argument(X, WS, n), rel=1e-14)
            assert n_bar is None
            assert [bool(w.any()) for w in ws_bar] == [k < n for k in range(3)]


def chosen_when_called(x, ws, k):
    t = 0.0
    for i in range(100):
        t += np.sum(ws[i % 3]) * x[0]
    return t


def unknown(x, ws, index):
    return np.sum(ws[index[0]]) * x[0]


def too_many(x, ws):
    return np.sum(ws[5]) * x[0]


@pytest.mark.parametrize("f, more, what", [
    (chosen_when_called, (2,), "ws[i % 3], an index of a tuple of arrays that is not a constant"),
    (unknown, (np.array([1]),), "ws[index[0]], an index of a tuple of arrays that is not a constant"),
    (too_many, (), "ws[5], an index of a tuple that is not one of its 3"),
])  # fmt: skip
def test_refused(f, more, what):
    with pytest.raises(TraceError) as caught:
        nb.adjoint(f).value_and_grad(X, WS, *more)
    assert what in str(caught.value)
