"""Factorizations and solutions of stacks of matrices, (b, n, n) or (b, m, n), with their derivatives.

The maths; G (or G_X) is the cotangent of the result X, and sym(M) = (M + M^T)/2.

* ``cholesky``, A = L L^T: dA = sym(L^-T P L^-1), P = L^T G with the upper triangle left out and the diagonal halved
  (I. Murray, arXiv:1602.07527, 2016).
* ``triangular_solve``, X = T^-1 B: dB = T^-T G, dT = -dB X^T on the triangle. ``solve`` likewise.
* ``inverse``, Y = A^-1: dA = -Y^T G Y^T.
* ``det`` d: dA = g C with the cofactors C, which are d A^-T; dC = (<G, A^-T> - A^-T G^T) C.
* ``slogdet``: dA = g A^-T for the logarithm; the sign is constant.
* ``lq``, A = L Q with orthonormal rows: M = L^T G_L - G_Q Q^T, S = M with the lower triangle copied to the upper,
  dA = L^-T (G_Q + S Q) (M. Seeger et al., arXiv:1710.08717, 2017).
* ``eigen``, A = U^T diag(w) U: dA = sym(U^T (diag(G_w) + F * (U G_U^T)) U), F_ij = 1/(w_j - w_i), 0 for i = j.
* ``svd``, A = U diag(s) V^T: with F_ij = 1/(s_j^2 - s_i^2), 0 for i = j,
  dA = U ((F * (U^T G_U - G_U^T U)) S + S (F * (V^T G_V - G_V^T V)) + diag(G_s)) V^T
  + (I - U U^T) G_U S^-1 V^T + U S^-1 G_V^T (I - V V^T) (J. Townsend, Differentiating the SVD, 2016).
* ``pinv``, P = A^+ of constant rank: dA = -P^T G P^T + (I - A P) G^T P P^T + P^T P G^T (I - P A)
  (G. Golub, V. Pereyra, SIAM J. Numer. Anal. 10, 1973).
* ``expm``: dA is the upper right block of exp([[A^T, G], [0, A^T]]) (R. Mathias, SIAM J. Matrix Anal. Appl. 17, 1996).

Where F or 1/s would divide by what is nothing but rounding, the quotient is 0 if the numerator is exactly 0 (a function
of other vectors, or of the values alone), else NaN: no derivative exists, or none that these cotangents could tell.
"""

from __future__ import annotations

import numpy as np

from ..arrays.ndarray import NDArray, from_value
from ..backends.numba.compile import kernel
from ..errors import LinAlgError
from ..operators.structured import REQUIRED, Spec, structured
from . import lapack
from .binary import multiply
from .broadcasting import broadcast_to
from .host import arrayed, computed
from .join import concat
from .layout import tril, triu
from .linear import matmul
from .reduce import sum_
from .shape import reshape, transpose
from .slices import slice_axis

__all__ = ["cholesky", "det", "eigen", "expm", "inverse", "lq", "pinv", "slogdet", "solve", "svd", "triangular_solve"]


def turned(x: NDArray) -> NDArray:
    """The transposed matrices of a stack."""
    return transpose(x, axes=(0, 2, 1))


def _sym(x: NDArray) -> NDArray:
    return (x + turned(x)) * 0.5


def identity(like: NDArray, n: int) -> NDArray:
    """The matrix I, in a stack of one."""
    return from_value(np.eye(n)[None], like=like._kind, dtype=like._kind.dtype)


def _diagonal(x: NDArray) -> NDArray:
    """Vectors (b, n) as diagonal matrices (b, n, n)."""
    b, n = x.shape
    return reshape(x, (b, 1, n)) * identity(x, n)


def _pivots(n: int) -> np.ndarray:
    return np.zeros(2 * max(n, 1), np.int32)  # memory for LAPACK's integers, whether they have 32 or 64 bits


def _check(info: np.ndarray, op: str, what: str) -> None:
    bad = np.flatnonzero(info)
    if bad.size:
        k = int(bad[0])
        if info[k] == lapack.NOT_FINITE:
            what = "has elements that are not finite"
        others = f" ({bad.size - 1} more have no result)" if bad.size > 1 else ""
        raise LinAlgError(f"{op}: matrix {k} of {info.size} {what}{others}")


def _info(x: NDArray) -> np.ndarray:
    return np.zeros(x._shape[0], np.int64)


def _room(n: int, like: NDArray) -> np.ndarray:
    return np.empty(n, like._kind.storage)


SINGULAR = "is singular"

# Cholesky.


@structured("_matrix_cholesky", method=False)
def cholesky(a, op=REQUIRED):
    """Lower Cholesky factors; the upper triangles are not read."""
    return Spec(a._shape, a._kind.dtype, op=op)


@cholesky.run
def _(a, out, *, op):
    b, n, _ = a._shape
    out._buf[:] = a._buf
    if out._buf.size:
        info = _info(a)
        lapack.cholesky(out._buf, info, b, n, lapack.letter(a._kind.storage))
        _check(info, op, "is not positive definite")


def _cholesky_vjp(g, y, op):
    p = matmul(y, g, transpose_a=True)
    half = (tril(p) + tril(p, k=-1)) * 0.5
    left = triangular_solve(y, half, transpose=True, op=op)
    return _sym(triangular_solve(y, turned(left), transpose=True, op=op))


cholesky.vjp(a=_cholesky_vjp)

# Linear equations.


@structured("_matrix_triangular_solve", method=False)
def triangular_solve(a, b, lower=True, transpose=False, op=REQUIRED):
    """T^-1 B or T^-T B, T being a triangle of `a`."""
    return Spec(b._shape, b._kind.dtype, lower=lower, transpose=transpose, op=op)


@triangular_solve.run
def _(a, b, out, *, lower, transpose, op):
    count, n, m = b._shape
    out._buf[:] = b._buf
    if out._buf.size:
        info = _info(a)
        lapack.triangular_solve(a._buf, out._buf, info, count, n, m, int(lower), int(transpose))
        _check(info, op, "has a zero on its diagonal")


@triangular_solve.pullback
def _(g, a, y, lower, transpose, op, wanted):
    right = triangular_solve(a, g, lower=lower, transpose=not transpose, op=op)
    if not wanted[0]:
        return None, right
    outer = matmul(y, right, transpose_b=True) if transpose else matmul(right, y, transpose_b=True)
    return -(tril(outer) if lower else triu(outer)), right


@structured("_matrix_solve", method=False)
def solve(a, b, transpose=False, op=REQUIRED):
    """A^-1 B or A^-T B."""
    return Spec(b._shape, b._kind.dtype, transpose=transpose, op=op)


@solve.run
def _(a, b, out, *, transpose, op):
    count, n, m = b._shape
    if out._buf.size:
        info = _info(a)
        lapack.solve(
            a._buf, b._buf, out._buf, info, _pivots(n), _room(n * n, a), _room(n * m, a), count, n, m, int(transpose),
            lapack.letter(a._kind.storage),
        )  # fmt: skip
        _check(info, op, SINGULAR)


@solve.pullback
def _(g, a, y, transpose, op, wanted):
    right = solve(a, g, transpose=not transpose, op=op)
    if not wanted[0]:
        return None, right
    return -(matmul(y, right, transpose_b=True) if transpose else matmul(right, y, transpose_b=True)), right


@structured("_matrix_inverse", method=False)
def inverse(a, op=REQUIRED, strict=True):
    """A^-1; of a singular matrix an error, or zeros if not `strict`."""
    return Spec(a._shape, a._kind.dtype, op=op, strict=strict)


@inverse.run
def _(a, out, *, op, strict):
    b, n, _ = a._shape
    out._buf[:] = a._buf
    if out._buf.size:
        info = _info(a)
        lapack.inverse(out._buf, info, _pivots(n), b, n, lapack.letter(a._kind.storage), int(not strict))
        _check(info, op, SINGULAR)


inverse.vjp(a=lambda g, y: -matmul(matmul(y, g, transpose_a=True), y, transpose_b=True))

# Determinants.


def _determinants(a: NDArray) -> list[np.ndarray]:
    """Sign, logarithm and determinant of each."""
    b, n, _ = a._shape
    found = [_room(b, a) for _ in range(3)]
    if n == 0:
        for buf, value in zip(found, (1, 0, 1)):
            buf.fill(value)
        return found
    lapack.slogdet(a._buf.copy(), *found, _pivots(n), b, n, lapack.letter(a._kind.storage))
    return found


@structured("_matrix_det", method=False)
def det(a, op=REQUIRED):
    """Determinants, (b,)."""
    return Spec(a._shape[:1], a._kind.dtype, op=op)


@det.run
def _(a, out, *, op):
    out._buf[:] = _determinants(a)[2]


@structured("_matrix_cofactors", method=False)
def _cofactors(a, op=REQUIRED):
    """The derivatives of the determinants, also of singular matrices."""
    return Spec(a._shape, a._kind.dtype, op=op)


@_cofactors.run
def _(a, out, *, op):
    # With A = U S V^T: det(U V^T) times U, the products of all other singular values, V^T.
    b, n, _ = a._shape
    if not out._buf.size:
        return
    u, s, vt, info = _factors(a)
    _check(info, op, "has no singular value decomposition")
    left, values, right = u.reshape(b, n, n), s.reshape(b, n), vt.reshape(b, n, n)
    others = np.stack([np.prod(np.delete(values, k, axis=1), axis=1) for k in range(n)], axis=1)
    signs = np.sign(np.linalg.det(left) * np.linalg.det(right))
    out._buf[:] = ((left * (signs[:, None] * others)[:, None, :]) @ right).reshape(-1)


def _cofactors_vjp(g, a, y, op):
    inner = inverse(a, op=f"{op}, second derivative")
    both = matmul(turned(inner), g, transpose_b=True)  # A^-T G^T
    trace = sum_(multiply(both, identity(g, g.shape[1])), axis=(1, 2), keepdims=True)
    return multiply(trace, y) - matmul(both, y)


def _times(g: NDArray, matrices: NDArray) -> NDArray:
    return multiply(reshape(g, (g.size, 1, 1)), matrices)


det.vjp(a=lambda g, a, op: _times(g, _cofactors(a, op=op)))
_cofactors.vjp(a=_cofactors_vjp)


@structured("_matrix_slogdet", method=False)
def slogdet(a, op=REQUIRED):
    """Signs and logarithms of absolute values of the determinants, (b,) each."""
    return Spec([a._shape[:1]] * 2, [a._kind.dtype] * 2, op=op)


@slogdet.run
def _(a, outs, *, op):
    for out, found in zip(outs, _determinants(a)):
        out._buf[:] = found


slogdet.vjp(a=lambda g, a, op: _times(g[1], turned(inverse(a, op=op, strict=False))))

# Orthogonal factors.


@structured("_matrix_lq", method=False)
def lq(a, op=REQUIRED):
    """L (b, m, m) and Q (b, m, n) for m <= n."""
    b, m, _ = a._shape
    return Spec([(b, m, m), a._shape], [a._kind.dtype] * 2, op=op)


@lq.run
def _(a, outs, *, op):
    b, m, n = a._shape
    low, q = outs
    q._buf[:] = a._buf
    if q._buf.size:
        info = _info(a)
        lapack.lq(q._buf, low._buf, _room(m, a), info, b, m, n, lapack.letter(a._kind.storage))
        _check(info, op, "has no LQ factorization")


def _lq_vjp(g, y0, y1, op):
    m = matmul(y0, g[0], transpose_a=True) - matmul(g[1], y1, transpose_b=True)
    s = tril(m) + turned(tril(m, k=-1))
    return triangular_solve(y0, g[1] + matmul(s, y1), transpose=True, op=f"{op}, derivative")


lq.vjp(a=_lq_vjp)

# Eigenvalues and singular values.


@kernel
def _divide(x, y, limit, out):
    for i in range(np.uint64(x.size)):
        if abs(y[i]) > limit[i]:
            out[i] = x[i] / y[i]
        else:
            out[i] = 0 if x[i] == 0 else np.nan


@structured("_matrix_quotient", method=False)
def _quotient(x, y, limit):
    """x/y; where |y| is not above the limit: 0 if x is 0, else NaN."""
    return Spec(x._shape, x._kind.dtype)


@_quotient.run
def _(x, y, limit, out):
    _divide(x._buf, y._buf, limit._buf, out._buf)


@_quotient.pullback
def _(g, x, y, limit, wanted):
    share = _quotient(g, y, limit)
    return share, -multiply(share, _quotient(x, y, limit)) if wanted[1] else None, None


def _over(x: NDArray, y: NDArray, w: NDArray) -> NDArray:
    """x/y, where `y` broadcasts and may be nothing but rounding of numbers as large as a matrix's largest in `w`."""
    dtype = x._kind.dtype
    limits = arrayed(computed(_limits, w, shape=x.shape, dtype=dtype, sizes=x.shape), dtype, x)
    return _quotient(x, broadcast_to(y, shape=x.shape) if y.shape != x.shape else y, limits)


def _limits(w: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    largest = np.abs(w).max(axis=1, initial=0).reshape((-1, 1, 1))
    return np.broadcast_to(4 * max(sizes[1:]) * np.finfo(w.dtype).eps * largest, sizes)


def _over_gaps(x: NDArray, w: NDArray) -> NDArray:
    """x_ij/(w_j - w_i), and 0 on the diagonal."""
    b, n = w.shape
    far = np.zeros((1, n, n))
    np.fill_diagonal(far[0], np.inf)
    gaps = reshape(w, (b, 1, n)) - reshape(w, (b, n, 1)) + from_value(far, like=w._kind, dtype=w._kind.dtype)
    return _over(x, gaps, w)


@structured("_matrix_eigen", method=False)
def eigen(a, op=REQUIRED):
    """U (b, n, n) with eigenvectors as rows, and the eigenvalues (b, n), ascending; upper triangles are not read."""
    return Spec([a._shape, a._shape[:2]], [a._kind.dtype] * 2, op=op)


@eigen.run
def _(a, outs, *, op):
    b, n, _ = a._shape
    u, w = outs
    u._buf[:] = a._buf
    if u._buf.size:
        info = _info(a)
        lapack.symmetric_eigen(u._buf, w._buf, info, b, n, lapack.letter(a._kind.storage))
        _check(info, op, "has no eigenvalues: LAPACK did not converge")


def _eigen_vjp(g, y0, y1):
    inner = _diagonal(g[1]) + _over_gaps(matmul(y0, g[0], transpose_b=True), y1)
    return _sym(matmul(matmul(y0, inner, transpose_a=True), y0))


eigen.vjp(a=_eigen_vjp)


def _factors(a: NDArray) -> tuple[np.ndarray, ...]:
    b, m, n = a._shape
    k = min(m, n)
    u, s, vt = _room(b * m * k, a), _room(b * k, a), _room(b * k * n, a)
    info = _info(a)
    if a._buf.size:
        lapack.svd(a._buf.copy(), u, s, vt, info, b, m, n, lapack.letter(a._kind.storage))
    return u, s, vt, info


@structured("_matrix_svd", method=False)
def svd(a, op=REQUIRED):
    """U (b, m, k), s (b, k), V^T (b, k, n) with k = min(m, n)."""
    b, m, n = a._shape
    k = min(m, n)
    return Spec([(b, m, k), (b, k), (b, k, n)], [a._kind.dtype] * 3, op=op)


@svd.run
def _(a, outs, *, op):
    *found, info = _factors(a)
    _check(info, op, "has no singular values: LAPACK did not converge")
    for out, value in zip(outs, found):
        out._buf[:] = value


def _svd_vjp(g, y0, y1, y2):
    u, s, vt = y0, y1, y2
    gu, gs, gvt = g
    b, k = s.shape
    m, n = u.shape[1], vt.shape[2]
    row, column = reshape(s, (b, 1, k)), reshape(s, (b, k, 1))
    left, right = matmul(u, gu, transpose_a=True), matmul(vt, gvt, transpose_b=True)

    def turning(x: NDArray) -> NDArray:  # F * (x - x^T)
        q = _over(_over_gaps(x, s), row + column, s)
        return q + turned(q)

    inner = turning(left) * row + column * turning(right) + _diagonal(gs)
    found = matmul(matmul(u, inner), vt)
    if m > k:
        found = found + matmul(_over(gu - matmul(u, left), row, s), vt)
    if n > k:
        found = found + matmul(u, _over(gvt - matmul(turned(right), vt), column, s))
    return found


svd.vjp(a=_svd_vjp)


@structured("_matrix_pinv", method=False)
def pinv(a, rcond=REQUIRED, op=REQUIRED):
    """Pseudo-inverses (b, n, m); singular values up to `rcond` times the largest count as 0."""
    b, m, n = a._shape
    return Spec((b, n, m), a._kind.dtype, rcond=rcond, op=op)


@pinv.run
def _(a, out, *, rcond, op):
    b, m, n = a._shape
    if out._buf.size:
        u, s, vt, info = _factors(a)
        _check(info, op, "has no singular values: LAPACK did not converge")
        lapack.pseudo_inverse(u, s, vt, out._buf, b, m, n, rcond)


def _pinv_vjp(g, a, y):
    # I - A P and I - P A are applied, not formed.
    gt = turned(g)
    found = -matmul(matmul(y, g, transpose_a=True), y, transpose_b=True)
    outer = matmul(matmul(gt, y), y, transpose_b=True)
    found = found + (outer - matmul(a, matmul(y, outer)))
    outer = matmul(y, matmul(y, gt), transpose_a=True)
    return found + (outer - matmul(matmul(outer, y), a))


pinv.vjp(a=_pinv_vjp)

# The exponential.


@structured("_matrix_expm", method=False)
def expm(a, op=REQUIRED):
    """Matrix exponentials."""
    return Spec(a._shape, a._kind.dtype, op=op)


@expm.run
def _(a, out, *, op):
    b, n, _ = a._shape
    if out._buf.size:
        info = _info(a)
        work = _room(7 * n * n, a)
        lapack.expm(a._buf, out._buf, work, _pivots(n), info, b, n, lapack.letter(a._kind.storage))
        _check(info, op, "has no exponential in this dtype")


def _expm_vjp(g, a, op):
    n = a.shape[1]
    t = turned(a)
    block = concat(concat(t, g, axis=2), concat(t * 0.0, t, axis=2), axis=1)
    whole = expm(block, op=op)
    return slice_axis(slice_axis(whole, axis=1, begin=0, end=n), axis=2, begin=n, end=2 * n)


expm.vjp(a=_expm_vjp)
