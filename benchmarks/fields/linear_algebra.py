"""Products of matrices and vectors: thirteen kernels of PolyBench."""

import numpy as np

from . import Kernel


def gemm(alpha, beta, c, a, b):
    n, m = c.shape
    for i in range(n):
        for j in range(m):
            c[i, j] *= beta
        for k in range(a.shape[1]):
            for j in range(m):
                c[i, j] += alpha * a[i, k] * b[k, j]
    return np.sum(c * c)


def two_products(alpha, beta, a, b, c, d):
    n, m = a.shape[0], b.shape[1]
    product = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            for k in range(a.shape[1]):
                product[i, j] += alpha * a[i, k] * b[k, j]
    for i in range(n):
        for j in range(c.shape[1]):
            d[i, j] *= beta
            for k in range(m):
                d[i, j] += product[i, k] * c[k, j]
    return np.sum(d * d)


def three_products(a, b, c, d):
    g = (a @ b) @ (c @ d)
    return np.sum(g * g)


def symm(alpha, beta, c, a, b):
    """The lower triangle of `a` holds a symmetric matrix."""
    n, m = c.shape
    for i in range(n):
        for j in range(m):
            s = 0.0
            for k in range(i):
                c[k, j] += alpha * b[i, j] * a[i, k]
                s += b[k, j] * a[i, k]
            c[i, j] = beta * c[i, j] + alpha * b[i, j] * a[i, i] + alpha * s
    return np.sum(c * c)


def syrk(alpha, beta, c, a):
    n, m = a.shape
    for i in range(n):
        for j in range(i + 1):
            c[i, j] *= beta
        for k in range(m):
            for j in range(i + 1):
                c[i, j] += alpha * a[i, k] * a[j, k]
    return np.sum(c * c)


def syr2k(alpha, beta, c, a, b):
    n, m = a.shape
    for i in range(n):
        for j in range(i + 1):
            c[i, j] *= beta
        for k in range(m):
            for j in range(i + 1):
                c[i, j] += alpha * a[j, k] * b[i, k] + alpha * b[j, k] * a[i, k]
    return np.sum(c * c)


def trmm(alpha, a, b):
    """`b` times the transpose of a lower triangular matrix with ones on its diagonal."""
    n, m = b.shape
    for i in range(n):
        for j in range(m):
            for k in range(i + 1, n):
                b[i, j] += a[k, i] * b[k, j]
            b[i, j] *= alpha
    return np.sum(b * b)


def doitgen(a, c):
    """One axis of `a` times a matrix, as in multiresolution analysis."""
    n, m, p = a.shape
    row = np.zeros(p)
    for r in range(n):
        for q in range(m):
            for j in range(p):
                row[j] = 0.0
                for k in range(p):
                    row[j] += a[r, q, k] * c[k, j]
            for j in range(p):
                a[r, q, j] = row[j]
    return np.sum(a * a)


def atax(a, x):
    n, m = a.shape
    y = np.zeros(m)
    for i in range(n):
        s = 0.0
        for j in range(m):
            s += a[i, j] * x[j]
        for j in range(m):
            y[j] += a[i, j] * s
    return np.sum(y * y)


def bicg(a, p, r):
    n, m = a.shape
    q = np.zeros(n)
    s = np.zeros(m)
    for i in range(n):
        for j in range(m):
            s[j] += r[i] * a[i, j]
            q[i] += a[i, j] * p[j]
    return np.sum(q * q) + np.sum(s * s)


def gesummv(alpha, beta, a, b, x):
    n = x.size
    y = np.zeros(n)
    for i in range(n):
        first = 0.0
        second = 0.0
        for j in range(n):
            first += a[i, j] * x[j]
            second += b[i, j] * x[j]
        y[i] = alpha * first + beta * second
    return np.sum(y * y)


def mvt(a, x1, x2, y1, y2):
    x1 = x1 + a @ y1
    x2 = x2 + a.T @ y2
    return np.sum(x1 * x1) + np.sum(x2 * x2)


def gemver(alpha, beta, a, u1, v1, u2, v2, y, z):
    n = y.size
    x = np.zeros(n)
    w = np.zeros(n)
    for i in range(n):
        for j in range(n):
            a[i, j] += u1[i] * v1[j] + u2[i] * v2[j]
    for i in range(n):
        for j in range(n):
            x[i] += beta * a[j, i] * y[j]
    for i in range(n):
        x[i] += z[i]
    for i in range(n):
        for j in range(n):
            w[i] += alpha * a[i, j] * x[j]
    return np.sum(w * w)


def _square(count, vectors=0, scalars=2):
    """Scalars, square matrices and vectors."""

    def draw(rng, n):
        matrices = [rng.normal(size=(n, n)) for _ in range(count)]
        return (*[0.7, 0.4][:scalars], *matrices, *[rng.normal(size=n) for _ in range(vectors)])

    return draw


KERNELS = [
    Kernel(gemm, _square(3), (160,), (6,), products=True),
    Kernel(two_products, _square(4), (130,), (6,), "2mm", products=True),
    Kernel(three_products, _square(4, scalars=0), (130,), (6,), "3mm", products=True),
    Kernel(symm, _square(3), (130,), (6,), products=True),
    Kernel(syrk, _square(2), (160,), (6,), products=True),
    Kernel(syr2k, _square(3), (160,), (6,), products=True),
    Kernel(trmm, _square(2, scalars=1), (160,), (6,), products=True),
    Kernel(doitgen, lambda rng, n: (rng.normal(size=(n, n, n)), rng.normal(size=(n, n))), (40,), (4,), products=True),
    Kernel(atax, _square(1, 1, 0), (700,), (6,)),
    Kernel(bicg, _square(1, 2, 0), (700,), (6,)),
    Kernel(gesummv, _square(2, 1), (600,), (6,)),
    Kernel(mvt, _square(1, 4, 0), (700,), (6,)),
    Kernel(gemver, _square(1, 6), (600,), (6,)),
]
