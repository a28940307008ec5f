"""The container: construction, dtypes, conversion to Python, repr, operators, contexts, memory."""

import operator

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.core import dtypes

DTYPES = [d.name for d in dtypes.ALL]


def values(x):
    return x.asnumpy().tolist()


# Construction and dtypes.


@pytest.mark.parametrize(
    ("source", "dtype"),
    [
        ([1, 2], "float32"),
        ([True, False], "bool"),
        (3, "float32"),
        ([np.float64(3)], "float32"),
        (((1, 2), [3, 4]), "float32"),
        (range(3), "float32"),
        (np.float64(3), "float64"),
        (np.ones(2), "float64"),
        (np.ones(2, "float16"), "float16"),
        (np.ones(2, ">f8"), "float64"),
        (np.array([True]), "bool"),
        (np.ones((2, 3), "int8")[:, ::-1], "int8"),
        (nd.array([1, 2], dtype="int32"), "int32"),
        ([nd.array([1, 2]), nd.array([3, 4])], "float32"),
    ],
)
def test_array(source, dtype):
    x = nd.array(source)
    nested = isinstance(source, list) and isinstance(source[0], nb.NDArray)
    expected = np.stack([s.asnumpy() for s in source]) if nested else np.asarray(source)
    assert x.dtype is np.dtype(dtype).type and x.shape == expected.shape
    np.testing.assert_array_equal(x.asnumpy(), expected)
    y = nd.array(source, dtype="float64", ctx=nb.cpu(2))
    assert y.dtype is np.float64 and y.context == y.ctx == nb.cpu(2)


def test_the_default_dtype_can_be_set():
    try:
        nb.set_default_dtype("float64")
        made = [nd.array([1]), nd.zeros(1), nd.arange(3), nd.linspace(0, 1, 3), nd.eye(2), nd.full(2, 1)]
        assert all(x.dtype is np.float64 for x in made)
        assert (nd.array([1], dtype="int32") / 2).dtype is np.float64
        with pytest.raises(TypeError, match="floating"):
            nb.set_default_dtype("int32")
    finally:
        nb.set_default_dtype("float32")
    assert nd.array([1]).dtype is np.float32


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: nd.array([1 + 2j]), TypeError),
        (lambda: nd.array(np.ones(2, "complex64")), TypeError),
        (lambda: nd.array("abc"), TypeError),
        (lambda: nd.array([1, None]), TypeError),
        (lambda: nd.array([[1], [2, 3]]), ValueError),
        (lambda: nd.zeros(2, dtype="complex64"), TypeError),
        (lambda: nd.zeros((2, -1)), ValueError),
        (lambda: nd.zeros((2, 1.5)), ValueError),
        (lambda: nd.zeros(2, foo=1), TypeError),
        (lambda: nd.full(2, "a"), TypeError),
        (lambda: nd.full(2, [1, 2]), TypeError),
        (lambda: nd.ones(6).reshape((1.5, 4)), ValueError),
        (lambda: nd.ones(6).reshape("a"), ValueError),
        (lambda: nd.ones(2, ctx="cpu"), ValueError),
    ],
)
def test_what_no_array_can_be_made_of(make, error):
    with pytest.raises(error) as caught:
        make()
    assert isinstance(caught.value, nb.MXNetError) or caught.type is TypeError


def test_integer_and_python_dtypes():
    assert nd.zeros(1, dtype=int).dtype is np.int64 and nd.zeros(1, dtype=float).dtype is np.float64
    assert nd.zeros(1, dtype=bool).dtype is np.bool_ and nd.zeros(1).dtype == np.float32
    assert nd.array([2.9, -2.9, np.nan, 1e20]).astype("int32").tolist() == [2, -2, -(2**31), -(2**31)]
    assert nd.array([-1, 256, 300]).astype("uint8").tolist() == [255, 0, 44]


def test_full_converts_like_assignment():
    for value, dtype in (
        (300, "uint8"),
        (-1.5, "int32"),
        (np.nan, "int32"),
        (2**40, "int8"),
        (1e10, "float16"),
        (3, "bool"),
    ):
        x = nd.zeros(2, dtype=dtype)
        x[:] = value
        np.testing.assert_array_equal(nd.full(2, value, dtype=dtype).asnumpy(), x.asnumpy())
    assert values(nd.full(2, nd.array([4.0]))) == [4, 4] and nd.full((), np.float64(2)).item() == 2


def test_astype_copies_unless_told_not_to():
    x = nd.ones(2)
    same = x.astype("float32")
    assert same is not x and same._buf is not x._buf
    assert x.astype(np.float32, copy=False) is x and x.astype("float64", copy=False) is not x


# To Python.


def test_scalars():
    for x in (nd.array([2.5]), nd.array(2.5), nd.array([[2.5]])):
        assert x.asscalar() == 2.5 and isinstance(x.asscalar(), np.float32)
        assert type(x.item()) is float and float(x) == 2.5 and int(x) == 2 and bool(x)
    assert nd.array([2], dtype="int8").item() == 2 and isinstance(
        nd.array([2.0], dtype="float16").asscalar(), np.float16
    )
    for x in (nd.ones(2), nd.ones(0)):
        for convert in (nb.NDArray.asscalar, nb.NDArray.item, float, int):
            with pytest.raises(ValueError, match="The current array is not a scalar"):
                convert(x)


def test_truth():
    assert not bool(nd.array([])) and not bool(nd.zeros((1, 1))) and bool(nd.array(3.0))
    with pytest.raises(ValueError, match=r"The truth value of an NDArray with multiple elements is ambiguous\."):
        bool(nd.ones(2))


def test_index_use():
    assert [10, 20, 30][nd.array([1], dtype="int32")] == 20 and range(3)[nd.array(2, dtype="int8")] == 2
    with pytest.raises(TypeError, match="integer"):
        operator.index(nd.array([1.0]))


def test_len_and_iteration():
    x = nd.arange(6).reshape((3, 2))
    assert len(x) == 3 and [values(row) for row in x] == [[0, 1], [2, 3], [4, 5]]
    assert [v.shape for v in nd.arange(2)] == [(1,), (1,)] and list(nd.ones((0, 2))) == []
    for use in (len, iter):
        with pytest.raises(TypeError, match="0-d"):
            use(nd.array(3.0))
    assert x.tolist() == values(x) and nd.array(3.0).tolist() == 3.0


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (nd.array(3.5), "\n3.5\n<NDArray  @cpu(0)>"),
        (nd.array([]), "\n[]\n<NDArray 0 @cpu(0)>"),
        (nd.zeros((0, 3)), "\n[]\n<NDArray 0x3 @cpu(0)>"),
        (nd.array([2.0], dtype="float16"), "\n[2.]\n<NDArray 1 @cpu(0)>"),
        (nd.array([True], dtype=bool), "\n[ True]\n<NDArray 1 @cpu(0)>"),
        (nd.arange(6).reshape((2, 3)), "\n[[0. 1. 2.]\n [3. 4. 5.]]\n<NDArray 2x3 @cpu(0)>"),
        (nd.ones(1, ctx=nb.cpu(2)), "\n[1.]\n<NDArray 1 @cpu(2)>"),
    ],
)
def test_repr(x, text):
    assert repr(x) == str(x) == text


# NumPy on the other side.


def test_asnumpy_is_a_writable_copy():
    x = nd.ones((2, 3))
    a = x.asnumpy()
    a[:] = 5
    assert a.flags.writeable and a.flags.c_contiguous and values(x) == [[1] * 3] * 2
    assert np.asarray(x).shape == (2, 3) and np.array(x, dtype="int8").dtype == np.int8
    np.testing.assert_array_equal(x, np.ones((2, 3)))
    with pytest.raises(ValueError, match="copy"):
        np.asarray(x, copy=False)


def test_from_numpy_shares_memory():
    a = np.arange(6.0).reshape(2, 3)
    x = nd.from_numpy(a)
    x[0, 0] = 9
    assert a[0, 0] == 9 and not a.flags.writeable and x.dtype is np.float64
    again = nd.from_numpy(a)
    x.attach_grad()
    with autograd.record():
        y = x * x
    again[0, 1] = 8
    assert x[0].tolist() == [9, 8, 2] and not a.flags.writeable
    with pytest.raises(nb.NBGradError, match="changed"):
        y.backward()
    del x, y, again
    nd.from_numpy(a)[0, 2] = 7
    assert a[0].tolist() == [9, 8, 7]
    locked = np.frombuffer(b"12345678")
    copied = nd.from_numpy(locked)
    copied += 1
    assert locked.tobytes() == b"12345678"
    b = np.arange(3, dtype="float16")
    y = nd.from_numpy(b)
    y += 1
    assert b.tolist() == [1, 2, 3]
    c = np.arange(3.0)
    z = nd.from_numpy(c, zero_copy=False)
    z += 1
    assert c.tolist() == [0, 1, 2] and c.flags.writeable
    with pytest.raises(ValueError, match="contiguous"):
        nd.from_numpy(np.ones((3, 2)).T)
    for wrong in ([1, 2], np.ones(2, complex)):
        with pytest.raises(TypeError):
            nd.from_numpy(wrong)


ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS)
def test_operators_with_everything_on_either_side(op):
    a, b = np.array([[1.5, 2], [3, 4]]), np.array([[2.5, 2], [1, 3]])
    x, y = nd.array(a), nd.array(b)
    comparison = op in COMPARISONS
    for got, expected in [
        (op(x, y), op(a, b)),
        (op(x, b), op(a, b)),
        (op(a, y), op(a, b)),
        (op(x, b[0]), op(a, b[0])),
        (op(x, 2), op(a, 2)),
        (op(2, x), op(2, a)),
        (op(x, 2.5), op(a, 2.5)),
        (op(np.float64(2.5), x), op(2.5, a)),
        (op(x, np.int32(2)), op(a, 2)),
        (op(x, [[2.5, 2]]), op(a, [[2.5, 2]])),
    ]:
        assert isinstance(got, nb.NDArray) and got.dtype is np.float64
        if comparison:
            np.testing.assert_array_equal(got.asnumpy(), expected.astype("float64"))
        else:
            np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-15)


def test_matmul_divmod_and_unary():
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4) - 5
    x, y = nd.array(a), nd.array(b)
    for got in (x @ y, x @ b, a @ y):
        assert values(got) == (a @ b).tolist()
    assert values(nd.array([1.0, 2]) @ nd.array([3.0, 4])) == [11]
    for got, expected in zip((*divmod(y, 4), *divmod(4, x + 1)), (*divmod(b, 4), *divmod(4, a + 1)), strict=True):
        assert values(got) == expected.tolist()
    assert values(-y) == (-b).tolist() and values(+y) == b.tolist() and values(abs(y)) == abs(b).tolist()
    with pytest.raises(ValueError, match=r"\(2, 3\)"):
        x @ x


@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS)
def test_operands_that_make_no_sense(op):
    x = nd.ones(2)
    for other in (None, "a", object()):
        if other is not None and not isinstance(other, str) and op in (operator.eq, operator.ne):
            continue
        for args in ((x, other), (other, x)):
            if isinstance(args[0], str) and op is operator.mod:  # formats a string
                continue
            with pytest.raises(TypeError):
                op(*args)
    with pytest.raises(ValueError, match=r"operands could not be broadcast together with shapes \[2\] \[3\]"):
        op(x, nd.ones(3))


def test_promotion():
    def kind(a, b):
        return (nd.ones(1, dtype=a) + nd.ones(1, dtype=b)).dtype.__name__

    floats = ["float16", "float32", "float64"]
    for k, a in enumerate(floats):
        for b in floats[: k + 1]:
            assert kind(a, b) == kind(b, a) == a
        for b in set(DTYPES) - set(floats):
            assert kind(a, b) == kind(b, a) == a
    assert kind("int8", "int32") == "int32" and kind("int32", "int64") == "int64" and kind("bool", "int8") == "int8"
    assert (
        kind("uint8", "int8") == "int16" and kind("uint32", "int8") == "int64" and kind("uint64", "int8") == "float64"
    )


def test_scalars_take_the_dtype_of_the_array():
    for dtype in DTYPES[:3]:
        assert (nd.ones(1, dtype=dtype) * 2.5).dtype is np.dtype(dtype).type
    i = nd.array([3], dtype="int32")
    assert (i + 1).dtype is np.int32 and (i * 1.5).dtype is np.float32 and values(i * 1.5) == [4.5]
    assert (i / 2).dtype is np.float32 and values(i / 2) == [1.5] and values(i // 2) == [1]
    assert (i == 3).dtype is np.int32 and values(nd.array([250], dtype="uint8") + 10) == [4]


def test_integer_division_never_crashes():
    for dtype in ("int8", "int32", "int64", "uint8"):
        lowest = np.iinfo(dtype).min
        x = nd.array(np.array([7, 0, lowest], dtype))
        zero, minus = nd.zeros(3, dtype=dtype), nd.array(np.array([-1] * 3).astype(dtype))
        with np.errstate(all="ignore"):
            for op in (operator.floordiv, operator.mod):
                np.testing.assert_array_equal(op(x, zero).asnumpy(), op(x.asnumpy(), zero.asnumpy()))
                np.testing.assert_array_equal(op(x, minus).asnumpy(), op(x.asnumpy(), minus.asnumpy()))
                assert values(op(x, 0)) == [0, 0, 0]
        assert (x / 0).dtype is np.float32 and x.asnumpy()[0] == 7
    assert values(nd.array([1, 2, -1], dtype="int32") ** -1) == [1, 0, -1]


def test_hashing_is_by_identity():
    x, y = nd.ones(1), nd.ones(1)
    assert len({x, y, x}) == 2 and {x: 1}[x] == 1


# Shapes and contexts.


@pytest.mark.parametrize(
    ("codes", "options", "expected"),
    [
        ((-1, 0), {}, (8, 3)),
        ((-1, 0), {"reverse": True}, (6, 4)),
        ((-1,), {}, (24,)),
        ((4, 0, 2), {}, (4, 3, 2)),
        ((0, -3), {}, (2, 12)),
        ((-3, -2), {}, (6, 4)),
        ((-2,), {}, (2, 3, 4)),
        ((-4, 1, 2, -2), {}, (1, 2, 3, 4)),
        ((0, -4, 3, -1, 0), {}, (2, 3, 1, 4)),
        ((6, 4), {}, (6, 4)),
    ],
)
def test_reshape_codes(codes, options, expected):
    x = nd.arange(24).reshape((2, 3, 4))
    by_keyword, by_function = x.reshape(shape=codes, **options), nd.reshape(x, codes, **options)
    for y in (x.reshape(codes, **options), x.reshape(*codes, **options), by_keyword, by_function):
        assert y.shape == expected and values(y.reshape((24,))) == list(range(24))


@pytest.mark.parametrize("codes", [(5, 5), (2, 3), (-1, -1), (-1, 7), (0, 0, 0, 0), (-4, 2, 2, -2), (-5,), ()])
def test_wrong_reshapes(codes):
    x = nd.zeros((2, 3, 4))
    with pytest.raises(ValueError, match=r"[rR]eshape") as caught:
        x.reshape(codes)
    assert isinstance(caught.value, nb.MXNetError)
    if codes == (2, 3):
        assert "Cannot reshape array of size 24 into shape (2, 3)" in str(caught.value)
    with pytest.raises(AssertionError):
        x.reshape()


def test_reshape_to_and_from_no_axes():
    assert nd.ones(6).reshape(np.array([2, 3])).shape == (2, 3) == nd.ones(6).reshape([2, np.int64(3)]).shape
    assert nd.ones((1, 1)).reshape(()).shape == () and nd.array(2.0).reshape((1, 1)).shape == (1, 1)
    assert nd.zeros((0, 3)).reshape((-2,)).shape == (0, 3) and nd.zeros((0, 3)).reshape((0, 1, 3)).shape == (0, 1, 3)


def test_contexts():
    assert nb.cpu() == nb.cpu(0) == nb.Context("cpu") and repr(nb.cpu()) == "cpu(0)" and repr(nb.gpu(1)) == "gpu(1)"
    assert nb.cpu() != nb.cpu(1) and len({nb.cpu(), nb.cpu(0), nb.gpu()}) == 2
    with nb.cpu(1):
        assert nb.current_context() == nb.cpu(1) and nd.ones(1).context == nb.cpu(1)
        with nb.cpu(2):
            assert nd.array([1]).context == nb.cpu(2) and nd.random.uniform().context == nb.cpu(2)
        assert nd.arange(3).ctx == nb.cpu(1)
    with pytest.raises(ZeroDivisionError), nb.cpu(1):
        _ = 1 / 0
    assert nb.current_context() == nb.cpu(0)
    x = nd.ones(2, ctx=nb.cpu(1))
    with pytest.raises(nb.MXNetError, match=r"add: .*cpu\(1\).*cpu\(0\).*as_in_context"):
        x + nd.ones(2)
    for wrong in (lambda: nb.Context("tpu"), lambda: nb.cpu(-1), lambda: nb.cpu("0")):
        with pytest.raises(ValueError, match="Context"):
            wrong()


def test_a_gpu_is_refused_clearly():
    x = nd.ones(1)
    for use in (
        lambda: nd.ones(1, ctx=nb.gpu()),
        lambda: nd.array([1], ctx=nb.gpu()),
        lambda: x.as_in_context(nb.gpu()),
        lambda: x.copyto(nb.gpu()),
        lambda: nb.gpu().__enter__(),
    ):
        with pytest.raises(nb.MXNetError, match=r"gpu\(0\) is not available"):
            use()
    assert nb.num_gpus() == 0 and nb.current_context() == nb.cpu(0)


def test_copies_between_arrays_and_contexts():
    x = nd.array([1.0, 2])
    assert x.as_in_context(nb.cpu()) is x
    moved = x.as_in_context(nb.cpu(1))
    assert moved.context == nb.cpu(1) and x.copyto(nb.cpu()) is not x
    target = nd.zeros(2, dtype="int32", ctx=nb.cpu(1))
    assert x.copyto(target) is target and values(target) == [1, 2] and target.context == nb.cpu(1)
    for wrong, error in ((nd.zeros(3), "shapes must be equal"), (5, "NDArray or a Context")):
        with pytest.raises(ValueError, match=error):
            x.copyto(wrong)
    y = x.copy()
    y += 1
    assert values(x) == [1, 2]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_size_and_0d_arrays_everywhere(shape, dtype):
    x = nd.ones(shape, dtype=dtype)
    a = x.asnumpy()
    assert a.shape == shape and a.dtype == dtype
    moved = (x.T, x.copy(), x.expand_dims(0), x.reshape((-2,)), x.broadcast_to((2, *shape)))
    for got in (x + x, x * 2, nd.exp(x), x > x, *moved):
        assert got.size in (a.size, 2 * a.size)
    assert x.sum().shape == (1,) and x.sum().asscalar() == a.size


def test_waiting():
    assert nd.ones(1).wait_to_read() is None and nd.waitall() is None
