"""Axes of length 1: they broadcast where they do in NumPy, and nowhere else."""

import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled
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
