"""finance.py in jax.

`asian_option` needs no scan: logarithms of prices are cumulative sums. `garch` scans, and takes logarithms afterwards;
`american_put` scans over whole levels of the tree.
"""

import math

import jax
import jax.numpy as jnp


def normal_cdf(x):
    return 0.5 * jax.lax.erfc(-x / math.sqrt(2.0))


def black_scholes(spot, strike, volatility, time, rate):
    spread = volatility * jnp.sqrt(time)
    d1 = (jnp.log(spot / strike) + (rate + 0.5 * volatility**2) * time) / spread
    return jnp.sum(spot * normal_cdf(d1) - strike * jnp.exp(-rate * time) * normal_cdf(d1 - spread))


def asian_option(spot, rate, volatility, maturity, strike, normals):
    paths, steps = normals.shape
    dt = maturity / steps
    drift = (rate - 0.5 * volatility**2) * dt
    grown = jnp.cumsum(drift + volatility * jnp.sqrt(dt) * normals, 1)
    gain = jnp.maximum(spot * jnp.mean(jnp.exp(grown), 1) - strike, 0.0)
    return jnp.exp(-rate * maturity) * jnp.sum(gain) / paths


def american_put(spot, strike, rate, volatility, maturity, steps):
    dt = maturity / steps
    up = jnp.exp(volatility * jnp.sqrt(dt))
    discount = jnp.exp(-rate * dt)
    p = (jnp.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
    final = spot * jnp.exp(volatility * jnp.sqrt(dt) * (2.0 * jnp.arange(steps + 1) - steps))
    value = jnp.maximum(strike - final, 0.0)

    def level(state, _):
        value, price = state  # what is beyond the level is not read
        price = price[:-1] * up
        hold = discount * (p * value[1:] + (1.0 - p) * value[:-1])
        value = jnp.maximum(hold, strike - price)
        return (jnp.append(value, 0.0), jnp.append(price, 0.0)), None

    return jax.lax.scan(level, (value, final), length=steps)[0][0][0]


def garch(returns, omega, alpha, beta):
    squares = returns**2

    def day(variance, square):
        return omega + alpha * square + beta * variance, variance

    variance = jax.lax.scan(day, omega / (1.0 - alpha - beta), squares)[1]
    return -0.5 * jnp.sum(math.log(2.0 * math.pi) + jnp.log(variance) + squares / variance)
