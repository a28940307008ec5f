"""Densities and distribution functions of SciPy's distributions, where an argument is recorded by their formulas.

Parameters are SciPy's: shapes, `loc` and `scale`.
"""

from functools import partial

import scipy.stats

from . import beta, chi2, dirichlet, gamma, multivariate_normal, norm, poisson, t

__all__ = ["beta", "chi2", "dirichlet", "gamma", "multivariate_normal", "norm", "poisson", "t"]

#: Other distributions, of what is not recorded.
__getattr__ = partial(getattr, scipy.stats)
