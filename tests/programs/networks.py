"""Fields, networks, statistics: NumPy's functions beside loops."""

from collections import namedtuple

import numpy as np

from .data import normal, positive

State = namedtuple("State", "S E I R")


def muskingum(inflow, K, X, reaches):
    """Routing of a flood through reaches, in place."""
    out = inflow.copy()
    dt = 1.0
    D = 2 * K * (1 - X) + dt
    c0, c1, c2 = ((dt - 2 * K * X) / D, (dt + 2 * K * X) / D, (2 * K * (1 - X) - dt) / D)
    for _ in range(reaches):
        prev_out = out[0]
        prev_in = out[0]
        for i in range(1, len(out)):
            q = c0 * out[i] + c1 * prev_in + c2 * prev_out
            prev_in = out[i]
            out[i] = q
            prev_out = q
    return (out.max(), out)


def gray_scott(u, feed, k, steps):
    """Two fields in a loop over a tuple of arrays, periodic by np.roll."""
    v = np.zeros_like(u)
    v[2:4, 2:4] = 0.5
    lap = np.zeros((2,) + u.shape)
    for _ in range(steps):
        for c, f in enumerate((u, v)):
            lap[c] = np.roll(f, 1, 0) + np.roll(f, -1, 0) + np.roll(f, 1, 1) + np.roll(f, -1, 1) - 4 * f
        uvv = u * v * v
        u += 0.16 * lap[0] - uvv + feed * (1 - u)
        v += 0.08 * lap[1] + uvv - (feed + k) * v
    return v.sum()


def spline_second(y, x, q):
    """A natural cubic spline, evaluated at a point."""
    n = x.size
    y2 = np.zeros(n)
    u = np.zeros(n - 1)
    for i in range(1, n - 1):
        sig = (x[i] - x[i - 1]) / (x[i + 1] - x[i - 1])
        p = sig * y2[i - 1] + 2.0
        y2[i] = (sig - 1.0) / p
        u[i] = (y[i + 1] - y[i]) / (x[i + 1] - x[i]) - (y[i] - y[i - 1]) / (x[i] - x[i - 1])
        u[i] = (6.0 * u[i] / (x[i + 1] - x[i - 1]) - sig * u[i - 1]) / p
    for k in range(n - 2, -1, -1):
        y2[k] = y2[k] * y2[k + 1] + (u[k] if k > 0 else 0.0)
    k = np.searchsorted(x, q) - 1
    h = x[k + 1] - x[k]
    a = (x[k + 1] - q) / h
    b = (q - x[k]) / h
    return a * y[k] + b * y[k + 1] + ((a**3 - a) * y2[k] + (b**3 - b) * y2[k + 1]) * h * h / 6


def seir(y0, beta, gamma, sigma, days):
    """An epidemic; the state is a named tuple that is replaced."""
    s = State(y0[0], y0[1], y0[2], y0[3])
    peak = 0.0
    for _ in range(days * 4):
        N = s.S + s.E + s.I + s.R
        new = beta * s.S * s.I / N
        s = State(
            s.S - 0.25 * new,
            s.E + 0.25 * (new - sigma * s.E),
            s.I + 0.25 * (sigma * s.E - gamma * s.I),
            s.R + 0.25 * gamma * s.I,
        )
        peak = max(peak, s.I)
    return (peak, s.R)


def gp_loglik(X, ell, sf, sn, y):
    """The likelihood of a Gaussian process."""
    n = len(X)
    K = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            d2 = np.sum((X[i] - X[j]) ** 2)
            K[i, j] = sf**2 * np.exp(-0.5 * d2 / ell**2)
            K[j, i] = K[i, j]
        K[i, i] += sn**2
    L = np.linalg.cholesky(K)
    alpha = np.linalg.solve(K, y)
    return -0.5 * y @ alpha - np.sum(np.log(np.diag(L))) - 0.5 * n * np.log(2 * np.pi)


def sinkhorn(x, y, eps, it):
    """Optimal transport, whole arrays with three axes."""
    n, m = (x.shape[0], y.shape[0])
    C = ((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=2)
    K = np.exp(-C / eps)
    a = np.ones(n) / n
    b = np.full(m, 1.0 / m)
    u = np.ones(n)
    for _ in range(it):
        v = b / (K.T @ u)
        u = a / (K @ v)
    P = u[:, None] * K * v[None, :]
    return np.sum(P * C)


def segments(x, cuts, gamma):
    """Costs of segments between change points."""
    cost = 0.0
    start = 0
    for end in np.append(cuts, x.size):
        seg = x[start:end]
        cost += np.sum((seg - seg.mean()) ** 2) + gamma
        start = end
    return cost


def resistor(g, edges, v0):
    """A network of resistors: nodal analysis."""
    n = 4
    Lp = np.zeros((n, n))
    for e in range(edges.shape[0]):
        i, j = edges[e]
        c = g[i, j]
        Lp[i, i] += c
        Lp[j, j] += c
        Lp[i, j] -= c
        Lp[j, i] -= c
    rhs = np.zeros(n - 1)
    rhs[0] = v0
    v = np.linalg.solve(Lp[:-1, :-1], rhs)
    return (v[0] / v0, v)


def huber_irls(x, delta, mu):
    """A robust mean by reweighting."""
    for _ in range(5):
        r = x - mu
        w = np.ones_like(r)
        big = np.abs(r) > delta * 0.5
        w[big] = delta * 0.5 / np.abs(r[big])
        mu = np.sum(w * x) / np.sum(w)
    return mu


def median_like(img, ker, times):
    """A filter of padded windows."""
    h, w = img.shape
    for _ in range(times):
        pad = np.zeros((h + 2, w + 2))
        pad[1:-1, 1:-1] = img
        pad[0, 1:-1], pad[-1, 1:-1] = (img[0], img[-1])
        for i in range(h):
            for j in range(w):
                patch = pad[i : i + 3, j : j + 3].flatten()
                img[i, j] = 0.9 * np.median(patch) + np.sum(patch.reshape(3, 3) * ker)
    return img


def brusselator(u, D, n):
    """Two substances in one vector; a right-hand side defined inside."""

    def rhs(w, m):
        x, y = (w[:m], w[m:])
        lx = np.roll(x, 1) - 2 * x + np.roll(x, -1)
        return np.concatenate((1 + x * x * y - 4 * x + D * lx, 3 * x - x * x * y))

    m = u.size // 2
    w = u
    for _ in range(n):
        k1 = rhs(w, m)
        k2 = rhs(w + 0.01 * k1, m)
        w = w + 0.005 * (k1 + k2)
    return w


def haar(x, thresh, levels):
    """Wavelet coefficients, soft threshold."""
    a = x.copy()
    n = a.size
    for _ in range(levels):
        m = n // 2
        s = np.zeros(a.size)
        d = np.zeros(a.size)
        for k in range(m):
            s[k] = (a[2 * k] + a[2 * k + 1]) / np.sqrt(2)
            d[k] = (a[2 * k] - a[2 * k + 1]) / np.sqrt(2)
        d = np.sign(d) * np.maximum(np.abs(d) - thresh, 0.0)
        a[:m] = s[:m]
        a[m:n] = d[:m]
        n = m
    return a


def assembly(E, nodes, load, nu):
    """Finite elements of a bar."""
    ndof = 5
    K = np.zeros((ndof, ndof))
    f = np.zeros(ndof)
    for e in range(E.size):
        k = E[e] * nodes[e, 0] / (1 - nu**2) * np.array([[1.0, -1.0], [-1.0, 1.0]])
        dofs = np.array([e, e + 1])
        for a in range(2):
            for b in range(2):
                K[dofs[a], dofs[b]] += k[a, b]
        f[e + 1] += load * nodes[e, 1] * 0.5
    free = np.arange(1, ndof)
    u = np.linalg.solve(K[1:, 1:], f[free])
    return (np.dot(f[1:], u), u[-1])


def tuple_loop(u, v, a):
    """Loops over tuples, in parallel."""
    s = 0.0
    w = np.zeros(5)
    for _ in range(2):
        for c, f in zip((u[0], a), (u, v)):
            u[0] += 1.0
            s += c * f[1]
            f[1:] *= c
            w += f
        for k, (p, q) in enumerate(((u, v), (v, w))):
            p[k] += q[k] * p[0] * s * 0.1
    return (s, w)


PROGRAMS = {
    muskingum: (positive(8), 0.4, 0.2, 3),
    gray_scott: (positive(6, 6), 0.1, 0.05, 5),
    spline_second: (positive(7), np.linspace(0, 1, 7), 0.3),
    seir: (positive(4), 0.3, 0.1, 0.2, 4),
    gp_loglik: (normal(6, 2), 0.8, 1.3, 0.1, normal(6)),
    sinkhorn: (positive(5, 2), positive(4, 2), 0.1, 40),
    segments: (normal(12), np.array([2, 5, 9]), 0.7),
    resistor: (positive(4, 4), np.array([[0, 1], [1, 2], [2, 3], [0, 3]]), 0.5),
    huber_irls: (positive(10) * 3, 1.5, 0.4),
    median_like: (normal(5, 5), positive(3, 3) * 0.1, 2),
    brusselator: (positive(6), 0.2, 8),
    haar: (normal(8), 0.3, 2),
    assembly: (positive(4), positive(4, 3), 10.0, 0.2),
    tuple_loop: (normal(5), normal(5), 0.1),
}
