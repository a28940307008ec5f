"""Axes of length 1: they broadcast where they do in NumPy, and nowhere else."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, uncompiled
from programs.data import normal

import nbgrad as nb

X = normal(3)


def outer_column(x, a):
    n = x.size
    b = np.empty((n, 1))
    for i in range(n):
        b[i, 0] = x[i] * a
    return np.sum(b * np.ones((n, 4)) * x[:, None] + b)


def shape_in_a_name(x, a):
    shape = (x.size, 1)
    b = np.zeros(shape)
    b[:, 0] = x * x
    c = np.ones((1, x.size)) * a
    return np.sum((b * c) ** 2) + np.sum(b.T * x)


def made_in_a_loop(x, a):
    s = 0.0
    for t in range(3):
        b = np.ones((x.size, 1)) * a * (t + 1)
        c = b * x
        s += np.sum(c[t]) * np.sum(b)
    return s


def overwritten(x, a):
    b = np.full((1,), a)
    y = x * b
    b[0] = 3.0
    y += b * x
    return np.sum(y * x)


def assigned(x, a):
    b = np.zeros(1)
    b += x[:1] * a
    z = np.zeros(3)
    z[:] = b
    z[1:] += b
    return np.sum(z * x) + b.sum() + b.mean() + b.max() * np.std(x * b)


def deviations(x, a):
    m = np.mean(x[:, None] * np.ones((3, 2)), axis=0, keepdims=True)
    return np.sum((x[:, None] - m) ** 2) * a


def stacks(x, a):
    return np.sum((np.ones((1, 2, 3)) @ (x[:, None] * np.ones((4, 3, 2)) * a)) ** 2)


@pytest.mark.parametrize(
    "f", [outer_column, shape_in_a_name, made_in_a_loop, overwritten, assigned, deviations, stacks]
)
def test_broadcasting(f):
    check_derivatives(f, X, 0.7, compiled=f not in (deviations, stacks))  # which Numba refuses


DIFFERENT = """\
np.dot(x, np.ones(1))
np.dot(np.ones(1), x)
x @ np.ones(1)
np.vdot(np.ones(1), x)
np.inner(x, np.ones(1))
np.inner(np.ones(1), x)
(np.ones((2, 3)) @ x[None, :])[0, 0]
(x[:, None] @ x[:, None])[0, 0]
np.matmul(np.ones((2, 3)), x[None, :])[0, 0]
(np.ones((2, 3)) @ np.ones(1))[0] * x[0]
(np.ones((2, 2, 3)) @ x[None, None, :])[0, 0, 0]
(np.ones(1) @ x[:, None])[0]
np.cov(np.ones(1), x)[0, 1]
np.corrcoef(x, np.ones(1))[0, 1]
np.average(x, weights=np.ones(1))
np.average(x[None, :], weights=np.ones((3, 1)))
np.stack((x, np.ones(1)))[0, 0]
np.column_stack((np.ones(1), x))[0, 0]
np.trapezoid(np.ones(1), x)
np.interp(0.5, x, np.ones(1))
np.linalg.solve(np.eye(3), np.ones(1))[0] * x[0]
np.bincount(np.zeros(3, np.int64), np.ones(1))[0] * x[0]""".splitlines()


@pytest.mark.parametrize("body", DIFFERENT)
def test_where_they_do_not_broadcast(body, tmp_path):
    path = tmp_path / "different.py"
    path.write_text(f"import numpy as np\ndef f(x):\n    return {body}\n", encoding="utf-8")
    names = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    with pytest.raises((ValueError, TypeError)):
        names["f"](X)
    with uncompiled(), pytest.raises(ValueError, match=r"length|shape|square"):
        nb.adjoint(names["f"]).value_and_grad(X)


def test_arrays_of_other_shapes_are_not_equal():
    def same(x, y):
        return np.array_equal(x[None, :], y[:, None]) + 2.0 * np.array_equal(x, y)

    with uncompiled():
        assert nb.adjoint(same).vjp(np.ones(3), np.ones(3)).value == 2


def test_targets_of_length_1():
    def assigned(x):
        b = np.zeros(1)
        b[:] = x
        return b[0]

    def added(x):
        b = np.zeros(1)
        b += x
        return b[0]

    for f in (assigned, added):
        with uncompiled(), pytest.raises(ValueError, match="different lengths"):
            nb.adjoint(f).value_and_grad(X)


def product_of(a, b):
    return (a * b).sum()


def three(a, b, c):
    y = a * b
    y = y + c
    return np.sum(np.exp(-y * y))


def distances(x, y):
    s = 0.0
    for t in range(3):
        s += np.sum((x - y * t) ** 2)
    return s


def filled(x, y):
    z = np.zeros_like(y)
    z[:] = x
    z[1:] += x * y[1:]
    return z @ z


def selected(x, y):
    return np.where(y > 0, x, y * y).sum() + np.maximum(x, y).sum()


def normalized(x, m):
    return np.sum(m / np.sum(m * m, axis=1, keepdims=True) * x)


def lengths(x, y):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * np.sum(x * y)
    return s + len(x) + x.size


def dotted(x, y):
    return np.dot(x, y)


SHAPES = {
    product_of: [((3, 1), (3, 4)), ((1, 4), (3, 1)), ((1, 1), (1, 1)), ((3, 4), (3, 4)), ((3,), (1,)), ((4,), (1, 4))],
    three: [((3, 1), (3, 4), (1, 1)), ((3, 1), (1, 4), (4,)), ((1, 4), (1, 4), (3, 4)), ((3, 4), (3, 4), (1,))],
    distances: [((3,), (1,)), ((1,), (3,)), ((1,), (1,)), ((3,), (3,))],
    filled: [((1,), (4,)), ((1,), (2,)), ((1,), (1,))],
    selected: [((1,), (4,)), ((4,), (1,)), ((4,), (4,)), ((1,), (1,))],
    normalized: [((1,), (3, 4)), ((4,), (3, 1)), ((4,), (1, 4)), ((1,), (1, 1))],
    lengths: [((1,), (2,)), ((2,), (1,)), ((3,), (3,)), ((1,), (1,))],
}


@pytest.mark.parametrize(("f", "shapes"), [(f, s) for f, several in SHAPES.items() for s in several])
def test_axes_of_arguments_broadcast(f, shapes):
    check_derivatives(f, *(normal(*s) for s in shapes), compiled=False)


@pytest.mark.parametrize("f", [*SHAPES, dotted])
def test_one_adjoint_for_all_lengths(f):
    """Whatever was called before, results and errors are those of NumPy."""
    adj = nb.adjoint(f)
    known = SHAPES.get(f, [((1,), (3,)), ((3,), (3,)), ((1,), (1,))])
    wrong = [tuple([tuple([n + 3 * (n > 1 and k == 0) for n in s]) for k, s in enumerate(shapes)]) for shapes in known]
    for shapes in [*known, *wrong, *known[::-1]]:
        args = [normal(*s) for s in shapes]
        try:
            value = f(*args)
        except ValueError:
            with pytest.raises(ValueError, match="length"):
                adj.value_and_grad(*args)
        else:
            assert adj.value_and_grad(*args)[0] == pytest.approx(value, rel=1e-12)
            assert adj.vjp(*args).value == pytest.approx(value, rel=1e-12)


def test_compiled_code_checks_the_length():
    entry = nb.adjoint(product_of).compiled(np.ones(1), np.ones(3))
    assert entry(np.full(1, 2.0), np.ones(3), 1.0, np.zeros(1), np.zeros(3))[0] == 6
    with pytest.raises(ValueError, match="axis 0 of a must have length 1"):
        entry(np.ones(3), np.ones(3), 1.0, np.zeros(3), np.zeros(3))


def test_updates_in_place():
    def added(x, y):
        x += y
        return np.sum(x * x)

    adj = nb.adjoint(added)
    x, y = normal(3), normal(1)
    total = x + y
    value, (x_bar, y_bar) = adj.value_and_grad(x, y)
    np.testing.assert_array_equal(x, total)
    assert value == pytest.approx(total @ total)
    np.testing.assert_allclose(x_bar, 2 * total)
    np.testing.assert_allclose(y_bar, [2 * total.sum()])
    before = y.copy()
    with pytest.raises(ValueError, match="different lengths"):
        adj.value_and_grad(y, x)
    np.testing.assert_array_equal(y, before)


def eliminated(a):
    for k in range(a.shape[0] - 1):
        a[k + 1 :, k : k + 1] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k : k + 1] * a[k : k + 1, k + 1 :]
    return np.sum(a * a)


def around_each(a, x):
    total = 0.0
    for k in range(a.shape[1]):
        total += np.sum((a - a[:, k : k + 1]) ** 2 * a[k : k + 1]) + np.sum(x * x[k : k + 1])
        a[:, k : k + 1] = a[:, k : k + 1] * x[k : k + 1] + x[k]
        total += np.sum(np.where(a[k : k + 1] > 0.0, a, a[:, k : k + 1] + 1.0))
    return total


def past_the_end(a, x):
    total = 0.0
    for k in range(x.size + 2):
        total += np.sum(x[k : k + 1] ** 2) + np.sum(a[k : k + 1, 0])
    return total


def of_no_row(a, x):
    total = 0.0
    for k in range(a.shape[0] + 1):
        total += np.sum(a[k : k + 1] * a)
    return total + x[0]


def test_one_element_at_a_counter():
    rng = np.random.default_rng(4)
    a, x = rng.normal(size=(4, 4)) + 4.0 * np.eye(4), rng.normal(size=4)
    with uncompiled():
        assert agrees(eliminated, (a,))
        assert agrees(around_each, (a, x))
        assert agrees(past_the_end, (a, x))
        with pytest.raises(ValueError, match="broadcast"):
            of_no_row(a, x)
        with pytest.raises(ValueError, match="arrays of different lengths"):
            nb.adjoint(of_no_row).value_and_grad(a, x)
