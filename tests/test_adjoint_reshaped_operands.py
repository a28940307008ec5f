"""Reshaped arrays as operands of arithmetic: their elements are found without divisions, whatever the lengths are."""

import numpy as np
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb

RNG = np.random.default_rng(5)
CUBE, KERNEL = RNG.uniform(0.2, 0.9, (2, 5, 5, 3)), RNG.uniform(0.2, 0.9, (2, 2, 3, 4))


def convolution(image, weights):
    """Lengths of `image` are those of `weights`, which only a call tells."""
    k, channels = weights.shape[0], image.shape[3]
    height, width = image.shape[1] - k + 1, image.shape[2] - k + 1
    out = np.empty((image.shape[0], height, width, weights.shape[3]))
    for i in range(height):
        for j in range(width):
            patch = image[:, i : i + k, j : j + k, :].copy()
            terms = np.reshape(patch, (image.shape[0], k, k, channels, 1)) * np.reshape(
                weights, (1, k, k, channels, weights.shape[3])
            )
            out[:, i, j, :] = np.sum(np.sum(np.sum(terms, axis=1), axis=1), axis=1)
    return out


def merged(image, weights):
    n, k, _, c = image.shape
    out = np.empty((n, 3, weights.shape[3]))
    for i in range(3):
        out[:, i, :] = np.sum(
            np.reshape(image[:, :2, :2, :].copy(), (n, 4 * c, 1)) * np.reshape(weights, (1, 4 * c, weights.shape[3])),
            axis=1,
        ) * (i + k)
    return out


def other_way_round(image, weights):
    """As many axes, with other lengths."""
    n, m = weights.shape[2], weights.shape[3]
    total = 0.0
    for i in range(2):
        a = weights[i, 1].copy().reshape(m, n) * image[0, :m, :n, 0] + i
        total += np.sum(a * a)
    return total


def with_axes_of_one(image, weights):
    row = image[0, 0, :, 0].copy()
    total = np.zeros((row.size, row.size))
    for i in range(3):
        total += row.reshape(row.size, 1) * np.reshape(row, (1, row.size)) - i * row.reshape((1, 1, -1))[0]
        row[0] += total[0, 1]
    return total


def written_between(image, weights):
    """What is reshaped changes in the loop, and is written under its other shape."""
    a = image[0].copy()
    b = a.reshape(a.shape[0] * a.shape[1], a.shape[2])
    total = 0.0
    for i in range(3):
        total += np.sum(np.reshape(a, (a.shape[1], a.shape[0], a.shape[2])) * weights[0, 0, 0, 1])
        b[i, 0] *= total
        a[i, 1, 1] += b[2 * i, 2]
    return total * np.sum(b * b)


def parts(image, weights):
    """Slices of reshaped arrays."""
    n, k, _, c = image.shape
    flat = image.reshape(n, k * k, c)
    total = 0.0
    for i in range(1, 4):
        total += np.sum(flat[:, i:, 0] * np.reshape(image, (n, k * k, c))[:, : k * k - i, 1])
    return total


def weights_that_change(image, weights):
    total, weights = 0.0, weights.copy()
    for i in range(3):
        total += np.sum(np.reshape(weights, (weights.shape[1], weights.shape[0], 12)) * image[0, 0, 0, i % 3])
        weights[0, 0, 0, 0] += total
    return total


PROGRAMS = [
    convolution, merged, other_way_round, with_axes_of_one, written_between, parts, weights_that_change
]  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_derivatives(f):
    with uncompiled():
        agrees(f, (CUBE, KERNEL))


def test_lengths_that_only_multiply_to_the_same():
    """(2, 3, 2) reshaped to (3, 2, 2): the copy that needs divisions."""

    def f(a, b):
        n, k = b.shape[0], b.shape[1]
        total = 0.0
        for i in range(2):
            total += np.sum(np.reshape(a, (n, k, 2)) * b * (i + 1.0))
        return total

    with uncompiled():
        agrees(f, (RNG.normal(size=(2, 3, 2)), RNG.normal(size=(3, 2, 2))))
        agrees(f, (RNG.normal(size=(3, 2, 2)), RNG.normal(size=(3, 2, 2))))


def test_a_wrong_number_of_elements_is_an_error_before_any_copy():
    def f(a, b):
        return np.sum(np.reshape(a, (b.shape[0], b.shape[1])) * b)

    with uncompiled(), pytest.raises(ValueError, match="has another number of elements"):
        nb.adjoint(f).value_and_grad(np.ones((2, 3)), np.ones((3, 3)))


def test_an_operand_that_is_never_evaluated_may_have_any_lengths():
    def f(a, b, n):
        total = a[0, 0]
        for i in range(n):
            if b[0, 0] > 0.0:
                total += np.sum(np.reshape(a, (b.shape[0], b.shape[1])) * b) * i
        return total

    with uncompiled():
        for a, b, n in ((np.ones((2, 3)), np.ones((4, 3)), 0), (np.ones((2, 3)), -np.ones((4, 3)), 2)):
            assert nb.adjoint(f).value_and_grad(a, b, n)[0] == 1.0
            with pytest.raises(ValueError, match="has another number of elements"):
                nb.adjoint(f).value_and_grad(a, abs(b), 1)
        agrees(f, (RNG.normal(size=(2, 6)), RNG.uniform(0.2, 0.9, (4, 3)), 3))


def test_what_a_loop_does_not_change_is_copied_before_it():
    adj = nb.adjoint(convolution)
    assert not [name for name in adj.report(CUBE, KERNEL) if name.startswith("weights")]


def a_column(x):
    z = np.array([0.0, 0.5, 1.0]).reshape(3, -1)
    return np.sum((x - z) ** 2)


def a_row(x):
    z = np.array([0.0, 0.5, 1.0, x[0, 0]]).reshape(-1, 4)
    y = np.zeros((3, 4))
    y[:] = x * z
    return np.sum(y * y)


def columns_in_a_loop(x):
    w = np.zeros((2, 2))
    w[0, 1] = 2.0
    total = np.sum(w.reshape(-1, 2, 2) * x[0, 0])
    for t in range(3):
        q = np.ones(3)
        q[t] = x[t, 0]
        total += np.sum(x * q.reshape(3, -1))
    return total


def too_many_rows(x):
    return np.sum(np.array([0.0, 0.5, 1.0]).reshape(4, -1)) * x[0, 0]


def another_array_of_the_name(x):
    z = np.array([1.0, x[0, 0], 2.0])
    total = np.sum(x * z.reshape(3, -1))
    z = np.ones(3 * x.shape[1]) * x[0, 1]
    return total + np.sum(z.reshape(3, -1) * x)


@pytest.mark.parametrize("f", [a_column, a_row, columns_in_a_loop, another_array_of_the_name])
def test_inferred_lengths_of_one_broadcast(f):
    agrees(f, (np.random.default_rng(2).normal(size=(3, 4)),))


def test_inferred_lengths_that_do_not_fit():
    with pytest.raises(ValueError, match="another number of elements"):
        nb.adjoint(too_many_rows).value_and_grad(np.ones((3, 4)))
