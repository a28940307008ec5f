"""Adjoints of six kernels, written by hand: each returns the value and the gradients, in the order of the parameters.

They store little, and go over arrays as rarely as they can.
"""

import math

import numpy as np
from numba import njit

njit = njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"})


@njit
def gemver(alpha, beta, a, u1, v1, u2, v2, y, z):
    n = y.size
    x = z.copy()
    w = np.empty(n)
    for i in range(n):
        for j in range(n):
            a[i, j] += u1[i] * v1[j] + u2[i] * v2[j]
            x[j] += beta * a[i, j] * y[i]
    x_bar = np.zeros(n)
    value = 0.0
    for i in range(n):
        s = 0.0
        for j in range(n):
            s += a[i, j] * x[j]
        w[i] = alpha * s
        value += w[i] * w[i]
        g = 2.0 * w[i] * alpha
        for j in range(n):
            x_bar[j] += g * a[i, j]
    a_bar = np.empty((n, n))
    u1_bar, u2_bar, y_bar = np.empty(n), np.empty(n), np.empty(n)
    v1_bar, v2_bar = np.zeros(n), np.zeros(n)
    for i in range(n):
        first, second = 2.0 * w[i] * alpha, beta * y[i]
        s1 = s2 = s = 0.0
        for j in range(n):
            g = first * x[j] + second * x_bar[j]
            a_bar[i, j] = g
            s1 += g * v1[j]
            s2 += g * v2[j]
            s += a[i, j] * x_bar[j]
            v1_bar[j] += g * u1[i]
            v2_bar[j] += g * u2[i]
        u1_bar[i], u2_bar[i], y_bar[i] = s1, s2, beta * s
    beta_bar = np.sum(x_bar * (x - z)) / beta
    return value, (2.0 * value / alpha, beta_bar, a_bar, u1_bar, v1_bar, u2_bar, v2_bar, y_bar, x_bar)


@njit
def lu(a):
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    a_bar = 2.0 * a
    for k in range(n - 1, -1, -1):
        for i in range(k + 1, n):
            s = a_bar[i, k]
            factor = a[i, k]
            for j in range(k + 1, n):
                s -= a_bar[i, j] * a[k, j]
                a_bar[k, j] -= a_bar[i, j] * factor
            s /= a[k, k]
            a_bar[i, k] = s
            a_bar[k, k] -= s * factor
    return np.sum(a * a), (a_bar,)


@njit
def seidel_2d(a, steps):
    n, m = a.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                above = a[i - 1, j - 1] + a[i - 1, j] + a[i - 1, j + 1]
                below = a[i + 1, j - 1] + a[i + 1, j] + a[i + 1, j + 1]
                a[i, j] = (above + a[i, j - 1] + a[i, j] + a[i, j + 1] + below) / 9.0
    bar = 2.0 * a
    row = np.zeros(m)
    for _ in range(steps):
        for i in range(n - 2, 0, -1):
            g = 0.0
            for j in range(m - 2, 0, -1):
                g = (bar[i, j] + g) / 9.0
                row[j] = g
            bar[i, 0] += row[1]
            bar[i, 1] = row[1]
            for j in range(2, m - 1):
                bar[i, j] = row[j] + row[j - 1]
            bar[i, m - 1] += row[m - 2]
            for k in (i - 1, i + 1):
                bar[k, 0] += row[1]
                for j in range(1, m - 1):
                    bar[k, j] += row[j - 1] + row[j] + row[j + 1]
                bar[k, m - 1] += row[m - 2]
    return np.sum(a * a), (bar,)


@njit
def half_of_jacobi(to, u):
    n, m = u.shape
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            to[i, j] = 0.2 * (u[i, j] + u[i, j - 1] + u[i, j + 1] + u[i + 1, j] + u[i - 1, j])


@njit
def edges_of_jacobi(to_bar, u):
    """What the edges get; the edges of `u` are 0."""
    n, m = u.shape
    for j in range(1, m - 1):
        to_bar[0, j] += 0.2 * u[1, j]
        to_bar[n - 1, j] += 0.2 * u[n - 2, j]
    for i in range(1, n - 1):
        to_bar[i, 0] += 0.2 * u[i, 1]
        to_bar[i, m - 1] += 0.2 * u[i, m - 2]


@njit
def jacobi_2d(a, b, steps):
    n, m = a.shape
    for _ in range(steps):
        half_of_jacobi(b, a)
        half_of_jacobi(a, b)
    a_bar, b_bar = 2.0 * a, np.zeros((n, m))
    u, v = np.zeros((n, m)), np.zeros((n, m))
    u[1:-1, 1:-1] = a_bar[1:-1, 1:-1]
    for _ in range(steps):
        half_of_jacobi(v, u)
        edges_of_jacobi(b_bar, u)
        half_of_jacobi(u, v)
        edges_of_jacobi(a_bar, v)
    a_bar[1:-1, 1:-1] = u[1:-1, 1:-1]
    return np.sum(a * a), (a_bar, b_bar)


@njit
def american_put(spot, strike, rate, volatility, maturity, steps):
    dt = maturity / steps
    up = math.exp(volatility * math.sqrt(dt))
    discount = math.exp(-rate * dt)
    growth = math.exp(rate * dt)
    p = (growth - 1.0 / up) / (up - 1.0 / up)
    value = np.empty((steps + 1, steps + 1))
    for i in range(steps + 1):
        value[steps, i] = max(strike - spot * up ** (2 * i - steps), 0.0)
    for t in range(steps - 1, -1, -1):
        price = spot * up ** (-t)
        for i in range(t + 1):
            value[t, i] = max(discount * (p * value[t + 1, i + 1] + (1.0 - p) * value[t + 1, i]), strike - price)
            price *= up * up
    bar = np.zeros(steps + 2)
    bar[0] = 1.0
    spot_bar = strike_bar = up_bar = p_bar = discount_bar = 0.0
    for t in range(steps):
        price = spot * up ** (-t)
        below = 0.0  # what the node above gets from this level
        for i in range(t + 1):
            low, high = value[t + 1, i], value[t + 1, i + 1]
            mean = p * high + (1.0 - p) * low
            g = bar[i]
            bar[i] = below
            below = 0.0
            if strike - price > discount * mean:
                strike_bar += g
                spot_bar -= g * price
                up_bar -= g * price * (2 * i - t)
            else:
                discount_bar += g * mean
                g *= discount
                p_bar += g * (high - low)
                bar[i] += g * (1.0 - p)
                below = g * p
            price *= up * up
        bar[t + 1] = below
    for i in range(steps + 1):
        if value[steps, i] > 0.0:
            price = strike - value[steps, i]
            strike_bar += bar[i]
            spot_bar -= bar[i] * price
            up_bar -= bar[i] * price * (2 * i - steps)
    spot_bar /= spot
    up_bar /= up
    p_bar /= up - 1.0 / up
    up_bar += p_bar * (1.0 / up**2 - p * (1.0 + 1.0 / up**2))
    growth_bar = p_bar * growth - discount_bar * discount
    root = math.sqrt(dt)
    volatility_bar = up_bar * up * root
    dt_bar = growth_bar * rate + up_bar * up * volatility * 0.5 / root
    return value[0, 0], (spot_bar, strike_bar, growth_bar * dt, volatility_bar, dt_bar / steps)


@njit
def garch(returns, omega, alpha, beta):
    n = returns.size
    variances = np.empty(n)
    variance = omega / (1.0 - alpha - beta)
    total = 0.0
    for t in range(n):
        variances[t] = variance
        square = returns[t] * returns[t]
        total -= 0.5 * (math.log(2.0 * math.pi) + math.log(variance) + square / variance)
        variance = omega + alpha * square + beta * variance
    returns_bar = np.empty(n)
    omega_bar = alpha_bar = beta_bar = g = 0.0
    for t in range(n - 1, -1, -1):
        variance, r = variances[t], returns[t]
        omega_bar += g
        alpha_bar += g * r * r
        beta_bar += g * variance
        inverse = 1.0 / variance
        returns_bar[t] = 2.0 * r * (g * alpha - 0.5 * inverse)
        g = g * beta - 0.5 * inverse * (1.0 - r * r * inverse)
    rest = 1.0 / (1.0 - alpha - beta)
    long_run = g * omega * rest * rest
    return total, (returns_bar, omega_bar + g * rest, alpha_bar + long_run, beta_bar + long_run)


BY_HAND = {
    "gemver": gemver,
    "lu": lu,
    "seidel-2d": seidel_2d,
    "jacobi-2d": jacobi_2d,
    "american-put": american_put,
    "garch": garch,
}
