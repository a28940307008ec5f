"""primitive: functions of NumPy arrays, Numba's among them, with derivatives of one's own."""

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording import marked, recorded, values

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.errors import DTypeError, ShapeError, TraceError

X = np.linspace(0.2, 1.0, 5)


@nb.primitive
@numba.njit
def filtered(x, a, steps):
    """A recurrence: y[i] = x[i] + a*y[i-1], `steps` times; and the last element."""
    y = x.copy()
    for _ in range(steps):
        for i in range(1, len(y)):
            y[i] += a * y[i - 1]
    return y, y[-1]


@filtered.defvjp
@numba.njit
def filtered_vjp(g, result, x, a, steps):
    gy, last = g
    h = gy.copy()
    h[-1] += last
    ga = 0.0
    for s in range(steps - 1, -1, -1):
        y = x.copy()
        for _ in range(s + 1):
            for i in range(1, len(y)):
                y[i] += a * y[i - 1]
        for i in range(len(x) - 1, 0, -1):
            ga += h[i] * y[i - 1]
            h[i - 1] += a * h[i]
    return h, ga


def filtered_nd(x, a, steps):
    """The same with operators."""
    y = [x[i] for i in range(5)]
    for _ in range(steps):
        for i in range(1, 5):
            y[i] = y[i] + a * y[i - 1]
    return nd.stack(*y), y[-1]


sine = nb.primitive(
    np.sin,
    nb.primitive(lambda g, y, x: g * np.cos(x), lambda h, z, g, y, x: (h * np.cos(x), None, -h * g * np.sin(x))),
)


def loss(function):
    def call(x, a):
        y, last = function(x, a, 2)
        return nd.sum(y * y) * last * a

    return call


def everything(f, *args):
    """Value and gradients of a function of x and a, as one vector."""
    value, (gx, ga) = f(*args)
    return np.array([value, *gx, ga])


@given(a=st.floats(-1, 1), scale=st.floats(0.1, 2))
def test_gradients(a, scale):
    found = everything(nb.value_and_grad(loss(filtered), (0, 1)), scale * X, a)
    expected = everything(nb.value_and_grad(loss(filtered_nd), (0, 1)), scale * X, a)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-13)


def test_compiled_and_out_of_python():
    f = nb.value_and_grad(loss(filtered), (0, 1))
    compiled = nb.jit(f)
    native = compiled.njit(X, 0.5)

    @numba.njit
    def descend(x, a, n):
        for _ in range(n):
            _, (gx, ga) = native(x, a)
            x = x - 0.001 * gx
            a -= 0.001 * ga
        return x, a

    for x, a in ((X, 0.5), (-X, 0.25)):
        expected = everything(f, x, a)
        np.testing.assert_allclose(everything(compiled, x, a), expected, rtol=1e-12)
        np.testing.assert_allclose(everything(native, x, a), expected, rtol=1e-12)
    gx = np.empty(5)
    value, (given, ga) = compiled.njit(X, 0.5, out=True)(X, 0.5, gx)
    np.testing.assert_allclose([value, *gx, ga], everything(f, X, 0.5), rtol=1e-12)
    assert given is gx
    x, a = X, 0.5
    for _ in range(3):
        _, (gx, ga) = f(x, a)
        x, a = x - 0.001 * gx, a - 0.001 * ga
    found = descend(X, 0.5, 3)
    np.testing.assert_allclose(found[0], x, rtol=1e-12)
    assert found[1] == pytest.approx(a)


def test_on_the_tape():
    for f in (loss(filtered), nb.jit(loss(filtered))):
        x, a = marked(X), marked(0.5)
        with autograd.record():
            y, z = f(x, a), f(x * 2, a)
        z.backward(retain_graph=True)
        first = values(a.grad)
        y.backward()
        np.testing.assert_allclose(x.grad.asnumpy(), nb.grad(loss(filtered_nd))(X, 0.5), rtol=1e-12)
        z.backward()
        assert values(a.grad) == first


def test_what_is_given_and_what_comes_out():
    y, last = filtered(X, 0.5, 1)
    assert type(y) is np.ndarray and type(last) is float
    y, last = filtered(nd.array(X), 0.5, 1)
    assert type(y) is nb.NDArray and last.shape == () and y._node is None
    assert type(filtered(x=nd.array(X), a=0.5, steps=1)) is tuple
    assert filtered.__name__ == "filtered" and "recurrence" in filtered.__doc__ and "filtered" in repr(filtered)
    single = nb.primitive(lambda x: x * 2, lambda g, y, x: 2 * g)
    x = marked(np.ones((2, 3)), dtype="float32")
    y = recorded(single, x)
    assert y.dtype is np.float32 and y.shape == (2, 3)
    y.backward()
    assert x.grad.dtype is np.float32 and values(x.grad) == [[2] * 3] * 2
    half = nb.grad(lambda x: nd.sum(single(x)))(np.ones(2, "float16"))
    assert half.dtype == np.float16 and half.tolist() == [2, 2]


def test_trees_of_arguments():
    weighted = nb.primitive(
        lambda xs, k: [k * x for x in xs],
        lambda g, r, xs, k: ([k * h for h in g], sum(np.sum(h * x) for h, x in zip(g, xs))),
    )

    def f(x, y, k):
        a, b = weighted((x, y), k)
        return nd.sum(a * a) + nd.sum(b)

    expected = (18 * X, np.full(2, 3.0), 2 * 3 * np.sum(X * X) + 2)
    for g in (nb.grad(f, (0, 1, 2)), nb.jit(nb.grad(f, (0, 1, 2)))):
        for found, right in zip(g(X, np.ones(2), 3.0), expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-12)


def test_higher_orders():
    def f(x):
        return nd.sum(sine(x) * x)

    def reference(x):
        return nd.sum(nd.sin(x) * x)

    for transform in (nb.hessian, lambda f: nb.grad(lambda z: nd.sum(nb.grad(f)(z) ** 2))):
        for x in (X, -X):
            expected = transform(reference)(x)
            np.testing.assert_allclose(transform(f)(x), expected, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(nb.jit(transform(f))(x), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(nb.jvp(sine, (X,), (X,))[1], X * np.cos(X))
    x = marked(X)
    with autograd.record():
        first = autograd.grad(nb.jit(f)(x), x, create_graph=True)
    first.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * np.cos(X) - X * np.sin(X), rtol=1e-12)


def test_where_derivatives_end():
    assert (filtered.order, sine.order) == (1, 2)
    with pytest.raises(nb.NBGradError, match="filtered: order 2 is asked for, but max_order is 1"):
        nb.hessian(loss(filtered))(X, 0.5)
    with pytest.raises(nb.NBGradError, match="filtered: order 2 is asked for, but max_order is 1"):
        nb.jit(nb.hessian(loss(filtered)))(X, 0.5)
    cubic = lambda x: nd.sum(nb.hessian(lambda x: nd.sum(sine(x)))(x))  # noqa: E731
    with pytest.raises(nb.NBGradError, match="order 2 is asked for"):
        nb.grad(cubic)(X)
    none = nb.primitive(np.sin)
    assert none(nd.array(X)).shape == (5,) and none.order == 0
    for f in (nb.grad, lambda f: nb.jit(nb.grad(f))):
        with pytest.raises(nb.NBGradError, match=r"sin: it has no derivative; give one, .*@sin.defvjp"):
            f(lambda x: nd.sum(none(x)))(X)
    exponential = nb.primitive(np.exp)
    exponential.defvjp(product := nb.primitive(lambda g, y, x: g * y))
    product.defvjp(lambda h, z, g, y, x: (h * y, h * g, None))
    assert exponential.order == 2
    product.defvjp(product)
    assert exponential.order == np.inf


@pytest.mark.parametrize(
    ("vjp", "error", "match"),
    [
        (
            lambda g, y, x, n: (g, None, g),
            nb.NBGradError,
            r"double.vjp: it gave 3 cotangents, but there are 2 argument",
        ),
        (lambda g, y, x, n: (), nb.NBGradError, "double.vjp: there is no cotangent for argument 0"),
        (lambda g, y, x, n: g[:2], ShapeError, r"cotangent of argument 0 has shape \(2,\), the argument .*\(5,\)"),
        (lambda g, y, x, n: 1.0, ShapeError, r"cotangent of argument 0 has shape \(\)"),
        (lambda g, y, x, n: "g", DTypeError, "must be an array of real numbers, a number or None, got 'g'"),
        (lambda g, y, x, n: g * 1j, DTypeError, "got an array of dtype complex128"),
    ],
)
@pytest.mark.parametrize("compiled", [False, True])
def test_wrong_cotangents(vjp, error, match, compiled):
    def double(x, n):
        return n * x

    made = nb.primitive(double, vjp)
    x = marked(X, "add")
    with autograd.record():
        y = (nb.jit(made) if compiled else made)(x, 2)
    with pytest.raises(error, match=match):
        y.backward()
    assert values(x.grad) == [0] * 5 and not x._fresh_grad


def test_zero_cotangents_and_what_needs_none():
    made = nb.primitive(lambda x, n, k: (x * n, k), lambda g, y, x, n, k: None)
    k = nd.array([1, 2], dtype="int32")
    for f in (made, nb.jit(made)):
        x = marked(X)
        with autograd.record():
            y, same = f(x, 2, k)
        assert same._node is None and values(same) == [1, 2]
        y.backward()
        assert values(x.grad) == [0] * 5


@pytest.mark.parametrize("result", ["text", None, np.array(["a"]), 1j * X])
def test_wrong_results(result):
    def forward(x):
        return result

    for f in (nb.primitive(forward), nb.jit(nb.primitive(forward, infer=lambda x: x))):
        with pytest.raises(DTypeError, match="forward: result 0 must be an array of real numbers or a number"):
            f(nd.array(X))


def test_results_of_dtypes_that_arrays_do_not_have():
    with pytest.raises(DTypeError, match=r"result 0: dtype .*float128.* is not supported"):
        nb.primitive(lambda x: x.astype(np.longdouble))(nd.array(X))


def test_numba_has_no_float16():
    for f in (filtered, nb.jit(filtered)):
        with pytest.raises(DTypeError, match="filtered: Numba has no arrays of float16"):
            f(nd.array(X, dtype="float16"), 0.5, 1)


def test_arguments_that_are_no_arrays():
    def chosen(x, how, factors, nothing):
        assert nothing is None
        return x * factors["a"] if how == "times" else x

    made = nb.primitive(chosen, lambda g, y, x, how, factors, nothing: (g * factors["a"], "any"))
    for f in (made, nb.jit(made)):
        gradient = nb.grad(lambda x: nd.sum(f(x, "times", {"a": 3}, None)))  # noqa: B023
        assert gradient(X).tolist() == [3] * 5

    @nb.primitive
    @numba.njit
    def some(xs, n, nothing):
        return xs[0] * n if nothing is None else xs[1]

    assert nb.jit(lambda x: some((x, x), 2, None)).njit(X)(X).tolist() == (2 * X).tolist()


def test_what_is_no_function():
    for made in (lambda: nb.primitive("x"), lambda: nb.primitive(np.sin, "x"), lambda: nb.primitive(np.sin).defvjp(1)):
        with pytest.raises(DTypeError, match="must be a function"):
            made()

    def items(x):
        yield x

    async def later(x):
        return x

    for wrong in (items, later):
        with pytest.raises(DTypeError, match=r"primitive: vjp must return its results; .* is async or yields them"):
            nb.primitive(np.sin, wrong)


def test_what_comes_out_while_tracing():
    def some(x):
        return x[x > 0.45]

    assert nb.primitive(some)(nd.array(X)).shape == (3,)
    f = nb.jit(nb.primitive(some))
    with pytest.raises(ShapeError, match=r"some: result 0 is .* of shape \(3,\), but was .*\(5,\) when"):
        f(nd.array(X))
    native = nb.jit(nb.primitive(numba.njit(some))).njit(np.ones(5))
    assert native(np.ones(5)).tolist() == [1] * 5
    with pytest.raises(ValueError, match=r"some: an array of another shape than \(5,\) came out"):
        native(X)
    assert nb.jit(nb.primitive(some, infer=lambda x: ((3,), x.dtype)))(X).tolist() == X[2:].tolist()

    @nb.primitive(infer=lambda x: x)
    def picky(x):
        if x[0] == 0.5:
            raise ValueError("no samples, please")
        return x * 2

    np.testing.assert_array_equal(nb.jit(picky)(X), 2 * X)
    picky.infer = None
    with pytest.raises(TraceError, match=r"picky: what it gives is unknown .*no samples, please"):
        nb.jit(picky)(X)


def test_nobody_else_has_the_results():
    kept = np.ones(3)
    made = nb.primitive(lambda x: kept, lambda g, y, x: kept)
    x = marked(np.zeros(3))
    with autograd.record():
        y = made(x)
        z = y * 2 + y
    z.backward(nd.array([5.0, 5, 5]))
    y += 1
    autograd.grad(recorded(lambda: made(x) + x), x)[:] = 7
    assert kept.tolist() == [1, 1, 1]
    same = nb.primitive(lambda x: x, lambda g, y, x: g)
    z = recorded(same, x)
    z += 1
    assert values(x) == [0, 0, 0]


def test_a_changed_argument():
    x = marked(X)
    y = recorded(sine, x)
    x += 1
    with pytest.raises(nb.NBGradError, match="changed in place"):
        y.backward()


def test_numpy_arguments_are_constants_that_may_change():
    made = nb.primitive(lambda x, w: x * w, lambda g, y, x, w: g * w)
    x, w = marked(X), np.ones(5)
    y = recorded(made, x, w)
    w[:] = 5
    y.backward()
    assert values(x.grad) == [1] * 5


def test_inside_loops():
    def f(x):
        step = lambda r, s: (sine(r) * s, s + sine(sine(r)))  # noqa: E731
        return nd.sum(nd.contrib.foreach(step, nd.reshape(x, (5, 1)), nd.ones(1, dtype="float64"))[0])

    np.testing.assert_allclose(nb.jit(nb.grad(f))(X), nb.grad(f)(X), rtol=1e-12)
