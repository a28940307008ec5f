"""autograd.Function: one-shot instances, several results, constants, None and NumPy gradients, any order."""

import gc
import weakref

import numpy as np
import pytest
from recording import marked, recorded, values

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.autograd import Function


class Sigmoid(Function):
    """Stable for large arguments of both signs; its derivative is y*(1-y)."""

    def forward(self, x):
        z = nd.exp(-nd.abs(x))
        y = nd.where(x >= 0, 1 / (1 + z), z / (1 + z))
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        (y,) = self.saved_tensors
        return dy * y * (1 - y)


class Cube(Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * x * x

    def backward(self, dy):
        (x,) = self.saved_tensors
        return 3 * dy * x * x


class SumAndProduct(Function):
    def forward(self, x, scale, y):
        self.save_for_backward(x, y)
        self.scale = scale
        return scale * (x + y), x * y

    def backward(self, ds, dp):
        x, y = self.saved_tensors
        self.seen = (ds.asnumpy().tolist(), dp.asnumpy().tolist())
        return self.scale * ds + dp * y, self.scale * ds + dp * x


def made(forward=lambda x: x * 1, backward=lambda dy: dy):
    """A Function of plain functions."""
    kind = type(
        "Made",
        (Function,),
        {"forward": lambda self, *xs: forward(*xs), "backward": lambda self, *gs: backward(*gs)},
    )
    return kind()


def test_the_stable_sigmoid():
    x = marked([-1000.0, -1, 0, 1, 1000], dtype="float32")
    with autograd.record():
        y = Sigmoid()(x)
    y.backward()
    expected = 1 / (1 + np.exp(-np.array([-1, 0, 1])))
    np.testing.assert_allclose(y.asnumpy(), [0, *expected, 1], rtol=1e-6)
    np.testing.assert_allclose(x.grad.asnumpy(), [0, *(expected * (1 - expected)), 0], rtol=1e-6)


def test_outside_record_it_just_runs():
    f = Cube()
    y = f(nd.array([2.0]))
    assert values(y) == [8] and y._node is None
    y = Cube()(marked([2.0]))
    assert values(y) == [8] and y._node is None
    assert values(recorded(Cube(), nd.array([2.0]))) == [8]  # nothing marked


def test_one_instance_is_called_once():
    message = r"Each Function instance can only be called once\. Please create another instance\."
    f, x = Cube(), marked([2.0])
    recorded(f, x)
    with pytest.raises(AssertionError, match=message):
        f(x)
    f = Cube()
    f(x)
    with pytest.raises(AssertionError, match=message):
        recorded(f, x)


def test_bare_functions_and_missing_methods():
    x = marked([1.0])
    with pytest.raises(NotImplementedError, match="forward"):
        Function()(x)

    class Half(Function):
        def __init__(self):
            """Does not call super().__init__()."""

        def forward(self, x):
            return x * 1

    y = recorded(Half(), x)
    with pytest.raises(NotImplementedError, match=r"Half must define backward"):
        y.backward()
    assert not autograd.is_recording() and values(x.grad) == [0]


@pytest.mark.parametrize("kind", [tuple, list])
def test_results_come_as_forward_gave_them(kind):
    f = made(lambda x: kind([x * 1, x * 2]), lambda a, b: a + 2 * b)
    x = marked([3.0])
    with autograd.record():
        out = f(x)
        assert type(out) is kind
        z = out[0] * out[1]
    z.backward()
    assert values(x.grad) == [12]


def test_several_results_and_constants():
    x, y = marked([2.0, 3]), marked([5.0, 7])
    f = SumAndProduct()
    with autograd.record():
        s, p = f(x, 10, y)
        z = s * p
    z.backward(retain_graph=True)
    xv, yv = x.asnumpy(), y.asnumpy()
    np.testing.assert_allclose(x.grad.asnumpy(), 10 * (2 * xv * yv + yv**2))
    np.testing.assert_allclose(y.grad.asnumpy(), 10 * (2 * xv * yv + xv**2))
    assert isinstance(f.saved_tensors, tuple) and len(f.saved_tensors) == 2


def test_unused_results_arrive_as_zeros():
    x, y = marked([2.0, 3]), marked([5.0, 7])
    f = SumAndProduct()
    _, p = recorded(f, x, 10, y)
    p.backward()
    assert f.seen == ([0, 0], [1, 1])
    assert (values(x.grad), values(y.grad)) == ([5, 7], [2, 3])


def test_an_unmarked_input_still_has_a_slot():
    x, c = marked([2.0, 3]), nd.array(np.array([5.0, 7]))
    _, p = recorded(SumAndProduct(), x, 1, c)
    p.backward()
    assert values(x.grad) == [5, 7] and c.grad is None


def test_none_means_zero():
    x, y = marked([1.0]), marked([1.0])
    y.grad[:] = 9
    z = recorded(made(lambda x, y: x * y, lambda g: (g, None)), x, y)
    z.backward()
    assert (values(x.grad), values(y.grad)) == ([1], [0])
    assert values(autograd.grad(recorded(made(backward=lambda g: None), x), x, create_graph=True)) == [0]


def test_numpy_inside():
    def forward(x):
        return nd.array(np.sin(x.asnumpy()))

    x = marked([0.5, 1.0])
    y = recorded(made(forward, lambda g: np.array([10.0, 20]) * g.asnumpy()), x)
    y.backward()
    assert values(x.grad) == [10, 20]
    y = recorded(made(lambda x: x * 1, lambda g: np.array([1, 2], dtype="float32")), x)
    y.backward()
    assert values(x.grad) == [1, 2] and x.grad.dtype is np.float64


def test_gradients_of_another_dtype_are_cast():
    x = marked([1.0, 2], dtype="float32")
    recorded(made(backward=lambda g: g.astype("float64") * 3), x).backward()
    assert values(x.grad) == [3, 3] and x.grad.dtype is np.float32


class Odd(Exception):
    pass


def fail(*_):
    raise Odd("mine")


@pytest.mark.parametrize(
    ("backward", "error", "match"),
    [
        (lambda g: (g, g), nb.NBGradError, r"Made\.backward must return 1 gradient.* it returned 2"),
        (lambda g: (), nb.NBGradError, "it returned 0"),
        (lambda g: g.reshape((2, 1)), ValueError, r"gradient 0 has shape \(2, 1\), its input has shape \(2,\)"),
        (lambda g: np.ones(3), ValueError, r"gradient 0 has shape \(3,\)"),
        (lambda g: "g", TypeError, "gradient 0 must be an NDArray"),
        (lambda g: 1.0, TypeError, "gradient 0 must be an NDArray"),
        (fail, Odd, "mine"),
    ],
)
def test_wrong_gradients(backward, error, match):
    x = marked([1.0, 2], "add")
    x.grad[:] = 5
    with autograd.record():
        y = x * 2 + made(backward=backward)(x)
    for attempt in (
        lambda: autograd.grad(y, x, create_graph=True),
        lambda: autograd.grad(y, x, retain_graph=True),
        lambda: y.backward(retain_graph=True),
        y.backward,
    ):
        with pytest.raises(error, match=match):
            attempt()
        assert values(x.grad) == [5, 5] and not x._fresh_grad
        assert not autograd.is_recording() and not autograd.is_training()


def test_an_exception_in_forward_keeps_its_type_and_the_recording():
    x = marked([1.0])
    with autograd.record():
        with pytest.raises(Odd, match="mine"):
            made(fail)(x)
        assert autograd.is_recording() and autograd.is_training()
        with pytest.raises(TypeError, match=r"Made\.forward: result 0 must be an NDArray"):
            made(lambda x: 5)(x)
        with pytest.raises(TypeError, match="result 1"):
            made(lambda x: (x * 1, None))(x)
        y = x * 2
    y.backward()
    assert values(x.grad) == [2]


def test_an_input_returned_as_a_result():
    x = marked([1.0])
    with autograd.record():
        with pytest.raises(nb.MXNetError, match="already in a computational graph"):
            made(lambda x: x)(x)
        y = made(lambda x: x.reshape((1, 1)), lambda g: g.reshape((1,)) * 2)(x)
    assert type(x.grad) is nb.NDArray
    y.backward()
    assert values(x.grad) == [2]


def test_add_is_honoured_and_repeated_inputs_are_summed():
    x = marked([2.0], "add")
    x.grad[:] = 1
    recorded(lambda: Cube()(x)).backward()
    assert values(x.grad) == [13]
    _, p = recorded(SumAndProduct(), x, 1, x)
    p.backward()
    assert values(x.grad) == [17]


def test_backward_twice():
    for cls, derivative in ((Cube, 12), (Sigmoid, None)):
        x = marked([2.0], "add")
        y = recorded(cls(), x)
        y.backward(retain_graph=True)
        first = values(x.grad)[0]
        y.backward()
        assert values(x.grad) == [2 * first] and derivative in (None, first)
        with pytest.raises(nb.MXNetError, match="not in a computational graph"):
            y.backward()


def test_what_backward_does_to_its_arrays_stays_there():
    kept = []

    def backward(g):
        kept.append(g)
        g *= 100
        return g

    x, other = marked([1.0, 2]), marked([1.0, 2])
    h = nd.ones(2, dtype="float64")
    for run in (
        lambda y: y.backward(h),
        lambda y: [g.copyto(v.grad) for v, g in zip([x, other], autograd.grad(y, [x, other], h, create_graph=True))],
    ):
        with autograd.record():
            y = made(backward=backward)(x) + other
        run(y)
        kept[-1][:] = -1
        assert (values(x.grad), values(other.grad), values(h)) == ([100, 100], [1, 1], [1, 1])


@pytest.mark.parametrize("which", ["input", "result"])
@pytest.mark.parametrize("several", [False, True])
def test_a_saved_array_that_was_changed(which, several):
    class Square(Function):
        def forward(self, x):
            y = x * x
            self.save_for_backward(*((x,) if which == "input" else (y,)), 5, None)
            return (y, x + 1) if several else y

        def backward(self, *gs):
            saved = self.saved_tensors[0]
            return gs[0] * 2 * (saved if which == "input" else nd.sqrt(saved))

    for change in (False, True):
        x = marked([3.0])
        y = recorded(Square(), x)
        y = y[0] if several else y
        if not change:
            y.backward()
            assert values(x.grad) == [6]
            continue
        if which == "input":
            x += 1
        else:
            y += 1
        for attempt in (y.backward, lambda: autograd.grad(y, x, create_graph=True)):  # noqa: B023
            with pytest.raises(nb.NBGradError, match=r"operator Square .*changed in place"):
                attempt()
            assert values(x.grad) == [0]


# Higher orders.


def test_a_saved_input_to_order_four():
    x = marked([2.0])
    y = recorded(Cube(), x)
    for expected in (12, 12, 6):
        y = autograd.grad(y, x, create_graph=True)
        assert values(y) == [expected]


def test_a_saved_result_to_order_three():
    at = np.array([-1.0, 0.25, 2])
    s = 1 / (1 + np.exp(-at))
    d1 = s * (1 - s)
    x = marked(at)
    y = recorded(Sigmoid(), x)
    for expected in (d1, d1 * (1 - 2 * s), d1 * (1 - 6 * s + 6 * s * s)):
        y = autograd.grad(y, x, create_graph=True)
        np.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-12)


def test_a_saved_result_among_several_to_order_two():
    class ExpAndTwice(Function):
        def forward(self, x):
            y = nd.exp(x)
            z = y * 2
            self.save_for_backward(z)
            return y, z

        def backward(self, dy, dz):
            (z,) = self.saved_tensors
            return (dy + 2 * dz) * z / 2

    x = marked([0.5])
    y, z = recorded(ExpAndTwice(), x)
    for head, factor in ((y, 1), (z, 2)):
        g = autograd.grad(head, x, create_graph=True)
        h = autograd.grad(g, x, create_graph=True)
        assert [g.asscalar(), h.asscalar()] == pytest.approx([factor * np.exp(0.5)] * 2)


def test_a_function_inside_a_graph_to_order_two():
    at = np.array([0.3, 1.1])
    x = marked(at)
    y = recorded(lambda: nd.sin(Cube()(x * x)))
    g = autograd.grad(y, x, create_graph=True)
    np.testing.assert_allclose(g.asnumpy(), 6 * at**5 * np.cos(at**6), rtol=1e-12)
    g.backward()
    second = 30 * at**4 * np.cos(at**6) - 36 * at**10 * np.sin(at**6)
    np.testing.assert_allclose(x.grad.asnumpy(), second, rtol=1e-12)


def test_a_saved_input_that_becomes_a_variable_of_its_own():
    """The saved array keeps the place on the tape it had when it was recorded."""
    x = marked([2.0])
    with autograd.record():
        u = x * x
        y = Cube()(u)
    u.attach_grad()
    g = autograd.grad(y, x, create_graph=True)
    assert values(g) == [6 * 2.0**5]
    assert values(autograd.grad(g, x)) == [30 * 2.0**4]


def test_memory_is_returned_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        for cls in (Cube, Sigmoid):
            for end in (
                lambda y, x: None,
                lambda y, x: y.backward(),
                lambda y, x: autograd.grad(y, x, create_graph=True),
            ):
                x = marked([2.0])
                f = cls()
                y = recorded(f, x)
                held = [weakref.ref(f), weakref.ref(y), weakref.ref(y._buf), weakref.ref(x._buf), weakref.ref(y._node)]
                end(y, x)
                del x, y, f
                assert [ref() for ref in held] == [None] * 5
    finally:
        gc.enable()


# What forward makes and keeps.


class Swish(autograd.Function):
    def __init__(self, keep):
        self.keep = keep

    def forward(self, x):
        self.keep(self, x)
        return x * nd.sigmoid(x)

    def backward(self, g):
        x, s = self.saved_tensors if self._saved else (self.x, self.parts["s"])
        return g * (s + x * s * (1 - s))


def in_attributes(self, x):
    self.x, self.parts = x, {"s": nd.sigmoid(x)}


HELD = {"saved": lambda self, x: self.save_for_backward(x, nd.sigmoid(x)), "in attributes": in_attributes}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", HELD)
def test_a_second_derivative_through_what_forward_made_is_refused(name, compiled):
    """It was taken for a constant: 0.244 for 0.478 at 0.3."""
    made = nb.jit if compiled else lambda f: f
    first = nb.grad(lambda x: nd.sum(Swish(HELD[name])(x)))
    x = np.array([0.3, -2.0])
    np.testing.assert_allclose(made(first)(x), nb.grad(lambda x: nd.sum(x * nd.sigmoid(x)))(x))
    with pytest.raises(nb.NBGradError, match="an array that forward computed and stored"):
        made(nb.grad(lambda x: nd.sum(first(x))))(x)


def test_derivatives_by_others_than_the_operands_pass():
    w, x = nd.array([1.5], dtype="float64"), nd.array([0.3], dtype="float64")
    w.attach_grad(), x.attach_grad()
    with autograd.record():
        y = Swish(HELD["saved"])(x) * w
        slope = autograd.grad(y, x, create_graph=True)
        by_w = autograd.grad(slope, w, retain_graph=True)
    np.testing.assert_allclose(by_w.asnumpy() * 1.5, slope.asnumpy())
    with pytest.raises(nb.NBGradError, match="computed and stored"):
        slope.backward()


class Masked(autograd.Function):
    """What forward makes is a mask, and what it is given is a constant."""

    def __init__(self, a):
        self.a = a

    def forward(self, x):
        self.x, self.mask = x, (x > 0).astype(bool)
        return self.a * nd.square(nd.relu(x))

    def backward(self, g):
        return nd.where(self.mask, 2 * self.a * self.x * g, 0.0 * g)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_constants_and_masks_are_no_such_arrays(compiled):
    f = lambda x: nd.sum(Masked(nd.array([3.0], dtype="float64"))(x))  # noqa: E731
    second = nb.grad(lambda x: nd.sum(nb.grad(f)(x)))
    np.testing.assert_allclose((nb.jit(second) if compiled else second)(np.array([0.5, -1.0, 2.0])), [6, 0, 6])
