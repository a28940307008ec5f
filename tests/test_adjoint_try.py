"""``try`` in loops: values are those of Python, or of Numba where it compiles the function; derivatives of the
branch that is taken."""

import linecache
import math
import random as randoms

import numba
import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, uncompiled
from random_loops import Trying, arguments, function

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([1.0, 2.0, 3.0, 0.5])


class Diverged(Exception):
    """An error of the user's."""


# Programs as people write them.


def newton(a, start, most=50):
    x = start
    for _ in range(most):
        slope = 2.0 * x
        if abs(slope) < 1e-12:
            raise ValueError(f"the slope at {x} is 0")
        step = (x * x - a) / slope
        x = x - step
        if abs(step) < 1e-13:
            return x
        if abs(x) > 1e6:
            raise Diverged("too far")
    raise RuntimeError("no convergence")


def roots(a):
    """Root finders in loops, with a handler per error."""
    total = 0.0
    for i in range(a.size):
        try:
            root = newton(a[i], 0.0 if i == 2 else 1.0, 3 if i == 3 else 50)
        except ValueError:
            root = a[i] ** 2
        except (RuntimeError, Diverged) as err:  # noqa: F841
            root = 3.0 * a[i]
        total += root * (i + 1.0)
    return total


def log_likelihood(theta, y):
    """A likelihood that is penalized where it is not defined."""
    total = 0.0
    for t in range(y.size):
        try:
            total += math.log(theta[0] + theta[1] * y[t]) - y[t] / (theta[0] + theta[1] * y[t])
        except ValueError:
            total -= 10.0 * (theta[0] + theta[1] * y[t]) ** 2
    return total


def elasticity(p, q):
    try:
        change = (q[1] - q[0]) / (p[1] - p[0])
        return change * p[0] / q[0]
    except ZeroDivisionError:
        return 0.5 * q[0] * q[1]


def logistic(x):
    total = 0.0
    for v in x:
        try:
            total += 1.0 / (1.0 + math.exp(-v)) + 0.1 * v
        except OverflowError:
            total += 0.2 * v
    return total


def lagged(x, lag):
    """The end of an array is found by an IndexError."""
    total, k = 0.0, 0
    try:
        while True:
            total += x[k] * x[k + lag]
            k += 1
    except IndexError:
        total = total / k if k else 0.0
    return total


def black_scholes(s, k, sigma, t):
    try:
        d = (math.log(s / k) + 0.5 * sigma**2 * t) / (sigma * math.sqrt(t))
    except (ValueError, ZeroDivisionError):
        return max(s - k, 0.0)
    else:
        return s * 0.5 * (1.0 + math.erf(d / math.sqrt(2.0)))


def cholesky_or_diagonal(a):
    """A factorization that gives up on matrices that are not positive definite."""
    n = a.shape[0]
    low = np.zeros_like(a)
    try:
        for i in range(n):
            for j in range(i + 1):
                rest = a[i, j]
                for k in range(j):
                    rest -= low[i, k] * low[j, k]
                if i == j:
                    if rest <= 0.0:
                        raise ArithmeticError("not positive definite")
                    low[i, i] = math.sqrt(rest)
                else:
                    low[i, j] = rest / low[j, j]
    except ArithmeticError:
        low[:] = 0.0
        for i in range(n):
            low[i, i] = a[i, i]
    return np.sum(low**3)


def retried(x, n):
    """Steps that are halved until they are allowed; `continue` and `break` leave the try."""
    h, y, steps = 1.0, 1.0, 0
    for _ in range(n):
        try:
            if h * x > 0.3:
                raise ValueError
            y += h * x * y
            steps += 1
            if steps == 4:
                break
            continue
        except ValueError:
            h *= 0.5
        y *= 1.01
    return y


def nested(x, a):
    total = 0.0
    for i in range(x.size):
        try:
            try:
                total += a / (x[i] - 2.0)
                if x[i] > 2.5:
                    raise KeyError("large")
            except ZeroDivisionError:
                total += 3.0 * x[i] * a
                if a > 1.0:
                    raise RuntimeError("from a handler") from None
        except Exception:
            total *= a
        else:
            total += 0.1 * x[i] ** 2
    return total


def powers(x, y):
    try:
        z = x**y
    except ZeroDivisionError:
        z = 1.0 + x
    except OverflowError:
        z = 2.0 * x + y
    return z


def whole(x, y):
    try:
        k = int(x * y)
        return k * x
    except (ValueError, OverflowError):
        return 2.0 * y


def finished(x):
    y = 0.0
    try:
        y = x[0] / x[1]
    except ZeroDivisionError:
        y = 5.0 * x[0]
    finally:
        y = y * x[0]
    return y


def checked(x):
    try:
        assert x[0] > x[1], "sorted"
        y = np.sum(x**2)
    except AssertionError:
        y = np.prod(x)
    return y


def picked(x, places):
    total = 0.0
    for k in range(places.size):
        try:
            total += x[places[k]] * x[places[k] - 1]
        except IndexError:
            total += 0.5 * total * x[0]
    return total


def comprehension(x):
    try:
        return sum([1.0 / (v - 2.0) for v in x]) * x[0]
    except ZeroDivisionError:
        return max(v * v for v in x)


MATRIX = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])

PROGRAMS = {
    "roots": (roots, np.array([2.0, 3.0, 0.3, 5.0])),
    "roots that diverge": (roots, np.array([2.0, 3.0, 0.3, -4.0])),
    "likelihood": (log_likelihood, np.array([0.3, 0.5]), np.array([0.5, -1.0, 2.0, -0.2])),
    "elasticity": (elasticity, np.array([1.0, 1.5]), np.array([3.0, 2.0])),
    "logistic": (logistic, np.array([-800.0, 0.5, 2.0, -1e5])),
    "lag": (lagged, X, 2),
    "lag that is too long": (lagged, X, 9),
    "option": (black_scholes, 1.2, 1.0, 0.3, 0.5),
    "option at the end": (black_scholes, 1.2, 1.0, 0.3, -0.1),
    "cholesky": (cholesky_or_diagonal, MATRIX),
    "no cholesky": (cholesky_or_diagonal, MATRIX - 2.5 * np.eye(3)),
    "retried": (retried, 0.9, 9),
    "nested": (nested, np.array([1.0, 3.0, 0.5]), 0.7),
    "power": (powers, 1.5, 2.5),
    "whole": (whole, 3.7, 1.2),
    "finally": (finished, X[:2].copy()),
    "assert": (checked, X[::-1].copy()),
    "assert that fails": (checked, X),
    "picked": (picked, X, np.array([0, 7, 2, -9, 3])),
    "comprehension": (comprehension, np.array([1.0, 4.0, 2.5])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f, *args = PROGRAMS[name]
    check_derivatives(f, *args, compiled=False)


def test_at_the_error():
    """Where an error is raised at one point only, differences do not see it: the handler's derivative is meant."""
    value, (p_bar, q_bar) = nb.adjoint(elasticity).value_and_grad(np.array([1.0, 1.0]), np.array([3.0, 2.0]))
    assert value == 3.0
    assert p_bar.tolist() == [0.0, 0.0]
    assert q_bar.tolist() == [1.0, 1.5]
    value, (x_bar, a_bar) = nb.adjoint(nested).value_and_grad(np.array([2.0]), 0.7)
    assert value == pytest.approx(4.6)  # of Python's numbers, not of NumPy's
    assert (x_bar[0], a_bar) == (pytest.approx(2.1 + 0.4), pytest.approx(6.0))
    value, (x_bar, a_bar) = nb.adjoint(nested).value_and_grad(np.array([2.0]), 1.5)
    assert value == pytest.approx(13.5)
    assert (x_bar[0], a_bar) == (pytest.approx(6.75), pytest.approx(18.0))
    assert nb.adjoint(powers).value_and_grad(1e200, 2.5) == (2e200 + 2.5, (2.0, 1.0))
    assert nb.adjoint(whole).value_and_grad(1e200, 1e200) == (2e200, (0.0, 2.0))
    assert nb.adjoint(whole).value_and_grad(math.nan, 2.0) == (4.0, (0.0, 2.0))
    value, (x_bar, y_bar) = nb.adjoint(powers).value_and_grad(0.0, -1.0)
    assert (value, x_bar, y_bar) == (1.0, 1.0, 0.0)
    assert nb.tangent(powers).jvp((0.0, -1.0), (2.0, 3.0)) == (1.0, 2.0)
    value, (x_bar,) = nb.adjoint(comprehension).value_and_grad(np.array([1.0, 2.0, -3.0]))
    assert value == 9.0
    assert x_bar.tolist() == [0.0, 0.0, -6.0]
    value, (x_bar,) = nb.adjoint(finished).value_and_grad(np.array([2.0, 0.0]))
    assert (value, x_bar.tolist()) == (20.0, [20.0, 0.0])


def test_domains_are_those_of_python():
    """Each function of math raises what it raises in Python, where it does."""
    names = ["sqrt", "log", "log2", "log10", "log1p", "asin", "acos", "acosh", "atanh", "sin", "cos", "tan", "exp"]
    names += ["expm1", "cosh", "sinh", "gamma", "lgamma", "floor", "ceil", "trunc", "fmod", "pow"]
    source = "def f(x, y):\n"
    for k, name in enumerate(names):
        source += f"    try:\n        r{k} = math.{name}({'x, y' if name in ('fmod', 'pow') else 'x'}) * 0.0 + 7.0\n"
        source += f"    except ValueError:\n        r{k} = 1.0\n    except OverflowError:\n        r{k} = 2.0\n"
    source += f"    return {', '.join(f'r{k}' for k in range(len(names)))}\n"
    linecache.cache["<domains>"] = (len(source), None, source.splitlines(keepends=True), "<domains>")
    space = {"math": math}
    exec(compile(source, "<domains>", "exec"), space)
    tan = nb.tangent(space["f"])
    inf = math.inf
    points = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, -3.0, 2.0, 171.62437695630271, 171.7, 709.782712893384]
    points += [709.7827128933841, 710.4758600739439, 710.475860073944, -800.0, 1e-320, 1e306, inf, -inf, math.nan]
    for x in points:
        for y in (2.0, -1.0, 0.0, 0.5, inf, math.nan):
            expected = [r if math.isnan(r) else float(r) for r in space["f"](x, y)]
            found = tan.jvp((x, y), (1.0, 1.0))[0]
            for name, a, b in zip(names, expected, found, strict=True):
                assert (a in (1.0, 2.0)) == (b in (1.0, 2.0)), (name, x, y, a, b)
                assert a not in (1.0, 2.0) or a == b, (name, x, y)


# Functions that Numba compiles.


@numba.njit
def as_compiled(x, y):
    try:
        z = math.sqrt(x) / y
    except Exception:
        z = 3.0 * x
    return z


@numba.njit(error_model="numpy")
def as_numpy(x, y):
    try:
        z = x / y
    except Exception:
        z = 3.0 * x
    return z


def as_python(x, y):
    try:
        z = math.sqrt(x) / y
    except Exception:
        z = 3.0 * x
    return z


def test_a_compiled_function_is_what_numba_makes_of_it():
    for args in [(4.0, 2.0), (4.0, 0.0), (-4.0, 2.0)]:
        for f in (as_compiled, as_numpy, as_python):
            value, gradients = nb.adjoint(f).value_and_grad(*args)
            np.testing.assert_equal(value, f(*args))
            if value == 3.0 * args[0]:
                assert gradients == (3.0, 0.0)
    assert math.isnan(nb.adjoint(as_compiled).value_and_grad(-4.0, 2.0)[0])
    assert nb.adjoint(as_numpy).value_and_grad(4.0, 0.0)[0] == math.inf
    assert nb.adjoint(as_python).value_and_grad(-4.0, 2.0)[0] == -12.0


@numba.njit
def in_loops(x, n):
    total = 0.0
    for i in range(n):
        try:
            if x[i] > 2.0:
                raise ValueError("large")
            total += x[i] * total + 1.0 / (i - 1)
        except Exception:
            total += x[i] ** 2
    return total


def test_a_function_of_numba():
    check_derivatives(in_loops, X, 4, compiled=False)
    value, _ = nb.adjoint(in_loops).value_and_grad(X, 4)
    assert value == pytest.approx(in_loops(X, 4))


# Errors that are not caught, and refusals.


def uncaught(x, k):
    try:
        if k == 1:
            raise RuntimeError("not this one")
        y = x[k]
    except ValueError:
        y = 0.0
    return y


def test_errors_that_no_handler_names():
    with pytest.raises(RuntimeError, match="not this one"):
        nb.adjoint(uncaught).value_and_grad(X, 1)
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        nb.adjoint(uncaught).value_and_grad(X, 9)
    assert nb.adjoint(uncaught).value_and_grad(X, 2)[0] == 3.0


def test_index_checks_stay_where_handlers_need_them():
    value, (x_bar, _) = nb.adjoint(lagged, boundscheck=False).value_and_grad(X, 2)
    assert value == lagged(X, 2)
    np.testing.assert_allclose(x_bar, [1.5, 0.25, 0.5, 1.0])


def reads_error(x):
    try:
        y = 1.0 / x
    except ZeroDivisionError as err:
        y = len(err.args)
    return y


def raises_again(x):
    try:
        y = 1.0 / x
    except ZeroDivisionError:
        raise
    return y


def of_settings(x):
    try:
        y = 1.0 / x
    except FloatingPointError:
        y = 0.0
    return y


def left(x):
    try:
        return 1.0 / x
    finally:
        x = 2.0


def solved(x):
    try:
        y = np.linalg.solve(np.eye(2) * x, np.ones(2))[0]
    except np.linalg.LinAlgError:
        y = 0.0
    return y


@nb.primitive
@numba.njit
def root_of(x):
    return np.sqrt(x)


@root_of.defvjp
@numba.njit
def root_of_vjp(g, y, x):
    return 0.5 * g / y


def of_a_primitive(x):
    try:
        y = root_of(x)
    except Exception:
        y = 0.0
    return y


def own_error(x):
    if x > 1.0:
        raise Diverged("far", x)
    return x


def of_no_class(x):
    try:
        y = 1.0 / x
    except absent:  # noqa: F821
        y = 0.0
    return y


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (reads_error, "the error err as a value in 'except ZeroDivisionError as err:'; leave out what reads it"),
        (raises_again, "raise without an error in 'raise'; raise one, with a string"),
        (of_settings, "except FloatingPointError, which NumPy raises or not by its settings"),
        (left, "a jump out of a try with finally in 'try:'; jump after it"),
        (solved, r"np.linalg.solve, which finds singular matrices by rounding errors, in try .*determinant"),
        (of_a_primitive, "root_of, a primitive with a vjp, which may raise an error, in try .*return a flag or NaN"),
        (own_error, "raise Diverged, an error of your own with other arguments than one string"),
        (of_no_class, "except absent, which is no class of errors"),
    ],
)
def test_refused(f, said):
    with pytest.raises(TraceError, match=said) as caught:
        nb.adjoint(f).value_and_grad(2.0)
    assert f"{__file__}, line " in str(caught.value)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed):
    with uncompiled():
        agrees(function(Trying(randoms.Random(seed)).source()), arguments(seed), rtol=1e-5)
