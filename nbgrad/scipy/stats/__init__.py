"""Distributions under SciPy's names: densities, distribution functions, their inverses, differentiated by all
parameters.

>>> import nbgrad as nb
>>> import nbgrad.np as np
>>> from nbgrad.scipy import stats
>>> waits = np.array([0.5, 1.2, 3.4])
>>> def loss(a, scale):
...     return -np.sum(stats.gamma.logpdf(waits, a, scale=scale))
>>> [round(float(g), 6) for g in nb.grad(loss, argnums=(0, 1))(2.0, 1.0)]
[0.555403, 0.9]
"""

from __future__ import annotations

from . import continuous, discrete, multivariate
from .continuous import *  # noqa: F403
from .discrete import *  # noqa: F403
from .distributions import Continuous, Discrete
from .multivariate import *  # noqa: F403

__all__ = ["Continuous", "Discrete", *continuous.__all__, *discrete.__all__, *multivariate.__all__]
