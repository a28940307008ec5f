"""Products of matrices, and their diagonals and triangles: the first half of ``nd.linalg``; and what both share.

All take stacks of matrices: the last two axes are the matrices', any axes before them count them. float16 is computed
in float32, integers become the default float dtype. Stacks without a matrix, and matrices without an element, are fine.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from ..arrays.launch import Kind
from ..arrays.ndarray import NDArray
from ..core.dtypes import float32
from ..core.shapes import Shape, size
from ..core.shapes import axis as resolve_axis
from ..errors import AttrError, ShapeError
from ..operators.cast import cast, unify
from ..operators.entry import as_array
from ..operators.samples import Input, sample_table
from ..operators.structured import composite
from .indexing import take_axis
from .layout import tril, triu
from .linear import matmul
from .reduce import sum_
from .shape import reshape, swapaxes
from .slices import embed
from .unary import log

__all__ = ["back", "floats", "matrices", "operator_", "per_matrix", "same_stack", "scaled", "triangular_pair"]


def operator_(
    name: str, *rows, reference: Callable | str, ulp: float = 24, symmetric: bool = False, **options
) -> Callable:
    """Decorator: an operator of ``nd.linalg``, with its table of samples.

    With `symmetric` the gradient is that of symmetric matrices, which elementwise differences of larger matrices than
    (1, 1) do not give: tests of their own look after those.
    """
    samples = sample_table(reference, *rows, ulp=ulp, order=0 if symmetric else 3, ints=False)
    if symmetric:
        samples = sample_table(reference, [ONE], ulp=ulp, ints=False) + samples
    return composite(f"linalg_{name}", aliases=(f"_linalg_{name}",), samples=samples, **options)


def floats(op: str, **arrays) -> tuple[list[NDArray], Kind]:
    """The arrays in one float dtype in which LAPACK calculates; and the kind that the result should have."""
    found = unify([as_array(x, op, name) for name, x in arrays.items()], op, ints=False)
    kind = found[0]._kind
    if kind.dtype.name == "float16":
        wide = kind.of(float32)
        found = [cast(x, wide) for x in found]
    return found, kind


def back(x: NDArray, kind: Kind, shape: Shape | None = None) -> NDArray:
    """The result in its kind and shape."""
    x = x if x._kind is kind else cast(x, kind)
    return x if shape is None or x._shape == shape else reshape(x, shape)


def matrices(x: NDArray, op: str, square: bool = True) -> NDArray:
    """As a stack (b, m, n)."""
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        what = "square matrices" if square else "matrices"
        raise ShapeError(f"{op}: needs {what} in the last two axes, got shape {x.shape}")
    return reshape(x, (size(x.shape[:-2]), *x.shape[-2:]))


def same_stack(op: str, *arrays: NDArray) -> None:
    if any(x.ndim < 2 or x.shape[:-2] != arrays[0].shape[:-2] for x in arrays):
        raise ShapeError(
            f"{op}: needs matrices in the last two axes, and the same axes before them; "
            f"got shapes {', '.join(str(x.shape) for x in arrays)}"
        )


def per_matrix(x: NDArray) -> Shape:
    """The shape of one number per matrix: (1,) for a single one."""
    return x.shape[:-2] or x._kind.conventions.scalar


def scaled(x: NDArray, alpha, op: str) -> NDArray:
    """alpha x."""
    if not isinstance(alpha, int | float | np.number):
        raise AttrError(f"{op}: alpha and beta must be numbers, got {alpha!r}")
    return x if alpha == 1 else x * float(alpha)


# Well-conditioned matrices for tests.
FULL = Input(values=[[2.0, 0.5, -0.3], [0.4, -1.5, 0.7], [0.2, 0.6, 1.2]])
STACK = Input(values=[[[1.5, -0.4], [0.3, 0.8]], [[-0.5, 1.2], [1.7, 0.6]]])
POSITIVE = Input(values=[[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
POSITIVES = Input(values=[[[2.0, 0.5], [0.5, 1.0]], [[3.0, -1.0], [-1.0, 2.5]]])
WIDE = Input(values=[[1.0, 2.0, 3.0], [0.5, -0.5, 0.7]])
TALL = Input(values=[[1.0, 0.5], [2.0, -0.5], [-0.3, 1.7]])
EMPTY = Input((0, 2, 2))
ONE = Input(values=[[1.5]])

# Products.


def _product(op: str, a: NDArray, b: NDArray, ta: bool, tb: bool, axis) -> NDArray:
    """The product of stacks of matrices whose rows run along `axis`."""
    row = resolve_axis(axis, a.ndim, op) if a.ndim > 1 else a.ndim - 1
    if row == a.ndim - 1 or a.ndim != b.ndim:
        raise ShapeError(
            f"{op}: A and B need equal numbers of axes, at least two, and an axis for rows before the last; "
            f"got shapes {a.shape}, {b.shape} and axis={axis}"
        )
    last = a.ndim - 2

    def moved(x: NDArray) -> NDArray:
        return x if row == last else swapaxes(x, dim1=row, dim2=last)

    a, b = moved(a), moved(b)
    same_stack(op, a, b)
    inner_a, inner_b = a.shape[-2 if ta else -1], b.shape[-1 if tb else -2]
    if inner_a != inner_b:
        raise ShapeError(
            f"{op}: inner sizes differ: {inner_a} of A's matrices {a.shape[-2:]} with transpose_a={ta}, "
            f"{inner_b} of B's {b.shape[-2:]} with transpose_b={tb}"
        )
    c = matmul(matrices(a, op, False), matrices(b, op, False), transpose_a=ta, transpose_b=tb)
    return moved(reshape(c, a.shape[:-2] + c.shape[1:]))


def _gemm2(a, b, transpose_a=False, transpose_b=False, alpha=1.0, axis=-2):
    a, b = np.swapaxes(a, axis, -2), np.swapaxes(b, axis, -2)
    c = (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)
    return np.swapaxes(alpha * c, axis, -2)


@operator_(
    "gemm",
    [(2, 3), (3, 2), (2, 2), {"alpha": 0.5, "beta": 2.0}],
    [(2, 3, 1), (2, 3, 1), (2, 1, 1), {"transpose_a": True}],
    [(2, 2, 2), (2, 2, 2), (2, 2, 2), {"axis": 0, "transpose_b": True}],
    reference=lambda a, b, c, beta=1.0, **k: _gemm2(a, b, **k) + beta * c,
)
def gemm(A, B, C, transpose_a=False, transpose_b=False, alpha=1.0, beta=1.0, axis=-2):
    """alpha op(A) op(B) + beta C.

    Parameters
    ----------
    A, B, C : NDArray
        Stacks of matrices with the same leading axes.
    transpose_a, transpose_b : bool
        op transposes.
    alpha, beta : float
    axis : int
        The axis of the rows; columns are the last axis.

    Returns
    -------
    NDArray
        Shape (..., m, n).

    Raises
    ------
    ShapeError
        If the matrices do not fit.

    Notes
    -----
    Gradient: ``alpha g op(B)^T`` for A, ``alpha op(A)^T g`` for B (transposed with them), ``beta g`` for C.
    """
    (A, B, C), kind = floats("linalg_gemm", A=A, B=B, C=C)
    product = _product("linalg_gemm", A, B, bool(transpose_a), bool(transpose_b), axis)
    if product.shape != C.shape:
        raise ShapeError(f"linalg_gemm: C must have the product's shape {product.shape}, got {C.shape}")
    return back(scaled(product, alpha, "linalg_gemm") + scaled(C, beta, "linalg_gemm"), kind)


@operator_(
    "gemm2",
    [(2, 3), (3, 2), {"alpha": 0.5}],
    [(2, 3, 2), (2, 1, 3), {"transpose_a": True, "transpose_b": True}],
    [(2, 2, 3), (3, 2, 1), {"axis": 0}],
    [(0, 2, 3), (0, 3, 1)],
    reference=_gemm2,
)
def gemm2(A, B, transpose_a=False, transpose_b=False, alpha=1.0, axis=-2):
    """alpha op(A) op(B); arguments as for ``linalg.gemm``.

    Returns
    -------
    NDArray
        Shape (..., m, n).

    Notes
    -----
    Gradient: as for ``linalg.gemm``.
    """
    (A, B), kind = floats("linalg_gemm2", A=A, B=B)
    product = _product("linalg_gemm2", A, B, bool(transpose_a), bool(transpose_b), axis)
    return back(scaled(product, alpha, "linalg_gemm2"), kind)


@operator_(
    "syrk",
    [TALL, {"alpha": 0.5}],
    [(2, 2, 3), {"transpose": True}],
    reference=lambda a, transpose=False, alpha=1.0: (
        alpha * (a.swapaxes(-1, -2) @ a if transpose else a @ a.swapaxes(-1, -2))
    ),
)
def syrk(A, transpose=False, alpha=1.0):
    """alpha A A^T, or alpha A^T A with `transpose`; A is a stack of matrices of any shape.

    Returns
    -------
    NDArray
        Shape (..., m, m) for (..., m, n); (..., n, n) with `transpose`.

    Notes
    -----
    Gradient: ``alpha (g + g^T) A``, or ``alpha A (g + g^T)``.
    """
    (A,), kind = floats("linalg_syrk", A=A)
    a = matrices(A, "linalg_syrk", square=False)
    c = matmul(a, a, transpose_a=bool(transpose), transpose_b=not transpose)
    return back(scaled(c, alpha, "linalg_syrk"), kind, A.shape[:-2] + c.shape[1:])


def triangular_pair(op: str, A: NDArray, B: NDArray, rightside: bool) -> tuple[NDArray, NDArray]:
    same_stack(op, A, B)
    a, b = matrices(A, op), matrices(B, op, square=False)
    if a.shape[1] != b.shape[2 if rightside else 1]:
        raise ShapeError(
            f"{op}: A's matrices {A.shape[-2:]} do not fit B's {B.shape[-2:]} "
            f"from the {'right' if rightside else 'left'} (rightside={rightside})"
        )
    return a, b


def np_triangular(a, transpose, lower):
    a = np.tril(a) if lower else np.triu(a)
    return a.swapaxes(-1, -2) if transpose else a


def _trmm(a, b, transpose=False, rightside=False, lower=True, alpha=1.0):
    a = np_triangular(a, transpose, lower)
    return alpha * (b @ a if rightside else a @ b)


TRIANGULAR = (
    [FULL, (3, 2)],
    [STACK, (2, 1, 2), {"rightside": True, "alpha": 0.5}],
    [STACK, (2, 2, 1), {"transpose": True, "lower": False}],
    [EMPTY, (0, 2, 3)],
)


@operator_("trmm", *TRIANGULAR, reference=_trmm)
def trmm(A, B, transpose=False, rightside=False, lower=True, alpha=1.0):
    """alpha op(A) B with triangular A, or alpha B op(A) with `rightside`.

    Parameters
    ----------
    A : NDArray
        Stack of square matrices, of which one triangle is read; its gradient is that triangle.
    B : NDArray
        Stack of matrices.
    transpose : bool
        op transposes.
    rightside : bool
    lower : bool
        Read the lower triangle, else the upper.
    alpha : float

    Returns
    -------
    NDArray
        Shape of B.
    """
    (A, B), kind = floats("linalg_trmm", A=A, B=B)
    a, b = triangular_pair("linalg_trmm", A, B, bool(rightside))
    a = tril(a) if lower else triu(a)
    c = matmul(b, a, transpose_b=bool(transpose)) if rightside else matmul(a, b, transpose_a=bool(transpose))
    return back(scaled(c, alpha, "linalg_trmm"), kind, B.shape)


# Diagonals and triangles.


@cache
def _diagonal(n: int, offset: int) -> np.ndarray:
    """Positions of a diagonal in a flat (n, n) matrix."""
    k = np.arange(max(n - abs(offset), 0))
    return (k + max(-offset, 0)) * n + k + max(offset, 0)


@cache
def _triangle(n: int, offset: int, lower: bool) -> np.ndarray:
    """Positions of a triangle in a flat (n, n) matrix, row by row."""
    below = offset < 0 or (offset == 0 and lower)
    rows, columns = np.tril_indices(n, offset) if below else np.triu_indices(n, offset)
    return rows * n + columns


def _whole(offset, op: str) -> int:
    if not isinstance(offset, int | np.integer):
        raise AttrError(f"{op}: offset must be an integer, got {offset!r}")
    return int(offset)


def _read(A, op: str, positions: Callable) -> tuple[NDArray, Kind, Shape]:
    """The elements at `positions` (n, ...) of each matrix, (b, count)."""
    (A,), kind = floats(op, A=A)
    a = matrices(A, op)
    n = a.shape[1]
    return take_axis(reshape(a, (a.shape[0], n * n)), positions(n), 1), kind, A.shape[:-2]


def _written(A: NDArray, positions: np.ndarray, n: int) -> NDArray:
    """(n, n) matrices with the vectors of A at `positions`, and zeros elsewhere."""
    count = positions.size
    where = np.full(n * n, count)
    where[positions] = np.arange(count)
    stack = size(A.shape[:-1])
    padded = embed(reshape(A, (stack, count)), begin=(0, 0), step=(1, 1), shape=(stack, count + 1))
    return reshape(take_axis(padded, where, 1), A.shape[:-1] + (n, n))


def _vectors(A, op: str) -> tuple[NDArray, Kind]:
    (A,), kind = floats(op, A=A)
    if A.ndim == 0:
        raise ShapeError(f"{op}: needs vectors in the last axis, got shape ()")
    return A, kind


@operator_(
    "extractdiag",
    [(3, 3)],
    [(2, 2, 2), {"offset": 1}],
    [(2, 2), {"offset": -1}],
    [EMPTY],
    reference=lambda a, offset=0: np.diagonal(a, offset, -2, -1),
    ulp=0,
)
def extractdiag(A, offset=0):
    """A diagonal of square matrices, (..., n - |offset|); above the main one for positive `offset`.

    Notes
    -----
    Gradient: g on the same diagonal, 0 elsewhere.
    """
    x, kind, lead = _read(A, "linalg_extractdiag", lambda n: _diagonal(n, _whole(offset, "linalg_extractdiag")))
    return back(x, kind, lead + x.shape[1:])


def _np_makediag(a, offset=0):
    n = a.shape[-1] + abs(offset)
    out = np.zeros((*a.shape[:-1], n, n), a.dtype)
    for at in np.ndindex(a.shape[:-1]):
        out[at] = np.diag(a[at], offset)
    return out


@operator_("makediag", [(2,)], [(2, 2), {"offset": 1}], [(2,), {"offset": -1}], [(0, 2)], reference=_np_makediag, ulp=0)
def makediag(A, offset=0):
    """Square matrices with the vectors of A on a diagonal, and zeros elsewhere: (..., n + |offset|, n + |offset|).

    Notes
    -----
    Gradient: that diagonal of g.
    """
    A, kind = _vectors(A, "linalg_makediag")
    offset = _whole(offset, "linalg_makediag")
    n = A.shape[-1] + abs(offset)
    return back(_written(A, _diagonal(n, offset), n), kind)


def _np_extracttrian(a, offset=0, lower=True):
    below = offset < 0 or (offset == 0 and lower)
    rows, columns = (np.tril_indices if below else np.triu_indices)(a.shape[-1], offset)
    return a[..., rows, columns]


@operator_(
    "extracttrian",
    [(3, 3)],
    [(2, 2, 2), {"lower": False}],
    [(3, 3), {"offset": -1, "lower": False}],
    [(3, 3), {"offset": 1}],
    [EMPTY],
    reference=_np_extracttrian,
    ulp=0,
)
def extracttrian(A, offset=0, lower=True):
    """A triangle of square matrices as vectors, row by row.

    Parameters
    ----------
    A : NDArray
        Stack of square matrices.
    offset : int
        Positive: the triangle on and above that diagonal; negative: on and below it.
    lower : bool
        For `offset` 0: the lower triangle, else the upper.

    Returns
    -------
    NDArray
        Shape (..., m), m the number of elements of the triangle.

    Notes
    -----
    Gradient: g as that triangle, 0 elsewhere.
    """
    offset = _whole(offset, "linalg_extracttrian")
    x, kind, lead = _read(A, "linalg_extracttrian", lambda n: _triangle(n, offset, bool(lower)))
    return back(x, kind, lead + x.shape[1:])


def _np_maketrian(a, offset=0, lower=True):
    m = int((2 * a.shape[-1]) ** 0.5)
    n = m + abs(offset)
    below = offset < 0 or (offset == 0 and lower)
    out = np.zeros((*a.shape[:-1], n, n), a.dtype)
    rows, columns = (np.tril_indices if below else np.triu_indices)(n, offset)
    out[..., rows, columns] = a
    return out


@operator_(
    "maketrian",
    [(3,)],
    [(2, 3), {"lower": False}],
    [(3,), {"offset": -1}],
    [(3,), {"offset": 1}],
    [(0, 3)],
    reference=_np_maketrian,
    ulp=0,
)
def maketrian(A, offset=0, lower=True):
    """Square matrices with the vectors of A as a triangle: the inverse of ``linalg.extracttrian``; arguments as there.

    Returns
    -------
    NDArray
        Shape (..., n, n).

    Raises
    ------
    ShapeError
        If the length is not m (m + 1) / 2 for any m.

    Notes
    -----
    Gradient: that triangle of g.
    """
    A, kind = _vectors(A, "linalg_maketrian")
    count = A.shape[-1]
    m = int((2 * count) ** 0.5)
    if m * (m + 1) // 2 != count:
        raise ShapeError(
            f"linalg_maketrian: the last axis must have m (m + 1) / 2 elements (1, 3, 6, 10, ...), got shape {A.shape}"
        )
    offset = _whole(offset, "linalg_maketrian")
    n = m + abs(offset)
    return back(_written(A, _triangle(n, offset, bool(lower)), n), kind)


@operator_(
    "sumlogdiag",
    [POSITIVE],
    [POSITIVES],
    [EMPTY],
    reference=lambda a: np.atleast_1d(np.log(np.diagonal(a, 0, -2, -1)).sum(-1)),
)
def sumlogdiag(A):
    """Sum of the logarithms of the diagonal of each square matrix; (1,) for one matrix. NaN if one is negative.

    Notes
    -----
    Gradient: ``g/a`` on the diagonal, 0 elsewhere.
    """
    op = "linalg_sumlogdiag"
    x, kind, lead = _read(A, op, lambda n: _diagonal(n, 0))
    return back(sum_(log(x), axis=1), kind, lead or kind.conventions.scalar)
