"""Programs of many fields, and each construct of the subset: adjoint, tangent and differences agree."""

import math

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from programs import PROGRAMS
from programs.data import normal, positive
from programs.motion import Pendulum

import nbgrad as nb

TABLE = np.array([[0.5, 1.5], [2.5, 3.5]])
PAIR = (0.25, 4.0)
SCALE = np.float64(1.25)
X, Y, A = normal(6), normal(6), normal(4, 5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    with uncompiled():
        agrees(*PROGRAMS[name], rtol=1e-5)


@pytest.mark.parametrize("name", ["laplace", "march"])
def test_compiled_programs(name):
    agrees(*PROGRAMS[name], rtol=1e-5)


# One function per construct; the first lines of docs/adjoint.md's table are in test_adjoint.py.


def views(a, x):
    row = a[1]
    row[2] *= x[0]
    row += 0.5 * a[0]
    tail = row[2:]
    tail[0] = tail[-1] * x[1]
    a.T[0] *= x[:4]
    a[::2, -1] = x[::-2][:2] * a[-1, 0]
    for i in range(len(a)):
        column = a[i, 1:-1]
        column[::-1] += column[0] * x[i]
    return a[..., 1]


def whole_arrays(x, y, s):
    z = 2.0 * x * y - s
    z += np.exp(-(y**2)) / (1.0 + np.abs(x))
    z = np.where(z > 0.3, z * x, np.sin(y))
    w = np.maximum(z, 0.2) + np.clip(x, -0.5, 0.5)
    w = w[1:] * w[:-1]
    w[:2] = 0.0
    w[(0 if s > 9 else 3) :].fill(s)
    outer = x[:, None] * y[None, :3]
    return w, outer, -z


def reductions(a, x):
    most = np.max(a, axis=1)
    s = a.sum() + a.mean() * x.max() + x.min() + np.prod(x) + np.std(x) * np.var(a) + np.linalg.norm(a)
    s += most[x[:4].argmax()] + np.sum(a[1]) + np.sum(a, axis=0)[2] + np.mean(a, 1)[0] + np.trace(a) + sum(x)
    if np.any(x > 5.0) or np.all(a < 9.0):
        s *= np.min(a[1:, ::2])
    s *= 2.0 if s > 1e9 else np.sum(x) * (1.5 if x[0] > 9.0 and np.mean(x) > 1.0 else np.sin(x[0]))
    flat = np.argmax(a)
    return s + flat * x[0], np.cumsum(x * x), np.cumprod(x), np.diff(a[0])


def places_that_decide(x, i):
    """Integers from reductions that decide branches and loops."""
    k, n, c = np.argmax(x), np.sum(i), np.count_nonzero(x > -9.0)
    if k == 0 or n == 0 or c == 0 or np.prod(i) == 1:
        return x[0]
    total = 0.0
    while n > 0:
        step = np.argmin(np.array([x[n % 3], 1.0, -0.5]))
        if step == 0:
            n -= 2
        elif step == 1:
            n -= 3
        else:
            n -= 1
        total += x[step] * n
    return x[k] * n * c + total


def totals_of_inner_loops(x, s):
    """Inner loops that add to cotangents of scalars of the iteration, before other scalars do."""
    total = 0.0
    for n in range(3):
        p, q = 0.3 * n + s, 0.5 * x[n]
        r = p * 2
        for b in range(2):
            w = q if b else 1 - q
            total += p * r * w * x[b]
            for c in range(2):
                total += math.sin(w * r) * x[c]
        total += p * q
    return total


def products(a, x, y):
    b = np.dot(a, x[:5]) + y[:4] @ a.T[0, :] + a @ (2 * y[:5])
    return a.T @ a, np.outer(x, y).sum() * b, np.dot(y[:4], a), b.dot(b)


def made_arrays(x, s, n):
    grid = np.linspace(0.0, s, 5)
    steps = np.arange(n) * 0.5 + np.arange(1.0, 2.0, 0.25)[0]
    eye = np.eye(3)
    small = np.array([[s, x[0]], [1.0, s * s]])
    like = np.full_like(x, s)
    ones = np.ones((2, n), dtype=np.float64)
    whole = np.zeros(n, dtype=np.int64)
    whole[1] = 3
    c = np.copy(x[1:-1])
    return (
        np.sum(grid**2) + steps @ steps + np.sum(eye * s) + small,
        like * x,
        ones[1] * s,
        c,
        whole[1] * x.astype(float),
    )


def iteration(x, y, a):
    s = 0.0
    for v in x:
        s += v * v
    for i, v in enumerate(y[1:]):
        s *= 1.0 + 0.01 * i * v
    for k, (p, q) in enumerate(zip(x, y[::-1]), 2):
        s += k * p * q
    for row in a:
        row *= 2.0
        s += row[1] * s * 0.01
    for i in reversed(range(1, 4)):
        s -= x[i] * x[i - 1]
    for i, j in np.ndindex(a.shape):
        s += a[i, j] ** 2
    for index, v in np.ndenumerate(a):
        a[index] = math.sin(v)
    for c in (0.5, 1.5, 2.5):
        s += c * x[0]
    for i in range(x.size):
        if x[i] > 0.0:
            break
    return s + x[i], i


def tuples(length, mass, x, s):
    p = Pendulum(length, damping=3.0, mass=mass)
    q = (s, p.mass)
    for _ in range(3):
        q = (q[0] * x[1], q[1] + q[0])
    first, (second, third) = q[0], (q[1], x[2])
    state = Pendulum(length=first, mass=second, damping=x)
    low, high = divmod(s, 0.4)
    m, n = x.shape[0], len(q)
    a, b, c = x[:3]
    return state.length * third + state.damping[0] * state[1] + high + low * a + b * c, m + n, p.length


def power(t, n=2):
    return t**n


def apply(g, t):
    """Apply a function that is passed as an argument."""
    return g(t) * 2.0


def first_and_rest(x):
    return x[0], x[1:]


def functions(x, s):
    def inner(t, scale=0.5):
        return scale * t * s

    square = lambda t: t * t  # noqa: E731
    first, rest = first_and_rest(x)
    rest[0] = first * inner(first) * apply(square, s) + apply(math.sin, s) + apply(inner, x[3])
    return power(s) + power(n=3, t=x[1]) + TABLE[1, 0] * x[0] + PAIR[1] * SCALE * np.sum(TABLE @ x[:2])


def errors(x, s, n):
    """Asserts and errors stay in the generated code."""
    assert n > 0, "n must be positive"
    if s < 0:
        raise ValueError("s must not be negative")
    mask = (n & 3) | (n << 1)
    a = b = s * x[0]
    a *= 0.0 < s < 5.0 and n > 1
    c = int(s) + round(b) + bool(n)
    return a * mask + b * c + np.float64(s) ** -2 + (~n) * x[1] + pow(s, 3) + abs(x[2])


def jumps(x, n):
    total = 0.0
    for i in range(n):
        if x[i] > 0.0:
            if x[i] > 1.0:
                continue
            total += x[i] * x[i]
        total += 1.0
        for j in range(n):
            if total > 30.0:
                break
            if x[j] * total > 9.0:
                return total * x[j]
            total *= 1.1
    if n > 2:
        for j in range(n):
            if x[j] > 9.0:
                return x[j]
    total = total * x[0]
    return total


def exchanged(u, v, w, n):
    a = u.copy()
    b = v.copy()
    for _ in range(n):
        for i in range(1, u.size):
            a[i] = b[i] * b[i - 1] + 0.1 * w[i]
        old = a
        a = b
        b = old
    for _ in range(2):
        w = 0.5 * w + a
        s = np.dot(w, w)
        w = w / s
    return b, w


def one_or_the_other(x, y, s):
    z = x if s > 0.5 else np.zeros_like(x)
    w = y.copy() if s > 0.9 else x * y
    w[0] = s
    first, second = (x, s) if s > 0.9 else (y, 2.0 * s)
    u = z[1:] if z[0] > x[1] else z[:-1]
    for k in range(3):
        v = x if k == 1 else 0.5 * w
        s += np.sum(v * v) * (np.sin(s) if k else s)
    s += np.sum(u * (w[1:] if s < 0.0 else w[:-1])) + np.sum(first) * second
    return s, w if s > 9.0 else -w


def elements_that_may_not_be_there(x, places, s):
    """Derivatives, too, must not touch elements that a test excludes: in Python they would raise."""
    n, total = x.size, 0.0
    y = np.zeros(n)
    for i in range(n):
        right = x[i + 1] if i < n - 1 else s
        left = x[i - 1] if i > 0 else 2.0 * s
        y[i] = np.sin(right * left) + min(x[i + 2] if i + 2 < n else 9.0, x[i])
        total += s * (x[i] - (x[n - 1 - i] if 0 <= n - 1 - i < 2 else 0.0)) ** 2
        total += x[places[i]] ** 2 if places[i] < n and x[places[i]] > -9.0 else x[i] * s
        total += y[i] * x[i] if x[i] > 0.0 else 0.0
    for i in range(n):
        total += s * (x[i] - (x[i + 1] if i < n - 1 else 0.0)) ** 2
    for i in range(n):
        if i < n - 1:
            total += s * (x[i] - x[i + 1]) ** 2
    return total * (x[n] if n < x.size else 1.0), y


SHAPE, NEIGHBOURS, WEIGHTED = (2, 3), ((-1, 0), (1, 0), (0, 2)), ((0, 0.25), (2, 0.5))


def constant_tuples(a, x):
    b = np.zeros((1,) + SHAPE + a.shape)
    b[0, 1, 2] = a
    total = np.sum(b**2) + (SHAPE + x.shape)[2] * x[0]
    for di, dj in NEIGHBOURS:
        total += a[1 + di, dj] * a[2, 1 + dj]
    for k, (i, w) in enumerate(WEIGHTED):
        if k == 1 and w > 0.5:
            break
        total += w * x[i] * WEIGHTED[0][1]
    for row in ((0, 1), (2, 3)):
        total *= x[row[0]] + row[1]
    for k in range(4):
        total += (0.5, 1.5, x[0])[k % 3] * WEIGHTED[k % 2][1] * x[NEIGHBOURS[k % 3][1]]
    z = np.zeros(a.shape[1:] + NEIGHBOURS[2][1:])
    for i, j in np.ndindex(z.shape):
        if i == j:
            continue
        total += (z[i, j] + i) * x[j]
    c, s = x[:2] / np.sqrt(x[0] ** 2 + x[1] ** 2)
    return total * c - s


ROWS = {
    one_or_the_other: (X, Y, 0.7),
    constant_tuples: (A, X),
    elements_that_may_not_be_there: (X, np.array([3, 6, 0, 99, 1, 5]), 0.7),
    views: (A, X),
    whole_arrays: (X, Y, 0.7),
    reductions: (A, X),
    places_that_decide: (np.array([0.3, -0.8, 1.4]), np.array([4, 2, 3])),
    totals_of_inner_loops: (X, 0.7),
    products: (A, X, Y),
    made_arrays: (X, 0.8, 6),
    iteration: (X, Y, A),
    tuples: (1.0, 2.0, X, 0.9),
    functions: (X, 0.8),
    errors: (X, 1.2, 5),
    jumps: (positive(5), 4),
    exchanged: (X, Y, normal(6), 3),
}


@pytest.mark.parametrize("name", [f.__name__ for f in ROWS])
def test_constructs(name):
    f, args = next((f, args) for f, args in ROWS.items() if f.__name__ == name)
    if name == "made_arrays":
        args = (normal(2), 0.8, 2)
    with uncompiled():
        agrees(f, args, rtol=1e-5)


def test_constructs_compiled():
    """Numba compiles the generated code."""
    for f in (views, reductions, iteration, totals_of_inner_loops):
        agrees(f, ROWS[f], rtol=1e-5)


def test_errors_are_raised():
    with uncompiled():
        adj = nb.adjoint(errors)
        with pytest.raises(AssertionError, match="n must be positive"):
            adj.value_and_grad(X, 1.0, 0)
        with pytest.raises(ValueError, match="s must not be negative"):
            adj.value_and_grad(X, -1.0, 3)
        with pytest.raises(ValueError, match=r"arrays of different lengths in 'z = 2"):
            nb.adjoint(whole_arrays).vjp(X, Y[1:], 0.7)


def test_defaults():
    def f(x, rate=0.5, *, n=3):
        return rate * x**n

    with uncompiled():
        assert nb.adjoint(f).value_and_grad(2.0) == (4.0, (6.0, 8.0, None))
        assert nb.adjoint(f).value_and_grad(2.0, 1.0) == (8.0, (12.0, 8.0, None))
