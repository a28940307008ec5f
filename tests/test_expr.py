"""Scalar expressions: one object per expression, derivatives, a simplifier that loses no NaN, shared emission."""

import functools
import gc
import inspect
import itertools
import math
import threading

import numpy as np
import pytest

from nbgrad.backends.numba.compile import generate
from nbgrad.ir import expr
from nbgrad.ir.expr import ONE, ZERO, Expr, Fn, const, free_variables, select, substitute, var, vjp
from nbgrad.ir.expr_source import emit
from nbgrad.kernels import scalar as vm

x, y, z = var("x"), var("y"), var("z")

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e308, -1e308, 5e-324, math.inf, -math.inf, math.nan]


@functools.cache
def _loop(helper, count):
    names = "abcdefgh"[:count]
    source = f"def once({', '.join(names)}, out):\n    out[0] = f({', '.join(names)})"
    return generate("once", source, {"f": helper})


def _from_python(helper):
    """A function for kernels, callable."""

    def call(*args):
        out = np.empty(1)
        _loop(helper, len(args))(*(a if isinstance(a, int) else float(a) for a in args), out)
        return out[0]

    compiled = any(hasattr(helper, mark) for mark in ("bodies", "py_func", "_defn"))
    return call if compiled else helper


def evaluate(outputs, **at):
    """The expressions in plain Python with NumPy's float64 rules, but for the functions that are kernels' own."""
    one = isinstance(outputs, Expr)
    constants, body, results, helpers = emit([outputs] if one else outputs, {n: n for n in at}, "np.float64")
    own = {name: _from_python(helper) for name, helper in helpers.items()}
    space = {"np": np, "math": math, **own, **{n: np.float64(v) for n, v in at.items()}}
    with np.errstate(all="ignore"):
        for line in constants + body:
            name, code = line.split(" = ", 1)
            try:
                space[name] = eval(code, space)
            except ValueError:  # Python's math raises where compiled code gives NaN
                space[name] = np.float64(np.nan)
        found = [space[r] if r in space else eval(r, space) for r in results]
    return found[0] if one else found


def same(a, b):
    """Equal with NaN equal to itself, and zeros told apart by their signs."""
    return np.array_equal(a, b, equal_nan=True) and bool(np.all(np.signbit(a) == np.signbit(b)) or np.isnan(a))


# One object per expression.


def test_equal_expressions_are_one_object():
    assert var("x") is x and const(2) is const(2) and x + y is x + y and x * (y - 1) is x * (y - 1)
    assert select(x < y, x, 2.0) is select(x < y, x, 2.0)
    assert vm.sin(x * x) is vm.sin(x * x)
    assert x + y is not y + x


def test_constants_are_told_apart():
    different = [const(0), const(0.0), const(-0.0), const(1), const(1.0), const(math.nan), const(math.inf)]
    assert len({id(e) for e in different}) == len(different)
    assert const(math.nan) is const(math.nan)


def test_unused_expressions_are_forgotten():
    gc.collect()
    before = len(expr._nodes)
    e = x
    for k in range(50):
        e = vm.sin(e * (k + 0.123))
    assert len(expr._nodes) >= before + 100
    del e
    gc.collect()
    assert len(expr._nodes) == before


def test_threads_make_the_same_objects():
    found: list = []
    barrier = threading.Barrier(4)

    def make():
        barrier.wait(10)
        found.append([vm.exp(x * (k + 0.77)) for k in range(300)])

    workers = [threading.Thread(target=make) for _ in range(4)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    assert all(a is b for other in found[1:] for a, b in zip(found[0], other, strict=True))


# The simplifier.


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (x * 1, x),
        (1 * x, x),
        (x / 1, x),
        (x - 0, x),
        (expr.neg(-x), x),
        (x + (-y), x - y),
        (x * -1, -x),
        (select(x < y, z, z), z),
    ],
)
def test_what_is_simplified(given, expected):
    assert given is expected


@pytest.mark.parametrize(
    "kept",
    [
        x * 0,
        x * 0.0,
        x - x,
        x / x,
        0 / x,
        x + 0.0,
        x * y / y,
        x + y - y,
        select(x < x, x, y),
        select(x < y, x, x + 0.0),
    ],
)
def test_what_is_kept_because_of_nan_infinity_and_signed_zero(kept):
    assert kept.fn is not None and len(expr.topological_order([kept])) >= 2


RULES = {
    "x*1": (lambda a: a * 1, lambda a: a * 1),
    "1*x": (lambda a: 1 * a, lambda a: 1 * a),
    "x/1": (lambda a: a / 1, lambda a: a / 1),
    "x-0": (lambda a: a - 0, lambda a: a - 0),
    "--x": (lambda a: expr.neg(-a), lambda a: a),
    "x*-1": (lambda a: a * -1, lambda a: a * np.float64(-1)),
    "x*0": (lambda a: a * 0, lambda a: a * np.float64(0)),
    "x+0.0": (lambda a: a + 0.0, lambda a: a + 0.0),
    "x-x": (lambda a: a - a, lambda a: a - a),
    "x/x": (lambda a: a / a, lambda a: a / a),
    "0-x": (lambda a: const(0.0) - a, lambda a: 0.0 - a),
    "1/x": (lambda a: 1 / a, lambda a: 1 / a),
    "0/x": (lambda a: 0 / a, lambda a: 0 / a),
    "x*2-x": (lambda a: a * 2 - a, lambda a: a * 2 - a),
}


@pytest.mark.parametrize("name", RULES)
def test_a_simplified_value_is_the_value(name):
    ours, numpys = RULES[name]
    for v in EDGES:
        with np.errstate(all="ignore"):
            assert same(evaluate(ours(x), x=v), numpys(np.float64(v))), v


def test_binary_values_over_all_pairs_of_edges():
    for a, b in itertools.product(EDGES, EDGES):
        p, q = np.float64(a), np.float64(b)
        with np.errstate(all="ignore"):
            expected = [p + (-q), p * q - q, p / q, (p - q) * 1, p if p < q else q, -(p / q) / 1]
        found = evaluate([x + (-y), x * y - y, x / y, (x - y) * 1, select(x < y, x, y), -(x / y) / 1], x=a, y=b)
        assert all(same(f, e) for f, e in zip(found, expected, strict=True)), (a, b)


def test_constants_are_folded_where_python_agrees():
    assert (const(2) * const(3)).value == 6 and (const(1) / const(4)).value == 0.25
    assert (const(1) / const(0)).fn is not None  # inf, which is the kernel's to say
    assert same(evaluate(const(1) / const(0)), np.inf)
    assert vm.exp(const(1e6)).fn is not None or vm.exp(const(1e6)).value == math.inf


# Derivatives.


def test_select_isolates_nan():
    safe = select(x > 0, vm.log(x), 0.0)
    assert evaluate(safe, x=-1.0) == 0
    (d,) = vjp(safe, var("g"), ["x"])
    assert evaluate(d, x=-1.0, g=1.0) == 0 and evaluate(d, x=0.0, g=1.0) == 0
    assert evaluate(d, x=4.0, g=1.0) == 0.25
    for g in (math.inf, math.nan):
        assert evaluate(d, x=-1.0, g=g) == 0
    root = select(x > 0, vm.sqrt(x), 0.0)
    (d2,) = vjp(vjp(root, ONE, ["x"])[0], ONE, ["x"])
    assert evaluate(d2, x=0.0) == 0 and evaluate(d2, x=4.0) == -1 / 32


def test_no_dependence_is_the_zero():
    assert vjp(x * y, ONE, ["z"]) == [ZERO] and vjp(const(3), ONE, ["x"]) == [ZERO]
    assert vjp(vm.floor(x), ONE, ["x"]) == [ZERO]
    assert vjp(x, var("g"), ["x", "y"]) == [var("g"), ZERO]


IMPLICIT = {"gamma_draw"}  # has the derivative of an implicit function: test_gamma_gradient


def _functions():
    for name in sorted(vars(vm)):
        f = getattr(vm, name)
        if isinstance(f, Fn) and f.partials is not None and not f.boolean and name not in IMPLICIT:
            yield name, f


def _arity(f):
    return len(inspect.signature(f.partials).parameters) - 1


#: Functions whose first arguments are orders, mostly integers, and no variables.
ORDERS = {"polygamma": (2,), "gamma_moment": (2,), "beta_moment": (2, 1), "zeta_log": (2,),
          **dict.fromkeys(("expn", "kn", "yn"), (2,)),
          **dict.fromkeys(("iv", "ive", "jv", "kv", "kve", "yv"), (1.5,))}  # fmt: skip
DOMAINS = {"acosh": (1.5, 3.0), "arccosh": (1.5, 3.0)}


@pytest.mark.parametrize(("name", "f"), list(_functions()), ids=[n for n, _ in _functions()])
def test_rules_against_finite_differences_of_the_expression_itself(name, f):
    """First and second derivatives, each against central differences of the order before."""
    rng = np.random.default_rng(7)
    low, high = DOMAINS.get(name, (0.15, 0.85))
    variables = [var(f"x{k}") for k in range(_arity(f))]
    names = [v.name for v in variables]
    e = f(*variables)
    if name in ORDERS:
        orders = dict(zip(variables, map(const, ORDERS[name]), strict=False))
        e, names = substitute(e, orders), names[len(orders) :]
    for _ in range(3):
        at = {n: rng.uniform(low, high) for n in names}
        _check_derivatives(e, names, at, tolerance=2e-7)
        for first in vjp(e, ONE, names):
            if first is not ZERO:
                _check_derivatives(first, names, at, tolerance=2e-6)


def _check_derivatives(e, names, at, tolerance):
    for name, d in zip(names, vjp(e, ONE, names), strict=True):
        h = 6e-6
        up, down = (evaluate(e, **{**at, name: at[name] + s}) for s in (h, -h))
        found = evaluate(d, **at)
        assert abs((up - down) / (2 * h) - found) <= tolerance * max(1, abs(found)), (e, name)


def test_a_composite_against_finite_differences():
    e = vm.exp(vm.sin(x * y) / (1 + x * x)) * select(x < y, x / y, y - x)
    for at in ({"x": 0.3, "y": 0.9}, {"x": 1.7, "y": 0.4}):
        _check_derivatives(e, ["x", "y"], at, 1e-8)


# Emission.


def test_emission_shares_subexpressions():
    s = vm.sin(x * y)
    _, body, results, _ = emit([s * s, s + 1, -s, s], {"x": "x", "y": "y"}, "np.float64")
    text = "\n".join(body)
    assert sum("sin" in line for line in body) == 1 and text.count("(x * y)") == 1
    assert len(results) == 4 and len(set(results)) == 4
    (d,) = vjp(vm.exp(x) * vm.exp(x), ONE, ["x"])
    _, body, _, _ = emit([d], {"x": "x"}, "np.float64")
    assert sum("exp" in line for line in body) == 1


def test_deep_expressions_need_no_recursion():
    e = x
    for k in range(5000):
        e = e * (1 + 1e-4) if k % 2 else e + x
    (d,) = vjp(e, ONE, ["x"])
    assert free_variables(e) == ["x"] and math.isfinite(evaluate(d, x=1.0))
    assert free_variables(substitute(e, {x: y})) == ["y"]


def test_substitution_replaces_outermost_first_and_simplifies():
    assert substitute(x * y, {x: ONE}) is y
    assert substitute(vm.sin(x) + x, {vm.sin(x): z}) is z + x
    assert substitute(x + y, {x: y, y: x}) is y + x


@pytest.mark.parametrize(
    ("value", "text"), [(math.nan, "np.nan"), (-math.inf, "-np.inf"), (0.1, "0.1"), (-0.0, "-0.0")]
)
def test_literals(value, text):
    constants, _, _, _ = emit([const(value)], {}, "np.float32")
    assert constants == [f"c0 = np.float32({text})"]
