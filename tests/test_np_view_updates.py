"""What is a view in np and what is a copy, and what updates views: operators that write, ``backward``, ``nd``, other
threads, and interrupts."""

import contextlib
import threading

import numpy as onp
import pytest

import nbgrad.np as np
from nbgrad import autograd, nd
from nbgrad.errors import AttrError
from nbgrad.np import assignment

X = onp.array([0.3, 0.7, 1.1, 0.2])


def copied(m, y):
    z = y.reshape((4, 3), copy=True)
    z[0] = 9.0
    w, u = m.choose(0, [y]), m.block(y)
    w[0], u[1] = 5.0, 6.0
    a, _ = m.meshgrid(y[0], y[1], sparse=True)
    a[0] = 3.0
    return y, z, w, u, a


def in_fortran_order(m, y):
    z, v = m.reshape(y, (4, 3), order="F"), m.arange(6.0)
    z[0] = 9.0
    w = v.reshape((2, 3), order="F")
    w[0, 1] = 7.0
    return y, z, v, w, y.flatten("F"), y.ravel("F")


def by_einsum(m, y):
    square = y[:, :3].copy()
    d, t = m.einsum("ii->i", square), m.einsum("ij->ji", y)
    d[:] = 0.0
    t[0] = 5.0
    y[2] = 1.0
    a, b = m.meshgrid(y[0], y[1], sparse=True, copy=False)
    a[0] = 3.0
    y.conj()[1, 1] = 4.0
    return y, square, d, t, a, b, m.einsum("ij->i", y)


def by_flat(m, y):
    y.flat[3], y.T.flat[3] = 100.0, 50.0
    y.flat[[0, 5]] = [7.0, 8.0]
    y.flat[-3:] = 1.0
    y.put([1, 2], [5.0, 6.0])
    y.view()[2, 0] = 3.0
    first, iterator = y.flat[4:6], iter(y.flat)
    return y, first, y.flat[2], next(iterator), next(iterator), m.array([v for v in y.flat])


def into_given(m, y):
    m.add(0.1, 0.2, out=y)
    m.multiply(y[0], 2.0, out=y)
    return y, m.sum(y, axis=0, out=m.zeros(4))


@pytest.mark.parametrize("f", [copied, in_fortran_order, by_einsum, by_flat, into_given])
def test_what_is_a_view_and_what_is_not(f):
    a = onp.arange(12.0).reshape(3, 4)
    for ours, theirs in zip(f(np, np.array(a)), f(onp, a.copy()), strict=True):
        onp.testing.assert_array_equal(ours.asnumpy(), theirs)


def test_orders_and_copies_that_cannot_be():
    y = np.array(onp.ones((2, 3)))
    for order in "AK":
        with pytest.raises(AttrError, match="of a view depends on how NumPy stores it"):
            y.T.ravel(order)
    with pytest.raises(ValueError, match="a copy is needed, which copy=False forbids"):
        y.T.reshape(6, copy=False)
    assert y.reshape(6, copy=False).shape == (6,)


def test_operators_that_write_update_views():
    w = np.ones((2, 2))
    t = w.T
    nd.sgd_update(w, np.ones((2, 2)), lr=0.5, out=w)
    assert t.tolist() == [[0.5, 0.5]] * 2
    b = np.zeros((2, 2))
    column = b[:, 0]
    nd.sgd_update(column, np.ones(2), lr=1.0, out=column)
    assert b.tolist() == [[-1.0, 0.0]] * 2
    statistics = np.zeros((3, 2))
    mean, variance = statistics[:, 0], statistics[:, 1]
    with autograd.train_mode():
        nd.BatchNorm(np.array(onp.arange(12.0).reshape(4, 3)), np.ones(3), np.zeros(3), mean, variance, momentum=0.5)
    assert statistics[:, 0].tolist() == mean.tolist() == [2.25, 2.75, 3.25] and statistics[0, 1].item() > 0


def test_gradients_have_views():
    x, gradients = np.array(X), np.zeros((4, 2))
    backwards = gradients[::-1, 0]
    autograd.mark_variables([x], [gradients[:, 0]])
    for _ in range(2):
        with autograd.record():
            y = np.sum(x * x)
        y.backward()
    onp.testing.assert_allclose(gradients.asnumpy(), onp.stack([2 * X, 0 * X], 1))
    assert backwards.tolist() == gradients[::-1, 0].tolist()


def test_writes_by_nd_reach_views():
    b = np.zeros((2, 3))
    n, columns = b.T.as_nd(), b.T
    n[0, 1] = 7.0
    n += 1.0
    b.as_nd()[1] = 4.0
    assert b.tolist() == [[1, 1, 1], [4, 4, 4]] == columns.T.tolist()


def test_an_interrupted_write_leaves_views_right(monkeypatch):
    a = np.zeros((3, 4))
    v = a.T
    for at in range(6):
        calls = []

        def interrupted(*args, at=at, calls=calls, put=assignment.subscript.setitem):
            calls.append(args)
            if len(calls) == at // 2 + 1 and at % 2 == 0:
                raise KeyboardInterrupt
            put(*args)
            if len(calls) == at // 2 + 1:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(assignment.subscript, "setitem", interrupted)
            with contextlib.suppress(KeyboardInterrupt):
                a[at % 3] = float(at + 1)
        assert v.tolist() == a.T.tolist()


def test_views_made_while_another_thread_writes():
    a, views, done = np.zeros((30, 20)), [], threading.Event()

    def write_rows():
        while not done.is_set():
            for k in range(30):
                a[k] += 1.0

    def make_views():
        views.extend(a.T for _ in range(400))
        done.set()

    threads = [threading.Thread(target=f) for f in (write_rows, make_views)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(v.tolist() == a.T.tolist() for v in views)
