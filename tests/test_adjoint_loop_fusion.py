"""Loop fusion in the reverse sweep, and gathering one row behind, change no gradient."""

import numpy as np
import pytest
from loop_programs import agrees, twice, uncompiled

import nbgrad as nb

RNG = np.random.default_rng(23)


def normal(*shape):
    return RNG.normal(size=shape)


def sweep_back(f, *args):
    """The source of the generated reverse sweep."""
    return nb.adjoint(f)._generated(args).text.rpartition("\n\n")[2]


def copied_back(u, c, steps):
    new = np.zeros_like(u)
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                new[i, j] = u[i, j] + c * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] * u[i, j + 1] - 4.0 * u[i, j])
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = new[i, j]


def diffused(u, steps):
    new = np.zeros_like(u)
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                new[i, j] = u[i, j] + 0.1 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = new[i, j]


def whole_arrays(u, c, steps):
    for _ in range(steps):
        u[1:-1] = u[1:-1] + c * (u[2:] - 2.0 * u[1:-1] + u[:-2]) * u[1:-1]
    return u.sum()


def window(u, v, first, last, low, high):
    """Ranges that may be empty, at any position."""
    for i in range(first, last):
        for j in range(low, high):
            v[i, j] += u[i - 1, j] * u[i, j - 1] + u[i + 1, j + 1]


def forward_only(u, v):
    """All neighbours lie ahead, or behind."""
    for i in range(v.shape[0]):
        for j in range(v.shape[1]):
            v[i, j] += u[i + 1, j] * u[i + 2, j + 2] + u[i + 3, j + 1]
    for i in range(3, v.shape[0]):
        for j in range(2, v.shape[1]):
            u[i, j] += np.sin(v[i - 1, j]) * v[i - 3, j - 2] + v[i - 2, j]


def two_arrays(u, v, c, steps):
    a, b = u.copy(), v.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                a[i, j] = u[i, j] + c[i, j] * around * v[i, j] - c[i - 1, j] * v[i + 1, j]
                b[i, j] = v[i, j] + c[i, j + 1] * (v[i, j - 1] - v[i - 1, j]) * u[i, j]
        u, a = a, u
        v, b = b, v
    return np.sum(u * v)


def totals(u, w, s):
    """Reduction variables, and temporary scalars of the same name."""
    for i in range(u.size):
        t = s * u[i]
        w[i] = np.exp(t) + s
    for i in range(u.size):
        t = w[i] * s
        u[i] = t * t - s


def seen_from_afar(u, w):
    """The second reverse loop needs results of later iterations of the first: they are not fused."""
    for i in range(1, u.size):
        w[i] = u[i - 1] * u[i]
    for i in range(1, u.size):
        u[i] = w[i] * w[i - 1]


def from_the_end(u, w):
    for i in range(u.size - 1):
        w[i - 1] = u[i] * u[i]
    for i in range(u.size - 1):
        u[i] = w[i - 1] + w[i]


def temporary(x, y):
    made = np.empty_like(x)
    for _ in range(2):
        for i in range(x.size):
            made[i] = np.sin(x[i]) * y[i]
            y[i] = made[i] * made[i] + x[i]
    return y.sum()


def read_twice(x):
    made = np.zeros_like(x)
    for _ in range(2):
        for i in range(x.size):
            made[i] = np.sin(x[i])
        for i in range(x.size):
            x[i] += made[i] * made[x.size - 1 - i]


def kept_for_later(x):
    made = np.ones_like(x)
    total = 0.0
    for k in range(3):
        total += np.sum(made * x)
        for i in range(1, x.size):
            made[i] = np.sin(x[i] * (k + 1.0))
    return total


def conditional(x, y):
    made = np.zeros_like(x)
    for i in range(x.size):
        if x[i] > 0.0:
            made[i] = x[i] * y[i]
        y[i] = made[i] * x[i]
    return y.sum()


def rotated(a, c, s):
    """Rows and columns that provably differ."""
    for p in range(a.shape[0] - 1):
        for q in range(p + 1, a.shape[0]):
            for k in range(a.shape[0]):
                u = a[k, p] ** 2
                v = a[k, q]
                a[k, p] = c * u - s * v
                a[k, q] = s * u + c * v


def rotated_anywhere(a, rows, c, s):
    """Rows that may coincide, with indices that may be negative."""
    for m in range(rows.shape[0]):
        p = rows[m, 0]
        q = rows[m, 1]
        for k in range(a.shape[1]):
            u = a[p, k] ** 2
            v = a[q, k]
            a[p, k] = c * u - s * v
            a[q, k] = s * u + c * v
    for p in range(a.shape[0]):
        for k in range(a.shape[1]):
            u = a[p, k]
            v = a[-1, k] ** 2
            a[p, k] = c * u - s * v
            a[-1, k] = s * u + c * v * a[p - 1, k]


def mixed(x, y, at):
    """Neighbours and other elements of one array in the same iteration."""
    for i in range(1, x.size):
        u = x[i] * y[i]
        x[i] = u + x[i - 1] * y[i]
        x[i - 1] = u * u + x[at[i]]
        x[at[i]] = x[i] * x[at[i]]


def chain(x, v, k, steps):
    """Neighbours out of range count as zero."""
    f = np.zeros_like(x)
    for _ in range(steps):
        for i in range(x.size):
            left = x[i] - (x[i - 1] if i > 0 else 0.0)
            right = (x[i + 1] if i < x.size - 1 else 0.0) - x[i]
            f[i] = k * (right - left) + right**3 - left**3
        for i in range(x.size):
            v[i] += f[i]
            x[i] += 0.1 * v[i]


def in_column(u, i, j, c):
    """Contributions from the elements above and below, where these are in range."""
    total = -(u[i, j] ** 2)
    if i > 0:
        total += u[i - 1, j] * c
    if i + 1 < u.shape[0]:
        total += u[i + 1, j] * u[i, j]
    return total


def graph_of_squares(u, c, steps):
    """Neighbours in range, in two dimensions."""
    n, m = u.shape
    new = np.zeros_like(u)
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                total = in_column(u, i, j, c)
                if j >= 1:
                    total += u[i, j - 1] ** 2
                if j < m - 1:
                    total += u[i, j + 1] * c
                else:
                    total += u[i, j - 1] * u[i, j]
                new[i, j] = u[i, j] + c * total
        for i in range(n):
            for j in range(m):
                u[i, j] = new[i, j]
    return u.sum()


def graph_in_turns(u, c, steps):
    """The same with two arrays that are swapped; nothing replaces neighbours out of range."""
    n, m = u.shape
    new = np.zeros_like(u)
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                total = in_column(u, i, j, c)
                if not j < 1:
                    total *= u[i, j - 1]
                if j < m - 1:
                    total -= u[i, j + 1] * c
                new[i, j] = u[i, j] + c * total
        u, new = new, u
    return u


def far_ends(x, y, first, last):
    """Some iterations access nothing; an index that is not provably non-negative may count from the end."""
    for i in range(first, last):
        if i >= 2 and i < x.size + 2:
            y[0] += x[i - 2] ** 2
        if 0 <= i + 1 < x.size:
            y[1] += x[i + 1] * x[i + 1]
        if y[2] < 9.0 and i < x.size:
            y[3] += x[i] ** 3


def multiples(u, v, c):
    """Constants at every position in a product, of both signs, and a term that is only added under a condition."""
    for i in range(1, u.size - 1):
        flow = u[i - 1] * 3.0 - 2.0 * (u[i + 1] * 0.5) - -u[i] * 4.0
        v[i] += c * u[i] + flow * v[i] - flow
        if v[i] > 0.0:
            v[i] += 2.0 * u[i]


def weighted(u, v):
    """Neighbours with different weights, and the centre element in two of the sums."""
    for i in range(2, u.size - 2):
        a = u[i - 2] - 4 * u[i - 1] + 6.0 * u[i] - 4.0 * u[i + 1] + u[i + 2]
        b = (u[i + 1] - u[i - 1]) / 2.0 + u[i] * 7.0
        v[i] = a * b + u[i] * v[i]


def held_meanwhile(u, c):
    """The value copied back to an element is not, or not provably, what it was."""
    new = np.zeros_like(u)
    for i in range(u.size):
        new[i] = 2.0 * u[i]
    for i in range(u.size):
        u[i] = new[i] * c
    for i in range(u.size):
        if c > 0.0:
            new[i] = u[i]
        u[i] = new[i]


def put_back_apart(u, v, c, ends):
    """Loops that fuse if overwritten values are restored in a separate loop, whose bounds may depend on scalars."""
    new = np.zeros_like(u)
    for _ in range(2):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                new[i, j] = u[i, j] + c * (u[i - 1, j] * u[i, j] + u[i + 1, j] ** 2 * v[i, j - 1])
        for i in range(1, u.shape[0] - 1):
            last = ends[i]
            v[i, 0] = v[i, 0] * c
            for j in range(1, last):
                u[i, j] = new[i, j] * v[i, 0]
            for j in range(1, u.shape[1] - 1):
                v[i, j] = v[i, j] + u[i, j]
    for i in range(1, u.shape[0] - 1):
        new[i, 0] = new[i, 1] * u[i, 1]
        u[i, 1] = new[i, 0]
    for i in range(1, u.shape[0] - 1):
        u[i - 1, 0] = u[i, 1] ** 2 + u[i, 0]
    return u.sum()


def advected(q, a, steps):
    new = np.zeros_like(q)
    for _ in range(steps):
        for i in range(1, q.size - 1):
            new[i] = q[i] - a * (q[i] ** 2 - q[i - 1] * q[i])
        for i in range(1, q.size - 1):
            q[i] = new[i]


def edges(u):
    """Elements of several rows, with different weights."""
    v = np.zeros_like(u)
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            x = (
                u[i - 1, j + 1]
                + 2 * u[i, j + 1]
                + u[i + 1, j + 1]
                - u[i - 1, j - 1]
                - 2 * u[i, j - 1]
                - u[i + 1, j - 1]
            )
            y = (
                u[i + 1, j - 1]
                + 2 * u[i + 1, j]
                + u[i + 1, j + 1]
                - u[i - 1, j - 1]
                - 3 * u[i - 1, j]
                - u[i - 1, j + 1]
            )
            v[i, j] = np.sqrt(x * x + y * y + 1.0) + u[i + 1, j] * u[i - 1, j]
    return v


SIZES = [(0, 0), (1, 5), (2, 2), (3, 3), (5, 3), (3, 6), (6, 7)]
CASES = [
    *((diffused, (normal(*s), n)) for s in SIZES for n in (0, 2)),
    *((copied_back, (normal(*s), 0.1, n)) for s in SIZES for n in (0, 2)),
    *((whole_arrays, (normal(n), 0.1, 3)) for n in (2, 3, 4, 9)),
    (window, (normal(5, 6), normal(5, 6), 1, 4, 1, 5)),
    (window, (normal(5, 6), normal(5, 6), 2, 2, 1, 5)),
    (window, (normal(5, 6), normal(5, 6), 1, 4, 3, 3)),
    (window, (normal(5, 6), normal(5, 6), 4, 1, 5, 1)),
    (window, (normal(5, 6), normal(5, 6), 0, 4, 0, 5)),
    (window, (normal(0, 0), normal(0, 0), 1, 1, 1, 1)),
    (window, (normal(4, 0), normal(4, 0), 1, 3, 1, 1)),
    *((forward_only, (normal(n + 3, m + 2), normal(n, m))) for n, m in SIZES),
    *((two_arrays, (normal(*s), normal(*s), normal(*s), n)) for s in SIZES[2:] for n in (1, 4)),
    *((totals, (normal(n), normal(n), 0.3)) for n in (0, 1, 5)),
    *((seen_from_afar, (normal(n), normal(n))) for n in (1, 2, 6)),
    *((from_the_end, (normal(n), normal(n))) for n in (1, 2, 6)),
    *((temporary, (normal(n), normal(n))) for n in (0, 5)),
    (temporary, (normal(8)[::-2], normal(4))),
    (read_twice, (normal(5),)),
    (kept_for_later, (normal(5),)),
    (conditional, (normal(7), normal(7))),
    *((rotated, (normal(n, n), 0.8, 0.6)) for n in (0, 1, 2, 5)),
    (rotated_anywhere, (normal(3, 4), np.array([[0, 1], [2, 2], [1, -2], [-1, 0], [0, -3]]), 0.8, 0.6)),
    (rotated_anywhere, (normal(1, 2), np.array([[0, 0], [0, -1]]), 0.8, 0.6)),
    *((chain, (normal(n), normal(n), 0.3, 3)) for n in (0, 1, 2, 3, 9)),
    (chain, (normal(18)[::-2], normal(27)[::3], 0.3, 3)),
    *((graph_of_squares, (normal(*s), 0.1, 2)) for s in [(0, 2), (1, 2), (2, 2), (3, 2), (2, 5), (5, 4)]),
    *((graph_in_turns, (normal(*s), 0.1, 2)) for s in [(0, 0), (0, 2), (1, 1), (3, 1), (1, 2), (2, 2), (5, 4)]),
    *((far_ends, (normal(5), normal(4), *b)) for b in [(0, 5), (-3, 9), (-5, -1), (2, 2), (5, 0), (4, 11)]),
    *(
        (put_back_apart, (normal(*s), normal(*s), 0.3, np.full(s[0], s[1] - 1)))
        for s in [(2, 2), (3, 2), (5, 4), (4, 7)]
    ),
    (put_back_apart, (normal(5, 6), normal(5, 6), 0.3, np.array([0, 1, 4, 2, 9]))),
    *((advected, (normal(n), 0.3, 3)) for n in (0, 1, 2, 3, 8)),
    *((edges, (normal(*s),)) for s in SIZES[2:]),
    (mixed, (normal(6), normal(6), np.array([0, 1, 1, 3, 5, 0]))),
    *((multiples, (normal(n), normal(n), 0.3)) for n in (0, 2, 3, 4, 12)),
    *((weighted, (normal(n), normal(n))) for n in (0, 4, 5, 12)),
    *((held_meanwhile, (normal(5), c)) for c in (0.4, -0.4)),
]


@pytest.mark.parametrize("f, args", CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_gradients(f, args):
    with uncompiled():
        agrees(f, args)


@pytest.mark.parametrize(
    "f, args",
    [
        (chain, (normal(4), normal(4), 0.3, 2)),
        (graph_of_squares, (normal(3, 4), 0.1, 2)),
        CASES[11],
        CASES[25],
        (whole_arrays, (normal(7), 0.1, 2)),
        (two_arrays, (*normal(3, 5, 4), 2)),
    ],
)
def test_second_order(f, args):
    with uncompiled(shuffle=False):
        twice(f, args)


def test_compiled():
    agrees(diffused, (normal(7, 8), 3))
    agrees(two_arrays, (normal(6, 7), normal(6, 7), normal(6, 7), 3))
    agrees(window, (normal(5, 6), normal(5, 6), 1, 4, 3, 3))
    agrees(chain, (normal(40), normal(40), 0.3, 3))
    agrees(graph_in_turns, (normal(9, 21), 0.1, 2))
    agrees(multiples, (normal(20), normal(20), 0.3))
    agrees(weighted, (normal(20), normal(20)))


def test_float32():
    u = normal(7, 8).astype(np.float32)
    gradient, *_ = nb.adjoint(copied_back).vjp(u.copy(), 0.1, 3)((np.ones_like(u),))
    expected, *_ = nb.adjoint(copied_back).vjp(u.astype(float), 0.1, 3)((np.ones((7, 8)),))
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, expected, rtol=1e-5)


def test_which_loops_become_one():
    back = sweep_back(diffused, normal(5, 5), 2)
    assert back.count(" for i in range(1, u.shape[0] - 1):\n") == 2  # a comment, and the loop
    assert "u_bar[i - 1, j] +=" in back
    assert "new_bar_here = g" in back and "new_bar[i, j]" not in back
    assert sweep_back(copied_back, normal(5, 5), 0.1, 2).count("    for i in range(1, u.shape[0] - 1):\n") == 2
    assert sweep_back(totals, normal(3), normal(3), 0.3).count("    for i in range(u.size):\n") == 1
    assert "made_bar_here" in sweep_back(temporary, normal(3), normal(3))


@pytest.mark.parametrize("f", [seen_from_afar, from_the_end])
def test_which_do_not(f):
    back = [line for line in sweep_back(f, normal(3), normal(3)).splitlines() if not line.strip().startswith("#")]
    assert sum("w_bar[i" in line for line in back) > 0
    assert len([line for line in back if line.lstrip().startswith("for i in")]) >= 2


@pytest.mark.parametrize("f", [read_twice, kept_for_later, conditional])
def test_elements_that_are_not_only_handed_over_stay(f):
    args = (normal(4), normal(4))[: f.__code__.co_argcount]
    assert "made_bar_here" not in sweep_back(f, *args)


def test_elements_that_are_set_once():
    back = sweep_back(rotated, normal(3, 3), 0.8, 0.6)
    assert (
        "a_bar[k, q] = v_bar" in back and "= 0.0\n                a_bar" not in back and "a_bar[k, p] = 0.0" not in back
    )
    assert "a_bar[p, k] = 0.0" in sweep_back(rotated_anywhere, normal(3, 3), np.array([[0, 1]]), 0.8, 0.6)


def test_neighbours_that_may_not_be_there_are_gathered():
    assert "range(min(x.size + 1, x_bar.shape[0])):" in sweep_back(chain, normal(5), normal(5), 0.3, 2)
    back = sweep_back(graph_in_turns, normal(5, 4), 0.1, 2)
    assert "u1_bar_row4" in back and back.count("_tape[") == 1
    assert "_row" not in sweep_back(graph_of_squares, normal(5, 4), 0.1, 2)  # j - 1 may be -1


def test_multiples_of_what_neighbours_get_are_gathered_with_it():
    back = sweep_back(weighted, normal(20), normal(20))
    assert back.count("_row3[i + 2] = a_bar") == 1
    assert "+ u_bar_row3[i + 4] + u_bar_row3[i] + 6.0 * u_bar_row3[i + 2]" in back
    assert "u_bar[i] += 4.0 * u_bar_row[" in sweep_back(multiples, normal(20), normal(20), 0.3)


def test_elements_that_get_back_what_they_were_are_not_written():
    back = sweep_back(diffused, normal(5, 5), 2)
    assert "g = u_bar[i, j]" in back and "u_bar[i, j] = 0.0" not in back


def test_cotangents_that_stay_zero_are_not_made():
    def made(f, *args):
        return "_bar = np.zeros_like(" in nb.adjoint(f)._generated(args).text

    assert not made(diffused, normal(5, 5), 2)
    assert not made(temporary, normal(3), normal(3))
    assert all(made(f, normal(3)) for f in (read_twice, kept_for_later))
    assert made(conditional, normal(3), normal(3)) and made(held_meanwhile, normal(3), 0.4)


def test_what_is_put_back_has_a_loop_of_its_own_if_others_become_one_then():
    back = sweep_back(advected, normal(5), 0.3, 2)
    assert "            q[i] = q_tape[_, i - 1]\n        for i in range(1, q.size - 1):\n" in back
    assert "new_bar[" not in back


def test_elements_of_several_rows_are_gathered():
    back = nb.adjoint(edges)._generated((normal(5, 6),)).text
    assert "u_bar[i + 1, j] += u_bar_row" in back and "u_bar[i - 1, j] += u_bar_row" in back
