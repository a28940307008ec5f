"""What is not taken is said at once: what was given, what was expected, what to do."""

import math

import numpy as np
import pytest
import scipy.sparse

import nbgrad as nb
from nbgrad import autograd, errors, nd

X = np.array([0.5, 1.5, 2.5])
M = np.array([[2.0, 1.0], [1.0, 3.0]])


class DataFrame:
    """What pandas has: an array can be made of it, it is printed in several lines, and cannot be hashed."""

    __hash__ = None

    def __init__(self, values):
        self.values = values

    def to_numpy(self):
        return self.values

    def __array__(self, dtype=None, copy=None):
        return self.values

    def __repr__(self):
        return "\n".join(map(str, self.values))


class Series(DataFrame):
    """This has a dtype, as a DataArray of xarray does."""

    @property
    def dtype(self):
        return self.values.dtype


FOREIGN = [Series(X), DataFrame(X)]


def squares(x):
    return nd.sum(x * x)


def sum_of_squares(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    return total


def recorded(values=X):
    x = nd.array(values)
    x.attach_grad()
    return x


class TestArraysOfOtherLibraries:
    @pytest.mark.parametrize("given", FOREIGN, ids=lambda x: type(x).__name__)
    @pytest.mark.parametrize(
        "call",
        [
            lambda x: nb.grad(squares)(x),
            lambda x: nb.value_and_grad(lambda p: squares(p["w"]))({"w": x}),
            lambda x: nb.jacobian(nd.sin)(x),
            lambda x: nb.adjoint(sum_of_squares).value_and_grad(x),
            lambda x: nd.sin(x),
            lambda x: nd.dot(nd.array(M), x),
            lambda x: nd.array(X) * x,
        ],
    )
    def test_to_numpy_is_what_to_do(self, call, given):
        with pytest.raises(errors.DTypeError, match=r"x\.to_numpy\(\)") as found:
            call(given)
        assert type(given).__name__ in str(found.value) and "\n" not in str(found.value)

    @pytest.mark.parametrize("given", FOREIGN, ids=lambda x: type(x).__name__)
    def test_as_a_static_argument(self, given):
        with pytest.raises(errors.DTypeError, match=r"cannot be hashed: unhashable type: '\w+'; pass x\.to_numpy\(\)"):
            nb.jit(squares)(given)


class TestFunctionsOfOtherLibraries:
    @pytest.mark.parametrize(
        ("call", "instead"),
        [
            (lambda x: np.linalg.slogdet(x), r"numpy\.linalg\.slogdet is no function .* use nd\.linalg\.slogdet,"),
            (lambda x: np.linalg.svd(x), r"numpy\.linalg\.svd is no function .* use nd\.linalg\.svd,"),
            (lambda x: np.linalg.eigvalsh(x), r"numpy\.linalg\.eigvalsh is no function .* use nd\.linalg\.eigh,"),
            (lambda x: np.pad(x, 1), r"numpy\.pad is no function .* use nd\.pad,"),
            (lambda x: np.vstack([x, x]), r"numpy\.vstack is no function .* use nd\.concat,"),
            (lambda x: np.fft.fft(x), r"numpy\.fft\.fft is no function .* use functions of nd,"),
            (lambda x: scipy.linalg.expm(x), r"numpy\.asarray\(x\), .* lost: use nd\.linalg\.expm instead of"),
            (lambda x: scipy.special.softmax(x), r"numpy\.asarray\(x\), .* lost: use nd\.softmax instead of"),
            (lambda x: np.asarray(x), r"numpy\.asarray\(x\), .* lost: use functions of nd instead of"),
        ],
    )
    def test_ours_is_named(self, call, instead):
        x = recorded(M)
        with autograd.record(), pytest.raises(errors.LostGradientError, match=instead):
            call(2 * x)


def assigned(b, x):
    b[0] = x[0]


def added(b, x):
    b += x


@pytest.mark.parametrize("write", [assigned, added])
def test_writes_of_recorded_values_say_what_to_do(write):
    x, b = recorded(), nd.zeros(3, dtype="float64")
    with autograd.record(), pytest.raises(errors.NBGradError, match=r"nd\.stack, nd\.concat.*autograd\.pause\(\)"):
        write(b, 2 * x)
    assert b.asnumpy().tolist() == [0, 0, 0]
    with autograd.record(), pytest.raises(errors.NBGradError, match=r"compute a new array .*nd\.stack, nd\.concat"):
        write(x, 2 * b)
    assert x.asnumpy().tolist() == X.tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (M, r"got a NumPy array of dtype float64 and shape \(2, 2\); pass nd\.array\(x\), or nd\.from_numpy\(x\)"),
        ([1.0, 2.0], r"got \[1\.0, 2\.0\]; pass nd\.array\(x\)$"),
        (list(range(1000)), r"got \[0, 1, .* \.\.\. \(a list\); pass nd\.array\(x\)$"),
        (None, r"got None$"),
    ],
)
def test_what_is_no_ndarray(given, message):
    with pytest.raises(errors.DTypeError, match=f"dot: Argument lhs must have NDArray type, but {message}"):
        nd.dot(given, nd.array(M))


def test_adjoints_and_tangents_are_called_by_their_methods():
    adjoint, tangent = nb.adjoint(sum_of_squares), nb.tangent(sum_of_squares)
    with pytest.raises(TypeError, match=r"<adjoint of sum_of_squares> is called by .*\.value_and_grad\(\.\.\.\)"):
        adjoint(X)
    with pytest.raises(AttributeError, match=r"^Adjoint has no 'grad'; its methods are \.value_and_grad"):
        adjoint.grad(X)
    with pytest.raises(TypeError, match=r"<tangent of sum_of_squares> is called by its methods: \.jvp\("):
        tangent(X)
    assert not hasattr(adjoint, "forward")


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x, y: x & y, "&.* use nd.logical_and"),
        (lambda x, y: True | x, "|.* use nd.logical_or"),
        (lambda x, y: x.asnumpy() ^ y, "numpy.bitwise_xor is no operator of nbgrad; use nd.logical_xor"),
        (lambda x, y: ~x, "~.* use nd.logical_not"),
        (lambda x, y: np.bitwise_and(x, y), "numpy.bitwise_and is no operator of nbgrad; use nd.logical_and"),
    ],
)
def test_operators_on_bits(call, name):
    x = nd.array([1, 0, 1], dtype="bool")
    with pytest.raises(errors.DTypeError, match=name.replace("|", r"\|").replace("^", r"\^")):
        call(x, x)


def test_in_place_operators_on_bits_change_nothing():
    x = nd.array(X) > 1
    before = x.asnumpy()
    with pytest.raises(errors.DTypeError, match="logical_and"):
        x &= nd.array(X) > 2
    np.testing.assert_array_equal(x.asnumpy(), before)


class TestNumbersOfArrays:
    @pytest.mark.parametrize("function", [complex, math.trunc, math.floor, math.ceil, float, int])
    def test_recorded_ones_say_what_was_called(self, function):
        x = recorded([1.5])
        with autograd.record(), pytest.raises(errors.LostGradientError, match=rf"^(math\.)?{function.__name__}\(x\)"):
            function(2 * x)

    @pytest.mark.parametrize("function", [complex, math.trunc, math.floor, math.ceil])
    def test_others_are_numbers(self, function):
        found = function(nd.array([-1.5]))
        assert found == function(-1.5) and type(found) is type(function(-1.5))
        with pytest.raises(ValueError, match=r"its shape is \(3,\); take one element of it \(x\[i\]\)"):
            function(nd.array(X))


@pytest.mark.parametrize(
    "call",
    [
        lambda: nd.zeros((10**12, 10**12)),
        lambda: nd.random.uniform(shape=(10**7, 10**9)),
        lambda: nd.arange(1e17),
        lambda: nd.arange(1e30),
        lambda: nd.linspace(0, 1, 10**30),
        lambda: nd.eye(10**9),
    ],
)
def test_there_is_no_memory(call):
    with pytest.raises(MemoryError, match=r"no memory for .*\b10{16,}\d* elements.* \(\d{17,} bytes") as found:
        call()
    assert isinstance(found.value, errors.NBGradError)


def test_modules_of_primitives_can_be_asked():
    from nbgrad.loops import custom_rules

    assert getattr(custom_rules, "nobody", None) is None and not hasattr(custom_rules, "nobody")
    with pytest.raises(ImportError, match="has no nobody: primitives are here once"):
        exec("from nbgrad.loops.custom_rules import nobody")


def test_a_pullback_takes_its_cotangents_in_one_tuple():
    def two(x):
        return 2 * x, 3 * x

    with pytest.raises(
        nb.NBGradError, match=r"takes one argument, 2 are given; put the cotangents of \(.*\) in a tuple"
    ):
        nb.adjoint(two).vjp(2.0)(1.0, 2.0)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "gives", [lambda x: (x * x, x), lambda x: [x], lambda x: {"a": x}], ids=["tuple", "list", "dict"]
)
def test_what_a_function_gives_instead_of_an_array_is_said(gives, compiled):
    made = nb.jit if compiled else lambda f: f
    with pytest.raises(nb.NBGradError, match=r"must give an NDArray, got a (tuple of 2|list of 1|dict of 1)"):
        made(nb.grad(gives))(2.0)
    with pytest.raises(nb.NBGradError, match="must give a pair"):
        made(nb.value_and_grad(lambda x: x * x, has_aux=True))(2.0)


def test_namespaces_say_what_they_have_instead():
    with pytest.raises(AttributeError, match=r"nd\.linalg has no 'inv'; did you mean pinv or inverse\?"):
        nd.linalg.inv(nd.ones((2, 2)))
    assert not hasattr(nd.random, "nothing_like_it")


def test_sparse_matrices_are_to_be_made_dense():
    sparse = scipy.sparse.csr_matrix(M)
    with pytest.raises(errors.DTypeError, match=r"a csr_matrix is sparse, .* pass its toarray\(\)"):
        nd.array(sparse)
    with pytest.raises(errors.DTypeError, match=r"toarray\(\)"):
        nd.array(M) @ sparse


def test_a_missing_argument_of_an_adjoint_is_told_from_one_that_may_be_left_out():
    def scaled(x, a, b=2.0):
        return x * a * b

    with pytest.raises(errors.AttrError, match=r"3 arguments expected \(x, a, b\), 1 given; b may be left out"):
        nb.adjoint(scaled).hvp((1.0,), (1.0,))
