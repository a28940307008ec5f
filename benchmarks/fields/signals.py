"""Signals and images."""

import math

import numpy as np

from . import Kernel


def fir_filter(signal, taps, target):
    """How far a filtered signal is from another one."""
    n, width = signal.size, taps.size
    loss = 0.0
    for i in range(n - width + 1):
        s = 0.0
        for k in range(width):
            s += taps[k] * signal[i + k]
        loss += (s - target[i]) ** 2
    return loss / n


def biquads(signal, b, a):
    """Recursive filters of second order, one after another (transposed direct form)."""
    for section in range(b.shape[0]):
        z1 = 0.0
        z2 = 0.0
        for i in range(signal.size):
            x = signal[i]
            y = b[section, 0] * x + z1
            z1 = b[section, 1] * x - a[section, 0] * y + z2
            z2 = b[section, 2] * x - a[section, 1] * y
            signal[i] = y
    return np.sum(signal * signal)


def kalman(seen, dt, drift, noise):
    """The log-likelihood of positions of something that moves at a speed that varies."""
    x, speed = seen[0], 0.0
    p00, p01, p11 = 1.0, 0.0, 1.0
    total = 0.0
    for t in range(seen.size):
        x += dt * speed
        p00 += dt * (2.0 * p01 + dt * p11) + drift * dt**3 / 3.0
        p01 += dt * p11 + drift * dt**2 / 2.0
        p11 += drift * dt
        s = p00 + noise
        error = seen[t] - x
        total -= 0.5 * (math.log(2.0 * math.pi * s) + error * error / s)
        gain0, gain1 = p00 / s, p01 / s
        x += gain0 * error
        speed += gain1 * error
        p11 -= gain1 * p01
        p01 -= gain0 * p01
        p00 -= gain0 * p00
    return total


def total_variation(image, weight, step, rounds):
    """An image is denoised by gradient descent; what is left of its total variation."""
    n, m = image.shape
    u = image.copy()
    px = np.zeros((n, m))
    py = np.zeros((n, m))
    for _ in range(rounds):
        for i in range(n - 1):
            for j in range(m - 1):
                dx = u[i, j + 1] - u[i, j]
                dy = u[i + 1, j] - u[i, j]
                length = math.sqrt(dx * dx + dy * dy + 1e-3)
                px[i, j] = dx / length
                py[i, j] = dy / length
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                divergence = px[i, j] - px[i, j - 1] + py[i, j] - py[i - 1, j]
                u[i, j] -= step * (u[i, j] - image[i, j] - weight * divergence)
    total = 0.0
    for i in range(n - 1):
        for j in range(m - 1):
            total += math.sqrt((u[i, j + 1] - u[i, j]) ** 2 + (u[i + 1, j] - u[i, j]) ** 2 + 1e-3)
    return total


def _sections(rng, n, count):
    return (
        rng.normal(size=n),
        rng.normal(size=(count, 3)),
        np.column_stack([rng.uniform(-1, 1, count), rng.uniform(0.1, 0.4, count)]),
    )


KERNELS = [
    Kernel(fir_filter, lambda rng, n, taps: (rng.normal(size=n), rng.normal(size=taps), rng.normal(size=n)),
           (50_000, 32), (12, 3)),
    Kernel(biquads, _sections, (50_000, 6), (8, 3)),
    Kernel(kalman, lambda rng, n: (np.cumsum(rng.normal(size=n)), 0.1, 0.5, 0.3), (50_000,), (8,)),
    Kernel(total_variation, lambda rng, n, rounds: (rng.normal(size=(n, n)), 0.1, 0.02, rounds), (128, 30), (6, 3)),
]  # fmt: skip
