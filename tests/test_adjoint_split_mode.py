"""Split mode: the two sweeps of a pullback give the gradients of the joint adjoint, at every call."""

import numpy as np
import pytest
from loop_programs import copies, there, uncompiled
from programs import PROGRAMS

import nbgrad as nb
from nbgrad.errors import NBGradError


def diffuse(u, k, steps):
    new = u.copy()
    for _ in range(steps):
        for i in range(1, u.size - 1):
            new[i] = u[i] + k * (u[i - 1] - 2.0 * u[i] + u[i + 1]) * u[i]
        u, new = new, u
    return u, k * new


def scaled(a, x):
    for i in range(x.size):
        x[i] *= a * x[i]
    y = x.copy()
    a *= y[0]
    return y, np.exp(y[0]), x, a


def energy(x):
    total = 0.0
    for i in range(x.size):
        for j in range(i):
            total += np.exp(-((x[i] - x[j]) ** 2))
    return total


X = np.array([0.3, -0.5, 0.7, 0.2, 0.4])
MORE = {f.__name__: (f, args) for f, args in {diffuse: (X, 0.1, 3), scaled: (0.7, X), energy: (X,)}.items()}


@pytest.mark.parametrize("name", [*PROGRAMS, *MORE])
def test_pullbacks(name):
    f, args = (PROGRAMS | MORE)[name]
    random = np.random.default_rng(5)
    with uncompiled():
        adj = nb.adjoint(f)
        args = adj._bound_arguments(args, {})  # with defaults filled in
        given, expected = copies(args), copies(args)
        pull = adj.vjp(*given)
        values = listed(f(*expected))
        for x, y in zip(listed(pull.value) + given, values + expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-13, err_msg="the function")
        arrays = [a for n, a in zip(pull.parameters, expected, strict=True) if n in pull.outputs]
        weights = [random.normal(size=np.shape(y))[()] for y in (*values, *arrays)][: len(pull.outputs)]
        made = adj._generated(args)
        whole = made(copies(args), dict(zip(pull.outputs, weights, strict=True)), values)[1]
        changed = [x for x, y in zip(given, args, strict=True) if not np.array_equal(x, y)]
        for y in (*listed(pull.value), *changed):  # the user may overwrite results
            if isinstance(y, np.ndarray) and (any(y is x for x in changed) or not any(y is x for x in given)):
                y[...] = 0
        for _ in range(2):
            for x, y in zip(there(pull(tuple(weights))), whole, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def listed(value):
    return () if value is None else value if isinstance(value, tuple) else (value,)


def test_what_is_gone_through_once_stays_so():
    assert nb.adjoint(energy).vjp(X)._split_variant is None
    pull = nb.adjoint(diffuse).vjp(X.copy(), 0.1, 3)
    assert pull._state is not None
    weights = np.ones(5), X, None
    first = pull(weights)
    assert pull._state is None  # the first call consumes it; the second runs the function again
    for x, y in zip(there(first), there(pull(weights)), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_wrong_cotangent_changes_nothing():
    pull = nb.adjoint(diffuse).vjp(X.copy(), 0.1, 3)
    for wrong in ((np.ones(4), X, None), (X, None)):
        with pytest.raises(NBGradError, match=r"shape|cotangents expected"):
            pull(wrong)
    assert pull._state is not None
