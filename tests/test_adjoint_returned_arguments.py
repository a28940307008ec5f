"""Functions that return an argument as it was given, or a new array, by the values in it."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

U = np.linspace(-0.9, 1.1, 6)


def at_most(a, t):
    """The argument itself, or a new array."""
    largest = np.max(np.abs(a))
    if largest < t:
        return a
    return a * (t / largest)


def bound_in_a_loop(x, t):
    z = x
    for k in range(3):
        z = at_most(z, 0.5 * t * k + 1.0)
    return np.sum(z**3)


def copied(x, t):
    y = x * 1.0
    z = at_most(y, t).copy()
    y[0], z[1] = 3.0, 2.0
    return np.sum(z * y)


def used_at_once(x, t):
    y = x * 1.0
    for k in range(3):
        y[k] = np.linalg.norm(at_most(y, t))
    return np.sum(y)


def steps(x, t):
    p, s = x * 1.0, 0.0
    for k in range(3):
        w = p
        p = p + 0.1 * at_most(p, t)
        s += np.sum(w * p)
        p[k] = t
    return s + np.sum(p)


@pytest.mark.parametrize("t", [0.7, 9.0], ids=["new", "argument"])
@pytest.mark.parametrize("f", [bound_in_a_loop, copied, used_at_once, steps], ids=lambda f: f.__name__)
def test_results_that_may_be_arguments(f, t):
    with uncompiled():
        agrees(f, (U, t))


def written_with_its_name(x, t):
    y = x * 1.0
    z = at_most(y, t)
    y[0] = 3.0
    return np.sum(z * y)


def written_in_the_next_iteration(x, t):
    y, s = x * 1.0, 0.0
    z = y * 2
    for k in range(3):
        s += np.sum(z)
        z = at_most(y, t)
        y[k] = s
    return s


def in_a_list(x, t):
    y = x * 1.0
    zs = []
    for k in range(3):
        zs.append(at_most(y, t + k))
    y[0] = 3.0
    return np.sum(zs[0]) + np.sum(zs[2] * y)


def in_a_dictionary(x, t):
    y = x * 1.0
    d = {"a": at_most(y, t)}
    y[0] = 3.0
    return np.sum(d["a"] * y)


def chosen_beside_another(x, t):
    y = x * 1.0
    z = at_most(y, t) if t > 0.5 else y * 2
    y[1] = 3.0
    return np.sum(z * y)


def an_item_of_a_list(x, t):
    y = x * 1.0
    zs = [y * 2, y * 3]
    zs[0] = at_most(y, t)
    y[0] = 3.0
    return np.sum(zs[0] * y)


def beside_a_number(x, t):
    y = x * 1.0
    w, z = 1.0, at_most(y, t)
    y[0] = 3.0
    return np.sum(w * z * y)


def in_part(x, t):
    y = x * 1.0
    z = at_most(y, t)[1:]
    y[1] = 3.0
    return np.sum(z * y[1:])


def of_itself(x, t):
    y = x * 1.0
    z = at_most(at_most(y, t), t + 1)
    y[1] = 3.0
    return np.sum(z * y)


def looped_over(x, t):
    y = x * 1.0
    for v in at_most(y, t):
        y[1] += v
    return np.sum(y)


@pytest.mark.parametrize(
    "f",
    [written_with_its_name, written_in_the_next_iteration, in_a_list, in_a_dictionary, chosen_beside_another,
     an_item_of_a_list, beside_a_number, in_part, of_itself, looped_over],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_a_write_while_a_result_may_be_the_argument_is_refused(f):
    with pytest.raises(TraceError, match=r"a write to an array|a result that is an argument"):
        nb.adjoint(f).value_and_grad(U, 9.0)


def computed_from(x, t):
    y = x * 1.0
    z = at_most(y, t) * 2 + at_most(y, t + 1)[0]
    w = np.where(y > 0.5, at_most(y, t), y)
    v = (at_most(y, t) if np.sum(y) > 0 else y) * 1.0
    u = y * 3
    u[:] = at_most(y, t)
    u[1:] += at_most(y, t)[1:]
    y[0] = 3.0
    return np.sum((z + w + u + v) * y)


@pytest.mark.parametrize("t", [0.7, 9.0], ids=["new", "argument"])
def test_what_is_computed_from_them_stands_for_nothing(t):
    with uncompiled():
        agrees(computed_from, (U, t))


def returned_by_an_expression(u, t):
    return u if t > 1.0 else u * t


@pytest.mark.parametrize("t", [0.7, 9.0], ids=["new", "argument"])
def test_conditional_expressions_that_return_one_of_two(t):
    def f(x, t):
        y = x * 2
        for k in range(2):
            y = returned_by_an_expression(y, t + k)
            s = np.sum(y)
        y[0] = s
        v = returned_by_an_expression(x, t)
        return np.sum(y * x) + np.sum(v * v)

    with uncompiled():
        agrees(f, (U, t))


def test_new_arrays_that_are_reshaped_are_no_arguments():
    def f(x, t):
        w = np.kron(np.ones(2), x)
        w[0] = t
        return np.sum(w**2)

    with uncompiled():
        agrees(f, (U, 0.7))


def test_matrices_that_become_shorter():
    def f(x, t):
        y, z, s = x, x * t, 0.0
        for _ in range(2):
            y = y[1:]
            z = z[:-1, 1:] * t
            s += np.sum(y**2) + np.sum(z**3)
        return s

    with uncompiled():
        agrees(f, (U[:, None] * np.arange(1.0, 5.0), 0.7))
