"""What other libraries and copies do with an NDArray: DLPack, pickle and copy."""

import copy
import gc
import pickle

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import NBGradError, autograd, nd
from nbgrad.core import dtypes

# DLPack.

DTYPES = [d.name for d in dtypes.ALL]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2)])
def test_dlpack_with_numpy_shares_memory(dtype, shape):
    x = nd.ones(shape, dtype=dtype)
    view = np.from_dlpack(x)
    assert (view.shape, view.dtype) == (shape, np.dtype(dtype))
    x[...] = 0
    assert not view.any()
    a = np.ones(shape, dtype)
    y = nd.from_dlpack(a)
    assert (y.shape, y.dtype) == (shape, np.dtype(dtype).type)
    a[...] = 0
    assert not y.asnumpy().any()
    y[...] = 1
    assert a.all()
    assert (y + y).shape == shape


def test_dlpack_keeps_memory_alive():
    y = nd.from_dlpack(np.arange(1000.0))
    view = np.from_dlpack(nd.arange(1000))
    z = nd.from_dlpack(nd.to_dlpack_for_read(nd.arange(1000)))
    gc.collect()
    filler = [np.full(1000, 7.0) for _ in range(50)]
    assert y.tolist() == view.tolist() == z.tolist() == list(range(1000))
    assert len(filler) == 50


def test_dlpack_copies_what_cannot_be_shared():
    a = np.arange(6.0).reshape(2, 3)
    fixed = a.copy()
    fixed.flags.writeable = False
    for given in (a.T, a[:, 1:], fixed):
        y = nd.from_dlpack(given)
        np.testing.assert_array_equal(y.asnumpy(), given)
        y[...] = -1
        assert given.min() >= 0
        with pytest.raises(ValueError, match="copy=False"):
            nd.from_dlpack(given, copy=False)
    y = nd.from_dlpack(a, copy=True)
    y[...] = -1
    assert a.min() == 0
    assert nd.from_dlpack(a, copy=False).shape == (2, 3)


def test_capsules():
    x = nd.zeros(2)
    for make in (nd.to_dlpack_for_read, nd.to_dlpack_for_write):
        capsule = make(x)
        y = nd.from_dlpack(capsule)
        y[:] += 1
        with pytest.raises(TypeError, match="consumed before"):
            nd.from_dlpack(capsule)
    assert x.tolist() == [2, 2]
    assert x.__dlpack_device__() == (1, 0)
    assert x.to_dlpack_for_read() is not None
    nd.from_dlpack(np.zeros(2).__dlpack__())


def test_writing_outside_is_noticed():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = x * x
        with pytest.raises(NBGradError, match="already in a computational graph"):
            nd.to_dlpack_for_write(x)
    nd.to_dlpack_for_read(x)
    y.backward(retain_graph=True)
    nd.to_dlpack_for_write(x)
    with pytest.raises(NBGradError, match="multiply"):
        y.backward()


def test_our_own_array_shares_its_version():
    x = nd.array([1.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = x * x
    z = nd.from_dlpack(x)
    assert z.grad is None
    z[:] = 3
    assert x.tolist() == [3, 3]
    with pytest.raises(NBGradError, match="multiply"):
        y.backward()
    copied = nd.from_dlpack(x, copy=True)
    copied[:] = 0
    assert x.tolist() == [3, 3]


def test_producers_of_the_first_version():
    class Old:
        def __init__(self, a):
            self.a = a

        def __dlpack__(self, stream=None):
            return self.a.__dlpack__()

        def __dlpack_device__(self):
            return 1, 0

    a = np.zeros((2, 3), "float16")
    x = nd.from_dlpack(Old(a), copy=False)
    a[1] = 2
    assert x.tolist() == [[0, 0, 0], [2, 2, 2]]
    x[0] = 1
    assert a[0].tolist() == [1, 1, 1]
    assert nd.from_dlpack(Old(a.T)).tolist() == a.T.tolist()


def test_dlpack_refuses():
    class Gpu:
        def __dlpack__(self, **options):
            raise AssertionError("not asked")

        def __dlpack_device__(self):
            return 2, 0

    if not nb.num_gpus():
        with pytest.raises(NBGradError, match=r"gpu\(0\) is not available"):
            nd.from_dlpack(Gpu())
    for given in (3, [1, 2], None, "text", np.ones(2, complex), np.ones(2, "M8[s]"), np.array(["a"])):
        with pytest.raises(TypeError, match="from_dlpack"):
            nd.from_dlpack(given)
    for function in (nd.to_dlpack_for_read, nd.to_dlpack_for_write):
        with pytest.raises(TypeError, match=function.__name__):
            function(np.ones(2))


# Pickle and copy.


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", DTYPES)
def test_pickle(protocol, dtype):
    for shape in ((), (0, 2), (2, 3)):
        x = nd.ones(shape, dtype=dtype, ctx=nb.cpu(2))
        x.attach_grad("write" if x._kind.dtype.is_float else "null")
        with nb.cpu(5):
            y = pickle.loads(pickle.dumps(x, protocol))
        assert (y.shape, y.dtype, y.context, y.grad, y._node) == (x.shape, x.dtype, nb.cpu(2), None, None)
        np.testing.assert_array_equal(y.asnumpy(), x.asnumpy())


def test_copies_have_memory_of_their_own():
    x = nd.array([1.0, 2.0], ctx=nb.cpu(1))
    x.attach_grad()
    with autograd.record():
        y = x * x
        for again in (copy.copy(y), copy.deepcopy(y), copy.copy(x), copy.deepcopy(x)):
            assert again._node is None
            assert again.grad is None
            assert again.context == nb.cpu(1)
            again[:] = 7
    y.backward()
    assert x.grad.tolist() == [2, 4]
    once, twice = copy.deepcopy([x, x])
    assert once is twice


def test_arrays_of_another_byte_order_are_copied():
    swapped = np.arange(3.0).astype(np.dtype("f8").newbyteorder())
    x = nd.from_dlpack(swapped)
    np.testing.assert_array_equal(x.asnumpy(), [0.0, 1.0, 2.0])
    swapped[0] = 5
    assert x[0].asscalar() == 0
    with pytest.raises(ValueError, match="another byte order"):
        nd.from_dlpack(swapped, copy=False)
