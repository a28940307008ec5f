"""Idioms of numerical packages: programs that do in a few lines what functions found in such packages do."""

import math

import numba
import numpy as np
import pytest
import scipy.special
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

RNG = np.random.default_rng(41)


def normal(*shape):
    return RNG.normal(size=shape)


# Shapes.


def cross_of_a_list(h):
    n = np.cross([0, 0, 1], h)
    return np.sum(n * n) + np.cross(h, (1.0, 2.0, 3.0))[0]


def shape_of_a_number(v, angle):
    """A rotation by a number or an array of them."""
    angle = np.asarray(angle)
    c, s = np.cos(angle), np.sin(angle)
    r = np.zeros(angle.shape + (3, 3))
    r[..., 2, 2] = 1.0 + angle.ndim + np.shape(angle)[0] if angle.ndim > 0 else 1.0 * angle.size
    r[..., 0, 0] = c
    r[..., 0, 1] = -s
    r[..., 1, 0] = s
    r[..., 1, 1] = c
    return np.sum((r @ v) ** 3)


def lengths_in_a_tuple(x):
    """Softmax with an axis of length 1 that is kept."""
    shape = (x.shape[0], 1)
    largest = np.empty(shape)
    for i in range(x.shape[0]):
        largest[i, 0] = np.max(x[i])
    e = np.exp(x - largest)
    return np.sum((e / np.reshape(np.sum(e, axis=-1), shape)) ** 2)


def columns_that_stay_columns(position):
    """All differences of coordinates, as in n-body codes."""
    x, y, z = position[:, 0:1], position[:, 1:2], position[:, -1:]
    dx, dy, dz = x.T - x, y.T - y, z.T - position[:, :1]
    return np.sum(np.exp(dx) * dy**2 * dz)


def kron_of_vectors(a, b):
    return np.sum(np.kron(a, b) ** 2 * np.arange(12))


# Masks beside arrays of what they select.


def extrapolated(x, y):
    above = x > 0.0
    beyond = x[above] - 0.5
    y[above] = 1.0 + 2.0 * x[above] - 0.3 * np.exp(-0.2 * beyond)
    return np.sum(y**2)


# Arrays that functions return, and that change places.


def fill(a, out):
    for i in range(out.size):
        out[i] = a * out[i] + 1.0
    return out


def returned_and_bound_again(x, w):
    for t in range(x.size):
        w = fill(x[t], w)
    v = w * x[1]
    if x[0] > -10.0:
        v = fill(x[2], v)
    return np.sum(w * v)


def time_warping(x, y):
    """The longer series first; two rows that change places."""
    if x.shape[0] < y.shape[0]:
        x, y = y, x
    last, row = np.full(y.shape[0] + 1, np.inf), np.full(y.shape[0] + 1, np.inf)
    last[0] = 0.0
    for i in range(x.shape[0]):
        row[0] = np.inf
        for j in range(y.shape[0]):
            row[j + 1] = (x[i] - y[j]) ** 2 + min(last[j], last[j + 1], row[j])
        last, row = row, last
    return last[y.shape[0]]


def of_all_pairs(x):
    total = 0.0
    for a in range(x.shape[0]):
        for b in range(a):
            total += np.sqrt(time_warping(x[a, : 3 + a], x[b]) + 1.0)
    return total


def longer_first(x, y, allowed):
    n, m = len(x), len(y)
    if n < m:
        n, m = m, n
        x, y = y, x
        allowed = allowed.T
    total = 0.0
    for i in range(n):
        for j in range(m):
            if allowed[i, j]:
                total += (x[i] - 2.0 * y[j]) ** 2
    return total


def longer_first_twice(x, y, allowed):
    return longer_first(x * 2.0, y, allowed) * longer_first(y, x, allowed.T)


def smooth(x, c, n):
    u, v = np.zeros(x.size), x * c
    for _ in range(n):
        for i in range(x.size):
            u[i] = 0.5 * v[i] * v[i] + 0.1 * u[i]
        u, v = v, u
    return v


def buffers_of_a_called_function(x, c):
    total = 0.0
    best = np.zeros(x.shape[1])
    for i in range(x.shape[0]):
        a, b = smooth(x[i], c[0], i), smooth(x[i] * 2.0, c[1], 2)
        total += np.sum(a * b * best) + a[0] ** 2
        best = a
    return total


def buffers_made_in_the_loop(x, c):
    total = 0.0
    for i in range(x.shape[0]):
        p = x[i] * c[0]
        q = np.sin(p)
        for k in range(3):
            for j in range(p.size):
                q[j] += p[j] * c[k % c.size]
            if k % 2 == i % 2:
                p, q = q, p
        total += np.sum(p * p * q)
        p[0] = total
        total += p[0] * q[0]
    return total


def three_buffers(x, c):
    total = 0.0
    for i in range(x.shape[0]):
        a = x[i] * c[0]
        b, d = a * a, np.cos(a)
        for _ in range(i + 1):
            a, b, d = d, a, b
            a *= c[1]
            b += a * d
        total += np.sum(a * b * b * d)
    return total


def band(n, m, part):
    """What is wider than high is what is higher than wide, transposed."""
    if n > m:
        return band(m, n, part).T
    allowed = np.full((n, m), False)
    size, width = max(n, m) + 1, int(part * min(n, m))
    for step in range(size):
        i, j = math.floor(step / size * n), math.floor(step / size * m)
        allowed[max(0, i - width) : min(n, i + width + 1), j] = True
    return allowed


def within_a_band(x, y):
    return longer_first(x, y, band(x.size, y.size, 0.5))


def larger_first(a, b, x):
    if a < b:
        return 2.0 * larger_first(b, a, x) + 1.0
    if x[0] > 0.0:
        return a * a * b * x[1]
    return a * b**3 * x[0]


def with_a_function_inside(a, b, x):
    """The results of the function inside are its own."""
    if a < b:
        return 2.0 * with_a_function_inside(b, a, x)

    def scaled():
        return x[0] * a

    return scaled() * b


# Comprehensions of comprehensions.


def k_means(points, centers, steps):
    for _ in range(steps):
        far = np.array([[np.sum((p - c) ** 2) for c in centers] for p in points])
        near = np.array([far[i, :].argmin() for i in range(points.shape[0])])
        centers = np.array(
            [[np.sum(points[near == i, j]) / (np.sum(near == i) + 1.0) for j in range(2)] for i in range(3)]
        )
    return centers


def three_axes(x, y):
    m = np.array([[a * b for a in x] for b in y])
    t = [[[i * x[j] + k * y[i] for k in range(2)] for j in range(3)] for i in range(2)]
    shadowed = np.array([[x[i] for i in range(2)] for i in range(3)])
    return np.sum(np.sin(m) @ m.T) + t[1][2][1] * np.sum(np.array(t)) + np.sum(shadowed**2)


def median_by_partition(x):
    return np.partition(x * x, 3)[3]


def name_after_element(x):
    y, k = np.zeros((2, 3)), 1
    y[1] = x[k] = half = 0.5 * x[0]  # x[1], and not x[half]
    x[0] = y[0, 0] = 2.0 * half
    return np.sum(y) * half + np.sum(x * x)


def rounded_in_place(x):
    y = np.zeros(x.shape)
    np.round(x, 2, y)
    return np.sum(y * x)


def all_indices(a):
    total = 0.0
    for i, j in numba.pndindex(a.shape):
        total += a[i, j] ** 2
    return total


ALLOWED = RNG.random((4, 6)) > 0.4

PROGRAMS = [
    (cross_of_a_list, (normal(3),)),
    (shape_of_a_number, (normal(3), 0.3)),
    (lengths_in_a_tuple, (normal(3, 4),)),
    (columns_that_stay_columns, (normal(4, 3),)),
    (kron_of_vectors, (normal(3), normal(4))),
    (extrapolated, (normal(7), normal(7))),
    (returned_and_bound_again, (normal(4), normal(3))),
    (time_warping, (normal(4), normal(6))),
    (time_warping, (normal(6), normal(4))),
    (of_all_pairs, (normal(3, 5),)),
    (longer_first, (normal(4), normal(6), ALLOWED)),
    (longer_first, (normal(6), normal(4), ALLOWED.T.copy())),
    (longer_first_twice, (normal(4), normal(6), ALLOWED)),
    (within_a_band, (normal(4), normal(6))),
    (within_a_band, (normal(6), normal(4))),
    (larger_first, (0.3, 0.5, normal(2))),
    (larger_first, (0.5, 0.3, normal(2))),
    (with_a_function_inside, (0.3, 0.5, normal(2))),
    (with_a_function_inside, (0.5, 0.3, normal(2))),
    (k_means, (normal(9, 2), normal(3, 2), 2)),
    (three_axes, (normal(3), normal(4))),
    (median_by_partition, (normal(7),)),
    (name_after_element, (normal(3),)),
    (rounded_in_place, (normal(4),)),
    (all_indices, (normal(2, 3),)),
    (buffers_of_a_called_function, (normal(4, 3), normal(2))),
    (buffers_made_in_the_loop, (normal(4, 3), normal(2))),
    (three_buffers, (normal(4, 3), normal(2))),
]


@pytest.mark.parametrize("f, args", PROGRAMS)
def test_agrees(f, args):
    with uncompiled():
        agrees(f, args)


@pytest.mark.parametrize("f", [columns_that_stay_columns, of_all_pairs, buffers_of_a_called_function])
def test_compiled(f):
    agrees(f, next(args for g, args in PROGRAMS if g is f))


def test_a_column_that_is_not_there():
    with (
        uncompiled(),
        pytest.raises(ValueError, match=r"axis without the element that is kept in 'position\[:, 1:2\]'"),
    ):
        nb.adjoint(columns_that_stay_columns).value_and_grad(normal(4, 1))


def exchanged_by_a_called_function(x, y):
    x, y = y, x
    return np.sum(x * y * y)


def rows_that_change_places(x, y):
    total = 0.0
    for i in range(x.shape[0]):
        total += exchanged_by_a_called_function(x[i], y[i])
    return total


def test_arguments_of_a_called_function_stay_where_they_are_in_loops():
    with pytest.raises(TraceError, match="arrays assigned to other names"):
        nb.adjoint(rows_that_change_places).value_and_grad(normal(3, 2), normal(3, 2))


def mixed_precision(x, w, v):
    h = np.zeros((x.shape[0], w.shape[1]))
    h += x @ w
    return np.sum((h @ v) ** 2)


@pytest.mark.parametrize("narrow", [(0,), (1,), (0, 1), (0, 1, 2)])
def test_products_of_matrices_of_different_precision(narrow):
    args = normal(12, 11), normal(11, 13), normal(13, 12)
    value, gradients = nb.adjoint(mixed_precision).value_and_grad(*args)
    given = [a.astype(np.float32) if k in narrow else a for k, a in enumerate(args)]
    found, others = nb.adjoint(mixed_precision).value_and_grad(*given)
    np.testing.assert_allclose(found, value, rtol=1e-5)
    for a, g, h in zip(given, gradients, others, strict=True):
        assert h.dtype == a.dtype
        np.testing.assert_allclose(h, g, rtol=1e-4, atol=1e-5 * np.max(np.abs(g)))


# Histograms.


def counted(x):
    counts = np.histogram(np.abs(x), 5)[0]
    return np.sum(counts * x[:5])


def weighted(x, w):
    sums, edges = np.histogram(x, bins=4, range=(-1.0, 1.0), weights=w)
    return np.sum(sums**2 * np.arange(4)), sums, edges


def between_edges(x, edges, w):
    sums, _ = np.histogram(x, edges, weights=w * w)
    return np.sum(sums**2 * edges[1:])


def ten_bins(x):
    counts, edges = np.histogram(x)
    return np.sum(counts * edges[:-1] ** 2)


@pytest.mark.parametrize(
    "f, args",
    [
        (counted, (normal(30),)),
        (weighted, (normal(30), normal(30))),
        (between_edges, (normal(30), np.sort(normal(6)), normal(30))),
        (ten_bins, (normal(40),)),
        (ten_bins, (np.ones(3),)),
    ],
)
def test_histogram(f, args):
    with uncompiled():
        if args[0][0] == 1.0:  # the edges have no derivative where all values are equal
            assert nb.adjoint(f).value_and_grad(*args)[0] == pytest.approx(f(*args), rel=1e-13)
        else:
            agrees(f, args)


def test_histogram_counts_as_numpy_does():
    def both(x, edges, n):
        a, b = np.histogram(x, edges), np.histogram(x, n, (-2.0, 2.0))
        return a[0] * 1.0, b[0] * 1.0, b[1]

    rng = np.random.default_rng(0)
    with uncompiled():
        adj = nb.adjoint(both)
        for k in range(40):
            x = rng.integers(-6, 7, 25) / (2.0 if k % 2 else 3.0)
            edges = np.unique(rng.integers(-4, 5, 6) / 2.0)
            if edges.size < 2:
                continue
            n = 1 + k % 12
            for found, wanted in zip(adj.vjp(x, edges, n).value, both(x, edges, n), strict=True):
                np.testing.assert_array_equal(found, wanted)


def test_linspace_has_the_numbers_of_numpy():
    def grid(first, last, n):
        return np.linspace(first, last, n), np.linspace(first, last, n, endpoint=False)

    rng = np.random.default_rng(0)
    with uncompiled():
        adj = nb.adjoint(grid)
        for n in (0, 1, 2, 3, 11, 11, 11, 50):
            first, last = rng.normal(size=2)
            for found, wanted in zip(adj.vjp(first, last, n).value, grid(first, last, n), strict=True):
                np.testing.assert_array_equal(found, wanted)
        pull = adj.vjp(0.3, 0.8, 4)
        np.testing.assert_allclose(pull((np.array([0.0, 0.0, 0.0, 1.0]), np.zeros(4)))[:2], (0.0, 1.0))


@pytest.mark.parametrize(
    "x, bins, message",
    [
        (normal(4), 0, "fewer than one bin"),
        (np.array([1.0, np.nan]), 3, "is not finite"),
        (np.array([1.0, np.inf, 2.0]), 3, "is not finite"),
        (normal(4), np.array([1.0, 0.0, 2.0]), "edges that decrease"),
        (normal(4), np.array([0.0, np.nan]), "or a NaN"),
    ],
)
def test_histogram_refuses(x, bins, message):
    def counts(x, bins):
        return np.sum(np.histogram(x, bins)[0] * x[0])

    with uncompiled(), pytest.raises(ValueError, match=message):
        nb.adjoint(counts).value_and_grad(x, bins)


def test_a_histogram_without_bins():
    def size(x, edges):
        return np.histogram(x, edges)[0].size + x[0] ** 2

    with uncompiled():
        assert nb.adjoint(size).value_and_grad(np.ones(3), np.array([1.0]))[0] == 1.0


def test_partition_out_of_range():
    with uncompiled(), pytest.raises(ValueError, match=r"np.partition at an index out of range"):
        nb.adjoint(median_by_partition).value_and_grad(normal(3))


# C functions by address.


class OfScipy(numba.types.WrapperAddressProtocol):
    def __init__(self, name):
        self.name = name

    def __wrapper_address__(self):
        return numba.extending.get_cython_function_address("scipy.special.cython_special", self.name)

    def signature(self):
        return numba.types.float64(numba.types.float64)


ber, berp = OfScipy("ber"), OfScipy("berp")


def at_kelvin(x):
    return ber(x[0]) * x[1]


@nb.primitive
@numba.njit
def kelvin(x):
    return ber(x)


@kelvin.defvjp
@numba.njit
def kelvin_vjp(g, y, x):
    return g * berp(x)


def test_c_functions_need_a_derivative():
    x = np.array([0.3, 0.4])
    with pytest.raises(TraceError, match=r"a call of ber, a C function in .*; give it a vjp, by nb.primitive"):
        nb.adjoint(at_kelvin).value_and_grad(x)

    def remedied(x):
        return kelvin(x[0]) * x[1]

    value, (x_bar,) = nb.adjoint(remedied).value_and_grad(x)
    y, slope = scipy.special.ber(0.3), scipy.special.berp(0.3)
    assert value == pytest.approx(0.4 * y, rel=1e-13)
    np.testing.assert_allclose(x_bar, [0.4 * slope, y], rtol=1e-12)
