"""solvers.py in jax, with its library's factorizations: where a matrix is diagonally dominant, none exchanges rows.

`durbin` scans over orders, with masks over vectors of full length.
"""

import jax
import jax.numpy as jnp


def cholesky(a):
    lower = jnp.tril(a)
    whole = lower + jnp.tril(a, -1).T
    return 2.0 * jnp.sum(jnp.log(jnp.diag(jnp.linalg.cholesky(whole, symmetrize_input=False))))


def durbin(r):
    n = r.size
    padded = jnp.concatenate([r[::-1], jnp.zeros(n)])

    def order(state, k):
        y, alpha, beta = state
        beta = beta * (1.0 - alpha * alpha)
        reverse = jax.lax.dynamic_slice(padded, (n - k,), (n,))  # r[k - 1 - i]
        turned = jax.lax.dynamic_slice(jnp.concatenate([y[::-1], jnp.zeros(n)]), (n - k,), (n,))
        alpha = -(r[k] + reverse @ y) / beta
        return ((y + alpha * turned).at[k].set(alpha), alpha, beta), None

    start = jnp.zeros(n).at[0].set(-r[0])
    y = jax.lax.scan(order, (start, -r[0], 1.0), jnp.arange(1, n))[0][0]
    return jnp.sum(y * y)


def gramschmidt(a):
    q, r = jnp.linalg.qr(a)
    signs = jnp.sign(jnp.diag(r))
    return jnp.sum(q * signs) + jnp.sum(r * signs[:, None])


def lu(a):
    factors = jax.lax.linalg.lu(a)[0]
    return jnp.sum(factors * factors)


def ludcmp(a, b):
    x = jnp.linalg.solve(a, b)
    return jnp.sum(x * x)


def trisolv(lower, b):
    x = jax.scipy.linalg.solve_triangular(lower, b, lower=True)
    return jnp.sum(x * x)
