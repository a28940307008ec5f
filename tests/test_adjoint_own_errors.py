"""Errors of the user's own that nothing catches: they are raised as they are."""

import builtins

import numba
import numpy as np
import pytest

import nbgrad as nb
from nbgrad.errors import TraceError


class Diverged(Exception):
    """An error like Python's."""


class Singular(ValueError):
    """One of Python's, by another name."""


class Counted(Exception):
    """An error with arguments of its own."""

    def __init__(self, text, count=0):
        super().__init__(text, count)


@numba.njit
def both(x, n):
    s = 0.0
    for i in range(x.size):
        if x[i] < 0.0:
            raise Diverged("negative")
        s += x[i] ** 2
    if n > 1:
        raise Singular
    return s


@pytest.mark.parametrize(
    ("x", "n", "error", "text"),
    [(np.array([1.0, -1.0]), 1, Diverged, "negative"), (np.array([1.0, 2.0]), 2, Singular, "")],
)
def test_raised(x, n, error, text):
    for call in (nb.adjoint(both).value_and_grad, nb.adjoint(both).vjp):
        for _ in range(2):
            with pytest.raises(error) as raised:
                call(x, n)
            assert type(raised.value) is error
            assert str(raised.value) == text
    with pytest.raises(error):
        nb.tangent(both).jvp((x, n), (x, None))


def test_not_raised():
    value, (gradient, _) = nb.adjoint(both).value_and_grad(np.array([1.0, 2.0]), 1)
    assert value == 5.0
    np.testing.assert_array_equal(gradient, [2.0, 4.0])


def _named(name):
    """An error of this module, under a name that generated code uses."""
    globals()[name] = type(name, (Exception,), {"__module__": __name__})
    return globals()[name]


_OWN = {name: _named(name) for name in ("ValueError", "OutOfRange", "plus", "grown")}


def hidden(x, i):
    y = x.reshape(2, -1)  # checked by Python's ValueError
    if y[0, 0] < -1.0:
        raise ValueError("own")
    if y[0, 0] < 0.0:
        raise OutOfRange("far")  # noqa: F821
    return x[i] * y[0, 0]


def test_names_of_generated_code():
    f = nb.adjoint(hidden)
    x = np.array([1.0, 2.0, 3.0, 4.0])
    assert f.value_and_grad(x, 1)[0] == 2.0
    for name, first in (("ValueError", -2.0), ("OutOfRange", -0.5)):
        with pytest.raises(_OWN[name]):
            f.value_and_grad(np.array([first, 2.0, 3.0, 4.0]), 1)
    with pytest.raises(builtins.ValueError, match="another number of elements"):
        f.value_and_grad(x[:3], 1)
    with pytest.raises(IndexError, match="out of bounds"):
        f.value_and_grad(x, 7)


def of_a_function():
    class Local(Exception):
        pass

    def f(x):
        if x > 1.0:
            raise Local("far")
        return x

    return f


def with_its_own_arguments(x):
    if x > 1.0:
        raise Counted("far")
    return x


def with_two(x):
    if x > 1.0:
        raise Diverged("far", 1)
    return x


@pytest.mark.parametrize("f", [of_a_function(), with_its_own_arguments, with_two])
def test_refused(f):
    with pytest.raises(TraceError, match="an error of your own that is not like Python's, or not defined in a module"):
        nb.adjoint(f).value_and_grad(2.0)
