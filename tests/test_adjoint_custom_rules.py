"""Custom rules: primitives of arrays with a vjp of their own work in any function that is differentiated."""

import numba
import numpy as np
import pytest
from loop_programs import agrees, copies, twice, uncompiled
from test_adjoint_orders import second_order

import nbgrad as nb
from nbgrad.errors import TraceError


@nb.primitive
@numba.njit
def solved_by_lu(a, b):
    return np.linalg.solve(a, b)


@solved_by_lu.defvjp
@numba.njit
def solved_by_lu_vjp(g, y, a, b):
    w = np.linalg.solve(a.T.copy(), g)
    return -np.outer(w, y), w


@nb.primitive
@numba.njit
def moments(x, scale, n):
    """A scalar, the powers 1 to `n` of `x` as rows, and how many elements of `x` are positive."""
    powers = np.empty((n, x.size))
    count = 0
    for i in range(x.size):
        count += x[i] > 0
        for k in range(n):
            powers[k, i] = scale * x[i] ** (k + 1)
    return scale * np.sum(x * x), powers, count


@moments.defvjp
@numba.njit
def moments_vjp(g, y, x, scale, n):
    x_bar, scale_bar = 2 * g[0] * scale * x, g[0] * np.sum(x * x)
    for i in range(x.size):
        for k in range(n):
            x_bar[i] += g[1][k, i] * scale * (k + 1) * x[i] ** k
            scale_bar += g[1][k, i] * x[i] ** (k + 1)
    return x_bar, scale_bar


@nb.primitive
@numba.njit
def cubed(x):
    return x * x * x


@cubed.defvjp
@numba.njit
def cubed_vjp(g, y, x):
    return 3.0 * g * x * x


@nb.primitive
@numba.njit
def bare(x):
    return np.exp(x)


@bare.defvjp
@numba.njit
def bare_vjp(g, y, x):
    return (g * y,)


rng = np.random.default_rng(5)
A = rng.normal(size=(4, 4)) + 4 * np.eye(4)
B = rng.normal(size=4)


def in_an_expression(a, b, c):
    return np.sum(solved_by_lu(a, b * c) ** 2) * c + solved_by_lu(a.T, b)[1]


def in_a_time_loop(a, u, n, dt):
    s = 0.0
    for t in range(n):
        k = solved_by_lu(a, u)
        u = u + dt * k
        s += np.sum(k * k) * t
    return s + u[0]


def that_goes_on(a, u, n):
    y = solved_by_lu(a, u)
    for _ in range(n):
        y = solved_by_lu(a, y)
        y[0] *= 1.1
    return y


def of_parts(a, b, n):
    s = 0.0
    for k in range(n):
        x = solved_by_lu(a[k : k + 2, 1:3], b[k : k + 2])
        s += x[0] * b[k] + x[1]
    return s


def of_what_changes(a, b, n):
    s = 0.0
    for k in range(n):
        a[k, k] += 0.1 * b[k] ** 2
        x = solved_by_lu(a, b)
        b[k] = x[k] * s + b[k]
        s += np.sum(x)
    return s


def in_branches(a, b, n):
    total = 0.0
    for k in range(n):
        if b[k] > 0:
            x = solved_by_lu(a, b)
            total += x[k] * b[k]
        else:
            total += b[k]
        if total > 1e6:
            break
    return total


def in_a_while(a, b):
    size, k = 0.1, 0
    while size < 3.0 and k < 20:
        x = solved_by_lu(a, b)
        size += np.sum(x * x)
        b += 0.5 * x
        k += 1
    return size


def of_several(x, scale, n):
    s = 0.0
    for k in range(1, n):
        size, powers, count = moments(x, scale * k, k)
        for i in range(powers.shape[0]):
            s += size * powers[i, 0] * powers[i, -1] * count
        x[k] += 0.01 * size
    return s


def one_of_another(a, b):
    x = solved_by_lu(a, b)
    y = solved_by_lu(a, cubed(x))
    return np.sum(bare(0.1 * y)), x


def in_turns(a, b):
    """A loop over prange with a call is serial."""
    s = 0.0
    for k in numba.prange(b.size):
        x = solved_by_lu(a, b * k)
        s += x[k]
    return s


def helper(a, b, c):
    x = solved_by_lu(b=b, a=a)
    return x[0] * c


def in_a_function(a, b, c):
    solved_by_lu_result = helper(a, b, c) + c  # a name of that kind
    for k in range(3):
        solved_by_lu_result += helper(a, b * k, c)
    return solved_by_lu_result


def written_out(a, b, out):
    out[:] = solved_by_lu(a, b)
    out[1:3] += solved_by_lu(a, b)[:2]


def of_numbers_and_arrays(a, x):
    return np.sum(cubed(a)) * cubed(x)


def beside_loops(v, a):
    """An argument that a statement also reads, in a loop that is fused with the loop that computes it."""
    part, q, s = np.zeros(v.size), np.zeros(v.size), 0.0
    for _ in range(3):
        for k in range(v.size):
            part[k] = v[k] * a
        for k in range(v.size):
            q[k] = part[k] * part[k] * 0.5
        c = cubed(part)
        for k in range(v.size):
            s += q[k] * c[k]
            v[k] = v[k] + 0.1 * q[k]
    return s


PROGRAMS = {
    beside_loops: (B, 0.7),
    in_an_expression: (A, B, 1.3),
    in_a_time_loop: (A, B, 4, 0.1),
    that_goes_on: (A, B, 3),
    of_parts: (A + np.eye(4)[:, ::-1], B, 3),
    of_what_changes: (A, B, 3),
    in_branches: (A, np.array([0.3, -0.4, 0.5, 1.2]), 4),
    in_a_while: (A, B),
    of_several: (B, 0.7, 3),
    one_of_another: (A, B),
    in_turns: (A, B),
    in_a_function: (A, B, 0.8),
    written_out: (A, B, np.zeros(4)),
    of_numbers_and_arrays: (A, 0.7),
}


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_adjoint_tangent_and_differences_agree(f):
    agrees(f, PROGRAMS[f])


@pytest.mark.parametrize("f", [in_an_expression, one_of_another, written_out], ids=lambda f: f.__name__)
def test_no_turns_and_other_layouts(f):
    agrees(f, (np.asfortranarray(A), np.repeat(B, 2)[::2], *PROGRAMS[f][2:]))


@pytest.mark.parametrize("f", [in_a_time_loop, of_what_changes, that_goes_on], ids=lambda f: f.__name__)
def test_loops_without_turns(f):
    agrees(f, (*PROGRAMS[f][:2], 0, *PROGRAMS[f][3:]))


@pytest.mark.parametrize("f", [in_a_time_loop, of_what_changes, of_several], ids=lambda f: f.__name__)
def test_checkpoints(f):
    args = PROGRAMS[f]
    value, gradients = nb.adjoint(f).value_and_grad(*copies(args))
    again, others = nb.adjoint(f, checkpoint=2).value_and_grad(*copies(args))
    assert again == value
    for a, b in zip(gradients, others, strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_kept_is_reported():
    report = nb.adjoint(in_a_time_loop).report(A, B, 4, 0.1)
    assert report["solved_by_lu_kept over t"] == 4 * 2 * B.nbytes  # u, which changes, and the result, but not a


def test_the_source_is_legible():
    adj = nb.adjoint(in_an_expression)
    adj.value_and_grad(A, B, 1.3)
    assert "from nbgrad.loops.custom_rules import solved_by_lu_vjp" in adj.source
    with pytest.raises(ImportError, match="has no another: primitives are here once a function that calls them was"):
        exec("from nbgrad.loops.custom_rules import another")
    turns = nb.adjoint(in_turns)
    assert "serial: a primitive with a vjp of its own makes arrays" in turns.parallel(A, B).values()


def test_float32():
    value, (a_bar, b_bar, c_bar) = nb.adjoint(in_an_expression).value_and_grad(
        A.astype("float32"), B.astype("float32"), 1.3
    )
    exact, gradients = nb.adjoint(in_an_expression).value_and_grad(A, B, 1.3)
    assert a_bar.dtype == b_bar.dtype == np.float32
    assert value == pytest.approx(exact, rel=1e-5)
    np.testing.assert_allclose(a_bar, gradients[0], rtol=1e-4, atol=1e-5)
    assert c_bar == pytest.approx(gradients[2], rel=1e-4)


def test_the_rule_given_is_used():
    @nb.primitive
    @numba.njit
    def doubled(x):
        return 2.0 * x

    def f(x):
        return np.sum(doubled(x))

    doubled.defvjp(numba.njit(lambda g, y, x: 7.0 * g))
    np.testing.assert_array_equal(nb.adjoint(f).value_and_grad(B)[1][0], np.full(4, 7.0))
    doubled.defvjp(numba.njit(lambda g, y, x: 2.0 * g))
    np.testing.assert_array_equal(nb.adjoint(f).value_and_grad(B)[1][0], np.full(4, 2.0))


def test_none_is_zero():
    @nb.primitive
    @numba.njit
    def stopped(x, y):
        return x * y

    stopped.defvjp(numba.njit(lambda g, z, x, y: (None, g * x)))

    def f(x, y):
        return np.sum(stopped(x, y))

    _, (x_bar, y_bar) = nb.adjoint(f).value_and_grad(B, A[0])
    np.testing.assert_array_equal(x_bar, np.zeros(4))
    np.testing.assert_array_equal(y_bar, B)


def smoothed(x, turns):
    u = np.zeros_like(x)
    for t in range(turns):
        y = relaxed(x + u)
        z = y * 0.5  # made in the loop: its length is known from `infer`
        z[0] += t
        u = z * y
    return np.sum(u)


@numba.njit
def _relaxed(x):
    return np.sin(x)


relaxed = nb.primitive(_relaxed, numba.njit(lambda g, y, x: g * np.cos(x)), infer=lambda x: x)


def test_infer_tells_lengths():
    agrees(smoothed, (B, 3))
    relaxed.infer, kept = None, relaxed.infer
    relaxed.defvjp(relaxed.vjp.py_func and numba.njit(relaxed.vjp.py_func))  # so that it is examined again
    try:
        with pytest.raises(TraceError, match="whose size is not known before it"):
            nb.adjoint(smoothed).value_and_grad(B, 3)
    finally:
        relaxed.infer = kept
    wrong = nb.primitive(_relaxed, relaxed.vjp, infer=lambda x: ((3,), "float64"))

    def f(x):
        return np.sum(wrong(x))

    with pytest.raises(ValueError, match=r"f: _relaxed.* gives an array of another shape than its infer says"):
        nb.adjoint(f).value_and_grad(B)


def test_second_order():
    """The vjp is in the subset, or a primitive itself."""

    def of_cubes(x):
        y = cubed(x)
        return np.sum(y * y[0])

    twice(of_cubes, (B,))
    slope = nb.primitive(_of_cubed, numba.njit(lambda h, g_bar, g, y, x: (3.0 * h * x * x, None, 6.0 * h * g * x)))
    own = nb.primitive(cubed.forward, slope)

    def of_own(x):
        return np.sum(own(x) ** 2)

    agrees(of_own, (B,))
    twice(of_own, (B,))
    with pytest.raises(TraceError, match="a further derivative of a primitive with a vjp of its own, called in a loop"):
        nb.adjoint(nb.adjoint(in_a_time_loop)).vjp(A, B, 2, 0.1, 1.0, A, B)
    with pytest.raises(TraceError, match="give the primitive that it comes from an infer"):
        nb.adjoint(in_a_time_loop).hvp((A, B, 2, 0.1), (A, B, None, 0.3), (1.0,))


@nb.primitive
@numba.njit
def summed(x, scale):
    """Two scalars, one of them an integer, and an array."""
    return scale * np.sum(x * x), x * x * x, np.sum(x > 0.4)


@summed.defvjp
@numba.njit
def summed_vjp(g, y, x, scale):
    return 2.0 * g[0] * scale * x + 3.0 * g[1] * x * x, g[0] * np.sum(x * x)


summed.infer = lambda x, scale: (((), "float64"), x, ((), "int64"))
length = nb.primitive(numba.njit(lambda x: np.sqrt(np.sum(x * x))))


@length.defvjp
@numba.njit
def length_vjp(g, y, x):
    return g * x / y


def in_branches_of_a_while(x, a):
    total, turns, before = 0.1, 0, np.zeros_like(x)
    while total < 9.0 and turns < 5:
        size, cubes, count = summed(x, a)
        total += size * count + np.sum(before * cubes)
        before = cubes
        if size > 0.5:
            size, cubes, count = summed(cubes, size)
            x[0] = size * a
        x = 0.9 * cubes + x / length(x)
        turns += 1
    return total, x


def test_second_order_in_loops():
    """Where the sizes of results are known, adjoints store them in arrays, and are in the subset."""
    shaped = nb.primitive(solved_by_lu.forward, numba.njit(solved_by_lu_vjp.py_func), infer=lambda a, b: b)

    def steps(a, u, n, dt):
        total = 0.0
        for k in range(n):
            x = shaped(a, u * u + dt)
            for i in range(u.size):
                u[i] += x[i] * dt * k
            if x[0] > 0.0:
                u[:] = shaped(a, u)
            total += np.sum(x**3)
        return total, u

    x = np.array([0.3, 0.5, 0.7])
    with uncompiled():
        twice(steps, (A, B, 3, 0.1))
        twice(steps, (A, -B, 1, 0.1))
        second_order(steps, (A, B, 3, 0.1))
        agrees(in_branches_of_a_while, (x, 0.9))
        second_order(in_branches_of_a_while, (x, 0.9))
        plain, few = (nb.adjoint(in_branches_of_a_while, checkpoint=k).vjp(x.copy(), 0.9) for k in (None, 2))
        for found, expected in zip(few((1.0, x, None)), plain((1.0, x, None)), strict=True):
            np.testing.assert_array_equal(found, expected)
    twice(steps, (A, B, 0, 0.1))


_of_cubed = numba.njit(cubed_vjp.py_func)


def test_an_operation_of_such_a_function():
    op = nb.primitive(in_a_time_loop)
    expected = nb.adjoint(in_a_time_loop).value_and_grad(A, B, 4, 0.1)[1]
    found = nb.grad(lambda a, u: op(a, u, 4, 0.1), argnums=(0, 1))
    for gradient in (found, nb.jit(found)):
        for g, e in zip(gradient(A, B), expected[:2], strict=True):
            np.testing.assert_allclose(np.asarray(g), e, rtol=1e-12)


def test_what_is_wrong_is_told():
    def refuses(f, args, text):
        with pytest.raises(TraceError, match=text):
            nb.adjoint(f).value_and_grad(*copies(args))

    flat = nb.primitive(numba.njit(lambda x: 2 * x), numba.njit(lambda g, y, x: g[0]))

    def of_flat(x):
        return np.sum(flat(x))

    refuses(of_flat, (A,), r"does not give an array of 2 axes for argument 0 in .*; fix it")
    many = nb.primitive(numba.njit(lambda x: 2 * x), numba.njit(lambda g, y, x: (g, g)))

    def of_many(x):
        return np.sum(many(x))

    refuses(of_many, (A,), "gives 2 cotangents for 1 arguments")
    texts = nb.primitive(numba.njit(lambda x: (x, "a")), numba.njit(lambda g, y, x: g))

    def of_texts(x):
        return np.sum(texts(x)[0])

    refuses(of_texts, (A,), "something other than arrays and numbers")

    def of_a_number(x):
        return np.sum(solved_by_lu(x, x[0, 0]))

    refuses(of_a_number, (A,), "which Numba does not compile for such arguments")

    def swapped(a, u):
        for _ in range(2):
            v = solved_by_lu(a, u)
            u, v = v, u
        return np.sum(u)

    refuses(swapped, (A, B), "size is not known before it .*, or give the primitive that it comes from an infer")

    def stored(a, u):
        x, y = solved_by_lu(a, u), 1.0
        for _ in range(2):
            z = solved_by_lu(a, u)
            z[0] = y
            y += z[1]
        return x[0] * y

    refuses(stored, (A, B), "whose size is not known before it")
    short = nb.primitive(numba.njit(lambda x: 2 * x), numba.njit(lambda g, y, x: g[1:]))

    def of_short(x):
        return np.sum(short(x))

    with pytest.raises(ValueError, match=r"of_short: .* gives for argument 0 an array of another shape than it has"):
        nb.adjoint(of_short).value_and_grad(B)
