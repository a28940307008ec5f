"""The elementwise functions of ``scipy.special``, of arrays of this package: :mod:`nbgrad.scipy.special` has them."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np

from ..kernels.special_functions import SPECIAL, special_rule
from .elementwise import Ufunc, elementwise

__all__ = ["of_ufunc", "special_function"]


@cache
def special_function(name: str) -> Ufunc:
    """The function of this name in ``scipy.special``."""
    doc = f"{SPECIAL[name].what}, as ``scipy.special.{name}``.\n\n"
    return elementwise(name, special_rule(name), "nbgrad.scipy.special", doc, SPECIAL[name].arguments.split())


def of_ufunc(ufunc: np.ufunc) -> Ufunc | None:
    """The function for a ufunc of SciPy's, if there is one."""
    name = ufunc.__name__
    theirs = name in SPECIAL and getattr(sys.modules.get("scipy.special"), name, None) is ufunc
    return special_function(name) if theirs else None
