"""The gamma distribution."""

from __future__ import annotations

from functools import partial
from typing import Any

import scipy.stats

from ..... import np as _np
from ...numpy.wrapping import chosen
from ..special import gammainc, gammaln

__all__ = ["cdf", "logpdf", "pdf"]


def _logpdf(x: Any, a: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    z = (x - loc) / scale
    return (a - 1) * _np.log(z) - z - gammaln(a) - _np.log(scale)


logpdf = chosen(scipy.stats.gamma.logpdf, _logpdf)
pdf = chosen(scipy.stats.gamma.pdf, lambda x, a, loc=0.0, scale=1.0: _np.exp(_logpdf(x, a, loc, scale)))
cdf = chosen(scipy.stats.gamma.cdf, lambda x, a, loc=0.0, scale=1.0: gammainc(a, (x - loc) / scale))
#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.stats.gamma)
