"""Instances of classes of Python's own, made in the function: fields, methods, properties, data classes."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([1.3, 2.1, 0.7, 1.9])


class Base:
    scale = 2.0

    def __init__(self, k):
        self.k = k

    def f(self, y):
        return self.k * y * self.scale

    @staticmethod
    def sq(v):
        return v * v

    @property
    def half(self):
        return self.k / 2


class Derived(Base):
    def g(self, y):
        z = self.f(y)
        if z > 1:
            return z**2
        elif z > 0.5:
            return z
        return -z


class Acc:
    def __init__(self):
        self.s = 0.0
        self.n = 0
        self.hist = []

    def add(self, v):
        self.s += v * v
        self.n += 1
        self.hist.append(v)
        return self

    def mean(self):
        if self.n == 0:
            raise ValueError("none")
        return self.s / self.n


@dataclass
class P:
    a: float
    b: float = 2.0

    def val(self, x):
        return self.a * x + self.b


@dataclass
class Q:
    p: float
    log: list = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self):
        self.total = self.p * 2

    def step(self, v):
        self.log.append(v)
        self.total += v * self.p
        return self.total


class Car:
    def __init__(self, eng, mass):
        self.eng = Base(eng)
        self.mass = mass
        self.v = 0.0

    def push(self, dt):
        self.v += self.eng.f(1.0) / self.mass * dt


class Rng:
    def __init__(self, s):
        self.s = s

    def draw(self):
        self.s = 0.5 * self.s + 1.0
        return self.s


def use(b, y):
    return b.f(y) * b.k


def base1(x):
    b = Base(x[0])
    return b.f(x[1]) + b.half + Base.sq(2.0) * b.sq(x[2]) + b.scale


def der(x):
    d = Derived(x[0])
    s = 0.0
    for v in x:
        s += d.g(v) * d.g(v * 0.1)
    return s


def acc(x):
    a = Acc()
    for v in x:
        a.add(v)
    return a.mean() * a.hist[-1] + sum(a.hist)


def dc1(x):
    p = P(x[0])
    q = P(a=x[1], b=x[2])
    return sum(p.val(v) * q.val(v) for v in x)


def dc2(x):
    q = Q(x[0])
    r = 0.0
    for v in x:
        r += q.step(v)
    return r * q.total + q.log[1]


def car(x):
    c = Car(x[0], x[1])
    for _ in range(3):
        c.push(0.1)
    return c.v**2 * c.eng.k


def rng(x):
    r = Rng(x[0])
    a = r.draw() - 2 * r.draw()
    b = r.s
    return a * b + r.draw()


def inloop(x):
    s = 0.0
    for i in range(4):
        b = Derived(x[i])
        s += b.g(0.3 * i)
    return s


def setattr_(x):
    b = Base(1.0)
    b.k = x[0]
    b.k *= x[1]
    b.extra = x[2]
    return b.f(b.extra)


def whilem(x):
    r = Rng(x[0])
    n = 0
    while r.s < 1.9:
        r.draw()
        n += 1
    return r.s * n


def shadow(x):
    s = 5.0
    v = 3.0
    a = Acc()
    for k in range(3):
        a.add(x[k] * v)
    return a.s * s


def twoi(x):
    a, b = Acc(), Acc()
    a.add(x[0])
    b.add(x[1])
    return a.s * b.s


def oneline(x):
    return Base(x[0]).f(x[1]) + P(x[2]).val(x[3])


def passed(x):
    b = Base(x[0])
    return use(b, x[1])


def cond(x):
    b = Base(x[0])
    y = b.f(x[1]) if x[2] < 1 else b.half
    return y**2


def lam(x):
    b = Base(x[0])
    return list(map(lambda t: b.f(t) + b.k, x))[1] * b.half


def in_the_function(x):
    class Total:
        def __init__(self, start):
            self.value = start

        def add(self, v):
            self.value = self.value + v * v

    total = Total(0.0)
    for i in range(len(x)):
        total.add(x[i])
    return total.value


@pytest.mark.parametrize(
    "f",
    [base1, der, acc, dc1, dc2, car, rng, inloop, setattr_, whilem, shadow, twoi, oneline, passed, cond, lam,
     in_the_function],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_agrees(f):
    with uncompiled():
        agrees(f, (X,))


@dataclass(frozen=True)
class Station:
    lat: float
    weight: int = 1

    def distance(self, y):
        return (y - self.lat) ** 2


STATIONS = (Station(1.0), Station(2.0, 3))
HOME = Station(0.5, 2)


def gap(first, second, power=2):
    a, b = np.sin(first), np.sin(second)
    return (b - a) ** power + first * second


def of_the_module(x):
    s = HOME.distance(x[0]) * HOME.weight
    for station in STATIONS:
        s += station.distance(x[1]) * station.weight + gap(x[2], station.lat)
    return s


def test_instances_of_the_module_are_constants():
    with uncompiled():
        agrees(of_the_module, (X,))


class Gain:
    factor = 2.0

    def __init__(self, k):
        self.k = k

    def f(self, y):
        return self.k * y * self.factor


def gained(x):
    return Gain(x[0]).f(x[1])


def test_a_class_that_changes_is_seen():
    assert nb.adjoint(gained).value_and_grad(X)[0] == pytest.approx(gained(X))
    try:
        Gain.factor = 5.0
        assert nb.adjoint(gained).value_and_grad(X)[0] == pytest.approx(gained(X))
    finally:
        Gain.factor = 2.0


def an_instance_is_returned(x):
    return Gain(x[0])


def an_instance_is_in_a_list(x):
    return sum(g.f(1.0) for g in [Gain(v) for v in x])


def read_before_it_is_set(x):
    r = Rng(x[0])
    return r.s + r.draw() * 10


def called_after_a_pop(x):
    q, a = [x[0], x[1], x[2]], Rng(x[3])
    return q.pop() + a.draw() * len(q)


@pytest.mark.parametrize(
    "f",
    [an_instance_is_returned, an_instance_is_in_a_list, read_before_it_is_set, called_after_a_pop],
    ids=lambda f: f.__name__,
)
def test_other_uses_are_refused(f):
    with pytest.raises(TraceError):
        nb.adjoint(f).value_and_grad(X)
