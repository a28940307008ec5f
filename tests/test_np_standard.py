"""The Python array API standard, and distinct elements."""

import numpy
import pytest

import nbgrad as nb
import nbgrad.np as np
from nbgrad.errors import DTypeError

X = numpy.array([[3.0, 1.0, 2.0], [1.0, 3.0, 0.5]])


def test_the_namespace():
    x = np.array(X)
    assert x.__array_namespace__() is np
    assert x.__array_namespace__(api_version="2024.12") is np
    info = np.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] == numpy.float64
    assert set(info.dtypes(kind="bool")) == {"bool"}
    assert {"float32", "float64"} == set(info.dtypes(kind="real floating"))
    assert x.device in info.devices()
    assert info.default_device() == x.device
    assert info.capabilities()["boolean indexing"]
    assert (x.to_device(x.device) == x).all()
    assert np.isdtype(x.dtype, "real floating")
    assert not np.isdtype(np.int32, ("bool", "real floating"))
    assert np.result_type(np.ones(2, np.float32), 1.0) == numpy.float32
    assert np.result_type(x, np.int32) == numpy.float64
    assert np.can_cast(np.int32, np.float64)
    assert not np.can_cast(x, np.float32)
    assert np.astype(x, np.float32).dtype == numpy.float32
    assert np.astype(x, np.float64, copy=False) is x
    assert np.from_dlpack(numpy.ones(3)).sum() == 3.0


def test_bits_of_truth_values():
    a, b = np.array([True, True, False]), np.array([True, False, False])
    assert np.bitwise_and(a, b).tolist() == [True, False, False]
    assert np.bitwise_or(a, b).tolist() == [True, True, False]
    assert np.bitwise_xor(a, b).tolist() == [False, True, False]
    assert np.bitwise_invert(a).tolist() == [False, False, True]
    with pytest.raises(DTypeError, match="bitwise_and: integers and bools have bits"):
        np.bitwise_and(np.array([1.0]), np.array([2]))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_distinct_elements(axis):
    x = X if axis is None else numpy.array([[1.0, 2.0, 1.0], [1.0, 2.0, 1.0]])
    found, expected = np.unique(np.array(x), True, True, True, axis), numpy.unique(x, True, True, True, axis)
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.tolist()) == (b.dtype, b.tolist())


def test_sets():
    x = np.array(X)
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        for a, b in zip(getattr(np, name)(x), getattr(numpy, name)(X), strict=True):
            assert a.tolist() == b.tolist()
    assert np.unique_values(x).tolist() == numpy.unique_values(X).tolist()
    assert np.isin(x, [1.0, 3.0]).tolist() == numpy.isin(X, [1.0, 3.0]).tolist()
    y = numpy.array([2.0, 5.0])
    for name in ("union1d", "intersect1d", "setdiff1d"):
        assert getattr(np, name)(x, y).tolist() == getattr(numpy, name)(X, y).tolist()
    weights = numpy.arange(4.0)
    assert nb.grad(lambda x: np.sum(np.unique(x) * weights))(X).tolist() == [[3, 1, 2], [0, 0, 0]]
