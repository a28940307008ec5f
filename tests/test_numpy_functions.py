"""NumPy's functions on NDArrays: ours are called and recorded, or an error says what to do."""

import inspect
import operator

import numpy as np
import pytest
import scipy.special

import nbgrad as nb
from nbgrad import NBGradError, NDArray, autograd, nd
from nbgrad.core.registry import operators
from nbgrad.protocols import numpy_functions

UFUNCS = sorted(
    {
        u.__name__: u
        for m in (np, scipy.special)
        for u in vars(m).values()
        if isinstance(u, np.ufunc) and numpy_functions._operator(u)
    }.items()
)
DOMAIN = {"arccosh": (1.2, 3)}  # elsewhere (0.2, 0.8)
WHOLE_ORDERS = {"expn", "kn", "yn"}


def inputs(name, n):
    low, high = DOMAIN.get(name, (0.2, 0.8))
    return [
        np.linspace(low, high, 6).reshape(2, 3) if k == 0 else np.linspace(high, low, 6).reshape(2, 3) for k in range(n)
    ]


def recorded(call, *arrays):
    """Result and gradients of a call that is recorded."""
    xs = [nd.array(a) for a in arrays]
    for x in xs:
        x.attach_grad()
    with autograd.record():
        y = call(*xs)
    autograd.backward(y)
    return y, [x.grad.asnumpy() for x in xs]


# Ufuncs.


def test_the_table_has_what_it_should():
    names = {name for name, _ in UFUNCS}
    assert names >= {"add", "subtract", "multiply", "divide", "remainder", "floor_divide", "power", "matmul", "divmod"}
    assert names >= {"absolute", "exp", "log1p", "arctan2", "hypot", "maximum", "less", "greater_equal", "not_equal"}
    assert names >= {"logical_and", "logical_not", "isnan", "sign", "rint", "trunc", "deg2rad", "expit", "psi", "erf"}
    called = {e.name for e in operators.values() if hasattr(np, e.name) and isinstance(getattr(np, e.name), np.ufunc)}
    assert called <= names | {"abs"}
    assert not {ufunc for _, ufunc in UFUNCS} & {np.fmod, np.exp2, scipy.special.round}


@pytest.mark.parametrize(("name", "ufunc"), [u for u in UFUNCS if u[0] != "matmul"])
def test_ufuncs_give_numpys_values_and_are_recorded(name, ufunc):
    arrays = inputs(name, ufunc.nin)
    if name in WHOLE_ORDERS:
        arrays[0] = np.arange(6.0).reshape(2, 3)
    y, grads = recorded(ufunc, *arrays)
    for ours, theirs in zip(y if ufunc.nout > 1 else [y], ufunc(*arrays) if ufunc.nout > 1 else [ufunc(*arrays)]):
        assert type(ours) is nd.NDArray
        assert ours.dtype is np.float64
        np.testing.assert_allclose(ours.asnumpy(), theirs, rtol=1e-12)
    if ufunc.nout == 1:
        expected = recorded(numpy_functions._operator(ufunc), *arrays)[1]
        np.testing.assert_array_equal(grads, expected)


def test_scalars_arrays_and_lists_beside_an_array():
    x, a = nd.array([1.0, 2, 3], dtype="float64"), np.array([4.0, 5, 6])
    assert np.add(x, 1).tolist() == [2, 3, 4]
    assert np.add(1, x).tolist() == [2, 3, 4]
    assert np.subtract(10.0, x).tolist() == [9, 8, 7]
    assert np.multiply(a, x).tolist() == [4, 10, 18]
    assert np.subtract([4, 5, 6], x).tolist() == [3, 3, 3]
    assert np.power(x, np.float32(2)).tolist() == [1, 4, 9]
    assert np.less(x, 2).tolist() == [1, 0, 0]
    assert np.matmul(np.eye(3), x).tolist() == [1, 2, 3]
    assert np.matmul(x, np.eye(3)).tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="add"):
        np.add(x, "text")
    with pytest.raises(TypeError):
        np.add(x, np.array(["text"]))


MIXED = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("name", MIXED)
def test_mixed_operators_give_our_arrays(name):
    op = getattr(operator, name)
    a, b = np.array([[1.0, 2], [5, 4]]), np.array([3.0, 2])
    x, y = nd.array(a), nd.array(b)
    for lhs, rhs in ((a, y), (x, b), (np.float64(3), y), (x, np.float32(2)), (np.array(2.0), y)):
        plain = [v.asnumpy() if isinstance(v, nd.NDArray) else v for v in (lhs, rhs)]
        found = op(lhs, rhs)
        assert type(found) is nd.NDArray
        np.testing.assert_allclose(found.asnumpy(), op(*plain), rtol=1e-14)
    if name in MIXED[:7]:
        marked = nd.array(b)
        marked.attach_grad()
        with autograd.record():
            z = op(a, marked)
        z.backward()
        with autograd.record():
            w = op(nd.array(a), marked)
        first = marked.grad.asnumpy()
        w.backward()
        np.testing.assert_array_equal(first, marked.grad.asnumpy())


def test_mixed_matmul_and_divmod():
    a, x = np.arange(6.0).reshape(2, 3), nd.arange(3, dtype="float64")
    assert type(a @ x) is type(x @ a.T) is nd.NDArray
    assert (a @ x).tolist() == (x @ a.T).tolist() == [5, 14]
    assert [r.tolist() for r in divmod(np.array([7.0, 8]), nd.array([2.0, 3]))] == [[3, 2], [1, 2]]


def test_out():
    x, out = nd.array([1.0, 4.0]), nd.zeros(2)
    version = out._cell[0]
    assert np.sqrt(x, out=out) is out
    assert out.tolist() == [1, 2]
    assert out._cell[0] > version
    np.add(x, x, out=(out,))
    assert out.tolist() == [2, 8]
    np.add(np.ones(2, "float32"), np.ones(2, "float32"), out=out)
    assert out.tolist() == [2, 2]
    plain = np.zeros(2)
    assert np.multiply(x, 2, out=plain) is plain
    assert plain.tolist() == [2, 8]
    for wrong in (nd.zeros(3), nd.zeros(2, dtype="float64"), np.zeros(3)):
        with pytest.raises(NBGradError, match="out"):
            np.sqrt(x, out=wrong)
    with pytest.raises(TypeError, match="out's"):
        np.sqrt(x, out=np.zeros(2, "int32"))
    x.attach_grad()
    out = nd.zeros(2)
    with autograd.record():
        np.square(x, out=out)
    out.backward()
    assert x.grad.tolist() == [2, 8]


def test_in_place_into_a_numpy_array():
    a, x = np.ones((2, 2)), nd.array([1.0, 2.0])
    kept = a
    a += x
    a *= nd.full((2, 2), 2)
    assert a is kept
    assert a.tolist() == [[4, 6], [4, 6]]
    with pytest.raises(ValueError, match="does not fit"):
        x_large = np.ones(1)
        x_large += x
    x.attach_grad()
    a += x  # not recording: nothing is lost
    with autograd.record(), pytest.raises(NBGradError, match=r"numpy\.add: the result is recorded"):
        a += x
    with autograd.record():
        a += x.detach()
    assert a.tolist() == [[6, 10], [6, 10]]


def test_what_is_not_supported_says_so():
    x = nd.array([1.0, 2.0])
    cases = [
        (lambda: np.fmod(x, 2), r"numpy\.fmod is no operator of nbgrad; use nd\.modulo"),
        (lambda: np.exp2(x), r"2\*\*x"),
        (lambda: np.signbit(x), r"numpy\.signbit .*asnumpy"),
        (lambda: np.frexp(x), r"numpy\.frexp"),
        (lambda: np.bitwise_and(x, 1), r"numpy\.bitwise_and"),
        (lambda: scipy.special.ellipk(x), "ellipk is no operator"),
        (lambda: scipy.special.round(x), "round is no operator"),
        (lambda: np.add.reduce(x), r"numpy\.add\.reduce .* nd\.sum"),
        (lambda: np.maximum.reduce(x), r"nd\.max"),
        (lambda: np.multiply.accumulate(x), r"nd\.cumprod"),
        (lambda: np.add.outer(x, x), r"numpy\.add\.outer"),
        (lambda: np.add.at(x, [0], 1), r"numpy\.add\.at"),
        (lambda: np.add(x, x, where=[True, False]), "'where' is not supported"),
        (lambda: np.add(x, x, dtype="float64"), "'dtype' is not supported"),
        (lambda: np.frompyfunc(lambda v: v, 1, 1)(x), "is no operator"),
    ]
    for call, says in cases:
        with pytest.raises(TypeError, match=says):
            call()


def test_another_class_with_ufuncs_gets_its_turn():
    class Other:
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            return "other"

    assert np.add(nd.ones(2), Other()) == "other"


# Other functions of NumPy.

M = np.array([[3.0, 1, 2], [0.5, 5, 4]])
FUNCTIONS = [
    (np.sum, (), {"axis": 1}),
    (np.sum, (0,), {}),
    (np.mean, (), {"axis": 0, "keepdims": True}),
    (np.prod, (), {"axis": (0,)}),
    (np.max, (1,), {}),
    (np.amin, (), {"axis": 0}),
    (np.var, (), {"axis": 1, "ddof": 1}),
    (np.std, (0,), {}),
    (np.median, (), {"axis": 1}),
    (np.cumsum, (), {}),
    (np.cumprod, (1,), {}),
    (np.nansum, (0,), {}),
    (np.clip, (1, 3), {}),
    (np.clip, (1, None), {}),
    (np.clip, (None, 2.5), {}),
    (np.transpose, (), {}),
    (np.reshape, ((3, 2),), {}),
    (np.reshape, (-1,), {}),
    (np.reshape, ((3, -1),), {}),
    (np.ravel, (), {}),
    (np.expand_dims, (1,), {}),
    (np.squeeze, (), {}),
    (np.swapaxes, (0, 1), {}),
    (np.moveaxis, (0, 1), {}),
    (np.tile, ((2, 1),), {}),
    (np.repeat, (2, 1), {}),
    (np.roll, (1,), {"axis": 1}),
    (np.tril, (), {"k": 1}),
    (np.triu, (), {}),
    (np.diag, (), {}),
    (np.broadcast_to, ((2, 2, 3),), {}),
    (np.zeros_like, (), {}),
    (np.ones_like, (), {}),
    (np.full_like, (3,), {}),
    (np.dot, (M.T,), {}),
    (np.outer, (M[0],), {}),
    (np.round, (), {}),
    (np.sinc, (), {}),
    (np.copy, (), {}),
    (np.take, ([0, -1, 5],), {}),
    (np.take, (np.array([[1, -2]]),), {"axis": 1}),
    (np.take, ([7, -7], 1), {"mode": "wrap"}),
    (np.flip, (), {}),
    (np.flip, (1,), {}),
    (np.sort, (), {}),
    (np.sort, (0,), {}),
    (np.tensordot, (M.T, 1), {}),
    (np.take_along_axis, (np.array([[1], [0]]), 1), {}),
]


@pytest.mark.parametrize(("function", "args", "kwargs"), FUNCTIONS, ids=lambda v: getattr(v, "__name__", str(v)))
def test_functions_give_numpys_values_and_are_recorded(function, args, kwargs):
    m = M[0] if function is np.outer else M
    expected = function(m, *args, **kwargs)
    x = nd.array(m)
    x.attach_grad()
    with autograd.record():
        y = function(x, *args, **kwargs)
    assert type(y) is nd.NDArray
    assert y.shape == expected.shape
    np.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-13, atol=1e-16)
    if function not in (np.zeros_like, np.ones_like, np.full_like):
        assert y._node is not None


def test_functions_of_several_arrays():
    x, row, a = nd.array(M), nd.array(M[0]), M + 1
    x.attach_grad()
    row.attach_grad()
    for function, given in (
        (np.concatenate, ([x, a],)),
        (np.concatenate, ((a, x), 1)),
        (np.stack, ([x, a, x],)),
        (np.where, (a > 2.5, x, a)),
        (np.dot, (a.T, x)),
        (np.outer, (a[0], row)),
        (np.einsum, ("ij,kj->ik", x, a)),
        (np.tensordot, (a, x, 2)),
    ):
        with autograd.record():
            y = function(*given)
        assert type(y) is nd.NDArray
        assert y._node is not None
        expected = function(*numpy_functions._plain(given))
        np.testing.assert_allclose(y.asnumpy().reshape(expected.shape), expected, rtol=1e-13)
    with autograd.record():
        parts = np.split(x, [1], axis=1)
    assert [p.shape for p in parts] == [(2, 1), (2, 2)]
    assert None not in [p._node for p in parts]


def test_matrix_functions():
    a, b = M @ M.T, np.array([[1.0], [2]])
    x = nd.array(a)
    x.attach_grad()
    la = np.linalg
    for function, more in (
        (la.inv, ()),
        (la.det, ()),
        (la.pinv, ()),
        (la.cholesky, ()),
        (la.solve, (b,)),
        (la.norm, ()),
    ):
        with autograd.record():
            y = function(x, *more)
        assert y._node is not None
        np.testing.assert_allclose(np.squeeze(y.asnumpy()), np.squeeze(function(a, *more)), rtol=1e-12)
    with pytest.raises(ValueError, match="ord"):
        la.norm(x, 2)


def test_full_reductions_keep_our_shape():
    assert np.sum(nd.ones((2, 3))).shape == nd.ones((2, 3)).sum().shape == (1,)
    assert np.sum(nd.ones((2, 3)), dtype="float64").dtype is np.float64


def test_facts_without_a_copy():
    x = nd.ones((2, 0, 3))
    assert (np.shape(x), np.ndim(x), np.size(x), np.size(x, 2)) == ((2, 0, 3), 3, 0, 3)


def test_other_functions_get_numpy_copies():
    x = nd.array(M)
    assert np.allclose(x, M)
    assert np.array_equal(x, M)
    assert type(np.linalg.svd(x)[1]) is np.ndarray
    assert type(np.percentile(x, 50)) is np.float64
    assert np.argmax(x) == 4
    assert np.argsort(x, axis=1).dtype == np.int64
    assert [type(p) for p in np.where(x)] == [np.ndarray] * 2
    np.testing.assert_allclose(x, M)
    assert np.asarray(x).tolist() == M.tolist()


@pytest.mark.parametrize("name", ["partition", "unwrap", "linalg.svd"])
def test_functions_without_a_namesake_are_named_under_jit(name):
    f = operator.attrgetter(name)(np)
    with pytest.raises(nb.errors.TraceError, match=rf"numpy\.{name} is no function of nbgrad, and asks for the num"):
        nb.jit(lambda x: f(x, 1))(nd.array(M))


def test_no_gradient_is_lost_in_a_copy():
    x = nd.array(M)
    x.attach_grad()
    np.percentile(x, 50)  # not recording: nothing is lost
    with autograd.record():
        for call in (
            lambda: np.percentile(x, 50),
            lambda: np.linalg.svd(x),
            lambda: np.linspace(0, x[0], 3),
            lambda: np.average(M, weights=x),
            lambda: np.vstack([M, x]),
        ):
            with pytest.raises(TypeError, match=r"is no function of nbgrad: .* x\.asnumpy\(\)"):
                call()
        assert np.argmax(x) == 4 and np.allclose(x, M)  # nothing to differentiate
        assert np.percentile(x.detach(), 50) == np.percentile(x.asnumpy(), 50)


def test_sharing_is_seen():
    x = nd.ones((2, 2))
    assert np.shares_memory(x, x[0])
    assert np.may_share_memory(np.from_dlpack(x), x)
    assert not np.shares_memory(x, x.copy())


def test_nothing_is_written_into_a_copy():
    x, a = nd.ones((2, 2)), np.zeros((2, 2))
    np.copyto(a, x)
    assert a.all()
    for write in (
        lambda: np.copyto(x, 0),
        lambda: np.fill_diagonal(x, 0),
        lambda: np.put(x, [0], [0]),
        lambda: np.percentile(a, 50, axis=0, out=x),
    ):
        with pytest.raises(TypeError, match="cannot write into an NDArray"):
            write()
    assert x.asnumpy().all()


def test_bad_arguments_of_functions():
    x = nd.array(M)
    with pytest.raises(TypeError):
        np.sum(x, initial=3)
    with pytest.raises(ValueError, match=r"numpy\.reshape"):
        np.reshape(x, (4, -1))
    with pytest.raises(IndexError, match=r"take: index 6"):
        np.take(x, [6])
    with pytest.raises(ValueError, match="order"):
        np.reshape(x, (3, 2), order="F")
    with pytest.raises(ValueError, match="decimals"):
        np.round(x.astype("int64"), -1)
    with pytest.raises(TypeError):
        np.round(x, 1.5)
    assert np.reshape(nd.ones((0, 3)), (3, 0)).shape == (3, 0)


WITH_AXIS = sorted(
    (f for f in numpy_functions._functions if "axis" in inspect.signature(f).parameters), key=lambda f: f.__name__
)


@pytest.mark.parametrize("function", WITH_AXIS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("axis", [(), None, 0, -1])
def test_an_axis_has_numpys_meaning(function, axis):
    """None, too, which has as many meanings as there are functions; whatever NumPy refuses, we do."""
    a = np.array([[3.0, 1.0, 2.5], [2.0, 0.5, 7.0]])
    index = {} if axis == () else {"axis": axis}
    more = {np.take: [[1, 0]], np.repeat: [2], np.split: [2], np.roll: [1], np.expand_dims: [0] if axis == () else []}
    if function is np.take_along_axis:
        more[function] = [np.array([0, 3, 1]) if axis is None else np.array([[1, 0, 0]] if axis == 0 else [[1], [0]])]
    if function is np.squeeze:
        a = a[:, :1] if axis == -1 else a[:1]
    several = function in (np.concatenate, np.stack)

    def call(x):
        return function([x, x + 10] if several else x, *more.get(function, []), **index)

    try:
        expected = call(a)
    except (TypeError, ValueError, IndexError) as err:
        with pytest.raises((TypeError, ValueError, IndexError)):
            call(nd.array(a))
        assert "axis" in str(err) or "integer" in str(err) or "equal division" in str(err)
        return
    found = call(nd.array(a))
    for y, x in zip(found if function is np.split else [found], expected if function is np.split else [expected]):
        if isinstance(y, NDArray):
            assert y.shape == (np.shape(x) or (1,))
            y = y.asnumpy().reshape(np.shape(x))
        np.testing.assert_allclose(y, x, rtol=1e-15)


@pytest.mark.parametrize("digits", [None, 0, 1, 3, -1])
def test_rounding_keeps_digits(digits):
    a = np.array([0.25, -1.75, 15.0, 25.0, 2.675, 0.0])
    given = () if digits is None else (digits,)
    for call in (round, np.round):
        np.testing.assert_array_equal(call(nd.array(a), *given).asnumpy(), np.round(a, *given))
    assert nb.value_and_grad(lambda p: round(p * 2.5, 1) * p)(1.0) == (2.5, 2.5)
