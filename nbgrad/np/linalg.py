"""Linear algebra: ``nbgrad.np.linalg``."""

from __future__ import annotations

from operator import index
from typing import Any, NamedTuple

import numpy as np

from ..autodiff.constants import carries_gradient
from ..autodiff.state import recording
from ..core.registry import operators
from ..errors import AttrError, LinAlgError, ShapeError
from . import manipulation as _m
from . import selection as _s
from .arrays import as_array, ndarray, stored
from .creation import eye
from .products import cross, matmul, outer, tensordot, vecdot
from .reductions import max as _max
from .reductions import min as _min
from .reductions import sum as _sum
from .ufuncs import UFUNCS as _u

__all__ = ["LinAlgError", "cholesky", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "lstsq",
           "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm",
           "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot",
           "vector_norm"]  # fmt: skip

matrix_transpose = _m.matrix_transpose


class EighResult(NamedTuple):
    eigenvalues: ndarray
    eigenvectors: ndarray


class QRResult(NamedTuple):
    Q: ndarray
    R: ndarray


class SlogdetResult(NamedTuple):
    sign: ndarray
    logabsdet: ndarray


class SVDResult(NamedTuple):
    U: ndarray
    S: ndarray
    Vh: ndarray


def diagonal(x, /, *, offset=0) -> ndarray:
    """A diagonal of each matrix, as a new last axis."""
    return _s.diagonal(x, offset, -2, -1)


def trace(x, /, *, offset=0, dtype=None) -> ndarray:
    """The sum of a diagonal of each matrix."""
    return _sum(diagonal(x, offset=offset), -1, dtype)


def _matrix(a: Any, name: str, square: bool = True) -> ndarray:
    x = as_array(a, f"linalg.{name}")
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        what = "square matrices" if square else "matrices"
        raise LinAlgError(f"{name}: {what} are expected, got an array of shape {x.shape}")
    return x if x._kind.dtype.is_float else x.astype(np.float64)


def _stacks(a: ndarray, b: ndarray) -> tuple[ndarray, ndarray]:
    """Two stacks of matrices of one shape."""
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return tuple(  # type: ignore[return-value]
        x if x.shape[:-2] == shape else _m.expanded(x, (*shape, *x.shape[-2:])) for x in (a, b)
    )


def solve(a, b, /) -> ndarray:
    """The solution x of a x = b, for a vector or a matrix b; stacks broadcast."""
    x = _matrix(a, "solve")
    y = as_array(b, "linalg.solve", x._kind)
    x, y = _m.together("solve", (x, y))
    vector = y.ndim == 1
    x, y = _stacks(x, y[:, None] if vector else y)
    found = operators["linalg_solve"].call(x, y)
    return found[..., 0] if vector else found


def inv(a, /) -> ndarray:
    """The inverse of each matrix."""
    return operators["linalg_inverse"].call(_matrix(a, "inv"))


def pinv(a, rcond=None, *, rtol=None) -> ndarray:
    """The pseudo-inverse of each matrix."""
    limit, x = rcond if rtol is None else rtol, _matrix(a, "pinv", False)
    if limit is None or np.ndim(limit) == 0:
        return operators["linalg_pinv"].call(x, rcond=limit if limit is None else float(limit))
    u, s, vt = operators["linalg_svd"].call(x)  # a limit for each matrix
    kept = s > as_array(limit, "linalg.pinv", x._kind)[..., None] * _max(s, -1, keepdims=True)
    inverse = _s.where(kept, 1 / _s.where(kept, s, 1), 0)
    return matmul(matrix_transpose(vt) * inverse[..., None, :], matrix_transpose(u))


def det(a, /) -> ndarray:
    """The determinant of each matrix."""
    return operators["linalg_det"].call(_matrix(a, "det"))


def slogdet(a, /) -> SlogdetResult:
    """The sign of the determinant of each matrix, and the logarithm of its absolute value."""
    return SlogdetResult(*operators["linalg_slogdet"].call(_matrix(a, "slogdet")))


def cholesky(a, /, *, upper=False) -> ndarray:
    """The lower triangular L with L Lᵀ = a, of symmetric positive definite matrices; or the upper one."""
    return operators["linalg_cholesky"].call(_matrix(a, "cholesky"), lower=not upper)


def _refuse_recorded(x: ndarray, name: str, given: str, instead: str) -> None:
    """Refuse columns that span what a matrix leaves over, which have no derivative."""
    if x._kind.traced or (recording() and carries_gradient(x)):
        raise AttrError(f"{name}: the further columns of {given} have no derivative; use {instead}")


def eigh(a, /, UPLO="L") -> EighResult:
    """The eigenvalues of symmetric matrices, ascending, and the eigenvectors as columns."""
    x = _matrix(a, "eigh")
    if UPLO == "L":
        x = _s.tril(x) + matrix_transpose(_s.tril(x, -1))
    else:
        x = _s.triu(x) + matrix_transpose(_s.triu(x, 1))
    return EighResult(*operators["linalg_eigh"].call(x))


def eigvalsh(a, /, UPLO="L") -> ndarray:
    """The eigenvalues of symmetric matrices, ascending."""
    return eigh(a, UPLO).eigenvalues


def qr(a, /, mode="reduced") -> Any:
    """The factors Q, with orthonormal columns, and R, upper triangular, with a = Q R."""
    x = _matrix(a, "qr", False)
    if mode not in ("reduced", "complete", "r"):
        raise AttrError(f"qr: the modes are 'reduced', 'complete' and 'r', got {mode!r}")
    if mode == "complete" and x.shape[-2] > x.shape[-1]:
        _refuse_recorded(x, "qr", "mode='complete'", "mode='reduced'")
        return QRResult(*[as_array(part, "linalg.qr") for part in np.linalg.qr(x.asnumpy(), "complete")])
    found = QRResult(*operators["linalg_qr"].call(x))
    return found.R if mode == "r" else found


def svd(a, /, full_matrices=True, compute_uv=True) -> Any:
    """The factors U, S and Vᵀ with a = U diag(S) Vᵀ, the singular values descending."""
    x = _matrix(a, "svd", False)
    if not compute_uv:
        return svdvals(x)
    if full_matrices and x.shape[-1] != x.shape[-2]:
        _refuse_recorded(x, "svd", "full_matrices=True", "full_matrices=False, or square matrices")
        return SVDResult(*[as_array(part, "linalg.svd") for part in np.linalg.svd(x.asnumpy())])
    return SVDResult(*operators["linalg_svd"].call(x))


def svdvals(x, /) -> ndarray:
    """The singular values of each matrix, descending."""
    return operators["linalg_svd"].call(_matrix(x, "svdvals", False))[1]


def lstsq(a, b, rcond=None) -> tuple[ndarray, ndarray, int, ndarray]:
    """The x that minimizes |a x - b|², by the pseudo-inverse; residuals, rank, singular values."""
    x = _matrix(a, "lstsq", False)
    y = as_array(b, "linalg.lstsq", x._kind)
    found = matmul(pinv(x, rcond), y)
    values = svdvals(x)
    largest = float(values.asnumpy()[0]) if values.size else 0.0
    limit = (np.finfo(x.dtype).eps * max(x.shape) if rcond is None else rcond) * largest
    rank = int(np.sum(values.asnumpy() > limit))
    rest = y - matmul(x, found)
    residuals = _m.atleast_1d(_sum(rest * rest, 0))
    return found, residuals if rank == x.shape[1] < x.shape[0] else residuals[:0], rank, values


def matrix_power(a, n) -> ndarray:
    """The product of `n` times the same matrix; of the inverse for negative `n`."""
    x = as_array(a, "linalg.matrix_power")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise LinAlgError(f"matrix_power: square matrices are expected, got the shape {x.shape}")
    n = index(n)
    if n < 0:
        x, n = inv(x), -n
    found = None
    while n:
        if n & 1:
            found = x if found is None else matmul(found, x)
        x = matmul(x, x) if n > 1 else x
        n >>= 1
    if found is None:
        found = _m.expanded(eye(x.shape[-1], dtype=x.dtype), x.shape)
    return found


def multi_dot(arrays, *, out=None) -> ndarray:
    """The product of several matrices, in the order of multiplication that costs least."""
    found = [as_array(a, "linalg.multi_dot") for a in arrays]
    if len(found) < 2:
        raise ShapeError("multi_dot: at least two arrays are needed")
    first, last = found[0].ndim == 1, found[-1].ndim == 1
    if first:
        found[0] = found[0][None, :]
    if last:
        found[-1] = found[-1][:, None]
    sizes = [x.shape[0] for x in found] + [found[-1].shape[1]]
    best: dict[tuple[int, int], tuple[int, int]] = {}
    count = len(found)
    for width in range(1, count):
        for i in range(count - width):
            j = i + width
            best[i, j] = min(
                (
                    (best[i, k][0] if k > i else 0)
                    + (best[k + 1, j][0] if k + 1 < j else 0)
                    + sizes[i] * sizes[k + 1] * sizes[j + 1],
                    k,
                )
                for k in range(i, j)
            )

    def product(i: int, j: int) -> ndarray:
        if i == j:
            return found[i]
        k = best[i, j][1]
        return matmul(product(i, k), product(k + 1, j))

    y = product(0, count - 1)
    shape = tuple(n for n, drop in zip(y.shape, (first, last), strict=True) if not drop)
    return stored(_m.reshape(y, shape), out, "multi_dot")


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2) -> ndarray:
    """The norm of vectors along axes, or of all elements."""
    a = as_array(x, "linalg.vector_norm")
    a = a if a._kind.dtype.is_float else a.astype(np.float64)
    if ord == 2:
        if not a.ndim or axis == ():
            return _u["abs"](a)
        return (
            operators["norm"].call(a, axis=axis, keepdims=bool(keepdims))
            if a.size
            else _sum(a, axis, keepdims=keepdims)
        )
    if not isinstance(ord, int | float | np.number):
        raise AttrError(f"norm: ord {ord!r} is no norm of vectors; give a number, inf or -inf")
    size = _u["abs"](a)
    if ord == np.inf:
        return _max(size, axis, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return _min(size, axis, keepdims=keepdims)
    if ord == 0:
        return _sum((a != 0).astype(a.dtype), axis, keepdims=keepdims)
    if ord == 1:
        return _sum(size, axis, keepdims=keepdims)
    return _sum(size ** float(ord), axis, keepdims=keepdims) ** (1.0 / ord)


def matrix_norm(x, /, *, keepdims=False, ord="fro") -> ndarray:
    """The norm of each matrix."""
    return norm(_matrix(x, "matrix_norm", False), ord, (-2, -1), keepdims)


def norm(x, ord=None, axis=None, keepdims=False) -> ndarray:
    """The norm of vectors along an axis, or of matrices in two; of all elements by default."""
    a = as_array(x, "linalg.norm")
    a = a if a._kind.dtype.is_float else a.astype(np.float64)
    if axis is None:
        if ord is None:
            found = vector_norm(_m.ravel(a))
            return found.reshape((1,) * a.ndim) if keepdims else found
        axis = tuple(range(a.ndim))
    places = tuple(k % a.ndim for k in (axis if isinstance(axis, tuple) else (axis,)))
    if len(places) == 1:
        return vector_norm(a, axis=places[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(places) != 2:
        raise AttrError(f"norm: one or two axes are expected for ord={ord!r}, got {axis}")
    if ord in (None, "fro", "f"):
        return vector_norm(a, axis=places, keepdims=keepdims)
    rows, columns = places
    if ord in (1, -1, np.inf, -np.inf):
        along, other = (rows, columns) if ord in (1, -1) else (columns, rows)
        pick = _max if ord > 0 else _min
        found = pick(_sum(_u["abs"](a), along, keepdims=True), other, keepdims=True)
    elif ord in (2, -2, "nuc"):
        values = svdvals(_m.moveaxis(a, places, (-2, -1)))
        found = _sum(values, -1) if ord == "nuc" else (_max if ord == 2 else _min)(values, -1)
        found = _m.expand_dims(found, tuple(sorted(places)))
    else:
        raise AttrError(f"norm: ord {ord!r} is no norm of matrices; use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    return found if keepdims else _m.squeeze(found, places)


def cond(x, p=None) -> ndarray:
    """The condition number of each matrix: the norm of it times that of its inverse."""
    a = _matrix(x, "cond", False)
    if p is None or p in (2, -2):
        values = svdvals(a)
        found = values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    else:
        found = norm(a, p, (-2, -1)) * norm(inv(a), p, (-2, -1))
    lost = _u["isnan"](found) & ~_u["isnan"](a).any((-2, -1))  # 0 over 0
    return _s.where(lost, np.inf, found)


def matrix_rank(A, tol=None, *, rtol=None) -> ndarray:
    """How many singular values of each matrix are greater than `tol`, or than `rtol` times the largest one."""
    x = as_array(A, "linalg.matrix_rank")
    if x.ndim < 2:
        return (x != 0).any().astype(np.int64)
    if not x.size:
        return _sum(x != 0, (-2, -1))
    values = svdvals(x)
    if tol is None:
        small: Any = float(max(x.shape[-2:]) * np.finfo(values.dtype).eps) if rtol is None else rtol
        limit = _max(values, -1, keepdims=True) * (small[..., None] if np.ndim(small) else small)
    else:
        limit = tol[..., None] if np.ndim(tol) else tol
    return _sum(values > limit, -1)
