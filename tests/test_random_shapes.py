"""Broadcasting, reshape codes and reductions against NumPy, over random shapes, attributes and dtypes."""

import math
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbgrad import autograd, nd

SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
DTYPES = st.sampled_from(["float32", "float64", "int32"])


def numbers(shape, dtype, seed):
    """Small whole numbers, with ties: sums and products are exact."""
    return np.random.default_rng(seed).integers(-2, 4, shape).astype(dtype)


def same(found, expected, dtype):
    assert found.dtype is np.dtype(dtype).type
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.asnumpy(), expected)


# Broadcasting.


@st.composite
def broadcastable(draw):
    """Two shapes that broadcast."""
    shape = draw(SHAPES)
    parts = []
    for _ in range(2):
        kept = shape[draw(st.integers(0, len(shape))) :]
        parts.append(tuple(1 if draw(st.integers(0, 2)) == 0 else n for n in kept))
    return parts


def promoted(a, b):
    if "float64" in (a, b):
        return "float64"
    return "float32" if "float32" in (a, b) else "int32"


ARITHMETIC = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "greater": np.greater,
    "equal": np.equal,
}


@given(broadcastable(), DTYPES, DTYPES, st.sampled_from(sorted(ARITHMETIC)), st.integers(0, 99))
def test_arithmetic_broadcasts_and_promotes(shapes, first, second, name, seed):
    a, b = numbers(shapes[0], first, seed), numbers(shapes[1], second, seed + 1)
    dtype = promoted(first, second)
    same(getattr(nd, name)(nd.array(a), nd.array(b)), np.asarray(ARITHMETIC[name](a, b)), dtype)


@given(SHAPES, SHAPES)
def test_shapes_that_do_not_broadcast_are_refused(first, second):
    try:
        expected = np.broadcast_shapes(first, second)
    except ValueError:
        with pytest.raises(ValueError, match="broadcast"):
            nd.zeros(first) + nd.zeros(second)
    else:
        assert (nd.zeros(first) + nd.zeros(second)).shape == expected


@given(broadcastable(), st.integers(0, 99))
def test_the_gradient_of_broadcasting_is_a_sum(shapes, seed):
    values = [numbers(s, "float64", seed + k) for k, s in enumerate(shapes)]
    x, y = (nd.array(v) for v in values)
    for v in (x, y):
        v.attach_grad()
    with autograd.record():
        z = x * y
    g = numbers(z.shape, "float64", seed + 2)
    z.backward(nd.array(g))
    for v, other in ((x, values[1]), (y, values[0])):
        full = np.broadcast_to(g * other, z.shape)
        lead = len(z.shape) - len(v.shape)
        axes = tuple(k for k in range(len(z.shape)) if k < lead or v.shape[k - lead] == 1)
        same(v.grad, full.sum(axis=axes).reshape(v.shape), "float64")


@given(broadcastable(), DTYPES, st.integers(0, 99))
def test_broadcast_to_and_like(shapes, dtype, seed):
    target = np.broadcast_shapes(*shapes)
    a = numbers((1,) * (len(target) - len(shapes[0])) + shapes[0], dtype, seed)
    expected = np.broadcast_to(a, target)
    kept = tuple(m or n for n, m in zip(a.shape, target, strict=True))  # broadcast_to: 0 keeps a length
    same(nd.broadcast_to(nd.array(a), target), np.broadcast_to(a, kept), dtype)
    same(nd.broadcast_like(nd.array(a), nd.zeros(target)), expected, dtype)
    axes = tuple(k for k, n in enumerate(a.shape) if n == 1)
    if axes:
        same(nd.broadcast_axis(nd.array(a), axis=axes, size=tuple(target[k] for k in axes)), expected, dtype)


# Reshape codes.


@st.composite
def codes(draw):
    """A shape, codes that fit it, the new shape, and whether they match from the right."""
    shape = draw(SHAPES)
    reverse = draw(st.booleans())
    source = shape[::-1] if reverse else shape
    groups: list[list[int]] = []  # codes, each group in the order in which it is written
    found: list[list[int]] = []
    free = None  # the group that may become a -1
    at = 0
    while at < len(source):
        kind = draw(st.sampled_from(["copy", "number", "merge", "split", "rest"]))
        n = source[at]
        if kind == "merge" and at + 1 < len(source):
            groups.append([-3])
            found.append([n * source[at + 1]])
            at += 2
            continue
        if kind == "rest" and draw(st.booleans()):
            groups += [[-2]]
            found += [list(source[at:])[::-1] if reverse else list(source[at:])]
            break
        if kind == "split":
            first = draw(st.sampled_from([k for k in range(1, n + 1) if n % k == 0] or [1]))
            pair = [first, n // first]
            written = list(pair)
            unknown = draw(st.sampled_from([None, 0, 1]))
            if unknown is not None and pair[1 - unknown] > 0:
                written[unknown] = -1
            groups.append([-4, *written])
            found.append(pair)
        elif kind == "number" and n > 0:
            free = len(groups)
            groups.append([n])
            found.append([n])
        else:
            groups.append([0])
            found.append([n])
        at += 1
    if reverse:
        groups, found = groups[::-1], found[::-1]
        free = None if free is None else len(groups) - 1 - free
    if free is not None and math.prod(shape) and draw(st.booleans()):
        groups[free] = [-1]
    return shape, tuple(chain(*groups)), tuple(chain(*found)), reverse


@given(codes())
def test_reshape_codes(case):
    shape, code, expected, reverse = case
    if not code:
        return
    a = np.arange(math.prod(shape)).reshape(shape)
    x = nd.array(a)
    same(x.reshape(code, reverse=reverse), a.reshape(expected), "int64")
    same(nd.reshape(x, code, reverse=reverse), a.reshape(expected), "int64")


@given(SHAPES, st.lists(st.integers(-5, 4), min_size=1, max_size=5).map(tuple), st.booleans())
def test_any_codes_reshape_or_are_refused(shape, code, reverse):
    a = np.arange(math.prod(shape)).reshape(shape)
    try:
        found = nd.reshape(nd.array(a), code, reverse=reverse)
    except ValueError as error:
        assert "reshape" in str(error)
        return
    assert math.prod(found.shape) == a.size
    np.testing.assert_array_equal(found.asnumpy().ravel(), a.ravel())
    if all(n > 0 or n == -1 for n in code):
        assert found.shape == a.reshape(code).shape


@given(SHAPES, st.lists(st.integers(1, 4), max_size=4), st.integers(-1, 4))
def test_reshape_with_one_unknown_length_is_numpys(shape, code, place):
    code = tuple(code)
    if place >= 0:
        code = (*code[:place], -1, *code[place:])
    a = np.arange(math.prod(shape)).reshape(shape)
    try:
        expected = a.reshape(code)
    except ValueError:
        with pytest.raises(ValueError, match="reshape"):
            nd.array(a).reshape(code)
        return
    same(nd.array(a).reshape(code), expected, "int64")


# Reductions.


def norm(a, axis, keepdims):
    return np.sqrt(np.sum(a * a, axis=axis, keepdims=keepdims))


def mean(a, axis, keepdims):
    return np.sum(a, axis=axis, keepdims=keepdims) / np.float64(math.prod(a.shape[k] for k in axis))


REDUCTIONS = {
    "sum": np.sum,
    "mean": mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "nansum": np.nansum,
    "nanprod": np.nanprod,
    "norm": norm,
}


def ours(expected, keepdims):
    """MXNet's shape (1,) for what is reduced to one number."""
    return expected.reshape(1) if expected.shape == () and not keepdims else expected


@st.composite
def axes(draw, shape):
    """An axis argument, and the sorted axes it names (all for None and ())."""
    n = len(shape)
    if n == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from([None, ()])), tuple(range(n))
    chosen = draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))
    given = tuple(k - n if draw(st.booleans()) else k for k in chosen)
    if len(given) == 1 and draw(st.booleans()):
        return given[0], tuple(chosen)
    return draw(st.sampled_from([tuple, list]))(given), tuple(sorted(chosen))


@given(st.data(), SHAPES, DTYPES, st.sampled_from(sorted(REDUCTIONS)), st.booleans(), st.integers(0, 99))
def test_reductions(data, shape, dtype, name, keepdims, seed):
    a = numbers(shape, dtype, seed)
    if name.startswith("nan") and dtype != "int32":
        a[a == 3] = np.nan
    axis, reduced = data.draw(axes(shape))
    attrs = {"axis": axis, "keepdims": keepdims}
    if name != "norm" and data.draw(st.booleans()):
        attrs["exclude"] = True
        if axis not in (None, ()):  # these name all axes, excluded or not
            reduced = tuple(k for k in range(len(shape)) if k not in reduced)
    exact = a.astype("int64" if dtype == "int32" else "float64")  # products of integers wrap
    try:
        with np.errstate(all="ignore"):
            expected = np.asarray(REDUCTIONS[name](exact, axis=reduced, keepdims=keepdims))
    except ValueError:  # the largest of none
        with pytest.raises(ValueError, match=name):
            getattr(nd, name)(nd.array(a), **attrs)
        return
    expected = ours(expected, keepdims)
    result = "float32" if dtype == "int32" and name in ("mean", "norm") else dtype
    found = getattr(nd, name)(nd.array(a), **attrs)
    assert found.dtype is np.dtype(result).type and found.shape == expected.shape
    rtol = 1e-6 if result == "float32" else 1e-15
    np.testing.assert_allclose(found.asnumpy(), expected.astype(result), rtol=rtol)


@given(st.data(), SHAPES, st.sampled_from(["sum", "max", "min", "mean"]), st.booleans(), st.integers(0, 99))
def test_gradients_of_reductions(data, shape, name, keepdims, seed):
    a = numbers(shape, "float64", seed)
    axis, reduced = data.draw(axes(shape))
    count = math.prod(shape[k] for k in reduced)
    if count == 0 and name != "sum":
        return
    x = nd.array(a)
    x.attach_grad()
    with autograd.record():
        y = getattr(nd, name)(x, axis=axis, keepdims=keepdims)
    g = numbers(y.shape, "float64", seed + 1)
    y.backward(nd.array(g))
    kept = tuple(1 if k in reduced else n for k, n in enumerate(shape))
    full = np.broadcast_to(g.reshape(kept), shape)
    if name == "mean":
        full = full / count
    if name in ("max", "min"):  # every tied element gets all of it
        full = full * (a == REDUCTIONS[name](a, axis=reduced, keepdims=True))
    np.testing.assert_allclose(x.grad.asnumpy(), full, rtol=1e-15)


@given(st.data(), SHAPES, st.sampled_from(["argmax", "argmin"]), st.booleans(), st.integers(0, 99))
def test_positions_of_extremes(data, shape, name, keepdims, seed):
    a = numbers(shape, "float64", seed)
    axis = data.draw(st.none() | st.integers(-len(shape), len(shape) - 1)) if shape else None
    try:
        expected = np.asarray(getattr(np, name)(a, axis=axis, keepdims=keepdims))
    except ValueError:
        with pytest.raises(ValueError, match=name):
            getattr(nd, name)(nd.array(a), axis=axis, keepdims=keepdims)
        return
    expected = ours(expected, keepdims)
    same(getattr(nd, name)(nd.array(a), axis=axis, keepdims=keepdims), expected, "float32")
