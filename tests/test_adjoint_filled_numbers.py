"""Numbers that become arrays in loops, ``f = 0.0`` before ``f = f + force(j)``: arrays from the beginning, where
nothing can tell."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees
from random_loops import function

import nbgrad as nb
from nbgrad.errors import TraceError

M = np.arange(12.0).reshape(3, 4) / 10 + 0.1


def assigned(m):
    s = 0.0
    for k in range(len(m)):
        s = s + m[k] * k
    return np.sum(s * s)


def added_to(m):
    s = 0
    for r in m:
        s += np.sin(r)
    return np.sum(s * s)


def force(m, i):
    f = 0.0
    for j in range(len(m)):
        d = m[j] - m[i]
        f = f + d / (1.0 + np.sum(d * d))
    return f


def in_functions(m):
    s = 0.0
    for i in range(len(m)):
        s += np.sum(force(m, i) ** 2)
    return s + np.sum(force(m[:, :2], 0)) + np.sum(force(m * 2, 1) ** 3)


def anew_in_a_loop(m):
    t = 0.0
    for i in range(len(m)):
        f = 0.0
        for j in range(len(m)):
            if j == i:
                continue
            f = f + m[j] * i
        t += np.sum(f * f)
    return t


def from_one(m):
    s = 1.0
    for r in m:
        s = s * r * 0.5 + r
    return np.sum(s)


def in_a_while_loop(m):
    s, k = 0.0, 0
    while k < len(m):
        s = 0.5 * s - m[k]
        k += 1
        if k > 50:
            break
    return np.sum(s * s)


def over_a_tuple(m):
    s = 0.0
    for v in (m[0], m[1] * 2):
        s = s + v * v
    return np.sum(s)


def kept_in_a_list(m):
    hs, s = [], 0.0
    for r in m:
        s = s + r
        hs.append(s)
    return np.sum(np.array(hs) ** 2)


ACCEPTED = [assigned, added_to, in_functions, anew_in_a_loop, from_one, in_a_while_loop, over_a_tuple, kept_in_a_list]


@pytest.mark.parametrize("f", ACCEPTED, ids=lambda f: f.__name__)
def test_derivatives(f):
    check_derivatives(f, M, compiled=False)


def test_no_iterations():
    with pytest.raises(ValueError, match=r"assigned: s is a number, as a loop has no iteration; begin with np.zeros"):
        nb.adjoint(assigned).value_and_grad(M[:0])


STRAIGHT = {
    "statements": "u = 0.0\nu += a\nv = u\nu *= b\nreturn np.sum(v * u)",
    "read as a number": "u = np.sin(0.5)\nc = u * b\nu -= a\nc += u[0]\nu[0] = a[1] * b[2]\nreturn np.sum(u * c)",
    "tuple": "u = 0.0\nfor r, k in zip([a, b], (1.0, 2.0)):\n    u += r * r * k\nreturn np.sum(u * u)",
    "in a loop": "s = 0.0\nfor k in range(3):\n    u = 1.0\n    u += a * k\n    s += np.sum(u * u * b)\nreturn s",
    "in a called function": "s = 0.0\nfor k in range(3):\n    s += h(a, k) @ b\nreturn s",
    "the same twice": "us = []\nu = 0.0\nfor r in [a, b]:\n    u += r\n    us.append(u)\nreturn us[0] @ us[1]",
    "parameter": "p += a\nreturn np.sum(p * p * b)",
}


@pytest.mark.parametrize("body", STRAIGHT.values(), ids=STRAIGHT)
def test_in_place_operators_make_arrays_of_numbers(body):
    """``u += x`` with a number `u`, where all that follows reads the array."""
    helper = "def h(x, k):\n    u = 0.5\n    u *= x * x\n    return u * k\n\n"
    f = function(helper + "def f(a, b, p):\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    agrees(f, (M[0], M[1], 0.5))


def read_in_the_loop(m):
    s, t = 1.0, 0.0
    for r in m:
        t += np.sum(s)
        s = s * r
    return np.sum(s) + t


def read_before(m):
    s = 1.0
    t = np.sum(s + 1.0)
    for r in m:
        s = s * r
    return np.sum(s) + t


def in_a_branch(m):
    s = 1.0
    for r in m:
        if r[0] > 0.2:
            s = s * r
    return np.sum(s)


def reduced(m):
    s = 1.0
    for r in m:
        s = s * r + np.sum(s)
    return np.sum(s)


def in_an_inner_function(m):
    s = 1.0

    def read():
        return np.sum(s)

    for r in m:
        s = s * r
    return read()


@pytest.mark.parametrize("f", [read_in_the_loop, read_before, in_a_branch, reduced, in_an_inner_function],
                         ids=lambda f: f.__name__)  # fmt: skip
def test_refused(f):
    with pytest.raises(TraceError, match=r"s becomes an array and was something else|the function"):
        nb.adjoint(f).value_and_grad(M)
