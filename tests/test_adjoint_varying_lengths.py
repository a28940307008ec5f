"""Names that are bound to arrays of other lengths, in loops, branches and called functions."""

import random

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from numba import njit
from random_loops import function

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.6, 0.7, 0.3, 0.9, 1.2, 0.2])
Y = X[::-1] * 1.1


@njit
def chosen(p, q):
    if q[1] > 0.5:
        return q * 2
    return p * 3


@njit
def part(p, k):
    if k % 2 == 0:
        return p[1:] * 1.5
    return np.append(p, 0.5)


def called_in_a_branch(x, y, n):
    v = np.sin(y)
    if n > 2:
        v = chosen(y, x)
    else:
        v = x * 2
    return v[0] * v[2]


def called_in_both(x, y, n):
    if n > 4:
        v = chosen(y, x)
    else:
        v = chosen(x, y)
    return v[0]


def called_in_a_loop(x, y, n):
    s = 0.0
    for i in range(4):
        if i > n:
            v = chosen(y, x)
        else:
            v = x * 2
        s += v[1] * np.sum(v)
    return s


def called_in_a_choice(x, y, n):
    v = chosen(x, y) if n > 2 else y * y[0]
    return np.sum(v) * v[0]


def of_other_lengths(x, y, n):
    if n > 2:
        k = x.size - n
        v = np.ones(k) * x[0]
    else:
        v = x * 2
    return v[0] * v[-1] * np.sum(v)


def selected(x, y, n):
    v = x * 3
    if n > 2:
        v = x[x > 0.5] * 2
    else:
        v = x * 2
    return v[0] * v[2]


def longer_and_longer_slices(x, y, n):
    s = 0.0
    for i in range(3):
        if i > n:
            v = x[: i + 1] * 2.0
        else:
            v = x * 2
        s += v[0] * v[-1] * np.sum(v)
    return s


def shrinks(x, y, n):
    v = x * 1.0
    for _ in range(n):
        v = v[1:] * v[:-1]
    return np.sum(v) * v[0]


def grows(x, y, n):
    v = x[:2] * 1.0
    for i in range(n):
        w = np.concatenate((v, y[i : i + 2]))
        v = w * x[0]
    return np.sum(v * v)


def grows_until(x, y, n):
    v = np.zeros(3)
    while v[0] < 5.0:
        v = np.append(v, x[0]) + x[1]
    return np.sum(v * v) * v.size


def matrices(x, y, n):
    if n > 2:
        v = np.zeros((2, 3))
        v[:] = x[0]
    else:
        v = np.ones((3, 2)) * x[1]
        v[2, 0] = y[0]
    return np.sum(v * v) + v[-1, 0]


def beside_another_name(x, y, n):
    v = x * 2
    w = v
    if n > 2:
        v = x[1:3] * y[1:3]
    return np.sum(v * v) + np.sum(w) * w[-1]


def three_ways(x, y, n):
    r = np.zeros(4)
    for i in range(4):
        if i % 2 == 0:
            v = y[: i + 1] ** 2
        elif i == 1:
            v = np.sin(x)
        else:
            v = x[y > 0.5] * x[0]
        v[0] *= x[i]
        r[i] = np.sum(v) / v.size + v[-1]
    return r


def returned(x, y, n):
    v = y * x[0]
    for i in range(n):
        v = part(v, i)
    return v


PROGRAMS = [
    called_in_a_branch, called_in_both, called_in_a_loop, called_in_a_choice, of_other_lengths, selected,
    longer_and_longer_slices, shrinks, grows, grows_until, matrices, beside_another_name, three_ways, returned,
]  # fmt: skip


def from_one_element(x, y, n):
    t, dt, u = 0.0, 0.3, 1.0
    ts, us = np.array([0.0]), np.ones(1)
    while t < 1.0:
        u -= dt * u * x[0]
        t += dt
        if abs(u) < 0.7:
            dt = 0.2
        ts = np.append(ts, t)
        us = np.append(us, u)
    return np.trapezoid(us, ts) * ts.size


def polynomial(x, y, n):
    c = np.ones(1)
    for r in x[:3]:
        new = np.zeros(c.size + 1)
        new[1:] += c
        new[:-1] -= r * c
        c = new
    return np.sum(c * c)


def clipped(x, y, n):
    v = x * y
    m = v > 0.1
    while not m.all():
        v = v[m]
        m = v > v.mean() - 0.2
    return np.sum(v * v) * v.size


def without_largest(x, y, n):
    v = x * 1.0
    r = np.abs(v - 0.5)
    for _ in range(2):
        v = v[r < r.max()]
        r = np.abs(v - v[0])
    return np.sum(v * v) + np.sum(r)


def ranges_or_values(x, y, n):
    w = np.arange(x.size) if n > 2 else x * 1.0
    return np.sum(w * x)


FROM_ONE = [from_one_element, polynomial, clipped, without_largest, ranges_or_values]


@pytest.mark.parametrize("f", FROM_ONE)
@pytest.mark.parametrize("n", [1, 3])
def test_lengths_that_are_one_or_change_with_others(f, n):
    with uncompiled():
        agrees(f, (X, Y, n))
        if f in (from_one_element, ranges_or_values):
            agrees(f, (X[:1], Y[:1], n))


@pytest.mark.parametrize("lengths", [(1, 1), (4, 1), (1, 4), (4, 4)])
def test_choices_between_lengths_of_one_and_more(lengths):
    def f(x, y):
        v = y if x[0] > 0 else x * 2
        return np.sum(v * v) * v.size

    x, y = X[: lengths[0]], Y[: lengths[1]]
    with uncompiled():
        for sign in (1, -1):
            agrees(f, (sign * x, y))


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("n", [0, 1, 3, 5])
def test_programs(f, n):
    with uncompiled():
        agrees(f, (X, Y, n))


@pytest.mark.parametrize("f", [shrinks, grows, three_ways])
def test_compiled(f):
    agrees(f, (X, Y, 3))


class Program:
    """A random program, whose arrays u and v get other lengths, at least 2."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def array(self, depth=0):
        r, of = self.r, self.r.choice("uvxy")
        return r.choice([
            f"{of} * {r.choice(['x[0]', 'y[1]', '1.5'])}",
            f"np.append({of}[:2], x[{r.randrange(3)}])",
            f"np.concatenate(({of}[1:], y[:{r.randint(1, 3)}]))",
            f"{of}[: {of}.size // 2 + 1] + 0.1",
            f"np.ones(n + 2) * {of}[-1]",
            f"helper({of}, {r.choice(['i', 'n', '1'])})",
            f"np.sin({of}[::-1])",
            f"{of}[{of} > {r.choice(['0.25', '-5.0'])}] * 0.5 if np.sum({of} > 0.25) > 1 else {of}[:2] * x[1]",
        ])  # fmt: skip

    def block(self, depth):
        r, lines = self.r, []
        for _ in range(r.randint(1, 3)):
            what = r.random()
            if what < 0.45 or depth > 2:
                lines.append(f"{r.choice('uv')} = {self.array()}")
            elif what < 0.6:
                name = r.choice("uv")
                lines += [f"s += {name}[{r.choice([0, 1, -1])}] * np.sum({name}) / {name}.size"]
            elif what < 0.7:
                lines.append(f"{r.choice('uv')}[{r.choice([0, -1])}] *= x[{r.randrange(3)}]")
            else:
                test = r.choice(["i % 2 == 0", "n > 2", "x[0] > y[0]", "u.size > v.size", "s > 0.5"])
                lines += [f"if {test}:", *("    " + line for line in self.block(depth + 1))]
                if r.random() < 0.7:
                    lines += ["else:", *("    " + line for line in self.block(depth + 1))]
        return lines

    def source(self):
        r = self.r
        even = r.choice(["p * 2.0", "p[:2] * x0(p)", "p[1:] * 1.5 if p.size > 2 else p * 1.0"])
        odd = r.choice(["p * 3.0", "np.append(p, 0.5)", "p[::-1] + 0.5"])
        helper = [
            "def helper(p, k):",
            f"    if k % 2 == {r.randrange(2)}:",
            f"        return {even}",
            f"    return {odd}",
        ]
        first = ["i = 0", "s = 0.0", "u = x * 1.0", "v = y * x[0]"]
        loop = [f"for i in range({r.choice(['n', '3'])}):", *("    " + line for line in self.block(0))]
        body = first + self.block(1) + loop + self.block(1) + ["return s + u[0] * np.sum(v) + v[-1]"]
        return "\n".join(
            [*helper, "", "def x0(p):", "    return p[0]", "", "def f(x, y, n):"] + ["    " + b for b in body]
        )


@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed):
    f = function(Program(seed).source() + "\n")
    with uncompiled():
        for n in (3, 0):
            agrees(f, (X, Y, n), rtol=1e-5)


@pytest.mark.parametrize(
    "chosen",
    ["x[:, None] * y if x[0] > c else np.outer(x, y)", "x[:, None] * y if x[0] > c else y[:, None] - x",
     "(x[:, None] if x[0] > c else y[:, None]) * x", "(x[None] if x[0] > c else y[None] * 2) + x[:, None]"],
)  # fmt: skip
@pytest.mark.parametrize("c", [0.0, 1.0])
def test_one_of_two_where_an_axis_is_new(chosen, c):
    f = function(f"def f(x, y, c):\n    r = {chosen}\n    return (r * r).sum() + r.shape[1] * x[0]")
    with uncompiled():
        agrees(f, (X, Y, c))


@pytest.mark.parametrize(
    "chosen", ["x[:, None] if x[0] > c else np.outer(x, y)", "np.stack([x, y]) if x[0] > c else y[None] * 2"]
)
def test_one_of_two_that_broadcast_in_another_way(chosen):
    f = function(f"def f(x, y, c):\n    r = {chosen}\n    return np.sum(r * y)")
    with pytest.raises(TraceError, match="one has an axis of length 1 where that of the other may be longer"):
        nb.adjoint(f).value_and_grad(X, Y, 0.0)


def shorter(u, most):
    s = np.sqrt(np.sum(u * u))
    if s <= most:
        return u
    return u * (most / s)


def one_of(u, v, c):
    if c > 0.4:
        return u
    if c > -0.5:
        return v
    return u + v


def copied_or_not(u, c):
    if c > 0.3:
        r = u
    else:
        r = u.copy()
        r[0] = c
    return r


def lengths_that_may_differ_in_each(x, y, c):
    v = one_of(x, y, -0.94)
    if c < y[1]:
        v = shorter(v, 1.5)
    w = copied_or_not(v, c)
    for i in range(2):
        if c < -0.91:
            w = shorter(w, 2.0)
        if y[2] < c:
            v = copied_or_not(w, x[i])
        v = v + shorter(w, 1.5)
    return np.sum(v * w)


def test_lengths_that_may_differ_in_each_are_asked_for_once():
    x, y = np.array([0.31, -1.23, 0.77]), np.array([1.13, 0.44, -0.83])
    with pytest.raises(TraceError, match="whose size is not known"):  # it was asked for again and again
        nb.adjoint(lengths_that_may_differ_in_each).value_and_grad(x, y, 0.3)
