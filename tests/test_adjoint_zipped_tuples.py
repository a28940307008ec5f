"""Loops over tuples of arrays beside arrays, reversed and in part; what is not unrolled goes over copies, which may not
be written, nor what they are of. Names that count in several loops."""

import numpy as np
import pytest
from loop_programs import uncompiled
from test_adjoint_aliases import check

import nbgrad as nb
from nbgrad.errors import TraceError

V, W, X = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]), np.array([0.7, 1.5])


def scaled(v, w, x):
    for q, c in zip((v, w), x):
        q *= c
    return np.sum(v) + np.sum(w * v)


def accumulated(v, w, x):
    hs = [np.zeros(3), np.zeros(3)]
    for h, c in zip(hs, x):
        h += c * v
    return np.sum(hs[0] * w) + np.sum(hs[1] ** 2)


def reversed_display(v, w, x):
    for k, q in enumerate(reversed((v, w))):
        q *= x[k]
    return np.sum(v) + np.sum(w * v)


def backwards(v, w, x):
    for q in [v, w][::-1]:
        q *= x[0]
    return np.sum(v) + np.sum(w * v)


def in_part(v, w, x):
    for q in (v, w)[1:]:
        q *= x[1]
    return np.sum(v * w)


def written_on_the_way(v, w, x):
    t = 0.0
    for q, c in zip((v, w), x):
        t += np.sum(q) * c
        w *= 2.0
    return t


def numbered(v, w, x):
    for i, (q, c) in enumerate(zip((v, w), x)):
        q += c * i
    return np.sum(v * w)


def fewer_numbers(v, w, x):
    t = 0.0
    for q, c in zip((v, w, v[:2]), x):
        t += np.sum(q**2) * c
    return t


def several_sizes(v, w, x):
    t = 0.0
    for q, c in zip((v, w[:2]), x):
        y = q * c
        t += np.sum(y * y)
    return t


def layers(v, w, x):
    ws, h = (np.outer(x, v), np.outer(w, x)), v
    for i, (m, rate) in enumerate(zip(ws, x)):
        h = np.tanh(m @ h * rate) + i
    return np.sum(h)


def by_rows(v, w, x):
    m = np.outer(x, v)
    hs = [np.zeros(3) for _ in range(4)]
    for h, row in zip(hs, m):
        h += row * w
    return sum(np.sum(h * h) for h in hs)


ZIPPED = [scaled, accumulated, reversed_display, backwards, in_part, written_on_the_way, numbered, fewer_numbers,
          several_sizes, layers, by_rows]  # fmt: skip


@pytest.mark.parametrize("f", ZIPPED, ids=lambda f: f.__name__)
def test_zipped(f):
    check(f, V, W, X)


def beside_a_range(v, w, x):
    for q, k in zip((v, w), range(int(x[1] * 3))):
        q *= k
    return np.sum(v) + np.sum(w)


def test_copies_are_not_written():
    with uncompiled(), pytest.raises(TraceError, match="stands for, too"):
        nb.adjoint(beside_a_range).value_and_grad(V, W, X)


def stacked(v, w, x):
    hs = [v * c for c in x if c > 99]
    return np.sum(np.stack(hs)) + np.sum(w)


def test_nothing_to_stack():
    with uncompiled(), pytest.raises(ValueError, match=r"no arrays in np\.stack"):
        nb.adjoint(stacked).value_and_grad(V, W, X)


# Names that count in several loops, and are set beside them.


def after_an_enumeration(v, w, x):
    t = 0.0
    for i, q in enumerate((v, w)):  # noqa: B007
        t += np.sum(q)
    for i in range(3):
        t += i * v[i] * x[0]
        if i == 1:
            t += x[1]
    return t


def after_numbers(v, w, x):
    i = 0
    t = v[i] * x[0]
    i = 1
    t += w[i] * w[i]
    for i in range(3):
        t += i * v[i] * x[1]
    t = t * v[i]
    i = 2
    return t * t * w[i]


def in_each_iteration(v, w, x):
    t = 0.0
    for k in range(2):
        i = k
        t += v[i] * x[0]
        i = k + 1
        t += w[i] * w[i]
        for i in range(3):
            t += t * i * v[i] * 0.1
    return t


@pytest.mark.parametrize("f", [after_an_enumeration, after_numbers, in_each_iteration], ids=lambda f: f.__name__)
def test_counters(f):
    check(f, V, W, X)
