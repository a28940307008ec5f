"""NumPy's functions in their several forms: axes, lists, modes. Lines are scalars of a vector, a matrix and indices."""

import ast
import inspect

import numpy as np
import pytest
from loop_programs import agrees, uncompiled
from random_loops import function

import nbgrad as nb
from nbgrad.errors import TraceError
from nbgrad.loops.frontend.function_table import DEFINITIONS, WRITING

X, A, K = np.array([0.31, 0.7, 0.22, 0.83]), np.random.default_rng(0).random((3, 4)), np.array([0, 1, 0, 3])

FORMS = {
    "windows": """
        np.sum(np.bartlett(4) * x)
        np.sum(np.blackman(4) * x) + np.sum(np.hanning(1)) * x[0]
        np.sum(np.hamming(4) * x)
        np.sum(np.hanning(5)[:4] * x)
        np.sum(np.kaiser(4, x[1]) * x)
        np.sum(np.i0(3 * x)) * np.i0(x[0])
    """,
    "splits": """
        np.sum(np.split(x, 2)[0] * np.split(x, [1, 3])[1])
        np.sum(np.array_split(x, 3)[0] ** 2) * np.sum(np.array_split(x, 3)[2])
        np.sum(np.hsplit(a, 2)[1] ** 2 * np.hsplit(a, (2,))[0])
        np.sum(np.vsplit(a, 3)[1] * x)
        np.sum(np.split(a, 4, axis=1)[3] ** 2) + np.sum(np.array_split(a, 2, -1)[0] ** 3)
        np.sum(np.hsplit(x, 2)[0] ** 3) + np.sum(np.dsplit(np.dstack((a, a * a)), 2)[1] ** 2)
    """,
    "joins": """
        np.sum(np.dstack((a, a * a))[:, :, 1] * a) + np.sum(np.dstack((x, x * x))[0, :, 1] * x)
        np.sum(np.block([[a, 2 * a], [a * a, a]])[2:5, 3:6] ** 2)
        np.sum(np.block([a, a * a])[:, 3:6] ** 2) + np.sum(np.block([x, x[0]]) ** 2)
        np.sum(np.insert(x, 1, x[0]) ** 2 * np.arange(5)) + np.sum(np.insert(x, -1, [x[1], 2.0]) ** 3)
        np.sum(np.broadcast_to(x, (3, 4)) * a) + np.sum(np.broadcast_to(x[0], (2, 2)) ** 2)
        np.sum(np.resize(x, 6) ** 2 * np.arange(6)) + np.sum(np.insert(k, 1, 2.7) * x[0])
    """,
    "rearranging": """
        np.sum(np.flip(a, axis=0) * a) + np.sum(np.flip(a, 1) * a * a) + np.sum(np.flip(a, -2)[0] * x)
        np.sum(np.roll(a, (1, 2), axis=(0, 1)) * a) + np.sum(np.roll(a, 3) * a)
        np.sum(np.tile(x, (2, 1)) ** 2) + np.sum(np.tile(a, (2, 2))[2:5, 3:6] ** 2) + np.sum(np.tile(a, 2)[:, 5] ** 2)
        np.sum(np.repeat(a, 2, axis=0)[1:5] ** 2) + np.sum(np.repeat(a, 2, axis=1)[:, 3] ** 2)
        np.sum(np.repeat(x, k) ** 2) + np.sum(x.repeat(2)[1:] ** 3) + np.sum(np.repeat(a, 2)[3:5] ** 2)
        np.sum(np.delete(x, [0, -1]) ** 2) + np.sum(np.delete(a, 1, axis=0) ** 2) + np.sum(np.delete(a, k[:2], 1) ** 3)
        np.sum(np.delete(x, slice(1, 3)) ** 3)
        np.sum(np.trim_zeros(np.concatenate((np.zeros(2), x, np.zeros(1)))) ** 2 * np.arange(4))
        np.sum(np.lib.stride_tricks.sliding_window_view(x, 2) ** 2 * np.arange(2))
        np.sum(np.apply_along_axis(np.sum, 0, a * a) * x) + np.sum(np.apply_along_axis(np.cumsum, 1, a) ** 2)
        np.sum(np.diagonal(a) ** 2) + np.sum(np.outer(x, x).diagonal(1))
    """,
    "taking": """
        np.sum(np.take(a, 0, axis=1) ** 2) + np.sum(np.take(a, k[:2], axis=0) ** 2) + np.sum(np.take(a, [0, 5]) ** 2)
        np.sum(np.take(x, k + 2, mode="clip") ** 2 * np.arange(4)) + np.sum(np.take(x, k + 3, mode="wrap") ** 3)
        np.sum(np.take_along_axis(a, np.argsort(a, 1), 1) * np.arange(4)) + np.sum(np.take_along_axis(x, k, 0) ** 2)
        np.sum(np.take_along_axis(a, np.argsort(a, 0), axis=0)[1] * x)
        np.sum(np.compress(x > 0.5, x) ** 2) + np.sum(np.compress([True, False, True], a, axis=0) ** 2)
        np.sum(x[np.isin(k, k[:1])] ** 2) + np.isin(3, k) * x[0] + np.sum(x[np.isin(k, [0, 1], invert=True)])
        np.sum(np.argwhere(a > 0.5)[:, 1] * x[0]) + np.sum(np.lexsort((x, k)) * x)
        np.sum(np.argpartition(x, 2)[2:3] * x[1]) + x.item(1) * a.item(0, 1) * a.item(5)
        np.sum(np.select([x < 0.3, x < 0.6], [x, x * x])) + np.sum(np.select([a > 0.5], [a], default=2.0 * a))
    """,
    "padding": """
        np.sum(np.pad(x, 1) ** 2 * np.arange(6)) + np.sum(np.pad(x, (1, 2), "constant", constant_values=0.5) ** 3)
        np.sum(np.pad(x, (1, 2), mode="edge") ** 2) + np.sum(np.pad(x, [(6, 7)], mode="reflect") ** 2 * np.arange(17))
        np.sum(np.pad(x, 9, mode="wrap") ** 2 * np.arange(22)) + np.sum(np.pad(x, 9, "symmetric") ** 2 * np.arange(22))
        np.sum(np.pad(a, ((1, 0), (0, 2)), mode="reflect") ** 2) + np.sum(np.pad(a, 1)[1:3] ** 2)
        np.sum(np.pad(a, (1, 2), mode="edge")[0] ** 2)
    """,
    "calculus": """
        np.sum(np.gradient(a)[0] * np.gradient(a)[1]) + np.sum(np.gradient(a, axis=1) ** 2)
        np.sum(np.gradient(x, np.array([0.0, 0.1, 0.3, 0.7])) ** 2) + np.sum(np.gradient(x, x[0]) ** 2)
        np.sum(np.gradient(a, 0.5, x[0])[1] ** 2) + np.sum(np.gradient(a, 0.5, axis=0)[0] ** 3)
        np.sum(np.trapezoid(a, axis=0) ** 2) + np.sum(np.trapezoid(a, x, axis=1) ** 2) * np.sum(np.trapezoid(a))
        np.sum(np.unwrap(9 * x) ** 2) + np.sum(np.unwrap(9 * x, period=1.3) ** 2)
        np.sum(np.interp([0.1, 0.4, 0.9], np.sort(x), x, left=x[0], right=2.0 * x[1]) ** 2)
        np.sum(np.convolve(x, [1.0, 2.0], mode="valid") ** 2) + np.sum(np.digitize(x, [0.25, 0.5]) * x)
        np.sum(np.add.reduceat(x, [0, 2, 1]) ** 2) + np.sum(np.cross(a[:, :3], a[:, 1:]) ** 2)
        np.sum(np.cross(a[:, :3], x[:3]) ** 2)
    """,
    "polynomials": """
        np.sum(np.polyadd(x, x[:2]) ** 2) + np.sum(np.polysub([1.0, 2.0], x) ** 3) + np.sum(np.polyadd(k, x) ** 2)
        np.sum(np.polymul(x, x) ** 2) + np.sum(np.polyder(x) ** 2) + np.sum(np.polyder(x, 2) ** 3)
        np.sum(np.polyint(x) ** 2) + np.sum(np.polyint(x, 2) ** 2) + np.polyval([1.0, x[0]], x[1])
        np.sum(np.polyfit(np.arange(4.0), x, 1) ** 2) + np.sum(np.polyfit(x, a[0], 2) ** 2)
        np.sum(np.vander(x, 3) ** 2)
    """,
    "integers": """
        np.sum(np.intersect1d(k, [0, 3]) * x[0]) + np.sum(np.union1d(k, [7]) * x[1])
        np.sum(np.setdiff1d(k, k[:1]) * x[0]) + np.sum(np.setxor1d(k, [1, 5]) * x[1])
        np.sum(np.indices((2, 2))[0] * x[0]) + np.sum(np.indices((3,))[0] * x[1])
        np.sum(a[np.triu_indices(3, 1)] ** 2) + np.sum(a[:, :3][np.tril_indices_from(a[:, :3])] ** 2)
        np.sum(np.bitwise_and(k, 1) * x + np.bitwise_or(k, 2) * x + np.bitwise_xor(k, 3) * x)
        np.sum(np.invert(k) * x + np.left_shift(k, 1) * x + np.right_shift(k, 1) * x)
        math.gcd(12, 18) * x[0] + math.lcm(4, 6) * x[1] + math.factorial(5) * x[2] + math.comb(6, 2) * x[3]
        math.perm(5, 2) * x[0] + math.perm(3) * x[1] + np.sum(np.count_nonzero(a > 0.5, axis=1)) * x[2]
        np.size(a) * x[0] + np.size(a, 0) * x[1] + np.isscalar(x[0]) * x[2]
    """,
    "numbers": """
        np.sum(np.logaddexp2(x, x[::-1])) + np.sum(np.logical_xor(x > 0.5, x > 0.25) * x)
        np.sum(np.divmod(x, 0.37)[1] * x) + np.sum(np.divmod(3 * x, 0.37)[0] * x) + np.sum(np.modf(3 * x)[0] * x)
        math.modf(5 * x[0])[0] * x[1] + math.modf(5 * x[0])[1] * x[2] + math.ldexp(x[0], 3) + np.sum(np.ldexp(x, 2))
        math.remainder(x[1], 0.4) * x[0] + math.remainder(-x[1], x[0]) + math.nextafter(x[0], 1.0) * x[1]
        math.log(x[0], 2) + math.log(x[0], x[1]) + math.log(x[2])
        math.prod(x) + math.dist((x[0], x[1]), (0.1, x[2])) + math.dist(x, x[::-1])
        np.sum(np.logspace(x[0], x[1], 3, base=2.0)) + np.sum(np.geomspace(x[0], x[1], 4) ** 2)
        np.sum(np.array(x, copy=True) * x) + x.view()[1] * x[0] + np.sum(np.searchsorted([0.1, 0.5], x) * x)
    """,
}


@pytest.mark.parametrize("group", FORMS)
def test_forms(group):
    lines = [line.strip() for line in FORMS[group].strip().splitlines()]
    source = "def f(x, a, k):\n    return (\n" + "".join(f"        {line},\n" for line in lines) + "    )\n"
    f = function(source)
    with uncompiled():
        agrees(f, (X, A, K), rtol=1e-5)
    if group not in ("taking", "integers", "numbers"):  # where dtypes differ: compiling takes ten seconds a group
        return
    compiled = nb.adjoint(f).vjp(X.copy(), A.copy(), K)
    np.testing.assert_allclose(compiled.value, f(X, A, K), rtol=1e-12)
    with uncompiled():
        plain = nb.adjoint(f).vjp(X.copy(), A.copy(), K)
        expected = plain(tuple(np.arange(1.0, len(lines) + 1)))
    for found, right in zip(compiled(tuple(np.arange(1.0, len(lines) + 1)))[:2], expected[:2], strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-12)


def tuples_or_numbers(x, p):
    if not isinstance(x, np.ndarray):
        return x * x
    if isinstance(p, (int, np.integer)):
        return np.sum(x) * p
    if isinstance(p, str) or p is None:
        return np.sum(x * x)
    q = p if isinstance(p, tuple) else (p, 1.0)
    return np.sum(x**3) * q[0] * q[1]


@pytest.mark.parametrize("args", [(0.3, 2), (X, 2), (X, "a"), (X, None), (X, 0.5), (X, (0.5, 2.0))])
def test_classes_decide(args):
    with uncompiled():
        value = nb.adjoint(tuples_or_numbers).value_and_grad(*args)[0]
    np.testing.assert_allclose(value, tuples_or_numbers(*args), rtol=1e-14)


def of_class_float(x):
    y = np.asarray(x) * 2.0
    return y if isinstance(y, np.ndarray) else 3.0 * y


def test_a_class_that_is_not_known_is_refused():
    """What np.asarray makes of a number is an array in NumPy, and a number in generated code."""
    with pytest.raises(TraceError, match=r"isinstance\(y, np.ndarray\), which is not known here"):
        nb.adjoint(of_class_float).value_and_grad(0.3)


def stepped(x, k):
    y = np.zeros(x.size)
    y[1::k] = x[1::k] ** 2
    y[::k] += x[: x.size : k]
    y[k::k] = y[:-k:k] * 3.0
    for s in range(1, k + 1):
        y[::s] *= 1.5
        y[s :: s + 1] = y[s :: s + 1] * y[0]
    v = y[::k]
    return y * x, v[::k] ** 2, np.outer(x, x)[::k, 1::k].sum(axis=0)


@pytest.mark.parametrize("k", [1, 2, 3, 6, 9])
def test_slices_with_steps_that_are_known_at_run_time(k):
    with uncompiled():
        agrees(stepped, (np.linspace(0.1, 0.9, 7), k))


@pytest.mark.parametrize("k", [-1, -3])
def test_such_a_step_must_be_positive(k):
    with uncompiled(), pytest.raises(ValueError, match=r"a step in 'x.1::k.' that is not positive"):
        nb.adjoint(stepped).vjp(np.linspace(0.1, 0.9, 7), k)


def flagged(x, seen):
    s = 0.0
    for i in range(x.size):
        if x[i] > 0.5 and not seen[i]:
            seen[i] = 1
            s += x[i] ** 2
    for i in range(x.size):
        seen[i] = seen[i] == 0
        if seen[i]:
            s += x[i] * x[0]
    return s


def test_flags_are_written_into_unsigned_arrays():
    seen = np.array([0, 1, 0, 0], np.uint8)
    agrees(flagged, (X, seen))


REFUSED = {
    "np.split(x, n)[0]": "into a number of parts that is not known",
    "np.pad(x, 1, mode='mean')": "np.pad with this mode",
    "np.gradient(x, edge_order=2)": "np.gradient with edge_order=2",
    "np.array(x, copy=False)": "write np.asarray where no copy is needed",
    "x[::0]": "a slice with step 0",
}
FAILING = {
    "np.repeat(x, -n)": "np.repeat of a negative number",
    "np.split(x, 3)[0]": "that has no 3 parts of one length",
    "np.delete(x, 4)": "np.delete of an element that the array does not have",
    "np.insert(x, 5, 1.0)": "np.insert at an index out of bounds",
    "np.repeat(x, np.arange(3))": "another number of repeats",
    "np.geomspace(x[0], -x[1])": "np.geomspace between numbers",
    "math.factorial(21) * x": "too large for 64 bits",
    "math.comb(-n, 2) * x": "negative",
    "np.lib.stride_tricks.sliding_window_view(x, 5)": "windows that are longer",
    "np.pad(x, -n)": "np.pad by a negative number",
}


@pytest.mark.parametrize("expression", [*REFUSED, *FAILING])
def test_forms_that_are_not_there(expression):
    f = function(f"def f(x, n):\n    n = n + 0 * int(x[0])\n    return np.sum({expression})\n")
    with uncompiled(), pytest.raises((TraceError, ValueError, IndexError, OverflowError)) as raised:
        nb.adjoint(f).vjp(X, 2)
    assert (REFUSED | FAILING)[expression] in str(raised.value)


@pytest.mark.parametrize("f", sorted(set(DEFINITIONS.values()) - WRITING, key=lambda f: (f.__module__, f.__name__)))
def test_definitions_that_are_said_to_write_nothing_store_into_no_parameter(f):
    (node,) = ast.parse(inspect.getsource(f)).body
    names = {a.arg for a in (*node.args.args, *node.args.kwonlyargs)}
    rebound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    stored = [n.value for n in ast.walk(node) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)]
    stored += [n.target for n in ast.walk(node) if isinstance(n, ast.AugAssign)]
    assert not {n.id for n in stored if isinstance(n, ast.Name)} & (names - rebound)
