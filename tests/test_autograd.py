"""Recording, backward and grad: MXNet's rules, and nbgrad's decisions where it departs."""

from functools import partial

import numpy as np
import pytest
import recording
from recording import recorded, values

import nbgrad as nb
from nbgrad import autograd, nd

#: MXNet has one text for these; what people search for are its sentences.
NOT_IN_GRAPH = "Cannot differentiate node because it is not in a computational graph"
NOT_RECORDED = (
    NOT_IN_GRAPH + ". You need to set is_recording to true or use autograd.record() to save computational graphs for "
    "backward: no operator recorded this array; compute it inside"
)
NOT_MARKED = NOT_IN_GRAPH + ": it was computed while recording, but no array that it was computed from is marked"
USED = (
    NOT_IN_GRAPH + " any more: an earlier backward freed it (its last operator is multiply). If you want to "
    "differentiate the same graph twice, you need to pass retain_graph=True to backward"
)
NO_INPUTS = "There are no inputs in computation graph that require gradients."


marked = partial(recording.marked, dtype=None)


class Unchanged:
    """Flags, and the values, gradients and places on the tape of arrays, are the same after an error."""

    def __init__(self, error, match=None, *arrays):
        self.error, self.match, self.arrays = error, match, arrays

    def _state(self):
        grads = [None if x.grad is None else x.grad.asnumpy().tobytes() for x in self.arrays]
        fresh = [x._fresh_grad for x in self.arrays]
        return (
            autograd.is_recording(),
            autograd.is_training(),
            [x.asnumpy().tobytes() for x in self.arrays],
            grads,
            fresh,
            [x._node for x in self.arrays],
        )

    def __enter__(self):
        self.before = self._state()

    def __exit__(self, kind, error, traceback):
        assert kind is not None, f"{self.error} was not raised"
        if not issubclass(kind, self.error):
            return False
        if self.match is not None:
            assert self.match in str(error), f"{self.match!r} is not in {error}"
        assert self._state() == self.before
        return True


# The examples of the original documentation.


def test_square_plus_one(capsys):
    x = nd.array([1, 2, 3, 4])
    x.attach_grad()
    with autograd.record():
        y = x * x + 1
    y.backward()
    print(x.grad)
    assert capsys.readouterr().out == "\n[2. 4. 6. 8.]\n<NDArray 4 @cpu(0)>\n"


def test_the_quadratic_form():
    x = nd.arange(4).reshape((4, 1))
    assert repr(x) == "\n[[0.]\n [1.]\n [2.]\n [3.]]\n<NDArray 4x1 @cpu(0)>"
    x.attach_grad()
    assert values(x.grad) == [[0], [0], [0], [0]]
    with autograd.record():
        y = 2 * nd.dot(x.T, x)
    assert repr(y) == "\n[[28.]]\n<NDArray 1x1 @cpu(0)>"
    y.backward()
    assert (x.grad - 4 * x).norm().asscalar() == 0
    assert str(x.grad) == "\n[[ 0.]\n [ 4.]\n [ 8.]\n [12.]]\n<NDArray 4x1 @cpu(0)>"


def test_a_head_that_is_not_scalar_counts_as_its_sum():
    x = marked([1, 2, 3])
    recorded(lambda: 2 * x * x).backward()
    first = values(x.grad)
    recorded(lambda: (2 * x * x).sum()).backward()
    assert first == values(x.grad) == [4, 8, 12]


def test_is_training_outside_and_inside():
    assert autograd.is_training() is False
    with autograd.record():
        assert autograd.is_training() is True


def test_control_flow():
    def f(a):
        b = a * 2
        while b.norm().asscalar() < 1000:
            b = b * 2
        return b if b.sum().asscalar() > 0 else 100 * b

    for seed in range(4):
        nb.random.seed(seed)
        a = nd.random.normal(shape=1)
        a.attach_grad()
        with autograd.record():
            d = f(a)
        d.backward()
        if a.asscalar() > 0:  # then only powers of two are multiplied, without rounding
            assert repr(a.grad == d / a) == "\n[1.]\n<NDArray 1 @cpu(0)>"
        np.testing.assert_allclose(a.grad.asnumpy(), (d / a).asnumpy(), rtol=1e-6)


def test_breaking_the_chain_with_attach_grad():
    x = marked([0.0, 1, 2, 3])
    with autograd.record():
        y = x * 2
        y.attach_grad()
        with autograd.record():
            z = y * x
    z.backward()
    assert values(x.grad) == values(y)  # the direct part alone
    y.backward(y.grad)
    assert values(x.grad == 2 * x) == [1, 1, 1, 1]


def test_second_order_by_create_graph():
    x = nd.ones((1,))
    x.attach_grad()
    with autograd.record():
        z = nd.elemwise_add(nd.exp(x), x)
    (dx,) = autograd.grad(z, [x], create_graph=True)
    assert dx.asscalar() == pytest.approx(3.71828175, abs=1e-6)
    assert values(x.grad) == [0]
    dx.backward()
    assert x.grad.asscalar() == pytest.approx(2.7182817, abs=1e-6)


def test_mark_variables_with_float64():
    x = nd.array([1, 2, 3, 4], dtype="float64")
    g = nd.zeros(4, dtype="float64")
    autograd.mark_variables(x, g)
    autograd.backward(recorded(lambda: x * x + 1))
    assert values(g) == [2, 4, 6, 8] and g.dtype is np.float64


# Marking.


def test_mark_variables_takes_any_iterable_and_requests():
    xs = [nd.ones(2) for _ in range(3)]
    gs = [nd.full(2, 10) for _ in range(3)]
    autograd.mark_variables(iter(xs), tuple(gs), ["write", "add", "null"])
    for _ in range(2):
        recorded(lambda: xs[0] * 2 + xs[1] * 3 + xs[2] * 4).backward()
    assert [values(g) for g in gs] == [[2, 2], [16, 16], [10, 10]]
    assert [x.grad is g for x, g in zip(xs, gs, strict=True)] == [True] * 3
    assert [x._fresh_grad for x in xs] == [True, True, False]


@pytest.mark.parametrize(
    ("variables", "gradients", "requests", "error", "match"),
    [
        (lambda x: [x, nd.ones(2)], lambda: [nd.zeros(2)], "write", ValueError, "2 variable(s), 1 gradient(s)"),
        (lambda x: [x], lambda: [nd.zeros(2)] * 2, "write", ValueError, "1 variable(s), 2 gradient(s)"),
        (lambda x: [x, x], lambda: [nd.zeros(2)] * 2, ["write"], ValueError, "1 grad_reqs"),
        (lambda x: [x, nd.ones(3)], lambda: [nd.zeros(2)] * 2, "write", ValueError, "variable 1 has shape (3,)"),
        (lambda x: x, lambda: nd.zeros((2, 1)), "write", ValueError, "(2, 1)"),
        (lambda x: x, lambda: nd.zeros(2, dtype="float64"), "write", TypeError, "float64"),
        (lambda x: [x, nd.ones(2)], lambda: [nd.zeros(2)] * 2, ["write", "sum"], KeyError, "'sum'"),
        (lambda x: [x, 5], lambda: [nd.zeros(2)] * 2, "write", TypeError, "got 5"),
        (lambda x: "x", lambda: nd.zeros(2), "write", TypeError, "'x'"),
        (lambda x: x, lambda: None, "write", TypeError, "None"),
    ],
)
def test_mark_variables_checks_before_it_marks(variables, gradients, requests, error, match):
    x = nd.ones(2)
    with Unchanged(error, match, x):
        autograd.mark_variables(variables(x), gradients(), requests)
    assert x.grad is None


def test_attach_grad_again_makes_a_new_buffer():
    x = marked([1, 2])
    first = x.grad
    recorded(lambda: x * 3).backward()
    x.attach_grad("add")
    assert x.grad is not first and values(x.grad) == [0, 0] and values(first) == [3, 3]
    with Unchanged(KeyError, "'both'", x):
        x.attach_grad("both")


def test_attach_grad_on_a_recorded_array_cuts_the_graph():
    x = marked([1.0, 2])
    with autograd.record():
        y = x * x
        y.attach_grad()
        z = y * 3
    assert values(y.grad) == [0, 0]
    z.backward()
    assert values(y.grad) == [3, 3] and values(x.grad) == [0, 0]


def test_grad_is_a_live_buffer():
    x = marked([1.0, 2])
    held = x.grad
    assert held is x.grad
    recorded(lambda: x * x).backward()
    assert values(held) == [2, 4]
    held[:] = 0
    assert values(x.grad) == [0, 0]
    with pytest.raises(AttributeError):
        x.grad = nd.zeros(2)
    assert nd.ones(2).grad is None and recorded(lambda: x * 2).grad is None


def test_fresh_grad():
    x, unused = marked([1.0]), marked([1.0])
    assert not x._fresh_grad
    recorded(lambda: x * x).backward()
    assert x._fresh_grad and not unused._fresh_grad
    x._fresh_grad = False
    assert not x._fresh_grad
    autograd.grad(recorded(lambda: x * x), x)
    assert not x._fresh_grad
    with pytest.raises(nb.NBGradError, match="_fresh_grad"):
        nd.ones(1)._fresh_grad = True


def test_detach_shares_memory_and_has_no_history():
    x = marked([1.0, 2])
    with autograd.record():
        y = x * x
        z = y.detach() * x
    d = y.detach()
    assert d.grad is None and d._node is None
    z.backward()
    assert values(x.grad) == values(y)
    d[:] = 7
    assert values(y) == [7, 7]


# Requests.


def test_add_accumulates_and_null_does_not():
    x, n = marked([1.0, 2], "add"), marked([5.0, 5], "null")
    for k in range(1, 4):
        recorded(lambda: x * x * n + x * n).backward()
        assert values(x.grad) == [15 * k, 25 * k]
    assert values(n.grad) == [0, 0]
    y = recorded(lambda: n * n)
    with Unchanged(nb.MXNetError, NO_INPUTS, n):
        y.backward()


def test_a_variable_that_is_not_reached_keeps_its_gradient():
    x, other = marked([1.0]), marked([1.0])
    recorded(lambda: other * 5).backward()
    recorded(lambda: x * 2).backward()
    assert values(other.grad) == [5]


def test_backward_of_a_marked_leaf():
    x = marked([1.0, 2])
    x.backward()
    assert values(x.grad) == [1, 1]
    x.backward(nd.array([3, 4]))
    assert values(x.grad) == [3, 4]


# Heads and head gradients.


def test_heads_add_up():
    x = marked([1.0, 2])
    with autograd.record():
        y = x * x
        z = y * 3
    autograd.backward([y, z], retain_graph=True)
    assert values(x.grad) == [8, 16]
    autograd.backward((y, y), retain_graph=True)
    assert values(x.grad) == [4, 8]
    autograd.backward([y, z, x], [nd.array([1, 10]), None, nd.array([100, 100])], retain_graph=True)
    assert values(x.grad) == [108, 152]
    assert values(autograd.grad([y, y], [x, x])[1]) == [4, 8]


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "bool"])
def test_a_head_gradient_is_cast(dtype):
    x = marked([1.0, 2])
    given = nd.ones(2, dtype=dtype)
    recorded(lambda: x * x).backward(given)
    assert values(x.grad) == [2, 4] and x.grad.dtype is np.float32
    recorded(lambda: x * x).backward(given.asnumpy())
    assert values(x.grad) == [2, 4]
    autograd.backward([recorded(lambda: x * x)], given.asnumpy())
    assert values(autograd.grad(recorded(lambda: x * x), x, given, create_graph=True)) == [2, 4]
    assert values(given.astype("float32")) == [1, 1]


def test_wrong_head_gradients():
    x = marked([1.0, 2])
    y = recorded(lambda: x * x)
    for wrong in (nd.ones(1), nd.ones((2, 1)), np.ones(3)):
        with Unchanged(ValueError, "head gradient 0 has shape", x, y):
            y.backward(wrong)
    for wrong in (2.0, "g", {}):
        with Unchanged(TypeError, "head gradient 0", x, y):
            y.backward(wrong)
    for lengths in ([None], [None, None, None]):
        with Unchanged(AssertionError, "heads and head_grads must be lists of the same length", x, y):
            autograd.backward([y, y], lengths)
    with Unchanged(TypeError, "heads", x, y):
        autograd.backward([y, 3])
    y.backward()
    assert values(x.grad) == [2, 4]


def test_head_gradients_are_not_used_up():
    x = marked([1.0, 2])
    h = nd.array([3.0, 4])
    with autograd.record():
        y = x + 0.0
    y.backward(h, retain_graph=True)
    x.grad[:] = 0
    g = autograd.grad(y, x, h, create_graph=True)
    assert values(g) == [3, 4]
    g[:] = 9
    assert values(h) == [3, 4]


# Errors of backward.


def unmarked_results():
    """Of every kind of operator, and of results of these."""
    c = nd.ones((2, 2))
    yield from (c + 1, nd.exp(c), c * nd.ones(2), nd.sum(c), nd.dot(c, c), nd.exp(c + 1), (c * c).reshape((4,)))
    yield from nd.split(c, num_outputs=2)


def test_what_was_not_recorded():
    x, c = marked([1.0]), nd.ones(1)
    outside = x * x
    unmarked = recorded(lambda: c * c)
    with autograd.record(), autograd.pause():
        paused = x * x
    for y, message in (
        *((y, NOT_RECORDED) for y in (c, outside, paused)),
        *((y, NOT_MARKED) for y in (unmarked, *recorded(lambda: list(unmarked_results())))),
    ):
        with Unchanged(nb.MXNetError, message, x, y):
            y.backward()
        with Unchanged(nb.MXNetError, message, x, y):
            autograd.grad(y, x)
    with Unchanged(nb.MXNetError, NO_INPUTS, x):
        autograd.backward([])


def test_backward_twice():
    x = marked([3.0], "add")
    y = recorded(lambda: x * x)
    for k in (1, 2):
        y.backward(retain_graph=True)
        assert values(x.grad) == [6 * k]
    y.backward()
    with Unchanged(nb.MXNetError, USED, x, y):
        y.backward()
    with Unchanged(nb.MXNetError, "retain_graph=True", x, y):
        autograd.backward([x, y])


def test_shared_history_is_freed():
    x = marked([3.0])
    with autograd.record():
        y = nd.exp(x)
        z, w = y * 2, y * 3
    z.backward()
    with Unchanged(nb.MXNetError, NO_INPUTS, x, w):
        w.backward()
    with Unchanged(nb.MXNetError, "operator exp", x, w):
        w.backward()
    with autograd.record():
        y = nd.exp(x)
        z, w = y * 2, y * 3
    z.backward(retain_graph=True)
    w.backward()
    np.testing.assert_allclose(x.grad.asscalar(), 3 * np.exp(3), rtol=1e-6)


# Graphs.


def test_a_graph_over_several_blocks():
    x = marked([2.0])
    y = recorded(lambda: x * x)
    constant = y * 100
    z = recorded(lambda: y * x + constant)
    z.backward()
    assert values(x.grad) == [12]


def test_arrays_computed_in_pause_are_constants():
    x = marked([2.0])
    with autograd.record():
        y = x * x
        with autograd.pause():
            c = x * y
        z = y * c
    z.backward()
    assert values(x.grad) == [32]


def test_a_leaf_deleted_before_backward():
    x = marked([2.0])
    g = x.grad
    with autograd.record():
        y = x * x
    del x
    y.backward()
    assert values(g) == [4]


@pytest.mark.parametrize("op", ["_plus_", "reshape"])
def test_a_chain_of_a_hundred_thousand(op):
    x = marked([1.0, 2])
    with autograd.record():
        y = x
        for _ in range(50_000):
            y = y + 1 if op == "_plus_" else y.reshape((1, 2))
            y = y * 1 if op == "_plus_" else y.reshape((2,))
    y.backward(retain_graph=True)
    assert values(x.grad) == [1, 1]
    assert values(autograd.grad(y, x, create_graph=op == "_plus_")) == [1, 1]
    del y  # takes the history with it, without recursion


def test_gradients_have_the_dtype_of_the_variable():
    for dtype in ("float16", "float32", "float64"):
        x = marked([1, 2, 3], dtype=dtype)
        recorded(nd.square, x).backward()
        assert x.grad.dtype is np.dtype(dtype).type and values(x.grad) == [2, 4, 6]
    a, b = marked([1.5], dtype="float32"), marked([2.5], dtype="float64")
    y = recorded(lambda: a * b)
    assert y.dtype is np.float64
    y.backward()
    assert (a.grad.dtype, b.grad.dtype) == (np.float32, np.float64)
    assert (values(a.grad), values(b.grad)) == ([2.5], [1.5])


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_integers_have_no_gradient_buffers(dtype):
    """They would cut off what is after the point, and nothing would say so."""
    i = nd.array([2, 3], dtype=dtype)
    with pytest.raises(nb.errors.DTypeError, match=rf"attach_grad: an array of {dtype} .* x\.astype\('float32'\)"):
        i.attach_grad()
    with pytest.raises(nb.errors.DTypeError, match="mark_variables"):
        autograd.mark_variables([i], [nd.zeros_like(i)])
    with autograd.record():
        i = i * 1
    i.attach_grad("null")


def test_operators_without_derivative_give_zeros():
    x = marked([1.5, -2.5])
    for f in (lambda: x > 0, lambda: nd.floor(x), lambda: nd.sign(x), lambda: nd.rint(x) + x * 0):
        x.grad[:] = 7
        recorded(f).backward()
        assert values(x.grad) == [0, 0]
    for f in (
        lambda: 2 * x.astype("int32").astype("float32"),
        lambda: x.astype("int32") * 2.7,
        lambda: nd.array([1, 2], dtype="int32") % x.astype("int32"),
        lambda: x.astype("int32") // 2,
        lambda: x.astype("bool") + 0.5,
    ):
        x.grad[:] = 7
        recorded(f).backward()
        assert values(x.grad) == [0, 0]


@pytest.mark.parametrize(
    "copying",
    [nd.array, lambda x: x.copy(), lambda x: x.as_in_context(nb.cpu(1)), lambda x: x.copyto(nd.zeros(2))],
    ids=["nd.array", "copy", "as_in_context", "copyto"],
)
def test_copies_are_differentiable(copying):
    x = marked([1.0, 2])
    y = recorded(lambda: copying(x) * 3)
    y.backward()
    assert values(x.grad) == [3, 3]
