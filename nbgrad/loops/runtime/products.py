"""Products of matrices for generated files: by BLAS where they are large."""

from __future__ import annotations

import numpy as np

from ...backends.numba.compile import inline, routine
from ...backends.numba.intrinsics import intrinsic, llvm, types
from ...backends.numba.raw_arrays import memory
from ...kernels.narrow_products import (
    narrow,
    narrow_columns,
    narrow_transposed,
    narrow_transposed_columns,
    routine_number,
)

__all__ = ["PRODUCT_ROUTINES", "add_product", "add_to_triangle", "add_triangular_product", "large_product"]

_BYTE, _NUMBER = llvm.IntType(8), llvm.IntType(32)
#: From how many multiplications on a product goes to BLAS; and the shortest length for which its kernels are made.
_LARGE, _SHORTEST = 1000, 3
_LARGE_TRIANGLE = 20_000


def _has_blas(*matrices):
    return all(isinstance(x, types.Array) and x.dtype == matrices[0].dtype for x in matrices) and matrices[0].dtype in (
        types.float32,
        types.float64,
    )


@intrinsic(lambda c, a, b: types.boolean(c, a, b))
def _suits_blas(emit, c, a, b):
    """Whether BLAS has a product of matrices with such elements."""
    return emit.constant(types.boolean, _has_blas(*emit.types))


def _call_types(c, a, b, factor, *others):
    words = types.boolean, types.boolean, *[types.int64] * 3
    return types.void(c, a, b, types.float64, *words)


@intrinsic(_call_types)
def _gemm(emit, c, a, b, factor, transpose_a, transpose_b, ldc, lda, ldb):
    """``c += factor * a @ b``. Rows of `c` are contiguous, rows or columns of `a` and of `b`; ``ld`` are the distances
    between these, in elements."""
    if not _has_blas(*emit.types[:3]):
        return
    builder, kind = emit.builder, emit.types[0].dtype
    arrays = [emit.array(t, x) for t, x in zip(emit.types, (c, a, b), strict=False)]
    data = [builder.bitcast(x.data, _BYTE.as_pointer()) for x in arrays]
    (m, n), (_, k) = [emit.unpack(x.shape, 2) for x in arrays[:2]]

    def number(value):
        return builder.bitcast(emit.stored(value), _BYTE.as_pointer())

    def letter(transposed):
        return builder.select(transposed, _BYTE(ord("t")), _BYTE(ord("n")))

    # BLAS is column-major: compute the transposed product.
    alpha, beta = number(emit.cast(factor, types.float64, kind)), number(emit.constant(kind, 1.0))
    how = _BYTE(ord("d" if kind == types.float64 else "s")), letter(transpose_b), letter(transpose_a)
    operands = [alpha, data[2], ldb, data[1], lda, beta, data[0], ldc]
    emit.external("numba_xxgemm", _NUMBER, *how, n, m, k, *operands)


@inline
def large_product(m, n, k):
    """Whether BLAS is quicker than loops for (m, k) times (k, n)."""
    return m * n * k >= _LARGE and min(m, n, k) >= _SHORTEST


@inline
def large_triangle(m, n, k):
    """The same where one of the matrices is a triangle."""
    return m * n * k >= _LARGE_TRIANGLE and min(m, n, k) >= _SHORTEST


@inline
def _leading(x):
    """The distance between the rows of a matrix, in elements, if these are contiguous; 0 otherwise."""
    rows, columns = x.shape
    distance = max(columns, 1) if rows <= 1 else x.strides[0] // x.itemsize
    contiguous = columns <= 1 or x.strides[1] == x.itemsize
    whole = rows <= 1 or distance * x.itemsize == x.strides[0]
    return distance if contiguous and whole and distance >= columns else 0


@routine
def add_product(c, a, b, factor):
    """``c += factor * a @ b``, of matrices that share no elements with `c`."""
    if c.size == 0 or a.size == 0:
        return
    if not _suits_blas(c, a, b):
        for i in range(c.shape[0]):
            for p in range(b.shape[0]):
                for j in range(c.shape[1]):
                    c[i, j] += factor * a[i, p] * b[p, j]
        return
    if _leading(c) == 0 and _leading(c.T) > 0:
        _add_product(c.T, b.T, a.T, factor)
    elif not _add_narrow_product(c, a, b, factor):
        _add_product(c, a, b, factor)


@inline
def _is_compact(x):
    """Whether the rows of a matrix follow each other without gaps."""
    return 0 < _leading(x) == max(x.shape[1], 1)


@routine
def _add_narrow_product(c, a, b, factor):
    """The same where BLAS is slow (:mod:`...kernels.narrow_products`); False, and nothing done, elsewhere."""
    (m, k), n = a.shape, b.shape[1]
    transpose_a, transpose_b = not _is_compact(a), not _is_compact(b)
    routine = routine_number(transpose_a, transpose_b, m, k, n)
    if routine == 0 or (transpose_a and not _is_compact(a.T)) or (transpose_b and not _is_compact(b.T)):
        return False
    x, y = memory(a.ctypes.data, m * k, c.dtype), memory(b.ctypes.data, k * n, c.dtype)
    product = np.zeros(m * n, c.dtype)
    if routine == 1:
        narrow(x, y, product, m, k, n, 0, 0, 0)
    elif routine == 2:
        narrow_columns(x, y, product, m, k, n, 0, 0, 0)
    elif routine == 3:
        narrow_transposed(x, y, product, m, k, n, 0, 0, 0)
    else:
        narrow_transposed_columns(x, y, product, m, k, n, 0, 0, 0)
    for i in range(m):
        for j in range(n):
            c[i, j] += factor * product[i * n + j]
    return True


@inline(runtime=True)
def _add_product(c, a, b, factor):
    """The same by BLAS; `c` is copied unless its rows are contiguous."""
    own = _leading(c) > 0
    rows = c if own else c.copy()[:, :]
    lda, ldb = _leading(a), _leading(b)
    across_a, across_b = _leading(a.T), _leading(b.T)
    if lda == 0 and across_a == 0:
        a = a.copy()[:, :]
        lda = a.shape[1]
    if ldb == 0 and across_b == 0:
        b = b.copy()[:, :]
        ldb = b.shape[1]
    _gemm(rows, a, b, factor, lda == 0, ldb == 0, _leading(rows), lda or across_a, ldb or across_b)
    if not own:
        for i in range(c.shape[0]):
            for j in range(c.shape[1]):
                c[i, j] = rows[i, j]


@inline
def _block(size):
    """How many rows of a triangle to multiply at once: more, and less of a block counts; fewer, and BLAS is slower."""
    return min(max(size // 8, 24), 128)


@inline
def _within(number, size):
    return min(max(number, 0), size)


@inline
def _columns(below, first, last, k, size):
    """For rows from `first` up to `last` of a triangle: the columns that count in all rows, from and up to, and those
    that count in some only."""
    upper, lower = _within(first + k, size), _within(last - 1 + k, size)
    return (0, upper, upper, lower) if below else (lower, size, upper, lower)


@routine
def add_to_triangle(c, a, b, factor, below, k):
    """``c += factor * a @ b`` in row i, for the columns up to ``i + k`` (exclusively), or from there on.

    What is further down or right than elements that count may be cut off from the matrices.
    """
    m, n, inner = min(c.shape[0], a.shape[0]), min(c.shape[1], b.shape[1]), min(a.shape[1], b.shape[0])
    size = _block(m)
    for first in range(0, m, size):
        last = min(first + size, m)
        start, stop, some, end = _columns(below, first, last, k, n)
        add_product(c[first:last, start:stop], a[first:last, :inner], b[:inner, start:stop], factor)
        corner = np.zeros((last - first, end - some), c.dtype)[:, :]
        add_product(corner, a[first:last, :inner], b[:inner, some:end], factor)
        for i in range(last - first):
            edge = _within(first + i + k, n)
            for j in range(some, edge) if below else range(edge, end):
                c[first + i, j] += corner[i, j - some]


@routine
def add_triangular_product(c, a, b, factor, below, k):
    """``c += factor * a @ b``, where in row i of `a` the columns up to ``i + k`` (exclusively) count, or from there on.

    What is further down or right than elements that count may be cut off from the matrices.
    """
    m, n, inner = min(c.shape[0], a.shape[0]), min(c.shape[1], b.shape[1]), min(a.shape[1], b.shape[0])
    size = _block(m)
    for first in range(0, m, size):
        last = min(first + size, m)
        start, stop, some, end = _columns(below, first, last, k, inner)
        add_product(c[first:last, :n], a[first:last, start:stop], b[start:stop, :n], factor)
        corner = np.zeros((last - first, end - some), a.dtype)[:, :]
        for i in range(last - first):
            edge = _within(first + i + k, inner)
            for p in range(some, edge) if below else range(edge, end):
                corner[i, p - some] = a[first + i, p]
        if _changes_nothing(np.zeros((1, end - some), a.dtype)[:, :], b[some:end, :n], c):
            add_product(c[first:last, :n], corner, b[some:end, :n], factor)
            continue
        for i in range(last - first):  # zero times infinity is not to be added
            edge = _within(first + i + k, inner)
            for p in range(some, edge) if below else range(edge, end):
                for j in range(n):
                    c[first + i, j] += factor * a[first + i, p] * b[p, j]


@inline(runtime=True)
def _changes_nothing(zeros, b, c):
    """Whether zero times `b` is zero, as it is but for infinities and NaN; asked of what computes the product."""
    sums = np.zeros((1, b.shape[1]), c.dtype)[:, :]
    add_product(sums, zeros, b, 1.0)
    total = 0.0
    for number in sums[0]:
        total += number
    return total == 0.0


#: What generated code calls for products of matrices.
PRODUCT_ROUTINES = add_product, large_product, add_to_triangle, add_triangular_product, large_triangle
