"""autograd.grad: new arrays, any order, differentiable head gradients; and that nothing is kept alive by cycles."""

import contextlib
import copy
import gc
import math
import pickle
import weakref

import numpy as np
import pytest
from recording import marked, recorded, values

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.autodiff import tape
from nbgrad.autograd import grad
from nbgrad.core import registry
from nbgrad.operators.entry import lookup
from nbgrad.operators.structured import Spec, structured


def test_one_array_gives_one_and_an_iterable_a_list():
    x, w = marked([1.0, 2]), marked([3.0, 4])
    x.grad[:], w.grad[:] = 7, 8
    y = recorded(lambda: x * w)
    assert values(grad(y, x, retain_graph=True)) == [3, 4]
    found = grad([y], (w, x), retain_graph=True)
    assert isinstance(found, list) and [values(g) for g in found] == [[1, 2], [3, 4]]
    assert [values(g) for g in grad(y, iter([x, x]))] == [[3, 4]] * 2
    assert (values(x.grad), values(w.grad)) == ([7, 7], [8, 8])
    assert not x._fresh_grad


def test_results_are_arrays_of_their_own():
    x, z, h = marked([1.0, 2]), marked([3.0, 4]), nd.array([5.0, 6], dtype="float64")
    for create in (False, True):
        with autograd.record():
            y = x + z
        a, b, c = grad(y, [x, z, x], h, create_graph=create)
        for g in (a, b, c):
            assert values(g) == [5, 6]
            g[:] = 0
        assert values(h) == [5, 6]
    w = nd.array([7.0, 7], dtype="float64")
    y = recorded(lambda: x * w)
    grad(y, x)[:] = 0
    assert values(w) == [7, 7]


def test_requests_do_not_matter():
    for request in ("add", "null"):
        x = marked([3.0], request)
        x.grad[:] = 1
        assert values(grad(recorded(nd.square, x), x)) == [6]
        assert values(x.grad) == [1]


def test_recorded_intermediates_are_variables():
    x = marked([2.0])
    with autograd.record():
        y = x * x
        z = y * y * x
    assert [values(g) for g in grad(z, [y, x], retain_graph=True)] == [[16], [80]]
    (dy,) = grad(z, [y], create_graph=True)
    assert values(dy) == [16]
    assert values(grad(dy, y, retain_graph=True)) == [4]
    assert values(grad(dy, x)) == [24]  # 2yx = 2x^3
    with autograd.record():
        y = x * x
    assert values(grad(y, y, nd.array([5.0]))) == [5]


def test_errors_name_the_variable_and_change_nothing():
    x, other, c = marked([2.0]), marked([1.0]), nd.ones(1)
    y = recorded(lambda: x * x)
    constant = recorded(lambda: c * c)
    for create in (False, True):
        for variables, match in (
            ([x, c], "the 2-th variable because it does not require gradient."),
            ([constant], "the 1-th variable because it does not require gradient."),
            ([x, x, other], "the 3-th variable because it is unreachable from the outputs."),
        ):
            with pytest.raises(nb.MXNetError, match="Cannot differentiate with respect to " + match):
                grad(y, variables, create_graph=create, retain_graph=False)
        with pytest.raises(AssertionError, match=r"variables cannot be an empty list\."):
            grad(y, [], create_graph=create)
        with pytest.raises(TypeError, match="variables"):
            grad(y, [x, 1.0], create_graph=create)
    assert values(x.grad) == [0] and not autograd.is_recording()
    assert values(grad(y, x)) == [4]  # none of the failures freed the graph
    with pytest.raises(nb.MXNetError, match="not in a computational graph"):
        grad(y, x)


def test_retain_graph_defaults_to_create_graph():
    x = marked([2.0])
    y = recorded(lambda: x * x * x)
    first = grad(y, x, create_graph=True)
    assert values(grad(y, x, retain_graph=True)) == [12] == values(first)
    second = grad(first, x, create_graph=True, retain_graph=False)
    assert values(second) == [12]
    with pytest.raises(nb.MXNetError, match="retain_graph"):
        grad(first, x)
    with pytest.raises(nb.MXNetError):
        y.backward()


CASES = {
    "x*x*x*x*x": (lambda x: x * x * x * x * x, lambda n, x: math.perm(5, n) * x ** (5 - n)),
    "sin": (nd.sin, lambda n, x: np.sin(x + n * np.pi / 2)),
    "exp(x).sum()": (lambda x: nd.exp(x).sum(), lambda n, x: np.exp(x)),
    "x/(1+x)": (lambda x: x / (1 + x), lambda n, x: -((-1) ** n) * math.factorial(n) / (1 + x) ** (n + 1)),
    "1/x": (lambda x: 1 / x, lambda n, x: (-1) ** n * math.factorial(n) / x ** (n + 1)),
    "x**3.5": (lambda x: x**3.5, lambda n, x: math.prod(3.5 - k for k in range(n)) * x ** (3.5 - n)),
    "2**x": (lambda x: 2**x, lambda n, x: math.log(2) ** n * 2**x),
    "log": (nd.log, lambda n, x: -((-1) ** n) * math.factorial(n - 1) / x**n),
    "reshape, index, broadcast": (
        lambda x: (nd.exp(x.reshape((3, 1)).broadcast_to((3, 2)))[1:3].T[0] * 1).sum() + nd.exp(x[0:1]).sum(),
        lambda n, x: np.exp(x),
    ),
    "dot": (lambda x: nd.dot(nd.exp(x), nd.ones(3, dtype="float64")), lambda n, x: np.exp(x)),
}


@pytest.mark.parametrize("name", CASES)
def test_orders_one_to_four(name):
    function, expected = CASES[name]
    at = np.array([0.5, 1.25, 2.0])
    x = marked(at)
    y = recorded(function, x)
    for order in range(1, 4):
        y = grad(y, x, create_graph=True)
        np.testing.assert_allclose(y.asnumpy(), expected(order, at), rtol=1e-12)
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), expected(4, at), rtol=1e-12)


def test_a_linear_operator_has_a_zero_second_derivative():
    x = marked([1.0, 2])
    g = grad(recorded(lambda: 3 * x), x, create_graph=True)
    y = recorded(lambda: (g * x).sum())
    assert values(grad(y, x)) == [3, 3]


def test_random_head_gradients_at_every_order():
    rng = np.random.default_rng(0)
    at, h1, h2 = rng.uniform(0.5, 1.5, (3, 4))
    x = marked(at)
    y = recorded(lambda: nd.sin(x * x))
    g = grad(y, [x], head_grads=nd.array(h1), create_graph=True, retain_graph=True)[0]
    np.testing.assert_allclose(g.asnumpy(), h1 * 2 * at * np.cos(at**2), rtol=1e-13)
    g.backward(nd.array(h2))
    second = h1 * h2 * (2 * np.cos(at**2) - 4 * at**2 * np.sin(at**2))
    np.testing.assert_allclose(x.grad.asnumpy(), second, rtol=1e-13)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("inside", [True, False])
def test_head_gradients_are_differentiable(dtype, inside):
    """Forward-mode products by two reverse passes, with a head gradient of the same and of another dtype."""
    x, h = marked([1.0, 2]), marked([0.5, 0.25], dtype=dtype)
    y = recorded(lambda: x * x)
    with autograd.record() if inside else autograd.pause():
        g = grad(y, x, head_grads=h, create_graph=True)
    assert values(g) == [1, 1]
    g.backward()
    assert values(h.grad) == [2, 4] and h.grad.dtype is np.dtype(dtype).type
    assert values(x.grad) == [1, 0.5]


def test_a_hessian_and_a_gradient_penalty():
    rng = np.random.default_rng(1)
    a = rng.normal(size=(3, 3))
    x = marked(rng.normal(size=(3, 1)))
    y = recorded(lambda: nd.dot(nd.dot(x.T, nd.array(a)), x))
    g = grad(y, x, create_graph=True)
    rows = [grad(g, x, nd.array(np.eye(3)[:, k : k + 1]), retain_graph=True).asnumpy()[:, 0] for k in range(3)]
    np.testing.assert_allclose(rows, a + a.T, rtol=1e-13)
    with autograd.record():
        penalty = (g * g).sum()
    penalty.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * (a + a.T) @ ((a + a.T) @ x.asnumpy()), rtol=1e-12)


# Memory.


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize("end", ["drop", "backward", "retain", "grad", "create", "error"])
def test_memory_is_returned_without_the_collector(no_collector, case, end):
    before = alive()
    with autograd.record():
        x, y = graph(case)
    held = [weakref.ref(y), weakref.ref(y._buf), weakref.ref(y._node), weakref.ref(x._buf)]
    if end in ("backward", "retain"):
        y.backward(retain_graph=end == "retain")
    elif end in ("grad", "create"):
        g = grad(y, x, create_graph=end == "create")
        held += [weakref.ref(g), weakref.ref(g._buf)]
        if end == "create":
            held.append(weakref.ref(grad(g, x, create_graph=True)._buf))
        del g
    elif end == "error":
        with contextlib.suppress(ValueError):
            y.backward(nd.ones(17))
    del x, y
    assert [ref() for ref in held] == [None] * len(held)
    assert alive() == before, "nothing of the tape is left, not even in a cycle"


def alive():
    return sum(type(o) in (tape.Node, tape.Leaf, nb.NDArray) for o in gc.get_objects())


def graph(case):
    x = marked(np.ones(3))
    if case == 0:
        return x, x * x + nd.exp(x) / x
    if case == 1:
        return x, nd.dot(x, x) + x[1] + x[[0, 2]].sum() + x.reshape((3, 1)).T.max()
    return x, nd.concat(x, x * x, dim=0)


def test_backward_frees_what_it_has_used(no_collector):
    x = marked(np.ones(3))
    with autograd.record():
        y = nd.exp(x)
        kept = weakref.ref(y._buf)
        z = y * y
        del y
    assert kept() is not None
    z.backward()
    assert kept() is None
    assert values(z.detach() > 0) == [1, 1, 1]


# Copies of arrays outside the tape.


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "uint64", "bool"]
)
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_pickle_and_deepcopy_drop_marks(dtype, shape):
    x = nd.ones(shape, dtype=dtype, ctx=nb.cpu(1))
    x.attach_grad("write" if x._kind.dtype.is_float else "null")
    with autograd.record():
        y = x + 1
    for source in (x, y):
        for again in (copy.deepcopy(source), copy.copy(source), pickle.loads(pickle.dumps(source))):
            assert again.grad is None and again._node is None
            assert (again.shape, again.dtype, again.context) == (source.shape, source.dtype, nb.cpu(1))
            np.testing.assert_array_equal(again.asnumpy(), source.asnumpy())
            again[...] = 0
            assert (source.asnumpy() != 0).all()


# Where differentiating ends.


def nth(f, x, order, create_graph_last=False):
    with autograd.record():
        y = f(x)
        for k in range(1, order + 1):
            y = autograd.grad(y, x, create_graph=k < order or create_graph_last)
    return y


ORDERS_OF_POLYGAMMA = [
    (lambda x: nd.polygamma(168, x), "rpolygamma_scalar", 2),
    (lambda x: nd.polygamma(nd.array([3, 168], dtype="float64"), x), "polygamma", 2),
    (lambda x: nd.polygamma(nd.array([3, 168], dtype="float32"), x.astype("float32")), "polygamma", 2),
    (lambda x: nd.polygamma(nd.array([3, 168], dtype="float16"), x.astype("float16")), "polygamma", 2),
    (lambda x: nd.polygamma(170, x), "rpolygamma_scalar", 0),
]


@pytest.mark.parametrize(("f", "name", "limit"), ORDERS_OF_POLYGAMMA)
def test_an_order_too_high_is_an_error(f, name, limit):
    x = nd.array([2.5, 1.5], dtype="float64")
    x.attach_grad()
    for order in range(1, limit + 1):
        assert nth(f, x, order).shape == x.shape
    message = f"{name}: order {limit + 1} is asked for, but max_order is {limit}"
    with pytest.raises(nb.NBGradError, match=message):
        nth(f, x, limit + 1)
    if limit:
        with pytest.raises(nb.NBGradError, match=message):
            nth(f, x, limit, create_graph_last=True)


def test_an_order_too_high_is_found_before_anything_is_computed():
    x = nd.array([2.5], dtype="float64")
    x.attach_grad()
    with autograd.record():
        y = nd.polygamma(169, x) * x * x
        z = nd.polygamma(170, x)
    with pytest.raises(nb.NBGradError, match="create_graph=True is one more"):
        autograd.grad(y, x, create_graph=True, retain_graph=False)
    y.backward()  # the graph is as it was
    before = x.grad.asscalar()
    assert np.isfinite(before)
    with pytest.raises(nb.NBGradError, match="order 1 is asked for, but max_order is 0"):
        z.backward()
    assert x.grad.asscalar() == before


@pytest.mark.parametrize(("name", "limit"), [("gammaln", 171), ("gamma", 171), ("digamma", 170), ("betaln", 171)])
def test_limits_of_operators(name, limit):
    entry = lookup(name)
    assert entry.max_order == limit == entry.rule.max_order
    assert lookup("sin").max_order is None and lookup("softmax").max_order is None
    assert repr(lookup("polygamma").max_order) == "170 - x0"
    assert entry.rule.partial(0)[0].max_order == limit - 1


def test_limits_of_structured_operators_and_functions(monkeypatch):
    monkeypatch.setattr(registry, "operators", {})
    monkeypatch.setattr(registry, "_names", set())

    @structured("_ends", max_order=lambda times: times)
    def ends(data, times=1):
        return Spec(data._shape, data._kind.dtype, times=times)

    @ends.run
    def _(data, out, *, times):
        out._buf[:] = data._buf

    ends.vjp(data=lambda g, times: ends(g, times=times - 1))

    class Half(autograd.Function):
        max_order = 1

        def forward(self, x):
            return nd.array(x.asnumpy() / 2)

        def backward(self, g):
            return g.asnumpy() / 2

    x = nd.array([1.0, 2.0])
    x.attach_grad()
    for f, name in ((lambda x: ends(x, times=1), "_ends"), (lambda x: Half()(x), "Half")):
        assert nth(f, x, 1).shape == (2,)
        with pytest.raises(nb.NBGradError, match=f"{name}: order 2 is asked for, but max_order is 1"):
            nth(f, x, 1, create_graph_last=True)
    with pytest.raises(nb.NBGradError, match="_ends: order 1 is asked for, but max_order is 0"):
        nth(lambda x: ends(x, times=0), x, 1)
