"""Statements and callables that are rewritten: ``match``, imports inside of functions, targets with a star, and
``functools.partial``."""

import functools
import math

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled
from test_adjoint_refused import made

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.5, 1.2, -0.7, 2.0])


class Kinds:
    SECOND = 2


# match


def of_strings(x, mode):
    match mode:
        case "sum" | "total":
            y = np.sum(x * x)
        case "mean":
            y = np.mean(x) * x[0]
        case None:
            y = x[1] ** 2
        case _:
            y = x[2] ** 3
    return y


def of_numbers(x, n):
    total = x[0]
    for i in range(n):
        match i % 7:
            case 0:
                total += x[1] ** 2
            case 1 | -4 | 5 if total > 100.0:
                total += 1000.0
            case Kinds.SECOND:
                total *= x[2]
                continue
            case 3 as three:
                total += three * x[3]
            case k if k > 5:
                break
            case i:
                total += 0.5 * i * x[0]
        match total > 0.0:
            case 1:
                total *= 0.9
    return total


def returned(x, a):
    match a:
        case 1.5 | 2.5 as b:
            return b * x[0]
        case 3.5:
            x[0] = x[1] * a
        case other if other < 0.0:
            return other * x[1]
    return np.sum(x) * a


# Imports.


def with_imports(x, a):
    """They are at the beginning."""
    import math as m
    from math import exp
    from math import sin as sine

    import numpy as npy
    import numpy.linalg

    def inner(v):
        return m.tanh(v) * sine(v)

    y = npy.array([inner(v) for v in x])
    return npy.sum(y * x) * exp(a) * m.pi + numpy.linalg.norm(x) + imported_there(x[0])


def imported_there(v):
    from test_adjoint_statements import Kinds as K

    return v**K.SECOND


# Targets with a star.


def stars(x, a):
    first, *rest = (a, x * x, x[0])
    *init, last = first, x[1], x[2] * a
    (p, *none), *more = (x[3], a), a
    u, *v, w = several(x, a)
    total = np.sum(rest[0]) * rest[1] + len(none) * p * more[0]
    for t in init:
        total += t * t * last
    n, *m = x[None].shape
    return total + u * v[0] * np.sum(w) * n * m[0]


def several(x, a):
    return a * a, x[0] * a, x * a


def held(x, a):
    """What is unpacked is evaluated before a name is set."""
    a, *b = x[0], a, x[1]
    c, d = b
    c, (d, e) = d, (c, d * c)
    y = x * a
    y, (z, k) = x * x, (y, a)
    x[0], f = c, (x[0], x[1])
    return a * d + c * e + np.sum(y * z) * k + x[0] * f[0]


# Partial functions.


def weighted(x, a, b=1.0, mode="squares", w=None):
    total = np.sum(x**2) if mode == "squares" else np.sum(x)
    if w is not None:
        total += np.sum(w * x)
    return a * total + b


def into(x, k):
    x[0] = k * x[1]


simple = functools.partial(weighted, b=2.0, mode="sum")
nested = functools.partial(simple, w=np.array([1.0, 2.0, 3.0, 4.0]))
positional = functools.partial(weighted, X, 0.5)
limited = functools.partial(np.clip, a_min=-0.6, a_max=1.5)
writing = functools.partial(into, k=2.0)
TABLE = {"simple": simple, "power": functools.partial(math.pow, 2.0)}


def partials(x, a):
    total = simple(x, a) * nested(x, a, mode="squares") + positional(b=a) + np.sum(limited(x) * x)
    writing(x)
    return total * applied(simple, x, a) + TABLE["simple"](x, x[1]) * TABLE["power"](a)


def applied(f, x, a):
    return f(x, a) * f(x, b=x[2], a=a)


PROGRAMS = [(of_strings, (X, m)) for m in ("sum", "total", "mean", None, "other")]
PROGRAMS += [(of_numbers, (X, n)) for n in (0, 4, 8)]
PROGRAMS += [(returned, (X, a)) for a in (1.2, -0.4)]
PROGRAMS += [(f, (X, 0.7)) for f in (with_imports, stars, held, partials)]


@pytest.mark.parametrize(("f", "args"), PROGRAMS, ids=lambda a: getattr(a, "__name__", None))
def test_programs(f, args):
    def on_a_copy(x, a):
        return f(x.copy(), a)

    with uncompiled():
        check_derivatives(on_a_copy, *args, compiled=False)


def test_cases_at_their_numbers():
    for a in (1.5, 2.5, 3.5):
        with uncompiled():
            assert nb.adjoint(returned).value_and_grad(X.copy(), a)[0] == pytest.approx(returned(X.copy(), a))


def test_compiled():
    assert nb.adjoint(of_numbers).value_and_grad(X, 8)[0] == pytest.approx(of_numbers(X, 8))
    assert nb.adjoint(partials).value_and_grad(X.copy(), 0.7)[0] == pytest.approx(partials(X.copy(), 0.7))


def test_an_array_of_a_partial_function_is_read_again_by_a_primitive():
    w = np.array([1.0, 2.0, 3.0, 4.0])
    f = functools.partial(weighted, mode="sum", w=w)

    def g(x):
        return f(x, 1.0)

    operator = nb.primitive(g)
    assert float(operator(nb.nd.array(X))) == pytest.approx(g(X), rel=1e-6)
    w[0] = 100.0
    assert float(operator(nb.nd.array(X))) == pytest.approx(g(X), rel=1e-6)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("match x:\n    case [u, v]:\n        return a\nreturn n", "this as a pattern .*use numbers, strings, None"),
        ("match a, n:\n    case _:\n        return a\nreturn n", "a sequence after match as a pattern"),
        ("match n > 1:\n    case True:\n        return a\nreturn n", "True or False as a pattern"),
        ("match n:\n    case int():\n        return a\nreturn n", "this as a pattern"),
        ("match n:\n    case {'u': 1}:\n        return a\nreturn n", "this as a pattern"),
        ("match n:\n    case 1 as k if k > 0:\n        return a\nreturn n", "as with a guard as a pattern"),
        ("if n > 1:\n    import math\nreturn a", "Import is outside .*import at the beginning of the function"),
        ("import surely_not_there\nreturn a", "an import that fails .*import what can be found"),
        ("from math import surely_not_there\nreturn a", "an import that fails"),
        ("u = math.exp(a)\nimport math\nreturn u", "math, which is read before it is imported"),
        ("import math\nmath = 2.0\nreturn math", "math, which is imported and also something else"),
        ("import math\nfrom cmath import pi as math\nreturn a", "math, which is imported as two things"),
        ("u, v, *w = (a,)\nreturn u", "unpacking 1 items into 2 names or more"),
        ("for u, *v in ((a, n),):\n    a += u\nreturn a", "Starred is outside of the subset"),
        ("return simple(x)", "a call with other arguments .*missing a required argument: 'a'"),
        ("return simple(x, a, 2.0, mode='sum')", "a call with other arguments .*multiple values for argument 'b'"),
        ("return unknown(a)", "unknown has no derivative here"),
    ],
)
def test_refused(body, said):
    function = made(body)
    function.__globals__.update(simple=simple, unknown=functools.partial(print, 2))
    with pytest.raises(TraceError, match=said):
        nb.adjoint(function).value_and_grad(X, X, 1.0, 2)
