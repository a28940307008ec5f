"""NumPy arrays that a compiled function finds outside are read at every call, as NDArrays are."""

import numpy as np
import pytest
from recording import marked, recorded, values

import nbgrad as nb
from nbgrad import autograd, nd

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


class TestConstantsThatChangeBeforeTheFirstBackward:
    """The pullback is traced when it is needed: it must be that of the program whose value was given."""

    def recorded(self, f):
        x = nd.array([1.0, 2.0], dtype="float64")
        x.attach_grad()
        with autograd.record():
            return x, f(x)

    @pytest.mark.parametrize("order", [1, 2])
    @pytest.mark.parametrize(
        "f",
        [lambda x, c: c[0] * nd.sum(x * x * x), lambda x, c: nd.sum(c[1](x)), lambda x, c: nd.sum(x * x * (c[2] * 1))],
        ids=["number", "function", "array"],
    )
    def test_is_an_error(self, f, order):
        constants = [2.0, lambda x: x * x * x, np.array([1.0, 2.0])]
        program = nb.jit(lambda x: f(x, constants))
        program = program if order == 1 else nb.jit(lambda x: nb.grad(lambda z: f(z, constants))(x).sum())
        x, y = self.recorded(program)
        constants[:] = [3.0, lambda x: x * x, np.array([5.0, 2.0])]
        with pytest.raises(nb.errors.TraceError, match=r"that it reads from outside has changed since it was compiled"):
            y.backward()
        assert x.grad.asnumpy().tolist() == [0, 0]

    @pytest.mark.parametrize(
        "f",
        [
            lambda x: nd.sum(x * nd.array([1.0, 2.0]) * np.array([3.0, 1.0])),
            lambda x: nd.sum(nd.Dropout(x * x) * nd.random.uniform(shape=(2,))),
            lambda x: nd.sum(nb.grad(lambda z: nd.sum(nd.log(z) * z))(x) * float(np.float64(2))),
        ],
        ids=["arrays made anew", "random", "derivatives"],
    )
    def test_what_is_made_anew_and_equal_is_none(self, f):
        program = nb.jit(f)
        _, y = self.recorded(program)
        y.backward()
        x, y = self.recorded(program)
        y.backward()
        assert np.isfinite(x.grad.asnumpy()).all()

    def test_numpy_arrays_are_as_they_were_at_the_call(self):
        outside = np.array([2.0, 2.0])
        program = nb.jit(lambda x: nd.sum(outside * x * x))
        x, y = self.recorded(program)
        y.backward()
        assert x.grad.asnumpy().tolist() == [4, 8]
        x, y = self.recorded(program)
        outside[:] = 5.0
        with pytest.raises(nb.errors.InPlaceError, match="a NumPy array from outside was changed between the call"):
            y.backward()
        x, y = self.recorded(program)
        y.backward()
        assert x.grad.asnumpy().tolist() == [10, 20]
