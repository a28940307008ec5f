"""Writes into arrays of np while recording: values, gradients and Hessians are those of the program without writes."""

import numpy as onp
import pytest

import nbgrad as nb
import nbgrad.np as np
from nbgrad import autograd
from nbgrad.errors import DTypeError, NBGradError, ShapeError

X = onp.array([0.3, 0.7, 1.1, 0.2])


def elements(x):
    y = np.zeros(4)
    y[0] = x[1] ** 2
    y[2] = y[0] * x[2]
    y[3] = 2.0
    y[1:3] = y[1:3] + x[:2] * x[3]
    return y


def masks_and_indices(x):
    y = x * x
    y[y > 0.3] = 0.5 * x[0]
    y[[0, 1]] = y[[1, 0]]
    y += x
    y *= 2
    y[-1] -= x[0]
    return np.sin(y)


def views(x):
    m = np.zeros((3, 4))
    row = m[1]
    row[2] = x[0] * x[1]
    m[0] = x
    row[1] = 5 * x[2]
    flat = m.reshape(12)
    flat[4] = x[3] ** 2
    last = m[2]
    m[1:, 3] = x[:2]
    last[0] = row[2] * flat[0]
    return m**3 + np.sum(row) * flat[5] + np.sum(last)


def recurrence(x):
    y = x * 1.0
    for i in range(1, 4):
        y[i] = y[i - 1] * x[i] + np.sin(y[i])
    return y * y[0]


def read_before(x):
    y = np.zeros(4)
    z = np.sum(y * x)
    y[:] = x
    y[0] = 3.0
    w = y * y
    y[1] = x[0]
    return z + w * x + np.sum(y)


def methods(x):
    y = np.exp(x)
    y.fill(0.5)
    y[1] = x[1]
    y.sort()
    z = np.exp(x)
    np.add(z, x, out=z)
    z /= np.sum(z)
    z[1:].fill(0.25)
    z[:2] = y[:2]
    return y * z * np.arange(4.0)


def matrices(x):
    m = np.outer(x, x)
    m[1:, 0] = x[1:]
    m[np.triu_indices(4)] = 0.0
    v = m[2]
    v *= x[0]
    m[:, 1] += x
    m[3, :] = [x[0], 1.0, x[1] * x[2], 2.0]
    return m * m


PROGRAMS = [elements, masks_and_indices, views, recurrence, read_before, methods, matrices]


def total(f):
    return lambda x: np.sum(f(x) ** 2)


def differences(f, x, h=1e-6):
    steps = h * onp.eye(len(x))
    return onp.array([(onp.asarray(f(x + s)) - onp.asarray(f(x - s))) / (2 * h) for s in steps])


@pytest.mark.parametrize("program", PROGRAMS)
def test_derivatives(program):
    f = total(program)
    value = lambda x: float(f(np.array(x)))  # noqa: E731
    gradient = nb.grad(f)
    onp.testing.assert_allclose(gradient(X), differences(value, X), rtol=1e-6, atol=1e-8)
    onp.testing.assert_allclose(nb.hessian(f)(X), differences(gradient, X), rtol=1e-5, atol=1e-7)
    assert nb.value_and_grad(f)(X)[0] == pytest.approx(value(X), rel=1e-14)


@pytest.mark.parametrize("program", PROGRAMS)
def test_by_backward_and_forward(program):
    x = np.array(X)
    x.attach_grad()
    with autograd.record():
        y = total(program)(x)
    y.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), nb.grad(total(program))(X), rtol=1e-14)
    tangent = onp.array([1.0, -2.0, 0.5, 3.0])
    forward = nb.jvp(total(program), (X,), (tangent,))[1]
    assert float(forward) == pytest.approx(onp.dot(x.grad.asnumpy(), tangent), rel=1e-12)


def test_what_was_recorded_before_keeps_its_values():
    x = np.array(X)
    x.attach_grad()
    with autograd.record():
        y = x * x
        s = np.sum(y * y)
        y[0] = 7.0
        s = s + np.sum(y)
    s.backward()
    expected = 4 * X**3 + 2 * X * (onp.arange(4) > 0)
    onp.testing.assert_allclose(x.grad.asnumpy(), expected)
    assert y[0].item() == 7.0


def marked(x, z):
    x[0] = 5.0


def view_of_marked(x, z):
    x[1:][0] = z[0]


def out_of_range(x, z):
    z[5] = x[0]


def other_shape(x, z):
    z[:] = x[:2]


def into_integers(x, z):
    np.zeros(4, dtype=int)[0] = x[0]


def in_place_into_integers(x, z):
    k = np.zeros(4, dtype=int)
    k += x


def beside_an_array_of_nd(x, z):
    other = z.as_nd()
    z[0] = x[0]
    assert other is not None


def memory_of_numpy(x, z):
    np.from_dlpack(onp.zeros(4))[0] = x[0]


@pytest.mark.parametrize(
    ("write", "error", "message"),
    [
        (marked, NBGradError, "already in a computational graph"),
        (view_of_marked, NBGradError, "already in a computational graph"),
        (out_of_range, IndexError, "out of bounds"),
        (other_shape, ShapeError, "do not broadcast"),
        (into_integers, DTypeError, "cannot be stored in an array of int64"),
        (in_place_into_integers, DTypeError, "cannot be stored in an array of int64"),
        (beside_an_array_of_nd, NBGradError, "is written into memory that another array reads"),
        (memory_of_numpy, NBGradError, "Another library may have this memory"),
    ],
)
def test_refused_writes_change_nothing(write, error, message):
    x = np.array(X)
    x.attach_grad()
    with autograd.record():
        z = x * 2 if write in (out_of_range, other_shape) else np.ones(4)
        before = z.detach().copy()
        with pytest.raises(error, match=message):
            write(x, z)
        assert autograd.is_recording()
        onp.testing.assert_array_equal(z.detach().asnumpy(), before.asnumpy())
        onp.testing.assert_array_equal(x.detach().asnumpy(), X)
        y = np.sum(x * x)
    y.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 * X)


@pytest.mark.parametrize("seed", range(40))
def test_random_writes_and_views(seed):
    """Programs of writes through views of one memory, beside what is computed from them in between."""
    rng = onp.random.default_rng(seed)
    steps = [(rng.integers(6), rng.integers(3), rng.integers(3), rng.integers(4)) for _ in range(8)]

    def f(x, np=np):
        m = np.zeros((3, 4))
        m = m + 0.0 * x[0] if seed % 2 else m
        arrays = [m, m[1], m.reshape(12), m[1:], m[2]]
        s = 0.0
        for kind, which, row, column in steps:
            a = arrays[(which * 2 + row) % 5]
            at = (row % a.shape[0],) if a.ndim == 1 else (row % a.shape[0], column)
            if kind == 0:
                a[at] = x[column] * s + x[row]
            elif kind == 1:
                a *= np.cos(x[row])
            elif kind == 2:
                a[-2:] = np.sin(a[-2:] + x[column])
            elif kind == 3:
                a += 0.5 * x[column]
            elif kind == 4:
                a[at] = 1.5
            else:
                arrays.append(a[:2] if a.ndim == 1 else a[0])
                arrays[row] = arrays[-1]
            s = s + np.sum(a * a) * 0.1
        return s + np.sum(m * m)

    def by_numpy(x):
        return float(f(x, onp))

    onp.testing.assert_allclose(nb.grad(f)(X), differences(by_numpy, X), rtol=2e-5, atol=1e-7)


def write_an_element(x):
    x[0] = 1.0
    return np.sum(x * x)


def write_a_view(x):
    y = x.reshape(4, 1)
    y[0] = 1.0
    return np.sum(x * x)


def add_in_place(x):
    x += 1
    return np.sum(x * x)


def scale_a_part(x):
    y = x[1:]
    y *= 2
    return np.sum(x * x)


@pytest.mark.parametrize("transform", [nb.grad, nb.hessian, lambda f: lambda x: nb.jvp(f, (x,), (x,))])
@pytest.mark.parametrize("f", [write_an_element, write_a_view, add_in_place, scale_a_part])
@pytest.mark.parametrize("made", [onp.array, np.array])
def test_arguments_of_functions_that_are_differentiated_are_not_written(made, f, transform):
    x = made(X)
    with pytest.raises(NBGradError, match="already in a computational graph"):
        transform(f)(x)
    onp.testing.assert_array_equal(onp.asarray(x), X)
