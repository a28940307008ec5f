"""Python's calls of kernels: every form of arguments, and an error for what a kernel would misread."""

import gc
import sys
import weakref

import numpy as np
import pytest

from nbgrad.backends.numba import entry_points
from nbgrad.backends.numba.compile import kernel

FLOATS = np.dtype("float64")


def _fill(out, n, x):
    for i in range(n):
        out[i] = x


fill = kernel(_fill)


@pytest.fixture(scope="module")
def entry():
    return fill.bind(FLOATS, int, float)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32", "uint16", "int8", "bool", "complex128"])
def test_arrays_of_all_item_sizes_are_passed(dtype):
    @kernel
    def copy(x, out):
        for i in range(x.size):
            out[i] = x[x.size - 1 - i]

    x = np.arange(6).astype(dtype)
    out = np.zeros_like(x)
    copy(x, out)
    assert out.tolist() == x[::-1].tolist()


def test_lengths_item_sizes_and_strides_reach_the_kernel():
    @kernel
    def look(x, out):
        out[0], out[1], out[2], out[3], out[4] = x.size, x.shape[0], x.itemsize, x.strides[0], x.nbytes

    out = np.zeros(5, "int64")
    look(np.zeros(7, "float32"), out)
    assert out.tolist() == [7, 7, 4, 4, 28]


def test_empty_arrays_and_single_elements_of_any_stride_are_passed(entry):
    entry(np.zeros(0), 0, 1.0)
    column = np.zeros((3, 4))[1:2, 2]
    entry(column, 1, 2.5)
    assert column[0] == 2.5


@pytest.mark.parametrize("n", [2, np.int64(2), np.int32(2), True])
@pytest.mark.parametrize("x", [1.0, -1.0, 7, np.float32(0.5), -1, float("inf")])
def test_scalars_are_whatever_converts(entry, n, x):
    out = np.zeros(2)
    entry(out, n, x)
    assert (out[: int(n)] == x).all()


def test_minus_one_is_no_error(entry):
    out = np.ones(2)
    entry(out, -1, -1.0)
    assert out.tolist() == [1, 1]


X = np.zeros(4)
WRONG = {
    "too few": (X, 2),
    "too many": (X, 2, 1.0, 1.0),
    "a matrix": (X.reshape(2, 2), 2, 1.0),
    "a stride": (X[::2], 2, 1.0),
    "no axis": (np.zeros(()), 0, 1.0),
    "another item size": (X.astype("float32"), 2, 1.0),
    "a list": ([0.0, 0.0], 2, 1.0),
    "None": (None, 2, 1.0),
    "a subclass": (np.ma.zeros(4), 2, 1.0),
    "a float as int": (X, 2.0, 1.0),
    "a string as float": (X, 2, "1"),
    "an array as int": (X, X, 1.0),
}


@pytest.mark.parametrize("args", WRONG.values(), ids=WRONG)
def test_what_a_kernel_would_misread_is_refused_and_nothing_written(entry, args):
    with pytest.raises(TypeError):
        entry(*args)
    assert not X.any()


def test_integers_beyond_64_bits_overflow(entry):
    with pytest.raises(OverflowError):
        entry(X, 2**64, 1.0)


def test_keywords_are_refused(entry):
    with pytest.raises(TypeError, match="keyword"):
        entry(X, 2, x=1.0)


def test_calls_hold_no_references(entry):
    out, n, x = np.zeros(2), 10**9 - 10**9 + 2, 3.25
    before = [sys.getrefcount(a) for a in (out, x, None)]
    for _ in range(10_000):
        entry(out, n, x)
    after = [sys.getrefcount(a) for a in (out, x, None)]
    assert np.abs(np.subtract(after, before)).max() < 100  # other threads refer to None, too


def test_kernels_of_one_form_share_a_trampoline_and_keep_their_code():
    @kernel
    def other(out, n, x):
        for i in range(n):
            out[i] = -x

    known = entry_points._trampoline.cache_info().currsize
    bound = other.bind(FLOATS, int, float)
    assert entry_points._trampoline.cache_info().currsize == known
    alive = weakref.ref(bound.__self__.code[0].library)
    del other
    gc.collect()
    out = np.zeros(2)
    bound(out, 2, 4.0)
    assert alive() is not None and out.tolist() == [-4, -4]
