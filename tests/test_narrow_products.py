"""Products of a long matrix and a narrow one: every routine, in operators, compiled functions and loops."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.kernels.narrow_products import ROUTINES, product_routine
from nbgrad.loops.runtime.products import add_product

RNG = np.random.default_rng(3)

#: (m, k, n), transpose_a, transpose_b -> routine; k or m beyond one block, and lengths that are no multiples of four.
CASES = {
    "narrow": [((5, 67, 3), False, True), ((6, 64, 16), False, True), ((3, 1031, 1), False, True)],
    "narrow_columns": [((515, 65, 3), False, False), ((513, 1030, 16), False, False), ((512, 64, 7), False, False)],
    "narrow_transposed": [((3, 66, 65), True, False), ((16, 7, 1029), True, False), ((1, 5, 64), True, False)],
    "narrow_transposed_columns": [
        ((65, 514, 3), True, False),
        ((1029, 515, 16), True, False),
        ((64, 512, 2), True, False),
    ],
    "gemm": [((515, 65, 17), False, False), ((20, 600, 17), True, False), ((515, 65, 3), True, True)],
}
EVERY = [(name, *case) for name, cases in CASES.items() for case in cases]


def operands(sizes, transpose_a, transpose_b, dtype):
    m, k, n = sizes
    a, b = (
        RNG.standard_normal((k, m) if transpose_a else (m, k)),
        RNG.standard_normal((n, k) if transpose_b else (k, n)),
    )
    return a.astype(dtype), b.astype(dtype)


def exact(a, b, transpose_a, transpose_b):
    a, b = a.astype("float64"), b.astype("float64")
    return (a.T if transpose_a else a) @ (b.T if transpose_b else b)


def tolerances(dtype, k):
    return {"rtol": 0, "atol": 8 * np.finfo(dtype).eps * k}


def test_every_routine_has_cases():
    assert set(CASES) == set(ROUTINES)
    for name, (m, k, n), transpose_a, transpose_b in EVERY:
        assert product_routine(transpose_a, transpose_b, m, k, n) == name


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name, sizes, transpose_a, transpose_b", EVERY)
def test_operator(name, sizes, transpose_a, transpose_b, dtype):
    a, b = operands(sizes, transpose_a, transpose_b, dtype)
    y = nd.dot(nd.array(a, dtype=dtype), nd.array(b, dtype=dtype), transpose_a=transpose_a, transpose_b=transpose_b)
    np.testing.assert_allclose(y.asnumpy(), exact(a, b, transpose_a, transpose_b), **tolerances(dtype, sizes[1]))


@pytest.mark.parametrize("name", ROUTINES)
def test_compiled_function_and_gradients(name):
    sizes, transpose_a, transpose_b = CASES[name][1]
    a, b = operands(sizes, transpose_a, transpose_b, "float64")
    weights = RNG.standard_normal((sizes[0], sizes[2]))

    def f(a, b, w):
        return nd.sum(nd.dot(a, b, transpose_a=transpose_a, transpose_b=transpose_b) * w)

    value, (da, db) = nb.jit(nb.value_and_grad(f, (0, 1)))(a, b, weights)
    np.testing.assert_allclose(value, np.sum(exact(a, b, transpose_a, transpose_b) * weights), rtol=0, atol=1e-9)
    g = exact(weights, b, False, not transpose_b)
    np.testing.assert_allclose(da, g.T if transpose_a else g, **tolerances("float64", sizes[2] + 8))
    g = exact(a, weights, not transpose_a, False)
    np.testing.assert_allclose(db, g.T if transpose_b else g, **tolerances("float64", sizes[0] + 8))


def test_regression_in_tiles_of_rows():
    """Where `x` is long, it is read in tiles: for scores, and at once for the gradient of the weights."""
    x, w, y = RNG.standard_normal((3001, 97)), RNG.standard_normal((97, 5)), RNG.standard_normal((3001, 5))

    def loss(w, x, y):
        return nd.sum(nd.square(nd.tanh(nd.dot(x, w)) - y))

    value, gradient = nb.jit(nb.value_and_grad(loss))(w, x, y)
    h = np.tanh(x @ w)
    np.testing.assert_allclose(float(value), np.sum((h - y) ** 2), rtol=1e-12)
    expected = x.T @ (2 * (h - y) * (1 - h * h))
    np.testing.assert_allclose(np.asarray(gradient), expected, rtol=1e-10, atol=1e-10)
    eager = nd.array(w, dtype="float64")
    eager.attach_grad()
    with autograd.record():
        loss(eager, nd.array(x, dtype="float64"), nd.array(y, dtype="float64")).backward()
    np.testing.assert_allclose(eager.grad.asnumpy(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name, sizes, transpose_a, transpose_b", EVERY)
def test_in_loops(name, sizes, transpose_a, transpose_b, dtype):
    """Added to what is there, with a factor; operands with gaps between rows, and a result stored transposed, too."""
    a, b = operands(sizes, transpose_a, transpose_b, dtype)
    product = exact(a, b, transpose_a, transpose_b)
    for spread in (False, True):
        if spread:
            a, b = np.repeat(a, 2, axis=1)[:, ::2], np.repeat(b, 2, axis=1)[:, : b.shape[1] * 2 : 2]
        for turned in (False, True):
            start = RNG.standard_normal(product.shape).astype(dtype)
            c = start.T.copy().T if turned else start.copy()
            add_product(c, a.T if transpose_a else a, b.T if transpose_b else b, -0.5)
            np.testing.assert_allclose(c, start - 0.5 * product, **tolerances(dtype, sizes[1]))
