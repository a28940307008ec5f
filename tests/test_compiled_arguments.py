"""Arguments that compiled code would misread are refused: byte orders, masked arrays, other dtypes."""

import numba
import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd

X = np.array([1.0, 2.0, 3.0])
K = np.array([1, 2, 3])


def weighted(x, k):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * x[i] * k[i]
    return total


def frozen(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def swapped(x):
    """Read-only, too: once Numba has seen a native array like it, it takes this one for native."""
    return frozen(x.astype(x.dtype.newbyteorder(">")))


class TestByteOrders:
    def test_numba_takes_them_for_native_ones(self):
        """Why they are looked for: where this fails, Numba has been mended."""
        first = numba.njit(lambda x: x[0])
        assert first(frozen(X)) == 1.0
        assert first(swapped(X)) != 1.0

    @pytest.mark.parametrize("method", ["value_and_grad", "vjp", "compiled", "report"])
    def test_adjoints_refuse_them(self, method):
        adjoint = nb.adjoint(weighted)
        adjoint.value_and_grad(frozen(X), frozen(K))
        for args in ((swapped(X), K), (X, swapped(K))):
            with pytest.raises(nb.errors.DTypeError, match=r"a >[fi]8 array .* \(pass [xk]\.astype\('(float|int)64'\)"):
                getattr(adjoint, method)(*args)

    def test_compiled_adjoints_and_programs_refuse_them(self):
        adjoint = nb.adjoint(weighted).compiled(X, K)
        x_bar = np.zeros(3)
        adjoint(frozen(X), frozen(K), 1.0, x_bar)
        program = nb.jit(lambda x: nd.sum(x)).njit(X)
        for f, args in ((adjoint, (swapped(X), K, 1.0, x_bar)), (program, (X.astype(">f8"),))):
            with pytest.raises(nb.errors.DTypeError, match=r">f8 is in the byte order .*; pass x\.astype\('float64'\)"):
                f(*args)
        assert x_bar.tolist() == [2.0, 8.0, 18.0]  # nothing was added

    def test_primitives_that_numba_compiles_refuse_them(self):
        f = nb.primitive(numba.njit(weighted), lambda g, y, x, k: (2 * g * x * k, None))
        f(X, frozen(K))
        for x in (X, nd.array(X)):
            with pytest.raises(nb.errors.DTypeError, match=r"weighted: .*>i8 .* pass x\.astype\('int64'\)"):
                f(x, swapped(K))

    def test_others_read_them(self):
        f = nb.primitive(weighted)
        assert f(swapped(X), swapped(K)) == f(nd.array(X), swapped(K)).item() == 36.0
        assert nb.jit(lambda x: nd.sum(x))(swapped(X)) == 6.0


def test_masked_arrays_are_refused():
    x = np.ma.masked_array(X, [False, True, False])
    with pytest.raises(nb.errors.DTypeError, match="whose mask would be lost"):
        nb.jit(lambda x: nd.sum(x)).njit(X)(x)
    with pytest.raises(nb.errors.DTypeError, match="whose mask would be lost"):
        nb.adjoint(weighted).compiled(X, K)(x, K, 1.0, np.zeros(3))


@pytest.mark.parametrize(
    ("x", "given"),
    [
        (X[::-1], r"array\(float64, 1d, A\)"),
        (frozen(X), r"readonly array\(float64, 1d, C\)"),
        (X.astype("float16"), r"array\(float16, 1d, C\)"),
        (np.array(2.0), r"array\(float64, 0d, C\)"),
    ],
)
def test_what_a_program_was_not_made_for_is_said(x, given):
    program = nb.jit(lambda x: nd.sum(x)).njit(X)
    wanted = rf"made for the arguments array\(float64, 1d, C\), and was called with {given}; .*numpy\.array\(x, dtype\)"
    with pytest.raises(nb.errors.DTypeError, match=wanted):
        program(x)
    assert program(X) == 6.0


@pytest.mark.parametrize("x", [X[::-1], frozen(X), np.repeat(X, 2)[::2], np.frombuffer(b"." + X.tobytes(), offset=1)])
def test_adjoints_read_arrays_of_any_layout(x):
    value, (x_bar, _) = nb.adjoint(weighted).value_and_grad(x, K)
    assert value == np.sum(x * x * K)
    np.testing.assert_array_equal(x_bar, 2 * x * K)


@pytest.mark.parametrize("place", [0, 3])
def test_handed_out_adjoints_take_floats_for_floats(place):
    """An array of integers would cut off what is added to it."""
    adjoint = nb.adjoint(weighted).compiled(X, K)
    args = [X, K, 0.1, np.zeros(3)]
    args[place] = args[place].astype(int)
    name = ["x", "", "", "x_bar"][place]
    with pytest.raises(nb.errors.DTypeError, match=rf"argument {name} is an array of int64, .* pass {name}\.astype"):
        adjoint(*args)
    with pytest.raises((nb.errors.DTypeError, numba.TypingError), match=f"argument {name} is an array of int64"):
        numba.njit(lambda *args: adjoint(*args))(*args)
    tangent = nb.tangent(weighted).compiled(X, K)
    with pytest.raises(nb.errors.DTypeError, match="x_dot is an array of int64"):
        tangent(X, K, np.ones(3, int))
