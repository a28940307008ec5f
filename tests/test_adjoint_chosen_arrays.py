"""A name for one array or for a copy of it: ``y = x if inplace else x.copy()``."""

from collections import namedtuple

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.5, 1.2, -0.7, 2.0])

Options = namedtuple("Options", "inplace factor")


def in_place(x, inplace=False):
    y = x if inplace else x.copy()
    for i in range(1, y.size):
        y[i] = y[i] * y[i - 1]
    return np.sum(y * x)


def with_copy(x, a, copy=True):
    y = x.copy() if copy else x
    y[0] = a * y[1] ** 2
    return np.sum(y * y * x)


def in_branches(x, inplace):
    if inplace:
        y = x
    else:
        y = x.copy()
    y *= x[1]
    return np.sum(y * x)


def perhaps_none(x, inplace=None):
    y = x if inplace else x.copy()
    y[0] = y[1] * y[2]
    return np.sum(y * x)


def joined_tests(x, inplace, w=None):
    y = x if inplace and w is None else x.copy()
    y[0] = y[1] * y[2]
    return np.sum(y * x) + inplace


def copied_first(x, inplace=False):
    if not inplace:
        x = x.copy()
    x[0] = x[1] * x[2]
    return np.sum(x * x)


def from_a_tuple(x, options):
    inplace, a = options
    y = x if inplace else x.copy()
    y[0] = a * y[1]
    z = x if options[0] else x.copy()
    z[1] = a * y[0] * z[2]
    return np.sum(y * x * z)


def by_name(x, options):
    factor = 1.0
    if options.inplace:
        factor = 3.0 * options.inplace
    return _by_name(x, options) * factor


def _by_name(x, options):
    y = x if options.inplace else x.copy()
    y[0] = options.factor * y[1] ** 2
    return np.sum(y * x)


def passed_on(x, a):
    y = scaled(x * a, a)
    scaled(y, a, inplace=True)
    z = in_branch(y, a, False)
    in_branch(y, a, True)
    return np.sum(y * x) + np.sum(z * y)


def scaled(x, a, inplace=False):
    y = x if inplace else x.copy()
    y *= a
    return y


def in_branch(x, a, inplace):
    if inplace:
        y = x
    else:
        y = x.copy()
    for i in range(y.size):
        y[i] = a * y[i] ** 2
    return y


FLAGS = [(f, args) for f in (in_place, in_branches, perhaps_none, joined_tests, copied_first)
         for args in ((X, True), (X, False))]  # fmt: skip
FLAGS += [(with_copy, (X, 0.7, True)), (with_copy, (X, 0.7, False)), (with_copy, (X, 0.7))]
FLAGS += [(in_place, (X,)), (perhaps_none, (X,)), (joined_tests, (X, True, 2.0)), (passed_on, (X, 0.7))]
FLAGS += [(from_a_tuple, (X, (flag, 0.6))) for flag in (True, False)]
FLAGS += [(by_name, (X, Options(flag, 0.6))) for flag in (True, False)]


@pytest.mark.parametrize(("f", "args"), FLAGS, ids=lambda a: getattr(a, "__name__", None))
def test_flags(f, args):
    """Those of `f` itself, which may write its argument, are those of one that copies it first."""

    def on_a_copy(x, rest):
        return f(x.copy(), *rest)

    x, rest = args[0], args[1:]
    direction = np.cos(np.arange(4.0))
    unset = (None,) * len(rest)
    with uncompiled():
        check_derivatives(on_a_copy, x, rest, compiled=False)
        ours, theirs = nb.adjoint(f, argnums=0), nb.adjoint(on_a_copy, argnums=0)
        value, slope = ours.value_and_grad(x.copy(), *rest)
        assert value == pytest.approx(f(x.copy(), *rest))
        np.testing.assert_allclose(slope, theirs.value_and_grad(x, rest)[1])
        np.testing.assert_allclose(ours.hvp(args, (direction,)), theirs.hvp((x, rest), (direction,)))
        found = nb.tangent(f).jvp(args, (direction, *unset))[1]
        np.testing.assert_allclose(found[0] if isinstance(found, tuple) else found, slope @ direction)


def test_compiled_by_numba():
    check_derivatives(in_place, X, False)
    check_derivatives(passed_on, X, 0.7, compiled=False)


def test_the_array_that_is_written():
    """It is the argument's, or is not, as in Python; one object serves both."""
    adjoint, tangent = nb.adjoint(in_place), nb.tangent(in_place)
    for flag in (True, False, True):
        ours, theirs = X.copy(), X.copy()
        assert adjoint.value_and_grad(ours, flag)[0] == pytest.approx(in_place(theirs, flag))
        np.testing.assert_allclose(ours, theirs)
        outputs = tangent.jvp((X, flag), (np.ones(4), None))[0]
        np.testing.assert_allclose(outputs[1] if flag else X, theirs)
        agrees(in_place, (X, flag))


def test_bools_that_decide_nothing_stay_arguments():
    def f(x, double):
        return np.sum(x * x) * (2.0 if double else 1.0)

    adjoint = nb.adjoint(f)
    assert adjoint.value_and_grad(X, True)[0] == 2 * adjoint.value_and_grad(X, False)[0]
    assert not adjoint._flattened


def test_a_test_of_numbers():
    """The array is not used afterwards, so nobody sees that a copy is written."""

    def f(x, a):
        z = x * x
        y = z if a > 0 else z.copy()
        for i in range(1, y.size):
            y[i] = a * y[i - 1] * y[i]
        return np.sum(y * x)

    for a in (0.5, -0.5):
        with uncompiled():
            check_derivatives(f, X, a, compiled=False)


def used_later(x, a):
    z = x * x
    y = z if a > 0 else z.copy()
    y[0] = 1.0
    return np.sum(y * z)


def aliased_at_once(x, a):
    z = x * x
    y, w = z if a > 0 else z.copy(), z
    y[0] = 1.0
    return np.sum(y * w)


def viewed_before(x, a):
    z = x * x
    w = z[1:]
    y = z if a > 0 else z.copy()
    y[1] = 1.0
    return np.sum(w * y[1:])


def an_argument(x, a):
    y = x if x[0] > a else x.copy()
    y[0] = 1.0
    return np.sum(y)


def flag_that_is_computed(x, a):
    return np.sum(scaled(x, a, a > 0) * x)


@pytest.mark.parametrize("f", [used_later, aliased_at_once, viewed_before, an_argument, flag_that_is_computed])
def test_refused(f):
    with pytest.raises(TraceError, match=r"one array or another.*copy them.*or test a bool that is an argument"):
        nb.adjoint(f).value_and_grad(X, 0.5)
