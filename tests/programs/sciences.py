"""Whole programs: functions that call functions, named tuples, linked lists, steps that are taken or not."""

import math
from collections import namedtuple

import numpy as np

from .data import drawn

normal, positive = drawn(21)
Vec = namedtuple("Vec", "x y z")

NODES = (0.0, 1 / 4, 3 / 8, 12 / 13, 1.0, 1 / 2)
STAGES = np.array([
    [0, 0, 0, 0, 0], [1 / 4, 0, 0, 0, 0], [3 / 32, 9 / 32, 0, 0, 0], [1932 / 2197, -7200 / 2197, 7296 / 2197, 0, 0],
    [439 / 216, -8, 3680 / 513, -845 / 4104, 0], [-8 / 27, 2, -3544 / 2565, 1859 / 4104, -11 / 40],
])  # fmt: skip
FIFTH = (16 / 135, 0.0, 6656 / 12825, 28561 / 56430, -9 / 50, 2 / 55)
FOURTH = (25 / 216, 0.0, 1408 / 2565, 2197 / 4104, -1 / 5, 0.0)


def predation(t, y, p):
    return np.array([p[0] * y[0] - p[1] * y[0] * y[1], -p[2] * y[1] + p[3] * y[0] * y[1]])


def fehlberg(y0, p, end, tol):
    """Runge-Kutta-Fehlberg: a step is taken where the error is small."""
    t, h, steps = 0.0, 0.2, 0
    y = y0.copy()
    k = np.zeros((6, y.size))
    while t < end and steps < 60:
        h = min(h, end - t)
        for s in range(6):
            ys = y.copy()
            for j in range(s):
                ys += h * STAGES[s, j] * k[j]
            k[s] = predation(t + NODES[s] * h, ys, p)
        y5, y4 = y.copy(), y.copy()
        for s in range(6):
            y5 += h * FIFTH[s] * k[s]
            y4 += h * FOURTH[s] * k[s]
        err = np.max(np.abs(y5 - y4))
        steps += 1
        if err <= tol:
            t += h
            y = y5
        h *= min(4.0, max(0.2, 0.84 * (tol / max(err, 1e-14)) ** 0.25))
    return y, steps


def build_cells(pos, box, nc):
    head = -np.ones((nc, nc), dtype=np.int64)
    follows = np.full(pos.shape[0], -1, dtype=np.int64)
    for i in range(pos.shape[0]):
        cx = int(np.floor(pos[i, 0] / box * nc)) % nc
        cy = int(np.floor(pos[i, 1] / box * nc)) % nc
        follows[i] = head[cx, cy]
        head[cx, cy] = i
    return head, follows


def cell_lists(pos, box, nc, rc):
    """Energy and forces of neighbours, found in linked lists."""
    head, follows = build_cells(pos, box, nc)
    e = 0.0
    f = np.zeros_like(pos)
    for cx in range(nc):
        for cy in range(nc):
            for dx in (-1, 0, 1):
                for dy in (-1, 0, 1):
                    ox, oy = (cx + dx) % nc, (cy + dy) % nc
                    i = head[cx, cy]
                    while i >= 0:
                        j = head[ox, oy]
                        while j >= 0:
                            if j > i:
                                d = pos[i] - pos[j]
                                d -= box * np.round(d / box)
                                r2 = d[0] ** 2 + d[1] ** 2
                                if r2 < rc * rc:
                                    w = 1 - r2 / rc**2
                                    e += w**3
                                    f[i] += 6 * w * w / rc**2 * d
                                    f[j] -= 6 * w * w / rc**2 * d
                            j = follows[j]
                        i = follows[i]
    return e, f


def added(a, b):
    return Vec(a.x + b.x, a.y + b.y, a.z + b.z)


def scaled(a, s):
    return Vec(a.x * s, a.y * s, a.z * s)


def dot(a, b):
    return a.x * b.x + a.y * b.y + a.z * b.z


def unit(a):
    return scaled(a, 1.0 / math.sqrt(dot(a, a)))


def rays(eye, centers, radii, albedo, most):
    """Rays among spheres that mirror them."""
    color = np.zeros(3)
    for px in range(3):
        d = unit(Vec(0.2 * (px - 1), 0.05, 1.0))
        p = Vec(*(eye[0], eye[1], eye[2]))
        weight = 1.0
        for _ in range(most):
            nearest, hit = 1e20, -1
            for k in range(centers.shape[0]):
                oc = Vec(p.x - centers[k, 0], p.y - centers[k, 1], p.z - centers[k, 2])
                b = dot(oc, d)
                disc = b * b - dot(oc, oc) + radii[k] ** 2
                if disc <= 0.0:
                    continue
                t = -b - math.sqrt(disc)
                if 1e-6 < t < nearest:
                    nearest, hit = t, k
            if hit == -1:
                sky = 0.5 * (d.y + 1.0)
                color += weight * np.array([1.0 - 0.5 * sky, 1.0 - 0.3 * sky, 1.0])
                break
            p = added(p, scaled(d, nearest))
            n = unit(Vec(p.x - centers[hit, 0], p.y - centers[hit, 1], p.z - centers[hit, 2]))
            color += 0.1 * weight * albedo[hit]
            d = unit(added(d, scaled(n, -2.0 * dot(d, n))))
            weight *= 0.6
    return color


def swept(u, c):
    """How much a sweep over an argument changes."""
    change = 0.0
    for i in range(1, u.size):
        old = u[i]
        u[i] = 0.5 * (u[i] + c * u[i - 1])
        change += (u[i] - old) ** 2
    u *= 0.99
    for _ in range(2):
        u += 0.01 * c * u[::-1]
    return change


def settled(u, c, n):
    """Calls that write their argument, in tests and sums."""
    s = 1.0
    for _ in range(n):
        s += swept(u, c)
        s = 0.5 * s + n * swept(u[1:], 0.1) / 2
    while swept(u, c) > 5e-2:
        s *= 1.1
    if n > 9 or swept(u, c) > 1e-3:
        s *= 1.2
    return 2 * swept(u, s) + math.sin(s)


PROGRAMS = {
    fehlberg: (positive(2), 0.5 * positive(4), 1.1, 1e-3),
    cell_lists: (4.0 * positive(7, 2), 4.0, 4, 1.0),
    rays: (np.array([0.1, 0.2, -3.0]), 0.5 * normal(3, 3), 0.5 + 0.3 * positive(3), positive(3, 3), 3),
    settled: (normal(5), 0.2, 3),
}
