"""The beta distribution."""

from __future__ import annotations

from functools import partial
from typing import Any

import scipy.stats

from ..... import np as _np
from ...numpy.wrapping import chosen
from ..special import betainc, betaln

__all__ = ["cdf", "logpdf", "pdf"]


def _logpdf(x: Any, a: Any, b: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    z = (x - loc) / scale
    return (a - 1) * _np.log(z) + (b - 1) * _np.log1p(-z) - betaln(a, b) - _np.log(scale)


logpdf = chosen(scipy.stats.beta.logpdf, _logpdf)
pdf = chosen(scipy.stats.beta.pdf, lambda x, a, b, loc=0.0, scale=1.0: _np.exp(_logpdf(x, a, b, loc, scale)))
cdf = chosen(scipy.stats.beta.cdf, lambda x, a, b, loc=0.0, scale=1.0: betainc(a, b, (x - loc) / scale))
#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.stats.beta)
