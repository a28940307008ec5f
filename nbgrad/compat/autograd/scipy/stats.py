"""Densities and distribution functions of SciPy's distributions, where an argument is recorded those of
:mod:`nbgrad.scipy.stats`.

Parameters are SciPy's: shapes, `loc` and `scale`. Each distribution is a module, as in autograd.
"""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import Any

import scipy.stats

from ....scipy import stats as _stats
from ..numpy.wrapping import Chosen

__all__ = [*_stats.continuous.__all__, *_stats.discrete.__all__, *_stats.multivariate.__all__]

#: Other distributions, of what is not recorded; and where modules in this one are found.
__getattr__ = partial(getattr, scipy.stats)
__path__: list[str] = []


def _distribution(name: str) -> ModuleType:
    plain, own = getattr(scipy.stats, name), getattr(_stats, name)
    module: Any = ModuleType(f"{__name__}.{name}", own.__doc__)
    for method in dir(own):
        if not method.startswith("_") and callable(getattr(own, method)) and hasattr(plain, method):
            setattr(module, method, Chosen(getattr(plain, method), getattr(own, method)))
    module.__getattr__ = partial(getattr, plain)  # SciPy's other functions, of what is not recorded
    sys.modules[module.__name__] = module
    return module


globals().update({name: _distribution(name) for name in __all__})
