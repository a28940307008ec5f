"""Functions that return None, or nothing, in some branches or in all."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.linspace(0.3, 0.9, 5)


def scaled(x, w):
    if w is None:
        return None
    return x * w


def of_vectors(x):
    if x.ndim > 1:
        return
    return x * x


def fills(x):
    x[0] = 1.0


def passed_on(x, w):
    return scaled(x, w)


def none_or_value(x):
    r, q, rows = passed_on(x, None), scaled(x, 2.0), of_vectors(x[:, None])
    if r is None and rows is None and q is not None:
        return np.sum(q**2) + np.sum(of_vectors(x))
    return np.sum(r)


def default_of_none(x):
    r = scaled(x, None)
    if r is None:
        r = x * 3
    return np.sum(r**2)


def nothing_as_a_value(x):
    y = x * 2
    done = fills(y)
    return np.sum(y**2) if done is None else 0.0


def nothing_at_the_end(x):
    x[1] *= x[0]
    return fills(x)


@pytest.mark.parametrize("f", [none_or_value, default_of_none, nothing_as_a_value, nothing_at_the_end])
def test_none_where_the_source_tells(f):
    with uncompiled():
        agrees(f, (X,))


def test_none_where_values_tell():
    def root(v):
        if v < 0.0:
            return None
        return np.sqrt(v)

    def of_root(x):
        total = 0.0
        for v in x:
            r = root(v)
            if r is not None:
                total += r
        return total

    def or_nothing(x):
        if x[0] > 0.0:
            return x[0] ** 2
        return

    def of_none(x):
        return np.sum(scaled(x, None) * 2)

    for f in (of_root, or_nothing):
        with pytest.raises(TraceError, match=r"None in one return and a value in another.*a bool with the value"):
            nb.adjoint(f).value_and_grad(X)
    with pytest.raises(TraceError, match=r"scaled\(x, None\), which is None, as a number or array"):
        nb.adjoint(of_none).value_and_grad(X)
