"""Equations, inverses, determinants and factorizations: the second half of ``nd.linalg``.

The faces of the families in :mod:`.factorizations`; stacks and dtypes as in :mod:`.matrices`. What has no result for
one matrix of a stack is an error that says which.

``potrf``, ``syevd``, ``cholesky`` and ``eigh`` read one triangle, and give the gradient that a symmetric matrix has:
half of it on each side of the diagonal.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..arrays.launch import Kind
from ..arrays.ndarray import NDArray
from ..core.shapes import broadcast_shape
from ..errors import AttrError, ShapeError
from ..operators.samples import Input
from . import factorizations as f
from .broadcasting import broadcast_to
from .join import concat
from .linear import matmul
from .matrices import (
    EMPTY,
    FULL,
    ONE,
    POSITIVE,
    POSITIVES,
    STACK,
    TALL,
    TRIANGULAR,
    WIDE,
    back,
    floats,
    matrices,
    np_triangular,
    operator_,
    per_matrix,
    scaled,
    triangular_pair,
)
from .shape import expand_dims
from .slices import slice_axis

__all__: list[str] = []  # operators are found through the registry

# Triangular matrices.


def _trsm(a, b, transpose=False, rightside=False, lower=True, alpha=1.0):
    a = np.linalg.inv(np_triangular(a, transpose, lower))
    return alpha * (b @ a if rightside else a @ b)


@operator_("trsm", *TRIANGULAR, reference=_trsm)
def trsm(A, B, transpose=False, rightside=False, lower=True, alpha=1.0):
    """The X of op(A) X = alpha B, or X op(A) = alpha B with `rightside`; arguments as for ``linalg.trmm``.

    Returns
    -------
    NDArray
        Shape of B.

    Raises
    ------
    NBGradError
        If there is a zero on A's diagonal.

    Notes
    -----
    Gradient: the triangular system with the transposed matrix, of g, for B; minus its product with X, one
    triangle of it, for A.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.linalg.trsm(nd.array([[2, 0], [1, 4]]), nd.array([[2], [9]])).tolist()
    [[1.0], [2.0]]
    """
    (A, B), kind = floats("linalg_trsm", A=A, B=B)
    a, b = triangular_pair("linalg_trsm", A, B, bool(rightside))
    b, transpose = (f.turned(b), not transpose) if rightside else (b, bool(transpose))
    x = f.triangular_solve(a, b, lower=bool(lower), transpose=transpose, op="linalg_trsm")
    return back(scaled(f.turned(x) if rightside else x, alpha, "linalg_trsm"), kind, B.shape)


# Symmetric matrices.


def _np_cholesky(a, lower=True):
    factor = np.linalg.cholesky(a)
    return factor if lower else factor.swapaxes(-1, -2)


_BY_CHOLESKY = (
    "the symmetric part of ``L^-T P L^-1``, P being the lower triangle of ``L^T g`` with half its diagonal "
    "(I. Murray 2016)"
)
_BY_EIGEN = "``V (diag(gw) + F*(V^T gV)) V^T``, F being ``1/(w_j - w_i)`` off the diagonal and 0 on it"
_BY_LQ = (
    "``L^-T (g_Q + S Q)``, S being ``L^T g_L - g_Q Q^T`` with its lower triangle copied to the upper (M. Seeger and "
    "others 2017)"
)


def _cholesky(name: str) -> Callable:
    op = f"linalg_{name}"

    def call(A, lower=True):
        (A,), kind = floats(op, A=A)
        a = matrices(A, op)
        found = f.cholesky(a, op=op) if lower else f.turned(f.cholesky(f.turned(a), op=op))
        return back(found, kind, A.shape)

    call.__doc__ = f"""Cholesky factor L of symmetric positive definite matrices, A = L L^T; or A = U^T U.

    Parameters
    ----------
    A : NDArray
        Stack of square matrices. Only one triangle is read.
    lower : bool
        Read the lower triangle and return L; else the upper, and U.

    Raises
    ------
    NBGradError
        If a matrix is not positive definite; it says which.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.linalg.{name}(nd.array([[4, 2], [2, 10]])).tolist()
    [[2.0, 0.0], [1.0, 3.0]]
    """
    call.__name__ = name
    rows = ([POSITIVE], [POSITIVES, {"lower": False}], [EMPTY])
    return operator_(name, *rows, reference=_np_cholesky, symmetric=True, gradient=_BY_CHOLESKY)(call)


potrf, cholesky = _cholesky("potrf"), _cholesky("cholesky")


def _np_potri(a, lower=True):
    a = np.linalg.inv(np.tril(a) if lower else np.triu(a))
    return a.swapaxes(-1, -2) @ a if lower else a @ a.swapaxes(-1, -2)


@operator_("potri", [FULL], [STACK, {"lower": False}], [EMPTY], reference=_np_potri)
def potri(A, lower=True):
    """The inverse of the matrix whose Cholesky factor is A: (A A^T)^-1, or (A^T A)^-1 for an upper factor.

    Parameters
    ----------
    A : NDArray
        Stack of square matrices, of which one triangle is read; its gradient is that triangle.
    lower : bool
        Read the lower triangle, else the upper.

    Returns
    -------
    NDArray
        Shape of A.

    Raises
    ------
    NBGradError
        If there is a zero on the diagonal.
    """
    op = "linalg_potri"
    (A,), kind = floats(op, A=A)
    a = matrices(A, op)
    one = broadcast_to(f.identity(a, a.shape[1]), shape=a.shape)
    w = f.triangular_solve(a, one, lower=bool(lower), op=op)
    return back(matmul(w, w, transpose_a=bool(lower), transpose_b=not lower), kind, A.shape)


def _np_syevd(a):
    w, v = np.linalg.eigh(a)
    u = v.swapaxes(-1, -2)
    largest = np.take_along_axis(u, np.abs(u).argmax(-1)[..., None], -1)
    return [u * np.sign(largest), w]


def _eigen(A, op: str) -> tuple[NDArray, NDArray, NDArray, Kind]:
    (A,), kind = floats(op, A=A)
    u, w = f.eigen(matrices(A, op), op=op)
    return u, w, A, kind


@operator_("syevd", [POSITIVE], [POSITIVES], [EMPTY], reference=_np_syevd, symmetric=True, gradient=_BY_EIGEN)
def syevd(A):
    """Eigenvectors and eigenvalues of symmetric matrices: A = U^T diag(w) U.

    Parameters
    ----------
    A : NDArray
        Stack of square matrices. Only the lower triangle is read.

    Returns
    -------
    list of NDArray
        ``[U, w]``: the eigenvectors as rows, each with its largest element positive; the eigenvalues, ascending.

    Raises
    ------
    NBGradError
        If an element is not finite.

    Notes
    -----
    Where eigenvalues coincide their vectors are not determined. The first derivative is right for functions of the
    eigenvalues alone that treat coinciding ones alike, and of the other vectors. For functions of the vectors
    themselves, and for higher derivatives, it is NaN. (``linalg.expm``, ``linalg.inverse`` and the like need
    no eigenvectors.)
    """
    u, w, A, kind = _eigen(A, "linalg_syevd")
    return [back(u, kind, A.shape), back(w, kind, A.shape[:-1])]


def _np_eigh(a):
    u, w = _np_syevd(a)
    return [w, u.swapaxes(-1, -2)]


@operator_("eigh", [POSITIVE], [POSITIVES], [EMPTY], reference=_np_eigh, symmetric=True, gradient=_BY_EIGEN)
def eigh(A):
    """Eigenvalues and eigenvectors of symmetric matrices: A = V diag(w) V^T.

    Otherwise as ``linalg.syevd``.

    Returns
    -------
    list of NDArray
        ``[w, V]``, shapes (..., n) and (..., n, n): the eigenvalues ascending, the eigenvectors as columns.
    """
    u, w, A, kind = _eigen(A, "linalg_eigh")
    return [back(w, kind, A.shape[:-1]), back(f.turned(u), kind, A.shape)]


# Any square matrices.


@operator_("inverse", [FULL], [STACK], [EMPTY], [ONE], reference=np.linalg.inv)
def inverse(A):
    """Inverses of a stack of square matrices.

    Returns
    -------
    NDArray
        Shape of A.

    Raises
    ------
    NBGradError
        If a matrix is singular; it says which.

    Notes
    -----
    Gradient: ``-y^T g y^T``, y the inverse (M. Giles, Collected matrix derivative results, 2008).

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.linalg.inverse(nd.array([[2, 1], [1, 1]])).tolist()
    [[1.0, -1.0], [-1.0, 2.0]]
    """
    (A,), kind = floats("linalg_inverse", A=A)
    return back(f.inverse(matrices(A, "linalg_inverse"), op="linalg_inverse"), kind, A.shape)


@operator_(
    "solve",
    [FULL, (3, 2)],
    [STACK, (2, 2, 1)],
    [FULL, (3,)],
    [STACK, (2, 1)],
    [EMPTY, (0, 2, 1)],
    reference=np.linalg.solve,
)
def solve(A, B):
    """The X of A X = B.

    Parameters
    ----------
    A : NDArray
        Stack of square matrices (..., n, n).
    B : NDArray
        (..., n, m), or one vector (n,). Leading axes broadcast.

    Returns
    -------
    NDArray
        Shape of B.

    Raises
    ------
    NBGradError
        If a matrix is singular.
    ShapeError
        If the shapes do not fit.

    Notes
    -----
    Gradient: ``A^-T g`` for B, and minus that times ``X^T`` for A (M. Giles, Collected matrix derivative results,
    2008).
    """
    op = "linalg_solve"
    (A, B), kind = floats(op, A=A, B=B)
    b = expand_dims(B, axis=1) if B.ndim == 1 else B
    matrices(A, op)
    if b.ndim < 2 or b.shape[-2] != A.shape[-1]:
        raise ShapeError(f"{op}: B needs {A.shape[-1]} rows for A of shape {A.shape}, got shape {B.shape}")
    stack = broadcast_shape([A.shape[:-2], b.shape[:-2]], op)
    a, b = (broadcast_to(x, shape=stack + x.shape[-2:]) if x.shape[:-2] != stack else x for x in (A, b))
    x = f.solve(matrices(a, op), matrices(b, op, square=False), op=op)
    return back(x, kind, a.shape[:-1] if B.ndim == 1 else b.shape)


@operator_("det", [FULL], [STACK], [EMPTY], reference=lambda a: np.atleast_1d(np.linalg.det(a)))
def det(A):
    """Determinants of a stack of square matrices: its leading axes; (1,) for one matrix.

    The gradient is right for singular matrices, too (the matrix of cofactors); the second derivative needs an
    invertible one.

    Returns
    -------
    NDArray
        Shape ``A.shape[:-2]``, or (1,).
    """
    (A,), kind = floats("linalg_det", A=A)
    return back(f.det(matrices(A, "linalg_det"), op="linalg_det"), kind, per_matrix(A))


@operator_("slogdet", [FULL], [STACK], [EMPTY], reference=lambda a: [np.atleast_1d(v) for v in np.linalg.slogdet(a)])
def slogdet(A):
    """Sign and logarithm of the absolute value of the determinant.

    Returns
    -------
    list of NDArray
        ``[sign, logabsdet]``, shaped as by ``linalg.det``; 0 and -inf for a singular matrix, whose gradient is 0.
    """
    (A,), kind = floats("linalg_slogdet", A=A)
    return [back(x, kind, per_matrix(A)) for x in f.slogdet(matrices(A, "linalg_slogdet"), op="linalg_slogdet")]


@operator_(
    "expm",
    [FULL],
    [STACK],
    [EMPTY],
    [ONE],
    reference="scipy.linalg.expm",
    ulp=64,
    gradient="the same block of the exponential of ``[[A^T, g], [0, A^T]]`` (R. Mathias 1996)",
)
def expm(A):
    """Matrix exponentials of a stack of square matrices; differentiable to any order.

    Scaling, a Pade approximant of degree 13, and squaring (N. Higham, SIAM J. Matrix Anal. Appl. 26, 2005).

    Returns
    -------
    NDArray
        Shape of A.

    Examples
    --------
    >>> from nbgrad import nd
    >>> nd.linalg.expm(nd.array([[0, 1], [0, 0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    (A,), kind = floats("linalg_expm", A=A)
    return back(f.expm(matrices(A, "linalg_expm"), op="linalg_expm"), kind, A.shape)


# Matrices of any shape.


def _np_gelqf(a):
    q, r = np.linalg.qr(a.swapaxes(-1, -2))
    return [q.swapaxes(-1, -2), r.swapaxes(-1, -2)]


@operator_("gelqf", [WIDE], [STACK], [Input((0, 1, 2))], reference=_np_gelqf, gradient=_BY_LQ)
def gelqf(A):
    """LQ factorization A = L Q of matrices with no more rows than columns, and full rank.

    Returns
    -------
    list of NDArray
        ``[Q, L]``: orthonormal rows (..., m, n), and lower triangular (..., m, m). Signs are LAPACK's: L's diagonal may
        be negative.

    Raises
    ------
    ShapeError
        If there are more rows than columns.
    """
    op = "linalg_gelqf"
    (A,), kind = floats(op, A=A)
    a = matrices(A, op, square=False)
    if a.shape[1] > a.shape[2]:
        raise ShapeError(f"{op}: needs no more rows than columns, got shape {A.shape}; use linalg.qr")
    low, q = f.lq(a, op=op)
    return [back(q, kind, A.shape), back(low, kind, A.shape[:-1] + low.shape[2:])]


@operator_("qr", [TALL], [STACK], [WIDE], [Input((0, 2, 1))], reference=lambda a: list(np.linalg.qr(a)))
def qr(A):
    """QR factorization A = Q R with k = min(m, n) orthonormal columns.

    Returns
    -------
    list of NDArray
        ``[Q, R]``, shapes (..., m, k) and (..., k, n). Signs are LAPACK's: R's diagonal may be negative.

    Notes
    -----
    The gradient needs the first k columns of A to be linearly independent.
    """
    op = "linalg_qr"
    (A,), kind = floats(op, A=A)
    a = matrices(A, op, square=False)
    k = min(a.shape[1:])
    low, q = f.lq(f.turned(slice_axis(a, axis=2, begin=0, end=k)), op=op)
    r = f.turned(low)
    if a.shape[2] > k:  # the other columns in terms of Q
        r = concat(r, matmul(q, slice_axis(a, axis=2, begin=k, end=None)), axis=2)
    return [back(f.turned(q), kind, A.shape[:-1] + (k,)), back(r, kind, A.shape[:-2] + r.shape[1:])]


def _np_svd(a):
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    signs = np.sign(np.take_along_axis(vt, np.abs(vt).argmax(-1)[..., None], -1))
    return [u * signs.swapaxes(-1, -2), s, vt * signs]


@operator_(
    "svd",
    [TALL],
    [STACK],
    [WIDE],
    [Input((0, 2, 1))],
    reference=_np_svd,
    gradient="see J. Townsend, Differentiating the SVD, 2016",
)
def svd(A):
    """Thin singular value decomposition A = U diag(s) V^T.

    Returns
    -------
    list of NDArray
        ``[U, s, VT]`` of shapes (..., m, k), (..., k) and (..., k, n) with k = min(m, n); s descends, and each row
        of VT has its largest element positive.

    Raises
    ------
    NBGradError
        If an element is not finite.

    Notes
    -----
    Where singular values coincide, or are 0, the first derivative is right for functions of the singular values alone
    that treat coinciding ones alike, and of the other vectors. For functions of the vectors themselves, and for higher
    derivatives, it is NaN.
    """
    op = "linalg_svd"
    (A,), kind = floats(op, A=A)
    u, s, vt = f.svd(matrices(A, op, square=False), op=op)
    lead = A.shape[:-2]
    return [back(x, kind, lead + x.shape[1:]) for x in (u, s, vt)]


@operator_("pinv", [TALL], [STACK], [WIDE], [Input((0, 2, 1))], reference=np.linalg.pinv)
def pinv(A, rcond=None):
    """Pseudo-inverses (Moore and Penrose), (..., n, m) for (..., m, n).

    Parameters
    ----------
    A : NDArray
        Stack of matrices of any shape.
    rcond : float, optional
        Singular values up to `rcond` times the largest count as 0. Default: max(m, n) times the dtype's precision.

    Notes
    -----
    The gradient is that among matrices of the same rank.
    """
    op = "linalg_pinv"
    (A,), kind = floats(op, A=A)
    a = matrices(A, op, square=False)
    if rcond is not None and not (isinstance(rcond, int | float | np.number) and rcond >= 0):
        raise AttrError(f"{op}: rcond must be a number and not negative, got {rcond!r}")
    cutoff = float(max(a.shape[1:]) * np.finfo(a.dtype).eps if rcond is None else rcond)
    x = f.pinv(a, rcond=cutoff, op=op)
    return back(x, kind, A.shape[:-2] + x.shape[1:])
