"""linear_algebra.py in jax: whole-array operations."""

import jax.numpy as jnp


def squares(x):
    return jnp.sum(x * x)


def gemm(alpha, beta, c, a, b):
    return squares(beta * c + alpha * (a @ b))


def two_products(alpha, beta, a, b, c, d):
    return squares(beta * d + alpha * (a @ b) @ c)


def three_products(a, b, c, d):
    return squares((a @ b) @ (c @ d))


def symm(alpha, beta, c, a, b):
    whole = jnp.tril(a) + jnp.tril(a, -1).T
    return squares(beta * c + alpha * (whole @ b))


def syrk(alpha, beta, c, a):
    return squares(jnp.tril(beta * c + alpha * (a @ a.T)) + jnp.triu(c, 1))


def syr2k(alpha, beta, c, a, b):
    product = b @ a.T
    return squares(jnp.tril(beta * c + alpha * (product + product.T)) + jnp.triu(c, 1))


def trmm(alpha, a, b):
    return squares(alpha * (b + jnp.tril(a, -1).T @ b))


def doitgen(a, c):
    return squares(a @ c)


def atax(a, x):
    return squares((a @ x) @ a)


def bicg(a, p, r):
    return squares(a @ p) + squares(r @ a)


def gesummv(alpha, beta, a, b, x):
    return squares(alpha * (a @ x) + beta * (b @ x))


def mvt(a, x1, x2, y1, y2):
    return squares(x1 + a @ y1) + squares(x2 + y2 @ a)


def gemver(alpha, beta, a, u1, v1, u2, v2, y, z):
    a = a + u1[:, None] * v1 + u2[:, None] * v2
    return squares(alpha * (a @ (beta * (y @ a) + z)))
