"""Items of dictionaries that a known string chooses: ``{"a": f, "b": g}[mode](x)``, also of dictionaries of modules."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled
from test_adjoint_refused import made

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.5, 1.2, -0.7, 2.0])
WEIGHTS = np.array([0.3, -1.0, 2.0, 0.7])
MODE = "cubes"


def squares(x):
    return np.sum(x * x)


def cubes(x):
    total = 0.0
    for v in x:
        total += v**3
    return total


LOSSES = {"squares": squares, "cubes": cubes, "scale": 2.0, "count": 3, "weights": WEIGHTS, "pair": (math.sin, 0.5),
          "kind": "cubes", "none": None}  # fmt: skip


def at_once(x, mode="cubes"):
    return {"squares": squares, "cubes": cubes}[mode](x) * x[0]


def named(x, mode):
    losses = {"squares": squares, "cubes": cubes}
    loss = losses[mode]
    total = 0.0
    for i in range(x.size):
        total += losses[mode](x) * loss(x[i:])
    return total + losses["squares"](x)


def of_module(x, mode):
    function, factor = LOSSES["pair"]
    w, kind, missing = LOSSES["weights"], LOSSES["kind"], LOSSES["none"]
    total = LOSSES[mode](x) * LOSSES["scale"] * LOSSES["count"] + LOSSES[kind](x)
    if missing is None:
        total += function(x[0]) * factor
    return total + np.sum(w * x) + LOSSES[MODE](w * x)


def values(x, reduction):
    """Of those that are not taken, nothing is seen."""
    norm = {"sum": np.sum(x * x), "mean": np.mean(x**2), "most": np.max(x)}[reduction]
    p = {"sum": 2.0, "mean": 0.5 * x[0]}.get(reduction, 3.0)
    rate = dict(sum=1.0, mean=1.0 / x.size).get(reduction)
    if rate is None:
        rate = 0.25
    y = {"sum": x, "mean": WEIGHTS}.get(reduction, x[::-1])
    return norm * p * rate * np.sum(y * x)


def elementwise(x, name):
    y = {"tanh": np.tanh, "square": lambda v: v * v, "double": lambda v, k=x[0]: v * k}[name](x)
    total = 0.0
    for i in range(x.size):
        total += {"tanh": math.tanh, "square": lambda v: v + 1}.get(name, math.sin)(y[i])
    return total


def passed_on(x, mode):
    return _applied(x, mode) + _applied(x * x, "squares") + _applied(x, mode, {"cubes": squares, "squares": cubes})


def _applied(x, mode, table=None):
    return LOSSES[mode](x) if table is None else table[mode](x)


PROGRAMS = [(f, mode) for f in (at_once, named, of_module, passed_on) for mode in ("squares", "cubes")]
PROGRAMS += [(values, mode) for mode in ("sum", "mean", "most")]
PROGRAMS += [(elementwise, mode) for mode in ("tanh", "square", "double")]


@pytest.mark.parametrize(("f", "mode"), PROGRAMS, ids=lambda a: getattr(a, "__name__", a))
def test_programs(f, mode):
    if (f, mode) == (values, "most"):
        f = _without_a_key
    with uncompiled():
        check_derivatives(f, X, mode, compiled=False)


def _without_a_key(x, mode):
    return values(x, "mean") + {"most": np.max(x)}[mode]


def test_the_array_that_is_chosen_is_written():
    def f(x, name):
        y = x * 1.0
        z = {"own": y, "other": WEIGHTS}[name]
        if name == "own":
            z[0] = x[1] * x[2]
        return np.sum(y * z)

    for name in ("own", "other"):
        with uncompiled():
            check_derivatives(f, X, name, compiled=False)


def test_a_dictionary_of_the_module_is_that_of_the_beginning():
    """As other constants are; a primitive reads it again."""
    table = {"f": math.sin, "w": 2.0}

    def f(x):
        return table["f"](x) * table["w"]

    adjoint, operator = nb.adjoint(f), nb.primitive(f)
    assert float(operator(0.5)) == pytest.approx(2 * math.sin(0.5), rel=1e-6)
    table["w"] = 3.0
    table["f"] = math.cos
    assert adjoint.value_and_grad(0.5)[0] == 2 * math.sin(0.5)
    assert nb.adjoint(f).value_and_grad(0.5)[0] == 3 * math.cos(0.5)
    assert float(operator(0.5)) == pytest.approx(3 * math.cos(0.5), rel=1e-6)


def scaled(x, k):
    return x * k


SETTINGS = SimpleNamespace(k=2.0, inner=SimpleNamespace(part=partial(scaled, k=2.0)))
PART, PARTS, PAIRS = partial(scaled, k=2.0), {"u": partial(scaled, k=2.0)}, {"u": (2.0, 3.0), "v": (4.0, 5.0)}


def test_captured_values_are_of_the_moment_when_adjoint_is_called():
    """Wherever they are: an edit between the first calls of two methods would give two functions."""
    bodies = ["SETTINGS.k * a", "SETTINGS.inner.part(a)", "PART(a)", "PARTS['u'](a)", "PARTS.get('u')(a)"]
    adjoints = []
    for body in bodies:
        function = made(f"return {body}")
        function.__globals__.update(SETTINGS=SETTINGS, PART=PART, PARTS=PARTS)
        adjoints.append((nb.adjoint(function), nb.tangent(function), function))

    def edit(k):
        SETTINGS.k = k
        for part in (SETTINGS.inner.part, PART, PARTS["u"]):
            part.keywords["k"] = k

    try:
        for adj, tangent, function in adjoints:
            edit(9.0)
            assert function(X, X, 1.0, 2) == 9.0
            assert adj.value_and_grad(X, X, 1.0, 2)[0] == 2.0
            edit(5.0)
            assert adj.vjp(X, X, 1.0, 2).value == 2.0
            assert tangent.jvp((X, X, 1.0, 2), (None, None, 1.0, None)) == (2.0, 2.0)
            assert nb.adjoint(function).value_and_grad(X, X, 1.0, 2)[0] == 5.0
    finally:
        edit(2.0)


def test_items_of_dictionaries_that_are_tuples():
    function = made("d = {'w': (a, 2.0)}\nreturn PAIRS['v'][1] * a + PAIRS['u'][0] + PAIRS.get('u')[1] * d['w'][1]")
    function.__globals__.update(PAIRS=PAIRS)
    assert nb.adjoint(function, argnums=2).value_and_grad(X, X, 1.5, 2) == (5.0 * 1.5 + 2.0 + 6.0, 5.0)


TABLE = {"u": np.sum, "v": 2.0}
NUMBERS = {1: 2.0}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return {'u': a}['v']", "the key 'v', which the dictionary does not have .*it has u; add it"),
        ("return TABLE['w'](x)", "the key 'w', which the dictionary does not have .*it has u, v; add it"),
        ("return {'u': a}[n]", "the key n in .*, which is no string or integer that is known.*pass it as an argument"),
        (
            "m = 'u'\nif a > 0:\n    m = 'v'\nreturn TABLE[m] * a",
            "the key m in TABLE.m., which is no string or",
        ),
        ("return {'u': 1.0, 'v': g(x)}['u'] * a", r"g\(x\), which is computed in a dictionary though another item"),
        ("return {'u': 1.0, 'v': np.random.rand()}['u'] * a", r"rand\(\), which is computed in a dictionary though"),
        ("b = {'u': a}\nreturn {**b, 'v': n}['v']", r"\*\* in .*give the dictionary a name before"),
        ("return {'u': a}['u'](x)", "a call of .*which is no function"),
        ("return TABLE['v'](x)", "a call of TABLE.*which is no function"),
        ("TABLE['v'] = a\nreturn a", "TABLE is not a variable"),
        ("return len(TABLE) * a", "TABLE is not a variable"),
    ],
)
def test_refused(body, said):
    function = made(body)
    function.__globals__.update(TABLE=TABLE, g=squares)
    with pytest.raises(TraceError, match=said):
        nb.adjoint(function).value_and_grad(X, X, 1.0, 2)
