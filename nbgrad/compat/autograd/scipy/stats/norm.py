"""The normal distribution."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import scipy.stats

from ..... import np as _np
from ...numpy.wrapping import chosen
from ..special import log_ndtr, ndtr

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _logpdf(x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    return -0.5 * ((x - loc) / scale) ** 2 - _np.log(scale) - _HALF_LOG_2PI


logpdf = chosen(scipy.stats.norm.logpdf, _logpdf)
pdf = chosen(scipy.stats.norm.pdf, lambda x, loc=0.0, scale=1.0: _np.exp(_logpdf(x, loc, scale)))
cdf = chosen(scipy.stats.norm.cdf, lambda x, loc=0.0, scale=1.0: ndtr((x - loc) / scale))
sf = chosen(scipy.stats.norm.sf, lambda x, loc=0.0, scale=1.0: ndtr((loc - x) / scale))
logcdf = chosen(scipy.stats.norm.logcdf, lambda x, loc=0.0, scale=1.0: log_ndtr((x - loc) / scale))
logsf = chosen(scipy.stats.norm.logsf, lambda x, loc=0.0, scale=1.0: log_ndtr((loc - x) / scale))
#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.stats.norm)
