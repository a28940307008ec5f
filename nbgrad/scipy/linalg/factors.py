"""Factors of matrices, and the solutions that they give, with SciPy's arguments."""

from __future__ import annotations

from typing import Any

from ... import np as xp
from ...core.registry import operators
from ...errors import AttrError, LinAlgError, ShapeError
from ...np import linalg
from ...np.arrays import as_array, ndarray
from ...np.manipulation import together

__all__ = ["cho_factor", "cho_solve", "cholesky", "eigh", "eigvalsh", "of_triangle", "qr", "solve_banded",
           "solve_triangular", "svd"]  # fmt: skip


def solve_triangular(a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False,
                     overwrite_b: bool = False, check_finite: bool = True) -> ndarray:  # fmt: skip
    """The x with ``a x = b`` of a triangular matrix, as ``scipy.linalg.solve_triangular``.

    Parameters
    ----------
    a : array_like, shape (n, n)
        Of the other triangle nothing is read.
    b : array_like, shape (n,) or (n, k)
    trans : {0, 1, 2, 'N', 'T', 'C'}
        Whether the equation is ``aᵀ x = b``.
    lower : bool
        Which triangle of `a` it is.
    unit_diagonal : bool
        Whether the diagonal of `a` is taken for ones.

    Returns
    -------
    ndarray, of the shape of `b`

    Raises
    ------
    LinAlgError
        If `a` is no square matrix.
    ShapeError
        If `b` has another length.

    Examples
    --------
    >>> from nbgrad.scipy import linalg
    >>> linalg.solve_triangular([[2.0, 0.0], [1.0, 4.0]], [2.0, 9.0], lower=True)
    array([1., 2.])
    """
    a = linalg._matrix(a, "solve_triangular")
    b = as_array(b, "solve_triangular")
    if a.ndim != 2 or b.ndim not in (1, 2) or b.shape[0] != a.shape[0]:
        raise ShapeError(
            f"solve_triangular: shapes (n, n) and (n,) or (n, k) are expected, got {a.shape} and {b.shape}"
        )
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise AttrError(f"solve_triangular: trans is 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    a, b = together("solve_triangular", (a, b))
    if unit_diagonal:
        a = (xp.tril(a, -1) if lower else xp.triu(a, 1)) + xp.eye(a.shape[0], dtype=a.dtype)
    columns = b[:, None] if b.ndim == 1 else b
    x = operators["linalg_trsm"].call(a, columns, transpose=trans not in (0, "N"), lower=bool(lower))
    return x[:, 0] if b.ndim == 1 else x


def solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False,
                 check_finite: bool = True) -> ndarray:  # fmt: skip
    """The x with ``a x = b`` of a banded matrix, as ``scipy.linalg.solve_banded``; it is solved as a full matrix.

    Parameters
    ----------
    l_and_u : (int, int)
        The numbers of diagonals below and above the main one.
    ab : array_like, shape (below + above + 1, n)
        The diagonals as rows, the uppermost first: ``ab[above + i - j, j] = a[i, j]``.
    b : array_like, shape (n,) or (n, k)

    Raises
    ------
    ShapeError
        If `ab` has another number of rows.

    Examples
    --------
    >>> from nbgrad.scipy import linalg
    >>> linalg.solve_banded((1, 0), [[2.0, 4.0], [1.0, 0.0]], [2.0, 9.0])
    array([1., 2.])
    """
    (below, above), ab = l_and_u, as_array(ab, "solve_banded")
    if ab.ndim != 2 or ab.shape[0] != below + above + 1:
        raise ShapeError(f"solve_banded: ab must have {below + above + 1} rows, got the shape {ab.shape}")
    n = ab.shape[1]
    bands = [k for k in range(above, -below - 1, -1) if abs(k) < n]
    a = sum(xp.diag(ab[above - k, max(k, 0) : n + min(k, 0)], k) for k in bands)
    return linalg.solve(a, b)


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> ndarray:
    """The Cholesky factor of a symmetric positive definite matrix: U with ``Uᵀ U = a``, or L with ``L Lᵀ = a``.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    lower : bool
        Whether it is L, and of `a` the lower triangle is read.

    Raises
    ------
    LinAlgError
        If `a` is no square matrix, or not positive definite.

    Examples
    --------
    >>> from nbgrad.scipy import linalg
    >>> linalg.cholesky([[4.0, 2.0], [2.0, 2.0]])
    array([[2., 1.],
           [0., 1.]])
    """
    return linalg.cholesky(of_triangle(linalg._matrix(a, "cholesky"), lower), upper=not lower)


def of_triangle(a: ndarray, lower: bool) -> ndarray:
    """The symmetric matrix of one triangle."""
    first, rest = (xp.tril(a), xp.tril(a, -1)) if lower else (xp.triu(a), xp.triu(a, 1))
    return first + xp.swapaxes(rest, -1, -2)


def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple:
    """The Cholesky factor for :func:`cho_solve`: the pair of the factor and `lower`; its other triangle is zero."""
    return cholesky(a, lower), bool(lower)


def cho_solve(c_and_lower: tuple, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> ndarray:
    """The x with ``a x = b``, by the factor of `a` from :func:`cho_factor`, for b of shape (n,) or (n, k).

    Examples
    --------
    >>> from nbgrad.scipy import linalg
    >>> linalg.cho_solve(linalg.cho_factor([[4.0, 2.0], [2.0, 2.0]]), [6.0, 4.0])
    array([1., 1.])
    """
    c, lower = c_and_lower
    half = solve_triangular(c, b, 0 if lower else 1, lower)
    return solve_triangular(c, half, 1 if lower else 0, lower)


def eigh(a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False) -> Any:
    """The eigenvalues w of a symmetric matrix, ascending, and the eigenvectors v as columns, as ``scipy.linalg.eigh``.

    With a symmetric positive definite `b`, ``a v = w b v``, and ``vᵀ b v`` is the identity.

    Raises
    ------
    LinAlgError
        If a matrix is not square, or `b` is not positive definite.

    Examples
    --------
    >>> from nbgrad.scipy import linalg
    >>> linalg.eigh([[2.0, 1.0], [1.0, 2.0]], eigvals_only=True)
    array([1., 3.])
    """
    a = of_triangle(linalg._matrix(a, "eigh"), lower)
    if b is None:
        w, v = linalg.eigh(a)
        return w if eigvals_only else (w, v)
    factor = cholesky(b, True)
    if factor.shape != a.shape or a.ndim != 2:
        raise LinAlgError(f"eigh: two matrices of one shape are expected, got {a.shape} and {factor.shape}")
    half = solve_triangular(factor, a, lower=True)
    w, v = linalg.eigh(solve_triangular(factor, half.T, lower=True))
    return w if eigvals_only else (w, solve_triangular(factor, v, 1, True))


def eigvalsh(a: Any, b: Any = None, *, lower: bool = True) -> ndarray:
    """The eigenvalues of :func:`eigh`."""
    return eigh(a, b, lower=lower, eigvals_only=True)


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, **ignored: Any) -> Any:
    """The factors U, s and Vᵀ with ``a = U diag(s) Vᵀ``; with ``full_matrices=True`` of square matrices only."""
    _refuse_others("svd", ignored, ("overwrite_a", "check_finite"))
    return linalg.svd(a, full_matrices, compute_uv)


def qr(a: Any, mode: str = "full", **ignored: Any) -> Any:
    """The factors Q and R with ``a = Q R``; modes are "full", "economic", and "r" of these.

    The further columns of "full" have no derivative: it is refused where that is recorded.
    """
    _refuse_others("qr", ignored, ("overwrite_a", "check_finite"))
    a = linalg._matrix(a, "qr", False)
    if mode not in ("full", "economic", "r"):
        raise AttrError(f"qr: the modes are 'full', 'economic' and 'r', got {mode!r}")
    q, r = linalg.qr(a, "complete" if mode == "full" else "reduced")
    if mode != "r":
        return q, r
    below = a.shape[-2] - r.shape[-2]
    return (xp.pad(r, [(0, 0)] * (a.ndim - 2) + [(0, below), (0, 0)]) if below else r,)


def _refuse_others(name: str, given: dict, known: tuple[str, ...]) -> None:
    others = sorted(set(given) - set(known))
    if others:
        raise TypeError(f"{name}() got an unexpected keyword argument {others[0]!r}")
