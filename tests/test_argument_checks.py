"""Arguments that would make gradients wrong are refused, with and without Python's assertions."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

import nbgrad as nb
from nbgrad import autograd, nd


def test_gradient_buffers_are_not_shared():
    x, z, g = (nd.ones((2,)) for _ in range(3))
    for variables, gradients in ([[x, z], [g, g]], [[x], [x]], [[x, z], [g, g.reshape((2,))]]):
        with pytest.raises(nb.NBGradError, match="memory in common"):
            autograd.mark_variables(variables, gradients)
        assert x._node is None and z._node is None
    both = nd.zeros((4,))
    autograd.mark_variables([x, z], [both[:2], both[2:]])  # parts of one buffer
    with autograd.record():
        y = 2 * x + 3 * z
    y.backward()
    assert both.asnumpy().tolist() == [2.0, 2.0, 3.0, 3.0]


def test_checks_do_not_depend_on_assertions_being_on():
    """python -O leaves out what is an assert statement."""
    for path in sorted((pathlib.Path(nb.__file__).parent).glob("*.py")):
        asserts = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Assert)]
        said = [ast.unparse(n) for n in asserts if n.msg is not None]
        assert path.name in ("documentation.py", "testing.py") or not said, (path.name, said)


def test_without_a_compiler_there_is_a_clear_error():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    made = subprocess.run([sys.executable, "-c", "import nbgrad"], env=environment, capture_output=True, text=True)
    assert made.returncode == 1 and "NUMBA_DISABLE_JIT is set" in made.stderr.splitlines()[-1]
