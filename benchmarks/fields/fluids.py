"""Dynamics of fluids."""

import math

import numpy as np

from . import Kernel


def cavity(u, v, p, speed, viscosity, dt, dx, steps, sweeps):
    """A lid that drives a cavity: projection of the velocity, with Jacobi's method for the pressure."""
    for _ in range(steps):
        un = u.copy()
        vn = v.copy()
        c = un[1:-1, 1:-1]
        u[1:-1, 1:-1] = (
            c
            - c * dt / dx * (c - un[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / dx * (c - un[:-2, 1:-1])
            + viscosity * dt / dx**2 * (un[1:-1, 2:] + un[1:-1, :-2] + un[2:, 1:-1] + un[:-2, 1:-1] - 4.0 * c)
        )
        c = vn[1:-1, 1:-1]
        v[1:-1, 1:-1] = (
            c
            - un[1:-1, 1:-1] * dt / dx * (c - vn[1:-1, :-2])
            - c * dt / dx * (c - vn[:-2, 1:-1])
            + viscosity * dt / dx**2 * (vn[1:-1, 2:] + vn[1:-1, :-2] + vn[2:, 1:-1] + vn[:-2, 1:-1] - 4.0 * c)
        )
        source = 0.5 / dx * (u[1:-1, 2:] - u[1:-1, :-2] + v[2:, 1:-1] - v[:-2, 1:-1]) / dt
        for _ in range(sweeps):
            pn = p.copy()
            around = pn[1:-1, 2:] + pn[1:-1, :-2] + pn[2:, 1:-1] + pn[:-2, 1:-1]
            p[1:-1, 1:-1] = 0.25 * (around - dx * dx * source)
            p[:, -1] = p[:, -2]
            p[:, 0] = p[:, 1]
            p[0, :] = p[1, :]
            p[-1, :] = 0.0
        u[1:-1, 1:-1] -= 0.5 * dt / dx * (p[1:-1, 2:] - p[1:-1, :-2])
        v[1:-1, 1:-1] -= 0.5 * dt / dx * (p[2:, 1:-1] - p[:-2, 1:-1])
        u[-1, :] = speed
    return 0.5 * np.sum(u * u + v * v)


def burgers_2d(u, v, viscosity, dt, dx, steps):
    """Burgers' equation, upwind whatever the sign of the velocity."""
    n, m = u.shape
    un = np.empty((n, m))
    vn = np.empty((n, m))
    for _ in range(steps):
        un[:] = u
        vn[:] = v
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                a = un[i, j]
                b = vn[i, j]
                ux = un[i, j] - un[i, j - 1] if a > 0.0 else un[i, j + 1] - un[i, j]
                uy = un[i, j] - un[i - 1, j] if b > 0.0 else un[i + 1, j] - un[i, j]
                vx = vn[i, j] - vn[i, j - 1] if a > 0.0 else vn[i, j + 1] - vn[i, j]
                vy = vn[i, j] - vn[i - 1, j] if b > 0.0 else vn[i + 1, j] - vn[i, j]
                du = un[i, j - 1] + un[i, j + 1] + un[i - 1, j] + un[i + 1, j] - 4.0 * un[i, j]
                dv = vn[i, j - 1] + vn[i, j + 1] + vn[i - 1, j] + vn[i + 1, j] - 4.0 * vn[i, j]
                u[i, j] = a + dt * (viscosity * du / dx**2 - (a * ux + b * uy) / dx)
                v[i, j] = b + dt * (viscosity * dv / dx**2 - (a * vx + b * vy) / dx)
    return np.sum(u * u + v * v)


def lattice_boltzmann(f, tau, force, steps):
    """Nine velocities (D2Q9), collisions after Bhatnagar, Gross and Krook, in a periodic box with a force along x."""
    ex = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
    ey = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
    w = np.array([4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36])
    _, n, m = f.shape
    moved = np.empty_like(f)
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                density = 0.0
                x = 0.0
                y = 0.0
                for q in range(9):
                    density += f[q, i, j]
                    x += ex[q] * f[q, i, j]
                    y += ey[q] * f[q, i, j]
                x = x / density + force[i, j] * tau
                y = y / density
                square = 1.5 * (x * x + y * y)
                for q in range(9):
                    along = 3.0 * (ex[q] * x + ey[q] * y)
                    balance = w[q] * density * (1.0 + along + 0.5 * along * along - square)
                    moved[q, (i + ey[q]) % n, (j + ex[q]) % m] = f[q, i, j] + (balance - f[q, i, j]) / tau
        f, moved = moved, f
    energy = 0.0
    for i in range(n):
        for j in range(m):
            x = 0.0
            for q in range(9):
                x += ex[q] * f[q, i, j]
            energy += x * x
    return energy


def euler_flux(density, momentum, energy, gamma):
    """The fluxes of mass, momentum and energy, and the fastest wave."""
    velocity = momentum / density
    pressure = (gamma - 1.0) * (energy - 0.5 * momentum * velocity)
    speed = abs(velocity) + math.sqrt(gamma * pressure / density)
    return momentum, momentum * velocity + pressure, velocity * (energy + pressure), speed


def shock_tube(density, momentum, energy, gamma, ratio, steps):
    """Euler's equations in one dimension, with the flux of Lax and Rusanov."""
    n = density.size
    flux = np.zeros((3, n - 1))
    for _ in range(steps):
        for i in range(n - 1):
            f0, f1, f2, left = euler_flux(density[i], momentum[i], energy[i], gamma)
            g0, g1, g2, right = euler_flux(density[i + 1], momentum[i + 1], energy[i + 1], gamma)
            fastest = max(left, right)
            flux[0, i] = 0.5 * (f0 + g0 - fastest * (density[i + 1] - density[i]))
            flux[1, i] = 0.5 * (f1 + g1 - fastest * (momentum[i + 1] - momentum[i]))
            flux[2, i] = 0.5 * (f2 + g2 - fastest * (energy[i + 1] - energy[i]))
        for i in range(1, n - 1):
            density[i] -= ratio * (flux[0, i] - flux[0, i - 1])
            momentum[i] -= ratio * (flux[1, i] - flux[1, i - 1])
            energy[i] -= ratio * (flux[2, i] - flux[2, i - 1])
    return np.sum(momentum * momentum / density)


def _cavity(rng, n, steps, sweeps):
    return (*rng.normal(size=(3, n, n)) * 0.1, 1.0, 0.1, 0.001, 2.0 / n, steps, sweeps)


def _boltzmann(rng, n, steps):
    return 0.1 * rng.uniform(0.9, 1.1, (9, n, n)), 0.8, 1e-3 * rng.normal(size=(n, n)), steps


def _tube(rng, n, steps):
    return rng.uniform(1.0, 1.2, n), 0.1 * rng.normal(size=n), rng.uniform(2.5, 3.0, n), 1.4, 0.2, steps


KERNELS = [
    Kernel(cavity, _cavity, (64, 20, 10), (6, 2, 2)),
    Kernel(burgers_2d, lambda rng, n, steps: (*rng.normal(size=(2, n, n)), 0.1, 0.01, 0.2, steps), (100, 40), (6, 3)),
    Kernel(lattice_boltzmann, _boltzmann, (64, 20), (4, 2)),
    Kernel(shock_tube, _tube, (500, 200), (8, 3)),
]
