"""The chi-square distribution."""

from __future__ import annotations

from functools import partial

import scipy.stats

from ...numpy.wrapping import chosen
from . import gamma

__all__ = ["cdf", "logpdf", "pdf"]

logpdf = chosen(scipy.stats.chi2.logpdf, lambda x, df, loc=0.0, scale=1.0: gamma.logpdf(x, 0.5 * df, loc, 2 * scale))
pdf = chosen(scipy.stats.chi2.pdf, lambda x, df, loc=0.0, scale=1.0: gamma.pdf(x, 0.5 * df, loc, 2 * scale))
cdf = chosen(scipy.stats.chi2.cdf, lambda x, df, loc=0.0, scale=1.0: gamma.cdf(x, 0.5 * df, loc, 2 * scale))
#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.stats.chi2)
