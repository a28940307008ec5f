"""Arguments that are reshaped and written: the elements are those of the argument, as NumPy has it where it is
contiguous."""

import random
from textwrap import indent

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from programs.data import normal
from random_loops import function

import nbgrad as nb
from nbgrad.errors import AttrError


def part(y):
    m = y[0:4].reshape(2, 2)
    m[0, 1] = m[1, 0] * 2.0 + m[0, 1] ** 2


def result_is_a_view(y, x):
    for i in range(2):
        y[i, 1] += x[i] ** 2
    return y.ravel()


def flat(y, x, index):
    for i in index:
        y.flat[i] += x[i] ** 2
    return y


def two(x, y, n):
    a, b = x.reshape(n, -1), y.reshape(n, -1)
    for i in range(n):
        b[i] = a[i] * a[(i + 1) % n] + b[i] ** 2


def recurrence(y):
    r = y.ravel()
    for k in range(1, r.size):
        r[k] = r[k] * r[k - 1]
    return np.sum(y**2)


def slices(y, w):
    v = y.reshape(-1, 2)
    v[:, 0] += w * v[:, 1]
    v *= 1.5
    return y.sum() * w


def under_its_own_name(y):
    y = y.reshape(y.shape[0], -1)
    y[0] = y[1] * 2.0
    return y


CASES = [
    (part, (normal(6),)),
    (result_is_a_view, (normal(2, 3), normal(2))),
    (flat, (normal(2, 3), normal(6), np.array([0, 3, 3, 5]))),
    (two, (normal(6), normal(2, 3), 3)),
    (recurrence, (normal(4, 3),)),
    (slices, (normal(4, 4), 0.7)),
    (under_its_own_name, (normal(3, 2, 2),)),
]


@pytest.mark.parametrize("f, args", CASES)
def test_written(f, args):
    with uncompiled():
        agrees(f, args)


def test_compiled():
    agrees(two, CASES[3][1])
    agrees(recurrence, CASES[4][1])


@pytest.mark.parametrize("layout", [lambda y: y[:, ::2], lambda y: y[:, :2], lambda y: y[::2], lambda y: y[::-1]])
def test_what_numpy_copies_is_refused(layout):
    for _ in range(2):  # the second call takes the short way
        y = normal(4, 4)
        before = y.copy()
        with uncompiled(), pytest.raises(AttrError, match=r"the array y is not contiguous.*pass np.ascontiguous"):
            nb.adjoint(recurrence).value_and_grad(layout(y))
        np.testing.assert_array_equal(y, before)
        with uncompiled():
            assert nb.adjoint(recurrence).value_and_grad(np.ones((2, 3)))[0] == 6.0


#: Statements over a vector v and a matrix w on the elements of y.
VECTORS = [
    "for i in range(1, v.size):\n        v[i] = v[i] * v[i - 1] + 0.1",
    "v[2:5] = v[4:7] * 0.5",
    "for i in range(v.size):\n        s += v[i] ** 2\n        v[i] += s * x[i % x.size]",
    "v *= 1.1",
    "v -= 0.1 * v",
    "s += np.sum(v * v)",
    "v[:] = np.sin(v)",
    "if s < 100.0:\n        v[:] = v * 0.5 + 0.1",
]
MATRICES = [
    "for i in range(w.shape[0]):\n        for j in range(w.shape[1]):\n"
    "            w[i, j] = w[i, j] * x[j % x.size] + 0.1 * w[(i + 1) % w.shape[0], j]",
    "w[0] = w[1] * 2.0 + w[0]",
    "w[:, 0] += np.sum(w, axis=1) * 0.1",
    "for i in range(w.shape[0]):\n        s += np.dot(w[i], w[i])\n        w[i, 0] = np.sin(s)",
    "y *= 0.9",
    "s += np.sum(w * w * 0.5)",
    "w += 0.1 * np.sin(w * w)",
]


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed):
    choose, rng = random.Random(seed), np.random.default_rng(seed)  # of its own: what else runs makes no difference
    vector = choose.choice(["y.ravel()", "y.reshape(-1)"])
    matrix = choose.choice(["y.reshape(6, 2)", "y.reshape(2, -1)", "y.reshape(n, -1)", "v.reshape(3, 4)"])
    body = [f"v = {vector}", f"w = {matrix}", "s = 0.0"]
    statements = [choose.choice(VECTORS + MATRICES) for _ in range(3)]
    if choose.random() < 0.5:
        statements = ["for t in range(3):", *[indent(s, "    ") for s in statements]]
    body += statements
    body += [choose.choice(["return s + np.sum(y * y)", "return y, s", "return v", "return w, s"])]
    source = "def f(y, x, n):\n" + "".join(f"    {line}\n" for line in body)
    shape = choose.choice([(4, 3), (2, 6), (12,), (2, 2, 3)])
    with uncompiled():
        agrees(function(source), (0.3 * rng.normal(size=shape), rng.uniform(-1, 1, 4), 2))


def written_in_a_loop(y):
    v = y.reshape(-1)
    for _ in range(3):
        v *= 2
    return y[1, 2]


def read_as_a_whole(y):
    s = 0.0
    for _ in range(3):
        y[1, 1] *= 2
        s += np.sum(y.reshape(-1) ** 2)
    return s


def scaled(v):
    for _ in range(3):
        v -= 0.1 * v


def in_a_called_function(y):
    scaled(y.ravel())
    return y[1, 2]


def of_a_tuple(pair):
    v = pair[0].reshape(-1)
    for _ in range(2):
        v *= pair[1]
    return np.sum(pair[0] ** 2)


@pytest.mark.parametrize("f", [written_in_a_loop, read_as_a_whole, in_a_called_function])
def test_no_copy_of_what_is_written(f):
    """The copy that whole operands read is not made once where the array is written."""
    with uncompiled():
        agrees(f, (normal(3, 4),))


def test_no_copy_of_an_item_that_is_written():
    y = normal(3, 4)
    with uncompiled():
        value, ((gradient, factor),) = nb.adjoint(of_a_tuple).value_and_grad((y.copy(), 2.0))
    np.testing.assert_allclose(value, 16 * np.sum(y**2))
    np.testing.assert_allclose(gradient, 32 * y)
    np.testing.assert_allclose(factor, 32 * np.sum(y**2))


NEW_AXES = ["x[:, None].ravel()", "x[None].ravel()", "np.expand_dims(x, 0).ravel()", "np.atleast_2d(x).reshape(-1)"]


@pytest.mark.parametrize("view", NEW_AXES)
def test_new_axes_share_the_elements(view):
    f = function(f"def f(x, a):\n    v = {view}\n    v[0] = a * v[2]\n    x[1] += v[0]\n    return np.sum(x * v)\n")
    with uncompiled():
        agrees(f, (normal(6), 0.7))


@pytest.mark.parametrize("lengths", [(-2, -2), (-1, 4), (-2, 0)])
def test_negative_lengths(lengths):
    y = np.ones(4)
    f = function("def f(y, n, m):\n    w = y.reshape(n, m)\n    w *= 2.0\n    return w.sum()\n")
    g = function("def f(y, n):\n    w = y.reshape(n, -1)\n    w *= 2.0\n    return w.sum()\n")
    with uncompiled(), pytest.raises(ValueError, match="has a length that is negative"):
        nb.adjoint(f).value_and_grad(y, *lengths) if lengths[1] else nb.adjoint(g).value_and_grad(y, lengths[0])
    assert y.tolist() == [1.0] * 4


MASKED = {
    "times": ("m = x.reshape(-1)", "m[b] *= a"),
    "plus": ("m = x.ravel()", "m[b] += a"),
    "compared": ("m = x.reshape(-1)", "m[m > 0.5] -= 0.1 * a"),
    "mean": ("m = x.reshape(-1)", "m[b] -= np.mean(m[b]) * a"),
    "function": ("m = x.reshape(-1)", "m[b] = np.sin(m[b]) * a"),
    "two axes": ("m = x.reshape(2, -1)", "m[m > 0.5] = np.sin(m[m > 0.5]) * a"),
    "local": ("y = x * 2.0; m = y.reshape(-1)", "m[b] = -m[b] + a / m[b]; x += y"),
}


@pytest.mark.parametrize("name", MASKED)
def test_masks_of_reshaped_arrays(name):
    lines = "\n    ".join("; ".join(MASKED[name]).split("; "))
    f = function(f"def f(x, b, a):\n    {lines}\n    return np.sum(x**2)\n")
    agrees(f, (np.random.default_rng(0).uniform(0.1, 1, (3, 2)), np.array([1, 0, 1, 1, 0, 1], bool), 0.5))
