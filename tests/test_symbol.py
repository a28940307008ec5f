"""Symbols run to the same numbers as the tape they came from, also from text."""

import re

import numpy as np
import pytest
from symbols import array, check, marked, recorded, round_trips, same

from nbgrad import autograd, nd, symbol
from nbgrad.core import registry
from nbgrad.errors import AttrError, DTypeError
from nbgrad.operators.structured import Spec, structured

ONE = {
    "unary": lambda x: nd.tanh(nd.exp(x)),
    "scalar_right": lambda x: x * 2 + 0.1,
    "scalar_left": lambda x: 1 / (3.5 - x),
    "negative_zero": lambda x: x * -0.0 + x * 0.0,
    "infinity": lambda x: nd.maximum(x, -np.inf) + nd.minimum(x, np.inf),
    "power": lambda x: x**2 + x**3 + x**1.7,
    "parameters": lambda x: nd.clip(x, 0.5, a_max=1.5),
    "parameter_named_scalar": lambda x: nd.smooth_l1(x, scalar=2.0),
    "kinks": lambda x: nd.relu(x - 1) + nd.abs(x - 1) + nd.sign(x),
    "comparison": lambda x: (x > 1) * x,
    "sum": lambda x: nd.sum(x),
    "sum_axis": lambda x: x.sum(axis=1),
    "sum_exclude": lambda x: nd.sum(x, axis=(1,), exclude=True, keepdims=True),
    "mean": lambda x: nd.mean(x, axis=0),
    "max_min": lambda x: nd.max(x, axis=0) - nd.min(x, axis=0),
    "prod": lambda x: nd.prod(x, axis=1),
    "norm": lambda x: nd.norm(x),
    "logsumexp_like": lambda x: nd.log(nd.sum(nd.exp(x), axis=1)),
    "argmax": lambda x: x[0] + nd.argmax(x, axis=1).sum().astype("float64"),
    "reshape": lambda x: x.reshape((-1,)) * 2,
    "reshape_zero": lambda x: x[0:0].reshape((2, -1)),
    "expand_squeeze": lambda x: nd.squeeze(nd.expand_dims(x, axis=1)) + 1,
    "transpose": lambda x: nd.transpose(x) * 2,
    "transpose_axes": lambda x: nd.transpose(x.reshape((2, 3, 2)), axes=(2, 0, 1)),
    "swapaxes": lambda x: nd.swapaxes(x, 0, 1),
    "view": lambda x: x[1] + x[2],
    "view_range": lambda x: x[1:3] * 2,
    "view_block": lambda x: x[1, 1:3] + 1,
    "slice_step": lambda x: x[::-2, 1:],
    "slice_axis": lambda x: nd.slice_axis(x, axis=1, begin=1, end=3),
    "flip": lambda x: nd.flip(x, axis=1),
    "concat": lambda x: nd.concat(x, x * 2, x, dim=1),
    "stack": lambda x: nd.stack(x, x + 1, axis=1),
    "split": lambda x: nd.split(x, num_outputs=2, axis=1)[1] * 3,
    "broadcast_to": lambda x: nd.broadcast_to(x[0:1], shape=(5, 4)),
    "tile_repeat": lambda x: nd.tile(x, (2, 1)) + nd.repeat(x, 2, axis=0),
    "pad": lambda x: nd.pad(x, mode="constant", pad_width=(1, 1, 0, 2), constant_value=7.0),
    "dot": lambda x: nd.dot(x, x, transpose_b=True),
    "cast": lambda x: x.astype("float32") * 2,
    "cast_half": lambda x: (x.astype("float16") * 3).sum(axis=0),
    "cast_back": lambda x: x.astype("float32").astype("float64") + x,
    "identity": lambda x: x + 0,
}


@pytest.mark.parametrize("name", ONE)
def test_evaluates_to_the_same_bits(name):
    check(ONE[name], marked((3, 4)))


TWO = {
    "add": lambda x, y: x + y,
    "same_twice": lambda x, y: x * x + y,
    "broadcast": lambda x, y: x * y[0] + x.reshape((3, 1, 4)) / nd.exp(y[0:1]),
    "arctan2": lambda x, y: nd.arctan2(x, y),
    "maximum": lambda x, y: nd.maximum(x, y),
    "hypot_power": lambda x, y: nd.hypot(x, y) ** y,
    "dot": lambda x, y: nd.dot(x, y.T),
    "concat": lambda x, y: nd.concat(y, x, dim=0),
    "mixed": lambda x, y: (x.astype("float32") * y).sum(),
}


@pytest.mark.parametrize("name", TWO)
def test_two_arguments_evaluate_to_the_same_bits(name):
    check(TWO[name], marked((3, 4)), marked((3, 4), 1))


def test_unmarked_operands_are_arguments_called_null():
    s = check(lambda x, c: nd.exp(x * c) + 1, marked((3,)), array((3,), 1))
    first, second = s.list_arguments()
    assert re.fullmatch(r"var\d+", first)
    assert re.fullmatch(r"null\d+", second)


def test_an_unmarked_operand_used_twice_is_one_argument():
    s = check(lambda x, c: (x + c) * c + c, marked((3,)), array((3,), 1))
    assert len(s.list_arguments()) == 2


def test_unmarked_parts_of_one_memory_are_told_apart():
    x, w = marked((3,)), array((2, 3), 1)
    y = recorded(lambda: (x * w[0]) * w[1])
    s = autograd.get_symbol(y)
    (out,) = s.eval(**dict(zip(s.list_arguments(), [x, w[0], w[1]], strict=True)))
    same(out, y)
    y = recorded(lambda: x + w.reshape((6,))[:3] + w)  # other shapes on the same memory
    assert len(autograd.get_symbol(y).list_arguments()) == 3


def test_index_arrays_are_arguments():
    x = marked((4, 2))
    y = recorded(lambda: x[[0, 2, 0]] * 2)
    s = autograd.get_symbol(y)
    index = nd.array([0, 2, 0], dtype="int64")
    for t in round_trips(s):
        var_, null = t.list_arguments()
        assert t.infer_type()[0] == [np.float64, np.int64]
        same(t.eval(**{var_: x, null: index})[0], y)
        same(t.eval(**{var_: x.astype("float32"), null: index})[0], x.astype("float32")[[0, 2, 0]] * 2)
        for bad in ([0, 4, 0], [-1, 0, 0]):
            with pytest.raises(AttrError, match=r"_take: index must be from 0 to 3, got -?\d to \d"):
                t.eval(**{var_: x, null: nd.array(bad, dtype="int64")})
        with pytest.raises(DTypeError, match="_take: traced for inputs of int64, got float32"):
            t.eval(**{var_: x, null: index.astype("float32")})


def test_where_and_integers():
    x, c = marked((4,)), nd.array([1, 0, 1, 0], dtype="float64")
    check(lambda x, c: nd.where(c, x, x * 2), x, c)
    k = nd.array([1, 2, 3, 4], dtype="int32")
    k.attach_grad("null")  # to be on the tape
    check(lambda k: (k * 3 - 1) * k, k)
    check(lambda k: k / 2 + nd.exp(k), k)


@pytest.fixture
def halves():
    """An operator with two results, of which the second has a derivative that reads it."""
    before = dict(registry.operators)

    @structured("_test_halves", method=False)
    def op(data, scale=1.0):
        n, m = data.shape
        return Spec([(n // 2, m), (n - n // 2, m)], [data.dtype] * 2, factor=scale)

    @op.run
    def _(data, outs, *, factor):
        k = outs[0].size
        outs[0]._buf[:] = data._buf[:k] * factor
        outs[1]._buf[:] = np.exp(data._buf[k:])

    op.vjp(data=lambda g, factor, y1: nd.concat(g[0] * factor, g[1] * y1, dim=0))
    yield op
    registry.operators.clear()
    registry.operators.update(before)
    registry._names.discard("_test_halves")


def test_several_results(halves):
    x = marked((3, 2))
    with autograd.record():
        first, second = halves(x, scale=3.0)
        y = second.sum() * first
    s = autograd.get_symbol(second)
    assert s.list_outputs() == ["node_0_output1"]
    assert s.list_attr().items() >= {"scale": "3.0", "__attrs__": "{'factor': 3.0}"}.items()
    assert s.get_internals().list_outputs()[1:] == ["node_0_output0", "node_0_output1"]
    for head in (first, second, y):
        s = autograd.get_symbol(head)
        for t in round_trips(s):
            same(t.eval(**{t.list_arguments()[0]: x})[0], head)
    with autograd.record():
        h = marked((1, 2), 4)
        (g,) = autograd.grad(y, [x], head_grads=h, create_graph=True)
    for t in round_trips(autograd.get_symbol(g)):
        given = {autograd.get_symbol(a).name: a for a in (x, h)}
        same(t.eval(**{name: given[name] for name in t.list_arguments()})[0], g)


@pytest.mark.parametrize("name", sorted(registry.operators))
def test_every_operator(name):
    entry = registry.operators[name]
    for sample in entry.samples:
        arrays = [nd.array(a) for a in sample.draw("float64")]
        if not all(given.grad for given in sample.inputs):
            continue  # unmarked operands are not always arguments as they are
        for x in arrays:
            x.attach_grad()
        given = {autograd.get_symbol(x).name: x for x in arrays}
        with autograd.record():
            results = entry.call(*arrays, **sample.attrs)
        for y in results if isinstance(results, list | tuple) else [results]:
            if y._node is None:
                continue
            s = autograd.get_symbol(y)
            if set(s.list_arguments()) <= set(given):  # else there is a constant of the operator's own
                for t in (s, symbol.load_json(s.tojson())):
                    same(t.eval(**{n: given[n] for n in t.list_arguments()})[0], y)


# Recorded gradients.

GRADS = {
    "product": lambda x: x * nd.exp(x) * nd.sin(x),
    "quotient": lambda x: x / (1 + x * x),
    "power": lambda x: x**2.5 + x**3,
    "sqrt": lambda x: nd.sqrt(x) * nd.log(x),
    "kinks": lambda x: nd.relu(x - 1) * nd.abs(x),
    "gamma": lambda x: nd.gammaln(x) + nd.erf(x) + nd.sinc(x),
    "tanh": lambda x: nd.sigmoid(x) * nd.tanh(x),
    "broadcast": lambda x: x * x * nd.exp(x.sum(axis=0)),
    "norm": lambda x: nd.norm(x * x),
    "slices": lambda x: x[1] * x[0] * x[2] + (x[::2, ::-1] ** 4).sum(),
    "shapes": lambda x: nd.dot(x, nd.transpose(x * x) * 2).reshape((-1,)) ** 2,
    "clip": lambda x: nd.clip(x * x, 0.5, 2.5),
    "cast": lambda x: (x.astype("float32") ** 3 * x.astype("float32")).astype("float64"),
    "concat": lambda x: nd.concat(x * x, nd.exp(x), dim=1),
}


@pytest.mark.parametrize("name", GRADS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_recorded_gradients_evaluate_to_the_same_bits(name, n):
    x = marked((3, 4))
    given = {autograd.get_symbol(x).name: x}
    with autograd.record():
        y = GRADS[name](x)
        for _ in range(n):  # head gradients that are marked are arguments; what is computed from others is constant
            head = marked(y.shape, 7)
            given[autograd.get_symbol(head).name] = head
            (y,) = autograd.grad(y, [x], head_grads=head, create_graph=True)
    s = autograd.get_symbol(y)
    for t in round_trips(s):
        same(t.eval(**{name: given[name] for name in t.list_arguments()})[0], y)
