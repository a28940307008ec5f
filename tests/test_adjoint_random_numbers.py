"""Random numbers in loops: drawn once, in order, as Numba draws them; differentiated for the same draws."""

# ruff: noqa: NPY002  # it is the legacy functions that Numba has without a generator

import math
import random
from typing import NamedTuple

import numba
import numpy as np
import pytest

import nbgrad as nb
from nbgrad.errors import TraceError
from nbgrad.loops.frontend.function_table import DEFINITIONS
from nbgrad.loops.frontend.library import generators as numpy_generators
from nbgrad.loops.frontend.library import random as numpy_random


def walk(mu, sigma, n):
    """Draws in tests, in branches, and some that are not used."""
    np.random.seed(7)
    x = 1.0
    for _ in range(n):
        if np.random.rand() < 0.5:
            x = x * np.exp(np.random.normal(mu, sigma))
        else:
            np.random.rand()
            x = x + sigma * np.random.standard_normal() * x
    return x


def option(spot, volatility, paths):
    """A call option by Monte Carlo."""
    np.random.seed(1)
    total = 0.0
    for _ in range(paths):
        z = np.random.standard_normal()
        total += max(spot * math.exp(-0.5 * volatility**2 + volatility * z) - 1.0, 0.0)
    return total / paths


def paths_of_euler(rate, volatility, n):
    """Euler and Maruyama's method for several paths at once, with antithetic draws, and a stopping time."""
    np.random.seed(5)
    x = np.ones(4)
    dt = 0.1
    for _ in range(n):
        dw = math.sqrt(dt) * np.random.randn(2)
        noise = np.concatenate((dw, -dw))
        x = x + rate * x * dt + volatility * x * noise
        while np.random.random() < 0.2:
            x[0] *= 1.0 + 0.01 * np.random.uniform(-volatility, volatility)
    return np.sum(x**2)


def dropout(w, keep, n):
    np.random.seed(9)
    total = 0.0
    for k in range(n):
        mask = np.random.random(w.size) < keep
        total += np.sum(np.where(mask, w, 0.0)) ** 2 / (k + 1)
    return total


def indices(w, scale, n):
    """Integers that are drawn, shuffled and chosen."""
    np.random.seed(11)
    order = np.random.permutation(w.size)
    total = 0.0
    for k in range(n):
        i = np.random.randint(w.size)
        total += w[i] ** 2 * scale + w[order[k]] * np.random.choice(w) + (np.random.choice(3) - 1) * w[0]
        np.random.shuffle(order)
    for j in np.random.randint(0, w.size, 5):
        total += w[j] ** 3
    return total


def short(a, b, n):
    """Draws in conditional expressions and after `and`, which are not always evaluated."""
    np.random.seed(13)
    total = 0.0
    for k in range(n):
        if k % 2 == 0 and np.random.rand() < 0.7:
            total += a * np.random.rand()
        total += b * np.random.exponential(a) if k % 3 == 0 else a * b
        total -= np.random.normal() - np.random.normal()
    return total


@numba.njit
def step(x, sigma):
    return x + sigma * np.random.normal(0.0, 1.0)


def with_helpers(x, sigma, n):
    np.random.seed(17)
    noise = np.array([np.random.normal() for _ in range(n)])
    total = sum([np.random.rand() * sigma for _ in range(n)])
    for v in noise:
        x = step(x, sigma) + step(x, v * sigma)
    return x + total


def of_the_module_random(a, b, n):
    random.seed(19)
    total = 0.0
    for _ in range(n):
        total += random.gauss(a, b) ** 2 + random.uniform(a, b) * random.random() + random.randint(0, 5)
        total += random.expovariate(a) + random.normalvariate(b, a)
    return total


def in_displays(a, b, n):
    """Draws in the tuples and lists that loops and comprehensions go over."""
    np.random.seed(21)
    total = 0.0
    for _ in range(n):
        for v in (np.random.rand() * a, np.random.normal()):
            total += v * b
        for i, v in enumerate([np.random.rand(), a * np.random.rand()]):
            total += v * b + i * a
        for v, w in zip((np.random.rand(), a), [np.random.normal(), b]):
            total += v * w
        total += sum([v * a for v in (np.random.rand(), np.random.normal())])
    return total + np.random.rand() * a


W = np.array([0.3, -0.7, 1.2, 0.5, 2.0, -1.1, 0.8])
PROGRAMS = [
    (walk, (0.1, 0.2, 12)),
    (option, (1.1, 0.3, 200)),
    (paths_of_euler, (0.3, 0.4, 10)),
    (dropout, (W, 0.6, 5)),
    (indices, (W, 0.7, 6)),
    (short, (0.6, 1.4, 9)),
    (with_helpers, (0.5, 0.3, 6)),
    (of_the_module_random, (0.5, 1.3, 7)),
    (in_displays, (0.5, 1.3, 3)),
]


def quotients(f, args, k, h):
    """The derivatives of a function by argument k."""
    g = np.empty(np.size(args[k]))
    for i in range(g.size):
        moved = [np.array(args[k], float), np.array(args[k], float)]
        for m, s in zip(moved, (h, -h), strict=True):
            m.reshape(-1)[i] += s
        up, down = (f(*args[:k], m[()], *args[k + 1 :]) for m in moved)
        g[i] = (up - down) / (2 * h)
    return g.reshape(np.shape(args[k]))


@pytest.mark.parametrize(("f", "args"), PROGRAMS, ids=lambda p: getattr(p, "__name__", ""))
def test_the_numbers_are_those_of_numba(f, args):
    compiled, adj = numba.njit(f), nb.adjoint(f)
    value, gradients = adj.value_and_grad(*args)
    assert value == pytest.approx(compiled(*args), rel=1e-14)
    for k in range(2):
        np.testing.assert_allclose(gradients[k], quotients(compiled, args, k, 1e-6), rtol=1e-5, atol=1e-7)
    directions = tuple(np.ones_like(a) if isinstance(a, np.ndarray) else 1.0 for a in args[:2])
    result, slope = nb.tangent(f).jvp(args, (*directions, None))
    assert result == value
    assert slope == pytest.approx(sum(np.sum(g) for g in gradients[:2]), rel=1e-11)
    pull = adj.vjp(*args)
    assert pull.value == value
    for g, expected in zip(pull(1.0)[:2], gradients[:2], strict=True):
        np.testing.assert_allclose(g, expected, rtol=1e-12)
    h = 1e-6
    shifted = [adj.value_and_grad(*(a + s for a in args[:2]), args[2])[1] for s in (h, -h)]
    for p, up, down in zip(adj.hvp(args, (*directions, None))[:2], *[s[:2] for s in shifted], strict=True):
        np.testing.assert_allclose(p, (up - down) / (2 * h), rtol=1e-4, atol=1e-6)


CALLS = {
    "standard_normal": "()", "randn": "()", "rand": "()", "random": "()", "random_sample": "()", "ranf": "()",
    "sample": "()", "standard_exponential": "()", "normal": "(0.3, a)", "uniform": "(a, 3.0)", "exponential": "(a)",
    "lognormal": "(0.2, a)", "laplace": "(0.1, a)", "logistic": "(0.3, a)", "gumbel": "(0.2, a)", "weibull": "(a)",
    "rayleigh": "(a)", "randint": "(2, 9)", "choice": "(5)", "permutation": "(6)[3]", "standard_gamma": "(1.5)",
    "gamma": "(2.5, a)", "chisquare": "(3.0)", "beta": "(2.0, 1.5)", "poisson": "(3.0)", "binomial": "(8, 0.3)",
    "geometric": "(0.3)", "seed": "", "shuffle": "",
}  # fmt: skip


def test_every_function_is_tested():
    known = {f.__name__ for f in DEFINITIONS.values() if f.__module__ == numpy_random.__name__}
    assert known - CALLS.keys() <= {
        "python_seed", "python_uniform", "gauss", "normalvariate", "python_range", "expovariate", "python_integer"
    }  # fmt: skip


@pytest.mark.parametrize("name", [n for n, call in CALLS.items() if call])
def test_each_function_draws_what_numba_draws(name, tmp_path):
    call = f"np.random.{name}{CALLS[name]}"
    path = tmp_path / f"{name}.py"
    array = "" if name in ("randn", "rand", "permutation") else (
        f"    for v in np.random.{name}({(CALLS[name][1:-1] + ', ').lstrip(', ')}size=3):\n        total += v * a\n"
    )  # fmt: skip
    path.write_text(
        f"import numpy as np\n\ndef f(a):\n    np.random.seed(23)\n    total = 0.0\n    for _ in range(5):\n"
        f"        total += {call} * a\n{array}    return total\n"
    )
    namespace: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    f = namespace["f"]
    value, (slope,) = nb.adjoint(f).value_and_grad(0.8)
    compiled = numba.njit(f)
    assert value == pytest.approx(compiled(0.8), rel=1e-13)
    assert slope == pytest.approx((compiled(0.8 + 1e-6) - compiled(0.8 - 1e-6)) / 2e-6, rel=1e-6)


def path(mu, sigma, n, rng):
    x = 1.0
    for _ in range(n):
        if rng.random() < 0.5:
            x *= math.exp(rng.normal(mu, sigma))
        else:
            rng.random()
            x += 0.1 * sigma * np.sum(rng.standard_normal(3)) * x
        x += sigma * rng.integers(0, 5) * 0.01 + rng.choice(np.array([0.1, 0.2, 0.3])) * mu
    return x


def twice(mu, sigma, n, rng):
    total = 0.0
    for _ in range(2):
        total += path(mu, sigma, n, rng) ** 2
    return total


class Model(NamedTuple):
    mu: float
    rng: np.random.Generator


def of_a_model(model, sigma, n):
    return path(model.mu, sigma, n, model.rng)


def generator():
    return np.random.default_rng(3)


@pytest.mark.parametrize("f", [path, twice])
def test_generators_draw_what_numpy_draws(f):
    adj = nb.adjoint(f)
    used, other = generator(), generator()
    value, gradients = adj.value_and_grad(0.1, 0.2, 9, used)
    assert value == pytest.approx(f(0.1, 0.2, 9, other), rel=1e-13)
    assert used.bit_generator.state == other.bit_generator.state
    assert gradients[2:] == (None, None)

    def seeded(mu, sigma):
        return f(mu, sigma, 9, generator())

    for k in range(2):
        assert gradients[k] == pytest.approx(quotients(seeded, (0.1, 0.2), k, 1e-6), rel=1e-6)
    assert adj.vjp(0.1, 0.2, 9, generator())(1.0)[:2] == pytest.approx(gradients[:2], rel=1e-12)
    assert nb.tangent(f).jvp((0.1, 0.2, 9, generator()), (1.0, 1.0, None, None))[1] == pytest.approx(sum(gradients[:2]))
    products = adj.hvp((0.1, 0.2, 9, generator()), (1.0, 0.0, None, None))
    up, down = (adj.value_and_grad(0.1 + h, 0.2, 9, generator())[1] for h in (1e-6, -1e-6))
    for k in range(2):
        assert products[k] == pytest.approx((up[k] - down[k]) / 2e-6, rel=1e-5)


def test_generators_in_tuples():
    value, (model, sigma, _) = nb.adjoint(of_a_model).value_and_grad(Model(0.1, generator()), 0.2, 9)
    expected, gradients = nb.adjoint(path).value_and_grad(0.1, 0.2, 9, generator())
    assert (value, model.mu, sigma, model.rng) == (expected, *gradients[:2], None)


GENERATOR_CALLS = {
    "random": "()", "standard_normal": "()", "standard_exponential": "()", "normal": "(0.3, a)", "uniform": "(a, 3.0)",
    "exponential": "(a)", "lognormal": "(0.2, a)", "laplace": "(0.1, a)", "logistic": "(0.3, a)", "gumbel": "(0.2, a)",
    "weibull": "(a)", "rayleigh": "(a)", "integers": "(2, 9)", "choice": "(5)", "standard_gamma": "(1.5)",
    "gamma": "(2.5, a)", "chisquare": "(3.0)", "beta": "(2.0, 1.5)", "poisson": "(3.0)",
}  # fmt: skip


def test_every_method_is_tested():
    known = {f.__name__ for f in DEFINITIONS.values() if f.__module__ == numpy_generators.__name__}
    assert known == GENERATOR_CALLS.keys()


@pytest.mark.parametrize("name", GENERATOR_CALLS)
def test_each_method_draws_what_numpy_draws(name, tmp_path):
    call = f"rng.{name}{GENERATOR_CALLS[name]}"
    several = f"rng.{name}({(GENERATOR_CALLS[name][1:-1] + ', ').lstrip(', ')}size=(2, 3))"
    path = tmp_path / f"{name}.py"
    path.write_text(
        f"import numpy as np\n\ndef f(a, rng):\n    total = 0.0\n    for _ in range(5):\n"
        f"        total += {call} * a\n    for row in {several}:\n        for v in row:\n            total += v * a\n"
        "    return total\n"
    )
    namespace: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    f = namespace["f"]
    value, (slope, _) = nb.adjoint(f).value_and_grad(0.8, generator())
    assert value == pytest.approx(f(0.8, generator()), rel=1e-13)
    assert slope == pytest.approx((f(0.8 + 1e-6, generator()) - f(0.8 - 1e-6, generator())) / 2e-6, rel=1e-6)


def permuted(a, rng):
    return a * rng.permutation(5)[0]


def added(a, rng):
    return a + rng


def returned(a, rng):
    return a, rng


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (permuted, "the method rng.permutation of a random generator"),
        (added, "rng, which is a random generator"),
        (returned, "rng, which is a random generator"),
    ],
)
def test_what_generators_cannot_do(f, message):
    with pytest.raises(TraceError, match=message):
        nb.adjoint(f, 0).vjp(2.0, generator())


def test_shapes_of_draws():
    def f(a, n):
        np.random.seed(2)
        x = np.random.normal(0.0, a, (n, 3))
        y = np.random.rand(2, n)
        z = np.random.randn(n, 2, 2)
        return np.sum(x @ y.T[:3, :1]) + np.sum(z) * a

    value, gradients = nb.adjoint(f).value_and_grad(0.5, 3)
    assert value == pytest.approx(0.5 * gradients[0])


def unseeded(a, n):
    total = 0.0
    for _ in range(n):
        total += a * np.random.rand()
    return total


def drawn_in_a_branch(a, n):
    y = np.zeros(n)
    if a > 0:
        z = np.random.rand()
        y[0] = a * z * z
    return y


def test_a_pullback_belongs_to_the_draws_of_its_value():
    pull = nb.adjoint(unseeded, 0).vjp(2.0, 10)
    assert pull(1.0) == pytest.approx(pull.value / 2.0)
    with pytest.raises(TraceError, match="the pullback of a function that draws random numbers has one call"):
        pull(1.0)
    value, gradient = nb.adjoint(unseeded, 0).value_and_grad(2.0, 10)
    assert gradient == pytest.approx(value / 2.0)
    try:
        branch = nb.adjoint(drawn_in_a_branch, 0).vjp(2.0, 3)
    except TraceError as err:
        assert "would draw random numbers twice" in str(err)
    else:
        assert branch(np.array([1.0, 0.0, 0.0])) == pytest.approx(branch.value[0] / 2.0)


def test_what_would_draw_again_is_refused():
    with pytest.raises(TraceError, match="checkpoints run iterations again, which would draw other random numbers"):
        nb.adjoint(unseeded, checkpoint=3).value_and_grad(1.0, 10)
    with pytest.raises(nb.NBGradError, match="draws random numbers, and would draw others in the reverse sweep"):
        nb.grad(nb.primitive(unseeded))(nb.nd.array(1.0), 3)


def chosen(a, n):
    return np.random.gamma(a, 1.0) * a


def counts(a, n):
    total = 0.0
    for _ in range(n):
        total += np.random.poisson(a) * a
    return total


def only_in_tests(a, n):
    total = 0.0
    for _ in range(n):
        if np.random.poisson(a) > 2:
            total += a
    return total


def arrays_of_parameters(a, n):
    return np.sum(np.random.normal(np.array([a, a])))


def rows(a, n):
    x = np.ones((n, n)) * a
    np.random.shuffle(x)
    return x[0, 0]


@pytest.mark.parametrize("f", [chosen, counts])
def test_parameters_without_a_derivative_are_refused(f):
    with pytest.raises(TraceError, match=r"test_adjoint_random_numbers.py.*a parameter of draw_\w+ depends on"):
        nb.adjoint(f).value_and_grad(2.0, 3)
    with pytest.raises(TraceError, match="draw standard numbers and transform them"):
        nb.tangent(f).jvp((2.0, 3), (1.0, None))


def test_parameters_that_decide_branches_only_are_not():
    value, gradient = nb.adjoint(only_in_tests, 0).value_and_grad(2.0, 50)
    assert gradient == value / 2.0


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (arrays_of_parameters, "random numbers with arrays of parameters.*draw standard ones, and scale them"),
        (rows, "np.random.shuffle of a matrix"),
    ],
)
def test_other_forms_are_refused(f, message):
    with pytest.raises(TraceError, match=message):
        nb.adjoint(f).value_and_grad(2.0, 3)


def in_parallel(x):
    total = 0.0
    for i in numba.prange(x.size):
        total += x[i] * np.random.rand()
    return total


def test_parallel_loops_that_draw_are_serial():
    adj = nb.adjoint(in_parallel)
    (verdict,) = {v for k, v in adj.parallel(W).items() if not k.endswith("reverse")}
    assert verdict.startswith("serial")
