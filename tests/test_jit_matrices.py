"""Jacobians and Hessians in compiled functions: the rows are one sweep, of any function, to any order."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd

RNG = np.random.default_rng(5)
X = RNG.uniform(0.2, 1.2, 6)
FIXED = {
    "square": nd.array(RNG.standard_normal((6, 6))),
    "tall": nd.array(RNG.standard_normal((30, 6))),
    "wide": nd.array(RNG.standard_normal((6, 40))),
    "stack": nd.array(RNG.standard_normal((4, 3, 2))),
    "positive": nd.array(np.eye(3) * 4 + 1),
    "kernel": nd.array(RNG.standard_normal((2, 1, 2))),
    "index": nd.array([3, 0, 3, 5], dtype="int64"),
}


def mlp(x):
    h = nd.tanh(nd.dot(FIXED["tall"], x.reshape((6, 1))) + 0.1)
    return nd.dot(nd.sin(h).T, nd.dot(FIXED["tall"], FIXED["wide"]))


def cell(row, h):
    h = nd.tanh(nd.dot(FIXED["square"], h) + row)
    return nd.sum(h * h), h


def scanned(x):
    return nd.contrib.foreach(cell, nd.stack(x, x * x, nd.sin(x), axis=0), x)[0]


def chosen(x):
    return nd.contrib.cond(nd.sum(x) > 0, lambda: nd.sin(x) * x[:1], lambda: x)


FUNCTIONS = {
    "elementwise": lambda x: nd.sin(x) * x,
    "itself": lambda x: x,
    "constant": lambda x: nd.sum(x) * 0 + FIXED["square"],
    "broadcast": lambda x: x.reshape((2, 3, 1)) * nd.exp(x.reshape((1, 3, 2))),
    "reductions": lambda x: nd.sum(x.reshape((2, 3)) ** 3, axis=0) * nd.max(x) + nd.norm(x),
    "looks": lambda x: nd.concat(x[::-1] * x, x.reshape((2, 3)).T.reshape(-1)[1:4], dim=0),
    "padding": lambda x: nd.concat(x[1:] * x[:-1], x[:2] ** 2, dim=0)[::2] * x[:4],
    "indexed": lambda x: nd.take(nd.sin(x), FIXED["index"]) * x[:4],
    "softmax": lambda x: nd.softmax(x.reshape((2, 3)) ** 2, axis=0),
    "running": lambda x: nd.cumsum(x * x) * nd.cumsum(x),
    "sorted": lambda x: nd.sort(nd.sin(7 * x)) ** 2,
    "mlp": mlp,
    "narrow": lambda x: nd.dot(nd.sin(x).reshape((3, 2)), nd.exp(x).reshape((2, 3))),
    "left": lambda x: nd.dot(nd.tile(x, (20, 1)), FIXED["wide"]) ** 2 / 10,
    "right": lambda x: nd.dot(FIXED["tall"], nd.tile(nd.sin(x).reshape((6, 1)), (1, 3))) ** 2 / 10,
    "left_turned": lambda x: nd.dot(nd.tile(x.reshape((6, 1)), (1, 20)), FIXED["wide"], transpose_a=True),
    "right_turned": lambda x: nd.dot(FIXED["wide"].T, nd.tile(x, (3, 1)) ** 2, transpose_b=True),
    "stacked": lambda x: nd.batch_dot(FIXED["stack"], nd.tile(x.reshape((1, 2, 3)) ** 2, (4, 1, 1))),
    "solved": lambda x: nd.linalg.potrf(FIXED["positive"] + nd.dot(x.reshape((3, 2)), x.reshape((2, 3)))),
    "convolved": lambda x: nd.Convolution(
        (x * x).reshape((1, 1, 6)), FIXED["kernel"], kernel=(2,), num_filter=2, no_bias=True
    ),
    "scanned": scanned,
    "chosen": chosen,
}  # fmt: skip


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("mode", ["reverse", "forward"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobian(name, mode):
    transform = nb.jacobian(FUNCTIONS[name], mode=mode)
    same(nb.jit(transform)(X), transform(X))


def hessian_of(name):
    return nb.hessian(lambda x: nd.sum(nd.sin(FUNCTIONS[name](x))))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessian(name):
    same(nb.jit(hessian_of(name))(X), hessian_of(name)(X))


@pytest.mark.parametrize("name", ["broadcast", "looks", "indexed", "mlp", "right", "solved", "scanned", "chosen"])
def test_derivative_of_a_hessian(name):
    transform = nb.grad(lambda x: nd.sum(nd.cos(hessian_of(name)(x))))
    same(nb.jit(transform)(X), transform(X))


def test_trees_and_few_rows():
    def f(p):
        return {"a": p["w"] * nd.sum(p["b"]), "b": p["b"] ** 2, "c": nd.sum(p["w"]) * p["b"][:0]}

    p = {"w": X, "b": X[:1], "none": X[:0]}
    for transform in (nb.jacobian(f), nb.jacobian(f, mode="forward"), nb.hessian(lambda p: nd.sum(f(p)["a"] ** 2))):
        expected, found = transform(p), nb.jit(transform)(p)
        for one, other in expected.items():
            for two, block in other.items():
                assert found[one][two].shape == block.shape
                same(found[one][two], block) if block.size else None


def test_other_dtypes():
    transform = nb.hessian(lambda x: nd.sum(nd.tanh(x) ** 3))
    for dtype, tolerance in (("float32", 1e-5), ("float16", 1e-2)):
        found = nb.jit(transform)(X.astype(dtype))
        assert found.dtype == dtype
        np.testing.assert_allclose(found.astype("float64"), transform(X), atol=10 * tolerance)


def test_a_jacobian_of_jacobians():
    def f(x):
        return nd.sin(x[:3]) * x[3:]

    transform = nb.jacobian(nb.jacobian(nb.jacobian(f), mode="forward"))
    same(nb.jit(transform)(X), transform(X))


def test_recorded_outside():
    """On the tape, and inside loops of a compiled function."""
    hessian = nb.hessian(lambda x: nd.sum(nd.exp(x) * x[::-1]))

    def used(x):
        def body(row, h):
            h = nd.dot(hessian(row), h) * 0.1
            return nd.sum(h), h

        out, h = nd.contrib.foreach(body, nd.stack(x, x * x, axis=0), x)
        return nd.sum(nd.sin(out)) + nd.sum(h)

    for transform in (nb.value_and_grad(used), nb.value_and_grad(nb.jit(used))):
        value, gradient = nb.value_and_grad(used)(X)
        for f in (transform, nb.jit(transform)):
            found, slope = f(X)
            same(found, value)
            same(slope, gradient)


def test_pulled_in_a_loop():
    """Of what is on the tape of a compiled function, a loop's body reads numbers alone."""
    slope = nb.jacobian(lambda x: nd.sin(x) * x[::-1])

    def used(x, inside):
        rows = nd.stack(*[nd.dot(x.reshape((6, 1)), x.reshape((1, 6))) * k for k in (1, 2)], axis=0)
        made = nb.vjp(slope, x)

        def body(row, total):
            _, pull = nb.vjp(slope, x) if inside else made
            return [], total + nd.sum(pull(row)[0] ** 2)

        return nd.contrib.foreach(body, rows, nd.sum(x) * 0)[1]

    def right(x):
        return used(x, True)

    x = nd.array(X)
    same(nb.jit(right)(x).asnumpy(), used(x, False).asnumpy())
    same(nb.jit(nb.grad(right))(X), nb.grad(right)(X))
    with pytest.raises(nb.errors.TraceError, match="call vjp inside the body"):
        nb.jit(lambda x: used(x, False))(X)


def test_the_program_does_not_grow():
    def statements(n):
        f = nb.jit(nb.hessian(lambda x: nd.sum((x[1:] - x[:-1] ** 2) ** 2)))
        f(np.linspace(0, 1, n))
        return f.source().count("\n")

    assert abs(statements(40) - statements(80)) < 5 and statements(80) < 100


def test_reports_name_what_is_opaque():
    f = nb.jit(nb.jacobian(scanned))
    f(X)
    assert "foreach" in f.report() and "foreach" in f.graph()


def test_a_cotangent_as_an_index():
    class Largest(autograd.Function):
        def forward(self, x):
            return x * 2

        def backward(self, g):
            return nd.take(FIXED["square"][0], nd.argsort(g, dtype="int64")) * g

    with pytest.raises(nb.errors.TraceError, match="uses its cotangent as an index"):
        nb.jit(nb.jacobian(lambda x: Largest()(x)))(X)
