"""Arrays on a GPU behave as those on the CPU do."""

import os
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.backends.cuda import driver, product
from nbgrad.backends.cuda.buffers import pools
from nbgrad.errors import ContextError

CPU = nb.cpu(0)


@pytest.fixture
def x(gpu):
    return nd.array(np.arange(12.0).reshape(3, 4), ctx=gpu, dtype="float64")


def test_where_things_are(gpu, x):
    assert x.context == gpu and x.ctx == gpu and "@gpu(0)" in repr(x)
    assert nb.num_gpus() >= 1
    for made in (nd.zeros((2, 3), ctx=gpu), nd.ones(3, ctx=gpu), nd.full((2,), 4, ctx=gpu), nd.arange(5, ctx=gpu)):
        assert made.context == gpu
    with gpu:
        assert nb.current_context() == gpu and nd.array([1, 2]).context == gpu and nd.random.normal(shape=2).ctx == gpu
    assert nb.current_context() == CPU
    free, total = nb.gpu_memory_info(0)
    assert 0 <= free <= total


def test_there_and_back(gpu, x):
    y = x.as_in_context(CPU)
    assert y.context == CPU and x.as_in_context(gpu) is x
    np.testing.assert_array_equal(y.asnumpy(), x.asnumpy())
    z = nd.zeros((3, 4), dtype="float64")
    assert x.copyto(z) is z
    np.testing.assert_array_equal(z.asnumpy(), x.asnumpy())
    w = z.copyto(gpu)
    (z * 2).copyto(w)
    np.testing.assert_array_equal(w.asnumpy(), 2 * x.asnumpy())
    for dtype in ("float16", "int32", "uint8", "int16", "uint64", "bool"):
        assert x.astype(dtype).asnumpy().dtype == dtype
        np.testing.assert_array_equal(x.astype(dtype).asnumpy(), x.asnumpy().astype(dtype))


def test_what_is_given_out_is_a_copy(x):
    values = x.asnumpy()
    values[:] = -1
    assert x.asnumpy()[0, 1] == 1 and x[0, 1].item() == 1 and float(x.sum()) == 66
    assert x.tolist()[1][2] == 6 and bool(x[0, 1] == 1) and len(x) == 3


def test_gradients_cross_devices(gpu):
    x = nd.array([1.0, 2.0], dtype="float64")
    x.attach_grad()
    with autograd.record():
        y = (x.as_in_context(gpu) ** 2).as_in_context(CPU) * x
    y.backward()
    assert x.grad.context == CPU
    np.testing.assert_allclose(x.grad.asnumpy(), 3 * x.asnumpy() ** 2)


def test_devices_do_not_mix(gpu, x):
    here = nd.ones((3, 4), dtype="float64")
    for call in (
        lambda: x + here,
        lambda: nd.dot(x, here.T),
        lambda: nd.concat(x, here, dim=0),
        lambda: nd.where(x > 1, x, here),
    ):
        with pytest.raises(ContextError, match=r"gpu\(0\).*cpu\(0\)|cpu\(0\).*gpu\(0\)"):
            call()
    assert (x + 1).context == gpu


def test_reading_by_index(gpu, x):
    values = x.asnumpy()
    keys = (1, -1, slice(1, 3), (slice(None), 2), (slice(None, None, 2), slice(3, 0, -1)), (..., None, 1), (1, 2))
    for key in keys:
        found = x[key]
        assert found.context == gpu
        np.testing.assert_array_equal(found.asnumpy().reshape(np.shape(values[key])), values[key])
    index = np.array([2, 0, 0])
    np.testing.assert_array_equal(x[nd.array(index, ctx=gpu)].asnumpy(), values[index])
    np.testing.assert_array_equal(x[index].asnumpy(), values[index])
    np.testing.assert_array_equal(x[values > 5].asnumpy(), values[values > 5])
    np.testing.assert_array_equal(x[(x > 5).astype(bool)].asnumpy(), values[values > 5])
    view = x[1]
    view[:] = 7
    assert (x.asnumpy()[1] == 7).all()  # neighbours share memory


def test_writing_by_index(gpu, x):
    values = x.asnumpy()
    for key, value in (
        ((0, 1), 5.0),
        ((slice(None), 2), [1.0, 2.0, 3.0]),
        (slice(1, None), nd.ones((2, 4), ctx=gpu) * 9),
    ):
        x[key] = value
        values[key] = value.asnumpy() if isinstance(value, nd.NDArray) else value
        np.testing.assert_array_equal(x.asnumpy(), values)
    x += 1
    x *= x
    np.testing.assert_array_equal(x.asnumpy(), (values + 1) ** 2)
    nd.add(x, x, out=x)
    np.testing.assert_array_equal(x.asnumpy(), 2 * (values + 1) ** 2)


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "bool"])
def test_what_is_written_goes_one_way(gpu, dtype, monkeypatch):
    """Numbers, arrays that are there, and the host's, into neighbours; nothing comes back. Others do."""
    before, copies = driver.download, []
    monkeypatch.setattr(driver, "download", lambda number, source: copies.append(source.size) or before(number, source))
    values = (np.arange(24) % 5).reshape(4, 6).astype(dtype)
    x = nd.array(values, ctx=gpu, dtype=dtype)
    row = np.arange(6) % 3
    for key, value in (
        (slice(None), values[::-1].copy()), (1, row), (slice(1, 3), row[None]), ((2, slice(1, 4)), 1),
        ((0, 5), np.array(2)), (..., values[0]), (slice(1, None), "before"), (2, "there"), (slice(2, 2), row),
    ):  # fmt: skip
        if isinstance(value, str):
            here, there = (values[:-1].copy(), x[:-1]) if value == "before" else (row, nd.array(row, ctx=gpu))
        else:
            here = there = value
        version = x._cell[0]
        x[key] = there
        values[key] = here
        assert x._cell[0] > version and not copies
    np.testing.assert_array_equal(x.asnumpy(), values)
    x[:, 1] = 1
    values[:, 1] = 1
    np.testing.assert_array_equal(x.asnumpy(), values)
    for value in (np.zeros(5), nd.zeros((5,), ctx=gpu), "text"):
        with pytest.raises((nb.NBGradError, ValueError)):
            x[1] = value


def test_training(gpu):
    """A perceptron learns the same on both devices."""
    rng = np.random.default_rng(0)
    data, labels = rng.standard_normal((16, 4)), rng.integers(0, 3, 16)
    start = [rng.standard_normal(shape) * 0.5 for shape in ((5, 4), (5,), (3, 5), (3,))]

    def learned(ctx):
        parameters = [nd.array(p, ctx=ctx, dtype="float64") for p in start]
        states = [nd.zeros(p.shape, ctx=ctx, dtype="float64") for p in parameters]
        x, t = nd.array(data, ctx=ctx, dtype="float64"), nd.array(labels, ctx=ctx)
        for p in parameters:
            p.attach_grad()
        for _ in range(3):
            with autograd.record():
                h = nd.tanh(nd.FullyConnected(x, *parameters[:2], num_hidden=5))
                loss = nd.softmax_cross_entropy(nd.FullyConnected(h, *parameters[2:], num_hidden=3), t)
            loss.backward()
            for p, s in zip(parameters, states, strict=True):
                nd.sgd_mom_update(p, p.grad, s, lr=0.1, momentum=0.9, out=p)
        return [p.asnumpy() for p in parameters]

    for a, b in zip(learned(gpu), learned(CPU), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_gradient_requests(gpu, x):
    x.attach_grad(grad_req="add")
    for _ in range(2):
        with autograd.record():
            y = nd.exp(x * 0.1)
        y.backward(nd.ones((3, 4), ctx=gpu, dtype="float64") * 2)
    assert x.grad.context == gpu
    np.testing.assert_allclose(x.grad.asnumpy(), 0.4 * np.exp(0.1 * x.asnumpy()))
    with autograd.record():
        y = nd.sin(x)
        (g,) = autograd.grad(y, [x], create_graph=True)
        z = (g * g).sum()
    (h,) = autograd.grad(z, [x])
    np.testing.assert_allclose(h.asnumpy(), -np.sin(2 * x.asnumpy()), atol=1e-12)


def test_functions_of_the_users(gpu, x):
    class Cube(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            return nd.array(x.asnumpy() ** 3, ctx=x.context, dtype=x.dtype)

        def backward(self, g):
            (x,) = self.saved_tensors
            return g * 3 * x * x

    x.attach_grad()
    with autograd.record():
        y = Cube()(x).sum()
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 3 * x.asnumpy() ** 2)
    value, gradient = nb.value_and_grad(lambda v: nd.sum(v * nd.log(v + 1)))(x)
    assert value.context == gpu and gradient.context == gpu
    recomputed = autograd.checkpoint(lambda v: nd.sin(v) * v)(x)
    assert recomputed.context == gpu


def test_random_numbers_are_the_cpu_s(gpu):
    for draw in (nd.random.normal, nd.random.uniform):
        nb.random.seed(3)
        a = draw(shape=(5, 7), ctx=gpu)
        nb.random.seed(3)
        np.testing.assert_array_equal(a.asnumpy(), draw(shape=(5, 7)).asnumpy())


def test_files_and_pickles(gpu, x, tmp_path):
    y = pickle.loads(pickle.dumps(x))
    assert y.context == gpu
    np.testing.assert_array_equal(y.asnumpy(), x.asnumpy())
    nd.save(str(tmp_path / "a"), [x])
    (z,) = nd.load(str(tmp_path / "a"))
    np.testing.assert_array_equal(z.asnumpy(), x.asnumpy())


def test_memory_is_shared_with_other_libraries(gpu, x):
    """DLPack capsules, and ``__cuda_array_interface__``, both ways."""

    class Other:
        """An array of another library."""

        def __init__(self, interface, owner):
            self.__cuda_array_interface__ = interface
            self.owner = owner

    assert x.__dlpack_device__() == (2, 0)
    for given in (nd.to_dlpack_for_read(x), Other(x.__cuda_array_interface__, x)):
        y = nd.from_dlpack(given)
        assert y.context == gpu and y.shape == (3, 4) and y.dtype == np.float64
        y[0, 0] = 42
        assert x[0, 0].item() == 42
        x[0, 0] = 0
        z = nd.from_dlpack(Other(x.__cuda_array_interface__, x), copy=True)
        z[:] = 1
        assert x[0, 0].item() == 0
    capsule = nd.to_dlpack_for_read(x)
    nd.from_dlpack(capsule)
    with pytest.raises(nb.NBGradError, match="consumed before"):
        nd.from_dlpack(capsule)
    lent = pools(0).lent
    for _ in range(3):
        nd.to_dlpack_for_read(nd.exp(x))  # nobody consumes it
        nd.from_dlpack(nd.to_dlpack_for_read(nd.exp(x)))
    assert pools(0).lent == lent
    turned = x.__cuda_array_interface__ | {"strides": (8, 24), "shape": (3, 4)}
    with pytest.raises(nb.NBGradError, match="not C-contiguous"):
        nd.from_dlpack(Other(turned, x))
    assert not hasattr(nd.ones(2), "__cuda_array_interface__")


def test_empty_and_without_axes(gpu):
    empty = nd.zeros((0, 3), ctx=gpu)
    assert nd.exp(empty).shape == (0, 3) and nd.sum(empty).item() == 0 and nd.sum(empty, axis=0).tolist() == [0, 0, 0]
    number = nd.array(2.0, ctx=gpu, dtype="float64")
    number.attach_grad()
    with autograd.record():
        y = number * number
    y.backward()
    assert number.shape == () and number.grad.item() == 4


@pytest.mark.parametrize(
    "shape, axis", [((2000,), None), ((3, 700), 1), ((700, 3), 0), ((2, 5, 90), (0, 2)), ((40, 1), 1)]
)
@pytest.mark.parametrize("name", ["sum", "max", "min", "mean"])
def test_reductions(gpu, name, shape, axis):
    values = np.random.default_rng(0).standard_normal(shape)
    values[..., 0] = np.round(values[..., 0])
    found = getattr(nd, name)(nd.array(values, ctx=gpu, dtype="float64"), axis=axis).asnumpy()
    np.testing.assert_allclose(found.reshape(-1), np.reshape(getattr(np, name)(values, axis), -1), rtol=1e-13)


def test_long_sums_are_exact_to_the_last_places(gpu):
    values = np.full(70_000 if not driver.simulated() else 3000, 0.1, "float32")
    assert nd.sum(nd.array(values, ctx=gpu)).item() == pytest.approx(float(values.astype("float64").sum()), rel=1e-7)


@pytest.mark.parametrize("way", ["one element", "several"])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products(gpu, transpose_a, transpose_b, way, monkeypatch):
    """A thread has one element or several of the result."""
    if way == "several":
        monkeypatch.setattr(product, "_BUSY", 1)
    rng = np.random.default_rng(1)
    for m, k, n in ((1, 1, 1), (5, 3, 2), (17, 18, 19), (4, 0, 3)):
        a = rng.standard_normal((2, k, m) if transpose_a else (2, m, k))
        b = rng.standard_normal((2, n, k) if transpose_b else (2, k, n))
        found = nd.batch_dot(
            *[nd.array(v, ctx=gpu, dtype="float64") for v in (a, b)], transpose_a=transpose_a, transpose_b=transpose_b
        )
        wanted = (a.swapaxes(1, 2) if transpose_a else a) @ (b.swapaxes(1, 2) if transpose_b else b)
        np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-13, atol=1e-13)


def test_memory_is_lent_again(gpu):
    gpu.empty_cache()
    pool = pools(0)
    lent = pool.lent
    for _ in range(3):
        y = nd.exp(nd.ones((100,), ctx=gpu)) + 1
    asked = pool.driver_requests
    for _ in range(5):
        y = nd.exp(nd.ones((100,), ctx=gpu)) + 1
    assert pool.driver_requests == asked and pool.cached_bytes > 0
    del y
    assert pool.lent == lent
    gpu.empty_cache()
    assert pool.cached_bytes == 0


def test_device_arrays_are_made_once(gpu):
    """They stay with the memory, which is lent again."""
    gpu.empty_cache()
    first = nd.ones((100,), ctx=gpu)
    kept = first._buf.array
    del first
    again = nd.ones((100,), ctx=gpu)
    assert again._buf.array is kept
    many = [again._buf[k : k + 1].array for k in range(100)]
    assert len(again._buf.lease.views) <= 64 and len(many) == 100


def test_waiting(x):
    y = nd.exp(x)
    y.wait_to_read()
    nd.waitall()
    assert np.isfinite(y.asnumpy()).all()


# What goes wrong.


def test_a_kernel_that_fails(gpu, x, monkeypatch):
    """It shows where somebody waits, as an error that names the device; the CPU is as it was."""

    class CudaAPIError(Exception):
        pass

    def fail():
        raise CudaAPIError("[700] Call to cuStreamSynchronize results in CUDA_ERROR_ILLEGAL_ADDRESS")

    here = nd.ones(3)
    here.attach_grad()
    monkeypatch.setattr(driver.device_of(0), "stream", SimpleNamespace(synchronize=fail))
    for wait in (x.wait_to_read, nd.waitall):
        with pytest.raises(ContextError, match=r"gpu\(0\): .*ILLEGAL_ADDRESS"):
            wait()
    with autograd.record():
        y = nd.sum(here * 2)
    y.backward()
    assert here.grad.tolist() == [2, 2, 2]
    monkeypatch.undo()
    assert nd.sum(x).item() == 66


def test_no_such_device():
    with pytest.raises(ContextError, match=r"gpu\(99\).*GPU\(s\), numbered from 0"):
        nd.ones(2, ctx=nb.gpu(99))
    with pytest.raises(ContextError, match=r"gpu\(99\)"), nb.gpu(99):
        pass
    assert nb.current_context() == CPU


def test_out_of_memory(gpu, x, monkeypatch):
    """The cache is freed and the driver asked once more; then there is an error, and nothing is broken."""
    asked = []

    def full(number, size):
        asked.append(size)
        raise MemoryError("CUDA_ERROR_OUT_OF_MEMORY")

    nd.ones((300,), ctx=gpu)  # something is kept
    x.attach_grad()
    monkeypatch.setattr(driver, "allocate", full)
    with pytest.raises(MemoryError, match=r"gpu\(0\): no memory for \d+ bytes: .* are free"), autograd.record():
        nd.zeros((1000, 1000), ctx=gpu)
    assert len(asked) == 2 and pools(0).cached_bytes == 0
    monkeypatch.undo()
    assert not autograd.is_recording() and nd.sum(x).item() == 66


@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="needs os.fork")
def test_a_forked_child_is_told(gpu, x):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            nd.exp(x)
            message = "no error"
        except ContextError as err:
            message = str(err)
        os.write(write, message.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        assert "forked" in answer.read()
    os.waitpid(child, 0)
    assert nd.sum(x).item() == 66


def test_which_products_are_the_librarys(monkeypatch):
    monkeypatch.setattr(product.cublas, "library", lambda number: object())
    for (m, k, n), large in {
        (200, 200, 200): False,
        (300, 300, 300): True,
        (8, 800, 8): True,
        (8, 600, 8): False,
    }.items():
        assert product.use_library(0, m * k * n, k) == large
    monkeypatch.setattr(product.cublas, "library", lambda number: None)
    assert not product.use_library(0, 10**9, 1000)
