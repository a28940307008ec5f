"""Later calls with arguments of known types skip the binding of arguments: what the first call checks, they do, too."""

import math
from collections import namedtuple

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.errors import AttrError, DTypeError


def scaled(x, a):
    return x * a


def total(x, a):
    return np.sum(x * x) * a


def shifted(x, y):
    return x + y


def overwrite(x, y):
    for i in range(x.size):
        x[i] = x[i] * y[i]
    return x * 2.0


def solved(a, b):
    return np.linalg.solve(a, b)


def early(x, a, b):
    first = x[0]
    x[0] = b
    if a > 100.0:
        return b * b
    if a > 0.0:
        w = math.exp(a)
        total = 0.0
        for k in range(1, x.size):
            total += x[k] * w
        return total
    while a < 0.0:
        a += first
    return first + x[1] + x[2]


def of_pair(pair, x):
    return pair[0] * x + pair[1]


def with_mode(x, mode="twice"):
    return 2.0 * x if mode == "twice" else 3.0 * x


X = np.array([1.0, 2.0, 3.0])


def pulled(adj, *args):
    pull = adj.vjp(*args)
    return pull.value, pull(np.ones_like(pull.value))


def test_arrays_of_subclasses_have_dtypes_and_ranks():
    adj, value = nb.adjoint(scaled), nb.adjoint(total)
    for a in (X, np.ones((2, 2)), np.arange(3), np.float32(X)):
        for kind in (np.ndarray, np.memmap):
            for _ in range(3):
                y, gradients = pulled(adj, a.view(kind), 2.0)
                np.testing.assert_allclose(y, 2 * a)
                v, gradients_of_value = value.value_and_grad(a.view(kind), 2.0)
                assert v == pytest.approx(2 * np.sum(a * a)) and gradients[1] == pytest.approx(a.sum())
                if a.dtype.kind == "i":
                    assert gradients[0] is None and gradients_of_value[0] is None
                else:
                    assert type(gradients[0]) is type(gradients_of_value[0]) is np.ndarray
                    np.testing.assert_allclose(gradients[0], np.full(a.shape, 2.0))
                    np.testing.assert_allclose(gradients_of_value[0], 4 * a, rtol=1e-6)


def test_masks_are_not_lost_in_later_calls():
    adj, value = nb.adjoint(scaled), nb.adjoint(total)
    pulled(adj, X, 2.0), value.value_and_grad(X, 2.0)
    masked = np.ma.array(X, mask=[True, False, False])
    for call in (adj.vjp, value.value_and_grad):
        with pytest.raises(DTypeError, match="mask"):
            call(masked, 2.0)


def test_branches_that_leave_values_undefined():
    adj = nb.adjoint(early)
    for _ in range(3):
        for a, b in ((200.0, 3.0), (2.0, 3.0), (-2.0, 3.0)):
            x = X.copy()
            pull = adj.vjp(x, a, b)
            assert pull.value == early(X.copy(), a, b) and x[0] == b
            to_x, to_a, to_b = pull((1.0, None))
            if a == 200.0:
                expected = np.zeros(3), 0.0, b * 2
            elif a > 0.0:
                expected = np.exp(a) * np.array([0.0, 1.0, 1.0]), np.exp(a) * 5.0, 0.0
            else:
                expected = np.ones(3), 0.0, 0.0
            for found, right in zip((to_x, to_a, to_b), expected, strict=True):
                np.testing.assert_allclose(found, right)
    with pytest.raises(AttrError, match="read-only"):
        adj.vjp(np.broadcast_to(1.0, 3), 2.0, 3.0)


def test_axes_that_broadcast_in_a_later_call():
    adj = nb.adjoint(shifted)
    for y in (X, X, np.array([4.0]), X, np.array([4.0])):
        value, (to_x, to_y) = pulled(adj, X, y)
        np.testing.assert_allclose(value, X + y)
        np.testing.assert_allclose(to_x, np.ones(3))
        np.testing.assert_allclose(to_y, np.full(y.size, 3.0 / y.size))


def test_arrays_that_a_later_call_overwrites():
    adj = nb.adjoint(overwrite)
    for _ in range(3):
        x, y = X.copy(), X + 1.0
        pull = adj.vjp(x, y)
        np.testing.assert_allclose(x, X * y)
        for _ in range(2):  # the second time, it is run again
            to_x, to_y = pull((np.ones(3), None))
            np.testing.assert_allclose(to_x, 2 * y)
            np.testing.assert_allclose(to_y, 2 * X)
    with pytest.raises(AttrError, match="share memory"):
        adj.vjp(x, x)
    fixed = X.copy()
    fixed.flags.writeable = False
    with pytest.raises(AttrError, match="read-only"):
        adj.vjp(fixed, y)


def test_sizes_that_need_other_code_in_a_later_call():
    adj = nb.adjoint(solved)
    rng = np.random.default_rng(0)
    for n in (3, 3, 120, 120, 3):
        a, b = rng.normal(size=(n, n)) + n * np.eye(n), rng.normal(size=n)
        value, (_, to_b) = pulled(adj, a, b)
        np.testing.assert_allclose(value, np.linalg.solve(a, b))
        np.testing.assert_allclose(to_b, np.linalg.solve(a.T, np.ones(n)))


def test_arguments_that_are_taken_apart():
    adj, modes = nb.adjoint(of_pair), nb.adjoint(with_mode)
    for _ in range(3):
        assert pulled(adj, (2.0, 3.0), 4.0) == (11.0, ((4.0, 1.0), 2.0))
        assert pulled(modes, 1.0) == (2.0, (2.0, None)) and pulled(modes, 1.0, "thrice") == (3.0, (3.0, None))
        assert pulled(nb.adjoint(scaled), np.uint8(3), 2.0)[0] == 6.0


def test_cotangents_are_not_overwritten():
    adj, seed = nb.adjoint(scaled), np.array([1.0, -1.0, 0.5])
    for _ in range(3):
        adj.vjp(X, 2.0)(seed)
    assert seed.tolist() == [1.0, -1.0, 0.5]


Model = namedtuple("Model", "scale bias count")


def fitted(model, pair, x):
    (a, b), c = pair
    return np.sum((model.scale * x + model.bias) ** 2) * a * b[0] + c * model.count


def written(pair, a):
    x, y = pair
    for i in range(x.size):
        x[i] = x[i] * y[i]
    return np.sum(x) * a


def broadcast(pair):
    return np.sum(pair[0] * pair[1])


def chosen(options, x):
    return np.sum(x) * options[0] if options[1] == "sum" else options[0]


def equal(a, b):
    assert type(a) is type(b)
    if isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            equal(x, y)
    else:
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("argnums", [None, 0, (1,), (2, 0), (0, 1, 2)])
def test_tuples(argnums):
    adj = nb.adjoint(fitted, argnums)
    for model in (Model(2.0, 0.5, 3), Model(X, 0.5, 2), Model(np.float32(2.0), 1, 2), Model(3.0, X, True)):
        for pair in (((1.5, X), 2.0), ((1, X), 2.0), ((0.5, np.float32(X)), 1.0)):
            args = model, pair, X
            first = adj.value_and_grad(*args)
            slow = nb.adjoint(fitted, argnums).value_and_grad(*args)
            others = Model(*(2 * v if type(v) is float else v for v in model)), pair, X
            for again in (first, adj.value_and_grad(*args), adj.value_and_grad(*args[:2], x=X)):
                equal(again, slow)
            equal(adj.value_and_grad(*others), nb.adjoint(fitted, argnums).value_and_grad(*others))
            assert "fitted_adjoint" in adj.source
    assert len(adj._fast_path) == 12


def by_mode(x, w, mode, layers, scale=None):
    if mode == "square":
        x = x * x
    elif mode == "fill":
        x[0] = 2.0
    for _ in range(layers):
        parts = np.sum(x * w, axis=0 if layers == 1 else -1)
        x = np.tanh(x) + 0.1 * np.sum(parts)
    return np.sum(x) if scale is None else np.sum(x) * scale


def of_axis(m, axis, k):
    h = np.sum(m, axis=axis)
    return np.sum(h * h) * k


def broadcast_rows(a, b, pair):
    c = np.zeros(a.shape[0])
    for i in range(a.shape[0]):
        c[i] = np.sum(a[i] * b) * pair[0]
    return np.sum(a * b) + np.sum(c * pair[1])


def solved_sum(a, b, mode):
    x = np.linalg.solve(a, b)
    return np.sum(x * x) if mode == "squares" else np.sum(x)


A = np.arange(6.0).reshape(2, 3) * 0.2 + 0.1


def agrees_with_first_calls(f, calls, argnums=None):
    """Each call, in every order of two, gives what a first call gives; none prepares again what it had."""
    adj = nb.adjoint(f, argnums)
    for _ in range(2):
        for one in calls:
            for args in (one, calls[0], one):
                given, expected = (tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args) for _ in "ab")
                equal(adj.value_and_grad(*given), nb.adjoint(f, argnums).value_and_grad(*expected))
                equal(given, expected)
    return adj


@pytest.mark.parametrize("argnums", [None, 0, (1, 0)])
def test_constants(argnums):
    calls = [
        (A, A[0], "square", 1), (A, A[0], "plain", 1), (A, A[0], "square", 2), (A, A[0], "fill", 2, 3.0),
        (A, A[0], "fill", 3, np.float64(0.5)), (A[0], A[1], "square", 1), (A, A[0], "fill", 1, None),
        (np.float32(A), A[0], "square", 2, True),
    ]  # fmt: skip
    agrees_with_first_calls(by_mode, calls, argnums)
    agrees_with_first_calls(of_axis, [(A, 0, 2), (A, 1, 2), (A, 1, 3), (A, -1, 3), (A.T, 0, 2.0)], 0)


@pytest.mark.parametrize("argnums", [None, 1, (1, 0)])
def test_axes_of_length_1(argnums):
    shapes = [(2, 3), (2, 1), (1, 3), (1, 1), (4, 3), (4, 1)]
    calls = [(np.ones(s) * 0.3, b, (2.0, 0.5)) for s in shapes for b in (A[0], A[0, :1]) if s[1] in (1, b.size, 3)]
    agrees_with_first_calls(broadcast_rows, calls, argnums)


def test_systems_of_different_sizes():
    def system(n):
        return np.eye(n) * 3.0 + np.arange(n * n).reshape(n, n) / n**2, np.arange(1.0, n + 1)

    agrees_with_first_calls(solved_sum, [(*system(n), m) for n in (2, 90, 3) for m in ("squares", "sum")])


def with_defaults(x, a=1.0, n=2, mode="sum"):
    h = x * a
    for _ in range(n):
        h = np.sin(h)
    return np.sum(h * h) if mode == "squares" else np.sum(h)


def number_of_defaults(x, a=1.0, n=2):
    h = x * a
    for _ in range(n):
        h = np.sin(h)
    return np.sum(h)


@pytest.mark.parametrize("f", [with_defaults, number_of_defaults])
def test_keywords_are_not_taken_for_defaults(f):
    calls = [((X,), {"a": 2.0}), ((X,), {}), ((X,), {"n": 3}), ((X, 0.5), {}), ((X, 0.5), {"n": 1}), ((X,), {}),
             ((), {"x": X}), ((X, 0.5, 1), {}), ((X,), {"a": 3.0, "n": 1})]  # fmt: skip
    if f is with_defaults:
        calls += [((X,), {"mode": "squares"}), ((X,), {}), ((X, 1.0), {"mode": "squares"}), ((X, 1.0), {})]
    adj = nb.adjoint(f)
    for _ in range(2):
        for args, kwargs in calls:
            equal(adj.value_and_grad(*args, **kwargs), nb.adjoint(f).value_and_grad(*args, **kwargs))
            assert adj.value_and_grad(*args, **kwargs)[0] == pytest.approx(f(*args, **kwargs))


def test_constants_that_never_come_again_are_forgotten():
    adj = nb.adjoint(of_axis)
    for k in range(3):
        adj.value_and_grad(A, k % 2, k)
    (paths,) = adj._detailed_paths.values()
    for k in range(250):
        paths.put((A, k, 1), paths.get((A, 0, 1)))
    assert len(paths._entries) <= 100
    equal(adj.value_and_grad(A, 1, 5), nb.adjoint(of_axis).value_and_grad(A, 1, 5))


def test_later_calls_find_their_code_at_once(monkeypatch):
    calls = [(by_mode, (A, A[0], "square", 2)), (of_axis, (A, 1, 2)), (broadcast_rows, (A[:, :1], A[0], (2.0, 0.5))),
             (solved_sum, (np.eye(3), A[0], "squares"))]  # fmt: skip
    for f, args in calls:
        adj = nb.adjoint(f)
        first = adj.value_and_grad(*args)
        monkeypatch.setattr(adj, "_bound_arguments", None)  # what other calls need
        equal(adj.value_and_grad(*args), first)


def test_arrays_in_tuples_are_written_and_checked():
    adj = nb.adjoint(written)
    for _ in range(3):
        x = X.copy()
        value, ((gx, gy), ga) = adj.value_and_grad((x, X), 2.0)
        np.testing.assert_array_equal(x, X * X)
        assert value == 2 * np.sum(x) and ga == np.sum(x)
        np.testing.assert_array_equal(gx, 2 * X)
        np.testing.assert_array_equal(gy, 2 * X)
        for wrong in ((x, x), (x[:2], x[1:])):
            before = x.copy()
            with pytest.raises(AttrError, match="share memory"):
                adj.value_and_grad(wrong, 2.0)
            np.testing.assert_array_equal(x, before)


def test_axes_of_arrays_in_tuples_that_broadcast_in_a_later_call():
    adj = nb.adjoint(broadcast)
    for one in (np.ones((2, 3)), np.ones((1, 3)), np.ones((2, 1)), np.ones((2, 3))):
        for _ in range(2):
            value, ((a, b),) = adj.value_and_grad((one, np.full((2, 3), 2.0)))
            assert value == 12.0 and a.shape == one.shape and a.sum() == 12.0 and b.sum() == 6.0


def test_strings_in_tuples_decide_in_each_call():
    adj = nb.adjoint(chosen)
    for _ in range(2):
        assert adj.value_and_grad((2.0, "sum"), X)[0] == 12.0
        assert adj.value_and_grad((2.0, "first"), X)[0] == 2.0
