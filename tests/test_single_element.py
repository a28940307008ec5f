"""Arrays of one element are numbers where Python wants one, NumPy's results of ours among them."""

import copy
import pickle

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.core.single_element import Single

X = np.array([1.0, 2.0])
GIVEN = {"numpy": lambda: X, "nd": lambda: nd.array(X), "float": lambda: 2.0}


def total(x):
    return nd.sum(x * x)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize(
    "function",
    [
        nb.jit(total),
        lambda x: nb.jit(lambda x: {"y": (total(x),)})(x)["y"][0],
        lambda x: nb.vjp(total, x)[0],
        lambda x: nb.jvp(total, (x,), (x,))[0],
        lambda x: nb.value_and_grad(total)(x)[0],
        nb.jit(lambda x: total(x).reshape((1, 1))),
    ],
    ids=["jit", "nested", "vjp", "jvp", "value_and_grad", "matrix"],
)
def test_results_are_numbers(function, given):
    y = function(GIVEN[given]())
    expected = 4.0 if given == "float" else 5.0
    assert float(y) == complex(y) == expected and int(y) == int(expected)
    assert f"{y:.3f}" == f"{expected:.3f}" and f"{y:>9.2e}" == f"{expected:>9.2e}"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_formats_of_one_element(shape, dtype):
    a = np.ones(shape, dtype)
    assert f"{nd.array(a):.3f}" == f"{a.item():.3f}" == "1.000"
    assert f"{nd.array(a)}" == str(nd.array(a)), "as before without a format"


@pytest.mark.parametrize("shape", [(0,), (2,), (1, 2)])
def test_formats_of_more(shape):
    with pytest.raises(ValueError, match="one element, this one has the shape"):
        f"{nd.ones(shape):.3f}"
    with pytest.raises(ValueError, match=r"Invalid format specifier|Unknown format code"):
        f"{nd.ones(1):q}"


def test_formats_while_recording():
    x = nd.array(X)
    x.attach_grad()
    with autograd.record():
        y = total(x)
        assert f"{y:.1f}" == "5.0"
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 4]


def test_a_compiled_function_has_no_numbers_to_format():
    with pytest.raises(nb.base.TraceError):
        nb.jit(lambda x: f"{total(x):.3f}")(X)


def test_it_is_an_ordinary_array_otherwise():
    y = nb.jit(lambda x: nd.sum(x * x, keepdims=True))(X)
    assert type(y) is Single and y.shape == (1,) and y.dtype == X.dtype and y[0] == 5.0
    assert repr(y) == "array([5.])" and str(y) == "[5.]" and f"{y}" == "[5.]"
    for other in (y + 1, np.sqrt(y), y + X, X - y, y * y, np.add(1.0, y), np.asarray(y), -y, y == 5, y @ y.T):
        assert not isinstance(other, Single), other
    for whole in (pickle.loads(pickle.dumps(y)), copy.deepcopy(y)):
        assert whole.tolist() == [5.0]
    assert b"nbgrad" not in pickle.dumps(y)
    y[0] = 7.0
    assert float(y) == 7.0 and np.concatenate([y, y]).tolist() == [7.0, 7.0]
    np.testing.assert_array_equal(nb.jit(lambda v: v * v)(y), [49.0])
    np.testing.assert_array_equal(nb.grad(total)(y), [14.0])


def test_arrays_of_more_are_numpys():
    assert type(nb.jit(lambda x: x * 2)(X)) is np.ndarray is type(nb.grad(total)(X))
