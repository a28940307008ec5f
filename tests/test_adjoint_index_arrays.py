"""Index arrays, masks, library functions, and arrays that change between the two sweeps: indices are in range, or
an error is raised."""

import itertools
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from loop_programs import copies, uncompiled
from random_loops import function

import nbgrad as nb

ZONE, CANARY = 64, 7.25


def guarded(array):
    """A copy of the array between canary elements that must not be touched."""
    around = np.full(array.size + 2 * ZONE, CANARY)
    inner = around[ZONE : ZONE + array.size]
    inner[...] = array
    return inner, around


# The caller's arrays that pullbacks read.


def gathered(x, places, n):
    s = 0.0
    for i in range(n):
        s += x[places[i]] * x[places[i]]
    return s


def scattered(x, places, n):
    y = np.zeros(x.size)
    for _ in range(2):
        for i in range(n):
            y[places[i]] += x[i] * y[i] + x[i]
    return np.sum(y)


def between(x, places, n):
    """Trip counts from array elements, and tests of floats."""
    s = 0.0
    for i in range(n):
        for k in range(places[i], places[i + 1]):
            if x[k] > 0.5:
                s += x[k] * x[k + 1]
    return s


def through(x, places, n):
    """Indices through scalars and through an array that is rewritten in the reverse sweep."""
    where = np.zeros(4, np.int64)
    s = 1.0
    for i in range(n):
        where[i % 2] = places[i]
        k = where[i % 2]
        s *= x[k]
    return s


def masked(x, places, n):
    y = x.copy()
    y[places > 1] *= 2.0 * x[0]
    return np.sum(y * y) * n


PULLED = [gathered, scattered, between, through, masked]


@pytest.mark.parametrize("new", [10**7, -(10**7), 3])
@pytest.mark.parametrize("f", PULLED)
def test_indices_that_change_before_the_sweep_back(f, new):
    args = np.array([0.3, 0.9, 0.7, 0.8, 0.6]), np.array([0, 2, 1, 4, 4]), 3
    with uncompiled():
        expected = nb.adjoint(f).value_and_grad(*copies(args))[1]
        pull = nb.adjoint(f).vjp(*(given := copies(args)))
        given[1][:] = new
        np.testing.assert_allclose(pull(1.0)[0], expected[0], rtol=1e-13)


@pytest.mark.parametrize("f", [scattered, between])
def test_nothing_beside_arrays_is_touched(f):
    """Compiled, with the arrays of the reverse sweep between canary elements that must not be touched."""
    x, places = np.array([0.3, 0.9, 0.7, 0.8, 0.6]), np.array([0, 2, 1, 4, 4])
    expected = nb.adjoint(f).value_and_grad(x, places.copy(), 3)[1]
    pull = nb.adjoint(f).vjp(x, places, 3)
    assert pull._split_variant is not None
    state = [guarded(a) if a.ndim == 1 and a.dtype == np.float64 else (a, a) for a in map(np.asarray, pull._state)]
    pull._state = tuple(inner if inner.ndim else inner[()] for inner, _ in state)
    places[:] = np.arange(40, 45)
    np.testing.assert_allclose(pull(1.0)[0], expected[0], rtol=1e-13)
    for inner, around in state:
        if inner is not around:
            assert np.all(around[:ZONE] == CANARY) and np.all(around[-ZONE:] == CANARY)
    with pytest.raises(IndexError):  # the function runs again
        pull(1.0)


def test_a_shape_that_changes_before_the_sweep_back():
    def last(x):
        s = 0.0
        for i in range(2):
            s += x[i, 7] * x[i, 7]
        return s

    with uncompiled():
        x = np.arange(16.0).reshape(2, 8)
        pull = nb.adjoint(last).vjp(x)
        assert all(a is not x for a in pull._state)
        expected = nb.adjoint(last).value_and_grad(x)[1]
        np.testing.assert_array_equal(pull(1.0), expected)


# Indices of views.


def of_part(x, places):
    return np.sum(x[1:4][places] ** 2)


def into_part(x, places):
    y = np.zeros(6)
    y[1:4][places] = x[0]
    return np.sum(y * x[1])


def taken_of_part(x, places):
    return np.sum(np.take(x[1:4], places) * 2.0)


def of_steps(x, places):
    return np.sum(x[::2][places] * x[0])


def of_column(x, places):
    table = np.outer(x, x)
    return np.sum(table[:, 1:3][places] * 2.0) + np.sum(table[:2, :][places, places])


@pytest.mark.parametrize("f", [of_part, into_part, taken_of_part, of_steps, of_column])
def test_an_index_outside_of_a_part(f):
    x = np.arange(1.0, 7.0)
    adj, errors = nb.adjoint(f), 0
    for places in ([0, 2], [2, 3], [-3], [-4, 0], [0, 1], [5], [-1, -2], [], [6]):
        places = np.array(places, np.int64)
        try:
            value = f(*copies((x, places)))
        except IndexError as err:
            errors += 1
            size = str(err).rpartition(" ")[2]
            index = str(err).split()[1]
            with (
                uncompiled(),
                pytest.raises(IndexError, match=rf"index {index} .* with size {size}.*{f.__name__}|size"),
            ):
                nb.adjoint(f).value_and_grad(*copies((x, places)))
            if f is of_part:
                with pytest.raises(
                    IndexError, match=f"index {index} is out of bounds for axis . of .*with size {size}: "
                ):
                    adj.value_and_grad(*copies((x, places)))
        else:
            with uncompiled():
                assert nb.adjoint(f).value_and_grad(*copies((x, places)))[0] == pytest.approx(value)
            if f is of_part:
                assert adj.value_and_grad(*copies((x, places)))[0] == pytest.approx(value)
    assert errors >= 3


# Masks.


def read(x, y, m):
    return np.sum(x[m] * 2.0)


def read_of_part(x, y, m):
    return np.sum(x[1:][m] * 2.0)


def compared(x, y, m):
    return np.sum(x[y > 0.0] ** 2)


def set_to(x, y, m):
    x[m] = y[0]
    return np.sum(x * x)


def set_to_elements(x, y, m):
    x[m] = y[m] * 2.0
    return np.sum(x * x)


def set_where(x, y, m):
    z = x.copy()
    z[y > 0.0] = 0.0
    return np.sum(z * z)


def changed(x, y, m):
    x[m] *= 2.0
    return np.sum(x * x)


@pytest.mark.parametrize("f", [read, read_of_part, compared, set_to, set_to_elements, set_where, changed])
def test_masks_of_another_length(f):
    """All combinations of lengths; NumPy accepts empty masks for any length, which is an error here."""
    rng, errors, right = np.random.default_rng(3), 0, 0
    with uncompiled():
        adj = nb.adjoint(f)
        for n, k, j in itertools.product((1, 3, 4), repeat=3):
            args = rng.normal(size=n), rng.normal(size=k), rng.random(j) > 0.4
            try:
                value = f(*copies(args))
            except IndexError:
                errors += 1
                with pytest.raises(IndexError, match="a mask of another length"):
                    adj.value_and_grad(*copies(args))
            else:
                right += 1
                assert adj.value_and_grad(*copies(args))[0] == pytest.approx(value)
    assert errors and right


def test_masks_in_compiled_code():
    adj, x, y = nb.adjoint(read_of_part), np.arange(4.0), np.ones(4)
    assert adj.value_and_grad(x, y, np.array([True, False, True]))[0] == 8.0
    for m in (2, 4):
        with pytest.raises(IndexError, match="read_of_part: a mask of another length"):
            adj.value_and_grad(x, y, np.ones(m, bool))


# Library functions, whose indices are checked like those of any function.

LIBRARY = [
    "np.interp(0.5, x, y)",
    "np.sum(np.cross(x, y))",
    "np.trapezoid(x, y)",
    "np.sum(np.bincount(np.array([0, 2, 1]), y) ** 2) * x[0]",
    "np.quantile(x, y[0])",
    "np.sum(np.linalg.solve(np.outer(x, x) + np.eye(x.size), y))",
    "np.linalg.det(np.outer(x, y))",
    "np.sum(np.linalg.inv(np.outer(x, y) + np.eye(3)))",
    "np.sum(np.linalg.cholesky(np.outer(x, y) + 9.0 * np.eye(3)))",
    "np.max(x) * np.min(y)",
    "x[np.argmax(y)] * 2.0",
    "x[np.argsort(y)[0]] * np.sort(x)[0]",
    "np.sum(x[np.searchsorted(x, y)])",
    "np.sum(np.sort(x) * y)",
    "np.sum(np.convolve(x, y) ** 2)",
    "np.sum(np.polyval(x, y))",
    "np.dot(x, y)",
    "np.sum(np.roll(x, 1) * y)",
    "np.sum(np.take(x, np.flatnonzero(y > 0.0) + 1) ** 2)",
]


@pytest.mark.parametrize("text", LIBRARY)
def test_functions_of_arrays_of_other_lengths(text):
    """Where NumPy raises an error, so does the adjoint: its own, never Python's, which compiled code does not have."""
    f, rng = function(f"def f(x, y):\n    return {text}\n"), np.random.default_rng(4)
    with uncompiled(), np.errstate(all="ignore"):
        adj = nb.adjoint(f)
        for n, m in ((0, 0), (0, 3), (1, 3), (3, 1), (3, 3), (3, 4), (4, 3), (3, 0)):
            args = np.sort(rng.random(n)), rng.random(m) * (1.5 if n == 4 else 1.0)
            try:
                value = f(*copies(args))
            except (IndexError, ValueError) as err:  # LinAlgError is a ValueError
                with pytest.raises((IndexError, ValueError)) as found:
                    adj.value_and_grad(*copies(args))
                assert "out of bounds for axis 0 with" not in str(found.value), err
                continue
            try:
                made = adj.value_and_grad(*copies(args))[0]
            except (ValueError, ZeroDivisionError) as err:
                assert not isinstance(err, IndexError), err
            else:
                assert made == pytest.approx(value, nan_ok=True) or abs(value) < 1e-12


_TWICE = """
import numpy as np
import nbgrad as nb
from {module} import gathered

adj = nb.adjoint(gathered)
x, places = np.arange(1.0, 6.0), np.array([0, 2, 4])
print(adj.value_and_grad(x, places, 3)[0])
try:
    adj.value_and_grad(x, np.array([0, 7, 1]), 3)
except IndexError as err:
    print(err)
"""


def test_a_stored_function_in_a_fresh_process(tmp_path):
    """The function that raises for an index out of range is registered before a stored kernel is loaded."""
    here = pathlib.Path(__file__)
    text = _TWICE.format(module=here.stem)
    paths = os.pathsep.join([str(here.parent), *sys.path])
    env = {**os.environ, "NBGRAD_CACHE_DIR": str(tmp_path), "PYTHONPATH": paths}
    runs = [
        subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert runs[0].startswith("35.0\nindex 7 is out of bounds for axis 0 of x with size 5: ")
    assert any(p.is_file() for p in tmp_path.rglob("*"))
