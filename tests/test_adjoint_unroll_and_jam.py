"""Unroll and jam: four iterations at once give the same values, bit for bit, and the same derivatives."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from numba import njit, prange

import nbgrad as nb

RNG = np.random.default_rng(18)


def normal(*shape):
    return RNG.normal(size=shape)


def layer(x, w, b, y):
    for _ in range(2):
        for k in range(y.size):
            s = b[k]
            t = 1.0
            for j in range(x.size):
                s += w[k, j] * x[j]
            for j in range(1, x.size):
                t = t - x[j] * w[k, j - 1]
            y[k] = 0.5 * s - t
        total = 0.0
        for v in y:
            total += v
        for j in range(x.size):
            x[j] = (x[j] + total) / (1.0 + x[j] * x[j])


def shifted(x, w, y, first, last):
    for _ in range(2):
        for k in range(first, last):
            s = 0.0
            for j in range(x.size):
                s += w[k, j] * x[j]
            y[k] = s
        total = 0.0
        for v in y:
            total += v
        for j in range(x.size):
            x[j] = (x[j] + total) / (1.0 + x[j] * x[j])


def reads_what_it_stores(x, w, y):
    for _ in range(2):
        for k in range(1, y.size):
            s = 0.0
            for j in range(x.size):
                s += w[k, j] * x[j]
            y[k] = s + y[k - 1]
        total = 0.0
        for v in y:
            total += v
        for j in range(x.size):
            x[j] = (x[j] + total) / (1.0 + x[j] * x[j])


def stores_twice(x, w, y):
    for _ in range(2):
        for k in range(y.size - 1):
            s = 0.0
            for j in range(x.size):
                s += w[k, j] * x[j]
            y[k] = s
            y[k + 1] = 0.5 * s
        total = 0.0
        for v in y:
            total += v
        for j in range(x.size):
            x[j] = (x[j] + total) / (1.0 + x[j] * x[j])


def keeps_a_number(x, w, y):
    last = 0.0
    for _ in range(2):
        for k in range(y.size):
            s = last
            for j in range(x.size):
                s += w[k, j] * x[j]
            last = s
            y[k] = s
        total = 0.0
        for v in y:
            total += v
        for j in range(x.size):
            x[j] = (x[j] + total) / (1.0 + x[j] * x[j])
    return last


def squares(x, w, y):
    for _ in range(2):
        for k in range(y.size):
            s = 0.0
            for j in range(x.size):
                s += w[k, j] * x[j]
            y[k] = s * s
        total = 0.0
        for v in y:
            total += v
        for j in range(x.size):
            x[j] = (x[j] + total) / (1.0 + x[j] * x[j])


def triangle(x, w, y):
    for _ in range(2):
        for k in range(y.size):
            s = 0.0
            for j in range(k):
                s += w[k, j] * x[j]
            y[k] = s
        total = 0.0
        for v in y:
            total += v
        for j in range(x.size):
            x[j] = (x[j] + total) / (1.0 + x[j] * x[j])


def stops_early(x, w, y):
    for k in range(y.size):
        s = 0.0
        for j in range(x.size):
            s += w[k, j] * x[j]
        if s > 99.0:
            break
        y[k] = s


def at_indices(x, w, y):
    for k in range(y.size):
        s = 0.0
        for j in range(x.size):
            s += w[k, int(abs(x[j]))] * x[j]
        y[k] = s


def reads_what_it_changes(x, w, y):
    for k in range(y.size):
        s = 0.0
        for j in range(x.size):
            s += w[k, j] * x[j]
        x[k] = s


def one_name_for_two(x, w, y):
    total = 0.0
    for k in range(y.size):
        s = 1.0
        for j in range(x.size):
            s += w[k, j] * x[j]
        total += s * y[k]
        s = y[k]
        for j in range(1, x.size):
            s -= w[k, j - 1] * x[j] * 0.5
        y[k] += s * total
    return total


def product_and_transpose(x, w, y):
    z = np.zeros(x.size)
    for k in range(y.size):
        first = 0.0
        second = y[k]
        for j in range(x.size):
            first += w[k, j] * x[j]
            second -= w[k, j]
        for j in range(x.size):
            z[j] += w[k, j] * first * second
    return np.sum(z * z)


def windows(x, w, y):
    loss = 0.0
    for k in range(w.shape[0] - 1):
        for i in range(w.shape[1] - 1):
            s = 0.0
            for p in range(2):
                for q in range(y.size):
                    s += y[q] * w[k + p, i]
            loss += (s - x[i]) ** 2
    return loss


def into_elements(x, w, y):
    z = np.zeros(y.size)
    for k in range(y.size):
        for j in range(x.size):
            y[k] += w[k, j] * x[j]
    for k in range(1, y.size):
        z[k] = y[k - 1]
        for j in range(x.size):
            z[k] -= w[k, j] * x[j]
        z[k] *= y[k]
    return np.sum(z * z)


def both_products(x, w, y):
    """What stores into an array goes on row by row, as before."""
    z = np.zeros(x.size)
    for k in range(y.size):
        for j in range(x.size):
            z[j] += y[k] * w[k, j]
            y[k] += w[k, j] * x[j]
    return np.sum(z * y[0])


def beside_products(x, w, y):
    z = np.zeros(x.size)
    q = np.zeros(y.size)
    for k in range(y.size):
        for j in range(x.size):
            z[j] += y[k] * w[k, j]
            q[k] += w[k, j] * x[j]
    return np.sum(z * z) + np.sum(q * q)


def from_the_end(x, w, y):
    for k in range(-y.size, y.size):
        for j in range(x.size):
            y[k] += w[k, j] * x[j]


def into_a_matrix(x, w, y):
    """Each iteration of the inner loop has an element of its own, which is no sum of the outer one's."""
    a = np.zeros(w.shape)
    for k in range(y.size):
        for j in range(x.size):
            a[k, j] += w[k, j] * x[j] + y[k]
    for k in range(1, y.size):
        a[k, 0] = 1.0
        for j in range(x.size):
            a[k, j] -= w[k, j] * x[j]
    for k in range(y.size):
        for j in range(x.size):
            a[k, j] *= a[0, j]
    return np.sum(a * a)


def in_turn(x, w, y):
    """The same sums, in rows of a triangle."""
    for k in range(y.size):
        s = y[k]
        for j in range(k):
            s -= w[k, j] * y[j]
        y[k] = s


def in_parallel(x, w, y):
    """Iterations that run at once would share the buffer."""
    total = 0.0
    for i in prange(w.shape[0]):
        for k in range(y.size):
            s = y[k]
            for j in range(x.size):
                s += w[k, j] * x[j] * w[i, k]
            total += s * s
    return total


def arguments(rows, columns):
    return normal(columns), normal(rows, columns), normal(rows)


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("columns", [0, 1, 6])
def test_four_turns_at_once(rows, columns):
    x, w, y = arguments(rows, columns)
    with uncompiled():
        agrees(layer, (x, w, normal(rows), y))
        found = y.copy(), y.copy()
        shifted(x.copy(), w, found[0], 0, rows)
        nb.adjoint(shifted)._generated((x, w, y, 0, rows)).entry(
            x, w, found[1], 0, rows, *map(np.zeros_like, (x, w, y))
        )
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("first", "last"), [(2, 9), (-3, 4), (-7, -1), (5, 2), (9, 9)])
def test_bounds(first, last):
    x, w, y = arguments(9, 5)
    with uncompiled():
        agrees(shifted, (x, w, y, first, last))


BLOCKS = [reads_what_it_stores, stores_twice, squares, one_name_for_two, product_and_transpose, windows, into_elements,
          beside_products]  # fmt: skip
OTHERS = [
    into_a_matrix,
    both_products,
    from_the_end,
    keeps_a_number,
    triangle,
    stops_early,
    at_indices,
    reads_what_it_changes,
    in_turn,
    in_parallel,
]


def test_which_loops():
    x, w, y = arguments(9, 9)
    assert "for block in range(0, y.size, 4)" in nb.adjoint(layer)._generated((x, w, y.copy(), y)).text
    assert "for block in range(first, last, 4)" in nb.adjoint(shifted)._generated((x, w, y, 0, 9)).text


@pytest.mark.parametrize("f", BLOCKS)
@pytest.mark.parametrize("rows", [1, 4, 6])
def test_sums_beside_other_statements(f, rows):
    args = arguments(rows, 6)
    with uncompiled():
        adj = agrees(f, args)
    assert ", 4)" in adj._generated(args).text


@pytest.mark.parametrize("f", OTHERS)
def test_which_not(f):
    args = arguments(9, 9)
    with uncompiled():
        adj = agrees(f, args)
    assert ", 4)" not in adj._generated(args).text


@pytest.mark.parametrize("f", [*BLOCKS[3:], *OTHERS[:2]])
def test_values_bit_for_bit(f):
    args = arguments(23, 41)
    expected = njit(nogil=True, error_model="numpy")(f)(*(a.copy() for a in args))
    adj = nb.adjoint(f)
    if expected is None:
        assert adj.vjp(*args)
    else:
        assert adj.value_and_grad(*args)[0] == expected


@pytest.mark.parametrize("f", [into_elements, beside_products, product_and_transpose])
def test_float32(f):
    """Elements are rounded after each addition, as the function rounds them."""
    args = tuple(a.astype(np.float32) for a in arguments(9, 50))
    expected = njit(nogil=True, error_model="numpy")(f)(*(a.copy() for a in args))
    value, gradient = nb.adjoint(f).value_and_grad(*args)
    assert value == expected and gradient[1].dtype == np.float32


def test_values_are_those_of_the_function():
    x, w, b, y = normal(300), normal(50, 300)[:, ::-1], normal(50), normal(50)
    args, expected = (x, w, b, y), (x.copy(), w, b, y.copy())
    njit(nogil=True, error_model="numpy")(layer)(*expected)
    nb.adjoint(layer).compiled(*args)(*args, *map(np.zeros_like, args))
    np.testing.assert_array_equal(y, expected[-1])
    np.testing.assert_array_equal(x, expected[0])
