"""When Python evaluates what, in lists and arrays: views, lazy iterators, snapshots, effects.

Each program gives what Python gives, or is refused. They were found by random programs and by hand.
"""

# ruff: noqa: B007, B023, E731, RUF007

import functools
import itertools
from collections import deque

import pytest
from loop_programs import Programs, as_python_or_refused

program = Programs()
reduce = functools.reduce


@program
def k4(a, b):
    y = [a, b]
    g = lambda: y[0] * 2
    y = [v * b for v in y]
    return g() * a


@program
def k6(a, b):
    y = [a]
    y.append(b)

    def g():
        return sum(y)

    y = [v * b for v in y]
    y.append(3.0)
    return g() * a


@program
def k12(a, b):
    y = [a, b]

    def g():
        return y[0] * 2

    y = sorted(y)
    return g() * a


@program
def k13(a, b):
    y = [a, b]

    def g():
        return y[0] * 2

    y = y[::-1]
    return g() * a


@program
def k14(a, b):
    y = [a, b]

    def g():
        return y[0] * 2

    y = [v for v in y if v > 0.31]
    return g() * a


@program
def k38(a, x):
    y = [a, 2.0, a * a]
    r = 0.0
    for v in y[1:]:
        y[2] = v + 1
        r = r * 0.5 + v
    return r


@program
def k41(a, x):
    y = [a, 2.0, a * a]
    r = 0.0
    for i, v in enumerate(y[1:]):
        y[2] = v + i
        r = r * 0.5 + v
    return r


@program
def k42(a, x):
    y = [a, 2.0, a * a]
    r = 0.0
    for i, v in enumerate(y[:]):
        y[i - 1] = v + i
        r = r * 0.5 + v
    return r


@program
def k45(a, x):
    y = []
    for v in x:
        y.append(v * a)
    r = 0.0
    for p, q in zip(y[:-1], y[1:]):
        y[-1] = p * 0.5
        r = r * 0.5 + p * q
    return r


@program
def z24(a, b):
    y = [a, b, a * b]
    r = 0.0
    for p, q in zip(y[:-1], y[1:]):
        y[2] = p + a
        r = r * 0.5 + p * q
    return r


@program
def z26(a, b):
    y = [a]
    y.append(b)
    y.append(a * b)
    r = 0.0
    for v in y[1:]:
        y[2] = v + a
        r = r * 0.5 + v
    for v in list(y):
        y[-1] = y[-1] * 2 + v
        r = r * 0.5 + v
    for v in reversed(y):
        y[0] = v * 2
        r = r * 0.5 + v
    return r


@program
def z8(a, x):
    x = x.copy()
    r = 0.0
    for p, q in itertools.product(x, (1.0, 2.0)):
        x[-1] = x[-1] + p * a * q
        r = r * 0.5 + p
    return r


@program
def z10(a, x):
    x = x.copy()
    r = 0.0
    for p, q in itertools.combinations(x, 2):
        x[-1] = x[-1] + p * a * q
        r = r * 0.5 + p - q
    return r


@program
def z21(a, b):
    y = [a, b, a * b]
    r = 0.0
    for p, q in itertools.combinations(y, 2):
        y[2] = p + a
        r = r * 0.5 + p * q
    return r


@program
def z22(a, b):
    y = [a, b, a * b]
    r = 0.0
    for p, q in itertools.product(y, y):
        y[2] = p + a
        r = r * 0.5 + p * q
    return r


@program
def z25(a, b):
    y = [a]
    y.append(b)
    y.append(a * b)
    r = 0.0
    for p, q in itertools.product(y, y):
        y[2] = p + a
        r = r * 0.5 + p * q
    return r


@program
def k26(a, x):
    r = 0.0
    for p, q in itertools.combinations(x, 2):
        x = x * 0.5 + a
        r = r * 0.5 + p * q
    return r


@program
def k27(a, x):
    r = 0.0
    for p, q in itertools.product(x, x):
        x = x * 0.5 + a
        r = r * 0.5 + p * q
    return r


@program
def i36(a, x):
    it = iter(x)
    r = 0.0
    for v in it:
        r += v
        if v > 1:
            break
    for v in it:
        r = r * a - v
    return r


@program
def z40(a, x):
    it = iter(x)
    r = 0.0
    for i in range(2):
        r += next(it) * a
        for v in it:
            r += v
            break
    return r


@program
def z41(a, x):
    it = iter(x)
    f = next(it)
    r = 0.0
    for v in it:
        if v > 0:
            break
        r += v
    try:
        g = next(it)
    except StopIteration:
        g = 100.0
    return r + g * f


@program
def z45(a, x):
    it = iter(x)
    r = 0.0
    for i in range(2):
        for v in it:
            r = r * a + v
    return r


@program
def z1(a, x):
    r = 0.0
    for u in map(lambda v: v * a, x):
        a = a + 1
        r += u
    return r


@program
def z2(a, x):
    r = 0.0
    for u in (v * a for v in x):
        a = a + 1
        r += u
    return r


@program
def z4(a, x):
    r = 0.0
    for p, u in zip(x, (v * a for v in x)):
        a = a + p
        r += u
    return r


@program
def z5(a, x):
    r = 0.0
    for u in itertools.accumulate(x, lambda p, q: p * a + q):
        a = a * 0.5
        r += u
    return r


@program
def z12(a, x):
    x = x.copy()
    r = 0.0
    for p in itertools.accumulate(x):
        x[-1] = x[-1] + p * a
        r = r * 0.5 + p
    return r


@program
def z38(a, x):
    x = x.copy()
    s = sum(v for v in x)
    m = map(lambda v: v * a, x)
    r = 0.0
    for u in m:
        x[-1] = u
        r += u
    return r + s


@program
def i20(a, x):
    g = (v * a for v in x if v > 0)
    r = 0.0
    for u in g:
        a = a + 1
        r += u
    return r


@program
def l52(a, b):
    y = [a, b, a * b]
    return y.pop(-4)


@program
def o36(a, b):
    y = [a, b, 3.0]
    del y[-4]
    return y[0]


@program
def o38(a, b):
    y = [a, b, 3.0]
    k = int(b * 2)
    v = y.pop(-k)
    return v + y[0]


@program
def o39(a, b):
    q = deque([a, b], maxlen=2)
    q.insert(0, a)
    return q[0]


@program
def l17(a, b):
    s = set()
    s.add(1)
    s.remove(2)
    return a


@program
def i3(a, x):
    return reduce(lambda p, q: p * a + q, x)


@pytest.mark.parametrize("f", program, ids=lambda f: f.__name__)
def test_as_python_or_refused(f):
    as_python_or_refused(f)
