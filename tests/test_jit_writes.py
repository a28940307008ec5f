"""Writes into arrays that a compiled function makes: as without compiling, in views, too, with their gradients."""

import numpy
import pytest

import nbgrad as nb
import nbgrad.np as np
from nbgrad.errors import TraceError

X = numpy.array([1.3, -0.4, 2.1, 0.7])
CONSTANT = np.array([1.0, 2.0, 3.0, 4.0])


def one_by_one(x):
    y = np.zeros(4)
    for k in range(4):
        y[k] = x[k] ** 2
    y[1:3] *= 2
    return np.sum(y * x)


def masked(x):
    y = x * 1.0
    y[y > 1] = 0.5
    y[numpy.array([True, False, True, False])] += 1.0
    return np.sum(y**3)


def recurrence(x):
    table = np.empty((3, 4))
    table[0] = x
    for k in range(1, 3):
        table[k, 1:] = table[k - 1, :-1] * x[1:]
        table[k, 0] = table[k - 1, -1]
    return np.sum(table**2)


def through_views(x):
    y = np.ones((2, 4))
    row, columns, turned = y[1], y[:, 1:3], y.T
    row *= x
    columns[...] = columns + x[:2].reshape(2, 1)
    turned[3] = 5 * x[3]
    flat = y.reshape(-1)
    flat[0] = x[0] * x[1]
    return np.sum(y**2) + np.sum(row * columns[:, :1]) + np.sum(turned[0])


def in_place(x):
    y = x.copy()
    z = y
    y += x
    y *= x
    y -= 1
    z /= 2
    return np.sum(y * z)


def by_functions(x):
    y = np.zeros((2, 2))
    np.fill_diagonal(y, x[0])
    np.put(y, [1, 2], x[1:3])
    out = np.empty(4)
    np.multiply(x, x, out=out)
    np.add(out, y.ravel(), out=out)
    np.copyto(y, x[2:])
    out.sort()
    return np.sum(out * x) + np.sum(y)


def read_before(x):
    y = np.zeros(4)
    early = np.sum(y * x) + np.sum(y + x)
    y[2] = x[2]
    return early + np.sum(y * x)


def twice(x):
    y = np.zeros(3)
    y[[0, 0, 2]] = x[:3]
    np.add.at(y, [1, 1], x[2:])
    return np.sum(y**2)


def of_whole_numbers(x):
    counts = np.zeros(4, dtype=int)
    counts[1:] += 2
    counts[0] = 7
    return np.sum(x * counts)


PROGRAMS = [one_by_one, masked, recurrence, through_views, in_place, by_functions, read_before, twice, of_whole_numbers]


@pytest.mark.parametrize("f", PROGRAMS)
def test_as_without_compiling(f):
    value, gradient = nb.value_and_grad(f)(X)
    compiled = nb.jit(nb.value_and_grad(f))
    for x in (X, X, X[::-1].copy()):
        value, gradient = nb.value_and_grad(f)(x)
        found = compiled(x)
        numpy.testing.assert_allclose(found[0], value, rtol=1e-13)
        numpy.testing.assert_allclose(found[1], gradient, rtol=1e-12)
    numpy.testing.assert_allclose(nb.jit(f)(X), f(np.array(X)), rtol=1e-13)
    numpy.testing.assert_allclose(nb.jit(nb.hessian(f))(X), nb.hessian(f)(X), rtol=1e-12, atol=1e-14)


# What is refused.


def into_an_argument(x):
    x[0] = 2.0
    return np.sum(x)


def into_a_view_of_an_argument(x):
    y = x[1:]
    y *= 2
    return np.sum(x)


def into_a_constant(x):
    CONSTANT[0] = x[0]
    return np.sum(CONSTANT)


def into_a_view_of_a_constant(x):
    CONSTANT[1:][0] = x[0]
    return np.sum(CONSTANT)


def of_values(x):
    y = x * 1
    y[y > 1] = x[:2]
    return np.sum(y)


@pytest.mark.parametrize(
    ("f", "match"),
    [
        (into_an_argument, "an array that it has not made"),
        (into_a_view_of_an_argument, "an array that it has not made"),
        (into_a_constant, "an array that it has not made"),
        (into_a_view_of_a_constant, "an array that it has not made"),
        (of_values, "takes a single number"),
    ],
)
def test_refused(f, match):
    with pytest.raises(TraceError, match=match):
        nb.jit(f)(X)
    assert CONSTANT.tolist() == [1.0, 2.0, 3.0, 4.0] and X[0] == 1.3


def test_what_broadcast_gives_is_not_written():
    def f(x):
        y = np.zeros(4) + x
        np.broadcast_to(y, (2, 4))[0] = 1.0
        return np.sum(y)

    with pytest.raises(ValueError, match="read-only"):
        nb.jit(f)(X)


# Random programs.

STATEMENTS = [
    "y[{i}] = x[{j}] * {c}",
    "y[1:] = y[:-1] + x[1:]",
    "y[{i}] += x[{j}]",
    "y[::2] *= x[:2]",
    "y = y * x",
    "y *= {c}",
    "v = y[1:3]",
    "v[0] = x[{j}]",
    "v += x[:2]",
    "m[1] = y",
    "m[:, {i}] = x[:2]",
    "m.T[{i}] = x[2:]",
    "y = m[0] + x",
    "w = m.reshape(-1)",
    "w[{i}] = x[{j}] * x[0]",
    "r = m[::-1]",
    "r[0] = r[0] * y",
    "m -= y",
    "y[y > {c}] = {c}",
    "z = y",
    "z = y.copy()",
    "z[-1] = x[{j}] ** 2",
]


def random_program(rng):
    lines = ["y = x * 1.5", "m = np.ones((2, 4))", "v = y[:2]", "w = m.ravel()", "r = m[:1]", "z = np.zeros(4)"]
    for _ in range(rng.integers(3, 9)):
        numbers = {"i": rng.integers(0, 4), "j": rng.integers(0, 4), "c": round(rng.uniform(0.5, 1.5), 2)}
        lines.append(STATEMENTS[rng.integers(len(STATEMENTS))].format(**numbers))
    lines.append("return np.sum(y**2) + np.sum(m * y) + np.sum(v) * np.sum(w[:3]) + np.sum(r * z)")
    return "def f(x):\n" + "\n".join(f"    {line}" for line in lines)


@pytest.mark.parametrize("seed", range(6))
def test_random_programs(seed):
    rng = numpy.random.default_rng(seed)
    for _ in range(3):
        source = random_program(rng)
        names = {"np": np}
        exec(source, names)
        value, gradient = nb.value_and_grad(names["f"])(X)
        found = nb.jit(nb.value_and_grad(names["f"]))(X)
        numpy.testing.assert_allclose(found[0], value, rtol=1e-12, err_msg=source)
        numpy.testing.assert_allclose(found[1], gradient, rtol=1e-11, atol=1e-12, err_msg=source)
