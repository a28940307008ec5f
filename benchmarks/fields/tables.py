"""Statistics, images, graphs and tables: five kernels of PolyBench."""

import math

import numpy as np

from . import Kernel


def covariance(data):
    n, m = data.shape
    mean = np.zeros(m)
    for j in range(m):
        for i in range(n):
            mean[j] += data[i, j]
        mean[j] /= n
    for i in range(n):
        for j in range(m):
            data[i, j] -= mean[j]
    cov = np.zeros((m, m))
    for i in range(m):
        for j in range(i, m):
            for k in range(n):
                cov[i, j] += data[k, i] * data[k, j]
            cov[i, j] /= n - 1.0
            cov[j, i] = cov[i, j]
    return np.sum(cov * cov)


def correlation(data):
    n = data.shape[0]
    centred = data - data.sum(axis=0) / n
    deviation = np.sqrt((centred * centred).sum(axis=0) / n)
    scaled = centred / (deviation * math.sqrt(n))
    corr = scaled.T @ scaled
    return np.sum(corr * corr)


def deriche(image, alpha):
    """Recursive smoothing, along rows and then along columns, each there and back."""
    n, m = image.shape
    e = math.exp(-alpha)
    k = (1.0 - e) ** 2 / (1.0 + 2.0 * alpha * e - e * e)
    a1, a2, a3, a4 = k, k * e * (alpha - 1.0), k * e * (alpha + 1.0), -k * e * e
    b1, b2 = 2.0 * e, -e * e
    there = np.zeros((n, m))
    back = np.zeros((n, m))
    for i in range(n):
        x1 = y1 = y2 = 0.0
        for j in range(m):
            there[i, j] = a1 * image[i, j] + a2 * x1 + b1 * y1 + b2 * y2
            x1 = image[i, j]
            y2 = y1
            y1 = there[i, j]
    for i in range(n):
        x1 = x2 = y1 = y2 = 0.0
        for j in range(m - 1, -1, -1):
            back[i, j] = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2
            x2 = x1
            x1 = image[i, j]
            y2 = y1
            y1 = back[i, j]
    smooth = there + back
    for j in range(m):
        x1 = y1 = y2 = 0.0
        for i in range(n):
            there[i, j] = a1 * smooth[i, j] + a2 * x1 + b1 * y1 + b2 * y2
            x1 = smooth[i, j]
            y2 = y1
            y1 = there[i, j]
    for j in range(m):
        x1 = x2 = y1 = y2 = 0.0
        for i in range(n - 1, -1, -1):
            back[i, j] = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2
            x2 = x1
            x1 = smooth[i, j]
            y2 = y1
            y1 = back[i, j]
    smooth = there + back
    return np.sum(smooth * smooth)


def floyd_warshall(paths):
    n = paths.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                paths[i, j] = min(paths[i, j], paths[i, k] + paths[k, j])
    return np.sum(paths)


def nussinov(score):
    """The best folding of a strand whose bases i and j gain `score[i, j]` as a pair."""
    n = score.shape[0]
    table = np.zeros((n, n))
    for i in range(n - 2, -1, -1):
        for j in range(i + 1, n):
            best = max(table[i + 1, j], table[i, j - 1])
            if j > i + 1:
                best = max(best, table[i + 1, j - 1] + score[i, j])
            for k in range(i + 1, j):
                best = max(best, table[i, k] + table[k + 1, j])
            table[i, j] = best
    return table[0, n - 1]


KERNELS = [
    Kernel(covariance, lambda rng, n: (rng.normal(size=(n + n // 2, n)),), (120,), (6,), products=True),
    Kernel(correlation, lambda rng, n: (rng.normal(size=(n + n // 2, n)),), (120,), (6,), products=True),
    Kernel(deriche, lambda rng, n: (rng.normal(size=(n, n)), 0.25), (250,), (6,)),
    Kernel(floyd_warshall, lambda rng, n: (rng.uniform(0.1, 10.0, (n, n)),), (90,), (6,)),
    Kernel(nussinov, lambda rng, n: (rng.normal(size=(n, n)),), (150,), (8,)),
]
