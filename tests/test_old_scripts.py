"""What scripts written for MXNet call and rely on, where no other file has it."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd


def test_stype_is_a_label():
    x = nd.array([1.0, 2.0])
    y = x.tostype("csr")
    assert x.stype == "default" and x.tostype("default") is x and y.stype == "csr" and y.tostype("csr") is y
    y[:] = 5
    assert x.tolist() == [1, 2] and y.tostype("default").stype == "default" == (y + 1).stype
    y.attach_grad()
    x.attach_grad(stype="row_sparse")
    assert y.grad.stype == "csr" == y.detach().stype and x.grad.stype == "row_sparse"
    with autograd.record():
        z = x.tostype("row_sparse") * y
    z.backward()
    assert x.grad.tolist() == [5, 5] and y.grad.tolist() == [1, 2]
    made = [nd.zeros(2, stype="csr"), nd.ones(2, stype="csr"), nd.empty(2, stype="csr")]
    assert [a.stype for a in made] == ["csr"] * 3
    for wrong in (lambda: x.tostype("coo"), lambda: nd.zeros(2, stype="coo")):
        with pytest.raises(TypeError, match="'coo' is not one of 'default'"):
            wrong()


def test_constants_into_an_array():
    out = nd.empty((2, 2))
    assert nd.ones((2, 2), out=out) is out and out.tolist() == [[1, 1], [1, 1]]
    assert nd.zeros((2, 2), out=out) is out and out.tolist() == [[0, 0], [0, 0]]
    with pytest.raises(TypeError, match="zeros: keyword 'like' is unknown"):
        nd.zeros(2, like=out)


def test_shapes_may_be_integer_arrays():
    assert nd.zeros(np.array([2, 3])).shape == nd.ones((1, 3)).broadcast_to(np.array([2, 3])).shape == (2, 3)
    assert nd.zeros(np.array(2)).shape == nd.zeros(np.int64(2)).shape == (2,)
    x = nd.ones((1, 3))
    x.attach_grad()
    with autograd.record():
        y = nd.broadcast_axis(x, axis=0, size=np.int64(2))
    y.backward()
    assert x.grad.tolist() == [[2, 2, 2]] and all(type(n) is int for n in y.shape)


def test_spellings_of_old_scripts():
    x = nd.ones((2, 1, 3))
    assert x.shape_array().tolist() == [2, 1, 3] and x.size_array().tolist() == [6]
    inplace = x.expand_dims(0, inplace=True), x.squeeze(axis=1, inplace=True), x.flatten(inplace=True)
    for y in inplace:
        y += 1
    assert [y.shape for y in inplace] == [(1, 2, 1, 3), (2, 3), (2, 3)] and (x == 4).all().item()
    out = nd.full((2, 3), 7)
    assert nd.onehot_encode(nd.array([2, 0]), out) is out and out.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert nd.uniform(2, 3, shape=(4,)).min().asscalar() >= 2 and nd.normal(shape=(2, 2)).shape == (2, 2)
    assert nb.Context("cpu_shared", 0) == nd.zeros(1, ctx=nb.Context("cpu_shared")).context != nb.cpu()


@pytest.mark.parametrize(
    ("lhs", "rhs", "axes", "shape"),
    [
        ((30,), (15, 2, 4), {"lhs_begin": 0, "rhs_begin": 0, "rhs_end": 2}, (15, 2)),
        ((30, 7), (15, 2, 4), {"lhs_end": 1, "rhs_end": 2}, (15, 2, 7)),
        ((3, 5), (1, 15, 4), {"rhs_begin": 1, "rhs_end": -1}, (15,)),
        ((30, 12), (4, 2, 2, 3), {"lhs_begin": -1, "rhs_begin": 1}, (30, 2, 2, 3)),
        ((1, 1, 7, 3, 1, 1), (81, 1, 1, 21), {"lhs_begin": 1, "lhs_end": -1, "rhs_begin": 1}, (1, 1, 1, 21, 1)),
    ],
)
def test_reshape_like_of_some_axes(lhs, rhs, axes, shape):
    assert nd.ones(lhs).reshape_like(nd.ones(rhs), **axes).shape == shape


def test_a_condition_with_one_axis_goes_along_axis_0():
    x, y = nd.ones((2, 2)), nd.zeros((2, 2))
    assert nd.where(nd.array([1, 0]), x, y).tolist() == [[1, 1], [0, 0]]
    assert np.where(nd.array([1, 0]), x, y).tolist() == [[1, 0], [1, 0]]
    with pytest.raises(ValueError, match=r"goes along axis 0, which has length 3 .* reshape it to \(1, 2\)"):
        nd.where(nd.array([1, 0]), nd.ones((3, 2)), nd.zeros((3, 2)))


def test_broadcast_like_needs_both_axes_or_neither():
    for axes in ({"lhs_axes": (), "rhs_axes": ()}, {"lhs_axes": (0,)}):
        with pytest.raises(ValueError, match="broadcast_like: give lhs_axes and rhs_axes"):
            nd.broadcast_like(nd.ones((1, 2)), nd.ones((3, 2)), **axes)


def test_allclose():
    x = nd.array([1.0, np.nan])
    assert nd.contrib.allclose(x, x, equal_nan=True).tolist() == [1] and nd.allclose(x, x).tolist() == [0]


def test_what_is_out_of_range_is_an_index_error_and_ours():
    x = nd.ones((2, 3))
    for wrong in (
        lambda: x[5],
        lambda: x[[5]],
        lambda: nd.take(x, nd.array([5]), mode="raise"),
        lambda: nd.gather_nd(x, nd.array([[5], [0]])),
        lambda: nd.SequenceLast(x, nd.array([5, 1, 1]), use_sequence_length=True),
        lambda: nd.CTCLoss(nd.ones((2, 1, 3)), nd.array([[7]])),
    ):
        for error in (IndexError, nb.MXNetError):
            with pytest.raises(error):
                wrong()


def test_samplers_by_the_parameters_of_their_spelling():
    nb.random.seed(1)
    rate = nd.array([4.0, 0.5])
    assert abs(nd.random_exponential(4.0, shape=20000).mean().asscalar() - 0.25) < 0.01
    assert np.allclose(nd.sample_exponential(lam=rate, shape=20000).mean(axis=1).asnumpy(), [0.25, 2], rtol=0.05)
    assert abs(nd.random.exponential(4.0, shape=20000).mean().asscalar() - 4) < 0.15
    drawn = nd.sample_normal(mu=nd.array([5.0, -5.0]), sigma=nd.array([0.1, 0.2]), shape=20000)
    assert np.allclose(drawn.mean(axis=1).asnumpy(), [5, -5], atol=0.01)
    with pytest.raises(ValueError, match="random_exponential: lam must be positive, got 0"):
        nd.random_exponential(0)


def test_samplers_refuse_unknown_keywords():
    draws = (nd.random.uniform, nd.random.normal, nd.random.gamma, nd.random.poisson, nd.random.exponential)
    for draw in (*draws, nd.random.negative_binomial, nd.random.generalized_negative_binomial, nd.random_exponential):
        assert draw(shape=2, name="drawn").shape == (2,)
        with pytest.raises(TypeError, match="'mean'"):
            draw(mean=3)


def test_array_by_keyword():
    assert nd.array(source_array=[1, 2], dtype="int32").dtype is np.int32
