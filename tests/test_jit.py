"""jit: compiled functions give what the functions give; on the tape, inside derivatives, for all kinds of arguments."""

import dataclasses
import functools
import threading

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd

X = np.linspace(-1.0, 1.5, 12)


def energy(x, a=2.0):
    return nd.sum(nd.tanh(x * a) * x)


def close(a, b, rtol=1e-12):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=rtol, atol=1e-14)


def test_values_and_derivatives_of_any_order():
    for transform in (
        lambda f: f,
        nb.grad,
        nb.value_and_grad,
        nb.hessian,
        lambda f: nb.grad(lambda x: nd.sum(nb.grad(f)(x) ** 2)),
    ):
        eager, compiled = transform(energy)(nd.array(X)), nb.jit(transform(energy))(nd.array(X))
        for a, b in zip(
            eager if isinstance(eager, tuple) else [eager], compiled if isinstance(compiled, tuple) else [compiled]
        ):
            assert a.shape == b.shape
            close(a.asnumpy(), b.asnumpy())


def test_numpy_in_numpy_out():
    value, gradient = nb.jit(nb.value_and_grad(energy))(X)
    assert isinstance(value, float) and isinstance(gradient, np.ndarray)
    expected = nb.value_and_grad(energy)(X)
    close(value, expected[0])
    close(gradient, expected[1])
    single = nb.jit(energy)(X.astype(np.float32))
    assert single.dtype == np.float32


def test_numpy_arrays_of_all_layouts():
    f = nb.jit(lambda x: nd.exp(x) * 2)
    x = np.arange(24.0).reshape(4, 6)
    frozen = x.copy()
    frozen.flags.writeable = False
    for a in (x, x.T, x[::2, 1:], frozen, x.astype(">f8"), x[:, 2], np.float64(3), np.array(2.0)):
        close(f(a), np.exp(np.asarray(a, np.float64)) * 2)


def test_numbers():
    f = nb.jit(lambda x, s: x * s)
    assert f(nd.array([1, 2], dtype="float32"), 0.5).dtype == np.float32
    assert f(nd.array([1, 2], dtype="float32"), 0.25).tolist() == [0.25, 0.5]
    assert len(f.programs) == 1  # a Python float is no part of the signature
    assert f(nd.array([1, 2], dtype="float32"), 2).tolist() == [2, 4]
    assert len(f.programs) == 2  # an int is
    assert nb.jit(nb.grad(lambda s: s**3))(2.0) == pytest.approx(12.0)


@dataclasses.dataclass
class Model:
    w: object
    b: object
    name: str = dataclasses.field(default="model", metadata={"static": True})


def test_trees():
    def predict(model, batch):
        return {"y": nd.dot(batch["x"], model.w) + model.b, "parts": [model.w * 2, "text", None]}

    model = Model(np.ones((3, 2)), np.zeros(2))
    batch = {"x": np.arange(6.0).reshape(2, 3)}
    found = nb.jit(predict)(model, batch)
    close(found["y"], batch["x"] @ model.w)
    assert found["parts"][1:] == ["text", None]

    def loss(model, batch):
        return nd.sum(predict(model, batch)["y"] ** 2)

    gradient = nb.jit(nb.grad(loss))(model, batch)
    expected = nb.grad(loss)(model, batch)
    assert isinstance(gradient, Model)
    close(gradient.w, expected.w)


def test_static_arguments_and_keywords():
    calls = []

    @nb.jit(static_argnames="scale")
    def f(x, scale, *, power=2):
        calls.append(scale)
        return nd.sum(x**power) * (1 if scale > 1 else scale)

    assert f(X, 3.0) == pytest.approx((X**2).sum())
    assert f(X, scale=0.5, power=3) == pytest.approx(0.5 * (X**3).sum())
    f(X, 3.0)
    assert calls == [3.0, 0.5]
    with pytest.raises(nb.NBGradError, match="no argument of"):
        nb.jit(lambda x: x, static_argnames="y")
    with pytest.raises(TypeError, match="cannot be hashed"):
        f(X, [1])


def test_captured_arrays_are_read_at_every_call():
    w = nd.array([1.0, 2.0], dtype="float64")
    f = nb.jit(lambda x: x * w)
    assert f(nd.array([1.0, 1.0], dtype="float64")).tolist() == [1, 2]
    w[:] = 5
    assert f(nd.array([1.0, 1.0], dtype="float64")).tolist() == [5, 5]


def test_on_the_tape():
    w = nd.array([0.5, -1.0, 2.0], dtype="float64")
    x = nd.array([1.0, 2.0, 3.0], dtype="float64")
    grads = []
    for wrap in (lambda f: f, nb.jit):
        f = wrap(lambda x: (nd.sin(x * w), nd.sum(x * x)))
        x.attach_grad()
        w.attach_grad()
        with autograd.record():
            y, s = f(x * 2)
            loss = nd.sum(y * y) * s
        loss.backward()
        grads.append((x.grad.asnumpy(), w.grad.asnumpy()))
    close(grads[0][0], grads[1][0])
    close(grads[0][1], grads[1][1])


def test_on_the_tape_to_the_third_order():
    found = []
    for wrap in (lambda f: f, nb.jit):
        f = wrap(lambda x: nd.exp(nd.sin(x)) * x)
        x = nd.array([0.3, 1.2], dtype="float64")
        x.attach_grad()
        with autograd.record():
            g = autograd.grad(f(x), x, create_graph=True, retain_graph=True)
            h = autograd.grad(g, x, create_graph=True, retain_graph=True)
        h.backward()
        found.append(x.grad.asnumpy())
    close(found[0], found[1], 1e-11)


def test_inside_derivatives_and_other_jits():
    inner = nb.jit(energy)
    close(nb.grad(lambda x: inner(x) * 2)(X), nb.grad(lambda x: energy(x) * 2)(X))
    close(nb.jit(nb.grad(lambda x: inner(x) ** 2))(X), nb.grad(lambda x: energy(x) ** 2)(X))
    close(nb.hessian(inner)(X), nb.hessian(energy)(X), 1e-10)


def test_outputs_that_are_arguments_constants_or_one_value():
    f = nb.jit(lambda x, y: (x, y + 0, nd.ones((2,)), x * 2, x * 2, x[1:], nd.zeros((2, 2)) + 1))
    x, y = np.arange(3.0), np.arange(2.0)
    found = f(x, y)
    for a, b in zip(found, (x, y, np.ones(2), x * 2, x * 2, x[1:], np.ones((2, 2)))):
        close(a, b)
    found[0][0] = 7
    found[3][0] = 7
    assert x[0] == 0 and found[4][0] == 0


def test_shapes_make_programs_and_many_of_them_a_warning():
    f = nb.jit(lambda x: x + 1)
    for n in range(1, 17):
        f(np.zeros(n))
    with pytest.warns(UserWarning, match="traced for the 17th time"):
        f(np.zeros(17))


def test_methods():
    class Layer:
        def __init__(self, w):
            self.w = nd.array([w], dtype="float64")

        @nb.jit
        def scaled(self, x):
            return x * self.w

    a, b = Layer(2.0), Layer(3.0)
    x = nd.array([1.0], dtype="float64")
    assert a.scaled(x).tolist() == [2] and b.scaled(x).tolist() == [3]


def test_threads():
    f = nb.jit(nb.grad(energy))
    expected, wrong = nb.grad(energy)(X), []

    def work():
        for _ in range(50):
            if not np.allclose(f(X), expected, rtol=1e-12):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_no_temporaries_for_pairs():
    """Pairwise sums never hold an array of all pairs."""

    def potential(x):
        d = nd.expand_dims(x, axis=1) - nd.expand_dims(x, axis=0)
        return nd.sum(nd.exp(-nd.sum(d * d, axis=2)))

    f = nb.jit(nb.value_and_grad(potential))
    x = np.random.default_rng(0).standard_normal((70, 3))
    value, gradient = f(x)
    expected = nb.value_and_grad(potential)(x)
    close(value, expected[0])
    close(gradient, expected[1], 1e-10)
    compiled = f.latest.compiled
    assert sum(8 * n for _, n in compiled.buffers.values()) + sum(s.stack for s in compiled.sources) <= 8 * 70 * 70


def test_what_is_computed_from_captured_arrays_alone_follows_them():
    w = nd.array([1.0, 2.0], dtype="float64")

    def f(x):
        scale = nd.sum(nd.sin(w.reshape((2, 1))), axis=0) * 2 + w[0].astype("float64")
        return x * scale + nd.arange(1, dtype="float64")

    compiled = nb.jit(f)
    x = nd.array([3.0], dtype="float64")
    for value in (1.0, 5.0):
        w[:] = value
        close(compiled(x).asnumpy(), f(x).asnumpy())
    w.attach_grad()
    found = []
    for g in (f, compiled):
        with autograd.record():
            y = g(x)
        y.backward()
        found.append(w.grad.asnumpy())
    close(*found)


def test_derivative_of_a_compiled_function_compiled():
    inner = nb.jit(lambda x: nd.sum(x**3))
    close(nb.jit(nb.grad(inner))(X), 3 * X**2)


@pytest.mark.parametrize("given", [False, True])
def test_running_statistics_move_at_every_call(given):
    def network(x, gamma, mean, variance):
        y = nd.BatchNorm(x, gamma, nd.zeros((2,), dtype="float64"), mean, variance, fix_gamma=False)
        return nd.sum(nd.tanh(y) ** 2)

    x = nd.array(np.random.default_rng(0).standard_normal((5, 2)))
    found = []
    for wrap in (lambda f: f, nb.jit):
        mean, variance = nd.zeros((2,), dtype="float64"), nd.ones((2,), dtype="float64")
        gamma = nd.array([1.0, 2.0], dtype="float64")
        gamma.attach_grad()
        more = (mean, variance)
        f = wrap(network if given else functools.partial(network, mean=mean, variance=variance))
        more = more if given else ()
        with autograd.train_mode():
            f(x, gamma, *more)
            with autograd.record():
                y = f(x * 2, gamma, *more)
        y.backward()
        found.append([v.asnumpy() for v in (y, gamma.grad, mean, variance)])
    for a, b in zip(*found):
        close(a, b, 1e-10)


def test_what_a_program_shows():
    f = nb.jit(nb.value_and_grad(energy))
    with pytest.raises(nb.NBGradError, match="not called yet"):
        f.source()
    f(np.ones(5000))
    assert f.source().startswith("def ")
    told = f.report()
    assert "40 kB of arguments" in told and "40 kB of results" in told and "temporaries 0 bytes" in told
    assert "for 5000:" in told and "sum of" in told
    assert f.graph().startswith("flowchart TD") and "tanh" in f.graph()
    assert f.graph("dot").startswith("digraph {")
    with pytest.raises(ValueError, match="'mermaid' or 'dot'"):
        f.graph("png")


def test_a_number_among_arrays_has_a_number_for_its_gradient():
    def f(p, x):
        return nd.sum(nd.exp(p["rate"] * x)) + p["start"] ** 2

    given = {"rate": 0.5, "start": 2.0}
    value, gradient = nb.jit(nb.value_and_grad(f))(given, X)
    expected = nb.value_and_grad(f)(given, X)
    assert [type(v) for v in gradient.values()] == [float, float]
    assert gradient == pytest.approx(expected[1]) and value == pytest.approx(expected[0])
