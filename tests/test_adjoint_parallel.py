"""Parallel loops in functions that are differentiated: which run on several threads, with the same bits."""

import hashlib
import inspect
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from loop_programs import agrees, copies, places, there, uncompiled
from random_loops import function

import nbgrad as nb
from nbgrad.backends.numba.code_store import history
from nbgrad.loops.ir.passes import Pass, without

RNG = np.random.default_rng(9)


def heat(u, alpha, steps):
    n, m = u.shape
    u = u.copy()
    new = u.copy()
    for _ in range(steps):
        for i in numba.prange(1, n - 1):
            for j in range(1, m - 1):
                flow = u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1] - 4.0 * u[i, j]
                new[i, j] = u[i, j] + alpha * flow
        u, new = new, u
    return u.copy()


def total(x, a):
    s, count = 0.5, 0
    for i in numba.prange(x.size):
        v = math.sin(x[i]) * a
        if v > 0.0:
            s += v * v
            count += 1
        else:
            s -= v
    return s * a, count


def layer(x, w, b):
    y = np.zeros((x.shape[0], w.shape[0]))
    for i in numba.prange(x.shape[0]):
        for j in range(w.shape[0]):
            acc = b[j]
            for k in range(w.shape[1]):
                acc += w[j, k] * x[i, k]
            y[i, j] = math.exp(-acc * acc)
    return y


def powers(x, n):
    y = np.empty_like(x)
    for i in numba.prange(x.size):
        p = x[i]
        for _ in range(n):
            p *= x[i] * p
        y[i] = p
    for i in numba.prange(x.size):
        p = y[i] + 1.0
        p = p * p * x[i]
        y[i] = p + math.sin(p)
    return y


def paths(noise, rate, start):
    mean = 0.0
    for k in numba.prange(noise.shape[0]):
        price = start
        t = 0
        while t < noise.shape[1] and price < 3.0:
            price *= 1.0 + rate * noise[k, t]
            t += 1
        mean += price
    return mean / noise.shape[0]


def choices(x, y, a):
    for i in numba.prange(x.size):
        if x[i] > 0.0:
            v = x[i] * a
        else:
            v = a / (2.0 + x[i] * x[i])
        y[i] += v * v


def scratch(x, w, power):
    y = np.zeros(x.shape[0])
    for i in numba.prange(1, x.shape[0]):
        row = np.empty(x.shape[1])
        for k in range(x.shape[1]):
            row[k] = x[i, k] * w[i]
        for k in range(1, x.shape[1]):
            row[k] = row[k] * row[k - 1] + math.sin(row[k])
        y[i] = np.sum(row) ** power
    return y


def helper(u, v, c):
    for i in numba.prange(1, u.size - 1):
        v[i] = u[i] + c * (u[i - 1] - 2.0 * u[i] + u[i + 1]) * u[i]


def called(u, c, steps):
    v = u.copy()
    for _ in range(steps):
        helper(u, v, c)
        helper(v, u, c)
    return np.sum(u * v)


#: Functions with arguments, and whether their loops over prange are parallel in the forward and reverse sweep.
PROGRAMS = {
    heat: ((RNG.normal(size=(6, 7)), 0.1, 3), True, True),
    total: ((RNG.normal(size=9), 1.3), True, True),
    layer: ((RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3)), RNG.normal(size=5)), True, True),
    powers: ((0.3 + 0.1 * RNG.random(5), 3), True, True),
    paths: ((RNG.normal(size=(6, 4)), 0.1, 1.0), False, False),
    choices: ((RNG.normal(size=7), RNG.normal(size=7), 0.7), True, True),
    scratch: ((RNG.normal(size=(5, 4)), RNG.normal(size=5), 2), True, True),
    called: ((RNG.normal(size=8), 0.1, 2), True, True),
}


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(f):
    with uncompiled():
        agrees(f, PROGRAMS[f][0])


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_what_is_parallel(f):
    args, forwards, backwards = PROGRAMS[f]
    with uncompiled():
        found = nb.adjoint(f).parallel(*copies(args))
    assert found
    for head, how in found.items():
        expected = backwards if head.endswith("in reverse") else forwards
        assert how.startswith("parallel") == expected, (head, how)


def outcome(f, args):
    """Everything that the generated function returns and writes."""
    adj = nb.adjoint(f)
    here = copies(args)
    pull = adj.vjp(*here)
    value = () if pull.value is None else pull.value if isinstance(pull.value, tuple) else (pull.value,)
    every = [*value, *(here[pull.parameters.index(n)] for n in pull.outputs[len(value) :])]
    weights = tuple(np.cos(np.arange(np.size(v)).reshape(np.shape(v))) if np.ndim(v) else 1.0 for v in every)
    ones = [np.ones_like(args[k]) if np.ndim(args[k]) else 1.0 for k in floats(args)]
    tangents = nb.tangent(f).jvp(args, places(args, ones, len(args)))
    derivatives = tangents[1] if isinstance(tangents[1], tuple) else (tangents[1],)
    return [
        np.copy(a) for a in (*value, *here, *there(pull(weights if len(weights) > 1 else weights[0])), *derivatives)
    ]


def floats(args):
    return [k for k, a in enumerate(args) if isinstance(a, float) or (np.ndim(a) and a.dtype.kind == "f")]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_same_as_in_turn(f):
    """Runs the iterations in shuffled order."""
    args = PROGRAMS[f][0]
    texts = [re.sub(r"def \w+", "def f", inspect.getsource(g)).replace("numba.prange", "range") for g in (f, helper)]
    plain = function(texts[0], {"helper": function(texts[1].replace("def f", "def helper"), name="helper")})
    with uncompiled():
        found, expected = outcome(f, args), outcome(plain, args)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("size", range(5))
def test_small_arrays(size):
    with uncompiled():
        agrees(heat, (RNG.normal(size=(size, 3)), 0.1, 2))
        agrees(heat, (RNG.normal(size=(3, size)), 0.1, 2))
        agrees(called, (RNG.normal(size=size), 0.1, 2))
        agrees(total, (RNG.normal(size=size), 1.3))
        agrees(powers, (RNG.random(size), 2))


def test_other_layouts():
    with uncompiled():
        agrees(heat, (np.asfortranarray(RNG.normal(size=(12, 14)))[::2, ::2], 0.1, 2))


def compiled(f, args):
    """What the compiled adjoint returns and writes."""
    made = nb.adjoint(f)._generated(args)
    here, results = copies(args), f(*copies(args))
    results = dict(zip(made.f.results or [], results if isinstance(results, tuple) else (results,), strict=False))
    weights = {n: np.cos(np.arange(np.size(y)).reshape(np.shape(y))) if np.ndim(y) else 1.0 for n, y in results.items()}
    values, gradients = made(here, weights)
    return [np.asarray(a) for a in (*values, *here, *gradients)]


def test_single_precision():
    u = RNG.normal(size=(5, 6))
    single = compiled(heat, (u.astype(np.float32), 0.1, 2))
    assert single[0].dtype == single[-2].dtype == np.float32
    with uncompiled():
        double = compiled(heat, (u, 0.1, 2))
    for a, b in zip(single, double, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def digest():
    """A hash of the bits of outcomes, at sizes that threads do not divide evenly."""
    rng, found = np.random.default_rng(4), hashlib.sha256()
    large = {
        heat: (rng.normal(size=(37, 41)), 0.1, 5),
        total: (rng.normal(size=1003), 0.7),
        powers: (rng.random(101), 2),
        scratch: (rng.normal(size=(13, 4)), rng.normal(size=13), 2),
    }
    for f, args in large.items():
        for a in compiled(f, args):
            found.update(a.tobytes())
    for a in nb.tangent(total).jvp(large[total], (np.ones(1003), 0.5)):
        found.update(np.asarray(a).tobytes())
    return found.hexdigest()


def test_bits_do_not_depend_on_threads():
    found = {
        subprocess.run(
            [sys.executable, "-c", "import test_adjoint_parallel as t; print(t.digest())"],
            cwd=Path(__file__).parent,
            env={**os.environ, "NUMBA_NUM_THREADS": str(threads)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in (1, 3)
    }
    assert len(found) == 1


def test_called_from_compiled_code():
    u = RNG.normal(size=(9, 8))
    adjoint = nb.adjoint(heat).compiled(u, 0.1, 4)

    @numba.njit
    def user(u, u_bar):
        v, alpha_bar = adjoint(u, 0.1, 4, np.ones_like(u), u_bar)
        return alpha_bar + v[4, 4]

    u_bar = np.zeros_like(u)
    found = user(u, u_bar)
    with uncompiled():
        pull = nb.adjoint(heat).vjp(u, 0.1, 4)
        expected, alpha_bar, _ = pull(np.ones_like(u))
    np.testing.assert_allclose(u_bar, expected, rtol=1e-13)
    np.testing.assert_allclose(found, alpha_bar + pull.value[4, 4], rtol=1e-13)


def test_second_derivatives():
    args = RNG.normal(size=6), 0.3, 2
    d = RNG.normal(size=6), 0.7, None
    weights = (1.0, np.zeros(6))
    with uncompiled(shuffle=False):
        f = nb.adjoint(called)
        products = f.hvp(args, d, weights)
        up, down = (f.vjp(args[0] + h * d[0], args[1] + h * d[1], 2)(weights) for h in (1e-6, -1e-6))
    for a, b, c in zip(*map(there, (products, up, down)), strict=True):
        np.testing.assert_allclose(a, (b - c) / 2e-6, rtol=1e-6, atol=1e-7)


def test_checkpoints():
    args = RNG.normal(size=(5, 6)), 0.1, 7
    with uncompiled():
        pulls = [nb.adjoint(heat, checkpoint=count).vjp(*args) for count in (None, 2)]
        gradients = [pull((np.ones((5, 6)), *[None] * (len(pull.outputs) - 1))) for pull in pulls]
    for a, b in zip(*map(there, gradients), strict=True):
        np.testing.assert_array_equal(a, b)
    adj = nb.adjoint(heat, checkpoint=2)
    with uncompiled():
        assert set(adj.parallel(*args).values()) == {"parallel"}
    assert adj.source.count(" in prange(") == 4


def test_what_is_compiled_for_other_types_and_stored():
    """Numba drops the options of `parallel` when it compiles; they are needed again, and are part of the cache key."""
    x = np.linspace(0.0, 1.0, 7)

    def weighed(x, k):
        e = 0.0
        for i in numba.prange(x.size):
            e += k * x[i] * x[i]
        return e

    first, again = nb.adjoint(weighed), nb.adjoint(weighed)
    for dtype in ("float64", "float32"):
        first.value_and_grad(x.astype(dtype), 0.3)
    entry = first._last.entry
    assert len(entry.signatures) == 2
    assert entry.targetoptions["parallel"]["reduction"] is False
    again.value_and_grad(x, 0.3)
    stored = again._last.entry
    assert stored is not entry
    key = stored._cache.key(stored.signatures[0])
    assert history[key] == "loaded"


def only_otherwise(x, w, a):
    for i in numba.prange(x.size):
        b = w[i] > 0.1
        if b:
            pass
        else:
            x[i] = x[i] + np.tanh(a * w[i]) * x[i]


def test_a_branch_of_which_only_the_other_one_is_undone():
    with uncompiled():
        agrees(only_otherwise, (np.array([0.3, 0.5, 0.7]), np.array([0.05, 0.5, -0.3]), 0.4))


RAMP = np.arange(6.0)


def sums_of_columns(u, a):
    s = 0.5
    for i in numba.prange(4):
        s = np.sin(s) + np.max(np.cumsum(u[:, i]) + RAMP[:4]) * a
    return s


def arrays_of_turns(x, u, a):
    t = 0.0
    for i in numba.prange(4):
        v = np.max(np.cumsum(u[:, i]) + RAMP[:4]) * a
        x += 0.1 * x[::-1] * v
        t += v
    return t


def test_arrays_of_turns_get_one_axis():
    with uncompiled():
        agrees(sums_of_columns, (RNG.normal(size=(4, 4)), 0.3))
        agrees(arrays_of_turns, (np.ones(3), RNG.normal(size=(4, 4)), 0.3))


def weighed_pair(pair, x):
    k, shift = pair
    e = 0.0
    for i in numba.prange(x.size):
        e += k * x[i] + shift
    return e


def test_what_is_parallel_with_tuples_as_arguments():
    assert set(nb.adjoint(weighed_pair).parallel((0.3, 0.1), np.ones(3)).values()) == {"parallel"}


def test_what_is_stored_of_a_private_scalar_that_occurs_elsewhere():
    """What it was before the loop, which the derivative of the statement before reads, is that of another scalar."""

    def f(x, a):
        s, t = 0.5, 0.3
        for i in range(2, -1, -1):
            for j in numba.prange(2, x.size):
                t = math.sin(x[j] * a)
                if x[j] > 0.1:
                    t = a * x[j - 1]
                s += t * t
            t = math.sin(x[i])
            s += t * t
        return s

    args = np.array([0.4, -0.2, 0.7, -0.5, 0.3]), 1.3
    with uncompiled():
        agrees(f, args)
        with without(Pass.RENAMING, Pass.SAVES_BEFORE_LOOPS):
            agrees(f, args)


def test_views_of_private_arrays_are_checked_against_their_own_length():
    def f(x, places, out):
        row = np.empty(5)
        for i in numba.prange(x.size):
            for k in range(5):
                row[k] = x[i] * (k + 1.0)
            part = row[1:]
            out[i] = part[places[i]]

    adj = nb.adjoint(f)
    for n in (3, 10):  # fewer and more than the array has elements
        x, places = np.arange(1.0, n + 1), np.full(n, 2)
        with uncompiled():
            (gradient, _, _) = adj.vjp(x, places, np.zeros(n))(np.ones(n))
            np.testing.assert_array_equal(gradient, np.full(n, 4.0))
            places[1] = 4
            with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 of part with size 4"):
                adj.vjp(x, places, np.zeros(n))
