"""Iterators: itertools, functools.reduce, next, iter, and keys of sorted, max and min."""

import functools
import itertools
import operator

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([1.3, 2.1, 0.7, 1.9])
SPECIES = ["lynx", "hare", "grass"]


def lindex(x):
    i = SPECIES.index("hare")
    return x[i] * x[SPECIES.index("grass")]


def perms(a):
    tot = 0.0
    for p in itertools.permutations(range(3)):
        sign = 1.0
        for i in range(3):
            for j in range(i + 1, 3):
                if p[i] > p[j]:
                    sign = -sign
        prod = sign
        for i in range(3):
            prod *= a[i] ** (p[i] + 1)
        tot += prod
    return tot


def sortedkey(x):
    order = sorted(range(len(x)), key=lambda i: x[i])
    s = 0.0
    for r, i in enumerate(order):
        s += (r + 1) * x[i]
    return s


def redu(x):
    return functools.reduce(lambda a, b: a * b + 1.0, x)


def maxkey(x):
    i = max(range(len(x)), key=lambda i: x[i])
    return x[i] * x[0]


def nextgen(x):
    i = next((k for k, v in enumerate(x) if v > 2), -1)
    j = next(k for k in range(4) if x[k] < 1)
    return x[i] * x[j] ** 2


def nextnone(x):
    best = next((v for v in x if v > 1.5), None)
    if best is None:
        return x[0]
    return best**2


def combx(x):
    return sum(a * b for a, b in itertools.combinations(x, 2))


def comb3(x):
    t = 0.0
    for a, b, c in itertools.combinations(x, 3):
        t += a * b * c
    for i, j in itertools.combinations_with_replacement(range(4), 2):
        t += x[i] * x[j]
    return t


def pairw(x):
    return sum((b - a) ** 2 for a, b in itertools.pairwise(x))


def islc(x):
    return sum(v * v for v in itertools.islice(x, 3))


def countl(x):
    y = x[0]
    for k in itertools.count(1):
        y = y * 0.5 + x[1] / k
        if k > 6:
            break
    return y


def accm(x):
    c = list(itertools.accumulate(x, lambda a, b: a * 0.5 + b))
    d = list(itertools.accumulate(x, operator.mul))
    return c[-1] + sum(d) + max(itertools.accumulate(x, max))


def redi(x):
    return functools.reduce(lambda a, k: a * x[k] + k, range(4), 1.0) + functools.reduce(operator.mul, x)


def horner(x):
    return functools.reduce(lambda acc, c: acc * 0.7 + c, reversed(x), 0.0)


def sortpairs(x):
    items = [(x[i], i * 1.0) for i in range(4)]
    items.sort(key=lambda t: t[0])
    return sum(w * (k + 1) for k, (w, _) in enumerate(items))


def sortedpairs(x):
    w = [0.4, 0.3, 0.2, 0.1]
    pairs = sorted(zip(x, w), key=lambda t: t[0])
    s = 0.0
    acc = 0.0
    for v, wt in pairs:
        acc += wt
        s += v * acc
    return s


def sortedplain(x):
    w = [0.4, 0.3, 0.2, 0.1]
    s = 0.0
    for v, wt in sorted(zip(x, w)):
        s = s * 0.5 + v * wt
    return s


def sortrev(x):
    y = sorted(x, key=lambda v: abs(v - 1.5), reverse=True)
    return y[0] * 3 + y[-1] ** 2


def minkey(x):
    v = min(x, key=lambda u: (u - 1.8) ** 2)
    return v**2


def minkey2(x):
    return min([x[0] * x[1], x[2] ** 2, x[3]], key=lambda u: abs(u - 1.0))


def star2(x):
    a, *mid, b = x
    return a * b + sum(m * m for m in mid)


def itr(x):
    it = iter(x)
    a = next(it)
    b = next(it)
    s = a * b
    for v in it:
        s += v * a
    return s


def prodl(x):
    return sum(x[i] * x[j] for i, j in itertools.product(range(2), range(2, 4)))


@pytest.mark.parametrize(
    "f",
    [lindex, perms, sortedkey, redu, maxkey, nextgen, nextnone, combx, comb3, pairw, islc, countl, accm, redi,
     horner, sortpairs, sortedpairs, sortedplain, sortrev, minkey, minkey2, star2, itr, prodl],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_agrees(f):
    with uncompiled():
        agrees(f, (X,))


def bound_again(x):
    s = 0.3
    for v, w in itertools.combinations(x, 2):
        x = x * 0.5 + s
        s = s * 0.5 + v * w
    return s


def written(x):
    x, s = x * 1.0, 0.3
    for v, w in itertools.combinations(x, 2):
        x[0] = 0.5
        s = s * 0.5 + v * w
    return s


def another_number(x):
    n, s = 2, 0.0
    for i, j in itertools.product(range(n), range(n)):
        n = 3
        s += x[i] * x[j]
    return s


def after_a_pop(x):
    q = [x[0], x[1], x[2], x[3]]
    return q.pop() + max([v * 2 for v in q], key=lambda v: -v)


def doubled_first(z):
    z[0] = z[0] * 3
    return z[1]


def after_a_call(x):
    x = x * 1.0
    return doubled_first(x) + next(v for v in x if v > 1.4)


@pytest.mark.parametrize(
    "f", [bound_again, written, another_number, after_a_pop, after_a_call], ids=lambda f: f.__name__
)
def test_what_python_evaluates_at_another_time_is_refused(f):
    with pytest.raises(TraceError):
        nb.adjoint(f).value_and_grad(X)
