"""Loops with sums in blocks of iterations: the terms are vectorized, and added in the order in which they were."""

import math

import numba
import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, twice, uncompiled

import nbgrad as nb

RNG = np.random.default_rng(5)


def likelihood(x, y, a, b):
    total = 0.0
    for i in range(x.size):
        z = a + b * x[i]
        total += y[i] * z - math.log(1.0 + math.exp(z))
    return total


def several(x, w):
    s = 1.0
    c = 0.0
    r = 0.0
    for i in range(2, x.size):
        e = np.exp(-x[i] * w)
        s += e
        c = c - np.sin(x[i]) + e * x[i - 2] - w
        r -= w * x[i]
    return s * c + np.sin(r)


def mixture(x, means, weights):
    total = 0.0
    for i in range(x.size):
        density = 0.0
        for j in range(means.size):
            z = x[i] - means[j]
            density += weights[j] * math.exp(-0.5 * z * z)
        total += math.log(density)
    return total


def stores_too(x, y, w):
    total = 0.0
    for i in range(x.size):
        y[i] = np.tanh(w * x[i]) + y[i]
        total += y[i] * y[i]
    return total


def powers(x, n):
    p = 1.0
    for _ in range(n):
        s = 0.0
        for v in x:
            s += math.exp(-p * v) / x.size
        p *= s
    return p


def robust(t, y, a, b):
    total = 0.0
    wrong = 0.0
    for i in range(t.size):
        r = y[i] - a * math.exp(-b * t[i])
        if abs(r) < 0.5:
            total += 0.5 * r * r
        elif r > 2.0:
            total -= r
        else:
            total += 0.5 * (abs(r) - 0.25)
        wrong = wrong + r if r > 0.0 else wrong - 0.5 * r
    return total * wrong


def rectified(x, w):
    total = 0.0
    for i in range(x.size):
        total += math.tanh(w * max(x[i], 0.1))
    return total


MINED = {
    "likelihood": (likelihood, (RNG.normal(size=600), RNG.random(600), 0.3, -0.8)),
    "likelihood, one block": (likelihood, (RNG.normal(size=256), RNG.random(256), 0.3, -0.8)),
    "likelihood, a block and one": (likelihood, (RNG.normal(size=257), RNG.random(257), 0.3, -0.8)),
    "likelihood, none": (likelihood, (np.zeros(0), np.zeros(0), 0.3, -0.8)),
    "several": (several, (RNG.normal(size=300), 0.4)),
    "several, short": (several, (RNG.normal(size=3), 0.4)),
    "mixture": (mixture, (RNG.normal(size=3), RNG.normal(size=270), RNG.random(270))),
    "mixture, short": (mixture, (RNG.normal(size=7), RNG.normal(size=2), RNG.random(2))),
    "stores too": (stores_too, (RNG.normal(size=270), RNG.normal(size=270), 0.7)),
    "powers": (powers, (1.0 + RNG.random(9), 3)),
    "robust": (robust, (RNG.random(300), 2.0 * RNG.normal(size=300), 0.7, 0.4)),
    "robust, short": (robust, (RNG.random(5), 2.0 * RNG.normal(size=5), 0.7, 0.4)),
    "rectified": (rectified, (RNG.normal(size=300), 0.7)),
}


def source(f, args):
    adj = nb.adjoint(f)
    adj.explain(*args)
    return adj.source


@pytest.mark.parametrize("name", MINED)
def test_gradients(name):
    f, args = MINED[name]
    assert "in range(block, block_stop)" in source(f, args)
    if args[0].size > 0:
        agrees(f, args)
    with uncompiled():
        value, gradients = nb.adjoint(f).value_and_grad(*(np.copy(a) if isinstance(a, np.ndarray) else a for a in args))
    expected = nb.adjoint(f).value_and_grad(*(np.copy(a) if isinstance(a, np.ndarray) else a for a in args))
    np.testing.assert_allclose(value, expected[0], rtol=1e-13)
    for ours, other in zip(gradients, expected[1], strict=True):
        assert (ours is None and other is None) or np.allclose(ours, other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", ["several", "mixture, short", "stores too", "powers", "robust, short"])
def test_second_derivatives(name):
    twice(*MINED[name])


def test_small_arguments_to_second_order():
    check_derivatives(likelihood, RNG.normal(size=5), RNG.random(5), 0.3, -0.8)


def wide(x):
    """Its terms are numbers of very different size: each order of additions has another sum."""
    total = 0.1
    other = 0.0
    for i in range(x.size):
        one = math.exp(0.0 * x[i])
        total = total + one * x[i] - one * 0.3
        other -= x[i] * one
    return total * 4.0 + other


@pytest.mark.parametrize("n", [1, 5, 255, 256, 257, 1000])
def test_the_order_of_additions(n):
    x = RNG.normal(size=n) * 10.0 ** RNG.integers(-3, 17, n)
    value = numba.njit(wide)(x)
    assert nb.adjoint(wide).value_and_grad(x)[0] == value
    assert nb.adjoint(wide).vjp(x).value == value
    assert nb.tangent(wide).jvp((x,), (x,))[0] == value
    if n > 255:
        assert value != np.sum(x - 0.3) * 4.0 - np.sum(x)


def signed(x):
    total = -0.0
    for i in range(x.size):
        total = total - math.exp(x[i]) if x[i] > 0.0 else total
    return total


def test_the_sign_of_zero():
    x = np.array([-1.0, -2.0])
    assert math.copysign(1.0, nb.adjoint(signed).value_and_grad(x)[0]) == -1.0
    agrees(signed, (np.array([-1.0, 2.0, 0.5]),))


def test_buffers_are_made_once():
    text = source(*MINED["mixture"])
    lines = text[text.index("_adjoint(") :].splitlines()
    assert lines[1] == "    density_term = np.empty(256)" and text.count("density_term = ") == 1
    tangent = nb.tangent(several)
    tangent.jvp((np.ones(3), 2.0), (np.ones(3), 1.0))
    assert tangent.source.count("np.empty(256)") > 4


def test_checkpoints_and_pullbacks():
    f, args = MINED["powers"]
    value, gradients = nb.adjoint(f).value_and_grad(*args)
    for adj in (nb.adjoint(f, checkpoint=2), nb.adjoint(f, checkpoint=1)):
        again = adj.value_and_grad(*args)
        assert again[0] == value and np.array_equal(again[1][0], gradients[0])
    pull = nb.adjoint(f).vjp(*args)
    for _ in range(2):
        np.testing.assert_allclose(pull(2.0)[0], 2 * gradients[0], rtol=1e-13)


def read_elsewhere(x):
    total = 0.0
    for i in range(x.size):
        total += math.exp(-x[i])
        x[i] = total
    return total


def rebound(x):
    total = 0.0
    for i in range(x.size):
        total += math.exp(-x[i])
        total = min(total, 5.0)
    return total


def product(x):
    total = 1.0
    for i in range(x.size):
        total *= math.exp(-x[i])
    return total


def weighted(x):
    total = 0.0
    for i in range(x.size):
        total = 0.9 * total + math.exp(-x[i])
    return total


def taken_from(x):
    total = 0.0
    for i in range(x.size):
        total = math.exp(-x[i]) - total
    return total


def of_itself(x):
    total = 0.0
    for i in range(x.size):
        total += math.exp(-x[i]) * total
    return total


def chosen_calls(x):
    total = 0.0
    for i in range(x.size):
        total += math.exp(-x[i]) if x[i] > 0.5 else x[i]
    return total


def perhaps_product(x):
    total = 1.0
    for i in range(x.size):
        e = math.exp(-x[i])
        total = total + e if x[i] > 0.5 else total * e
    return total


def left_early(x):
    total = 0.0
    for i in range(x.size):
        if x[i] > 1.5:
            break
        total += math.exp(-x[i])
    return total


def in_parallel(x):
    total = 0.0
    for i in numba.prange(x.size):
        inner = 0.0
        for k in range(x.size):
            inner += math.exp(-x[i] * x[k])
        total += inner
    return total


def cheap(x):
    total = 0.0
    for i in range(x.size):
        total += x[i] * x[i]
    return total


def short(x):
    total = 0.0
    for i in range(4):
        total += math.exp(x[i])
    return total


@pytest.mark.parametrize(
    "f",
    [
        read_elsewhere,
        rebound,
        product,
        weighted,
        taken_from,
        of_itself,
        chosen_calls,
        perhaps_product,
        left_early,
        in_parallel,
        cheap,
        short,
    ],
)
def test_loops_that_stay(f):
    x = RNG.random(6)
    assert "block" not in source(f, (x,))
    agrees(f, (x,))


def test_float32():
    x = RNG.random(300).astype("float32")

    def decayed(x):
        total = 0.0
        for i in range(x.size):
            total += math.exp(-x[i])
        return total

    value, (g,) = nb.adjoint(decayed).value_and_grad(x)
    np.testing.assert_allclose(value, np.sum(np.exp(-x.astype(float))), rtol=1e-5)
    np.testing.assert_allclose(g, -np.exp(-x), rtol=1e-5)
    assert g.dtype == np.float32


def test_names_of_blocks():
    def blocks(block, total_term, block_stop):
        total = 0.0
        for i in range(block.size):
            total += math.exp(block[i] * total_term) + block_stop
        return total

    agrees(blocks, (RNG.random(9), 0.3, 2.0))
