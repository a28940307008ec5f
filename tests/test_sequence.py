"""Batches of sequences: numbers of MXNet 1.9.1, and errors."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd

DATA = nd.array(np.arange(24.0).reshape(4, 3, 2))
LENGTHS = nd.array([1, 3, 4])
BY_AXIS_1 = nd.array([1, 2, 3, 1])


def test_mask():
    y = nd.SequenceMask(DATA, LENGTHS, use_sequence_length=True, value=-1)
    assert y.tolist() == [
        [[0, 1], [2, 3], [4, 5]],
        [[-1, -1], [8, 9], [10, 11]],
        [[-1, -1], [14, 15], [16, 17]],
        [[-1, -1], [-1, -1], [22, 23]],
    ]
    assert y.dtype == DATA.dtype
    y = nd.SequenceMask(DATA, nd.array([1, 2, 3, 0]), use_sequence_length=True, axis=1)
    assert y[1].tolist() == [[6, 7], [8, 9], [0, 0]]
    assert y[3].tolist() == [[0, 0]] * 3
    longer = nd.SequenceMask(DATA, nd.array([0, 9, 2]), use_sequence_length=True)
    assert longer[3].tolist() == [[0, 0], [20, 21], [0, 0]]


def test_last():
    assert nd.SequenceLast(DATA).tolist() == [[18, 19], [20, 21], [22, 23]]
    assert nd.SequenceLast(DATA, LENGTHS, use_sequence_length=True).tolist() == [[0, 1], [14, 15], [22, 23]]
    y = nd.SequenceLast(DATA, BY_AXIS_1, use_sequence_length=True, axis=1)
    assert y.tolist() == [[0, 1], [8, 9], [16, 17], [18, 19]]
    assert nd.SequenceLast(nd.ones((3, 2))).shape == (2,)


def test_reverse():
    assert nd.SequenceReverse(DATA).tolist() == DATA.tolist()[::-1]
    assert nd.SequenceReverse(DATA, LENGTHS, use_sequence_length=True).tolist() == [
        [[0, 1], [14, 15], [22, 23]],
        [[6, 7], [8, 9], [16, 17]],
        [[12, 13], [2, 3], [10, 11]],
        [[18, 19], [20, 21], [4, 5]],
    ]


def test_masked_elements_have_no_gradient():
    nan = float("nan")
    x = nd.array([[1, 3], [nan, 2]], dtype="float64")
    x.attach_grad()
    with autograd.record():
        y = nd.SequenceMask(x, nd.array([1, 2]), use_sequence_length=True)
    y.backward()
    assert x.grad.tolist() == [[1, 1], [0, 1]]


def test_mask_of_integers():
    x = nd.array([[1, 2]], dtype="uint8")
    y = nd.SequenceMask(x, nd.array([0, 1]), use_sequence_length=True, value=7)
    assert y.tolist() == [[7, 2]]
    assert y.dtype == np.uint8
    for value in (0.5, -1, 300):
        with pytest.raises(nb.errors.AttrError, match="does not fit data of dtype uint8"):
            nd.SequenceMask(x, nd.array([0, 1]), use_sequence_length=True, value=value)


@pytest.mark.parametrize("op", [nd.SequenceMask, nd.SequenceLast, nd.SequenceReverse])
def test_what_all_refuse(op):
    with pytest.raises(nb.errors.AttrError, match=r"axis .* must be 0 or 1"):
        op(DATA, axis=2)
    with pytest.raises(nb.errors.ShapeError, match="two axes"):
        op(nd.ones(3))
    with pytest.raises(nb.errors.AttrError, match="use_sequence_length=True"):
        op(DATA, LENGTHS)
    with pytest.raises(TypeError, match="sequence_length"):
        op(DATA, use_sequence_length=True)
    with pytest.raises(nb.errors.ShapeError, match=r"must have shape \(3,\)"):
        op(DATA, BY_AXIS_1, use_sequence_length=True)


@pytest.mark.parametrize(("op", "bad"), [(nd.SequenceLast, 0), (nd.SequenceLast, 5), (nd.SequenceReverse, -1)])
def test_lengths_that_there_cannot_be(op, bad):
    with pytest.raises(IndexError, match=f"length {bad} is not in"):
        op(DATA, nd.array([1, bad, 2]), use_sequence_length=True)


def test_empty_time():
    assert nd.SequenceReverse(nd.zeros((0, 2))).shape == (0, 2)
    with pytest.raises(IndexError, match="length 0"):
        nd.SequenceLast(nd.zeros((0, 2)))
