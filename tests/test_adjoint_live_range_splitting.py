"""One name may stand for several values (live-range splitting); loops may end early; calls may write arguments."""

import math

import numpy as np
import pytest
from loop_programs import agrees, twice, uncompiled

import nbgrad as nb

RNG = np.random.default_rng(29)


def normal(*shape):
    return RNG.normal(size=shape)


def lengths(x, y, n):
    """New arrays of two lengths, then with two axes, in the same iterations; a row of one, and a scalar."""
    s = 0.0
    for t in range(n):
        tmp = np.empty(x.size)
        for i in range(x.size):
            tmp[i] = x[i] ** 2 * (t + 1)
        s += tmp.sum()
        tmp = np.zeros(y.size)
        for i in range(y.size):
            tmp[i] += y[i] ** 3 + s
        s += 0.01 * np.sum(tmp)
        tmp = np.outer(x, y)
        tmp *= s
        s += 0.1 * np.sum(tmp)
    for v in x:
        tmp = v * s
        s += 0.1 * tmp
    tmp = x[:1]
    return s * np.sum(tmp)


def kinds(x, n):
    """One name for integers and then floats, a counter, a tuple; another array bound to a parameter's name."""
    s = 0.0
    for _ in range(n):
        w = np.zeros(x.size, np.int64)
        for i in range(x.size):
            w[i] = i % 3
        s += np.sum(w * x)
        w = np.zeros(x.size)
        for i in range(x.size):
            w[i] = 0.5 * x[i] * s
        s += np.sum(w)
    i = (s, 2.0 * s)
    w = math.tanh(i[0] * i[1])
    path = np.zeros((n + 1, x.size))
    path[0] = x
    for t in range(n):
        x = path[t]
        path[t + 1] = x + 0.1 * np.sin(x) * w
    return np.sum(path[n])


def branches(x, c):
    """Definitions in branches that join are one variable; an array changed in place is one, too."""
    if c > 0.0:
        b = x * 2.0
    else:
        b = x * c
        b += 1.0
    total = np.sum(b)
    while True:
        b = np.ones(x.size + 1)
        b[1:] *= x
        total += np.sum(b * b)
        if total > 3.0 or c < 1.0:
            break
        c = c - 1.0
    b = np.empty((2, x.size))
    for k in range(2):
        b[k] = total * x
    return b


def with_else(x, y):
    s = 0.0
    for i in range(x.size):
        for j in range(y.size):
            if x[i] < y[j]:
                s += x[i] * y[j]
                break
        else:
            s -= x[i] ** 2
            if s < -3.0:
                break
            continue
        s *= 1.5
    else:
        s = s * s
    k = 0
    while k < y.size:
        if y[k] > 1.0:
            break
        k += 1
    else:
        return s
    for v in y:
        s += v
    else:
        s *= 1.1
    return s * y[k]


def over_indices(a, limit):
    """The first element above a limit, in memory order; the enclosing loop continues."""
    s = 0.0
    for c in range(2):
        for index in np.ndindex(a.shape):
            if a[index] > limit:
                break
            s += a[index] ** 2 * (c + 1)
        for (i, j), v in np.ndenumerate(a):
            if j == 1 and v < 0.0:
                continue
            if v < -limit:
                s -= v**3
                break
            s *= 1.0 + 0.1 * v * i
        for k in np.ndindex(a.shape[0]):
            if a[k[0], 0] > 0.0:
                break
            s += a[k[0], 0]
    return s


def outputs_as_arguments(a, x):
    y, z = np.empty_like(x), np.zeros(a.shape)
    np.multiply(x, x, y)
    np.exp(0.1 * y, y)
    for i in range(a.shape[0]):
        np.add(a[i], y, z[i])
        np.dot(a, z[i] * x, out=y)
    np.negative(x, x[::-1])
    return y, z


def tuples_into_rows(x):
    path, p, q = np.zeros((x.size, 2)), 0.0, 1.0
    for i in range(x.size):
        p, q = p + x[i] * q, q - x[i] * p
        path[i] = p, q * q
        path[i, ::-1] = path[i, 0] * x[i], path[i, 1]
    return path


def functions_in_functions(x, n):
    f = lambda u, k=2: u**k  # noqa: E731
    g = lambda u: f(u) + f(u, 3)  # noqa: E731

    def mean(h, low, high):
        s = 0.0
        for i in range(n):
            s += h(low + (i + 0.5) * (high - low) / n)
        return s / n

    return mean(g, x[0], x[1]) + mean(lambda u: math.sin(u * x[2]), 0.0, 1.0)


def norms(x):
    s = np.linalg.norm(x, 1) * np.linalg.norm(2.0 * x, np.inf) + np.linalg.norm(x, ord=3)
    s += np.linalg.norm(x, -np.inf) * np.sum(np.cbrt(1.0 + x * x))
    s += np.reciprocal(2.0 + x[0]) + np.sum(np.reciprocal(x))
    return s * np.sum(np.expand_dims(x, 0) * np.expand_dims(x, 1))


def written_before_it_moves(u, dt, n):
    """Writes go to the parameter until its name is bound to another array."""
    for _ in range(n):
        u[0] = 0.5 * u[1]
        u[-1] *= u[0]
        u = u + dt * u * u
    return u


def added(p, c):
    p[1:] += c * p[:-1]


def moves_sometimes(u, v, c):
    s = 0.0
    u[0] *= 2.0
    for t in range(4):
        added(u, c)
        if u[1] > 0.2 * t:
            u = np.sin(u) * v
            s += np.sum(u)
            if s > 9.0:
                return s
        elif t == 2:
            v = v + u
        u[-1] += u[0] * s
        v *= 1.0 + c
    w = 2.0 * u
    u = w
    u[0] = w[-1] * s
    return s + np.sum(u)


def counters_and_numbers(x, y):
    """A float in one loop is a counter in another one."""
    s = 1.0
    for t in x:
        s += t * t * s
    for t in range(y.size):
        s *= 1.0 + 0.1 * y[t]
    for t in (0, 1):
        s += x[t] * y[t] * s
    for t in range(y.size):
        s += y[t] * s * 0.1
    for i, v in enumerate(x):
        s += x[i] * v * s
    for i in range(x.size):
        for i in range(y.size):
            s += x[i] * s * 0.1
        s += x[i] * y[i]
    for i, k in zip(range(1, 3), range(2)):
        s *= 1.0 + x[i] * y[k]
    for k in range(2):
        for i, k in np.ndindex((2, 3)):
            s += 0.1 * s * x[k] * y[i]
        s *= y[k]
    return s


def counters_of_one_name(x, y):
    s = 1.0
    for i in range(x.size):
        low = i % 2
        for i in range(low, 2):
            s += x[i] * s * 0.1
        s += x[i] * y[i]
    return s


def segments(x, lengths):
    """New arrays in a loop, with the length of a slice of an argument."""
    s, start = 0.0, 0
    for n in lengths:
        part = x[start : start + n]
        z = np.exp(part - part.max())
        z /= z.sum()
        s += np.dot(z, part) * z[0] + z.size
        start += n
    return s


WEEKEND = (5, 6)


def rotated(x, y, c=1.0, s=0.0):
    return c * x - s * y, s * x + c * y


def first_above(x, limit, default=-1):
    for i, v in enumerate(x):
        if v > limit:
            return i
    return default


def counted_from(x, k=0):
    for v in x:
        if v > 0.0:
            k += 1
    return k


def order_of(a, b):
    low, high = 0, 1
    if a > b:
        low, high = 1, 0
        return (low, high), 2
    return (low, high), 0


def integers_of_functions(x, s, n):
    """Integers that are constant at only one of several definitions: no test of them is decided in advance."""
    i, j, m = first_above(x, s), first_above(x, 9.0), counted_from(x, 1)
    if i < 0:
        x[0] *= 3.0
    if j == -1:
        s = s * 1.5
    if m == 1:
        s = s * s
    p = (0, 1.0)
    for k in range(n):
        p = (p[0] + 1, p[1] * x[k % x.size] + s)
        (low, high), steps = order_of(x[0], x[-1])
        if low == 0 or steps == 0:
            s += 0.1 * x[high - 1]
    steps, total = p
    if steps > 1:
        total *= 2.0
    if steps == 0:
        total -= s
    return total * (x[i] + m)


def held(v, w, n):
    """Names like those generated for loops, whose values last from one iteration to the next."""
    s = 0.0
    for a, b in zip(v, w):
        if a > 0.0 or s == 0.0:
            k, k1, k2, k3, k4 = n, n + 1, n + 2, n + 3, n + 4
        s += a * k * k1 - b * k2 + a * k3 * k4
        n += 1
    return s


def names_in_functions(v, w, n):
    return held(v, w, n) * held(w, v[::-1], 1)


def like_another(v, n):
    u = v * 2.0
    for _ in range(n):
        new = np.empty_like(u)
        part = new[:1]
        part[:] = u[-1]
        new[1:] = u[:-1] ** 2
        u = new
    return u


def likenesses(v, n):
    """Arrays that a loop of a called function creates with the length of one of its own."""
    return like_another(v, n) @ like_another(0.5 * v, n)


def lists_and_stars(x, angle):
    """Constant lists, and tuples passed as several arguments."""
    weights, turn = [0.5, angle, 2.0], (math.cos(angle), math.sin(angle))
    p = (x[0], x[1])
    total = 0.0
    for k, w in enumerate(weights):
        p = rotated(*p, *turn) if k != 1 else rotated(*p, s=0.1 * w)
        total += w * p[0] * weights[k - 1] * (2.0 if k in [0, 2] else 1.0)
    x[:2] = [total, math.atan2(*p)]
    x.sort()
    return x[0] * len(weights) + max(*p) * np.hypot(*p)


def accepted_steps(y, rate, n):
    """A branch binds another name to an array that was allocated before it and written in place."""
    h, taken = 0.3, 0
    for k in range(n):
        trial, coarse = y.copy(), y.copy()
        for i in range(y.size):
            trial[i] += h * rate * (y[i] - y[i - 1] ** 3)
            coarse[i] += 0.5 * h * rate * y[i]
        error = np.max(np.abs(trial - coarse))
        if error < 0.35:
            if k == 2:
                trial[0] *= rate
            y = trial
            y[-1] *= 1.1
            taken += 1
        else:
            h *= 0.5
    return y, h * taken


def made_in_a_call(x):
    """Arrays in loops of a called function, with the lengths of its parameter."""
    return powers_of(x[1:], 3) @ powers_of(2.0 * x, 2)[:-1]


def powers_of(x, n):
    found = np.ones(x.size)
    for _ in range(n):
        found[:] = found * x + np.sin(found)
    return found


def in_tuples(x, n, mode="mean"):
    s = 0.0
    for i in range(x.size):
        if i % 7 in WEEKEND or (n not in (1, x.size) and x[i] in (0.0, x[0])):
            s += x[i] ** 2
        elif i not in (2, 3):
            s += 0.1 * x[i]
    if mode in ("sum", "mean"):
        s *= 2.0
    return s


PROGRAMS = {
    "written_before_it_moves": (written_before_it_moves, normal(5), 0.1, 3),
    "written_before_it_moves, never": (written_before_it_moves, normal(5), 0.1, 0),
    "written_before_it_moves, from parts": (written_before_it_moves, normal(8)[::-3], 0.1, 1),
    "moves_sometimes": (moves_sometimes, normal(4), normal(4), 0.3),
    "moves_sometimes, up": (moves_sometimes, 1.0 + normal(3) ** 2, 1.0 + normal(3) ** 2, 0.5),
    "moves_sometimes, down": (moves_sometimes, -1.0 - normal(3) ** 2, normal(3) ** 2, 0.1),
    "counters_and_numbers": (counters_and_numbers, normal(4), normal(4)),
    "counters_of_one_name": (counters_of_one_name, normal(4), normal(4)),
    "segments": (segments, normal(9), np.array([2, 4, 3])),
    "segments, cut off": (segments, normal(7), np.array([3, 3, 9])),
    "segments, none": (segments, normal(2), np.zeros(0, np.int64)),
    "in_tuples": (in_tuples, normal(9), 2, "mean"),
    "in_tuples, one": (in_tuples, normal(1), 1, "median"),
    "lists_and_stars": (lists_and_stars, normal(4), 0.4),
    "accepted_steps": (accepted_steps, 0.3 * normal(4), 0.9, 5),
    "accepted_steps, one": (accepted_steps, 0.3 * normal(1), 0.9, 4),
    "made_in_a_call": (made_in_a_call, normal(4)),
    "integers_of_functions": (integers_of_functions, np.array([-0.4, 0.3, 0.8]), 0.2, 3),
    "integers_of_functions, none": (integers_of_functions, np.array([-0.4, -0.3]), 0.2, 0),
    "integers_of_functions, falling": (integers_of_functions, np.array([0.5, 0.1, -0.3]), 0.2, 1),
    "names_in_functions": (names_in_functions, normal(5), normal(5), 2),
    "likenesses": (likenesses, normal(4), 2),
    "likenesses, one": (likenesses, normal(1), 3),
    "made_in_a_call, one": (made_in_a_call, normal(1)),
    "lengths": (lengths, normal(4), normal(3), 2),
    "lengths, not at all": (lengths, normal(4), normal(3), 0),
    "lengths, of few": (lengths, normal(1), normal(2), 2),
    "lengths, empty": (lengths, normal(2), normal(0), 1),
    "kinds": (kinds, normal(4), 3),
    "kinds, of two": (kinds, normal(2)[::-1], 1),
    "branches": (branches, normal(2), 2.5),
    "branches, the other": (branches, normal(2), -0.5),
    "with_else": (with_else, normal(5), normal(4)),
    "with_else, one": (with_else, normal(1), np.array([2.0])),
    "with_else, low": (with_else, normal(3) + 9.0, normal(3) - 9.0),
    "with_else, empty": (with_else, normal(3), normal(0)),
    "over_indices": (over_indices, normal(3, 4), 0.9),
    "over_indices, all": (over_indices, normal(4, 3).T, 9.0),
    "over_indices, at once": (over_indices, 1.0 + normal(2, 2) ** 2, 0.1),
    "over_indices, empty": (over_indices, normal(0, 2), 0.1),
    "outputs_as_arguments": (outputs_as_arguments, normal(3, 3), normal(3)),
    "tuples_into_rows": (tuples_into_rows, normal(4)),
    "functions_in_functions": (functions_in_functions, normal(3), 4),
    "norms": (norms, normal(4)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, *args = PROGRAMS[name]
    with uncompiled():
        agrees(f, tuple(args), rtol=1e-5)


@pytest.mark.parametrize("name", ["lengths", "with_else", "over_indices", "moves_sometimes"])
def test_twice(name):
    f, *args = PROGRAMS[name]
    with uncompiled():
        twice(f, tuple(args))


def test_compiled():
    f, *args = PROGRAMS["lengths"]
    agrees(f, tuple(args), rtol=1e-5)


def test_names_of_copies():
    args, directions = (normal(5), 0.1, 7), (normal(5), 1.0)
    adj = nb.adjoint(written_before_it_moves)
    assert all(key.endswith("(u1 is u)") for key in adj.report(*args) if "u1" in key)
    plain, kept = (
        a.vjp(args[0].copy(), *args[1:])(directions[:1] * 2)
        for a in (adj, nb.adjoint(written_before_it_moves, checkpoint=2))
    )
    np.testing.assert_array_equal(plain[0], kept[0])
    assert plain[1] == kept[1]


def test_a_name_keeps_its_shape_where_branches_meet():
    def f(x, y, n):
        for i in range(n):
            if i == 0:
                w = x * 2.0
            else:
                w = y * 3.0
            x[0] += w[1]

    with pytest.raises(ValueError, match="in loops and branches a name keeps its shape, use another one"):
        nb.adjoint(f).vjp(normal(4), normal(3), 2)


def test_a_function_that_may_return_nothing():
    def f(x, n):
        for i in range(n):
            if x[i] > 0.0:
                return x[i] * x[0]

    adj = nb.adjoint(f)
    assert adj.value_and_grad(np.array([-2.0, 3.0]), 2)[0] == -6.0
    for call in (adj.value_and_grad, adj.vjp):
        with pytest.raises(ValueError, match="f: the end is reached, and nothing is returned"):
            call(np.array([-2.0, -3.0]), 2)
