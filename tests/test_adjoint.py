"""Adjoints and tangents of functions with loops."""

import linecache
import math

import numba
import numpy as np
import pytest
from loop_programs import agrees, examples, twice, uncompiled

import nbgrad as nb
from nbgrad.demo import loops

EXAMPLES = examples()
RNG = np.random.default_rng(5)
GRAVITY = 9.81
TOLERANCE = 1e-9


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name):
    agrees(*EXAMPLES[name])


# One function per row of the table in docs/adjoint.md.


def numbers(a, b):
    c = a * b + GRAVITY
    c, d = c / b, c * a
    return c**3 + d**0.5 + a**b, -d


def functions(x, a):
    s = math.exp(-a) + np.log(x[0]) + math.atan2(x[1], a) + math.lgamma(a) + abs(x[2]) + max(a, x[3], 0.1)
    s += (
        min(x[0], x[1])
        + np.hypot(a, x[1])
        + math.erf(x[0])
        + np.where(x[1] > a, x[2], x[3])
        + math.floor(a)
        + np.square(a)
    )
    return s + np.cos(np.sqrt(x[0])) + math.pow(a, 1.7) + float(int(a)) + math.log1p(a) + np.float64(a) % 0.7


def steps(x):
    s = 0.0
    for i in range(x.size - 1, -1, -2):
        for j in range(i, x.size, 3):
            x[j] = x[j] * x[i] + math.sin(s)
        s += x[i] * x[i]
    return s


def branches(x, y):
    s = 0.0
    for i in range(len(x)):
        if x[i] > 1.0 and y[i] < 1.0:
            s += x[i] * y[i]
        elif not x[i] > 0.0:
            x[i] = -x[i] * s
        else:
            y[i] *= x[i]
    return s


def newton(a):
    y = a
    count = 0
    while abs(y * y - a) > TOLERANCE:
        y = 0.5 * (y + a / y)
        count += 1
    return y, count


def jumps(x, limit):
    s = 1.0
    for i in range(x.size):
        if x[i] < 0.0:
            continue
        s *= 1.0 + x[i]
        if s > limit:
            break
    for i in range(x.size):
        if x[i] > 100.0:
            return s
        s += x[i] * s
    return s


def early(x, n):
    if n < 2:
        return x[0] * x[0]
    for i in range(n):
        for j in range(n):
            if x[i] * x[j] > 1.5:
                return x[i] * x[j]
    return x[1]


def local_arrays(x):
    a = np.zeros_like(x)
    b = np.ones((2, x.size))
    c = x.copy()
    d = np.full(x.size, x[1])
    for i in range(x.size):
        scratch = np.zeros(3)
        for j in range(3):
            scratch[j] += x[i] * j
        a[i] = scratch[1] * scratch[2] + b[1, i] * c[i] * d[i]
        c[i] *= 2.0
    return a, np.sum(c)


def slices(u, v):
    u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2]) * np.sin(v[:, 0])
    v[2] *= u[:3]
    v[:, 1] -= u[: v.shape[0]] * v[:, 2]
    u[-2:] = 3.0


def sums(x, y):
    return np.sum(x[1:] * y[:-1]) * np.dot(x, y) + np.mean(x) + x.sum()


def swaps(u, n):
    new = u.copy()
    for _ in range(n):
        for i in range(1, u.size - 1):
            new[i] = u[i] * u[i] + 0.3 * (u[i - 1] + u[i + 1])
        u, new = new, u
    return np.sum(u)


@numba.njit
def helper(p, q):
    """A function that others call."""
    if p > q:
        return p * p, q
    r = p * q
    return r, r + q


def scale(x, factor):
    for i in range(x.size):
        x[i] *= factor * x[i]


def square(x, i):
    x[i] *= x[i]
    return x[i] + 1.0


def calls(x, a):
    s = square(x, 1)
    for i in range(x.size):
        p, q = helper(x[i], a)
        s += p * q
    scale(x, s)
    return s


def periodic(u, n):
    for _ in range(n):
        for i in range(u.size):
            u[i] = u[i] * u[i - 1] + 0.5


def parallel(x, y):
    for i in numba.prange(x.size):
        y[i] = math.exp(x[i]) * x[i - 1]


def gather(x, index, y):
    for i in range(index.size):
        y[index[i]] = y[index[i]] * x[i]
        if index[i] == 2:
            index[i] = 0


X = RNG.normal(size=6)
ROWS = {
    "numbers": (numbers, (1.3, 0.8)),
    "functions": (functions, (np.array([0.6, 0.4, -0.5, 0.2]), 2.6)),
    "steps": (steps, (X,)),
    "branches": (branches, (X, RNG.normal(size=6))),
    "newton": (newton, (2.3,)),
    "jumps": (jumps, (X, 2.0)),
    "early": (early, (np.array([1.0, 1.4, 1.2]), 3)),
    "earlier": (early, (np.array([1.0, 1.4, 1.2]), 1)),
    "local arrays": (local_arrays, (X,)),
    "slices": (slices, (X, RNG.normal(size=(4, 3)))),
    "sums": (sums, (X, RNG.normal(size=6))),
    "swaps": (swaps, (X, 3)),
    "swaps, even": (swaps, (X, 4)),
    "calls": (calls, (X, 0.3)),
    "periodic": (periodic, (X, 2)),
    "parallel": (parallel, (X, np.zeros(6))),
    "gather": (gather, (X, np.array([2, 0, 2, 2, 1, 0]), RNG.normal(size=3))),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_subset(name):
    agrees(*ROWS[name])


def test_compiled_functions_and_strided_arrays():
    compiled = numba.njit(loops.thomas)
    args = [np.repeat(a, 2)[::2] for a in EXAMPLES["thomas"][1]]
    strided = nb.adjoint(compiled).vjp(*args)(np.ones(6))
    plain = nb.adjoint(loops.thomas).vjp(*EXAMPLES["thomas"][1])(np.ones(6))
    for a, b in zip(strided, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_options_of_njit():
    def total(x, n):
        s = 0.0
        for i in range(n):
            s += x[i] * x[i]
        return s

    x = np.arange(5.0)
    quick = nb.adjoint(numba.njit(fastmath={"reassoc", "nsz"})(total))
    np.testing.assert_array_equal(quick.value_and_grad(x, 5)[1][0], 2 * x)
    assert "fastmath={'nsz', 'reassoc'})\ndef total_adjoint" in quick.source
    checked = nb.adjoint(numba.njit(boundscheck=True)(total))
    np.testing.assert_array_equal(checked.value_and_grad(x, 5)[1][0], 2 * x)
    with pytest.raises(IndexError):
        checked.value_and_grad(x, 6)


def test_float32():
    x, y, gamma = EXAMPLES["soft_dtw"][1]
    _, single = nb.adjoint(loops.soft_dtw).value_and_grad(x.astype(np.float32), y.astype(np.float32), gamma)
    _, double = nb.adjoint(loops.soft_dtw).value_and_grad(x, y, gamma)
    assert single[0].dtype == np.float32
    np.testing.assert_allclose(single[0], double[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("one", [np.float32, np.float64])
@pytest.mark.parametrize("other", [np.float32, np.float64])
def test_dtypes_are_those_of_numpy(one, other):
    def several(x, y):
        z, m = x * y, np.outer(x, y)
        a, b, c = np.concatenate((x, y)), np.where(x > 0.0, x, y), np.maximum(x, y)
        d, e, f, g, h = m.sum(axis=0), m.max(axis=1), np.cumsum(x), np.cumsum(z), m @ x
        return z, z + np.sin(x), a, b, c, d, e, f, g, h, (x**2 + y**2)[1:], np.roll(x, 1) + y

    x, y = RNG.normal(size=4).astype(one), RNG.normal(size=4).astype(other)
    with uncompiled():
        pull = nb.adjoint(several).vjp(x, y)
        expected = several(x, y)
        values, derivatives = nb.tangent(several).jvp((x, y), (x, y))
    dtypes = [a.dtype for a in expected]
    assert [a.dtype for a in pull.value] == [a.dtype for a in values] == [a.dtype for a in derivatives] == dtypes
    assert [g.dtype for g in pull(tuple(map(np.ones_like, expected)))] == [one, other]


def test_tests_of_float32_turn_out_as_they_did():
    """The reverse sweep recomputes their operands in float64, which differ in the last digits."""

    def steps(x, n):
        y = x[1]
        s = x[3] * x[3]
        for _ in range(n):
            d = (y * y - x[0]) / (y + y)
            if abs(d) < x[2]:
                s += x[4] * y
            else:
                s += x[5] * y * y
            y -= d
        return s

    for root in (3.0, 0.3):
        x = np.array([root, 1.0, 1e-20, 0.3, 0.7, 0.1], np.float32)
        value, (gradient, _) = nb.adjoint(steps).value_and_grad(x, 20)
        assert gradient[4] > 5 * root**0.5  # many iterations take this branch
        np.testing.assert_allclose(gradient[3:] @ (x[3:] / np.array([2, 1, 1])), value, rtol=1e-5)


def roots_of_zero(x, v):
    """Roots whose cotangent is zero: distances of points from themselves, and arguments clipped by max."""
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            r = np.linalg.norm(x[i] - x[j])
            d = math.sqrt((x[i, 0] - x[j, 0]) ** 2)
            if i != j:
                total += 1.0 / r + d**1.5
    for i in range(v.size):
        above = max(v[i], 0.0)
        total += math.sqrt(above) + above ** (1 / 3) * x[0, 1] + above**0.25
    return total


def test_roots_of_zero():
    x, v = RNG.random((3, 2)), np.array([-1.0, 0.5, 2.0, -0.3])
    agrees(roots_of_zero, (x, v), rtol=1e-5)
    twice(roots_of_zero, (x, v))
    along = nb.adjoint(nb.tangent(roots_of_zero))  # no derivative is lost where the direction is zero
    gradients = along.vjp(x, v, np.zeros_like(x), np.zeros_like(v))((0.0, 1.0))
    for a, b in zip(gradients[2:], nb.adjoint(roots_of_zero).value_and_grad(x, v)[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert nb.adjoint(roots_of_zero).value_and_grad(x, np.array([0.0]))[1][1] == math.inf


def roots_of_products(v, dt, w):
    """Roots of products with a zero factor: gradients of the other factors are zero, though the cotangent is not."""
    total = 0.0
    for i in range(v.size):
        above = max(v[i], 0.0)
        total += math.exp(w * math.sqrt(above * dt)) + (above * w / dt) ** 0.25
        total += math.sqrt(-(above * dt * w) / -v[i]) * w + dt * math.sqrt(2.0 * math.sqrt(above + 1.0) * above)
    return total


def test_roots_of_products_that_are_zero():
    args = np.array([-1.0, 0.5, 2.0, -0.3]), 0.2, 0.7
    agrees(roots_of_products, args)
    twice(roots_of_products, args)
    alone = nb.adjoint(roots_of_products).value_and_grad(np.array([-1.0]), *args[1:])
    assert alone == (1.0, (pytest.approx([0.0], abs=0.0), 0.0, 0.0))


def test_second_derivatives_where_a_factor_is_zero():
    """One factor of the argument is zero, the root is not."""

    def root(a, b, c):
        return math.sqrt(a * b + c)

    both = nb.adjoint(nb.adjoint(root)).vjp(1.5, 0.0, 4.0, 1.0)
    a_bar, b_bar, c_bar, _ = both((0.0, 1.0, 0.0, 0.0))
    np.testing.assert_allclose([a_bar, b_bar, c_bar], [0.0, 0.25, 0.0], atol=1e-15)


def test_a_root_of_zero_that_is_needed_has_an_infinite_derivative():
    def root(x, a):
        return math.sqrt(a * x)

    value, (x_bar, a_bar) = nb.adjoint(root).value_and_grad(0.0, 2.0)
    assert (value, x_bar, a_bar) == (0.0, math.inf, 0.0)


def lengths(x, y):
    """Distances in their usual forms, including those of points from themselves."""
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(y.shape[0]):
            a, b = x[i, 0] - y[j, 0], x[i, 1] - y[j, 1]
            square = 0.0
            for k in range(x.shape[1]):
                square += 0.5 * (x[i, k] - y[j, k]) ** 2 / 4
            far = a * a + b * b
            total += math.sqrt(far) + square**0.5 + math.sqrt((x[i, 0] - y[j, 0]) ** 2 + b * b) + math.hypot(a, b)
            total += np.linalg.norm(x[i] - y[j]) + np.std(x[i] - y[j])
    return total


def test_lengths_of_zero_have_no_direction():
    x, y = RNG.normal(size=(3, 2)), RNG.normal(size=(3, 2))
    agrees(lengths, (x, y))
    twice(lengths, (x, y))
    adj = nb.adjoint(lengths)
    _, (x_bar, y_bar) = adj.value_and_grad(x, x.copy())
    np.testing.assert_allclose(x_bar, y_bar, rtol=1e-12)
    apart = [[x[j] for j in range(3) if j != i] for i in range(3)]
    expected = [adj.value_and_grad(x[i : i + 1], np.array(apart[i]))[1][0][0] for i in range(3)]
    np.testing.assert_allclose(x_bar, expected, rtol=1e-12)
    direction = RNG.normal(size=x.shape)
    assert nb.tangent(lengths).jvp((x, x.copy()), (direction, None))[1] == pytest.approx(np.sum(direction * x_bar))


def test_argnums():
    x, y, gamma = EXAMPLES["soft_dtw"][1]
    value, (x_bar, y_bar, gamma_bar) = nb.adjoint(loops.soft_dtw).value_and_grad(x, y, gamma)
    alone = nb.adjoint(loops.soft_dtw, argnums=2).value_and_grad(x, y, gamma)
    assert alone == (value, gamma_bar)
    _, (second, first) = nb.adjoint(loops.soft_dtw, argnums=(1, 0)).value_and_grad(x, y, gamma)
    np.testing.assert_array_equal(first, x_bar)
    np.testing.assert_array_equal(second, y_bar)


def test_no_influence_no_gradient():
    def f(x, a):
        for i in range(x.size):
            x[i] = 2.0
        return math.floor(a)

    x = np.ones(3)
    value, (x_bar, a_bar) = nb.adjoint(f).value_and_grad(x, 2.5)
    np.testing.assert_array_equal(x_bar, np.zeros(3))
    assert (value, a_bar) == (2, 0.0)
    np.testing.assert_array_equal(x, [2.0, 2.0, 2.0])


def test_pullbacks_can_be_called_again_and_keep_the_arguments():
    pull = nb.adjoint(loops.sor).vjp(*(u := [a.copy() if np.ndim(a) else a for a in EXAMPLES["sor"][1]]))
    u[0][:] = 7.0
    first, second = pull(np.ones((5, 6))), pull(np.ones((5, 6)))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_linear_loops_store_nothing():
    def smooth(u, n):
        for _ in range(n):
            for i in range(1, u.size - 1):
                u[i] = 0.5 * u[i] + 0.25 * (u[i - 1] + u[i + 1])

    assert nb.adjoint(smooth).report(np.ones(9), 3) == {}
    for name in ("thomas", "pairwise", "csr_product"):
        f, args = EXAMPLES[name]
        assert nb.adjoint(f).report(*args) == {}


def test_report():
    f, args = EXAMPLES["heat"]
    assert nb.adjoint(f).report(*args) == {"flow2_tape over _, i, j, k": 8 * 3 * 2 * 3 * 2}
    assert nb.adjoint(newton).report(2.3) == {"y_tape over while": 8 * 512}  # its capacity


def test_source_runs_alone():
    adj = nb.adjoint(loops.pairwise)
    x, cutoff = EXAMPLES["pairwise"][1]
    value, (x_bar, cutoff_bar) = adj.value_and_grad(x, cutoff)
    names: dict = {}
    exec(adj.source, names)
    again = np.zeros_like(x)
    assert names["pairwise_adjoint"](x, cutoff, 1.0, again) == (value,)
    np.testing.assert_array_equal(again, x_bar)
    assert "# dx = position[i, 0] - position[j, 0]" in adj.source
    assert cutoff_bar == 0.0


def test_tangent_of_an_adjoint_is_a_hessian_product():
    def f(x):
        s = 0.0
        for i in range(1, x.size):
            s += math.exp(x[i] * x[i - 1])
        return s

    x, v = X / 3, RNG.normal(size=6)
    adj = nb.adjoint(f)
    adj.value_and_grad(x)
    names: dict = {}
    exec(compile(adj.source, "<adjoint of f>", "exec"), names)
    linecache.cache["<adjoint of f>"] = (len(adj.source), None, adj.source.splitlines(keepends=True), "<adjoint of f>")
    product = nb.tangent(names["f_adjoint"]).jvp((x, 1.0, np.zeros(6)), (v, 0.0, np.zeros(6)))[1][-1]
    h = 1e-6
    up, down = (adj.value_and_grad(x + k * h * v)[1][0] for k in (1, -1))
    np.testing.assert_allclose(product, (up - down) / (2 * h), rtol=1e-6, atol=1e-8)


def test_what_a_branch_stores_has_a_value_beside_it():
    """Numba refuses some functions in which a scalar may be read before it is set."""

    def f(x, a):
        if a < 0.1:
            x[1] = np.tanh(x[1] * a)
        return x[1] * a

    with uncompiled():
        adj = nb.adjoint(f)
        for a in (0.05, 0.2):
            value, (x_bar, _) = adj.value_and_grad(np.array([0.5, 2.0]), a)
            slope = (1 - np.tanh(2 * a) ** 2) * a if a < 0.1 else 1.0
            assert value == (np.tanh(2 * a) if a < 0.1 else 2.0) * a
            np.testing.assert_allclose(x_bar, [0, slope * a])
    lines = adj.source.splitlines()
    assert lines.index("    x_tape = 0.0") < lines.index("        x_tape = x[1]")


K = 7.0


def times_k(a):
    return a * K


def test_constants_are_of_the_moment_when_adjoint_is_called(monkeypatch):
    """In called functions, too: mixing two moments would give 7 * 8, which the module never computes."""

    def f(x):
        s = 0.0
        for i in range(x.size):
            s += times_k(x[i]) * K
        return s

    with uncompiled():
        before, tangent = nb.adjoint(f), nb.tangent(f)
        monkeypatch.setitem(globals(), "K", 8.0)
        for x in (np.ones(1), np.ones(1, np.float32)):
            assert before.value_and_grad(x)[0] == 49.0
        assert tangent.jvp((np.ones(1),), (np.ones(1),)) == (49.0, 49.0)
        assert nb.adjoint(f).value_and_grad(np.ones(1))[0] == 64.0
