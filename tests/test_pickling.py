"""What is made of a function goes to other processes: where it is found, or how it is made, and nothing compiled."""

import copy
import inspect
import multiprocessing
import pickle
import warnings
from functools import partial

import numba
import numpy as np
import pytest
from numba import cloudpickle

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.core.registry import operators


def energy(x, k):
    total = 0.0
    for i in range(x.size):
        total += k * x[i] ** 2
    return total


def summed(x):
    return nd.sum(x * x)


def square(x):
    return x * x


def cubed(x):
    return x**3


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
    (nb.grad(summed), lambda f: f(X)),
    (nb.value_and_grad(powers, argnums=(0,), has_aux=False), lambda f: f(X, 3)),
    (nb.elementwise_grad(square), lambda f: f(X)),
    (nb.jacobian(square, mode="forward"), lambda f: f(X)),
    (nb.hessian(summed), lambda f: f(X)),
    (nb.hvp(summed), lambda f: f(X, X)),
    (nb.jit(nb.grad(summed)), lambda f: f(X)),
    (nb.grad(nb.grad(nb.jit(cubed))), lambda f: f(2.0)),
    (nb.jit(nb.value_and_grad(nd.sum)), lambda f: f(X)),
    (autograd.checkpoint(square), lambda f: nb.grad(lambda x: nd.sum(f(x)))(X)),
]


@nb.value_and_grad
def loss(x):
    return nd.sum(x**4)


@autograd.checkpoint
def block(x):
    return nd.sin(x)


class Model:
    """Transforms are bound to instances as functions are."""

    def __init__(self, factor):
        self.factor = factor

    @partial(nb.grad, argnums=1)
    def gradient(self, x):
        return nd.sum(self.factor * x * x)

    slope = nb.elementwise_grad(square)


NAMED = [
    (decorated, lambda f: f.value_and_grad(X)),
    (halved, lambda f: nb.grad(lambda x: nd.sum(f(x)))(nd.array(X))),
    (compiled, lambda f: f(nd.array(X))),
    (loss, lambda f: f(X)),
    (block, lambda f: f(nd.array(X))),
    (Model.gradient, lambda f: f(Model(3.0), X)),
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


@pytest.mark.parametrize("make", [nb.adjoint, nb.grad, nb.jit, lambda f: nb.jit(nb.hessian(f)), autograd.checkpoint])
def test_local_functions_have_no_name(make):
    def local(x):
        return x * x

    for f in (local, *([lambda x: x] if make is not nb.adjoint else [])):
        with pytest.raises((pickle.PicklingError, AttributeError), match=r"local|lambda"):
            pickle.dumps(make(f))


@pytest.mark.parametrize("make", [nb.grad, lambda f: nb.jit(nb.grad(f)), nb.hessian, autograd.checkpoint])
def test_local_functions_by_value(make):
    factor = 3.0
    made = make(lambda x: nd.sum(factor * x * x * x))
    text = cloudpickle.dumps(made)
    again = pickle.loads(text)
    np.testing.assert_array_equal(listed(again(nd.array(X)))[0], listed(made(nd.array(X)))[0])
    assert pickle.loads(text) is not again, "kept, although nobody can ask for it again"


@pytest.mark.parametrize("made", [m for m, _ in MADE], ids=lambda v: getattr(v, "__name__", ""))
def test_made_once_in_a_process(made):
    text = pickle.dumps(made)
    first = pickle.loads(text)
    assert pickle.loads(text) is first and pickle.loads(pickle.dumps(first)) is first
    assert copy.copy(first) is not first


def test_other_options_are_another_function():
    ones = [nb.grad(powers, 0), nb.grad(powers, (0,)), nb.grad(powers, 0, True), nb.hvp(powers), nb.grad(summed)]
    ones += [nb.jit(f) for f in ones] + [nb.jit(powers, static_argnames="n")]
    there = [pickle.loads(pickle.dumps(f)) for f in ones]
    assert len({id(f) for f in there}) == len(ones)
    assert isinstance(there[1](nd.array(X), 2), tuple) and not isinstance(there[0](nd.array(X), 2), tuple)


def test_a_primitive_with_another_derivative_is_another_one():
    made = nb.primitive(numba.njit(cubed))
    first = pickle.loads(pickle.dumps(made))
    first.defvjp(halved_vjp)
    again = pickle.loads(pickle.dumps(made))
    assert again is not first and again.vjp is None


def test_redefined_functions_are_not_taken_for_one_another(monkeypatch):
    text = pickle.dumps(nb.jit(square))
    first = pickle.loads(text)

    def other(x):
        return x * x * x

    other.__qualname__, other.__module__ = square.__qualname__, __name__
    monkeypatch.setitem(globals(), "square", other)
    assert first(X).tolist() == [1, 4, 9] and pickle.loads(text)(X).tolist() == [1, 8, 27]


def test_bound_to_instances():
    model = pickle.loads(pickle.dumps(Model(3.0)))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model.gradient))(X), 6 * X)
    assert Model.slope is Model.__dict__["slope"]
    assert inspect.signature(Model.gradient) == inspect.signature(Model.gradient.__wrapped__)


def test_it_says_what_it_is():
    assert repr(nb.grad(square)) == "<grad of square>" and repr(nb.hvp(partial(powers, n=2))).startswith(
        "<hvp of functools.partial"
    )
    assert nb.grad(square).__name__ == "square" and nb.jit(nb.grad(square)).__wrapped__.__wrapped__ is square


@pytest.mark.parametrize(
    "made",
    [
        nb.vjp(summed, X)[1],
        nb.hessian_operator(summed, X),
        nb.jacobian_operator(square, X),
        nb.ScipyObjective(summed).operator(X),
    ],
)
@pytest.mark.parametrize("pickler", [pickle, cloudpickle])
def test_records_stay_in_their_process(made, pickler):
    """A pickle of the arrays of a record, without their places on the tape, gives derivatives that are zero."""
    with pytest.raises(
        (TypeError, AttributeError, pickle.PicklingError), match=r"belongs to this process|local object"
    ):
        pickler.dumps(made)


@pytest.mark.parametrize("made", [nb.ScipyObjective(summed, X), nb.ScipyResiduals(square)])
def test_problems_for_scipy(made):
    again = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(again.jac(X), made.jac(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made.fun))(X), made.fun(X))


def test_operators_are_found_by_name():
    for entry in operators.values():
        assert pickle.loads(pickle.dumps(entry.call)) is entry.call, entry.name


def traced(f, x):
    """What a task gives: the result, and how many programs the function has had so far."""
    return f(x), len(f.programs), id(f)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_worker_compiles_what_it_gets_once(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip("this system does not fork")
    function = nb.jit(nb.grad(summed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking while there are threads
        pool = multiprocessing.get_context(method).Pool(1)
    with pool:
        tasks = [pool.apply(traced, (function, k * X)) for k in range(4)]
    for k, (gradient, programs, _) in enumerate(tasks):
        np.testing.assert_array_equal(gradient, 2 * k * X)
        assert programs == 1
    assert len({place for *_, place in tasks}) == 1


def test_worker_processes():
    expected = gradient.value_and_grad(X, 2.0)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        value, x_bar = pool.apply(gradient.value_and_grad, (X, 2.0))
        np.testing.assert_array_equal(pool.apply(decorated.value_and_grad, (X,))[1][0], 3 * X**2)
    assert value == expected[0]
    np.testing.assert_array_equal(x_bar, expected[1])


def test_pickles_of_adjoints_have_the_constants_of_now(tmp_path, monkeypatch):
    (tmp_path / "springs_of_pickles.py").write_text("K = 2.0\ndef energy(x):\n    return K * x * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    import springs_of_pickles as springs

    def again(made):
        return pickle.loads(pickle.dumps(made))

    first = again(nb.adjoint(springs.energy))
    assert again(nb.adjoint(springs.energy)) is first
    springs.K = 3.0
    for made in (nb.adjoint(springs.energy), again(nb.adjoint(springs.energy)), again(first)):
        assert made.value_and_grad(1.0) == (3.0, (6.0,))
    assert first.value_and_grad(1.0) == (2.0, (4.0,))
