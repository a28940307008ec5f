"""Strings, None and functions in loops: they are known when code is generated, and decide what it is."""

import functools
import math
from collections import namedtuple
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.5, 1.2, -0.7, 2.0])
UNIT = "celsius"
RULES = ("mid", 2.0, math.sin)

Results = namedtuple("Results", "root function_calls iterations converged")
State = namedtuple("State", "x v kind", defaults=("spring",))


# Strings.


def modes(x, method, power=2):
    mode = "sum" if UNIT == "celsius" else "none"
    rule = method
    label = f"{mode} of {x.size} numbers"
    weight = 1.0
    if rule == "trapezoid" and mode in ("sum", "mean"):
        weight = 0.5
    elif rule != "midpoint":
        raise ValueError("unknown method " + rule)
    if x.size == 0:
        raise ValueError(label)
    total = 0.0 * power
    for i in range(x.size):
        total += weight * x[i] ** 2
        if UNIT == "celsius":
            total += math.sin(x[i])
    return total


def options(x, scale):
    chosen = ("square", scale, ("nested", None))
    kind, factor, (name, missing) = chosen
    total = 0.0
    for i in range(x.size):
        if chosen[0] == "square" and name == "nested" and missing is None:
            total += factor * x[i] ** 2
        else:
            total -= x[i]
        if RULES[0] == "mid":
            total += RULES[2](x[i]) * RULES[1]
    return total if kind == "square" else 0.0


def answers(x):
    def named(k):
        if k == 0:
            return "first", k
        return "first", k + 1

    name, k = named(0)
    total = 0.0
    for i in range(2):
        for f in (np.sin, np.cos, lambda v: v * v):
            total += f(x[i]) * f(x[i + 1])
    return total * (k + 1) if name == "first" else 0.0


def enclosing(x, mode):
    def inner(v):
        if mode == "twice":
            return 2 * v * v
        return v

    return inner(x[0]) + inner(x[1]) * inner(x[2])


def test_strings_decide_branches():
    for args in ((X, "trapezoid"), (X, "midpoint", 3)):
        check_derivatives(modes, *args, compiled=False)
    check_derivatives(options, X, 1.5, compiled=False)
    check_derivatives(answers, X, compiled=False)
    check_derivatives(enclosing, X, "twice")
    with pytest.raises(ValueError, match=r"unknown method \{rule\}"):
        nb.adjoint(modes).value_and_grad(X, "rectangle")
    with pytest.raises(ValueError, match=r"of \{x.size\} numbers"):
        nb.adjoint(modes).value_and_grad(X[:0], "midpoint")


def complaints(x, n):
    if n < 0:
        raise ValueError("n is %d, and must not be negative" % n)  # noqa: UP031
    message = "the sum of {} is negative".format(x.size)  # noqa: UP032
    assert x.sum() > 0, message
    if n > 5:
        raise RuntimeError("n is " + str(n) + f" and not {5}")
    return x.sum() * n


def test_messages_show_what_was_written():
    for x, n, error, text in (
        (X, -1, ValueError, "n is %d, and must"),
        (-X, 1, AssertionError, "the sum of {} is"),
        (X, 7, RuntimeError, r"n is \{n\} and not \{5\}"),
    ):
        with pytest.raises(error, match=text):
            nb.adjoint(complaints).value_and_grad(x, n)
    check_derivatives(complaints, X, 3, compiled=False)


# Named tuples.


@numba.njit
def cubic(x, c):
    return x**3 - c


@numba.njit
def slope_of_cubic(x, c):
    return 3 * x**2


@numba.njit
def results_of(r):
    x, calls, iterations, flag = r
    return Results(x, calls, iterations, flag == 0)


@numba.njit
def newton(func, x0, fprime, args=(), tol=1.48e-8, maxiter=50, disp=True):
    if tol <= 0:
        raise ValueError("tol is too small <= 0")
    p0 = 1.0 * x0
    calls = 0
    status = -1
    for itr in range(maxiter):
        fval = func(p0, *args)
        calls += 1
        if fval == 0:
            status = 0
            p = p0
            itr -= 1
            break
        fder = fprime(p0, *args)
        calls += 1
        p = p0 - fval / fder
        if abs(p - p0) < tol:
            status = 0
            break
        p0 = p
    if disp and status == -1:
        msg = "Failed to converge"
        raise RuntimeError(msg)
    return results_of((p, calls, itr + 1, status))


def root_of(c):
    return newton(cubic, 1.0, slope_of_cubic, (c,)).root


def roots(c, x0, n):
    total = 0.0
    for k in range(n):
        r = newton(cubic, x0, slope_of_cubic, args=(c + k,), disp=False)
        if r.converged:
            total += r.root * (r.iterations > 0)
    return total


def oscillator(s, k):
    for _ in range(4):
        s = s._replace(x=s.x + 0.1 * s.v, v=s.v - 0.1 * k * s.x)
        if s.kind == "spring":
            s = State(s.x, v=s.v * 0.99)
    return s.x * s[1]


def test_root_finders_return_named_tuples():
    check_derivatives(root_of, 2.0, second=False)
    check_derivatives(roots, 2.0, 1.0, 3, second=False)
    assert nb.adjoint(root_of).value_and_grad(2.0)[1][0] == pytest.approx(2.0 ** (-2 / 3) / 3)
    with pytest.raises(RuntimeError, match="Failed to converge"):
        nb.adjoint(root_of).value_and_grad(float("nan"))


def test_fields_are_replaced():
    check_derivatives(oscillator, State(1.0, 0.3), 1.7, compiled=False)
    check_derivatives(oscillator, State(1.0, 0.3, "free"), 1.7, compiled=False)
    _, (s, k) = nb.adjoint(oscillator).value_and_grad(State(1.0, 0.3), 1.7)
    assert isinstance(s, State) and s.kind is None and k != 0


# Results of different form.


def moments(x, full=False):
    m = x.mean()
    if full:
        return m, ((x - m) ** 2).mean()
    return m


def both_forms(x):
    m, v = moments(x, True)
    return m * v + moments(x) ** 2


def test_a_constant_decides_the_form_of_results():
    check_derivatives(both_forms, X, compiled=False)
    assert nb.adjoint(moments).value_and_grad(X)[0] == X.mean()
    _, gradients = nb.adjoint(moments).value_and_grad(X, False)
    assert gradients[1] is None and np.allclose(gradients[0], 0.25)
    pull = nb.adjoint(moments).vjp(X, True)
    assert len(pull.outputs) == 2
    np.testing.assert_allclose(pull((0.0, 1.0))[0], (X - X.mean()) / 2)


def exchanged(a, b):
    return b, a


def decided_in_turn(pair, x, k, flag):
    """Only where `flag` is known does `k` decide what is generated."""
    y = x * pair[0]
    if not flag:
        y = x * 2.0
    y, x = exchanged(x, y)
    if k == 3:
        y = x
    return np.sum(np.sin(y)) * pair[0] + pair[1] * k


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("flag", [True, False])
def test_constants_that_only_others_make_decide(k, flag):
    check_derivatives(decided_in_turn, (0.4, 0.7), X, k, flag, compiled=False)


# Functions.


def affine(x, a=2.0, *, b=3.0):
    return a * x + b


def forwarded(f, x, *args):
    return f(x, *args)


def of_several(x):
    last = forwarded(affine, x[0], 2.5) * forwarded(np.sin, x[1])
    return last + affine(x[2], b=x[3]) ** 2


def added(x, *others):
    total = (x * x).sum()
    for v in others:
        total += v * x[0]
    return total


def integrated(f, y0, args, n):
    y = y0.copy()
    for k in range(n):
        k1 = f(0.1 * k, y, *args)
        k2 = f(0.1 * k + 0.05, y + 0.05 * k1, *args)
        y = y + 0.1 * k2
    return y.sum()


def predators(t, y, a, b):
    return np.array([a * y[0] - b * y[0] * y[1], b * y[0] * y[1] - y[1] + t])


@numba.njit
def squared(x):
    return x * x


def applied(f, x, g=None):
    total = 0.0
    for i in range(x.size):
        total += f(x[i]) * x[i]
    return total if g is None else g(total)


def test_functions_are_arguments():
    check_derivatives(of_several, X, compiled=False)
    check_derivatives(added, X, 0.3, 0.4)
    assert nb.adjoint(added).value_and_grad(X, 0.3, 0.4)[1][1] == (0.5, 0.5)
    assert nb.adjoint(added).value_and_grad(X)[1][1] == ()
    check_derivatives(integrated, predators, np.array([1.0, 0.5]), (0.7, 0.4), 5, compiled=False)
    for f in (np.sin, math.exp, squared, squared.py_func):
        check_derivatives(applied, f, X, compiled=False)
    check_derivatives(applied, squared, X, np.tanh, compiled=False)
    adj = nb.adjoint(applied)
    values = [adj.value_and_grad(f, X)[0] for f in (np.sin, np.cos, np.sin)]
    assert values[0] == values[2] != values[1]
    with pytest.raises(TraceError, match=r"the call f\(x\[i\]\)"):
        adj.value_and_grad(type("C", (), {"__call__": lambda self, v: v})(), X)


def power(k):
    def raised(x):
        return k * x**2

    return raised


def shifted(y, k):
    return lambda x, c=k + 1.0: (x + c) * y[0] * k


SQUARE = power(3.0)


def closures(x, k):
    g, h = power(k), shifted(x, k)
    k = 5.0 * k
    total = 0.0
    for v in x:
        total += SQUARE(v) * g(v) + h(v) * k
    return total


def made_in_loops(x):
    total = 0.0
    for i in range(x.size):
        g = power(x[i] + i)
        total += g(x[0])
    return total


def rebound(x):
    h = shifted(x, 1.0)
    for _ in range(2):
        x = 2.0 * x
    return h(x[0])


def test_functions_return_functions():
    check_derivatives(closures, X, 1.5, compiled=False)
    check_derivatives(made_in_loops, X, compiled=False)
    with pytest.raises(TraceError, match="x, which a function made by shifted may read later"):
        nb.adjoint(rebound).value_and_grad(X)


Layer = namedtuple("Layer", "w b")


def in_closure(w):
    return lambda x: x[0] ** 2 * w[0] + x[1] * w[1]


def in_a_tuple(w):
    items = ((w, 1.0), 2.0)
    return lambda x: x[0] ** 2 * items[0][0][0] * items[1]


def in_a_named_tuple(w):
    layer = Layer(w, 3.0)

    def f(x):
        v, b = layer
        return x[0] ** 2 * v[0] + b * layer.w[1]

    return f


def in_a_dictionary(w):
    items = {"w": w}
    return lambda x: x[0] ** 2 * items["w"][0]


def of_an_object(w):
    thing = SimpleNamespace(w=w, layer=Layer(w, 2.0))
    return lambda x: x[0] ** 2 * thing.w[0] + x[1] * thing.layer.w[1]


def scaled(x, w):
    return x[0] ** 2 * w[0]


def of_a_partial(w):
    named, first = functools.partial(scaled, w=w), functools.partial(lambda w, x: x[1] * w[1], w)
    return lambda x: named(x) + first(x)


def of_a_called_function(w):
    def inner(x):
        return x[0] ** 2 * w[0]

    return lambda x: inner(x) + x[1]


def a_default_of_a_called_function(w):
    def inner(x, w=w):
        return x[0] ** 2 * w[0]

    return lambda x: inner(x) + x[1]


OUTSIDE = [in_closure, in_a_tuple, in_a_named_tuple, in_a_dictionary, of_an_object, of_a_partial, of_a_called_function,
           a_default_of_a_called_function]  # fmt: skip


@pytest.mark.parametrize("called_before", [True, False])
@pytest.mark.parametrize("make", OUTSIDE, ids=lambda f: f.__name__)
def test_arrays_from_outside_have_the_elements_that_they_had(make, called_before):
    """When adjoint was called: in all that one adjoint computes, though code is generated at the first call of each."""
    w = np.array([1.0, 2.0])
    f = make(w)
    x, direction = np.array([3.0, 1.0]), np.array([1.0, 0.0])
    before = f(x)
    with uncompiled():
        adj, tangent = nb.adjoint(f), nb.tangent(f)
        slope = np.ravel(nb.adjoint(f).vjp(x)(1.0)).tolist()
        if called_before:
            adj.value_and_grad(x)
        w[:] = 100.0, 200.0
        pull = adj.vjp(x)
        assert adj.value_and_grad(x)[0] == pull.value == tangent.jvp((x,), (direction,))[0] == before
        assert np.ravel(pull(1.0)).tolist() == slope
        assert nb.adjoint(f).value_and_grad(x)[0] == f(x) != before


def with_a_mask(x, mask=None):
    total = 0.0
    for i in range(1, x.size):
        if x[i] < -1.0 or (mask is not None and mask[i] > mask[0]):
            break
        if i != 2 and (mask is None or mask[i] > 0.5):
            total += x[i] ** 2
        both = mask is not None and mask[i] > 0.1 and x[i] > 0.0
        total += x[i] if both else 0.5 * x[i]
    return total


def test_operands_of_tests_that_are_not_evaluated():
    x, mask = np.array([1.0, 0.5, -0.4, 3.0, -2.0, 1.0]), np.array([0.7, 0.6, 0.2, 0.55, 0.9, 0.1])
    with uncompiled():
        assert agrees(with_a_mask, (x,))
        assert agrees(with_a_mask, (x, mask))
