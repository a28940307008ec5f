"""Adjoints written by hand, to measure generated ones against.

They take what the generated ones take: the arguments of the function, and then cotangents, named ``..._bar``. Each
returns the results and the gradients of numbers, and adds the other gradients to the arrays it is given. They store
little, and go over arrays as rarely as they can.
"""

import math

import numpy as np
from numba import njit

njit = njit(nogil=True, error_model="numpy")


@njit
def heat(u, conductivity, dt, steps, u_bar, conductivity_bar):
    n, m, p = u.shape
    levels = np.empty((steps + 1, n, m, p))
    levels[0] = u
    rate = np.zeros_like(u)
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            for k in range(1, p - 1):
                rate[i, j, k] = dt * conductivity[i, j, k]
    for t in range(steps):
        v = levels[t]
        w = levels[t + 1]
        w[0], w[n - 1] = u[0], u[n - 1]
        for i in range(1, n - 1):
            w[i, 0], w[i, m - 1] = u[i, 0], u[i, m - 1]
            for j in range(1, m - 1):
                w[i, j, 0], w[i, j, p - 1] = u[i, j, 0], u[i, j, p - 1]
                for k in range(1, p - 1):
                    flow = v[i - 1, j, k] + v[i + 1, j, k] + v[i, j - 1, k] + v[i, j + 1, k]
                    flow += v[i, j, k - 1] + v[i, j, k + 1] - 6.0 * v[i, j, k]
                    w[i, j, k] = v[i, j, k] + rate[i, j, k] * flow
    u[:] = levels[steps]
    rate_bar = np.zeros_like(u)
    flow_bar = np.zeros_like(u)
    for t in range(steps - 1, -1, -1):
        v = levels[t]
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                for k in range(1, p - 1):
                    flow = v[i - 1, j, k] + v[i + 1, j, k] + v[i, j - 1, k] + v[i, j + 1, k]
                    flow += v[i, j, k - 1] + v[i, j, k + 1] - 6.0 * v[i, j, k]
                    rate_bar[i, j, k] += u_bar[i, j, k] * flow
                    flow_bar[i, j, k] = u_bar[i, j, k] * rate[i, j, k]
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                for k in range(1, p - 1):
                    g = flow_bar[i - 1, j, k] + flow_bar[i + 1, j, k] + flow_bar[i, j - 1, k] + flow_bar[i, j + 1, k]
                    g += flow_bar[i, j, k - 1] + flow_bar[i, j, k + 1] - 6.0 * flow_bar[i, j, k]
                    u_bar[i, j, k] += g
                u_bar[i, j, 0] += flow_bar[i, j, 1]
                u_bar[i, j, p - 1] += flow_bar[i, j, p - 2]
            for k in range(1, p - 1):
                u_bar[i, 0, k] += flow_bar[i, 1, k]
                u_bar[i, m - 1, k] += flow_bar[i, m - 2, k]
        for j in range(1, m - 1):
            for k in range(1, p - 1):
                u_bar[0, j, k] += flow_bar[1, j, k]
                u_bar[n - 1, j, k] += flow_bar[n - 2, j, k]
    dt_bar = 0.0
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            for k in range(1, p - 1):
                conductivity_bar[i, j, k] += rate_bar[i, j, k] * dt
                dt_bar += rate_bar[i, j, k] * conductivity[i, j, k]
    return (dt_bar,)


@njit
def lynx_hare(parameters, start, dt, hares, lynx, parameters_bar, start_bar, hares_bar, lynx_bar):
    a, b, c, d = parameters[0], parameters[1], parameters[2], parameters[3]
    x, y = start[0], start[1]
    half, sixth = 0.5 * dt, dt / 6.0
    for t in range(hares.size):
        hares[t] = x
        lynx[t] = y
        k1 = (a - b * y) * x
        l1 = (c * x - d) * y
        x2 = x + half * k1
        y2 = y + half * l1
        k2 = (a - b * y2) * x2
        l2 = (c * x2 - d) * y2
        x3 = x + half * k2
        y3 = y + half * l2
        k3 = (a - b * y3) * x3
        l3 = (c * x3 - d) * y3
        x4 = x + dt * k3
        y4 = y + dt * l3
        x += sixth * (k1 + 2.0 * k2 + 2.0 * k3 + (a - b * y4) * x4)
        y += sixth * (l1 + 2.0 * l2 + 2.0 * l3 + (c * x4 - d) * y4)
    a_bar = b_bar = c_bar = d_bar = dt_bar = x_bar = y_bar = 0.0
    for t in range(hares.size - 1, -1, -1):  # the outputs are the states: nothing else is stored
        x = hares[t]
        y = lynx[t]
        p1, q1 = a - b * y, c * x - d
        k1, l1 = p1 * x, q1 * y
        x2, y2 = x + half * k1, y + half * l1
        p2, q2 = a - b * y2, c * x2 - d
        k2, l2 = p2 * x2, q2 * y2
        x3, y3 = x + half * k2, y + half * l2
        p3, q3 = a - b * y3, c * x3 - d
        k3, l3 = p3 * x3, q3 * y3
        x4, y4 = x + dt * k3, y + dt * l3
        p4, q4 = a - b * y4, c * x4 - d
        k4, l4 = p4 * x4, q4 * y4
        dt_bar += (x_bar * (k1 + 2.0 * k2 + 2.0 * k3 + k4) + y_bar * (l1 + 2.0 * l2 + 2.0 * l3 + l4)) / 6.0
        k_bar, l_bar = sixth * x_bar, sixth * y_bar
        s, r = k_bar * x4, l_bar * y4
        a_bar += s
        b_bar -= s * y4
        c_bar += r * x4
        d_bar -= r
        x4_bar = k_bar * p4 + r * c
        y4_bar = l_bar * q4 - s * b
        dt_bar += x4_bar * k3 + y4_bar * l3
        k3_bar, l3_bar = 2.0 * k_bar + dt * x4_bar, 2.0 * l_bar + dt * y4_bar
        s, r = k3_bar * x3, l3_bar * y3
        a_bar += s
        b_bar -= s * y3
        c_bar += r * x3
        d_bar -= r
        x3_bar = k3_bar * p3 + r * c
        y3_bar = l3_bar * q3 - s * b
        k2_bar, l2_bar = 2.0 * k_bar + half * x3_bar, 2.0 * l_bar + half * y3_bar
        s, r = k2_bar * x2, l2_bar * y2
        a_bar += s
        b_bar -= s * y2
        c_bar += r * x2
        d_bar -= r
        x2_bar = k2_bar * p2 + r * c
        y2_bar = l2_bar * q2 - s * b
        dt_bar += 0.5 * (x3_bar * k2 + y3_bar * l2 + x2_bar * k1 + y2_bar * l1)
        k1_bar, l1_bar = k_bar + half * x2_bar, l_bar + half * y2_bar
        s, r = k1_bar * x, l1_bar * y
        a_bar += s
        b_bar -= s * y
        c_bar += r * x
        d_bar -= r
        x_bar += x2_bar + x3_bar + x4_bar + k1_bar * p1 + r * c + hares_bar[t]
        y_bar += y2_bar + y3_bar + y4_bar + l1_bar * q1 - s * b + lynx_bar[t]
        hares_bar[t] = 0.0
        lynx_bar[t] = 0.0
    start_bar[0] += x_bar
    start_bar[1] += y_bar
    parameters_bar[0] += a_bar
    parameters_bar[1] += b_bar
    parameters_bar[2] += c_bar
    parameters_bar[3] += d_bar
    return (dt_bar,)


@njit
def thomas(lower, diagonal, upper, right, x, lower_bar, diagonal_bar, upper_bar, right_bar, x_bar):
    n = diagonal.size
    c = np.empty(n)
    d = np.empty(n)
    c[0] = upper[0] / diagonal[0]
    d[0] = right[0] / diagonal[0]
    for i in range(1, n):
        pivot = diagonal[i] - lower[i] * c[i - 1]
        c[i] = upper[i] / pivot
        d[i] = (right[i] - lower[i] * d[i - 1]) / pivot
    x[n - 1] = d[n - 1]
    for i in range(n - 2, -1, -1):
        x[i] = d[i] - c[i] * x[i + 1]
    carried = 0.0
    for i in range(n - 1):
        carried += x_bar[i]
        x_bar[i] = carried  # the cotangent of d[i] so far
        carried *= -c[i]
    g = x_bar[n - 1] + carried
    h = 0.0
    x_bar[n - 1] = 0.0
    for i in range(n - 1, 0, -1):
        over = 1.0 / (diagonal[i] - lower[i] * c[i - 1])
        g *= over
        h *= over
        pivot_bar = g * d[i] + h * c[i]
        right_bar[i] += g
        upper_bar[i] += h
        diagonal_bar[i] -= pivot_bar
        lower_bar[i] += pivot_bar * c[i - 1] - g * d[i - 1]
        h = pivot_bar * lower[i] - x_bar[i - 1] * x[i]
        g = x_bar[i - 1] - g * lower[i]
        x_bar[i - 1] = 0.0
    over = 1.0 / diagonal[0]
    right_bar[0] += g * over
    upper_bar[0] += h * over
    diagonal_bar[0] -= (g * d[0] + h * c[0]) * over


@njit
def cholesky(a, a_bar):
    n = a.shape[0]
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s -= a[j, k] * a[j, k]
        a[j, j] = math.sqrt(s)
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s -= a[i, k] * a[j, k]
            a[i, j] = s / a[j, j]
    for j in range(n - 1, -1, -1):
        over = 1.0 / a[j, j]
        diagonal_bar = a_bar[j, j]
        for i in range(n - 1, j, -1):
            g = a_bar[i, j] * over
            a_bar[i, j] = g
            diagonal_bar -= g * a[i, j]
            for k in range(j):
                a_bar[i, k] -= g * a[j, k]
                a_bar[j, k] -= g * a[i, k]
        g = diagonal_bar * over
        a_bar[j, j] = 0.5 * g
        for k in range(j):
            a_bar[j, k] -= g * a[j, k]


@njit
def sor(u, right, omega, sweeps, u_bar, right_bar):
    n, m = u.shape
    change = np.empty((sweeps, n, m))
    for t in range(sweeps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                mean = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - right[i, j])
                change[t, i, j] = mean - u[i, j]
                u[i, j] = (1.0 - omega) * u[i, j] + omega * mean
    omega_bar = 0.0
    for t in range(sweeps - 1, -1, -1):
        for i in range(n - 2, 0, -1):
            last = 0.0  # the cotangent of the mean to the right, over 4
            for j in range(m - 2, 0, -1):
                g = u_bar[i, j] + last
                omega_bar += g * change[t, i, j]
                q = 0.25 * omega * g
                u_bar[i, j] = g * (1.0 - omega)
                u_bar[i, j + 1] += q
                u_bar[i - 1, j] += q
                u_bar[i + 1, j] += q
                right_bar[i, j] -= q
                last = q
            u_bar[i, 0] += last
    return (omega_bar,)


@njit
def soft_dtw(x, y, gamma, result_bar, x_bar, y_bar):
    n = x.size
    m = y.size
    r = np.full((n + 1, m + 1), 1e10)
    r[0, 0] = 0.0
    weights = np.empty((n, m, 3))
    for i in range(n):
        for j in range(m):
            a = r[i, j]
            b = r[i, j + 1]
            c = r[i + 1, j]
            low = min(a, b, c)
            p = math.exp((low - a) / gamma)
            q = math.exp((low - b) / gamma)
            s = math.exp((low - c) / gamma)
            total = p + q + s
            weights[i, j, 0] = p / total
            weights[i, j, 1] = q / total
            weights[i, j, 2] = s / total
            r[i + 1, j + 1] = (x[i] - y[j]) ** 2 + low - gamma * math.log(total)
    row = np.zeros(m + 1)  # the cotangents of a row of r; from j on, those of the row above
    row[m] = result_bar
    gamma_bar = 0.0
    for i in range(n - 1, -1, -1):
        from_right = 0.0
        ahead = 0.0
        for j in range(m - 1, -1, -1):
            g = row[j + 1] + from_right
            difference = x[i] - y[j]
            soft = r[i + 1, j + 1] - difference * difference
            p, q, s = weights[i, j, 0], weights[i, j, 1], weights[i, j, 2]
            gamma_bar += g * (soft - p * r[i, j] - q * r[i, j + 1] - s * r[i + 1, j])
            x_bar[i] += 2.0 * g * difference
            y_bar[j] -= 2.0 * g * difference
            row[j + 1] = ahead + g * q
            ahead = g * p
            from_right = g * s
    return r[n, m], gamma_bar / gamma


@njit
def lstm(x, w, u, b, h, x_bar, w_bar, u_bar, b_bar, h_bar):
    steps, inputs = x.shape
    size = h.shape[1]
    c = np.zeros((steps + 1, size))
    z = np.empty((steps, 4 * size))  # the gates
    out = np.empty((steps, size))
    for t in range(steps):
        for k in range(4 * size):
            s = b[k]
            for j in range(inputs):
                s += w[k, j] * x[t, j]
            for j in range(size):
                s += u[k, j] * h[t, j]
            z[t, k] = s
        for k in range(size):
            z[t, k] = 1.0 / (1.0 + math.exp(-z[t, k]))
            z[t, size + k] = 1.0 / (1.0 + math.exp(-z[t, size + k]))
            z[t, 2 * size + k] = math.tanh(z[t, 2 * size + k])
            z[t, 3 * size + k] = 1.0 / (1.0 + math.exp(-z[t, 3 * size + k]))
            c[t + 1, k] = z[t, size + k] * c[t, k] + z[t, k] * z[t, 2 * size + k]
            out[t, k] = math.tanh(c[t + 1, k])
            h[t + 1, k] = z[t, 3 * size + k] * out[t, k]
    c_bar = np.zeros(size)
    z_bar = np.empty(4 * size)
    for t in range(steps - 1, -1, -1):
        for k in range(size):
            gate_in, gate_forget = z[t, k], z[t, size + k]
            new, gate_out = z[t, 2 * size + k], z[t, 3 * size + k]
            g = h_bar[t + 1, k]
            h_bar[t + 1, k] = 0.0
            z_bar[3 * size + k] = g * out[t, k] * gate_out * (1.0 - gate_out)
            g = c_bar[k] + g * gate_out * (1.0 - out[t, k] * out[t, k])
            z_bar[k] = g * new * gate_in * (1.0 - gate_in)
            z_bar[size + k] = g * c[t, k] * gate_forget * (1.0 - gate_forget)
            z_bar[2 * size + k] = g * gate_in * (1.0 - new * new)
            c_bar[k] = g * gate_forget
        for k in range(4 * size):
            g = z_bar[k]
            b_bar[k] += g
            for j in range(size):
                u_bar[k, j] += g * h[t, j]
                h_bar[t, j] += g * u[k, j]
            for j in range(inputs):
                w_bar[k, j] += g * x[t, j]
                x_bar[t, j] += g * w[k, j]


@njit
def pairwise(position, cutoff, energy_bar, position_bar):
    energy = 0.0
    for i in range(position.shape[0]):
        x, y, z = position[i, 0], position[i, 1], position[i, 2]
        x_bar = y_bar = z_bar = 0.0
        for j in range(i + 1, position.shape[0]):
            dx = x - position[j, 0]
            dy = y - position[j, 1]
            dz = z - position[j, 2]
            r2 = dx * dx + dy * dy + dz * dz
            if r2 < cutoff * cutoff:
                over = 1.0 / r2
                s = over * over * over
                energy += 4.0 * (s * s - s)
                force = energy_bar * (24.0 * s - 48.0 * s * s) * over
                x_bar += force * dx
                y_bar += force * dy
                z_bar += force * dz
                position_bar[j, 0] -= force * dx
                position_bar[j, 1] -= force * dy
                position_bar[j, 2] -= force * dz
        position_bar[i, 0] += x_bar
        position_bar[i, 1] += y_bar
        position_bar[i, 2] += z_bar
    return (energy,)


@njit
def csr_product(data, columns, starts, x, y, data_bar, x_bar, y_bar):
    for i in range(y.size):
        g = y_bar[i]
        y_bar[i] = 0.0
        s = 0.0
        for k in range(starts[i], starts[i + 1]):
            j = columns[k]
            s += data[k] * x[j]
            data_bar[k] += g * x[j]
            x_bar[j] += g * data[k]
        y[i] = s
