"""Arrays of unsigned integers: indices, bounds of loops, labels and pixels."""

import numba
import numpy as np
import pytest
from loop_checks import check_derivatives
from loop_programs import agrees, uncompiled

import nbgrad as nb
from nbgrad.errors import TraceError

X = np.array([0.3, 0.7, 1.2, 0.5, 0.9, 0.8])
INDICES, STARTS, COLUMNS = [3, 1, 4, 0], [0, 2, 2, 6], [0, 3, 1, 2, 5, 4]
DTYPES = ["uint8", "uint16", "uint32", "int8", "int32"]


def gathered(x, index):
    total = 0.0
    for i in range(index.size):
        total += x[index[i]] ** 2 * (i + index[i] + 2) - x[index[i] // 2] * (index[i] % 3)
    return total


def scattered(x, index):
    y = np.zeros(x.size)
    y[index] += x[: index.size] ** 2
    for k in index:
        y[k] *= x[k + 1] * (k + index[0])
    return y


def loops_to_elements(x, index):
    total = 0.0
    for j in range(index.size):
        product = 1.0
        for i in range(index[j]):
            product *= x[i] + i
        total += product**2
    return total


def rows(x, index, starts, columns):
    y = np.zeros(starts.size - 1)
    for j in range(starts.size - 1):
        for k in range(starts[j], starts[j + 1]):
            y[j] += x[k] * x[columns[k]]
        y[j] += np.sum(x[starts[j] : starts[j + 1]] ** 2)
    return y


def pixels(x, image):
    total = 0.0
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            if image[i, j] > 1 and image[i, j] - 3 != -2:
                total += x[i] * (image[i, j] / 255.0) ** 2 * x[j]
    return total + np.mean(image) * x[0] + np.sum(image) * x[1] - np.max(image) * x[2]


def labels(x, index):
    sums, counts = np.zeros(5), np.zeros(5, np.int64)
    for i in range(index.size):
        sums[index[i]] += x[i]
        counts[index[i]] += 1
    first = index.copy()
    first[0] = first[1]
    return np.sum((sums / np.maximum(counts, 1)) ** 2) + x[first[0]] * x[np.argmax(index)]


def converted(x, index):
    total = 0.0
    for i in range(1, index.size):
        total += x[i] ** 2 * (np.int64(index[i]) - np.int64(index[i - 1])) + x[i] * (index[i] - float(index[0]))
    return total - np.sum(x[:4] * index.astype(np.int64) * -1)


def sparse_product(x, starts, columns):
    y = np.empty(starts.size - 1)
    for i in range(starts.size - 1):
        row = columns[starts[i] : starts[i + 1]]
        values = x[starts[i] : starts[i + 1]]
        y[i] = values @ x[row] + np.sum(values) * len(row)
    return y


CASES = {
    sparse_product: (STARTS, COLUMNS),
    gathered: (INDICES,),
    scattered: (INDICES,),
    loops_to_elements: (INDICES,),
    rows: (INDICES, STARTS, COLUMNS),
    pixels: ([[3, 100], [4, 0]],),
    labels: (INDICES,),
    converted: (INDICES,),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("f", CASES)
def test_as_numba(f, dtype):
    args = (X, *(np.array(a, dtype) for a in CASES[f]))
    with uncompiled():
        agrees(f, args)
        np.testing.assert_allclose(nb.adjoint(f).vjp(*args).value, numba.njit(f)(*args))


def test_compiled():
    for f in (rows, pixels):
        agrees(f, (X, *(np.array(a, np.uint32) for a in CASES[f])))
    check_derivatives(gathered, X, np.array(INDICES, np.uint8))
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        nb.adjoint(gathered).value_and_grad(X, np.array([9], np.uint16))


def difference(x, k):
    return x[0] * (k[1] - k[0])


def of_clipped(x, k):
    return x[0] * (max(k[1], 1) - min(k[0], 7))


def of_arrays(x, k):
    return np.sum(x[:3] * (k[1:] - k[:-1]))


def of_sums(x, k):
    n = np.sum(k[:2])
    return x[0] * (n - np.sum(k))


def of_names(x, k):
    m, n = k[0], k[1]
    return x[m] * (n - m)


def of_counters(x, k):
    total = 0.0
    for i in range(k[0]):
        total += x[i] * (i - k[1])
    return total


def negative(x, k):
    return x[0] * -k[0]


def complement(x, k):
    return x[0] * ~k[0]


def product(x, k):
    return x[0] * (k[0] * k[1])


def sums_in_an_array(x, k):
    twice = k + k
    return np.sum(x[:4] * twice)


def copy_that_is_written(x, k):
    n = k.copy()
    for i in range(n.size):
        n[i] = 100 * n[i]
    return np.sum(x[:4] * n)


def written(x, k):
    k[0] = x.size - 1
    return x[k[0]]


WRAPPING = [
    difference,
    of_clipped,
    of_arrays,
    of_sums,
    of_names,
    of_counters,
    negative,
    complement,
    product,
    sums_in_an_array,
    copy_that_is_written,
    written,
]


@pytest.mark.parametrize("f", WRAPPING)
def test_what_wraps_around_is_refused(f):
    with pytest.raises(TraceError, match=r"of unsigned integers in .*as in np\.int64\(a\) - np\.int64\(b\)"):
        nb.adjoint(f).value_and_grad(X, np.array(INDICES, np.uint8))
    with uncompiled():
        nb.adjoint(f).vjp(X, np.array(INDICES))
