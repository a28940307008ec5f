"""Names that are None until they are set."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

RISING = np.array([-1.0, 2.0, 2.05, 0.3])
FALLING = np.array([4.0, 3.0, 2.5, 1.0])
C = 0.9


def largest(x, c):
    best = None
    for v in x:
        if best is None or v * c > best:
            best = v * c
    return best


def largest_or_zero(x, c):
    best = None
    for v in x:
        if v > c and (best is None or v > best):
            best = v
    if best is None:
        return 0.0 * c
    return best * c


def changes(x, c):
    before, s = None, 0.0
    for v in x:
        if before is not None:
            s += (v - before) ** 2 * c
        before = v
    return s


def reset(x, c):
    before, s = None, 0.0
    for v in x:
        if before is not None and v > before:
            s += v * before
        before = v if v > c else None
    return s


def added_arrays(x, c):
    total = None
    for k in range(x.size):
        y = x * k
        if total is not None:
            total = total * c + y
        else:
            total = y
    return np.sum(total**2)


def an_index(x, c):
    best, at = -np.inf, None
    for k in range(x.size):
        if x[k] * c > best:
            best, at = x[k] * c, k
    y = np.zeros(x.size)
    y[at] = best
    return np.sum(y * x) + at


def both_at_once(x, c):
    first = second = None
    for v in x:
        if first is None:
            first = v
        elif second is None:
            second = v * c
    return first * second


def range_of_values(x, c):
    low = high = None
    for v in x:
        low = v if low is None else min(low, v)
        high = v * c if high is None else max(high, v * c)
    return high - low


def in_a_while_loop(x, c):
    found, k = None, 0
    while found is None:
        if x[k] > c:
            found = x[k]
        k += 1
    return found * k


def chosen(x, c):
    w = x * 2 if c > x[0] else None
    if w is not None:
        return np.sum(w**2)
    return x[1] * c


def called(x, c):
    def largest_of(z):
        r = None
        for v in z:
            if r is None or v > r:
                r = v
        if r is None:
            raise ValueError("no elements")
        return r

    return largest_of(x) * c + largest_of(x[:2])


def index_of_smallest(x, c):
    m = None
    for k, v in enumerate(x):
        if m is None or v < x[m]:
            m = k
    return x[m] * c


def left_early(x, c):
    last = None
    for v in x:
        if v < 0:
            continue
        if last is None:
            last = v
            continue
        if abs(v - last) < 0.1:
            break
        last = c * (v + last)
    return last


def loop_variable(x, c):
    v = None
    for v in x:
        c = c + v
    return 0.0 if v is None else v * c


@pytest.mark.parametrize("x", [RISING, FALLING], ids=["rising", "falling"])
@pytest.mark.parametrize(
    "f",
    [largest, largest_or_zero, changes, reset, added_arrays, an_index, both_at_once, range_of_values, in_a_while_loop,
     chosen, called, index_of_smallest, left_early, loop_variable],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_agrees(f, x):
    with uncompiled():
        agrees(f, (x, C))


def never_set(x, c):
    best = None
    for v in x:
        if v > 100.0:
            best = v
    return best * c


def set_to_none_again(x, c):
    best = None
    for v in x:
        best = v
        if v < c:
            best = None
    return best + c


@pytest.mark.parametrize("f", [never_set, set_to_none_again])
def test_a_read_of_none_is_an_error_as_in_python(f):
    x = np.array([1.0, 2.0, 0.5])
    with pytest.raises(TypeError):
        f(x, C)
    with pytest.raises(TypeError, match="best is None where a value is expected"):
        nb.adjoint(f).value_and_grad(x, C)


def by_its_truth(x, c):
    best = None
    for v in x:
        if v > c:
            best = v
    return best if best else c


def passed_on(x, c):
    best = None
    for v in x:
        if v > c:
            best = v
    return c if is_missing(best) else best


def is_missing(v):
    return v is None


@pytest.mark.parametrize("f", [by_its_truth, passed_on])
def test_none_that_is_used_as_a_value_is_refused(f):
    with pytest.raises(TraceError, match="None"):
        nb.adjoint(f).value_and_grad(RISING, C)


ROWS = np.array([[0.3, -0.9, 1.2], [0.7, 0.4, -0.2], [0.9, 1.1, 0.5], [-0.4, 0.8, 0.6]])


def best_row(m, c):
    best = None
    for row in m:
        if best is None or row[0] > best[0]:
            best = row
    return best @ best * c


def convergence(m, c):
    before = None
    x = m[0]
    for _ in range(6):
        x = np.tanh(x * c) + m[1]
        if before is not None and np.max(np.abs(x - before)) < 1e-2:
            break
        before = x
    return np.sum(x)


def products_of_neighbours(m, c):
    before, s = None, 0.0
    for x in m:
        if before is not None:
            s += before @ x
        before = x * c
    return s


def reset_arrays(m, c):
    before, s = None, 0.0
    for x in m:
        if x[0] > 0.8:
            before = None
        if before is None:
            before = x
            continue
        s += np.sum(before * x)
        before = before * c + x
    return s


def best_pair(m, c):
    best = None
    for v in m[0]:
        if best is None or v > best[0]:
            best = (v, v * c)
    return best[0] * best[1]


def chosen_arrays(m, c):
    p = None
    for k in range(3):
        q = np.cos(m[0] * k) if p is None else np.sin(p) * m[1]
        p = q
    return np.sum(p) * c


def best_and_its_place(m, c):
    best, at = None, None
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            d = m[i] * np.sum(m[:3, j])
            if best is None or np.sum(d) > np.sum(best):
                best, at = d, j
    return best[0] * c + at


def clusters(m, c):
    centers, labels = m[:2] * c, None
    for _ in range(4):
        d = np.linalg.norm(m[:, None] - centers[None], axis=2)
        new = d.argmin(axis=1)
        if labels is not None and (new == labels).all():
            break
        labels = new
        for k in range(2):
            members = m[labels == k]
            if len(members) > 0:
                centers[k] = members.mean(axis=0)
    return sum(np.sum((x - centers[k]) ** 2) for x, k in zip(m, labels))


@pytest.mark.parametrize(
    "f",
    [
        best_row,
        convergence,
        products_of_neighbours,
        reset_arrays,
        best_pair,
        chosen_arrays,
        best_and_its_place,
        clusters,
    ],
    ids=lambda f: f.__name__,
)
def test_arrays_that_are_none_at_first(f):
    with uncompiled():
        agrees(f, (ROWS, C))


def two_before(x, c):
    q = p = None
    s = 0.0
    for v in x:
        if q is not None:
            s += q * p * v
        q = p
        p = v * c
    return s


def three_before(x, c):
    r = q = p = None
    s = 0.0
    for v in x:
        if r is not None:
            s += r * v
        r, q, p = q, p, v * c
    return s


def kept_if_large(x, c):
    q, s = None, 0.0
    for v in x:
        p = v * c if v > 0.5 else None
        if q is not None:
            s += q
        q = p
    return s


def by_another_name(x, c):
    best = None
    for v in x:
        if v > c:
            best = v
    w = best
    if w is None:
        return c * x[0]
    return w


def never_reached(x, c):
    u = a = None
    for v in x:
        if u is not None:
            a = v
    return c * x[0] if a is None else a


def set_again_below(x, c):
    v, s = None, 0.0
    for k in range(x.size):
        if v is None:
            v = x[k]
        elif v < c:
            s += x[k]
        v = c
        for j in range(3):
            v = v * x[j]
    return s * c


@pytest.mark.parametrize(
    "f",
    [two_before, three_before, kept_if_large, by_another_name, never_reached, set_again_below],
    ids=lambda f: f.__name__,
)
def test_none_that_is_handed_on(f):
    for x in (RISING, FALLING):
        with uncompiled():
            agrees(f, (x, C))


def test_scalars_that_are_read_above_of_where_they_are_set_compile():
    value, (gradient, slope) = nb.adjoint(set_again_below).value_and_grad(FALLING, C)
    assert value == pytest.approx(set_again_below(FALLING, C))
    assert np.all(np.isfinite(gradient))
    tangent = nb.tangent(set_again_below).jvp((FALLING, C), (FALLING, 1.0))[1]
    assert tangent == pytest.approx(gradient @ FALLING + slope)
