"""Bounds checks: generated code raises IndexError wherever NumPy does, and nowhere else."""

import math
import pickle

import numba
import numpy as np
import pytest
from loop_programs import agrees, copies, uncompiled
from numba import prange

import nbgrad as nb
from nbgrad.errors import AttrError

RNG = np.random.default_rng(5)


def upwind(u, t, c):
    s = 0.0
    for i in range(1, u.size):
        u[i] = u[i] - c * (u[i] - u[i - 1])
        s += t[i] * u[i]
    return s


def everywhere(f, args):
    """Calls of all generated code for a function that returns one scalar."""
    direction = tuple(np.ones_like(a) if isinstance(a, np.ndarray) else 1.0
                      for a in args if isinstance(a, float) or getattr(a, "dtype", "") == "float64")  # fmt: skip
    adj = nb.adjoint(f)
    yield "value_and_grad", lambda: adj.value_and_grad(*copies(args))
    yield "vjp", lambda: adj.vjp(*copies(args))
    yield "hvp", lambda: adj.hvp(copies(args), direction, (1.0, None))
    yield "jvp", lambda: nb.tangent(f).jvp(copies(args), direction)
    yield "adjoint of the tangent", lambda: nb.adjoint(nb.tangent(f)).vjp(*copies(args), *direction)


def test_a_short_array_is_an_error_that_names_it_and_the_line():
    adj = nb.adjoint(upwind)
    good = np.arange(64.0), np.ones(64), 0.1
    assert adj.value_and_grad(*copies(good))[0] == upwind(*copies(good))
    u, t = np.arange(64.0), np.ones(10)
    with pytest.raises(IndexError) as err:
        adj.value_and_grad(u, t, 0.1)
    line = upwind.__code__.co_firstlineno + 4
    assert str(err.value) == (
        f"index 10 is out of bounds for axis 0 of t with size 10: {__file__}, line {line}: s += t[i] * u[i]"
    )
    np.testing.assert_array_equal(u, np.arange(64.0))  # the check comes before any write
    again = pickle.loads(pickle.dumps(err.value))
    assert type(again) is type(err.value) and str(again) == str(err.value)
    with uncompiled(), pytest.raises(IndexError, match="index 10 is out of bounds for axis 0 of t with size 10: "):
        nb.adjoint(upwind).value_and_grad(u, t, 0.1)


def test_a_short_array_in_all_forms():
    args = np.arange(16.0), np.ones(10), 0.1
    for _, call in everywhere(upwind, args):
        with pytest.raises(IndexError, match="axis 0 of t with size 10"):
            call()
    with pytest.raises(IndexError, match="axis 0 of t"):
        nb.adjoint(upwind, checkpoint=3, loop="i").value_and_grad(*copies(args))


def test_compiled_forms_raise_in_compiled_code():
    args = np.arange(16.0), np.ones(10), 0.1
    entry = nb.adjoint(upwind).compiled(*args)

    @numba.njit
    def calls(u, t, c):
        return entry(u, t, c, 1.0, np.zeros_like(u), np.zeros_like(t))[0]

    with pytest.raises(IndexError, match="index 10 is out of bounds for axis 0 of t with size 10"):
        calls(*copies(args))
    assert calls(np.arange(16.0), np.ones(16), 0.1) == upwind(np.arange(16.0), np.ones(16), 0.1)


def test_arrays_for_cotangents_and_tangents_of_another_length():
    args = np.arange(16.0), np.ones(16), 0.1
    with pytest.raises(ValueError, match="upwind: u_bar, t_bar must have the shapes of u, t"):
        nb.adjoint(upwind).compiled(*args)(*copies(args), 1.0, np.zeros(16), np.zeros(10))
    with pytest.raises(ValueError, match="upwind: u_dot, t_dot must have the shapes of u, t"):
        nb.tangent(upwind).compiled(*args)(*copies(args), np.zeros(16), np.zeros(10), 1.0)


def test_switched_off():
    assert "outside" not in nb.adjoint(upwind, boundscheck=False)._generated((np.ones(3), np.ones(3), 0.1)).text
    assert "outside" in nb.adjoint(upwind)._generated((np.ones(3), np.ones(3), 0.1)).text
    tangent = nb.tangent(upwind, boundscheck=False)
    assert "outside" not in tangent._generated((np.ones(3), np.ones(3), 0.1)).text
    assert (
        "outside"
        not in pickle.loads(pickle.dumps(nb.adjoint(upwind, boundscheck=False)))
        ._generated((np.ones(3), np.ones(3), 0.1))
        .text
    )
    with pytest.raises(AttrError, match="boundscheck is True or False, got 1"):
        nb.adjoint(upwind, boundscheck=1)


# Which indices are checked, and where: before the outermost loop if their operands are known there.


def nested(x, t, n):
    s = 0.0
    for _ in range(2):
        for i in range(n):
            for j in range(i + 1):
                s += x[i] * t[i + j]
    return s


def down(x, t, n):
    s = 0.0
    for i in range(n - 1, 0, -2):
        s += x[i] * t[i - 1]
    return s


def chosen(x, t, n):
    s = 0.0
    for i in range(n):
        s += x[i] * (t[i + 1] if i + 1 < n else 0.0)
    return s


def under_tests(x, t, n):
    s = 0.0
    for i in range(n):
        if i < t.size:
            s += x[i] * t[i]
        if x[i] > 2.0:
            s += t[i + 7]
    return s


def left(x, t, n):
    s = 0.0
    for i in range(100):
        if i == n or x[i] > 5.0:
            break
        s += x[i] * t[i]
    return s


def counted(x, t, n):
    s, k = 0.0, 0
    while k < n and x[k] < 5.0:
        s += x[k] * t[k]
        k += 2
    return s


def gathered(x, t, n):
    s = 0.0
    where = np.array([0, 2, -1, 3])
    for i in range(n):
        s += x[where[i]] * t[i]
    return s


def moved(x, t, n):
    """Each index is read from an array that the loop has changed."""
    where = np.zeros(4, np.int64)
    s = 0.0
    for i in range(n):
        where[(i + 1) % 4] = where[i % 4] + 1
        s += x[where[i % 4]] * t[i % 2]
    return s


def of_part(x, t, n):
    part = x[1:n]
    s = part[-1] * t[0]
    for i in range(n - 1):
        s += part[i] * t[i]
    return s


def past_part(x, t, n):
    part = x[1:n]
    s = 0.0
    for i in range(n):
        s += part[i] * t[0]
    return s


def from_the_end(x, t, n):
    s = 0.0
    for i in range(n):
        s += x[-1 - i] * t[-n]
    return s


def together(x, t, n):
    s = 0.0
    for i in prange(n):
        s += math.sin(x[i] * t[i])
    return s


def picked(x, t, n):
    where = np.array([0, 3, 1, 2])
    s = 0.0
    for i in prange(n):
        s += x[where[i]] * t[i]
    return s


def after(x, t, n):
    """The code after the loop is reversed before the loop."""
    s = 0.0
    for i in range(x.size):
        s += math.sin(x[i])
    return s + 2.0 * t[n]


def helped(x, t, n):
    def at(a, i):
        return a[i + 1] * 2.0

    s = 0.0
    for i in range(n):
        s += at(x, i) * at(t, i - 1)
    return s


def decided_later(x, t, n):
    """What decides a test is evaluated after what may be out of range."""
    s = 0.0
    if t[n] > 9.0 and 1 > 1:
        s = 1.0
    if n < 2 or x[n - 2] < 9.0 or x.ndim == 1:
        s += x[n]
    return s + (x[0] if t[n - 1] > 9.0 or x[n + 1] < 9.0 or 2 > 1 else 1.0)


FUNCTIONS = [nested, down, chosen, under_tests, left, counted, gathered, moved, of_part, past_part, from_the_end,
             together, picked, after, helped, decided_later]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS)
def test_an_error_where_numpy_has_one(f):
    """All lengths of two arrays, empty ones among them, and empty loops."""
    errors = fine = 0
    for m in (0, 1, 3, 4, 7):
        for k in (0, 2, 4, 7):
            for n in (0, 1, 4):
                args = RNG.normal(size=m), RNG.normal(size=k), n
                try:
                    f(*copies(args))
                except IndexError:
                    errors += 1
                    with uncompiled(), pytest.raises(IndexError):
                        nb.adjoint(f).value_and_grad(*copies(args))
                    with uncompiled(), pytest.raises(IndexError):
                        nb.tangent(f).jvp(copies(args), (np.ones(m), np.ones(k), None))
                else:
                    fine += 1
                    if m and k and fine < 6:
                        with uncompiled():
                            agrees(f, args)
                    with uncompiled():
                        nb.adjoint(f).value_and_grad(*copies(args))
    assert errors and fine


@pytest.mark.parametrize("f", [chosen, gathered, picked])
def test_the_same_compiled(f):
    adj = nb.adjoint(f)
    for m, k, n in ((4, 4, 4), (4, 3, 4), (3, 4, 4), (0, 0, 0), (4, 2, 2)):
        args = RNG.normal(size=m), RNG.normal(size=k), n
        try:
            value = f(*copies(args))
        except IndexError as err:
            with pytest.raises(IndexError, match=str(err).partition(" with ")[0].rpartition(" axis")[0]):
                adj.value_and_grad(*copies(args))
        else:
            assert adj.value_and_grad(*copies(args))[0] == pytest.approx(value)


# Several axes, stencils, and writes.


def smooth(u, k, steps):
    n, m = u.shape
    new = u.copy()
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                new[i, j] = u[i, j] + k[i, j] * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])
        u, new = new, u
    return u[1, 1]


@pytest.mark.parametrize("shape", [(5, 4), (4, 5), (3, 5), (5, 3)])
def test_stencils(shape):
    args = RNG.normal(size=(5, 6)), 0.1 * RNG.random(shape), 2
    with uncompiled():
        if shape in ((5, 4), (4, 5), (5, 3)):
            try:
                smooth(*copies(args))
            except IndexError:
                with pytest.raises(IndexError, match="of k with size"):
                    nb.adjoint(smooth).value_and_grad(*copies(args))
                return
            agrees(smooth, args)
        else:
            with pytest.raises(IndexError, match="axis 0 of k with size 3"):
                nb.adjoint(smooth).value_and_grad(*copies(args))


def scattered(places, x, y):
    for i in range(places.size):
        y[places[i]] += x[i] * x[i]
    return y[0]


def test_nothing_beside_an_array_is_touched():
    zone = np.full(48, 7.5)
    y = zone[16:32]
    y[:] = 1.0
    adj = nb.adjoint(scattered)
    for place in (16, 40, -17, 10**12):
        with pytest.raises(IndexError, match=f"index {place} is out of bounds for axis 0 of y with size 16"):
            adj.value_and_grad(np.array([1, place]), np.ones(2), y)
    assert np.all(zone[:16] == 7.5) and np.all(zone[32:] == 7.5)
    y[:] = 1.0
    assert adj.value_and_grad(np.array([-16, 0]), np.ones(2), y)[0] == 3.0


def test_wrong_lengths_of_whole_arrays():
    def whole(x, y):
        z = x * y
        z[1:] = y[:-1]
        return np.sum(z)

    with pytest.raises(ValueError, match="different lengths"):
        nb.adjoint(whole).value_and_grad(np.ones(4), np.ones(3))
    adj = nb.adjoint(whole)
    assert adj.value_and_grad(np.ones(4), np.ones(4))[0] == 4.0


def test_an_operation_raises():
    op = nb.primitive(upwind)
    with pytest.raises(IndexError, match="axis 0 of t"):
        nb.grad(lambda u: nb.nd.sum(op(u, np.ones(10), 0.1)[1]))(np.arange(16.0))


def scaled_later(x, a, k):
    last = 0.0
    a[-1, 0] += 0.5 * x[1] * a[-1, 0]
    a[:] = 0.3 * a
    return x[k] + last


def test_the_line_of_an_element_that_a_scalar_holds():
    with uncompiled(), pytest.raises(IndexError, match=r"axis 0 of a with size 0: .*: a\[-1, 0\] \+= 0.5"):
        nb.adjoint(scaled_later).vjp(np.ones(2), np.ones((0, 2)), 0)


def under_a_test(x, y, k):
    y[0] = 3.0
    while k < 3:
        k += 1
        if y[0] < x[k * 4] < 5.0:
            y[0] *= 0.5
    return y[0]


def under_a_selection(x, y, k):
    acc = y[0]
    for i in range(3):
        acc += y[0]
        if y[0] > 0 and x[k + i + 2] <= 1.2:
            acc = y[1] * 2.0
            continue
        acc += 1.0
    return acc


def in_a_selection(x, y, k):
    acc = 0.0
    for i in range(3):
        if x[i] > 0:
            acc += x[k + i + 2]
    return acc


@pytest.mark.parametrize(
    ("f", "index", "line"),
    [
        (under_a_test, 4, r"if y\[0\] < x\[k \* 4\]"),
        (under_a_selection, 4, r"if y\[0\] > 0 and x\["),
        (in_a_selection, 4, r"acc \+= x\[k"),
    ],
)
def test_the_line_of_an_element_in_a_test(f, index, line):
    with uncompiled(), pytest.raises(IndexError, match=rf"index {index} .* axis 0 of x with size 4: .*: {line}"):
        nb.adjoint(f).value_and_grad(np.ones(4), np.ones(2), 0)


def of_no_elements(x, y, k):
    return np.sum(x[:k] * y[3])


def stored_in_no_elements(a, i, k):
    a[i, :k] = 2.0
    return np.sum(a)


def product_of_no_elements(a, i, k):
    total = 0.0
    for j in range(i, i + 1):
        total += a[j, :k] @ a[:k, j]
    return total


def view_of_no_elements(a, index, k):
    row = a[index[k]]
    return np.sum(row[k:] * 2.0)


def lazily(x, y, k):
    return sum([y[3] * v for v in x[:k]])


@pytest.mark.parametrize(
    ("f", "fits", "does_not"),
    [
        (of_no_elements, (np.ones(3), np.ones(4), 0), (np.ones(3), np.ones(3), 0)),
        (stored_in_no_elements, (np.ones((3, 2)), 2, 0), (np.ones((3, 2)), 3, 0)),
        (product_of_no_elements, (np.ones((2, 2)), 1, 0), (np.ones((2, 1)), 1, 0)),
        (view_of_no_elements, (np.ones((2, 1)), np.array([0, 1]), 1), (np.ones((2, 1)), np.array([0, 5]), 1)),
    ],
)
def test_an_index_beside_no_elements_is_checked(f, fits, does_not):
    with uncompiled():
        value = nb.adjoint(f).value_and_grad(*(a.copy() if isinstance(a, np.ndarray) else a for a in fits))[0]
        assert value == f(*fits)
        with pytest.raises(IndexError):
            f(*does_not)
        with pytest.raises(IndexError, match="out of bounds for axis"):
            nb.adjoint(f).value_and_grad(*does_not)
        assert nb.adjoint(lazily).value_and_grad(np.ones(3), np.ones(3), 0)[0] == 0.0  # Python does not evaluate it


def in_a_while_loop(x, y, n):
    i, total = 0, 0.0
    while i < n:
        total += x[i] * y[3]
        i += 1
    return total


def in_loops_of_users(x, y, n):
    total = in_a_while_loop(x, y, n)
    for k, v in enumerate(x[:n]):
        total += k * v * y[3]
    for v, w in zip(x[:n], x[:n], strict=True):
        total += v * w * y[3]
    return total + sum([v * y[3] for v in x[:n]]) + sum(y[3] for _ in range(n))


@pytest.mark.parametrize("f", [in_a_while_loop, in_loops_of_users])
def test_an_index_in_a_loop_without_iterations_is_not_checked(f):
    with uncompiled():
        assert nb.adjoint(f).value_and_grad(np.ones(3), np.ones(3), 0)[0] == 0.0
        with pytest.raises(IndexError, match="axis 0 of y"):
            nb.adjoint(f).value_and_grad(np.ones(3), np.ones(3), 1)
