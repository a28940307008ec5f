"""Adjoints with checkpoints: the same gradients from fewer stored values."""

import os
import random as randomness
import re
from functools import cache
from textwrap import indent

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_programs import copies, examples, plain_module, there
from random_arrays import NAMES, ArrayProgram
from random_loops import Program, arguments, function

import nbgrad as nb
from nbgrad.errors import AttrError, NBGradError, TraceError
from nbgrad.loops import variants
from nbgrad.loops.codegen import module_source
from nbgrad.loops.codegen.checkpoint_levels import rerun_iterations

EXAMPLES = int(os.environ.get("NBGRAD_EXAMPLES", "60")) // 6
PROGRAMS = examples()
HEAT, (U, CONDUCTIVITY, DT, _) = PROGRAMS["heat"]


@pytest.fixture
def uncompiled(monkeypatch):
    monkeypatch.setattr(variants, "compiled_module", plain_module)


def listed(found):
    return () if found is None else found if isinstance(found, tuple) else (found,)


def gradients(adj, args):
    """The values, and the gradients for fixed random cotangents."""
    here = copies(args)
    pull = adj.vjp(*here)
    values = listed(pull.value)
    known = dict(zip(pull.parameters, args, strict=True)) | dict(zip(pull.outputs, values, strict=False))
    rng = np.random.default_rng(2)
    weights = {n: rng.normal(size=np.shape(known[n])) if np.ndim(known[n]) else 0.7 for n in pull.outputs}
    made = adj._generated(copies(args))
    results, found = made(copies(args), weights, values)
    return [*values, *results, *here], [*there(pull(tuple(weights.values()))), *found]


def same(f, args, counts=(1, 2, 5), loop=None):
    """Assert that gradients with and without checkpoints are the same."""
    expected = gradients(nb.adjoint(f), args)
    for count in counts:
        adj = nb.adjoint(f, checkpoint=count, loop=loop)
        for group, other in zip(gradients(adj, args), expected, strict=True):
            for a, b in zip(group, other, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15)
    return adj


@cache
def fewest(trips, snapshots):
    """The fewest iterations that must run besides the recorded ones, by exhaustive search."""
    if trips <= 1:
        return 0
    if snapshots == 1:
        return trips * (trips - 1) // 2
    return min(m + fewest(trips - m, snapshots - 1) + fewest(m, snapshots) for m in range(1, trips))


def test_the_schedule_runs_as_few_iterations_as_possible():
    names: dict = {}
    exec(module_source.routines({"ahead"}).replace("@njit\n", ""), names)

    def count(trips, snapshots):
        if trips <= 1:
            return 0
        m = names["ahead"](trips, snapshots)
        rest = count(trips - m, snapshots - 1) if trips - m > 1 else 0
        return m + rest + count(m, snapshots)

    for snapshots in (1, 2, 3, 4, 7):
        for trips in (0, 1, 2, 3, 4, 5, 9, 10, 11, 25, 40):
            found = rerun_iterations(trips, snapshots)
            assert found == fewest(trips, snapshots) == count(trips, snapshots), (trips, snapshots)
    assert rerun_iterations(1000, 10) == 4 * 1000 - 364


def counted(x, n, count):
    """`count` counts the iterations that run; it is not read, so that no snapshot holds it."""
    for t in range(n):
        for i in range(x.size):
            x[i] = np.sin(x[i]) + 0.1 * t


def test_iterations_that_run(uncompiled, monkeypatch):
    x = np.linspace(0.1, 0.9, 4)
    for n, k in ((0, 2), (1, 1), (7, 1), (20, 3), (30, 100)):
        adj = nb.adjoint(counted, checkpoint=k)
        seen = []
        made = adj._generated((x, n, 0))
        entry = plain_module("counted_adjoint", made.text.replace(" sin(x[i])", " sin(x[seen(i)])"))
        entry.__globals__["seen"] = lambda i, seen=seen: seen.append(i) or i
        monkeypatch.setattr(made, "_call", entry)
        made((x.copy(), n, 0), {"x": np.ones(4)})
        report = adj.report(x, n, 0)
        assert len(seen) // 4 == n + rerun_iterations(n, min(k, max(n, 1)))
        assert report["iterations run again"] == rerun_iterations(n, min(k, max(n, 1)))
        assert report[f"{min(k, max(n, 1))} snapshots of x"] == min(k, max(n, 1)) * x.nbytes


@pytest.mark.parametrize("name", ["heat", "lynx_hare", "cholesky", "sor", "lstm", "pairwise"])
def test_examples(name, uncompiled):
    same(*PROGRAMS[name])


def before_and_after(x, y, n):
    """Code before and after the loop, which reads and changes what its iterations read."""
    s = 0.0
    for i in range(x.size):
        x[i] *= x[i] + s
        s += x[i]
    history = np.zeros((n + 1, x.size))
    w = x.copy()
    v = x.copy()
    for t in range(3 * n, 0, -3):
        scale = s * np.exp(-0.1 * t)
        for i in range(1, t % 4 + 2):
            v[i] = np.tanh(w[i] * y[i - 1] * scale)
            history[t // 3, i] = v[i]
        w, v = v, w
        s += w[1] * w[2]
    for i in range(1, x.size):
        y[i] *= y[i - 1] + history[1, i] * history[2, i]
        s *= y[i]
    return s, w, history


def test_before_and_after_the_loop(uncompiled):
    x, y = np.linspace(0.5, 1.0, 6), np.linspace(0.9, 1.2, 6)
    for n in (2, 7):
        adj = same(before_and_after, (x, y, n), (1, 2, 4), loop="t")
    assert "history" not in adj._last.reverse.levels[0].state


def overwritten(x, n, ends):
    """The loop writes values that it does not read; the code after it changes some of them."""
    w = np.zeros(x.size)
    first = 0.0
    for _ in range(n):
        for i in range(x.size):
            x[i] *= x[i]
            w[i] = x[i]
        last = x[0]
        first = x[1]
        ends[0] = x[2]
    for i in range(w.size):
        w[i] = 0.5 * w[i] * x[0]
    last *= w[0]
    return w, last, first


def test_results_that_iterations_would_overwrite(uncompiled):
    same(overwritten, (np.linspace(0.5, 0.9, 4), 4, np.zeros(2)))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6), count=st.integers(1, 4))
def test_random_functions(seed, count):
    source = Program(randomness.Random(seed)).source()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variants, "compiled_module", plain_module)
        for loop in [None, *re.findall(r"^    for (\w+) in", source, re.MULTILINE)]:
            same(function(source), arguments(seed % 100), (count,), loop)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6), count=st.integers(1, 4))
def test_random_functions_of_arrays(seed, count):
    f = function(ArrayProgram(randomness.Random(seed)).source(), NAMES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(variants, "compiled_module", plain_module)
        try:
            same(f, arguments(seed % 100), (count,))
        except TraceError as err:
            assert re.search("different form|swapped|other names|another array|may be bound|random numbers", str(err))


def updates(random):
    """Whole arrays, and nests of loops with copies after them, that change a matrix in place."""
    values = ["np.sin(u[::-1])", "np.tanh(u.T)", "np.exp(0.1 * v)", "np.sin(u[:, ::-1])", "p * u.T", "np.cos(u + v)"]
    elements = ["u[n - 1 - i, j]", "u[j, i]", "u[i, n - 1 - j]", "u[i, j]", "v[i, j] + p"]

    def statement():
        a, b = random.choice("uv"), random.choice("uv")
        if random.random() < 0.5:
            return f"{a} {random.choice(['*=', '+=', '-='])} {random.choice(values)}\n"
        return f"""\
w = np.empty((n, n))
for i in range(n):
    for j in range(n):
        s = np.sin({random.choice(elements)})
        w[i, j] = {b}[i, j] {random.choice("*+-")} s * {random.choice(["s", "p", "0.5", "v[i, j]"])}
for i in range(n):
    for j in range(n):
        {a}[i, j] = w[i, j]
"""

    body = indent("".join(statement() for _ in range(random.randint(1, 3))), "    ")
    if random.random() < 0.5:
        body = f"    for t in range(3):\n{indent(body, '    ')}"
    return f"def f(u, v, p):\n    n = u.shape[0]\n{body}    return u[0, 0] * v[1, 0]\n"


@pytest.mark.parametrize("seed", range(20))
def test_arrays_in_place(seed, uncompiled):
    source = updates(randomness.Random(seed))
    u, v = np.random.default_rng(seed).normal(size=(2, 3, 3)) * 0.7
    same(function(source), (u, v, 0.6), (1, 2))
    for loop in re.findall(r"^    for (\w+) in", source, re.MULTILINE):
        same(function(source), (u, v, 0.6), (2,), loop)
    if "for t" in source and "for i" in source:
        same(function(source), (u, v, 0.6), ((2, 1),), ("t", "i"))


def test_compiled():
    for n in (1, 12):
        adj = same(HEAT, (U, CONDUCTIVITY, DT, n), (3,))
    small, large = (adj.report(U, CONDUCTIVITY, DT, n) for n in (10, 1000))
    assert large.pop("iterations run again") == rerun_iterations(1000, 3)
    del small["iterations run again"]
    assert small == large  # memory does not grow with the number of iterations
    entry = adj.compiled(U, CONDUCTIVITY, DT, 12)
    bars = np.ones_like(U), np.zeros_like(U)
    entry(U.copy(), CONDUCTIVITY, DT, 12, *bars, 3)
    expected = nb.adjoint(HEAT).vjp(U.copy(), CONDUCTIVITY, DT, 12)(np.ones_like(U))
    np.testing.assert_array_equal(bars[0], expected[0])


def test_as_many_as_memory_holds(uncompiled):
    args = (U, CONDUCTIVITY, DT, 60)
    plain = nb.adjoint(HEAT).report(*args)
    assert nb.adjoint(HEAT, checkpoint="auto").report(*args) == plain  # everything fits
    bounded = nb.adjoint(HEAT, checkpoint="auto", memory=3 * 2 * U.nbytes)
    assert bounded.report(*args)["3 snapshots of new, u"] == 3 * 2 * U.nbytes
    for adj in (bounded, nb.adjoint(HEAT, checkpoint="auto", memory=1), nb.adjoint(HEAT, checkpoint="auto")):
        for a, b in zip(gradients(adj, args)[1], gradients(nb.adjoint(HEAT), args)[1], strict=True):
            np.testing.assert_array_equal(a, b)


def test_reverse_over_forward(uncompiled):
    """Hessian products with checkpoints: the adjoint of the tangent."""
    f, args = PROGRAMS["sor"]
    weights, along = np.ones_like(args[0]), (np.full((5, 6), 0.5), np.full((5, 6), 0.3), 0.5)
    expected = nb.adjoint(f).hvp(args, (*along, None), weights)[:3]
    over = nb.adjoint(nb.tangent(f), argnums=(0, 1, 2), checkpoint=2)
    pull = over.vjp(*copies((*args, *along)))
    found = pull(tuple(weights if n == "u_dot" else None for n in pull.outputs))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


def unknown(x, limit):
    s = 1.0
    while s < limit:
        for i in range(x.size):
            s += x[i] * s
    return s


def leaves(x, limit):
    for _ in range(100):
        for i in range(x.size):
            x[i] *= x[i]
        if x[0] < limit:
            break


def returns(x, tolerance):
    """A scalar and a bool that iterations change, and elements that only some iterations set."""
    odd, best = False, np.zeros(2)
    for t in range(40, 0, -3):
        size = 0.0
        for i in range(x.size):
            old = x[i]
            x[i] = 0.5 * x[i] + 0.3 * np.sin(x[i - 1] + t)
            size += (x[i] - old) ** 2
        odd = not odd
        if odd:
            best[t % 2] = x[1] * size
        if size < tolerance:
            return x[0] * best[0]
    return x[1] * best[1]


@pytest.mark.parametrize("f", [unknown, leaves, returns])
def test_loops_whose_trip_count_is_not_known(f, uncompiled):
    """They run once before, to count their iterations."""
    x = np.linspace(0.3, 0.8, 3)
    for limit in (0.5, 1.2, 30.0) if f is unknown else (0.9, 1e-3, -1.0):
        adj = same(f, (x, limit), (1, 2, 50))
        trips = nb.adjoint(f, checkpoint="auto", memory=1).report(x, limit)
        assert "iterations run again" in trips
    assert adj.report(x, limit)["50 snapshots of " + ", ".join(adj._last.reverse.levels[0].state)] > 0


def test_what_has_no_checkpoints():
    with pytest.raises(TraceError, match="loop inside another one"):
        nb.adjoint(HEAT, checkpoint=3, loop="j")
    with pytest.raises(AttrError, match="there is no loop over the variable q"):
        nb.adjoint(HEAT, checkpoint=3, loop="q")
    with pytest.raises(AttrError, match="there is no loop over the variable q"):
        nb.adjoint(nb.adjoint(HEAT), checkpoint=3, loop="q").compiled(*PROGRAMS["heat"][1], U, U)
    with pytest.raises(AttrError, match=r"loop is the name of the loop's variable, as in loop='t', or .*; got 3"):
        nb.adjoint(HEAT, checkpoint=3, loop=3)
    for wrong in (0, "all", 1.5):
        with pytest.raises(AttrError, match="checkpoint must be"):
            nb.adjoint(HEAT, checkpoint=wrong)
    with pytest.raises(AttrError, match="loop and memory are for checkpoints"):
        nb.adjoint(HEAT, loop="i")
    with pytest.raises(NBGradError, match=r"nb.adjoint\(nb.tangent\(f\), checkpoint"):
        nb.adjoint(HEAT, checkpoint=3).hvp((U, CONDUCTIVITY, DT, 3), (U, None, None, None), U)
    assert nb.adjoint(PROGRAMS["csr_product"][0], checkpoint=3).report(*PROGRAMS["csr_product"][1]) == {}


def weighted_sum(x, u):
    s = 0.3
    for i, (v, w) in enumerate(zip(x, u)):
        s = np.sin(s * v) + w * u[i]
    return s


@pytest.mark.parametrize("name", ["i", "v", "w", "i, (v, w)", "(i, (v, w))"])
def test_loops_with_several_variables_are_named_by_any(name):
    x = np.linspace(0.1, 1.0, 7)
    adj = nb.adjoint(weighted_sum, checkpoint=2, loop=name)
    value, gradients = adj.value_and_grad(x, 2.0 * x)
    expected = nb.adjoint(weighted_sum).value_and_grad(x, 2.0 * x)
    assert "2 snapshots of s" in str(adj.report(x, 2.0 * x))
    assert value == expected[0]
    np.testing.assert_array_equal(gradients, expected[1])


def test_loops_after_an_early_return():
    def guarded(x):
        s = 0.3
        if x.size == 0:
            return 0.0
        for i in range(x.size):
            s = np.sin(s * x[i])
        return s

    with pytest.raises(AttrError, match=r"the loop over the variable i is in a branch.*function of its own"):
        nb.adjoint(guarded, checkpoint=2, loop="i").value_and_grad(np.ones(3))


def test_lists_that_grow_in_iterations():
    def listed(x):
        s = 0.0
        for t in range(x.size):
            both = []
            for k in range(3):
                both.append(x[t] * k)
            s = np.sin(s + both[1])
        return s

    with pytest.raises(TraceError, match=r"the list both grows; store into an array"):
        nb.adjoint(listed, checkpoint=2).value_and_grad(np.ones(3))
