"""The memory of compiled programs: who shares it, how much there is, and that nobody sees what others wrote."""

from __future__ import annotations

import numpy as np

import nbgrad as nb
from nbgrad import nd
from nbgrad.backends.numba.compile import generate
from nbgrad.backends.numba.pipelines import NO_REALIGN_STACK
from nbgrad.compiler import schedule
from nbgrad.compiler.memory_plan import SharedBuffers
from nbgrad.core.dtypes import float32, float64


def _long_rows(x):
    """More than fifty statements: a kernel for each loop at the top; the first one needs the most memory to work in."""
    y = nd.softmax(nd.sin(x) * 2, axis=1)
    for k in range(60):
        y = y / nd.sum(y * y + 0.1 * k)
    z = nd.reshape(nd.slice_axis(y, axis=1, begin=0, end=8), (-1, 8))
    return nd.sum(nd.softmax(z, axis=1) ** 2) + nd.sum(y)


def _bytes(compiled):
    return sum(dtype.storage.itemsize * n for name, (dtype, n) in compiled.buffers.items() if name[0] != "o")


def test_values_share_an_array_if_one_ends_before_the_other_begins():
    slots = SharedBuffers("t")
    assert slots.allocate_for(float64, 10, 0, 1) == "t0"
    assert slots.allocate_for(float64, 10, 1, 2) == "t1"  # both are there at 1
    assert slots.allocate_for(float64, 8, 2, 3) == "t0"
    assert slots.allocate_for(float32, 8, 4, 4) == "t2"
    assert slots.allocate_for(float64, 20, 4, 4) == "t0"  # grows: the larger one of two that are free
    assert slots.allocate_for(float64, 5, 4, 4, exact=True) == "t3"
    assert slots.allocate_for(float64, 6, 5, 5) == "t1"
    assert slots.allocate_for(float64, 30, 5, 5) == "t0"
    assert slots.allocate_for(float64, 30, 5, 5) == "t4"  # what must be exact does not grow
    assert slots.allocate_for(float64, 5, 6, 6, exact=True) == "t3"
    assert {name: n for name, (_, n) in slots.arrays.items()} == {"t0": 30, "t1": 10, "t2": 8, "t3": 5, "t4": 30}


def test_a_kernel_of_several_has_as_much_memory_as_it_needs():
    x = np.random.default_rng(0).standard_normal((40, 500))
    call = nb.jit(nb.value_and_grad(_long_rows))
    value, gradient = call(x)
    expected, slope = nb.value_and_grad(_long_rows)(x)
    np.testing.assert_allclose(value, expected, 1e-12)
    np.testing.assert_allclose(gradient, slope, 1e-9, 1e-12)
    assert len(call.latest.compiled.sources) > 3


def test_work_of_a_small_program_is_on_the_stack():
    def rows(x, w):
        return nd.sum(nd.softmax(nd.dot(nd.tanh(nd.dot(x, w)), w, transpose_b=True), axis=1) ** 2)

    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((16, 20)), rng.standard_normal((20, 24))
    call = nb.jit(nb.value_and_grad(rows))
    np.testing.assert_allclose(call(x, w)[1], nb.value_and_grad(rows)(x, w)[1], 1e-10, 1e-14)
    compiled = call.latest.compiled
    assert set(compiled.buffers) == {"out0", "out1"}
    assert compiled.sources[0].stack > 0
    assert "temporaries 0 bytes" in call.report()


def test_steps_of_one_size_share_two_arrays():
    def far(x):
        for _ in range(30):
            x = nd.sort(x * 2) - nd.mean(x)
        return x

    x = np.random.default_rng(0).standard_normal(3000)
    call = nb.jit(far)
    np.testing.assert_allclose(call(x), far(nd.array(x, dtype="float64")).asnumpy(), 1e-10, 1e-12)
    assert _bytes(call.latest.compiled) <= 4 * 3000 * 8


def test_results_are_never_written_again():
    def far(x):
        found = []
        for _ in range(4):
            x = nd.sort(x * 2) - nd.mean(x)
            found.append(x)
        return found

    x = np.random.default_rng(0).standard_normal(300)
    call = nb.jit(far)
    first = call(x)
    kept = [y.copy() for y in first]
    call(x + 1)
    for y, z, expected in zip(first, kept, far(nd.array(x, dtype="float64")), strict=True):
        np.testing.assert_array_equal(y, z)
        np.testing.assert_allclose(y, expected.asnumpy(), 1e-12, 1e-13)


def test_a_program_in_pieces_becomes_a_nopython_function_with_all_its_steps():
    x = np.random.default_rng(0).standard_normal((4, 9))
    call = nb.jit(nb.value_and_grad(_long_rows))
    expected = call(x)
    value, gradient = call.njit(x)(x)
    np.testing.assert_array_equal(value, expected[0])
    np.testing.assert_array_equal(gradient, expected[1])


def test_arrays_of_another_byte_order_are_converted():
    double = nb.jit(lambda x: x * 2)
    for x in (np.arange(4.0), np.arange(6.0).reshape(2, 3), np.array(3.0)):
        np.testing.assert_array_equal(double(x.astype(">f8")), 2 * x)
        np.testing.assert_array_equal(double(x), 2 * x)
        np.testing.assert_array_equal(double(np.asfortranarray(x)), 2 * x)


def test_kernels_that_call_functions_of_vectors_leave_their_stack_where_it_is():
    kind = np.dtype("float64")
    for function, moved in ((nd.tanh, 1), (nd.sin, 0)):
        call = nb.jit(lambda x, function=function: nd.softmax(function(x), axis=1))
        x = np.random.default_rng(0).standard_normal((20, 30))
        e = np.exp(np.tanh(x) if moved else np.sin(x))
        np.testing.assert_allclose(call(x), e / e.sum(1, keepdims=True), 1e-13)
        (source,) = call.latest.compiled.sources
        assert f"s0 = local(np.float64, 30, {moved})" in source.text
        kernel = generate("lambda_", source.text, source.helpers, apart=True)
        assert (NO_REALIGN_STACK not in kernel.llvm(kind, kind)) == bool(moved)
    assert NO_REALIGN_STACK in generate("f", "def f(x):\n    x[0] = 1\n", {}).llvm(kind)


def _long_chain(x):
    """One loop of 400 statements with its gradient; periods of three operators."""
    y = x
    for k in range(60):
        y = nd.sin(y) * 0.5 + x if k % 3 else y * x - 0.1 * y
    return nd.sum(y)


def test_a_long_loop_is_compiled_in_pieces_and_equal_pieces_once(monkeypatch):
    monkeypatch.setattr(schedule, "_WHOLE", 200)
    monkeypatch.setattr(schedule, "_PIECE", 16)
    x = np.linspace(0.1, 1.0, 50)
    call = nb.jit(nb.value_and_grad(_long_chain))
    value, gradient = call(x)
    expected, slope = nb.value_and_grad(_long_chain)(x)
    np.testing.assert_allclose(value, expected, 1e-12)
    np.testing.assert_allclose(gradient, slope, 1e-12)
    compiled = call.latest.compiled
    assert len(compiled.sources) <= 15 < len(compiled.calls)
    assert max(text.count("\n") for text in compiled.code) < 50


def test_other_loops_stay_whole(monkeypatch):
    """Pieces of the loop over 20,000 numbers would pass on arrays of these."""
    monkeypatch.setattr(schedule, "_WHOLE", 100)
    monkeypatch.setattr(schedule, "_PIECE", 16)

    def both(x, y):
        z = y
        for k in range(15):
            z = nd.sin(z) * y + 0.1 * k
        return _long_chain(x) + nd.sum(z)

    call = nb.jit(both)
    x, y = nd.array(np.linspace(0.1, 1.0, 50)), nd.array(np.linspace(0.1, 1.0, 20_000))
    np.testing.assert_allclose(call(x, y).asnumpy(), both(x, y).asnumpy(), 1e-5)
    compiled = call.latest.compiled
    assert len(compiled.sources) > 4
    assert all(n < y.size for _, n in compiled.buffers.values())


def test_a_long_loop_stays_whole_where_pieces_would_pass_on_much(monkeypatch):
    monkeypatch.setattr(schedule, "_WHOLE", 200)
    monkeypatch.setattr(schedule, "_PASSED_ON", 10_000)  # 400 values of 50 numbers are more
    call = nb.jit(nb.value_and_grad(_long_chain))
    call(np.linspace(0.1, 1.0, 50))
    assert len(call.latest.compiled.sources) == 1
    assert _bytes(call.latest.compiled) == 0


def _layers(count):
    def loss(w, x):
        for _ in range(count):
            scores = nd.softmax(nd.batch_dot(x, x, transpose_b=True), axis=-1)
            x = x + nd.tanh(nd.dot(nd.batch_dot(scores, x), w))
        return nd.sum(x * x)

    return loss


def test_equal_layers_share_kernels():
    """Whatever their number: what follows the third of them is equal to what is there."""
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((8, 8)), rng.standard_normal((2, 12, 8))
    found = []
    for count in (4, 6):
        call = nb.jit(nb.value_and_grad(_layers(count)))
        value, slope = call(w, x)
        expected, gradient = nb.value_and_grad(_layers(count))(w, x)
        np.testing.assert_allclose(value, expected, 1e-12)
        np.testing.assert_allclose(slope, gradient, 1e-9)
        found.append(call.latest.compiled)
    assert len(found[1].sources) == len(found[0].sources) < len(found[0].calls) < len(found[1].calls)


def _bodies(q, v):
    def step(_, state):
        q, v = state
        apart = nd.expand_dims(q, axis=1) - nd.expand_dims(q, axis=0)
        r2 = nd.sum(apart * apart, axis=2) + 0.1
        v = v - 0.02 * nd.sum(apart * nd.expand_dims(r2**-1.5, axis=2), axis=1)
        return [], [q + 0.02 * v, v]

    q, v = nd.contrib.foreach(step, nd.zeros(5), [q, v])[1]
    return nd.sum(q * v)


def test_short_axes_are_unrolled_where_kernels_stay_short():
    rng = np.random.default_rng(0)
    q, v = rng.standard_normal((2, 4, 3))

    def product(q, v):
        return nb.hvp(lambda q: _bodies(q, v))(q, v)

    for function, few in ((_bodies, False), (product, True)):
        call = nb.jit(function)
        expected = function(*[nd.array(a, dtype="float64") for a in (q, v)])
        np.testing.assert_allclose(call(q, v), expected.asnumpy().reshape(np.shape(call(q, v))), 1e-9)
        longest = max(text.count("\n") for text in call.latest.compiled.code)
        assert longest < 500 and ("for i" in max(call.latest.compiled.code, key=len)) == few
