"""A cotangent that is zero contributes zero in operators along an axis, too: rows that are not taken, at any values."""

import functools

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd

inf, nan = np.inf, np.nan
ROWS = np.array(
    [
        [-inf, -inf, -inf],
        [inf, 1.0, 2.0],
        [nan, 1.0, 2.0],
        [inf, -inf, inf],
        [0.0, -inf, 0.0],
        [0.0, 0.0, 0.0],
        [1e200, 1e-320, -1e200],
        [0.5, 1.0, 2.0],
    ]
)
TAKEN = np.arange(len(ROWS)) == len(ROWS) - 1
FUNCTIONS = {
    "softmax": nd.softmax,
    "softmax_columns": lambda x: nd.transpose(nd.softmax(nd.transpose(x), axis=0)),
    "softmax_temperature": lambda x: nd.softmax(x, temperature=2.0),
    "softmin": nd.softmin,
    "log_softmax": nd.log_softmax,
    "log_softmax_columns": lambda x: nd.transpose(nd.log_softmax(nd.transpose(x), axis=0)),
    "prod": lambda x: nd.prod(x, axis=1, keepdims=True),
    "prod_columns": lambda x: nd.transpose(nd.prod(nd.transpose(x), axis=0, keepdims=True)),
    "nanprod": lambda x: nd.nanprod(x, axis=1, keepdims=True),
    "cumprod": lambda x: nd.cumprod(x, axis=1),
    "logcumsumexp": lambda x: nd.logcumsumexp(x, axis=1),
    "logsumexp": lambda x: nd.logsumexp(x, axis=1, keepdims=True),
    "norm": lambda x: nd.norm(x, axis=1, keepdims=True),
    "std": lambda x: nd.std(x, axis=1, keepdims=True),
    "L2Normalization": nd.L2Normalization,
}


def masked(f):
    """The sum of `f` over the rows that are taken."""

    def total(x):
        taken = nd.array(TAKEN[:, None], dtype=x.dtype)
        y = f(x)
        return nd.where(taken, y, nd.zeros_like(y)).sum()

    return total


def derivative(f, order):
    """Of that order, along a direction after the first."""
    g = nb.grad(f)
    for _ in range(order - 1):
        g = nb.grad(lambda x, g=g: (g(x) * nd.array([1.0, -2.0, 3.0], dtype=x.dtype)).sum())
    return g


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_that_are_not_taken(name, compiled):
    f, x, last = FUNCTIONS[name], nd.array(ROWS), nd.array(ROWS[TAKEN])
    for order in (1, 3) if compiled else (1, 2, 3):
        g = derivative(masked(f), order)
        found = (nb.jit(g) if compiled else g)(x).asnumpy()
        np.testing.assert_array_equal(found[~TAKEN], 0, f"order {order}")
        expected = derivative(lambda x: f(x).sum(), order)(last).asnumpy()
        np.testing.assert_allclose(found[TAKEN], expected, rtol=1e-10, atol=1e-14, err_msg=f"order {order}")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "prod", "cumprod"])
def test_of_other_dtypes(name, dtype):
    with np.errstate(over="ignore"):
        x = nd.array(ROWS.astype(dtype))
    found = nb.grad(masked(FUNCTIONS[name]))(x).asnumpy()
    np.testing.assert_array_equal(found[~TAKEN], 0)
    assert np.isfinite(found).all()


def test_what_is_taken_stays_nan():
    x = nd.array([[nan, 1.0], [0.0, 1.0]], dtype="float64")
    for f in (nd.softmax, nd.log_softmax):
        found = nb.grad(lambda x, f=f: f(x)[:, 0].sum())(x).asnumpy()
        assert np.isnan(found[0]).all() and np.isfinite(found[1]).all()


ATTENTION = functools.partial(nd.array, dtype="float64")


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_a_fully_masked_row_of_attention(compiled):
    """Scores that are all -inf give NaN weights, which a condition drops."""
    mask = ATTENTION([[1.0, 1.0], [0.0, 0.0]])

    def loss(scores):
        weights = nd.softmax(nd.where(mask, scores, -inf * nd.ones_like(scores)))
        return nd.square(nd.where(mask, weights, nd.zeros_like(weights)) * ATTENTION([1.0, 2.0])).sum()

    scores = ATTENTION([[0.0, 1.0], [2.0, 3.0]])
    g = nb.grad(loss)
    found = (nb.jit(g) if compiled else g)(scores).asnumpy()
    assert np.isfinite(found).all() and (found[0] != 0).all() and (found[1] == 0).all()
    h = nb.hessian(loss)
    second = (nb.jit(h) if compiled else h)(scores).asnumpy()
    assert np.isfinite(second).all() and (second[0, :, 0] != 0).all()


def test_second_derivatives_where_cotangents_are_zero():
    """A strong zero is not a constant: its derivative by the cotangent is the partial derivative."""
    x = ATTENTION([[0.5, 1.5, 1.0]])
    for f in FUNCTIONS.values():
        at = f(x).asnumpy()
        loss = lambda x, f=f, at=at: nd.square(f(x) - ATTENTION(at)).sum() / 2  # noqa: E731
        jacobian = nb.jacobian(lambda x, f=f: nd.reshape(f(x), (-1,)))(x).asnumpy().reshape(-1, 3)
        found = nb.hessian(loss)(x).asnumpy().reshape(3, 3)
        np.testing.assert_allclose(found, jacobian.T @ jacobian, rtol=1e-10, atol=1e-12)
