"""Views of np, whether memory is shared or not: values and gradients are those of NumPy's programs."""

import random
import re

import numpy as onp
import pytest
from test_np_functions import ARRAYS, CALLS, INTEGERS

import nbgrad as nb
import nbgrad.np as np
from nbgrad import autograd
from nbgrad.errors import NBGradError

X = onp.array([0.3, 0.7, 1.1, 0.2])


def a_slice(r, n):
    start, stop = sorted((r.randint(0, n), r.randint(0, n)))
    step = r.choice([1, 1, 2, -1, -2])
    return slice(start, stop, step) if step > 0 else slice(stop, start - 1 if start else None, step)


def basic_key(r, shape):
    key = []
    for n in shape[: r.randint(1, max(1, len(shape)))]:
        key.append(r.choice([r.randrange(n), a_slice(r, n), slice(None), slice(None)]) if n else slice(None))
    if r.random() < 0.2:
        key.insert(r.randint(0, len(key)), None)
    return tuple(key)


def some_key(r, m, shape):
    """A key that selects elements, each once."""
    if not shape or r.random() < 0.6:
        return basic_key(r, shape) if shape else ...
    if r.random() < 0.5:
        rng = onp.random.default_rng(r.randrange(1000))
        return rng.random(shape) < 0.5
    places = list(range(shape[0]))
    r.shuffle(places)
    return places[: r.randint(0, len(places))] or slice(0)


def viewed(r, m, y):
    """A view of `y`, or a copy where NumPy copies."""
    ways = ["T", "slice", "slice", "slice", "ravel", "flip", "newaxis", "reshape", "swapaxes", "split", "squeeze"]
    way = r.choice(ways)
    if way == "slice" and y.ndim:
        return y[basic_key(r, y.shape)]
    if way == "flip" and y.ndim:
        return m.flip(y, r.randrange(y.ndim))
    if way == "reshape" and y.size:
        n = r.choice([k for k in range(1, y.size + 1) if y.size % k == 0])
        return y.reshape(n, -1)
    if way == "swapaxes" and y.ndim > 1:
        return m.swapaxes(y, 0, -1)
    if way == "split" and y.ndim and y.shape[-1] > 1:
        return m.array_split(y, 2, axis=-1)[r.randrange(2)]
    return {"T": lambda: y.T, "ravel": lambda: m.ravel(y), "newaxis": lambda: y[..., None]}.get(way, y.squeeze)()


def write(r, m, y, x):
    key = some_key(r, m, y.shape)
    way = r.randrange(6)
    selected = y[key]
    shape = onp.shape(selected)
    if way == 0:
        y[key] = r.choice([0.5, -1.0])
    elif way == 1:
        y[key] = x[r.randrange(4)] * x[r.randrange(4)]
    elif way == 2:
        y[key] = m.sin(selected) * x[0] if shape else m.sin(y[key]) * x[1]
    elif way == 3 and y.ndim:
        y *= x[r.randrange(4)]
    elif way == 4 and y.ndim:
        m.add(y, x[1], out=y)
    else:
        y[key] += m.broadcast_to(x[:1], shape) if shape else x[2]


def program(seed, m, x, steps):
    """All arrays of a random program after its last step, and what was read on the way."""
    r = random.Random(seed)
    base = m.zeros((3, 4)) if r.random() < 0.3 else m.outer(x[:3], x)
    arrays, read = [base, m.zeros(6)], []
    for _ in range(steps):
        y = r.choice(arrays)
        what = r.random()
        if what < 0.4:
            y = viewed(r, m, y)
            if onp.shape(y) and y.size:
                arrays.append(y)
        elif what < 0.85:
            write(r, m, y, x)
        else:
            read.append(m.sum(y * y))
    return arrays, read


def value(seed, m, x, steps):
    arrays, read = program(seed, m, x, steps)
    return sum(m.sum(y**2 * (k + 1)) for k, y in enumerate(arrays)) + sum(read)


@pytest.mark.parametrize("seed", range(60))
def test_values_are_numpys(seed):
    ours, theirs = program(seed, np, np.array(X), 16), program(seed, onp, X, 16)
    for a, b in zip(ours[0] + ours[1], theirs[0] + theirs[1], strict=True):
        onp.testing.assert_allclose(onp.asarray(a), b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("seed", range(60))
def test_gradients_are_those_of_differences(seed):
    steps, h = 12, 1e-6
    found, gradient = nb.value_and_grad(lambda x: value(seed, np, x, steps))(X)
    expected = [(value(seed, onp, X + s, steps) - value(seed, onp, X - s, steps)) / (2 * h) for s in h * onp.eye(4)]
    assert found == pytest.approx(value(seed, onp, X, steps), rel=1e-12)
    onp.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("seed", range(12))
def test_hessians_are_those_of_gradients(seed):
    gradient = nb.grad(lambda x: value(seed, np, x, 8))
    hessian = nb.hessian(lambda x: value(seed, np, x, 8))(X)
    expected = [(gradient(X + s) - gradient(X - s)) / 2e-6 for s in 1e-6 * onp.eye(4)]
    onp.testing.assert_allclose(hessian, expected, rtol=1e-4, atol=1e-6)


def numbers(m, x):
    """What single elements are: numbers, which don't change with the array."""
    y = x * 1.0
    y[0], y[1] = y[1], y[0]
    before = y[2]
    y[2] = before * y[0] + 5.0
    total = m.sum(y)
    kept = total
    total += y[3]
    for k in range(1, 4):  # insertion sort
        value, j = y[k], k - 1
        while j >= 0 and y[j] > value:
            y[j + 1] = y[j]
            j -= 1
        y[j + 1] = value
    return m.sum(y * m.arange(4.0)) * kept + before * total


def made_once(m, x):
    """Views made before a loop that changes what they are of."""
    u = m.outer(x, x)
    left, right, inner = u[:, :-2], u[:, 2:], u[:, 1:-1]
    for _ in range(3):
        inner[...] = inner + 0.1 * (left - 2 * inner + right)
        u[0] = u[1]
    return m.sum(u**2)


def buffers(m, x):
    """Constants that are read by products and then written."""
    work, ones = m.ones(4), m.ones((2, 4))
    z = work * x
    work[0] = 3.0
    z = z + work * x**2
    work.fill(2.0)
    work += 1.0
    z = z * work
    m.multiply(work, 2.0, out=work)
    row = ones[1]
    z = z + row * x
    row *= 3.0
    return m.sum(z * work) + m.sum(ones * x)


def with_functions(m, x):
    a, b = m.zeros((4, 4)), x * 2.0
    m.fill_diagonal(a, x)
    m.put(a, [1, -2], [x[0] * x[1], x[2]])
    m.copyto(a[2], x, where=onp.array([True, False, False, True]))
    m.place(b, onp.array([False, True, True, False]), x[3:])
    m.putmask(a, onp.eye(4, k=1) > 0, x**2)
    m.put_along_axis(a, onp.array([[0], [1], [0], [3]]), x[:, None], 1)
    m.add.at(b, [0, 0, 3], x[:3])
    m.subtract.at(b, [1, 1], x[0])
    m.multiply.at(b, [2, 0], x[1:3])
    m.negative.at(b, [1])
    m.nan_to_num(b, copy=False)
    return m.sum(a**2) + m.sum(b**3)


@pytest.mark.parametrize("f", [numbers, made_once, buffers, with_functions])
def test_programs(f):
    found, gradient = nb.value_and_grad(lambda x: f(np, x))(X)
    expected = [(f(onp, X + s) - f(onp, X - s)) / 2e-6 for s in 1e-6 * onp.eye(4)]
    assert found == pytest.approx(f(onp, X), rel=1e-13) == float(f(np, np.array(X)))
    onp.testing.assert_allclose(gradient, expected, rtol=1e-6)
    change = nb.hessian(lambda x: f(np, x))(X)
    step = 1e-6 * onp.eye(4)[0]
    second = (nb.grad(lambda x: f(np, x))(X + step) - nb.grad(lambda x: f(np, x))(X - step)) / 2e-6
    onp.testing.assert_allclose(change[0], second, rtol=1e-5, atol=1e-8)


DETACHED = [
    (lambda y, d, x: d.__setitem__(0, 7.0), [0, 4, 6], [0, 0, 0]),
    (lambda y, d, x: y.__setitem__(0, 2 * x[0]), [8, 4, 6], [2, 0, 0]),
    (lambda y, d, x: (y.__setitem__(0, 2 * x[0]), d.__setitem__(1, 3 * x[2])), [8, 0, 60], [2, 0, 3]),
    (lambda y, d, x: d.__setitem__(slice(1, 3), 0.0), [2, 0, 0], [0, 0, 0]),
]


@pytest.mark.parametrize(("write", "of_array", "of_detached"), DETACHED)
def test_elements_that_are_not_written_keep_their_history(write, of_array, of_detached):
    x = onp.array([1.0, 2.0, 3.0])
    for way in (lambda y: y.detach(), lambda y: y.detach()[::-1][::-1]):
        for which, expected in (("y", of_array), ("d", of_detached)):

            def f(x):
                y = x * 1.0
                d = way(y)  # noqa: B023
                write(y, d, x)
                return np.sum(y * y) if which == "y" else np.sum(d)  # noqa: B023

            onp.testing.assert_allclose(nb.grad(f)(x), expected)


def test_a_buffer_that_is_overwritten_has_no_history():
    buffer = np.zeros(4)
    column = np.zeros((4, 2))[:, 0]
    for _ in range(3):
        buffer[:] = 0.0
        column[...] = 0.0
        x = np.array(X)
        x.attach_grad()
        with autograd.record():
            buffer[0] = x[0]
            column[1] = x[1]
            buffer.fill(1.0)
            y = np.sum(buffer * column)
            buffer[:] = x
            y = y + np.sum(buffer * buffer)
        y.backward()
        onp.testing.assert_allclose(x.grad.asnumpy(), 2 * X + [0, 1, 0, 0])


def test_numbers_are_bound_anew_and_variables_are_written():
    total = np.sum(np.array(X))
    kept = total
    total += 5.0
    assert float(total) == pytest.approx(7.3) and float(kept) == pytest.approx(2.3)
    w = np.array(3.0)
    w.attach_grad()
    with autograd.record():
        y = w * w
    y.backward()
    held = w
    w -= 0.1 * w.grad
    assert held is w and float(w) == pytest.approx(2.4)
    w.grad += 1.0
    assert float(w.grad) == 7.0
    m = np.zeros((2, 2))
    element = m[..., 0, 1]
    element += 2.0
    assert m[0, 1].item() == 2.0


def test_gradient_buffers_are_written_in_place():
    x = np.array(X)
    x.attach_grad()
    held = x.grad
    x.grad += 1.0
    x.grad *= 0.5
    assert held is x.grad and held.tolist() == [0.5] * 4
    with pytest.raises(AttributeError, match=r"write x\.grad\[:\] = y"):
        x.grad = np.zeros(4)


@pytest.mark.parametrize(
    "way",
    [lambda x: np.broadcast_to(x, (2, 4)), lambda x: np.diag(np.outer(x, x)), lambda x: np.broadcast_to(x, (2, 4))[1]],
)
def test_read_only(way):
    x = np.array(X)
    y = way(x)
    before = y.tolist()
    for write in (lambda: y.__setitem__(0, 1.0), lambda: y.__imul__(2.0), lambda: np.add(y, 1.0, out=y)):
        with pytest.raises(ValueError, match="assignment destination is read-only"):
            write()
    assert y.tolist() == before and x.tolist() == X.tolist()
    y.copy()[0] = 1.0


def test_views_of_variables_are_not_written_while_recording():
    x = np.array(X)
    x.attach_grad()
    with autograd.record():
        y = x[::-1]
        with pytest.raises(NBGradError, match="shares memory with one of shape"):
            y[0] = 1.0
        loss = np.sum(y * y)
    loss.backward()
    onp.testing.assert_allclose(x.grad.asnumpy(), 2 * X)
    y[0] = 9.0  # not while recording
    assert x[-1].item() == 9.0


def test_a_copy_is_a_copy_where_numpy_copies():
    y = np.array(onp.arange(6.0).reshape(2, 3))
    for copy in (y.T.ravel(), y.T.reshape(6), y[:, ::2].flatten(), y[[0, 1]], y[y > 1], y[:, 1].copy(), np.array(y.T)):
        copy[...] = -1.0
    y.T.reshape(3, 2, 1)[0, 1] = 8.0
    assert y.tolist() == [[0, 1, 2], [8, 4, 5]]


def test_views_hold_memory_no_longer_than_they_are_used():
    import gc
    import weakref

    y = np.zeros((3, 3))
    columns = [y[:, k] for k in range(3)]
    dead = weakref.ref(columns[0])
    for _ in range(200):
        y[:, 1]
    assert len(y._copies) < 60
    del columns
    gc.collect()
    assert dead() is None
    held = weakref.ref(y)
    column = y[:, 0]
    del y
    gc.collect()
    assert held() is not None  # as a view of NumPy has its base
    del column
    gc.collect()
    assert held() is None


MORE = [
    "x[:, 1]", "x[::2, ::-1]", "x[1]", "x[1:]", "x[...]", "x[None]", "x.T", "t.mT", "x.T[1]", "x.T.ravel()",
    "x[:, 1:].reshape(-1)", "x[::-1].reshape(4, 3)", "t[0].T.reshape(-1)", "np.full((3, 4), x)", "np.full_like(x, y)",
    "np.real(x)", "np.array(x)", "np.asarray(x)", "np.diag(m)", "np.diagonal(m)", "np.clip(x, -9, 9)",
    "x.astype(float)", "x.copy()", "x.flatten()", "x[[0, 1]]", "x[x > 0]", "np.where(x > 9, x, x)",
    "np.broadcast_arrays(x, y)", "np.split(t, 2)", "np.array_split(x.T, 3)", "np.nan_to_num(x)",
    "np.squeeze(x[:, None])", "x.swapaxes(0, 1)[0]", "np.rot90(m, 2)", "np.linalg.diagonal(m)", "+x",
    "np.atleast_2d(v)", "np.atleast_3d(v)[0]", "np.matrix_transpose(t)", "np.unstack(x, axis=1)", "np.hsplit(x, 2)",
    "np.pad(x, 0)", "np.tile(x, 1)", "np.repeat(x, 1, axis=0)",
]  # fmt: skip


@pytest.mark.parametrize("call", [*CALLS, *MORE])
def test_what_is_a_view_is_one_in_numpy(call):
    """A change of an argument is seen in the result, and one of the result in the argument, if NumPy has a view."""
    given = {n: a for n, a in (ARRAYS | INTEGERS).items() if re.search(rf"\b{n}\b", call)}

    def evaluated(m):
        arrays = {n: m.array(a) for n, a in given.items()}
        found = eval(call, {"np": m, **arrays})
        found = found if isinstance(found, tuple | list) else [found]
        return arrays, [y for y in found if isinstance(y, np.ndarray | onp.ndarray) and onp.shape(y)]

    (ours, results), (theirs, expected) = evaluated(np), evaluated(onp)
    for name, array in given.items():
        if array.ndim and array.dtype == float:
            ours[name][...] = ours[name] + 1.0
            theirs[name][...] += 1.0
    for a, b in zip(results, expected, strict=True):
        onp.testing.assert_allclose(onp.asarray(a), b, rtol=1e-10)
    (ours, results), (theirs, expected) = evaluated(np), evaluated(onp)
    for a, b in zip(results, expected, strict=True):
        if b.flags.writeable:
            a[...] = b[...] = 3
        else:
            with pytest.raises(ValueError, match="read-only"):
                a[...] = 3
    for name, array in ours.items():
        onp.testing.assert_allclose(onp.asarray(array), theirs[name], rtol=1e-10)
