"""Texts of symbols that somebody changed: refused with the name of the node, never run."""

import json
import pickle

import pytest
from symbols import marked, recorded, same

import nbgrad as nb
from nbgrad import autograd, nd, symbol
from nbgrad.core.registry import operators
from nbgrad.errors import NBGradError, SymbolError
from nbgrad.operators.structured import Structured
from nbgrad.symbol.operand_checks import OPERAND_CHECKS


def content(f, shape=(3, 4)):
    return json.loads(autograd.get_symbol(recorded(f, marked(shape))).tojson())


def refused(changed, match, node=None):
    text = changed if isinstance(changed, str) else json.dumps(changed)
    with pytest.raises(SymbolError, match=match) as caught:
        symbol.load_json(text)
    if node is not None:
        assert caught.value.node == node
        assert repr(node) in str(caught.value)
    with pytest.raises(SymbolError):
        pickle.loads(pickle.dumps(_Pickled(text)))


class _Pickled:
    def __init__(self, text):
        self.text = text

    def __reduce__(self):
        return symbol.load_json, (self.text,)


def test_every_operator_that_checks_nothing_has_an_entry():
    internal = {
        name
        for name, entry in operators.items()
        if isinstance(entry.rule, Structured) and name == entry.rule.name and name.startswith("_")
        and entry.rule.infer.__module__.startswith("nbgrad.")
    }  # fmt: skip
    assert internal == set(OPERAND_CHECKS)


SHAPES = {
    "elementwise": (lambda x: nd.exp(x) * 2, 1, [3, 5]),
    "reduction": (lambda x: nd.sum(x, axis=1), 1, [4]),
    "product": (lambda x: nd.dot(x, x, transpose_b=True), 1, [3, 30]),
    "view": (lambda x: x[1] * 1, 1, [400]),
    "reshape": (lambda x: x.reshape((4, 3)) * 1, 1, [40, 3]),
    "cast": (lambda x: x.astype("float32"), 1, [3, 400]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_are_worked_out_and_not_believed(name):
    f, k, shape = SHAPES[name]
    given = content(f)
    given["attrs"]["shape"][1][k] = shape
    refused(given, "gives .* the text says", given["nodes"][k]["name"])


def test_dtypes_are_worked_out_and_not_believed():
    given = content(lambda x: nd.exp(x))
    given["attrs"]["dtype"][1][1] = "float32"
    refused(given, r"gives float64 \(3, 4\), the text says float32 \(3, 4\)", "node_0")


def test_a_variable_of_another_shape_does_not_move_what_follows():
    given = content(lambda x: x[1:3].reshape((8,)) * 2)
    given["attrs"]["shape"][1][0] = [1, 4]
    refused(given, "slice_view", "node_0")


@pytest.mark.parametrize("key, value", [("begin", "(7, 0)"), ("counts", "(90, 4)"), ("shape", "(90,)"),
                                        ("begin", "(True, 0)"), ("counts", "(2.0, 4)")])  # fmt: skip
def test_views_stay_inside(key, value):
    given = content(lambda x: x[1:3] * 2)
    given["nodes"][1]["attrs"][key] = value
    refused(given, "cannot be read", "node_0")


def _pooled(x):
    return nd.Pooling(x.reshape((1, 1, 3, 4)), kernel=(2, 2), pool_type="max")


@pytest.mark.parametrize("key, value", [
    ("kernel", "(2,)"), ("kernel", "(0, 2)"), ("stride", "(0, 1)"), ("outs", "(9, 9)"), ("outs", "range(0, 3)"),
    ("pad", "(-5, 0)"), ("kernel", "clip"), ("stride", "(1, 99999999999999999999)"), ("extra", "1"),
])  # fmt: skip
def test_operators_that_check_nothing_are_checked(key, value):
    given = content(_pooled)
    (k,) = [k for k, node in enumerate(given["nodes"]) if node["op"] == "_max_pool"]
    given["nodes"][k]["attrs"][key] = value
    refused(given, "_max_pool", given["nodes"][k]["name"])


def test_recorded_gradients_of_pooling_run_and_check_positions():
    x = marked((3, 4))
    with autograd.record():
        (g,) = autograd.grad(_pooled(x), [x], create_graph=True)
    s = symbol.load_json(autograd.get_symbol(g).tojson())
    given = {autograd.get_symbol(x).name: x}
    (more,) = [name for name in s.list_arguments() if name not in given] or [None]
    if more is None:
        same(s.eval(**given)[0], g)
    else:
        same(s.eval(**given, **{more: nd.ones((1, 1, 2, 3), dtype="float64")})[0], g)


def test_canonical_attributes_are_compared():
    given = content(lambda x: nd.transpose(x))
    assert "__attrs__" in given["nodes"][1]["attrs"]
    given["nodes"][1]["attrs"]["__attrs__"] = "{'axes': (1, 7)}"
    refused(given, "mean", "node_0")


WRONG = {
    "a node twice": lambda d: d["nodes"][1].update(name=d["nodes"][0]["name"]),
    "a number as name": lambda d: d["nodes"][1].update(name=3),
    "half a character": lambda d: d["nodes"][1].update(name="\ud800"),
    "bool as number": lambda d: d["nodes"][1]["inputs"].append([False, False, 0]),
    "text as number": lambda d: d["nodes"][1].update(inputs=[["0", 0, 0]]),
    "fraction": lambda d: d["nodes"][1].update(inputs=[[0.0, 0, 0]]),
    "forward": lambda d: d["nodes"][1].update(inputs=[[2, 0, 0]]),
    "itself": lambda d: d["nodes"][1].update(inputs=[[1, 0, 0]]),
    "negative": lambda d: d["nodes"][1].update(inputs=[[-1, 0, 0]]),
    "rows backwards": lambda d: d.update(node_row_ptr=[0, 2, 1, 3]),
    "no heads": lambda d: d.update(heads=[]),
    "unknown key": lambda d: d.update(more=1),
    "unknown key of a node": lambda d: d["nodes"][1].update(more=1),
    "unknown attribute": lambda d: d["nodes"][1]["attrs"].update(more="1"),
    "attribute as number": lambda d: d["nodes"][2]["attrs"].update(scalar=2.0),
    "version": lambda d: d["attrs"].update(nbgrad_version=["str", 3]),
    "other variables": lambda d: d.update(arg_nodes=[1]),
    "negative length": lambda d: d["attrs"]["shape"][1].__setitem__(0, [-3, 4]),
    "bool length": lambda d: d["attrs"]["shape"][1].__setitem__(0, [True, 4]),
    "huge": lambda d: [d["attrs"]["shape"][1].__setitem__(k, [1 << 61, 4]) for k in range(3)],
    "axes": lambda d: [d["attrs"]["shape"][1].__setitem__(k, [1] * 70) for k in range(3)],
    "strange dtype": lambda d: d["attrs"]["dtype"][1].__setitem__(0, "complex64"),
    "operands": lambda d: d["nodes"][1].update(inputs=[[0, 0, 0], [0, 0, 0]]),
    "an operator of functions": lambda d: d["nodes"][1].update(op="_take"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_parts(name):
    given = content(lambda x: nd.exp(x) * 2)
    WRONG[name](given)
    refused(given, "load_json")


TEXTS = ["", "null", "[" * 100_000, '{"a":' * 50_000, "1" * 10_000, '{"nodes": NaN}', '{"nodes": 1e999}',
         '{"nodes": 1, "nodes": 2}', "\x00", '"' + "x" * 1000 + '"']  # fmt: skip


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_wrong_texts(text):
    refused(text, "load_json")


@pytest.mark.parametrize("given", [None, 3, b"{}", ["{}"], {}])
def test_what_is_no_text(given):
    with pytest.raises(SymbolError, match="a text is needed"):
        symbol.load_json(given)


@pytest.mark.parametrize("text", ["(" * 5000, "-" * 100_000 + "1", "[" * 40 + "]" * 40, "1+1", "'" * 9, "9" * 5000,
                                  "range(0, 1000000000000)", "number('int8', 300)", "f(1)",
                                  "x.y", "lambda: 0"])  # fmt: skip
def test_attribute_texts(text):
    given = content(lambda x: nd.sum(x, axis=1))
    given["nodes"][1]["attrs"]["axis"] = text
    refused(given, "node_0", "node_0")


def test_failures_while_it_runs_name_the_node():
    s = autograd.get_symbol(recorded(lambda x: nd.exp(x), marked((2,))))
    s = symbol.load_json(s.tojson())
    s._nodes[1].step.run = lambda *args: {}["nothing"]
    with pytest.raises(SymbolError, match=r"'node_0' \(exp\) failed: KeyError") as caught:
        s.eval(**{s.list_arguments()[0]: nd.ones(2, dtype="float64")})
    assert caught.value.node == "node_0"
    assert isinstance(caught.value, NBGradError) and nb.MXNetError in type(caught.value).__mro__
