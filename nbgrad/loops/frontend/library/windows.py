"""NumPy's windows: weights for a finite stretch of a signal."""

from __future__ import annotations

import numpy as np

from ..function_table import definition

__all__: list[str] = []  # they are found through the table


@definition(np)
def hanning(M):
    return cosines(M, 0.5, 0.5, 0.0)


@definition(np)
def hamming(M):
    return cosines(M, 0.54, 0.46, 0.0)


@definition(np)
def blackman(M):
    return cosines(M, 0.42, 0.5, 0.08)


def cosines(M, constant, first, second):
    weights = np.ones(max(M, 0))
    if M > 1:
        for k in range(M):
            angle = 2.0 * np.pi * k / (M - 1)
            weights[k] = constant - first * np.cos(angle) + second * np.cos(2.0 * angle)
    return weights


@definition(np)
def bartlett(M):
    weights = np.ones(max(M, 0))
    if M > 1:
        for k in range(M):
            weights[k] = 1.0 - abs(2.0 * k / (M - 1) - 1.0)
    return weights


@definition(np)
def kaiser(M, beta):
    """Of [Kaiser and Schafer, 1980](https://doi.org/10.1109/TASSP.1980.1163349)."""
    weights = np.ones(max(M, 0))
    if M > 1:
        for k in range(M):
            x = 2.0 * k / (M - 1) - 1.0
            weights[k] = bessel_i0(0.25 * beta * beta * (1.0 - x * x)) / bessel_i0(0.25 * beta * beta)
    return weights


@definition(np)
def i0(x):
    if np.ndim(x) == 0:
        found = bessel_i0(0.25 * x * x)
    else:
        found = np.empty(x.shape)
        for index in np.ndindex(x.shape):
            found[index] = bessel_i0(0.25 * x[index] * x[index])
    return found


def bessel_i0(q):
    """The modified Bessel function of order 0 of ``2 * sqrt(q)``, by its power series, whose terms are positive:
    the sum of ``q**k / k!**2`` (https://dlmf.nist.gov/10.25.E2)."""
    term, total, k = 1.0, 1.0, 0
    while term > 1e-18 * total:
        k += 1
        term *= q / (k * k)
        total += term
    return total
