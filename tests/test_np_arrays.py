"""Arrays with NumPy's conventions: their class everywhere, dtypes, operands of both classes, protocols, bad input."""

import copy
import importlib
import itertools
import pickle
import random

import numba
import numpy as np
import pytest

import nbgrad as nb
import nbgrad.np as nbnp
from nbgrad import autograd, nd
from nbgrad.errors import DTypeError, LostGradientError, ShapeError
from nbgrad.np.bits import bit_functions
from nbgrad.np.ufuncs import UFUNCS

X = np.array([0.3, 1.2, -0.5])
D = np.array([1.0, 0.0, 2.0])


def scalar(x):
    return nbnp.sum(nbnp.sin(x) * x**2)


def vector(x):
    return nbnp.stack([x[0] * x[1], nbnp.sum(x), x[2] ** 2])


def step(row, state):
    return row * state, state + row * state


@nb.primitive
@numba.njit
def squares(a):
    s = 0.0
    for i in range(a.size):
        s += a[i] ** 2
    return s


class Square(autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * x

    def backward(self, g):
        (x,) = self.saved_tensors
        return 2 * x * g


TRANSFORMS = {
    "grad": nb.grad(scalar),
    "value_and_grad": nb.value_and_grad(scalar),
    "hessian": nb.hessian(scalar),
    "jacobian": nb.jacobian(vector),
    "hvp": lambda x: nb.hvp(scalar)(x, nbnp.array(D)),
    "jvp": lambda x: nb.jvp(scalar, (x,), (nbnp.array(D),)),
    "vjp": lambda x: nb.vjp(vector, x)[1](nbnp.array(D)),
    "elementwise_grad": nb.elementwise_grad(lambda x: nbnp.sin(x)),
    "foreach": lambda x: nd.contrib.foreach(step, x, nbnp.array(1.0)),
    "grad of foreach": nb.grad(lambda x: nd.contrib.foreach(step, x, nbnp.array(1.0))[1]),
    "cond": lambda x: nd.contrib.cond(x[0] > 0, lambda: x * 2, lambda: x),
    "while_loop": lambda x: nd.contrib.while_loop(
        lambda i, s: i < 3, lambda i, s: ([], [i + 1, s * x]), [nbnp.array(0), x], max_iterations=5
    )[1],
    "checkpoint": nb.grad(lambda x: nb.checkpoint(scalar)(x)),
    "primitive": nb.value_and_grad(lambda x: squares(x)),
    "Function": nb.grad(lambda x: nbnp.sum(Square()(x))),
    "operators of nd": lambda x: nd.gammaln(nbnp.abs(x)) + nd.softmax(x),
}


def leaves(tree):
    return [y for part in tree for y in leaves(part)] if isinstance(tree, tuple | list) else [tree]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_results_have_the_class_of_their_operands(name):
    call = TRANSFORMS[name]
    eager = leaves(call(nbnp.array(X)))
    assert all(type(y) is nbnp.ndarray for y in eager)
    if name in ("jvp", "vjp"):
        return
    compiled = leaves(nb.jit(call)(nbnp.array(X)))
    assert all(type(y) is nbnp.ndarray for y in compiled)
    for a, b in zip(eager, compiled, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-12)


def test_recording():
    x = nbnp.array(X)
    x.attach_grad()
    with autograd.record():
        y = nbnp.sum(x * x)
    y.backward()
    assert type(x.grad) is nbnp.ndarray
    np.testing.assert_array_equal(x.grad.asnumpy(), 2 * X)


def test_conversions_are_recorded():
    x = nbnp.array(X)
    x.attach_grad()
    with autograd.record():
        y = (nbnp.as_nd(x) ** 3).sum()
        assert type(y) is nb.NDArray
        assert y.shape == (1,)
        (g,) = autograd.grad(y, [x], create_graph=True)
        (h,) = autograd.grad(nbnp.sum(g), [x])
    assert type(g) is type(h) is nbnp.ndarray
    np.testing.assert_allclose(h.asnumpy(), 6 * X)
    z = x.as_nd()
    z[0] = 7.0  # the same memory
    assert float(x[0]) == 7.0
    assert nbnp.as_np(x) is x


def test_both_classes():
    x, y = nbnp.array(X), nd.array(X)
    for call in (lambda: x + y, lambda: y * x, lambda: nd.dot(x, y), lambda: nbnp.sin(y), lambda: nbnp.stack([x, y])):
        with pytest.raises(DTypeError, match=r"as_np\(\)"):
            call()


ARRAYS = [np.arange(6.0).reshape(2, 3) + 0.5, np.arange(3.0, dtype=np.float32) + 1, np.arange(1, 4),
          np.arange(1, 7, dtype=np.int32).reshape(2, 3)]  # fmt: skip
SCALARS = [2, 2.5, np.float32(1.5), np.float64(0.5), np.int64(3)]


#: Functions of the bits of integers: tests/test_np_bits.py.
BITS = set(bit_functions(UFUNCS))


@pytest.mark.parametrize("name", [n for n in UFUNCS if hasattr(np, n) and n not in {"reciprocal"} | BITS])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_dtypes_and_values_of_ufuncs(name):
    ufunc, numpy = UFUNCS[name], getattr(np, name)
    for operands in itertools.product(ARRAYS + SCALARS, repeat=ufunc.nin):
        if not any(isinstance(x, np.ndarray) for x in operands):
            continue
        expected = numpy(*operands)
        found = ufunc(*[nbnp.array(x) if isinstance(x, np.ndarray) else x for x in operands])
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        tolerance = 2e-6 if expected.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=tolerance, atol=tolerance / 20)
        again = numpy(*[nbnp.array(x) if isinstance(x, np.ndarray) else x for x in operands])  # by the protocol
        assert type(again) is nbnp.ndarray
        np.testing.assert_array_equal(again.asnumpy(), found.asnumpy())


def test_overflow_of_scalars():
    x = nbnp.array(np.arange(3, dtype=np.uint8))
    with pytest.raises(OverflowError, match="the Python integer 300 does not fit uint8"):
        x + 300
    with pytest.raises(ValueError, match="negative integer powers"):
        nbnp.array([1, 2]) ** -1


def test_protocols():
    x = nbnp.array(X)
    assert type(np.ones(3) * x) is type(np.vstack([x, x])) is type(np.linalg.norm(x)) is nbnp.ndarray
    with pytest.raises(DTypeError, match=r"numpy\.fft\.fft is no function of nbgrad\.np"):
        np.fft.fft(x)
    with pytest.raises(LostGradientError):
        nb.grad(lambda x: float(x[0]) * x[1])(x)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
        assert type(y) is nbnp.ndarray
        np.testing.assert_array_equal(y.asnumpy(), X)
    assert repr(x) == repr(X)
    assert str(x) == str(X)
    assert x.tolist() == X.tolist()
    assert x.item(1) == 1.2
    assert (x.itemsize, x.nbytes, x.ndim, len(x)) == (8, 24, 1, 3)


def test_writing():
    x = nbnp.array(X)
    x[0] = 5.0
    x[x < 0] = 0.0
    x += 1
    np.testing.assert_array_equal(x.asnumpy(), [6.0, 2.2, 1.0])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: nbnp.array([1j]), DTypeError, "complex128 are not supported"),
        (lambda: nbnp.array([object()]), DTypeError, "object are not supported"),
        (lambda: nbnp.array([[1, 2], [3]]), ShapeError, "nested sequences of equal lengths"),
        (lambda: nbnp.sum(None), DTypeError, "sum: an array, a number, or a nested sequence"),
        (lambda: nbnp.sin("a"), DTypeError, "sin: an array, a number, or a nested sequence"),
        (lambda: nbnp.array(X) + None, TypeError, "unsupported operand"),
        (lambda: nbnp.array(X)[nbnp.array([0.0])], IndexError, "integer or bool"),
        (lambda: nbnp.array(X).reshape(2, 2), ShapeError, "Cannot reshape array of size 3"),
        (lambda: nbnp.array(X) & True, DTypeError, "integers and bools have bits"),
        (lambda: nbnp.sin(nbnp.array(X), nbnp.array(X), 3), TypeError, "positional arguments"),
        (lambda: nbnp.subtract.reduce(nbnp.array(X)), DTypeError, "subtract.reduce is not supported"),
        (lambda: nbnp.linalg.inv(nbnp.array(X)), np.linalg.LinAlgError, "square matrices are expected"),
        (lambda: nbnp.ndarray(3), TypeError, r"create arrays by np\.array"),
        (lambda: nbnp.convolve(X, X, "other"), Exception, "the modes are"),
        (lambda: nbnp.max(X, where=X > 0), Exception, "where needs initial"),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_matrices_are_no_operands():
    """Their * is a product of matrices; as arguments and values to copy they are arrays."""
    m = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    for f in (lambda x: m * x, lambda x: x * m, lambda x: nbnp.multiply(x, m)):
        with pytest.raises(DTypeError, match=r"an operand is a numpy.matrix.*pass numpy.asarray\(M\)"):
            f(nbnp.ones((2, 1)))
    assert nbnp.array(m).tolist() == nb.grad(lambda x: nbnp.sum(x * x) / 2)(m).tolist() == m.tolist()


def item_of(choose, rng, n):
    kinds = [
        choose.randrange(-n, n),
        slice(None),
        slice(choose.choice([None, -2, 0, 1, 3]), choose.choice([None, -1, 2, n + 1]), choose.choice([None, 1, 2, -1])),
        None,
        Ellipsis,
        rng.integers(-n, n, size=choose.choice([(2,), (3,), (2, 1), ()])),
        [choose.randrange(n) for _ in range(2)],
        rng.random(n) > 0.5,
    ]
    return choose.choice(kinds)


@pytest.mark.parametrize("seed", range(60))
def test_indices(seed):
    """Reading, writing and the gradient of reading, as NumPy has them; and its errors."""
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    shape = choose.choice([(4,), (3, 4), (2, 3, 4), (1, 3)])
    values = rng.normal(size=shape)
    items = [item_of(choose, rng, shape[min(k, len(shape) - 1)]) for k in range(choose.randint(1, len(shape)))]
    key = tuple(items) if len(items) > 1 else items[0]
    ours = [nbnp.array(k) if isinstance(k, np.ndarray) and choose.random() < 0.5 else k for k in items]
    own_key = tuple(ours) if len(ours) > 1 else ours[0]
    x = nbnp.array(values)
    try:
        expected = values[key]
    except IndexError:
        with pytest.raises(IndexError):
            x[own_key]
        return
    found = x[own_key]
    assert found.shape == np.shape(expected)
    np.testing.assert_array_equal(found.asnumpy(), expected)
    slope = np.zeros(shape)
    np.add.at(slope, key, 2 * expected)
    np.testing.assert_allclose(nb.grad(lambda x: nbnp.sum(x[own_key] ** 2))(x).asnumpy(), slope)
    values[key] = 2.5
    x[own_key] = 2.5
    np.testing.assert_array_equal(x.asnumpy(), values)


@pytest.mark.parametrize(
    "name",
    [n for n in UFUNCS if hasattr(np, n) and n not in {"reciprocal", "conj", "conjugate", "nextafter"} | BITS],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bools(name):
    """Results of bools are NumPy's, or floats of 64 instead of 16 bits; or they are refused."""
    ufunc, numpy = UFUNCS[name], getattr(np, name)
    b, other = np.array([True, False, True]), np.array([[True], [False]])
    for operands in itertools.product([b, other], repeat=ufunc.nin):
        for ours in ([nbnp.array(x) for x in operands], [nbnp.array(operands[0]), *[True] * (ufunc.nin - 1)]):
            given = [x.asnumpy() if isinstance(x, nbnp.ndarray) else x for x in ours]
            try:
                expected = numpy(*given)
            except TypeError:
                expected = None
            if expected is None or expected.dtype == np.int8:
                with pytest.raises(DTypeError, match="operands of dtype bool are not supported"):
                    ufunc(*ours)
                with pytest.raises(DTypeError, match="operands of dtype bool are not supported"):
                    nb.jit(lambda *x: ufunc(*x))(*ours)
                continue
            found = ufunc(*ours)
            assert found.dtype == (np.float64 if expected.dtype == np.float16 else expected.dtype)
            np.testing.assert_allclose(found.asnumpy(), expected, rtol=2e-3, atol=1e-15)


def test_the_other_name_is_the_same_module():
    assert importlib.import_module("nbgrad.numpy") is nbnp
    assert nbnp.pi == np.pi
    assert all(hasattr(nbnp, name) for name in nbnp.__all__)
    assert len(nbnp.__all__) == len(set(nbnp.__all__))


def test_docstrings():
    """Every function says what it does, and what it takes: itself, or that the arguments are NumPy's."""
    for name in nbnp.__all__:
        value = getattr(nbnp, name)
        if callable(value) and not isinstance(value, type) and getattr(np, name, None) is not value:
            doc = value.__doc__
            assert doc and doc[0].strip(), name
            assert "Parameters\n" in doc or "``numpy." in doc or not hasattr(np, name), name
    assert "Gradient: ``g*cos(x)``" in nbnp.sin.__doc__
