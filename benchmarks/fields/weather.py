"""Weather and climate."""

import math

import numpy as np

from . import Kernel


def shallow_water(h, u, v, gravity, coriolis, drag, dt, dx, steps):
    """Linear waves on a rotating plane, on a grid of the kind C of Arakawa, periodic in x, with walls in y."""
    n, m = h.shape
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                east = (j + 1) % m
                flow = u[i, east] - u[i, j] + v[i + 1, j] - v[i, j]
                h[i, j] -= dt / dx * 100.0 * flow
        for i in range(n):
            for j in range(m):
                west = (j - 1) % m
                across = 0.25 * (v[i, j] + v[i + 1, j] + v[i, west] + v[i + 1, west])
                slope = gravity * (h[i, j] - h[i, west]) / dx
                u[i, j] += dt * (coriolis[i] * across - slope - drag * u[i, j])
        for i in range(1, n):
            for j in range(m):
                east = (j + 1) % m
                across = 0.25 * (u[i, j] + u[i, east] + u[i - 1, j] + u[i - 1, east])
                slope = gravity * (h[i, j] - h[i - 1, j]) / dx
                v[i, j] -= dt * (0.5 * (coriolis[i] + coriolis[i - 1]) * across + slope + drag * v[i, j])
    return np.sum(h * h)


def lorenz96_slope(x, force):
    n = x.size
    slope = np.empty(n)
    for i in range(n):
        slope[i] = (x[(i + 1) % n] - x[i - 2]) * x[i - 1] - x[i] + force
    return slope


def assimilation(x, observed, background, force, dt, every):
    """The misfit of a forecast (Lorenz 1996, Runge-Kutta) to observations, and of its start to a background."""
    cost = 0.5 * np.sum((x - background) ** 2)
    for t in range(observed.shape[0]):
        for _ in range(every):
            k1 = lorenz96_slope(x, force)
            k2 = lorenz96_slope(x + 0.5 * dt * k1, force)
            k3 = lorenz96_slope(x + 0.5 * dt * k2, force)
            k4 = lorenz96_slope(x + dt * k3, force)
            x = x + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        cost += 0.5 * np.sum((x - observed[t]) ** 2)
    return cost


def semi_lagrangian(q, u, v, dt, steps):
    """A tracer is carried from where the wind comes from, with bilinear interpolation in a periodic box."""
    n, m = q.shape
    new = np.empty((n, m))
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                y = i - dt * v[i, j]
                x = j - dt * u[i, j]
                row = math.floor(y)
                column = math.floor(x)
                fy = y - row
                fx = x - column
                i0 = row % n
                i1 = (row + 1) % n
                j0 = column % m
                j1 = (column + 1) % m
                low = (1.0 - fx) * q[i0, j0] + fx * q[i0, j1]
                high = (1.0 - fx) * q[i1, j0] + fx * q[i1, j1]
                new[i, j] = (1.0 - fy) * low + fy * high
        q, new = new, q
    return np.sum(q * q)


def horizontal_diffusion(field, coefficient):
    """Diffusion of fourth order on each level, with fluxes only down the gradient."""
    laplacian = 4.0 * field[:, 1:-1, 1:-1] - (
        field[:, 2:, 1:-1] + field[:, :-2, 1:-1] + field[:, 1:-1, 2:] + field[:, 1:-1, :-2]
    )
    inner = field[:, 1:-1, 1:-1]
    along = laplacian[:, 1:, 1:-1] - laplacian[:, :-1, 1:-1]
    along = np.where(along * (inner[:, 1:, 1:-1] - inner[:, :-1, 1:-1]) > 0.0, 0.0, along)
    across = laplacian[:, 1:-1, 1:] - laplacian[:, 1:-1, :-1]
    across = np.where(across * (inner[:, 1:-1, 1:] - inner[:, 1:-1, :-1]) > 0.0, 0.0, across)
    out = inner[:, 1:-1, 1:-1] - coefficient * (along[:, 1:] - along[:, :-1] + across[:, :, 1:] - across[:, :, :-1])
    return np.sum(out * out)


def _water(rng, n, steps):
    h, u, v = rng.normal(size=(n, n)), rng.normal(size=(n, n)), np.zeros((n + 1, n))
    v[1:-1] = rng.normal(size=(n - 1, n))
    return h, u, v, 9.81, np.linspace(1e-4, 2e-4, n), 1e-5, 10.0, 1000.0, steps


def _forecast(rng, n, times):
    return rng.normal(size=n), rng.normal(size=(times, n)), rng.normal(size=n), 8.0, 0.01, 5


def _levels(rng, n):
    return rng.normal(size=(max(2, n // 4), n, n)), rng.uniform(0.01, 0.03, (max(2, n // 4), n - 4, n - 4))


KERNELS = [
    Kernel(shallow_water, _water, (100, 50), (5, 3)),
    Kernel(assimilation, _forecast, (200, 40), (6, 2)),
    Kernel(semi_lagrangian, lambda rng, n, steps: (*rng.normal(size=(3, n, n)), 1.5, steps), (100, 30), (5, 3)),
    Kernel(horizontal_diffusion, _levels, (100,), (8,)),
]
