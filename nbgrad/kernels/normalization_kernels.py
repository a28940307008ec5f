"""The kernels of batch and layer normalization, on flat buffers; the maths is in :mod:`.normalization`."""

from __future__ import annotations

import numpy as np

from ..backends import threads
from ..backends.numba.compile import inline, kernel

__all__ = [
    "batch_norm_back_rows",
    "batch_norm_back_runs",
    "batch_norm_rows",
    "batch_norm_runs",
    "layer_norm",
    "layer_norm_back",
]

# Sums over a run of memory, in vector registers; the caller adds up runs in float64.


@inline(reorder=True)
def _sum(x, start, n):
    total = x.dtype.type(0)
    for i in range(n):
        total += x[start + i]
    return total


@inline(reorder=True)
def _sum_squares(x, start, n, mean):
    total = x.dtype.type(0)
    for i in range(n):
        d = x[start + i] - mean
        total += d * d
    return total


@inline(reorder=True)
def _sum_products(g, x, start, n, mean):
    total = x.dtype.type(0)
    for i in range(n):
        total += g[start + i] * (x[start + i] - mean)
    return total


# Per channel: x (outer, channels, inner). A channel at a time where its elements lie in runs, so that it stays in
# the cache between passes, those from `first` to `last`; a row of channels at a time where inner is 1.


@kernel
def batch_norm_runs(x, gamma, beta, y, mean, variance, outer, channels, inner, eps, first, last):
    step, n = np.uintp(channels * inner), np.uintp(inner)
    count = np.float64(outer * inner)
    for c in range(np.uintp(first), np.uintp(last)):
        total = 0.0
        for o in range(np.uintp(outer)):
            total += _sum(x, o * step + c * n, n)
        mu = x.dtype.type(total / count)
        total = 0.0
        for o in range(np.uintp(outer)):
            total += _sum_squares(x, o * step + c * n, n, mu)
        mean[c] = mu
        variance[c] = total / count
        scale = x.dtype.type(gamma[c] / np.sqrt(total / count + eps))
        shift = x.dtype.type(beta[c])
        for o in range(np.uintp(outer)):
            at = o * step + c * n
            for i in range(n):
                y[at + i] = (x[at + i] - mu) * scale + shift


@kernel
def batch_norm_rows(x, gamma, beta, y, mean, variance, acc, rows, channels, eps):
    """The same for inner = 1; `acc` has room for two float64 per channel."""
    width = np.uintp(channels)
    count = np.float64(rows)
    for c in range(np.uintp(2) * width):
        acc[c] = 0
    for o in range(np.uintp(rows)):
        for c in range(width):
            acc[c] += x[o * width + c]
    for c in range(width):
        mean[c] = acc[c] / count
    for o in range(np.uintp(rows)):
        for c in range(width):
            d = x[o * width + c] - mean[c]
            acc[width + c] += d * d
    for c in range(width):
        variance[c] = acc[width + c] / count
        acc[c] = gamma[c] / np.sqrt(acc[width + c] / count + eps)
    for o in range(np.uintp(rows)):
        for c in range(width):
            y[o * width + c] = (x[o * width + c] - mean[c]) * x.dtype.type(acc[c]) + beta[c]


@kernel
def batch_norm_back_runs(
    g, x, gamma, mean, variance, dx, dgamma, dbeta, outer, channels, inner, eps, want_data, first, last
):
    step, n = np.uintp(channels * inner), np.uintp(inner)
    count = np.float64(outer * inner)
    for c in range(np.uintp(first), np.uintp(last)):
        mu = x.dtype.type(mean[c])
        rstd = 1.0 / np.sqrt(variance[c] + eps)
        total = 0.0
        product = 0.0
        for o in range(np.uintp(outer)):
            total += _sum(g, o * step + c * n, n)
            product += _sum_products(g, x, o * step + c * n, n, mu)
        dbeta[c] = total
        dgamma[c] = product * rstd
        if want_data:
            scale = x.dtype.type(gamma[c] * rstd)
            shift = x.dtype.type(total / count)
            slope = x.dtype.type(product * rstd * rstd / count)
            for o in range(np.uintp(outer)):
                at = o * step + c * n
                for i in range(n):
                    dx[at + i] = scale * (g[at + i] - shift - (x[at + i] - mu) * slope)


@kernel
def batch_norm_back_rows(g, x, gamma, mean, variance, dx, dgamma, dbeta, acc, rows, channels, eps, want_data):
    width = np.uintp(channels)
    count = np.float64(rows)
    for c in range(np.uintp(2) * width):
        acc[c] = 0
    for o in range(np.uintp(rows)):
        for c in range(width):
            acc[c] += g[o * width + c]
            acc[width + c] += g[o * width + c] * (x[o * width + c] - mean[c])
    for c in range(width):
        rstd = 1.0 / np.sqrt(variance[c] + eps)
        dbeta[c] = acc[c]
        dgamma[c] = acc[width + c] * rstd
        acc[c] /= count
        acc[width + c] *= rstd * rstd / count
    if want_data:
        for o in range(np.uintp(rows)):
            for c in range(width):
                i = o * width + c
                scale = gamma[c] / np.sqrt(variance[c] + x.dtype.type(eps))
                slope = x.dtype.type(acc[width + c])
                dx[i] = scale * (g[i] - x.dtype.type(acc[c]) - (x[i] - mean[c]) * slope)


# Per row: x (rows, n).


@kernel
def layer_norm(x, gamma, beta, y, mean, variance, rows, n, eps):
    width = np.uintp(n)
    for o in range(np.uintp(rows)):
        at = o * width
        mu = x.dtype.type(np.float64(_sum(x, at, width)) / n)
        var_ = np.float64(_sum_squares(x, at, width, mu)) / n
        mean[o] = mu
        variance[o] = var_
        rstd = x.dtype.type(1.0 / np.sqrt(var_ + eps))
        for i in range(width):
            y[at + i] = (x[at + i] - mu) * rstd * gamma[i] + beta[i]


@inline(reorder=True)
def _layer_sums(g, x, gamma, dgamma, dbeta, at, width, mu, rstd):
    """The sums over a row that its dx takes; the row is added to dgamma and dbeta."""
    total = x.dtype.type(0)
    product = x.dtype.type(0)
    for i in range(width):
        h = g[at + i]
        centred = x[at + i] - mu
        dgamma[i] += h * centred * rstd
        dbeta[i] += h
        k = h * gamma[i]
        total += k
        product += k * centred
    return total, product


@kernel
def _layer_norm_back(g, x, gamma, mean, variance, dx, dgamma, dbeta, rows, n, eps, want_data):
    width = np.uintp(n)
    for i in range(width):
        dgamma[i] = 0
        dbeta[i] = 0
    for o in range(np.uintp(rows)):
        at = o * width
        mu = mean[o]
        rstd = x.dtype.type(1.0 / np.sqrt(np.float64(variance[o]) + eps))
        total, product = _layer_sums(g, x, gamma, dgamma, dbeta, at, width, mu, rstd)
        if want_data:
            shift = x.dtype.type(total / n)
            slope = x.dtype.type(product / n) * rstd * rstd
            for i in range(width):
                dx[at + i] = rstd * (g[at + i] * gamma[i] - shift - (x[at + i] - mu) * slope)


def layer_norm_back(buffers: list[np.ndarray], rows: int, n: int, eps: float, wanted: int) -> None:
    """g, x, gamma, mean, variance -> dx (if `wanted`), dgamma, dbeta: in blocks of rows, whose sums for gamma and beta
    are added at the end. The blocks depend on sizes alone, and so the result does not depend on the threads."""
    block = max(64, (1 << 16) // n)
    if rows <= block:
        _layer_norm_back(*buffers, rows, n, eps, wanted)
        return
    *given, dgamma, dbeta = buffers
    blocks = -(-rows // block)
    parts = np.empty((2, blocks, n), dgamma.dtype)
    strides = (n, n, 0, 1, 1, n * wanted)

    def call(start: int, stop: int) -> None:
        for b in range(start, stop):
            first, last = b * block, min(rows, (b + 1) * block)
            some = threads.row_slices(given, strides, first, last)
            _layer_norm_back(*some, parts[0, b], parts[1, b], last - first, n, eps, wanted)

    threads.parallel_ranges(call, blocks, 2 * block * n)
    dgamma[:], dbeta[:] = parts.sum(axis=1, dtype=np.float64)
