"""Random numbers in compiled functions: drawn at every call, the same that the function itself draws."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.errors import AttrError, TraceError


def several(alpha, beta):
    return [
        nd.random.uniform(alpha, beta, shape=3),
        nd.random.uniform(shape=(2, 2), dtype="float64"),
        nd.random.normal(alpha, beta, shape=2),
        nd.random.exponential(alpha, shape=2),
        nd.random.gamma(alpha, beta, shape=2),
        nd.random.poisson(beta, shape=(2, 2)),
        nd.random.negative_binomial(3, 0.5, shape=4),
        nd.random.generalized_negative_binomial(alpha, beta, shape=2),
        *nd.random.multinomial(nd.reshape(alpha, (1, 2)) / nd.sum(alpha), shape=5, get_prob=True),
        nd.random.randint(0, 9, shape=6),
        nd.shuffle(nd.arange(10)),
        nd.Dropout(alpha, p=0.5, mode="always"),
        nd.LeakyReLU(-beta, act_type="rrelu"),
    ]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_every_draw_is_the_one_that_the_function_makes(dtype):
    alpha, beta = nd.array([0.5, 1.0], dtype=dtype), nd.array([1.0, 2.0], dtype=dtype)
    found = []
    for function in (several, nb.jit(several)):
        nb.random.seed(4)
        with autograd.train_mode():
            found.append([y.asnumpy() for _ in range(3) for y in function(alpha, beta)])
        found[-1].append(nd.random.uniform(shape=2).asnumpy())  # the stream is at the same place
    for a, b in zip(*found, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def noisy(x):
    nd.random.normal(shape=7)  # not used, but drawn
    return nd.Dropout(nd.sin(x), p=0.5, mode="always") + x * nd.random.normal(shape=x.shape, dtype="float64")


def test_equal_draws_are_different_numbers():
    a, b = nb.jit(lambda: [nd.random.uniform(shape=4), nd.random.uniform(shape=4)])()
    assert (np.asarray(a) != np.asarray(b)).all()


@pytest.mark.parametrize("wrapped", [lambda f: f, autograd.checkpoint], ids=["plain", "checkpoint"])
def test_gradients_are_those_of_the_numbers_drawn(wrapped):
    x = nd.array(np.linspace(0.1, 0.9, 5), dtype="float64")
    function = wrapped(noisy)
    gradient = nb.grad(lambda x: nd.sum(function(x) ** 2))
    found = []
    for call in (gradient, nb.jit(gradient)):
        nb.random.seed(2)
        found.append([call(x).asnumpy() for _ in range(2)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-13)


def test_a_recorded_call_and_its_pullback_have_the_same_numbers():
    x = nd.array(np.linspace(0.1, 0.9, 5), dtype="float64")
    x.attach_grad()
    found = []
    for function in (noisy, nb.jit(noisy)):
        nb.random.seed(2)
        for _ in range(2):
            with autograd.record():
                y = nd.sum(function(x) ** 2)
            nd.random.uniform(shape=3)
            y.backward()
            found.append(x.grad.asnumpy())
    np.testing.assert_allclose(found[2:], found[:2], rtol=1e-13)


@pytest.mark.parametrize("calls", [1, 2])
def test_compiled_functions_in_a_checkpoint_draw_again_what_they_drew(calls):
    x = nd.array(np.linspace(0.1, 0.9, 5), dtype="float64")
    x.attach_grad()
    found = []
    for function in (noisy, nb.jit(noisy), nb.jit(autograd.checkpoint(noisy))):
        block = autograd.checkpoint(function)
        nb.random.seed(2)
        for _ in range(calls):  # the first of which traces
            with autograd.record():
                y = nd.sum(block(x) * block(x))
            y.backward()
            found.append(x.grad.asnumpy())
    for a in range(calls):
        np.testing.assert_allclose(found[calls + a], found[a], rtol=1e-13)
        np.testing.assert_allclose(found[2 * calls + a], found[a], rtol=1e-13)


def test_parameters_are_checked_when_there_are_numbers():
    draw = nb.jit(lambda low, high: nd.random.uniform(low, high))
    zero, one = nd.zeros(2), nd.ones(2)
    assert draw(zero, one).shape == (2,)
    with pytest.raises(AttrError, match="low must not be greater than high"):
        draw(one, zero)


def test_a_call_that_nothing_records_draws_once():
    function = nb.jit(noisy)
    x = nd.ones(5, dtype="float64")
    nb.random.seed(2)
    noisy(x)
    expected = nd.random.uniform(shape=2)
    nb.random.seed(2)
    with autograd.record():
        function(x)
    assert nd.random.uniform(shape=2).tolist() == expected.tolist()


def test_the_seed_is_set_outside():
    def seeded(x):
        nb.random.seed(1)
        return x

    with pytest.raises(TraceError, match=r"random\.seed"):
        nb.jit(seeded)(nd.ones(1))
