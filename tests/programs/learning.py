"""Statistics, signals, learning."""

import math

import numpy as np

from .data import normal, positive


def kalman(z, x, P, F, H, Q, R):
    """A filter with two states and one measurement, as matrix products."""
    loglik = 0.0
    for t in range(z.size):
        x = F @ x
        P = F @ P @ F.T + Q
        y = z[t] - np.dot(H, x)
        PH = np.dot(P, H)
        S = np.dot(H, PH) + R
        K = PH / S
        x = x + K * y
        P = P - np.outer(K, PH)
        loglik += -0.5 * (math.log(2 * math.pi * S) + y * y / S)
    return loglik, x


def hmm_forward(start, transition, emission, observed):
    """Scaled forward recursion."""
    n = start.shape[0]
    alpha = start * emission[:, observed[0]]
    scale = alpha.sum()
    alpha /= scale
    loglik = np.log(scale)
    for t in range(1, observed.shape[0]):
        new = np.zeros(n)
        for j in range(n):
            new[j] = np.sum(alpha * transition[:, j]) * emission[j, observed[t]]
        scale = new.sum()
        alpha = new / scale
        loglik += np.log(scale)
    return loglik


def log_viterbi(score, trans):
    """Soft-max over paths, with the largest taken out."""
    T, n = score.shape
    best = score[0].copy()
    for t in range(1, T):
        step = np.empty(n)
        for j in range(n):
            m = np.max(best + trans[:, j])
            step[j] = m + math.log(np.sum(np.exp(best + trans[:, j] - m))) + score[t, j]
        best[:] = step
    m = best.max()
    return m + np.log(np.exp(best - m).sum())


def soft_edit(a, b, gap, gamma):
    """Soft alignment of two series, prefix table."""
    n, m = len(a), len(b)
    D = np.zeros((n + 1, m + 1))
    D[1:, 0] = gap * np.arange(1, n + 1)
    D[0, :] = np.arange(m + 1) * gap
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            p = D[i - 1, j - 1] + (a[i - 1] - b[j - 1]) ** 2
            q, r = D[i - 1, j] + gap, D[i, j - 1] + gap
            low = min(p, q, r)
            z = math.exp((low - p) / gamma) + math.exp((low - q) / gamma) + math.exp((low - r) / gamma)
            D[i, j] = low - gamma * math.log(z)
    return D[-1, -1]


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def gru(x, h, Wz, Wr, Wh):
    """A recurrent cell over a sequence, whole-array expressions."""
    for t in range(x.shape[0]):
        row = x[t]
        z = sigmoid(Wz @ row + 0.3 * h)
        r = sigmoid(Wr @ row - 0.2 * h)
        c = np.tanh(np.dot(Wh, row) + r * h)
        h = (1 - z) * h + z * c
    return h


def mlp_loss(W1, b1, W2, x, target):
    """A small network over samples, rows by name."""
    loss = 0.0
    for sample, t in zip(x, target):
        hidden = np.empty(b1.size)
        for j, b in enumerate(b1):
            acc = b
            for k in range(len(sample)):
                acc += W1[j, k] * sample[k]
            hidden[j] = acc if acc > 0 else 0.1 * acc
        out = np.dot(W2, hidden)
        loss += (out - t) ** 2
    return loss / len(target)


def softmax_regression(W, x, labels):
    total = 0.0
    for i in range(x.shape[0]):
        logits = np.dot(W, x[i])
        logits -= np.max(logits)
        p = np.exp(logits)
        total -= math.log(p[labels[i]] / np.sum(p))
    return total + 0.01 * np.sum(W**2)


def option(s0, sigma, r, strike, noise, dt, barrier):
    """Monte Carlo paths with given random numbers, a barrier."""
    payoff = 0.0
    paths, steps = noise.shape
    for p in range(paths):
        s = s0
        alive = True
        for k in range(steps):
            s *= math.exp((r - 0.5 * sigma**2) * dt + sigma * math.sqrt(dt) * noise[p, k])
            if s > barrier:
                alive = False
                break
        if not alive:
            continue
        payoff += max(s - strike, 0.0)
    return math.exp(-r * dt * steps) * payoff / paths


def garch(returns, omega, alpha, beta):
    var = np.var(returns)
    ll = 0.0
    for i, r in enumerate(returns):
        if i > 0:
            var = omega + alpha * returns[i - 1] ** 2 + beta * var
        ll -= 0.5 * (np.log(var) + r * r / var)
    return ll


def exponential_smoothing(x, alpha, beta=0.3):
    level, trend = x[0], x[1] - x[0]
    sse = 0.0
    for v in x[1:]:
        forecast = level + trend
        sse += (v - forecast) ** 2
        level, trend = alpha * v + (1 - alpha) * forecast, beta * (forecast - level) + (1 - beta) * trend
    return sse


def iir(x, b, a):
    """A digital filter, direct form."""
    y = np.zeros(x.size)
    for n in range(len(x)):
        for k in range(b.size):
            if n - k < 0:
                break
            y[n] += b[k] * x[n - k]
        for k in range(1, a.size):
            if n >= k:
                y[n] -= a[k] * y[n - k]
        y[n] /= a[0]
    return y


def dft_power(x, k):
    """One line of a spectrum by sums of sines."""
    re = im = 0.0
    for n in range(x.size):
        phase = 2 * np.pi * k * n / x.size
        re += x[n] * np.cos(phase)
        im -= x[n] * np.sin(phase)
    return re**2 + im**2


def bilateral(image, sigma_s, sigma_r):
    rows, cols = image.shape
    out = np.zeros_like(image)
    for i in range(rows):
        for j in range(cols):
            total = weight = 0.0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    ii, jj = i + di, j + dj
                    if ii < 0 or ii >= rows or jj < 0 or jj >= cols:
                        continue
                    w = math.exp(-(di * di + dj * dj) / (2 * sigma_s**2))
                    w *= math.exp(-((image[ii, jj] - image[i, j]) ** 2) / (2 * sigma_r**2))
                    total += w * image[ii, jj]
                    weight += w
            out[i, j] = total / weight
    return out


def convolve(image, kernel):
    """Windows of an image by slices in loops."""
    n, m = kernel.shape
    out = np.empty((image.shape[0] - n + 1, image.shape[1] - m + 1))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.sum(image[i : i + n, j : j + m] * kernel[::-1, ::-1])
    return np.maximum(out, 0.0)


PROGRAMS = {
    kalman: (
        normal(4),
        normal(2),
        np.eye(2) + 0.1,
        np.array([[1.0, 0.1], [0.0, 0.9]]),
        np.array([1.0, 0.2]),
        0.1 * np.eye(2),
        0.3,
    ),
    hmm_forward: (positive(3), positive(3, 3), positive(3, 4), np.array([0, 2, 1, 3])),
    log_viterbi: (normal(4, 3), normal(3, 3)),
    soft_edit: (normal(4), normal(3), 0.7, 0.4),
    gru: (normal(3, 2), normal(3), normal(3, 2), normal(3, 2), normal(3, 2)),
    mlp_loss: (normal(3, 2), normal(3), normal(3), normal(4, 2), normal(4)),
    softmax_regression: (normal(3, 2), normal(4, 2), np.array([0, 2, 1, 2])),
    option: (100.0, 0.3, 0.05, 95.0, normal(5, 4), 0.25, 150.0),
    garch: (0.1 * normal(6), 0.02, 0.1, 0.8),
    exponential_smoothing: (normal(6), 0.4, 0.2),
    iir: (normal(6), normal(3), np.array([1.1, 0.3, -0.2])),
    dft_power: (normal(6), 2),
    bilateral: (normal(4, 4), 1.2, 0.8),
    convolve: (normal(5, 5), normal(2, 3)),
}
