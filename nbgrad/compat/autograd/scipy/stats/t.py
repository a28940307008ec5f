"""Student's t distribution; its distribution function is differentiated with respect to all but `df`."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import scipy.stats

from ..... import np as _np
from ...extend import defvjp, primitive
from ...numpy.numpy_vjps import unbroadcast
from ...numpy.wrapping import chosen
from ..special import gammaln

__all__ = ["cdf", "logcdf", "logpdf", "pdf"]


def _logpdf(x: Any, df: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    z = (x - loc) / scale
    constant = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * _np.log(df * math.pi) - _np.log(scale)
    return constant - (df + 1) / 2 * _np.log1p(z**2 / df)


logpdf = chosen(scipy.stats.t.logpdf, _logpdf)
pdf = chosen(scipy.stats.t.pdf, lambda x, df, loc=0.0, scale=1.0: _np.exp(_logpdf(x, df, loc, scale)))
_cdf: Any = primitive(lambda z, df: scipy.stats.t.cdf(z, df))
_logcdf: Any = primitive(lambda z, df: scipy.stats.t.logcdf(z, df))
defvjp(_cdf, lambda ans, z, df: lambda g: unbroadcast(g * _np.exp(_logpdf(z, df)), z), argnums=[0])
defvjp(_logcdf, lambda ans, z, df: lambda g: unbroadcast(g * _np.exp(_logpdf(z, df) - ans), z), argnums=[0])
cdf = chosen(scipy.stats.t.cdf, lambda x, df, loc=0.0, scale=1.0: _cdf((x - loc) / scale, df))
logcdf = chosen(scipy.stats.t.logcdf, lambda x, df, loc=0.0, scale=1.0: _logcdf((x - loc) / scale, df))
#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.stats.t)
