"""``try`` in loops: what is written before an error stays written, and which errors of NumPy's functions are caught."""

import math

import numba
import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([1.0, 2.0, 3.0, 0.5])

# What is written before the error.


def half_written(x, a):
    y = np.zeros(4)
    for i in range(4):
        try:
            y[i] = x[i] * a
            if x[i] > 1.5:
                raise ValueError
            y[i] *= 2.0 * y[i]
        except ValueError:
            y[i] += x[i] ** 2
    return np.sum(y**2)


def left_in_the_middle(x, a):
    """The error leaves two loops, in the middle of an array."""
    y = np.ones((3, 4))
    total = 0.0
    try:
        for i in range(3):
            for j in range(4):
                y[i, j] *= x[j] * a * (i + 1)
                if y[i, j] > 3.9:
                    raise ValueError
                total += y[i, j] ** 2
    except ValueError:
        total *= y[0, 1]
    return total + np.sum(y**3)


def slices(x, a):
    y = x.copy()
    for k in range(3):
        try:
            y[1:] = y[:-1] * a
            y[k] += x[k + 2]
            y[:] = y * y * 0.1
        except IndexError:
            y[:2] = y[2:]
    return np.sum(y * x)


def in_a_function(x, a):
    """A function that writes its argument, and raises in the middle."""

    def written(z, k):
        z[0] *= 1.5 * a
        if k == 2:
            raise ValueError("k")
        z[1] += z[0]
        for i in range(5):
            z[i] *= 1.1
        return z[2]

    y = x.copy()
    total = 0.0
    for k in range(4):
        try:
            total += written(y, k)
        except (ValueError, IndexError):
            total += y[0] * y[1]
    return total + np.sum(y * y)


def values_before_targets(x, a):
    """Python evaluates the value, and what it does, before an index of the target fails."""

    def counted(v, z):
        z[0] += v
        return v * v

    y, z = np.zeros(2), x.copy()
    try:
        y[5] = counted(a, z)
    except IndexError:
        y[1] += 0.5
    try:
        y[0], y[5] = a * x[0], x[1]
    except IndexError:
        y[1] = y[0] * a
    return z[0] * a + np.sum(y)


def names_keep_their_values(x, a):
    u, v, k = 1.0, 2.0, 0
    try:
        u, v = a * a, 1.0 / k
    except ZeroDivisionError:
        u *= 3.0 * a
    w = 1.0
    try:
        w = a
        v = w / k
        w = 7.0
    except ZeroDivisionError:
        v += w * 3.0
    return u * x[0] + v * w * x[1]


def step_sizes(x, a):
    """A trial step that overflows is thrown away, and halved."""
    u, h, total, n = x.copy(), 1.0, 0.0, 0
    while n < 20 and h > 0.1:
        n += 1
        v = u.copy()
        try:
            for i in range(4):
                v[i] += h * v[i] * v[i - 1] * a
                if v[i] > 6.0:
                    raise OverflowError("too large")
            u = v
        except OverflowError:
            h *= 0.5
            continue
        total += h
    return np.sum(u) + total


def jumps(x, a):
    total = 0.0
    for i in range(6):
        for j in range(4):
            try:
                if j == 1:
                    continue
                total += x[j] * x[i]
                if total > 20.0:
                    break
                total += a / (i - j)
            except ZeroDivisionError:
                if i == 2:
                    break
                total += 0.1 * x[j]
                continue
            except IndexError:
                total += 0.7
                break
            else:
                total *= 1.01
            total += 0.001 * j
    return total


def lists(x, a):
    grown = []
    for i in range(6):
        try:
            grown.append(x[i] * a)
            grown.append(x[i + 1])
        except IndexError:
            grown.append(a * a)
    return sum(grown) * len(grown)


def operands(x, a):
    """Errors in operands that are evaluated, and not in those that are not."""
    total = 0.0
    for i in range(6):
        try:
            total += x[i] if i < 2 else x[i + 1] * a
        except IndexError:
            total += a * a
        try:
            if (i < 4 and x[i] > 0.7) or x[i] > a:
                total += a
        except IndexError:
            total += a**3
    return total


def chained(x, a):
    def inverse(k):
        try:
            return a / (k - 1)
        except ZeroDivisionError as err:
            raise ValueError("bad") from err

    total = 0.0
    for k in range(3):
        try:
            total += inverse(k) * x[k]
        except ValueError:
            total += a * a * x[k]
    return total


def in_parallel(x, a):
    total = 0.0
    for i in numba.prange(6):
        try:
            total += x[i] * a
        except IndexError:
            total += a * a
    return total


# Errors of functions and operators, which Python raises to the letter.


def extrema(x, a):
    total = 0.0
    for k in range(3):
        try:
            total += np.max(x[:k]) * a + max(v * v for v in x[k:])
            total += x[np.argmin(x[k:])]
        except ValueError:
            total += a * a
    return total


def sizes(x, a):
    total = 0.0
    for k in range(-1, 3):
        try:
            y = np.zeros(k)
            y[0] = x[0] * a
            total += np.sum(y) + np.sum(np.eye(k) * x[1])
        except ValueError:
            total += a * a
        except IndexError:
            total += 3.0 * a
    return total


def integers(x, a):
    total = 0.0
    for k in range(-1, 3):
        try:
            quotient, rest = divmod(7.5 * a, k)
            total += quotient * x[0] + rest + (1 << (k - 1)) * a
        except ZeroDivisionError:
            total += a * a
        except ValueError:
            total += x[1] * a
    return total


PROGRAMS = [half_written, left_in_the_middle, slices, in_a_function, values_before_targets, names_keep_their_values,
            step_sizes, jumps, lists, operands, chained, in_parallel, extrema, sizes, integers]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_programs(f):
    check_derivatives(f, X, 0.7, compiled=False)


# Errors that end the call: a handler might run where Python's would not.


def broadcast(x, a):
    """Of lengths 1 and 2, NumPy broadcasts."""
    total = 0.0
    for k in range(1, 3):
        try:
            total += np.sum(x[:k] * x[:2]) * a
        except ValueError:
            total += a
    return total


def reshaped(x, a):
    try:
        total = x[: int(4 * a)].reshape(2, 2)[0, 1] * a
    except ValueError:
        total = a
    return total


def negative_power(x, a):
    total = 0.0
    for k in range(1, 3):
        try:
            total += (k + 1) ** (1 - k) * a
        except Exception:
            total += x[0]
    return total


@pytest.mark.parametrize("f", [broadcast, reshaped])
def test_errors_of_shapes_end_the_call(f):
    with pytest.raises(ValueError, match="try does not catch this here: test for it before"):
        nb.adjoint(f).value_and_grad(X, 0.7)


def test_errors_of_the_subset_end_the_call():
    with pytest.raises(ValueError, match="an integer to a negative power"):
        nb.adjoint(negative_power).value_and_grad(X, 0.7)


def median(x, a):
    try:
        return np.median(x) * a
    except ValueError:
        return a


def drawn(x, a):
    try:
        return np.random.normal(0.0, a) + x[0]  # noqa: NPY002
    except Exception:
        return a


def along_an_axis(x, a):
    try:
        return np.sum(np.max(np.outer(x, x), axis=0)) * a
    except ValueError:
        return a


def ignored(x, a):
    """Statements, too."""
    try:
        np.put(x, 0, a)
    except IndexError:
        return a
    return x[0]


@pytest.mark.parametrize("f", [median, drawn, along_an_axis, ignored])
def test_unknown_errors_are_refused(f):
    with pytest.raises(TraceError, match=r"in try in '.*'; call it outside of try, or test for what it raises before"):
        nb.adjoint(f).value_and_grad(X.copy(), 0.7)


def of_other_errors(x, a):
    """Where no handler catches what the function may raise, it may be called."""
    total = 0.0
    for i in range(3):
        try:
            total += np.median(x)
            if i == 1:
                raise RuntimeError("one")
        except RuntimeError:
            total += a * np.sort(x)[i]
    return total


def test_functions_whose_errors_are_not_caught():
    check_derivatives(of_other_errors, X, 0.7, compiled=False)


def test_elements_are_numbers():
    """As Numba has it: of an element of an array, a division by zero is an error, where NumPy's scalars warn."""

    def inverse(x):
        try:
            return 1.0 / x[0]
        except Exception:
            return 3.0 * x[1]

    value, (x_bar,) = nb.adjoint(inverse).value_and_grad(np.array([0.0, 2.0]))
    assert (value, x_bar.tolist()) == (6.0, [0.0, 3.0])
    assert numba.njit(inverse)(np.array([0.0, 2.0])) == 6.0
    assert math.isinf(float(nb.adjoint(lambda x: 1.0 / x[0]).value_and_grad(np.array([0.0, 2.0]))[0]))


# A break in a try skips the else of the loop.


def broken_in_try(x, u):
    total = 0.0
    for i in range(3):
        try:
            total += x[i] * u[0]
            if x[i] > 0.2:
                break
        except ValueError:
            total += 1.0
    else:
        total += 5.0 * u[1] ** 2
    return total


def broken_in_handler_or_else(x, u):
    total = 0.0
    for i in range(3):
        try:
            if x[i] < 0.0:
                raise ValueError("negative")
            total += x[i] * u[0]
        except ValueError:
            total += u[1] * x[i]
            break
        else:
            total *= 1.5
            if total > 3.0:
                break
    else:
        total += 5.0 * u[1] ** 2
    return total


def broken_by_an_inner_loop(x, u):
    total, k = 0.0, 0
    while k < 3:
        k += 1
        try:
            for j in range(2):
                if x[k - 1] < u[j]:
                    break
                total += x[k - 1] * u[j]
            else:
                total += 3.0 * u[0]
                break
            total += u[1]
        except ValueError:
            continue
    else:
        total *= x[0]
    return total


def broken_in_try_in_try(x, u):
    total = 0.0
    for i in range(3):
        try:
            try:
                if x[i] > 0.5:
                    break
                total += x[i] ** 2
            except ZeroDivisionError:
                pass
        except ValueError:
            break
    else:
        total += u[0] ** 3
    return total


@pytest.mark.parametrize("f", [broken_in_try, broken_in_handler_or_else, broken_by_an_inner_loop, broken_in_try_in_try])
@pytest.mark.parametrize("seed", range(6))
def test_a_break_in_a_try_skips_the_else_of_the_loop(f, seed):
    rng = np.random.default_rng(seed)
    with uncompiled():
        agrees(f, (rng.normal(size=3), rng.normal(size=2)))
