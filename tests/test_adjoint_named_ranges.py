"""Ranges that have names, and dictionaries whose items are set."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.8, -0.3, 1.4, 0.2, 2.1])
C = 0.4


def in_branches(x, c):
    if c > 1.0:
        r = range(3)
    else:
        r = range(1, len(x), 2)
    s = 0.0
    for i in r:
        s += x[i] * i
    return s * c + len(r)


def nested(x, c):
    inner = range(1, len(x))
    s = 0.0
    for i in inner:
        for j in reversed(inner):
            s += x[i] * x[j] * c
    return s + sum([x[i] for i in inner])


def bound_again(x, c):
    s = 0.0
    for k in range(3):
        r = range(k, len(x))
        k = 0
        for i in r:
            s += x[i] * c * (k + 1)
    return s


def filled(x, c):
    d = {}
    d["n"] = 3
    d["c"] = c * x[0]
    return d["n"] * d["c"]


def parameters(x, c):
    p = {"w": x * 1.0, "b": c}
    for _ in range(3):
        g = np.tanh(p["w"]) + p["b"]
        p["w"] = p["w"] - 0.1 * g
        p["b"] -= 0.1 * g.sum()
    return np.sum(p["w"] ** 2) * p["b"]


def in_place(x, c):
    p = dict(w=x.copy())
    p["w"] += c
    p["w"][0] = 3.0
    return np.sum(p["w"] ** 2)


def made_in_a_loop(x, c):
    s = 0.0
    for v in x:
        q = {"a": v, "b": c}
        if v > 1.0:
            q["a"] = q["b"]
        s += q["a"] * q["b"]
    return s


def looped_over(x, c):
    p = {"w": x}
    p["v"] = x * c
    return sum([np.sum(v) for v in p.values()])


@pytest.mark.parametrize(
    "f",
    [in_branches, nested, bound_again, filled, parameters, in_place, made_in_a_loop, looped_over],
    ids=lambda f: f.__name__,
)
def test_agrees(f):
    with uncompiled():
        agrees(f, (X, C))


def by_another_name(x, c):
    p = {"w": c}
    q = p
    q["w"] = x[0]
    return p["w"]


def test_dictionaries_with_two_names_do_not_change():
    with pytest.raises(TraceError, match=r"an item of a dictionary, which is set.*by keys that are written there"):
        nb.adjoint(by_another_name).value_and_grad(X, C)
