"""Adjoints recompute what is cheap and store the rest (TBR analysis): which values, and on which tapes."""

import math

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.demo import loops

RNG = np.random.default_rng(17)


def normal(*shape):
    return RNG.normal(size=shape)


def positive(*shape):
    return 0.5 + RNG.random(shape)


def sweep_back(f, *args):
    """The source of the generated reverse sweep, without comments."""
    back = nb.adjoint(f)._generated(args).text.rpartition("\n\n")[2]
    return "\n".join(line for line in back.splitlines() if not line.strip().startswith("#"))


def cell(x, h, w):
    for t in range(x.shape[0]):
        for k in range(h.size):
            gate = 1.0 / (1.0 + math.exp(-x[t, k]))
            h[k] = gate * h[k] + (1.0 - gate) * np.tanh(w[k] * h[k])


def powers(x, p):
    total = 1.0
    for v in x:
        total = total * np.log(v) ** p + abs(v) ** 1.5 + np.sqrt(v) - v**3 * math.erf(v)
    return total


def chosen(x, y):
    """Only what the function evaluates is evaluated: the logarithm of a negative number is an error."""
    for i in range(x.size):
        y[i] = y[i] * (math.log(x[i]) if x[i] > 0.0 else 1.0) + math.exp(x[i]) * (x[i] > 5.0 or math.exp(y[i]) > 1.0)


@pytest.mark.parametrize(
    "f, args",
    [
        (cell, (normal(3, 4), normal(4), normal(4))),
        (cell, (normal(0, 4), normal(4), normal(4))),
        (cell, (normal(3, 1), normal(1), normal(1))),
        (cell, (normal(4, 6)[::-1, ::2], normal(6)[::-2], normal(3))),
        (powers, (1.5 + positive(5), 1.5)),
        (powers, (np.zeros(0), 1.5)),
        (powers, (1.5 + positive(1), 2.0)),
        (chosen, (normal(6), normal(6))),
    ],
)
def test_calls_that_cost_more_than_storing(f, args):
    with uncompiled():
        agrees(f, args)


def test_calls_are_made_once():
    rnn, values = (normal(3, 4), normal(4), normal(4)), (1.5 + positive(5), 1.5)
    assert "exp(" not in sweep_back(cell, *rnn) and "tanh(" not in sweep_back(cell, *rnn)
    back = sweep_back(powers, *values)
    assert back.count("log(") == 1 and back.count("exp(") == 1 and "erf(" not in back  # those of p_bar and of erf'
    assert "1.5 * math.sqrt(" in back
    tapes = dict.fromkeys(("exp1_tape over t, k", "tanh1_tape over t, k", "h_tape over t, k"), 96)
    assert nb.adjoint(cell).report(*rnn) == tapes | {"a copy of h": 32}
    dtw, args = loops.soft_dtw, (normal(3), normal(4), 0.7)
    assert nb.adjoint(dtw).report(*args) == dict.fromkeys(
        [f"{n}_tape over i, j" for n in ("exp1", "exp2", "exp3", "log1")], 96
    )


def searched(x, v):
    """The search may have no iterations: then `place` is from the previous iteration."""
    place, steps, last = 0, 0, 1.0
    total = 0.5
    for k in range(v.size):
        for i in range(place, x.size - 1):
            if x[i + 1] > v[k]:
                break
            place = i
            steps += 1
            last = v[k] * x[i]
        total = math.sin(total * v[k] * x[place]) + math.cos(last * steps * total)
        while steps > 3 and place > 0:
            steps -= 2
            place -= 1
        x[place] += 0.1 * total * total
    return total


def largest(x, n):
    scale = 1.0
    for _ in range(n):
        at = 0
        for i in range(x.size):
            if abs(x[i]) > abs(x[at]):
                at = i
        scale = x[at] * scale
        for i in range(x.size):
            x[i] /= scale
    return scale


@pytest.mark.parametrize(
    "f, args",
    [
        (searched, (np.sort(normal(8)), normal(9))),
        (searched, (np.sort(normal(8)), np.zeros(0))),
        (searched, (normal(1), normal(2))),
        (searched, (np.sort(normal(12))[::-2], normal(5))),
        (largest, (normal(5), 3)),
        (largest, (normal(1), 2)),
        (largest, (normal(4), 0)),
    ],
)
def test_numbers_that_a_loop_changes_are_saved_before_it(f, args):
    with uncompiled():
        agrees(f, args)
        if args[-1] is not args[0] and np.size(args[-1]):
            pull = nb.adjoint(f, checkpoint=2).vjp(*(np.copy(a) if np.ndim(a) else a for a in args))
            plain = nb.adjoint(f).vjp(*(np.copy(a) if np.ndim(a) else a for a in args))
            bars = (0.7, np.ones(args[0].shape))
            for a, b in zip(pull(bars), plain(bars), strict=True):
                np.testing.assert_array_equal(a, b)


def test_searches_are_not_gone_through_backwards():
    back = sweep_back(searched, np.sort(normal(8)), normal(9))
    assert back.count("for ") == 1 and "_top]" not in back
    assert sweep_back(largest, normal(5), 3).count("for ") == 2


def relaxed(u, f, rate, tol, limit):
    """The number of sweeps is unknown; those of rows and columns are known."""
    n, m = u.shape
    count, change = 0, 1.0
    while change > tol and count < limit:
        change = 0.0
        for i in range(n - 2, 0, -1):
            for j in range(1, m - 1, 2):
                new = math.sin(u[i - 1, j] * u[i + 1, j]) + u[i, j - 1] * u[i, j + 1] - f[i, j]
                change += (new - u[i, j]) ** 2
                if new > -2.0:
                    u[i, j] = (1.0 - rate) * u[i, j] + rate * math.sin(new) * math.cos(u[i, j])
        for k in range(count, m):  # fewer in each sweep
            f[0, k] = f[0, k] * math.cos(u[1, k] * f[0, k])
        count += 1
    return change, count


@pytest.mark.parametrize(
    "args",
    [
        (normal(4, 5), normal(4, 5), 0.3, -1.0, 4),
        (normal(3, 3), normal(3, 3), 0.3, 1e-2, 9),
        (normal(5, 7)[:, ::-1], normal(5, 7), 0.3, -1.0, 1),
        (normal(4, 5), normal(4, 5), 0.3, -1.0, 0),
        (normal(2, 4), normal(2, 4), 0.3, -1.0, 3),
        (normal(3, 2), normal(3, 2), 0.3, -1.0, 5),
    ],
)
def test_stacks_grow_by_rows(args):
    with uncompiled():
        agrees(relaxed, args)


def test_stacks_grow_by_rows_compiled():
    u, f = normal(12, 40), normal(12, 40)
    adj = agrees(relaxed, (u, f, 0.1, -1.0, 12))
    found = adj.report(u, f, 0.3, -1.0, 3)
    assert found["u_tape over while, i, j"] == found["sin2_tape over while, i, j"] == 8 * 1024 > 8 * 3 * 10 * 19
    assert found["f_tape over while, k"] == 8 * 512 > 8 * (40 + 39 + 38)
    assert sweep_back(relaxed, u, f, 0.3, -1.0, 3).count("_tape_top -= ") == 2  # once for three tapes, once for two


def with_bounds_set_in_turns(x, places, n):
    total, last = 0.1, 7
    for t in range(n):
        first = places[t % places.size]
        for i in range(1 if first > 1 else 0, x.size):
            for j in range(i if first else 0, min(first + 3, x.size)):
                x[j] = np.sin(x[i] * x[j])
                total += x[j] * total
        total += last * 0.1  # of the previous iteration
        last = places[(t + 1) % places.size]
        for i in range(x.size - 1 if t % 2 else last, -1 if t % 2 else x.size, -1 if t % 2 else 1):
            x[i] = np.sin(x[i]) * total
    return total * last


def test_bounds_that_turns_set_are_counted_before():
    x, places = np.array([0.3, 0.5, 0.7, 0.2]), np.array([0, 1, 3])
    with uncompiled():
        for n in (5, 1, 0):
            agrees(with_bounds_set_in_turns, (x, places, n))
    adj = nb.adjoint(with_bounds_set_in_turns)
    report = adj.report(x, places, 5)
    bounds = [(1 if f > 1 else 0, f) for f in (0, 1, 3, 0, 1)]
    turns = sum(max(min(f + 3, 4) - (i if f else 0), 0) for first, f in bounds for i in range(first, 4))
    assert report["x_tape over t, i, j"] == 8 * turns
    later = report["x_tape2 over t, i"]
    assert later in (8 * 512, 8 * sum(4 if t % 2 else 4 - (0, 1, 3)[(t + 1) % 3] for t in range(5)))


def guarded(x, a):
    """Tests decide whether elements are read before or after they are overwritten."""
    y = np.zeros(x.size)
    for n in range(x.size):
        for k in range(a.size):
            if n < k:
                continue
            y[n] += a[k] * x[n - k]
        for k in range(1, a.size):
            if not (n < k or k >= x.size) and n != 9:
                y[n] -= a[k] * y[n - k]
        y[n] /= 2.0 + a[0]
    return y


def wrapped(x, a):
    """The element before the first one is the last one."""
    y = np.ones(x.size)
    for n in range(x.size):
        for k in range(1, a.size):
            if n >= k - 1:
                y[n] -= a[k] * y[n - k] * x[n]
    return y


def ahead(x, a):
    """Elements are overwritten before or after the read; the tests do not tell which, or mislead."""
    for n in range(x.size):
        for k in range(a.size):
            if n + k < x.size:
                x[n] += a[k] * x[n + k] * x[n]
            elif n > k:
                x[n - k] *= a[k] * x[n]
            elif a[k] < n:
                x[k % x.size] *= a[k]


def split(x, half):
    for n in range(x.size):
        if n < half:
            x[n] = x[n] * x[n + half]
        else:
            x[n] = x[n] * x[n - half] * 0.5


@pytest.mark.parametrize("f", [guarded, wrapped, ahead])
@pytest.mark.parametrize("sizes", [(7, 3), (3, 5), (1, 1), (0, 2), (4, 4)])
def test_tests_tell_elements_apart(f, sizes):
    with uncompiled():
        agrees(f, (0.6 * normal(sizes[0]), 0.6 * normal(sizes[1])))
        if f is guarded:
            assert nb.adjoint(f).report(normal(sizes[0]), normal(sizes[1])) == {}


def test_tests_with_numbers_from_outside():
    with uncompiled():
        agrees(split, (normal(6), 3))
        assert nb.adjoint(wrapped).report(normal(5), normal(3)).keys() == {"y_tape over n, k", "a copy of y"}


def known(x, rate, steps):
    """The next two functions, with all trip counts known."""
    total = 0.0
    for k in range(x.size):
        for _ in range(steps):
            x[k] = x[k] - rate * math.sin(x[k])
            total = 0.99 * total + x[k] * total * rate + x[k]
    return total


def by_turn(x, rate, steps):
    total, t = 0.0, 0
    while t < steps * x.size:
        k = t // steps
        x[k] = x[k] - rate * math.sin(x[k])
        total = 0.99 * total + x[k] * total * rate + x[k]
        t += 1
    return total


def stacked(x, rate, steps):
    total = 0.0
    for k in range(x.size):
        for t in range(10 * steps):
            if t >= steps:
                break
            x[k] = x[k] - rate * math.sin(x[k])
            total = 0.99 * total + x[k] * total * rate + x[k]
    return total


@pytest.mark.parametrize(("f", "turns"), [(by_turn, 2100), (stacked, 2103)])  # iterations, including those that break
def test_tapes_grow(f, turns):
    x = normal(3)
    expected, (x_bar, rate_bar, _) = nb.adjoint(known).value_and_grad(x.copy(), 0.01, 700)
    value, found = nb.adjoint(f).value_and_grad(x.copy(), 0.01, 700)
    assert value == expected
    np.testing.assert_allclose(found[0], x_bar, rtol=1e-13)
    np.testing.assert_allclose(found[1], rate_bar, rtol=1e-13)
    assert 512 < turns <= 4096  # the capacity doubles each time
    assert set(nb.adjoint(f).report(x, 0.01, 700).values()) >= {8 * 4096}


def roots(x, y, p):
    for i in range(x.size):
        y[i] = x[i] ** 1.7 + x[i] ** p


def small_roots(x, y):
    for i in range(x.size):
        y[i] = x[i] ** 0.7


def test_powers_that_are_too_small_or_too_large_for_a_quotient():
    x = np.array([1e-320, 1e-200, 0.0, 0.3, 2.0, 1e150, 1e179])
    p = 1.7
    expected = 1.7 * x ** (1.7 - 1) + p * x ** (p - 1)
    (found, _, _) = nb.adjoint(roots).vjp(x, np.zeros(x.size), p)(np.ones(x.size))
    np.testing.assert_allclose(found, expected, rtol=1e-15 * 460)  # rounding of 1.7 - 1, times the exponent of 1e-320
    assert nb.tangent(roots).jvp((x, np.zeros(x.size), p), (np.ones(x.size), None, None))[1] == pytest.approx(expected)
    text = nb.adjoint(roots)._generated((x, x.copy(), p)).text
    assert "power1 / x[i] if " in text
    with uncompiled():
        agrees(roots, (positive(4), normal(4), 0.3))
        adj = agrees(small_roots, (positive(4), normal(4)))
        assert np.all(np.isfinite(nb.adjoint(small_roots).vjp(np.zeros(3), np.zeros(3))(np.zeros(3))[0]))
    assert "y[i] / x[i] if 1e-290 < y[i] and y[i] < 1e+290 else (x[i] if x[i] != 0" in adj.source


def conducting(u, alpha, steps):
    new = u.copy()
    for _ in range(steps):
        for i in range(1, u.size - 1):
            around = u[i + 1] + u[i - 1]
            new[i] = u[i] + alpha[i] * (around - 2.0 * u[i])
        u, new = new, u
    return np.sum(u**2)


def two_sums(u, alpha, beta, steps):
    new = u.copy()
    for _ in range(steps):
        for i in range(1, u.size - 1):
            new[i] = u[i] + alpha[i] * (u[i + 1] - u[i]) + (u[i] - u[i - 1]) * beta
        u, new = new, u
    return np.sum(u**2)


def multiplied(u, steps):
    """Both factors are overwritten, so elements are stored."""
    for _ in range(steps):
        for i in range(u.size - 1, 0, -1):
            u[i] = 0.9 * u[i] + u[i] * (u[i] - u[i - 1])


@pytest.mark.parametrize(
    "f, args, stored",
    [
        (conducting, (normal(6), normal(6), 3), {"sum1_tape over _, i": 96}),
        (two_sums, (normal(6), normal(6), 0.3, 3), {"new_tape over _, i": 96}),
        (multiplied, (normal(5), 3), {"u_tape over _, i": 96}),
    ],
)
def test_the_value_of_a_sum_is_stored_instead_of_its_elements(f, args, stored):
    with uncompiled():
        agrees(f, args)
        report = nb.adjoint(f).report(*args)
        assert {k: n for k, n in report.items() if not k.startswith("a copy of")} == stored


def limited(q, c, steps):
    """Advection with a limiter: the branch that is taken decides the value, and which operands it depends on."""
    slope = np.zeros(q.size)
    for _ in range(steps):
        old = q.copy()
        for i in range(1, q.size - 1):
            a, b = old[i] - old[i - 1], old[i + 1] - old[i]
            if a * b <= 0.0:
                slope[i] = 0.0
            elif abs(a) < abs(b):
                slope[i] = a
            else:
                slope[i] = b
        for i in range(2, q.size - 1):
            speed = c
            if old[i] < 0.0:
                speed = c * old[i]
            if speed > 0.0:
                left, right = old[i - 1] + slope[i - 1] ** 3, old[i] + slope[i] ** 3
            else:
                right = old[i - 1] - slope[i - 1] ** 3
                left = old[i] - slope[i] * slope[i]
            q[i] = old[i] - speed * (right - left)


def test_branches_that_choose_numbers_store_nothing_for_them():
    for size in (1, 2, 3, 20):
        agrees(limited, (normal(size), 0.3, 3))
    stored = {name.split("_")[0] for name in nb.adjoint(limited).report(normal(20), 0.3, 3)}
    assert stored == {"old", "slope"}


def norms(x, s):
    total = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        if s[i] > 0.0:
            r = np.sqrt(max(x[i, 0], 0.0) ** 2 + min(x[i, 1], 0.0) ** 2 + 0.1)
        else:
            r = np.sqrt(min(x[i, 0], 0.0) ** 2 + max(x[i, 1], 0.0) ** 2 + 0.1)
        total[i] += r * s[i]
    return total


def test_the_value_that_a_test_chooses_is_not_calculated_again():
    args = normal(20, 2), normal(20)
    agrees(norms, args)
    text = nb.adjoint(norms, boundscheck=False)._generated(args).text
    assert text.count("sqrt(") == 2  # in r itself
    assert "0.5 / (r if r != 0" in text
