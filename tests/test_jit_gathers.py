"""Rows gathered from small arrays in compiled functions, which are read where they are, and sums of columns."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd

RNG = np.random.default_rng(21)
TABLE = RNG.uniform(0.3, 1.2, (5, 9))
ROWS = nd.array(RNG.integers(0, 5, 40), dtype="int64")
GRID = nd.array(RNG.integers(0, 5, (3, 8)), dtype="int64")
FEW = nd.array([4, 0, 4], dtype="int64")
DATA = nd.array(RNG.normal(size=(40, 9)), dtype="float64")


def columns(t):
    row = nd.take(t, ROWS)
    a, b, c = (row[:, k] for k in (0, 4, 8))
    return nd.sin(a * b) + c / (1 + a * a)


def every_column(t):
    """Nine cotangents, each of one column, are added."""
    row = nd.take(t, ROWS)
    total = row[:, 0] * row[:, 1]
    for k in range(2, 9):
        total = nd.tanh(total + row[:, k] * row[:, k - 1])
    return total


def views_of_rows(t):
    row = nd.take(t, ROWS)
    return nd.sum(row[::-2, 1:7:2] * row[1::2, 2:5], axis=1) * row[:20].T[3]


def padded(t):
    row = nd.take(t, ROWS)[:, :3]
    wide = nd.concat(row, row * row, dim=1)
    return nd.pad(wide, pad_width=(1, 2, 0, 1)) * nd.pad(nd.take(t, ROWS)[:, 1:7], pad_width=(0, 3, 1, 0))


def other_axes(t):
    between = nd.take(t, nd.array([7, 0, 3, 3, 8, 1, 2, 2, 5, 6, 4, 0, 1], dtype="int64"), axis=1)
    return nd.sum(nd.exp(between) * between[::-1], axis=0)


def in_a_grid(t):
    cells = nd.take(t, GRID)  # (3, 8, 9)
    return nd.sum(nd.square(cells[:, 1:] - cells[:, :-1]), axis=2) * cells[1, :7, 2]


def computed_rows(t):
    rows = nd.floor(nd.abs(DATA[:, 0]) * 2)
    return nd.take(t, rows, mode="clip")[:, 5] * nd.take(t, rows + 3, mode="wrap")[:, 1]


def computed_table(t):
    groups = nd.exp(t[:, 0])
    return nd.take(groups, ROWS) * DATA[:, 1] + nd.take(groups, ROWS[::-1])


def given_as_well(t):
    row = nd.take(t, ROWS)
    return nd.concat(row.reshape(-1), nd.sum(row[:, 2:4] ** 2, axis=1), dim=0)


def in_a_product(t):
    row = nd.take(t, ROWS)
    return nd.dot(row, nd.dot(DATA.T, row))[:, 0] * row[:, 1]


def few_rows(t):
    return nd.take(t, FEW)[:, 1:4] * nd.take(t, FEW)[:, 0:1]


def in_a_loop(t):
    def step(row, state):
        found = nd.take(t, ROWS)[:, 3]
        state = state * 0.5 + nd.sum(found * row)
        return state * found[:2], state

    outputs, state = nd.contrib.foreach(step, DATA[:3, :1], nd.sum(t))
    return nd.concat(outputs.reshape(-1), state.reshape(-1), dim=0)


FUNCTIONS = [
    columns,
    every_column,
    views_of_rows,
    padded,
    other_axes,
    in_a_grid,
    computed_rows,
    computed_table,
    given_as_well,
    in_a_product,
    few_rows,
    in_a_loop,
]


def weighted(f):
    """A function with one number as its result."""

    def total(t):
        y = f(t)
        weights = nd.array(np.cos(np.arange(y.size)).reshape(y.shape), dtype="float64")
        return nd.sum(y * weights)

    return total


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_and_derivatives_are_those_of_operators(f):
    t = nd.array(TABLE, dtype="float64")
    np.testing.assert_allclose(nb.jit(f)(t).asnumpy(), f(t).asnumpy(), rtol=1e-13, atol=1e-13)
    total = weighted(f)
    t.attach_grad()
    with autograd.record():
        y = total(t)
    y.backward()
    value, gradient = nb.jit(nb.value_and_grad(total))(t)
    np.testing.assert_allclose(value.asnumpy(), y.asnumpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gradient.asnumpy(), t.grad.asnumpy(), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("f", [columns, every_column, padded, computed_table], ids=lambda f: f.__name__)
def test_second_order(f):
    along = RNG.normal(size=TABLE.shape)
    total = weighted(f)
    found = nb.jit(nb.hvp(total))(TABLE, along)
    step = 1e-5
    gradient = nb.grad(total)
    expected = (np.asarray(gradient(TABLE + step * along)) - np.asarray(gradient(TABLE - step * along))) / (2 * step)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("count", [8, 9, 15, 16, 17, 40])
def test_sums_of_columns(count):
    """As many loops as columns, up to a limit; the cotangents beyond are added in an array."""
    x = RNG.uniform(0.5, 1.0, (30, count))

    def f(x):
        total = x[:, 0]
        for k in range(1, count):
            total = total * x[:, k] + x[:, k - 1]
        return nd.sum(total)

    value, gradient = nb.jit(nb.value_and_grad(f))(x)
    expected_value, expected = nb.value_and_grad(f)(x)
    np.testing.assert_allclose(value, expected_value, rtol=1e-13)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)


def test_small_tables_are_not_copied():
    """A gather from a small array takes no loop of its own; from a large one, or into fewer rows, it does."""
    rows = nd.array(RNG.integers(0, 5, 4000), dtype="int64")
    f = nb.jit(lambda t, k: nd.take(t, k)[:, 0] * nd.take(t, k)[:, 1])
    f(nd.array(TABLE, dtype="float64"), rows)
    assert "temporaries 0 bytes" in f.report() and f.source().count("for ") == 1
    large = nd.array(RNG.normal(size=(70_000, 3)), dtype="float64")
    g = nb.jit(lambda t, k: nd.take(t, k)[:, 0] * nd.take(t, k)[:, 1])
    y = g(large, rows)
    assert "temporaries 0 bytes" not in g.report()
    np.testing.assert_array_equal(y.asnumpy(), large.asnumpy()[rows.asnumpy(), 0] * large.asnumpy()[rows.asnumpy(), 1])
