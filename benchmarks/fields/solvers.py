"""Factorizations and systems of equations: six kernels of PolyBench."""

import math

import numpy as np

from . import Kernel


def cholesky(a):
    """The logarithm of the determinant."""
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[j, k]
            a[i, j] /= a[j, j]
        for k in range(i):
            a[i, i] -= a[i, k] ** 2
        a[i, i] = math.sqrt(a[i, i])
    total = 0.0
    for i in range(n):
        total += 2.0 * math.log(a[i, i])
    return total


def durbin(r):
    """The system of a symmetric Toeplitz matrix (Yule and Walker)."""
    n = r.size
    y = np.zeros(n)
    z = np.zeros(n)
    y[0] = -r[0]
    alpha = -r[0]
    beta = 1.0
    for k in range(1, n):
        beta *= 1.0 - alpha * alpha
        total = 0.0
        for i in range(k):
            total += r[k - i - 1] * y[i]
        alpha = -(r[k] + total) / beta
        for i in range(k):
            z[i] = y[i] + alpha * y[k - i - 1]
        for i in range(k):
            y[i] = z[i]
        y[k] = alpha
    return np.sum(y * y)


def gramschmidt(a):
    """The factors Q and R, by the modified method: each column is subtracted from all later ones at once."""
    n, m = a.shape
    q = np.zeros((n, m))
    r = np.zeros((m, m))
    for k in range(m):
        norm = 0.0
        for i in range(n):
            norm += a[i, k] * a[i, k]
        r[k, k] = math.sqrt(norm)
        for i in range(n):
            q[i, k] = a[i, k] / r[k, k]
        for j in range(k + 1, m):
            for i in range(n):
                r[k, j] += q[i, k] * a[i, j]
            for i in range(n):
                a[i, j] -= q[i, k] * r[k, j]
    return np.sum(q) + np.sum(r)


def lu(a):
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[k, j]
            a[i, j] /= a[j, j]
        for j in range(i, n):
            for k in range(i):
                a[i, j] -= a[i, k] * a[k, j]
    return np.sum(a * a)


def ludcmp(a, b):
    """A system of equations by elimination."""
    n = b.size
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    y = np.zeros(n)
    for i in range(n):
        y[i] = b[i]
        for j in range(i):
            y[i] -= a[i, j] * y[j]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        s = y[i]
        for j in range(i + 1, n):
            s -= a[i, j] * x[j]
        x[i] = s / a[i, i]
    return np.sum(x * x)


def trisolv(lower, b):
    n = b.size
    x = np.zeros(n)
    for i in range(n):
        x[i] = b[i]
        for j in range(i):
            x[i] -= lower[i, j] * x[j]
        x[i] /= lower[i, i]
    return np.sum(x * x)


def _dominant(rng, n):
    return rng.normal(size=(n, n)) + 3.0 * n * np.eye(n)


def _definite(rng, n):
    a = rng.normal(size=(n, n))
    return (a @ a.T + n * np.eye(n),)


KERNELS = [
    Kernel(cholesky, _definite, (160,), (6,)),
    Kernel(durbin, lambda rng, n: (rng.uniform(-0.5, 0.5, n) / n,), (1200,), (8,)),
    Kernel(gramschmidt, lambda rng, n: (rng.normal(size=(n + n // 4, n)),), (100,), (6,)),
    Kernel(lu, lambda rng, n: (_dominant(rng, n),), (130,), (6,)),
    Kernel(ludcmp, lambda rng, n: (_dominant(rng, n), rng.normal(size=n)), (150,), (6,)),
    Kernel(trisolv, lambda rng, n: (_dominant(rng, n), rng.normal(size=n)), (900,), (6,)),
]
