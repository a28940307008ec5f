"""x[key] and x[key] = value against NumPy, over random keys; and the rules of MXNet's that differ from NumPy's."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nbgrad as nb
from nbgrad import autograd, nd

#: Random positions may look like masks.
positions = pytest.mark.filterwarnings("ignore::nbgrad.errors.MaskWarning")
SHAPES = st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple)


@st.composite
def keys(draw, shape, advanced=True):
    """A key that NumPy accepts for an array of this shape."""
    kinds = ["slice", "int", "none", "dots"] + (["array", "mask", "list"] if advanced else [])
    items: list = []
    axis, block = 0, draw(st.sampled_from([(), (1,), (3,), (2, 1), (2, 3), (0,)]))
    dotted = False
    while axis < len(shape) and draw(st.integers(0, 5)):
        n = shape[axis]
        kind = draw(st.sampled_from(kinds))
        if kind == "slice":
            bound = st.none() | st.integers(-n - 2, n + 2)
            step = draw(st.none() | st.integers(-3, 3).filter(bool))
            items.append(slice(draw(bound), draw(bound), step))
            axis += 1
        elif kind == "none":
            items.append(None)
        elif kind == "dots":
            if not dotted:
                items.append(Ellipsis)
                dotted = True
                axis += draw(st.integers(0, len(shape) - axis))
        elif kind == "mask":
            span = draw(st.integers(1, min(2, len(shape) - axis)))
            part = shape[axis : axis + span]
            mask = np.array(
                draw(st.lists(st.booleans(), min_size=int(np.prod(part)), max_size=int(np.prod(part)))), bool
            )
            mask = mask.reshape(part)
            items.append(mask if draw(st.booleans()) else nd.array(mask))
            axis += span
        elif n == 0 and kind != "array":
            items.append(slice(None))
            axis += 1
        elif kind == "int":
            items.append(draw(st.integers(-n, n - 1)))
            axis += 1
        else:
            size = int(np.prod(block))
            if n == 0 and size:
                items.append(slice(None))
            else:
                index = np.array(draw(st.lists(st.integers(-n, max(n - 1, 0)), min_size=size, max_size=size)), np.int64)
                index = index.reshape(block)
                items.append(
                    index.tolist() if kind == "list" and size else draw(st.sampled_from([index, nd.array(index)]))
                )
            axis += 1
    if len(items) == 1 and draw(st.booleans()):
        return items[0]
    return tuple(items)


def numpy_key(key):
    if isinstance(key, tuple):
        return tuple(map(numpy_key, key))
    return key.asnumpy() if isinstance(key, nb.NDArray) else key


def read(a, key):
    """What NumPy reads, as ours: () becomes (1,); None where NumPy refuses the key."""
    try:
        found = np.asarray(a[numpy_key(key)])
    except (IndexError, ValueError):
        return None
    return found.reshape(1) if found.shape == () else found


@positions
@given(st.data(), SHAPES, st.sampled_from(["float32", "float64", "float16", "int8"]))
def test_reading(data, shape, dtype):
    a = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    key = data.draw(keys(shape))
    expected = read(a, key)
    x = nd.array(a)
    if expected is None:
        with pytest.raises((IndexError, ValueError)):
            x[key]
    else:
        found = x[key]
        assert found.dtype is np.dtype(dtype).type and found.shape == expected.shape
        np.testing.assert_array_equal(found.asnumpy(), expected)
    np.testing.assert_array_equal(x.asnumpy(), a)


@positions
@given(st.data(), SHAPES, st.sampled_from(["float32", "float64", "int32"]))
def test_assignment(data, shape, dtype):
    a = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    x = nd.array(a)
    key = data.draw(keys(shape))
    selected = read(a, key)
    if selected is None:
        with pytest.raises((IndexError, ValueError)):
            x[key] = 1
        return
    plain = np.asarray(a[numpy_key(key)])
    form = data.draw(st.sampled_from(["scalar", "array", "last", "numpy", "list", "one"]))
    value = {
        "scalar": -5,
        "array": -1.0 - np.arange(plain.size).reshape(plain.shape),
        "last": np.full(plain.shape[-1:], -3.0),
        "numpy": -1.0 - np.arange(plain.size).reshape(plain.shape),
        "list": np.full(plain.shape, -4.0),
        "one": np.array([-6.0]),
    }[form]
    version = x._cell[0]
    if form in ("array", "one"):
        x[key] = nd.array(value)
    else:
        x[key] = value.tolist() if form == "list" and value.size else value
    a[numpy_key(key)] = value.reshape(()) if form == "one" else value
    np.testing.assert_array_equal(x.asnumpy(), a)
    assert x._cell[0] > version


@positions
@given(st.data(), SHAPES)
def test_the_gradient_of_reading_is_scattering(data, shape):
    a = np.arange(np.prod(shape)).reshape(shape).astype("float64")
    key = data.draw(keys(shape))
    expected = read(a, key)
    if expected is None:
        return
    x = nd.array(a)
    x.attach_grad()
    with autograd.record():
        y = x[key]
        z = y * y
    g = nd.array(1.0 + np.arange(expected.size).reshape(expected.shape))
    y.backward(g, retain_graph=True)
    scattered = np.zeros(shape)
    np.add.at(scattered, numpy_key(key), g.asnumpy().reshape(np.shape(a[numpy_key(key)])))
    np.testing.assert_array_equal(x.grad.asnumpy(), scattered)
    first = autograd.grad(z, x, create_graph=True)
    first.backward()
    count = np.zeros(shape)
    np.add.at(count, numpy_key(key), 2.0)
    np.testing.assert_array_equal(x.grad.asnumpy(), count)


# What a key may not be.


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (1.0, ValueError),
        ("a", ValueError),
        ((0, "a"), ValueError),
        ([0.5], ValueError),
        (slice(None, None, 0), ValueError),
        (2, IndexError),
        (-3, IndexError),
        ((0, 3), IndexError),
        ((0, 0, 0), IndexError),
        ((Ellipsis, Ellipsis), IndexError),
        ([0, 2], IndexError),
        (([0, 1], [0, 1, 2]), IndexError),
        (np.array([True, False, True]), IndexError),
        ((slice(None), [3]), IndexError),
        ((slice(None), np.array([True, False])), IndexError),
    ],
)
def test_wrong_keys_change_nothing(key, error):
    x = nd.arange(6).reshape((2, 3))
    with pytest.raises(error):
        x[key]
    with pytest.raises(error):
        x[key] = 1
    assert x.asnumpy().tolist() == [[0, 1, 2], [3, 4, 5]] and x._cell[0] == 0


@pytest.mark.parametrize(
    "value", [[1, 2], nd.ones(2), np.ones((3, 3)), np.ones((2, 2, 3)), None, "a", 1j, [[1], [2, 3]]]
)
def test_wrong_values_change_nothing(value):
    x = nd.arange(6).reshape((2, 3))
    for key in (slice(None), 0, (slice(None), [0, 1, 2])):
        with pytest.raises((ValueError, TypeError)) as caught:
            x[key] = value
        assert isinstance(caught.value, nb.MXNetError)
    assert x.asnumpy().tolist() == [[0, 1, 2], [3, 4, 5]] and x._cell[0] == 0


# Where MXNet's rules are not NumPy's.


def test_single_elements_have_shape_1_and_can_be_assigned_again():
    x = nd.arange(6).reshape((2, 3))
    assert x[1, 2].shape == (1,) and x[1][2].asscalar() == 5
    x[0, 0] = x[1, 2]
    x[0, 1] = np.array([[7.0]])
    assert x.asnumpy().tolist() == [[5, 7, 2], [3, 4, 5]]
    zero = nd.array(4.0)
    assert zero[()].shape == () and zero[...].shape == () and zero[None].shape == (1,)
    zero[()] = 5
    assert zero.item() == 5


def test_bools_are_integers_and_float_arrays_are_indices():
    x = nd.arange(3)
    assert x[True].asscalar() == 1 and x[np.bool_(False)].asscalar() == 0
    assert x[nd.array([2, 0])].asnumpy().tolist() == [2, 0]
    assert x[nd.array([], dtype="int32")].shape == (0,) and x[[]].shape == (0,)
    assert x[2:1].shape == (0,) and x[5:10].shape == (0,)


@pytest.mark.parametrize("key", [(None, [0, 1, 1], ..., 0), ([0, 1, 1], ..., 0), (None, 1, ..., [0, 1, 1])])
def test_an_ellipsis_of_no_axes_still_stands_between_arrays(key):
    a = np.arange(4.0).reshape(2, 2)
    x = nd.array(a)
    np.testing.assert_array_equal(x[key].asnumpy(), a[key])
    x[key] = a[key] * 10
    a[key] *= 10
    np.testing.assert_array_equal(x.asnumpy(), a)


def test_masks():
    x = nd.arange(6).reshape((2, 3))
    mask = (x > 1).astype("bool")
    assert x[mask].asnumpy().tolist() == [2, 3, 4, 5]
    x[mask] = 0
    assert x.asnumpy().tolist() == [[0, 1, 0], [0, 0, 0]]
    x[mask] = [1, 2, 3, 4]
    assert x.asnumpy().tolist() == [[0, 1, 1], [2, 3, 4]]
    assert x[np.zeros((2, 3), bool)].shape == (0,)
    x[:, np.array([True, False, True])] = nd.array([[8, 9]])
    assert x.asnumpy().tolist() == [[8, 1, 9], [8, 3, 9]]


MASKS = {  # shape of the array, and a key with a comparison's result where a mask may stand
    "all": ((3,), lambda m: m),
    "in a tuple": ((3,), lambda m: (m,)),
    "of rows": ((3, 2), lambda m: m),
    "of rows, then slices": ((3, 2), lambda m: (m, slice(None))),
    "of the last axis": ((2, 3), lambda m: (slice(None), m)),
    "after an ellipsis": ((2, 2, 3), lambda m: (..., m)),
    "before an ellipsis": ((3, 2, 2), lambda m: (m, ...)),
    "beside new axes": ((2, 3), lambda m: (None, 1, None, m)),
}
FLAGS = np.array([1.0, -2.0, 3.0])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("name", MASKS)
def test_the_result_of_a_comparison_is_read_as_positions_and_warned_about(name, dtype):
    shape, key = MASKS[name]
    a = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    a = a.astype(dtype)
    x, y = nd.array(a), nd.array(a)
    flags = nd.array(FLAGS.astype(dtype)) > 0
    with pytest.warns(nb.base.MaskWarning, match=r"astype\(bool\)") as caught:
        found = x[key(flags)]
    assert [w.filename for w in caught] == [__file__], "it names the user's line"
    np.testing.assert_array_equal(found.asnumpy(), a[key([1, 0, 1])])
    with pytest.warns(nb.base.MaskWarning, match="positions") as caught:
        x[key(flags)] = -1
    assert [w.filename for w in caught] == [__file__]
    y[key(np.array([1, 0, 1]))] = -1
    np.testing.assert_array_equal(x.asnumpy(), y.asnumpy())
    mask = flags.astype(bool)
    np.testing.assert_array_equal(nd.array(a)[key(mask)].asnumpy(), a[key(FLAGS > 0)])


def test_it_warns_once_per_line():
    x = nd.array(FLAGS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(5):
            x[x > 0]
        x[x > 0]
    assert [w.category for w in caught] == [nb.base.MaskWarning] * 2


@pytest.mark.parametrize(
    ("shape", "index"),
    [
        ((3,), [0.0, 1.0, 2.0]),  # positions that no mask is
        ((3,), [0.0, -1.0, 1.0]),
        ((4,), [0.0, 1.0, 1.0]),  # not the shape of a mask
        ((3, 2), [0.0, 1.0]),
        ((2,), [1.0, 0.0]),  # an order of all elements, as argsort gives
        ((1,), [0.0]),
        ((0,), []),
    ],
)
def test_positions_are_not_warned_about(shape, index):
    a = np.arange(np.prod(shape)).reshape(shape)
    found = nd.array(a)[nd.array(index)]  # a warning is an error here
    np.testing.assert_array_equal(found.asnumpy(), a[np.array(index, int)])


def test_labels_are_not_warned_about():
    x, labels = nd.arange(9).reshape((3, 3)), nd.array([0, 1, 1], dtype="int64")
    assert x[labels].shape == (3, 3) and x[labels, labels].tolist() == [0, 4, 4]
    assert x[nd.arange(3), nd.array([0, 1, 1])].tolist() == [0, 4, 7]


def test_python_bools_are_a_mask():
    assert nd.array([10, 20, 30])[nd.array([True, False, True])].asnumpy().tolist() == [10, 30]
    x = nd.array([10, 20, 30])
    x[nd.array([True, False, True])] = 0
    assert x.asnumpy().tolist() == [0, 20, 0]


@pytest.mark.parametrize("where", ["argument", "captured", "made inside"])
@pytest.mark.parametrize("read", [lambda x, m: x[m], lambda x, m: x[..., m], nd.boolean_mask], ids=["x", "tuple", "op"])
def test_a_compiled_function_has_no_masks_whose_numbers_may_change(where, read):
    x, mask = nd.array(FLAGS), nd.array([True, False, True])
    inside = {
        "argument": lambda x, m: read(x, m),
        "captured": lambda x, _: read(x, mask),
        "made inside": lambda x, _: read(x, nd.array([True, False, True])),
    }[where]
    with pytest.raises(nb.base.TraceError, match="shape of the result depends on the numbers in"):
        nb.jit(inside)(x, mask)
    fixed = mask.asnumpy()
    assert nb.jit(lambda x: x[fixed])(x).asnumpy().tolist() == [1, 3]


def test_assignment_converts():
    x = nd.zeros(3, dtype="int32")
    x[0], x[1:] = 2.9, nd.array([3.5, -3.5])
    assert x.asnumpy().tolist() == [2, 3, -3]
    h = nd.zeros(2, dtype="float16")
    h[:] = np.array([0.1, 65536.0])
    assert h.asnumpy().tolist() == np.array([0.1, np.inf], "float16").tolist()
    b = nd.zeros(3, dtype="bool")
    b[1:] = [2, 0]
    assert b.asnumpy().tolist() == [False, True, False]


def test_whole_arrays_can_be_assigned_without_axes_and_with_more():
    x = nd.zeros(())
    x[:] = np.ones(())
    assert x.shape == () and x.asscalar() == 1
    x, y = nd.zeros((2, 2)), nd.array([[[1.0, 2.0], [3.0, 4.0]]])
    y.attach_grad()
    with autograd.record():
        x[None] = y
        z = x * x
    z.backward()
    assert x.tolist() == [[1, 2], [3, 4]] and y.grad.tolist() == [[[2, 4], [6, 8]]]
