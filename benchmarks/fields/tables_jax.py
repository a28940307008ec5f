"""tables.py in jax.

`deriche` scans along one axis with whole lines of the other, both directions in one scan; `floyd_warshall` over k;
`nussinov` over diagonals, which are rows of tables by the first and by the last base.
"""

import jax
import jax.numpy as jnp

scan = jax.lax.scan


def covariance(data):
    centred = data - jnp.mean(data, 0)
    cov = centred.T @ centred / (data.shape[0] - 1.0)
    return jnp.sum(cov * cov)


def correlation(data):
    centred = data - jnp.mean(data, 0)
    scaled = centred / jnp.sqrt(jnp.sum(centred * centred, 0))
    corr = scaled.T @ scaled
    return jnp.sum(corr * corr)


def deriche(image, alpha):
    e = jnp.exp(-alpha)
    k = (1.0 - e) ** 2 / (1.0 + 2.0 * alpha * e - e * e)
    b1, b2 = 2.0 * e, -e * e

    def smooth(image):
        """Along the first axis."""
        zero = jnp.zeros((1, image.shape[1]))
        before = jnp.concatenate([zero, image[:-1]])
        driven = k * image + k * e * (alpha - 1.0) * before
        after = jnp.concatenate([image[1:], zero])
        later = jnp.concatenate([image[2:], zero, zero])
        driven_back = k * e * (alpha + 1.0) * after - k * e * e * later

        def line(state, x):
            y1, y2 = state
            y = x + b1 * y1 + b2 * y2
            return (y, y1), y

        start = jnp.zeros((2, image.shape[1]))
        both = scan(line, (start, start), jnp.stack([driven, driven_back[::-1]], 1))[1]
        return both[:, 0] + both[::-1, 1]

    result = smooth(smooth(image.T).T)
    return jnp.sum(result * result)


def floyd_warshall(paths):
    def through(paths, k):
        way = paths[:, k, None] + paths[k]
        return jnp.where(way < paths, way, paths), None

    return jnp.sum(scan(through, paths, jnp.arange(paths.shape[0]))[0])


def nussinov(score):
    n = score.shape[0]
    place = jnp.arange(n)
    none = -jnp.inf

    def diagonal(state, d):
        first, last = state  # first[k, i] = table[i, i + k]; last[k, i] = table[i - k, i]
        ends = jnp.minimum(place + d, n - 1)
        k = place[:, None]
        left = jnp.where((k >= 1) & (k < d), first, none)
        shifted = jnp.roll(last[::-1], d - n, 0)  # row k: last[d - 1 - k]
        best = jnp.max(left + shifted[:, ends], 0)
        best = jnp.maximum(best, jnp.maximum(first[d - 1, jnp.minimum(place + 1, n - 1)], first[d - 1]))
        paired = jnp.where(d > 1, first[d - 2, jnp.minimum(place + 1, n - 1)] + score[place, ends], none)
        best = jnp.where(place + d < n, jnp.maximum(best, paired), 0.0)
        return (first.at[d].set(best), last.at[d].set(jnp.roll(best, d))), None

    empty = jnp.zeros((n, n))
    return scan(diagonal, (empty, empty), jnp.arange(1, n))[0][0][n - 1, 0]
