"""SciPy's linear algebra: triangular systems, square roots, Sylvester's equation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.linalg

from .... import np as _np
from ..extend import defvjp, primitive
from ..numpy.wrapping import chosen

__all__ = ["solve_banded", "solve_sylvester", "solve_triangular", "sqrtm"]


def _solve_triangular(a: Any, b: Any, trans: Any = 0, lower: bool = False, **options: Any) -> Any:
    triangle = _np.tril(a) if lower else _np.triu(a)
    return _np.linalg.solve(triangle.T if trans in (1, "T", 2, "C") else triangle, b)


solve_triangular = chosen(scipy.linalg.solve_triangular, _solve_triangular)


def _solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any, **options: Any) -> Any:
    n, (below, above) = ab.shape[1], l_and_u
    bands = range(above, -below - 1, -1)
    matrix = sum(_np.diag(ab[above - k, max(k, 0) : n + min(k, 0)], k) for k in bands if abs(k) < n)
    return _np.linalg.solve(matrix, b)


solve_banded = chosen(scipy.linalg.solve_banded, _solve_banded)
#: The principal square root, and the solution X of A X + X B = Q.
sqrtm: Any = primitive(lambda a: np.real_if_close(scipy.linalg.sqrtm(a)))
solve_sylvester: Any = primitive(scipy.linalg.solve_sylvester)


def _transposed(x: Any) -> Any:
    return _np.swapaxes(_np.asarray(x), -1, -2)


def _adjoint(a: Any, b: Any, g: Any) -> Any:
    return solve_sylvester(_transposed(a), _transposed(b), _np.asarray(g))


defvjp(sqrtm, lambda ans, a: lambda g: _adjoint(ans, ans, g))
defvjp(
    solve_sylvester,
    lambda ans, a, b, q: lambda g: -_adjoint(a, b, g) @ _transposed(ans),
    lambda ans, a, b, q: lambda g: -_transposed(ans) @ _adjoint(a, b, g),
    lambda ans, a, b, q: lambda g: _adjoint(a, b, g),
)

#: SciPy's other functions, of what is not recorded.
__getattr__ = partial(getattr, scipy.linalg)
