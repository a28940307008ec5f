"""Large operations on several threads: the same bits for any number of them."""

import math

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.backends import threads

NUMBERS = (1, 2, 3, 7)


@pytest.fixture(autouse=True)
def as_before():
    before = nb.get_num_threads()
    yield
    nb.set_num_threads(before)


@pytest.fixture
def eager(monkeypatch):
    """Ranges so small that arrays of a few thousand elements are shared."""
    monkeypatch.setattr(threads, "GRAIN", 512)


def array(shape, seed=0, dtype="float64"):
    return nd.array(np.random.default_rng(seed).normal(size=shape), dtype=dtype)


def differentiated(function, *arrays):
    """The result and the gradients of all float arrays, as bytes."""
    for x in arrays:
        if x.dtype in (np.float32, np.float64):
            x.attach_grad()
    with autograd.record():
        y = function(*arrays)
    results = y if isinstance(y, list) else [y]
    autograd.backward(results, [array(r.shape, 9, r.dtype) for r in results])
    return [v.asnumpy().tobytes() for v in (*results, *(x.grad for x in arrays if x.grad is not None))]


def same_for_all(function, *arrays):
    found = {}
    for n in NUMBERS:
        nb.set_num_threads(n)
        found[n] = differentiated(function, *arrays)
    for n in NUMBERS[1:]:
        assert found[n] == found[1], f"{n} threads give other bits than one"


ELEMENTWISE = {
    "unary": (lambda x: nd.tanh(x), 1),
    "binary": (lambda x, z: x * z, 2),
    "sum of one with itself": (lambda x: x * x + x, 1),
    "subtraction": (lambda x, z: (x - z) + (z - x) * 0.5, 2),
    "several uses": (lambda x, z: nd.exp(x) * z + nd.sin(x) / (2 + z * z) - x, 2),
    "parameter": (lambda x: nd.clip(x, -0.5, 0.5) + x**3, 1),
    "where": (lambda x, z: nd.where(x > z, x, z * 2), 2),
    "cast": (lambda x: x.astype("float32").astype("float64") * x, 1),
}


@pytest.mark.parametrize("n", [8191, 8192, 8193, 30001])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(eager, name, n):
    function, count = ELEMENTWISE[name]
    same_for_all(function, *[array(n, k) for k in range(count)])


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "int64"])
def test_elementwise_dtypes(eager, dtype):
    x = nd.array(np.random.default_rng(0).normal(0, 50, 30001), dtype=dtype)
    same = {}
    for n in NUMBERS:
        nb.set_num_threads(n)
        same[n] = ((x * 3 - x) + x // 7).asnumpy().tobytes()
    assert len(set(same.values())) == 1


@pytest.mark.parametrize("function", [nd.tanh, lambda x: x * x * 3, lambda x: nd.sum(nd.exp(x))])
@pytest.mark.parametrize("n", [threads.GRAIN - 1, 2 * threads.GRAIN - 1, 2 * threads.GRAIN, 3 * threads.GRAIN + 5])
def test_elementwise_at_the_real_threshold(function, n):
    same_for_all(function, array(n))


SHAPES = [
    [(300, 40), (40,)],
    [(300, 40), (300, 1)],
    [(300, 1), (1, 41)],
    [(7, 1, 60), (5, 60)],
    [(2, 9001), (1,)],
    [(2, 9001), (2, 1)],
    [(9, 1, 50, 1), (30, 1, 4)],
    [(20000,), (1,)],
    [(1, 20000), (20000,)],
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_broadcasting(eager, shapes, dtype):
    arrays = [array(s, k, dtype) for k, s in enumerate(shapes)]
    same_for_all(lambda x, z: nd.tanh(x * z) + z, *arrays)
    same_for_all(lambda x, z: x + z, *arrays)


REDUCED = [
    [(1_048_575,), None],
    [(1_048_576,), None],
    [(1_048_577,), None],
    [(3, 1_100_001), 1],
    [(500, 77), 1],
    [(500, 77), 0],
    [(150_001, 7), 0],
    [(1_024, 1_024), 0],
    [(260, 1_025), 0],
    [(9, 40_000), 0],
    [(3, 40, 2_100), 1],
    [(2, 350_001, 3), 1],
    [(6, 50, 70, 8), (0, 2)],
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("shape, axis", REDUCED, ids=str)
@pytest.mark.parametrize("op", ["sum", "max"])
def test_reductions(eager, op, shape, axis, dtype):
    x = (array(shape) * 9).astype(dtype)
    if dtype == "int64":
        nb.set_num_threads(3)
    else:
        same_for_all(lambda x: getattr(nd, op)(x, axis=axis), x)
    expected = getattr(np, op)(x.asnumpy().astype("float64"), axis=axis)
    got = getattr(nd, op)(x, axis=axis).asnumpy().reshape(expected.shape)
    tolerance = 1e-6 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(got, expected, tolerance, tolerance * np.abs(x.asnumpy()).sum(axis).max())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1_048_575, 1_048_576, 3_000_001])
def test_long_sums_are_accurate(n, dtype):
    x = np.exp(np.random.default_rng(0).normal(size=n)).astype(dtype)
    exact = np.asarray(math.fsum(x), dtype)
    assert abs(nd.sum(nd.array(x)).asnumpy()[0] - exact) <= np.spacing(exact)


def batch_norm(x, gamma, beta):
    n = gamma.size
    return nd.BatchNorm(x, gamma, beta, nd.zeros(n), nd.ones(n), fix_gamma=False)


FAMILIES = {
    "softmax": (nd.softmax, (300, 41)),
    "softmax, first axis": (lambda x: nd.softmax(x, axis=1), (20, 41, 30)),
    "log_softmax": (nd.log_softmax, (300, 41)),
    "LayerNorm": (nd.LayerNorm, (700, 100), (100,), (100,)),
    "LayerNorm, long rows": (nd.LayerNorm, (200, 3001), (3001,), (3001,)),
    "BatchNorm": (batch_norm, (9, 8, 11, 12), (8,), (8,)),
    "BatchNorm, rows": (batch_norm, (900, 33), (33,), (33,)),
    "transpose": (lambda x: x.T * 2, (301, 77)),
    "transpose of a stack": (lambda x: nd.transpose(x, axes=(0, 2, 1)) * 2, (20, 31, 47)),
    "transpose, other": (lambda x: nd.transpose(x, axes=(2, 0, 1)) * 2, (20, 31, 47)),
    "slices": (lambda x: x[3:-4, ::2] * 2, (200, 99)),
    "concat": (lambda x, z: nd.concat(x, z, dim=1), (200, 51), (200, 40)),
    "take": (lambda x: nd.take(x, nd.array(np.arange(4000) % 190), axis=0), (190, 17)),
    "take along the last axis": (lambda x: nd.take(x, nd.array(np.arange(60) % 17), axis=1), (190, 17)),
    "broadcast_to": (lambda x: nd.broadcast_to(x, shape=(90, 300)), (90, 1)),
    "batch_dot": (lambda x, z: nd.batch_dot(x, z), (40, 9, 20), (40, 20, 13)),
    "batch_dot, transposed": (lambda x, z: nd.batch_dot(x, z, transpose_a=True), (40, 20, 9), (40, 20, 13)),
    "Convolution": (lambda x, w: nd.Convolution(x, w, no_bias=True, kernel=(3, 3)), (21, 3, 14, 13), (5, 3, 3, 3)),
    "Convolution, small images": (lambda x, w: nd.Convolution(x, w, no_bias=True, pad=1), (50, 4, 3, 3), (6, 4, 3, 3)),
    "Convolution, groups and strides": (
        lambda x, w: nd.Convolution(x, w, no_bias=True, stride=2, num_group=2),
        (13, 4, 30, 31),
        (6, 2, 3, 2),
    ),
    "Deconvolution": (lambda x, w: nd.Deconvolution(x, w, kernel=(3, 3)), (21, 5, 9, 8), (5, 3, 3, 3)),
    "max pooling": (lambda x: nd.Pooling(x, kernel=(2, 3), stride=(2, 2)), (12, 5, 14, 17)),
    "average pooling": (lambda x: nd.Pooling(x, kernel=(3, 3), pad=1, pool_type="avg"), (12, 5, 14, 17)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FAMILIES)
def test_families(eager, name, dtype):
    function, *shapes = FAMILIES[name]
    same_for_all(function, *[array(s, k, dtype) for k, s in enumerate(shapes)])


def test_parts_of_a_weight_gradient(eager):
    x, w = array((64, 2, 20, 20)), array((3, 2, 3, 3), 1)
    nb.set_num_threads(3)
    w.attach_grad()
    with autograd.record():
        y = nd.Convolution(x, w, no_bias=True)
    y.backward()
    expected = np.zeros(w.shape)
    for i, j in np.ndindex(3, 3):
        expected[:, :, i, j] = x.asnumpy()[:, :, i : i + 18, j : j + 18].sum((0, 2, 3))
    np.testing.assert_allclose(w.grad.asnumpy(), expected, rtol=1e-10)
