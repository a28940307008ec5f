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
    w = best
    return c if w is None else w


@pytest.mark.parametrize("f", [by_its_truth, passed_on])
def test_none_that_is_used_as_a_value_is_refused(f):
    with pytest.raises(TraceError, match="None"):
        nb.adjoint(f).value_and_grad(RISING, C)
