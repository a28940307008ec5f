"""Values are stored once, or not at all where others determine them: the same gradients from a smaller tape."""

import math

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from numba.core.runtime import _nrt_python, rtsys
from programs import PROGRAMS

import nbgrad as nb
from nbgrad.loops.ir.passes import Pass, without

RNG = np.random.default_rng(23)


def normal(*shape):
    return RNG.normal(size=shape)


def stored(f, *args):
    """The names of the tapes, without their loops."""
    return {name.partition(" over ")[0] for name in nb.adjoint(f).report(*args)}


def twice(x, a):
    """A scalar name is used for two values, in nested loops."""
    total = 0.0
    for i in range(a.shape[0]):
        for k in range(x.size):
            u = x[k] * a[i, k]
            x[k] = math.sin(u) * u
        u = x[0] * x[-1]
        total += u * u
        x[0] = u
    return total


def other_ends(n, x):
    """A parameter and a result are reassigned in the loop."""
    x = x * 1.5
    y = x
    for i in range(n.size):
        y = x * n[i]
        n[i] = y * y
        y = n[i] * x
        x = math.sin(y)
    if x > 0.0:
        y = n[0] * x
    return y, x


def sometimes(x, n):
    """A scalar with several reaching definitions: before the loop, in the previous iteration, in a branch."""
    u, total = 0.3, 0.0
    for i in range(n):
        if x[i] > 0.0:
            u = x[i] * u
        total += u * u
        for u in x:
            total *= 1.0 + 0.1 * math.sin(u)
        u = x[i] * 0.5
    for i in range(n):
        u = x[i]
        x[i] = u * u * total
    return total * u


def rotated(a, angles):
    """Scalars hold the overwritten elements, and their old values are read later."""
    n = a.shape[0]
    total = 0.0
    for i in range(n - 1):
        for k in range(a.shape[1]):
            total += a[i, k] ** 3
            u, v = a[i, k], a[i + 1, k]
            if u > v:
                a[i, k] = math.sin(angles[i]) * u * v
            a[i + 1, k] = v * v - u * angles[i]
    return total


def rotated_twice(a, angles):
    b = a.copy()
    first = rotated(b, angles)
    second = rotated(b, angles)
    return first * second


def held_no_more(a, x):
    """The scalar does not hold the overwritten value: the element, or the index, has changed since."""
    for _ in range(2):
        for i in range(1, a.size):
            u = a[i]
            a[i] = u * u * x
            a[i] = math.sin(a[i]) * u
            k = i // 2
            v = a[k]
            a[i - 1] = v * a[i - 1]
            a[k] = v * v
            w = a[k]
            k += 1
            a[k] = w * w * a[k]
            if w > 0:
                a[k] = w * a[k]
            a[k] = math.exp(-w * w) * a[k]
    return a.sum()


def pivots(a, n):
    """Derivatives read few elements of an array that is overwritten at many."""
    total = 0.0
    for k in range(n):
        t = math.sin(a[k, 0] / (2.0 + a[0, k] ** 2))
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                a[i, j] += 0.1 * t
        total += t
    return total


def guarded_pivots(a, n):
    """The same, where a test guards the read."""
    total = 0.0
    for k in range(n + 3):
        t = math.sin(a[k % 4, 0] * a[k % 4, 0] if k < a.shape[0] else 0.2)
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                a[i, j] += 0.1 * t
        total += t
    return total


def counted(x, y):
    """Counters that are incremented, decremented, reset, and assigned otherwise."""
    k, m, total = 0, 5, 0.0
    for i in range(x.size):
        k += 1
        total += x[k % 3] * y[m - 1] * total + y[k % 4]
        if x[i] > 0.0:
            m -= 1
            total += math.sin(y[m])
        elif k > 3:
            k = 0
        while k > 1 and x[k % 5] * total > 0.1:
            k -= 2
            total = total * x[k % 3] - y[m - 1]
        m = max(m, 2)
        k = 3 + k
    return total * y[k % 5] * y[m % 2]


def stepping(x, n):
    """Counters that continue from iteration to iteration."""
    k, m, total = 0, 5, 0.0
    for t in range(n):
        k += 1
        for _ in range(2):
            total = total * math.sin(x[k % 3]) + x[m % x.size] * x[k % 5]
            m += 2
        if x[t % 4] > 0.0:
            k += 1
    return total


def rows(a, x, skip):
    """Inner trip counts depend on outer loop variables, and on a test."""
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(i, a.shape[1], 2):
            for k in range(j, -1, -1):
                x[k] = math.sin(a[i, j] * x[k])
        if i % skip == 0:
            for j in range(a.shape[1] - i):
                for k in range(j):
                    x[k] = x[k] * x[j] * 1.3
        total = total * x[i % x.size] + x[0]
    return total


def rows_in_pieces(x, bounds):
    """Trip counts depend on elements that are overwritten."""
    total = 0.0
    for i in range(bounds.size - 1):
        for j in range(bounds[i], bounds[i + 1]):
            x[j] = math.sin(x[j]) * x[j]
            total += x[j] * total
        bounds[i + 1] = min(bounds[i + 1], x.size - 1)
    return total


EMPTY = np.zeros((0, 0))


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (twice, (normal(4), normal(3, 4))),
        (twice, (normal(1), normal(2, 1))),
        (other_ends, (normal(3), 0.4)),
        (other_ends, (normal(3), -0.4)),
        (sometimes, (normal(3), 3)),
        (sometimes, (normal(3), 0)),
        (rotated, (normal(4, 3), normal(4))),
        (rotated, (normal(4, 6)[:, ::-2], normal(4))),
        (rotated, (EMPTY[:0, :0], normal(0))),
        (held_no_more, (normal(6), 0.7)),
        (held_no_more, (normal(2), 0.7)),
        (held_no_more, (normal(1), 0.7)),
        (pivots, (normal(4, 5), 4)),
        (pivots, (normal(8, 4)[::-2], 2)),
        (guarded_pivots, (normal(4, 4), 3)),
        (counted, (normal(7), normal(5))),
        (counted, (np.abs(normal(7)), normal(5))),
        (counted, (normal(5), normal(5))),
        (rows, (normal(4, 5), normal(6), 2)),
        (rows, (normal(3, 2), normal(3), 1)),
        (rows, (normal(1, 1), normal(1), 1)),
        (rows_in_pieces, (normal(9), np.array([0, 3, 3, 9]))),
    ],
)
def test_agrees(f, args):
    with uncompiled():
        agrees(f, args)


def test_compiled():
    agrees(counted, (normal(7), normal(5)))
    agrees(rows, (normal(4, 5), normal(6), 2))
    agrees(held_no_more, (normal(6), 0.7))


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_places_with_checkpoints(trips):
    x = normal(6)
    with uncompiled():
        value, (x_bar, _) = nb.adjoint(stepping).value_and_grad(x, trips)
        found, (found_bar, _) = nb.adjoint(stepping, checkpoint=2).value_and_grad(x, trips)
        agrees(stepping, (x, trips))
    assert value == found
    np.testing.assert_array_equal(x_bar, found_bar)


def test_second_derivatives():
    """Second derivatives through stacks, counters and elements held in scalars."""
    args, h = (normal(4, 3), normal(4)), 1e-6
    directions = normal(4, 3), normal(4)

    with uncompiled():
        adj = nb.adjoint(rotated_twice)
        up, down = (
            adj.value_and_grad(*(a + step * d for a, d in zip(args, directions, strict=True)))[1] for step in (h, -h)
        )
        for found, a, b in zip(adj.hvp(args, directions), up, down, strict=True):
            np.testing.assert_allclose(found, (a - b) / (2 * h), rtol=1e-5, atol=1e-5)


def in_use():
    """The number of allocations that Numba's runtime has not freed."""
    now = rtsys.get_allocation_stats()
    return now.alloc - now.free


def test_tapes_that_grew_are_freed():
    _nrt_python.memsys_enable_stats()
    gaps, services = np.abs(normal(2000)), np.abs(normal(2000))
    adj = nb.adjoint(PROGRAMS["queue"][0])
    adj.value_and_grad(gaps, services)
    before = in_use()
    for _ in range(3):
        adj.value_and_grad(gaps, services)
        adj.value_and_grad(gaps[:1], services)
    assert in_use() == before


def test_what_is_stored():
    assert "a_tape" not in stored(rotated, normal(4, 3), normal(4))
    assert not {"r_tape", "y_tape"} & stored(PROGRAMS["givens"][0], *PROGRAMS["givens"][1])
    assert not any(name.startswith("a_tape") for name in stored(pivots, normal(4, 5), 4))
    assert not stored(PROGRAMS["queue"][0], *PROGRAMS["queue"][1]) - {"branch1_tape"}
    assert "m_tape" not in stored(PROGRAMS["isotonic"][0], *PROGRAMS["isotonic"][1])


def test_turns_are_counted_before():
    args = normal(4, 5), normal(6), 2
    text = nb.adjoint(rows)._generated(args).text
    assert text.count("_tape_size += ") == 1  # the loops below a branch may not run
    found = nb.adjoint(rows).report(*args)
    assert found["x_tape over i, j, k"] == 8 * (1 + 3 + 5 + 2 + 4 + 3 + 5 + 4)


def defined_where(x, y):
    for i in range(x.size):
        y[i] = math.log(x[i]) if x[i] > 0.0 else 0.0
        v = x[i] ** 1.3 if x[i] > 0.0 and y[i] < 9.0 else x[i]
        y[i] += v * v


def test_calls_in_branches_stay_there():
    """A call that does not happen contributes zero, even where its derivative would be infinite."""
    x = np.array([0.0, 1.0, 2.0])
    found = nb.adjoint(defined_where).vjp(x, np.zeros(3))(np.ones(3))[0]
    np.testing.assert_allclose(found, [0.0, 1.0 + 2.6, 0.5 + 2.6 * 2.0**1.6], rtol=1e-12)


def put_back(x, u):
    """The last loop may not be reversed iteration by iteration: the earlier value of `s` belongs to all of them."""
    s, p = 0.5, 0.0
    for i in range(3):
        p += math.exp(-((s * x[i]) ** 2))
    total = 0.0
    for i in range(x.size):
        t = x[i] * 2.0
        for j in range(u.shape[1]):
            s += 0.1 * math.sin(u[i, j])
        total += t * t
    return total, p * s


def test_numbers_of_all_turns_are_not_put_back_in_each():
    with uncompiled():
        agrees(put_back, (normal(4), normal(4, 3)))


def beyond(x, y, far):
    """Elements that are in range only if a test holds."""
    total = 0.0
    for i in range(x.size):
        y[i] = x[i + 1] * x[i] if i + 1 < x.size else x[i]
        total += (x[far] * y[i] if far < x.size else y[i]) + (x[i + 2] ** 2 if i + 2 < x.size and y[i] < 9.0 else 0.0)
        total *= 1.0 if i == 0 else (x[far - 1] if far <= x.size else (0.5 if i < 3 else x[i - 3]))
    return total - (x[far] if far < x.size else 0.0)


@pytest.mark.parametrize("far", [2, 5, 6, 10**9])
@pytest.mark.parametrize("size", [0, 1, 6])
def test_elements_that_are_not_there(far, size):
    if far < size or far == 10**9:
        agrees(beyond, (normal(size), normal(size), far))  # compiled: elements out of range are not touched
    with uncompiled():
        agrees(beyond, (normal(size), normal(size), far))


def upwind(u, w, n):
    """Elements that are provably in range, by array sizes and loop bounds."""
    m = u.shape[0]
    flux = np.empty(m + 1)
    for _ in range(n):
        for i in range(1, m - 1):
            flux[i] = (u[i] - u[i - 1] if w[i] > 0.0 else u[i + 1] - u[i]) * (w[i] if w[i] > 0.0 else -w[i])
        for i in range(1, m - 1):
            u[i] -= 0.1 * flux[i] + (0.01 * flux[i + 1] if i < 3 else 0.0)


def test_elements_that_surely_are_there_need_no_test():
    args = normal(7), normal(7), 3
    with uncompiled():
        agrees(upwind, args)
    assert "    if w[i]" not in nb.adjoint(upwind)._generated(args).text


def rotations(x, n):
    """Each element is overwritten several times, and read in between."""
    for _ in range(n):
        x[0] = x[0] * x[1] / (1.0 + x[2] * x[2])
        x[1] = x[1] / (1.0 + x[0] * x[0]) - x[2] * x[3]
        x[2] = x[2] * x[1] / (1.0 + x[3] * x[3])
        x[3] = x[3] / (1.0 + x[0] * x[0])
        x[0] = x[0] * x[1] + 0.3 / (1.0 + x[2] * x[2])
        x[1] = x[1] / (1.0 + x[3] * x[3] * x[1] * x[1])
        x[2] = x[2] * x[3] + 0.5 / (1.0 + x[1] * x[1])
        x[3] = x[3] * x[0] - 0.2 / (1.0 + x[2] * x[2])
        x[1] = x[1] * x[3] + x[0] * x[2]
    return x[0] + x[3] + x[1] * x[2]


def independent(x, v, w, n):
    """What the inner loop stores would be vectorized."""
    for _ in range(n):
        for i in range(x.size):
            x[i] = x[i] * v[i] + w[i]
            v[i] = v[i] * w[i] * x[i]
            w[i] = w[i] / (1.0 + w[i] * v[i] * v[i])
            x[i] = x[i] * x[i] * v[i] + x[i] * w[i]
            v[i] = v[i] / (2.0 + x[i] * x[i] * w[i])
            w[i] = w[i] * w[i] * x[i]
            x[i] = x[i] / (1.0 + w[i] * w[i])
            v[i] = v[i] * v[i] + x[i] * w[i]
    return np.sum(x * v * w)


def test_many_tapes_of_a_loop_share_an_array():
    x = np.array([0.7, 1.3, 0.9, 1.1])
    with uncompiled():
        agrees(rotations, (x, 5))
        with without(Pass.SHARED_TAPES):
            agrees(rotations, (x, 5))
        adj, apart = nb.adjoint(rotations), nb.adjoint(rotations)
        with without(Pass.SHARED_TAPES):
            sizes = apart.report(x, 5)
        assert adj.report(x, 5) == sizes
        tapes = [size for name, size in sizes.items() if name.endswith("over _")]
        assert set(tapes) == {40} and len(tapes) >= 8
        np.testing.assert_array_equal(*(a.value_and_grad(x.copy(), 5)[1][0] for a in (adj, apart)))
    assert adj.source.count("np.empty") == 1 and "tapes[_, " in adj.source
    assert apart.source.count("np.empty") == len(tapes)
    assert f"tapes[..., {len(tapes) - 1}]" in str(adj.explain(x, 5))


def test_tapes_of_independent_iterations_stay_apart():
    args = *(np.array([0.7, 1.3, 0.9]) + 0.1 * k for k in range(3)), 4
    with uncompiled():
        agrees(independent, args)
        adj = nb.adjoint(independent)
        assert sum(name.endswith("over _, i") for name in adj.report(*args)) >= 8
    assert "tapes" not in adj.source


def test_elements_are_loaded_once():
    def f(x, m, k):
        for t in range(m.size):
            x[0] = x[0] / x[1]
            x[2] = x[2] / x[1] + x[k] / x[1]
            x[1] = x[0] * x[k]
            x[k] = x[k] * x[k] * m[t]
            k = (k + 1) % 3
            x[k] = x[k] * x[0]
        return x[0] + x[1] * x[2]

    for k in range(3):
        args = np.array([0.7, 1.3, 0.9]), np.array([0.8, 1.2, 1.1, 0.9]), k
        with uncompiled():
            agrees(f, args)
