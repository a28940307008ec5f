"""Calls of NumPy's functions in loops: every argument is looked at, and arrays keep the kinds that NumPy gives them."""

import runpy

import numpy as np
import pytest

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([2.11, 0.7, -1.3, 0.4, 2.5, 0.9])
K = np.array([2, 1, 5, 3, 4, 7])
Y = np.arange(1.0, 6.0) ** 0.5


def another_dtype_is_a_copy(x, k):
    z = np.asarray(k, float)
    z[0] = 0.5
    return z[0] * x[0] + k[0]


def the_same_dtype_is_not(x, k):
    z = np.asarray(x, dtype=float)
    z[0] = k[1] * x[1]
    return z[0] * x[0]


def parts_made_contiguous_are_copies(x, k):
    c = np.ascontiguousarray(x[::2])
    c[0] = 5 * x[1]
    return c[0] * x[0]


def floats_into_new_integers(x, k):
    z = k * 2
    z[0] = x[0]
    z[1:3] = x[1:3] * 3.0
    return z[0] * x[1] + z[1] * x[2] + z[2]


def integers_first_and_floats_then(x, k):
    z = k * 2
    z[0] += 1
    w = z * 1.5
    w[0] = x[0]
    return w[0] * x[0] + w[1] * z[0]


def floats_at_places_of_new_integers(x, k):
    z = k * 2
    z[x > 0.5] = x[x > 0.5]
    v = np.where(k > 2, k, 0)
    v[0] = x[0]
    u = np.concatenate((k, k))
    u[1] = x[1]
    return z[0] * x[0] + z[4] * x[1] + v[0] * x[2] + u[1] * x[3]


def kinds_of_all_that_fills(x, k):
    def doubled(whole):
        if whole:
            return k * 2
        return x * 2

    u = np.array([v * i for i, v in enumerate(x)])
    v = [x[i] if i > 2 else k[i] for i in range(4)]
    return u.sum() * doubled(k[0] > 2).sum() + v[0] * x[0] + v[3]


def no_maximum_is_nan(x, k):
    y = np.where(x > 0, x, np.nan)
    return np.fmax(x, np.nan).sum() + np.fmax(np.nan, x).sum() * 2 + np.fmin(y, x * 2).sum()


def the_shorter_first(x, k):
    return np.sum(np.correlate(x[:2], Y5(), "same") * Y5()) + np.sum(np.correlate(Y5(), x[:2], "same") * Y5())


def Y5():
    return np.array([1.0, 1.4, 1.7, 2.0, 2.2])


def truth_as_numbers(x, k):
    return (x > 0.5).astype(float).sum() * x[0] + float(x[1] > 0.5) * x[1]


@pytest.mark.parametrize(
    "f",
    [
        another_dtype_is_a_copy,
        the_same_dtype_is_not,
        parts_made_contiguous_are_copies,
        floats_into_new_integers,
        integers_first_and_floats_then,
        floats_at_places_of_new_integers,
        kinds_of_all_that_fills,
        no_maximum_is_nan,
        the_shorter_first,
        truth_as_numbers,
    ],
)
def test_values_and_gradients(f):
    value, gradient = nb.adjoint(f, argnums=0).value_and_grad(X.copy(), K.copy())
    assert value == pytest.approx(f(X.copy(), K.copy()), rel=1e-14)
    step, differences = 1e-6, []
    for i in range(X.size):
        more, less = X.copy(), X.copy()
        more[i], less[i] = more[i] + step, less[i] - step
        differences.append((f(more, K.copy()) - f(less, K.copy())) / (2 * step))
    np.testing.assert_allclose(gradient, differences, rtol=1e-7, atol=1e-7)


REFUSED = [
    "np.std(x, 0, np.float64, None, 1)",
    "x.var(None, None, None, 2)",
    "np.max(x, 0, None, False, 2.0)",
    "np.sum(x, 0, None, x)",
    "np.sum(x, 0, axis=0)",
    "np.trace(np.outer(x, x), 1)",
    "np.linalg.norm(x, ord=2, keepdims=x[0] > 0)",
    "np.concatenate((x, x), 0, None)[0]",
    "np.concatenate((x, x), dtype=np.float64)[0]",
    "math.log(x[0], 2, 3)",
    "math.hypot(x[0], x[1], x[2])",
    "x[len(x, x)]",
    "max(x[0])",
    "max()",
    "divmod(x[0])[0]",
    "abs(x[0], x[1])",
    "pow(x[0], 2, 5)",
    "np.exp(x, x)[0]",
    "x.sum(0, 1)",
    "x.trace(1)",
]


@pytest.mark.parametrize("body", REFUSED)
def test_arguments_that_are_not_understood_are_refused(body, tmp_path):
    source = f"import math\n\nimport numpy as np\n\n\ndef f(x):\n    return {body}\n"
    file = tmp_path / "calls.py"
    file.write_text(source, encoding="utf-8")
    namespace = runpy.run_path(str(file))
    with pytest.raises(TraceError, match=r"calls\.py, line 7"):
        nb.adjoint(namespace["f"]).value_and_grad(X)


def test_an_element_to_delete_that_is_not_there():
    def f(x):
        return np.delete(x, 9).sum()

    with pytest.raises(IndexError, match=r"np\.delete"):
        nb.adjoint(f).value_and_grad(X)
