"""Programs as scientists write them for Numba, of many fields, with arguments: what nb.adjoint must take."""

import math
from collections import namedtuple

import numba
import numpy as np

RNG = np.random.default_rng(11)
NODES = np.array([-0.7745966692414834, 0.0, 0.7745966692414834])
WEIGHTS = (5.0 / 9.0, 8.0 / 9.0, 5.0 / 9.0)
STOICHIOMETRY = np.array([[-1, 1, 0], [0, -1, 1]])
Pendulum = namedtuple("Pendulum", "length mass damping")


def normal(*shape):
    return RNG.normal(size=shape)


def positive(*shape):
    return 0.5 + RNG.random(shape)


# Equations in space and time.


def burgers(u, nu, dx, dt, steps):
    """Upwind differences, whole-array expressions, the previous values in a copy."""
    for _ in range(steps):
        un = u.copy()
        u[1:-1] = (
            un[1:-1] - un[1:-1] * dt / dx * (un[1:-1] - un[:-2]) + nu * dt / dx**2 * (un[2:] - 2 * un[1:-1] + un[:-2])
        )
        u[0] = un[0] - un[0] * dt / dx * (un[0] - un[-2]) + nu * dt / dx**2 * (un[1] - 2 * un[0] + un[-2])
        u[-1] = u[0]


def heat_new_arrays(T, alpha, dt, nt):
    """A new array per step, which takes the old one's name."""
    T = T.copy()
    for _ in range(nt):
        Tn = np.empty_like(T)
        Tn[0] = T[0]
        Tn[-1] = T[-1]
        for i in range(1, len(T) - 1):
            Tn[i] = T[i] + alpha * dt * (T[i - 1] - 2.0 * T[i] + T[i + 1])
        T = Tn
    return T


def laplace(p, tol, limit):
    """Jacobi sweeps until the change is small."""
    change = 1.0
    count = 0
    while change > tol and count < limit:
        old = p.copy()
        p[1:-1, 1:-1] = 0.25 * (old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1])
        p[:, -1] = p[:, -2]
        change = np.max(np.abs(p - old))
        count += 1
    return np.sum(p * p), count


def red_black(u, f, sweeps):
    """Gauss-Seidel over odd and even points, by slices with steps."""
    for _ in range(sweeps):
        u[1:-1:2] = 0.5 * (u[0:-2:2] + u[2::2] - f[1:-1:2])
        u[2:-1:2] = 0.5 * (u[1:-2:2] + u[3::2] - f[2:-1:2])
    return np.sqrt(np.mean(u**2))


def shallow_water(h, u, g, dx, dt, steps):
    """Fluxes in local arrays, a staggered grid."""
    n = h.size
    flux = np.zeros(n + 1)
    for _ in range(steps):
        for i in range(1, n):
            up = h[i - 1] if u[i] > 0.0 else h[i]
            flux[i] = u[i] * up
        for i in range(n):
            h[i] -= dt / dx * (flux[i + 1] - flux[i])
        for i in range(1, n):
            u[i] -= dt * g / dx * (h[i] - h[i - 1]) + dt * 0.01 * u[i] * abs(u[i])
    return h.max()


def lattice_boltzmann(f, tau, steps):
    """D1Q3: collision and streaming, arrays of three populations."""
    w = np.array([2.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0])
    c = np.array([0, 1, -1])
    nx = f.shape[1]
    new = np.empty_like(f)
    for _ in range(steps):
        for x in range(nx):
            rho = 0.0
            mom = 0.0
            for q in range(3):
                rho += f[q, x]
                mom += f[q, x] * c[q]
            vel = mom / rho
            for q in range(3):
                cu = c[q] * vel
                eq = w[q] * rho * (1.0 + 3.0 * cu + 4.5 * cu * cu - 1.5 * vel * vel)
                new[q, (x + c[q]) % nx] = f[q, x] - (f[q, x] - eq) / tau
        f, new = new, f
    return f.sum(axis=1), np.dot(f[1], f[2])


def advection_limiter(u, c, steps):
    def minmod(a, b):
        if a * b <= 0.0:
            return 0.0
        return a if abs(a) < abs(b) else b

    n = len(u)
    for _ in range(steps):
        flux = np.zeros(n + 1)
        for i in range(1, n - 2):
            slope = minmod(u[i] - u[i - 1], u[i + 1] - u[i])
            flux[i + 1] = c * (u[i] + 0.5 * (1.0 - c) * slope)
        u[2:-2] -= flux[3:-2] - flux[2:-3]


def wave(u, v, c2, n):
    """Leapfrog with three levels that change places."""
    a, b = u.copy(), v.copy()
    w = np.zeros_like(u)
    for _ in range(n):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                w[i, j] = (
                    2.0 * b[i, j]
                    - a[i, j]
                    + c2[i, j] * (b[i + 1, j] + b[i - 1, j] + b[i, j + 1] + b[i, j - 1] - 4.0 * b[i, j])
                )
        a, b, w = b, w, a
    return np.mean(b**2)


# Ordinary differential equations.


@numba.njit
def lorenz(y, sigma, rho, beta):
    return sigma * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - beta * y[2]


def rk4_lorenz(y0, sigma, rho, beta, dt, n):
    y = y0.copy()
    tmp = np.empty(3)
    for _ in range(n):
        k1 = lorenz(y, sigma, rho, beta)
        for d in range(3):
            tmp[d] = y[d]
        tmp[0] += 0.5 * dt * k1[0]
        tmp[1] += 0.5 * dt * k1[1]
        tmp[2] += 0.5 * dt * k1[2]
        k2 = lorenz(tmp, sigma, rho, beta)
        y[0] += dt * k2[0]
        y[1] += dt * k2[1]
        y[2] += dt * k2[2]
    return y


def pendulum_rhs(t, y, p):
    """The right-hand side as a new array, parameters in a named tuple."""
    dy = np.zeros_like(y)
    dy[0] = y[1]
    dy[1] = -9.81 / p.length * np.sin(y[0]) - p.damping / p.mass * y[1]
    return dy


def rk4_step(f, t, y, h, p):
    k1 = f(t, y, p)
    k2 = f(t + h / 2, y + h / 2 * k1, p)
    k3 = f(t + h / 2, y + h / 2 * k2, p)
    k4 = f(t + h, y + h * k3, p)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def pendulum(y0, length, mass, damping, h, n):
    p = Pendulum(length, mass, damping=damping)
    y = y0
    path = np.empty((n + 1, y0.size))
    path[0] = y0
    t = 0.0
    for i in range(n):
        y = rk4_step(pendulum_rhs, t, y, h, p)
        t += h
        path[i + 1, :] = y
    return path


def kepler(q, p, dt, steps=20):
    """Leapfrog in numbers, results as a tuple."""
    x, y = q
    vx, vy = p[0], p[1]
    r3 = (x * x + y * y) ** 1.5
    for _ in range(steps):
        vx, vy = vx - 0.5 * dt * x / r3, vy - 0.5 * dt * y / r3
        x += dt * vx
        y += dt * vy
        r3 = (x**2 + y**2) ** 1.5
        vx -= 0.5 * dt * x / r3
        vy -= 0.5 * dt * y / r3
    energy = 0.5 * (vx**2 + vy**2) - 1 / math.sqrt(x**2 + y**2)
    return x, y, energy


def numerov(energy, v, h):
    """Numerov's method; the wave function is normalised at the end."""
    n = len(v)
    psi = np.zeros(n)
    psi[0], psi[1] = 0.0, 1e-3
    k2 = 2.0 * (energy - v)
    for i in range(1, n - 1):
        a = 2.0 * (1.0 - 5.0 * h**2 / 12.0 * k2[i]) * psi[i]
        b = (1.0 + h**2 / 12.0 * k2[i - 1]) * psi[i - 1]
        psi[i + 1] = (a - b) / (1.0 + h**2 / 12.0 * k2[i + 1])
    norm = math.sqrt(np.sum(psi**2) * h)
    psi /= norm
    return psi


def kinetics(c, k, dt, steps):
    """Mass action with a matrix of integers from outside."""
    rates = np.empty(2)
    for _ in range(steps):
        rates[0] = k[0] * c[0]
        rates[1] = k[1] * c[1] ** 2
        c += dt * (rates @ STOICHIOMETRY)
        c[c.argmin()] += 0.0
    return c[-1]


def adaptive(y, rate, tol, end):
    """Euler with step control: while, continue and break."""
    t, h = 0.0, 0.1
    tries = 0
    while True:
        tries += 1
        if tries > 200:
            break
        one = y - h * rate * y * y
        half = y - 0.5 * h * rate * y * y
        two = half - 0.5 * h * rate * half * half
        err = abs(two - one)
        if err > tol:
            h *= 0.5
            continue
        y = two
        t += h
        if t >= end:
            break
        if err < 0.1 * tol:
            h *= 1.5
    return y, t


# Statistics, signals, learning.


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


# Particles, geometry, graphs.


def distance(a, b):
    d = a - b
    return math.sqrt(d[0] ** 2 + d[1] ** 2 + d[2] ** 2)


def nbody(pos, vel, mass, dt, steps, eps):
    n = pos.shape[0]
    for _ in range(steps):
        acc = np.zeros((n, 3))
        for i in range(n):
            for j in range(n):
                if i == j:
                    continue
                d = pos[j] - pos[i]
                r2 = d[0] ** 2 + d[1] ** 2 + d[2] ** 2 + eps
                acc[i] += mass[j] * d / r2**1.5
        vel += dt * acc
        pos += dt * vel
    ke = 0.0
    for i in range(n):
        ke += 0.5 * mass[i] * np.dot(vel[i], vel[i])
        for j in range(i + 1, n):
            ke -= mass[i] * mass[j] / distance(pos[i], pos[j])
    return ke


def lennard_jones(x, epsilon, sigma, box, rc):
    """Periodic images and forces in place, half of the pairs."""
    energy = 0.0
    force = np.zeros(x.shape)
    for i in range(len(x) - 1):
        for j in range(i + 1, len(x)):
            r2 = 0.0
            d = np.empty(2)
            for k in range(2):
                d[k] = x[i, k] - x[j, k]
                d[k] -= box * round(d[k] / box)
                r2 += d[k] * d[k]
            if r2 < rc * rc:
                s6 = (sigma * sigma / r2) ** 3
                energy += 4.0 * epsilon * s6 * (s6 - 1.0)
                f = 24.0 * epsilon * s6 * (2.0 * s6 - 1.0) / r2
                force[i, :] += f * d
                force[j, :] -= f * d
    return energy, force


def ising(spins, J, h):
    """Energy of continuous spins on a periodic lattice."""
    n, m = spins.shape
    e = 0.0
    for i in range(n):
        for j in range(m):
            e -= J * spins[i, j] * (spins[(i + 1) % n, j] + spins[i, (j + 1) % m]) + h * spins[i, j]
    return e / spins.size


def march(origin, direction, radius, steps, far):
    """Sphere tracing: a local function, break, and a value kept from the loop."""

    def scene(p, r):
        return math.sqrt(p[0] ** 2 + p[1] ** 2 + p[2] ** 2) - r + 0.05 * np.sin(3.0 * p[0])

    t = 0.0
    hit = False
    for i in range(steps):  # noqa: B007 (it is read below)
        p = origin + t * direction
        d = scene(p, radius)
        if d < 1e-6:
            hit = True
            break
        t += d
        if t > far:
            return far
    if hit:
        return t + 0.001 * i
    return t


def pagerank(links, damping, iterations):
    n = links.shape[0]
    r = np.ones(n) / n
    out = links.sum(axis=1)
    for _ in range(iterations):
        new = np.full(n, (1.0 - damping) / n)
        for i in range(n):
            share = damping * r[i] / out[i]
            for j in range(n):
                new[j] += share * links[i, j]
        r = new
    return r


def shortest(weights, gamma):
    """Soft Floyd-Warshall."""
    d = weights.copy()
    n = len(d)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                through = d[i, k] + d[k, j]
                d[i, j] = -gamma * np.log(np.exp(-d[i, j] / gamma) + np.exp(-through / gamma))
    return np.trace(d) + d[0, n - 1]


# Numerical analysis.


def conjugate_gradient(A, b, x, tol):
    r = b - A @ x
    p = r.copy()
    rs = np.dot(r, r)
    for _ in range(len(b)):
        Ap = A @ p
        alpha = rs / np.dot(p, Ap)
        x += alpha * p
        r -= alpha * Ap
        new = np.dot(r, r)
        if np.sqrt(new) < tol:
            break
        p = r + new / rs * p
        rs = new


def gauss_newton(t, y, a, b, iterations):
    """A fit of two parameters, normal equations by hand."""
    for _ in range(iterations):
        JtJ = np.zeros((2, 2))
        Jtr = np.zeros(2)
        for i in range(t.size):
            e = math.exp(-b * t[i])
            res = y[i] - a * e
            J = np.array([e, -a * t[i] * e])
            for p in range(2):
                Jtr[p] += J[p] * res
                for q in range(2):
                    JtJ[p, q] += J[p] * J[q]
        det = JtJ[0, 0] * JtJ[1, 1] - JtJ[0, 1] * JtJ[1, 0] + 1e-3
        a += (JtJ[1, 1] * Jtr[0] - JtJ[0, 1] * Jtr[1]) / det
        b += (JtJ[0, 0] * Jtr[1] - JtJ[1, 0] * Jtr[0]) / det
    return a, b


def newton_root(a, b, x):
    iterations = 0
    while (f := x**3 + a * x + b) ** 2 > 1e-24 and iterations < 50:
        x = x - f / (3 * x**2 + a)
        iterations += 1
    assert iterations < 50, "no convergence"
    return x


def lu_solve(A, b):
    """Gaussian elimination with row exchanges, in place."""
    n = A.shape[0]
    for k in range(n):
        piv = k + np.argmax(np.abs(A[k:, k]))
        if A[piv, k] == 0.0:
            raise ValueError("singular")
        if piv != k:
            for j in range(n):
                A[k, j], A[piv, j] = A[piv, j], A[k, j]
            b[k], b[piv] = b[piv], b[k]
        for i in range(k + 1, n):
            m = A[i, k] / A[k, k]
            A[i, k:] -= m * A[k, k:]
            b[i] -= m * b[k]
    for i in range(n - 1, -1, -1):
        b[i] = (b[i] - np.dot(A[i, i + 1 :], b[i + 1 :])) / A[i, i]


def qr(A):
    """Gram-Schmidt on columns."""
    m, n = A.shape
    Q = np.zeros((m, n))
    R = np.zeros((n, n))
    for j in range(n):
        v = A[:, j].copy()
        for i in range(j):
            q = Q[:, i]
            R[i, j] = np.dot(q, A[:, j])
            v -= R[i, j] * q
        R[j, j] = np.linalg.norm(v)
        Q[:, j] = v / R[j, j]
    return Q, R


def spline(xs, ys, m, x):
    """Hermite interpolation, the interval by a search."""
    out = np.empty(x.size)
    for k in range(x.size):
        for i in range(len(xs) - 1):
            if x[k] < xs[i + 1]:
                break
        h = xs[i + 1] - xs[i]
        t = (x[k] - xs[i]) / h
        out[k] = (
            (2 * t**3 - 3 * t**2 + 1) * ys[i]
            + (t**3 - 2 * t**2 + t) * h * m[i]
            + (-2 * t**3 + 3 * t**2) * ys[i + 1]
            + (t**3 - t**2) * h * m[i + 1]
        )
    return out


def bisect(xs, v):
    lo, hi = 0, len(xs) - 1
    while hi - lo > 1:
        mid = (lo + hi) // 2
        if xs[mid] > v:
            hi = mid
        else:
            lo = mid
    return lo


def interpolate(xs, ys, v):
    total = 0.0
    for value in v:
        i = bisect(xs, value)
        w = (value - xs[i]) / (xs[i + 1] - xs[i])
        total += (1 - w) * ys[i] + w * ys[i + 1] ** 2
    return total


def quadrature(f_scale, a, b, n):
    """Gauss rule with constants from outside, a function given to a function."""
    g = lambda x: math.exp(-f_scale * x * x)  # noqa: E731
    h = (b - a) / n
    total = 0.0
    for i in range(n):
        mid = a + (i + 0.5) * h
        for node, weight in zip(NODES, WEIGHTS):
            total += 0.5 * h * weight * g(mid + 0.5 * h * node)
    return total


def legendre(c, x):
    """Clenshaw's recurrence over whole arrays."""
    b1 = np.zeros_like(x)
    b2 = np.zeros_like(x)
    for k in range(len(c) - 1, 0, -1):
        b1, b2 = c[k] + (2 * k + 1) / (k + 1) * x * b1 - (k + 1) / (k + 2) * b2, b1 * 1.0
    return c[0] + x * b1 - 0.5 * b2


def trapezoid(y, x):
    return np.sum(0.5 * (y[1:] + y[:-1]) * np.diff(x)), np.cumsum(y), np.std(y)


def radiation(tau, source, surface):
    """Transfer through layers, up and down, with a state in a tuple."""
    n = len(tau)
    state = (surface, 0.0)
    for i in range(n):
        trans = np.exp(-tau[i])
        state = (state[0] * trans + source[i] * (1 - trans), state[1] + trans)
    up, seen = state
    down = 0.0
    for i in reversed(range(n)):
        down += (source[i] - down) * (1 - np.exp(-tau[i]))
    return up, down * seen


MATRIX = normal(4, 4)
PROGRAMS = {
    burgers: (normal(9), 0.07, 0.3, 0.02, 4),
    heat_new_arrays: (normal(8), 0.3, 0.4, 4),
    laplace: (normal(5, 6), 1e-2, 7),
    red_black: (normal(9), normal(9), 3),
    shallow_water: (positive(6), 0.3 * normal(6), 9.81, 1.0, 0.05, 4),
    lattice_boltzmann: (positive(3, 5), 0.8, 3),
    advection_limiter: (normal(9), 0.4, 3),
    wave: (normal(5, 5), normal(5, 5), 0.2 * positive(5, 5), 4),
    rk4_lorenz: (normal(3), 10.0, 28.0, 8.0 / 3.0, 0.01, 4),
    pendulum: (normal(2), 1.2, 0.9, 0.1, 0.1, 3),
    kepler: (np.array([1.0, 0.1]), np.array([0.1, 0.9]), 0.05),
    numerov: (0.7, 0.5 * np.linspace(-2, 2, 9) ** 2, 0.5),
    kinetics: (positive(3), positive(2), 0.1, 4),
    adaptive: (1.2, 0.7, 0.01, 0.93),
    kalman: (normal(4), normal(2), np.eye(2) + 0.1, np.array([[1.0, 0.1], [0.0, 0.9]]), np.array([1.0, 0.2]),
             0.1 * np.eye(2), 0.3),
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
    nbody: (normal(3, 3), normal(3, 3), positive(3), 0.1, 2, 0.05),
    lennard_jones: (2.0 * normal(4, 2), 0.9, 0.8, 4.0, 1.9),
    ising: (normal(3, 4), 0.8, 0.1),
    march: (np.array([0.1, 0.0, -3.0]), np.array([0.0, 0.05, 1.0]), 1.0, 60, 10.0),
    pagerank: (positive(4, 4), 0.85, 4),
    shortest: (positive(4, 4), 0.5),
    conjugate_gradient: (MATRIX @ MATRIX.T + 3 * np.eye(4), normal(4), normal(4), 1e-12),
    gauss_newton: (np.linspace(0.1, 2, 5), positive(5), 1.1, 0.6, 3),
    newton_root: (1.3, -2.2, 0.7),
    lu_solve: (normal(4, 4), normal(4)),
    qr: (normal(4, 3),),
    spline: (np.array([0.0, 1.0, 2.5, 3.0]), normal(4), normal(4), np.array([0.3, 1.7, 2.6])),
    interpolate: (np.array([0.0, 1.0, 2.5, 3.0]), normal(4), np.array([0.3, 1.7, 2.6])),
    quadrature: (0.8, -1.0, 1.5, 3),
    legendre: (normal(4), normal(3)),
    trapezoid: (normal(5), np.sort(normal(5))),
    radiation: (positive(4), normal(4), 0.9),
}  # fmt: skip
