"""The multivariate normal distribution."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import scipy.stats

from ..... import np as _np
from ...boxes import isbox
from ...numpy.wrapping import chosen

__all__ = ["entropy", "logpdf", "pdf"]


def _covariance(cov: Any, n: int) -> Any:
    shape = cov.shape if isbox(cov) else np.shape(cov)
    return _np.array(cov) if len(shape) == 2 else _np.array(cov) * np.eye(n)


def _logpdf(x: Any, mean: Any = None, cov: Any = 1.0, allow_singular: bool = False) -> Any:
    x = _np.array(x)
    n = x.shape[-1] if x.ndim else 1
    deviation = (x if mean is None else x - mean).reshape((-1, n))
    matrix = _covariance(cov, n)
    if allow_singular:
        values = _np.linalg.eigh(matrix).eigenvalues
        kept = values > 1e-10 * values.detach().asnumpy().max()
        log_det, rank = _np.sum(_np.log(_np.where(kept, values, 1.0))), int(kept.asnumpy().sum())
        solved = deviation @ _np.linalg.pinv(matrix)
    else:
        log_det, rank = _np.linalg.slogdet(matrix).logabsdet, n
        solved = _np.linalg.solve(matrix, deviation.T).T
    found = -0.5 * (rank * math.log(2 * math.pi) + log_det + _np.sum(deviation * solved, -1))
    return found.reshape(x.shape[:-1])


def _entropy(mean: Any = None, cov: Any = 1.0) -> Any:
    n = 1 if mean is None else np.size(mean) if not isbox(mean) else mean.size
    matrix = _covariance(cov, n)
    return 0.5 * (matrix.shape[0] * math.log(2 * math.pi * math.e) + _np.linalg.slogdet(matrix).logabsdet)


logpdf = chosen(scipy.stats.multivariate_normal.logpdf, _logpdf)
pdf = chosen(scipy.stats.multivariate_normal.pdf, lambda *args, **kwargs: _np.exp(_logpdf(*args, **kwargs)))
entropy = chosen(scipy.stats.multivariate_normal.entropy, _entropy)
#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.stats.multivariate_normal)
