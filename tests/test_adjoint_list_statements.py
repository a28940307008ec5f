"""Statements that change lists and tuples in other forms: joined, with items that change their places."""

import numpy as np
import pytest
from loop_checks import check_derivatives

import nbgrad as nb
from nbgrad.errors import TraceError

M = np.arange(12.0).reshape(3, 4) / 10 + 0.1


def added_to(m):
    hs = [m[0]]
    for _ in range(len(m)):
        hs += [hs[-1] * 2]
    for _ in range(len(m)):
        hs = hs + [hs[-1] * 0.5 + m[1]]
    return np.sum(hs[3] * hs[-1])


def multistep(m):
    y = m[0]
    fs = [y * 0.0, y * 0.0, y * 0.0]
    for _ in range(len(m) * 4):
        f = np.sin(y) * m[1]
        fs = [f, fs[0], fs[1]]
        y = y + 0.1 * (23 * fs[0] - 16 * fs[1] + 5 * fs[2]) / 12
    return np.sum(y)


def exchanged(m):
    fs = (m[0] * 1.0, m[1] * 2)
    for k in range(len(m)):
        fs = (fs[1], fs[0])
        fs[0][0] += 5.0 * k + m[0, 0]
    return np.sum(fs[0]) * 2 + np.sum(fs[1] * fs[1])


def sorted_by_sums(m):
    hs = [r * 1.0 for r in m]
    for i in range(len(hs)):
        for j in range(i + 1, len(hs)):
            if np.sum(hs[j]) > np.sum(hs[i]):
                hs[i], hs[j] = hs[j], hs[i]
    hs[0][0] += 1.0
    return np.sum(hs[0] * hs[1] ** 2)


def of_numbers(m):
    y, s = [m[0, 0]], 0.0
    for v in m[1]:
        y += [v * y[-1], v]
    y[0], y[1] = y[1], y[0] * 2
    for k in range(len(m)):
        c = [m[k, 0], m[k, 1]]
        s += c[0] * sum([v * 2 for v in c])
        c = [1.0, 2.0]
        s += c[1]
    return sum(y) * s + y[0]


def replaced(m):
    path = [m[0]]
    for r in m:
        path.append(r * path[-1])
    path = np.array(path)
    y = [v * v for v in m[0]]
    y = np.array(y) * 2
    y += 1.0
    return np.sum(path[:, 1] * path[0, 0]) + np.sum(y * y)


def replaced_in_a_loop(m):
    s = 0.0
    for e in range(len(m)):
        hs = []
        for r in m[e:]:
            hs.append(r * e)
        hs = np.stack(hs)
        s += np.sum(hs[:, 1] * hs[0, 0])
    return s


def one_and_two(x):
    return [x, x * 2]


def multiples(x, n):
    out = []
    for i in range(n):
        out.append(x * (i + 1))
    return out


def squares(x):
    out = []
    for v in x:
        out.append(v * v)
    return out


def returned_by_functions(m):
    x, s = m[1], 0.0
    for w in one_and_two(x):
        s += np.sum(w * w)
    a, b = one_and_two(x)
    c, d, e = multiples(x, 3)
    many = multiples(x, len(x) * 20)
    ys = squares(x)
    return s + np.sum(a * b + c * d * e) + np.sum(many[-1]) + len(many) + sum(ys) + ys[1] + np.sum(np.array(ys) ** 2)


def momentum(m):
    params = [m[0], m[1]]
    vel = [np.zeros_like(m[0]), np.zeros_like(m[1])]
    for _ in range(3):
        w, a = params
        grads = [np.cos(w) * a, np.sin(w) * a]
        vel = [0.9 * v + g for v, g in zip(vel, grads, strict=True)]
        params = [p - 0.1 * v for p, v in zip(params, vel, strict=True)]
    return np.sum(params[0]) + np.sum(params[1] ** 2)


def passed_on(m):
    def total(ls):
        return sum(np.sum(part * part) for part in ls)

    ls = [m[0], m[1] * 2]
    twice, joined = [m[0]] * 2, [m[0]] + [m[1]]
    return total(ls) + np.sum(np.mean(ls, axis=0)) + np.sum(np.stack(ls)[1]) + np.sum(twice[0] * twice[1] * joined[1])


def popped_in_expressions(m):
    skips = [m[0], m[0] * 2, m[0] * 3]
    h = np.tanh(skips.pop())
    h = h + skips.pop()
    skips.append(h)
    skips.append(skips.pop(0))
    y, s = [v * 2 for v in m[1]], 0.0
    while y:
        s += np.sin(y.pop()) * len(y)
    return np.sum(h) + len(skips) + np.sum(skips[-1]) + s


def two_loop_recursion(m):
    x, ss, ys = m[0] + 0.5, [], []
    g = np.sin(x)
    for _ in range(4):
        q = g
        for s, y in zip(reversed(ss), reversed(ys), strict=True):
            q = q - np.sum(s * q) / np.sum(s * y) * y
        for s, y in zip(ss, ys, strict=True):
            q = q + np.sum(s * q) / np.sum(s * y) * 0.1 * s
        following = x - 0.1 * q
        ss.append(following - x)
        ys.append(np.sin(following) - g)
        x, g = following, np.sin(following)
    return np.sum(x)


TABLEAU = ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0))


def runge_kutta(m):
    y = m[0]
    for _ in range(2):
        ks = []
        for row in TABLEAU:
            z = y
            for c, k in zip(row, ks, strict=True):
                z = z + 0.1 * c * k
            ks.append(np.sin(z))
        y = y + 0.1 * (ks[0] + 2 * ks[1] + 2 * ks[2] + ks[3]) / 6
    return np.sum(y)


def left_by_a_break(m):
    vs, s = (m[0, :2], m[0], m[1, :1]), 0.0
    for v in vs:
        t = v * 2
        if s > 1.5:
            s += 100.0
            break
        if np.sum(v) < 0.25:
            continue
        for e in t:
            if e > 0.5:
                break
            s += e
        s += np.sum(t)
    return s


def left_by_a_return(m):
    vs, s = (m[0, :2], m[0], m[1, :1]), 0.0
    for v in vs:
        t = v * 2
        if s > 1.0:
            return s * 2 + np.sum(t)
        s += np.sum(t)
    return s


def any_of(m):
    vs, s = (m[0, :2], m[1]), 0.0
    if any(np.sum(v) > 1 for v in vs):
        s = 1.0 * np.sum(vs[0])
    if all([np.sum(v) > 1 for v in vs]) or any(v.size > 5 for v in vs):
        s += 2.0 * vs[0][0]
    ws = tuple(np.tanh(v) for v in vs)
    return s + np.sum(ws[1]) + all(v.size > 0 for v in vs)


def gone_over_and_replaced(m):
    ls, s = [m[0], m[1]], 0.0
    for v in ls:
        ls = [u + v for u in ls]
        s += np.sum(v * ls[0])
    x = m[2]
    for v in x:
        x = x * v
    return s + np.sum(x)


def gone_over_and_set(m):
    ls = [m[0], m[1], m[2]]
    for i, v in enumerate(ls):
        ls[(i + 1) % 3] = v * 0.5
    for v in ls:
        ls[2] = v * v
    rows = [r * 1.0 for r in m]
    for v in rows:
        rows[2] = v * v
    return np.sum(ls[0]) + np.sum(ls[2] * m[1]) + np.sum(rows[2])


def path_of(a, n):
    hs = [a]
    for k in range(n):
        hs.append(hs[-1] * 0.5 + a[k])
    return hs


def items_of_a_result_swapped(m):
    hs = path_of(m[0] * m[1], len(m) - 1)
    hs[0], hs[-1] = hs[-1], hs[0]
    if np.sum(hs[1]) > -99.0:
        hs[0], hs[1], hs[2] = hs[1], hs[2] * 2.0, hs[0]
    return sum((i + 1) * np.sum(h * h) for i, h in enumerate(hs))


FORMS = [added_to, multistep, exchanged, sorted_by_sums, of_numbers, replaced, replaced_in_a_loop,
         returned_by_functions, momentum, passed_on, popped_in_expressions, two_loop_recursion, runge_kutta,
         left_by_a_break, left_by_a_return, any_of, gone_over_and_replaced, gone_over_and_set,
         items_of_a_result_swapped]  # fmt: skip


@pytest.mark.parametrize("f", FORMS, ids=lambda f: f.__name__)
def test_forms(f):
    check_derivatives(f, M, compiled=False)


def held_and_written(m):
    fs, new = (m[0] * 1.0, m[1] * 2), m[2] * 1.0
    for _ in range(len(m)):
        fs = (new, fs[0])
        new += 1.0
    return np.sum(fs[0]) + np.sum(fs[1])


def in_both_places(m):
    fs = (m[0] * 1.0, m[1] * 2)
    for _ in range(len(m)):
        fs = (fs[1], fs[1])
        fs[0][0] = 5.0 + m[0, 0]
    return np.sum(fs[0]) + np.sum(fs[1])


def new_and_written(m):
    fs = (m[0] * 1.0, m[1] * 2)
    for _ in range(len(m)):
        new = np.sin(fs[0])
        fs = (new, fs[0])
        new[0] = 7.0
    return np.sum(fs[0]) * 2 + np.sum(fs[1] * fs[1])


def of_the_argument(m):
    fs = (m[0] * 1.0, m[1] * 2)
    for _ in range(len(m)):
        fs = (m[1], fs[0])
        fs[0][1] += 1.0
    return np.sum(fs[0]) * 2 + np.sum(fs[1] * fs[1])


@pytest.mark.parametrize("f", [held_and_written, in_both_places, new_and_written, of_the_argument],
                         ids=lambda f: f.__name__)  # fmt: skip
def test_items_of_tuples(f):
    with pytest.raises(TraceError, match=r"a write to an array that fs\[0\] stands for, too"):
        nb.adjoint(f).value_and_grad(M)


def test_indices():
    def chosen():
        return [2, 0]

    def by_a_result(m):
        return np.sum(m[chosen()] ** 2)

    def by_a_name(m):
        first = [2, 0]
        index = first
        return np.sum(m[index] ** 2)

    def of(m, index):
        return np.sum(m[index] ** 2)

    def by_an_argument(m):
        return of(m, [2, 0])

    for f in (by_a_result, by_a_name, by_an_argument):
        with pytest.raises(TraceError, match=r"list .* as an index"):  # not m[2, 0]
            nb.adjoint(f).value_and_grad(M)
