"""Gradient descent, with momentum, RMSprop and Adam, of functions of trees of parameters.

Each takes ``grad(x, i)``, the gradient in iteration `i`, and calls ``callback(x, i, g)``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .flatten import flatten

__all__ = ["adam", "rmsprop", "sgd", "unflatten_optimizer"]


def unflatten_optimizer(optimize: Callable) -> Callable:
    """An optimizer of vectors as one of trees."""

    def optimizer(grad: Callable, x0: Any, callback: Callable | None = None, *args: Any, **kwargs: Any) -> Any:
        start, unflatten = flatten(x0)

        def flat_grad(x: np.ndarray, i: int) -> np.ndarray:
            return flatten(grad(unflatten(x), i))[0]

        def flat_callback(x: np.ndarray, i: int, g: np.ndarray) -> None:
            if callback is not None:
                callback(unflatten(x), i, unflatten(g))

        return unflatten(optimize(flat_grad, start, flat_callback, *args, **kwargs))

    optimizer.__name__, optimizer.__doc__ = optimize.__name__, optimize.__doc__
    return optimizer


@unflatten_optimizer
def sgd(grad, x, callback=None, num_iters=200, step_size=0.1, mass=0.9):
    """Gradient descent with momentum: the velocity keeps `mass` of itself."""
    velocity = np.zeros(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        callback(x, i, g)
        velocity = mass * velocity - (1.0 - mass) * g
        x = x + step_size * velocity
    return x


@unflatten_optimizer
def rmsprop(grad, x, callback=None, num_iters=100, step_size=0.1, gamma=0.9, eps=1e-8):
    """Steps divided by the root of a running mean of squared gradients (Tieleman and Hinton, 2012)."""
    mean_square = np.ones(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        callback(x, i, g)
        mean_square = gamma * mean_square + (1 - gamma) * g**2
        x = x - step_size * g / (np.sqrt(mean_square) + eps)
    return x


@unflatten_optimizer
def adam(grad, x, callback=None, num_iters=100, step_size=0.001, b1=0.9, b2=0.999, eps=1e-8):
    """Steps by running means of gradients and of their squares (Kingma and Ba, 2015)."""
    first, second = np.zeros(len(x)), np.zeros(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        callback(x, i, g)
        first = (1 - b1) * g + b1 * first
        second = (1 - b2) * g**2 + b2 * second
        corrected = first / (1 - b1 ** (i + 1)), second / (1 - b2 ** (i + 1))
        x = x - step_size * corrected[0] / (np.sqrt(corrected[1]) + eps)
    return x
