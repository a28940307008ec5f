"""Writes through views while recording: all arrays on a memory are on the tape, or none."""

import array
import gc

import numpy as np
import pytest
from recording import marked, recorded, values

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.arrays.sharing import memory_sharers
from nbgrad.core import foreign_memory
from nbgrad.errors import InPlaceError

IN_GRAPH = "already in a computational graph"


def zeros(*shape):
    return nd.zeros(shape, dtype="float64")


def through_a_row(x):
    b = zeros(2, 3)
    r = b[0]
    r[:] = x * x
    return b.sum()


def through_out(x):
    b = zeros(2, 3)
    nd.square(x, out=b[1])
    return b.sum()


def through_copyto(x):
    b = zeros(3, 1)
    (x * x).copyto(b.reshape((3,)))
    return b.sum()


def through_the_base(x):
    b = zeros(3)
    v = b[0:3]
    b[:] = x * x
    return v.sum()


def through_a_view_of_a_view(x):
    b = zeros(2, 3, 3)
    r = b[1].reshape((9,))[3:6]
    r[:] = x * x
    return b.sum()


def through_detach(x):
    b = zeros(3)
    b.detach()[:] = x * x
    return b.sum()


def through_numpy_memory(x):
    b = nd.from_numpy(np.zeros((2, 3)))
    b[1][:] = x * x
    return b.sum()


def through_another_array_on_numpy_memory(x):
    a = np.zeros(6)
    b, c = nd.from_numpy(a[:3]), nd.from_numpy(a)
    b[:] = x * x
    return c.sum()


def through_dlpack(x):
    b = zeros(3)
    nd.from_dlpack(b)[:] = x * x
    return b.sum()


def through_expand_dims(x):
    b = zeros(3)
    nd.expand_dims(b, axis=0)[:] = x * x
    return b.sum()


SQUARES = [
    through_a_row, through_out, through_copyto, through_the_base, through_a_view_of_a_view, through_detach,
    through_numpy_memory, through_another_array_on_numpy_memory, through_dlpack, through_expand_dims,
]  # fmt: skip


@pytest.mark.parametrize("f", SQUARES)
def test_the_gradient_of_a_value_written_through_a_view(f):
    x = marked([1.0, 2.0, 3.0])
    recorded(lambda: f(x) + x.sum()).backward()
    assert values(x.grad) == [3, 5, 7]
    assert nb.grad(lambda x: f(x) + x.sum())(np.array([1.0, 2.0, 3.0])).tolist() == [3, 5, 7]
    assert nb.hessian(f)(np.array([1.0, 2.0, 3.0])).tolist() == np.diag([2.0] * 3).tolist()


def test_views_that_were_made_before_recording():
    b = zeros(2, 3)
    first, last, flat, far = b[0], b.reshape((6,))[2:5], b.reshape((6,)), b[1]
    x = marked([1.0, 2.0, 3.0])
    with autograd.record():
        first[:] = x * x
        z = (last * nd.array([2.0, 3.0, 4.0], dtype="float64")).sum() + flat.sum() + far.sum()
    z.backward()
    assert values(x.grad) == [2, 4, 18]


def test_arrays_beside_the_write_stay_off_the_tape():
    b = zeros(2, 3)
    far, x = b[1], marked([1.0, 2.0, 3.0])
    with autograd.record():
        b[0][:] = x
        assert far._node is None
        assert float(far.sum()) == 0


def set_five(target):
    target[:] = 5.0


def add_one(target):
    target += 1


def ones_into(target):
    nd.ones_like(target, out=target)


def test_memory_on_the_tape_is_not_written_through_any_array():
    x = marked([1.0, 2.0, 3.0])
    early, late = x[0:2], x.detach()
    other = zeros(3)
    before, beside = other[0:2], other[2:3]
    with autograd.record():
        y = x * x
        other[:] = y
        for target in (early, late, y.detach(), y.reshape((3, 1)), before, beside, other.detach(), other):
            for write in (set_five, add_one, ones_into):
                kept = target.asnumpy()
                with pytest.raises(nb.NBGradError, match=IN_GRAPH):
                    write(target)
                assert target.asnumpy().tolist() == kept.tolist()
        with autograd.pause():
            late[:] = 5
    assert values(x) == [5, 5, 5]
    with pytest.raises(InPlaceError):
        y.backward()


def test_inside_a_transform_the_callers_memory_is_on_the_tape():
    a = nd.array([1.0, 2.0], dtype="float64")

    def f(x):
        a[:] = 0
        return (x * x).sum()

    with pytest.raises(nb.NBGradError, match=IN_GRAPH):
        nb.grad(f)(a)
    with pytest.raises(nb.NBGradError, match=IN_GRAPH):
        nb.grad(lambda x, part: part.__setitem__(slice(None), 0))(*(lambda n: (n, n[:1]))(np.array([1.0, 2.0])))
    assert values(a) == [1, 2]


def test_a_recorded_value_in_memory_of_two_dtypes_is_refused():
    a = np.zeros(3)
    b, bits = nd.from_dlpack(a), nd.from_dlpack(a.view(np.int64))
    x = marked([1.0, 2.0, 3.0])
    with autograd.record(), pytest.raises(nb.NBGradError, match="another array reads as int64"):
        b[:] = x
    assert values(bits) == [0, 0, 0]


def test_views_that_are_gone_are_forgotten():
    b = zeros(1000)
    for k in range(1000):
        b[k]
    assert len(b._cell[1]) <= 70
    assert not memory_sharers(b)
    views = [b[k] for k in range(100)]
    assert len(memory_sharers(b)) == 100 == len(views)


# One version counter for a memory.

ALIASES = {
    "the whole": lambda a: (nd.from_numpy(a[:2]), nd.from_numpy(a)),
    "overlapping": lambda a: (nd.from_numpy(a[:4]), nd.from_numpy(a[2:])),
    "views of views": lambda a: (nd.from_numpy(a[:4][1:]), nd.from_numpy(a[2:].reshape(2, 2))),
    "dlpack": lambda a: (nd.from_dlpack(a), nd.from_dlpack(a[1:])),
    "both": lambda a: (nd.from_dlpack(a), nd.from_numpy(a)),
    "a capsule": lambda a: (nd.from_dlpack(a.__dlpack__()), nd.from_dlpack(a)),
    "bytes": lambda a: (nd.from_dlpack(np.frombuffer(memoryview(a).cast("B"), np.float64)), nd.from_numpy(a)),
    "another dtype": lambda a: (nd.from_dlpack(a), nd.from_dlpack(a.view(np.int64))),
    "there and back": lambda a: (x := nd.from_numpy(a), nd.from_dlpack(np.from_dlpack(x))),
    "our own memory": lambda a: (x := nd.array(a), nd.from_dlpack(nd.to_dlpack_for_read(x))),
}


@pytest.mark.parametrize("name", ALIASES)
def test_a_write_through_any_array_on_a_memory_is_noticed(name):
    x, other = ALIASES[name](np.arange(6.0))
    x.attach_grad()
    y = recorded(lambda: (x * x).sum())
    other[:] = 50
    with pytest.raises(InPlaceError):
        y.backward()


def test_memory_taken_in_pieces_and_then_whole():
    a = bytearray(48)
    pieces = [nd.from_dlpack(np.frombuffer(a, np.float64, 3, 24 * k)) for k in range(2)]
    with pytest.raises(nb.NBGradError, match="taken separately"):
        nd.from_dlpack(np.frombuffer(a, np.float64))
    del pieces[0]
    nd.from_dlpack(np.frombuffer(a, np.float64))


def test_memory_that_a_compiled_function_reads_in_pieces_and_then_whole():
    a = np.arange(12.0).reshape(4, 3)
    pieces = nb.jit(lambda w: (a[0] * w).sum() + (a[1] * w).sum() + (a[2:] * w).sum())
    assert pieces(np.ones(3)) == 66
    assert (nb.grad(lambda d: (d * d).sum())(a) == 2 * a).all()
    assert nd.from_numpy(a).asnumpy().sum() == 66
    whole = nb.jit(nb.grad(lambda w: (a[:2] * w).sum() + (a[2:] * w).sum() + (a * w).sum()))
    assert whole(np.ones(3)).tolist() == [36, 44, 52]


def test_memory_that_is_gone_is_forgotten():
    gc.collect()
    before = len(foreign_memory._owners)
    nd.from_numpy(np.zeros(10**6))
    for _ in range(500):
        nd.from_numpy(np.zeros(5))
        nd.from_dlpack(np.frombuffer(bytearray(16), np.float64))
    gc.collect()
    assert len(foreign_memory._owners) == before
    assert len(foreign_memory._ranges) <= foreign_memory._SLACK + 2 * (before + 1)  # they are swept now and then
    assert foreign_memory._longest < 8 * 10**6  # a long array that is gone makes no search longer


# What a Function reads.


class Square(autograd.Function):
    def __init__(self, keep):
        self.keep = keep

    def forward(self, x):
        self.keep(self, x)
        return x * x

    def backward(self, g):
        return g


KEEPS = {
    "attribute": lambda self, x: setattr(self, "x", x),
    "view": lambda self, x: setattr(self, "x", x[0:1]),
    "detached": lambda self, x: setattr(self, "x", x.detach()),
    "list": lambda self, x: setattr(self, "x", [(x,)]),
    "dict": lambda self, x: setattr(self, "x", {"x": [x]}),
    "saved": lambda self, x: self.save_for_backward(x),
    "attribute beside saved": lambda self, x: (setattr(self, "x", x), self.save_for_backward(nd.ones(1))),
    "somewhere else": lambda self, x: None,
}


@pytest.mark.parametrize("name", KEEPS)
def test_an_input_that_a_function_holds_must_not_change(name):
    x = marked([1.0, 2.0])
    y = recorded(lambda: Square(KEEPS[name])(x))
    x[:] = 50
    with pytest.raises(InPlaceError, match="Square"):
        y.backward()
    assert values(x.grad) == [0, 0]


def test_an_input_that_it_does_not_hold_may_change():
    x = marked([1.0, 2.0])
    y = recorded(lambda: Square(lambda self, x: self.save_for_backward(x + 1))(x))
    x[:] = 50
    y.backward()
    assert values(x.grad) == [1, 1]


# What has a dtype keeps it.


class Table:
    """As a Series of pandas or a DataArray of xarray: no NumPy array, but one can be made of it."""

    def __init__(self, values, dtype):
        self.values = np.asarray(values, dtype)
        self.dtype = self.values.dtype

    def __array__(self, dtype=None, copy=None):
        return self.values.astype(dtype or self.values.dtype)

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values.tolist())


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
def test_what_has_a_dtype_keeps_it(dtype):
    x = nd.array(Table([[1, 0], [1, 1]], dtype))
    assert x.dtype is np.dtype(dtype).type and x.shape == (2, 2)
    frame = Table([[1, 0]], dtype)
    del frame.dtype
    assert nd.array(frame).dtype is np.dtype(dtype).type
    assert nd.array(memoryview(np.zeros(2, dtype))).dtype is np.dtype(dtype).type
    assert nd.array(array.array("d", [1, 2])).dtype is np.float64
    assert nd.array(Table([1], dtype), dtype="float16").dtype is np.float16


def test_python_numbers_have_the_default_dtype():
    for source in (1, 1.5, [1, 2], [True, 2], (1.5,), range(3), [[1], [2]]):
        assert nd.array(source).dtype is np.float32
    with pytest.raises(nb.NBGradError, match="dtype"):
        nd.array(Table([1j], "complex128"))


# Small ones.


@pytest.mark.parametrize("pair", [([0, 1], [1, 1]), ([0, 0], [0, 1]), ([0, -2], [0, 1])])
def test_moveaxis_with_an_axis_twice(pair):
    with pytest.raises(nb.NBGradError, match=r"moveaxis: .* names an axis twice"):
        nd.moveaxis(nd.ones((2, 3)), *pair)


def test_arange_of_integers():
    assert nd.arange(1.3, 8, 1.3, dtype="int32").tolist() == [1, 2, 3, 4, 5, 6]
    assert nd.arange(1.5, 4, dtype="int64").tolist() == [1, 2, 3]
    assert nd.arange(2, 6, 2, dtype="int8").tolist() == [2, 4]
    with pytest.raises(nb.NBGradError, match=r"arange: step 0\.5 is 0 as int32"):
        nd.arange(0, 3, 0.5, dtype="int32")
