"""Random numbers, as in :mod:`.numpy_library`: the functions of ``np.random`` and ``random``.

Each is written with standard draws, and so has the derivative by its parameters for the same draws (reparametrization:
``loc + scale * z``). The numbers are those that Numba draws, one after the other, with the same formulas. Parameters
that choose among draws, as those of a gamma distribution, must not be differentiated (:mod:`..analysis.activity`).
"""

from __future__ import annotations

import math
import random as python_random

import numpy as np

from ..custom_rules import register_draws
from ..runtime.random_draws import DRAWS
from .function_table import definition, refuse_call

__all__: list[str] = []  # they are found through the table

(
    draw_uniform, draw_normal, draw_exponential, draw_integer, draw_gamma, draw_beta, draw_poisson, draw_binomial,
    draw_geometric, set_state, draw_python_uniform, draw_python_normal, draw_python_integer, set_python_state,
) = register_draws(DRAWS)  # fmt: skip


def numbers(a, b):
    if np.ndim(a) != 0 or np.ndim(b) != 0:
        refuse_call("random numbers with arrays of parameters: draw standard ones, and scale them")


def drawn(size, draw):
    """An array of draws; `size` is a length or a shape."""
    x = np.empty(size)
    for index in np.ndindex(x.shape):
        x[index] = draw()
    return x


def counted(size, draw):
    """The same, of integers."""
    x = np.empty(size, np.int64)
    for index in np.ndindex(x.shape):
        x[index] = draw()
    return x


def uniforms(size):
    return draw_uniform() if size is None else drawn(size, draw_uniform)


def normals(size):
    return draw_normal() if size is None else drawn(size, draw_normal)


def exponentials(size):
    return draw_exponential() if size is None else drawn(size, draw_exponential)


@definition(np.random)
def seed(seed):
    _ = set_state(seed)


@definition(np.random)
def random(size=None):
    return uniforms(size)


@definition(np.random)
def random_sample(size=None):
    return uniforms(size)


@definition(np.random)
def ranf(size=None):
    return uniforms(size)


@definition(np.random)
def sample(size=None):
    return uniforms(size)


@definition(np.random)
def rand(*shape):
    return draw_uniform() if len(shape) == 0 else drawn(shape, draw_uniform)


@definition(np.random)
def randn(*shape):
    return draw_normal() if len(shape) == 0 else drawn(shape, draw_normal)


@definition(np.random)
def standard_normal(size=None):
    return normals(size)


@definition(np.random)
def standard_exponential(size=None):
    return exponentials(size)


@definition(np.random)
def normal(loc=0.0, scale=1.0, size=None):
    numbers(loc, scale)
    return loc + scale * normals(size)


@definition(np.random)
def uniform(low=0.0, high=1.0, size=None):
    numbers(low, high)
    return low + (high - low) * uniforms(size)


@definition(np.random)
def exponential(scale=1.0, size=None):
    numbers(scale, 0.0)
    return scale * exponentials(size)


@definition(np.random)
def lognormal(mean=0.0, sigma=1.0, size=None):
    numbers(mean, sigma)
    return np.exp(mean + sigma * normals(size))


@definition(np.random)
def laplace(loc=0.0, scale=1.0, size=None):
    numbers(loc, scale)
    u = uniforms(size)
    return loc + scale * np.where(u < 0.5, np.log(u + u), -np.log(2.0 - u - u))


@definition(np.random)
def logistic(loc=0.0, scale=1.0, size=None):
    numbers(loc, scale)
    u = uniforms(size)
    return loc + scale * np.log(u / (1.0 - u))


@definition(np.random)
def gumbel(loc=0.0, scale=1.0, size=None):
    numbers(loc, scale)
    return loc - scale * np.log(-np.log(1.0 - uniforms(size)))


@definition(np.random)
def weibull(a, size=None):
    numbers(a, 0.0)
    return exponentials(size) ** (1.0 / a)


@definition(np.random)
def rayleigh(scale=1.0, size=None):
    numbers(scale, 0.0)
    return scale * np.sqrt(2.0 * exponentials(size))


@definition(np.random)
def randint(low, high=None, size=None):
    numbers(low, 0.0 if high is None else high)
    first, last = (0, low) if high is None else (low, high)
    return draw_integer(first, last) if size is None else counted(size, lambda: draw_integer(first, last))


@definition(np.random)
def choice(a, size=None, replace=True):
    if np.ndim(a) > 1 or not replace:
        refuse_call("np.random.choice of this: give a number or a vector, or take a part of np.random.permutation")
    n = a if np.ndim(a) == 0 else len(a)
    index = randint(0, n, size)
    return index if np.ndim(a) == 0 else a[index]


@definition(np.random)
def permutation(x):
    if np.ndim(x) > 1:
        refuse_call("np.random.permutation of a matrix: take its rows at the permutation of their number")
    y = np.arange(x) if np.ndim(x) == 0 else x.copy()
    shuffle(y)
    return y


@definition(np.random)
def shuffle(x):
    if np.ndim(x) != 1:
        refuse_call("np.random.shuffle of a matrix: take its rows at the permutation of their number")
    for i in range(len(x) - 1, 0, -1):
        j = draw_integer(0, i + 1)
        x[i], x[j] = x[j], x[i]


# Distributions whose parameters choose among draws: these must not be differentiated.


@definition(np.random)
def standard_gamma(shape, size=None):
    numbers(shape, 0.0)
    return draw_gamma(shape) if size is None else drawn(size, lambda: draw_gamma(shape))


@definition(np.random)
def gamma(shape, scale=1.0, size=None):
    numbers(shape, scale)
    return scale * standard_gamma(shape, size)


@definition(np.random)
def chisquare(df, size=None):
    return 2.0 * standard_gamma(df / 2.0, size)


@definition(np.random)
def beta(a, b, size=None):
    numbers(a, b)
    return draw_beta(a, b) if size is None else drawn(size, lambda: draw_beta(a, b))


@definition(np.random)
def poisson(lam=1.0, size=None):
    numbers(lam, 0.0)
    return draw_poisson(lam) if size is None else counted(size, lambda: draw_poisson(lam))


@definition(np.random)
def binomial(n, p, size=None):
    numbers(n, p)
    return draw_binomial(n, p) if size is None else counted(size, lambda: draw_binomial(n, p))


@definition(np.random)
def geometric(p, size=None):
    numbers(p, 0.0)
    return draw_geometric(p) if size is None else counted(size, lambda: draw_geometric(p))


# The module random.


@definition(python_random, "seed")
def python_seed(a):
    _ = set_python_state(a)


@definition(python_random, "random")
def python_uniform():
    return draw_python_uniform()


@definition(python_random, "gauss")
def gauss(mu=0.0, sigma=1.0):
    return mu + sigma * draw_python_normal()


@definition(python_random)
def normalvariate(mu=0.0, sigma=1.0):
    return mu + sigma * draw_python_normal()


@definition(python_random, "uniform")
def python_range(a, b):
    return a + (b - a) * draw_python_uniform()


@definition(python_random)
def expovariate(lambd):
    return -math.log(1.0 - draw_python_uniform()) / lambd


@definition(python_random, "randint")
def python_integer(a, b):
    return draw_python_integer(a, b)
