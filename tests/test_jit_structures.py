"""Nested arguments of compiled functions: each structure has its program, and is recognized at once."""

import dataclasses
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd
from nbgrad.errors import DTypeError

Pair = namedtuple("Pair", "a b")
Other = namedtuple("Other", "a b")


@dataclasses.dataclass
class Layer:
    w: object
    inner: object = None
    power: object = dataclasses.field(default=2, metadata={"static": True})


def shown(tree):
    """A number that depends on structure and values."""
    if isinstance(tree, dict):
        return sum((k + 1) * 3 * shown(v) + ord(name[0]) for k, (name, v) in enumerate(tree.items()))
    if isinstance(tree, Layer):
        return shown(tree.w) ** tree.power + (0 if tree.inner is None else 5 * shown(tree.inner))
    if isinstance(tree, list):
        return sum((k + 1) * shown(v) for k, v in enumerate(tree)) + 0.25
    if isinstance(tree, tuple):
        return sum((k + 2) * shown(v) for k, v in enumerate(tree)) + (0.5 if type(tree) is Other else 0.125)
    return nd.sum(nd.sin(tree if isinstance(tree, nd.NDArray) else nd.array(tree, dtype="float64")))


def x(*shape, by=0.3):
    return by * np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)


TREES = [
    [x(2), x(3)],
    (x(2), x(3)),
    [x(3), x(2)],
    [x(2), x(3), x(1)],
    [[x(2)], x(3)],
    [x(2), [x(3)]],
    [],
    {"u": x(2), "v": x(3)},
    {"v": x(2), "u": x(3)},
    {"u": x(2)},
    OrderedDict(u=x(2), v=x(3)),
    Pair(x(2), x(3)),
    Other(x(2), x(3)),
    [x(2).astype("float32"), x(3)],
    [0.7, x(3)],
    [nd.array(x(2)), nd.array(x(3))],
    Layer(x(2)),
    Layer(x(2), power=3),
    Layer(x(2), power=3.0),
    Layer(x(2), inner={"u": x(2), "v": x(1)}),
    Layer(x(2), inner={"v": x(2), "u": x(1)}),
    Layer(x(2), inner=[x(1)]),
    Layer(x(2), inner=(x(1),)),
    [Layer(x(2), power=1), Layer(x(1), power=2)],
    [Layer(x(2), power=2), Layer(x(1), power=1)],
]


def number(y):
    return float(y.asscalar() if isinstance(y, nd.NDArray) else y)


@pytest.mark.filterwarnings("ignore:jit. shown is traced")
def test_every_structure_has_its_own_program():
    f = nb.jit(lambda tree, s: shown(tree) * s)
    f.name = "shown"
    for _ in range(3):
        for k, tree in enumerate(TREES):
            expected = number(shown(tree)) if tree else 0.25
            assert number(f(tree, 1.0 + k)) == pytest.approx(expected * (1 + k), rel=1e-6)
    assert len(f.programs) == len(TREES)


def test_structures_are_recognized():
    """Other values of the same structure find their program without a walk through the arguments."""
    f = nb.jit(nb.value_and_grad(lambda p, v: nd.sum(nd.tanh(nd.dot(p["w"], v) + p["b"][0]) ** 2)))
    parameters = {"w": x(3, 2), "b": [x(3)]}
    for k in range(4):
        parameters = {"w": parameters["w"] + k, "b": [parameters["b"][0] - k]}
        value, gradient = f(parameters, x(2))
        h = np.tanh(parameters["w"] @ x(2) + parameters["b"][0])
        np.testing.assert_allclose(value, np.sum(h**2), rtol=1e-14)
        np.testing.assert_allclose(gradient["b"][0], 2 * h * (1 - h**2), rtol=1e-12, atol=1e-15)
        assert (len(f.programs), len(f._recognizers), len(f._shortcuts)) == (1, 1, int(k > 0))
    wide = {"w": x(4, 2), "b": [x(4)]}
    for _ in range(2):
        f(wide, x(2))
    with nb.autograd.train_mode():
        f(wide, x(2))
    assert (len(f.programs), len(f._recognizers), len(f._shortcuts)) == (3, 1, 3)


class Marked(np.ndarray):
    pass


def test_what_is_no_plain_array_is_not_taken_for_one():
    f = nb.jit(lambda p: nd.sum(p[0]) * 2)
    for _ in range(3):
        assert f([x(2)]) == pytest.approx(1.8)
    assert f([x(2).view(Marked)]) == pytest.approx(1.8)
    assert f([np.float64(0.5)]) == pytest.approx(1.0)
    assert f([0.5]) == pytest.approx(1.0)
    with pytest.raises(nb.errors.NBGradError):
        f([np.array(["a"])])
    masked = np.ma.masked_array(x(2), [True, False])
    with pytest.raises(nb.errors.NBGradError):
        f([masked])


def test_static_fields_must_be_hashable():
    with pytest.raises(DTypeError, match="a static argument cannot be hashed"):
        nb.jit(shown)(Layer(x(2), power=[1]))
