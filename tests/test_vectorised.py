"""Loops over the scalar functions are packed code: a look at what the compiler made of each row of `accuracy`."""

import importlib
import math
import pkgutil
import platform
import re

import accuracy
import numba
import numpy as np
import pytest

from nbgrad import nd
from nbgrad.arrays import templates
from nbgrad.autodiff.pullback import argument_kinds
from nbgrad.backends.numba.compile import inline
from nbgrad.core import dtypes
from nbgrad.core.registry import operators

ROWS = {
    row.name: row
    for module in pkgutil.iter_modules(accuracy.__path__)
    for row in importlib.import_module(f"accuracy.{module.name}").ROWS
    if row.vector
}
ARITHMETIC = r"v?(?:add|sub|mul|div|fn?m(?:add|sub)(?:132|213|231))"

pytestmark = [
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="looks for the instructions of x86-64"),
    pytest.mark.skipif(bool(numba.config.BOUNDSCHECK), reason="a check of every index keeps a loop scalar"),
]


def machine_code(function, count, dtype):
    """Of the flat loop over `function` alone, without what calls it from Python."""
    kinds = [np.dtype(dtype)] * (count + 1)
    return accuracy.kernel_of(function, count).llvm(*kinds, asm=True).split("_ZN7cpython")[0]


def blocks(code):
    """What lies between labels."""
    return re.split(r"^\.?\w+:.*\n", code, flags=re.MULTILINE)


def calls(code):
    """The functions of others that are called; ours, packed themselves and rarely called, are left out."""
    if not re.search(r"\bcall", code):
        return []
    named = set(re.findall(r"\$([A-Za-z_]\w*)", code)) or {"a function"}
    return sorted(name for name in named if not name.startswith("nbgrad_"))


def packed_loops(code, dtype):
    packed = re.compile(rf"\b{ARITHMETIC}{'pd' if dtype == 'float64' else 'p[sd]'}\b")
    return [block for block in blocks(code) if packed.search(block) and re.search(r"\bj[a-z]+\s", block)]


def arguments_of(row):
    return len(row.arguments(np.random.default_rng(0), "float64"))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ROWS)
def test_loop_is_packed(name, dtype):
    row = ROWS[name]
    code = machine_code(row.function, arguments_of(row), dtype)
    assert not calls(code), f"{row.function.__module__}.{name} lost its packed code: it calls {', '.join(calls(code))}"
    loops = packed_loops(code, dtype)
    assert loops, f"{row.function.__module__}.{name} lost its packed code: no packed arithmetic in {dtype}"
    widest = max(loops, key=lambda block: len(re.findall(r"%[xyz]mm", block)))
    single = re.findall(rf"\b{ARITHMETIC}s[sd]\b", widest)
    assert not single, f"{row.function.__module__}.{name}: some of the loop in {dtype} is not packed: {single}"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["sqrt", "log", "reciprocal", "arcsin", "cbrt"])
def test_a_strong_zero_is_a_mask(name, dtype):
    """The derivative of a function with poles compares its cotangent with zero and masks, packed: no branch."""
    rule = operators[name].rule.partial(0)[0]
    inputs = [templates.Input(n, dtypes.as_dtype(dtype), templates.STEP) for n in rule.operands]
    made = templates.elementwise(
        rule.name, inputs, rule.params, [templates.Output(rule.expr, dtypes.as_dtype(dtype))], 1
    )
    kind = nd.zeros(1, dtype=dtype)._kind
    code = made.llvm(*argument_kinds(kind, len(inputs) + 1, 0, 1, len(inputs)), asm=True).split("_ZN7cpython")[0]
    assert not calls(code)
    short = "pd" if dtype == "float64" else "ps"
    widest = max(packed_loops(code, dtype), key=lambda block: len(re.findall(r"%[xyz]mm", block)))
    loop = re.split(r"\bj[a-z]+\s", widest)[0]  # to where it goes on or turns
    assert re.search(rf"\bv?cmp\w*{short}\b", loop), loop
    assert re.search(rf"\bv?(?:and|andn|blendv){short}\b|\{{%k\d\}}", loop), loop
    assert re.search(rf"\b{ARITHMETIC}{short}\b", loop) and re.search(r"\bv?mov[ua]p[sd]\s+%\wmm\d+, .*\(", loop), loop


def test_a_call_is_found():

    def lost(x):
        return math.erf(x)

    assert calls(machine_code(inline(lost), 1, "float64")) == ["erf"]
