"""Lists whose items are arrays or tuples: appended to, popped, with items that are set, made by comprehensions; they
share elements with what was put into them, as in Python."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

RNG = np.random.default_rng(1)
X = np.array([0.3, 0.5])
WS = tuple(RNG.normal(size=shape) for shape in ((3, 2), (2, 3), (4, 2)))
A, B, C = ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6), (0.0, 0.5, 0.5, 1.0)


def activations(x, ws):
    hs = [x]
    for w in ws:
        hs.append(np.tanh(w @ hs[-1]))
    return sum(np.sum(h**2) for h in hs) + len(hs)


def filled(x, ws):
    hs = [None] * (len(ws) + 1)
    hs[0] = x
    for i, w in enumerate(ws):
        hs[i + 1] = np.tanh(w @ hs[i])
    return np.sum(hs[-1])


def descent(x, ws):
    ps = list(ws)
    for t in range(2):
        for i in range(len(ps)):
            ps[i] = ps[i] - 0.1 * ps[i] ** 2 * x[t]
    return sum(np.sum(p) for p in ps)


def stages(x, ws):
    y = x
    for _ in range(4):
        ks = []
        for i in range(3):
            ks.append(np.tanh(y + sum(0.1 * ks[j] for j in range(i))))
        y = y + 0.1 * sum(ks)
    return np.sum(y**2)


def slope(t, y, p):
    return np.array([y[1], -p * y[0] + np.sin(t)])


def runge_kutta(x, ws):
    y, h = x * 1.0, 0.1
    for s in range(3):
        ks = []
        for i in range(4):
            z = y.copy()
            for j in range(i):
                z += h * A[i][j] * ks[j]
            ks.append(slope(s * h + C[i] * h, z, ws[0][0, 0]))
        y = y + h * sum(b * k for b, k in zip(B, ks))
    return y[0] * y[1]


def both_ends(x, ws):
    stack = [x, x * 2]
    a = stack.pop()
    stack.extend([a * x, a])
    b = stack.pop(0)
    stack.insert(0, b * a)
    stack.append(a + b)
    stack.pop()
    t = 0.0
    for v in stack:
        t += np.sum(v) ** 2
    return t * len(stack)


def of_tuples(x, ws):
    out = []
    for i in range(2):
        out.append((x * i, x[i]))
    return sum(np.sum(a) * b for a, b in out)


def as_arrays(x, ws):
    rows = []
    for i in range(3):
        rows.append(x * i + x[0])
    planes = [ws[1] * v for v in (2.0, 3.0)]
    stacked = np.stack(planes, axis=1)
    return (
        np.sum(np.array(rows) ** 2)
        + np.sum(np.stack(rows)[:, 0])
        + np.sum(np.concatenate(rows))
        + np.sum(stacked[:, 1] ** 2 * stacked[0, 0])
        + np.sum(np.array([x, x * 2]))
    )


def from_comprehensions(x, ws):
    hs = [np.tanh(x * i) for i in range(3)]
    zs = [np.zeros(2) for _ in range(3)]
    for i in range(3):
        zs[i][0] = x[0] * i
    y = [v * 2 for v in (x, x * 2)]
    y.append(x)
    return np.sum(hs[2]) * np.sum(np.array(hs) ** 2) + zs[2][0] ** 2 + np.sum(y[0]) * np.sum(y[2])


def shared(x, ws):
    h = x * 1.0
    hs = [h]
    hs.append(h * 2)
    h += 1.0
    a = hs[-1]
    a[0] = x[1] ** 2
    hs[1][1] *= x[0]
    return np.sum(hs[0] ** 2) + np.sum(hs[1] ** 2) * hs[0][0]


def shared_in_a_loop(x, ws):
    h = x * 1.0
    hs = []
    for i in range(3):
        h[i % 2] += x[0]
        hs.append(h)
    return np.sum(hs[0] ** 2) + np.sum(hs[2] ** 3)


def replaced(x, ws):
    hs = [x * 1.0, x * 2]
    g = hs[0]
    hs[0] = x * 3
    hs[-1] += 1.0
    return np.sum(g * hs[0]) + np.sum(hs[1] ** 2)


def replaced_in_a_loop(x, ws):
    hs = [x, x * 2]
    for i, w in enumerate(ws[1:2] + ws[1:2]):
        hs[0] = w[:2, :2] @ hs[-1] * x[0]
        hs[i] = hs[0] * 0.5
    return np.sum(hs[0] * hs[1])


def repeated(x, ws):
    ys = [np.ones(2)] * 2
    ys[0] *= x
    ts = (x * 2, x * 3) * 2
    ts[0][1] += x[0]
    a, b, c, d = ts
    b += x
    hs = [x * 2] * 2
    hs.append(x)
    hs[0] += x
    hs[0] = x**2
    return np.sum(ys[1] * c) + np.sum(d**2) + np.sum(hs[1] ** 2 * hs[0]) + np.sum(a)


def grown(x, ws, n):
    hs = [x]
    if n > 2:
        hs.append(x * 2)
    if len(ws) > 2:
        hs.append(ws[2][0])
    return np.sum(hs[-1] ** 2) * len(hs)


def under_known_tests(x, ws, more=True):
    queue = [x]
    for k in range(5):
        queue.append(queue[-1] * x[0])
        if k >= 2:
            queue.pop(0)
    history = [x * 2]
    for _ in range(5):
        history.append(np.sin(history[-1]))
        if len(history) > 3:
            history.pop(0)
        elif more:
            history[0] = history[0] * x
    return np.sum(queue[0]) * np.sum(history[0]) + grown(x, ws, 1) * grown(x, ws, 3) + grown(x, ws[:2], 3)


def gram_schmidt(x, ws):
    qs = []
    for w in ws[:2]:
        v = w[:2, 0] + x
        for q in qs:
            v = v - (q @ v) * q
        qs.append(v / np.sqrt(v @ v))
    return np.sum(qs[1] ** 3) + qs[0] @ x


def skips(x, ws):
    kept = []
    h = x
    for _ in range(2):
        kept.append(h)
        h = np.tanh(h)
    for _ in range(2):
        s = kept.pop()
        h = h * 2 + s
    return np.sum(h**2)


def numbers_beside_arrays(x, ws):
    hs = [x[0]]
    hs.append(x * 3.0)
    hs[0] += x[1]
    pair = (0.5,) * 2
    return np.sum(hs[-1]) * hs[0] * pair[1]


CASES = [
    activations, filled, descent, stages, runge_kutta, both_ends, of_tuples, as_arrays, from_comprehensions, shared,
    shared_in_a_loop, replaced, replaced_in_a_loop, repeated,
    under_known_tests, gram_schmidt, skips, numbers_beside_arrays,
]  # fmt: skip


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_derivatives(f):
    with uncompiled():
        check_derivatives(f, X, WS, compiled=False)


def anew_in_each_iteration(u, a, h):
    for _ in range(60):
        ks = [a @ u]
        for c in (0.5, 0.5, 1.0):
            ks.append(a @ np.sin(u + h * c * ks[-1]))
        u = u + h / 6 * (ks[0] + 2 * ks[1] + 2 * ks[2] + ks[3])
    return np.sum(u**2)


def test_a_list_that_is_made_anew_leaves_the_loop_as_it_is():
    args = X, np.array([[0.0, 1.0], [-1.0, -0.1]]), 0.1
    with uncompiled():
        check_derivatives(anew_in_each_iteration, *args, compiled=False)
    adj = nb.adjoint(anew_in_each_iteration)
    adj.value_and_grad(*args)
    assert len(adj.source.splitlines()) < 400


def number_of_rows(x, n):
    rows = []
    for i in range(n):
        rows.append(x * i + x[0])
    return np.sum(np.array(rows) ** 2) + sum(np.sum(v) for v in [x * i for i in range(n)])


def test_the_number_of_items_may_be_an_argument():
    adj = nb.adjoint(number_of_rows)
    with uncompiled():
        for n in (3, 1, 4):
            value, (x_bar, _) = adj.value_and_grad(X, n)
            assert value == pytest.approx(number_of_rows(X, n), rel=1e-14)
            step = np.array([1e-6, 2e-6])
            difference = number_of_rows(X + step, n) - number_of_rows(X - step, n)
            assert x_bar @ step * 2 == pytest.approx(difference, rel=1e-7)


def aliased(x):
    hs = [x * 1.0]
    gs = hs
    hs.append(x * 3.0)
    return np.sum(gs[-1])


def beyond(x):
    hs = [x * 1.0, x * 2.0]
    hs[2] = x * 3.0
    return np.sum(hs[0])


def a_slice(x):
    hs = [x * 1.0, x * 2.0]
    hs.append(x)
    hs[0:1] = [x]
    return np.sum(hs[0])


@pytest.mark.parametrize("f, what", [
    (aliased, "this use of hs, a list that changes"),
    (a_slice, "hs"),
])  # fmt: skip
def test_refused(f, what):
    with pytest.raises(TraceError) as caught:
        nb.adjoint(f).value_and_grad(X)
    assert what in str(caught.value)


def test_beyond_the_end():
    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        nb.adjoint(beyond).value_and_grad(X)
