"""SciPy's linear algebra."""

from __future__ import annotations

import scipy.linalg

from ....scipy import linalg
from ..numpy.wrapping import wrapped_module

__all__: list[str] = []

globals().update(wrapped_module(scipy.linalg, linalg))
