"""Numerical analysis."""

import math

import numpy as np

from .data import normal, positive

NODES = np.array([-0.7745966692414834, 0.0, 0.7745966692414834])
WEIGHTS = (5.0 / 9.0, 8.0 / 9.0, 5.0 / 9.0)


def conjugate_gradient(A, b, x, tol):
    r = b - A @ x
    p = r.copy()
    rs = np.dot(r, r)
    for _ in range(len(b)):
        Ap = A @ p
        alpha = rs / np.dot(p, Ap)
        x += alpha * p
        r -= alpha * Ap
        new = np.dot(r, r)
        if np.sqrt(new) < tol:
            break
        p = r + new / rs * p
        rs = new


def gauss_newton(t, y, a, b, iterations):
    """A fit of two parameters, normal equations by hand."""
    for _ in range(iterations):
        JtJ = np.zeros((2, 2))
        Jtr = np.zeros(2)
        for i in range(t.size):
            e = math.exp(-b * t[i])
            res = y[i] - a * e
            J = np.array([e, -a * t[i] * e])
            for p in range(2):
                Jtr[p] += J[p] * res
                for q in range(2):
                    JtJ[p, q] += J[p] * J[q]
        det = JtJ[0, 0] * JtJ[1, 1] - JtJ[0, 1] * JtJ[1, 0] + 1e-3
        a += (JtJ[1, 1] * Jtr[0] - JtJ[0, 1] * Jtr[1]) / det
        b += (JtJ[0, 0] * Jtr[1] - JtJ[1, 0] * Jtr[0]) / det
    return a, b


def newton_root(a, b, x):
    iterations = 0
    while (f := x**3 + a * x + b) ** 2 > 1e-24 and iterations < 50:
        x = x - f / (3 * x**2 + a)
        iterations += 1
    assert iterations < 50, "no convergence"
    return x


def lu_solve(A, b):
    """Gaussian elimination with row exchanges, in place."""
    n = A.shape[0]
    for k in range(n):
        piv = k + np.argmax(np.abs(A[k:, k]))
        if A[piv, k] == 0.0:
            raise ValueError("singular")
        if piv != k:
            for j in range(n):
                A[k, j], A[piv, j] = A[piv, j], A[k, j]
            b[k], b[piv] = b[piv], b[k]
        for i in range(k + 1, n):
            m = A[i, k] / A[k, k]
            A[i, k:] -= m * A[k, k:]
            b[i] -= m * b[k]
    for i in range(n - 1, -1, -1):
        b[i] = (b[i] - np.dot(A[i, i + 1 :], b[i + 1 :])) / A[i, i]


def qr(A):
    """Gram-Schmidt on columns."""
    m, n = A.shape
    Q = np.zeros((m, n))
    R = np.zeros((n, n))
    for j in range(n):
        v = A[:, j].copy()
        for i in range(j):
            q = Q[:, i]
            R[i, j] = np.dot(q, A[:, j])
            v -= R[i, j] * q
        R[j, j] = np.linalg.norm(v)
        Q[:, j] = v / R[j, j]
    return Q, R


def spline(xs, ys, m, x):
    """Hermite interpolation, the interval by a search."""
    out = np.empty(x.size)
    for k in range(x.size):
        for i in range(len(xs) - 1):
            if x[k] < xs[i + 1]:
                break
        h = xs[i + 1] - xs[i]
        t = (x[k] - xs[i]) / h
        out[k] = (
            (2 * t**3 - 3 * t**2 + 1) * ys[i]
            + (t**3 - 2 * t**2 + t) * h * m[i]
            + (-2 * t**3 + 3 * t**2) * ys[i + 1]
            + (t**3 - t**2) * h * m[i + 1]
        )
    return out


def bisect(xs, v):
    lo, hi = 0, len(xs) - 1
    while hi - lo > 1:
        mid = (lo + hi) // 2
        if xs[mid] > v:
            hi = mid
        else:
            lo = mid
    return lo


def interpolate(xs, ys, v):
    total = 0.0
    for value in v:
        i = bisect(xs, value)
        w = (value - xs[i]) / (xs[i + 1] - xs[i])
        total += (1 - w) * ys[i] + w * ys[i + 1] ** 2
    return total


def quadrature(f_scale, a, b, n):
    """Gauss rule with constants from outside, a function given to a function."""
    g = lambda x: math.exp(-f_scale * x * x)  # noqa: E731
    h = (b - a) / n
    total = 0.0
    for i in range(n):
        mid = a + (i + 0.5) * h
        for node, weight in zip(NODES, WEIGHTS):
            total += 0.5 * h * weight * g(mid + 0.5 * h * node)
    return total


def legendre(c, x):
    """Clenshaw's recurrence over whole arrays."""
    b1 = np.zeros_like(x)
    b2 = np.zeros_like(x)
    for k in range(len(c) - 1, 0, -1):
        b1, b2 = c[k] + (2 * k + 1) / (k + 1) * x * b1 - (k + 1) / (k + 2) * b2, b1 * 1.0
    return c[0] + x * b1 - 0.5 * b2


def trapezoid(y, x):
    return np.sum(0.5 * (y[1:] + y[:-1]) * np.diff(x)), np.cumsum(y), np.std(y)


def radiation(tau, source, surface):
    """Transfer through layers, up and down, with a state in a tuple."""
    n = len(tau)
    state = (surface, 0.0)
    for i in range(n):
        trans = np.exp(-tau[i])
        state = (state[0] * trans + source[i] * (1 - trans), state[1] + trans)
    up, seen = state
    down = 0.0
    for i in reversed(range(n)):
        down += (source[i] - down) * (1 - np.exp(-tau[i]))
    return up, down * seen


MATRIX = normal(4, 4)
PROGRAMS = {
    conjugate_gradient: (MATRIX @ MATRIX.T + 3 * np.eye(4), normal(4), normal(4), 1e-12),
    gauss_newton: (np.linspace(0.1, 2, 5), positive(5), 1.1, 0.6, 3),
    newton_root: (1.3, -2.2, 0.7),
    lu_solve: (normal(4, 4), normal(4)),
    qr: (normal(4, 3),),
    spline: (np.array([0.0, 1.0, 2.5, 3.0]), normal(4), normal(4), np.array([0.3, 1.7, 2.6])),
    interpolate: (np.array([0.0, 1.0, 2.5, 3.0]), normal(4), np.array([0.3, 1.7, 2.6])),
    quadrature: (0.8, -1.0, 1.5, 3),
    legendre: (normal(4), normal(3)),
    trapezoid: (normal(5), np.sort(normal(5))),
    radiation: (positive(4), normal(4), 0.9),
}
