"""What is kept, and when it is let go: by counting live objects and traced allocations, the cycle collector off."""

import contextlib
import gc
import tracemalloc
import weakref

import numpy as np
import pytest
from recording import marked, recorded

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.arrays import launch
from nbgrad.arrays.launch import Kind
from nbgrad.autodiff import tape
from nbgrad.backends.buffer_pool import pool, rounded
from nbgrad.core.registry import operators
from nbgrad.operators.structured import Structured

CASES = [pytest.param(e, s, id=f"{e.name}-{s!r}") for e in operators.values() for s in e.samples[:3]]


@pytest.fixture(autouse=True)
def _no_collector():
    gc.disable()
    gc.freeze()  # what earlier tests left need not be gone through again and again
    try:
        yield
    finally:
        gc.unfreeze()
        gc.enable()


def live():
    """Numbers of living arrays and nodes."""
    found = {nb.NDArray: 0, tape.Node: 0}
    for x in gc.get_objects():
        if type(x) in found:
            found[type(x)] += 1
    return tuple(found.values())


@contextlib.contextmanager
def watched(monkeypatch):
    """A list of weak references to every raw buffer allocated for a result, a gradient or a cotangent."""
    buffers = []

    def empty(n, storage):
        buf = np.empty(n, storage)
        buffers.append(weakref.ref(buf))
        return buf

    make = Kind.__init__

    def init(self, *args):
        make(self, *args)
        self.empty = self.small = empty

    with monkeypatch.context() as patch:
        patch.setattr(Kind, "__init__", init)
        for kind in launch._kinds.values():
            kind.empty = kind.small = empty
        try:
            yield buffers
        finally:
            for kind in launch._kinds.values():
                make(kind, kind.dtype, kind.ctx, kind.conventions)  # as it was


def dead(references):
    return all(ref() is None for ref in references)


# Training.


def perceptron():
    rng = np.random.default_rng(0)
    ws = [nd.array(rng.normal(0, 0.3, s), dtype="float32") for s in ((16, 20), (16,), (3, 16), (3,))]
    x, y = nd.array(rng.normal(size=(8, 20)), dtype="float32"), nd.array(rng.integers(0, 3, 8))

    def loss():
        h = nd.FullyConnected(x, ws[0], ws[1], num_hidden=16)
        h = nd.Dropout(nd.relu(h), p=0.2)
        return nd.softmax_cross_entropy(nd.FullyConnected(h, ws[2], ws[3], num_hidden=3), y)

    return ws, loss


def convnet():
    rng = np.random.default_rng(1)
    shapes = ((4, 1, 3, 3), (4,), (4,), (3, 16), (3,))
    ws = [nd.array(rng.normal(0, 0.3, s), dtype="float32") for s in shapes]
    mean, var = nd.zeros(4), nd.ones(4)
    x, y = nd.array(rng.normal(size=(4, 1, 6, 6)), dtype="float32"), nd.array(rng.integers(0, 3, 4))

    def loss():
        h = nd.Convolution(x, ws[0], kernel=(3, 3), num_filter=4, no_bias=True)
        h = nd.relu(nd.BatchNorm(h, ws[1], ws[2], mean, var, fix_gamma=False))
        h = nd.Pooling(h, kernel=(2, 2), stride=(2, 2), pool_type="max").reshape((4, 16))
        return nd.softmax_cross_entropy(nd.FullyConnected(h, ws[3], ws[4], num_hidden=3), y)

    return ws, loss


def plain_step(ws, loss):
    with autograd.record():
        y = loss()
    y.backward()
    for w in ws:
        w[:] = w - 0.05 * w.grad
    return float(y)


def checkpointed_step(ws, loss):
    return plain_step(ws, autograd.checkpoint(loss))


def penalised_step(ws, loss):
    with autograd.record():
        y = loss()
        y = y + sum((g * g).sum() for g in autograd.grad(y, ws, create_graph=True))
    y.backward()
    for w in ws:
        w[:] = w - 0.01 * w.grad
    return float(y)


def in_cycles():
    """Objects of ours that only the collector could free. (What else the process does may leave cycles, too.)"""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return [type(o) for o in gc.garbage if type(o).__module__.startswith("nbgrad")]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.collect()


@pytest.mark.parametrize("step", [plain_step, checkpointed_step, penalised_step])
@pytest.mark.parametrize("network", [perceptron, convnet])
def test_100_training_steps_do_not_grow_memory(network, step):
    ws, loss = network()
    for w in ws:
        w.attach_grad()
    first = step(ws, loss)
    for _ in range(10):  # plans, kernels and what Python itself keeps
        step(ws, loss)
    tracemalloc.start()
    grown, cycles = [], []
    try:
        for _ in range(3):  # a leak grows in every round; what else the process does may take memory once
            step(ws, loss)
            gc.collect()  # also empties the lists of free tuples, which Python counts as used
            objects, memory = live(), tracemalloc.get_traced_memory()[0]
            for _ in range(100):
                last = step(ws, loss)
            assert live() == objects
            assert not in_cycles(), "cycles were made"
            grown.append(tracemalloc.get_traced_memory()[0] - memory)
            for _ in range(100):
                last = step(ws, loss)
            cycles.append(gc.collect())
            if grown[-1] < 8192 and cycles[-1] == 0:
                break
    finally:
        tracemalloc.stop()
    assert min(cycles) == 0, f"{cycles} objects in cycles in rounds of 100 steps"
    assert min(grown) < 8192, f"{grown} bytes in rounds of 100 steps"
    assert last < first


# No cycles.


@pytest.mark.parametrize(("entry", "sample"), CASES)
def test_nothing_outlives_its_last_reference(entry, sample, monkeypatch):
    def run(kind):
        values = [nd.array(v) for v in sample.draw()]
        updates = entry.name.endswith("_update")  # which refuses what has a gradient
        marks = [x for x, i in zip(values, sample.inputs, strict=True) if i.grad and not updates]
        for x in marks:
            x.attach_grad()
        with autograd.record():
            ys = entry.call(*values, **sample.attrs)
            ys = list(ys) if isinstance(ys, list | tuple) else [ys]
            heads = [y for y in ys if y._node is not None and np.dtype(y.dtype).kind == "f"]
            if heads and marks and entry.differentiable and kind == "backward":
                autograd.backward(heads, retain_graph=True)
                autograd.backward(heads)
            if heads and marks and entry.differentiable and kind == "grad":
                total = sum((y * y).sum() for y in heads)
                gs = autograd.grad(total, marks, create_graph=True)
                autograd.backward([(g * g).sum() for g in gs])
        return [weakref.ref(x) for x in (*values, *ys)]

    for other in operators.values():  # they drop all plans when there are many: not while buffers are watched
        if isinstance(other.rule, Structured):
            other.rule._plans.clear()
    kinds = ("record", "backward", "grad")
    for kind in kinds:
        run(kind)  # plans and kernels are made, and kept
    before = live()
    for kind in kinds:
        with watched(monkeypatch) as buffers:
            references = run(kind)
            assert dead(buffers)
        assert dead(references)
    assert live() == before


class Square(autograd.Function):
    def forward(self, x):
        y = x * x
        self.save_for_backward(x, y, nd.ones_like(x).astype("int32"))
        return y

    def backward(self, dy):
        x, _, one = self.saved_tensors
        return 2 * dy * x * one


def test_custom_functions_and_views(monkeypatch):
    def run():
        x = marked(np.ones((3, 4)))
        with autograd.record():
            y = Square()(x)[1:].reshape((-1,)).astype("float32").T
            g = autograd.grad(y, x, create_graph=True)
            z = autograd.checkpoint(lambda g: Square()(g * x))(g)
        z.backward()

    run()
    before = live()
    with watched(monkeypatch) as buffers:
        run()
        assert dead(buffers)
    assert live() == before


@pytest.mark.parametrize("when", ["forward", "backward", "second"])
def test_after_an_error(when):
    """The error's traceback holds frames; once it is gone, nothing is left."""
    x = marked(np.ones(3))

    class Fails(autograd.Function):
        def forward(self, x):
            if when == "forward":
                raise ValueError(when)
            return x * x

        def backward(self, dy):
            raise ValueError(when)

    def run():
        with contextlib.suppress(ValueError), autograd.record():
            y = (nd.sin(Fails()(nd.exp(x)))).sum()
            autograd.grad(y, x, create_graph=True) if when == "second" else y.backward()

    run()
    gc.collect()
    before = live()
    run()
    gc.collect()
    assert live() == before


# What backward frees.


def test_backward_frees_what_it_has_used(monkeypatch):
    """The peak of backward through a long chain is what forward kept and a few cotangents."""
    n, length = 100_000, 40
    x = marked(np.full(n, 0.5))

    def step():
        with autograd.record():
            y = x
            for _ in range(length):
                y = nd.tanh(y)
        return y

    step().backward()
    start = pool.lent
    y = step()
    kept = pool.lent - start
    pool.peak = pool.lent
    y.backward()
    after, peak = pool.lent - start, pool.peak - start
    one = rounded(8 * n)
    assert kept < (length + 0.5) * one
    assert peak < kept + 1.5 * one  # one cotangent, changed in place
    assert after < 1.5 * one  # y itself


def test_saved_values_die_one_by_one():
    x = marked(np.ones(5))
    alive = []

    class Spy(autograd.Function):
        def forward(self, x):
            return x * 1.0

        def backward(self, dy):
            alive.append(sum(ref() is not None for ref in buffers))
            return dy

    buffers = []
    with autograd.record():
        y = x
        for _ in range(6):
            y = nd.tanh(Spy()(y))
            buffers.append(weakref.ref(y._buf))
    del y
    head = recorded(lambda: x)
    del head
    assert all(ref() is None for ref in buffers)
    buffers.clear()
    with autograd.record():
        y = x
        for _ in range(6):
            y = nd.tanh(Spy()(y))
            buffers.append(weakref.ref(y._buf))
        z = y * 1.0
    del y
    z.backward()
    assert alive == [5, 4, 3, 2, 1, 0]


def test_a_node_whose_result_is_kept_keeps_nothing_after_backward():
    x = marked(np.ones((2, 3)))
    with autograd.record():
        h = nd.exp(x)
        results = [h * h, Square()(h), nd.dot(h, h.T), nd.softmax(h), autograd.checkpoint(nd.sin)(h), h[0], h.sum()]
    inner = weakref.ref(h._buf)
    del h
    autograd.backward(results)
    views = results.pop(5)  # it is memory of h
    assert inner() is not None
    del views
    assert inner() is None


def test_checkpoints_bound_the_peak():
    n, blocks, length = 50_000, 8, 8
    x = marked(np.full(n, 0.5))

    def block(x):
        for _ in range(length):
            x = nd.tanh(x)
        return x

    def peak(wrap):
        start = pool.peak = pool.lent
        with autograd.record():
            y = x
            for _ in range(blocks):
                y = wrap(block)(y)
        y.backward()
        return (pool.peak - start) / rounded(8 * n)

    assert peak(lambda f: f) > blocks * length
    assert peak(autograd.checkpoint) < blocks + length + 4


# What is saved.

SAVED = [
    ("add", lambda x, z: x + z, ""),
    ("subtract", lambda x, z: x - z, ""),
    ("negative", lambda x, z: -x, ""),
    ("multiply by a number", lambda x, z: x * 3, ""),
    ("multiply", lambda x, z: x * z, "xz"),
    ("multiply by a constant", lambda x, z: x * z.detach(), "z"),
    ("a constant multiplied", lambda x, z: x.detach() * z, "x"),
    ("square", lambda x, z: nd.square(x), "x"),
    ("x*x", lambda x, z: x * x, "x"),
    ("divide by a constant", lambda x, z: x / z.detach(), "z"),
    ("exp", lambda x, z: nd.exp(x), "y"),
    ("log", lambda x, z: nd.log(x), "x"),
    ("sin", lambda x, z: nd.sin(x), "x"),
    ("tanh", lambda x, z: nd.tanh(x), "y"),
    ("sigmoid", lambda x, z: nd.sigmoid(x), "y"),
    ("sum", lambda x, z: x.sum(), ""),
    ("mean", lambda x, z: x.mean(), ""),
    ("reshape", lambda x, z: x.reshape((-1,)), ""),
    ("transpose", lambda x, z: x.T, ""),
    ("slice", lambda x, z: x[0], ""),
    ("concat", lambda x, z: nd.concat(x, z, dim=0), ""),
    ("broadcast_to", lambda x, z: nd.broadcast_to(x.sum(), (4,)), ""),
    ("cast", lambda x, z: x.astype("float32"), ""),
    ("dot", lambda x, z: nd.dot(x, z), "xz"),
    ("dot with a constant", lambda x, z: nd.dot(x, z.detach()), "z"),
    ("take", lambda x, z: nd.take(x, nd.array([0, 1])), "1"),
    ("softmax", lambda x, z: nd.softmax(x), "y"),
    ("floor", lambda x, z: nd.floor(x), ""),
]


@pytest.mark.parametrize(("function", "names"), [pytest.param(f, n, id=i) for i, f, n in SAVED])
def test_only_what_the_derivative_reads_is_saved(function, names):
    """Which of the operands x and z, the result y, and others (their number), the nodes behind y save."""
    x, z = marked(np.full((2, 2), 0.5)), marked(np.full((2, 2), 0.25))
    y = recorded(function, x, z)
    saved, stack = [], [y._node]
    while stack:
        node = stack.pop()
        if type(node) is tape.Node:
            saved += node.saved[::3]
            stack += node.parents
    known = {"x": x, "z": z, "y": y}
    found = {name for name, a in known.items() for buf in saved if buf is a._buf}
    others = len(saved) - sum(any(buf is a._buf for a in known.values()) for buf in saved)
    expected = {n for n in names if not n.isdigit()}
    assert found == expected
    assert others == sum(int(n) for n in names if n.isdigit())
