"""The Dirichlet distribution."""

from __future__ import annotations

from functools import partial
from typing import Any

import scipy.stats

from ..... import np as _np
from ...numpy.wrapping import chosen
from ..special import gammaln

__all__ = ["logpdf", "pdf"]


def _logpdf(x: Any, alpha: Any) -> Any:
    x, alpha = _np.array(x), _np.array(alpha)
    if x.shape[0] == alpha.shape[0] - 1:
        x = _np.concatenate([x, 1 - _np.sum(x, 0, keepdims=True)])
    shape = (-1,) + (1,) * (x.ndim - 1)
    constant = gammaln(_np.sum(alpha)) - _np.sum(gammaln(alpha))
    return constant + _np.sum((alpha.reshape(shape) - 1) * _np.log(x), 0)


logpdf = chosen(scipy.stats.dirichlet.logpdf, _logpdf)
pdf = chosen(scipy.stats.dirichlet.pdf, lambda x, alpha: _np.exp(_logpdf(x, alpha)))
#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.stats.dirichlet)
