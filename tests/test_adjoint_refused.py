"""Code outside of the subset is refused, and the message says where, and what to write instead."""

import functools
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


def lists(p):
    q = [p]
    q.append(p)
    return q[0]


TABLE = np.arange(3.0)


def made(body, head="x, y, a, n", number=[0]):  # noqa: B006
    number[0] += 1
    source = f"def f({head}):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    filename = f"<refused {number[0]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace = {
        "np": np,
        "math": math,
        "NUMBERS": NUMBERS,
        "TABLE": TABLE,
        "TABLES": (TABLE, TABLE),
        "writes": writes,
        "lists": lists,
    }
    exec(compile(source, filename, "exec"), namespace)
    return namespace["f"]


AT_ONCE = {
    "return TABLE(a)": "a call of TABLE, which is no function",
    "return TABLES(a)": "a call of TABLES, which is no function",
    "return sum({v for v in x})": "SetComp is outside of the subset",
    "with open(a) as g:\n    pass\nreturn a": "leave it to the caller",
    "return {a} | {n}": "use an array",
    "return np.linalg.eig(y)[0]": "use solve, inv, det",
    "z = x.sort()\nreturn x[0]": "sort before",
    "for v in np.nditer(x):\n    a += v\nreturn a": "loop over np.ndindex",
    "return 1j * a": "a complex number in 'return 1j * a'; write the real and imaginary parts separately",
    "np.sin(a)\nreturn a": "an expression without effect",
    "(a, n)\nreturn a": "an expression without effect",
    "return len({a} & {n})": "use an array",
    "yield a": "a generator in 'yield a'; fill an array",
    "return absent(a)": "absent, which is not defined",
    "return missing.sin(a)": "missing, which is not defined",
    "return a if x is y else 2.0 * a": "use ==",
    "for b, *c in ((a, n),):\n    a += b\nreturn a": "write the items one by one",
    "global q\nq = a\nreturn a": "pass and return the value",
    "if n:\n    import math\nreturn a": "import at the beginning of the function",
    "@math.sin\ndef g(t):\n    return t\nreturn g(a)": "a decorator",
    "return np.eye(3, 3, 0, np.float64, 1)[0, 0] * a": "0 to 4 may be given",
}
AT_THE_CALL = {
    "return a if a > np.finfo(x.dtype).eps else 0.0": "name a type, as in np.finfo(np.float64)",
    "return x[[]].sum()": "an array as index",
    "return f'{a}'": "'{a}', as a result in",
    "return a if f'{n}' == '3' else n": "'{n}' where a number is expected",
    "return a if 'x' + str(n) in ('x1', 'x3') else n": "'in' of something other than a tuple of numbers",
    "c = 'a' if n > 1 else 'b'\nreturn a if c + 'x' == 'ax' else n": "'{c}x' where a number is expected",
    "c = f'{a}'\nreturn c * a": "a string with values in it, '{a}', as a number or array",
    "c = 'a' if a > 0 else 2\nreturn a": "values of different forms",
    "if a > 0:\n    c = 'a'\nelse:\n    c = 'b'\nreturn a if c + c == 'aa' else n": "perhaps None, or one of several",
    "c = 'a', a\nif a > 0:\n    c = 'b', a\nreturn c[1]": "the tuple or list c gets another form",
    "if a > 0:\n    x = 'a'\nreturn x[0]": "x becomes a string or function and was an array",
    "return x._replace(a=1.0)": "replace fields of a named tuple",
    "return x[::2].flat[0]": "take ravel() to read",
    "np.add.at(x, [0], a)\nreturn x[0]": "give a vector of indices",
    "return writes(*x)": "the number q where an array is expected",
    "return writes(**x)": "or the arguments one by one",
    "return f(x, y, a, n)": "f, which calls itself more than 64 deep",
    "return np.full(3)[0] * a": "give it fill_value",
    "return np.linspace(0.0)[0] * a": "give it start and stop",
    "return np.zeros(dtype=np.float64)[0] * a": "give it shape",
    "for t in range(n):\n    z = x * 2\n    v = z[1:]\n    x = z\n    v[0] = a\nreturn x[1]": "copy the other one",
    "for t in range(n):\n    z = x * 2\n    p = (z, a)\n    x = z\n    p[0][0] = a\nreturn x[0]": "copy the other one",
    "for t in range(n):\n    z = x * a\n    def g():\n        z[0] = 1.0\n    x = z\n    g()\nreturn x[0]": (
        "copy the other one"
    ),
    "return (b := a)": "assign in a statement of its own",
    "x[y] = a\nreturn a": "may be of floats",
    "x[0, 1] = a\nreturn a": "2 indices of an array with 1 axes",
    "for i in range(n):\n    b = np.eye(int(x[i]))\n    a += b[0, 0]\nreturn a": "whose size is not known before it",
    "if n > 1:\n    a = np.zeros(3)\nreturn a": "becomes an array and was something else",
    "b = np.zeros(3)\nif n > 1:\n    b = a\nreturn b": "becomes a number and was an array",
    "b = a, a\nfor i in range(n):\n    b = 1.0\nreturn b": "becomes a number and was an array or tuple",
    "b = a, a\nif a > 0:\n    b = a, a, a\nreturn b[0]": "gets another form",
    "b = np.zeros(3)\nfor i in range(n):\n    b = np.zeros((3, 3))\nreturn b": "another number of axes",
    "b = np.zeros(3, dtype=complex)\nreturn a": "use float64, float32, bool or an integer type",
    "m = n\nfor i in range(n):\n    m = m + 1\nb = np.arange(0, m, 1)\nreturn a": "give it a dtype",
    "return np.max(x, axis=1)": "the axis in",
    "return absent * a": "absent, which is not defined",
    "NUMBERS[0] = a\nreturn NUMBERS[0]": "NUMBERS",
    "TABLE[0] = a\nreturn a": "an array from outside that is written",
    "if a > 0:\n    return a\nreturn a, a * 2": "returns of different form",
    "if a > 0:\n    return x\nreturn a": "returns of different form",
    "a, n = 1.0, 2, 3\nreturn a": "assign the values one by one",
    "x, y = y, y\nx[0] = a\nreturn a": "a, b = b, a",
    "return x.strides[0] * a": "use shape, size, ndim or T",
    "b = x[0] + writes(x, y)\nreturn b": "assign its result to a name first",
    "b = x if n > 1 else y\nb[0] = a\nreturn b[0]": "copy them: a.copy() if c else b.copy()",
    "b = x if n > 1 else y\nx[0] = a\nreturn b[0]": "a name for one array or another",
    "return (x if n > 1 else a) * 2": "numbers, or arrays with as many axes",
    "return x.shape < y.shape": "compare their items",
    "b = (a, x)\nreturn b[n]": "use an array",
    "best, k = min((x[i], i) for i in range(n))\nreturn best * k": "of a minimum, as if d < best: best, at = d, i",
    "return min(x, default=1.0)": "pass them by position, or write a loop",
    "if a in (x, x):\n    a = 1.0\nreturn a": "'in' of something other than a tuple of numbers",
    "return x and y": "write & and |",
    "a = x[0] and x[1]\nreturn a": "and, or of floats",
    "return a & n": "use integers",
    "return max(np.outer(x, y))": "use NumPy's function",
    "return np.array([[a, a], [a]])[0, 0]": "use rows of one length",
    "return np.outer(x, a)[0, 0]": "where an array is expected",
    "y[a] = 1.0\nreturn x[0]": "the float a where an integer is expected in 'y[a] = 1.0'; pass an integer",
    "for i in range(1, n, a):\n    y[i] = 0.0\nreturn x[0]": "the float a where an integer is expected",
    "w = np.zeros(4, np.int64)\nif n > 1:\n    w = x * a\nw[0] = a\nreturn a": "of integers here and of floats there",
    "w = np.array([1, 2, 3, 4])\nfor i in range(n):\n    w = w[::-1] * x\nreturn w[0]": "w gets elements of another",
    "m = x > 1\nreturn x[m[0]]": "the truth value m[0] where an integer is expected in 'return x[m[0]]'",
    "return x[n / 2]": "the float n / 2 where an integer is expected in 'return x[n / 2]'",
    # Names for arrays.
    "r = np.zeros(4)\nif n > 1:\n    r = y\nr[0] = a\nreturn r[0]": "another array under the name r",
    "r = x[1:]\nfor i in range(n):\n    r[0] = a\n    r = x[2:]\nreturn a": "a write to an array that r stands for",
    "def g(p):\n    for i in range(n):\n        p[0] = a\n        p = p * 2\n    return p[0]\nreturn g(x)": (
        "a write to an array that p stands for, too (elsewhere, p is bound to other arrays)"
    ),
    "d = np.zeros(4)\nfor i in range(n):\n    d = x\n    d[0] = a\nreturn d[0]": "write d[:] = ...",
    "def g(p, q):\n    for i in range(n):\n        p[0] += a\n        q = q * p[0]\n    return q[0]\nreturn g(x, x)": (
        "one array as q and p, which is written"
    ),
    "if n > 1:\n    g = math.sin\nelse:\n    g = math.cos\nreturn g(a)": "function or type g, which may be another one",
}  # fmt: skip


@pytest.mark.parametrize("name", ["TABLE", "TABLES"])
def test_local_functions_hide_names_of_the_module(name):
    body = f"def {name}(v):\n    return v * v\nreturn {name}(a)"
    assert nb.adjoint(made(body), argnums=2).value_and_grad(np.ones(2), np.ones(2), 3.0, 1) == (9.0, 6.0)


@pytest.mark.parametrize("body", AT_ONCE)
def test_refused_when_adjoint_is_called(body):
    for transform in (nb.adjoint, nb.tangent):
        with pytest.raises(TraceError, match=r"line \d+") as caught:
            transform(made(body))
        assert "<refused" in str(caught.value) or "lists" in body
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
    with pytest.raises(TraceError, match=r"a tuple in x\[i\] \* x\[i\] \* a"):
        adj.value_and_grad(x, np.ones(4), (2.0, 1.0), 3)
    with pytest.raises(TraceError, match=r"a, which is the string '2', as a number or array"):
        adj.value_and_grad(x, np.ones(4), "2", 3)
    with pytest.raises(DTypeError, match=r"only floats"):
        nb.adjoint(made(SQUARES), argnums=3).value_and_grad(x, np.ones(4), 2.0, 3)
    with pytest.raises(TraceError, match=r"the float n where an integer is expected in 'for i in range\(n\):'"):
        adj.value_and_grad(x, np.ones(4), 2.0, 3.0)
    with pytest.raises(DTypeError, match=r"argument x is a MaskedArray \(pass its data"):
        adj.value_and_grad(np.ma.array(x, mask=x > 2.0), np.ones(4), 2.0, 3)
    with pytest.raises(AttrError, match=r"make a call first"):
        adj.source  # noqa: B018


def test_cotangents():
    pull = nb.adjoint(made(SQUARES)).vjp(np.ones(4), np.zeros(4), 2.0, 3)
    assert pull.outputs == ("s", "y")
    with pytest.raises(AttrError, match=r"2 cotangents expected \(s, y\), 1 given"):
        pull(1.0)
    with pytest.raises(NBGradError, match=r"y has shape \(4,\)"):
        pull((1.0, np.ones(3)))
    for wrong in ("1", 1j, np.array([None])):
        with pytest.raises(DTypeError, match="s takes real numbers, what was given for it is"):
            pull((wrong, np.ones(4)))
    with pytest.raises(DTypeError, match="y takes real numbers"):
        pull((1.0, 1j * np.ones(4)))
    for wrong in (np.ones(1), [1.0]):
        with pytest.raises(NBGradError, match=r"s is a number, what was given for it has shape \(1,\)"):
            pull((wrong, np.ones(4)))
    np.testing.assert_array_equal(pull((1.0, None))[0], [4.0, 4.0, 4.0, 0.0])


def twice(f, x):
    return f(f(x))


def test_lambdas_are_read_where_they_stand():
    scale = 3.0
    square, cube = lambda x: scale * x**2, lambda x: x**3  # fmt: skip
    nested, wide = lambda x: twice(lambda y: y * x, x), (
        lambda x, n=2: math.sin(x)
        * n
    )  # fmt: skip
    for f, slope in ((square, 12.0), (cube, 12.0), (nested, 12.0), (wide, 2.0 * math.cos(2.0))):
        assert nb.adjoint(f, 0).value_and_grad(2.0)[1] == pytest.approx(slope)
    with pytest.raises(TraceError, match=r"test_adjoint_refused.py, line \d+: .*eigvals"):
        nb.adjoint(lambda x: np.linalg.eigvals(x))


def test_a_lambda_without_source_and_a_builtin():
    with pytest.raises(TraceError, match="cannot be read"):
        nb.adjoint(eval("lambda x: x"))
    with pytest.raises(TraceError, match="function defined with def"):
        nb.adjoint(math.sin)


def test_value_and_grad_needs_one_number():
    with pytest.raises(AttrError, match="use vjp"):
        nb.adjoint(made("y[0] = a")).value_and_grad(np.ones(4), np.ones(4), 2.0, 3)


class Model:
    def method(self, x):
        return x * x


async def coroutine(x):
    return x * x


def test_what_is_no_function():
    for f, message in ((Model().method, "pass what it reads of self as arguments"), (coroutine, "is async"),
                       (functools.partial(writes, q=1), "write a def that calls it"), (Model, "write a function of"),
                       (np.ones(2), "expected")):  # fmt: skip
        with pytest.raises(TraceError, match=message):
            nb.adjoint(f)


def test_arrays_that_cannot_be_taken():
    adj = nb.adjoint(made(SQUARES))
    x, y = np.ones(4), np.ones(4)
    adj.value_and_grad(x, y, 2.0, 3)
    y.flags.writeable = False
    for call in (adj.value_and_grad, adj.vjp):
        with pytest.raises(AttrError, match=r"the array y is read-only, and y is written; pass y\.copy"):
            call(x, y, 2.0, 3)
    itself = np.lib.stride_tricks.as_strided(np.ones(5), (4,), (0,))
    with pytest.raises(AttrError, match=r"elements of y share memory, and y is written; pass y\.copy"):
        adj.value_and_grad(x, itself, 2.0, 3)
    for wrong, hint in ((np.array(1.0), r"pass x\[\(\)\]"), (nb.nd.array(x), "asnumpy")):
        with pytest.raises(DTypeError, match=hint):
            adj.value_and_grad(wrong, y, 2.0, 3)
    for wrong in ("x", 1.5, True, (0, None)):
        with pytest.raises(AttrError, match=r"argnums=.*; a number or a tuple of numbers"):
            nb.adjoint(made(SQUARES), argnums=wrong)
    for twice in ((0, 0), (0, 2, -4)):
        with pytest.raises(AttrError, match="has x twice; give each argument once"):
            nb.tangent(made(SQUARES), argnums=twice).jvp((x, y, 2.0, 3), (x, x))
    for wrong in (np.float16(2.0), np.longdouble(2.0)):
        with pytest.raises(DTypeError, match=f"argument a is a {type(wrong).__name__}"):
            adj.value_and_grad(x, y, wrong, 3)
    for wrong in ({"checkpoint": True}, {"checkpoint": 0}, {"checkpoint": "auto", "memory": -1},
                  {"checkpoint": 2, "memory": 100}, {"checkpoint": "auto", "memory": "1G"}):  # fmt: skip
        with pytest.raises(AttrError, match=r"checkpoint must be a number|memory is a number of bytes"):
            nb.adjoint(made(SQUARES), **wrong)
    for call in (lambda: adj.hvp(x, (x,)), lambda: nb.tangent(made(SQUARES)).jvp(x, (x,))):
        with pytest.raises(AttrError, match="args is the tuple of the function's arguments, ndarray was given"):
            call()


BEFORE = """
K = 2.0

def helper(x):
    return x ** 2

def f(x):
    s = 0.0
    for i in range(x.size):
        s += helper(x[i])
    return s
"""


@pytest.mark.parametrize(
    "edit", [("** 2", "** 3"), ("s += ", "s -= "), ("s = 0.0", "s = 7.0"), ("K = 2.0", "K = 2.0\n"), ("size", "ndim")]
)
@pytest.mark.parametrize("what", [nb.adjoint, nb.tangent, nb.primitive])
def test_an_edited_source_is_not_that_of_the_function(tmp_path, what, edit):
    """Otherwise the edited source would be differentiated instead of the function in memory."""
    file = tmp_path / "edited.py"
    file.write_text(BEFORE)
    namespace = {}
    exec(compile(BEFORE, str(file), "exec"), namespace)
    f, x = namespace["f"], np.array([1.0, 2.0])

    def differentiated():
        made = what(f)
        if what is nb.adjoint:
            return made.value_and_grad(x)[1][0]
        return made.jvp((x,), (np.ones(2),))[1] if what is nb.tangent else nb.grad(made)(x)

    assert np.sum(differentiated()) == 6.0
    file.write_text(BEFORE.replace(*edit))
    with pytest.raises(NBGradError, match="has changed since it was defined"):
        differentiated()
    exec(compile(BEFORE.replace(*edit), str(file), "exec"), namespace)
    f = namespace["f"]
    differentiated()


def test_integers_to_negative_powers_are_refused():
    """Numba would give 0."""

    def series(x):
        total = 0.0
        for i in range(1, 4):
            total += x * i**-2
        return total

    def scaled(x, n):
        return x * (10**n if n != 1 else 5.0) + (0.0 if n < 0 or 2**n > 3 else 1.0)

    for transform in (nb.adjoint, nb.tangent):
        with pytest.raises(TraceError, match=r"to a negative power in 'total \+= x \* i\*\*-2'; write float"):
            transform(series)._generated((2.0,))
    adj = nb.adjoint(scaled)
    assert [adj.value_and_grad(2.0, n)[0] for n in (0, 1, 2)] == [scaled(2.0, n) for n in (0, 1, 2)]
    with pytest.raises(ValueError, match=r"line \d+: an integer to a negative power in 'return x"):
        adj.value_and_grad(2.0, -3)
    with pytest.raises(ValueError, match="an integer to a negative power"):
        nb.primitive(scaled)(nb.nd.array(2.0), -3)


def test_floats_added_in_place_to_arrays_of_integers_are_refused():
    """NumPy refuses them, too; assignments to single elements truncate, in NumPy and in adjoints."""

    def drift(v, f):
        v += 0.5 * f
        return np.sum(v * v)

    def made_inside(x):
        v = np.array([1, 2, 3])
        v /= 2
        return np.sum(v * x)

    def element(v, f):
        v[0] += 1.5 * f[0]
        return v[0] * f[1]

    f = np.array([10.0, 20.0, 30.0])
    for function, args in ((drift, (np.zeros(3, int), f)), (made_inside, (f,))):
        with pytest.raises(TraceError, match="an array of integers that floats are added to in place"):
            nb.adjoint(function).value_and_grad(*args)
    assert nb.adjoint(drift).value_and_grad(np.zeros(3), f)[0] == 350.0
    assert nb.adjoint(element).value_and_grad(np.zeros(3, int), f)[0] == 300.0


def test_arrays_of_unsigned_integers_of_64_bits_are_refused():
    def edges(image, x):
        return np.sum((image[1:] - image[:-1]) * x)

    image = np.array([10, 250, 5, 7], np.uint64)
    with pytest.raises(DTypeError, match=r"argument image is a uint64 array .*pass image\.astype\(int\)"):
        nb.adjoint(edges).value_and_grad(image, 2.0)
    assert nb.adjoint(edges).value_and_grad(image.astype(int), 2.0)[0] == -6.0


UNSET = {
    "b = z * a\nz = a\nreturn b": "z",
    "b += a\nreturn b": "b",
    "z[0] = a\nz = np.zeros(3)\nreturn z[0]": "z",
    "if a > 0:\n    b = z * a\nz = a\nreturn z": "z",
    "for i in range(n):\n    a += b\nb = a\nreturn a": "b",
    "while b < n:\n    a += 1.0\nb = a\nreturn a": "b",
    "while b < n:\n    b = a\nreturn b": "b",
    "b = [v * z for v in x]\nz = 2.0\nreturn a": "z",
    "b = lambda v=z: v\nz = a\nreturn b()": "z",
    "try:\n    b = z / a\nexcept ZeroDivisionError:\n    b = 0.0\nz = b\nreturn z": "z",
    "b = (z, a)\nz: float = a\nreturn b[1]": "z",
    "if False:\n    b = 2.0\nfor i in range(n):\n    a += b\nreturn a": "b",  # what constants rule out
    "for _ in ():\n    b = 2.0\nreturn a * b": "b",
    "def g(m):\n    if m == 1:\n        b = a\n    return b\nreturn g(1) + g(2)": "b",
}

SET = [
    "b = (lambda v: v * z)\nz = a\nreturn b(a)",
    "def g(v):\n    return v * z\nz = a\nreturn g(a)",
    "for i in range(n + 1):\n    if i > 0:\n        a += b\n    b = 2.0\nreturn a",
    "for i in range(n + 2):\n    if i % 2:\n        a += b * a\n    b = a * x[0]\nreturn a",
    "if (m := a * 2) > 1:\n    return m * a\nreturn m",
    "if a > 0:\n    z = a\nelse:\n    z = -a\nreturn z * z",
    "try:\n    z = 1 / a\nexcept ZeroDivisionError:\n    z = 0.0\nreturn z * a * a",
    "z = [v * w for v in x for w in y]\nw = z[0]\nreturn w * a",
    "z: float\nz = a\nreturn z",
]


@pytest.mark.parametrize("body", UNSET)
def test_names_that_nothing_has_set(body):
    """Python raises an UnboundLocalError there on every path that reads them."""
    with pytest.raises(TraceError, match=f": {UNSET[body]}, which nothing has set before it is read in"):
        nb.adjoint(made(body)).value_and_grad(np.ones(3), np.ones(3), 2.0, 2)


@pytest.mark.parametrize("body", SET)
def test_names_that_a_path_has_set(body):
    f = made(body)
    expected = (f(np.ones(3), np.ones(3), 2 + 1e-6, 2) - f(np.ones(3), np.ones(3), 2 - 1e-6, 2)) / 2e-6
    assert nb.adjoint(f).value_and_grad(np.ones(3), np.ones(3), 2.0, 2)[1][2] == pytest.approx(expected, 1e-7)


@pytest.mark.parametrize("use", ["b.sum()", "b[0]", "np.outer(b, x)[0, 0]", "(b + x)[0]"])
def test_arrays_that_an_earlier_iteration_sets(use):
    f = made(f"for i in range(n):\n    if i > 0:\n        a += {use}\n    b = x * a\nreturn a")
    with pytest.raises(TraceError, match=r"b where an array is expected, which .* set it before the loop, too"):
        nb.adjoint(f).value_and_grad(np.ones(3), np.ones(3), 2.0, 2)


def begins_anew(x, y, a, n):
    for i in range(n + 1):
        if i > 0:
            b = x * a + 0.5 * b  # noqa: F821
        else:
            b = x.copy()
    return b.sum() * a


def from_zeros(x, y, a, n):
    for i in range(n):
        if i > 0:
            b = b + x  # noqa: F821
        else:
            b = np.zeros(3)
        a += b[0] * a
    return a


def in_an_elif(x, y, a, n):
    for i in range(n):
        if i > 0 and a > 0:
            b = b * a  # noqa: F821
            c = b + c  # noqa: F821
        elif i == 0:
            b = a
            c = x * a
    return c.sum() + b


def with_a_jump(x, y, a, n):
    for i in range(n):
        if i > 0:
            if a > 9:
                break
            a += b[0]  # noqa: F821
        else:
            b = x * a  # noqa: F841
    return a


@pytest.mark.parametrize("f", [begins_anew, from_zeros, in_an_elif, with_a_jump])
def test_arrays_that_the_other_branch_sets_first(f):
    """The branch that sets them is put first."""
    value, (_, _, slope, _) = nb.adjoint(f).value_and_grad(np.ones(3), np.ones(3), 2.0, 2)
    assert value == pytest.approx(f(np.ones(3), np.ones(3), 2.0, 2))
    expected = (f(np.ones(3), np.ones(3), 2 + 1e-6, 2) - f(np.ones(3), np.ones(3), 2 - 1e-6, 2)) / 2e-6
    assert slope == pytest.approx(expected, 1e-7)
