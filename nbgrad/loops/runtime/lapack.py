"""Linear algebra by LAPACK in generated files, with vjps: what large matrices take instead of loops. Not
determinants: their derivative exists for singular matrices, too, which have no inverse; that of logarithms does not.

The vjps are in the subset. Formulas: Giles, *Collected matrix derivative results for forward and reverse mode
algorithmic differentiation* (2008), sections 2.2 and 2.3; for Cholesky factors, Murray (2016), section 3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["RULES"]


def lapack_solve(a, b):
    return np.linalg.solve(a, b)


def lapack_solve_vjp(g, x, a, b):
    w = np.linalg.solve(a.T, g)
    return -np.outer(w, x), w


def lapack_solve_matrix(a, b):
    return np.linalg.solve(a, b)


def lapack_solve_matrix_vjp(g, x, a, b):
    w = np.linalg.solve(a.T, g)
    return -(w @ x.T), w


def lapack_inv(a):
    return np.linalg.inv(a)


def lapack_inv_vjp(g, y, a):
    return -(y.T @ (g @ y.T))


def lapack_slogdet(a):
    return np.linalg.slogdet(a)


def lapack_slogdet_vjp(g, y, a):
    return g[1] * np.linalg.inv(a).T


def lapack_cholesky(a):
    return np.linalg.cholesky(a)


def lapack_cholesky_vjp(g, y, a):
    n = y.shape[0]
    s = y.T @ np.tril(g)
    for i in range(n):
        s[i, i] *= 0.5
        for j in range(i + 1, n):
            s[i, j] = 0.0
    x = np.linalg.solve(y.T, s)
    z = np.linalg.solve(y.T, x.T)
    found = np.zeros((n, n))  # the function reads the lower triangle alone
    for i in range(n):
        found[i, i] = z[i, i]
        for j in range(i):
            found[i, j] = z[i, j] + z[j, i]
    return found


#: By the function of np.linalg and the numbers of axes of its arguments: the function, its vjp, and their `infer`.
RULES: dict[tuple, tuple[Callable, Callable, Callable]] = {
    (np.linalg.solve, 2, 1): (lapack_solve, lapack_solve_vjp, lambda a, b: b),
    (np.linalg.solve, 2, 2): (lapack_solve_matrix, lapack_solve_matrix_vjp, lambda a, b: b),
    (np.linalg.inv, 2): (lapack_inv, lapack_inv_vjp, lambda a: a),
    (np.linalg.slogdet, 2): (lapack_slogdet, lapack_slogdet_vjp, lambda a: [((), np.float64), ((), np.float64)]),
    (np.linalg.cholesky, 2): (lapack_cholesky, lapack_cholesky_vjp, lambda a: a),
}
