"""Nested arguments of the functional front end: gradients have the form of what they belong to."""

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd
from nbgrad.functional import pytrees

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Layer:
    w: object
    b: object
    name: str = dataclasses.field(default="layer", metadata={"static": True})


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: object
    count: object = dataclasses.field(init=False, default=1.0)

    def __post_init__(self):
        if not isinstance(self.x, float | np.ndarray):
            raise TypeError("only for numbers")


X = np.array([1.0, 2.0])


def test_dicts():
    g = nb.grad(lambda p: (p["w"] * p["w"] * p["b"]).sum())({"w": X, "b": 3.0})
    assert list(g) == ["w", "b"]
    assert (g["w"].tolist(), g["b"]) == ([6, 12], 5.0)


@pytest.mark.parametrize("kind", [OrderedDict, dict])
def test_classes_of_dicts(kind):
    g = nb.grad(lambda p: p["a"] * p["b"])(kind(a=2.0, b=3.0))
    assert type(g) is kind
    assert g == {"a": 3.0, "b": 2.0}


def test_defaultdict_keeps_its_factory():
    p = defaultdict(float, a=2.0)
    g = nb.grad(lambda p: p["a"] ** 2)(p)
    assert (type(g), g["a"], g["other"]) == (defaultdict, 4.0, 0.0)


def test_lists_tuples_namedtuples():
    given = [X, (2.0, Pair(3.0, [X]))]
    g = nb.grad(lambda p: (p[0] * p[1][0] * p[1][1].left * p[1][1].right[0]).sum())(given)
    assert type(g) is list and type(g[1]) is tuple and type(g[1][1]) is Pair
    assert g[0].tolist() == [6, 12]
    assert (g[1][0], g[1][1].left) == (15.0, 10.0)
    assert g[1][1].right[0].tolist() == [6, 12]


def test_dataclasses():
    layer = Layer(X, 2.0, "first")
    g = nb.grad(lambda m: (m.w * m.b).sum() if m.name == "first" else None)(layer)
    assert type(g) is Layer
    assert (g.w.tolist(), g.b, g.name) == ([2, 2], 3.0, "first")
    assert layer.w is X


def test_frozen_dataclasses_are_not_made_anew():
    g = nb.grad(lambda m: (m.x * m.count).sum())(Frozen(X))
    assert type(g) is Frozen
    assert (g.x.tolist(), g.count) == ([1, 1], 3.0)


def test_none_has_no_leaves():
    g = nb.grad(lambda p: p["w"] * 2)({"w": 1.0, "b": None})
    assert g == {"w": 2.0, "b": None}


def test_empty_trees():
    assert nb.grad(lambda p, x: x * x)({}, np.array(2.0)) == {}
    assert nb.grad(lambda p, x: x * x, (0, 1))([], 2.0) == ([], 4.0)


def test_the_same_array_twice():
    """Two places are two variables."""
    x = nd.array(X)
    g = nb.grad(lambda p: (p[0] * p[0] * p[1]).sum())((x, x))
    assert (g[0].tolist(), g[1].tolist()) == ([2, 8], [1, 4])


def test_every_transform():
    p = {"a": X, "b": 3.0}
    v = {"b": 1.0, "a": np.array([1.0, -1.0])}  # another order is the same dict

    def f(p):
        return (p["a"] ** 2 * p["b"]).sum()

    g = nb.grad(f)(p)
    value, tangent = nb.jvp(f, (p,), (v,))
    expected = g["a"] @ v["a"] + g["b"]
    np.testing.assert_allclose(tangent, [expected])
    H = nb.hessian(f)(p)
    assert H["a"]["a"].tolist() == [[6, 0], [0, 6]]
    assert (H["a"]["b"].tolist(), H["b"]["a"].tolist(), H["b"]["b"]) == ([2, 4], [2, 4], 0.0)
    hv = nb.hvp(f)(p, v)
    np.testing.assert_allclose(hv["a"], H["a"]["a"] @ v["a"] + H["a"]["b"])
    np.testing.assert_allclose(hv["b"], H["b"]["a"] @ v["a"])
    for mode in ("forward", "reverse"):
        J = nb.jacobian(lambda p: {"y": p["a"] * p["b"], "z": (p["b"] * 2,)}, mode=mode)(p)
        assert J["y"]["a"].tolist() == [[3, 0], [0, 3]]
        assert J["y"]["b"].tolist() == [1, 2]
        assert J["z"][0]["a"].tolist() == [0, 0] and J["z"][0]["b"] == 2.0
    _, pullback = nb.vjp(f, p)
    np.testing.assert_allclose(pullback(value)[0]["a"], value * g["a"])


def test_derivatives_of_trees_inside_one_another():
    def f(p):
        return p["a"] ** 3 * p["b"]

    assert nb.grad(lambda p: nb.grad(f)(p)["a"])({"a": 2.0, "b": 5.0}) == {"a": 60.0, "b": 12.0}


def test_layers_train():
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
    model = [Layer(rng.normal(size=(3, 4)), np.zeros(4)), Layer(rng.normal(size=(4, 1)), np.zeros(1))]

    def loss(model, x, t):
        h = nd.tanh(nd.dot(x, model[0].w) + model[0].b)
        return ((nd.dot(h, model[1].w) + model[1].b - t) ** 2).mean()

    step = nb.value_and_grad(loss)
    values = []
    for _ in range(20):
        value, g = step(model, x, t)
        values.append(value)
        model = [Layer(m.w - 0.1 * d.w, m.b - 0.1 * d.b) for m, d in zip(model, g, strict=True)]
    assert values[-1] < 0.7 * values[0]
    assert type(values[0]) is np.float64 and type(model[0].w) is np.ndarray


def test_paths():
    tree = {"a": [1, Pair(2, Layer(3, (4, 5)))]}
    assert [pytrees.leaf_path(tree, k) for k in range(5)] == [
        "['a'][0]",
        "['a'][1].left",
        "['a'][1].right.w",
        "['a'][1].right.b[0]",
        "['a'][1].right.b[1]",
    ]


def test_flatten_and_build():
    tree = {"a": [1, Pair(2, None)], "b": ()}
    leaves = []
    build = pytrees.flatten(tree, leaves)
    assert leaves == [1, 2]
    assert build(iter([10, 20])) == {"a": [10, Pair(20, None)], "b": ()}


def test_changed_keeps_what_does_not_change():
    tree = {"a": [1, 2], "b": ("x", [3])}
    new = pytrees.map_leaves(tree, lambda v: -v if v == 3 else v)
    assert new == {"a": [1, 2], "b": ("x", [-3])}
    assert new["a"] is tree["a"]
    assert pytrees.map_leaves(tree, lambda v: v) is tree


def test_a_class_is_a_leaf():
    assert pytrees.map_leaves(Layer, lambda v: 1) == 1
