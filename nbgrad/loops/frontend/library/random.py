"""Random numbers: the functions of ``np.random`` and ``random``.

Each is written with standard draws, and so has the derivative by its parameters for the same draws (reparametrization:
``loc + scale * z``). The numbers are those that Numba draws, one after the other, with the same formulas. Parameters
that choose among draws, as those of a gamma distribution, must not be differentiated (:mod:`..analysis.activity`).
"""

from __future__ import annotations

import math
import random as python_random

import numpy as np

from ...custom_rules import register_draws
from ...runtime.random_draws import DRAWS
from ..function_table import definition, refuse_call

__all__: list[str] = []  # they are found through the table

(
    draw_uniform, draw_normal, draw_exponential, draw_integer, draw_gamma, draw_beta, draw_poisson, draw_binomial,
    draw_geometric, set_state, draw_python_uniform, draw_python_normal, draw_python_integer, set_python_state,
) = register_draws(DRAWS)  # fmt: skip


def numbers(a, b):
    if np.ndim(a) != 0 or np.ndim(b) != 0:
        refuse_call("random numbers with arrays of parameters: draw standard ones, and scale them")


def taken(size, draw, *parameters):
    """A draw, or an array of draws; `size` is a length or a shape."""
    return draw(*parameters) if size is None else filled(np.empty(size), draw, *parameters)


def counted(size, draw, *parameters):
    """The same, of integers."""
    return draw(*parameters) if size is None else filled(np.empty(size, np.int64), draw, *parameters)


def filled(x, draw, *parameters):
    for index in np.ndindex(x.shape):
        x[index] = draw(*parameters)
    return x


def located(loc, scale, z):
    numbers(loc, scale)
    return loc + scale * z


def population(a, replace):
    if np.ndim(a) > 1 or not replace:
        refuse_call("a choice from this: give a number or a vector, or take a part of np.random.permutation")
    return a if np.ndim(a) == 0 else len(a)


def chosen(a, index):
    return index if np.ndim(a) == 0 else a[index]


# Other distributions, from uniform numbers or exponential ones.


def laplacian(u):
    return np.where(u < 0.5, np.log(u + u), -np.log(2.0 - u - u))


def logit(u):
    return np.log(u / (1.0 - u))


def extreme(u):
    return -np.log(-np.log(1.0 - u))


def power_of(e, a):
    numbers(a, 0.0)
    return e ** (1.0 / a)


# np.random.


@definition(np.random)
def seed(seed):
    _ = set_state(seed)


@definition(np.random)
def random(size=None):
    return taken(size, draw_uniform)


@definition(np.random)
def random_sample(size=None):
    return taken(size, draw_uniform)


@definition(np.random)
def ranf(size=None):
    return taken(size, draw_uniform)


@definition(np.random)
def sample(size=None):
    return taken(size, draw_uniform)


@definition(np.random)
def rand(*shape):
    return taken(None if len(shape) == 0 else shape, draw_uniform)


@definition(np.random)
def randn(*shape):
    return taken(None if len(shape) == 0 else shape, draw_normal)


@definition(np.random)
def standard_normal(size=None):
    return taken(size, draw_normal)


@definition(np.random)
def standard_exponential(size=None):
    return taken(size, draw_exponential)


@definition(np.random)
def normal(loc=0.0, scale=1.0, size=None):
    return located(loc, scale, taken(size, draw_normal))


@definition(np.random)
def uniform(low=0.0, high=1.0, size=None):
    return located(low, high - low, taken(size, draw_uniform))


@definition(np.random)
def exponential(scale=1.0, size=None):
    return located(0.0, scale, taken(size, draw_exponential))


@definition(np.random)
def lognormal(mean=0.0, sigma=1.0, size=None):
    return np.exp(located(mean, sigma, taken(size, draw_normal)))


@definition(np.random)
def laplace(loc=0.0, scale=1.0, size=None):
    return located(loc, scale, laplacian(taken(size, draw_uniform)))


@definition(np.random)
def logistic(loc=0.0, scale=1.0, size=None):
    return located(loc, scale, logit(taken(size, draw_uniform)))


@definition(np.random)
def gumbel(loc=0.0, scale=1.0, size=None):
    return located(loc, scale, extreme(taken(size, draw_uniform)))


@definition(np.random)
def weibull(a, size=None):
    return power_of(taken(size, draw_exponential), a)


@definition(np.random)
def rayleigh(scale=1.0, size=None):
    return located(0.0, scale, np.sqrt(2.0 * taken(size, draw_exponential)))


@definition(np.random)
def randint(low, high=None, size=None):
    numbers(low, 0.0 if high is None else high)
    first, last = (0, low) if high is None else (low, high)
    return counted(size, draw_integer, first, last)


@definition(np.random)
def choice(a, size=None, replace=True):
    return chosen(a, randint(0, population(a, replace), size))


@definition(np.random)
def permutation(x):
    if np.ndim(x) > 1:
        refuse_call("np.random.permutation of a matrix: take its rows at the permutation of their number")
    y = np.arange(x) if np.ndim(x) == 0 else x.copy()
    shuffle(y)
    return y


@definition(np.random, writes=True)
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
    return taken(size, draw_gamma, shape)


@definition(np.random)
def gamma(shape, scale=1.0, size=None):
    return located(0.0, scale, standard_gamma(shape, size))


@definition(np.random)
def chisquare(df, size=None):
    return 2.0 * standard_gamma(df / 2.0, size)


@definition(np.random)
def beta(a, b, size=None):
    numbers(a, b)
    return taken(size, draw_beta, a, b)


@definition(np.random)
def poisson(lam=1.0, size=None):
    numbers(lam, 0.0)
    return counted(size, draw_poisson, lam)


@definition(np.random)
def binomial(n, p, size=None):
    numbers(n, p)
    return counted(size, draw_binomial, n, p)


@definition(np.random)
def geometric(p, size=None):
    numbers(p, 0.0)
    return counted(size, draw_geometric, p)


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
