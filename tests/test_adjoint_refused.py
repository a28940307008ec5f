"""What is outside of the subset is refused, and the message says where and what to write instead."""

import linecache
import math

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.errors import AttrError, DTypeError, NBGradError, TraceError

NUMBERS = [1.0, 2.0]


def writes(p, q):
    p[0] = q[0] * q[0]
    return p[0]


def made(body, head="x, y, a, n", number=[0]):  # noqa: B006
    number[0] += 1
    source = f"def f({head}):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    filename = f"<refused {number[0]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace = {"np": np, "math": math, "NUMBERS": NUMBERS, "writes": writes}
    exec(compile(source, filename, "exec"), namespace)
    return namespace["f"]


AT_ONCE = {
    "for v in x:\n    a += v\nreturn a": "range",
    "for i, v in enumerate(x):\n    a += v\nreturn a": "range",
    "return sum([v for v in x])": "loop",
    "try:\n    a = a / n\nexcept ZeroDivisionError:\n    a = 0.0\nreturn a": "Try",
    "with open(a) as g:\n    pass\nreturn a": "With",
    "b = [a, a]\nreturn b[0]": "array",
    "b = {0: a}\nreturn b[0]": "arrays",
    "g = lambda t: t\nreturn g(a)": "def",
    "def g(t):\n    return t\nreturn g(a)": "outside",
    "assert a > 0\nreturn a": "caller",
    "raise ValueError": "caller",
    "return np.linalg.norm(x)": "no derivative",
    "return np.interp(a, x, y)": "no derivative",
    "return x @ y": "np.dot",
    "return a & n": "and",
    "while a > 1:\n    a = a / 2\nelse:\n    a = 0.0\nreturn a": "flag",
    "np.sin(a)\nreturn a": "without effect",
    "print(a)\nreturn a": "without effect",
    "yield a": "without effect",
    "return (b := a)": "statement of its own",
}
AT_THE_CALL = {
    "b = x\nb[0] = a\nreturn a": "copy",
    "b = x * 2\nreturn b[0]": "np.empty",
    "r = x[1:]\nr[0] = a\nreturn a": "np.empty",
    "return x * 2": "slice",
    "x[::2] = a\nreturn a": "step",
    "x[0, 1] = a\nreturn a": "axes",
    "for i in range(n):\n    i = i + 1\n    a += i\nreturn a": "loop variable",
    "for i in range(n):\n    a += 1.0\nreturn a * i": "after its loop",
    "for i in range(n):\n    for i in range(2):\n        a += x[i]\nreturn a": "loop around",
    "for i in range(n):\n    b = np.zeros(i)\n    a += b[0]\nreturn a": "size",
    "a = np.zeros(3)\nreturn a[0]": "second time",
    "b = np.zeros(3)\nb = np.ones(3)\nreturn b[0]": "second time",
    "b = a\nb = np.zeros(3)\nreturn b[0]": "second time",
    "b = np.zeros(3)\nb = a\nreturn b": "another name",
    "b = np.zeros(3, dtype=complex)\nreturn a": "dtype",
    "return np.sum(x, axis=0)": "axis",
    "return NUMBERS[0] * a": "argument",
    "if a > 0:\n    return a\nreturn a, a * 2": "form",
    "return a, a": "twice",
    "a, n = 1.0, 2, 3\nreturn a": "one by one",
    "a = b = 1.0\nreturn a": "one assignment",
    "for i in range(n):\n    if a > 1:\n        if a > 2:\n            continue\n    a += 2.0\nreturn a": "if/else",
    "x, y = y, y\nreturn a": "a, b = b, a",
    "x, y = y, x\nreturn x": "copy",
    "return x.strides[0] * a": "index a named array",
    "b = a + writes(x, y)\nreturn b": "name first",
    "b = a if n > 1 else np.sum(x)\nreturn b": "statements",
    "b = writes(x, x)\nreturn b": "copy one",
}  # fmt: skip


@pytest.mark.parametrize("body", AT_ONCE)
def test_refused_when_adjoint_is_called(body):
    for transform in (nb.adjoint, nb.tangent):
        with pytest.raises(TraceError, match=r"line \d+") as caught:
            transform(made(body))
        assert "<refused" in str(caught.value)
        assert AT_ONCE[body] in str(caught.value), caught.value


@pytest.mark.parametrize("body", AT_THE_CALL)
def test_refused_at_the_call(body):
    adj = nb.adjoint(made(body))
    with pytest.raises(TraceError, match=r"line \d+") as caught:
        adj.vjp(np.ones(4), np.ones(4), 2.0, 3)
    assert AT_THE_CALL[body] in str(caught.value), caught.value


SQUARES = "s = 0.0\nfor i in range(n):\n    s += x[i] * x[i] * a\n    y[i] = s\nreturn s"


def test_arguments():
    adj = nb.adjoint(made(SQUARES))
    x = np.ones(4)
    with pytest.raises(AttrError, match=r"4 arguments expected \(x, y, a, n\), 2 given"):
        adj.value_and_grad(x, x)
    with pytest.raises(AttrError, match=r"share memory.*copy"):
        adj.value_and_grad(x, x, 2.0, 3)
    with pytest.raises(AttrError, match=r"share memory"):
        adj.value_and_grad(x[1:], x[:-1], 2.0, 3)
    with pytest.raises(DTypeError, match=r"argument x is a float16 array"):
        adj.value_and_grad(x.astype(np.float16), x, 2.0, 3)
    with pytest.raises(DTypeError, match=r"argument a is a str"):
        adj.value_and_grad(x, np.ones(4), "2", 3)
    with pytest.raises(DTypeError, match=r"only floats"):
        nb.adjoint(made(SQUARES), argnums=3).value_and_grad(x, np.ones(4), 2.0, 3)
    with pytest.raises(AttrError, match=r"make a call first"):
        adj.source  # noqa: B018


def test_cotangents():
    pull = nb.adjoint(made(SQUARES)).vjp(np.ones(4), np.zeros(4), 2.0, 3)
    assert pull.outputs == ("s", "y")
    with pytest.raises(AttrError, match=r"2 cotangents expected \(s, y\), 1 given"):
        pull(1.0)
    with pytest.raises(NBGradError, match=r"y has shape \(4,\)"):
        pull((1.0, np.ones(3)))
    np.testing.assert_array_equal(pull((1.0, None))[0], [4.0, 4.0, 4.0, 0.0])


def test_a_lambda_and_a_builtin():
    with pytest.raises(TraceError, match="def"):
        nb.adjoint(lambda x: x)
    with pytest.raises(TraceError, match="function defined with def"):
        nb.adjoint(math.sin)


def test_value_and_grad_needs_one_number():
    with pytest.raises(AttrError, match="use vjp"):
        nb.adjoint(made("y[0] = a")).value_and_grad(np.ones(4), np.ones(4), 2.0, 3)
