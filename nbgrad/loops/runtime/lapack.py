"""Linear algebra by LAPACK in generated files, with rules: what large matrices take instead of loops.

The rules are in the subset. Formulas: Giles, *Collected matrix derivative results for forward and reverse mode
algorithmic differentiation* (2008), sections 2.2 and 2.3; for Cholesky factors, Murray (2016), sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.numba.compile import routine

__all__ = ["RULES", "lower_as_symmetric", "symmetric_as_lower"]


@routine
def lower_as_symmetric(a):
    """The symmetric matrix with the lower triangle of `a`."""
    n = a.shape[0]
    found = np.empty_like(a)
    for i in range(n):
        for j in range(i + 1):
            found[i, j] = a[i, j]
            found[j, i] = a[i, j]
    return found


@routine
def symmetric_as_lower(a):
    """The derivative with respect to the lower triangle, which alone is read, given that of the symmetric matrix."""
    n = a.shape[0]
    found = np.zeros_like(a)
    for i in range(n):
        found[i, i] = a[i, i]
        for j in range(i):
            found[i, j] = a[i, j] + a[j, i]
    return found


@routine
def lapack_solve(a, b):
    return np.linalg.solve(a, b)


@routine
def lapack_solve_vjp(g, x, a, b):
    w = np.linalg.solve(a.T, g)
    return -np.outer(w, x), w


@routine
def lapack_solve_jvp(da, db, x, a, b):
    return np.linalg.solve(a, db - da @ x)


@routine
def lapack_solve_matrix(a, b):
    return np.linalg.solve(a, b)


@routine
def lapack_solve_matrix_vjp(g, x, a, b):
    w = np.linalg.solve(a.T, g)
    return -(w @ x.T), w


@routine
def lapack_solve_matrix_jvp(da, db, x, a, b):
    return np.linalg.solve(a, db - da @ x)


@routine
def lapack_inv(a):
    return np.linalg.inv(a)


@routine
def lapack_inv_vjp(g, y, a):
    return -(y.T @ (g @ y.T))


@routine
def lapack_inv_jvp(da, y, a):
    return -(y @ (da @ y))


@routine
def lapack_slogdet(a):
    return np.linalg.slogdet(a)


@routine
def lapack_slogdet_vjp(g, y, a):
    return g[1] * np.linalg.inv(a).T


@routine
def lapack_slogdet_jvp(da, y, a):
    return 0.0, np.sum(np.linalg.inv(a).T * da)


@routine
def lapack_cholesky(a):
    return np.linalg.cholesky(a)


@routine
def lapack_cholesky_vjp(g, y, a):
    n = y.shape[0]
    s = y.T @ np.tril(g)
    for i in range(n):
        s[i, i] *= 0.5
        for j in range(i + 1, n):
            s[i, j] = 0.0
    x = np.linalg.solve(y.T, s)
    return symmetric_as_lower(np.linalg.solve(y.T, x.T))


@routine
def lapack_cholesky_jvp(da, y, a):
    n = y.shape[0]
    x = np.linalg.solve(y, lower_as_symmetric(da))
    s = np.linalg.solve(y, x.T)
    for i in range(n):
        s[i, i] *= 0.5
        for j in range(i + 1, n):
            s[i, j] = 0.0
    return y @ s


#: By the function of np.linalg and the numbers of axes of its arguments: the function, its vjp, their `infer`, its jvp.
RULES: dict[tuple, tuple[Callable, Callable, Callable, Callable]] = {
    (np.linalg.solve, 2, 1): (lapack_solve, lapack_solve_vjp, lambda a, b: b, lapack_solve_jvp),
    (np.linalg.solve, 2, 2): (
        lapack_solve_matrix, lapack_solve_matrix_vjp, lambda a, b: b, lapack_solve_matrix_jvp,
    ),
    (np.linalg.inv, 2): (lapack_inv, lapack_inv_vjp, lambda a: a, lapack_inv_jvp),
    (np.linalg.slogdet, 2): (
        lapack_slogdet, lapack_slogdet_vjp, lambda a: [((), np.float64), ((), np.float64)], lapack_slogdet_jvp,
    ),
    (np.linalg.cholesky, 2): (lapack_cholesky, lapack_cholesky_vjp, lambda a: a, lapack_cholesky_jvp),
}  # fmt: skip
