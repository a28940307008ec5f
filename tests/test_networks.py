"""Network operators: values against formulas in NumPy, gradients of order 1 to 3, modes, statistics, errors."""

import threading

import numpy as np
import pytest
import scipy.special

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.codegen.compile import kernel
from nbgrad.kernels import convolution, vector_math
from nbgrad.testing import check_grads

RTOL = {"float64": 1e-12, "float32": 2e-5, "float16": 5e-3}
DTYPES = list(RTOL)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def close(found, expected, dtype="float64"):
    assert found.dtype == np.dtype(dtype)
    tolerance = RTOL[dtype]
    np.testing.assert_allclose(found.asnumpy(), expected, rtol=tolerance, atol=tolerance)


# Softmax.


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axis"), [((5, 200), 1), ((5, 200), 0), ((2, 3, 70), 1), ((7,), 0), ((3, 1), -1)])
def test_softmax_family(rng, dtype, shape, axis):
    x = (3 * rng.standard_normal(shape)).astype(dtype)
    wide = x.astype("float64")
    close(nd.softmax(nd.array(x), axis=axis), softmax(wide, axis), dtype)
    close(nd.softmax(nd.array(x), axis=axis, temperature=2.5), softmax(wide / 2.5, axis), dtype)
    close(nd.softmin(nd.array(x), axis=axis), softmax(-wide, axis), dtype)
    close(nd.array(x).log_softmax(axis=axis), np.log(softmax(wide, axis)), dtype)


@pytest.mark.parametrize("op", [nd.softmax, nd.log_softmax], ids=["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_at_the_edges(op, axis):
    inf, nan = np.inf, np.nan
    rows = np.array([[0, 1e4, -1e4], [nan, 1, 2], [inf, 1, 2], [-inf, 1, 2], [-inf, -inf, -inf]])
    found = op(nd.array(rows if axis else rows.T.copy()), axis=axis).asnumpy()
    with np.errstate(all="ignore"):
        expected = softmax(rows) if op is nd.softmax else scipy.special.log_softmax(rows, -1)
    expected[2] = nan  # SciPy's answers differ between versions
    np.testing.assert_allclose(found if axis else found.T, expected, rtol=1e-13)


def test_softmax_of_nothing():
    assert nd.softmax(nd.zeros((2, 0))).shape == (2, 0)
    assert nd.log_softmax(nd.zeros((0, 3)), axis=0).shape == (0, 3)


def test_softmax_with_lengths(rng):
    x = rng.standard_normal((2, 4, 3))
    length = np.array([[1, 0, 3], [2, 2, 4]])
    found = nd.softmax(nd.array(x), nd.array(length), axis=1, use_length=True).asnumpy()
    for i, j in np.ndindex(2, 3):
        n = length[i, j]
        np.testing.assert_allclose(found[i, :n, j], softmax(x[i, :n, j]) if n else [], rtol=1e-12)
        assert (found[i, n:, j] == 0).all()
    check_grads(lambda a: nd.softmax(a, nd.array(length), axis=1, use_length=True), [x], order=2)


@pytest.mark.parametrize("axis", [0, 1])
def test_softmax_gradients(rng, axis):
    x = rng.standard_normal((3, 2))
    check_grads(lambda a: nd.softmax(a, axis=axis), [x], order=3)
    check_grads(lambda a: nd.log_softmax(a, axis=axis), [x], order=3)
    check_grads(lambda a: nd.softmin(a, axis=axis, temperature=0.7), [x], order=2)


def test_softmax_cross_entropy(rng):
    x, label = rng.standard_normal((4, 3)), np.array([2, 0, 1, 1])
    found = nd.softmax_cross_entropy(nd.array(x), nd.array(label))
    assert found.shape == (1,)
    close(found, [-np.log(softmax(x))[range(4), label].sum()])
    check_grads(lambda a: nd.softmax_cross_entropy(a, nd.array(label)), [x], order=3)


@kernel
def _exps(x, out):
    for i in range(np.uintp(out.size)):
        out[i] = vector_math.exp_below(x[i])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exp_below_is_accurate(dtype):
    lowest = np.log(np.finfo(dtype).tiny)
    x = np.concatenate([np.linspace(lowest * 0.99999, 0, 50001), -np.logspace(-30, 0, 1001), [0.0]]).astype(dtype)
    found = np.empty_like(x)
    _exps(x, found)
    expected = np.exp(x.astype(np.longdouble))
    assert (np.abs(found - expected) / np.spacing(expected.astype(dtype))).max() < 1
    edges = np.array([-np.inf, np.nan, -1e30], dtype)
    _exps(edges, edges)
    np.testing.assert_array_equal(edges, [0, np.nan, 0])


# Activations.


@pytest.mark.parametrize("dtype", DTYPES)
def test_activations(rng, dtype):
    a = rng.standard_normal((3, 4)).astype(dtype)
    x, wide = nd.array(a), a.astype("float64")
    expected = {
        "relu": np.maximum(wide, 0),
        "sigmoid": scipy.special.expit(wide),
        "tanh": np.tanh(wide),
        "softrelu": np.log1p(np.exp(wide)),
        "softsign": wide / (1 + np.abs(wide)),
    }
    for name, want in expected.items():
        close(nd.Activation(x, act_type=name), want, dtype)
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    modes = {
        "leaky": np.where(wide > 0, wide, 0.1 * wide),
        "elu": np.where(wide > 0, wide, 0.1 * np.expm1(wide)),
        "selu": scale * np.where(wide > 0, wide, alpha * np.expm1(wide)),
        "gelu": wide * scipy.special.ndtr(wide),
        "rrelu": np.where(wide > 0, wide, (0.125 + 0.334) / 2 * wide),
    }
    for name, want in modes.items():
        close(nd.LeakyReLU(x, act_type=name, slope=0.1), want, dtype)


def test_prelu(rng):
    a, gamma = rng.standard_normal((2, 3, 4)), rng.standard_normal(3)
    f = lambda x, g: nd.LeakyReLU(x, g, act_type="prelu")  # noqa: E731
    close(f(nd.array(a), nd.array(gamma)), np.where(a > 0, a, gamma[:, None] * a))
    close(f(nd.array(a), nd.array(gamma[:1])), np.where(a > 0, a, gamma[0] * a))
    check_grads(f, [a, gamma], order=3)
    with pytest.raises(nb.errors.ShapeError, match=r"gamma must have shape \(1,\) or \(3,\), got \(4,\)"):
        f(nd.array(a), nd.zeros(4))


def test_rrelu_while_training():
    nb.random.seed(5)
    x = nd.full((50, 60), -2.0)
    x.attach_grad()
    with autograd.record():
        y = nd.LeakyReLU(x, act_type="rrelu", lower_bound=0.2, upper_bound=0.3)
    y.backward()
    slopes = y.asnumpy() / -2
    assert 0.2 <= slopes.min() < 0.201 and 0.299 < slopes.max() <= 0.3 and abs(slopes.mean() - 0.25) < 0.003
    np.testing.assert_allclose(x.grad.asnumpy(), slopes, rtol=1e-6)


def test_leaky_gradient_at_zero_is_the_slope():
    for mode in ("leaky", "elu"):
        x = nd.zeros(1)
        x.attach_grad()
        with autograd.record():
            y = nd.LeakyReLU(x, act_type=mode, slope=0.3)
        y.backward()
        assert x.grad.item() == pytest.approx(0.3)


# Dense layers.


@pytest.mark.parametrize("dtype", DTYPES)
def test_fully_connected(rng, dtype):
    x, w, b = (rng.standard_normal(s).astype(dtype) for s in ((2, 3, 4), (5, 12), (5,)))
    found = nd.FullyConnected(nd.array(x), nd.array(w), nd.array(b), num_hidden=5)
    close(found, x.reshape(2, 12).astype("float64") @ w.T.astype("float64") + b, dtype)
    found = nd.FullyConnected(nd.array(x), nd.array(w[:, :4].copy()), num_hidden=5, no_bias=True, flatten=False)
    close(found, x.astype("float64") @ w[:, :4].T.astype("float64"), dtype)


def test_fully_connected_gradients(rng):
    operands = [rng.standard_normal(s) for s in ((2, 2, 2), (3, 4), (3,))]
    check_grads(lambda x, w, b: nd.sin(nd.FullyConnected(x, w, b, num_hidden=3)), operands, order=3)


# Convolution.


def convolved(x, w, stride, pad, dilate, groups):
    """Sums over shifted views."""
    nd_ = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
    outs = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilate, strict=True)]
    f, a = w.shape[:2]
    y = np.zeros((x.shape[0], f, *outs))
    for q in range(f):
        c = q // (f // groups) * a
        for k in np.ndindex(*w.shape[2:]):
            view = tuple(
                slice(k[i] * dilate[i], k[i] * dilate[i] + (outs[i] - 1) * stride[i] + 1, stride[i]) for i in range(nd_)
            )
            y[:, q] += np.einsum("nc...,c->n...", x[(slice(None), slice(c, c + a), *view)], w[(q, slice(None), *k)])
    return y


CONVOLUTIONS = {  # data, weight, stride, pad, dilate, groups
    "1-d": ((2, 3, 9), (4, 3, 3), (2,), (1,), (1,), 1),
    "2-d": ((2, 2, 6, 5), (3, 2, 3, 2), (1, 2), (1, 0), (2, 1), 1),
    "2-d groups": ((2, 4, 4, 5), (6, 2, 3, 3), (1, 1), (1, 1), (1, 1), 2),
    "3-d": ((1, 2, 3, 4, 4), (2, 2, 2, 2, 3), (1, 1, 2), (0, 1, 1), (1, 1, 1), 1),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(rng, name, dtype):
    xs, ws, stride, pad, dilate, groups = CONVOLUTIONS[name]
    x, w, b = (rng.standard_normal(s).astype(dtype) for s in (xs, ws, ws[:1]))
    attrs = {"kernel": ws[2:], "stride": stride, "pad": pad, "dilate": dilate}
    found = nd.Convolution(nd.array(x), nd.array(w), nd.array(b), num_filter=ws[0], num_group=groups, **attrs)
    expected = convolved(x.astype("float64"), w.astype("float64"), stride, pad, dilate, groups)
    close(found, expected + b.reshape(-1, *(1,) * (x.ndim - 2)), dtype)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_deconvolution_is_the_adjoint(rng, name):
    xs, ws, stride, pad, dilate, groups = CONVOLUTIONS[name]
    x, w = nd.array(rng.standard_normal(xs)), nd.array(rng.standard_normal(ws))
    attrs = {"kernel": ws[2:], "stride": stride, "pad": pad, "dilate": dilate, "num_group": groups, "no_bias": True}
    y = nd.Convolution(x, w, **attrs)
    h = nd.array(rng.standard_normal(y.shape))
    sizes = zip(xs[2:], y.shape[2:], ws[2:], stride, pad, dilate, strict=True)
    adj = tuple(n - (s * (m - 1) + d * (k - 1) + 1 - 2 * p) for n, m, k, s, p, d in sizes)
    back = nd.Deconvolution(h, w, adj=adj, **attrs)
    assert (y * h).sum().item() == pytest.approx((x * back).sum().item(), rel=1e-10)


def test_deconvolution_shapes():
    x, w = nd.ones((1, 2, 5, 5)), nd.ones((2, 3, 3, 3))
    attrs = {"kernel": (3, 3), "num_filter": 3, "stride": (2, 2)}
    found = nd.Deconvolution(x, w, pad=(1, 1), adj=(1, 1), **attrs)
    assert found.shape == (1, 3, 10, 10) and found.reshape(-1)[:3].tolist() == [2, 4, 2]
    assert nd.Deconvolution(x, w, target_shape=(10, 10), **attrs).shape == (1, 3, 10, 10)
    assert nd.Deconvolution(x, w, nd.ones(3), no_bias=False, **attrs).shape == (1, 3, 11, 11)


def test_convolution_gradients(rng):
    x, w, b = (rng.standard_normal(s) for s in ((2, 2, 4, 3), (4, 1, 2, 2), (4,)))
    attrs = {"kernel": (2, 2), "stride": (2, 1), "pad": (1, 0), "num_group": 2}
    check_grads(lambda x, w, b: nd.Convolution(x, w, b, num_filter=4, **attrs), [x, w, b], order=3)
    operands = [rng.standard_normal(s) for s in ((1, 2, 4), (2, 2, 3))]
    check_grads(lambda x, w: nd.tanh(nd.Convolution(x, w, kernel=3, no_bias=True)), operands, order=2)
    check_grads(lambda x, w: nd.Deconvolution(x, w, kernel=(2, 2), stride=(2, 2), adj=(1, 0)), [x[:1], w[:2]], order=3)


def test_channels_last(rng):
    x, w = rng.standard_normal((2, 3, 5, 4)), rng.standard_normal((4, 3, 2, 2))
    last = lambda a: nd.array(np.moveaxis(a, 1, -1).copy())  # noqa: E731
    attrs = {"kernel": (2, 2), "num_filter": 4, "no_bias": True}
    first = nd.Convolution(nd.array(x), nd.array(w), **attrs).asnumpy()
    close(nd.Convolution(last(x), last(w), layout="NHWC", **attrs), np.moveaxis(first, 1, -1))
    pooled = nd.Pooling(nd.array(x), kernel=(2, 2)).asnumpy()
    close(nd.Pooling(last(x), kernel=(2, 2), layout="NHWC"), np.moveaxis(pooled, 1, -1))


def test_convolution_without_samples():
    y = nd.Convolution(nd.zeros((0, 2, 4, 4)), nd.zeros((3, 2, 3, 3)), no_bias=True)
    assert y.shape == (0, 3, 2, 2)


def test_workspaces_are_kept_and_each_thread_has_its_own(rng):
    x, w = nd.array(rng.standard_normal((2, 2, 8, 8))), nd.array(rng.standard_normal((3, 2, 3, 3)))
    expected = nd.Convolution(x, w, no_bias=True).asnumpy()
    mine = convolution._workspaces.d
    nd.Convolution(x, w, no_bias=True)
    assert convolution._workspaces.d is mine
    wrong, theirs = [], []

    def work():
        for _ in range(50):
            if not np.array_equal(nd.Convolution(x, w, no_bias=True).asnumpy(), expected):
                wrong.append(True)
        theirs.append(convolution._workspaces.d)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and len({id(v) for v in [mine, *theirs]}) == 5


# Pooling.


def pooled(x, kernel, stride, pad, kind, convention, count_pad, p=2):
    spatial = x.shape[2:]
    up = [s - 1 if convention == "full" else 0 for s in stride]
    outs = [
        -(-n // s) if convention == "same" else (n + 2 * q - k + u) // s + 1
        for n, k, s, q, u in zip(spatial, kernel, stride, pad, up, strict=True)
    ]
    y = np.empty((*x.shape[:2], *outs))
    for o in np.ndindex(*outs):
        starts = [i * s - q for i, s, q in zip(o, stride, pad, strict=True)]
        window = tuple(slice(max(0, a), a + k) for a, k in zip(starts, kernel, strict=True))
        v = x[(..., *window)].reshape(*x.shape[:2], -1)
        cells = np.prod([min(a + k, n + q) - a for a, k, n, q in zip(starts, kernel, spatial, pad, strict=True)])
        divisor = cells if count_pad else v.shape[-1]
        y[(..., *o)] = {
            "max": lambda v=v: v.max(-1),
            "avg": lambda v=v, d=divisor: v.sum(-1) / d,
            "sum": lambda v=v: v.sum(-1),
            "lp": lambda v=v: (np.abs(v) ** p).sum(-1) ** (1 / p),
        }[kind]()
    return y


@pytest.mark.parametrize("kind", ["max", "avg", "sum", "lp"])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "pad", "convention", "count_pad"),
    [
        ((2, 2, 9), (3,), (2,), (1,), "valid", True),
        ((2, 2, 12), (3,), (2,), (1,), "full", False),
        ((1, 2, 12), (3,), (5,), (0,), "same", True),
        ((2, 1, 6, 5), (2, 3), (2, 1), (1, 1), "valid", False),
        ((2, 1, 6, 5), (3, 2), (2, 2), (1, 0), "full", True),
        ((1, 2, 4, 3, 5), (2, 2, 3), (1, 1, 2), (0, 1, 1), "valid", True),
    ],
)
def test_pooling(rng, kind, shape, kernel, stride, pad, convention, count_pad):
    x = rng.standard_normal(shape)
    for dtype in DTYPES:
        narrow = x.astype(dtype)
        found = nd.Pooling(
            nd.array(narrow),
            kernel=kernel,
            stride=stride,
            pad=pad,
            pool_type=kind,
            pooling_convention=convention,
            count_include_pad=count_pad,
            p_value=3,
        )
        expected = pooled(narrow.astype("float64"), kernel, stride, pad, kind, convention, count_pad, 3)
        close(found, expected, dtype)


def test_global_pooling(rng):
    x = rng.standard_normal((2, 3, 4, 5))
    close(nd.Pooling(nd.array(x), global_pool=True), x.max((2, 3), keepdims=True))
    close(
        nd.Pooling(nd.array(x), global_pool=True, pool_type="avg", kernel=(2, 2), pad=(1, 1)),
        x.mean((2, 3), keepdims=True),
    )


@pytest.mark.parametrize("kind", ["max", "avg", "sum", "lp"])
def test_pooling_gradients(rng, kind):
    x = rng.standard_normal((1, 2, 4, 4))
    f = lambda a: nd.sin(nd.Pooling(a, kernel=(2, 3), stride=(2, 1), pad=(1, 0), pool_type=kind, p_value=3))  # noqa: E731
    check_grads(f, [x], order=3)


def test_max_pooling_gradient_at_a_tie_goes_to_the_first():
    x = nd.array([[[1.0, 1.0, 1.0, 0.0]]])
    x.attach_grad()
    with autograd.record():
        y = nd.Pooling(x, kernel=(2,), stride=(2,))
    y.backward()
    assert x.grad.tolist() == [[[1, 0, 1, 0]]]


def test_lp_pooling_gradient_at_zero_is_zero():
    x = nd.zeros((1, 1, 4))
    x.attach_grad()
    with autograd.record():
        y = nd.Pooling(x, kernel=(2,), pool_type="lp")
    y.backward()
    assert x.grad.tolist() == [[[0, 0, 0, 0]]]


# Normalization.


def normalized(x, gamma, beta, axes, shape, eps):
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * gamma.reshape(shape) + beta.reshape(shape), mean, var


BATCH_SHAPES = [((4, 3, 5), 1), ((6, 3), 1), ((2, 3, 2, 4), -1), ((3, 4, 2), 0)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axis"), BATCH_SHAPES)
def test_batch_norm_training(rng, shape, axis, dtype):
    x = (rng.standard_normal(shape) + 1).astype(dtype)
    n = shape[axis]
    inner = "float32" if dtype == "float16" else dtype
    gamma, beta = rng.standard_normal(n).astype(inner), rng.standard_normal(n).astype(inner)
    mean, var = (rng.uniform(1, 2, n).astype(inner) for _ in range(2))
    running = [nd.array(mean), nd.array(var)]
    attrs = {"eps": 0.01, "momentum": 0.8, "fix_gamma": False, "axis": axis}
    with autograd.train_mode():
        y, m, rstd = nd.BatchNorm(nd.array(x), nd.array(gamma), nd.array(beta), *running, output_mean_var=True, **attrs)
    axes = tuple(k for k in range(x.ndim) if k != axis % x.ndim)
    along = [n if k == axis % x.ndim else 1 for k in range(x.ndim)]
    expected, batch_mean, batch_var = normalized(x.astype("float64"), gamma, beta, axes, along, 0.01)
    close(y, expected, dtype)
    close(m, batch_mean.ravel(), inner)
    close(rstd, 1 / np.sqrt(batch_var.ravel() + 0.01), inner)
    close(running[0], 0.8 * mean + 0.2 * batch_mean.ravel(), inner)
    close(running[1], 0.8 * var + 0.2 * batch_var.ravel(), inner)


@pytest.mark.parametrize("attrs", [{}, {"use_global_stats": True}])
def test_batch_norm_predicting_or_with_global_statistics(rng, attrs):
    x, gamma, beta, mean, var = rng.standard_normal((4, 3)), *rng.uniform(1, 2, (4, 3))
    running = [nd.array(mean), nd.array(var)]
    with autograd.train_mode() if attrs else autograd.predict_mode():
        y = nd.BatchNorm(nd.array(x), nd.array(gamma), nd.array(beta), *running, fix_gamma=False, eps=0.1, **attrs)
    close(y, (x - mean) / np.sqrt(var + 0.1) * gamma + beta)
    assert running[0].asnumpy().tolist() == mean.tolist() and running[1].asnumpy().tolist() == var.tolist()


def test_running_statistics_move_once_in_the_forward(rng):
    x = nd.array(rng.standard_normal((8, 2)))
    x.attach_grad()
    mean, var = nd.zeros(2, dtype="float64"), nd.ones(2, dtype="float64")
    gamma = nd.array([2.0, 3.0], dtype="float64")
    gamma.attach_grad()
    with autograd.record():
        y = nd.BatchNorm(x, gamma, nd.zeros(2, dtype="float64"), mean, var)
    moved = mean.asnumpy()
    np.testing.assert_allclose(moved, 0.1 * x.asnumpy().mean(0))
    y.backward(retain_graph=True)
    y.backward()
    assert (mean.asnumpy() == moved).all()
    assert gamma.tolist() == [2, 3] and gamma.grad.tolist() == [0, 0]  # fix_gamma, the default
    np.testing.assert_allclose(y.asnumpy().std(0), 1, rtol=1e-2)


@pytest.mark.parametrize("mode", ["fixed", "predict"])
def test_fixed_gamma_and_running_statistics_have_zero_gradient(mode):
    arrays = [nd.array([[1.0, 2.0], [3.0, 5.0]]), *(nd.ones(2) for _ in range(4))]
    for a in arrays[:3]:
        a.attach_grad()
    arrays[1].grad[:] = 7
    with autograd.record(train_mode=mode == "fixed"):
        y = nd.BatchNorm(*arrays)
    y.backward()
    assert arrays[1].grad.tolist() == [0, 0] and arrays[2].grad.tolist() == [2, 2]


def training(f):
    def call(*args):
        with autograd.train_mode():
            return f(*args)

    return call


@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 2), 1), ((4, 2), 1), ((2, 2, 2), -1)])
@pytest.mark.parametrize("outputs", [False, True])
def test_batch_norm_gradients(rng, shape, axis, outputs):
    n = shape[axis]
    running = nd.zeros(n, dtype="float64"), nd.ones(n, dtype="float64")
    f = training(lambda x, g, b: nd.BatchNorm(x, g, b, *running, fix_gamma=False, axis=axis, output_mean_var=outputs))
    check_grads(f, [rng.standard_normal(s) for s in (shape, n, n)], order=2 if outputs else 3)


def test_batch_norm_gradients_predicting(rng):
    running = nd.array(rng.standard_normal(3)), nd.array(rng.uniform(1, 2, 3))
    f = lambda x, g, b: nd.BatchNorm(x, g, b, *running, fix_gamma=False)  # noqa: E731
    with autograd.predict_mode():
        x, g, b = (nd.array(rng.standard_normal(s)) for s in ((2, 3), 3, 3))
        for a in (x, g, b):
            a.attach_grad()
        with autograd.record(train_mode=False):
            y = f(x, g, b)
        y.backward()
    scale = 1 / np.sqrt(running[1].asnumpy() + 1e-3)
    close(x.grad, np.tile(g.asnumpy() * scale, (2, 1)))
    close(g.grad, ((x.asnumpy() - running[0].asnumpy()) * scale).sum(0))
    close(b.grad, [2, 2, 2])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [-1, 1])
def test_layer_norm(rng, axis, dtype):
    x = rng.standard_normal((4, 3, 6)).astype(dtype)
    n = x.shape[axis]
    gamma, beta = (rng.standard_normal(n).astype(dtype) for _ in range(2))
    y, mean, std = nd.LayerNorm(nd.array(x), nd.array(gamma), nd.array(beta), axis=axis, eps=0.01, output_mean_var=True)
    along = [n if k == axis % 3 else 1 for k in range(3)]
    wide = [a.astype("float64") for a in (x, gamma, beta)]
    expected, m, v = normalized(*wide, axis, along, 0.01)
    inner = "float32" if dtype == "float16" else dtype
    close(y, expected, dtype)
    close(mean, m, inner)
    close(std, np.sqrt(v + 0.01), inner)


@pytest.mark.parametrize(("shape", "axis"), [((2, 3), -1), ((2, 3, 2), 1)])
def test_layer_norm_gradients(rng, shape, axis):
    operands = [rng.standard_normal(s) for s in (shape, shape[axis], shape[axis])]
    check_grads(lambda x, g, b: nd.LayerNorm(x, g, b, axis=axis), operands, order=3)
    check_grads(lambda x, g, b: nd.LayerNorm(x, g, b, axis=axis, output_mean_var=True), operands, order=2)


def test_instance_and_group_norm(rng):
    x, gamma, beta = rng.standard_normal((2, 4, 3, 2)), *rng.standard_normal((2, 4))
    arrays = nd.array(x), nd.array(gamma), nd.array(beta)
    expected, _, _ = normalized(x, gamma, beta, (2, 3), (4, 1, 1), 1e-3)
    close(nd.InstanceNorm(*arrays), expected)
    blocks = x.reshape(2, 2, 2, 3, 2)
    h, mean, var = normalized(blocks, np.ones(1), np.zeros(1), (2, 3, 4), (1,), 1e-5)
    y, m, std = nd.GroupNorm(*arrays, num_groups=2, output_mean_var=True)
    close(y, h.reshape(x.shape) * gamma.reshape(4, 1, 1) + beta.reshape(4, 1, 1))
    close(m, mean.reshape(2, 2))
    close(std, np.sqrt(var + 1e-5).reshape(2, 2))
    by_group = nd.GroupNorm(arrays[0], nd.array(gamma[:2]), nd.array(beta[:2]), num_groups=2)
    close(by_group, (h * gamma[:2].reshape(2, 1, 1, 1) + beta[:2].reshape(2, 1, 1, 1)).reshape(x.shape))
    small = [x[:1, :2, :2, 0], gamma[:2], beta[:2]]
    check_grads(nd.InstanceNorm, small, order=2)
    check_grads(lambda x, g, b: nd.GroupNorm(x, g, b, num_groups=2), small, order=2)


# Fused backward kernels against the rules in operators.

FUSED = {
    "BatchNorm": (training(lambda *a: nd.BatchNorm(*a, nd.zeros(3), nd.ones(3), fix_gamma=False)), ((4, 3, 5), 3, 3)),
    "BatchNorm (n, c)": (
        training(lambda *a: nd.BatchNorm(*a, nd.zeros(3), nd.ones(3), fix_gamma=False)),
        ((7, 3), 3, 3),
    ),
    "LayerNorm": (nd.LayerNorm, ((4, 3), 3, 3)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUSED)
def test_fused_backward_is_the_rule(rng, name, dtype):
    f, shapes = FUSED[name]
    arrays = [nd.array(rng.standard_normal(s).astype(dtype)) for s in shapes]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        y = f(*arrays)
    head = nd.array(rng.standard_normal(y.shape).astype(dtype))
    y.backward(head, retain_graph=True)
    recorded = autograd.grad(y, arrays, head_grads=head, create_graph=True)
    for a, want in zip(arrays, recorded, strict=True):
        close(a.grad, want.asnumpy().astype("float64"), dtype)


# Dropout.


def test_dropout_mask_and_gradient():
    nb.random.seed(1)
    x = nd.full((200, 300), 3.0)
    x.attach_grad()
    with autograd.record():
        y = nd.Dropout(x, p=0.3)
    y.backward(train_mode=False)
    values = y.asnumpy()
    kept = values != 0
    assert abs(kept.mean() - 0.7) < 0.01
    np.testing.assert_allclose(values[kept], 3 / 0.7, rtol=1e-6)
    np.testing.assert_allclose(x.grad.asnumpy() * 3, values, rtol=1e-6)


def test_dropout_follows_the_seed():
    def once():
        return nd.Dropout(nd.ones(50), mode="always").tolist()

    nb.random.seed(7)
    first, second = once(), once()
    nb.random.seed(7)
    assert once() == first != second


def test_dropout_modes():
    x = nd.ones((20, 30))
    assert (nd.Dropout(x) == x).asnumpy().all()
    assert (nd.Dropout(x, mode="always") == 0).asnumpy().any()
    with autograd.train_mode():
        assert (nd.Dropout(x) == 0).asnumpy().any()
        assert (nd.Dropout(x, p=0) == x).asnumpy().all()
        assert not nd.Dropout(x, p=1).asnumpy().any()
    shared = nd.Dropout(x, mode="always", axes=(1,)).asnumpy()
    assert (shared == shared[:, :1]).all() and 0 < (shared == 0).mean() < 1
    for dtype in DTYPES:
        assert set(nd.Dropout(nd.ones(99, dtype=dtype), p=0.75, mode="always").tolist()) == {0, 4}


def test_dropout_higher_order(rng):
    def f(x):
        nb.random.seed(3)
        return nd.Dropout(nd.square(x), p=0.4, mode="always") * x

    check_grads(f, [rng.standard_normal((3, 4))], order=3)


# Optimizers.


def limited(x, limit):
    return np.clip(x, -limit, limit) if limit >= 0 else x


def moving(rate, old, new):
    return rate * old + (1 - rate) * new


def reference(name, w, g, s, lr, wd, rescale, clip):
    """One step in NumPy; `s` are the states. Other attributes at their defaults but momentum 0.9 and wd_lh 0.03."""
    plain, decayed = limited(rescale * g, clip), limited(rescale * g + wd * w, clip)
    if name == "sgd_update":
        return (1 - lr * wd) * w - lr * plain, []
    if name == "sgd_mom_update":
        m = 0.9 * s[0] - lr * wd * w - lr * plain
        return w + m, [m]
    if name == "nag_mom_update":
        step = lr * (plain + wd * w)
        m = 0.9 * s[0] - step
        return w + 0.9 * m - step, [m]
    if name == "adam_update":
        m, v = moving(0.9, s[0], decayed), moving(0.999, s[1], decayed**2)
        return w - lr * m / (np.sqrt(v) + 1e-8), [m, v]
    if name == "rmsprop_update":
        n = moving(0.95, s[0], decayed**2)
        return w - lr * decayed / np.sqrt(n + 1e-8), [n]
    if name == "rmspropalex_update":
        n, a = moving(0.95, s[0], decayed**2), moving(0.95, s[1], decayed)
        d = 0.9 * s[2] - lr * decayed / np.sqrt(n - a**2 + 1e-8)
        return w + d, [n, a, d]
    if name == "ftrl_update":
        n = s[1] + plain**2
        z = s[0] + plain - (np.sqrt(n) - np.sqrt(s[1])) * w / lr
        new = (np.sign(z) * 0.01 - z) / ((1 + np.sqrt(n)) / lr + wd)
        return np.where(np.abs(z) > 0.01, new, 0), [z, n]
    if name == "ftml_update":
        v = moving(0.999, s[1], decayed**2)
        d = (1 - 0.6**3) / lr * (np.sqrt(v / (1 - 0.999**3)) + 1e-8)
        z = moving(0.6, s[2], decayed) - (d - 0.6 * s[0]) * w
        return -z / d, [d, v, z]
    if name == "signsgd_update":
        return (1 - lr * wd) * w - lr * np.sign(plain), []
    m = 0.9 * s[0] - 0.1 * (wd * w + plain)
    return (1 - lr * 0.03) * w + lr * np.sign(m), [m]


UPDATES = {  # states, further attributes
    "sgd_update": (0, {}),
    "sgd_mom_update": (1, {"momentum": 0.9}),
    "nag_mom_update": (1, {"momentum": 0.9}),
    "adam_update": (2, {}),
    "rmsprop_update": (1, {}),
    "rmspropalex_update": (3, {}),
    "ftrl_update": (2, {}),
    "ftml_update": (3, {"t": 3}),
    "signsgd_update": (0, {}),
    "signum_update": (1, {"momentum": 0.9, "wd_lh": 0.03}),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("clip", [-1.0, 0.4])
@pytest.mark.parametrize("name", UPDATES)
def test_updates(rng, name, clip, dtype):
    count, more = UPDATES[name]
    more = {**more, "clip_grad" if name == "ftml_update" else "clip_gradient": clip}
    w, g = (rng.standard_normal(37).astype(dtype) for _ in range(2))
    states = [(1 + 0.1 * rng.uniform(0, 1, 37)).astype(dtype) for _ in range(count)]
    states = [s if k != 1 or count != 3 else s * dtype_of(dtype)(0.1) for k, s in enumerate(states)]
    wide = [a.astype("float64") for a in (w, g)]
    expected, news = reference(name, *wide, [s.astype("float64") for s in states], 0.1, 0.01, 0.5, clip)
    weight, state = nd.array(w), [nd.array(s) for s in states]
    new = getattr(nd, name)(weight, nd.array(g), *state, lr=0.1, wd=0.01, rescale_grad=0.5, **more)
    assert weight.asnumpy().tolist() == w.tolist()
    tolerance = {"float64": 1e-12, "float32": 1e-4, "float16": 4e-2}[dtype]
    for found, want in zip([new, *state], [expected, *news], strict=True):
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_allclose(found.asnumpy(), want, rtol=tolerance, atol=tolerance)
    again = [nd.array(s) for s in states]
    back = getattr(nd, name)(weight, nd.array(g), *again, lr=0.1, wd=0.01, rescale_grad=0.5, out=weight, **more)
    assert back is weight
    for a, b in zip([weight, *again], [new, *state], strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def dtype_of(name):
    return np.dtype(name).type


def test_clipping_at_zero_and_clipping_weights():
    w, g = nd.array([1.0, -2.0]), nd.array([3.0, 4.0])
    assert nd.sgd_update(w, g, lr=0.1, clip_gradient=0).tolist() == [1, -2]
    assert nd.rmsprop_update(w, g, nd.ones(2), lr=0.001, clip_weights=0.5).tolist() == [0.5, -0.5]
    assert nd.sgd_update(w, g, lr=0.5, lazy_update=False).tolist() == [-0.5, -4]


def test_update_refuses_arrays_in_a_graph_and_is_noticed_by_backward():
    w, g = nd.array([1.0]), nd.array([1.0])
    w.attach_grad()
    with autograd.record():
        y = w * w
        with pytest.raises(nb.errors.NBGradError, match="sgd_update: Assigning to NDArrays"):
            nd.sgd_update(w, g, lr=0.1, out=w)
    nd.sgd_update(w, g, lr=0.1, out=w)
    with pytest.raises(nb.errors.InPlaceError):
        y.backward()


def test_momentum_descends():
    w, mom = nd.array([5.0]), nd.zeros(1)
    w.attach_grad()
    for _ in range(200):
        with autograd.record():
            loss = nd.square(w - 2)
        loss.backward()
        nd.sgd_mom_update(w, w.grad, mom, lr=0.05, momentum=0.8, out=w)
    assert w.item() == pytest.approx(2, abs=1e-4)


# Errors: the operator, what was given, what is expected.

X = nd.ones((2, 3, 5, 5))
INTS = nd.ones((2, 3), dtype="int32")
ERRORS = [
    (lambda: nd.softmax(INTS), "softmax: data must be of a floating dtype, got int32"),
    (lambda: nd.softmax(X, axis=4), "softmax: axis 4 is out of range"),
    (lambda: nd.softmax(X, temperature=0), "softmax: temperature must be positive, got 0"),
    (lambda: nd.softmax(X, nd.ones(2), use_length=True), r"length must have shape \(2, 3, 5\) .* got \(2,\)"),
    (lambda: nd.softmax_cross_entropy(nd.ones((2, 3)), nd.ones(3)), r"data \(n, k\) and label \(n,\) are needed"),
    (lambda: nd.Activation(X, act_type="rolu"), "Activation: act_type must be one of relu, .* got 'rolu'"),
    (lambda: nd.LeakyReLU(X, act_type="rolu"), "LeakyReLU: act_type must be one of leaky, .* got 'rolu'"),
    (lambda: nd.LeakyReLU(X, act_type="prelu"), "LeakyReLU: Argument gamma must have NDArray type"),
    (lambda: nd.LeakyReLU(X, act_type="rrelu", lower_bound=1), "lower_bound 1 is greater than upper_bound"),
    (lambda: nd.FullyConnected(X, nd.ones((4, 75)), nd.ones(4), num_hidden=5), "num_hidden 5, got"),
    (lambda: nd.FullyConnected(X, nd.ones((4, 7)), nd.ones(4)), r"has 75 inputs, weight of shape \(4, 7\) takes 7"),
    (lambda: nd.FullyConnected(X, nd.ones((4, 75)), nd.ones(5)), r"bias must have shape \(4,\), got \(5,\)"),
    (lambda: nd.FullyConnected(X, nd.ones((4, 75))), "FullyConnected: Argument bias must have NDArray type"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3))), "Convolution: Argument bias"),
    (
        lambda: nd.Convolution(X, nd.ones((4, 2, 3, 3)), no_bias=True),
        r"weight must have shape \(num_filter, 3/num_group",
    ),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), no_bias=True, kernel=(3, 2)), "kernel says"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), no_bias=True, num_filter=5), "num_filter says 5"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), nd.ones(3)), r"bias must have shape \(4,\)"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 6, 3)), no_bias=True), "exceeds data"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), no_bias=True, stride=(0, 1)), "stride needs 2 integer"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), no_bias=True, pad=(1,)), "pad needs 2 integer"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), no_bias=True, layout="NCW"), "layout must be one of NCHW, NHWC"),
    (lambda: nd.Convolution(X, nd.ones((4, 3, 3, 3)), strid=(1, 1)), "keyword 'strid' is unknown"),
    (lambda: nd.Deconvolution(X, nd.ones((4, 3, 3, 3))), r"weight must have shape \(3, num_filter/num_group"),
    (lambda: nd.Deconvolution(X, nd.ones((3, 3, 3, 3)), adj=(1, 1)), r"adj \(1, 1\) must be less than stride"),
    (lambda: nd.Pooling(X), "kernel must be given"),
    (lambda: nd.Pooling(X, kernel=(2, 2), pool_type="min"), "pool_type must be .* got 'min'"),
    (lambda: nd.Pooling(X, kernel=(2, 2), pad=(2, 0)), r"pad \(2, 0\) must be less than kernel"),
    (lambda: nd.Pooling(X, kernel=(6, 2)), r"kernel \(6, 2\) exceeds data"),
    (lambda: nd.Pooling(X, kernel=(2, 2), pooling_convention="some"), "pooling_convention must be one of"),
    (lambda: nd.Pooling(X, kernel=(2, 2), pad=(1, 1), pooling_convention="same"), "takes no pad"),
    (lambda: nd.Pooling(INTS.reshape((1, 2, 3)), kernel=(2,)), "Pooling: data must be of a floating dtype"),
    (lambda: nd.BatchNorm(X, *[nd.ones(2)] * 4), r"gamma must have shape \(3,\), as data has channels; got \(2,\)"),
    (lambda: nd.BatchNorm(INTS, *[nd.ones(3)] * 4), "BatchNorm: data must be of a floating dtype"),
    (lambda: nd.LayerNorm(X, nd.ones(3), nd.ones(3)), r"gamma must have shape \(5,\)"),
    (lambda: nd.GroupNorm(X, nd.ones(3), nd.ones(3), num_groups=2), "num_groups must divide the 3 channels, got 2"),
    (lambda: nd.InstanceNorm(nd.ones((2, 3)), nd.ones(3), nd.ones(3)), r"data \(n, c, ...\) with elements is needed"),
    (lambda: nd.L2Normalization(X, mode="row"), "mode must be one of instance, channel, spatial"),
    (lambda: nd.Dropout(X, p=1.5), r"Dropout: p must be in \[0, 1\], got 1.5"),
    (lambda: nd.Dropout(INTS), "Dropout: data must be of a floating dtype, got int32"),
    (lambda: nd.Dropout(X, mode="never"), "mode must be 'training' or 'always', got 'never'"),
    (lambda: nd.sgd_update(nd.ones(2), nd.ones(2)), "sgd_update: lr must be given"),
    (lambda: nd.sgd_update(nd.ones(2), nd.ones(3), lr=1), r"grad must have weight's shape \(2,\), got \(3,\)"),
    (
        lambda: nd.sgd_mom_update(nd.ones(2), nd.ones(2), nd.ones(2, dtype="float64"), lr=1),
        "mom must have weight's dtype",
    ),
    (lambda: nd.sgd_update(nd.ones(2), nd.ones(2), rate=1), "keyword 'rate' is unknown"),
    (lambda: nd.adam_update(nd.ones(2), nd.ones(2), lr=1), "adam_update: Argument mean must have NDArray type"),
]


@pytest.mark.parametrize(("call", "message"), [pytest.param(*row, id=f"{k}") for k, row in enumerate(ERRORS)])
def test_errors_say_what_is_wrong(call, message):
    with pytest.raises((nb.errors.NBGradError, TypeError), match=message):
        call()
