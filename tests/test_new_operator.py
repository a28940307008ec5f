"""One statement makes an operator, with everything that belongs to it."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import numpy as np

import nbgrad as nb
from nbgrad import autograd, nd, symbol; from nbgrad.protocols import methods
from nbgrad.operators.declare import unary
from nbgrad.ir.expr import var
from nbgrad.kernels import scalar as vm
from nbgrad.testing import check_grads

x = var("x")
unary("newcomer", x * vm.tanh(x), "x*tanh(x).", aliases=("latecomer",), reference=lambda a: a * np.tanh(a), ulp=2)
nd._fill()
methods._attach()

values = np.linspace(-2, 2, 7)
a = nd.array(values)
np.testing.assert_allclose(nd.newcomer(a).asnumpy(), values * np.tanh(values), rtol=1e-15)
assert nd.latecomer is nd.newcomer
assert (a.newcomer() == nd.newcomer(a)).asnumpy().all()
assert nd.newcomer(nd.array([1, 2], dtype="int32")).dtype is np.float32
assert nd.newcomer(nd.array([1.0], dtype="float16")).dtype is np.float16
check_grads(nd.newcomer, [values], order=4)

a.attach_grad()
with autograd.record():
    y = nd.newcomer(a * 2)
again = symbol.load_json(autograd.get_symbol(y).tojson())
assert "newcomer" in again.debug_str()
(evaluated,) = again.eval(**{again.list_arguments()[0]: a.detach()})
assert (evaluated == y.detach()).asnumpy().all()

# Fused: value and gradient of an expression with it are one loop.
fused = nb.jit(nb.value_and_grad(lambda x: nd.sum(nd.newcomer(x) * x)))
value, gradient = fused(values)
tanh = np.tanh(values)
np.testing.assert_allclose(value, (values**2 * tanh).sum(), rtol=1e-14, atol=1e-14)
np.testing.assert_allclose(gradient, 2 * values * tanh + values**2 * (1 - tanh**2), rtol=1e-13)
assert fused.source().count("for ") == 1 and "newcomer" not in fused.source()

import test_operators as table
from operator_page import page

entry = next(e for e in table.ENTRIES if e.name == "newcomer")
assert any(row.values[0] is entry for row in table.DIFFERENTIABLE)
assert "| `newcomer` | `latecomer` | 3 |  | f, i→f | x*tanh(x) |" in page()
try:
    nd.newcomer(a, speed=3)
except TypeError as error:
    assert "newcomer: keyword 'speed' is unknown" in str(error)
print("all there")
"""


def test_one_statement_gives_every_product():
    tests = Path(__file__).parent
    paths = [str(tests.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tests,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stdout == "all there\n", done.stderr
