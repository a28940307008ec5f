"""SciPy's special functions: those of :mod:`nbgrad.scipy.special`, and Bessel functions.

Derivatives: NIST Digital Library of Mathematical Functions, 10.6, 10.29; not with respect to orders.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import scipy.special

from .... import np as _np
from ....kernels.special_functions import SPECIAL
from ....scipy import special as _special
from ..extend import defvjp, primitive
from ..numpy.numpy_vjps import unbroadcast
from ..numpy.wrapping import chosen

_NAMES = [*SPECIAL, "logsumexp", "multigammaln", "polygamma"]
__all__ = [*_NAMES, "i0", "i1", "iv", "ive", "j0", "j1", "jn", "rgamma", "y0", "y1", "yn"]


def __dir__() -> list[str]:
    return __all__


globals().update({name: chosen(getattr(scipy.special, name), getattr(_special, name)) for name in _NAMES})
rgamma = chosen(scipy.special.rgamma, lambda x: 1.0 / _special.gamma(x))


def _of(plain: Any) -> Any:
    return primitive(plain)


j0, j1, y0, y1 = (_of(getattr(scipy.special, n)) for n in ("j0", "j1", "y0", "y1"))
jn, yn, i0, i1, iv, ive = (_of(getattr(scipy.special, n)) for n in ("jn", "yn", "i0", "i1", "iv", "ive"))


def _along_last(function: Any, slope: Callable) -> None:
    """The derivative with respect to the last argument, `x`, alone; `slope` has all arguments."""

    def pullback(ans: Any, *args: Any) -> Callable:
        return lambda g: unbroadcast(g * slope(ans, *args), args[-1])

    defvjp(function, pullback, argnums=[0 if function in (j0, j1, y0, y1, i0, i1) else 1])


_along_last(j0, lambda ans, x: -j1(x))
_along_last(y0, lambda ans, x: -y1(x))
_along_last(j1, lambda ans, x: 0.5 * (j0(x) - jn(2, x)))
_along_last(y1, lambda ans, x: 0.5 * (y0(x) - yn(2, x)))
_along_last(i0, lambda ans, x: i1(x))
_along_last(i1, lambda ans, x: 0.5 * (i0(x) + iv(2, x)))
_along_last(jn, lambda ans, n, x: 0.5 * (jn(n - 1, x) - jn(n + 1, x)))
_along_last(yn, lambda ans, n, x: 0.5 * (yn(n - 1, x) - yn(n + 1, x)))
_along_last(iv, lambda ans, n, x: 0.5 * (iv(n - 1, x) + iv(n + 1, x)))
_along_last(ive, lambda ans, n, x: 0.5 * (ive(n - 1, x) + ive(n + 1, x)) - _np.sign(x) * ans)

#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.special)
