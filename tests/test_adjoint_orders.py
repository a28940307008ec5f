"""Adjoints and tangents of adjoints and tangents, and generated functions in compiled code."""

import math
import os

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_programs import copies, examples, floats, moved, places, plain_module, there
from random_loops import Program, arguments, function

import nbgrad as nb
from nbgrad.errors import AttrError
from nbgrad.loops import variants

EXAMPLES = int(os.environ.get("NBGRAD_EXAMPLES", "60")) // 20
RNG = np.random.default_rng(3)
PROGRAMS = examples()


@pytest.fixture
def uncompiled(monkeypatch):
    """Run generated code in Python: for arrays of few elements that is a hundred times faster than compiling it."""
    monkeypatch.setattr(variants, "compiled_module", plain_module)


def like(rng, x):
    return rng.normal(size=np.shape(x)) if np.ndim(x) else float(rng.normal())


def listed(found):
    return () if found is None else found if isinstance(found, tuple) else (found,)


def weights(rng, pull, args):
    """Cotangents of all outputs."""
    given, values = dict(zip(pull.parameters, args, strict=True)), listed(pull.value)
    found = [given[n] if np.ndim(given.get(n, 0.0)) else values[k] for k, n in enumerate(pull.outputs)]
    return tuple(like(rng, x) for x in found)


def second_order(f, args, seed=0):
    """Assert that Hessian products are differences of gradients, and that adjoint and tangent of the adjoint agree."""
    rng = np.random.default_rng(seed)
    adj = nb.adjoint(f)
    pull = adj.vjp(*copies(args))
    ws = weights(rng, pull, args)
    along = tuple(like(rng, args[k]) for k in floats(args))
    h = 1e-6
    up, down = (adj.vjp(*copies(moved(args, along, s * h)))(ws) for s in (1, -1))
    products = adj.hvp(args, places(args, along, len(args)), ws)
    for found, a, b in zip(*map(there, (products, up, down)), strict=True):
        expected = (np.asarray(a) - b) / (2 * h)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * (1 + np.max(np.abs(expected))))
    made = adj._generated(args)
    full = (
        *args,
        *made.cotangent_arguments(args, dict(zip(pull.outputs, ws, strict=True)), listed(pull.value)).values(),
    )
    again = nb.adjoint(adj).vjp(*copies(full))
    ws, along = weights(rng, again, full), tuple(like(rng, full[k]) for k in floats(full))
    terms = [np.sum(g * d) for g, d in zip(there(again(ws)), along, strict=True)]
    duals = listed(nb.tangent(adj).jvp(full, places(full, along, len(full)))[1])
    forward = sum(np.sum(w * d) for w, d in zip(ws, duals, strict=True))
    assert abs(sum(terms) - forward) <= 1e-11 * (1 + np.sum(np.abs(terms)))


def newton(a, b):
    """Trip counts that are not known in advance."""
    y = a
    while abs(y * y - a) > 1e-9:
        y = 0.5 * (y + a / y)
    for i in range(100):
        if y > 3.0 + i * b:
            break
        y = y * math.exp(0.1 * b) + 0.01 * i
    return y


def steps(u, v, n):
    """Arrays that are swapped, slices, and an array that is returned and overwritten."""
    new = u.copy()
    for _ in range(n):
        new[1:-1] = u[1:-1] * u[1:-1] + 0.3 * (u[:-2] + u[2:])
        u, new = new, u
    v[:] = v * v
    for i in range(v.size):
        v[i] *= v[i] ** 1.5
    return np.sum(u[1:] * v)


def gathered(x, index):
    """Integer arrays that are written, too."""
    s = 0.0
    for i in range(index.size):
        s += x[index[i]] ** 3
        index[i] = (index[i] + 1) % x.size
    for i in range(index.size):
        s *= x[index[i]]
    return s


OTHERS = {
    "newton": (newton, (7.3, 0.3)),
    "steps": (steps, (RNG.normal(size=6), 1 + RNG.random(5), 3)),
    "gathered": (gathered, (RNG.normal(size=4), np.array([0, 2, 2, 3]))),
}


@pytest.mark.parametrize("name", [*PROGRAMS, *OTHERS])
def test_second_order(name, uncompiled):
    second_order(*(PROGRAMS | OTHERS)[name])


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=True), seed=st.integers(0, 100))
def test_second_order_of_random_functions(random, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variants, "compiled_module", plain_module)
        second_order(function(Program(random).source()), arguments(seed), seed)


def energy(x, a):
    s = 0.0
    for i in range(1, x.size):
        s += math.lgamma(x[i]) * x[i - 1] ** 2
    return s * math.exp(a)


def test_hessian():
    x, a = 1 + RNG.random(4), 0.3
    adj = nb.adjoint(energy)
    columns = [adj.hvp((x, a), (e, None)) for e in np.eye(4)]
    found = np.array([np.append(xx, xa) for xx, xa in columns])
    digamma, trigamma = (lambda v: differences(math.lgamma, v), lambda v: differences(math.lgamma, v, 2))
    expected = np.zeros((4, 5))
    for i in range(1, 4):
        expected[i, i] += trigamma(x[i]) * x[i - 1] ** 2
        expected[i - 1, i - 1] += 2 * math.lgamma(x[i])
        expected[i, i - 1] += 2 * digamma(x[i]) * x[i - 1]
        expected[i - 1, i] += 2 * digamma(x[i]) * x[i - 1]
    gradient = adj.value_and_grad(x, a)[1][0]
    expected[:, :4] *= math.exp(a)
    expected[:, 4] = gradient
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    one = nb.adjoint(energy, argnums=0)
    np.testing.assert_allclose(one.hvp((x, a), (np.eye(4)[0],)), found[0, :4], rtol=1e-13)


def differences(f, x, order=1, h=1e-3):
    """Derivatives of order 1 and 2 by five-point differences."""
    low, l, r, high = f(x - 2 * h), f(x - h), f(x + h), f(x + 2 * h)  # noqa: E741
    if order == 1:
        return (low - 8 * l + 8 * r - high) / (12 * h)
    return (-low + 16 * l - 30 * f(x) + 16 * r - high) / (12 * h * h)


def test_hessians_known_from_formulas(uncompiled):
    product, (data, columns, starts, x, y) = PROGRAMS["csr_product"]
    w, d_data, d_x = RNG.normal(size=4), RNG.normal(size=6), RNG.normal(size=4)
    rows = np.repeat(np.arange(4), np.diff(starts))
    found = nb.adjoint(product).hvp((data, columns, starts, x, y), (d_data, None, None, d_x, None), w)
    np.testing.assert_allclose(found[0], w[rows] * d_x[columns], rtol=1e-14)
    np.testing.assert_allclose(found[3], np.bincount(columns, w[rows] * d_data, 4), rtol=1e-14, atol=1e-16)
    r = 1.3
    two = np.array([[0.0, 0.0, 0.0], [r, 0.0, 0.0]])
    found, _ = nb.adjoint(PROGRAMS["pairwise"][0]).hvp((two, 2.5), (np.array([[0, 0, 0], [1, 1, 0.0]]), None))
    along, across = 4 * (156 * r**-14 - 42 * r**-8), 4 * (-12 * r**-13 + 6 * r**-7) / r
    np.testing.assert_allclose(found, [[-along, -across, 0], [along, across, 0]], rtol=1e-13, atol=1e-13)


def test_compiled_functions_in_compiled_code():
    x, a = 1 + RNG.random(4), 0.3
    gradient, product = nb.adjoint(energy).compiled(x, a), nb.tangent(energy).compiled(x, a)

    @numba.njit
    def both(x, a, d):
        bar, dot = np.zeros_like(x), d.copy()
        value, slope = gradient(x, a, 1.0, bar)
        return value, slope, bar, product(x, a, dot, 0.0)

    d = RNG.normal(size=4)
    value, slope, bar, (again, derivative) = both(x, a, d)
    expected, (x_bar, a_bar) = nb.adjoint(energy).value_and_grad(x, a)
    assert value == pytest.approx(expected) == again
    assert slope == pytest.approx(a_bar)
    np.testing.assert_allclose(bar, x_bar, rtol=1e-14)
    assert derivative == pytest.approx(np.dot(bar, d))


def test_third_order(uncompiled):
    def f(x):
        y = 1.0
        for _ in range(4):
            y *= x
        return y

    third = nb.tangent(nb.tangent(nb.tangent(f)))
    assert third.jvp((2.0, 1.0, 1.0, 0.0), (1.0, 0.0, 0.0, 0.0))[1][-1] == 24 * 2.0
    back = nb.adjoint(nb.adjoint(nb.adjoint(f)))
    assert repr(back) == "<adjoint of f_adjoint_adjoint>"
    pull = back.vjp(2.0, 1.0, 0.0, 1.0)  # x, f_bar, and the second adjoint's cotangents of the value and the gradient
    gradients = dict(zip(pull.parameters, pull((0.0, 0.0, 1.0, 0.0)), strict=True))
    assert gradients["x"] == 24 * 2.0


def test_what_is_wrong_with_a_product():
    adj = nb.adjoint(PROGRAMS["sor"][0])
    args = PROGRAMS["sor"][1]
    with pytest.raises(AttrError, match="sor: hvp needs cotangents of u"):
        adj.hvp(args, (None, None, 1.0, None))
    with pytest.raises(AttrError, match=r"sor: 4 directions expected \(u, right, omega, \w+\), 1 given"):
        adj.hvp(args, (None,), args[0])
    with pytest.raises(AttrError, match=r"sor: 1 cotangents expected \(u\), 2 given"):
        adj.hvp(args, (None, None, 1.0, None), (None, None))


def test_kinds_of_arguments_say_what_is_differentiated(uncompiled):
    def f(x, s):
        return s * s * np.sum(x**2)

    x, adj = np.array([1.0, 2.0]), nb.adjoint(f)
    for _ in range(2):
        np.testing.assert_array_equal(adj.hvp((x, 3), (x, None))[0], 18 * x)
        along_x, along_s = adj.hvp((x, 3.0), (x, 1.0))
        np.testing.assert_array_equal(along_x, 18 * x + 12 * x)
        assert along_s == 2 * 5.0 + 12 * 5.0


def test_products_with_the_hessian_of_a_number_while_arrays_are_written(uncompiled):
    def decay(u, rate, steps):
        for _ in range(steps):
            for i in range(1, u.size):
                u[i] -= rate * u[i] * u[i - 1]
        return u[u.size - 1]

    args, along = (np.array([1.0, 2.0, 3.0]), 0.1, 2), (np.ones(3), 0.0, None)
    adj = nb.adjoint(decay)
    found, expected = adj.hvp(args, along), adj.hvp(args, along, (1.0, np.zeros(3)))
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1:] == expected[1:] and found[1] != 0.0
