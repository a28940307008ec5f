"""check_grads passes what is right and fails what is wrong, at the order at which it is wrong."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd, test_utils
from nbgrad.testing import check_grads

X = np.array([0.3, -0.7, 1.1])


def function(forward, backward):
    """A custom function of one array: its value, and its gradient from the argument and the head gradient."""

    class Custom(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return forward(x)

        def backward(self, g):
            (x,) = self.saved_tensors
            return backward(x, g)

    return lambda x: Custom()(x)


right = function(lambda x: x * x * x, lambda x, g: g * 3 * x * x)
wrong_first = function(lambda x: x * x * x, lambda x, g: g * 3 * x * x * 1.00001)
# The value of the derivative is right; the constant hides half of its dependence on x.
wrong_second = function(lambda x: x * x * x, lambda x, g: g * 3 * x * x.detach())
# The same for the dependence on the head gradient, which only a function around it shows.
wrong_in_head = function(lambda x: 2 * x, lambda x, g: 2 * g.detach())
wrong_at_one_place = function(lambda x: x * x, lambda x, g: g * 2 * x + 1e-4 * g * (x > 1))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_right_derivatives_pass(order):
    check_grads(right, [X], order=order)
    check_grads(lambda x: nd.sin(right(x)), [X], order=order)
    check_grads(lambda x, y: [nd.dot(x, y), nd.exp(x) * y], [X, X + 0.2], order=order)


@pytest.mark.parametrize("mode", ["backward", "recorded"])
def test_a_wrong_first_derivative_fails(mode):
    with pytest.raises(AssertionError, match=rf"order 1 \({mode}\), argument 0, position \(0,\)"):
        check_grads(wrong_first, [X], order=1, modes=[mode])


@pytest.mark.parametrize("mode", ["backward", "recorded"])
def test_a_wrong_second_derivative_fails_at_order_two_only(mode):
    check_grads(wrong_second, [X], order=1, modes=[mode])
    with pytest.raises(AssertionError, match=rf"order 2 \({mode}\), argument 0"):
        check_grads(wrong_second, [X], order=2, modes=[mode])


def test_a_lost_path_through_the_head_gradient_fails():
    check_grads(lambda x: nd.sin(wrong_in_head(x)), [X], order=1)
    with pytest.raises(AssertionError, match="order 2"):
        check_grads(lambda x: nd.sin(wrong_in_head(x)), [X], order=2)


def test_a_wrong_third_derivative_fails():
    wrong_third = function(lambda x: x**4, lambda x, g: wrong_second(x) * 4 * g)
    check_grads(wrong_third, [X], order=2)
    with pytest.raises(AssertionError, match="order 3"):
        check_grads(wrong_third, [X], order=3)


def test_the_message_names_place_and_numbers():
    with pytest.raises(AssertionError) as failure:
        check_grads(wrong_at_one_place, [X], order=1)
    text = str(failure.value)
    assert "argument 0, position (2,)" in text
    assert "1 of 3 elements differ" in text


def test_a_wrong_second_argument_is_named():
    def f(x, y):
        return x * y + y.detach() * y

    with pytest.raises(AssertionError, match=r"order 1 .*argument 1"):
        check_grads(f, [X, X + 1], order=1)


def test_a_wrong_mixed_derivative_fails():
    class Product(autograd.Function):
        def forward(self, x, y):
            self.save_for_backward(x, y)
            return x * y

        def backward(self, g):
            x, y = self.saved_tensors
            return g * y.detach(), g * x

    with pytest.raises(AssertionError, match="order 2"):
        check_grads(lambda x, y: Product()(x, y), [X, X + 1], order=2)


def test_arguments_that_are_not_floats_are_handed_on():
    rows = np.array([2, 0])
    check_grads(lambda x, i: nd.take(x, i) * 2, [X, rows], order=2)
    with pytest.raises(AssertionError, match="argument 1"):
        check_grads(lambda i, x: nd.take(x.detach(), i) * x.sum() * 2, [rows, X], order=1)


def test_float32_arguments_are_checked_in_float64():
    check_grads(lambda x: x * x * x, [nd.array([0.1, 3.0])], order=3)


def test_linear_and_constant_functions_have_zero_higher_derivatives():
    check_grads(lambda x: 3 * x, [X], order=3)
    check_grads(lambda x, y: 3 * x, [X, X], order=2)


def test_scalars_and_empty_arrays():
    check_grads(lambda x: x * x, [2.0], order=3)
    check_grads(lambda x: x * x, [np.zeros((0, 2))], order=2)


def test_a_gradient_of_nan_fails():
    with pytest.raises(AssertionError, match="nan"):
        check_grads(function(lambda x: x * x, lambda x, g: g * float("nan")), [X], order=1)


def test_unknown_modes():
    with pytest.raises(ValueError, match="modes"):
        check_grads(lambda x: x, [X], modes=["forward"])
    with pytest.raises(ValueError, match="order"):
        check_grads(lambda x: x, [X], order=0)


# nbgrad.test_utils.


def test_arrays_are_compared_exactly_or_by_the_less_precise_dtype():
    x = nd.array([1.0, 2.0], dtype="float64")
    assert test_utils.same(x, [1, 2]) and not test_utils.same(x, [1, 2, 3]) and not test_utils.same([np.nan], [np.nan])
    assert test_utils.almost_equal(x, x + 1e-6) and not test_utils.almost_equal(x, x + 1e-4)
    assert test_utils.almost_equal(x, (x + 1e-4).astype("float32"))
    assert test_utils.almost_equal(x, (x + 1e-2).astype("float16"))
    assert not test_utils.almost_equal(nd.array([1, 2], dtype="int32"), np.array([1, 3]))
    assert test_utils.almost_equal([np.nan], [np.nan], equal_nan=True)


def test_assert_almost_equal_shows_the_worst_place():
    x = nd.array([[1.0, 2.0], [3.0, 4.0]])
    test_utils.assert_almost_equal(x, x.asnumpy())
    test_utils.assert_almost_equal(x, x + 1, atol=1)
    message = r"found and right differ .* in 2 of 4 elements, the most at \(1, 0\): 3\.0 and 9\.0"
    with pytest.raises(AssertionError, match=message):
        test_utils.assert_almost_equal(x, [[1, 2.5], [9, 4]], names=("found", "right"))
    with pytest.raises(AssertionError, match=r"at \(1,\): 2\.0 and nan"):
        test_utils.assert_almost_equal([1.0, 2.0], [1.1, np.nan])


def test_assert_exception():
    test_utils.assert_exception(nd.dot, nb.MXNetError, nd.ones((2, 3)), nd.ones((2, 3)))
    with pytest.raises(AssertionError, match="ValueError was not raised"):
        test_utils.assert_exception(nd.exp, ValueError, nd.ones(2))


def test_check_numeric_gradient():
    test_utils.check_numeric_gradient(lambda x, y: nd.dot(x, y), [np.ones((2, 3)), nd.ones((3, 2))])
    with pytest.raises(AssertionError, match="order 1"):
        test_utils.check_numeric_gradient(function(nd.sin, lambda x, g: g * nd.sin(x)), [X])


def test_random_arrays_follow_the_seed():
    def draw():
        nb.random.seed(3)
        made = test_utils.random_arrays((2, 2), (3,))
        shapes = test_utils.rand_shape_2d(3, 1), test_utils.rand_shape_3d(2, 2, 2), test_utils.rand_shape_nd(4, 2)
        return [*made, *shapes, test_utils.rand_ndarray((20, 20), "csr", density=0.5).asnumpy()]

    first, again = draw(), draw()
    assert all(test_utils.same(a, b) for a, b in zip(first, again, strict=True))
    assert first[0].dtype == "float32" and len(first[4]) == 4 and first[2][1] == 1
    assert test_utils.random_arrays(()).shape == () and 100 < (first[5] == 0).sum() < 300
    x = test_utils.rand_ndarray((2,), "csr", dtype="float64")
    assert x.stype == "csr" and x.dtype is np.float64 and test_utils.default_context() == nb.cpu()
