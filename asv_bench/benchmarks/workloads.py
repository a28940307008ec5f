"""The workloads of ``peers.py`` and of the benchmarks here, each spelled once, for a namespace `xp` of a library.

A script finds this file and :mod:`libraries` by their folder, airspeed velocity as parts of a package: they import
nothing of each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

__all__ = ["WORKLOADS", "Workload", "chain", "operands"]


class Workload(NamedTuple):
    """A scalar (or one-head) function, how its arrays are made, and which of them get gradients (None: all).

    ``function(xp, *arrays)``; arrays of integers stay integers. `along`: instead of the gradient by the only argument,
    the Hessian's product with a vector is asked for, which is the last of the arrays.
    """

    name: str
    function: Callable
    arrays: Callable[[np.random.Generator], tuple[np.ndarray, ...]]
    wanted: tuple[int, ...] | None = None
    along: bool = False
    tolerance: float = 1e-8


def operands():
    """Two float64 arrays of 10 elements."""
    return np.linspace(0.1, 1.0, 10), np.linspace(0.5, 1.5, 10)


def chain(a, b, tanh):
    """Five times multiply, add, tanh, subtract."""
    y = a
    for _ in range(5):
        y = tanh(y * b + a) - b
    return y


def tiny(xp, a, b):
    return chain(a, b, xp.tanh)


def tiny_sum(xp, a, b):
    return xp.sum(chain(a, b, xp.tanh))


def elementwise(xp, a, b):
    return (a * b + a) * b - a / b


def long_chain(xp, x, w, b):
    z = x * w + b
    t = xp.tanh(z)
    s = xp.sigmoid(z)
    return xp.sum(xp.log(1 + xp.exp(t * s)) * s)


def black_scholes(xp, spot, strike, expiry, rate, volatility):
    """The value of call options, summed: its gradients are the greeks."""
    spread = volatility * xp.sqrt(expiry)
    d1 = (xp.log(spot / strike) + (rate + 0.5 * volatility * volatility) * expiry) / spread
    d2 = d1 - spread

    def ncdf(z):
        return 0.5 * (1 + xp.erf(z * math.sqrt(0.5)))

    return xp.sum(spot * ncdf(d1) - strike * xp.exp(-rate * expiry) * ncdf(d2))


def softmax_regression(xp, x, labels, w, b):
    return xp.cross_entropy(xp.linear(x, w, b), labels)


def layer_norm(xp, x, target, gain, bias):
    return xp.mean(xp.square(xp.layer_norm(x, gain, bias) - target))


def mlp(xp, x, labels, w1, b1, w2, b2, w3, b3):
    h = xp.relu(xp.linear(x, w1, b1))
    h = xp.relu(xp.linear(h, w2, b2))
    return xp.cross_entropy(xp.linear(h, w3, b3), labels)


def mixture(xp, x, alphas, means, factors):
    """Log-likelihood of a Gaussian mixture (as in ADBench, without its prior): `factors` are the (K, d, d) inverse
    Cholesky factors, the logarithms of their diagonals on the diagonal."""
    d = x.shape[1]
    eye = xp.constant(np.eye(d))
    lower = xp.constant(np.tril(np.ones((d, d)), -1))
    logs = xp.sum(factors * eye, 2)  # (K, d)
    q = factors * lower + xp.expand(xp.exp(logs), 2) * eye
    centred = xp.expand(x, 0) - xp.expand(means, 1)  # (K, n, d)
    y = xp.batch_dot_t(centred, q)  # (K, n, d)
    inner = xp.expand(alphas + xp.sum(logs, 1), 1) - 0.5 * xp.sum(xp.square(y), 2)  # (K, n)
    constant = -0.5 * x.shape[0] * d * math.log(2 * math.pi)
    return xp.sum(xp.logsumexp(inner, 0)) - x.shape[0] * xp.logsumexp(alphas, 0) + constant


def lenet(xp, images, labels, k1, c1, k2, c2, w1, b1, w2, b2):
    y = xp.max_pool(xp.tanh(xp.conv(images, k1, c1)))
    y = xp.max_pool(xp.tanh(xp.conv(y, k2, c2)))
    y = xp.tanh(xp.linear(xp.flatten(y), w1, b1))
    return xp.cross_entropy(xp.linear(y, w2, b2), labels)


def rosenbrock(xp, x):
    a, b = x[1:], x[:-1]
    return xp.sum(100 * xp.square(a - xp.square(b)) + xp.square(1 - b))


def lennard_jones(xp, x, eye):
    """The energy of bodies at the rows of `x`; `eye` puts a body at distance 1 from itself, where the energy is 0."""
    apart = xp.expand(x, 1) - xp.expand(x, 0)
    s = 1 / (xp.sum(xp.square(apart), 2) + eye)
    s6 = s * s * s
    return 2 * xp.sum(s6 * s6 - s6)


def recurrent(xp, x, target, w, u, b, v, c):
    """A network with a state, one step for each x[t], and what it says at the end."""
    h = xp.tanh(xp.linear(x[0], w, b))
    for t in range(1, x.shape[0]):
        h = xp.tanh(xp.linear(x[t], w, b) + xp.dot(h, u))
    return xp.mean(xp.square(xp.linear(h, v, c) - target))


STEPS = 50


def heat(xp, u, target):
    """How far from `target` the heat equation leads in explicit steps; the boundary is kept at 0."""
    for _ in range(STEPS):
        inner = u[1:-1, 1:-1]
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        u = xp.border(inner + 0.2 * (around - 4 * inner))
    return xp.sum(xp.square(u - target))


def reprojection(xp, cameras, points, seen, camera, point):
    """Half the sum of squares of where points appear in pictures, less where they were seen (as in bundle adjustment).

    A camera: rotation vector, translation, focal length, two coefficients of radial distortion.
    """
    row, p = xp.take(cameras, camera), xp.take(points, point)
    a, b, c, tx, ty, tz, focal, k1, k2 = (row[:, i] for i in range(9))
    px, py, pz = (p[:, i] for i in range(3))
    angle = xp.sqrt(a * a + b * b + c * c)
    a, b, c = a / angle, b / angle, c / angle
    cos, sin = xp.cos(angle), xp.sin(angle)
    along = (a * px + b * py + c * pz) * (1 - cos)  # Rodrigues' formula
    qx = px * cos + (b * pz - c * py) * sin + a * along + tx
    qy = py * cos + (c * px - a * pz) * sin + b * along + ty
    qz = pz * cos + (a * py - b * px) * sin + c * along + tz
    x, y = -qx / qz, -qy / qz
    r2 = x * x + y * y
    scale = focal * (1 + r2 * (k1 + k2 * r2))
    return 0.5 * xp.sum(xp.square(scale * x - seen[:, 0]) + xp.square(scale * y - seen[:, 1]))


def matmul(xp, a, b):
    return xp.dot(a, b)


def perceptron(xp, x, w, v):
    return xp.sum(xp.square(xp.dot(xp.tanh(xp.dot(x, w)), v)))


def _uniform(*ranges: tuple[float, float], n: int):
    return lambda rng: tuple(rng.uniform(low, high, n) for low, high in ranges)


def _normal(*shapes: tuple[int, ...], scales=None):
    scales = scales or (1.0,) * len(shapes)
    return lambda rng: tuple(scale * rng.standard_normal(shape) for shape, scale in zip(shapes, scales, strict=True))


def _classified(inputs: tuple[int, ...], *shapes: tuple[int, ...], dtype=np.float64):
    """Inputs, ten classes of labels, and weights scaled by what they sum over."""

    def make(rng):
        x = rng.standard_normal(inputs).astype(dtype)
        weights = [(rng.standard_normal(s) / math.sqrt(np.prod(s[1:]))).astype(dtype) for s in shapes]
        return x, rng.integers(0, 10, inputs[0]), *weights

    return make


def _mlp(batch: int, *widths: int):
    shapes = [s for n, m in pairwise(widths) for s in ((m, n), (m,))]
    return _classified((batch, widths[0]), *shapes)


def _sequence(steps: int, batch: int, inputs: int, hidden: int, outputs: int):
    shapes = (steps, batch, inputs), (batch, outputs), (hidden, inputs), (hidden, hidden), (hidden,), (outputs, hidden)
    return _normal(*shapes, (outputs,), scales=(1, 1, inputs**-0.5, hidden**-0.5, 1, hidden**-0.5, 1))


def _bodies(side: int):
    """side**3 of them, near a lattice."""

    def make(rng):
        places = 1.1 * np.stack(np.meshgrid(*3 * [np.arange(float(side))], indexing="ij"), -1).reshape(-1, 3)
        return places + rng.uniform(-0.05, 0.05, places.shape), np.eye(side**3)

    return make


def _pictures(cameras: int, points: int, seen: int):
    def make(rng):
        every = rng.standard_normal((cameras, 9)) * np.repeat((0.3, 0.1, 10, 0.01, 0.001), (3, 3, 1, 1, 1))
        every += (0, 0, 0, 0, 0, -8, 500, 0, 0)  # points are in front of them
        places, found = rng.standard_normal((points, 3)), 100 * rng.standard_normal((seen, 2))
        return every, places, found, np.sort(rng.integers(0, cameras, seen)), rng.integers(0, points, seen)

    return make


_OPTIONS = ((80, 120), (80, 120), (0.2, 2), (0.01, 0.1), (0.1, 0.5))

WORKLOADS = [
    Workload("20 operators on 10 elements", tiny, lambda rng: operands()),
    Workload("tiny: the same and a sum", tiny_sum, lambda rng: operands()),
    Workload("5 operators on 1e6", elementwise, _uniform((0.5, 1.5), (0.5, 1.5), n=10**6)),
    Workload("chain 1e6", long_chain, _normal((10**6,), (10**6,), (10**6,))),
    Workload("Black-Scholes 1e6", black_scholes, _uniform(*_OPTIONS, n=10**6)),
    Workload("softmax regression", softmax_regression, _classified((10_000, 784), (10, 784), (10,)), (2, 3)),
    Workload("layer norm 4096x512", layer_norm, _normal((4096, 512), (4096, 512), (512,), (512,)), (0, 2, 3)),
    Workload("MLP 784-256-128-10, 128", mlp, _mlp(128, 784, 256, 128, 10), (2, 3, 4, 5, 6, 7)),
    Workload("MLP 64-32-16-10, 16", mlp, _mlp(16, 64, 32, 16, 10), (2, 3, 4, 5, 6, 7)),
    Workload(
        "mixture n=10000 d=10 K=25",
        mixture,
        _normal((10_000, 10), (25,), (25, 10), (25, 10, 10), scales=(1, 1, 1, 0.3)),
        (1, 2, 3),
    ),
    Workload(
        "LeNet step, batch 64 float32",
        lenet,
        _classified(
            (64, 1, 28, 28),
            (20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (500, 800), (500,), (10, 500), (10,),
            dtype=np.float32,
        ),
        (2, 3, 4, 5, 6, 7, 8, 9),
        tolerance=2e-3,
    ),
    Workload("Rosenbrock 1e6", rosenbrock, _normal((10**6,))),
    Workload("Rosenbrock 1e3", rosenbrock, _normal((1000,))),
    Workload("Rosenbrock 1e5, H v", rosenbrock, _normal((10**5,), (10**5,)), along=True),
    Workload("Lennard-Jones, 1000 bodies", lennard_jones, _bodies(10), (0,)),
    Workload("recurrent, 50 steps, 32x64", recurrent, _sequence(50, 32, 16, 64, 10), (2, 3, 4, 5, 6)),
    Workload("heat, 50 steps, 128x128", heat, _normal((128, 128), (128, 128)), (0,)),
    Workload("reprojection, 10000 seen", reprojection, _pictures(100, 2000, 10_000), (0, 1)),
    Workload("matrix product 512", matmul, _normal((512, 512), (512, 512))),
    Workload("perceptron 64x32, 64, 10", perceptron, _normal((64, 32), (32, 64), (64, 10), scales=(1, 0.1, 0.1))),
]  # fmt: skip
