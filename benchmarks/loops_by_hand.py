"""Adjoints written by hand, to measure generated ones against. Each returns what its function does, and adds gradients
to the arrays named ``..._bar``."""

import math

import numpy as np
from numba import njit

njit = njit(nogil=True, error_model="numpy")


@njit
def heat(u, conductivity, dt, steps, u_bar, conductivity_bar):
    n, m, p = u.shape
    levels = np.empty((steps + 1, n, m, p))
    levels[0] = u
    levels[1:, 0], levels[1:, n - 1] = u[0], u[n - 1]
    levels[1:, :, 0], levels[1:, :, m - 1] = u[:, 0], u[:, m - 1]
    levels[1:, :, :, 0], levels[1:, :, :, p - 1] = u[:, :, 0], u[:, :, p - 1]
    for t in range(steps):
        v = levels[t]
        w = levels[t + 1]
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                for k in range(1, p - 1):
                    flow = v[i - 1, j, k] + v[i + 1, j, k] + v[i, j - 1, k] + v[i, j + 1, k]
                    flow += v[i, j, k - 1] + v[i, j, k + 1] - 6.0 * v[i, j, k]
                    w[i, j, k] = v[i, j, k] + dt * conductivity[i, j, k] * flow
    u[:] = levels[steps]
    dt_bar = 0.0
    new_bar = np.zeros_like(u)
    for t in range(steps - 1, -1, -1):
        v = levels[t]
        new_bar[:] = u_bar
        u_bar[1 : n - 1, 1 : m - 1, 1 : p - 1] = 0.0
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                for k in range(1, p - 1):
                    g = new_bar[i, j, k]
                    flow = v[i - 1, j, k] + v[i + 1, j, k] + v[i, j - 1, k] + v[i, j + 1, k]
                    flow += v[i, j, k - 1] + v[i, j, k + 1] - 6.0 * v[i, j, k]
                    dt_bar += g * conductivity[i, j, k] * flow
                    conductivity_bar[i, j, k] += g * dt * flow
                    flow_bar = g * dt * conductivity[i, j, k]
                    u_bar[i, j, k] += g - 6.0 * flow_bar
                    u_bar[i - 1, j, k] += flow_bar
                    u_bar[i + 1, j, k] += flow_bar
                    u_bar[i, j - 1, k] += flow_bar
                    u_bar[i, j + 1, k] += flow_bar
                    u_bar[i, j, k - 1] += flow_bar
                    u_bar[i, j, k + 1] += flow_bar
    return (dt_bar,)


@njit
def thomas(lower, diagonal, upper, right, x, lower_bar, diagonal_bar, upper_bar, right_bar, x_bar):
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
    c_bar = np.empty(n)
    d_bar = np.empty(n)
    carried = 0.0
    for i in range(n - 1):
        g = x_bar[i] + carried
        x_bar[i] = 0.0
        d_bar[i] = g
        c_bar[i] = -g * x[i + 1]
        carried = -g * c[i]
    d_bar[n - 1] = x_bar[n - 1] + carried
    x_bar[n - 1] = 0.0
    c_bar[n - 1] = 0.0
    for i in range(n - 1, 0, -1):
        over = 1.0 / (diagonal[i] - lower[i] * c[i - 1])
        g = d_bar[i] * over
        h = c_bar[i] * over
        pivot_bar = -g * d[i] - h * c[i]
        right_bar[i] += g
        upper_bar[i] += h
        diagonal_bar[i] += pivot_bar
        lower_bar[i] -= g * d[i - 1] + pivot_bar * c[i - 1]
        d_bar[i - 1] -= g * lower[i]
        c_bar[i - 1] -= pivot_bar * lower[i]
    right_bar[0] += d_bar[0] / diagonal[0]
    upper_bar[0] += c_bar[0] / diagonal[0]
    diagonal_bar[0] -= (d_bar[0] * d[0] + c_bar[0] * c[0]) / diagonal[0]


@njit
def soft_dtw(x, y, gamma, result_bar, x_bar, y_bar):
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
    r_bar = np.zeros((n + 1, m + 1))
    r_bar[n, m] = result_bar
    gamma_bar = 0.0
    for i in range(n, 0, -1):
        for j in range(m, 0, -1):
            g = r_bar[i, j]
            difference = x[i - 1] - y[j - 1]
            x_bar[i - 1] += 2.0 * g * difference
            y_bar[j - 1] -= 2.0 * g * difference
            a = r[i - 1, j - 1]
            b = r[i - 1, j]
            c = r[i, j - 1]
            low = min(a, b, c)
            p = math.exp((low - a) / gamma)
            q = math.exp((low - b) / gamma)
            s = math.exp((low - c) / gamma)
            total = p + q + s
            r_bar[i - 1, j - 1] += g * p / total
            r_bar[i - 1, j] += g * q / total
            r_bar[i, j - 1] += g * s / total
            gamma_bar -= g * (math.log(total) - (p * (low - a) + q * (low - b) + s * (low - c)) / (total * gamma))
    return r[n, m], gamma_bar


@njit
def pairwise(position, cutoff, energy_bar, position_bar):
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
                force = energy_bar * (24.0 * s - 48.0 * s * s) / r2
                position_bar[i, 0] += force * dx
                position_bar[i, 1] += force * dy
                position_bar[i, 2] += force * dz
                position_bar[j, 0] -= force * dx
                position_bar[j, 1] -= force * dy
                position_bar[j, 2] -= force * dz
    return (energy,)
