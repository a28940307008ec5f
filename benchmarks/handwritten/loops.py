"""Elementwise functions and physics."""

from __future__ import annotations

import math

import numpy as np

from nbgrad.vmath.error import erf
from nbgrad.vmath.exponential import exp, log, log1p
from nbgrad.vmath.hyperbolic import tanh

from .compiled import by_hand

# Elementwise


@by_hand
def _back(g, t, y, b):
    """Cotangents of a and b from one round of t = tanh(y*b + a), t - b."""
    s = g * (1 - t * t)
    return s, s * y - g


@by_hand
def tiny(a, b, da, db):
    total = 0.0
    for i in range(a.size):
        a0, b0 = a[i], b[i]
        t1 = tanh(a0 * b0 + a0)
        t2 = tanh((t1 - b0) * b0 + a0)
        t3 = tanh((t2 - b0) * b0 + a0)
        t4 = tanh((t3 - b0) * b0 + a0)
        t5 = tanh((t4 - b0) * b0 + a0)
        total += t5 - b0
        a5, b5 = _back(1.0, t5, t4 - b0, b0)
        a4, b4 = _back(a5 * b0, t4, t3 - b0, b0)
        a3, b3 = _back(a4 * b0, t3, t2 - b0, b0)
        a2, b2 = _back(a3 * b0, t2, t1 - b0, b0)
        a1, b1 = _back(a2 * b0, t1, a0, b0)
        da[i] = a5 + a4 + a3 + a2 + a1 * (1 + b0)
        db[i] = b5 + b4 + b3 + b2 + b1
    return total


tiny_sum = tiny


@by_hand
def elementwise(a, b, da, db):
    total = 0.0
    for i in range(a.size):
        inner, over = a[i] * b[i] + a[i], 1 / b[i]
        total += inner * b[i] - a[i] * over
        da[i] = (b[i] + 1) * b[i] - over
        db[i] = a[i] * b[i] + inner + a[i] * over * over
    return total


@by_hand
def long_chain(x, w, b, dx, dw, db):
    total = 0.0
    for i in range(x.size):
        z = x[i] * w[i] + b[i]
        q = exp(-abs(z))  # both functions of z are rational in it
        r = 1 / (1 + q)
        s = r if z > 0 else q * r
        t = math.copysign((1 - q * q) / (1 + q * q), z)
        p = exp(t * s)
        value = log1p(p)
        slope = s * p / (1 + p)
        total += value * s
        g = slope * s * (1 - t * t) + (value + slope * t) * s * (1 - s)
        dx[i], dw[i], db[i] = g * w[i], g * x[i], g
    return total


@by_hand
def black_scholes(spot, strike, expiry, rate, volatility, dspot, dstrike, dexpiry, drate, dvolatility):
    total = 0.0
    for i in range(spot.size):
        root = math.sqrt(expiry[i])
        spread = volatility[i] * root
        forward = rate[i] + 0.5 * volatility[i] * volatility[i]
        d1 = (log(spot[i] / strike[i]) + forward * expiry[i]) / spread
        discount = exp(-rate[i] * expiry[i])
        n1 = 0.5 + 0.5 * erf(d1 * math.sqrt(0.5))
        n2 = discount * (0.5 + 0.5 * erf((d1 - spread) * math.sqrt(0.5)))
        vega = spot[i] * exp(-0.5 * d1 * d1) * (1 / math.sqrt(2 * math.pi))
        total += spot[i] * n1 - strike[i] * n2
        dspot[i] = n1
        dstrike[i] = -n2
        dexpiry[i] = 0.5 * vega * volatility[i] / root + rate[i] * strike[i] * n2
        drate[i] = expiry[i] * strike[i] * n2
        dvolatility[i] = vega * root
    return total


@by_hand
def rosenbrock(x, dx):
    n = x.size - 1
    total = (1 - x[0]) * (1 - x[0])
    last = x[n] - x[n - 1] * x[n - 1]
    dx[0] = -400 * x[0] * (x[1] - x[0] * x[0]) - 2 * (1 - x[0])
    dx[n] = 200 * last
    for i in range(n - 1):
        here = x[i + 1]
        miss = here - x[i] * x[i]
        total += 100 * miss * miss + (1 - here) * (1 - here)
        dx[i + 1] = 200 * miss - 400 * here * (x[i + 2] - here * here) - 2 * (1 - here)
    return total + 100 * last * last


@by_hand
def rosenbrock_along(x, v, out):
    n = x.size - 1
    out[0] = (1200 * x[0] * x[0] - 400 * x[1] + 2) * v[0] - 400 * x[0] * v[1]
    out[n] = 200 * v[n] - 400 * x[n - 1] * v[n - 1]
    for i in range(n - 1):
        here = x[i + 1]
        own = (1200 * here * here - 400 * x[i + 2] + 202) * v[i + 1]
        out[i + 1] = own - 400 * (here * v[i + 2] + x[i] * v[i])


# Physics


@by_hand
def lennard_jones(x, eye, dx):
    n = len(x)
    place, force = np.ascontiguousarray(x.T), np.zeros((3, n))
    total = 0.0
    for i in range(n - 1):
        others, pulls = place[:, i + 1 :], force[:, i + 1 :]
        xo, yo, zo = others[0], others[1], others[2]
        xp, yp, zp = pulls[0], pulls[1], pulls[2]
        xi, yi, zi = place[0, i], place[1, i], place[2, i]
        fx = fy = fz = 0.0
        for j in range(n - 1 - i):
            ax, ay, az = xi - xo[j], yi - yo[j], zi - zo[j]
            s = 1 / (ax * ax + ay * ay + az * az)
            s6 = s * s * s
            total += s6 * s6 - s6
            slope = (6 - 12 * s6) * s6 * s
            xp[j] -= slope * ax
            yp[j] -= slope * ay
            zp[j] -= slope * az
            fx += slope * ax
            fy += slope * ay
            fz += slope * az
        force[0, i] += fx
        force[1, i] += fy
        force[2, i] += fz
    for i in range(n):
        for k in range(3):
            dx[i, k] = 4 * force[k, i]
    return 4 * total


@by_hand
def _diffuse(u, out):
    """A step inside the boundary."""
    for i in range(1, u.shape[0] - 1):
        above, row, below, to = u[i - 1], u[i], u[i + 1], out[i]
        for j in range(1, u.shape[1] - 1):
            to[j] = 0.2 * (row[j] + above[j] + below[j] + row[j - 1] + row[j + 1])


@by_hand
def heat(u, target, du):
    a, b = np.zeros_like(u), np.zeros_like(u)
    _diffuse(u, a)
    for _ in range(49):
        _diffuse(a, b)
        a, b = b, a
    total = 0.0
    rows, columns = u.shape
    for i in range(rows):
        for j in range(columns):
            miss = a[i, j] - target[i, j]
            total += miss * miss
            a[i, j] = 2 * miss if 0 < i < rows - 1 and 0 < j < columns - 1 else 0.0
    for _ in range(49):  # the step is symmetric
        _diffuse(a, b)
        a, b = b, a
    du[:] = 0
    _diffuse(a, du)
    for j in range(1, columns - 1):
        du[0, j], du[-1, j] = 0.2 * a[1, j], 0.2 * a[-2, j]
    for i in range(1, rows - 1):
        du[i, 0], du[i, -1] = 0.2 * a[i, 1], 0.2 * a[i, -2]
    return total


@by_hand
def _turn(w, turn):
    """The rotation matrix of a rotation vector."""
    angle = math.sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2])
    cos, sin = math.cos(angle), math.sin(angle) / angle
    for i in range(3):
        for j in range(3):
            turn[i, j] = (1 - cos) / (angle * angle) * w[i] * w[j]
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        turn[i, i] += cos
        turn[k, j] += sin * w[i]
        turn[j, k] -= sin * w[i]


@by_hand
def _turn_back(w, g, dw):
    """The cotangent of a rotation vector, from that of its matrix."""
    angle = math.sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2])
    cos, sin = math.cos(angle), math.sin(angle)
    dangle = along = 0.0
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        skew = g[k, j] - g[j, k]
        twice = ((g[i, 0] + g[0, i]) * w[0] + (g[i, 1] + g[1, i]) * w[1] + (g[i, 2] + g[2, i]) * w[2]) / angle
        axis = w[i] / angle
        dangle += (cos * skew + 0.5 * sin * twice) * axis - sin * g[i, i]
        dw[i] = sin * skew + (1 - cos) * twice
        along += dw[i] * axis
    for i in range(3):
        dw[i] = w[i] / angle * dangle + (dw[i] - w[i] / angle * along) / angle


@by_hand
def reprojection(cameras, points, seen, camera, point, dcameras, dpoints):
    turns = np.empty((len(cameras), 3, 3))
    dturns = np.zeros_like(turns)
    for k in range(len(cameras)):
        _turn(cameras[k], turns[k])
    dcameras[:] = 0
    dpoints[:] = 0
    total = 0.0
    for n in range(len(seen)):
        k, m = camera[n], point[n]
        own, turn, p = cameras[k], turns[k], points[m]
        qx = turn[0, 0] * p[0] + turn[0, 1] * p[1] + turn[0, 2] * p[2] + own[3]
        qy = turn[1, 0] * p[0] + turn[1, 1] * p[1] + turn[1, 2] * p[2] + own[4]
        qz = turn[2, 0] * p[0] + turn[2, 1] * p[1] + turn[2, 2] * p[2] + own[5]
        over = -1 / qz
        x, y = qx * over, qy * over
        r2 = x * x + y * y
        bend = 1 + r2 * (own[7] + own[8] * r2)
        ex, ey = own[6] * bend * x - seen[n, 0], own[6] * bend * y - seen[n, 1]
        total += 0.5 * (ex * ex + ey * ey)
        along = ex * x + ey * y
        twice_dr2 = 2 * own[6] * along * (own[7] + 2 * own[8] * r2)
        gx, gy = own[6] * bend * ex + twice_dr2 * x, own[6] * bend * ey + twice_dr2 * y
        hx, hy, hz = gx * over, gy * over, (gx * x + gy * y) * over
        to, dturn, dp = dcameras[k], dturns[k], dpoints[m]
        to[3] += hx
        to[4] += hy
        to[5] += hz
        to[6] += bend * along
        to[7] += own[6] * along * r2
        to[8] += own[6] * along * r2 * r2
        for j in range(3):
            dturn[0, j] += hx * p[j]
            dturn[1, j] += hy * p[j]
            dturn[2, j] += hz * p[j]
            dp[j] += turn[0, j] * hx + turn[1, j] * hy + turn[2, j] * hz
    for k in range(len(cameras)):
        _turn_back(cameras[k], dturns[k], dcameras[k])
    return total
