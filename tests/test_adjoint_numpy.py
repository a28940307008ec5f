"""NumPy's functions that are implemented in the subset: interpolation, sorting, linear systems."""

import numpy as np
import pytest
from loop_programs import agrees, twice, uncompiled
from programs.data import normal

import nbgrad as nb
from nbgrad.errors import TraceError

X, Y, A, B = normal(5), normal(6), normal(4, 4), normal(4, 3)
XS, S = np.sort(normal(6)), A @ A.T + 4 * np.eye(4)


def interpolated_number(x, xp, fp):
    return np.interp(x, xp, fp)


def interpolated(x, xp, fp):
    return np.interp(x, xp, fp)


def interpolated_matrix(x, xp, fp):
    return np.interp(x * 2, xp, fp) * x


def searched(a, v, w):
    j = np.searchsorted(a, v)
    k = np.searchsorted(a, w, side="right")
    m = np.searchsorted(a, w, "left")
    s = 0.0
    for i in range(w.size):
        s += a[min(k[i], 5)] * w[i] * m[i]
    return s * a[j]


def rolled(x, b):
    return (np.roll(x, 1) * x + np.roll(x, -2) * np.roll(x, 7), np.roll(b, 1, axis=0) * b, np.roll(b, -1, 1) * b)


def rolled_in_steps(x, b, n):
    for t in range(n):
        x = x + 0.1 * (np.roll(x, 1) - 2 * x + np.roll(x, -1)) * x
        b[:] = b * np.roll(b, t, axis=0)
    return x


def flipped(x, b):
    return (np.flip(x) * x, np.flip(b) * b, np.flipud(b) * b + np.fliplr(b), np.transpose(b))


def repeated(x, n):
    return (np.repeat(x, n) ** 2, np.tile(x, n) ** 2, np.repeat(x, 2))


def diagonals(x, a, b):
    return (np.diag(x * x), np.diag(a) * np.diag(b.T @ b)[0], np.tril(a) @ np.triu(a, 1), np.diag(x, -1), np.diag(a, 1))


def sums(x, xs, y):
    return (
        np.trapezoid(y, xs) * np.trapezoid(y, dx=0.2) * np.ptp(x),
        np.polyval(x, y),
        np.polyval(x, y[0]),
        np.convolve(x, y),
    )


def products(x, y, a, b):
    return (np.cross(x[:3], y[1:4]), np.kron(a, b))


def systems(a, b, x):
    return (np.linalg.solve(a, b), np.linalg.solve(a, x[:4]), np.linalg.inv(a) @ b, np.linalg.det(a))


def factorised(s, a):
    c = np.linalg.cholesky(s * 1.0)
    sg, ld = np.linalg.slogdet(a)
    return (c, ld * sg, np.linalg.det(-a))


def sorted_parts(x, y):
    o = np.argsort(x)
    s = 0.0
    for i in range(x.size):
        s += y[i] * x[o[i]]
    z = np.sort(y * y)
    return (s, z, np.median(x), np.median(y) * np.percentile(x, 30.0), np.quantile(y, 0.2), np.median(x[:1]))


SHARES = np.array([[0.0, 0.25], [0.6, 1.0]])


def quantiles(x, y, q):
    low, high = np.percentile(x, [5, 95])
    ends = np.quantile(y, (0.1, 0.9)) * np.percentile(y, q=np.array([20.0, 70.0]))
    return np.clip(y, low, high) * y, ends, np.quantile(x, SHARES) ** 2, np.quantile(y, q) * q, np.percentile(x, q[:1])


def true_places(x, a):
    idx = np.flatnonzero(x > 0)
    s = 0.0
    for i in idx:
        s += x[i] ** 2 * a
    return s * np.count_nonzero(x > 0)


def functions_for_operators(x, y):
    z = np.add(x, y[:5]) * np.subtract(x, 1.5) / np.divide(y[:5], np.exp2(x)) - np.mod(np.negative(x), 0.83)
    z += np.where(np.less(x, y[1:]), np.multiply(x, 3.0), np.floor_divide(x, 0.37)) * np.float_power(np.fabs(x), 1.3)
    return z * np.uint8(3) + x.clip(-0.5, 0.4) * np.around(x) + np.logaddexp(x, y[0]) + max(x) * min(y)


def places(x, b):
    k = np.where(x > 0)[0]
    (j,) = x.nonzero()
    order = x.argsort()
    b[np.array([0, 2])] = b[1] * np.take(x, order)[2]
    np.fill_diagonal(b, x[0] * x[1])
    s = np.sum(x[k] ** 2) + x.take(j)[1] * x.repeat(2)[3]
    return s * np.average(x), np.average(x, weights=x * x + 1), np.bincount(np.array([2, 0, 2]), x[:3], minlength=4)


def convolved(x, y):
    return np.convolve(x, y, mode="valid"), np.convolve(x, y[:2], "same"), np.convolve(y[:2], x, "same")


def spread_along_axes(b):
    return b.std(axis=0) * np.any(b > 0, axis=0), np.var(b, axis=1), np.linalg.slogdet(b[:3])[1] + divmod(b[0, 0], 1)[1]


def filled(x, k, s, n):
    """All arguments are honoured, and elements have the requested dtype."""
    grid = np.linspace(0.0, s, 4, False) * np.linspace(num=4, start=s, stop=1.0)
    band = np.eye(2, 3) + np.eye(2, M=3, k=1) * s + np.full(shape=(2, 3), fill_value=1) / 2 + np.eye(N=2, M=3, k=-1)
    whole = np.full_like(k, 2.7) * s + np.full(k.shape, s * 9, np.int64) // 2 + np.full(3, n, np.float64) / 2
    return grid, band @ x[:3], whole * x[:3], np.identity(n, np.float64) * s, np.zeros(shape=(n, 1)) + s


def more_systems(a, b, x):
    q, r = np.linalg.qr(b)
    wide = np.linalg.qr(b.T)[1]
    return q, r @ x[:3], wide, np.linalg.matrix_power(a[:3, :3], 3), np.linalg.solve(r, q.T @ x[:4])


def missing(x, y, b):
    z = x * y[:5]
    z[1] = np.nan
    c = b * x[0]
    c[0, 1] = np.nan
    ends = np.nanmax(z) - np.nanmin(c) + np.nanprod(z) + np.ptp(x)
    return np.nansum(z) * np.nanmean(c), np.nanstd(z), np.nanvar(c), ends, np.nan_to_num(z) + np.nan_to_num(z, nan=2.0)


def missing_in_order(x, y, b):
    z = x * y[:5]
    z[1] = np.nan
    v = y * y
    v[2] = np.nan
    return np.nancumsum(z) * np.nanmedian(z), np.nancumprod(z), np.nanmedian(v), np.nanmedian(b[:, 0]) * x[0]


def compared(x, y):
    """Iterations that end at convergence."""
    for _ in range(50):
        old = x
        x = 0.5 * np.cos(x) + 0.1 * y[:5]
        if np.allclose(x, old, atol=1e-6):
            break
    near = np.isclose(x, old, rtol=1e-9).sum() + np.array_equal(x, old) + np.array_equal(x, y)
    where = np.digitize(y, np.array([-0.5, 0.5])) + np.digitize(y, np.array([0.5, -0.5]), right=True)
    return x * near, np.cov(x, y[:5]) * np.corrcoef(x, y[1:]), where * y


def other_orders(x, y, b):
    y.sort()
    b[1:, 0].sort()
    places = np.argwhere(y > 0.0)
    return (np.sinc(x), np.correlate(x, y[:3]) * np.ediff1d(x)[1:], np.vander(x, 3) @ b[:3],
            np.vander(x, 3, increasing=True) @ b[:3], np.tri(3, 4, 1) @ b,
            np.rot90(b) @ b, np.rot90(b, -1)[0], np.delete(x, -2), np.extract(x > 0.0, x),
            np.swapaxes(b, 0, 1)[0] * x[0], np.sum(y[places[:, 0]]), np.diagflat(x, 1)[0])  # fmt: skip


def newton(a, x, n):
    y = x[:4].copy()
    for _ in range(n):
        r = a @ y + y**3 - x[:4]
        J = a + np.diag(3 * y**2)
        y = y - np.linalg.solve(J, r)
    return y


ROWS = {
    interpolated_number: (0.3, XS, Y,),
    interpolated: (X * 2, XS, Y,),
    interpolated_matrix: (B, XS, Y,),
    searched: (XS, 0.3, X,),
    rolled: (X, B,),
    rolled_in_steps: (X, B, 3,),
    flipped: (X, B,),
    repeated: (X, 3,),
    diagonals: (X, A, B,),
    sums: (X, XS, Y,),
    products: (X, Y, A, B,),
    systems: (A, B, X,),
    factorised: (S, A,),
    sorted_parts: (X, Y,),
    quantiles: (X, Y, np.array([0.15, 0.55, 0.7])),
    true_places: (X, 0.4,),
    functions_for_operators: (X, Y,),
    places: (X, B,),
    convolved: (X, Y,),
    spread_along_axes: (B,),
    newton: (A, X, 3,),
    filled: (X, np.array([0, 2, 1]), 0.7, 3,),
    more_systems: (A, B, X,),
    missing: (X, Y, B,),
    missing_in_order: (X, Y, B,),
    compared: (X, Y,),
    other_orders: (X, Y, B,),
}  # fmt: skip


@pytest.mark.parametrize("name", [f.__name__ for f in ROWS])
def test_functions(name):
    f, args = next((f, args) for f, args in ROWS.items() if f.__name__ == name)
    with uncompiled():
        agrees(f, args)
        twice(f, args)


def test_compiled():
    for f in (interpolated, rolled_in_steps, sorted_parts):
        agrees(f, ROWS[f])


def test_as_numpy():
    """Boundary values, and arrays of few elements."""
    points = np.array([-np.inf, XS[0] - 1, XS[0], XS[2], XS[-1], XS[-1] + 1, np.nan])
    with uncompiled():
        for x in (points, points[:1], points[:0], XS):
            np.testing.assert_array_equal(nb.adjoint(interpolated).vjp(x, XS, Y).value, np.interp(x, XS, Y))
        for n in (0, 1, 2):
            x = normal(n)
            agrees(rolled_in_steps, (x, normal(n, 3), 2))
            agrees(joins, (x, 0.4))


def remainders(x, a, b):
    return np.fmod(x, b), np.fmod(a, b) * np.fmod(-a, x[0]), x % b


def test_remainders_compiled():
    for a, b in ((2.3, 0.7), (-2.3, 0.7), (2.3, -0.4)):
        agrees(remainders, (3.0 * X, a, b))


def neighbours(e):
    a = e.copy()
    for i in range(1, a.size):
        if a[i] <= a[i - 1]:
            a[i] = np.nextafter(a[i - 1], np.inf)
    return np.sum(a * a), np.nextafter(e, 0.0) * e


def test_next_floats():
    agrees(neighbours, (np.array([1.0, 3.0, 3.5, 2.0]),))
    assert nb.adjoint(neighbours).vjp(np.ones(2)).value[0] == 1.0 + np.nextafter(1.0, 2.0) ** 2
    x = np.ones(2, "float32")
    upwards = nb.adjoint(lambda x, y: np.nextafter(x, y))
    assert upwards.vjp(x, 2 * x).value.tolist() == np.nextafter(x, 2 * x).tolist()
    with pytest.raises(TraceError, match="with a number, where arrays are float32"):  # of float64, it would do nothing
        upwards.vjp(x, 2.0)


def joins(x, a):
    return np.sort(x) * a, np.repeat(x, 2), np.flip(x) * x


def test_a_system_with_one_row_and_exchanged_rows():
    def f(a, b):
        return np.linalg.solve(a, b), np.linalg.det(a)

    with uncompiled():
        agrees(f, (np.array([[0.7]]), np.array([0.3])))
        agrees(f, (np.array([[0.0, 2.0], [3.0, 1.0]]), np.array([0.3, 0.4])))
        agrees(f, (np.array([[0.0, 2.0, 1.0], [3.0, 0.0, 1.0], [1.0, 1.0, 0.0]]), normal(3, 2)))
        adj = nb.adjoint(f)
        with pytest.raises(ValueError, match="singular"):
            adj.vjp(np.ones((2, 2)), np.ones(2))
        with pytest.raises(ValueError, match="not square"):
            adj.vjp(np.ones((2, 3)), np.ones(2))


def test_logaddexp_of_infinite_and_equal_numbers():
    def f(a, b):
        return np.logaddexp(a, b)

    inf = np.inf
    with uncompiled():
        adj = nb.adjoint(f)
        for a, b, left, right in ((1e3, 0.0, 1, 0), (-inf, 2.0, 0, 1), (2.0, -inf, 1, 0), (3.0, 3.0, 0.5, 0.5)):
            assert adj.value_and_grad(a, b) == (np.logaddexp(a, b), (left, right))
        assert adj.value_and_grad(-inf, -inf)[0] == -inf
        for pair in ((np.nan, -inf), (np.nan, inf), (-inf, np.nan), (np.nan, 1.0)):
            assert np.isnan(adj.value_and_grad(*pair)[0])


def test_orders_of_nan():
    def f(x, places):
        k = np.searchsorted(places, x)
        j = np.searchsorted(places, x, side="right")
        return np.sort(x), np.argsort(x), k, j, np.median(x), np.quantile(x, 0.3), np.interp(x, places[:4], places[1:])

    x, places = np.array([3.0, np.nan, 1.0, 2.0, np.nan, 0.0]), np.array([0.0, 1.0, 1.5, 2.0, np.nan])
    with uncompiled():
        pull = nb.adjoint(f).vjp(x, places)
        for found, expected in zip(pull.value, f(x, places), strict=True):
            np.testing.assert_array_equal(found, expected)
        gradient = pull((np.arange(1.0, 7.0), *[None] * 6))[0]
        np.testing.assert_array_equal(gradient, [4, 5, 2, 3, 6, 1])


def test_several_quantiles_as_numpy():
    """Ends, arrays of one element, NaN, integers, float32; shares that are out of range, and a matrix."""

    def f(x, q):
        return np.quantile(x, q), np.percentile(x, 100 * q)

    q = np.array([0.0, 0.3, 1.0])
    with uncompiled():
        adj = nb.adjoint(f)
        for x in (X, X[:1], np.array([1.0, np.nan, 2.0]), np.array([3, 1, 2]), X.astype(np.float32)):
            for found, expected in zip(adj.vjp(x, q).value, f(x, q), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-6 if x.dtype == np.float32 else 1e-14)
                assert found.dtype == expected.dtype
        with pytest.raises(ValueError, match=r"must be in the range \[0, 1\]"):
            adj.vjp(X, np.array([0.5, 1.5]))
        for found, expected in zip(adj.vjp(B, q).value, f(B, q), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-14)


def sorted_in_rows(b, w):
    for _ in range(2):
        b = np.sort(np.sin(b) * w) + np.sort(b, axis=1)
    return b, np.sum(b[:, :1] * w)


def sorted_in_columns(b, w):
    for _ in range(2):
        b = np.sort(np.sin(b) * w, axis=0) + np.sort(b, axis=-2)
    return b, np.sum(b[:, :1] * w)


def sorted_whole(b, w):
    return np.sort(np.sin(b) * w, axis=None) ** 2, np.sum(np.argsort(b, axis=None) * w.ravel())


def in_orders(b, w):
    down, across = np.argsort(b, axis=0), np.argsort(b * w)
    total = 0.0
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            total += b[down[i, j], j] * w[i, across[i, j]] * b[i, j]
    return b * w, total + np.sum(np.argsort(w, axis=1) * w)


@pytest.mark.parametrize("f", [sorted_in_rows, sorted_in_columns, sorted_whole, in_orders])
def test_sorted_matrices(f):
    with uncompiled():
        for shape in ((4, 3), (1, 5), (3, 1)):
            agrees(f, (normal(*shape), normal(*shape)))
        missing = np.array([[2.0, np.nan, 1.0], [9.0, -1.0, np.nan]])
        for b in (np.zeros((0, 3)), missing, np.array([[3.0, 1.0], [2.0, 5.0]], np.float32)[::-1].T):
            found, expected = nb.adjoint(f).vjp(b, b).value, f(b, b)
            assert found[0].dtype == expected[0].dtype
            np.testing.assert_allclose(found[0], expected[0], 1e-6)
            np.testing.assert_allclose(found[1], expected[1], 1e-6)


def test_refused():
    def several(b):
        return np.sort(b, axis=2)

    def third(b):
        return np.roll(b, 1, axis=n)

    n = 2
    for f, message in ((several, r"line \d+: np.sort: .*this axis.*'return np.sort\(b, axis=2\)'; give a constant"),
                       (third, r"np.roll along this axis .*give a constant from 0 to 2")):  # fmt: skip
        with pytest.raises(TraceError, match=message) as caught:
            nb.adjoint(f).vjp(B)
        assert "test_adjoint_numpy" in str(caught.value)
