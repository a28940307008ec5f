"""Kernels of linear algebra: LAPACK, through Numba's binding to SciPy's, over stacks of matrices in flat buffers.

A matrix stored row by row is its transpose stored column by column, as LAPACK reads it. The kernels are arranged so
that nothing needs to be transposed: the factors of the transpose are the transposed factors.

The routines are called as what they are, functions of pointers that answer with a status. Nothing raises, nothing is
allocated by Numba: ``info[k]`` is 0, or says that matrix k has no such factorization, and the operator complains.
LAPACK may loop for ever on NaN, so elements that are not finite are found first.
"""

from __future__ import annotations

import math

import numpy as np

from ..backends.numba.compile import inline, kernel
from ..backends.numba.intrinsics import types

__all__ = ["FAILED", "NOT_FINITE", "letter"]

#: What ``info`` holds besides 0.
FAILED, NOT_FINITE = 1, 2


def _routine(name: str, signature: str) -> types.ExternalFunction:
    """A function of Numba's binding: `c` a letter, `i` a size, `p` a buffer."""
    kinds = {"c": types.char, "i": types.intp, "p": types.voidptr}
    return types.ExternalFunction(name, types.intc(*[kinds[s] for s in signature]))


_potrf = _routine("numba_xxpotrf", "ccipi")
_getrf = _routine("numba_xxgetrf", "ciipip")
_getri = _routine("numba_ez_xxgetri", "cipip")
_gesv = _routine("numba_xgesv", "ciipippi")
_syevd = _routine("numba_ez_xxxevd", "cccipip")
_gesdd = _routine("numba_ez_gesdd", "cciipippipi")
_geqrf = _routine("numba_ez_geqrf", "ciipip")
_orgqr = _routine("numba_ez_xxgqr", "ciiipip")

_U, _S, _V = ord("U"), ord("S"), ord("V")


def letter(storage: np.dtype) -> int:
    """LAPACK's letter for a dtype."""
    return ord("d" if storage == np.float64 else "s")


@inline
def _all_finite(x):
    found = 0
    for i in range(np.uint64(x.size)):
        found += not math.isfinite(x[i])
    return found == 0


@kernel
def cholesky(a, info, batch, n, kind):
    """Lower factors, in place; the upper triangles are not read."""
    for b in range(batch):
        x = a[b * n * n : (b + 1) * n * n]
        info[b] = 0
        for i in range(n):
            for j in range(i + 1, n):
                x[i * n + j] = 0
        if not _all_finite(x):
            info[b] = NOT_FINITE
        elif _potrf(kind, _U, n, x.ctypes, n) != 0:
            info[b] = FAILED


@kernel
def triangular_solve(a, x, info, batch, n, m, lower, transpose):
    """x <- op(a)^-1 x for x of shape (batch, n, m), reading one triangle of a."""
    rows, width = np.uint64(n), np.uint64(m)
    one = np.uint64(1)
    forward = lower != transpose
    for b in range(np.uint64(batch)):
        p, q = b * rows * rows, b * rows * width
        info[b] = 0
        for r in range(rows):
            i = r if forward else rows - one - r
            here = q + i * width
            for k in range(r):
                j = k if forward else rows - one - k
                factor = a[p + (j * rows + i if transpose else i * rows + j)]
                there = q + j * width
                for c in range(width):
                    x[here + c] -= factor * x[there + c]
            pivot = a[p + i * rows + i]
            if pivot == 0:
                info[b] = FAILED
            for c in range(width):
                x[here + c] /= pivot


@kernel
def inverse(a, info, pivots, batch, n, kind, zero):
    """Inverses, in place; of a singular matrix zeros if `zero`."""
    for b in range(batch):
        x = a[b * n * n : (b + 1) * n * n]
        info[b] = 0
        failed = _getrf(kind, n, n, x.ctypes, n, pivots.ctypes) != 0
        if not failed:
            failed = _getri(kind, n, x.ctypes, n, pivots.ctypes) != 0
        if failed and zero:
            x[:] = 0
        elif failed:
            info[b] = FAILED


@kernel
def solve(a, rhs, x, info, pivots, left, right, batch, n, m, transpose, kind):
    """x = op(a)^-1 rhs; `left` (n, n) and `right` (m, n) are scratch memory."""
    for b in range(batch):
        matrix = a[b * n * n : (b + 1) * n * n]
        for i in range(n):
            for j in range(n):
                left[j * n + i] = matrix[j * n + i] if transpose else matrix[i * n + j]
        for i in range(n):
            for j in range(m):
                right[j * n + i] = rhs[b * n * m + i * m + j]
        info[b] = 0
        if _gesv(kind, n, m, left.ctypes, n, pivots.ctypes, right.ctypes, n) != 0:
            info[b] = FAILED
        for i in range(n):
            for j in range(m):
                x[b * n * m + i * m + j] = right[j * n + i]


@kernel
def slogdet(a, sign, log, det, pivots, batch, n, kind):
    """Sign, log of the absolute value, and the determinant; `a` is overwritten. `pivots` has 2n elements."""
    for b in range(batch):
        x = a[b * n * n : (b + 1) * n * n]
        pivots[:] = 0
        _getrf(kind, n, n, x.ctypes, n, pivots.ctypes)
        # Where LAPACK's integers have 64 bits the second half of the first one is 0; else it is the second one, >= 2.
        step = 2 if n > 1 and pivots[1] == 0 else 1
        product = 1.0
        total = 0.0
        one = 1.0
        for i in range(n):
            d = np.float64(x[i * n + i])
            if pivots[i * step] != i + 1:
                d = -d
            product *= d
            total += math.log(abs(d))
            if d < 0:
                one = -one
            elif d == 0:
                one = 0.0 * one
            elif math.isnan(d):
                one = d
        det[b] = product
        sign[b] = one + 0.0  # no negative zero
        log[b] = total


@kernel
def symmetric_eigen(a, w, info, batch, n, kind):
    """Eigenvectors into the rows of `a`, eigenvalues, ascending, into `w`; upper triangles are not read.

    Each vector's largest element (the first of them) is positive.
    """
    for b in range(batch):
        x = a[b * n * n : (b + 1) * n * n]
        values = w[b * n : (b + 1) * n]
        info[b] = 0
        for i in range(n):
            for j in range(i + 1, n):
                x[i * n + j] = 0
        if not _all_finite(x):
            info[b] = NOT_FINITE
        elif _syevd(kind, _V, _U, n, x.ctypes, n, values.ctypes) != 0:
            info[b] = FAILED
        for i in range(n):
            largest = x[i * n]
            for j in range(1, n):
                if abs(x[i * n + j]) > abs(largest):
                    largest = x[i * n + j]
            if largest < 0:
                for j in range(n):
                    x[i * n + j] = -x[i * n + j]


@kernel
def svd(a, u, s, vt, info, batch, m, n, kind):
    """The thin factors (m, k), (k), (k, n); `a` is overwritten. Each row of vt has its largest element positive."""
    k = min(m, n)
    for b in range(batch):
        x = a[b * m * n : (b + 1) * m * n]
        left, right = u[b * m * k : (b + 1) * m * k], vt[b * k * n : (b + 1) * k * n]
        values = s[b * k : (b + 1) * k]
        info[b] = 0
        if not _all_finite(x):
            info[b] = NOT_FINITE
        elif _gesdd(kind, _S, n, m, x.ctypes, n, values.ctypes, right.ctypes, n, left.ctypes, k) != 0:
            info[b] = FAILED
        for i in range(k):
            largest = right[i * n]
            for j in range(1, n):
                if abs(right[i * n + j]) > abs(largest):
                    largest = right[i * n + j]
            if largest < 0:
                for j in range(n):
                    right[i * n + j] = -right[i * n + j]
                for j in range(m):
                    left[j * k + i] = -left[j * k + i]


@kernel
def lq(q, low, tau, info, batch, m, n, kind):
    """a = L Q for m <= n: `q` holds a, and then Q."""
    for b in range(batch):
        x = q[b * m * n : (b + 1) * m * n]
        info[b] = 0
        failed = _geqrf(kind, n, m, x.ctypes, n, tau.ctypes) != 0
        for i in range(m):
            for j in range(m):
                low[b * m * m + i * m + j] = x[i * n + j] if j <= i else 0
        if failed or _orgqr(kind, n, m, m, x.ctypes, n, tau.ctypes) != 0:
            info[b] = FAILED


@kernel(runtime=True)
def pseudo_inverse(u, s, vt, out, batch, m, n, rcond):
    """V diag(1/s) U^T, leaving out singular values up to `rcond` times the largest; `vt` is overwritten."""
    k = min(m, n)
    for b in range(batch):
        left = u[b * m * k : (b + 1) * m * k].reshape((m, k))
        right = vt[b * k * n : (b + 1) * k * n].reshape((k, n))
        for i in range(k):
            value = s[b * k + i]
            for j in range(n):
                right[i, j] = right[i, j] / value if value > rcond * s[b * k] else 0
        np.dot(right.T, left.T, out[b * n * m : (b + 1) * n * m].reshape((n, m)))


#: Coefficients of the Pade approximant of degree 13, divided by the first.
_PADE = np.ones(14)
for _k in range(1, 14):
    _PADE[_k] = _PADE[_k - 1] * (14 - _k) / (_k * (27 - _k))
_THETA = 5.371920351148152


@kernel(runtime=True)
def expm(a, out, work, pivots, info, batch, n, kind):
    """Scaling, the approximant p(a)/p(-a) of degree 13, squaring (N. Higham, SIAM J. Matrix Anal. Appl. 26, 2005)."""
    size = n * n
    x, x2, x4, x6 = work[:size], work[size : 2 * size], work[2 * size : 3 * size], work[3 * size : 4 * size]
    odd, even, scratch = work[4 * size : 5 * size], work[5 * size : 6 * size], work[6 * size : 7 * size]
    shape = (n, n)
    for b in range(batch):
        matrix, result = a[b * size : (b + 1) * size], out[b * size : (b + 1) * size]
        info[b] = 0
        if not _all_finite(matrix):
            result[:] = np.nan
            continue
        norm = 0.0
        for i in range(n):
            total = 0.0
            for j in range(n):
                total += abs(matrix[i * n + j])
            norm = max(norm, total)
        halvings = max(0, math.ceil(math.log2(norm / _THETA))) if norm > _THETA else 0
        for i in range(size):
            x[i] = math.ldexp(np.float64(matrix[i]), -halvings)
        np.dot(x.reshape(shape), x.reshape(shape), x2.reshape(shape))
        np.dot(x2.reshape(shape), x2.reshape(shape), x4.reshape(shape))
        np.dot(x2.reshape(shape), x4.reshape(shape), x6.reshape(shape))
        for i in range(size):
            scratch[i] = _PADE[13] * x6[i] + _PADE[11] * x4[i] + _PADE[9] * x2[i]
        np.dot(x6.reshape(shape), scratch.reshape(shape), even.reshape(shape))
        for i in range(size):
            even[i] += _PADE[7] * x6[i] + _PADE[5] * x4[i] + _PADE[3] * x2[i]
        for i in range(n):
            even[i * n + i] += _PADE[1]
        np.dot(x.reshape(shape), even.reshape(shape), odd.reshape(shape))
        for i in range(size):
            scratch[i] = _PADE[12] * x6[i] + _PADE[10] * x4[i] + _PADE[8] * x2[i]
        np.dot(x6.reshape(shape), scratch.reshape(shape), even.reshape(shape))
        for i in range(size):
            even[i] += _PADE[6] * x6[i] + _PADE[4] * x4[i] + _PADE[2] * x2[i]
        for i in range(n):
            even[i * n + i] += _PADE[0]
        for i in range(size):
            scratch[i] = even[i] - odd[i]
            result[i] = even[i] + odd[i]
        if _gesv(kind, n, n, scratch.ctypes, n, pivots.ctypes, result.ctypes, n) != 0:
            info[b] = FAILED
        for _ in range(halvings):
            scratch[:] = result
            np.dot(scratch.reshape(shape), scratch.reshape(shape), result.reshape(shape))
