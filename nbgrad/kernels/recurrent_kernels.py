"""Kernels of one recurrent layer in one direction: forward, and what reaches the preactivations backward.

All are over time. `x` holds the input's share of the preactivations, (steps, n, gates*size); `w` the hidden-to-hidden
weights, (gates*size, size); hidden states are (n, size). The matrix products run in BLAS, a step at a time.
"""

from __future__ import annotations

import numpy as np

from ..codegen.compile import inline, kernel

__all__ = ["gru", "gru_back", "lstm", "lstm_back", "vanilla", "vanilla_back"]


@inline
def _sigmoid(v, one):
    return one / (one + np.exp(-v))


@kernel
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
                h[t * every + i] = np.tanh(a)


@kernel
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


@kernel
def lstm(x, w, h0, c0, h, c, scratch, steps, n, size):
    one = x.dtype.type(1)
    wt = w.reshape((4 * size, size)).T
    every = n * size
    for t in range(steps):
        before = h0[0:every] if t == 0 else h[(t - 1) * every : t * every]
        memory = c0[0:every] if t == 0 else c[(t - 1) * every : t * every]
        np.dot(before.reshape((n, size)), wt, scratch.reshape((n, 4 * size)))
        for b in range(n):
            row = b * 4 * size
            at = t * 4 * every + row
            for j in range(size):
                i = _sigmoid(x[at + j] + scratch[row + j], one)
                f = _sigmoid(x[at + size + j] + scratch[row + size + j], one)
                u = np.tanh(x[at + 2 * size + j] + scratch[row + 2 * size + j])
                o = _sigmoid(x[at + 3 * size + j] + scratch[row + 3 * size + j], one)
                v = f * memory[b * size + j] + i * u
                c[t * every + b * size + j] = v
                h[t * every + b * size + j] = o * np.tanh(v)


@kernel
def lstm_back(gh, gc, a, c0, c, w, p, carry, memory, steps, n, size):
    """`a`: all preactivations; `carry` and `memory`: zeros that become the cotangents of the initial states."""
    one = a.dtype.type(1)
    weights = w.reshape((4 * size, size))
    every = n * size
    for k in range(steps):
        t = steps - 1 - k
        before = c0[0:every] if t == 0 else c[(t - 1) * every : t * every]
        for b in range(n):
            at = t * 4 * every + b * 4 * size
            for j in range(size):
                q = b * size + j
                i = _sigmoid(a[at + j], one)
                f = _sigmoid(a[at + size + j], one)
                u = np.tanh(a[at + 2 * size + j])
                o = _sigmoid(a[at + 3 * size + j], one)
                v = np.tanh(c[t * every + q])
                dh = gh[t * every + q] + carry[q]
                dc = gc[t * every + q] + memory[q] + dh * o * (one - v) * (one + v)
                p[at + j] = dc * u * i * (one - i)
                p[at + size + j] = dc * before[q] * f * (one - f)
                p[at + 2 * size + j] = dc * i * (one - u) * (one + u)
                p[at + 3 * size + j] = dh * v * o * (one - o)
                memory[q] = dc * f
        rows = p[t * 4 * every : (t + 1) * 4 * every]
        np.dot(rows.reshape((n, 4 * size)), weights, carry.reshape((n, size)))


@kernel
def gru(x, w, bias, h0, h, scratch, steps, n, size):
    one = x.dtype.type(1)
    wt = w.reshape((3 * size, size)).T
    every = n * size
    for t in range(steps):
        before = h0[0:every] if t == 0 else h[(t - 1) * every : t * every]
        np.dot(before.reshape((n, size)), wt, scratch.reshape((n, 3 * size)))
        for b in range(n):
            row = b * 3 * size
            at = t * 3 * every + row
            for j in range(size):
                r = _sigmoid(x[at + j] + scratch[row + j], one)
                z = _sigmoid(x[at + size + j] + scratch[row + size + j], one)
                u = np.tanh(x[at + 2 * size + j] + r * (scratch[row + 2 * size + j] + bias[j]))
                h[t * every + b * size + j] = u + z * (before[b * size + j] - u)


@kernel
def gru_back(g, x, s, bias, h0, h, w, p, q, carry, scratch, steps, n, size):
    """`s`: the hidden states' share of the preactivations; `p` and `q`: the cotangents of `x` and of `s`."""
    one = x.dtype.type(1)
    weights = w.reshape((3 * size, size))
    every = n * size
    for k in range(steps):
        t = steps - 1 - k
        before = h0[0:every] if t == 0 else h[(t - 1) * every : t * every]
        for b in range(n):
            at = t * 3 * every + b * 3 * size
            for j in range(size):
                e = b * size + j
                r = _sigmoid(x[at + j] + s[at + j], one)
                z = _sigmoid(x[at + size + j] + s[at + size + j], one)
                m = s[at + 2 * size + j] + bias[j]
                u = np.tanh(x[at + 2 * size + j] + r * m)
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
