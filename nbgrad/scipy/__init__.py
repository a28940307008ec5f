"""Functions of SciPy on arrays of :mod:`nbgrad.np`, with derivatives by all arguments.

>>> import nbgrad as nb
>>> import nbgrad.np as np
>>> from nbgrad.scipy import special, stats
>>> round(nb.grad(lambda a: special.gammainc(a, 2.0))(1.5), 6)
-0.277434
"""

from __future__ import annotations

from . import linalg, ndimage, signal, special, stats

__all__ = ["linalg", "ndimage", "signal", "special", "stats"]
