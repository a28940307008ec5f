"""Linear equations for matrices: Sylvester's and Lyapunov's."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from ... import np as xp
from ...autograd import Function
from ...errors import LinAlgError
from ...np.arrays import as_array, ndarray
from ...np.manipulation import together

__all__ = ["solve_continuous_lyapunov", "solve_discrete_lyapunov", "solve_sylvester"]


class _Sylvester(Function):
    """X with ``a X + X b = q``. The cotangent of q solves the equation of aᵀ and bᵀ, and those of a and b follow."""

    _saves = (0, 1, 3)

    def infer(self, a: ndarray, b: ndarray, q: ndarray) -> ndarray:
        return q

    def forward(self, a: ndarray, b: ndarray, q: ndarray) -> ndarray:
        x = xp.array(_solution(a.asnumpy(), b.asnumpy(), q.asnumpy()))
        self.save_for_backward(a, b, x)
        return x

    def backward(self, g: ndarray) -> tuple[ndarray, ndarray, ndarray]:
        a, b, x = self.saved_tensors
        s = _Sylvester()(a.T, b.T, g)
        return -(s @ x.T), -(x.T @ s), s


def _solution(a: np.ndarray, b: np.ndarray, q: np.ndarray) -> np.ndarray:
    """By Schur forms (Bartels and Stewart, 1972), as SciPy's, which lets LAPACK perturb a singular equation unseen."""
    if not q.size:
        return q.copy()
    (r, u), (s, v) = scipy.linalg.schur(a), scipy.linalg.schur(b.T)
    solve = scipy.linalg.get_lapack_funcs("trsyl", (r, s, q))
    y, scale, info = solve(r, s, u.T @ q @ v, tranb="T")
    if info:
        raise LinAlgError(
            "solve_sylvester: there is no single solution, as an eigenvalue of a is one of -b, or nearly so"
        )
    return u @ (scale * y) @ v.T


def _square(a: Any, name: str, like: Any = None) -> ndarray:
    x = as_array(a, name, like)
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise LinAlgError(f"{name}: a square matrix is expected, got an array of shape {x.shape}")
    return x if x.dtype.kind == "f" else x.astype(np.float64)


def solve_sylvester(a: Any, b: Any, q: Any) -> ndarray:
    """The X with ``a X + X b = q``, as ``scipy.linalg.solve_sylvester``.

    Parameters
    ----------
    a : array_like, shape (m, m)
    b : array_like, shape (n, n)
    q : array_like, shape (m, n)

    Returns
    -------
    ndarray, shape (m, n)

    Raises
    ------
    LinAlgError
        If the shapes differ from these, or an eigenvalue of `a` is one of ``-b``, so that there is no single solution.

    Examples
    --------
    >>> from nbgrad.scipy import linalg
    >>> linalg.solve_sylvester([[1.0, 0.0], [0.0, 2.0]], [[3.0]], [[8.0], [5.0]])
    array([[2.],
           [1.]])
    """
    a, b = _square(a, "solve_sylvester"), _square(b, "solve_sylvester")
    q = as_array(q, "solve_sylvester")
    if q.shape != (a.shape[0], b.shape[0]):
        raise LinAlgError(f"solve_sylvester: q must have the shape {(a.shape[0], b.shape[0])}, got {q.shape}")
    a, b, q = together("solve_sylvester", (a, b, q))
    return _Sylvester()(a, b, q)


def solve_continuous_lyapunov(a: Any, q: Any) -> ndarray:
    """The X with ``a X + X aᵀ = q``, for matrices of shape (n, n), as ``scipy.linalg.solve_continuous_lyapunov``."""
    a = _square(a, "solve_continuous_lyapunov")
    return solve_sylvester(a, a.T, q)


def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> ndarray:
    """The X with ``a X aᵀ - X + q = 0``, for matrices of shape (n, n), as ``scipy.linalg.solve_discrete_lyapunov``.

    `method` is "direct", a system of n² equations, or "bilinear", a Lyapunov equation; None takes the first for n < 10.
    """
    a = _square(a, "solve_discrete_lyapunov")
    q = _square(q, "solve_discrete_lyapunov")
    n = a.shape[0]
    if method not in (None, "direct", "bilinear"):
        raise ValueError(f"solve_discrete_lyapunov: the methods are 'direct' and 'bilinear', got {method!r}")
    if method == "direct" or (method is None and n < 10):
        return xp.linalg.solve(xp.eye(n * n) - xp.kron(a, a), q.reshape(-1)).reshape(n, n)
    turned = xp.linalg.inv(a.T + xp.eye(n))
    b = (a.T - xp.eye(n)) @ turned
    c = 2 * xp.linalg.inv(a + xp.eye(n)) @ q @ turned
    return solve_continuous_lyapunov(b.T, -c)
