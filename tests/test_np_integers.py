"""Integers of all sizes, with a sign and without, as NumPy computes with them, up to their limits."""

import operator
import pickle

import numpy
import pytest

import nbgrad as nb
import nbgrad.np as np
from nbgrad import nd
from nbgrad.errors import DTypeError

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
PAIRS = {
    name: getattr(operator, name, None) or getattr(numpy, name)
    for name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "and_", "or_", "xor", "eq", "ne", "lt", "le", "gt",
                 "maximum", "minimum")
}  # fmt: skip
SINGLE = ["negative", "square", "abs", "sign", "invert", "positive", "isfinite", "logical_not"]
REDUCED = ["sum", "prod", "max", "min", "argmax", "argmin", "mean", "var", "cumsum", "cumprod", "sort",
           "any", "all", "unique", "diff", "ptp", "flip"]  # fmt: skip


def values(dtype):
    info = numpy.iinfo(dtype)
    x = numpy.array([1, 2, info.max, info.max - 1, 7, 0, info.min, info.max // 2 + 2], dtype)
    return x, numpy.array([3, 1, info.max, 2, 5, 0, info.max, 3], dtype)


def same(found, expected, rtol=0.0):
    assert found.dtype == numpy.asarray(expected).dtype
    numpy.testing.assert_allclose(numpy.asarray(found), expected, rtol=rtol)


@pytest.fixture(autouse=True)
def without_warnings():
    with numpy.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("dtype", DTYPES)
def test_pairs(dtype):
    a, b = values(dtype)
    x, y = np.array(a), np.array(b)
    for name, f in PAIRS.items():
        if name == "truediv":
            same(x / (y + (y == 0)), a.astype(float) / (b + (b == 0)), 1e-15)
        else:
            same(getattr(np, name)(x, y) if name.endswith("imum") else f(x, y), f(a, b))
    shifts = b % 8
    same(x << np.array(shifts), a << shifts)
    same(x >> np.array(shifts), a >> shifts)
    same(x ** np.array(abs(b % 4)), a ** abs(b % 4))
    same(np.where(x > y, x, y), numpy.where(a > b, a, b))


@pytest.mark.parametrize("dtype", DTYPES)
def test_single(dtype):
    a, _ = values(dtype)
    x = np.array(a)
    for name in SINGLE:
        same(getattr(np, name)(x), getattr(numpy, name)(a))
    for name in REDUCED:
        same(getattr(np, name)(x), getattr(numpy, name)(a), 1e-12 if name in ("mean", "var") else 0.0)
    same(np.argsort(x), numpy.argsort(a, kind="stable"))
    same(np.sum(x.reshape(2, 4), axis=0), a.reshape(2, 4).sum(0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_with_numbers(dtype):
    a, _ = values(dtype)
    x, most = np.array(a), int(numpy.iinfo(dtype).max)
    for f in (lambda x: x + 1, lambda x: 3 - x, lambda x: x // 2, lambda x: x % 3, lambda x: x**2, lambda x: x * 2.5,
              lambda x: x == most, lambda x: x > most - 1, lambda x: most - x, lambda x: x / 2):  # fmt: skip
        same(f(x), f(a))
    # Comparisons with numbers that the dtype does not hold.
    for f in (lambda x: x < -(2**70), lambda x: x > 2**70, lambda x: x != 2**70):
        same(f(x), f(a))
    with pytest.raises(OverflowError, match=rf"add: the Python integer {2**64} does not fit {dtype}"):
        x + 2**64


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversions(dtype):
    a, _ = values(dtype)
    for other in [*DTYPES, "float64", "float32", "bool"]:
        same(np.array(a).astype(other), a.astype(other))
        assert np.result_type(dtype, other) == numpy.promote_types(dtype, other)
    info = numpy.iinfo(dtype)
    inside = numpy.array([0.5, 2.7, float(info.max // 2 + 1), -1.5 if info.min else 1.5])
    same(np.array(inside).astype(dtype), inside.astype(dtype))
    same(np.arange(5, dtype=dtype), numpy.arange(5, dtype=dtype))
    assert pickle.loads(pickle.dumps(np.array(a))).dtype == dtype
    assert numpy.from_dlpack(np.array(a)).dtype == dtype
    same(np.asarray([1.0, 2.0, 4.0])[np.array([2, 0], dtype)], numpy.array([4.0, 1.0]))


@pytest.mark.parametrize("dtype", ["int16", "uint32", "uint64"])
def test_compiled(dtype):
    a, b = values(dtype)

    def f(x, y, w):
        total = np.sum(np.where(x > y, w, 2 * w) * (x % 4))
        return total + np.sum(np.maximum(x, y) // 2 > 5), np.max(x), np.min(y), np.sum(x), x + y

    w = numpy.linspace(0.5, 1.5, a.size)
    found, plain = nb.jit(f)(np.array(a), np.array(b), np.array(w)), f(np.array(a), np.array(b), np.array(w))
    for one, other in zip(found, plain, strict=True):
        same(one, numpy.asarray(other), 1e-12 if other.dtype == float else 0.0)
    grad = nb.jit(nb.grad(lambda w, x: np.sum(w * w * x), argnums=0))(w, a % 5)
    numpy.testing.assert_allclose(grad, 2 * w * (a % 5))


def test_arrays_of_nd_have_them():
    x = nd.array(numpy.array([1, 65535], "uint16"))
    assert (x + x).asnumpy().tolist() == [2, 65534] and (x + x).dtype is numpy.uint16
    assert nd.zeros(2, dtype="uint64").dtype is numpy.uint64


def test_files_of_mxnet_have_no_such_dtypes(tmp_path):
    with pytest.raises(DTypeError, match="int16"):
        nd.save(str(tmp_path / "x"), nd.zeros(2, dtype="int16"))
    assert not list(tmp_path.iterdir())
