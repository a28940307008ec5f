"""weather.py in jax: scans over time, with whole arrays within a step."""

import jax
import jax.numpy as jnp

scan = jax.lax.scan


def shallow_water(h, u, v, gravity, coriolis, drag, dt, dx, steps):
    turning, between = coriolis[:, None], 0.5 * (coriolis[1:] + coriolis[:-1])[:, None]

    def step(state, _):
        h, u, v = state
        h = h - dt / dx * 100.0 * (jnp.roll(u, -1, 1) - u + v[1:] - v[:-1])
        rows = v[:-1] + v[1:]
        slope = gravity * (h - jnp.roll(h, 1, 1)) / dx
        u = u + dt * (turning * 0.25 * (rows + jnp.roll(rows, 1, 1)) - slope - drag * u)
        columns = u + jnp.roll(u, -1, 1)
        across = 0.25 * (columns[1:] + columns[:-1])
        inner = v[1:-1] - dt * (between * across + gravity * (h[1:] - h[:-1]) / dx + drag * v[1:-1])
        return (h, u, jnp.concatenate([v[:1], inner, v[-1:]])), None

    h = scan(step, (h, u, v), length=steps)[0][0]
    return jnp.sum(h * h)


def assimilation(x, observed, background, force, dt, every):
    def slope(x):
        return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + force

    def step(x, _):
        k1 = slope(x)
        k2 = slope(x + 0.5 * dt * k1)
        k3 = slope(x + 0.5 * dt * k2)
        k4 = slope(x + dt * k3)
        return x + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), None

    def window(x, seen):
        x = scan(step, x, length=every)[0]
        return x, 0.5 * jnp.sum((x - seen) ** 2)

    return 0.5 * jnp.sum((x - background) ** 2) + jnp.sum(scan(window, x, observed)[1])


def semi_lagrangian(q, u, v, dt, steps):
    n, m = q.shape
    y = jnp.arange(n)[:, None] - dt * v
    x = jnp.arange(m) - dt * u
    row, column = jnp.floor(y), jnp.floor(x)
    fy, fx = y - row, x - column
    i, j = row.astype(int) % n, column.astype(int) % m
    below, beside = (i + 1) % n, (j + 1) % m

    def step(q, _):
        low = (1.0 - fx) * q[i, j] + fx * q[i, beside]
        high = (1.0 - fx) * q[below, j] + fx * q[below, beside]
        return (1.0 - fy) * low + fy * high, None

    q = scan(step, q, length=steps)[0]
    return jnp.sum(q * q)


def horizontal_diffusion(field, coefficient):
    inner = field[:, 1:-1, 1:-1]
    around = field[:, 2:, 1:-1] + field[:, :-2, 1:-1] + field[:, 1:-1, 2:] + field[:, 1:-1, :-2]
    laplacian = 4.0 * inner - around
    along = laplacian[:, 1:, 1:-1] - laplacian[:, :-1, 1:-1]
    along = jnp.where(along * (inner[:, 1:, 1:-1] - inner[:, :-1, 1:-1]) > 0.0, 0.0, along)
    across = laplacian[:, 1:-1, 1:] - laplacian[:, 1:-1, :-1]
    across = jnp.where(across * (inner[:, 1:-1, 1:] - inner[:, 1:-1, :-1]) > 0.0, 0.0, across)
    out = inner[:, 1:-1, 1:-1] - coefficient * (along[:, 1:] - along[:, :-1] + across[:, :, 1:] - across[:, :, :-1])
    return jnp.sum(out * out)
