"""primitive without a vjp: the derivative of a function with loops is that of its adjoint."""

import contextlib
import functools
from dataclasses import dataclass

import numba
import numpy as np
import pytest
from loop_programs import copies, examples, floats, plain_module

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.errors import AttrError, DTypeError, TraceError
from nbgrad.loops import differentiable_operator, variants

X = np.linspace(0.2, 1.0, 5)
PROGRAMS = examples()


def filtered(x, a, steps):
    """A recurrence: y[i] = x[i] + a*y[i-1], `steps` times; and the last element."""
    y = x.copy()
    for _ in range(steps):
        for i in range(1, len(y)):
            y[i] += a * y[i - 1]
    return y, y[-1]


def filtered_nd(x, a, steps):
    """The same with operators."""
    y = [x[i] for i in range(5)]
    for _ in range(steps):
        for i in range(1, 5):
            y[i] = y[i] + a * y[i - 1]
    return nd.stack(*y), y[-1]


def decay(u, counts, rate):
    """Change a vector of floats and one of integers."""
    total = 0.0
    for i in range(1, u.size):
        u[i] -= rate * u[i] * u[i - 1]
        counts[i] += 1
        total += u[i]
    return total


def only_writes(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[i]


native = nb.primitive(numba.njit(filtered))


@pytest.fixture
def uncompiled(monkeypatch):
    monkeypatch.setattr(differentiable_operator, "module", plain_module)
    monkeypatch.setattr(variants, "compiled_module", plain_module)


def loss(function):
    def call(x, a):
        y, last = function(x, a, 2)
        return nd.sum(y * y) * last * a

    return call


def test_gradients_as_those_of_operators():
    f = nb.value_and_grad(loss(native), (0, 1))
    value, (gx, ga) = nb.value_and_grad(loss(filtered_nd), (0, 1))(X, 0.5)
    for g in (f, nb.jit(f).njit(X, 0.5)):
        found, (x_bar, a_bar) = g(X, 0.5)
        np.testing.assert_allclose([found, a_bar, *x_bar], [value, ga, *gx], rtol=1e-12)
    x, a = nd.array(X, dtype="float32"), nd.array(0.5)  # float32; and only one of them is differentiated
    x.attach_grad()
    with autograd.record():
        y = loss(native)(x, a)
    y.backward()
    assert x.grad.dtype == np.float32
    np.testing.assert_allclose(x.grad.asnumpy(), gx, rtol=1e-5)


def test_defaults(uncompiled):
    @nb.primitive
    def scaled(x, s=3.0, n=2):
        total = 0.0
        for v in x:
            total += s * v**n
        return total

    x = np.array([1.0, 2.0])
    for args in ((), (2.0,), (2.0, 3), (2,)):
        s, n = (*args, *(3.0, 2)[len(args) :])
        np.testing.assert_allclose(nb.grad(lambda x, args=args: scaled(x, *args))(x), s * n * x ** (n - 1))
    np.testing.assert_allclose(nb.grad(lambda x: scaled(x, n=3))(x), 9.0 * x**2)


def test_parameters_given_by_name_only(uncompiled):
    @nb.primitive
    def powers(x, *, n=3):
        return np.sum(x**n)

    ruled = nb.primitive(lambda x, *, n: x**n, lambda g, y, x, n: g * n * x ** (n - 1))
    for f, x in (
        (powers, X),
        (ruled, X),
        (nb.primitive(ruled.forward, lambda g, y, x, *, n: ruled.vjp(g, y, x, n)), X),
    ):
        for n in (2, 4):
            loss = lambda x, f=f, n=n: nd.sum(f(x, n=n))  # noqa: E731
            for gradient in (nb.grad(loss), nb.jit(nb.grad(loss))):
                np.testing.assert_allclose(gradient(x), n * x ** (n - 1), rtol=1e-12)
            np.testing.assert_array_equal(f(x, n=n), f.forward(x, n=n))
    np.testing.assert_allclose(nb.grad(powers)(X), 3 * X**2, rtol=1e-12)
    with pytest.raises(TypeError, match="unexpected keyword argument 'm'"):
        powers(nd.array(X), m=2)
    with pytest.raises(AttrError, match=r"<lambda>: there is no parameter for m; give it one"):
        nb.primitive(lambda x, **options: x)(nd.array(X), m=2)


def wrapped(f):
    @functools.wraps(f)
    def twice(x):
        return 2.0 * f(x)

    return twice


@wrapped
def squared(x):
    return x * x


def test_a_decorated_function_is_what_is_called(uncompiled):
    def calls(x):
        return squared(x) + 1.0

    assert nb.adjoint(squared).value_and_grad(3.0) == (18.0, (12.0,))
    assert nb.adjoint(calls).value_and_grad(3.0) == (19.0, (12.0,))
    assert nb.grad(nb.primitive(squared))(np.float64(3.0)) == 12.0


def test_every_order(uncompiled):
    def cubic(function):
        return lambda x, a: nd.sum(nb.hessian(loss(function))(x, a) ** 2)

    f, g = (cubic(h) for h in (nb.primitive(filtered), filtered_nd))
    np.testing.assert_allclose(nb.grad(f)(X, 0.5), nb.grad(g)(X, 0.5), rtol=1e-10)
    (found,), (expected,) = (nb.jvp(loss(h), (X, 0.5), (X, 1.0))[1:] for h in (nb.primitive(filtered), filtered_nd))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert nb.primitive(filtered).order == np.inf and nb.primitive(np.sin).order == 0


def test_inside_loops():
    def f(x, a):
        _, last = nd.contrib.foreach(lambda row, s: (row, s + native(row, a, 1)[1] ** 2), x, a * 0)
        return last

    x = np.stack([X, X * X])
    expected = sum(nb.grad(lambda x, a: filtered_nd(x, a, 1)[1] ** 2, 1)(row, 0.5) for row in x)
    for g in (nb.grad(f, 1), nb.jit(nb.grad(f, 1))):
        assert g(x, 0.5) == pytest.approx(float(expected))


def test_what_is_written_is_copied_and_comes_after_the_results(uncompiled):
    f = nb.primitive(decay)
    u, counts = nd.array(X, dtype="float64"), nd.array(np.arange(5), dtype="int64")
    total, after, counted = f(u, counts, 0.3)
    expected, n = X.copy(), np.arange(5)
    assert float(total.asscalar()) == decay(expected, n, 0.3)
    np.testing.assert_array_equal(after.asnumpy(), expected)
    np.testing.assert_array_equal(counted.asnumpy(), n)
    np.testing.assert_array_equal(u.asnumpy(), X)
    np.testing.assert_array_equal(counts.asnumpy(), np.arange(5))

    def both(u, rate):
        total, after, _ = f(u, counts, rate)
        return total + nd.sum(after * after)

    slope = nb.grad(both, 1)(X, 0.3)
    up, down = (float(both(u, nd.array(0.3 + h, dtype="float64")).asnumpy().ravel()[0]) for h in (1e-6, -1e-6))
    assert slope == pytest.approx((up - down) / 2e-6)
    (squares,) = [nb.primitive(only_writes)(u, nd.zeros(5, dtype="float64"))]
    np.testing.assert_array_equal(squares.asnumpy(), X * X)
    u, n = X.copy(), np.arange(5)
    assert isinstance(f(u, n, 0.3), float)  # without NDArrays the call is that of the function itself
    np.testing.assert_array_equal(u, expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_examples(name, uncompiled):
    f, args = PROGRAMS[name]
    pull = nb.adjoint(f).vjp(*copies(args))
    rng = np.random.default_rng(1)
    operation = nb.primitive(f)
    given = [
        nd.array(a, dtype=a.dtype if isinstance(a, np.ndarray) else "float64") if k in floats(args) else a
        for k, a in enumerate(args)
    ]
    for x in (given[k] for k in floats(args)):
        x.attach_grad()
    with autograd.record():
        outs = operation(*given)
        outs = outs if isinstance(outs, tuple) else (outs,)
        weights = [rng.normal(size=y.shape) for y in outs]
        total = sum(nd.sum(y * nd.array(w, dtype="float64")) for y, w in zip(outs, weights, strict=True))
    total.backward()
    expected = pull(tuple(w if w.shape else float(w) for w in weights))
    assert [k for k, g in enumerate(expected) if g is not None] == floats(args)
    for k in floats(args):
        g = expected[k]
        np.testing.assert_allclose(given[k].grad.asnumpy(), g, rtol=1e-12, atol=1e-14)


def test_what_has_no_derivative_says_why():
    @nb.primitive
    def careful(x):
        with contextlib.suppress(KeyError):
            return x * 2

    assert careful(nd.array(X)).shape == (5,) and careful.order == 0
    with pytest.raises(
        nb.NBGradError, match=r"careful: it has no derivative; give one.*test_adjoint_primitive.py, line \d+: With"
    ):
        nb.grad(lambda x: nd.sum(careful(x)))(X)
    pairs = nb.primitive(lambda x: x[0] * x[1])
    with pytest.raises(nb.NBGradError, match=r"argument x is a list \(pass np.array"):
        nb.grad(lambda x: nd.sum(pairs([x, x])))(X)
    with pytest.raises(DTypeError, match="filtered: Numba has no arrays of float16"):
        native(nd.array(X, dtype="float16"), 0.5, 1)


def test_a_vjp_given_later_counts():
    f = nb.primitive(lambda x: x * 2)
    f.defvjp(lambda g, y, x: g * 7)
    assert f.order == 1
    np.testing.assert_array_equal(nb.grad(lambda x: nd.sum(f(x)))(X), np.full(5, 7.0))


@nb.primitive
@numba.njit
def logistic(x, a):
    return 1.0 / (1.0 + np.exp(-a * x))


@logistic.defvjp
@numba.njit
def logistic_vjp(g, y, x, a):
    return 2.0 * g * a * y * (1.0 - y), None  # twice the derivative, to tell it from the generated one


@nb.primitive
def squares(v, n):
    s = 0.0
    for i in range(n):
        s += v[i] * v[i]
    return s


def with_primitives(v, a):
    s = 0.0
    for i in range(1, v.size):
        v[i] = logistic(v[i] * v[i - 1], a)
        s += squares(v, i)
    return s


@nb.primitive
@numba.njit
def cube(x, a):
    return a * x**3


@cube.defvjp
@numba.njit
def cube_vjp(g, y, x, a):
    return 3.0 * g * a * x * x, None


def test_second_derivatives_are_those_of_the_rule():
    def total(v, a):
        s = 0.0
        for i in range(v.size):
            s += cube(v[i], a)
        return s

    v, d = np.array([0.3, 0.5, 0.7]), np.array([1.0, -2.0, 0.5])
    of_v, of_a = nb.adjoint(total).hvp((v, 2.0), (d, 0.3))
    np.testing.assert_allclose(of_v, 12 * v * d + 0.3 * 3 * v**2, rtol=1e-14)
    assert of_a == 0  # what a rule gives None for counts as a constant


def test_primitives_in_functions_that_are_differentiated():
    v, a = np.array([0.3, 0.5, 0.7]), 2.0
    adj = nb.adjoint(with_primitives)
    value, (v_bar, a_bar) = adj.value_and_grad(v.copy(), a)
    y = 1 / (1 + np.exp(-a * 0.15))
    assert value == pytest.approx(2 * 0.09 + y * y)
    slope = 2 * y * 2 * a * y * (1 - y)
    np.testing.assert_allclose(v_bar, [4 * 0.3 + slope * 0.5, slope * 0.3, 0], rtol=1e-14)
    assert a_bar == 0
    assert "from nbgrad.loops.custom_rules import logistic_vjp" in adj.source
    function = logistic.forward

    def plainly(x):
        return function(x, 2.0)

    y = plainly(0.3)  # the primitive's plain function has its own derivative
    assert nb.adjoint(plainly).value_and_grad(0.3)[1][0] == pytest.approx(2 * y * (1 - y))
    plain = nb.primitive(lambda x: x * x, lambda g, y, x: 2 * g * x)

    def python(x):
        return plain(x)

    with pytest.raises(TraceError, match="plain, a primitive that is not compiled, or whose vjp is not"):
        nb.adjoint(python)


FACTOR = 2.0


def times_factor(x):
    total = 0.0
    for i in range(x.size):
        total += _factor() * x[i] ** 2
    return total


def _factor():
    return FACTOR


@pytest.mark.parametrize("compiled", [False, True], ids=["python", "njit"])
def test_values_and_gradients_have_the_constants_of_one_moment(compiled, monkeypatch):
    f = numba.njit(times_factor) if compiled else times_factor
    monkeypatch.setitem(globals(), "_factor", numba.njit(_factor) if compiled else _factor)
    x = nd.array([1.0, 2.0], dtype="float64")
    assert f(x.asnumpy()) == 10.0  # compiled by Numba with this factor
    made = nb.primitive(f)
    for factor in (3.0, 5.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        value, gradient = nb.value_and_grad(made)(x)
        np.testing.assert_allclose(gradient.asnumpy(), 2 * value.asnumpy() / 5 * x.asnumpy())
        assert value == (15.0 if compiled else 5 * factor)  # Numba freezes constants when it compiles


TABLE = np.array([1.0, 2.0])


def weighed(x):
    total = 0.0
    for i in range(x.size):
        total += TABLE[i] * x[i]
    return total


def test_constants_that_change_in_place_or_in_closures_are_read_again(monkeypatch):
    scale = 2.0

    def scaled(x):
        total = 0.0
        for i in range(x.size):
            total += scale * x[i]
        return total

    monkeypatch.setitem(globals(), "TABLE", TABLE.copy())
    x = np.ones(2)
    for f in (weighed, scaled):
        made = nb.primitive(f)
        for _ in range(2):
            value, gradient = nb.value_and_grad(lambda x, made=made: made(x))(x)
            assert value == made(x) == f(x)
            np.testing.assert_allclose(gradient, TABLE if f is weighed else scale)
            TABLE[0] = 4.0
            scale = 7.0


class Settings:
    rate = 2.0


def rated(x):
    total = 0.0
    for i in range(x.size):
        total += Settings.rate * x[i] * LATER  # noqa: F821
    return total


def test_constants_of_classes_and_constants_that_come_later(monkeypatch):
    made, x = nb.primitive(rated), np.ones(2)
    with pytest.raises(NameError, match="LATER"):
        nb.value_and_grad(lambda x: made(x))(x)
    monkeypatch.setitem(globals(), "LATER", 3.0)
    for rate in (2.0, 7.0):
        monkeypatch.setattr(Settings, "rate", rate)
        value, gradient = nb.value_and_grad(lambda x: made(x))(x)
        assert value == made(x) == 6 * rate
        np.testing.assert_allclose(gradient, 3 * rate)


@dataclass(frozen=True)
class Weighted:
    """Frozen, and so with the hash of its fields; arrays have none."""

    weights: np.ndarray

    def __call__(self, x):
        return self.weights * x


class Unhashable(Weighted):
    def __hash__(self):
        raise ValueError("whatever users raise")


@pytest.mark.parametrize("made", [Weighted, Unhashable])
def test_functions_without_a_hash(made):
    weighted = made(np.arange(5.0))
    with pytest.raises((TypeError, ValueError), match=r"unhashable|whatever"):
        hash(weighted)
    with pytest.raises(TraceError, match="weighted has no derivative here"):
        nb.adjoint(lambda x: np.sum(weighted(x)))
    g = nb.adjoint(lambda x: np.sum(weighted.weights * x * x)).value_and_grad(X.copy())[1][0]
    np.testing.assert_allclose(g, 2.0 * np.arange(5.0) * X)
