"""Random programs: backward, grad and grad with create_graph agree with one another and with finite differences."""

import numpy as np
import pytest

from nbgrad import autograd, nd

SHAPES = [(2, 3), (3,), (1, 3), (2, 1), (1,), (6,)]


class Negate(autograd.Function):
    """Writes into what it is given, as a user may."""

    def forward(self, a, b):
        return -a, a * b

    def backward(self, da, dab):
        a, b = self.saved_tensors
        return dab * b - da, dab * a

    def __call__(self, a, b):
        self.save_for_backward(a, b)
        return super().__call__(a, b)


def binary(rng, pool):
    """Two arrays whose shapes broadcast together."""
    a = pool[rng.integers(len(pool))]
    fitting = [b for b in pool if _fits(a.shape, b.shape)]
    return a, fitting[rng.integers(len(fitting))]


def _fits(s, t):
    try:
        return np.prod(np.broadcast_shapes(s, t)) <= 6
    except ValueError:
        return False


def step(rng, pool):
    """One operation on arrays of the pool; results stay of order one."""
    a, b = binary(rng, pool)
    kind = rng.integers(14)
    if kind == 0:
        return [a + b]
    if kind == 1:
        return [a - b * 0.5]
    if kind == 2:
        return [nd.sin(a) * b]
    if kind == 3:
        return [a / (2 + nd.cos(b))]
    if kind == 4:
        return [nd.tanh(a * a)]
    if kind == 5:
        return [a.reshape((a.size,))]
    if kind == 6:
        return [a.T * 1.5]
    if kind == 7:
        return [a.sum(axis=-1, keepdims=True) * 0.3]
    if kind == 8:
        return [a[0] if a.ndim > 1 else a[0:1]]
    if kind == 9:
        index = rng.integers(0, a.shape[0], 2)
        return [a[index].sum(axis=0, keepdims=True) * 0.5]
    if kind == 10 and a.shape == b.shape:
        return list(Negate()(nd.sin(a), nd.cos(b)))
    if kind == 11:
        return [nd.concat(a, a * 0.5, dim=0)[0 : a.shape[0]]]
    if kind == 12:
        return [nd.where(a > b, a, b * 0.7)]
    return [a.copy(), nd.identity(b)]


def program(seed, leaves, length=18):
    """The results of a random program, the last of them its heads."""
    rng = np.random.default_rng(seed)
    pool = list(leaves)
    for _ in range(length):
        pool += [y for y in step(rng, pool) if 0 < y.size <= 6 and y.ndim <= 2]
    return pool


def setup(seed, dtype="float64"):
    rng = np.random.default_rng(1000 + seed)
    starts = [rng.uniform(-1, 1, shape) for shape in ((2, 3), (3,), (2, 1), (1,))]
    leaves = [nd.array(s, dtype=dtype) for s in starts]
    for x in leaves:
        x.attach_grad()
    with autograd.record():
        pool = program(seed, leaves)
    heads = [pool[-1], pool[-1], pool[len(pool) // 2], leaves[1]]
    weights = [nd.array(rng.uniform(-1, 1, h.shape), dtype=dtype) for h in heads]
    return starts, leaves, pool, heads, weights


def on_tape(leaves, heads):
    """The leaves that the heads depend on."""
    found, stack = set(), [h._node for h in heads if h._node is not None]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += [p for p in getattr(node, "parents", ()) if type(p) is not list]
    return [x for x in leaves if x._node in found]


@pytest.mark.parametrize("seed", range(40))
def test_every_way_to_the_gradient_agrees(seed):
    starts, leaves, pool, heads, weights = setup(seed)
    reached = on_tape(leaves, heads)
    kept = [y.asnumpy() for y in pool]
    autograd.backward(heads, weights, retain_graph=True)
    expected = [x.grad.asnumpy() for x in reached]
    raw = autograd.grad(heads, reached, weights, retain_graph=True)
    recorded = autograd.grad(heads, reached, weights, create_graph=True)
    for e, r, c in zip(expected, raw, recorded, strict=True):
        np.testing.assert_allclose(r.asnumpy(), e, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(c.asnumpy(), e, rtol=1e-12, atol=1e-13)
    for x, e in zip(reached, expected, strict=True):  # alone: other branches are cut
        alone = autograd.grad(heads, x, weights, retain_graph=True)
        np.testing.assert_allclose(alone.asnumpy(), e, rtol=1e-12, atol=1e-13)
    for x in leaves:  # accumulated twice
        g = nd.zeros(x.shape, dtype="float64")
        autograd.mark_variables(x, g, "add")
    with autograd.record():
        again = program(seed, leaves)
    heads = [again[-1], again[-1], again[len(again) // 2], leaves[1]]
    for _ in range(2):
        autograd.backward(heads, weights, retain_graph=True)
    for x, e in zip(reached, expected, strict=True):
        np.testing.assert_allclose(x.grad.asnumpy(), 2 * e, rtol=1e-12, atol=1e-13)
    for y, before in zip(pool, kept, strict=True):
        np.testing.assert_array_equal(y.asnumpy(), before)

    def value(*at):
        end = program(seed, [nd.array(a) for a in at])
        ends = [end[-1], end[-1], end[len(end) // 2], end[1]]
        return sum((h.asnumpy() * w.asnumpy()).sum() for h, w in zip(ends, weights, strict=True))

    rng = np.random.default_rng(seed)
    directions = [rng.uniform(-1, 1, s.shape) for s in starts]
    step_ = 1e-6
    up = value(*(s + step_ * d for s, d in zip(starts, directions, strict=True)))
    down = value(*(s - step_ * d for s, d in zip(starts, directions, strict=True)))
    slopes = {id(x): e for x, e in zip(reached, expected, strict=True)}
    slope = sum((slopes[id(x)] * d).sum() for x, d in zip(leaves, directions, strict=True) if id(x) in slopes)
    assert (up - down) / (2 * step_) == pytest.approx(slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("seed", range(12))
def test_intermediates_as_variables(seed):
    _, _, pool, heads, weights = setup(seed)
    inner = on_tape([y for y in pool if y._node is not None], heads)
    raw = autograd.grad(heads, inner, weights, retain_graph=True)
    recorded = autograd.grad(heads, inner, weights, create_graph=True)
    for r, c in zip(raw, recorded, strict=True):
        np.testing.assert_allclose(r.asnumpy(), c.asnumpy(), rtol=1e-12, atol=1e-13)
    assert len({id(g._buf) for g in raw}) == len(raw) and len({id(g._buf) for g in recorded}) == len(recorded)


@pytest.mark.parametrize("seed", range(12))
def test_the_second_order_against_differences_of_the_first(seed):
    starts, leaves, _, heads, weights = setup(seed)
    reached = on_tape(leaves, heads)
    rng = np.random.default_rng(seed)
    first = autograd.grad(heads, reached, weights, create_graph=True)
    v = [nd.array(rng.uniform(-1, 1, x.shape)) for x in reached]
    with autograd.record():
        s = sum(((g * w).sum() for g, w in zip(first, v, strict=True)), nd.zeros(1, dtype="float64"))
    for x in leaves:
        x.grad[:] = 0
    if s._node is None:
        return
    s.backward()
    hv = [x.grad.asnumpy() for x in reached]

    def gradient(sign):
        at = [nd.array(a) for a in starts]
        for x, w in zip(reached, v, strict=True):
            k = next(k for k, leaf in enumerate(leaves) if leaf is x)
            at[k] += sign * 1e-6 * w
        for x in at:
            x.attach_grad()
        with autograd.record():
            pool = program(seed, at)
        ends = [pool[-1], pool[-1], pool[len(pool) // 2], at[1]]
        autograd.backward(ends, weights)
        return [at[next(k for k, leaf in enumerate(leaves) if leaf is x)].grad.asnumpy() for x in reached]

    for up, down, h in zip(gradient(1), gradient(-1), hv, strict=True):
        np.testing.assert_allclose((up - down) / 2e-6, h, rtol=2e-6, atol=2e-7)
