"""Values with two names and effects of calls, in dictionaries, lists and instances.

Each program gives what Python gives, or is refused. They were found by random programs and by hand.
"""

# ruff: noqa: B007, E731

import numpy as np
import pytest
from loop_programs import Programs, as_python_or_refused

program = Programs()


def w1(u, x):
    u[0] = x
    return x * 2


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


@program
def v4(a, b):
    d = {"a": {"x": a}, "b": {"x": b}}
    for k in d:
        i = d[k]
        i["x"] += 1
    return d["a"]["x"] * 3 + d["b"]["x"]


@program
def v5(a, b):
    d = {"a": {"x": a}}
    i = d["a"]
    for j in range(3):
        i["x"] += b
    return d["a"]["x"] * 3


@program
def q35(a, b):
    d = {"a": {"x": a}}
    i = d["a"]
    i["x"] = b
    return i["x"] * 3 + d["a"]["x"]


@program
def q37(a, b):
    d = {"a": {"x": a}}
    d["b"] = d["a"]
    d["b"]["x"] *= 2
    return d["a"]["x"] * 3 + d["b"]["x"] * b


@program
def v14(a, b):
    d = {"a": {"x": a}}
    e = d.copy()
    d["a"]["x"] = b
    return e["a"]["x"] * 3 * a


@program
def d32(a, b):
    d = {"a": a, "b": b}
    ks = d.keys()
    d["c"] = a * b
    r = 0.0
    for k in ks:
        r += d[k]
    return r + len(ks)


@program
def e1(a, b):
    d = {"a": a}
    v = d.values()
    d["b"] = b
    return sum(v) + len(v)


@program
def e2(a, b):
    d = {"a": a}
    it = d.items()
    d["a"] = b
    r = 0.0
    for k, v in it:
        r += v * a
    return r


@program
def v37(a, b):
    d = {"a": a, "b": b}
    vs = d.values()
    d["a"] *= 2
    return max(vs) * 3 + min(vs)


@program
def e43(a, b):
    d = {"a": a, "b": b}
    for v in d.values():
        d["a"] = v * b
        d["b"] = v + 1
    return d["a"] + d["b"]


@program
def z29(a, b):
    d = {"a": a, "b": b, "c": a * b}
    for k, v in zip(d, d.values()):
        d["c"] = v + 1
        a = a * 0.5 + v
    return a + d["c"]


@program
def z30(a, b):
    d = {"a": a, "b": b, "c": a * b}
    for i, (k, v) in enumerate(d.items()):
        d["c"] = v + 1
        a = a * 0.5 + v * i
    return a + d["c"]


@program
def r3(a, b):
    d = {"k": a}
    x = d.pop("k") * 2 + d.setdefault("k", b)
    return x * d["k"]


@program
def r7(a, b):
    d = {"k": a}
    y = [d["k"], d.pop("k"), d.setdefault("k", a * b)]
    return y[0] + 2 * y[1] + 3 * y[2]


@program
def r12(a, b):
    d = {"k": a}
    x = (d.pop("k"), d.setdefault("k", b), d["k"])
    return x[0] + 2 * x[1] + 3 * x[2]


@program
def r13(a, b):
    d = {"k": a}
    d["k"] = d.pop("k") + d.setdefault("k", b)
    return d["k"]


@program
def r2(a, b):
    u = np.array([a, b])
    d = {"k": a}
    x = d.get("k", w1(u, b))
    return x + u[0]


@program
def r27(a, b):
    d = {"k": a}
    for k in d:
        d["new"] = b
    return d["k"]


@program
def r28(a, b):
    d = {"k": a, "m": b}
    for k in d:
        d[k + "2"] = d[k]
    return d["k2"]


@program
def d34(a, b):
    d = {"a": a, "b": b}
    for k in d:
        if d[k] < 0:
            d["new"] = 1.0
    return d["a"]


@program
def n18(a, x):
    d = {}
    for i in range(4):
        d[i] = x[i] * a
    s = 0.0
    for i in sorted(d, key=lambda i: d[i]):
        s = s * 0.5 + d[i]
    return s


@program
def property_as_argument(a, b):
    p = P(a, b)
    return doubled(p.v, p.nxt)


@program
def property_in_a_tuple(a, b):
    p = P(a, b)
    x, y = p.v, p.nxt
    return x * 2 + y


@program
def property_in_a_list(a, b):
    p = P(a, b)
    y = [p.v, p.nxt, p.v]
    return y[0] + 2 * y[1] + 3 * y[2]


@program
def property_that_writes(a, b):
    p = P(a, b)
    return p.u[0] + p.tick * p.u[0]


@program
def property_in_a_test(a, b):
    p = P(a, b)
    if p.v > p.nxt:
        return p.v
    return p.v * 2


@program
def property_added(a, b):
    p = P(a, b)
    p.v += p.nxt
    return p.v


@program
def instance_beside_a_function(a, b):
    p = P(a, b)

    def g():
        return p.v * 2

    p, s = P(b, a), g()
    return s + p.v


@program
def instance_beside_a_lambda(a, b):
    p = P(a, b)
    g = lambda: p.v * 2
    p, s = P(b, a), g()
    return s + p.v


@program
def list_beside_a_lambda(a, b):
    q = [(a, b)]
    g = lambda: q[0][0]
    q, s = [(b, a * b)], g()
    q.append((s, s))
    return s + sum(x * y for x, y in q)


@program
def name_beside_a_lambda(a, b):
    best, k = None, a
    g = lambda: k * 2
    for v in (a, b):
        if best is None or v > best:
            best = v
        k, s = best, g()
    return s + k * b


@program
def instance_beside_an_error(a, b):
    p = P(a, b)
    try:
        p, s = P(b, a), [a, b][int(a * 4)]
    except IndexError:
        s = b
    return s + p.v


@program
def list_beside_an_error(a, b):
    q = [(a, b)]
    q.append((b, a))
    try:
        q, s = [(b, b)], [a, b][int(a * 4)]
    except IndexError:
        s = b
    return s + sum(x * y * y for x, y in q)


@pytest.mark.parametrize("f", program, ids=lambda f: f.__name__)
def test_as_python_or_refused(f):
    as_python_or_refused(f)
