"""Stencils and steps in time, as they are written in many fields."""

import numpy as np

rng = np.random.default_rng(3)
normal, positive = (lambda *shape: rng.normal(size=shape)), (lambda *shape: 1.0 + rng.random(shape))


def upwind(u, c, dt, dx, steps):
    """Advection to the right, in place, from the right end."""
    for _ in range(steps):
        for i in range(u.size - 1, 0, -1):
            u[i] -= c * dt / dx * (u[i] - u[i - 1])


def upwind_copies(u, speed, ratio, steps):
    """Advection with speeds of both signs; the old values are in an array of their own."""
    old = np.empty_like(u)
    for _ in range(steps):
        for i in range(u.size):
            old[i] = u[i]
        for i in range(1, u.size - 1):
            if speed[i] > 0.0:
                u[i] = old[i] - ratio * speed[i] * (old[i] - old[i - 1])
            else:
                u[i] = old[i] - ratio * speed[i] * (old[i + 1] - old[i])
    return np.sum(u**2)


def diffusion(u, kappa, dt, steps):
    """Heat in two dimensions; how well it is conducted differs from place to place."""
    new = u.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                new[i, j] = u[i, j] + dt * (
                    0.5 * (kappa[i + 1, j] + kappa[i, j]) * (u[i + 1, j] - u[i, j])
                    - 0.5 * (kappa[i, j] + kappa[i - 1, j]) * (u[i, j] - u[i - 1, j])
                    + 0.5 * (kappa[i, j + 1] + kappa[i, j]) * (u[i, j + 1] - u[i, j])
                    - 0.5 * (kappa[i, j] + kappa[i, j - 1]) * (u[i, j] - u[i, j - 1])
                )
        u, new = new, u
    return u


def heat_2d(u, alpha, steps):
    """Heat in two dimensions, with one conductivity per place."""
    new = u.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                around = u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1]
                new[i, j] = u[i, j] + alpha[i, j] * (around - 4.0 * u[i, j])
        u, new = new, u
    return u


def gray_scott_periodic(u, v, du, dv, feed, kill, steps):
    """Reaction and diffusion of two substances, periodic by %."""
    n, m = u.shape
    u2, v2 = np.empty_like(u), np.empty_like(v)
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                lu = u[(i + 1) % n, j] + u[(i - 1) % n, j] + u[i, (j + 1) % m] + u[i, (j - 1) % m] - 4.0 * u[i, j]
                lv = v[(i + 1) % n, j] + v[(i - 1) % n, j] + v[i, (j + 1) % m] + v[i, (j - 1) % m] - 4.0 * v[i, j]
                r = u[i, j] * v[i, j] * v[i, j]
                u2[i, j] = u[i, j] + du * lu - r + feed * (1.0 - u[i, j])
                v2[i, j] = v[i, j] + dv * lv + r - (feed + kill) * v[i, j]
        u, u2 = u2, u
        v, v2 = v2, v
    return u, v


def gray_scott_box(u, v, du, dv, feed, kill, steps):
    """The same in a box whose walls do not change."""
    u2, v2 = u.copy(), v.copy()
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                lu = u[i + 1, j] + u[i - 1, j] + u[i, j + 1] + u[i, j - 1] - 4.0 * u[i, j]
                lv = v[i + 1, j] + v[i - 1, j] + v[i, j + 1] + v[i, j - 1] - 4.0 * v[i, j]
                r = u[i, j] * v[i, j] * v[i, j]
                u2[i, j] = u[i, j] + du * lu - r + feed * (1.0 - u[i, j])
                v2[i, j] = v[i, j] + dv * lv + r - (feed + kill) * v[i, j]
        u, u2 = u2, u
        v, v2 = v2, v
    return u, v


def maxwell(e, h, eps, steps):
    """FDTD in one dimension, with a source."""
    for t in range(steps):
        for i in range(h.size):
            h[i] += 0.5 * (e[i + 1] - e[i])
        for i in range(1, e.size - 1):
            e[i] += 0.5 / eps[i] * (h[i] - h[i - 1])
        e[e.size // 2] += np.exp(-(((t - 30.0) / 10.0) ** 2))
    return np.sum(e**2)


def maxwell_2d(ez, hx, hy, ce, steps):
    """FDTD in two dimensions, transverse magnetic, a staggered grid."""
    n, m = ez.shape
    for _ in range(steps):
        for i in range(n):
            for j in range(m - 1):
                hx[i, j] -= 0.5 * (ez[i, j + 1] - ez[i, j])
        for i in range(n - 1):
            for j in range(m):
                hy[i, j] += 0.5 * (ez[i + 1, j] - ez[i, j])
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                ez[i, j] += ce[i, j] * (hy[i, j] - hy[i - 1, j] - hx[i, j] + hx[i, j - 1])


def crank_nicolson(u, r, steps):
    """Implicit steps, a tridiagonal system each."""
    n = u.size
    d, c = np.empty(n), np.empty(n)
    for _ in range(steps):
        d[0] = u[0]
        c[0] = 0.0
        for i in range(1, n - 1):
            right = u[i] + 0.5 * r * (u[i + 1] - 2.0 * u[i] + u[i - 1])
            m = 1.0 + r + 0.5 * r * c[i - 1]
            c[i] = -0.5 * r / m
            d[i] = (right + 0.5 * r * d[i - 1]) / m
        for i in range(n - 2, 0, -1):
            u[i] = d[i] - c[i] * u[i + 1]
    return u


def lax_wendroff(u, nu, steps):
    """Advection with periodic ends by np.roll."""
    for _ in range(steps):
        right, left = np.roll(u, -1), np.roll(u, 1)
        u = u - 0.5 * nu * (right - left) + 0.5 * nu**2 * (right - 2.0 * u + left)
    return u


def kuramoto_sivashinsky(u, dt, dx, steps):
    """Finite differences of fourth order, periodic by %."""
    n = u.size
    new = np.empty_like(u)
    for _ in range(steps):
        for i in range(n):
            a, b, c, d = u[(i - 2) % n], u[(i - 1) % n], u[(i + 1) % n], u[(i + 2) % n]
            second = (c - 2.0 * u[i] + b) / dx**2
            fourth = (d - 4.0 * c + 6.0 * u[i] - 4.0 * b + a) / dx**4
            new[i] = u[i] - dt * (second + fourth + u[i] * (c - b) / (2.0 * dx))
        u[:] = new


def burgers_flux(u, nu, dt, dx, steps):
    """Conservative Burgers: the fluxes in an array, then the differences."""
    n = u.size
    f = np.zeros(n + 1)
    for _ in range(steps):
        for i in range(1, n):
            f[i] = 0.25 * (u[i] ** 2 + u[i - 1] ** 2) - nu * (u[i] - u[i - 1]) / dx
        for i in range(n):
            u[i] -= dt / dx * (f[i + 1] - f[i])
    return u


def nine_points(u, a, steps):
    """Smoothing by nine points, whole-array expressions."""
    for _ in range(steps):
        old = u.copy()
        u[1:-1, 1:-1] = old[1:-1, 1:-1] + a * (
            4.0 * (old[2:, 1:-1] + old[:-2, 1:-1] + old[1:-1, 2:] + old[1:-1, :-2])
            + old[2:, 2:] + old[2:, :-2] + old[:-2, 2:] + old[:-2, :-2] - 20.0 * old[1:-1, 1:-1]
        )  # fmt: skip
    return np.mean(u**2)


def leapfrog(u, v, c, steps):
    """A string: positions and speeds half a step apart, in place."""
    for _ in range(steps):
        for i in range(1, u.size - 1):
            v[i] += c[i] * (u[i + 1] - 2.0 * u[i] + u[i - 1])
        for i in range(1, u.size - 1):
            u[i] += v[i]
    return u.sum()


def phase_field(phi, mobility, epsilon, dt, steps):
    """Allen-Cahn with a double well, in two arrays."""
    new = phi.copy()
    for _ in range(steps):
        for i in range(1, phi.shape[0] - 1):
            for j in range(1, phi.shape[1] - 1):
                p = phi[i, j]
                lap = phi[i + 1, j] + phi[i - 1, j] + phi[i, j + 1] + phi[i, j - 1] - 4.0 * p
                new[i, j] = p + dt * mobility * (epsilon * lap - p * (p * p - 1.0))
        phi, new = new, phi
    return np.sum(phi)


PROGRAMS = {
    upwind: (normal(7), 0.8, 0.1, 0.5, 3),
    upwind_copies: (normal(7), normal(7), 0.3, 3),
    diffusion: (normal(5, 6), positive(5, 6), 0.1, 3),
    heat_2d: (normal(5, 6), 0.2 * positive(5, 6), 3),
    gray_scott_periodic: (positive(4, 5), positive(4, 5), 0.2, 0.1, 0.04, 0.06, 3),
    gray_scott_box: (positive(5, 6), positive(5, 6), 0.2, 0.1, 0.04, 0.06, 3),
    maxwell: (normal(8), normal(7), positive(8), 4),
    maxwell_2d: (normal(4, 5), normal(4, 4), normal(3, 5), positive(4, 5), 3),
    crank_nicolson: (normal(7), 0.4, 3),
    lax_wendroff: (normal(7), 0.4, 3),
    kuramoto_sivashinsky: (normal(8), 0.002, 0.5, 3),
    burgers_flux: (normal(7), 0.1, 0.05, 0.5, 3),
    nine_points: (normal(5, 6), 0.05, 3),
    leapfrog: (normal(7), normal(7), 0.3 * positive(7), 3),
    phase_field: (normal(5, 6), 0.8, 0.6, 0.1, 3),
}
