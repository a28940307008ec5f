"""The Poisson distribution, whose parameter is differentiated."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.stats

from ..... import np as _np
from ...boxes import getval, isbox
from ...extend import defvjp, primitive
from ...numpy.numpy_vjps import unbroadcast
from ...numpy.wrapping import chosen
from ..special import gammaln

__all__ = ["cdf", "logpmf", "pmf"]


def _logpmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    if isbox(k):
        raise NotImplementedError("poisson: counts are integers, and have no derivative; pass k as a NumPy array")
    k = np.asarray(getval(k)) - loc
    return k * _np.log(mu) - mu - gammaln(k + 1.0)


logpmf = chosen(scipy.stats.poisson.logpmf, _logpmf)
pmf = chosen(scipy.stats.poisson.pmf, lambda k, mu, loc=0: _np.exp(_logpmf(k, mu, loc)))
cdf: Any = primitive(scipy.stats.poisson.cdf)
defvjp(
    cdf,
    lambda ans, k, mu, loc=0: lambda g: unbroadcast(-g * pmf(np.floor(getval(k)), mu, loc), mu),
    argnums=[1],
)
#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.stats.poisson)
