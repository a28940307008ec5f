"""Stencils: six kernels of PolyBench."""

import numpy as np

from . import Kernel


def jacobi_1d(a, b, steps):
    n = a.size
    for _ in range(steps):
        for i in range(1, n - 1):
            b[i] = 0.33333 * (a[i - 1] + a[i] + a[i + 1])
        for i in range(1, n - 1):
            a[i] = 0.33333 * (b[i - 1] + b[i] + b[i + 1])
    return np.sum(a * a)


def jacobi_2d(a, b, steps):
    n, m = a.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                b[i, j] = 0.2 * (a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j])
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                a[i, j] = 0.2 * (b[i, j] + b[i, j - 1] + b[i, j + 1] + b[i + 1, j] + b[i - 1, j])
    return np.sum(a * a)


def heat_3d(a, rate, steps):
    """Heat in a box, of a conductivity of its own in each direction; new arrays, as with NumPy."""
    for _ in range(steps):
        b = a.copy()
        inner = a[1:-1, 1:-1, 1:-1]
        b[1:-1, 1:-1, 1:-1] = (
            inner
            + rate[0] * (a[2:, 1:-1, 1:-1] - 2.0 * inner + a[:-2, 1:-1, 1:-1])
            + rate[1] * (a[1:-1, 2:, 1:-1] - 2.0 * inner + a[1:-1, :-2, 1:-1])
            + rate[2] * (a[1:-1, 1:-1, 2:] - 2.0 * inner + a[1:-1, 1:-1, :-2])
        )
        a = b
    return np.sum(a * a)


def seidel_2d(a, steps):
    n, m = a.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                above = a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1]
                below = a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1]
                a[i, j] = (above + a[i, j - 1] + a[i, j] + a[i, j + 1] + below) / 9.0
    return np.sum(a * a)


def fdtd_2d(ex, ey, hz, source):
    """Electric and magnetic fields on shifted grids (Yee)."""
    n, m = hz.shape
    for t in range(source.size):
        for j in range(m):
            ey[0, j] = source[t]
        for i in range(1, n):
            for j in range(m):
                ey[i, j] -= 0.5 * (hz[i, j] - hz[i - 1, j])
        for i in range(n):
            for j in range(1, m):
                ex[i, j] -= 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in range(n - 1):
            for j in range(m - 1):
                hz[i, j] -= 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])
    return np.sum(hz * hz)


def adi(u, r, steps):
    """Heat with alternating directions (Peaceman and Rachford); the boundary has the value 1."""
    n, m = u.shape
    v = np.ones((n, m))
    p = np.zeros(max(n, m))
    q = np.ones(max(n, m))
    half = 0.5 * r
    for _ in range(steps):
        for j in range(1, m - 1):
            for i in range(1, n - 1):
                right = (1.0 - r) * u[i, j] + half * (u[i, j - 1] + u[i, j + 1])
                pivot = 1.0 + r - half * p[i - 1]
                p[i] = half / pivot
                q[i] = (right + half * q[i - 1]) / pivot
            for i in range(n - 2, 0, -1):
                v[i, j] = p[i] * v[i + 1, j] + q[i]
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                right = (1.0 - r) * v[i, j] + half * (v[i - 1, j] + v[i + 1, j])
                pivot = 1.0 + r - half * p[j - 1]
                p[j] = half / pivot
                q[j] = (right + half * q[j - 1]) / pivot
            for j in range(m - 2, 0, -1):
                u[i, j] = p[j] * u[i, j + 1] + q[j]
    return np.sum(u * u)


def _adi(rng, n, steps):
    u = np.ones((n, n))
    u[1:-1, 1:-1] = rng.normal(size=(n - 2, n - 2))
    return u, 0.8, steps


def _fields(rng, n, steps):
    return (*rng.normal(size=(3, n, n)), np.sin(0.1 * np.arange(steps)))


KERNELS = [
    Kernel(jacobi_1d, lambda rng, n, steps: (*rng.normal(size=(2, n)), steps), (4000, 200), (8, 3)),
    Kernel(jacobi_2d, lambda rng, n, steps: (*rng.normal(size=(2, n, n)), steps), (150, 50), (6, 3)),
    Kernel(heat_3d, lambda rng, n, steps: (rng.normal(size=(n, n, n)), rng.uniform(0.1, 0.15, 3), steps), (32, 30),
           (5, 3)),
    Kernel(seidel_2d, lambda rng, n, steps: (rng.normal(size=(n, n)), steps), (120, 20), (6, 3)),
    Kernel(fdtd_2d, _fields, (120, 50), (6, 3)),
    Kernel(adi, _adi, (120, 20), (6, 3)),
]  # fmt: skip
