"""Cotangents are changed in place and become gradients where nobody else has their memory, and only there."""

import numpy as np
from recording import marked

from nbgrad import autograd, nd
from nbgrad.backends.buffer_pool import LARGE, Pool, extend_in_place, rounded


def test_views_of_a_gradient_see_every_backward():
    """A gradient may get other memory, but not while anything else is on the old one."""
    x = marked(np.arange(6.0))

    def step(factor):
        with autograd.record():
            y = nd.sin(x) * factor
        y.backward()
        return factor * np.cos(np.arange(6.0))

    same = x.grad
    expected = step(2.0)
    np.testing.assert_allclose(same.asnumpy(), expected)
    assert x.grad is same
    shared = np.from_dlpack(x.grad)
    expected = step(3.0)
    np.testing.assert_allclose(shared, expected)
    y = marked(np.arange(6.0))
    views = [y.grad[1:3], y.grad.reshape((2, 3)), y.grad.detach()]
    with autograd.record():
        z = y * y
    z.backward()
    for view, expected in zip(views, ([2.0, 4.0], 2 * np.arange(6.0).reshape(2, 3), 2 * np.arange(6.0)), strict=True):
        np.testing.assert_array_equal(view.asnumpy(), expected)


def test_what_a_rule_shares_is_not_written_by_others():
    """Cotangents are changed in place where one node alone has them: sums, reshapes and repeated operands."""
    x = marked(np.linspace(0.1, 0.6, 6))
    w = marked(np.linspace(1.0, 2.0, 6))
    with autograd.record():
        a = x + w
        b = a.reshape((2, 3))
        c = nd.exp(b) + nd.sin(b) + b
        d = (c.reshape((6,)) + a) * a
        e = d - x + (d + a)
        total = (e + e.reshape((2, 3)).reshape((6,))).sum()
    expected = autograd.grad(total, [x, w], create_graph=True)
    total.backward()
    for v, g in zip((x, w), expected, strict=True):
        np.testing.assert_allclose(v.grad.asnumpy(), g.asnumpy(), rtol=1e-14)


def test_the_gradient_of_a_beginning_may_be_the_beginning_of_the_gradient():
    """``x[:-1]`` of a large array: its cotangent grows in its own memory, if that is nobody else's."""
    values = np.linspace(0.5, 1.5, LARGE + 100)
    for n in (1, 50, LARGE + 99):
        x, y = marked(values), marked(values)
        with autograd.record():
            head = nd.exp(x)[:-n]
            z = nd.sum(head * y[n:]) + nd.sum(x[:-n]) + nd.sum(nd.sin(y)[:-n])
        (kept,) = autograd.grad(z, [head], retain_graph=True)
        z.backward()
        gx, gy = np.zeros_like(values), np.zeros_like(values)
        gx[:-n] = np.exp(values[:-n]) * values[n:] + 1
        gy[n:] += np.exp(values[:-n])
        gy[:-n] += np.cos(values[:-n])
        np.testing.assert_allclose(x.grad.asnumpy(), gx, rtol=1e-14)
        np.testing.assert_allclose(y.grad.asnumpy(), gy, rtol=1e-14)
        np.testing.assert_array_equal(kept.asnumpy(), values[n:])


def test_a_buffer_grows_only_where_nobody_else_has_its_memory():
    pool = Pool(1 << 24)
    buf = pool.lend(10000, np.dtype(np.float64))
    room = rounded(buf.nbytes) // 8
    assert extend_in_place(buf, room).ctypes.data == buf.ctypes.data
    assert extend_in_place(buf, room + 1) is None
    assert extend_in_place(np.empty(10), 10) is None
    part = buf[1:]
    assert extend_in_place(part, 10000) is None
    assert extend_in_place(buf, 10000) is None
    del part
    assert extend_in_place(buf, room).size == room
