"""NumPy arrays that a compiled function finds outside are read at every call, as NDArrays are."""

import numpy as np
import pytest
from recording import marked, recorded, values

import nbgrad as nb
from nbgrad import nd

USES = {
    "x * D": lambda x, D: x * D,
    "D * x": lambda x, D: D * x,
    "nd.array(D)": lambda x, D: nd.dot(x, nd.array(D)),
    "np.dot": lambda x, D: np.dot(x, D),
    "np.add": lambda x, D: np.add(x, D),
    "maximum": lambda x, D: nd.maximum(x, D),
    "comparison": lambda x, D: x < D,
    "part": lambda x, D: x[1:] + D[1:],
    "turned round": lambda x, D: x - D[::-1],
    "another dtype": lambda x, D: x + nd.array(D, dtype="float32"),
    "twice": lambda x, D: (x + D) * D,
    "gradient": lambda x, D: nb.grad(lambda x: nd.sum(x * x * D))(x),
    "loop": lambda x, D: nd.contrib.foreach(lambda row, s: (row * D, s + row * D), x, nd.zeros((3,), dtype="float64"))[
        1
    ],
    "branch": lambda x, D: nd.contrib.cond(nd.sum(x) > 0, lambda: x * D, lambda: x),
}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("order", ["C", "strided", "swapped"])
def test_a_numpy_array_from_outside_is_read_at_every_call(name, order):
    D = np.array([1.0, 2.0, 3.0])
    if order == "strided":
        D = np.repeat(D, 2)[::2]
    elif order == "swapped":
        D = D.astype(">f8")

    def f(x):
        return USES[name](x, D)

    compiled = nb.jit(f)
    x = np.array([1.0, -2.0, 4.0])
    x = nd.array(np.array([x, x + 1]) if name == "loop" else x)
    for value in (1, 10, -3):
        D[:] = [value, 2, 3 * value]
        np.testing.assert_allclose(compiled(x).asnumpy(), f(x).asnumpy(), rtol=1e-6)
    x.attach_grad()
    D[:] = [5, 6, 7]
    recorded(lambda: compiled(x).sum()).backward()
    found = values(x.grad)
    recorded(lambda: f(x).sum()).backward()
    np.testing.assert_allclose(found, values(x.grad))


def test_arrays_that_the_function_makes_or_writes_are_constants():
    buffer = np.zeros(3)

    def f(x):
        t = np.ones(3)
        y = x + t
        t[:] = 5
        buffer[:] = 2
        z = y * t + buffer
        buffer[:] = 7
        return z + buffer

    compiled, x = nb.jit(f), nd.array(np.array([1.0, 2.0, 3.0]))
    expected = values(f(x))
    assert values(compiled(x)) == values(compiled(x)) == expected


def test_a_write_between_forward_and_backward_is_noticed():
    D = np.array([1.0, 2.0])
    shared = nd.from_dlpack(D)
    compiled, x = nb.jit(lambda x: x * x * D), marked([1.0, 2.0])
    y = recorded(compiled, x)
    shared[:] = 50
    with pytest.raises(nb.NBGradError, match="changed in place"):
        y.backward()
