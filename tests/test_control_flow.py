"""nd.contrib's foreach, while_loop and cond: what plain Python loops give, and the gradients of those."""

import weakref
from typing import NamedTuple

import numpy as np
import pytest
from recording import marked, recorded, values

import nbgrad as nb
from nbgrad import autograd, nd
from nbgrad.kernels import join
from nbgrad.testing import check_grads

foreach, while_loop, cond = nd.contrib.foreach, nd.contrib.while_loop, nd.contrib.cond
EVERY = [None, 1, 2, 3, 100]


def uniform(*shape, seed=0, low=-1.0):
    return marked(np.random.default_rng(seed).uniform(low, 1, shape))


def gradients(loss, variables, order):
    """Gradients of order 1 to `order`, of sums of squares."""
    found = []
    with autograd.record():
        y = loss()
        for _ in range(order):
            gs = autograd.grad(y, variables, create_graph=True)
            found += [g.asnumpy() for g in gs]
            y = sum((g * g).sum() for g in gs)
    return found


def same(expected, found):
    for a, b in zip(expected, found, strict=True):  # sums may be added in another order
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-13 * np.abs(a).max())


def unrolled(body, data, states):
    """foreach of one data array, as a plain loop."""
    outs = []
    for i in range(len(data)):
        out, states = body(data[i], states)
        outs.append(out)
    return nd.stack(*outs, axis=0), states


# foreach: values and forms.


def test_sums_along_the_way():
    data = nd.array([[1, 2], [3, 4], [5, 6]])
    out, states = foreach(lambda x, s: (x + s[0], [s[0] * 2]), data, [nd.ones(2)])
    assert values(out) == [[2, 3], [5, 6], [9, 10]]
    assert isinstance(states, list)
    assert values(states[0]) == [8, 8]
    assert out._node is None


def test_forms_of_results():
    data = nd.array([[1, 2], [3, 4]])
    out, state = foreach(lambda x, s: ((x, (s, x)), s + x), data, nd.zeros(2))
    assert isinstance(out, list)
    assert isinstance(out[1], list)
    assert values(out[1][0]) == [[0, 0], [1, 2]]
    assert values(state) == [4, 6]
    assert foreach(lambda x, s: ([], s), data, [])[:] == ([], [])
    out, none = foreach(lambda x, s: (x, s), data, None)
    assert none is None
    assert values(out) == values(data)


class Pair(NamedTuple):
    first: nb.NDArray
    second: nb.NDArray


def test_several_and_nested_data_and_states():
    data = {"a": nd.array([1, 2, 3]), "rest": [nd.array([[1], [2], [3]]), nd.array([4, 5, 6], dtype="int32")]}

    def body(x, s):
        assert x["a"].shape == x["rest"][0].shape == (1,)
        assert isinstance(s, Pair)
        total = s.first + x["a"] * x["rest"][0]
        return Pair(total, x["rest"][1] * 2), Pair(total, s.second * 2)

    out, states = foreach(body, data, Pair(nd.zeros(1), nd.ones((2, 1), dtype="float64")))
    assert values(out.first) == [[1], [5], [14]]
    assert values(out.second) == [[8], [10], [12]]
    assert out.second.dtype == np.int32
    assert values(states.second) == [[8], [8]]
    assert states.second.dtype == np.float64


def test_lists_and_tuples_may_stand_for_each_other():
    _, states = foreach(lambda x, s: (x, (s[0] + x, s[1])), nd.ones((2, 1)), [nd.zeros(1), nd.ones(3)])
    assert isinstance(states, list)
    assert values(states[0]) == [2]


@pytest.mark.parametrize("shape", [(4,), (4, 1), (1, 3), (4, 0), (4, 2, 3)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "bool"])
def test_rows_are_what_indexing_gives(shape, dtype):
    data = nd.array(np.random.default_rng(0).integers(0, 2, shape), dtype=dtype)
    for every in (None, 3):
        with autograd.record():
            out, _ = foreach(lambda x, s: (x, s), data, [], checkpoint=every)
        np.testing.assert_array_equal(out.asnumpy(), np.stack([data[i].asnumpy() for i in range(len(data))]))
        assert out.dtype == data.dtype


def test_rows_are_not_copied_if_no_gradient_is_wanted():
    data = nd.ones((3, 2))
    with autograd.record():
        foreach(lambda x, s: (None, np.testing.assert_(x._cell is data._cell)), data, None)


def test_an_output_may_be_a_scalar_array():
    out, _ = foreach(lambda x, s: (x.reshape(()), s), nd.array([1, 2, 3]), [])
    assert values(out) == [1, 2, 3]
    out, _ = foreach(lambda x, s: (s, x.reshape(())), nd.array([1, 2, 3]), nd.array(0), checkpoint=2)
    assert values(out) == [0, 1, 2]


# foreach: gradients.


def cell(w, u):
    def body(x, h):
        h = nd.tanh(nd.dot(w, h) + nd.dot(u, x))
        return h * x[0], h

    return body


@pytest.mark.parametrize("every", EVERY)
def test_a_recurrent_cell_and_its_gradients_to_order_3(every):
    w, u, x, h = uniform(3, 3), uniform(3, 2, seed=1), uniform(5, 2, seed=2), uniform(3, seed=3)

    def loss(run):
        out, last = run(cell(w, u), x, h)
        return (out**2).sum() + (last**3).sum()

    expected = gradients(lambda: loss(unrolled), [w, u, x, h], 3)
    same(expected, gradients(lambda: loss(lambda *a: foreach(*a, checkpoint=every)), [w, u, x, h], 3))
    recorded(lambda: loss(lambda *a: foreach(*a, checkpoint=every))).backward()
    same(expected[:4], [v.grad.asnumpy() for v in (w, u, x, h)])


@pytest.mark.parametrize("every", [None, 2])
def test_the_operator_for_recurrent_networks_is_such_a_loop(every):
    rng = np.random.default_rng(1)
    x, h = marked(rng.normal(size=(4, 2, 3))), marked(rng.normal(size=(1, 2, 5)))
    v, w, b = (rng.normal(size=s) for s in [(5, 3), (5, 5), (10,)])
    flat = nd.array(np.concatenate([v.ravel(), w.ravel(), b]), dtype="float64")
    v, w, b = (nd.array(a, dtype="float64") for a in (v, w, b[:5] + b[5:]))

    def body(x, h):
        h = nd.tanh(nd.dot(x, v, transpose_b=True) + nd.dot(h, w, transpose_b=True) + b)
        return h, h

    expected = gradients(
        lambda: (nd.RNN(x, flat, h, state_size=5, num_layers=1, mode="rnn_tanh") ** 2).sum(), [x, h], 2
    )
    found = gradients(lambda: (foreach(body, x, h[0], checkpoint=every)[0] ** 2).sum(), [x, h], 2)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("every", [None, 2])
def test_loops_in_loops(every):
    a, x = uniform(3, seed=4), uniform(4, 3, seed=5)

    def outer(row, s):
        inner, last = foreach(lambda v, t: (v * t, nd.sin(t + v * a[:1])), row, s, checkpoint=every)
        turns, (t,) = while_loop(lambda t: t.sum() < 2, lambda t: (t * v_sum(row), [t * t + 1]), [last], 3)
        return inner.sum() + turns.sum(), last * 0.5 + t

    def v_sum(row):
        return nd.exp(row).sum()

    def loop(row, s):
        total = 0
        for k in range(len(row)):
            total = total + (row[k] * s).sum()
            s = nd.sin(s + row[k] * a[:1])
        t, done = s, 0
        while done < 3 and t.asscalar() < 2:
            total = total + (t * v_sum(row)).sum()
            t, done = t * t + 1, done + 1
        return total, s * 0.5 + t

    def loss(run, body):
        out, last = run(body, x, nd.ones(1, dtype="float64") * a[1])
        return (out * out).sum() + last.sum()

    expected = gradients(lambda: loss(unrolled, loop), [a, x], 2)
    same(expected, gradients(lambda: loss(lambda *v: foreach(*v, checkpoint=every), outer), [a, x], 2))


@pytest.mark.parametrize("every", [None, 2])
def test_some_outputs_and_states_alone_have_gradients(every):
    x, y = uniform(3, 2), nd.ones((3, 2), dtype="float64")

    def body(rows, states):
        a, b = rows
        return [a * b, b + 1, (a > 0)], [states[0] + a, states[1]]

    with autograd.record():
        (first, second, _), (total, constant) = foreach(body, [x, y], [x[0], nd.ones(2)], checkpoint=every)
        assert second._node is None
        assert constant._node is None
        later = first[1:]
    autograd.backward([later, total])
    assert values(x.grad) == [[2, 2], [2, 2], [2, 2]]
    total = recorded(lambda: foreach(body, [x, y], [x[0], nd.ones(2)], checkpoint=every)[1][0])
    total.backward()
    assert values(x.grad) == [[2, 2], [1, 1], [1, 1]]


def test_as_a_function_of_functions():
    def f(x):
        _, y = foreach(lambda v, s: (s, nd.sin(s) * v), x, nd.ones(1, dtype="float64"))
        return y.sum()

    x = np.array([0.4, 1.2, -0.7])

    def plain(x):
        s = nd.ones(1, dtype="float64")
        for k in range(3):
            s = nd.sin(s) * x[k]
        return s.sum()

    np.testing.assert_allclose(nb.hessian(f)(x), nb.hessian(plain)(x), rtol=1e-11)
    np.testing.assert_allclose(nb.jvp(f, (x,), (x,))[1], nb.jvp(plain, (x,), (x,))[1], rtol=1e-11)


def test_numerical_gradients():
    def f(x, h):
        out, last = foreach(lambda v, s: (nd.exp(v) * s, s * v), x, h, checkpoint=2)
        return nd.concat(out, last.expand_dims(0), dim=0)

    check_grads(f, [uniform(3, 2), uniform(2, seed=1)], order=2)


def record_of(y):
    """What is recorded behind an array: the size of all results."""
    stack, seen, total = [y._node], set(), 0
    while stack:
        item = stack.pop()
        if isinstance(item, list) or item in seen:
            continue
        seen.add(item)
        if hasattr(item, "parents"):
            stack += item.parents
            shapes = item.shape if isinstance(item.kind, tuple) else [item.shape]
            total += sum(int(np.prod(s)) for s in shapes)
    return total


@pytest.mark.parametrize("every", [None, 4])
def test_the_record_grows_with_the_number_of_steps(every):
    """Of second derivatives, too: no row has a gradient of the size of all rows."""

    def recorded_for(n):
        x, h = uniform(n, 3), uniform(3)
        with autograd.record():
            out, last = foreach(lambda v, s: (v * s * s, s * 0.9 + v), x, h, checkpoint=every)
            y = (out * out).sum() + last.sum()
            (g,) = autograd.grad(y, [x], create_graph=True)
        return np.array([record_of(y), record_of(g)])

    small, large = recorded_for(16), recorded_for(64)
    assert (large < 4.3 * small).all(), (small, large)


def test_no_plans_are_kept_for_loops_of_every_length():
    x = uniform(300, 1)
    recorded(lambda: foreach(lambda v, s: (v, s), x, [])[0].sum()).backward()
    kept = [plan for op in (join.concat, join.pieces) for plan in op._plans.values()]
    assert all(len(plan.avals) + len(plan.shapes) < 300 for plan in kept)


# Checkpoints.


def test_a_checkpoint_keeps_states_alone():
    x, h = uniform(12, 2), uniform(2)
    alive = []

    def body(v, s):
        t = nd.sin(v + s)
        alive.append(weakref.ref(t._buf))
        return t.sum(), nd.cos(t)

    for every, most in ((None, 12), (4, 0)):
        alive.clear()
        out, last = recorded(lambda e=every: foreach(body, x, h, checkpoint=e))
        assert sum(ref() is not None for ref in alive) == most
        (out.sum() + last.sum()).asscalar()
        autograd.backward([out, last])
        assert all(ref() is None for ref in alive)
    assert len(alive) == 24


@pytest.mark.parametrize("every", [None, 1, 3])
def test_random_numbers_and_running_statistics(every):
    x, h = uniform(5, 4, 3), uniform(4, 3)
    gamma, beta = marked(np.ones(3)), marked(np.zeros(3))

    def run(loop):
        nb.random.seed(7)
        mean, var = nd.zeros(3, dtype="float64"), nd.ones(3, dtype="float64")

        def body(v, s):
            s = nd.BatchNorm(nd.Dropout(v + s, p=0.3), gamma, beta, mean, var, fix_gamma=False)
            return s * nd.random.uniform(shape=(4, 3), dtype="float64"), s

        with autograd.record():
            out, last = loop(body, x, h)
            loss = (out**2).sum() + last[0].sum()
        loss.backward()
        return [v.asnumpy() for v in (x.grad, h.grad, gamma.grad, mean, var, nd.random.uniform(shape=2))]

    same(run(unrolled), run(lambda *args: foreach(*args, checkpoint=every)))


# while_loop.


def test_outputs_are_filled_up_with_zeros():
    def func(i, s):
        return [i + s], [i + 1, s + i]

    first = (nd.array([0], dtype="int64"), nd.array([1], dtype="int64"))
    (out,), (i, s) = while_loop(lambda i, s: i <= 5, func, first, max_iterations=10)
    assert values(out) == [[1], [2], [4], [7], [11], [16], [0], [0], [0], [0]]
    assert (out.dtype, i.item(), s.item()) == (np.int64, 6, 16)
    (out,), (i, s) = while_loop(lambda i, s: i <= 5, func, first, max_iterations=3)
    assert values(out) == [[1], [2], [4]]
    assert (i.item(), s.item()) == (3, 4)


def test_forms_of_loop_variables():
    one = nd.array([1.0])
    out, last = while_loop(lambda i: i < 3, lambda i: (i, i + 1), one, max_iterations=3)
    assert (values(out), values(last)) == ([[1], [2], [0]], [3])
    out, last = while_loop(lambda i: i < 3, lambda i: (None, i + 1), (one,), max_iterations=nd.array([3]))
    assert out == []
    assert values(last[0]) == [3]
    out, last = while_loop(lambda i: i > 3, lambda i: (i, i + 1), one, max_iterations=3)
    assert out == []
    assert last is one
    out, (i, (a, b)) = while_loop(
        lambda i, rest: True, lambda i, rest: ((i, (i, i)), [i, [rest[1], rest[0] + 1]]), [one, (one, one)], 2.0
    )
    assert values(out[1][1]) == [[1], [1]]
    assert (values(i), values(a), values(b)) == ([1], [2], [2])


@pytest.mark.parametrize("kind", [bool, int, float, np.bool_, np.array, lambda v: nd.array([v])])
def test_conditions_of_all_kinds(kind):
    _, i = while_loop(lambda i: kind(i.asscalar() < 2), lambda i: (None, i + 1), nd.zeros(1), 5)
    assert i.item() == 2
    assert cond(kind(True), lambda: 1, lambda: 2) == 1
    assert cond(kind(False), lambda: 1, lambda: 2) == 2


@pytest.mark.parametrize("every", EVERY)
def test_newton_for_a_square_root(every):
    a = marked([2.0, 3.0, 10.0])

    def func(x, step):
        new = 0.5 * (x + a / x)
        return new, [new, (new - x).abs().max()]

    with autograd.record():
        way, (x, _) = while_loop(lambda x, step: step > 1e-12, func, [a, a.max()], 20, checkpoint=every)
        g = autograd.grad(x.sum(), a, create_graph=True)
        loss = g.sum()
    loss.backward()
    root = np.sqrt(a.asnumpy())
    np.testing.assert_allclose(x.asnumpy(), root, rtol=1e-15)
    np.testing.assert_allclose(g.asnumpy(), 0.5 / root, rtol=1e-12)
    np.testing.assert_allclose(a.grad.asnumpy(), -0.25 / root**3, rtol=1e-12)
    assert way.shape == (20, 3)
    assert values(way)[-1] == [0, 0, 0]


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("limit", [4, 5, 9])
def test_gradients_through_all_outputs(limit, every):
    x = marked([0.3, 0.4])
    n = []

    def condition(x):
        n.append(1)
        return len(n) <= 100 and x.sum() < 3

    def loss_of(loop):
        out, last = loop()
        return (out**2).sum() + (last**3).sum()

    def plain():
        v, outs = x, []
        while len(outs) < limit and v.sum().asscalar() < 3:
            outs.append(v * x)
            v = nd.sinh(v) + 0.2
        return nd.stack(*outs, axis=0), v

    expected = gradients(lambda: loss_of(plain), [x], 2)
    loop = lambda: while_loop(condition, lambda v: (v * x, nd.sinh(v) + 0.2), x, limit, checkpoint=every)  # noqa: E731
    same(expected, gradients(lambda: loss_of(loop), [x], 2))


def test_the_condition_is_not_asked_after_the_last_step():
    asked = []
    for every in (None, 1, 2):
        asked.clear()
        while_loop(lambda i: asked.append(1) or True, lambda i: (None, i), nd.ones(1), 4, checkpoint=every)
        assert len(asked) == 4


# cond.


@pytest.mark.parametrize("factor", [1.0, -1.0])
def test_one_branch_runs_and_has_gradients(factor):
    x = marked([0.5, 2.0])
    calls = []

    def then():
        calls.append("then")
        return nd.sin(x) * x

    def otherwise():
        calls.append("else")
        return x**3

    found = gradients(lambda: cond(factor * x.sum() > 0, then, otherwise).sum(), [x], 2)
    assert calls == ["then" if factor > 0 else "else"]
    same(gradients(lambda: (then() if factor > 0 else otherwise()).sum(), [x], 2), found)


def test_any_result_of_a_branch():
    assert cond(nd.zeros(1), lambda: 1, lambda: (2, "three")) == (2, "three")
