"""Draws of random numbers in generated files: functions of the state that Numba keeps for each
thread, or of a generator.

All others are written in the subset, on top of these (:mod:`..frontend.library.random`). What they return has no
derivative; :class:`..custom_rules.Rule` has what makes calls of them statements that run once, in order.
"""

# ruff: noqa: NPY002  # these are what users call

from __future__ import annotations

import random

import numpy as np

__all__ = ["DRAWS", "GENERATOR_DRAWS"]


def draw_uniform():
    return np.random.random()


def draw_normal():
    return np.random.standard_normal()


def draw_exponential():
    return np.random.standard_exponential()


def draw_integer(low, high):
    return np.random.randint(low, high)


def draw_gamma(shape):
    return np.random.standard_gamma(shape)


def draw_beta(a, b):
    return np.random.beta(a, b)


def draw_poisson(rate):
    return np.random.poisson(rate)


def draw_binomial(count, probability):
    return np.random.binomial(count, probability)


def draw_geometric(probability):
    return np.random.geometric(probability)


def set_state(seed):
    np.random.seed(seed)
    return 0


def draw_python_uniform():
    return random.random()


def draw_python_normal():
    return random.gauss(0.0, 1.0)


def draw_python_integer(low, high):
    return random.randint(low, high)


def set_python_state(seed):
    random.seed(seed)
    return 0


def draw_generator_uniform(generator):
    return generator.random()


def draw_generator_normal(generator):
    return generator.standard_normal()


def draw_generator_exponential(generator):
    return generator.standard_exponential()


def draw_generator_integer(generator, low, high):
    return generator.integers(low, high)


def draw_generator_gamma(generator, shape):
    return generator.standard_gamma(shape)


def draw_generator_beta(generator, a, b):
    return generator.beta(a, b)


def draw_generator_poisson(generator, rate):
    return generator.poisson(rate)


#: Draws from Numba's own states; generated files call them by their names.
DRAWS = (
    draw_uniform, draw_normal, draw_exponential, draw_integer, draw_gamma, draw_beta, draw_poisson, draw_binomial,
    draw_geometric, set_state, draw_python_uniform, draw_python_normal, draw_python_integer, set_python_state,
)  # fmt: skip
#: Draws from a generator.
GENERATOR_DRAWS = (
    draw_generator_uniform, draw_generator_normal, draw_generator_exponential, draw_generator_integer,
    draw_generator_gamma, draw_generator_beta, draw_generator_poisson,
)  # fmt: skip
