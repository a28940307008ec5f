"""Rotations, reflections, and what keeps its place in a number: stacks, queues, alignments."""

import math

import numpy as np

from .data import drawn

normal, positive = drawn(13)


def back_substituted(r, y, m):
    x = np.zeros(m)
    for i in range(m - 1, -1, -1):
        t = y[i]
        for k in range(i + 1, m):
            t -= r[i, k] * x[k]
        x[i] = t / r[i, i]
    return x


def givens(a, b):
    """Least squares by rotations of two rows at a time."""
    r, y = a.copy(), b.copy()
    n, m = r.shape
    for j in range(m):
        for i in range(n - 1, j, -1):
            p, q = r[i - 1, j], r[i, j]
            h = math.sqrt(p * p + q * q)
            c, s = p / h, q / h
            for k in range(j, m):
                u = r[i - 1, k]
                v = r[i, k]
                r[i - 1, k] = c * u + s * v
                r[i, k] = c * v - s * u
            u = y[i - 1]
            v = y[i]
            y[i - 1] = c * u + s * v
            y[i] = c * v - s * u
    return back_substituted(r, y, m)


def householder(a, b):
    """Least squares by reflections."""
    r, y = a.copy(), b.copy()
    n, m = r.shape
    v = np.zeros(n)
    for k in range(m):
        s = 0.0
        for i in range(k, n):
            s += r[i, k] ** 2
        alpha = math.sqrt(s)
        if r[k, k] > 0:
            alpha = -alpha
        for i in range(k, n):
            v[i] = r[i, k]
        v[k] -= alpha
        s = 0.0
        for i in range(k, n):
            s += v[i] * v[i]
        for j in range(k, m):
            d = 0.0
            for i in range(k, n):
                d += v[i] * r[i, j]
            d *= 2.0 / s
            for i in range(k, n):
                r[i, j] -= d * v[i]
        d = 0.0
        for i in range(k, n):
            d += v[i] * y[i]
        d *= 2.0 / s
        for i in range(k, n):
            y[i] -= d * v[i]
    return back_substituted(r, y, m)


def eigenvalues(a, sweeps):
    """Those of a symmetric matrix, by cyclic Jacobi rotations."""
    a = a.copy()
    n = a.shape[0]
    for _ in range(sweeps):
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(a[p, q]) > 1e-14:
                    theta = (a[q, q] - a[p, p]) / (2 * a[p, q])
                    t = 1.0 / (abs(theta) + math.sqrt(1 + theta * theta))
                    if theta < 0:
                        t = -t
                    c = 1 / math.sqrt(1 + t * t)
                    s = t * c
                    for k in range(n):
                        u = a[k, p]
                        v = a[k, q]
                        a[k, p] = c * u - s * v
                        a[k, q] = s * u + c * v
                    for k in range(n):
                        u = a[p, k]
                        v = a[q, k]
                        a[p, k] = c * u - s * v
                        a[q, k] = s * u + c * v
    found = np.empty(n)
    for i in range(n):
        found[i] = a[i, i]
    return found


def isotonic(y, w):
    """The increasing values next to `y`, weighted: neighbours that decrease are pooled."""
    n = y.size
    value, weight, size = np.empty(n), np.empty(n), np.empty(n, np.int64)
    m = 0
    for i in range(n):
        value[m], weight[m], size[m] = y[i], w[i], 1
        m += 1
        while m > 1 and value[m - 2] > value[m - 1]:
            total = weight[m - 2] + weight[m - 1]
            value[m - 2] = (weight[m - 2] * value[m - 2] + weight[m - 1] * value[m - 1]) / total
            weight[m - 2] = total
            size[m - 2] += size[m - 1]
            m -= 1
    fit = np.empty(n)
    k = 0
    for b in range(m):
        for _ in range(size[b]):
            fit[k] = value[b]
            k += 1
    return fit


def queue(gaps, services):
    """The time that customers wait."""
    free, now, waited, i = 0.0, 0.0, 0.0, 0
    while i < gaps.size:
        now += gaps[i]
        if now > free:
            free = now
        waited += free - now
        free += services[i]
        i += 1
    return waited


def alignment(score, gap):
    """The best local alignment (Smith and Waterman)."""
    n, m = score.shape
    h = np.zeros((n + 1, m + 1))
    best = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            h[i, j] = max(0.0, h[i - 1, j - 1] + score[i - 1, j - 1], h[i - 1, j] - gap, h[i, j - 1] - gap)
            if h[i, j] > best:
                best = h[i, j]
    return best


SQUARE = normal(4, 4)

PROGRAMS = {
    givens: (normal(5, 3), normal(5)),
    householder: (normal(5, 3), normal(5)),
    eigenvalues: (SQUARE + SQUARE.T, 3),
    isotonic: (np.array([1.0, 0.2, 3.0, 2.5, 2.0, 4.0, 3.9]), positive(7)),
    queue: (positive(6), 1.4 * positive(6)),
    alignment: (normal(4, 5), 0.3),
}
