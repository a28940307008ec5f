"""Docstrings of operators: every section is there, every parameter is named, and what the frame adds is true."""

import inspect
import re

import pytest

from nbgrad import nd
from nbgrad.core.registry import operators
from nbgrad.ir.expr import var
from nbgrad.ir.expr_source import pretty

PUBLIC = [pytest.param(e, id=e.name) for e in operators.values() if not e.name.startswith("_")]
TITLES = ["Parameters", "Returns", "Raises", "Notes", "References", "Examples"]


def sections(doc):
    parts = re.split(r"^(\w+)\n-+\n", doc, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("entry", PUBLIC)
def test_every_section_and_every_parameter(entry):
    doc = entry.call.__doc__
    found = sections(doc)
    assert list(found) == [t for t in TITLES if t in found]
    assert set(TITLES[:4]) <= set(found)
    kinds = inspect.Parameter
    for name, p in inspect.signature(entry.call).parameters.items():
        if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD) and name != "name":
            assert re.search(rf"^[\w, *]*\b{name}\b", found["Parameters"], re.M), f"{name} is not described"
    assert re.search(r"^out : ", found["Parameters"], re.M)
    assert re.search(r"[Gg]radient", doc.replace("g is the gradient of the result.", ""))
    assert max(map(len, doc.split("\n"))) <= 120


def test_gradients_are_read_off_the_table():
    assert "``g*(1 - y)*(1 + y)``" in nd.tanh.__doc__
    assert "``g*b`` for `lhs` and ``g*a`` for `rhs`" in nd.multiply.__doc__
    assert "Also called ``swish``" in nd.silu.__doc__
    assert "It has no gradient." in nd.argmax.__doc__
    assert "out : list of NDArray" in nd.moments.__doc__


def test_expressions_as_one_writes_them():
    x, y = var("x"), var("y")
    shown = {
        x - (y - 1): "x - (y - 1)",
        (x + y) * (x - y): "(x + y)*(x - y)",
        x / (y * 2.5): "x/(y*2.5)",
        -(x * y): "-(x*y)",
        -x + y: "-x + y",
        (x < y) & (y <= 3): "x < y and y <= 3",
    }
    assert [pretty(e) for e in shown] == list(shown.values())
