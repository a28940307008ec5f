"""Arrays of which a nest of loops overwrites every element are saved there once, not in each update that follows."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb

RNG = np.random.default_rng(31)


def normal(*shape):
    return RNG.normal(size=shape)


def congruence(A, F, n):
    """As covariances are propagated: a product whose left factor is made anew in each step."""
    for _ in range(n):
        A = F @ A @ F.T
    return np.sum(A * A)


def by_hand(A, F, n):
    left = np.empty((F.shape[0], A.shape[1]))
    for _ in range(n):
        for i in range(F.shape[0]):
            for j in range(A.shape[1]):
                left[i, j] = 0.0
                for k in range(F.shape[1]):
                    left[i, j] += F[i, k] * A[k, j]
        for i in range(A.shape[0]):
            for j in range(A.shape[1]):
                A[i, j] = 0.0
                for k in range(A.shape[1]):
                    A[i, j] += left[i, k] * F[j, k] ** 2


def move(x, w, a):
    for i in range(x.size):
        w[i] += a * x[i]
    for i in range(x.size):
        x[i] = w[i] ** 2 * x[i]


# In the next programs a loop overwrites less than it seems, and the update that follows overwrites what it missed.


def but_the_last(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size - 1):
            w[i] = 0.5
        move(x, w, c[t])


def but_the_first(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(1, x.size):
            w[i] = 0.5
        move(x, w, c[t])


def every_other(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(0, x.size, 2):
            w[i] = 0.5
        move(x, w, c[t])


def under_a_test(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size):
            if c[t] * x[i] > 0.0:
                w[i] = 0.5
        move(x, w, c[t])


def in_a_loop_that_ends(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size):
            w[i] = 0.5
            if c[t] > 0.3 * i - 0.5:
                break
        move(x, w, c[t])


def along_the_diagonal(x, c, n):
    w = np.ones((x.size, x.size))
    for t in range(n):
        for i in range(x.size):
            for j in range(x.size):
                w[i, i] = 0.1 * j
        for i in range(x.size):
            for j in range(x.size):
                w[i, j] += c[t] * x[i]
        for i in range(x.size):
            for j in range(x.size):
                x[i] += w[i, j] ** 2 * x[j]


# In these it overwrites everything.


def backwards(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size - 1, -1, -1):
            w[i] = 0.1
        move(x, w, c[t])


def twice_in_the_nest(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size):
            w[i] *= 0.5
            w[i] += c[t] * x[i]
        for i in range(x.size):
            x[i] = w[i] ** 2 * x[i]


def read_in_the_nest(x, c, n):
    """Only the nest itself reads what the update that follows overwrites."""
    w, y = np.ones(x.size), np.ones(x.size)
    for t in range(n):
        for i in range(x.size):
            w[i] = c[t] * x[i]
            y[i] += 0.5 * w[i] ** 2
        for i in range(x.size):
            w[i] += 0.3
        for i in range(x.size):
            x[i] = 0.5 * x[i] + w[i] + y[i]


def swapped(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size):
            w[i] = 0.0
        for i in range(x.size):
            w[i] += c[t] * x[i] * x[i - 1]
        w, x = x, w
    return np.sum(w * x)


def reads_what_it_overwrites(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size):
            w[i] = w[i] * w[x.size - 1 - i] * c[t]
        for i in range(x.size):
            w[i] += x[i] * w[i] * w[i - 1]


def left_by_an_error(x, c, n):
    w = np.ones(x.size)
    for t in range(n):
        try:
            for i in range(x.size):
                w[i] = 0.3 * c[t]
                if x[i] > 0.4:
                    raise ValueError("large")
        except ValueError:
            x[0] *= w[1] ** 2
        move(x, w, c[t])


def updated_in_the_nest(x, c, n):
    """Updates in the nest that overwrites, which read elements of other iterations of it."""
    w = np.ones((x.size, 2))
    for t in range(n):
        for i in range(x.size):
            for j in range(2):
                w[i, j] = w[i, j - 1] * 0.5
                w[i, j] += c[t] * x[i] * w[i, j]
                w[i, j] *= w[i, 0]
        for i in range(x.size):
            x[i] = w[i, 0] ** 2 * x[i] * w[i, 1]


def with_another_variable(x, c, n):
    """The loop's variable is changed before it is an index."""
    w = np.ones(x.size)
    for t in range(n):
        for i in range(x.size):
            i = i // 2
            w[i] = 0.5
        move(x, w, c[t])


def ever_shorter(x, c, n):
    w = np.ones(x.size)
    m = x.size
    for t in range(n):
        for i in range(m):
            w[i] = 0.5
        m = m - 1
        move(x, w, c[t])


PROGRAMS = [
    (congruence, (normal(4, 4), normal(4, 4) / 2, 3)),
    (by_hand, (normal(4, 4), normal(4, 4) / 2, 3)),
    (but_the_last, (normal(5) / 3, normal(3) / 3, 3)),
    (under_a_test, (normal(5) / 3, normal(3) / 3, 3)),
    (in_a_loop_that_ends, (normal(5) / 3, normal(3) / 3, 3)),
    (along_the_diagonal, (normal(4) / 3, normal(3) / 3, 3)),
    (but_the_first, (normal(5) / 3, normal(3) / 3, 3)),
    (every_other, (normal(5) / 3, normal(3) / 3, 3)),
    (backwards, (normal(5) / 3, normal(3) / 3, 3)),
    (twice_in_the_nest, (normal(5) / 3, normal(3) / 3, 3)),
    (read_in_the_nest, (normal(5) / 3, normal(3) / 3, 3)),
    (swapped, (normal(5) / 3, normal(3) / 3, 3)),
    (reads_what_it_overwrites, (normal(5) / 3, normal(3) / 3, 3)),
    (left_by_an_error, (normal(5) / 3, normal(3) / 3, 3)),
    (updated_in_the_nest, (normal(5) / 3, normal(3) / 3, 3)),
    (with_another_variable, (normal(5) / 3, normal(3) / 3, 3)),
    (ever_shorter, (normal(5) / 3, normal(3) / 3, 3)),
]


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("f, args", PROGRAMS)
def test_agrees(f, args, n):
    with uncompiled():
        agrees(f, (*args[:-1], n))


@pytest.mark.parametrize("f", [congruence, by_hand])
def test_compiled(f):
    args = PROGRAMS[0][1]
    agrees(f, args)
    _, (a, b, _) = nb.adjoint(congruence).value_and_grad(*args)
    _, (c, d, _) = nb.adjoint(congruence, checkpoint=2).value_and_grad(*args)
    np.testing.assert_allclose(a, c, rtol=1e-13)
    np.testing.assert_allclose(b, d, rtol=1e-13)


def test_second_derivatives():
    args, directions, h = PROGRAMS[0][1], (normal(4, 4), normal(4, 4), None), 1e-5
    adj = nb.adjoint(congruence)
    up, down = (
        adj.value_and_grad(args[0] + s * directions[0], args[1] + s * directions[1], args[2])[1] for s in (h, -h)
    )
    for found, a, b in zip(adj.hvp(args, directions)[:2], up, down, strict=False):
        np.testing.assert_allclose(found, (a - b) / (2 * h), rtol=1e-6, atol=1e-6 * np.max(np.abs(found)))


@pytest.mark.parametrize("f", [congruence, by_hand])
def test_no_tape_has_an_entry_for_each_term_of_a_product(f):
    size, steps = 10, 3
    args = normal(size, size), normal(size, size), steps
    report = nb.adjoint(f).report(*args)
    tapes = {name: n for name, n in report.items() if not name.startswith("a copy of")}
    assert set(tapes.values()) == {8 * steps * size**2}
    assert len(tapes) == 2
    if f is congruence:
        assert nb.adjoint(f)._generated(args).text.count("add_product(") == 6  # two forward, four in reverse
