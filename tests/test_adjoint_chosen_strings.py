"""Strings that branches choose in the call: names that are bound to them, compared and passed to functions."""

import numba
import numpy as np
import pytest
from loop_checks import check_derivatives

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.5, 1.2, -0.7, 2.0])


def one_of_two(x, n):
    mode = "square" if n > 3 else "cube"
    total = 0.0
    for i in range(x.size):
        total += x[i] ** 2 if mode == "square" else x[i] ** 3
    return total


def states(x, n):
    state = "start"
    total = 0.0
    for i in range(x.size):
        if state == "start":
            total += x[i] ** 2
            if x[i] > n:
                state = "up"
        elif state in ("up", "down"):
            total += 3 * x[i] ** 3
            state = "down" if state == "up" else "end"
        elif state is not None and state != "nowhere":
            total -= x[i]
    return total if state not in ("start", None) else 0.0 * x[0]


@numba.njit
def perhaps_none(x):
    kind = None
    for v in x:
        if v > 1:
            kind = "large"
        elif v < -1:
            kind = "small"
    if kind is None:
        return x.sum()
    if kind == "large":
        return (x**2).sum()
    return (x**3).sum()


def of_called_functions(x, kind):
    kind = kind * 2.0  # not the other function's
    return perhaps_none(x) + perhaps_none(kind * x)


def several_strings(x, n):
    a = b = c = "p"
    if n > 1:
        a = "q"
        b = "r" if n > 2 else "s"
    if a == "q" and b != "s":
        x = x * 2.0
        c = "t"
    return x.sum() if c == "p" else (x * x).sum()


def earlier_states(x, n):
    before = state = "none"
    weight = 1.0
    for v in x:
        before = state
        state = "rising" if v > 0.8 else "falling"
        if before == state:
            weight *= 1.0 + v
        elif before is None or before == "none":
            weight += n * v * v
    return weight


def exchanged(x, n):
    a, b = "left", "right"
    total = 0.0
    for v in x:
        a, b = b, a
        same = a == "left"
        total += v * v if same else n * v
    return total


def relabelled(x, n):
    name = "x" if n > 3 else "y"
    factor = 2.0 if name == "x" else 3.0
    name = "last" if name == "x" else name
    return factor * x[0] * x[1] if name == "last" else x[0] * factor


@numba.njit
def kernel(v, kind, power=1):
    if kind == "linear":
        return v * power
    kind = "other" if v > 0.9 else kind
    return scaled_kernel(v, kind) if kind != "none" else 0.0


@numba.njit
def scaled_kernel(v, shape):
    if shape in ("square", "other"):
        return v * v
    return v**3


def passed_on(x, n):
    kind = "linear" if n > 3 else "square"
    total = kernel(x[0], "square")
    for i in range(x.size):
        if i == n:
            kind = "cube"
        total += kernel(x[i], kind, power=2) + kernel(x[i], kind="none")
    return total


@pytest.mark.parametrize("n", [0, 1, 3, 4])
def test_strings_that_are_chosen_in_the_call(n):
    check_derivatives(earlier_states, X, n, compiled=False)
    check_derivatives(exchanged, X, n, compiled=False)
    check_derivatives(relabelled, X, n, compiled=False)
    check_derivatives(passed_on, X, n, compiled=False)
    check_derivatives(one_of_two, X, n, compiled=False)
    check_derivatives(states, X, n, compiled=False)
    check_derivatives(of_called_functions, X, float(n), compiled=False)
    check_derivatives(several_strings, X, n, compiled=False)


@pytest.mark.parametrize("mode", ["a", "b", "c", None])
def test_strings_that_are_arguments_and_chosen_in_the_call(mode):
    def chosen(x, n, mode):
        first = mode
        if n > 1:
            mode = "b"
        if mode == first:
            x = x * 3.0
        return x.sum() if mode == "a" else (x * x).sum() if mode is not None else x[0]

    for n in (0, 2):
        check_derivatives(chosen, X, n, mode, compiled=False)
        check_derivatives(of_an_argument, X, n, mode, compiled=False)


def shown(x, n):
    mode = "a" if n > 1 else "b"
    print(mode)
    return x.sum() if mode == "a" else 0.0


def captured(x, n):
    mode = "a" if n > 1 else "b"

    def chosen(v):
        return v if mode == "a" else 0.0

    return chosen(x[0])


def joined(x, n):
    mode = "a"
    if n > 1:
        mode = "a" + mode
    return x.sum() if mode == "a" else 0.0


def of_an_argument(x, n, mode="a"):
    if n > 1:
        mode = "b"
    return x.sum() if mode == "a" else 0.0


def as_a_number(x, n):
    mode = "a" if n > 1 else "b"
    return np.sum(x, axis=mode) if mode == "a" else 0.0


def true_or_not(x, n):
    mode = "a" if n > 1 else ""
    return x.sum() if mode else 0.0


def joined_to(v, kind):
    return v + (kind < "x")


def passed_to_more(x, n):
    kind = "a" if n > 1 else "b"
    return joined_to(x[0], kind) + (kind == "a")


def collected(v, *others):
    return v if others[0] else 0.0


def passed_to_others(x, n):
    kind = "a" if n > 1 else ""
    return (kind == "a") + collected(x[0], kind)


def named(v, **options):
    return v if options["kind"] else 0.0


def passed_by_name(x, n):
    kind = "a" if n > 1 else ""
    return (kind == "a") + named(x[0], kind=kind)


@numba.njit
def slope(g, y, v, kind):
    return g, 0


@nb.primitive(vjp=slope)
@numba.njit
def ruled(v, kind):
    return v * 1.0


def passed_to_a_rule(x, n):
    kind = "a" if n > 1 else "b"
    return ruled(x[0], kind) if kind == "a" else 0.0


@pytest.mark.parametrize(
    "f, line",
    [
        (shown, "print strings"), (captured, "unlike in 'return v if"), (joined, ""), (true_or_not, "compare it"),
        (as_a_number, "unlike in 'return np.sum"),
        (passed_to_more, "kind of joined_to"), (passed_to_a_rule, "unlike in 'return ruled"),
        (passed_to_others, "unlike in 'return (kind"),
        (passed_by_name, "unlike in 'return (kind"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)  # fmt: skip
def test_strings_that_are_more_than_compared(f, line):
    with pytest.raises(TraceError, match=r"one of several strings|which is the string") as error:
        nb.adjoint(f).value_and_grad(X, 1)
    assert line in str(error.value)
