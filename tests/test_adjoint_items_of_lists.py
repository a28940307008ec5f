"""Items of lists whose items are rows of one array: what could be told from Python's lists is refused."""

import numpy as np
import pytest
from loop_checks import check_derivatives

import nbgrad as nb
from nbgrad.errors import TraceError

M = np.arange(12.0).reshape(3, 4) / 10 + 0.1


def step(ps):
    for i in range(len(ps)):
        ps[i] = ps[i] - 0.1 * np.cos(ps[i])


# Refused: a name, or another list, has the same array in Python.


def written_afterwards(m):
    hs, h = [], m[0] * 1.0
    for k in range(m.shape[0]):
        h += m[k]
        hs.append(h)
    return sum(np.sum(v * v) for v in hs)


def argument_written(m):
    hs = []
    for k in range(m.shape[0]):
        hs.append(m[k])
    m[0, 0] = 5.0
    return sum(np.sum(v * v) for v in hs) + m[0, 0]


def same_item_twice(m):
    hs = [m[0] * 1.0]
    for _ in range(m.shape[0]):
        hs.append(hs[-1])
    hs[-1][0] = 5.0
    return sum(np.sum(v * v) for v in hs)


def slice_written(m):
    hs = []
    for r in m:
        hs.append(r * r)
    z = hs[1:]
    z[0] += 1.0
    return np.sum(z[0] * hs[1])


def written_after_a_slice(m):
    hs = []
    for r in m:
        hs.append(r * r)
    z = hs[1:]
    hs[1] += 1.0
    return np.sum(z[0] * hs[1])


def inner_list_written(m):
    y = [[v * 2 for v in r] for r in m]
    z = y[1:]
    z[0][0] = 7.0
    return y[1][0] + z[0][1]


def copied_list(m):
    y = [r * 2 for r in m]
    z = list(y)
    z[0] += 7.0
    return np.sum(y[0]) + np.sum(z[0])


def rows_of_the_argument(m):
    z = list(m)
    z[0] += 7.0
    return np.sum(m[0]) + np.sum(z[0])


def item_put_in(m):
    y = [r * 2 for r in m]
    g = m[1] * 1.0
    y[0] = g
    g[0] = 7.0
    return np.sum(y[0]) + np.sum(g)


def inner_list_put_in(m):
    y = [[v * 2 for v in r] for r in m]
    y[0] = y[1]
    y[1][0] = 7.0
    return y[0][0] + y[1][0]


TWICE = [written_afterwards, argument_written, same_item_twice, slice_written, written_after_a_slice,
         inner_list_written, copied_list, rows_of_the_argument, item_put_in, inner_list_put_in]  # fmt: skip


@pytest.mark.parametrize("f", TWICE, ids=lambda f: f.__name__)
def test_written(f):
    with pytest.raises(TraceError, match=r"an item of the list \w+, too, or twice, in .*; put copies"):
        nb.adjoint(f).value_and_grad(M)


# Refused: a name is bound to an item whose place gets another one.


def read_afterwards(m):
    y = [r * 2 for r in m]
    g = y[0]
    y[0] = m[1]
    return np.sum(y[0]) + np.sum(g)


def inner_list_read_afterwards(m):
    y = [[v * 2 for v in r] for r in m]
    g = y[0]
    y[0] = [5.0, 6.0, m[0, 0], 3.0]
    return y[0][1] + g[1]


def read_after_a_pop(m):
    hs = []
    for r in m:
        hs.append(r * r)
    g = hs[-1]
    hs.pop()
    hs.append(m[0] * 3)
    return np.sum(g * hs[-1])


def read_after_a_call(m):
    ps = [r * 1.0 for r in m]
    g = ps[0]
    step(ps)
    return sum(np.sum(p * p) for p in ps) + np.sum(g)


def read_in_the_loop(m):
    hs = []
    for r in m:
        hs.append(r * r)
    g, s = hs[0], 0.0
    for _ in range(len(m)):
        s += np.sum(g)
        hs[0] = hs[0] * 2
    return s + np.sum(hs[0])


def read_while_begun_anew(m):
    s, hs = 0.0, [m[0] * 2]
    g = hs[0]
    for e in range(len(m)):
        s += np.sum(g)
        hs = []
        for r in m:
            hs.append(r * e)
    return s + np.sum(hs[1] ** 2)


def held_by_a_tuple(m):
    hs = []
    for r in m:
        hs.append(r * r)
    t = (hs[0], 1.0)
    hs[0] = hs[0] * 2
    return np.sum(t[0]) + np.sum(hs[0])


KEPT = [read_afterwards, inner_list_read_afterwards, read_after_a_pop, read_after_a_call]


@pytest.mark.parametrize("f", KEPT, ids=lambda f: f.__name__)
def test_an_item_that_has_a_name_is_kept(f):
    check_derivatives(f, M, compiled=False)


PLACES = [read_in_the_loop, read_while_begun_anew, held_by_a_tuple]


@pytest.mark.parametrize("f", PLACES, ids=lambda f: f.__name__)
def test_places(f):
    with pytest.raises(TraceError, match=r"before its place in the list gets another item|while \w+ is bound to one"):
        nb.adjoint(f).value_and_grad(M)


# Refused: what an array cannot hold.


def ragged(m):
    hs = []
    for k in range(m.shape[0]):
        hs.append(m[k, k:] * 2)
    return sum(np.sum(v * v) for v in hs)


def several_ranks(m):
    hs = [m[0]]
    for _ in range(m.shape[0]):
        hs.append(m * 2)
    return sum(np.sum(v * v) for v in hs)


def set_at_once(m):
    ps = [r * 1.0 for r in m]
    ps[0:1] = [m[1]]
    return sum(np.sum(p * p) for p in ps)


@pytest.mark.parametrize("f, what", [
    (ragged, "items of the list hs, whose shapes are not known before the loop"),
    (several_ranks, "items of the list hs with another number of axes"),
    (set_at_once, "items of a list that are set at once"),
])  # fmt: skip
def test_refused(f, what):
    with pytest.raises(TraceError) as caught:
        nb.adjoint(f).value_and_grad(M)
    assert what in str(caught.value)


def test_none_is_read():
    def last(m):
        hs, s = [], 0.0
        for row in m:
            s += np.sum(hs[-1])
            hs.append(row * 2)
        return s

    with pytest.raises(IndexError):
        nb.adjoint(last).value_and_grad(M)


def some_set(m):
    hs = [row * 2.0 for row in m if row[0] > 0.2]
    if len(hs) > 1:
        hs[0][:] = m[0, 1]
    hs[-1][1:] *= m[0, 0]
    h = hs[-1]
    h[0] = h[1]
    return sum((i + 1) * np.sum(h * h) for i, h in enumerate(hs))


def each_set(m):
    hs = [row * q for row in m for q in m if row[0] > 0.2 and q[1] > 0.3]
    for h in hs:
        h *= m[1]
    for i in range(len(hs)):
        hs[i][0] += i * m[0, 0]
    return sum(np.sum(h * m[0]) for h in hs)


@pytest.mark.parametrize("f", [some_set, each_set])
def test_items_of_comprehensions_with_tests_are_arrays(f):
    """They were taken for lists, of which a slice is a copy: writes to them were lost."""
    m = np.arange(12.0).reshape(3, 4) / 10 + 0.1
    check_derivatives(f, m, compiled=False)
    check_derivatives(f, m[::-1] * np.array([[1.0], [1.0], [-1.0]]), compiled=False)
