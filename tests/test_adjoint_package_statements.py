"""Statements as functions of published packages have them."""

import ctypes
import importlib.util
from collections import namedtuple

import numba
import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled
from numba.extending import get_cython_function_address
from scipy import special

import nbgrad as nb
from nbgrad.errors import TraceError

WEIGHTS = np.array([0.3, -0.4, 1.1])
MODE = "Mean"
V = np.array([0.3, -0.5, 0.9])


# Lists that are returned.


def positive(v):
    squares = np.empty(len(v))
    places = []
    for i in range(len(v)):
        squares[i] = v[i] ** 2
        if v[i] > 0.0:
            places.append(i)
    return squares, places


def of_a_called_function(v):
    squares, places = positive(v)
    total = 0.0
    for p in places:
        total += squares[p] * (p + 1)
    return total + len(places)


def path(cost):
    """The pairs of indices from the last element of a matrix to its first one."""
    i, j = cost.shape[0] - 1, cost.shape[1] - 1
    pairs = []
    while i > 0 or j > 0:
        pairs.append((i, j))
        if i == 0:
            j -= 1
        elif j == 0 or cost[i - 1, j] < cost[i, j - 1]:
            i -= 1
        else:
            j -= 1
    pairs.append((0, 0))
    return pairs[::-1]


def along_a_path(v):
    cost = np.outer(v, v) + v
    total = 0.0
    for i, j in path(cost):
        total += cost[i, j] ** 2
    pairs = path(cost)
    for k in range(len(pairs)):
        pair = pairs[k]
        total += cost[pair] * cost[pairs[0]]
    return total


def swapped_pairs(v):
    pairs = []
    for i in range(len(v)):
        pairs.append((v[i], v[i] ** 2))
    pairs[0], pairs[1] = pairs[1], pairs[0]
    pairs[2] = (v[0], 2.0 * v[1])
    total = 0.0
    while len(pairs) > 0:
        a, b = pairs.pop(-1)
        total += a * b * (len(pairs) + 1)
    return total


def stacks(v):
    """Lists as tests, in ``and`` and ``or``, and after ``not``."""
    waiting, done = [], []
    for i in range(len(v)):
        while waiting and v[waiting[-1]] < v[i] and not (done and done[-1] > 2):
            done.append(waiting.pop())
        waiting.append(i)
    total = v[done[0]] ** 2 if done or not waiting else 0.0
    return total + v[waiting[0]] * (3.0 if waiting and done else 1.0)


def lists_as_tests(v):
    """Lists that are made whole, and those that begin with items."""
    large, rest = [e * e for e in v if e > 0.1], [e for e in v if e > 50.0]
    total = sum(large) if large and not rest else v[0]
    if rest or not large:
        total += 100.0
    waiting = [(0, len(v) - 1)]
    while waiting:
        i, j = waiting.pop()
        total += v[i] * v[j]
        if i + 1 < j:
            waiting.append((i + 1, j))
    if v[0] > 0.0 and (rest or large):
        total += 3.0 * large[0]
    if v.size == 1 and v:  # the array is asked only where it has one element
        total += 100.0
    return total + (1.0 if not v[1:2] else 2.0 * v[1])


Wave = namedtuple("Wave", "height period")
Sized = namedtuple("Sized", "height size")


def named_tuples_in_lists(v):
    waves = []
    for i in range(len(v)):
        waves.append(Wave(v[i], 2.0 * v[i]))
    waves[0] = Wave(v[1], v[2] ** 2)
    waves[0], waves[1] = waves[1], waves[0]
    highest = waves[0]
    for w in waves:
        if w.height > highest.height:
            highest = w
    total = highest.period * waves[-1].height + waves[1][0] * waves[0].period
    for wave in [Wave(v[0], 2.0), Wave(v[1], 3.0)]:
        total += wave.height * wave.period
    last = waves.pop()
    return total * last.period + sum(w.height for w in waves[1:])


def sizes_in_a_list(v):
    total = 0.0
    for s in [Sized(v[0], 2.0), Sized(v[1], 3.0)]:
        total += s.height * s.size
    return total


def sizes_in_a_list_that_grows(v):
    found = []
    for e in v:
        found.append(Sized(e, 2.0 * e))
    return found[0].size


@pytest.mark.parametrize("f", [sizes_in_a_list, sizes_in_a_list_that_grows], ids=lambda f: f.__name__)
def test_fields_that_arrays_have_are_refused(f):
    with pytest.raises(TraceError, match="the field size of a named tuple in a list"):
        nb.adjoint(f).value_and_grad(V)


def joined_tuples(v):
    y = []
    for i in range(len(v)):
        y.append((v[i], 1.0))
    return (y[0] + y[1])[2]


# Numbers, arrays and strings.


def counted(v):
    n = np.sum(v > 0.1)
    total = 0.0
    for i in range(n):
        total += v[i] ** 2
    flags = np.ones_like(v > 0.1)
    for i in range(np.sum(flags)):
        total += v[i]
    return total


def only_element(v):
    total = np.zeros((1, 1))
    while total - 1.0 < v[:1]:
        total = total + 0.5
    if v[1:2]:
        return np.sum(total * v)
    return np.sum(v)


def methods_of_an_array_from_outside(v):
    first = WEIGHTS.astype(v.dtype) * v
    return first.mean() + WEIGHTS.dot(v**2) + WEIGHTS.sum() * np.sum(WEIGHTS.reshape(3, 1) * v)


def methods_of_strings(v, mode="max"):
    name = MODE.lower().ljust(8, " ")
    if mode.upper() == "MAX" and name.startswith("mean") and not MODE.isupper():
        print("[sum]".ljust(8, " ") + "of", name)
        return np.max(v)
    raise ValueError("[mode]".center(10))


def numbers_with_dtypes(v):
    third = np.asarray(v[0], dtype=v.dtype)
    return np.array(2.7, dtype=np.int64) * third + np.array(v[1], dtype="f8") * np.array(3, dtype=float)


def repeated(v):
    valid = np.repeat(False, len(v))
    valid[1:] = True
    return np.sum(v[valid] ** 2) + np.sum(np.repeat(v[0], 3) * v)


def sorted_with_keywords(v):
    order = v.argsort(kind="quicksort")
    return v[order[0]] ** 2 + v[np.argsort(v, kind="mergesort")[2]] + np.sum(np.sort(v, axis=-1)[1:] ** 3)


def distinct(v):
    u = np.unique(np.concatenate((v, v * 2, v)))
    return np.sum(u**2 * np.arange(len(u)))


def reshaped_transposes(v):
    m = np.outer(v, v) + v
    total = np.sum(m.T.reshape(9) * np.arange(9.0)) + np.sum(m.T.reshape(1, 9)[0, 2:])
    r = m[:, ::2].reshape(-1)
    for _ in range(3):
        r = r * 0.9 + m.T[:, :2].reshape(6)
    return total + np.sum(r * np.arange(6.0)) + np.expand_dims(np.asarray(v[0]), -1)[0]


def kinds_of_dtypes(v):
    out = np.zeros(3)
    dtype = v.dtype
    missing = np.nan
    if dtype.kind == "i":
        missing = 0
    if out.dtype.kind == "f":
        out[:] = v * 2
    return np.sum(out) if missing != missing else 0.0


def annotated(v):
    places: list[int] = []
    total: float = 0.0
    item: float
    for i in range(len(v)):
        if v.dtype.kind == "i" or not np.isnan(v[i]):
            places.append(i)
    for i in places:
        item = v[i] ** 2
        total += item
    return total


def views_in_a_branch(v):
    """What one branch alone binds is read where the same test holds."""
    total = 0.0
    for i in range(3):
        if i == 0:
            d = v * 1.0
            begun = False
        else:
            part = v[1:]
            d = v * part[0]
            begun = True
        for j in range(2):
            if begun:
                total += part[j] * d[j]
    return total


def twice(x):
    z = x * 2
    return z, z


def bound_again(v):
    p, q = twice(v)
    if v[0] > -99:
        p = p * v
    return np.sum(p * q)


def used_in_a_function(v):
    """A name that a nested function reads is several things: an array, bound again, then changed in place."""
    w = v * 2

    def shifted(u):
        return w + u

    for _ in range(2):
        w = v * v
    for _ in range(2):
        w -= 0.1 * w * w
    return np.sum(np.sin(w)) + np.sum(shifted(v))


ACCEPTED = [of_a_called_function, along_a_path, swapped_pairs, stacks, lists_as_tests, named_tuples_in_lists,
            joined_tuples, counted, only_element, distinct, methods_of_an_array_from_outside, methods_of_strings,
            numbers_with_dtypes, repeated, sorted_with_keywords, kinds_of_dtypes, annotated, bound_again,
            views_in_a_branch, reshaped_transposes, used_in_a_function]  # fmt: skip


@pytest.mark.parametrize("f", ACCEPTED, ids=lambda f: f.__name__)
def test_accepted(f):
    check_derivatives(f, V, compiled=False)


def pairs_and_more(v):
    pairs = []
    for i in range(len(v)):
        pairs.append((v[i], 2 * v[i]))
    return np.sum(v), pairs


def test_lists_that_are_returned_come_as_arrays():
    run = nb.adjoint(positive).vjp(V)
    squares, places = run.value
    np.testing.assert_array_equal(squares, V**2)
    np.testing.assert_array_equal(places, [0, 2])
    np.testing.assert_allclose(run((np.ones(3), np.zeros(2)))[0], 2 * V)
    run = nb.adjoint(pairs_and_more).vjp(V)
    np.testing.assert_array_equal(run.value[1], np.stack([V, 2 * V], axis=1))
    np.testing.assert_allclose(run((0.0, np.ones((3, 2))))[0], [3.0, 3.0, 3.0])


def rows(m):
    hs = []
    for r in m:
        hs.append(r * r)
    return hs


def test_a_list_of_arrays_that_is_returned_is_an_array():
    m = np.outer(V, V)
    with uncompiled():
        run = nb.adjoint(rows).vjp(m)
        np.testing.assert_array_equal(run.value, m * m)
        np.testing.assert_allclose(run((np.ones((3, 3)),))[0], 2 * m)


def one_list_twice(v):
    y = []
    for x in v:
        y.append(x)
    return y, y


def tuples_and_arrays(v):
    y = []
    for _ in range(len(v)):
        y.append((v[0], v[1]))
        y.append(v[:2])
    return y[0]


@pytest.mark.parametrize("f", [one_list_twice, tuples_and_arrays], ids=lambda f: f.__name__)
def test_refused(f):
    with pytest.raises(TraceError):
        nb.adjoint(f).vjp(V)


def any_element(v):
    if v > 0.0:
        return v[0]
    return v[1]


def test_an_array_of_several_elements_is_no_test():
    with uncompiled(), pytest.raises(ValueError, match=r"any_element: the array v > 0.0, .* np.any or np.all"):
        nb.adjoint(any_element).value_and_grad(V)
    assert nb.adjoint(any_element).value_and_grad(V[:1])[0] == V[0]


@pytest.mark.parametrize("v", [[np.nan, 1.0, np.nan, 1.0], [2.0], [], [3.0, 3.0]])
def test_unique_has_one_nan(v):
    v = np.array(v)
    with uncompiled():
        run = nb.adjoint(np_unique).vjp(v)
        np.testing.assert_array_equal(run.value, np.unique(v))


def np_unique(v):
    return np.unique(v)


# Functions of SciPy: ufuncs, and the C functions behind them.


DOUBLE = ctypes.c_double
ADDRESS = get_cython_function_address("scipy.special.cython_special", "gammaln")
C_GAMMALN = ctypes.CFUNCTYPE(DOUBLE, DOUBLE)(ADDRESS)
C_BER = ctypes.CFUNCTYPE(DOUBLE, DOUBLE)(get_cython_function_address("scipy.special.cython_special", "ber"))


class XLogY(numba.types.WrapperAddressProtocol):
    def __wrapper_address__(self):
        return get_cython_function_address("scipy.special.cython_special", "__pyx_fuse_1xlogy")

    def signature(self):
        return numba.float64(numba.float64, numba.float64)


C_XLOGY = XLogY()


def of_scipy(v):
    return np.sum(special.gammaln(v) * special.expit(-v)) + special.xlogy(v[0], v[1]) + special.log_ndtr(v[2])


def of_c(v):
    return C_GAMMALN(v[0]) * v[1] + C_XLOGY(v[0], v[2])


def kelvin(v):
    return C_BER(v[0])


def test_functions_of_scipy():
    v = np.array([0.7, 1.3, 2.4])
    check_derivatives(of_scipy, v, compiled=False)
    value, gradient = nb.adjoint(of_c).value_and_grad(v)
    np.testing.assert_allclose(value, numba.njit(of_c)(v), rtol=1e-15)
    expected = [special.psi(v[0]) * v[1] + np.log(v[2]), special.gammaln(v[0]), v[0] / v[2]]
    np.testing.assert_allclose(gradient[0], expected, rtol=1e-14)
    with pytest.raises(TraceError, match=r"a call of C_BER, a C function in .*nb.primitive"):
        nb.adjoint(kelvin).value_and_grad(v)


def test_chains_of_definitions_are_no_trees(tmp_path):
    """What is known of an argument of a called function, of 80 definitions that read each other twice."""
    steps = "".join(f"    u{k} = x / (2.0 + u{k - 1} * 0.5 + u{k - 1} ** 2)\n" for k in range(1, 80))
    called = "import numpy as np\ndef g(e, x):\n    return np.sin(e) * x\n"
    source = f"{called}def f(x):\n    u0 = x\n{steps}    return g(u79, x)\n"
    path = tmp_path / "chain.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("chain", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with uncompiled():
        value, (slope,) = nb.adjoint(module.f).value_and_grad(0.3)
    np.testing.assert_allclose(value, module.f(0.3))
    np.testing.assert_allclose(slope, (module.f(0.3 + 1e-6) - module.f(0.3 - 1e-6)) / 2e-6, rtol=1e-7)
