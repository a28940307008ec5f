"""Arrays that are swapped and returned, and returns of different arrays."""

import numpy as np
import pytest
from loop_programs import agrees, copies, there, uncompiled
from random_loops import function
from test_adjoint_checkpoint import same

import nbgrad as nb
from nbgrad import nd
from nbgrad.errors import TraceError

U, V = np.linspace(0.3, 0.9, 5), np.linspace(0.8, 0.4, 5)


def diffusion(u, c, n):
    new = u.copy()
    for _ in range(n):
        for i in range(1, u.size - 1):
            new[i] = u[i] + c * (u[i - 1] - 2 * u[i] + u[i + 1]) * u[i]
        u, new = new, u
    return u


def both(u, c, n):
    new = np.zeros(u.size)
    for _ in range(n):
        for i in range(u.size):
            new[i] = u[i] * c + u[i - 1] ** 2
        u, new = new, u
        if u[0] > 0.5:
            return u, new
    return u, new


def leapfrog(u, v, n):
    w = np.zeros_like(u)
    for t in range(n):
        for i in range(u.size):
            w[i] = 2 * v[i] - 0.9 * u[i] + np.sin(u[i - 1])
        if t == 4:
            return v, 0.5 * w
        if t == 1:
            w, v = v, w
        u, v, w = v, w, u
    return w, v


def moving(u, v, n):
    for _ in range(n):
        for i in range(u.size):
            v[i] = u[i] * u[i]
        u, v = v, u


def called(u, c, n):
    w = diffusion(u, c, n)
    return np.sum(w * u)


@pytest.mark.parametrize("f", [diffusion, both, called])
def test_one_array_of_the_callers(f):
    for n in range(4):
        with uncompiled():
            adj = agrees(f, (U, 0.3, n))
            if f is not both:
                same(f, (U, 0.3, n), (1, 2))
    assert "u_tape_top" not in adj.source  # lengths are known


@pytest.mark.parametrize("f", [leapfrog, moving])
def test_several(f):
    for n in range(7):
        with uncompiled():
            agrees(f, (U, V, n))
    with uncompiled():
        same(moving, (U, V, 3), (1, 2))


def test_compiled_and_twice():
    adj = agrees(diffusion, (U, 0.3, 3))
    assert adj.vjp(U.copy(), 0.3, 3).outputs == ("u1", "u")
    weights, along = (V, None), (V, 0.5, None)

    def gradient(h):
        return adj.vjp(U + h * V, 0.3 + h * 0.5, 3)(weights)

    products = adj.hvp((U, 0.3, 3), along, weights)
    for found, up, down in zip(*map(there, (products, gradient(1e-6), gradient(-1e-6))), strict=True):
        np.testing.assert_allclose(found, (up - down) / 2e-6, rtol=1e-6, atol=1e-8)
    here = copies((U, 0.3, 3))
    operation = nb.primitive(diffusion)
    slope = nb.grad(lambda u, c: nd.sum(operation(u, c, 3)[0] ** 2), 1)(U, 0.3)
    value = diffusion(*here)
    assert slope == pytest.approx(adj.vjp(U.copy(), 0.3, 3)((2 * value, None))[1])


def early(x, a):
    if a < 0:
        return np.zeros_like(x), a
    for i in range(x.size):
        if x[i] > a:
            return x * a, x[i]
    y = x**2
    y[0] *= a
    return y, 1.0


def chosen(x, y, a):
    if a > 0.5:
        return x
    return y


def curve(x, a):
    if a > 0.5:
        y = x * a
        return y
    return np.zeros(x.size) + a


def of_curve(x, a):
    return np.sum(curve(x, a) * x)


def either(x, a):
    if a > 0.5:
        return x
    y = x * 2
    return y


def of_either(x, a):
    return np.sum(either(x, a))


def test_returns_of_different_arrays():
    with uncompiled():
        for a in (-0.1, 0.35, 3.0):
            agrees(early, (U, a))
        for a in (0.3, 0.7):
            agrees(chosen, (U, V, a))
            agrees(of_curve, (U, a))
            agrees(of_either, (U, a))
            agrees(chosen, (U, V[1:], a))

    def outer(x, y, a):
        return np.sum(chosen(x, y, a) * x)

    with uncompiled():
        for a in (0.3, 0.7):
            agrees(outer, (U, V, a))


@pytest.mark.parametrize("written", ["x", "y", "z"])
def test_which_of_the_callers_arrays_is_returned_matters_where_one_is_written(written):
    f = function(
        "def chosen(x, y, a):\n    if a > 0.5:\n        return x\n    return y\n\n"
        "def f(x, y, a):\n    x = x * 1\n    y = y * 1\n    z = chosen(x, y, a)\n"
        f"    {written}[0] = 9.0\n    return np.sum(x + 2 * y + 3 * z)\n"
    )
    with pytest.raises(TraceError, match="let it return a copy"):
        nb.adjoint(f).value_and_grad(U, V, 0.3)


def drawdown(r, start):
    out = np.empty_like(r)
    c = 1.0
    for i in range(r.shape[0]):
        c *= r[i] + 1
        out[i] = c
    if start == 0.0:
        return out - 1.0
    return out * start


def rolling(x, width, start):
    """Windows of several lengths, of a function with several returns."""
    out = np.zeros(x.size)
    for i in range(x.size):
        if i + 1 >= width:
            y = x[max(i - i % 2 - width, 0) : i + 1]
            out[i] = np.min(drawdown(y, start * (i - 3)))
    return out


def lengths(x, a):
    if a > 1.0:
        return x[1:] * a
    if a > 0.5:
        return np.ones(1) * a
    return np.append(x, a) ** 2


def of_lengths(x, a):
    total = 0.0
    for i in range(x.size):
        y = lengths(x[i:], a + x[i])
        total += np.sum(y) * (y[0] if y.size else a)
    return total


def in_tuples(x, a):
    if x[0] > a:
        return a, x[:, None] * x
    return x[1], np.zeros((2, 3)) + a


def of_tuples(x, a):
    total = 0.0
    for i in range(x.size):
        b, z = in_tuples(x[: i + 2] * x[i], a)
        total += b * np.sum(z**2) + z[0, -1]
    return total


def gathered(x, a):
    for i in range(x.size):
        if x[i] > a:
            return x[x > a] * a
    return x * 1.0


def of_gathered(x, a):
    total = 0.0
    for i in range(x.size):
        total += np.sum(gathered(x, a * x[i]) ** 2)
    return total


@pytest.mark.parametrize("f", [lengths, of_lengths, in_tuples, of_tuples, gathered, of_gathered])
def test_returns_of_arrays_of_several_lengths(f):
    for a in (-0.7, 0.2, 0.6, 0.8, 1.3):
        with uncompiled():
            agrees(f, (np.array([0.72, 0.33, 0.91, 0.54]), a))


def test_returns_of_windows():
    for f, args in ((rolling, (U, 2, 0.8)), (of_lengths, (V, 0.43)), (lengths, (V, 0.8)), (of_tuples, (U, 0.4))):
        agrees(f, args)


def test_returns_with_other_numbers_of_axes():
    def first(x, a):
        if a > 0.0:
            return x * a
        return x[0] * a

    with pytest.raises(TraceError, match="returns of different form in 'return x\\[0\\] \\* a'"):
        nb.adjoint(first).vjp(np.ones((2, 3)), 1.0)


def exchanged(x, a, b):
    if x[0] > a:
        return a, b
    return b + x[1], a * x[0]


def beside(x, a, b):
    if x[0] > a:
        return a, x * b
    return x[1], x + a


def of_closure(x, a, b):
    c = a * b

    def scaled(y):
        return c * y

    if x[0] > a:
        return c, b
    return scaled(b), scaled(a)


def in_one_name(x, a, b):
    t = (a * b, b - a)
    if x[0] > a:
        return t
    return t[1], t[0]


@pytest.mark.parametrize("f", [exchanged, beside, of_closure, in_one_name])
def test_items_that_another_return_gives_a_name(f):
    """A result may have the name of a variable of one return, which another one reads beside it."""
    for a in (0.1, 0.5):
        with uncompiled():
            agrees(f, (U, a, 0.6))


@pytest.mark.parametrize("shape", [(4, 2), (3, 1), (2, 3)])
def test_compiled_code_refuses_a_cotangent_of_another_shape(shape):
    def doubled(x):
        y = np.zeros((x.size, 2))
        for i in range(x.size):
            y[i, 0] = 2.0 * x[i]
        return y

    x, x_bar = np.arange(3.0), np.zeros(3)
    compiled = nb.adjoint(doubled).compiled(x)
    with pytest.raises(ValueError, match="y_bar_given must have the shape of y"):
        compiled(x, np.ones(shape), x_bar)
    assert not x_bar.any()
    compiled(x, np.ones((3, 2)), x_bar)
    assert (x_bar == 2.0).all()


def by_turns(x, w):
    """The lengths differ from iteration to iteration, and so does the return that is taken."""
    s = 0.0
    for i in range(x.size):
        c = drawdown(x[max(i + 1 - w, 0) : i + 1], x[i] * (i % 2))
        s += np.sum(c * c) * c.size
    return s


def either_part(x, k):
    if x[0] > 0.5 or k % 2 == 0:
        return x[:k] * 2.0
    return x[k:] * x[0]


def lengths_that_differ(x, w):
    s = 0.0
    for i in range(1, x.size):
        p = either_part(x, i)
        s += np.sum(p * p) * p.size + w
    return s


def selected_or_not(x, k):
    if k % 2:
        return x[x > 0.4] * 2.0
    return x[:k] * x[0]


def lengths_that_values_tell(x, w):
    s = 0.0
    for i in range(1, x.size):
        p = selected_or_not(x, i)
        for j in range(p.size):
            s += p[j] * p[j] * p.size * w
    return s


def of_either_array(x, y, k):
    if k % 2:
        return x[:k] * 2.0
    return y[: 2 * k] * x[0]


def a_longer_array_second(x, w):
    y = np.zeros(3 * x.size)
    for i in range(y.size):
        y[i] = x[i % x.size] * i
    s = 0.0
    for i in range(1, x.size):
        p = of_either_array(x, y, i)
        s += np.sum(p * p) * p.size * w
    return s


def grown_or_not(x, k):
    if k % 2:
        return x[:k] * 2.0
    items = []
    for i in range(x.size):
        for _ in range(i):
            items.append(x[i] * k)
    return np.array(items)


def longer_than_any_argument(x, w):
    s = 0.0
    for i in range(1, x.size):
        p = grown_or_not(x, i)
        s += np.sum(p * p) * p.size * w
    return s


@pytest.mark.parametrize(
    "f",
    [
        by_turns,
        lengths_that_differ,
        lengths_that_values_tell,
        a_longer_array_second,
        longer_than_any_argument,
    ],
    ids=lambda f: f.__name__,
)
def test_arrays_of_several_returns_in_a_loop_have_their_own_lengths(f):
    with uncompiled():
        for w in (1, 3, 5):
            agrees(f, (np.linspace(0.1, 0.8, 7), w))


def normalized(u, n):
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(u[i]))
    for i in range(n):
        u[i] /= largest
    return u, np.log(largest)


def beside_new(u):
    u[0] += u[1] ** 2
    return u, u * 2


def written_and_returned(x):
    u, total = np.zeros(x.size), 0.0
    for k in range(3):
        for i in range(u.size):
            u[i] += x[i] * k + 1
        u, _ = normalized(u, u.size)
        (u, scale), twice_k = normalized(u, 3), 2 * k
        total += scale * twice_k * u[k]
    return np.sum(u**2) * total


def a_written_parameter(x):
    total = 1.0
    for k in range(3):
        x, scale = normalized(x, x.size)
        total += scale * x[k]
        x[0] += 1.0
    return np.sum(x**3) * total


def a_new_array_beside(x):
    u, v = x * 2, x + 1
    for _ in range(2):
        u, v = beside_new(u)
    return np.sum(u * v**2)


def another_name_of_an_array_that_is_set(x):
    u = x * 2
    old = u
    for k in range(x.size):
        if x[k] > 10.0:
            return np.sum(u)
    u, old = np.tanh(x), u
    return np.sum(u * old**2)


@pytest.mark.parametrize(
    "f", [written_and_returned, a_written_parameter, a_new_array_beside, another_name_of_an_array_that_is_set]
)
def test_an_array_that_a_function_writes_and_returns_keeps_its_name(f):
    with uncompiled():
        agrees(f, (U,))


def test_one_array_under_two_names():
    def into_both(x):
        u, v = x * 2, x + 1
        for _ in range(2):
            u, u = beside_new(u)
        return np.sum(u * v**2)

    def exchanged_by_a_call(x):
        u, v = x * 2, x + 1
        for _ in range(2):
            v, u = beside_new(u)
        return np.sum(u * v**2)

    for f in (into_both, exchanged_by_a_call):
        with pytest.raises(TraceError, match="arrays assigned to other names"):
            nb.adjoint(f).value_and_grad(U)
