"""Sorting, and what is picked, counted and added by index."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.testing import check_grads

NAN = float("nan")
# Ties in both rows. The expected numbers are those of MXNet 1.9.1.
TIES = [[3, 1, 7, 2, 1], [5, 0, 5, -1, 2]]


def numbers(values, dtype="float64"):
    return nd.array(values, dtype=dtype)


def test_sort_as_mxnet():
    x = numbers(TIES)
    assert nd.sort(x).tolist() == [[1, 1, 2, 3, 7], [-1, 0, 2, 5, 5]]
    assert nd.sort(x, axis=0, is_ascend=False).tolist() == [[5, 1, 7, 2, 2], [3, 0, 5, -1, 1]]
    assert nd.sort(x, axis=None).tolist() == [-1, 0, 1, 1, 2, 2, 3, 5, 5, 7]


def test_argsort_as_mxnet():
    x = numbers(TIES)
    assert nd.argsort(x).tolist() == [[1, 4, 3, 0, 2], [3, 1, 4, 0, 2]]
    assert nd.argsort(x, is_ascend=False).tolist() == [[2, 0, 3, 1, 4], [0, 2, 4, 1, 3]]
    assert nd.argsort(x, axis=None).tolist() == [8, 6, 1, 4, 3, 9, 0, 5, 7, 2]
    assert nd.argsort(x).dtype == np.float32
    assert nd.argsort(x, dtype="int32").dtype == np.int32


@pytest.mark.parametrize(
    ("options", "indices", "values", "mask"),
    [
        ({"k": 2}, [[2, 0], [0, 2]], [[7, 3], [5, 5]], [[1, 0, 1, 0, 0], [1, 0, 1, 0, 0]]),
        (
            {"k": 1, "axis": 0, "is_ascend": True},
            [[0, 1, 1, 1, 0]],
            [[3, 0, 5, -1, 1]],
            [[1, 0, 0, 0, 1], [0, 1, 1, 1, 0]],
        ),
        ({"k": 2, "axis": None}, [2, 5], [7, 5], [[0, 0, 1, 0, 0], [1, 0, 0, 0, 0]]),
        ({}, [[2], [0]], [[7], [5]], [[0, 0, 1, 0, 0], [1, 0, 0, 0, 0]]),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_topk_as_mxnet(dtype, options, indices, values, mask):
    x = numbers(TIES, dtype)
    found = nd.topk(x, **options)
    assert found.tolist() == indices
    assert found.dtype == np.float32
    assert nd.topk(x, ret_typ="value", **options).tolist() == values
    chosen = nd.topk(x, ret_typ="mask", **options)
    assert chosen.tolist() == mask
    assert chosen.dtype == x.dtype
    both = nd.topk(x, ret_typ="both", dtype="int64", **options)
    assert [y.tolist() for y in both] == [values, indices]
    assert [y.dtype for y in both] == [x.dtype, np.int64]


@pytest.mark.parametrize("k", [0, -2])
def test_topk_of_all(k):
    assert nd.topk(numbers(TIES), k=k, ret_typ="value").tolist() == [[7, 3, 2, 1, 1], [5, 5, 2, 0, -1]]


def test_nan_comes_last():
    x = numbers([NAN, 2, NAN, -np.inf, np.inf, 2])
    assert nd.argsort(x).tolist() == [3, 1, 5, 4, 0, 2]
    assert nd.argsort(x, is_ascend=False).tolist() == [4, 1, 5, 3, 0, 2]
    assert nd.topk(x, k=4, ret_typ="value").tolist() == [np.inf, 2, 2, -np.inf]


def test_descending_integers_do_not_overflow():
    x = nd.array([0, -128, 127, -1], dtype="int8")
    assert nd.sort(x, is_ascend=False).tolist() == [127, 0, -1, -128]
    assert nd.sort(nd.array([3, 255, 0], dtype="uint8"), is_ascend=False).tolist() == [255, 3, 0]
    assert nd.sort(nd.array([False, True, False]).astype(bool), is_ascend=False).tolist() == [True, False, False]


def test_empty_and_0d():
    assert nd.sort(nd.zeros((0,))).shape == (0,)
    assert nd.argsort(nd.zeros((2, 0))).shape == (2, 0)
    assert nd.topk(nd.zeros((0, 3)), k=2).shape == (0, 2)
    assert nd.sort(nd.array(3.0), axis=None).tolist() == [3.0]


def test_gradient_with_ties_goes_to_the_elements_read():
    x = numbers([2, 1, 2])
    x.attach_grad()
    with autograd.record():
        y = nd.topk(x, k=1, ret_typ="value")
    y.backward()
    assert x.grad.tolist() == [1, 0, 0]
    with autograd.record():
        y = nd.sort(x) * numbers([1, 10, 100])
    y.backward()
    assert x.grad.tolist() == [10, 1, 100]


def test_gradients_of_both():
    check_grads(
        lambda x: nd.sin(nd.topk(x, k=2, ret_typ="both")[0]), [numbers([[0.3, -0.5, 0.9], [1.1, 0.2, 0.7]])], order=3
    )
    x = numbers([3, 1])
    x.attach_grad()
    with autograd.record():
        y = x * 2 + nd.topk(x, k=1, ret_typ="mask") + nd.topk(x, k=2)
    y.backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: nd.topk(x, k=6), nb.errors.AttrError, "topk: k must be an integer of at most 5"),
        (lambda x: nd.topk(x, k=1.5), nb.errors.AttrError, "topk: k must be"),
        (lambda x: nd.topk(x, ret_typ="values"), nb.errors.AttrError, "ret_typ must be 'indices'"),
        (lambda x: nd.argsort(x, axis=2), Exception, "argsort: .*axis"),
        (lambda x: nd.argsort(nd.zeros(300), dtype="uint8"), nb.errors.DTypeError, "not exact in uint8"),
        (lambda x: nd.argsort(nd.zeros(3000), dtype="float16"), nb.errors.DTypeError, "not exact in float16"),
        (lambda x: nd.argsort(x, dtype="bool"), nb.errors.DTypeError, "bool"),
        (lambda x: nd.take_along_axis(x, nd.zeros((3, 1))), nb.errors.ShapeError, r"shape \(2, any\)"),
        (lambda x: nd.take_along_axis(x, nd.ones((2, 1)) * 5), IndexError, "index 5 is out of range"),
        (lambda x: nd.searchsorted(x, x), nb.errors.ShapeError, "a must be a vector"),
        (lambda x: nd.searchsorted(x[0], x, side="middle"), nb.errors.AttrError, "side must be"),
        (lambda x: nd.contrib.boolean_mask(x, nd.ones(3)), nb.errors.ShapeError, r"index must have shape \(2,\)"),
        (lambda x: nd.fill_element_0index(x, nd.ones(3), nd.ones(2)), nb.errors.ShapeError, r"mhs \(n,\)"),
        (lambda x: nd.fill_element_0index(x, nd.ones(2), nd.ones(2) * 5), IndexError, "column 5"),
        (lambda x: nd.index_add(x, nd.array([2]), x[:1]), IndexError, "index 2 is out of range"),
        (lambda x: nd.index_add(x, nd.array([0]), x), nb.errors.ShapeError, r"value of shape \(1, 5\)"),
        (lambda x: nd.bincount(nd.array([-1])), nb.errors.AttrError, "got -1"),
        (lambda x: nd.bincount(nd.array([1.5])), nb.errors.AttrError, "got 1.5"),
        (lambda x: nd.bincount(x), nb.errors.ShapeError, "must be a vector"),
        (lambda x: nd.bincount(x[0], nd.ones(2)), nb.errors.ShapeError, "weights"),
        (lambda x: nd.bincount(nd.ones(2), minlength=-1), nb.errors.AttrError, "minlength"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(numbers(TIES))


def test_fill_element_leaves_its_operand_alone():
    x = numbers([[1, 2], [3, 4], [5, 6]])
    y = nd.fill_element_0index(x, numbers([9, 8, 7]), nd.array([0, 1, 1]))
    assert y.tolist() == [[9, 2], [3, 8], [5, 7]]
    assert x.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_bincount_without_weights():
    y = nd.bincount(nd.array([1, 3, 1], dtype="int32"), minlength=6)
    assert y.tolist() == [0, 2, 0, 1, 0, 0]
    assert y.dtype == np.int64
    assert nd.bincount(nd.zeros((0,))).shape == (0,)
