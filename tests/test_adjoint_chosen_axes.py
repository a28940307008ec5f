"""Integers that decide what is generated: ``if axis == 0: X = X.T``, and axes of reductions."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.arange(12.0).reshape(3, 4) / 5 + 0.3


def along_columns(X, axis):
    if axis == 0:
        X = X.T
    Y = np.empty_like(X)
    for i in range(X.shape[1]):
        Y[:, i] = np.roll(X[:, i], i) * X[:, i]
    if axis == 0:
        Y = Y.T
    return Y


def copied(X, axis):
    if axis == -1 or axis == 1:
        X = X.T.copy()
    return np.sum(X * np.arange(X.shape[1]), axis=0)


def either(X, axis):
    Z = X if axis == 0 else X.T
    W = Z * Z[0, 0]
    return np.sum(W * np.arange(W.shape[1]), axis=0)


def in_both_branches(X, axis):
    if axis not in (-1, 0, 1):
        raise ValueError("no such axis")
    if axis == 0:
        Z = X
    else:
        Z = X.T
    return Z[0] * Z[1]


def called(X, axis):
    return copied(X * 2, axis) ** 2


def reduced(X, axis):
    return np.sum(X * X, axis=axis)


def a_bool(X, transposed):
    if transposed:
        X = X.T
    return np.cumsum(X, axis=1) * X


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("f", [along_columns, copied, either, in_both_branches, called, reduced])
def test_an_integer_decides_the_order_of_axes(f, axis):
    with uncompiled():
        agrees(f, (X, axis))


@pytest.mark.parametrize("transposed", [False, True])
def test_a_bool_decides_it(transposed):
    with uncompiled():
        agrees(a_bool, (X, transposed))


def test_one_object_for_all_values():
    adj, total = nb.adjoint(along_columns), 0.0
    for axis in (0, 1, True):
        value = adj.vjp(X, axis).value
        assert value.shape == X.shape
        total += np.sum(value)
    assert total == pytest.approx(2 * np.sum(along_columns(X, 1)) + np.sum(along_columns(X, 0)))


def total(X, axis):
    return np.sum(either(X, axis) ** 2)


def test_second_order():
    with uncompiled():
        check_derivatives(total, X, 1, compiled=False)


def test_sizes_and_what_decides_nothing_stay_arguments():
    def powers(X, axis, n):
        if axis == 0:
            X = X.T
        for _ in range(n):
            X = X * X[0, 0]
        return np.sum(X)

    def weighted(x, mode, n):
        return np.sum(x * x) * (2.0 if mode == 1 else 1.0) * n

    with uncompiled():
        adjoint = nb.adjoint(powers)
        for axis in (0, 1):
            for n in (1, 2, 3):
                assert adjoint.value_and_grad(X, axis, n)[0] == pytest.approx(powers(X, axis, n))
        assert sorted(len(inner._programs) for inner in adjoint._flattened.values()) == [1, 1]
        adjoint = nb.adjoint(weighted)
        assert adjoint.value_and_grad(X, 1, 2)[0] == 2 * adjoint.value_and_grad(X, 2, 2)[0]
        assert not adjoint._flattened


def test_numbers_that_are_not_known():
    """Arrays of which only the values tell the order of the axes must be square."""

    def by_value(X, a):
        if a > 0.0:
            X = X.T
        return X[0] * a

    def set_before(X, axis):
        axis = axis + 2
        return np.sum(X, axis=axis - X.shape[0])

    with uncompiled():
        agrees(by_value, (X[:, :3].copy(), 0.5))
        with pytest.raises(ValueError, match="arrays of different lengths"):
            nb.adjoint(by_value).vjp(X, 0.5)
    with pytest.raises(TraceError, match="the axis in"):
        nb.adjoint(set_before).vjp(X, 1)
