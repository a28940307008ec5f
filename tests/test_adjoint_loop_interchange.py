"""Loops that change places, so that the inner one goes along rows: the same values, bit for bit, and gradients."""

import math

import numpy as np
import pytest
from loop_programs import agrees, copies, uncompiled
from random_loops import function

import nbgrad as nb
from nbgrad.loops.ir.passes import Pass, without

RNG = np.random.default_rng(11)
CHANGED = "Changed by loop interchange"


def doolittle(a):
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[k, j]
            a[i, j] /= a[j, j]
        for j in range(i, n):
            for k in range(i):
                a[i, j] -= a[i, k] * a[k, j]
    return np.sum(a * a)


def gram_schmidt(a):
    n, m = a.shape
    q, r = np.zeros((n, m)), np.zeros((m, m))
    for k in range(m):
        norm = 0.0
        for i in range(n):
            norm += a[i, k] * a[i, k]
        r[k, k] = math.sqrt(norm)
        for i in range(n):
            q[i, k] = a[i, k] / r[k, k]
        for j in range(k + 1, m):
            for i in range(n):
                r[k, j] += q[i, k] * a[i, j]
            for i in range(n):
                a[i, j] -= q[i, k] * r[k, j]
    return np.sum(q) + np.sum(r * r)


def by_columns(a, b):
    """Loops as in Fortran, with a scalar of each iteration and a branch."""
    n, m = a.shape
    for j in range(1, m):
        for i in range(1, n):
            s = a[i, j] * a[i - 1, j]
            if s > 0:
                b[i, j] = s * s
            else:
                b[i, j] += a[i, j]
    return np.sum(b**2)


def on_and_below(a, b):
    n = a.shape[0]
    for j in range(n):
        for i in range(j + 1):
            b[i, j] = a[i, j] * a[0, j]
    return np.sum(b**2)


def above(a, b):
    n = a.shape[0]
    for j in range(n):
        for i in range(j, n):
            b[i, j] = a[i, j] * a[0, j]
    for j in range(n):
        for i in range(j + 1, n):
            b[i, j] += a[i, j] * b[i, 0]
    return np.sum(b**2)


def down_the_columns(a):
    """Each row from the one above it."""
    n, m = a.shape
    for j in range(m):
        for i in range(1, n):
            a[i, j] += 0.5 * a[i - 1, j] * a[i, j]
    return np.sum(a)


def matrices(*shapes):
    return tuple(RNG.uniform(0.5, 1.5, s) for s in shapes)


CHANGED_PROGRAMS = [
    (doolittle, (RNG.uniform(0.1, 0.5, (5, 5)) + 3 * np.eye(5),)),
    (doolittle, matrices((1, 1))),
    (gram_schmidt, matrices((5, 4))),
    (by_columns, (RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3)))),
    (by_columns, (np.ones((0, 3)), np.ones((0, 3)))),
    (on_and_below, matrices((4, 4), (4, 4))),
    (above, matrices((4, 4), (4, 4))),
    (down_the_columns, matrices((4, 3))),
]


@pytest.mark.parametrize(("f", "args"), CHANGED_PROGRAMS)
def test_the_inner_loop_goes_along_rows(f, args):
    with uncompiled():
        assert CHANGED in nb.adjoint(f).explain(*args)
        value, gradients = nb.adjoint(f).value_and_grad(*copies(args))
        with without(Pass.LOOP_INTERCHANGE):
            plain, expected = nb.adjoint(f).value_and_grad(*copies(args))
    assert value == plain
    for g, e in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("f", "args"), [c for c in CHANGED_PROGRAMS if min(c[1][0].shape) > 1])
def test_derivatives(f, args):
    with uncompiled():
        assert agrees(f, args)


def test_compiled():
    args = (RNG.uniform(0.1, 0.5, (40, 40)) + 3 * np.eye(40),)
    assert agrees(doolittle, args)


# What stays as it is.


def against_a_dependence(a):
    for j in range(1, a.shape[1]):
        for i in range(a.shape[0] - 1):
            a[i, j] += 0.5 * a[i + 1, j - 1]
    return np.sum(a**2)


def total_by_columns(a):
    """A sum in the order of the columns."""
    s = 0.0
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            s += a[i, j] ** 3
    return s


def few_columns(a, b):
    for j in range(3):
        for i in range(a.shape[0]):
            b[i, j] = a[i, j] ** 2
    return np.sum(b**2)


def after_each_column(a, c):
    """What follows a column is read by iterations that would run before it."""
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            a[i, j] *= c[0]
        c[0] = c[0] * 0.9 + 0.01 * a[0, j]
    return np.sum(a)


def last_column(a):
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            a[i, j] = a[i, j] ** 2
    return np.sum(a) * a[0, j]


def bounds_in_a_list(a, stops):
    for j in range(a.shape[1]):
        for i in range(stops[j]):
            a[i, j] = a[i, j] ** 2
    return np.sum(a)


def into_a_vector(a, y):
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            y[i] += a[i, j] ** 2
    return np.sum(y**2)


def left_early(a):
    for j in range(a.shape[1]):
        for i in range(a.shape[0]):
            if a[i, j] < 0.6:
                break
            a[i, j] = a[i, j] ** 2
    return np.sum(a)


KEPT = [
    (against_a_dependence, matrices((3, 4))),
    (total_by_columns, matrices((3, 4))),
    (few_columns, matrices((5, 3), (5, 3))),
    (after_each_column, matrices((3, 4), (1,))),
    (last_column, matrices((3, 4))),
    (bounds_in_a_list, (*matrices((3, 4)), np.array([3, 1, 0, 2]))),
    (into_a_vector, matrices((3, 4), (3,))),
    (left_early, matrices((3, 4))),
]


@pytest.mark.parametrize(("f", "args"), KEPT)
def test_loops_that_stay(f, args):
    with uncompiled():
        assert CHANGED not in nb.adjoint(f).explain(*args)
        assert agrees(f, args)


# Random nests.

RANGES = [
    ("range(1, {end})", "range(1, {other})"),
    ("range(1, n)", "range(1, o)"),
    ("range(1, n)", "range(1, o + 1)"),
    ("range(1, n)", "range(o, n)"),
    ("range(1, n)", "range(o + 1, n)"),
    ("range(2, n - 1)", "range(2, o)"),
    ("range(1, n)", "range(2, o)"),
]
INDICES = ["i, o", "i, o", "i - 1, o", "i, o - 1", "i - 1, o - 1", "o, o", "i, i", "o, i", "0, o", "i, 0"]


def random_nest(rng):
    """The source of a function with two loops, around statements that may depend on each other."""
    pick = lambda options: options[rng.integers(len(options))]  # noqa: E731
    outer, inner = pick(RANGES)
    lines = [f"    for o in {outer.format(end='n')}:", f"        for i in {inner.format(other='n')}:"]
    element = lambda: f"{pick('ab')}[{pick(INDICES)}]"  # noqa: E731
    for _ in range(rng.integers(1, 3)):
        target = f"{pick('ab')}[{pick(INDICES[:4])}]"
        value = f"0.5 * {element()} + 0.25 * {element()} * {element()}"
        kind = rng.integers(4)
        if kind == 0:
            lines += [f"            if {element()} > 0.8:", f"                {target} = {value}"]
        elif kind == 1:
            lines += [f"            t = {value}", f"            {target} = t * 0.75"]
        else:
            lines += [f"            {target} {pick(['=', '-='])} {value}"]
    if rng.integers(3) == 0:
        lines += [f"        {pick('ab')}[o, o] = 0.5 * {element().replace('i', 'o')} + 0.1"]
    return "\n".join(["def f(a, b):", "    n = a.shape[0]", *lines, "    return np.sum(a**2) + np.sum(a * b)"])


def test_random_nests():
    rng, changed = np.random.default_rng(5), 0
    for _ in range(150):
        source = random_nest(rng)
        f = function(source)
        args = tuple(rng.uniform(0.2, 1.4, (2, 5, 5)))
        with uncompiled():
            changed += CHANGED in nb.adjoint(f).explain(*args)
            value, gradients = nb.adjoint(f).value_and_grad(*copies(args))
            with without(Pass.LOOP_INTERCHANGE):
                _, expected = nb.adjoint(f).value_and_grad(*copies(args))
        assert value == pytest.approx(f(*copies(args)), rel=1e-14), source
        for g, e in zip(gradients, expected, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-11, atol=1e-13, err_msg=source)
    assert changed > 30
