"""Functions of numba.stencil in loops, and given to adjoint directly."""

import math

import numpy as np
import pytest
from numba import njit, prange, stencil

import nbgrad as nb
from nbgrad.errors import TraceError


@stencil
def laplacian(u):
    return u[-1, 0] + u[1, 0] + u[0, -1] + u[0, 1] - 4.0 * u[0, 0]


@stencil(cval=1.5)
def gradient_squared(u):
    dx = u[1] - u[-1]
    return dx * dx


@stencil(neighborhood=((-2, 2),))
def window_mean(u):
    total = 0.0
    for k in range(-2, 3):
        total += u[k]
    return total / 5


@stencil(neighborhood=((-3, 0),), standard_indexing=("w",), cval=-1.0)
def causal_filter(x, w):
    total = 0.0
    for k in range(w.size):
        total += w[k] * x[-k]
    return total


@stencil
def diffusion(u, c, dt):
    """Two arrays, and a number."""
    return u[0] + dt * (c[1] * (u[1] - u[0]) - c[0] * (u[0] - u[-1]))


@stencil
def upwind(u, speed):
    if speed[0] > 0.0:
        return speed[0] * (u[0] - u[-1])
    return speed[0] * (u[1] - u[0])


@stencil
def forward(u):
    return u[2] * u[1]


@stencil
def neighbours(cells):
    return (
        cells[-1, -1]
        + cells[-1, 0]
        + cells[-1, 1]
        + cells[0, -1]
        + cells[0, 1]
        + cells[1, -1]
        + cells[1, 0]
        + cells[1, 1]
    )


@stencil(neighborhood=((-1, 1), (-1, 1)))
def smooth_norm(u):
    return math.sqrt(np.sum(u[-1:2, -1:2] ** 2) + 1.0)


@stencil
def seven_points(u):
    return u[0, 0, -1] + u[0, 0, 1] + u[0, -1, 0] + u[0, 1, 0] + u[-1, 0, 0] + u[1, 0, 0] - 6.0 * u[0, 0, 0]


def smoothing(x):
    y = window_mean(window_mean(x))
    return np.sum(y * y)


def heat(u, dt, steps):
    for _ in range(steps):
        u = u + dt * laplacian(u)
    return np.sum(u**2)


def heat_in_place(u0, dt, steps):
    u = u0.copy()
    du = np.zeros_like(u)
    for _ in range(steps):
        laplacian(u, out=du)
        u[1:-1, 1:-1] += dt * du[1:-1, 1:-1]
    return np.sum(np.sin(u))


def roughness(u):
    return np.mean(gradient_squared(u))


def filtered(x, w):
    return np.sum(causal_filter(x, w) * x)


def varying(u, c, dt):
    for _ in range(4):
        u = diffusion(u, c, dt)
    return np.sum(u * c)


def advected(u, speed):
    v = u - 0.1 * upwind(u, speed)
    v = v - 0.1 * upwind(v, speed)
    return np.sum(v * v)


def ahead(u):
    return np.sum(forward(u))


def soft_life(cells):
    """Conway's game, with sigmoids."""
    for _ in range(2):
        n = neighbours(cells)
        cells = 1.0 / (1.0 + np.exp(-(3.0 - (n - 3.0) ** 2 + cells)))
    return np.sum(cells)


def norms(u):
    return np.sum(smooth_norm(u))


def volume(u):
    return np.sum(seven_points(u) ** 2)


def rows(u):
    total = 0.0
    for i in range(u.shape[0]):
        total += np.sum(window_mean(u[i]) ** 2)
    return total


def into_given(x):
    y = np.full(x.size, 3.0)
    window_mean(x, out=y)
    gradient_squared(y, out=y[:])
    return np.sum(y * x)


RNG = np.random.default_rng(5)
U, X, C = RNG.normal(size=(6, 5)), RNG.normal(size=9), RNG.uniform(0.5, 1.0, size=9)
CASES = [
    (smoothing, (X,)),
    (smoothing, (X[:3],)),  # no element has all neighbours
    (heat, (U, 0.1, 3)),
    (heat_in_place, (U, 0.1, 3)),
    (roughness, (X,)),
    (filtered, (X, RNG.normal(size=3))),
    (varying, (X, C, 0.2)),
    (advected, (X, RNG.normal(size=9))),
    (ahead, (X,)),
    (soft_life, (RNG.uniform(size=(6, 7)),)),
    (norms, (U,)),
    (volume, (RNG.normal(size=(4, 5, 4)),)),
    (rows, (RNG.normal(size=(3, 7)),)),
    (rows, (RNG.normal(size=(7, 3)).T,)),
]


def directions_of(args):
    return [None if isinstance(a, int) else np.cos(np.arange(np.size(a))).reshape(np.shape(a))[()] for a in args]


def moved(args, directions, h):
    return tuple(a if d is None else a + h * d for a, d in zip(args, directions, strict=True))


@pytest.mark.parametrize(("f", "args"), CASES)
def test_values_and_derivatives(f, args):
    adj = nb.adjoint(f)
    value, gradients = adj.value_and_grad(*args)
    assert value == pytest.approx(f(*args), rel=1e-13)
    directions = directions_of(args)
    slope = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True) if d is not None)
    numeric = (f(*moved(args, directions, 1e-6)) - f(*moved(args, directions, -1e-6))) / 2e-6
    assert slope == pytest.approx(numeric, rel=1e-6, abs=1e-8)
    assert nb.tangent(f).jvp(args, tuple(directions))[1] == pytest.approx(slope, rel=1e-11)
    if f in (filtered, advected, soft_life, norms):
        up, down = (adj.value_and_grad(*moved(args, directions, h))[1] for h in (1e-6, -1e-6))
        for k, product in enumerate(adj.hvp(args, tuple(directions))):
            if directions[k] is not None:
                np.testing.assert_allclose(product, (up[k] - down[k]) / 2e-6, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("s", "args"),
    [
        (laplacian, (U,)),
        (gradient_squared, (X,)),
        (window_mean, (X,)),
        (causal_filter, (X, C[:4])),
        (diffusion, (X, np.concatenate([C, C]), 0.2)),  # a larger second array
        (upwind, (X, C - 0.7)),
        (forward, (X[:2],)),
        (smooth_norm, (U,)),
    ],
)
def test_given_directly(s, args):
    expected = s(*args)
    pull = nb.adjoint(s).vjp(*args)
    np.testing.assert_allclose(pull.value, expected, rtol=1e-14)
    weights = np.sin(np.arange(expected.size) + 1.0).reshape(expected.shape)
    directions = directions_of(args)
    slope = sum(np.sum(p * d) for p, d in zip(pull(weights), directions, strict=False))
    up, down = (np.sum(weights * s(*moved(args, directions, h))) for h in (1e-6, -1e-6))
    assert slope == pytest.approx((up - down) / 2e-6, rel=1e-6, abs=1e-9)


def test_the_border_is_the_callers_where_an_array_is_given():
    out = np.full(9, 7.0)
    nb.adjoint(window_mean).vjp(X, out)
    expected = window_mean(X, out=np.full(9, 7.0))
    np.testing.assert_allclose(out, expected, rtol=1e-14)
    assert out[0] == out[-1] == 7.0
    nb.adjoint(gradient_squared).vjp(X, out)  # unless there is a cval
    np.testing.assert_allclose(out, gradient_squared(X, out=np.zeros(9)), rtol=1e-14)
    assert out[0] == out[-1] == 1.5


def test_in_place_reads_what_was_written():
    value, gradients = nb.adjoint(into_given).value_and_grad(X)
    y = window_mean(X, out=np.full(9, 3.0))
    y = gradient_squared(y, out=y)
    assert value == pytest.approx(np.sum(y * X), rel=1e-13)
    step = np.eye(9)[4] * 1e-6
    numeric = (
        nb.adjoint(into_given).value_and_grad(X + step)[0] - nb.adjoint(into_given).value_and_grad(X - step)[0]
    ) / 2e-6
    assert gradients[0][4] == pytest.approx(numeric, rel=1e-6)


def test_called_by_compiled_functions():
    @njit(parallel=True)
    def total(u, dt):
        s = 0.0
        v = u + dt * laplacian(u)
        for i in prange(v.shape[0]):
            s += np.sum(v[i] ** 2)
        return s

    value, gradients = nb.adjoint(total).value_and_grad(U, 0.1)
    assert value == pytest.approx(total(U, 0.1), rel=1e-13)
    assert gradients[1] == pytest.approx((total(U, 0.1 + 1e-6) - total(U, 0.1 - 1e-6)) / 2e-6, rel=1e-7)


def test_types_of_results_are_those_of_numba():
    single = X.astype("float32")
    assert nb.adjoint(forward).vjp(single).value.dtype == np.float32 == forward(single).dtype
    assert nb.adjoint(window_mean).vjp(single).value.dtype == np.float64 == window_mean(single).dtype

    def counted(cells, w):
        n = neighbours(cells)
        return np.sum(w * n) + n[1, 1] // 2

    cells = (U > 0).astype(int)
    expected = np.sum(U * neighbours(cells)) + neighbours(cells)[1, 1] // 2
    value, gradients = nb.adjoint(counted).value_and_grad(cells, U)
    assert value == pytest.approx(expected, rel=1e-14)
    np.testing.assert_array_equal(gradients[1], neighbours(cells))


def test_a_smaller_second_array_is_an_error():
    with pytest.raises(ValueError, match="smaller than the first"):
        nb.adjoint(diffusion).vjp(X, C[:5], 0.1)


@stencil(neighborhood=((-1, 1),))
def reaching_out(u):
    return u[0] * u[4]


def test_indices_outside_of_the_neighborhood_are_checked():
    with pytest.raises(IndexError):
        nb.adjoint(reaching_out).vjp(X)


@stencil
def needs_a_neighborhood(u, k):
    return u[k]


@stencil
def names_the_array(u):
    v = u
    return v[0] + u[1]


@stencil
def too_few_indices(u):
    return u[1]


@stencil(cval=0.5)
def float_border(u):
    return u[1] + u[0]


@stencil
def nothing_relative(u):
    return 1.0


@stencil(neighborhood=((-1, 1), (0, 0)))
def other_neighborhood(u):
    return u[0]


@pytest.mark.parametrize(
    ("s", "args", "message"),
    [
        (needs_a_neighborhood, (X, 1), "relative index k, which is not constant.*give the stencil a neighborhood"),
        (names_the_array, (X,), "u, an array of a stencil, other than at relative indices"),
        (too_few_indices, (U,), "1 relative indices of 2 axes|cannot compile"),
        (float_border, (np.arange(5),), "cval is a float and whose result is of kind int"),
        (nothing_relative, (X,), "without relative indices"),
        (other_neighborhood, (X,), "a neighborhood of 2 axes"),
        (laplacian, (2.0,), "of which the first is an array"),
    ],
)
def test_what_is_refused(s, args, message):
    with pytest.raises(TraceError, match=f"test_adjoint_stencil.py, line.*({message})"):
        nb.adjoint(s).vjp(*args)
