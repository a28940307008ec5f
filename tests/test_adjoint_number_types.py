"""Types of numbers as values: dtypes under names, passed on, as arguments and defaults; parts of real numbers."""

import numba
import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.linspace(0.4, 1.7, 6)
SHORT = np.dtype("f4")
STATES = np.int32


def under_a_name(x):
    dtype = np.float64
    y = np.zeros(x.size, dtype=dtype)
    for i in range(x.size):
        y[i] = x[i] ** 2
    return np.sum(y * y)


def as_text(x):
    y = np.empty(x.size, dtype="float64")
    y[:] = x * x
    kind = "f8"
    return np.sum(y * np.ones(x.size, kind))


def written_out(x):
    kind = np.dtype("float64")
    y = np.zeros(x.size, dtype=kind)
    y[1:] = x[1:] ** 3
    return np.sum(y) + np.sum(x.astype(np.dtype(np.float64)))


def states_from_outside(x):
    path = np.zeros(x.size, dtype=STATES)
    total = 0.0
    for i in range(x.size):
        path[i] = i * i
        total += path[i] * x[i] ** 2
    return total


def pythons(x):
    number, whole = float, int
    y = np.zeros(x.size, dtype=number)
    for i in range(whole(x.size / 2)):
        y[i] = number(x[i]) * x[i]
    return np.sum(y * y)


@numba.njit
def new_array(size, dtype=np.float64):
    return np.zeros(size, dtype)


def passed_on(x):
    kind = np.float64
    y, z = new_array(x.size), new_array(x.size, kind)
    for i in range(x.size):
        y[i] = x[i] ** 2
        z[i] = y[i] * x[i]
    return np.sum(y * z)


def with_an_argument(x, dtype=np.float64):
    y = np.zeros(x.size, dtype=dtype)
    for i in range(x.size):
        y[i] = x[i] ** 3
    return np.sum(y)


@pytest.mark.parametrize(
    "f",
    [under_a_name, as_text, written_out, states_from_outside, pythons, passed_on, with_an_argument],
    ids=lambda f: f.__name__,
)
def test_dtypes_have_names(f):
    with uncompiled():
        check_derivatives(f, X)


def test_a_dtype_is_an_argument():
    value, (gradient, none) = nb.adjoint(with_an_argument).value_and_grad(X, np.float32)
    assert none is None
    np.testing.assert_allclose(gradient, 3 * X**2, rtol=1e-6)
    rounded = sum(float(np.float32(v**3)) for v in X)
    assert value == pytest.approx(rounded, rel=1e-6) and value != float(np.sum(X**3))


def test_dtypes_of_numba():
    def product(x):  # not for NumPy, which does not know this dtype
        y = np.zeros(x.size, dtype=numba.float64)
        y += x * x
        return y[0] * y[1]

    value, gradient = nb.adjoint(product).value_and_grad(X[:2])
    assert value == pytest.approx((X[0] * X[1]) ** 2)
    np.testing.assert_allclose(gradient[0], 2 * X[0] * X[1] * X[1::-1])


def test_a_short_dtype_rounds():
    def shortened(x):
        y = np.zeros(x.size, SHORT)
        for i in range(x.size):
            y[i] = x[i]
        return y[2]

    assert nb.adjoint(shortened).value_and_grad(X)[0] == np.float32(X[2])


def test_each_dtype_has_its_code():
    def rounded(x, kind):
        y = np.zeros(x.size, kind)
        y[:] = x
        return y[3]

    found = [nb.adjoint(rounded).value_and_grad(X, kind)[0] for kind in (np.float64, np.float32, np.float64)]
    assert found == [X[3], np.float32(X[3]), X[3]]


def perhaps_another(x, n):
    kind = np.float64
    if n > 2:
        kind = np.float32
    return np.sum(x * np.zeros(x.size, kind))


def a_number(x):
    kind = np.float64
    return np.sum(x * kind)


def half(x):
    kind = np.float16
    return np.sum(x * np.zeros(x.size, kind))


def a_word(x):
    return np.sum(x * np.zeros(x.size, "word"))


def other_order(x):
    return np.sum(x * np.zeros(x.size, ">f8"))


@pytest.mark.parametrize(
    "f, arguments, message",
    [
        (perhaps_another, (X, 3), "the function or type kind, which may be another one"),
        (a_number, (X,), "kind, which is a type, as a number or array"),
        (half, (X,), "an array of this dtype"),
        (a_word, (X,), "an array of this dtype"),
        (other_order, (X,), "an array of this dtype"),
    ],
    ids=lambda f: getattr(f, "__name__", None),
)
def test_what_is_no_such_type(f, arguments, message):
    with pytest.raises(TraceError, match=message):
        nb.adjoint(f).value_and_grad(*arguments)


def real_parts(x):
    total = x[0].real * x[1].conjugate() + x[2].imag
    y = np.conj(x)
    y[0] = 5.0
    view = x.real
    return total + np.sum(y * y) + np.sum(np.real(view) ** 3) + np.sum(np.imag(x)) + np.sum(x).item() + x.conj()[3]


def test_parts_of_real_numbers():
    before = X.copy()
    with uncompiled():
        check_derivatives(real_parts, X)
    np.testing.assert_array_equal(X, before)


def test_the_real_part_of_an_array_is_a_view():
    def halved(x):
        y = x * 1.0
        part = y.real
        part[0] = 2 * y[1]
        return y[0] * y[2]

    with uncompiled():
        check_derivatives(halved, X)


def exchanged(x, y):
    y, x = x, y
    return np.tanh(x * 0.3 + y)


@pytest.mark.parametrize(("first", "second"), [(np.float32, np.float64), (np.float64, np.float32)])
def test_results_of_arguments_of_two_dtypes(first, second):
    """The widest dtype counts, by whatever name its array is known."""
    x, y = X.astype(first), (2 * X).astype(second)
    value = nb.adjoint(exchanged).vjp(x, y).value
    assert value.dtype == np.float64
    np.testing.assert_allclose(value, exchanged(x, y), rtol=1e-6)  # NumPy rounds x * 0.3 to float32


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_arguments_of_short_integers_change_places_with_their_copies(dtype):
    """Both have the dtype of the argument, also the copy of a copy that an argument is replaced by, and a result."""

    def grown(k, x):
        old = k.copy()
        total = 0.0
        for _ in range(3):
            for i in range(3):
                k[i] = old[i] + 1
                total += (k[i] - old[i]) * x[i] ** 2
            old, k = k, old
        return total

    def returned(k, x):
        old = k.copy()
        for _ in range(2):
            for i in range(3):
                k[i] = old[i] + 1
            old, k = k, old
        return x[0] * old[0], old

    k, x = np.array([1, 2, 3], dtype), np.array([0.5, 1.5, 2.0])
    value, (_, gradient) = nb.adjoint(grown).value_and_grad(k.copy(), x)
    assert value == grown(k.copy(), x)
    np.testing.assert_array_equal(gradient, 6 * x)
    number, old = nb.adjoint(returned).vjp(k.copy(), x).value
    assert (number, old.dtype) == (1.5, dtype) and old.tolist() == returned(k.copy(), x)[1].tolist()
