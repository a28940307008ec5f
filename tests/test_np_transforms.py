"""Functions of nbgrad.np in transforms: what they get, in which class results come, and no gradient that is lost."""

import copy
import pickle

import numpy
import pytest
from scipy.optimize import minimize

import nbgrad as nb
import nbgrad.np as np
from nbgrad import autograd, nd
from nbgrad.core.conventions import EITHER, NUMPY
from nbgrad.core.registry import operators
from nbgrad.errors import DTypeError, LinAlgError, LostGradientError
from nbgrad.operators.cast import reinterpreted


def loss(x):
    return np.sum(np.sin(x) * x)


def slope(x):
    return numpy.cos(x) * x + numpy.sin(x)


X = numpy.array([0.5, 1.0, 2.0])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("make", [numpy.array, np.array])
def test_arrays_of_either_library(make, compiled):
    gradient = nb.jit(nb.grad(loss)) if compiled else nb.grad(loss)
    found = gradient(make(X))
    assert type(found) is type(make(X))
    numpy.testing.assert_allclose(numpy.asarray(found), slope(X), rtol=1e-13)


@pytest.mark.parametrize("compiled", [False, True])
def test_numbers_and_trees(compiled):
    def f(p):
        assert all(isinstance(v, np.ndarray) for v in p.values())
        return np.sum(p["a"] * p["b"]) + np.sin(p["b"])

    call = nb.jit(nb.value_and_grad(f)) if compiled else nb.value_and_grad(f)
    value, gradient = call({"a": numpy.ones(2), "b": 3.0})
    numpy.testing.assert_allclose(value, 6 + numpy.sin(3.0))
    numpy.testing.assert_allclose(gradient["a"], [3, 3])
    assert type(gradient["b"]) is float
    numpy.testing.assert_allclose(gradient["b"], 2 + numpy.cos(3.0))
    assert nb.grad(np.sin)(0.0) == 1.0
    assert nb.jit(np.sin)(0.0) == 0.0


def test_all_transforms():
    f = nb.ScipyObjective(loss, X)
    numpy.testing.assert_allclose(f.fun_and_jac(X)[1], slope(X))
    assert minimize(nb.ScipyObjective(lambda x: np.sum(np.abs(x - 1.0) ** 2), X).fun, X).x.round(3).tolist() == [1] * 3
    nb.testing.check_grads(loss, [X])
    numpy.testing.assert_allclose(nb.jacobian(lambda x: np.cumsum(x))(X), numpy.tri(3))
    numpy.testing.assert_allclose(nb.hvp(loss)(X, numpy.ones(3)), 2 * numpy.cos(X) - X * numpy.sin(X))
    numpy.testing.assert_allclose(nb.jvp(loss, (X,), (numpy.ones(3),))[1], slope(X).sum())
    numpy.testing.assert_allclose(nb.vjp(loss, X)[1](1.0)[0], slope(X))
    (J,) = [nb.jacobian_operator(lambda x: x[:2] * x[1:], X)]
    numpy.testing.assert_allclose(J @ numpy.ones(3), [1.5, 3.0])


def test_arrays_of_nd_decide():
    w = nd.array([1.0, 2.0, 3.0], dtype="float64")
    seen = []

    def f(x):
        y = x * w
        seen.append((type(x), type(y), nd.sum(y).shape))
        return nd.sum(y)

    assert nb.grad(f)(X).tolist() == [1, 2, 3]
    assert nb.jit(nb.grad(f))(X).tolist() == [1, 2, 3]
    assert seen == [(np.ndarray, nb.NDArray, (1,))] * 2
    nb.grad(f)(nd.array(X))
    assert seen[-1][0] is nb.NDArray
    with pytest.raises(DTypeError, match="operands of nd and of np"):
        nb.grad(f)(np.array(X))


def test_loops_follow_what_their_states_meet():
    h = nd.ones(2, dtype="float64")

    def f(x):
        def step(row, state):
            return nd.sum(state, axis=0, keepdims=True), state * row + h

        outs, state = nd.contrib.foreach(step, x, x[0])
        return nd.sum(outs * outs) + nd.sum(state)

    x = numpy.arange(6.0).reshape(3, 2)
    numpy.testing.assert_allclose(nb.jit(nb.grad(f))(x), nb.grad(f)(x))


def arrays_of(sample, conventions, dtype):
    arrays = []
    for values in sample.draw():
        values = values.astype(dtype) if dtype and values.dtype.kind == "f" else values
        arrays.append(reinterpreted(nd.array(values, dtype=values.dtype), conventions))
    return arrays


@pytest.mark.parametrize("conventions", [NUMPY, EITHER])
@pytest.mark.parametrize("dtype", [None, "int32"])
def test_every_operator_gives_the_class_of_its_operands(dtype, conventions):
    """Operators make no array of nd inside, which would be refused, or decide."""
    for entry in operators.values():
        for sample in entry.samples:
            if sample.changes or (dtype and not sample.ints) or not sample.inputs:
                continue
            scope = autograd.train_mode() if sample.training else autograd.predict_mode()
            nb.random.seed(0)
            with scope:
                found = entry.call(*arrays_of(sample, conventions, dtype), **sample.attrs)
            for y in found if isinstance(found, list | tuple) else [found]:
                if isinstance(y, nb.NDArray):
                    assert y._kind.conventions is conventions, f"{entry.name}, {sample!r}"


# Gradients that were lost.


def test_edges_of_histograms():
    x = numpy.array([0.3, 0.4, 0.8])
    numpy.testing.assert_allclose(nb.grad(lambda x: np.histogram(x, 2)[1][0])(x), [1, 0, 0])
    numpy.testing.assert_allclose(nb.grad(lambda x: np.histogram(x, 2)[1][1])(x), [0.5, 0, 0.5])

    def densest(x):
        return np.histogram(x, 2, density=True)[0][0]

    differences = [(densest(np.array(x + d)) - densest(np.array(x - d))) / 2e-6 for d in numpy.eye(3) * 1e-6]
    numpy.testing.assert_allclose(nb.grad(densest)(x), [float(d) for d in differences], rtol=1e-6, atol=1e-9)


def test_copies_and_pickles():
    assert nb.grad(lambda x: np.sum(copy.copy(x) * copy.deepcopy(x)))(numpy.array([3.0, 2.0])).tolist() == [6, 4]
    with pytest.raises(LostGradientError, match="pickle: the array is recorded"):
        nb.grad(lambda x: np.sum(pickle.loads(pickle.dumps(x))))(X)
    x = np.array(X)
    x.attach_grad()
    assert (pickle.loads(pickle.dumps(x)) == x).all()
    assert type(copy.deepcopy(x)) is np.ndarray
    assert pickle.loads(pickle.dumps(np.sin)) is np.sin
    assert pickle.loads(pickle.dumps(nb.jit(np.tanh)))(0.5) == nb.jit(np.tanh)(0.5)
    assert copy.deepcopy(np.add) is np.add


def test_lists_of_recorded_arrays():
    for f in (
        lambda x: np.mean([x[0], x[1] * 3]),
        lambda x: np.max([x[0], x[1]]) * 2.0,
        lambda x: np.dot([x[0], x[1]], [2.0, 3.0]),
        lambda x: np.concatenate([[x[0] ** 2], x]).sum(),
        lambda x: np.linalg.det([[x[0], 1.0], [x[1], 2.0]]),
    ):
        differences = [(f(np.array(X + d)) - f(np.array(X - d))) / 2e-6 for d in numpy.eye(3) * 1e-6]
        numpy.testing.assert_allclose(nb.grad(f)(X), [float(d) for d in differences], rtol=1e-6, atol=1e-9)


def test_no_spread():
    assert nb.grad(np.nanstd)(numpy.array([2.0, 2.0])).tolist() == [0, 0]
    numpy.testing.assert_allclose(nb.grad(np.nanstd)(numpy.array([2.0, 4.0, numpy.nan])), [-0.5, 0.5, 0])


def test_singular_matrices():
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.inv(np.zeros((2, 2)))
    for kind in (numpy.linalg.LinAlgError, LinAlgError, nb.NBGradError, ValueError):
        with pytest.raises(kind):
            np.linalg.cholesky(-np.eye(2))


# Compiled.


def test_indices_in_compiled_functions():
    x = numpy.arange(6.0).reshape(3, 2)
    labels = numpy.array([0, 1, 1])
    for f in (
        lambda z: np.sum(z[np.arange(3), 1] ** 2),
        lambda z: np.sum(z[np.arange(3), labels] ** 2),
        lambda z: np.sum(z[np.arange(3), [0, 1, 1]] ** 2),
    ):
        numpy.testing.assert_allclose(nb.jit(nb.grad(f))(x), nb.grad(f)(x))


def two_rates(p):
    u = p
    for _ in range(60):
        k = np.array([p[0] * u[0] - u[0] * u[1], p[1] * u[0] * u[1]])
        k2 = np.array([p[0] * (u + k)[0] - k[0] * u[1], p[1] * u[0] * k[1]])
        u = u + 0.1 * k + 0.01 * k2
    return (u * u).sum()


def moved(x):
    for _ in range(400):
        x = np.concatenate([x[1:], x[:1] * 0.99])
    return (x * x).sum()


@pytest.mark.parametrize("f", [two_rates, moved])
def test_long_chains_of_parts(f):
    """What is read through is read only so deep."""
    x = numpy.array([0.5, 0.2])
    numpy.testing.assert_allclose(nb.jit(nb.grad(f))(x), nb.grad(f)(x), rtol=1e-10)


def test_functions_that_return_arrays_of_np():
    class Twice(autograd.Function):
        def forward(self, x):
            return np.array(2 * x.asnumpy())

        def backward(self, g):
            return np.array(2 * g.asnumpy())

    f = lambda x: np.sum(Twice()(x) * x)  # noqa: E731
    numpy.testing.assert_allclose(nb.jit(nb.grad(f))(X), nb.grad(f)(X))
    numpy.testing.assert_allclose(nb.grad(f)(X), 4 * X)


@pytest.mark.parametrize("compiled", [False, True])
def test_totals_in_place(compiled):
    """Single numbers are not written while recording: the name is bound to a new one, as with NumPy's numbers."""

    def f(x):
        total = 0.0
        for k in range(3):
            total += x[k] ** 2
        total *= x[0]
        return total

    gradient = nb.jit(nb.grad(f)) if compiled else nb.grad(f)
    x = numpy.array([1.0, 2.0, 3.0])
    numpy.testing.assert_allclose(gradient(x), 2 * x * x[0] + [(x * x).sum(), 0, 0])


@pytest.mark.parametrize("name", ["item", "tolist"])
def test_numbers_of_recorded_arrays(name):
    with pytest.raises(LostGradientError, match=rf"x\.{name}\(\) of an array that is being recorded"):
        nb.grad(lambda x: getattr(x[0], name)() * x[1])(X)
    assert nb.grad(lambda x: x[0].detach().item() * x[1])(X).tolist() == [0, 0.5, 0]


def test_draws_without_a_derivative():
    for f in (
        lambda p: np.mean(np.random.default_rng(1).poisson(p, size=5)),
        lambda p: np.mean(np.random.default_rng(1).binomial(10, p / 10, size=5)),
        lambda p: np.sum(np.random.default_rng(1).choice(2, 5, p=np.array([p / 10, 1 - p / 10]))) * 1.0,
    ):
        with pytest.raises(LostGradientError, match="the numbers drawn are integers"):
            nb.grad(f)(3.0)
    assert np.random.default_rng(1).integers([1, 10], [5, 20]).shape == (2,)
    items = list("abcd")
    np.random.default_rng(1).shuffle(items)
    assert sorted(items) == list("abcd")


def test_bools_given_to_transforms():
    """What is refused of arrays of np is refused of those that stand for NumPy's."""
    for f in (lambda x, b: np.sum(x * (-b)), lambda x, b: np.sum(x * (b - b))):
        for transform in (nb.grad, lambda f: nb.jit(nb.grad(f))):
            with pytest.raises(DTypeError, match="operands of dtype bool are not supported"):
                transform(f)(X, numpy.array([True, False, True]))
