"""Loops that call functions by the names of nbgrad.np and nbgrad.scipy.special, which are those of NumPy and SciPy."""

import numpy
import pytest
from loop_programs import agrees, uncompiled

import nbgrad as nb
import nbgrad.np as np
from nbgrad.scipy import special

X = numpy.array([0.5, 1.0, 2.0])


def in_loops(x):
    y = np.zeros(x.size)
    total = 0.0
    for i in range(x.size):
        y[i] = np.exp(x[i]) * np.sqrt(np.pi)
        total += y[i]
    return total + np.sum(y**2) + np.linalg.norm(x)


def special_functions(x):
    total = 0.0
    for v in x:
        total += special.j0(v) * special.gammaln(v)
    return total + np.sum(special.erf(x)) + np.max(np.where(x > 0.7, x, 0.0))


@pytest.mark.parametrize("f", [in_loops, special_functions])
def test_as_with_numpys(f):
    plain = {"np": numpy, "special": __import__("scipy.special").special}
    with uncompiled():
        found = nb.adjoint(f).value_and_grad(X)
        own = {name: f.__globals__[name] for name in plain}
        f.__globals__.update(plain)
        try:
            assert agrees(f, (X,))
            expected = nb.adjoint(f).value_and_grad(X)
        finally:
            f.__globals__.update(own)
    numpy.testing.assert_allclose(found[0], expected[0], rtol=1e-14)
    numpy.testing.assert_allclose(found[1][0], expected[1][0], rtol=1e-14)
