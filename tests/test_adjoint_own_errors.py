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

    def __init__(self, text, count):
        super().__init__(text, count)


class Noted(Exception):
    """An error that is made of a string in its own way."""

    def __init__(self, note, count=0):
        self.note, self.count = note, count


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


def noted(x):
    if x > 1.0:
        raise Noted("far")
    return x * 2


def test_an_error_that_is_made_of_a_string_in_its_own_way():
    assert nb.adjoint(noted).value_and_grad(0.5) == (1.0, (2.0,))
    with pytest.raises(Noted) as raised:
        nb.adjoint(noted).value_and_grad(2.0)
    assert (raised.value.note, raised.value.count) == ("far", 0)


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


def with_a_number(x):
    if x > 1.0:
        raise Diverged(3)
    return x


class Halt(BaseException):
    """Not a subclass of Exception."""


def no_exception(x):
    if x > 1.0:
        raise Halt("far")
    return x


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (of_a_function(), "an error of your own that is not defined in a file that is imported"),
        (with_its_own_arguments, "an error of your own with an __init__ that takes other arguments than these"),
        (with_two, "an error of your own with other arguments than one string"),
        (with_a_number, "an error of your own with other arguments than one string"),
        (no_exception, "raise Halt, which is not known to be a class of errors"),
    ],
)
def test_refused(f, why):
    with pytest.raises(TraceError, match=why):
        nb.adjoint(f).value_and_grad(2.0)


Other = Diverged


def by_another_name(x):
    if x > 1.0:
        raise Other("far")
    return x


def test_another_name_of_a_class():
    with pytest.raises(Diverged, match=r"^far$"):
        nb.adjoint(by_another_name).value_and_grad(2.0)


def numbers_as_messages(x, n):
    if n == 0:
        raise TypeError(3)
    if n == 1:
        raise TypeError(1.5)
    if n == 2:
        raise TypeError("a", "b")
    if n == 3:
        raise TypeError(x[0])
    return x[0]


@pytest.mark.parametrize(("n", "text"), [(0, "3"), (1, "1.5"), (2, "('a', 'b')"), (3, "x[0]")])
def test_messages_that_are_no_strings(n, text):
    with pytest.raises(TypeError) as raised:
        nb.adjoint(numbers_as_messages).value_and_grad(np.ones(2), n)
    assert str(raised.value) == text
