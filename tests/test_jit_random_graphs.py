"""Random programs, compiled: values and derivatives to the second order are the eager ones."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nbgrad as nb
from nbgrad import nd

SHAPES = [(2, 3), (3,), (4, 1, 3), (1,), (), (20, 18), (18, 3), (5, 4)]
LARGEST = 800  # elements
OUTSIDE = [nd.array(np.linspace(-0.9, 0.8, 3)), nd.array([[2, 0], [1, 1]], dtype="int64")]


def axis_of(a, k):
    return k % max(a.ndim, 1)


def partner(a, pool, k):
    """An array of the pool that broadcasts with `a`, the k-th of them."""

    def fits(b):
        try:
            return np.prod(np.broadcast_shapes(a.shape, b.shape)) <= LARGEST
        except ValueError:
            return False

    fitting = [b for b in pool if fits(b)]
    return fitting[k % len(fitting)]


def matrices(a, pool, k):
    a = a.reshape((-1, a.shape[-1])) if a.ndim else a.reshape((1, 1))
    fitting = [b for b in pool if b.ndim == 2 and b.shape[0] == a.shape[1] and a.shape[0] * b.shape[1] <= LARGEST]
    b = fitting[k % len(fitting)] if fitting else a.T
    return (a, b) if a.shape[0] * b.shape[1] <= LARGEST else (a.T, a)


def product(a, pool, k, m):
    left, right = matrices(a, pool, k)
    return nd.dot(left, right) * (1 / left.shape[1])


def chosen(a, b):
    both = a + b
    return nd.where(both > 0.1234, both * 0.5, b)


def sliced(a, k, m):
    n = a.shape[axis_of(a, k)] if a.ndim else 0
    if not n:
        return a * 1.0
    begin = m % n
    end = begin + 1 + (k + m) % (n - begin)
    if m % 3 == 0:
        return nd.slice_axis(a, axis=axis_of(a, k), begin=begin, end=end)
    key = [slice(None)] * a.ndim
    key[axis_of(a, k)] = slice(None, None, -1 - m % 2) if m % 3 == 1 else slice(begin, None, 1 + k % 2)
    return a[tuple(key)]


def padded(a, k, m):
    wide = tuple(n + 1 + (k + i) % 2 for i, n in enumerate(a.shape))
    begin = tuple(w - n for w, n in zip(wide, a.shape, strict=True))
    return nd.slice_assign(nd.full(wide, 0.25, dtype="float64"), a, begin=begin, end=wide) if a.ndim else a + 1.0


def axes_of(a, k):
    """The axes that the bits of `k` choose."""
    return tuple(i for i in range(a.ndim) if k >> i & 1)


def reduced(reduce, a, k, m):
    axes = axes_of(a, k)
    return reduce(a, axis=axes, keepdims=bool(m % 2)) if axes else a * 0.9


def indexed(a, k, m):
    """Elements at traced places along two axes, next to each other or not."""
    if a.ndim < 2:
        return a * 0.8
    i = nd.argsort(nd.sum(a, axis=tuple(range(1, a.ndim))), dtype="int64")
    j = nd.cast(nd.floor(nd.abs(nd.sin(nd.cast(i, dtype="float64")))), dtype="int64")
    keys = [(i, j), (slice(None), i % a.shape[1], j), (i, slice(None), j), (i, 0), (..., j, 0), (i[0], j)][k % 6]
    return a[keys] if len([x for x in keys if x is not ...]) <= a.ndim else a[i, j]


def looped(a, pool, k, m):
    """A recurrence along the first axis."""
    if a.ndim < 2 or not a.shape[0]:
        return a * 1.2
    scale = nd.sum(nd.tanh(partner(a, pool, k)))

    def body(row, state):
        state = nd.tanh(row + 0.3 * state) * nd.cos(scale)
        return (row * state, state[..., ::-1])[m % 2], state

    out, last = nd.contrib.foreach(body, a, a[0] * 0.1)
    return (out, last, out * last)[k % 3]


def branched(a, k, m):
    total = nd.sum(a).reshape(())
    return nd.contrib.cond(total > 0.01 * k, lambda: nd.sin(a) * total, lambda: a[..., ::-1] * 0.5 if a.ndim else -a)


def stacked_product(a, pool, k, m):
    if a.ndim < 2 or not a.size:
        return a * 0.7
    a = a.reshape((-1, *a.shape[-2:]))
    b = nd.sin(a)
    flags = bool(k % 2), bool(k % 2)
    if not a.shape[0] * a.shape[1 + flags[0]] * a.shape[1] <= LARGEST:
        return a * 0.6
    return nd.batch_dot(a, b, transpose_a=k % 2 == 1, transpose_b=k % 2 == 0) / max(a.shape[1:])


def sensitivity(a, pool, k, m):
    """A Jacobian of something small, as an intermediate."""
    v = a.reshape((-1,))[:4]
    w = nd.mean(partner(a, pool, k))
    f = [lambda v: nd.sin(v) * nd.sum(v) * w, lambda v: nd.cumsum(v * v)[:2] + w * v[:1], lambda v: nd.softmax(v * w)]
    return nb.jacobian(f[k % 3], mode=("reverse", "forward")[m % 2])(v)


def selected(a, b):
    return nd.where(nd.logical_and(a > 0.1, b < 0.7), a, b * 0.4)


def joined(a, b, m):
    b = b + a * 0
    return nd.concat(a, b, dim=axis_of(a, m)) if a.ndim and a.shape == b.shape else nd.relu(b)


def halves(a, k, m):
    axis = axis_of(a, k)
    if not a.ndim or a.shape[axis] % 2:
        return a * 1.05
    left, right = nd.split(a, num_outputs=2, axis=axis)
    return (left * nd.sin(right), right - left * 0.5, nd.concat(right, left, dim=axis))[m % 3]


def ringed(a, k, m):
    """What is read through joined parts: a stencil on a ring, or between boundaries."""
    axis = axis_of(a, k)
    if not a.ndim or a.shape[axis] < 2:
        return a * 0.85
    first, rest, last = (nd.slice_axis(a, axis, *ends) for ends in ((0, 1), (1, None), (-1, None)))
    right = nd.concat(rest, (first, last)[m % 2], dim=axis)
    left = (nd.roll(a, 1, axis=axis), nd.concat(first, nd.slice_axis(a, axis, 0, -1), dim=axis))[m % 2]
    return (right - left * 0.5, nd.sin(left) * right, nd.flip(right, axis=axis) + left)[m % 3]


def nested(a, pool, k, m):
    """A loop in a loop, whose steps join."""
    if a.ndim < 2 or 0 in a.shape or a.size > 60:
        return a * 1.15
    scale = nd.mean(nd.cos(partner(a, pool, k)))

    def outer(row, state):
        def inner(x, s):
            s = ringed(s, k, m) * 0.5 + x * scale
            return nd.sum(s * row), nd.tanh(s)

        out, state = nd.contrib.foreach(inner, row, state)
        return (state * 0.5, nd.sum(out))[k % 2], state

    out, last = nd.contrib.foreach(outer, a, a[0] * 0.3)
    return (out, last)[m % 2]


#: From an array, the pool, and two numbers: an array.
STEPS = [
    lambda a, pool, k, m: a + partner(a, pool, k),
    lambda a, pool, k, m: a - 0.5 * partner(a, pool, k),
    lambda a, pool, k, m: nd.sin(a) * partner(a, pool, k),
    lambda a, pool, k, m: a / (2 + nd.cos(partner(a, pool, k))),
    lambda a, pool, k, m: chosen(a, partner(a, pool, k)),
    lambda a, pool, k, m: nd.tanh(a * a),
    lambda a, pool, k, m: nd.exp(-nd.abs(a)),
    lambda a, pool, k, m: (1.5 - a) ** (2 + k % 2) * 0.2,
    lambda a, pool, k, m: nd.clip(a, -0.71, 0.83),
    lambda a, pool, k, m: a.reshape((-1,)),
    lambda a, pool, k, m: a.reshape((1, *a.shape[::-1])),
    lambda a, pool, k, m: a.T,
    lambda a, pool, k, m: nd.swapaxes(a, axis_of(a, k), axis_of(a, m)) if a.ndim > 1 else a * 1.1,
    lambda a, pool, k, m: nd.expand_dims(a, axis=k % (a.ndim + 1)),
    lambda a, pool, k, m: nd.sum(a, axis=axis_of(a, k), keepdims=bool(m % 2)) * 0.3 if a.ndim else a,
    lambda a, pool, k, m: nd.mean(a),
    lambda a, pool, k, m: nd.max(a + 0.01 * nd.sin(a), axis=axis_of(a, k), keepdims=bool(m % 2)) if a.ndim else a,
    lambda a, pool, k, m: nd.norm(a + 1.0, axis=axis_of(a, k)) * 0.4 if a.ndim else a,
    lambda a, pool, k, m: nd.softmax(a, axis=axis_of(a, k)) if a.ndim else a,
    lambda a, pool, k, m: nd.log_softmax(a, axis=axis_of(a, k)) * 0.3 if a.ndim else a,
    lambda a, pool, k, m: nd.cumsum(a, axis=axis_of(a, k)) * 0.2 if a.ndim else a,
    lambda a, pool, k, m: sliced(a, k, m),
    lambda a, pool, k, m: sliced(a, m, k),
    lambda a, pool, k, m: a[k % a.shape[0]] if a.ndim else a,
    lambda a, pool, k, m: padded(a, k, m),
    lambda a, pool, k, m: nd.concat(a, nd.sin(a), dim=axis_of(a, k)) if a.ndim else a,
    lambda a, pool, k, m: nd.stack(a, a * 0.5, axis=k % (a.ndim + 1)),
    lambda a, pool, k, m: nd.flip(a, axis=axis_of(a, k)) if a.ndim else a,
    lambda a, pool, k, m: nd.tile(a, (1 + k % 2, 1 + m % 2)),
    lambda a, pool, k, m: nd.repeat(a, repeats=2, axis=axis_of(a, k)) if a.ndim else a,
    lambda a, pool, k, m: nd.take(a, OUTSIDE[1], axis=axis_of(a, k), mode="clip") if a.ndim else a,
    lambda a, pool, k, m: nd.take(a, nd.floor(nd.abs(a) * 2).reshape((-1,))[:4], axis=0, mode="wrap") if a.ndim else a,
    lambda a, pool, k, m: nd.pick(a, nd.sum(a * 0, axis=-1) + k % 3, axis=-1) if a.ndim else a,
    lambda a, pool, k, m: nd.sort(a, axis=axis_of(a, k)) if a.ndim else a,
    lambda a, pool, k, m: a * nd.array(np.linspace(0.5, 1.0, a.shape[-1] if a.ndim else 1).reshape(-1)),
    lambda a, pool, k, m: a * OUTSIDE[0] if a.ndim and a.shape[-1] == 3 else a * nd.sum(nd.tanh(OUTSIDE[0])),
    lambda a, pool, k, m: a * nd.cast(nd.cast(a * 3, dtype="int32"), dtype="float64") * 0.2,
    lambda a, pool, k, m: nd.stop_gradient(a) * nd.cos(a),
    product,
    product,
    lambda a, pool, k, m: halves(a, k, m),
    lambda a, pool, k, m: reduced(nd.sum, a, k, m) * 0.3,
    lambda a, pool, k, m: reduced(nd.mean, a, k, m),
    lambda a, pool, k, m: reduced(nd.min, a + 0.01 * nd.cos(3 * a), k, m),
    lambda a, pool, k, m: reduced(nd.prod, nd.cos(a), k, m),
    lambda a, pool, k, m: nd.logsumexp(a, axis=axes_of(a, k) or None, keepdims=bool(m % 2)) * 0.3,
    lambda a, pool, k, m: indexed(a, k, m),
    lambda a, pool, k, m: looped(a, pool, k, m),
    lambda a, pool, k, m: branched(a, k, m),
    lambda a, pool, k, m: stacked_product(a, pool, k, m),
    lambda a, pool, k, m: sensitivity(a, pool, k, m),
    lambda a, pool, k, m: selected(a, partner(a, pool, k)),
    lambda a, pool, k, m: nd.topk(a, k=1, axis=axis_of(a, k), ret_typ="value") if a.ndim else a,
    lambda a, pool, k, m: (
        a * nd.cast(nd.argmax(a, axis=axis_of(a, k), keepdims=True), dtype="float64") if a.ndim else a
    ),
    lambda a, pool, k, m: nd.one_hot(nd.floor(nd.abs(a.reshape((-1,))[:5]) * 3), 4) * nd.sum(a, keepdims=True),
    lambda a, pool, k, m: joined(a, partner(a, pool, k), m),
    lambda a, pool, k, m: nd.broadcast_to(nd.expand_dims(a, axis=0), shape=(2 + k % 2, *a.shape)) * 0.9,
    lambda a, pool, k, m: (
        nd.LayerNorm(
            a,
            nd.ones(a.shape[-1], dtype="float64"),
            OUTSIDE[0] if a.shape[-1] == 3 else a.reshape((-1,))[: a.shape[-1]],
            eps=0.1,
        )
        if a.ndim
        else a
    ),
    lambda a, pool, k, m: (
        nd.take_along_axis(a, nd.argsort(a, axis=axis_of(a, k), dtype="int64"), axis=axis_of(a, k))
        if a.ndim
        else a * 1.01
    ),
    lambda a, pool, k, m: (
        nd.cumsum(a) if k % 2 else nd.flip(nd.cumsum(nd.flip(a.reshape((-1,)), axis=0), axis=0), axis=0) * 0.1
    ),
    lambda a, pool, k, m: a.astype("float32").astype("float64") * 0.5,
    lambda a, pool, k, m: ringed(a, k, m),
    lambda a, pool, k, m: nested(a, pool, k, m),
]


def program(steps, leaves):
    """All arrays that a program computes."""
    pool = list(leaves)
    for kind, which, k, m in steps:
        y = STEPS[kind](pool[-1 - which % len(pool)], pool, k, m)
        if 0 < y.size <= LARGEST and y.ndim <= 4:
            pool.append(y)
    return pool


def results(steps, leaves):
    """Results of a program, the gradient of what they add up to, and that of the gradient's square."""

    def heads(*xs):
        pool = program(steps, xs)
        return [pool[-1], pool[-1 - len(pool) // 3], pool[len(pool) // 2], pool[-1]]

    def total(*xs):
        return sum(nd.sum(nd.sin(h) * (0.5 + k)) for k, h in enumerate(heads(*xs)))

    places = tuple(range(len(leaves)))
    first = nb.grad(total, argnums=places)
    second = nb.grad(lambda *xs: sum(nd.sum(g * g) for g in first(*xs)), argnums=places)
    return [*heads(*leaves), *first(*leaves), *second(*leaves)]


def check(steps):
    rng = np.random.default_rng(0)
    leaves = [nd.array(rng.uniform(-1, 1, shape)) for shape in SHAPES]
    expected = results(steps, leaves)
    compiled = nb.jit(lambda *xs: results(steps, xs))
    found = compiled(*leaves)
    for k, (x, y) in enumerate(zip(expected, found, strict=True)):
        a, b = x.asnumpy(), y.asnumpy()
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-10 * max(np.abs(a).max(), 1e-3), err_msg=f"result {k}")


numbers = st.integers(0, 11)
programs = st.lists(st.tuples(st.integers(0, len(STEPS) - 1), numbers, numbers, numbers), min_size=1, max_size=14)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs)
def test_compiled_is_eager(steps):
    check(steps)


@pytest.mark.parametrize("kind", range(0, len(STEPS), 8))
def test_every_step_at_least_once(kind):
    check([(k, k % 5, 1, 2) for k in range(kind, min(kind + 8, len(STEPS)))])


@pytest.mark.parametrize(
    "steps",
    [
        [(33, 6, 3, 5), (33, 2, 1, 3), (32, 8, 4, 6), (24, 9, 8, 11)],  # conversions that are cheap
        [(7, 1, 6, 5), (9, 11, 0, 10), (15, 10, 7, 11), (24, 5, 1, 3), (10, 8, 0, 2), (29, 10, 2, 5), (24, 8, 10, 3),
         (17, 0, 10, 2)],  # names of accumulators
        [(42, 2, 6, 11), (57, 7, 0, 11), (33, 4, 1, 4), (51, 5, 1, 4), (2, 6, 0, 11)],  # scratch of several kernels
    ],
)  # fmt: skip
def test_programs_that_failed_once(steps):
    check(steps)


def test_what_goes_to_the_stack_after_a_call_of_a_function_of_vectors():
    check([(32, 3, 1, 7), (24, 6, 8, 8), (23, 1, 10, 6), (37, 11, 3, 9), (7, 9, 1, 2), (25, 5, 8, 0), (39, 8, 9, 10)])
