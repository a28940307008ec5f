"""When Python evaluates what: aliases, views, lazy iterators, snapshots, effects.

Each program gives what Python gives, or is refused. They were found by random programs and by hand.
"""

# ruff: noqa: B007, B023, E731, RUF007

import functools
import itertools
from collections import deque

import numpy as np
import pytest
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

A, B, X = 1.5, 2.0, np.array([0.5, 2.0, 3.0, -1.0])
reduce = functools.reduce


def v4(a, b):
    d = {"a": {"x": a}, "b": {"x": b}}
    for k in d:
        i = d[k]
        i["x"] += 1
    return d["a"]["x"] * 3 + d["b"]["x"]


def v5(a, b):
    d = {"a": {"x": a}}
    i = d["a"]
    for j in range(3):
        i["x"] += b
    return d["a"]["x"] * 3


def q35(a, b):
    d = {"a": {"x": a}}
    i = d["a"]
    i["x"] = b
    return i["x"] * 3 + d["a"]["x"]


def q37(a, b):
    d = {"a": {"x": a}}
    d["b"] = d["a"]
    d["b"]["x"] *= 2
    return d["a"]["x"] * 3 + d["b"]["x"] * b


def v14(a, b):
    d = {"a": {"x": a}}
    e = d.copy()
    d["a"]["x"] = b
    return e["a"]["x"] * 3 * a


def k4(a, b):
    y = [a, b]
    g = lambda: y[0] * 2
    y = [v * b for v in y]
    return g() * a


def k6(a, b):
    y = [a]
    y.append(b)

    def g():
        return sum(y)

    y = [v * b for v in y]
    y.append(3.0)
    return g() * a


def k12(a, b):
    y = [a, b]

    def g():
        return y[0] * 2

    y = sorted(y)
    return g() * a


def k13(a, b):
    y = [a, b]

    def g():
        return y[0] * 2

    y = y[::-1]
    return g() * a


def k14(a, b):
    y = [a, b]

    def g():
        return y[0] * 2

    y = [v for v in y if v > 0.31]
    return g() * a


def k38(a, x):
    y = [a, 2.0, a * a]
    r = 0.0
    for v in y[1:]:
        y[2] = v + 1
        r = r * 0.5 + v
    return r


def k41(a, x):
    y = [a, 2.0, a * a]
    r = 0.0
    for i, v in enumerate(y[1:]):
        y[2] = v + i
        r = r * 0.5 + v
    return r


def k42(a, x):
    y = [a, 2.0, a * a]
    r = 0.0
    for i, v in enumerate(y[:]):
        y[i - 1] = v + i
        r = r * 0.5 + v
    return r


def k45(a, x):
    y = []
    for v in x:
        y.append(v * a)
    r = 0.0
    for p, q in zip(y[:-1], y[1:]):
        y[-1] = p * 0.5
        r = r * 0.5 + p * q
    return r


def z24(a, b):
    y = [a, b, a * b]
    r = 0.0
    for p, q in zip(y[:-1], y[1:]):
        y[2] = p + a
        r = r * 0.5 + p * q
    return r


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


def z8(a, x):
    x = x.copy()
    r = 0.0
    for p, q in itertools.product(x, (1.0, 2.0)):
        x[-1] = x[-1] + p * a * q
        r = r * 0.5 + p
    return r


def z10(a, x):
    x = x.copy()
    r = 0.0
    for p, q in itertools.combinations(x, 2):
        x[-1] = x[-1] + p * a * q
        r = r * 0.5 + p - q
    return r


def z21(a, b):
    y = [a, b, a * b]
    r = 0.0
    for p, q in itertools.combinations(y, 2):
        y[2] = p + a
        r = r * 0.5 + p * q
    return r


def z22(a, b):
    y = [a, b, a * b]
    r = 0.0
    for p, q in itertools.product(y, y):
        y[2] = p + a
        r = r * 0.5 + p * q
    return r


def z25(a, b):
    y = [a]
    y.append(b)
    y.append(a * b)
    r = 0.0
    for p, q in itertools.product(y, y):
        y[2] = p + a
        r = r * 0.5 + p * q
    return r


def k26(a, x):
    r = 0.0
    for p, q in itertools.combinations(x, 2):
        x = x * 0.5 + a
        r = r * 0.5 + p * q
    return r


def k27(a, x):
    r = 0.0
    for p, q in itertools.product(x, x):
        x = x * 0.5 + a
        r = r * 0.5 + p * q
    return r


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


def z40(a, x):
    it = iter(x)
    r = 0.0
    for i in range(2):
        r += next(it) * a
        for v in it:
            r += v
            break
    return r


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


def z45(a, x):
    it = iter(x)
    r = 0.0
    for i in range(2):
        for v in it:
            r = r * a + v
    return r


def z1(a, x):
    r = 0.0
    for u in map(lambda v: v * a, x):
        a = a + 1
        r += u
    return r


def z2(a, x):
    r = 0.0
    for u in (v * a for v in x):
        a = a + 1
        r += u
    return r


def z4(a, x):
    r = 0.0
    for p, u in zip(x, (v * a for v in x)):
        a = a + p
        r += u
    return r


def z5(a, x):
    r = 0.0
    for u in itertools.accumulate(x, lambda p, q: p * a + q):
        a = a * 0.5
        r += u
    return r


def z12(a, x):
    x = x.copy()
    r = 0.0
    for p in itertools.accumulate(x):
        x[-1] = x[-1] + p * a
        r = r * 0.5 + p
    return r


def z38(a, x):
    x = x.copy()
    s = sum(v for v in x)
    m = map(lambda v: v * a, x)
    r = 0.0
    for u in m:
        x[-1] = u
        r += u
    return r + s


def i20(a, x):
    g = (v * a for v in x if v > 0)
    r = 0.0
    for u in g:
        a = a + 1
        r += u
    return r


def d32(a, b):
    d = {"a": a, "b": b}
    ks = d.keys()
    d["c"] = a * b
    r = 0.0
    for k in ks:
        r += d[k]
    return r + len(ks)


def e1(a, b):
    d = {"a": a}
    v = d.values()
    d["b"] = b
    return sum(v) + len(v)


def e2(a, b):
    d = {"a": a}
    it = d.items()
    d["a"] = b
    r = 0.0
    for k, v in it:
        r += v * a
    return r


def v37(a, b):
    d = {"a": a, "b": b}
    vs = d.values()
    d["a"] *= 2
    return max(vs) * 3 + min(vs)


def e43(a, b):
    d = {"a": a, "b": b}
    for v in d.values():
        d["a"] = v * b
        d["b"] = v + 1
    return d["a"] + d["b"]


def z29(a, b):
    d = {"a": a, "b": b, "c": a * b}
    for k, v in zip(d, d.values()):
        d["c"] = v + 1
        a = a * 0.5 + v
    return a + d["c"]


def z30(a, b):
    d = {"a": a, "b": b, "c": a * b}
    for i, (k, v) in enumerate(d.items()):
        d["c"] = v + 1
        a = a * 0.5 + v * i
    return a + d["c"]


def r3(a, b):
    d = {"k": a}
    x = d.pop("k") * 2 + d.setdefault("k", b)
    return x * d["k"]


def r7(a, b):
    d = {"k": a}
    y = [d["k"], d.pop("k"), d.setdefault("k", a * b)]
    return y[0] + 2 * y[1] + 3 * y[2]


def r12(a, b):
    d = {"k": a}
    x = (d.pop("k"), d.setdefault("k", b), d["k"])
    return x[0] + 2 * x[1] + 3 * x[2]


def r13(a, b):
    d = {"k": a}
    d["k"] = d.pop("k") + d.setdefault("k", b)
    return d["k"]


def w1(u, x):
    u[0] = x
    return x * 2


def r2(a, b):
    u = np.array([a, b])
    d = {"k": a}
    x = d.get("k", w1(u, b))
    return x + u[0]


def l52(a, b):
    y = [a, b, a * b]
    return y.pop(-4)


def o36(a, b):
    y = [a, b, 3.0]
    del y[-4]
    return y[0]


def o38(a, b):
    y = [a, b, 3.0]
    k = int(b * 2)
    v = y.pop(-k)
    return v + y[0]


def o39(a, b):
    q = deque([a, b], maxlen=2)
    q.insert(0, a)
    return q[0]


def r27(a, b):
    d = {"k": a}
    for k in d:
        d["new"] = b
    return d["k"]


def r28(a, b):
    d = {"k": a, "m": b}
    for k in d:
        d[k + "2"] = d[k]
    return d["k2"]


def d34(a, b):
    d = {"a": a, "b": b}
    for k in d:
        if d[k] < 0:
            d["new"] = 1.0
    return d["a"]


def l17(a, b):
    s = set()
    s.add(1)
    s.remove(2)
    return a


def i3(a, x):
    return reduce(lambda p, q: p * a + q, x)


def n18(a, x):
    d = {}
    for i in range(4):
        d[i] = x[i] * a
    s = 0.0
    for i in sorted(d, key=lambda i: d[i]):
        s = s * 0.5 + d[i]
    return s


class P:
    def __init__(self, v, w=1.0):
        self.v = v
        self.w = w
        self.u = np.array([v, w])

    @property
    def nxt(self):
        self.v = self.v * 0.5 + self.w
        return self.v

    @property
    def tick(self):
        self.u[0] += 1.0
        return self.u[0]


def doubled(x, y):
    return x * 2 - y


def property_as_argument(a, b):
    p = P(a, b)
    return doubled(p.v, p.nxt)


def property_in_a_tuple(a, b):
    p = P(a, b)
    x, y = p.v, p.nxt
    return x * 2 + y


def property_in_a_list(a, b):
    p = P(a, b)
    y = [p.v, p.nxt, p.v]
    return y[0] + 2 * y[1] + 3 * y[2]


def property_that_writes(a, b):
    p = P(a, b)
    return p.u[0] + p.tick * p.u[0]


def property_in_a_test(a, b):
    p = P(a, b)
    if p.v > p.nxt:
        return p.v
    return p.v * 2


def property_added(a, b):
    p = P(a, b)
    p.v += p.nxt
    return p.v


# fmt: off
OF_TWO = [
    v4, q35, v14, k4, z24, d32, e1, v37, e43, z29, r3, l52, o36, r27, d34, l17, property_as_argument,
    property_in_a_tuple, property_in_a_list, property_that_writes, property_in_a_test, property_added
]
OF_ARRAYS = [k38, z8, k26, i36, z40, z1, i20, i3, n18]
# fmt: on


def outcome(f, args):
    try:
        return f(*args)
    except Exception as err:
        return type(err)


@pytest.mark.parametrize("f, args", [(f, (A, B)) for f in OF_TWO] + [(f, (A, X)) for f in OF_ARRAYS])
def test_as_python_or_refused(f, args):
    expected = outcome(f, [np.copy(a) if np.ndim(a) else a for a in args])
    try:
        with uncompiled():
            value, gradients = nb.adjoint(f).value_and_grad(*[np.copy(a) if np.ndim(a) else a for a in args])
    except TraceError:
        return
    except Exception as err:
        assert isinstance(expected, type), err
        assert issubclass(type(err), expected)
        return
    assert value == pytest.approx(expected, rel=1e-12)
    h = 1e-6
    ahead, behind = (f(a, np.copy(b) if np.ndim(b) else b) for a, b in ((A + h, args[1]), (A - h, args[1])))
    assert gradients[0] == pytest.approx((ahead - behind) / (2 * h), rel=1e-5, abs=1e-6)
