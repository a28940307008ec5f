"""Scalars that loops select: the iteration that selected the value last is computed once more, and differentiated."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.loops.ir.passes import Pass, without

RNG = np.random.default_rng(8)
X, Y = RNG.normal(size=7), RNG.normal(size=7)
POINTS, CENTRES = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3))
CHANGED = "Changed by sinking of selections"


def smallest(x):
    best = np.inf
    for v in x:
        if v < best:
            best = v
    return best * best


def where_it_is(x, y):
    best, at = x[0], 0
    for i in range(1, x.size):
        if x[i] > best:
            best = x[i]
            at = i
    return best * y[at] + at


def nearest(points, centres):
    total = 0.0
    for i in range(points.shape[0]):
        best = 1e300
        for j in range(centres.shape[0]):
            d = 0.0
            for k in range(points.shape[1]):
                d += (points[i, k] - centres[j, k]) ** 2
            best = min(best, d)
        total += np.sqrt(best)
    return total


def farthest(points, centres):
    total = 0.0
    for i in range(points.shape[0]):
        longest, shortest = 0.0, 1e300
        for j in range(centres.shape[0]):
            d = np.sum((points[i] - centres[j]) ** 2)
            longest = max(longest, d)
            shortest = d if d < shortest else shortest
        total += longest / shortest
    return total


def rolling(x, w):
    out = np.empty(x.size)
    for t in range(x.size):
        a = t - w + 1
        if a < 0:
            a = 0
        m = x[a]
        for j in range(a + 1, t + 1):
            if x[j] > m:
                m = x[j]
        out[t] = m
    return np.sum(out * np.arange(1.0, x.size + 1.0))


def shortest_path(cost):
    m = cost.shape[1]
    value = np.zeros(m)
    for t in range(cost.shape[0]):
        new = np.empty(m)
        for j in range(m):
            best = np.inf
            for k in range(m):
                c = value[k] + cost[t, j] * (k - j) ** 2 + 0.1 * abs(k - 1)
                if c < best:
                    best = c
            new[j] = best + cost[t, j]
        value[:] = new
    return value.min() + value[0]


def under_conditions(x, y):
    low = 10.0
    high = -10.0
    for i in range(x.size):
        if i == 2:
            continue
        z = x[i] * y[i]
        if x[i] > -2.0:
            w = z + x[i]
            if w < low and y[i] < 3.0:
                low = w
            elif z > high:
                high = np.sin(z)
    return low * high


def several_at_once(x, y):
    best, left, right = 0.0, 0.5, 1.0
    for i in range(x.size - 1, -1, -2):
        slope = x[i] / (1.0 + y[i] ** 2)
        if slope > best:
            best = slope
            left = x[i] * y[i]
            right = y[i] ** 3
    return best + left * right


def never(x):
    best = x[0] * 2.0
    for i in range(x.size):
        if x[i] > 100.0:
            best = x[i]
    for i in range(x.size, x.size):
        best = min(best, x[i])
    return best


def first_above(x, level):
    found = -1.0
    for i in range(1, x.size):
        if x[i] > level:
            found = i - 1 + (level - x[i - 1]) / (x[i] - x[i - 1])
            break
    return found


def with_tests_of_it(x):
    best, better = x[0], 0
    total = 0.0
    for i in range(x.size):
        if x[i] < best:
            better += 1
            best = x[i]
        total += x[i] ** 2 if best < 0.0 else x[i]
    return best * total + better


def of_the_result(x, start):
    for i in range(x.size):
        if x[i] * x[i] > start:
            start = x[i] * x[i]
    return start


def conditional_temporary(x, y):
    best = 0.0
    for i in range(x.size):
        if y[i] > 0.0:
            d = x[i] * y[i]
        else:
            d = np.exp(x[i])
        if d > best:
            best = d
    return best**2


def in_a_counted_while(x):
    best, i = -9.0, 0
    while i < x.size:
        if x[i] > best:
            best = x[i]
        i += 1
    return best


SUNK = [
    (smallest, (X,)), (where_it_is, (X, Y)), (nearest, (POINTS, CENTRES)), (farthest, (POINTS, CENTRES)),
    (rolling, (X, 3)), (rolling, (X, 20)), (shortest_path, (np.abs(POINTS) + 0.1,)), (under_conditions, (X, Y)),
    (several_at_once, (X, Y)), (never, (X,)), (first_above, (np.sort(X), 0.1)), (first_above, (X - 10.0, 0.1)),
    (with_tests_of_it, (X,)), (of_the_result, (X, 0.5)), (of_the_result, (X, 50.0)), (conditional_temporary, (X, Y)),
    (in_a_counted_while, (X,)),
]  # fmt: skip


@pytest.mark.parametrize("f, args", [pytest.param(*case, id=f"{case[0].__name__}-{k}") for k, case in enumerate(SUNK)])
def test_selections_are_computed_again(f, args):
    assert CHANGED in nb.adjoint(f).explain(*args)
    with uncompiled():
        agrees(f, args)
        check_derivatives(f, *args, compiled=False)
        sunk = nb.adjoint(f).value_and_grad(*args)
        with without(Pass.SELECTION_SINKING):
            plain = nb.adjoint(f).value_and_grad(*args)
    assert sunk[0] == plain[0]
    for one, other in zip(sunk[1], plain[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15) if isinstance(one, np.ndarray) else None


@pytest.mark.parametrize("f, args", [(nearest, (POINTS, CENTRES)), (rolling, (X, 3))], ids=["nearest", "rolling"])
def test_compiled(f, args):
    check_derivatives(f, *args)


def drawdown(x):
    peak, worst = x[0], 0.0
    for v in x:
        if v > peak:
            peak = v
        worst = min(worst, v / peak - 1.0)
    return worst


def second_best(x):
    best, second = -9.0, -10.0
    for v in x:
        if v > best:
            second = best
            best = v
        elif v > second:
            second = v
    return best * second


def running(x):
    out = np.empty(x.size)
    best = x[0]
    for i in range(x.size):
        best = max(best, x[i])
        out[i] = best
    return np.sum(out**2)


def carried(x):
    best, z = 0.0, 1.0
    for i in range(x.size):
        if z > best:
            best = z
        z = z * 0.5 + x[i]
    return best + z


def overwritten(x):
    y = x * 1.0
    best = -9.0
    for i in range(x.size):
        if y[i] > best:
            best = y[i]
        y[i] = 0.5 * y[i]
    return best * np.sum(y)


def reflected(x):
    level = 0.1
    for v in x:
        level = level + v
        level = max(level, 0.0)
    return level


def in_a_while(x):
    best, i = -9.0, 0
    while i < x.size:
        if x[i] > best:
            best = x[i]
        i = 2 * i + 1
    return best


@pytest.mark.parametrize(
    "f", [drawdown, second_best, running, carried, overwritten, reflected, in_a_while], ids=lambda f: f.__name__
)
def test_others_stay(f):
    x = np.abs(X) + 0.1
    assert CHANGED not in nb.adjoint(f).explain(x)
    with uncompiled():
        check_derivatives(f, x, compiled=False)


def test_ties_go_where_they_went():
    def first(x):
        best = 9.0
        for v in x:
            if v < best:
                best = v
        return best

    def last(x):
        best = 9.0
        for v in x:
            if v <= best:
                best = v
        return best

    def builtin(x):
        best = 9.0
        for v in x:
            best = min(best, v)
        return best

    x = np.array([2.0, 1.0, 1.0, 3.0])
    for f, at in ((first, 1), (last, 2), (builtin, 1)):
        np.testing.assert_array_equal(nb.adjoint(f).value_and_grad(x)[1][0], np.eye(4)[at])


def test_missing_values_are_not_selected():
    def largest(x):
        best = -np.inf
        for v in x:
            best = max(best, v)
        return best

    value, (gradient,) = nb.adjoint(largest).value_and_grad(np.array([1.0, np.nan, 3.0, 2.0]))
    assert value == 3.0
    np.testing.assert_array_equal(gradient, [0.0, 0.0, 1.0, 0.0])


def test_single_precision():
    x = X.astype(np.float32)
    value, (gradient,) = nb.adjoint(smallest).value_and_grad(x)
    assert gradient.dtype == np.float32 and value == pytest.approx(float(x.min()) ** 2, rel=1e-6)
    assert gradient[x.argmin()] == pytest.approx(2 * float(x.min()), rel=1e-6) and np.count_nonzero(gradient) == 1
