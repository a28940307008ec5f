"""Kernels of one recurrent layer in one direction: forward, and what reaches the preactivations backward.

All are over time. `x` holds the input's share of the preactivations, (steps, n, gates*size); `w` the hidden-to-hidden
weights, (gates*size, size); hidden states are (n, size). The matrix products run in BLAS, a step at a time.
"""

from __future__ import annotations

import numpy as np

from ..backends.numba.compile import inline, kernel
from ..vmath.exponential import sigmoid
from ..vmath.hyperbolic import tanh

__all__ = ["gru", "gru_back", "lstm", "lstm_back", "vanilla", "vanilla_back"]


@inline
def _activate(x, start, s, begin, n, plain):
    """``s = f(x + s)`` for n elements, f tanh or (`plain` 0) the logistic function."""
    at, to = np.uintp(start), np.uintp(begin)
    if plain:
        for j in range(np.uintp(n)):
            s[to + j] = tanh(x[at + j] + s[to + j])
    else:
        for j in range(np.uintp(n)):
            s[to + j] = sigmoid(x[at + j] + s[to + j])


@kernel(runtime=True)
def vanilla(x, w, h0, h, scratch, steps, n, size, relu):
    zero = x.dtype.type(0)
    wt = w.reshape((size, size)).T
    every = n * size
    for t in range(steps):
        before = h0[0:every] if t == 0 else h[(t - 1) * every : t * every]
        np.dot(before.reshape((n, size)), wt, scratch.reshape((n, size)))
        for i in range(every):
            a = x[t * every + i] + scratch[i]
            if relu:
                h[t * every + i] = zero if a < zero else a
            else:
                h[t * every + i] = tanh(a)


@kernel(runtime=True)
def vanilla_back(g, h, w, p, carry, steps, n, size, relu):
    one, zero = g.dtype.type(1), g.dtype.type(0)
    weights = w.reshape((size, size))
    every = n * size
    for k in range(steps):
        t = steps - 1 - k
        at = t * every
        for i in range(every):
            y = h[at + i]
            d = g[at + i] + carry[i]
            if relu:
                p[at + i] = d if y > zero else zero
            else:
                p[at + i] = d * (one - y) * (one + y)
        np.dot(p[at : at + every].reshape((n, size)), weights, carry.reshape((n, size)))


@kernel(runtime=True)
def lstm(x, w, h0, c0, h, c, scratch, steps, n, size):
    wt = w.reshape((4 * size, size)).T
    every = n * size
    for t in range(steps):
        before = h0[0:every] if t == 0 else h[(t - 1) * every : t * every]
        memory = c0[0:every] if t == 0 else c[(t - 1) * every : t * every]
        np.dot(before.reshape((n, size)), wt, scratch.reshape((n, 4 * size)))
        for b in range(n):
            row = b * 4 * size
            at = t * 4 * every + row
            _activate(x, at, scratch, row, 2 * size, 0)
            _activate(x, at + 2 * size, scratch, row + 2 * size, size, 1)
            _activate(x, at + 3 * size, scratch, row + 3 * size, size, 0)
            width, gates, here, q = np.uintp(size), np.uintp(row), np.uintp(t * every + b * size), np.uintp(b * size)
            for j in range(width):
                g = gates + j
                c[here + j] = scratch[g + width] * memory[q + j] + scratch[g] * scratch[g + width + width]
            for j in range(width):
                h[here + j] = scratch[gates + width + width + width + j] * tanh(c[here + j])


@kernel(runtime=True)
def lstm_back(gh, gc, x, s, c0, c, w, p, carry, memory, steps, n, size):
    """`s`: the hidden states' share of the preactivations, overwritten; `carry` and `memory`: zeros that become the
    cotangents of the initial states."""
    one = x.dtype.type(1)
    weights = w.reshape((4 * size, size))
    every = n * size
    width, two, three = np.uintp(size), np.uintp(2), np.uintp(3)
    for k in range(steps):
        t = steps - 1 - k
        before = c0[0:every] if t == 0 else c[(t - 1) * every : t * every]
        for b in range(n):
            row = (t * n + b) * 4 * size
            _activate(x, row, s, row, 2 * size, 0)
            _activate(x, row + 2 * size, s, row + 2 * size, size, 1)
            _activate(x, row + 3 * size, s, row + 3 * size, size, 0)
            at, here, q = np.uintp(row), np.uintp((t * n + b) * size), np.uintp(b * size)
            for j in range(width):
                p[at + j] = tanh(c[here + j])
            for j in range(width):
                i, f, u, o = s[at + j], s[at + width + j], s[at + two * width + j], s[at + three * width + j]
                v = p[at + j]
                dh = gh[here + j] + carry[q + j]
                dc = gc[here + j] + memory[q + j] + dh * o * (one - v) * (one + v)
                p[at + j] = dc * u * i * (one - i)
                p[at + width + j] = dc * before[q + j] * f * (one - f)
                p[at + two * width + j] = dc * i * (one - u) * (one + u)
                p[at + three * width + j] = dh * v * o * (one - o)
                memory[q + j] = dc * f
        rows = p[t * 4 * every : (t + 1) * 4 * every]
        np.dot(rows.reshape((n, 4 * size)), weights, carry.reshape((n, size)))


@kernel(runtime=True)
def gru(x, w, bias, h0, h, scratch, steps, n, size):
    wt = w.reshape((3 * size, size)).T
    every = n * size
    for t in range(steps):
        before = h0[0:every] if t == 0 else h[(t - 1) * every : t * every]
        np.dot(before.reshape((n, size)), wt, scratch.reshape((n, 3 * size)))
        for b in range(n):
            row = b * 3 * size
            at = t * 3 * every + row
            _activate(x, at, scratch, row, 2 * size, 0)
            new = row + 2 * size
            for j in range(size):
                scratch[new + j] = (scratch[new + j] + bias[j]) * scratch[row + j]
            _activate(x, at + 2 * size, scratch, new, size, 1)
            for j in range(size):
                u, z = scratch[new + j], scratch[row + size + j]
                h[t * every + b * size + j] = u + z * (before[b * size + j] - u)


@kernel(runtime=True)
def gru_back(g, x, s, bias, h0, h, w, p, q, carry, scratch, steps, n, size):
    """`s`: the hidden states' share of the preactivations, overwritten; `p` and `q`: the cotangents of `x` and of what
    `s` was."""
    one = x.dtype.type(1)
    weights = w.reshape((3 * size, size))
    every = n * size
    for k in range(steps):
        t = steps - 1 - k
        before = h0[0:every] if t == 0 else h[(t - 1) * every : t * every]
        for b in range(n):
            at = t * 3 * every + b * 3 * size
            _activate(x, at, s, at, 2 * size, 0)
            for j in range(size):
                q[at + j] = s[at + 2 * size + j] + bias[j]
                s[at + 2 * size + j] = q[at + j] * s[at + j]
            _activate(x, at + 2 * size, s, at + 2 * size, size, 1)
            for j in range(size):
                e = b * size + j
                r, z, u, m = s[at + j], s[at + size + j], s[at + 2 * size + j], q[at + j]
                d = g[t * every + e] + carry[e]
                dr_u = d * (one - z) * (one - u) * (one + u)
                p[at + j] = dr_u * m * r * (one - r)
                p[at + size + j] = d * (before[e] - u) * z * (one - z)
                p[at + 2 * size + j] = dr_u
                q[at + j] = p[at + j]
                q[at + size + j] = p[at + size + j]
                q[at + 2 * size + j] = dr_u * r
                carry[e] = d * z
        rows = q[t * 3 * every : (t + 1) * 3 * every]
        np.dot(rows.reshape((n, 3 * size)), weights, scratch.reshape((n, size)))
        for i in range(every):
            carry[i] += scratch[i]
