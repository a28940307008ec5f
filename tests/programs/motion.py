"""Ordinary differential equations; particles, geometry, graphs."""

import math
from collections import namedtuple

import numba
import numpy as np

from .data import normal, positive

STOICHIOMETRY = np.array([[-1, 1, 0], [0, -1, 1]])
Pendulum = namedtuple("Pendulum", "length mass damping")


@numba.njit
def lorenz(y, sigma, rho, beta):
    return sigma * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - beta * y[2]


def rk4_lorenz(y0, sigma, rho, beta, dt, n):
    y = y0.copy()
    tmp = np.empty(3)
    for _ in range(n):
        k1 = lorenz(y, sigma, rho, beta)
        for d in range(3):
            tmp[d] = y[d]
        tmp[0] += 0.5 * dt * k1[0]
        tmp[1] += 0.5 * dt * k1[1]
        tmp[2] += 0.5 * dt * k1[2]
        k2 = lorenz(tmp, sigma, rho, beta)
        y[0] += dt * k2[0]
        y[1] += dt * k2[1]
        y[2] += dt * k2[2]
    return y


def pendulum_rhs(t, y, p):
    """The right-hand side as a new array, parameters in a named tuple."""
    dy = np.zeros_like(y)
    dy[0] = y[1]
    dy[1] = -9.81 / p.length * np.sin(y[0]) - p.damping / p.mass * y[1]
    return dy


def rk4_step(f, t, y, h, p):
    k1 = f(t, y, p)
    k2 = f(t + h / 2, y + h / 2 * k1, p)
    k3 = f(t + h / 2, y + h / 2 * k2, p)
    k4 = f(t + h, y + h * k3, p)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def pendulum(y0, length, mass, damping, h, n):
    p = Pendulum(length, mass, damping=damping)
    y = y0
    path = np.empty((n + 1, y0.size))
    path[0] = y0
    t = 0.0
    for i in range(n):
        y = rk4_step(pendulum_rhs, t, y, h, p)
        t += h
        path[i + 1, :] = y
    return path


def kepler(q, p, dt, steps=20):
    """Leapfrog in numbers, results as a tuple."""
    x, y = q
    vx, vy = p[0], p[1]
    r3 = (x * x + y * y) ** 1.5
    for _ in range(steps):
        vx, vy = vx - 0.5 * dt * x / r3, vy - 0.5 * dt * y / r3
        x += dt * vx
        y += dt * vy
        r3 = (x**2 + y**2) ** 1.5
        vx -= 0.5 * dt * x / r3
        vy -= 0.5 * dt * y / r3
    energy = 0.5 * (vx**2 + vy**2) - 1 / math.sqrt(x**2 + y**2)
    return x, y, energy


def numerov(energy, v, h):
    """Numerov's method; the wave function is normalised at the end."""
    n = len(v)
    psi = np.zeros(n)
    psi[0], psi[1] = 0.0, 1e-3
    k2 = 2.0 * (energy - v)
    for i in range(1, n - 1):
        a = 2.0 * (1.0 - 5.0 * h**2 / 12.0 * k2[i]) * psi[i]
        b = (1.0 + h**2 / 12.0 * k2[i - 1]) * psi[i - 1]
        psi[i + 1] = (a - b) / (1.0 + h**2 / 12.0 * k2[i + 1])
    norm = math.sqrt(np.sum(psi**2) * h)
    psi /= norm
    return psi


def kinetics(c, k, dt, steps):
    """Mass action with a matrix of integers from outside."""
    rates = np.empty(2)
    for _ in range(steps):
        rates[0] = k[0] * c[0]
        rates[1] = k[1] * c[1] ** 2
        c += dt * (rates @ STOICHIOMETRY)
        c[c.argmin()] += 0.0
    return c[-1]


def adaptive(y, rate, tol, end):
    """Euler with step control: while, continue and break."""
    t, h = 0.0, 0.1
    tries = 0
    while True:
        tries += 1
        if tries > 200:
            break
        one = y - h * rate * y * y
        half = y - 0.5 * h * rate * y * y
        two = half - 0.5 * h * rate * half * half
        err = abs(two - one)
        if err > tol:
            h *= 0.5
            continue
        y = two
        t += h
        if t >= end:
            break
        if err < 0.1 * tol:
            h *= 1.5
    return y, t


def distance(a, b):
    d = a - b
    return math.sqrt(d[0] ** 2 + d[1] ** 2 + d[2] ** 2)


def nbody(pos, vel, mass, dt, steps, eps):
    n = pos.shape[0]
    for _ in range(steps):
        acc = np.zeros((n, 3))
        for i in range(n):
            for j in range(n):
                if i == j:
                    continue
                d = pos[j] - pos[i]
                r2 = d[0] ** 2 + d[1] ** 2 + d[2] ** 2 + eps
                acc[i] += mass[j] * d / r2**1.5
        vel += dt * acc
        pos += dt * vel
    ke = 0.0
    for i in range(n):
        ke += 0.5 * mass[i] * np.dot(vel[i], vel[i])
        for j in range(i + 1, n):
            ke -= mass[i] * mass[j] / distance(pos[i], pos[j])
    return ke


def lennard_jones(x, epsilon, sigma, box, rc):
    """Periodic images and forces in place, half of the pairs."""
    energy = 0.0
    force = np.zeros(x.shape)
    for i in range(len(x) - 1):
        for j in range(i + 1, len(x)):
            r2 = 0.0
            d = np.empty(2)
            for k in range(2):
                d[k] = x[i, k] - x[j, k]
                d[k] -= box * round(d[k] / box)
                r2 += d[k] * d[k]
            if r2 < rc * rc:
                s6 = (sigma * sigma / r2) ** 3
                energy += 4.0 * epsilon * s6 * (s6 - 1.0)
                f = 24.0 * epsilon * s6 * (2.0 * s6 - 1.0) / r2
                force[i, :] += f * d
                force[j, :] -= f * d
    return energy, force


def ising(spins, J, h):
    """Energy of continuous spins on a periodic lattice."""
    n, m = spins.shape
    e = 0.0
    for i in range(n):
        for j in range(m):
            e -= J * spins[i, j] * (spins[(i + 1) % n, j] + spins[i, (j + 1) % m]) + h * spins[i, j]
    return e / spins.size


def march(origin, direction, radius, steps, far):
    """Sphere tracing: a local function, break, and a value kept from the loop."""

    def scene(p, r):
        return math.sqrt(p[0] ** 2 + p[1] ** 2 + p[2] ** 2) - r + 0.05 * np.sin(3.0 * p[0])

    t = 0.0
    hit = False
    for i in range(steps):  # noqa: B007 (it is read below)
        p = origin + t * direction
        d = scene(p, radius)
        if d < 1e-6:
            hit = True
            break
        t += d
        if t > far:
            return far
    if hit:
        return t + 0.001 * i
    return t


def pagerank(links, damping, iterations):
    n = links.shape[0]
    r = np.ones(n) / n
    out = links.sum(axis=1)
    for _ in range(iterations):
        new = np.full(n, (1.0 - damping) / n)
        for i in range(n):
            share = damping * r[i] / out[i]
            for j in range(n):
                new[j] += share * links[i, j]
        r = new
    return r


def shortest(weights, gamma):
    """Soft Floyd-Warshall."""
    d = weights.copy()
    n = len(d)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                through = d[i, k] + d[k, j]
                d[i, j] = -gamma * np.log(np.exp(-d[i, j] / gamma) + np.exp(-through / gamma))
    return np.trace(d) + d[0, n - 1]


PROGRAMS = {
    rk4_lorenz: (normal(3), 10.0, 28.0, 8.0 / 3.0, 0.01, 4),
    pendulum: (normal(2), 1.2, 0.9, 0.1, 0.1, 3),
    kepler: (np.array([1.0, 0.1]), np.array([0.1, 0.9]), 0.05),
    numerov: (0.7, 0.5 * np.linspace(-2, 2, 9) ** 2, 0.5),
    kinetics: (positive(3), positive(2), 0.1, 4),
    adaptive: (1.2, 0.7, 0.01, 0.93),
    nbody: (normal(3, 3), normal(3, 3), positive(3), 0.1, 2, 0.05),
    lennard_jones: (2.0 * normal(4, 2), 0.9, 0.8, 4.0, 1.9),
    ising: (normal(3, 4), 0.8, 0.1),
    march: (np.array([0.1, 0.0, -3.0]), np.array([0.0, 0.05, 1.0]), 1.0, 60, 10.0),
    pagerank: (positive(4, 4), 0.85, 4),
    shortest: (positive(4, 4), 0.5),
}
