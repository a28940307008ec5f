"""Instances that others hold, that have several names, or that are made of themselves; parents, setters, chains."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([1.3, 2.1, 0.7, 1.9])


@dataclass
class Line:
    a: float
    b: float = 0.5
    seen: list = field(default_factory=list)

    def put(self, v):
        self.seen.append(v)
        return self

    def mean(self):
        return sum(self.seen) / len(self.seen)

    def at(self, v):
        return self.a * v + self.b


class Base:
    w = 1.5

    def __init__(self, a):
        self.a = a
        self.last = 0.0

    def f(self, v):
        return self.a * v * self.w

    def step(self, v):
        old, self.last = self.last, self.f(v)
        return self.last + old

    @property
    def total(self):
        return self.a + self.last

    @total.setter
    def total(self, v):
        self.a = v * 0.5
        self.last = self.last + v


class Middle(Base):
    def __init__(self, a, c=0.3):
        super().__init__(a * c)
        self.c = c

    def f(self, v):
        return super().f(v) + self.c if v > 0.5 else self.c - v


class Last(Middle):
    w = 0.7

    def __init__(self, a):
        Middle.__init__(self, a, c=0.4)

    def f(self, v):
        return Base.f(self, v) * super().f(v)

    @property
    def twice(self):
        return super().total * 2


class Rooted:
    def __init__(self, a):
        super().__init__()
        self.a = a


class Pair:
    def __init__(self, line, model):
        self.line, self.model = line, model

    def both(self, v):
        return self.line.at(v) + self.model.f(v)

    def __call__(self, v):
        self.line.put(v)
        return self.model.step(v)


def parents(x):
    m = Middle(x[0], c=x[1])
    return m.f(x[2]) * m.f(0.3) + m.step(x[3]) * m.total


def grandparents(x):
    k = Last(x[0])
    s = 0.0
    for v in x:
        t = k.step(v)
        s += t * k.twice
    return s + Rooted(x[1]).a


def setter(x):
    k = Base(x[0])
    k.total = k.step(x[1])
    k.total = k.a * x[2]
    return k.a * k.last


def methods_in_arguments(x):
    p = Line(x[0], x[1])
    p.put(p.at(x[2]))
    p.put(p.at(p.at(x[3])))
    return p.mean()


def of_itself(x):
    p = Line(x[0], x[1])
    for _ in range(3):
        p = Line(p.b * x[2], p.a)
    k = Base(p.a)
    k = Base(k.f(k.w) * k.f(x[3]))
    return p.a * p.b * k.a


def two_names(x):
    r = Base(x[0])
    q = r
    q.a = x[1]
    return r.a * q.f(x[2])


class Scaled:
    def __init__(self, a, b=2.0, *, c=0.5, d):
        self.a, self.b, self.c, self.d = a, b, c, d

    def f(self, v, w=3.0, *, power=2):
        return self.a * v**power + self.b * w + self.c * self.d


def with_defaults(x):
    p, q = Scaled(x[0], d=x[1]), Scaled(x[2], c=x[3], b=x[0], d=1.0)
    s = sum(p.f(v, power=3) for v in x)
    return s * p.f(x[1]) * q.f(x[2], x[3])


def held(x):
    p, k = Line(x[0]), Base(x[1])
    z = Pair(p, k)
    s = z.both(x[2])
    p.a = s
    s += z(x[3])
    k.a *= 0.5
    s += z(x[2])
    return s * p.mean() + z.line.at(s) * z.model.total


@pytest.mark.parametrize(
    "f",
    [parents, grandparents, setter, methods_in_arguments, of_itself, two_names, held, with_defaults],
    ids=lambda f: f.__name__,
)
def test_agrees(f):
    with uncompiled():
        agrees(f, (X,))


def test_chains():
    def f(x):
        p = Line(x[1])
        s = p.put(x[2]).put(p.at(0.5)).mean()
        p.put(s).put(p.mean())
        s += p.put(x[3]).mean()
        return s * p.mean()

    with uncompiled():
        agrees(f, (X,))


def read_beside(x):
    p, k = Line(x[0]), Base(x[1])
    z = Pair(p, k)
    s = k.last + z(x[2])  # z changes what was read
    return s


def of_several(x):
    s = 0.0
    for i in range(3):
        k = Base(x[i])
        if i == 0:
            first = k
        k.a = x[3] * i
        s += first.a
    return s


def chosen(x):
    p, q = Base(x[0]), Base(x[1])
    r = p if x[2] > 1 else q
    r.a = x[3]
    return p.a * q.a


class Writer:
    def __init__(self, y):
        self.y = y
        self.n = 0

    def add(self, v):
        self.y[0] += v
        self.n += 1
        return self.y[1]


def add_to(y):
    y[0] += 1.0
    return y[1]


def function_first(x):
    y, p = x * 0.5, Line(x[0])
    return add_to(y) + p.at(y[0])


def sum_first(x):
    y = x * 0.5
    w = Writer(y)
    return np.sum(y) * w.add(x[2]) + np.sum(y)


def method_first(x):
    y = x * 0.5
    w = Writer(y)
    return y.sum() * w.add(x[2])


def operator_first(x):
    y = x * 0.5
    w = Writer(y)
    z = (y + 1.0) * w.add(x[2])
    return z[0]


def closure_first(x):
    k = Base(x[1])

    def g(v):
        return k.last * v

    return g(x[0]) + k.step(x[2])


def pop_first(x):
    q = [x[0], x[1], x[2]]
    return q.pop(0) + Base(q[0]).f(x[3])


def field_after_pop(x):
    q = [x[0], x[1], x[2]]
    return q.pop(0) + Base(q[0]).a


def another_first(x):
    y, p = x * 0.5, Line(x[0])
    w = Writer(y)
    s = 1.0
    for i in range(3):
        s = s * 0.5 + w.add(x[i])
    t = w.add(x[2]) + p.at(y[0])
    return s + t * w.n


def test_a_method_is_called_in_order():
    with uncompiled():
        agrees(another_first, (X,))


@pytest.mark.parametrize(
    "f",
    [read_beside, of_several, chosen, function_first, sum_first, method_first, operator_first, closure_first,
     pop_first, field_after_pop],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_what_may_be_evaluated_in_another_order_is_refused(f):
    with pytest.raises(TraceError):
        nb.adjoint(f).value_and_grad(X)


class Mover:
    def __init__(self, v):
        self.v = v

    def moved(self, d):
        self.v += d
        return self.v


def test_refusals_show_where_an_instance_is_used_otherwise():
    def f(a, b):
        p = Mover(a)
        q = b + 1.0
        if 0.0 < b < p.moved(1.0):
            q = p.v * a
        return q

    with pytest.raises(TraceError, match=r"as in line \d+, 'if 0.0 < b < p.moved\(1.0\):', in 'p = Mover\(a\)'"):
        nb.adjoint(f).value_and_grad(1.0, 2.0)
