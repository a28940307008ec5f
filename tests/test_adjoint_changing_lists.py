"""Lists changed in the middle, sets, deques, and lists of tuples."""

import collections
from collections import deque

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([1.3, 2.1, 0.7, 1.9])


def pop1(x):
    q = [x[0], x[1], x[2], x[3]]
    a = q.pop(1)
    b = q.pop(-2)
    return a * q[0] + b * q[1] + len(q)


def ins(x):
    q = [x[0], x[1]]
    q.insert(1, x[2] * 2)
    q.insert(100, x[3])
    q.insert(-1, x[0] ** 2)
    return sum((k + 1) * v for k, v in enumerate(q))


def rem(x):
    q = [x[0], x[1], x[2], x[3]]
    q.remove(min(q))
    del q[0]
    s = 0.0
    for k, v in enumerate(q):
        s += (k + 2) * v
    return s + q.count(x[1]) + (x[1] in q) + q.index(x[1])


def setrun(x):
    seen = set()
    s = 0.0
    k = 1
    while k not in seen:
        seen.add(k)
        s += x[k % 4] * k
        k = (k * 3 + 1) % 7
    return s * len(seen)


def setinit(x):
    active = {0, 2, 3}
    s = 0.0
    for k in range(4):
        if k in active:
            s += x[k] ** 2
    active.discard(2)
    active.remove(0)
    return s * len(active) + x[1]


def inset(x):
    s = 0.0
    for k in range(4):
        if k in {1, 3}:
            s += x[k] ** 2
    return s


def slicedlist(x):
    buf = []
    s = 0.0
    for v in x:
        buf.append(v)
        if len(buf) > 2:
            buf.pop(0)
        s += sum(buf) / len(buf)
    return s


def deq(x):
    buf = deque(maxlen=2)
    s = 0.0
    for v in x:
        buf.append(v)
        s += sum(buf) / len(buf)
    return s


def deq2(x):
    q = collections.deque([x[0], x[1]])
    s = 0.0
    for _ in range(4):
        v = q.popleft()
        q.append(v * 0.5 + x[2])
        s += v
    return s


def pipeline(x):
    stock, pipe, cost = 5.0, [], 0.0
    for t in range(6):
        arrived = sum(q for due, q in pipe if due == t)
        pipe = [(due, q) for due, q in pipe if due > t]
        stock = stock + arrived - x[t % 4]
        pipe.append((t + 2, 0.5 * x[t % 4] + 0.1 * stock))
        cost += stock**2
    return cost


def popk(x):
    free, total = [x[0], x[1], x[2]], 0.0
    while free:
        m = min(free)
        free.pop(free.index(m))
        total = total * 0.5 + m
    return total


def queue(x):
    jobs, clock, done = [(k, v) for k, v in enumerate(x)], 0.0, []
    while jobs:
        jobs.sort(key=lambda job: job[1])
        k, v = jobs.pop(0)
        clock += v
        done.append((k, clock))
        if len(jobs) > 1:
            last = jobs[-1]
            jobs[-1] = (last[0], last[1] * 0.5)
    return sum((k + 1) * t for k, t in done) + done[-1][1]


def polynomial(x):
    poly = [1.0]
    for v in x:
        out = [0.0] * (len(poly) + 1)
        for i, c in enumerate(poly):
            out[i] += c * v
            out[i + 1] += c
        poly = out
    poly[-1] += x[0]
    return sum((k + 1) * c for k, c in enumerate(poly))


def routh(x):
    row1, row2, column = list(x[:2]), list(x[2:]), []
    for _ in range(2):
        new = [(row2[0] * row1[j + 1] - row1[0] * row2[j + 1]) / row2[0] for j in range(1)]
        new.append(0.5)
        column.append(new[0])
        row1, row2 = row2, new
    return sum(column) + row1[0] * row2[0]


@pytest.mark.parametrize(
    "f",
    [pop1, ins, rem, setrun, setinit, inset, slicedlist, deq, deq2, pipeline, popk, queue, polynomial, routh],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_agrees(f):
    with uncompiled():
        agrees(f, (X,))


def not_there(x):
    q = [x[0], x[1]]
    return q.index(3.0)


def test_an_item_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="not in the list"):
        nb.adjoint(not_there).value_and_grad(X)


def order_of_a_set(x):
    seen = {3, 1, 2}
    s = 0.0
    for k in seen:
        s = s * 0.5 + x[k]
    return s


def test_the_order_of_a_set_is_refused():
    with pytest.raises(TraceError, match="set"):
        nb.adjoint(order_of_a_set).value_and_grad(X)


def a_slice_is_another_list(x):
    y, s = [x[0], x[1], x[2]], 0.0
    for v in y[1:]:
        y[0], y[-1] = y[-1], y[0]
        s = s * 0.5 + v
    return s


def a_closure_reads_the_list_that_there_is_then(x):
    y = [x[0], x[1], x[2]]

    def first(r):
        return y[0] * r

    y = [v * 0.5 + x[3] for v in y]
    return first(y[-1])


def rebuilt(x):
    p, q = [1.0] * 3, [0.5] * 4
    for _ in range(2):
        new = []
        for i in range(3):
            new.append(p[i] * x[i] + q[i])
        s = sum(new)
        p = [v / s for v in new]
        q = [v + 0.1 * w for v, w in zip(q, x)]
    return sum((k + 1) * v for k, v in enumerate(p)) + q[2]


def average(values):
    return sum(values) / len(values)


def passed_to_a_function(x):
    seen = []
    for v in x:
        seen.append(v * average(seen) if seen else v)
    return average(seen)


@pytest.mark.parametrize(
    "f",
    [a_slice_is_another_list, a_closure_reads_the_list_that_there_is_then, rebuilt, passed_to_a_function],
    ids=lambda f: f.__name__,
)
def test_lists_are_those_that_there_are_then(f):
    with uncompiled():
        agrees(f, (X,))
