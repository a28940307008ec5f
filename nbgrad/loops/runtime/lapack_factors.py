"""Eigenvalues, singular values and what follows from them, by LAPACK in generated files, with rules in the subset.

Formulas: those of :mod:`nbgrad.kernels.factorizations`, and the tangents that belong to them. As there, where a
quotient would divide by what is nothing but rounding, it is 0 if the numerator is exactly 0 (a function of the values
alone), else NaN: no derivative exists, or none that these numbers could tell.

Lengths that are a minimum of two cannot be inferred from the arguments: `room` is a vector that has this length.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.numba.compile import routine
from .lapack import lower_as_symmetric, symmetric_as_lower

__all__ = ["DET", "FACTORS", "lapack_eigh", "lapack_lstsq", "lapack_pinv", "lapack_qr", "lapack_svd", "precision"]


@routine
def precision(a):
    """The distance from 1 to the next number of the dtype of a matrix."""
    return np.finfo(a.dtype).eps


@routine
def precision_vjp(g, y, a):
    return None


@routine
def rounding(values, a):
    """What may be nothing but rounding in eigenvalues or singular values of `a`."""
    largest = 0.0
    for i in range(values.size):
        largest = max(largest, abs(values[i]))
    return 4.0 * max(a.shape[0], a.shape[1]) * precision(a) * largest


@routine
def quotient(x, y, limit):
    """x/y, where y is larger than a limit; else 0 if x is 0, NaN if not."""
    inverse = 1.0 / y if abs(y) > limit else np.nan
    return x * inverse if x != 0.0 else 0.0


@routine
def with_diagonal(off, values):
    """A matrix with other values on the diagonal."""
    found = off.copy()
    for i in range(values.size):
        found[i, i] = values[i]
    return found


# Eigenvalues of symmetric matrices.


@routine
def lapack_eigh(a):
    return np.linalg.eigh(a)


@routine
def over_gaps(x, w, limit):
    """x_ij/(w_j - w_i), and 0 on the diagonal."""
    found = np.zeros_like(x)
    for i in range(w.size):
        for j in range(w.size):
            if i != j:
                found[i, j] = quotient(x[i, j], w[j] - w[i], limit)
    return found


@routine
def lapack_eigh_vjp(g, y, a):
    w, v = y
    off = over_gaps(v.T @ g[1], w, rounding(w, a))
    return symmetric_as_lower(v @ (with_diagonal(off, g[0]) @ v.T))


@routine
def lapack_eigh_jvp(da, y, a):
    w, v = y
    moved = v.T @ (lower_as_symmetric(da) @ v)
    dw = np.empty_like(w)
    for i in range(w.size):
        dw[i] = moved[i, i]
    return dw, v @ over_gaps(moved, w, rounding(w, a))


# Singular values.


@routine
def lapack_svd(a, room):
    return np.linalg.svd(a, False)


@routine
def over_square_gaps(x, s, limit):
    """x_ij/(s_j^2 - s_i^2), and 0 on the diagonal."""
    found = np.zeros_like(x)
    for i in range(s.size):
        for j in range(s.size):
            if i != j:
                found[i, j] = quotient(quotient(x[i, j], s[j] - s[i], limit), s[j] + s[i], limit)
    return found


@routine
def over_columns(x, s, limit):
    """The columns of a matrix over the elements of a vector."""
    found = np.empty_like(x)
    for i in range(x.shape[0]):
        for j in range(s.size):
            found[i, j] = quotient(x[i, j], s[j], limit)
    return found


@routine
def lapack_svd_vjp(g, y, a, room):
    u, s, vt = y
    gu, gs, gvt = g
    limit = rounding(s, a)
    left, right = u.T @ gu, vt @ gvt.T
    turned_left, turned_right = over_square_gaps(left, s, limit), over_square_gaps(right, s, limit)
    inner = np.empty_like(left)
    for i in range(s.size):
        for j in range(s.size):
            inner[i, j] = s[j] * (turned_left[i, j] + turned_left[j, i])
            inner[i, j] += s[i] * (turned_right[i, j] + turned_right[j, i])
        inner[i, i] = gs[i]
    found = u @ (inner @ vt)
    if a.shape[0] > s.size:
        found += over_columns(gu - u @ left, s, limit) @ vt
    if a.shape[1] > s.size:
        found += u @ over_columns(gvt.T - vt.T @ right, s, limit).T
    return found, None


@routine
def lapack_svd_jvp(da, y, a, room):
    u, s, vt = y
    limit = rounding(s, a)
    av = da @ vt.T
    moved = u.T @ av
    left, right, ds = np.empty_like(moved), np.empty_like(moved), np.empty_like(s)
    for i in range(s.size):
        ds[i] = moved[i, i]
        for j in range(s.size):
            left[i, j] = moved[i, j] * s[j] + s[i] * moved[j, i]
            right[i, j] = s[i] * moved[i, j] + moved[j, i] * s[j]
    du, dv = u @ over_square_gaps(left, s, limit), vt.T @ over_square_gaps(right, s, limit)
    if a.shape[0] > s.size:
        du += over_columns(av - u @ moved, s, limit)
    if a.shape[1] > s.size:
        dv += over_columns(da.T @ u - vt.T @ moved.T, s, limit)
    return du, ds, dv.T.copy()


# QR factors of tall matrices.


@routine
def lapack_qr(a):
    q, r = np.linalg.qr(a)
    return np.ascontiguousarray(q), np.ascontiguousarray(r)


@routine
def lapack_qr_vjp(g, y, a):
    q, r = y
    gq, gr = g
    m = r @ gr.T - gq.T @ q
    for i in range(r.shape[0]):
        for j in range(i + 1, r.shape[0]):
            m[i, j] = m[j, i]
    return np.linalg.solve(r, (gq + q @ m).T).T


@routine
def lapack_qr_jvp(da, y, a):
    q, r = y
    c = np.linalg.solve(r.T, da.T).T
    m = q.T @ c
    for i in range(r.shape[0]):  # becomes M less the antisymmetric matrix with its lower triangle
        for j in range(i):
            m[j, i] += m[i, j]
            m[i, j] = 0.0
    return c - q @ m, m @ r


# Pseudo-inverses, and least squares by these. The singular values and vectors that they are made of are given: their
# own derivatives do not exist where values are equal, while those of pseudo-inverses do.


@routine
def over_values(u, s, cutoff):
    """The columns of a matrix over singular values; 0 for those up to a limit."""
    found = np.zeros_like(u)
    for j in range(s.size):
        if s[j] > cutoff:
            for i in range(u.shape[0]):
                found[i, j] = u[i, j] / s[j]
    return found


@routine
def lapack_pinv(a, u, s, vt, cutoff):
    return (over_values(u, s, cutoff) @ vt).T.copy()


@routine
def lapack_pinv_vjp(g, y, a, u, s, vt, cutoff):
    # I - A P and I - P A are applied, not formed.
    left = (g.T @ y) @ y.T
    right = y.T @ (y @ g.T)
    found = (left - a @ (y @ left)) + (right - (right @ y) @ a)
    return found - y.T @ (g @ y.T), None, None, None, None


@routine
def lapack_pinv_jvp(da, y, a, u, s, vt, cutoff):
    left = y @ (y.T @ da.T)
    right = (da.T @ y.T) @ y
    found = (left - (left @ a) @ y) + (right - y @ (a @ right))
    return found - y @ (da @ y)


@routine
def lapack_lstsq(a, b, u, s, vt, cutoff):
    return vt.T @ (over_values(u, s, cutoff).T @ b)


@routine
def lapack_lstsq_vjp(g, x, a, b, u, s, vt, cutoff):
    p = lapack_pinv(a, u, s, vt, cutoff)
    w = p.T @ g
    found = (b - a @ x) @ (p @ w).T + (p.T @ x) @ (g - a.T @ w).T
    return found - w @ x.T, w, None, None, None, None


@routine
def lapack_lstsq_jvp(da, db, x, a, b, u, s, vt, cutoff):
    p = lapack_pinv(a, u, s, vt, cutoff)
    moved = da.T @ (p.T @ x)
    found = p @ (db - da @ x) + p @ (p.T @ (da.T @ (b - a @ x)))
    return found + (moved - p @ (a @ moved))


# Determinants.


@routine
def lapack_det(a):
    return np.linalg.det(a)


@routine
def cofactors(a, value):
    """The derivative of a determinant: its multiple of the inverse, unless the matrix is singular, or nearly so."""
    found, regular = np.zeros_like(a), False
    if value != 0.0:
        inverse = np.linalg.inv(a)
        if np.sum(np.abs(inverse)) * np.sum(np.abs(a)) < 1e12:
            regular = True
            for i in range(a.shape[0]):
                for j in range(a.shape[0]):
                    found[i, j] = value * inverse[j, i]
    if not regular:
        # With A = U S V^T: det(U V^T) times U, the products of all other singular values, V^T.
        u, s, vt = lapack_svd(a, np.zeros(a.shape[0]))
        found += times_others(u, s, np.linalg.det(u) * np.linalg.det(vt)) @ vt
    return found


@routine
def times_others(u, s, sign):
    """The columns of a matrix, each times all numbers but that of its own; with a sign."""
    found = np.empty_like(u)
    for j in range(s.size):
        others = 1.0 if sign > 0.0 else -1.0
        for k in range(s.size):
            if k != j:
                others *= s[k]
        for i in range(u.shape[0]):
            found[i, j] = u[i, j] * others
    return found


@routine
def lapack_det_vjp(g, y, a):
    return g * cofactors(a, y)


@routine
def lapack_det_jvp(da, y, a):
    return np.sum(cofactors(a, y) * da)


def _of_svd(a, room):
    return [((a.shape[0], room.size), a.dtype), room, ((room.size, a.shape[1]), a.dtype)]


#: The functions, with their vjps, what they return, and their jvps.
FACTORS: list[tuple[Callable, Callable, Callable, Callable | None]] = [
    (precision, precision_vjp, lambda a: ((), np.float64), None),
    (lapack_eigh, lapack_eigh_vjp, lambda a: [a[0], a], lapack_eigh_jvp),
    (lapack_svd, lapack_svd_vjp, _of_svd, lapack_svd_jvp),
    (lapack_qr, lapack_qr_vjp, lambda a: [a, ((a.shape[1], a.shape[1]), a.dtype)], lapack_qr_jvp),
    (lapack_pinv, lapack_pinv_vjp, lambda a, *_: ((a.shape[1], a.shape[0]), a.dtype), lapack_pinv_jvp),
    (lapack_lstsq, lapack_lstsq_vjp, lambda a, b, *_: ((a.shape[1], b.shape[1]), a.dtype), lapack_lstsq_jvp),
]
#: Of large matrices alone.
DET = (lapack_det, lapack_det_vjp, lambda a: ((), np.float64), lapack_det_jvp)
