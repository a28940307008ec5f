"""Functions of numba.guvectorize in loops, and given to adjoint directly."""

import math

import numpy as np
import pytest
from numba import float32, float64, guvectorize, int64, njit

import nbgrad as nb
from nbgrad.errors import TraceError

D1, D2 = float64[:], float64[:, :]


@guvectorize([(D1, float64, D1)], "(n),()->(n)")
def ewma(x, alpha, out):
    """Exponentially weighted moving averages."""
    state = x[0]
    for i in range(x.shape[0]):
        state = alpha * x[i] + (1.0 - alpha) * state
        out[i] = state


@guvectorize([(D1, int64, D1)], "(n),()->(n)")
def moving_average(x, window, out):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
        if i >= window:
            total -= x[i - window]
        out[i] = total / min(i + 1, window)


@guvectorize([(D1, D1, D1)], "(n),(k)->(n)")
def convolve_rows(x, kernel, out):
    for i in range(len(x)):
        out[i] = 0.0
        for j in range(len(kernel)):
            if i - j >= 0:
                out[i] += kernel[j] * x[i - j]


@guvectorize([(D2, D2, D2)], "(m,d),(n,d)->(m,n)")
def distances(a, b, out):
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            s = 0.0
            for k in range(a.shape[1]):
                s += (a[i, k] - b[j, k]) ** 2
            out[i, j] = math.sqrt(s)


@guvectorize([(D1, D1, D1)], "(n),(n)->()")
def inner(a, b, out):
    s = 0.0
    for i in range(a.size):
        s += a[i] * b[i]
    out[0] = s


@guvectorize([(D1, D1, D1)], "(n)->(),()")
def moments(x, mean, variance):
    mean[0] = x.mean()
    variance[0] = np.sum((x - mean[0]) ** 2) / x.size


@guvectorize([(D1, D1, D1)], "(n),()->()")
def power_mean(x, p, out):  # takes the number as an array, as older code does
    s = 0.0
    for v in x:
        s += v ** p[0]
    out[0] = (s / x.size) ** (1.0 / p[0])


@guvectorize([(D2, D1, D1)], "(m,n),(n)->(m)")
def apply(a, x, out):
    for i in range(a.shape[0]):
        out[i] = np.sum(a[i] * x)


@guvectorize([(float32[:], float32[:]), (D1, D1)], "(n)->(n)")
def softmax(x, out):
    largest = np.max(x)
    total = 0.0
    for i in range(x.size):
        out[i] = math.exp(x[i] - largest)
        total += out[i]
    for i in range(x.size):
        out[i] /= total


@guvectorize([(D1, D1, D1)], "(n),(n)->(n)", writable_args=("state",))
def drifting(state, drift, out):
    for i in range(state.size):
        state[i] += 0.1 * drift[i]
        out[i] = state[i] * state[i]


@guvectorize("(n),()->(n)")
def scaled_sines(x, w, out):
    for i in range(x.size):
        out[i] = math.sin(w * x[i])


RNG = np.random.default_rng(3)
ROWS, ROW, SHORT = RNG.normal(size=(4, 6)), RNG.normal(size=6), RNG.normal(size=3)
STACK = RNG.normal(size=(2, 4, 6))


def smoothed_loss(x, alpha, target):
    y = ewma(x, alpha)
    return np.sum((y - target) ** 2)


def averages(x, window):
    return np.sum(np.exp(moving_average(x, window)))


def several_rates(x, alphas):
    return np.sum(ewma(x, alphas) ** 3)  # (4, 6), (4,)


def filtered(x, k):
    return np.sum(np.tanh(convolve_rows(x, k)))


def filtered_in_a_loop(x, k):
    total = 0.0
    for i in range(x.shape[0]):
        y = convolve_rows(x[i], k)
        total += y[-1] * y[0]
    return total


def nearest(a, b):
    d = distances(a, b)
    return np.sum(d[:, 0]) + d[0, 1] * d[1, 2]


def projected(a, b):
    s = inner(a, b)
    return np.sum(s * s)


def of_vectors(a):
    return inner(a, a) * inner(a[1:], a[:-1])


def spread(x):
    mean, variance = moments(x)
    return np.sum(variance / (1.0 + mean * mean))


def of_powers(x, p):
    return np.sum(power_mean(x * x, p)) + power_mean(x[0] * x[0], 2.0)


def layers(a, x):
    y = x[: a.shape[2]]
    return np.sum(apply(a, y) ** 2)


def attention(x):
    return np.sum(softmax(softmax(x) * 3.0) ** 2)


def in_place(x, drift):
    state = x.copy()
    y = np.empty_like(x)
    for _ in range(3):
        drifting(state, drift, y)
    return np.sum(y) + state[0, 0]


def into_rows(x, w):
    out = np.empty((w.size, x.size))
    for k in range(w.size):
        scaled_sines(x, w[k], out[k])
    scaled_sines(x, w[0] * w[1], out=out[0])
    return np.sum(out * out)


CASES = [
    (smoothed_loss, (ROW, 0.3, ROW * 0.5)),
    (smoothed_loss, (ROWS, 0.3, ROW * 0.5)),
    (averages, (ROWS, 3)),
    (several_rates, (ROWS, np.array([0.1, 0.2, 0.5, 0.9]))),
    (several_rates, (STACK, np.array([0.1, 0.2, 0.5, 0.9]))),
    (several_rates, (ROWS[:1], np.array([0.1, 0.2, 0.5, 0.9]))),
    (filtered, (ROWS, SHORT)),
    (filtered, (ROWS[:3], RNG.normal(size=(3, 2)))),
    (filtered, (STACK, RNG.normal(size=(2, 1, 2)))),
    (filtered_in_a_loop, (ROWS, SHORT)),
    (nearest, (ROWS, RNG.normal(size=(3, 6)))),
    (projected, (ROWS, ROW)),
    (projected, (ROWS, ROWS.T.copy().reshape(4, 6))),
    (of_vectors, (ROW,)),
    (spread, (ROWS,)),
    (of_powers, (ROWS, 3.0)),
    (layers, (STACK, RNG.normal(size=6))),
    (attention, (ROWS,)),
    (in_place, (ROWS, ROW)),
    (into_rows, (ROW, SHORT)),
]


def directions_of(args):
    return [None if isinstance(a, int) else np.cos(np.arange(np.size(a))).reshape(np.shape(a))[()] for a in args]


def moved(args, directions, h):
    return tuple(a if d is None else a + h * d for a, d in zip(args, directions, strict=True))


@pytest.mark.parametrize(("f", "args"), CASES)
def test_values_and_derivatives(f, args):
    adj = nb.adjoint(f)
    value, gradients = adj.value_and_grad(*args)
    assert value == pytest.approx(f(*args), rel=1e-13)
    directions = directions_of(args)
    slope = sum(np.sum(g * d) for g, d in zip(gradients, directions, strict=True) if d is not None)
    numeric = (f(*moved(args, directions, 1e-6)) - f(*moved(args, directions, -1e-6))) / 2e-6
    assert slope == pytest.approx(numeric, rel=1e-7)
    assert nb.tangent(f).jvp(args, tuple(directions))[1] == pytest.approx(slope, rel=1e-11)
    if f in (several_rates, filtered_in_a_loop, spread, in_place):
        up, down = (adj.value_and_grad(*moved(args, directions, h))[1] for h in (1e-6, -1e-6))
        for k, product in enumerate(adj.hvp(args, tuple(directions))):
            if directions[k] is not None:
                np.testing.assert_allclose(product, (up[k] - down[k]) / 2e-6, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("g", "args"),
    [
        (ewma, (ROWS, 0.3)),
        (ewma, (ROW, 0.3)),
        (convolve_rows, (ROWS, SHORT)),
        (inner, (ROWS, ROW)),
        (moments, (ROWS,)),
        (distances, (ROWS, ROWS[:2] + 1.0)),
        (softmax, (ROW,)),
    ],
)
def test_given_directly(g, args):
    expected = g(*args)
    pull = nb.adjoint(g).vjp(*args)
    several = isinstance(expected, tuple)
    for mine, theirs in zip(pull.value if several else [pull.value], expected if several else [expected], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-13)
    weights = tuple(np.sin(np.arange(e.size) + 1.0).reshape(e.shape) for e in (expected if several else (expected,)))
    gradients = pull(weights if several else weights[0])

    def weighted(*a):
        results = g(*a)
        return sum(np.sum(w * r) for w, r in zip(weights, results if several else (results,), strict=True))

    directions = directions_of(args)
    slope = sum(np.sum(p * d) for p, d in zip(gradients, directions, strict=False))
    numeric = (weighted(*moved(args, directions, 1e-6)) - weighted(*moved(args, directions, -1e-6))) / 2e-6
    assert slope == pytest.approx(numeric, rel=1e-7)


def test_a_scalar_result_given_directly():
    value, gradients = nb.adjoint(inner).value_and_grad(ROW, ROW + 1.0)
    assert value == pytest.approx(inner(ROW, ROW + 1.0), rel=1e-14)
    np.testing.assert_allclose(gradients[0], ROW + 1.0)
    np.testing.assert_allclose(gradients[1], ROW)


def test_given_directly_with_an_array_for_the_result():
    out = np.full((3, 6), 7.0)
    x = RNG.normal(size=6)
    pull = nb.adjoint(scaled_sines).vjp(x, np.array([0.5, 1.0, 2.0]), out)
    expected = np.sin(np.array([0.5, 1.0, 2.0])[:, None] * x)
    np.testing.assert_allclose(out, expected, rtol=1e-14)
    gradients = pull(np.ones((3, 6)))
    w = np.array([0.5, 1.0, 2.0])[:, None]
    np.testing.assert_allclose(gradients[0], np.sum(w * np.cos(w * x), axis=0), rtol=1e-13)
    np.testing.assert_allclose(gradients[1], np.sum(x * np.cos(w * x), axis=1), rtol=1e-13)
    np.testing.assert_array_equal(gradients[2], 0.0)  # what the array held before


def test_integers_are_cast_as_declared():
    def f(n, a):
        return np.sum(ewma(n, a))

    numbers = np.array([4, 9, 2, 7])
    value, gradients = nb.adjoint(f).value_and_grad(numbers, 0.3)
    assert value == pytest.approx(np.sum(ewma(numbers, 0.3)), rel=1e-14)
    assert gradients[0] is None and gradients[1] != 0


def test_float32_where_it_is_declared():
    x = ROWS.astype("float32")
    pull = nb.adjoint(softmax).vjp(x)
    assert pull.value.dtype == np.float32 == softmax(x).dtype
    np.testing.assert_allclose(pull.value, softmax(x), rtol=1e-6)
    assert pull(np.ones_like(x))[0].dtype == np.float32
    assert nb.adjoint(ewma).vjp(x, 0.3).value.dtype == np.float64 == ewma(x, 0.3).dtype


def test_called_by_compiled_functions():
    @njit
    def smooth(x, alpha):
        y = np.empty_like(x)
        ewma(x, alpha, y)
        return y

    @njit
    def loss(x, alpha):
        return np.sum(smooth(smooth(x, alpha), alpha) ** 2)

    value, gradients = nb.adjoint(loss).value_and_grad(ROWS, 0.3)
    assert value == pytest.approx(loss(ROWS, 0.3), rel=1e-13)
    numeric = (loss(ROWS, 0.3 + 1e-6) - loss(ROWS, 0.3 - 1e-6)) / 2e-6
    assert gradients[1] == pytest.approx(numeric, rel=1e-7)


def test_float_and_integer_loops():
    @guvectorize([(int64[:], int64[:]), (D1, D1)], "(n)->(n)")
    def halves(x, out):
        for i in range(x.size):
            out[i] = x[i] // 2

    def f(n, x):
        return np.sum(x * halves(n)) + np.sum(halves(x))

    n, x = np.array([3, 5, 8]), np.array([1.5, 7.0, 2.2])
    assert nb.adjoint(f).value_and_grad(n, x)[0] == np.sum(x * halves(n)) + np.sum(halves(x))


def other_core_lengths(a, b):
    return np.sum(inner(a, b))


def test_core_dimensions_that_differ_are_errors():
    with pytest.raises(ValueError, match="different lengths"):
        nb.adjoint(other_core_lengths).value_and_grad(np.ones((2, 3)), np.ones(4))
    with pytest.raises(ValueError, match="different lengths"):  # core dimensions do not broadcast
        nb.adjoint(other_core_lengths).value_and_grad(np.ones((2, 3)), np.ones(1))
    with pytest.raises(ValueError, match="different lengths"):
        nb.adjoint(other_core_lengths).value_and_grad(np.ones((2, 3)), np.ones((4, 3)))


def test_outputs_do_not_broadcast():
    def f(x, w, out):
        ewma(x, w, out)
        return np.sum(out)

    with pytest.raises(ValueError, match="different lengths"):
        nb.adjoint(f).value_and_grad(np.ones((2, 3)), 0.5, np.ones((1, 3)))


def no_output(x):
    return np.sum(scaled_sines(x, 2.0))


def too_few_axes(x):
    return np.sum(distances(x, x))


def in_and_out(x):
    ewma(x, 0.5, x)
    return np.sum(x)


def wrong_output(x):
    y = np.empty(3)
    ewma(np.outer(x, x), 0.5, y)
    return np.sum(y)


def other_keywords(x):
    return np.sum(inner(x, x, axis=0))


def floats_for_integers(x):
    return np.sum(moving_average(x, 2.5))


@guvectorize([(D1, D1)], "(n)->(n)", target="parallel")
def on_threads(x, out):
    for i in range(x.size):
        out[i] = 2.0 * x[i]


def of_threads(x):
    return np.sum(on_threads(x))


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (no_output, "without declared types allocates no results.*pass an array for each output"),
        (too_few_axes, "an operand has 1 axes, and its core dimensions are"),
        (in_and_out, "x is an input and an output.*copy"),
        (wrong_output, "an output has 1 axes.*pass one with 2"),
        (other_keywords, "give it its inputs by position"),
        (floats_for_integers, "no types are declared for operands of the kinds float, float"),
        (of_threads, "on_threads has no derivative here.*target"),
    ],
)
def test_what_is_refused(f, message):
    with pytest.raises(TraceError, match=f"test_adjoint_guvectorize.py, line.*{message}"):
        nb.adjoint(f).value_and_grad(np.ones(3))


def test_the_ufunc_of_another_target_cannot_be_read():
    with pytest.raises(TraceError, match="target="):
        nb.adjoint(on_threads)


def test_kernels_show_their_own_line():
    @guvectorize("(n)->(n)")
    def common(x, out):
        out[:] = np.histogram2d(x, x)

    def f(x):
        y = np.empty_like(x)
        common(x, y)
        return np.sum(y)

    with pytest.raises(TraceError, match=r"np.histogram2d has no derivative here in 'out\[:\] = "):
        nb.adjoint(f)
