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


@pytest.mark.parametrize("outside", [nd.array(X), X, 0.7], ids=["NDArray", "NumPy", "number"])
def test_derivatives_by_what_comes_from_outside(outside):
    def f(y):
        slope = nb.grad(lambda w: nd.sum(nd.sin(w) * y))
        return slope(outside), nb.jvp(slope, (outside,), (outside,)), nb.hessian(lambda w: nd.sum(w**3 * y))(outside)

    (a, (b, c), d), (i, (j, k), m) = nb.jit(f)(nd.array(X + 2)), f(nd.array(X + 2))
    for found, expected in zip((a, b, c, d), (i, j, k, m), strict=True):
        close(found.asnumpy(), expected)


def test_derivatives_in_a_loop_by_what_comes_from_outside():
    def f(x):
        def body(row, total):
            inner = nb.grad(lambda x: nd.sum(nd.sin(x) * row))
            return [], total + nd.sum(nb.grad(lambda x: nd.sum(inner(x) ** 2))(x))

        return nd.contrib.foreach(body, nd.stack(x, x * x, axis=0), nd.sum(x) * 0)[1]

    close(nb.jit(nb.grad(f))(X), nb.grad(f)(X))


INDICES = {
    "i, j": lambda x, i, j: x[i, j],
    ":, i, j": lambda x, i, j: x[:, i, j],
    "i, :, j": lambda x, i, j: x[i, :, j],
    "i, 1:3, j": lambda x, i, j: x[i, 1:3, j],
    "..., i, j": lambda x, i, j: x[..., i, j],
    "i, ..., j": lambda x, i, j: x[0][i, ..., j],
    "None, i, 1": lambda x, i, j: x[None, i, 1],
    "0, None, j": lambda x, i, j: x[0, None, j],
    "i, None, j": lambda x, i, j: x[i, None, j],
    "-1, j": lambda x, i, j: x[:, -1, j],
    "all": lambda x, i, j: x[i, j, 2],
    "table": lambda x, i, j: x[i.reshape((3, 1)), :, j.reshape((1, 3))],
    "lists": lambda x, i, j: x[[1, 2, 0], ::2, j],
    "mask": lambda x, i, j: x[np.array([True, False, True, True]), j],
    "wide mask": lambda x, i, j: x[np.arange(20).reshape(4, 5) % 7 == 0, j],
    "floats": lambda x, i, j: x[:, nd.cast(i, dtype="float32"), j],
    "one": lambda x, i, j: x[i[0], j[1], i[2]],
}


@pytest.mark.parametrize("name", INDICES)
def test_several_index_arrays(name):
    f = INDICES[name]
    given = [nd.array(np.random.default_rng(3).standard_normal((4, 5, 6)))]
    given += [nd.array(v, dtype="int64") for v in ([0, 2, 1], [1, -1, 3])]
    if name == "table":
        assert f(*given).shape == (3, 3, 5)
    slope = nb.grad(lambda *xs: nd.sum(nd.sin(f(*xs))))
    for g in (f, slope):
        found, expected = nb.jit(g)(*given), g(*given)
        assert found.shape == expected.shape
        close(found.asnumpy(), expected.asnumpy())


def test_index_arrays_that_do_not_fit():
    x, i, j = nd.zeros((3, 4)), nd.array([0, 1], dtype="int64"), nd.array([0, 1, 4], dtype="int64")
    with pytest.raises(IndexError, match="do not broadcast together"):
        nb.jit(lambda x, i, j: x[i, j])(x, i, j)
    with pytest.raises(IndexError, match="index 4 is out of range"):
        nb.jit(lambda x, j: x[:, j])(x, j)
    with pytest.raises(nb.errors.TraceError, match="the shape of the result depends on the numbers in the mask"):
        nb.jit(lambda x, m: x[0, m])(x, nd.array([1, 0, 1, 0], dtype="bool"))


def test_histogram():
    x = nd.array(X)
    for options in ({}, {"bins": 4, "range": (0, 1)}, {"bins": [-1.0, 0.0, 2.0]}, {"bins": nd.array([-1.0, 0.5])}):
        counted = functools.partial(nd.histogram, **options)
        for given in (x, nd.cast(x * 3, dtype="int32")):
            for a, b in zip(nb.jit(counted)(given), counted(given), strict=True):
                assert a.dtype == b.dtype
                close(a.asnumpy(), b.asnumpy())
    with pytest.raises(nb.errors.TraceError, match="histogram: the shape"):
        nb.jit(lambda a: nd.histogram(a, bins="auto"))(x)
    with pytest.raises(ValueError, match="histogram: "):
        nb.jit(lambda a: nd.histogram(a, bins=3, range=(2, 1)))(x)
    assert len(nd.histogram(x, bins="auto")[0]) > 1


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "float64"])
def test_indices_that_the_dtype_does_not_hold(dtype):
    index = nd.array([1, 300, 2500, 2501, 2999], dtype="int64")
    expected = np.eye(3000)[index.asnumpy()]
    found = nb.jit(lambda i: nd.one_hot(i, 3000, dtype=dtype))(index)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found.asnumpy(), expected)
    some = nd.array(np.eye(5), dtype=dtype)
    picked = nb.jit(lambda x, i: nd.pick(x, i))(some, nd.array([0, 1, 3, 3, 0], dtype="int64"))
    assert picked.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(picked.asnumpy(), [1, 1, 0, 1, 0])


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_what_has_no_elements_is_not_reduced(name, axis):
    def total(x):
        return nd.sum(getattr(nd, name)(x, axis=axis))

    x = np.zeros((3, 0))
    assert nb.jit(getattr(nd, name))(x).shape == (3, 0)
    assert nb.jit(nb.grad(total))(x).shape == (3, 0)
    assert nb.jit(nb.grad(lambda x: nd.sum(nb.grad(total)(x))))(x).shape == (3, 0)
