"""Random numbers drawn on the device are those that the CPU draws."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd
from nbgrad.backends.cuda import driver


def both(gpu, draw, *parameters, exact=False, **how):
    """What `draw` gives on the device, from the middle of a stream with a large key; it is what the CPU gives."""
    found = []
    for ctx in (nb.cpu(0), gpu):
        nb.random.seed(2**62 + 12345)
        nd.random.uniform(shape=3)
        with ctx:
            y = draw(*[nd.array(p) if isinstance(p, list) else p for p in parameters], **how)
        assert y.context == ctx
        found.append(y.asnumpy())
    wanted, y = found
    small = 0 if exact or driver.simulated() else {"float32": 1e-6, "float16": 1e-3}.get(y.dtype.name, 1e-14)
    np.testing.assert_allclose(y, wanted, rtol=small, atol=small)
    return y


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_floats(gpu, dtype):
    for shape in (0, 1, 2, 3, 4, 5, (5, 7)):
        both(gpu, nd.random.uniform, exact=True, shape=shape, dtype=dtype)
        both(gpu, nb.random.bernoulli, 0.3, exact=True, shape=shape, dtype=dtype)
        both(gpu, nd.random.uniform, -1, 3, shape=shape, dtype=dtype)
        both(gpu, nd.random.normal, 1, 3, shape=shape, dtype=dtype)
        both(gpu, nd.random.exponential, 2, shape=shape, dtype=dtype)
    both(gpu, nd.random.normal, [1, 2], [0.5, 2], shape=3, dtype=dtype)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "int8"])
def test_integers(gpu, dtype):
    for n in (1, 2, 3, 50):
        both(gpu, nd.random.randint, 1, 100, exact=True, shape=n, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_by_rejection(gpu, dtype):
    for shape in (3, (5, 3)):
        both(gpu, nd.random.gamma, 0.5, 2.0, shape=shape, dtype=dtype)
        both(gpu, nd.random.gamma, [0.5, 20], [1, 3], shape=shape, dtype=dtype)
        both(gpu, nd.random.poisson, [0.5, 20], shape=shape, dtype=dtype)
        both(gpu, nd.random.negative_binomial, 3, 0.4, shape=shape, dtype=dtype)
        both(gpu, nd.random.generalized_negative_binomial, 3, 0.4, shape=shape, dtype=dtype)
    with pytest.raises(nb.NBGradError, match="lam must be finite"):
        nd.random.poisson(-1.0, ctx=gpu)


def test_choices(gpu):
    chances = np.random.default_rng(0).random((3, 40))
    chances /= chances.sum(1, keepdims=True)
    chances[1] = np.arange(40) == 7
    assert set(both(gpu, nd.random.multinomial, chances.tolist(), shape=30)[1]) == {7}


def test_orders_and_masks(gpu):
    both(gpu, nd.random.shuffle, list(range(10)), exact=True)
    both(gpu, nd.Dropout, [[1.0] * 7] * 3, exact=True, mode="always")


def test_compiled(gpu, monkeypatch):
    """Draws are steps on the device: a call sends where in the stream it is, and nothing else goes to and fro."""

    def noisy(x):
        several = nd.random.normal(shape=(3, 7)) + nd.random.gamma(x, x) + nd.random.gamma(2.0, 3.0, shape=(3, 7))
        return several * nd.Dropout(x, p=0.5, mode="always") + nd.random.randint(0, 9, shape=(3, 7)).astype("float32")

    compiled = nb.jit(noisy)
    both(gpu, compiled, [[1.0] * 7] * 3)
    both(gpu, nb.jit(lambda x: nd.random.shuffle(x) + nd.random.normal(shape=4, dtype="float16")), [1.0, 2.0, 3.0, 4.0])
    plain = nb.jit(lambda x: nd.random.normal(shape=(3, 7)) + nd.Dropout(x, p=0.5, mode="always"))
    both(gpu, lambda x: nd.stack(*[plain(x) for _ in range(9)]), [[1.0] * 7] * 3)  # also as graphs
    x = nd.ones((3, 7), ctx=gpu)
    plain(x)
    sizes = []
    before = driver.upload
    monkeypatch.setattr(driver, "upload", lambda number, target, values: sizes.append(values.size) or before(
        number, target, values))  # fmt: skip
    monkeypatch.setattr(driver, "download", None)
    plain(x)
    assert sizes == [2]
