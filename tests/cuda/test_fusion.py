"""What becomes one kernel, and that it is right."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import nd
from nbgrad.compiler import lowering
from nbgrad.compiler.device import groups, source
from nbgrad.compiler.device.source import KernelWriter
from nbgrad.ir import graph

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import test_jit_random_graphs as graphs

X = np.random.default_rng(0).standard_normal((6, 40))


def kernels(function, *values):
    """How many kernels the function is, after it gave the same on both devices."""
    compiled = nb.jit(function)
    wanted, found = [compiled(*[nd.array(v, ctx=ctx, dtype=v.dtype) for v in values]) for ctx in (nb.cpu(0), nb.gpu(0))]
    if not isinstance(wanted, list | tuple):
        wanted, found = [wanted], [found]
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(b.asnumpy(), a.asnumpy(), rtol=1e-11, atol=1e-12)
    program = compiled.latest.compiled
    assert f"in {len(program.kernels)} kernel(s)" in compiled.report()
    return len(program.kernels)


def normalized(x):
    return nd.LayerNorm(x, nd.ones(40, dtype="float64"), nd.ones(40, dtype="float64"))


@pytest.mark.parametrize(
    "function, count",
    [
        (lambda x: nd.tanh(nd.sin(x) * 2 + x) / 3, 1),
        (lambda x: (nd.sin(x), nd.cos(x), nd.sin(x) + nd.cos(x)), 1),  # several results
        (lambda x: (nd.sum(x), nd.sum(x * x), nd.max(x)), 1),  # several reductions of the same elements
        (lambda x: nd.mean(nd.sin(x) ** 2) * 3 + 1, 1),  # what is made of a total
        (nb.value_and_grad(lambda x: nd.sum(nd.sin(x) ** 2)), 1),
        (lambda x: nd.softmax(x), 1),
        (normalized, 1),
        (nb.grad(lambda x: nd.sum(normalized(x) ** 2)), 1),
        (lambda x: nd.softmax(x, axis=0), 1),
        (lambda x: nd.dot(nd.tanh(x), nd.tanh(x), transpose_b=True) + 1, 2),  # one value at two points
        (lambda x: x - nd.sum(nd.softmax(x)), 2),  # needs all rows
    ],
)
def test_how_many_kernels(gpu, function, count):
    assert kernels(function, X) == count


@pytest.mark.parametrize(
    "function",
    [
        lambda x: nd.sum(nd.softmax(x) ** 2),
        lambda x: nd.max(nd.softmax(nd.reshape(x, (2, 3, 40))), axis=(0, 2), keepdims=True),
        nb.value_and_grad(lambda x: nd.sum(normalized(x) ** 2)),
        lambda x: (nd.sum(nd.softmax(x) * x), nd.min(nd.softmax(x)), nd.softmax(x)),
    ],
)
def test_of_rows_and_of_their_insides(gpu, function, monkeypatch):
    """What is too much for one block is reduced row by row, where rows are known, and then as a column."""
    monkeypatch.setattr(groups, "_CHUNK", 64)
    assert kernels(function, X) == 2


def test_rows_in_parts(gpu, monkeypatch):
    """Few long rows: several blocks have a part of each, or several threads if neighbours are in other rows."""
    monkeypatch.setattr(groups, "_CHUNK", 8)
    monkeypatch.setattr(groups, "_RUN", 3)
    monkeypatch.setattr(groups, "MAX_SERIAL_REDUCTION", 2)

    def both(x):
        return nd.mean(x, axis=1) + 1, nd.max(x, axis=1), nd.sin(x), nd.sum(x, axis=0) * 2, nd.min(nd.sin(x), axis=0)

    x = np.random.default_rng(1).standard_normal((40, 50))
    assert kernels(both, x) == 4
    assert kernels(nb.value_and_grad(lambda x: nd.sum(nd.softmax(x) ** 2)), x) > 4


def layer(x, w, b, r):
    return nd.relu(nd.dot(x, w) * 0.5 + b) + r


@pytest.mark.parametrize(
    "function, products, followed",
    [
        (layer, 1, 1),
        (nb.grad(lambda x, w, b, r: nd.sum(layer(x, w, b, r) ** 2), argnums=1), 2, 1),
        (lambda x, w, b, r: (layer(x, w, b, r), nd.dot(x, w)), 1, 1),  # the product is a result, too
        (lambda x, w, b, r: nd.batch_dot(nd.stack(x, -x), nd.stack(w, w * 2)) * r, 1, 1),
        (lambda x, w, b, r: nd.dot(x, w)[:, ::-1] + b, 1, 0),  # other elements than the kernel has
        (lambda x, w, b, r: nd.dot(x, w) * nd.dot(x * 2, w), 2, 1),
        (lambda x, w, b, r: nd.softmax(nd.dot(x, w) + b), 1, 0),  # rows
    ],
)
def test_what_follows_a_product(gpu, function, products, followed, monkeypatch):
    """It is computed where the product's elements are."""
    monkeypatch.setattr(graph, "is_large_product", lambda m, k, n: True)
    monkeypatch.setattr(lowering, "is_large_product", lambda m, k, n: True)
    values = [np.random.default_rng(2).standard_normal(s) for s in ((6, 4), (4, 5), (5,), (6, 5))]
    found = []
    for ctx in (nb.cpu(0), gpu):
        compiled = nb.jit(function)
        y = compiled(*[nd.array(v, ctx=ctx, dtype="float64") for v in values])
        found.append([z.asnumpy() for z in (y if isinstance(y, tuple) else [y])])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)
    groups = compiled.latest.compiled.groups
    assert sum(g.how == "product" or g.product is not None for g in groups) == products
    assert compiled.report().count("goes on") == compiled.source().count("def epilogue") == followed


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_several_elements_per_thread(gpu, monkeypatch, dtype):
    """Where arrays have them at multiples of 16 bytes, in whole arrays and in rows; others one by one."""
    monkeypatch.setattr(source, "_MIN_VECTOR_ROW", 8)

    def several(x):
        y = nd.sin(x) * nd.sum(x[:2, :3]) + x[1, 2]
        return y, nd.softmax(y), nd.sum(x), nd.sum(nd.cos(x))

    for shape, packed in (((5, 48), 2), ((5, 47), 1)):
        x = np.random.default_rng(1).standard_normal(shape).astype(dtype)
        compiled = nb.jit(several)
        wanted, found = [compiled(nd.array(x, ctx=ctx, dtype=dtype)) for ctx in (nb.cpu(0), gpu)]
        for a, b in zip(wanted, found, strict=True):
            tolerance = 2e-3 if dtype == "float16" else 1e-5
            np.testing.assert_allclose(b.asnumpy(), a.asnumpy(), rtol=tolerance, atol=tolerance)
        assert compiled.source().count("packed = aligned(") >= packed


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("rows, n, packed", [((3,), 48, True), ((3,), 47, False), ((), 400, True), ((2, 3), 40, True)])
@pytest.mark.parametrize("first", [0, 1], ids=["aligned", "slice"])
@pytest.mark.parametrize("few", [16, None], ids=["chunks", "rows"])
def test_rows_of_operators(gpu, monkeypatch, rows, n, packed, dtype, first, few):
    """The same in operators, whose sizes are arguments: rows in vectors, one by one if a slice begins elsewhere."""
    monkeypatch.setattr(source, "_MIN_VECTOR_ROW", 8)
    if few:  # several blocks share a row
        monkeypatch.setattr(groups, "_CHUNK", few)
        monkeypatch.setattr(groups, "MAX_SERIAL_REDUCTION", 2)
    shape = (1 + first + 2 * bool(few), *rows, n)  # another one each time: an operator keeps its kernels
    written, assemble = [], KernelWriter.assemble
    monkeypatch.setattr(
        KernelWriter, "assemble", lambda self, *given: written.append(assemble(self, *given)) or written[-1]
    )
    values = np.random.default_rng(1).standard_normal(first + math.prod(shape)).astype(dtype)
    gains = np.linspace(0.5, 1.5, shape[-1]).astype(dtype)
    results = []
    for ctx in (nb.cpu(0), gpu):
        x = nd.array(values, ctx=ctx, dtype=dtype)[first:].reshape(shape)
        gain = nd.array(gains, ctx=ctx, dtype=dtype)
        results.append([nd.softmax(x), nd.log_softmax(x), nd.LayerNorm(x, gain, gain), nd.sum(x, axis=-1)])
    tolerance = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3}[dtype]
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(b.asnumpy(), a.asnumpy(), rtol=tolerance, atol=tolerance)
    assert any("packed = aligned(" in kernel.source for kernel in written) == packed


@pytest.mark.parametrize("few", [2, 32])
@pytest.mark.parametrize("seed", range(10))
def test_random_programs(gpu, seed, few, monkeypatch):
    """Values and derivatives of those of tests/test_jit_random_graphs.py."""
    if few == 2:
        monkeypatch.setattr(groups, "_CHUNK", 16)
        monkeypatch.setattr(groups, "_RUN", 4)
        monkeypatch.setattr(groups, "MAX_SERIAL_REDUCTION", 2)
        monkeypatch.setattr(source, "_MIN_VECTOR_ROW", 2)
    rng = np.random.default_rng(seed)
    steps = [tuple(int(rng.integers(n)) for n in (len(graphs.STEPS), 12, 12, 12)) for _ in range(6)]
    leaves = [rng.uniform(-1, 1, shape) for shape in [(2, 3), (3,), (4, 1, 3), (1,), (), (5, 6), (6, 3), (5, 4)]]
    found = []
    outside = list(graphs.OUTSIDE)
    for ctx in (nb.cpu(0), gpu):
        monkeypatch.setattr(graphs, "OUTSIDE", [x.as_in_context(ctx) for x in outside])
        compiled = nb.jit(lambda *xs: graphs.results(steps, xs))
        found.append([y.asnumpy() for y in compiled(*[nd.array(v, ctx=ctx, dtype="float64") for v in leaves])])
    for k, (a, b) in enumerate(zip(*found, strict=True)):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-9 * max(np.abs(a).max(), 1e-3), err_msg=f"result {k}")
