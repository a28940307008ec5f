"""Contexts about warnings, which are as if they were not there, and those that are refused."""

import warnings

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([1.5, 0.4, 2.0])


def ignored(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.log(x) * x
        if y[0] > 100.0:
            return y[1]
    return np.sum(y)


def caught(x):
    total = 0.0
    for v in x:
        with warnings.catch_warnings(), np.errstate(all="warn"):
            warnings.simplefilter("ignore")
            warnings.filterwarnings("ignore", category=RuntimeWarning)
            total += v**2
    return total


@pytest.mark.parametrize("f", [ignored, caught])
def test_as_without_them(f):
    with uncompiled():
        assert agrees(f, (X,))


def raising(x):
    with np.errstate(divide="raise"):
        return np.sum(1 / x)


def of_a_mode(x, mode):
    with np.errstate(all=mode):
        return np.sum(1 / x)


def bound(x):
    with np.errstate(all="ignore") as state:
        return np.sum(x) if state is None else x[0]


def of_a_file(x):
    with np.errstate(all="ignore"), open("values") as file:
        return x[0] * float(file.read())


def hidden(x, np):
    with np.errstate(all="ignore"):
        return x[0]


@pytest.mark.parametrize("f", [raising, of_a_mode, bound, of_a_file, hidden])
def test_refused(f):
    args = (X, "ignore")[: f.__code__.co_argcount]
    with pytest.raises(TraceError, match=r"With is outside of the subset .*np\.errstate that ignores or warns"):
        nb.adjoint(f).value_and_grad(*args)
