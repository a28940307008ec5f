"""signals.py in jax.

`fir_filter` is a convolution of XLA's. `biquads` scans over samples with the states of all sections, in the order of
the signal: within a sample they follow each other. `kalman` scans, and takes logarithms afterwards.
"""

import math

import jax
import jax.numpy as jnp

scan = jax.lax.scan


def fir_filter(signal, taps, target):
    found = jnp.convolve(signal, taps[::-1], "valid")
    return jnp.sum((found - target[: found.size]) ** 2) / signal.size


def biquads(signal, b, a):
    count = b.shape[0]

    def sample(state, x):
        new = []
        for k in range(count):
            z1, z2 = state[k]
            y = b[k, 0] * x + z1
            new.append((b[k, 1] * x - a[k, 0] * y + z2, b[k, 2] * x - a[k, 1] * y))
            x = y
        return tuple(new), x

    found = scan(sample, ((0.0, 0.0),) * count, signal)[1]
    return jnp.sum(found * found)


def kalman(seen, dt, drift, noise):
    def step(state, value):
        x, speed, p00, p01, p11 = state
        x = x + dt * speed
        p00 = p00 + dt * (2.0 * p01 + dt * p11) + drift * dt**3 / 3.0
        p01 = p01 + dt * p11 + drift * dt**2 / 2.0
        p11 = p11 + drift * dt
        s = p00 + noise
        error = value - x
        gain0, gain1 = p00 / s, p01 / s
        after = x + gain0 * error, speed + gain1 * error, p00 - gain0 * p00, p01 - gain0 * p01, p11 - gain1 * p01
        return after, (s, error)

    s, error = scan(step, (seen[0], 0.0, 1.0, 0.0, 1.0), seen)[1]
    return -0.5 * jnp.sum(jnp.log(2.0 * math.pi * s) + error * error / s)


def total_variation(image, weight, step, rounds):
    def slopes(u):
        dx, dy = u[:-1, 1:] - u[:-1, :-1], u[1:, :-1] - u[:-1, :-1]
        return dx, dy, jnp.sqrt(dx * dx + dy * dy + 1e-3)

    def descend(u, _):
        dx, dy, length = slopes(u)
        px, py = dx / length, dy / length
        divergence = px[1:, 1:] - px[1:, :-1] + py[1:, 1:] - py[:-1, 1:]
        return u - jnp.pad(step * (u[1:-1, 1:-1] - image[1:-1, 1:-1] - weight * divergence), 1), None

    return jnp.sum(slopes(scan(descend, image, length=rounds)[0])[2])
