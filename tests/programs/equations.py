"""Equations in space and time, step by step."""

import math

import numpy as np

from .data import normal, positive


def burgers(u, nu, dx, dt, steps):
    """Upwind differences, whole-array expressions, the previous values in a copy."""
    for _ in range(steps):
        un = u.copy()
        u[1:-1] = (
            un[1:-1] - un[1:-1] * dt / dx * (un[1:-1] - un[:-2]) + nu * dt / dx**2 * (un[2:] - 2 * un[1:-1] + un[:-2])
        )
        u[0] = un[0] - un[0] * dt / dx * (un[0] - un[-2]) + nu * dt / dx**2 * (un[1] - 2 * un[0] + un[-2])
        u[-1] = u[0]


def heat_new_arrays(T, alpha, dt, nt):
    """A new array per step, which takes the old one's name."""
    T = T.copy()
    for _ in range(nt):
        Tn = np.empty_like(T)
        Tn[0] = T[0]
        Tn[-1] = T[-1]
        for i in range(1, len(T) - 1):
            Tn[i] = T[i] + alpha * dt * (T[i - 1] - 2.0 * T[i] + T[i + 1])
        T = Tn
    return T


def laplace(p, tol, limit):
    """Jacobi sweeps until the change is small."""
    change = 1.0
    count = 0
    while change > tol and count < limit:
        old = p.copy()
        p[1:-1, 1:-1] = 0.25 * (old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1])
        p[:, -1] = p[:, -2]
        change = np.max(np.abs(p - old))
        count += 1
    return np.sum(p * p), count


def red_black(u, f, sweeps):
    """Gauss-Seidel over odd and even points, by slices with steps."""
    for _ in range(sweeps):
        u[1:-1:2] = 0.5 * (u[0:-2:2] + u[2::2] - f[1:-1:2])
        u[2:-1:2] = 0.5 * (u[1:-2:2] + u[3::2] - f[2:-1:2])
    return np.sqrt(np.mean(u**2))


def shallow_water(h, u, g, dx, dt, steps):
    """Fluxes in local arrays, a staggered grid."""
    n = h.size
    flux = np.zeros(n + 1)
    for _ in range(steps):
        for i in range(1, n):
            up = h[i - 1] if u[i] > 0.0 else h[i]
            flux[i] = u[i] * up
        for i in range(n):
            h[i] -= dt / dx * (flux[i + 1] - flux[i])
        for i in range(1, n):
            u[i] -= dt * g / dx * (h[i] - h[i - 1]) + dt * 0.01 * u[i] * abs(u[i])
    return h.max()


def lattice_boltzmann(f, tau, steps):
    """D1Q3: collision and streaming, arrays of three populations."""
    w = np.array([2.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0])
    c = np.array([0, 1, -1])
    nx = f.shape[1]
    new = np.empty_like(f)
    for _ in range(steps):
        for x in range(nx):
            rho = 0.0
            mom = 0.0
            for q in range(3):
                rho += f[q, x]
                mom += f[q, x] * c[q]
            vel = mom / rho
            for q in range(3):
                cu = c[q] * vel
                eq = w[q] * rho * (1.0 + 3.0 * cu + 4.5 * cu * cu - 1.5 * vel * vel)
                new[q, (x + c[q]) % nx] = f[q, x] - (f[q, x] - eq) / tau
        f, new = new, f
    return f.sum(axis=1), np.dot(f[1], f[2])


def advection_limiter(u, c, steps):
    def minmod(a, b):
        if a * b <= 0.0:
            return 0.0
        return a if abs(a) < abs(b) else b

    n = len(u)
    for _ in range(steps):
        flux = np.zeros(n + 1)
        for i in range(1, n - 2):
            slope = minmod(u[i] - u[i - 1], u[i + 1] - u[i])
            flux[i + 1] = c * (u[i] + 0.5 * (1.0 - c) * slope)
        u[2:-2] -= flux[3:-2] - flux[2:-3]


def wave(u, v, c2, n):
    """Leapfrog with three levels that change places."""
    a, b = u.copy(), v.copy()
    w = np.zeros_like(u)
    for _ in range(n):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                w[i, j] = (
                    2.0 * b[i, j]
                    - a[i, j]
                    + c2[i, j] * (b[i + 1, j] + b[i - 1, j] + b[i, j + 1] + b[i, j - 1] - 4.0 * b[i, j])
                )
        a, b, w = b, w, a
    return np.mean(b**2)


def euler(rho, mom, ene, gamma, c, steps):
    """A gas, with the fluxes of Harten, Lax and van Leer."""
    n = rho.size
    mass, force, work = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1)
    for _ in range(steps):
        for i in range(1, n):
            rl, rr = rho[i - 1], rho[i]
            ul, ur = mom[i - 1] / rl, mom[i] / rr
            pl = (gamma - 1.0) * (ene[i - 1] - 0.5 * rl * ul * ul)
            pr = (gamma - 1.0) * (ene[i] - 0.5 * rr * ur * ur)
            cl, cr = math.sqrt(gamma * pl / rl), math.sqrt(gamma * pr / rr)
            a, b = min(ul - cl, ur - cr), max(ul + cl, ur + cr)
            if a >= 0.0:
                mass[i] = rl * ul
                force[i] = rl * ul * ul + pl
                work[i] = ul * (ene[i - 1] + pl)
            elif b <= 0.0:
                mass[i] = rr * ur
                force[i] = rr * ur * ur + pr
                work[i] = ur * (ene[i] + pr)
            else:
                mass[i] = (b * rl * ul - a * rr * ur + a * b * (rr - rl)) / (b - a)
                force[i] = (b * (rl * ul * ul + pl) - a * (rr * ur * ur + pr) + a * b * (mom[i] - mom[i - 1])) / (b - a)
                work[i] = (b * ul * (ene[i - 1] + pl) - a * ur * (ene[i] + pr) + a * b * (ene[i] - ene[i - 1])) / (
                    b - a
                )
        for i in range(1, n - 1):
            rho[i] -= c * (mass[i + 1] - mass[i])
            mom[i] -= c * (force[i + 1] - force[i])
            ene[i] -= c * (work[i + 1] - work[i])
    return np.sum(rho * rho) + np.sum(ene)


PROGRAMS = {
    burgers: (normal(9), 0.07, 0.3, 0.02, 4),
    heat_new_arrays: (normal(8), 0.3, 0.4, 4),
    laplace: (normal(5, 6), 1e-2, 7),
    red_black: (normal(9), normal(9), 3),
    shallow_water: (positive(6), 0.3 * normal(6), 9.81, 1.0, 0.05, 4),
    lattice_boltzmann: (positive(3, 5), 0.8, 3),
    advection_limiter: (normal(9), 0.4, 3),
    wave: (normal(5, 5), normal(5, 5), 0.2 * positive(5, 5), 4),
    euler: (positive(7), 0.5 * normal(7), 3.0 * positive(7), 1.4, 0.05, 3),
}
