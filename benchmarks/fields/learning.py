"""Machine learning."""

import math

import numpy as np

from . import Kernel


def perceptron(x, labels, w1, b1, w2, b2):
    """The cross-entropy of two layers."""
    hidden = np.tanh(x @ w1 + b1)
    scores = hidden @ w2 + b2
    loss = 0.0
    for i in range(labels.size):
        row = scores[i]
        top = row.max()
        loss += top + math.log(np.sum(np.exp(row - top))) - row[labels[i]]
    return loss / labels.size


def convolution(images, weights, bias):
    """A layer of convolutions, rectified, and the mean square of it."""
    count, channels, n, m = images.shape
    filters, _, high, wide = weights.shape
    total = 0.0
    for b in range(count):
        for f in range(filters):
            for i in range(n - high + 1):
                for j in range(m - wide + 1):
                    s = bias[f]
                    for c in range(channels):
                        for k in range(high):
                            for q in range(wide):
                                s += images[b, c, i + k, j + q] * weights[f, c, k, q]
                    total += max(s, 0.0) ** 2
    return total / count


def attention(x, wq, wk, wv, target):
    """One head of self-attention, compared with a target."""
    q, k, v = x @ wq, x @ wk, x @ wv
    scores = q @ k.T / math.sqrt(wq.shape[1])
    n = scores.shape[0]
    for i in range(n):
        e = np.exp(scores[i] - scores[i].max())
        scores[i] = e / e.sum()
    return np.sum((scores @ v - target) ** 2)


def mixture(points, logits, means, log_widths):
    """The log-likelihood of a mixture of Gaussians, each with a width per coordinate."""
    n, d = points.shape
    count = logits.size
    shares = logits - math.log(np.sum(np.exp(logits)))
    terms = np.empty(count)
    total = 0.0
    for i in range(n):
        for k in range(count):
            s = shares[k]
            for j in range(d):
                z = (points[i, j] - means[k, j]) * math.exp(-log_widths[k, j])
                s -= 0.5 * z * z + log_widths[k, j] + 0.5 * math.log(2.0 * math.pi)
            terms[k] = s
        top = terms.max()
        s = 0.0
        for k in range(count):
            s += math.exp(terms[k] - top)
        total += top + math.log(s)
    return total / n


def _layers(rng, batch, inside, hidden):
    normal = rng.normal
    return (normal(size=(batch, inside)), rng.integers(0, 10, batch), normal(size=(inside, hidden)) / math.sqrt(inside),
            normal(size=hidden), normal(size=(hidden, 10)) / math.sqrt(hidden), normal(size=10))  # fmt: skip


def _images(rng, count, n, channels):
    return rng.normal(size=(count, channels, n, n)), rng.normal(size=(8, channels, 3, 3)), rng.normal(size=8)


def _tokens(rng, n, width):
    return (
        rng.normal(size=(n, width)),
        *rng.normal(size=(3, width, width)) / math.sqrt(width),
        rng.normal(size=(n, width)),
    )


def _points(rng, n, d, count):
    return (
        rng.normal(size=(n, d)),
        rng.normal(size=count),
        rng.normal(size=(count, d)),
        0.3 * rng.normal(size=(count, d)),
    )


KERNELS = [
    Kernel(perceptron, _layers, (256, 64, 128), (5, 3, 4), products=True),
    Kernel(convolution, _images, (8, 32, 3), (2, 5, 2), products=True),
    Kernel(attention, _tokens, (128, 64), (5, 3), products=True),
    Kernel(mixture, _points, (2000, 4, 8), (6, 2, 3)),
]
