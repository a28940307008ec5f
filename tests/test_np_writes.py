"""Writes into arrays of np while recording: values, gradients and Hessians are those of the program without writes."""

import io

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
        (beside_an_array_of_nd, NBGradError, "is written into memory that an array of nbgrad.nd shares"),
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


def pullback_of_a_written_result(x):
    y = x * 2
    value, pullback = nb.vjp(lambda z: z * z, y)
    value[0] = 5.0
    return np.sum(pullback(np.ones(4))[0])


def pullback_of_a_written_argument(x):
    y = x * 1.0
    _, pullback = nb.vjp(lambda z: (z * z, z[1:]), y)
    y[0] = 9.0
    return np.sum(pullback((np.ones(4), np.ones(3)))[0])


class Square(autograd.Function):
    def forward(self, x):
        self.x = x
        return x * x

    def backward(self, g):
        return g * 2 * self.x


def function_of_a_written_argument(x):
    y = x * 1.0
    z = Square()(y)
    y *= 0.0
    return np.sum(z)


def checkpointed_argument(x):
    y = np.ones(4)
    z = nb.checkpoint(lambda a, b: np.sum(np.where(a > 2, b**3, b**2)))(y, x)
    y[0] = 9.0
    return z


def checkpointed_variable(x):
    y, w = np.ones(4), x * 1.0
    z = nb.checkpoint(lambda b: np.sum(np.where(y > 2, b**3, b**2)) * np.sum(w * b))(x)
    y[:] = x * 9
    w *= 3.0
    return z


def paused_view(x):
    y = x * 1.0
    with autograd.pause():
        v = y[1:]
    v[0] = 5.0
    return np.sum(y * y)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (pullback_of_a_written_result, [4, 4, 4, 4]),
        (pullback_of_a_written_argument, [2, 2, 2, 2]),
        (function_of_a_written_argument, 2 * X),
        (checkpointed_argument, 2 * X),
        (checkpointed_variable, 4 * X * onp.sum(X**2)),
        (paused_view, 2 * X * [1, 0, 1, 1]),
    ],
)
def test_what_keeps_an_array_keeps_its_values(program, expected):
    onp.testing.assert_allclose(nb.grad(program)(X), expected, rtol=1e-14)


class Result(autograd.Function):
    def forward(self, x):
        self.y = np.exp(x)
        return self.y

    def backward(self, g):
        return g * self.y


@pytest.mark.parametrize("write", [lambda z, x: z.__imul__(0.0), lambda z, x: z.__setitem__(0, x[1])])
def test_attributes_of_a_function_must_not_be_written(write):
    def f(x):
        z = Result()(x * 1.0)
        write(z, x)
        return np.sum(z)

    with pytest.raises(nb.errors.InPlaceError, match="that the gradient of operator Result reads was changed in place"):
        nb.grad(f)(X)


GLOBAL = np.array(X)


@pytest.mark.parametrize(
    "write", [lambda w, x: w.fill(7.0), lambda w, x: w.__setitem__(0, x[0]), lambda w, x: w.__imul__(2)]
)
def test_what_a_checkpoint_finds_by_itself_must_not_be_written(write):
    x = np.array(X)
    x.attach_grad()
    try:
        with autograd.record():
            y = nb.checkpoint(lambda x: np.sum(GLOBAL * x))(x)
            write(GLOBAL, x)
        with pytest.raises(nb.errors.InPlaceError, match=r"the gradient of operator checkpoint\(<lambda>\) reads"):
            y.backward()
    finally:
        with autograd.pause():
            GLOBAL[...] = X


def test_checkpoints_of_functions_that_write():
    def f(x):
        b = np.zeros(4)
        b[0] = x[0]
        b[1:] = x[1:] ** 2
        c = b[::-1]
        c *= 2.0
        return np.sum(b * x), b

    def total(f):
        def g(x):
            s, b = f(x)
            b[0] = 5.0
            return s + np.sum(b)

        return g

    onp.testing.assert_allclose(nb.grad(total(nb.checkpoint(f)))(X), nb.grad(total(f))(X), rtol=1e-14)


def test_recorded_values_in_memory_of_other_libraries():
    memory = onp.zeros(4)
    x, y = np.array(X), np.from_dlpack(memory)
    x.attach_grad()
    with autograd.record():
        y[:] = x * 2
        z = np.sum(y * y)
    z.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), 8 * X)
    onp.testing.assert_allclose(memory, 2 * X)


def test_writes_through_many_views():
    """The time is that of the views and elements that are written, not its square."""

    def f(x):
        y, views = np.zeros(120), []
        for i in range(120):
            views.append(y[i : i + 2])
            views[-1][0] = x[i % 4]
        return np.sum(y * y)

    onp.testing.assert_allclose(nb.grad(f)(X), 60 * X)


def test_numbers_are_written_to_files():
    text = io.StringIO()
    onp.savetxt(text, np.array([1.0, 2.0]), fmt="%g")
    assert text.getvalue() == "1\n2\n" and onp.array2string(np.ones(2)) == "[1. 1.]"
    file = io.BytesIO()
    onp.savez(file, a=np.ones(2))
    file.seek(0)
    assert onp.load(file)["a"].tolist() == [1.0, 1.0]
    with pytest.raises(nb.errors.LostGradientError, match="gradients through it would be lost"):
        nb.grad(lambda x: onp.save(io.BytesIO(), x))(X)
    with pytest.raises(ValueError, match="fill: a number is expected, got the shape"):
        np.ones(2).fill(np.ones(2))
    with pytest.raises(IndexError, match="must be of integer or bool dtype"):
        np.ones(2)[onp.array([1.0])] = 2.0
    y = np.ones(3)
    with autograd.record():
        y[True] *= 2.0
    assert y.tolist() == [2.0] * 3
