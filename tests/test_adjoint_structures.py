"""Tuples and named tuples as arguments: gradients have the same structure."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import AttrError, DTypeError, TraceError


class Layer(NamedTuple):
    weight: np.ndarray
    bias: float
    active: bool = True


RNG = np.random.default_rng(2)
LAYERS = (Layer(RNG.normal(size=(3, 3)), 0.3), Layer(RNG.normal(size=(3, 3)), -0.2, False))
X = RNG.normal(size=3)


def apply(layer, x):
    y = layer.weight @ x + layer.bias
    if layer.active:
        y = np.tanh(y)
    return y


def loss(layers, x, scale=1.0):
    first, second = layers
    y = apply(second, apply(first, x))
    return scale * np.sum(y**2) + first.bias * layers[1].weight[0, 1]


def moved(layers, along, h):
    return tuple(
        Layer(p.weight + h * d.weight, p.bias + h * d.bias, p.active) for p, d in zip(layers, along, strict=True)
    )


ALONG = tuple(Layer(RNG.normal(size=(3, 3)), 0.5, None) for _ in range(2))
H = 1e-6


def dot(gradient, along):
    return sum(np.sum(g.weight * d.weight) + g.bias * d.bias for g, d in zip(gradient, along, strict=True))


def test_gradients_have_the_form_of_the_arguments():
    with uncompiled():
        adj = nb.adjoint(loss)
        value, (layers, x_bar, scale_bar) = adj.value_and_grad(LAYERS, X)
        assert value == pytest.approx(loss(LAYERS, X))
        assert isinstance(layers, tuple) and all(isinstance(g, Layer) and g.active is None for g in layers)
        slope = (loss(moved(LAYERS, ALONG, H), X) - loss(moved(LAYERS, ALONG, -H), X)) / (2 * H)
        assert dot(layers, ALONG) == pytest.approx(slope)
        assert x_bar.shape == (3,) and scale_bar == pytest.approx(np.sum(apply(LAYERS[1], apply(LAYERS[0], X)) ** 2))
        only = nb.adjoint(loss, argnums=0).value_and_grad(LAYERS, X, 1.0)[1]
        np.testing.assert_array_equal(only[1].weight, layers[1].weight)
        (forward,) = nb.tangent(loss, argnums=(0,)).jvp((LAYERS, X), (ALONG,))[1:]
        assert forward == pytest.approx(slope)
        assert "layers_0_weight" in adj.source
        assert adj.report(LAYERS, X) == {}


def test_second_order():
    with uncompiled():
        adj = nb.adjoint(loss, argnums=0)
        product = adj.hvp((LAYERS, X), (ALONG,))
        up, down = (adj.vjp(moved(LAYERS, ALONG, s * H), X)(1.0) for s in (1, -1))
        for p, a, b in zip(product, up, down, strict=True):
            np.testing.assert_allclose(p.weight, (a.weight - b.weight) / (2 * H), rtol=1e-6, atol=1e-8)
            assert p.bias == pytest.approx((a.bias - b.bias) / (2 * H))


def march(state, rates, n):
    u, v = state
    for _ in range(n):
        for i in range(u.size):
            u[i] += rates[0] * v[i] * u[i]
            v[i] -= rates[1] * u[i]
    return u[0] * v[1], rates[0]


def test_arrays_in_tuples_can_be_written():
    state, rates = (np.array([0.5, 0.7]), np.array([0.4, 0.3])), (0.1, 0.2)
    pull = nb.adjoint(march).vjp((state[0].copy(), state[1].copy()), rates, 3)
    assert pull.outputs == ("result", "rates_0", "state_0", "state_1")
    (u_bar, v_bar), (first, second), _ = pull((1.0, 0.0, None, None))

    def value(s, t):
        return march((state[0] + s, state[1].copy()), (rates[0], rates[1] + t), 3)[0]

    np.testing.assert_allclose(np.sum(u_bar), (value(H, 0) - value(-H, 0)) / (2 * H), rtol=1e-6)
    assert second == pytest.approx((value(0, H) - value(0, -H)) / (2 * H), rel=1e-6)
    assert v_bar.shape == (2,) and isinstance(first, float)
    checked = nb.adjoint(march, checkpoint=2).vjp((state[0].copy(), state[1].copy()), rates, 3)((1.0, 0.0, None, None))
    np.testing.assert_array_equal(checked[0][0], u_bar)
    shared = state[0].copy()
    with pytest.raises(AttrError, match="state_0 and state_1 may share memory"):
        nb.adjoint(march).vjp((shared, shared), rates, 3)


def test_what_is_no_tuple_of_numbers():
    adj = nb.adjoint(loss)
    with pytest.raises(TraceError, match="layers, which is a dictionary"):
        adj.value_and_grad({"weight": X}, X)
    with pytest.raises(DTypeError, match="argument layers_1 is a set"):
        adj.value_and_grad((LAYERS[0], {"weight"}), X)
    with pytest.raises(AttrError, match=r"3 arguments expected \(layers, x, scale\), 1 given"):
        adj.value_and_grad(LAYERS)
    with pytest.raises(AttrError, match=r"argnums=3 and 3 arguments"):
        nb.adjoint(loss, argnums=3).value_and_grad(LAYERS, X)
    with pytest.raises(AttrError, match="a tuple of 2 expected"):
        nb.tangent(loss, argnums=(0,)).jvp((LAYERS, X), (ALONG[:1],))


def weighted(x, w=None, mode="sum", k=2):
    if w is None:
        w = np.ones_like(x)
    s = 0.0
    for i in range(x.size):
        s += w[i] * x[i] ** k
    if mode == "mean":
        s /= x.size
    elif mode != "sum":
        raise ValueError("no such mode")
    return s


def limited(x, y, limit=None):
    z = optional(x, y) + 0.0 * optional(x, then=math.sin) + optional(x, None) + optional(y, x, kind="other")
    return z if limit is None else min(z, limit)


def optional(x, y=None, kind="product", then=None):
    if then is not None:
        return then(x[0])
    if y is not None and kind == "product":
        return np.sum(x * y)
    return np.sum(x * x)


def once(x, w=None):
    for i in range(x.size):
        if w is None:
            w = x[i] * 2.0
        w = w * x[i]
    return w


def perhaps(x, w=None):
    if x[0] > 0.0:
        w = x[1]
    return x[0] if w is None else w


def test_none_and_texts_tell_which_branch_is_lowered():
    with uncompiled():
        adj = nb.adjoint(weighted)
        for args in ((X,), (X, X), (X, None, "mean"), (X, X, "mean", 3)):
            value, gradients = adj.value_and_grad(*args)
            assert value == pytest.approx(weighted(*args))
            given = [k < len(args) and args[k] is X for k in range(len(gradients))]
            assert [g is not None for g in gradients] == given
            slope = (weighted(X + H, *args[1:]) - weighted(X - H, *args[1:])) / (2 * H)
            assert np.sum(gradients[0]) == pytest.approx(slope)
        with pytest.raises(ValueError, match="no such mode"):
            adj.value_and_grad(X, None, "median")
        other = nb.adjoint(limited)
        y = np.abs(X)
        assert other.value_and_grad(X, y)[0] == pytest.approx(limited(X, y))
        value, gradients = other.value_and_grad(X, y, -9.0)
        assert value == -9.0 and gradients[2] == 1.0 and not np.any(gradients[0])
        np.testing.assert_allclose(other.hvp((X, y), (y, None, None))[0], 2 * y)
        assert nb.tangent(limited).jvp((X, y), (X, None, None))[1] == pytest.approx(np.sum(X * y) + 2 * np.sum(X * X))
    for f in (once, perhaps):
        with pytest.raises(TraceError, match=r"perhaps None|w is None, which depends on what has run"):
            nb.adjoint(f).value_and_grad(X)
    with pytest.raises(TraceError, match="a tuple in"):
        other.value_and_grad((X, None), X)


def replaced(p, n):
    for _ in range(n):
        p = (p[0] * p[1], p[1] + 0.1 * p[0])
    q_0 = p[0] * 3.0
    return q_0 * p[1]


PERIODIC, WIDTH = False, np.int64(3)


class Settings:
    limited = True
    least = 0.25


def test_constants_tell_which_branch_is_lowered():
    def f(x, a):
        s = 0.0
        for i in range(x.size):
            if PERIODIC:
                s = a * x  # which would be refused
            elif WIDTH == 3 and Settings.least < 0.5:
                s += a * x[i] ** 2
            if Settings.limited and not PERIODIC:
                s = s if PERIODIC else math.sin(s)
        return s

    agrees(f, (X, 0.7))
    adj = nb.adjoint(f, boundscheck=False)
    adj.value_and_grad(X, 0.7)
    assert not [line for line in adj.source.splitlines() if line.lstrip().startswith(("if ", "else"))]


def of_a_constant_from_outside(x):
    w, z = np.full(x.size, Settings.least), np.array([Settings.least, 2])
    return np.sum(w * x) + z[0] * x[0] + z[1] * x[1] + np.full(3, WIDTH)[0] / 2 * x[2]


def of_a_local_constant(x):
    least = 0.25
    part = least * Settings.least
    z, w = np.array([least, 2]), np.full(2, part)
    return z[0] * x[0] + z[1] * x[1] + w[0] * x[2] + np.full_like(x, least / 3)[2] * x[0]


def of_a_length(x):
    half = 0.5
    z, w = np.full(2, x.size * half), np.array([x.size, 2])
    return z[0] * x[0] + w[0] / 2 * x[1]


def of_steps(x):
    step = 0.25
    z = np.arange(0, 1, step)
    return z[1] * x[0] + z.size * x[1] + np.arange(0, 4 * Settings.least, Settings.least)[3] * x[2]


@pytest.mark.parametrize("f", [of_a_constant_from_outside, of_a_local_constant, of_a_length, of_steps])
def test_arrays_made_of_constants_have_their_kind(f):
    agrees(f, (X,))


def test_branches_that_local_constants_decide():
    def f(x, a):
        w = x[::-1] * a
        s = 0.5
        c = (s, a)
        if c[0] < 0.31:
            w = np.tanh(np.cumsum(np.maximum(x, 0.1)))
        else:
            s += math.sin(x[1] * c[0])
        w[0] += math.exp(-(w[1] ** 2))
        return s * w[0]

    agrees(f, (X, 0.7))


def test_items_of_what_calls_give():
    def ends(x):
        return x[0] * x[1], 2 * x

    def f(x):
        return ends(x)[0] * ends(x)[1][0] + np.linalg.slogdet(np.outer(x, x) + np.eye(3))[1] + np.sum(ends(x)[1][1:])

    agrees(f, (X,))


def test_a_tuple_that_is_replaced():
    with uncompiled():
        value, ((first, second), _) = nb.adjoint(replaced).value_and_grad((0.7, 0.9), 3)
    assert value == replaced((0.7, 0.9), 3)
    assert first == pytest.approx((replaced((0.7 + H, 0.9), 3) - replaced((0.7 - H, 0.9), 3)) / (2 * H), rel=1e-7)
    assert second == pytest.approx((replaced((0.7, 0.9 + H), 3) - replaced((0.7, 0.9 - H), 3)) / (2 * H), rel=1e-7)


class Body(NamedTuple):
    x: np.ndarray
    v: np.ndarray
    m: float


def two_bodies(a, b, dt, n):
    for _ in range(n):
        d = b.x - a.x
        f = a.m * b.m * d / (d[0] ** 2 + d[1] ** 2 + 0.1) ** 1.5
        a = Body(a.x + dt * a.v, a.v + dt * f / a.m, a.m)
        b = Body(b.x + dt * b.v, b.v - dt * f / b.m, b.m)
    return np.sum((a.x - b.x) ** 2) + a.v[0]


def test_names_of_tuples_that_stand_for_others_in_a_loop():
    rng = np.random.default_rng(3)
    a, b = (Body(rng.normal(size=2), rng.normal(size=2), m) for m in (1.5, 0.7))
    da, db = (Body(rng.normal(size=2), rng.normal(size=2), 0.3) for _ in range(2))

    def along(h):
        moved = (Body(*(p + h * d for p, d in zip(body, by, strict=True))) for body, by in ((a, da), (b, db)))
        return two_bodies(*moved, 0.1, 4)

    with uncompiled():
        value, (ga, gb, _, _) = nb.adjoint(two_bodies).value_and_grad(a, b, 0.1, 4)
    found = sum(np.sum(g * d) for g, d in zip((*ga, *gb), (*da, *db), strict=True))
    assert value == two_bodies(a, b, 0.1, 4)
    assert abs(found - (along(H) - along(-H)) / (2 * H)) < 1e-7


def drifted(body, dt, trace):
    """Nested tuples, and an array that is written."""
    x = body.x + dt * body.v
    trace[0] = dt * dt
    return Body(x, 2.0 * body.v, body.m * dt), (np.sum(x * x), (dt**3,))


def test_results_have_their_form():
    body, trace = Body(X, 2.0 * X, 1.5), np.zeros(2)
    direction = Body(np.ones(3), np.zeros(3), 0.5)
    weights = Body(np.arange(3.0), None, 2.0), (0.5, (3.0,)), np.array([4.0, 0.0])
    with uncompiled():
        pull = nb.adjoint(drifted).vjp(body, 0.1, trace)
        told = nb.tangent(drifted).jvp((body, 0.1, trace), (direction, 1.0, None))
        expected = drifted(body, 0.1, trace)
        for values in (pull.value, told[0][:2]):
            assert type(values[0]) is Body and isinstance(values[1][1], tuple)
            np.testing.assert_array_equal(values[0].x, expected[0].x)
            assert (values[0].m, values[1]) == (expected[0].m, expected[1])
        nested = pull(weights)
        one_by_one = pull((weights[0].x, None, 2.0, 0.5, 3.0, weights[2]))
        np.testing.assert_array_equal(nested[0].v, one_by_one[0].v)
        assert nested[1] == one_by_one[1]
        found = np.sum(nested[0].x) + 0.5 * nested[0].m + nested[1]
        moved = told[1]
        along = weights[0].x @ moved[0].x + 2.0 * moved[0].m + 0.5 * moved[1][0] + 3.0 * moved[1][1][0]
        assert found == pytest.approx(along + 4.0 * moved[2][0], rel=1e-12)
        with pytest.raises(AttrError, match="a tuple of 2 expected, like the argument or result"):
            pull((None, (1.0,), None))
        with pytest.raises(AttrError, match="6 cotangents expected"):
            pull((None, None))


def test_numbers_as_tests_stay_numbers():
    """Where a number is a test, it is not 0, which does not make it 1."""

    def f(x, y, k):
        mean = x[0] / k if k else 0.0
        inverse = x[1] / y if y else x[1]
        both = x[2] * y / k if y and k else 0.0
        return mean + inverse**2 + both

    for y, k in ((0.7, 3), (-2.5, 0), (1.5, 1)):
        check_derivatives(f, np.array([1.5, 2.0, -0.5]), y, k)
    assert nb.adjoint(f).value_and_grad(np.array([1.5, 2.0, -0.5]), 0.0, 2)[1][0].tolist() == [0.5, 4.0, 0.0]
