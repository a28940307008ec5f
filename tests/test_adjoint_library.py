"""Types as values, updates in place, masks, reductions along several axes: NumPy as loops of others write it."""

import numpy as np
import pytest
from loop_programs import agrees, twice, uncompiled
from programs.data import normal

import nbgrad as nb
from nbgrad.errors import AttrError, TraceError

X, Y, A, C, V = normal(5), normal(5), normal(3, 4), normal(2, 3, 4), normal(4)
PLACES, COLUMNS = np.array([0, 2, 2, 1]), np.array([0, 3, 1, 1])


def types(x, a, n):
    T = type(x)
    dtype = a.dtype
    one, half = type(a[0])(1), a.dtype.type(0.5)
    whole = type(n)(2.7)  # an integer
    s = T(0)
    for i in range(n):
        s += T(2) * a[i] * x + type(s)(1) * one
    y = np.zeros(3, dtype)
    y[0] = s
    return y + np.full(3, half, dtype=a.dtype) * x + np.float64(whole), dtype.type(3) * x


def masked_updates(c, x, b):
    m = x > 0
    y = np.zeros_like(x)
    y[m] = c * x[m] + b[m]
    y[~m] = -x[~m] * b[~m] ** 2
    y[m & (b > 0)] *= 2.0
    y[x < -0.9] = 0.0
    x[m] += c * y[m]
    return y * y


def masks_of_matrices(a, c):
    s = np.mean(a[a > 0] ** 2) * c
    i, j = np.where(a > 0.1)
    for k in range(i.size):
        s += a[i[k], j[k]] ** 2
    a[a < -0.3] *= c
    a[a > 0.3] = np.exp(a[a > 0.3])
    return s * np.sum(a[~(a > 0)])


def added_at(y, b, v, n):
    for _ in range(n):
        np.add.at(y, PLACES, v * v * y[1])
        np.subtract.at(y, PLACES, 2 * v)
        np.multiply.at(y, PLACES, 0.3 + v)
        np.add.at(y, PLACES[:2], 1.5)
        np.add.at(b, (PLACES, COLUMNS), v)
        np.add.at(b, PLACES[:3], b[::-1] * 0.3)
        np.maximum.at(y, PLACES, v * 0.7)
        np.minimum.at(y, COLUMNS, 3.0 * v)
    return y * b[1]


def put_and_copied(x, y, z):
    np.put(x, [0, 2], y[:2] * 2)
    np.put(x, 3, y[0])
    np.copyto(z, x * y)
    np.copyto(x, 2 * z, where=z > 0)
    np.copyto(y, 0.5)
    np.putmask(z, z > 0, x * x)
    np.putmask(z, z < -1, 0.3)
    np.place(y, x > 1, [0.3, 2.0 * x[0]])
    return x * z


def into_out(a, x, y):
    np.sum(a * x[0], axis=0, out=y[:4])
    np.clip(x, -0.5, 0.5, out=x)
    np.divide(x, y, out=y, where=x > 0)
    np.cumsum(y * x, out=x)
    return x


def flat(a, x):
    b = np.zeros_like(a)
    for i in range(b.size):
        b.flat[i] = a.flat[i] ** 2
    s = 0.0
    for k, v in enumerate(a.flat):
        s += v * v * k
    x[0] = s
    return b, s, x * a[0, 0]


def clipped(x, a):
    return (
        np.clip(x, a_min=-0.3, a_max=0.3),
        np.clip(x, 0.0, None),
        np.clip(x, None, x[0]),
        x.clip(min=0.1),
        np.clip(a, -0.5, a_max=0.5),
        x.clip(0.1),
        np.clip(x[0], None, 0.2),
        a.clip(max=a[0, 0]),
    )


def several_axes(a, c):
    return (
        np.sum(c, axis=(0, -1)),
        np.mean(c, axis=(1, 2)),
        c.max(axis=-1, keepdims=True) * a,
        np.prod(a, keepdims=True),
        c.mean(axis=(0, 2), keepdims=True) * c,
        np.sum(c, axis=(0, 1, 2)),
        np.std(a, axis=0, ddof=1),
        a.var(ddof=1),
        np.min(c, axis=(0, 2)),
        np.sum([a[0, 0], a[1, 1] ** 2]),
        sum((a[0, 0], 2)),
        np.max((a[0, 0], a[0, 1])),
        np.sum(a[0] @ a[1]) * np.max(np.sum(c)) + np.prod(a[0, 1]) * np.min(np.dot(a[0], a[2])),  # of numbers
    )


def norms(a, c, x):
    return (
        np.linalg.norm(a, axis=1),
        np.linalg.norm(a, axis=0, keepdims=True) * a,
        np.linalg.norm(c, ord=1, axis=1),
        np.linalg.norm(c, axis=(0, 2)),
        np.linalg.norm(a, "fro"),
        np.linalg.norm(a, np.inf),
        np.linalg.norm(a, 1),
        np.linalg.norm(c, np.inf, axis=-1),
        np.linalg.norm(x, ord=None),
        np.linalg.norm(c, ord=2, axis=0),
    )


def scans(a, c, x):
    return (
        np.cumsum(c, axis=1),
        np.cumsum(a, axis=-1) * a,
        a.cumsum(),
        np.cumprod(c, 0),
        np.diff(a, axis=0),
        np.diff(c),
        np.diff(x, n=2),
        np.diff(x * x, 2),
        np.diff(a, n=2, axis=-1),
        np.diff(x, 0),
    )


def permuted(a, c):
    return (
        a.transpose(1, 0) * 2,
        c.transpose(2, 0, 1) * c[0, 0, 0],
        a.transpose((1, 0)) @ a,
        np.transpose(c, (1, -1, 0)),
        np.swapaxes(c, 0, 2),
        np.moveaxis(c, 0, -1) * a[:, :, None],
        c.swapaxes(1, -1),
        np.expand_dims(a, 0) * c,
        np.expand_dims(a, axis=-1),
        np.reshape(a, (6, 2), order="C"),
        a * len(a.shape),
    )


def in_place_through_views(a, c, n):
    for k in range(n):
        c.transpose(2, 0, 1)[k, 0] *= a[0, :3] + c[0, 0, 0]
        np.swapaxes(a, 0, 1)[k] += np.sum(c, axis=(0, 2)) * a[0, 0]
        c /= np.linalg.norm(c, axis=-1, keepdims=True)
    return np.cumsum(c, axis=0)


ROWS = {
    types: (0.7, X, 3),
    masked_updates: (0.5, X, Y),
    masks_of_matrices: (A, 0.5),
    added_at: (V, A[:, :4] * 1.0, V * 0.8, 2),
    put_and_copied: (X, Y, X * Y),
    into_out: (A, X, Y),
    flat: (A, X),
    clipped: (X, A),
    several_axes: (A, C),
    norms: (A, C, X),
    scans: (A, C, X),
    permuted: (A, C),
    in_place_through_views: (A, C, 3),
}


@pytest.mark.parametrize("name", [f.__name__ for f in ROWS])
def test_functions(name):
    f, args = next((f, args) for f, args in ROWS.items() if f.__name__ == name)
    with uncompiled():
        agrees(f, args)
        twice(f, args)


@pytest.mark.parametrize("f", [types, masked_updates, added_at, several_axes])
def test_compiled(f):
    agrees(f, ROWS[f])


def test_empty():
    def f(a):
        return np.cumsum(a, axis=0), np.diff(a, axis=0), np.sum(a, axis=0, keepdims=True), np.linalg.norm(a, axis=1)

    with uncompiled():
        agrees(f, (np.zeros((0, 3)),))
        agrees(masks_of_matrices, (np.full((1, 2), 0.2), 0.4))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, a, n: np.max(x[:n]),
        lambda x, a, n: max(x[:n]) * 2.0,
        lambda x, a, n: x[np.argmin(x[1 : n + 1])],
        lambda x, a, n: np.sum(a[:, :n].max(axis=1)),
        lambda x, a, n: np.sum(np.argmax(a[:n, :n], axis=0)) + x[0],
        lambda x, a, n: np.min(x[x > 1e9 * (1 - n)]),
        lambda x, a, n: min([v for v in x if v > 1e9 * (1 - n)]),
    ],
)
def test_extrema_of_empty_arrays(f):
    assert nb.adjoint(f).value_and_grad(X, A, 1)[0] == f(X, A, 1)
    for call in (
        lambda: nb.adjoint(f).value_and_grad(X, A, 0),
        lambda: nb.adjoint(f).hvp((X, A, 0), (X, A, None)),
        lambda: nb.tangent(f).jvp((X, A, 0), (X, A, None)),
    ):
        with pytest.raises(ValueError, match="is empty, it has no largest or smallest element"):
            call()


def test_types_of_float32():
    def f(x):
        return x.dtype.type(0.5) * x + np.zeros(x.size, x.dtype)

    x = X.astype(np.float32)
    with uncompiled():
        value = nb.adjoint(f).vjp(x).value
    assert value.dtype == np.float32
    np.testing.assert_array_equal(value, f(x))


BAD = {
    "return x[np.ones((2, 2)) > 0]": "mask of several axes|indices",
    "return np.reshape(x, 5, 1)": "pass the array, and its lengths",
    "return a.transpose(0, 0)": "each of the 2 axes once",
    "return np.moveaxis(a, 2, 0)": "two of the 2 axes",
    "return np.sum(a, axis=(0, 0))": "each axis once",
    "return np.sum(a, axis=2)": "each axis once",
    "return np.argmax(a, axis=(0, 1))": "each axis once",
    "return np.linalg.norm(a, 3)": "a norm of a matrix of this order",
    "return np.linalg.norm(a, ord=3, axis=0)": "give 1, 2 or np.inf",
    "return np.mean(a[0, 0])": "pass an array",
    "return np.sum(x[0], axis=0)": "pass an array",
    "return np.clip(x, 0.0, min=1.0)": "min= in",
    "return type(x)(1)": "the class of arrays",
    "np.add.at(a, 0, 1.0)": "a vector of indices",
    "np.put(a, 0, 1.0)": "give a vector",
}


@pytest.mark.parametrize("body", BAD)
def test_refused(body, tmp_path):
    path = tmp_path / "refused.py"
    path.write_text(f"import numpy as np\ndef f(x, a):\n    {body}\n")
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with pytest.raises(TraceError, match=BAD[body]) as caught:
        nb.adjoint(names["f"]).vjp(X, A)
    assert "line 3" in str(caught.value)


def singular(a, b):
    return np.sum(np.linalg.solve(a, b))


def not_positive(a, b):
    return np.sum(np.linalg.cholesky(a) @ b)


@pytest.mark.parametrize("n", [2, 20])
@pytest.mark.parametrize(("f", "a"), [(singular, 0.0), (not_positive, -1.0)])
def test_singular_matrices(f, a, n):
    """The same error at every size: loops and LAPACK."""
    args = np.full((n, n), a), np.ones(n)
    for call in (
        lambda: nb.adjoint(f).value_and_grad(*args),
        lambda: nb.tangent(f).jvp(args, args),
        lambda: f(*args),
    ):
        with pytest.raises(np.linalg.LinAlgError):
            call()


def newton(f, x, args=()):
    for _ in range(5):
        x = x - f(x, *args)
    return x


def test_defaults_that_are_left_out():
    def f(x, y=2.0, n=3):
        return np.sum(x**2) * y * n

    def g(x):
        return newton(lambda z: 0.1 * z * z, x)

    ones = np.ones(5)
    assert nb.tangent(f).jvp((X,), (ones,)) == nb.tangent(f).jvp((X, 2.0, 3), (ones, None, None))
    np.testing.assert_array_equal(nb.adjoint(f).hvp((X,), ones)[0], nb.adjoint(f).hvp((X, 2.0), (ones, 0.0))[0])
    with pytest.raises(AttrError, match=r"3 directions expected \(x, y, n\), 1 given"):
        nb.adjoint(f).hvp((X, 2.0), (ones,))
    listed = nb.adjoint(f).hvp((X, 2.0), [ones, 0.0])
    np.testing.assert_array_equal(listed[0], nb.adjoint(f).hvp((X, 2.0), (ones, 0.0))[0])
    agrees(g, (1.5,))


def test_errors_at_the_call():
    def other_mask(a, b):
        return np.sum(a[b > 0])

    def other_values(x, y):
        np.add.at(x, PLACES, y)

    with uncompiled():
        with pytest.raises(IndexError, match="a mask of another length"):
            nb.adjoint(other_mask).vjp(A, A.T.copy())
        with pytest.raises(ValueError, match="another number of values"):
            nb.adjoint(other_values).vjp(X, Y)
