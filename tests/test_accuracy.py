"""Every scalar function against mpmath: the rows of `accuracy`."""

import importlib
import pkgutil

import accuracy
import numpy as np
import pytest

from nbgrad.vmath import beta, psi

ROWS = {
    row.name: row
    for module in pkgutil.iter_modules(accuracy.__path__)
    for row in importlib.import_module(f"accuracy.{module.name}").ROWS
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ROWS)
def test_largest_error(name, dtype):
    row = ROWS[name]
    error, where = accuracy.measure(row, dtype)
    bound = row.ulp64 if dtype == "float64" else row.ulp32
    assert error <= bound, f"{name}{where} is {error:.3f} ulp off in {dtype}"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.edges])
def test_edges(name, dtype):
    row = ROWS[name]
    for arguments, expected in row.edges:
        point = arguments if isinstance(arguments, tuple) else (arguments,)
        got = accuracy.call(row.function, *point, dtype=dtype)[0]
        want = np.dtype(dtype).type(expected)
        assert (np.isnan(got) and np.isnan(want)) or (got == want and np.signbit(got) == np.signbit(want)), (
            f"{name}{point} is {got}, expected {want}"
        )


def test_betaln_is_symmetric():
    a = 10 ** np.random.default_rng(3).uniform(-8, 8, (2, 400))
    np.testing.assert_array_equal(accuracy.call(beta.betaln, *a), accuracy.call(beta.betaln, *a[::-1]))


def test_polygamma_of_order_0_is_digamma():
    x = np.random.default_rng(4).uniform(-5, 20, 200)
    np.testing.assert_array_equal(accuracy.call(psi.polygamma, np.zeros(200), x), accuracy.call(psi.digamma, x))
