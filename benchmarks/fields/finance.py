"""Prices of options, and a likelihood."""

import math

import numpy as np

from . import Kernel


def normal_cdf(x):
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def black_scholes(spot, strike, volatility, time, rate):
    """The value of a portfolio of calls."""
    total = 0.0
    for i in range(spot.size):
        spread = volatility[i] * math.sqrt(time[i])
        d1 = (math.log(spot[i] / strike[i]) + (rate + 0.5 * volatility[i] ** 2) * time[i]) / spread
        d2 = d1 - spread
        total += spot[i] * normal_cdf(d1) - strike[i] * math.exp(-rate * time[i]) * normal_cdf(d2)
    return total


def asian_option(spot, rate, volatility, maturity, strike, normals):
    """A call on the mean price along simulated paths."""
    paths, steps = normals.shape
    dt = maturity / steps
    drift = (rate - 0.5 * volatility**2) * dt
    spread = volatility * math.sqrt(dt)
    total = 0.0
    for i in range(paths):
        price = spot
        mean = 0.0
        for t in range(steps):
            price *= math.exp(drift + spread * normals[i, t])
            mean += price
        total += max(mean / steps - strike, 0.0)
    return math.exp(-rate * maturity) * total / paths


def american_put(spot, strike, rate, volatility, maturity, steps):
    """A binomial tree (Cox, Ross and Rubinstein), with exercise at every node."""
    dt = maturity / steps
    up = math.exp(volatility * math.sqrt(dt))
    discount = math.exp(-rate * dt)
    p = (math.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
    value = np.empty(steps + 1)
    for i in range(steps + 1):
        value[i] = max(strike - spot * up ** (2 * i - steps), 0.0)
    for t in range(steps - 1, -1, -1):
        price = spot * up ** (-t)
        for i in range(t + 1):
            hold = discount * (p * value[i + 1] + (1.0 - p) * value[i])
            value[i] = max(hold, strike - price)
            price *= up * up
    return value[0]


def garch(returns, omega, alpha, beta):
    """The log-likelihood of GARCH(1, 1)."""
    variance = omega / (1.0 - alpha - beta)
    total = 0.0
    for t in range(returns.size):
        total -= 0.5 * (math.log(2.0 * math.pi) + math.log(variance) + returns[t] ** 2 / variance)
        variance = omega + alpha * returns[t] ** 2 + beta * variance
    return total


def _calls(rng, n):
    between = rng.uniform
    return between(80, 120, n), between(80, 120, n), between(0.1, 0.5, n), between(0.2, 2.0, n), 0.03


KERNELS = [
    Kernel(black_scholes, _calls, (40_000,), (8,)),
    Kernel(asian_option, lambda rng, n, steps: (100.0, 0.05, 0.3, 1.0, 95.0, rng.normal(size=(n, steps))), (2000, 100),
           (8, 4)),
    Kernel(american_put, lambda rng, n: (100.0, 105.0, 0.05, 0.3, 1.0, n), (1000,), (8,)),
    Kernel(garch, lambda rng, n: (0.1 * rng.normal(size=n), 0.001, 0.1, 0.8), (100_000,), (8,)),
]  # fmt: skip
