"""Advanced indexing by masks and index arrays, joins and reshapes: values as NumPy, and gradients of these."""

import math

import numpy as np
import pytest
from loop_programs import agrees, twice, uncompiled
from programs.data import normal

import nbgrad as nb
from nbgrad.errors import TraceError

X, Y, A, B = normal(5), normal(6), normal(4, 4), normal(4, 3)
T, C = normal(17), normal(2, 3, 2)
PLACES, M = np.array([3, 0, 3, 1]), np.array([True, False, True, True, False])


def gathered(x, a, i):
    return (x[i] * 2, a[i] ** 2, a[:, i] * a, a[i, 1] * x[i], np.sum(x[i] ** 2))


def scattered(x, a, i):
    x[i] = x[i] + 1.5 * x[1]
    x[i] *= 2.0
    a[i] = a * a[0]
    a[1:, i] = a[:3] ** 2
    return x[:4][i] * x[1:][i]


def of_parts(x, a, i):
    x[:4][i] = x[i] ** 2
    y = x[i]
    y[0] *= 3.0
    return (y, a[i, i] * 2, a.T[i][:, 0], x[i[::-1]], x[-i])


def masks(x, m, a):
    y = x.copy()
    z = x * a
    y[m] = 0.0
    z[m] += a
    z[~m] *= x[~m] ** 2
    x[x > 0] = a * x[x > 0]
    z[z < -1.0] = -1.0 + 0.1 * z[z < -1]
    return (y, z, np.sum(x[m]), np.mean(z[x > 0]))


def named_masks(x, m, a):
    z = x[m]
    z = z * z
    x[m] = z * a
    mask = (x > 0) & (x < 1) | np.logical_and(m, x > 1.0)
    w = x[mask]
    return (z, w, w.size * a, np.max(x[mask]))


def masks_in_steps(x, a, n):
    for _ in range(n):
        x[x > 0.5] *= 0.9
        x[:] = x * 1.1 + 0.1 * np.sin(x)
        x[x < -1] = x[0]
        a[a > 0] = np.sqrt(a[a > 0]) * x[0]
        s = np.sum(x[x > 0] ** 2)
        x[0] += 0.1 * s
    return x


def orders_in_steps(x, i, n):
    y = np.zeros_like(x)
    order = np.argsort(x)
    z = x[order]
    for _ in range(n):
        y[i] += z[i] * y[0] + 0.5
        k = np.argsort(y)
        z = z * y[k]
    return (z, y, np.where(y > 0, x, z))


def groups(a, lab):
    tot = 0.0
    for c in range(4):
        part = a[lab == c]
        tot += np.sum(part * part)
    j = np.arange(4)
    j = (j + 1) % 4
    return (tot * a[j] + a[j - 1], a[lab, j])


def other_masks(x, b):
    d = x - x[x > 0][0]
    b[x[:4] > 0] = 1.5
    b[b > 1] -= 1.0
    k = np.searchsorted(np.array([0.1, 0.2, 0.3]), x)
    return (d, np.array([1.0, 2.0, 3.0, 4.0])[k] * x)


def joined(x, y, a, b):
    z = np.concatenate((x, y[1:], x * 2))
    w = np.append(x, y)
    v = np.append(x[::-1], 1.5 * x[0])
    p = (x, y)
    return (z * z, w * w, v, np.hstack((x, x**2)), np.concatenate(p), np.concatenate([x, y]))


def joined_matrices(x, y, a, b):
    return (
        np.concatenate((a, b), axis=1) ** 2,
        np.hstack((b, a)),
        np.vstack((a, a.T)),
        np.vstack((x, y[1:])) ** 2,
        np.concatenate((a, a * a)),
    )


def stacked(x, y):
    return (
        np.stack((x, y[1:])) ** 2,
        np.stack((x, y[1:], x * x), axis=1),
        np.stack((x, x), axis=-1),
        np.column_stack((x, y[:-1])),
    )


def padded(x, y, n):
    h = x * 1.0
    for _ in range(n):
        p = np.concatenate((x[-1:], x, x[:1]))
        x = x + 0.1 * (p[2:] - 2 * p[1:-1] + p[:-2]) * x
        h += x
    return h


def packed_parameters(t, x, n):
    W = t[:6].reshape(2, 3)
    V = t[6:12].reshape((3, 2))
    b = t[12:].reshape(-1, 5)
    h = np.tanh(W.T @ x[:2])
    return (V.T @ h, b[0] * x, W * W, W[:, -1], W[-1, 1:])


def flattened(c, a, x):
    f = c.reshape(-1)
    g = np.reshape(c, (3, 4))
    k = a.T.ravel()
    s = 0.0
    for i in range(f.size):
        s += f[i] ** 2 * i
    for i in range(4):
        for j in range(4):
            s += k[i * 4 + j] * a[i, j]
    return (s, g @ a, c[1].ravel() * 2, f[-1] * f[-2], c.flatten() ** 2, a[1:3].reshape(8) ** 2, f)


def shared_elements(x, n):
    w = np.zeros((2, 5))
    v = w.reshape(10)
    for _ in range(n):
        for i in range(5):
            v[i] = x[i] * 2 + v[i + 5]
            v[9 - i] = v[i] * x[i]
        w[1] += w[0] * w[1]
        v[1:] = v[:-1] * 1.1
        w[:] = w * np.reshape(v, (2, -1))
        v[:5] = w[1] + v[5:]
    return (w, v)


def flat_sum(a):
    r = a.ravel()
    r[0] *= 2.0
    return np.sum(r * r)


def local_shapes(a):
    b = a * 1.0
    s = flat_sum(b)
    for row in b.reshape(8, 2):
        s += row[0] * row[1]
    for c in [0.5, 1.5]:
        s *= c
    return s * b


def written(a):
    r = a.ravel()
    r[0] = 1.0
    return r


def comprehensions(x, y, a):
    s = sum(x[i] * y[i] for i in range(x.size))
    t = np.array([math.sin(v) * a for v in x])
    u = np.array([i * v for i, v in enumerate(y)])
    w = np.sum([p * q for p, q in zip(x, y)])
    i = 2
    return (s * t + w * i, u, np.max(np.array([abs(v) for v in x])), sum(v * v for v in (a, 2.0, x[1])))


def comprehensions_in_steps(a, n):
    s = 0.0
    for t in range(n):
        m = np.array([np.sum(r * r) for r in a])
        a *= 0.9 + 0.01 * m[t]
        s += sum([a[i, t] * sum(a[i, j] for j in range(i)) for i in range(4)])
    return s


def step(u, v, c):
    n, m = u.shape
    k = m - 1
    for i in range(1, n - 1):
        for j in range(1, k):
            v[i, j] = u[i, j] + c * (u[i - 1, j] * u[i + 1, j] - u[i, j - 1] * u[i, j + 1])


def stepped(u, c, n):
    v = u.copy()
    for _ in range(n):
        step(u, v, c)
        u, v = (v, u)
    return u


ROWS = {
    comprehensions: (X, Y, 0.3),
    comprehensions_in_steps: (A, 3),
    stepped: (A, 0.1, 3),
    gathered: (X, A, PLACES,),
    scattered: (X, A, PLACES,),
    of_parts: (X, A, PLACES,),
    masks: (X, M, 0.7,),
    named_masks: (X, M, 0.7,),
    masks_in_steps: (X, A, 3,),
    orders_in_steps: (X, PLACES, 2,),
    groups: (A, np.arange(4),),
    other_masks: (X, B,),
    joined: (X, Y, A, B,),
    joined_matrices: (X, Y, A, B,),
    stacked: (X, Y,),
    padded: (X, Y, 3,),
    packed_parameters: (T, X, 2,),
    flattened: (C, A, X,),
    shared_elements: (X, 3,),
    local_shapes: (A,),
    written: (A,),
}  # fmt: skip


def by_lists(x, a):
    a[[0, 2]] = a[[2, 0]]
    a[:, [1, 3]] *= 2.0
    x[[0, -1]] = x[[1, 1]] * a[[0, 1], [2, 3]]
    total = 0.0
    for i in range(3):
        total += np.sum(x[[i, (i + 1) % 3]] * a[i, [0, 1]])
    return total + np.sum(x[[True, False, True, True, False]] ** 2)


def test_lists_as_indices():
    with uncompiled():
        agrees(by_lists, (X, A))
        twice(by_lists, (X, A))


@pytest.mark.parametrize("name", [f.__name__ for f in ROWS])
def test_parts(name):
    f, args = next((f, args) for f, args in ROWS.items() if f.__name__ == name)
    with uncompiled():
        agrees(f, args)
        twice(f, args)


def test_compiled():
    for f in (scattered, masks_in_steps, padded, shared_elements):
        agrees(f, ROWS[f])


def few(x, i):
    x[i] *= x[i] + 1.0
    return x[i] * 2, np.sum(x[i] ** 2)


def test_lengths_are_known_where_functions_ask_for_them():
    adj = nb.adjoint(stepped)
    adj.vjp(A, 0.1, 3)
    assert "tape_top" not in adj.source


def layouts(a, x):
    b = a.copy()
    first = b[::2].ravel()
    first[0] = 3.0
    line = x * 1.0
    part = line[::2].ravel()
    part *= 2.0
    whole = line[1:4].ravel()
    whole *= x[0]
    twice = b.reshape(2, 8).reshape(-1, 4)
    twice[1] *= x[:4]
    return b, line, part, first, b.T.flatten() * b.T.ravel()


def lengths_that_change(x):
    """Arrays allocated in loops have more capacity than elements: the last element is the last one in use."""
    s = 0.0
    for i in range(1, 4):
        y = np.outer(x[i:], x[:i])
        z = y.ravel()
        s += z[-1] * y[-1, 0] + y.T[0, -1] * z[i - 2] + np.cumsum(y[0])[-1] + y.sum(axis=1)[-1] + np.tril(y)[-1, 0]
        w = np.zeros_like(y)
        w[-1] = y[0]
        v = np.concatenate((x[i:] ** 2, x[:i]))[: i + 1]
        v[-1] += s
        for k, t in enumerate(v[::-1]):
            s = 0.5 * s + k * t
        p = np.empty(i)
        p[:] = s
        p[-1] *= v[0]
    return s, w.T, y.ravel(), p


def test_lengths_that_change():
    """Returned arrays have these lengths, too."""
    with uncompiled():
        agrees(lengths_that_change, (normal(6),), rtol=1e-5)
        twice(lengths_that_change, (normal(6),))
    agrees(lengths_that_change, (normal(5),), rtol=1e-5)

    def early(x):
        for i in range(3):
            if x[i] > 0.5:
                return x[i:]
        return x[:0]

    with uncompiled():
        for x in (np.array([0.2, 0.7, 0.1, 0.4]), np.array([0.8, 0.7, 0.1]), np.array([0.3, 0.2, 0.1])):
            agrees(early, (x,), rtol=1e-5)


def test_what_shares_elements():
    """Elements are shared as in NumPy, and adjoints agree."""
    with uncompiled():
        agrees(layouts, (A, X))


def test_few_elements():
    with uncompiled():
        for n in (0, 1):
            agrees(masks_in_steps, (normal(n + 1), normal(2, 2), 2))
            agrees(padded, (normal(n + 1), normal(3), 2))
            agrees(local_shapes, (normal(4, 4)[:, ::-1],))
        agrees(few, (X, PLACES[:0]))


def test_what_would_be_wrong_is_refused():
    def kinds(x, i):
        j = i * 2
        for _ in range(2):
            j = j * 0.5
        return x[j]

    def floats(x, i):
        return x[x * 2]

    def mixed(x, i):
        x[x > 0] = x[x > 0] + i
        return x

    def sides(a, i):
        return a[1, :, i]

    def strided(a):
        return a[:, 1].reshape(2, 2)

    def columns(a):
        return a.T.reshape(-1)

    for f in (strided, columns):  # NumPy copies these: they may be read
        np.testing.assert_array_equal(nb.adjoint(f).vjp(A).value, f(A))
    with pytest.raises(TraceError, match="both sides of a slice"):
        nb.adjoint(sides).vjp(C, np.array([0, 1]))
    for f, message in ((kinds, "values of another kind"), (floats, "may be of floats")):
        with pytest.raises(TraceError, match=message):
            nb.adjoint(f).vjp(X, np.arange(5))
    with uncompiled(), pytest.raises(ValueError, match="arrays of different lengths"):
        nb.adjoint(mixed).vjp(np.array([0.5, -1.0, 2.0, -0.3, 0.7]), np.arange(5))  # drawn numbers may all be positive
    with uncompiled(), pytest.raises(ValueError, match="another number of elements"):
        nb.adjoint(packed_parameters).vjp(T[:-1], X, 2)


a = np.ones((7, 3))  # also the name of an argument below


def hidden(a, x):
    w = a.T.copy()
    return w @ a[:, 0] * a.T.size, np.linalg.solve(a.T.copy(), x[:4])


def test_names_from_outside_are_hidden_by_those_of_arguments():
    with uncompiled():
        agrees(hidden, (A + 3.0 * np.eye(4), X))
