"""Programs of many fields: travel times, neurons, rivers, plasmas, populations."""

import math

import numba
import numpy as np

from .data import drawn

normal, positive = drawn(23)
CX, CY = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1]), np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
W9 = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
BT = (1 / 6, 1 / 3, 1 / 3, 1 / 6)


def fast_sweep(slow, h, si, sj):
    """Travel times by fast sweeping: directions that change from sweep to sweep, neighbours that may not be there."""
    ny, nx = slow.shape
    T = np.full((ny, nx), 1e3)
    T[si, sj] = 0.0
    for sweep in range(8):
        i0, i1, di = (0, ny, 1) if sweep % 2 == 0 else (ny - 1, -1, -1)
        j0, j1, dj = (0, nx, 1) if (sweep // 2) % 2 == 0 else (nx - 1, -1, -1)
        for i in range(i0, i1, di):
            for j in range(j0, j1, dj):
                if i == si and j == sj:
                    continue
                a = min(T[i - 1, j] if i > 0 else 1e3, T[i + 1, j] if i < ny - 1 else 1e3)
                b = min(T[i, j - 1] if j > 0 else 1e3, T[i, j + 1] if j < nx - 1 else 1e3)
                s = slow[i, j] * h
                if abs(a - b) >= s:
                    t = min(a, b) + s
                else:
                    t = 0.5 * (a + b + math.sqrt(2 * s * s - (a - b) ** 2))
                if t < T[i, j]:
                    T[i, j] = t
    return T


@numba.njit
def deriv(t, y, mu):
    return np.array([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0] + 0.1 * np.cos(t)])


def van_der_pol(y0, mu, h, n):
    """Runge and Kutta's method by its tables, tuples that numbers index."""
    y = y0.copy()
    t = 0.0
    c = (0.0, 0.5, 0.5, 1.0)
    k = np.zeros((4, y.size))
    for _ in range(n):
        for s in range(4):
            yi = y.copy()
            if s > 0:
                yi += h * c[s] * k[s - 1]
            k[s] = deriv(t + c[s] * h, yi, mu)
        for w, ks in zip(BT, k):
            y += h * w * ks
        t += h
    return y


def metapop(prey, pred, r, a, D, steps):
    """Prey and predators on a torus; neighbours from a tuple of tuples."""
    n, m = prey.shape
    for _ in range(steps):
        new = prey.copy()
        new_p = pred.copy()
        for i in range(n):
            for j in range(m):
                lap_u, lap_v = 0.0, 0.0
                for di, dj in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                    ii, jj = (i + di) % n, (j + dj) % m
                    lap_u += prey[ii, jj] - prey[i, j]
                    lap_v += pred[ii, jj] - pred[i, j]
                up = a * prey[i, j] * pred[i, j] / (1 + prey[i, j])
                new[i, j] += 0.1 * (r * prey[i, j] * (1 - prey[i, j]) - up + D * lap_u)
                new_p[i, j] += 0.1 * (0.5 * up - 0.2 * pred[i, j] + D * lap_v)
        prey[:] = new
        pred[:, :] = new_p
    return prey.mean(), pred.std()


def particle_filter(y, noise, u, phi, sx, sy):
    """A particle filter with given noise, and resampling by places that are found."""
    T = y.size
    N = noise.shape[1]
    x = sx / np.sqrt(1 - phi**2) * noise[0]
    ll = 0.0
    w = np.empty(N)
    for t in range(T):
        x = phi * x + sx * noise[t + 1]
        w[:] = np.exp(-0.5 * ((y[t] - x) / sy) ** 2) / (sy * np.sqrt(2 * np.pi))
        tot = w.sum()
        ll += np.log(tot / N)
        w /= tot
        cum = np.cumsum(w)
        idx = np.zeros(N, dtype=np.int64)
        i = 0
        for k in range(N):
            pos = (k + u[t]) / N
            while i < N - 1 and cum[i] < pos:
                i += 1
            idx[k] = i
        x = x[idx]
    return ll


def lbm(rho0, u0, tau, steps):
    """The lattice Boltzmann method with nine directions."""
    ny, nx = rho0.shape
    f = np.zeros((9, ny, nx))
    for k in range(9):
        f[k] = W9[k] * rho0 * (1 + 3 * (CX[k] * u0[0] + CY[k] * u0[1]))
    fnew = np.zeros_like(f)
    for _ in range(steps):
        rho = f.sum(axis=0)
        ux = np.zeros((ny, nx))
        uy = np.zeros((ny, nx))
        for k in range(9):
            ux += CX[k] * f[k] / rho
            uy += CY[k] * f[k] / rho
        usq = ux**2 + uy**2
        for k in range(9):
            cu = CX[k] * ux + CY[k] * uy
            feq = W9[k] * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * usq)
            for j in range(ny):
                for i in range(nx):
                    jj = (j + CY[k]) % ny
                    ii = (i + CX[k]) % nx
                    fnew[k, jj, ii] = f[k, j, i] - (f[k, j, i] - feq[j, i]) / tau
        f, fnew = fnew, f
    return np.sum(f[1] * f[1])


def viterbi(em, tr):
    """The score of the best path, which is found without derivatives."""
    T, K = em.shape
    back = np.zeros((T, K), dtype=np.int64)
    v = em[0].copy()
    for t in range(1, T):
        nv = np.empty(K)
        for j in range(K):
            s = v + tr[:, j]
            back[t, j] = np.argmax(s)
            nv[j] = s[back[t, j]] + em[t, j]
        v = nv
    path = np.empty(T, dtype=np.int64)
    path[-1] = v.argmax()
    for t in range(T - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    score = em[0, path[0]]
    for a, b, e in zip(path[:-1], path[1:], em[1:]):
        score += tr[a, b] + e[b]
    return score


def pic(x, v, qm, dt, steps):
    """Particles in cells: charges into cells, fields back to particles."""
    ng = 8
    L = 1.0
    dx = L / ng
    E_hist = np.zeros(steps)
    for s in range(steps):
        rho = np.zeros(ng)
        for p in range(x.size):
            xi = x[p] / dx
            i = int(np.floor(xi))
            w = xi - i
            rho[i % ng] += (1 - w) / x.size
            rho[(i + 1) % ng] += w / x.size
        rho -= rho.mean()
        E = np.empty(ng)
        acc = 0.0
        for g in range(ng):
            acc += rho[g] * dx
            E[g] = acc
        E -= np.sum(E) / ng
        for p in range(x.size):
            xi = x[p] / dx
            i = int(xi)
            w = xi - i
            Ep = (1 - w) * E[i % ng] + w * E[(i + 1) % ng]
            v[p] += qm * Ep * dt
            x[p] = (x[p] + v[p] * dt) % L
        E_hist[s] = 0.5 * dx * (E @ E)
    return E_hist


def river(down, lateral, K, x, dt):
    """Muskingum's routing in a tree of reaches."""
    T, n = lateral.shape
    Q = np.zeros((T, n))
    inflow_prev = np.zeros(n)
    Q[0] = lateral[0]
    for t in range(1, T):
        inflow = lateral[t].copy()
        for r in range(n):
            D = 2 * K[r] * (1 - x) + dt
            c0 = (dt - 2 * K[r] * x) / D
            c1 = (dt + 2 * K[r] * x) / D
            c2 = (2 * K[r] * (1 - x) - dt) / D
            Q[t, r] = max(c0 * inflow[r] + c1 * inflow_prev[r] + c2 * Q[t - 1, r], 0.0)
            d = down[r]
            if d >= 0:
                inflow[d] += Q[t, r]
        inflow_prev[:] = inflow
    return Q[:, -1].max(), Q[-1]


@numba.njit
def vtrap(x, y):
    if abs(x / y) < 1e-6:
        return y * (1 - x / y / 2)
    return x / (np.exp(x / y) - 1)


@numba.njit
def rates_hh(V):
    am = 0.1 * vtrap(-(V + 40), 10)
    bm = 4 * np.exp(-(V + 65) / 18)
    ah = 0.07 * np.exp(-(V + 65) / 20)
    bh = 1 / (np.exp(-(V + 35) / 10) + 1)
    an = 0.01 * vtrap(-(V + 55), 10)
    bn = 0.125 * np.exp(-(V + 65) / 80)
    return (am, bm), (ah, bh), (an, bn)


def hodgkin_huxley(I_ext, gNa, gK, gL, dt):
    """A neuron; rates as pairs, and the limit of x / (exp(x) - 1) at 0."""
    V = -65.0
    (am, bm), (ah, bh), (an, bn) = rates_hh(V)
    m, h, n = am / (am + bm), ah / (ah + bh), an / (an + bn)
    trace = np.empty(I_ext.size)
    for i, cur in enumerate(I_ext):
        (am, bm), (ah, bh), (an, bn) = rates_hh(V)
        m += dt * (am * (1 - m) - bm * m)
        h += dt * (ah * (1 - h) - bh * h)
        n += dt * (an * (1 - n) - bn * n)
        INa = gNa * m**3 * h * (V - 50.0)
        IK = gK * n**4 * (V + 77.0)
        IL = gL * (V + 54.4)
        V += dt * (cur - INa - IK - IL)
        trace[i] = V
    return trace.max(), trace


def belief(ptr, nbr, h, J, iters):
    """Belief propagation on a graph with loops, in compressed rows."""
    n = len(ptr) - 1
    msg = np.zeros(len(nbr))
    for _ in range(iters):
        new = np.empty_like(msg)
        for i in range(n):
            for e in range(ptr[i], ptr[i + 1]):
                j = nbr[e]
                field = h[j]
                for e2 in range(ptr[j], ptr[j + 1]):
                    if nbr[e2] != i:
                        field += msg[e2]
                new[e] = np.arctanh(np.tanh(J) * np.tanh(field))
        msg = 0.5 * msg + 0.5 * new
    mag = np.zeros(n)
    for i in range(n):
        mag[i] = np.tanh(h[i] + msg[ptr[i] : ptr[i + 1]].sum())
    return mag


PROGRAMS = {
    fast_sweep: (positive(4, 5), 0.1, 2, 3),
    van_der_pol: (np.array([1.0, 0.2]), 1.3, 0.05, 4),
    metapop: (positive(3, 4), positive(3, 4), 0.8, 0.3, 0.1, 3),
    particle_filter: (normal(4), normal(5, 6), np.array([0.3, 0.8, 0.1, 0.6]), 0.8, 0.5, 0.7),
    lbm: (1.0 + 0.01 * normal(3, 4), 0.02 * normal(2, 3, 4), 0.8, 2),
    viterbi: (normal(5, 3), normal(3, 3)),
    pic: (0.5 * positive(8), normal(8), 1.3, 0.05, 3),
    river: (np.array([2, 2, 4, 4, -1]), positive(5, 5), 0.8 + 0.2 * positive(5), 0.2, 0.5),
    hodgkin_huxley: (10.0 * np.ones(20), 120.0, 36.0, 0.3, 0.025),
    belief: (np.array([0, 2, 4, 6, 8]), np.array([1, 3, 0, 2, 1, 3, 2, 0]), normal(4), 0.4, 3),
}
