"""Names for one array, arguments whose names are bound again, and names that get arrays of length 1: the value, the
gradient and what becomes of the arguments are those of Python, or the function is refused."""

import numpy as np
import pytest
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

A = np.array([1.0, 2.0, 3.0, 4.0])
B = np.array([0.5, -1.0, 2.0, 0.3])
M = np.arange(12.0).reshape(3, 4) * 0.1


def copied(args):
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def check(f, *args):
    """The value, the derivative along a direction, and the arguments afterwards."""
    rng = np.random.default_rng(1)
    after = copied(args)
    expected = f(*after)
    given = copied(args)
    with uncompiled():
        value, gradients = nb.adjoint(f).value_and_grad(*given)
    assert value == pytest.approx(expected, rel=1e-12)
    for a, b in zip(given, after, strict=True):
        np.testing.assert_array_equal(a, b)
    steps = [rng.normal(size=a.shape) if isinstance(a, np.ndarray) else 0 for a in args]
    pairs = list(zip(args, steps, strict=True))
    ends = [f(*[a + h * s * 1e-6 if isinstance(a, np.ndarray) else a for a, s in pairs]) for h in (1, -1)]
    slope = sum(np.sum(g * s) for g, s in zip(gradients, steps, strict=True) if g is not None)
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)


# A name that had a longer array gets one with an axis of length 1, which would broadcast.


def mean_if(h, flag):
    if flag:
        h = h.mean(axis=0, keepdims=True)
    return np.sum(h**2)


def sum_in_a_loop(h, n):
    for _ in range(n):
        h = np.sum(h, axis=0, keepdims=True)
    return np.sum(h**2)


def one_element(x, n):
    for _ in range(n):
        x = np.array([np.sum(x)])
    return np.sum(x**2)


def stacked_if(h, n):
    k = h * 1.0
    if n > 1:
        k = np.stack([h[0]])
    return np.sum(k**2)


def another_if(a, b, n):
    x = a
    if n > 1:
        x = b
    return np.sum(x**2)


def another_in_an_iteration(a, b, n):
    h = a * 1.0
    for i in range(n):
        if i == 2:
            h = b * 2
    return np.sum(h**2)


def item_if(a, b, n):
    ls = [a, a * 2]
    for i in range(2):
        if i < n:
            ls[i] = b * i + 1
    return np.sum(ls[0] ** 2) + np.sum(ls[1])


def summed(x, n):
    y = x * 2
    if n > 1:
        y = y.sum(axis=0, keepdims=True)
    return y


def first(x, n):
    if n > 1:
        return x[:1] * 2.0
    return x * 2


def in_functions(x, n):
    return np.sum(summed(x, n) ** 2) + np.sum(first(x, n) ** 2)


@pytest.mark.parametrize("f, args", [
    (mean_if, (M, True)), (mean_if, (M, False)), (sum_in_a_loop, (M, 2)), (one_element, (A, 2)), (stacked_if, (M, 2)),
    (stacked_if, (M, 0)), (another_if, (M, M[:1], 2)), (another_in_an_iteration, (A, A[:1], 3)),
    (item_if, (A, A[:1], 3)), (in_functions, (A, 2)), (in_functions, (A, 0)),
])  # fmt: skip
def test_length_1(f, args):
    check(f, *args)


def chosen_by_a_value(a, b):
    return np.sum((a if a[0] > 0 else b) ** 2)


def in_a_while_loop(a, b):
    acc, n = np.zeros(4), a[0]
    while n > 0:
        acc = b * n
        n -= 1
    return np.sum(acc**2)


def best_of(a, b):
    best = a * 1.0
    for v in (a, b):
        if np.sum(v) > -99:
            best = v * 1.0
    return np.sum(best**2)


@pytest.mark.parametrize("f", [chosen_by_a_value, in_a_while_loop, best_of], ids=lambda f: f.__name__)
def test_length_1_by_values(f):
    check(f, A + 0.1, A[:1] + 0.1)


# Arguments whose names are bound to other arrays stay as they are.


def after_a_return(x, n):
    if n < 2:
        return 0.0
    x = x.copy()
    x[0] = 10.0
    return np.sum(x**2)


def after_a_return_in_a_loop(x, n):
    for i in range(n):
        if x[i] > 99:
            return 0.0
    x = np.sin(x)
    return np.sum(x**2)


def filled_after_a_return(x):
    y = np.empty_like(x)
    if len(x) == 1:
        return x[0]
    for i in range(len(x)):
        y[i] = x[i] * 2
    x = y
    return np.sum(x * x)


def written_before_and_after(x, n):
    x[0] = 3.0
    if n < 2:
        return x[0]
    x[1] = 5.0
    x = x * 2
    x += 1
    return np.sum(x * x)


def a_view_in_a_loop(x, y):
    for _ in range(2):
        y = x[::-1]
    return np.sum(y * A)


def a_row_if(y, w, k):
    if k > 1:
        y = w[0]
    return np.sum(y * A)


def an_item_if(x, k):
    ls = [np.zeros(4) for _ in range(2)]
    if k > 2:
        x = ls[0]
    return np.sum(x * A)


def reversed_again(x):
    for _ in range(1, 4):
        x = x[::-1]
    return np.sum(x * A)


def doubled_rows(y, w, n):
    for i in range(n):
        y = w[i]
        y = y * 2
    return np.sum(y)


def doubled_and_chosen(x, flag):
    for _ in range(2):
        x += x
        x = x if flag else x.copy()
    return np.sum(x)


@pytest.mark.parametrize("f, args", [
    (after_a_return, (A, 3)), (after_a_return, (A, 0)), (after_a_return_in_a_loop, (A, 3)),
    (filled_after_a_return, (A,)), (written_before_and_after, (A, 3)), (written_before_and_after, (A, 0)),
    (a_view_in_a_loop, (A, B)), (a_row_if, (A, M, 2)), (a_row_if, (A, M, 0)), (an_item_if, (A, 3)),
    (reversed_again, (A,)), (doubled_rows, (A, M, 3)), (doubled_rows, (A, M, 0)), (doubled_and_chosen, (A, True)),
    (doubled_and_chosen, (A, False)),
])  # fmt: skip
def test_arguments(f, args):
    check(f, *args)


def test_results_do_not_name_such_an_argument():
    pull = nb.adjoint(after_a_return).vjp(A, 3)
    assert pull.outputs == ("result",)
    assert pull(1.0)[0][0] == 0.0
    fixed = A.copy()
    fixed.flags.writeable = False
    assert nb.adjoint(after_a_return).value_and_grad(fixed, 3)[0] == after_a_return(A, 3)


# One new array in two places.


def two_names(a):
    def init():
        z = np.zeros(4)
        return z, z

    h, c = init()
    for _ in range(3):
        h = h + a
        c = c + h
    return np.sum(c)


def repeated_tuple(a):
    h, c = (np.zeros(4),) * 2
    for _ in range(3):
        h = h + a
        c = c + h
    return np.sum(c)


def repeated_state(a):
    state = (np.ones(4),) * 2
    for _ in range(3):
        h, c = state
        state = (a + h, c + h)
    return np.sum(state[0] * state[1])


def repeated_list(a):
    hs = [np.zeros(4)] * 3
    for i in range(3):
        hs[i] = hs[i] + a * i
    return np.sum(hs[0] ** 2) + np.sum(hs[2])


def state_of_a_function(x, y, n):
    def start(a):
        z = a * 0.5
        return z, z

    state = start(x)
    for _ in range(n):
        state = (np.sin(state[0] * y), state[1])
    return np.sum(state[0] * state[1])


@pytest.mark.parametrize("f, args", [
    (two_names, (A,)), (repeated_tuple, (A,)), (repeated_state, (A,)), (repeated_list, (A,)),
    (state_of_a_function, (A, B, 3)),
])  # fmt: skip
def test_one_array_in_two_places(f, args):
    check(f, *args)


# Refused: what is written is also known by another name, or its name reads another array by then.


def chosen_then_written(x, y):
    h = x * 2
    for i in range(3):
        h = y if x[i] > 2 else x
    y *= 2
    return np.sum(h * A)


def chosen_in_a_branch(x, y):
    if x[0] > 0:
        x = y if x[1] > 0 else x
    y *= 2
    return np.sum(x)


def early(a, k):
    for i in range(3):
        if i == k:
            return a
        a = a * 2
    return a + 1


def written_after_a_function(x, y):
    z = early(x, int(y[0]))
    z += 1
    return np.sum(x)


def written_after_swaps(x, y):
    def f(a, b):
        for _ in range(2):
            a, b = b, a
        return a

    r = f(x, y)
    r += 1
    return np.sum(x)


def local_written_after_swaps(x, y):
    def f(a):
        t = np.zeros(4)
        for _ in range(3):
            a, t = t, a
        return t

    r = f(x)
    r += 1
    return np.sum(x * y)


def diagonal(x, y):
    m = np.outer(x, y)
    d = np.diag(m)
    m += 1
    return np.sum(d)


def item_chosen(x, y):
    ls = [x * 1.0, y * 1.0]
    for j in range(2):
        ls[j] = y if x[j] > 1 else y[::-1]
    ls[1][1] = 0.4
    return np.sum(y)


STANDS = r"a write to an array that \w+ stands for, too"
CHOSEN = "a name for one array or another, where one may be written in place"


@pytest.mark.parametrize("f, what", [
    (chosen_then_written, CHOSEN), (chosen_in_a_branch, CHOSEN),
    (written_after_a_function, STANDS), (written_after_swaps, STANDS), (local_written_after_swaps, STANDS),
    (diagonal, STANDS), (item_chosen, CHOSEN),
])  # fmt: skip
def test_refused(f, what):
    with pytest.raises(TraceError, match=what):
        nb.adjoint(f).value_and_grad(A, B)


def test_views_as_in_numpy():
    def conjugate(x):
        d = x.conj()
        d += 1
        return np.sum(x * x)

    def flat(x):
        d = x.flat[:]
        d += 1
        return np.sum(x * d)

    def uninitialised(x):
        return np.sum(np.empty(4) * 0.0 + x)

    for f in (conjugate, flat, uninitialised):
        check(f, A)
