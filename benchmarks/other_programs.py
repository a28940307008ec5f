"""Programs that are measured, beside those of tests/programs: see small_programs.py."""

import math

import numpy as np


def cahn_hilliard(c, gamma, dt, steps):
    """Two phases that separate, in a periodic box."""
    n, m = c.shape
    mu = np.zeros((n, m))
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                ip = i + 1 if i < n - 1 else 0
                im = i - 1 if i > 0 else n - 1
                jp = j + 1 if j < m - 1 else 0
                jm = j - 1 if j > 0 else m - 1
                lap = c[ip, j] + c[im, j] + c[i, jp] + c[i, jm] - 4 * c[i, j]
                mu[i, j] = c[i, j] ** 3 - c[i, j] - gamma * lap
        for i in range(n):
            for j in range(m):
                ip = (i + 1) % n
                im = (i - 1) % n
                jp = (j + 1) % m
                jm = (j - 1) % m
                c[i, j] += dt * (mu[ip, j] + mu[im, j] + mu[i, jp] + mu[i, jm] - 4 * mu[i, j])
    e = 0.0
    for i in range(n):
        for j in range(m):
            e += (c[i, j] ** 2 - 1.0) ** 2
    return e


def weno_face(a, b, c, d, e):
    """A value between cells, from five of them."""
    b0 = 13.0 / 12.0 * (a - 2 * b + c) ** 2 + 0.25 * (a - 4 * b + 3 * c) ** 2
    b1 = 13.0 / 12.0 * (b - 2 * c + d) ** 2 + 0.25 * (b - d) ** 2
    b2 = 13.0 / 12.0 * (c - 2 * d + e) ** 2 + 0.25 * (3 * c - 4 * d + e) ** 2
    w0 = 0.1 / (1e-6 + b0) ** 2
    w1 = 0.6 / (1e-6 + b1) ** 2
    w2 = 0.3 / (1e-6 + b2) ** 2
    s = w0 + w1 + w2
    return (w0 * (2 * a - 7 * b + 11 * c) + w1 * (-b + 5 * c + 2 * d) + w2 * (2 * c + 5 * d - e)) / (6 * s)


def weno5(u, speed, dt, dx, steps):
    """Advection of fifth order (Jiang and Shu)."""
    n = u.size
    flux = np.zeros(n)
    for _ in range(steps):
        for i in range(2, n - 2):
            flux[i] = speed * weno_face(u[i - 2], u[i - 1], u[i], u[i + 1], u[i + 2])
        for i in range(3, n - 2):
            u[i] -= dt / dx * (flux[i] - flux[i - 1])


def level_set(phi, speed, dt, dx, steps):
    """A front that moves with a speed, by upwind differences of its distance."""
    n, m = phi.shape
    new = phi.copy()
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                dxm = (phi[i, j] - phi[i - 1, j]) / dx
                dxp = (phi[i + 1, j] - phi[i, j]) / dx
                dym = (phi[i, j] - phi[i, j - 1]) / dx
                dyp = (phi[i, j + 1] - phi[i, j]) / dx
                if speed[i, j] > 0:
                    grad = math.sqrt(
                        max(dxm, 0.0) ** 2 + min(dxp, 0.0) ** 2 + max(dym, 0.0) ** 2 + min(dyp, 0.0) ** 2 + 1e-12
                    )
                else:
                    grad = math.sqrt(
                        min(dxm, 0.0) ** 2 + max(dxp, 0.0) ** 2 + min(dym, 0.0) ** 2 + max(dyp, 0.0) ** 2 + 1e-12
                    )
                new[i, j] = phi[i, j] - dt * speed[i, j] * grad
        phi, new = new, phi
    return phi


def lorenz96(x, F, out):
    """How a ring of weather stations changes."""
    n = x.size
    for i in range(n):
        out[i] = (x[(i + 1) % n] - x[(i - 2) % n]) * x[(i - 1) % n] - x[i] + F


def rk4_lorenz96(x, F, dt, steps):
    """That, by the method of Runge and Kutta."""
    n = x.size
    k1, k2, k3, k4 = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    y = np.zeros(n)
    for _ in range(steps):
        lorenz96(x, F, k1)
        for i in range(n):
            y[i] = x[i] + 0.5 * dt * k1[i]
        lorenz96(y, F, k2)
        for i in range(n):
            y[i] = x[i] + 0.5 * dt * k2[i]
        lorenz96(y, F, k3)
        for i in range(n):
            y[i] = x[i] + dt * k3[i]
        lorenz96(y, F, k4)
        for i in range(n):
            x[i] += dt / 6 * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i])


def optical_flow(a, b, alpha, iters):
    """The flow between two images."""
    n, m = a.shape
    u = np.zeros((n, m))
    v = np.zeros((n, m))
    un = np.zeros((n, m))
    vn = np.zeros((n, m))
    for _ in range(iters):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                ix = 0.5 * (a[i, j + 1] - a[i, j - 1])
                iy = 0.5 * (a[i + 1, j] - a[i - 1, j])
                dt = b[i, j] - a[i, j]
                ub = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
                vb = 0.25 * (v[i - 1, j] + v[i + 1, j] + v[i, j - 1] + v[i, j + 1])
                k = (ix * ub + iy * vb + dt) / (alpha * alpha + ix * ix + iy * iy)
                un[i, j] = ub - ix * k
                vn[i, j] = vb - iy * k
        u, un = un, u
        v, vn = vn, v
    return u, v


def limiter(q, c, steps):
    """Advection with limited slopes."""
    n = q.size
    slope = np.zeros(n)
    flux = np.zeros(n)
    for _ in range(steps):
        for i in range(1, n - 1):
            a = q[i] - q[i - 1]
            b = q[i + 1] - q[i]
            if a * b <= 0.0:
                slope[i] = 0.0
            elif abs(a) < abs(b):
                slope[i] = a
            else:
                slope[i] = b
        for i in range(1, n - 2):
            if c > 0:
                flux[i] = c * (q[i] + 0.5 * (1 - c) * slope[i])
            else:
                flux[i] = c * (q[i + 1] - 0.5 * (1 + c) * slope[i + 1])
        for i in range(2, n - 2):
            q[i] -= flux[i] - flux[i - 1]


def wind(q, u, v, dt, dx, steps):
    """Advection in a wind, by differences against it."""
    n, m = q.shape
    for _ in range(steps):
        old = q.copy()
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                if u[i, j] > 0:
                    dqx = (old[i, j] - old[i, j - 1]) / dx
                else:
                    dqx = (old[i, j + 1] - old[i, j]) / dx
                if v[i, j] > 0:
                    dqy = (old[i, j] - old[i - 1, j]) / dx
                else:
                    dqy = (old[i + 1, j] - old[i, j]) / dx
                q[i, j] = old[i, j] - dt * (u[i, j] * dqx + v[i, j] * dqy)


def running_means(x, a, b):
    """Exponential means of many channels."""
    # exponential moving averages of many channels
    T, D = x.shape
    s = np.zeros(D)
    y = np.zeros((T, D))
    for t in range(T):
        for d in range(D):
            s[d] = a[d] * s[d] + b[d] * x[t, d]
            y[t, d] = s[d]
    return y
