"""Cotangents that are zero contribute zero on a device, too."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd


def guarded(x):
    return nd.where(x > 0, nd.sqrt(x), 0 * x)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_poles_that_are_not_taken(compiled):
    x = nd.array([0.0, 4.0, 0.0], dtype="float64", ctx=nb.gpu(0))
    f = guarded
    for expected in ([0, 0.25, 0], [0, -0.03125, 0]):
        f = nb.elementwise_grad(f)
        found = (nb.jit(f) if compiled else f)(x)
        assert found.ctx == nb.gpu(0)
        np.testing.assert_array_equal(found.asnumpy(), expected)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "prod", "cumprod"])
def test_rows_that_are_not_taken(name, compiled):
    rows = nd.array([[-np.inf, -np.inf], [np.nan, 1.0], [1.0, 2.0]], dtype="float64", ctx=nb.gpu(0))
    taken = nd.array([[0.0], [0.0], [1.0]], dtype="float64", ctx=nb.gpu(0))
    f = getattr(nd, name)

    def total(x):
        y = f(x, axis=1, keepdims=True) if name == "prod" else f(x, axis=1)
        return nd.sum(nd.where(taken, y * y, 0 * nd.ones_like(y)))

    g = nb.grad(total)
    found = (nb.jit(g) if compiled else g)(rows).asnumpy()
    np.testing.assert_array_equal(found[:2], 0)
    assert np.isfinite(found[2]).all() and found[2].any()
