"""Values, names and lines of users in source text of ours."""

import ast
import keyword
import math
import os
import struct
from decimal import Decimal
from enum import IntEnum, IntFlag
from fractions import Fraction

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_programs import plain_module, uncompiled
from random_loops import function

import nbgrad as nb
from nbgrad import nd
from nbgrad.core.source_text import comment_source, constant_source, file_lines, identifier, lines_of
from nbgrad.errors import DTypeError, TraceError
from nbgrad.loops import differentiable_operator

EXAMPLES = int(os.environ.get("NBGRAD_EXAMPLES", "60"))
X = np.array([0.75, -1.5, 2.0])


class Level(IntEnum):
    LOW = 2


class Flags(IntFlag):
    A = 4
    B = 8


class Said:
    """Numbers that say something else of themselves."""

    def __repr__(self):
        return "import os\"\n'"

    __str__ = __format__ = lambda self, *spec: repr(self)


class Whole(Said, int):
    def __int__(self):
        return 7


class Real(Said, float):
    def __float__(self):
        return 7.0


class Text(Said, str):
    pass


INTEGERS = st.one_of(
    st.integers(-(1 << 62), 1 << 62),
    st.sampled_from([Level.LOW, Flags.A | Flags.B, -(1 << 63), (1 << 63) - 1]),
    st.integers(-9, 9).map(Whole),
    st.sampled_from([np.int8, np.int32, np.int64, np.uint8, np.uint64]).flatmap(lambda t: st.integers(0, 99).map(t)),
)
FLOATS = st.one_of(
    st.floats(),
    st.floats().map(Real),
    st.floats().map(np.float64),
    st.floats(width=32).map(np.float32),
    st.floats(width=16).map(np.float16),
)
NUMBERS = st.one_of(st.booleans(), st.booleans().map(np.bool_), INTEGERS, FLOATS)
DTYPES = st.sampled_from(["f4", "f8", ">f8", "i4", "i8", "u1", "bool"])
ARRAYS = st.tuples(DTYPES, st.sampled_from([(3,), (1,), (0,), (2, 2), (2, 0), (1, 2, 1)]), st.integers(0, 99)).map(
    lambda given: np.random.default_rng(given[2]).choice([0.0, 1.0, 2.0], given[1]).astype(given[0])
)
SPECIAL = np.array([math.inf, -math.inf, math.nan, -0.0, 5e-324])


def value_of(number):
    """The number as Python's own, whatever a class made of it says."""
    number = number.item() if isinstance(number, np.generic) else number
    for kind, plain in (
        (bool, bool),
        (int, int.__index__),
        (float, lambda x: struct.unpack("d", struct.pack("d", x))[0]),
    ):
        if isinstance(number, kind):
            return float.fromhex(float.hex(number)) if kind is float and number == number else plain(number)
    return number


def same(found, expected):
    if isinstance(expected, np.ndarray):
        return found.dtype == expected.dtype.newbyteorder("=") and np.array_equal(
            found, expected, equal_nan=found.dtype.kind == "f"
        )
    if isinstance(expected, tuple | list):
        return type(found) is type(expected) and len(found) == len(expected) and all(map(same, found, expected))
    expected = value_of(expected)
    return type(found) is type(expected) and (
        found == expected and math.copysign(1.0, found) == math.copysign(1.0, expected)
        if found == found
        else expected != expected
    )


@settings(max_examples=10 * EXAMPLES, deadline=None)
@given(value=st.recursive(st.one_of(NUMBERS, st.integers(), ARRAYS), lambda inner: st.lists(inner).map(tuple)))
def test_text_of_a_constant_gives_its_value(value):
    text = constant_source(value)
    assert same(eval(text, {"np": np, "__builtins__": {}}), value), text
    assert isinstance(ast.parse(text, mode="eval"), ast.Expression) and "\n" not in text


@settings(max_examples=5 * EXAMPLES, deadline=None)
@given(text=st.text(), number=st.complex_numbers())
def test_texts_and_complex_numbers(text, number):
    for given_text in (text, Text(text)):
        assert ast.literal_eval(constant_source(given_text)) == text
        assert not set(constant_source(given_text)) & set("\n\r\0\u2028\u2029\x85\x0c\x0b")
    found = eval(constant_source(number), {"np": np, "complex": complex, "__builtins__": {}})
    assert same((found.real, found.imag), (number.real, number.imag))
    assert constant_source(10**5000) == hex(10**5000) and constant_source(None) == "None"
    assert constant_source({"b", "a"}) == "{'a', 'b'}"


@pytest.mark.parametrize(
    "value", [Decimal(1), Fraction(1, 2), object(), np.longdouble(1), np.timedelta64(1), b"", [{}]]
)
def test_what_has_no_text_is_refused(value):
    with pytest.raises(DTypeError, match="cannot be a constant of generated code"):
        constant_source(value)


NAMES = st.one_of(
    st.text(),
    st.sampled_from(
        [*keyword.kwlist, "<lambda>", 'a"b', "a\nb", "2x", "é", "ﬁ", "²", "a\u2028b", "\ud800", "np", "match"]
    ),
)


@settings(max_examples=10 * EXAMPLES, deadline=None)
@given(name=NAMES, taken=st.sets(st.sampled_from(["function", "class_", "np", "a_b", "_"])))
def test_identifiers(name, taken):
    made = identifier(name, taken)
    assert made.isidentifier() and not keyword.iskeyword(made) and made not in taken
    names = {}
    exec(f"def {made}():\n    return 3\n", names)
    assert names[made]() == 3
    if name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and name not in taken:
        assert made == name


@settings(max_examples=10 * EXAMPLES, deadline=None)
@given(
    text=st.text(st.one_of(st.characters(), st.sampled_from("\n\r\0\t\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\\#'\"{}")))
)
def test_comments_end_nowhere(text):
    made = comment_source(text)
    assert made.splitlines() == [made]
    names = {}
    exec(compile(f"a = 1 {made}\nb = 2 {made}", "text", "exec"), names)
    assert (names["a"], names["b"]) == (1, 2)


@settings(max_examples=5 * EXAMPLES, deadline=None)
@given(
    parts=st.lists(st.sampled_from(["x = 1", "\n", "\r\n", "\r", "\x0c", "\x0b", "\x85", "\u2028", "#", "'\u2029'"]))
)
def test_lines_are_those_of_python(parts):
    text = "".join(parts)
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    lines = lines_of(text)
    assert all("x = 1" in lines[s.lineno - 1] or "'" in lines[s.lineno - 1] for s in tree.body)
    assert [f"{line}\n" for line in lines] == file_lines(text)


# The same in what is differentiated and compiled.


@pytest.fixture
def run_by_python():
    def plain(name, source, tapes=()):
        return plain_module(name, source, tapes)

    with uncompiled(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(differentiable_operator, "module", plain)
        yield


PLACES = {
    "global": ("def f(x):\n    return np.sum(x * K)\n", ()),
    "attribute": ("def f(x):\n    return np.sum(x * box.K)\n", ()),
    "called": ("def f(x):\n    return np.sum(g(x))\n", ()),
    "default of what is called": ("def f(x):\n    return np.sum(h(x))\n", ()),
    "in a tuple": ("def f(x):\n    a, b = pair\n    return np.sum(x * a) + b\n", ()),
    "in a tuple of tuples": ("def f(x):\n    return np.sum(x * nested[1][0])\n", ()),
    "factor of neighbours": (
        "def f(x):\n    total = 0.0\n    for i in range(1, x.size):\n        total += K * (x[i] - x[i - 1]) ** 2\n"
        "    return total\n", ()),
    "decides": ("def f(x):\n    y = x * 2.0\n    if K > 1:\n        y = x * 3.0\n    return np.sum(y)\n", ()),
}  # fmt: skip


def made(source, value):
    box = type("Box", (), {"K": value})
    names = {"K": value, "box": box, "pair": (value, 2.5), "nested": ((1, 2), (value, True)), "value": value}
    names["g"] = function("def g(y):\n    return y * K\n", names, name="g")
    names["h"] = function("def h(y, k=value):\n    return y * k\n", names, name="h")
    return function(source, names)


def slope(f, x, h=0.25):
    """Differences, which are exact for polynomials of degree 2."""
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(x.size)])


def close(found, expected, k):
    with np.errstate(all="ignore"):
        if not math.isfinite(k) or abs(k) > 1e100:
            return True
        return np.allclose(found, expected, rtol=1e-9, atol=1e-9 * max(1.0, abs(float(k))))


@settings(max_examples=2 * EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=NUMBERS, place=st.sampled_from(list(PLACES)))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_constants_of_loops(run_by_python, value, place):
    f = made(PLACES[place][0], value)
    adj = nb.adjoint(f)
    found, (gradient,) = adj.value_and_grad(X)
    k = value_of(value)
    g = made(PLACES[place][0], k)
    np.testing.assert_array_equal(found, g(X), err_msg=adj.source)
    if place not in ("factor of neighbours", "decides"):
        np.testing.assert_array_equal(gradient, np.full(3, float(k)), err_msg=adj.source)
    assert close(gradient, slope(g, X), k)
    np.testing.assert_array_equal(adj.vjp(X)(1.0)[0], gradient)
    value, along = nb.tangent(f).jvp((X,), (np.ones(3),))
    np.testing.assert_array_equal(value, found)
    assert close(along, np.sum(slope(g, X)), k)
    assert close(nb.grad(lambda x: nb.primitive(f)(x))(X), slope(g, X), k)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    array=st.one_of(
        ARRAYS.filter(lambda a: a.shape == (3,)), st.permutations(list(SPECIAL)).map(lambda p: np.array(p[:3]))
    ),
    kind=st.sampled_from([np.asarray, lambda a: tuple(a.tolist()), tuple]),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_constant_arrays_of_loops(run_by_python, array, kind):
    body = "total = 0.0\n    for i in range(3):\n        total += x[i] * K[i]\n    return total + K[-1]"
    f = function(f"def f(x):\n    {body}\n", {"K": kind(array)})
    found, (gradient,) = nb.adjoint(f).value_and_grad(X)
    np.testing.assert_array_equal(found, f(X))
    np.testing.assert_array_equal(gradient, np.asarray(array, float))


REFUSED = [
    (1 << 63, "an integer of more than 64 bits"),
    (-(1 << 63) - 1, "an integer of more than 64 bits"),
    (10**5000, "an integer of more than 64 bits"),
    (np.uint64((1 << 64) - 1), "an integer of more than 64 bits"),
    (1 + 2j, "a complex number"),
    (np.complex64(complex(math.inf, math.nan)), "a complex number"),
    (Fraction(1, 3), "a number of the type Fraction"),
    (Decimal("0.1"), "a number of the type Decimal"),
    (np.longdouble(1), "a number of the type longdouble"),
    (np.timedelta64(1), "a number of the type timedelta64"),
    (np.ones(3, np.float16), "an array of float16"),
    (np.ones(3, np.longdouble), "an array of float128|an array of longdouble"),
    ("text", "not a variable, a number"),
    (b"text", "not a variable, a number"),
    (object(), "not a variable, a number"),
]


@pytest.mark.parametrize(("value", "text"), REFUSED, ids=range(len(REFUSED)))
def test_constants_that_are_refused(value, text):
    for place in ("global", "attribute", "called", "default of what is called", "in a tuple"):
        f = made(PLACES[place][0], value)
        with pytest.raises((TraceError, DTypeError), match="adjoint: <random loops"):
            nb.adjoint(f).value_and_grad(X)
        if place == "global":
            with pytest.raises(TraceError, match=f"K, {text}|K is {text}"):
                nb.adjoint(f).value_and_grad(X)
    for literal in ("1j", str(1 << 63)):
        with pytest.raises(TraceError, match=r"a complex number|more than 64 bits"):
            nb.adjoint(function(f"def f(x):\n    return x[0] * {literal}\n"))


def test_numbers_of_one_name_are_kept_apart():
    """0.0 and -0.0 are equal, as 1 and True are; nan is not equal to itself."""
    with uncompiled():
        for first, second in ((0.0, -0.0), (1, 1.0), (True, 1), (math.nan, math.nan), (-math.inf, math.inf)):
            inner = function("def inner(x):\n    return x * K\n", {"K": second}, name="inner")
            f = function("def f(x, y):\n    return y * K, inner(x)\n", {"K": first, "inner": inner})
            pull = nb.adjoint(f).vjp(1.5, 2.5)
            assert same(pull.value, f(1.5, 2.5)), pull.value
            np.testing.assert_array_equal((pull((1.0, 0.0))[1], pull((0.0, 1.0))[0]), (first, second))


def test_texts_from_outside_tell_branches():
    f = function("def f(x):\n    y = x * 2.0\n    if MODE == 'a\"\\n':\n        y = x * 3.0\n    return np.sum(y)\n",
                 {"MODE": 'a"\n'})  # fmt: skip
    with uncompiled():
        assert nb.adjoint(f).value_and_grad(X)[0] == f(X) == 3.75


BODY = """def f(x, n):
    total = 0.0
    for t in range(n):
        for i in range(1, x.size):
            x[i] = x[i] * x[i - 1]
        total += x[2]
    return total
"""


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=NAMES)
def test_names_of_functions(run_by_python, name):
    f = function(BODY)
    plainly, (expected, _) = nb.adjoint(f).value_and_grad(X.copy(), 3)
    f.__name__ = f.__qualname__ = name
    for adj in (nb.adjoint(f), nb.adjoint(f, checkpoint=2)):
        assert adj.value_and_grad(X.copy(), 3)[0] == plainly
        np.testing.assert_allclose(adj.vjp(X.copy(), 3)((1.0, None))[0], expected)
        assert isinstance(adj.report(X, 3), dict) and repr(adj)
    adj = nb.adjoint(f)
    product = adj.hvp((X, 3), (X, None), (1.0, None))[0]
    again = nb.adjoint(nb.tangent(f)).vjp(X.copy(), 3, X.copy())((0.0, 1.0, None, None))[0]
    np.testing.assert_allclose(product, again)
    np.testing.assert_allclose(nb.grad(lambda x: nb.primitive(f)(x, 3)[0])(X), expected)


@pytest.mark.parametrize(
    "name", ["f", *(f"f_{n}" for n in ("adjoint", "tangent", "forward", "backward", "budget", "vjp"))]
)
def test_constants_called_as_what_is_generated(run_by_python, name):
    f = function(BODY.replace("x[i - 1]", f"x[i - 1] * {name}"))
    f.__globals__[name] = 1.5
    plain = function(BODY.replace("x[i - 1]", "x[i - 1] * 1.5"))
    expected = nb.adjoint(plain).value_and_grad(X.copy(), 3)[1][0]
    for adj in (nb.adjoint(f), nb.adjoint(f, checkpoint=2)):
        np.testing.assert_allclose(adj.vjp(X.copy(), 3)((1.0, None))[0], expected)
        np.testing.assert_allclose(adj.value_and_grad(X.copy(), 3)[1][0], expected)
    np.testing.assert_allclose(nb.tangent(f).jvp((X, 3), (X, None))[1][0], X @ expected)
    np.testing.assert_allclose(nb.grad(lambda x: nb.primitive(f)(x, 3)[0])(X), expected)


@pytest.mark.parametrize("name", ["class", "np", "math", "plus", "<lambda>", "abs", "f", "f_adjoint"])
def test_names_of_primitives(name):
    def cube(x):
        return x * x * x

    def cube_vjp(g, y, x):
        return (g * 3 * x * x,)

    cube.__name__ = name
    op = nb.primitive(numba.njit(cube), numba.njit(cube_vjp))
    f = function(
        "def f(x):\n    y = 0.0\n    for i in range(3):\n        y += op(x[i]) + math.sqrt(abs(x[i])) + np.sin(x[i])\n"
        "    return y\n",
        {"op": op},
    )
    expected = 3 * X * X + 0.5 * np.sign(X) / np.sqrt(np.abs(X)) + np.cos(X)
    np.testing.assert_allclose(nb.adjoint(f).value_and_grad(X)[1][0], expected)
    np.testing.assert_allclose(nb.grad(lambda x: nb.primitive(f)(x))(X), expected)


@pytest.mark.parametrize("name", ["<lambda>", "class", 'a"b', "a\nb", "2", "", "np", "²", "a\u2028b", "\ud800", "x\0y"])
def test_names_of_compiled_functions(name):
    def f(x):
        return nd.sum(x * x)

    f.__name__ = f.__qualname__ = name
    for transformed in (nb.jit(f), nb.jit(nb.value_and_grad(f)), nb.jit(nb.grad(f))):
        transformed(X)
    assert nb.jit(f).njit(X)(X) == np.sum(X * X)
    double = nb.primitive(lambda x: 2 * x, lambda g, y, x: 2 * g)
    double.__name__ = double.name = name
    np.testing.assert_array_equal(nb.jit(nb.grad(lambda x: nd.sum(double(x))))(X), np.full(3, 2.0))


COMPILED = [math.inf, -math.inf, math.nan, -0.0, 5e-324, Level.LOW, Flags.A, Whole(3), Whole(4), Real(0.5), Real(2.5),
            True, np.float32(0.1), np.float64(math.inf), np.int8(3), np.bool_(True)]  # fmt: skip


@pytest.mark.parametrize("value", COMPILED, ids=range(len(COMPILED)))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_constants_of_compiled_functions(value):
    def f(x):
        return nd.sum(x * value)

    x = np.array([3.0, -1.0, 2.0])  # whole: of 5e-324, too, sums are exact in any order
    expected = f(nb.np.array(x)).item()
    np.testing.assert_array_equal(nb.jit(f)(x), expected)
    np.testing.assert_array_equal(nb.jit(f).njit(x)(x), expected)
    np.testing.assert_array_equal(nb.jit(nb.grad(f))(x), nb.grad(f)(x))


SEPARATORS = ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), indented=st.booleans())
def test_lines_with_odd_ends(run_by_python, data, indented):
    """In comments, texts and docstrings; form feeds between statements, too."""
    odd = st.text(st.sampled_from([*SEPARATORS, "a", " ", "#", "'", "\\"]), max_size=4)
    draw = data.draw
    lines = [f"{line}  # {draw(odd)} x" for line in BODY.splitlines()]
    text = draw(odd).replace("\\", "").replace('"', "")
    lines[1:1] = [f'    """{text}', f"less {text}", '"""', draw(st.sampled_from(["", "\x0c"])), f"    # {draw(odd)}"]
    lines.insert(6, f"    assert n > 0, '{text.replace(chr(39), '')}'")
    source = "\n".join(lines) + "\n"
    if indented:
        text = "\n".join(f"    {line}" if k not in (2, 3, 4) else line for k, line in enumerate(lines))
        source = f"if True:\n{text}\n"
    f = kept(source)
    expected, (gradient, _) = nb.adjoint(function(BODY)).value_and_grad(X.copy(), 3)
    adj = nb.adjoint(f)
    value, (found, _) = adj.value_and_grad(X.copy(), 3)
    assert value == expected
    np.testing.assert_array_equal(found, gradient)
    assert lines_of(adj.source) == adj.source.splitlines() + [""] * adj.source.endswith("\n")
    np.testing.assert_allclose(nb.adjoint(f, checkpoint=2).value_and_grad(X.copy(), 3)[1][0], gradient)
    adj.hvp((X, 3), (X, None), (1.0, None))
    with pytest.raises(TraceError, match=r"line \d+: .* in 'return total \+ 1j"):
        nb.adjoint(kept(source.replace("return total", "return total + 1j")))


def kept(source):
    f = function(source)
    import linecache

    linecache.cache[f.__code__.co_filename] = (len(source), None, file_lines(source), f.__code__.co_filename)
    return f
