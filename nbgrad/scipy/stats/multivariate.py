"""Distributions of vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as onp

from ... import np
from ...errors import ShapeError
from ...np.arrays import as_array, ndarray
from ..special import gammaln, xlogy

__all__ = ["dirichlet", "multinomial", "multivariate_normal"]


class MultivariateNormal:
    """The multivariate normal distribution, as ``scipy.stats.multivariate_normal``."""

    def logpdf(self, x: Any, mean: Any = None, cov: Any = 1.0, allow_singular: bool = False) -> ndarray:
        """The logarithm of the density, differentiated by `x`, `mean` and `cov`.

        Parameters
        ----------
        x : array_like
            Points along the last axis.
        mean : array_like, optional
            A vector; 0 by default.
        cov : array_like
            A matrix; a number or a vector is the diagonal of one.
        allow_singular : bool
            Whether to leave out directions without variance.

        Returns
        -------
        ndarray
            Of the shape of `x` without its last axis.

        Raises
        ------
        numpy.linalg.LinAlgError
            If `cov` is not positive definite, unless `allow_singular`.
        """
        x = as_array(x, "multivariate_normal.logpdf")
        n = x.shape[-1] if x.ndim else 1
        deviation = np.reshape(x if mean is None else x - mean, (-1, n))
        matrix = _covariance(cov, n)
        if allow_singular:
            values = np.linalg.eigh(matrix).eigenvalues
            kept = values > 1e-10 * values.detach().max()
            log_det, rank = np.sum(np.log(np.where(kept, values, 1.0))), np.sum(kept)
            squares = np.sum(deviation * (deviation @ np.linalg.pinv(matrix)), -1)
        else:
            factor = np.linalg.cholesky(matrix)
            log_det, rank = 2 * np.sum(np.log(np.diagonal(factor))), n
            squares = np.sum(np.linalg.solve(factor, deviation.T) ** 2, 0)
        return np.reshape(-0.5 * (rank * math.log(2 * math.pi) + log_det + squares), x.shape[:-1])

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1.0, allow_singular: bool = False) -> ndarray:
        """The density; see :meth:`logpdf`."""
        return np.exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: Any = None, cov: Any = 1.0) -> ndarray:
        """The differential entropy, in nats."""
        matrix = _covariance(cov, 1 if mean is None else int(onp.prod(np.shape(mean), dtype=int)))
        factor = np.linalg.cholesky(matrix)
        return 0.5 * matrix.shape[0] * math.log(2 * math.pi * math.e) + np.sum(np.log(np.diagonal(factor)))


def _covariance(cov: Any, n: int) -> ndarray:
    matrix = as_array(cov, "multivariate_normal")
    matrix = matrix if matrix.ndim == 2 else matrix * np.eye(matrix.shape[0] if matrix.ndim else n)
    if matrix.shape[0] != matrix.shape[1] or (n > 1 and matrix.shape[0] != n):
        raise ShapeError(f"multivariate_normal: cov must have the shape ({n}, {n}), got {matrix.shape}")
    return matrix


class Dirichlet:
    """The Dirichlet distribution, as ``scipy.stats.dirichlet``."""

    def logpdf(self, x: Any, alpha: Any) -> ndarray:
        """The logarithm of the density, differentiated by `x` and `alpha`.

        Parameters
        ----------
        x : array_like
            Shares along the first axis, which sum to 1; the last one may be left out.
        alpha : array_like
            A vector of positive numbers.
        """
        x, alpha = as_array(x, "dirichlet.logpdf"), as_array(alpha, "dirichlet.logpdf")
        if alpha.ndim != 1 or x.ndim < 1 or x.shape[0] not in (alpha.size - 1, alpha.size):
            raise ShapeError(f"dirichlet: a vector alpha as long as x, of shape {x.shape}, or one longer is expected")
        if x.shape[0] == alpha.size - 1:
            x = np.concatenate([x, 1 - np.sum(x, 0, keepdims=True)])
        exponents = np.reshape(alpha, (-1,) + (1,) * (x.ndim - 1)) - 1
        found = gammaln(np.sum(alpha)) - np.sum(gammaln(alpha)) + np.sum(xlogy(exponents, x), 0)
        return np.where(np.all(alpha > 0), found, np.nan)

    def pdf(self, x: Any, alpha: Any) -> ndarray:
        """The density; see :meth:`logpdf`."""
        return np.exp(self.logpdf(x, alpha))


class Multinomial:
    """The multinomial distribution, as ``scipy.stats.multinomial``."""

    def logpmf(self, x: Any, n: Any, p: Any) -> ndarray:
        """The logarithm of the probability of counts `x` along the last axis in `n` trials, differentiated by `p`.

        `p` should sum to 1.
        """
        x = np.floor(as_array(x, "multinomial.logpmf") * 1.0)
        found = gammaln(as_array(n, "multinomial.logpmf") + 1.0) + np.sum(xlogy(x, p) - gammaln(x + 1), -1)
        return np.where(np.sum(x, -1) == n, found, -np.inf)

    def pmf(self, x: Any, n: Any, p: Any) -> ndarray:
        """The probability; see :meth:`logpmf`."""
        return np.exp(self.logpmf(x, n, p))


multivariate_normal, dirichlet, multinomial = MultivariateNormal(), Dirichlet(), Multinomial()
