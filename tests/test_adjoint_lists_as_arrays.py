"""Lists that grow where NumPy takes them for arrays, lists of lists, and lists that are sorted and reversed."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from random_loops import function

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([3.0, 1.0, 2.5, 5.0, 4.0])
C = 2.2
GROWN = """
def f(x, c):
    p, q = [], [0.5]
    for v in x:
        if v > c:
            p.append(v * c)
    for v in p:
        q.append(v * v)
"""


@pytest.mark.parametrize(
    "expression",
    [
        "np.median(p)", "np.percentile(p, 30)", "np.std(p)", "np.sum(np.diff(p))", "np.interp(c, np.sort(p), p)",
        "np.concatenate((p, x)).sum()", "np.hstack([0, p])[1]", "np.hstack([p, q]).sum() * p[0]",
        "np.append(p, x).sum()", "np.column_stack((p, p))[0, 1]", "np.concatenate((p[1:], x[:2])).sum()",
        "(np.vstack([p, p]) * np.array(p)).sum()", "np.stack((p, p), axis=1)[1, 0]", "np.array([p, p])[1, 1]",
        "sorted(p)[1] * p[0]", "sorted(p, reverse=True)[0]", "np.dot(p, p)", "np.linalg.norm(p)", "np.trapezoid(q)",
        "np.cumsum(p)[-1]", "np.max(p) - min(p)", "np.outer(p, q).sum()", "np.average(p, weights=p)",
        "np.where(np.array(p) > 2, p, 0).sum()", "np.convolve(p, q).sum()", "np.polyfit(p, p[::-1], 1)[0]",
    ],
)  # fmt: skip
def test_grown_lists_are_arrays_for_numpy(expression):
    with uncompiled():
        agrees(function(f"{GROWN}    return {expression}\n"), (X, C))


@pytest.mark.parametrize(
    "statement",
    ["p.sort()", "p.sort(reverse=True)", "p.reverse()", "p.sort(); p.reverse()", "p.clear(); p.append(c); q.sort()"],
)
def test_lists_in_another_order(statement):
    source = f"{GROWN}    {statement}\n    return p[0] * len(p) + 3.0 * p[-1] + q[0]\n"
    with uncompiled():
        agrees(function(source), (X, C))


def test_an_order_by_a_function():
    with uncompiled():
        agrees(function(f"{GROWN}    p.sort(key=abs)\n    return p[0] * 2.0 + p[-1]\n"), (X, C))


OF_A_COMPREHENSION = "    r = [[v, v * c] for v in x]\n"
APPENDED = "    r = []\n    for v in x:\n        r.append([v, v * c])\n"
USES = [
    "return sum(r[0]) + max(r[1])", "return np.sum(np.array(r[0]) * 2) + np.array(r)[0, 0]",
    "return x[0] if r[0] == r[1] else x[1]", "a, b = r[1]\n    return a * b",
    "return len(r[0] + r[1]) * r[0][0] + np.sum(r[0] * 2)", "r[0] = [c, c]\n    return r[0][0] + r[1][0]",
    "s = 0.0\n    for i, (a, b) in enumerate(r):\n        s += i * a * b\n    return s", "return np.linalg.norm(r[:2])",
    "return sum([a * b for a, b in r])", "m = np.array(r).T\n    m[0, 0] = 1.0\n    return (m * m).sum()",
    "return np.exp(r[0]).sum() + np.mean(r)", "return np.array([[q[1], q[0] * c] for q in r])[:, 0].sum()",
]  # fmt: skip


@pytest.mark.parametrize("made", [OF_A_COMPREHENSION, APPENDED], ids=["comprehension", "appended"])
@pytest.mark.parametrize("use", USES)
def test_lists_of_lists_of_numbers(made, use):
    with uncompiled():
        agrees(function(f"def f(x, c):\n{made}    {use}\n"), (X, C))


@pytest.mark.parametrize("made", [OF_A_COMPREHENSION, APPENDED], ids=["comprehension", "appended"])
@pytest.mark.parametrize(
    "use",
    ["r[0][1] = 5.0", "q = r[0]\n    q[0] = 3.0", "for q in r:\n        q[0] *= 2.0", "r.append([1.0, 2.0, 3.0])",
     "q = [x[0], c]\n    r.append(q)\n    q[0] = 10.0", "r[0] = r[1]\n    r[0][0] = 3.0"],
)  # fmt: skip
def test_rows_that_are_lists_do_not_change(made, use):
    with pytest.raises(TraceError):
        nb.adjoint(function(f"def f(x, c):\n{made}    {use}\n    return r[0][0]\n")).value_and_grad(X, C)


def test_rows_of_tuples_and_bools():
    def tuples(x, c):
        r = np.array([(v * c, v) for v in x])
        return np.sum(r[:, 0] * r[:, 1])

    def bools(x, c):
        return np.sum(np.array([[v > c, v > 0] for v in x]).sum(axis=1) * x)

    with uncompiled():
        for f in (tuples, bools):
            agrees(f, (X, C))
