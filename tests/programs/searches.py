"""Searches and iterations whose names stand for one array and then for another; several targets at once."""

import numpy as np

from .data import drawn

normal, positive = drawn(12)


def levenberg_marquardt(t, y, p, iterations):
    """A step is taken, or the damping grows."""
    mu = 1e-2
    p = p.copy()
    for _ in range(iterations):
        r = p[0] * np.exp(-p[1] * t) - y
        J = np.zeros((t.size, 2))
        J[:, 0] = np.exp(-p[1] * t)
        J[:, 1] = -p[0] * t * np.exp(-p[1] * t)
        H = J.T @ J
        g = J.T @ r
        for i in range(2):
            H[i, i] *= 1 + mu
        trial = p - np.linalg.solve(H, g)
        new = np.sum((trial[0] * np.exp(-trial[1] * t) - y) ** 2)
        if new < np.sum(r**2):
            p = trial
            mu /= 3
        else:
            mu *= 2
    return p, mu


def roughness(x):
    return np.sum(x**2) + 0.1 * np.sum(np.sin(3.0 * x))


def descent(x):
    """The best point so far, and an array that is a part of another one."""
    best, step, least = x, 0.9, np.inf
    last = x[::-1] * 0.5
    for _ in range(6):
        trial = best - step * np.tanh(best) + 0.1 * last
        f = roughness(trial)
        if f < least:
            best = trial
            last = trial[::-1]
            least = f
        else:
            step *= 0.5
    return best, least


def settled(x, n):
    """How far a fixed point iteration moves."""
    old = x
    change = 0.0
    for _ in range(n):
        x = np.cos(x) + 0.1 * x
        change += np.abs(x - old).max()
        old = x
    return change


def relaxation(x, n):
    """Where it began, and where it was before."""
    start = x
    for _ in range(n):
        before = x
        x = np.cos(x) + 0.1 * start
        x = x + 0.1 * before
    y = x * 2
    tail = y[1:]
    if n > 2:
        y = y * tail[0]
    return y, start[0] * tail


def hamiltonian(q, p, mass, eps, steps):
    """Leapfrog; the proposal is taken or not."""

    def slope(z):
        g = np.zeros_like(z)
        for i in range(z.size):
            g[i] = z[i] ** 3 + (z[i - 1] if i > 0 else 0.0)
        return g

    def energy(z, r):
        return 0.5 * np.sum(r * r / mass) + 0.25 * np.sum(z**4)

    q0, p0 = q, p
    p = p - 0.5 * eps * slope(q)
    for s in range(steps):
        q = q + eps * p / mass
        if s < steps - 1:
            p = p - eps * slope(q)
    p = p - 0.5 * eps * slope(q)
    ratio = np.exp(energy(q0, p0) - energy(q, p))
    if ratio > 0.3:
        return q, ratio
    return q0, ratio


def string(u, c2, steps):
    """Leapfrog in time: the older level gets the name of the newer one; MacCormack's scheme after it."""
    v = u * 1.0
    for _ in range(steps):
        new = 2.0 * v - u + c2 * (np.roll(v, 1) - 2.0 * v + np.roll(v, -1))
        u, v = v, new
    h, q = 1.0 + u * u, v * 1.0
    for _ in range(steps):
        hp, qp = h.copy(), q.copy()
        for i in range(len(h) - 1):
            hp[i] = h[i] - c2 * (q[i + 1] - q[i])
            qp[i] = q[i] - c2 * (h[i + 1] ** 2 - h[i] ** 2)
        h, q = hp, qp
    return h.sum() + q[2] * v[0]


def power_iteration(A, x, digits, limit):
    """The argument is normalised in place, and its name given to new arrays."""
    x /= np.linalg.norm(x)
    value = 0.0
    for _ in range(limit):
        y = A.dot(x)
        new = x @ y
        x = y / np.linalg.norm(y)
        if abs(new - value) < 10.0**-digits * abs(new):
            break
        value = new
    return value, x


def cavity(u, dt, steps):
    """Walls, one value for several of them."""
    for _ in range(steps):
        u[0, :] = u[-1, :] = 0.0
        u[:, 0] = u[:, -1] = dt * u[1, 1]
        lap = np.zeros_like(u)
        lap[1:-1, 1:-1] = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        u += dt * lap
    for i in range(4):
        for j in range(i):
            u[i, j] = u[j, i] = 0.5 * (u[j, i] + u[i, j] ** 2)
    return u.std(axis=0)


MATRIX = normal(4, 4)
PROGRAMS = {
    levenberg_marquardt: (np.linspace(0, 2, 6), positive(6), np.array([1.0, 0.5]), 4),
    descent: (normal(4),),
    settled: (normal(4), 3),
    relaxation: (normal(4), 3),
    hamiltonian: (normal(4), normal(4), positive(4), 0.1, 5),
    string: (normal(5), 0.2, 3),
    power_iteration: (MATRIX @ MATRIX.T, normal(4), 3, 6),
    cavity: (normal(5, 4), 0.1, 3),
}
