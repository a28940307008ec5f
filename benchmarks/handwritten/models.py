"""Models with matrix products, which are BLAS's; the rest is in loops around them."""

from __future__ import annotations

import math

import numpy as np

from nbgrad.vmath.exponential import exp, log
from nbgrad.vmath.hyperbolic import tanh

from .compiled import by_hand

ROWS = 128  # of a block whose intermediate results stay in the cache


@by_hand
def _linear(x, w, b, out):
    np.dot(x, w.T, out)
    for i in range(len(x)):
        row = out[i]
        for j in range(b.size):
            row[j] += b[j]


@by_hand
def _cross_entropy(y, labels, count):
    """The sum of these rows' losses; `y` becomes their gradient, divided by `count`."""
    total = 0.0
    for i in range(len(y)):
        row = y[i]
        top = row[0]
        for j in range(1, row.size):
            top = max(top, row[j])
        total += top - row[labels[i]]
        for j in range(row.size):
            row[j] = exp(row[j] - top)
        norm = row.sum()
        total += math.log(norm)
        for j in range(row.size):
            row[j] /= norm * count
        row[labels[i]] -= type(norm)(1 / count)
    return total / count


@by_hand
def _add_rows(g, out):
    out[:] = 0
    for i in range(len(g)):
        row = g[i]
        for j in range(out.size):
            out[j] += row[j]


@by_hand
def softmax_regression(x, labels, w, b, dw, db):
    dw[:] = 0
    db[:] = 0
    y, product, part = np.empty((ROWS, len(w))), np.empty_like(w), np.empty_like(b)
    total = 0.0
    for start in range(0, len(x), ROWS):
        rows = x[start : start + ROWS]
        g = y[: len(rows)]
        _linear(rows, w, b, g)
        total += _cross_entropy(g, labels[start : start + ROWS], len(x))
        np.dot(g.T, rows, product)
        dw += product
        _add_rows(g, part)
        db += part
    return total


@by_hand
def layer_norm(x, target, gain, bias, dx, dgain, dbias):
    dgain[:] = 0
    dbias[:] = 0
    n = gain.size
    total = 0.0
    for i in range(len(x)):
        row, goal, g = x[i], target[i], dx[i]
        mean = row.sum() / n
        square = 0.0
        for j in range(n):
            g[j] = row[j] - mean
            square += g[j] * g[j]
        scale = 1 / math.sqrt(square / n + 1e-5)
        first = second = 0.0
        for j in range(n):
            normal = g[j] * scale
            miss = normal * gain[j] + bias[j] - goal[j]
            total += miss * miss
            e = 2 / x.size * miss
            dgain[j] += e * normal
            dbias[j] += e
            g[j] = e * gain[j]
            first += g[j]
            second += g[j] * normal
        first, second = first / n, second / n
        for j in range(n):
            g[j] = scale * (g[j] - first - (row[j] - mean) * scale * second)
    return total / x.size


@by_hand
def _rectify(y):
    for i in range(len(y)):
        row = y[i]
        for j in range(row.size):
            row[j] = max(row[j], 0.0)


@by_hand
def _rectified(y, g):
    for i in range(len(y)):
        row, to = y[i], g[i]
        for j in range(row.size):
            to[j] = to[j] if row[j] > 0 else 0.0


@by_hand
def mlp(x, labels, w1, b1, w2, b2, w3, b3, dw1, db1, dw2, db2, dw3, db3):
    n = len(x)
    h1, h2, g3 = np.empty((n, b1.size)), np.empty((n, b2.size)), np.empty((n, b3.size))
    _linear(x, w1, b1, h1)
    _rectify(h1)
    _linear(h1, w2, b2, h2)
    _rectify(h2)
    _linear(h2, w3, b3, g3)
    loss = _cross_entropy(g3, labels, n)
    np.dot(g3.T, h2, dw3)
    _add_rows(g3, db3)
    g2 = np.dot(g3, w3)
    _rectified(h2, g2)
    np.dot(g2.T, h1, dw2)
    _add_rows(g2, db2)
    g1 = np.dot(g2, w2)
    _rectified(h1, g1)
    np.dot(g1.T, x, dw1)
    _add_rows(g1, db1)
    return loss


@by_hand
def matmul(a, b, da, db):
    ones = np.ones((len(a), b.shape[1]))
    np.dot(ones, b.T, da)
    np.dot(a.T, ones, db)
    return np.dot(a, b).sum()


@by_hand
def _times_slope(h, g):
    """g*(1 - h*h), in place: back through h = tanh(...)."""
    h, g = h.reshape(-1), g.reshape(-1)
    for i in range(h.size):
        g[i] *= 1 - h[i] * h[i]


@by_hand
def _tanh(h):
    h = h.reshape(-1)
    for i in range(h.size):
        h[i] = tanh(h[i])


@by_hand
def perceptron(x, w, v, dx, dw, dv):
    h = np.dot(x, w)
    _tanh(h)
    y = np.dot(h, v)
    loss = (y * y).sum()
    y *= 2
    np.dot(h.T, y, dv)
    g = np.dot(y, v.T)
    _times_slope(h, g)
    np.dot(x.T, g, dw)
    np.dot(g, w.T, dx)
    return loss


@by_hand
def recurrent(x, target, w, u, b, v, c, dw, du, db, dv, dc):
    steps, batch, inputs = x.shape
    flat = x.reshape(-1, inputs)
    every = np.empty((steps * batch, b.size))
    _linear(flat, w, b, every)
    h = every.reshape(steps, batch, b.size)
    product = np.empty((batch, b.size))
    _tanh(h[0])
    for t in range(1, steps):
        np.dot(h[t - 1], u, product)
        h[t] += product
        _tanh(h[t])
    miss = np.empty_like(target)
    _linear(h[-1], v, c, miss)
    miss -= target
    loss = (miss * miss).sum() / miss.size
    miss *= 2 / miss.size
    np.dot(miss.T, h[-1], dv)
    _add_rows(miss, dc)
    g = np.empty_like(h)
    np.dot(miss, v, g[-1])
    for t in range(steps - 1, 0, -1):
        _times_slope(h[t], g[t])
        np.dot(g[t], u.T, g[t - 1])
    _times_slope(h[0], g[0])
    back = g.reshape(-1, b.size)
    np.dot(back.T, flat, dw)
    np.dot(every[:-batch].T, back[batch:], du)
    _add_rows(back, db)
    return loss


@by_hand
def mixture(x, alphas, means, factors, dalphas, dmeans, dfactors):
    d, count = x.shape[1], len(alphas)
    dalphas[:] = 0
    dmeans[:] = 0
    dfactors[:] = 0
    columns = np.empty((d, ROWS))
    c, y = np.empty((count, d, ROWS)), np.empty((count, d, ROWS))
    inner, top, norm = np.empty((count, ROWS)), np.empty(ROWS), np.empty(ROWS)
    q, base = np.copy(factors), np.copy(alphas)
    for k in range(count):
        for i in range(d):
            base[k] += q[k, i, i]
            q[k, i, i] = exp(q[k, i, i])
    total = 0.0
    for start in range(0, len(x), ROWS):
        n = min(ROWS, len(x) - start)
        for p in range(n):
            for j in range(d):
                columns[j, p] = x[start + p, j]
        top[:] = -np.inf
        norm[:] = 0
        for k in range(count):
            to = inner[k]
            to[:n] = base[k]
            for i in range(d):
                yi, ci, column, mean = y[k, i], c[k, i], columns[i], means[k, i]
                for p in range(n):
                    ci[p] = column[p] - mean
                    yi[p] = q[k, i, i] * ci[p]
                for j in range(i):
                    cj, factor = c[k, j], q[k, i, j]
                    for p in range(n):
                        yi[p] += factor * cj[p]
                for p in range(n):
                    to[p] -= 0.5 * yi[p] * yi[p]
            for p in range(n):
                top[p] = max(top[p], to[p])
        for k in range(count):
            to = inner[k]
            for p in range(n):
                to[p] = exp(to[p] - top[p])
                norm[p] += to[p]
        for p in range(n):
            total += top[p] + log(norm[p])
            norm[p] = 1 / norm[p]
        for k in range(count):
            share = inner[k]
            weight = 0.0
            for p in range(n):
                share[p] *= norm[p]
                weight += share[p]
            dalphas[k] += weight
            for i in range(d):
                yi = y[k, i]
                lost = 0.0
                for p in range(n):
                    yi[p] *= share[p]
                    lost += yi[p]
                for j in range(i + 1):
                    cj = c[k, j]
                    g = 0.0
                    for p in range(n):
                        g += yi[p] * cj[p]
                    dfactors[k, i, j] -= g * q[k, i, i] if i == j else g
                    dmeans[k, j] += lost * q[k, i, j]
                dfactors[k, i, i] += weight
    peak = alphas.max()
    spread = np.exp(alphas - peak)
    whole = spread.sum()
    dalphas -= len(x) * spread / whole
    constant = -0.5 * x.size * math.log(2 * math.pi)
    return total - len(x) * (peak + math.log(whole)) + constant


@by_hand
def _unfold(x, size, out):
    """What each element of a convolution's kernel meets: a row each."""
    rows, columns = x.shape[1] - size + 1, x.shape[2] - size + 1
    for c in range(len(x)):
        for i in range(size):
            for j in range(size):
                to = out[(c * size + i) * size + j]
                for r in range(rows):
                    for k in range(columns):
                        to[r * columns + k] = x[c, r + i, j + k]


@by_hand
def _fold(g, size, out):
    """The adjoint of :func:`_unfold`."""
    rows, columns = out.shape[1] - size + 1, out.shape[2] - size + 1
    out[:] = 0
    for c in range(len(out)):
        for i in range(size):
            for j in range(size):
                row = g[(c * size + i) * size + j]
                for r in range(rows):
                    for k in range(columns):
                        out[c, r + i, j + k] += row[r * columns + k]


@by_hand
def _pool(y, bias, out, where):
    """tanh(max + bias) over squares of 2 by 2, and which of the four was the largest."""
    for c in range(len(out)):
        for i in range(out.shape[1]):
            upper, lower = y[c, 2 * i], y[c, 2 * i + 1]
            to, at = out[c, i], where[c, i]
            for j in range(to.size):
                top, low = max(upper[2 * j], upper[2 * j + 1]), max(lower[2 * j], lower[2 * j + 1])
                at[j] = (upper[2 * j + 1] > upper[2 * j]) if top >= low else 2 + (lower[2 * j + 1] > lower[2 * j])
                to[j] = max(top, low) + bias[c]
    _tanh(out)


@by_hand
def _pool_back(h, g, where, out, dbias):
    out[:] = 0
    for c in range(len(g)):
        for i in range(g.shape[1]):
            for j in range(g.shape[2]):
                part = g[c, i, j] * (1 - h[c, i, j] * h[c, i, j])
                dbias[c] += part
                at = where[c, i, j]
                out[c, 2 * i + at // 2, 2 * j + at % 2] = part


@by_hand
def lenet(images, labels, k1, c1, k2, c2, w1, b1, w2, b2, dk1, dc1, dk2, dc2, dw1, db1, dw2, db2):
    n, size = len(images), k1.shape[2]
    first = images.shape[2] - size + 1
    second = first // 2 - size + 1
    flat1, flat2 = k1.reshape(len(k1), -1), k2.reshape(len(k2), -1)
    unfolded1 = np.empty((flat1.shape[1], first * first), k1.dtype)
    unfolded2 = np.empty((flat2.shape[1], second * second), k1.dtype)
    y1, y2 = np.empty((len(k1), first, first), k1.dtype), np.empty((len(k2), second, second), k1.dtype)
    lines1, lines2 = y1.reshape(len(k1), -1), y2.reshape(len(k2), -1)
    h1, h2 = np.empty((n, len(k1), first // 2, first // 2), k1.dtype), np.empty((n, w1.shape[1]), k1.dtype)
    at1 = np.empty(h1.shape, np.uint8)
    at2 = np.empty((n, len(k2), second // 2, second // 2), np.uint8)
    h3, g4 = np.empty((n, b1.size), k1.dtype), np.empty((n, b2.size), k1.dtype)
    for i in range(n):
        _unfold(images[i], size, unfolded1)
        np.dot(flat1, unfolded1, lines1)
        _pool(y1, c1, h1[i], at1[i])
        _unfold(h1[i], size, unfolded2)
        np.dot(flat2, unfolded2, lines2)
        _pool(y2, c2, h2[i].reshape(at2[i].shape), at2[i])
    _linear(h2, w1, b1, h3)
    _tanh(h3)
    _linear(h3, w2, b2, g4)
    loss = _cross_entropy(g4, labels, n)
    np.dot(g4.T, h3, dw2)
    _add_rows(g4, db2)
    g3 = np.dot(g4, w2)
    _times_slope(h3, g3)
    np.dot(g3.T, h2, dw1)
    _add_rows(g3, db1)
    g2 = np.dot(g3, w1)
    g1, dunfolded = np.empty(h1.shape[1:], k1.dtype), np.empty_like(unfolded2)
    part1, part2 = np.empty_like(flat1), np.empty_like(flat2)
    dflat1, dflat2 = np.zeros_like(flat1), np.zeros_like(flat2)
    dc1[:] = 0
    dc2[:] = 0
    for i in range(n):
        shape = at2[i].shape
        _pool_back(h2[i].reshape(shape), g2[i].reshape(shape), at2[i], y2, dc2)
        _unfold(h1[i], size, unfolded2)
        np.dot(lines2, unfolded2.T, part2)
        dflat2 += part2
        np.dot(flat2.T, lines2, dunfolded)
        _fold(dunfolded, size, g1)
        _pool_back(h1[i], g1, at1[i], y1, dc1)
        _unfold(images[i], size, unfolded1)
        np.dot(lines1, unfolded1.T, part1)
        dflat1 += part1
    dk1[:] = dflat1.reshape(k1.shape)
    dk2[:] = dflat2.reshape(k2.shape)
    return loss
