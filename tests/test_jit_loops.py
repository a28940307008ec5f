"""foreach, while_loop and cond in compiled functions: what they give eagerly, and its derivatives."""

import numpy as np
import pytest

import nbgrad as nb
from nbgrad import autograd, nd

RNG = np.random.default_rng(5)
ROWS, STATE, MATRIX = RNG.normal(size=(7, 3)), RNG.normal(size=3), RNG.normal(size=(3, 3)) / 2


def close(a, b):
    for x, y in zip(a, b, strict=True):
        scale = max(1.0, np.abs(x).max())
        np.testing.assert_allclose(np.asarray(y) / scale, np.asarray(x) / scale, rtol=1e-9, atol=1e-12)


def total(f, order):
    """A number that depends on derivatives of `f` of this order."""
    if not order:
        return f
    inner = total(f, order - 1)

    def outer(*args):
        parts = [nd.sum(g * g) for g in nb.grad(inner, tuple(range(len(args))))(*args)]
        return sum(parts[1:], parts[0])

    return outer


def check(f, *args, orders=2):
    """That values, and derivatives to this order, are those of eager calls, with the same random numbers."""
    check_at(f, args, orders=orders)


def check_at(f, *points, orders=2):
    """The same at several points: one program for the values, and one for the two highest orders of derivatives.

    Lower orders are in the second program, as inner derivatives.
    """
    every = tuple(range(len(points[0])))
    for function in (f, nb.value_and_grad(total(f, orders - 1), every)):
        compiled = nb.jit(function)
        for args in points:
            nb.random.seed(3)
            eager = flattened(function(*args_of(args)))
            nb.random.seed(3)
            close(eager, flattened(compiled(*args_of(args))))


def flattened(result):
    """A value, or a value and its gradients, as a list of NumPy arrays."""
    value, gradients = result if isinstance(result, tuple) else (result, ())
    return [value.asnumpy(), *(g.asnumpy() for g in gradients)]


def args_of(args):
    return [nd.array(a, dtype="float64") for a in args]


def rnn(checkpoint=None):
    def f(w, xs, h0):
        def cell(x, h):
            h = nd.tanh(nd.dot(w, h) + x)
            return h * 2, h

        hs, last = nd.contrib.foreach(cell, xs, h0, checkpoint=checkpoint)
        return nd.sum(hs**2) + nd.sum(last)

    return f


def test_recurrent_cell_to_the_third_order():
    check(rnn(), MATRIX, ROWS, STATE, orders=3)


@pytest.mark.parametrize("every", [1, 3, 7, 9])
def test_checkpoint(every):
    check(rnn(every), MATRIX, ROWS, STATE)


def loops_of(compiled):
    """What runs the loops of a compiled function."""
    return [v.__self__ for k, v in compiled.latest.compiled.globals.items() if k.startswith("run")]


def test_one_kernel_per_loop():
    f = nb.jit(rnn())
    f(MATRIX, ROWS, STATE)
    (loop,) = loops_of(f)
    assert loop.compiled.is_kernel
    assert not loop.history
    assert "def foreach(" in f.source()


def heat(u):
    def step(_, u):
        inside = u[1:-1, 1:-1]
        change = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * inside
        inside = inside + 0.1 * change + 0.01 * inside * inside
        rows = nd.concat(u[:1, 1:-1], inside, u[-1:, 1:-1], dim=0)
        return [], nd.concat(u[:, :1], rows, u[:, -1:], dim=1)

    return nd.sum(nd.contrib.foreach(step, nd.zeros(50), u)[1] ** 2)


def test_heat_equation():
    check(heat, RNG.normal(size=(9, 8)))


def test_nested_loops():
    def f(x, s):
        def outer(row, s):
            def inner(q, t):
                return q * t * s, nd.sin(t) + q * row

            out, after = nd.contrib.foreach(inner, x, s)
            return nd.sum(out * row, axis=0), after * 0.5

        out, s = nd.contrib.foreach(outer, x, s)
        return nd.sum(out**2) + nd.sum(s)

    check(f, ROWS[:3] / 3, STATE)
    for function in (nb.jit(f), nb.jit(nb.value_and_grad(f))):
        function(*args_of((ROWS, STATE)))
        assert all(loop.compiled.is_kernel for loop in loops_of(function)), "no step runs from Python"


def test_nested_loops_of_unknown_lengths():
    def f(x, s):
        def outer(s, total):
            def shrink(v, n):
                return nd.sin(v), [v * 0.6, n + 1]

            _, (v, n) = nd.contrib.while_loop(
                lambda v, n: nd.sum(v * v) > 0.2, shrink, [s * x[0], nd.zeros(1)], max_iterations=9
            )
            return v * s, [nd.concat(v[1:], s[:1], dim=0), total + nd.sum(v * v) + n.astype("float64") * 2]

        out, (s, total) = nd.contrib.while_loop(
            lambda s, total: nd.sum(total) < 20, outer, [s, nd.sum(s).reshape((1,))], max_iterations=6
        )
        return nd.sum(out * x[1]) + nd.sum(s) + nd.sum(total)

    check_at(f, (ROWS, STATE), (ROWS * 3, STATE + 2), (ROWS, STATE * 0))


def test_rows_of_one_number_and_forms():
    def f(x, y, s):
        def body(row, states):
            a, b = row
            first, (second, number) = states
            return {"a": a * first, "b": [nd.sum(b)]}, [first * 0.5 + a, (nd.sin(second) * b, number + 1)]

        out, (first, (second, number)) = nd.contrib.foreach(body, [x, y], [s[:1], (s, nd.zeros(2, dtype="int32"))])
        return nd.sum(out["a"]) + nd.sum(out["b"][0] ** 2) + nd.sum(first * second * number.astype("float64")[0])

    check(f, ROWS[:, 0], ROWS, STATE)


def test_what_a_body_reads_from_outside():
    inner = nd.array([1.0, 2.0, 3.0], dtype="float64")
    places = nd.array([2, 0, 1], dtype="int64")

    def f(x, s, w):
        def body(row, s):
            c = w.reshape((3, 2))[:, 1] * w.astype("float64")[2:5]
            return nd.take(row, places) * c, s * nd.sum(w) * 0.1 + inner + nd.zeros(3, dtype="float64")

        out, s = nd.contrib.foreach(body, x, s)
        return nd.sum(out**2) + nd.sum(s * s)

    check(f, ROWS, STATE, RNG.normal(size=6))
    compiled = nb.jit(f)
    args = args_of((ROWS, STATE, np.ones(6)))
    before = compiled(*args).item()
    inner[:] = 5
    assert compiled(*args).item() != before
    close([f(*args).asnumpy()], [compiled(*args).asnumpy()])


def test_names_bound_anew_after_the_loop():
    def f(x, h):
        k = h * 2

        def helper(z):
            return z * h + k

        def cell(row, s):
            return row, helper(s) * row

        out, h = nd.contrib.foreach(cell, x, h)
        k = h * 100
        h = nd.contrib.cond(nd.sum(h) > -1e9, lambda: h * h, lambda: h)
        return nd.sum(out**2) + nd.sum(h) + nd.sum(k)

    check(f, ROWS[:3], STATE)


def test_operators_with_kernels_of_their_own():
    def f(x, s):
        def body(row, s):
            factor = nd.linalg.potrf(nd.dot(s, s, transpose_b=True) + nd.diag(nd.exp(row)))
            return factor, nd.tanh(factor) + s * 0.1

        out, s = nd.contrib.foreach(body, x, s)
        return nd.sum(out**2) + nd.sum(s)

    check(f, ROWS[:4], MATRIX)


def test_derivatives_in_a_body():
    def f(x, s):
        def body(row, s):
            g = nb.grad(lambda z: nd.sum(nd.sin(z) * row))(s)
            return g, s - 0.1 * g

        out, s = nd.contrib.foreach(body, x, s)
        return nd.sum(out**2) + nd.sum(s)

    check(f, ROWS, STATE)


def test_random_numbers():
    def f(x, s):
        def body(row, s):
            noise = nd.random.normal(shape=3, dtype="float64")
            return row * noise, s * noise + nd.random.uniform(shape=3, dtype="float64")

        before = nd.random.normal(shape=3, dtype="float64")
        out, s = nd.contrib.foreach(body, x * before, s, checkpoint=2)
        return nd.sum(out**2) + nd.sum(s * nd.random.normal(shape=3, dtype="float64"))

    check(f, ROWS, STATE)


@pytest.mark.parametrize("every", [None, 1, 5])
def test_while_loop(every):
    """Of many iterations, of few, and of none."""

    def f(x, s):
        def func(x, s):
            return x * s, [x * 0.5 + nd.sin(s) * 0.1, s + s * x]

        loop = nd.contrib.while_loop
        out, (x, s) = loop(lambda x, s: nd.sum(x * x) > 0.05, func, [x, s], max_iterations=12, checkpoint=every)
        return nd.sum(x * s) if isinstance(out, list) else nd.sum(out**2) + nd.sum(x * s)

    check_at(f, *((scale * STATE, STATE[::-1]) for scale in (1.0, 0.3, 1e-4)), orders=2 if every else 3)


def test_while_loop_pads_with_zeros():
    @nb.jit
    def f(i):
        return nd.contrib.while_loop(lambda i: i < 3, lambda i: (i + 10, i + 1), i, max_iterations=5)

    for start, rows in ((0.0, [10.0, 11.0, 12.0, 0.0, 0.0]), (2.0, [12.0, 0, 0, 0, 0]), (7.0, [0.0] * 5)):
        out, last = f(nd.array([start]))
        assert out.reshape(-1).tolist() == rows
        assert last.item() == max(start, 3.0)


def test_cond():
    def f(x, w, shift):
        def body(row, s):
            s = nd.contrib.cond(nd.sum(s) > 0, lambda: s * 0.5 - row * w, lambda: nd.sin(s) + w)
            return s, s

        def loop():
            return nd.contrib.foreach(body, x, w)[0]

        y = nd.contrib.cond(nd.sum(x) + shift > 0, loop, lambda: x * x * nd.exp(w))
        return nd.sum(y**2)

    check_at(f, *((ROWS, STATE, np.array([shift])) for shift in (10.0, -10.0)))


def test_loops_with_branches_with_loops_are_one_kernel():
    def f(u, xs):
        def step(x, u):
            s = nd.sum(u * x)
            return u * s, nd.contrib.cond(
                s > 0,
                lambda: nd.sin(u) * x + nd.concat(u[1:], u[:1], dim=0),
                lambda: nd.contrib.foreach(lambda q, v: ([], v * 0.7 + q), xs, u)[1] * 0.1 - u * 0.5,
            )

        out, u = nd.contrib.foreach(step, xs, u)
        return nd.sum(out**2) + nd.sum(u)

    check_at(f, (STATE, ROWS), (-STATE, ROWS * 0.5))
    compiled = nb.jit(nb.value_and_grad(f))
    compiled(*args_of((STATE, ROWS)))
    assert all(loop.compiled.is_kernel for loop in loops_of(compiled))


def test_cond_runs_one_branch_and_reads_what_it_asks_at_every_call():
    flag = nd.array([1.0])

    @nb.jit
    def f(x):
        a, b = nd.contrib.cond(flag, lambda: (x, x[0] * 2), lambda: [x * 2, nd.log(x[1])])
        return a + b

    x = nd.array([1.0, 4.0])
    assert f(x).tolist() == [3.0, 6.0]
    flag[:] = 0
    assert f(x).tolist() == pytest.approx([2 + np.log(4), 8 + np.log(4)])
    assert nb.jit(lambda x: nd.contrib.cond(True, lambda: x, lambda: "not called"))(x).tolist() == [1.0, 4.0]


def test_on_the_tape_outside():
    weight = nd.array(MATRIX, dtype="float64")
    found = []
    for wrap in (lambda f: f, nb.jit):
        f = wrap(lambda xs, h: rnn()(weight, xs, h))
        xs, h = args_of((ROWS, STATE))
        for a in (weight, xs, h):
            a.attach_grad()
        with autograd.record():
            y = f(xs * 2, h)
        y.backward()
        found.append([a.grad.asnumpy() for a in (weight, xs, h)])
    close(*found)


def test_compiled_body_of_an_eager_loop():
    step = nb.jit(lambda x, h: (nd.tanh(h) * x, nd.sin(h) + x))
    found = []
    for body in (step, step.function):
        xs, h = args_of((ROWS, STATE))
        xs.attach_grad()
        with autograd.record():
            out, last = nd.contrib.foreach(body, xs, h)
            loss = nd.sum(out) + nd.sum(last)
        loss.backward()
        found.append([out.asnumpy(), last.asnumpy(), xs.grad.asnumpy()])
    close(*found)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_other_dtypes(dtype):
    def f(x, s):
        return nd.contrib.foreach(lambda row, s: (row * s, s + row), x, s)

    args = nd.array(RNG.integers(0, 4, (5, 3)), dtype=dtype), nd.array([1, 2, 3], dtype=dtype)
    for eager, compiled in zip(f(*args), nb.jit(f)(*args), strict=True):
        assert compiled.dtype == eager.dtype
        assert compiled.tolist() == eager.tolist()


def test_errors():
    x, s = args_of((ROWS, STATE))

    def loop(body):
        return nb.jit(lambda x, s: nd.contrib.foreach(body, x, s))(x, s)

    with pytest.raises(nb.NBGradError, match=r"foreach: state is float64 of shape \(1,\) after a step"):
        loop(lambda row, s: (row, s[:1]))
    with pytest.raises(nb.NBGradError, match="foreach: state is float32 of shape"):
        loop(lambda row, s: (row, s.astype("float32")))
    with pytest.raises(nb.NBGradError, match="asks for the numbers in an array"):
        loop(lambda row, s: (row, s * float(s[0])))
    kept = []

    def leaks(row, s):
        kept.append(row)
        return row, s

    def leaking(x, s):
        nd.contrib.foreach(leaks, x, s)
        return kept[-1] * 2

    with pytest.raises(nb.NBGradError, match="used after the trace"):
        nb.jit(leaking)(x, s)
    with pytest.raises(nb.NBGradError, match="used after the trace"):
        nb.jit(lambda x, s: nd.contrib.foreach(lambda row, s: (row * kept[0], s), x, s))(x, s)
    with pytest.raises(nb.NBGradError, match="from else_func and float64 of shape"):
        nb.jit(lambda x: nd.contrib.cond(x[0] > 0, lambda: x, lambda: x[1:]))(s)
    with pytest.raises(nb.NBGradError, match="must be one number"):
        nb.jit(lambda x: nd.contrib.cond(x > 0, lambda: x, lambda: x))(s)


def test_copies_of_what_is_outside_and_checkpoints():
    def f(x, s):
        def body(row, s):
            noise = nd.random.normal(shape=3, dtype="float64")
            return row * x.copy()[0] * noise, s + x.astype("float64").detach()[1] * nd.zeros_like(x)[0]

        def whole(x, s):
            out, s = nd.contrib.foreach(body, x, s)
            return nd.sum(out**2) * nd.sum(s)

        return autograd.checkpoint(whole)(x, s)

    check(f, ROWS, STATE)


NORMALIZED = {
    "foreach": lambda norm, x: nd.contrib.foreach(
        lambda row, s: (norm(row), s + nd.sum(norm(row * row))), x, nd.zeros(1)
    ),
    "checkpoint": lambda norm, x: nd.contrib.foreach(lambda row, s: (norm(row), s), x, x[0], checkpoint=2),
    "nested": lambda norm, x: nd.contrib.foreach(
        lambda row, s: (nd.contrib.foreach(lambda r, t: (norm(r * x[0]), t), x, s)[0], norm(s)), x, x[1]
    ),
    "while_loop": lambda norm, x: nd.contrib.while_loop(
        lambda s: nd.sum(s) < 30, lambda s: (norm(s), s + nd.abs(x[0])), nd.abs(x[0]), max_iterations=4
    ),
    "cond": lambda norm, x: nd.contrib.cond(nd.sum(x) > 0, lambda: norm(x[0]), lambda: x[1]),
    "not taken": lambda norm, x: nd.contrib.cond(nd.sum(x) < -99, lambda: norm(x[0]), lambda: norm(norm(x[1]))),
    "twice": lambda norm, x: norm(norm(x[0]) * x[1]),
}  # fmt: skip


#: As arrays from outside, or as arguments; which of these is settled outside of the outermost loop.
STATISTICS = [(name, given) for name in NORMALIZED for given in (False, True) if name != "nested" or not given]


@pytest.mark.parametrize(("name", "given"), STATISTICS)
def test_running_statistics(name, given):
    """They move as often as eagerly, in loops and branches, forward alone."""
    x = nd.array(np.random.default_rng(1).standard_normal((3, 4, 2)) + 0.3, dtype="float32")

    def results(x, mean, variance):
        def norm(x):
            return nd.BatchNorm(x, nd.ones(2), nd.zeros(2), mean, variance, momentum=0.8)

        def loss(x):
            found = NORMALIZED[name](norm, x)
            y = found[0] if isinstance(found, tuple) else found
            return nd.sum(nd.sin(y) * nd.cos(y * y)), mean * 1

        return nb.value_and_grad(loss, has_aux=True)(x)

    found = []
    for compiled in (False, True):
        mean, variance = nd.zeros(2), nd.ones(2)
        f = results if given else lambda x, m=mean, v=variance: results(x, m, v)
        f = nb.jit(f) if compiled else f
        with autograd.train_mode():
            for _ in range(2):
                (value, seen), slope = f(x, mean, variance) if given else f(x)
        found.append([value, seen, slope, mean, variance])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(np.asarray(b), np.asarray(a), rtol=2e-4, atol=2e-5)
