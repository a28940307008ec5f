"""NumPy's functions of eigenvalues and singular values, written in the subset around calls of LAPACK."""

from __future__ import annotations

import numpy as np

from ...custom_rules import register_rule
from ...runtime.lapack_factors import (
    FACTORS,
    lapack_eigh,
    lapack_lstsq,
    lapack_pinv,
    lapack_qr,
    lapack_svd,
    precision,
)
from ..function_table import definition, holds_floats, refuse_call

__all__ = ["nuclear_norm", "product_of_three", "qr_of_large", "smallest_value", "spectral_norm"]

for _rule in FACTORS:
    register_rule(*_rule)


def floats(a):
    """The array as LAPACK takes it: integers as floats."""
    if holds_floats(a):
        return a
    return a * 1.0


# Eigenvalues.


@definition(np.linalg)
def eigh(a, UPLO="L"):
    if np.ndim(a) != 2:
        refuse_call("eigenvalues of an array that is not a matrix: of a stack, write a loop over the matrices")
    if a.shape[0] != a.shape[1]:
        raise ValueError("np.linalg.eigh of a matrix that is not square")
    if a.size == 0:
        raise ValueError("np.linalg.eigh of a matrix without elements")
    if UPLO == "L":
        values, vectors = lapack_eigh(floats(a))
    elif UPLO == "U":
        values, vectors = lapack_eigh(floats(a).T)
    else:
        refuse_call("a triangle other than UPLO='L' and UPLO='U'")
    return values, vectors


@definition(np.linalg)
def eigvalsh(a, UPLO="L"):
    values, _ = eigh(a, UPLO)
    return values


# Singular values.


def factors(a):
    """Singular values and vectors, as many as the shorter side is long."""
    if np.ndim(a) != 2:
        refuse_call("singular values of an array that is not a matrix: of a stack, write a loop over the matrices")
    if a.size == 0:
        raise ValueError("singular values of a matrix without elements")
    u, s, vt = lapack_svd(floats(a), np.zeros(min(a.shape[0], a.shape[1])))
    return u, s, vt


@definition(np.linalg)
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    if hermitian:
        refuse_call("np.linalg.svd with hermitian=True: leave it out, or use np.linalg.eigh")
    if compute_uv:
        if full_matrices and a.shape[0] != a.shape[1]:
            raise ValueError("np.linalg.svd: all vectors of a matrix that is not square: give full_matrices=False")
        found = factors(a)
    else:
        found = factors(a)[1]
    return found


def svdvals(x):
    return factors(x)[1]


if hasattr(np.linalg, "svdvals"):
    definition(np.linalg)(svdvals)


def spectral_norm(x):
    return factors(x)[1][0]


def smallest_value(x):
    s = factors(x)[1]
    return s[s.size - 1]


def nuclear_norm(x):
    return np.sum(factors(x)[1])


@definition(np.linalg)
def cond(x, p=None):
    if not (p is None or p == 2):
        refuse_call("a condition number of this norm: multiply np.linalg.norm of the matrix and of its inverse")
    s = factors(x)[1]
    return s[0] / s[s.size - 1]


def rank_of(s, cutoff):
    """How many singular values are larger."""
    rank = 0
    for k in range(s.size):
        if s[k] > cutoff:
            rank += 1
    return rank


@definition(np.linalg)
def matrix_rank(A, tol=None):
    s = factors(A)[1]
    if tol is None:
        cutoff = s[0] * max(A.shape[0], A.shape[1]) * precision(A)
    else:
        cutoff = tol
    return rank_of(s, cutoff)


# Inverses of any matrices, by these.


@definition(np.linalg)
def pinv(a, rcond=None, hermitian=False):
    if hermitian:
        refuse_call("np.linalg.pinv with hermitian=True: leave it out")
    u, s, vt = factors(a)
    if rcond is None:
        cutoff = 1e-15 * s[0]
    else:
        cutoff = rcond * s[0]
    return lapack_pinv(floats(a), u, s, vt, cutoff)


@definition(np.linalg)
def lstsq(a, b, rcond=None):
    if np.ndim(b) > 2:
        refuse_call("np.linalg.lstsq with right-hand sides of more than two axes")
    u, s, vt = factors(a)
    if b.shape[0] != a.shape[0]:
        raise ValueError("the right-hand side has another length than the matrix")
    if rcond is None:
        cutoff = max(a.shape[0], a.shape[1]) * precision(a) * s[0]
    else:
        cutoff = rcond * s[0]
    rank = rank_of(s, cutoff)
    if np.ndim(b) == 1:
        x = lapack_lstsq(floats(a), floats(b)[:, None], u, s, vt, cutoff)[:, 0]
        count = 1
    else:
        x = lapack_lstsq(floats(a), floats(b), u, s, vt, cutoff)
        count = b.shape[1]
    if rank < a.shape[1] or a.shape[0] <= a.shape[1]:
        count = 0
    residuals = np.zeros(count)
    if count > 0:
        off = a @ x - b
        if np.ndim(b) == 1:
            residuals[0] = np.sum(off**2)
        else:
            residuals[:] = np.sum(off**2, axis=0)
    return x, residuals, rank, s


# QR factors.


def qr_of_large(a):
    k = min(a.shape[0], a.shape[1])
    q, square = lapack_qr(floats(a)[:, :k])
    r = np.empty((k, a.shape[1]))
    r[:, :k] = square
    r[:, k:] = q.T @ a[:, k:]
    return q, r


# Products of several matrices.


def product_of_three(a, b, c):
    """In the order that takes fewer multiplications."""
    m, n = a.shape[0], c.shape[1]
    found = np.empty((m, n))
    if m * b.shape[1] * (a.shape[1] + n) <= a.shape[1] * n * (b.shape[1] + m):
        found[:, :] = (a @ b) @ c
    else:
        found[:, :] = a @ (b @ c)
    return found
