"""Linear algebra under SciPy's names, of arrays of :mod:`nbgrad.np`, with derivatives of any order.

Arguments that say what may be overwritten, or is to be checked (``overwrite_a``, ``check_finite``), have no effect.
"""

from __future__ import annotations

from ...np.linalg import svdvals
from .basic import det, inv, lstsq, pinv, solve
from .equations import solve_continuous_lyapunov, solve_discrete_lyapunov, solve_sylvester
from .factors import cho_factor, cho_solve, cholesky, eigh, eigvalsh, qr, solve_banded, solve_triangular, svd
from .functions import coshm, cosm, expm, logm, sinhm, sinm, sqrtm
from .structured import block_diag, circulant, hankel, toeplitz

__all__ = ["block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "coshm", "cosm", "det", "eigh", "eigvalsh",
           "expm", "hankel", "inv", "logm", "lstsq", "pinv", "qr", "sinhm", "sinm", "solve", "solve_banded",
           "solve_continuous_lyapunov", "solve_discrete_lyapunov", "solve_sylvester", "solve_triangular", "sqrtm",
           "svd", "svdvals", "toeplitz"]  # fmt: skip
