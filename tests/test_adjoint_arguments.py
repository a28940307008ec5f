"""Bools, unsigned integers, strings and None as arguments of functions with loops."""

import math

import numpy as np
import pytest

import nbgrad as nb

X = np.array([0.5, 1.5, 2.5])


def turns(x, n):
    total = 1.0
    for i in range(n):
        total = total * math.sin(x[i] * total)
    return total


def turns_of_comparisons(x, n):
    total = 1.0
    for i in range(x.shape[0]):
        for _ in range(x[i] > 1):
            total = total * math.sin(x[i] * total) + n
    return total


class TestNumbersOfTurns:
    @pytest.mark.parametrize("n", [True, False, np.True_, np.uint64(2), np.uint8(2)])
    @pytest.mark.parametrize("checkpoint", [None, 2])
    def test_truth_values_and_unsigned_integers(self, n, checkpoint):
        adjoint = nb.adjoint(turns, checkpoint=checkpoint)
        expected = adjoint.value_and_grad(X, int(n))
        for _ in range(2):  # the second call takes the fast path
            value, (x_bar, n_bar) = adjoint.value_and_grad(X, n)
            assert value == expected[0] and n_bar is None
            np.testing.assert_array_equal(x_bar, expected[1][0])
        np.testing.assert_array_equal(adjoint.vjp(X, n)(1.0)[0], expected[1][0])

    def test_of_primitives(self):
        slope = nb.grad(nb.primitive(turns))
        np.testing.assert_array_equal(slope(X, True), slope(X, 1))

    def test_comparisons(self):
        nb.testing.check_grads(nb.primitive(turns_of_comparisons), (X, 0.5))


def weighted(x, how, w=None):
    total = 0.0
    for i in range(x.shape[0]):
        if w is None:
            total += x[i] if how == "sum" else x[i] * x[i]
        else:
            total += w[i] * x[i]
    return total


class TestTextsAndNoneInPrimitives:
    @pytest.mark.parametrize(
        ("args", "expected"),
        [(("sum",), np.ones(3)), (("squares", None), 2 * X), (("squares", 3 * X), 3 * X), (("sum", None), np.ones(3))],
    )
    def test_gradients(self, args, expected):
        f = nb.primitive(weighted)
        np.testing.assert_allclose(nb.grad(f)(X, *args), expected, rtol=1e-15)
        np.testing.assert_allclose(nb.jit(nb.grad(lambda x: f(x, *args)))(X), expected, rtol=1e-15)
        np.testing.assert_allclose(nb.grad(lambda x: f(x * x, *args))(X), 2 * X * nb.grad(f)(X * X, *args), rtol=1e-14)

    def test_one_primitive_tells_them_apart(self):
        f = nb.primitive(weighted)
        found = [nb.grad(f)(X, how, w) for how, w in (("sum", None), ("squares", None), ("sum", X))]
        np.testing.assert_array_equal(found, [np.ones(3), 2 * X, X])

    def test_second_derivatives(self):
        f = nb.primitive(weighted)
        np.testing.assert_allclose(nb.hessian(lambda x: f(x, "squares"))(X), 2 * np.eye(3), atol=1e-15)


def with_default(x, w=np.array([1.0, 2.0, 4.0])):  # noqa: B008
    return np.sum(x * w * w)


def test_defaults_that_are_arrays():
    adj, x = nb.adjoint(with_default), np.array([1.0, 3.0, 5.0])
    default = with_default.__defaults__[0]
    value, (to_x, to_w) = adj.value_and_grad(x)
    assert value == with_default(x)
    np.testing.assert_allclose(to_x, default**2)
    np.testing.assert_allclose(to_w, 2 * x * default)
    for found, right in zip(adj.vjp(x)(1.0), (to_x, to_w), strict=True):
        np.testing.assert_array_equal(found, right)
    np.testing.assert_allclose(adj.hvp((x,), (np.ones(3),))[1], 2 * default)
    np.testing.assert_allclose(nb.tangent(with_default).jvp((x,), (np.ones(3),))[1], np.sum(default**2))
    np.testing.assert_array_equal(default, [1.0, 2.0, 4.0])
