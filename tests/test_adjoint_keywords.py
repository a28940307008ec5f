"""Options of functions in loops: ``**options``, dictionaries with constant keys, ``*args``, and keyword-only
parameters."""

import math

import numpy as np
import pytest
from loop_checks import check_derivatives
from test_adjoint_refused import made

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.5, 1.2, -0.7, 2.0])


def quadratic(x, a=2.0, b=3.0):
    return a * x**2 + b * x


def passing(x, **options):
    return quadratic(x, **options)


def of_passing(x, k):
    return passing(k, a=x[0]) + passing(x[1], b=k * x[2]) + passing(x[3]) + passing(a=1.5, x=k)


def both(f, x, *args, **options):
    return f(x, *args, **options) * 0.5


def of_both(x, k):
    return both(quadratic, k, x[0], b=x[1]) + both(both, quadratic, x[2], **{"a": k, "b": x[3]})


def of_displays(x, k):
    y = x.copy()
    options = {"a": y[0], "b": k}
    more = dict(a=2.0 * y[1])
    total = quadratic(k, **options) + options["a"] * more["a"]
    merged = {**options, **more, "b": total}
    y[0] = 100.0  # the dictionaries hold what it was
    return quadratic(k, **merged) + quadratic(k, b=k, **more) + len(merged)


def smoothed(y, **options):
    """Options that are asked for, as people write it."""
    alpha = options.pop("alpha", 0.3)
    kind = options.get("kind", "exponential")
    weights = options.get("weights")
    level, total = y[0], 0.0
    for i in range(1, y.size):
        if kind == "exponential":
            level = alpha * y[i] + (1.0 - alpha) * level
        else:
            level = 0.5 * (y[i] + y[i - 1])
        w = 1.0 if weights is None else weights[i]
        total += w * (level - y[i]) ** 2
    if "penalty" in options:
        total += options["penalty"] * alpha**2
    return total + trend(y, **options)


def trend(y, damping=0.1, penalty=0.0, kind="", weights=None):
    return damping * (y[-1] - y[0]) + penalty


def of_smoothed(y, k):
    total = smoothed(y) + smoothed(y, alpha=k) + smoothed(y, kind="mean", penalty=k)
    return total + smoothed(y, weights=y**2, alpha=k * k, damping=2.0 * k)


def counted(x, **terms):
    total = float(len(terms))
    for name, value in terms.items():
        if name == "square":
            total += x * value**2
        else:
            total += value
    for name in terms:
        if name == "cube":
            total += terms[name] ** 3
    for value in terms.values():
        total *= value
        if total > 5.0:
            break
    if terms:
        total += sum(terms.values()) + sum(v * v for v in terms.values())
    return total if terms else x


def of_counted(x, k):
    return counted(k, square=x[0], cube=x[1]) + counted(k, linear=x[2]) * counted(x[3])


def keyword_only(x, *, a=1.0, b, f=math.sin):
    return f(a * x) + b


def of_keyword_only(x, k):
    def inner(y, *rest, scale=k, **others):
        return keyword_only(y, **others) * scale + (rest[0] if len(rest) else 0.0)

    return inner(x[0], b=k) + inner(x[1], x[2], scale=2.0, a=k, b=x[3], f=math.cos)


def of_functions(x, k):
    methods = {"sine": math.sin, "square": lambda v: v * v, "name": "sine"}
    total = 0.0
    for v in x:
        total += methods["sine"](v) * k + methods["square"](v)
        if methods["name"] == "sine":
            total += 0.1 * k
    return total


def stars(x, k):
    point = (k, x[0], 2.0)
    pairs = [(k, x[1]), (x[2], 0.5)]
    total = quadratic(*point) + quadratic(*point[1:]) + math.hypot(*point[:2]) + max(*point)
    for a, b in pairs:
        total += quadratic(*(a, b), b=k)
    return total


def generators(x, k):
    y = [v * k for v in x if v > 0.0]
    total = sum((v * i for i, v in enumerate(x)), k) + sum(y, start=2.0 * k) + sum(y)
    total += min(v * v for v in x) + max(math.sin(v) for v in x if v < 1.5) * max(y)
    if any(v > 1.9 for v in x) and not all(v > 0.0 for v in y):
        total *= 3.0
    return total + sum(a * b for a in x for b in x if a < b) + len(y)


def moments(x, full=False, **options):
    mean = np.sum(x) / x.size
    if full:
        return mean, np.sum((x - mean) ** 2) / (x.size - options.get("ddof", 0))
    return mean


def of_moments(x, k):
    mean, variance = moments(x, full=True, ddof=1)
    return mean * variance + moments(k * x) + moments(x, True)[1]


PROGRAMS = [of_passing, of_both, of_displays, of_smoothed, of_counted, of_keyword_only, of_functions, stars, generators,
            of_moments]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_programs(f):
    check_derivatives(f, X, 0.7, compiled=False)


def outermost(x, **options):
    return quadratic(x, **options)


def test_the_function_itself_names_its_parameters():
    with pytest.raises(TraceError, match=r"\*\*options of the function that is differentiated.*name each parameter"):
        nb.adjoint(outermost)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("b = {a: n}\nreturn b[a]", "the key a in .*, which is no string or integer that is known"),
        ("b = {'u': a}\nreturn b['v']", "the key 'v', which the dictionary does not have in .*it has u; give it where"),
        (
            "b = {'u': a}\nk = 'u' if n > 1 else 'v'\nreturn b.get(k, n)",
            r"the key k in b.get\(k, n\), which is no string",
        ),
        ("b = {'u': a}\nk = 'u' if n > 1 else 'v'\nreturn b[k]", r"the key k in b\[k\], which is no string"),
        (
            "b = {'u': 'w'}\nk = 'u' if n > 1 else 'v'\nreturn a if b.get(k, 'z') == 'w' else n",
            r"the key k in b.get\(k, 'z'\), which is no string",
        ),
        (
            "b = {'u': a}\nfor i in range(n):\n    k = 'u' if x[i] > 0 else 'v'\n    a *= b.get(k, 2.0)\nreturn a",
            "the key k in",
        ),
        ("b = {'u': a}\nreturn b * 2", "b, which is a dictionary, as a number or array"),
        ("b = {'u': a}\nreturn b", "b, which is a dictionary, as a result"),
        ("b = {'u': a}\nc = b\nc['u'] = 1.0\nreturn b['u']", "an item of a dictionary, which is set"),
        ("b = {'u': a}\nreturn b.update(a)", "update"),
        ("b = {'u': a}\nif n > 1:\n    b = {**b}\nreturn b['u']", "b, which is perhaps None, or one of several"),
        ("b = {'u': x}\nx, y = y, x\nreturn b['u'][0]", "an array in a dictionary"),
        ("def g(u, **o):\n    return u\nreturn g(a, u=n)", "multiple values for argument 'u'"),
        ("def g(u, v):\n    return u\nreturn g(a, **{'w': n})", "unexpected keyword argument 'w'|missing a required"),
        ("def g(u, v=1):\n    return u\nreturn g(a, v=2, **{'v': n})", "v, which is given twice"),
        ("def g(u, v=1):\n    return u\nreturn g(a, **x)", r"\*\*x, whose keys are not known"),
        (
            "def g(u, **o):\n    for i in range(3):\n        u += o.pop('k')\n    return u\nreturn g(a, k=n)",
            "changes a",
        ),
    ],
)
def test_refused(body, said):
    with pytest.raises(TraceError, match=said) as caught:
        nb.adjoint(made(body)).value_and_grad(X, X, 1.0, 2)
    assert "<refused" in str(caught.value) and ", line " in str(caught.value)
