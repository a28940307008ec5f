"""Sorting on the device: the order is NumPy's stable one, NaN last."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd
from nbgrad.backends.cuda import driver
from nbgrad.kernels.sorting_device import TILE

RNG = np.random.default_rng(0)
SPECIAL = [np.nan, -0.0, 0.0, np.inf, -np.inf, -np.nan, 0.0, -0.0]
#: Rows that fit a tile, several or one of them; that fill it; that take one, two and three merges.
SHAPES = [((5,), 0), ((9, 3), 0), ((2, TILE), 1), ((3, TILE + 1), 1), ((2, 2 * TILE + 3, 3), 1), ((5 * TILE,), 0),
          ((3, 1), 1), ((2, 0), 0)]  # fmt: skip


def drawn(shape, dtype):
    """Numbers of which many are equal, with the extreme ones."""
    x = RNG.integers(0, 2, shape).astype(dtype) if dtype == "bool" else RNG.integers(-5, 5, shape).astype(dtype)
    if dtype.startswith("f") and x.size > len(SPECIAL):
        x.reshape(-1)[RNG.permutation(x.size)[: len(SPECIAL)]] = SPECIAL
    elif dtype != "bool" and not dtype.startswith("f") and x.size:
        x.reshape(-1)[[0, -1]] = np.iinfo(dtype).max, np.iinfo(dtype).min
    return x


@pytest.mark.parametrize(
    "dtype",
    ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"],
)
def test_order(gpu, dtype):
    for shape, axis in SHAPES if dtype in ("float64", "float16") else SHAPES[1:4]:
        values = drawn(shape, dtype)
        k = min(2, shape[axis])
        for ascending in (True, False):
            how = {"axis": axis, "is_ascend": ascending}
            found = []
            for ctx in (nb.cpu(0), gpu):
                x = nd.array(values, dtype=dtype, ctx=ctx)
                every = [nd.argsort(x, dtype="int64", **how), nd.sort(x, **how)]
                if values.size:
                    every += [*nd.topk(x, k=k, ret_typ="both", **how), nd.topk(x, k=k, ret_typ="mask", **how)]
                found.append(every)
            for a, b in zip(*found, strict=True):
                assert b.context == gpu
                np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8", "uint64"])
def test_search(gpu, dtype):
    a, v = np.sort(RNG.integers(0, 9, 20)).astype(dtype), RNG.integers(0, 12, (3, 4)).astype(dtype)
    if dtype.startswith("f"):
        a[-2:] = v[0, 0] = np.nan
        a[0] = v[0, 1] = -np.inf
        a[1] = -0.0
    for side in ("left", "right"):
        found = nd.searchsorted(*[nd.array(x, dtype=dtype, ctx=gpu) for x in (a, v)], side=side)
        assert found.context == gpu
        np.testing.assert_array_equal(found.asnumpy(), np.searchsorted(a, v, side))
    mixed = nd.searchsorted(nd.array(a, dtype=dtype, ctx=gpu), nd.array([1.5, 3], ctx=gpu))
    np.testing.assert_array_equal(mixed.asnumpy(), np.searchsorted(a, [1.5, 3]))


def test_compiled_with_gradients(gpu):
    x = RNG.standard_normal((3, 2 * TILE + 1))[:, :200]
    f = nb.jit(nb.value_and_grad(lambda x: nd.sum(nd.sort(x)[:, 3:] ** 2 * nd.topk(x, k=1, ret_typ="value"))))
    for a, b in zip(*[f(nd.array(x, ctx=ctx, dtype="float64")) for ctx in (nb.cpu(0), gpu)], strict=True):
        np.testing.assert_allclose(b.asnumpy(), a.asnumpy(), rtol=1e-12)


def test_indices_stay_there(gpu, monkeypatch):
    """Where they are wrong is asked after by one number."""
    taken = []
    before = driver.download
    monkeypatch.setattr(driver, "download", lambda number, source: taken.append(source.size) or before(number, source))
    x = nd.array(np.arange(12.0).reshape(3, 4), ctx=gpu)
    rows, columns = nd.array([2, -1, 9], ctx=gpu), nd.array([[0, -1], [1, 1], [3, 2]], ctx=gpu)
    found = [
        nd.take(x, rows), nd.take(x, rows, mode="wrap"), nd.pick(x, rows), nd.Embedding(rows, x), nd.sort(x),
        nd.topk(x), nd.softmax_cross_entropy(x, rows),
    ]  # fmt: skip
    assert not taken and all(y.context == gpu for y in found)
    last = nd.take_along_axis(x, columns)
    assert taken == [1]
    monkeypatch.undo()
    values = x.asnumpy()
    np.testing.assert_array_equal(found[0].asnumpy(), values[[2, 0, 2]])
    np.testing.assert_array_equal(found[1].asnumpy(), values[[2, 2, 0]])
    np.testing.assert_array_equal(found[2].asnumpy(), values[[0, 1, 2], [2, 0, 3]])
    np.testing.assert_array_equal(last.asnumpy(), np.take_along_axis(values, columns.asnumpy().astype(int), 1))
    for call in (lambda: nd.take_along_axis(x, columns + 1), lambda: nd.take(x, rows, mode="raise")):
        with pytest.raises(IndexError, match=r"index (4|9) is out of range for an axis of length (4|3)"):
            call()
