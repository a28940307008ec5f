"""SciPy's linear algebra."""

from __future__ import annotations

from functools import partial
from typing import Any

import scipy.linalg

from ....scipy import linalg
from ..numpy.wrapping import chosen

__all__: list[str] = []

# Those that have derivatives, of what is recorded.
for _name in linalg.__all__:
    globals()[_name] = chosen(getattr(scipy.linalg, _name), getattr(linalg, _name))

#: SciPy's other functions, of what is not recorded.
__getattr__: Any = partial(getattr, scipy.linalg)
