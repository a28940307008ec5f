"""Writing into arrays: views, what recording refuses, and the error instead of a wrong gradient."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd

IN_GRAPH = "Assigning to NDArrays that are already in a computational graph"
IN_PLACE = r"Inplace operations \(\+=, -=, x\[:\]=, etc\) are not supported when recording with autograd\."


def marked(values, dtype="float64"):
    x = nd.array(values, dtype=dtype)
    x.attach_grad()
    return x


def values(x):
    return x.asnumpy().tolist()


def iadd(x, y):
    x += y


def imul(x, y):
    x *= y


def set_all(x, y):
    x[:] = y


def set_some(x, y):
    x[0:1] = y


def set_one(x, y):
    x[0] = y


def out(x, y):
    nd.exp(y if isinstance(y, nb.NDArray) else nd.ones(2, dtype="float64"), out=x)


WRITES = [iadd, imul, set_all, set_some, set_one, out]


@pytest.mark.parametrize("write", WRITES)
def test_a_target_in_a_graph_is_refused_while_recording(write):
    x = marked([1.0, 2])
    with autograd.record():
        y = x * x
        for target in (x, y, y[0:2], x.reshape((2,))):
            for source in (5.0, x) if write not in (set_some, set_one) else (5.0, x[0:1]):
                before, node = values(target), target._node
                with pytest.raises(nb.MXNetError, match=IN_GRAPH):
                    write(target, source)
                assert values(target) == before and target._node is node
                assert autograd.is_recording()
    y.backward()
    assert values(x.grad) == [2, 4]


@pytest.mark.parametrize("write", [iadd, imul, set_some, set_one])
def test_a_recorded_source_is_refused_for_part_of_an_array(write):
    x = marked([1.0, 2])
    target = nd.zeros(2, dtype="float64")
    with autograd.record():
        with pytest.raises(nb.MXNetError, match=IN_PLACE):
            write(target, x if write in (iadd, imul) else x[0:1])
        with pytest.raises(nb.MXNetError, match=IN_PLACE):
            target[nd.array([0], dtype="int32")] = x[1:2]
    assert values(target) == [0, 0] and target._node is None


@pytest.mark.parametrize("write", WRITES)
def test_what_is_in_no_graph_may_be_written_while_recording(write):
    target = nd.zeros(2, dtype="float64")
    with autograd.record():
        write(target, 3.0)
        write(target, nd.ones(1 if write in (set_some, set_one) else 2, dtype="float64"))


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("scope", [autograd.pause, autograd.predict_mode])
def test_everything_is_allowed_outside(write, scope):
    x = marked([1.0, 2])
    with scope():
        write(x, 3.0)
    assert x.grad is not None, "the array is still marked"
    with autograd.record():
        y = x * x
    before = values(x)
    y.backward()
    assert values(x.grad) == [2 * v for v in before]


@pytest.mark.parametrize("key", [slice(None), Ellipsis, None])
def test_overwriting_a_whole_array_with_a_recorded_one_is_recorded(key):
    x = marked([1.0, 2])
    for target in (nd.zeros(2, dtype="float64"), nd.zeros(2), nd.zeros(2, ctx=nb.cpu(1))):
        with autograd.record():
            target[key] = x * x
            y = (target * 3).sum()
        y.backward()
        assert values(x.grad) == [6, 12]
    wide = nd.zeros((2, 2))
    with autograd.record():
        wide[key] = x
        y = wide * nd.array([[1, 2], [3, 4]])
        g = autograd.grad(y, x, create_graph=True)
    assert values(g) == [4, 6]


def test_out_is_recorded():
    x, o = marked([1.0, 2]), nd.zeros(2, dtype="float64")
    with autograd.record():
        assert nd.square(x, out=o) is o
        y = nd.exp(o)
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * x.asnumpy() * np.exp(x.asnumpy() ** 2))


# Values changed after they were recorded.


CHANGES = {
    "x*x": (lambda x, w: x * x, "x", "multiply"),
    "x*w": (lambda x, w: x * w, "w", "multiply"),
    "exp": (lambda x, w: nd.exp(x), "y", "exp"),
    "dot": (lambda x, w: nd.dot(x, w), "w", "_matmul"),
    "broadcast": (lambda x, w: x.reshape((2, 1)) * w, "w", "multiply"),
    "power": (lambda x, w: x**3, "x", "power"),
    "inner": (lambda x, w: nd.sin(x) + 1, "x", "sin"),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("write", [iadd, set_all, set_one])
def test_a_changed_value_raises_naming_the_operator(name, write):
    function, which, op = CHANGES[name]
    x, w = marked([1.0, 2]), nd.array(np.array([3.0, 4]))
    x.grad[:] = 7
    with autograd.record():
        y = function(x, w)
    write({"x": x, "w": w, "y": y}[which], 1.0)
    for attempt in (y.backward, lambda: autograd.grad(y, x), lambda: autograd.grad(y, x, create_graph=True)):
        with pytest.raises(nb.NBGradError, match=f"operator {op}.* changed in place"):
            attempt()
        assert values(x.grad) == [7, 7] and not x._fresh_grad and not autograd.is_recording()


def test_a_change_of_a_value_that_no_derivative_reads_is_harmless():
    x, w = marked([1.0, 2]), nd.array(np.array([3.0, 4]))
    with autograd.record():
        a, b, c = x + w, x * w, nd.exp(x)
    x[:] = 100
    autograd.backward([a, b, c], retain_graph=True)
    np.testing.assert_allclose(x.grad.asnumpy(), 1 + w.asnumpy() + np.exp([1, 2]))
    b[:] = 0
    b.backward()
    assert values(x.grad) == [3, 4]


def test_grad_minds_only_what_leads_to_its_variables():
    x, w = marked([1.0, 2]), marked([3.0, 4])
    with autograd.record():
        y = x * x + nd.exp(w)
    x[:] = 9
    np.testing.assert_allclose(autograd.grad(y, w, retain_graph=True).asnumpy(), np.exp([3, 4]))
    np.testing.assert_allclose(autograd.grad(y, w, create_graph=True).asnumpy(), np.exp([3, 4]))
    for attempt in (y.backward, lambda: autograd.grad(y, [w, x])):
        with pytest.raises(nb.NBGradError, match="operator multiply"):
            attempt()


@pytest.mark.parametrize("alias", [lambda x: x.detach(), lambda x: x.reshape((2, 1)), lambda x: x[1], lambda x: x[0:1]])
def test_changes_through_an_alias_count(alias):
    x = marked([1.0, 2])
    with autograd.record():
        y = x * x
    alias(x)[:] = 9
    with pytest.raises(nb.NBGradError, match="operator multiply"):
        y.backward()


def test_a_change_between_the_orders():
    x = marked([2.0])
    with autograd.record():
        y = x * x * x
    g = autograd.grad(y, x, create_graph=True)
    x += 1
    with pytest.raises(nb.NBGradError, match="changed in place"):
        g.backward()


def test_the_usual_training_loop():
    w = marked([10.0])
    for _ in range(50):
        with autograd.record():
            loss = (w - 3) * (w - 3)
        loss.backward()
        w -= 0.25 * w.grad
    np.testing.assert_allclose(w.asnumpy(), [3], rtol=1e-12)
    for _ in range(3):
        with autograd.record():
            loss = (w - 3) * (w - 3)
        loss.backward()
        w[:] = w - 0.25 * w.grad
        assert w.grad is not None


# Views.


def test_views_write_through():
    base = nd.arange(6).reshape((2, 3))
    base.reshape((3, 2))[2] = 10
    base[0][1] = 20
    base[1:2] *= 2
    base[0, 0:2] += 1
    base.reshape((6,))[nd.array([5], dtype="int32")] = 7
    assert values(base) == [[1, 21, 2], [6, 20, 7]]
    first = base[0]
    base[:] = 0
    assert values(first) == [0, 0, 0]


def test_what_is_a_copy():
    base = nd.arange(6).reshape((2, 3))
    for copy in (base[:, 0:1], base.T, base[[0, 1]], base[::-1], base[:, ::2], base.expand_dims(0).copy(), base.copy()):
        copy[:] = -1
    assert values(base) == [[0, 1, 2], [3, 4, 5]]


def test_views_are_differentiable_inside_and_constants_outside():
    x = marked([[1.0, 2], [3, 4]])
    outside = x[0]
    with autograd.record():
        y = x[1] * outside + x[0:1].reshape((2,)) * 10 + x.reshape((4,))[1:3]
        z = nd.exp(outside)
    assert z._node is None
    y.backward()
    assert values(x.grad) == [[10, 11], [2, 2]]


# In-place operators by themselves.


def test_in_place_operators_keep_memory_shape_and_dtype():
    x = nd.array([7, 8], dtype="int32")
    same, buffer = x, x._buf
    x += 1
    x -= nd.array([1], dtype="float32")
    x *= 2
    x //= 3
    x **= 2
    x %= 10
    x /= 2
    assert x is same and x._buf is buffer and x.dtype is np.int32
    assert values(x) == [3, 2]
    y = nd.ones((2, 2))
    y += np.array([1, 2])
    y -= [1, 1]
    assert values(y) == [[1, 2], [1, 2]]


@pytest.mark.parametrize("other", [nd.ones(3), np.ones(3), [1, 2, 3], nd.ones((2, 2, 2))])
def test_an_operand_must_broadcast_into_the_target(other):
    x, before = nd.array([[5.0], [6]]), [[5], [6]]
    with pytest.raises(ValueError, match=r"in-place add|could not be broadcast"):
        x += other
    assert values(x) == before and not autograd.is_recording()


def test_in_place_on_itself():
    x = nd.arange(6).reshape((2, 3))
    x += x
    assert values(x) == [[0, 2, 4], [6, 8, 10]]
    x[1] = x[0]
    x[0] = x.copy()[0][::-1]
    assert values(x) == [[4, 2, 0], [0, 2, 4]]
    y = nd.arange(4)
    y[1:] = y[:-1]
    assert values(y) == [0, 0, 1, 2]
