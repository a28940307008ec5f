"""Faults of MXNet 1.9 that are not ours, where test_decisions has no row about them; each named like a sentence."""

import threading

import numpy as np
import pytest
from recording import marked, values

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.testing import check_grads


def test_recording_ends_with_the_outer_scope_when_the_same_scope_was_entered_twice():
    scope = autograd.record()
    with scope, scope:
        assert autograd.is_recording()
    assert not autograd.is_recording()


def test_the_operator_reshape_does_not_truncate():
    with pytest.raises(ValueError, match="Cannot reshape array of size 6"):
        nd.reshape(nd.ones((2, 3)), shape=(2, 2))


def test_none_cannot_be_assigned():
    x = nd.ones((2,))
    with pytest.raises(TypeError, match="None is not a number"):
        x[0] = None
    assert values(x) == [1, 1]


def test_the_second_derivatives_of_arcsinh_and_arccosh_have_the_right_sign():
    for f, at, second in ((nd.arcsinh, 2.0, -2 / 5**1.5), (nd.arccosh, 2.0, -2 / 3**1.5)):
        x = marked([at])
        with autograd.record():
            g = autograd.grad(f(x), x, create_graph=True)
        g.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), [second], rtol=1e-14)


def test_the_second_derivative_of_a_linear_operator_is_zero():
    x = marked([1.0, 2.0])
    with autograd.record():
        g = autograd.grad(nd.sum(x * 3), x, create_graph=True)
        y = nd.sum(g * g) + nd.sum(x * 0)
    y.backward()
    assert values(x.grad) == [0, 0]


def test_threads_have_their_own_state():
    seen = []
    with autograd.record():
        thread = threading.Thread(target=lambda: seen.append((autograd.is_recording(), autograd.is_training())))
        thread.start()
        thread.join()
    assert seen == [(False, False)]


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (lambda x, w, b: nd.FullyConnected(x, w, b, num_hidden=2), [(2, 3), (2, 3), (2,)]),
        (lambda x, w: nd.FullyConnected(x, w, num_hidden=2, no_bias=True), [(2, 3), (2, 3)]),
        (lambda x: nd.clip(x, 0.2, 0.7), [(2, 3)]),
        (lambda x: nb.random.seed(1) or nd.Dropout(x, mode="always"), [(2, 3)]),
    ],
)
def test_the_hessian_of_the_sine_of_fully_connected_clip_and_dropout_is_right(f, shapes):
    check_grads(lambda *a: nd.sin(f(*a)), [np.linspace(0.1, 0.9, int(np.prod(s))).reshape(s) for s in shapes])


def test_the_gradient_of_the_zeroth_power_at_zero_is_zero_for_an_array_of_exponents_too():
    x = marked([0.0, 0.0])
    with autograd.record():
        g = autograd.grad(x ** nd.array(np.array([0.0, 1.0])), x, create_graph=True)
    g.backward()
    assert values(g) == [0, 1] and values(x.grad) == [0, 0]


def test_a_product_with_zeros_has_its_second_derivatives():
    check_grads(nd.prod, [[0.0, 2.0, 3.0]], order=3)
    check_grads(nd.prod, [[0.0, 0.0, 3.0]], order=3)


def test_numpy_sees_an_array_of_numbers():
    a = np.array(nd.array([[1.0, 2.0]]))
    assert a.dtype == "float32" and a.shape == (1, 2)


def test_a_mask_that_does_not_fit_is_an_error():
    with pytest.raises(IndexError):
        nd.ones((3,))[np.array([True, False])]
