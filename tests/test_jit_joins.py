"""Joined arrays and padded ones in compiled functions: they are read where they come from, in the ranges of guards."""

import numpy as np
import pytest
from test_jit_loops import ROWS, args_of, check, loops_of

import nbgrad as nb
from nbgrad import nd
from nbgrad.compiler.element_reads import ElementReader

RNG = np.random.default_rng(8)


def ends_joined(u):
    return nd.concat(u[-1:], u[:-1], dim=0) * 0.5 + nd.concat(u[1:], u[:1] * u[1:2], dim=0)


def joined_twice(u):
    wide = nd.concat(u[:1], nd.sin(u), u[-1:], dim=0)
    return (wide[2:] - wide[:-2])[::-1] * wide[::-2].sum() * 0.1


def joined_along_both(u):
    m = u.reshape((2, 3))
    m = nd.concat(m[:, :1], nd.concat(m[:1, 1:] * m[1:, 1:], m[1:, 1:], dim=0), dim=1)
    return nd.concat(m, m[:1] + 0.1, dim=0)[1:].reshape((6,))


def many_joined(u):
    return nd.stack(*[u[k] * u[k - 1] for k in (0, 3, 1, 5, 2, 4)], axis=0).reshape((6,)) * 0.7


def split_and_rolled(u):
    a, b, c = nd.split(u, num_outputs=3, axis=0)
    return nd.roll(nd.concat(c, a * b, nd.flip(a, axis=0), dim=0), shift=2, axis=0)


def joined_of_many_kinds(u):
    return nd.concat(nd.zeros(2, dtype="float64"), nd.cumsum(u)[1:3] * 0.2, nd.ones(1, dtype="float32"), u[:1], dim=0)


JOINS = [ends_joined, joined_twice, joined_along_both, many_joined, split_and_rolled, joined_of_many_kinds]


@pytest.mark.parametrize("change", JOINS, ids=lambda f: f.__name__)
def test_what_steps_join_is_read_where_it_comes_from(change):
    """In derivatives, too; and no step runs from Python but that of an operator of its own."""

    def f(u, xs):
        def step(x, u):
            u = change(u) * 0.9 + 0.1 * nd.sum(x)
            return u[1:4], u

        out, u = nd.contrib.foreach(step, xs, u)
        return nd.sum(out**2) + nd.sum(nd.sin(u))

    check(f, RNG.normal(size=6), ROWS[:4])
    compiled = nb.jit(nb.value_and_grad(f))
    compiled(*args_of((RNG.normal(size=6), ROWS)))
    assert {loop.compiled.is_kernel for loop in loops_of(compiled)} == {"cumsum" not in change.__code__.co_names}


def five_points(u):
    inner = 0.2 * (u[:-2, 1:-1] + u[2:, 1:-1] * u[1:-1, :-2] + u[1:-1, 2:] + u[1:-1, 1:-1])
    return nd.concat(u[:1], nd.concat(u[1:-1, :1], inner, u[1:-1, -1:], dim=1), u[-1:], dim=0)


def wide_stencil(u):
    """Seven points, and more places where a guard changes than a loop is split at."""
    padded = nd.slice_assign(nd.zeros((u.shape[0] + 6, u.shape[1]), dtype="float64"), u, begin=(3, 0), end=(-3, None))
    return sum((k + 1) * 0.1 * nd.sin(padded[k : k + u.shape[0]]) * u for k in range(7))


def ring(u):
    return nd.roll(u, 1, axis=0) * nd.roll(u, -2, axis=0) - nd.roll(u, 3, axis=1) * nd.flip(u, axis=1)


def maximum_of_neighbours(u):
    """Guards in the loop of a reduction."""
    around = [u[:, :-2], u[:, 1:-1] * u[:, :-2], nd.sin(u[:, 2:])]
    joined = nd.concat(u[:, :1], around[0] + around[1] + around[2], u[:, 1:2], dim=1)
    return nd.max(joined, axis=1, keepdims=True) * joined + nd.sum(joined * u, axis=0)


def products_of_neighbours(u):
    """Of long rows: these are tiled, and what the loops of a tile share is in an array as long as a tile."""
    a, b = u[:, 3:] * u[:, :-3], nd.sin(u[:, 1:-2])
    c = a * b + u[:, 2:-1] * a
    return c * u[:, :-3] + c * c * a


STENCILS = [five_points, wide_stencil, ring, maximum_of_neighbours, products_of_neighbours]
SHAPES = [(20, 24), (300, 3), (3, 9000), (6, 7)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("f", STENCILS, ids=lambda f: f.__name__)
def test_stencils_of_all_shapes(f, shape):
    """Long and short axes, which are split where guards change, unrolled or tiled: to the second derivative."""
    u = RNG.normal(size=shape if f is not products_of_neighbours else (shape[0], max(shape[1], 4))) / 2
    check(lambda u: nd.sum(f(u) ** 2) * (10 / u.size), u)


def test_ends_of_a_stencil_are_one_loop_with_guards():
    """And what its adjoint reads is in no array between."""
    call = nb.jit(nb.grad(lambda u: nd.sum(five_points(u) ** 2)))
    u = RNG.normal(size=(64, 64))
    call(*args_of([u]))
    source = call.source()
    assert source.count("for i") < 60 and "min(" in source


def test_results_are_joined():
    """What was joined is a result, an operand of a product, of a reduction, and an index."""

    @nb.jit
    def f(x, k):
        m = nd.concat(x[:1], x[1:] * 2, x[:2], dim=0)
        many = nd.stack(*[x[i % 4] * i for i in range(23)], axis=1)
        taken = nd.take(m, nd.concat(k, k[::-1], dim=0))
        return m, nd.dot(m, m.T), many, nd.max(many, axis=1), taken, [*nd.split(m, num_outputs=3, axis=0)]

    x, k = RNG.normal(size=(4, 5)), np.array([1, 0, 4])
    m = np.concatenate([x[:1], x[1:] * 2, x[:2]])
    many = np.stack([x[i % 4] * i for i in range(23)], axis=1)
    wanted = [m, m @ m.T, many, many.max(axis=1), m[np.concatenate([k, k[::-1]])], *np.split(m, 3)]
    *found, parts = f(x, k)
    for a, b in zip([*found, *parts], wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_jacobians_of_joins():
    """Rows of a Jacobian are computed at once, of which some parts of a join have one and others do not."""

    def f(x):
        y = nd.concat(x[2:] * x[:-2], nd.ones(1, dtype="float64"), nd.sin(x[:1]), dim=0)
        return nd.roll(y, 2) * y

    x = RNG.normal(size=9)
    for mode in ("reverse", "forward"):
        compiled = nb.jit(nb.jacobian(f, mode=mode))(x)
        np.testing.assert_allclose(compiled, nb.jacobian(f, mode=mode)(x), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        nb.jit(nb.hessian(lambda x: nd.sum(f(x))))(x), nb.hessian(lambda x: nd.sum(f(x)))(x), rtol=1e-12, atol=1e-14
    )


def test_zeros_keep_their_signs_and_nothing_out_of_range_is_read():
    """A part that was excluded is no summand: a zero keeps its sign, and NaN beside a part does not spread."""

    @nb.jit
    def f(x):
        return nd.concat(x[1:], -x[:1] * 0, dim=0), nd.concat(x[:1] * np.nan, x[1:], dim=0)

    moved, rest = f(np.array([1.0, -0.0, 2.0]))
    assert np.signbit(moved).tolist() == [True, False, True] and np.isnan(rest).tolist() == [True, False, False]


def _steps(count, around):
    def loss(x):
        u = x
        for _ in range(count):
            u = nd.concat(u[:1], around(u[1:-1], u[:-2], u[2:]), u[-1:], dim=0)
        return nd.sum(u * u)

    return loss


@pytest.mark.parametrize("kind", ["linear", "cheap"])
def test_unrolled_stencils_read_each_join_a_few_times(kind, monkeypatch):
    """The ends of a join, which are parts of the one before it, are read for their own points alone."""
    calls = []
    joined = ElementReader.joined
    monkeypatch.setattr(ElementReader, "joined", lambda *args: calls.append(0) or joined(*args))
    around = {
        "linear": lambda m, a, b: m + 0.2 * (a + b - 2 * m),
        "cheap": lambda m, a, b: m * 0.9 + 0.05 * b * m,
    }[kind]
    x = np.random.default_rng(0).standard_normal(20)
    for count in (7, 30):
        loss = _steps(count, around)
        value, gradient = nb.jit(nb.value_and_grad(loss))(x)
        expected, slope = nb.value_and_grad(loss)(x)
        np.testing.assert_allclose(value, expected, 1e-12)
        np.testing.assert_allclose(gradient, slope, 1e-10, 1e-12)
    assert len(calls) < 5000
