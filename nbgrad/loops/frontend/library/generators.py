"""Methods of random generators that are arguments, as in :mod:`.random`; the numbers are NumPy's own."""

from __future__ import annotations

import numpy as np

from ...custom_rules import register_draws
from ...runtime.random_draws import GENERATOR_DRAWS
from ..function_table import definition
from .random import chosen, counted, extreme, laplacian, located, logit, numbers, population, power_of, taken

__all__: list[str] = []  # they are found through the table

(
    draw_generator_uniform, draw_generator_normal, draw_generator_exponential, draw_generator_integer,
    draw_generator_gamma, draw_generator_beta, draw_generator_poisson,
) = register_draws(GENERATOR_DRAWS)  # fmt: skip


@definition(np.random.Generator)
def random(rng, size=None):
    return taken(size, draw_generator_uniform, rng)


@definition(np.random.Generator)
def standard_normal(rng, size=None):
    return taken(size, draw_generator_normal, rng)


@definition(np.random.Generator)
def standard_exponential(rng, size=None):
    return taken(size, draw_generator_exponential, rng)


@definition(np.random.Generator)
def normal(rng, loc=0.0, scale=1.0, size=None):
    return located(loc, scale, rng.standard_normal(size))


@definition(np.random.Generator)
def uniform(rng, low=0.0, high=1.0, size=None):
    return located(low, high - low, rng.random(size))


@definition(np.random.Generator)
def exponential(rng, scale=1.0, size=None):
    return located(0.0, scale, rng.standard_exponential(size))


@definition(np.random.Generator)
def lognormal(rng, mean=0.0, sigma=1.0, size=None):
    return np.exp(rng.normal(mean, sigma, size))


@definition(np.random.Generator)
def laplace(rng, loc=0.0, scale=1.0, size=None):
    return located(loc, scale, laplacian(rng.random(size)))


@definition(np.random.Generator)
def logistic(rng, loc=0.0, scale=1.0, size=None):
    return located(loc, scale, logit(rng.random(size)))


@definition(np.random.Generator)
def gumbel(rng, loc=0.0, scale=1.0, size=None):
    return located(loc, scale, extreme(rng.random(size)))


@definition(np.random.Generator)
def weibull(rng, a, size=None):
    return power_of(rng.standard_exponential(size), a)


@definition(np.random.Generator)
def rayleigh(rng, scale=1.0, size=None):
    return located(0.0, scale, np.sqrt(2.0 * rng.standard_exponential(size)))


@definition(np.random.Generator)
def integers(rng, low, high=None, size=None, endpoint=False):
    numbers(low, 0.0 if high is None else high)
    first, end = (0, low) if high is None else (low, high)
    last = end + 1 if endpoint else end
    return counted(size, draw_generator_integer, rng, first, last)


@definition(np.random.Generator)
def choice(rng, a, size=None, replace=True):
    return chosen(a, rng.integers(0, population(a, replace), size))


@definition(np.random.Generator)
def standard_gamma(rng, shape, size=None):
    numbers(shape, 0.0)
    return taken(size, draw_generator_gamma, rng, shape)


@definition(np.random.Generator)
def gamma(rng, shape, scale=1.0, size=None):
    return located(0.0, scale, rng.standard_gamma(shape, size))


@definition(np.random.Generator)
def chisquare(rng, df, size=None):
    return 2.0 * rng.standard_gamma(df / 2.0, size)


@definition(np.random.Generator)
def beta(rng, a, b, size=None):
    numbers(a, b)
    return taken(size, draw_generator_beta, rng, a, b)


@definition(np.random.Generator)
def poisson(rng, lam=1.0, size=None):
    numbers(lam, 0.0)
    return counted(size, draw_generator_poisson, rng, lam)
