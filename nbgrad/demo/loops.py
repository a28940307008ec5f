"""Scientific functions as people write them for Numba: plain loops, in place. :func:`nbgrad.adjoint` takes them as they
are."""

import math

import numpy as np

__all__ = ["cholesky", "csr_product", "heat", "lstm", "lynx_hare", "pairwise", "soft_dtw", "sor", "thomas"]


def heat(u, conductivity, dt, steps):
    """The heat equation in three dimensions, explicit steps; `u` is changed."""
    n, m, p = u.shape
    new = u.copy()
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                for k in range(1, p - 1):
                    flow = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
                    flow += u[i, j, k - 1] + u[i, j, k + 1] - 6.0 * u[i, j, k]
                    new[i, j, k] = u[i, j, k] + dt * conductivity[i, j, k] * flow
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                for k in range(1, p - 1):
                    u[i, j, k] = new[i, j, k]


def lynx_hare(parameters, start, dt, hares, lynx):
    """Lotka-Volterra by the classical Runge-Kutta method; `hares` and `lynx` are filled."""
    a, b, c, d = parameters[0], parameters[1], parameters[2], parameters[3]
    x, y = start[0], start[1]
    for t in range(hares.size):
        hares[t] = x
        lynx[t] = y
        k1 = (a - b * y) * x
        l1 = (c * x - d) * y
        x2 = x + 0.5 * dt * k1
        y2 = y + 0.5 * dt * l1
        k2 = (a - b * y2) * x2
        l2 = (c * x2 - d) * y2
        x3 = x + 0.5 * dt * k2
        y3 = y + 0.5 * dt * l2
        k3 = (a - b * y3) * x3
        l3 = (c * x3 - d) * y3
        x4 = x + dt * k3
        y4 = y + dt * l3
        k4 = (a - b * y4) * x4
        l4 = (c * x4 - d) * y4
        x += dt * (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0
        y += dt * (l1 + 2.0 * l2 + 2.0 * l3 + l4) / 6.0


def thomas(lower, diagonal, upper, right, x):
    """Solve a tridiagonal system; `x` is the solution."""
    n = diagonal.size
    c = np.empty(n)
    d = np.empty(n)
    c[0] = upper[0] / diagonal[0]
    d[0] = right[0] / diagonal[0]
    for i in range(1, n):
        pivot = diagonal[i] - lower[i] * c[i - 1]
        c[i] = upper[i] / pivot
        d[i] = (right[i] - lower[i] * d[i - 1]) / pivot
    x[n - 1] = d[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = d[i] - c[i] * x[i + 1]


def cholesky(a):
    """The lower factor of a positive definite matrix, in its place (the upper triangle is left alone)."""
    n = a.shape[0]
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s -= a[j, k] * a[j, k]
        a[j, j] = math.sqrt(s)
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s -= a[i, k] * a[j, k]
            a[i, j] = s / a[j, j]


def sor(u, right, omega, sweeps):
    """Successive over-relaxation for Poisson's equation on a square, in place."""
    n, m = u.shape
    for _ in range(sweeps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                mean = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - right[i, j])
                u[i, j] = (1.0 - omega) * u[i, j] + omega * mean


def soft_dtw(x, y, gamma):
    """Soft dynamic time warping (Cuturi and Blondel, 2017) of two series."""
    n = x.size
    m = y.size
    r = np.full((n + 1, m + 1), 1e10)
    r[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            a = r[i - 1, j - 1]
            b = r[i - 1, j]
            c = r[i, j - 1]
            low = min(a, b, c)
            total = math.exp((low - a) / gamma) + math.exp((low - b) / gamma) + math.exp((low - c) / gamma)
            r[i, j] = (x[i - 1] - y[j - 1]) ** 2 + low - gamma * math.log(total)
    return r[n, m]


def lstm(x, w, u, b, h):
    """An LSTM cell over time; `h[t + 1]` is the state after step t, `h[0]` the first."""
    steps, inputs = x.shape
    size = h.shape[1]
    c = np.zeros(size)
    z = np.empty(4 * size)
    for t in range(steps):
        for k in range(4 * size):
            s = b[k]
            for j in range(inputs):
                s += w[k, j] * x[t, j]
            for j in range(size):
                s += u[k, j] * h[t, j]
            z[k] = s
        for k in range(size):
            gate_in = 1.0 / (1.0 + math.exp(-z[k]))
            gate_forget = 1.0 / (1.0 + math.exp(-z[size + k]))
            gate_out = 1.0 / (1.0 + math.exp(-z[3 * size + k]))
            c[k] = gate_forget * c[k] + gate_in * math.tanh(z[2 * size + k])
            h[t + 1, k] = gate_out * math.tanh(c[k])


def pairwise(position, cutoff):
    """The Lennard-Jones energy of particles nearer than `cutoff` to each other."""
    energy = 0.0
    for i in range(position.shape[0]):
        for j in range(i + 1, position.shape[0]):
            dx = position[i, 0] - position[j, 0]
            dy = position[i, 1] - position[j, 1]
            dz = position[i, 2] - position[j, 2]
            r2 = dx * dx + dy * dy + dz * dz
            if r2 < cutoff * cutoff:
                s = 1.0 / (r2 * r2 * r2)
                energy += 4.0 * (s * s - s)
    return energy


def csr_product(data, columns, starts, x, y):
    """``y = A x`` for a sparse matrix by rows."""
    for i in range(y.size):
        s = 0.0
        for k in range(starts[i], starts[i + 1]):
            s += data[k] * x[columns[k]]
        y[i] = s
