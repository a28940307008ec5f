"""The tiny workload: 20 operators on 10 elements, spelled once for every library it is timed in."""

import numpy as np

__all__ = ["OPERATORS", "chain", "operands"]

OPERATORS = 20


def operands():
    """Two float64 arrays of 10 elements."""
    return np.linspace(0.1, 1.0, 10), np.linspace(0.5, 1.5, 10)


def chain(a, b, tanh):
    """Five times multiply, add, tanh, subtract."""
    y = a
    for _ in range(5):
        y = tanh(y * b + a) - b
    return y
