"""Checkpoints of loops in one another: the same gradients from snapshots of each."""

import ast
import os
import random as randomness

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_programs import plain_module
from random_loops import Program, arguments, function
from test_adjoint_checkpoint import gradients, same

import nbgrad as nb
from nbgrad.errors import AttrError, TraceError
from nbgrad.loops import variants
from nbgrad.loops.codegen.checkpoint_levels import rerun_iterations

EXAMPLES = int(os.environ.get("NBGRAD_EXAMPLES", "60")) // 6
COUNTS = ((1, 1), (2, 3), (5, 1), (1, 5), (50, 50))


def training(w, x, n, steps):
    """Epochs of steps; each epoch begins and ends with code that reads and changes what its steps read and change."""
    rate, loss = 0.1, 0.0
    v = np.zeros(w.size)
    for epoch in range(n):
        scale = rate / (1.0 + 0.3 * epoch)
        for i in range(w.size):
            v[i] = 0.5 * v[i] * v[i] + 0.01 * w[i]
        for t in range(steps):
            for i in range(w.size):
                g = np.sin(w[i] * x[(t + epoch) % x.size]) + v[i] * w[i - 1]
                v[i] = 0.9 * v[i] + g * scale
            for i in range(w.size):
                w[i] -= scale * v[i] * w[i]
        total = 0.0
        for i in range(w.size):
            total += w[i] * w[i]
            w[i] *= 1.0 - 0.01 * total
        loss += total * rate
        rate *= 0.9 - 0.01 * total
    for i in range(w.size):
        w[i] *= v[i] * rate
        v[i] = w[i] * w[i]
    return loss, v


W, X = np.linspace(0.4, 0.9, 3), np.linspace(-0.5, 0.8, 5)


@pytest.fixture
def uncompiled(monkeypatch):
    monkeypatch.setattr(variants, "compiled_module", plain_module)


@pytest.mark.parametrize("n, steps", [(0, 3), (3, 0), (1, 1), (4, 5)])
def test_epochs_of_steps(n, steps, uncompiled):
    same(training, (W, X, n, steps), COUNTS, ("epoch", "t"))
    same(training, (W, X, n, steps), ((2, 3),))


def waves(u, c, n):
    """Arrays that change places in both loops; three loops in one another, with steps and bounds that vary."""
    v = u.copy()
    energy = np.zeros(n + 1)
    for a in range(n, 0, -1):
        for b in range(0, 2 * a, 2):
            for k in range(b // 2 + 1):
                for i in range(1, u.size - 1):
                    v[i] = u[i] + c * (u[i - 1] - 2.0 * u[i] + u[i + 1]) * u[i] + 0.01 * k
                u2 = u[1] * v[2]
                for i in range(u.size):
                    u[i] = 0.9 * v[i] + 0.1 * u2
            energy[a] += u[b % u.size] ** 2
            c = c * 0.99 + 0.001 * u[2]
        c *= 1.0 + 0.01 * energy[a]
    return c, energy


def test_three_loops(uncompiled):
    same(waves, (np.linspace(0.1, 0.5, 6), 0.2, 3), ((1, 1, 1), (2, 1, 3), (4, 4, 4)), ("a", "b", "k"))
    same(waves, (np.linspace(0.1, 0.5, 6), 0.2, 3), ((2, 2),), ("a", "b"))


def swaps(x, n, m):
    p, q = x.copy(), 2.0 * x
    for _ in range(n):
        for k in range(m):
            for i in range(p.size):
                q[i] = np.cos(p[i]) * q[i - 1] + 0.1 * k
            p, q = q, p
        p[0] *= q[1]
    return p[0] * q[1]


def test_arrays_that_change_places(uncompiled):
    same(swaps, (W, 3, 3), COUNTS, ("_", "k"))


def newton(x, tolerance, n):
    """The trip counts of neither loop are known."""
    moved, k = 1.0, 0
    while moved > tolerance and k < n:
        y = x[0]
        for _ in range(20):
            d = (y * y - x[1]) / (2.0 * y)
            y -= d
            x[2] += 0.1 * d * y
            if d * d < tolerance:
                break
        x[1] = 0.5 * x[1] + 0.3 * y
        moved = abs(x[0] - y)
        x[0] = y
        k += 1
    return x[0] * x[2]


def test_trip_counts_that_are_not_known(uncompiled):
    for tolerance, n in ((1e-3, 30), (1e-6, 30), (1e-9, 4), (5.0, 3)):
        same(newton, (np.array([1.5, 2.3, 0.4]), tolerance, n), ((1, 1), (2, 3), (9, 9)))


def branches(x, n):
    """The first statement after the inner loop is a branch; what its test and body read is defined before that loop."""
    s = 1.0
    for t in range(n):
        a = x[t] * s
        c = np.sin(a)
        for k in range(3):
            s = s * np.cos(a) + c * x[k]
        if a > 0.5:
            s *= a * c
        b = s * a
        s += b * b
    return s


def prefix(x, n):
    """A branch is the last statement before the inner loop, which reads what is defined above the branch."""
    s = 1.0
    for t in range(n):
        a = x[t] * s
        b = a * a
        r = 1.0
        if t % 2:
            r = b * 0.3
        for k in range(3):
            s = s * np.cos(a * b) + r * x[k]
    return s


def only_definitions_before_a_branch(x, n):
    """The branch has no else, and only definitions come before it; the inner loop reads them as well."""
    s = 1.0
    for t in range(n):
        a = x[t] * 0.7
        b = a * a
        if t % 2:
            s += b
        for k in range(3):
            s = s * np.cos(a * b) + x[k]
    return s


@pytest.mark.parametrize("f", [branches, prefix, only_definitions_before_a_branch])
def test_branches_beside_the_inner_loop(f, uncompiled):
    same(f, (np.linspace(0.3, 0.9, 5), 4), COUNTS, ("t", "k"))


def changed_after_all_loops(x, n):
    """Derivatives do not read `c`, but iterations that run again do."""
    c, v = x.copy(), 0.5 * x
    s = 0.0
    for t in range(n):
        for k in range(3):
            for i in range(c.size):
                v[i] = v[i] * 0.9 + c[i] * 0.1
            s += v[k] * v[k] * v[k + 1]
        s *= 0.9 + 0.01 * t
    for i in range(c.size):
        c[i] = s
    return s * c[0]


def overwritten_before_it_is_read(x, n):
    """Iterations read of `p` only what they wrote, but the derivative of what comes before the loops reads it."""
    p = x.copy()
    s = p[0] * p[0] * np.sin(p[1])
    for t in range(n):
        for k in range(3):
            p[0] = s * 0.3 + x[k]
            p[1] = p[0] * x[t]
            s = 0.5 * s + np.sin(p[0] * p[1])
    return s


@pytest.mark.parametrize("f", [changed_after_all_loops, overwritten_before_it_is_read])
def test_what_a_snapshot_must_hold(f, uncompiled):
    same(f, (np.linspace(0.3, 0.9, 5), 4), COUNTS, ("t", "k"))
    same(f, (np.linspace(0.3, 0.9, 5), 4), (1, 2), "t")


def test_rounds_of_a_called_function(uncompiled):
    def step(u, rate):
        for t in range(4):
            u[t % u.size] = np.sin(u[t % u.size - 1]) * rate + u[t % u.size] ** 2 * 0.1
        return u[0] * u[1]

    def rounds(u, rate, n):
        total = 0.0
        for epoch in range(n):
            total += step(u, rate * (1.0 + epoch))
        return total

    same(rounds, (W, 0.7, 3), COUNTS, ("epoch", "t"))


def nests(source):
    """The names of loops directly in one another, outermost first."""
    found = []

    def visit(block, around):
        for s in block:
            if isinstance(s, ast.For):
                here = (*around, ast.unparse(s.target))
                found.append(here)
                visit(s.body, here)

    visit(ast.parse(source).body[0].body, ())
    return [names for names in found if len(names) > 1 and len(set(names)) == len(names)]


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6), counts=st.tuples(*[st.integers(1, 3)] * 4))
def test_random_functions(seed, counts):
    source = Program(randomness.Random(seed)).source()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variants, "compiled_module", plain_module)
        for names in nests(source):
            try:
                same(function(source), arguments(seed % 100), (counts[: len(names)],), names)
            except AttrError as e:  # a branch is between the loops, or targets are tuples
                assert "there is no loop over the variable" in str(e)


def paths(x, y, n, noise):
    """Independent paths: the iterations of the outer loop would be reversed one by one without checkpoints."""
    total = 0.0
    p = np.zeros(2)
    for i in range(x.size):
        p[0] = x[i]
        p[1] = y[0]
        for t in range(n):
            u, v = p[0], p[1]
            p[0] = u + 0.1 * u * (1.0 - v) + noise[i, t]
            p[1] = v + 0.1 * v * (y[1] * u - 1.0)
        total += p[0] * p[1] - x[i]
    return total / x.size


def test_independent_iterations_have_a_snapshot_each(uncompiled):
    args = np.linspace(0.5, 0.9, 4), np.array([0.7, 1.1]), 7, np.random.default_rng(1).normal(size=(4, 9)) * 0.1
    adj = same(paths, args, COUNTS, ("i", "t"))
    report = adj.report(*args)
    assert report["4 snapshots of total over i"] == 4 * 8
    assert report["iterations run again"] == 3
    assert report["50 snapshots of p over t"] == 50 * 16
    report = nb.adjoint(paths, checkpoint="auto", loop=("i", "t"), memory=100).report(*args)
    assert {k for k in report if "snapshots" in k} == {"4 snapshots of total over i", "4 snapshots of p over t"}


def test_compiled_and_reported():
    adj = same(training, (W, X, 6, 9), ((2, 3),), ("epoch", "t"))
    few, many = (adj.report(W, X, 6, steps) for steps in (9, 900))
    assert few == many  # memory grows neither with epochs nor with steps
    assert few["iterations run again"] == rerun_iterations(6, 2)
    assert {k: v for k, v in few.items() if "snapshots" in k} == {
        "2 snapshots of v, w, loss, rate over epoch": 2 * (2 * W.nbytes + 2 * 8),
        "3 snapshots of v, w over t": 3 * 2 * W.nbytes,
    }


def test_as_many_as_memory_holds(uncompiled):
    args = (W, X, 40, 50)
    plain = nb.adjoint(training).report(*args)
    assert nb.adjoint(training, checkpoint="auto", loop=("epoch", "t")).report(*args) == plain
    for memory, expected in ((432, [3, 5]), (1, [1, 1]), (9_000, [40, 134])):
        adj = nb.adjoint(training, checkpoint="auto", loop=("epoch", "t"), memory=memory)
        report = adj.report(*args)
        assert [int(k.split()[0]) for k in report if "snapshots" in k] == expected
        assert memory == 1 or sum(v for k, v in report.items() if "snapshots" in k) <= memory
        for a, b in zip(gradients(adj, args)[1], gradients(nb.adjoint(training), args)[1], strict=True):
            np.testing.assert_array_equal(a, b)


def test_inner_loops_that_store_nothing_have_no_checkpoints():
    def sums(x, n):
        s = 1.0
        for _t in range(n):
            for k in range(x.size):
                s += x[k]
            s = s * s * x[0]
        return s

    adj = nb.adjoint(sums, checkpoint=(2, 3), loop=("_t", "k"))
    report = adj.report(W, 4)
    assert [k for k in report if "snapshots" in k] == ["2 snapshots of s"]


def test_what_is_refused():
    with pytest.raises(TraceError, match=r"loop inside another one alone.*loop=\('epoch', 't'\)"):
        nb.adjoint(training, checkpoint=2, loop="t")
    with pytest.raises(AttrError, match="no loop over the variable q directly in the loop over epoch"):
        nb.adjoint(training, checkpoint=2, loop=("epoch", "q")).vjp(W.copy(), X, 2, 3)
    for wrong in ((2, 0), (), (2, "auto")):
        with pytest.raises(AttrError, match="checkpoint must be a number of snapshots, one for each"):
            nb.adjoint(training, checkpoint=wrong)
    with pytest.raises(AttrError, match=r"checkpoint=\(2, 3, 4\) and loop=\('epoch', 't'\) are for different numbers"):
        nb.adjoint(training, checkpoint=(2, 3, 4), loop=("epoch", "t"))
    for names in ((), ("epoch", None), ("epoch", 3)):
        with pytest.raises(AttrError, match="loop is the name of the loop's variable"):
            nb.adjoint(training, checkpoint=2, loop=names)
