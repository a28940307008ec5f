"""What symbols tell of a recorded graph: names, structure, text, errors."""

import json
import re
import shutil

import numpy as np
import pytest
from symbols import array, marked, recorded, round_trips, same

from nbgrad import autograd, nd, symbol
from nbgrad.errors import AttrError, DTypeError, NBGradError, ShapeError
from nbgrad.ir.expr import const, topological_order, var
from nbgrad.kernels import scalar
from nbgrad.symbol.text import NotWritable, decode, encode, functions, read_expr, write_expr

# Names, structure, text.


def test_names_count_over_the_process_and_stay_with_the_array():
    x, z = marked((2,)), marked((2,))
    a, b = autograd.get_symbol(x), autograd.get_symbol(z)
    number = int(a.name[3:])
    assert (a.name, b.name) == (f"var{number}", f"var{number + 1}")
    y = recorded(lambda: z * x + x)
    s = autograd.get_symbol(y)
    assert s.list_arguments() == [b.name, a.name]
    assert s.list_inputs() == s.list_arguments()
    assert s.list_auxiliary_states() == []
    assert (s.name, s.list_outputs(), repr(s)) == ("node_1", ["node_1_output"], "<Symbol node_1>")


def test_a_marked_array_gives_itself():
    x = marked((2, 3))
    s = autograd.get_symbol(x)
    assert s.list_arguments() == s.list_outputs() == [s.name]
    assert s.get_children() is None
    assert s.list_attr() == {}
    same(s.eval(**{s.name: x})[0], x)
    assert symbol.load_json(s.tojson()).infer_shape() == ([(2, 3)], [(2, 3)], [])


def test_internals_and_children():
    x = marked((2, 3))
    y = recorded(lambda: nd.exp(x * 2).sum(axis=1))
    s = autograd.get_symbol(y)
    v = s.list_arguments()[0]
    internals = s.get_internals()
    assert internals.list_outputs() == [v, "node_0_output", "node_1_output", "node_2_output"]
    assert len(internals) == len(list(internals)) == 4
    assert internals.name is None
    assert repr(internals) == f"<Symbol group [{v}, node_0_output, node_1_output, node_2_output]>"
    part = internals["node_1_output"]
    assert part.name == internals[2].name == internals[-2].name == "node_1"
    same(part.eval(**{v: x})[0], nd.exp(x * 2))
    assert [c.name for c in s.children] == ["node_1"]
    assert [o.shape for o in internals.eval(**{v: x})] == [(2, 3), (2, 3), (2, 3), (2,)]
    assert json.loads(part.tojson())["heads"] == [[2, 0, 0]]
    with pytest.raises(AttrError, match=r"no output is called 'node_7'; there are .*node_0_output"):
        internals["node_7"]
    with pytest.raises(IndexError):
        internals[4]
    with pytest.raises(DTypeError, match="number or name"):
        internals[1.5]


def test_attributes():
    x = marked((2, 3))
    s = autograd.get_symbol(recorded(lambda: x * 2))
    assert s.attr("scalar") == "2.0"
    assert s.attr("nothing") is None
    s = autograd.get_symbol(recorded(lambda: x.sum(axis=1, keepdims=True)))
    assert s.list_attr().items() >= {"axis": "1", "keepdims": "True"}.items()
    s = autograd.get_symbol(recorded(lambda: x.astype("float32")))
    assert s.list_attr() == {"dtype": "float32"}


def test_json_has_the_known_keys():
    x, z = marked((2, 3)), marked((3,))
    s = autograd.get_symbol(recorded(lambda: nd.sin(x * z) - 1))
    content = json.loads(s.tojson())
    assert set(content) == {"nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"}
    assert [n["op"] for n in content["nodes"]] == ["null", "null", "multiply", "sin", "subtract_scalar"]
    assert content["nodes"][2]["inputs"] == [[0, 0, 0], [1, 0, 0]]
    assert content["nodes"][4]["attrs"]["scalar"] == "1.0"
    assert content["arg_nodes"] == [0, 1]
    assert content["node_row_ptr"] == [0, 1, 2, 3, 4, 5]
    assert content["heads"] == [[4, 0, 0]]
    for node in content["nodes"]:
        assert set(node) == {"op", "name", "attrs", "inputs"}
        assert all(isinstance(v, str) for v in node["attrs"].values())


def test_file(tmp_path):
    x = marked((3,))
    y = recorded(lambda: nd.exp(x).sum())
    s = autograd.get_symbol(y)
    path = tmp_path / "graph.json"
    s.save(path)
    t = symbol.load(path)
    assert t.list_outputs() == s.list_outputs()
    same(t.eval(**{s.list_arguments()[0]: x})[0], y)


def test_drawings_name_every_node(tmp_path):
    x = marked((2, 3))
    s = autograd.get_symbol(recorded(lambda: nd.exp(x * 2).sum(axis=1)))
    names = [s.list_arguments()[0], "node_0", "node_1", "node_2"]
    for text in (s.to_dot(), s.to_mermaid(), s.debug_str()):
        assert all(name in text for name in names)
        assert "scalar=2.0" in text
        assert "(2, 3)" in text
    assert s.to_dot().startswith("digraph")
    assert s.to_dot().count("->") == s.to_mermaid().count("-->") == 3
    assert s.to_mermaid().startswith("flowchart")
    assert "Op:exp, Name=node_1" in s.debug_str()
    if shutil.which("dot"):
        s.draw(tmp_path / "graph.svg")
        assert "node_1" in (tmp_path / "graph.svg").read_text()
        with pytest.raises(NBGradError, match=r"must end with a format"):
            s.draw(tmp_path / "graph")


def test_drawing_without_graphviz_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    s = autograd.get_symbol(marked((2,)))
    with pytest.raises(NBGradError, match=r"install Graphviz .* to_dot\(\) or to_mermaid\(\)"):
        s.draw(tmp_path / "graph.svg")


# Running.


def test_other_shapes_and_dtypes_where_operators_allow():
    x, z = marked((2, 3)), marked((3,))
    f = lambda x, z: nd.log(nd.sum(nd.exp(x * z * 2), axis=1)) + 1  # noqa: E731
    s = autograd.get_symbol(recorded(f, x, z))
    for t in round_trips(s):
        a, b = t.list_arguments()
        assert t.infer_shape(**{a: (5, 4), b: (4,)}) == ([(5, 4), (4,)], [(5,)], [])
        assert t.infer_type(**{a: "float32", b: "float32"}) == ([np.float32] * 2, [np.float32], [])
        u, w = array((5, 4), dtype="float32"), array((4,), dtype="float32")
        same(t.eval(**{a: u, b: w})[0], f(u, w))
        with pytest.raises(ShapeError, match="broadcast") as caught:
            t.infer_shape(**{a: (5, 4), b: (5,)})
        assert "in node_0 (multiply) of a Symbol" in caught.value.__notes__


@pytest.mark.parametrize(
    "f", [lambda x: x.reshape((6,)) * 2, lambda x: x[1] * 2, lambda x: x[::-1, 1:], lambda x: x[[1, 0]]]
)
def test_other_shapes_where_operators_depend_on_them(f):
    x = marked((2, 3))
    s = autograd.get_symbol(recorded(f, x))
    others = {n: nd.array([1, 0], dtype="int64") for n in s.list_arguments()[1:]}
    for t in round_trips(s):
        with pytest.raises(ShapeError, match=r"traced for input shapes \(2, 3\).*record again"):
            t.eval(**{t.list_arguments()[0]: array((1, 2)), **others})
        with pytest.raises(ShapeError, match=r"traced for input shapes \(2, 3\).*record again"):
            t.infer_shape(**{t.list_arguments()[0]: (1, 2)})


def test_evaluation_can_be_recorded():
    x = marked((3,))
    s = autograd.get_symbol(recorded(lambda: (x * x).sum() * 3))
    z = marked((3,), 5)
    with autograd.record():
        (y,) = s.eval(**{s.list_arguments()[0]: z})
    y.backward()
    np.testing.assert_array_equal(z.grad.asnumpy(), 6 * z.asnumpy())


def test_a_trace_survives_backward_and_the_arrays():
    x = marked((3,))
    with autograd.record():
        y = nd.exp(x) * 2
    s = autograd.get_symbol(y)
    expected = y.asnumpy()
    y.backward()
    del y
    np.testing.assert_array_equal(s.eval(**{s.name and s.list_arguments()[0]: x})[0].asnumpy(), expected)


def test_wrong_and_missing_arguments_are_named():
    x, c = marked((2, 3)), array((3,))
    s = autograd.get_symbol(recorded(lambda: x * c))
    a, b = s.list_arguments()
    with pytest.raises(AttrError, match=rf"1 argument\(s\) missing: {b} \(float64 \(3,\)\).*eval\({b}=...\)"):
        s.eval(**{a: x})
    with pytest.raises(AttrError, match=rf"no argument is called z; they are {a}, {b}"):
        s.eval(**{a: x, b: c, "z": c})
    with pytest.raises(AttrError, match="no argument is called z"):
        s.infer_shape(z=(1,))
    with pytest.raises(AttrError, match="no argument is called z"):
        s.infer_type(z="float32")
    with pytest.raises(DTypeError, match=f"argument {b} must be an NDArray, got 1.0"):
        s.eval(**{a: x, b: 1.0})


def test_unrecorded_and_freed_arrays_have_no_symbol():
    x = marked((2,))
    message = "NDArray is not part of a computation graph. Did you forget to turn on recording?"
    with pytest.raises(NBGradError, match=re.escape(message)):
        autograd.get_symbol(x * 2)
    with pytest.raises(NBGradError, match=re.escape(message)):
        autograd.get_symbol(nd.ones(2))
    with autograd.record():
        y = x * x
        z = nd.exp(y)
    y.backward()
    for gone in (y, z):
        with pytest.raises(NBGradError, match=re.escape(message)):
            autograd.get_symbol(gone)
    with pytest.raises(DTypeError, match="an NDArray is needed"):
        symbol.trace(3)


class Twice(autograd.Function):
    def forward(self, x, y):
        return x * 2, y * 2

    def backward(self, g, h):
        return g * 2, h * 2


def test_functions_are_shown_and_not_run():
    x, c = marked((2,)), array((2,))
    with autograd.record():
        y = Twice()(x, c)[1] + 1
    s = autograd.get_symbol(y)
    for t in round_trips(s):
        assert t.attr("scalar") == "1.0"
        assert t.children.list_outputs() == ["node_0_output1"]
        assert t.children.list_attr() == {"op_type": "Twice"}
        assert json.loads(t.tojson())["nodes"][2]["op"] == "Custom"
        assert t.infer_shape() == ([(2,), (2,)], [(2,)], [])
        a, b = t.list_arguments()
        with pytest.raises(NBGradError, match="Function Twice"):
            t.eval(**{a: x, b: c})
        with pytest.raises(NBGradError, match="Function Twice"):
            t.infer_shape(**{a: (3,)})


def test_deep_graphs():
    x = marked((2,))
    with autograd.record():
        y = x
        for _ in range(100_000):
            y = y * 0.99999
    s = autograd.get_symbol(y)
    t = symbol.load_json(s.tojson())
    same(t.eval(**{t.list_arguments()[0]: x})[0], y)
    assert t.name == "node_99999"
    assert len(t.get_internals()) == 100_001
    assert t.infer_shape(**{t.list_arguments()[0]: (7,)})[1] == [(7,)]
    assert t.to_dot().count("->") == 100_000


# Text that is not one of ours.


def test_texts_that_are_not_symbols():
    good = json.loads(autograd.get_symbol(recorded(lambda x: nd.exp(x) * 2, marked((2,)))).tojson())

    def broken(change):
        bad = json.loads(json.dumps(good))
        change(bad)
        return json.dumps(bad)

    bad = [
        "{",
        "[]",
        "3",
        "{}",
        broken(lambda d: d.pop("nodes")),
        broken(lambda d: d["heads"].append([9, 0, 0])),
        broken(lambda d: d["heads"].append([0, 1, 0])),
        broken(lambda d: d["nodes"][1].update(inputs=[[2, 0, 0]])),
        broken(lambda d: d["nodes"][1].update(inputs=[[-1, 0, 0]])),
        broken(lambda d: d["node_row_ptr"].pop()),
        broken(lambda d: d["attrs"]["shape"][1].pop()),
        broken(lambda d: d["nodes"][2]["attrs"].pop("scalar")),
        broken(lambda d: d["nodes"][2]["attrs"].update(scalar="clip")),
        broken(lambda d: d["nodes"][2]["attrs"].update(__expr__="mul x0 x1")),
        broken(lambda d: d["nodes"][2]["attrs"].update(__expr__="print x0")),
        broken(lambda d: d["nodes"][2]["attrs"].update(__operands_params_ints__="(1000000, 1, True)")),
    ]
    for text in bad:
        with pytest.raises(NBGradError, match=r"not JSON|not a Symbol|cannot be read|must be numbers"):
            symbol.load_json(text)


def test_unknown_operators_load_and_refuse_to_run():
    x = marked((2,))
    content = json.loads(autograd.get_symbol(recorded(lambda: nd.exp(x))).tojson())
    content["nodes"][1]["op"] = "no_such_operator"
    s = symbol.load_json(json.dumps(content))
    assert "no_such_operator" in s.debug_str()
    with pytest.raises(NBGradError, match="'no_such_operator' cannot be run"):
        s.eval(**{s.list_arguments()[0]: x})


def test_names_of_operators_do_not_become_code():
    x = marked((2,))
    content = json.loads(autograd.get_symbol(recorded(lambda: x * 2)).tojson())
    content["nodes"][1]["op"] = "f(x0): pass\nimport os\ndef g"
    content["nodes"][1]["attrs"]["__expr__"] = "mul x0 s0; mul $0 4321.0"
    s = symbol.load_json(json.dumps(content))
    np.testing.assert_array_equal(s.eval(**{s.list_arguments()[0]: x})[0].asnumpy(), x.asnumpy() * 2 * 4321.0)


VALUES = [
    None,
    True,
    3,
    -2.5,
    float("inf"),
    -float("inf"),
    -0.0,
    1e-300,
    "clip",
    "None",
    "ij,jk->ik",
    "it's",
    "",
    (),
    (1,),
    (1, (2.0, None)),
    [1, [2]],
    {"a": (1, 2), 3: None},
    slice(None, 3, -1),
    range(2, 8, 3),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_attributes_as_text(value):
    found = decode(encode(value))
    assert found == value
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_attributes_of_other_types_as_text():
    assert np.isnan(decode(encode(float("nan"))))
    assert decode(encode(np.float32)).name == "float32"
    number = decode(encode(np.float32(0.1)))
    assert type(number) is np.float32
    assert number == np.float32(0.1)
    x = np.array([[1, 2], [3, 4]], np.int64)
    found = decode(encode(x))
    np.testing.assert_array_equal(found, x)
    assert found.dtype == x.dtype
    with pytest.raises(NotWritable, match="object"):
        decode(encode((1, object())))


@pytest.mark.parametrize("text", ["__import__('os')", "().__class__", "[x for x in (1,)]", "1 +", "f''", "9" * 9999])
def test_attribute_text_is_not_code(text):
    with pytest.raises(NBGradError, match="cannot be read"):
        decode(text)


def test_expressions_as_text():
    x, y, s = var("x0"), var("x1"), var("s0")
    shared = scalar.exp(x * y)
    for e in (x, const(2), const(-0.0), const(float("inf")), x + 1, shared * shared / (1 - shared) + s, scalar.relu(x)):
        assert read_expr(write_expr(e), 2, 1) is e
    assert write_expr(shared * shared).count("exp") == 1
    deep = x
    for _ in range(5000):
        deep = deep * y + 1
    assert read_expr(write_expr(deep), 2, 1) is deep
    assert len(topological_order([deep])) > 10_000


@pytest.mark.parametrize("text", ["", "mul x0", "mul x0 x5", "mul x0 s9", "add $0 1", "add x0 y", "open x0", "x0 x1"])
def test_expression_text_is_checked(text):
    with pytest.raises(NBGradError, match="cannot be read"):
        read_expr(text, 2, 1)


def test_scalar_functions_have_names_of_their_own():
    table = functions()
    assert {"add", "select", "exp", "polygamma"} <= set(table)
    assert all(fn.name == name for name, fn in table.items())
