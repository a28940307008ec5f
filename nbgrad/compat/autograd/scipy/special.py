"""SciPy's special functions: those of :mod:`nbgrad.scipy.special`."""

from __future__ import annotations

from functools import partial

import scipy.special

from ....kernels.special_functions import SPECIAL
from ....scipy import special as _special
from ..numpy.wrapping import Chosen

_NAMES = [*SPECIAL, "logsumexp", "multigammaln", "polygamma", "zeta"]
__all__ = [*_NAMES, "rgamma"]


def __dir__() -> list[str]:
    return __all__


globals().update({name: Chosen(getattr(scipy.special, name), getattr(_special, name)) for name in _NAMES})
rgamma = Chosen(scipy.special.rgamma, lambda x: 1.0 / _special.gamma(x))

#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.special)
