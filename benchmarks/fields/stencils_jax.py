"""stencils.py in jax: scans over time, with whole arrays within a step.

`seidel_2d` scans over rows, and within a row over points, for what is not there before; `adi` solves for all rows, or
all columns, at once by the tridiagonal solver of ``jax.lax.linalg``.
"""

import jax
import jax.numpy as jnp

scan = jax.lax.scan


def jacobi_1d(a, b, steps):
    def half(to, u):
        return jnp.concatenate([to[:1], 0.33333 * (u[:-2] + u[1:-1] + u[2:]), to[-1:]])

    def step(state, _):
        a, b = state
        b = half(b, a)
        return (half(a, b), b), None

    a = scan(step, (a, b), length=steps)[0][0]
    return jnp.sum(a * a)


def jacobi_2d(a, b, steps):
    def half(to, u):
        new = 0.2 * (u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[2:, 1:-1] + u[:-2, 1:-1])
        return to.at[1:-1, 1:-1].set(new)

    def step(state, _):
        a, b = state
        b = half(b, a)
        return (half(a, b), b), None

    a = scan(step, (a, b), length=steps)[0][0]
    return jnp.sum(a * a)


def heat_3d(a, rate, steps):
    def step(a, _):
        inner = a[1:-1, 1:-1, 1:-1]
        change = rate[0] * (a[2:, 1:-1, 1:-1] - 2.0 * inner + a[:-2, 1:-1, 1:-1])
        change += rate[1] * (a[1:-1, 2:, 1:-1] - 2.0 * inner + a[1:-1, :-2, 1:-1])
        change += rate[2] * (a[1:-1, 1:-1, 2:] - 2.0 * inner + a[1:-1, 1:-1, :-2])
        return a + jnp.pad(change, 1), None

    a = scan(step, a, length=steps)[0]
    return jnp.sum(a * a)


def seidel_2d(a, steps):
    def point(left, rest):
        new = left / 9.0 + rest
        return new, new

    def row(above, rows):
        old, below = rows
        rest = above[:-2] + above[1:-1] + above[2:] + below[:-2] + below[1:-1] + below[2:] + old[1:-1] + old[2:]
        new = jnp.concatenate([old[:1], scan(point, old[0], rest / 9.0)[1], old[-1:]])
        return new, new

    def step(a, _):
        rows = scan(row, a[0], (a[1:-1], a[2:]))[1]
        return jnp.concatenate([a[:1], rows, a[-1:]]), None

    a = scan(step, a, length=steps)[0]
    return jnp.sum(a * a)


def fdtd_2d(ex, ey, hz, source):
    def step(state, strength):
        ex, ey, hz = state
        ey = jnp.concatenate([jnp.full((1, ey.shape[1]), strength), ey[1:] - 0.5 * (hz[1:] - hz[:-1])])
        ex = jnp.concatenate([ex[:, :1], ex[:, 1:] - 0.5 * (hz[:, 1:] - hz[:, :-1])], 1)
        curl = ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]
        return (ex, ey, hz - jnp.pad(0.7 * curl, ((0, 1), (0, 1)))), None

    hz = scan(step, (ex, ey, hz), source)[0][2]
    return jnp.sum(hz * hz)


def adi(u, r, steps):
    half = 0.5 * r

    def implicit(u, last):
        """The interior: explicit along rows, implicit along columns, between 1 and a last row."""
        right = (1.0 - r) * u[1:-1, 1:-1] + half * (u[1:-1, :-2] + u[1:-1, 2:])
        right = right.at[0].add(half).at[-1].add(half * last)
        n = right.shape[0]
        beside = jnp.full(n, -half)
        lower, upper = beside.at[0].set(0.0), beside.at[-1].set(0.0)
        return jax.lax.linalg.tridiagonal_solve(lower, jnp.full(n, 1.0 + r), upper, right)

    def step(u, _):
        v = jnp.pad(implicit(u, 1.0), 1, constant_values=1.0)
        return u.at[1:-1, 1:-1].set(implicit(v.T, u[1:-1, -1]).T), None

    u = scan(step, u, length=steps)[0]
    return jnp.sum(u * u)
