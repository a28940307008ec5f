"""autograd.Function in compiled functions: traced if it can be, else a step that runs as it does outside."""

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from recording import marked, values

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.custom.function import _instances
from nbgrad.errors import DTypeError, ShapeError, TraceError

X = np.linspace(0.2, 1.0, 5)
RNG = np.random.default_rng(1)
OUTSIDE = nd.array(2 * X)


class Sine(autograd.Function):
    """NumPy in both directions; state on the instance."""

    def __init__(self, scale=1.0):
        self.scale = scale

    def forward(self, x):
        self.cosine = np.cos(x.asnumpy())
        return nd.array(self.scale * np.sin(x.asnumpy()))

    def backward(self, g):
        return g.asnumpy() * self.cosine * self.scale


class Pair(autograd.Function):
    """Two results, a constant, which is a whole number, an array that is an attribute, NumPy in forward alone."""

    def __init__(self, v):
        self.v = v

    def forward(self, x, k, y):
        self.save_for_backward(x, y, nd.array([k], dtype="int64"))
        return nd.array(k * x.asnumpy() * self.v.asnumpy()), x * y

    def backward(self, g, h):
        x, y, k = self.saved_tensors
        return g * self.v * k + h * y, h * x


class Mask(autograd.Function):
    """Random, and asks for the flags."""

    def forward(self, x):
        assert not autograd.is_recording()
        self.mask = (RNG.uniform(size=x.shape) < 0.5) * (2.0 if autograd.is_training() else 1.0)
        return nd.array(x.asnumpy() * self.mask)

    def backward(self, g):
        return g * nd.array(self.mask)


class Cube(autograd.Function):
    """Traced."""

    max_order = 1

    def forward(self, x):
        self.save_for_backward(x)
        return x * x * x

    def backward(self, g):
        (x,) = self.saved_tensors
        return 3 * g * x * x


class Half(autograd.Function):
    """Forward can be traced, backward cannot."""

    def forward(self, x):
        self.save_for_backward(x)
        return nd.sin(x)

    def backward(self, g):
        (x,) = self.saved_tensors
        return g.asnumpy() * np.cos(x.asnumpy())


def loop(x):
    def step(r, s):
        return Sine()(r) * s, s + nd.sin(Sine()(r))

    return nd.sum(nd.contrib.foreach(step, nd.reshape(x, (5, 1)), nd.ones(1, dtype="float64"))[0])


def pair(x):
    p, q = Pair(x * 2)(x, 3, OUTSIDE)
    return nd.sum(p) + nd.sum(q * q)


FUNCTIONS = {
    "one": lambda x: nd.sum(Sine(2.0)(x * x) * x),
    "twice": lambda x: nd.sum(Sine()(Sine(3.0)(x)) * Sine()(x)),
    "pair": pair,
    "outside": lambda x: nd.sum(Sine()(OUTSIDE) * x),
    "backward asks": lambda x: nd.sum(Half()(x * x)),
    "traced": lambda x: nd.sum(Cube()(x)),
    "loop": loop,
    "branch": lambda x: nd.contrib.cond(nd.sum(x) > 1, lambda: nd.sum(Sine()(x), axis=0, keepdims=True), lambda: x[:1]),
    "checkpoint": lambda x: nd.sum(autograd.checkpoint(lambda x: Sine()(x) * x)(x) * x),
    "inner jit": lambda x: nd.sum(nb.jit(lambda x: Sine()(x) * x)(x * 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name):
    f = FUNCTIONS[name]
    both = nb.jit(nb.value_and_grad(f))
    alone = nb.jit(f)
    for x in (X, 0.3 * X):
        value, gradient = nb.value_and_grad(f)(x)
        found = both(x)
        np.testing.assert_allclose(found[0], value, rtol=1e-12)
        np.testing.assert_allclose(found[1], gradient, rtol=1e-12)
        y = marked(x)
        with autograd.record():
            out = alone(y)
        np.testing.assert_allclose(out.asnumpy(), value, rtol=1e-12)
        out.backward()
        np.testing.assert_allclose(y.grad.asnumpy(), gradient, rtol=1e-12)


@pytest.mark.parametrize("name", ["one", "pair", "loop"])
def test_jacobians(name):
    def f(x):
        return nd.stack(FUNCTIONS[name](x), FUNCTIONS[name](x * 2))

    np.testing.assert_allclose(nb.jit(nb.jacobian(f))(X), nb.jacobian(f)(X), rtol=1e-12)


def test_arrays_without_axes():
    f = nb.grad(lambda x: Sine(2.0)(x) * x)
    expected = 2 * np.cos(0.5) * 0.5 + 2 * np.sin(0.5)
    assert f(0.5) == pytest.approx(expected) and nb.jit(f)(0.5) == pytest.approx(expected)


def test_arrays_from_outside_are_read_at_every_call_and_get_gradients():
    w = marked(X)
    f = nb.jit(lambda x: nd.sum(Sine()(w) * x))
    for _ in range(2):
        with autograd.record():
            y = f(nd.array(X))
        y.backward()
        np.testing.assert_allclose(w.grad.asnumpy(), X * np.cos(w.asnumpy()), rtol=1e-12)
        w += 1


def test_what_can_be_traced_is():
    f = nb.jit(nb.grad(lambda x: nd.sum(Cube()(x))))
    f(X)
    assert "Cube" not in f.report() and len(f._latest().compiled.steps) == 1
    f = nb.jit(nb.grad(lambda x: nd.sum(Sine()(x))))
    f(X)
    assert "runs the kernels of Sine" in f.report() and "Sine" in f.graph()


def test_nothing_of_the_attempt_remains():
    class Late(autograd.Function):
        def forward(self, x):
            self.before = vars(self).copy()
            y = nd.sin(x * OUTSIDE) + nd.random.uniform(shape=5, dtype="float64")
            return y + float(y.asnumpy()[0] * 0)

        def backward(self, g):
            return g

    f = nb.jit(lambda x: Late()(x) + 1)
    f(X)
    program = f._latest()
    assert not program.drawn and program.captured == []
    assert len(program.compiled.program.body) == 2


def test_calls_keep_apart_what_their_functions_keep():
    f = nb.jit(lambda x: nd.sum(Sine()(x)))
    a, b = marked(X), marked(2 * X)
    with autograd.record():
        ya, yb = f(a), f(b)
    for _ in range(2):
        for y, x in ((ya, a), (yb, b)):
            y.backward(retain_graph=True)
            np.testing.assert_allclose(x.grad.asnumpy(), np.cos(x.asnumpy()), rtol=1e-12)
    del y, ya, yb
    gc.collect()
    assert not _instances


def test_a_call_on_the_tape_runs_forward_once_and_reads_the_flags():
    f = nb.jit(lambda x: nd.sum(Mask()(x) * x))
    x = marked(X)
    for training in (True, False):
        for _ in range(3):
            with autograd.record(train_mode=training):
                y = f(x)
            y.backward()
            mask = x.grad.asnumpy() / X / 2
            np.testing.assert_allclose(y.asnumpy(), np.sum(mask * X * X), rtol=1e-12)
            assert set(np.round(mask, 12)) <= {0, 2 if training else 1}
    value, gradient = nb.jit(nb.value_and_grad(lambda x: nd.sum(Mask()(x) * x)))(X)
    np.testing.assert_allclose(value, np.sum(gradient * X) / 2, rtol=1e-12)


def test_scopes_around_a_call_are_seen_inside():
    def f(x):
        with autograd.train_mode():
            y = Mask()(x)
        with autograd.predict_mode():
            return nd.stack(y, Mask()(x))

    found = nb.jit(f)(nd.ones(200, dtype="float64")).asnumpy()
    assert set(found[0]) == {0, 2} and set(found[1]) == {0, 1}


def test_threads_have_calls_of_their_own():
    f = nb.jit(nb.grad(lambda x: nd.sum(Sine()(x) * Sine(2.0)(x))))
    f(X)
    with ThreadPoolExecutor(4) as pool:
        for k, found in enumerate(pool.map(lambda k: f(k * X), range(100))):
            np.testing.assert_allclose(found, 2 * np.sin(2 * k * X), rtol=1e-9, atol=1e-12)


def test_random_numbers_are_those_of_the_function():
    class Noise(autograd.Function):
        def forward(self, x):
            u = nd.random.uniform(shape=x.shape, dtype="float64")
            self.u = u.asnumpy()
            return x * u

        def backward(self, g):
            return g * nd.array(self.u)

    f = nb.value_and_grad(lambda x: nd.sum(Noise()(x) * 1))
    nb.random.seed(5)
    expected = [f(X) for _ in range(2)]
    nb.random.seed(5)
    compiled = nb.jit(f)
    for value, gradient in expected:
        found = compiled(X)
        assert found[0] == pytest.approx(value)
        np.testing.assert_allclose(found[1], gradient)


def test_second_derivatives_are_an_error():
    f = FUNCTIONS["one"]
    match = "Sine: order 2 is asked for, but max_order is 1"
    with pytest.raises(nb.NBGradError, match=match):
        nb.jit(nb.hessian(f))(X)
    x = marked(X)
    with autograd.record():
        y = nb.jit(f)(x)
        g = autograd.grad(y, x, create_graph=True)
    with pytest.raises(nb.NBGradError, match=match):
        g.backward()
    with pytest.raises(nb.NBGradError, match="Cube: order 2 is asked for, but max_order is 1"):
        nb.jit(nb.hessian(lambda x: nd.sum(Cube()(x))))(X)

    def mixed(x, y):
        return nd.sum(Sine()(x) * y * y)

    def outer(y):
        return nd.sum(nb.grad(mixed, 1)(nd.array(X), y))

    np.testing.assert_allclose(nb.jit(nb.grad(outer))(X), 2 * np.sin(X))


class Kept(autograd.Function):
    """NumPy in forward; an operand, a result and another array are left, under both names; backward is traced."""

    def __init__(self, scale):
        self.scale = scale

    def forward(self, x):
        y = nd.array(np.exp(x.asnumpy()) * self.scale)
        self.double = nd.array((2 * x.asnumpy()).astype("int64"))
        self.x = x
        self.save_for_backward(y, self.double)
        return y, nd.array(np.sin(x.asnumpy()))

    def backward(self, g, h):
        y, double = self.saved_tensors
        return g * y + h * nd.cos(self.x) + 0 * (double - self.double)


def kept(x):
    y, z = Kept(1.5)(x * x)
    return nd.sum(y * z)


@pytest.mark.parametrize("f", [kept, pair])
def test_second_derivatives_where_backward_can_be_traced(f):
    second = lambda f: nb.grad(lambda x: nd.sum(nb.grad(f)(x) ** 2))  # noqa: E731
    compiled = nb.jit(second(f))
    np.testing.assert_allclose(compiled(X), second(f)(X), rtol=1e-12)
    np.testing.assert_allclose(compiled(0.5 * X), second(f)(0.5 * X), rtol=1e-12)
    assert "backward" not in compiled.report()
    np.testing.assert_allclose(nb.jit(nb.hessian(f))(X), nb.hessian(f)(X), rtol=1e-12)
    x = marked(X)
    with autograd.record():
        y = nb.jit(f)(x)
        g = autograd.grad(y, x, create_graph=True)
        z = nd.sum(g * g)
    z.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), second(f)(X), rtol=1e-12)


def test_lists_on_the_instance_are_those_of_one_call():
    class Listed(autograd.Function):
        def __init__(self):
            self.kept = []

        def forward(self, x):
            self.kept.append(x.asnumpy())
            return nd.array(np.sin(self.kept[0]))

        def backward(self, g):
            return g.asnumpy() * np.cos(self.kept[0])

    f = nb.jit(nb.grad(lambda x: nd.sum(Listed()(x))))
    for x in (X, 2 * X):
        np.testing.assert_allclose(f(x), np.cos(x), rtol=1e-12)


def test_what_comes_out_may_be_said():
    class Solve(autograd.Function):
        def forward(self, x):
            if x.asnumpy().max() > 0.3:
                raise ValueError("numbers")
            return nd.array(x.asnumpy()[:2])

    with pytest.raises(TraceError, match=r"Solve: what it gives is unknown .* ValueError: numbers.*infer"):
        nb.jit(lambda x: Solve()(x))(X / 10)

    for said in (lambda self, x: ((2,), "float64"), lambda self, x: x[:2]):
        Solve.infer = said
        assert nb.jit(lambda x: Solve()(x) * 2)(nd.array(X / 10)).shape == (2,)
    Solve.infer = lambda self, x: x
    with pytest.raises(ShapeError, match=r"Solve.forward: result 0 is float64 of shape \(2,\), but was .*\(5,\)"):
        nb.jit(lambda x: Solve()(x) * 2)(X / 10)
    Solve.infer = lambda self, x: ((2,), "float32")
    with pytest.raises(DTypeError, match=r"result 0 is float64 .* but was float32"):
        nb.jit(lambda x: Solve()(x) * 2)(X / 10)
    Solve.infer = lambda self, x: "x"
    with pytest.raises(DTypeError, match="infer must say"):
        nb.jit(lambda x: Solve()(x) * 2)(X / 10)


def test_tuples_and_lists_come_as_they_are_said():
    class Two(autograd.Function):
        kind: type = tuple

        def forward(self, x):
            return self.kind([nd.array(np.sin(x.asnumpy())), x * 2])

        def backward(self, g, h):
            return g.asnumpy() + 2 * h.asnumpy()

    for kind in (tuple, list):
        Two.kind = kind

        def f(x):
            found = Two()(x)
            assert type(found) is kind  # noqa: B023
            return nd.sum(found[1])

        assert nb.jit(nb.grad(f))(X).tolist() == [2] * 5


def test_errors_at_a_call():
    class Wrong(Sine):
        def backward(self, g):
            return g.asnumpy()[:2]

    x = marked(X)
    with autograd.record():
        y = nb.jit(lambda x: nd.sum(Wrong()(x)))(x)
    with pytest.raises(ShapeError, match=r"Wrong.backward: gradient 0 has shape \(2,\), its input has shape \(5,\)"):
        y.backward()
    assert values(x.grad) == [0] * 5

    class Writes(autograd.Function):
        def forward(self, x):
            x[:] = 0
            return nd.array(x.asnumpy())

    with pytest.raises(TraceError, match=r"Writes.forward writes into its input"):
        nb.jit(lambda x: Writes()(x))(X)
