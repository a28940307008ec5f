"""Programs as textbooks have them: pivots and stacks, nested functions, names that serve twice, loops that are left."""

import math

import numpy as np

from .data import drawn

normal, positive = drawn(31)


def gauss_jordan(a, b):
    """Elimination with full pivoting, in place; columns of the inverse are put in order at the end."""
    n, m = a.shape[0], b.shape[1]
    row_of, column_of, used = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    row = column = 0
    for i in range(n):
        big = 0.0
        for j in range(n):
            if used[j] != 1:
                for k in range(n):
                    if used[k] == 0 and abs(a[j, k]) >= big:
                        big = abs(a[j, k])
                        row, column = j, k
        used[column] += 1
        if row != column:
            for k in range(n):
                a[row, k], a[column, k] = a[column, k], a[row, k]
            for k in range(m):
                b[row, k], b[column, k] = b[column, k], b[row, k]
        row_of[i], column_of[i] = row, column
        if a[column, column] == 0.0:
            raise ValueError("gauss_jordan: the matrix is singular")
        pivot = 1.0 / a[column, column]
        a[column, column] = 1.0
        a[column, :] *= pivot
        b[column, :] *= pivot
        for k in range(n):
            if k != column:
                factor = a[k, column]
                a[k, column] = 0.0
                a[k, :] -= a[column, :] * factor
                b[k, :] -= b[column, :] * factor
    for i in range(n - 1, -1, -1):
        if row_of[i] != column_of[i]:
            for k in range(n):
                held = a[k, row_of[i]]
                a[k, row_of[i]] = a[k, column_of[i]]
                a[k, column_of[i]] = held


def brent(p, a, b):
    """Brent's method, with a Newton step at the end, by which the root has its derivative."""

    def f(x):
        return x**3 - p * x - 2.0

    fa, fb = f(a), f(b)
    c, fc = a, fa
    d = e = b - a
    for _ in range(100):
        if (fb > 0 and fc > 0) or (fb < 0 and fc < 0):
            c, fc = a, fa
            d = e = b - a
        if abs(fc) < abs(fb):
            a, b, c = b, c, b
            fa, fb, fc = fb, fc, fb
        near = 2e-16 * abs(b) + 5e-13
        half = 0.5 * (c - b)
        if abs(half) <= near or fb == 0.0:
            break
        if abs(e) >= near and abs(fa) > abs(fb):
            s = fb / fa
            if a == c:
                top, bottom = 2.0 * half * s, 1.0 - s
            else:
                q, r = fa / fc, fb / fc
                top = s * (2.0 * half * q * (q - r) - (b - a) * (r - 1.0))
                bottom = (q - 1.0) * (r - 1.0) * (s - 1.0)
            bottom = -bottom if top > 0.0 else bottom
            top = abs(top)
            if 2.0 * top < min(3.0 * half * bottom - abs(near * bottom), abs(e * bottom)):
                e, d = d, top / bottom
            else:
                d = e = half
        else:
            d = e = half
        a, fa = b, fb
        b += d if abs(d) > near else math.copysign(near, half)
        fb = f(b)
    else:
        raise ValueError("brent: no convergence")
    return b - f(b) / (3.0 * b * b - p)


def percolation(noise, p):
    """Clusters of open sites, by a stack."""
    n = noise.shape[0]
    seen = np.zeros((n, n), np.bool_)
    stack = np.zeros((n * n, 2), np.int64)
    total = largest = 0.0
    for i, j in np.ndindex((n, n)):
        if noise[i, j] >= p or seen[i, j]:
            continue
        stack[0] = i, j
        top, mass = 1, 0.0
        seen[i, j] = True
        while top > 0:
            top -= 1
            a, b = stack[top]
            mass += (p - noise[a, b]) ** 2
            for da, db in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                x, y = a + da, b + db
                if 0 <= x < n and 0 <= y < n and noise[x, y] < p and not seen[x, y]:
                    seen[x, y] = True
                    stack[top] = x, y
                    top += 1
        total += mass * mass
        largest = max(largest, mass)
    return total, largest


def smoother(z, q, r):
    """A Kalman filter and the sweep back that smooths; `t` is a number first, and counts then."""
    m, variance, loglik = 0.0, 1.0, 0.0
    means, variances = np.empty(len(z)), np.empty(len(z))
    for t, value in enumerate(z):
        variance += q * q
        s = variance + r * r
        gain = variance / s
        e = value - m
        loglik -= 0.5 * (math.log(2.0 * math.pi * s) + e * e / s)
        m += gain * e
        variance *= 1.0 - gain
        means[t], variances[t] = m, variance
    for t in range(len(z) - 2, -1, -1):
        gain = variances[t] / (variances[t] + q * q)
        means[t] += gain * (means[t + 1] - means[t])
    return loglik, means


def network(y, w1, b1, w2):
    return w2 @ np.tanh(w1 @ y + b1)


def neural_ode(y, w1, b1, w2, h, steps):
    """Runge-Kutta steps whose states are rows of a trajectory."""
    states = np.zeros((steps + 1, y.size))
    states[0] = y
    for t in range(steps):
        y = states[t]
        k1 = network(y, w1, b1, w2)
        k2 = network(y + 0.5 * h * k1, w1, b1, w2)
        k3 = network(y + 0.5 * h * k2, w1, b1, w2)
        k4 = network(y + h * k3, w1=w1, b1=b1, w2=w2)
        states[t + 1] = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return np.sum(states[-1] ** 2), states


def glacier(h, balance, dt, steps):
    """Ice that flows down; the thickness is changed in place, and then is another array."""
    for _ in range(steps):
        surface = h + balance
        flux = -((0.5 * (h[1:] + h[:-1])) ** 3) * np.diff(surface)
        h[1:-1] -= dt * (flux[1:] - flux[:-1])
        h[-1] = 0.0
        h = np.maximum(h, 0.0)
    return h


PROGRAMS = {
    gauss_jordan: (normal(4, 4) + 3.0 * np.eye(4)[[2, 0, 3, 1]], normal(4, 2)),
    brent: (1.3, 1.0, 3.0),
    percolation: (np.random.default_rng(2).random((5, 5)), 0.61),
    smoother: (normal(7), 0.3, 0.2),
    neural_ode: (normal(3), 0.5 * normal(4, 3), normal(4), 0.5 * normal(3, 4), 0.1, 3),
    glacier: (positive(7), 0.1 * positive(7), 0.05, 4),
}
