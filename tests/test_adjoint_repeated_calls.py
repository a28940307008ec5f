"""Later calls with arguments of known types skip the binding of arguments: what the first call checks, they do, too."""

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
