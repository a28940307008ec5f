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


def test_modules_that_scripts_ask_for_by_name():
    assert nb.ndarray is nd and nb.context.Context is nb.Context and nb.context.current_context() == nb.cpu()
    assert nb.base.MXNetError is nb.MXNetError and nb.sym is nb.symbol and nb.random is nd.random


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


def test_blocks_assigned_in_place_or_to_a_copy():
    x = nd.zeros((2, 3))
    assert x.slice_assign(nd.ones((1, 3)), (0,), (1,), None) is x
    assert x.slice_assign_scalar(7, (0, 1), (2, 3), (1, 1)) is x and x.tolist() == [[1, 7, 7], [0, 7, 7]]
    with pytest.raises(ValueError, match="slice_assign: begin"):
        x.slice_assign_scalar(0, (0, 0, 0), (1, 1, 1))
    for call in (nd.slice_assign, nd._internal._crop_assign, nd._internal._slice_assign):
        y = nd.ones((2, 3, 4))
        assert call(y, nd.zeros((2, 1, 3)), begin=(0, 0, 0), end=(2, 1, 3), out=y) is y and y.sum().asscalar() == 18
    with pytest.raises(ValueError, match=r"rhs must have the shape of the block, \(1, 3\), got \(3,\)"):
        nd.slice_assign(x, nd.ones(3), (0,), (1,))
    x.attach_grad()
    with autograd.record(), pytest.raises(nb.NBGradError, match="already in a computational graph"):
        x.slice_assign_scalar(0, (0,), (1,))


def test_older_names_of_arguments():
    x = nd.array([[1, 2], [3, 4]])
    assert nd.cumsum(a=x, axis=1).tolist() == [[1, 3], [3, 7]]
    assert nd.norm(x, 1, 1, "float64", True).tolist() == [[3], [7]]
    assert nd.dot(x, x, forward_stype="default").stype == "default" and nd.dot(x, x, forward_stype="csr").stype == "csr"
    assert nd.batch_dot(nd.ones((1, 1, 1)), nd.ones((1, 1, 1)), forward_stype="row_sparse").stype == "row_sparse"
    shapes = {(2, 0): (2, 12), (0, 12): (2, 12), (2, 0, 3): (2, 4, 3)}
    assert all(nd.Reshape(nd.zeros((2, 3, 4)), target_shape=t).shape == s for t, s in shapes.items())
    assert nd.Reshape(nd.zeros((2, 3, 4)), target_shape=(5, 0), keep_highest=True).shape == (2, 12)
    assert nd.reshape(nd.zeros((2, 3, 4)), shape=(2, -1), target_shape=(3, 8)).shape == (2, 12)
    previous = autograd.set_recording(is_recording=False)
    assert previous is False


@pytest.mark.parametrize(("op", "outside"), [("softmax", 0), ("softmin", 0), ("log_softmax", -np.inf)])
def test_softmax_of_leading_elements(op, outside):
    x = nd.array([[1, 2, 3], [4, 6, 7]], dtype="float64")
    x.attach_grad()
    with autograd.record():
        y = getattr(nd, op)(x, length=nd.array([1, 2], dtype="int32"), use_length=True)
        z = y[1, 0] * 2
    z.backward()
    alone = x[1, :2].copy()
    alone.attach_grad()
    with autograd.record():
        expected = getattr(nd, op)(alone)
        z = expected[0] * 2
    z.backward()
    assert (y.asnumpy()[[0, 0, 1], [1, 2, 2]] == outside).all() and y[1, :2].tolist() == expected.tolist()
    assert x.grad.tolist() == [[0, 0, 0], [*alone.grad.tolist(), 0]]


def test_histogram():
    x = nd.array([[1, 2, 3], [4, 5, 9]])
    for options in ({}, {"bins": 3, "range": (0, 6)}, {"bins": [0, 2, 4, 7]}):
        counts, edges = nd.histogram(x, **options)
        expected = np.histogram(x.asnumpy(), **options)
        assert counts.tolist() == expected[0].tolist() and counts.dtype is np.int64
        np.testing.assert_array_equal(edges.asnumpy(), expected[1].astype("f"))
    assert nd.histogram(nd.array([1, 2], dtype="int32"), nd.array([0, 2, 4]))[0].tolist() == [1, 1]
    with pytest.raises(ValueError, match="histogram: "):
        nd.histogram(x, bins=0)


def test_positions_out_of_range():
    with pytest.raises(IndexError, match="index 7 is out of range for an axis of length 7"):
        nd.ravel_multi_index(nd.array([[7], [0]]), shape=(7, 6))
    with pytest.raises(IndexError, match=r"42 is out of range for shape \(7, 6\)"):
        nd.unravel_index(nd.array([42]), shape=(7, 6))
    with pytest.raises(ValueError, match="a row for each axis"):
        nd.ravel_multi_index(nd.array([[1], [0]]), shape=(7,))
    with pytest.raises(ValueError, match="shape must be"):
        nd.unravel_index(nd.array([1]), shape=(7, -1))
    assert nd.unravel_index(nd.array([[41]]), shape=(-1, 6)).shape == (2, 1, 1)


def test_many_arrays():
    a, b = nd.ones(2), nd.ones(3, dtype="float64")
    assert nd.multi_all_finite(a, b, num_arrays=2).tolist() == [1] and nd.multi_sum_sq([a, b]).tolist() == [2, 3]
    assert [x.dtype for x in nd.amp_multicast(a, b, cast_narrow=True)] == [np.float32] * 2
    for op in (nd.multi_all_finite, nd.multi_sum_sq):
        with pytest.raises(ValueError, match="num_arrays is 3, but 2 arrays are given"):
            op(a, b, num_arrays=3)
    nd.reset_arrays(a, b, num_arrays=2)
    assert a.tolist() == [0, 0] and b.tolist() == [0, 0, 0]


LIKE = {
    "uniform_like": {"low": 2, "high": 3},
    "normal_like": {"loc": 1, "scale": 2},
    "gamma_like": {"alpha": 1, "beta": 2},
    "exponential_like": {"lam": 4},
    "poisson_like": {"lam": 2},
    "negative_binomial_like": {"k": 2, "p": 0.5},
    "generalized_negative_binomial_like": {"mu": 2, "alpha": 0.3},
}


@pytest.mark.parametrize("name", LIKE)
def test_random_numbers_like_an_array(name):
    x, draw, given = nd.zeros((2, 3), dtype="float64"), getattr(nd.random, name), LIKE[name]
    nb.random.seed(1)
    y = draw(x, *given.values())
    nb.random.seed(1)
    named = draw(data=x, **given)
    nb.random.seed(1)
    source = getattr(nd.random, name.removesuffix("_like"))
    parameters = {"scale": 0.25} if name == "exponential_like" else given
    assert (
        y.dtype is np.float64
        and y.tolist() == named.tolist() == source(**parameters, shape=(2, 3), dtype="float64").tolist()
    )
    with pytest.raises(TypeError, match="keyword 'shape' is unknown"):
        draw(x, shape=2)
    with pytest.raises(TypeError, match="too many arguments"):
        draw(x, 1, 1, 1)


def test_columns_and_images_of_any_rank():
    for spatial in ((5,), (3, 4), (2, 3, 3)):
        window = {"kernel": (2,) * len(spatial), "pad": (1,) * len(spatial)}
        x = nd.random.normal(shape=(2, 3, *spatial), dtype="float64")
        columns = nd.im2col(x, **window)
        y = nd.random.normal(shape=columns.shape, dtype="float64")
        images = nd.col2im(y, output_size=spatial, **window)
        assert images.shape == x.shape
        assert (columns * y).sum().asscalar() == pytest.approx((images * x).sum().asscalar(), rel=1e-12)
    with pytest.raises(ValueError, match=r"col2im: data \(n, channels \* 2, 3\) is needed, got shape \(1, 3, 3\)"):
        nd.col2im(nd.ones((1, 3, 3)), output_size=4, kernel=2)
    with pytest.raises(ValueError, match="exceeds"):
        nd.im2col(nd.ones((1, 1, 2)), kernel=3)
    with pytest.raises(ValueError, match="1 to 3 spatial dimensions"):
        nd.im2col(nd.ones((1, 2)), kernel=1)


def test_densities_where_nothing_is_drawn():
    x, ones = nd.array([[-1, 5]]), nd.array([1])
    for name, parameters in (("exponential", 1), ("poisson", 1), ("gamma", 2), ("negative_binomial", 2)):
        op = getattr(nd, f"random_pdf_{name}")
        values = [ones * 0.5] * parameters
        for is_log, expected in ((False, 0), (True, -np.inf)):
            found = op(x, *values, is_log=is_log)
            assert found[0, 0].asscalar() == expected and np.isfinite(found[0, 1].asscalar())
    assert nd.random_pdf_uniform(nd.array([[1, 2, 5]]), low=ones, high=ones * 3).tolist() == [[0.5, 0.5, 0]]
    assert nd.random_pdf_normal(x, nd.zeros(2), nd.array([1, 2])).shape == (2, 2)
    with pytest.raises(ValueError, match=r"mu, sigma must have one shape"):
        nd.random_pdf_normal(x, nd.zeros(1), nd.zeros(2))
    with pytest.raises(TypeError, match="floating dtype"):
        nd.random_pdf_poisson(x.astype("int32"), ones.astype("int32"))
