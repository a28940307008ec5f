"""fluids.py in jax: scans over time, with whole arrays within a step."""

import jax
import jax.numpy as jnp
import numpy as np

scan = jax.lax.scan


def cavity(u, v, p, speed, viscosity, dt, dx, steps, sweeps):
    def around(a):
        return a[1:-1, 2:] + a[1:-1, :-2] + a[2:, 1:-1] + a[:-2, 1:-1]

    def advected(a, u, v):
        c, x, y = a[1:-1, 1:-1], u[1:-1, 1:-1], v[1:-1, 1:-1]
        flow = dt / dx * (x * (c - a[1:-1, :-2]) + y * (c - a[:-2, 1:-1]))
        return a + jnp.pad(viscosity * dt / dx**2 * (around(a) - 4.0 * c) - flow, 1)

    def step(state, _):
        u, v, p = state
        u, v = advected(u, u, v), advected(v, u, v)
        source = 0.5 * dx / dt * (u[1:-1, 2:] - u[1:-1, :-2] + v[2:, 1:-1] - v[:-2, 1:-1])

        def sweep(p, _):
            inner = jnp.pad(0.25 * (around(p) - source), ((0, 0), (1, 1)), mode="edge")
            return jnp.concatenate([inner[:1], inner, jnp.zeros((1, inner.shape[1]))]), None

        p = scan(sweep, p, length=sweeps)[0]
        u = u - jnp.pad(0.5 * dt / dx * (p[1:-1, 2:] - p[1:-1, :-2]), 1)
        v = v - jnp.pad(0.5 * dt / dx * (p[2:, 1:-1] - p[:-2, 1:-1]), 1)
        return (jnp.concatenate([u[:-1], jnp.full((1, u.shape[1]), speed)]), v, p), None

    u, v, _ = scan(step, (u, v, p), length=steps)[0]
    return 0.5 * jnp.sum(u * u + v * v)


def burgers_2d(u, v, viscosity, dt, dx, steps):
    def changed(a, u, v):
        c, x, y = a[1:-1, 1:-1], u[1:-1, 1:-1], v[1:-1, 1:-1]
        west, east, north, south = a[1:-1, :-2], a[1:-1, 2:], a[:-2, 1:-1], a[2:, 1:-1]
        along = x * jnp.where(x > 0.0, c - west, east - c)
        across = y * jnp.where(y > 0.0, c - north, south - c)
        spread = viscosity * (west + east + north + south - 4.0 * c) / dx**2
        return a + jnp.pad(dt * (spread - (along + across) / dx), 1)

    def step(state, _):
        u, v = state
        return (changed(u, u, v), changed(v, u, v)), None

    u, v = scan(step, (u, v), length=steps)[0]
    return jnp.sum(u * u + v * v)


EX = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
EY = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
W = np.array([4 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 9, 1 / 36, 1 / 36, 1 / 36, 1 / 36])


def lattice_boltzmann(f, tau, force, steps):
    def step(f, _):
        density = sum(f)
        x = sum(int(e) * a for e, a in zip(EX, f, strict=True) if e) / density + force * tau
        y = sum(int(e) * a for e, a in zip(EY, f, strict=True) if e) / density
        square = 1.5 * (x * x + y * y)
        new = []
        for q in range(9):
            along = 3.0 * (EX[q] * x + EY[q] * y)
            balance = W[q] * density * (1.0 + along + 0.5 * along * along - square)
            new.append(jnp.roll(f[q] + (balance - f[q]) / tau, (int(EY[q]), int(EX[q])), (0, 1)))
        return tuple(new), None

    f = scan(step, tuple(f), length=steps)[0]
    x = sum(int(e) * a for e, a in zip(EX, f, strict=True) if e)
    return jnp.sum(x * x)


def shock_tube(density, momentum, energy, gamma, ratio, steps):
    def step(state, _):
        density, momentum, energy = state
        velocity = momentum / density
        pressure = (gamma - 1.0) * (energy - 0.5 * momentum * velocity)
        speed = jnp.abs(velocity) + jnp.sqrt(gamma * pressure / density)
        fastest = jnp.maximum(speed[:-1], speed[1:])

        def changed(u, f):
            flux = 0.5 * (f[:-1] + f[1:] - fastest * (u[1:] - u[:-1]))
            return u - jnp.pad(ratio * (flux[1:] - flux[:-1]), 1)

        new = changed(density, momentum), changed(momentum, momentum * velocity + pressure)
        return (*new, changed(energy, velocity * (energy + pressure))), None

    density, momentum, _ = scan(step, (density, momentum, energy), length=steps)[0]
    return jnp.sum(momentum * momentum / density)
