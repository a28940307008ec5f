"""Lists and dictionaries as arguments: of numbers, arrays, strings, and of one another."""

import copy

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.errors import AttrError, DTypeError, TraceError

RNG = np.random.default_rng(5)
X = RNG.normal(size=3)
LAYER = {"w": RNG.normal(size=(3, 2)), "b": RNG.normal(size=2)}
NETWORK = [LAYER, {"w": RNG.normal(size=(2, 3)), "b": RNG.normal(size=3)}]


def layer(p, x):
    return np.tanh(x @ p["w"] + p["b"])


def network(ps, x):
    for p in ps:
        x = layer(p, x)
    return np.sum(x**2)


def by_index(ps, x):
    for k in range(len(ps)):
        x = np.tanh(x @ ps[k]["w"]) + ps[k]["b"]
    return np.sum(x)


def penalty(p, x):
    s = 0.0
    for v in p.values():
        s += np.sum(v**2)
    for name in p:
        s += np.sum(p[name])
    return s + sum(np.sum(v**3) for v in p.values()) * x[0]


def of_items(p, x):
    s = len(p) * x[1]
    for name, v in p.items():
        s += np.sum(v * v) if name.startswith("w") else np.sum(v)
    return s


def steps(p, x):
    w, b = p["w"], p["b"]
    for _ in range(3):
        w = w - 0.1 * np.outer(x, b)
        b = b - 0.1 * (x @ w)
    return np.sum(w**2) + np.sum(b)


def options(p, x):
    q = {**p, "rate": 2.0}
    y = np.sum(x**2) * q["rate"] * p.get("scale", 3.0)
    if p.get("mode", "sum") == "mean" and "scale" in p:
        y /= x.size
    r, t = dict(p, c=0.5), p.copy()
    return y * r["c"] + t["shift"]


def nested(p, x):
    y = x
    for q in p["layers"]:
        y = layer(q, y)
    return np.sum(y) * p["scale"] + p["layers"][0]["b"][1]


def numbers(a, x):
    first, *others = a
    return first * others[0] * x[0] + np.mean(a) + max(a) * sum(a) + np.array(a)[1] + len(a)


def arrays(ws, x):
    for w in ws:
        x = np.tanh(x @ w)
    return np.sum(x) + np.sum(ws[0])


CASES = [
    (network, NETWORK),
    (by_index, NETWORK),
    (penalty, LAYER),
    (of_items, {**LAYER, "c": 0.7}),
    (steps, LAYER),
    (options, {"scale": 1.5, "shift": 0.3, "mode": "mean", "n": 3}),
    (options, {"shift": 0.3}),
    (nested, {"layers": NETWORK, "scale": 2.0}),
    (numbers, [1.5, 0.5, 2.5]),
    (arrays, [LAYER["w"], NETWORK[1]["w"]]),
    (arrays, (LAYER["w"], NETWORK[1]["w"])),
]


def floats(a, path=()):
    """The places of the floats in nested containers."""
    if isinstance(a, dict | list | tuple):
        for k, v in a.items() if isinstance(a, dict) else enumerate(a):
            yield from floats(v, (*path, k))
    elif isinstance(a, np.ndarray):
        yield from ((*path, index) for index in np.ndindex(a.shape))
    elif isinstance(a, float):
        yield path


def at(a, path):
    for k in path:
        a = a[k]
    return a


def moved(a, path, h):
    """A copy of nested containers with one float moved."""
    if not path:
        return a + h
    k, *rest = path
    if isinstance(a, np.ndarray):
        a = a.copy()
        a[k] += h
        return a
    items = dict(a) if isinstance(a, dict) else list(a)
    items[k] = moved(a[k], tuple(rest), h)
    return tuple(items) if isinstance(a, tuple) else items


def same_form(g, a):
    if isinstance(a, dict):
        return type(g) is dict and list(g) == list(a) and all(same_form(g[k], a[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(g) is type(a) and len(g) == len(a) and all(map(same_form, g, a))
    return g is None if isinstance(a, str | int) else np.shape(g) == np.shape(a)


@pytest.mark.parametrize(("f", "a"), CASES, ids=[f"{f.__name__}{k}" for k, (f, _) in enumerate(CASES)])
def test_gradients_have_the_form_of_the_arguments(f, a):
    adj, before = nb.adjoint(f), copy.deepcopy(a)
    for _ in range(2):  # the second call enters generated code at once
        value, (gradient, of_x) = adj.value_and_grad(a, X)
        assert value == pytest.approx(f(a, X), rel=1e-12)
        assert same_form(gradient, a)
    assert str(a) == str(before)
    pull = adj.vjp(a, X)
    np.testing.assert_allclose(pull(2.0)[1], 2 * of_x, rtol=1e-12)
    directional = 0.0
    for path in floats(a):
        h = 1e-6
        slope = (f(moved(a, path, h), X) - f(moved(a, path, -h), X)) / (2 * h)
        assert at(gradient, path) == pytest.approx(slope, rel=1e-6, abs=1e-8)
        directional += at(gradient, path) * at(a, path)
    direction = _floats_of(a)
    assert nb.tangent(f).jvp((a, X), (direction, None))[1] == pytest.approx(directional, rel=1e-9)


def _floats_of(a):
    """A direction: the argument itself, with None for what is no float."""
    if isinstance(a, dict):
        return {k: _floats_of(v) for k, v in a.items()}
    if isinstance(a, list | tuple):
        return type(a)(map(_floats_of, a))
    return a if isinstance(a, float | np.ndarray) else None


def test_other_keys_other_orders_and_other_constants_are_other_functions():
    adj = nb.adjoint(options)
    a, b = {"scale": 1.5, "shift": 0.3}, {"shift": 0.3, "scale": 1.5}
    for given in (a, b, {**a, "mode": "mean"}, {**a, "mode": "sum"}, {"shift": 0.1}, a):
        value, (gradient, _) = adj.value_and_grad(given, X)
        assert value == pytest.approx(options(given, X))
        assert list(gradient) == list(given)


def test_arrays_in_them_are_written_in_place():
    def f(p, x):
        p["w"][0] = x[1]
        p["w"] *= 2.0
        return np.sum(p["w"] ** 2)

    w, plain = X.copy(), X.copy()
    value, (gradient, of_x) = nb.adjoint(f).value_and_grad({"w": w}, X)
    assert value == pytest.approx(f({"w": plain}, X))
    np.testing.assert_array_equal(w, plain)
    np.testing.assert_allclose(gradient["w"], 8 * X * [0, 1, 1])
    np.testing.assert_allclose(of_x, [0, 8 * X[1], 0])
    with pytest.raises(AttrError, match="may share memory"):
        nb.adjoint(lambda ws: fills(ws)).value_and_grad([w, w])


def fills(ws):
    ws[0][0] = 5.0
    return np.sum(ws[0] * ws[1])


def appended(a):
    a.append(1.0)
    return a[0]


def an_item_set(a):
    a[0] = 2.0
    return a[1]


def popped(a):
    v = a.pop()
    return v * a[0]


def a_key_set(p):
    p["a"] = 2.0
    return p["a"]


def updated(p):
    p.update(a=2.0)
    return p["a"]


def a_missing_key(p):
    return p["b"]


@pytest.mark.parametrize(
    ("f", "a"),
    [*[(f, [1.0, 2.0]) for f in (appended, an_item_set, popped)],
     *[(f, {"a": 1.0}) for f in (a_key_set, updated, a_missing_key)]],
    ids=lambda p: getattr(p, "__name__", ""),
)  # fmt: skip
def test_they_do_not_change(f, a):
    before = copy.deepcopy(a)
    with pytest.raises(TraceError, match=r"test_adjoint_containers\.py, line"):
        nb.adjoint(f).value_and_grad(a)
    assert a == before


def test_what_is_refused_of_their_items():
    def f(p, x):
        return np.sum(x)

    with pytest.raises(DTypeError, match="a dictionary with the key 1 was given; its keys must be strings"):
        nb.adjoint(f).value_and_grad({1: 2.0}, X)
    with pytest.raises(DTypeError, match=r"a list of 1000 numbers was given; pass np\.array"):
        nb.adjoint(f).value_and_grad([1.0] * 1000, X)
    with pytest.raises(DTypeError, match="complex"):
        nb.adjoint(f).value_and_grad([1j], X)
    with pytest.raises(AttrError, match="a dictionary with the keys a, b expected"):
        nb.tangent(f).jvp(({"a": 1.0, "b": 2.0}, X), ({"a": 1.0}, None))
    with pytest.raises(AttrError, match="a list of 2 expected"):
        nb.tangent(f).jvp(([1.0, 2.0], X), ([1.0], None))
