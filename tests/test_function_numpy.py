"""Functions whose backward uses NumPy: gradients are right, and a derivative of them is an error, not zero."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.errors import NBGradError

X = np.array([0.5, 0.3])


class LeftByForward(autograd.Function):
    def forward(self, x):
        self.slope = np.cos(x.asnumpy())
        return nd.array(np.sin(x.asnumpy()))

    def backward(self, g):
        return g * nd.array(self.slope)


class LeftInAList(LeftByForward):
    def forward(self, x):
        y = super().forward(x)
        self.slopes = [self.slope]
        del self.slope
        return y

    def backward(self, g):
        return g * nd.array(self.slopes[0])


class OfSavedInputs(autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return nd.sin(x)

    def backward(self, g):
        return g * nd.array(np.cos(self.saved_tensors[0].asnumpy()))


class OfTheGradient(OfSavedInputs):
    def backward(self, g):
        return nd.array(g.asnumpy()) * nd.cos(self.saved_tensors[0])


@pytest.mark.parametrize("made", [LeftByForward, LeftInAList, OfSavedInputs, OfTheGradient])
def test_second_derivatives_are_errors(made):
    def loss(x):
        return nd.sum(made()(x) ** 2)

    np.testing.assert_allclose(nb.grad(loss)(X), np.sin(2 * X), rtol=1e-6)
    with pytest.raises(NBGradError, match="numbers of NumPy, whose derivative is not known"):
        nb.hvp(loss)(X, np.ones(2))
    with pytest.raises(NBGradError, match="numbers of NumPy, whose derivative is not known"):
        nb.hessian(loss)(X)


@pytest.mark.parametrize("made", [LeftByForward, OfSavedInputs])
def test_gradients_are_recorded_and_may_be_used(made):
    """As in a penalty of what does not depend on the Function's gradient."""
    x = nd.array(X)
    x.attach_grad()
    with autograd.record():
        y = made()(x)
        (g,) = autograd.grad(y, [x], create_graph=True)
        z = nd.sum(g.detach() * x)
    z.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), np.cos(X), rtol=1e-6)


class Weights(autograd.Function):
    def __init__(self, weights):
        super().__init__()
        self.weights = weights

    def forward(self, x):
        return nd.array(x.asnumpy() * self.weights)

    def backward(self, g):
        return g * nd.array(self.weights)


class Given(autograd.Function):
    def forward(self, x, weights):
        self.weights = weights
        return nd.array(x.asnumpy() * weights)

    def backward(self, g):
        return g * nd.array(self.weights)


class Declared(autograd.Function):
    max_order = 2

    def forward(self, x):
        self.weights = np.array([2.0, 3.0])
        return nd.array(x.asnumpy() * self.weights)

    def backward(self, g):
        return g * nd.array(self.weights)


class Masked(autograd.Function):
    def forward(self, x):
        self.mask = x.asnumpy() > 0.4
        return nd.array(np.where(self.mask, x.asnumpy(), 0))

    def backward(self, g):
        return nd.where(nd.array(self.mask), g, nd.zeros_like(g))


@pytest.mark.parametrize("f, factors", [
    (lambda x: Weights(np.array([2.0, 3.0]))(x), [2, 3]), (lambda x: Given()(x, np.array([2.0, 3.0])), [2, 3]),
    (lambda x: Declared()(x), [2, 3]), (lambda x: Masked()(x), [1, 0]),
])  # fmt: skip
def test_constants_of_numpy(f, factors):
    found = nb.hvp(lambda x: nd.sum(f(x) ** 2))(X, np.ones(2))
    np.testing.assert_allclose(found, 2.0 * np.array(factors) ** 2, rtol=1e-15)
