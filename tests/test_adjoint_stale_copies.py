"""Arrays that two names stand for, one of which is bound to other arrays elsewhere: it is a copy, so the array may not
be written while the copy is read. What is refused would otherwise give a wrong value, silently."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.3, 0.5])


# Refused: the array is written while the copy stands for it.


def written_after(x):
    h = x * 1.0
    b = h
    h[0] += 1.0
    for _ in range(2):
        b = b * 0.3
    return np.sum(b)


def written_through_a_view(x):
    h = x * 1.0
    b = h
    part = h[:1]
    part[0] += 1.0
    for _ in range(2):
        b = b * 0.3
    return np.sum(b)


def written_in_the_loop(x):
    h = x * 1.0
    b = h
    for i in range(3):
        h[0] += 1.0
        if i > 0:
            b = b * 0.3
    return np.sum(b)


def written_in_the_next_iteration(x):
    h = x * 1.0
    b = x * 2.0
    t = 0.0
    for i in range(3):
        h[0] += 1.0
        t += np.sum(b)
        b = h
        if i == 1:
            b = b * 0.3
    return t


def written_in_a_branch(x):
    h = x * 1.0
    b = h
    if x[0] > 0.1:
        h[0] += 1.0
    for _ in range(2):
        b = b * 0.3
    return np.sum(b)


def copied_in_a_branch(x):
    h = x * 1.0
    b = x * 2.0
    if x[0] > 0.1:
        b = h
    h[0] += 1.0
    return np.sum(b)


def in_a_tuple(x):
    h = x * 1.0
    pair = (h, 2.0)
    h[0] += 1.0
    for _ in range(2):
        pair = (pair[0] * 0.3, pair[1])
    return np.sum(pair[0])


def limited(v):
    if v[0] > 0.1:
        v = v * 0.5
    return v


def result_of_a_function(x):
    h = x * 0.1
    b = limited(h)
    h[0] += 1.0
    return np.sum(b)


def filled_in_place(x):
    h = x * 1.0
    b = h
    h[:] = 2.0 * x
    for _ in range(2):
        b = b * 0.3
    return np.sum(b)


def written_by_a_function(x):
    def shift(v):
        v[0] += 1.0

    h = x * 1.0
    b = h
    shift(h)
    for _ in range(2):
        b = b * 0.3
    return np.sum(b)


def swapped_and_written(x):
    g, h = x * 1.0, x * 2.0
    b = h
    for _ in range(2):
        g, h = h, g
    h[0] += 1.0
    for _ in range(2):
        b = b * 0.3
    return np.sum(b) + np.sum(g)


def result_written_in_a_loop(x):
    w, b = x * 1.0, x * 2.0
    for _ in range(3):
        b = limited(w)
        b[0] += w[1]
    return np.sum(w**2)


def result_in_a_list_written_in_a_loop(x):
    w = x * 1.0
    hs = [x * 2.0, x]
    for _ in range(2):
        hs[0] = limited(w)
        hs[0][0] += w[1]
    return np.sum(w**2)


def copy_of_a_result(x):
    w = x * 1.0
    b = limited(w)
    for _ in range(2):
        b = b * 2.0
    w[0] += 1.0
    c = limited(w)
    d = c
    w[1] += 1.0
    return np.sum(b) + np.sum(d)


REFUSED = [
    result_written_in_a_loop, result_in_a_list_written_in_a_loop, copy_of_a_result,
    written_after, written_through_a_view, written_in_the_loop, written_in_the_next_iteration, written_in_a_branch,
    copied_in_a_branch, in_a_tuple, result_of_a_function, filled_in_place, written_by_a_function, swapped_and_written,
]  # fmt: skip


@pytest.mark.parametrize("f", REFUSED, ids=lambda f: f.__name__)
def test_refused(f):
    with pytest.raises(TraceError, match=r"\.copy\(\)"):
        nb.adjoint(f).value_and_grad(X)


# Accepted: the copy is not read any more, or the name of the array is bound to another one in its memory.


def rebound_and_appended(x):
    h = x * 1.0
    hs = [h]
    for _ in range(3):
        h = h * 1.1
        hs.append(h)
    h[0] = 3.0
    return np.sum(hs[0] ** 2) + np.sum(hs[3] ** 2)


def norm(v):
    if v[0] > 0.1:
        v = v * 0.5
    return np.sum(v**2)


def copy_of_a_function_that_returned(x):
    h = x * 1.0
    t = norm(h)
    h[0] += 1.0
    return t * np.sum(h**2)


def previous(x):
    h = x * 1.0
    for _ in range(4):
        old = h
        h = 0.5 * np.cos(h) + 0.1 * x
        if np.sum(np.abs(h - old)) < 1e-3:
            break
    return np.sum(h) + np.sum(old**2)


def bound_to_a_copy(x):
    h = x * 1.0
    b = h.copy()
    h[0] += 1.0
    for _ in range(2):
        b = b * h
    return np.sum(b)


def results_in_loops(x):
    w = x * 1.0
    for _ in range(3):
        w = limited(w)
    for _ in range(3):
        w = limited(w * x)
        w[0] += 1.0
    h = x
    for k in range(3):
        h = limited(h + k)
    hs = [h]
    hs.append(limited(h))
    return np.sum(w**2) + np.sum(hs[1] ** 2)


ACCEPTED = [results_in_loops, rebound_and_appended, copy_of_a_function_that_returned, previous, bound_to_a_copy]


@pytest.mark.parametrize("f", ACCEPTED, ids=lambda f: f.__name__)
def test_accepted(f):
    with uncompiled():
        check_derivatives(f, X, compiled=False)
