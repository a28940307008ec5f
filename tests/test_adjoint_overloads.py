"""Functions with other bodies by ``numba.extending.overload``: the one that Numba would compile is differentiated."""

import numba
import numpy as np
import pytest
from loop_programs import copies, uncompiled
from numba import types
from numba.extending import intrinsic, overload

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.linspace(0.3, 0.9, 4)
M = np.array([[0.3, 0.5], [0.7, 0.2]])


def times(a, v):
    """Its own overload: as Python it returns a value, as Numba sees it, the function to compile."""
    compiled = not isinstance(a, np.ndarray)
    dtype = numba.np.numpy_support.as_dtype(a.dtype) if compiled else a.dtype

    def body(a, v):
        out = np.empty(a.shape, dtype=dtype)
        for i in range(a.size):
            out[i] = a[i] * v
        return out

    return body if compiled else body(a, v)


overload(times)(times)


def size(a, b=2.0):
    raise NotImplementedError("compiled code has other bodies for it")


@overload(size)
def choose_size(a, b=2.0):
    if isinstance(a, types.Array):
        if a.ndim == 2:
            return lambda a, b=2.0: a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0] * b

        def squares(a, b=2.0):
            s = 0.0
            for i in range(a.size):
                s += a[i] ** 2 * b
            return s

        return squares
    if isinstance(a, types.BaseTuple):
        return lambda a, b=2.0: a[0] * a[1] * b
    if isinstance(a, types.Integer):
        return lambda a, b=2.0: a * 10 * b
    if isinstance(a, types.Boolean | types.NoneType):
        return lambda a, b=2.0: b + 1.0
    if isinstance(a, types.UnicodeType):
        return lambda a, b=2.0: b if a == "one" else b * b
    return lambda a, b=2.0: a * a * b


def scale(a, s):
    pass


@overload(scale)
def choose_scale(a, s):
    def body(a, s):
        for i in range(a.size):
            a[i] *= s

    return body


def of_itself(x):
    return np.sum(times(x, 2.0) ** 2)


def by_types(x, m, n):
    numbers = size(x[1]) + size(n) + size(x[0] > 0.1, x[2]) + size(None, b=x[3])
    return numbers + size(x) + size(m, b=x[0]) + size((x[0], x[2]), 3.0) + size(x[1:] * 2)


def by_strings(x):
    return size("one", x[0]) + size("two", x[1])


def in_place(x, s):
    y = x.copy()
    scale(y, s)
    scale(x, y[0])
    return np.sum(x * y)


def in_a_loop(x, s):
    total = 0.0
    for i in range(1, x.size):
        total += size(x[:i], x[i]) * size(i) + size(times(x[i:], s))
    return total


@pytest.mark.parametrize(
    ("f", "args"),
    [(of_itself, (X,)), (by_types, (X, M, 3)), (by_strings, (X,)), (in_place, (X, 0.7)), (in_a_loop, (X, 0.7))],
)
def test_value_and_derivatives(f, args):
    """Python cannot run them: differences are of what Numba compiles."""
    compiled = numba.njit(f)
    with uncompiled():
        value, gradients = nb.adjoint(f).value_and_grad(*copies(args))
    np.testing.assert_allclose(value, compiled(*copies(args)), 1e-14)
    for i in range(X.size):
        ends = []
        for h in (1e-6, -1e-6):
            moved = copies(args)
            moved[0][i] += h
            ends.append(compiled(*moved))
        np.testing.assert_allclose(gradients[0][i], (ends[0] - ends[1]) / 2e-6, 1e-8, 1e-8)


def test_a_compiled_function_that_calls_one():
    value, (gradient,) = nb.adjoint(numba.njit(of_itself)).value_and_grad(X.copy())
    np.testing.assert_allclose([value, *gradient], [np.sum(4 * X**2), *(8 * X)], 1e-14)


def test_what_has_no_body_says_so():
    def nothing(a):
        pass

    def refuses(a):
        pass

    def renames(a):
        pass

    @overload(nothing)
    def choose_nothing(a):
        return None

    @overload(refuses)
    def choose_refuses(a):
        raise numba.errors.TypingError("only arrays")

    @overload(renames, strict=False)
    def choose_renames(a):
        return lambda b: b

    def by_layout(a):
        pass

    @overload(by_layout)
    def choose_by_layout(a):
        if a.layout == "C":
            return lambda a: a[0] * 2.0
        return lambda a: a[0]

    with pytest.raises(TraceError, match="by_layout, whose @overload depends on the layout"):
        nb.adjoint(lambda x: by_layout(x)).value_and_grad(X)

    def first(x):
        return nothing(x)

    def second(x):
        return refuses(x)

    def third(x):
        return renames(x)

    for f, message in (
        (first, "nothing, whose @overload has no body for these arguments .*by nb.primitive"),
        (second, "refuses, whose @overload raises TypingError: only arrays"),
        (third, r"renames, whose @overload has a body with other parameters \(a\)"),
    ):
        with pytest.raises(TraceError, match=message):
            nb.adjoint(f).value_and_grad(1.0)


def test_float32_and_functions_are_refused():
    def of_function(x):
        return size(np.sin)

    with pytest.raises(TraceError, match="size, which has an @overload, of x, whose type is not known"):
        nb.adjoint(lambda x: size(x)).value_and_grad(X.astype(np.float32))
    with pytest.raises(TraceError, match=r"size, which has an @overload, of np\.sin, whose type is not known"):
        nb.adjoint(of_function).value_and_grad(X)


def test_register_jitable_is_no_overload():
    @numba.extending.register_jitable
    def plain(a):
        return a * a

    def f(x):
        return np.sum(plain(x))

    value, (gradient,) = nb.adjoint(f).value_and_grad(X.astype(np.float32))
    np.testing.assert_allclose([value, *gradient], [np.sum(X**2), *(2 * X)], 1e-6)


def test_an_intrinsic_is_refused():
    @intrinsic
    def same(context, a):
        return a(a), lambda context, builder, signature, args: args[0]

    def f(x):
        return same(x)

    with pytest.raises(TraceError, match=r"same has no derivative here.*by nb\.primitive"):
        nb.adjoint(f).value_and_grad(1.0)


def by_constant(a, mode):
    pass


@overload(by_constant, prefer_literal=True)
def _by_constant(a, mode):
    if isinstance(mode, types.StringLiteral):
        return lambda a, mode: 2.0 * a
    return lambda a, mode: 3.0 * a


def by_width(x):
    pass


@overload(by_width)
def _by_width(x):
    small = x.dtype == types.float32
    return lambda x: np.sum(x) * (1e-4 if small else 1e-7)


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (lambda x: by_constant(x[0], "double"), "prefer_literal"),
        (lambda x: by_width(x.astype(np.float32)), "type is not known"),
        (lambda x: by_width(np.zeros(2, dtype=np.float32)), "type is not known"),
        (lambda x: by_width(x.astype(np.float32) * 2.0), "type is not known"),
    ],
)
def test_bodies_that_depend_on_more_than_is_known(f, what):
    with pytest.raises(TraceError, match=what):
        nb.adjoint(f).vjp(X)


def widened(x):
    pass


@overload(widened)
def _widened(x):
    if isinstance(x, types.Array):
        return lambda x: 2.0 * np.sum(x)
    if isinstance(x, types.Integer):
        return lambda x: 10.0 * x
    return lambda x: 7.0 * x


def accumulated(u, a):
    s = 0.0
    for _ in range(3):
        s = widened(s) * 0.1 + a
    return s + widened(3)


def reduced(u, a):
    z = u * a
    return widened(z) + widened(z[0]) + widened(np.sum(z)) + widened(np.max(z)) + widened(np.dot(u, z))


def elements(u, a):
    total = 0.0
    for i, v in enumerate(u):
        total += widened(v) * widened(i) + widened(len(u)) * a
    return widened(total)


def chosen_in_branches(u, a):
    y = 0.0
    if a > 0.5:
        y = u[0]
    else:
        y = a
    return widened(y)


def an_integer_first(u, a):
    k = 3
    k = k + 0.5
    return widened(k) * a


NUMBERS = [accumulated, reduced, elements, chosen_in_branches, an_integer_first]


@pytest.mark.parametrize("f", NUMBERS)
def test_kinds_of_numbers_choose_bodies(f):
    value, (_, to_a) = nb.adjoint(f).value_and_grad(X, 0.7)
    primal = numba.njit(f)
    assert value == pytest.approx(primal(X, 0.7))
    assert to_a == pytest.approx((primal(X, 0.7 + 1e-6) - primal(X, 0.7 - 1e-6)) / 2e-6, rel=1e-6)


def integers_that_may_be_floats(u, a):
    k = 1
    for _ in range(2):
        a += widened(k)
        k = k * a
    return a


def an_integer_after_a_float(u, a):
    y = a
    if a > 0:
        y = len(u)
        return widened(y) * a
    return y


def test_kinds_that_are_not_certain_are_refused():
    for f in (integers_that_may_be_floats, an_integer_after_a_float):
        with pytest.raises(TraceError, match="type is not known"):
            nb.adjoint(f).value_and_grad(X, 0.7)
