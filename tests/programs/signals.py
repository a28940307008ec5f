"""Transforms by bits, recursions whose parts grow, and grids of several sizes."""

import math

import numpy as np

from .data import drawn

normal, positive = drawn(31)

NEVER = -1e30


def power_spectrum(re, im):
    """The transform of radix 2, with elements exchanged by reversed bits."""
    n = len(re)
    j = 0
    for i in range(1, n):
        bit = n >> 1
        while j & bit:
            j ^= bit
            bit >>= 1
        j |= bit
        if i < j:
            re[i], re[j] = re[j], re[i]
            im[i], im[j] = im[j], im[i]
    length = 2
    while length <= n:
        angle, half = -2 * math.pi / length, length // 2
        for i in range(0, n, length):
            for k in range(half):
                c, s = math.cos(angle * k), math.sin(angle * k)
                a, b = i + k, i + k + half
                tr, ti = re[b] * c - im[b] * s, re[b] * s + im[b] * c
                re[b], im[b] = re[a] - tr, im[a] - ti
                re[a] += tr
                im[a] += ti
        length <<= 1
    return (re**2 + im**2)[: n // 2 + 1]


def levinson(r, order):
    """Predicts a signal from its autocorrelations, by more coefficients in each turn."""
    a = np.zeros(order + 1)
    a[0], error = 1.0, r[0]
    for i in range(1, order + 1):
        k = -(r[i] + a[1:i] @ r[1:i][::-1]) / error
        a[1:i] = a[1:i] + k * a[1:i][::-1]
        a[i] = k
        error *= 1 - k * k
    return a, error


def relaxed(u, f, h, sweeps):
    for _ in range(sweeps):
        for i in range(1, len(u) - 1):
            u[i] = 0.5 * (u[i - 1] + u[i + 1] + h * h * f[i])


def residual(u, f, h):
    r = np.zeros_like(u)
    r[1:-1] = f[1:-1] + (u[2:] - 2 * u[1:-1] + u[:-2]) / h**2
    return r


def two_grids(u, f, cycles):
    h = 1.0 / (len(u) - 1)
    for _ in range(cycles):
        relaxed(u, f, h, 2)
        r = residual(u, f, h)
        coarse = np.zeros((len(r) - 1) // 2 + 1)
        for i in range(1, len(coarse) - 1):
            coarse[i] = 0.25 * r[2 * i - 1] + 0.5 * r[2 * i] + 0.25 * r[2 * i + 1]
        e = np.zeros(len(coarse))
        relaxed(e, coarse, 2 * h, 5)
        u[::2] += e
        u[1::2] += 0.5 * (e[:-1] + e[1:])
    return np.sqrt(np.sum(residual(u, f, h) ** 2))


def added(a, b, c):
    """The logarithm of a sum of probabilities."""
    most = max(a, b, c)
    return most + math.log(math.exp(a - most) + math.exp(b - most) + math.exp(c - most))


def transcript(logits, labels):
    """How unlikely a text is, whatever its letters are aligned with."""
    logp = np.empty_like(logits)
    for t in range(logits.shape[0]):
        most = logits[t].max()
        logp[t] = logits[t] - most - np.log(np.sum(np.exp(logits[t] - most)))
    places = np.zeros(2 * len(labels) + 1, dtype=np.int64)
    places[1::2] = labels
    alpha = np.full(places.size, NEVER)
    alpha[0], alpha[1] = logp[0, 0], logp[0, places[1]]
    for t in range(1, logits.shape[0]):
        before = alpha.copy()
        for s in range(places.size):
            one = before[s - 1] if s >= 1 else NEVER
            two = before[s - 2] if s >= 2 and 0 != places[s] != places[s - 2] else NEVER
            alpha[s] = added(before[s], one, two) + logp[t, places[s]]
    return -added(alpha[-1], alpha[-2], NEVER)


PROGRAMS = {
    power_spectrum: (normal(8), normal(8)),
    levinson: (np.array([10.0, 0, 0, 0]) + normal(4), 3),
    two_grids: (normal(9), normal(9), 2),
    transcript: (normal(6, 4), np.array([1, 2, 2])),
}
