"""Statements that change lists and tuples in other forms: joined, with items that change their places."""

import numpy as np
import pytest
from loop_checks import check_derivatives

import nbgrad as nb
from nbgrad.errors import TraceError

M = np.arange(12.0).reshape(3, 4) / 10 + 0.1


def added_to(m):
    hs = [m[0]]
    for _ in range(len(m)):
        hs += [hs[-1] * 2]
    for _ in range(len(m)):
        hs = hs + [hs[-1] * 0.5 + m[1]]
    return np.sum(hs[3] * hs[-1])


def multistep(m):
    y = m[0]
    fs = [y * 0.0, y * 0.0, y * 0.0]
    for _ in range(len(m) * 4):
        f = np.sin(y) * m[1]
        fs = [f, fs[0], fs[1]]
        y = y + 0.1 * (23 * fs[0] - 16 * fs[1] + 5 * fs[2]) / 12
    return np.sum(y)


def exchanged(m):
    fs = (m[0] * 1.0, m[1] * 2)
    for k in range(len(m)):
        fs = (fs[1], fs[0])
        fs[0][0] += 5.0 * k + m[0, 0]
    return np.sum(fs[0]) * 2 + np.sum(fs[1] * fs[1])


def sorted_by_sums(m):
    hs = [r * 1.0 for r in m]
    for i in range(len(hs)):
        for j in range(i + 1, len(hs)):
            if np.sum(hs[j]) > np.sum(hs[i]):
                hs[i], hs[j] = hs[j], hs[i]
    hs[0][0] += 1.0
    return np.sum(hs[0] * hs[1] ** 2)


def of_numbers(m):
    y, s = [m[0, 0]], 0.0
    for v in m[1]:
        y += [v * y[-1], v]
    y[0], y[1] = y[1], y[0] * 2
    for k in range(len(m)):
        c = [m[k, 0], m[k, 1]]
        s += c[0] * sum([v * 2 for v in c])
        c = [1.0, 2.0]
        s += c[1]
    return sum(y) * s + y[0]


def replaced(m):
    path = [m[0]]
    for r in m:
        path.append(r * path[-1])
    path = np.array(path)
    y = [v * v for v in m[0]]
    y = np.array(y) * 2
    y += 1.0
    return np.sum(path[:, 1] * path[0, 0]) + np.sum(y * y)


def replaced_in_a_loop(m):
    s = 0.0
    for e in range(len(m)):
        hs = []
        for r in m[e:]:
            hs.append(r * e)
        hs = np.stack(hs)
        s += np.sum(hs[:, 1] * hs[0, 0])
    return s


FORMS = [added_to, multistep, exchanged, sorted_by_sums, of_numbers, replaced, replaced_in_a_loop]


@pytest.mark.parametrize("f", FORMS, ids=lambda f: f.__name__)
def test_forms(f):
    check_derivatives(f, M, compiled=False)


def held_and_written(m):
    fs, new = (m[0] * 1.0, m[1] * 2), m[2] * 1.0
    for _ in range(len(m)):
        fs = (new, fs[0])
        new += 1.0
    return np.sum(fs[0]) + np.sum(fs[1])


def in_both_places(m):
    fs = (m[0] * 1.0, m[1] * 2)
    for _ in range(len(m)):
        fs = (fs[1], fs[1])
        fs[0][0] = 5.0 + m[0, 0]
    return np.sum(fs[0]) + np.sum(fs[1])


def new_and_written(m):
    fs = (m[0] * 1.0, m[1] * 2)
    for _ in range(len(m)):
        new = np.sin(fs[0])
        fs = (new, fs[0])
        new[0] = 7.0
    return np.sum(fs[0]) * 2 + np.sum(fs[1] * fs[1])


def of_the_argument(m):
    fs = (m[0] * 1.0, m[1] * 2)
    for _ in range(len(m)):
        fs = (m[1], fs[0])
        fs[0][1] += 1.0
    return np.sum(fs[0]) * 2 + np.sum(fs[1] * fs[1])


@pytest.mark.parametrize("f", [held_and_written, in_both_places, new_and_written, of_the_argument],
                         ids=lambda f: f.__name__)  # fmt: skip
def test_items_of_tuples(f):
    with pytest.raises(TraceError, match=r"a write to an array that fs\[0\] stands for, too"):
        nb.adjoint(f).value_and_grad(M)
