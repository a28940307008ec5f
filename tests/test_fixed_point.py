"""fixed_point: iterations with the derivative of the equation that they solve."""

import itertools
import math
import pickle

import numba
import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.errors import AttrError, DTypeError, TraceError


def kepler_equation(E, M, e):
    return E - e * math.sin(E) - M


@nb.fixed_point(residual=kepler_equation)
def kepler(M, e, tolerance=1e-13):
    low, high = M - e, M + e
    while high - low > tolerance:
        middle = (low + high) / 2
        if middle - e * math.sin(middle) < M:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def cube_equation(y, x):
    return y**3 - x


@nb.fixed_point(residual=cube_equation)
@numba.njit
def cube_root(guess, x, steps):
    y = guess
    for _ in range(steps):
        y -= (y**3 - x) / (3 * y**2)
    return y


@nb.fixed_point(residual=lambda x, a: x - math.cos(a * x))
def picard(a):
    x, before = 1.0, 0.0
    while abs(x - before) > 1e-15:
        before, x = x, math.cos(a * x)
    return x


def stiff(z, rate):
    return np.array([-rate * z[0] + z[1] ** 2, rate * z[0] - 2.0 * z[1] ** 2])


def euler_equation(z, u, dt, rate):
    return z - u - dt * stiff(z, rate)


compiled_stiff = numba.njit(stiff)


@nb.fixed_point(residual=euler_equation, infer=lambda u, dt, rate: u)
def euler_step(u, dt, rate):
    z = u * 1.0  # float64
    for _ in range(100):
        slope = np.array([[1.0 + dt * rate, -2.0 * dt * z[1]], [-dt * rate, 1.0 + 4.0 * dt * z[1]]])
        change = np.linalg.solve(slope, z - u - dt * compiled_stiff(z, rate))
        z -= change
        if np.max(np.abs(change)) < 1e-14:
            break
    return z.astype(u.dtype)


def march(u, dt, rate, steps):
    for _ in range(steps):
        u = euler_step(u, dt, rate)
    return u[0] + 3.0 * u[1] ** 2


def phases(times, e):
    """A sum over anomalies, in an array first."""
    anomalies = np.empty(times.size)
    for i in range(times.size):
        anomalies[i] = kepler(times[i], e)
    total = 0.0
    for i in range(times.size):
        total += math.sin(anomalies[i]) ** 2
    return total


def phases_in_parallel(times, e):
    total = 0.0
    for i in numba.prange(times.size):
        total += math.cos(kepler(times[i], e))
    return total


def warm(xs):
    """Each root is the first guess of the next."""
    y, total = 1.0, 0.0
    for i in range(xs.size):
        y = cube_root(y, xs[i], 60)
        total += y * (i + 1)
    return total


def eccentric(M, e):
    return kepler(M, e)


TIMES = np.array([0.3, 1.1, 2.0, 4.5])
U = np.array([1.0, 0.5])


def test_bisection_has_the_derivative_of_keplers_equation():
    anomaly, (by_mean, by_eccentricity) = nb.adjoint(eccentric).value_and_grad(1.0, 0.5)
    scale = 1 - 0.5 * math.cos(anomaly)
    np.testing.assert_allclose([by_mean, by_eccentricity], [1 / scale, math.sin(anomaly) / scale], rtol=1e-12)
    assert nb.tangent(eccentric).jvp((1.0, 0.5), (1.0, 0.0))[1] == pytest.approx(1 / scale, rel=1e-12)


def test_newton_and_picard_have_closed_forms():
    value, (by_guess, by_x, _) = nb.adjoint(lambda g, x, n: cube_root(g, x, n)).value_and_grad(2.0, 5.0, 60)
    assert (value, by_guess) == (pytest.approx(5 ** (1 / 3)), 0.0)
    assert by_x == pytest.approx(5 ** (-2 / 3) / 3)
    x, (slope,) = nb.adjoint(lambda a: picard(a)).value_and_grad(0.7)
    assert slope == pytest.approx(-x * math.sin(0.7 * x) / (1 + 0.7 * math.sin(0.7 * x)))


@pytest.mark.parametrize(
    ("f", "args"),
    [(march, (U, 0.1, 5.0, 6)), (phases, (TIMES, 0.4)), (phases_in_parallel, (TIMES, 0.4)), (warm, (TIMES,))],
)
def test_loops_of_solutions(f, args):
    def value(*floats):
        return nb.adjoint(f).value_and_grad(*floats, *args[len(floats) :])[0]

    floats = tuple(a for a in args if not isinstance(a, int))
    adj = nb.adjoint(f)
    result, gradients = adj.value_and_grad(*args)
    assert result == pytest.approx(f(*args), rel=1e-12)
    expected = numeric_gradients(value, floats)
    for g, e in zip(gradients, expected, strict=False):
        np.testing.assert_allclose(g, e, rtol=1e-6, atol=1e-8)
    directions = tuple(np.cos(np.arange(np.size(a)) + 1.0).reshape(np.shape(a))[()] for a in floats)
    rest = (None,) * (len(args) - len(floats))
    slope = nb.tangent(f).jvp(args, directions + rest)[1]
    dots = [np.sum(np.multiply(g, d)) for g, d in zip(gradients, directions, strict=False)]
    assert slope == pytest.approx(sum(dots), rel=1e-10)
    products = adj.hvp(args, directions + rest)
    shifted = [
        adj.value_and_grad(*(a + s * d for a, d in zip(floats, directions, strict=True)), *args[len(floats) :])[1]
        for s in (1e-5, -1e-5)
    ]
    for p, up, down in zip(products, *shifted, strict=True):
        if p is not None:
            np.testing.assert_allclose(p, (up - down) / 2e-5, rtol=1e-5, atol=1e-7)


def numeric_gradients(f, args):
    gradients = []
    for k, a in enumerate(args):
        g = np.empty(np.size(a))
        for i in range(g.size):
            values = []
            for h in (1e-5, -1e-5):
                moved = np.array(a, float).ravel()
                moved[i] += h
                moved = moved.reshape(np.shape(a))[()]
                values.append(f(*args[:k], moved, *args[k + 1 :]))
            g[i] = (values[0] - values[1]) / 2e-5
        gradients.append(g.reshape(np.shape(a)))
    return gradients


def test_derivatives_of_any_order_of_arrays():
    def f(M):
        return kepler(M, 0.5) ** 2

    orders = [f]
    for _ in range(3):
        orders.append(nb.grad(orders[-1]))
    for lower, higher in itertools.pairwise(orders):
        difference = (float(lower(1.0 + 1e-5)) - float(lower(1.0 - 1e-5))) / 2e-5
        assert float(higher(1.0)) == pytest.approx(difference, rel=1e-6)
    hessian = nb.hessian(lambda u: march(u, 0.1, 5.0, 3))(U)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-12)
    rows = nb.adjoint(march, 0).hvp((U, 0.1, 5.0, 3), np.array([1.0, 0.0]))
    np.testing.assert_allclose(hessian[0], rows, rtol=1e-10)


def test_tape_and_compiled_graphs_agree():
    u = nd.array(U, dtype="float64")
    u.attach_grad()
    with autograd.record():
        y = march(u, 0.1, 5.0, 3)
    y.backward()
    _, gradient = nb.adjoint(march, 0).value_and_grad(U, 0.1, 5.0, 3)
    np.testing.assert_allclose(u.grad.asnumpy(), gradient, rtol=1e-12)
    np.testing.assert_allclose(nb.grad(nb.jit(lambda u: march(u, 0.1, 5.0, 3)))(U), gradient, rtol=1e-12)
    slope = nb.grad(nb.jit(lambda M: kepler(M, 0.5)))(nd.array(1.0, dtype="float64"))
    assert float(slope) == pytest.approx(1 / (1 - 0.5 * math.cos(kepler(1.0, 0.5))))


def test_float32_stays_float32():
    _, gradient = nb.adjoint(march, 0).value_and_grad(U.astype("float32"), 0.1, 5.0, 3)
    _, exact = nb.adjoint(march, 0).value_and_grad(U, 0.1, 5.0, 3)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, exact, rtol=1e-4)


def test_tapes_hold_no_iterations_of_the_solver():
    assert sum(nb.adjoint(phases).report(TIMES, 0.4).values()) <= 8 * TIMES.size
    assert max(nb.adjoint(march).report(U, 0.1, 5.0, 6).values()) <= 6 * 16 + 16


def test_names_of_parameters_do_not_meet_those_of_generated_code():
    def g(np, w, seed):
        return np + w * 0.5 - seed[0]

    @nb.fixed_point(residual=g)
    def solved(seed, w):
        return seed[0] - 0.5 * w

    _, (by_seed, by_w) = nb.adjoint(lambda seed, w: solved(seed, w) ** 2).value_and_grad(np.array([3.0, 1.0]), 2.0)
    np.testing.assert_allclose([*by_seed, by_w], [4.0, 0.0, -2.0])


def test_members_of_one_family_stay_apart():
    @nb.fixed_point(residual=lambda z, a: z - 2.0 * a)
    def double(a):
        return 2.0 * a

    def both(x, s):
        return np.sum(double(x) ** 2) * double(s) ** 2

    adj = nb.adjoint(both)
    _, (by_x, by_s) = adj.value_and_grad(np.array([1.0, 2.0]), 3.0)
    np.testing.assert_allclose([*by_x, by_s], [288.0, 576.0, 480.0])
    products = adj.hvp((np.array([1.0, 2.0]), 3.0), (np.zeros(2), 1.0))
    np.testing.assert_allclose([*products[0], products[1]], [192.0, 384.0, 160.0])


def test_keywords_defaults_and_pickles():
    again = pickle.loads(pickle.dumps(kepler))
    assert again is kepler or again(1.0, 0.5) == kepler(1.0, 0.5)
    assert kepler(e=0.5, M=1.0) == kepler(1.0, 0.5, 1e-13)
    x = nd.array(1.0, dtype="float64")
    assert float(kepler(x, e=0.5)) == kepler(1.0, 0.5)
    assert repr(kepler) == "<fixed point kepler>"
    assert kepler.__name__ == "kepler"


def twice(x):
    return 2.0 * x


@nb.primitive
@numba.njit
def cubed(x):
    return x**3


@cubed.defvjp
@numba.njit
def cubed_vjp(g, y, x):
    return 3.0 * x**2 * g


def through(solver, x):
    return solver(x) ** 2


def through_a_tuple(functions, x):
    return functions[0](x) * functions[1](x)


def solved(solver, a, b):
    return np.sum(solver(a, b))


def drawn(draw, x):
    np.random.seed(3)  # noqa: NPY002
    return x * draw()


def test_functions_with_rules_may_be_arguments():
    @nb.fixed_point(residual=lambda y, x: y * y - x)
    def root(x):
        return math.sqrt(x)

    @nb.primitive
    def plain(x):
        return x * x

    for f, slope in ((root, 1.0), (cubed, 6.0 * 3.0**5), (plain, 4.0 * 3.0**3), (twice, 8.0 * 3.0)):
        assert nb.adjoint(through).value_and_grad(f, 3.0)[1] == (None, pytest.approx(slope))
    _, (_, slope) = nb.adjoint(through_a_tuple).value_and_grad((cubed, root), 3.0)
    assert slope == pytest.approx(3.5 * 3.0**2.5)
    a, b = np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([1.0, 2.0])
    _, (_, _, b_bar) = nb.adjoint(solved).value_and_grad(np.linalg.solve, a, b)
    np.testing.assert_allclose(b_bar, np.linalg.solve(a.T, np.ones(2)))
    value, (_, slope) = nb.adjoint(drawn).value_and_grad(np.random.random, 2.0)
    assert slope == pytest.approx(value / 2.0)


def test_singular_equations():
    @nb.fixed_point(residual=lambda z, a: (z - a) ** 2)
    def twice(a):
        return a

    value, (slope,) = nb.adjoint(lambda a: twice(a)).value_and_grad(1.0)
    assert value == 1.0
    assert not math.isfinite(slope)

    @nb.fixed_point(residual=lambda z, a: (z - a) ** 2)
    def vector(a):
        return a.copy()

    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        nb.adjoint(lambda a: np.sum(vector(a))).value_and_grad(np.array([1.0, 2.0]))


def solve(a):
    return a * 2.0


def pair(a):
    return a, a


def whole(a):
    return int(a)


@pytest.mark.parametrize(
    ("residual", "iterate", "error", "message"),
    [
        (lambda z, b: z - b, solve, AttrError, r"takes b, which solve does not.*: a"),
        (lambda: 0.0, solve, AttrError, "it takes the solution"),
        (None, solve, DTypeError, "residual must be a function, got None"),
        (lambda z, a: z - a, 3, DTypeError, "iterate must be a function, got 3"),
        (lambda z, a: (z, a), solve, TraceError, "must return a number like the solution"),
        (lambda z, a: a * 2.0, solve, TraceError, "does not depend on the solution"),
        (lambda z, a: np.linalg.eigvals(z * a), solve, TraceError, "its residual has no derivative: .*eigvals"),
        (lambda z, a: z - a, pair, TraceError, "the solution is .*; let it be a float or a vector of floats"),
        (lambda z, a: z - a, whole, TraceError, "the solution is int64"),
    ],
)
def test_what_is_wrong_is_said(residual, iterate, error, message):
    with pytest.raises(error, match=message):
        nb.grad(nb.fixed_point(iterate, residual))(1.0)


def test_arguments_that_are_no_numbers_are_refused():
    with pytest.raises(DTypeError, match="argument e must be an array of real numbers or a number, got 'x'"):
        kepler(nd.array(1.0), "x")
