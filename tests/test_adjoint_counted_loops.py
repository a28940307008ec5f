"""``while`` loops that count: they are loops over ranges, with a trip count that is known before they run."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.loops.ir.passes import Pass, without

X = np.random.default_rng(0).normal(size=7)
CHANGED = "Changed by counted loops"


def upwards(x):
    i, s = 0, 0.0
    while i < x.size:
        s += x[i] * x[i] * i
        i += 1
    return s * i


def downwards(x):
    i, s = x.size - 1, 0.0
    while i >= 0:
        s = s * 0.5 + x[i] ** 2
        i -= 1
    return s + i


def windows(x, w):
    out = np.empty(x.size)
    for t in range(x.size):
        most = x[t]
        if t >= w:
            i = 1
            while i < w:
                if x[t - i] > most:
                    most = x[t - i]
                i += 1
        out[t] = most
    return np.sum(out * np.arange(1.0, x.size + 1))


def nested(x):
    i, s, j = 0, 1.0, 0
    while i <= 3:
        j = i
        while j < x.size:
            s += x[j] * x[i]
            j += 2
        s *= 1.1
        i += 1
    return s + j * 0.1


def never(x):
    i, s = 10, 0.0
    while i < x.size:
        s += x[i]
        i += 1
    return s + i * x[0]


def one_after_the_other(x):
    i, s = 0, 0.0
    while i < x.size:
        if x[i] > 0.0:
            s += x[i] ** 3
        else:
            s -= x[i]
        i += 1
    k = i
    while k > 2:
        s += x[k - 1]
        k -= 3
    return s * (1 + i - k)


def recurrence(x):
    m, i = x.copy(), 1
    while i < x.size:
        m[i] = m[i - 1] * m[i] + 0.1
        i += 1
    return m[i - 1] * m[0]


COUNTED = [
    (upwards, (X,)), (downwards, (X,)), (windows, (X, 3)), (windows, (X, 20)), (nested, (X,)), (never, (X,)),
    (one_after_the_other, (X,)), (recurrence, (X,)),
]  # fmt: skip


@pytest.mark.parametrize("f, args", [pytest.param(*c, id=f"{c[0].__name__}-{k}") for k, c in enumerate(COUNTED)])
def test_counted(f, args):
    assert CHANGED in nb.adjoint(f).explain(*args)
    with uncompiled():
        check_derivatives(f, *args, compiled=False)
        counted = nb.adjoint(f).value_and_grad(*args)
        with without(Pass.COUNTED_LOOPS):
            plain = nb.adjoint(f).value_and_grad(*args)
    assert counted[0] == plain[0]
    np.testing.assert_allclose(counted[1][0], plain[1][0], rtol=1e-13)


def of_a_float(x):
    t, s = 0.0, 0.0
    while t < 4:
        s += x[0] * t
        t += 1
    return s


def moving_bound(x):
    n, s, i = x.size, 0.0, 0
    while i < n:
        s += x[i] * n
        n -= 1
        i += 1
    return s


def left(x):
    s, i = 0.0, 0
    while i < x.size:
        if x[i] > 1.0:
            break
        s += x[i]
        i += 1
    return s * i


def in_the_middle(x):
    s, i = 0.0, 0
    while i < x.size - 1:
        s += x[i]
        i += 1
        s *= x[i]
    return s


def two_steps(x):
    s, i = 0.0, 0
    while i < x.size:
        if x[i] > 0.0:
            i += 1
        else:
            s += x[i] ** 2
        i += 1
    return s


@pytest.mark.parametrize("f", [of_a_float, moving_bound, left, in_the_middle, two_steps], ids=lambda f: f.__name__)
def test_others_stay(f):
    assert CHANGED not in nb.adjoint(f).explain(X)
    with uncompiled():
        check_derivatives(f, X, compiled=False)


def test_compiled():
    check_derivatives(windows, X, 3)
