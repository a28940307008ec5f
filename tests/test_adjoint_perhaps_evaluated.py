"""What Python evaluates perhaps: operands of chained comparisons, messages, items behind the one that decides. Classes
with private names, descriptors, and several definitions of one name.

Each program gives what Python gives, or is refused. They were found by hand.
"""

# ruff: noqa: F821

import numpy as np
import pytest
from loop_programs import Programs, as_python_or_refused


class P:
    def __init__(self, v):
        self.v = v
        self.n = 0

    def bump(self, d):
        self.v += d
        self.n += 1
        return self.v


class Priv:
    def __init__(self, v):
        self.__v = v

    def f(self):
        return self.__v * 2


class Priv2(Priv):
    def __init__(self, v):
        super().__init__(v)
        self.__v = v * 10

    def g(self):
        return self.__v * self.f()


class Desc:
    def __get__(self, o, t):
        return o._v * 3

    def __set__(self, o, v):
        o._v = v + 1


class WD:
    v = Desc()

    def __init__(self, v):
        self.v = v


class U:
    def __init__(self, v):
        self.v = v

    def h(self):
        return self.v * b


class Private:
    def __init__(self, v):
        self.__v = v

    def __twice(self):
        return self.__v * 2

    def f(self):
        return self.__twice() + 1


program = Programs()


@program
def comparison_that_ends(a, b):
    p = P(a)
    if 0.0 < b < p.bump(1.0):
        return p.v * a
    return p.v * b


@program
def comparison_that_ends_at_once(a, b):
    p = P(a)
    if 5.0 < b < p.bump(1.0):
        return p.v * a
    return p.v * b


@program
def next_in_a_comparison(a, x):
    it = iter(x)
    if 5 < a < next(it):
        return a * next(it)
    return a * next(it)


@program
def comparison_of_methods(a, b):
    p = P(a)
    k = 0.0 < p.bump(b) < p.bump(1.0) < 3.0
    if k:
        return p.v * a
    return p.v


@program
def method_in_a_message(a, b):
    p = P(a)
    assert a > -100, p.bump(b)
    return p.v * b


@program
def pop_in_a_message(a, b):
    d = {"u": a}
    assert a > -100, d.pop("u")
    return a * (b + len(d))


@program
def any_with_effects(a, x):
    w = np.zeros(1)

    def g(v):
        w[0] += v
        return w[0]

    if any(g(v) > 1 for v in x):
        return w[0] * a
    return a * w[0]


@program
def all_with_effects(a, x):
    w = np.zeros(1)

    def g(v):
        w[0] += v
        return w[0]

    if all(g(v) < 1 for v in x):
        return w[0] * a
    return a * w[0]


@program
def any_of_draws(a, x):
    rng = np.random.default_rng(3)
    if any(rng.random() > 0.5 for _ in range(5)):
        a *= 2
    return a * rng.random()


@program
def any_beyond_the_end(a, x):
    if any(x[i] > -100 for i in range(9)):
        return a * a
    return a


@program
def any_with_errors(a, x):
    def f(v):
        if v > 100:
            raise ValueError("v")
        return v

    k = any(f(v) > 0 for v in (1.0, 200.0))
    return a * 2 if k else a


@program
def default_that_draws(a, b):
    rng = np.random.default_rng(1)
    return next((v * a for v in rng.random(4) if v > 0.5), rng.random()) * rng.random()


@program
def default_that_is_computed(a, x):
    return next((v * a for v in x if v > 50), sum(x)) * a


@program
def default_of_a_class_inside(a, b):
    k = a

    class T:
        def __init__(self, w=k * 2):
            self.w = w

    k = b
    return T().w * k


@program
def constant_default_of_a_class_inside(a, b):
    class T:
        def __init__(self, w=2.0):
            self.w = w

    return T().w * a + T(b).w


@program
def class_defined_twice(a, b):
    class L:
        def __init__(self, v):
            self.v = v

    p = L(a)

    class L:
        def __init__(self, v):
            self.v = v * 10

    q = L(b)
    return p.v + q.v


@program
def class_in_branches(a, b):
    if a > 10:

        class L:
            def f(self, u):
                return u * a
    else:

        class L:
            def f(self, u):
                return u + a

    return L().f(b)


@program
def class_before_its_definition(a, b):
    p = L(a)

    class L:
        def __init__(self, v):
            self.v = v

    return p.v


@program
def private_fields(a, b):
    p = Priv2(a)
    return p.g() * b


@program
def private_field_from_outside(a, b):
    p = Priv(a)
    p.__v = b
    return p.f() * p.__v


@program
def private_method(a, b):
    p = Private(a)
    return p.f() * b


@program
def private_in_a_class_inside(a, b):
    class Q:
        def __init__(self, v):
            self.__v = v

        def __h(self):
            return self.__v

        def f(self):
            return self.__h() * 2

    q = Q(a)
    q.__v = b
    return q.f() * q.__v


@program
def descriptor(a, b):
    p = WD(a)
    p.v += b
    return p.v


@program
def global_that_is_not_there(a, b):
    p = U(a)
    return p.h() + b


@pytest.mark.parametrize("f", program, ids=lambda f: f.__name__)
def test_as_python_or_refused(f):
    as_python_or_refused(f)
