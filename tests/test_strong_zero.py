"""A cotangent that is zero contributes zero, whatever is infinite or NaN: in eager code, compiled programs and loops.

``where(taken, f(x), 3*x)`` with nothing taken has the derivatives 3, 0 and 0 at any `x`, and that is asked of every
elementwise operator of the registry, at its poles and beyond.
"""

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.core.registry import operators
from nbgrad.ir.expr import ZERO, add, has_poles, strong, substitute, var, vjp
from nbgrad.kernels import scalar as vm
from nbgrad.operators.elementwise import Elementwise

EDGES = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.5, 0.5, 1e-320, 710.5, -1e5, np.inf, -np.inf, np.nan])
ELEMENTWISE = {
    name: entry
    for name, entry in operators.items()
    if isinstance(entry.rule, Elementwise) and entry.differentiable and entry.name == name
}
UNARY = [n for n, e in ELEMENTWISE.items() if len(e.rule.operands) == 1 and not e.params]
BINARY = [n for n, e in ELEMENTWISE.items() if len(e.rule.operands) == 2]
POLES = [n for n in UNARY if has_poles(ELEMENTWISE[n].rule.cotangent(0))]


def cut_off(f):
    """``3*x``, in the form of a selection that takes nothing of `f`."""
    return lambda x, *others: nd.where(nd.zeros_like(x), f(x, *others), 3 * x)


def derivatives(f, x, orders=3):
    """The first derivatives of a function that works element by element."""
    for _ in range(orders):
        f = nb.elementwise_grad(f)
        yield f(x).asnumpy()


def is_cut_off(found, first=3.0):
    for k, d in enumerate(found):
        np.testing.assert_array_equal(d, np.full(d.shape, first if k == 0 else 0.0), f"order {k + 1}")


def test_the_table_knows_the_poles():
    assert {"sqrt", "rsqrt", "cbrt", "rcbrt", "log", "log1p", "arcsin", "arccosh", "arctanh", "reciprocal"} <= {*POLES}
    assert not {"sin", "square", "tanh", "relu", "negative", "sigmoid"} & {*POLES}
    assert len(UNARY) > 40 and len(BINARY) > 10


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name):
    f, orders = getattr(nd, name), 3
    is_cut_off(derivatives(cut_off(f), nd.array(EDGES), orders))
    for dtype in ("float32", "float16"):
        with np.errstate(over="ignore"):
            x = nd.array(EDGES.astype(dtype))
        is_cut_off(derivatives(cut_off(f), x, 1))
    x = nd.array(EDGES)
    x.attach_grad()
    with autograd.record():
        y = cut_off(f)(x)
    y.backward()
    is_cut_off([x.grad.asnumpy()])


@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name):
    a, b = (nd.array(v.ravel()) for v in np.meshgrid(EDGES, EDGES))
    f = getattr(nd, name)
    if name == "polygamma":  # of whole orders
        a = nd.abs(nd.round(nd.where(nd.isfinite(a), nd.clip(a, -5, 5), 0 * nd.ones_like(a))))
    is_cut_off(derivatives(lambda x: cut_off(f)(x, b), a, 2 if name != "polygamma" else 1))
    is_cut_off(derivatives(lambda x: cut_off(lambda u: f(a, u))(x), b, 2))


OUTER = {
    "sin": nd.sin,
    "exp": nd.exp,
    "square": nd.square,
    "log": nd.log,
    "times x": None,
    "over x": None,
}


@pytest.mark.parametrize("inner", ["sqrt", "log", "reciprocal", "arcsin", "erfinv"])
@pytest.mark.parametrize("outer", OUTER)
def test_what_is_made_of_infinities(inner, outer):
    """Second derivatives in a branch that is not taken multiply infinite tangents by cotangents that are zero."""

    def f(x):
        y = getattr(nd, inner)(x)
        return y * x if outer == "times x" else y / x if outer == "over x" else OUTER[outer](y)

    is_cut_off(derivatives(cut_off(f), nd.array(EDGES)))


def cut_off_all(x):
    return functools.reduce(nd.add, [cut_off(getattr(nd, name))(x) for name in POLES])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_compiled(dtype):
    x = nd.array(EDGES.astype(dtype))
    f = nb.elementwise_grad(cut_off_all)
    is_cut_off([nb.jit(f)(x).asnumpy(), nb.jit(nb.elementwise_grad(f))(x).asnumpy()], 3.0 * len(POLES))


def test_compiled_where_arguments_are_missing():
    """NaN in data that a mask leaves out: no pole, but a zero that is chosen."""
    x, data = nd.array([1.0, 2.0, 3.0]), nd.array([0.5, np.nan, np.inf])

    def loss(x, data):
        return nd.where(nd.isfinite(data), nd.square(x - data) * data, 0 * x).sum()

    for g in (nb.grad(loss), nb.jit(nb.grad(loss)), nb.grad(nb.jit(loss))):
        np.testing.assert_array_equal(g(x, data).asnumpy(), [0.5, 0, 0])
    inside = nb.jit(lambda x, data: nd.square(x - data) * data)  # chosen outside of what is compiled
    g = nb.grad(lambda x, data: nd.where(nd.isfinite(data), inside(x, data), 0 * x).sum())
    np.testing.assert_array_equal(g(x, data).asnumpy(), [0.5, 0, 0])
    part = nb.grad(lambda x: nd.log(x)[1:].sum())
    for g in (part, nb.jit(part)):
        np.testing.assert_array_equal(g(nd.array([0.0, 2.0])).asnumpy(), [0, 0.5])


def test_a_compiled_program_without_poles_has_plain_products():
    f = nb.jit(nb.grad(lambda x, v: (nd.sin(x) * x * v).sum()))
    f(nd.ones(3), nd.ones(3))
    assert "!=" not in f.source()
    g = nb.jit(nb.grad(lambda x, v: (nd.log(x) * x * v).sum()))
    g(nd.ones(3), nd.ones(3))
    assert "!=" in g.source()


def lennard_jones(x, v):
    s = 1 / (x * x)
    return 4 * (s * s * s * s * s * s - s * s * s) + v


def partly(x, v):
    return nd.exp(-1 / (x * x)) * v  # the cotangent of 1/(x*x) is zero where that is infinite


def elsewhere(x, v):
    return x[0] / x[1:] + v[1:] * nd.where(v[1:] > 1, 1 / x[:-1], 0 * v[1:])


@pytest.mark.parametrize(("f", "tests"), [(lennard_jones, False), (partly, True), (elsewhere, True)])
def test_a_cotangent_that_is_infinite_wherever_the_partial_is_has_plain_products(f, tests):
    g = nb.jit(nb.grad(lambda x, v: f(x, v).sum()))
    g(nd.ones(3), nd.ones(3))
    assert ("!=" in g.source()) == tests


def same_root(x):
    return nd.sqrt(x) * x**0.5  # the cotangent of each is the other, which is the same value


def quotient(x, v=1.5):
    return v * (x / v) + nd.sqrt(x) * nd.sqrt(x) + x * nd.log(x + 1)


@pytest.mark.parametrize("f", [same_root, quotient, lambda x: nd.where(x > 0, x * nd.log(x), x)])
def test_a_cotangent_that_is_an_operand_of_the_partial_as_well(f):
    x = nd.array([0.0, 4.0], dtype="float64")
    for g in (nb.elementwise_grad(f), nb.elementwise_grad(nb.elementwise_grad(f))):
        np.testing.assert_allclose(nb.jit(g)(x).asnumpy(), g(x).asnumpy(), rtol=1e-12)


TWO = {
    "reciprocal": lambda x, w: w * (1 / x),
    "cube": lambda x, w: w * (1 / x) ** 3 - 1 / x,
    "optimum": lambda x, w: nd.square(1 / x - w),
    "roots": lambda x, w: nd.square(nd.sqrt(x)) * w + nd.sqrt(x * w),
    "logarithm": lambda x, w: w * nd.log(x) + x * nd.log(w),
    "entropy": lambda x, w: nd.where(w > 0, x * nd.log(x), w * x),
    "safe": lambda x, w: nd.where(x > 0, w / nd.where(x > 0, x, nd.ones_like(x)), w),
    "safe twice": lambda x, w: nd.where(x != 0, (1 / nd.where(x != 0, x, nd.ones_like(x))) ** 2 * w, 0 * x),
    "unsafe": lambda x, w: nd.where(x != 0, w / x, w * x),
    "another": lambda x, w: nd.where(w > 0, 1 / nd.where(x > 0, x, nd.ones_like(x)), 1 / x),
    "sides": lambda x, w: nd.where(w > 0, 1 / x, nd.where(x > 0, nd.log(x), 0 * x)) * w,
    "mask": lambda x, w: nd.where(w > 0, nd.ones_like(w), nd.zeros_like(w)) * nd.square(1 / x - 1) * nd.log(x),
    "rows": lambda x, w: nd.where(nd.expand_dims(w, axis=1) > 0, nd.expand_dims(1 / x, axis=1), 0.0 * nd.ones((1, 3))),
}


@pytest.mark.parametrize("name", TWO)
def test_compiled_programs_have_the_zeros_of_operators(name):
    """At poles and at zeros, chosen and not."""
    finite = EDGES[np.isfinite(EDGES)]
    x, w = (nd.array(v.ravel(), dtype="float64") for v in np.meshgrid(finite, finite))
    first = nb.grad(lambda x, w: TWO[name](x, w).sum(), (0, 1))
    for g in (first, nb.grad(lambda x, w: (first(x, w)[0] * nd.cos(x)).sum(), (0, 1))):
        for found, expected in zip(nb.jit(g)(x, w), g(x, w), strict=True):
            np.testing.assert_allclose(found.asnumpy(), expected.asnumpy(), rtol=1e-10)


RATIONAL = st.recursive(
    st.sampled_from(["x", "v", 0.5, 2.0]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["reciprocal", "negative", "square", "rsqrt", "sqrt", "log", "tanh"]), inner),
        st.tuples(st.sampled_from(["add", "subtract", "multiply", "divide", "chosen"]), inner, inner),
    ),
    max_leaves=8,
)


@settings(max_examples=20)
@given(RATIONAL)
def test_compiled_derivatives_are_those_of_eager_code_at_poles(tree):
    x, v = (np.ravel(a) for a in np.meshgrid(*[[0.0, 1.0, -1.0, 2.0, 0.5]] * 2))

    def f(x, v):
        return evaluated(tree, x, v)

    for g in (nb.elementwise_grad(f), nb.elementwise_grad(nb.elementwise_grad(f))):
        with np.errstate(all="ignore"):
            found, expected = nb.jit(g)(nd.array(x), nd.array(v)).asnumpy(), g(nd.array(x), nd.array(v)).asnumpy()
        scale = np.max(np.abs(expected), initial=1.0, where=np.isfinite(expected))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * scale)


# Tangents.


@pytest.mark.parametrize("name", POLES)
def test_tangents_that_are_zero(name):
    f, x = getattr(nd, name), nd.array(EDGES)
    ones = nd.ones_like(x)
    np.testing.assert_array_equal(nb.jvp(cut_off(f), (x,), (ones,))[1].asnumpy(), 3.0)
    np.testing.assert_array_equal(nb.jvp(f, (x,), (0 * ones,))[1].asnumpy(), 0.0)


# What must stay.


def test_zero_is_the_only_strong_factor():
    y = nd.sqrt
    x = nd.array([0.0, 0.0, 0.0, 0.0, 4.0], dtype="float64")
    x.attach_grad()
    with autograd.record():
        z = y(x)
    z.backward(nd.array([1.0, -1e-300, 0.0, -0.0, np.nan], dtype="float64"))
    np.testing.assert_array_equal(x.grad.asnumpy(), [np.inf, -np.inf, 0, 0, np.nan])


OPTIMA = {
    "root": (lambda x: nd.square(nd.sqrt(x) - 1), 1.0, 0.5, -0.75),
    "logarithm": (lambda x: nd.square(nd.log(x)), 1.0, 2.0, -6.0),
    "entropy": (lambda x: nd.square(x * nd.log(x)), 1.0, 2.0, 6.0),
    "quotient": (lambda x: nd.square(1 / x - 1), 1.0, 2.0, -12.0),
    "power": (lambda x: nd.square(x**1.5 - 1), 1.0, 4.5, 6.75),
    "arcsin": (lambda x: nd.square(nd.arcsin(x)), 0.0, 2.0, 0.0),
    "exp": (lambda x: nd.square(nd.exp(x) - 1), 0.0, 2.0, 6.0),
}


@pytest.mark.parametrize("name", OPTIMA)
def test_derivatives_at_an_optimum(name):
    """The first cotangent is zero there, and the second derivative comes from its derivative alone."""
    f, at, second, third = OPTIMA[name]
    x = nd.array([at], dtype="float64")
    found = [d.item() for d in derivatives(f, x)]
    np.testing.assert_allclose(found, [0, second, third], atol=1e-12)
    total = nb.jit(nb.hessian(lambda x: f(x).sum()))
    np.testing.assert_allclose(total(x).asnumpy(), [[second]], atol=1e-12)
    along = nb.jvp(nb.grad(lambda x: f(x).sum()), (x,), (nd.ones_like(x),))[1]
    np.testing.assert_allclose(along.asnumpy(), [second], atol=1e-12)


def test_anomalies():
    x = nd.array([0.0, 4.0])
    x.attach_grad()
    with autograd.detect_anomaly():
        with autograd.record():
            y = nd.where(x > 0, nd.sqrt(x), 0 * x)
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), [0, 0.25])
        with autograd.record():
            y = nd.sqrt(x)
        with pytest.raises(autograd.AnomalyError, match="sqrt"):
            y.backward()


# The expression layer.

g, h, x = var("g"), var("h"), var("x0")


def test_strong_products_of_expressions():
    root = vjp(vm.sqrt(x), g, ["x0"])[0]
    assert strong(root, g) is not root
    assert strong(2 * g, g) == 2 * g and strong(-g, g) == -g  # nothing there can be infinite
    assert strong(root, ZERO) is ZERO and strong(root, 2.0) is root
    assert substitute(strong(root, g), {g: ZERO + 0}) is ZERO
    assert add(strong(root, g), strong(g * x, g)) == strong(root + g * x, g)
    by_g, by_x = vjp(strong(root, g), h, ["g", "x0"])
    assert by_g == vjp(root, h, ["g"])[0]  # not strong in g: the partial derivative, where g is zero, too
    assert by_x == strong(vjp(root, h, ["x0"])[0], g)
    total = vjp(3 * strong(root, g) + g, h, ["g", "x0"])  # also within sums and products
    assert total[0] == h + vjp(root, h * 3, ["g"])[0] and total[1] == strong(vjp(root, h * 3, ["x0"])[0], g)


# Loops.


def dead_values(x, taken):
    total = 0.0
    for i in range(x.size):
        a = math.sqrt(x[i])
        b = math.log(x[i])
        c = 1.0 / x[i]
        d = x[i] ** 0.3
        e = math.log1p(x[i] - 1.0)
        f = math.exp(1.0 / x[i])
        if taken[i] > 0.0:
            total += a + b + c + d + e + f
        total += 3.0 * x[i]
    return total


def dead_elements(x, taken):
    a, b, c = np.sqrt(x), np.log(x), 1.0 / x
    d = np.arccos(1.0 - x) + np.arctanh(1.0 - x) + np.cbrt(x)
    return np.sum(np.where(taken > 0.0, a, 3.0 * x) + np.where(taken > 0.0, b, 0.0) + np.where(taken > 0.0, c + d, 0.0))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("f", [dead_values, dead_elements], ids=lambda f: f.__name__)
def test_loops(f, dtype):
    x, none, ones = np.zeros(3, dtype), np.zeros(3, dtype), np.ones(3, dtype)
    adj = nb.adjoint(f, argnums=(0,))
    np.testing.assert_array_equal(adj.value_and_grad(x, none)[1][0], 3 * ones)
    if dtype == "float64":
        np.testing.assert_array_equal(nb.tangent(f, argnums=(0,)).jvp((x, none), (0 * ones,))[1], 0)
        np.testing.assert_array_equal(adj.hvp((x, none), (ones,))[0], 0 * ones)


def at_an_optimum(x):
    total = 0.0
    for i in range(x.size):
        a = math.log(x[i])
        b = 1.0 / x[i] - 1.0
        c = math.sqrt(x[i]) - 1.0
        total += a * a + b * b + c * c
    return total


def test_second_derivatives_of_loops_at_an_optimum():
    adj, x = nb.adjoint(at_an_optimum), np.array([1.0])
    assert adj.value_and_grad(x)[1][0][0] == 0
    np.testing.assert_allclose(adj.hvp((x,), (np.array([1.0]),))[0], [4.5])
    again = nb.adjoint(nb.tangent(at_an_optimum))
    np.testing.assert_allclose(again.vjp(x, np.array([1.0]))((0.0, 1.0))[0], [4.5])


# Random programs beside those without the branch that is not taken.

SMOOTH = ["sin", "exp", "square", "tanh", "negative"]
EDGY = ["sqrt", "log", "reciprocal", "arcsin", "arctanh", "log1p", "cbrt"]
TREES = st.recursive(
    st.sampled_from(["x", 0.5, 2.0]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(SMOOTH + EDGY), inner),
        st.tuples(st.sampled_from(["add", "multiply", "divide", "hypot", "maximum"]), inner, inner),
    ),
    max_leaves=5,
)


def evaluated(tree, x, v=None):
    if isinstance(tree, str):
        return {"x": x, "v": v}[tree]
    if isinstance(tree, float):
        return tree * nd.ones_like(x)
    name, *parts = tree
    parts = [evaluated(p, x, v) for p in parts]
    return nd.where(x > v, *parts) if name == "chosen" else getattr(nd, name)(*parts)


@given(TREES, TREES, st.lists(st.tuples(st.sampled_from(EDGES.tolist()), st.booleans()), min_size=1, max_size=6))
def test_random_branches(left, right, elements):
    x = nd.array([v for v, _ in elements], dtype="float64")
    taken = nd.array([float(t) for _, t in elements], dtype="float64")
    chosen = np.array([t for _, t in elements])
    found = derivatives(lambda x: nd.where(taken, evaluated(left, x), evaluated(right, x)), x, 2)
    sides = [derivatives(lambda x, tree=tree: evaluated(tree, x) + 0 * x, x, 2) for tree in (left, right)]
    for order, (d, a, b) in enumerate(zip(found, *sides, strict=True)):
        np.testing.assert_array_equal(d, np.where(chosen, a, b), f"order {order + 1}")


def weighted_roots(x, m):
    total = 0.0
    for i in range(x.size):
        total += 3.0 * x[i] - m[i] * math.sqrt(x[i]) * 2.0
    return total


def weighted_powers(x, m):
    total = 0.0
    for i in range(x.size):
        total += 3.0 * x[i] - m[i] * x[i] ** 0.5 - m[i] * x[i] ** 0.3 + m[i] * math.log(x[i] + 0.0)
    return total


@pytest.mark.parametrize("f", [weighted_roots, weighted_powers], ids=lambda f: f.__name__)
def test_factors_of_zero_within_statements(f):
    """What arrives at a pole within an expression counts, not what arrives at the expression."""
    x, m = np.array([0.0, 0.0, 4.0]), np.array([0.0, 1.0, 2.0])
    adj = nb.adjoint(f, argnums=(0,))
    found = adj.value_and_grad(x, m)[1][0]
    assert found[0] == 3 and np.isfinite(found[2])
    assert not np.isfinite(found[1])
    second = adj.hvp((x[[0, 2]], m[[0, 2]]), (np.ones(2),))[0]
    assert second[0] == 0 and np.isfinite(second[1])
