"""NumPy functions for linear algebra, written in the subset."""

from __future__ import annotations

import numpy as np

from ..function_table import definition, refuse_call

__all__ = ["qr_in_loops"]  # the others are found through the table


def pivots(a):
    """The row order of Gaussian elimination with partial pivoting."""
    n = a.shape[0]
    if a.shape[1] != n:
        raise np.linalg.LinAlgError("the matrix is not square")
    left, order = np.empty((n, n)), np.empty(n, np.int64)
    for i in range(n):
        order[i] = i
        for j in range(n):
            left[i, j] = a[i, j]
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(left[order[i], k]) > abs(left[order[best], k]):
                best = i
        row = order[best]
        order[best] = order[k]
        order[k] = row
        for i in range(k + 1, n):
            if left[row, k] != 0.0:
                factor = left[order[i], k] / left[row, k]
                for j in range(k + 1, n):
                    left[order[i], j] -= factor * left[row, j]
    found = np.empty(n, np.int64)
    for i in range(n):
        found[i] = order[i]
    return found


def factors(a, order):
    """The LU factors of the rows in this order: U on and above the diagonal, L below, with a unit diagonal."""
    n = a.shape[0]
    lu = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            s = 1.0 * a[order[i], j]
            for k in range(min(i, j)):
                s -= lu[i, k] * lu[k, j]
            if j < i and lu[j, j] != 0.0:  # of a pivot 0, all below are 0
                s /= lu[j, j]
            lu[i, j] = s
    return lu


def only_matrix(a):
    if np.ndim(a) != 2:
        refuse_call("np.linalg of an array that is not a matrix: of a stack, write a loop over the matrices")


@definition(np.linalg)
def solve(a, b):
    only_matrix(a)
    n = a.shape[0]
    if b.shape[0] != n:
        raise ValueError("the right-hand side has another length than the matrix")
    order = pivots(a)
    lu = factors(a, order)
    for i in range(n):
        if lu[i, i] == 0.0:
            raise np.linalg.LinAlgError("the matrix is singular")
    y, x = np.empty(b.shape), np.empty(b.shape)
    for i in range(n):
        y[i] = b[order[i]]
        for j in range(i):
            y[i] -= lu[i, j] * y[j]
    for i in range(n - 1, -1, -1):
        x[i] = y[i] / lu[i, i]
        for j in range(i + 1, n):
            x[i] -= lu[i, j] / lu[i, i] * x[j]
    return x


@definition(np.linalg)
def inv(a):
    only_matrix(a)
    return solve(a, np.eye(a.shape[0]))


def sign_of(order):
    """The sign of a permutation."""
    sign = 1.0
    for i in range(order.size):
        for j in range(i):
            if order[j] > order[i]:
                sign = -sign
    return sign


def complete_pivots(a):
    """The orders of rows and columns of Gaussian elimination with complete pivoting."""
    n = a.shape[0]
    if a.shape[1] != n:
        raise np.linalg.LinAlgError("the matrix is not square")
    left, rows, columns = np.empty((n, n)), np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        rows[i] = i
        columns[i] = i
        for j in range(n):
            left[i, j] = a[i, j]
    for k in range(n):
        row, column = k, k
        for i in range(k, n):
            for j in range(k, n):
                if abs(left[rows[i], columns[j]]) > abs(left[rows[row], columns[column]]):
                    row, column = i, j
        first, second = rows[row], columns[column]
        rows[row], columns[column] = rows[k], columns[k]
        rows[k], columns[k] = first, second
        if left[first, second] != 0.0:
            for i in range(k + 1, n):
                factor = left[rows[i], second] / left[first, second]
                for j in range(k + 1, n):
                    left[rows[i], columns[j]] -= factor * left[first, columns[j]]
    return rows, columns


@definition(np.linalg)
def det(a):
    only_matrix(a)
    # Pivots of 0 come last: the derivative with respect to what is below one would be lost otherwise.
    rows, columns = complete_pivots(a)
    n = a.shape[0]
    sorted_columns = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            sorted_columns[i, j] = a[i, columns[j]]
    lu = factors(sorted_columns, rows)
    found = sign_of(rows) * sign_of(columns)
    for i in range(n):
        found *= lu[i, i]
    return found


@definition(np.linalg)
def slogdet(a):
    only_matrix(a)
    order = pivots(a)
    lu = factors(a, order)
    sign, total = sign_of(order), 0.0
    for i in range(a.shape[0]):
        if lu[i, i] < 0.0:
            sign = -sign
        elif lu[i, i] == 0.0:
            sign = 0.0
        total += np.log(abs(lu[i, i]))
    return sign, total


@definition(np.linalg)
def cholesky(a):
    only_matrix(a)
    n = a.shape[0]
    if a.shape[1] != n:
        raise np.linalg.LinAlgError("the matrix is not square")
    found = np.zeros((n, n))
    for j in range(n):
        s = 1.0 * a[j, j]
        for k in range(j):
            s -= found[j, k] ** 2
        if s <= 0.0:
            raise np.linalg.LinAlgError("the matrix is not positive definite")
        found[j, j] = np.sqrt(s)
        for i in range(j + 1, n):
            t = 1.0 * a[i, j]
            for k in range(j):
                t -= found[i, k] * found[j, k]
            found[i, j] = t / found[j, j]
    return found


@definition(np.linalg)
def matrix_power(a, n):
    if n < 0:
        raise ValueError("a negative power of a matrix; invert it before")
    found = np.eye(a.shape[0])
    for _ in range(n):
        found[:, :] = found @ a
    return found


@definition(np.linalg)
def qr(a, mode="reduced"):
    if np.ndim(a) != 2:
        refuse_call("QR factors of an array that is not a matrix: of a stack, write a loop over the matrices")
    if a.size == 0:
        raise ValueError("np.linalg.qr of a matrix without elements")
    if mode == "reduced":
        found = qr_in_loops(a)
    elif mode == "r":
        found = qr_in_loops(a)[1]
    else:
        refuse_call("np.linalg.qr with a mode other than 'reduced' and 'r'")
    return found


def qr_in_loops(a):
    """QR factors by Householder reflections, with LAPACK's signs."""
    m, n = a.shape
    k = min(m, n)
    left, right, mirrors = np.eye(m, k), np.empty((m, n)), np.zeros((k, m))
    right[:, :] = a
    for j in range(k):
        tail = np.sum(right[j + 1 :, j] ** 2)
        if tail > 0.0:
            first = right[j, j]
            length = np.sqrt(first**2 + tail)
            below = first + (length if first >= 0.0 else -length)
            scale = np.sqrt(2.0 / (below**2 + tail))
            mirrors[j, j] = scale * below
            for i in range(j + 1, m):
                mirrors[j, i] = scale * right[i, j]
            for l in range(j, n):  # noqa: E741
                along = np.sum(mirrors[j, j:] * right[j:, l])
                for i in range(j, m):
                    right[i, l] -= along * mirrors[j, i]
    for j in range(k - 1, -1, -1):
        for l in range(j, k):  # noqa: E741
            along = np.sum(mirrors[j, j:] * left[j:, l])
            for i in range(j, m):
                left[i, l] -= along * mirrors[j, i]
    return left, np.triu(right[:k])
