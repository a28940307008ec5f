"""Products of a long matrix and a narrow one, which read the long one once.

BLAS copies its operands into blocks first. Where the result has few columns, or few rows, that copy takes as long as
the product. :func:`routine_number` says which routine is the best.

The routines take flat arrays, where the matrices in them begin (`at_...`), and c (m, n) = a (m, k) b (k, n).
"""

from __future__ import annotations

import numpy as np

from ..backends.numba.compile import helper, inline
from ..backends.numba.raw_arrays import local

__all__ = [
    "ROUTINES",
    "narrow",
    "narrow_columns",
    "narrow_transposed",
    "narrow_transposed_columns",
    "product_routine",
    "routine_number",
]

#: The routines, "gemm" being that of BLAS.
ROUTINES = ("gemm", "narrow", "narrow_columns", "narrow_transposed", "narrow_transposed_columns")

#: How many columns are narrow, and how long the long side must be.
_NARROW, _LENGTH = 16, 64
#: How many rows or columns of the narrow matrix are transposed at a time: they fit into the first cache.
_BLOCK = 1024
_BLOCK_SIZE = _NARROW * _BLOCK
#: From this length of the other side on, transposing pays.
_MANY = 512


@inline
def routine_number(transpose_a, transpose_b, m, k, n):
    """Which of :data:`ROUTINES` is the best for c (m, n) = a (m, k) b (k, n), where one or both are transposed."""
    if not transpose_a:
        if n <= _NARROW and k >= _LENGTH and (transpose_b or m >= _MANY):
            return 1 if transpose_b else 2
    elif not transpose_b:
        if m <= _NARROW and n >= _LENGTH:
            return 3
        if n <= _NARROW and m >= _LENGTH and k >= _MANY:
            return 4
    return 0


def product_routine(transpose_a: bool, transpose_b: bool, m: int, k: int, n: int) -> str:
    """The name of this routine."""
    return ROUTINES[routine_number.py_func(transpose_a, transpose_b, m, k, n)]


@helper(reorder=True)
def _inner_products(a, b, c, m, k, n, at_a, row_a, at_b, at_c, adds):
    """c = a b^T, or c += a b^T, by inner products, four rows and two columns at a time; `row_...`: the distances
    between rows."""
    rows = np.uint64(m)
    k = np.uint64(k)
    n = np.uint64(n)
    at_a, at_b, at_c = np.uint64(at_a), np.uint64(at_b), np.uint64(at_c)
    row_a = np.uint64(row_a)
    zero = c.dtype.type(0)
    for q in range(rows // np.uint64(4)):
        r0 = at_a + np.uint64(4) * q * row_a
        r1 = r0 + row_a
        r2 = r1 + row_a
        r3 = r2 + row_a
        to = at_c + np.uint64(4) * q * n
        for h in range((n + np.uint64(1)) // np.uint64(2)):
            j = np.uint64(2) * h
            last = np.uint64(1) if j + np.uint64(1) < n else np.uint64(0)  # an odd column is computed twice
            u, v = at_b + j * k, at_b + (j + last) * k
            s0, s1, s2, s3 = zero, zero, zero, zero
            t0, t1, t2, t3 = zero, zero, zero, zero
            for p in range(k):
                y, z = b[u + p], b[v + p]
                a0, a1, a2, a3 = a[r0 + p], a[r1 + p], a[r2 + p], a[r3 + p]
                s0 += a0 * y
                s1 += a1 * y
                s2 += a2 * y
                s3 += a3 * y
                t0 += a0 * z
                t1 += a1 * z
                t2 += a2 * z
                t3 += a3 * z
            at = to + j
            if adds:
                s0 += c[at]
                s1 += c[at + n]
                s2 += c[at + n + n]
                s3 += c[at + n + n + n]
                t0 += c[at + last]
                t1 += c[at + n + last]
                t2 += c[at + n + n + last]
                t3 += c[at + n + n + n + last]
            c[at], c[at + last] = s0, t0
            at += n
            c[at], c[at + last] = s1, t1
            at += n
            c[at], c[at + last] = s2, t2
            at += n
            c[at], c[at + last] = s3, t3
    for r in range(rows // np.uint64(4) * np.uint64(4), rows):
        for w in range(n):
            total = c[at_c + r * n + w] if adds else zero
            for p in range(k):
                total += a[at_a + r * row_a + p] * b[at_b + w * k + p]
            c[at_c + r * n + w] = total


@helper(reorder=True)
def _outer_products(a, b, c, m, k, n, at_a, at_b, row_b, at_c):
    """c += a^T b: four rows of `b` at a time are added to all of c."""
    m = np.uint64(m)
    n = np.uint64(n)
    one = np.uint64(1)
    at_a, at_b, at_c = np.uint64(at_a), np.uint64(at_b), np.uint64(at_c)
    row_b = np.uint64(row_b)
    for q in range(np.uint64(k) // np.uint64(4)):
        r0 = at_b + np.uint64(4) * q * row_b
        r1 = r0 + row_b
        r2 = r1 + row_b
        r3 = r2 + row_b
        row = at_a + np.uint64(4) * q * m
        for i in range(m // np.uint64(2)):
            at = row + np.uint64(2) * i
            f0, g0 = a[at], a[at + one]
            at += m
            f1, g1 = a[at], a[at + one]
            at += m
            f2, g2 = a[at], a[at + one]
            at += m
            f3, g3 = a[at], a[at + one]
            u = at_c + np.uint64(2) * i * n
            v = u + n
            for j in range(n):
                b0, b1, b2, b3 = b[r0 + j], b[r1 + j], b[r2 + j], b[r3 + j]
                c[u + j] += f0 * b0 + f1 * b1 + f2 * b2 + f3 * b3
                c[v + j] += g0 * b0 + g1 * b1 + g2 * b2 + g3 * b3
        if m % np.uint64(2):
            at = row + m - one
            f0, f1, f2, f3 = a[at], a[at + m], a[at + m + m], a[at + m + m + m]
            u = at_c + (m - one) * n
            for j in range(n):
                c[u + j] += f0 * b[r0 + j] + f1 * b[r1 + j] + f2 * b[r2 + j] + f3 * b[r3 + j]
    for r in range(np.uint64(k) // np.uint64(4) * np.uint64(4), np.uint64(k)):
        for i in range(m):
            f0 = a[at_a + r * m + i]
            for j in range(n):
                c[at_c + i * n + j] += f0 * b[at_b + r * row_b + j]


@inline
def narrow(a, b, c, m, k, n, at_a, at_b, at_c):
    """c = a b^T for few columns; `b` is stored as (n, k)."""
    _inner_products(a, b, c, m, k, n, at_a, k, at_b, at_c, False)


@helper
def narrow_columns(a, b, c, m, k, n, at_a, at_b, at_c):
    """c = a b for few columns, by blocks of the rows of `b`, transposed."""
    block = local(b.dtype, _BLOCK_SIZE, 0)
    for start in range(0, k, _BLOCK):
        length = min(_BLOCK, k - start)
        for p in range(length):
            for j in range(n):
                block[j * length + p] = b[at_b + (start + p) * n + j]
        _inner_products(a, block, c, m, length, n, at_a + start, k, 0, at_c, start > 0)


@inline
def narrow_transposed(a, b, c, m, k, n, at_a, at_b, at_c):
    """c += a^T b for few rows of c; `a` is stored as (k, m)."""
    _outer_products(a, b, c, m, k, n, at_a, at_b, n, at_c)


@helper
def narrow_transposed_columns(a, b, c, m, k, n, at_a, at_b, at_c):
    """c += a^T b for few columns of c, by blocks of its rows, transposed; `a` is stored as (k, m)."""
    block = local(c.dtype, _BLOCK_SIZE, 0)
    for start in range(0, m, _BLOCK):
        length = min(_BLOCK, m - start)
        for p in range(length * n):
            block[p] = 0
        _outer_products(b, a, block, n, k, length, at_b, at_a + start, m, 0)
        for p in range(length):
            for j in range(n):
                c[at_c + (start + p) * n + j] += block[j * length + p]
