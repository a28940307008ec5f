"""Lists of arrays that have one shape and grow in any loop, and comprehensions whose elements are arrays: the items are
rows of one array. Whatever could be told from Python's lists by it is refused."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb

M = np.arange(12.0).reshape(3, 4) / 10 + 0.1
STACK = np.arange(24.0).reshape(2, 3, 4) / 20
W = np.array([[0.3, 0.1], [0.2, 0.5], [0.1, 0.4], [0.3, 0.2]])


# Lists that grow.


def states(m):
    hs, ys = [], []
    h = np.zeros(4)
    for row in m:
        h = np.tanh(h * 0.5 + row)
        y = np.sum(h)
        hs.append(h)
        ys.append(y)
    return np.sum(np.array(hs) ** 2) + np.sum(np.array(ys) ** 3) + np.sum(hs[1] * hs[-1])


def trajectory(m):
    x, v = m[0], m[1]
    path = [x]
    for _ in range(m.shape[0] * 5):
        v = v - 0.1 * x
        x = x + 0.1 * v
        path.append(x)
    path = np.array(path)
    return np.sum(path[:, 0] ** 2) + np.sum(path[-1])


def until(m):
    xs = [m[0]]
    while np.sum(xs[-1]) < 30.0:
        xs.append(xs[-1] * 1.5)
    return np.sum(xs[-1]) + len(xs)


def in_a_branch(m):
    xs, y = [m[0]], m[0]
    for _ in range(m.shape[0] * 20):
        y = y * 1.01
        if y[1] > 0.25:
            xs.append(np.sin(y))
    return np.sum(np.array(xs) ** 3)


def krylov(m):
    a = np.sin(m * m) @ np.cos(m.T) + np.eye(3)
    basis = [np.ones(3) / np.sqrt(3)]
    for j in range(m.shape[0] - 1):
        w = a @ basis[j]
        for v in basis:
            w = w - np.dot(w, v) * v
        basis.append(w / np.linalg.norm(w))
    return np.sum(np.array(basis) ** 3)


def matrices(m):
    ps, p = [], np.eye(4)
    for x in m:
        p = p * 0.9 + np.outer(x, x)
        ps.append(p)
    return sum(np.trace(p @ p) for p in ps) + np.sum(ps[1][0])


def slices(m):
    hs = [m[0] * 1.0]
    for k in range(1, len(m)):
        hs.append(np.sin(hs[-1] + m[k]))
    s = 0.0
    for h in hs[1:]:
        s += np.sum(h)
    for a, b in zip(hs[:-1], hs[1:]):  # noqa: RUF007
        s += np.sum(a * b)
    for i, a in enumerate(hs):
        s += i * np.sum(a)
    return s


def a_slice_is_a_list(m):
    hs = []
    for r in m:
        hs.append(r * r)
    later = hs[1:]
    hs.append(hs[0] * 2)
    return np.sum(later[0] * hs[-1]) + len(later)


def means(m):
    hs = []
    for k in range(m.shape[0]):
        hs.append(m[k] * k)
    return np.sum(np.mean(hs, axis=0) ** 2)


def extended(m):
    hs = [m[0] * 2]
    hs.extend([row * 3 for row in m])
    for _ in range(m.shape[0]):
        hs.extend([m[1] + 1, m[2] * hs[-1]])
    return np.sum(np.array(hs) ** 2)


def counted(m):
    hs = []
    while len(hs) < 5:
        hs.append(m[0] * len(hs))
    return sum(np.sum(h) for h in hs) + len(hs)


def popped(m):
    hs = []
    for r in m:
        hs.append(r * r)
    g = hs.pop()
    hs.append(m[0] * 3)
    return np.sum(g * hs[-1]) + np.sum(g) + len(hs)


def emptied(m):
    hs = []
    for r in m:
        hs.append(r * r)
    s = 0.0
    while hs:
        v = hs.pop()
        s += np.sum(v) * len(hs)
    return s


def items_set(m):
    hs = [m[0]]
    for r in m:
        hs.append(r * hs[0])
    for k in range(len(hs) - 1):
        hs[k] = hs[k + 1] * hs[k]
    return sum(np.sum(h * h) for h in hs)


def items_written(m):
    hs = []
    for x in m:
        hs.append(x * 2)
    hs[1] += 1.0
    hs[0][2] = 5 * m[0, 0]
    return sum(np.sum(h * h) for h in hs)


def begun_anew(m):
    s = 0.0
    hs = [m[0] * 2]
    for e in range(len(m)):
        s += np.sum(hs[0])
        hs = []
        for r in m:
            hs.append(r * e)
    return s + np.sum(hs[1] ** 2)


def in_nested_functions(m):
    def run(m):
        hs = []
        for x in m:
            hs.append(x * 2)
        return hs[-1]

    return np.sum(run(m) * run(m * m))


def numbers(m):
    y = [m[0, 0]]
    for v in m[1]:
        y.append(v * y[-1])
    z = y[1:]
    y.append(5.0)
    s = 0.0
    for k in range(3):
        w = y[k:]
        s += len(w) * w[0] + sum(w)
    return sum(z) + len(z) + len(y) + z[-1] + s


# Lists that are read before something is put in.


def orthonormal(m):
    def of_rows(x):
        qs = []
        for row in x:
            u = row.copy()
            for q in qs:
                u -= np.dot(q, u) * q
            qs.append(u / np.sqrt(np.sum(u * u)))
        return qs

    a, b = of_rows(np.sin(m * m * 9)), of_rows(np.cos(m * m * 7))
    return np.sum(a[1] * b[2]) + np.sum(np.array(a) ** 3) + len(a)


def with_the_last(m):
    hs, gs = [], []
    for k in range(len(m)):
        h = np.sin(m[k])
        if k > 0:
            h = h + hs[-1] * 0.5
        hs.append(h)
    for row in m:
        if len(gs) > 0:
            g = row * gs[-1]
        else:
            g = row * 2
        gs.append(g)
    return np.sum(hs[-1]) + np.sum(hs[0] * hs[1]) + np.sum(gs[-1])


def with_all(m):
    hs = []
    for row in m:
        s = row
        for h in hs:
            s = s + h * 0.1
        hs.append(np.sin(s) * sum(np.sum(h) for h in hs) + s)
    return np.sum(hs[-1])


# Comprehensions.


def norms(r):
    return np.sum(r * r) * r


def filtered(m):
    y = [row * 2 for row in m if row[0] > 0.2]
    return np.sum(np.array(y) ** 2)


def pairs(m):
    y = [a * b for a in m for b in m]
    return np.sum(np.array(y) ** 2) + len(y)


def nested(m):
    y = [[r * v for v in r] for r in m]
    return np.sum(np.array(y)[1])


def steps(m):
    ps = [r * 1.0 for r in m]
    for _ in range(len(m) * 2):
        for i in range(len(ps)):
            p = ps[i]
            ps[i] = p - 0.1 * np.cos(p)
    return sum(np.sum(p * p) for p in ps)


def step(ps):
    for i in range(len(ps)):
        ps[i] = ps[i] - 0.1 * np.cos(ps[i])


def steps_of_a_function(m):
    ps = [r * 1.0 for r in m]
    step(ps)
    step(ps)
    return sum(np.sum(p * p) for p in ps)


def in_place(m):
    ps = [r * 1.0 for r in m]
    for i in range(len(ps)):
        ps[i] -= 0.1 * np.cos(ps[i])
    g = ps[0]
    ps[0] += 1.0
    return sum(np.sum(p * p) for p in ps) + np.sum(g)


def of_a_list_that_may_be_empty(m):
    gs = [row * 2 for row in m if row[0] > 100.0]
    t = 0.0
    for i in range(3):
        t += np.sum(m[i])
        hs = [g * i for g in gs]
        for g, h in zip(gs, list(hs), strict=True):
            if t > 0.0:
                return t + np.sum(g * h)
        t += len(hs)
    return t


ACCEPTED = [states, trajectory, until, in_a_branch, krylov, matrices, slices, a_slice_is_a_list, means, extended,
            counted, popped, emptied, items_set, items_written, begun_anew, in_nested_functions, orthonormal,
            with_the_last, with_all, numbers, filtered, pairs, nested, steps, steps_of_a_function,
            in_place, of_a_list_that_may_be_empty]  # fmt: skip


@pytest.mark.parametrize("f", ACCEPTED, ids=lambda f: f.__name__)
def test_accepted(f):
    check_derivatives(f, M, compiled=False)  # Numba has no lists of arrays that NumPy takes


JOINED = {
    "array": lambda m: np.array([row * 2 for row in m])[1],
    "stack": lambda m: np.stack([norms(row) for row in m])[1],
    "stack, axis 1": lambda m: np.stack([norms(row) for row in m], axis=1)[1],
    "stack, axis -1": lambda m: np.stack([norms(row) for row in m], axis=-1)[1],
    "vstack": lambda m: np.vstack([norms(row) for row in m])[1],
    "hstack": lambda m: np.hstack([norms(row) for row in m])[3:7],
    "concatenate": lambda m: np.concatenate([norms(row) for row in m])[3:7],
    "column_stack": lambda m: np.column_stack([norms(row) for row in m])[1],
    "sum of a list": lambda m: sum([np.sin(row) for row in m]),
    "sum": lambda m: sum(np.sin(row) for row in m),
}


@pytest.mark.parametrize("join", JOINED.values(), ids=JOINED)
def test_joined(join):
    check_derivatives(lambda m: np.sum(join(m) ** 2), M, compiled=False)


JOINED_MATRICES = {
    "stack, axis 1": lambda s: np.stack([a * a for a in s], axis=1)[1],
    "vstack": lambda s: np.vstack([a * a for a in s])[2:5],
    "hstack": lambda s: np.hstack([a * a for a in s])[1, 2:6],
    "concatenate": lambda s: np.concatenate([a * a for a in s])[1:4],
    "concatenate, axis 1": lambda s: np.concatenate([a * a for a in s], axis=1)[1, 2:6],
    "column_stack": lambda s: np.column_stack([a * a for a in s])[1, 2:6],
    "products": lambda s: np.array([a @ W for a in s]),
}


@pytest.mark.parametrize("join", JOINED_MATRICES.values(), ids=JOINED_MATRICES)
def test_joined_matrices(join):
    check_derivatives(lambda s: np.sum(join(s) ** 2), STACK, compiled=False)


def test_number_of_iterations():
    """One adjoint for any number: nothing is unrolled."""

    def powers(x, n):
        hs = [x]
        for _ in range(n):
            hs.append(hs[-1] * 0.9 + x)
        return np.sum(hs[n // 2])

    adj = nb.adjoint(powers)
    for n in (0, 3, 70, 500):
        with uncompiled():
            value, (x_bar, _) = adj.value_and_grad(M[0], n)
        assert value == pytest.approx(powers(M[0], n), rel=1e-14)
        np.testing.assert_allclose(x_bar, powers(np.ones(1), n), rtol=1e-13)
    assert adj.source.count("0.9") < 10


def test_items_of_other_shapes():
    def mixed(x, y):
        hs = []
        for k in range(x.size):
            hs.append(x * k)
        for k in range(y.size):
            hs.append(y * k)
        return sum(np.sum(h) for h in hs)

    adj = nb.adjoint(mixed)
    assert adj.value_and_grad(M[0], M[1])[0] == pytest.approx(mixed(M[0], M[1]))
    with pytest.raises(ValueError, match="mixed: items of the list hs have different shapes"):
        adj.value_and_grad(M[0], M[1, :2])


def sum_of_rows(m):
    t, hs = 0.0, [m[0] * 1.0]
    for row in m:
        for q in m:
            t += sum(np.sum(h**2) for h in hs)
            hs.extend([q * row, q + row])
    return t


def sum_of_numbers(m):
    t, ys = 0.0, [m[0, 0]]
    for row in m:
        for q in m:
            t += sum(y * y for y in ys) + max(ys)
            ys += [q[0] * row[1], q[1], row[2]]
    return t


def stacked(m):
    t, hs = 0.0, [m[0] * 1.0]
    for row in m:
        for q in m:
            t += np.sum(np.stack(hs)[:, 1] * np.array([h[0] * 2 for h in hs])) + np.mean(np.array([h @ q for h in hs]))
            hs.append(q * row)
            hs.append(q + row)
    return t


def sliced_off(m):
    t, hs = 0.0, [m[0] * 1.0]
    for row in m:
        for q in m:
            late = hs[1:]
            t += sum(np.sum(h) ** 2 for h in late)
            hs.append(q * row)
    return t


@pytest.mark.parametrize("f", [sum_of_rows, sum_of_numbers, stacked, sliced_off])
def test_what_is_made_of_a_list_grows_with_it(f):
    """The capacity of the list when the loop begins is no bound."""
    check_derivatives(f, M * 0.5, compiled=False)


def test_items_that_there_are_not():
    def last(m, n):
        hs = [m[0]]
        for row in m:
            hs.append(row * 2.0)
        return np.sum(hs[n])

    def taken(m, n):
        hs = [m[0]]
        for _ in range(n):
            hs.pop()
        return np.sum(m)

    def taken_from_few(m):
        hs = [m[0], m[1]]
        hs.pop(0)
        hs.pop()
        hs.pop()
        return np.sum(m)

    with uncompiled():
        with pytest.raises(IndexError, match=r"index 9 is out of bounds for axis 0 of hs with size 4: .*hs\[n\]"):
            nb.adjoint(last).value_and_grad(M, 9)
        with pytest.raises(IndexError, match="pop from empty list"):
            nb.adjoint(taken).value_and_grad(M, 2)
        with pytest.raises(IndexError, match="pop from empty list"):
            nb.adjoint(taken_from_few).value_and_grad(M)
