"""Calls of functions as SciPy has them: of their arguments that are arrays of floats, and compiled."""

import numpy as np

import nbgrad as nb
from nbgrad import np as nbnp


def of_floats(args, f):
    """The arrays of floats among the arguments of a call, and the function of them alone."""
    places = [k for k, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype.kind == "f"]

    def called(*values):
        return f(*[values[places.index(k)] if k in places else a for k, a in enumerate(args)])

    return [args[k] for k in places], called


def compiled_is_eager(f, values, rtol=1e-12):
    """Check that value and gradient are the same under jit, of a weighted sum of what `f` gives."""

    def loss(*a):
        y = nbnp.ravel(f(*a))
        return nbnp.sum(y * np.cos(np.arange(y.size)))

    gradient = nb.value_and_grad(loss, argnums=tuple(range(len(values))))
    (value, found), (expected, reference) = nb.jit(gradient)(*values), gradient(*values)
    np.testing.assert_allclose(value, expected, rtol=rtol)
    for a, b in zip(found, reference, strict=True):
        np.testing.assert_allclose(a, b, rtol=100 * rtol, atol=rtol)
