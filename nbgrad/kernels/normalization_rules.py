"""Normalization written with operators: the rules that derivatives of higher order and the compiler use."""

from __future__ import annotations

from ..arrays.ndarray import NDArray
from ..core.dtypes import float32
from ..core.shapes import size
from ..operators.cast import cast
from .reduce import sum_
from .shape import reshape
from .unary import rsqrt, square

__all__ = ["by_operators", "expanded", "statistics_kind"]


def statistics_kind(data: NDArray):
    """Statistics, and what is learned, are float32 for float16 data."""
    return data._kind.of(float32) if data._kind.dtype.name == "float16" else data._kind


def expanded(data, gamma, beta, eps, over, spread) -> list[NDArray]:
    """Normalization by operators: statistics over these axes, which `spread` gives data's rank, as what is learned."""
    kind = statistics_kind(data)
    x = data if data._kind is kind else cast(data, kind)
    count = size([x.shape[k] for k in over])
    mean = sum_(x, axis=over, keepdims=True) / count
    centred = x - mean
    variance = sum_(square(centred), axis=over, keepdims=True) / count
    y = centred * rsqrt(variance + eps) * spread(gamma) + spread(beta)
    rows = tuple(n for k, n in enumerate(x.shape) if k not in over)
    return [y if data._kind is kind else cast(y, data._kind), reshape(mean, rows), reshape(variance, rows)]


def by_operators(g, data, gamma, mean, variance, axes, eps, spread, channels: bool):
    """The three cotangents, by operators. `axes` are those of what is learned, `spread` gives a statistic data's rank;
    statistics are taken over all other axes (`channels`) or over these."""
    gy, gmean, gvar = g
    kind = mean._kind
    if data._kind is not kind:  # float16
        data, gy = cast(data, kind), cast(gy, kind)
    rest = tuple(k for k in range(data.ndim) if k not in axes)
    over = rest if channels else axes
    count = size([data.shape[k] for k in over])
    learned = tuple(n if k in axes else 1 for k, n in enumerate(data.shape))
    centred = data - spread(mean)
    rstd = rsqrt(spread(variance) + eps)
    h = centred * rstd
    dgamma = sum_(gy * h, axis=rest) if rest else gy * h
    dbeta = sum_(gy, axis=rest) if rest else gy
    k = gy * reshape(gamma, learned)

    def average(x):
        return sum_(x, axis=over, keepdims=True) / count if over else x

    dx = (k - average(k) - h * average(k * h)) * rstd
    dx = dx + spread(gmean) / count + centred * (spread(gvar) * (2 / count))
    return [dx, reshape(dgamma, gamma.shape), reshape(dbeta, gamma.shape)]
