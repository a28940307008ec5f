"""What is made of a function goes to other processes: where it is found, or how it is made, and nothing compiled."""

import copy
import multiprocessing
import pickle

import numba
import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd


def energy(x, k):
    total = 0.0
    for i in range(x.size):
        total += k * x[i] ** 2
    return total


def summed(x):
    return nd.sum(x * x)


def powers(x, n):
    return nd.sum(x**n)


@nb.adjoint
def decorated(x):
    total = 0.0
    for i in range(x.size):
        total += x[i] ** 3
    return total


@nb.primitive
@numba.njit
def halved(x):
    return 0.5 * x


@halved.defvjp
@numba.njit
def halved_vjp(g, y, x):
    return 0.5 * g


@nb.jit
def compiled(x):
    return nd.sum(x * x)


X = np.array([1.0, 2.0, 3.0])
gradient = nb.adjoint(energy, argnums=0)
MADE = [
    (gradient, lambda f: f.value_and_grad(X.copy(), 0.5)),
    (nb.adjoint(energy, checkpoint=2), lambda f: f.vjp(X.copy(), 0.5)(1.0)),
    (nb.tangent(energy), lambda f: f.jvp((X, 0.5), (X, 1.0))),
    (nb.adjoint(nb.tangent(energy)), lambda f: f.vjp(X, 0.5, X, 1.0)((0.0, 1.0))),
    (nb.primitive(numba.njit(energy)), lambda f: nb.grad(f)(nd.array(X), 0.5)),
    (nb.jit(summed), lambda f: nb.grad(f)(nd.array(X))),
    (nb.jit(powers, static_argnames="n"), lambda f: f(nd.array(X), 3)),
]
NAMED = [
    (decorated, lambda f: f.value_and_grad(X)),
    (halved, lambda f: nb.grad(lambda x: nd.sum(f(x)))(nd.array(X))),
    (compiled, lambda f: f(nd.array(X))),
]


def listed(value):
    if isinstance(value, tuple):
        return [v for item in value for v in listed(item)]
    return [value if isinstance(value, str) else np.asarray(getattr(value, "asnumpy", lambda: value)())]


@pytest.mark.parametrize("made, use", MADE, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("there_and_back", [lambda f: pickle.loads(pickle.dumps(f)), copy.deepcopy, copy.copy])
def test_made_again(made, use, there_and_back):
    before = use(made)
    again = there_and_back(made)
    assert again is not made
    for a, b in zip(listed(before), listed(use(again)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("made, use", NAMED, ids=lambda v: getattr(v, "__name__", ""))
def test_found_by_name(made, use):
    use(made)
    text = pickle.dumps(made)
    assert pickle.loads(text) is made and copy.deepcopy(made) is made
    assert len(text) < 200


def test_another_name_is_not_taken_for_it():
    assert pickle.loads(pickle.dumps(nb.adjoint(energy))).value_and_grad(X, 1.0)[0] == 14.0


def test_local_functions_have_no_name():
    def local(x):
        return x * x

    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(nb.adjoint(local))


def test_worker_processes():
    expected = gradient.value_and_grad(X, 2.0)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        value, x_bar = pool.apply(gradient.value_and_grad, (X, 2.0))
        np.testing.assert_array_equal(pool.apply(decorated.value_and_grad, (X,))[1][0], 3 * X**2)
    assert value == expected[0]
    np.testing.assert_array_equal(x_bar, expected[1])
